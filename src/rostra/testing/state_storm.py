"""Storms over programs with state: the real library, in a world where hosts and servers crash and are cut.

    keepers ── join with give= and take= ──▶ a chain of digests over all that they are given ── equal?
    workers ── async for mine in me.shares(...) ──▶ who holds which key ── twice at once? all, in the end?

Checked while it blows:

    state       what a joiner takes is, byte for byte, what its donor had at that position; from there on its
                chain is that of the others in this line: one begins with who founds the group, or is first
                when all that had the state are gone. Those who go on together from a view have one chain;
                what a member was given in the view in which it was lost counts with ``stable="all"`` and
                "majority"
    one-holder  no key is held by two workers at once, unless the agent of one stands still: it cannot know

and when the storm is over: all keepers are in the group, and have one chain; each key is held, if there is a
worker. Every fifth seed is in negotiated order, every third one of the others has ``stable="sent"``.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, msgpack

from rostra.client.connect import connect
from rostra.client.ordered import Ordered
from rostra.errors import RostraError
from rostra.groups.items import Message, StateAsked, View
from rostra.names import Domain
from rostra.sim import WAN
from rostra.sim.outcome import StormOutcome
from rostra.testing.world import World

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

SITES: Final = {"eu.fr": 2, "eu.de": 2, "eu.it": 1}
SERVERS: Final = ("eu.fr", "eu.de", "eu")
CUTS: Final = ("eu.fr", "eu.de | eu.fr", "eu.it", "eu.fr.h1", "eu.de.h1 > eu.de")
KEYS: Final = tuple([f"key-{n}" for n in range(8)])

DEEDS: Final = (
    *("join", "join", "join", "kill", "leave", "say", "say", "rest"),
    *("strike_donor", "strike_donor", "crash_host", "crash", "restart", "restart"),
    *("cut", "heal", "heal", "pause", "resume", "drop", "lose", "lossless"),
)

CALM_S: Final = 90.0
"""So long after the last repair all keepers must have one chain, and all keys a holder."""

STRIKE_S: Final = 20.0
"""So long a blow waits for a donor to give."""


class Kept(Struct, frozen=True, array_like=True):
    """The state of a keeper. The filling follows from the chain, so every byte can be checked."""

    donor: str
    line: str
    position: int
    chain: bytes
    filling: bytes


class StateJudge:
    """Compares what keepers have. The first thing that does not hold is kept: programs go on meanwhile."""

    def __init__(self, *, tails: bool) -> None:
        self.tails = tails  # does what a lost member was given last not count?
        self.broken = ""
        self.taken = 0
        self.messages = 0
        self._chains: dict[tuple[str, Any, Any, int], bytes] = {}  # by line, view, the next view, position
        self._had: dict[tuple[str, int], bytes] = {}  # by keeper and position

    def breaks(self, what: str) -> None:
        self.broken = self.broken or what

    def has(self, keeper: "Keeper") -> None:
        self.keeps(keeper)
        self.messages += 1
        if not self.tails:
            self._compare(keeper, keeper.view, None, keeper.position, keeper.chain)

    def keeps(self, keeper: "Keeper") -> None:
        self._had[keeper.name, keeper.position] = keeper.chain

    def goes_on(self, keeper: "Keeper", view: Any) -> None:
        if self.tails:
            for position, chain in keeper.tail:
                self._compare(keeper, keeper.view, view, position, chain)

    def _compare(self, keeper: "Keeper", view: Any, following: Any, position: int, chain: bytes) -> None:
        known = self._chains.setdefault((keeper.line, view, following, position), chain)
        if known != chain:
            self.breaks(f"state: {keeper.name} has another chain than others at {position} of view {view}")

    def takes(self, keeper: "Keeper", kept: Kept) -> None:
        self.taken += 1
        had = self._had.get((kept.donor, kept.position), b"")
        if kept.chain != had or kept.filling != filling_of(kept.chain, len(kept.filling)):
            self.breaks(f"state: {keeper.name} takes what {kept.donor} did not have at {kept.position}")


def filling_of(chain: bytes, size: int) -> bytes:
    return (blake2b(chain).digest() * (size // 64 + 1))[:size]


class Keeper:
    """A program in the group, with state: joins again whenever it is out."""

    def __init__(self, storm: "StateStorm", name: str, host: str, form: str, size: int) -> None:
        self.storm, self.name, self.host = storm, name, host
        self.form, self.size = form, size
        self.line, self.position, self.chain = "", 0, b""
        self.founded = 0
        self.view: Any = None
        self.tail: list[tuple[int, bytes]] = []  # since the last view
        self.group: Ordered | None = None
        self.me: Any = None
        self.is_in = False
        self.has_taken = False  # since it came, and before its first view
        self.said = 0

    async def live(self) -> None:
        storm = self.storm
        while True:
            with contextlib.suppress(RostraError):
                async with (
                    connect(name=self.name, rejoin_within_s=None) as self.me,
                    self.me.join(
                        *("notes", "eu"),
                        membership="agreed",
                        delivery="atomic",
                        survive=storm.survive,
                        order=storm.order,
                        stable=storm.stable,
                        give=None if self.form == "asked" else self.give,
                        take=self.take,
                    ) as self.group,
                ):
                    await self._read(self.group)
                return
            self.is_in = False
            await asyncio.sleep(0.5)

    async def _read(self, group: Ordered) -> None:
        async for item in group:
            match item:
                case View(id=id, joined=joined):
                    self._sees(id, self.me.endpoint in joined and id != self.view)  # one may be shown again
                case Message(sender, body, number, position=position):
                    self._apply(position, f"{sender} {number} ".encode() + body)
                case StateAsked(give=give):
                    for piece in self._pieces():
                        await give(piece)

    def _sees(self, id: Any, is_new: bool) -> None:
        if not is_new:
            self.storm.judge.goes_on(self, id)
        elif not self.has_taken:  # the group has no state but ours: with it a line begins
            self.position, self.founded = 0, self.founded + 1
            self.line = f"{self.name}/{self.founded}"
            self.storm.judge.keeps(self)
        self.view, self.tail, self.is_in, self.has_taken = id, [], True, False

    def _apply(self, position: int, what: bytes) -> None:
        if position <= self.position:
            self.storm.judge.breaks(f"state: {self.name} is given {position}, and has {self.position}")
        self.position = position
        self.chain = blake2b(self.chain + f"{position} ".encode() + what, digest_size=16).digest()
        self.tail.append((position, self.chain))
        self.storm.judge.has(self)

    def give(self) -> Any:
        pieces = self._pieces()
        if self.form == "bytes":
            return b"".join(pieces)
        return pieces if self.form == "pieces" else _slowly(pieces)

    def _pieces(self) -> list[bytes]:
        self.storm.gives(self)
        filling = filling_of(self.chain, self.size)
        state = msgpack.encode(Kept(self.name, self.line, self.position, self.chain, filling))
        return [state[at : at + 50_000] for at in range(0, len(state), 50_000)]

    def take(self, state: bytes) -> None:
        kept = msgpack.decode(state, type=Kept)
        self.storm.judge.takes(self, kept)
        self.line, self.position, self.chain, self.has_taken = kept.line, kept.position, kept.chain, True
        self.storm.judge.keeps(self)

    async def say(self, count: int, size: int) -> None:
        group = self.group
        with contextlib.suppress(RostraError):
            if group is not None and self.is_in:
                self.said += count
                await group.send_many([f"{self.said + n}".encode().ljust(size) for n in range(count)])


async def _slowly(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        await asyncio.sleep(0.05)
        yield piece


class Worker:
    """Uses its share of the keys, a while at a time."""

    def __init__(self, storm: "StateStorm", name: str, host: str) -> None:
        self.storm, self.name, self.host = storm, name, host
        self.held: frozenset[str] = frozenset()
        self.me: Any = None

    async def live(self) -> None:
        while True:
            try:
                async with connect(name=self.name, rejoin_within_s=None) as self.me:
                    async for mine in self.me.shares("work", KEYS, "eu"):
                        self.held = mine
                        self.storm.holds(self)
                        await asyncio.sleep(self.storm.luck_of_workers.choice(self.storm.uses_s))
            except RostraError:
                self.held = frozenset()
            await asyncio.sleep(0.5)


Program = Keeper | Worker


class StateStorm:
    deeds: tuple[str, ...] = DEEDS

    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        luck = self.luck = Random(f"states {seed}")
        self.luck_of_workers = Random(f"workers {seed}")
        self.uses_s = (
            (0.0, 0.1, 1.0) if seed % 10 == 4 else (0.0, 0.1)
        )  # a share, before a worker looks again
        self.order: Any = "negotiated" if seed % 5 == 4 else "hub"
        self.survive = "any" if seed % 4 == 1 else "majority"
        self.stable: Any = "sent" if seed % 3 == 2 else "all"
        if self.order == "hub" and self.survive == "majority" and seed % 6 == 0:
            self.stable = "majority"
        self.shares = seed % 2 == 0
        links = WAN.losing(luck.choice((0.0, 0.0, 0.05)))
        self.world = World(SITES, seed=seed, links=links, journal=journal)
        self.judge = StateJudge(tails=self.order == "negotiated" or self.stable == "sent")
        self.programs: dict[str, tuple[Program, asyncio.Task[None]]] = {}
        self.donors: list[Keeper] = []  # who gave last
        self.paused: set[str] = set()
        self.named = 0

    # A run

    def blow_over(self) -> StormOutcome:
        try:
            return self._blow_over()
        except BaseException:
            with contextlib.suppress(Exception):  # what is found first counts
                self.world.close()
            raise

    def _blow_over(self) -> StormOutcome:
        luck = self.luck
        for _ in range(3):
            self._join()
            self._run(luck.uniform(0.0, 2.0))
        if self.shares:
            for host in luck.sample(self.world.hosts, 3):
                self._begin(Worker(self, self._name("w"), host))
        pace_s = luck.choice((0.05, 0.5, 2.0))
        for _ in range(luck.choice((8, 16, 24))):
            getattr(self, f"_{luck.choice(self.deeds)}")()
            self._say()
            self._run(luck.uniform(0.0, pace_s))
        self._clear()
        return StormOutcome(self.world.now, self.world.sim.packets, self.judge.messages)

    def _run(self, for_s: float) -> None:
        self.world.run(for_s=for_s)
        assert not self.judge.broken, self.judge.broken

    def _clear(self) -> None:
        world = self.world
        self._lossless()
        self._resume()
        for path, process in list(world.sim.processes.items()):
            if process.node is None:
                self._up(path)
        world.heal()
        self._calm_down()
        for keeper in self._keepers():
            self._speaks(keeper, 2, 10)
        self._run(3.0)
        self._calm_down()

    def _calm_down(self) -> None:
        until, odd = self.world.now + CALM_S, "?"
        while odd and self.world.now < until:
            self._run(3.0)
            odd = self._unlike() or self._apart()
        assert not odd, odd

    def _unlike(self) -> str:
        """What is not yet as it has to be when it is calm. A worker may be in doubt for a moment."""
        keepers = self._keepers()
        for each in keepers:
            members = 0 if each.group is None else len(each.group.members)
            if not each.is_in or members != len(keepers):
                return f"states: {each.name} sees {members} of {len(keepers)} keepers"
        workers = [each for each, _ in self.programs.values() if isinstance(each, Worker)]
        unheld = set(KEYS).difference(*[each.held for each in workers])
        return f"one-holder: {sorted(unheld)} are held by none" if workers and unheld else ""

    def _apart(self) -> str:
        chains = {(each.position, each.chain) for each in self._keepers()}
        return "" if len(chains) <= 1 else f"state: {len(chains)} chains in the end"

    # Programs

    def _name(self, kind: str) -> str:
        self.named += 1
        return f"{kind}{self.named}"

    def _begin(self, program: Program) -> None:
        task = self.world.start(program.host, program.live())
        self.programs[program.name] = program, task

    def _keepers(self) -> list[Keeper]:
        return [each for each, _ in self.programs.values() if isinstance(each, Keeper)]

    def _join(self) -> None:
        hosts = [host for host in self.world.hosts if self.world.sim.processes[host].node is not None]
        if hosts and len(self._keepers()) < 6:
            form = self.luck.choice(("bytes", "pieces", "slowly", "slowly", "asked"))
            size = self.luck.choice((0, 1_000, 200_000, 1_500_000))
            self._begin(Keeper(self, self._name("k"), self.luck.choice(hosts), form, size))

    def _some(self) -> Program | None:
        names = sorted(self.programs)
        return self.programs[self.luck.choice(names)][0] if names else None

    def _kill(self, program: Program | None = None) -> None:
        """As by kill -9."""
        program = program or self._some()
        if program is not None:
            if program.me is not None:
                program.me._connection._connection.abort("killed")
            self._end(program.name)

    def _leave(self) -> None:
        program = self._some()
        if program is not None:
            self._end(program.name)

    def _end(self, name: str) -> None:
        program, task = self.programs.pop(name)
        task.cancel()
        if isinstance(program, Worker):
            program.held = frozenset()
            self._begin(Worker(self, self._name("w"), program.host))

    def _say(self) -> None:
        for keeper in self._keepers():
            if self.luck.random() < 0.5:
                self._speaks(keeper, self.luck.choice((1, 5, 40)), self.luck.choice((10, 10, 3_000)))

    def _speaks(self, keeper: Keeper, count: int, size: int) -> None:
        self.world.start(keeper.host, keeper.say(count, size))

    # What they report

    def gives(self, keeper: Keeper) -> None:
        self.donors.append(keeper)

    def holds(self, worker: Worker) -> None:
        for other, _ in self.programs.values():
            if isinstance(other, Worker) and other is not worker and worker.held & other.held:
                if other.host in self.paused or worker.host in self.paused:
                    continue
                twice = sorted(worker.held & other.held)
                self.judge.breaks(f"one-holder: {worker.name} and {other.name} hold {twice}")

    # Faults

    def _strike_donor(self) -> None:
        """A joiner comes; its donor dies, perhaps with its host, when it has begun to give."""
        self.donors.clear()
        self._join()
        until = self.world.now + STRIKE_S
        while not self.donors and self.world.now < until:
            self._run(0.05)
        if self.donors:
            self._run(self.luck.choice((0.0, 0.05, 0.3)))
            donor = self.donors[-1]
            if self.luck.random() < 0.5 and donor.name in self.programs:
                self._kill(donor)
            else:
                self._down(donor.host)

    def _down(self, path: str) -> None:
        if self.world.sim.processes[Domain(path)].node is not None:
            for program in [each for each, _ in self.programs.values() if each.host == path]:
                self.programs.pop(program.name)
            self.paused.discard(path)
            self.world.crash(path)

    def _up(self, path: str) -> None:
        self.world.restart(path)
        if self.shares and path in self.world.hosts:
            self._begin(Worker(self, self._name("w"), path))

    def _crash_host(self) -> None:
        self._down(self.luck.choice(self.world.hosts))

    def _crash(self) -> None:
        self._down(self.luck.choice(SERVERS))

    def _restart(self) -> None:
        down = [path for path, process in self.world.sim.processes.items() if process.node is None]
        if down:
            self._up(self.luck.choice(down))

    def _rest(self) -> None:
        self._run(self.luck.choice((0.5, 5.0)))

    def _cut(self) -> None:
        self.world.cut(self.luck.choice(CUTS))

    def _heal(self) -> None:
        self.world.heal()

    def _pause(self) -> None:
        path = self.luck.choice([*SERVERS, *self.world.hosts])
        process = self.world.sim.processes[Domain(path)]
        if process.node is not None and not process.paused:
            self.world.pause(path)
            self.paused.add(path)

    def _resume(self) -> None:
        for path, process in self.world.sim.processes.items():
            if process.paused:
                self.world.resume(path)
        self.paused.clear()

    def _drop(self) -> None:
        self.world.drop(self.luck.choice(self.world.hosts))

    def _lose(self) -> None:
        self.world.lose(self.luck.choice((0.02, 0.2)))

    def _lossless(self) -> None:
        self.world.lose(0.0)
