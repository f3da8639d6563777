"""Groups of agreed membership that span clusters: sets of servers agree on their views."""

import pytest

from rostra.core.effects import CancelTimer, Effect, Event, Instant, SetTimer, TimerFired, TimerKey
from rostra.impair.quality import LineQuality, Uniform
from rostra.names import Domain, Group
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.agreed.server import AGREED_SERVER, AgreedServer
from rostra.protocols.agreed.state import Idle
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Done
from rostra.sim.network import LinkModel
from rostra.sim.programs import SimProgram
from rostra.sim.world import World

EU = "chess@eu"
KEY = Group("chess", Domain("eu"))
SITES = {"eu.fr": 2, "eu.de": 2, "eu.it": 1}


def made(seed: int = 7, **domains: int) -> World:
    wan = LineQuality(Uniform(0.02, 0.05))
    world = World(
        seed,
        domains=domains or SITES,
        links=LinkModel(LineQuality(Uniform(0.0001, 0.001)), wan),
        timers=LinkConfig.lan().over_datagrams(),
    )
    world.run(4.0)
    return world


def joined(world: World, *hosts: str, group: str = EU, survive: str = "") -> list[SimProgram]:
    programs = []
    for host in hosts:
        program = world.program(host, f"app-{len(world.programs)}")
        call = program.join_agreed(group, survive=survive)
        world.run(3.0)
        assert call.result == Done(), call.result
        programs.append(program)
    return programs


def views(program: SimProgram, key: Group = KEY) -> list[tuple[int, str]]:
    return [(item.number, item.pid) for item in program.agreed[key].items if isinstance(item, MemberView)]


def members(program: SimProgram, key: Group = KEY) -> tuple[str, ...]:
    return program.agreed[key].members


@pytest.mark.spec("V-020", "V-094")
def test_members_of_three_sites_get_the_same_views() -> None:
    world = made()
    ann, bob, eve = joined(world, "eu.fr.h1", "eu.de.h1", "eu.it.h1")

    order = (ann.address, bob.address, eve.address)
    assert [members(each) for each in (ann, bob, eve)] == [order] * 3
    assert [number for number, _ in views(ann)] == [1, 2, 3]
    assert views(ann)[1:] == views(bob) and views(ann)[2:] == views(eve)


@pytest.mark.spec("V-003", "V-011")
def test_with_its_parent_a_set_loses_no_member_of_a_group() -> None:
    """All of them are below the parent, and each below another server of the set, too."""
    world = made()
    ann, bob, eve = joined(world, "eu.fr.h1", "eu.de.h1", "eu.it.h1")
    world.crash("eu")
    world.run(10.0)
    assert [each.address for each in (ann, bob, eve)] == list(members(ann))
    bob.leave_agreed(EU)
    world.run(3.0)
    assert members(ann) == members(eve) == (ann.address, eve.address)
    assert [number for number, _ in views(ann)] == [1, 2, 3, 4]


def test_joins_at_three_sites_at_once_have_one_order() -> None:
    world = made()
    programs = [world.program(host, "app") for host in ("eu.fr.h1", "eu.de.h1", "eu.it.h1", "eu.fr.h2")]
    world.run(0.5)
    calls = [program.join_agreed(EU) for program in programs]
    world.run(15.0)
    assert [call.result for call in calls] == [Done()] * 4
    assert len({members(each) for each in programs}) == 1
    longest = max([views(each) for each in programs], key=len)
    for each in programs:
        assert longest[-len(views(each)) :] == views(each)


def test_a_lost_host_a_lost_site_and_a_lost_program() -> None:
    world = made()
    ann, bob, eve, dan = joined(world, "eu.fr.h1", "eu.de.h1", "eu.it.h1", "eu.fr.h2")
    world.crash("eu.fr.h2")
    world.run(10.0)
    assert members(bob) == (ann.address, bob.address, eve.address)
    gone = eve.address
    eve.kill()
    world.run(5.0)
    assert bob.agreed[KEY].view.failed == (gone,)
    world.crash("eu.de")
    world.run(15.0)
    assert members(ann) == (ann.address,)
    assert bob.agreed[KEY].blocked
    world.restart("eu.de")
    world.run(30.0)
    assert members(ann) == members(bob)
    assert set(members(ann)) == {ann.address, bob.address}
    assert not bob.agreed[KEY].blocked and dan.agreed == {}


@pytest.mark.spec("C-190", "V-064")
def test_a_domain_that_is_cut_off_is_one_change_and_one_view_however_many_members_it_has() -> None:
    world = made()
    *lost, bob, eve = joined(world, "eu.fr.h1", "eu.fr.h1", "eu.fr.h2", "eu.de.h1", "eu.it.h1")
    before = len(views(bob))
    world.cut("eu.fr")
    world.run(10.0)
    item = bob.agreed[KEY].items[-1]
    assert isinstance(item, MemberView) and set(item.failed) == {each.address for each in lost}
    assert len(views(bob)) == before + 1 and views(bob)[-1] == views(eve)[-1]
    assert members(bob) == (bob.address, eve.address)


@pytest.mark.spec("V-064", "V-097", "V-110")
def test_a_link_that_ends_below_a_parent_costs_a_wide_group_those_behind_it_and_nobody_else() -> None:
    """Their set goes on without the parent, which still carries what the others ask and are told."""
    world = made(**{"eu.fr": 1, "eu.de": 1, "eu.it": 1, "us.ny": 1})
    wide, key = "all@world", Group("all", Domain("world"))
    ann, bob, eve, dan = joined(world, "eu.fr.h1", "eu.de.h1", "eu.it.h1", "us.ny.h1", group=wide)
    joined(world, "eu.de.h1")  # so that there is a set(eu)
    world.cut("link eu | eu.it")
    world.run(15.0)
    core = world.processes[Domain("eu")].stack[AGREED_SERVER].sets[Domain("eu")].core
    assert len(core.state.view.servers) < 4, "set(eu) has fallen apart"
    for each in (ann, bob, dan):
        assert members(each, key) == (ann.address, bob.address, dan.address)
        assert not each.agreed[key].blocked
    assert eve.agreed[key].blocked
    world.heal()
    world.run(15.0)
    for each in (ann, bob, eve, dan):
        assert members(each, key) == (ann.address, bob.address, dan.address, eve.address)
        assert not each.agreed[key].blocked


@pytest.mark.spec("XV-17", "V-064")
def test_a_clusters_server_that_dies_costs_each_of_three_groups_one_view_and_its_members_come_back() -> None:
    world = made()
    groups = [Group(name, Domain("eu")) for name in ("chess", "go", "poker")]
    far = [joined(world, "eu.fr.h1", "eu.fr.h2", group=str(each)) for each in groups]
    near = [joined(world, "eu.de.h1", group=str(each))[0] for each in groups]
    world.crash("eu.fr")
    world.run(10.0)
    for group, gone, stays in zip(groups, far, near, strict=True):
        last = stays.agreed[group].items[-1]
        assert isinstance(last, MemberView) and last.number == 4, "one view"
        assert set(last.failed) == {each.address for each in gone}
        assert stays.agreed[group].members == (stays.address,)
        assert all(each.agreed[group].blocked for each in gone)
    world.restart("eu.fr")
    world.run(20.0)
    for group, back, stays in zip(groups, far, near, strict=True):
        everyone = {stays.address, *[each.address for each in back]}
        assert {each.agreed[group].members for each in (stays, *back)} == {stays.agreed[group].members}
        assert set(stays.agreed[group].members) == everyone
        assert not any(each.agreed[group].blocked for each in (stays, *back))


def test_a_program_that_joins_at_once_on_a_host_that_restarted_does_not_keep_the_dead_in_the_group() -> None:
    """The join says nothing of those that were on the host before, whose loss is not committed yet."""
    world = made(**{"eu.fr": 1, "eu.de": 1, "us.ny": 1})
    key = Group("all", Domain("world"))
    ann, bob = joined(world, "eu.fr.h1", "eu.de.h1", group="all@world")
    gone = bob.address
    world.crash("eu.de.h1")
    world.run(0.05)
    world.restart("eu.de.h1")
    world.run(0.05)
    eve = world.program("eu.de.h1", "eve")
    call = eve.join_agreed("all@world")
    world.run(0.4)
    assert call.result == Done(), "before the loss of bob is committed"
    assert gone in members(ann, key)
    world.run(5.0)
    assert members(ann, key) == members(eve, key) == (ann.address, eve.address)


def test_a_cut_gives_views_on_both_sides_and_heals_into_one() -> None:
    world = made()
    ann, bob, eve = joined(world, "eu.fr.h1", "eu.de.h1", "eu.it.h1")
    world.cut("eu.fr")
    world.run(20.0)
    assert members(ann) == (ann.address,)
    assert members(bob) == members(eve) == (bob.address, eve.address)
    world.heal()
    world.run(30.0)
    assert members(ann) == members(bob) == members(eve) == (ann.address, bob.address, eve.address)
    assert views(ann)[-1] == views(bob)[-1] == views(eve)[-1]


def test_with_majority_one_side_lives_and_the_other_is_blocked() -> None:
    world = made()
    ann, bob, eve = joined(world, "eu.fr.h1", "eu.de.h1", "eu.it.h1", survive="majority")
    fence = bob.agreed[KEY].view.fence
    world.cut("eu.fr")
    world.run(20.0)
    assert ann.agreed[KEY].blocked
    assert isinstance(ann.agreed[KEY].items[-1], MemberBlocked)
    assert members(bob) == members(eve) == (bob.address, eve.address)
    assert bob.agreed[KEY].view.fence > fence
    world.heal()
    world.run(30.0)
    assert not ann.agreed[KEY].blocked
    assert members(ann) == members(bob) == members(eve) == (ann.address, bob.address, eve.address)


def test_a_server_of_a_set_waits_with_a_timer_whatever_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for what it proposes on account of a merge, in the same step. Otherwise a message that is lost
    with a link is never sent again."""
    step, runs = AgreedServer.step, dict[tuple[AgreedServer, TimerKey], bool]()

    def watched(server: AgreedServer, now: Instant, event: Event) -> list[Effect]:
        if isinstance(event, TimerFired):
            runs[server, event.timer] = False
        effects = step(server, now, event)
        for effect in effects:
            if isinstance(effect, SetTimer | CancelTimer):
                runs[server, effect.timer] = isinstance(effect, SetTimer)
        for core in [each.core for each in server.sets.values()]:
            assert runs.get((server, core.timer), False) == (core.state.phase != Idle()), (event, effects)
        return effects

    monkeypatch.setattr(AgreedServer, "step", watched)
    world = made()
    ann, bob, eve = joined(world, "eu.fr.h1", "eu.de.h1", "eu.it.h1", survive="majority")
    world.cut("eu.fr")
    world.run(15.0)
    world.heal()
    world.run(20.0)
    assert set(members(ann)) == {ann.address, bob.address, eve.address}


def test_a_dead_member_is_not_waited_for_again_after_a_merge() -> None:
    """The part that comes back remembers a view of the dead member, and not that it died."""
    world = made()
    joined(world, "eu.de.h1", survive="majority")
    world.pause("eu")
    world.run(10.0)
    world.crash("eu.de.h1")
    world.run(0.1)
    world.restart("eu.de.h1")
    world.run(5.0)
    world.resume("eu")
    world.run(20.0)
    (bob,) = joined(world, "eu.fr.h1", survive="majority")
    assert not bob.agreed[KEY].blocked, bob.agreed[KEY].items[-1]
    assert members(bob) == (bob.address,)


def test_a_wider_scope_than_the_parents_climbs_to_its_core_set() -> None:
    world = made(**{"eu.fr.paris": 1, "eu.fr.lyon": 1, "eu.de.bonn": 1, "us.ny": 1})
    key = Group("chess", Domain("world"))
    hosts = ("eu.fr.paris.h1", "eu.fr.lyon.h1", "eu.de.bonn.h1", "us.ny.h1")
    programs = joined(world, *hosts, group="chess@world")
    order = tuple([each.address for each in programs])
    assert [members(each, key) for each in programs] == [order] * 4
    assert [name for name, process in world.processes.items() if AGREED_SERVER in process.stack] != []
    world.crash("eu.fr.lyon")
    world.run(15.0)
    rest = tuple([each.address for each in programs if each is not programs[1]])
    assert members(programs[0], key) == members(programs[3], key) == rest
    world.restart("eu.fr.lyon")
    world.run(30.0)
    assert len({members(each, key) for each in programs}) == 1
    world.cut("link eu.fr | eu")
    world.run(15.0)
    assert programs[0].agreed[key].blocked and programs[1].agreed[key].blocked
    assert members(programs[3], key) == (programs[2].address, programs[3].address)
    world.heal()
    world.run(30.0)
    assert len({members(each, key) for each in programs}) == 1
    assert not any(each.agreed[key].blocked for each in programs)


def test_a_server_of_the_set_that_restarts_at_once_loses_no_member() -> None:
    world = made()
    programs = joined(world, "eu.fr.h1", "eu.de.h1", "eu.it.h1")
    world.crash("eu.fr")
    world.run(0.3)
    world.restart("eu.fr")
    world.run(40.0)
    assert len({members(each) for each in programs}) == 1
    assert set(members(programs[0])) == {each.address for each in programs}


def test_a_world_without_agreed_groups_has_no_sets() -> None:
    world = made()
    world.program("eu.fr.h1").join("chess@eu")
    world.run(10.0)
    assert all(
        not process.stack[AGREED_SERVER].sets
        for name, process in world.processes.items()
        if AGREED_SERVER in process.stack
    )


@pytest.mark.spec("V-066", "V-103", "V-105")
def test_a_set_that_is_never_idle_becomes_one_again() -> None:
    """Ten joins a second: each part has a change under way whenever the other probes it."""
    sites = ("eu.fr", "eu.de", "eu.it", "eu.es")
    world = made(**dict.fromkeys(sites, 2))

    def join_for(time_s: float) -> None:
        until = world.now + time_s
        while world.now < until:
            place = len(world.programs)
            host = f"{sites[place % 4]}.h{place // 4 % 2 + 1}"
            world.program(host, f"app-{place}").join_agreed(Group(f"g{place % 5}", Domain("eu")))
            world.run(0.1)

    def servers(site: str) -> int:
        return len(
            world.processes[Domain(site)].stack[AGREED_SERVER].sets[Domain("eu")].core.state.view.servers
        )

    join_for(2.0)
    world.cut("eu.fr")
    join_for(6.0)
    assert [servers(site) for site in sites] == [1, 4, 4, 4]
    world.heal()
    join_for(6.0)
    assert [servers(site) for site in sites] == [5, 5, 5, 5]


@pytest.mark.parametrize("below", ["", ".x"])
@pytest.mark.parametrize("seed", range(2))
def test_nobody_is_in_doubt_without_a_fault_however_far_up_the_core_set_is(seed: int, below: str) -> None:
    """A lease is as old as the questions of all servers on the way: those that ask in a bad order of moments
    let it run out again and again."""
    sites = {f"eu.a{below}": 1, f"eu.b{below}": 1, f"us.c{below}": 1, f"us.d{below}": 1}
    world = World(seed, domains=sites, timers=LinkConfig.lan().over_datagrams())
    world.run(4.0)
    group = Group("lead", Domain("world"))
    candidates = [
        *joined(world, f"eu.a{below}.h1", group=str(group), survive="majority"),
        *joined(world, f"eu.b{below}.h1", group=str(group), survive="majority"),
        *joined(world, f"us.c{below}.h1", group=str(group), survive="majority"),
    ]
    world.run(10.0)
    world.cut(f"us.d{below}")  # a site without members
    world.run(10.0)
    for each in candidates:
        assert not [item for item in each.agreed[group].items if isinstance(item, MemberBlocked)]


def test_a_view_says_which_domains_were_lost_with_its_failed_members() -> None:
    """A site is for the set to lose; a host, for the server that it is below."""
    world = made()
    ann, bob, eve, dan = joined(world, "eu.fr.h1", "eu.de.h1", "eu.it.h1", "eu.fr.h2")
    assert [each.agreed[KEY].view.without for each in (ann, bob, eve, dan)] == [()] * 4

    world.crash("eu.fr.h2")
    world.run(10.0)
    assert ann.agreed[KEY].view.without == (Domain("eu.fr.h2"),)
    assert bob.agreed[KEY].view.failed == (dan.address,) and bob.agreed[KEY].view.without == ()
    world.cut("eu.de")
    world.run(10.0)
    for each in (ann, eve):
        view = each.agreed[KEY].view
        assert (view.failed, view.without, view.suspects) == ((bob.address,), (Domain("eu.de"),), ())
    gone = eve.address
    eve.kill()
    world.run(5.0)
    view = ann.agreed[KEY].view
    assert (view.failed, view.without) == ((gone,), ()), "of this view, not of one before"


def test_a_view_agreed_before_a_lost_host_is_removed_says_who_may_be_dead() -> None:
    world = made()
    ann, dan = joined(world, "eu.fr.h1", "eu.fr.h2")
    late = world.program("eu.fr.h1", "late")
    server = world.processes[Domain("eu.fr")].stack[AGREED_SERVER]
    world.crash("eu.fr.h2")
    while not server._lost:
        world.run(0.05)
    late.join_agreed(EU)
    world.run(0.4)
    listed = [item for item in ann.agreed[KEY].items if isinstance(item, MemberView)][-1]
    assert members(ann) == (ann.address, dan.address, late.address)
    assert listed.suspects == late.agreed[KEY].view.suspects == (dan.address,)
    world.run(5.0)
    last = ann.agreed[KEY].view
    assert (last.failed, last.suspects, last.without) == ((dan.address,), (), (Domain("eu.fr.h2"),))


def test_a_view_that_a_coordinator_commits_without_a_silent_server_says_who_is_behind_it() -> None:
    """The change that finds it: the next one removes its members."""
    world = made()
    ann, bob, _eve = joined(world, "eu.fr.h1", "eu.de.h1", "eu.it.h1")
    late = world.program("eu.fr.h2", "late")
    world.run(0.5)
    late.join_agreed(EU)
    world.run(0.01)
    world.cut("eu.de")
    world.run(10.0)
    items = [item for item in ann.agreed[KEY].items if isinstance(item, MemberView)]
    assert [bob.address in each.suspects for each in items if late.address in dict(each.joined)] == [True]
    assert items[-1].failed == (bob.address,) and items[-1].without == (Domain("eu.de"),)
