"""Behind the door the fuzzer finds nothing either, and finds every bug that we plant there."""

from collections.abc import Callable

import msgspec
import pytest

from rostra.errors import BadInput
from rostra.protocols.fifo import delegate, messages, permitted
from rostra.protocols.flow import fec, runs
from rostra.wire import datagrams
from tests.wire import behind, fuzz
from tests.wire.mutations import Broken


def test_no_core_is_ended_by_bytes_that_it_decodes() -> None:
    seen = behind.run(2026, rounds=20)
    assert seen[behind.THROWN] == 20 * behind.ROUND
    reached = {name for name in seen if not name.endswith(": nothing")}
    assert {f"control: {kind.__name__}" for kind in behind.CONTROL} <= reached
    assert {name.partition(":")[0] for name in reached} == {
        *("address", "arena", "attributes", "control", "envelope", "mirror", "parity"),
        *("recording", "run", "shared", "sibling", "datagram", behind.THROWN),
    }


def test_a_round_is_its_seed_and_number() -> None:
    assert behind.play_round(7, 2) == behind.play_round(7, 2) != behind.play_round(7, 4)


def bad_unicode_is_not_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "UNDECODABLE", (msgspec.DecodeError, BadInput))


def names_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_check_control", lambda message: None)


def an_address_is_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "parse_reachable", messages.TcpAddress)


def whoever_attaches_it_is_a_delegate(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (messages, permitted):
        monkeypatch.setattr(module, "is_delegate", lambda endpoint: True)


def whoever_says_it_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegate, "may_say", lambda to, source, message: True)


def a_run_is_as_long_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "UNDECODABLE", (ValueError, RecursionError))


def a_block_is_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (runs, behind, datagrams, fec):
        monkeypatch.setattr(module, "is_sound", lambda run: True, raising=False)


def what_is_rebuilt_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fec, "check_data_message", lambda message: None)


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (bad_unicode_is_not_expected, "UnicodeDecodeError|RecursionError"),
        (names_are_not_checked, "got through"),
        (an_address_is_anything, "TypeError"),
        (whoever_attaches_it_is_a_delegate, "led data to"),
        (whoever_says_it_is_believed, "led data to"),
        (a_run_is_as_long_as_it_says, "OverflowError"),
        (a_block_is_what_it_says, "run: "),
        (what_is_rebuilt_is_not_checked, "got through|not sound"),
    ],
)
def test_the_fuzzer_finds_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages.decode_control.cache_clear()
    plant(monkeypatch)
    try:
        with pytest.raises(Broken, match=found) as caught:
            behind.run(2026, rounds=60)
        _, _, place = str(caught.value).partition("--replay ")
        with pytest.raises(Broken, match=found):
            fuzz.replay(place.split()[0])
    finally:
        messages.decode_control.cache_clear()
