"""The election of a leader among the replicas of a server: `protocols/election`, on links that break.

What must hold: the invariants of each replica; no two of them lead in one term (C-160); a change of the
registry that counts is known to the leader of every later term.

Ranks only decide how long a replica waits before it stands, and here every wait may end at any moment: so the
three are symmetric. Every life has the same `floor`, the least that can be, so that nothing but their own
ballots keeps terms apart.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import Effect, Event, Persist, TimerFired
from rostra.errors import BadInput
from rostra.names import Domain, Group
from rostra.protocols.election.core import STAND, Ballot, SeatCore
from rostra.protocols.election.events import Begun, Committed, Follow, Lead, Record, Resign, StallDetected
from rostra.protocols.election.invariants import seat_violations
from rostra.protocols.election.messages import PreVoteRequest, VoteRequest
from rostra.protocols.election.state import Leading
from rostra.protocols.relaxed.registry import Registry, RegistryRecord
from rostra.sim.explore.model import SearchBounds, image, restore
from rostra.sim.explore.nodes import FaultChoice, Nodes

NAMES: Final = "abcde"
DOMAIN: Final = Domain("eu")
FIXED: Final = ("me", "seats", "scope", "_rank", "_majority", "_floor", "_config", "_effects")
"""Of a replica, what never changes; and the list of effects, which belongs to the step."""


class ElectionBounds(SearchBounds, frozen=True, kw_only=True):
    """`replicas` in all; what may happen in one run, at any of them, in any order.

    `attempts`: a replica that has waited long enough asks for support. Terms grow by one attempt at a time,
    so this bounds them too. `crashes`: each may be followed by a restart. `suspicions`: a replica gives up
    one that lives. `stalls`: a leader finds that it stood still. `changes`: of the registry.
    """

    replicas: int = 3
    attempts: int = 2
    crashes: int = 2
    suspicions: int = 1
    stalls: int = 0
    changes: int = 0


class RegistryChanged(Event, frozen=True):
    """The server on a leader takes one more permanent group."""


class Seat(Struct, frozen=True):
    """A replica: its disk and, while it lives, the rest."""

    ballot: Ballot
    record: RegistryRecord | None
    core: Any = None  # an image
    term: int | None = None  # in which it leads, by its own effects
    promised: frozenset[tuple[int, str]] = frozenset()  # version and name: changes that do not count yet


class Past(Struct, frozen=True):
    led: frozenset[tuple[int, frozenset[str]]] = frozenset()  # term, and with which names it began
    counted: frozenset[tuple[int, str]] = frozenset()  # term of the leader, and the name
    wrong: tuple[str, ...] = ()


class VotesTwice(SeatCore):
    """A vote for another is forgotten when a third replica asks in the same term."""

    def _vote_asked(self, sender: Domain, message: VoteRequest) -> None:
        if self.leader is None and self.ballot.vote != self.me and message.term == self.ballot.term:
            self.ballot = Ballot(message.term - 1)
        super()._vote_asked(sender, message)


class VotesForLess(SeatCore):
    """The vote goes also to a replica that knows less of the registry."""

    def _would_vote(self, asked: PreVoteRequest) -> bool:
        return super()._would_vote(replace(asked, version=max(asked.version, self.version)))

    def _vote_asked(self, sender: Domain, message: VoteRequest) -> None:
        super()._vote_asked(sender, replace(message, version=max(message.version, self.version)))


class Election(Nodes):
    name = "election"
    about = "the replicas of a server elect a leader, crash, restart and lose sight of each other"
    plants: ClassVar = {
        "double-vote": "a replica votes twice in one term",
        "unwritten-vote": "a vote for another is never written to disk, and a restart forgets it",
        "vote-for-less": "a replica votes for one whose registry is older",
    }
    bounds: ElectionBounds

    def __init__(self, bounds: ElectionBounds | None = None, plant: str | None = None) -> None:
        bounds = bounds or ElectionBounds()
        if not 1 <= bounds.replicas <= len(NAMES):
            raise BadInput(f"replicas is {bounds.replicas}", fix=f"from 1 to {len(NAMES)}")
        super().__init__(NAMES[: bounds.replicas], bounds, plant)
        kinds = {"double-vote": VotesTwice, "vote-for-less": VotesForLess}
        self._core_kind: type[SeatCore] = kinds.get(plant or "", SeatCore)
        self._made = {name: self._make(Domain(name), Ballot(), None) for name in self.names}

    def _make(self, who: Domain, ballot: Ballot, record: RegistryRecord | None) -> SeatCore:
        registry = Registry.of([record] if record is not None else [])
        seats = tuple([Domain(name) for name in self.names])
        return self._core_kind(who, seats, floor=1, ballot=ballot, registry=registry, scope=DOMAIN)

    # A replica's life

    def begin(self, who: Domain) -> Seat:
        return self.restart(who, Seat(Ballot(), None))

    def restart(self, who: Domain, node: Seat) -> Seat:
        core = self._make(who, node.ballot, node.record)
        disk = Seat(node.ballot, node.record)
        seat, effects = self._after(who, disk, core, core.step(0.0, Begun()))
        assert not effects, "a replica without links has nothing to say"
        return seat

    def choices(self, node: Seat) -> list[FaultChoice]:
        found = []
        parts = dict(node.core.parts)
        if parts["waiting"]:
            found.append(FaultChoice("stand", TimerFired(STAND), "attempts"))
        if isinstance(parts["state"], Leading):
            found.append(FaultChoice("register", RegistryChanged(), "changes"))
            found.append(FaultChoice("stall", StallDetected(60.0), "stalls"))
        return found

    def step(self, who: Domain, node: Seat, event: Event) -> tuple[Seat, Sequence[Effect]]:
        core: SeatCore = restore(node.core, self._made[who])
        if not isinstance(event, RegistryChanged):
            return self._after(who, node, core, core.step(0.0, event))
        name = f"{node.term}.{core.version}"
        record = core.registry.register(Group(name, DOMAIN))
        promised = node.promised | {(record.version, name)}
        effects = [Persist(record), *core.step(0.0, Record(record))]
        return self._after(who, replace(node, promised=promised), core, effects)

    def _after(
        self, who: Domain, node: Seat, core: SeatCore, effects: Sequence[Effect]
    ) -> tuple[Seat, list[Effect]]:
        ballot, record, term, promised = node.ballot, node.record, node.term, node.promised
        seen: list[Effect] = []
        for effect in effects:
            match effect:
                case Persist(Ballot() as written):
                    if self.plant != "unwritten-vote" or written.vote == who:
                        ballot = written
                case Persist(RegistryRecord() as kept):
                    record = kept
                case Lead(each):
                    term = each
                case Resign():
                    term, promised = None, frozenset()
                case Committed(version):
                    assert term is not None, "only a leader says what counts"
                    seen += [Counted(term, name) for each, name in sorted(promised) if each <= version]
                    promised = frozenset([each for each in promised if each[0] > version])
            seen.append(effect)
        made = self._made[who]
        assert all(getattr(core, name) == getattr(made, name) for name in FIXED if name != "_effects")
        core._effects = []
        seen = [effect for effect in seen if not isinstance(effect, Persist)]
        return Seat(ballot, record, image(core, FIXED), term, promised), seen

    # What must hold

    def history(self) -> Past:
        return Past()

    def watch(self, history: Past, who: Domain, node: Seat, effects: Sequence[Effect]) -> Past:
        for effect in effects:
            match effect:
                case Lead(term):
                    names = frozenset(node.record.names if node.record else ())
                    wrong = [f"two replicas lead in term {term}"] * any(term == led for led, _ in history.led)
                    wrong += [
                        f"the leader of term {term} lacks a change of term {earlier} that counted"
                        for earlier, name in sorted(history.counted)
                        if earlier < term and name not in names
                    ]
                    history = Past(history.led | {(term, names)}, history.counted, tuple(wrong))
                case Counted(term, name):
                    wrong = [
                        f"a change of term {term} counts, and the leader of term {later} began without it"
                        for later, names in sorted(history.led, key=lambda each: each[0])
                        if later > term and name not in names
                    ]
                    history = Past(history.led, history.counted | {(term, name)}, tuple(wrong))
        return history

    def wrong(self, history: Past) -> Sequence[str]:
        return history.wrong

    def wrong_at(self, who: Domain, node: Seat) -> list[str]:
        core: SeatCore = restore(node.core, self._made[who])
        broken = seat_violations(core)
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
            case Counted(term, name):
                return f"the change {name} counts, says the leader of term {term}"
        return ""


class Counted(Effect, frozen=True):
    """A change of the registry is with a majority, as its leader says."""

    term: int
    name: str
