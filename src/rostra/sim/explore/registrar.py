"""Agents of one led set, and what each believes about the registrar: shipped cores (`protocols/led`).

    join A, leave A      a program of agent A              believe A R   A takes agent R for the registrar
    letter A B KIND N    a datagram arrives                lose A B ...  or is lost
    tree A B             the next message of a circuit     fire A TIMER  a timer of A, or the lease at A
    connect A B          a circuit comes up, at both ends  cut A B       it breaks
    down A B             A learns that
    crash A              A starts again, without members

What must hold after every step: the parents form no cycle (IS-1), and no agent keeps an empty record (IS-2).
Where nothing is under way: if all agents agree on the registrar from then on, and nothing more goes wrong,
there will be one leader with an exact list (P-2, P-3). This is played out in one order.
"""

from collections.abc import Container, Sequence
from itertools import permutations
from typing import ClassVar, Final, NamedTuple

from rostra.core.effects import CancelTimer, Effect, Event, SetTimer
from rostra.errors import BadInput
from rostra.names import Domain, Group, parent
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.core import (
    ASSERT,
    CircuitDown,
    CircuitUp,
    LeaderNamed,
    MemberCame,
    MemberWent,
    PostLetter,
    RegistrarChanged,
    SendTree,
    SetTimerFired,
    TreeCore,
    TreeReceived,
    WantCircuit,
)
from rostra.protocols.led.invariants import exact_list, no_cycle, no_empty_record, one_leader
from rostra.protocols.led.messages import (
    AnyTreeMessage,
    Assert,
    AssertReply,
    AttachOk,
    Datagram,
    Entries,
    LeaderAsked,
    LeaderProbe,
    LeaderProbed,
    LocalMember,
    SetReleased,
)
from rostra.protocols.led.registrar import LeaderEntry, Registrar
from rostra.protocols.led.state import AgentId, Child, Leader, Standing, TreeState
from rostra.sim.explore.model import SearchBounds, Words, shown

CHESS: Final = Group("chess", Domain("eu"))
NAMES: Final = "abcd"
PATHS: Final = tuple([Domain(f"eu.{name}") for name in NAMES])
MEMBER: Final = LocalMember("m#1")
CONFIG: Final = LedConfig()
PROBE: Final = "probe"
CALM_STEPS_MAX: Final = 600


class RegistrarBounds(SearchBounds, frozen=True, kw_only=True):
    """`agents`; how many of them lead alone at the beginning, each its own registrar; and how often each
    thing may happen in one run."""

    agents: int = 3
    alone: int = 0
    joins: int = 2
    leaves: int = 0
    believes: int = 1
    losses: int = 0
    fires: int = 1
    cuts: int = 0
    crashes: int = 0


class LedAgentImage(NamedTuple):
    tree: TreeState
    life: int
    believes: int  # the place of the registrar
    entry: LeaderEntry | None = None  # as a registrar
    probes: int = 0
    timers: tuple[str, ...] = ()


class LedLetter(NamedTuple):
    source: int
    to: int
    letter: Datagram


class LedCircuit(NamedTuple):
    """Between two agents, the smaller first."""

    up: tuple[bool, bool] = (False, False)
    wanted: bool = False
    broken: bool = False  # one end does not know yet
    queues: tuple[tuple[AnyTreeMessage, ...], tuple[AnyTreeMessage, ...]] = ((), ())


class RegistrarWorld(NamedTuple):
    agents: tuple[LedAgentImage, ...]
    letters: tuple[LedLetter, ...]  # in any order they may arrive
    circuits: tuple[LedCircuit, ...]
    spent: tuple[int, ...]


class RegistrarAct(NamedTuple):
    verb: str
    who: int
    other: int = -1
    what: str = ""


VERBS: Final = {
    "join": "joins",
    "leave": "leaves",
    "believe": "believes",
    "lose": "losses",
    "fire": "fires",
    "cut": "cuts",
    "crash": "crashes",
}


class _AcceptsAlways(TreeCore):
    """TS10: agents that do not lead accept children, too."""

    def _attach_asked(
        self, peer: Domain, number: int, entries: Entries, up: Container[Domain], out: list[Effect]
    ) -> None:
        record = self.record
        if record is not None:
            self._set_child(record, peer, entries)
            out.append(SendTree(peer, AttachOk(self.group, number, self.me.path)))


class _KeepsLost(TreeCore):
    """A child whose circuit broke stays listed."""

    def _circuit_down(self, peer: Domain, up: Container[Domain], out: list[Effect]) -> None:
        if self._report_of(peer) is None:
            super()._circuit_down(peer, up, out)


class _NeverDetaches(TreeCore):
    """An agent that gives up on a parent, or has nothing to list any more, does not say so."""

    def _let_go(self, standing: Standing, up: Container[Domain], out: list[Effect]) -> None:
        return


class _Step:
    """One action: agents, letters and circuits as they change."""

    def __init__(self, model: "RegistrarModel", state: RegistrarWorld) -> None:
        self.model = model
        self.agents = list(state.agents)
        self.letters = list(state.letters)
        self.circuits = list(state.circuits)
        self.spent = list(state.spent)

    def done(self) -> RegistrarWorld:
        letters = tuple(sorted(self.letters, key=repr))
        return RegistrarWorld(tuple(self.agents), letters, tuple(self.circuits), tuple(self.spent))

    def tree(self, at: int, event: Event) -> None:
        agent = self.agents[at]
        me = AgentId(PATHS[at], agent.life)
        core = self.model.core(me, CHESS, CONFIG, agent.tree)
        up = [
            PATHS[other]
            for other in range(len(self.agents))
            if other != at and self.circuits[self.model.pair(at, other)].up[at > other]
        ]
        effects = core.step(event, up)
        timers = set(self.agents[at].timers)
        if isinstance(event, SetTimerFired):
            timers.discard(event.what)
        self.agents[at] = self.agents[at]._replace(tree=core.state)
        self.perform(at, effects, timers)

    def registrar(self, at: int, sender: int, letter: Datagram | None) -> None:
        """A letter for the registrar, or its probe is not answered in time."""
        agent = self.agents[at]
        core = Registrar(CONFIG)
        core._probes, core._waits = agent.probes, True
        if agent.entry is not None:
            core.entries[CHESS] = agent.entry
            leader = agent.entry.leader.agent
            core._names[leader] = 1
            core._names_in.take(parent(leader))
        timers = set(agent.timers)
        if letter is None:
            timers.discard(PROBE)
            effects = core.fired(0.0, ("led", PROBE, *_texts(CHESS)))
        else:
            assert isinstance(letter, Assert | SetReleased | LeaderProbed | LeaderAsked)
            effects = core.step(0.0, PATHS[sender], letter)
        self.agents[at] = agent._replace(entry=core.entries.get(CHESS), probes=core._probes)
        self.perform(at, effects, timers)

    def perform(self, at: int, effects: Sequence[Effect], timers: set[str]) -> None:
        for effect in effects:
            match effect:
                case PostLetter(to, letter):
                    place = self.agents[at].believes if to is None else PATHS.index(to)
                    self.letters.append(LedLetter(at, place, letter))
                case SendTree(peer, message):
                    self.send(at, PATHS.index(peer), message)
                case WantCircuit(peer):
                    place = self.model.pair(at, PATHS.index(peer))
                    self.circuits[place] = self.circuits[place]._replace(wanted=True)
                case SetTimer(timer):
                    if timer[1] in (ASSERT, "connect", "report", "flatten", PROBE):
                        timers.add(str(timer[1]))
                case CancelTimer(timer):
                    timers.discard(str(timer[1]))
        self.agents[at] = self.agents[at]._replace(timers=tuple(sorted(timers)))

    def send(self, at: int, to: int, message: AnyTreeMessage) -> None:
        place = self.model.pair(at, to)
        circuit = self.circuits[place]
        if not circuit.broken and all(circuit.up):
            queues = list(circuit.queues)
            queues[at > to] = (*queues[at > to], message)
            self.circuits[place] = circuit._replace(queues=(queues[0], queues[1]))

    def letter(self, place: int) -> None:
        source, at, letter = self.letters.pop(place)
        agent = self.agents[at]
        match letter:
            case Assert() | SetReleased() | LeaderProbed() | LeaderAsked():
                if agent.believes == at:
                    self.registrar(at, source, letter)
            case AssertReply(number=number, leader=leader):
                if agent.believes == source:
                    self.tree(at, LeaderNamed(number, leader))
            case LeaderProbe(number=number):
                record = agent.tree.record
                leading = record is not None and isinstance(record.standing, Leader)
                self.letters.append(LedLetter(at, source, LeaderProbed(CHESS, number, leading)))

    def believe(self, at: int, registrar: int) -> None:
        agent = self.agents[at]
        if agent.believes == registrar:
            return
        timers = tuple([each for each in agent.timers if each != PROBE])
        entry = None if agent.believes == at else agent.entry
        self.agents[at] = agent._replace(believes=registrar, entry=entry, timers=timers)
        if agent.tree.record is not None:
            self.tree(at, RegistrarChanged())

    def fire(self, at: int, timer: str) -> None:
        if timer == PROBE:
            self.registrar(at, at, None)
        else:
            self.tree(at, SetTimerFired(timer))

    def break_circuit(self, place: int) -> None:
        circuit = self.circuits[place]
        if all(circuit.up):
            self.circuits[place] = circuit._replace(broken=True, queues=((), ()))

    def down(self, at: int, other: int) -> None:
        place = self.model.pair(at, other)
        circuit = self.circuits[place]
        up = list(circuit.up)
        up[at > other] = False
        self.circuits[place] = circuit._replace(up=(up[0], up[1]), broken=any(up))
        self.tree(at, CircuitDown(PATHS[other]))

    def connect(self, at: int, other: int) -> None:
        place = self.model.pair(at, other)
        self.circuits[place] = LedCircuit(up=(True, True))
        self.tree(other, CircuitUp(PATHS[at]))
        self.tree(at, CircuitUp(PATHS[other]))

    def take(self, source: int, at: int) -> None:
        place = self.model.pair(source, at)
        circuit = self.circuits[place]
        queues = list(circuit.queues)
        message, queues[source > at] = queues[source > at][0], queues[source > at][1:]
        self.circuits[place] = circuit._replace(queues=(queues[0], queues[1]))
        self.tree(at, TreeReceived(PATHS[source], message))

    def crash(self, at: int) -> None:
        agent = self.agents[at]
        self.agents[at] = LedAgentImage(TreeState(), agent.life + 1, agent.believes)
        for other in range(len(self.agents)):
            if other != at:
                place = self.model.pair(at, other)
                circuit = self.circuits[place]
                up = list(circuit.up)
                up[at > other] = False
                self.circuits[place] = LedCircuit((up[0], up[1]), broken=any(up))


class RegistrarModel:
    name: ClassVar = "registrar"
    about: ClassVar = (
        "agents of a led set that disagree about the registrar: no cycle, and in the end one leader"
    )
    plants: ClassVar = {
        "accept-always": "agents that do not lead accept children, too (TS10)",
        "keep-lost": "a child whose circuit broke stays listed (S-062)",
        "never-detach": "an agent that leaves a parent does not say so",
    }

    def __init__(self, bounds: RegistrarBounds | None = None, plant: str | None = None) -> None:
        self.bounds: RegistrarBounds = bounds or RegistrarBounds()
        self.plant = plant
        if not max(2, self.bounds.alone) <= self.bounds.agents <= len(NAMES):
            raise BadInput(f"agents is {self.bounds.agents}", fix=f"from 2 to {len(NAMES)}")
        cores: dict[str, type[TreeCore]] = {
            "accept-always": _AcceptsAlways,
            "keep-lost": _KeepsLost,
            "never-detach": _NeverDetaches,
        }
        self.core = cores.get(plant or "", TreeCore)
        places = range(self.bounds.agents)
        self._pairs = {
            frozenset(pair): place
            for place, pair in enumerate([(one, two) for one in places for two in places if one < two])
        }

    def pair(self, one: int, other: int) -> int:
        return self._pairs[frozenset((one, other))]

    def initial(self) -> RegistrarWorld:
        """The last agent is the registrar, and all know it but those that are alone."""
        number = self.bounds.agents
        agents = tuple([LedAgentImage(TreeState(), 1, number - 1) for _ in range(number)])
        step = _Step(self, RegistrarWorld(agents, (), (LedCircuit(),) * len(self._pairs), (0,) * len(VERBS)))
        for at in range(self.bounds.alone):
            step.believe(at, at)
            step.tree(at, MemberCame(MEMBER))
            while step.letters:
                step.letter(0)
        return step.done()

    def actions(self, state: RegistrarWorld) -> list[RegistrarAct]:
        limits = [getattr(self.bounds, bound) for bound in VERBS.values()]
        may = {verb for verb, spent, most in zip(VERBS, state.spent, limits, strict=True) if spent < most}
        found: list[RegistrarAct] = []
        for at, agent in enumerate(state.agents):
            record = agent.tree.record
            if "join" in may and (record is None or not record.local):
                found.append(RegistrarAct("join", at))
            if "leave" in may and record is not None and record.local:
                found.append(RegistrarAct("leave", at))
            if "crash" in may and record is not None:
                found.append(RegistrarAct("crash", at))
            if "believe" in may:
                others = [other for other in range(len(state.agents)) if other != agent.believes]
                found += [RegistrarAct("believe", at, other) for other in others]
            if "fire" in may:
                found += [RegistrarAct("fire", at, -1, timer) for timer in agent.timers]
        for place, letter in enumerate(state.letters):
            if letter not in state.letters[:place]:
                found.append(RegistrarAct("letter", place))
                if "lose" in may:
                    found.append(RegistrarAct("lose", place))
        found += self._of_circuits(state, may)
        return found

    def _of_circuits(self, state: RegistrarWorld, may: set[str]) -> list[RegistrarAct]:
        found = []
        for one, other in permutations(range(len(state.agents)), 2):
            circuit = state.circuits[self.pair(one, other)]
            if circuit.queues[one > other]:
                found.append(RegistrarAct("tree", one, other))
            if circuit.broken and circuit.up[one > other]:
                found.append(RegistrarAct("down", one, other))
            if one < other and circuit.wanted and not any(circuit.up):
                found.append(RegistrarAct("connect", one, other))
            if one < other and "cut" in may and all(circuit.up) and not circuit.broken:
                found.append(RegistrarAct("cut", one, other))
        return found

    def apply(self, state: RegistrarWorld, action: RegistrarAct) -> RegistrarWorld:
        step = _Step(self, state)
        verb, who, other, what = action
        if verb in VERBS:
            step.spent[list(VERBS).index(verb)] += 1
        match verb:
            case "join":
                step.tree(who, MemberCame(MEMBER))
            case "leave":
                step.tree(who, MemberWent(MEMBER.name))
            case "crash":
                step.crash(who)
            case "believe":
                step.believe(who, other)
            case "fire":
                step.fire(who, what)
            case "letter":
                step.letter(who)
            case "lose":
                step.letters.pop(who)
            case "tree":
                step.take(who, other)
            case "down":
                step.down(who, other)
            case "connect":
                step.connect(who, other)
            case "cut":
                step.break_circuit(self.pair(who, other))
        return step.done()

    def canonical(self, state: RegistrarWorld) -> RegistrarWorld:
        """Agents have addresses, and the highest is special: none are alike."""
        return state

    def violations(self, state: RegistrarWorld) -> Sequence[str]:
        states = self._states(state)
        wrong = [*no_cycle(states), *no_empty_record(states)]
        if not wrong and not self._is_under_way(state):
            wrong = self._in_the_end(state)
        return wrong

    def _states(self, state: RegistrarWorld) -> dict[Domain, TreeState]:
        return {PATHS[at]: agent.tree for at, agent in enumerate(state.agents)}

    def _is_under_way(self, state: RegistrarWorld) -> bool:
        return bool(state.letters) or any(
            circuit.broken or any(circuit.queues) or (circuit.wanted and not all(circuit.up))
            for circuit in state.circuits
        )

    def _in_the_end(self, state: RegistrarWorld) -> list[str]:
        """Everything that is due happens, in one order; all agents take the last one for the registrar."""
        step = _Step(self, state)
        for at in range(len(step.agents)):
            step.believe(at, len(step.agents) - 1)
        rounds = 0
        for _ in range(CALM_STEPS_MAX):
            now = step.done()
            free = [act for act in self.actions(now) if act.verb in ("letter", "tree", "down", "connect")]
            if free:
                step = _Step(self, self.apply(now, free[0]))
                continue
            timers = [(at, timer) for at, agent in enumerate(now.agents) for timer in agent.timers]
            rounds += 1
            if not timers or rounds > 24:
                break
            step.fire(*timers[rounds % len(timers)])
        states = self._states(step.done())
        wrong = one_leader(states)
        for at, agent in enumerate(step.agents):
            if agent.tree.record is not None and isinstance(agent.tree.record.standing, Leader):
                core = TreeCore(AgentId(PATHS[at], agent.life), CHESS, CONFIG, agent.tree)
                wrong += exact_list(core.entries, states)
        return wrong

    def words(self, action: RegistrarAct) -> Words:
        verb, who, other, what = action
        if verb in ("letter", "lose"):
            return (verb, str(who))
        names = [NAMES[place] for place in (who, other) if place >= 0]
        return (verb, *names, *([what] if what else []))

    def remark(self, state: RegistrarWorld, action: RegistrarAct) -> str:
        verb, who, other, _ = action
        if verb in ("letter", "lose"):
            letter = state.letters[who]
            return f"{NAMES[letter.source]} to {NAMES[letter.to]}: {shown(letter.letter)}"
        if verb == "tree":
            return shown(state.circuits[self.pair(who, other)].queues[who > other][0])
        return ""

    def told(self, state: RegistrarWorld, action: RegistrarAct) -> list[str]:
        before, after = state.agents, self.apply(state, action).agents
        lines = []
        for at, agent in enumerate(after):
            was, now = _place(before[at]), _place(agent)
            if was != now:
                lines.append(f"{NAMES[at]} {now}")
        return lines


def _place(agent: LedAgentImage) -> str:
    record = agent.tree.record
    match None if record is None else record.standing:
        case None:
            return "has no record"
        case Leader():
            return "leads"
        case Child(parent=parent):
            return f"is a child of {parent.removeprefix('eu.')}"
        case standing:
            return f"is in {type(standing).__name__}"


def _texts(group: Group) -> tuple[str, str]:
    return group.name, group.scope
