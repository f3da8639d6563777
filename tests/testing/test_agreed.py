"""Agreed groups in a pretended world: programs that use the library, through crashes and cuts."""

import asyncio
from collections.abc import Iterator

import pytest

import rostra
from rostra.cli.views import document, show_group
from rostra.errors import BadInput, NoSuchGroup, NotAllowed, ScopeExceeded
from rostra.names import host_of
from rostra.testing import World

HOSTS = ("paris.h1", "paris.h2", "paris.h3")


class Player:
    """Joins, and keeps what it is told."""

    def __init__(self, survive: str = "any") -> None:
        self.items: list[rostra.View | rostra.Blocked | rostra.Moved] = []
        self.survive = survive

    async def run(self) -> None:
        async with (
            rostra.connect() as me,
            me.join("chess", "paris", membership="agreed", survive=self.survive) as chess,
        ):
            async for item in chess:
                self.items.append(item)

    @property
    def view(self) -> rostra.View:
        return [item for item in self.items if isinstance(item, rostra.View)][-1]

    @property
    def hosts(self) -> list[str]:
        return [str(host_of(member.endpoint)) for member in self.view.members]


@pytest.fixture
def world() -> Iterator[World]:
    world = World({"paris": 3}, seed=5)
    yield world
    world.close()


def started(world: World, survive: str = "any") -> list[Player]:
    players = [Player(survive) for _ in HOSTS]
    for host, player in zip(HOSTS, players, strict=True):
        world.start(host, player.run())
        world.run(for_s=2)
    return players


def test_views_are_numbered_and_ranked_and_the_same_for_all(world: World) -> None:
    players = started(world)

    assert [player.hosts for player in players] == [list(HOSTS)] * 3
    assert [player.view.rank for player in players] == [0, 1, 2]
    assert len({player.view.id for player in players}) == 1
    first = players[0].items
    assert [item.number for item in first] == [1, 2, 3]
    last = players[0].view
    assert [str(host_of(each)) for each in last.joined] == ["paris.h3"]
    assert [str(host_of(each)) for each in last.together] == ["paris.h1", "paris.h2"]


def test_a_host_that_dies_has_failed_and_the_others_move_up(world: World) -> None:
    players = started(world)
    world.crash("paris.h1")
    world.run(for_s=15)

    assert players[1].hosts == ["paris.h2", "paris.h3"]
    assert [player.view.rank for player in players[1:]] == [0, 1]
    assert [str(host_of(each)) for each in players[1].view.failed] == ["paris.h1"]


def test_who_may_be_dead_is_shown_before_it_is_removed_and_the_lost_host_after_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    players = started(world)
    shown: list[tuple[list[str], tuple[str, ...]]] = []

    async def look() -> None:
        async with rostra.connect() as me:
            while len(shown) < 2:
                info = await me.groups.look("chess", "paris")
                seen = [str(host_of(each)) for each in info.view.suspects], info.view.without
                if any(seen) and seen not in shown:
                    shown.append(seen)
                    show_group(info)
                    assert document(info)["view"]["suspects"] == list(info.view.suspects)
                await asyncio.sleep(0.1)

    world.start("paris.h2", look())
    world.run(for_s=1)
    assert shown == []
    world.crash("paris.h1")
    world.run(for_s=15)
    assert shown == [(["paris.h1"], ()), ([], ("paris.h1",))]
    remarks = capsys.readouterr().err
    assert "cannot reach paris.h1/" in remarks and "members failed with paris.h1\n" in remarks
    assert players[1].view.without == ("paris.h1",) and players[1].view.suspects == ()


def test_a_minority_is_blocked_and_the_majority_has_a_larger_fence(world: World) -> None:
    players = started(world, "majority")
    before = players[1].view.fence
    world.cut("paris.h1 | paris")
    world.run(for_s=20)

    assert isinstance(players[0].items[-1], rostra.Blocked)
    assert before is not None and players[1].view.fence is not None and players[1].view.fence > before
    world.heal()
    world.run(for_s=20)
    assert players[0].hosts == players[1].hosts == ["paris.h2", "paris.h3", "paris.h1"]
    assert isinstance(players[0].items[-1], rostra.View)


def test_the_server_of_the_scope_says_who_lives_and_one_of_three_may(world: World) -> None:
    """V-099 as amended: with survive="primary" whoever is on the side of that server goes on."""
    players = started(world, "primary")
    before = players[2].view.fence
    world.cut("paris.h1 | paris")
    world.cut("paris.h2 | paris")
    world.run(for_s=20)

    assert [isinstance(player.items[-1], rostra.Blocked) for player in players] == [True, True, False]
    assert players[2].hosts == ["paris.h3"]
    assert before is not None and players[2].view.fence is not None and players[2].view.fence > before


def test_a_lost_agent_means_a_new_membership(world: World) -> None:
    players = started(world)
    world.drop("paris.h2")
    world.run(for_s=5)

    assert players[0].hosts == players[1].hosts == ["paris.h1", "paris.h3", "paris.h2"]
    assert any(isinstance(item, rostra.Blocked) for item in players[1].items)


def test_what_is_refused_is_refused_by_name(world: World) -> None:
    started(world)
    refused: dict[str, str] = {}

    async def ask() -> None:
        async with rostra.connect() as me:
            with pytest.raises(NotAllowed, match="agreed, none") as kind:
                await me.join("chess", "paris", membership="agreed", survive="majority")
            assert kind.value.fix == "join it so, or choose another name"
            with pytest.raises(NoSuchGroup, match="no agreed group cheese") as absent:
                await me.join("cheese", "paris", membership="agreed", create=False)
            assert absent.value.fix.startswith("create it (rostra group create), or join it with create=True")
            with pytest.raises(ScopeExceeded, match=r"paris.h1 is outside of rome, and chess@rome") as scope:
                await me.join("chess", "rome", membership="agreed")
            assert scope.value.fix == "use a scope that contains it: paris, world"
            with pytest.raises(NotAllowed, match="agreed, none"):
                await me.join("chess", "paris", membership="agreed", delivery="fifo")
            with pytest.raises(BadInput, match="at character 8"):
                me.join("chess", "paris", membership="agreed", survive="size > x")
            with pytest.raises(BadInput, match="create with membership"):
                me.join("chess", "paris", membership="relaxed", delivery="none", create=False)
            members = await me.resolve("chess", "paris")
            refused["members"] = str(len(members.members))

    world.start("paris.h1", ask())
    world.run(for_s=5)
    assert refused == {"members": "3"}
