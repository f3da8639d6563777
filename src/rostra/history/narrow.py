"""The small filters that commands put around questions and answers."""

from datetime import datetime, timedelta
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history import places
from rostra.history.archive import Archive
from rostra.history.questions.views import agreed_removals, why_agreed
from rostra.history.questions.why import AFTER_S, BEFORE_S, concerns, last_removal, why_removed

Frame: TypeAlias = DataFrame
"""For modules that pass answers on and do not import Spark."""


def narrowed(
    events: Frame, group: str | None = None, since: datetime | None = None, until: datetime | None = None
) -> Frame:
    """Events of a group and of a time. Rows of no group stay: they say who lived."""
    if group is not None:
        events = events.where((F.col("group") == group) | F.col("group").isNull())
    if since is not None:
        events = events.where(F.col("at") >= F.lit(since))
    if until is not None:
        events = events.where(F.col("at") < F.lit(until))
    return events


def why(archive: Archive, subject: str, at: datetime, seen_from: str) -> Frame:
    """As the question of this name: the removal is looked up first, among what programs were told, so that of
    all events only the minute around it is read. And the story of the last removal from an agreed group, if
    there was one."""
    removed, rows = few(last_removal(archive.table("notices"), subject, at, seen_from))
    story = why_removed(minutes_around(archive, rows), removed, subject)
    if not archive.may_have("views"):
        return story
    removed, rows = few(agreed_removals(archive.table("views"), subject, at, seen_from))
    if not rows.num_rows:
        return story
    agreed = why_agreed(minutes_around(archive, rows), removed)
    return story.unionByName(agreed).distinct().orderBy("world", "at", "node", "seq")


def minutes_around(archive: Archive, removed: pa.Table) -> Frame:
    """All events from shortly before the first of these until shortly after the last; of none, none."""
    times = removed["at"].to_pylist()
    if not times:
        return archive.events.where(F.lit(False))
    until = max(times) + timedelta(microseconds=1, seconds=AFTER_S)
    return narrowed(archive.events, since=min(times) - timedelta(seconds=BEFORE_S), until=until)


def few(answer: Frame) -> tuple[Frame, pa.Table]:
    """The same rows, which are few, with nothing behind them; as a table of Spark and of Arrow."""
    rows = answer.toArrow()
    return answer.sparkSession.createDataFrame(rows, answer.schema), rows


def having(answer: Frame, **values: str | int | None) -> Frame:
    """Rows whose columns have these values; what is None is not asked for."""
    for name, value in values.items():
        if value is not None:
            answer = answer.where(F.col(name) == value)
    return answer


def seen_inside(answer: Frame, place: str) -> Frame:
    """Rows that a host inside a place saw."""
    return answer.where(places.inside(place, F.col("seen_by")))


def about(answer: Frame, subject: str) -> Frame:
    """Rows about an endpoint, in any incarnation, or about the members inside a host or domain."""
    return answer.where(concerns(subject, F.col("member")))
