"""How long do questions about a month take, and what do they need? Spark beside DuckDB, on the same files.

    python -m benchmarks.history --events 1000000 --events 10000000

For each size: a sample month is made up, ingested, and then everything is asked of the `events` table, once
each, on a warm session. An answer is reduced to its **digest** (counts and sums over all of its rows), so
that both engines work it out in full and neither waits for Python; where DuckDB was asked too, the two
digests must be equal, or the benchmark fails. Audits, and questions for which we wrote no second version,
have no DuckDB column.

Memory is the peak of resident memory while the question ran, and processor time what was used meanwhile: of
the Java machine, or of this process for DuckDB. Both use all cores. On a machine that others use as well, the
ratio of processor times says more than that of seconds.
"""

import argparse
import contextlib
import datetime
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow.parquet as pq
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from rostra.history import session
from rostra.history.sample import BEGAN_US, sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESULTS: Final = Path("benchmarks/results")
GROUP: Final = "orders@world"
HEAVY: Final = ("stays", "churn", "order")
BAR: Final = 2.0
"""So many times DuckDB's time a heavy question may take."""

PRIME: Final = 1_000_003  # sums of times stay small

DAYS: Final = 30
MIDDLE: Final = datetime.datetime.fromtimestamp(BEGAN_US / 1e6 + DAYS * 43_200, datetime.UTC)


class Figure(Struct, frozen=True):
    """What one question cost on one engine."""

    events: int
    question: str
    engine: str
    took_s: float
    peak_mb: float
    cpu_s: float = 0.0
    digest: list[int] = []


Ask = Callable[["DataFrame"], "DataFrame"]


def questions() -> dict[str, tuple[Ask, str]]:
    """Each question, with the digest of its answer as columns of sums."""
    from rostra.history import questions as q
    from rostra.history.audits.per_source_order import told_in_order

    at = f"pmod(unix_micros({{}}), {PRIME})"
    joined, left = at.format("joined_at"), at.format("left_at")
    return {
        "lives": (q.lives, "count(1), sum(rows), sum(last_seq), count(ended_by)"),
        "stays": (
            q.stays,
            f"count(1), count(left_at), sum({joined}), sum({left}), count_if(ended_by = 'only')",
        ),
        "churn": (
            q.churn,
            f"count(1), sum(joins), sum(leaves), sum(crashes), sum(lost), sum(back), sum({at.format('at')})",
        ),
        "order": (told_in_order, "count(1), count_if(broken)"),
        "who": (lambda e: q.who(e, GROUP, MIDDLE), "count(1), sum(seen_by), max(of)"),
        "size": (lambda e: q.size(q.memberships(e)), f"count(1), sum(members), sum({at.format('at')})"),
        "known": (q.known, "count(1), sum(observers), sum(cast(round(last_s * 1e6) as bigint))"),
        "spread": (lambda e: q.spread(q.memberships(e), MIDDLE), "count(1), sum(members)"),
        "convergence": (q.convergence, "count(1), sum(changes)"),
        "disagreement": (
            lambda e: q.disagreement(e.where(f"group = '{GROUP}' or group is null"), "eu", "us"),
            "count(1), sum(only_here)",
        ),
        "availability": (q.availability, "count(1), sum(times)"),
        "flaps": (q.flaps, "count(1), sum(times)"),
        "traffic": (q.traffic, "count(1), sum(messages)"),
        "why": (lambda e: q.why(e, "eu.rome", MIDDLE), "count(1)"),
    }


LIVES: Final = """
    lives as (
        select *, case when closed then 'closing'
                       when lead(epoch) over (partition by world, writer order by epoch) is null
                        and max(last_at) over (partition by world) - last_at <= interval 60 seconds then null
                       else 'unknown' end as ended_by
        from (select world, writer, epoch, max("at") as last_at, max(seq) as last_seq, count(*) as "rows",
                     bool_or(kind = 'closing') as closed
              from events group by all))
"""
SPELLS: Final = """
    spells as (
        select *, lead("at") over w as next_at, lead(seq) over w as next_seq,
                  lead(is_join) over w as next_is_join, lead(ended_by) over w as next_by
        from (select world, writer, epoch, "group", member, life, stamp, seq, "at", {is_join} as is_join,
                     case when not ({is_join}) then cause end as ended_by
              from events where {where})
        window w as (partition by world, writer, epoch, "group", member order by seq)),
    stays as (
        select world, "group", writer, member, life, stamp, "at" as joined_at,
               coalesce(next_at, case when lives.ended_by is not null then last_at end) as left_at,
               case when next_is_join then 'joined again'
                    when next_seq is not null then coalesce(next_by, 'left')
                    else lives.ended_by end as ended_by
        from spells
        left join (select world, writer, epoch, last_at, ended_by from lives) lives
             using (world, writer, epoch)
        where is_join)
"""
SIGHT: Final = SPELLS.format(
    is_join="change = 'joined'",
    where="""kind in ('absolute', 'joined', 'left', 'without', 'only', 'unfollowed') and news
             and change in ('joined', 'left') and member is not null""",
)
HOME: Final = SPELLS.format(
    is_join="kind = 'member-joined'", where="kind in ('member-joined', 'member-left')"
)

DUCK: Final = {
    "lives": f"""with {LIVES} select count(*), sum("rows"), sum(last_seq), count(ended_by) from lives""",
    "stays": f"""
        with {LIVES}, {SIGHT}
        select count(*), count(left_at), sum(epoch_us(joined_at) % {PRIME}), sum(epoch_us(left_at) % {PRIME}),
               count(*) filter (ended_by = 'only') from stays""",
    "churn": f"""
        with churn as (
            select world, "group", epoch_us("at") // 60000000 * 60000000 as minute,
                   count(*) filter (kind = 'member-joined') as joins,
                   count(*) filter (kind = 'member-left' and coalesce(cause <> 'crash', true)) as leaves,
                   count(*) filter (kind = 'member-left' and cause = 'crash') as crashes,
                   count(*) filter (kind in ('without', 'only') and news and member is not null) as lost,
                   count(*) filter (kind = 'joined' and cause = 'merge' and news) as back
            from events
            where "group" is not null and (kind in ('member-joined', 'member-left', 'without', 'only')
                                           or (kind = 'joined' and cause = 'merge'))
            group by all)
        select count(*), sum(joins), sum(leaves), sum(crashes), sum(lost), sum(back), sum(minute % {PRIME})
        from churn where joins + leaves + crashes + lost + back > 0""",
    "order": """
        with told as (
            select life, stamp, lag(life) over w as life_before, lag(stamp) over w as stamp_before
            from (select * from events
                  where stamp is not null and ((kind in ('absolute', 'joined') and change = 'joined')
                                               or kind = 'left'))
            window w as (partition by world, writer, epoch, "group", member order by seq))
        select count(*), count(*) filter (life < life_before or (life = life_before and stamp < stamp_before))
        from told where stamp_before is not null""",
    "who": f"""
        with {LIVES},
        asked as (
            select world, writer, epoch from (
                select world, writer, epoch, sum(case kind when 'followed' then told else -told end) as now
                from events where "group" = '{GROUP}' and kind in ('followed', 'unfollowed') and nth = 0
                                  and "at" <= getvariable('moment') group by all)
            join lives using (world, writer, epoch)
            where now > 0 and (ended_by is null or last_at > getvariable('moment'))),
        seen as (
            select world, writer, epoch, member, arg_max(change, seq) as last from events
            where kind in ('absolute', 'joined', 'left', 'without', 'only', 'unfollowed') and news
              and change in ('joined', 'left') and member is not null and "group" = '{GROUP}'
              and "at" <= getvariable('moment')
            group by all),
        who as (
            select member, count(*) as seen_by from seen semi join asked using (world, writer, epoch)
            where last = 'joined' group by all)
        select count(*), sum(seen_by), (select count(*) from asked) from who""",
    "size": f"""
        with {LIVES}, {HOME},
        steps as (
            select world, "group", "at", sum(step) as step from (
                select world, "group", joined_at as "at", 1 as step from stays
                union all select world, "group", left_at, -1 from stays where left_at is not null)
            group by all),
        sizes as (
            select "at", step, sum(step) over (partition by world, "group" order by "at") as members
            from steps)
        select count(*), sum(members), sum(epoch_us("at") % {PRIME}) from sizes where step <> 0""",
    "known": """
        with home as (
            select world, "group", member, life, stamp, "at",
                   split_part(member, '/', 1) as host from events
            where kind in ('member-joined', 'member-left') and stamp is not null),
        told as (
            select world, "group", member, life, stamp, writer, "at" as told_at from events
            where kind in ('joined', 'left') and news and cause in ('join', 'leave', 'crash')
              and stamp is not null),
        away as (
            select world, "group", member, life, stamp, "at", told_at,
                   case when writer = host then 'host'
                        when regexp_replace(writer, '\\.[^.]*$', '') = regexp_replace(host, '\\.[^.]*$', '')
                        then 'cluster'
                        when split_part(writer, '.', 1) = split_part(host, '.', 1) then 'region'
                        else 'world' end as distance
            from told join home using (world, "group", member, life, stamp)),
        known as (
            select count(*) as observers, max(told_at) as last, min("at") as "at" from away
            group by world, "group", member, life, stamp, distance
            union all
            select count(*), max(told_at), min("at") from away group by world, "group", member, life, stamp)
        select count(*), sum(observers), sum(epoch_us(last) - epoch_us("at")) from known""",
}
"""The same questions once more, each as one statement. By the keys themselves: DuckDB's hash of several
columns gave 2,006 of 3,187,784 different keys a hash that another one had.
`events` is a view on the table's files."""


class Bench:
    def __init__(self, spark: "SparkSession", console: Console) -> None:
        self.spark, self.console = spark, console
        self.figures: list[Figure] = []

    def run(self, events: int, where: Path, only: list[str], straight: bool, given: Path | None) -> None:
        journal, tables = given or where / "journal", where / "tables"
        if given is None:
            with self.watched(events, "sample", "numpy", os.getpid()):
                sample(journal, events=events, days=DAYS)
        rows = sum(pq.read_metadata(path).num_rows for path in journal.glob("date=*/*.parquet"))
        if straight:
            from rostra.history.journals import read_journal

            there, directories = read_journal(self.spark, str(journal)), sorted(journal.glob("date=*"))
        else:
            from rostra.history.ingest import Ingest
            from rostra.history.tables import Tables

            with self.watched(rows, "ingest", "Spark", self.jvm):
                Ingest(self.spark, str(journal), str(tables)).once()
            table = Tables(tables)
            there = table.read(self.spark, "events")
            directories = [Path(uri.removeprefix("file://")) for uri in table.directories("events")]
        there.agg({"seq": "max"}).collect()  # warm, and the files are in the page cache for both
        for name, (ask, digest) in questions().items():
            if only and name not in only:
                continue
            if name in DUCK:
                self.duck(rows, name, directories)
            self.ask(rows, name, partial(_reduced, ask, there, digest))
            if name in DUCK:
                self.compare(name)
        self.audits(rows, there, only)

    def ask(self, rows: int, name: str, question: Callable[[], "DataFrame"]) -> None:
        with self.watched(rows, name, "Spark", self.jvm) as digest:
            [row] = question().collect()
            digest += [int(value or 0) for value in row]

    def audits(self, rows: int, events: "DataFrame", only: list[str]) -> None:
        from rostra.history.audits import PROMISES, Evidence, verdicts

        evidence = Evidence(events)
        for promise in PROMISES:
            if only and promise not in only and "audits" not in only:
                continue
            with self.watched(rows, f"audit {promise}", "Spark", self.jvm) as judged:
                [row] = verdicts(evidence, promise).collect()
                judged += [row["judged"], row["broken"]]
        evidence.release()

    def duck(self, rows: int, name: str, directories: list[Path]) -> None:
        import duckdb

        files = [str(path / "*.parquet") for path in directories]
        with self.watched(rows, name, "DuckDB", os.getpid()) as digest:
            with duckdb.connect() as duck:
                duck.execute(f"set threads = {os.cpu_count()}")
                duck.execute("set timezone = 'UTC'")
                duck.execute(f"create view events as select * from read_parquet({files})")
                duck.execute(f"set variable moment = timestamptz '{MIDDLE.isoformat()}'")
                row = duck.execute(DUCK[name]).fetchone()
            assert row is not None
            digest += [int(value or 0) for value in row]

    def compare(self, name: str) -> None:
        theirs, ours = self.figures[-2], self.figures[-1]
        if theirs.digest != ours.digest:
            raise SystemExit(f"{name}: Spark says {ours.digest}, DuckDB {theirs.digest}")

    @contextlib.contextmanager
    def watched(self, rows: int, question: str, engine: str, process: int) -> Iterator[list[int]]:
        """Time and the peak of resident memory. What is put into the list is the digest."""
        said: list[int] = []
        with contextlib.suppress(OSError):
            Path(f"/proc/{process}/clear_refs").write_text("5")
        began, cpu = time.perf_counter(), _cpu_s(process)
        yield said
        took, cpu = time.perf_counter() - began, _cpu_s(process) - cpu
        peak = _peak_mb(process)
        self.figures.append(Figure(rows, question, engine, took, peak, cpu, said))
        self.console.print(
            f"[dim]{rows:>11,} {question:22} {engine:6} {took:7.2f} s {cpu:7.2f} cpu {peak:6,.0f} MB[/dim]",
            highlight=False,
            soft_wrap=True,
        )

    @property
    def jvm(self) -> int:
        return int(self.spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]


def show(console: Console, figures: list[Figure]) -> None:
    table = Table(title="questions about a month", title_justify="left", title_style="bold")
    for column in (
        "question",
        "rows",
        "Spark s",
        "DuckDB s",
        "ratio",
        "cpu ratio",
        "rows/s",
        "Java MB",
        "DuckDB MB",
        "growth",
    ):
        table.add_column(column, justify="left" if column == "question" else "right")
    before: dict[str, Figure] = {}
    ours = [figure for figure in figures if figure.engine != "DuckDB"]
    for figure in ours:
        other = next(
            (
                each
                for each in figures
                if (each.events, each.question, each.engine) == (figure.events, figure.question, "DuckDB")
            ),
            None,
        )
        ratio = f"{figure.took_s / other.took_s:.1f}x" if other else ""
        last = before.get(figure.question)
        growth = f"{figure.took_s / last.took_s:.1f}x for {figure.events / last.events:.0f}x" if last else ""
        before[figure.question] = figure
        table.add_row(
            figure.question,
            f"{figure.events:,}",
            f"{figure.took_s:.2f}",
            f"{other.took_s:.2f}" if other else "",
            ratio,
            f"{figure.cpu_s / max(other.cpu_s, 0.01):.1f}x" if other else "",
            f"{figure.events / figure.took_s:,.0f}",
            f"{figure.peak_mb:,.0f}",
            f"{other.peak_mb:,.0f}" if other else "",
            growth,
        )
        if other and figure.question in HEAVY and figure.took_s > BAR * other.took_s:
            console.print(
                f"[red]{figure.question}, {figure.events:,} rows: {ratio} DuckDB's time, "
                f"and not within {BAR:g}x[/red]"
            )
    console.print(table)


def _reduced(ask: Ask, events: "DataFrame", digest: str) -> "DataFrame":
    return ask(events).selectExpr(*_columns(digest))


def _columns(digest: str) -> list[str]:
    """The digest's sums; commas inside brackets are not between two of them."""
    found, depth, word = [], 0, ""
    for letter in digest:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            found.append(word)
            word = ""
        else:
            word += letter
    return [*found, word]


def _peak_mb(process: int) -> float:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def _cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__.split("\n")[0])
    parser.add_argument("--events", type=int, action="append", help="rows of the month (may be repeated)")
    parser.add_argument("--only", action="append", default=[], help="this question, or: audits")
    parser.add_argument(
        "--at", type=Path, help="where there is room for it (default: the temporary directory)"
    )
    parser.add_argument("--journal", type=Path, help="this sample of 30 days, in the place of a new one")
    parser.add_argument("--straight", action="store_true", help="ask the journals themselves: no ingest")
    options = parser.parse_args(arguments)
    remarks, answers = Console(stderr=True), Console(width=None if sys.stdout.isatty() else 150)
    about = {"cores": os.cpu_count(), "load before": os.getloadavg()[0], "heap MB": session.memory_mb()}
    spark = session.start(app="benchmarks")
    bench = Bench(spark, remarks)
    try:
        for events in options.events or [1_000_000]:
            where = Path(tempfile.mkdtemp(prefix="rostra-bench-", dir=options.at))
            try:
                bench.run(events, where, options.only, options.straight, options.journal)
            finally:
                shutil.rmtree(where, ignore_errors=True)
    finally:
        session.end(spark)
    show(answers, bench.figures)
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / f"history-{datetime.datetime.now():%Y%m%d-%H%M%S}.json"
    kept.write_bytes(msgspec.json.format(msgspec.json.encode({"machine": about, "figures": bench.figures})))
    answers.print(f"all figures: {kept}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
