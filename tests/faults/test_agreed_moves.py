"""Groups whose core-set follows their members, in simulated worlds of three levels.

world ─┬─ eu ─┬─ eu.fr ── hosts        set(eu) = {eu.fr, eu.de, eu}, of level 1
       │      └─ eu.de ── hosts        set(world) = {eu, us, world}, of level 2
       └─ us ─── us.ny ── hosts
"""

from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from rostra.core.effects import Event, Received, Send
from rostra.errors import ScopeExceeded
from rostra.names import Domain, Group, host_of, parent
from rostra.protocols.agreed.agent import AGREED_AGENT
from rostra.protocols.agreed.branch import MemberAsked
from rostra.protocols.agreed.changes import GroupChange, GroupPlaced, PlaceStep
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.events import SetCommitted
from rostra.protocols.agreed.messages import Commit, Initiate
from rostra.protocols.agreed.moves import core_domain
from rostra.protocols.agreed.moving import MovingServer
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Denied, Done
from rostra.sim.programs import SimProgram
from rostra.sim.shapes import clusters
from rostra.sim.world import World

ALL = Group("all", Domain("world"))
WORLD, EU, US = Domain("world"), Domain("eu"), Domain("us")


def made(**sites: int) -> World:
    tree = clusters({name.replace("_", "."): hosts for name, hosts in sites.items()})
    world = World(7, tree=tree, timers=LinkConfig.lan().over_datagrams(), agreed=AgreedConfig(moves=True))
    world.run(4.0)
    return world


def campus() -> World:
    return made(eu_fr=2, eu_de=1, us_ny=1)


def join(world: World, host: str, for_s: float = 3.0) -> SimProgram:
    program = world.program(host, f"p{len(world.programs)}")
    call = program.join_agreed(ALL)
    world.run(for_s)
    assert call.result == Done(), call.result
    return program


def servers(world: World) -> dict[Domain, MovingServer]:
    found = {}
    for path, process in world.processes.items():
        if process.node is not None and (server := process.stack.find(AGREED_SERVER)) is not None:
            assert isinstance(server, MovingServer)
            found[path] = server
    return found


def owners(world: World, group: Group = ALL) -> set[Domain]:
    """Whose sets have the group, as their servers say."""
    return {
        name
        for server in servers(world).values()
        for name, core in server.sets.items()
        if group in core.table.groups
    }


def numbers(program: SimProgram) -> list[int]:
    return [item.number for item in program.agreed[ALL].items if isinstance(item, MemberView)]


def commits(world: World, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Domain, Domain, Any]]:
    """From now on: where, in which set, which change."""
    seen: list[tuple[Domain, Domain, Any]] = []
    perform = MovingServer._perform

    def noted(self: MovingServer, core: Any, effects: Any, out: Any) -> None:
        effects = list(effects)
        seen.extend(
            (self.domain, core.core.set, effect.record.proposal.change)
            for effect in effects
            if isinstance(effect, SetCommitted)
        )
        perform(self, core, effects, out)

    monkeypatch.setattr(MovingServer, "_perform", noted)
    return seen


@pytest.mark.spec("XV-01", "V-023", "V-024", "V-026")
def test_the_core_set_rises_with_the_first_member_from_another_branch() -> None:
    world = campus()
    ann, bob = join(world, "eu.fr.h1"), join(world, "eu.de.h1")
    assert owners(world) == {EU}
    eve = join(world, "us.ny.h1")
    assert owners(world) == {WORLD}
    order = (ann.address, bob.address, eve.address)
    assert [each.agreed[ALL].members for each in (ann, bob, eve)] == [order] * 3
    assert [numbers(each) for each in (ann, bob, eve)] == [[1, 2, 3], [2, 3], [3]]


@pytest.mark.spec("V-025", "V-026")
def test_it_sinks_when_only_one_branch_has_members_and_no_view_is_made_for_that() -> None:
    world = campus()
    ann, _bob, eve = join(world, "eu.fr.h1"), join(world, "eu.de.h1"), join(world, "us.ny.h1")
    eve.leave_agreed(ALL)
    world.run(5.0)
    assert owners(world) == {EU}
    assert numbers(ann) == [1, 2, 3, 4]
    for server in servers(world).values():  # and all of the upper set know where it is
        upper = server.sets.get(WORLD)
        if upper is not None:
            assert upper.table.places[ALL].below == (EU,)
    dan = join(world, "eu.fr.h2")
    assert numbers(ann) == [1, 2, 3, 4, 5] and numbers(dan) == [5]


@pytest.mark.spec("V-025", "V-029")
def test_with_one_cluster_or_nobody_left_it_stays_in_the_set_of_level_1() -> None:
    world = campus()
    ann, bob = join(world, "eu.fr.h1"), join(world, "eu.de.h1")
    bob.leave_agreed(ALL)
    world.run(5.0)
    assert owners(world) == {EU}
    ann.leave_agreed(ALL)
    world.run(5.0)
    assert owners(world) == {EU}
    eve = join(world, "us.ny.h1", 6.0)
    assert owners(world) == {US}, "it was found from far away, and is where its member is"
    assert eve.agreed[ALL].members == (eve.address,)


@pytest.mark.spec("V-029")
def test_a_group_that_empties_in_two_branches_at_once_stays_where_it_is() -> None:
    world = campus()
    ann, eve = join(world, "eu.fr.h1"), join(world, "us.ny.h1")
    ann.leave_agreed(ALL)
    eve.leave_agreed(ALL)
    world.run(6.0)
    assert owners(world) == {WORLD}, "all branches have as many of its members as any"
    bob = join(world, "eu.de.h1", 6.0)
    assert owners(world) == {EU} and bob.agreed[ALL].members == (bob.address,)


@pytest.mark.spec("V-023", "V-031", "V-034")
@pytest.mark.parametrize("seed", range(4))
def test_after_every_step_of_a_random_run_it_is_the_lowest_set_that_covers_the_members(seed: int) -> None:
    luck = Random(seed)
    world = made(eu_fr_paris=2, eu_fr_lyon=1, eu_de_bonn=1, us_ny_city=1)
    hosts = world.tree.hosts
    inside: list[SimProgram] = []
    above = None
    for _ in range(10):
        if inside and luck.random() < 0.45:
            gone = inside.pop(luck.randrange(len(inside)))
            gone.leave_agreed(ALL)
            world.run(12.0)
        else:
            host = luck.choice(hosts)
            inside.append(join(world, host, 12.0))
            above = above or parent(parent(host))
        at = tuple([parent(host_of(each.address)) for each in inside])
        (found,) = owners(world)
        if at:
            assert found == core_domain(at, parent(at[0]))
        assert all(each.agreed[ALL].members == inside[0].agreed[ALL].members for each in inside)
        known = [found, *([] if found == WORLD else [parent(found)])]
        for domain, server in servers(world).items():  # pointers lead from the scope down to it
            for name, core in server.sets.items():
                place = core.table.places.get(ALL)
                if name not in known:
                    continue
                if name == found:
                    assert ALL in core.table.groups, domain
                else:
                    assert place is not None and place.below == (found,), domain


@pytest.mark.spec("V-020", "V-021", "V-060")
def test_only_the_core_set_starts_changes_of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    world = campus()
    join(world, "eu.fr.h1")
    sent: list[tuple[Domain, Domain]] = []
    step = MovingServer.step

    def noted(self: MovingServer, now: float, event: Event) -> Any:
        out = step(self, now, event)
        for effect in out:
            if isinstance(effect, Send) and isinstance(effect.message, Initiate):
                change = effect.message.proposal.change
                if isinstance(change, GroupChange) and change.group == ALL:
                    sent.append((self.domain, effect.message.set))
        return out

    monkeypatch.setattr(MovingServer, "step", noted)
    join(world, "eu.de.h1")
    assert set(sent) == {(Domain("eu.de"), EU)}, "the server that got the request coordinates it"
    sent.clear()
    join(world, "eu.fr.h2")
    assert set(sent) == {(Domain("eu.fr"), EU)}
    join(world, "us.ny.h1")
    sent.clear()
    join(world, "eu.de.h1")
    assert set(sent) == {(EU, WORLD)}


@pytest.mark.spec("V-028")
def test_members_that_come_and_go_at_the_border_do_not_move_it_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = campus()
    for server in servers(world).values():
        server._config = replace(server._config, down_after_s=10.0)
    join(world, "eu.fr.h1")
    seen = commits(world, monkeypatch)
    for _ in range(50):
        eve = join(world, "us.ny.h1", 1.0)
        eve.leave_agreed(ALL)
        world.run(1.0)
    moves = Counter(
        (name, change.step)
        for where, name, change in seen
        if where == EU and isinstance(change, GroupPlaced) and change.step is PlaceStep.HAND
    )
    assert moves == {(EU, PlaceStep.HAND): 1}, "up, once"
    world.run(15.0)
    assert owners(world) == {EU}


@pytest.mark.spec("V-030", "V-032")
@pytest.mark.parametrize("luck", range(4))
def test_two_first_members_in_two_branches_at_once_make_one_group(luck: int) -> None:
    tree = clusters({"eu.fr": 1, "us.ny": 1})
    world = World(luck, tree=tree, timers=LinkConfig.lan().over_datagrams(), agreed=AgreedConfig(moves=True))
    world.run(4.0)
    ann, eve = world.program("eu.fr.h1", "ann"), world.program("us.ny.h1", "eve")
    calls = [ann.join_agreed(ALL), eve.join_agreed(ALL)]
    world.run(10.0)
    assert [call.result for call in calls] == [Done(), Done()]
    assert owners(world) == {WORLD}
    assert ann.agreed[ALL].members == eve.agreed[ALL].members
    assert len(ann.agreed[ALL].members) == 2
    assert sorted([numbers(ann), numbers(eve)]) == [[1, 2], [2]], "one made it, and the other joined"


@pytest.mark.spec("V-032")
def test_one_name_with_two_scopes_is_two_groups() -> None:
    world = campus()
    inner = Group("all", EU)
    ann, eve = world.program("eu.fr.h1", "ann"), world.program("us.ny.h1", "eve")
    ann.join_agreed(inner)
    eve.join_agreed(ALL)
    world.run(5.0)
    assert ann.agreed[inner].members == (ann.address,) and eve.agreed[ALL].members == (eve.address,)
    ann.join_agreed(ALL)  # by its qualified name, the outer one is in reach from inside
    world.run(5.0)
    assert ann.agreed[ALL].members == (eve.address, ann.address)


@pytest.mark.spec("V-024", "V-035")
def test_a_join_from_outside_of_the_scope_is_refused_and_changes_nothing() -> None:
    world = campus()
    inner = Group("all", EU)
    ann = world.program("eu.fr.h1", "ann")
    ann.join_agreed(inner)
    world.run(3.0)
    refused = world.program("us.ny.h1", "eve").join_agreed(inner)
    world.run(3.0)
    assert isinstance(refused.result, Denied) and refused.result.code == ScopeExceeded.code
    assert numbers_of(ann, inner) == [1] and owners(world, inner) == {EU}


def numbers_of(program: SimProgram, group: Group) -> list[int]:
    return [item.number for item in program.agreed[group].items if isinstance(item, MemberView)]


@pytest.mark.spec("V-033")
def test_a_join_climbs_to_the_first_set_that_knows_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    world = made(eu_fr_paris=2, eu_fr_lyon=1, eu_de_bonn=1, us_ny_city=1)
    join(world, "eu.fr.paris.h1", 12.0)
    hops: list[Domain] = []
    step = MovingServer.step

    def noted(self: MovingServer, now: float, event: Event) -> Any:
        if isinstance(event, Received) and isinstance(event.message, MemberAsked):
            hops.append(self.domain)
        return step(self, now, event)

    monkeypatch.setattr(MovingServer, "step", noted)
    join(world, "eu.fr.lyon.h1", 6.0)
    assert hops == ["eu.fr.lyon"], "its own set has the group"
    hops.clear()
    join(world, "eu.de.bonn.h1", 6.0)
    assert hops == ["eu.de.bonn", "eu.de"], "set(eu) knows the branch that has it"
    hops.clear()
    join(world, "us.ny.city.h1", 6.0)
    assert hops == ["us.ny.city", "us.ny", "us"]


SHARED = ("eu", "us", "eu.fr", "us.ny")


@pytest.mark.spec("XV-16", "V-027")
@pytest.mark.parametrize("victim", SHARED)
@pytest.mark.parametrize(
    "last", [(EU, PlaceStep.HAND), (WORLD, PlaceStep.WANT), (WORLD, PlaceStep.TAKE), (EU, PlaceStep.DROP)]
)
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_server_that_dies_at_any_step_of_a_move_leaves_one_owner_and_loses_no_member(
    monkeypatch: pytest.MonkeyPatch, victim: str, last: tuple[Domain, PlaceStep], side: str
) -> None:
    """It dies as the step is committed, before or after the others have that from it; and comes back."""
    world = campus()
    ann, bob = join(world, "eu.fr.h1"), join(world, "eu.de.h1")
    died: list[float] = []
    step = MovingServer.step

    def fatal(self: MovingServer, now: float, event: Event) -> Any:
        out = step(self, now, event)
        if self.domain != victim or died:
            return out
        for core in self.sets.values():
            record = core.core.state.last
            change = None if record is None else record.proposal.change
            if isinstance(change, GroupPlaced) and (core.core.set, change.step) == last:
                died.append(now)
                world.agenda.at(now, lambda *_: world.crash(victim), None, None)
                if side == "before":
                    return [
                        effect
                        for effect in out
                        if not (isinstance(effect, Send) and isinstance(effect.message, Commit))
                    ]
        return out

    monkeypatch.setattr(MovingServer, "step", fatal)
    eve = world.program("us.ny.h1", "eve")
    call = eve.join_agreed(ALL)
    world.run(15.0)
    if died:
        world.restart(victim)
    world.run(40.0)
    if isinstance(call.result, Denied):
        assert call.result.retriable
        call = eve.join_agreed(ALL)
        world.run(10.0)
    assert call.result == Done()
    everyone = {ann.address, bob.address, eve.address}
    assert owners(world) == {WORLD}
    for each in (ann, bob, eve):
        assert set(each.agreed[ALL].members) == everyone
        assert not each.agreed[ALL].blocked
        views = [item for item in each.agreed[ALL].items if isinstance(item, MemberView)]
        order = [(view.number, view.revision) for view in views]
        assert order == sorted(set(order))
    assert len({(each.agreed[ALL].view.number, each.agreed[ALL].view.pid) for each in (ann, bob, eve)}) == 1


@pytest.mark.spec("V-016")
def test_a_cut_between_a_parent_and_its_set_is_seen_on_both_sides() -> None:
    """The set goes on without its parent, and the set above without what is below that."""
    world = campus()
    ann, bob, eve = join(world, "eu.fr.h1"), join(world, "eu.de.h1"), join(world, "us.ny.h1")
    for site in ("eu.fr", "eu.de"):
        world.cut(f"link eu | {site}")
    world.run(15.0)
    assert eve.agreed[ALL].members == (eve.address,)
    assert ann.agreed[ALL].members == bob.agreed[ALL].members == (ann.address, bob.address)
    for at, name, there in (("eu.fr", EU, ["eu.de", "eu.fr"]), ("eu", EU, ["eu"])):
        view = servers(world)[Domain(at)].sets[name].core.state.view
        assert sorted([each.server for each in view.servers]) == there
    for site in ("eu.fr", "eu.de"):
        world.heal(f"link eu | {site}")
    world.run(30.0)
    order = (ann.address, bob.address, eve.address)
    assert [each.agreed[ALL].members for each in (ann, bob, eve)] == [order] * 3


@pytest.mark.spec("V-011", "V-016", "XV-18")
def test_a_set_that_lost_its_parent_goes_on_and_the_parts_of_a_group_meet_when_it_is_back() -> None:
    world = campus()
    ann, bob, eve = join(world, "eu.fr.h1"), join(world, "eu.de.h1"), join(world, "us.ny.h1")
    world.crash("eu")
    world.run(15.0)
    assert owners(world) == {EU, US}, "each part goes on in the lowest set that has its members"
    assert ann.agreed[ALL].members == bob.agreed[ALL].members == (ann.address, bob.address)
    assert eve.agreed[ALL].members == (eve.address,)
    assert not ann.agreed[ALL].blocked
    bob.leave_agreed(ALL)  # the set without a parent changes the group
    world.run(3.0)
    assert ann.agreed[ALL].members == (ann.address,)
    world.restart("eu")
    world.run(30.0)
    assert owners(world) == {WORLD}
    assert ann.agreed[ALL].members == eve.agreed[ALL].members == (ann.address, eve.address), "by seniority"
    assert numbers(ann) == sorted(set(numbers(ann))) and numbers(eve) == sorted(set(numbers(eve)))


@pytest.mark.spec("V-096")
def test_the_history_of_views_moves_with_the_core_set() -> None:
    world = campus()
    join(world, "eu.fr.h1")
    bob = join(world, "eu.de.h1")
    bob.leave_agreed(ALL)
    world.run(2.0)
    eve = join(world, "us.ny.h1")
    known = servers(world)[WORLD].sets[WORLD].table.get(ALL)
    assert known is not None
    assert [len(view.ids) for view in known.views] == [0, 1, 2, 1, 2]
    eve.leave_agreed(ALL)
    world.run(6.0)
    down = servers(world)[Domain("eu.fr")].sets[EU].table.get(ALL)
    assert down is not None
    assert [len(view.ids) for view in down.views] == [0, 1, 2, 1, 2, 1]


@pytest.mark.spec("V-029")
def test_a_host_that_died_while_its_group_moved_is_removed() -> None:
    """Its loss was no change of either set while the group was on its way."""
    world = campus()
    ann, bob = join(world, "eu.fr.h1"), join(world, "eu.de.h1")
    eve = world.program("us.ny.h1", "eve")
    world.crash("eu.de.h1")
    eve.join_agreed(ALL)
    world.run(10.0)
    assert ann.agreed[ALL].members == eve.agreed[ALL].members == (ann.address, eve.address)
    assert not world.processes[Domain("eu.fr.h1")].stack[AGREED_AGENT].asked
    assert bob.address not in ann.agreed[ALL].members


@pytest.mark.spec("V-023", "V-024")
def test_clusters_of_different_depths_share_a_group() -> None:
    """The server of a cluster right below the scope is in the set that others' groups come up to."""
    world = made(lab=1, eu_fr=1, eu_de=1)
    ann = join(world, "eu.fr.h1")
    assert owners(world) == {EU}
    lea = join(world, "lab.h1")
    assert owners(world) == {WORLD}
    bob = join(world, "eu.de.h1")
    order = (ann.address, lea.address, bob.address)
    assert [each.agreed[ALL].members for each in (ann, lea, bob)] == [order] * 3
    lea.leave_agreed(ALL)
    world.run(6.0)
    assert owners(world) == {EU}
    assert numbers(ann) == [1, 2, 3, 4]
    lea = join(world, "lab.h1")
    assert owners(world) == {WORLD} and numbers(ann) == [1, 2, 3, 4, 5]


@pytest.mark.spec("V-120")
def test_a_server_in_two_sets_never_makes_two_views_with_one_id() -> None:
    """It counts its proposals in each set. A group that moved has views of both."""
    world = campus()
    for host in ("eu.fr.h1", "us.ny.h1"):
        join(world, host)
    lower, upper = (servers(world)[EU].sets[name].core.state for name in (EU, WORLD))
    assert lower.me == upper.me
    assert lower.count > 1 << 40 > upper.count > 0


def test_an_agent_that_is_told_of_members_it_does_not_have_says_so() -> None:
    """Its core-set may have moved when they died, and both sets have missed that."""
    world = campus()
    ann, bob = join(world, "eu.fr.h1"), join(world, "us.ny.h1")
    agent = world.processes[Domain("us.ny.h1")].stack[AGREED_AGENT]
    agent.groups.clear()  # as if the death of bob had been reported, and forgotten on the way
    join(world, "eu.de.h1", 10.0)
    assert bob.address not in ann.agreed[ALL].members
