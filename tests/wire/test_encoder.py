"""Encoding: a long list is turned into bytes once, and nobody can tell from the bytes."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from support import samples
from support.samples import CHESS, H1, ID, WORLD

from rostra.groups.attributes import Role
from rostra.groups.members import Cause, Member
from rostra.names import Endpoint
from rostra.protocols.atomic.requests import OrderedRun
from rostra.protocols.fifo import events as spoken
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import block_of
from rostra.protocols.links.packets import Data
from rostra.protocols.relaxed.messages import EndpointsJoined, ResolveReply
from rostra.protocols.relaxed.requests import Absolute, Joined
from rostra.wire import Answered, Delivery, DeliveryToAll, Encoder, Lent, Submit, Told, encoder
from rostra.wire.encoder import SHARED_FROM
from rostra.wire.frames import FRAME_BYTES_MAX

MANY = tuple(Member(Endpoint(f"{H1}/web-{n}#{n}"), (7, n)) for n in range(SHARED_FROM))
FEW = MANY[1:]


class CountingEncoder:
    """Remembers what it was asked to encode on its own."""

    def __init__(self) -> None:
        self.encoded: list[Any] = []

    def encode(self, value: Any) -> bytes:
        self.encoded.append(value)
        return msgspec.msgpack.encode(value)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> CountingEncoder:
    counting = CountingEncoder()
    monkeypatch.setattr(encoder, "_encoder", counting)
    return counting


@pytest.mark.parametrize(
    "message",
    [
        EndpointsJoined(ID, CHESS, MANY, Cause.MERGE),
        ResolveReply(ID, CHESS, MANY, samples.Interest.ALL),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_long_message_to_many_neighbours_is_encoded_once(message: Any, counting: CountingEncoder) -> None:
    ours = Encoder(WORLD)
    packets = [Data(3, peer, 1, 0, (samples.MESSAGES[0], message)) for peer in range(50)]
    written = [ours.packet(packet) for packet in packets]
    assert counting.encoded.count(message) == 1
    assert [frame[10:] for frame in written] == [msgspec.msgpack.encode(packet) for packet in packets]
    ours.turn_ends()
    ours.packet(packets[0])
    assert counting.encoded.count(message) == 1


def test_what_is_kept_beyond_a_turn_is_bounded(counting: CountingEncoder) -> None:
    ours = Encoder(WORLD)
    answers = [Absolute(CHESS, MANY) for _ in range(encoder.KEPT_BYTES_MAX // 100)]
    for answer in answers:
        ours.tells([Answered(1, answer)])
        ours.turn_ends()
        assert sum(len(bytes(raw)) for _, raw in ours._kept.values()) <= encoder.KEPT_BYTES_MAX
    ours.tells([Answered(2, answers[0])])
    assert sum(said is answers[0] for said in counting.encoded) == 2, "it had to make room"


@pytest.mark.parametrize(
    "said",
    [Absolute(CHESS, MANY), Joined(CHESS, MANY, Cause.MERGE)],
    ids=lambda said: type(said).__name__,
)
def test_a_long_answer_or_notice_to_many_programs_is_encoded_once_per_turn(
    said: Any, counting: CountingEncoder
) -> None:
    ours = Encoder(WORLD)
    items: list[Any] = [Answered(1, said), Told((7,), said)]
    written = [ours.tells(items) for _ in range(50)]
    assert counting.encoded.count(said) == 1
    assert all(frame[10:] == msgspec.msgpack.encode(samples.Tells(tuple(items))) for frame in written)


def test_an_item_for_all_readers_of_a_group_is_encoded_once_per_turn(counting: CountingEncoder) -> None:
    """The list of a group of a thousand was encoded for each of them."""
    wire = Encoder(WORLD)
    ready = spoken.Ready(((Endpoint("eu.h1/a#1"), Role.BOTH, b""),))
    first = wire.item(CHESS, ready)
    counting.encoded.clear()
    assert all(wire.item(CHESS, ready) is first for _ in range(1_000)) and counting.encoded == []
    again = spoken.Ready((*ready.members, (Endpoint("eu.h1/b#2"), Role.BOTH, b"")))
    assert wire.item(CHESS, again) != first
    wire.turn_ends()
    assert wire.item(CHESS, ready) == first and counting.encoded != []


def test_a_short_message_is_encoded_with_its_packet(counting: CountingEncoder) -> None:
    packet = Data(3, 4, 1, 0, (EndpointsJoined(ID, CHESS, FEW, Cause.JOIN), *samples.MESSAGES))
    Encoder(WORLD).packet(packet)
    assert counting.encoded == [packet]


def test_two_messages_that_follow_each_other_in_memory_are_not_mistaken_for_one() -> None:
    ours = Encoder(WORLD)
    for sequence in range(100):
        packet = Data(
            3, 4, 1, 0, (ResolveReply(samples.MessageId(H1, 7, sequence), CHESS, MANY, samples.Interest.ALL),)
        )
        assert ours.packet(packet)[10:] == msgspec.msgpack.encode(packet)
        del packet  # its memory is free for the next one


@pytest.mark.parametrize("size", [0, 1, 255, 256, 900, 65_535, 65_536, 800_000, FRAME_BYTES_MAX - 3])
@pytest.mark.parametrize("count", [1, 15, 16, 1000, 20_000])
def test_a_submission_in_pieces_means_the_same(size: int, count: int) -> None:
    ours = Encoder(WORLD)
    payloads = [bytes(size % count), *[bytes(size // count)] * (count - 1), b""]
    submit = Submit(7, CHESS, len(payloads), block_of(payloads), 1.5)
    assert b"".join(ours.submission(7, CHESS, payloads, 1.5)) == ours.to_agent(submit)


def test_a_delivery_in_pieces_means_the_same() -> None:
    ours = Encoder(WORLD)
    for size in (1, 700, 1000, 70_000, FRAME_BYTES_MAX):
        item = OrderedRun(Endpoint("eu.h1/a#1"), Run(1, 1, block_of([bytes(size)])), 9)
        written = ours.delivery(7, ours.item(CHESS, item))
        assert b"".join(written) == ours.to_program(Delivery(7, CHESS, item))


def test_a_delivery_to_all_in_pieces_means_the_same() -> None:
    ours = Encoder(WORLD)
    item = spoken.Excluded("too slow")
    written = ours.delivery_to_all([7, 300, 70_000], ours.item(CHESS, item))
    assert b"".join(written) == ours.to_program(DeliveryToAll((7, 300, 70_000), CHESS, item))


def test_a_loan_is_encoded_once_for_all_and_means_the_same() -> None:
    encoder = Encoder(WORLD)
    lent = next(each for each in samples.TO_PROGRAM if isinstance(each, Lent))
    run = Run(lent.first, lent.count, b"", lent.at)
    loan = encoder.loan(lent.group, lent.stream, run, lent.arena, lent.begin, lent.size)
    for endpoint in (0, 7, 2**63 - 1):
        assert encoder.lent(endpoint, loan) == encoder.to_program(replace(lent, endpoint=endpoint))
