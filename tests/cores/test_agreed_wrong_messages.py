"""Messages that no correct server of a set sends: they change nothing here, and end nothing."""

from msgspec.structs import replace
from support.setnet import SET, SetNet, founding_view, join, server

from rostra.core.effects import Ignored, Received
from rostra.names import Domain
from rostra.protocols.agreed.changes import (
    CommitRecord,
    PartsMerged,
    Pid,
    Proposal,
    Round,
    SetMember,
    SetPart,
    SetView,
    priority_of,
)
from rostra.protocols.agreed.messages import AgreementStatus, Busy, Commit, CoordinatorFailed, Initiate
from rostra.protocols.agreed.state import Coordinating, Idle

VIEW = founding_view("abc")
HERE = (SET, 1, 1, ())


def merge_named(pid: Pid) -> Proposal:
    """With a server that is not in the set."""
    stranger = SetView(1, Pid(server("d"), 0), (SetMember(server("d"), 0, 0),))
    change = PartsMerged((SetPart(VIEW, 0, VIEW.pid), SetPart(stranger, 0, stranger.pid)))
    return Proposal(pid, 1, VIEW.pid, change, priority_of(change, VIEW, pid))


def proposed(slot: int = 1, who: str = "ann") -> Initiate:
    pid = Pid(server("b"), 0)
    proposal = Proposal(pid, slot, VIEW.pid, join(who), priority_of(join(who), VIEW, pid))
    return Initiate(*HERE, proposal, Round(pid, 0, server("b")))


def test_busy_with_a_merge_of_a_stranger_under_the_name_of_our_own_change() -> None:
    net = SetNet("abc")
    net.ask("a", join("ann"))
    phase = net.cores["a"].state.phase
    assert isinstance(phase, Coordinating)
    pid = phase.proposal.pid
    net.step(
        "a", Received(Domain("b"), Busy(*HERE, phase.round, merge_named(pid), Round(pid, 0, server("d"))))
    )
    phase = net.cores["a"].state.phase
    assert isinstance(phase, Coordinating) and phase.busy == {server("b")}
    net.settle()
    assert net.agreed() and net.commits("b") == [join("ann")]


def test_a_change_of_a_slot_that_is_not_the_next() -> None:
    net = SetNet("abc")
    for slot in (0, 2, 2**62):
        effects = net.step("a", Received(Domain("b"), proposed(slot)))
        assert effects == [Ignored("Initiate", "not of the next slot")]
        assert net.cores["a"].state.phase == Idle()


def test_a_commit_of_another_change_under_the_name_of_the_one_we_acknowledged() -> None:
    net = SetNet("abc")
    message, other = proposed(), proposed(who="eve")
    net.step("a", Received(Domain("b"), message))
    record = CommitRecord(other.proposal, other.round)
    net.step("a", Received(Domain("b"), Commit(*HERE, record)))
    assert net.commits("a") == [] and ("a", "b") in net.isolations()


def test_another_change_under_the_name_of_the_one_we_acknowledged() -> None:
    net = SetNet("abc")
    message, other = proposed(), proposed(who="eve")
    net.step("a", Received(Domain("b"), message))
    later = replace(other, round=replace(other.round, attempt=1))
    effects = net.step("a", Received(Domain("b"), later))
    assert effects == [Ignored("Initiate", "another change under the same name")]
    lock = net.cores["a"].state.lock
    assert lock is not None and lock[0] == message.proposal


def test_an_election_about_our_own_merge_that_we_called_off() -> None:
    net = SetNet("abc")
    core, pid = net.cores["a"], Pid(server("a"), 3)
    core.state = replace(core.state, over=(pid,))
    message = CoordinatorFailed(*HERE, merge_named(pid), Round(pid, 0, server("a")), AgreementStatus.ACKED)
    net.step("a", Received(Domain("b"), message))
    assert not net.isolations()
    assert net.cores["a"].state.phase == Idle()
