"""At no instant do two sides of a group live whose rule lets one live at most, whatever stands still.

`rostra sim storm --shape living --seeds 1000` goes through more of them.
"""

from collections.abc import Iterable

import pytest
from support.seeds import few_of

from rostra.names import Domain, Group
from rostra.protocols.agreed import leasing
from rostra.protocols.agreed.lease import FOR_EVER, BranchLease
from rostra.protocols.agreed.promises import GivenLeases
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.links.config import LinkConfig
from rostra.sim import LAN, World
from rostra.sim.storm import StormFailed, storm

STOOD_STILL = (20, 23, 75)
"""In the end: a group whose scope is wider than the parent of its clusters waited for members that were dead,
and their hosts were not asked; or two such changes had one name."""

LEDGER = Group("ledger", Domain("paris"))


@pytest.mark.spec("V-099")
@pytest.mark.parametrize("seed", [*few_of(8, 12), *STOOD_STILL])
def test_one_side_lives_while_processes_stand_still(seed: int) -> None:
    storm(seed, "living")


@pytest.mark.spec("V-099", "V-100")
@pytest.mark.parametrize("seed", [*few_of(2, 6), 21])
def test_a_side_that_is_ended_did_not_live_and_joins_again(seed: int) -> None:
    """21: a member that joined while its side was in doubt, and was ended before its first view."""
    storm(seed, "settled")


def first_failure(tried: Iterable[int]) -> str:
    for seed in tried:
        try:
            storm(seed, "living")
        except StormFailed as failure:
            return failure.what
    return ""


def test_hosts_that_live_without_a_lease_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BranchLease, "ends_at", lambda self, level: FOR_EVER)
    assert "one-living" in first_failure((140,))


def test_servers_that_live_without_a_lease_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing, "lives_until", lambda state, known, counted: FOR_EVER)
    assert "one-living" in first_failure((5, 6, 9))


def test_a_server_that_removes_those_whom_it_confirmed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GivenLeases, "are_running", lambda self, now, servers, doom_s: False)
    assert "one-living" in first_failure((6, 9, 15))


@pytest.mark.parametrize("what", ["pause", "cut"])
def test_a_host_is_in_doubt_before_the_others_go_on_without_it(what: str) -> None:
    """V-099 as amended: cut off, or stopped, and then whatever waited for it comes after that."""
    world = World(1, domains={"paris": 3}, links=LAN, timers=LinkConfig.lan().over_datagrams())
    world.settle()
    programs = [world.program(host) for host in world.tree.hosts]
    for program in programs:
        program.join_agreed("ledger@paris", survive="majority")
        world.run(1.0)
    senior = programs[0]
    seen = len(senior.agreed[LEDGER].items)
    if what == "pause":
        world.pause(senior.host).run(0.9)
        assert len(senior.agreed[LEDGER].items) == seen  # it stands still
        assert all(len(each.agreed[LEDGER].members) == 3 for each in programs)
        world.resume(senior.host).run(0.0)
    else:
        world.cut(f"{senior.host} > paris").run(0.8)  # it hears its server still
    assert all(len(each.agreed[LEDGER].members) == 3 for each in programs)
    assert isinstance(senior.agreed[LEDGER].items[seen], MemberBlocked)
    assert senior.agreed[LEDGER].blocked
    world.heal()
    world.run(3.0)
    assert not senior.agreed[LEDGER].blocked
    assert isinstance(senior.agreed[LEDGER].items[-1], MemberView)
