"""One page that shows a history: to look at rather than to read.

    events ──▶ questions ──▶ a few hundred numbers each ──▶ plots ──▶ one HTML file, complete in itself

Every plot is of numbers that Spark has already made small; nothing here grows with the history. Times are
UTC.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, Final

from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history import plots
from rostra.history.audits import PROMISES, Evidence, judge
from rostra.history.audits.facts import AuditedLife
from rostra.history.plots import Bar
from rostra.history.questions.availability import availability
from rostra.history.questions.churn import churn
from rostra.history.questions.convergence import EVERYBODY, convergence
from rostra.history.questions.flaps import flaps
from rostra.history.questions.size import size
from rostra.history.questions.spread import spread
from rostra.history.questions.traffic import traffic
from rostra.history.runs import Key
from rostra.history.shape import every

COLUMNS: Final = 120
"""Stretches of time in one plot."""

GROUPS: Final = 8
BARS: Final = 12


class Span(Struct, frozen=True):
    """What a report is about: a time, cut into stretches."""

    first: float  # seconds since 1970
    last: float
    rows: int
    worlds: tuple[str, ...]

    @property
    def stretch_s(self) -> float:
        """A round length, so that at most so many stretches fit."""
        shortest = max(self.last - self.first, 0.001) / COLUMNS
        steps = (0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400)
        return next((float(step) for step in steps if step >= shortest), 86400.0 * 7)

    @property
    def ticks(self) -> dict[float, str]:
        length = self.last - self.first
        form = "%d %b" if length > 3 * 86400 else "%d %b %H:%M" if length > 86400 else "%H:%M:%S"
        return {
            at: datetime.fromtimestamp(at, UTC).strftime(form)
            for at in (self.first + length * (0.08 + 0.168 * step) for step in range(6))
        }


def report(events: DataFrame, left_out: Iterable[str] = (), contradicted: Iterable[Key] = ()) -> str:
    """The page. What is left out or contradicted: see `Evidence`."""
    with Evidence(events, left_out, contradicted) as evidence:
        span = _span(evidence.facts.lives)
        if span is None:
            why = plots.nothing("There are no rows in this history.")
            return _page("An empty history", [("Nothing", "", why)])
        sections = list(_sections(evidence, span))
    when = " to ".join(
        datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S") for at in (span.first, span.last)
    )
    worlds = ", ".join(span.worlds[:4]) + (
        f" and {len(span.worlds) - 4} more" if len(span.worlds) > 4 else ""
    )
    return _page(f"{worlds}: {when} UTC", sections, f"{span.rows:,} rows. Clocks of hosts may differ.")


def _sections(evidence: Evidence, span: Span) -> Iterator[tuple[str, str, str]]:
    for title, about, draw in (
        ("Promises", "Judged on Spark over every row; the number is how many things were judged.", _promises),
        ("Size of groups", "True members, counted at home.", _sizes),
        ("Churn", "What came and went, at home; and members lost from sight, and back.", _churn),
        ("Spread", "Where the members were at the end, by region.", _spread),
        (
            "Convergence",
            "Until the last observer knew: bars are the median, marks the 99th percentile.",
            _convergence,
        ),
        ("Suspicions", "Links overdue, heard again in time, and given up.", _suspicions),
        ("Availability", "The lowest shares of the time.", _availability),
        ("Flaps", "The least stable members, links and domains.", _flaps),
        ("Traffic", "Messages sent, by level; marks are what the hierarchy had to send.", _traffic),
    ):
        yield title, about, draw(evidence, span)


def _span(lives: list[AuditedLife]) -> Span | None:
    if not lives:
        return None
    first, last = min(life.began_at for life in lives), max(life.last_at for life in lives)
    worlds = sorted({life.world for life in lives})
    return Span(first / 1e6, last / 1e6, sum(life.rows for life in lives), tuple(worlds))


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    """A small answer, times as seconds."""
    timed = [
        F.col(name) if kind != "timestamp" else (F.unix_micros(name) / 1e6).alias(name)
        for name, kind in frame.dtypes
    ]
    return [row.asDict() for row in frame.select(*timed).collect()]


def _sizes(evidence: Evidence, span: Span) -> str:
    sizes = size(evidence.memberships, span.stretch_s)
    largest = sizes.groupBy("world", "group").agg(F.max("members").alias("most"))
    chosen = largest.orderBy(F.desc("most"), "world", "group").limit(GROUPS)
    found = _rows(sizes.join(F.broadcast(chosen), ["world", "group"]).orderBy(F.desc("most"), "group", "at"))
    series: dict[str, list[plots.Point]] = {}
    for row in found:
        name = row["group"] if len(span.worlds) == 1 else f"{row['group']} in {row['world']}"
        series.setdefault(name, [(span.first, 0.0)]).append((max(row["at"], span.first), row["members"]))
    return plots.lines(series, ticks=span.ticks)


def _churn(evidence: Evidence, span: Span) -> str:
    names = ("joins", "leaves", "crashes", "lost", "back")
    counted = (
        churn(evidence.events, span.stretch_s).groupBy("at").agg(*(F.sum(name).alias(name) for name in names))
    )
    found = _rows(counted.orderBy("at"))
    columns = [(row["at"], [float(row[name]) for name in names]) for row in found]
    said = ("joins", "leaves", "crashes", "lost from sight", "back in sight")
    return plots.stacked(columns, said, width=span.stretch_s, ticks=span.ticks)


def _spread(evidence: Evidence, span: Span) -> str:
    at_the_end = datetime.fromtimestamp(span.last, UTC)
    placed = spread(evidence.memberships, at_the_end).where(F.col("depth") == 1)
    summed = placed.groupBy("domain").agg(F.sum("members").alias("members"), F.sum("hosts").alias("hosts"))
    found = _rows(summed.orderBy(F.desc("members"), "domain").limit(BARS))
    if not found:
        return plots.nothing("Nobody was in any group at the end.")
    return plots.bars([Bar(row["domain"], row["members"], f"{row['members']} members") for row in found])


def _convergence(evidence: Evidence, span: Span) -> str:
    order = ("host", "cluster", "region", "world", EVERYBODY)
    found = _rows(convergence(evidence.events))
    found.sort(key=lambda row: (row["change"], order.index(row["distance"]), row["world"]))
    negative = sum(row["negative"] for row in found if row["distance"] == EVERYBODY)
    drawn = plots.bars(
        [
            Bar(
                f"{row['change']}, {row['distance']}",
                max(0.0, row["p50_s"]),
                f"{_short_time(row['p50_s'])}, 99 % within {_short_time(row['p99_s'])}",
                max(0.0, row["p99_s"]),
                int(row["change"] == "left"),
            )
            for row in found[: 2 * BARS]
        ]
    )
    if negative:
        drawn += f'<p class="warn">{negative} changes were heard of before they happened: clocks differ.</p>'
    return drawn


def _suspicions(evidence: Evidence, span: Span) -> str:
    kinds = {"link-suspected": "overdue", "link-trusted": "heard again in time", "link-down": "given up"}
    counted = (
        evidence.events.where(F.col("kind").isin(*kinds))
        .groupBy(every(span.stretch_s, F.col("at")).alias("at"))
        .agg(*(F.count_if(F.col("kind") == kind).alias(kind) for kind in kinds))
    )
    columns = [(row["at"], [float(row[kind]) for kind in kinds]) for row in _rows(counted.orderBy("at"))]
    return plots.stacked(columns, list(kinds.values()), width=span.stretch_s, ticks=span.ticks)


def _availability(evidence: Evidence, span: Span) -> str:
    found = _rows(
        availability(evidence.events, evidence.alive)
        .where((F.col("what") != "endpoint") & (F.col("share") < 1))  # programs end when they want to
        .orderBy("share", "what", "name", "seen_by")
        .limit(BARS)
    )
    if not found:
        return plots.nothing("Every host, server and link was there all the time.")
    kinds = ("endpoint", "host", "domain", "link")
    return plots.bars(
        [
            Bar(
                f"{row['what']} {row['name']}" + (f" by {row['seen_by']}" if row["what"] == "link" else ""),
                row["share"],
                f"{100 * row['share']:.2f} %",
                colour=kinds.index(row["what"]),
            )
            for row in found
        ],
        top=1.0,
    )


def _flaps(evidence: Evidence, span: Span) -> str:
    worst = (
        flaps(evidence.events)
        .orderBy(F.desc("times"), F.desc("suspected"), "what", "name", "seen_by")
        .limit(BARS)
    )
    kinds = ("member", "link", "domain")
    return plots.bars(
        [
            Bar(
                f"{row['what']} {row['name']}" + (f" by {row['seen_by']}" if row["seen_by"] else ""),
                row["times"],
                f"{row['times']} time{'s' * (row['times'] != 1)}"
                + (f", {row['suspected']} overdue" if row["suspected"] else ""),
                colour=kinds.index(row["what"]),
            )
            for row in _rows(worst)
        ]
    )


def _traffic(evidence: Evidence, span: Span) -> str:
    summed = (
        traffic(evidence.events, one_in=max(1, span.rows // 5_000_000))
        .where(~F.col("message").isin("Beat", "frame"))
        .groupBy("message", "link_level")
        .agg(F.sum("messages").alias("messages"), F.sum("needed").alias("needed"))
    )
    found = _rows(summed.orderBy(F.desc("messages"), "message", "link_level").limit(BARS))
    return plots.bars(
        [
            Bar(
                f"{row['message']}, level {row['link_level']}",
                row["messages"],
                f"{row['messages']:,}"
                + (f", {row['messages'] / row['needed']:.2f} x needed" if row["needed"] else ""),
                row["needed"],
                row["link_level"] % plots.COLOURS,
            )
            for row in found
        ]
    )


def _promises(evidence: Evidence, span: Span) -> str:
    lines: list[str] = []
    for name, promise in PROMISES.items():
        rows = judge(evidence, name)
        rank = {"no": 0, "cannot tell": 1, "yes": 2}
        rows.sort(key=lambda row: (rank[row["answer"]], row["world"]))
        worst = rows[0]
        judged = sum(row["judged"] for row in rows)
        style = {"no": "no", "cannot tell": "maybe", "yes": "yes"}[worst["answer"]]
        lines.append(
            f"<tr><td><b>{escape(name)}</b><br><small>{escape(promise.says)}</small></td>"
            f'<td class="{style}">{escape(worst["answer"])}</td><td class="number">{judged:,}</td>'
            f"<td>{escape(worst['why'] or '')}</td></tr>"
        )
    head = "<tr><th>promise</th><th>kept?</th><th>judged</th><th></th></tr>"
    return f"<table>{head}{''.join(lines)}</table>"


def _short_time(value: float) -> str:
    return f"{value * 1e3:.1f} ms" if abs(value) < 1 else f"{value:.2f} s"


STYLE: Final = """
:root{color-scheme:light dark;--paper:#fcfcfa;--ink:#1d2129;--quiet:#68707c;--faint:#e2e4e8;--card:#fff;
--c0:#3b6fb6;--c1:#d9822b;--c2:#c23b4a;--c3:#7a5fb0;--c4:#3f9168;--c5:#8d6e53;--c6:#c464a0;--c7:#6b7a89}
@media(prefers-color-scheme:dark){:root{--paper:#14171c;--ink:#e6e8eb;--quiet:#98a1ad;--faint:#2c323b;
--card:#1b1f26;--c0:#6ea4ea;--c1:#f0a65a;--c2:#ef6f7c;--c3:#a78fe0;--c4:#6cc596;--c5:#bf9c7d;--c6:#e894c6;
--c7:#9aa8b6}}
body{font:15px/1.5 system-ui,sans-serif;background:var(--paper);color:var(--ink);margin:0 auto;
max-width:1180px;padding:24px}
h1{font-size:22px;margin:0}h2{font-size:16px;margin:0}
header p,section>p,.nothing{color:var(--quiet);margin:2px 0 10px}
main{display:grid;grid-template-columns:repeat(auto-fit,minmax(440px,1fr));gap:18px;margin-top:18px}
section{background:var(--card);border:1px solid var(--faint);border-radius:8px;padding:14px 16px;min-width:0}
section.wide{grid-column:1/-1}
svg{width:100%;height:auto;display:block}svg text{fill:var(--ink);font-size:12px}
svg .tick,svg .value{fill:var(--quiet);font-size:11px}
.legend{display:flex;flex-wrap:wrap;gap:4px 14px;font-size:13px;margin:6px 0 0!important}
.legend i{display:inline-block;width:10px;height:10px;border-radius:2px;margin-right:5px}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:6px 10px 6px 0;vertical-align:top;
border-bottom:1px solid var(--faint)}th{color:var(--quiet);font-weight:400}small{color:var(--quiet)}
.number{text-align:right;font-variant-numeric:tabular-nums}
.yes{color:var(--c4)}.no{color:var(--c2);font-weight:600}
.maybe{color:var(--c1)}td.yes,td.no,td.maybe{white-space:nowrap}.warn{color:var(--c1)!important}
@media(max-width:560px){main{grid-template-columns:1fr}body{padding:12px}}
"""


def _page(title: str, sections: Sequence[tuple[str, str, str]], remark: str = "") -> str:
    cards = "".join(
        f"<section{' class=wide' if name in ('Promises', 'Size of groups') else ''}>"
        f"<h2>{escape(name)}</h2><p>{escape(about)}</p>{drawn}</section>"
        for name, about, drawn in sections
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Rostra history: {escape(title)}</title><style>{STYLE}</style>"
        f"<header><h1>{escape(title)}</h1><p>{escape(remark)}</p></header><main>{cards}</main></html>\n"
    )
