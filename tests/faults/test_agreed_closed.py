"""Agreed groups that are closed to a host: what its programs get, and an agent that does not ask its gate."""

import pytest

from rostra.errors import NoSuchGroup, NotAllowed
from rostra.names import Domain, Group
from rostra.protocols.access.requests import CloseGroup
from rostra.protocols.agreed.agent import AGREED_AGENT
from rostra.protocols.agreed.calls import AnyCall, GroupCall, GroupPresented, ListGroups, LookAt, OrderCall
from rostra.protocols.agreed.orders import AnyOrder, DeleteGroup, MergeGroups, SetAttributes, SplitGroup
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.fifo.events import Excluded
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import Denied, Done
from rostra.sim.programs import SimProgram
from rostra.sim.world import World

EU = Domain("eu")
VAULT, LOBBY, HALL = [Group(name, EU) for name in ("vault", "lobby", "hall")]


class Closed:
    """Ann is on a host of the list of the vault, Eve is not. Each is in a group."""

    def __init__(self) -> None:
        self.world = World(7, domains={"eu.de": 1, "eu.fr": 1}, timers=LinkConfig.lan().over_datagrams())
        self.world.run(4.0)
        self.ann, self.eve = [self.world.program(f"eu.{each}.h1", each) for each in ("de", "fr")]
        self.close(VAULT, "eu.de")
        for program, group in ((self.ann, VAULT), (self.eve, LOBBY)):
            call = program.join_agreed(group)
            self.world.run(4.0)
            assert call.result == Done(), call.result

    def close(self, group: Group, *allowed: str) -> None:
        call = self.world.administer(EU, CloseGroup(group, tuple(map(Domain, allowed))))
        self.world.run(4.0)
        assert call.result == Done(), call.result

    def ask(self, program: SimProgram, group: Group, call: AnyCall) -> object:
        asked = program.ask(GroupCall(group, call))
        self.world.run(4.0)
        return asked.result

    def order(self, program: SimProgram, group: Group, order: AnyOrder) -> str:
        answer = self.ask(program, group, OrderCall(order))
        return answer.code if isinstance(answer, Denied) else ""

    def forget(self) -> None:
        """Eve's agent does not ask its gate any more."""
        self.world.processes[Domain("eu.fr.h1")].stack[AGENT].gate.closed.clear()

    def members(self, group: Group) -> list[str]:
        table = self.world.processes[Domain("eu.de")].stack[AGREED_SERVER].sets[EU].table
        known = table.get(group)
        return [] if known is None else sorted([each.endpoint for each in known.view.ids])


@pytest.mark.spec("C-167")
@pytest.mark.parametrize("honest", [True, False])
def test_a_closed_group_is_not_there_for_calls_of_strangers(honest: bool) -> None:
    made = Closed()
    if not honest:
        made.forget()
    looked = made.ask(made.eve, VAULT, LookAt())
    assert isinstance(looked, Denied) and looked.code == NoSuchGroup.code
    never = made.ask(made.eve, Group("never", EU), LookAt())
    assert isinstance(never, Denied) and looked.what.replace("vault", "never") == never.what
    listed = made.ask(made.eve, LOBBY, ListGroups())
    assert isinstance(listed, GroupPresented) and listed.groups == (LOBBY,)
    listed = made.ask(made.ann, VAULT, ListGroups())
    assert isinstance(listed, GroupPresented) and listed.groups == (LOBBY, VAULT)
    for order in (DeleteGroup(), SetAttributes((("a", "b"),))):
        assert made.order(made.eve, VAULT, order) == NoSuchGroup.code
    assert made.members(VAULT) == [made.ann.address]


@pytest.mark.spec("C-167")
@pytest.mark.parametrize("honest", [True, False])
def test_a_stranger_cannot_merge_a_closed_group_with_its_own(honest: bool) -> None:
    made = Closed()
    if not honest:
        made.forget()
    assert made.order(made.eve, LOBBY, MergeGroups(VAULT, HALL)) == NoSuchGroup.code
    assert made.members(VAULT) == [made.ann.address] and made.members(HALL) == []


@pytest.mark.spec("C-167", "S-012")
def test_a_split_or_merge_makes_no_restricted_group_and_lets_no_stranger_into_a_closed_one() -> None:
    made = Closed()
    payroll, cellar = Group("acme!payroll", EU), Group("cellar", EU)
    made.close(cellar, "eu.de")
    call = made.ann.join_agreed(LOBBY)
    made.world.run(4.0)
    assert call.result == Done()
    for program in (made.ann, made.eve):
        assert made.order(program, LOBBY, SplitGroup(payroll, HALL, ())), "restricted"
    assert made.order(made.ann, LOBBY, SplitGroup(cellar, HALL, ())) == NotAllowed.code
    assert made.order(made.ann, LOBBY, MergeGroups(VAULT, cellar)) == NotAllowed.code
    assert made.members(payroll) == made.members(cellar) == made.members(HALL) == []
    assert made.order(made.ann, VAULT, SplitGroup(cellar, HALL, ())) == "", "it was closed to the same"


@pytest.mark.spec("C-167")
def test_an_agent_cannot_bring_a_member_back_into_a_group_that_is_closed_to_it() -> None:
    made = Closed()
    made.close(HALL, "eu.de", "eu.fr")
    for program in (made.ann, made.eve):
        program.join_agreed(HALL)
        made.world.run(4.0)
    assert len(made.members(HALL)) == 2
    agent = made.world.processes[Domain("eu.fr.h1")].stack
    made.forget()
    held = agent[AGREED_AGENT].groups
    held[VAULT] = held[HALL]  # it says that it is in the one as in the other
    for way in (made.world.cut, made.world.heal):
        way("eu.fr.h1 | eu.fr")
        made.world.run(8.0)
    assert len(made.members(HALL)) == 2 and made.members(VAULT) == [made.ann.address]


@pytest.mark.spec("C-167")
def test_members_from_elsewhere_have_to_leave_when_an_agreed_group_is_closed() -> None:
    made = Closed()
    call = made.ann.join_agreed(LOBBY)
    made.world.run(4.0)
    assert call.result == Done() and len(made.members(LOBBY)) == 2
    stay = made.eve.agreed[LOBBY]
    made.close(LOBBY, "eu.de")
    assert made.members(LOBBY) == [made.ann.address]
    last = stay.items[-1]
    assert isinstance(last, Excluded) and "not for programs of eu.fr.h1" in last.reason
    assert last.fix == "choose another name"  # to join it again would be refused
