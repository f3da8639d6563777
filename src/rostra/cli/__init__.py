"""The `rostra` command: one file per command, each of which registers itself.

An agent must not wait for the simulator or the dashboard to be imported, so only the command that was asked
for is.
"""

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

import typer

COMMANDS: Final = ("agent", "server", "sim", "up")


def application(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    app = typer.Typer(
        name="rostra",
        help="Named groups of programs over many sites: who is in them, why they left, and what happened.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_rostra)
    for command in commands:
        import_module(f"rostra.cli.{command}").register(app)
    return app


def _rostra() -> None:
    """Without this, a program with one command would have no command names at all."""


def main() -> None:
    asked = [word for word in sys.argv[1:2] if word in COMMANDS]
    application(asked or COMMANDS)()


def __getattr__(name: str) -> Any:
    """`rostra.cli.app`: all commands, for whoever wants to look at them."""
    if name == "app":
        return application()
    raise AttributeError(f"module 'rostra.cli' has no attribute {name!r}")
