"""A group's rule for partitions, as a program may choose it."""

from functools import lru_cache
from typing import Final

from rostra.errors import BadInput
from rostra.groups.kinds import GroupKind
from rostra.protocols.agreed.rules import parse_rule

ANY: Final = "any"
MAJORITY: Final = "majority"
PRIMARY: Final = "primary"
EXCLUSIVE: Final = "exclusive"
"""No rule: the agent chooses one under which at most one side lives (`choosing.py`)."""


def check_survive(text: str) -> None:
    """Raise unless groups of this version can have this rule."""
    if not isinstance(text, str):
        raise BadInput(f"survive={text!r}", fix='write a rule: "majority", "size > 3"')
    parse_rule(text or ANY)
    if text and len(text) > 512:
        raise BadInput(f"a rule of {len(text)} characters", fix="at most 512")


def is_exclusive(kind: GroupKind) -> bool:
    """Do only views of one side live? Then they have fences. Not under a rule that cannot be read."""
    return _is_exclusive(kind.survive or ANY)


@lru_cache(1_024)
def _is_exclusive(survive: str) -> bool:
    try:
        return parse_rule(survive).exclusive == "yes"
    except BadInput:
        return False


def is_primary(kind: GroupKind) -> bool:
    """Does the server of the scope say which side lives?"""
    return kind.survive == PRIMARY


def has_rule(kind: GroupKind) -> bool:
    """Is there a side that does not live?"""
    return kind.survive not in ("", "any")
