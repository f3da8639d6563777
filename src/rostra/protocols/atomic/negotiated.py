"""One station in negotiated order: AMp's machines for the members of one host (A-045, A-089).

    program ── OrderSubmitted ──▶ waiting ── one run at a time ──▶ gate ── frames ──▶ stations of other hosts
    program ◀── OrderedRun, views ── due ◀── delivered, in the order of the group ──┘

No station orders for the others: the station of the sender coordinates each run of its own, and receivers
propose its position. Views come from agreed membership; the station of rank 0 carries them out
(`executing.py`). Every view suspends and flushes.

With ``stable="all"`` a run is sent with the profile `atomic-confirmed`: the sender's host delivers it to its
own members (their receipt) when every station has the decision; with "sent", when the run is decided. Other
hosts deliver it with the decision in both cases: if one of them is lost together with the sender's host, it
may have delivered a run that no other host will deliver (TA10).
"""

from collections import deque
from typing import ClassVar, Final

from msgspec.structs import replace

from rostra.core.effects import (
    CancelTimer,
    Effect,
    Event,
    Ignored,
    Instant,
    Noted,
    SetTimer,
    TimerFired,
    ignored,
)
from rostra.groups.attributes import Slow
from rostra.names import Domain, Endpoint, Group, host_of, parent
from rostra.protocols.atomic.access import LIMITS
from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.amp_state import (
    AccessExceeded,
    AccessGained,
    AccessLost,
    CastFrame,
    FailureReported,
    FrameReceived,
    GateAsked,
    GateClosed,
    GateLeft,
    PostFrame,
    RunDelivered,
    RunEnded,
    RunGiven,
    ViewExecuted,
    ViewIndicated,
)
from rostra.protocols.atomic.emitter import ATTRIBUTES
from rostra.protocols.atomic.events import HubPost, OrderSubmitted, StationCast
from rostra.protocols.atomic.feeds import ASK_S
from rostra.protocols.atomic.frames import (
    ITEMS_MAX,
    STATIONS_MAX,
    AmpStationId,
    AnyAmpFrame,
    AnyAmpMessage,
    DataFrame,
    DecisionFrame,
    FrameNak,
    FramePart,
    NewViewFrame,
    ResponseFrame,
)
from rostra.protocols.atomic.gates import AmpGate
from rostra.protocols.atomic.logs import MovesBetween, shown_view
from rostra.protocols.atomic.messages import (
    AnyStationMessage,
    MarkEntry,
    RunEntry,
    StationId,
    ViewKey,
    decode_entry,
    encode_entry,
)
from rostra.protocols.atomic.parts import FrameReceiver, FrameSender
from rostra.protocols.atomic.requests import WENT_ON
from rostra.protocols.atomic.state import AgreedNow
from rostra.protocols.atomic.station import Gallery

RUN_BYTES: Final = 32 << 10
"""What waits is sent together, up to so much. Raising it: fewer rounds under load, and longer ones."""

QUEUE_MAX: Final = 1024
AGAIN_S: Final = 0.1
"""So long after a member somewhere could not take a run it is sent again."""

WIDE_RESPONSE_S: Final = 0.5
"""A round's patience where stations are in several clusters: their frames go by way of the servers."""

TOO_MANY: Final = f'a group with order="negotiated" has members on {STATIONS_MAX} hosts at most'


def messages_in(items: tuple[bytes, ...]) -> int:
    """The number of messages in a run, counted in the same way at all stations, whatever it holds."""
    entries = [decode_entry(each) for each in items]
    return sum([each.run.count for each in entries if isinstance(each, RunEntry)])


LAN_CONFIG: Final = AmpConfig(decides="agreed", queue_max=QUEUE_MAX, resend=False, weigh=messages_in)
WIDE_CONFIG: Final = AmpConfig(
    decides="agreed",
    queue_max=QUEUE_MAX,
    resend=False,
    weigh=messages_in,
    response_s=WIDE_RESPONSE_S,
    wait_decision_s=2.5,
    suspend_s=2.5,
    flush_s=5.0,
)


def amp_number(key: ViewKey) -> int:
    """AMp's number of an agreed view: a view with new attributes and the same members has one too."""
    return (key.number << 16) + min(key.revision, (1 << 16) - 1)


class NegotiatedStation:
    """One host's part in one group: what comes from programs, membership, other stations and its timers.
    `numbers`: those up to it were used by this host in this life."""

    near: ClassVar = LAN_CONFIG
    wide: ClassVar = WIDE_CONFIG

    def __init__(
        self, group: Group, me: StationId, stable: str, datagram_bytes: int, numbers: int = 0
    ) -> None:
        self.group = group
        self.me = AmpStationId(me.host, me.life)
        self.gallery = Gallery(group, stable)
        self.agreed: AgreedNow | None = None
        self.excluded = ""  # why, if we are
        is_wide = parent(me.host) != group.scope
        self.gate = AmpGate(self.wide if is_wide else self.near, self.me, group)
        self.gate.state = replace(self.gate.state, mtn=numbers, mdn=numbers)
        self._profile = "atomic-confirmed" if stable == "all" else "atomic"
        self._bytes = datagram_bytes
        self._moves = MovesBetween()  # since the last view in the order
        self._waiting: deque[RunEntry] = deque()  # of our members
        self._sending: tuple[RunEntry, ...] | None = None  # in the run that is on its way, if there is one
        self._rests = False  # a member somewhere could not take it
        self._asks = False  # parts of frames are missing here
        self._due: deque[RunDelivered | ViewIndicated] = deque()  # not given to our members yet
        self._sender = FrameSender(self.me, datagram_bytes, numbers)
        self._receiver = FrameReceiver(me.host)

    @property
    def numbers(self) -> int:
        return max(self.gate.state.mtn, self.gate.state.mdn, self._sender.last)

    @property
    def given(self) -> int:
        """Everything up to this position was given to members here."""
        state = self.gate.state
        return self._due[0].position - 1 if self._due else state.delivered

    @property
    def hosts(self) -> frozenset[Domain]:
        """The hosts of all other stations that take part in the group now."""
        view = self.gate.state.view
        known = () if view is None else [each.host for each in view.members]
        coming = () if self.agreed is None else [each.host for each in self.agreed.stations]
        return frozenset([*known, *coming]) - {self.me.host}

    # From programs

    def submitted(self, now: Instant, event: OrderSubmitted, out: list[Effect]) -> None:
        run = self.gallery.submitted(event)
        if isinstance(run, Ignored):
            out.append(run)
            return
        self._waiting.append(RunEntry(0, event.endpoint, run))
        self._end(now, out)

    def reads(self, now: Instant, me: Endpoint, reads: bool, out: list[Effect]) -> None:
        self.gallery.reads(me, reads, out)
        self._end(now, out)

    # From agreed membership

    def look(self, now: Instant, agreed: AgreedNow | None, blocked: str, out: list[Effect]) -> None:
        """The agreed view of the moment, and why our side is blocked, if it is."""
        self.gallery.stand(blocked, None if agreed is None else agreed.key, out)
        is_new = agreed is not None and (self.agreed is None or agreed.key != self.agreed.key)
        if agreed is not None and is_new and not blocked:  # no views of a side that must not go on
            self._moves.agreed(agreed)
            self.agreed = agreed
            self._execute(now, agreed, out)
        self._end(now, out)

    def _execute(self, now: Instant, agreed: AgreedNow, out: list[Effect]) -> None:
        stations = tuple([AmpStationId(each.host, each.life) for each in agreed.stations])
        if self.me in stations[STATIONS_MAX:]:
            self.excluded = TOO_MANY
        if len(stations) > STATIONS_MAX:
            return  # those in front go on with the next view, in which the others are not
        before = () if self.gate.state.view is None else self.gate.state.view.members
        self._receiver.follow([each for each in (*before, *stations) if each != self.me])
        if self.gate.state.standing == "closed":
            self._step(now, GateAsked(), out)
        view = shown_view(agreed, self.gallery.view, self._moves)
        body = encode_entry(MarkEntry(0, view, agreed.stations))
        self._step(now, ViewExecuted(amp_number(agreed.key), stations, body), out)

    def gone(self, me: Endpoint, cause: str, out: list[Effect], fix: str = "") -> None:
        """A member of this host has left, or was removed."""
        if self._take_back(me, cause, out, fix) and not self.gallery.members:
            self.closed(out)
            self.agreed, self.excluded, self.gallery.view = None, "", None
            self._due.clear()
            self._moves.clear()

    def _take_back(self, me: Endpoint, cause: str, out: list[Effect], fix: str = "") -> bool:
        """What it said and was not sent will be delivered by no member."""
        member = self.gallery.members.get(me)
        if member is None:
            return False
        unsent = [each.run.first for each in self._waiting if each.sender == me]
        self._waiting = deque([each for each in self._waiting if each.sender != me])
        if self._sending is not None:  # should it be rejected, it is not sent again for a later membership
            self._sending = tuple([each for each in self._sending if each.sender != me])
        self.gallery.leave(me, unsent[0] if unsent else member.handed + 1, cause, out, fix)
        return True

    def closed(self, out: list[Effect]) -> None:
        self._sending = None
        self._waiting.clear()
        self._receiver = FrameReceiver(self.me.host)
        if self._rests:
            self._rests = False
            out.append(CancelTimer(self._timer("again")))
        if self._asks:
            self._asks = False
            out.append(CancelTimer(self._timer("parts")))
        if self.gate.state.standing != "closed":
            self._step(0.0, GateLeft(), out)
        self.excluded = ""

    # From other stations

    def heard(self, now: Instant, source: Domain, message: AnyStationMessage, out: list[Effect]) -> None:
        frame: AnyStationMessage | None = message
        if source not in self.hosts:
            frame = None
            out.append(ignored(message, "not in the view"))
        elif isinstance(message, FrameNak):
            frame = None
            self._post(source, self._sender.repairs(now, message), out)
        elif isinstance(message, FramePart):
            frame = self._receiver.take(now, source, message)
            if self._receiver.lacks and not self._asks:
                self._asks = True
                out.append(SetTimer(self._timer("parts"), ASK_S))
        if frame is None:
            return
        if not isinstance(frame, AnyAmpFrame) or not self._is_of_members(source, frame):
            out.append(ignored(frame, "not of its members"))
            return
        self._step(now, FrameReceived(source, frame), out)
        self._end(now, out)

    # As time passes

    def ticked(self, now: Instant, out: list[Effect], *timer: str | int) -> None:
        if timer == ("again",):
            self._rests = False
        elif timer == ("parts",):
            for host, nak in self._receiver.asks(now):
                self._post(host, [nak], out)
            self._asks = self._receiver.lacks
            if self._asks:
                out.append(SetTimer(self._timer("parts"), ASK_S))
        else:
            self._step(now, TimerFired(("amp", *timer)), out)
        self._end(now, out)

    def _timer(self, *key: str | int) -> tuple[str | int, ...]:
        return ("atomic", self.group.name, self.group.scope, *key)

    # Inside

    def _step(self, now: Instant, event: Event, out: list[Effect]) -> None:
        for effect in self.gate.step(now, event):
            match effect:
                case CastFrame(frame):
                    hosts = tuple(sorted(self.hosts))
                    if hosts:
                        out += [StationCast(hosts, self.group, m) for m in self._sender.messages(frame)]
                case PostFrame(to, frame):
                    self._post(to.host, self._sender.messages(frame), out)
                case SetTimer(timer, after_s):
                    out.append(SetTimer(self._timer(*timer[1:]), after_s))
                case CancelTimer(timer):
                    out.append(CancelTimer(self._timer(*timer[1:])))
                case RunDelivered():
                    self._due.append(effect)
                case ViewIndicated():
                    self._indicated(effect, out)
                case RunEnded(result=result, because=because):
                    self._ended(result, because, out)
                case GateClosed():
                    self._was_closed(effect)
                case AccessExceeded():
                    self._expel(now)
                case FailureReported(stations):
                    out.append(Noted("no_response", ", ".join(map(str, stations))))
                case Ignored() | Noted():
                    out.append(effect)

    def _indicated(self, view: ViewIndicated, out: list[Effect]) -> None:
        self._due.append(view)

    def _was_closed(self, closed: GateClosed) -> None:
        if closed.because == "excluded":
            self.excluded = WENT_ON

    def _post(self, to: Domain, messages: list[AnyAmpMessage] | list[FrameNak], out: list[Effect]) -> None:
        out += [HubPost(to, self.group, message) for message in messages]

    def _ended(self, result: str, because: str, out: list[Effect]) -> None:
        """What was rejected is sent again, in its order: with a slow member that is throttling."""
        sending, self._sending = self._sending, None
        if result == "rejected":
            self._waiting.extendleft(reversed(sending or ()))
            if because == "inaccessible":
                self._rests = True
                out.append(SetTimer(self._timer("again"), AGAIN_S))

    def _expel(self, now: Instant) -> None:
        """Members that have not read for longer than a group waits (A-055)."""
        longest_s = LIMITS["user"].longest_s
        if any(now - each.since >= longest_s for each in self.gate.state.access.now):
            for each in self.gallery.members.values():
                if each.is_full:
                    each.slow = Slow.EXPEL

    def _end(self, now: Instant, out: list[Effect]) -> None:
        full = self.gallery.is_full
        if full is self.gate.state.access.accessible:
            self._step(now, AccessLost("user") if full else AccessGained("user"), out)
        self._give(out)
        while self._may_send:
            self._send(now, out)
            self._give(out)

    @property
    def _may_send(self) -> bool:
        view = self.gallery.view
        return (
            bool(self._waiting)
            and not (self._sending is not None or self._rests or self._due or self.gallery.blocked)
            and self.gate.state.standing == "open"
            and view is not None
            and self._waiting[0].sender in view.endpoints
        )

    def _send(self, now: Instant, out: list[Effect]) -> None:
        entries: list[RunEntry] = []
        size = 0
        inside = frozenset() if self.gallery.view is None else self.gallery.view.endpoints
        while self._waiting and self._waiting[0].sender in inside and len(entries) < ITEMS_MAX:
            size += len(self._waiting[0].run.block)
            if entries and size > RUN_BYTES:
                break
            entries.append(self._waiting.popleft())
        self._sending = tuple(entries)
        items = tuple([encode_entry(each) for each in entries])
        self._step(now, RunGiven(0, items, self._profile), out)

    def _give(self, out: list[Effect]) -> None:
        """In the order of the group, as far as what was promised of it holds. A station that is excluded does
        not know that of what it has not given."""
        gallery = self.gallery
        while self._due and not (gallery.blocked or self.excluded):
            first = self._due[0]
            if isinstance(first, RunDelivered) and not self._is_confirmed(first):
                return
            self._due.popleft()
            if isinstance(first, RunDelivered):
                self._give_items(first, out)
            else:
                self._give_view(first, out)

    def _give_items(self, run: RunDelivered, out: list[Effect]) -> None:
        position = run.position
        for item in run.items:
            entry = decode_entry(item)
            if isinstance(entry, RunEntry):
                self.gallery.give_run(entry.sender, entry.run, position, out)
                position += entry.run.count

    def _give_view(self, change: ViewIndicated, out: list[Effect]) -> None:
        mark = decode_entry(change.body)
        if isinstance(mark, MarkEntry):
            view = mark.view if self.gallery.view is None else self._moves.upto(mark.view)
            self.gallery.give_view(view, change.position, None, out)
            self._moves.placed(mark.view.key)

    def _is_confirmed(self, run: RunDelivered) -> bool:
        transfer = self.gate.state.transfer
        return run.data.sa != self.me or transfer is None or transfer.mdn != run.data.mdn

    def _is_of_members(self, source: Domain, frame: AnyAmpFrame) -> bool:
        """Are its runs of members of that host, in the one order, and can its views be shown?"""
        return _is_of_members(source, frame)


def _is_of_members(source: Domain, frame: AnyAmpFrame) -> bool:
    if isinstance(frame, DataFrame):
        if frame.control.attributes != ATTRIBUTES["atomic"]:
            return False  # at no position; or with a suspension, above those of all views to come
        entries = [decode_entry(each) for each in frame.items]
        return all(isinstance(each, RunEntry) and host_of(each.sender) == source for each in entries)
    changes = [frame.change] if isinstance(frame, NewViewFrame | DecisionFrame | ResponseFrame) else []
    if isinstance(frame, ResponseFrame) and frame.report is not None and frame.report.stored is not None:
        changes.append(frame.report.stored.change)
    return all(each is None or isinstance(decode_entry(each.body), MarkEntry) for each in changes)
