"""`rostra history who`: who was in a group at a time, as seen from a place."""

from typing import TYPE_CHECKING, Annotated

import typer

from rostra.cli.common import remark
from rostra.cli.history.asking import CLOCKS, SeenFrom, the_group, the_place, the_time
from rostra.cli.history.common import Format, JournalDir, Master, Output, Remote, TablesDir, To, Where, answer
from rostra.cli.history.times import At, say_time

if TYPE_CHECKING:
    from rostra.history.archive import Archive
    from rostra.history.narrow import Frame


def who(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="chess, or chess@eu if there are several.")],
    at: At = None,
    seen_from: SeenFrom = "world",
    tables: TablesDir = None,
    journal: JournalDir = None,
    master: Master = None,
    remote: Remote = None,
    output: Format = Output.TABLE,
    to: To = None,
) -> int:
    """Who was in a group at a time, as the hosts of a place saw it.

    Every host that followed the group is asked for what it saw then. If they differed, a member is seen by
    some of them only, and it says by whom not. Where nobody followed the group, nobody can tell.

    Examples:

        rostra history who chess -j journal
        rostra history who chess@eu --at 03:12 --seen-from eu.fr -t tables
        rostra history who chess --at 'yesterday 03:12' -o json -t tables
    """
    asked = 0

    def question(archive: "Archive") -> "Frame":
        nonlocal asked
        from rostra.history.narrow import few
        from rostra.history.questions.who import followers, who_stayed

        name, place, then = the_group(archive, group), the_place(archive, seen_from), the_time(archive, at)
        asked_of, asked = few(followers(archive.table("follows"), name, then, place, archive.lived))
        many, first = archive.catalogue.open_ends(then)
        if first is not None:
            remark(
                f"{many} of the journals end before that without a closing mark, the first at "
                f"{say_time(first)}: what was seen after it, nobody can tell"
            )
        if asked:
            remark(f"as seen by {asked} host{'s' * (asked != 1)} in {place}; {CLOCKS}")
        else:
            remark(
                f"cannot tell: nobody in {place} followed {name} then, or its journal does not reach so far"
            )
        return who_stayed(archive.stays_of(name), asked_of, name, then).orderBy("world", "member")

    def nobody() -> str:
        return "nobody was seen in it" if asked else "which is not the same as nobody"

    return answer(question, Where(tables, journal, master, remote), output, to, nobody=nobody)
