"""Questions about groups of a scope that the host is not in (C-186). Virtual time."""

import asyncio
from typing import Any

import pytest

import rostra
from rostra.core.effects import Ignored, LinkUp, Received, Send
from rostra.errors import NotAvailable, NotInScope, Unreachable
from rostra.groups.members import Member
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.access.requests import CloseGroup
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.messages import ResolveRequest
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Done
from rostra.protocols.relaxed.routing import OUTSIDE
from rostra.protocols.scopes.config import ScopesConfig
from rostra.protocols.scopes.messages import ForeignAsked, ForeignTold
from rostra.stacks import NodePlan, make_stack
from rostra.testing import Worlds

SITES = {"eu.paris": 2, "eu.rome": 1, "us.ny": 1}
ON = ScopesConfig(foreign=True)


async def endpoints(me: rostra.Me, scope: str) -> list[str]:
    return list((await me.resolve("chess", scope, fresh=True)).endpoints)


@pytest.mark.spec("C-186")
async def test_the_answer_is_that_of_a_host_inside(rostra_world: Worlds) -> None:
    world = rostra_world(SITES, scopes=ON)
    async with (
        rostra.connect("eu.paris.h1") as ann,
        rostra.connect("eu.rome.h1") as bob,
        rostra.connect("us.ny.h1") as eve,
    ):
        assert await endpoints(eve, "eu") == []
        async with ann.join("chess", "eu"), bob.join("chess", "eu"), bob.join("chess", "eu.rome"):
            await world.settled()
            assert await endpoints(eve, "eu") == await endpoints(ann, "eu") == [ann.endpoint, bob.endpoint]
            assert await endpoints(eve, "eu.rome") == [bob.endpoint] == await endpoints(ann, "eu.rome")
            with pytest.raises(NotInScope):
                await eve.join("chess", "eu")  # only questions go there
        closed = CloseGroup(Group("chess", Domain("eu")), (Domain("eu.paris"),))
        assert world.sim.administer("eu", closed).result == Done()
        async with ann.join("chess", "eu"):
            await world.settled()
            assert await endpoints(ann, "eu") == [ann.endpoint]
            assert await endpoints(eve, "eu") == []


@pytest.mark.spec("C-186")
async def test_it_is_off_unless_the_world_says_so(rostra_world: Worlds) -> None:
    rostra_world(SITES)
    async with rostra.connect("us.ny.h1") as eve:
        with pytest.raises(NotInScope):
            await endpoints(eve, "eu")


async def test_a_scope_out_of_reach_and_a_led_group_are_refused_by_name(rostra_world: Worlds) -> None:
    world = rostra_world(SITES, scopes=ON)
    async with rostra.connect("us.ny.h1") as eve, rostra.connect("eu.paris.h1") as ann:
        async with ann.join("chess", "eu", membership="led"):
            await asyncio.sleep(2.0)
            with pytest.raises(NotAvailable, match="is led"):
                await endpoints(eve, "eu")
        world.cut("eu")
        await world.settled()
        with pytest.raises(Unreachable, match="cannot reach"):
            await endpoints(eve, "eu")


def sent(effects: list[Any]) -> list[Send]:
    return [each for each in effects if isinstance(each, Send)]


def test_servers_believe_nobody_about_the_other_side() -> None:
    """An asker must be behind the neighbour that asks for it, and so must the scope of an answer."""
    plan = NodePlan("w", Domain("eu.paris"), False, True, 1_000, LinkConfig.lan(), RelaxedConfig(), scopes=ON)
    server = make_stack(plan, Registry())
    h1, eu, far = Domain("eu.paris.h1"), Domain("eu"), Domain("us.ny.h1")
    for peer in (h1, eu):
        server.step(0.0, LinkUp(peer, 1))
    chess, us = Group("chess", Domain("eu.paris")), Group("chess", Domain("us"))

    def heard(peer: Domain, message: Any) -> list[Any]:
        return list(server.step(0.0, Received(peer, message)))

    assert heard(h1, ForeignAsked(far, 1, chess)) == [Ignored("ForeignAsked", OUTSIDE)]
    assert heard(h1, ForeignAsked(h1, 1, chess)) == [Ignored("ForeignAsked", "in scope")]
    assert any(
        isinstance(each.message, ResolveRequest) for each in sent(heard(eu, ForeignAsked(far, 1, chess)))
    )
    assert heard(h1, ForeignAsked(h1, 1, us)) == [Send(eu, ForeignAsked(h1, 1, us))]
    assert heard(Domain("eu.rome"), ForeignAsked(far, 2, chess)) == [
        Ignored("ForeignAsked", "sender is not connected")
    ]
    forged = ForeignTold(far, 1, us, (Member(Endpoint("us.ny.h1/a#1"), (1, 1)),))
    assert heard(h1, forged) == [Ignored("ForeignTold", OUTSIDE)]
