"""A rolling restart of all hosts, each drained before: what rank 0 does moves once."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from rostra.names import Domain, Group, host_of
from rostra.protocols.agreed import draining
from rostra.protocols.agreed.calls import DrainHost, HostDrained
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import Done
from rostra.sim import LAN, World
from rostra.sim.programs import SimProgram
from rostra.sim.shapes import clusters

LEAD = Group("lead/scheduler", Domain("eu"))
HOSTS = ("eu.fr.h1", "eu.fr.h2", "eu.de.h1", "eu.it.h1")


class Rolling:
    """Four candidates; the one on the first host leads."""

    def __init__(self) -> None:
        tree = clusters({"eu.fr": 2, "eu.de": 1, "eu.it": 1})
        self.world = World(3, tree=tree, links=LAN, timers=LinkConfig.lan().over_datagrams())
        self.world.settle()
        self.programs: dict[str, SimProgram] = {}
        self.led: list[str] = []  # hosts with rank 0, one after the other
        for host in HOSTS:
            self.join(host)

    def join(self, host: str) -> None:
        program = self.programs[host] = self.world.program(host)
        self.world.run(0.1)
        call = program.join_agreed(LEAD, survive="majority")
        self.run(2.0)
        assert call.result == Done(), call.result

    def run(self, for_s: float, step_s: float = 0.1) -> None:
        for _ in range(int(for_s / step_s)):
            self.world.run(step_s)
            leaders = self.leaders()
            assert len(leaders) <= 1, "never two"
            if leaders and self.led[-1:] != leaders:
                self.led += leaders

    def leaders(self) -> list[str]:
        found = []
        for host, program in self.programs.items():
            known = program.agreed.get(LEAD)
            if program.alive and known is not None and not known.blocked and known.members:
                found += [host] if host_of(known.members[0]) == host else []
        return found

    def drain(self, host: str) -> HostDrained:
        call = self.programs[host].ask(DrainHost())
        self.run(0.5, 0.005)
        assert isinstance(call.result, HostDrained), call.result
        return call.result

    def restart(self, hosts: Sequence[str], *, level: int) -> None:
        """In this order, each drained before."""
        self.world.agreed = replace(self.world.agreed, level=level)
        for host in hosts:
            self.drain(host)
            self.programs[host].leave_agreed(LEAD)
            self.run(0.5)
            self.world.restart(host)
            self.run(3.0)
            self.join(host)


@pytest.mark.parametrize("place", [1, 3])
def test_in_a_rolling_restart_the_leader_moves_once(place: int) -> None:
    rolling = Rolling()
    first, *others = HOSTS
    order = [*others[:place], first, *others[place:]]
    rolling.restart(order, level=1)
    assert rolling.led == [first, order[0]], "to the host that was restarted first, which stays"


def test_if_the_leaders_host_is_first_it_moves_twice_and_drain_says_so() -> None:
    rolling = Rolling()
    drained = rolling.drain(HOSTS[0])
    assert [(each.first, each.level, each.others) for each in drained.groups] == [(True, 0, 0)]
    assert rolling.led == [HOSTS[0], HOSTS[1]]


def test_without_levels_it_moves_with_every_host_that_leads() -> None:
    rolling = Rolling()
    order = [HOSTS[3], *HOSTS[:3]]
    rolling.restart(order, level=0)
    assert len(rolling.led) == 4, rolling.led


def test_a_host_that_asks_before_its_members_are_blocked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "still_drained", lambda *_: "")
    monkeypatch.setattr("rostra.protocols.agreed.agent.still_drained", lambda *_: "")
    monkeypatch.setattr("rostra.protocols.agreed.agent.AgreedAgent.block", lambda *_: None)
    rolling = Rolling()
    rolling.world.hold("eu.fr > eu.fr.h1")  # it does not hear of the view in which it is behind
    with pytest.raises(AssertionError, match="never two"):
        rolling.drain(HOSTS[0])


def test_a_host_that_is_cut_off_while_it_is_drained_leads_no_more_and_the_others_go_on() -> None:
    rolling = Rolling()
    rolling.world.hold("eu.fr > eu")
    rolling.programs[HOSTS[0]].ask(DrainHost())
    rolling.run(0.2)
    assert rolling.leaders() == []
    rolling.world.release("eu.fr > eu")
    rolling.run(5.0)
    assert rolling.leaders() == [HOSTS[1]]
