"""The small filters that commands put around questions and answers."""

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history import places
from rostra.history.archive import Archive
from rostra.history.questions.views import agreed_removals, why_agreed
from rostra.history.questions.why import AFTER_S, BEFORE_S, concerns, removals

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


def around_removal(archive: Archive, subject: str, at: datetime, seen_from: str) -> Frame:
    """All events that `why` needs for the same question: the removal is looked up first, among what programs
    were told, so that of all others only the minute around it is read."""
    last = (
        removals(archive.table("notices"), subject, at, seen_from)
        .groupBy("world")
        .agg(F.max("at").alias("at"))
    )
    return _minutes_around(archive, last)


def with_agreed(story: Frame, archive: Archive, subject: str, at: datetime, seen_from: str) -> Frame:
    """The same, and the story of the last removal from an agreed group, if there was one."""
    if not archive.may_have("views"):
        return story
    removed, many = few(agreed_removals(archive.table("views"), subject, at, seen_from))
    if not many:
        return story
    events = _minutes_around(archive, removed)
    return story.unionByName(why_agreed(events, removed)).distinct().orderBy("world", "at", "node", "seq")


def _minutes_around(archive: Archive, removed: Frame) -> Frame:
    """All events from shortly before the first of these until shortly after the last; of none, none."""
    first, last = (F.unix_micros(edge("at")) for edge in (F.min, F.max))
    [row] = removed.agg(first.alias("first"), last.alias("last")).collect()
    if row["first"] is None:
        return archive.events.where(F.lit(False))
    epoch = datetime.fromtimestamp(0, UTC)
    since = epoch + timedelta(microseconds=row["first"], seconds=-BEFORE_S)
    until = epoch + timedelta(microseconds=row["last"] + 1, seconds=AFTER_S)
    return narrowed(archive.events, since=since, until=until)


def few(answer: Frame) -> tuple[Frame, int]:
    """The same rows, which are few, with nothing behind them; and how many they are."""
    rows = answer.toArrow()
    return answer.sparkSession.createDataFrame(rows, answer.schema), rows.num_rows


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
