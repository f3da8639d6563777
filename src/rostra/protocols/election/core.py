"""One replica of a server: at most one leads, by a majority, and in terms that only grow.

                      the leader's link is down, or it announces that it leads no more
          ┌────────────────────────────────────────────────────────────────────────┐
          ▼                                                                        │
    Following(None) ── STAND fired: PreVoteRequest ────▶ PreCandidate        Following(leader)
          ▲   ▲ ▲                                          │   │  ▲                ▲
          │   │ └── VoteRequest, and our vote is granted ──┘   │  │ STAND          │  LeaderAnnounced, of
          │   │                 a majority granted a pre-vote: │  │ fired          │  no older term than
          │   │                           Persist, VoteRequest ▼  │                │  our ballot: Follow
          │   └──── VoteRequest, of a later term ────────── Candidate              │
          │                                                    │             (from every state)
          │                          a majority granted votes: │
          │                Lead, LeaderAnnounced, ReplicateAll ▼
          └── Resign: too few linked · stood still · a ─── Leading
              later term

A replica with fewer than a majority of the replicas linked, itself included, only waits. With a single
replica, the first step leads from `Begun` straight to Leading.

**Votes** (C-160). A replica has one vote in each term and its `Ballot` is on disk before the vote leaves, so
two replicas never lead in one term.

**Terms** (C-161) grow: a candidate takes one above all terms it has seen, and a replica whose ballot is of a
later term neither follows nor acknowledges an older leader. It says so, and the old leader resigns. Terms
begin with the wall clock, so a term more than a day ahead of it is ignored: otherwise no later one could be
elected. A domain whose clocks were all ahead, and are right now, continues from its own terms.

**Pre-vote** comes first, and changes no state elsewhere: a replica that is linked to a leader refuses. So a
replica that only lost its own link to the leader causes no election. A request that came before we detected
the same loss is remembered, and answered again when we do.

**Records** outlive a leader: the durable state of the domain's server, by key (`core/records.py`), opaque
here. One number, the version, counts changes over all keys.

    leader ── ReplicateAll ... ReplicateAll(is_last) ──▶ a new follower: exactly these records, in one write
    leader ── ReplicateRecord, one version further ────▶ followers: this key is now this, or removed
    leader ◀── RecordReplicated(version) ─────────────── everything up to it is on my disk

Parts of everything are gathered in memory, so a follower that has version v on disk has every change up to v
and no uncommitted record of an earlier leader. A key that is not in the last part was removed. A change
counts when a majority has it (`Committed`). No replica votes for one whose version is lower than its own, and
any two majorities share a replica: so every later leader has what was committed. Versions of the leader of
term t begin with ``t << 10``, and its first change is a no-op, as in Raft. Hence a larger version is of a
later leader, or a later change of the same one, and what an older leader sent to few never looks newer. Until
there is a first record, nothing is replicated.

**A full disk** (`core/disk.py`). Votes are always stored: a ballot takes the place of the one before. Records
are taken into memory, sent and followed as ever, and acknowledged only when they are on disk; when there is
room again, a replica stores all that is pending in one write. Replicas report whether they can store. A
leader goes on as long as a majority can, itself included or not: if it crashes, that majority has what
counts. Otherwise its server gets `StorageChanged`, and refuses requests that need a record.

Where we differ, and why. Congress (section 7) wishes for replicated servers and gives no protocol. This is
the election of Raft (Ongaro and Ousterhout, with the PreVote of Ongaro's thesis), with these differences:

- Links report liveness; there are no heartbeats and no random timeouts. Replicas stand one after another, in
  the order of their ranks; followers of the last leader come first.
- A leader without a majority of links resigns at once, and so does one that finds that it stalled.
- There is no log: a follower that was away gets all records anew, which are few and small. Soft state belongs
  to the user of `Share`, and a restarted replica has none.
- A replica that is asked for its vote while it is linked to a leader refuses, whatever the term (it would not
  have granted the pre-vote either).
"""

from collections.abc import Iterable
from typing import Final, get_args

import msgspec
from msgspec import Struct

from rostra.core.disk import FREE_BYTES, KeepFree, RoomChanged
from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    Effect,
    Event,
    Instant,
    LinkDown,
    LinkUp,
    Noted,
    Persist,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.core.records import KeyedRecord, Records, RecordSet
from rostra.core.stack import Service, ServiceName
from rostra.errors import NotAllowed
from rostra.names import Domain
from rostra.protocols.election.config import ElectionConfig
from rostra.protocols.election.events import (
    Begun,
    Clock,
    Committed,
    Follow,
    FollowerLinked,
    Lead,
    Record,
    Resign,
    Share,
    StallDetected,
    StateReceived,
    StorageChanged,
    TermRefused,
)
from rostra.protocols.election.messages import (
    NOBODY,
    RECORDS_BYTES_MAX,
    SHARED_BYTES_MAX,
    ElectionMessage,
    LeaderAnnounced,
    PreVoteGranted,
    PreVoteRefused,
    PreVoteRequest,
    RecordReplicated,
    ReplicateAll,
    ReplicateRecord,
    RoomReported,
    Shared,
    VoteGranted,
    VoteRefused,
    VoteRequest,
    in_parts,
)
from rostra.protocols.election.state import Candidate, Following, Leading, PreCandidate
from rostra.protocols.links.packets import AHEAD_MS_MAX
from rostra.protocols.relaxed.requests import Inspect, Inspected, denied

STAND: Final[TimerKey] = ("election", "stand")
STORE: Final[TimerKey] = ("election", "store")

CHANGES_PER_TERM: Final = 1 << 10
"""Versions between those of one term and those of the next. A leader with more changes takes up some of the
next terms' versions; the next candidate takes a term beyond them."""


class Ballot(Struct, frozen=True):
    """What must survive a restart: the latest term we took part in, and whom we voted for in it."""

    term: int = 0
    vote: str = NOBODY  # a replica; `NOBODY` if we follow a leader whom others elected


VOTER: Final = ServiceName["ElectionCore"]("election replica")


class ElectionCore(Service):
    """The replica at `me`. `floor` is a number that the terms of this life must not be below, such as the
    replica's own incarnation: neighbours of the domain take a term for the incarnation of its server."""

    name = VOTER
    takes = (
        *(*get_args(ElectionMessage), Begun, Clock, StallDetected, Record, RoomChanged, Share),
        *(Inspect, LinkUp, LinkDown),
    )

    def __init__(
        self,
        me: Domain,
        voters: tuple[Domain, ...],
        *,
        floor: int,
        ballot: Ballot,
        records: Records,
        scope: Domain,
        config: ElectionConfig | None = None,
    ) -> None:
        assert me in voters, f"{me} is not one of {voters}"
        self.me = me
        self.voters = tuple(sorted(voters))
        self.scope = scope
        self.records = records
        self.ballot = ballot
        self.up: set[Domain] = set()  # other replicas
        self.state: Following | PreCandidate | Candidate | Leading = Following(None)
        self.highest = ballot.term  # of all terms that a replica stood for, as far as we know
        self.waiting = False  # for STAND
        self.kept: dict[Domain, int] = {}  # while we lead: who has which version of ours
        self.parts: tuple[KeyedRecord, ...] | None = None  # while we follow: of all records, until the last
        self.based = False  # while we follow: all records were once our leader's
        self.committed = 0  # while we lead: reported to the driver
        self.no_room = ""  # on our disk: why
        self.stored = records.version  # on our disk; below our version if there was no room
        self.full: frozenset[Domain] = frozenset()  # replicas that are linked and cannot store
        self._sent = 0  # while we lead: the version up to which followers were sent our changes
        self._missed = False  # a change was not stored
        self._free = FREE_BYTES  # room that the driver keeps
        self._storable = True  # while we lead: as last reported
        self._rank = self.voters.index(me)
        self._tried = False  # to be elected, and in vain, since we lost the last leader
        self._behind = ballot.term > 0  # there is or was a leader, of which we know nothing in this life
        self._majority = len(self.voters) // 2 + 1
        self._floor = floor
        self._clock_ms = floor
        self._config = config if config is not None else ElectionConfig()
        self._early: dict[Domain, PreVoteRequest] = {}  # declined, because we had a leader
        self._effects: list[Effect] = []

    @property
    def leader(self) -> Domain | None:
        """The leader, as far as we know."""
        match self.state:
            case Leading():
                return self.me
            case Following(leader):
                return leader
        return None

    @property
    def version(self) -> int:
        return self.records.version

    @property
    def linked_majority(self) -> bool:
        return self._is_majority(1 + len(self.up))

    def step(self, now: Instant, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        self._effects = effects
        match event:
            case Received(sender, message):
                if sender in self.up:
                    self._received(sender, message)
                else:
                    self._ignore(message, "sender is not connected")
            case LinkUp(peer):
                if peer not in self.voters or peer == self.me:
                    self._ignore(event, "not a replica")
                elif peer in self.up:
                    self._ignore(event, "already up")
                else:
                    self._link_up(peer)
            case LinkDown(peer):
                if peer in self.up:
                    self._link_down(peer)
                else:
                    self._ignore(event, "already down")
            case TimerFired(timer) if timer == STAND and self.waiting:
                self.waiting = False
                self._tried = not isinstance(self.state, Following)
                self._ask_pre_votes()
            case TimerFired(timer) if timer == STORE:
                self._store_all()
            case RoomChanged(lacking):
                self.no_room = lacking
                self._send_all(self._linked(), RoomReported(not lacking))
                self._store_all()
                self._report_storage()
            case Begun():
                if len(self.voters) == 1:
                    self._ask_pre_votes()
                else:
                    self._wait(self._config.stand_s(self._place))
            case Clock(at_ms):
                self._clock_ms = at_ms
            case StallDetected(late_s):
                self._stalled(event, late_s)
            case Share(data, to):
                self._share(event, data, to)
            case Record(record):
                self._record(event, record)
            case Asked(_, token, request):
                self._asked(token, request)
            case _:
                self._ignore(event, "not expected by a replica")
        return effects

    def _received(self, sender: Domain, message: object) -> None:
        if (term := _latest_term(message)) > self._term_max:
            self._ignore(message, "term ahead of the clock")
            self._effects.append(TermRefused(sender, term - self._clock_ms))
            return
        match self.state, message:
            case _, PreVoteRequest():
                self._pre_vote_asked(sender, message)
            case _, VoteRequest():
                self._vote_asked(sender, message)
            case _, LeaderAnnounced(term):
                self._leader_announced(sender, term)
            case _, RoomReported(can_store):
                self.full = self.full - {sender} if can_store else self.full | {sender}
                self._report_storage()
            case PreCandidate(term, granted), PreVoteGranted(theirs) if theirs == term:
                self._pre_votes_counted(PreCandidate(term, granted | {sender}))
            case Candidate(term, votes), VoteGranted(theirs) if theirs == term:
                self._voted(Candidate(term, votes | {sender}))
            case Following(leader), PreVoteRefused(_, other) if sender == leader and other != sender:
                self._heard_of(message.term)
                self._lose_leader()
            case PreCandidate(term), PreVoteRefused(theirs, leader):
                self._heard_of(theirs)
                self._effects.append(Noted("declined", f"{sender}: {leader or 'nobody'} leads"))
                if theirs >= term and not leader:
                    self._ask_pre_votes()  # and this time above all that it knows of
            case Leading(term), VoteRefused(theirs) if theirs > term:
                self._heard_of(theirs)
                self._resign("a later term")
            case Candidate(), VoteRefused(theirs):
                self._heard_of(theirs)
                self._effects.append(Noted("vote refused", f"{sender} knows of term {theirs}"))
            case Leading(), Shared(data):
                self._effects.append(StateReceived(sender, data))
            case Following(leader), Shared(data) if sender == leader:
                self._effects.append(StateReceived(sender, data))
            case Following(leader), ReplicateAll() if sender == leader:
                self._replicate_all(sender, message)
            case Following(leader), ReplicateRecord() if sender == leader:
                self._replicate(sender, message)
            case Leading(term), RecordReplicated(theirs, version) if theirs == term:
                self.kept[sender] = max(version, self.kept.get(sender, 0))
                self._commit()
            case _, Shared() | ReplicateAll() | ReplicateRecord():
                self._ignore(message, "not from our leader")
            case _, ElectionMessage():
                self._ignore(message, "late answer")
            case _:
                self._ignore(message, "not a message for a replica")

    # Who is there

    def _link_up(self, peer: Domain) -> None:
        self.up.add(peer)
        if self.no_room:
            self._send(peer, RoomReported(False))
        match self.state:
            case Leading(term):
                self._send(peer, LeaderAnnounced(term))
                self._send_everything((peer,))
                self._effects.append(FollowerLinked(peer))
            case PreCandidate(term):
                self._send(peer, PreVoteRequest(term, self.version, self._behind))
            case Candidate(term):
                self._send(peer, VoteRequest(term, self.version))
            case Following(None) if not self.waiting:
                self._wait(self._config.stand_s(self._place))
        self._report_storage()

    def _link_down(self, peer: Domain) -> None:
        self.up.discard(peer)
        self.full -= {peer}
        self._early.pop(peer, None)
        match self.state:
            case Leading() if not self.linked_majority:
                self._resign("fewer than a majority linked")
            case Following(leader) if leader == peer:
                self._lose_leader()
            case Following(None) | PreCandidate() | Candidate() if not self.linked_majority:
                self.state = Following(None)
                self._stop_waiting()
            case PreCandidate(term, granted):
                self.state = PreCandidate(term, granted - {peer})
        self._report_storage()

    def _lose_leader(self) -> None:
        self.state = Following(None)
        self._wait(self._config.stand_s(self._place))
        early, self._early = self._early, {}
        for peer in sorted(early):
            if self._would_vote(early[peer]):
                self._send(peer, PreVoteGranted(early[peer].term))

    # Who would lead, and who does

    def _ask_pre_votes(self) -> None:
        term = max(self.highest + 1, self._floor, self.version // CHANGES_PER_TERM + 1)
        self._send_all(self._linked(), PreVoteRequest(term, self.version, self._behind))
        self._pre_votes_counted(PreCandidate(term, frozenset({self.me})))
        if isinstance(self.state, PreCandidate):
            self._wait(self._config.again_s(self._place))

    def _pre_vote_asked(self, sender: Domain, message: PreVoteRequest) -> None:
        self._leads_no_more(sender)
        if self.leader is not None:
            if self.leader != self.me:
                self._early[sender] = message
            self._send(sender, PreVoteRefused(self.highest, self.leader))
        elif self._would_vote(message):
            self._send(sender, PreVoteGranted(message.term))
        else:
            self._send(sender, PreVoteRefused(self.highest, NOBODY))

    def _would_vote(self, asked: PreVoteRequest) -> bool:
        if asked.behind and not self._behind and not self._tried:
            return False  # it is our turn first
        return asked.term > self.highest and asked.version >= self.version

    def _pre_votes_counted(self, state: PreCandidate) -> None:
        self.state = state
        if not self._is_majority(len(state.granted)):
            return
        self._take_part(Ballot(state.term, self.me))
        self._send_all(self._linked(), VoteRequest(state.term, self.version))
        self._voted(Candidate(state.term, frozenset({self.me})))
        if isinstance(self.state, Candidate):
            self._wait(self._config.again_s(self._place))

    def _vote_asked(self, sender: Domain, message: VoteRequest) -> None:
        self._leads_no_more(sender)
        same = self.ballot == Ballot(message.term, sender)
        if (
            self.leader is not None
            or message.version < self.version
            or not (same or message.term > self.ballot.term)
        ):
            self._heard_of(message.term)
            self._send(sender, VoteRefused(self.highest))
            return
        if not same:
            self._take_part(Ballot(message.term, sender))
        self.state = Following(None)
        self._wait(self._config.again_s(self._place))
        self._send(sender, VoteGranted(message.term))

    def _voted(self, state: Candidate) -> None:
        self.state = state
        if not self._is_majority(len(state.votes)):
            return
        self.state = Leading(state.term)
        self._early = {}
        self._stop_waiting()
        renewed = self.records.renew(state.term * CHANGES_PER_TERM)
        if renewed is not None:
            self._store(renewed)
        self.kept = {self.me: self.stored}
        self._sent = self.version
        self.committed = 0
        self._storable = True
        self._effects.append(Lead(state.term))
        self._send_all(self._linked(), LeaderAnnounced(state.term))
        self._send_everything(self._linked())
        self._effects += [FollowerLinked(peer) for peer in self._linked()]
        self._commit()
        self._report_storage()

    def _leader_announced(self, sender: Domain, term: int) -> None:
        if term < self.ballot.term:
            # To follow it would be to acknowledge what a leader of our later term need not know of.
            self._ignore(LeaderAnnounced(term), "older term")
            self._send(sender, VoteRefused(self.highest))
            return
        if self.leader is not None and term == self.ballot.term:
            self._ignore(LeaderAnnounced(term), "known already")
            return
        if isinstance(self.state, Leading):
            self._resign("a later term", besides=sender)
        self._heard_of(term)
        if term > self.ballot.term:
            self._take_part(Ballot(term))
        self.state = Following(sender)
        self.parts, self.based = None, False
        self._early = {}
        self._behind = self._tried = False
        self._stop_waiting()
        self._effects.append(Follow(sender, term))

    def _leads_no_more(self, sender: Domain) -> None:
        """A candidate does not lead."""
        if self.state == Following(sender):
            self._lose_leader()

    def _stalled(self, event: Event, late_s: float) -> None:
        if not isinstance(self.state, Leading):
            self._ignore(event, "does not lead")
        elif late_s <= self._config.doubt_after_s:
            self._ignore(event, "too short to matter")
        elif len(self.voters) == 1:
            self._ignore(event, "nobody else can lead")
        else:
            self._resign("stood still")

    def _resign(self, why: str, *, besides: Domain | None = None) -> None:
        assert isinstance(self.state, Leading)
        self._effects.append(Resign(self.state.term, why))
        # Those who still hear us would otherwise wait for us.
        self._send_all(
            (peer for peer in self._linked() if peer != besides), PreVoteRefused(self.highest, NOBODY)
        )
        self.state = Following(None)
        self.kept = {}
        self._sent = self.committed = 0
        self._behind = True
        self._wait(self._config.stand_s(self._place))

    def _take_part(self, ballot: Ballot) -> None:
        assert ballot.term > self.ballot.term, f"{ballot} after {self.ballot}"
        self.ballot = ballot
        self._heard_of(ballot.term)
        self._effects.append(Persist(ballot))

    def _heard_of(self, term: int) -> None:
        self.highest = max(self.highest, term)

    # What leader and backups tell each other

    def _share(self, event: Event, data: bytes, to: Domain | None) -> None:
        assert len(data) <= SHARED_BYTES_MAX, f"{len(data)} bytes to share"
        match self.state:
            case Leading() if to is None or to in self.up:
                self._send_all(self._linked() if to is None else (to,), Shared(data))
            case Leading():
                self._ignore(event, "that replica is down")
            case Following(leader) if leader is not None:
                self._send(leader, Shared(data))
            case _:
                self._ignore(event, "no leader")

    def _record(self, event: Event, record: KeyedRecord) -> None:
        if not isinstance(self.state, Leading):
            self._ignore(event, "does not lead")
        elif record.version <= self._sent:
            self._ignore(event, "older record")
        else:
            is_first, self._sent = not self._sent, record.version
            self._store(record)
            self.kept[self.me] = self.stored
            if is_first:
                self._send_everything(self._linked())
            else:
                self._send_all(self._linked(), ReplicateRecord(self.ballot.term, record))
            self._commit()

    def _send_everything(self, peers: Iterable[Domain]) -> None:
        if self.version:
            for part in in_parts(self.ballot.term, self.records.all()):
                self._send_all(peers, part)

    def _replicate_all(self, sender: Domain, message: ReplicateAll) -> None:
        before = () if message.is_first else self.parts
        if message.term != self.ballot.term:
            self._ignore(message, "another term")
        elif before is None:
            self._ignore(message, "out of order")
        elif sum([record.size for record in (*before, *message.records)]) > RECORDS_BYTES_MAX:
            self._ignore(message, "too large")
        elif not message.is_last:
            self.parts = (*before, *message.records)
        else:
            self.parts, self.based = None, True
            kept = RecordSet(message.version, (*before, *message.records))
            self.records.replace(kept)
            self._store(kept)
            self._acknowledge(sender)

    def _replicate(self, sender: Domain, message: ReplicateRecord) -> None:
        record = message.record
        if message.term != self.ballot.term:
            self._ignore(message, "another term")
        elif not self.based or record.version != self.version + 1:
            self._ignore(message, "out of order")
        else:
            self.records.apply(record)
            self._store(record)
            self._acknowledge(sender)

    def _acknowledge(self, leader: Domain) -> None:
        if self.stored == self.version:
            self._send(leader, RecordReplicated(self.ballot.term, self.version))

    # Disks

    def _store(self, change: KeyedRecord | RecordSet) -> None:
        """Store before the effects that follow. Without room on the disk, or behind a change that waits for
        room, it is stored later, together with the others."""
        if isinstance(change, KeyedRecord) and change.version <= self.stored:
            return  # as a part of all
        if self.no_room or change.size > self._free or (self._missed and isinstance(change, KeyedRecord)):
            self._missed = True
            self._store_all()
            return
        self._effects.append(Persist(change))
        self.stored, self._missed = change.version, False

    def _store_all(self) -> None:
        if self.no_room or not self._missed:
            return
        kept = self.records.all()
        if kept.size > self._free:
            # If the driver has no such room it reports that first.
            self._free = 2 * kept.size
            self._effects += [KeepFree(self._free), SetTimer(STORE, 0.0)]
            return
        self._effects.append(Persist(kept))
        self.stored, self._missed = kept.version, False
        match self.state:
            case Leading():
                self.kept[self.me] = self.stored
                self._commit()
            case Following(leader) if leader is not None and self.based:
                self._acknowledge(leader)

    def _report_storage(self) -> None:
        if not isinstance(self.state, Leading):
            return
        able = len(self.up - self.full) + (not self.no_room)
        if self._storable != self._is_majority(able):
            self._storable = not self._storable
            lacking = f"only {able} of {len(self.voters)} replicas of {self.scope} have room on their disks"
            self._effects.append(StorageChanged("" if self._storable else lacking))

    def _commit(self) -> None:
        versions = sorted(self.kept.values(), reverse=True)
        if self._is_majority(len(versions)) and versions[self._majority - 1] > self.committed:
            self.committed = versions[self._majority - 1]
            self._effects.append(Committed(self.committed))

    # What people ask

    def _asked(self, token: int, request: object) -> None:
        if isinstance(request, Inspect):
            self._effects.append(Answer(token, Inspected(self._document())))
        elif self.leader == self.me:
            refusal = NotAllowed(
                f"this is the replica of the leader of {self.scope}, not its server",
                fix=f"ask the server of {self.scope}",
            )
            self._effects.append(Answer(token, denied(refusal)))
        else:
            refusal = NotAllowed(
                f"this replica of {self.scope} does not lead; {self.leader or 'nobody that it hears'} does",
                fix=f"ask {self.leader}" if self.leader else "ask again in a few seconds",
            )
            self._effects.append(Answer(token, denied(refusal)))

    def _document(self) -> bytes:
        """The replica's state as a document, for `inspect`. Its keys stay as recordings have them."""
        return msgspec.json.encode(
            {
                "server": "seat",
                "path": self.me,
                "domain": self.scope,
                "leads": self.leader == self.me,
                "leader": self.leader or NOBODY,
                "term": self.ballot.term,
                "seats": {
                    voter: "up" if voter == self.me or voter in self.up else "down" for voter in self.voters
                },
                "records": {"version": self.version, "keys": [each.key for each in self.records.under("")]},
            }
        )

    # Small words

    @property
    def _term_max(self) -> int:
        """The highest term that can be true."""
        return max(self._clock_ms + AHEAD_MS_MAX, self.ballot.term + CHANGES_PER_TERM)

    def _is_majority(self, count: int) -> bool:
        return count >= self._majority

    def _linked(self) -> list[Domain]:
        return sorted(self.up)

    @property
    def _place(self) -> int:
        """Our place in the order of standing. A replica without the last leader's state lets those
        that have it go first: a takeover by one of them loses nothing. So does one that cannot store."""
        return self._rank + len(self.voters) if self._behind or self.no_room else self._rank

    def _wait(self, after_s: float) -> None:
        """Until STAND, if a majority could elect us then."""
        if self.linked_majority:
            self.waiting = True
            self._effects.append(SetTimer(STAND, after_s))
        else:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self.waiting:
            self.waiting = False
            self._effects.append(CancelTimer(STAND))

    def _send(self, to: Domain, message: ElectionMessage) -> None:
        self._effects.append(Send(to, message))

    def _send_all(self, peers: Iterable[Domain], message: ElectionMessage) -> None:
        self._effects += [Send(peer, message) for peer in peers]

    def _ignore(self, what: object, why: str) -> None:
        self._effects.append(ignored(what, why))


def _latest_term(message: object) -> int:
    """The latest term that a message implies: its own, or that of a version in it."""
    term: int = getattr(message, "term", 0)
    version: int = getattr(getattr(message, "record", message), "version", 0)
    return max(term, version // CHANGES_PER_TERM)
