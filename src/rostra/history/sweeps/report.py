"""The result of a sweep: detection time against false suspicions, and the settings that we would choose.

Both should be small, and one is a trade-off against the other. Settings that others beat in both are dropped.
Of the rest we take those that never gave up a living neighbour, and among those within a tenth of the
shortest detection time the one with the fewest false suspicions.
"""

from collections.abc import Iterable, Sequence
from html import escape
from statistics import median
from typing import Any, Final

from msgspec import Struct

from rostra.history.plots import nice

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 720, 332, 64, 42, 26, 14
NEAR: Final = 1.1


class Point(Struct, frozen=True):
    """All seeds of one topology, loss and settings."""

    topology: str
    loss: float
    settings: str
    label: str
    runs: int
    failed: int
    told_s: float  # until the last observer knew: the middle one of all seeds
    worst_s: float
    per_link_hour: float  # suspected in vain: the mean
    given_up: int
    packets_per_link_s: float
    unseen: int  # runs in which no host noticed the crash


class Choice(Struct, frozen=True):
    topology: str
    loss: float
    chosen: Point | None
    why: str


def points(rows: Iterable[dict[str, Any]]) -> list[Point]:
    """One for each topology, loss and settings, in the order of the file's names."""
    gathered: dict[tuple[str, float, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        gathered.setdefault((row["topology"], row["loss"], row["settings"], row["label"]), []).append(row)
    return [_point(key, some) for key, some in sorted(gathered.items())]


def _point(key: tuple[str, float, str, str], rows: Sequence[dict[str, Any]]) -> Point:
    good = [row for row in rows if not row["error"]]
    told = [row["told_s"] for row in good if row["told_s"] is not None]
    return Point(
        *key,
        runs=len(rows),
        failed=len(rows) - len(good),
        told_s=median(told) if told else float("inf"),
        worst_s=max(told, default=float("inf")),
        per_link_hour=sum(row["per_link_hour"] for row in good) / max(1, len(good)),
        given_up=sum(row["given_up"] for row in good),
        packets_per_link_s=sum(row["packets_per_link_s"] for row in good) / max(1, len(good)),
        unseen=sum(row["told_s"] is None for row in good),
    )


def choices(found: Sequence[Point]) -> list[Choice]:
    """The settings for each topology and loss; and for each topology as a whole (loss -1): those that hold on
    every network that was tried."""
    named = []
    for topology in dict.fromkeys(point.topology for point in found):
        here = [point for point in found if point.topology == topology]
        named += [
            _choose(topology, loss, [point for point in here if point.loss == loss])
            for loss in sorted({point.loss for point in here})
        ]
        named.append(_choose(topology, -1.0, [_worst(some) for some in _by_label(here)]))
    return named


def _by_label(found: Sequence[Point]) -> list[list[Point]]:
    labels = dict.fromkeys((point.settings, point.label) for point in found)
    return [[point for point in found if (point.settings, point.label) == each] for each in labels]


def _worst(found: Sequence[Point]) -> Point:
    first = found[0]
    return Point(
        first.topology,
        -1.0,
        first.settings,
        first.label,
        runs=sum(point.runs for point in found),
        failed=sum(point.failed for point in found),
        told_s=max(point.told_s for point in found),
        worst_s=max(point.worst_s for point in found),
        per_link_hour=max(point.per_link_hour for point in found),
        given_up=sum(point.given_up for point in found),
        packets_per_link_s=max(point.packets_per_link_s for point in found),
        unseen=sum(point.unseen for point in found),
    )


def _choose(topology: str, loss: float, found: Sequence[Point]) -> Choice:
    sound = [point for point in found if not (point.given_up or point.failed or point.unseen)]
    if not sound:
        return Choice(topology, loss, None, "every setting gave up somebody that was alive: more patience")
    quickest = min(point.told_s for point in sound)
    near = [point for point in sound if point.told_s <= quickest * NEAR]
    best = min(near, key=lambda point: (point.per_link_hour, point.packets_per_link_s, point.told_s))
    return Choice(
        topology,
        loss,
        best,
        f"a crash is known everywhere after {best.told_s:.2f} s (at worst {best.worst_s:.2f} s), nobody "
        f"alive was given up in {best.runs} runs, {best.per_link_hour:.2g} in vain per link and hour",
    )


def page(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """One self-contained page, to be looked at."""
    found = points(rows)
    failed = [row for row in rows if row["error"]]
    parts = [f"<h1>{escape(name)}</h1><p>{len(rows)} runs, {len(failed)} of them failed.</p>"]
    chosen = choices(found)
    for topology in dict.fromkeys(point.topology for point in found):
        parts.append(f"<h2>{escape(topology)}</h2>")
        for choice in (each for each in chosen if each.topology == topology):
            where = "On all of them" if choice.loss < 0 else f"Losing {choice.loss:.1%} of packets"
            best = "nothing fits" if choice.chosen is None else choice.chosen.label
            parts.append(f"<p>{where}: <b>{escape(best)}</b>; {escape(choice.why)}.</p>")
        for loss in sorted({point.loss for point in found if point.topology == topology}):
            here = [point for point in found if (point.topology, point.loss) == (topology, loss)]
            best_of = next(each.chosen for each in chosen if (each.topology, each.loss) == (topology, loss))
            parts.append(f"<h3>losing {loss:.1%} of packets</h3>{curve(here, best_of)}{_table(here)}")
    if failed:
        some = "".join(
            f"<li>{escape(row['run'])}: <pre>{escape(row['error'])}</pre></li>" for row in failed[:20]
        )
        parts.append(f"<h2>Failed</h2><ul>{some}</ul>")
    return _PAGE.format(title=escape(name), body="\n".join(parts))


def curve(found: Sequence[Point], chosen: Point | None = None) -> str:
    """Each settings as a point: to the right is later, higher is more false suspicions. Crossed out: it gave
    up a living neighbour."""
    drawn = [point for point in found if point.told_s != float("inf")]
    if not drawn:
        return "<p>Nothing was measured.</p>"
    right = nice(max(point.told_s for point in drawn) * 1.02)
    top = nice(max(max(point.per_link_hour for point in drawn) * 1.02, 1.0))
    names = list(dict.fromkeys(point.settings for point in drawn))
    out = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = LEFT + (WIDTH - LEFT - RIGHT) * share, HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share
        out.append(f'<path d="M{LEFT},{y:.1f}H{WIDTH - RIGHT}" class="grid"/>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{top * share:.3g}</text>')
        out.append(
            f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{right * share:.3g}</text>'
        )
    out.append(
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">seconds until the last one knew</text>'
    )
    out.append('<text x="4" y="11">suspected in vain, per link and hour</text>')
    for point in drawn:
        x = LEFT + (WIDTH - LEFT - RIGHT) * point.told_s / right
        y = HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * point.per_link_hour / top
        measured = f"{point.told_s:.2f} s, {point.per_link_hour:.3g} in vain, {point.given_up} given up"
        title = f"{point.label}: {measured}"
        colour = f"var(--c{names.index(point.settings) % 4})"
        out.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"><title>{escape(title)}</title></circle>'
        )
        if point.given_up:
            out.append(f'<path d="M{x - 7:.1f},{y - 7:.1f}l14,14m0,-14l-14,14" class="cross"/>')
        if point is chosen:
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="10" class="chosen"/>')
    keys = " ".join(
        f'<i style="background:var(--c{n % 4})"></i>{escape(each)}' for n, each in enumerate(names)
    )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">{"".join(out)}</svg><p class="keys">{keys}</p>'


def _table(found: Sequence[Point]) -> str:
    head = "<tr><th>settings<th>known after<th>at worst<th>in vain per link and hour<th>given up<th>packets/s"
    rows = "".join(
        f"<tr><td>{escape(point.label)}<td>{point.told_s:.2f} s<td>{point.worst_s:.2f} s"
        f"<td>{point.per_link_hour:.3g}<td>{point.given_up}<td>{point.packets_per_link_s:.2f}"
        for point in sorted(found, key=lambda point: point.told_s)
    )
    return f"<table>{head}{rows}</table>"


_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #222; --faint: #ddd;
  --c0: #1767a8; --c1: #c2571a; --c2: #3d7d3d; --c3: #7d4fa3 }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #ddd; --faint: #444; --c0: #6db3ea; --c1: #f0935a }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 760px; margin: 2em auto; padding: 0 1em;
  color: var(--ink) }}
svg text {{ font-size: 11px; fill: var(--ink) }} .grid {{ stroke: var(--faint) }}
.cross {{ stroke: var(--ink); stroke-width: 2 }} .chosen {{ fill: none; stroke: var(--ink); stroke-width: 2 }}
i {{ display: inline-block; width: 10px; height: 10px; border-radius: 5px; margin: 0 4px 0 12px }}
table {{ border-collapse: collapse; width: 100% }} th, td {{ text-align: left; padding: 2px 8px 2px 0 }}
</style>
{body}
</html>
"""
