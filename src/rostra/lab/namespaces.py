"""Network namespaces: create, enter, remove; and what is missing on a machine where that is not possible.

Only names that begin with a lab's own prefix are ever created or removed (see `home`). A thread enters a
namespace for a moment: a socket or device that it opens there stays there for its whole life.
"""

import contextlib
import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from rostra.errors import BadInput

MOUNTED: Final = Path("/run/netns")
TUN: Final = Path("/dev/net/tun")
TOOLS_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

_CLONE_NEWNET: Final = 0x40000000


def check_possible() -> None:
    """Raise what is missing on this machine for a lab, with the way to get it."""
    if os.geteuid() != 0:
        raise BadInput(
            "a lab makes network namespaces, and only root may",
            fix="run it as root:  sudo make lab\nwithout root:  rostra up, whose cables can be cut too",
        )
    for tool, package in (("ip", "iproute2"), ("setpriv", "util-linux")):
        if shutil.which(tool, path=TOOLS_PATH) is None:
            raise BadInput(f"{tool} is not installed", fix=f"apt-get install -y {package}")
    if not TUN.exists():
        raise BadInput(
            f"there is no {TUN}: the router of a lab needs TUN devices",
            fix="modprobe tun; in a container: --device /dev/net/tun --cap-add NET_ADMIN --cap-add SYS_ADMIN",
        )
    try:
        os.close(os.open(TUN, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        raise BadInput(
            f"{TUN} cannot be opened: {error.strerror}",
            fix="modprobe tun; in a container: --device /dev/net/tun --cap-add NET_ADMIN",
        ) from None
    name = f"rostra-lab-probe-{os.getpid()}"
    try:
        add(name)
    except BadInput as error:
        raise BadInput(
            f"network namespaces cannot be made here: {error.what}",
            fix="in a container: --cap-add SYS_ADMIN --cap-add NET_ADMIN",
        ) from None
    delete(name)


def add(name: str) -> None:
    ip("netns", "add", name)


def delete(name: str) -> None:
    """What runs inside, such as a shell, keeps its network until it ends; the name is free."""
    if (MOUNTED / name).exists():
        ip("netns", "del", name)


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """Be in that namespace for a moment. Nothing may be awaited meanwhile: the whole thread is there."""
    with _opened("/proc/thread-self/ns/net") as home, _opened(str(MOUNTED / name)) as there:
        _enter(there)
        try:
            yield
        finally:
            _enter(home)


def ip(*words: str) -> str:
    return _ip(words, None)


def ip_batch(namespace: str, commands: Iterable[str]) -> None:
    """Many commands for one namespace in one process: starting it is what costs."""
    _ip(("-n", namespace, "-batch", "-"), "\n".join(commands) + "\n")


def _ip(words: tuple[str, ...], text: str | None) -> str:
    done = subprocess.run(
        ["ip", *words], input=text, capture_output=True, text=True, env={**os.environ, "PATH": TOOLS_PATH}
    )
    if done.returncode != 0:
        raise BadInput(f"ip {' '.join(words)}: {done.stderr.strip()}", fix="is this the root of the machine?")
    return done.stdout


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)  # os.setns is not in every Python that we run on
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
