"""Run the workloads on every peer, interleaved, and show the medians of the repeats beside each other."""

import argparse
import datetime
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from rich.console import Console

from benchmarks import locks, order_load, workloads
from benchmarks.crew import run
from benchmarks.figures import Bar, Measures, Row, middle, show, show_bars
from benchmarks.one_order import far_order, one_order
from benchmarks.peers.bare import BareService
from benchmarks.peers.base import Service
from benchmarks.peers.echo import EchoService
from benchmarks.peers.rostra import Deployment, RostraService
from benchmarks.workloads import Measure, Size

RESULTS: Final = Path(__file__).parent / "results"

Make = Callable[[], Service]


def echo() -> Service:
    return EchoService()


def redis(*, shared: bool = False, ttl_ms: int = 10_000) -> Service:
    from benchmarks.peers.redis import RedisService

    return RedisService(shared=shared, ttl_ms=ttl_ms)


def redis_streams() -> Service:
    from benchmarks.peers.redis_streams import RedisStreamService

    return RedisStreamService()


def zeromq() -> Service:
    from benchmarks.peers.zeromq import ZeroMqService

    return ZeroMqService()


def ours(deployment: Deployment, **options: Any) -> Make:
    return lambda: RostraService(deployment, **options)


COMPARED_MS: Final = {"corosync": (1.34, 1.97), "zookeeper": (28.1, 1.97)}
"""W1, p50 of a join: theirs, and that of Redis, best of 3 and 4 runs on another day; own connections."""

FAST: Final[Make] = partial(redis, ttl_ms=300)
REDIS: Final[list[Make]] = [redis, partial(redis, shared=True)]
OURS: Final = [ours(deployment) for deployment in Deployment]
LAN: Final = {"profile": "lan", "note": "lan"}


OWN: Final = "own connections"
AGREED: Final = "agreed"


def agreed(deployment: Deployment, **options: Any) -> Make:
    from benchmarks.peers.rostra_agreed import AgreedService

    return lambda: AgreedService(deployment, **options)


def led(deployment: Deployment, **options: Any) -> Make:
    from benchmarks.peers.rostra_led import LedService

    return lambda: LedService(deployment, **options)


def ordered(deployment: Deployment, **options: Any) -> Make:
    from benchmarks.peers.rostra_ordered import OrderedService

    return lambda: OrderedService(deployment, **options)


def two_hosts() -> Service:
    from benchmarks.peers.rostra_lab import TWO_HOSTS, OrderedLabService

    return OrderedLabService("two hosts, rostra", TWO_HOSTS, ("lab.h1", "lab.h2"))


def three_sites() -> Service:
    from benchmarks.peers.rostra_lab import OrderedLabService, three_sites

    hosts = ("mit.h1", "huji.h1", "ntu.h1")
    return OrderedLabService("three sites, rostra", three_sites(), hosts, root="mit")


def loaded() -> Service:
    from benchmarks.peers.rostra_loaded import LoadedService

    return LoadedService()


def loaded_sites(*hosts: str) -> Make:
    from benchmarks.peers.rostra_loaded import LoadedLabService

    return lambda: LoadedLabService(*hosts)


VIEWED: Final[list[Make]] = [
    make
    for deployment in (Deployment.TOGETHER, Deployment.APART)
    for make in (
        ours(deployment, separate=True, note=OWN),
        agreed(deployment, separate=True, note=f"{OWN}, {AGREED}"),
        ours(deployment),
        agreed(deployment, note=AGREED),
    )
]
"""Relaxed and agreed in turn: each watcher with a connection of its own, then those of a process with one."""


STRENGTHS: Final[list[Make]] = [
    ours(Deployment.APART),
    led(Deployment.APART, note="led"),
    agreed(Deployment.APART, note=AGREED),
]


class Planned(NamedTuple):
    title: str
    work: Sequence[tuple[Make, Measure]]


PLAN: Final = {
    "W1": Planned(
        "50 watching members in 5 processes: until the last of them knows of a join",
        [(peer, workloads.join_until_all_know) for peer in (echo, *REDIS, *OURS)],
    ),
    "W2": Planned(
        "who is in a group of 100?",
        [(peer, workloads.who_is_there) for peer in (echo, redis, *OURS)]
        + [(ours(Deployment.APART), workloads.own_copy)],
    ),
    "W3": Planned(
        "a member's program is killed, falls silent, or stops for a moment: when do the other 20 know?",
        [
            (echo, workloads.killed_until_all_know),
            (FAST, workloads.killed_until_all_know),
            (FAST, workloads.silent_until_all_know),
            (FAST, workloads.program_stopped),
            (redis, workloads.few_killed),
            (redis, workloads.program_stopped),
            (ours(Deployment.APART), workloads.killed_until_all_know),
            (ours(Deployment.TWO_AGENTS), workloads.killed_until_all_know),
            (ours(Deployment.TWO_AGENTS), workloads.program_stopped),
            (ours(Deployment.TWO_AGENTS), workloads.host_stopped),
            (ours(Deployment.TWO_AGENTS), workloads.silent_until_all_know),
            (ours(Deployment.TWO_AGENTS, **LAN), workloads.killed_until_all_know),
            (ours(Deployment.TWO_AGENTS, **LAN), workloads.silent_until_all_know),
            (ours(Deployment.TWO_AGENTS, **LAN), workloads.program_stopped),
        ],
    ),
    "W4": Planned(
        "one sender, 8 receiving processes, 200,000 messages; then 4 and 4",
        [
            (peer, work)
            for work in (workloads.one_to_eight, workloads.four_to_four)
            for peer in (BareService, zeromq, ours(Deployment.TOGETHER), ours(Deployment.APART))
        ],
    ),
    "W5": Planned(
        "4 members send at once, 200,000 messages in one order at each of them; per second at each",
        [
            (peer, one_order)
            for peer in (
                BareService,
                redis_streams,
                ordered(Deployment.TOGETHER),
                ordered(Deployment.APART),
                two_hosts,
            )
        ]
        + [(three_sites, far_order)],
    ),
    "W6": Planned(
        "joins and leaves per second while the last of 100 watchers knows within 250 ms (p99)",
        [(peer, workloads.storm) for peer in (echo, *REDIS, *OURS)],
    ),
    "W7": Planned(
        "server memory per idle watching member",
        [
            (peer, workloads.memory_per_member)
            for peer in (
                *REDIS,
                ours(Deployment.APART),
                ours(Deployment.APART, separate=True, note="one connection per member"),
            )
        ],
    ),
    "W8": Planned(
        "W1 with agreed views beside relaxed membership: until the last of 50 has the view with a joiner",
        [(peer, workloads.join_until_all_know) for peer in (*REDIS, *VIEWED)],
    ),
    "W10": Planned(
        "relaxed, led and agreed membership: W1, W2 and W7 in one run (docs/strengths.md)",
        [
            (peer, work)
            for work in (workloads.join_until_all_know, workloads.who_is_there, workloads.memory_per_member)
            for peer in STRENGTHS
        ],
    ),
    "W11": Planned(
        "10 pairs: intervals between deliveries with and without a join, four members sending at full load",
        [(loaded, order_load.joins_under_load)],
    ),
    "W12": Planned(
        "the orderer's agent is killed under load: until the others are given the next message",
        [
            (loaded, order_load.orderer_killed),
            (loaded_sites("mit.h1", "huji.h1", "ntu.h1"), order_load.far_orderer_killed),
            (loaded_sites("huji.h1", "mit.h1", "ntu.h1"), order_load.far_orderer_killed),
        ],
    ),
    "W13": Planned(
        "a member gets a large state under load, its donor is killed half way: intervals at the senders",
        [(loaded, order_load.donor_killed)],
    ),
    "W9": Planned(
        "locks taken and given back per second; and until the next leads when a leader is killed",
        [(peer, locks.locks_per_second) for peer in (redis, *OURS[1:3])]
        + [(peer, locks.failover) for peer in (FAST, *OURS[1:])],
    ),
}

JOURNALS: Final = [
    ours(Deployment.APART),
    ours(Deployment.APART, journal=True, note="journal"),
    ours(Deployment.APART, journal=True, record=True, note="journal, recorded"),
]

JOURNALLED: Final = {
    workload: Planned(PLAN[workload].title, [(peer, work) for peer in JOURNALS])
    for workload, work in (
        ("W1", workloads.join_until_all_know),
        ("W2", workloads.who_is_there),
        ("W6", workloads.storm),
    )
}
"""What a journal costs: the same deployment without one, with one, and with every input recorded."""

BARS: Final = (
    Bar("W1", "join seen by the last of 50: p50 3x faster than Redis's", "p50 ms", 1 / 3, "redis"),
    Bar("W1", "its p99 not worse than Redis's p50", "p99 ms", 1, "redis", "p50 ms"),
    Bar("W2", "resolve, 1 at a time: 2x Redis", "1: per s", 2, "redis", less_is_better=False),
    Bar("W2", "resolve, 16 at a time: 10x Redis", "16: per s", 10, "redis", less_is_better=False),
    Bar("W2", "own copy: a million reads per second", "own copy: per s", 1e6, less_is_better=False),
    Bar("W3", "kill -9: the last of 20 told in about 10 ms", "p50 ms", 10),
    Bar("W3", "silent host removed within 1.5 s", "silent: max ms", 1500, only="lan"),
    Bar("W4", "100 B: 2x ZeroMQ", "100 B: per s", 2, "zeromq", less_is_better=False),
    Bar("W4", "1 KiB: 3x ZeroMQ", "1 KiB: per s", 3, "zeromq", less_is_better=False),
    Bar("W4", "100 B: half of a bare hub", "100 B: per s", 0.5, "bare, batched", less_is_better=False),
    Bar("W4", "1 KiB: half of a bare hub", "1 KiB: per s", 0.5, "bare, batched", less_is_better=False),
    Bar("W5", "100 B: 5x Redis streams", "100 B: per s", 5, "redis, streams", less_is_better=False),
    Bar("W5", "1 KiB: 5x Redis streams", "1 KiB: per s", 5, "redis, streams", less_is_better=False),
    Bar("W5", "100 B: half of a bare hub", "100 B: per s", 0.5, "bare, batched", less_is_better=False),
    Bar("W5", "1 KiB: half of a bare hub", "1 KiB: per s", 0.5, "bare, batched", less_is_better=False),
    Bar("W5", "100/s: 1.5x the bare hub's p50", "100/s: p50 ms", 1.5, "bare, batched"),
    Bar("W11", "p99.9 of intervals: within 5 ms with a join", "p99.9: median of differences ms", 5),
    Bar("W12", "orderer in the middle: flush of the design", "flush max ms", 575, only="orderer at mit"),
    Bar("W12", "orderer at the edge: flush of the design", "flush max ms", 1170, only="orderer at huji"),
    Bar("W6", "joins and leaves per second: 2x Redis", "per s", 2, "redis", less_is_better=False),
    *[
        Bar(
            "W8",
            f"agreed join: 2x relaxed{note and f', {note}'}",
            "p50 ms",
            2,
            relaxed,
            only=f"{relaxed}, {AGREED}",
        )
        for deployment in (Deployment.TOGETHER, Deployment.APART)
        for note in (OWN, "")
        for relaxed in [deployment.value + (note and f", {note}")]
    ],
    Bar("W7", "under 5 KB of the agent's memory per member", "agent 0: KB", 5),
)


async def measure(
    plan: Mapping[str, Planned], names: list[str], size: Size, repeats: int, console: Console
) -> list[Row]:
    """Repeat by repeat, and within a repeat peer by peer, so that a busy minute spares nobody."""
    rows: list[Row] = []
    missing: set[str] = set()
    for repeat in range(1, repeats + 1):
        for workload in names:
            for make, work in plan[workload].work:
                service = make()
                if lacks := service.missing():
                    missing.add(f"NOT MEASURED: {service.label}. {lacks}")
                    continue
                console.print(f"[dim]{repeat}/{repeats} {workload} {service.label}: {work.__name__}[/dim]")
                async with service:
                    rows.append(Row(workload, service.label, repeat, await work(service, size)))
    for what in sorted(missing):
        console.print(f"[bold red]{what}[/bold red]")
    return rows


def show_ratios(console: Console, peers: dict[str, Measures]) -> None:
    """Agreed joins beside Redis of this run; and what others were beside Redis in the comparison of peers."""
    for label, measures in peers.items():
        redis = peers.get("redis" if OWN in label else "redis, one connection per process", {})
        if AGREED in label and redis:
            ratio = float(measures["p50 ms"]) / float(redis["p50 ms"])
            console.print(f"W8 {label}: {ratio:.2f}x Redis's p50 in the same arrangement", highlight=False)
    for peer, (theirs, redis_ms) in COMPARED_MS.items():
        console.print(f"   {peer} in the comparison of peers: {theirs / redis_ms:.2f}x", highlight=False)


def machine() -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load before": f"{os.getloadavg()[0]:.2f}",
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything, one repeat")
    parser.add_argument("--only", action="append", choices=list(PLAN), help="this workload (may be repeated)")
    parser.add_argument(
        "--journal", action="store_true", help="W1, W2 and W6 with and without a journal, beside nobody else"
    )
    parser.add_argument("--repeats", type=int, help="how often (default 3, quick 1)")
    options = parser.parse_args(arguments)

    remarks, answers = Console(stderr=True), Console(width=None if sys.stdout.isatty() else 180)
    size = Size.quick() if options.quick else Size()
    about = machine()
    plan, against = (JOURNALLED, Deployment.APART.value) if options.journal else (PLAN, "redis")
    names = [name for name in options.only or plan if name in plan]
    repeats = options.repeats or (1 if options.quick else 3)
    rows = run(measure(plan, names, size, repeats, remarks))

    results = middle(rows)
    for workload, peers in results.items():
        show(answers, workload, plan[workload].title, peers, against=against)
    if not options.journal:
        show_bars(answers, BARS, results)
    if "W8" in results:
        show_ratios(answers, results["W8"])
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"{datetime.datetime.now():%Y%m%d-%H%M%S}.json"
    document = {"machine": about, "size": size, "rows": rows}
    kept.write_bytes(msgspec.json.format(msgspec.json.encode(document)))
    answers.print(f"all figures: {kept}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
