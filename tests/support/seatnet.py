"""The seats of one domain and a pretend network between them, in virtual time.

    SeatCore ── Send ──▶ link: in order, some delay, one epoch at a time ──▶ Received ── SeatCore
                         cut, heal, kill, restart, pause: LinkDown and LinkUp, each end when it notices

A link keeps the promises of `protocols/links`: between an Up and the next Down of an end lies one epoch, both
ends see Down before the next Up, and of what was said in an epoch each end gets a beginning. A seat that is
killed keeps what it persisted, and nothing else. All is drawn from a seed, so a failing run is its seed.

Every step is checked against the rules of one seat, and all seats together against those of the whole domain:
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
from rostra.names import Domain, seat_of
from rostra.protocols.election.config import ElectionConfig
from rostra.protocols.election.core import Ballot, SeatCore
from rostra.protocols.election.events import Begun, Committed, Follow, Lead, Record, Resign, StallDetected
from rostra.protocols.election.invariants import seat_violations
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


class Seat:
    """One life of a replica."""

    def __init__(self, core: SeatCore, disk: Disk) -> None:
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


class SeatNet:
    def __init__(self, count: int, seed: int, config: ElectionConfig | None = None) -> None:
        self.now: Instant = 0.0
        self.random = Random(seed)
        self.config = config or ElectionConfig()
        self.paths = tuple(seat_of(EU, rank) for rank in range(1, count + 1))
        self.disks = {path: Disk() for path in self.paths}
        self.seats: dict[Domain, Seat] = {}
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
        seat = self.seats.pop(path, None)
        if seat is not None:
            seat.alive = False
            self._promises.pop(path, None)
            for peer in self.paths:
                self._fall_silent(frozenset({path, peer}))

    def restart(self, path: Domain) -> None:
        self.kill(path)
        disk = self.disks[path]
        core = SeatCore(
            path,
            self.paths,
            floor=1 + int(self.now * 1000),
            ballot=disk.ballot,
            records=Records.of([disk.kept]),
            scope=EU,
            config=self.config,
        )
        self.seats[path] = Seat(core, disk)
        self.step(self.seats[path], Begun())
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
        seat = self.seats.get(path)
        if seat is None or self.now < seat.paused_until:
            return
        seat.paused_until = self.now + for_s
        self._at(for_s, lambda: self.step(seat, StallDetected(for_s)))
        if for_s > NOTICE_S[1]:
            for peer in self.paths:
                self._fall_silent(frozenset({path, peer}))
        self._at(for_s, lambda: self._meet_later(path))

    def change(self) -> None:
        """The server on every seat that leads makes a record, or removes its first one."""
        for path, seat in sorted(self.seats.items()):
            if seat.term is not None and self.now >= seat.paused_until:
                self._named += 1
                kept = seat.core.records.all().records
                if kept and self._named % 4 == 0:
                    record = seat.core.records.put(kept[0].key, None)
                    self.removed.add(record.key)
                else:
                    record = seat.core.records.put(f"g{self._named:06}", b"data")
                self._promises.setdefault(path, []).append(record)
                self._carry_out(seat, [Persist(record)])
                self.step(seat, Record(record))

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
        return sorted(path for path, seat in self.seats.items() if seat.term is not None)

    # How it works inside

    def step(self, seat: Seat, event: Event) -> None:
        if not seat.alive:
            return
        if self.now < seat.paused_until:
            self._at_time(seat.paused_until, lambda: self.step(seat, event))
            return
        effects = seat.core.step(self.now, event)
        self._carry_out(seat, effects)
        me = seat.core.me
        self.broken += [f"{self.now:.3f} {me} after {event}: {rule}" for rule in seat_violations(seat.core)]
        if (seat.term is not None) != isinstance(seat.core.state, Leading):
            self.broken.append(f"{self.now:.3f} {me} did not tell whether it leads")

    def _carry_out(self, seat: Seat, effects: list[Effect]) -> None:
        me = seat.core.me
        for effect in effects:
            match effect:
                case Persist(Ballot() as ballot):
                    seat.disk.ballot = ballot
                case Persist(KeyedRecord() | RecordSet() as change):
                    seat.disk.write(change)
                case Send(to, message):
                    self._send(me, to, message)
                case SetTimer(timer, after_s):
                    self._set_timer(seat, timer, after_s)
                case CancelTimer(timer):
                    seat.timers.pop(timer, None)
                case Lead(term):
                    self._leads(seat, term)
                case Resign(term):
                    if seat.term != term:
                        self.broken.append(f"{me} resigned from term {term} and led in {seat.term}")
                    seat.term = None
                    self._promises.pop(me, None)
                case Committed(version):
                    promised = self._promises.get(me, [])
                    self._promises[me] = [each for each in promised if each.version > version]
                    assert seat.term is not None, "only a leader commits"
                    self.commits += [
                        (seat.term, each.key, each.data is not None)
                        for each in promised
                        if each.version <= version
                    ]
            if isinstance(effect, Lead | Resign | Follow | Committed):
                self.history.append((self.now, me, effect))

    def _leads(self, seat: Seat, term: int) -> None:
        me = seat.core.me
        if seat.term is not None:
            self.broken.append(f"{me} leads in term {term} and did not resign from {seat.term}")
        if term in self.led:
            self.broken.append(f"{me} and {self.led[term]} both led in term {term}")
        if seat.disk.ballot != Ballot(term, me):
            self.broken.append(f"{me} leads in term {term} with {seat.disk.ballot} on disk")
        self.began_with[term] = frozenset([record.key for record in seat.core.records.all().records])
        self.led[term] = me
        seat.term = term

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
                self.step(self.seats[to], Received(sender, message))

        self._at_time(arrives_at, arrive)

    def _set_timer(self, seat: Seat, timer: TimerKey, after_s: float) -> None:
        self._tie += 1
        setting = seat.timers[timer] = self._tie

        def fire() -> None:
            if seat.timers.get(timer) == setting and self.now < seat.paused_until:
                self._at_time(seat.paused_until, fire)
            elif seat.timers.get(timer) == setting:
                del seat.timers[timer]
                self.step(seat, TimerFired(timer))

        self._at(after_s, fire)

    def _fall_silent(self, pair: frozenset[Domain]) -> None:
        """Nothing more arrives in this epoch; the ends notice one after the other."""
        epoch = self.epochs.get(pair)
        if epoch is None or epoch.silent:
            return
        epoch.silent = True
        for path in sorted(pair):
            peer = next(iter(pair - {path}))
            if path in self.seats and path in epoch.up:
                self._at(self.random.uniform(*NOTICE_S), self._leaving(self.seats[path], peer, epoch))
            else:
                epoch.left.add(path)
                epoch.up.discard(path)

    def _leaving(self, seat: Seat, peer: Domain, epoch: Epoch) -> Callable[[], None]:
        path = seat.core.me

        def leave() -> None:
            if seat.alive and self.now < seat.paused_until:
                self._at_time(seat.paused_until, leave)
                return
            epoch.left.add(path)
            epoch.up.discard(path)
            self.step(seat, LinkDown(peer, Because(path, peer, "silent")))
            self._meet_later(path)

        return leave

    def _meet_later(self, path: Domain) -> None:
        for peer in self.paths:
            if peer != path:
                self._at(self.random.uniform(*MEET_S), lambda peer=peer: self._meet(path, peer))

    def _meet(self, one: Domain, other: Domain) -> None:
        pair = frozenset({one, other})
        seats = [self.seats.get(path) for path in pair]
        if pair in self.cuts or any(seat is None or self.now < seat.paused_until for seat in seats):
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
        seat = self.seats[path]

        def enter() -> None:
            if epoch.silent or not seat.alive:
                epoch.left.add(path)
                return
            epoch.up.add(path)
            self.step(seat, LinkUp(peer, 1))

        return enter

    def _at(self, after_s: float, action: Callable[[], None]) -> None:
        self._at_time(self.now + after_s, action)

    def _at_time(self, when: Instant, action: Callable[[], None]) -> None:
        self._tie += 1
        heapq.heappush(self._agenda, (when, self._tie, action))
