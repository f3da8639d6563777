"""The lease by which a living side lives, in single steps."""

import pytest

from rostra.errors import BadInput
from rostra.names import Domain
from rostra.protocols.agreed.branch import LeaseGiven
from rostra.protocols.agreed.changes import ServerId
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.lease import NEVER, BranchLease
from rostra.protocols.agreed.promises import GivenLeases
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.registry import Registry
from rostra.stacks import NodePlan, make_stack

HOST = Domain("paris.h1")


@pytest.mark.parametrize(("down_after_s", "grace_s"), [(0.9, 3.0), (1.0, 0.5)])
def test_a_lease_that_others_do_not_outlast_is_refused(down_after_s: float, grace_s: float) -> None:
    lan = LinkConfig.lan()
    links = LinkConfig(
        detect=type(lan.detect)(heartbeat_interval_s=0.2, down_after_s=down_after_s),
        failover_grace_s=grace_s,
    )
    plan = NodePlan("w", HOST, True, False, 1, links, RelaxedConfig())
    with pytest.raises(BadInput, match="doubt_after_s must be less than"):
        make_stack(plan, Registry())
    AgreedConfig.wan().fitted(links).check_lease(links)


def test_a_lease_counts_from_the_question_and_not_from_the_answer() -> None:
    lease = BranchLease(0.75)
    question = lease.ask(10.0)
    assert lease.given(LeaseGiven(question.number, (9_000, 200)))
    assert (lease.ends_at(0), lease.ends_at(1), lease.ends_at(2)) == (10.75, 10.2, NEVER)
    assert not lease.given(LeaseGiven(99, (9_000,)))  # which was not asked


def test_a_lease_is_not_prolonged_by_a_clock_that_is_set_back() -> None:
    lease = BranchLease(0.75)
    lease.saw(10.0)
    lease.given(LeaseGiven(lease.ask(10.0).number, (750,)))
    lease.saw(4.0)
    assert lease.ends_at(0) == NEVER


def test_who_is_to_be_removed_gets_no_other_lease_and_is_removed_after_its_last_one() -> None:
    """Also after another replica took our place, which does not know whom we confirmed."""
    leases, other = GivenLeases(), ServerId(Domain("eu.de"), 1)
    assert leases.give(1.0, other, 0.75)
    assert leases.are_running(1.5, (other,), 1.0)
    assert not leases.give(1.6, other, 0.75)
    assert not leases.are_running(1.75, (other,), 1.0)
    leases.floor = 3.0
    assert leases.are_running(2.0, (other,), 1.0)
