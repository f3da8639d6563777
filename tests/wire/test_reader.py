"""What the reader makes of bodies: newer peers are understood where possible, hostile ones cost little."""

import math
import tracemalloc
from typing import Any

import msgspec
import pytest
from support import samples
from support.samples import CHESS, ID, WORLD

from rostra.errors import Malformed
from rostra.protocols.links.packets import Data
from rostra.protocols.relaxed.messages import EndpointLeft, ResolveRequest, SyncDone
from rostra.protocols.relaxed.requests import Denied, Done, Watch
from rostra.wire import (
    Answered,
    Arrived,
    Ask,
    BadAsk,
    Encoder,
    FrameKind,
    FrameReader,
    Told,
    reader,
    world_tag,
)
from rostra.wire.frames import frame

ENCODER = Encoder(WORLD)
GREETING = {
    FrameKind.LINK: ENCODER.packet(samples.PACKETS[0]),
    FrameKind.TO_AGENT: ENCODER.to_agent(samples.TO_AGENT[0]),
    FrameKind.TO_PROGRAM: ENCODER.to_program(samples.TO_PROGRAM[0]),
}
KINDS = list(GREETING)


def greeted(kind: FrameKind) -> FrameReader:
    fresh = FrameReader(WORLD, kind)
    assert len(fresh.feed(GREETING[kind])) == 1
    return fresh


def framed(kind: FrameKind, body: bytes) -> bytes:
    return frame(kind, world_tag(WORLD), body)


def body_of(frames: bytes) -> Any:
    """A frame's body as plain lists, to be changed and encoded again."""
    return msgspec.msgpack.decode(frames[10:])


def feed(kind: FrameKind, body: Any) -> tuple[list[Arrived], FrameReader]:
    fresh = greeted(kind)
    return fresh.feed(framed(kind, body if isinstance(body, bytes) else msgspec.msgpack.encode(body))), fresh


def data(*messages: Any) -> Any:
    return body_of(ENCODER.packet(Data(3, 4, 1, 0, messages)))


# What a newer peer may say


def longer(body: list[Any]) -> list[Any]:
    """The same with one more field, which does not exist yet."""
    return [*body, {"new": ["field", 1.5, None]}]


@pytest.mark.spec("C-084")
@pytest.mark.parametrize("message", samples.MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_that_grew_a_field_is_still_understood(message: Any) -> None:
    body = data(message)
    body[5] = [longer(each) for each in body[5]]
    arrived, fresh = feed(FrameKind.LINK, longer(body))
    assert arrived == [Data(3, 4, 1, 0, (message,))]
    assert not fresh.unknown


@pytest.mark.parametrize("request_", samples.REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_that_grew_a_field_is_still_understood(request_: Any) -> None:
    kind, asks = body_of(ENCODER.asks([Ask(1, 7, request_)]))
    arrived, _ = feed(
        FrameKind.TO_AGENT, longer([kind, [longer([*ask[:2], longer(ask[2])]) for ask in asks]])
    )
    assert arrived == [Ask(1, 7, request_)]


@pytest.mark.parametrize("item", samples.ITEMS, ids=lambda item: type(item).__name__)
def test_an_item_that_grew_a_field_is_still_understood(item: Any) -> None:
    kind, items = body_of(ENCODER.tells([item]))
    arrived, _ = feed(
        FrameKind.TO_PROGRAM, longer([kind, [longer([*each[:2], longer(each[2])]) for each in items]])
    )
    assert arrived == [item]


def test_unknown_messages_are_counted_and_the_rest_is_kept_in_order() -> None:
    first, last = SyncDone(ID), ResolveRequest(ID, CHESS)
    body = data(first, last)
    body[5][1:1] = [[77, "of", ["the", "future"]], [78], [77]]
    arrived, fresh = feed(FrameKind.LINK, body)
    assert arrived == [Data(3, 4, 1, 0, (first, last))]
    assert fresh.unknown == {"message 77": 2, "message 78": 1}
    assert not fresh.over


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (FrameKind.LINK, "packet"),
        (FrameKind.TO_AGENT, "program frame"),
        (FrameKind.TO_PROGRAM, "program frame"),
    ],
)
def test_an_unknown_packet_or_frame_is_counted_and_skipped(kind: FrameKind, what: str) -> None:
    arrived, fresh = feed(kind, [99, 1, 2, 3])
    assert arrived == [] and fresh.unknown == {f"{what} 99": 1} and not fresh.over


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_packet_or_frame_is_no_greeting(kind: FrameKind) -> None:
    [error] = FrameReader(WORLD, kind).feed(framed(kind, msgspec.msgpack.encode([99])))
    assert isinstance(error, Malformed) and "before the handshake" in error.what


def test_an_unknown_request_is_denied_because_somebody_waits_for_an_answer() -> None:
    kind, asks = body_of(ENCODER.asks([Ask(1, 7, Watch(CHESS)), Ask(3, 7, Watch(CHESS))]))
    arrived, fresh = feed(FrameKind.TO_AGENT, [kind, [asks[0], [2, 7, [99, "future"]], asks[1]]])
    first, bad, last = arrived
    assert (first, last) == (Ask(1, 7, Watch(CHESS)), Ask(3, 7, Watch(CHESS)))
    assert (
        isinstance(bad, BadAsk) and (bad.token, bad.endpoint) == (2, 7) and bad.denial().code == "NOT_ALLOWED"
    )
    assert fresh.unknown == {"request 99": 1}


def test_an_unknown_notice_is_skipped_and_an_unknown_answer_is_a_denial() -> None:
    kind, items = body_of(ENCODER.tells([Answered(1, Done()), Told((7,), samples.NOTICES[3])]))
    extra = [[2, [7], [99, "future"]], [1, 2, [98]], [9, "an item of the future"]]
    arrived, fresh = feed(FrameKind.TO_PROGRAM, [kind, [items[0], *extra, items[1]]])
    done, unknown, told = arrived
    assert (done, told) == (Answered(1, Done()), Told((7,), samples.NOTICES[3]))
    assert isinstance(unknown, Answered) and unknown.token == 2 and isinstance(unknown.answer, Denied)
    assert fresh.unknown == {"said 99": 1, "said 98": 1, "item 9": 1}


@pytest.mark.parametrize("to", [[10, 7], [16, [7, 9]]])
def test_an_unknown_item_is_skipped_for_one_endpoint_and_for_several(to: list[Any]) -> None:
    arrived, fresh = feed(FrameKind.TO_PROGRAM, [*to, [CHESS.name, CHESS.scope], [99, "future"]])
    assert arrived == [] and fresh.unknown == {"group item 99": 1} and not fresh.over


def test_unknown_numbers_are_counted_one_by_one_only_up_to_a_bound() -> None:
    body = data()
    body[5] = [[1000 + number] for number in range(500)]
    _, fresh = feed(FrameKind.LINK, body)
    assert len(fresh.unknown) == reader.UNKNOWN_KINDS_MAX + 1
    assert sum(fresh.unknown.values()) == 500


# What is broken


@pytest.mark.parametrize("body", [{}, [], [2], ["2", 3, 4, 1, 0, []], 2, None, "text", b"bytes", [[2], 3]])
def test_a_body_that_is_no_packet_ends_the_stream(body: Any) -> None:
    arrived, fresh = feed(FrameKind.LINK, msgspec.msgpack.encode(body))
    assert isinstance(arrived[0], Malformed) and fresh.over


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ([1], "3"),
        ([1], 1.5),
        ([3], None),
        ([5], {}),
        ([5], [[]]),
        ([5], [["2"]]),
        ([5, 0, 0], 12),
        ([5, 0, 1], []),
        ([5, 0, 2, 0], b"bytes"),
        ([5, 0, 3], 7),
        ([5, 0, 4], [7]),
        ([5, 0, 4], [7, 2, 3]),
        ([5, 0, 4, 0], math.nan),
        ([5, 0, 5], "flew away"),
        ([5, 0, 5], "\x1b[2J" * 100),
        ([5, 0, 6], "text"),
    ],
)
def test_a_wrong_shape_anywhere_in_a_packet_ends_the_stream(place: list[int], wrong: Any) -> None:
    body = data(EndpointLeft(ID, CHESS, samples.ANN, (7, 2), samples.Cause.LEAVE))
    *outer, last = place
    inner = body
    for step in outer:
        inner = inner[step]
    inner[last] = wrong
    arrived, fresh = feed(FrameKind.LINK, body)
    [error] = arrived
    assert isinstance(error, Malformed) and fresh.over
    assert error.what.isprintable() and len(error.what) < 1000


def test_an_answer_where_a_notice_belongs_ends_the_stream() -> None:
    kind, _ = body_of(ENCODER.tells([]))
    for wrong in ([2, [7], [2]], [1, 1, [17, ["g", "eu"], [], "join", None]]):
        arrived, _ = feed(FrameKind.TO_PROGRAM, [kind, [wrong]])
        assert isinstance(arrived[0], Malformed)


def test_a_frame_of_the_other_direction_ends_the_stream() -> None:
    tells, asks = body_of(ENCODER.tells([])), body_of(ENCODER.asks([]))
    assert isinstance(feed(FrameKind.TO_AGENT, tells)[0][0], Malformed)
    assert isinstance(feed(FrameKind.TO_PROGRAM, asks)[0][0], Malformed)


@pytest.mark.parametrize("kind", KINDS)
def test_something_after_the_body_ends_the_stream(kind: FrameKind) -> None:
    body = GREETING[kind][10:] + b"\x00"
    [error] = greeted(kind).feed(framed(kind, body))
    assert isinstance(error, Malformed)


BOMBS = {
    "array of 4 billion": b"\xdd\xff\xff\xff\xff",
    "array of 268 million, some there": b"\xdd\x10\x00\x00\x00" + b"\x90" * 1000,
    "map of 4 billion": b"\xdf\xff\xff\xff\xff",
    "bytes of 4 billion": b"\xc6\xff\xff\xff\xff",
    "text of 4 billion": b"\xdb\xff\xff\xff\xff",
    "extension of 4 billion": b"\xc9\xff\xff\xff\xff\x01",
    "nested arrays": b"\x91" * 500_000,
    "nested maps": b"\x81\x01" * 250_000,
    "wide and deep": b"\xdc\xff\xff" * 150_000,
    "bad UTF-8": b"\xa4\xff\xfe\xfd\xfc",
    "surrogate in UTF-8": b"\xa3\xed\xa0\x80",
    "overlong UTF-8": b"\xa2\xc0\x80",
    "reserved byte": b"\xc1",
    "timestamp": b"\xd6\xff\x00\x00\x00\x00",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["body", "list", "field", "unknown field", "unknown message"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused_and_costs_no_memory(kind: FrameKind, place: str, bomb: str) -> None:
    octets = BOMBS[bomb]
    number, ahead = {
        FrameKind.LINK: (b"\x02", b"\x03\x04\x01\x00"),  # Data
        FrameKind.TO_AGENT: (b"\x03", b""),  # Asks
        FrameKind.TO_PROGRAM: (b"\x04", b""),  # Tells
    }[kind]
    start = bytes([0x92 + len(ahead)]) + number + ahead
    body = {
        "body": octets,
        "list": start + octets,
        "field": start + b"\x91\x93\x01" + octets,
        "unknown field": bytes([start[0] + 1]) + start[1:] + b"\x90" + octets,
        "unknown message": start + b"\x91\x92\x63" + octets,
    }[place]
    fresh = greeted(kind)
    frames = framed(kind, body)
    tracemalloc.start()
    arrived = fresh.feed(frames)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * len(frames) + 64_000
    if not fresh.over:
        # Skipped unread, because it stands where something of the future may stand.
        assert place.startswith("unknown") and not any(isinstance(item, Malformed) for item in arrived)
    else:
        assert isinstance(arrived[-1], Malformed) and len(str(arrived[-1])) < 1000


def crowd(count: int, each: bytes) -> bytes:
    return b"\xdd" + count.to_bytes(4, "big") + each * count


ID_BYTES, CHESS_BYTES = msgspec.msgpack.encode(ID), msgspec.msgpack.encode(CHESS)
CROWDS = {
    "tiny members": b"\x91\x96\x01"
    + ID_BYTES
    + CHESS_BYTES
    + crowd(200_000, b"\x92\xa0\x92\x00\x00")
    + b"\xa4join\xc0",
    "tiny names": b"\x91\x95\x0c" + ID_BYTES + b"\xa2eu\x01" + crowd(300_000, b"\xa2ab"),
    "tiny messages": crowd(140_000, b"\x92\x07\x93\xa1a\x00\x00"),
    "unknown messages": crowd(500_000, b"\x91\x63"),
    "as many unknown messages as may be": crowd(65_536, b"\x91\x63"),
}


@pytest.mark.parametrize("what", CROWDS)
def test_a_crowded_frame_costs_at_most_25_times_its_size_and_a_little(what: str) -> None:
    fresh = greeted(FrameKind.LINK)
    frames = framed(FrameKind.LINK, b"\x96\x02\x03\x04\x01\x00" + CROWDS[what])
    tracemalloc.start()
    arrived = fresh.feed(frames)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert arrived or fresh.unknown
    assert peak < 25 * len(frames) + 8_000_000


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
def test_whoever_mixed_up_the_ports_is_told_so(said):
    (broken,) = FrameReader(WORLD, FrameKind.LINK).feed(said)
    assert isinstance(broken, Malformed)
    assert "speaks HTTP" in broken.what
