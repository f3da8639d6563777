"""One station in hub order: one of the stations numbers everything, the others follow.

    agreed view V ── is its first station our orderer? ── yes ──▶ go on; the orderer gives V a place (a mark)
                          └── no: freeze ──▶ HubReport to it; or, if we are it, gather all reports
    all have reported ──▶ the longest log counts ──▶ new epoch: what a station lacks, then V, then new runs

**Order.** The orderer numbers runs as they come, and gives each its positions. An entry is stable when the
stations that `stable` names have it (`HubHave`, cumulative); then it is given to members, everywhere. So what
any member was given is held, with its position, by every station of the view (or by a majority): the next
orderer finds it, and the log of a station that was excluded is a prefix of the others' (H6, TA10).

**Views.** A join or leave is an entry and suspends nobody (D10). The orderer gives a view its place when each
new station in it has reported, so that no entry waits for one that is not there yet. Only when the orderer
changes is there a flush: stations that have reported take nothing more of the old epoch, so the decision
of the new orderer is about logs that do not grow behind its back (TA22, A-089).

Where we differ from the paper: one station orders (A-044's relay hub); an agreed view is its INVESTIGATE.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

from rostra.core.effects import CancelTimer, Effect, Ignored, Instant, SetTimer, TimerKey
from rostra.names import Domain, Endpoint, Group, host_of
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.atomic.config import TICK_MAX_S, TICK_S, WINDOW_FEED_BYTES
from rostra.protocols.atomic.events import HubPost, OrderFlushed, OrderSubmitted
from rostra.protocols.atomic.feeds import InFeed, OutFeed, feed_name
from rostra.protocols.atomic.logs import is_enough, is_prefix, longest_log, majority_has, shown_view
from rostra.protocols.atomic.messages import (
    CHAIN_MAX,
    AnyHubMessage,
    Chain,
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
    ViewKey,
    Way,
    decode_entry,
    encode_entry,
)
from rostra.protocols.atomic.state import (
    AgreedNow,
    OrderLog,
    Stage,
    StationFollows,
    StationGathers,
    StationIdle,
    StationOrders,
    StationPeer,
    StationReports,
)
from rostra.protocols.atomic.station import Gallery
from rostra.protocols.flow.messages import Run

SHORT: Final = "less than half of the last ordered view is here: what was stable may be missing"
WENT_ON: Final = "the group went on without this host"


class Station:
    """One host's part in one group."""

    def __init__(self, group: Group, me: StationId, stable: str, datagram_bytes: int) -> None:
        self.group = group
        self.me = me
        self.gallery = Gallery(group, stable)
        self.agreed: AgreedNow | None = None
        self.stage: Stage = StationIdle()
        self.chain: Chain = ()
        self.log = OrderLog(1)
        self.accept = self.all = 0  # below these positions everything is stable; and with all stations
        self.marked: MarkEntry | None = None  # the last view in our log
        self.excluded = ""  # why, if we are
        self._standstill = ""  # why our side must not go on
        self._short = ""  # why nobody orders, though it may
        self._stable = stable
        self._bytes = datagram_bytes
        self._left: set[MemberId] = set()  # since the last view in our log
        self._peers: dict[Domain, StationPeer] = {}
        self._linked: dict[StationId, HubReport] = {}  # who wait for the view that they come with
        self._outs: set[StationId] = set()  # without whom the group goes on
        self._out = OutFeed(feed_name(me.host))
        self._in = InFeed(feed_name(me.host), 1)
        self._up: OutFeed | None = None  # ours to the orderer, from when on it may have it
        self._unplaced: dict[tuple[Endpoint, int], RunEntry] = {}  # of our members, oldest first
        self._upped: dict[tuple[Endpoint, int], int] = {}  # those that are in the feed, the oldest: numbers
        self._heard_upto = 0  # of these numbers the orderer has surely heard
        self._queue: deque[RunEntry] = deque()  # at the orderer: to be ordered
        self._fresh: list[tuple[bytes, int]] = []  # ordered in this step
        self._says_have = False
        self._progress = True
        self._ticks = 0
        self._is_timed = False

    # What it is

    @property
    def epoch(self) -> ViewKey | None:
        return self.chain[-1][0] if self.chain else None

    @property
    def orders(self) -> bool:
        return isinstance(self.stage, StationOrders)

    @property
    def orderer(self) -> StationId | None:
        match self.stage:
            case StationOrders():
                return self.me
            case StationFollows(orderer):
                return orderer
        return None

    # From programs

    def submitted(self, now: Instant, event: OrderSubmitted, out: list[Effect]) -> None:
        run = self.gallery.submitted(event)
        if isinstance(run, Ignored):
            out.append(run)
            return
        entry = RunEntry(0, event.endpoint, run)
        if self.orders and not self._peers and not self._queue and self._may_order:
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
        """What is agreed now, and why nothing goes on here, if so."""
        self._standstill = blocked
        self._block(blocked, agreed, out)
        is_new = agreed is not None and (self.agreed is None or agreed.key != self.agreed.key)
        if agreed is not None and is_new and not blocked:  # no views of a side that must not go on
            self._left.update(agreed.view.left)
            self.agreed = agreed
            self._view_changed(now, out)
        self._reset_if_new(now, out)
        self._end(now, out)

    def _block(self, why: str, agreed: AgreedNow | None, out: list[Effect]) -> None:
        """A standstill ends with a view: with the one that they had, if it is still the last; else with that
        which gets its place next."""
        gallery = self.gallery
        why = why or self._short
        if why:
            if why != gallery.blocked:
                gallery.blocked = why
                gallery.give_blocked(why, out)
        elif gallery.blocked:
            gallery.blocked = ""
            if gallery.view is not None and agreed is not None and gallery.view.key == agreed.key:
                gallery.show_again(out)

    def gone(self, me: Endpoint, cause: str, out: list[Effect]) -> None:
        """A member of this host is none any more."""
        member = self.gallery.members.get(me)
        if member is None:
            return
        mine = [key for key in self._unplaced if key[0] == me]
        unsent = [key[1] for key in mine if key not in self._upped]  # these were shown to nobody
        for key in mine:
            del self._unplaced[key]
            self._upped.pop(key, None)
        self._queue = deque([each for each in self._queue if each.sender != me])
        self.gallery.leave(me, unsent[0] if unsent else member.handed + 1, cause, out)

    def _view_changed(self, now: Instant, out: list[Effect]) -> None:
        assert self.agreed is not None
        first = self.agreed.first
        if self.orders and first == self.me:
            self._linked = {id: each for id, each in self._linked.items() if each.view == self.agreed.key}
            self._outs = set()  # who is still in it may have come again
            return  # it gets its place when all new stations have reported
        if isinstance(self.stage, StationFollows) and self.stage.orderer == first:
            return  # its place will come
        self._freeze(out)
        if first == self.me:
            self._gather(now, out)
        else:
            self.stage = StationReports(first)
            self._report(out)

    def _freeze(self, out: list[Effect]) -> None:
        """Nothing of the old epoch counts from here on."""
        self._short = ""
        self._peers = {}
        self._linked = {}
        self._outs = set()
        self._queue.clear()
        self._fresh.clear()
        self._drop_up()
        self._says_have = False
        self._progress = True

    def _drop_up(self) -> None:
        """What our members said is to be sent anew, as far as it is not in the order."""
        self._up, self._upped, self._heard_upto = None, {}, 0

    def _reset_if_new(self, now: Instant, out: list[Effect]) -> None:
        """None of our members is in the order any more, nor will one be by what we have: begin anew."""
        if not self.chain or not isinstance(self.stage, StationFollows | StationReports):
            return
        if any(each.knows for each in self.gallery.members.values()):
            return
        ahead = [each.view.endpoints for each in self.log.entries if isinstance(each, MarkEntry)]
        if any(not here.isdisjoint(self.gallery.members) for here in ahead) or self.agreed is None:
            return
        self._freeze(out)
        self._forget_order()
        self.stage = StationReports(self.agreed.first)
        self._report(out)

    def _forget_order(self) -> None:
        self.chain = ()
        self.log = OrderLog(1)
        self.accept = self.all = 0
        self.marked = None
        self._left.clear()

    # Reports, and a new epoch

    def _own_report(self) -> HubReport:
        assert self.agreed is not None
        waiting = [each.me for each in self.gallery.members.values() if not each.knows]
        return HubReport(
            self.agreed.key, self.me.life, self.chain, self.log.next, self.log.low, tuple(sorted(waiting))
        )

    def _report(self, out: list[Effect]) -> None:
        if isinstance(self.stage, StationReports):
            self._post(self.stage.to.host, self._own_report(), out)

    def _gather(self, now: Instant, out: list[Effect]) -> None:
        self.stage = StationGathers({self.me: self._own_report()})
        self._decide(now, out)
        self._ask(out)

    def _ask(self, out: list[Effect]) -> None:
        if isinstance(self.stage, StationGathers) and self.agreed is not None:
            for each in self.agreed.stations:
                if each not in self.stage.reports:
                    self._post(each.host, HubAsk(self.agreed.key), out)

    def _ask_for_mark(self, out: list[Effect]) -> None:
        """Stations that we do not know, and without which the last agreed view gets no place: one may take us
        for its orderer, though it was out of a view between."""
        if self.agreed is not None and self._lacks_mark and self.agreed.first == self.me:
            for id in self.agreed.stations:
                peer = self._peers.get(id.host)
                known = peer is not None and peer.id == id
                if not known and id not in self._linked and id not in self._outs and id != self.me:
                    self._post(id.host, HubAsk(self.agreed.key), out)

    @property
    def _lacks_mark(self) -> bool:
        key = None if self.marked is None else self.marked.view.key
        return self.agreed is not None and key != self.agreed.key

    def _reported(self, now: Instant, id: StationId, report: HubReport, out: list[Effect]) -> None:
        assert self.agreed is not None
        match self.stage:
            case StationGathers(reports):
                if id in reports and reports[id] != report and self.stage.fetching is not None:
                    return  # the decision is made
                reports[id] = report
                self._decide(now, out)
            case StationOrders():
                self._reported_late(now, id, report, out)
            case _:
                out.append(Ignored("HubReport", "not the first station"))

    def _reported_late(self, now: Instant, id: StationId, report: HubReport, out: list[Effect]) -> None:
        """To an orderer: from a station that has come, that missed its start, or that was elsewhere."""
        assert self.agreed is not None and self.epoch is not None
        peer = self._peers.get(id.host)
        if peer is not None and peer.id == id and report.view == peer.view:
            if not peer.started:  # a new one would lose what it has sent us meanwhile
                self._send_start(peer, out)
        elif report.epoch is None:
            place = self._place_of(report.members)
            if place is None or (peer is not None and place[1] < peer.next and peer.id == id):
                self._linked[id] = report
            else:
                self._start_peer(id, report.view, *place, out)
        elif peer is not None and peer.id == id and (report.epoch == self.epoch or not peer.started):
            if peer.next <= report.next <= self.log.next:
                peer.view = report.view
                self._start_peer(id, report.view, self._out.number_at(report.next), report.next, out)
        elif report.epoch.number > self.epoch.number:
            self._freeze(out)  # another one has ordered meanwhile: all have to report
            self._gather(now, out)
            self._reported(now, id, report, out)
        else:
            self._outs.add(id)
            self._post(id.host, HubOut(self.agreed.key, WENT_ON), out)

    def _place_of(self, members: Iterable[Endpoint]) -> tuple[int, int] | None:
        """Number and position of the first view in our feed with one of these."""
        wanted = frozenset(members)
        for entry in self.log.entries:
            if isinstance(entry, MarkEntry) and not wanted.isdisjoint(entry.view.endpoints):
                number = self._out.number_at(entry.position)
                return None if number <= self._out.forgotten else (number, entry.position)
        return None

    def _decide(self, now: Instant, out: list[Effect]) -> None:
        """All have reported: the longest log of the newest epoch is the group's."""
        assert isinstance(self.stage, StationGathers) and self.agreed is not None
        reports = self.stage.reports
        if any(each not in reports for each in self.agreed.stations):
            return
        ranked = [(id, reports[id]) for id in self.agreed.stations]
        best = longest_log(ranked)
        if best is None:
            self._begin(now, ranked, (), out)
            return
        holder, log = best
        goes_on = [(id, each) for id, each in ranked if each.epoch is None or is_prefix(id, each, log)]
        mine = dict(goes_on).get(self.me)
        if mine is None:
            self.excluded = WENT_ON
            return
        if mine.epoch is None and self.stage.fetching is None:  # we come anew: from where all others are
            self._forget_order()
            self.log = OrderLog(min([each.next for _, each in goes_on if each.epoch is not None]))
        if self.log.next < log.next:
            if self.stage.fetching != holder:
                self.stage = StationGathers(reports, holder, log.next)
                self._in = InFeed(feed_name(holder.host), 1)
                self._fetch(out)
            return
        for id, _ in ranked:
            if id not in dict(goes_on):
                self._outs.add(id)
                self._post(id.host, HubOut(self.agreed.key, WENT_ON), out)
        self._begin(now, goes_on, log.chain, out)

    def _fetch(self, out: list[Effect]) -> None:
        if isinstance(self.stage, StationGathers) and self.stage.fetching is not None and self.agreed:
            self._post(self.stage.fetching.host, HubFetch(self.agreed.key, self.log.next), out)

    def _begin(
        self, now: Instant, reports: list[tuple[StationId, HubReport]], chain: Chain, out: list[Effect]
    ) -> None:
        assert self.agreed is not None
        if self._standstill:
            return
        if self._stable == "majority" and not is_enough(self.marked, reports, self._left):
            self._short = SHORT
            self._block("", self.agreed, out)
            return
        if self._short:
            self._short = ""
            self._block("", self.agreed, out)
        stations = tuple([id for id, _ in reports])
        self.chain = (*chain, (self.agreed.key, stations))[-CHAIN_MAX:]
        if not chain and not self.log.entries:
            self.accept = self.all = self.log.next
        mark = self.log.next
        self.stage = StationOrders(mark)
        self._out = OutFeed(feed_name(self.me.host))
        lowest = min([each.next for id, each in reports if each.epoch is not None], default=mark)
        again = self.log.since(lowest)
        if again:
            self._out.add([encoded for _, encoded in again], [entry.end for entry, _ in again])
        for id, each in reports:
            if id != self.me and each.epoch is not None:
                self._start_peer(id, each.view, self._out.number_at(each.next), each.next, out, send=False)
        self._linked = {id: each for id, each in reports if each.epoch is None and id != self.me}
        out.append(OrderFlushed(self.group, self.agreed.key, mark, len(stations)))
        self._mark(out)
        self._queue.extend(self._unplaced.values())
        for peer in self._peers.values():
            self._send_start(peer, out)
        if again and self._peers:
            for run in list(self._out.store.runs):
                self._cast(run, out)
        self._end(now, out)

    def _start_peer(
        self,
        id: StationId,
        view: ViewKey,
        first: int,
        position: int,
        out: list[Effect],
        *,
        send: bool = True,
    ) -> None:
        peer = self._peers[id.host] = StationPeer(id, view, first, position, InFeed(feed_name(id.host), 1))
        if send:
            self._send_start(peer, out)

    def _send_start(self, peer: StationPeer, out: list[Effect]) -> None:
        mark = self.stage.mark if isinstance(self.stage, StationOrders) else 0
        self._post(peer.id.host, HubStart(peer.view, self.chain, peer.first, peer.position, mark), out)

    def _started(self, now: Instant, start: HubStart, out: list[Effect]) -> None:
        assert isinstance(self.stage, StationReports)
        orderer = self.stage.to
        if not self.chain:
            self.log = OrderLog(start.position)
            self.accept = self.all = start.position
        elif start.position != self.log.next:
            out.append(Ignored("HubStart", "not where our log ends"))
            return
        self.chain = start.chain
        self.stage = StationFollows(orderer, start.mark)
        self._in = InFeed(feed_name(orderer.host), start.first)
        self._drop_up()
        self._says_have = self._progress = True

    # Views get their places

    def _mark(self, out: list[Effect]) -> bool:
        """Give the last agreed view its place, if all new stations in it have reported."""
        agreed = self.agreed
        if not self.orders or agreed is None or agreed.first != self.me or self.gallery.blocked:
            return False
        if not self._lacks_mark:
            return False
        for id in agreed.stations:
            peer = self._peers.get(id.host)
            flows = id == self.me or (peer is not None and peer.id == id)
            if not flows and id not in self._linked and id not in self._outs:
                return False
        before = None if self.marked is None else self.marked.view
        view = shown_view(agreed, before, frozenset(self._left))
        entry = MarkEntry(self.log.next, view, agreed.stations)
        self._left.clear()
        hosts = {id.host: id for id in agreed.stations}
        self._peers = {h: each for h, each in self._peers.items() if hosts.get(h) == each.id}
        number = self._out.high + len(self._fresh) + 1
        self._append(entry, encode_entry(entry), out)
        for id in agreed.stations:
            if (report := self._linked.pop(id, None)) is not None:
                self._start_peer(id, report.view, number, entry.position, out)
        return True

    # The order, at the orderer

    @property
    def _may_order(self) -> bool:
        return (
            not self.gallery.blocked
            and not self.gallery.is_full
            and self._out.store.bytes < WINDOW_FEED_BYTES
            and self.marked is not None
            and not any(peer.full for peer in self._peers.values())
        )

    def _order(self, out: list[Effect]) -> None:
        assert self.marked is not None
        inside = self.marked.view.endpoints
        while self._queue and self._may_order:
            entry = self._queue.popleft()
            if entry.sender in inside:
                self._place(entry, out)
            else:
                out.append(Ignored("HubData", "not a member"))
            if len(self._fresh) >= 64:
                self._send_fresh(out)

    def _place(self, entry: RunEntry, out: list[Effect]) -> None:
        placed = RunEntry(self.log.next, entry.sender, entry.run)
        if not self._peers and self.log.given == self.log.next:
            self.log.next = self.log.given = self.accept = self.all = placed.end
            self._unplaced.pop((entry.sender, entry.run.first), None)
            self.gallery.give_run(placed.sender, placed.run, placed.position, out)
            return
        self._append(placed, encode_entry(placed), out)

    def _append(self, entry: RunEntry | MarkEntry, encoded: bytes, out: list[Effect]) -> None:
        """The next entry of the order, at any station."""
        self.log.append(entry, encoded)
        if isinstance(entry, MarkEntry):
            self.marked = entry
        elif self._unplaced:
            key = (entry.sender, entry.run.first)
            self._unplaced.pop(key, None)
            self._heard_upto = max(self._heard_upto, self._upped.pop(key, 0))
        if self.orders:
            self._fresh.append((encoded, entry.end))
        self._progress = True

    def _advance(self, out: list[Effect]) -> bool:
        """What is stable by what we know of the others?"""
        peers = self._peers
        lowest = min([peer.next for peer in peers.values()], default=self.log.next)
        self.all = max(self.all, lowest)
        stable = lowest
        if self._stable == "sent":
            stable = self.log.next
        elif self._stable == "majority":
            nexts = {self.me.host: self.log.next, **{h: peer.next for h, peer in peers.items()}}
            stable = lowest if self.marked is None else majority_has(self.marked.view, nexts)
        before, self.accept = self.accept, max(self.accept, stable)
        self._out.forget(self.all)
        return self.accept > before

    def _send_fresh(self, out: list[Effect]) -> None:
        fresh, self._fresh = self._fresh, []
        if not self._peers:
            self._out.high += len(fresh)
            self._out.forgotten = self._out.high
            return
        run = self._out.add([encoded for encoded, _ in fresh], [end for _, end in fresh])
        self._cast(run, out)

    def _cast(self, run: Run, out: list[Effect]) -> None:
        assert self.epoch is not None
        for data in self._out.data(run, self._bytes):
            message = HubData(self.epoch, Way.DOWN, self.accept, self.all, data)
            for host in sorted(self._peers):
                self._post(host, message, out)

    def _pulse(self, hosts: Iterable[Domain], out: list[Effect]) -> None:
        assert self.epoch is not None
        pulse = HubPulse(self.epoch, Way.DOWN, self._out.high, self.accept, self.all)
        for host in hosts:
            self._post(host, pulse, out)

    # From other stations

    def heard(self, now: Instant, source: Domain, message: AnyHubMessage, out: list[Effect]) -> None:
        what = type(message).__name__
        if source == self.me.host:
            out.append(Ignored(what, "from ourselves"))
            return
        agreed = self.agreed
        match message:
            case HubData() | HubPulse() | HubNak() | HubHave():
                if not self._in_epoch(source, message):
                    out.append(Ignored(what, "of another epoch"))
                    return
                self._flowed(now, source, message, out)
            case HubReport() | HubAsk() | HubStart() | HubOut() | HubFetch() if (
                agreed is None or message.view != agreed.key
            ):
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
            case HubAsk():
                if not isinstance(self.stage, StationReports):
                    self._freeze(out)
                    self.stage = StationReports(agreed.first)
                self._report(out)
            case HubStart():
                if isinstance(self.stage, StationReports):
                    self._started(now, message, out)
                else:
                    self._says_have = True  # it has not heard of us
            case HubOut(why=why):
                if isinstance(self.stage, StationReports):
                    self.excluded = why
        self._end(now, out)

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
            case HubData(way=Way.UP, data=data) if peer is not None:
                for each in peer.up.take(now, data):
                    entry = decode_entry(each)
                    if not isinstance(entry, RunEntry) or host_of(entry.sender) != source:
                        out.append(Ignored("HubData", "not a run of its members"))
                    else:
                        self._queue.append(entry)
            case HubPulse(way=Way.UP, high=high) if peer is not None:
                peer.up.hear_high(high)
            case HubHave(next=next, accept=accept, full=full) if peer is not None:
                if next <= self.log.next:
                    peer.started = True
                    self._progress = self._progress or next > peer.next
                    peer.next, peer.accept = max(peer.next, next), max(peer.accept, accept)
                    peer.full = full
            case HubNak(way=Way.DOWN, nak=nak) if peer is not None:
                for data in self._out.repairs(now, nak, self._bytes):
                    repair = HubData(message.epoch, Way.DOWN, self.accept, self.all, data)
                    self._post(source, repair, out)
            case HubNak(way=way, nak=nak) if self._up is not None:
                for data in self._up.repairs(now, nak, self._bytes):
                    self._post(source, HubData(message.epoch, way, 0, 0, data), out)
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
                out.append(Ignored(type(message).__name__, "not expected"))

    def _learn(self, accept: int, all: int) -> None:
        """The orderer may know of more than we have."""
        self.accept, self.all = max(self.accept, accept), max(self.all, all)
        self._says_have = True

    def _took(self, entries: list[bytes], out: list[Effect]) -> None:
        for each in entries:
            entry = decode_entry(each)
            if entry is None or entry.position != self.log.next:
                out.append(Ignored("HubData", "not the next entry"))
            else:
                self._append(entry, each, out)

    def _send_log(self, to: Domain, position: int, out: list[Effect]) -> None:
        """To the next orderer: what it lacks. We are frozen, so this is all there is."""
        if not isinstance(self.stage, StationReports) or self.stage.to.host != to or self.agreed is None:
            out.append(Ignored("HubFetch", "not frozen"))
            return
        lacks = self.log.since(position)
        if self._up is None:
            self._up = OutFeed(feed_name(self.me.host))
            if lacks:
                self._up.add([encoded for _, encoded in lacks], [entry.end for entry, _ in lacks])
        for run in self._up.store.runs:
            for data in self._up.data(run, self._bytes):
                self._post(to, HubData(self.agreed.key, Way.FETCH, 0, 0, data), out)

    # At the end of a step

    def _end(self, now: Instant, out: list[Effect]) -> None:
        if self.orders:
            self._mark(out)
            if self._queue and self.marked is not None:
                self._order(out)
            before = self._advance(out)
            if self._fresh:
                self._send_fresh(out)
            if before:
                self._pulse(sorted([h for h, peer in self._peers.items() if peer.accept < self.accept]), out)
        self._give(out)
        if isinstance(self.stage, StationFollows):
            self._hand_up(out)
            if self._says_have:
                self._have(out)
        self._rest(out)

    def _give(self, out: list[Effect]) -> None:
        gallery = self.gallery
        if gallery.blocked:
            return
        for entry in self.log.due(self.accept):
            if isinstance(entry, MarkEntry):
                gallery.give_view(entry.view, entry.position, self.orderer, out)
            else:
                gallery.give_run(entry.sender, entry.run, entry.position, out)
            self.log.given = entry.end
        self.log.forget(self.all)

    def _have(self, out: list[Effect]) -> None:
        assert isinstance(self.stage, StationFollows) and self.epoch is not None
        self._says_have = False
        have = HubHave(self.epoch, self.log.next, self.accept, self.gallery.is_full)
        self._post(self.stage.orderer.host, have, out)

    def _hand_up(self, out: list[Effect]) -> None:
        """Runs of our members to the orderer; not before we know which of them are in the order already."""
        assert isinstance(self.stage, StationFollows) and self.epoch is not None
        if self.log.next <= self.stage.mark or self.gallery.blocked:
            return
        if self._up is None:
            self._up = OutFeed(feed_name(self.me.host))
        self._up.forget(self._heard_upto)
        if len(self._upped) < len(self._unplaced):
            for key, entry in list(islice(self._unplaced.items(), len(self._upped), None)):
                if self._up.store.bytes > WINDOW_FEED_BYTES:
                    break
                run = self._up.add([encode_entry(entry)], [self._up.high + 1])
                for data in self._up.data(run, self._bytes):
                    self._post(self.stage.orderer.host, HubData(self.epoch, Way.UP, 0, 0, data), out)
                self._upped[key] = self._up.high

    # As time passes

    @property
    def _timer(self) -> TimerKey:
        return ("atomic", self.group.name, self.group.scope)

    def _rest(self, out: list[Effect]) -> None:
        """Is there something that must be said again, should it be lost?"""
        waits = self._waits
        if waits and not self._is_timed:
            self._is_timed = True
            if self._progress:
                self._ticks = 0
            out.append(SetTimer(self._timer, min(TICK_MAX_S, TICK_S * (1 << min(self._ticks, 10)))))
        elif not waits and self._is_timed and self._progress:
            self._progress = False  # it fires once in vain: cheaper than to cancel it every time

    @property
    def _waits(self) -> bool:
        match self.stage:
            case StationReports() | StationGathers():
                return True
            case StationFollows():
                return bool(self._unplaced) or self._in.lacks or self.log.given < self.log.next
            case StationOrders():
                return self._lacks_mark or any(
                    not peer.started
                    or peer.next < self.log.next
                    or peer.accept < self.accept
                    or peer.up.lacks
                    or peer.full
                    for peer in self._peers.values()
                )
        return False

    def ticked(self, now: Instant, out: list[Effect]) -> None:
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
            case StationGathers():
                self._ask(out)
                self._decide(now, out)
            case StationFollows(orderer):
                assert self.epoch is not None
                for nak in self._in.asks(now, self.me.host):
                    self._post(orderer.host, HubNak(self.epoch, Way.DOWN, nak), out)
                if self._up is not None and self._unplaced:
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
        self._end(now, out)

    def closed(self, out: list[Effect]) -> None:
        if self._is_timed:
            out.append(CancelTimer(self._timer))

    def _post(self, to: Domain, message: AnyHubMessage, out: list[Effect]) -> None:
        out.append(HubPost(to, self.group, message))
