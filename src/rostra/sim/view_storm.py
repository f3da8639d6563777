"""Storms over agreed groups: programs join, leave and die while servers and hosts crash, and sites are cut.

    joins, leaves, deaths ── crashes, cuts, pauses ──▶ clear ──▶ one view for all, of those who are there

Checked at every view that a program is given:

    same-view      equal ids, equal lists and ranks; each member's views have growing numbers, and of a group
                   without a rule without gaps: unless it was blocked, parts met, or it came back (V-097)
    one-living     of a group whose rule lets one side live at most: no fence stands for two views, and of two
                   members that live at this instant, neither is outside the other's later view

and when the storm is over, `every-change`: all members of a group have one view, of exactly the programs that
are in it, and none is blocked. This holds of groups whose rule lets one side live too: all hosts are back,
and have reported which of the members that the group waits for are dead.
"""

from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, ClassVar, Final

from rostra.impair.quality import LineQuality, Uniform
from rostra.names import Domain, Endpoint, Group
from rostra.observe.trace import CallAnswered, ProgramGiven
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.requests import JoinAgreed, MemberBlocked, MemberView
from rostra.protocols.atomic.requests import JoinOrdered
from rostra.protocols.fifo.events import Excluded
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Done
from rostra.sim.network import LinkModel
from rostra.sim.outcome import StormOutcome
from rostra.sim.programs import SimAgreed, SimCall, SimProgram
from rostra.sim.shapes import clusters
from rostra.sim.site_faults import SiteFaults, refused
from rostra.sim.taps import Invariants, Tap, tapped
from rostra.sim.world import World

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

CHESS: Final = Group("chess", Domain("eu"))
LEDGER: Final = Group("ledger", Domain("eu"))  # one side lives at most
LOCAL: Final = Group("local", Domain("eu.fr"))
WORLD: Final = Group("all", Domain("world"))
RULES: Final = {CHESS: "", LEDGER: "majority", LOCAL: "majority", WORLD: ""}

DEEDS: Final = (
    *("join", "join", "join", "leave", "kill", "rest", "rest"),
    *("crash", "restart", "crash_host", "restart", "cut_site", "cut_link", "heal", "heal", "pause", "resume"),
)

CALM_S: Final = 90.0
"""So long after the last repair all members must have one view: links come back, sets re-form, hosts say what
they hold."""


class ViewStorm(SiteFaults):
    rules: Mapping[Group, str] = RULES
    joined: tuple[Group, ...] = (CHESS, CHESS, LEDGER, LEDGER, LOCAL, WORLD)
    deeds: tuple[str, ...] = DEEDS
    word = "views"
    speaks: ClassVar = False  # are its groups spoken in?
    words: tuple[str, ...] = ()  # deeds of programs that speak, after each other one
    gapless: ClassVar = True  # are members told every view?
    taps: tuple[Tap, ...] = ()  # what else looks at every step
    replicas: Mapping[str, int] = {}
    agreed: ClassVar[AgreedConfig | None] = None  # settings of its groups

    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        self.shows = {ProgramGiven: self._given, CallAnswered: self._answered}
        luck = self.luck = Random(f"{self.word} {seed}")
        self.seed = seed
        wan = LineQuality(Uniform(0.005, luck.choice((0.01, 0.05, 0.2))), loss=luck.choice((0.0, 0.0, 0.05)))
        self.world = World(
            seed,
            tree=clusters(self.sites),
            links=LinkModel(LineQuality(Uniform(0.0001, 0.001)), wan),
            timers=LinkConfig.lan().over_datagrams(),
            wire=luck.random() < 0.1,
            watching=tapped(Invariants(every=7), *self.taps),
            history=self.speaks,
            fifo=self.speaks,
            observers=(self,),
            journal=journal,
            replicas=self.replicas,
            agreed=self._settings(seed),
        )
        self.lists: dict[tuple[Group, int, int, str], tuple[Endpoint, ...]] = {}
        self.fences: dict[tuple[Group, int], tuple[int, int, str]] = {}
        self.last: dict[tuple[SimProgram, Group], tuple[int, int, str]] = {}
        self.stood: dict[tuple[SimProgram, Group], bool] = {}  # was it blocked since its last view?
        self.wanted: dict[tuple[SimProgram, Group], SimCall | None] = {}  # None: it is in
        self.views = 0
        self.ended: list[tuple[SimProgram, Group]] = []  # with their side

    def _settings(self, seed: int) -> AgreedConfig | None:
        return self.agreed

    def _deed(self, deed: str) -> None:
        super()._deed(deed)
        for _ in range(self.luck.randrange(6) if self.words else 0):
            super()._deed(self.luck.choice(self.words))

    def blow_over(self) -> StormOutcome:
        world, luck = self.world, self.luck
        world.run(4.0)
        for _ in range(luck.choice((4, 6, 8))):
            self._join()
        world.run(luck.uniform(0.0, 6.0))
        pace_s = luck.choice((0.05, 0.5, 2.0, 6.0))
        for _ in range(luck.choice((8, 16, 24))):
            self._deed(luck.choice(self.deeds))
            world.run(luck.uniform(0.0, pace_s))
        self._clear()
        self._one_view()
        return StormOutcome(world.now, world.packets, self.views)

    # What programs do

    def _join(self) -> None:
        group = self.luck.choice(self.joined)
        scope = group.scope
        hosts = [host for host in self.world.tree.hosts if scope == "world" or host.startswith(f"{scope}.")]
        hosts = [host for host in hosts if self.world.processes[host].node is not None]
        if hosts:
            program = self.world.program(self.luck.choice(hosts), f"p{len(self.world.programs)}")
            self._ask(program, group)

    def _ask(self, program: SimProgram, group: Group) -> None:
        call = program.join_agreed(group, survive=self.rules[group])
        self.wanted[program, group] = None if call.result == Done() else call

    def _members(self) -> list[tuple[SimProgram, Group]]:
        return [each for each, call in self.wanted.items() if call is None and each[0].alive]

    def _leave(self) -> None:
        if members := self._members():
            program, group = self.luck.choice(members)
            if group in program.agreed:
                del self.wanted[program, group]
                program.leave_agreed(group)

    # Faults

    def _cut_link(self) -> None:
        one, other = self.luck.sample(self.servers, 2)
        self.world.cut(f"link {one} | {other}")

    def _clear(self) -> None:
        self._mend()
        self.world.make("", LineQuality(Uniform(0.0001, 0.02)))
        until, held = self.world.now + CALM_S, 0
        while self.world.now < until and held < 3:
            for program, group in refused(self.wanted):
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
        assert isinstance(program, SimProgram)
        if isinstance(item, MemberBlocked):
            self.stood[program, group] = True
        if not isinstance(item, MemberView):
            return
        self.views += 1
        members = program.agreed[group].members
        id = (item.number, item.revision, item.pid)
        known = self.lists.setdefault((group, *id), members)
        assert known == members, f"same-view: {group} {id} is {known}, and {members} at {program}"
        assert program.address in members, f"same-view: {program} has a view of {group} without itself"
        before = self.last.get((program, group), (0, 0, ""))
        assert id[:2] > before[:2] or id == before, (
            f"same-view: {program} had {before} of {group}, and then {id}"
        )
        is_told = item.parts or program.address in [who for who, _ in item.joined]
        was_blocked = self.stood.pop((program, group), False)
        assert not (self.gapless and before[0] and not self.rules[group]) or (
            item.number <= before[0] + 1 or was_blocked or is_told
        ), f"same-view: {program} had {before} of {group}, and then {id}"
        self.last[program, group] = id
        if item.fence is not None:
            lived = self.fences.setdefault((group, item.fence), id)
            assert lived == id, f"one-living: fence {item.fence} of {group} is {lived}, and {id} at {program}"
            self._one_lives(program, group)

    def _one_lives(self, program: SimProgram, group: Group) -> None:
        mine = program.agreed[group]
        for other in self.world.programs:
            theirs = other.agreed.get(group)
            if other is program or theirs is None or theirs.view is None or theirs.blocked:
                continue
            if not other.alive or self._stands_still(other.host):
                continue
            order = ((_fence(mine), program), (_fence(theirs), other))
            (fence, one), (later, by) = sorted(order, key=lambda each: each[0])
            assert one.address in by.agreed[group].members, (
                f"one-living: at {self.world.now:.3f} {one} lives in {group} with fence {fence}, and {by}"
                f" with fence {later} without it"
            )

    def _stands_still(self, host: Domain) -> bool:
        """And so do the programs on it."""
        process = self.world.processes[host]
        return process.paused or bool(process.inbox)

    def _answered(self, at: float, host: Domain, answered: CallAnswered) -> None:
        call = answered.call
        assert isinstance(call, SimCall)
        if (
            isinstance(call.request, JoinAgreed | JoinOrdered)
            and call.result == Done()
            and call.program is not None
        ):
            self.wanted[call.program, call.request.group] = None

    # When it is calm

    def _one_view(self) -> None:
        for group in self.rules:
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


def _fence(stay: SimAgreed) -> int:
    return stay.view.fence or 0 if stay.view is not None else 0


class LivingStorm(ViewStorm):
    """All groups let one side live at most, and processes stand still for about as long as a lease."""

    rules: Mapping[Group, str] = {LEDGER: "majority", LOCAL: "majority", WORLD: "has(rank 0)"}
    joined: tuple[Group, ...] = (LEDGER, LEDGER, LOCAL, WORLD)
    deeds: tuple[str, ...] = (
        *("join", "join", "leave", "kill", "rest"),
        *("crash", "restart", "cut_site", "cut_link", "cut_one_way", "cut_one_way", "heal", "heal"),
        *("stall", "stall", "stall", "reset"),
    )
    word = "living"

    def _stall(self) -> None:
        """SIGSTOP and SIGCONT of a server or a host: below, at and above every bound there is."""
        path = self.luck.choice([*self.servers, *self.world.tree.hosts])
        process = self.world.processes[Domain(path)]
        if process.node is not None and not process.paused:
            self.world.pause(path)
            length_s = self.luck.choice((0.3, 0.7, 0.8, 1.0, 1.2, 1.6, 3.0)) + self.luck.uniform(-0.1, 0.1)
            self.world.at(self.world.now + length_s, self._wake, path, process.life)

    def _wake(self, path: str, life: int) -> None:
        process = self.world.processes[Domain(path)]
        if process.life == life and process.paused:
            self.world.resume(path)

    def _cut_one_way(self) -> None:
        links = [line for line in self.world.lines() if not line.cut]
        if links:
            line = self.luck.choice(links)
            self.world.cut(f"{line.sender} > {line.to}" if line.sender != "world" else f"{line.to}")

    def _reset(self) -> None:
        self.world.reset(self.luck.choice((*self.servers, *self.world.tree.hosts)))


class SettledStorm(LivingStorm):
    """A side that does not live is ended soon, and what was ended joins again when all is repaired."""

    word = "settled"

    def _settings(self, seed: int) -> AgreedConfig:
        return AgreedConfig(settle_s=(1.0, 3.0, 9.0)[seed % 3])

    def _given(self, at: float, host: Domain, given: ProgramGiven) -> None:
        super()._given(at, host, given)
        program, group = given.program, given.group
        if isinstance(given.item, Excluded):
            assert isinstance(program, SimProgram)
            had_view = self.last.pop((program, group), None) is not None
            was_blocked = self.stood.pop((program, group), False)
            assert was_blocked or not had_view, f"one-living: {program} was ended in {group}, and lived"
            self.wanted.pop((program, group), None)
            self.ended.append((program, group))

    def _clear(self) -> None:
        self._mend()
        self.world.run(CALM_S / 2)
        for program, group in self.ended:
            if program.alive and (program, group) not in self.wanted:
                self._ask(program, group)
        super()._clear()


class PrimaryStorm(LivingStorm):
    """The server of the scope says who lives. That of `eu` has replicas."""

    rules: Mapping[Group, str] = {LEDGER: "primary", LOCAL: "primary", WORLD: "primary"}
    replicas: Mapping[str, int] = {"eu": 3}
    word = "primary"
