"""Worlds for users' tests: programs, faults, time, and that a seed is a whole history."""

import asyncio
from collections.abc import Callable

import pytest

import rostra
from rostra.errors import BadInput, Unreachable
from rostra.names import host_of
from rostra.sim import STEADY, WAN, shape
from rostra.testing import DidNotFinish, World, Worlds

H1, H2, FAR = "eu.paris.h1", "eu.paris.h2", "us.boston.h1"
SHAPE = {"eu.paris": 2, "us.boston": 1}


class Seen:
    """A program that keeps what it hears."""

    def __init__(self, group: str = "chess") -> None:
        self.hosts: set[str] = set()
        self.items: list[rostra.Item] = []
        self._group = group

    async def run(self) -> None:
        async with rostra.connect() as me, me.join(self._group) as group:
            async for item in group:
                self.items.append(item)
                self.hosts = {host_of(member.endpoint) for member in group.members}


def started(world: World) -> dict[str, Seen]:
    programs = {str(host): Seen() for host in world.hosts}
    for host, program in programs.items():
        world.start(host, program.run())
    world.run(for_s=5)
    return programs


def storm(seed: int) -> tuple[tuple[str, ...], list[list[rostra.Item]]]:
    world = World(SHAPE, seed=seed, links=WAN.losing(0.05))
    programs = started(world)
    world.cut("eu | us")
    world.run(for_s=7)
    world.heal()
    world.pause(H1)
    world.run(for_s=3)
    world.resume(H1)
    world.drop(H2)
    world.run(for_s=10)
    world.crash(FAR)
    world.run(for_s=10)
    world.close()
    return world.trace, [program.items for program in programs.values()]


def test_a_seed_is_a_whole_history() -> None:
    assert storm(3) == storm(3)
    assert storm(3) != storm(4)


def test_a_world_is_up_when_it_is_there() -> None:
    world = World(SHAPE)
    assert world.sim.unsettled(0.0) == "" and world.trace == ()
    assert world.hosts == (H1, H2, FAR)
    assert [program.hosts for program in started(world).values()] == [set(world.hosts)] * 3
    world.close()


def test_a_world_may_have_any_tree() -> None:
    world = World(shape("uneven"), links=STEADY)
    programs = started(world)
    assert all(program.hosts == set(world.hosts) for program in programs.values())
    world.close()


def test_each_side_of_a_cut_sees_itself_and_all_see_all_when_it_heals() -> None:
    world = World(SHAPE)
    programs = started(world)
    world.cut("eu | us")
    world.run(for_s=10)
    assert programs[H1].hosts == programs[H2].hosts == {H1, H2}
    assert programs[FAR].hosts == {FAR}
    world.heal("eu | us")
    world.settle()
    assert all(program.hosts == {H1, H2, FAR} for program in programs.values())
    world.close()


def test_a_host_that_crashes_takes_its_programs_with_it_and_may_be_started_again() -> None:
    world = World(SHAPE)
    programs = started(world)
    ended: list[str] = []

    async def mourn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned up")

    mourner = world.start(H1, mourn())
    world.run(for_s=1)
    world.crash(H1)
    world.run(for_s=10)
    assert mourner.cancelled() and ended == ["cleaned up"]
    assert programs[H2].hosts == {H2, FAR}
    world.restart(H1)
    again = Seen()
    world.start(H1, again.run())
    world.settle()
    assert again.hosts == programs[H2].hosts == {H1, H2, FAR}
    world.restart(H2)  # a restart is a crash first
    world.run(for_s=10)
    assert again.hosts == {H1, FAR}
    world.close()


def test_a_server_that_crashes_cuts_its_domain_off_until_it_is_back() -> None:
    world = World(SHAPE)
    programs = started(world)
    world.crash("eu")
    world.run(for_s=10)
    assert programs[H1].hosts == {H1, H2} and programs[FAR].hosts == {FAR}
    world.restart("eu")
    world.settle()
    assert programs[FAR].hosts == {H1, H2, FAR}
    world.close()


def test_slow_and_lossy_networks_delay_the_truth_and_do_not_change_it() -> None:
    world = World(SHAPE)
    world.delay(0.5, "eu | us")
    world.lose(0.2)
    programs = started(world)
    world.run(for_s=20)
    assert all(program.hosts == {H1, H2, FAR} for program in programs.values())
    world.delay(0.0)
    world.lose(0.0)
    world.close()


def test_a_program_that_fails_fails_the_test_that_lets_it_run() -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ZeroDivisionError("in the program")

    world = World(SHAPE)
    world.start(H1, fail())
    with pytest.raises(ZeroDivisionError, match="in the program"):
        world.run(for_s=5)
    world.close()
    world = World(SHAPE)
    world.start(H1, fail())
    world.run(for_s=0.5)
    world.close()  # it had not failed yet


def test_a_callback_that_fails_fails_the_test_too() -> None:
    world = World(SHAPE)
    world.loop.call_later(1, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        world.run(for_s=5)
    world.close()


def test_a_program_that_fails_while_the_world_ends_is_not_overlooked() -> None:
    async def fail() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            raise ZeroDivisionError("while cleaning up")

    world = World(SHAPE)
    world.start(H1, fail())
    world.run(for_s=1)
    with pytest.raises(ZeroDivisionError, match="while cleaning up"):
        world.close()


def test_the_result_of_a_program_is_the_answer_and_for_ever_is_too_long() -> None:
    async def answer() -> int:
        async with rostra.connect(H1) as me:
            return len((await me.resolve("nobody")).members)

    async def wait() -> None:
        await asyncio.Event().wait()

    world = World(SHAPE)
    assert world.run(answer()) == 0
    with pytest.raises(DidNotFinish):
        world.run(wait(), at_most_s=30)
    world.close()


def test_mistakes_are_named() -> None:
    world = World(SHAPE)
    for mistake, what in (
        (lambda: world.crash("mars"), "'mars' is no server of this world"),
        (lambda: world.cut("mars | eu"), "mars"),
        (lambda: world.start("eu.paris", asyncio.sleep(0)), "is not a host of this world"),
    ):
        with pytest.raises(BadInput, match=what):
            mistake()

    async def nest() -> None:
        world.run(for_s=1)

    with pytest.raises(BadInput, match="the world runs already"):
        world.run(nest())
    world.close()
    world.close()


async def test_an_agent_that_stands_still_takes_calls_and_answers_them_later(rostra_world: Worlds) -> None:
    world = rostra_world(SHAPE)
    world.pause(H1)
    with pytest.raises(Unreachable, match="did not answer within 2 s"):
        await rostra.connect(H1, timeout_s=2.0)
    calling = asyncio.ensure_future(rostra.connect(H1).__aenter__())
    await asyncio.sleep(1)
    assert not calling.done()
    world.resume(H1)
    await asyncio.sleep(0.5)
    await (await calling).close()


async def test_an_agent_that_stood_still_does_not_blame_its_callers_for_it(rostra_world: Worlds) -> None:
    """Found by a storm: whoever called in the meantime was told that it had not said hello in time."""
    world = rostra_world(SHAPE)
    world.pause(H1)
    calling = asyncio.ensure_future(rostra.connect(H1, timeout_s=60.0).__aenter__())
    await asyncio.sleep(20)
    world.resume(H1)
    await asyncio.sleep(0.5)
    await (await calling).close()


async def test_a_program_that_does_not_answer_for_too_long_is_not_blamed_on_the_world(
    rostra_world: Worlds,
) -> None:
    """The agent pings its programs in the world's time, and they answer in it."""
    world = rostra_world(SHAPE)
    async with rostra.connect(H1) as me:
        endpoint = me.endpoint
        await asyncio.sleep(3_000)
        assert me.endpoint == endpoint and world.now > 3_000
        document = await me.inspect()
        assert document["programs"][0]["suspected"] is False


@pytest.mark.parametrize("size", [1, 70_000, 1_000_000])
async def test_messages_of_any_size_go_through_the_pipes_whole(rostra_world: Worlds, size: int) -> None:
    rostra_world(SHAPE)
    async with rostra.connect(H1, name="ann") as ann, rostra.connect(H1, name="bob") as bob:
        mail, sent = bob.messages(), 0
        for part in (bytes(min(60_000, size - at)) for at in range(0, size, 60_000)):
            await ann.send_to(bob.endpoint, part)
            sent += 1
        got = [await anext(mail) for _ in range(sent)]
        assert sum(len(each.data) for each in got if isinstance(each, rostra.Message)) == size


def test_the_trace_is_short_and_says_what_the_test_did() -> None:
    world = World(SHAPE)
    started(world)
    orders: list[Callable[[], None]] = [
        lambda: world.cut("link eu | us"),
        lambda: world.heal(),
        lambda: world.pause("eu"),
        lambda: world.resume("eu"),
    ]
    for order in orders:
        order()
    lines = [line.split(maxsplit=1)[1] for line in world.trace if " test " in line]
    assert [line.removeprefix("test").strip() for line in lines] == [
        "cut link eu | us",
        "heal",
        "pause eu",
        "resume eu",
    ]
    assert any("joined" in line for line in world.trace)
    world.close()


def test_text_in_the_place_of_bytes_is_refused_before_it_costs_the_connection() -> None:
    world = World({"paris": 1})
    kept: list[int] = []

    async def careless() -> None:
        async with rostra.connect() as me, me.join("chess") as chess:
            for wrong in ("meta", "credential"):
                with pytest.raises(BadInput, match=f"{wrong} is bytes"):
                    me.join("web", **{wrong: "port=80"})  # type: ignore[call-overload]
            with pytest.raises(BadInput, match="data is bytes"):
                await me.send_to(me.endpoint, "hello")  # type: ignore[arg-type]
            with pytest.raises(BadInput, match="both are texts"):
                me.join("web", 3)  # type: ignore[call-overload]
            with pytest.raises(BadInput, match="meta is bytes"):
                await chess.leave("bye")  # type: ignore[arg-type]
            kept.append(len((await me.resolve("chess")).members))

    world.start("paris.h1", careless())
    world.run(for_s=5)
    world.close()
    assert kept == [1]
