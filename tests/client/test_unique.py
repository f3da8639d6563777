"""Unique names: one founder in the whole scope (C-165, C-166). Virtual time."""

import asyncio

import pytest

import rostra
from rostra.errors import BadInput, NameInUse, NotAvailable, TooLarge, Unreachable
from rostra.protocols.access import unique
from rostra.testing import World, Worlds

H1, H2, FAR = "eu.paris.h1", "eu.paris.h2", "us.boston.h1"


@pytest.fixture
def world(rostra_world: Worlds) -> World:
    return rostra_world({"eu.paris": 2, "us.boston": 1})


@pytest.mark.spec("C-165")
async def test_of_concurrent_founders_one_succeeds_and_later_plain_joins_are_let_in(world: World) -> None:
    async with rostra.connect(H1) as ann, rostra.connect(H2) as bob, rostra.connect(FAR) as eve:
        joins = [me.join("chess", unique=True) for me in (ann, bob, eve)]
        tries = await asyncio.gather(*joins, return_exceptions=True)
        refused = [each for each in tries if isinstance(each, NameInUse)]
        [founder] = [each for each in tries if isinstance(each, rostra.Membership)]
        assert len(refused) == 2
        other = next(me for me in (ann, bob, eve) if me is not founder.me)
        async with other.join("chess"):
            await world.settled()
            assert len((await eve.resolve("chess", fresh=True)).members) == 2
            await founder.leave()
            await world.settled()
            with pytest.raises(NameInUse, match="has 1 members"):  # the founder is gone, the group is not
                await founder.me.join("chess", unique=True)
        await world.settled()
        async with founder.me.join("chess", unique=True):
            pass


@pytest.mark.spec("C-165")
async def test_a_group_with_members_has_no_founder_and_keeps_no_lock(world: World) -> None:
    async with rostra.connect(FAR) as eve, rostra.connect(H1) as ann:
        async with eve.join("chess"):
            await world.settled()
            for _ in range(2):
                with pytest.raises(NameInUse, match="has 1 members"):
                    await ann.join("chess", unique=True)
        await world.settled()
        async with eve.join("chess", unique=True), eve.join("go", unique=True):
            with pytest.raises(NameInUse, match="has a founder"):
                await ann.join("chess", unique=True)


@pytest.mark.spec("C-166")
async def test_of_two_founders_that_meet_after_a_cut_the_one_without_the_lock_leaves(world: World) -> None:
    async with rostra.connect(H1) as ann, rostra.connect(H2) as bob:
        lost = await ann.join("chess", unique=True)
        world.cut("eu.paris.h1 | eu.paris")
        await asyncio.sleep(60.0)
        with pytest.raises(Unreachable):  # the part without the server of the scope founds nothing
            await ann.join("go", unique=True)
        async with bob.join("chess", unique=True) as founded, bob.join("go", unique=True):
            world.heal()
            await world.settled()
            with pytest.raises(NameInUse, match="another founder by now"):
                async for _ in lost:
                    pass
            assert [each.endpoint for each in founded.members] == [bob.endpoint]


@pytest.mark.parametrize("name", ["acme!payroll", "eu.paris.h1/ann~1"])
async def test_a_name_whose_members_are_chosen_has_no_founder_and_its_agent_lives(
    world: World, name: str
) -> None:
    async with rostra.connect(H1) as ann:
        with pytest.raises((NotAvailable, BadInput)):
            await ann.join(name, "eu", unique=True)
        async with ann.join("chess", "eu", unique=True):
            pass


async def test_only_plain_groups_are_founded(world: World) -> None:
    async with rostra.connect(H1) as ann:
        for membership in ("led", "agreed"):
            with pytest.raises(BadInput, match="another kind"):
                ann.join("chess", unique=True, membership=membership)
        with pytest.raises(BadInput, match="are the system's"):  # a lock is not to be had by its name
            await ann.join("rostra/unique/chess")


async def test_a_host_has_a_bounded_number_of_unique_names(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unique, "CLAIMS_OF_HOST_MAX", 2)
    async with rostra.connect(H1) as ann, ann.join("chess", unique=True), ann.join("go", unique=True):
        with pytest.raises(TooLarge, match="2 unique names"):
            await ann.join("poker", unique=True)


async def test_founders_are_looked_at_when_members_change_and_at_no_other_step(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []
    is_in = unique.UniqueAgent._is_in
    monkeypatch.setattr(
        unique.UniqueAgent, "_is_in", lambda self, founding: looks.append(founding) or is_in(self, founding)
    )
    async with rostra.connect(H1) as ann, rostra.connect(H1) as bob, ann.join("chess", unique=True):
        await world.settled()
        looks.clear()
        for _ in range(10):
            await bob.resolve("go", fresh=True)
        assert not looks, "questions of others cost nothing"
        async with bob.join("go"):
            assert looks
