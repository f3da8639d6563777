"""Storms over agreed groups: programs join, leave and die while servers and hosts crash, and sites are cut.

    joins, leaves, deaths ── crashes, cuts, pauses ──▶ clear ──▶ one view for all, of those who are there

Checked at every view that a program is given:

    same-view      equal ids, equal lists and ranks; each member's views have growing numbers
    one-living     of a group whose rule lets one side live at most: no fence stands for two views

and when the storm is over, `every-change`: all members of a group have one view, of exactly the programs that
are in it, and none is blocked. This holds of groups whose rule lets one side live too: all hosts are back,
and have said which of those that the group waits for are dead.
"""

from random import Random
from typing import TYPE_CHECKING, Final

from rostra.core.observer import Reporter
from rostra.impair.quality import LineQuality, Uniform
from rostra.names import Domain, Endpoint, Group
from rostra.observe.trace import CallAnswered, ProgramGiven
from rostra.protocols.agreed.requests import JoinAgreed, MemberView
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Denied, Done
from rostra.sim.network import LinkModel
from rostra.sim.outcome import StormOutcome
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.shapes import clusters
from rostra.sim.taps import Invariants, tapped
from rostra.sim.world import World

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

CHESS: Final = Group("chess", Domain("eu"))
LEDGER: Final = Group("ledger", Domain("eu"))  # one side lives at most
LOCAL: Final = Group("local", Domain("eu.fr"))
WORLD: Final = Group("all", Domain("world"))
RULES: Final = {CHESS: "", LEDGER: "majority", LOCAL: "majority", WORLD: ""}

SERVERS: Final = ("eu.fr", "eu.de", "eu.it", "eu")
DEEDS: Final = (
    *("join", "join", "join", "leave", "kill", "rest", "rest"),
    *("crash", "restart", "crash_host", "restart", "cut_site", "cut_link", "heal", "heal", "pause", "resume"),
)

CALM_S: Final = 90.0
"""So long after the last repair all members must have one view: links come back, sets re-form, hosts say what
they hold."""


class ViewStorm(Reporter):
    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        self.shows = {ProgramGiven: self._given, CallAnswered: self._answered}
        luck = self.luck = Random(f"views {seed}")
        self.seed = seed
        wan = LineQuality(Uniform(0.005, luck.choice((0.01, 0.05, 0.2))), loss=luck.choice((0.0, 0.0, 0.05)))
        self.world = World(
            seed,
            tree=clusters({"eu.fr": 2, "eu.de": 2, "eu.it": 1, "us.ny": 1}),
            links=LinkModel(LineQuality(Uniform(0.0001, 0.001)), wan),
            timers=LinkConfig.lan().over_datagrams(),
            wire=luck.random() < 0.1,
            watching=tapped(Invariants(every=7)),
            history=False,
            observers=(self,),
            journal=journal,
        )
        self.lists: dict[tuple[Group, int, int, str], tuple[Endpoint, ...]] = {}
        self.fences: dict[tuple[Group, int], tuple[int, int, str]] = {}
        self.last: dict[tuple[SimProgram, Group], tuple[int, int]] = {}
        self.wanted: dict[tuple[SimProgram, Group], SimCall | None] = {}  # None: it is in
        self.views = 0

    def blow_over(self) -> StormOutcome:
        world, luck = self.world, self.luck
        world.run(4.0)
        for _ in range(luck.choice((4, 6, 8))):
            self._join()
        world.run(luck.uniform(0.0, 6.0))
        pace_s = luck.choice((0.05, 0.5, 2.0, 6.0))
        for _ in range(luck.choice((8, 16, 24))):
            getattr(self, f"_{luck.choice(DEEDS)}")()
            world.run(luck.uniform(0.0, pace_s))
        self._clear()
        self._one_view()
        return StormOutcome(world.now, world.packets, self.views)

    # What programs do

    def _join(self) -> None:
        group = self.luck.choice((CHESS, CHESS, LEDGER, LEDGER, LOCAL, WORLD))
        scope = group.scope
        hosts = [host for host in self.world.tree.hosts if scope == "world" or host.startswith(f"{scope}.")]
        hosts = [host for host in hosts if self.world.processes[host].node is not None]
        if hosts:
            program = self.world.program(self.luck.choice(hosts), f"p{len(self.world.programs)}")
            self._ask(program, group)

    def _ask(self, program: SimProgram, group: Group) -> None:
        call = program.join_agreed(group, survive=RULES[group])
        self.wanted[program, group] = None if call.result == Done() else call

    def _members(self) -> list[tuple[SimProgram, Group]]:
        return [each for each, call in self.wanted.items() if call is None and each[0].alive]

    def _leave(self) -> None:
        if members := self._members():
            program, group = self.luck.choice(members)
            if group in program.agreed:
                del self.wanted[program, group]
                program.leave_agreed(group)

    def _kill(self) -> None:
        alive = [program for program in self.world.programs if program.alive]
        if alive:
            self.luck.choice(alive).kill()

    # Faults

    def _rest(self) -> None:
        self.world.run(self.luck.choice((0.5, 5.0)))

    def _crash(self) -> None:
        server = self.luck.choice(SERVERS)
        if self.world.processes[Domain(server)].node is not None:
            self.world.crash(server)

    def _crash_host(self) -> None:
        host = self.luck.choice(self.world.tree.hosts)
        if self.world.processes[host].node is not None:
            self.world.crash(host)

    def _restart(self) -> None:
        down = [path for path, process in self.world.processes.items() if process.node is None]
        if down:
            self.world.restart(self.luck.choice(down))

    def _pause(self) -> None:
        path = self.luck.choice(sorted(self.world.processes))
        if self.world.processes[path].node is not None and not self.world.processes[path].paused:
            self.world.pause(path)

    def _resume(self) -> None:
        for path, process in self.world.processes.items():
            if process.paused:
                self.world.resume(path)

    def _cut_site(self) -> None:
        self.world.cut(self.luck.choice(("eu.fr", "eu.de", "eu.it", "eu.fr.h1", "us")))

    def _cut_link(self) -> None:
        one, other = self.luck.sample(SERVERS, 2)
        self.world.cut(f"link {one} | {other}")

    def _heal(self) -> None:
        self.world.heal()

    def _clear(self) -> None:
        self._resume()
        for path, process in list(self.world.processes.items()):
            if process.node is None:
                self.world.restart(path)
        self.world.heal()
        until, held = self.world.now + CALM_S, 0
        while self.world.now < until and held < 3:
            for (program, group), call in list(self.wanted.items()):
                if program.alive and call is not None and isinstance(call.result, Denied):
                    assert call.result.retriable, f"{program} was refused: {call.result}"
                    self._ask(program, group)
            self.world.run(3.0)
            try:
                self._one_view()
                held += 1
            except AssertionError:
                held = 0

    # What the world reports

    def _given(self, at: float, host: Domain, given: ProgramGiven) -> None:
        program, group, item = given.program, given.group, given.item
        if not isinstance(item, MemberView):
            return
        assert isinstance(program, SimProgram)
        self.views += 1
        members = program.agreed[group].members
        id = (item.number, item.revision, item.pid)
        known = self.lists.setdefault((group, *id), members)
        assert known == members, f"same-view: {group} {id} is {known}, and {members} at {program}"
        assert program.address in members, f"same-view: {program} has a view of {group} without itself"
        before = self.last.get((program, group), (0, 0))
        assert id[:2] >= before, f"same-view: {program} had {before} of {group}, and then {id}"
        self.last[program, group] = id[:2]
        if item.fence is not None:
            lived = self.fences.setdefault((group, item.fence), id)
            assert lived == id, f"one-living: fence {item.fence} of {group} is {lived}, and {id} at {program}"

    def _answered(self, at: float, host: Domain, answered: CallAnswered) -> None:
        call = answered.call
        assert isinstance(call, SimCall)
        if isinstance(call.request, JoinAgreed) and call.result == Done() and call.program is not None:
            self.wanted[call.program, call.request.group] = None

    # When it is calm

    def _one_view(self) -> None:
        for group in RULES:
            inside = [program for (program, at), call in self.wanted.items() if at == group and program.alive]
            addresses = {program.address for program in inside}
            for program in inside:
                stay = program.agreed.get(group)
                assert stay is not None, f"every-change: {program} is not in {group} any more"
                assert not stay.blocked, f"every-change: {program} is blocked in {group}: {stay.items[-1]}"
                assert set(stay.members) == addresses, (
                    f"every-change: {group} is {sorted(stay.members)} at {program}, not {sorted(addresses)}"
                )
            ids = {(view.number, view.pid) for each in inside if (view := each.agreed[group].view)}
            assert len(ids) <= 1, f"every-change: {group} has the views {sorted(ids)} in the end"
