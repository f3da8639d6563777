"""Subgroups that a split made of a group that goes on: who is in them, when links break and members leave."""

import pytest

from rostra.names import Domain, Group
from rostra.protocols.agreed.agent import AGREED_AGENT
from rostra.protocols.agreed.calls import GroupCall, GroupPresented, MemberAdded, OrderCall
from rostra.protocols.agreed.orders import AnyOrder, MergeGroups, SplitGroup
from rostra.protocols.agreed.requests import LeaveAgreed, MemberView
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.fifo.events import Excluded
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Denied, Done
from rostra.sim.programs import SimProgram
from rostra.sim.world import World

WORLDS = {
    "cluster": ("paris", {"paris": 3}, ("paris.h1", "paris.h2", "paris.h3")),
    "sites": ("eu", {"eu.fr": 1, "eu.de": 1, "eu.it": 1}, ("eu.fr.h1", "eu.de.h1", "eu.it.h1")),
}


class Split:
    """Three programs on three hosts in `whole`, which is about to be split and kept: all are in `one`."""

    def __init__(self, name: str) -> None:
        scope, domains, hosts = WORLDS[name]
        self.world = World(7, domains=domains, timers=LinkConfig.lan().over_datagrams())
        self.whole, self.one, self.other = [Group(each, Domain(scope)) for each in ("whole", "one", "other")]
        self.world.run(4.0)
        self.programs = [self.world.program(host, "app") for host in hosts]
        for program in self.programs:
            self.join(program, self.whole, create=True)

    def join(self, program: SimProgram, group: Group, *, create: bool = False, meta: bytes = b"") -> object:
        call = program.join_agreed(group, create=create, meta=meta)
        self.world.run(5.0)
        return call.result

    def order(self, order: AnyOrder, by: int = 2, for_s: float = 8.0) -> object:
        call = self.programs[by].ask(GroupCall(self.whole, OrderCall(order)))
        self.world.run(for_s)
        return call.result

    @property
    def split(self) -> SplitGroup:
        return SplitGroup(self.one, self.other, (), keep=True)

    def members(self, group: Group) -> list[str]:
        """As all servers of the set have them."""
        found = {
            tuple([each.endpoint for each in known.view.ids])
            for process in self.world.processes.values()
            if AGREED_SERVER in process.stack
            for core in process.stack[AGREED_SERVER].sets.values()
            if (known := core.table.get(group)) is not None
        }
        assert len(found) == 1, found
        return list(found.pop())

    def added(self, program: SimProgram) -> list[Group]:
        return [each.to for each in program.agreed[self.whole].items if isinstance(each, MemberAdded)]

    @property
    def addresses(self) -> list[str]:
        return [each.address for each in self.programs]


@pytest.fixture(params=sorted(WORLDS))
def made(request: pytest.FixtureRequest) -> Split:
    return Split(request.param)


@pytest.mark.spec("V-045")
def test_all_are_told_once_and_have_the_views_when_they_join(made: Split) -> None:
    assert isinstance(made.order(made.split), GroupPresented)
    assert made.members(made.whole) == made.members(made.one) == made.addresses
    assert [made.added(each) for each in made.programs] == [[made.one]] * 3
    first = made.programs[0]
    refused = made.join(first, made.one, create=True)
    assert isinstance(refused, Denied) and "create=False" in refused.fix
    refused = made.join(first, made.one, meta=b"other")
    assert isinstance(refused, Denied) and "without meta" in refused.fix
    assert made.join(first, made.one) == Done()
    (view,) = first.agreed[made.one].items
    assert isinstance(view, MemberView) and view.members is not None and view.number == 4
    assert made.members(made.one) == made.addresses, "no change was needed for it"
    made.world.crash(made.programs[2].host)
    made.world.run(30.0)
    assert made.members(made.whole) == made.members(made.one) == made.addresses[:2]
    assert first.agreed[made.one].members == tuple(made.addresses[:2])


@pytest.mark.spec("V-041", "V-045")
def test_who_leaves_a_subgroup_stays_in_the_group_and_is_not_brought_back(made: Split) -> None:
    made.order(made.split)
    first, second = made.programs[:2]
    assert made.join(first, made.one) == Done()
    first.leave_agreed(made.one)
    made.world.run(10.0)
    assert made.members(made.one) == made.addresses[1:] and made.members(made.whole) == made.addresses
    for program in (first, second):
        made.world.reset(f"{program.host} | {program.host.rpartition('.')[0]}", away_s=0.1)
    made.world.run(30.0)
    assert made.members(made.one) == made.addresses[1:] and made.members(made.whole) == made.addresses
    assert [made.added(each) for each in made.programs] == [[made.one]] * 3


@pytest.mark.spec("V-041", "V-045")
@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.1, 0.15])
def test_who_leaves_a_subgroup_while_its_host_is_away_is_not_brought_back(
    made: Split, after_s: float
) -> None:
    """Its agent cannot say so at once, and the core-set believes that the host was never told."""
    made.order(made.split)
    first = made.programs[0]
    assert made.join(first, made.one) == Done()
    made.world.reset(f"{first.host} | {first.host.rpartition('.')[0]}", away_s=0.1)
    made.world.run(after_s)
    first.leave_agreed(made.one)
    made.world.run(30.0)
    assert made.members(made.one) == made.addresses[1:] and made.members(made.whole) == made.addresses
    assert made.added(first) == [made.one]


@pytest.mark.spec("V-041")
def test_who_leaves_the_group_is_out_of_its_subgroups_and_gets_the_reason(made: Split) -> None:
    made.order(made.split)
    first, second = made.programs[:2]
    assert made.join(first, made.one) == Done()
    stay = first.agreed[made.one]
    for program in (first, second):  # the second one never joined the subgroup
        program.ask(LeaveAgreed(made.whole))
    made.world.run(10.0)
    assert made.members(made.one) == made.members(made.whole) == made.addresses[2:]
    last = stay.items[-1]
    assert isinstance(last, Excluded) and "it left whole@" in last.reason
    for program in (first, second):
        assert not made.world.processes[program.host].stack[AGREED_AGENT].groups
    made.world.run(30.0)
    assert made.members(made.one) == made.addresses[2:]


@pytest.mark.spec("V-041", "V-043")
def test_when_the_group_is_over_so_is_the_stay_in_its_subgroups(made: Split) -> None:
    made.order(made.split)
    assert made.join(made.programs[0], made.one) == Done()
    stay = made.programs[0].agreed[made.one]
    made.join(made.programs[1], Group("third", made.whole.scope), create=True)
    merged = MergeGroups(Group("third", made.whole.scope), Group("all", made.whole.scope))
    assert isinstance(made.order(merged), GroupPresented)
    assert made.members(made.one) == [] and len(made.members(Group("all", made.whole.scope))) == 3
    assert isinstance(stay.items[-1], Excluded)


@pytest.mark.spec("V-045", "V-097")
@pytest.mark.parametrize("after_s", [0.0, 0.001, 0.002, 0.003, 0.005, 0.01, 0.05, 0.2])
def test_a_host_whose_link_is_made_anew_meanwhile_is_told_all_the_same(made: Split, after_s: float) -> None:
    made.order(made.split, for_s=after_s)
    host = made.programs[0].host
    made.world.reset(f"{host} | {host.rpartition('.')[0]}", away_s=0.1)
    made.world.run(30.0)
    assert made.members(made.whole) == made.members(made.one) == made.addresses
    assert [made.added(each) for each in made.programs] == [[made.one]] * 3


@pytest.mark.spec("V-041", "V-103")
def test_a_host_that_was_given_up_brings_its_members_back_into_both(made: Split) -> None:
    made.order(made.split)
    first = made.programs[0]
    assert made.join(first, made.one) == Done()
    made.world.cut(f"{first.host} | {first.host.rpartition('.')[0]}")
    made.world.run(30.0)
    assert made.members(made.whole) == made.members(made.one) == made.addresses[1:]
    made.world.heal()
    made.world.run(30.0)
    back = [*made.addresses[1:], made.addresses[0]]
    assert made.members(made.whole) == made.members(made.one) == back
    assert first.agreed[made.one].members == tuple(back)


@pytest.mark.spec("V-041", "V-106")
def test_parts_that_meet_have_their_subgroups_again() -> None:
    made = Split("sites")
    made.order(made.split)
    assert made.join(made.programs[0], made.one) == Done()
    for other in ("eu.de", "eu.it", "eu"):
        made.world.cut(f"eu.fr | {other}")
    made.world.run(30.0)
    made.world.heal()
    made.world.run(60.0)
    assert sorted(made.members(made.whole)) == sorted(made.members(made.one)) == sorted(made.addresses)
    assert sorted(made.programs[0].agreed[made.one].members) == sorted(made.addresses)
    assert made.members(made.other) == []


@pytest.mark.spec("V-045", "V-041")
def test_servers_that_restart_know_whose_subgroups_they_are() -> None:
    made = Split("sites")
    made.order(made.split)
    assert made.join(made.programs[0], made.one) == Done()
    for server in ("eu.fr", "eu.de", "eu"):
        made.world.restart(server)
        made.world.run(40.0)
    assert sorted(made.members(made.whole)) == sorted(made.members(made.one)) == sorted(made.addresses)
    made.programs[0].ask(LeaveAgreed(made.whole))
    made.world.run(10.0)
    assert made.programs[0].address not in made.members(made.one)
