"""What a group can be: how strong its membership, how strong its delivery.

The choice belongs to the group, not to its members; see `docs/api.md`. Each membership comes with each
delivery.
"""

from enum import Enum
from typing import Final, Literal, TypeVar

from rostra.errors import BadInput
from rostra.names import OPEN, ROOT, Domain, enclosing

Membership = Literal["relaxed", "led", "agreed"]
WeakMembership = Literal["relaxed", "led"]
Delivery = Literal["none", "fifo", "atomic"]

_MEMBERSHIPS: Final = ("relaxed", "led", "agreed")
_DELIVERIES: Final = ("none", "fifo", "atomic")


def check(membership: str, delivery: str) -> None:
    for setting, value, words in (
        ("membership", membership, _MEMBERSHIPS),
        ("delivery", delivery, _DELIVERIES),
    ):
        if value not in words:
            raise BadInput(f"{setting}={value!r}", fix=f"use one of: {', '.join(words)}")


def check_scope_apart(group: object, scope: str | None, host: Domain) -> None:
    """``chess@eu`` is how groups are printed. As an argument it would be a name, of a group in the world, or
    with the scope ``eu`` of one that is printed as chess@eu@eu."""
    name, is_meant, last = str(group).rpartition("@")
    if is_meant and (last == scope or (scope in (None, ROOT) and last in (OPEN, *enclosing(host)))):
        raise BadInput(
            f"group {group!r} has a scope in its name", fix=f"write two arguments: {name!r}, {last!r}"
        )


def check_octets(**settings: object) -> None:
    """Text would end the connection: the agent takes nothing that is not what its place asks for."""
    for setting, value in settings.items():
        if not isinstance(value, bytes):
            raise BadInput(f"{setting}={value!r}", fix=f"{setting} is bytes: text.encode()")


def check_flags(**settings: object) -> None:
    for setting, value in settings.items():
        if not isinstance(value, bool):
            raise BadInput(f"{setting}={value!r}", fix="use True or False")


def check_callable(**settings: object) -> None:
    for setting, value in settings.items():
        if value is not None and not callable(value):
            raise BadInput(f"{setting}={value!r}", fix="name a function")


def check_unused(reason: str, fix: str, **settings: bool) -> None:
    """A setting that the chosen kind of group would not look at was meant for another kind."""
    for setting, is_given in settings.items():
        if is_given:
            raise BadInput(f"{setting} with {reason}", fix=fix)


E = TypeVar("E", bound=Enum)


def one_of(words: type[E], setting: str, value: str) -> E:
    try:
        return words(value)
    except ValueError:
        raise BadInput(
            f"{setting}={value!r}", fix=f"use one of: {', '.join(str(word.value) for word in words)}"
        ) from None
