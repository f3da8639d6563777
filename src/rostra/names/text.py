"""How names are shown when they are wrong, and what no name and no text may hold in any version of Unicode.

Controls move the cursor, end lines, reverse the direction of reading or take up no room at all: in a log or a
table they make one thing look like another. The list is fixed for ever, so that two servers never disagree.
"""

import re
from typing import Final

from rostra.errors import BadName

QUOTED_LENGTH_MAX: Final = 80

_CONTROLS: Final = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0 and C1
    "\xad\u061c\u180e\u200b-\u200f"  # no width, or a change of direction
    "\u2028-\u202e\u2060-\u206f"  # lines and paragraphs, direction, joiners, isolates
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # byte order mark, annotations, tags
    "\ud800-\udfff"  # halves of a character
    "]"
)


def check_is_text(name: object, what: str, example: str) -> None:
    """Refuse what is no text at all, as a program may write it."""
    if not isinstance(name, str):
        raise BadName(f"{what} {name!r:.60} is no text", fix=f'write a text: "{example}"')


def has_controls(text: str) -> bool:
    return _CONTROLS.search(text) is not None


def quoted(text: str) -> str:
    """A text from anywhere, fit for one line of an error: short, and printable."""
    shown = repr(text[:QUOTED_LENGTH_MAX])
    if len(text) > QUOTED_LENGTH_MAX or len(shown) > QUOTED_LENGTH_MAX + 2:
        return f"{shown[: QUOTED_LENGTH_MAX - 3]}...{shown[-1]}"
    return shown
