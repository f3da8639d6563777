"""`rostra history size`: how large groups were, and when that changed."""

from typing import TYPE_CHECKING, Annotated

import typer

from rostra.cli.common import remark
from rostra.cli.history.asking import CLOCKS, Group, members_of, the_group, the_place
from rostra.cli.history.common import asks

if TYPE_CHECKING:
    from rostra.history.archive import Archive, Question
    from rostra.history.narrow import Frame


@asks(nobody="no group ever had a member")
def size(
    group: Group = None,
    every: Annotated[
        float | None,
        typer.Option(
            "--every", metavar="SECONDS", min=0.001, help="One row for each stretch; else each change."
        ),
    ] = None,
    seen_from: Annotated[
        str | None,
        typer.Option(
            "--seen-from", "-s", metavar="PLACE", help="As each host in a place saw it; else at home."
        ),
    ] = None,
) -> "Question":
    """Size of groups over time: counted at home, or as each host of a place saw it.

    Examples:

        rostra history size -g chess -t tables
        rostra history size -g chess --every 3600 -o csv -t tables
        rostra history size -g chess --seen-from eu -t tables
    """

    def question(archive: "Archive") -> "Frame":
        from rostra.history.narrow import having, seen_inside
        from rostra.history.questions.size import size as ask
        from rostra.history.questions.size import size_seen

        if seen_from is None:
            sizes = ask(members_of(archive, group), every)
        else:
            stays = having(archive.stays, group=None if group is None else the_group(archive, group))
            sizes = size_seen(seen_inside(stays, the_place(archive, seen_from)), every)
        remark(CLOCKS)
        return sizes.orderBy("world", "group", "seen_by", "at")

    return question
