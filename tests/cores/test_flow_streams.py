"""Runs, stores, holes and early data: what every holder of a stream does with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rostra.errors import BadInput
from rostra.names import Endpoint, Group
from rostra.names.domains import Domain
from rostra.protocols.flow import runs
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.early import Early
from rostra.protocols.flow.fragments import Parts
from rostra.protocols.flow.messages import Data, Run
from rostra.protocols.flow.recovery import REPAIRS_MAX, Holes, Luck, PlannedRepairs, Recent
from rostra.protocols.flow.runs import block_of, cut, datagrams, is_sound, payloads, take
from rostra.protocols.flow.streams import Inbound, Store

S = Endpoint("huji.h1/s#1")
G = Group("g", Domain("world"))


def body(number: int) -> bytes:
    return b"x" * (number * 37 % 300) + str(number).encode()


def run(first: int, count: int = 1) -> Run:
    return Run(first, count, block_of([body(number) for number in range(first, first + count)]))


def data(first: int, count: int = 1, **more) -> Data:
    return Data(S, run(first, count), first + count - 1, 0, **more)


def numbers(given) -> list[int]:
    found = []
    for each in given:
        assert payloads(each) == [body(number) for number in range(each.first, each.end)]
        found += range(each.first, each.end)
    return found


# Runs


@pytest.mark.parametrize("sizes", [[0], [1, 255, 256], [65_535, 65_536], [3] * 20, [100] * 70_000])
def test_a_program_gets_the_messages_that_another_put_in(sizes):
    messages = [b"m" * size for size in sizes]
    assert payloads(Run(1, len(messages), block_of(messages))) == messages


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 40))
def test_a_run_can_be_cut_between_any_two_messages(count, begin, length):
    begin = min(begin, count - 1)
    end = min(begin + max(1, length), count)
    whole = run(5, count)
    assert numbers([cut(whole, 5 + begin, 5 + end)]) == list(range(5 + begin, 5 + end))


def test_two_neighbouring_runs_join_by_joining_their_blocks():
    one, other = run(1, 3), run(4, 2)
    assert numbers([Run(1, 5, one.block + other.block)]) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "block", [b"", b"\xc4", b"\xc4\x05abc", b"\xa3abc", block_of([b"a", b"b"]) + b"\x00"]
)
def test_a_block_that_is_not_what_it_says_is_refused(block):
    assert not is_sound(Run(1, 2, block))
    assert is_sound(run(1, 2))


@pytest.mark.spec("X-105", "X-106")
@given(st.integers(1, 40), st.integers(40, 400))
def test_datagrams_hold_whole_messages_or_parts_of_one(count, bytes_max):
    pieces = list(datagrams(data(1, count), bytes_max))
    assert all(len(piece.run.block) <= bytes_max for piece in pieces)
    assert numbers([piece.run for piece in pieces if not piece.size]) == [
        number
        for number in range(1, count + 1)
        if not any(piece.run.first == number and piece.size for piece in pieces)
    ]
    parts = Parts(lambda stream, number: 1 << 20)
    whole = [piece.run for piece in pieces if not piece.size]
    for piece in reversed([piece for piece in pieces if piece.size]):
        made = parts.take(0.0, piece)
        whole += [made.run] if made is not None else []
    assert numbers(sorted(whole, key=lambda each: each.first)) == list(range(1, count + 1))


sizes = st.one_of(
    st.lists(st.sampled_from([0, 1, 3, 255, 256, 300]), min_size=1, max_size=40),
    st.tuples(st.integers(1, 40), st.sampled_from([0, 1, 3, 255, 256, 65_536])).map(lambda n: [n[1]] * n[0]),
)


@given(sizes, st.integers(0, 40), st.integers(1, 40), st.integers(1, 70_000))
def test_messages_of_one_size_are_cut_as_others_are_and_faster(sizes, begin, length, bytes_max):
    whole = Run(5, len(sizes), block_of([bytes(size) for size in sizes]), 0.5)
    begin = 5 + min(begin, len(sizes) - 1)

    def cuts():
        said = Data(S, whole, whole.end - 1, 0)
        pieces = list(datagrams(said, bytes_max))
        return cut(whole, begin, min(begin + length, whole.end)), take(whole, bytes_max), pieces

    by_size = cuts()
    with pytest.MonkeyPatch.context() as walking:
        walking.setattr(runs, "_stride", lambda run: 0)
        assert cuts() == by_size


@given(sizes, st.integers(0, 60), st.integers(0, 255))
def test_a_block_with_one_byte_spoiled_is_sound_only_if_it_can_still_be_read(sizes, place, byte):
    block = bytearray(block_of([bytes(size) for size in sizes]))
    block[place % len(block)] = byte
    spoiled = Run(1, len(sizes), bytes(block))
    by_size = is_sound(spoiled)
    with pytest.MonkeyPatch.context() as walking:
        walking.setattr(runs, "_stride", lambda run: 0)
        assert is_sound(spoiled) == by_size
        assert not by_size or len(payloads(spoiled)) == len(sizes)


# Stores and streams, against a set of numbers

arrivals = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 8)), max_size=30)


@given(arrivals, st.integers(0, 30))
def test_a_store_holds_what_was_added_and_not_forgotten(script, forgotten):
    store, model = Store(), set()
    for first, count in script:
        new = numbers(store.add(run(first, count)))
        assert new == [number for number in range(first, first + count) if number not in model]
        model |= set(new)
    assert store.messages == len(model) and store.bytes == sum(len(each.block) for each in store.runs)
    assert numbers(store.get(1, 60)) == sorted(model)
    assert [n for low, high in store.holes(1, 60) for n in range(low, high + 1)] == [
        number for number in range(1, 61) if number not in model
    ]
    store.forget(forgotten)
    assert {n for n in numbers(store.get(1, 60)) if n > forgotten} == {n for n in model if n > forgotten}
    assert store.lowest is None or store.runs[0].end > forgotten + 1


@pytest.mark.spec("X-004", "X-027", "X-092")
@given(arrivals, st.integers(1, 20))
def test_whatever_arrives_is_handed_on_in_order_once_and_without_a_hole(script, start):
    inbound, told, held_max = Inbound(start), [], 16
    arrived = set()
    for first, count in script:
        before = inbound.told
        inbound.take(run(first, count), held_max)
        arrived |= {n for n in range(first, first + count) if n < before + held_max}
        told += numbers(inbound.hand_on())
        held = numbers(inbound.store.runs)
        assert held == sorted(set(held)) and inbound.store.messages == len(held)
        assert not held or held[-1] < inbound.told + held_max + 8
    assert told == list(range(start, start + len(told)))
    assert start + len(told) not in arrived
    assert all(not (low <= n <= high) or n not in told for low, high in inbound.missing(1000) for n in told)


@pytest.mark.spec("X-017")
def test_what_is_stable_and_not_handed_on_is_not_forgotten():
    inbound = Inbound(1)
    inbound.take(run(1, 3), 64)
    inbound.hear_stable(3)
    assert numbers(inbound.hand_on()) == [1, 2, 3]


# Holes


def ranges(holes: Holes) -> list[tuple[int, int]]:
    return [(hole.first, hole.last) for hole in holes.holes]


@pytest.mark.spec("X-080", "X-092")
@given(arrivals, st.lists(st.integers(0, 60), min_size=30, max_size=30))
def test_holes_are_what_was_emitted_and_has_not_come_and_keep_their_place_in_time(script, highs):
    inbound, held_max = Inbound(1), 16
    since: dict[int, float] = {}
    for now, ((first, count), high) in enumerate(zip(script, highs, strict=False)):
        inbound.take(run(first, count), held_max)
        inbound.hear_high(high)
        inbound.hand_on()
        inbound.look_for_holes(held_max, float(now))
        missing = {n for low, top in inbound.missing(held_max) for n in range(low, top + 1)}
        since = {number: since.get(number, float(now)) for number in missing}
        found = {n: hole.due for hole in inbound.holes.holes for n in range(hole.first, hole.last + 1)}
        assert found == since
        assert inbound.holes.next_due == min(since.values(), default=None)
        for number in range(1, 61):
            hole = inbound.holes.at(number)
            assert (hole is not None) == (number in missing)


@given(
    st.lists(st.one_of(st.tuples(st.integers(1, 40), st.integers(1, 8)), st.integers(1, 9)), max_size=40),
)
def test_holes_are_asked_for_when_they_are_due_each_at_its_own_time(script):
    """Filled, split and put off at random, against a plain dictionary."""
    holes, due = Holes(), dict.fromkeys(range(1, 41), 0.0)
    holes.note(1, 20, 0.0)
    holes.note(22, 40, 0.0)
    due.pop(21)
    for now, deed in enumerate(script):
        if isinstance(deed, tuple):
            first, count = deed
            holes.fill(first, first + count - 1)
            for number in range(first, first + count):
                due.pop(number, None)
        else:
            for hole in holes.due(float(now), 2):
                assert hole.due <= now
                hole.due = now + deed
                due.update(dict.fromkeys(range(hole.first, hole.last + 1), hole.due))
        found = {n: hole.due for hole in holes.holes for n in range(hole.first, hole.last + 1)}
        assert found == due
        assert holes.next_due == min(due.values(), default=None)


@pytest.mark.spec("X-082")
def test_a_question_that_others_asked_waits_twice_as_long_each_time():
    holes = Holes()
    holes.note(5, 6, 1.0)
    holes.note(9, 9, 1.0)
    assert holes.put_off([(6, 6)], lambda times: 1.0 + 2.0**times) == 1
    assert holes.put_off([(5, 5)], lambda times: 1.0 + 2.0**times) == 1
    assert [(hole.first, hole.due) for hole in holes.holes] == [(5, 5.0), (9, 1.0)]
    assert [hole.first for hole in holes.due(2.0, 64)] == [9]
    holes.fill(9, 9)
    assert holes.next_due == 5.0


@pytest.mark.spec("X-081")
def test_a_repair_that_another_holder_made_is_not_made_again():
    repairs = PlannedRepairs()
    repairs.plan(3, 4, 1.0)
    repairs.plan(3, 4, 0.5)
    repairs.plan(8, 8, 2.0)
    assert repairs.heard(1, 5) == 1
    assert repairs.next_due == 2.0
    assert [repair.first for repair in repairs.due(2.0)] == [8]
    assert repairs.next_due is None


@pytest.mark.spec("X-081")
def test_a_delegate_repairs_a_number_once_within_a_moment():
    recent = Recent()
    assert recent.fresh(1.0, ((5, 9),), 0.002) == [(5, 9)]
    assert recent.fresh(1.001, ((3, 12), (20, 21)), 0.002) == [(3, 4), (10, 12), (20, 21)]
    assert recent.fresh(1.001, ((1, 1), (4, 13), (21, 21)), 0.002) == [(1, 1), (13, 13)]
    assert recent.fresh(1.01, ((5, 5),), 0.002) == [(5, 5)]


def test_luck_is_the_same_number_every_time_and_stays_in_its_range():
    one, other = Luck(7), Luck(7)
    draws = [one.between(1.0, 2.0) for _ in range(200)]
    assert draws == [other.between(1.0, 2.0) for _ in range(200)]
    assert 1.0 <= min(draws) < 1.1 and 1.9 < max(draws) < 2.0


# Early data


@pytest.mark.spec("X-034")
def test_early_data_is_bounded_per_stream_and_the_newest_is_dropped():
    early = Early(FifoConfig(early_messages=3))
    assert early.keep(S, run(1, 2)) and not early.keep(S, run(3, 2)) and early.keep(S, run(3, 1))
    assert numbers(early.take(S)) == [1, 2, 3]
    assert early.take(S) == [] and early.bytes == 0


@pytest.mark.spec("X-034", "X-092")
def test_early_data_is_bounded_in_all_and_the_largest_stream_gives_way():
    other = Endpoint("huji.h1/t#1")
    early = Early(FifoConfig(early_bytes=100, early_bytes_all=100))
    block = block_of([b"y" * 38])
    assert early.keep(S, Run(1, 1, block)) and early.keep(S, Run(2, 1, block))
    assert early.keep(other, Run(1, 1, block))
    assert len(early.take(S)) == 1 and len(early.take(other)) == 1


# Settings


@pytest.mark.parametrize(
    "settings",
    [
        {"held_messages": 10, "window_messages": 11},
        {"nak_factor": 1.0},
        {"remember_s": 32.0},
        {"linger_s": 1.0},
        {"farewell_s": 4.0},
        {"nak_wait_max_s": 0.06},
        {"repair_wait_max_s": 0.06},
        {"nak_wait_min_s": 0.02},
        {"heartbeat_s": 2.0},
        {"fanout": 0},
        {"sync_wait_s": -1.0},
        {"resume_share": 1.5},
        {"parity_frames": -1},
    ],
)
def test_settings_that_cannot_work_are_refused_and_say_why(settings):
    with pytest.raises(BadInput, match="FIFO settings: ") as refusal:
        FifoConfig(**settings)
    assert next(iter(settings)) in str(refusal.value) or "held_messages" in str(refusal.value)


def test_both_profiles_are_sound():
    for config in (FifoConfig.lan(), FifoConfig.wan(), FifoConfig.lan().over_loopback()):
        assert config.again_after(None) > config.round_trip_s
    assert FifoConfig().again_after(0.2) == pytest.approx(0.26)


@pytest.mark.spec("X-092")
def test_no_more_is_promised_than_one_holder_should_repair():
    """Of what many miss, each holder repairs a part; the rest is asked for again."""
    repairs = PlannedRepairs()
    for number in range(0, 4 * REPAIRS_MAX, 2):
        repairs.plan(number, number, 1.0)
    assert len(repairs.due(1.0)) == REPAIRS_MAX
    repairs.plan(1, 1, 2.0)
    assert repairs.next_due == 2.0, "there is room again when they are kept"
