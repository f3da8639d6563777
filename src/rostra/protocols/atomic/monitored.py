"""One station of a group whose own monitor decides who is in it: AMp alone, without agreed views (A-090).

    list of the group ── hosts, as hints ──▶ GETVIEW ──▶ a majority of the last view lets us in ──▶ open
    members here ── HostRoster, in the order ──▶ views, at the same position for all
    hosts that the list has lost ──▶ suspected ──▶ INVESTIGATE, NEWVIEW by a majority of the last view
                                                   └── no majority: blocked, then excluded (A-056)

What is decided is in `gates.py` and `monitor.py`; messages go as in `negotiated.py`. What is here: whom
frames reach, which members the stations of a view have (`roster.py`), and what members are shown. Every view
of stations is a view for members, even if they stay the same: it has a position.
"""

from collections.abc import Collection
from typing import ClassVar, Final

from msgspec import msgpack
from msgspec.structs import replace

from rostra.core.effects import CancelTimer, Effect, Event, Instant, Noted, SetTimer
from rostra.groups.attributes import Slow
from rostra.names import Domain, Endpoint, Group, host_of
from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.amp_state import (
    GateAsked,
    GateClosed,
    GateLeft,
    RunDelivered,
    RunGiven,
    StationSuspected,
    ViewIndicated,
)
from rostra.protocols.atomic.emitter import ATTRIBUTES
from rostra.protocols.atomic.frames import STATIONS_MAX, AmpStationId, AnyAmpFrame, DataFrame, FramePart
from rostra.protocols.atomic.messages import AnyStationMessage, StationId
from rostra.protocols.atomic.negotiated import QUEUE_MAX, TOO_MANY, NegotiatedStation
from rostra.protocols.atomic.requests import WENT_ON
from rostra.protocols.atomic.roster import (
    HostRoster,
    Roster,
    RosterMember,
    decode_item,
    is_of_host,
    places_in,
)
from rostra.protocols.atomic.station import LEFT

UNANNOUNCED: Final = "the hosts that let it in were lost before it knew their members"
MINORITY: Final = "no majority of the hosts of the last view answers"

STRAY_S: Final = 5.0
"""A host of the view whose members are in no list any more, for so long, is asked whether it is still there:
it may have been excluded alone. Raising it: they stay in a silent group's view for longer."""

NEAR: Final = AmpConfig(
    queue_max=QUEUE_MAX,
    resend=False,
    weigh=places_in,
    omissions=14,
    response_s=0.1,
    wait_decision_s=1.55,
    suspend_s=1.6,
    flush_s=3.2,
    again_s=0.1,
    beacon_s=5.0,
)
"""A host is given up after 1.5 s without an answer, as its cluster's server would."""

WIDE: Final = replace(
    NEAR,
    omissions=7,
    response_s=0.5,
    wait_decision_s=4.1,
    suspend_s=4.2,
    flush_s=8.5,
    stagger_s=0.1,
    again_s=0.5,
)


class MonitoredStation(NegotiatedStation):
    near: ClassVar = NEAR
    wide: ClassVar = WIDE

    def __init__(
        self, group: Group, me: StationId, stable: str, datagram_bytes: int, numbers: int = 0
    ) -> None:
        super().__init__(group, me, stable, datagram_bytes, numbers)
        self.contacts: frozenset[Domain] = frozenset()  # hosts that the list of the group has
        self.is_over = False  # it has no part in the group, and no members
        self.wants: dict[Endpoint, bytes] = {}  # our members, as they should be in the roster
        self._later: dict[Endpoint, tuple[Slow, bytes]] = {}  # who came again before the leave was announced
        self._why = ""  # the gate was closed
        self._minds = False  # hosts that are in the view, and in no list
        self._forget_group()

    def _forget_group(self) -> None:
        self.roster = Roster()
        self._lacks: tuple[AmpStationId, ...] | None = None  # senior ones of unknown members; None: all
        self._is_announced = False  # the others know our members
        self._again = False  # a station came in that does not
        self._announces = False  # the run that is on its way says who they are
        self._unheard = False  # such a run has not come in the order yet, and was not rejected
        self._parted: set[Endpoint] = set()  # left on their own account, and still in the roster

    @property
    def hosts(self) -> frozenset[Domain]:
        return super().hosts | (self.contacts - {self.me.host})

    # From programs, and from the list

    def open(self, now: Instant, out: list[Effect], *, founds: bool) -> None:
        """`founds`: no other host has a part in this group."""
        self._forget_group()
        exists = True if not founds else None if self.hosts else False
        self._step(now, GateAsked(exists), out)
        self._end(now, out)

    def enter(self, now: Instant, me: Endpoint, slow: Slow, meta: bytes, out: list[Effect]) -> None:
        if me in [each.endpoint for each in self.roster.of(self.me)]:
            self._later[me] = (slow, meta)
        else:
            self.gallery.enter(me, slow)
            self.wants[me] = meta
        self._end(now, out)

    def gone(self, me: Endpoint, cause: str, out: list[Effect], fix: str = "") -> None:
        if self._later.pop(me, None) is None and self.wants.pop(me, None) is not None and cause == LEFT:
            self._parted.add(me)
        self._take_back(me, cause, out, fix)

    def listed(
        self, now: Instant, hosts: frozenset[Domain], lost: Collection[Domain], out: list[Effect]
    ) -> None:
        """The hosts that are on the member list now, and those that the list has lost: the latter are asked
        whether they are alive."""
        self.contacts = hosts
        view = self.gate.state.view
        for station in () if view is None else view.members:
            if station.host in lost and station != self.me:
                self._step(now, StationSuspected(station), out)
        self._mind_strays(out)
        self._end(now, out)

    @property
    def _strays(self) -> list[AmpStationId]:
        known = [id for id, those in self.roster.hosts if those and id != self.me]
        return [id for id in known if id.host not in self.contacts]

    def _mind_strays(self, out: list[Effect]) -> None:
        if self._strays and not self._minds:
            self._minds = True
            out.append(SetTimer(self._timer("strays"), STRAY_S))

    def ticked(self, now: Instant, out: list[Effect], *timer: str | int) -> None:
        if timer != ("strays",):
            super().ticked(now, out, *timer)
            return
        self._minds = False
        for station in self._strays:
            self._step(now, StationSuspected(station), out)
        self._mind_strays(out)
        self._end(now, out)

    def settle(self, now: Instant, out: list[Effect]) -> None:
        """After members went."""
        self._end(now, out)

    def closed(self, out: list[Effect]) -> None:
        if self._minds:
            self._minds = False
            out.append(CancelTimer(self._timer("strays")))
        super().closed(out)

    # Inside

    def heard(self, now: Instant, source: Domain, message: AnyStationMessage, out: list[Effect]) -> None:
        if isinstance(message, FramePart) and source in self.hosts:
            stream = message.data.stream
            if host_of(stream) == source:  # else it would forget what another host has sent
                self._receiver.meet(stream)
        super().heard(now, source, message, out)

    def _is_of_members(self, source: Domain, frame: AnyAmpFrame) -> bool:
        if isinstance(frame, DataFrame):
            items = [decode_item(each) for each in frame.items]
            sound = frame.control.attributes == ATTRIBUTES["atomic"]
            return sound and all(is_of_host(each, source) for each in items)
        return True

    def _step(self, now: Instant, event: Event, out: list[Effect]) -> None:
        before = len(out)
        super()._step(now, event, out)
        for effect in out[before:]:
            if isinstance(effect, Noted) and effect.what == "no_majority" and self._is_announced:
                self.gallery.stand(MINORITY, None, out)
            elif isinstance(effect, Noted) and effect.what == "excluded":
                self._why = effect.about

    def _was_closed(self, closed: GateClosed) -> None:
        self._due.clear()
        self._sending = None
        if closed.because == "excluded":
            self.excluded = MINORITY if self._why == "no majority" else WENT_ON

    def _indicated(self, view: ViewIndicated, out: list[Effect]) -> None:
        self.gallery.stand("", None, out)  # the view that ends the standstill has come
        self._receiver.follow([each for each in view.view.members if each != self.me])
        super()._indicated(view, out)

    def _end(self, now: Instant, out: list[Effect]) -> None:
        super()._end(now, out)
        state = self.gate.state
        base = None if state.action is None else state.action.base
        if state.view is None and base is not None and len(base.members) >= STATIONS_MAX:
            self.excluded = TOO_MANY
        elif not self.wants and state.standing == "closed":
            self.is_over = True
        elif not self.wants and state.standing in ("open", "opening"):
            if not (self._must_announce or self._unheard or self._due) and self._sending is None:
                self._step(now, GateLeft(), out)
                self._end(now, out)
        elif state.standing == "closed" and self._is_announced and not self.excluded:
            self.open(now, out, founds=False)  # it was closing when they came

    # Who our members are

    @property
    def _must_announce(self) -> bool:
        if self.gate.state.standing != "open" or self._lacks is None or self._lacks or self.excluded:
            return False
        if self._unheard:  # the same once more would be a second view with the same newcomers
            return False
        first = not self._is_announced and bool(self.wants)
        return first or (self._is_announced and (self._again or self._changed))

    @property
    def _changed(self) -> bool:
        return {each.endpoint: each.meta for each in self.roster.of(self.me)} != self.wants

    @property
    def _may_send(self) -> bool:
        if self._must_announce:
            return not (self._sending is not None or self._rests or self._due or self.gallery.blocked)
        return self._is_announced and super()._may_send

    def _send(self, now: Instant, out: list[Effect]) -> None:
        if not self._must_announce:
            super()._send(now, out)
            return
        here = {each.endpoint: each for each in self.roster.of(self.me)}
        known = [here[me] for me in self.wants if me in here]
        new = [RosterMember(me, meta) for me, meta in self.wants.items() if me not in here]
        line = self.roster.line or f"{self.me}.{self.numbers}"
        left = tuple(sorted([each for each in self._parted if each in here]))
        announcement = HostRoster(line, (*known, *new), left, self._changed)
        self._again, self._announces, self._unheard, self._sending = False, True, True, ()
        self._step(now, RunGiven(0, (msgpack.encode(announcement),), self._profile), out)

    def _ended(self, result: str, because: str, out: list[Effect]) -> None:
        if self._announces and result == "rejected":
            self._again = self._is_announced
        self._unheard = self._unheard and not (self._announces and result != "accepted")
        self._announces = False
        super()._ended(result, because, out)

    # What comes in the order

    def _give_items(self, run: RunDelivered, out: list[Effect]) -> None:
        position = run.position
        for each in run.items:
            item = decode_item(each)
            if isinstance(item, HostRoster):
                self._announced(run.data.sa, item, position, out)
                position += item.changed
            elif item is not None:
                self.gallery.give_run(item.sender, item.run, position, out)
                position += item.run.count

    def _announced(self, station: AmpStationId, roster: HostRoster, position: int, out: list[Effect]) -> None:
        self.roster = self.roster.announced(station, roster, position)
        if station == self.me:
            self._is_announced, self._unheard = True, False
            self._parted -= set(roster.left)
            for me, (slow, meta) in self._later.items():
                self.gallery.enter(me, slow)
                self.wants[me] = meta
            self._later.clear()
        elif self._lacks is not None:
            self._lacks = tuple([each for each in self._lacks if each != station])
        if roster.changed:
            self._show(position, roster.left, out)

    def _give_view(self, change: ViewIndicated, out: list[Effect]) -> None:
        members = change.view.members
        if self._lacks is None:
            self._lacks = members[: members.index(self.me)]
        self._lacks = tuple([each for each in self._lacks if each in members])
        if not (self._lacks or self.roster.line or change.view.id.number == 1):
            self.excluded = UNANNOUNCED  # a majority of newcomers goes on with nothing: the order is not here
        self._again = self._again or (self._is_announced and bool(set(change.joined) - {self.me}))
        left = [each.endpoint for station in change.left for each in self.roster.of(station)]
        self.roster = self.roster.without((*change.left, *change.failed))
        self._mind_strays(out)
        self._show(change.position, left, out)

    def _show(self, position: int, left: Collection[Endpoint], out: list[Effect]) -> None:
        """A station that comes in shows nothing before it knows all members: with the view in which its own
        are."""
        if self._is_announced:
            self.gallery.give_view(self.roster.shown(position, self.gallery.view, left), position, None, out)
