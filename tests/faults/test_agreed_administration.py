"""An administrator changes the hierarchy of a world that runs: its sets, and its domains (V-008, C-181)."""

import pytest
from msgspec.structs import replace

from rostra.core.effects import Received
from rostra.errors import BadInput, InDoubt, NotAllowed
from rostra.names import Domain, Group
from rostra.protocols.agreed.administration import WAIT_S
from rostra.protocols.agreed.branch import ReopenAsked
from rostra.protocols.agreed.calls import AdministerSet, SetShown, SetVerb
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.requests import Denied, Done
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.world import World

LAN = LinkConfig.lan().over_datagrams()
EU = Domain("eu")
CHESS = Group("chess", EU)
SITES = ("eu.de", "eu.fr", "eu.it")


def made() -> World:
    world = World(7, domains=dict.fromkeys(SITES, 1), timers=LAN)
    world.run(4.0)
    return world


def join(world: World, host: str, group: Group = CHESS) -> SimProgram:
    program = world.program(host, f"p{len(world.programs)}")
    call = program.join_agreed(group)
    world.run(2.0)
    assert call.result == Done(), call.result
    return program


def order(
    world: World, at: str, verb: SetVerb, *servers: str, names: tuple[str, ...] = (), of: str = "eu"
) -> SimCall:
    call = world.administer(at, AdministerSet(Domain(of), verb, tuple(map(Domain, servers)), names))
    world.run(8.0)
    return call


def shown(call: SimCall) -> tuple[str, list[str], list[str]]:
    answer = call.result
    assert isinstance(answer, SetShown), answer
    parent = [each.server for each in answer.servers if each.is_parent]
    return answer.part, sorted([each.server for each in answer.servers if not each.is_parent]), parent


def numbers(world: World) -> dict[str, int]:
    """Of the views of set(eu), at each of its servers."""
    return {
        path: world.processes[Domain(path)].stack[AGREED_SERVER].sets[EU].core.state.view.number
        for path in (EU, *SITES)
    }


def members(program: SimProgram) -> tuple[str, ...]:
    return tuple([each.partition("/")[0] for each in program.agreed[CHESS].members])


@pytest.mark.spec("V-008", "V-009")
def test_a_server_leaves_its_set_and_joins_it_again() -> None:
    world = made()
    ann, bob, _eve = [join(world, f"{site}.h1") for site in SITES]
    before = numbers(world)
    assert shown(order(world, "eu.de", SetVerb.LEAVE, "eu.fr")) == ("", ["eu.de", "eu.it"], ["eu"])
    after = numbers(world)
    assert {after[path] - before[path] for path in (EU, "eu.de", "eu.it")} == {1}, "one view"
    assert members(ann) == ("eu.de.h1", "eu.it.h1")
    assert members(bob) == ("eu.fr.h1",), "it goes on by itself"
    world.run(30.0)
    assert members(ann) == ("eu.de.h1", "eu.it.h1"), "although all are linked"
    assert shown(order(world, "eu", SetVerb.JOIN, "eu.fr")) == ("", list(SITES), ["eu"])
    assert sorted(members(ann)) == sorted(members(bob)) == ["eu.de.h1", "eu.fr.h1", "eu.it.h1"]
    for each in (ann, bob):
        views = [item.number for item in each.agreed[CHESS].items if isinstance(item, MemberView)]
        assert views == sorted(views)


@pytest.mark.spec("V-008", "V-009", "V-110")
def test_a_set_is_split_and_merged_and_each_side_has_its_own_members() -> None:
    world = made()
    ann, bob, eve = [join(world, f"{site}.h1") for site in SITES]
    call = order(world, "eu.fr", SetVerb.SPLIT, "eu", "eu.de", names=("north", "south"))
    assert shown(call) == ("eu#south", ["eu.fr", "eu.it"], [])
    assert shown(order(world, "eu.de", SetVerb.LOOK)) == ("eu#north", ["eu.de"], ["eu"])
    assert members(ann) == ("eu.de.h1",) and members(bob) == members(eve) == ("eu.fr.h1", "eu.it.h1")
    late = join(world, "eu.it.h1")
    assert len(members(bob)) == 3 and members(ann) == ("eu.de.h1",)
    assert shown(order(world, "eu.it", SetVerb.MERGE)) == ("", list(SITES), ["eu"])
    assert len(members(ann)) == 4 and members(ann) == members(late)


@pytest.mark.spec("V-008")
def test_a_split_outlives_the_restart_of_a_server() -> None:
    world = made()
    for site in SITES:
        join(world, f"{site}.h1")
    order(world, "eu.fr", SetVerb.SPLIT, "eu", "eu.de", names=("north", "south"))
    world.restart("eu.fr")
    world.run(20.0)
    assert shown(order(world, "eu.fr", SetVerb.LOOK))[0].startswith("eu#south")
    assert shown(order(world, "eu.de", SetVerb.LOOK)) == ("eu#north", ["eu.de"], ["eu"])


@pytest.mark.spec("V-008", "V-009", "V-011")
def test_the_parent_of_a_set_is_removed_and_taken_back_by_an_administrator() -> None:
    world = made()
    ann, bob, _eve = [join(world, f"{site}.h1") for site in SITES]
    before = members(ann)
    assert shown(order(world, "eu.de", SetVerb.DEL_PARENT)) == ("", list(SITES), [])
    assert members(ann) == members(bob) == before, "it has no members below it but through them"
    assert shown(order(world, "eu.it", SetVerb.ADD_PARENT)) == ("", list(SITES), ["eu"])
    again = order(world, "eu.it", SetVerb.ADD_PARENT)
    assert isinstance(again.result, Denied) and "already" in again.result.what
    assert members(ann) == members(bob) == before


@pytest.mark.spec("V-008")
def test_orders_that_cannot_be_done_are_answered_with_what_to_do() -> None:
    world = made()
    wrong = order(world, "eu.de", SetVerb.LEAVE, "us", of="us")
    assert isinstance(wrong.result, Denied) and wrong.result.code == NotAllowed.code
    assert "set(eu)" in wrong.result.what and wrong.result.fix
    none = order(world, "eu.de", SetVerb.LEAVE, "eu.pl")
    assert isinstance(none.result, Denied) and none.result.code == BadInput.code
    world.cut("eu.de | eu.fr")
    late = world.administer("eu.de", AdministerSet(EU, SetVerb.MERGE, ()))
    world.run(0.5)
    assert isinstance(late.result, Denied), "all in sight are one part"
    lone = order(world, "eu.de", SetVerb.LOOK, of="eu.de")
    assert isinstance(lone.result, Denied), "below a cluster are hosts"


@pytest.mark.spec("V-008")
def test_an_order_that_is_not_done_in_time_is_in_doubt() -> None:
    world = made()
    for site in SITES:
        join(world, f"{site}.h1")
    order(world, "eu.fr", SetVerb.LEAVE, "eu.it")
    world.pause("eu.it")
    call = world.administer("eu.fr", AdministerSet(EU, SetVerb.JOIN, (Domain("eu.it"),)))
    world.run(WAIT_S + 1.0)
    assert isinstance(call.result, Denied) and call.result.code == InDoubt.code
    assert "rostra hierarchy show eu" in call.result.fix


@pytest.mark.spec("V-008")
def test_each_of_several_orders_is_answered_when_its_own_time_is_over() -> None:
    world = made()
    for site in SITES:
        join(world, f"{site}.h1")
    order(world, "eu.fr", SetVerb.LEAVE, "eu.it")
    world.pause("eu.it")
    calls = []
    for _ in range(2):
        calls.append(world.administer("eu.fr", AdministerSet(EU, SetVerb.JOIN, (Domain("eu.it"),))))
        world.run(0.5)
    world.run(WAIT_S)
    assert [isinstance(each.result, Denied) and each.result.code for each in calls] == [InDoubt.code] * 2


@pytest.mark.spec("V-008")
def test_a_neighbour_speaks_of_the_set_that_it_is_in_and_of_no_other() -> None:
    world = made()
    for site in SITES:
        join(world, f"{site}.h1")
    order(world, "eu.fr", SetVerb.LEAVE, "eu.it")
    for sender in ("eu.it.h1", "eu.fr"):
        world.enter(Domain("eu.it"), Received(Domain(sender), ReopenAsked(EU, "by hand")))
        world.run(8.0)
        shows = order(world, "eu.it", SetVerb.LOOK)
        assert shown(shows)[1] == (["eu.it"] if sender == "eu.it.h1" else list(SITES))


# Domains


@pytest.mark.spec("C-181", "V-008")
def test_a_cluster_is_added_to_a_world_that_runs_and_joins_its_sets_and_groups() -> None:
    world = made()
    ann = join(world, "eu.de.h1")
    plain = world.program("eu.fr.h1", "plain")
    plain.join(Group("news", EU))
    world.settle()
    before = numbers(world)
    world.add("eu.pl.h1", "eu.pl.h2")
    world.settle()
    new = world.program("eu.pl.h2", "new")
    new.join(Group("news", EU))
    world.settle()
    assert sorted(plain.members(Group("news", EU))) == sorted([plain.address, new.address])
    kim = join(world, "eu.pl.h1")
    assert members(ann) == members(kim) == ("eu.de.h1", "eu.pl.h1")
    state = world.processes[EU].stack[AGREED_SERVER].sets[EU].core.state
    assert sorted([each.server for each in state.view.servers]) == ["eu", "eu.de", "eu.fr", "eu.it", "eu.pl"]
    assert state.view.number == before[EU] + 1, "one view"
    assert state.view.servers[-1].server == "eu.pl", "as one that joins"


@pytest.mark.spec("C-181", "V-008")
def test_a_cluster_is_removed_from_a_world_that_runs_as_a_link_that_goes_down() -> None:
    world = made()
    ann, bob, _eve = [join(world, f"{site}.h1") for site in SITES]
    world.remove("eu.it")
    world.run(0.1)
    for path in (EU, "eu.de", "eu.fr"):
        node = world.processes[Domain(path)].node
        assert node is not None and Domain("eu.it") not in node.links, "by a goodbye, and not by silence"
        assert Domain("eu.it") not in world.processes[Domain(path)].stack[SERVER].neighbours.up
    world.run(1.5)
    assert members(ann) == members(bob) == ("eu.de.h1", "eu.fr.h1")
    world.settle()
    world.add("eu.it.h1")
    world.settle()
    late = join(world, "eu.it.h1")
    assert members(ann) == members(late) == ("eu.de.h1", "eu.fr.h1", "eu.it.h1")


@pytest.mark.spec("C-181")
def test_a_domain_moves_to_another_parent_under_its_new_name() -> None:
    """A domain's place is its name: it goes from the one, and comes to the other."""
    world = World(7, domains={"eu.de": 1, "eu.fr": 1, "us.ny": 1}, timers=LAN)
    world.run(4.0)
    everywhere = Group("all", Domain("world"))
    ann, bob = join(world, "eu.de.h1", everywhere), join(world, "eu.fr.h1", everywhere)
    world.remove("eu.fr")
    world.add("us.fr.h1")
    world.settle()
    kim = join(world, "us.fr.h1", everywhere)
    assert not bob.alive and ann.agreed[everywhere].members == (ann.address, kim.address)
    assert world.tree.children[Domain("us")] == ("us.fr", "us.ny")


@pytest.mark.spec("C-181")
def test_a_cluster_cannot_get_domains_beside_its_hosts_while_it_runs() -> None:
    world = made()
    with pytest.raises(BadInput, match=r"holds both|would have domains"):
        world.add("eu.de.b1.h1")
    with pytest.raises(BadInput, match="there already"):
        world.add("eu.de.h1")
    with pytest.raises(BadInput, match="no domain"):
        world.remove("us")


# Levels of servers


def levels(world: World) -> dict[str, int]:
    state = world.processes[Domain("eu.de")].stack[AGREED_SERVER].sets[EU].core.state
    return {each.id.server: each.level for each in state.view.members}


def at_level(world: World, level: int) -> None:
    """Servers that start from now on are of this version."""
    world.agreed = replace(world.agreed, set_level=level)


def test_a_set_uses_what_all_of_its_servers_know_and_nothing_else() -> None:
    world = World(7, domains=dict.fromkeys(SITES, 1), timers=LAN, agreed=AgreedConfig(set_level=0))
    world.run(4.0)
    ann, bob, _eve = [join(world, f"{site}.h1") for site in SITES]
    for number, server in enumerate((*SITES, "eu")):
        refused = order(world, "eu.de", SetVerb.LEAVE, "eu.fr")
        assert isinstance(refused.result, Denied) and refused.result.code == NotAllowed.code, number
        assert "update them first" in refused.result.fix
        at_level(world, 1)
        world.restart(server)
        world.run(20.0)
        assert set(levels(world).values()) == ({0, 1} if number < 3 else {1})
        assert len(members(ann)) == 3
    assert shown(order(world, "eu.de", SetVerb.LEAVE, "eu.fr"))[1] == ["eu.de", "eu.it"]
    assert members(bob) == ("eu.fr.h1",)


def test_a_server_that_is_the_same_member_after_its_update_raises_its_level_by_an_agreed_change() -> None:
    """It kept its state, and so its place: the level is not what it was."""
    earlier = AgreedConfig(set_level=1)
    world = World(7, domains=dict.fromkeys(SITES, 1), replicas={"eu": 3}, timers=LAN, agreed=earlier)
    world.run(20.0)
    ann = world.program("eu.de.h1", "first")
    ann.join_agreed(CHESS)
    world.run(10.0)
    for site in SITES[1:]:
        join(world, f"{site}.h1")
    assert levels(world) == dict.fromkeys((EU, *SITES), 1)
    number = ann.agreed[CHESS].view.number
    at_level(world, 2)
    for replica in world.replicas.of[EU]:
        world.restart(replica)
        world.run(10.0)
    assert levels(world) == {EU: 2, **dict.fromkeys(SITES, 1)}
    shows = order(world, "eu.de", SetVerb.LOOK).result
    assert isinstance(shows, SetShown)
    assert {each.server: each.level for each in shows.servers} == levels(world)
    assert ann.agreed[CHESS].view.number == number, "members notice nothing"
