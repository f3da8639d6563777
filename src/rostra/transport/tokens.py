"""The token that a program presents to an agent over TCP, if that agent requires one.

It is read from a file, so that it appears in no process list and no shell history. It is never logged,
printed or put into an archive; only the name of its file is.
"""

import stat
from pathlib import Path

from rostra.errors import BadInput
from rostra.wire.checks import check_text


def read_token(file: Path) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip()
        check_text(token)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "not one line of text"
        raise BadInput(
            f"cannot use the token file {file}: {why}",
            fix="name a file that we may read, with one line of text",
        ) from None
    if not token:
        raise BadInput(f"the token file {file} is empty", fix="write one line into it, the longer the better")
    return token


def is_open_to_others(file: Path) -> bool:
    """May users who are neither its owner nor of its group read or change it?"""
    return bool(file.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH))
