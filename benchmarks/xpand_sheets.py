"""What `make xpand-table` shows: the figures of one kind of run as sheets, as pictures and as one page.

    xpand_sim    the simulator      ──▶ report/xpand/simulated.json ─┐
    xpand_table  real processes     ──▶ report/xpand/real.json ──────┴──▶ report/xpand/index.html, *.svg

Both measure the same things and say them with the same structs, so that one set of sheets shows them side by
side. A run that was stopped has written down what it measured until then.
"""

import math
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.status import Status
from rich.table import Table

from benchmarks.figures import percentile

PERIOD_S: Final = 0.1
OLD: Final = ("S1", "S2", "S3", "S4", "S5")
PAPER_MS: Final = {"Sync_Reply": 50, "S1": 60, "S2": 60, "S3": 68, "S4": 68, "S5": 73, "S6": 253}
FIRST_MS: Final = (585.0, 345.0)
PAUSE_MS: Final = (390.0, 230.0)
"""Lower bounds for a view-synchronous group: 1.5 and 1 round trips of the farthest pair; and of the farthest
that a coordinator at MIT has."""

OWN_SHARE_MS: Final = 5.0
GROWTH_MS: Final = 5.0


class FastJoin(Struct, frozen=True):
    """One join, in ms after the snapshot; `asked` before it. J's place in each stream is held from its join's
    notice on, so `first` is often older than the answer that it came with. `fresh` is when J heard the first
    message of each old sender that reached the site after that answer, and `excess` how much later than
    somebody who was there before: the protocol's own share."""

    asked: float
    sync: float
    first: dict[str, float]
    fresh: dict[str, float]
    excess: list[float]
    fellow: float | None = None  # by how much S6's own snapshot came later


class FastJoins(Struct, frozen=True):
    loss: float
    first_of_lan: bool
    joins: list[FastJoin]
    unheard: int = 0  # joins that did not hear everybody in time: counted, not measured


class Smooth(Struct, frozen=True):
    tree: str
    loss: str
    intervals: int
    longest_ms: float  # with joins
    longest_alone_ms: float
    grown_ms: float | None  # the most by which one interval grew; None where the two runs had no common luck
    later_ms: float | None  # the most by which one message came later
    distance: float  # the largest difference of the two cumulative curves
    per_change: dict[str, float]  # datagrams more per change, by way
    arrivals: list[float]
    alone: list[float]


class Continuous(Struct, frozen=True):
    virtual_s: float
    changes: int
    gaps: int
    interval_ms: dict[str, tuple[float, float, float]]  # quiet, changes: p50, p95, p99
    delay_ms: dict[str, tuple[float, float, float]]
    memory: str  # that it is flat
    arrivals: list[tuple[float, float]]  # when, interval in ms


class Grown(Struct, frozen=True):
    sites: int
    receivers: int
    wan_datagrams: int  # for a hundred messages, beyond the joins
    wan_bytes: int
    delegate_pins: int  # kept by a delegate, per sender: its own LAN's receivers, and other LANs
    delegate_members: int  # members elsewhere that it knows of
    joined_s: float  # virtual, until the last receiver was ready
    took_s: float  # real
    cpu_s: float = 0.0
    memory_mb: float = 0.0  # the most that the process had until then


class Ground(Struct, frozen=True):
    """How good the network was, and a bare stream on it."""

    loss: float
    lost: float
    delay_off: float
    delay_off_jittery: float
    as_asked: str
    sent: int
    arrived: int
    off_ms: list[float]
    farthest_ms: float  # the round trip of the farthest pair


class Figures(Struct):
    """Everything that one run has measured so far."""

    what: str  # simulated | real processes
    setting: str
    seed: int
    ground: list[Ground] = []
    fast: list[FastJoins] = []
    smooth: list[Smooth] = []
    continuous: Continuous | None = None
    growth: list[Grown] = []
    excluded: list[str] = []  # members that a group went on without, as they were told

    @property
    def file(self) -> str:
        return f"{self.what.split()[0]}.json"

    def write(self, into: Path) -> None:
        """Now, and again after every piece: whoever stops a run keeps what it has."""
        into.mkdir(parents=True, exist_ok=True)
        (into / self.file).write_bytes(msgspec.json.encode(self))


def show_progress(remarks: Console, progress: Status, piece: str) -> None:
    """In a terminal a line that changes; in a log a line for every tenth join, and for everything new."""
    is_new = progress.status != piece
    progress.update(piece)
    _, _, counted = piece.rpartition(", join ")
    number = counted.partition(" ")[0]
    if is_new and not remarks.is_terminal and (not number.isdigit() or int(number) % 10 == 1):
        remarks.print(f"{time.strftime('%H:%M:%S')} {piece}", markup=False, highlight=False)


def distance(one: Sequence[float], other: Sequence[float], *, digits: int = 3) -> float:
    """The largest difference of two cumulative curves (Kolmogorov and Smirnov). Values that differ by less
    than the clock's own rounding are the same."""
    one, other = sorted(round(x, digits) for x in one), sorted(round(x, digits) for x in other)
    worst, i, j = 0.0, 0, 0
    for value in sorted({*one, *other}):
        while i < len(one) and one[i] <= value:
            i += 1
        while j < len(other) and other[j] <= value:
            j += 1
        worst = max(worst, abs(i / len(one) - j / len(other)))
    return worst


def three(values: Sequence[float]) -> tuple[float, float, float]:
    return (percentile(values, 0.5), percentile(values, 0.95), percentile(values, 0.99))


# Sheets: a table for a terminal and for the page


class Sheet(Struct, frozen=True):
    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    left: int = 0  # so many columns are words
    remark: str = ""

    def show(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left", title_style="bold")
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="left" if number < self.left else "right")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)
        if self.remark:
            console.print(self.remark, soft_wrap=True)

    def html(self) -> str:
        def cells(tag: str, row: Sequence[str]) -> str:
            found = []
            for number, cell in enumerate(row):
                kind = "left" if number < self.left else _KINDS.get(cell, "")
                found.append(f'<{tag} class="{kind}">{escape(cell)}</{tag}>')
            return "".join(found)

        body = "".join(f"<tr>{cells('td', row)}</tr>" for row in self.rows)
        return (
            f"<h3>{escape(self.title)}</h3><div class=scroll><table><thead><tr>{cells('th', self.columns)}"
            f"</tr></thead><tbody>{body}</tbody></table></div>"
            + (f"<p>{escape(self.remark)}</p>" if self.remark else "")
        )


_KINDS: Final = {"yes": "yes", "NO": "no"}


def fast_sheet(found: FastJoins) -> Sheet:
    """8.2, row by row. The bars are for 1 % loss and a delegate that is in."""
    joins, judged = found.joins, not found.first_of_lan and found.loss <= 0.01
    where = "J first of its LAN" if found.first_of_lan else "MIT's delegate already in"
    title = f"fast join, {found.loss:.0%} loss, {where}: {len(joins)} joins, ms after the snapshot"
    columns = ("event at J", "paper", "median", "p95", "accept if", "verdict", "why it differs")
    sync = [join.sync for join in joins]
    asked = [join.asked for join in joins]
    rows: list[tuple[str, ...]] = [
        ("snapshot", "T = 0", "T = 0", "", "", "", f"asked {_two(asked)[0]} ms before (p95 {_two(asked)[1]})")
    ]
    bar = 50.0 if judged else None
    why = (
        "one exchange inside a LAN" if not found.first_of_lan else "one join and one snapshot of the delegate"
    )
    rows.append(("Sync_Reply", "T + 50", *_two(sync), "≤ 50" if bar else "", _verdict(sync, bar), why))
    for name in (*OLD, "S6"):
        values = [join.first[name] for join in joins]
        if name == "S6":
            limit, words = 353.0, "≤ 253 + 100"
            later = [join.fellow for join in joins if join.fellow is not None]
            why = "its own snapshot, then one way"
            if later:
                why = f"its snapshot was {_two(later)[0]} ms later than J's, then one way"
        else:
            limit, words = statistics.median(sync) + 100.0, "≤ Sync_Reply + 100"
            why = "said since J's join was noticed, kept for it, there with the answer"
            if found.first_of_lan:
                why = "one exchange with its site more, then the phase"
        bound = limit if judged else None
        rows.append(
            (
                *(f"first from {name}", f"T + {PAPER_MS[name]}", *_two(values)),
                *(words if judged else "", _verdict(values, bound), why),
            )
        )
    remark = ""
    after = [at - join.sync for join in joins for at in join.fresh.values()]
    if after:
        uniform = [PERIOD_S * 1e3 * (n + 0.5) / len(after) for n in range(len(after))]
        excess = [value for join in joins for value in join.excess]
        remark = (
            f"the first message that reached the site after Sync_Reply: {_two(after)[0]} ms after it (p95 "
            f"{_two(after)[1]}), distance to the uniform law of the period {distance(after, uniform):.3f}; "
            f"excess over the sender's phase, the protocol's own share: median "
            f"{statistics.median(excess):.2f}, p95 {percentile(excess, 0.95):.2f}, most {max(excess):.2f} ms"
        )
        if found.loss == 0.0:
            kept = percentile(excess, 0.95) < OWN_SHARE_MS
            remark += f" (bar: under {OWN_SHARE_MS:g} ms without loss: {'yes' if kept else 'NO'})"
    if found.unheard:
        remark += f"{'; ' if remark else ''}{found.unheard} more joins did not hear everybody in time"
    return Sheet(title, columns, rows, 1, remark)


def smooth_sheet(found: Iterable[Smooth]) -> Sheet:
    rows = []
    paired, grew = True, False
    for one in found:
        alike = 0.02 if one.grown_ms is not None else 1.36 * math.sqrt(2 / one.intervals)
        even = abs(one.longest_ms - 100.0) <= 2.0 if one.loss == "0%" else one.distance < alike
        if one.grown_ms is None or one.later_ms is None:
            paired = False
            grown, later = "-", "-"
            verdict = "yes" if even else "NO"
        else:
            grown, later = f"{one.grown_ms:.1f}", f"{one.later_ms:.1f}"
            kept = one.grown_ms <= GROWTH_MS and even
            grew = grew or one.grown_ms > GROWTH_MS
            verdict = "yes" if kept else "NO, but none later" if one.later_ms <= GROWTH_MS else "NO"
        rows.append(
            (
                *(one.tree, one.loss, str(one.intervals)),
                *(f"{one.longest_ms:.1f}", f"{one.longest_alone_ms:.1f}", grown, later),
                *(f"{one.distance:.3f}", f"{PAUSE_MS[0]:.0f} ({PAUSE_MS[1]:.0f})", verdict),
            )
        )
    remark = ""
    if grew:
        remark = (
            "an interval can also grow because the message before came earlier: with NTU in the group, MIT "
            "is sometimes repaired from there before HUJI's repair arrives"
        )
    if not paired:
        remark = (
            "real networks do not lose the same packets twice, so that intervals are compared as "
            "distributions; of n intervals each, two runs of the same stream are up to 1.36·√(2/n) apart in "
            "nineteen of twenty cases (0.079 for n = 599), and that is the bar here"
        )
    return Sheet(
        "smooth join: HUJI to MIT, five join at a third of the time and leave at two thirds; ms",
        ("tree", "loss", "n", "longest", "alone", "grew by", "later by", "distance", "view sync", "verdict"),
        rows,
        2,
        remark,
    )


def change_sheet(one: Smooth) -> Sheet:
    rows = [(way, f"{more:+.1f}") for way, more in sorted(one.per_change.items())]
    return Sheet("datagrams more per join or leave, without loss", ("way", "datagrams"), rows, 1)


def continuous_sheet(one: Continuous) -> Sheet:
    rows = []
    for name, values in (("interval", one.interval_ms), ("delay", one.delay_ms)):
        quiet, busy = values["quiet"], values["changes"]
        apart = max(abs(b / q - 1.0) for q, b in zip(quiet, busy, strict=True) if q > 0.01)
        numbers = [f"{value:.0f}" for value in (*quiet, *busy)]
        rows.append((name, *numbers, f"{apart:.1%}", "yes" if apart <= 0.05 else "NO"))
    return Sheet(
        f"continuous: {one.virtual_s / 60:.0f} minutes, {one.changes} changes, loss 5 to 20 %; ms",
        ("", "quiet p50", "p95", "p99", "changes p50", "p95", "p99", "most apart", "within 5 %"),
        rows,
        1,
        f"gaps: {one.gaps}; {one.memory}",
    )


def growth_sheet(found: Iterable[Grown]) -> Sheet:
    return Sheet(
        "growth: one sender, 100 messages",
        (
            *("sites", "receivers", "datagrams between sites", "bytes", "streams at a delegate"),
            *("members elsewhere it knows", "last one in after s", "took s", "CPU s", "memory MB"),
        ),
        [
            (
                *(str(one.sites), str(one.receivers), str(one.wan_datagrams), str(one.wan_bytes)),
                *(
                    str(one.delegate_pins),
                    str(one.delegate_members),
                    f"{one.joined_s:.2f}",
                    f"{one.took_s:.0f}",
                    f"{one.cpu_s:.0f}",
                    f"{one.memory_mb:.0f}",
                ),
            )
            for one in found
        ],
    )


def ground_sheets(found: Sequence[Ground]) -> list[Sheet]:
    setting, floor = [], []
    for one in found:
        asked = f"{one.loss:.0%}"
        off = (f"{one.delay_off:.2%}", f"{one.delay_off_jittery:.2%}")
        setting.append((asked, f"{one.lost:.1%}", *off, one.as_asked))
        values = one.off_ms or [float("nan")]
        late = (percentile(values, 0.5), percentile(values, 0.99), max(values))
        floor.append((asked, f"{one.arrived} of {one.sent}", *(f"{each:.2f}" for each in late)))
    return [
        Sheet(
            "setting: is the network as it was asked for? Six ways",
            ("loss asked", "loss", "delay off", "with jitter", "as asked"),
            setting,
        ),
        Sheet(
            "floor: a bare UDP stream, off its 100 ms",
            ("loss asked", "arrived", "p50 ms", "p99 ms", "most ms"),
            floor,
        ),
    ]


def bounds(found: Figures) -> str:
    """The last words: what another protocol could not be better than, and what went wrong here."""
    farthest = next((one.farthest_ms for one in found.ground), 390.0)
    measured = f", measured {farthest:.1f}" if found.ground else ""
    return (
        f"view synchrony, arithmetic on the farthest pair's round trip (390 ms{measured}): the first message "
        f"after a join not before {1.5 * farthest:.0f} ms (with its coordinator at MIT {FIRST_MS[1]:.0f}), a "
        f"pause of at least {farthest:.0f} ms ({PAUSE_MS[1]:.0f}) at every view change; ours: above"
        + (
            f". Told that their group went on without them: {len(found.excluded)} ({found.excluded[0]})"
            if found.excluded
            else ""
        )
    )


def sheets(found: Figures) -> list[Sheet]:
    """All that was measured."""
    made = ground_sheets(found.ground) if found.ground else []
    made += [fast_sheet(each) for each in found.fast if each.joins]
    if found.smooth:
        made.append(smooth_sheet(found.smooth))
        made += [change_sheet(one) for one in found.smooth[:1] if one.per_change]
    if found.continuous is not None:
        made.append(continuous_sheet(found.continuous))
    if found.growth:
        made.append(growth_sheet(found.growth))
    return made


def _two(values: Sequence[float]) -> tuple[str, str]:
    return f"{statistics.median(values):.1f}", f"{percentile(values, 0.95):.1f}"


def _verdict(values: Sequence[float], bound: float | None) -> str:
    return "" if bound is None else "yes" if statistics.median(values) <= bound else "NO"


# Pictures

Points = Sequence[tuple[float, float]]

_INK: Final = """<style>
.rx{--ink:#1c2733;--soft:#5d6b7a;--grid:#dde3e9;--paper:#fff;--a:#1f6f8b;--b:#c8553d;--c:#4f8a4e;--d:#8560a8}
@media (prefers-color-scheme:dark){.rx{--ink:#e4e9ee;--soft:#9fb0c0;--grid:#33404d;--paper:#151b21;
--a:#5cb8d6;--b:#ef8a72;--c:#86c385;--d:#b998dc}}
.rx rect.p{fill:var(--paper)}.rx text{fill:var(--ink);font:12px system-ui,sans-serif}
.rx .t{font-size:14px;font-weight:600}.rx .s{fill:var(--soft)}.rx .g{stroke:var(--grid)}
.rx .m{stroke:var(--soft);stroke-dasharray:4 4}
</style>"""


def plot(
    title: str,
    x: str,
    y: str,
    curves: Mapping[str, Points],
    *,
    line: bool,
    marks: Mapping[str, float] = {},
    bars: Mapping[str, float] = {},
) -> str:
    """A small picture, as text, in the reader's own light or dark. `marks` are places on the way across,
    `bars` on the way up."""
    points = [point for curve in curves.values() for point in curve]
    left, right = min(p[0] for p in points), max([*(p[0] for p in points), *marks.values()])
    left = min(left, 0.0)
    top = max([*(p[1] for p in points), *bars.values()]) * 1.05 or 1.0
    width, height, edge, above = 760, 360, 56, 64
    parts = [
        f'<svg class="rx" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}">{_INK}<rect class="p" width="{width}" height="{height}"/>',
        f'<text class="t" x="{edge}" y="20">{escape(title)}</text>',
        f'<text class="s" x="{width / 2}" y="{height - 8}" text-anchor="middle">{escape(x)}</text>',
        f'<text class="s" x="14" y="{height // 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {height // 2})">{escape(y)}</text>',
    ]

    def across(value: float) -> float:
        return edge + (value - left) / ((right - left) or 1.0) * (width - 2 * edge)

    def up(value: float) -> float:
        return height - 46 - value / top * (height - 46 - above)

    for value in _ticks(0.0, top):
        at = up(value)
        parts.append(f'<line class="g" x1="{edge}" x2="{width - edge}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="s" x="{edge - 6}" y="{at + 4:.1f}" text-anchor="end">{value:g}</text>')
    parts += [
        f'<text class="s" x="{across(value):.1f}" y="{height - 28}" text-anchor="middle">{value:g}</text>'
        for value in _ticks(left, right)
    ]
    for number, (name, value) in enumerate(marks.items()):
        at = across(value)
        parts.append(f'<line class="m" x1="{at:.1f}" x2="{at:.1f}" y1="{above}" y2="{height - 46}"/>')
        anchor, shift = ("end", -5) if at > width / 2 else ("start", 5)
        parts.append(
            f'<text class="s" x="{at + shift:.1f}" y="{height // 2 - 10 + 16 * number}" '
            f'text-anchor="{anchor}">{escape(name)}</text>'
        )
    for name, value in bars.items():
        at = up(value)
        parts.append(f'<line class="m" x1="{edge}" x2="{width - edge}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(
            f'<text class="s" x="{width - edge}" y="{at - 5:.1f}" text-anchor="end">{escape(name)}</text>'
        )
    place = float(edge)
    for number, (name, curve) in enumerate(curves.items()):
        colour = f"var(--{'abcd'[number % 4]})"
        where = [(f"{across(px):.1f}", f"{up(py):.1f}") for px, py in curve]
        if line:
            path = " ".join(f"{a},{b}" for a, b in where)
            parts.append(
                f'<polyline points="{path}" fill="none" style="stroke:{colour}" stroke-width="1.6"/>'
            )
        else:
            dots = "".join(f'<circle cx="{a}" cy="{b}" r="1.8"/>' for a, b in where)
            parts.append(f'<g style="fill:{colour}" fill-opacity="0.6">{dots}</g>')
        parts.append(f'<rect x="{place:.0f}" y="34" width="10" height="10" style="fill:{colour}"/>')
        parts.append(f'<text x="{place + 15:.0f}" y="44">{escape(name)}</text>')
        place += 34 + 7.0 * len(name)
    return "\n".join([*parts, "</svg>\n"])


def _ticks(low: float, high: float) -> list[float]:
    """Five or so round numbers."""
    rough = (high - low) / 5 or 1.0
    size = 10.0 ** len(str(int(rough))) / 10 if rough >= 1 else 0.1
    step = next(size * each for each in (1, 2, 2.5, 5, 10) if size * each >= rough)
    first = -(-low // step) * step
    return [first + n * step for n in range(int((high - first) / step) + 1)]


def pictures(found: Figures) -> dict[str, str]:
    """By name of the file."""
    made = {}
    kind = found.what.split()[0]
    row = next((each for each in found.fast if each.loss == 0.01 and not each.first_of_lan), None)
    row = row or next((each for each in found.fast if each.joins), None)
    if row is not None and row.joins:
        curves = {}
        for name in ("S1", "S5", "S6"):
            values = sorted(join.first[name] for join in row.joins)
            curves[f"first from {name}"] = [(v, 100.0 * (n + 1) / len(values)) for n, v in enumerate(values)]
        made[f"fast-join-{kind}.svg"] = plot(
            f"Figure 9(a), {found.what}: the first message after the snapshot, {row.loss:.0%} loss",
            "ms after the snapshot",
            "% of joins",
            curves,
            line=True,
            marks={
                "paper: S5": float(PAPER_MS["S5"]),
                "paper: S6": float(PAPER_MS["S6"]),
                "view synchrony, at least": FIRST_MS[0],
                "and with its coordinator at MIT": FIRST_MS[1],
            },
        )
    for loss in dict.fromkeys(one.loss for one in found.smooth):
        one = next(one for one in found.smooth if one.loss == loss)
        began = min(one.arrivals[0], one.alone[0]) if kind == "simulated" else None
        curves = {
            name: [(b - (values[0] if began is None else began), (b - a) * 1e3) for a, b in pairwise(values)]
            for name, values in (("with joins", one.arrivals), ("alone", one.alone))
        }
        word = loss.replace("%", "")
        made[f"smooth-join-{word}-{kind}.svg"] = plot(
            f"Figure 9(b), {found.what}: intervals at MIT, {loss} loss",
            "s; five join at a third of the time and leave at two thirds",
            "ms",
            curves,
            line=False,
            bars={"a view-synchronous group pauses at least this long": PAUSE_MS[0]},
        )
    if found.continuous is not None:
        quiet = [p for p in found.continuous.arrivals if int(p[0] // 60) % 2 == 0]
        busy = [p for p in found.continuous.arrivals if int(p[0] // 60) % 2]
        made[f"continuous-{kind}.svg"] = plot(
            f"Figure 8(b), {found.what}: intervals at MIT, loss 5 to 20 %",
            "s; minutes with a change every 500 ms beside quiet ones",
            "ms",
            {"quiet": quiet, "changes": busy},
            line=False,
        )
    return made


# The page

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>Xpand's figures, reproduced</title>
<style>
:root{color-scheme:light dark;--ink:#1c2733;--soft:#5d6b7a;--line:#dde3e9;--paper:#fff;
--yes:#2f7a3d;--no:#b3401f}
@media (prefers-color-scheme:dark){:root{--ink:#e4e9ee;--soft:#9fb0c0;--line:#33404d;--paper:#151b21;
--yes:#86c385;--no:#ef8a72}}
body{margin:0 auto;max-width:1000px;padding:24px 16px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:24px}h2{margin-top:40px;border-bottom:1px solid var(--line)}h3{margin:28px 0 6px;font-size:15px}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:4px 10px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--soft);font-weight:600}.left,td:last-child,th:last-child{text-align:left}
.yes{color:var(--yes);font-weight:600}.no{color:var(--no);font-weight:600}p{color:var(--soft);max-width:80ch}
svg{width:100%;height:auto;margin:12px 0}
</style></head><body>
"""


def page(runs: Sequence[Figures]) -> str:
    parts = [
        _PAGE,
        "<h1>Fast, smooth and continuous: the Xpand paper's figures, reproduced</h1><p>Jerusalem, Cambridge "
        "and Taipei, round trips of 230, 230 and 390 ms, one message per sender every 100 ms. Ours beside "
        "the paper's values; nothing is tuned to them, and what differs is explained in its row.</p>",
    ]
    for found in runs:
        parts.append(
            f"<h2>{escape(found.what.capitalize())}</h2><p>{escape(found.setting)}; seed {found.seed}.</p>"
        )
        parts += pictures(found).values()
        parts += [sheet.html() for sheet in sheets(found)]
        parts.append(f"<p>{escape(bounds(found))}</p>")
    return "\n".join([*parts, "</body></html>\n"])


def draw(into: Path) -> Path:
    """The page and every picture, of all runs whose figures are there."""
    runs = [
        msgspec.json.decode((into / name).read_bytes(), type=Figures)
        for name in ("real.json", "simulated.json")
        if (into / name).exists()
    ]
    for found in runs:
        for name, picture in pictures(found).items():
            (into / name).write_text(picture)
    (into / "index.html").write_text(page(runs))
    return into / "index.html"
