"""The election of a leader among the replicas of a server: `protocols/election`, on links that break.

What must hold: the invariants of each replica; no two of them lead in one term (C-160); a change of a record
that was committed is known to the leader of every later term, be it a record made or one removed; replicas
with records of one version have the same records.

Ranks only decide how long a replica waits before it is a candidate, and here every wait may end at any
moment: so the three are symmetric. Every life has the same `floor`, the least that can be, so that nothing
but their own ballots keeps terms apart.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.disk import RoomChanged
from rostra.core.effects import Effect, Event, Persist, TimerFired
from rostra.core.records import KeyedRecord, Records, RecordSet
from rostra.errors import BadInput
from rostra.names import Domain
from rostra.protocols.election.core import STAND, Ballot, ElectionCore
from rostra.protocols.election.events import Begun, Committed, Follow, Lead, Record, Resign, StallDetected
from rostra.protocols.election.invariants import voter_violations
from rostra.protocols.election.messages import PreVoteRequest, ReplicateAll, VoteRequest
from rostra.protocols.election.state import Leading
from rostra.sim.explore.model import SearchBounds, image, restore
from rostra.sim.explore.nodes import FaultChoice, Nodes

NAMES: Final = "abcde"
DOMAIN: Final = Domain("eu")
FIXED: Final = ("me", "voters", "scope", "_rank", "_majority", "_floor", "_config", "_effects")
"""Of a replica, what never changes; and the list of effects, which belongs to the step."""


class ElectionBounds(SearchBounds, frozen=True, kw_only=True):
    """`replicas` in all; what may happen in one run, at any of them, in any order.

    `attempts`: a replica that has waited long enough asks for support. Terms grow by one attempt at a time,
    so this bounds them too. `crashes`: each may be followed by a restart. `suspicions`: a replica gives up
    one that lives. `stalls`: a leader finds that it stood still. `changes`: records
    made. `removals`: records removed. `fills`, `drains`: a disk has no room for records any more, or again.
    """

    replicas: int = 3
    attempts: int = 2
    crashes: int = 2
    suspicions: int = 1
    stalls: int = 0
    changes: int = 0
    removals: int = 0
    fills: int = 0
    drains: int = 0


class RecordMade(Event, frozen=True):
    """The server on a leader makes a record under a key of its own."""


class RecordRemoved(Event, frozen=True):
    """The server on a leader removes its first record."""


class ModelVoter(Struct, frozen=True):
    """A replica: its disk and, while it lives, the rest."""

    ballot: Ballot
    kept: RecordSet
    core: Any = None  # an image
    term: int | None = None  # in which it leads, by its own effects
    promised: frozenset[KeyedRecord] = frozenset()  # changes that are not committed yet
    known: RecordSet = RecordSet()  # in memory, ahead of a disk that was full


class Past(Struct, frozen=True):
    """Each key is made once and may then be removed, so a leader's keys tell which changes it has."""

    led: frozenset[tuple[int, frozenset[str]]] = frozenset()  # term, and with which keys it began
    committed: frozenset[tuple[int, str, bool]] = frozenset()  # term of the leader, key, made or removed
    removed: frozenset[str] = frozenset()  # keys that a leader removed, committed or not
    written: frozenset[tuple[int, frozenset[str]]] = frozenset()  # version, and all keys, on a disk
    wrong: tuple[str, ...] = ()

    def lacks(self, keys: frozenset[str], key: str, made: bool) -> bool:
        """Does a leader that began with these keys lack that change? A key may be gone since."""
        return key not in keys and key not in self.removed if made else key in keys


class VotesTwice(ElectionCore):
    """A vote for another is forgotten when a third replica asks in the same term."""

    def _vote_asked(self, sender: Domain, message: VoteRequest) -> None:
        if self.leader is None and self.ballot.vote != self.me and message.term == self.ballot.term:
            self.ballot = Ballot(message.term - 1)
        super()._vote_asked(sender, message)


class VotesForLess(ElectionCore):
    """The vote goes also to a replica that has fewer of the records."""

    def _would_vote(self, asked: PreVoteRequest) -> bool:
        return super()._would_vote(replace(asked, version=max(asked.version, self.version)))

    def _vote_asked(self, sender: Domain, message: VoteRequest) -> None:
        super()._vote_asked(sender, replace(message, version=max(message.version, self.version)))


class CommitsEarly(ElectionCore):
    """A change counts as soon as the leader itself has it."""

    def _commit(self) -> None:
        if self.kept[self.me] > self.committed:
            self.committed = self.kept[self.me]
            self._effects.append(Committed(self.committed))


class CountsUnstored(ElectionCore):
    """What found no room on the disk counts as stored."""

    def _store(self, change: KeyedRecord | RecordSet) -> None:
        super()._store(change)
        self.stored = max(self.stored, change.version)


class KeepsRemoved(ElectionCore):
    """A follower adds the records that a leader sends, and does not remove others."""

    def _replicate_all(self, sender: Domain, message: ReplicateAll) -> None:
        had = self.records.all().records
        super()._replicate_all(sender, message)
        now = self.records.all()
        known = {record.key for record in now.records}
        more = tuple([record for record in had if record.key not in known])
        if more and message.is_last:
            self.records.replace(RecordSet(now.version, (*now.records, *more)))
            self._effects.append(Persist(self.records.all()))


class Election(Nodes):
    name = "election"
    about = "the replicas of a server elect a leader, crash, restart and lose sight of each other"
    plants: ClassVar = {
        "double-vote": "a replica votes twice in one term",
        "unwritten-vote": "a vote for another is never written to disk, and a restart forgets it",
        "vote-for-less": "a replica votes for one whose records are older",
        "commit-early": "a change counts before a majority has it",
        "count-unstored": "a change counts as stored that found no room on the disk",
        "removed-returns": "a replica that was away while a key was removed keeps it",
    }
    bounds: ElectionBounds

    def __init__(self, bounds: ElectionBounds | None = None, plant: str | None = None) -> None:
        bounds = bounds or ElectionBounds()
        if not 1 <= bounds.replicas <= len(NAMES):
            raise BadInput(f"replicas is {bounds.replicas}", fix=f"from 1 to {len(NAMES)}")
        super().__init__(NAMES[: bounds.replicas], bounds, plant)
        kinds = {
            "double-vote": VotesTwice,
            "vote-for-less": VotesForLess,
            "commit-early": CommitsEarly,
            "removed-returns": KeepsRemoved,
            "count-unstored": CountsUnstored,
        }
        self._core_kind: type[ElectionCore] = kinds.get(plant or "", ElectionCore)
        self._made = {name: self._make(Domain(name), Ballot(), RecordSet()) for name in self.names}

    def _make(self, who: Domain, ballot: Ballot, kept: RecordSet) -> ElectionCore:
        voters = tuple([Domain(name) for name in self.names])
        return self._core_kind(who, voters, floor=1, ballot=ballot, records=Records.of([kept]), scope=DOMAIN)

    # A replica's life

    def begin(self, who: Domain) -> ModelVoter:
        return self.restart(who, ModelVoter(Ballot(), RecordSet()))

    def restart(self, who: Domain, node: ModelVoter) -> ModelVoter:
        core = self._make(who, node.ballot, node.kept)
        disk = ModelVoter(node.ballot, node.kept)
        voter, effects = self._after(who, disk, core, core.step(0.0, Begun()))
        assert not effects, "a replica without links has nothing to say"
        return voter

    def choices(self, node: ModelVoter) -> list[FaultChoice]:
        found = []
        parts = dict(node.core.parts)
        if parts["waiting"]:
            found.append(FaultChoice("stand", TimerFired(STAND), "attempts"))
        if isinstance(parts["state"], Leading):
            found.append(FaultChoice("make", RecordMade(), "changes"))
            if node.known.records:
                found.append(FaultChoice("remove", RecordRemoved(), "removals"))
            found.append(FaultChoice("stall", StallDetected(60.0), "stalls"))
        if parts["no_room"]:
            found.append(FaultChoice("drain", RoomChanged(""), "drains"))
        else:
            found.append(FaultChoice("fill", RoomChanged("full"), "fills"))
        return found

    def step(self, who: Domain, node: ModelVoter, event: Event) -> tuple[ModelVoter, Sequence[Effect]]:
        core: ElectionCore = restore(node.core, self._made[who])
        if not isinstance(event, RecordMade | RecordRemoved):
            return self._after(who, node, core, core.step(0.0, event))
        if isinstance(event, RecordMade):
            record = core.records.put(f"{node.term}.{core.version}", b"")
        else:
            record = core.records.put(node.known.records[0].key, None)
        effects = [RecordWritten(record), *core.step(0.0, Record(record))]
        return self._after(who, replace(node, promised=node.promised | {record}), core, effects)

    def _after(
        self, who: Domain, node: ModelVoter, core: ElectionCore, effects: Sequence[Effect]
    ) -> tuple[ModelVoter, list[Effect]]:
        ballot, kept, term, promised = node.ballot, node.kept, node.term, node.promised
        seen: list[Effect] = []
        for effect in effects:
            match effect:
                case Persist(Ballot() as written):
                    if self.plant != "unwritten-vote" or written.vote == who:
                        ballot = written
                case Persist(KeyedRecord() | RecordSet() as change):
                    kept = Records.of([kept, change]).all()
                case Lead(each):
                    term = each
                case Resign():
                    term, promised = None, frozenset()
                case Committed(version):
                    assert term is not None, "only a leader says what counts"
                    done = sorted([each for each in promised if each.version <= version], key=_version)
                    seen += [ChangeCommitted(term, each) for each in done]
                    promised = promised.difference(done)
            seen.append(effect)
        made = self._made[who]
        assert all(getattr(core, name) == getattr(made, name) for name in FIXED if name != "_effects")
        core._effects = []
        seen = [effect for effect in seen if not isinstance(effect, Persist)]
        return ModelVoter(ballot, kept, image(core, FIXED), term, promised, core.records.all()), seen

    # What must hold

    def history(self) -> Past:
        return Past()

    def watch(self, history: Past, who: Domain, node: ModelVoter, effects: Sequence[Effect]) -> Past:
        led, committed, removed, written = history.led, history.committed, history.removed, history.written
        version, keys = node.kept.version, frozenset([record.key for record in node.kept.records])
        wrong: list[str] = []
        if version and (version, keys) not in written:
            wrong += [f"two replicas differ in version {version}"] * any(
                version == each for each, _ in written
            )
            written |= {(version, keys)}
            history = Past(led, committed, removed, written, tuple(wrong))
        keys = frozenset([record.key for record in node.known.records])
        for effect in effects:
            match effect:
                case RecordWritten(KeyedRecord(key, _, None)):
                    removed |= {key}
                case Lead(term):
                    wrong += [f"two replicas lead in term {term}"] * any(term == each for each, _ in led)
                    wrong += [
                        f"the leader of term {term} lacks a change of term {earlier} that was committed"
                        for earlier, key, made in sorted(committed)
                        if earlier < term and history.lacks(keys, key, made)
                    ]
                    led |= {(term, keys)}
                case ChangeCommitted(term, KeyedRecord(key, _, data)):
                    made = data is not None
                    wrong += [
                        f"a change of term {term} is committed, and the leader of term {later} began without"
                        for later, began in sorted(led, key=lambda each: each[0])
                        if later > term and history.lacks(began, key, made)
                    ]
                    committed |= {(term, key, made)}
                case _:
                    continue
            history = Past(led, committed, removed, written, tuple(wrong))
        return history

    def wrong(self, history: Past) -> Sequence[str]:
        return history.wrong

    def wrong_at(self, who: Domain, node: ModelVoter) -> list[str]:
        core: ElectionCore = restore(node.core, self._made[who])
        broken = voter_violations(core)
        if isinstance(core.state, Leading) != (node.term is not None):
            broken.append("its effects do not say whether it leads")
        if isinstance(core.state, Leading) and node.ballot != Ballot(core.state.term, who):
            broken.append(f"it leads in term {core.state.term}, and its disk says {node.ballot}")
        return broken

    def tell(self, who: Domain, effect: Effect) -> str:
        match effect:
            case Lead(term):
                return f"{who} leads in term {term}"
            case Resign(term, why):
                return f"{who} resigns from term {term}: {why}"
            case Follow(leader, term):
                return f"{who} follows {leader} in term {term}"
            case RecordWritten(KeyedRecord(key, version, data)):
                return f"{who} {'removes' if data is None else 'makes'} {key}, version {version}"
            case ChangeCommitted(term, KeyedRecord(key, version)):
                return f"version {version} of {key} is committed, says the leader of term {term}"
        return ""


class RecordWritten(Effect, frozen=True):
    """The server on a leader changed a record."""

    record: KeyedRecord


class ChangeCommitted(Effect, frozen=True):
    """A change is with a majority, as its leader says."""

    term: int
    record: KeyedRecord


def _version(record: KeyedRecord) -> int:
    return record.version
