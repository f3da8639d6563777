"""Receiver side, for each LAN: do we know the first sequence number that each of its senders owes us? If not,
our delegate is asked (the LAN machine, table 4.2).

    none ── join notice, its delegate unknown ──▶ 1 WAIT_DELEGATE ── delegate joins: CutRequest ──▶ 2 CUT
      │                                                ▲   delegate leaves      ▲                   │
      │ listed in a SyncReply, complete                └───────────────────────┼───────────────────┤
      └───────────────────────────────────────────────────────────────────▶ 3 ACTIVE ◀── CutReply ──┘

    any ── a domain notice that covers it ──▶ none

The **start** of a sender is the first sequence number that we are owed. A **cut** lists the senders of a LAN
with their starts, as its delegate gives them. In state 3 a join notice (cause `join`) is enough: its number
is the start, because both delegates pin from it (X-015, X-028). In 1 and 2, and for members that come by a
merge or a snapshot, the number in the notice is old, and we ask our own delegate for the cut (TX-8).

**Where we differ from the paper: no replay of notices.** The tables keep notices that cannot be handled yet,
and replay them later. The result of a replay is a list of members with stamps, so that is what we keep: the
present view, and which of its members came by a join notice (`fresh`). The cut is compared with it (TX-2,
TX-6):

    in the cut, noticed with the same stamp      start as in the cut
    in the cut, a later leave is known           it has left: nothing
    in the cut, not noticed                      semi-active until the notice comes
    noticed, not in the cut, newer than it       fresh: start as in the notice; else: ask
    noticed, not in the cut, older than it       most likely it has left; announced, and asked for again
"""

from enum import IntEnum
from typing import Final, assert_never

from rostra.core.effects import Instant
from rostra.groups.attributes import FifoAttributes
from rostra.groups.members import Cause, Member, Stamp
from rostra.names import Domain, Endpoint, host_of, parent
from rostra.protocols.fifo.context import delegate_of, lan_of
from rostra.protocols.fifo.messages import Cut, CutEntry, CutReply, CutRequest, attributes_of
from rostra.protocols.fifo.pieces import pieces_of
from rostra.protocols.fifo.readers import HostContext
from rostra.protocols.fifo.sender import SenderActive, SenderAwaitingEnd, SenderDraining, SenderSemi
from rostra.protocols.fifo.senders import Senders
from rostra.protocols.flow.messages import Epoch
from rostra.protocols.relaxed.view import GroupView

ASKED_AT_ONCE: Final = 400
"""Members that one `CutRequest` names; another one names the rest."""


class LanPhase(IntEnum):
    WAIT_DELEGATE = 1
    CUT = 2
    ACTIVE = 3


class Lan:
    """One LAN."""

    __slots__ = ("epoch", "floors", "name", "phase", "pieces", "req")

    def __init__(self, name: Domain) -> None:
        self.name = name
        self.phase = LanPhase.WAIT_DELEGATE
        self.epoch: Epoch | None = None  # of its delegate, as noticed
        self.floors: dict[Domain, Stamp] = {}
        self.req: int | None = None
        self.pieces: list[CutEntry] = []  # of a reply that is not complete yet


class Lans:
    def __init__(self, context: HostContext, view: GroupView, senders: Senders) -> None:
        self._context = context
        self._view = view
        self._senders = senders
        self.machines: dict[Domain, Lan] = {}
        self.delegates: dict[Domain, set[Epoch]] = {}  # as noticed
        self.speakers: dict[Endpoint, Member] = {}  # the senders among the members
        self.fresh: dict[Endpoint, Stamp] = {}  # in the view by a join notice, and not handled yet
        self.gone: dict[Endpoint, tuple[Stamp, Instant]] = {}  # left; remembered until
        self.epoch: Epoch | None = None  # of the own delegate that our numbers are from
        self._req = 0
        # Of the notice, or the cuts, that are being taken in:
        self._risen: dict[Domain, Stamp] = {}  # by host: the highest stamp of those who joined
        self._unknown: set[Domain] = set()  # LANs with members whose numbers have to be asked for

    def remember_gone(self, who: Endpoint, stamp: Stamp, until: Instant) -> None:
        self.gone.pop(who, None)
        self.gone[who] = (stamp, until)
        self.forget_gone()

    def forget_gone(self) -> None:
        """Forget members that left long ago: the oldest come first."""
        while self.gone and self.gone[first := next(iter(self.gone))][1] <= self._context.now:
            del self.gone[first]

    def new_req(self) -> int:
        self._req += 1
        return self._req

    def delegate(self, lan: Domain) -> Epoch | None:
        """The epoch of that LAN's delegate: the highest one noticed (TX-10)."""
        return max(self.delegates.get(lan, ()), default=None)

    # Notices, in group state ACTIVE

    def joined(self, member: Member, attributes: FifoAttributes, cause: Cause | None) -> None:
        """A sender joined, or is back; `joined_all` follows when the whole notice is handled."""
        me, senders = member.endpoint, self._senders
        lan = self.machine(lan_of(me))
        if me in senders.announced:
            senders.forget(me)
        running = senders.running.get(me)
        if running is not None:
            match running.state:
                case SenderSemi() if running.stamp == member.stamp:
                    senders.noticed(running, member.meta)
                    return
                case SenderSemi():
                    senders.forget(me)
                case SenderAwaitingEnd() | SenderDraining():
                    senders.cut_short(me)
                case SenderActive() if running.stamp == member.stamp:
                    return
                case SenderActive():
                    senders.left(me, "left", running.inbound.high)
                    senders.cut_short(me)
                case never:
                    assert_never(never)
        if me in self._context.readers.members:
            self._begin_ours(member, attributes)
            return
        match lan.phase:
            case LanPhase.ACTIVE if cause is Cause.JOIN and member.stamp > self._floor(lan, me):
                self._rises(member)
                self.fresh.pop(me, None)
                senders.begin(member, attributes.role, attributes.next_seq)
            case LanPhase.ACTIVE:
                senders.announce(me)
                self._unknown.add(lan.name)
            case _:
                senders.announce(me)

    def joined_all(self) -> None:
        """A notice lists its members by name and not by stamp, so no floor is raised before all of them were
        compared with it; and one request asks for all starts that it does not contain."""
        for host, stamp in self._risen.items():
            if (lan := self.machines.get(parent(host))) is not None:
                lan.floors[host] = max(stamp, lan.floors.get(host, stamp))
        unknown, self._unknown = self._unknown, set()
        self._risen.clear()
        for name in sorted(unknown):
            if (lan := self.machines.get(name)) is not None:
                self._ask(lan)

    def sends_no_more(self, endpoint: Endpoint) -> None:
        """A sender joined again to receive only: end the stream of its earlier membership."""
        running = self._senders.running.get(endpoint)
        is_semi = running is not None and isinstance(running.state, SenderSemi)
        if is_semi or endpoint in self._senders.announced:
            self._senders.forget(endpoint)
        else:
            self._senders.cut_short(endpoint)

    def _begin_ours(self, member: Member, attributes: FifoAttributes) -> None:
        """A sender of our own host needs no cut: all that it sent since its join passed here."""
        self.fresh.pop(member.endpoint, None)
        self._senders.begin(member, attributes.role, attributes.next_seq)

    def left(self, member: Member, why: str, last_seq: int | None) -> None:
        self.fresh.pop(member.endpoint, None)
        self._senders.left(member.endpoint, why, last_seq)
        self._end_if_empty(lan_of(member.endpoint))

    def delegate_joined(self, name: Domain, epoch: Epoch) -> None:
        lan = self.machine(name)
        before, lan.epoch = lan.epoch, self.delegate(name)
        if name == self._context.lan:
            return  # the group machine asks its own delegate for everything
        match lan.phase:
            case LanPhase.WAIT_DELEGATE:
                lan.phase = LanPhase.CUT
                self._ask(lan)
            case LanPhase.CUT | LanPhase.ACTIVE if epoch != before:
                # Streams go on; its numbers are asked for once more.
                self._ask(lan)

    def delegate_left(self, name: Domain) -> None:
        lan = self.machines.get(name)
        if lan is None:
            return
        lan.epoch = self.delegate(name)
        if lan.epoch is None and name != self._context.lan:
            self._forget_req(lan)
            lan.phase = LanPhase.WAIT_DELEGATE
        self._end_if_empty(name)

    def covered(self, name: Domain) -> None:
        """A domain notice covers all of this LAN: the streams of its members have ended already."""
        self._senders.home_lost(name)
        lan = self.machines.pop(name, None)
        if lan is not None:
            self._forget_req(lan)

    # Cuts

    def cut_replied(self, reply: CutReply) -> None:
        lan = self.machines.get(reply.cut.lan)
        if lan is None or lan.req != reply.req:
            self._context.ignore("CutReply", "not asked for")
        elif reply.epoch != self.epoch:
            self._context.ignore("CutReply", "of another epoch")
        else:
            lan.pieces += reply.cut.entries
            if reply.last:
                entries = tuple(lan.pieces)
                self._forget_req(lan)
                cut = reply.cut
                self.apply(Cut(cut.lan, cut.epoch, cut.floors, cut.complete, entries))

    def apply(self, *cuts: Cut) -> None:
        """Compare cuts with the view: see the table above."""
        complete = {cut.lan: self._apply(cut) for cut in cuts if cut.complete}
        for cut in cuts:
            if not cut.complete:
                lan = self._apply(cut)
                if lan.phase is LanPhase.CUT and lan.req is None:
                    self._ask(lan)
        if complete:
            self._settle(complete)

    def begin_noticed(self, cut: Cut) -> Cut:
        """A piece of our delegate's first reply: senders in it that were noticed begin now, so that those of
        a crowd do not all begin with the last piece. Returns the rest of the piece. No program has its first
        list yet, so messages wait, and a sender that leaves meanwhile makes no item."""
        rest: list[CutEntry] = []
        for entry in cut.entries:
            noticed = self._view.get(entry.endpoint)
            if noticed is not None and noticed.stamp == entry.stamp and entry.final is None:
                self._apply_entry(entry)
            else:
                rest.append(entry)
        return Cut(cut.lan, cut.epoch, cut.floors, cut.complete, tuple(rest))

    def _apply(self, cut: Cut) -> Lan:
        lan = self.machine(cut.lan, asks=False)
        lan.epoch = self.delegate(cut.lan)
        for host, stamp in cut.floors:
            lan.floors[host] = max(stamp, lan.floors.get(host, stamp))
        if cut.complete:
            lan.phase = LanPhase.ACTIVE
        elif lan.phase is not LanPhase.ACTIVE:
            known = lan.epoch is not None or cut.lan == self._context.lan
            lan.phase = LanPhase.CUT if known else LanPhase.WAIT_DELEGATE
        for entry in cut.entries:
            self._apply_entry(entry)
        return lan

    def _apply_entry(self, entry: CutEntry) -> None:
        who, senders = entry.endpoint, self._senders
        gone = self.gone.get(who)
        if self._context.is_alone(who) or (gone is not None and gone[0] > entry.stamp):
            return
        noticed = self._view.get(who)
        running = senders.running.get(who)
        if running is not None:
            # It flows: a later cut changes nothing about where it is (4.3, "later cut").
            if entry.final is not None:
                running.end_at(entry.final)
        elif noticed is None:
            if who not in senders.announced:
                senders.begin_unnoticed(who, entry.stamp, entry.role, entry.start)
        elif noticed.stamp == entry.stamp:
            attributes = attributes_of(noticed)
            if isinstance(attributes, FifoAttributes):
                self.fresh.pop(who, None)
                senders.begin(noticed, attributes.role, entry.start)

    def _settle(self, lans: dict[Domain, Lan]) -> None:
        """The cuts are complete. A noticed sender that is not in them is either newer, or has left
        already."""
        asks: set[Domain] = set()
        for who in sorted(self.speakers.keys() - self._senders.running.keys()):
            lan = lans.get(lan_of(who))
            if lan is None or self._context.is_alone(who):
                continue
            member = self.speakers[who]
            attributes = attributes_of(member)
            assert isinstance(attributes, FifoAttributes)
            if who in self._context.readers.members:
                self._begin_ours(member, attributes)
            elif member.stamp > self._floor(lan, who) and self.fresh.pop(who, None) == member.stamp:
                self._rises(member)
                self._senders.begin(member, attributes.role, attributes.next_seq)
            else:
                # Most often it has left already, and its leave notice is on the way.
                self._senders.announce(who)
                asks.add(lan.name)
        self.joined_all()
        for name in sorted(asks):
            self._context.set_timer(self._context.config.cut_wait_s, "cut", name)

    def asked_too_long_ago(self, name: Domain) -> None:
        """T_cut: the reply is late, or a sender was not in it."""
        lan = self.machines.get(name)
        if lan is not None and (lan.phase is LanPhase.CUT or self._announced(name)):
            self._ask(lan, again=True)

    def ask_all(self) -> None:
        """After the cut of a new delegate of ours: ask again for every LAN whose cut is not complete."""
        for name in sorted(self.machines):
            lan = self.machines[name]
            if lan.phase is LanPhase.CUT or (lan.phase is LanPhase.ACTIVE and self._announced(name)):
                self._ask(lan)

    def _ask(self, lan: Lan, *, again: bool = False) -> None:
        if self.epoch is None:
            return  # no delegate to ask; its successor will be asked for everything
        if lan.req is None or not again:
            lan.req = self.new_req()
            lan.pieces = []
        asked = self._announced(lan.name)[:ASKED_AT_ONCE] if lan.phase is LanPhase.ACTIVE else ()
        have = () if asked else self._senders.have(lan.name)
        for some, last in pieces_of(have):
            request = CutRequest(self._context.group, lan.req, self.epoch, lan.name, asked, some, last)
            self._context.say(delegate_of(self._context.lan), request)
        self._context.set_timer(self._context.config.cut_wait_s, "cut", lan.name)

    def _announced(self, name: Domain) -> tuple[Endpoint, ...]:
        return tuple(sorted(who for who in self._senders.announced if lan_of(who) == name))

    def _forget_req(self, lan: Lan) -> None:
        if lan.req is not None:
            lan.req = None
            lan.pieces = []
            self._context.cancel_timer("cut", lan.name)

    def machine(self, name: Domain, *, asks: bool = True) -> Lan:
        lan = self.machines.get(name)
        if lan is None:
            lan = self.machines[name] = Lan(name)
            lan.epoch = self.delegate(name)
            if lan.epoch is not None and name != self._context.lan:
                lan.phase = LanPhase.CUT
                if asks:
                    self._ask(lan)
        return lan

    def _floor(self, lan: Lan, who: Endpoint) -> Stamp:
        return lan.floors.get(host_of(who), (0, 0))

    def _rises(self, member: Member) -> None:
        host = host_of(member.endpoint)
        self._risen[host] = max(member.stamp, self._risen.get(host, member.stamp))

    def _end_if_empty(self, name: Domain) -> None:
        lan = self.machines.get(name)
        if lan is None or name == self._context.lan or lan.epoch is not None:
            return
        senders = self._senders
        if not any(lan_of(who) == name for who in (*senders.running, *senders.announced)):
            self._forget_req(lan)
            del self.machines[name]
