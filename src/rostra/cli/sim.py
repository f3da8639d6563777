"""`rostra sim`: tell stories in a simulated world, and blow storms through one.

    rostra sim FILE...               tell stories, compare with their golden traces
    rostra sim storm --seeds 1000    random faults, everything checked

Exit codes: 0 all as it should be; 1 a trace differs or a storm failed; 2 a story cannot be read or run.
"""

import difflib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rostra.cli.house import HouseCommand, HouseGroup
from rostra.errors import BadInput, BadStory
from rostra.sim.shapes import SHAPES
from rostra.sim.storm import Outcome, StormFailed, storm
from rostra.sim.story import Story, tell

DIFFERS, BAD_STORY = 1, 2

_remarks = Console(stderr=True, highlight=False, soft_wrap=True)


class _TellUnlessNamed(HouseGroup):
    """`rostra sim FILE` means `rostra sim tell FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["tell", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_TellUnlessNamed, no_args_is_help=True, help="Simulated worlds: stories and storms.")


def register(main: typer.Typer) -> None:
    main.add_typer(app, name="sim", rich_help_panel="On one machine")


@app.command("tell", cls=HouseCommand)
def tell_stories(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Story files.")],
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Write the traces into the files.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Compare only; print no traces.")] = False,
    seed: Annotated[int | None, typer.Option(help="Another seed; nothing is compared then.")] = None,
) -> None:
    """Tell stories: print their traces, and compare them with the golden ones in the files."""
    if rewrite and seed is not None:
        _remarks.print("error: a golden trace belongs to the story's own seed; leave out --seed or --rewrite")
        raise typer.Exit(BAD_STORY)
    worst = 0
    for path in files:
        try:
            story = Story.read(path)
            traces = tell(story, seed=seed)
        except BadStory as error:
            _complain(error)
            worst = max(worst, BAD_STORY)
            continue
        told = story.text(traces)
        if rewrite:
            path.write_text(told, encoding="utf-8")
        if not check:
            typer.echo("\n\n".join("\n".join(trace) for trace in traces))
        if not rewrite and seed is None and told != story.golden():
            lines = difflib.unified_diff(
                story.golden().splitlines(),
                told.splitlines(),
                f"{path} (golden)",
                f"{path} (now)",
                lineterm="",
            )
            typer.echo("\n".join(lines), err=True)
            worst = max(worst, DIFFERS)
    raise typer.Exit(worst)


@app.command("storm", cls=HouseCommand)
def blow_storms(
    seed: Annotated[int | None, typer.Option(help="One storm, by its seed.")] = None,
    seeds: Annotated[int, typer.Option(help="So many storms, with seeds from --first on.")] = 100,
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    shape: Annotated[
        str | None, typer.Option(help=f"One of: {', '.join(SHAPES)}; else each in turn.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="So many at a time.")] = 1,
) -> None:
    """Blow storms: random churn, crashes, cuts and worse, and compare everything when it is calm."""
    if shape is not None and shape not in SHAPES:
        _complain(BadInput(f"no shape is called {shape!r}", fix=f"one of: {', '.join(SHAPES)}"))
        raise typer.Exit(BAD_STORY)
    if seed is not None:
        first, seeds = seed, 1
    shapes = [shape] if shape else sorted(SHAPES)
    plan = [(number, shapes[number % len(shapes)]) for number in range(first, first + seeds)]
    failed = comparisons = 0
    virtual_s = 0.0
    with Progress(
        TextColumn("storms"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=_remarks,
        transient=True,
    ) as progress:
        task = progress.add_task("storms", total=len(plan))
        for outcome in _blow(plan, jobs):
            progress.advance(task)
            if isinstance(outcome, StormFailed):
                failed += 1
                _complain(outcome)
            else:
                comparisons += outcome.comparisons
                virtual_s += outcome.virtual_s
    typer.echo(
        f"{len(plan) - failed} of {len(plan)} storms held: "
        f"{virtual_s / 3600:.2f} virtual hours, {comparisons} comparisons with the twin"
    )
    raise typer.Exit(DIFFERS if failed else 0)


def _blow(plan: list[tuple[int, str]], jobs: int) -> Iterator[Outcome | StormFailed]:
    if jobs <= 1 or len(plan) == 1:
        yield from (_one(*each) for each in plan)
        return
    with ProcessPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(_one, *each) for each in plan]):
            yield done.result()


def _one(seed: int, shape: str) -> Outcome | StormFailed:
    try:
        return storm(seed, shape)
    except StormFailed as failure:
        return StormFailed(failure.what, fix=failure.fix)


def _complain(error: BadInput | StormFailed) -> None:
    _remarks.print(f"error: {error.what}", markup=False)
    if error.fix:
        _remarks.print(f"  {error.fix}", markup=False)
