"""Where to reach a process: ``h3:7700`` or ``[::1]:7700`` over TCP, ``/run/rostra/agent.sock`` on this
machine."""

import fcntl
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from rostra.errors import BadInput
from rostra.names.addresses import TcpAddress as TcpAddress
from rostra.names.addresses import parse_tcp as parse_tcp
from rostra.transport.trusted import whose

SOCKET_NAME: Final = "agent.sock"
SMALL_WORLD_PREFIX: Final = "up-"
LOCK_NAME: Final = "lock"
SOCKET_PATH_BYTES_MAX: Final = (
    100  # the kernel's own limit is 108 on Linux and 104 elsewhere, its zero included
)


class SocketPath(Struct, frozen=True, order=True):
    path: str

    def __str__(self) -> str:
        return self.path


Address = TcpAddress | SocketPath


def parse_address(text: str) -> Address:
    """Read an address as a user writes it; a slash makes it a socket's path."""
    if "://" in text:
        raise BadInput(
            f"{text!r} is a URL, and not an address",
            fix="write host:port, where the agent lets programs in (--programs-at): 10.0.0.5:7700\n"
            f"or the path of its socket: /run/rostra/{SOCKET_NAME}",
        )
    if "/" in text:
        return parse_socket_path(text)
    if text and ":" not in text:
        raise BadInput(
            f"{text!r} is not an address",
            fix=f"write host:port, or the path of a socket with a slash in it: ./{text}",
        )
    return parse_tcp(text)


def parse_socket_path(text: str) -> SocketPath:
    size = len(os.fsencode(text))
    if size > SOCKET_PATH_BYTES_MAX:
        raise BadInput(
            f"socket path {text!r} is {size} bytes long, more than a socket's address can hold",
            fix=f"use at most {SOCKET_PATH_BYTES_MAX} bytes, for example a directory under /run",
        )
    return SocketPath(text)


def reason_of(error: OSError) -> str:
    """Why a connection failed, as the system says it: asyncio has words of its own, which repeat the address,
    and for a name with several addresses a list of them."""
    if isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    number = error.errno or next(map(int, re.findall(r"\[Errno (\d+)\]", str(error))), None)
    return os.strerror(number) if number else str(error)


def runtime_directories(environ: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Where an agent's socket lives, most personal first: a user's agent is met before the machine's."""
    if "XDG_RUNTIME_DIR" in environ:
        yield Path(environ["XDG_RUNTIME_DIR"]) / "rostra"
    if os.geteuid() != 0:
        yield Path(f"/tmp/rostra-{os.geteuid()}")
    yield Path("/run/rostra")


def default_socket(environ: Mapping[str, str] = os.environ) -> SocketPath:
    """Where an agent listens by default for the programs of its host."""
    return SocketPath(str(next(iter(runtime_directories(environ))) / SOCKET_NAME))


def small_worlds(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The directories of the worlds that `rostra up` runs at this moment: most personal first, and of those
    in one place the one that began first."""
    return [
        path
        for directory in runtime_directories(environ)
        for path in sorted(directory.glob(f"{SMALL_WORLD_PREFIX}*"), key=_made_at)
        if is_held(path / LOCK_NAME) and _is_ours(path)
    ]


def _made_at(directory: Path) -> int:
    try:
        return (directory / LOCK_NAME).stat().st_mtime_ns
    except OSError:
        return 0  # gone meanwhile


def _is_ours(directory: Path) -> bool:
    try:
        return not whose(directory)
    except OSError:
        return False  # gone meanwhile


def is_held(lock: Path) -> bool:
    """Does a living process hold this lock file? The system lets go for those that were killed."""
    try:
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def find_agent(environ: Mapping[str, str] = os.environ) -> Address:
    """Where a program finds its agent by default: ``$ROSTRA_AGENT``, the nearest socket, or
    a host of a world that `rostra up` runs."""
    if told := environ.get("ROSTRA_AGENT"):
        return parse_address(told)
    places = [directory / SOCKET_NAME for directory in runtime_directories(environ)]
    for place in (*places, *(world / SOCKET_NAME for world in small_worlds(environ))):
        if place.is_socket():
            return SocketPath(str(place))
    return SocketPath(str(places[0]))
