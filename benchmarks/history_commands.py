"""How long does a person wait? Whole commands of `rostra history`, beside DuckDB on the same tables.

**Cold** is a first question without a keeper, the page cache as it is. **Warm** is the third call against a
running keeper and those after it, the median of five. The audit and the report run once, warm. Processor time
is that of the keeper, of all below it and of the command. DuckDB is asked in a process that is there.
"""

import contextlib
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.sample import sample

WARM_CALLS: Final = 5
BEFORE: Final = 2
"""Calls that warm it."""

SMALL: Final = 2_000_000
"""Histories of so many rows have the bars of a million."""

REPORT_ROWS: Final = 10_000
JOURNAL_TIMES: Final = 3.0
"""A journal that was not ingested may take so many times as long."""


class Waited(Struct, frozen=True):
    """One line of the table."""

    rows: int
    question: str
    call: str  # cold | warm | once
    took_s: float
    cpu_s: float
    bar_s: float | None
    duck_s: float | None
    load: float


def questions(group: str, at: datetime.datetime) -> dict[str, tuple[str, ...]]:
    then = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "who": ("who", group, "--at", then),
        "stays": ("stays", "-g", group),
        "size": ("size", "-g", group, "--every", "3600"),
        "spread": ("spread", "-g", group, "--at", then),
        "why": ("why", "eu.rome", "--at", then),
    }


DUCK: Final = {
    "who": """select member, min(joined_at), count(distinct seen_by) from stays
              where "group" = $name and joined_at <= $at and (left_at is null or left_at > $at)
              group by member""",
    "stays": """select * from stays where "group" = $name
                order by world, member, joined_at, seen_by limit 1001""",
    "size": """select "at", sum(step) over (order by "at") from (
                 select epoch_us("at") // 3600000000 as "at",
                        sum(case kind when 'member-joined' then 1 else -1 end) as step
                 from members where "group" = $name group by 1)""",
    "spread": """select split_part(member, '.', 1), count(*) from (
                   select member, arg_max(kind, "at") as kind from members
                   where "group" = $name and "at" <= $at group by member)
                 where kind = 'member-joined' group by 1""",
}


def bars(rows: int) -> dict[tuple[str, str], float]:
    """In seconds, for a history of so many rows."""
    warm = 1.5 if rows <= SMALL else 3.0
    found = {(name, call): bar for name in (*DUCK, "why") for call, bar in (("cold", 15.0), ("warm", warm))}
    return found | {("audit", "once"): 20.0 if rows <= SMALL else 150.0, ("report", "once"): 15.0}


class Commands:
    """Runs them, with a home of their own."""

    def __init__(self, home: Path, cpu_s: Callable[[int], float]) -> None:
        self.home, self._cpu_s = home, cpu_s
        self._environment = {**os.environ, "ROSTRA_HISTORY_HOME": str(home), "NO_COLOR": "1"}

    def run(self, *words: str) -> tuple[float, float]:
        """Seconds, and those of processors."""
        before, began = self._used(), time.perf_counter()
        subprocess.run(
            (sys.executable, "-m", "rostra", "history", *words),
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        return time.perf_counter() - began, self._used() - before

    def stop(self) -> None:
        """Until it is gone, and has written its classes down."""
        keeper = self._keeper()
        self.run("stop")
        while keeper is not None and Path(f"/proc/{keeper}").exists():
            time.sleep(0.1)

    def _used(self) -> float:
        keeper, times = self._keeper(), os.times()
        below = 0.0 if keeper is None else self._cpu_s(keeper)
        return below + times.children_user + times.children_system

    def _keeper(self) -> int | None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            return int(json.loads((self.home / "keeper.json").read_bytes())["pid"])
        return None


def waited(
    rows: int,
    where: Mapping[str, Path],
    group: str,
    at: datetime.datetime,
    cpu_s: Callable[[int], float],
) -> Iterator[Waited]:
    """Of the tables and of the journal, whichever are given."""
    allowed = bars(rows)
    with tempfile.TemporaryDirectory(prefix="rostra-bench-home-") as home:
        commands = Commands(Path(home), cpu_s)
        try:
            commands.run(
                "spread", "--tables", str(where["tables"])
            )  # the first one of all also makes classes
            for of, place in where.items():
                times = 1.0 if of == "tables" else JOURNAL_TIMES
                duck = _ducked(place, group, at) if of == "tables" else {}
                for name, words in questions(group, at).items():
                    source = (f"--{of}", str(place))
                    commands.stop()
                    took, cpu = commands.run(*words, *source)
                    yield _line(rows, name, of, "cold", took, cpu, allowed, times, duck)
                    for _ in range(BEFORE - 1):
                        commands.run(*words, *source)
                    calls = [commands.run(*words, *source) for _ in range(WARM_CALLS)]
                    took, cpu = (statistics.median(each) for each in zip(*calls, strict=True))
                    yield _line(rows, name, of, "warm", took, cpu, allowed, times, duck)
                took, cpu = commands.run("audit", f"--{of}", str(place))
                yield _line(rows, "audit", of, "once", took, cpu, allowed, times, {})
            small = Path(home) / "small"
            sample(small, events=REPORT_ROWS, days=1)
            took, cpu = commands.run("report", "-O", str(Path(home) / "r.html"), "--journal", str(small))
            yield _line(REPORT_ROWS, "report", "journal", "once", took, cpu, allowed, 1.0, {})
        finally:
            commands.stop()


def _line(
    rows: int,
    name: str,
    of: str,
    call: str,
    took: float,
    cpu: float,
    allowed: Mapping[tuple[str, str], float],
    times: float,
    duck: Mapping[str, float],
) -> Waited:
    bar = allowed.get((name, call))
    label = name if of == "tables" else f"{name} of the journal"
    duck_s = duck.get(name) if call == "warm" else None
    return Waited(
        rows, label, call, took, cpu, None if bar is None else bar * times, duck_s, os.getloadavg()[0]
    )


def _ducked(tables: Path, group: str, at: datetime.datetime) -> dict[str, float]:
    import duckdb

    took = {}
    with duckdb.connect() as duck:
        duck.execute("set timezone = 'UTC'")
        for view, folders in (("stays", ("stays", "open")), ("members", ("members",))):
            files = [str(file) for folder in folders for file in (tables / folder).glob("*/*.parquet")]
            duck.execute(f"create view {view} as select * from read_parquet({files})")
        for name, asked in DUCK.items():
            began = time.perf_counter()
            given = {name: value for name, value in (("name", group), ("at", at)) if f"${name}" in asked}
            duck.execute(asked, given).fetchall()
            took[name] = time.perf_counter() - began
    return took


def show(console: Console, lines: Sequence[Waited]) -> None:
    table = Table(title="whole commands", title_justify="left", title_style="bold")
    for column in ("command", "call", "rows", "s", "bar", "cpu s", "DuckDB s", "load"):
        table.add_column(column, justify="left" if column in ("command", "call") else "right")
    for line in lines:
        is_missed = line.bar_s is not None and line.took_s > line.bar_s
        table.add_row(
            line.question,
            line.call,
            f"{line.rows:,}",
            f"{line.took_s:.2f}",
            "" if line.bar_s is None else f"{line.bar_s:g}{' missed' * is_missed}",
            f"{line.cpu_s:.2f}",
            "" if line.duck_s is None else f"{line.duck_s:.2f}",
            f"{line.load:.1f}",
        )
    console.print(table)
