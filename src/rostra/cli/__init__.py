"""The `rostra` command: one file per command, each of which registers itself.

Only the module of the command that was called is imported: an agent must not wait for the simulator's or the
dashboard's.
"""

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from rostra.cli.house import HouseGroup

COMMANDS: Final = (
    *("join", "leave", "watch", "members", "resolve", "send", "tail"),
    *("lead", "views", "set", "group", "name", "rehearse"),
    *("groups", "domains", "why", "debug"),
    *("agent", "server", "drain", "hierarchy", "config", "authority"),
    *("up", "lab", "sim", "sweep", "history"),
    *("completion", "version"),
)

HELP: Final = """Named groups of programs over many sites: who is in them, why they left, and what happened.

Answers go to stdout, remarks to stderr. -o json and -o jsonl are for programs; NO_COLOR is respected.

Examples:

    rostra up                         a whole small world on this machine
    rostra members lounge             who is in a group
    rostra watch lounge -o jsonl      and how that changes
    echo hi | rostra send chat        send a message; rostra tail chat prints it
    rostra why eu.paris.h1/ann        why it is gone
"""


class _Root(HouseGroup):
    """All names are known before their commands are imported."""

    @property
    def names(self) -> Iterable[str]:
        return COMMANDS


def application(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    app = typer.Typer(
        name="rostra", cls=_Root, help=HELP, add_completion=False, pretty_exceptions_enable=False
    )
    app.callback()(_rostra)
    for command in commands:
        import_module(f"rostra.cli.{command}").register(app)
    return app


def _rostra(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version.",
            is_eager=True,
            callback=lambda is_asked: _version(is_asked),
        ),
    ] = False,
) -> None:
    """Without this, a program with one command would have no command names at all."""


def _version(is_asked: bool) -> None:
    if is_asked:
        from rostra.cli.version import version_line

        typer.echo(version_line())
        raise typer.Exit


def main() -> None:
    for name in ("stdin", "stdout", "stderr"):
        if (
            getattr(sys, name) is None
        ):  # closed by the shell; else the next file or socket would take its place
            setattr(sys, name, open(os.devnull, "r+"))  # noqa: SIM115
    if "_ROSTRA_COMPLETE" in os.environ:
        from rostra.cli.completion import begin

        begin()
    application(_needed(sys.argv[1:]))(prog_name="rostra")


def _needed(words: list[str]) -> tuple[str, ...]:
    """Which commands are imported: all of them only to list or complete them."""
    if "_ROSTRA_COMPLETE" in os.environ:
        return COMMANDS
    match words:
        case ["--version"]:
            return ()
        case [word, *_] if not word.startswith("-"):
            return (word,) if word in COMMANDS else ()
    return COMMANDS


def __getattr__(name: str) -> Any:
    """`rostra.cli.app`: all commands, for tests and for the page of commands."""
    if name == "app":
        return application()
    raise AttributeError(f"module 'rostra.cli' has no attribute {name!r}")
