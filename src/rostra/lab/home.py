"""The directory of one running lab, and how it is cleaned up after a crash.

    /run/rostra-lab/
        1/                  a lab's number; its namespaces are called rostra-lab1-mit, rostra-lab1-mit.h1, ...
            lock            held as long as the lab lives
            namespaces      those that it made, each written down before it was made
            control         the socket for orders to the router: cut, heal, change
            world.toml  mit.h1.sock  mit.h1.log   of the servers and agents

A lab that was killed cannot clean up. The next one, or `rostra lab clean`, finds its lock free, and removes
what is written down there and nothing else. Its processes need no cleaning up: the kernel ends them with the
process that started them.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rostra.errors import BadInput
from rostra.lab import namespaces
from rostra.transport.addresses import LOCK_NAME, is_held

BASE: Final = Path("/run/rostra-lab")
PREFIX: Final = "rostra-lab"
NAMESPACES_NAME: Final = "namespaces"


class LabHome:
    def __init__(self, path: Path, lock: int | None = None) -> None:
        """Without its lock it belongs to another process, to be read only."""
        self.path = path
        self._lock = lock
        self._made: list[str] = []

    @classmethod
    def make(cls) -> "LabHome":
        BASE.mkdir(mode=0o755, parents=True, exist_ok=True)
        sweep()
        number = 1
        while True:
            # Cleaning up skips what has no number yet; once it has, its lock is held.
            unborn = BASE / f".new-{os.getpid()}-{number}"
            shutil.rmtree(unborn, ignore_errors=True)
            unborn.mkdir(mode=0o755)
            lock = os.open(unborn / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
            (unborn / NAMESPACES_NAME).touch()
            try:
                unborn.rename(BASE / str(number))
            except OSError:  # this number is taken
                os.close(lock)
                shutil.rmtree(unborn, ignore_errors=True)
                number += 1
            else:
                return cls(BASE / str(number), lock)

    @property
    def number(self) -> str:
        return self.path.name

    @property
    def control(self) -> Path:
        return self.path / "control"

    def namespace(self, place: str) -> str:
        return f"{PREFIX}{self.number}-{place}"

    def add_namespace(self, place: str) -> str:
        name = self.namespace(place)
        if (namespaces.MOUNTED / name).exists():
            raise BadInput(
                f"there is a network namespace {name} already, and no lab of ours wrote down that it made it",
                fix=f"if nobody needs it:  ip netns del {name}",
            )
        self._write_down([*self._made, name])
        namespaces.add(name)
        return name

    def remove(self) -> None:
        if self._lock is None:
            return
        for name in self._made:
            namespaces.delete(name)
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)

    def _write_down(self, names: list[str]) -> None:
        self._made = names
        (self.path / NAMESPACES_NAME).write_text("".join(f"{each}\n" for each in names))


def running() -> list[Path]:
    """The directories of the labs that are up, oldest number first."""
    return sorted((path for path in _homes() if is_held(path / LOCK_NAME)), key=lambda path: int(path.name))


def sweep() -> list[str]:
    """Remove what labs left that were killed; the answer is the namespaces that are gone now."""
    removed = []
    for path in _homes():
        with contextlib.suppress(OSError):
            lock = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for name in (path / NAMESPACES_NAME).read_text().split():
                    if name.startswith(f"{PREFIX}{path.name}-") and (namespaces.MOUNTED / name).exists():
                        namespaces.delete(name)
                        removed.append(name)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)
    return removed


def _homes() -> Iterator[Path]:
    return (path for path in BASE.glob("[0-9]*") if path.name.isdigit())
