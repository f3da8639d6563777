"""Bytes to messages.

    bytes ──▶ header ──▶ frame ──▶ parts joined ──▶ decoded ──▶ checked ──▶ items
                length    world                        names, numbers, texts
                version   kind
                  └─────────┴─────────────┴───────────┴────────┴──▶ one PeerError, and the end

Peers cannot make a reader raise. Whatever they send becomes a list of items, in order, that does not depend
on how the bytes were cut into chunks. If something is broken the last item is an error as a value
(`Malformed`, `WrongWorld` or `WrongVersion`) and the reader is `over`: a stream that lied once about where
its frames end has no next frame. What the peer sent before that still counts.

Not broken, and no reason to stop, is what a newer version may say to an older one: extra fields at the end of
a message are skipped, and messages with numbers that we do not know are counted and left out.
"""

from collections import Counter
from typing import Any, Final

from msgspec import Raw
from msgspec.msgpack import Decoder

from rostra.errors import BadInput, Malformed, NotAllowed, PeerError, WrongVersion, WrongWorld
from rostra.protocols.front.messages import Answered, Ask, BadAsk, Told
from rostra.protocols.links.packets import AnyPacket, Data, Hello
from rostra.protocols.relaxed.requests import Denied
from rostra.wire import shapes
from rostra.wire.checks import check_packet, check_program_frame, check_request, check_text
from rostra.wire.frames import (
    AFTER_LENGTH,
    ANY_WORLD,
    BODY_BOUND,
    FRAME_BYTES_MAX,
    HANDSHAKE_BYTES_MAX,
    HEADER,
    LENGTH_BYTES,
    WIRE_VERSION,
    FrameKind,
    Refusal,
    world_tag,
)
from rostra.wire.numbers import (
    GROUP_ITEMS,
    ITEMS,
    MESSAGES,
    PACKETS,
    PROGRAM_FRAMES,
    REQUESTS,
    SAID,
    Numbers,
)
from rostra.wire.programs import (
    AnyFrame,
    Asks,
    Delivery,
    DeliveryToAll,
    Lent,
    ProgramHello,
    ProgramWelcome,
    Tells,
)
from rostra.wire.recent import LONG_BYTES, RecentAnswers
from rostra.wire.shapes import Body

ANY_WORLD_TAG: Final = world_tag(ANY_WORLD)

_LINK: Final = FrameKind.LINK
_TO_AGENT: Final = FrameKind.TO_AGENT

UNKNOWN_KINDS_MAX: Final = 64
"""How many unknown numbers are counted one by one; the rest shares one counter."""

Arrived = AnyPacket | AnyFrame | Ask | BadAsk | Answered | Told | Refusal | PeerError

_HTTP: Final = frozenset({b"HTTP", b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI"})
"""How a browser or a web server begins, where a frame's length should be: two ports were mixed up."""


class FrameReader:
    """Reads one connection. Sans-IO: feed it what arrived, and it returns what that completed.

    `kinds` are what the peer may speak: LINK for a neighbour, TO_AGENT for a program, TO_PROGRAM for an
    agent. A listener that serves both neighbours and programs allows both, and the first frame decides.

    The first frame must be a greeting (`Hello`, `ProgramHello` or `ProgramWelcome`) of our world, of at most
    64 KiB. The driver checks the caller, and closes the connection in the same turn if it
    is not wanted.

    With `trusted=False` that bound also holds for later frames of a neighbour, until the driver calls
    `trust`: its greeting does not prove yet that it receives from us. A longer frame behind items that the
    driver has yet to see is left unread: the reader is `stalled`, and goes on when it is fed again, even with
    no bytes.
    """

    def __init__(self, world: str, *kinds: FrameKind, trusted: bool = True) -> None:
        self.world = world
        self.over = False  # broken, or refused: nothing more will be read
        self.unknown: Counter[str] = Counter()  # "message 77": how often
        self._tag = world_tag(world)
        self._kinds = kinds
        self.stalled = False
        self._trusted = trusted
        self._greeted = False
        self._usual = b""  # what follows the length in most frames, once the peer has greeted us
        self._body_bound = HANDSHAKE_BYTES_MAX
        self._pending = bytearray()  # the beginning of a frame
        self._needed = HEADER.size  # how long `pending` must be before it is worth looking at again
        self._parts = bytearray()  # the beginning of a body
        self._recent = RecentAnswers() if FrameKind.TO_PROGRAM in kinds else None

    def feed(self, data: bytes | memoryview) -> list[Arrived]:
        """Everything that these bytes complete. They may be reused as soon as this returns."""
        items: list[Arrived] = []
        if self.stalled:
            data, self._pending, self.stalled = bytes(self._pending) + data, bytearray(), False
        if not self.over:
            try:
                if self._pending:
                    self._feed(memoryview(data), items)
                else:
                    self._pending += data[self._frames(memoryview(data), items) :]
            except PeerError as error:
                # A new one, because this one remembers where it was raised and would keep the bytes alive.
                items.append(type(error)(error.what, fix=error.fix))
                self._end()
        return items

    def _feed(self, data: memoryview, items: list[Arrived]) -> None:
        while self._pending and data:
            # Only the frame that was cut off is put together; what follows it is read where it is.
            missing = self._needed - len(self._pending)
            self._pending += data[:missing]
            data = data[missing:]
            if len(self._pending) < self._needed:
                return
            whole, self._pending = self._pending, bytearray()
            if self._frames(memoryview(whole), items) == 0:
                self._pending = whole  # it was its header only, which says how long it is
            if self.stalled:
                self._pending += data
            if self.over or self.stalled:
                return
        if data:
            self._pending += data[self._frames(data, items) :]

    def trust(self) -> None:
        """The neighbour has proved that it receives from us: from now on its messages may be of full
        length."""
        self._trusted = True
        if self._greeted:
            self._settle(self._kinds[0])

    @property
    def bytes_held(self) -> int:
        """What is kept of messages that are not complete yet."""
        return len(self._pending) + len(self._parts)

    def _end(self) -> None:
        self.over = True
        self._pending = bytearray()
        self._parts = bytearray()

    # Frames

    def _frames(self, data: memoryview, items: list[Arrived]) -> int:
        """Read all whole frames; the answer is where the first incomplete one begins."""
        at = 0
        while len(data) - at >= HEADER.size:
            length = int.from_bytes(data[at : at + LENGTH_BYTES], "big")
            # Nearly every frame has the same six bytes after its length, and nothing to be joined to.
            usual = (
                data[at + LENGTH_BYTES : at + HEADER.size] == self._usual
                and AFTER_LENGTH <= length <= FRAME_BYTES_MAX - LENGTH_BYTES
                and not self._parts
            )
            if not usual:
                _, version, kind, tag = HEADER.unpack_from(data, at)
                body = len(self._parts) + length - AFTER_LENGTH
                if items and not self._trusted and body > self._body_bound:
                    self.stalled = True
                    return at
                self._check_header(length, version, kind)
            end = at + LENGTH_BYTES + length
            if end > len(data):
                self._needed = end - at
                return at
            if usual:
                self._body(self._kinds[0], data[at + HEADER.size : end], items)
            else:
                self._frame(kind, tag, data[at + HEADER.size : end], items)
                if self.over:
                    return len(data)
            at = end
        self._needed = HEADER.size
        return at

    def _check_header(self, length: int, version: int, kind: int) -> None:
        """Refuse a frame before its body is here, and before room is made for it."""
        if not AFTER_LENGTH <= length <= FRAME_BYTES_MAX - LENGTH_BYTES:
            if length.to_bytes(LENGTH_BYTES) in _HTTP:
                raise Malformed(
                    "the other side speaks HTTP", fix="name the address where programs or servers connect"
                )
            raise Malformed(
                f"a frame of {length + LENGTH_BYTES} bytes",
                fix=f"frames have {HEADER.size} bytes to {FRAME_BYTES_MAX}",
            )
        if version != WIRE_VERSION and kind != FrameKind.REFUSAL:
            raise WrongVersion(
                f"the peer speaks wire version {version}, we speak {WIRE_VERSION}",
                fix="upgrade the older of the two",
            )
        body = len(self._parts) + length - AFTER_LENGTH
        if body > self._body_bound:
            when = "" if self._greeted else " before the handshake"
            raise Malformed(
                f"a message of {body} bytes or more{when}", fix=f"send at most {self._body_bound}"
            )

    def _frame(self, kind: int, tag: bytes, body: Body, items: list[Arrived]) -> None:
        if kind == FrameKind.REFUSAL:
            items.append(_refusal(body))
            self._end()
            return
        if tag != self._tag and not self._world_is_open(kind, tag):
            raise self._wrong_world(_world_of(kind, body) or f"a world with tag {tag.hex()}")
        if kind == FrameKind.PART:
            if not (self._greeted and body):
                raise Malformed("a part that is empty" if self._greeted else "a part before the handshake")
            self._parts += body
            return
        if kind not in self._kinds:
            spoken = " or ".join(kind.name for kind in self._kinds)
            raise Malformed(f"a frame of kind {kind}", fix=f"this connection is for {spoken}")
        if self._parts:
            whole, self._parts = self._parts, bytearray()
            whole += body
            body = whole
        self._body(FrameKind(kind), body, items)

    def _body(self, kind: FrameKind, body: Body, items: list[Arrived]) -> None:
        if kind is _LINK:
            self._packet(body, items)
        elif kind is _TO_AGENT:
            self._to_agent(body, items)
        else:
            self._to_program(body, items)

    def _greet(self, kind: FrameKind, world: str) -> None:
        """The first frame: it names the peer's world, and its kind decides what the peer may send from now
        on."""
        if kind == FrameKind.TO_PROGRAM and self.world == ANY_WORLD:
            if world == ANY_WORLD:
                raise Malformed("a welcome that does not say to which world")
            self.world, self._tag = world, world_tag(world)
        elif world != self.world and not (kind == FrameKind.TO_AGENT and world == ANY_WORLD):
            raise self._wrong_world(f"world {world!r}")
        self._greeted = True
        self._kinds = (kind,)
        self._settle(kind)

    def _settle(self, kind: FrameKind) -> None:
        if self._trusted or kind is not _LINK:
            self._body_bound = BODY_BOUND[kind]
            self._usual = HEADER.pack(0, WIRE_VERSION, kind, self._tag)[LENGTH_BYTES:]

    def _world_is_open(self, kind: int, tag: bytes) -> bool:
        """A program may leave open, until the handshake is over, which world it is of."""
        if self._greeted:
            return False
        return (kind == FrameKind.TO_PROGRAM and self.world == ANY_WORLD) or (
            kind == FrameKind.TO_AGENT and tag == ANY_WORLD_TAG
        )

    def _wrong_world(self, theirs: str) -> WrongWorld:
        return WrongWorld(
            f"the peer is of {theirs}, we are of world {self.world!r}", fix="check the peer's address"
        )

    def _require_greeting(self, said: str) -> None:
        if not self._greeted:
            raise _too_early(said)

    # What neighbours say

    def _packet(self, body: Body, items: list[Arrived]) -> None:
        try:
            packet: Any = shapes.PACKET.decode(body)
        except shapes.UNDECODABLE as error:
            if self._holder("packet", PACKETS, (Data,), body, error) is None:
                return
            packet = self._data_piecewise(body)
        if type(packet) is shapes.WholeData:
            packet = Data(packet.mine, packet.yours, packet.number, packet.received, packet.messages)
        try:
            check_packet(packet)
        except BadInput as error:
            raise Malformed(f"{type(packet).__name__}: {error.what}", fix=error.fix) from None
        if type(packet) is Hello:
            self._greet(_LINK, packet.world)
        elif not self._greeted:
            raise _too_early(type(packet).__name__)
        items.append(packet)

    def _data_piecewise(self, body: Body) -> Data:
        loose = shapes.read(shapes.LOOSE_DATA, body, "Data")
        messages = [self._piece("message", MESSAGES, shapes.MESSAGE, raw) for raw in loose.messages]
        known = tuple(message for message in messages if message is not None)
        return Data(loose.mine, loose.yours, loose.number, loose.received, known)

    # What programs and agents say

    def _to_agent(self, body: Body, items: list[Arrived]) -> None:
        try:
            said = shapes.TO_AGENT.decode(body)
        except shapes.UNDECODABLE as error:
            if self._holder("program frame", PROGRAM_FRAMES, (Asks,), body, error):
                items += [
                    self._ask_piecewise(raw) for raw in shapes.read(shapes.LOOSE_ASKS, body, "Asks").asks
                ]
            return
        if type(said) is Asks:
            if not self._greeted:
                raise _too_early("Asks")
            items += [_checked(ask) for ask in said.asks]
        else:
            self._program_frame(said, FrameKind.TO_AGENT, items)

    def _to_program(self, body: Body, items: list[Arrived]) -> None:
        if len(body) >= LONG_BYTES and self._greeted and self._recent is not None:
            found = self._recent.find(body)
            if found is not None:
                items += found
                return
        try:
            said = shapes.TO_PROGRAM.decode(body)
        except shapes.UNDECODABLE as error:
            holder = self._holder(
                "program frame", PROGRAM_FRAMES, (Tells, Delivery, DeliveryToAll), body, error
            )
            if holder is Delivery or holder is DeliveryToAll:
                loose = shapes.read(shapes.LOOSE_DELIVERY, body, holder.__name__)
                item = self._piece("group item", GROUP_ITEMS, shapes.GROUP_ITEM, loose.item)
                if item is not None:
                    items.append(_delivered(loose, item))
            elif holder is Tells:
                for raw in shapes.read(shapes.LOOSE_TELLS, body, "Tells").items:
                    items += self._item_piecewise(raw)
            return
        # A program trusts its agent with names: the agent has checked each one as it entered the world.
        if type(said) is Tells:
            self._require_greeting("Tells")
            items += said.items
        elif type(said) in _DELIVERIES and self._greeted:  # nearly all of the others
            items.append(said)
        else:
            self._program_frame(said, FrameKind.TO_PROGRAM, items)

    def _program_frame(self, said: AnyFrame, kind: FrameKind, items: list[Arrived]) -> None:
        try:
            check_program_frame(said)
        except BadInput as error:
            raise Malformed(f"{type(said).__name__}: {error.what}", fix=error.fix) from None
        if type(said) is ProgramHello or type(said) is ProgramWelcome:
            self._greet(kind, said.world)
        else:
            self._require_greeting(type(said).__name__)
        items.append(said)

    def _ask_piecewise(self, raw: Raw) -> Ask | BadAsk:
        loose = shapes.read(shapes.LOOSE_ASK, raw, "Ask")
        request = self._piece("request", REQUESTS, shapes.REQUEST, loose.request)
        if request is None:
            # Every question gets an answer, so one that we do not understand is handed on too, to be denied.
            error = NotAllowed("a request that this agent does not know", fix="upgrade the agent")
            return BadAsk(loose.token, loose.endpoint, error)
        return _checked(Ask(loose.token, loose.endpoint, request))

    def _item_piecewise(self, raw: Raw) -> list[Answered | Told]:
        try:
            return [shapes.ITEM.decode(raw)]
        except shapes.UNDECODABLE as error:
            kind = self._holder("item", ITEMS, (Answered, Told), raw, error)
        if kind is Told:
            told = shapes.read(shapes.LOOSE_TOLD, raw, "Told")
            notice = self._piece("said", SAID, shapes.NOTICE, told.notice)
            return [] if notice is None else [Told(told.endpoints, notice)]
        if kind is Answered:
            answered = shapes.read(shapes.LOOSE_ANSWERED, raw, "Answered")
            answer = self._piece("said", SAID, shapes.ANSWER, answered.answer)
            # A call waits for this answer, and must not wait for ever.
            return [Answered(answered.token, _UNKNOWN_ANSWER if answer is None else answer)]
        return []

    # What we do not know

    def _holder(
        self, what: str, numbers: Numbers, holders: tuple[type, ...], body: Body, why: Exception
    ) -> type | None:
        """The class of something that could not be decoded as a whole, if it is one that holds others.

        They will be looked at one by one. None if its own number is unknown, which is counted. Anything else
        that is known and cannot be decoded is broken.
        """
        number = shapes.read(shapes.NUMBERED, body, what).kind
        known = numbers.get(number)
        if known is not None and known not in holders:
            raise Malformed(f"{known.__name__}: {shapes.reason(why)}")
        self._require_greeting(f"{what} {number}")
        if known is None:
            self._count(f"{what} {number}")
        return known

    def _piece(self, what: str, numbers: Numbers, decoder: Decoder[Any], raw: Raw) -> Any:
        """One of many, decoded; none if its number is unknown."""
        try:
            return decoder.decode(raw)
        except shapes.UNDECODABLE as error:
            number = shapes.read(shapes.NUMBERED, raw, what).kind
            if number in numbers:
                raise Malformed(f"{numbers[number].__name__}: {shapes.reason(error)}") from None
        self._count(f"{what} {number}")
        return None

    def _count(self, unknown: str) -> None:
        if unknown not in self.unknown and len(self.unknown) >= UNKNOWN_KINDS_MAX:
            unknown = "other"
        self.unknown[unknown] += 1


_UNKNOWN_ANSWER: Final = Denied(
    WrongVersion.code, "the agent answered in a way that this program does not know", "upgrade this program"
)


_DELIVERIES: Final = frozenset({Delivery, DeliveryToAll, Lent})


def _delivered(
    loose: shapes.LooseDelivery | shapes.LooseDeliveryToAll, item: Any
) -> Delivery | DeliveryToAll:
    if isinstance(loose, shapes.LooseDelivery):
        return Delivery(loose.endpoint, loose.group, item)
    return DeliveryToAll(loose.endpoints, loose.group, item)


def _too_early(said: str) -> Malformed:
    return Malformed(f"{said} before the handshake", fix="say hello first")


def _checked(ask: Ask) -> Ask | BadAsk:
    try:
        check_request(ask.request)
    except BadInput as error:
        return BadAsk(ask.token, ask.endpoint, type(error)(error.what, fix=error.fix))
    return ask


def _refusal(body: Body) -> Refusal:
    """A refusal, made fit to be shown; its sender may be of any version and world."""
    try:
        refusal = shapes.REFUSAL.decode(body)
        for text in (refusal.code, refusal.what, refusal.fix):
            check_text(text)
    except shapes.UNDECODABLE:
        return Refusal(PeerError.code, "the peer refused us, and its reason cannot be read")
    return refusal


def _world_of(kind: int, body: Body) -> str | None:
    """Which world a stranger is of, if its frame is a greeting that says so."""
    decoders: dict[int, Decoder[Any]] = {
        FrameKind.LINK: shapes.PACKET,
        FrameKind.TO_AGENT: shapes.TO_AGENT,
        FrameKind.TO_PROGRAM: shapes.TO_PROGRAM,
    }
    try:
        world = decoders[kind].decode(body).world
        check_text(world)
    except (KeyError, AttributeError, *shapes.UNDECODABLE):
        return None
    return f"world {world!r}"
