"""Plots as SVG text, for light and dark pages, without a script or a library.

Every plot is one element of a fixed drawing width that scales with its page; colours are names that the
page's style gives a value (`--c0` to `--c7`, `--ink`, `--faint`), so one drawing serves both schemes.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

WIDE, NARROW = 1080, 540
"""Drawing widths: of a plot across the page, and of one beside another. Text keeps its size in both."""

LEFT, RIGHT, TOP, BOTTOM = 52, 12, 10, 22
COLOURS: Final = 8

Point = tuple[float, float]


class Bar(NamedTuple):
    label: str
    value: float
    text: str  # what is written beside it
    mark: float | None = None  # where it should have been
    colour: int = 0


def lines(series: Mapping[str, Sequence[Point]], *, ticks: Mapping[float, str], steps: bool = True) -> str:
    """Values over time, one line per name. Steps hold their value until the next point."""
    points = [point for line in series.values() for point in line]
    if not points:
        return nothing()
    height = 220
    x0, x1 = min(x for x, _ in points), max(x for x, _ in points)
    top = nice(max(y for _, y in points))
    drawn = [_axes(WIDE, height, top), *_ticks(ticks, x0, x1, WIDE, height)]
    for number, (name, line) in enumerate(series.items()):
        path: list[str] = []
        before: float | None = None
        for x, y in line:
            px, py = _x(x, x0, x1, WIDE), _y(y, top, height)
            if steps and before is not None:
                path.append(f"H{px:.1f}V{py:.1f}")
            else:
                path.append(f"{'L' if path else 'M'}{px:.1f},{py:.1f}")
            before = py
        if steps:
            path.append(f"H{WIDE - RIGHT}")
        colour = f"var(--c{number % COLOURS})"
        drawn.append(
            f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="1.6">'
            f"<title>{escape(name)}</title></path>"
        )
    return _svg(WIDE, height, drawn) + legend(list(series))


def stacked(
    columns: Sequence[tuple[float, Sequence[float]]],
    names: Sequence[str],
    *,
    width: float,
    ticks: Mapping[float, str],
) -> str:
    """Counts per stretch of time, one colour per kind, one on the other."""
    if not columns:
        return nothing()
    height = 180
    x0, x1 = columns[0][0], columns[-1][0] + width
    top = nice(max(sum(values) for _, values in columns))
    drawn = [_axes(NARROW, height, top), *_ticks(ticks, x0, x1, NARROW, height, every=2)]
    wide = max(1.0, _x(x0 + width, x0, x1, NARROW) - _x(x0, x0, x1, NARROW) - 0.5)
    for x, values in columns:
        base = 0.0
        for number, value in enumerate(values):
            if value:
                upper, lower = _y(base + value, top, height), _y(base, top, height)
                drawn.append(
                    f'<rect x="{_x(x, x0, x1, NARROW):.1f}" y="{upper:.1f}" width="{wide:.1f}" '
                    f'height="{max(0.5, lower - upper):.1f}" fill="var(--c{number % COLOURS})">'
                    f"<title>{escape(names[number])}: {value:g}</title></rect>"
                )
                base += value
    return _svg(NARROW, height, drawn) + legend(names)


def bars(rows: Sequence[Bar], *, top: float | None = None) -> str:
    """One bar per row, its label on the left; a mark shows what was expected."""
    if not rows:
        return nothing()
    step, label_width = 20, 190
    height = step * len(rows) + 6
    most = top or max(max(row.value, row.mark or 0.0) for row in rows) or 1.0
    room = NARROW - label_width - 150
    drawn: list[str] = []
    for number, row in enumerate(rows):
        y = number * step + 4
        wide = max(0.0, min(1.0, row.value / most)) * room
        beside = max(wide, min(1.0, (row.mark or 0.0) / most) * room)  # text stands clear of the mark
        fill = f"var(--c{row.colour})"
        drawn.append(
            f'<text x="{label_width - 8}" y="{y + 11}" text-anchor="end" class="label">'
            f"{escape(_short(row.label))}<title>{escape(row.label)}</title></text>"
            f'<rect x="{label_width}" y="{y}" width="{wide:.1f}" height="13" fill="{fill}" rx="2"/>'
            f'<text x="{label_width + beside + 6:.1f}" y="{y + 11}" class="value">{escape(row.text)}</text>'
        )
        if row.mark is not None:
            x = label_width + min(1.0, row.mark / most) * room
            drawn.append(f'<path d="M{x:.1f},{y - 2}v17" stroke="var(--ink)" stroke-width="2"/>')
    return _svg(NARROW, height, drawn)


def legend(names: Sequence[str]) -> str:
    if len(names) < 2:
        return ""
    keys = "".join(
        f'<span><i style="background:var(--c{number % COLOURS})"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return f'<p class="legend">{keys}</p>'


def nothing(why: str = "Nothing of the kind is in this history.") -> str:
    return f'<p class="nothing">{escape(why)}</p>'


def nice(value: float) -> float:
    """A round number that is not smaller."""
    if value <= 0:
        return 1.0
    size = 1.0
    while size * 10 <= value:
        size *= 10
    while size > value:
        size /= 10
    return next(size * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if size * step >= value)


def _axes(width: int, height: int, top: float) -> str:
    rows = []
    for share in (0.0, 0.5, 1.0):
        y = _y(top * share, top, height)
        rows.append(
            f'<path d="M{LEFT},{y:.1f}H{width - RIGHT}" stroke="var(--faint)"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" class="tick">{top * share:g}</text>'
        )
    return "".join(rows)


def _ticks(
    ticks: Mapping[float, str], x0: float, x1: float, width: int, height: int, every: int = 1
) -> list[str]:
    return [
        f'<text x="{_x(x, x0, x1, width):.1f}" y="{height - 6}" text-anchor="middle" class="tick">'
        f"{escape(text)}</text>"
        for x, text in list(ticks.items())[::every]
        if x0 <= x <= x1
    ]


def _x(x: float, x0: float, x1: float, width: int) -> float:
    return LEFT + (width - LEFT - RIGHT) * ((x - x0) / (x1 - x0) if x1 > x0 else 0.0)


def _y(y: float, top: float, height: int) -> float:
    return TOP + (height - TOP - BOTTOM) * (1 - y / top)


def _svg(width: int, height: int, drawn: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(drawn)}</svg>'


def _short(text: str, most: int = 29) -> str:
    return text if len(text) <= most else f"…{text[-most + 1 :]}"
