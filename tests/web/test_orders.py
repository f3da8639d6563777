"""Groups with one order and led sets on the dashboard: who orders, who is behind; who leads, and the tree."""

from typing import Any

import pytest
from support.browser import Browser
from support.stage import Stage

from rostra.names import Domain, parse_group
from rostra.web.agreed import order_shown
from rostra.web.led import led_shown

LEDGER, SETS = "ledger@eu", "players@eu"


def station(has: int, *others: tuple[str, int, bool], orders: bool = False, **more: Any) -> dict[str, Any]:
    return {
        "group": LEDGER,
        "stable": "all",
        "orders": orders,
        "has": has,
        "given": has,
        "slow": [],
        "blocked": "",
        "others": [{"host": host, "has": so_far, "full": full} for host, so_far, full in others],
        **more,
    }


def test_who_orders_comes_first_and_says_how_far_the_others_are() -> None:
    shown = order_shown(
        {
            Domain("eu.h1"): station(90),  # said a moment ago: its orderer knows better
            Domain("eu.h2"): station(100, ("eu.h1", 98, False), ("eu.h3", 40, True), orders=True, given=40),
            Domain("eu.h3"): station(40, slow=["eu.h3/ann#1"]),
        }
    )
    assert (shown.stable, shown.position, shown.delivered) == ("all", 100, 40)
    assert [(each.host, each.has, each.behind, each.waits) for each in shown.stations] == [
        ("eu.h2", 100, 0, False),
        ("eu.h3", 40, 60, True),
        ("eu.h1", 98, 2, False),
    ]
    assert shown.stations[1].slow == ("eu.h3/ann#1",)


def test_without_an_orderer_in_sight_nobody_knows_who_is_behind() -> None:
    shown = order_shown({Domain("eu.h1"): station(9, blocked="1 of 3 who lived last are here")})
    assert [(each.behind, each.blocked) for each in shown.stations] == [
        (None, "1 of 3 who lived last are here")
    ]


def agent(standing: str, parent: str | None = None, local: int = 1, total: int = 1) -> dict[str, Any]:
    values = {"parent": parent, "local": local, "total": total, "registrar": "eu"}
    return {"group": SETS, "standing": standing, **values}


def test_the_tree_has_each_agent_below_its_parent_and_strays_at_the_end() -> None:
    (shown,) = led_shown(
        [
            (Domain("eu"), {"led": [{"group": SETS, "standing": "registrar", "leader": "eu.h2"}]}),
            (Domain("eu.h1"), {"led": [agent("child", "eu.h2", total=2)]}),
            (Domain("eu.h2"), {"led": [agent("leader", total=4)]}),
            (Domain("eu.h3"), {"led": [agent("child", "eu.h1")]}),
            (Domain("eu.h4"), {"led": [agent("child", "eu.h9")]}),
        ]
    )
    assert shown.leaders == ("eu.h2",) and shown.registrars == (("eu", "eu.h2"),)
    assert [(each.host, each.depth, each.is_adrift) for each in shown.agents] == [
        ("eu.h2", 0, False),
        ("eu.h1", 1, False),
        ("eu.h3", 2, False),
        ("eu.h4", 0, True),
    ]


def test_in_a_partition_there_is_a_leader_and_a_registrar_on_each_side_and_its_tree_below_it() -> None:
    (shown,) = led_shown(
        [
            (Domain("eu.fr"), {"led": [{"group": SETS, "standing": "registrar", "leader": "eu.fr.h1"}]}),
            (Domain("eu.de"), {"led": [{"group": SETS, "standing": "registrar", "leader": "eu.de.h2"}]}),
            (Domain("eu.de.h1"), {"led": [agent("child", "eu.de.h2")]}),
            (Domain("eu.de.h2"), {"led": [agent("leader", total=2)]}),
            (Domain("eu.fr.h1"), {"led": [agent("leader")]}),
            (Domain("eu.fr.h2"), {"led": [agent("contend")]}),
        ]
    )
    assert shown.leaders == ("eu.de.h2", "eu.fr.h1")
    assert shown.registrars == (("eu.de", "eu.de.h2"), ("eu.fr", "eu.fr.h1"))
    assert [(each.host, each.standing, each.depth) for each in shown.agents] == [
        ("eu.de.h2", "leader", 0),
        ("eu.de.h1", "child", 1),
        ("eu.fr.h1", "leader", 0),
        ("eu.fr.h2", "contend", 0),
    ]
    assert not any(each.is_adrift for each in shown.agents)


def test_agents_that_are_each_others_parents_are_shown_once() -> None:
    (shown,) = led_shown(
        [
            (Domain("eu.h1"), {"led": [agent("child", "eu.h2")]}),
            (Domain("eu.h2"), {"led": [agent("child", "eu.h1")]}),
        ]
    )
    assert sorted(each.host for each in shown.agents) == ["eu.h1", "eu.h2"] and shown.leaders == ()


TREE = """return [...document.querySelectorAll('.led-tree li')].map(each => [
    each.querySelector('.agent').textContent, each.style.getPropertyValue('--depth'),
    each.hasAttribute('data-leads'), each.querySelector('.standing').textContent])"""


@pytest.mark.browser
def test_the_page_says_who_leads_a_set_which_registrar_knows_it_and_who_leads_after_a_crash(
    browser: Browser, world: Stage
) -> None:
    browser.go(f"{world.address}/")
    world.do(lambda pretend: pretend.join_led("eu.rome.h2/one", SETS))
    browser.until_text("#led .kind", "1 member listed, 1 agent")
    for member in ("eu.paris.h1/two", "eu.paris.h2/three"):
        world.do(lambda pretend, member=member: pretend.join_led(member, SETS))
    browser.until_text("#led .kind", "3 members listed, 3 agents")
    browser.until_text("#led .verdict-line", "eu.rome.h2 leads it. The registrar eu knows eu.rome.h2.")
    for row in (2, 3):  # each agent's own answer comes by itself
        browser.until_text(f".led-tree li:nth-of-type({row})", "follows; 1 of its own")
    assert browser.run(TREE) == [
        ["eu.rome.h2", "0", True, "leads; 1 of its own, 3 with those below it"],
        ["eu.paris.h1", "1", False, "follows; 1 of its own"],
        ["eu.paris.h2", "1", False, "follows; 1 of its own"],
    ]
    world.do(lambda pretend: pretend.world.crash("eu.rome.h2"))
    browser.until_text("#led .kind", "2 members listed, 2 agents")
    browser.until_text(".led-tree li:nth-of-type(1)", "leads; 1 of its own")
    ((leader, depth, leads, _), (other, *_)) = browser.run(TREE)
    assert (depth, leads) == ("0", True) and {leader, other} == {"eu.paris.h1", "eu.paris.h2"}
    browser.until_text("#led .verdict-line", f"{leader} leads it. The registrar eu knows {leader}.")


@pytest.mark.browser
def test_the_page_shows_who_orders_who_does_not_read_and_the_tree_of_a_led_set(
    browser: Browser, world: Stage
) -> None:
    for member in ("eu.paris.h1/one", "eu.rome.h1/two"):
        world.do(lambda pretend, member=member: pretend.join_ordered(member, LEDGER))
    for member in ("eu.paris.h2/three", "eu.rome.h2/four"):
        world.do(lambda pretend, member=member: pretend.join_led(member, SETS))
    browser.go(f"{world.address}/")
    browser.until_text("#views", "All members have view 2.")
    ledger = parse_group(LEDGER)
    world.do(lambda pretend: pretend.programs["eu.rome.h1/two"].read_in_order(ledger, more=False))
    world.do(lambda pretend: pretend.programs["eu.paris.h1/one"].say_in_order(ledger, b"e4", b"e5"))
    browser.until_text(".order-line", "Position 4, all delivered.")
    browser.until_text(".order-hosts [data-late]", "does not read")
    browser.until_text("#streams", f"{LEDGER}: one order for all messages")
    rows = "return [...document.querySelectorAll('.order-hosts tbody tr')].map(row => row.innerText)"
    first, other = browser.run(rows)
    assert "orders" in first and other.split()[1:3] == ["4", "0"]

    browser.until_text("#led", "2 members listed, 2 agents")
    browser.until_text("#led", "The registrar eu knows")
    tree = (
        "return [...document.querySelectorAll('.led-tree li')].map(e => e.style.getPropertyValue('--depth'))"
    )
    assert browser.run(tree) == ["0", "1"]
    for width in (1280, 400):
        browser.resize(width, 860)
        browser.until("it is drawn anew", "return document.querySelector('.tree').clientWidth < innerWidth")
        assert browser.sticking_out() == [], width
