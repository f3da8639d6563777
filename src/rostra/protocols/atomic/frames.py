"""Frames of AMp: what stations of one group send each other to decide messages and views (A-012 to A-019).

    emitter ── DataFrame ──▶ group        dissemination       receiver ── ResponseFrame ──▶ emitter
    emitter ── DecisionFrame ──▶ group    accept or reject    receiver ── DecisionRequestFrame ──▶ emitter
    monitor ── InvestigateFrame, NewViewFrame ──▶ group       emitter ── PendingFrame ──▶ receiver
    opener  ── GetViewFrame, OpenGateFrame ──▶ group          closer ── CloseGateFrame ──▶ group

Every frame begins with a `FrameControl`: group, station, numbers, view, attributes, suspension level. Numbers
start at 1 in every life of a station and in every group (A-016).

**Where we differ from the paper.** A data frame carries a run of messages, so that one undecided frame per
emitter costs no throughput. Frames carry the view, positions, and the decision before (`previous`): a network
without a common medium delivers late and in different orders. Frames have no tag of their own: datagrams of a
LAN are sealed by its data channel, and links carry what goes farther (A-010).
"""

from typing import Annotated, Final, Literal, get_args

from msgspec import Meta, Struct, msgpack

from rostra.errors import UNDECODABLE, BadInput
from rostra.groups.attributes import NUMBER_MAX, Number
from rostra.names import Domain, Group
from rostra.names.checks import ChecksOf, Natural
from rostra.protocols.flow.checks import check_data_message
from rostra.protocols.flow.messages import Data, Nak, Run

STATIONS_MAX: Final = 64
"""In one group: every response is counted one by one at the emitter."""

ITEMS_MAX: Final = 1024

ACK: Final = 1
SUSPEND: Final = 2
FLUSH: Final = 4
WAIT: Final = 8
RESUME: Final = 16
ORDER: Final = 32
AttributeBits = Annotated[int, Meta(ge=0, le=63)]

ResponseKind = Literal[
    "CAN_ACCEPT", "INACCESSIBLE", "SUSPENDED", "FLUSHING", "FAILURE_SEEN", "NOT_MEMBER", "NEWER"
]


class AmpStationId(Struct, frozen=True, order=True, array_like=True, gc=False):
    """A station in one of its lives; after a restart it is another one (A-016)."""

    host: Domain
    life: Natural

    def __str__(self) -> str:
        return f"{self.host}#{self.life}"


Stations = Annotated[tuple[AmpStationId, ...], Meta(max_length=STATIONS_MAX)]


class AmpViewId(Struct, frozen=True, order=True, array_like=True, gc=False):
    number: Number
    by: AmpStationId  # who proposed it: two parts of a group never use one id for two views


class AmpView(Struct, frozen=True, array_like=True):
    """Members in the order of rank: who is here longest is first."""

    id: AmpViewId
    members: Annotated[tuple[AmpStationId, ...], Meta(min_length=1, max_length=STATIONS_MAX)]


class DataId(Struct, frozen=True, order=True, array_like=True, gc=False):
    """One run of one emitter, in all its retransmissions (A-015)."""

    sa: AmpStationId
    mdn: Number


class SuspensionLevel(Struct, frozen=True, order=True, array_like=True, gc=False):
    """No two candidates have the same one (A-061)."""

    counter: Number
    station: AmpStationId


class RunOutcome(Struct, frozen=True, array_like=True, gc=False):
    """How one run was decided, and at which position of `negotiated` order."""

    data: DataId
    accept: bool
    position: Number = 0


Outcomes = Annotated[tuple[RunOutcome, ...], Meta(max_length=STATIONS_MAX * 2)]


class DecidedEntry(Struct, frozen=True, array_like=True, gc=False):
    """What a station decided last of one emitter's runs, and the last frame seen of it (A-068, A-043)."""

    sa: AmpStationId
    decided: Number = 0
    accepted: Number = 0
    position: Number = 0  # of the last that was accepted
    mtn: Number = 0


DecidedTable = Annotated[tuple[DecidedEntry, ...], Meta(max_length=STATIONS_MAX)]


class ViewChange(Struct, frozen=True, array_like=True):
    """All that is needed to go from one view to the next; the same at every station that does."""

    base: AmpViewId | None  # none: the first view of a group
    view: AmpView
    failed: Stations = ()
    outcomes: Outcomes = ()
    table: DecidedTable = ()  # the rest is for those who come in
    clock: Number = 0
    delivered: Number = 0
    gate: bool = False  # accepted only if all members have flushed and acknowledged it
    body: bytes = b""  # how users are shown it; opaque here


class StoredChange(Struct, frozen=True, array_like=True):
    """A proposal that was acknowledged and is not known to be accepted (A-072)."""

    sl: SuspensionLevel
    change: ViewChange


class PendingRun(Struct, frozen=True, array_like=True, gc=False):
    """A run that a station holds undecided."""

    data: DataId
    position: Number
    messages: Number  # that it would add to the order; 0 if it is not ordered


class StationReport(Struct, frozen=True, array_like=True):
    """A station's answer to an investigation or to a newcomer (A-066, A-078)."""

    view: AmpView | None
    table: DecidedTable = ()
    pending: Annotated[tuple[PendingRun, ...], Meta(max_length=STATIONS_MAX)] = ()
    transmitting: DataId | None = None  # its own run, which it has not decided
    last: RunOutcome | None = None  # its own run that it decided last
    clock: Number = 0
    ready: Number = 0  # messages that are delivered, or will be without another decision
    stored: StoredChange | None = None


class FrameControl(Struct, frozen=True, array_like=True):
    """`mtn` rises with every frame of an emitter or monitor (A-014); control frames have none."""

    group: Group
    sa: AmpStationId
    mtn: Number
    mdn: Number  # 0: the frame has no data
    view: AmpViewId | None  # none: of a station that is not in yet
    attributes: AttributeBits = 0
    sl: SuspensionLevel | None = None  # with SUSPEND, and only with it

    def has(self, attribute: int) -> bool:
        return bool(self.attributes & attribute)


class FrameRef(Struct, frozen=True, array_like=True, gc=False):
    """What a control frame is about; with `mdn` 0 a frame of a monitor."""

    sa: AmpStationId
    mdn: Number
    mtn: Number = 0


class AmpMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""


class AmpFrame(AmpMessage, frozen=True):
    control: FrameControl


class DataFrame(AmpFrame, frozen=True, tag=80):
    items: Annotated[tuple[bytes, ...], Meta(max_length=ITEMS_MAX)]
    previous: RunOutcome | None = None  # the emitter's run before


class ResponseFrame(AmpFrame, frozen=True, tag=81):
    ref: FrameRef
    answer: ResponseKind
    position: Number = 0  # proposed
    sl: SuspensionLevel | None = None  # the highest known here
    held: bool = False  # and traffic is suspended by it now
    seen: Stations = ()  # with FAILURE_SEEN: who failed
    report: StationReport | None = None
    change: ViewChange | None = None  # with NEWER


class DecisionFrame(AmpFrame, frozen=True, tag=82):
    accept: bool
    position: Number = 0
    change: ViewChange | None = None  # of a gate or a new view, whole
    previous: RunOutcome | None = None  # the emitter's run before


class DecisionRequestFrame(AmpFrame, frozen=True, tag=83):
    ref: FrameRef


class PendingFrame(AmpFrame, frozen=True, tag=84):
    ref: FrameRef


class GetViewFrame(AmpFrame, frozen=True, tag=85):
    previous: RunOutcome | None = None


class OpenGateFrame(AmpFrame, frozen=True, tag=86):
    change: ViewChange


class CloseGateFrame(AmpFrame, frozen=True, tag=87):
    change: ViewChange


class InvestigateFrame(AmpFrame, frozen=True, tag=88):
    failed: Stations
    previous: RunOutcome | None = None


class NewViewFrame(AmpFrame, frozen=True, tag=89):
    change: ViewChange


class BeaconFrame(AmpFrame, frozen=True, tag=90):
    """The first member of a view, now and then: this group exists (A-082)."""

    size: Number


class AmpPiece(AmpMessage, frozen=True):
    """About a frame that fits no datagram."""


class FramePart(AmpPiece, frozen=True, tag=91, gc=False):
    """Bytes of a frame that fits no datagram, or that was asked for again (`parts.py`)."""

    data: Data


class FrameNak(AmpPiece, frozen=True, tag=92):
    """These bytes of a frame are missing here."""

    nak: Nak


ProposalFrame = OpenGateFrame | CloseGateFrame | NewViewFrame

AnyAmpFrame = (
    DataFrame
    | ResponseFrame
    | DecisionFrame
    | DecisionRequestFrame
    | PendingFrame
    | GetViewFrame
    | OpenGateFrame
    | CloseGateFrame
    | InvestigateFrame
    | NewViewFrame
    | BeaconFrame
)
AnyAmpMessage = AnyAmpFrame | FramePart | FrameNak


def is_sound(frame: AnyAmpFrame) -> bool:
    """Does it keep the rules that its types cannot say?"""
    control = frame.control
    if control.has(SUSPEND) != (control.sl is not None):
        return False
    match frame:
        case DataFrame(items=items):
            return control.mdn > 0 and control.mtn > 0 and bool(items)
        case DecisionFrame(change=change):
            return control.mtn > 0 and (control.mdn > 0) == (change is None)
        case GetViewFrame() | InvestigateFrame() | OpenGateFrame() | CloseGateFrame() | NewViewFrame():
            return control.mtn > 0 and control.sl is not None
        case ResponseFrame(report=report) if report is not None:
            return report.ready + sum([each.messages for each in report.pending]) <= NUMBER_MAX
    return True


# On the wire

_encoder = msgpack.Encoder()
_decoder = msgpack.Decoder(AnyAmpFrame)
_checks: Final = ChecksOf(get_args(AnyAmpMessage))


def check_amp(message: AnyAmpMessage) -> Run | None:
    """Raise `BadInput` unless a station may be given this. Returns the run in it, if that is whole."""
    _checks[type(message)](message)
    if isinstance(message, FramePart):
        return check_data_message(message.data)
    if isinstance(message, FrameNak):
        return check_data_message(message.nak)
    if not is_sound(message):
        raise BadInput("a frame that contradicts itself", fix="see docs/protocols/amp.md")
    return None


def encode_frame(frame: AnyAmpFrame) -> bytes:
    return _encoder.encode(frame)


def decode_frame(octets: bytes) -> AnyAmpFrame | None:
    """None if this is no frame, or one that contradicts itself."""
    try:
        frame: AnyAmpFrame = _decoder.decode(octets)
        check_amp(frame)
    except (BadInput, *UNDECODABLE):
        return None
    return frame
