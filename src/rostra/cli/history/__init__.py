"""`rostra history`: what happened, asked of the journals on Spark. One file per command, as everywhere.

Nothing here imports Spark; `rostra.history` does, when a command is run.
"""

from importlib import import_module
from typing import Final

import typer

from rostra.cli.house import HouseGroup

COMMANDS: Final[tuple[str, ...]] = (
    *("who", "stays", "size", "spread", "churn", "convergence", "disagreement"),
    *("availability", "flaps", "traffic", "why", "audit", "report"),
    *("ingest", "compact", "rebuild", "export", "sample", "stop"),
)
"""Files of this folder, in the order of the help."""

HELP: Final = """What happened: who was in a group then, as seen from where, why, and were the promises kept?

Journals are what nodes write (docs/journal.md). Questions are answered from journals directly, or faster from
the tables that ingest makes of them. Needs Java 17 and: pip install 'rostra[spark]'

The first question starts a Spark on this machine, which later ones use; it ends when nobody asks.

Examples:

    rostra history who chess --at 03:12 --seen-from eu -j /var/lib/rostra/journal
    rostra history ingest -j /var/lib/rostra/journal -t /srv/tables
    rostra history audit -t /srv/tables
    rostra history report -O report.html -t /srv/tables
"""


def register(main: typer.Typer) -> None:
    app = typer.Typer(cls=HouseGroup, no_args_is_help=True, help=HELP)
    for command in COMMANDS:
        import_module(f"rostra.cli.history.{command}").register(app)
    main.add_typer(app, name="history", rich_help_panel="The world")
