"""Agreed groups in the dashboard: documents of nodes become sides, and a person sees which of them lives."""

from typing import Any

import pytest
from support.browser import Browser
from support.stage import Stage

from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.names import Domain, Group
from rostra.protocols.agreed.calls import GroupCall, GroupPresented, LookAt
from rostra.protocols.agreed.groups import MET
from rostra.protocols.agreed.lease import IN_DOUBT
from rostra.runtime.agreed_state import agreed_document, exclusive_of
from rostra.sim import LAN, World
from rostra.sim.programs import SimProgram
from rostra.sim.shapes import clusters
from rostra.web.agreed import agreed_shown
from rostra.web.timeline import Timeline

MEMBERS = ("eu.paris.h1/clerk", "eu.rome.h2/clerk", "us.boston.h1/clerk")
LEDGER = "ledger@world"
ENTRY = "return [...document.querySelectorAll('#entries .what')].some(e => e.textContent === arguments[0])"
SIDES = """return [...document.querySelectorAll('.agreed-side')].map(side => [
    side.querySelector('.view-number').textContent, side.querySelector('.fence').textContent,
    side.querySelectorAll('.ranks li').length])"""


def told(number: int, members: str, blocked: str = "", **more: Any) -> dict[str, Any]:
    return {
        "group": "g@eu",
        "survive": "majority",
        "exclusive": "yes",
        "number": number,
        "revision": 0,
        "proposal": f"eu:1#{number}",
        "fence": None if blocked else number,
        "blocked": blocked,
        "total": len(members),
        "members": [f"eu.h{each}/p#1" for each in members],
        "here": [],
        **more,
    }


def documents(**by_host: dict[str, Any]) -> list[tuple[Domain, dict[str, Any]]]:
    return [(Domain(f"eu.{host}"), {"agreed": [each]}) for host, each in by_host.items()]


def test_hosts_with_one_view_are_one_side() -> None:
    (group,) = agreed_shown(documents(h1=told(4, "123"), h2=told(4, "123"), h3=told(4, "123")))
    (side,) = group.sides
    assert (side.number, side.fence, side.hosts) == (4, 4, ("eu.h1", "eu.h2", "eu.h3"))
    assert side.members == ("eu.h1/p#1", "eu.h2/p#1", "eu.h3/p#1")


def test_the_side_that_lives_comes_first_and_the_other_says_why_it_must_not() -> None:
    found = documents(h1=told(4, "123", "1 of 3"), h2=told(5, "23"), h3=told(5, "23"))
    (group,) = agreed_shown(found)
    assert [(side.number, side.fence, side.blocked) for side in group.sides] == [
        (5, 5, ""),
        (4, None, "1 of 3"),
    ]
    assert (group.survive, group.exclusive) == ("majority", "yes")


def test_parts_of_the_core_set_are_shown_with_their_coordinator_and_whom_they_isolated() -> None:
    def part(*servers: str, isolated: tuple[str, ...] = ()) -> dict[str, Any]:
        return {"set": "eu", "servers": servers, "coordinator": servers[0], "isolated": isolated}

    one = told(5, "23", core_set=part("eu.de", "eu", isolated=("eu.fr",)))
    other = told(4, "123", "1 of 3", core_set=part("eu.fr"))
    (group,) = agreed_shown(documents(de=one, top=one, fr=other))
    assert [(each.servers, each.coordinator, each.isolated, each.blocked) for each in group.parts] == [
        (("eu.de", "eu"), "eu.de", ("eu.fr",), ""),
        (("eu.fr",), "eu.fr", (), "1 of 3"),
    ]


def test_documents_of_older_nodes_have_no_agreed_groups() -> None:
    assert agreed_shown([(Domain("eu.h1"), {})]) == ()


@pytest.mark.parametrize(
    ("rule", "said"), [("", "no"), ("majority", "yes"), ("has(rank 0)", "yes"), ("size > ", "depends")]
)
def test_a_rule_says_whether_it_is_exclusive(rule: str, said: str) -> None:
    assert exclusive_of(GroupKind(MembershipKind.AGREED, survive=rule)) == said


def test_the_document_of_a_node_has_its_agreed_groups() -> None:
    world = World(1, tree=clusters({"eu.fr": 1, "eu.de": 1}), links=LAN)
    world.run(4.0)
    for host in world.tree.hosts:
        world.program(host).join_agreed("ledger@eu", survive="majority", meta=b"a secret of ours")
    world.run(4.0)

    def document(path: str) -> list[dict[str, Any]]:
        node = world.processes[Domain(path)].node
        assert node is not None
        return agreed_document(node.stack)

    (agent,) = document("eu.fr.h1")
    assert (agent["number"], agent["fence"], agent["blocked"], agent["total"]) == (2, 2, "", 2)
    assert (agent["survive"], agent["exclusive"]) == ("majority", "yes")
    (server,) = document("eu.fr")
    assert server["members"] == agent["members"]
    assert set(server["core_set"]["servers"]) == {"eu", "eu.fr", "eu.de"}
    assert server["core_set"]["coordinator"] in server["core_set"]["servers"]
    assert "secret" not in repr([agent, server])


def test_members_whose_lease_has_run_out_are_shown_as_blocked_and_so_they_are_to_who_asks() -> None:
    """Before anybody has given another up: a host is cut off from its server, or a server from the others."""
    ledger = Group("ledger", Domain("eu"))

    def cut(*links: str) -> tuple[World, SimProgram]:
        world = World(1, tree=clusters({"eu.fr": 1, "eu.de": 1, "eu.it": 1}), links=LAN)
        world.run(4.0)
        programs = [world.program(host) for host in world.tree.hosts]
        for program in programs:
            program.join_agreed(ledger, survive="majority")
        world.run(4.0)
        for link in links:
            world.cut(link)
        alone = next(each for each in programs if each.host == "eu.fr.h1")
        while not alone.agreed[ledger].blocked:
            world.run(0.1)
        return world, alone

    def shown(world: World, path: str) -> tuple[str, int | None, int]:
        node = world.processes[Domain(path)].node
        assert node is not None
        (each,) = agreed_document(node.stack)
        return each["blocked"], each["fence"], each["total"]

    world, alone = cut("eu.fr.h1 | eu.fr")
    assert shown(world, "eu.fr.h1") == (IN_DOUBT, None, 3) and not shown(world, "eu.fr")[0]
    world, alone = cut("eu.fr | eu.de", "eu.fr | eu.it", "eu.fr | eu")
    assert shown(world, "eu.fr.h1") == shown(world, "eu.fr") == (IN_DOUBT, None, 3)
    look = alone.ask(GroupCall(ledger, LookAt()))
    world.run(0.1)
    assert isinstance(look.result, GroupPresented) and look.result.state is not None
    assert look.result.state.blocked == IN_DOUBT


# What happened to them


def test_a_removal_that_several_servers_report_is_one_entry_with_its_reason() -> None:
    timeline = Timeline()
    values = {"group": "g@eu", "view": 6, "because": "servers failed", "lost": "eu.fr", "fence": 6}
    for place in ("eu.de", "eu.it"):
        timeline.recorded(1.0, Domain(place), "view_agreed", {**values, "noticed_by": "eu.de"})
    (entry,) = timeline
    assert entry.text == "g@eu goes on in view 6 without eu.fr"
    assert entry.because == "servers failed, noticed by eu.de; fence 6" and len(entry.seen_by) == 2


def test_a_side_that_is_blocked_and_lives_again_is_told_by_its_domain() -> None:
    timeline = Timeline()
    for host in ("eu.fr.h1", "eu.fr.h2"):
        timeline.recorded(1.0, Domain(host), "members_blocked", {"group": "g@eu", "because": "2 of 5"})
        timeline.recorded(2.0, Domain(host), "members_blocked", {"group": "g@eu", "because": MET})
        timeline.recorded(3.0, Domain(host), "members_live", {"group": "g@eu", "view": 8, "fence": 7})
    timeline.recorded(3.0, Domain("eu.fr"), "view_agreed", {"group": "g@eu", "view": 8, "because": "merge"})
    assert [entry.text for entry in timeline] == [
        "members of g@eu in eu.fr are blocked",
        "members of g@eu in eu.fr live again in view 8",
        "g@eu is one again in view 8",
    ]


# The page


@pytest.mark.browser
def test_a_cut_shows_both_sides_which_one_lives_and_why_and_the_merge_after_it(
    browser: Browser, world: Stage
) -> None:
    for member in MEMBERS:
        world.do(lambda pretend, member=member: pretend.join_agreed(member, LEDGER))
    browser.go(f"{world.address}/")
    browser.until_text("#views", "All members have view 3.")
    browser.until_text("#views", "one side lives at most")
    assert browser.run(SIDES) == [["View 3", "lives, fence 3", 3]]
    browser.until_text(".core-sets", "(coordinator)")
    browser.until_text("#views-age", "as of")
    ranks = "return [...document.querySelectorAll('.ranks li')].map(each => each.value)"
    assert browser.run(ranks) == [0, 1, 2]

    world.do(lambda pretend: pretend.world.cut("eu | us"))
    browser.until_text("#views", "one side lives, and the other must not go on")
    browser.until("both sides", f"{SIDES}.length === 2")
    browser.until_text(".agreed-side[data-living=true]", "View 4")
    living, blocked = browser.run(SIDES)
    assert living[0] == "View 4" and living[1].startswith("lives, fence") and living[2] == 2
    assert blocked == ["View 4", "blocked", 1], "its own side, as it would be"
    browser.until_text(".agreed-side[data-living=false] .why", "1 of 3 who lived last are here")
    browser.until("who goes on", ENTRY, f"{LEDGER} goes on in view 4 without us")
    browser.until("who is blocked", ENTRY, f"members of {LEDGER} in us.boston.h1 are blocked")

    world.do(lambda pretend: pretend.world.heal())
    browser.until_text("#views", "All members have view")
    browser.until("one side", f"{SIDES}.length === 1")
    (side,) = browser.run(SIDES)
    assert side[2] == 3
    browser.until(
        "the merge",
        "return [...document.querySelectorAll('#entries .what')].some("
        "e => e.textContent.includes('is one again in view'))",
    )


@pytest.mark.browser
def test_the_page_of_an_agreed_group_fits_its_window(in_each_font: Browser, world: Stage) -> None:
    browser = in_each_font
    for member in MEMBERS:
        world.do(lambda pretend, member=member: pretend.join_agreed(member, LEDGER))
    browser.go(f"{world.address}/")
    browser.until_text("#views", "All members have view 3.")
    world.do(lambda pretend: pretend.world.cut("eu | us"))
    browser.until_text("#views", "one side lives, and the other must not go on")
    for width in (1280, 768, 400):
        browser.resize(width, 860)
        browser.until("it is drawn anew", "return document.querySelector('.tree').clientWidth < innerWidth")
        assert browser.sticking_out() == [], width


@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 400])
def test_the_top_of_the_page_does_not_cover_the_heading_that_a_link_leads_to(
    in_each_font: Browser, world: Stage, width: int
) -> None:
    browser = in_each_font
    browser.resize(width, 500)
    world.do(lambda pretend: pretend.join_agreed(MEMBERS[0], LEDGER))
    browser.go(f"{world.address}/")
    browser.until_text("#views", "view 1")
    browser.run("document.getElementById('views-link').click()")
    browser.until(
        "below the top of the page",
        "const at = (each) => document.querySelector(each).getBoundingClientRect();"
        "return scrollY > 0 && at('#views').top >= at('.top').bottom && at('#views').top < innerHeight",
    )


@pytest.mark.browser
def test_a_world_without_agreed_groups_has_no_section_for_them(browser: Browser, world: Stage) -> None:
    browser.go(f"{world.address}/")
    browser.until_text("#group-list", "chess")
    assert browser.run("return document.getElementById('views').hidden")
    assert browser.run("return document.getElementById('views-link').hidden")
