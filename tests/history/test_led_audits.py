"""The promises of led sets (P-1 to P-4), judged on journals: well kept, and with rows that say otherwise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.court import Court, quiet
from support.journal import Row
from support.parity import rows_of
from support.segments import SCHEMA

from rostra.names import Domain, Group
from rostra.protocols.links.config import LinkConfig
from rostra.sim import LAN, World
from rostra.sim.journal import SimJournal
from rostra.sim.set_storm import SetStorm
from rostra.sim.shapes import clusters

PROMISES = ("one-registrar", "one-leader", "exact-list", "members-listed")
BOUND_S = 30.0
SETS = Group("sets", Domain("eu"))
STORMS = (1, 2)

LOST = "led-cut-that-servers-lost"

Rows = list[Row]

pytestmark = pytest.mark.long


def _together(journal: Path) -> World:
    world = World(
        3,
        tree=clusters({"eu.fr": 2, "eu.de": 2}),
        links=LAN,
        timers=LinkConfig.lan().over_datagrams(),
        journal=SimJournal(journal),
    )
    world.run(4.0)
    for host in world.tree.hosts:
        world.program(host).join_led(SETS)
        world.run(2.0)
    return world


def led(journal: Path) -> World:
    """Four members on three hosts; the leader's host crashes, another member leaves, a new one comes."""
    world = _together(journal)
    *_, last = world.programs
    world.crash("eu.de.h1")
    world.run(40.0)
    last.leave_led(SETS)
    world.run(1.0)
    world.program("eu.de.h2", "late").join_led(SETS)
    return world.run(2 * BOUND_S)


def cut(journal: Path) -> Rows:
    """The set is cut in two, and each part finds a leader. Of the servers, no row since then is kept."""
    world = _together(journal)
    was = world.now
    world.cut("eu.fr | eu").run(40.0 + 2 * BOUND_S).close()
    rows = [row for row in rows_of(journal, LOST) if row["role"] != "sim"]
    return [row for row in rows if row["role"] != "server" or row["virtual_s"] < was]


def of(rows: Rows, what: str, **values: Any) -> Rows:
    found = [row for row in rows if row["kind"] == "led" and row["what"] == what]
    return [row for row in found if all(row[name] == value for name, value in values.items())]


def silence(row: Row) -> None:
    row.update(
        dict.fromkeys(("group", "what", "member", "change", "domain", "peer")), kind="heartbeat", nth=0, of=1
    )


def believes_in_another_registrar(rows: Rows) -> None:
    of(rows, "child", writer="eu.de.h2")[-1]["domain"] = "eu.fr"


def leads_too(rows: Rows) -> None:
    of(rows, "child", writer="eu.de.h2")[-1]["what"] = "leads"


def nobody_leads(rows: Rows) -> None:
    of(rows, "leads", writer="eu.fr.h1")[-1].update(what="child", peer="eu.fr.h2")


def does_not_list_one(rows: Rows) -> None:
    silence(next(row for row in of(rows, "lists", change="joined") if "/late" in row["member"]))


def lists_one_that_is_gone(rows: Rows) -> None:
    silence([row for row in of(rows, "lists", change="left") if row["member"].startswith("eu.fr.h2")][-1])


SPOILT: dict[str, tuple[Callable[[Rows], None], set[str]]] = {
    "led-believes-in-another-registrar": (believes_in_another_registrar, {"one-registrar"}),
    "led-leads-too": (leads_too, {"one-leader", "exact-list", "members-listed"}),
    "led-nobody-leads": (nobody_leads, {"one-leader", "exact-list"}),
    "led-does-not-list-one": (does_not_list_one, {"exact-list", "members-listed"}),
    "led-lists-one-that-is-gone": (lists_one_that_is_gone, {"exact-list"}),
}


class Brought:
    def __init__(self, directory: Path) -> None:
        led(directory / "led").close()
        fine = rows_of(directory / "led", "led")
        rows = list(fine)
        for name, (spoil, _) in SPOILT.items():
            mine = [{**row, "world": name} for row in fine]
            spoil(mine)
            rows += mine
        for seed in STORMS:
            storm = SetStorm(seed, journal=SimJournal(directory / f"storm-{seed}"))
            storm.blow_over()
            storm.world.run(2 * BOUND_S)
            storm.world.close()
            rows += rows_of(directory / f"storm-{seed}", f"led-storm-{seed}")
        rows += cut(directory / "cut")
        self.table = pa.Table.from_pylist(quiet(rows), SCHEMA)


@pytest.fixture(scope="module")
def answers(court: Court) -> dict[str, dict[str, Any]]:
    return {promise: court.verdicts(promise, BOUND_S) for promise in PROMISES}


@pytest.mark.parametrize("promise", PROMISES)
def test_what_was_well_kept_is_called_so(promise: str, answers: dict[str, dict[str, Any]]) -> None:
    found = answers[promise]["led"]
    assert found["answer"] == "yes" and found["judged"] > 0, found


@pytest.mark.parametrize("world", SPOILT)
def test_a_planted_violation_is_found_by_the_promises_that_forbid_it_and_by_no_other(
    world: str, answers: dict[str, dict[str, Any]]
) -> None:
    found = {promise: answers[promise][world] for promise in PROMISES}
    assert {promise for promise in PROMISES if found[promise]["answer"] == "no"} == SPOILT[world][1], found


@pytest.mark.parametrize("promise", PROMISES)
def test_storms_that_its_own_checkers_pass_are_never_called_broken(
    promise: str, answers: dict[str, dict[str, Any]]
) -> None:
    for seed in STORMS:
        found = answers[promise][f"led-storm-{seed}"]
        assert found["answer"] != "no", found


@pytest.mark.parametrize("promise", PROMISES)
def test_what_servers_did_not_keep_is_held_against_no_agent_of_a_set(
    promise: str, answers: dict[str, dict[str, Any]]
) -> None:
    found = answers[promise][LOST]
    assert found["answer"] != "no" and found["doubts"] > 0, found
    if promise != "exact-list":
        assert found["why"].startswith("rows that are missing could explain it"), found
