"""`rostra sim`: stories, storms, exploration and replay in simulated worlds.

    rostra sim FILE...               run stories, compare with their golden traces
    rostra sim storm --seeds 1000    random faults, everything checked
    rostra sim explore MODEL         every order of messages and faults in a small world, checked
    rostra sim replay DIR            the recorded inputs of real nodes, once more

Exit codes: 0 all as it should be; 1 a trace or replay differs, a storm failed or an invariant was violated;
2 a story cannot be read or run.
"""

import difflib
import hashlib
import multiprocessing
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import rostra
from rostra.cli import explore, replay
from rostra.cli.common import EXIT_FAILED, EXIT_MISUSE, EXIT_OK, command, complain, option, remark
from rostra.cli.consoles import Plain
from rostra.cli.house import HouseCommand, HouseGroup
from rostra.cli.output import say
from rostra.errors import BadInput, BadStory

if TYPE_CHECKING:  # the simulator takes longer to import than all commands together
    from rostra.sim.outcome import StormOutcome
    from rostra.sim.storm import StormFailed
    from rostra.sim.story import Story

SimulatedJournal = Annotated[
    Path | None, option("--journal", metavar="DIR", help="Write the journals that its nodes would, into DIR.")
]

STORMS_USUALLY: Final = 100

SHAPES: Final = (
    *("single", "pair", "uneven", "T-REF", "fifo", "crowd", "hostile", "claims", "disks"),
    *("views", "living", "primary", "spoken", "failover", "moves", "casts", "sets", "order", "strong"),
    "monitored",
    "kept",
    "lanes",
    "settled",
)
"""`rostra.sim.storm.STORMS`, for a help that does not import it."""

_remarks = Plain(stderr=True, highlight=False, soft_wrap=True)


SeedAndShape = tuple[int, str]


class HeldStorms:
    """A file of storms that held, a line for each, with the fingerprint of the code on which they did."""

    def __init__(self, file: Path) -> None:
        self.storms: set[SeedAndShape] = set()
        self._file, self._code = file, _fingerprint()
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            match line.split():
                case [code, shape, seed] if code == self._code and seed.isdecimal():
                    self.storms.add((int(seed), shape))

    def add(self, storm: SeedAndShape) -> None:
        seed, shape = storm
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{self._code} {shape} {seed}\n")


def _fingerprint() -> str:
    """A digest of the code of this package: storms that held on other code are run again."""
    code = Path(rostra.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(code.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


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
    from rostra.sim.story import Story, tell

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


def _show_difference(path: Path, story: "Story", told: str) -> None:
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
        str | None, typer.Option(help=f"One of: {', '.join(SHAPES)}; else each in turn.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="COUNT", help="So many at a time.")] = 1,
    held: Annotated[
        Path | None,
        option("--held", metavar="FILE", help="Note in FILE which storms held, and do not repeat those."),
    ] = None,
    journal: SimulatedJournal = None,
) -> int:
    """Blow storms: random churn, crashes, cuts and worse, and compare everything when it is calm.

    Each storm is decided by its seed: one that failed is shown with the command that repeats it. Exit code 1
    if one failed. With --held, storms that held on this very code are not repeated: asked again after it was
    interrupted, the command goes on where it stopped.

    Examples:

        rostra sim storm --seeds 20
        rostra sim storm --seed 8812
        rostra sim storm --seeds 1000 --jobs 2
        rostra sim storm --shape views --seeds 10000 --held views.held
    """
    from rostra.sim.storm import StormFailed

    if shape is not None and shape not in SHAPES:
        raise BadInput(f"no shape is called {shape!r}", fix=f"one of: {', '.join(SHAPES)}")
    if seed is not None and (seeds, first) != (None, None):
        raise BadInput(
            "--seed is one storm, --seeds and --first are several", fix="leave out one or the other"
        )
    first, seeds = (first or 0, seeds or STORMS_USUALLY) if seed is None else (seed, 1)
    shapes = [shape] if shape else list(SHAPES)
    plan = [(number, shapes[number % len(shapes)]) for number in range(first, first + seeds)]
    notes = None if held is None else HeldStorms(held)
    before = 0
    if notes is not None:
        before = len(plan)
        plan = [each for each in plan if each not in notes.storms]
        before -= len(plan)
        if before:
            remark(f"{before} storms held before, as {held} says")
    failed = comparisons = 0
    virtual_s = 0.0
    began_s = time.monotonic()
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
        for which, outcome in _blow(plan, jobs, journal):
            progress.advance(task)
            if isinstance(outcome, StormFailed):
                failed += 1
                complain(outcome)
                continue
            if notes is not None:
                notes.add(which)
            comparisons += outcome.comparisons
            virtual_s += outcome.virtual_s
    took_s = time.monotonic() - began_s
    say(
        f"{before + len(plan) - failed} of {before + len(plan)} storms held: "
        f"{virtual_s / 3600:.2f} virtual hours, {comparisons} comparisons with the twin"
        + (f", {len(plan) / took_s:.2f} storms per second" if plan else "")
    )
    return EXIT_FAILED if failed else EXIT_OK


def _blow(
    plan: list[SeedAndShape], jobs: int, journal: Path | None
) -> "Iterator[tuple[SeedAndShape, StormOutcome | StormFailed]]":
    """In the order in which they are over."""
    work = [(seed, shape, _place(journal, f"storm-{shape}-{seed}", len(plan) > 1)) for seed, shape in plan]
    if jobs <= 1 or len(plan) == 1:
        yield from ((each, _one(*all_of)) for each, all_of in zip(plan, work, strict=True))
        return
    interrupted = False

    def interrupt(*_signal: object) -> None:
        nonlocal interrupted
        interrupted = True
        _end_children()

    # Ctrl-C ends the workers, and is an exception only when the pool is over: raised within its work
    # it would leave a lock held for ever. Workers inherit the mask, and leave Ctrl-C to the one that planned.
    with ProcessPoolExecutor(jobs) as pool:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
        before = signal.signal(signal.SIGINT, interrupt)
        try:
            storms = {pool.submit(_one, *each): each[:2] for each in work}
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
            for done in as_completed(storms):
                yield storms[done], done.result()
        except BrokenProcessPool:
            if not interrupted:
                raise
        except BaseException:
            _end_children()  # else the pool would wait for all the storms that were planned
            raise
        finally:
            signal.signal(signal.SIGINT, before)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
    if interrupted:
        raise KeyboardInterrupt


def _end_children() -> None:
    for child in multiprocessing.active_children():
        child.terminate()


def _place(journal: Path | None, world: str, several: bool) -> Path | None:
    """Two worlds never share a journal: each gets a folder of its own if there are several."""
    return journal / world if journal is not None and several else journal


def _one(seed: int, shape: str, journal: Path | None) -> "StormOutcome | StormFailed":
    from rostra.sim.storm import StormFailed, storm

    try:
        return storm(seed, shape, journal=journal)
    except StormFailed as failure:
        return StormFailed(failure.what, fix=failure.fix)
