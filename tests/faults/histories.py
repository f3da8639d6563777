"""Histories in Jepsen's way: programs use one object under faults, and their answers must fit one order.

    make histories HOURS=1            virtual hours; a seed is ten minutes of one world
    python -m tests.faults.histories --hours 1 --seed 7

    callers ── register, counter, queue: a replicated object ──▶ `witnessed`, by its log; `blind`, by answers
    workers ── lock, and a store that refuses smaller fences ──▶ `lock`, `counter`
    faults  ── agents lost, paused and crashed, servers crashed, cuts, one-way cuts, loss

Each operation is written down when it is asked and when it is answered, in virtual time.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from msgspec.structs import replace

import rostra
from rostra.client.replica_core import STATE_LOST
from rostra.errors import RostraError
from rostra.testing import World
from rostra.testing.histories import (
    FINE,
    Behaviour,
    Finding,
    Operation,
    blind,
    counter,
    lock,
    queue,
    register,
    witnessed,
)

KEY_S: Final = 20.0
"""Keys are used for so long: the blind checker takes a few hundred operations of each."""

STEPS_MAX: Final = 300_000
"""Of the blind checker, for one key: with many operations in doubt it cannot tell."""

PLACES: Final = 1_000_000
"""A read of our replica has its place after the command that it saw, and before the next."""

DEEDS: Final = ("drop", "kill", "crash", "lonely crash", "cut", "one-way", "loss", "server", "pause")

BEHAVIOURS: Final[dict[str, Behaviour]] = {"register": register, "counter": counter, "queue": queue}


class Things(rostra.Replicated):
    """Its log says which operations were applied, those of which nobody was told among them."""

    def __init__(self) -> None:
        self.registers: dict[str, int | None] = {}
        self.counters: dict[str, int] = {}
        self.queues: dict[str, list[int]] = {}
        self.log: list[int] = []

    @rostra.command
    def write(self, nth: int, key: str, value: int) -> None:
        self.log.append(nth)
        self.registers[key] = value

    @rostra.command
    def read(self, nth: int, key: str) -> int | None:
        self.log.append(nth)
        return self.registers.get(key)

    @rostra.command
    def swap(self, nth: int, key: str, old: int | None, new: int) -> bool:
        self.log.append(nth)
        if self.registers.get(key) != old:
            return False
        self.registers[key] = new
        return True

    @rostra.command
    def add(self, nth: int, key: str, amount: int) -> int:
        self.log.append(nth)
        self.counters[key] = self.counters.get(key, 0) + amount
        return self.counters[key]

    @rostra.command
    def put(self, nth: int, key: str, value: int) -> None:
        self.log.append(nth)
        self.queues.setdefault(key, []).append(value)

    @rostra.command
    def take(self, nth: int, key: str) -> int | None:
        self.log.append(nth)
        waiting = self.queues.get(key)
        return waiting.pop(0) if waiting else None


class Store:
    """A resource that knows nothing of groups: it refuses a fence smaller than one that it has seen."""

    def __init__(self, *, is_fenced: bool = True) -> None:
        self.value, self.fence, self.is_fenced = 0, 0, is_fenced

    def read(self, fence: int) -> int:
        """The fence counts here too: what is read now must not be changed by an earlier holder."""
        self.fence = max(fence, self.fence)
        return self.value

    def write(self, value: int, fence: int) -> bool:
        if self.is_fenced and fence < self.fence:
            return False
        self.value, self.fence = value, max(fence, self.fence)
        return True


class Histories:
    """One world, its callers and workers, and what they saw."""

    def __init__(
        self,
        seed: int,
        *,
        hosts: tuple[str, ...] = ("paris.h1", "paris.h2", "paris.h3"),
        slow_s: float = 0.0,
        every_s: float = 6.0,
        is_fenced: bool = True,
        deeds: tuple[str, ...] = DEEDS,
        lasts_s: tuple[float, ...] = (0.2, 1.0, 3.0, 12.0),
        holds_s: tuple[float, ...] = (0.0, 0.1, 1.0, 6.0, 20.0),
    ) -> None:
        self.seed = seed
        self.luck = Random(f"histories {seed}")
        self.world = World({"paris": 3}, seed=seed)
        self.world.delay(slow_s)
        self.hosts = hosts  # of callers
        self.every_s = every_s
        self.possible, self.lasts_s, self.holds_s = deeds, lasts_s, holds_s
        self.is_fenced = is_fenced
        self.stores: dict[str, Store] = {}
        self.answered: dict[str, asyncio.Future[None]] = {}  # who waits for the next answer on a host
        self.lost = 0  # callers that were told that nobody has the state any more
        self.era = 0  # since it was lost last: of what was before nothing is promised any more
        self.refused = 0  # writes, for their fence
        self.paused: dict[str, list[float]] = {}  # agents that stood still, and since when
        self.numbers: dict[int, tuple[str, int]] = {}  # of operations on the replicated object
        self.tasks: dict[str, tuple[str, Callable[[str], Any], asyncio.Task[Any]]] = {}
        self.seen: dict[str, list[Operation]] = {name: [] for name in (*BEHAVIOURS, "lock", "store")}
        self.objects: dict[str, Things] = {}
        self.connected: dict[str, rostra.Me] = {}
        self.reads = 0
        self.values = 0
        self.until = 0.0
        self.deeds: list[str] = []

    # Programs

    def known(self, name: str, me: rostra.Me) -> rostra.Me:
        self.connected[name] = me
        return me

    async def caller(self, name: str) -> None:
        while True:
            try:
                await self.call_until_the_end(name)
            except RostraError as error:  # nobody can join while our host is cut off, for example
                if STATE_LOST in error.what:
                    self.lost += 1
                    self.era += 1
            await asyncio.sleep(1)

    async def call_until_the_end(self, name: str) -> None:
        luck = Random(f"{self.seed} {name} {self.world.now}")
        async with (
            rostra.connect(name=name) as me,
            self.known(name, me).replicate("things", Things(), "paris", checkpoint_every=50) as things,
        ):
            self.objects[name] = things
            while self.world.now < self.until:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(luck.choice((0.5, 5.0, 60.0))):
                        await self.operate(name, things, luck)
                await asyncio.sleep(luck.expovariate(4))
            await asyncio.sleep(10_000)

    async def operate(self, name: str, things: Things, luck: Random) -> None:
        key = f"{self.era}/{int(self.world.now // KEY_S)}/{luck.randrange(2)}"
        self.values += 1
        match luck.randrange(8):
            case 0 | 1:
                await self.command(name, "counter", things, "add", key, luck.randrange(1, 4))
            case 2:
                await self.command(name, "queue", things, "put", key, self.values)
            case 3:
                await self.command(name, "queue", things, "take", key)
            case 4:
                await self.command(name, "register", things, "write", key, self.values % 5)
            case 5:
                await self.command(name, "register", things, "read", key)
            case 6:
                await self.command(
                    name, "register", things, "swap", key, (luck.randrange(5), self.values % 5)
                )
            case _:
                await self.fresh_read(name, things, key)

    async def command(
        self, name: str, model: str, things: Things, what: str, key: str, given: Any = None
    ) -> None:
        args = () if given is None else given if isinstance(given, tuple) else (given,)
        history, place, nth = self.seen[model], len(self.seen[model]), self.values
        history.append(Operation(name, key, what, given, None, self.world.now))
        self.numbers[nth] = (model, place)
        got = await getattr(things, what)(nth, key, *args)
        history[place] = replace(history[place], got=got, done=self.world.now)
        answered = self.answered.pop(self.tasks[name][0], None)
        if answered is not None and not answered.done():
            answered.set_result(None)

    async def fresh_read(self, name: str, things: Things, key: str) -> None:
        history, place = self.seen["register"], len(self.seen["register"])
        history.append(Operation(name, key, "read", None, None, self.world.now))
        await things.fresh()
        self.reads += 1
        history[place] = replace(
            history[place],
            got=things.registers.get(key),
            done=self.world.now,
            position=len(things.log) * PLACES + self.reads,
        )

    async def worker(self, name: str) -> None:
        """Adds to what is in the store, under a lock: reads, waits, writes with its fence."""
        luck = Random(f"{self.seed} {name} {self.world.now}")
        host = self.tasks[name][0]
        async with rostra.connect(name=name) as me:
            self.known(name, me)
            while self.world.now < self.until:
                with contextlib.suppress(RostraError):
                    await self.turn(me, name, host, luck)
                await asyncio.sleep(luck.expovariate(1))

    async def turn(self, me: rostra.Me, name: str, host: str, luck: Random) -> None:
        world, locks, adds = self.world, self.seen["lock"], self.seen["store"]
        key = f"store-{int(world.now // (3 * KEY_S))}"
        store = self.stores.setdefault(key, Store(is_fenced=self.is_fenced))
        asked = world.now
        async with me.lock(key, "paris") as held:
            # A turn that did not come is no operation: nobody held anything.
            locks.append(Operation(name, key, "take", None, held.fence, asked, world.now))
            began, value = world.now, store.read(held.fence)
            try:
                await asyncio.sleep(luck.choice(self.holds_s))
            finally:
                # If its agent stood still, it cannot know that it is too late: it writes all the same.
                if store.write(value + 1, held.fence):
                    adds.append(Operation(name, key, "add", 1, value + 1, began, world.now))
                else:
                    self.refused += 1
                paused = [at for at in self.paused.get(host, ()) if began <= at]
                locks.append(Operation(name, key, "free", None, None, min([*paused, world.now]), world.now))

    # Faults

    async def faults(self) -> None:
        while self.world.now < self.until - 20:
            await asyncio.sleep(self.luck.expovariate(1 / self.every_s))
            await self.deed()

    async def deed(self) -> None:
        world, luck = self.world, self.luck
        host = luck.choice(self.hosts)
        what = luck.choice(self.possible)
        self.deeds.append(f"{world.now:.1f} {what} {host}")
        some_s = luck.choice(self.lasts_s)
        match what:
            case "drop":
                world.drop(host)
            case "kill":
                await self.kill(luck.choice(sorted(self.tasks)))
            case "crash":
                await self.crash(host, some_s)
            case "lonely crash":
                world.cut(host)
                await self.crash(host, some_s)
                world.heal()
            case "cut":
                world.cut(f"{host} | paris")
                await asyncio.sleep(some_s)
                world.heal()
            case "one-way":
                world.cut(luck.choice((f"{host} > paris", f"paris > {host}")))
                await asyncio.sleep(some_s)
                world.heal()
            case "loss":
                world.lose(0.2)
                await asyncio.sleep(some_s)
                world.lose(0.0)
            case "server":
                world.crash("paris")
                await asyncio.sleep(some_s)
                world.restart("paris")
            case "pause":
                host = luck.choice(world.hosts)
                self.paused.setdefault(host, []).append(world.now)
                world.pause(host)
                await asyncio.sleep(some_s)
                world.resume(host)

    async def kill(self, name: str) -> None:
        """As by kill -9: nothing is said any more; another program of that name comes."""
        host, program, task = self.tasks[name]
        if (me := self.connected.pop(name, None)) is not None:
            me._connection._connection.abort("killed")  # before it could say that it leaves
        task.cancel()
        self.objects.pop(name, None)
        with contextlib.suppress(asyncio.CancelledError, RostraError):
            await task
        await asyncio.sleep(self.luck.random())
        self.begin(host, name, program)

    async def crash(self, host: str, for_s: float) -> None:
        """With its agent and all its programs, right after one of them was answered, if that is soon; others
        come in their place."""
        answered = self.answered[host] = asyncio.get_running_loop().create_future()
        await asyncio.wait([answered], timeout=2)
        lost = [(name, program) for name, (where, program, _) in sorted(self.tasks.items()) if where == host]
        for name, _ in lost:
            self.objects.pop(name, None)
        self.world.crash(host)
        await asyncio.sleep(for_s)
        self.world.restart(host)
        for name, program in lost:
            self.begin(host, name, program)

    def begin(self, host: str, name: str, program: Callable[[str], Any]) -> None:
        self.tasks[name] = (host, program, self.world.start(host, program(name)))

    # A run

    def run(self, for_s: float, *, callers: int = 4, workers: int = 3) -> "Histories":
        self.until = self.world.now + for_s
        for nth in range(callers):
            self.begin(self.hosts[nth % len(self.hosts)], f"caller-{nth}", self.caller)
        for nth in range(workers):
            self.begin(f"paris.h{nth % 3 + 1}", f"worker-{nth}", self.worker)
        deeds = self.world.loop.create_task(self.faults())
        self.world.run(for_s=for_s + 120)
        deeds.result()
        self.world.close()
        return self

    @property
    def count(self) -> int:
        return sum(map(len, self.seen.values()))

    @property
    def in_doubt(self) -> int:
        return sum(each.done is None for history in self.seen.values() for each in history)

    def place(self) -> None:
        """Give operations their places in the log that the replicas have at last."""
        log = max((object_.log for object_ in self.objects.values()), key=len, default=[])
        for position, nth in enumerate(log, 1):
            model, place = self.numbers[nth]
            self.seen[model][place] = replace(self.seen[model][place], position=position * PLACES)

    def findings(self) -> Iterable[tuple[str, Finding]]:
        self.place()
        for name, behaviour in BEHAVIOURS.items():
            history = [each for each in self.seen[name] if each.key.startswith(f"{self.era}/")]
            yield f"{name}, witnessed", witnessed(history, behaviour)
            unplaced = [replace(each, position=None) for each in history]
            yield f"{name}, blind", blind(unplaced, behaviour, steps_max=STEPS_MAX)
        yield "lock", blind(self.seen["lock"], lock)
        yield "store", blind(self.seen["store"], counter)
        states = {object_.snapshot() for object_ in self.objects.values()}
        yield "replicas", FINE if len(states) < 2 else Finding(False, f"{len(states)} different states")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.histories", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="of virtual time")
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--minutes", type=float, default=10.0, help="of each world")
    options = parser.parse_args(arguments)
    bad = operations = 0
    began = time.monotonic()
    for seed in range(options.seed, options.seed + max(1, round(options.hours * 60 / options.minutes))):
        run = Histories(seed).run(options.minutes * 60)
        operations += run.count
        wrong = [(name, found) for name, found in run.findings() if found.ok is False]
        for name, found in wrong:
            print(f"seed {seed}: {name}: {found.ok} {found.why}: {found.operation}")
        bad += bool(wrong)
        print(
            f"seed {seed}: {run.count} operations, {run.in_doubt} in doubt, {len(run.deeds)} faults,"
            f" {run.refused} writes refused by their fence, {run.lost} told that the state is lost,"
            f" {len(wrong)} findings",
            flush=True,
        )
    print(f"{operations} operations, {bad} worlds with findings, {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
