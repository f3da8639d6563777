"""Arguments of a wrong type, and settings that a kind of group does not have: the call raises and says which,
and everything else of the connection goes on."""

from typing import Any

import pytest

import rostra
from rostra.errors import BadInput
from rostra.testing import World, Worlds

HOST = "eu.paris.h1"


@pytest.fixture
def world(rostra_world: Worlds) -> World:
    return rostra_world({"eu.paris": 1})


@pytest.mark.parametrize(
    ("settings", "what", "fix"),
    [
        ({"online": "yes"}, "online='yes'", "use True or False"),
        ({"permanent": "no"}, "permanent='no'", "use True or False"),
        ({"unique": 1}, "unique=1", "use True or False"),
        ({"membership": "agreed", "create": "no"}, "create='no'", "use True or False"),
        ({"membership": "agreed", "survive": 3}, "survive=3", 'write a rule: "majority", "size > 3"'),
        (
            {"membership": "agreed", "attributes": "disk=ssd"},
            "attributes='disk=ssd'",
            'write a dict of texts: {"disk": "ssd"}',
        ),
        ({"survive": "majority"}, 'survive with membership="relaxed"', 'add membership="agreed"'),
        ({"membership": "led", "create": False}, 'create with membership="led"', 'add membership="agreed"'),
        ({"role": "submit"}, 'role with delivery="none"', 'add delivery="fifo"'),
        ({"slow": "expel"}, 'slow with delivery="none"', 'add delivery="fifo"'),
        ({"delivery": "fifo", "stable": "disk"}, 'stable with delivery="fifo"', 'add delivery="atomic"'),
        ({"membership": "agreed", "order": "hub"}, 'order with delivery="none"', 'add delivery="atomic"'),
        ({"take": print}, 'take with delivery="none"', 'add delivery="atomic"'),
    ],
)
async def test_a_join_says_which_setting_is_wrong(
    world: World, settings: dict[str, Any], what: str, fix: str
) -> None:
    async with rostra.connect(HOST) as me:
        with pytest.raises(BadInput) as refused:
            await me.join("chess", "eu", **settings)

    assert (refused.value.what, refused.value.fix) == (what, fix)


async def test_a_wrong_type_ends_neither_the_connection_nor_its_groups(world: World) -> None:
    async with rostra.connect(HOST) as me, me.join("chess", "eu") as chess:
        await chess.ready()
        with pytest.raises(BadInput, match="'5' is not a resume token"):
            me.watch("chess", "eu", resume=5)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="readmit='no': Expected `bool`, got `str`"):
            await me.create_set("eu", readmit="no")  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="a deadline of '3' s"):
            await me.resolve("chess", "eu", deadline_s="3", fresh=True)  # type: ignore[arg-type]

        await me.connected()
        assert len((await me.resolve("chess", "eu", fresh=True)).members) == 1


async def test_messages_are_bytes(world: World) -> None:
    async with rostra.connect(HOST) as me, me.join("chess", "eu", delivery="fifo") as chess:
        with pytest.raises(BadInput, match="int cannot be sent"):
            await chess.send_many(b"e4")  # type: ignore[arg-type]
        async with me.join("go", "eu", membership="agreed", delivery="atomic") as go:
            for wrong in (b"e4", ["e4"], [b"e4", "e5"]):
                with pytest.raises(BadInput, match=r"(int|str) cannot be sent"):
                    await go.send_many(wrong)  # type: ignore[arg-type]
            (receipt,) = await go.send_many([bytearray(b"e4")])  # type: ignore[list-item]
            assert receipt.position
        async with me.create_set("eu") as mine:
            await mine.add(me.endpoint)
            await anext(aiter(mine))
            async with mine.sequence() as sequence:
                with pytest.raises(BadInput, match="str cannot be sent"):
                    await sequence.send("e4")  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [{"timeout_s": "1"}, {"silence_s": -1}, {"rejoin_within_s": "long"}])
async def test_connect_says_which_setting_is_wrong(world: World, settings: dict[str, Any]) -> None:
    name, value = next(iter(settings.items()))
    with pytest.raises(BadInput, match=f"{name}={value!r}"):
        await rostra.connect(HOST, **settings)


async def test_an_address_is_a_text(world: World) -> None:
    with pytest.raises(BadInput, match="address=7000"):
        await rostra.connect(7000)  # type: ignore[arg-type]
