"""A group's rule for partitions, as a program may choose it."""

from typing import Final

from rostra.errors import BadInput, NotAvailable
from rostra.groups.kinds import GroupKind
from rostra.protocols.agreed.rules import Both, Either, HowMany, Not, Primary, Rule, parse_rule

ANY: Final = "any"


def check_survive(text: str) -> None:
    """Raise unless groups of this version can have this rule."""
    rule = parse_rule(text or ANY)
    if isinstance(rule, Primary):
        raise NotAvailable(
            'survive="primary" comes with a later version', fix='until then: survive="majority"'
        )
    if _asks_attributes(rule):
        raise NotAvailable(
            f"survive={text!r} asks for attributes of members, which come with a later version",
            fix="use size, majority, has(rank 0), has(ADDRESS) or spans(DOMAIN)",
        )
    if text and len(text) > 512:
        raise BadInput(f"a rule of {len(text)} characters", fix="at most 512")


def _asks_attributes(rule: Rule) -> bool:
    match rule:
        case HowMany():
            return True
        case Both(one, other) | Either(one, other):
            return _asks_attributes(one) or _asks_attributes(other)
        case Not(inner):
            return _asks_attributes(inner)
    return False


def is_exclusive(kind: GroupKind) -> bool:
    """Do only views of one side live? Then they have fences. Not under a rule that cannot be read."""
    try:
        return parse_rule(kind.survive or ANY).exclusive == "yes"
    except BadInput:
        return False
