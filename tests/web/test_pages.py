"""The dashboard in a real Chromium, over a pretend world: what a person sees and can do."""

import time
from pathlib import Path

import pytest
from support.browser import Browser
from support.stage import Stage, stage

pytestmark = pytest.mark.browser

STATE = "return document.querySelector(`[data-path='${arguments[0]}']`)?.dataset.state"
LINK = "return document.querySelector(`[data-link='${arguments[0]}']`)?.dataset.state"
ENTRY = "return [...document.querySelectorAll('#entries .what')].some(e => e.textContent === arguments[0])"


def look(browser: Browser, world: Stage, query: str = "") -> None:
    browser.go(f"{world.address}/{query}")
    browser.until("the picture", "return document.querySelector('.tree .server[data-state=up]')")


def until_state(browser: Browser, path: str, state: str) -> None:
    browser.until(f"{path} is {state}", f"{STATE} === arguments[1]", path, state)


def choose_link(browser: Browser, key: str) -> None:
    click = "dispatchEvent(new MouseEvent('click', {bubbles: true}))"
    browser.run(f"document.querySelector(`[data-link='${{arguments[0]}}']`).{click}", key)


def test_a_world_that_is_well_is_shown_with_its_groups(browser: Browser, world: Stage) -> None:
    look(browser, world)
    browser.until_text("#summary", "15")
    assert browser.text("#summary").split() == ["15", "up"]
    browser.until_text("#group-list", "chess")
    browser.until_text("#members", "both see the same")
    names = "[...document.querySelectorAll('.roster tbody b')].map(e => e.textContent).join()"
    browser.until("everybody is listed", f"return {names} === 'ann,bob,cat,dan'")
    browser.until_text("#status-text", "Live")


def test_a_region_is_cut_in_the_page_both_sides_are_told_and_it_heals(browser: Browser, world: Stage) -> None:
    look(browser, world)
    choose_link(browser, "eu|us")
    browser.click("[data-act='cut-between']")
    browser.until("the link is down", f"{LINK} === 'down'", "eu|us")
    browser.until("eu is told", ENTRY, "eu goes on without us")
    browser.until("us is told", ENTRY, "us goes on without eu")
    browser.until_text("#members", "4 differences")
    missing = browser.run(
        "return [...document.querySelectorAll('.roster tr[data-only]')].map(r => r.dataset.only)"
    )
    assert missing == ["left", "left", "right", "right"]
    assert browser.run(
        "return document.querySelector('#group-list [aria-current]').hasAttribute('data-apart')"
    )

    browser.click("#lab .mend")
    browser.until("the link is up", f"{LINK} === 'up'", "eu|us")
    browser.until("eu sees us", ENTRY, "eu sees us again")
    browser.until("us sees eu", ENTRY, "us sees eu again")
    browser.until_text("#members", "both see the same")


def test_a_world_in_which_nobody_speaks_says_how_to(browser: Browser, world: Stage) -> None:
    look(browser, world)
    browser.until_text("#streams", "No messages yet.")
    commands = browser.run(
        "return [...document.querySelectorAll('#streams .command')].map(e => e.textContent)"
    )
    assert commands == ["echo hello | rostra send chat", "rostra tail chat"]


def test_a_crashed_host_is_down_and_comes_back(browser: Browser, world: Stage) -> None:
    look(browser, world)
    browser.click("[data-path='eu.rome.h1']")
    browser.click("[data-act='crash']")
    until_state(browser, "eu.rome.h1", "down")
    said = "return document.querySelector(`[data-path='eu.rome.h1'] .state`).textContent"
    assert browser.run(said) == "down", "not by colour alone"
    browser.until("the loss is told", ENTRY, "eu.rome.h1 is lost; the rest of eu goes on without it")
    browser.click("[data-act='restart']")
    until_state(browser, "eu.rome.h1", "up")


def test_a_link_that_works_one_way_is_marked_in_the_picture_and_the_matrix(
    browser: Browser, world: Stage
) -> None:
    look(browser, world)
    choose_link(browser, "eu|us")
    browser.click("[data-act='cut-ab']")
    browser.until("the link is one way", f"{LINK} === 'one way'", "eu|us")
    browser.until_text("#detail .why", "One way: eu hears us, and is not heard there.")
    cell = "return [...document.querySelectorAll('.matrix td[data-state=\"one way\"]')].map(c => c.title)"
    browser.until("the arrow", f"{cell}.length === 1")
    assert browser.run(cell) == ["eu hears us, and is not heard there"]


def test_a_region_that_is_cut_off_sees_its_own_members_only(browser: Browser, world: Stage) -> None:
    look(browser, world, "?matrix=members")
    browser.click("[data-path='us']")
    browser.click("[data-act='cut']")
    until_state(browser, "us", "cut off")
    script = "return document.querySelectorAll('.matrix td[data-state=down]').length"
    browser.until("who does not see whom", f"{script} > 0")
    assert (
        browser.run("return document.querySelector('[data-path=us]').getAttribute('aria-label')")
        == "us, domain, cut off"
    )


def test_two_places_can_be_chosen_and_the_choice_is_in_the_address(browser: Browser, world: Stage) -> None:
    look(browser, world)
    browser.until_text("#members", "both see the same")
    browser.choose("#here", "eu.rome.h1")
    browser.choose("#there", "us.denver.h2")
    browser.until_text(".roster thead", "us.denver.h2")
    address = browser.run("return location.search")
    assert "here=eu.rome.h1" in address and "there=us.denver.h2" in address
    look(browser, world, address)
    browser.until_text(".roster thead", "eu.rome.h1")


def test_the_timeline_is_live_and_can_be_filtered(browser: Browser, world: Stage) -> None:
    look(browser, world)
    world.do(lambda pretend: pretend.join("us.boston.h2/zoe", "chess@world"))
    browser.until_text("#entries", "zoe")
    browser.until_text("#entries", "seen by 8 places")
    browser.click("[data-topic='members'][aria-pressed='true']")
    browser.until("no members", "return !document.querySelector('#entries').innerText.includes('zoe')")
    browser.click("[data-topic='members'][aria-pressed='false']")
    browser.click("#timeline-filter")
    browser.press(*"zoe")
    browser.until("only zoe", "return document.querySelectorAll('#entries > li').length === 1")


def test_a_cut_stays_in_sight_above_the_joins_that_follow_it(in_each_font: Browser, world: Stage) -> None:
    browser = in_each_font
    look(browser, world)
    assert browser.run("return document.querySelector('#pinned').hidden")
    choose_link(browser, "eu|us")
    browser.click("[data-act='cut-between']")
    browser.until("eu is told", ENTRY, "eu goes on without us")
    for number in range(6):
        name = f"eu.paris.h1/guest{number}"
        world.do(lambda pretend, name=name: pretend.join(name, "chess@world"))
        browser.until_text("#entries", name)
    browser.until_text("#pinned", "eu goes on without us")
    browser.until_text("#pinned", "us goes on without eu")
    browser.run(
        "for (const e of document.querySelectorAll('#pinned .what')) e.textContent += ' and so on'.repeat(9)"
    )
    browser.resize(400, 860)
    assert browser.sticking_out() == [], "long ones scroll, and leave room for the list"


def test_the_cuts_of_a_link_are_explained(browser: Browser, world: Stage) -> None:
    look(browser, world)
    choose_link(browser, "eu|us")
    browser.until_text("#detail .choices", "no node inside eu reaches a node inside us")
    choose_link(browser, "eu|eu.paris")
    browser.until_text("#detail .choices", "Cuts the connection of these two servers")
    assert not browser.run("return document.querySelector(`[data-act='cut-between']`)")


def test_a_long_incarnation_is_shown_by_its_last_digits_and_whole_in_its_tooltip(
    browser: Browser, world: Stage
) -> None:
    look(browser, world)
    browser.run(
        "return import('/pages/dom.js').then(dom => {"
        "  const line = document.body.appendChild(document.createElement('p'));"
        "  line.id = 'line'; dom.spell(line, 'ann#1794917701931 met bob#7'); })"
    )
    assert browser.text("#line") == "ann#…1931 met bob#7"
    assert browser.run("return document.querySelector('#line .number').title") == "#1794917701931"


def test_a_group_that_nobody_follows_can_be_looked_at(browser: Browser, world: Stage) -> None:
    look(browser, world)
    browser.click("#look-up-name")
    browser.press(*"void@eu", "Enter")
    browser.until_text("#members", "Both see it without members.")


def test_everything_can_be_reached_by_keyboard(browser: Browser, world: Stage) -> None:
    look(browser, world)
    browser.press("Tab")
    assert browser.run("return document.activeElement.className") == "skip"
    for _ in range(12):
        browser.press("Tab")
        if browser.run("return document.activeElement.dataset.path ?? ''"):
            break
    browser.press("ArrowDown", "ArrowRight", "ArrowDown", "Enter")
    assert browser.run("return document.activeElement.dataset.path") == "us.boston"
    browser.until_text("#detail h3", "us.boston")
    ring = "return getComputedStyle(document.activeElement.querySelector('.halo')).strokeWidth"
    assert browser.run(ring) != "0px"


def test_no_name_can_become_markup(browser: Browser, world: Stage) -> None:
    name = "<img src=x onerror=document.title='pwned'>"
    world.do(lambda pretend: pretend.join("eu.paris.h1/ann", f"{name}@world", meta=b"<script>1</script>"))
    look(browser, world)
    browser.until_text("#group-list", name)
    find = "[...document.querySelectorAll('#group-list button')].find(b => b.textContent.includes('<img'))"
    browser.run(f"{find}.click()")
    browser.until_text("#members", "<script>1</script>")
    world.do(lambda pretend: pretend.join("us.boston.h1/cat", f"{name}@world"))
    browser.until_text("#entries", name)
    assert browser.run("return document.querySelectorAll('img, main script').length") == 0
    assert browser.run("return document.title") == "pretend – Rostra"


def test_a_browser_has_one_font_and_its_widths_differ(in_each_font: Browser, world: Stage) -> None:
    look(in_each_font, world)
    (family,) = in_each_font.fonts("h1")
    width = in_each_font.run(
        "const ink = document.createElement('canvas').getContext('2d');"
        "ink.font = '100px sans-serif'; return ink.measureText('Sightings').width"
    )
    assert {"DejaVu Sans": width > 450, "Roboto Condensed": width < 380}[family], width


WIDTHS = (1280, 768, 400)


def sticking_out(browser: Browser) -> dict[int, list[str]]:
    """What does not fit, by the width of the window."""
    found = {}
    for width in WIDTHS:
        browser.resize(width, 860)
        browser.until("it is drawn anew", "return document.querySelector('.tree').clientWidth < innerWidth")
        if out := browser.sticking_out():
            found[width] = out
    return found


def test_the_page_fits_its_window(in_each_font: Browser, world: Stage) -> None:
    browser = in_each_font
    look(browser, world)
    browser.until_text("#members", "both see the same")
    assert sticking_out(browser) == {}
    for path in ("world", "eu", "eu.paris", "us.denver.h2"):
        browser.click(f"[data-path='{path}']")
        browser.until_text("#detail h3", path)
        assert sticking_out(browser) == {}, path
    choose_link(browser, "eu|us")
    browser.click("[data-act='cut-between']")
    browser.until_text("#members", "4 differences")
    browser.click("[data-matrix='members']")
    assert sticking_out(browser) == {}, "a link is cut"
    small = (
        "return [...document.querySelectorAll('button, select, input, a')].filter(e => e.offsetParent &&"
        " !e.closest('.matrix, p') && e.getBoundingClientRect().height < 18).map(e => e.outerHTML)"
    )
    assert browser.run(small) == [], "too small to hit"


def test_a_page_without_a_world_fits_its_window(in_each_font: Browser) -> None:
    in_each_font.resize(400, 860)
    with stage(places=False, members=False, lab=False) as world:
        in_each_font.go(world.address)
        in_each_font.until_text("#picture", "No server has answered yet.")
        assert in_each_font.sticking_out() == []
    in_each_font.until("it is lost", "return !document.querySelector('#lost').hidden")
    assert in_each_font.sticking_out() == []


def test_choosing_something_moves_nothing(browser: Browser, world: Stage) -> None:
    look(browser, world)
    browser.until_text("#members", "both see the same")
    top = "return document.querySelector('#groups').getBoundingClientRect().top"
    before = browser.run(top)
    browser.click("[data-path='eu']")
    browser.until_text("#detail h3", "eu")
    choose_link(browser, "eu|us")
    browser.until_text("#detail h3", "eu – us")
    assert browser.run(top) == before
    browser.click("[data-act='cut-between']")
    browser.until("the link is down", f"{LINK} === 'down'", "eu|us")
    assert browser.run(top) == before


def test_it_is_dark_when_the_system_is_and_when_the_reader_wants_it(browser: Browser, world: Stage) -> None:
    theme = "return [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]"
    look(browser, world)
    light = browser.run(theme)
    browser.set_dark(True)
    browser.until("dark", "return document.documentElement.dataset.theme === 'dark'")
    dark = browser.run(theme)
    assert light[0] == "light" and light[1] != dark[1]
    browser.click("#theme")
    assert browser.run(theme) == light
    look(browser, world)
    assert browser.run(theme) == light, "the choice is remembered"


def test_text_can_be_read_against_its_background(browser: Browser, world: Stage) -> None:
    """Every colour of text has a contrast of 4.5 at least, in both themes (WCAG 2, AA)."""
    look(browser, world)
    script = """
      const root = getComputedStyle(document.documentElement);
      const light = (name) => {
        const hex = root.getPropertyValue(name).trim();
        const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
          .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const low = [];
      for (const ink of ["ink", "ink-2", "ink-3", "accent", "up", "suspected", "cut-off", "down", "unseen"])
        for (const paper of ["paper", "card", "sunk"]) {
          const [one, other] = [light(`--${ink}`), light(`--${paper}`)].sort((a, b) => b - a);
          const contrast = (one + 0.05) / (other + 0.05);
          if (contrast < (ink === "unseen" ? 3 : 4.5)) low.push([ink, paper, contrast.toFixed(2)]);
        }
      return low"""
    assert browser.run(script) == []
    browser.click("#theme")
    assert browser.run(script) == []


def test_a_page_that_loses_its_server_says_so_and_comes_back(browser: Browser) -> None:
    with stage() as world:
        look(browser, world)
        port = int(world.address.rpartition(":")[2])
    browser.until("it is lost", "return !document.querySelector('#lost').hidden")
    assert "You see what was known" in browser.text("#lost")
    assert browser.text("#status-text") == "Reconnecting"
    assert browser.run("return document.querySelectorAll('.tree .server').length") == 15, (
        "what was known stays"
    )
    with stage(port=port, hosts=("lab.a.h1", "lab.b.h1")):
        browser.until("it is back", "return document.querySelector('#lost').hidden")
        until_state(browser, "lab.a.h1", "up")
        assert browser.run("return document.querySelector(\"[data-path='eu']\")") is None, "another world"


def test_a_world_without_places_groups_or_events_is_not_an_empty_page(browser: Browser) -> None:
    with stage(places=False, members=False, lab=False) as world:
        browser.go(world.address)
        browser.until_text("#picture", "No server has answered yet.")
        browser.until_text("#members", "No agent can be asked from here.")
        browser.until_text("#matrix", "Nothing to compare yet.")
        said = browser.run("return getComputedStyle(document.querySelector('#entries'), '::after').content")
        assert "No events yet." in said
        assert browser.run("return document.querySelector('#lab').hidden"), "nothing here is ours to break"


def test_while_it_loads_there_is_something_in_the_place_of_the_picture(
    browser: Browser, world: Stage
) -> None:
    browser.go(f"{world.address}/api")
    page = browser.run("return fetch('/').then(answer => answer.text())")
    assert 'class="placeholder"' in page and "Connecting" in page


def test_the_page_asks_nothing_of_anybody_else(browser: Browser, world: Stage) -> None:
    look(browser, world)
    time.sleep(0.5)
    script = "return performance.getEntriesByType('resource').map(e => e.name)"
    asked = browser.run(script)
    assert asked and all(name.startswith(world.address) for name in asked)
    streams = [name for name in asked if "/api/" in name]
    assert len(streams) <= 1, "one stream, and no polling"


def test_pictures_for_people(browser: Browser, world: Stage, tmp_path: Path) -> None:
    """Screenshots of all widths and themes, to be looked at: the last run's are in pytest's directory."""
    look(browser, world)
    for dark in (False, True):
        browser.set_dark(dark)
        for width in (1280, 400):
            browser.resize(width, 860)
            path = tmp_path / f"{'dark' if dark else 'light'}-{width}.png"
            browser.shoot(path, whole_page=True)
            assert path.stat().st_size > 20_000
