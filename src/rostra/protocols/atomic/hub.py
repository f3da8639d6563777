"""One station in hub order: one of the stations numbers everything, the others follow.

    agreed view V ── is its first station our orderer? ── yes ──▶ go on; the orderer gives V a place (a mark)
                          └── no: freeze ──▶ HubReport to it; or, if we are it, gather all reports
    all have reported ──▶ the longest log counts ──▶ new epoch: what a station lacks, then V, then new runs

**Order.** The orderer numbers runs as they arrive, and gives each its positions. An entry is stable when the
stations that `stable` names have it (`HubHave`, cumulative); then all stations deliver it to their members.
So every delivered entry is held, with its position, by every station of the view (or by a majority): the next
orderer finds it, and the log of an excluded station is a prefix of the others' (H6, TA10).

**Views.** A join or leave is an entry and suspends no sender (D10). The orderer gives a view its place when
each new station in it has reported, so that no entry waits for a station that is not there yet. There is a
flush only when the orderer changes: stations that have reported take nothing more of the old epoch, so the
new orderer decides about logs that do not grow meanwhile (TA22, A-089).

Where we differ from the paper: one station orders (A-044's relay hub); an agreed view is its INVESTIGATE.
"""

from collections import deque
from collections.abc import Iterable

from rostra.core.effects import CancelTimer, Effect, Ignored, Instant, ignored
from rostra.names import Domain, Endpoint, host_of
from rostra.protocols.atomic.config import AGAIN, PATIENCE_TICKS, WINDOW_BYTES
from rostra.protocols.atomic.durable import UNRECORDED, OrderHead, is_named
from rostra.protocols.atomic.events import OrderSubmitted
from rostra.protocols.atomic.hub_early import HubEarly
from rostra.protocols.atomic.messages import (
    AnyStationMessage,
    HubAsk,
    HubData,
    HubFetch,
    HubHave,
    HubNak,
    HubOut,
    HubPulse,
    HubReport,
    HubStart,
    MarkEntry,
    RunEntry,
    StationId,
    Way,
    decode_entry,
)
from rostra.protocols.atomic.state import (
    AgreedNow,
    OrderLog,
    StationFollows,
    StationGathers,
    StationOrders,
    StationReports,
)


class Station(HubEarly):
    """One host's part in one group: what comes from programs, membership, other stations and its timer."""

    # From programs

    def submitted(self, now: Instant, event: OrderSubmitted, out: list[Effect]) -> None:
        run = self.gallery.submitted(event)
        if isinstance(run, Ignored):
            out.append(run)
            return
        entry = RunEntry(self.gallery.members[event.endpoint].stay, event.endpoint, run)
        if self.orders and not self._peers and not self._queue and self._may_order and self.disk is None:
            self._place(entry, out)  # all members are here: arrival is the order
            return
        self._unplaced[event.endpoint, run.first] = entry
        if self.orders:
            self._queue.append(entry)
        self._end(now, out)

    def reads(self, now: Instant, me: Endpoint, reads: bool, out: list[Effect]) -> None:
        was_full = self.gallery.is_full
        self.gallery.reads(me, reads, out)
        self._says_have = self._says_have or was_full
        self._end(now, out)

    # From agreed membership

    def look(self, now: Instant, agreed: AgreedNow | None, blocked: str, out: list[Effect]) -> None:
        """The agreed view of the moment, and why our side is blocked, if it is."""
        self._standstill = blocked
        self._block(blocked, agreed, out)
        is_new = agreed is not None and (self.agreed is None or agreed.key != self.agreed.key)
        if agreed is not None and is_new and not blocked:  # no views of a side that must not go on
            self._moves.agreed(agreed)
            self.agreed = agreed
            self._stays = {id.endpoint: id.stamp[1] for id in agreed.view.ids}
            self._view_changed(now, out)
        self._reset_if_new(out)
        self._end(now, out)

    def gone(self, me: Endpoint, cause: str, out: list[Effect], fix: str = "") -> None:
        """A member of this host has left, or was removed."""
        member = self.gallery.members.get(me)
        if member is None:
            return
        mine = [key for key in self._unplaced if key[0] == me]
        unsent = [key[1] for key in mine if key not in self._upped]  # no other station has these
        for key in mine:
            del self._unplaced[key]
            self._upped.pop(key, None)
        self._queue = deque([each for each in self._queue if each.sender != me])
        self.gallery.leave(me, unsent[0] if unsent else member.handed + 1, cause, out, fix)

    # From other stations

    def heard(self, now: Instant, source: Domain, message: AnyStationMessage, out: list[Effect]) -> None:
        what = type(message).__name__
        if source == self.me.host:
            out.append(Ignored(what, "from ourselves"))
            return
        agreed = self.agreed
        match message:
            case HubReport(chain=chain, origin=origin) | HubStart(chain=chain, origin=origin) if (
                self.disk is not None and chain and not is_named(origin)
            ):
                out.append(Ignored(what, "of an order that did not begin"))
                return
            case HubData() | HubPulse() | HubNak() | HubHave():
                if not self._in_epoch(source, message):
                    out.append(Ignored(what, "of another epoch"))
                    return
                self._flowed(now, source, message, out)
            case HubAsk(early=early, release=release) if (early or release) and agreed is not None:
                self._asked_early(now, source, message, out)
                return
            case HubReport(view=view, early=True) if agreed is not None and (
                view != agreed.key or view in self._void
            ):
                self._reported_early(source, message, out)
                return
            case HubReport() | HubAsk() | HubStart() | HubOut() | HubFetch() if (
                agreed is None or message.view != agreed.key
            ):
                self.disturbed = not self.gallery.members
                out.append(Ignored(what, "of another view"))
                return
            case HubReport(life=life):
                id = StationId(source, life)
                if agreed is None or id not in agreed.stations:
                    out.append(Ignored(what, "not in the view"))
                    return
                self._reported(now, id, message, out)
            case HubFetch(position=position):
                self._send_log(source, position, out)
            case _ if agreed is None or source != agreed.first.host or agreed.first == self.me:
                out.append(Ignored(what, "not from the first station"))
                return
            case HubAsk() if self._is_asked_late:
                out.append(Ignored(what, "of a flush that is over"))
            case HubAsk(waits=waits):
                if not isinstance(self.stage, StationReports):
                    self._freeze(out)
                    self.stage = StationReports(agreed.first)
                if self.disk is not None:
                    self._stand(waits, out)
                self._report(out)
            case HubStart():
                if isinstance(self.stage, StationReports):
                    self._started(message, out)
                else:
                    self._says_have = True  # it has not heard of us
            case HubOut(why=why):
                if isinstance(self.stage, StationReports):
                    self.excluded = why
        self._end(now, out)

    @property
    def _is_asked_late(self) -> bool:
        """Is the epoch that begins with this view there already? An orderer that gathers anew asks again, and
        sends nothing else meanwhile."""
        assert self.agreed is not None
        if not isinstance(self.stage, StationFollows) or self.epoch != self.agreed.key:
            return False
        self._asked_again += 1
        return self._asked_again < AGAIN

    def _in_epoch(self, source: Domain, message: HubData | HubPulse | HubNak | HubHave) -> bool:
        """Is it from our orderer, or to us as such? What is fetched has the name of the coming epoch."""
        match self.stage:
            case StationFollows(orderer):
                return source == orderer.host and message.epoch == self.epoch
            case StationOrders():
                return source in self._peers and message.epoch == self.epoch
            case StationGathers(fetching=StationId(host)):
                assert self.agreed is not None
                return source == host and message.epoch == self.agreed.key
            case StationReports(to):
                assert self.agreed is not None
                return source == to.host and message.epoch == self.agreed.key
        return False

    def _flowed(
        self, now: Instant, source: Domain, message: HubData | HubPulse | HubNak | HubHave, out: list[Effect]
    ) -> None:
        peer = self._peers.get(source)
        match message:
            case HubData(way=Way.UP) if peer is not None and peer.waiting > WINDOW_BYTES:
                out.append(Ignored("HubData", "more than it may"))  # asked for when there is room
            case HubData(way=Way.UP, data=data) if peer is not None:
                for each in peer.up.take(now, data):
                    entry = decode_entry(each)
                    if not isinstance(entry, RunEntry) or host_of(entry.sender) != source:
                        out.append(Ignored("HubData", "not a run of its members"))
                    else:
                        peer.waiting += len(entry.run.block)
                        self._queue.append(entry)
            case HubPulse(way=Way.UP, high=high) if peer is not None:
                peer.up.hear_high(high)
                if self._stable == "majority":
                    self._pulse([source], out)  # it may wait until all have what it counted for
            case HubHave(next=next, accept=accept, full=full) if peer is not None:
                if next <= self.log.next:
                    peer.started, peer.reports = True, 0
                    self._progress = self._progress or next > peer.next
                    peer.next, peer.accept = max(peer.next, next), max(peer.accept, accept)
                    peer.counts, peer.full = max(peer.counts, next), full
            case HubNak(way=Way.DOWN, nak=nak) if peer is not None:
                for data in self._out.repairs(now, nak, self._bytes):
                    repair = HubData(message.epoch, Way.DOWN, self.accept, self.all, data)
                    self._post(source, repair, out)
            case HubNak(way=way, nak=nak) if self._up is not None:
                for data in self._up.repairs(now, nak, self._bytes):
                    self._post(source, HubData(message.epoch, way, 0, 0, data), out)
            case HubData(way=Way.DOWN) | HubPulse(way=Way.DOWN) if self._promises:
                out.append(ignored(message, "we reported for a view without its sender"))
            case HubData(way=Way.DOWN, data=data) if isinstance(self.stage, StationFollows):
                self._took(self._in.take(now, data), out)
                self._learn(message.accept, message.all)
            case HubPulse(way=Way.DOWN, high=high) if isinstance(self.stage, StationFollows):
                self._in.hear_high(high)
                self._learn(message.accept, message.all)
            case HubData(way=Way.FETCH, data=data) if isinstance(self.stage, StationGathers):
                self._took(self._in.take(now, data), out)
                self._decide(now, out)
            case _:
                out.append(ignored(message, "not expected"))

    def _learn(self, accept: int, all: int) -> None:
        """The orderer may know of more than we have."""
        self._asked_again = 0
        self.accept, self.all = max(self.accept, accept), max(self.all, all)
        self._says_have = True

    def _took(self, entries: list[bytes], out: list[Effect]) -> None:
        for each in entries:
            entry = decode_entry(each)
            if entry is None or entry.position != self.log.next:
                out.append(Ignored("HubData", "not the next entry"))
            else:
                self._append(entry, each)

    def ticked(self, now: Instant, out: list[Effect], *timer: str | int) -> None:
        self._is_timed = False
        self._ticks = 0 if self._progress else self._ticks + 1
        self._progress = False
        match self.stage:
            case StationReports():
                self._report(out)
            case StationGathers(fetching=fetching) if fetching is not None and self.agreed is not None:
                if not self._in.lacks:
                    self._fetch(out)
                for nak in self._in.asks(now, self.me.host):
                    self._post(fetching.host, HubNak(self.agreed.key, Way.FETCH, nak), out)
                self._ask(out)
                self._decide(now, out)
            case StationGathers():
                self._ask(out)
                self._decide(now, out)
            case StationFollows(orderer):
                assert self.epoch is not None
                self._say_early_again(now, out)
                for nak in self._in.asks(now, self.me.host) if not self._promises else ():
                    self._post(orderer.host, HubNak(self.epoch, Way.DOWN, nak), out)
                if self.leaving:
                    self._ask_all(out)
                elif self._up is not None and self._unplaced:
                    self._post(orderer.host, HubPulse(self.epoch, Way.UP, self._up.high, 0, 0), out)
                self._says_have = True
            case StationOrders():
                assert self.epoch is not None
                behind: list[Domain] = []
                for host, peer in sorted(self._peers.items()):
                    if not peer.started:
                        self._send_start(peer, out)
                    elif peer.next < self.log.next or peer.accept < self.accept:
                        behind.append(host)
                    for nak in peer.up.asks(now, self.me.host):
                        self._post(host, HubNak(self.epoch, Way.UP, nak), out)
                self._pulse(behind, out)
                self._ask_for_mark(out)
                if self._lacks_record and self._ticks > PATIENCE_TICKS:
                    self._stand(UNRECORDED, out)
        self._end(now, out)

    # On disk

    def recorded(self, now: Instant, out: list[Effect]) -> None:
        """At the server of the scope, as the group's order: what is on disks is stable."""
        assert self.disk is not None
        self.disk.recorded = True
        if self._short == UNRECORDED:
            self._stand("", out)
        self._end(now, out)

    def load(self, head: OrderHead, entries: Iterable[tuple[int, bytes]]) -> None:
        """What an earlier life of this station had."""
        assert self.disk is not None
        self.disk.load(head)
        self.chain, self.accept = head.chain, head.accept
        for position, encoded in entries if head.chain else ():
            entry = decode_entry(encoded)
            if entry is None or (self.log.entries and position != self.log.next):
                break  # a disk that lost something in between: what is before it can be used
            if not self.log.entries:
                self.log = OrderLog(position)
                self.disk.low = position
            self.log.append(entry, encoded)
            self.disk.appended(entry, encoded, written=True)
            if isinstance(entry, MarkEntry):
                self.marked = entry

    @property
    def kept(self) -> tuple[OrderHead, list[tuple[int, bytes]]] | None:
        """What the next station of this host in this group goes on from."""
        if self.disk is None or self.disk.head is None or self.disk.failed:
            return None
        return self.disk.head, [(entry.position, encoded) for entry, encoded in self.log.since(0)]

    @property
    def numbers(self) -> int:
        return 0  # epochs tell those of one from those of another

    @property
    def hosts(self) -> frozenset[Domain]:
        """The hosts of all other stations that take part in the group now."""
        return frozenset() if self.agreed is None else frozenset([each.host for each in self.agreed.stations])

    def closed(self, out: list[Effect]) -> None:
        if self.orders and self._stable == "majority":
            self._pulse(sorted(self._peers), out)  # others that leave may wait for what all have
        if self._is_timed:
            out.append(CancelTimer(self._timer))
