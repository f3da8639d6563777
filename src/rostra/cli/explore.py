"""`rostra sim explore`: every order of messages and faults in a small world, within bounds."""

import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from rostra.cli.common import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, command, option, remark
from rostra.cli.house import HouseCommand
from rostra.cli.output import remarks, say
from rostra.errors import BadInput

if TYPE_CHECKING:
    from rostra.sim.explore.model import SearchBounds
    from rostra.sim.explore.search import SearchProgress


def register(sim: typer.Typer) -> None:
    sim.command("explore", cls=HouseCommand)(command(explore_model))


def explore_model(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="What to explore; else a list.", show_default=False)
    ] = None,
    set_: Annotated[list[str] | None, option("--set", metavar="BOUND=COUNT", help="Another bound.")] = None,
    plant: Annotated[str | None, option(metavar="BUG", help="Plant this bug, to see it found.")] = None,
    story: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the story of a violation into FILE.", show_default="to stdout"
        ),
    ] = None,
    states: Annotated[
        int | None, option(min=1, metavar="COUNT", help="Stop after about so many states.")
    ] = None,
) -> int:
    """Explore every order of messages and faults in a small world, and check its invariants at each step.

    Without MODEL: which there are, with their bounds and the bugs that can be planted. Nothing is drawn by
    lot: within its bounds a model is exhausted, or the shortest way to a violation is written as a story that
    rostra sim tells.

    Exit code 1 if an invariant was violated or the states were too many to see them all, 130 after Ctrl-C.
    About 100 bytes are kept of each state.

    Examples:

        rostra sim explore
        rostra sim explore election --set crashes=1 --set suspicions=0
        rostra sim explore election --plant double-vote --story twice.story
        rostra sim twice.story
    """
    from rostra.sim.explore import model_named
    from rostra.sim.explore.played import story_of
    from rostra.sim.explore.search import explore

    bounds = dict(_bound(text) for text in set_ or ())
    if model is None:
        if bounds or plant is not None:
            raise BadInput("no model is named", fix="rostra sim explore MODEL, or nothing for a list")
        _list()
        return EXIT_OK
    world = model_named(model, bounds, plant)
    began, stopped = monotonic(), False
    with _progress(f"{model} within {_bounds(world.bounds)}") as tell:
        found = explore(world, states_max=states, tell=tell)
        stopped = not (found.exhausted or found.violations) and not (states and found.states >= states)
    say(f"{model}: {_figures(found, monotonic() - began)}")
    if found.violations:
        text = story_of(world, found.path)
        say(f"VIOLATED after {found.depth} steps, and not in fewer: {'; '.join(found.violations)}")
        if story is None:
            say("\n" + text, nl=False)
        else:
            story.write_text(text, encoding="utf-8")
            remark(f"{story}: written; to see it again:  rostra sim {story}")
        return EXIT_FAILED
    if found.exhausted:
        say(f"exhausted, no violation within: {_bounds(world.bounds)}")
        return EXIT_OK
    why = "Ctrl-C" if stopped else "--states"
    say(f"NOT exhausted, {why}: no violation within {found.depth} steps from the beginning")
    return EXIT_INTERRUPTED if stopped else EXIT_FAILED


def _list() -> None:
    from rostra.sim.explore import MODELS

    for name, (kind, bounds) in MODELS.items():
        say(f"{name}: {kind.about}")
        say(f"  bounds  {_bounds(bounds())}")
        for plant, what in kind.plants.items():
            say(f"  plant   {plant}: {what}")


def _bounds(bounds: "SearchBounds") -> str:
    return "  ".join(f"{name}={number}" for name, number in asdict(bounds).items())


def _figures(progress: "SearchProgress", took_s: float) -> str:
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return (
        f"{progress.states:,} states, {progress.transitions:,} transitions, {progress.depth} steps deep; "
        f"{took_s:.1f} s, {progress.states / took_s:,.0f} states/s, {memory_mb:,} MB; "
        f"two states taken for one: chance below {progress.mistaken:.0e}"
    )


def _bound(text: str) -> tuple[str, str]:
    name, equals, number = text.partition("=")
    if not (name and equals and number):
        raise BadInput(f"{text!r} sets no bound", fix="--set crashes=1")
    return name.strip(), number.strip()


@contextmanager
def _progress(what: str) -> Iterator[Callable[["SearchProgress"], None]]:
    """Reports that the search has begun; on a terminal also states, depth and speed."""
    began, begun = monotonic(), False
    with remarks().status("exploring", spinner="dots") if sys.stderr.isatty() else nullcontext() as status:

        def tell(progress: "SearchProgress") -> None:
            nonlocal begun
            if not begun:
                begun = True
                remark(f"exploring {what}; Ctrl-C ends it")
            if status is None:
                return
            took_s = max(monotonic() - began, 0.001)
            status.update(
                f"exploring, {progress.depth} steps deep: {progress.states:,} states "
                f"({progress.states / took_s:,.0f}/s), {progress.waiting:,} of them waiting"
            )

        yield tell
