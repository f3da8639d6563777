"""`rostra history`: what happened, asked of the journals on Spark. One file per command, as everywhere.

Nothing here imports Spark; `rostra.history` does, when a command is run.
"""

from importlib import import_module
from typing import Final

import typer

from rostra.cli.common import command
from rostra.cli.house import HouseCommand, HouseGroup

COMMANDS: Final[tuple[str, ...]] = (
    *("who", "stays", "size", "spread", "churn", "convergence", "disagreement"),
    *("availability", "flaps", "traffic", "why", "audit", "report"),
    *("ingest", "compact", "rebuild", "export", "stop"),
)
"""Files of this folder, each with a function of its name, in the order of the help."""

HELP: Final = """What happened: who was in a group then, as seen from where, why, and were the promises kept?

Journals are what nodes write (docs/journal.md). Questions are answered from journals directly, or faster from
the tables that ingest makes of them. Needs Java 17 and: pip install 'rostra[spark]'

The first question starts a Spark on this machine, which later ones use; it ends after ten idle minutes.

Examples:

    rostra history who chess --at 03:12 --seen-from eu -j /var/lib/rostra/journal
    rostra history ingest -j /var/lib/rostra/journal -t /srv/tables
    rostra history audit -t /srv/tables
    rostra history report -O report.html -t /srv/tables
"""


def register(main: typer.Typer) -> None:
    app = typer.Typer(cls=HouseGroup, no_args_is_help=True, help=HELP)
    for name in COMMANDS:
        asked = getattr(import_module(f"rostra.cli.history.{name}"), name)
        app.command(cls=HouseCommand)(command(asked))
    main.add_typer(app, name="history", rich_help_panel="The world")
