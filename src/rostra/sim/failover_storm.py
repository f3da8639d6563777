"""Storms over agreed groups whose servers have replicas: leaders die one after the other, and no member does.

    members join ── the leader of a cluster's server dies, perhaps in the middle of a change, or cut off from
                    the other replicas first ──▶ the next one leads: no member was removed, all are in order

Two things would show that the new leader is not the server that the old one was: a view in which a member
failed, and one in which members that stayed changed places (D4, H10).
"""

from random import Random
from typing import TYPE_CHECKING, Final

from rostra.core.observer import Reporter
from rostra.names import Domain, Endpoint, Group
from rostra.observe.trace import ProgramGiven
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.links.config import LinkConfig
from rostra.sim.network import LAN
from rostra.sim.outcome import StormOutcome
from rostra.sim.programs import SimProgram
from rostra.sim.shapes import clusters
from rostra.sim.world import World

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

WIDE: Final = Group("ledger", Domain("eu"))
ANY: Final = Group("chess", Domain("eu"))
LOCAL: Final = Group("local", Domain("eu.fr"))
RULES: Final = {WIDE: "majority", ANY: "", LOCAL: "majority"}

REPLICATED: Final = ("eu.fr", "eu.de")
TAKEOVER_S: Final = 12.0


class FailoverStorm(Reporter):
    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        self.shows = {ProgramGiven: self._given}
        self.luck = Random(f"failover {seed}")
        self.seed = seed
        self.world = World(
            seed,
            tree=clusters({"eu.fr": 2, "eu.de": 2, "eu.it": 1}),
            links=LAN,
            timers=LinkConfig.lan().over_datagrams(),
            replicas=dict.fromkeys(REPLICATED[: self.luck.choice((1, 2))], 3),
            wire=self.luck.random() < 0.1,
            history=False,
            observers=(self,),
            journal=journal,
        )
        self.views = 0
        self.lists: dict[tuple[SimProgram, Group], tuple[Endpoint, ...]] = {}

    def blow_over(self) -> StormOutcome:
        world, luck = self.world, self.luck
        world.run(4.0)
        for host in world.tree.hosts:
            self._join(host, "app", [group for group in RULES if host.startswith(f"{group.scope}.")])
            world.run(0.5)
        world.run(3.0)
        for turn in range(luck.choice((1, 2))):
            self._join(luck.choice(world.tree.hosts), f"late{turn}", [luck.choice((WIDE, ANY))])
            world.run(luck.choice((0.0, 0.0005, 0.001, 0.002, 0.004, 0.01)))
            self._fail_over()
            self._all_are_there()
        return StormOutcome(world.now, world.packets, self.views)

    def _join(self, host: str, name: str, groups: list[Group]) -> None:
        program = self.world.program(host, name)
        self.world.run(0.1)
        for group in groups:
            program.join_agreed(group, survive=RULES[group])

    def _fail_over(self) -> None:
        """The leader dies. In half of the storms its last messages to the other replicas are lost."""
        world = self.world
        domain = Domain(self.luck.choice(sorted(world.replicas.of)))
        leader = world.replicas.leaders[domain]
        if self.luck.random() < 0.5:
            for other in world.replicas.of[domain]:
                if other != leader:
                    world.cut(f"link {leader} | {other}")
            world.run(self.luck.choice((0.002, 0.02, 0.2)))
        world.crash(leader)
        world.run(TAKEOVER_S)
        world.heal()
        world.restart(leader)
        world.run(3.0)

    def _given(self, at: float, host: Domain, given: ProgramGiven) -> None:
        program, group, item = given.program, given.group, given.item
        if not isinstance(item, MemberView):
            return
        assert isinstance(program, SimProgram)
        self.views += 1
        members = program.agreed[group].members
        before = self.lists.get((program, group), ())
        assert not item.failed, f"every-change: {item.failed} failed in {group}, as {program} was told"
        assert members[: len(before)] == before, f"same-view: {group} was {before}, and is {members}"
        self.lists[program, group] = members

    def _all_are_there(self) -> None:
        for group in RULES:
            inside = [program for program in self.world.programs if group in program.agreed]
            addresses = {program.address for program in inside}
            for program in inside:
                stay = program.agreed[group]
                assert not stay.blocked, f"every-change: {program} is blocked in {group}: {stay.items[-1]}"
                assert set(stay.members) == addresses, f"every-change: {group} is {stay.members} at {program}"
