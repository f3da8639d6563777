"""`rostra sweep`: thousands of simulations, to compare settings by their effect."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rostra.cli.common import EXIT_FAILED, EXIT_OK, command, remark
from rostra.cli.history.common import Master
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, OutputFormat, show_json, show_table


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="On one machine")(command(sweep))


def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to run: docs/sweeps.md.")],
    into: Annotated[
        Path | None,
        typer.Option(
            "--into", metavar="DIR", help="Results are kept there.", show_default="beside FILE, in NAME.sweep"
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", "-O", metavar="FILE", help="A page to look at.", show_default="in DIR"),
    ] = None,
    journals: Annotated[
        bool,
        typer.Option(
            "--journals/--no-journals", help="Keep every run's journal, and make tables of them, to be asked."
        ),
    ] = True,
    serial: Annotated[
        bool, typer.Option("--serial", help="One after the other, without Spark; tables can be made later.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run.")] = False,
    master: Master = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Run thousands of simulations as Spark tasks, and name the settings to choose for each topology.

    Each run crashes a host and measures how soon all observers knew, and how often a live node was suspected
    before that. Call it again at any time: only what failed, or was not run yet, is run. Exit code 1 if runs
    failed.

    Each run is a world, and its journal is kept: rostra history asks all of them, with --tables DIR/tables.

    Examples:

        rostra sweep examples/sweeps/profiles.toml --into /tmp/profiles
        rostra history audit -p why -t /tmp/profiles/tables
        rostra sweep profiles.toml --dry-run
        rostra sweep profiles.toml --master spark://host:7077
    """
    from rostra.history import session
    from rostra.history.progress import waiting
    from rostra.history.sweeps.job import Results, here, ingest, on_spark
    from rostra.history.sweeps.job import sweep as run
    from rostra.history.sweeps.plan import read_plan
    from rostra.history.sweeps.report import choices, page, points
    from rostra.history.sweeps.run import JOURNALS

    plan = read_plan(file)
    directory = into or file.with_name(f"{plan.name}.sweep")
    results = Results(directory)
    wanted = {each.id for each in plan.runs}
    missing = wanted - results.done()
    remark(f"{len(wanted):,} runs, {len(wanted) - len(missing):,} of them known already")
    if dry_run:
        return EXIT_OK
    kept = directory if journals else None
    if missing and serial:
        with _bar() as tell:
            run(plan.runs, results, lambda some: here(some, kept), parcel=8, tell=tell)
        if journals:
            remark(f"to ask them:  rostra history ingest -j {directory / JOURNALS} -t {results.tables}")
    elif missing:
        with waiting("starting Spark"):
            started = session.start(master or session.HERE, app="rostra sweep")
        with session.lent(started) as spark:
            cores = spark.sparkContext.defaultParallelism
            with _bar() as tell:
                run(plan.runs, results, on_spark(spark, kept), parcel=max(64, 16 * cores), tell=tell)
            if journals:
                with waiting("making tables of the journals"):
                    ingest(spark, directory)
                remark(f"to ask them:  rostra history audit -t {results.tables}")
    rows = [row for row in results.read().to_pylist() if row["run"] in wanted]
    where = report or directory / "report.html"
    where.write_text(page(plan.name, rows), encoding="utf-8")
    named = choices(points(rows))
    if output is OutputFormat.TABLE:
        show_table(
            ("topology", "loss", "choose", "because"),
            [
                (
                    each.topology,
                    "any" if each.loss < 0 else f"{each.loss:.1%}",
                    each.chosen.label if each.chosen else "-",
                    each.why,
                )
                for each in named
            ],
        )
    else:
        for each in named:
            show_json(each, output)
    failed = sum(row["error"] is not None for row in rows)
    remark(f"{where}" + (f"; {failed} runs failed, and will be tried again" if failed else ""))
    return EXIT_FAILED if failed else EXIT_OK


@contextmanager
def _bar() -> Iterator[Callable[[int, int], None]]:
    """How many of all runs are known; nothing is drawn in a pipe."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as progress:
        bar = progress.add_task("simulating", total=None)
        yield lambda done, of: progress.update(bar, completed=done, total=of)
