"""Replicated objects in pretended worlds, on groups with one order: exactly once, equal, never a hang."""

import asyncio
import contextlib
from collections import Counter as Counts
from collections.abc import Iterator

import pytest

import rostra
from examples.counter import Counter
from rostra.client.replica_core import NOT_SURE
from rostra.errors import BadInput, NotMember
from rostra.impair.quality import LineQuality, Uniform
from rostra.testing import World


class Ledger(rostra.Replicated):
    def __init__(self) -> None:
        self.sums: dict[str, int] = {}
        self.lines: list[str] = []

    @rostra.command
    def credit(self, who: str, cents: int = 1) -> int:
        self.lines.append(who)
        if cents < 0:
            raise ValueError(f"{cents} is less than nothing")
        self.sums[who] = self.sums.get(who, 0) + cents
        return self.sums[who]

    @rostra.command
    def rename(self, who: str, *, to: str, twice: bool = False) -> str:
        self.sums[to * (2 if twice else 1)] = self.sums.pop(who)
        return to

    @rostra.command
    def all(self) -> dict[str, int]:
        return self.sums


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 2}, seed=3)
    yield world
    world.close()


class Till:
    """A program with a replica, that takes so many coins and stays."""

    def __init__(self, name: str, coins: int) -> None:
        self.name, self.coins = name, coins
        self.ledger = Ledger()
        self.sums: list[int] = []
        self.is_done = False
        self.items: list[object] = []

    async def run(self) -> None:
        async with (
            rostra.connect(name=self.name) as me,
            me.replicate("ledger", self.ledger, "paris", checkpoint_every=10) as ledger,
        ):
            watching = asyncio.create_task(self.watch())
            for _ in range(self.coins):
                self.sums.append(await ledger.credit(self.name))
                await asyncio.sleep(0.01)
            await ledger.fresh()
            self.is_done = True
            await watching

    async def watch(self) -> None:
        async for item in self.ledger.items():
            self.items.append(item)


def start(world: World, *tills: Till) -> None:
    for till in tills:
        world.start("paris.h1", till.run())


def test_the_counter_of_the_examples_counts_at_all_members(world: World) -> None:
    totals: list[int] = []

    async def visit() -> None:
        async with rostra.connect() as me, me.replicate("visits", Counter(), scope="paris") as counter:
            totals.append(await counter.add(1))
            await asyncio.sleep(5)
            await counter.fresh()
            assert counter.total == 3

    for _ in range(3):
        world.start("paris.h1", visit())
    world.run(for_s=20)

    assert sorted(totals) == [1, 2, 3]


def test_replicas_are_equal_and_a_joiner_has_what_was_before(world: World) -> None:
    first, second, third = Till("ann", 50), Till("ben", 50), Till("cem", 5)
    start(world, first, second)
    world.run(for_s=3)
    start(world, third)
    world.run(for_s=3)

    assert all(till.is_done for till in (first, second, third))
    assert first.ledger.sums == second.ledger.sums == third.ledger.sums == {"ann": 50, "ben": 50, "cem": 5}
    assert first.ledger.lines == second.ledger.lines == third.ledger.lines
    assert first.sums == list(range(1, 51))
    assert not [item for item in first.items if isinstance(item, rostra.ReplicaDiverged)]


def test_commands_in_flight_when_the_agent_is_lost_are_applied_exactly_once(world: World) -> None:
    tills = [Till("ann", 60), Till("ben", 60)]
    start(world, *tills)
    world.run(for_s=0.8)
    for _ in range(4):  # the programs come back with other endpoints, in the middle of commands
        world.drop("paris.h1")
        world.run(for_s=0.3)
    world.run(for_s=60)

    assert all(till.is_done for till in tills)
    assert tills[0].ledger.lines == tills[1].ledger.lines
    assert Counts(tills[0].ledger.lines) == {"ann": 60, "ben": 60}
    assert tills[0].sums == tills[1].sums == list(range(1, 61))


def test_a_replica_that_came_again_before_the_others_saw_it_go_is_given_the_state(world: World) -> None:
    """The agreed view without it gets no place, while a newcomer is waited for, which dies: then the next one
    is as the last was."""
    first, lost = Till("ann", 5), Till("cem", 1)
    again = [Ledger(), Ledger()]
    go = asyncio.Event()

    async def twice() -> None:
        async with rostra.connect(name="ben") as me:
            async with me.replicate("ledger", again[0], "paris"):
                await go.wait()
            async with me.replicate("ledger", again[1], "paris"):
                await again[1].credit("ben")
                await asyncio.sleep(1000)

    start(world, first)
    world.run(for_s=2)
    world.start("paris.h1", twice())
    world.run(for_s=2)
    world.sim.make("", LineQuality(Uniform(0.0001, 0.001), loss=1.0), "data")
    world.start("paris.h2", lost.run())
    world.run(for_s=1)
    go.set()
    world.run(for_s=2)
    world.crash("paris.h2")
    world.run(for_s=20)

    assert again[1].sums == first.ledger.sums == {"ann": 5, "ben": 1}


def test_what_a_command_raises_is_raised_at_its_caller_and_replicas_stay_equal(world: World) -> None:
    ledgers = [Ledger(), Ledger()]
    raised: list[str] = []

    async def one(ledger: Ledger) -> None:
        async with rostra.connect() as me, me.replicate("ledger", ledger, "paris"):
            try:
                await ledger.credit("ann", cents=-1)
            except ValueError as error:
                raised.append(str(error))
            await asyncio.sleep(2)

    for ledger in ledgers:
        world.start("paris.h1", one(ledger))
    world.run(for_s=5)

    assert raised == ["-1 is less than nothing"] * 2
    assert ledgers[0].lines == ledgers[1].lines == ["ann", "ann"]


def test_a_result_is_a_copy_and_arguments_are_checked_before_they_are_sent(world: World) -> None:
    async def one() -> None:
        async with rostra.connect("paris.h1") as me, me.replicate("ledger", Ledger(), "paris") as ledger:
            await ledger.credit("ann")
            (await ledger.all())["ann"] = 99
            assert ledger.sums == {"ann": 1}
            with pytest.raises(BadInput, match="arguments of credit"):
                await ledger.credit("ann", "much")  # type: ignore[arg-type]
        with pytest.raises(NotMember):
            await ledger.credit("ann")

    world.run(one())


def test_a_command_may_have_arguments_by_name_alone_and_says_which_are_missing(world: World) -> None:
    async def one() -> None:
        async with rostra.connect("paris.h1") as me, me.replicate("ledger", Ledger(), "paris") as ledger:
            await ledger.credit("ann", cents=5)
            assert await ledger.rename("ann", to="eve", twice=True) == "eve"
            assert ledger.sums == {"eveeve": 5}
            with pytest.raises(TypeError, match=r"rename\(\): missing a required argument: 'to'"):
                await ledger.rename("eveeve")  # type: ignore[call-arg]

    world.run(one())


def test_a_replica_that_was_changed_behind_the_back_of_the_order_is_named(world: World) -> None:
    tills = [Till("ann", 5), Till("ben", 2), Till("cem", 2)]
    for till in tills:
        start(world, till)
        world.run(for_s=1)
    tills[1].ledger.sums["ben"] += 1
    more = Till("dan", 5)
    start(world, more)
    world.run(for_s=3)

    named = [item for item in tills[0].items if isinstance(item, rostra.ReplicaDiverged)]
    assert len(named) == 1
    assert [each.rpartition("/")[2].partition("#")[0] for each in named[0].endpoints] == ["ben"]


def test_a_state_that_no_joiner_could_read_is_refused_at_once(world: World) -> None:
    class Sets(rostra.Replicated):
        def __init__(self) -> None:
            self.seen = {1}

    async def one() -> None:
        async with rostra.connect("paris.h1") as me:
            with pytest.raises(BadInput, match="seen"):
                async with me.replicate("sets", Sets(), "paris"):
                    pass
            with pytest.raises(BadInput, match="Replicated"):
                me.replicate("sets", object(), "paris")  # type: ignore[type-var]

    world.run(one())


def test_a_key_is_held_by_one_member_at_a_time_and_handed_over_when_it_was_let_go(world: World) -> None:
    keys = [f"shard-{n}" for n in range(12)]
    held: dict[int, frozenset[str]] = {}

    async def worker(nth: int, for_s: float) -> None:
        async with rostra.connect() as me:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(for_s):
                    async for mine in me.shares("work", keys, "paris"):
                        held[nth] = mine
                        twice = [
                            key
                            for key, n in Counts(k for each in held.values() for k in each).items()
                            if n > 1
                        ]
                        assert not twice
                        await asyncio.sleep(0.3)  # we go on with what is no longer ours until we come back
            held.pop(nth)

    for nth in range(3):
        world.start("paris.h1", worker(nth, 20 - 5 * nth))
        world.run(for_s=3)
        assert sorted(key for each in held.values() for key in each) == sorted(keys)
        assert len(held) == nth + 1 and all(held.values())
    world.run(for_s=8)
    assert sorted(key for each in held.values() for key in each) == sorted(keys)


@pytest.mark.parametrize(
    ("sites", "cut", "hosts"),
    [
        ({"paris": 3}, "paris.h3 | paris", ("paris.h1", "paris.h2", "paris.h3")),
        ({"eu.fr": 2, "eu.de": 1}, "eu.de", ("eu.fr.h1", "eu.fr.h2", "eu.de.h1")),
    ],
    ids=["one cluster", "two clusters"],
)
def test_a_replica_that_was_out_does_not_go_on_when_all_who_went_on_are_dead(
    sites: dict[str, int], cut: str, hosts: tuple[str, ...]
) -> None:
    """The host of one is given up, the others are answered more, and die: what it has is too little."""
    world = World(sites, seed=3)
    scope = next(iter(sites)).partition(".")[0]
    ledgers = [Ledger(), Ledger(), Ledger()]
    told: list[str] = []

    async def one(ledger: Ledger, count: int) -> None:
        try:
            async with rostra.connect() as me, me.replicate("ledger", ledger, scope):
                for _ in range(count):
                    await ledger.credit("ann", 1)
                    await asyncio.sleep(0.5)
                async for _ in ledger.items():
                    pass
        except rostra.RostraError as error:
            told.append(error.what)

    for host, ledger, count in zip(hosts, ledgers, (2, 100, 0), strict=True):
        world.start(host, one(ledger, count))
        world.run(for_s=2)
    world.cut(cut)
    world.run(for_s=20)
    world.crash(hosts[0])
    world.crash(hosts[1])
    answered = ledgers[1].sums["ann"]
    world.heal()
    world.restart(hosts[0])
    world.restart(hosts[1])
    world.run(for_s=60)

    assert ledgers[2].sums["ann"] < answered
    assert told == [f"ledger: {NOT_SURE}"]
    world.close()
