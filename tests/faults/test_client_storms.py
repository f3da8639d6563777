"""Programs through a storm: whatever is cut, crashed, paused or dropped, once the sky clears every copy and
every reader of changes has arrived at the truth, and no reader was told anything twice or in silence."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from random import Random

import pytest
from support.seeds import few_of

import rostra
from rostra.names import host_of
from rostra.sim import WAN
from rostra.testing import World

SHAPE = {"eu.paris": 2, "eu.rome": 1, "us.boston": 2}
SERVERS = ("eu", "eu.paris", "us", "us.boston")
GROUP = "storm"
TROUBLE = ("cut", "heal", "crash", "restart", "pause", "drop", "watcher", "calm")
EVERY_SEED_THAT_EVER_FAILED = (8, 104)


class Reader:
    """Somebody who believes what it is told, and knows what it may not be told."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def take(self, item: rostra.Item) -> None:
        match item:
            case rostra.View(members):
                self.seen = {member.endpoint for member in members}
            case rostra.Joined(members):
                joined = {member.endpoint for member in members}
                assert not joined & self.seen, "nobody joins twice"
                self.seen |= joined
            case rostra.Left(endpoints) | rostra.Without(_, endpoints) | rostra.Only(_, endpoints):
                assert set(endpoints) <= self.seen, "nobody leaves twice"
                self.seen -= set(endpoints)


class Member(Reader):
    """In the group for as long as its host lives."""

    me: rostra.Me | None = None

    async def live(self) -> None:
        async with rostra.connect(rejoin_within_s=None) as me, me.join(GROUP) as group:
            self.me = me
            async for item in group:
                self.take(item)
                if isinstance(item, rostra.View):
                    assert me.endpoint in self.seen or not me.is_open, "whoever is in a group sees itself"


class Watcher(Reader):
    """Is restarted now and then, and goes on where it stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.token = ""
        self.number = 0

    async def live(self) -> None:
        async with rostra.connect(rejoin_within_s=None) as me:
            told_of_a_gap = not self.token
            async for change in me.watch(GROUP, resume=self.token or None):
                match change:
                    case rostra.Gap():
                        told_of_a_gap = True
                    case rostra.View():
                        assert told_of_a_gap, "a list comes first of all, or after a gap"
                        told_of_a_gap = False
                    case _:
                        assert change.number == self.number + 1, "one number after the other"
                self.take(change)
                if change.token:
                    self.token, self.number = change.token, change.number


async def insisting(live: Callable[[], Awaitable[None]]) -> None:
    """A program that finds no agent when it begins says so and ends; whoever runs it tries again."""
    while True:
        try:
            await live()
        except rostra.errors.Unreachable:
            await asyncio.sleep(0.5)


@pytest.mark.parametrize("seed", [*EVERY_SEED_THAT_EVER_FAILED, *few_of(6, 12)])
def test_everybody_arrives_at_the_truth_when_the_storm_is_over(seed: int) -> None:
    weather(seed, TROUBLE)


@pytest.mark.parametrize("seed", few_of(4, 6))
def test_so_they_do_when_servers_crash_as_well(seed: int) -> None:
    weather(seed, (*TROUBLE, "server"))


def weather(seed: int, trouble: Sequence[str]) -> None:
    with contextlib.closing(World(SHAPE, seed=seed, links=WAN.losing(0.02))) as world:
        storm = Storm(world, Random(f"storm {seed}"), trouble)
        for _ in range(40):
            storm.blow()
        storm.clear()
        world.run(for_s=60)

        truth = {member.me.endpoint for member in storm.members.values() if member.me is not None}
        assert {host_of(endpoint) for endpoint in truth} == set(world.hosts)
        for host in world.hosts:
            assert storm.members[host].seen == truth
            assert storm.watchers[host].seen == truth


class Storm:
    """A member and a watcher on every host, and all that can happen to them."""

    def __init__(self, world: World, luck: Random, trouble: Sequence[str]) -> None:
        self.members = {host: Member() for host in world.hosts}
        self.watchers = {host: Watcher() for host in world.hosts}
        self._world = world
        self._luck = luck
        self._trouble = trouble
        self._watching: dict[str, asyncio.Task[None]] = {}
        self._down: set[str] = set()
        for host in world.hosts:
            self._live(host)

    def blow(self) -> None:
        world, luck = self._world, self._luck
        host = luck.choice(world.hosts)
        match luck.choice(self._trouble):
            case "cut":
                world.cut(luck.choice(["eu | us", "eu.rome", "eu.paris | eu.rome", host]))
            case "heal":
                world.heal()
            case "crash":
                world.crash(host)
                self._down.add(host)
            case "restart" if self._down:
                self._restart(luck.choice(sorted(self._down)))
            case "pause":
                world.pause(host)
                world.run(for_s=luck.choice([0.5, 3.0, 8.0]))
                world.resume(host)
            case "drop":
                world.drop(host)
            case "server":
                server = luck.choice(SERVERS)
                world.crash(server)
                world.run(for_s=luck.choice([0.5, 3.0, 8.0]))
                world.restart(server)
            case "watcher" if host not in self._down:
                self._watching[host].cancel()
                world.run(for_s=luck.choice([0.0, 1.0]))
                self._watching[host] = world.start(host, insisting(self.watchers[host].live))
        world.run(for_s=luck.choice([0.0, 0.1, 1.0, 6.0]))

    def clear(self) -> None:
        self._world.heal()
        for host in sorted(self._down):
            self._restart(host)

    def _restart(self, host: str) -> None:
        self._down.discard(host)
        self._world.restart(host)
        self._live(host)

    def _live(self, host: str) -> None:
        self.members[host] = Member()  # a program's memory goes with it; what a watcher wrote down does not
        self._world.start(host, insisting(self.members[host].live))
        self._watching[host] = self._world.start(host, insisting(self.watchers[host].live))
