"""Two builds in turn: is the new one slower than the old one, beyond what two runs of one build differ by?

    python -m benchmarks.turns OLD [--turns 10] [--only W1]        OLD: a commit, tag or branch

The old build is checked out into a scratch directory. Each turn runs each workload once on each build, as
real processes, the old one first in every other turn. For every figure it prints both medians, the change,
and the spread: half of the distance between the quartiles, of the build that varies more.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks import workloads
from benchmarks.crew import run
from benchmarks.figures import Measures
from benchmarks.peers.rostra import Deployment, RostraService
from benchmarks.workloads import Measure, Size

ROOT: Final = Path(__file__).parent.parent
SIZE: Final = Size(ask_s=1.5, paced=200, by_role=True)
WORK: Final[dict[str, Measure]] = {
    "W1": workloads.join_until_all_know,
    "W2": workloads.who_is_there,
    "W4": workloads.one_to_eight,
}


async def once(workload: str) -> Measures:
    """One run, with whatever build this process imports."""
    async with RostraService(Deployment.APART) as service:
        return await WORK[workload](service, SIZE)


def one_turn(sources: Path, workload: str) -> dict[str, float]:
    """The same in a process of its own, with the build in these sources. The benchmarks are ours for both."""
    environment = {**os.environ, "PYTHONPATH": f"{sources}:{ROOT}"}
    command = [sys.executable, "-m", "benchmarks.turns", "--once", workload]
    printed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout
    measures: dict[str, float] = msgspec.json.decode(printed)
    return measures


def show(workload: str, old: Sequence[dict[str, float]], new: Sequence[dict[str, float]]) -> Table:
    table = Table(title=f"{workload}, {len(new)} turns", title_justify="left", title_style="bold")
    for column in ("", "old", "new", "change", "spread"):
        table.add_column(column, justify="left" if not column else "right")
    for name in [each for each in new[0] if each in old[0]]:  # an older build may measure less
        before, after = ([turn[name] for turn in turns] for turns in (old, new))
        middle = median(before) or float("nan")
        table.add_row(
            name,
            f"{middle:,.3g}" if middle < 1000 else f"{middle:,.0f}",
            f"{median(after):,.3g}" if median(after) < 1000 else f"{median(after):,.0f}",
            f"{100 * (median(after) / middle - 1):+.1f} %",
            f"{100 * max(_half_quartiles(before), _half_quartiles(after)) / middle:.1f} %",
        )
    return table


def _half_quartiles(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    lower, _, upper = quantiles(values, n=4)
    return (upper - lower) / 2


def compare(old: str, names: Sequence[str], turns: int) -> None:
    remarks, answers = Console(stderr=True), Console(width=None if sys.stdout.isatty() else 100)
    with tempfile.TemporaryDirectory() as scratch:
        checkout = Path(scratch) / "old"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(checkout), old], check=True)
        try:
            builds = {"old": checkout / "src", "new": ROOT / "src"}
            for workload in names:
                figures: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
                for turn in range(turns):
                    remarks.print(f"[dim]{workload}: turn {turn + 1} of {turns}[/dim]")
                    for build in sorted(builds, reverse=turn % 2 == 0):
                        figures[build].append(one_turn(builds[build], workload))
                answers.print(show(workload, figures["old"], figures["new"]))
        finally:
            subprocess.run([*git, "remove", "--force", str(checkout)], check=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description=__doc__)
    parser.add_argument("old", nargs="?", help="the commit to compare with")
    parser.add_argument("--turns", type=int, default=10, help="runs of each build (default 10)")
    parser.add_argument("--only", action="append", choices=list(WORK), help="this workload (may be repeated)")
    parser.add_argument("--once", choices=list(WORK), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.once:
        sys.stdout.buffer.write(msgspec.json.encode(run(once(options.once))))
        return 0
    if options.old is None or options.turns < 1:
        parser.error("name the commit to compare with, and at least one turn")
    compare(options.old, options.only or list(WORK), options.turns)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
