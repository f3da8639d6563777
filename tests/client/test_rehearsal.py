"""Who would live after a cut: what `rostra rehearse` says, from what the servers of a group say of it."""

import pytest
from msgspec.structs import replace

from rostra import GroupInfo, View
from rostra.client.rehearsal import rehearse
from rostra.errors import BadInput, GroupBlocked
from rostra.groups.members import Member
from rostra.names import Domain, Endpoint, Group

SITES = ("eu.fr.h1", "eu.fr.h2", "eu.de.h1")


def group(survive: str, scope: str = "eu", *, hosts: tuple[str, ...] = SITES) -> GroupInfo:
    members = [Endpoint(f"{host}/db#1") for host in hosts]
    view = View(tuple([Member(each, (0, 0)) for each in members]), number=len(members))
    attributes: dict[Endpoint, dict[str, str]] = {each: {} for each in members}
    name = Group("db", Domain(scope))
    return GroupInfo(name, view, {}, attributes, survive, "any", "", True, (Domain("eu.fr"),))


def living(info: GroupInfo, cut: str) -> dict[str, bool]:
    return {each.name: each.lives for each in rehearse(info, cut)}


@pytest.mark.spec("V-099")
def test_a_side_lives_by_the_rule_and_by_the_members_on_it() -> None:
    sides = rehearse(group("majority"), "eu.fr | eu.de")
    assert [(each.name, each.lives) for each in sides] == [("eu.fr", True), ("eu.de", False)]
    assert sides[1].why == "1 of 3 are there; 1 of 3 who lived last are here"


@pytest.mark.spec("V-099")
@pytest.mark.parametrize(
    ("scope", "cut", "lives"),
    [
        ("eu", "eu.fr", {"eu.fr": False, "the rest": True}),
        ("eu", "eu.de", {"eu.de": False, "the rest": True}),
        ("eu", "eu.fr | eu.de", {"eu.fr": False, "eu.de": False}),
        ("eu", "eu | us", {"eu": True, "us": False}),
        ("world", "eu | us", {"eu": False, "us": False}),
        ("world", "eu.de", {"eu.de": False, "the rest": True}),
    ],
)
def test_under_primary_the_side_with_the_server_of_the_scope_lives_and_no_other(
    scope: str, cut: str, lives: dict[str, bool]
) -> None:
    info = group("primary", scope)
    assert living(info, cut) == lives
    assert sum(lives.values()) <= 1, "the rule is exclusive"
    for side in rehearse(info, cut):
        here = "is here" if side.lives else "is not (a cut names those cut off from it)"
        assert not side.members or side.why.endswith(f"the server of {scope}, which decides, {here}")


def test_a_side_without_members_does_not_live() -> None:
    assert living(group("any", hosts=("eu.fr.h1",)), "eu.fr | eu.de") == {"eu.fr": True, "eu.de": False}


@pytest.mark.parametrize(
    ("info", "cut", "what", "fix"),
    [
        (group("any", hosts=()), "eu.fr", "has no members", "rehearse with members in it"),
        (replace(group("any"), blocked="2 of 5"), "eu.fr", "still already: 2 of 5", "when it lives again"),
        (group("any"), "eu.fr | ", "a side of 'eu.fr | ' is empty", "name domains or hosts on each"),
        (group("any"), "eu | eu.fr", "is on two sides of 'eu | eu.fr'", "name each domain once"),
    ],
)
def test_what_cannot_be_rehearsed_says_what_to_do(info: GroupInfo, cut: str, what: str, fix: str) -> None:
    with pytest.raises((BadInput, GroupBlocked)) as refused:
        rehearse(info, cut)
    assert what in refused.value.what and fix in refused.value.fix
