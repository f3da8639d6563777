"""The replicas of one domain and a pretend network between them, in virtual time.

    ElectionCore ── Send ──▶ link: in order, some delay, one epoch at a time ──▶ Received ── ElectionCore
                         cut, heal, kill, restart, pause: LinkDown and LinkUp, each end when it notices

A link keeps the promises of `protocols/links`: between an Up and the next Down of an end lies one epoch, both
ends see Down before the next Up, and of what was said in an epoch each end gets a beginning. A replica that
is killed keeps what it persisted, and nothing else. All is drawn from a seed, so a failing run is its seed.

Every step is checked against the rules of one replica, and all replicas together against those of the whole
domain:
`broken` collects what did not hold.
"""

import heapq
from collections.abc import Callable
from random import Random

from rostra.core.effects import (
    CancelTimer,
    Effect,
    Event,
    Instant,
    LinkDown,
    LinkUp,
    Persist,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
)
from rostra.core.records import KeyedRecord, Records, RecordSet
from rostra.groups.members import Because
from rostra.names import Domain, replica_path
from rostra.protocols.election.config import ElectionConfig
from rostra.protocols.election.core import Ballot, ElectionCore
from rostra.protocols.election.events import Begun, Committed, Follow, Lead, Record, Resign, StallDetected
from rostra.protocols.election.invariants import voter_violations
from rostra.protocols.election.state import Leading

EU = Domain("eu")

DELAY_S = (0.001, 0.03)
NOTICE_S = (0.2, 1.2)
"""How long an end takes to give up a peer that it cannot hear."""

MEET_S = (0.01, 0.3)


class Disk:
    def __init__(self) -> None:
        self.ballot = Ballot()
        self.kept = RecordSet()

    def write(self, change: KeyedRecord | RecordSet) -> None:
        self.kept = Records.of([self.kept, change]).all()

    def keys(self) -> frozenset[str]:
        return frozenset([record.key for record in self.kept.records])


class ModelVoter:
    """One life of a replica."""

    def __init__(self, core: ElectionCore, disk: Disk) -> None:
        self.core, self.disk = core, disk
        self.alive = True
        self.paused_until: Instant = 0.0
        self.timers: dict[TimerKey, int] = {}
        self.term: int | None = None  # in which it leads, by its own effects


class Epoch:
    """From a link's coming up to its end; each end enters and leaves it on its own time."""

    def __init__(self) -> None:
        self.up: set[Domain] = set()
        self.left: set[Domain] = set()
        self.arrives_at: dict[Domain, Instant] = {}  # the last thing under way to this end
        self.silent = False


class VoterNet:
    def __init__(self, count: int, seed: int, config: ElectionConfig | None = None) -> None:
        self.now: Instant = 0.0
        self.random = Random(seed)
        self.config = config or ElectionConfig()
        self.paths = tuple(replica_path(EU, rank) for rank in range(1, count + 1))
        self.disks = {path: Disk() for path in self.paths}
        self.voters: dict[Domain, ModelVoter] = {}
        self.cuts: set[frozenset[Domain]] = set()
        self.epochs: dict[frozenset[Domain], Epoch] = {}
        self.history: list[tuple[Instant, Domain, Effect]] = []
        self.led: dict[int, Domain] = {}
        self.began_with: dict[int, frozenset[str]] = {}  # the keys of the leader of a term
        self.commits: list[tuple[int, str, bool]] = []  # in which term, which key, made or removed
        self.removed: set[str] = set()  # keys that a leader removed, committed or not
        self.broken: list[str] = []
        self._promises: dict[Domain, list[KeyedRecord]] = {}  # of each leader
        self._agenda: list[tuple[Instant, int, Callable[[], None]]] = []
        self._tie = 0
        self._named = 0
        for path in self.paths:
            self.restart(path)

    # What a test does to it

    def run(self, for_s: float) -> None:
        until = self.now + for_s
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, action = heapq.heappop(self._agenda)
            action()
        self.now = until

    def kill(self, path: Domain) -> None:
        voter = self.voters.pop(path, None)
        if voter is not None:
            voter.alive = False
            self._promises.pop(path, None)
            for peer in self.paths:
                self._fall_silent(frozenset({path, peer}))

    def restart(self, path: Domain) -> None:
        self.kill(path)
        disk = self.disks[path]
        core = ElectionCore(
            path,
            self.paths,
            floor=1 + int(self.now * 1000),
            ballot=disk.ballot,
            records=Records.of([disk.kept]),
            scope=EU,
            config=self.config,
        )
        self.voters[path] = ModelVoter(core, disk)
        self.step(self.voters[path], Begun())
        self._meet_later(path)

    def cut(self, one: Domain, other: Domain) -> None:
        self.cuts.add(frozenset({one, other}))
        self._fall_silent(frozenset({one, other}))

    def isolate(self, path: Domain) -> None:
        for peer in self.paths:
            if peer != path:
                self.cut(path, peer)

    def heal(self) -> None:
        self.cuts.clear()
        for path in self.paths:
            self._meet_later(path)

    def pause(self, path: Domain, for_s: float) -> None:
        """As by SIGSTOP: what arrives waits, peers may give it up; awake again, it is told how late it is."""
        voter = self.voters.get(path)
        if voter is None or self.now < voter.paused_until:
            return
        voter.paused_until = self.now + for_s
        self._at(for_s, lambda: self.step(voter, StallDetected(for_s)))
        if for_s > NOTICE_S[1]:
            for peer in self.paths:
                self._fall_silent(frozenset({path, peer}))
        self._at(for_s, lambda: self._meet_later(path))

    def change(self) -> None:
        """The server on every replica that leads makes a record, or removes its first one."""
        for path, voter in sorted(self.voters.items()):
            if voter.term is not None and self.now >= voter.paused_until:
                self._named += 1
                kept = voter.core.records.all().records
                if kept and self._named % 4 == 0:
                    record = voter.core.records.put(kept[0].key, None)
                    self.removed.add(record.key)
                else:
                    record = voter.core.records.put(f"g{self._named:06}", b"data")
                self._promises.setdefault(path, []).append(record)
                self._carry_out(voter, [Persist(record)])
                self.step(voter, Record(record))

    def lost(self) -> list[str]:
        """What was committed in one term, and the leader of a later term began without."""
        return [
            f"the leader of term {later} lacks that {key} of term {term} was {'made' if made else 'removed'}"
            for term, key, made in self.commits
            for later, known in self.began_with.items()
            if later > term and self.lacks(known, key, made)
        ]

    def lacks(self, known: frozenset[str], key: str, made: bool) -> bool:
        return key not in known and key not in self.removed if made else key in known

    def leaders(self) -> list[Domain]:
        return sorted(path for path, voter in self.voters.items() if voter.term is not None)

    # How it works inside

    def step(self, voter: ModelVoter, event: Event) -> None:
        if not voter.alive:
            return
        if self.now < voter.paused_until:
            self._at_time(voter.paused_until, lambda: self.step(voter, event))
            return
        effects = voter.core.step(self.now, event)
        self._carry_out(voter, effects)
        me = voter.core.me
        self.broken += [f"{self.now:.3f} {me} after {event}: {rule}" for rule in voter_violations(voter.core)]
        if (voter.term is not None) != isinstance(voter.core.state, Leading):
            self.broken.append(f"{self.now:.3f} {me} did not tell whether it leads")

    def _carry_out(self, voter: ModelVoter, effects: list[Effect]) -> None:
        me = voter.core.me
        for effect in effects:
            match effect:
                case Persist(Ballot() as ballot):
                    voter.disk.ballot = ballot
                case Persist(KeyedRecord() | RecordSet() as change):
                    voter.disk.write(change)
                case Send(to, message):
                    self._send(me, to, message)
                case SetTimer(timer, after_s):
                    self._set_timer(voter, timer, after_s)
                case CancelTimer(timer):
                    voter.timers.pop(timer, None)
                case Lead(term):
                    self._leads(voter, term)
                case Resign(term):
                    if voter.term != term:
                        self.broken.append(f"{me} resigned from term {term} and led in {voter.term}")
                    voter.term = None
                    self._promises.pop(me, None)
                case Committed(version):
                    promised = self._promises.get(me, [])
                    self._promises[me] = [each for each in promised if each.version > version]
                    assert voter.term is not None, "only a leader commits"
                    self.commits += [
                        (voter.term, each.key, each.data is not None)
                        for each in promised
                        if each.version <= version
                    ]
            if isinstance(effect, Lead | Resign | Follow | Committed):
                self.history.append((self.now, me, effect))

    def _leads(self, voter: ModelVoter, term: int) -> None:
        me = voter.core.me
        if voter.term is not None:
            self.broken.append(f"{me} leads in term {term} and did not resign from {voter.term}")
        if term in self.led:
            self.broken.append(f"{me} and {self.led[term]} both led in term {term}")
        if voter.disk.ballot != Ballot(term, me):
            self.broken.append(f"{me} leads in term {term} with {voter.disk.ballot} on disk")
        self.began_with[term] = frozenset([record.key for record in voter.core.records.all().records])
        self.led[term] = me
        voter.term = term

    def _send(self, sender: Domain, to: Domain, message: object) -> None:
        epoch = self.epochs.get(frozenset({sender, to}))
        if epoch is None or sender not in epoch.up:
            self.broken.append(f"{sender} sent {message} to {to}, whose link is down")
            return
        if epoch.silent:
            return
        arrives_at = max(self.now + self.random.uniform(*DELAY_S), epoch.arrives_at.get(to, 0.0))
        epoch.arrives_at[to] = arrives_at

        def arrive() -> None:
            if not epoch.silent and to in epoch.up:
                self.step(self.voters[to], Received(sender, message))

        self._at_time(arrives_at, arrive)

    def _set_timer(self, voter: ModelVoter, timer: TimerKey, after_s: float) -> None:
        self._tie += 1
        setting = voter.timers[timer] = self._tie

        def fire() -> None:
            if voter.timers.get(timer) == setting and self.now < voter.paused_until:
                self._at_time(voter.paused_until, fire)
            elif voter.timers.get(timer) == setting:
                del voter.timers[timer]
                self.step(voter, TimerFired(timer))

        self._at(after_s, fire)

    def _fall_silent(self, pair: frozenset[Domain]) -> None:
        """Nothing more arrives in this epoch; the ends notice one after the other."""
        epoch = self.epochs.get(pair)
        if epoch is None or epoch.silent:
            return
        epoch.silent = True
        for path in sorted(pair):
            peer = next(iter(pair - {path}))
            if path in self.voters and path in epoch.up:
                self._at(self.random.uniform(*NOTICE_S), self._leaving(self.voters[path], peer, epoch))
            else:
                epoch.left.add(path)
                epoch.up.discard(path)

    def _leaving(self, voter: ModelVoter, peer: Domain, epoch: Epoch) -> Callable[[], None]:
        path = voter.core.me

        def leave() -> None:
            if voter.alive and self.now < voter.paused_until:
                self._at_time(voter.paused_until, leave)
                return
            epoch.left.add(path)
            epoch.up.discard(path)
            self.step(voter, LinkDown(peer, Because(path, peer, "silent")))
            self._meet_later(path)

        return leave

    def _meet_later(self, path: Domain) -> None:
        for peer in self.paths:
            if peer != path:
                self._at(self.random.uniform(*MEET_S), lambda peer=peer: self._meet(path, peer))

    def _meet(self, one: Domain, other: Domain) -> None:
        pair = frozenset({one, other})
        voters = [self.voters.get(path) for path in pair]
        if pair in self.cuts or any(voter is None or self.now < voter.paused_until for voter in voters):
            return
        old = self.epochs.get(pair)
        if old is not None and (not old.silent or old.left < pair):
            return
        epoch = self.epochs[pair] = Epoch()
        for path in sorted(pair):
            # What the other end says before this one is up waits until it is.
            epoch.arrives_at[path] = self.now + self.random.uniform(*DELAY_S)
            self._at_time(epoch.arrives_at[path], self._entering(path, next(iter(pair - {path})), epoch))

    def _entering(self, path: Domain, peer: Domain, epoch: Epoch) -> Callable[[], None]:
        voter = self.voters[path]

        def enter() -> None:
            if epoch.silent or not voter.alive:
                epoch.left.add(path)
                return
            epoch.up.add(path)
            self.step(voter, LinkUp(peer, 1))

        return enter

    def _at(self, after_s: float, action: Callable[[], None]) -> None:
        self._at_time(self.now + after_s, action)

    def _at_time(self, when: Instant, action: Callable[[], None]) -> None:
        self._tie += 1
        heapq.heappush(self._agenda, (when, self._tie, action))
