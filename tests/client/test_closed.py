"""Closed groups are for the hosts of a list; for others they are not there (C-167, C-168). Virtual time."""

import asyncio
from typing import Any

import pytest

import rostra
from rostra.core.effects import Asked, Ignored, LinkUp, Received, Send
from rostra.errors import BadInput, Excluded, NameTaken, NoSuchGroup, NoSuchPermanentGroup, NotAllowed
from rostra.groups.members import Cause, Member
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.access.requests import CloseGroup, ReopenGroup
from rostra.protocols.led.messages import (
    Assert,
    AttachAsked,
    LeaderAsked,
    LeaderTold,
    ListAsked,
    ListEntry,
    ListTold,
    LocalMember,
)
from rostra.protocols.led.proven import with_proofs
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.gate import CLOSED, AccessRefused, ClosedList
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.messages import (
    EndpointsJoined,
    Interest,
    InterestChanged,
    MessageId,
    ResolveReply,
    ResolveRequest,
)
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Done, Register
from rostra.stacks import NodePlan, make_stack
from rostra.testing import World, Worlds
from tests.cores.test_led_services import ASSERT, CHESS, FR, Agent, Server, letters
from tests.cores.test_led_services import H1 as H1_FR
from tests.cores.test_led_services import H2 as H2_FR

VAULT = Group("vault", ROOT)
H1, H2, FAR = "eu.paris.h1", "eu.paris.h2", "us.boston.h1"


@pytest.fixture
def world(rostra_world: Worlds) -> World:
    return rostra_world({"eu.paris": 2, "us.boston": 1})


def closing(world: World, group: Group, *allowed: str) -> Any:
    """As an administrator of the server of the scope would."""
    return world.sim.administer(group.scope, CloseGroup(group, tuple(map(Domain, allowed)))).result


async def endpoints(me: rostra.Me) -> list[str]:
    return list((await me.resolve("vault", fresh=True)).endpoints)


@pytest.mark.spec("C-167", "C-168")
async def test_for_strangers_a_closed_group_is_not_there(world: World) -> None:
    async with (
        rostra.connect(H1) as ann,
        rostra.connect(H2) as eve,
        rostra.connect(FAR) as bob,
        eve.watch("vault") as watch,
        eve.join("vault") as early,
    ):
        assert closing(world, VAULT, H1, "us") == Done()
        assert closing(world, VAULT, "us", H1) == Done()  # the same list
        assert closing(world, VAULT, H2).code == NameTaken.code  # C-168: no two lists
        assert closing(world, VAULT).code == BadInput.code
        assert closing(world, Group("vault", Domain("eu")), "us").code in (BadInput.code, NotAllowed.code)
        await world.settled()
        with pytest.raises(NotAllowed, match="not for programs of"):
            async for _ in early:
                pass
        async with ann.join("vault"), bob.join("vault"):
            await world.settled()
            assert await endpoints(ann) == [ann.endpoint, bob.endpoint]
            with pytest.raises(NotAllowed):
                await eve.join("vault")
            with pytest.raises(NotAllowed):
                await eve.join("vault", membership="led")
            assert await endpoints(eve) == [] == list((await eve.resolve("nowhere")).endpoints)
            await watch.ready()
            assert watch.members == ()
        assert world.sim.administer(VAULT.scope, ReopenGroup(VAULT)).result == Done()
        await world.settled()
        async with eve.join("vault"):
            assert await endpoints(ann) == [eve.endpoint]


@pytest.mark.spec("C-167")
async def test_a_list_outlives_a_restart_of_the_scopes_server(world: World) -> None:
    async with rostra.connect(H2) as eve:
        assert closing(world, VAULT, H1) == Done()
        world.crash("world")
        await asyncio.sleep(30.0)
        world.restart("world")
        world.crash("eu.paris")
        await asyncio.sleep(30.0)
        world.restart("eu.paris")
        await world.settled()
        with pytest.raises(NotAllowed):
            await eve.join("vault")


@pytest.mark.spec("C-167")
async def test_an_agent_that_restarts_without_its_server_knows_who_is_a_stranger(world: World) -> None:
    assert closing(world, VAULT, H1) == Done()
    await world.settled()
    world.crash("eu.paris")
    world.crash(H2)
    await asyncio.sleep(30.0)
    world.restart(H2)
    await asyncio.sleep(5.0)
    async with rostra.connect(H2) as eve:
        with pytest.raises(NotAllowed):
            await eve.join("vault")


@pytest.mark.spec("C-167")
def test_a_server_believes_no_stranger_who_says_that_it_is_in() -> None:
    """A compromised agent gets neither in nor a list, whatever it sends."""
    vault, h1, h2 = Group("vault", Domain("eu")), Domain("eu.h1"), Domain("eu.h2")
    plan = NodePlan("w", Domain("eu"), False, True, 1_000, LinkConfig.lan(), RelaxedConfig())
    server = make_stack(plan, Registry())
    for host in (h1, h2):
        server.step(0.0, LinkUp(host, 1))
    server.step(0.0, Asked(Endpoint(""), 1, CloseGroup(vault, (h1,))))

    def heard(host: Domain, message: object) -> list[object]:
        return list(server.step(0.0, Received(host, message)))

    ann, eve = Member(Endpoint("eu.h1/ann#1"), (1, 1)), Member(Endpoint("eu.h2/eve#1"), (1, 1))
    heard(h1, InterestChanged(MessageId(h1, 1, 1), vault, Interest.ALL))
    assert heard(h2, InterestChanged(MessageId(h2, 1, 1), vault, Interest.ALL)) == [
        Ignored("InterestChanged", CLOSED)
    ]
    forged = EndpointsJoined(MessageId(h2, 1, 2), vault, (eve,), Cause.JOIN)
    assert heard(h2, forged) == [
        AccessRefused(eve.endpoint, vault, CLOSED, h2),
        Ignored("EndpointsJoined", CLOSED),
    ]
    asked = ResolveRequest(MessageId(h2, 1, 3), vault)
    assert heard(h2, asked) == [
        Ignored("ResolveRequest", CLOSED),
        Send(h2, ResolveReply(asked.id, vault, (), Interest.NONE)),
    ]
    joined = EndpointsJoined(MessageId(h1, 1, 2), vault, (ann,), Cause.JOIN)
    assert not [each for each in heard(h1, joined) if isinstance(each, Send) and each.to == h2]


@pytest.mark.spec("C-167", "C-168")
async def test_a_led_group_that_is_closed_puts_strangers_out_and_lists_none(world: World) -> None:
    async with (
        rostra.connect(H1) as ann,
        rostra.connect(H2) as eve,
        ann.join("vault", membership="led"),
        eve.join("vault", membership="led") as early,
    ):
        await asyncio.sleep(8.0)
        assert closing(world, VAULT, H1, "us") == Done()
        await asyncio.sleep(8.0)
        with pytest.raises(NotAllowed, match="not for programs of"):
            async for _ in early:
                pass
        assert await endpoints(ann) == [ann.endpoint]
        assert await endpoints(eve) == []
        with pytest.raises(NoSuchGroup):
            await eve.sequence("vault")
        assert closing(world, Group("acme!vault", ROOT), H1) == Done(), (
            "a restricted name may have a list, too"
        )


@pytest.mark.parametrize("membership", ["relaxed", "led", "agreed"])
async def test_a_member_in_an_order_that_has_to_go_is_not_told_to_join_again(
    world: World, membership: Any
) -> None:
    how = {"membership": membership, "delivery": "atomic"}
    async with rostra.connect(H1) as ann, rostra.connect(H2) as eve, ann.join("vault", **how):
        early = await eve.join("vault", **how)
        await asyncio.sleep(5.0)
        assert closing(world, VAULT, H1) == Done()
        with pytest.raises(Excluded, match="not for programs of") as put_out:
            async for _ in early:
                pass
        assert put_out.value.fix == "choose another name"


@pytest.mark.spec("C-167")
async def test_a_permanent_group_that_is_closed_is_for_strangers_not_registered(world: World) -> None:
    """One answer for both: existence is information."""
    async with rostra.connect(H1) as ann, rostra.connect(H2) as eve:
        assert world.sim.administer(ROOT, Register(VAULT)).result == Done()
        assert closing(world, VAULT, H1) == Done()
        await world.settled()
        async with ann.join("vault", permanent=True):
            answers = []
            for name in ("vault", "never"):
                with pytest.raises(NoSuchPermanentGroup) as refused:
                    await eve.join(name, permanent=True)
                answers.append(str(refused.value).replace(name, "NAME"))
            assert answers[0] == answers[1]


@pytest.mark.spec("C-167")
def test_a_registrar_and_a_leader_tell_a_stranger_what_they_tell_of_an_unknown_set() -> None:
    """A compromised agent asks and reports by itself."""
    closed = ClosedList(Domain("eu"), 1, (("chess", (H1_FR,)),))
    server = Server(H1_FR, H2_FR)
    server.led.registrars[Domain("eu")] = server.led._me
    server.stack[SERVER].gate.learn(closed)
    server.carry(H1_FR, H1_FR, FR, ASSERT)
    assert server.led.registrar.entries
    for group in (CHESS, Group("never", Domain("eu"))):
        effects = server.carry(H2_FR, H2_FR, FR, LeaderAsked(group, 7))
        assert letters(effects) == [(H2_FR, LeaderTold(group, 7, None))]
    assert letters(server.carry(H2_FR, H2_FR, FR, Assert(CHESS, 9, 9))) == []

    agent = Agent()
    agent.local.gate.learn(closed)
    agent.lead()
    assert agent.led.trees[CHESS].leads
    for group in (CHESS, Group("never", Domain("eu"))):
        told = letters(agent.receive(H2_FR, ListAsked(group, 7)))
        assert told == [(H2_FR, ListTold(group, 7, leading=False))]
    out: list[Any] = []
    listed = ListEntry(H2_FR, 1, 1, (LocalMember("eve#1"),))
    believed = with_proofs(0.0, agent.local.gate, H1_FR, AttachAsked(CHESS, 1, (listed,)), out)
    assert believed.entries[0].members == ()
    assert out == [AccessRefused(Endpoint(f"{H2_FR}/eve#1"), CHESS, CLOSED, H1_FR)]


@pytest.mark.spec("C-167")
async def test_an_agreed_group_that_is_closed_is_not_there_for_strangers(world: World) -> None:
    async with rostra.connect(H1) as ann, rostra.connect(H2) as eve:
        assert closing(world, VAULT, H1) == Done()
        await asyncio.sleep(8.0)
        async with ann.join("vault", membership="agreed"):
            with pytest.raises(NotAllowed):
                await eve.join("vault", membership="agreed")
            answers = []
            for name in ("vault", "never"):
                with pytest.raises(NoSuchGroup) as refused:
                    await eve.join(name, membership="agreed", create=False)
                answers.append(str(refused.value).replace(name, "NAME"))
            assert answers[0] == answers[1]
            # An agent that does not ask its gate: the servers do.
            agent = world.sim.processes[Domain(H2)].node.stack[AGENT]
            agent.gate.closed.clear()
            with pytest.raises(NoSuchGroup):
                await eve.join("vault", membership="agreed")
