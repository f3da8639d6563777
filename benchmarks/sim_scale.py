"""How large a world fits into the simulator: a thousand, ten thousand, a hundred thousand endpoints.

    python -m benchmarks.sim_scale [--up-to 100000]

The largest is 100,000 endpoints on 1,000 hosts in 100 clusters, 4 levels deep. Each world starts, all
endpoints join groups of about a hundred members (most local, some regional, a few world-wide; everybody is
online), it settles, loses a region, and merges again. After every step the view of every single endpoint is
compared with what it must be. Each size runs in a process of its own, so that its memory is its own.

Growth is told in processor time: a clock would also tell how busy the machine was. The two larger worlds
both have 10 hosts in a cluster and can be compared. The smallest has 5, so that what a group is told goes to
half as many hosts, and costs less than a tenth of the next.
"""

import argparse
import gc
import multiprocessing
import resource
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from rostra.names import Domain, Endpoint, Group, enclosing, inside, parent
from rostra.sim import LAN, SimProgram, World, even

SHAPES = {1_000: (2, 1, 1, 5), 10_000: (2, 5, 1, 10), 100_000: (4, 5, 5, 10)}
PER_HOST = 100
GROUP_SIZE = 100
JOINING_S = 30.0


class Phase(Struct, frozen=True):
    what: str
    wall_s: float
    cpu_s: float
    virtual_s: float
    events: int


class Outcome(Struct, frozen=True):
    endpoints: int
    hosts: int
    clusters: int
    links: int
    groups: int
    memory_mb: float
    phases: tuple[Phase, ...]

    @property
    def wall_s(self) -> float:
        return sum(phase.wall_s for phase in self.phases)

    @property
    def cpu_s(self) -> float:
        return sum(phase.cpu_s for phase in self.phases)

    @property
    def events(self) -> int:
        return sum(phase.events for phase in self.phases)


class WrongView(AssertionError):
    """A simulated endpoint sees something else than it must."""


def scope_for(cluster: Domain, nth: int) -> Domain:
    """Nine of ten endpoints join a group of their cluster, most others of their region, a few the world's."""
    around = enclosing(cluster)
    return around[0] if nth % 100 < 90 else around[-2] if nth % 100 < 99 else around[-1]


def build(endpoints: int) -> tuple[World, dict[Group, list[SimProgram]]]:
    world = World(seed=1, tree=even(SHAPES[endpoints]), links=LAN, history=False, stagger=True)
    world.run(5.0)
    joined: dict[Domain, int] = defaultdict(int)
    groups: dict[Group, list[SimProgram]] = defaultdict(list)
    for nth in range(PER_HOST):
        for host in world.tree.hosts:
            scope = scope_for(parent(host), nth)
            group = Group(f"team-{joined[scope] // GROUP_SIZE}", scope)
            joined[scope] += 1
            program = world.program(host, f"p{nth}")
            program.join(group)
            groups[group].append(program)
        world.run(JOINING_S / PER_HOST)
    return world, groups


def check(world: World, groups: dict[Group, list[SimProgram]], lost: Domain | None = None) -> None:
    """Every endpoint sees exactly those of its group that are on its side of the cut."""
    for group, programs in groups.items():
        sides: dict[bool, tuple[Endpoint, ...]] = {}
        for side in (True, False):
            here = (p.address for p in programs if (lost is not None and inside(lost, p.host)) is side)
            sides[side] = tuple(sorted(here))
        for program in programs:
            expected = sides[lost is not None and inside(lost, program.host)]
            if program.members(group) != expected:
                raise WrongView(
                    f"{program} sees {len(program.members(group))} of {len(expected)} members of {group}"
                )


def run(endpoints: int) -> Outcome:
    phases: list[Phase] = []
    began, used, virtual, events = time.perf_counter(), time.process_time(), 0.0, 0

    def done(what: str) -> None:
        nonlocal began, used, virtual, events
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - used
        phases.append(Phase(what, wall_s, cpu_s, world.now - virtual, world.events - events))
        began, used, virtual, events = time.perf_counter(), time.process_time(), world.now, world.events

    world, groups = build(endpoints)
    done("start and join")
    world.settle()
    check(world, groups)
    done("settle")
    region = next(domain for domain in world.tree.domains if parent(domain) == "world" and domain != "world")
    world.cut(region).settle()
    check(world, groups, lost=region)
    done("lose a region")
    world.heal().settle()
    check(world, groups)
    done("merge")
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Outcome(
        endpoints=sum(len(programs) for programs in groups.values()),
        hosts=len(world.tree.hosts),
        clusters=len(world.tree.clusters),
        links=len(world.tree.links()),
        groups=len(groups),
        memory_mb=peak_mb,
        phases=tuple(phases),
    )


def show(outcomes: list[Outcome], console: Console) -> None:
    table = Table(title="the simulator, by size of the world", title_justify="left", title_style="bold")
    for column in ("endpoints", "hosts", "clusters", "links", "groups"):
        table.add_column(column, justify="right")
    for phase in outcomes[0].phases:
        table.add_column(f"{phase.what} s", justify="right")
    for column in (
        "all s",
        "of processor",
        "events",
        "events/s",
        "memory MB",
        "growth of processor time",
        "of events",
        "of memory",
    ):
        table.add_column(column, justify="right")
    before: Outcome | None = None
    for outcome in outcomes:
        size = outcome.endpoints / before.endpoints if before else 0
        table.add_row(
            f"{outcome.endpoints:,}",
            f"{outcome.hosts:,}",
            f"{outcome.clusters:,}",
            f"{outcome.links:,}",
            f"{outcome.groups:,}",
            *(f"{phase.wall_s:.1f}" for phase in outcome.phases),
            f"{outcome.wall_s:.1f}",
            f"{outcome.cpu_s:.1f}",
            f"{outcome.events:,}",
            f"{outcome.events / outcome.cpu_s:,.0f}",
            f"{outcome.memory_mb:,.0f}",
            f"{outcome.cpu_s / before.cpu_s:.1f} for {size:.0f}x" if before else "",
            f"{outcome.events / before.events:.1f}" if before else "",
            f"{outcome.memory_mb / before.memory_mb:.1f}" if before else "",
        )
        before = outcome
    console.print(table)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sim_scale", description="See the module.")
    parser.add_argument("--up-to", type=int, default=100_000, help="the largest number of endpoints")
    options = parser.parse_args(arguments)
    remarks, answers = Console(stderr=True), Console(width=None if sys.stdout.isatty() else 200)
    outcomes = []
    alone = multiprocessing.get_context("spawn")
    for endpoints in SHAPES:
        if endpoints <= options.up_to:
            remarks.print(f"[dim]{endpoints:,} endpoints[/dim]")
            # What the simulator makes is freed by counting references, to the last megabyte. Looking for
            # cycles took a sixth of the time in the largest world, a twentieth in one of a tenth its size.
            with ProcessPoolExecutor(max_workers=1, mp_context=alone, initializer=gc.disable) as process:
                outcomes.append(process.submit(run, endpoints).result())
    show(outcomes, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
