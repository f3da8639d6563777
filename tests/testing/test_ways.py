"""How the hosts of a pretended cluster reach each other, and servers with replicas."""

import asyncio

import pytest

import rostra
from rostra.errors import BadInput
from rostra.names import Domain
from rostra.testing import World, Worlds

H1, H2 = "eu.paris.h1", "eu.paris.h2"


def multicasts(world: World) -> list[Domain]:
    """Whom datagrams by IP multicast go to, from now on."""
    reached: list[Domain] = []
    channels = world.sim.channels
    put_on = channels._put_on

    def counted(sender, to, datagram, *, by_multicast):
        reached.extend([to] if by_multicast else [])
        put_on(sender, to, datagram, by_multicast=by_multicast)

    channels._put_on = counted
    return reached


async def spoken(world: World, count: int) -> list[bytes]:
    """What a program on the second host hears of one on the first."""
    async with (
        rostra.connect(H1) as ann,
        rostra.connect(H2) as bob,
        ann.join("lounge", delivery="fifo") as one,
        bob.join("lounge", delivery="fifo") as other,
    ):
        await world.settled()
        for number in range(count):
            await one.send(b"%d" % number)
            await asyncio.sleep(0.05)
        heard: list[bytes] = []
        async for item in other:
            if isinstance(item, rostra.Message):
                heard.append(item.body)
                if len(heard) == count:
                    break
        return heard


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "open"])
@pytest.mark.parametrize("lan", ["auto", "multicast", "fanout", "reflect"])
def test_a_lan_is_reached_as_the_test_says(rostra_world: Worlds, lan: str, sealed: bool) -> None:
    world = rostra_world({"eu.paris": 3}, lan=lan, sealed=sealed)
    reached = multicasts(world)
    assert world.run(spoken(world, 10)) == [b"%d" % number for number in range(10)]
    assert (Domain(H2) in reached) == (lan in ("auto", "multicast"))
    assert world.sim.channels.sealed == sealed


def test_a_host_that_multicast_does_not_reach_hears_everything(rostra_world: Worlds) -> None:
    world = rostra_world({"eu.paris": 3})
    reached = multicasts(world)
    world.deafen(H2)
    assert world.run(spoken(world, 10)) == [b"%d" % number for number in range(10)]
    assert Domain(H2) not in reached
    world.undeafen(H2)
    world.run(spoken(world, 10))
    assert Domain(H2) in reached


def test_a_server_with_replicas_fails_over_and_no_member_is_lost(rostra_world: Worlds) -> None:
    world = rostra_world({"eu.paris": 2}, replicas={"eu.paris": 3})

    async def stay() -> None:
        async with (
            rostra.connect(H1) as ann,
            rostra.connect(H2) as bob,
            ann.join("lounge") as one,
            bob.join("lounge") as other,
        ):
            await world.settled()
            before = world.sim.replicas.leaders[Domain("eu.paris")]
            world.crash("eu.paris")
            await asyncio.sleep(20)
            assert world.sim.replicas.leaders[Domain("eu.paris")] != before
            assert len(one.members) == len(other.members) == 2
            assert len((await bob.resolve("lounge", fresh=True)).members) == 2

    world.run(stay())
    lost = [line for line in world.trace if "without" in line or "only" in line or "left" in line]
    assert not lost, lost


def test_a_way_that_does_not_exist_is_refused(rostra_world: Worlds) -> None:
    with pytest.raises(BadInput, match="no way to reach a LAN"):
        rostra_world({"eu.paris": 1}, lan="pigeon")
