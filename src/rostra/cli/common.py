"""What commands share: common options, and how an error is shown.

Exit codes: 0 all is well, 1 it failed while running, 2 it could not start: wrong use, names, files or
addresses.
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Final, ParamSpec

import typer

from rostra.errors import RostraError

EXIT_MISUSE: Final = 2

WorldFile = Annotated[
    Path,
    typer.Option("--world", "-w", envvar="ROSTRA_WORLD", help="The world file (TOML).", show_default=False),
]
StateDirectory = Annotated[
    Path | None,
    typer.Option(
        "--state",
        envvar="ROSTRA_STATE",
        help="Keep incarnations and permanent groups here, across restarts.",
        show_default=False,
    ),
]
Socket = Annotated[
    str | None,
    typer.Option(
        "--socket",
        envvar="ROSTRA_SOCKET",
        help="Where the host's programs connect.",
        show_default="/run/rostra",
    ),
]
ProgramsAt = Annotated[
    str | None,
    typer.Option(
        "--programs-at",
        envvar="ROSTRA_PROGRAMS_AT",
        help="Let programs connect over TCP too: host:port.",
        show_default=False,
    ),
]
JsonLogs = Annotated[bool, typer.Option("--json-logs", envvar="ROSTRA_JSON_LOGS", help="Log lines as JSON.")]

P = ParamSpec("P")


def command(run: Callable[P, int]) -> Callable[P, None]:
    """Turn a function that answers with an exit code into a command whose errors are one clear line."""

    @wraps(run)
    def wrapped(*args: P.args, **options: P.kwargs) -> None:
        try:
            code = run(*args, **options)
        except RostraError as error:
            typer.echo(f"error: {error.what}", err=True)
            if error.fix:
                typer.echo(f"  {error.fix}", err=True)
            raise typer.Exit(EXIT_MISUSE) from None
        raise typer.Exit(code)

    return wrapped
