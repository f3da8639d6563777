"""Calls about groups whose core-set follows their members, from branches that have none of them.

world ─┬─ eu ─┬─ eu.fr ── 2 hosts      set(eu) = {eu.fr, eu.de, eu}
       │      └─ eu.de ── 1 host       set(world) = {eu, us, world}
       └─ us ─┬─ us.ny ── 1 host       set(us) = {us.ny, us.la, us}
              └─ us.la ── 1 host
"""

from typing import Any

import pytest
from msgspec.structs import replace

from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.calls import (
    GroupCall,
    GroupPresented,
    GroupTerminated,
    ListGroups,
    LookAt,
    MemberMoved,
    OrderCall,
)
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.groups import AGREED
from rostra.protocols.agreed.orders import (
    AnyOrder,
    CreateGroup,
    DeleteGroup,
    MergeGroups,
    RemoveMembers,
    SetAttributes,
    SplitGroup,
)
from rostra.protocols.agreed.requests import JoinAgreed
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.agreed.sheets import group_sheet
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Denied, Done
from rostra.sim.programs import SimAgreed, SimProgram
from rostra.sim.shapes import clusters
from rostra.sim.world import World

WORLD, EU, US = Domain("world"), Domain("eu"), Domain("us")
CHESS, CAFE, ONE, TWO = (Group(name, WORLD) for name in ("chess", "cafe", "one", "two"))


@pytest.fixture
def world() -> World:
    tree = clusters({"eu.fr": 2, "eu.de": 1, "us.ny": 1, "us.la": 1})
    made = World(7, tree=tree, timers=LinkConfig.lan().over_datagrams(), agreed=AgreedConfig(moves=True))
    made.run(4.0)
    return made


def join(world: World, host: str, group: Group = CHESS, for_s: float = 3.0) -> SimProgram:
    program = world.program(host, f"p{len(world.programs)}")
    call = program.join_agreed(group)
    world.run(for_s)
    assert call.result == Done(), call.result
    return program


def ask(world: World, host: str, group: Group, call: Any, for_s: float = 4.0) -> GroupPresented | Denied:
    asked = world.program(host, f"p{len(world.programs)}").ask(GroupCall(group, call))
    world.run(for_s)
    assert isinstance(asked.result, GroupPresented | Denied), asked.result
    return asked.result


def order(
    world: World, host: str, group: Group, what: AnyOrder, for_s: float = 4.0
) -> GroupPresented | Denied:
    return ask(world, host, group, OrderCall(what), for_s)


def members(shown: GroupPresented | Denied) -> list[Endpoint]:
    assert isinstance(shown, GroupPresented) and shown.state is not None, shown
    return [each.id.endpoint for each in shown.state.members]


def owners(world: World, group: Group) -> set[Domain]:
    stacks = [each.stack for each in world.processes.values() if each.node is not None]
    servers = [server for stack in stacks if (server := stack.find(AGREED_SERVER)) is not None]
    return {name for server in servers for name, core in server.sets.items() if group in core.table.groups}


@pytest.mark.parametrize("host", ["us.ny.h1", "eu.fr.h2", "eu.de.h1"])
def test_a_group_is_found_where_its_members_are(world: World, host: str) -> None:
    ann, bob = join(world, "eu.fr.h1"), join(world, "eu.de.h1")
    shown = ask(world, host, CHESS, LookAt(history=8))
    assert members(shown) == [ann.address, bob.address]
    assert isinstance(shown, GroupPresented) and shown.state is not None
    assert shown.state.core == (Domain("eu"), Domain("eu.de"), Domain("eu.fr"))
    assert [past.id[0] for past in shown.state.history] == [0, 1]
    assert members(ask(world, host, CHESS, LookAt(1))) == [ann.address]
    assert owners(world, CHESS) == {EU}, "nothing moves for a question"


def test_while_it_moves_it_is_found_too(world: World) -> None:
    ann, eve = join(world, "eu.fr.h1"), join(world, "us.ny.h1")
    eve.leave_agreed(CHESS)
    world.run(0.5)
    for _ in range(12):  # down again, from 2 s on
        assert members(ask(world, "us.la.h1", CHESS, LookAt(), for_s=2.2)) == [ann.address]
        world.run(0.1)
    assert owners(world, CHESS) == {EU}


def test_a_group_is_changed_where_it_is_and_its_members_know(world: World) -> None:
    ann, bob = join(world, "eu.fr.h1"), join(world, "eu.de.h1")
    order(world, "us.ny.h1", CHESS, SetAttributes((("tier", "gold"),)))
    shown = ask(world, "us.ny.h1", CHESS, LookAt())
    assert isinstance(shown, GroupPresented) and shown.state is not None
    sheet = group_sheet(shown.state.attributes)
    assert sheet is not None and sheet.properties == (("tier", "gold"),)
    assert members(order(world, "us.ny.h1", CHESS, RemoveMembers((bob.address,)))) == [ann.address]
    assert CHESS not in bob.agreed and ann.agreed[CHESS].members == (ann.address,)
    assert owners(world, CHESS) == {EU}


def test_a_group_that_was_deleted_from_elsewhere_is_over_and_can_be_joined_anew(world: World) -> None:
    ann = join(world, "eu.fr.h1")
    order(world, "us.ny.h1", CHESS, DeleteGroup())
    assert isinstance(ann.agreed[CHESS].items[-1], GroupTerminated)
    gone = ask(world, "us.ny.h1", CHESS, LookAt())
    assert isinstance(gone, Denied) and gone.code == "NO_SUCH_GROUP"
    bob = join(world, "eu.fr.h2")
    assert bob.agreed[CHESS].members == (bob.address,)
    eve = join(world, "us.ny.h1")
    assert eve.agreed[CHESS].members == (bob.address, eve.address)


def test_a_name_that_is_taken_elsewhere_is_taken(world: World) -> None:
    join(world, "eu.fr.h1")
    taken = order(world, "us.ny.h1", CHESS, CreateGroup(AGREED))
    assert isinstance(taken, Denied) and taken.code == "NAME_TAKEN"
    join(world, "us.ny.h1", ONE)
    split = order(world, "eu.fr.h1", CHESS, SplitGroup(ONE, TWO, (("a", "b"),)), 9.0)
    assert isinstance(split, Denied) and split.code == "NAME_TAKEN"


def test_a_group_is_split_from_elsewhere_and_its_parts_go_where_their_members_are(world: World) -> None:
    ann, bob = join(world, "eu.fr.h1"), join(world, "eu.de.h1")
    ann.agreed[ONE], bob.agreed[TWO] = SimAgreed(), SimAgreed()
    order(world, "us.ny.h1", CHESS, SetAttributes((("side", "a"),), (ann.address,)))
    order(world, "us.ny.h1", CHESS, SplitGroup(ONE, TWO, (("side", "a"),)), 9.0)
    moved = ann.agreed[CHESS].items[-1]
    assert isinstance(moved, MemberMoved) and moved.to == ONE
    assert ann.agreed[ONE].members == (ann.address,) and bob.agreed[TWO].members == (bob.address,)
    assert owners(world, ONE) == owners(world, TWO) == {EU}
    assert members(ask(world, "us.ny.h1", TWO, LookAt())) == [bob.address]


def test_groups_of_two_branches_are_merged(world: World) -> None:
    ann, eve = join(world, "eu.fr.h1", CHESS), join(world, "us.ny.h1", CAFE)
    assert (owners(world, CHESS), owners(world, CAFE)) == ({EU}, {US})
    ann.agreed[ONE], eve.agreed[ONE] = SimAgreed(), SimAgreed()
    order(world, "eu.de.h1", CHESS, MergeGroups(CAFE, ONE), 9.0)
    assert ann.agreed[ONE].members == eve.agreed[ONE].members == (ann.address, eve.address)
    assert owners(world, ONE) == {WORLD}


@pytest.mark.parametrize("host", ["us.ny.h1", "eu.fr.h2", "eu.de.h1"])
def test_groups_are_listed_wherever_they_are(world: World, host: str) -> None:
    ann = join(world, "eu.fr.h1", CHESS)
    join(world, "us.ny.h1", CAFE)
    for site in ("eu.fr.h1", "us.ny.h1"):
        join(world, site, ONE)
    shown = ask(world, host, Group("groups", WORLD), ListGroups())
    assert isinstance(shown, GroupPresented) and shown.groups == (CAFE, CHESS, ONE)
    shown = ask(world, host, Group("groups", WORLD), ListGroups(member=ann.address))
    assert isinstance(shown, GroupPresented) and shown.groups == (CHESS,)


def test_a_subgroup_has_members_of_its_group_wherever_that_is(world: World) -> None:
    ann, eve = join(world, "eu.fr.h1"), join(world, "us.ny.h1", CAFE)
    order(world, "eu.fr.h1", ONE, CreateGroup(replace(AGREED, within="chess")))
    for program, result in ((ann, Done()), (eve, None)):
        call = program.ask(JoinAgreed(ONE, create=False))
        world.run(9.0)
        assert call.result == result or (result is None and isinstance(call.result, Denied)), call.result
    assert members(ask(world, "us.ny.h1", ONE, LookAt())) == [ann.address]
