"""Storms over led sets: programs join, leave, die, ask and watch; servers and hosts crash; sites are cut.

    joins, leaves, deaths, questions ── crashes, cuts, pauses ──▶ clear ──▶ one leader with an exact list

Checked after every step of an agent: IS-1, the parents of a set form no cycle, and IS-2, no agent keeps an
empty record. When all is repaired, and programs still join and leave: P-4, every member that stays in one set
is listed by its leader. When they have stopped: P-1, all agents have the same registrar for a scope; P-2,
each set has one leader; P-3, its list is exact, `resolve` of an outsider gives it, and online members and
watchers have it; and nothing is left at agents and registrars of sets without members. One storm of four has
transient sets and sequences as well (`transient_deeds.py`).
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Final

from rostra.core.effects import Effect, Event, Received, TimerFired
from rostra.core.stack import Stack
from rostra.impair.quality import LineQuality, Uniform
from rostra.names import Domain, Endpoint, Group, inside
from rostra.observe.trace import CallAnswered
from rostra.protocols.led.agent import LED_AGENT, LedAgent
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.invariants import exact_list, no_cycle, no_empty_record, one_leader
from rostra.protocols.led.messages import CarriedLetter
from rostra.protocols.led.requests import JoinLed
from rostra.protocols.led.server import LED_SERVER
from rostra.protocols.led.state import TreeState
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Absolute, Done
from rostra.sim.network import LinkModel
from rostra.sim.outcome import StormOutcome
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.shapes import clusters
from rostra.sim.site_faults import SiteFaults, refused
from rostra.sim.taps import Invariants, RuleBroken, tapped
from rostra.sim.transient_deeds import TransientDeeds
from rostra.sim.world import World

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

CHESS: Final = Group("chess", Domain("eu"))
GO: Final = Group("go", Domain("eu"))
LOCAL: Final = Group("local", Domain("eu.fr"))
WORLD: Final = Group("all", Domain("world"))
SETS: Final = (CHESS, GO, LOCAL, WORLD)

DEEDS: Final = (
    *("join", "join", "join", "join", "leave", "leave", "kill", "rest", "rest", "ask", "watch"),
    *("crash", "restart", "crash_host", "restart", "cut_site", "heal", "heal", "pause", "resume"),
)

MOVE_S: Final = 1.5
"""Between two joins and leaves of those that move when all is repaired."""

CALM_S: Final = 150.0
"""So long after the last repair every set must have one leader and an exact list: claims, circuits and
registrars are back, and two leases are over."""

ANSWER_S: Final = 10.0
"""So long `resolve` of an outsider may take."""

FORGOTTEN_S: Final = 40.0
"""So long after the last member left, no agent and no registrar may know its set."""

SETTLED_S: Final = 1.0
"""Between two looks."""


class LedTrees:
    """A tap: IS-1 and IS-2, over the agents that live, whenever one of them stands otherwise."""

    def __init__(self) -> None:
        self.world: World
        self._seen: dict[tuple[Domain, Group], TreeState] = {}

    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None:
        led = stack.find(LED_AGENT)
        if led is None or not led.trees or not _is_led(event):
            return
        for group, tree in led.trees.items():
            if self._seen.get((path, group)) is tree.state:
                continue
            self._seen[path, group] = tree.state
            states = states_of(self.world, group)
            wrong = [*no_cycle(states), *no_empty_record(states)]
            if wrong:
                raise RuleBroken(f"{path} after {type(event).__name__} of {group}: {wrong[0]}")


def _is_led(event: Event) -> bool:
    match event:
        case Received(_, CarriedLetter()):
            return True
        case TimerFired(timer):
            return timer[0] == "led"
    return False


def agents_of(world: World) -> dict[Domain, LedAgent]:
    found = {}
    for path in world.tree.hosts:
        node = world.processes[path].node
        if node is not None and (led := node.stack.find(LED_AGENT)) is not None:
            found[path] = led
    return found


def states_of(world: World, group: Group) -> dict[Domain, TreeState]:
    return {path: led.trees[group].state for path, led in agents_of(world).items() if group in led.trees}


class SetStorm(SiteFaults):
    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        self.shows = {CallAnswered: self._answered}
        luck = self.luck = Random(f"sets {seed}")
        self.seed = seed
        wan = LineQuality(Uniform(0.005, luck.choice((0.01, 0.05, 0.2))), loss=luck.choice((0.0, 0.0, 0.05)))
        trees = LedTrees()
        tap, config = tapped(Invariants(every=7), trees), LedConfig(compressed=luck.random() < 0.5)

        def watching(path: Domain, stack: Stack) -> Stack:
            if (led := stack.find(LED_AGENT)) is not None:
                led.config = config
            return tap(path, stack)

        self.world = trees.world = World(
            seed,
            tree=clusters(self.sites),
            links=LinkModel(LineQuality(Uniform(0.0001, 0.001)), wan),
            timers=LinkConfig.lan().over_datagrams(),
            wire=luck.random() < 0.1,
            watching=watching,
            history=False,
            observers=(self,),
            journal=journal,
        )
        self.wanted: dict[tuple[SimProgram, Group], SimCall | None] = {}  # None: it is in
        self.watching: list[tuple[SimProgram, Group]] = []
        self.asked: list[SimCall] = []
        self.checks = 0
        has_more = seed % 4 == 2  # storms that failed once stay what they were
        self.more = TransientDeeds(self.world, Random(f"transient {seed}"), SETS) if has_more else None

    def blow_over(self) -> StormOutcome:
        world, luck = self.world, self.luck
        world.run(4.0)
        for _ in range(luck.choice((4, 6, 8))):
            self._join()
        world.run(luck.uniform(0.0, 6.0))
        pace_s = luck.choice((0.05, 0.5, 2.0, 6.0))
        for _ in range(luck.choice((8, 16, 24))):
            self._deed(luck.choice(DEEDS))
            if self.more is not None:
                self.more.deed()
                self.more.deed()
            world.run(luck.uniform(0.0, pace_s))
        self._clear()
        self._outsiders_agree()
        self._all_leave()
        return StormOutcome(world.now, world.packets, self.checks)

    # What programs do

    def _hosts(self, group: Group) -> list[Domain]:
        hosts = [host for host in self.world.tree.hosts if inside(group.scope, host)]
        return [host for host in hosts if self.world.processes[host].node is not None]

    def _program(self, group: Group) -> SimProgram | None:
        hosts = self._hosts(group)
        return self.world.program(self.luck.choice(hosts), f"p{len(self.world.programs)}") if hosts else None

    def _join(self) -> None:
        group = self.luck.choice((CHESS, CHESS, GO, LOCAL, WORLD))
        if (program := self._program(group)) is not None:
            self._enter(program, group)

    def _enter(self, program: SimProgram, group: Group) -> None:
        call = program.join_led(group, online=len(program.name) % 2 == 0)
        self.wanted[program, group] = None if call.result == Done() else call

    def _leave(self) -> None:
        members = [each for each, call in self.wanted.items() if call is None and each[0].alive]
        if members:
            program, group = self.luck.choice(members)
            del self.wanted[program, group]
            program.leave_led(group)

    def _ask(self) -> None:
        group = self.luck.choice(SETS)
        if (program := self._program(group)) is not None:
            self.asked.append(program.resolve(group))

    def _watch(self) -> None:
        group = self.luck.choice(SETS)
        if (program := self._program(group)) is not None:
            program.watch(group)
            self.watching.append((program, group))

    # Faults

    def _clear(self) -> None:
        self._mend()
        self._listed_while_others_move()
        until, held = self.world.now + CALM_S, 0
        while held < 3:
            for program, group in refused(self.wanted):
                self._enter(program, group)
            self.world.run(3.0)
            try:
                self._exact()
                held += 1
            except AssertionError:
                held = 0
                if self.world.now >= until:
                    raise

    def _listed_while_others_move(self) -> None:
        """P-4, of one set: on each host of it a program joins and leaves, and those that stay are listed all
        the same."""
        inside = [each for each, call in self.wanted.items() if call is None and each[0].alive]
        groups = sorted({group for _, group in inside})
        if not groups:
            return
        group = self.luck.choice(groups)
        stay = {program.address for program, at in inside if at == group}
        hosts = sorted({program.host for program, at in inside if at == group})
        movers = [self.world.program(host, f"m{len(self.world.programs)}") for host in hosts]
        until, held, turn = self.world.now + CALM_S, 0, 0
        while held < 2:
            turn += 1
            for mover in movers:
                mover.join_led(group) if turn % 2 else mover.leave_led(group)
            self.world.run(MOVE_S)
            self.checks += 1
            missing = sorted(stay - self._leaders_list(group))
            held = 0 if missing else held + 1
            assert self.world.now < until, f"P-4: {missing[0]} of {group} is on no leader's list"
        for mover in movers:
            mover.leave_led(group)

    def _leaders_list(self, group: Group) -> set[Endpoint]:
        """The leader's list; empty while there is no leader, or there are several."""
        trees = [led.trees[group] for led in agents_of(self.world).values() if group in led.trees]
        leading = [tree for tree in trees if tree.leads]
        if len(leading) != 1:
            return set()
        members = [(entry.origin, member) for entry in leading[0].entries for member in entry.members]
        return {Endpoint(f"{origin}/{member.name}") for origin, member in members}

    def _answered(self, at: float, host: Domain, answered: CallAnswered) -> None:
        call = answered.call
        assert isinstance(call, SimCall)
        if isinstance(call.request, JoinLed) and call.result == Done() and call.program is not None:
            joined = call.program, call.request.group
            if joined in self.wanted:
                self.wanted[joined] = None

    # When it is calm

    def _inside(self, group: Group) -> set[Endpoint]:
        return {program.address for (program, at) in self.wanted if at == group and program.alive}

    def _exact(self) -> None:
        agents = agents_of(self.world)
        for group in SETS:
            self.checks += 1
            registrars = {led.registrars.get(group.scope) for led in agents.values() if group in led.trees}
            assert len(registrars) <= 1, f"P-1: {group} has the registrars {registrars}"
            states, truth = states_of(self.world, group), self._inside(group)
            wrong = one_leader(states)
            assert not wrong, f"{wrong[0]} of {group}"
            for led in agents.values():
                if group in led.trees and led.trees[group].leads:
                    wrong = exact_list(led.trees[group].entries, states)
                    assert not wrong, f"{wrong[0]} of {group}"
            listed = self._leaders_list(group)
            assert listed == truth, f"P-3: {group} is {sorted(listed)}, not {sorted(truth)}"
            self._told(group, truth)
        if self.more is not None:
            self.more.check(agents)

    def _told(self, group: Group, truth: set[Endpoint]) -> None:
        for program, at in self.wanted:
            if at == group and program.alive and group in program.following:
                told = set(program.members(group))
                assert told == truth, f"{program} was told of {group}: {sorted(told)}, not {sorted(truth)}"
        for program, at in self.watching:
            if at == group and program.alive and group in program.watching:
                view = program.watched.groups[group]
                told = {member.endpoint for member in view.members}
                assert told == truth, f"{program} watches {group}: {sorted(told)}, not {sorted(truth)}"

    def _outsiders_agree(self) -> None:
        calls = []
        for group in SETS:
            program = self._program(group)
            assert program is not None, f"no host of {group} is there"
            calls.append((group, program.resolve(group)))
        self._within(ANSWER_S, lambda: [f"{group}" for group, call in calls if call.result is None])
        for group, call in calls:
            assert isinstance(call.result, Absolute), f"resolve of {group}: {call.result}"
            found = {member.endpoint for member in call.result.members}
            assert found == self._inside(group), f"resolve of {group}: {sorted(found)}"

    def _all_leave(self) -> None:
        for program, group in [each for each in self.wanted if each[0].alive]:
            program.leave_led(group)
        self.wanted.clear()
        if self.more is not None:
            self.more.end()
        left = self._within(FORGOTTEN_S, self._remains)
        # Nothing comes back: a lease later in some storms, since that takes as long as the storm itself.
        self.world.run(FORGOTTEN_S if self.seed % 8 == 0 else SETTLED_S)
        left = left or self._remains()
        assert not left, left[0]

    def _within(self, seconds: float, remain: Callable[[], list[str]]) -> list[str]:
        """What remains when the time is over; it ends as soon as nothing does."""
        until = self.world.now + seconds
        while (left := remain()) and self.world.now < until:
            self.world.run(SETTLED_S)
        return left

    def _remains(self) -> list[str]:
        agents = agents_of(self.world)
        left = [] if self.more is None else self.more.remains(agents)
        for path, led in agents.items():
            if led.trees or led.sets:
                left.append(f"{path} keeps {sorted(led.trees)} {sorted(led.sets)}")
        for path, process in self.world.processes.items():
            node = process.node
            server = None if node is None else node.stack.find(LED_SERVER)
            if server is not None and server.registrar.entries:
                left.append(f"IS-2: {path} keeps a leader")
        return left
