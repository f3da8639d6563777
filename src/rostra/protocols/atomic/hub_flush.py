"""How an order begins anew when its orderer changes: reports, the decision which log counts, a new epoch.

    freeze ──▶ HubReport ──▶ the first station of the agreed view: all have reported
           ◀── HubStart ──── the longest log of the newest epoch counts; HubFetch, if it is not its own
           ◀── HubOut ────── the group went on without this station

A station that has reported takes nothing more of the old epoch, so the decision is about logs that do not
grow (TA22, A-089).
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from rostra.core.effects import Effect, Ignored, Instant
from rostra.names import Domain, Endpoint, host_of
from rostra.protocols.atomic.config import AGAIN, SHORT_S, WINDOW_FEED_BYTES
from rostra.protocols.atomic.durable import NO_LOG, OTHER_ORDER, is_part, newest_log, waits_for
from rostra.protocols.atomic.events import OrderFlushed
from rostra.protocols.atomic.feeds import InFeed, OutFeed, feed_name
from rostra.protocols.atomic.hub_order import HubOrder
from rostra.protocols.atomic.logs import is_enough, is_of_line, is_prefix, longest_log
from rostra.protocols.atomic.messages import (
    CHAIN_MAX,
    Chain,
    Entry,
    HubAsk,
    HubData,
    HubFetch,
    HubOut,
    HubReport,
    HubStart,
    MarkEntry,
    StationId,
    Way,
)
from rostra.protocols.atomic.requests import WENT_ON
from rostra.protocols.atomic.state import (
    OrderLog,
    StationFollows,
    StationGathers,
    StationOrders,
    StationPeer,
    StationReports,
)
from rostra.protocols.flow.messages import Run

RUN_BYTES: Final = 64 << 10
"""Of what is sent when an epoch begins, in one run."""

SHORT: Final = "less than half of the last ordered view is here: what was stable may be missing"
LOST: Final = "more than half of the last ordered view is lost, and what was stable may be with it"


class HubFlush(HubOrder):
    """A station between two epochs."""

    def _view_changed(self, now: Instant, out: list[Effect]) -> None:
        assert self.agreed is not None
        first = self.agreed.first
        if self.orders and first == self.me:
            self._linked = {id: each for id, each in self._linked.items() if each.view == self.agreed.key}
            self._outs = set()  # who is still in it may have come again
            return  # it gets its place when all new stations have reported
        if isinstance(self.stage, StationFollows) and self.stage.orderer == first:
            return  # its place will come
        if self._has_another_sides_view:
            self.excluded = WENT_ON
            return
        self._freeze(out)
        if first == self.me:
            self._gather(now, out)
        else:
            self.stage = StationReports(first)
            self._report(out)

    @property
    def _has_another_sides_view(self) -> bool:
        """Where every side goes on, our orderer may have placed a view for which our servers had gone another
        way by then: they have a view of that number themselves. Members are not given both."""
        agreed, marked = self.agreed, self.marked
        if agreed is None or agreed.is_exclusive or marked is None:
            return False
        own, placed = agreed.shown or agreed.key, marked.view.key
        return isinstance(self.stage, StationFollows) and own != placed and own.number <= placed.number

    def _freeze(self, out: list[Effect]) -> None:
        """Nothing of the old epoch counts from here on."""
        if self.disk is not None and self.disk.deferred:
            self._take_back()
        before = self.reported_chain
        if self.chain and not before and self.disk is None:
            self._forget_order()
        self.chain = before
        if self._short:
            self._short = ""
            self._block(self._standstill, self.agreed, out)
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

    def _reset_if_new(self, out: list[Effect]) -> None:
        """None of our members is in the order any more, nor will one be by what we have: begin anew."""
        if not self.chain or not isinstance(self.stage, StationFollows | StationReports):
            return
        if isinstance(self.stage, StationFollows) and (self.marked is None or not self.reported_chain):
            return  # started for members of ours: the view that they come with is on its way
        if not self.is_anew or self.leaving or (self.disk is not None and not self._was_left):
            return
        ahead = [each.view.endpoints for each in self.log.entries if isinstance(each, MarkEntry)]
        if any(not here.isdisjoint(self.gallery.members) for here in ahead) or self.agreed is None:
            return
        self._freeze(out)
        if self.disk is None:
            self._forget_order()
        self.stage = StationReports(self.agreed.first)
        self._report(out)

    @property
    def _was_left(self) -> bool:
        """Do we follow an orderer that has placed a view without us, perhaps?"""
        return isinstance(self.stage, StationFollows) and self.log.next > self.stage.mark

    def _forget_order(self) -> None:
        self.chain = self._before = ()
        self.log = OrderLog(1)
        self.accept = self.all = 0
        self.marked = None
        self._moves.clear()
        self._marks.clear()
        self._vows.clear()
        self.leaving.clear()
        self._counts_to = None

    # Reports, and a new epoch

    def _own_report(self) -> HubReport:
        assert self.agreed is not None
        marks = [entry.view for entry, _ in self.log.since(self.log.given) if isinstance(entry, MarkEntry)]
        waiting = [
            each.me
            for each in self.gallery.members.values()
            if not each.knows
            and not any(each.me in view.endpoints and each.knows_by(view) for view in marks)  # to be given
        ]
        report = HubReport(
            *(self.agreed.key, self.me.life, self.reported_chain),
            *(self.log.next, self.log.low, tuple(sorted(waiting))),
        )
        if (disk := self.disk) is None:
            return report
        origin = disk.origin if report.chain else None
        return replace(
            report,
            origin=origin,
            accept=self.accept,
            anew=self.is_anew,
            left=disk.left,
            founds=disk.founds,
            since=() if report.chain else disk.since,
        )

    def _report(self, out: list[Effect]) -> None:
        if isinstance(self.stage, StationReports):
            self._vow()
            self._post(self.stage.to.host, self._own_report(), out)

    def _vow(self) -> None:
        if self.disk is not None and self.agreed is not None:
            self.disk.vow(self.agreed.key)

    def _gather(self, now: Instant, out: list[Effect]) -> None:
        self._vow()
        self.stage = StationGathers({**self._reports_before(), self.me: self._own_report()})
        self._decide(now, out)
        self._ask(out)

    def _is_astray(self, chain: Chain) -> bool:
        """Did an epoch of this chain count on our log as we reported it early, and has it grown since? It was
        agreed on a side that we did not see, and nobody released us."""
        own = [key for key, _ in self.chain]
        later = [key for key, _ in chain if key not in own]
        return any(self.log.next > self._vows[key] for key in later if key in self._vows)

    def _reports_before(self) -> dict[StationId, HubReport]:
        """What others have reported for this view already."""
        return {}

    def _ask(self, out: list[Effect]) -> None:
        if isinstance(self.stage, StationGathers) and self.agreed is not None:
            for each in self.agreed.stations:
                if each not in self.stage.reports:
                    self._post(each.host, HubAsk(self.agreed.key), out)
                elif self._short and self.disk is not None and each != self.me:
                    self._post(each.host, HubAsk(self.agreed.key, self._short), out)

    def _ask_for_mark(self, out: list[Effect]) -> None:
        """Stations that we do not know, and without which the last agreed view gets no place: one may take us
        for its orderer, though it was out of a view between."""
        if self.agreed is not None and self._lacks_mark and self.agreed.first == self.me:
            for id in self.agreed.stations:
                peer = self._peers.get(id.host)
                known = peer is not None and peer.id == id
                if not known and id not in self._linked and id not in self._outs and id != self.me:
                    self._post(id.host, HubAsk(self.agreed.key), out)

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
            if self._is_frozen_again(peer) and peer.next <= report.next <= self.log.next:
                self._start_peer(id, report.view, self._out.number_at(report.next), report.next, out)
            elif not peer.started:  # a new one would lose what it has sent us meanwhile
                self._send_start(peer, out)
        elif self.disk is not None and self.agreed.key != self.epoch and id not in self._outs:
            self._freeze(out)  # what we keep on disk is to be with it as well: all begin anew, from there
            self._gather(now, out)
            self._reported(now, id, report, out)
        elif self.disk is not None:
            self._outs.add(id)
            self._post(id.host, HubOut(self.agreed.key, WENT_ON), out)
        elif report.epoch is None:
            place = self._place_of(report.members)
            if place is None or (peer is not None and place[1] < peer.next and peer.id == id):
                self._linked[id] = report
            else:
                self._start_peer(id, report.view, *place, out)
        elif (
            peer is not None
            and peer.id == id
            and (report.epoch == self.epoch or not peer.started or is_prefix(id, report, self._own_report()))
        ):
            if peer.next <= report.next <= self.log.next:
                peer.view = report.view
                self._start_peer(id, report.view, self._out.number_at(report.next), report.next, out)
        elif report.epoch.number > self.epoch.number and is_of_line(
            self.me, self._own_report(), report, exclusive=self.agreed.is_exclusive
        ):
            self._freeze(out)  # another one has ordered meanwhile: all have to report
            self._gather(now, out)
            self._reported(now, id, report, out)
        else:
            self._outs.add(id)
            self._post(id.host, HubOut(self.agreed.key, WENT_ON), out)

    def _is_frozen_again(self, peer: StationPeer) -> bool:
        """It has begun, and reports all the same: a late copy, or a late question of ours has stopped it.
        Then it reports until it is started."""
        if peer.started:
            peer.reports += 1
        return peer.reports >= AGAIN

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
        if self.disk is not None:
            self._decide_on_disk(now, ranked, out)
            return
        best = longest_log(ranked, exclusive=self.agreed.is_exclusive)
        if best is None:
            self._begin(now, ranked, (), out)
            return
        holder, log = best
        if self._is_astray(log.chain):
            self.excluded = WENT_ON
            return
        goes_on = [(id, each) for id, each in ranked if each.epoch is None or is_prefix(id, each, log)]
        mine = dict(goes_on).get(self.me)
        if mine is None or (mine.epoch is not None and mine.next < log.low):
            self.excluded = WENT_ON
            return
        if mine.epoch is None and self.stage.fetching is None:  # we come anew: from where all others are
            self._forget_order()
            ends = [each.next for _, each in goes_on if each.epoch is not None]
            self.log = OrderLog(min([end for end in ends if end >= log.low], default=log.next))
        if self._lacks(holder, log, out):
            return
        goes_on = [(id, each) for id, each in goes_on if each.epoch is None or self._can_follow(id, each)]
        if self.me not in dict(goes_on):
            self.excluded = WENT_ON
            return
        for id, _ in ranked:
            if id not in dict(goes_on):
                self._outs.add(id)
                self._post(id.host, HubOut(self.agreed.key, WENT_ON), out)
        self._begin(now, goes_on, log.chain, out)

    def _lacks(self, holder: StationId, log: HubReport, out: list[Effect]) -> bool:
        """Is something of the longest log not here? Then it is fetched."""
        assert isinstance(self.stage, StationGathers)
        if self.log.next < log.next and self.stage.fetching != holder:
            self.stage = StationGathers(self.stage.reports, holder, log.next)
            self._in = InFeed(feed_name(holder.host), 1)
            self._fetch(out)
        return self.log.next < log.next

    def _decide_on_disk(
        self, now: Instant, ranked: list[tuple[StationId, HubReport]], out: list[Effect]
    ) -> None:
        """The same, of logs that may be all that is left of a group. A station none of whose members was
        given anything is not out if its log is old: it gets all that is kept."""
        assert isinstance(self.stage, StationGathers) and self.agreed is not None and self.disk is not None
        best = newest_log(ranked)
        if best is None:
            if self.disk.founds or any(each.founds for _, each in ranked):
                self.disk.origin = self.agreed.key
                self._begin(now, ranked, (), out)
            else:
                self._stand(NO_LOG, out)
            return
        holder, log = best
        outs = {
            id: OTHER_ORDER if each.chain and each.origin != log.origin else WENT_ON
            for id, each in ranked
            if (each.chain and each.origin != log.origin)
            or (not each.anew and not is_part(id.host, each, log))
        }
        if self.me in outs:
            self.excluded = outs[self.me]
            return
        if not is_part(self.me.host, self.stage.reports[self.me], log) and self.stage.fetching is None:
            self._start_over(log.low)
        self.disk.origin = log.origin
        if self._lacks(holder, log, out):
            return
        self.disk.claims = log.chain  # it is the same as ours now
        self._all_here()
        lost = [id for id, each in ranked if not each.anew and id not in outs]
        outs.update({id: WENT_ON for id in lost if not self._can_follow(id, dict(ranked)[id])})
        if self.me in outs:
            self.excluded = outs[self.me]
            return
        why = NO_LOG if self.marked is None else waits_for(self.marked, ranked, log)
        if why:  # a log without a view is none
            self._stand(why, out)
            return
        self._stand("", out)
        if self._standstill:
            return
        stable = max([each.accept for id, each in ranked if id not in outs])
        self.accept = max(self.accept, min(stable, self.log.next))  # what is to come is not
        for id, why in outs.items():
            self._outs.add(id)
            self._post(id.host, HubOut(self.agreed.key, why), out)
        self._begin(now, [(id, each) for id, each in ranked if id not in outs], log.chain, out)

    def _stand(self, why: str, out: list[Effect]) -> None:
        """Nothing goes on here until others are back."""
        if why != self._short:
            self._short = why
            self._block(self._standstill, self.agreed, out)

    def _can_follow(self, id: StationId, report: HubReport) -> bool:
        """Was it in every view that has a place behind its log's end, and do we hold all from there on?"""
        lacks = [entry for entry, _ in self.log.since(report.next)]
        return report.next >= self.log.low and all(
            id in entry.stations for entry in lacks if isinstance(entry, MarkEntry)
        )

    def _fall_short(
        self, now: Instant, reports: list[tuple[StationId, HubReport]], out: list[Effect]
    ) -> None:
        """What was stable may be missing here. Those who have it may be back soon; after a while they are
        taken for lost: all stations of this order are sent `HubOut`, and a new order begins."""
        assert self.agreed is not None
        if not self._short:
            self._short, self._short_since = SHORT, now
            self._block("", self.agreed, out)
        elif now - self._short_since >= SHORT_S:
            self.excluded = LOST
            for id, each in reports:
                if id != self.me and each.epoch is not None:
                    self._post(id.host, HubOut(self.agreed.key, LOST), out)

    def _fetch(self, out: list[Effect]) -> None:
        if isinstance(self.stage, StationGathers) and self.stage.fetching is not None and self.agreed:
            self._post(self.stage.fetching.host, HubFetch(self.agreed.key, self.log.next), out)

    def _begin(
        self, now: Instant, reports: list[tuple[StationId, HubReport]], chain: Chain, out: list[Effect]
    ) -> None:
        assert self.agreed is not None
        if self._standstill:
            return
        if self._stable == "majority" and not is_enough(self.marked, reports, self._moves.left):
            self._fall_short(now, reports, out)
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
        starts = {id: each.next for id, each in reports if each.epoch is not None}
        anew: set[StationId] = set()
        if self.disk is not None:
            self.disk.left = self.disk.founds = False
            own = replace(self._own_report(), chain=chain)
            anew = {id for id, each in reports if id != self.me and not is_part(id.host, each, own)}
            starts.update(dict.fromkeys(anew, self.log.low))
            starts.pop(self.me, None)
        self._were_here = frozenset()
        if self.disk is None:
            old = {id.host: frozenset(each.members) for id, each in reports if each.epoch is not None}
            listed = [
                each.id.endpoint for each in self.agreed.view.members if host_of(each.id.endpoint) in old
            ]
            self._were_here = frozenset([each for each in listed if each not in old[host_of(each)]])
        lowest = min(starts.values(), default=mark)
        if self.disk is not None:
            self.all = min(self.all, lowest)  # there are stations now that do not have all that is kept
        again = self.log.since(lowest)
        _add(self._out, again)
        for id, each in reports:
            if id != self.me and id in starts:
                place, is_new = starts[id], id in anew
                number = self._out.number_at(place)
                self._start_peer(id, each.view, number, place, out, send=False, anew=is_new)
        self._linked = {id: each for id, each in reports if id not in starts and id != self.me}
        shown = self.agreed.shown or self.agreed.key
        out.append(OrderFlushed(self.group, shown, mark, len(stations)))
        if not self._mark(out, begins=self.disk is not None) and self.disk is not None:
            self._mark_again(begins=True)
        self._queue.extend(self._unplaced.values())
        for peer in self._peers.values():
            self._send_start(peer, out)
        if again and self._peers:
            for run in _first_of(self._out, 0):
                self._cast(run, out)
        self._end(now, out)

    def _started(self, start: HubStart, out: list[Effect]) -> None:
        assert isinstance(self.stage, StationReports)
        orderer = self.stage.to
        if self.disk is not None:
            if start.anew:
                self._start_over(start.position)
            self.disk.origin, self.disk.left, self.disk.founds = start.origin, False, False
            self._stand("", out)
        if self._is_astray(start.chain):
            self.excluded = WENT_ON
            return
        self._before = self.chain
        if not self.chain and self.disk is None:
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

    def _send_log(self, to: Domain, position: int, out: list[Effect]) -> None:
        """To the next orderer: what it lacks. We are frozen, so this is all there is."""
        if not isinstance(self.stage, StationReports) or self.stage.to.host != to or self.agreed is None:
            out.append(Ignored("HubFetch", "not frozen"))
            return
        if self._up is None:
            self._up = OutFeed(feed_name(self.me.host))
            _add(self._up, self.log.since(position))
        for run in _first_of(self._up, self._up.number_at(position)):
            for data in self._up.data(run, self._bytes):
                self._post(to, HubData(self.agreed.key, Way.FETCH, 0, 0, data), out)


def _add(feed: OutFeed, entries: list[tuple[Entry, bytes]]) -> None:
    """In runs that can be sent one by one."""
    some: list[tuple[Entry, bytes]] = []
    size = 0
    for each in entries:
        if some and size + len(each[1]) > RUN_BYTES:
            feed.add([encoded for _, encoded in some], [entry.end for entry, _ in some])
            some, size = [], 0
        some.append(each)
        size += len(each[1])
    if some:
        feed.add([encoded for _, encoded in some], [entry.end for entry, _ in some])


def _first_of(feed: OutFeed, number: int) -> list[Run]:
    """What is sent at once, from this number on. The rest is asked for."""
    found: list[Run] = []
    size = 0
    for run in feed.store.runs:
        if run.end > number and size < WINDOW_FEED_BYTES:
            found.append(run)
            size += len(run.block)
    return found
