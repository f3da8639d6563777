"""One self-contained page: words, tables, and figures as SVG inside it."""

import io
from collections.abc import Iterable, Sequence
from html import escape

from matplotlib.figure import Figure

from benchmarks.congress_report.counts import KINDS, LEVELS, Counted
from benchmarks.congress_report.drawings import Handled, Schema
from benchmarks.congress_report.experiments import Experiment

STYLE = """
body { font: 16px/1.55 Georgia, serif; color: #1f2a36; margin: 3rem auto; max-width: 60rem; padding: 0 2ex }
h1, h2, h3 { font-weight: normal; line-height: 1.2 }
h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem }
table { border-collapse: collapse; font: 13px/1.4 ui-monospace, monospace; margin: 1rem 0 }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #e5e5e5; vertical-align: top }
th { font-weight: bold; border-bottom-color: #1f2a36 }
td:first-child, th:first-child, table.words td, table.words th { text-align: left }
.claim { font-style: italic }
.setting { color: #5a6672; font-size: .9em }
.scroll { overflow-x: auto }
svg { max-width: 100%; height: auto }
"""


def page(title: str, parts: Iterable[str]) -> str:
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style>"
        f"<h1>{escape(title)}</h1>{''.join(parts)}</html>\n"
    )


def svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    drawing = text.getvalue()
    return drawing[drawing.index("<svg") :]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{escape(column)}" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}' for cell in row)}" for row in rows)
    return f"<div class=scroll><table class='{kind}'><tr>{head}{body}</table></div>"


def experiment(found: Experiment) -> str:
    return (
        f"<h2>{found.name}. {escape(found.title)}</h2><p class=claim>{escape(found.claim)}"
        f"<p>{escape(found.finding)}{svg(found.figure)}{table(found.columns, found.rows)}"
        f"<p class=setting>{escape(found.setting)}"
    )


def counts(counted: Iterable[Counted], ranges: dict[str, dict[str, tuple[int, int]]]) -> str:
    rows = [
        (
            one.step,
            *(_count(one, kind) for kind in KINDS),
            *(str(one.levels.get(level, 0) or "") for level in LEVELS),
            "as it must be" if one.as_expected else "NOT AS IT MUST BE",
        )
        for one in counted
    ]
    rows += [
        (
            step,
            *(f"{least}..{most}" if most else "" for least, most in found.values()),
            *("" for _ in LEVELS),
            "depends on order",
        )
        for step, found in ranges.items()
    ]
    return (
        "<h2>Messages per step</h2><p>The reference tree, everything up and synced, one group, quiet before "
        "each step; by kind, and by level of the links they crossed. Equal questions share no answers here."
        + table(("step", *KINDS.values(), *LEVELS.values(), ""), rows)
    )


def _count(one: Counted, kind: str) -> str:
    found, expected = one.kinds.get(kind, 0), one.expected.get(kind, 0)
    return (str(found) if found else "") if found == expected else f"{found}, not {expected}"


def schema_tables(title: str, schemas: Iterable[Schema]) -> str:
    rows = [
        (
            str(one.number),
            one.name,
            ", ".join(f"{field.name}: {field.kind}" for field in one.fields),
            one.about,
        )
        for one in schemas
    ]
    return f"<h3>{escape(title)}</h3>" + table(("number", "message", "fields", ""), rows, "words")


def handlers(title: str, handled: Iterable[Handled]) -> str:
    rows = [(one.event, one.handler.lstrip("_"), " ".join(one.rules)) for one in handled]
    return f"<h3>{escape(title)}</h3>" + table(("event", "handler", "rules it names"), rows, "words")


def drawing(title: str, about: str, figure: Figure) -> str:
    return f"<h2>{escape(title)}</h2><p>{escape(about)}{svg(figure)}"
