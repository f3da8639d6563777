"""`rostra history availability`: what share of the time it was there."""

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


@asks(nobody="nothing of that kind was there")
def availability(
    what: Annotated[
        str | None, typer.Option("--what", metavar="KIND", help="Only: endpoint, host, domain or link.")
    ] = None,
    below: Annotated[
        float, typer.Option("--below", metavar="SHARE", min=0, max=1, help="Only shares below this one.")
    ] = 1.0,
    since: From = None,
    until: Until = None,
) -> "Question":
    """Availability of endpoints, hosts, domain servers and links, the worst first.

    Examples:

        rostra history availability --what host -t tables
        rostra history availability --below 0.999 -t tables
    """

    def question(archive: "Archive") -> "Frame":
        from rostra.history.narrow import having
        from rostra.history.questions.availability import availability as ask

        if what not in (None, "endpoint", "host", "domain", "link"):
            raise BadInput(f"nothing is called {what!r} here", fix="one of: endpoint, host, domain, link")
        remark(CLOCKS)
        found = having(ask(events_of(archive, None, since, until)), what=what)
        if below < 1.0:
            found = found.where(f"share < {below}")
        return found.orderBy("world", "share", "what", "name", "seen_by")

    return question
