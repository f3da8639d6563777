"""`rostra sim`: stories, storms, exploration and replay in simulated worlds.

    rostra sim FILE...               run stories, compare with their golden traces
    rostra sim storm --seeds 1000    random faults, everything checked
    rostra sim explore MODEL         every order of messages and faults in a small world, checked
    rostra sim replay DIR            the recorded inputs of real nodes, once more

Exit codes: 0 all as it should be; 1 a trace or replay differs, a storm failed or an invariant was violated;
2 a story cannot be read or run.
"""

import difflib
import multiprocessing
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rostra.cli import explore, replay
from rostra.cli.common import EXIT_FAILED, EXIT_MISUSE, EXIT_OK, command, complain, option, remark
from rostra.cli.house import HouseCommand, HouseGroup
from rostra.cli.output import Plain, say
from rostra.errors import BadInput, BadStory
from rostra.sim.outcome import StormOutcome
from rostra.sim.storm import STORMS, StormFailed, storm
from rostra.sim.story import Story, tell

SimulatedJournal = Annotated[
    Path | None, option("--journal", metavar="DIR", help="Write the journals that its nodes would, into DIR.")
]

STORMS_USUALLY: Final = 100

_remarks = Plain(stderr=True, highlight=False, soft_wrap=True)


class _TellUnlessNamed(HouseGroup):
    """`rostra sim FILE` means `rostra sim tell FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["tell", *args]
        return super().parse_args(ctx, args)


HELP: Final = """Simulated worlds: stories, storms, models. A file alone is a story to run: rostra sim FILE.

A story is a text file: steps above a line of dashes, the expected trace below it, and so on. It is run in
virtual time, and its trace is compared with the file's.

Examples:

    rostra sim tests/stories/a07_a_domain_is_cut_off_and_merges_again.story
    rostra sim storm --seeds 20
    rostra sim explore election
    rostra sim replay /var/lib/rostra/journal
"""

app = typer.Typer(cls=_TellUnlessNamed, no_args_is_help=True, help=HELP)


explore.register(app)
replay.register(app)


def register(main: typer.Typer) -> None:
    main.add_typer(app, name="sim", rich_help_panel="On one machine")


@app.command("tell", cls=HouseCommand)
@command
def tell_stories(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Story files.")],
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Write the traces into the files.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Compare only; print no story.")] = False,
    seed: Annotated[
        int | None, option(metavar="NUMBER", help="Another seed; nothing is compared then.")
    ] = None,
    journal: SimulatedJournal = None,
) -> int:
    """Tell stories: print their steps and what came of them, and compare with what the files say.

    The word tell may be left out. Exit code 1 if a story goes otherwise than its file says, 2 if it cannot be
    read or run.

    Examples:

        rostra sim tests/stories/a05_a_program_dies.story
        rostra sim tell --check tests/stories/*.story
        rostra sim tell a05.story --seed 7
    """
    if rewrite and seed is not None:
        raise BadInput("a golden trace belongs to the story's own seed", fix="leave out --seed or --rewrite")
    worst = EXIT_OK
    for number, path in enumerate(files):
        try:
            story = Story.read(path)
            traces = tell(story, seed=seed, journal=_place(journal, path.stem, len(files) > 1))
        except BadStory as error:
            complain(error)
            worst = max(worst, EXIT_MISUSE)
            continue
        told = story.text(traces)
        if not check:
            say(("\n" if number else "") + told, nl=False)
            sys.stdout.flush()  # the trace stands above the remarks on it
        if rewrite:
            path.write_text(told, encoding="utf-8")
            remark(f"{path}: written")
        elif seed is not None:
            remark(f"{path}: told with seed {seed}, and compared with nothing")
        elif told == story.golden():
            remark(f"{path}: as its file says")
        else:
            _show_difference(path, story, told)
            worst = max(worst, EXIT_FAILED)
    return worst


def _show_difference(path: Path, story: Story, told: str) -> None:
    if all(section.golden is None for section in story.sections):
        remark(f"{path}: its file does not say yet what happens; --rewrite writes it")
        return
    before, after = story.golden().splitlines(), told.splitlines()
    for line in difflib.unified_diff(before, after, f"{path} (its file)", f"{path} (now)", lineterm=""):
        remark(line)
    remark(f"{path}: goes otherwise than its file says, as shown above")


@app.command("storm", cls=HouseCommand)
@command
def blow_storms(
    seed: Annotated[int | None, option(metavar="NUMBER", help="One storm, by its seed.")] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="COUNT",
            help="So many storms, with seeds from --first on.",
            show_default=f"{STORMS_USUALLY}",
        ),
    ] = None,
    first: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="The first seed.", show_default="0")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help=f"One of: {', '.join(STORMS)}; else each in turn.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="COUNT", help="So many at a time.")] = 1,
    journal: SimulatedJournal = None,
) -> int:
    """Blow storms: random churn, crashes, cuts and worse, and compare everything when it is calm.

    Each storm is decided by its seed: one that failed is shown with the command that repeats it. Exit code 1
    if one failed.

    Examples:

        rostra sim storm --seeds 20
        rostra sim storm --seed 8812
        rostra sim storm --seeds 1000 --jobs 2
    """
    if shape is not None and shape not in STORMS:
        raise BadInput(f"no shape is called {shape!r}", fix=f"one of: {', '.join(STORMS)}")
    if seed is not None and (seeds, first) != (None, None):
        raise BadInput(
            "--seed is one storm, --seeds and --first are several", fix="leave out one or the other"
        )
    first, seeds = (first or 0, seeds or STORMS_USUALLY) if seed is None else (seed, 1)
    shapes = [shape] if shape else list(STORMS)
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
        disable=not _remarks.is_terminal,
    ) as progress:
        task = progress.add_task("storms", total=len(plan))
        for outcome in _blow(plan, jobs, journal):
            progress.advance(task)
            if isinstance(outcome, StormFailed):
                failed += 1
                complain(outcome)
            else:
                comparisons += outcome.comparisons
                virtual_s += outcome.virtual_s
    say(
        f"{len(plan) - failed} of {len(plan)} storms held: "
        f"{virtual_s / 3600:.2f} virtual hours, {comparisons} comparisons with the twin"
    )
    return EXIT_FAILED if failed else EXIT_OK


def _blow(
    plan: list[tuple[int, str]], jobs: int, journal: Path | None
) -> Iterator[StormOutcome | StormFailed]:
    work = [(seed, shape, _place(journal, f"storm-{shape}-{seed}", len(plan) > 1)) for seed, shape in plan]
    if jobs <= 1 or len(plan) == 1:
        yield from (_one(*each) for each in work)
        return
    # Ctrl-C reaches every process of a terminal; the one that planned the storms decides.
    with ProcessPoolExecutor(
        jobs, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    ) as pool:
        try:
            with _ctrl_c_waits():
                storms = [pool.submit(_one, *each) for each in work]
            for done in as_completed(storms):
                yield done.result()
        except BaseException:
            for worker in multiprocessing.active_children():
                worker.terminate()  # else the pool would wait for all the storms that were planned
            raise


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """For code that forks: Python drops an exception that is raised between a fork and its end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))


def _place(journal: Path | None, world: str, several: bool) -> Path | None:
    """Two worlds never share a journal: each gets a folder of its own if there are several."""
    return journal / world if journal is not None and several else journal


def _one(seed: int, shape: str, journal: Path | None) -> StormOutcome | StormFailed:
    try:
        return storm(seed, shape, journal=journal)
    except StormFailed as failure:
        return StormFailed(failure.what, fix=failure.fix)
