"""What a server keeps of its part in a set is what the next life of it begins with."""

import pytest
from msgspec.structs import replace

from rostra.core.records import Records
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import (
    GroupPlace,
    MemberId,
    Pid,
    Proposal,
    Round,
    ServerId,
    ServersFailed,
    SetMember,
    SetView,
    priority_of,
)
from rostra.protocols.agreed.groups import AGREED, AgreedGroup, AgreedMember, AgreedView, GroupTable
from rostra.protocols.agreed.keep import SetKeeper
from rostra.protocols.agreed.state import Coordinating, Electing, Locked, Phase, SetState, alone

EU, FR, WORLD = Domain("eu"), Domain("eu.fr"), Domain("world")
ME, OTHER = ServerId(FR, 3), ServerId(Domain("eu.de"), 1)
HERE, MOVED, THERE = Group("@eu/chess", EU), Group("chess", WORLD), Group("lyon/chess", FR)


def known(number: int) -> AgreedGroup:
    return AgreedGroup((AgreedView(number, 0, Pid(ME, number), ()),), kind=AGREED)


def state(groups: dict[Group, AgreedGroup], places: dict[Group, GroupPlace] | None = None) -> SetState:
    return replace(alone(ME, parent=False), table=GroupTable(groups, places=places or {}))


def recovered(records: Records) -> dict[Domain, SetState]:
    return SetKeeper(FR, records).recovered()


def test_groups_are_recovered_in_the_set_that_has_them_whatever_their_scope() -> None:
    """One name with two scopes is two groups, and a group that moved is in a set below that of its scope."""
    records = Records()
    keeper = SetKeeper(FR, records)
    keeper.keep(EU, state({HERE: known(1), MOVED: known(2)}, {THERE: GroupPlace((FR,))}))
    keeper.keep(FR, state({THERE: known(3)}))
    again = recovered(records)
    assert again[EU].table.groups == {HERE: known(1), MOVED: known(2)}
    assert again[EU].table.places == {THERE: GroupPlace((FR,))}
    assert again[FR].table.groups == {THERE: known(3)} and not again[FR].table.places


@pytest.mark.parametrize("restarts", [False, True])
def test_a_group_that_went_to_another_set_is_kept_there_alone(restarts: bool) -> None:
    records = Records()
    keeper = SetKeeper(FR, records)
    keeper.keep(EU, state({}, {MOVED: GroupPlace((FR,))}))
    keeper.keep(FR, state({MOVED: known(2)}))
    if restarts:
        keeper = SetKeeper(FR, records)
        keeper.recovered()
    keeper.keep(EU, state({MOVED: known(3)}))
    keeper.keep(FR, state({}))
    again = recovered(records)
    assert again[EU].table.groups == {MOVED: known(3)} and not again[EU].table.places
    assert not again[FR].table.groups


def large(members: int, views: int) -> AgreedGroup:
    """Each member with 600 bytes of its own."""
    listed = [
        AgreedMember(MemberId(Endpoint(f"eu.fr.h1/m{n}#1"), (1, n)), 1, b"x" * 600) for n in range(members)
    ]
    past = [AgreedView(number, 0, Pid(ME, number), tuple(listed)) for number in range(1, views + 1)]
    return AgreedGroup(tuple(past), kind=AGREED)


@pytest.mark.parametrize(("members", "kept"), [(100, 8), (300, 1), (1_800, 0)])
def test_a_group_is_kept_if_its_last_view_fits_and_with_the_views_before_it_if_they_do(
    members: int, kept: int
) -> None:
    records = Records()
    SetKeeper(FR, records).keep(EU, state({HERE: large(members, 8)}))
    groups = recovered(records)[EU].table.groups
    assert [len(each.views) for each in groups.values()] == ([kept] if kept else [])
    assert all(each.view == large(members, 8).view for each in groups.values())


@pytest.mark.spec("V-019", "V-080")
@pytest.mark.parametrize(
    ("coordinator", "isolated", "phase"),
    [(ME, False, Coordinating), (OTHER, False, Locked), (OTHER, True, Electing)],
)
def test_a_lock_is_held_on_as_the_others_know_it(
    coordinator: ServerId, isolated: bool, phase: type[Phase]
) -> None:
    """Who had given the coordinator up is in the election for its change, and does not wait for it."""
    records, before = Records(), state({})
    view = SetView(1, Pid(OTHER, 1), (*before.view.members, SetMember(OTHER, 0, 1)))
    change, pid = ServersFailed((OTHER,)), Pid(coordinator, 5)
    proposal = Proposal(pid, 1, before.base, change, priority_of(change, view, pid))
    held = Locked(proposal, Round(pid, 0, coordinator), since=0)
    gone = frozenset([OTHER] if isolated else [])
    SetKeeper(FR, records).keep(EU, replace(before, view=view, phase=held, isolated=gone))
    again = recovered(records)[EU]
    assert isinstance(again.phase, phase) and again.lock == (proposal, held.round)
