"""Shared by all commands: options, exit codes, how an error is shown, and how a command ends.

Answers go to stdout and remarks to stderr. A command that fails says what happened, to what, and what to try;
its exit code names the kind of failure.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec, TypeVar

import typer

from rostra.cli.output import say
from rostra.errors import (
    BadInput,
    DeadlineExceeded,
    NotAvailable,
    PeerError,
    Refused,
    RostraError,
    Unreachable,
)
from rostra.transport.tokens import read_token

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_MISUSE: Final = 2
EXIT_REFUSED: Final = 3
EXIT_UNREACHABLE: Final = 4
EXIT_LATE: Final = 5
EXIT_PEER: Final = 6
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141

EXIT_CODES: Final = (
    (EXIT_OK, "all is well"),
    (EXIT_FAILED, "it failed while running, or the answer is empty or negative"),
    (EXIT_MISUSE, "wrong use: an invalid option, name, file or address"),
    (EXIT_REFUSED, "refused by the agent or server"),
    (EXIT_UNREACHABLE, "no agent or server answered; trying again may help"),
    (EXIT_LATE, "the answer did not come in time; trying again may help"),
    (EXIT_PEER, "the other side is of another world or version, or broke the protocol"),
    (EXIT_INTERRUPTED, "ended by Ctrl-C; join, watch, tail, up and daemons end with 0: nothing else does"),
    (EXIT_PIPE, "the reader of our output closed the pipe"),
)


def option(*names: str, **about: Any) -> Any:
    """An option without a default to show: what it is without it, its help says."""
    return typer.Option(*names, show_default=False, **about)


WorldFile = Annotated[Path, option("--world", "-w", envvar="ROSTRA_WORLD", help="The world file (TOML).")]
StateDirectory = Annotated[
    str | None,
    option(
        "--state", help="Keep incarnations and permanent groups here, across restarts. [env: ROSTRA_STATE]"
    ),
]
Journal = Annotated[
    str | None,
    option("--journal", help="Write the nodes' journals to this directory or URI. [env: ROSTRA_JOURNAL]"),
]
RecordInputs = Annotated[
    bool | None,
    option("--record", help="Record every input too, for rostra sim replay. [env: ROSTRA_RECORD]"),
]
Socket = Annotated[
    str | None,
    typer.Option(
        "--socket",
        help="Where the host's programs connect. [env: ROSTRA_SOCKET]",
        show_default="/run/rostra",
    ),
]
ProgramsAt = Annotated[
    str | None,
    option("--programs-at", help="Let programs connect over TCP too: host:port. [env: ROSTRA_PROGRAMS_AT]"),
]
DataAt = Annotated[
    str | None, option("--data", help="Take datagrams of groups here: host:port, UDP. [env: ROSTRA_DATA]")
]
TokenFile = Annotated[
    str | None,
    option(
        "--token-file",
        metavar="FILE",
        help="Programs over TCP must show what this file holds. [env: ROSTRA_TOKEN_FILE]",
    ),
]
Http = Annotated[
    str | None,
    option("--http", help="Health, metrics and the dashboard: 127.0.0.1:7780, or none. [env: ROSTRA_HTTP]"),
]
Profile = Annotated[
    str | None, option("--profile", help="How patient to be with silence: lan or wan. [env: ROSTRA_PROFILE]")
]
JsonLogs = Annotated[
    bool | None, typer.Option("--json-logs", help="Log lines as JSON. [env: ROSTRA_JSON_LOGS]")
]
Agent = Annotated[
    str | None,
    option(
        "--agent",
        "-a",
        envvar="ROSTRA_AGENT",
        metavar="ADDRESS",
        help="The agent to use: a socket's path or host:port. [default: this machine's]",
    ),
]


def _use_token_of(ctx: typer.Context, file: str | None) -> str | None:
    """While this command runs, connections present the token in this file; `rostra.transport.dialler` reads
    it."""
    if file is not None:
        read_token(Path(file))  # a mistake in it is reported at once
        before = {name: os.environ.pop(name, None) for name in ("ROSTRA_TOKEN", "ROSTRA_TOKEN_FILE")}
        os.environ["ROSTRA_TOKEN_FILE"] = file

        def restore() -> None:
            del os.environ["ROSTRA_TOKEN_FILE"]
            os.environ.update({name: value for name, value in before.items() if value is not None})

        ctx.call_on_close(restore)
    return file


OwnToken = Annotated[
    str | None,
    option(
        "--token-file",
        metavar="FILE",
        help="Holds the token for an agent over TCP. [env: ROSTRA_TOKEN_FILE, or ROSTRA_TOKEN itself]",
        callback=_use_token_of,
        expose_value=False,
    ),
]

CredentialFile = Annotated[
    str | None,
    option(
        "--credential-file",
        metavar="FILE",
        help="Holds what is shown to the authority of a restricted name, such as acme!payroll.",
    ),
]


def read_credential(file: str | None) -> bytes:
    """Without the end of its last line, which editors write."""
    try:
        return b"" if file is None else Path(file).read_bytes().removesuffix(b"\n")
    except OSError as error:
        raise BadInput(
            f"cannot read credential file {file}: {error.strerror}", fix="name a file that you may read"
        ) from None


P = ParamSpec("P")
T = TypeVar("T")


def command(run: Callable[P, int]) -> Callable[P, None]:
    """Turn a function that answers with an exit code into a command whose errors are one clear line."""

    @wraps(run)
    def wrapped(*args: P.args, **options: P.kwargs) -> None:
        try:
            code = run(*args, **options)
            sys.stdout.flush()
        except RostraError as error:
            complain(error)
            raise typer.Exit(exit_code(error)) from None
        except KeyboardInterrupt:
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError:
            forget_stdout()
            raise typer.Exit(EXIT_PIPE) from None
        raise typer.Exit(code)

    return wrapped


def exit_code(error: RostraError) -> int:
    for kind, code in (
        (BadInput, EXIT_MISUSE),
        ((Refused, NotAvailable), EXIT_REFUSED),
        (DeadlineExceeded, EXIT_LATE),
        (Unreachable, EXIT_UNREACHABLE),
        (PeerError, EXIT_PEER),
    ):
        if isinstance(error, kind):
            return code
    return EXIT_FAILED


def complain(error: RostraError) -> None:
    say(f"error: {error.what}", err=True)
    for line in error.fix.splitlines():
        say(f"  {line}", err=True)


def how_to_call() -> str:
    """How to call this command from here."""
    here = Path(sys.argv[0]).absolute()
    if here.name != "rostra":
        return "python -m rostra"
    found = shutil.which("rostra")
    if found and Path(found).resolve() == here.resolve():
        return "rostra"
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)


def remark(text: str) -> None:
    """Something for the user beside the answer; on a terminal no wider than that."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        text = "\n".join(
            textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            for line in text.splitlines()
        )
    say(text, err=True)


def run_client(work: Coroutine[Any, Any, T]) -> T:
    """Run what a command does as a program. Ctrl-C cancels it, so that it leaves in good order."""
    try:
        with asyncio.Runner() as runner:
            return runner.run(work)
    except KeyboardInterrupt:
        # It may have come before the work began, and Python would warn that nothing waited for that.
        warnings.simplefilter("ignore", RuntimeWarning)
        raise


def forget_stdout() -> None:
    """Python would try to write what is left when it ends, and complain."""
    with contextlib.suppress(OSError, ValueError):  # a test's stdout is no real file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
