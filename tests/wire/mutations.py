"""Ways to damage bytes, and values that belong nowhere."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

HOSTILE_BYTES = (
    b"\x00\x01\x7f\x80\x81\x90\x91\x92\xa0\xa1\xbf\xc0\xc1\xc4\xc6\xcf\xd6\xdb\xdc\xdd\xdf\xe0\xff"
)
HOSTILE_VALUES: list[Any] = [
    *(None, True, -1, 0, 1, 2**31, 2**63, 2**64 - 1, 0.5, float("nan"), float("inf")),
    *(
        "",
        ".",
        "world",
        "EU",
        "a" * 64,
        "a" * 300,
        "eu..fr",
        "eu.h1/a#1",
        "\x00",
        "\u202e",
        "e\u0301",
        "x~y",
        "a!b!c",
    ),
    *(b"", b"\xff" * 300, [], [[]], [[[[]]]], {}, {"a": 1}, [1] * 300),
]


def flip_bits(octets: bytes, luck: Random) -> bytes:
    bent = bytearray(octets)
    for _ in range(luck.choice((1, 1, 2, 8)) if octets else 0):
        bent[luck.randrange(len(bent))] ^= 1 << luck.randrange(8)
    return bytes(bent)


def overwrite(octets: bytes, luck: Random) -> bytes:
    bent = bytearray(octets)
    for _ in range(luck.choice((1, 2, 4)) if octets else 0):
        bent[luck.randrange(len(bent))] = luck.choice(HOSTILE_BYTES)
    return bytes(bent)


def cut_short(octets: bytes, luck: Random) -> bytes:
    return octets[: luck.randrange(len(octets) + 1)]


def remove_a_piece(octets: bytes, luck: Random) -> bytes:
    start = luck.randrange(len(octets) + 1)
    return octets[:start] + octets[start + luck.choice((1, 2, 4, 16, 100)) :]


def repeat_a_piece(octets: bytes, luck: Random) -> bytes:
    start = luck.randrange(len(octets) + 1)
    end = start + luck.choice((1, 4, 16, 100))
    return octets[:end] + octets[start:]


def insert_noise(octets: bytes, luck: Random) -> bytes:
    at = luck.randrange(len(octets) + 1)
    return octets[:at] + luck.randbytes(luck.choice((1, 2, 4, 16, 1000))) + octets[at:]


BENDS: list[Callable[[bytes, Random], bytes]] = [
    *(flip_bits, flip_bits, overwrite, overwrite, cut_short, remove_a_piece, repeat_a_piece, insert_noise),
]


def walk(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, list):
        for each in value:
            yield from walk(each)


class Broken(AssertionError):
    """Something that must hold for every input does not hold for this one."""


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Broken(otherwise)
