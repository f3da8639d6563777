"""Arguments of a wrong type, and settings that a kind of group does not have: the call raises and says which,
and everything else of the connection goes on."""

import warnings
from typing import Any

import pytest

import rostra
from examples.counter import Counter
from rostra.errors import BadInput, BadName, NotInScope
from rostra.protocols.agreed.calls import SetVerb
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
        (
            {"membership": "led", "delivery": "atomic", "role": "submit"},
            'role with delivery="atomic"',
            "leave it out: all members send and receive",
        ),
        ({"delivery": "fifo", "stable": "disk"}, 'stable with delivery="fifo"', 'add delivery="atomic"'),
        ({"membership": "agreed", "order": "hub"}, 'order with delivery="none"', 'add delivery="atomic"'),
        ({"take": print}, 'take with delivery="none"', 'add delivery="atomic"'),
        (
            {"membership": "agreed", "delivery": "atomic", "give": b"state", "take": print},
            "give=b'state'",
            "name a function",
        ),
        (
            {"membership": "agreed", "delivery": "atomic", "take": "restore"},
            "take='restore'",
            "name a function",
        ),
        ({"membership": "agreed", "delivery": "atomic", "reconcile": 1}, "reconcile=1", "name a function"),
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


async def test_messages_of_one_order_are_bytes_too(world: World) -> None:
    async with (
        rostra.connect(HOST) as me,
        me.join("chess", "eu.paris", membership="agreed", delivery="atomic") as chess,
    ):
        with pytest.raises(BadInput, match="int cannot be sent"):
            await chess.send_many(b"e4")  # type: ignore[arg-type]


async def test_a_name_that_is_no_text_is_said_to_be_none(world: World) -> None:
    """As of a variable of the environment that is not set."""
    async with rostra.connect(HOST) as me:
        with pytest.raises(BadName, match="group None is no text"):
            await me.resolve(None)  # type: ignore[arg-type]
        with pytest.raises(BadName, match="scope 5 is no text"):
            await me.resolve("chess", 5)  # type: ignore[arg-type]
        with pytest.raises(BadName, match="group None with scope 'eu'"):
            me.join(None, "eu")  # type: ignore[call-overload]
        with pytest.raises(BadName, match="name 7 is no text"):
            me.open(7)  # type: ignore[arg-type]
        with pytest.raises(BadName, match="endpoint 7 is no text"):
            await me.send_to([7], b"e4")  # type: ignore[list-item]
    with pytest.raises(BadName, match="name 7 is no text"):
        rostra.connect(HOST, name=7)  # type: ignore[arg-type]


async def test_a_scope_within_the_name_is_two_arguments(world: World) -> None:
    """As groups are printed. It was a group of that name in the world, in which no other program is."""
    async with rostra.connect(HOST) as me:
        for asks in (me.join, me.watch, me.sequence):
            with pytest.raises(
                BadInput, match=r"has a scope in its name; write two arguments: 'chess', 'eu'"
            ):
                asks("chess@eu")
        for asks in (me.join, me.watch, me.lead, me.lock):
            with pytest.raises(BadInput, match="write two arguments: 'chess', 'eu'"):
                asks("chess@eu", "eu")
        with pytest.raises(BadInput, match="write two arguments: 'chess', 'eu'"):
            await me.groups.create("chess@eu", "eu")
        for scope in ("world", None):
            with pytest.raises(BadInput, match="write two arguments"):
                await me.resolve("chess@eu", scope)
        async with me.join("ann@mars"):  # a name like any other
            pass


async def test_what_is_not_awaited_says_that_it_did_nothing(world: World) -> None:
    async with rostra.connect(HOST) as me:
        with pytest.warns(RuntimeWarning, match=r"join\(...\) did nothing: write `async with`, or `await`"):
            me.join("chess", "eu")
        with pytest.warns(RuntimeWarning, match=r"watch\(...\) did nothing"):
            me.watch("chess", "eu")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            async with me.join("chess", "eu"):
                await (await me.watch("chess", "eu")).close()
                async for _ in me.watch("chess", "eu"):
                    break


async def test_a_list_of_domains_is_no_text(world: World) -> None:
    async with rostra.connect_admin(HOST) as admin:
        with pytest.raises(BadInput, match=r"allowed='eu.paris.h1'; write a list: \['eu.paris.h1'\]"):
            await admin.close_group("vault", "eu.paris.h1")


async def test_a_group_of_open_scope_shows_itself_to_its_members(world: World) -> None:
    async with rostra.connect(HOST) as me:
        with pytest.raises(NotInScope, match="only members see a group of open scope: join it"):
            await me.resolve("chess", rostra.OPEN)


async def test_an_agent_that_is_asked_what_is_for_a_server_says_so(world: World) -> None:
    async with rostra.connect_admin(HOST) as admin:
        with pytest.raises(BadInput) as refused:
            await admin.change_set("eu", SetVerb.LOOK)

    assert refused.value.what == f"{HOST} is an agent, and this is for a server"


async def test_a_token_of_a_wrong_type_is_not_shown(world: World) -> None:
    with pytest.raises(BadInput) as refused:
        await rostra.connect(HOST, b"hunter2")  # type: ignore[arg-type]

    assert str(refused.value) == "token is of type bytes; it is a text: token.decode()"


@pytest.mark.parametrize("keys", ["shard", range(3), [b"a"]])
async def test_keys_to_share_out_are_a_list_of_texts(world: World, keys: Any) -> None:
    async with rostra.connect(HOST) as me:
        with pytest.raises(BadInput, match=r"keys=.*write a list of texts"):
            await anext(me.shares("work", keys, "eu.paris"))


@pytest.mark.parametrize(
    ("what", "settings", "said"),
    [
        (Counter, {}, r"Counter is a class; replicate an object of it: Counter\(\)"),
        (Counter(), {"checkpoint_every": 0}, "checkpoint_every=0; use a number of commands from 1 on"),
    ],
    ids=["a class", "no checkpoint"],
)
async def test_what_cannot_be_replicated_is_refused(
    world: World, what: Any, settings: dict[str, Any], said: str
) -> None:
    async with rostra.connect(HOST) as me:
        with pytest.raises(BadInput, match=said):
            me.replicate("visits", what, "eu.paris", **settings)


@pytest.mark.parametrize("settings", [{"timeout_s": "1"}, {"silence_s": -1}, {"rejoin_within_s": "long"}])
async def test_connect_says_which_setting_is_wrong(world: World, settings: dict[str, Any]) -> None:
    name, value = next(iter(settings.items()))
    with pytest.raises(BadInput, match=f"{name}={value!r}"):
        await rostra.connect(HOST, **settings)


async def test_an_address_is_a_text(world: World) -> None:
    with pytest.raises(BadInput, match="address=7000"):
        await rostra.connect(7000)  # type: ignore[arg-type]
