"""Changes of whole groups: who may, and what becomes of members and their ranks."""

import pytest
from support.setnet import CHESS, GOES, SET

from rostra.names import Endpoint, Group
from rostra.protocols.agreed.changes import MemberId, Pid, ServerId
from rostra.protocols.agreed.groups import AGREED, AgreedGroup, AgreedMember, AgreedView
from rostra.protocols.agreed.orders import (
    AnyOrder,
    DeleteGroup,
    MergeGroups,
    RemoveMembers,
    SetAttributes,
    SplitGroup,
    decide,
)
from rostra.protocols.agreed.sheets import encode_member

ANN, BOB, EVE, DAN = (Endpoint(f"eu.fr.h1/{name}#1") for name in ("ann", "bob", "eve", "dan"))
PID = Pid(ServerId(SET, 1), 7)
HOT, COLD = Group("hot", SET), Group("cold", SET)


def of(*members: tuple[Endpoint, dict[str, str]], number: int = 4) -> AgreedGroup:
    listed = [
        AgreedMember(MemberId(who, (1, 1)), rank, encode_member(b"", tuple(properties.items())))
        for rank, (who, properties) in enumerate(members, 1)
    ]
    return AgreedGroup((AgreedView(number, 0, PID, tuple(listed)),), kind=AGREED)


def decided(
    order: AnyOrder, caller: Endpoint, **groups: AgreedGroup
) -> tuple[str, dict[Group, list[Endpoint]]]:
    table = {{"chess": CHESS, "go": GOES}[name]: known for name, known in groups.items()}
    code, views = decide(order, caller, CHESS, table, AgreedView(), PID)
    return code, {each.group: [member.endpoint for member in each.view.ids] for each in views}


@pytest.mark.spec("V-044", "V-057")
@pytest.mark.parametrize(
    ("order", "may"),
    [
        (SetAttributes((("type", "db"),), (BOB,)), True),
        (SetAttributes((("admin", "yes"),), (BOB,)), False),
        (SetAttributes((("type", "db"), ("admin", "yes")), (BOB,)), False),
        (SetAttributes((("type", "db"),), (EVE,)), False),
        (SetAttributes((("type", "db"),), (BOB, EVE)), False),
        (SetAttributes((("type", "db"),)), False),
        (RemoveMembers((EVE,)), False),
        (RemoveMembers((BOB,)), False),
        (DeleteGroup(), False),
        (SplitGroup(HOT, COLD, ()), False),
        (MergeGroups(GOES, HOT), False),
    ],
)
def test_where_there_is_an_administrator_others_change_their_own_attributes_and_nothing_else(
    order: AnyOrder, may: bool
) -> None:
    chess, go = of((ANN, {"admin": "yes"}), (BOB, {}), (EVE, {})), of((DAN, {}))
    assert decided(order, BOB, chess=chess, go=go)[0] == ("" if may else "NotAllowed")
    assert decided(order, ANN, chess=chess, go=go)[0] == ""


@pytest.mark.spec("V-046")
def test_a_merge_needs_the_right_in_both_groups() -> None:
    chess, go = of((ANN, {}), (BOB, {})), of((DAN, {"admin": "yes"}))
    assert decided(MergeGroups(GOES, HOT), ANN, chess=chess, go=go)[0] == "NotAllowed"
    assert decided(MergeGroups(GOES, HOT), DAN, chess=chess, go=go)[0] == ""


@pytest.mark.spec("V-045")
def test_both_sides_of_a_split_keep_the_order_of_ranks() -> None:
    chess = of((ANN, {"disk": "ssd"}), (BOB, {}), (EVE, {"disk": "ssd"}), (DAN, {}))
    code, after = decided(SplitGroup(HOT, COLD, (("disk", "ssd"),)), ANN, chess=chess)
    assert code == "" and after == {CHESS: [], HOT: [ANN, EVE], COLD: [BOB, DAN]}


@pytest.mark.spec("V-045", "V-041")
def test_a_group_that_is_kept_in_a_split_goes_on_as_it_is_and_has_two_subgroups() -> None:
    chess = of((ANN, {"disk": "ssd"}), (BOB, {}), (EVE, {"disk": "ssd"}), (DAN, {}))
    order = SplitGroup(HOT, COLD, (("disk", "ssd"),), keep=True)
    assert decided(order, ANN, chess=chess)[1] == {
        CHESS: [ANN, BOB, EVE, DAN],
        HOT: [ANN, EVE],
        COLD: [BOB, DAN],
    }
    _, (whole, *inner) = decide(order, ANN, CHESS, {CHESS: chess}, AgreedView(), PID)
    assert whole.view is chess.view and whole.kind == AGREED
    assert [(each.kind.within, each.view.number) for each in inner] == [("chess", 5), ("chess", 5)]
    inner_ids = {each for view in inner for each in view.view.ids}
    assert inner_ids == set(chess.view.ids), "they are the same members"


@pytest.mark.spec("V-046")
def test_who_is_in_both_groups_of_a_merge_keeps_its_rank_in_the_first() -> None:
    chess, go = of((ANN, {}), (BOB, {})), of((EVE, {}), (ANN, {}), (DAN, {}))
    code, after = decided(MergeGroups(GOES, HOT), ANN, chess=chess, go=go)
    assert code == "" and after == {CHESS: [], GOES: [], HOT: [ANN, BOB, EVE, DAN]}
