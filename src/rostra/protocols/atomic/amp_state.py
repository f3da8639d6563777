"""Where one gate stands: one frozen value, and one step over it.

    GateState ── GateTurn: event ──▶ GateState, effects

A gate is one station's port into one group (A-005): its view, receive queue, decided table, the transfer of
its emitter, and its local monitor, which is standby or runs one `MonitorAction`. Machines are functions over
a `GateTurn`: `emitter.py`, `receiver.py`, `monitor.py`, `gates.py`.

Frames to the group reach our own receiver too: on a medium by coming back from it, else within the same step.
"""

from collections import deque
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import CancelTimer, Effect, Event, Instant, Noted, SetTimer, TimerKey, ignored
from rostra.names import Domain, Group
from rostra.protocols.atomic.access import AccessState
from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.frames import (
    AmpStationId,
    AmpView,
    AnyAmpFrame,
    DataId,
    DecidedEntry,
    FrameControl,
    FrameRef,
    ResponseFrame,
    RunOutcome,
    StationReport,
    StoredChange,
    SuspensionLevel,
    ViewChange,
)

# Events


class FrameReceived(Event, frozen=True):
    """`source` is the host that the channel says it is from."""

    source: Domain
    frame: AnyAmpFrame


class GateAsked(Event, frozen=True):
    """Management opens the gate. `exists`: whether the group exists, by a directory; None if there is none,
    and the stations themselves are asked (A-082)."""

    exists: bool | None = None


class GateLeft(Event, frozen=True):
    """Management closes the gate."""


class RunGiven(Event, frozen=True):
    """Messages to send. `more`: with profile `urgent`, the block goes on."""

    token: int
    items: tuple[bytes, ...]
    profile: str = "atomic"
    more: bool = False


class AccessLost(Event, frozen=True):
    """This station can take no messages for now: buffer full, user paused, network re-forming (A-054)."""

    cause: str


class AccessGained(Event, frozen=True):
    cause: str


class StationSuspected(Event, frozen=True):
    """Something outside of the protocol believes that a station failed."""

    station: AmpStationId


class ViewExecuted(Event, frozen=True):
    """Agreed membership has this view now; the group is to follow (A-089)."""

    number: int
    members: tuple[AmpStationId, ...]
    body: bytes = b""


class ViewForced(Event, frozen=True):
    """Management goes on with these members, whatever the policy says (TA24)."""

    members: tuple[AmpStationId, ...]


# Effects


class CastFrame(Effect, frozen=True):
    """To every other station of the group; on a medium to ourselves too, in its order."""

    frame: AnyAmpFrame


class PostFrame(Effect, frozen=True):
    to: AmpStationId
    frame: AnyAmpFrame


class RunDelivered(Effect, frozen=True):
    """`position` is that of its first message in the order of the group; 0 if it is not ordered."""

    data: DataId
    items: tuple[bytes, ...]
    position: int
    view: int


class ViewIndicated(Effect, frozen=True):
    """From here on this is the view: everything delivered before belongs to the one before (A-073)."""

    view: AmpView
    joined: tuple[AmpStationId, ...]
    left: tuple[AmpStationId, ...]
    failed: tuple[AmpStationId, ...]
    position: int = 0  # its own place in the order
    body: bytes = b""


class RunEnded(Effect, frozen=True):
    """What became of a run that was given to us. `result`: accepted, rejected, excluded, sent."""

    token: int
    result: str
    because: str = ""
    missing: tuple[AmpStationId, ...] = ()  # profile `reliable`: who did not acknowledge


class GateOpened(Effect, frozen=True):
    pass


class GateClosed(Effect, frozen=True):
    because: str  # left, inaccessible, excluded
    tail_in_doubt: bool = False  # the others may have decided otherwise what we delivered last (TA10)


class AccessExceeded(Effect, frozen=True):
    """To management, where it decides who is a member: inaccessible for longer, or more often, than it may be
    (A-055)."""

    cause: str


class FailureReported(Effect, frozen=True):
    """To agreed membership: these do not answer (A-089)."""

    stations: tuple[AmpStationId, ...]


# State


class QueuedRun(Struct, frozen=True):
    """A frame in the receive queue. `place` is its proposed or final position, or the order of arrival."""

    data: DataId
    mtn: int
    place: int
    attributes: int
    items: tuple[bytes, ...]
    messages: int
    decided: bool = False
    behind: tuple[DataId, ...] = ()  # undecided when it came: with FLUSH it is looked at after them
    asked: int = 0  # decision requests sent


class GivenRun(Struct, frozen=True):
    """Waits for its turn at the emitter."""

    tokens: tuple[int, ...]
    items: tuple[bytes, ...]
    profile: str
    more: bool = False
    tries: int = 0  # rejected because of a suspension, and sent again


class GivenAnswer(Struct, frozen=True):
    station: AmpStationId
    kind: str
    position: int = 0


TransferPhase = Literal["disseminating", "rejecting", "confirming", "stalled"]


class Transfer(Struct, frozen=True):
    """One run of ours on its way to a decision."""

    run: GivenRun
    mdn: int
    attributes: int
    phase: TransferPhase = "disseminating"
    rounds: int = 0
    mtn: int = 0  # of the last transmission
    since: int = 0  # of the first transmission of this phase
    answers: tuple[GivenAnswer, ...] = ()  # one for each station
    misses: tuple[tuple[AmpStationId, int], ...] = ()  # rounds in a row that a station did not answer
    flushing: tuple[AmpStationId, ...] = ()
    waited_s: float = 0.0  # for those
    because: str = ""
    position: int = 0


class SuspendedTraffic(Struct, frozen=True):
    sl: SuspensionLevel
    frozen: bool = False  # we answered an investigation: decisions wait for the new view


ActionKind = Literal["recover", "open", "close", "agreed"]


class GivenReport(Struct, frozen=True):
    station: AmpStationId
    report: StationReport | None  # none: it acknowledged a proposal


class MonitorAction(Struct, frozen=True):
    """We are the active monitor. First we ask (`change` is none), then we propose."""

    kind: ActionKind
    sl: SuspensionLevel
    rounds: int = 0
    mtn: int = 0
    since: int = 0
    failed: tuple[AmpStationId, ...] = ()
    answers: tuple[GivenReport, ...] = ()
    flushing: tuple[AmpStationId, ...] = ()
    misses: tuple[tuple[AmpStationId, int], ...] = ()
    waited_s: float = 0.0
    change: ViewChange | None = None
    investigating: bool = True  # the first round is an INVESTIGATE, and no GETVIEW
    base: AmpView | None = None  # the view to be changed, as far as it is known
    forced: bool = False
    agreed: ViewExecuted | None = None
    attempt: int = 0


class FlushWait(Struct, frozen=True):
    """What is done when no frame in the queue is undecided any more: report to a newcomer, store a
    proposal, or install it."""

    to: AmpStationId
    ref: FrameRef
    then: Literal["report", "store", "install"]
    sl: SuspensionLevel | None = None
    change: ViewChange | None = None


class GateState(Struct, frozen=True):
    me: AmpStationId
    group: Group
    standing: Literal["closed", "opening", "open", "closing"] = "closed"
    exists: bool | None = None
    view: AmpView | None = None
    mtn: int = 0
    mdn: int = 0
    clock: int = 0  # largest position seen; on a medium, frames queued
    delivered: int = 0  # messages and views of the common order
    queue: tuple[QueuedRun, ...] = ()
    table: tuple[DecidedEntry, ...] = ()  # sorted by station
    waiting: tuple[GivenRun, ...] = ()
    transfer: Transfer | None = None
    last: RunOutcome | None = None  # of our own runs
    before: RunOutcome | None = None  # the one before `last`
    suspended: SuspendedTraffic | None = None
    top: SuspensionLevel | None = None  # highest seen in this view
    stored: StoredChange | None = None
    applied: ViewChange | None = None  # the one that led to `view`
    action: MonitorAction | None = None
    suspects: tuple[AmpStationId, ...] = ()
    flush: FlushWait | None = None
    block: SuspensionLevel | None = None  # our own suspension by `urgent`
    agreed: tuple[ViewExecuted, ...] = ()
    heard: tuple[AmpStationId, ...] = ()  # members, since traffic was suspended or last looked at
    access: AccessState = AccessState()


class GateTurn:
    """One step of one gate."""

    __slots__ = ("config", "effects", "now", "own", "s")

    def __init__(self, config: AmpConfig, state: GateState, now: Instant) -> None:
        self.config = config
        self.s = state
        self.now = now
        self.effects: list[Effect] = []
        self.own: deque[AnyAmpFrame] = deque()  # frames of ours that reach ourselves

    def put(self, **fields: Any) -> None:
        self.s = replace(self.s, **fields)

    def control(
        self, attributes: int = 0, mdn: int = 0, mtn: int = 0, sl: SuspensionLevel | None = None
    ) -> FrameControl:
        s = self.s
        return FrameControl(s.group, s.me, mtn, mdn, s.view.id if s.view else None, attributes, sl)

    def next_mtn(self) -> int:
        self.put(mtn=self.s.mtn + 1)
        return self.s.mtn

    def cast(self, frame: AnyAmpFrame) -> None:
        self.effects.append(CastFrame(frame))
        if self.config.order != "medium":
            self.own.append(frame)

    def post(self, to: AmpStationId, frame: AnyAmpFrame) -> None:
        if to == self.s.me:
            self.own.append(frame)
        else:
            self.effects.append(PostFrame(to, frame))

    def respond(self, to: AmpStationId, ref: FrameRef, kind: Any, **fields: Any) -> None:
        self.post(to, ResponseFrame(self.control(mdn=ref.mdn), ref, kind, **fields))

    def do(self, effect: Effect) -> None:
        self.effects.append(effect)

    def timer(self, after_s: float, *key: str | int) -> None:
        self.effects.append(SetTimer(self._key(key), after_s))

    def cancel(self, *key: str | int) -> None:
        self.effects.append(CancelTimer(self._key(key)))

    def _key(self, key: tuple[str | int, ...]) -> TimerKey:
        return ("amp", *key)

    def note(self, what: str, about: object = "") -> None:
        self.effects.append(Noted(what, str(about)))

    def ignore(self, frame: object, why: str) -> None:
        self.effects.append(ignored(frame, why))

    # What all machines ask

    @property
    def members(self) -> tuple[AmpStationId, ...]:
        return self.s.view.members if self.s.view else ()

    def entry(self, sa: AmpStationId) -> DecidedEntry:
        return next((each for each in self.s.table if each.sa == sa), DecidedEntry(sa))

    def enter(self, entry: DecidedEntry) -> None:
        others = [each for each in self.s.table if each.sa != entry.sa]
        self.put(table=tuple(sorted([*others, entry], key=lambda each: each.sa)))

    def undecided(self) -> tuple[QueuedRun, ...]:
        return tuple([each for each in self.s.queue if not each.decided])

    @property
    def frozen(self) -> bool:
        return self.s.suspended is not None and self.s.suspended.frozen
