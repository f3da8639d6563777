"""`rostra up`: a whole small world on this machine, with a dashboard, until Ctrl-C.

Exit codes: 0 it was up and was ended by a signal; 1 it did not come up; 2 it could not be started: a wrong
shape, a world file that cannot be read, a port that is taken.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from rostra.cli.common import Journal, RecordInputs, command, how_to_call, remark
from rostra.cli.consoles import Plain
from rostra.cli.house import HouseCommand
from rostra.cli.output import say
from rostra.config import read_world
from rostra.errors import BadInput
from rostra.up.plan import KEPT_TABLES, SHAPE, WorldPlan, of_file, of_shape

if TYPE_CHECKING:
    from rostra.up.run import Up
    from rostra.up.world import Starting


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="On one machine")(command(up))


HOSTS: Final = 2


def up(
    shape: Annotated[
        str | None,
        typer.Option("--shape", help=f"Regions x clusters in each x hosts in each; {SHAPE} by default."),
    ] = None,
    world: Annotated[
        Path | None,
        typer.Option("--world", "-w", help="The world that this file describes, on this machine."),
    ] = None,
    hosts: Annotated[
        int | None,
        typer.Option("--hosts", min=1, help=f"With --world: hosts in each cluster; {HOSTS} by default."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Of the dashboard; 7780 or the next free one."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the dashboard's address only.")] = False,
    wan_delay_ms: Annotated[
        float, typer.Option("--wan-delay-ms", min=0, help="Delay between regions.")
    ] = 0.0,
    seed: Annotated[str, typer.Option("--seed", help="Seed of the simulated people.")] = "1",
    journal: Journal = None,
    record: RecordInputs = None,
) -> int:
    """Run a whole small world on this machine: real servers, agents and programs, and a dashboard.

    Two regions, four clusters and eight hosts, unless --shape or --world says otherwise; every link runs over
    a cable that the dashboard can cut. Ctrl-C ends every process and leaves nothing behind.

    Examples:

      rostra up

      rostra up --shape 3x3x4 --wan-delay-ms 40

      rostra up --world acme.toml --hosts 3

      rostra up --journal /tmp/journal
    """
    # Only who needs an HTTP server waits for its import.
    from rostra.runtime.run import new_runner
    from rostra.up.run import UpSettings, run

    settings = UpSettings(
        plan=_plan(shape, world, hosts),
        port=port,
        seed=seed,
        wan_delay_s=wan_delay_ms / 1e3,
        journal=None if journal is None else _absolute(journal),
        record=bool(record),
    )
    with new_runner() as runner:
        return runner.run(run(settings, QuietScreen() if quiet else TerminalScreen()))


def _absolute(journal: str) -> str:
    return journal if "://" in journal else str(Path(journal).absolute())


def _plan(shape: str | None, world: Path | None, hosts: int | None) -> WorldPlan:
    if world is None:
        if hosts is not None:
            raise BadInput(
                "--hosts without --world", fix=f"write --shape: 2x2x{hosts} has {hosts} in each cluster"
            )
        return of_shape(shape or SHAPE)
    if shape is not None:
        raise BadInput("--shape and --world both say which world to run", fix="leave one of them out")
    file = read_world(world)
    unused = [f"[{table}]" for table in file.tables if table not in ("world", "servers", *KEPT_TABLES)]
    if file.world.replicas:
        unused.append("the replicas under [servers]")
    if unused:
        remark(f"this world is on one machine, and takes nothing from {', '.join(unused)} of {world}")
    return of_file(file.world, HOSTS if hosts is None else hosts)


class QuietScreen:
    """One line on stdout, for scripts: where the dashboard is. Trouble still goes to stderr."""

    def starting(self, starting: "Starting") -> None:
        pass

    def up(self, up: "Up") -> None:
        say(up.dashboard)

    def say(self, what: str) -> None:
        pass

    def complain(self, what: str) -> None:
        say(what, err=True)

    def ending(self) -> None:
        pass


class TerminalScreen:
    """Progress and remarks on stderr; on stdout, what to do with a world that is up."""

    def __init__(self) -> None:
        self._remarks = Plain(stderr=True, highlight=False, soft_wrap=True)
        self._answers = Plain(highlight=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("starting"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=self._remarks,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None)
        if self._remarks.is_terminal:
            self._progress.start()
        else:
            self.say("starting a small world")

    def starting(self, starting: "Starting") -> None:
        first, *more = starting.waiting_for or ("people",)
        waiting = f"waiting for {first}" + (f" and {len(more)} more" if more else "")
        self._progress.update(self._task, total=starting.steps, completed=starting.done, description=waiting)

    def up(self, up: "Up") -> None:
        self._progress.stop()
        other = up.socket(up.plan.hosts[-1])
        front = str(up.home.front_door)
        rostra = how_to_call() if up.is_found else f"ROSTRA_AGENT={front} {how_to_call()}"
        connect = "rostra.connect()" if up.is_found else f'rostra.connect("{front}")'
        rows = [
            ("dashboard", f"[bold]{up.dashboard}[/]"),
            ("", "cut a link, crash a host, heal, and see what each side reports"),
            ("try", f"{escape(rostra)} members lounge"),
            ("Python", f"{escape(connect)}  on {up.plan.hosts[0]}, or"),
            ("", escape(f'rostra.connect("{other}")')),
            ("logs", escape(f"{up.home.path}/logs")),
            ("end", "Ctrl-C"),
        ]
        self._answers.print(
            f"a small world is up: {up.plan.describe()}, {up.people} people ({up.took_s:.1f} s)\n"
        )
        for label, text in rows:
            self._answers.print(f"  [dim]{label:<11}[/]{text}")
        self._answers.print()
        if reach := up.plan.describe_reach():
            self.say(reach)
        for each in up.others:
            self.say(f"another small world is up already, at {each.dashboard} (process {each.pid})")

    def say(self, what: str) -> None:
        self._remarks.print(what, markup=False)

    def complain(self, what: str) -> None:
        self.say(what)

    def ending(self) -> None:
        self._progress.stop()
        self.say("ending every process")
