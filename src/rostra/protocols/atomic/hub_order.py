"""One station's part of the order: which entries have a position, are stable, are delivered to members.

    runs of members ──▶ queue ──▶ the next place ──▶ log ── stable? ──▶ given to our members
    an agreed view ──▶ its place, when each new station in it has reported ──┘

All of it is at every station; only the orderer gives places. How an order begins anew is in `hub_flush.py`,
what comes from outside in `hub.py`, where the picture of the whole is.
"""

from collections import deque
from collections.abc import Iterable
from itertools import islice

from msgspec.structs import replace

from rostra.core.effects import Effect, Ignored, Instant, SetTimer, TimerKey
from rostra.core.logs import LogBatch
from rostra.names import Domain, Endpoint, Group, host_of
from rostra.protocols.atomic.config import LEAVE_S, TICK_MAX_S, TICK_S, WINDOW_FEED_BYTES
from rostra.protocols.atomic.durable import (
    NO_LOG,
    OTHER_ORDER,
    REMARK_BYTES,
    OrderDisk,
    OrderHead,
    stable_upto,
)
from rostra.protocols.atomic.events import HubPost
from rostra.protocols.atomic.feeds import InFeed, OutFeed, feed_name
from rostra.protocols.atomic.logs import MovesBetween, majority_upto, shown_view
from rostra.protocols.atomic.messages import (
    AnyHubMessage,
    Chain,
    HubData,
    HubHave,
    HubPulse,
    HubReport,
    HubStart,
    MarkEntry,
    RunEntry,
    ShownView,
    StationId,
    ViewKey,
    Way,
    encode_entry,
)
from rostra.protocols.atomic.state import (
    AgreedNow,
    EarlyReports,
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


class HubOrder:
    """What a station has of the order, and what it does at the end of every step."""

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
        self._short = ""  # why no station orders, although the group's rule holds
        self._short_since: Instant = 0.0
        self._stable = stable
        self.disk = OrderDisk() if stable == "disk" else None
        self._aside: tuple[OrderDisk, OrderLog, MarkEntry | None, int] | None = None
        self._before: Chain = ()  # of the epoch before, until our log reaches the place where this one began
        self._bytes = datagram_bytes
        self._moves = MovesBetween()  # since the last view in our log
        self._promises: dict[ViewKey, StationId] = {}  # views for which we reported early, and to whom
        self._vows: dict[ViewKey, int] = {}  # and where our log ended then, until we are released
        self._proposed: dict[ViewKey, StationId] = {}  # views that our server told us of, and their first
        self.early_flush = False  # do we take part in that?
        self._early: EarlyReports | None = None
        self._void: tuple[ViewKey, ...] = ()  # views that we gave up
        self._marks: deque[MarkEntry] = deque()  # views that are not stable, as far as we know
        self.leaving: set[Endpoint] = set()  # of our members, until a view without them is in our log
        self._left_in: ViewKey | None = None  # the last agreed view that we know with one of these
        self._leaves_since: Instant = 0.0
        self._counts_to: int | None = None  # what is behind this does not count as held here meanwhile
        self.disturbed = False  # there is a view that we cannot follow, as our members have left
        self._peers: dict[Domain, StationPeer] = {}
        self._were_here: frozenset[Endpoint] = frozenset()  # of the first view, if we have none before it
        self._linked: dict[StationId, HubReport] = {}  # who wait for the view that they come with
        self._outs: set[StationId] = set()  # without whom the group goes on
        self._out = OutFeed(feed_name(me.host))
        self._in = InFeed(feed_name(me.host), 1)
        self._up: OutFeed | None = None  # ours to the orderer, from when on it may have it
        self._unplaced: dict[tuple[Endpoint, int], RunEntry] = {}  # of our members, oldest first
        self._upped: dict[tuple[Endpoint, int], int] = {}  # those that are in the feed, the oldest: numbers
        self._heard_upto = 0  # of these numbers the orderer has surely heard
        self._queue: deque[RunEntry] = deque()  # at the orderer: to be ordered
        self._stays: dict[Endpoint, int] = {}  # the membership of each that is in the agreed view
        self._fresh: list[tuple[bytes, int]] = []  # ordered in this step
        self._says_have = False
        self._asked_again = 0  # to report, since we heard anything else of our orderer
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

    def _block(self, why: str, agreed: AgreedNow | None, out: list[Effect]) -> None:
        shown = None if agreed is None else agreed.shown or agreed.key
        self.gallery.stand(why or self._short, shown, out, all=self.disk is not None)

    @property
    def _lacks_mark(self) -> bool:
        agreed, marked = self.agreed, self.marked
        if agreed is None or marked is None:
            return agreed is not None
        if self.disk is not None and marked.view.fence != agreed.fence:
            return True  # numbers of views begin anew when all are gone
        return marked.view.key != (agreed.shown or agreed.key)

    def _start_peer(
        self,
        id: StationId,
        view: ViewKey,
        first: int,
        position: int,
        out: list[Effect],
        *,
        send: bool = True,
        anew: bool = False,
    ) -> None:
        up = InFeed(feed_name(id.host), 1)
        peer = self._peers[id.host] = StationPeer(id, view, first, position, up, anew)
        if send:
            self._send_start(peer, out)

    def _send_start(self, peer: StationPeer, out: list[Effect]) -> None:
        mark = self.stage.mark if isinstance(self.stage, StationOrders) else 0
        origin = None if self.disk is None else self.disk.origin
        start = HubStart(peer.view, self.chain, peer.first, peer.position, mark, peer.anew, origin)
        self._post(peer.id.host, start, out)

    # Views get their places

    def _mark(self, out: list[Effect], *, begins: bool = False) -> bool:
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
        view = shown_view(agreed, before, self._moves)
        if before is None and self._were_here:
            view = replace(view, joined=tuple([each for each in view.joined if each not in self._were_here]))
        entry = MarkEntry(self.log.next, view, agreed.stations, begins)
        hosts = {id.host: id for id in agreed.stations}
        self._peers = {h: each for h, each in self._peers.items() if hosts.get(h) == each.id}
        number = self._out.high + len(self._fresh) + 1
        self._append(entry, encode_entry(entry))
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
            if (peer := self._peers.get(host_of(entry.sender))) is not None:
                peer.waiting = max(0, peer.waiting - len(entry.run.block))
            stay = self._stays.get(entry.sender, entry.position)
            if entry.sender in inside and entry.position in (0, stay):  # 0: of an agent that does not say
                self._place(entry, out)
            else:  # it has left, though it may have come again
                out.append(Ignored("HubData", "not a member"))
            if len(self._fresh) >= 64:
                self._send_fresh(out)

    def _place(self, entry: RunEntry, out: list[Effect]) -> None:
        placed = RunEntry(self.log.next, entry.sender, entry.run)
        if not self._peers and self.log.given == self.log.next and self.disk is None:
            self.log.next = self.log.given = self.accept = self.all = placed.end
            self._unplaced.pop((entry.sender, entry.run.first), None)
            self.gallery.give_run(placed.sender, placed.run, placed.position, out)
            return
        self._append(placed, encode_entry(placed))

    def _append(self, entry: RunEntry | MarkEntry, encoded: bytes) -> None:
        """The next entry of the order, at any station."""
        self.log.append(entry, encoded)
        if self.disk is not None:
            self.disk.appended(entry, encoded)
            if isinstance(entry, MarkEntry):
                self.disk.reached(entry, self._chain_ahead)
                if isinstance(self.stage, StationFollows) and self.disk.claims == self.chain:
                    self._all_here()
        if isinstance(entry, MarkEntry):
            self.marked = entry
            self._moves.placed(entry.view.key)
            if self._stable == "majority":
                self._marks.append(entry)
                self._have_left(entry)
        elif self._unplaced:
            key = (entry.sender, entry.run.first)
            self._unplaced.pop(key, None)
            self._heard_upto = max(self._heard_upto, self._upped.pop(key, 0))
        if self.orders:
            self._fresh.append((encoded, entry.end))
        self._progress = True

    def _advance(self) -> bool:
        """What is stable by what we know of the others?"""
        peers = self._peers
        lowest = min([peer.next for peer in peers.values()], default=self.log.next)
        self.all = max(self.all, lowest)
        stable = lowest
        if self._stable == "sent":
            stable = self.log.next
        elif self._stable == "majority":
            nexts = {self.me.host: self._counted, **{h: peer.counts for h, peer in peers.items()}}
            while self._marks and self._marks[0].end <= self.accept:
                self._marks.popleft()
            if self.marked is not None:
                stable = majority_upto(self.marked.view, self._marks, nexts, self.accept)
        elif self.disk is not None:
            nexts = {self.me.host: self.log.next, **{h: peer.next for h, peer in peers.items()}}
            stable = self.accept
            if self.disk.recorded:
                stable = stable_upto(*self._marks_since(self.accept), nexts, self.accept)
        before, self.accept = self.accept, max(self.accept, stable)
        self._out.forget(self.all)
        return self.accept > before

    # Members that leave, where a majority is enough

    def leaves(self, now: Instant, me: Endpoint, out: list[Effect]) -> None:
        """One of our members has left, and the servers are not asked yet: who left does not count when the
        others go on. What it may have counted for has to be with all of them before, and is no more."""
        if not self.leaving:
            self._leaves_since = now
        if self._counts_to is None and self.agreed is not None:  # else it counted for nothing
            self._counts_to = self.log.next
        self.leaving.add(me)
        self._left_in = None if self.agreed is None else self.agreed.key
        self._ask_all(out)

    @property
    def is_covered(self) -> bool:
        """Do all others have what our members that leave counted for?"""
        return not self.chain or self._counts_to is None or self.all >= self._counts_to

    def is_late(self, now: Instant) -> bool:
        """It will not be known, perhaps."""
        return self.disturbed or now - self._leaves_since >= LEAVE_S

    def _ask_all(self, out: list[Effect]) -> None:
        """The orderer answers with what all have."""
        if isinstance(self.stage, StationFollows) and self.epoch is not None and not self.is_covered:
            high = 0 if self._up is None else self._up.high
            self._post(self.stage.orderer.host, HubPulse(self.epoch, Way.UP, high, 0, 0), out)

    def _have_left(self, mark: MarkEntry) -> None:
        """A view without them: from here on we count for those who are in it."""
        if not self.leaving or (self._left_in is not None and mark.view.key < self._left_in):
            return
        here = mark.view.endpoints
        again = frozenset() if self._lacks_mark else frozenset(self.gallery.members)
        self.leaving = {each for each in self.leaving if each in here and each not in again}
        if not self.leaving:
            self._counts_to = None
            self._says_have = True

    @property
    def _counted(self) -> int:
        return self.log.next if self._counts_to is None else min(self.log.next, self._counts_to)

    def _marks_since(self, position: int) -> tuple[ShownView | None, Iterable[MarkEntry]]:
        """The view in force at this position, and those with later places."""
        assert self.disk is not None
        later: deque[MarkEntry] = deque()
        for each in reversed(self.disk.marks):
            if each.end <= position:
                return each.view, later
            later.appendleft(each)
        return None, later

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

    # At the end of a step

    def _end(self, now: Instant, out: list[Effect]) -> None:
        if self.orders:
            is_marked = self._mark(out)
            if self.disk is not None and not is_marked and self.disk.since_mark > REMARK_BYTES:
                self._mark_again()
            if self._queue and self.marked is not None:
                self._order(out)
            before = self._advance()
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
                if self.disk is not None and self._passes(entry, out):
                    continue
                gallery.give_view(entry.view, entry.position, self.orderer, out)
            else:
                gallery.give_run(entry.sender, entry.run, entry.position, out)
            self.log.given = entry.end
        if self.disk is None:
            self.log.forget(self.all)
        else:
            self._trim()

    # On disk

    def _passes(self, mark: MarkEntry, out: list[Effect]) -> bool:
        """A view without members of ours is not for us. One with none that was in the group before comes
        after all that is kept: there is no other member that has it."""
        assert self.disk is not None
        new = [each.me for each in self.gallery.members.values() if each.me in mark.view.endpoints]
        shown = self.gallery.view
        is_again = shown is not None and (shown.key, shown.fence) == (mark.view.key, mark.view.fence)
        if is_again or (not new and self.is_anew):
            self.log.given = mark.end
            return True
        if len(mark.view.joined) == len(mark.view.members):
            for entry in self.log.entries:
                if entry.position >= mark.position:
                    break
                if isinstance(entry, RunEntry):
                    self.gallery.replay(new, entry.sender, entry.run, entry.position, out)
        return False

    @property
    def is_anew(self) -> bool:
        """Was no member of this host given anything yet?"""
        return not any(each.knows for each in self.gallery.members.values())

    def _trim(self) -> None:
        """What no station needs for a next life of the group."""
        disk, log = self.disk, self.log
        assert disk is not None
        cut = disk.cut_at(min(self.accept, self.all, log.given))
        while log.low < cut:
            log.drop()

    def _start_over(self, position: int) -> None:
        """All that is kept of the order comes to us, from this position on. Until it is here what we had
        counts: it may be all that is left of something that was acknowledged."""
        assert self.disk is not None
        if self.disk.claims:
            self._aside = self.disk, self.log, self.marked, self.accept
        self.disk = self.disk.next()
        self.log, self.marked = OrderLog(position), None
        self.accept = self.all = 0
        self.chain = ()

    def _all_here(self) -> None:
        assert self.disk is not None
        self.disk.deferred, self._aside = False, None

    def _take_back(self) -> None:
        """It did not come."""
        assert self.disk is not None
        coming = self.disk
        if self._aside is not None:
            self.disk, self.log, self.marked, self.accept = self._aside
        else:
            self.disk, self.log, self.marked, self.accept = self.disk.next(), OrderLog(1), None, 0
            self.disk.wiped = self.disk.deferred = False
        self._aside, self.all = None, 0
        self.disk.recorded = coming.recorded
        if coming.recorded and self.disk.origin not in (None, coming.origin):
            self.excluded = OTHER_ORDER

    def depart(self) -> None:
        """It ends: the others count this host among those that left."""
        assert self.disk is not None
        if self.disk.deferred:
            self._take_back()
        self.disk.left = True

    def forget(self, position: int) -> None:
        """Members say that they can go on from here, whatever is lost."""
        if self.disk is not None:
            self.disk.managed = True
            self.disk.needed = max(self.disk.needed, position)
            self._trim()

    def _mark_again(self, *, begins: bool = False) -> None:
        """The view that stands, so that what was before it can be forgotten, or that an epoch begins."""
        assert self.marked is not None
        view = replace(self.marked.view, joined=(), left=(), failed=(), parts=())
        entry = MarkEntry(self.log.next, view, self.marked.stations, begins)
        self._append(entry, encode_entry(entry))

    def unwritten(self) -> LogBatch | None:
        """What is to be on disk before anything that was done in this step is seen."""
        disk, marked = self.disk, self.marked
        if disk is None or disk.deferred or disk.failed:
            return None
        chain = self.reported_chain
        before = 0 if disk.head is None else disk.head.accept
        head = OrderHead(
            chain,
            disk.origin if chain else None,
            marked.end if marked is not None and marked.end <= self.accept else before,
            disk.left,
            disk.managed,
            () if chain else disk.since,
        )
        return disk.batch(str(self.group), head)

    @property
    def _lacks_record(self) -> bool:
        return self.disk is not None and not self.disk.recorded

    @property
    def lacks_log(self) -> bool:
        return self._short == NO_LOG

    @property
    def _chain_ahead(self) -> Chain:
        """The epochs of the log that ours follows."""
        stage = self.stage
        if isinstance(stage, StationGathers) and stage.fetching is not None:
            return stage.reports[stage.fetching].chain
        return self.chain

    @property
    def reported_chain(self) -> Chain:
        """An epoch counts when our log has reached the place where it began: before, it may lack what others
        have of the epoch before."""
        stage = self.stage
        if self.disk is not None:
            return self.disk.claims
        if isinstance(stage, StationFollows) and self.log.next <= stage.mark:
            return self._before
        return self.chain

    def _have(self, out: list[Effect]) -> None:
        assert isinstance(self.stage, StationFollows) and self.epoch is not None
        self._says_have = False
        on_disk = self.log.low if self.disk is not None and self.disk.deferred else self.log.next
        next = on_disk if self._counts_to is None else min(on_disk, self._counts_to)
        have = HubHave(self.epoch, next, self.accept, self.gallery.is_full)
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
        """Is there anything to retransmit, in case it was lost?"""
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
                waits = self._unplaced or self.leaving or self._promises
                return bool(waits) or self._in.lacks or self.log.given < self.log.next
            case StationOrders():
                return (
                    self._lacks_mark
                    or self._lacks_record
                    or bool(self.leaving)
                    or any(
                        not peer.started
                        or peer.next < self.log.next
                        or peer.accept < self.accept
                        or peer.up.lacks
                        or peer.full
                        for peer in self._peers.values()
                    )
                )
        return False

    def _post(self, to: Domain, message: AnyHubMessage, out: list[Effect]) -> None:
        out.append(HubPost(to, self.group, message))
