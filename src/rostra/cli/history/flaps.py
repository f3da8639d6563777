"""`rostra history flaps`: the least stable members, links and domains."""

from typing import TYPE_CHECKING, Annotated

import typer

from rostra.cli.common import remark
from rostra.cli.history.asking import CLOCKS, events_of
from rostra.cli.history.common import asks
from rostra.cli.history.times import From, Until
from rostra.errors import BadInput

if TYPE_CHECKING:
    from rostra.history.archive import Archive, Question
    from rostra.history.narrow import Frame


@asks(nobody="nothing was unstable")
def flaps(
    what: Annotated[
        str | None, typer.Option("--what", metavar="KIND", help="Only: member, link or domain.")
    ] = None,
    first: Annotated[int, typer.Option("--first", "-n", metavar="N", min=1, help="Only so many.")] = 20,
    since: From = None,
    until: Until = None,
) -> "Question":
    """Flaps: who came and went most often, which links were given up or overdue, which domains were lost.

    Examples:

        rostra history flaps -t tables
        rostra history flaps --what link --from -1d -n 5 -t tables
    """

    def question(archive: "Archive") -> "Frame":
        from rostra.history.narrow import having
        from rostra.history.questions.flaps import flaps as ask

        if what not in (None, "member", "link", "domain"):
            raise BadInput(f"nothing is called {what!r} here", fix="one of: member, link, domain")
        remark(CLOCKS)
        found = having(ask(events_of(archive, None, since, until)), what=what)
        order = ["times", "suspected", "world", "what", "name", "seen_by"]
        return found.orderBy(order, ascending=[False, False, True, True, True, True]).limit(first)

    return question
