"""The promises of groups with delivery="atomic", judged on journals: well kept, and broken in one host.

A bug is planted where a node's orders leave it, as in `test_view_audits`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from history.test_view_audits import plant_at
from msgspec.structs import replace
from support.court import Court, quiet
from support.journal import Journal, Row
from support.parity import rows_of
from support.segments import SCHEMA

from rostra.names import Domain, Group
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.atomic.requests import OrderedRun
from rostra.protocols.fifo.events import DeliverAll
from rostra.protocols.flow.messages import Run
from rostra.protocols.links.config import LinkConfig
from rostra.sim import LAN, World
from rostra.sim.journal import SimJournal
from rostra.sim.order_storm import OrderStorm
from rostra.sim.shapes import clusters

PROMISES = ("total-order", "all-or-none")
GROUP = Group("orders", Domain("eu"))
FIRST = Domain("eu.de.h1")
CUT_OFF = Domain("eu.fr.h1")
STORM = 2

Orders = list[Any]


def spoken(journal: Path) -> World:
    """Three members in two sites, who speak. The site of one is cut off, and comes back."""
    world = World(
        1,
        tree=clusters({"eu.de": 2, "eu.fr": 1}),
        links=LAN,
        timers=LinkConfig.lan().over_datagrams(),
        journal=SimJournal(journal),
        fifo=True,
    )
    world.run(4.0)
    programs = [world.program(host) for host in world.tree.hosts]
    for program in programs:
        program.join_ordered(GROUP, survive="majority")
        world.run(2.0)
    for _ in range(8):
        for program in programs:
            program.say_in_order(GROUP, b"e4", b"e5")
            world.run(0.05)
    for other in ("eu.de", "eu"):
        world.cut(f"eu.fr | {other}")
    world.run(6.0)
    programs[0].say_in_order(GROUP, b"on")
    world.heal().run(8.0)
    programs[1].leave_ordered(GROUP)
    return world.run(4.0)


def _run(order: Any) -> OrderedRun | None:
    return order.item if isinstance(order, DeliverAll) and isinstance(order.item, OrderedRun) else None


def _view(order: Any) -> MemberView | None:
    return order.item if isinstance(order, DeliverAll) and isinstance(order.item, MemberView) else None


class leaves_a_message_out:
    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, orders: Orders) -> Orders:
        kept = []
        for order in orders:
            self.runs += _run(order) is not None
            if _run(order) is None or self.runs != 7:
                kept.append(order)
        return kept


class gives_two_in_another_order:
    """A run, and the next one of another sender: each at the position of the other."""

    def __init__(self) -> None:
        self.held: Any = None
        self.done = False

    def __call__(self, orders: Orders) -> Orders:
        given: Orders = []
        for order in orders:
            run, held = _run(order), self.held
            if run is None or self.done:
                given.append(order)
            elif held is None:
                self.held = order
            elif held.item.stream == run.stream:
                given.append(held)
                self.held = order
            else:
                given.append(replace(order, item=replace(run, position=held.item.position)))
                after = held.item.position + run.run.count
                given.append(replace(held, item=replace(held.item, position=after)))
                self.done = True
        return given


class gives_more_than_the_others_before_it_is_blocked:
    def __init__(self) -> None:
        self.last: Any = None

    def __call__(self, orders: Orders) -> Orders:
        given: Orders = []
        for order in orders:
            if _run(order) is not None:
                self.last = order
            if isinstance(order, DeliverAll) and isinstance(order.item, MemberBlocked) and self.last:
                run = self.last.item
                more = OrderedRun(run.stream, Run(run.run.end, 1, b"", 0.0), run.position + run.run.count)
                given.append(replace(self.last, item=more))
                self.last = None
            given.append(order)
        return given


SPOILT: dict[str, tuple[Callable[[], Any], Domain, set[str]]] = {
    "orders-leaves-a-message-out": (leaves_a_message_out, FIRST, {"total-order", "all-or-none"}),
    "orders-gives-two-in-another-order": (gives_two_in_another_order, FIRST, {"total-order"}),
    "orders-gives-more-before-it-is-blocked": (
        gives_more_than_the_others_before_it_is_blocked,
        CUT_OFF,
        {"all-or-none"},
    ),
}


TAILS: dict[str, tuple[str | None, str, bool, set[str]]] = {
    "orders-hub-and-one-lost": ("eu.h1", "eu.h3", True, {"total-order", "all-or-none"}),
    "orders-negotiated-and-one-lost": (None, "eu.h3", True, set()),
    "orders-negotiated-by-one-that-went-on": (None, "eu.h2", True, {"total-order"}),
    "orders-negotiated-in-the-last-view": (None, "eu.h2", False, {"total-order"}),
}
"""Who orders, which host was given something else, if there is a next view; and what that breaks (TA10)."""


def few_rows(world: str, orderer: str | None, wrong: str, *, goes_on: bool) -> list[Row]:
    """Of three hosts, the last of which is lost in the first view and was given two messages more."""
    journal = Journal(world)
    for host in ("eu.h1", "eu.h2", "eu.h3"):
        journal.start(host)
        of: Row = {"group": "ledger@eu", "view": "1.0 p", "first": 1}
        begin = {"last": 1, "count": 0, "digest": 0, "fence": 1, "what": "all", "peer": orderer}
        journal.write(host, "ordered", **of, **begin)
        given = {"last": 17, "count": 16, "digest": 99 if host == wrong else 16}
        journal.write(host, "ordered", **of, **given)
        if not goes_on:
            continue
        if host == "eu.h3":
            journal.write(host, "ordered", **of, last=19, count=18, digest=18, cause="left")
            continue
        journal.write(host, "ordered", **of, **given, cause="view")
        of |= {"view": "2.0 p", "first": 18, "base": "1.0 p"}
        journal.write(host, "ordered", **of, **(begin | {"last": 18, "fence": 2}))
    return journal.rows


class Brought:
    def __init__(self, directory: Path) -> None:
        rows: list[Row] = []
        spoken(directory / "orders").close()
        fine = rows_of(directory / "orders", "orders")
        for name, (spoil, at, _) in SPOILT.items():
            with pytest.MonkeyPatch.context() as patch:
                plant_at(patch, spoil(), at)
                spoken(directory / name).close()
            rows += rows_of(directory / name, name)
        storm = OrderStorm(STORM, journal=SimJournal(directory / "storm"))
        storm.blow_over()
        storm.world.close()
        rows += fine + rows_of(directory / "storm", "orders-storm")
        # Not as a simulator would have kept it, and without half of what one host was given
        real = [row for row in fine if row["role"] != "sim"]
        missing = [row for row in real if row["writer"] != FIRST or row["kind"] != "ordered" or row["base"]]
        rows += [{**row, "world": "orders-with-holes"} for row in missing]
        # Without a hole in its numbers: nothing is missing where no such group is.
        untold = ({**row, "kind": "heartbeat"} if row["kind"] == "ordered" else row for row in fine)
        rows += [{**row, "world": "orders-untold"} for row in untold]
        for world, (orderer, wrong, goes_on, _) in TAILS.items():
            rows += few_rows(world, orderer, wrong, goes_on=goes_on)
        self.table = pa.Table.from_pylist(quiet(rows), SCHEMA)


@pytest.fixture(scope="module")
def answers(court: Court) -> dict[str, dict[str, Any]]:
    return {promise: court.verdicts(promise) for promise in PROMISES}


@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize("world", ["orders", "orders-storm", "orders-with-holes"])
def test_what_was_well_kept_is_called_so(
    promise: str, world: str, answers: dict[str, dict[str, Any]]
) -> None:
    found = answers[promise][world]
    assert found["answer"] == "yes", found
    assert found["judged"] > 4


@pytest.mark.parametrize("world", SPOILT)
def test_a_planted_violation_is_found_by_the_promises_that_forbid_it_and_by_no_other(
    world: str, answers: dict[str, dict[str, Any]]
) -> None:
    _, at, forbidden = SPOILT[world]
    found = {promise: answers[promise][world] for promise in PROMISES}
    assert {promise for promise in PROMISES if found[promise]["answer"] == "no"} == forbidden, found
    assert all(at in found[promise]["why"] for promise in forbidden), found


@pytest.mark.parametrize("world", TAILS)
def test_what_a_lost_member_was_given_last_counts_only_where_one_host_orders(
    world: str, answers: dict[str, dict[str, Any]]
) -> None:
    *_, broken = TAILS[world]
    found = {promise: answers[promise][world] for promise in PROMISES}
    assert {promise for promise in PROMISES if found[promise]["answer"] == "no"} == broken, found
    assert found["total-order"]["judged"] > 5


def test_views_of_such_groups_are_judged_as_agreed_ones(court: Court) -> None:
    assert court.verdicts("same-view")["orders"]["answer"] == "yes"


def test_a_history_without_such_groups_says_so(answers: dict[str, dict[str, Any]]) -> None:
    other = answers["total-order"]["orders-untold"]
    assert other["answer"] == "cannot tell" and "atomic" in other["why"]
