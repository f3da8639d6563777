"""`rostra history stays`: who saw whom in which group, from when until when."""

from typing import TYPE_CHECKING, Annotated

import typer

from rostra.cli.common import remark
from rostra.cli.history.asking import CLOCKS, Group, SeenFrom, members_of, the_group, the_place
from rostra.cli.history.common import asks
from rostra.names import parse_subject

if TYPE_CHECKING:
    from rostra.history.archive import Archive, Question
    from rostra.history.narrow import Frame


@asks(nobody="no such stay; leave out an option to see more")
def stays(
    group: Group = None,
    member: Annotated[
        str | None,
        typer.Option("--member", "-m", metavar="ENDPOINT", help="Only this one, in any incarnation."),
    ] = None,
    seen_from: SeenFrom = "world",
    home: Annotated[
        bool, typer.Option("--home", help="The truth: what each member's own agent accepted.")
    ] = False,
) -> "Question":
    """Stays: one row for each unbroken stay of a member in a group, as each host saw it.

    A stay that lasts has no end. One that ended "unknown" was seen by a host whose journal ends there.

    Examples:

        rostra history stays -g chess -s eu.paris.h1 -t tables
        rostra history stays --home -m eu.paris.h1/ann -t tables
        rostra history stays -o parquet --to stays.parquet -t tables
    """

    def question(archive: "Archive") -> "Frame":
        from rostra.history.narrow import about, having, seen_inside

        found = members_of(archive, group) if home else archive.stays
        if group is not None:
            found = having(found, group=the_group(archive, group))
        if member is not None:
            found = about(found, parse_subject(member))
        if seen_from != "world":
            found = seen_inside(found, the_place(archive, seen_from))
        remark(CLOCKS)
        return found.orderBy("world", "group", "member", "joined_at", "seen_by")

    return question
