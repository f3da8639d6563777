"""The fuzzer finds nothing in the reader, and finds every bug that we plant in it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rostra.errors import Malformed
from rostra.protocols.relaxed.requests import SendTo
from rostra.wire import FrameReader, checks, reader, shapes
from tests.wire import fuzz
from tests.wire.fuzz import Broken, Case, FrameKind, check, make_case, run

EVERY_INPUT_THAT_EVER_FAILED = [
    (  # a moment that is no number, and so not equal to itself
        FrameKind.TO_PROGRAM,
        "00000027010357b00eb59502a5542d524546ae65752e66722e70617269732e683107cb000000000000000000000041010357b00e"
        "b59a0c0792ac6c6f756e67652f6368657373a26575b465752e66722e70617269732e68312f616e6e23372802cb7ff8000000000000"
        "03ce0001000019",
    ),
    (FrameKind.TO_AGENT, "00000020010257b00eb59501a52e707992713363726574c00000000d542d524546a67765"),
    (FrameKind.LINK, "00004e49010157b00eb59801cf7fffffffffffffff04a5542d524546a5776f726c64" + "91" * 20_000),
    (
        FrameKind.LINK,
        "0000002e010157b00eb599010300a5542d524546ae65752e66720e70617269732e68310700ab65752e66722e706172697390",
    ),
    (FrameKind.TO_AGENT, "00000017010257b00eb59501a5542d524546a67765622e7079a0a000000009010257b00eb5920490"),
]
"""As the fuzzer prints them, shrunk; the first ones failed on bugs that were planted. Add every real one."""


@pytest.mark.parametrize("seed", range(2))
def test_no_bent_conversation_breaks_a_promise(seed: int) -> None:
    endings = run(seed, cases=3000)
    assert set(endings) == {"read to the end", "Malformed", "WrongWorld", "WrongVersion", "Refusal"}
    assert endings["read to the end"] > 300, "too few get through to test what comes after"


@pytest.mark.parametrize(("kind", "octets"), EVERY_INPUT_THAT_EVER_FAILED)
def test_what_failed_once_does_not_fail_again(kind: FrameKind, octets: str) -> None:
    check(Case(kind, (), bytes.fromhex(octets), (), ()), weigh=True)


def test_a_case_is_its_seed_and_number() -> None:
    assert make_case(7, 11) == make_case(7, 11)
    assert make_case(7, 11).octets != make_case(7, 12).octets != make_case(8, 12).octets


def names_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "check_packet", lambda packet: None)


def requests_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "check_request", lambda request: None)


def one_field_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(checks._REQUEST_CHECKS, SendTo, lambda request: None)


def bad_unicode_is_not_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "UNDECODABLE", (msgspec.DecodeError, RecursionError))


def deep_nesting_is_not_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "UNDECODABLE", (ValueError,))


def a_frame_that_ends_early_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = FrameReader.feed

    def forgetful(self: FrameReader, data: bytes) -> list[Any]:
        items = feed(self, data)
        if len(self._pending) > 50:
            self._pending = bytearray()
        return items

    monkeypatch.setattr(FrameReader, "feed", forgetful)


def room_is_made_before_the_length_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    check_header = FrameReader._check_header

    def eager(self: FrameReader, length: int, version: int, kind: int) -> None:
        self.room = bytearray(min(length, 1 << 26))  # type: ignore[attr-defined]
        check_header(self, length, version, kind)

    monkeypatch.setattr(FrameReader, "_check_header", eager)


def the_handshake_has_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "HANDSHAKE_BYTES_MAX", 1 << 20)


def the_end_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = FrameReader.feed

    def stubborn(self: FrameReader, data: bytes) -> list[Any]:
        items = feed(self, data)
        if items and isinstance(items[-1], Malformed):
            self.over = False
        return items

    monkeypatch.setattr(FrameReader, "feed", stubborn)


def the_last_byte_of_a_part_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Leaky(bytearray):
        def __iadd__(self, more: Any) -> "Leaky":
            self.extend(more[:-1])
            return self

    begin = FrameReader.__init__

    def leaky(self: FrameReader, world: str, *kinds: FrameKind) -> None:
        begin(self, world, *kinds)
        self._parts = Leaky()

    monkeypatch.setattr(FrameReader, "__init__", leaky)


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (names_are_not_checked, "got through"),
        (requests_are_not_checked, "got through"),
        (one_field_is_not_checked, "got through"),
        (bad_unicode_is_not_expected, "the reader raised UnicodeDecodeError"),
        (deep_nesting_is_not_expected, "the reader raised RecursionError"),
        (a_frame_that_ends_early_is_forgotten, "depends on how it was cut"),
        (room_is_made_before_the_length_is_checked, "bytes of memory for"),
        (the_handshake_has_no_bound, "bytes kept, 65546 allowed"),
        (the_end_is_not_the_end, "depends on how it was cut|over means that something ended it"),
        (the_last_byte_of_a_part_is_lost, "not read as it was meant"),
    ],
)
def test_the_fuzzer_finds_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(Broken, match=found) as caught:
        # The first two find all of them soon; a new message moves the dice, and then it takes longer.
        for seed, cases in ((2033, 600), (2055, 600), (2032, 20_000), (2036, 20_000)):
            run(seed, cases=cases)
    assert f"replay:  python -m tests.wire.fuzz --replay {seed}/" in str(caught.value)


def test_a_replayed_case_fails_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    deep_nesting_is_not_expected(monkeypatch)
    with pytest.raises(Broken) as caught:
        run(5, cases=20_000)
    _, _, case = str(caught.value).partition("--replay ")
    with pytest.raises(Broken, match="the reader raised RecursionError"):
        fuzz.replay(case.split()[0])
