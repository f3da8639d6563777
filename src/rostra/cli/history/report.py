"""`rostra history report`: one page to look at."""

from pathlib import Path
from typing import Annotated

import typer

from rostra.cli.common import EXIT_OK, remark
from rostra.cli.history.asking import events_of
from rostra.cli.history.common import (
    JournalDir,
    Master,
    Remote,
    TablesDir,
    Where,
    archive_at,
    say_what_is_left_out,
)
from rostra.cli.history.times import From, Until
from rostra.errors import BadInput


def report(
    out: Annotated[Path, typer.Option("--out", "-O", metavar="FILE", help="Where the page goes.")] = Path(
        "report.html"
    ),
    since: From = None,
    until: Until = None,
    tables: TablesDir = None,
    journal: JournalDir = None,
    master: Master = None,
    remote: Remote = None,
) -> int:
    """Draw a history on one page: sizes, churn, convergence, spread, availability, flaps, suspicions, traffic
    against what the hierarchy had to send, and whether the promises were kept.

    The page is one HTML file without scripts or links to anywhere; it has a light and a dark look.

    Examples:

        rostra history report -O report.html -t tables
        rostra history report --from -1d -O today.html -j journal
    """
    if not out.parent.is_dir():
        raise BadInput(f"there is no directory {out.parent}", fix="make it, or choose another --out")
    from rostra.history.progress import progress
    from rostra.history.report import report as draw
    from rostra.history.tuning import suit

    with archive_at(Where(tables, journal, master, remote)) as archive:
        events = events_of(archive, None, since, until)
        with progress(archive.spark, "drawing"):
            suit(archive.spark, events)
            page = draw(events, archive.left_out, archive.contradicted)
    try:
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"cannot write {out}: {error.strerror}", fix="choose another --out") from None
    say_what_is_left_out(archive)
    remark(f"wrote {out}: open it in a browser")
    return EXIT_OK
