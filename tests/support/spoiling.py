"""Values that are of the right type and wrong, one leaf at a time."""

import math
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, NewType, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from rostra.names import Domain, Endpoint

BAD_VALUES: dict[Any, tuple[Any, ...]] = {
    Domain: ("EU", "eu..fr", ".", "world.eu", "eu.fr\n", "a" * 64, ".".join("abcdefghij"), "eu/fr", "ａ"),
    Endpoint: (
        "eu.h1",
        "eu.h1/a",
        "eu.h1/#7",
        "/a#7",
        "eu.h1/a#07",
        "eu.h1/a#-1",
        f"eu.h1/a#{2**63}",
        "eu.h1/a b#7",
    ),
    str: ("\x00", "\u202eevil", "x" * 513),
    int: (-1, 2**63, 2**64 - 1),
    float: (math.nan, math.inf, -1.0),
}


def spoiled(value: Any, hint: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Every copy of the value in which one leaf is of the right type, and wrong."""
    if get_origin(hint) is Annotated:
        inner, *metas = get_args(hint)
        if any(getattr(meta, "le", None) == 0 for meta in metas):  # what is negative
            yield from ((f"{where} = {bad!r:.40}", bad) for bad in (1, -(2**63)))
        else:
            yield from spoiled(value, inner, where)
    elif hint in BAD_VALUES or isinstance(hint, NewType):
        yield from ((f"{where} = {bad!r:.40}", bad) for bad in BAD_VALUES[hint])
    elif isinstance(value, msgspec.Struct):
        for field, inner in get_type_hints(type(value), include_extras=True).items():
            for there, bad in spoiled(getattr(value, field), inner, f"{where}.{field}"):
                yield there, msgspec.structs.replace(value, **{field: bad})
    elif get_origin(hint) is tuple:
        inners = [get_args(hint)[0]] * len(value) if get_args(hint)[-1] is Ellipsis else get_args(hint)
        for index, inner in enumerate(inners):
            for there, bad in spoiled(value[index], inner, f"{where}[{index}]"):
                yield there, (*value[:index], bad, *value[index + 1 :])
    elif get_origin(hint) in (Union, UnionType) and value is not None:
        [inner] = [each for each in get_args(hint) if each is not NoneType]
        yield from spoiled(value, inner, where)


def every_way(value: Any) -> Iterator[tuple[str, Any]]:
    """Where it is wrong, and the wrong copy."""
    return spoiled(value, type(value), type(value).__name__)


def spoilable(values: list[Any]) -> list[Any]:
    """Those that have a leaf. One test each: as one for each of their 18,000 leaves, the overhead of a test
    took longer than what it tests."""
    return [
        pytest.param(value, id=f"{number}-{type(value).__name__}")
        for number, value in enumerate(values)
        if next(every_way(value), None) is not None
    ]
