"""`[agreed] settle_s`: a side that fails its group's rule is blocked at once, and ended after that time."""

from collections.abc import Iterator
from typing import Literal

import pytest

import rostra
from rostra.errors import Excluded
from rostra.names import host_of
from rostra.protocols.agreed.config import AgreedConfig
from rostra.testing import World

Delivery = Literal["none", "fifo", "atomic"]

HOSTS = ("paris.h1", "paris.h2", "paris.h3")


class Player:
    def __init__(self, survive: str, delivery: Delivery = "none") -> None:
        self.survive, self.delivery = survive, delivery
        self.items: list[object] = []
        self.ended: Excluded | None = None

    async def run(self) -> None:
        async with rostra.connect() as me:
            stay = me.join(
                "chess", "paris", membership="agreed", delivery=self.delivery, survive=self.survive
            )
            try:
                async with stay as chess:
                    async for item in chess:
                        self.items.append(item)
            except Excluded as ended:
                self.ended = ended

    @property
    def view(self) -> rostra.View:
        return [item for item in self.items if isinstance(item, rostra.View)][-1]

    @property
    def hosts(self) -> list[str]:
        return [str(host_of(member.endpoint)) for member in self.view.members]

    @property
    def is_blocked(self) -> bool:
        return isinstance(self.items[-1], rostra.Blocked)


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 3}, seed=5, agreed=AgreedConfig(settle_s=30.0))
    yield world
    world.close()


def joined(world: World, *hosts: str, survive: str = "majority", **more: Delivery) -> list[Player]:
    players = []
    for host in hosts:
        players.append(Player(survive, **more))
        world.start(host, players[-1].run())
        world.run(for_s=2)
    return players


@pytest.mark.spec("V-098", "V-099", "V-100")
@pytest.mark.parametrize("delivery", ["none", "fifo", "atomic"])
def test_a_minority_is_blocked_first_and_ended_after_the_time_and_joins_anew(
    world: World, delivery: Delivery
) -> None:
    first, *others = joined(world, *HOSTS, delivery=delivery)
    world.cut("paris.h1 | paris")
    world.run(for_s=28)
    assert first.is_blocked and first.ended is None
    world.run(for_s=10)

    assert first.ended is not None and first.ended.retriable
    assert "did not live for 30 s" in str(first.ended)
    assert [each.hosts for each in others] == [[*HOSTS[1:]]] * 2
    assert [each.ended for each in others] == [None, None]
    before = others[0].view.fence
    world.heal()
    world.run(for_s=20)
    (again,) = joined(world, HOSTS[0], delivery=delivery)
    world.run(for_s=5)
    assert again.hosts == others[0].hosts == [HOSTS[1], HOSTS[2], HOSTS[0]]
    assert before is not None and again.view.fence is not None and again.view.fence > before


@pytest.mark.spec("V-100")
def test_a_cut_that_is_shorter_ends_nobody(world: World) -> None:
    players = joined(world, *HOSTS)
    for _ in range(2):  # each cut counts for itself
        world.cut("paris.h1 | paris")
        world.run(for_s=20)
        assert players[0].is_blocked
        world.heal()
        world.run(for_s=20)
    assert [each.ended for each in players] == [None] * 3
    assert sorted(players[0].hosts) == [*HOSTS]


@pytest.mark.spec("V-100")
def test_where_no_side_lives_all_are_ended_and_the_group_begins_again_with_a_larger_fence(
    world: World,
) -> None:
    players = joined(world, *HOSTS)
    fence = players[0].view.fence
    for host in HOSTS:
        world.cut(f"{host} | paris")
    world.run(for_s=60)
    assert all(each.ended is not None for each in players)
    world.heal()
    world.run(for_s=30)
    again = joined(world, *HOSTS[:2])
    world.run(for_s=20)
    assert [each.hosts for each in again] == [[*HOSTS[:2]]] * 2
    assert fence is not None and again[0].view.fence is not None and again[0].view.fence > fence


@pytest.mark.spec("V-101")
def test_a_group_without_a_rule_is_never_ended(world: World) -> None:
    players = joined(world, *HOSTS, survive="any")
    world.cut("paris.h1 | paris")
    world.run(for_s=120)
    assert players[0].ended is None
    world.heal()
    world.run(for_s=20)
    assert sorted(players[0].hosts) == [*HOSTS]


@pytest.mark.spec("V-098", "V-099")
def test_a_rule_that_may_hold_on_two_sides_ends_the_one_on_which_it_does_not(world: World) -> None:
    """There is no lease then: its server says which members do not live."""
    players = joined(world, *HOSTS, survive="size > 1")
    world.cut("paris.h1 | paris")
    world.run(for_s=60)
    assert [each.ended is not None for each in players] == [True, False, False]
    assert players[1].hosts == [*HOSTS[1:]]
