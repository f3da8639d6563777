"""Agreed views between three far sites: the performance analysis that the paper leaves for later.

    python -m benchmarks.wan_views               simulated, and (as root) on the lab: report/wan-views.md
    python -m benchmarks.wan_views --simulated   without the lab: seconds

Jerusalem, Cambridge and Taipei: round trips of 230, 230 and 390 ms (`spec/views.md`, section 6).

- **views**: from a join to the view at the first server and at the last, by where the coordinator is.
- **recovery**: the same after the coordinator's death, from the moment at which its links are found down.
- **messages**: of each kind of change, beside the paper's formulas; with 10 members and with 1,000.
- **changes per second** of one core-set, on that network and on one machine.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from benchmarks.timed_set import TIMED, TimedSet, crowd, join, leave
from rostra.core.observer import Reporter
from rostra.impair.quality import Constant, LineQuality
from rostra.names import ROOT, Domain, Group
from rostra.observe.trace import ProgramGiven
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.links.config import LinkConfig
from rostra.sim.network import LinkModel
from rostra.sim.world import World

SITES: Final = ("huji", "mit", "ntu")
ONE_WAY_S: Final = {("huji", "mit"): 0.115, ("mit", "ntu"): 0.115, ("huji", "ntu"): 0.195}
EXPECTED_MS: Final = {"mit": (230, 345), "huji": (390, 585)}
"""Two and three one-way trips to the farthest server, coordinator in the middle and at the edge."""

NOTICED_S: Final = 4.0
"""After so long the others find the links of a dead coordinator down; figures count from there."""

REPORT: Final = Path("report/wan-views.md")
MEMBERS: Final = (10, 1_000)


def one_way_s(one: str, other: str) -> float:
    return ONE_WAY_S[min(one, other), max(one, other)]


# Views, in whole worlds


class _Given(Reporter):
    """When a program at each site was given a view of so many."""

    def __init__(self) -> None:
        self.shows = {ProgramGiven: self._given}
        self.at: dict[str, float] = {}
        self.wanted = 0

    def _given(self, at: float, host: Domain, given: ProgramGiven) -> None:
        if isinstance(given.item, MemberView) and given.item.number == self.wanted:
            self.at.setdefault(str(host).partition(".")[0], at)


def simulated(coordinator: str, *, hosts: int = 1, per_host: int = 1) -> tuple[float, float]:
    """Milliseconds from a join to the view at the first site and at the last. Inside a site a message takes
    a microsecond, so what is seen at its programs is when its server had it."""
    inside = LineQuality(Constant(1e-6))
    world = World(
        1,
        domains=dict.fromkeys(SITES, hosts),
        links=LinkModel(inside, LineQuality(Constant(0.115))),
        timers=LinkConfig.wan().over_datagrams(),
        history=False,
    )
    for (one, other), delay_s in ONE_WAY_S.items():
        world.make(f"{one} | {other}", LineQuality(Constant(delay_s)))
    world.run(8.0)
    key = Group("views", ROOT)
    programs = [
        world.program(f"{site}.h{host + 1}", f"m{number}")
        for site in SITES
        for host in range(hosts)
        for number in range(per_host)
    ]
    for program in programs:
        program.join_agreed(key)
        world.run(5.0)
    view = programs[0].agreed[key].view
    assert view is not None and len(programs[0].agreed[key].members) == len(programs)
    given = _Given()
    given.wanted = view.number + 1
    world.observe(given)
    began = world.now
    world.program(f"{coordinator}.h1", "joiner").join_agreed(key)
    world.run(5.0)
    world.close()
    assert set(given.at) == set(SITES)
    times = [1e3 * (at - began) for at in given.at.values()]
    return min(times), max(times)


# Recovery, among servers


class Recovery(Struct, frozen=True):
    dead: str
    how: str
    last_ms: float  # the change, at the last survivor
    trips: float  # of one way between the survivors
    removed_ms: float  # the coordinator, at the last survivor


def recovery(dead: str, *, committed: bool) -> Recovery:
    """Its coordinator dies when it has all acknowledgements: before its commit leaves, or when one survivor
    has it and the other does not."""
    one, other = [site for site in SITES if site != dead]
    servers = TimedSet(SITES, one_way_s)
    servers.ask(other, crowd(MEMBERS[0]))
    servers.run(20.0)
    servers.now = began = 30.0
    servers.ask(dead, join(MEMBERS[0]))
    acknowledged_s = 2 * max(one_way_s(dead, one), one_way_s(dead, other))
    servers.run(began + acknowledged_s + (1e-4 if committed else -1e-4))
    servers.crash(dead)
    if committed:
        servers.lose(dead, other)
    noticed = began + NOTICED_S
    servers.run(noticed)
    servers.notice(dead)
    servers.run(noticed + 30.0)
    survivors = (one, other)
    had = servers.when(join(MEMBERS[0]))
    last_ms = 1e3 * (max(had[each] for each in survivors) - noticed)
    removed_ms = 1e3 * (max(at for at, name, _ in servers.commits if name in survivors) - noticed)
    how = "compressed" if committed else "three phases"
    return Recovery(dead, how, last_ms, last_ms / 1e3 / one_way_s(one, other), removed_ms)


# Messages


class Cost(Struct, frozen=True):
    change: str
    servers: int
    members: int
    messages: int
    formula: str
    expected: int
    kinds: str


def costs(count: int, members: int) -> list[Cost]:
    """Of each kind of change among so many servers, in a group of so many members."""
    names = tuple(f"s{number}" for number in range(count))
    survivors = count - 1

    def begun() -> TimedSet:
        servers = TimedSet(names, lambda one, other: 0.01)
        servers.ask(names[0], crowd(members))
        servers.run(20.0)
        servers.now = 30.0
        return servers

    found = []

    def add(change: str, servers: TimedSet, since: int, formula: str, expected: int) -> None:
        sent = servers.messages(since)
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(sent.items()))
        found.append(Cost(change, count, members, sum(sent.values()), formula, expected, kinds))

    for what, change in (("join", join(members)), ("leave", leave(0))):
        servers = begun()
        since = len(servers.sent)
        servers.ask(names[1], change)
        servers.run(60.0)
        add(what, servers, since, "3(n-1)", 3 * (count - 1))
    servers = begun()
    servers.crash(names[-1])
    since = len(servers.sent)
    servers.notice(names[-1])
    servers.run(60.0)
    add("a server fails", servers, since, "3(s-1)", 3 * (survivors - 1))
    for committed in (False, True):
        servers = begun()
        servers.ask(names[1], join(members))
        servers.run(30.0 + 0.02 + (1e-4 if committed else -1e-4))
        servers.crash(names[1])
        if committed:
            for name in names[3:]:
                servers.lose(names[1], name)
            servers.lose(names[1], names[0])
        servers.run(31.0)
        since = len(servers.sent)
        servers.notice(names[1])
        servers.run(90.0)
        status, removal = survivors * (survivors - 1), 3 * (survivors - 1)
        if committed:
            expected = status + (survivors - 1) + removal
            add("its coordinator dies, one has it", servers, since, "s(s-1) + (s-1) + 3(s-1)", expected)
        else:
            expected = status + 3 * (survivors - 1) + removal
            add("its coordinator dies, none has it", servers, since, "s(s-1) + 3(s-1) + 3(s-1)", expected)
    return found


# Changes per second


def per_second(coordinators: Sequence[str], changes: int = 60, *, lanes: int = 0) -> float:
    """Joins of as many groups, asked for all at once, on the wide area: commits per second at the last."""
    servers = TimedSet(SITES, one_way_s, replace(TIMED, lanes=lanes))
    servers.now = 30.0
    asked = [join(number, Group(f"g{number}", ROOT)) for number in range(changes)]
    for place, change in enumerate(asked):
        servers.ask(coordinators[place % len(coordinators)], change)
    servers.run(30.0 + 10.0 * changes)
    ends = [max(servers.when(change).values()) for change in asked]
    return changes / (max(ends) - 30.0)


def per_second_of_a_core(changes: int = 2_000) -> float:
    """Three servers in this process, without a network: what the cores themselves take."""
    servers = TimedSet(SITES, lambda one, other: 1e-4)
    servers.ask("mit", crowd(MEMBERS[0]))
    servers.run(20.0)
    began = time.process_time()
    for number in range(changes):
        servers.now = 30.0 + number
        servers.ask("mit", join(number + 100) if number % 2 == 0 else leave(number + 99))
        servers.run(30.5 + number)
    took_s = time.process_time() - began
    assert len(servers.commits) >= 3 * changes
    return changes / took_s


# The lab


async def measured(turns: int) -> tuple[dict[str, tuple[float, float]], float]:
    """Medians with real processes; and the seconds from the death of a server to a view without it."""
    from benchmarks.wan_views_live import on_the_lab

    return await on_the_lab(turns)


# The report


def report(console: Console, live: tuple[dict[str, tuple[float, float]], float] | None) -> None:
    views = Table(title="From a join to the view, ms: first server / last server")
    for column in ("coordinator", "arithmetic", "simulated", "lab, median"):
        views.add_column(column)
    for site, expected in EXPECTED_MS.items():
        first, last = simulated(site)
        lab = "" if live is None else "{:.0f} / {:.0f}".format(*live[0][site])
        views.add_row(site, f"{expected[0]} / {expected[1]}", f"{first:.1f} / {last:.1f}", lab)
    console.print(views)

    deaths = Table(title="After the coordinator's death, ms after its links are down")
    for column in ("dead", "recovery", "last survivor has the change", "one-way trips", "and the removal"):
        deaths.add_column(column)
    for dead in ("huji", "mit"):
        for committed in (False, True):
            each = recovery(dead, committed=committed)
            row = (f"{each.last_ms:.1f}", f"{each.trips:.1f}", f"{each.removed_ms:.1f}")
            deaths.add_row(each.dead, each.how, *row)
    console.print(deaths)
    if live is not None:
        console.print(
            f"lab: a view without mit {live[1]:.1f} s after kill -9 of its server, detection included"
        )

    messages = Table(title="Messages of a change among n servers, s of them left; for 10 and 1,000 members")
    for column in ("change", "n", "messages", "the paper's", "", "kinds"):
        messages.add_column(column)
    for count in (3, 5, 9):
        few, many = costs(count, MEMBERS[0]), costs(count, MEMBERS[1])
        for one, other in zip(few, many, strict=True):
            same = (
                f"{one.messages}" if one.messages == other.messages else f"{one.messages}, {other.messages}"
            )
            messages.add_row(one.change, str(count), same, str(one.expected), one.formula, one.kinds)
    console.print(messages)

    rates = Table(title="Changes per second of a core-set of three")
    for column in ("where", "changes/s"):
        rates.add_column(column)
    rates.add_row("three sites, all asked at mit", f"{per_second(('mit',)):.2f}")
    rates.add_row("three sites, all asked at huji", f"{per_second(('huji',)):.2f}")
    rates.add_row("three sites, asked at all of them", f"{per_second(SITES):.2f}")
    rates.add_row("the same, with 64 lanes", f"{per_second(SITES, lanes=64):.2f}")
    rates.add_row("one process, no network (processor time)", f"{per_second_of_a_core():,.0f}")
    console.print(rates)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wan_views", description=__doc__)
    parser.add_argument("--simulated", action="store_true", help="leave out the lab")
    parser.add_argument("--turns", type=int, default=10, help="joins per coordinator on the lab")
    options = parser.parse_args()
    console = Console(width=150, record=True)
    live = None
    if not options.simulated and os.geteuid() == 0:
        live = asyncio.run(measured(options.turns))
    elif not options.simulated:
        console.print("not root: without the lab")
    report(console, live)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(f"# Agreed views between three far sites\n\n```\n{console.export_text()}```\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
