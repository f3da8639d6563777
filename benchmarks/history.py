"""How long do questions about a month take, and what do they need? Spark beside DuckDB, on the same files.

    python -m benchmarks.history --events 1000000 --events 10000000 --events 100000000

For each size: a sample month is made up, ingested, and then everything is asked of the journals on a warm
session (with `--tables`, of the `events` table that ingest made). An answer is reduced to its **digest**
(counts and sums over all of its rows), so that both engines work it out in full and neither waits for Python;
where DuckDB was asked too, the two digests must be equal, or the benchmark fails. Audits, and questions for
which we wrote no second version, have no DuckDB column.

What both answer is asked `--calls` times, and the best call counts: the first one of Spark also makes machine
code. The first call of each is kept in the results.

Processor time is that of the Java machine and of the Python that it started, or of this process for DuckDB.
Memory is the peak of resident memory meanwhile: Java's, and the sum of its Pythons'. Both engines have two
threads (or all cores, if they are fewer) and the same bound for their memory. On a machine that others use as
well, the ratio of processor times says more than that of seconds.

Every figure is written to the results as soon as it is known; Ctrl-C ends the benchmark and shows what there
is.
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

from benchmarks import history_commands
from benchmarks.sample import BEGAN_US, sample
from rostra.history import session
from rostra.history.progress import progress, waiting
from rostra.journal.segments import Place

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


THREADS: Final = min(2, os.cpu_count() or 1)


class Figure(Struct, frozen=True):
    """What one question cost on one engine, the best of some calls."""

    events: int
    question: str
    engine: str
    took_s: float
    cpu_s: float
    peak_mb: float
    python_mb: float = 0.0  # of Spark's Python, together
    load: float = 0.0  # how many processes wanted the machine then
    first_s: float = 0.0  # the first call
    first_cpu_s: float = 0.0
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
        "who": (lambda e: q.who(e, GROUP, MIDDLE), "count(1), sum(seen_by), max(followed_by)"),
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
                   count(*) filter (kind in ('without', 'only') and news) as lost,
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
    def __init__(self, spark: "SparkSession", console: Console, kept: Path, calls: int) -> None:
        self.spark, self.console, self.kept, self.calls = spark, console, kept, calls
        self.figures: list[Figure] = []
        self.waited: list[history_commands.Waited] = []

    def run(self, events: int, journal: Path | None, where: Path, options: argparse.Namespace) -> None:
        from rostra.history.archive import Archive

        tables = where / "tables"
        if journal is None:
            journal = where / "journal"
            with waiting(f"making up {events:,} rows") as line, self.watched(events, "sample", "numpy"):
                sample(
                    journal,
                    events=events,
                    days=DAYS,
                    talk=options.talk,
                    tell=lambda n, of: line.say(f"{n} of {of} writers"),
                )
        rows = sum(pq.read_metadata(path).num_rows for path in journal.glob("date=*/*.parquet"))
        if not options.no_ingest:
            from rostra.history.ingest import Ingest

            with progress(self.spark, f"{rows:,} rows: ingest"), self.watched(rows, "ingest", "Spark"):
                Ingest(self.spark, str(journal), str(tables)).once()
            if options.segment_rows:
                self.small_segments(rows, journal, where, options.segment_rows)
        if options.commands:
            self.commands(rows, {"tables": tables, "journal": journal})
            return
        if options.tables:
            archive, files = Archive(self.spark, tables=str(tables)), tables / "events" / "*" / "*.parquet"
        else:
            archive, files = Archive(self.spark, journal=str(journal)), journal / "date=*" / "*.parquet"
        for name, (ask, digest) in questions().items():
            if options.only and name not in options.only:
                continue
            if name in DUCK:
                self.repeated(partial(self.duck, rows, name, files, where))
                self.repeated(partial(self.ask, rows, name, partial(_reduced, ask, archive.events, digest)))
                self.compare(name)
            else:
                self.ask(rows, name, partial(_reduced, ask, archive.events, digest))
        self.audits(rows, archive.events, options.only)

    def commands(self, rows: int, where: dict[str, Path]) -> None:
        """As a person waits for them: they have a Spark of their own, so ours is idle meanwhile."""
        for line in history_commands.waited(rows, where, GROUP, MIDDLE, _cpu_s):
            self.waited.append(line)
            self.keep()
            said = f"{line.rows:>11,} {line.question:22} {line.call:6} {line.took_s:7.2f} s"
            said += f" {line.cpu_s:7.2f} cpu"
            self.console.print(f"[dim]{said}  load {line.load:.0f}[/dim]", highlight=False, soft_wrap=True)

    def small_segments(self, rows: int, journal: Path, where: Path, segment_rows: int) -> None:
        """The same rows in segments of so many, after the same once more in large ones: Java is warm."""
        from rostra.history.ingest import Ingest
        from rostra.history.source import FORMAT, register

        register(self.spark)
        small = where / "small"
        with waiting(f"cutting {rows:,} rows into segments of {segment_rows}"):
            cut(journal, small, segment_rows)
        for named, each in (("large", journal), ("small", small)):
            with self.watched(rows, f"ingest, {named}", "Spark"):
                Ingest(self.spark, str(each), str(where / f"tables of {named}")).once()
            with self.watched(rows, f"format, {named}", "Spark") as digest:
                read = self.spark.read.format(FORMAT).load(str(each))
                [row] = read.selectExpr("count(1)", "sum(seq)", "count(member)").collect()
                digest += [int(value) for value in row]
        if self.figures[-1].digest != self.figures[-3].digest:
            raise SystemExit(f"large segments say {self.figures[-3].digest}, small {self.figures[-1].digest}")

    def repeated(self, call: Callable[[], None]) -> None:
        """Some calls become one figure: the one that needed least, and the first."""
        before = len(self.figures)
        for _ in range(self.calls):
            call()
        made = self.figures[before:]
        best = min(made, key=lambda figure: figure.cpu_s)
        first = made[0]
        self.figures[before:] = [msgspec.structs.replace(best, first_s=first.took_s, first_cpu_s=first.cpu_s)]
        self.keep()

    def ask(self, rows: int, name: str, question: Callable[[], "DataFrame"]) -> None:
        with progress(self.spark, f"{rows:,} rows: {name}"), self.watched(rows, name, "Spark") as digest:
            [row] = question().collect()
            digest += [int(value or 0) for value in row]

    def audits(self, rows: int, events: "DataFrame", only: list[str]) -> None:
        from rostra.history.audits import PROMISES, Evidence, verdicts

        evidence = Evidence(events)
        for promise in PROMISES:
            if only and promise not in only and "audits" not in only:
                continue
            name = f"audit {promise}"
            with progress(self.spark, f"{rows:,} rows: {name}"), self.watched(rows, name, "Spark") as judged:
                [row] = verdicts(evidence, promise).collect()
                judged += [row["judged"], row["broken"]]
        evidence.release()

    def duck(self, rows: int, name: str, files: Path, where: Path) -> None:
        import duckdb

        with waiting(f"{rows:,} rows: {name}, DuckDB"), self.watched(rows, name, "DuckDB") as digest:
            with duckdb.connect() as duck:
                duck.execute(f"set threads = {THREADS}")
                duck.execute(f"set memory_limit = '{session.memory_mb()}MB'")
                duck.execute(f"set temp_directory = '{where / 'duckdb'}'")
                duck.execute("set timezone = 'UTC'")
                duck.execute(f"create view events as select * from read_parquet('{files}')")
                duck.execute(f"set variable moment = timestamptz '{MIDDLE.isoformat()}'")
                try:
                    row = duck.execute(DUCK[name]).fetchone()
                except RuntimeError as error:  # what it makes of Ctrl-C
                    if "interrupted" in str(error):
                        raise KeyboardInterrupt from None
                    raise
            assert row is not None
            digest += [int(value or 0) for value in row]

    def compare(self, name: str) -> None:
        theirs, ours = self.figures[-2], self.figures[-1]
        if theirs.digest != ours.digest:
            raise SystemExit(f"{name}: Spark says {ours.digest}, DuckDB {theirs.digest}")

    @contextlib.contextmanager
    def watched(self, rows: int, question: str, engine: str) -> Iterator[list[int]]:
        """Time and the peak of resident memory. What is put into the list is the digest."""
        said: list[int] = []
        is_spark = engine == "Spark"
        process = self.jvm if is_spark else os.getpid()
        used = partial(_cpu_s, process) if is_spark else time.process_time
        for each in (process, *(_below(process) if is_spark else ())):
            with contextlib.suppress(OSError):
                Path(f"/proc/{each}/clear_refs").write_text("5")
        load = os.getloadavg()[0]
        began, cpu = time.perf_counter(), used()
        yield said
        took, cpu = time.perf_counter() - began, used() - cpu
        below = sum(_peak_mb(each) for each in _below(process)) if is_spark else 0.0
        figure = Figure(rows, question, engine, took, cpu, _peak_mb(process), below, load, digest=said)
        self.figures.append(figure)
        self.keep()
        self.console.print(
            f"[dim]{rows:>11,} {question:22} {engine:6} {took:7.2f} s {cpu:7.2f} cpu "
            f"{figure.peak_mb:6,.0f} + {below:5,.0f} MB  load {load:.0f}[/dim]",
            highlight=False,
            soft_wrap=True,
        )

    def keep(self) -> None:
        about = {"cores": os.cpu_count(), "threads": THREADS, "memory MB": session.memory_mb()}
        self.kept.parent.mkdir(exist_ok=True)
        found = {"machine": about, "figures": self.figures, "commands": self.waited}
        self.kept.write_bytes(msgspec.json.format(msgspec.json.encode(found)))

    @property
    def jvm(self) -> int:
        return int(self.spark.sparkContext._gateway.proc.pid)  # type: ignore[union-attr]


def cut(journal: Path, into: Path, segment_rows: int) -> None:
    """The same rows in smaller segments."""
    place = Place(into)
    for path in sorted(journal.glob("date=*/*.parquet")):
        file = pq.ParquetFile(path)
        said = {name: value for name, value in file.metadata.metadata.items() if name.startswith(b"rostra.")}
        rows = file.read()
        for at in range(0, rows.num_rows, segment_rows):
            part = rows.slice(at, segment_rows)
            numbers = {b"rostra.first": part["seq"][0], b"rostra.last": part["seq"][-1]}
            said |= {name: str(number).encode() for name, number in numbers.items()}
            place.write(part.replace_schema_metadata(said))


def show(console: Console, figures: list[Figure]) -> None:
    table = Table(title="questions about a month", title_justify="left", title_style="bold")
    for column in (
        *("question", "rows", "Spark s", "cpu s", "DuckDB s", "cpu s", "ratio", "cpu ratio", "rows/s"),
        *("Java MB", "Python MB", "DuckDB MB", "cpu growth"),
    ):
        table.add_column(column, justify="left" if column == "question" else "right")
    before: dict[str, Figure] = {}
    beside = {(each.events, each.question): each for each in figures if each.engine == "DuckDB"}
    missed = []
    for figure in figures:
        if figure.engine == "DuckDB":
            continue
        other = beside.get((figure.events, figure.question))
        last = before.get(figure.question)
        before[figure.question] = figure
        times = figure.cpu_s / max(other.cpu_s, 0.01) if other else 0.0
        grown = figure.cpu_s / max(last.cpu_s, 0.01) if last else 0.0
        table.add_row(
            figure.question,
            f"{figure.events:,}",
            f"{figure.took_s:.1f}",
            f"{figure.cpu_s:.1f}",
            f"{other.took_s:.1f}" if other else "",
            f"{other.cpu_s:.1f}" if other else "",
            f"{figure.took_s / other.took_s:.1f}x" if other else "",
            f"{times:.1f}x" if other else "",
            f"{figure.events / figure.took_s:,.0f}",
            f"{figure.peak_mb:,.0f}",
            f"{figure.python_mb:,.0f}",
            f"{other.peak_mb:,.0f}" if other else "",
            f"{grown:.1f}x for {figure.events / last.events:.1f}x" if last else "",
        )
        if other and figure.question in HEAVY and times > BAR:
            missed.append(f"{figure.question}, {figure.events:,} rows: {times:.1f}x DuckDB's processor time")
    console.print(table)
    for each in missed:
        console.print(f"[red]{each}, and not within {BAR:g}x[/red]", highlight=False)


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
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return 0.0


def _cpu_s(process: int) -> float:
    """Of a process, and of all that it started, and of what of that is gone."""
    return sum(_ticks(each) for each in (process, *_below(process))) / os.sysconf("SC_CLK_TCK")


def _ticks(process: int) -> int:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15])
    return 0


def _below(process: int) -> list[int]:
    """Its children, theirs, and so on."""
    found: list[int] = []
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in tasks.read_text().split():
                found += [int(child), *_below(int(child))]
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.history",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--events", type=int, action="append", help="rows of the month (may be repeated)")
    parser.add_argument("--talk", type=float, default=0.0, help="the share of them that groups say")
    parser.add_argument("--only", action="append", default=[], help="this question, this promise, or: audits")
    parser.add_argument("--calls", type=int, default=2, help="of each question that both answer (default: 2)")
    parser.add_argument(
        "--at", type=Path, help="where there is room for it (default: the temporary directory)"
    )
    parser.add_argument(
        "--journal",
        type=Path,
        action="append",
        default=[],
        help="a sample of 30 days that is there already (may be repeated)",
    )
    parser.add_argument("--no-ingest", action="store_true", help="only the questions")
    parser.add_argument(
        "--segment-rows", type=int, default=0, help="ingest and read it in segments of so many rows, too"
    )
    parser.add_argument("--tables", action="store_true", help="ask the tables that ingest made")
    parser.add_argument(
        "--commands", action="store_true", help="whole commands, cold and warm, against the bars"
    )
    options = parser.parse_args(arguments)
    if (options.tables or options.commands) and options.no_ingest:
        parser.error("--tables and --commands ask what ingest makes: leave out --no-ingest")
    remarks, answers = Console(stderr=True), Console(width=None if sys.stdout.isatty() else 180)
    kept = RESULTS / f"history-{datetime.datetime.now():%Y%m%d-%H%M%S}.json"
    with waiting("starting Spark"):
        spark = session.start(f"local[{THREADS}]", app="benchmarks")
    bench = Bench(spark, remarks, kept, max(1, options.calls))
    interrupted = False
    try:
        given: list[tuple[int, Path | None]] = [(0, journal) for journal in options.journal]
        made: list[tuple[int, Path | None]] = [(events, None) for events in options.events or ()]
        for events, journal in [*given, *made] or [(1_000_000, None)]:
            where = Path(tempfile.mkdtemp(prefix="rostra-bench-", dir=options.at))
            try:
                bench.run(events, journal, where, options)
            finally:
                shutil.rmtree(where, ignore_errors=True)
    except KeyboardInterrupt:
        interrupted = True
        session.interrupt(spark)
    finally:
        session.end(spark)
        if bench.waited:
            history_commands.show(answers, bench.waited)
        if bench.figures:
            show(answers, bench.figures)
            answers.print(f"all figures: {kept}", highlight=False)
    return 130 if interrupted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
