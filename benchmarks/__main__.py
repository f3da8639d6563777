"""Run the workloads on every peer, interleaved, and show the medians of the repeats beside each other."""

import argparse
import datetime
import os
import platform
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from benchmarks import workloads
from benchmarks.crew import run
from benchmarks.figures import Bar, Measures, Row, judge, middle, show
from benchmarks.peers.base import Missing, Service
from benchmarks.peers.echo import EchoService
from benchmarks.workloads import Size

RESULTS: Final = Path(__file__).parent / "results"

Measure = Callable[[Service, Size], Awaitable[Measures]]


def redis(*, shared: bool = False, ttl_ms: int = 10_000) -> Service:
    from benchmarks.peers.redis import RedisService

    return RedisService(shared=shared, ttl_ms=ttl_ms)


PLAN: Final[dict[str, tuple[str, list[tuple[Callable[[], Service], Measure]]]]] = {
    "W1": (
        "50 watching members in 5 processes: until the last of them knows of a join",
        [
            (EchoService, workloads.join_until_all_know),
            (redis, workloads.join_until_all_know),
            (lambda: redis(shared=True), workloads.join_until_all_know),
        ],
    ),
    "W2": (
        "who is in a group of 100?",
        [
            (EchoService, workloads.who_is_there),
            (redis, workloads.who_is_there),
        ],
    ),
    "W3": (
        "a member's program is killed, falls silent, or stops for a moment: when do the other 20 know?",
        [
            (EchoService, workloads.killed_until_all_know),
            (lambda: redis(ttl_ms=300), workloads.killed_until_all_know),
            (lambda: redis(ttl_ms=300), workloads.silent_until_all_know),
            (lambda: redis(ttl_ms=300), workloads.stopped_and_continued),
            (redis, workloads.killed_until_all_know),
            (redis, workloads.stopped_and_continued),
        ],
    ),
    "W6": (
        "joins and leaves per second while the last of 100 watchers knows within 250 ms (p99)",
        [
            (EchoService, workloads.storm),
            (redis, workloads.storm),
            (lambda: redis(shared=True), workloads.storm),
        ],
    ),
    "W7": (
        "server memory per idle watching member",
        [
            (redis, workloads.memory_per_member),
            (lambda: redis(shared=True), workloads.memory_per_member),
        ],
    ),
}

BARS: Final[tuple[Bar, ...]] = ()


async def measure(names: list[str], size: Size, repeats: int, console: Console) -> list[Row]:
    """Repeat by repeat, and within a repeat peer by peer, so that a busy minute spares nobody."""
    rows: list[Row] = []
    missing: set[str] = set()
    for repeat in range(1, repeats + 1):
        for workload in names:
            for make, work in PLAN[workload][1]:
                service = make()
                console.print(f"[dim]{repeat}/{repeats} {workload} {service.label}: {work.__name__}[/dim]")
                try:
                    async with service:
                        rows.append(Row(workload, service.label, repeat, await work(service, size)))
                except Missing as lacks:
                    missing.add(f"NOT MEASURED: {service.label}. {lacks}")
    for what in sorted(missing):
        console.print(f"[bold red]{what}[/bold red]")
    return rows


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
    parser.add_argument("--repeats", type=int, help="how often (default 3, quick 1)")
    options = parser.parse_args(arguments)

    remarks, answers = Console(stderr=True), Console(width=None if sys.stdout.isatty() else 180)
    size = Size.quick() if options.quick else Size()
    about = machine()
    rows = run(
        measure(options.only or list(PLAN), size, options.repeats or (1 if options.quick else 3), remarks)
    )

    results = middle(rows)
    for workload, peers in results.items():
        show(answers, workload, PLAN[workload][0], peers, against="redis")
    for bar in BARS:
        if verdict := judge(bar, results):
            answers.print(verdict)
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"{datetime.datetime.now():%Y%m%d-%H%M%S}.json"
    document = {"machine": about, "size": size, "rows": rows}
    kept.write_bytes(msgspec.json.format(msgspec.json.encode(document)))
    answers.print(f"all figures: {kept}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
