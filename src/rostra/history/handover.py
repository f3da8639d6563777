"""A question is handed to a Python process that has already imported everything.

    rostra history who ...  ── arguments, environment, directory, stdin, stdout, stderr ──▶  ready: forks
           waits            ◀── process, exit code ───────────────────────────────────────   the copy runs it

Importing PySpark, pandas and Arrow takes longer than a warm Spark needs for most answers. So the keeper
(`warm`) starts a process that imports them once and waits (`rostra.cli.history.ready`). Each command is run
by a fork of it, on the terminal and in the directory of the caller; Ctrl-C and SIGTERM are passed on.

If there is no such process, or it was started from other source files, the command runs in its own process.
This module imports nothing that takes time.
"""

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

QUESTIONS: Final = frozenset(
    {
        *("who", "stays", "size", "spread", "churn", "convergence", "disagreement"),
        *("availability", "flaps", "traffic", "why", "audit"),
    }
)
"""Commands that ask the warm Spark. Others start their own, or are asked once a day."""

ELSEWHERE: Final = ("ROSTRA_SPARK_MASTER", "ROSTRA_SPARK_REMOTE", "_ROSTRA_COMPLETE")

HEAD_BYTES: Final = 8
SOCKET: Final = "ready.sock"


def home() -> Path:
    """The private directory of `rostra history` for this user: logs, and how to reach the warm session."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("ROSTRA_HISTORY_HOME") or Path(cache) / "rostra" / "history")


def made_of() -> str:
    """Which Python, and which files of ours: one that was edited since is another."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    newest = 0
    for directory, _, files in os.walk(package):
        with contextlib.suppress(OSError):
            newest = max(
                newest,
                *(os.stat(os.path.join(directory, f)).st_mtime_ns for f in files if f.endswith(".py")),
                0,
            )
    return f"{sys.executable} {package} {newest}"


@contextlib.contextmanager
def short_path(directory: Path) -> Any:
    """The same directory by a name that fits into the address of a socket, however long its own is."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{opened}/{SOCKET}"
    finally:
        os.close(opened)


def is_a_question(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    return (
        list(arguments[:1]) == ["history"]
        and not QUESTIONS.isdisjoint(arguments[1:2])
        and not any(word.startswith(("--master", "--remote")) for word in arguments)
        and not any(environment.get(name) for name in ELSEWHERE)
    )


def asked(arguments: Sequence[str]) -> int | None:
    """The exit code of a command that was run elsewhere; None if it is to be run here."""
    if not is_a_question(arguments, os.environ):
        return None
    try:
        for descriptor in range(3):
            os.fstat(descriptor)  # one that is closed is not to be handed over
        with contextlib.ExitStack() as stack:
            ready = stack.enter_context(socket.socket(socket.AF_UNIX))
            ready.connect(stack.enter_context(short_path(home())))
            here = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, here)
            content = json.dumps([made_of(), list(arguments), dict(os.environ), _umask()]).encode()
            socket.send_fds(ready, [len(content).to_bytes(HEAD_BYTES)], [0, 1, 2, here])
            ready.sendall(content)
            return _waited_for(stack.enter_context(ready.makefile("rb")))
    except OSError:
        return None


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _waited_for(said: IO[bytes]) -> int | None:
    process = said.readline()
    if not process:
        return None  # nothing was done yet

    def pass_on(number: int, _: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(process), number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    try:
        code = said.readline()
    except OSError:
        code = b""
    if not code:
        print("error: the process that asked ended in the middle of it\n  ask again", file=sys.stderr)
        return 1
    return int(code)
