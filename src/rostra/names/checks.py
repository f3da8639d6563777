"""Validation of names, numbers and texts that another process sent, before they are used.

A name is parsed when it is seen for the first time. After that it is found in a set of names known to be
good, which costs a tenth; the sets are bounded, and start over when full.

A group name is checked in full where a program brings it in, and by the rules that all versions share where a
server relays it (see `relayed_group_name`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from msgspec import Meta, Struct
from msgspec.structs import fields

from rostra.errors import BadInput, BadName
from rostra.names.domains import Domain, is_reserved, parse_scope
from rostra.names.endpoints import Endpoint, host_of, parse_endpoint, parse_subject
from rostra.names.groups import Group, GroupText, parse_group_name, relayed_group_name
from rostra.names.text import has_controls, quoted

KNOWN_NAMES_MAX: Final = 65_536
NUMBER_MAX: Final = 2**63 - 1
TEXT_LENGTH_MAX: Final = 512
DURATION_S_MAX: Final = 1e9

Natural = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
"""Adding to it, comparing it and sending it on are safe."""

Moment = Annotated[float, Meta(ge=0, le=1e12)]
"""Seconds since 1970, on the sender's clock."""

Duration = Annotated[float, Meta(ge=0, le=DURATION_S_MAX)]

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


def check_path_if_any(path: str) -> None:
    if path:
        check_path(path)


def check_endpoint(endpoint: str) -> None:
    if endpoint not in good_endpoints:
        learn(good_endpoints, endpoint, parse_endpoint)


def check_addressee(endpoint: Endpoint) -> None:
    check_endpoint(endpoint)
    if is_reserved(host_of(endpoint)):
        raise BadInput(f"{endpoint} is part of the system", fix="send to an endpoint of a program")


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
        if name.startswith(SYSTEM):
            raise BadName(f"names that begin with {SYSTEM} are the system's", fix="choose another name")
        learn(good_own_names, name, parse_group_name)


def check_own_group(group: Group) -> None:
    check_own_name(group.name)
    check_path(group.scope)


SYSTEM: Final = "rostra/"


def check_number(number: int) -> None:
    if not 0 <= number <= NUMBER_MAX:
        raise BadInput(f"number {number} is out of range", fix="use 0 to 2^63-1")


def check_duration(seconds: float) -> None:
    if not 0 <= seconds <= DURATION_S_MAX:  # false for NaN, too
        raise BadInput(f"{seconds} is not a duration", fix=f"use 0 to {DURATION_S_MAX:g} seconds")


def check_text(text: str) -> None:
    """Raise `BadInput` unless the text can be shown to people and put into a log."""
    if len(text) > TEXT_LENGTH_MAX or has_controls(text):
        raise BadInput(
            "a text is too long or has invisible characters", fix=f"use {TEXT_LENGTH_MAX} printable ones"
        )


# Every name in a value, whatever its class

Check = Callable[[Any], object]

_LEAVES: Final[dict[Any, Check]] = {
    Domain: check_path,
    Endpoint: check_endpoint,
    GroupText: check_relayed_name,
    str: check_text,
}

_GOOD: Final[dict[Any, set[str]]] = {
    check_path: good_paths,
    check_endpoint: good_endpoints,
    check_relayed_name: good_relayed_names,
    check_own_name: good_own_names,
}
"""Where to look before a check is called at all: most names were seen before."""


def check_of(kind: Any, leaves: Mapping[Any, Check] = {}) -> Check:
    """A check of all names and texts in values of this type, found by its fields, so that none is forgotten.

    A field whose type does not say all has its check beside it: ``Annotated[str, check_subject]``. `leaves`
    are types that are checked otherwise here. Numbers and sizes are for the decoder, which knows their bounds
    (`msgspec.Meta`).

    It is written out and compiled, as `dataclasses` does it: it is called for every message, and functions
    that call each other for every field take twice as long.
    """
    known: dict[str, Any] = {}
    lines = list(_lines(kind, "value", " ", {**_LEAVES, **leaves}, known))
    exec("\n".join(["def check(value):", *lines, " return None"]), known)
    written: Check = known["check"]
    return written


class ChecksOf(dict[Any, Check]):
    """A check for each of these types, written when the first value of the type comes: all of them take a
    tenth of a second, and most processes see values of a few."""

    def __init__(self, kinds: Iterable[Any], leaves: Mapping[Any, Check] = {}) -> None:
        self.kinds = frozenset(kinds)
        self.leaves = leaves

    def __missing__(self, kind: Any) -> Check:
        if kind not in self.kinds:
            raise KeyError(kind)
        check = self[kind] = check_of(kind, self.leaves)
        return check


def _lines(
    kind: Any, value: str, indent: str, leaves: Mapping[Any, Check], known: dict[str, Any]
) -> Iterator[str]:
    """The lines that check one value. `known` are the names that they use."""

    def inside(part: Any, place: str) -> Iterator[str]:
        return _lines(part, place, f"{indent} ", leaves, known)

    def put(thing: object) -> str:
        name = f"_{len(known)}"
        known[name] = thing
        return name

    parts = get_args(kind)
    beside = next(filter(callable, parts[1:]), None) if get_origin(kind) is Annotated else None
    check = beside or leaves.get(kind)
    if check is not None:
        unless = f"if {value} not in {put(_GOOD[check])}: " if check in _GOOD else ""
        yield f"{indent}{unless}{put(check)}({value})"
    elif get_origin(kind) is Annotated:
        yield from _lines(parts[0], value, indent, leaves, known)
    elif get_origin(kind) is tuple and parts[-1] is Ellipsis:
        each = put(None)
        lines = list(inside(parts[0], each))
        if lines:
            yield from (f"{indent}for {each} in {value}:", *lines)
    elif get_origin(kind) is tuple:
        for place, part in enumerate(parts):
            yield from _lines(part, f"{value}[{place}]", indent, leaves, known)
    elif get_origin(kind) in (Union, UnionType):
        some = [part for part in parts if part is not NoneType]
        if len(some) > 2 and all(isinstance(part, type) and issubclass(part, Struct) for part in some):
            yield f"{indent}if {value} is not None: {put(ChecksOf(some, leaves))}[type({value})]({value})"
            return
        for part in some:
            lines = list(inside(part, value))
            if lines:
                # A name is a `str` at run time, so a name can only be distinguished from None.
                which = f"{value} is not None" if len(some) == 1 else f"type({value}) is {put(part)}"
                yield from (f"{indent}if {which}:", *lines)
    elif isinstance(kind, type) and issubclass(kind, Struct):
        for field in fields(kind):
            yield from _lines(field.type, f"{value}.{field.name}", indent, leaves, known)
