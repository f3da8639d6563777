"""Storms with a hostile node: one agent, or one server beside others, sends arbitrary messages; in half of
them a hostile program does the same to the front of an agent (`hostile_program.py`).

    blow ── programs come, go, speak and ask; the liar lies to all its neighbours ──▶ quiet ──▶ blow ...
         ── the liar ends ──▶ compare with the twin, judge `harm-stays-below`

The liar is a real node with real links, whose own core runs on beside the lies. There is no other fault in
such a world, so any loss of others is the doing of one of the two; programs on the host of the hostile
program count as others, with a quota of their own. Datagrams are not forged: a host has the key of its LAN
and can send for all of it, until each host has a key of its own.
"""

from random import Random
from typing import TYPE_CHECKING, Final

from rostra.core.effects import Instant, Send
from rostra.core.observer import Reporter
from rostra.core.stack import Stack
from rostra.errors import TooLarge
from rostra.groups.attributes import Role
from rostra.impair.quality import LineQuality, Uniform
from rostra.names import ROOT, Domain, Endpoint, Group, inside
from rostra.observe.trace import ProgramTold
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.front.config import FrontConfig, ShareLimits
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import Denied, Done, Life, Message, NotDelivered
from rostra.sim.harm import Below, harm_stays_below, outside
from rostra.sim.history import AnyRecord, Settled
from rostra.sim.hostile_program import NAME, UID, HostileProgram
from rostra.sim.lies import KINDS, Lies
from rostra.sim.network import LinkModel
from rostra.sim.outcome import StormOutcome
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.rest import PROBE, Comparison
from rostra.sim.taps import Invariants, tapped
from rostra.sim.world import World

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

CHAT: Final = Group("chat", ROOT)  # in which there is speech
QUIET_S: Final = 8.0
"""After so long without a word of the liar, others must see each other as if it were not there."""

USER: Final = 1001
"""Whose programs the others are: not the agent's own, so that they are bounded by what is free."""

FRONT: Final = FrontConfig(
    limits=ShareLimits(programs_max=200, endpoints_max=400, memberships_max=400, questions_max=1_000),
    answer_records_max=1_000,
)
"""So small that a greedy program comes up against it; the others never do."""

TREES: Final[tuple[dict[str, int], ...]] = (
    {"s1": 2, "s2": 2, "s3": 2},
    {"eu.c1": 2, "eu.c2": 2, "us.c1": 2},
    {"eu.c1": 3, "eu.c2": 2, "us": 2},
)

CHURN: Final = (
    *("start", "start", "join", "join", "leave", "watch", "resolve", "resolve", "kill"),
    *("speak", "speak", "say", "say", "hush", "send", "watch_life", "watch_life"),
)


FRAME_STEPS: Final = 1_024
"""In one turn of a front: a program may ask for hundreds of things in one frame, which is read as a whole."""


def protocol_of(seed: int) -> str | None:
    """What the liar of this storm lies about: in a quarter of the storms all protocols, else one of them."""
    luck = Random(f"protocol {seed}")
    return None if luck.random() < 0.25 else luck.choice(sorted(KINDS))


class HostileStorm(Reporter):
    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        self.shows = {ProgramTold: self._told}
        luck = self.luck = Random(f"hostile {seed}")
        self.seed = seed
        tree = luck.choice(TREES)
        lan = LineQuality(Uniform(0.0001, 0.002))
        wan = LineQuality(Uniform(0.005, luck.choice((0.01, 0.1))))
        self.below = ROOT
        outer = tapped(Invariants(every=16))

        def watching(path: Domain, stack: Stack) -> Stack:
            return stack if inside(self.below, path) else outer(path, stack)

        self.below = self._liar(tree)
        self.world = World(
            seed,
            domains=tree,
            links=LinkModel(lan, wan),
            data=LinkModel(lan, wan),
            timers=LinkConfig.lan().over_datagrams(),
            fifo=FifoConfig(resume_s=luck.choice((0.5, 30.0))),
            front=FRONT,
            turn_steps=FRAME_STEPS,
            watching=watching,
            observers=(self,),
            journal=journal,
        )
        scopes = [ROOT, *self.world.tree.domains]
        self.groups = [Group(name, scope) for name in ("chess", "go") for scope in sorted(set(scopes))]
        self.lies = Lies(luck, self.world, self.below, (*self.groups, CHAT), protocol_of(seed))
        self.comparison = _Comparison(self.world, self.is_harmed)
        self.comparisons = 0
        self.calls: list[SimCall] = []
        self.intruder: HostileProgram | None = None
        self._sent: set[tuple[Endpoint, bytes]] = set()
        self._named = 0

    def _liar(self, tree: dict[str, int]) -> Domain:
        """A host's agent, a cluster's server, or the server of a domain that has siblings."""
        clusters = sorted(tree)
        cluster = self.luck.choice(clusters)
        return Domain(
            self.luck.choice((f"{cluster}.h1", f"{cluster}.h1", cluster, cluster.partition(".")[0]))
        )

    def blow_over(self) -> StormOutcome:
        self.world.settle()
        for host in self._hosts():
            self._start(host)
        if (program := Random(f"program {self.seed}")).random() < 0.5:
            lies = Lies(program, self.world, self.below, (*self.groups, CHAT))
            self.intruder = HostileProgram(program, self.world, program.choice(self._hosts()), lies)
        for _ in range(self.luck.choice((2, 4))):
            self._blow(self.luck.choice((10, 30)))
            self._quiet()
        self._end_of_the_liar()
        history = self.world.history
        assert history is not None
        verdict = harm_stays_below(history, self.is_harmed, complete=True)
        assert not verdict.broken, f"{verdict}: {verdict.where}"
        return StormOutcome(self.world.now, self.world.events, self.comparisons, (verdict,))

    def is_harmed(self, path: str) -> bool:
        """Is this endpoint or domain below the liar, or of the hostile program?"""
        return inside(self.below, path) or (
            self.intruder is not None and path.startswith(f"{self.intruder.host}/{NAME}")
        )

    # The liar

    def _lie(self) -> None:
        process = self.world.processes[self.below]
        node = process.node
        assert node is not None
        for _ in range(self.luck.choice((1, 3, 10, 30))):
            peer = self.luck.choice(sorted(process.lines))
            if self.luck.random() < 0.1:
                packet = self.lies.packet()
                if packet is not None:
                    self.world.network.put_on(process.lines[peer], packet)
            elif node.is_up(peer) and (message := self.lies.message()) is not None:
                node._perform([Send(peer, message)], [])
                self.world.nodes.dirty[process] = None

    # Others, and the liar's own programs

    def _hosts(self) -> list[Domain]:
        return list(self.world.tree.hosts)

    def _blow(self, gusts: int) -> None:
        for _ in range(gusts):
            if self.luck.random() < 0.5:
                self._lie()
            else:
                getattr(self, f"_{self.luck.choice(CHURN)}")()
            if self.intruder is not None and self.world.processes[self.intruder.host].node is not None:
                self.intruder.act()
            self.world.run(self.luck.choice((0.0, 0.001, 0.05, 0.4)))

    def _alive(self, *, speaks: bool = False) -> list[SimProgram]:
        return [
            program
            for program in self.world.programs
            if program.alive
            and program.endpoint is not None
            and program.name != PROBE
            and (
                not speaks
                or (CHAT in program.conversations and program.conversations[CHAT].state in ("joining", "in"))
            )
        ]

    def _some(self, *, speaks: bool = False) -> SimProgram | None:
        alive = self._alive(speaks=speaks)
        return self.luck.choice(alive) if alive else None

    def _start(self, host: Domain | None = None) -> None:
        self._named += 1
        program = self.world.program(host or self.luck.choice(self._hosts()), f"p{self._named}", uid=USER)
        self.calls.append(program.join(self._group(program.host)))

    def _group(self, host: Domain) -> Group:
        return self.luck.choice([group for group in self.groups if inside(group.scope, host)])

    def _join(self) -> None:
        if program := self._some():
            self.calls.append(program.join(self._group(program.host)))

    def _leave(self) -> None:
        if (program := self._some()) and program.online:
            self.calls.append(program.leave(self.luck.choice(sorted(program.online))))

    def _watch(self) -> None:
        if program := self._some():
            self.calls.append(program.watch(self._group(program.host)))

    def _resolve(self) -> None:
        if program := self._some():
            self.calls.append(program.resolve(self._group(program.host)))

    def _kill(self) -> None:
        if program := self._some():
            self.world.kill(program)

    def _speak(self) -> None:
        program = self._some()
        if program is not None and CHAT not in program.conversations and len(self._alive(speaks=True)) < 8:
            role = self.luck.choice((Role.BOTH, Role.BOTH, Role.RECEIVE))
            refused = program.join_fifo(CHAT, role=role).result
            if refused is not None and not isinstance(refused, Done):
                # Its agent believes the liar, which is the server above it, that the group is permanent.
                assert inside(self.below, program.host), f"{program} was refused: {refused}"
            elif role.sends:
                program.stream(CHAT, 0.1, phase_s=self.luck.random() * 0.1)

    def _say(self) -> None:
        program = self._some(speaks=True)
        if program is not None and program.conversation(CHAT).role.sends:
            program.say(CHAT, *(b"%d" % number for number in range(self.luck.choice((1, 30)))))

    def _hush(self) -> None:
        if program := self._some(speaks=True):
            program.hush(CHAT)

    def _send(self) -> None:
        if (program := self._some()) and (other := self._some()):
            data = b"%d" % len(self._sent)
            self._sent.add((program.address, data))
            self.calls.append(program.send(data, other))

    def _watch_life(self) -> None:
        if (program := self._some()) and (other := self._some()):
            self.calls.append(program.watch_life(other))

    # Items and notices of others, as they come: the storm observes its world

    def _told(self, at: Instant, node: Domain, told: ProgramTold) -> None:
        program, notice = told.program, told.notice
        if inside(self.below, program.host):
            return
        match notice:
            case Message(source=source, data=data) if not self.is_harmed(source):
                assert (source, data) in self._sent, f"{program} got a message in the name of {source}"
            case Life(endpoint=endpoint, alive=False, why=why):
                assert not self._lives(endpoint), f"{program} was told that {endpoint} is dead: {why}"
            case NotDelivered(destinations=destinations, why=why):
                for each in destinations:
                    assert not self._lives(each), f"{program} was told that {each} is out of reach: {why}"

    def _lives(self, endpoint: Endpoint) -> bool:
        """Is it of others, and there?"""
        return not self.is_harmed(endpoint) and any(
            each.alive and each.endpoint == endpoint for each in self.world.programs
        )

    # Calm

    def _quiet(self) -> None:
        """The liar sends nothing. What it has claimed about itself may stand."""
        self.world.run(QUIET_S)
        self.world.write(Settled)
        self.comparisons += 1

    def _others_were_answered(self) -> None:
        """A program that asked about a group with members of the liar waits for the answer, or its end."""
        for call in self.calls:
            assert call.program is not None
            if call.program.alive and not inside(self.below, call.program.host):
                assert call.result is not None, f"{call.program} was never answered {call.request}"
                is_crowded = isinstance(call.result, Denied) and call.result.code == TooLarge.code
                assert not is_crowded, f"{call.program} had no share: {call.result}"

    def _end_of_the_intruder(self) -> None:
        """What it held is free again, and no other program's share is smaller for it."""
        if (intruder := self.intruder) is None or self.world.processes[intruder.host].node is None:
            return
        intruder.end()
        self.world.run(0.0)
        shares = intruder.front.core.shares
        assert f"uid {UID}" not in shares.users, "it is gone, and holds something"
        for what in ("programs", "endpoints", "memberships", "questions"):
            held = sum(getattr(user, what) for user in shares.users.values())
            assert held == getattr(shares.all, what), f"{what} are counted that nobody holds"

    def _end_of_the_liar(self) -> None:
        world = self.world
        self._end_of_the_intruder()
        for path in world.tree.servers:
            if inside(self.below, path):
                world.crash(path)
        for program in self._alive(speaks=True):
            program.hush(CHAT)
        world.run(QUIET_S)
        world.settle()
        self._others_were_answered()
        self.comparison.check()
        self.comparisons += 1
        for path, process in world.processes.items():
            if not inside(self.below, path):
                registry = (process.stack.find(AGENT) or process.stack[SERVER]).registry
                assert not registry.records(), f"{path} has permanent groups that nobody registered"


class _Comparison(Comparison):
    """The comparison with the twin, for nodes outside the liar's subtree."""

    def __init__(self, world: World, below: Below) -> None:
        super().__init__(world)
        self._below = below

    def fresh(self, records: list[AnyRecord]) -> list[AnyRecord]:
        return outside(records, self._below)

    def seen(self, members: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        return tuple([each for each in members if not self._below(each)])

    def counts(self, group: Group) -> bool:
        return group != CHAT and not group.name.startswith(NAME)
