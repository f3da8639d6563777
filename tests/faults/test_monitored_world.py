"""Groups with a monitor of their own (relaxed and led membership with ``delivery="atomic"``), in a world of
hosts, servers and programs: who is in is decided by a majority of the last view's hosts."""

import pytest

from rostra.groups.kinds import MembershipKind
from rostra.names import Domain, Group
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.atomic.requests import OrderedRun
from rostra.protocols.flow.runs import payloads
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Denied, Done
from rostra.sim import LAN, World
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.shapes import clusters

RELAXED, LED = MembershipKind.RELAXED, MembershipKind.LED
LEDGER = Group("ledger", Domain("eu.fr"))
WIDE = Group("ledger", Domain("eu"))


def made(tree: dict[str, int], seed: int = 1) -> World:
    world = World(seed, tree=clusters(tree), links=LAN, timers=LinkConfig.lan().over_datagrams(), fifo=True)
    world.run(4.0)
    return world


def joined(
    world: World, hosts: int, group: Group = LEDGER, membership: MembershipKind = RELAXED
) -> list[SimProgram]:
    programs = [world.program(host) for host in world.tree.hosts[:hosts]]
    calls = [program.join_ordered(group, membership=membership) for program in programs]
    world.run(6.0)
    assert [call.result for call in calls] == [Done()] * hosts
    return programs


def said(program: SimProgram, group: Group = LEDGER) -> list[tuple[int, bytes]]:
    """Messages that it was given, with their positions."""
    items = [each for each in program.agreed[group].items if isinstance(each, OrderedRun)]
    return [(each.position + n, body) for each in items for n, body in enumerate(payloads(each.run))]


def is_blocked(program: SimProgram) -> bool:
    return program.agreed[LEDGER].blocked


def members(program: SimProgram, group: Group = LEDGER) -> tuple[str, ...]:
    return program.agreed[group].members


def test_members_of_three_hosts_are_given_one_order() -> None:
    world = made({"eu.fr": 3})
    programs = joined(world, 3)
    for nth in range(10):
        for program in programs:
            program.say_in_order(LEDGER, b"%d of %s" % (nth, program.address.encode()))
        world.run(0.02)
    world.run(2.0)
    assert [len(said(each)) for each in programs] == [30] * 3
    assert said(programs[0]) == said(programs[1]) == said(programs[2])
    assert members(programs[0]) == members(programs[1]) == members(programs[2])
    assert len(members(programs[0])) == 3


@pytest.mark.spec("A-066", "A-067", "A-073")
@pytest.mark.parametrize("membership", [RELAXED, LED])
def test_the_group_goes_on_without_a_host_that_fails(membership: MembershipKind) -> None:
    world = made({"eu.fr": 3})
    programs = joined(world, 3, membership=membership)
    world.crash(programs[0].host)
    world.run(8.0)
    left = [each.address for each in programs[1:]]
    assert [set(members(each)) for each in programs[1:]] == [set(left)] * 2, "though no member said anything"
    programs[1].say_in_order(LEDGER, b"after")
    world.run(2.0)
    assert said(programs[1]) == said(programs[2]) and said(programs[1])[-1][1] == b"after"
    views = [each for each in programs[1].agreed[LEDGER].items if isinstance(each, MemberView)]
    assert programs[0].address in [who for view in views for who in view.failed]


@pytest.mark.spec("A-056", "A-072", "A-107")
def test_a_minority_is_blocked_then_excluded_and_the_majority_goes_on() -> None:
    """XA-19, in one cluster, with the sender in the small part as well."""
    world = made({"eu.fr": 5})
    programs = joined(world, 5)
    few, many = programs[:2], programs[2:]
    stood: set[SimProgram] = set()
    for each in few:
        world.cut(each.host)
    for nth in range(40):
        for program in programs:
            stood.update([program for program in few if LEDGER in program.agreed and is_blocked(program)])
            if LEDGER in program.orders and not program.agreed[LEDGER].blocked:
                program.say_in_order(LEDGER, b"%d" % nth)
        world.run(0.2)
    assert [each.orders.get(LEDGER) for each in few] == [None, None], "excluded"
    assert stood == set(few), "blocked before that"
    assert [set(members(each)) for each in many] == [{each.address for each in many}] * 3
    assert said(many[0]) == said(many[1]) == said(many[2])
    assert said(many[0])[-1][1] == b"39"


def test_a_member_that_was_excluded_finds_the_group_again() -> None:
    world = made({"eu.fr": 3})
    programs = joined(world, 3)
    world.cut(programs[0].host)
    world.run(10.0)
    assert LEDGER not in programs[0].orders
    world.heal()
    world.run(5.0)
    call = programs[0].join_ordered(LEDGER, membership=RELAXED)
    world.run(5.0)
    assert call.result == Done()
    assert members(programs[0]) == members(programs[1]) and len(members(programs[0])) == 3


@pytest.mark.spec("A-075", "A-076", "A-077")
def test_members_and_hosts_come_and_go() -> None:
    world = made({"eu.fr": 3})
    first, second = joined(world, 2)
    beside = world.program(first.host, "beside")
    beside.join_ordered(LEDGER, membership=RELAXED)
    world.run(1.0)
    assert members(first) == members(second) == members(beside)
    assert members(first)[2:] == (beside.address,)
    beside.kill()
    world.run(2.0)
    last = first.agreed[LEDGER].view
    assert last is not None and last.failed == (beside.address,)
    third = world.program(world.tree.hosts[2])
    third.join_ordered(LEDGER, membership=RELAXED)
    world.run(2.0)
    first.leave_ordered(LEDGER)
    world.run(2.0)
    assert members(second) == members(third) == (second.address, third.address)
    left = [who for each in second.agreed[LEDGER].items if isinstance(each, MemberView) for who in each.left]
    assert left == [first.address]
    second.say_in_order(LEDGER, b"still")
    world.run(1.0)
    assert said(second)[-1:] == said(third)[-1:] == [(said(third)[-1][0], b"still")]


@pytest.mark.spec("A-080", "A-081", "A-082")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_five_first_members_at_once_are_one_group(seed: int) -> None:
    """XA-16."""
    world = made({"eu.fr": 3, "eu.de": 2}, seed)
    programs = joined(world, 5, WIDE)
    assert len({members(each, WIDE) for each in programs}) == 1
    assert len(members(programs[0], WIDE)) == 5


@pytest.mark.spec("A-082", "A-107")
def test_a_group_that_lost_its_majority_begins_anew_when_none_of_it_can_live() -> None:
    """Two of three hosts die at once. The third does not go on by itself, and founds nothing while the others
    may be alive behind a cut; when their agents are back, in another life, the next to join founds it."""
    world = made({"eu.fr": 3})
    programs = joined(world, 3)
    for each in programs[1:]:
        world.crash(each.host)
    world.run(2.5)
    world.run(8.0)
    assert LEDGER not in programs[0].orders, "no majority"
    early = programs[0].join_ordered(LEDGER, membership=RELAXED)
    world.run(20.0)
    assert isinstance(early.result, Denied) and early.result.retriable
    for each in programs[1:]:
        world.restart(each.host)
    world.run(5.0)
    again = programs[0].join_ordered(LEDGER, membership=RELAXED)
    world.run(5.0)
    assert again.result == Done() and members(programs[0]) == (programs[0].address,)


@pytest.mark.spec("A-090")
def test_a_host_that_the_list_has_and_that_is_no_member_does_not_enter_the_view() -> None:
    world = made({"eu.fr": 3})
    programs = joined(world, 2)
    stranger = world.program(world.tree.hosts[2])
    call: SimCall = stranger.join(LEDGER)
    world.run(5.0)
    assert call.result is not None
    assert set(members(programs[0])) == {each.address for each in programs}
    assert not any(isinstance(each, MemberBlocked) for each in programs[0].agreed[LEDGER].items)


@pytest.mark.spec("A-056", "A-082")
def test_a_host_without_its_server_ends_its_part_before_another_may_found_the_group() -> None:
    world = made({"eu.fr": 2})
    (alone,) = joined(world, 1)
    world.cut(alone.host)
    world.run(50.0)
    assert LEDGER in alone.orders, "it is a majority of itself"
    other = world.program(world.tree.hosts[1])
    early = other.join_ordered(LEDGER, membership=RELAXED)
    world.run(20.0)
    assert isinstance(early.result, Denied) and early.result.retriable, (
        "the first may be alive, for all it knows"
    )
    assert LEDGER not in alone.orders, "60 s are over"
    world.run(55.0)
    later = other.join_ordered(LEDGER, membership=RELAXED)
    world.run(2.0)
    assert later.result == Done() and members(other) == (other.address,)


@pytest.mark.spec("A-056", "A-082")
def test_a_host_that_stood_still_alone_does_not_go_on_when_another_has_begun_the_group() -> None:
    world = made({"eu.fr": 2})
    (alone,) = joined(world, 1)
    world.pause(alone.host)
    world.run(130.0)
    other = world.program(world.tree.hosts[1])
    begun = other.join_ordered(LEDGER, membership=RELAXED)
    world.run(3.0)
    assert begun.result == Done() and members(other) == (other.address,)
    alone.say_in_order(LEDGER, b"late")
    world.resume(alone.host)
    world.run(0.5)
    assert LEDGER not in alone.orders and said(alone) == []


def test_a_host_that_stood_still_for_less_than_that_goes_on() -> None:
    world = made({"eu.fr": 2})
    (alone,) = joined(world, 1)
    world.pause(alone.host)
    world.run(25.0)
    world.resume(alone.host)
    world.run(100.0)
    alone.say_in_order(LEDGER, b"late")
    world.run(0.5)
    assert [body for _, body in said(alone)] == [b"late"]


@pytest.mark.parametrize("is_back", [True, False])
def test_a_host_that_forgot_a_wide_name_together_with_its_server_does_not_lock_it(is_back: bool) -> None:
    world = made({"eu.fr": 2, "eu.de": 1})
    (first,) = joined(world, 1, WIDE)
    world.crash(first.host)
    world.crash("eu.fr")
    world.run(1.0)
    world.restart("eu.fr")
    if is_back:
        world.restart(first.host)
    world.run(5.0)
    other = world.program(Domain("eu.de.h1"))
    early = other.join_ordered(WIDE, membership=RELAXED)
    world.run(20.0)
    assert isinstance(early.result, Denied) and early.result.retriable, "it may be alive, for all it knows"
    if not is_back:
        world.run(130.0)
    later = other.join_ordered(WIDE, membership=RELAXED)
    world.run(5.0)
    assert later.result == Done() and members(other, WIDE) == (other.address,)


@pytest.mark.spec("A-090", "S-088")
def test_the_leaders_list_of_a_led_group_has_its_members() -> None:
    world = made({"eu.fr": 3})
    first, second = joined(world, 2, membership=LED)
    outsider = world.program(world.tree.hosts[2], "outsider")
    listed = outsider.resolve(LEDGER)
    world.run(4.0)
    assert {each.endpoint for each in listed.result.members} == {first.address, second.address}
    first.leave_ordered(LEDGER)
    world.run(3.0)
    listed = outsider.resolve(LEDGER)
    world.run(4.0)
    assert [each.endpoint for each in listed.result.members] == [second.address]
