"""Names, numbers and texts that another process sent, checked once and before they are believed.

A name is parsed when it is seen for the first time. After that it is found in a set of names known to be
good, which costs a tenth; the sets are bounded, and start over when full.

A group name is checked in full where a program brings it in, and by the rules that all versions share where a
server relays it (see `relayed_group_name`).
"""

from collections.abc import Callable
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields

from rostra.errors import BadInput, BadName
from rostra.names.domains import Domain, parse_scope
from rostra.names.endpoints import Endpoint, parse_endpoint, parse_subject
from rostra.names.groups import Group, parse_group_name, relayed_group_name
from rostra.names.text import has_controls, quoted

KNOWN_NAMES_MAX: Final = 65_536
NUMBER_MAX: Final = 2**63 - 1
TEXT_LENGTH_MAX: Final = 512
MOMENT_S_MAX: Final = 1e12

good_paths: set[str] = set()
good_endpoints: set[str] = set()
good_relayed_names: set[str] = set()  # group names, from servers
good_own_names: set[str] = set()  # group names, from programs


def learn(good: set[str], name: str, parse: Callable[[str], object]) -> None:
    if str(parse(name)) != name:
        raise BadName(f"{quoted(name)} is not in canonical form", fix=f"send it as {parse(name)}")
    if len(good) >= KNOWN_NAMES_MAX:
        good.clear()
    good.add(name)


def check_path(path: str) -> None:
    if path not in good_paths:
        learn(good_paths, path, parse_scope)


def check_endpoint(endpoint: str) -> None:
    if endpoint not in good_endpoints:
        learn(good_endpoints, endpoint, parse_endpoint)


def check_subject(about: str) -> None:
    if about not in good_endpoints:
        if "#" in about:
            check_endpoint(about)
        elif parse_subject(about) != about:
            raise BadName(f"{quoted(about)} is not in canonical form", fix=f"send {parse_subject(about)}")


def check_relayed_name(name: str) -> None:
    if name not in good_relayed_names:
        learn(good_relayed_names, name, relayed_group_name)


def check_relayed_group(group: Group) -> None:
    if group.name not in good_relayed_names:
        learn(good_relayed_names, group.name, relayed_group_name)
    if group.scope not in good_paths:
        learn(good_paths, group.scope, parse_scope)


def check_own_name(name: str) -> None:
    if name not in good_own_names:
        learn(good_own_names, name, parse_group_name)


def check_own_group(group: Group) -> None:
    check_own_name(group.name)
    check_path(group.scope)


def check_number(number: int) -> None:
    if not 0 <= number <= NUMBER_MAX:
        raise BadInput(f"number {number} is out of range", fix="use 0 to 2^63-1")


def check_moment(seconds: float) -> None:
    if not 0 <= seconds <= MOMENT_S_MAX:  # false for NaN, too
        raise BadInput(f"{seconds} is not a time", fix="use seconds since 1970")


def check_text(text: str) -> None:
    """Raise `BadInput` unless the text can be shown to people and put into a log."""
    if len(text) > TEXT_LENGTH_MAX or has_controls(text):
        raise BadInput(
            "a text is too long or has invisible characters", fix=f"use {TEXT_LENGTH_MAX} printable ones"
        )


# Every name in a value, whatever its class

_LEAVES: Final[dict[Any, Callable[[Any], None]]] = {
    Domain: check_path,
    Endpoint: check_endpoint,
    Group: check_relayed_group,
    str: check_text,
}


def check_of(kind: Any) -> Callable[[Any], None]:
    """A check of all names and texts in values of this type, found by its fields, so that none is forgotten.
    Numbers are for the decoder, which knows their bounds (`msgspec.Meta`)."""
    check = _check_of(kind)
    assert check is not None, f"{kind} has no names"
    return check


def _check_of(kind: Any) -> Callable[[Any], None] | None:
    if kind in _LEAVES:
        return _LEAVES[kind]
    if get_origin(kind) is Annotated:
        return _check_of(get_args(kind)[0])
    if get_origin(kind) is tuple:
        return _check_of_tuple(get_args(kind))
    if get_origin(kind) in (Union, UnionType):
        return _check_of_union([each for each in get_args(kind) if each is not NoneType])
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _check_of_struct(kind)
    return None


def _check_of_tuple(kinds: tuple[Any, ...]) -> Callable[[Any], None] | None:
    if kinds[-1] is Ellipsis:
        each = _check_of(kinds[0])
        if each is None:
            return None

        def check_all(values: tuple[Any, ...]) -> None:
            for value in values:
                each(value)

        return check_all
    checks = [(place, check) for place, kind in enumerate(kinds) if (check := _check_of(kind)) is not None]

    def check_places(values: tuple[Any, ...]) -> None:
        for place, check in checks:
            check(values[place])

    return check_places if checks else None


def _check_of_union(kinds: list[Any]) -> Callable[[Any], None] | None:
    checks = {kind: check for kind in kinds if (check := _check_of(kind)) is not None}

    def check_one(value: Any) -> None:
        check = checks.get(type(value))
        if check is not None:
            check(value)

    return check_one if checks else None


def _check_of_struct(kind: type[Struct]) -> Callable[[Any], None] | None:
    checks = [
        (attrgetter(field.name), check)
        for field in fields(kind)
        if (check := _check_of(field.type)) is not None
    ]

    def check_fields(value: Any) -> None:
        for get, check in checks:
            check(get(value))

    return check_fields if checks else None
