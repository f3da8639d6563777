"""Forward error correction: any two lost frames of a block are made up for (X-086)."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fifonet import Net

from rostra.names import Endpoint
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.fec import ParityMaker, ParityReader
from rostra.protocols.flow.messages import Data, Numbered, Parity, Run
from rostra.protocols.flow.runs import block_of

S = Endpoint("huji.h1/s#1")


def frames(sizes):
    return [Data(S, Run(n, 1, block_of([bytes([n]) * size])), n, 0) for n, size in enumerate(sizes, 1)]


def sent(sizes):
    maker = ParityMaker(len(sizes))
    return [message for data in frames(sizes) for message in maker.add(data)]


@pytest.mark.spec("X-086")
def test_any_two_lost_of_ten_are_rebuilt_byte_for_byte():
    sizes = [0, 900, 7, 300, 300, 1, 64, 1100]
    for lost in combinations(range(10), 2):
        reader, heard = ParityReader(), []
        for place, message in enumerate(sent(sizes)):
            if place not in lost:
                heard += reader.hear(message)
        assert sorted(heard, key=lambda data: data.run.first) == frames(sizes)


@pytest.mark.spec("X-086")
@given(st.lists(st.integers(0, 400), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_whatever_the_order_each_frame_comes_once_and_none_is_made_up(sizes, random):
    messages = sent(sizes)
    random.shuffle(messages)
    kept = [message for message in messages if random.random() > 0.15]
    reader, heard = ParityReader(), []
    for message in kept:
        heard += reader.hear(message)
    numbers = [data.run.first for data in heard]
    assert len(numbers) == len(set(numbers))
    assert all(data in frames(sizes) for data in heard)
    if len(messages) - len(kept) <= 2:
        assert sorted(numbers) == list(range(1, len(sizes) + 1))


def test_a_block_that_is_closed_early_has_its_parities_too():
    maker = ParityMaker(8)
    [first] = maker.add(frames([50])[0])
    parities = maker.close()
    assert [message.size for message in parities] == [1, 1] and not maker.open
    assert maker.close() == []
    reader = ParityReader()
    assert reader.hear(parities[1]) == [first.data]


def test_a_parity_that_does_not_belong_to_its_frames_rebuilds_nothing():
    reader = ParityReader()
    reader.hear(Numbered(1, 0, frames([500])[0]))
    assert reader.hear(Parity(1, 2, b"short", (5, 5))) == []
    assert reader.hear(Parity(2, 1, b"\x00" * 9, (9,))) == []
    assert reader.hear(Parity(3, 300, b"\x00" * 9, (9,) * 300)) == []
    assert reader.hear(Parity(4, 2, b"\x00" * 9, (9,))) == []


@pytest.mark.spec("X-086")
def test_between_sites_there_are_far_fewer_questions():
    asked = {}
    for parity in (0, 8):
        net = Net(4, {"huji": 1, "mit": 1}, wan_loss=0.05, config=FifoConfig(parity_frames=parity))
        a, b = net.join("huji.h1/a"), net.join("mit.h1/b")
        net.run(2.0)
        net.stream(a, every_s=0.001, count=3000)
        net.run(6.0)
        assert net.numbers(b, a) == list(range(1, 3001))
        asked[parity] = net.counts.get("wan Nak", 0)
    assert asked[0] > 100
    assert asked[8] <= 0.15 * asked[0]
