"""`rostra history rebuild`: tables made anew from the events."""

from typing import Annotated

import typer

from rostra.cli.common import EXIT_OK, remark
from rostra.cli.history.common import Master, TablesDir, changing, tables_to_change


def rebuild(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="stays, notices, suspicions, traffic, deliveries, views, follows or members.",
            show_default="all of them",
        ),
    ] = None,
    tables: TablesDir = None,
    master: Master = None,
) -> int:
    """Make tables anew from the events that were received.

    Rows that arrived after their hole was given up are in the events, but not in the stays:
    rostra history ingest --status says if there are any. Readers of the tables are not disturbed.
    If this is killed, some tables may be done: call it again.

    Examples:

        rostra history rebuild stays -t /srv/tables
        rostra history rebuild -t /srv/tables
    """
    found = tables_to_change(tables)
    from rostra.history.rebuild import REBUILT, check
    from rostra.history.rebuild import rebuild as make_anew

    chosen = check(names or REBUILT)
    with changing(found, master, "rebuilding") as spark:
        make_anew(spark, found, chosen, tell=lambda table, rows: remark(f"{table}: {rows:,} rows"))
    return EXIT_OK
