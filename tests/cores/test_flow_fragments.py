"""Parts of large messages: whole or not at all, asked for by the byte, and never more than is allowed."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.samples import ANN, BOB, CHESS

from rostra.names import Domain
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.fragments import (
    LAST_BYTE,
    PART_OVERHEAD,
    QUESTIONS_MAX,
    Fragments,
    Parts,
    held,
    pieces,
    place,
    places,
    places_of,
    questions,
)
from rostra.protocols.flow.messages import Data, Nak, Run, Stream
from rostra.protocols.flow.recovery import Hole
from rostra.protocols.flow.runs import block_of
from rostra.protocols.flow.streams import Inbound, Store
from rostra.wire.datagrams import Datagrams

MIT = Domain("mit")
MESSAGE = bytes(range(256)) * 12


def said(number: int, message: bytes = MESSAGE, stream: Stream = ANN) -> Data:
    return Data(stream, Run(number, 1, block_of([message])), number, 0)


def parts_of(data: Data, bytes_max: int = 1200) -> list[Data]:
    return list(pieces(data, bytes_max))


def eager(room: int = 1 << 20) -> Parts:
    """Somebody waits for everything."""
    return Parts(lambda stream, number: room)


def hole(first: int, last: int | None = None) -> Hole:
    return Hole(first, first if last is None else last, 0.0)


@pytest.mark.spec("X-105")
def test_parts_make_the_message_that_they_were_cut_from() -> None:
    cut = parts_of(said(1), 300)
    assert len(cut) == 11
    receiver = eager()
    assert [receiver.take(0.0, part) for part in reversed(cut)] == [*[None] * 10, said(1)]
    assert receiver.bytes == 0


def test_a_run_in_several_datagrams_says_of_none_that_is_still_to_come_that_it_was_said() -> None:
    run = Data(ANN, Run(5, 10, block_of([bytes(40)] * 10)), 14, 2)
    cut = parts_of(run, 100)
    assert [piece.high for piece in cut] == [piece.run.end - 1 for piece in cut] == [6, 8, 10, 12, 14]


@pytest.mark.spec("X-105")
@given(
    st.lists(st.sampled_from([700, 1000, 1200, 8000]), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_parts_that_holders_have_cut_differently_fit_together(sizes: list[int], luck: Random) -> None:
    """An agent fills datagrams of 8,000 bytes, a server of 1,200, and both repair."""
    receiver, whole = eager(), None
    cut = [part for size in sizes for part in parts_of(said(7, MESSAGE * 5), size)]
    luck.shuffle(cut)
    for part in cut:
        whole = whole or receiver.take(0.0, part)
    assert whole is not None and whole.run == said(7, MESSAGE * 5).run


def test_parts_that_make_no_message_are_not_handed_on() -> None:
    receiver = eager()
    assert receiver.take(0.0, Data(ANN, Run(1, 1, b"\xc4\x65" + b"e" * 62), 1, 0, offset=0, size=65)) is None
    assert receiver.take(0.0, Data(ANN, Run(1, 1, b"4"), 1, 0, offset=64, size=65)) is None
    assert receiver.bytes == 0


# What is kept, and for how long


@pytest.mark.spec("X-092", "X-105")
def test_late_parts_of_messages_that_are_whole_take_no_room() -> None:
    """They opened partials that never filled; after 64 of them every newer part was thrown away, for good."""
    inbound = Inbound(1)
    parts = Parts(lambda stream, number: 1 << 20 if inbound.waits_for(number, 4096) else 0)
    for number in range(1, 201):
        cut = parts_of(said(number))
        whole = [parts.take(0.0, part) for part in cut][-1]
        assert whole is not None, f"{number} is not whole, and all its parts came"
        inbound.take(whole.run, 4096)
        inbound.told = inbound.next
        assert parts.take(0.0, cut[0]) is cut[0], "nobody waits for it"
    assert parts.bytes == 0


@pytest.mark.spec("X-092")
def test_what_came_whole_by_another_way_or_ended_is_forgotten() -> None:
    waiting = {ANN: 1, BOB: 1}
    parts = Parts(lambda stream, number: 1 << 20 if number >= waiting[stream] else 0)
    for number in (1, 2):
        parts.take(0.0, parts_of(said(number))[0])
    waiting[ANN] = 2  # a member of the same host had it
    parts.take(0.0, parts_of(said(3))[0])
    assert [number for number, _ in parts.missing(ANN, 1, 9)] == [2, 3]
    waiting[ANN] = 1000  # its stream ended
    for number in (1, 2):
        parts.take(0.0, parts_of(said(number, stream=BOB))[0])
        parts.take(0.0, parts_of(said(number, stream=BOB))[-1])
    parts.take(0.0, parts_of(said(1000))[0])
    assert [number for number, _ in parts.missing(ANN, 1, 9999)] == [1000]


@pytest.mark.spec("X-092")
def test_one_sender_cannot_fill_more_than_its_room_and_the_lowest_number_always_has_some() -> None:
    room = 20_000
    receiver = eager(room)
    for number in range(40, 0, -1):
        for part in parts_of(said(number))[:-1]:
            receiver.take(0.0, part)
        assert receiver.bytes <= room
    kept = [number for number, _ in receiver.missing(ANN, 1, 99)]
    assert kept == list(range(1, len(kept) + 1)) and kept
    assert receiver.take(0.0, parts_of(said(1))[-1]) == said(1)


@pytest.mark.spec("X-092")
def test_parts_of_a_few_bytes_cost_what_they_take_and_are_not_kept() -> None:
    receiver, size = eager(100_000), 1 << 20
    for offset in range(0, 20_000, 2):
        receiver.take(0.0, Data(ANN, Run(1, 1, b"x"), 1, 0, offset=offset, size=size))
    assert receiver.bytes == 0
    for offset in range(0, size - 200, 130):
        receiver.take(0.0, Data(ANN, Run(1, 1, b"x" * 64), 1, 0, offset=offset, size=size))
        assert receiver.bytes <= 100_000 and receiver.bytes % (64 + PART_OVERHEAD) in (0, PART_OVERHEAD)


@pytest.mark.spec("X-034", "X-092")
def test_of_streams_that_nobody_knows_only_a_little_is_kept_in_all() -> None:
    config = FifoConfig(early_bytes=10_000, early_bytes_all=50_000)
    node = Fragments(config, lambda group, stream, number: config.early_bytes)
    for who in range(1000):
        stream = Stream(f"{ANN}{who}")
        needed, _ = node.whole(0.0, CHESS, parts_of(said(1, stream=stream))[:2])
        assert needed == []
    assert node.of(CHESS).bytes < 50_000 + 10_000


# Questions


@pytest.mark.spec("X-105")
def test_only_the_missing_bytes_of_a_message_are_asked_for_and_sent_again() -> None:
    receiver, large = eager(), said(7, b"z" * 10_000)
    cut = parts_of(large, 1000)
    for nth, part in enumerate(cut):
        if nth not in (2, 5, 6):
            assert receiver.take(0.0, part) is None
    [nak] = questions(ANN, [hole(6, 8)], MIT, 1, receiver)
    assert nak == Nak(ANN, ((6, 6), (7, 7), (8, 8)), MIT, 1, ((7, ((2000, 2999), (5000, 6999))),))
    store = Store()
    store.append(large.run)
    again = [
        Data(ANN, *each[:1], 7, 0, True, 0, *each[1:]) for each in held(store, places(nak), 1000, 1 << 20)
    ]
    assert [part.offset for part in again] == [2000, 5000, 6000]
    assert [receiver.take(0.0, part) for part in again][:2] == [None, None]


@pytest.mark.spec("X-105")
@pytest.mark.parametrize("message_bytes", [3_000, 60_000, 1 << 20, 16 << 20])
def test_a_question_fits_datagrams_however_much_of_a_message_is_missing(message_bytes: int) -> None:
    receiver, luck = eager(32 << 20), Random(f"a fifth {message_bytes}")
    for number in (2**40, 2**40 + 1):
        for part in parts_of(said(number, bytes(message_bytes)))[1:]:
            if luck.random() > 0.2:
                receiver.take(0.0, part)
    naks = questions(ANN, [hole(5, 6), hole(2**40), hole(2**40 + 1)], MIT, 3, receiver)
    assert 1 <= len(naks) <= QUESTIONS_MAX
    for nak in naks:
        [datagram] = Datagrams("w").pack(CHESS, MIT, MIT, [nak], 1200)
        assert sum(map(len, datagram)) <= 1500


@pytest.mark.spec("X-083")
def test_a_message_whose_parts_come_in_is_not_asked_for_yet() -> None:
    receiver = eager()
    cut = parts_of(said(7))
    asked = hole(7)
    assert not receiver.still_coming(5.0, ANN, asked, 0.01), "nothing of it came"
    receiver.take(5.0, cut[0])
    assert receiver.still_coming(5.001, ANN, asked, 0.01) and asked.due == pytest.approx(5.01)
    assert not receiver.still_coming(5.011, ANN, asked, 0.01)
    asked.asked, asked.asked_at = 5, 5.011
    receiver.take(5.1, cut[1])
    assert not receiver.still_coming(5.2, ANN, asked, 0.01)
    assert asked.asked == 2, "the answer came in part: the next question is not the sixth in vain"


@pytest.mark.spec("X-083", "X-084")
def test_a_question_in_vain_is_asked_ever_more_seldom_and_never_given_up() -> None:
    config = FifoConfig()
    waits = [config.again_after(0.04, asked) for asked in range(1, 40)]
    assert waits[:3] == [pytest.approx(0.06)] * 3
    assert waits[3:] == [pytest.approx(0.12), *[pytest.approx(0.24)] * 35]


# Answers


def test_an_asker_that_names_a_number_many_times_is_answered_once() -> None:
    nak = Nak(ANN, ((1, 3), (2, 9), (2, 2), (1, 3)), MIT, 1, ((5, ((10, 20), (15, 30), (10, 20))),))
    assert places(nak) == [
        (place(1), place(4, LAST_BYTE)),
        (place(5, 10), place(5, 30)),
        (place(6), place(9, LAST_BYTE)),
    ]


@given(
    st.lists(st.integers(0, 5000), min_size=1, max_size=12),
    st.lists(
        st.tuples(st.integers(0, 14), st.integers(0, 6000), st.integers(0, 14), st.integers(0, 6000)),
        max_size=5,
    ),
    st.sampled_from([64, 1200, 8000]),
)
def test_an_answer_holds_the_bytes_that_were_asked_for_and_no_others(
    sizes: list[int], asked: list[tuple[int, int, int, int]], part_bytes: int
) -> None:
    store, blocks = Store(), {}
    for number, size in enumerate(sizes, 1):
        blocks[number] = block_of([bytes([number]) * size])
    store.append(Run(1, len(sizes), b"".join(blocks.values())))
    ranges = sorted({(place(a, b), place(c, d)) for a, b, c, d in asked if (a, b) <= (c, d)})
    ranges = [each for nth, each in enumerate(ranges) if all(each[0] > high for _, high in ranges[:nth])]
    wanted = {
        (number, byte)
        for number, block in blocks.items()
        for byte in range(len(block))
        if any(low <= place(number, byte) <= high for low, high in ranges)
    }
    found: list[tuple[int, int]] = []
    for run, offset, size in held(store, ranges, part_bytes, 1 << 30):
        numbers = range(run.first, run.end)
        if size:
            assert run.count == 1 and size == len(blocks[run.first]) and len(run.block) <= part_bytes
            assert run.block == blocks[run.first][offset : offset + len(run.block)]
            found += [(run.first, offset + n) for n in range(len(run.block))]
        else:
            assert run.block == b"".join(blocks[number] for number in numbers)
            found += [(number, byte) for number in numbers for byte in range(len(blocks[number]))]
    assert sorted(found) == sorted(wanted)


@pytest.mark.spec("X-090", "X-092")
@pytest.mark.parametrize("size", [10, 3_000, 1 << 20])
def test_one_question_is_answered_with_so_many_bytes_and_no_more(size: int) -> None:
    store, block = Store(), block_of([bytes(size)])
    for first in range(1, 1000, 50):
        store.append(Run(first, 50, block * 50) if size < 1 << 20 else Run(first, 1, block))
    everything = places(Nak(ANN, ((1, 2**62),), MIT))
    answer = list(held(store, everything, 1200, 100_000))
    assert sum(len(run.block) for run, _, _ in answer) <= 100_000 + 1200
    assert answer and (size > 10 or len(answer) == 20), "all of it, if it is that little"


def test_a_part_is_known_by_the_bytes_that_it_is() -> None:
    part = parts_of(said(7))[1]
    assert places_of(part) == (place(7, 1200), place(7, 2399))
    assert places_of(said(7)) == (place(7), place(7, LAST_BYTE))
