"""Numbers on their way to a reader: percentiles, medians of repeats, tables with ratios."""

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:  # client processes draw nothing
    from rich.console import Console

Measures = dict[str, float | str]
"""What one run of one workload on one peer gave: numbers by name, or words where a number would lie."""


class Row(Struct, frozen=True):
    workload: str
    peer: str
    repeat: int
    measures: Measures


class Bar(Struct, frozen=True):
    """What we set out to reach: a measure of ours against so many times a peer's, or a plain number."""

    workload: str
    what: str
    measure: str
    bound: float
    of_peer: str = ""
    of_measure: str = ""
    less_is_better: bool = True
    only: str = ""  # part of the label of those rows of ours that it is about


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, math.ceil(len(values) * share) - 1)]


def spread_ms(took_ns: Sequence[int]) -> Measures:
    return {
        "p50 ms": percentile(took_ns, 0.50) / 1e6,
        "p99 ms": percentile(took_ns, 0.99) / 1e6,
    }


def middle(rows: Iterable[Row]) -> dict[str, dict[str, Measures]]:
    """Workload -> peer -> each measure's median over the repeats, or all the words that were used."""
    gathered: dict[str, dict[str, dict[str, list[float | str]]]] = {}
    for row in rows:
        for name, value in row.measures.items():
            gathered.setdefault(row.workload, {}).setdefault(row.peer, {}).setdefault(name, []).append(value)
    return {
        workload: {
            peer: {name: _middle(values) for name, values in measures.items()}
            for peer, measures in peers.items()
        }
        for workload, peers in gathered.items()
    }


def _middle(values: list[float | str]) -> float | str:
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) == len(values):
        return median(numbers)
    return " / ".join(sorted({str(value) for value in values}))


def show(console: "Console", workload: str, title: str, peers: dict[str, Measures], against: str) -> None:
    """One workload as a table; the ratio says how many times the reference's figure each figure is."""
    names = list(dict.fromkeys(name for measures in peers.values() for name in measures))
    from rich.table import Table

    table = Table(title=f"{workload}  {title}", title_justify="left", title_style="bold")
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    reference = peers.get(against, {})
    for peer, measures in peers.items():
        table.add_row(
            peer, *(_cell(measures.get(name), reference.get(name), peer != against) for name in names)
        )
    console.print(table)


def _cell(value: float | str | None, reference: float | str | None, ratio: bool) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    text = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    if ratio and isinstance(reference, float | int) and reference and value:
        text += f" [dim]({value / reference:.2g}x)[/dim]"
    return text


class Verdict(Struct, frozen=True):
    reached: bool
    ours: float
    bound: float

    def __str__(self) -> str:
        figures = f"{_cell(self.ours, None, False)} / {_cell(self.bound, None, False)}"
        if self.reached:
            return f"[green]reached[/green] {figures}"
        factor = max(self.ours, self.bound) / min(self.ours, self.bound)
        return f"[red]missed by {factor:.2g}x[/red] {figures}"


def judge(bar: Bar, peers: dict[str, Measures], label: str) -> Verdict | None:
    """Was the bar reached by our row of this label? Nothing if this run did not measure it."""
    ours = peers.get(label, {}).get(bar.measure)
    theirs = peers.get(bar.of_peer, {}).get(bar.of_measure or bar.measure) if bar.of_peer else 1.0
    if not isinstance(ours, float | int) or not isinstance(theirs, float | int):
        return None
    bound = bar.bound * theirs
    return Verdict(ours <= bound if bar.less_is_better else ours >= bound, ours, bound)


def show_bars(console: "Console", bars: Iterable[Bar], results: dict[str, dict[str, Measures]]) -> None:
    """Every bar against every deployment of ours that was measured for it."""
    from rich.table import Table

    table = Table(title="the bars (ours / the bar)", title_justify="left", title_style="bold")
    table.add_column("")
    judged: list[tuple[str, dict[str, Verdict]]] = []
    for bar in bars:
        peers = results.get(bar.workload, {})
        found = {
            label: judge(bar, peers, label)
            for label in peers
            if label.startswith("rostra") and bar.only in label
        }
        judged.append((f"{bar.workload} {bar.what}", {label: v for label, v in found.items() if v}))
    labels = list(dict.fromkeys(label for _, verdicts in judged for label in verdicts))
    for label in labels:
        table.add_column(label.removeprefix("rostra, "))
    for what, verdicts in judged:
        if verdicts:
            table.add_row(what, *(str(verdicts.get(label, "")) for label in labels))
    if labels:
        console.print(table)
