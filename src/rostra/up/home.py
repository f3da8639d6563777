"""The directory of one running world: sockets, logs, state. It is removed at the end.

    up-4711/                    in the user's runtime directory, closed to others
        lock                    held as long as the world lives
        agent.sock              a host of this world: where `rostra members` and the like find it
        eu.paris.h1.sock        programs connect here; servers have one for administrators
        logs/  files/  state/   of each process, by its name

A supervisor that was killed cannot clean up. The next one finds its lock free, and does.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rostra.errors import UNDECODABLE, BadInput
from rostra.names import Domain
from rostra.transport.addresses import (
    LOCK_NAME,
    SMALL_WORLD_PREFIX,
    SOCKET_NAME,
    SOCKET_PATH_BYTES_MAX,
    is_held,
    runtime_directories,
    small_worlds,
)
from rostra.transport.trusted import whose

ABOUT_NAME = "about.json"


class About(msgspec.Struct, frozen=True):
    """A running world's description, for commands that find its directory."""

    pid: int
    dashboard: str


class WorldHome:
    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        self._short: dict[Domain, int] = {}
        for name in ("logs", "files", "state"):
            (path / name).mkdir()

    @classmethod
    def make(cls) -> "WorldHome":
        base = _base()
        _sweep(base)
        # Cleaning up skips what is not called a world yet; once it is, its lock is held.
        unborn = base / f".new-{os.getpid()}"
        shutil.rmtree(unborn, ignore_errors=True)
        unborn.mkdir(mode=0o700)
        lock = os.open(unborn / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        path = base / f"{SMALL_WORLD_PREFIX}{os.getpid()}"
        unborn.rename(path)
        return cls(path, lock)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        with contextlib.suppress(OSError):  # others live here too
            self.path.parent.rmdir()

    @property
    def state(self) -> Path:
        return self.path / "state"

    @property
    def front_door(self) -> Path:
        return self.path / SOCKET_NAME

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def world_file(self, name: str) -> Path:
        return self.path / "files" / f"{name}.toml"

    def socket(self, node: Domain) -> Path:
        path = self.path / f"{node}.sock"
        if len(os.fsencode(path)) > SOCKET_PATH_BYTES_MAX:
            path = self.path / f"{self._short.setdefault(node, len(self._short) + 1)}.sock"
        return path

    def lead_to(self, host: Domain) -> None:
        """Commands that look for an agent on this machine find that host's."""
        new = self.path / f".{SOCKET_NAME}"
        new.unlink(missing_ok=True)
        new.symlink_to(self.socket(host).name)
        new.replace(self.front_door)

    def tell(self, about: About) -> None:
        (self.path / ABOUT_NAME).write_bytes(msgspec.json.encode(about))


def others() -> Iterator[About]:
    """The worlds of this user that are up at this moment."""
    for path in small_worlds():
        with contextlib.suppress(OSError, *UNDECODABLE):
            yield msgspec.json.decode((path / ABOUT_NAME).read_bytes(), type=About)


def _base() -> Path:
    """The most personal runtime directory that is really ours."""
    for directory in runtime_directories():
        with contextlib.suppress(OSError):
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            # In /tmp another user may have made it first.
            if not whose(directory) and os.access(directory, os.W_OK):
                return directory
    raise BadInput(
        "there is no directory for the sockets of a small world",
        fix="set XDG_RUNTIME_DIR to a directory that you may write",
    )


def _sweep(base: Path) -> None:
    for path in base.glob(f"{SMALL_WORLD_PREFIX}*"):
        if not is_held(path / LOCK_NAME):
            shutil.rmtree(path, ignore_errors=True)
