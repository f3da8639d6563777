"""`rostra history ingest`: growing journals become tables."""

import signal
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from rostra.cli.common import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, remark
from rostra.cli.history.common import JournalDir, Master, TablesDir
from rostra.cli.output import Format, OutputFormat, say, show_json, show_table
from rostra.errors import BadInput

if TYPE_CHECKING:
    from rostra.history.ingest import BatchDone
    from rostra.history.tables import Tables


def ingest(
    journal: JournalDir = None,
    tables: TablesDir = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    once: Annotated[bool, typer.Option("--once", help="All that is there now; the default.")] = False,
    status: Annotated[
        bool,
        typer.Option("--status", help="Read nothing: say what was read, what waits, what was set aside."),
    ] = False,
    world: Annotated[
        str | None, typer.Option("--world", metavar="NAME", help="Set aside rows of other worlds.")
    ] = None,
    hole_after: Annotated[
        float,
        typer.Option(
            "--hole-after",
            metavar="SECONDS",
            min=0,
            help="Wait so long, by the rows' own clocks, for missing rows.",
        ),
    ] = 600.0,
    files: Annotated[
        int, typer.Option("--files", metavar="N", min=1, help="At most so many segments in a batch.")
    ] = 5000,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.1, help="With --follow: look so often.")
    ] = 5.0,
    compact_every: Annotated[
        int,
        typer.Option("--compact-every", metavar="N", min=0, help="Merge so many batches into one; 0: never."),
    ] = 10,
    master: Master = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Turn growing journals into tables: events, and what follows from them (stays, notices, traffic ...).

    Every row is in them once, whatever was killed, came late, came twice or out of order. Rows behind a
    missing segment wait for it. Files that cannot be used are set aside with a reason, and looked at again
    when they change. Call it again at any time: it goes on where it stopped.

    Examples:

        rostra history ingest -j /var/lib/rostra/journal -t /srv/tables
        rostra history ingest -j '/srv/*/journal' -t /srv/tables --follow
        rostra history ingest -t /srv/tables --status
    """
    if tables is None:
        raise BadInput("no tables were named", fix="where shall they be?  --tables DIR")
    if status:
        return show_status(_tables(tables), output)
    if journal is None:
        raise BadInput("no journal was named", fix="what shall be read?  --journal DIR")
    if once and follow:
        raise BadInput("once or for ever, not both", fix="leave out one of --once and --follow")
    from rostra.history import session

    _tables(tables).place.check_commits()
    session.check_spark()
    session.check_java()
    from rostra.history.progress import progress, waiting

    with waiting("starting Spark"):
        spark = session.start(
            master or session.HERE,
            app="rostra history ingest",
            settings={"spark.driver.extraJavaOptions": session.with_classes()},
        )
    from rostra.history.ingest import Ingest

    stop = threading.Event()
    work = Ingest(
        spark,
        journal,
        tables,
        world=world,
        files_per_batch=files,
        hole_after_s=hole_after,
        compact_every=compact_every,
        tell=IngestProgress(output),
        stop=stop,
    )
    # What a batch had begun is written anew by the next call: nothing is half done.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with session.lent(spark):
        if follow:
            remark(f"following {journal}; Ctrl-C ends it, and the next call goes on from there")
            work.follow(every_s=every)
        else:
            with progress(spark, "reading"):
                work.once()
    if stop.is_set() and not follow:
        return EXIT_INTERRUPTED
    return EXIT_OK if follow else show_status(_tables(tables), output)


def _tables(where: str) -> "Tables":
    from rostra.history.tables import Tables

    return Tables(where)


class IngestProgress:
    """A line for every batch: on stderr for people, as documents on stdout for programs."""

    def __init__(self, output: OutputFormat) -> None:
        self._output = output

    def __call__(self, done: "BatchDone") -> None:
        commit = done.commit
        events = commit.rows.get("events", 0)
        if self._output is OutputFormat.JSONL:
            show_json(
                {
                    "batch": commit.batch,
                    "took_s": round(done.took_s, 3),
                    "rows": commit.rows,
                    "files": commit.files,
                },
                self._output,
            )
            return
        told = [f"batch {commit.batch}: {events:,} rows of {commit.files} segments in {done.took_s:.1f} s"]
        if commit.held:
            told.append(f"{len(commit.held)} runs wait behind holes")
        if done.given_up:
            told.append(f"{done.given_up} holes given up or filled late")
        told += [f"set aside {each.file}: {each.why}" for each in done.set_aside]
        say("\n  ".join(told), err=True)


def show_status(tables: "Tables", output: OutputFormat) -> int:
    """From the tables' own books; no Spark is needed to read them."""
    commits, aside = tables.commits(), tables.set_aside()
    rows = tables.counts(commits)
    newest = commits[-1] if commits else None
    document = {
        "tables": str(tables.place),
        "batches": newest.batch + 1 if newest else 0,
        "rows": dict(sorted(rows.items())),
        "segments": sum(commit.files for commit in commits),
        "runs_held": len(newest.held) if newest else 0,
        "runs_late": newest.late if newest else 0,
        "set_aside": [{"file": each.file, "why": each.why, "bytes": each.size} for each in aside],
    }
    if output is not OutputFormat.TABLE:
        show_json(document, output)
    elif newest is None:
        remark(f"nothing was ingested into {tables.place} yet")
    else:
        show_table(
            ("table", "rows"),
            [
                ("stays that last" if table == "open" else table, f"{many:,}")
                for table, many in sorted(rows.items())
            ],
        )
        remark(
            f"{document['batches']} batches, {document['segments']} segments, "
            f"{document['runs_held']} runs wait behind holes, {len(aside)} files set aside"
        )
        if newest.late:
            remark(f"{newest.late} runs came too late for stays; with them:  rostra history rebuild stays")
        for each in aside:
            remark(f"  {each.file}\n    {each.why}")
    return EXIT_OK if newest else EXIT_FAILED
