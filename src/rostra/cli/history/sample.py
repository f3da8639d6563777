"""`rostra history sample`: a made-up month to try everything on."""

from pathlib import Path
from typing import Annotated

import typer

from rostra.cli.common import EXIT_OK, command, remark
from rostra.cli.house import HouseCommand
from rostra.errors import NotInstalled


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand)(command(sample))


def sample(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty directory.")],
    events: Annotated[
        int, typer.Option("--events", "-n", metavar="N", help="About so many rows.")
    ] = 1_000_000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed, the same rows.")] = 0,
    days: Annotated[int, typer.Option("--days", metavar="N", help="How long it lasts.")] = 30,
    talk: Annotated[
        float,
        typer.Option(
            "--talk",
            metavar="SHARE",
            help="The share of rows that is what groups say, and watches with numbers.",
        ),
    ] = 0.0,
    plant: Annotated[
        str | None,
        typer.Option("--plant", metavar="PROMISE", help="Break this promise once.", show_default=False),
    ] = None,
) -> int:
    """Make up the journals of a month: a world of dozens of hosts that come and go, crash and are cut off.

    Nothing is simulated, so it takes seconds; but everything is consistent, and audits of it answer yes.
    With --plant one promise is broken in one place, and its audit finds it. Needs no Spark and no Java.

    Examples:

        rostra history sample /tmp/month
        rostra history size -j /tmp/month --group chess
        rostra history sample /tmp/talk --talk 0.3
        rostra history sample /tmp/broken --events 50000 --days 3 --plant why
        rostra history audit -j /tmp/broken
    """
    from importlib.util import find_spec

    if find_spec("numpy") is None:
        raise NotInstalled("a sample needs numpy, which is not installed", fix="pip install 'rostra[spark]'")
    from rostra.history.progress import waiting
    from rostra.history.sample import PLANTS
    from rostra.history.sample import sample as make

    with waiting("making up a history") as line:
        made = make(
            directory,
            events=events,
            seed=seed,
            days=days,
            talk=talk,
            planted=plant,
            tell=lambda done, writers: line.say(f"{done} of {writers} writers"),
        )
    remark(f"{made.rows:,} rows of {made.writers} writers in {made.segments} segments: {directory}")
    if plant is not None:
        remark(f"planted: {PLANTS[plant]}")
    remark(f"to look at it:  rostra history report -j {directory} -O report.html")
    return EXIT_OK
