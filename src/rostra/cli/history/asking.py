"""What questions have in common: names that are looked up, times that are understood, and what is narrowed.

A name that is not in the history is answered with the closest ones that are; a time is said back, with its
zone.
"""

import difflib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rostra.cli.common import remark
from rostra.cli.history.times import parse_time, say_time
from rostra.errors import BadInput
from rostra.names import ROOT, Domain, enclosing, parse_group, parse_scope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rostra.history.archive import Archive

CLOCKS: Final = "times are as of each host's own clock, and clocks may differ"

Group = Annotated[
    str | None, typer.Option("--group", "-g", metavar="GROUP", help="Only this group: chess, chess@eu.")
]
SeenFrom = Annotated[
    str,
    typer.Option("--seen-from", "-s", metavar="PLACE", help="Ask the hosts inside this domain, or one host."),
]
Every = Annotated[
    float, typer.Option("--every", metavar="SECONDS", min=0.001, help="The length of a stretch of time.")
]


def the_group(archive: "Archive", text: str) -> str:
    """A group by its name, with or without its scope; it must be in the history."""
    asked = parse_group(text)
    known = groups_in(archive)
    if "@" in text and str(asked) in known:
        return str(asked)
    named = [each for each in known if each.rpartition("@")[0] == text]
    match named:
        case [only]:
            return only
        case [] if not known:
            raise BadInput("no group is in this history", fix="is it the right directory?")
        case []:
            raise BadInput(f"no group {text!r} is in this history", fix=_closest(text, known, "groups"))
    raise BadInput(f"{text!r} is the name of {len(named)} groups", fix=f"say which: {', '.join(named[:8])}")


def groups_in(archive: "Archive") -> list[str]:
    rows = archive.events.select("group").where("group is not null").distinct().collect()
    return sorted(row["group"] for row in rows)


def the_place(archive: "Archive", text: str) -> str:
    """A domain or host; some writer must be inside."""
    place = parse_scope(text)
    if place == ROOT:
        return place
    rows = archive.events.where("role in ('agent', 'server')").select("writer").distinct().collect()
    known = sorted({around for row in rows for around in enclosing(Domain(row["writer"]))})
    if place not in known:
        raise BadInput(f"nobody in {place} wrote in this history", fix=_closest(place, known, "places"))
    return place


def the_time(archive: "Archive", text: str | None) -> datetime:
    """A time, said back; without one, the newest row's."""
    if text is not None:
        at = parse_time(text)
        remark(f"at {say_time(at)}")
        return at
    from pyspark.sql import functions as F

    [row] = archive.events.agg(F.unix_micros(F.max("at")).alias("us")).collect()
    if row["us"] is None:
        raise BadInput("this history has no rows", fix="is it the right directory?")
    at = datetime.fromtimestamp(row["us"] / 1e6, UTC)
    remark(f"at {say_time(at)}, the newest row")
    return at


def events_of(
    archive: "Archive", group: str | None = None, since: str | None = None, until: str | None = None
) -> "DataFrame":
    """All events, or those of a group and of a time. Rows of no group stay: they say who lived."""
    from pyspark.sql import functions as F

    events = archive.events
    if group is not None:
        name = the_group(archive, group)
        events = events.where((F.col("group") == name) | F.col("group").isNull())
    bounds = [None if text is None else parse_time(text) for text in (since, until)]
    if any(bounds):
        said = ["the beginning" if bounds[0] is None else say_time(bounds[0])]
        said.append("the newest row" if bounds[1] is None else say_time(bounds[1]))
        remark(f"from {said[0]} to {said[1]}")
    if bounds[0] is not None:
        events = events.where(F.col("at") >= F.lit(bounds[0]))
    if bounds[1] is not None:
        events = events.where(F.col("at") < F.lit(bounds[1]))
    return events


def _closest(text: str, known: Iterable[str], what: str) -> str:
    known = list(known)
    close = difflib.get_close_matches(text, known, n=4, cutoff=0.4)
    shown = f"closest of the {len(known)} {what} in it: {', '.join(close)}" if close else ""
    return shown or f"the {what} in it: {', '.join(known[:8])}{' ...' if len(known) > 8 else ''}"
