"""Storms over claims: first members of several kinds join one group at once, at different sites, while the
replicas of the scope's server die, stand still and lose sight of each other, and sites lose sight of it.

    joins of two or three kinds ── takeovers, cuts ──▶ clear ──▶ one kind; leaves ──▶ no claim

At every moment all members of strong kinds that were let in are of one kind. In the end every program was let
in, or refused with the kind that the group has; members of relaxed kinds are put out. When the last member
has left, the claim is gone, unless the group is permanent.
"""

from random import Random
from typing import TYPE_CHECKING, Final

from rostra.core.effects import Instant
from rostra.groups.kinds import FIFO, DeliveryKind, GroupKind, MembershipKind
from rostra.impair.quality import LineQuality, Uniform
from rostra.names import Domain, Group
from rostra.observe.trace import CallAnswered, ProgramTold
from rostra.protocols.agreed.requests import JoinAgreed
from rostra.protocols.claims.server import CLAIM_SERVER
from rostra.protocols.fifo.requests import Enter
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Denied, Done, Join, PutOut
from rostra.sim.network import LinkModel
from rostra.sim.outcome import StormOutcome
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.shapes import clusters
from rostra.sim.site_faults import SiteFaults
from rostra.sim.taps import Invariants, OneCopy, Scopes, tapped
from rostra.sim.world import World

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

EU: Final = Domain("eu")
CHESS: Final = Group("chess", EU)
KINDS: Final = (
    GroupKind(MembershipKind.AGREED, DeliveryKind.ATOMIC),
    GroupKind(MembershipKind.AGREED),
    GroupKind(MembershipKind.LED, DeliveryKind.FIFO),
    GroupKind(MembershipKind.RELAXED, DeliveryKind.ATOMIC),
)
VARIANTS: Final[dict[GroupKind | None, GroupKind | None]] = {
    KINDS[0]: GroupKind(MembershipKind.AGREED, survive="majority"),
    KINDS[2]: GroupKind(MembershipKind.AGREED, survive="any"),
}
"""In half of the storms: kinds that differ from another in nothing but their rule."""

FAULTS: Final = (
    *("crash", "crash", "isolate", "isolate", "isolate", "restart", "pause", "resume"),
    *("cut_replica", "cut_site", "heal", "rest"),
)

PATIENCE_S: Final = 60.0
"""So long after the last repair every join must have been answered: links come back, one replica leads, and
each claim is asked for again a few times."""


class Joiner:
    """A program that wants to be in the group, as a member of its kind, and asks until it is let in or
    refused for good."""

    def __init__(self, program: SimProgram, kind: GroupKind | None) -> None:
        self.program, self.kind = program, kind
        self.is_in = False
        self.refusal: Denied | None = None
        self.call: SimCall | None = None
        self.must_ask = False

    def ask(self) -> None:
        self.must_ask = False
        if self.kind == FIFO:
            call = self.program.join_fifo(CHESS)
        elif self.kind is not None and self.is_agreed:
            call = self.program.join_agreed(CHESS, survive=self.kind.survive)
        else:
            call = self.program.join(CHESS, kind=self.kind)
        self.call = call if call.result is None else None

    def leave(self) -> None:
        (self.program.leave_agreed if self.is_agreed else self.program.leave)(CHESS)

    @property
    def is_agreed(self) -> bool:
        """Is there a service for this kind? Of the others the simulated front claims
        the kind itself."""
        kind = self.kind
        return (
            kind is not None
            and kind.membership is MembershipKind.AGREED
            and kind.delivery is DeliveryKind.NONE
        )

    @property
    def is_strong(self) -> bool:
        return self.kind is not None and self.kind.is_claimed


class ClaimStorm(SiteFaults):
    faults: tuple[str, ...] = FAULTS
    deeds: tuple[int, ...] = (0, 1, 1, 2, 4)

    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        self.shows = {CallAnswered: self._answered, ProgramTold: self._told}
        luck = self.luck = Random(f"claims {seed}")
        self.seed = seed
        wan = LineQuality(Uniform(0.005, luck.choice((0.01, 0.05, 0.2))), loss=luck.choice((0.0, 0.0, 0.05)))
        tree = clusters({"eu.fr": 2, "eu.de": 2, "eu.it": 1})
        self.world = World(
            seed,
            tree=tree,
            replicas={"eu": luck.choice((3, 3, 3, 5))},
            links=LinkModel(LineQuality(Uniform(0.0001, 0.001)), wan),
            timers=LinkConfig.lan().over_datagrams(),
            fifo=True,
            wire=luck.random() < 0.1,
            watching=tapped(Scopes(tree), OneCopy(), Invariants(every=7)),
            journal=journal,
        )
        self.world.observe(self)
        self.joiners: list[Joiner] = []
        self.answers = 0
        self.permanent = luck.random() < 0.2

    def blow_over(self) -> StormOutcome:
        world, luck = self.world, self.luck
        world.run(4.0)
        kinds: list[GroupKind | None] = list(luck.sample(KINDS, luck.choice((2, 2, 3))))
        if Random(f"variants {self.seed}").random() < 0.5:
            kinds = [VARIANTS.get(each, each) for each in kinds]
        kinds += [luck.choice((None, FIFO, kinds[0], kinds[1])) for _ in range(luck.randrange(3))]
        places = zip(luck.sample(world.tree.hosts, len(kinds)), kinds, strict=True)
        self.joiners = [Joiner(world.program(host), kind) for host, kind in places]
        world.run(0.1)
        self._blow()
        self._clear()
        kind = self._one_kind()
        self._end(kind)
        return StormOutcome(world.now, world.packets, self.answers)

    def _blow(self) -> None:
        """First claims, and what happens to the replicas of their server at that moment."""
        world, luck = self.world, self.luck
        spread_s = luck.choice((0.0, 0.01, 0.1, 0.5))
        waiting = sorted([(luck.uniform(0.0, spread_s), number) for number in range(len(self.joiners))])
        began = world.now
        deeds = luck.choice(self.deeds)
        pace_s = luck.choice((0.002, 0.02, 0.1, 1.0, 3.0))
        while waiting or deeds:
            if waiting and (not deeds or luck.random() < 0.6):
                at, number = waiting.pop(0)
                world.run(max(0.0, began + at - world.now))
                self.joiners[number].ask()
            else:
                deeds -= 1
                world.run(luck.uniform(0.0, pace_s))
                getattr(self, f"_{luck.choice(self.faults)}")()
                self._ask_again()
        world.run(luck.uniform(0.0, pace_s))

    def _ask_again(self) -> None:
        for joiner in self.joiners:
            if joiner.must_ask:
                joiner.ask()

    # Faults

    def _crash(self) -> None:
        leader = self.world.replicas.leaders.get(EU)
        if leader is not None:
            self.world.crash(leader)

    def _isolate(self) -> None:
        """Cut the leader off from the other replicas, and not from its neighbours."""
        leader = self.world.replicas.leaders.get(EU)
        if leader is not None:
            for voter in self.world.replicas.of[EU]:
                if voter != leader:
                    self.world.cut(f"link {leader} | {voter}")

    def _restart(self) -> None:
        for voter in self.world.replicas.of[EU]:
            if self.world.processes[voter].node is None:
                self.world.restart(voter)

    def _pause(self) -> None:
        leader = self.world.replicas.leaders.get(EU)
        if leader is not None:
            self.world.pause(leader)

    def _cut_replica(self) -> None:
        one, other = self.luck.sample(self.world.replicas.of[EU], 2)
        self.world.cut(f"link {one} | {other}")

    def _cut_site(self) -> None:
        self.world.cut(f"link eu | {self.luck.choice(('eu.fr', 'eu.de', 'eu.it'))}")

    def _fill(self) -> None:
        """The disks of a few servers and replicas, perhaps of a majority of these."""
        servers = [*self.world.replicas.of[EU], "eu.fr", "eu.de", "eu.it"]
        for server in self.luck.sample(servers, self.luck.choice((1, 2, 3))):
            self.world.fill_disk(server)

    def _drain(self) -> None:
        for path, process in self.world.processes.items():
            if process.full:
                self.world.fill_disk(path, full=False)

    def _clear(self) -> None:
        self._drain()
        self._resume()
        self._restart()
        self.world.heal()
        until = self.world.now + PATIENCE_S
        while any(each.call or each.must_ask for each in self.joiners) and self.world.now < until:
            self._ask_again()
            self.world.run(1.0)
        self.world.run(10.0)
        for joiner in self.joiners:
            assert not joiner.call and not joiner.must_ask, f"{joiner.program} was never let in or refused"

    # What the world reports

    def _answered(self, at: Instant, node: Domain, answered: CallAnswered) -> None:
        call = answered.call
        if not isinstance(call.request, Join | Enter | JoinAgreed) or not self.joiners:
            return
        joiner = next(each for each in self.joiners if each.program is call.program)
        self.answers += 1
        joiner.call = None
        match call.result:
            case Done():
                joiner.is_in = True
                kinds = {str(each.kind) for each in self.joiners if each.is_in and each.is_strong}
                assert len(kinds) <= 1, f"{CHESS} has members of {' and of '.join(sorted(kinds))}"
            case Denied(retriable=True):
                joiner.must_ask = True
            case Denied() as refusal:
                joiner.refusal = refusal

    def _told(self, at: Instant, node: Domain, told: ProgramTold) -> None:
        if isinstance(told.notice, PutOut):
            joiner = next(each for each in self.joiners if each.program is told.program)
            joiner.is_in, joiner.refusal = False, told.notice.refusal

    # When it is calm

    def _claim(self) -> GroupKind | None:
        claim = self.world.processes[EU].stack[CLAIM_SERVER].table.get(CHESS.name)
        return None if claim is None else claim.group_kind

    def _one_kind(self) -> GroupKind:
        stands = self._claim()
        assert stands is not None, f"{CHESS} has no claim, and strong members"
        for joiner in self.joiners:
            if joiner.kind == FIFO:
                state = joiner.program.conversations.get(CHESS)
                assert state is None or state.state == "over", f"{joiner.program} still speaks"
            elif joiner.kind == stands:
                assert joiner.is_in, f"{joiner.program} asked for what {CHESS} is, and got {joiner.refusal}"
            else:
                assert not joiner.is_in, f"{joiner.program} is in {CHESS} as {joiner.kind}; it is {stands}"
                assert joiner.refusal is not None and joiner.refusal.code == "NOT_ALLOWED", joiner.refusal
                assert f"{CHESS} is {stands}" in joiner.refusal.what, joiner.refusal
        return stands

    def _end(self, stands: GroupKind) -> None:
        world = self.world
        if self.permanent:
            call = world.register(CHESS)
            world.run(2.0)
            assert isinstance(call.result, Done), call.result
        for joiner in self.joiners:
            if joiner.is_in:
                if self.luck.random() < 0.5:
                    joiner.leave()
                else:
                    joiner.program.kill()
        self.joiners = []
        world.run(15.0)
        assert self._claim() == (stands if self.permanent else None), f"{CHESS} is {self._claim()}"
        if self.permanent:
            world.unregister(CHESS)
            world.run(2.0)
            assert self._claim() is None, "a claim that nobody holds outlived its permanent group"


class DiskStorm(ClaimStorm):
    """The same, and disks of servers and replicas fill and drain. A server that stores on a full disk breaks
    off the storm (`SimNodes`); one that acknowledges what it did not store leaves two kinds, or none."""

    faults = (*FAULTS, "fill", "fill", "fill", "fill", "fill", "drain", "drain", "drain")
    deeds = (2, 4, 8)
