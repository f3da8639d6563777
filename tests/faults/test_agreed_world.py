"""Groups of agreed membership in simulated worlds: one cluster."""

import pytest

from rostra.core.effects import Received, Secure, Send, TimerFired
from rostra.impair.quality import LineQuality, Uniform
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.agent import AGAIN, AGREED_AGENT
from rostra.protocols.agreed.branch import HostHolds, HostQuestion, MemberAsked, ViewTaken, ViewTold
from rostra.protocols.agreed.changes import GroupVerb, MemberId
from rostra.protocols.agreed.groups import AgreedMember
from rostra.protocols.agreed.requests import JoinAgreed, LeaveAgreed, MemberView
from rostra.protocols.agreed.server import AGREED_SERVER, TELL_AGAIN
from rostra.protocols.fifo.events import Excluded
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Absolute, Denied, Done, Request
from rostra.sim.network import LinkModel
from rostra.sim.programs import SimProgram
from rostra.sim.world import World

CHESS = "chess@paris"
KEY = Group("chess", Domain("paris"))


def made(hosts: int = 3) -> World:
    world = World(7, domains={"paris": hosts}, timers=LinkConfig.lan().over_datagrams())
    world.run(2.0)
    return world


def joined(world: World, *hosts: str, survive: str = "") -> list[SimProgram]:
    programs = []
    for host in hosts:
        program = world.program(f"paris.{host}", f"app-{len(world.programs)}")
        call = program.join_agreed(CHESS, survive=survive)
        world.run(1.0)
        assert call.result == Done(), call.result
        programs.append(program)
    return programs


def numbers(program: SimProgram) -> list[int]:
    return [item.number for item in program.agreed[KEY].items if isinstance(item, MemberView)]


@pytest.mark.spec("V-094", "V-097")
def test_members_of_one_cluster_get_the_same_numbered_ranked_views() -> None:
    world = made()
    ann, bob, eve = joined(world, "h1", "h2", "h3")

    order = (ann.address, bob.address, eve.address)
    assert [each.agreed[KEY].members for each in (ann, bob, eve)] == [order] * 3
    assert [numbers(each) for each in (ann, bob, eve)] == [[1, 2, 3], [2, 3], [3]]
    ids = {(each.agreed[KEY].view.number, each.agreed[KEY].view.pid) for each in (ann, bob, eve)}
    assert len(ids) == 1


@pytest.mark.spec("V-097")
def test_a_host_that_several_changes_have_passed_is_told_each_view() -> None:
    world = made()
    joined(world, "h1", "h2", "h3")
    server, host = world.processes[Domain("paris")].stack[AGREED_SERVER], Domain("paris.h1")
    core, out = server.sets[Domain("paris")], []
    views = core.table.groups[KEY].views
    core.told[KEY].ids[host] = views[-3].id
    server._tell(core, KEY, [host], out)
    assert [each.message.id for each in out if isinstance(each, Send)] == [views[-2].id, views[-1].id]


def test_a_host_makes_one_item_of_a_view_for_all_its_members() -> None:
    """A host with many of them made a list of all for each."""
    world = made(2)
    ann, bob = joined(world, "h1", "h1")
    joined(world, "h2")
    assert numbers(ann) == [1, 2, 3] and ann.agreed[KEY].view is bob.agreed[KEY].view


@pytest.mark.spec("V-018")
def test_a_leave_a_crash_and_a_lost_host_are_told_apart() -> None:
    world = made(4)
    ann, bob, eve, dan, fay = joined(world, "h1", "h2", "h3", "h4", "h4")

    bob.leave_agreed(CHESS)
    world.run(1.0)
    assert ann.agreed[KEY].view.left == (bob.address,)
    gone = eve.address
    eve.kill()
    world.run(1.0)
    assert ann.agreed[KEY].view.failed == (gone,)
    lost = (dan.address, fay.address)
    world.crash("paris.h4")
    world.run(10.0)
    assert ann.agreed[KEY].view.failed == lost, "all of a host at once"
    assert ann.agreed[KEY].members == (ann.address,)
    assert numbers(ann) == list(range(1, 9))


def test_the_group_stands_in_the_directory_with_its_kind() -> None:
    world = made()
    ann, _bob = joined(world, "h1", "h2")
    asker = world.program("paris.h3", "asker")
    world.run(0.5)
    answer = asker.resolve(CHESS)
    world.run(1.0)
    assert isinstance(answer.result, Absolute)
    assert [str(member.kind) for member in answer.result.members] == ["agreed, none"] * 2
    ann.kill()
    world.run(1.0)
    again = asker.resolve(CHESS)
    world.run(1.0)
    assert len(again.result.members) == 1


SLOW = LinkModel(LineQuality(Uniform(0.0001, 0.001)), LineQuality(Uniform(0.02, 0.05)))


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.11, 0.15, 0.2])
def test_a_join_that_is_cancelled_makes_no_member(after_s: float, create: bool) -> None:
    """However far it has come: looked for, claimed, asked for, or inside."""
    timers = LinkConfig.lan().over_datagrams()
    world = World(7, domains={"eu.fr": 1, "eu.de": 1}, links=SLOW, timers=timers)
    world.run(4.0)
    group = Group("chess", Domain("eu"))
    ann, bob = world.program("eu.fr.h1", "ann"), world.program("eu.de.h1", "bob")
    bob.join_agreed(group)
    world.run(3.0)
    cancelled = ann.join_agreed(group, create=create)
    world.run(after_s)
    left = ann.leave_agreed(group)
    world.run(5.0)
    assert isinstance(cancelled.result, Done | Denied) and left.result == Done()
    assert bob.agreed[group].members == (bob.address,)
    assert not world.processes[Domain("eu.fr.h1")].stack[AGREED_AGENT].groups
    listed = bob.resolve(group)
    world.run(1.0)
    assert [each.endpoint for each in listed.result.members] == [bob.address]

    again = ann.join_agreed(group)
    world.run(3.0)
    assert again.result == Done()
    assert ann.agreed[group].members == bob.agreed[group].members == (bob.address, ann.address)


@pytest.mark.parametrize("restart_after_s", [0.5, 8.0])
def test_a_server_that_restarts_has_its_groups_back_from_the_hosts(restart_after_s: float) -> None:
    world = made()
    programs = joined(world, "h1", "h2", "h2", "h3")
    view = programs[0].agreed[KEY].view
    world.crash("paris")
    world.run(restart_after_s)
    world.restart("paris")
    world.run(20.0)
    for each in programs:
        stay = each.agreed[KEY]
        assert not stay.blocked
        assert (stay.view.number, stay.view.pid) == (view.number, view.pid)
    (late,) = joined(world, "h2")
    assert programs[0].agreed[KEY].members[-1] == late.address
    assert numbers(programs[0])[-1] == 5


def test_a_member_lives_on_after_its_server_and_the_other_host_restarted() -> None:
    """The restarted host says that it holds nothing before the server has the group back."""
    world = made()
    _ann, bob = joined(world, "h1", "h2", survive="majority")
    world.crash("paris")
    world.crash("paris.h1")
    world.run(0.5)
    world.restart("paris")
    world.restart("paris.h1")
    world.run(20.0)
    assert not bob.agreed[KEY].blocked, bob.agreed[KEY].items[-1]
    assert bob.agreed[KEY].members == (bob.address,)


def test_what_a_host_holds_is_repeated_as_it_is_and_not_as_it_was() -> None:
    """While a restarted server waits for another host, a program joins on this one."""
    world = made()
    ann, _bob = joined(world, "h1", "h2")
    world.crash("paris")
    world.crash("paris.h2")
    world.run(8.0)
    world.restart("paris")
    world.run(1.0)
    eve = world.program("paris.h1", "eve")
    eve.join_agreed(CHESS)
    world.run(0.5)
    agent = world.processes[Domain("paris.h1")].stack[AGREED_AGENT]
    sent = [effect.message for effect in agent.step(world.now, TimerFired(AGAIN)) if isinstance(effect, Send)]

    (holds,) = [message for message in sent if isinstance(message, HostHolds)]
    assert {each.id.endpoint for each in holds.members} == {ann.address, eve.address}


def test_who_was_blocked_by_a_lost_server_says_so_and_goes_on_when_it_is_back() -> None:
    world = made()
    ann, bob = joined(world, "h1", "h2")
    world.crash("paris")
    world.run(10.0)
    assert ann.agreed[KEY].blocked and bob.agreed[KEY].blocked
    refused = world.program("paris.h1", "late").join_agreed(CHESS)
    world.run(1.0)
    assert isinstance(refused.result, Denied) and refused.result.retriable
    bob.kill()
    world.restart("paris")
    world.run(20.0)
    assert ann.agreed[KEY].members == (ann.address,)
    assert not ann.agreed[KEY].blocked


def test_a_host_that_was_cut_off_comes_back_last() -> None:
    world = made()
    ann, bob = joined(world, "h1", "h2")
    world.cut("paris.h1 | paris")
    world.run(20.0)
    assert ann.agreed[KEY].blocked
    assert bob.agreed[KEY].members == (bob.address,)
    world.heal()
    world.run(20.0)
    for each in (ann, bob):
        assert each.agreed[KEY].members == (bob.address, ann.address)
        assert not each.agreed[KEY].blocked


def test_refusals_are_named() -> None:
    world = made()
    joined(world, "h1")
    other = world.program("paris.h2", "other")
    wrong = other.join_agreed(CHESS, survive="majority")
    world.run(1.0)
    assert (wrong.result.code, "agreed, none" in wrong.result.what) == ("NOT_ALLOWED", True)
    absent = other.join_agreed("cheese@paris", create=False)
    world.run(1.0)
    assert absent.result.code == "NO_SUCH_GROUP"
    present = other.join_agreed(CHESS, create=False)
    world.run(1.0)
    assert present.result == Done()
    outside = other.join_agreed("chess@rome")
    world.run(1.0)
    assert outside.result.code == "SCOPE_EXCEEDED"
    bad = other.join_agreed("ches@paris", survive="size >")
    world.run(1.0)
    assert bad.result.code == "BAD_ARGUMENT" and "at character" in bad.result.what


def test_a_minority_of_hosts_is_blocked_at_once() -> None:
    world = made(5)
    programs = joined(world, "h1", "h2", "h3", "h4", "h5", survive="majority")
    fence = programs[0].agreed[KEY].view.fence
    assert fence == 5
    for host in ("h1", "h2", "h3"):
        world.cut(f"paris.{host} | paris")
    world.run(20.0)
    assert programs[4].agreed[KEY].blocked
    world.heal()
    world.run(20.0)
    assert not any(each.agreed[KEY].blocked for each in programs)
    assert len({each.agreed[KEY].members for each in programs}) == 1
    assert programs[0].agreed[KEY].view.fence > fence


def test_fences_grow_beyond_the_servers_life() -> None:
    world = made()
    (ann,) = joined(world, "h1", survive="majority")
    fence = ann.agreed[KEY].view.fence
    ann.kill()
    world.run(1.0)
    world.crash("paris")
    world.run(1.0)
    world.restart("paris")
    world.run(5.0)
    (bob,) = joined(world, "h2", survive="majority")
    assert bob.agreed[KEY].view.fence > fence


def test_no_fence_is_given_out_twice_when_the_hosts_that_had_it_do_not_return() -> None:
    world = made(4)
    programs = joined(world, "h1", "h2", "h3", survive="majority")
    for host in ("h2", "h3"):
        world.cut(f"paris.{host} | paris")
    dan = world.program("paris.h4", "dan")
    dan.join_agreed(CHESS, survive="majority")
    world.run(0.2)
    given = [item for item in dan.agreed[KEY].items if isinstance(item, MemberView)]
    assert [item.fence for item in given] == [4]
    world.crash("paris")
    world.heal()
    for host in ("h1", "h4"):
        world.cut(f"paris.{host} | paris")
    world.run(1.0)
    world.restart("paris")
    world.run(16.0)
    stay = programs[1].agreed[KEY]
    assert stay.blocked and stay.view.fence == 4  # two of four who lived last, as the server remembers
    world.heal("paris.h1 | paris")
    world.run(5.0)
    assert not stay.blocked and stay.view.fence > 4 and dan.address not in stay.members


def test_every_view_with_a_fence_waits_for_the_record_of_it() -> None:
    """With replicas the second view went out while the record still waited for a majority, and the first."""
    world = made()
    joined(world, "h1", "h2", survive="majority")
    server = world.processes[Domain("paris")].stack[AGREED_SERVER]
    known = server.sets[Domain("paris")].table.get(KEY)
    assert known is not None
    h1, h2 = Domain("paris.h1"), Domain("paris.h2")
    late = AgreedMember(MemberId(Endpoint("paris.h2/late#1"), (1, 99)), 0)
    asks = MemberAsked(KEY, HostQuestion(h2, 1, 99), GroupVerb.JOIN, (late,), known.kind)
    for event in (
        Received(h1, ViewTaken(KEY, h1, known.view.id, whole=True)),
        Received(h2, asks),
        TimerFired(TELL_AGAIN),
    ):
        effects = server.step(world.now, event)
        told = [
            at
            for at, each in enumerate(effects)
            if isinstance(each, Send) and isinstance(each.message, ViewTold)
        ]
        assert told and any(isinstance(each, Secure) for each in effects[: told[0]]), event


def test_a_program_that_never_reads_is_excluded() -> None:
    world = made(2)
    ann, bob = joined(world, "h1", "h2")
    bob.deafen()
    comes = world.program("paris.h1", "comes")
    world.run(0.5)
    for _ in range(520):
        comes.join_agreed(CHESS)
        world.run(0.02)
        comes.leave_agreed(CHESS)
        world.run(0.02)
    world.run(1.0)
    assert bob.address not in ann.agreed[KEY].members
    bob.undeafen()
    world.run(1.0)
    assert KEY not in bob.agreed or isinstance(bob.agreed[KEY].items[-1], Excluded)


@pytest.mark.parametrize("request_", [JoinAgreed(KEY), LeaveAgreed(KEY)])
def test_a_refused_request_takes_nothing_from_the_membership_that_stands(request_: Request) -> None:
    """A FIFO member could not speak any more, and its agent told it of no pause."""
    world = World(7, domains={"paris": 2}, fifo=True)
    world.settle()
    ann, bob = world.program("paris.h1", "ann"), world.program("paris.h2", "bob")
    for each in (ann, bob):
        each.join_fifo(CHESS)
    world.run(3.0)
    refused = ann.ask(request_)
    world.run(1.0)
    assert isinstance(refused.result, Denied)
    ann.say(CHESS, b"still here")
    world.run(2.0)
    assert bob.conversation(CHESS).last == {ann.address: 1}


def test_a_refused_second_join_does_not_unpause_a_slow_reader() -> None:
    world = made(2)
    ann, bob = joined(world, "h1", "h2")
    refused = bob.join_agreed(CHESS)
    world.run(0.5)
    assert isinstance(refused.result, Denied)
    bob.deafen()
    for _ in range(600):
        ann.leave_agreed(CHESS)
        world.run(0.02)
        ann.join_agreed(CHESS)
        world.run(0.02)
    assert bob.address not in ann.agreed[KEY].members, "it reads none of hundreds of views"
