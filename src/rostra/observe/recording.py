"""The recording's observer: every input of a node, so that what it did can be done again.

A node is a function of its inputs: how it was made, and then, in order, every event with the time at which it
was given. A **recording** is that list, with the effects that came out beside it. `rostra.sim.replay` runs
the inputs through a new node: it gets the same effects, byte for byte, or something else than the inputs has
decided.

    Began   Turn  Started   Turn  Arrived  Gave  Flushed  Gave   Turn  Fired  Gave ...

Recordings are kept from the beginning of an epoch on, because a node cannot be made again from the middle.
When a recording reaches its bound, or cannot go on without a hole, it ends there and says why: what is there
can still be replayed.

Keys and credentials are left out: see `veil`.

A part of a recording is a file: zstd over words, each a length and a MessagePack value.

    <journal>/_inputs/eu.fr.paris.h3-1731700000000-000000.inputs
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import Any, Final

from msgspec import Struct, msgpack

from rostra.core.disk import RoomChanged
from rostra.core.effects import Asked, EndpointGone, Event, FellBehind, Instant, Secured, TimerFired
from rostra.core.logs import LogBatch
from rostra.core.observer import (
    BESIDE,
    NeighbourAdded,
    NeighbourRemoved,
    NodeBegan,
    NodeEnding,
    Seen,
    TurnEnded,
)
from rostra.core.records import RecordSet
from rostra.errors import UNDECODABLE, BadInput, RostraError
from rostra.names import Domain, Endpoint, Group
from rostra.observe.veil import veiled, without_credential, without_keys, without_seals
from rostra.protocols.detect.programs import ProgramEvidence
from rostra.protocols.election import events as lead
from rostra.protocols.fifo import events as fifo
from rostra.protocols.front.messages import AnyRequest
from rostra.protocols.links.events import ChannelClosed, ChannelOpened, PacketArrived
from rostra.protocols.links.packets import NOBODY, AnyPacket, Hello
from rostra.protocols.relaxed.registry import RegistryRecord
from rostra.stacks import SERVICES, NodePlan, VoterPlan
from rostra.wire import Encoder, FrameKind, FrameReader

FORMAT: Final = 5
"""Grows when an older recording can no longer be replayed."""

EFFECTS_BYTES_MAX: Final = 4_096
"""Effects of one input that are kept as they are, to be shown if they differ; of more, only a digest."""

PART_BYTES: Final = 1 << 20
"""A part is finished when it has this many bytes, or with the next heartbeat."""

WAITING_BYTES_MAX: Final = 64 << 20
"""What may wait for the disk. A recording without a hole cannot leave anything out, so it ends there."""

_LENGTH: Final = struct.Struct("<I")


class Word(Struct, frozen=True, array_like=True, tag_field="word"):
    """One entry of a recording."""


class Began(Word, frozen=True, tag=0):
    """How the node was made, and what it had on its disk."""

    format: int
    plan: NodePlan
    registry: tuple[RegistryRecord, ...] = ()
    voter: VoterPlan | None = (
        None  # of a replica; `plan` is then that of the server that it leads or will lead
    )
    own: RecordSet = RecordSet()  # of its own scope, by key
    logs: tuple[LogBatch, ...] = ()


class Turn(Word, frozen=True, tag=1):
    """What follows happens at this time."""

    at: int  # microseconds since 1970, UTC
    now: float  # the node's clock


class Started(Word, frozen=True, tag=2):
    pass


class Arrived(Word, frozen=True, tag=3):
    peer: Domain
    frame: bytes  # as on the wire


class WasAsked(Word, frozen=True, tag=4):
    endpoint: Endpoint
    token: int
    request: AnyRequest


class RecordedGone(Word, frozen=True, tag=5):
    endpoint: Endpoint
    why: str
    evidence: ProgramEvidence | None


class Behind(Word, frozen=True, tag=6):
    endpoint: Endpoint
    groups: tuple[Group, ...]


class OpenedChannel(Word, frozen=True, tag=7):
    peer: Domain


class Closed(Word, frozen=True, tag=8):
    peer: Domain
    why: str


class Fired(Word, frozen=True, tag=9):
    timer: tuple[str | int, ...]


class Flushed(Word, frozen=True, tag=10):
    pass


class NodeStopped(Word, frozen=True, tag=11):
    why: str


class Met(Word, frozen=True, tag=12):
    peer: Domain


class Gave(Word, frozen=True, tag=13):
    """What came of the word before."""

    digest: bytes
    effects: bytes  # none if they are too long to keep


class RecordingEnded(Word, frozen=True, tag=14):
    """Nothing after this was recorded."""

    why: str


class Spoken(Word, frozen=True, tag=15):
    """An event of a group with messages in it, or of an election."""

    kind: str
    event: bytes


class ToServer(Word, frozen=True, tag=16):
    """In the recording of a replica: the next inputs are for the server that it leads."""


class ToVoter(Word, frozen=True, tag=17):
    """The next inputs are for the voter again, as at the beginning."""


class Inner(Word, frozen=True, tag=18):
    """An input from one half of the replica to the other: it follows from the inputs before, and is not
    recorded itself."""


class NeighbourParted(Word, frozen=True, tag=19):
    peer: Domain


Input = (
    Started
    | Arrived
    | WasAsked
    | RecordedGone
    | Behind
    | OpenedChannel
    | Closed
    | Fired
    | Flushed
    | NodeStopped
    | Met
    | NeighbourParted
    | Spoken
    | Inner
)
AnyWord = Began | Turn | Input | Gave | RecordingEnded | ToServer | ToVoter

_INNER: Final = (lead.Share, lead.Record, fifo.Appointed, fifo.MirrorReplicated, Secured)
"""Between the two halves of a replica."""

_SPOKEN: Final = {
    kind.__name__: msgpack.Decoder(kind)
    for service in SERVICES
    for kind in (*service.takes, *service.lanes)
    if issubclass(kind, Event) and kind.__module__ != Event.__module__ and kind not in _INNER
}
"""Events that one protocol alone knows."""

_encode: Final = msgpack.Encoder().encode
_decoder: Final = msgpack.Decoder(AnyWord)


class NodeMade(Event, frozen=True):
    """A driver made a node, for a new life."""

    began: Began
    detail: dict[str, Any]  # for the journal, beside what `began` says
    led_by: Domain | None = None  # the replica that leads this server


class NodeLost(Event, frozen=True):
    """The node ended without sending anything more."""


_WITH_ADDRESSES: Final = frozenset((Began, Arrived, WasAsked))
"""What may hold an address with a key. Events of groups hold programs' messages, which stay as they are."""

_FLUSHED: Final = Flushed()


class Recorder:
    """Writes down the inputs of one node. `put` gets finished parts; `say` why nothing more is recorded;
    `wall_us` is the time since 1970."""

    def __init__(
        self,
        began: Began,
        put: Callable[[int, bytes], None],
        *,
        wall_us: Callable[[], int],
        part_s: float,
        bytes_max: int,
        say: Callable[[str], None],
    ) -> None:
        self._handed = 0  # bytes
        self._taken = 0  # of those, by the disk; counted by the writing thread
        self._kept = 0  # and how many they are there
        self._put = put
        self._wall_us = wall_us
        self._now = -inf
        self._say = say
        self._part_s = part_s
        self._bytes_max = bytes_max
        self._due = 0.0
        self._parts = 0
        self._ended = False
        self._to_server = False
        self._encoder = Encoder(began.plan.world)
        self._buffer = bytearray()
        self._write(began)

    def saw(self, now: Instant, node: Domain, event: Event, effects: Sequence[Seen]) -> None:
        if event is not BESIDE:
            self.write_down(now, event, effects)

    def write_down(
        self, now: Instant, event: Event, effects: Sequence[Seen], *, to_server: bool = False
    ) -> None:
        """An input, and what came of it. Nothing is written of effects if there are none."""
        if now != self._now:
            self._turn(now)
        if self._ended:
            return
        if to_server != self._to_server:
            self._to_server = to_server
            self._write(ToServer() if to_server else ToVoter())
        try:
            self._write(self._word(event, to_server))
        except RostraError as error:
            self.end(str(error))
            return
        if effects:
            self._write(effects_of(effects))

    def _turn(self, now: Instant) -> None:
        self._now = now
        if self._ended:
            return
        if not self._due:
            self._due = now + self._part_s
        elif now >= self._due or len(self._buffer) >= PART_BYTES:
            self._due = now + self._part_s
            self.hand_over()
        if self._kept > self._bytes_max:
            self.end(f"it has reached its bound of {self._bytes_max >> 20} MB")
        elif self._handed - self._taken > WAITING_BYTES_MAX:
            self.end("the disk does not keep up")
        else:
            self._write(Turn(self._wall_us(), now))

    def of_server(self) -> "ServerRecorder":
        """The same recording, for the server that this replica leads."""
        return ServerRecorder(self)

    def hand_over(self) -> None:
        if self._buffer:
            part, self._buffer = bytes(self._buffer), bytearray()
            self._handed += len(part)
            self._put(self._parts, part)
            self._parts += 1

    def written(self, waited: int, size: int) -> None:
        """Called by the writing thread: this many bytes that waited are on disk, where they take up that
        much."""
        self._taken += waited
        self._kept += size

    def end(self, why: str) -> None:
        """What is there can be replayed, and no more."""
        if self._ended:
            return
        self._write(RecordingEnded(why))
        self._ended = True
        self.hand_over()
        self._say(why)

    def _write(self, word: Word) -> None:
        encoded = _encode(word)
        if type(word) in _WITH_ADDRESSES:
            encoded = without_keys(encoded)
        self._buffer += _LENGTH.pack(len(encoded))
        self._buffer += encoded

    def _word(self, event: Event, to_server: bool) -> Input:
        match event:
            case RoomChanged() if to_server:
                return Inner()  # its replicas found out
            case PacketArrived(peer, packet):
                frame = self._encoder.packet(packet)
                self._encoder.turn_ends()
                return Arrived(peer, frame)
            case TurnEnded():
                return _FLUSHED
            case Asked(endpoint, token, request):
                return WasAsked(endpoint, token, without_credential(request))
            case TimerFired(timer):
                return Fired(timer)
            case ChannelOpened(peer):
                return OpenedChannel(peer)
            case ChannelClosed(peer, why):
                return Closed(peer, why)
            case EndpointGone(endpoint, why, evidence):
                return RecordedGone(endpoint, why, evidence)
            case FellBehind(endpoint, groups):
                return Behind(endpoint, groups)
            case NodeBegan():
                return Started()
            case NodeEnding(why):
                return NodeStopped(why)
            case NeighbourAdded(peer):
                return Met(peer)
            case NeighbourRemoved(peer):
                return NeighbourParted(peer)
            case _ if isinstance(event, _INNER):
                return Inner()
            case _ if type(event).__name__ in _SPOKEN:
                return Spoken(type(event).__name__, _encode(event))
            case _:
                raise BadInput(f"{type(event).__name__} cannot be recorded")


class ServerRecorder:
    """Records the inputs of the server that a replica leads."""

    def __init__(self, replica: Recorder) -> None:
        self._replica = replica
        self.hand_over = replica.hand_over

    def saw(self, now: Instant, node: Domain, event: Event, effects: Sequence[Seen]) -> None:
        if event is not BESIDE:
            self._replica.write_down(now, event, effects, to_server=True)


def effects_of(outputs: Sequence[Any]) -> Gave:
    """Effects as bytes that are equal exactly if the effects are; without keys."""
    encoded = without_keys(_encode([(type(output).__name__, veiled(output)) for output in outputs]))
    effects = without_seals(encoded)
    digest = hashlib.blake2b(effects, digest_size=8).digest()
    return Gave(digest, effects if len(effects) <= EFFECTS_BYTES_MAX else b"")


def words(part: bytes) -> Iterator[AnyWord]:
    """The words of one part; a truncated part is refused."""
    place = 0
    while place < len(part):
        if place + _LENGTH.size > len(part):
            raise BadInput("a recording ends in the middle of a word", fix="copy it again, whole")
        (length,) = _LENGTH.unpack_from(part, place)
        place += _LENGTH.size
        try:
            word = _decoder.decode(part[place : place + length])
        except UNDECODABLE as error:
            raise _unreadable(error) from None
        yield word
        place += length


class Packets:
    """Frames of one world, back to packets."""

    def __init__(self, world: str) -> None:
        self._reader = FrameReader(world, FrameKind.LINK)
        # A reader wants to be greeted before anything else; here one reader reads for all peers.
        self.read(Encoder(world).packet(Hello(1, NOBODY, world, Domain("world"), 1, 0)))

    def read(self, frame: bytes) -> AnyPacket:
        items = self._reader.feed(frame)
        if len(items) != 1 or self._reader.over:
            raise BadInput(
                f"a recorded packet cannot be read: {items}",
                fix="replay it with the version that recorded it",
            )
        return items[0]  # type: ignore[return-value]  # links carry packets only


def events(word: Input, packets: Packets) -> Event | None:
    """The event that this word stands for; none if it is no event."""
    match word:
        case Arrived(peer, frame):
            return PacketArrived(peer, packets.read(frame))
        case WasAsked(endpoint, token, request):
            return Asked(endpoint, token, request)
        case Fired(timer):
            return TimerFired(timer)
        case OpenedChannel(peer):
            return ChannelOpened(peer)
        case Closed(peer, why):
            return ChannelClosed(peer, why)
        case RecordedGone(endpoint, why, evidence):
            return EndpointGone(endpoint, why, evidence)
        case Behind(endpoint, groups):
            return FellBehind(endpoint, groups)
        case Spoken(kind, event):
            try:
                return _SPOKEN[kind].decode(event)
            except (KeyError, *UNDECODABLE) as error:
                raise _unreadable(error) from None
    return None


def decoded(effects: bytes) -> Iterable[tuple[str, Any]]:
    """Effects as they were kept, for people."""
    try:
        return msgpack.decode(effects, type=list[tuple[str, Any]])
    except UNDECODABLE as error:
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> BadInput:
    return BadInput(f"a recording cannot be read: {error}", fix="replay it with the version that recorded it")
