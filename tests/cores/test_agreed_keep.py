"""What a server keeps of its part in a set is what the next life of it begins with."""

import pytest
from msgspec.structs import replace

from rostra.core.records import Records
from rostra.names import Domain, Group
from rostra.protocols.agreed.changes import GroupPlace, Pid, ServerId
from rostra.protocols.agreed.groups import AGREED, AgreedGroup, AgreedView, GroupTable
from rostra.protocols.agreed.keep import SetKeeper
from rostra.protocols.agreed.state import SetState, alone

EU, FR, WORLD = Domain("eu"), Domain("eu.fr"), Domain("world")
ME = ServerId(FR, 3)
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
