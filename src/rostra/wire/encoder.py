"""Messages to bytes.

MessagePack encodes a small message in less time than it takes to look it up, so small ones are simply encoded
again for each peer, the whole packet in one call. Long ones (a membership list after a merge, an answer that
many programs asked for) are encoded once and pasted into every packet that carries them. They are kept beyond
the turn as long as they are few: who is in a group is asked more often than it changes. The border was
measured; see `docs/decisions/0008-what-the-wire-promises.md`.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from rostra.errors import UNDECODABLE, BadInput, RostraError, TooLarge
from rostra.names import Group
from rostra.protocols.atomic.requests import OrderClosed, OrderedRun, OrderPlaced
from rostra.protocols.fifo.events import Credit, Delivered, Excluded, Parted, Sent
from rostra.protocols.fifo.events import Item as GroupItem
from rostra.protocols.flow.messages import Run, Stream
from rostra.protocols.flow.runs import array_of
from rostra.protocols.front.messages import Answered, AnyRequest, Ask, Told
from rostra.protocols.links.packets import AnyPacket, Data
from rostra.protocols.relaxed.messages import EndpointsJoined, ResolveReply
from rostra.protocols.relaxed.requests import Absolute, Changed, Joined, Snapshot
from rostra.wire import shapes
from rostra.wire.frames import (
    AFTER_LENGTH,
    BODY_BOUND,
    BODY_BYTES_MAX,
    HEADER,
    PACKET_MESSAGES_MAX,
    WIRE_VERSION,
    FrameKind,
    Refusal,
    frame,
    world_tag,
)
from rostra.wire.programs import Asks, Tells, ToAgent, ToProgram

SHARED_FROM: Final = 8
"""A list of this many records is worth encoding once and keeping."""

KEPT_BYTES_MAX: Final = 64 << 10
"""What may be kept when a turn ends; if it is more, all is let go. Raising it costs six times as much memory,
for the messages are kept with their bytes."""

JOINED_BYTES_MAX: Final = 1024
"""A frame that is not longer is cheaper to join than to write in pieces."""

_LISTS: Final = frozenset({EndpointsJoined, ResolveReply, Absolute, Joined, Snapshot, Changed})
"""What may hold a long list of members."""

_OF_ONE: Final = frozenset({Credit, Sent, Parted, Excluded, OrderPlaced, OrderClosed})
"""Items about a member's own stream, or its own end: no other receives them."""

_encoder: Final = msgspec.msgpack.Encoder()

_DELIVERY: Final = b"\x94\x0a"  # how a `Delivery` begins: an array of four, and its number
_DELIVERY_TO_ALL: Final = b"\x94\x10"  # the same of a `DeliveryToAll`
_SUBMIT: Final = b"\x96\x08"  # a `Submit`
_LENT: Final = b"\x9b\x0c"  # the same of a `Lent`, which has eleven


class Encoder:
    """Turns messages to peers into frames of one world.

    One per node or program. `turn_ends` must be called when the batch of a turn has been encoded, or what is
    kept grows without bound. It is found by the identity of the message, so the message is kept too.
    """

    def __init__(self, world: str) -> None:
        self.world = world
        self._tag = world_tag(world)
        self._kept: dict[int, tuple[Any, Raw]] = {}
        self._kept_bytes = 0
        self._items: dict[int, tuple[GroupItem | Run, bytes]] = {}  # those of this turn

    def packet(self, packet: AnyPacket) -> bytes:
        """Whole frames, ready to write, for one packet of a link."""
        if type(packet) is Data:
            if len(packet.messages) > PACKET_MESSAGES_MAX:
                raise TooLarge(
                    f"a packet of {len(packet.messages)} messages", fix=f"at most {PACKET_MESSAGES_MAX}"
                )
            if any(map(_is_long, packet.messages)):
                packet = replace(
                    packet, messages=tuple([self._pasted(m) if _is_long(m) else m for m in packet.messages])
                )
        return self._frame(FrameKind.LINK, packet)

    def tells(self, items: list[Answered | Told]) -> bytes:
        """One frame with all answers and notices of this turn for one program."""
        body = _encoder.encode(Tells(tuple([self._item(item) for item in items])))
        return frame(FrameKind.TO_PROGRAM, self._tag, body)

    def asks(self, asks: list[Ask]) -> bytes:
        """All requests of a program in this turn; in several frames if one cannot hold them."""
        body = _encoder.encode(Asks(tuple(asks)))
        if len(body) > BODY_BOUND[FrameKind.TO_AGENT] and len(asks) > 1:
            half = len(asks) // 2
            return self.asks(asks[:half]) + self.asks(asks[half:])
        return frame(FrameKind.TO_AGENT, self._tag, body)

    def to_agent(self, said: ToAgent) -> bytes:
        return self._frame(FrameKind.TO_AGENT, said)

    def submission(
        self, endpoint: int, group: Group, payloads: Sequence[bytes], at: float
    ) -> list[bytes | memoryview]:
        """A `Submit` of these messages, in pieces to be written one after the other: a long block is not
        copied."""
        array, begin = array_of(payloads)
        size = len(array) - begin
        who = _encoder.encode((endpoint, group, len(payloads)))[1:]
        front = _SUBMIT + who + _bin_head(size)
        rear = _encoder.encode(at)
        whole = len(front) + size + len(rear)
        if not JOINED_BYTES_MAX < whole <= BODY_BYTES_MAX:
            return [frame(FrameKind.TO_AGENT, self._tag, b"".join((front, memoryview(array)[begin:], rear)))]
        head = HEADER.pack(AFTER_LENGTH + whole, WIRE_VERSION, FrameKind.TO_AGENT, self._tag)
        return [head + front, memoryview(array)[begin:], rear]

    def to_program(self, said: ToProgram) -> bytes:
        return self._frame(FrameKind.TO_PROGRAM, said)

    def item(self, group: Group, item: GroupItem) -> bytes:
        """The part of a `Delivery` that is the same for all who receive it, in one group; see `delivery`."""
        if type(item) in _OF_ONE:
            return _encoder.encode(group) + _encoder.encode(item)
        shared = item.run if type(item) is Delivered or type(item) is OrderedRun else item
        kept = self._items.get(id(shared))
        if kept is None:
            encoded = _encoder.encode(group) + _encoder.encode(item)
            kept = self._items[id(shared)] = (shared, encoded)
        return kept[1]

    def delivery(self, endpoint: int, item: bytes) -> tuple[bytes, ...]:
        """A `Delivery` of what `item` encoded, in pieces to be written one after the other: a long one is
        shared, and never copied."""
        return self._in_pieces(_DELIVERY + _encoder.encode(endpoint), item)

    def delivery_to_all(self, endpoints: Sequence[int], item: bytes) -> tuple[bytes, ...]:
        """The same, of a `DeliveryToAll`."""
        return self._in_pieces(_DELIVERY_TO_ALL + _encoder.encode(endpoints), item)

    def _in_pieces(self, front: bytes, item: bytes) -> tuple[bytes, ...]:
        size = len(front) + len(item)
        if size > BODY_BYTES_MAX:
            return (frame(FrameKind.TO_PROGRAM, self._tag, front + item),)
        head = HEADER.pack(AFTER_LENGTH + size, WIRE_VERSION, FrameKind.TO_PROGRAM, self._tag)
        return (head + front + item,) if size <= JOINED_BYTES_MAX else (head + front, item)

    def loan(
        self, group: Group, stream: Stream, run: Run, arena: int, begin: int, size: int, position: int = 0
    ) -> bytes:
        """The part of a `Lent` that is the same for all who receive it; see `lent`."""
        return _encoder.encode((group, stream, run.first, run.count, run.at, arena, begin, size, position))[
            1:
        ]

    def lent(self, endpoint: int, loan: bytes) -> bytes:
        body = _LENT + _encoder.encode(endpoint) + loan
        return HEADER.pack(AFTER_LENGTH + len(body), WIRE_VERSION, FrameKind.TO_PROGRAM, self._tag) + body

    def refusal(self, error: RostraError) -> bytes:
        """The last frame before the connection is closed; readable by every version and every world."""
        return self._frame(FrameKind.REFUSAL, Refusal.of(error))

    def turn_ends(self) -> None:
        self._items.clear()
        if self._kept_bytes > KEPT_BYTES_MAX:
            self._kept.clear()
            self._kept_bytes = 0

    def _frame(self, kind: FrameKind, said: object) -> bytes:
        return frame(kind, self._tag, _encoder.encode(said))

    def _item(self, item: Answered | Told) -> Answered | Told:
        said: Any = item.notice if isinstance(item, Told) else item.answer
        if type(said) not in _LISTS or len(said.members) < SHARED_FROM:
            return item
        if isinstance(item, Told):
            return Told(item.endpoints, self._pasted(said))
        return Answered(item.token, self._pasted(said))

    def _pasted(self, said: Any) -> Any:
        """The bytes of a long message, to be pasted into whatever carries it."""
        kept = self._kept.get(id(said))
        if kept is None:
            encoded = _encoder.encode(said)
            kept = self._kept[id(said)] = (said, Raw(encoded))
            self._kept_bytes += len(encoded)
        return kept[1]


def _bin_head(size: int) -> bytes:
    """How MessagePack begins so many bytes."""
    if size < 1 << 8:
        return b"\xc4" + size.to_bytes(1, "big")
    return b"\xc5" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xc6" + size.to_bytes(4, "big")


def _is_long(said: Any) -> bool:
    return type(said) in _LISTS and len(said.members) >= SHARED_FROM


_AT: Final = re.compile(r" - at `\$\[(\d+)\].*")


def check_request(request: AnyRequest) -> None:
    """An agent ends the connection at a request that it cannot decode, and with it every membership of the
    program. So a value of a wrong type is refused before it is sent."""
    try:
        shapes.REQUEST.decode(_encoder.encode(request))
    except (*UNDECODABLE, TypeError) as error:
        why = shapes.reason(error)
        what = type(request).__name__
        if found := _AT.search(why):  # a request is an array: its number, then its fields
            field = request.__struct_fields__[int(found[1]) - 1]
            what, why = f"{field}={getattr(request, field)!r:.200}", why[: found.start()]
        raise BadInput(f"{what}: {why}", fix="docs/api.md says what each call takes") from None
