"""`rostra history who`: who was in a group at a time, as seen from a place."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from rostra.cli.common import remark
from rostra.cli.history.asking import CLOCKS, SeenFrom, the_group, the_place, the_time
from rostra.cli.history.common import asks
from rostra.cli.history.times import At, say_time

if TYPE_CHECKING:
    from rostra.history.archive import Archive, Question
    from rostra.history.narrow import Frame


@asks()
def who(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="chess, or chess@eu if there are several.")],
    at: At = None,
    seen_from: SeenFrom = "world",
    view: Annotated[
        int | None,
        typer.Option("--view", metavar="N", min=0, help="Of an agreed group: the members of view N."),
    ] = None,
) -> "tuple[Question, Callable[[], str]]":
    """Who was in a group at a time, as the hosts of a place saw it.

    The answer is what the hosts that followed the group saw then; where they differed, it names the hosts
    that did not see a member. If no host there followed the group, the answer is "cannot tell". Of an
    agreed group it is the last view that each host had, with ranks and fence, or the view of a number.

    Examples:

        rostra history who chess -j journal
        rostra history who chess@eu --at 03:12 --seen-from eu.fr -t tables
        rostra history who chess --at 'yesterday 03:12' -o json -t tables
        rostra history who ledger --view 14 -t tables
    """
    asked = 0

    def question(archive: "Archive") -> "Frame":
        nonlocal asked
        from rostra.history.narrow import few
        from rostra.history.questions.views import who_agreed, who_view
        from rostra.history.questions.who import followers, who_stayed

        name, place = the_group(archive, group), the_place(archive, seen_from)
        if view is not None:
            asked = 1
            return who_view(archive.table("views"), name, view, place)
        then = the_time(archive, at)
        asked_of, rows = few(followers(archive.table("follows"), name, then, place, archive.lived))
        asked = rows.num_rows
        many, first = archive.catalogue.open_ends(then)
        if first is not None:
            remark(
                f"{many} of the journals end before that without a closing mark, the first at "
                f"{say_time(first)}: cannot tell what was seen after it"
            )
        if asked:
            remark(f"as seen by {asked} host{'s' * (asked != 1)} in {place}; {CLOCKS}")
        elif (agreed := few(who_agreed(archive.table("views"), name, then, place)))[1].num_rows:
            remark(f"as the members of {name} in {place} were given it; {CLOCKS}")
            return agreed[0].orderBy("world", "view", "rank")
        else:
            remark(
                f"cannot tell: no host in {place} followed {name} then, or its journal does not reach so far"
            )
        return who_stayed(archive.stays_of(name), asked_of, name, then).orderBy("world", "member")

    def nobody() -> str:
        if view is not None:
            return f"no member in {seen_from} was given view {view} of it, as far as the journals go"
        return "no member was seen in it" if asked else "which is not the same as no members"

    return question, nobody
