"""`rostra why` of members of agreed groups: which server noticed it, which view was agreed, which fence."""

from collections.abc import Mapping

import msgspec
import pytest

from rostra.client.why import Explanation, NodeMemory, tell
from rostra.names import Domain, Endpoint, Group, host_of, route
from rostra.protocols.agreed.calls import GroupCall, OrderCall
from rostra.protocols.agreed.orders import RemoveMembers
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Recall, Recalled
from rostra.sim import LAN, World
from rostra.sim.shapes import clusters

LEDGER = Group("ledger", Domain("eu"))


@pytest.fixture
def world() -> World:
    world = World(
        1,
        tree=clusters({"eu.fr": 2, "eu.de": 2, "eu.it": 1, "us.ny": 1}),
        links=LAN,
        timers=LinkConfig.lan().over_datagrams(),
    )
    world.run(4.0)
    for host in world.tree.hosts:
        if host.startswith("eu"):
            world.program(host).join_agreed(LEDGER, survive="majority")
    world.run(4.0)
    return world


def why(world: World, about: str, asker: str) -> Explanation:
    way = route(Domain(asker), host_of(Endpoint(about)))
    calls = {node: world.administer(asker, Recall(about, node)) for node in way}
    world.run(for_s=3.0)
    memories = {
        node: NodeMemory(msgspec.json.decode(call.result.document), call.answered_at or 0.0)
        for node, call in calls.items()
        if isinstance(call.result, Recalled)
    }
    unseen: Mapping[Domain, str] = {node: "out of sight" for node in way if node not in memories}
    return tell(about, way, memories, unseen)


def texts(story: Explanation, what: str) -> list[tuple[str, str]]:
    return [(step.node, step.text) for step in story.steps if step.what == what]


def test_a_removal_names_who_noticed_the_change_the_view_and_the_fence(world: World) -> None:
    for other in ("eu.de", "eu.it", "eu"):
        world.cut(f"eu.fr | {other}")
    world.run(5.0)
    story = why(world, "eu.fr.h2/app", "eu.de.h1")
    assert story.verdict == "lost" and "eu.de heard nothing from eu.fr" in story.summary
    ((node, text),) = texts(story, "agreed")
    assert node == "eu.de"
    assert "set(eu) agreed on view 6 of ledger@eu without it: servers failed (eu.fr is lost)" in text
    assert "noticed by eu" in text and "fence 6" in text
    assert any("gave up eu.fr: silent" in step for _, step in texts(story, "down"))
    world.heal().run(12.0)
    story = why(world, "eu.fr.h2/app", "eu.de.h1")
    assert story.verdict == "there" and "is there again" in story.summary
    assert any("blocked its members of ledger@eu: 2 of 5" in text for _, text in texts(story, "blocked"))


def test_a_member_that_left_is_told_with_the_view_without_it(world: World) -> None:
    next(each for each in world.programs if each.host == "eu.it.h1").leave_agreed(LEDGER)
    world.run(1.0)
    story = why(world, "eu.it.h1/app", "eu.de.h1")
    (_, text), *_ = texts(story, "agreed")
    assert text.endswith("without it: leave, noticed by eu.it, acknowledged by 4 servers; fence 6")


def test_a_member_that_was_put_out_is_told_that_somebody_ordered_it(world: World) -> None:
    member = next(each for each in world.programs if each.host == "eu.it.h1")
    order = OrderCall(RemoveMembers((member.endpoint,)))
    next(each for each in world.programs if each.host == "eu.de.h1").ask(GroupCall(LEDGER, order))
    world.run(1.0)
    story = why(world, "eu.it.h1/app", "eu.de.h1")
    (_, text), *_ = texts(story, "agreed")
    assert "without it: ordered by rostra group or me.groups, noticed by eu.de" in text


def test_views_of_groups_that_it_was_not_in_are_no_part_of_an_endpoints_story(world: World) -> None:
    guest = world.program("eu.de.h1", "guest")
    guest.join("lobby@eu")
    world.run(1.0)
    next(each for each in world.programs if each.host == "eu.it.h1").leave_agreed(LEDGER)
    world.run(1.0)
    for each in world.programs:
        if each.host == "eu.de.h1":
            each.kill()
    world.run(1.0)
    member, other = why(world, "eu.de.h1/app", "eu.de.h2"), why(world, "eu.de.h1/guest", "eu.de.h2")

    assert ("eu.de.h1", "gave its members view 6 of ledger@eu, fence 6") in texts(member, "view")
    assert other.verdict == "crashed" and "lobby@eu" in other.summary
    assert "ledger" not in repr(other.steps)


def test_a_group_is_not_named_to_who_is_outside_of_its_scope(world: World) -> None:
    """As C-009 has it."""
    world.cut("eu.fr.h2")
    world.run(5.0)
    assert "ledger" in repr(why(world, "eu.fr.h2/app", "eu.de.h1").steps)
    assert "ledger" not in repr(why(world, "eu.fr.h2/app", "us.ny.h1"))


def test_a_member_whose_group_went_on_without_it_is_told_what_became_of_its_messages() -> None:
    world = World(
        1,
        tree=clusters({"eu.de": 2, "eu.fr": 1}),
        links=LAN,
        timers=LinkConfig.lan().over_datagrams(),
        fifo=True,
    )
    world.run(4.0)
    for host in world.tree.hosts:
        world.program(host).join_ordered(LEDGER, survive="majority")
        world.run(1.0)
    for other in ("eu.de", "eu"):
        world.cut(f"eu.fr | {other}")
    next(each for each in world.programs if each.host == "eu.fr.h1").say_in_order(LEDGER, b"lost", b"too")
    world.run(6.0)
    world.heal().run(8.0)
    story = why(world, "eu.fr.h1/app", "eu.de.h1")
    ((node, text),) = texts(story, "excluded")
    assert node == "eu.fr.h1"
    assert text.startswith(
        "put it out of ledger@eu: this host was given up by the others; 2 of its messages "
    )
    assert story.verdict == "there"
