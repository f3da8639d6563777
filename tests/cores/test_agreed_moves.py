"""Where groups are, as commits of a set make it: pure functions of `moves.py`."""

from typing import Any

import pytest
from msgspec.structs import replace
from support.setnet import CHESS, founding_view, join, server

from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.names import Domain, Endpoint
from rostra.protocols.agreed.changes import (
    CommitRecord,
    GroupChange,
    GroupPlace,
    GroupPlaced,
    GroupVerb,
    MemberId,
    Pid,
    PlaceStep,
    Proposal,
    Round,
    ServersFailed,
    priority_of,
)
from rostra.protocols.agreed.differences import path_from
from rostra.protocols.agreed.groups import AGREED, AgreedGroup, AgreedMember, AgreedView, GroupTable
from rostra.protocols.agreed.moves import (
    HISTORY_BYTES,
    MOVING,
    NOWHERE,
    applied,
    core_domain,
    decode_part,
    encode_part,
    moves,
    next_step,
)

VIEW = founding_view("ab")
ANN = MemberId(Endpoint("a.h1/ann#1"), (1, 1))
BOB = MemberId(Endpoint("b.h1/bob#1"), (1, 1))


def group(*ids: MemberId, number: int = 1) -> AgreedGroup:
    members = tuple([AgreedMember(each, number) for each in ids])
    return AgreedGroup((AgreedView(number, 0, Pid(server("a"), 1), members),), kind=AGREED)


def after(table: GroupTable, change: Any, count: int = 7) -> tuple[GroupTable, list[str]]:
    pid = Pid(server("a"), count)
    proposal = Proposal(pid, 1, Pid(server("a"), 0), change, priority_of(change, VIEW, pid))
    table, outcomes = applied(table, CommitRecord(proposal, Round(pid, 0, server("a"))), VIEW)
    return table, [outcome.code for outcome in outcomes]


def placed(step: PlaceStep, mover: str = "b", **more: Any) -> GroupPlaced:
    return GroupPlaced(CHESS, step, server(mover), **more)


@pytest.mark.parametrize(
    ("kind", "does"),
    [
        (AGREED, True),
        (GroupKind(MembershipKind.AGREED, survive="any", merge="any"), True),
        (GroupKind(MembershipKind.AGREED, survive="majority"), False),
        (GroupKind(MembershipKind.AGREED, merge="size > 1"), False),
        (GroupKind(MembershipKind.AGREED, within="team"), False),
    ],
)
def test_only_groups_without_rules_move(kind: GroupKind, does: bool) -> None:
    assert moves(kind) is does


@pytest.mark.spec("V-023", "V-029", "V-037")
def test_the_core_set_is_the_lowest_that_has_all_members_and_never_below_level_1() -> None:
    fr = Domain("eu.fr")
    for clusters, found in (
        ((), "eu.fr"),
        (("eu.fr.paris",), "eu.fr"),
        (("eu.fr.paris", "eu.fr.lyon"), "eu.fr"),
        (("eu.fr.paris", "eu.de.bonn"), "eu"),
        (("eu.fr.paris", "us.ny.city"), "world"),
        (("eu.fr.paris", "lab"), "world"),
    ):
        assert core_domain(tuple(map(Domain, clusters)), fr) == found


@pytest.mark.spec("V-024")
def test_a_join_waits_for_the_group_and_is_made_with_it() -> None:
    table = GroupTable({}, places={CHESS: GroupPlace((Domain("b"),))})
    joins = replace(join("x"), members=(ANN,), kind=AGREED)
    table, codes = after(table, joins)
    assert codes == [MOVING], "not made anew while a branch has it"
    table, codes = after(table, placed(PlaceStep.WANT, "a", asked=joins))
    assert (codes, table.places[CHESS].wanted) == ([], (joins,))
    table, codes = after(table, placed(PlaceStep.TAKE, part=encode_part(group(BOB))))
    assert table.groups[CHESS].view.ids == (BOB, ANN)
    assert [view.number for view in table.groups[CHESS].views] == [1, 2]
    assert not table.places


def test_a_group_that_is_about_to_go_is_not_changed_and_is_its_sets_own_again_without_its_mover() -> None:
    table = GroupTable({CHESS: group(ANN, BOB)})
    parent = replace(VIEW, members=(VIEW.members[0], replace(VIEW.members[1], parent=True)))
    pid = Pid(server("a"), 7)

    def step(table: GroupTable, change: Any) -> tuple[GroupTable, list[str]]:
        proposal = Proposal(pid, 1, Pid(server("a"), 0), change, priority_of(change, parent, pid))
        made, outcomes = applied(table, CommitRecord(proposal, Round(pid, 0, server("a"))), parent)
        return made, [outcome.code for outcome in outcomes]

    table, _ = step(table, placed(PlaceStep.HAND))
    assert table.places[CHESS].mover == server("b")
    leave = GroupChange(CHESS, GroupVerb.LEAVE, (ANN,), "ann leaves")
    table, codes = step(table, leave)
    assert (codes, table.groups[CHESS].view.ids) == ([MOVING], (ANN, BOB))
    table, _ = step(table, ServersFailed((server("b"),)))
    assert not table.places and CHESS in table.groups
    assert table.groups[CHESS].view.revision == 1, "the other set may have taken the view before"
    table, codes = step(table, leave)
    assert codes == [""]


@pytest.mark.parametrize("step", list(PlaceStep))
def test_a_step_of_a_mover_that_is_lost_changes_nothing(step: PlaceStep) -> None:
    table = GroupTable({CHESS: group(ANN)}, places={CHESS: GroupPlace((Domain("b"),))})
    change = placed(step, "z", asked=join("x"), part=encode_part(group(BOB)))
    assert after(table, change) == (table, [])


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x93\x90\x90\x90", encode_part(replace(group(ANN), kind=GroupKind()))],
    ids=["nothing", "no message", "no views", "no agreed group"],
)
def test_bytes_that_are_no_group_change_nothing(data: bytes) -> None:
    assert decode_part(data, CHESS) is None
    table = GroupTable({}, places={CHESS: GroupPlace((Domain("b"),))})
    assert after(table, placed(PlaceStep.TAKE, part=data)) == (table, [])


def test_a_group_with_one_member_twice_is_not_believed() -> None:
    assert decode_part(encode_part(group(ANN, ANN)), CHESS) is None


@pytest.mark.spec("V-096")
def test_history_that_does_not_fit_stays_behind_and_the_last_view_is_carried() -> None:
    members = [
        tuple(
            [AgreedMember(MemberId(Endpoint(f"a.h1/m{n:03}#1"), (1, n)), 1, b"x" * 1_000) for n in range(99)]
        )
    ]
    views = tuple([AgreedView(number, 0, Pid(server("a"), number), members[0]) for number in range(1, 9)])
    known = AgreedGroup(views, kind=AGREED)
    part = decode_part(encode_part(known), CHESS)
    assert part is not None
    assert part.view == known.view
    assert 1 < len(part.views) < len(views) and part.views == views[-len(part.views) :]
    assert len(encode_part(known)) < 2 * HISTORY_BYTES


def test_a_mover_with_nothing_to_do_does_nothing() -> None:
    lower, upper = GroupTable({CHESS: group(ANN)}), GroupTable({}, places={CHESS: GroupPlace((Domain("a"),))})
    assert next_step(CHESS, server("a"), lower, upper, may_go_down=True) is None
    assert next_step(CHESS, server("b"), GroupTable(), upper, may_go_down=True) is None


def test_parts_of_a_group_in_two_branches_come_up_also_if_nobody_asks() -> None:
    """After a server that is in two sets was lost, and another life of it has met both."""
    upper = GroupTable({}, places={CHESS: GroupPlace((Domain("a"), Domain("b")))})
    lower = GroupTable({CHESS: group(ANN)})
    step = next_step(CHESS, server("a"), lower, upper, may_go_down=False)
    assert step == (True, GroupPlaced(CHESS, PlaceStep.HAND, server("a")))
    assert upper.places[CHESS] != NOWHERE


def test_a_host_is_not_sent_views_of_a_part_that_is_empty_now() -> None:
    """History keeps them, with numbers above that of the view that stands."""
    known = group(ANN, BOB, number=4)
    empty = AgreedView(5, 0, Pid(server("b"), 3))
    known = replace(known, views=(empty, *known.views))
    assert path_from(known, known.view) == (known.view,)


def test_nor_one_with_a_number_between_the_view_that_it_has_and_the_present_one() -> None:
    """The part that is empty now went on from the same view, without BOB."""
    eve = MemberId(Endpoint("c.h1/eve#1"), (1, 1))
    base = group(ANN, BOB, number=4)
    apart = AgreedView(5, 0, Pid(server("b"), 3), base.view.members[:1], failed=(BOB,))
    joined = (*base.view.members, AgreedMember(eve, 5))
    view = AgreedView(5, 0, Pid(server("a"), 2), joined, joined=(eve,))
    later = AgreedView(6, 0, Pid(server("a"), 3), joined[1:], left=(ANN,))
    known = replace(base, views=(*base.views, apart, view, later))
    assert path_from(known, base.view) == (view, later)
    assert path_from(replace(known, views=known.views[:-1]), base.view) == (view,)
    gap = replace(known, views=(*base.views, apart, later))
    assert path_from(gap, base.view) == (later,)
