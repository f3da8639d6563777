"""Members give their seniority up, to those of the highest level (`rostra drain`)."""

import pytest

from rostra.names import Domain, Endpoint
from rostra.protocols.agreed.changes import MemberId, Pid, ServerId
from rostra.protocols.agreed.config import LEVEL_MAX
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.agreed.seniority import is_behind, level_of, passed_on, with_level
from rostra.protocols.agreed.sheets import encode_member, member_sheet

PID = Pid(ServerId(Domain("eu"), 1), 7)


def member(host: str, joined: int, level: int = 0) -> AgreedMember:
    id = MemberId(Endpoint(f"eu.fr.{host}/app#1"), (1, 1))
    return AgreedMember(id, joined, with_level(b"", level))


def hosts(view: AgreedView) -> str:
    return "".join(each.endpoint[6] for each in view.ids)


def view_of(*members: AgreedMember) -> AgreedView:
    return AgreedView(9, 0, PID, members)


def drained(view: AgreedView, host: str) -> AgreedView:
    return passed_on(view, [each for each in view.ids if each.endpoint[6] == host], PID)


def test_rank_0_goes_to_the_next_if_all_are_of_one_level() -> None:
    view = drained(view_of(member("a", 1), member("b", 2), member("c", 3)), "a")
    assert hosts(view) == "bca" and (view.number, view.revision) == (10, 0)
    assert [each.joined for each in view.members] == [2, 3, 10]


def test_rank_0_goes_to_the_most_senior_of_the_highest_level() -> None:
    view = drained(view_of(member("a", 1), member("b", 2), member("c", 3, 1), member("d", 4, 1)), "a")
    assert hosts(view) == "cdab"


def test_the_order_is_by_seniority_as_before() -> None:
    """Or a merge with another part would be refused."""
    view = drained(view_of(member("a", 1), member("b", 2), member("c", 3, 1)), "a")
    gids = [each.gid for each in view.members]
    assert gids == sorted(gids)


@pytest.mark.parametrize("members", [[member("a", 1)], [member("b", 1), member("a", 2)]])
def test_nothing_changes_if_there_is_nobody_to_pass_it_to(members: list[AgreedMember]) -> None:
    view = view_of(*members)
    assert drained(view, "a") == view and is_behind(view, Domain("eu.fr.a"))


def test_a_host_is_behind_if_none_of_its_members_is_before_another() -> None:
    view = view_of(member("b", 1), member("a", 2), member("c", 3))
    assert not is_behind(view, Domain("eu.fr.a")) and is_behind(view, Domain("eu.fr.c"))


@pytest.mark.parametrize("text", ["", "-1", "x", "٣", "9" * 40])
def test_what_is_no_level_is_level_0(text: str) -> None:
    assert level_of(encode_member(b"", (("level", text),))) == 0


def test_a_level_is_bounded_and_a_programs_own_stands() -> None:
    assert level_of(encode_member(b"", (("level", "9999999999"),))) == LEVEL_MAX
    own = encode_member(b"meta", (("level", "3"),))
    assert with_level(own, 5) == own and with_level(b"meta", 0) == b"meta"
    assert member_sheet(with_level(b"meta", 5)).meta == b"meta" and level_of(with_level(b"meta", 5)) == 5
