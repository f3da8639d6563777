"""Run every experiment in the simulator; write report/congress.html, and a summary here."""

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks.congress_report import drawings, page
from benchmarks.congress_report.counts import Counted, message_counts, returns
from benchmarks.congress_report.experiments import Experiment, Scale, all_experiments
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.local import LocalServer
from rostra.sim import T_REF


def write_report(file: Path, scale: Scale, remarks: Console) -> tuple[list[Counted], list[Experiment]]:
    with Progress(console=remarks, transient=True) as progress:
        steps = progress.add_task("messages per step", total=len(all_experiments()) + 1)
        counted, ranges = message_counts(), returns(scale.seeds)
        found = []
        for run in all_experiments():
            progress.update(steps, advance=1, description=run.__name__.replace("_", " "))
            found.append(run(scale))
        progress.update(steps, advance=1)
    parts = [
        "<p>What the paper <i>Congress: CONnection-oriented Group-address RESolution Service</i> (Anker, "
        "Breitgand, Dolev, Levy, 1996) claims about cost and recovery, measured on the servers of Rostra in "
        "simulated worlds, and what it draws, generated from the code that ran.",
        page.counts(counted, ranges),
        *(page.experiment(one) for one in found),
        page.drawing(
            "The hierarchy",
            "The reference tree, after the paper's figures 3 and 4: one server per domain, one agent per "
            "host, siblings fully meshed (thick). The root carries no group traffic (dotted).",
            drawings.hierarchy(T_REF),
        ),
        "<h2>Messages</h2><p>After figures 5, 6 and 7: generated from the definitions that the wire uses.",
        page.schema_tables("Servers to each other", drawings.schemas(drawings.SAID_BY_SERVERS)),
        page.schema_tables("Programs to their agent", drawings.schemas(drawings.ASKED_BY_PROGRAMS)),
        page.schema_tables("Agents to their programs", drawings.schemas(drawings.TOLD_TO_PROGRAMS)),
        "<h2>Handlers</h2><p>After figures 8 and 19: the cases of the servers' <code>match</code>es.",
        page.handlers("The agent", drawings.event_table(LocalServer)),
        page.handlers("The domain server", drawings.event_table(DomainServer)),
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page.page("Congress, as Rostra runs it", parts), encoding="utf-8")
    return counted, found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.congress_report", description=__doc__)
    parser.add_argument(
        "--to", type=Path, default=Path("report/congress.html"), help="where to write the page"
    )
    parser.add_argument("--quick", action="store_true", help="tiny worlds: does everything run?")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    scale = Scale.smoke() if options.quick else Scale()
    counted, found = write_report(options.to, scale, Console(stderr=True))
    answers = Console(width=None if sys.stdout.isatty() else 120)
    wrong = [one.step for one in counted if not one.as_expected]
    answers.print(
        f"messages per step: {len(counted) - len(wrong)} of {len(counted)} counts are exactly as they must be"
    )
    for step in wrong:
        answers.print(f"  [red]not so: {step}[/red]")
    for one in found:
        answers.print(f"[bold]{one.name}[/bold]  {one.title}. {one.finding}")
    answers.print(f"written in {time.monotonic() - began:.0f} s: {options.to}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
