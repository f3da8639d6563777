"""Which users of this machine a program or agent trusts at a Unix socket.

Trusted are the own user, root, and the user `rostra`, under which the systemd units run daemons; and one more
if ``$ROSTRA_TRUST_USER`` names it.

A socket is a file in a directory, and in `/tmp` another user may make `/tmp/rostra-UID` before we do. So an
agent checks the owner and the mode of the directory it listens in. A program checks them too, and asks the
kernel as whom the process at the other end runs, before it sends anything.
"""

import contextlib
import os
import pwd
import socket
import stat
import struct
from pathlib import Path
from typing import Any, Final

from rostra.errors import NotAllowed

DAEMONS: Final = "rostra"
TRUST_USER: Final = "ROSTRA_TRUST_USER"

_CREDENTIALS: Final = struct.Struct("3i")  # pid, uid, gid


def is_trusted(uid: int) -> bool:
    if uid in (os.geteuid(), 0):
        return True
    more = os.environ.get(TRUST_USER, "")
    return uid == _uid_of(DAEMONS) or (more != "" and uid in (_uid_of(more), _number(more)))


def whose(directory: Path) -> str:
    """The untrusted user that could put a socket into this directory; empty if there is none."""
    # A link counts as its owner's, wherever it leads to.
    link, about = directory.lstat(), directory.stat()
    for uid in (link.st_uid, about.st_uid):
        if not is_trusted(uid):
            return name_of(uid)
    if about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX:
        return "everybody"
    return ""


def check_directory(directory: Path) -> None:
    """Refuse a directory in which another user decides what is there."""
    if other := whose(directory):
        raise NotAllowed(
            f"{directory} is no safe place for a socket: {other} may change what is in it",
            fix="remove it, or set XDG_RUNTIME_DIR to a directory of your own\n"
            f"or, if that user may be trusted with all you say:  export {TRUST_USER}={other}",
        )


def check_peer(sock: Any, where: object) -> None:
    """Refuse a socket at whose other end another user listens, where the kernel tells."""
    if (uid := peer_uid(sock)) is not None and not is_trusted(uid):
        other = name_of(uid)
        raise NotAllowed(
            f"the process that listens at {where} runs as {other}: neither as you, nor root, nor {DAEMONS}",
            fix=f"use another agent, or, if that user may be trusted with all you say:"
            f"  export {TRUST_USER}={other}",
        )


def peer_uid(sock: Any) -> int | None:
    """As whom the other end of a connected Unix socket runs; None where that cannot be known."""
    if sock is None or not hasattr(socket, "SO_PEERCRED"):
        return None
    _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)


def own_directory(directory: Path) -> None:
    """Make it, for ourselves alone whatever the umask; one that is there is left as it is."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)


def own_file(file: Path) -> None:
    """Make it, or keep it, for ourselves alone whatever the umask and whatever its mode was."""
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        # By its name: closing a descriptor would end the locks that this process has on it.
        with contextlib.suppress(PermissionError):
            file.chmod(0o600)


def name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _uid_of(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
