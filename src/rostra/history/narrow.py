"""What a history is asked before a question: which groups and places are in it, when it ends; and the small
filters that commands put around answers."""

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history import places
from rostra.history.archive import Archive
from rostra.history.questions.lives import lives
from rostra.history.questions.why import AFTER_S, BEFORE_S, concerns, removals
from rostra.names import Domain, enclosing

Frame: TypeAlias = DataFrame
"""For whoever passes answers on without knowing Spark."""


def groups_in(archive: Archive) -> list[str]:
    if archive.catalogue is not None:
        return archive.catalogue.groups
    rows = archive.events.select("group").where(F.col("group").isNotNull()).distinct().collect()
    return sorted(row["group"] for row in rows)


def places_in(archive: Archive) -> list[str]:
    """Every host and server that wrote, and every domain around them."""
    if archive.catalogue is not None:
        return archive.catalogue.places
    wrote = archive.events.where(F.col("role").isin("agent", "server")).select("writer").distinct()
    return sorted({around for row in wrote.collect() for around in enclosing(Domain(row["writer"]))})


def reach(archive: Archive) -> tuple[datetime | None, datetime | None]:
    """The times of the first row and of the newest; of no rows, none."""
    if archive.catalogue is not None:
        return archive.catalogue.reach
    ends = (F.unix_micros(F.min("at")).alias("first"), F.unix_micros(F.max("at")).alias("last"))
    [row] = archive.events.agg(*ends).collect()
    first, last = (None if us is None else datetime.fromtimestamp(us / 1e6, UTC) for us in row)
    return first, last


def open_ends(archive: Archive, at: datetime) -> tuple[int, datetime | None]:
    """Journals that end before this time without a closing mark, and are not known to have ended: how many,
    and where the first does. Their writers run still, or were killed together."""
    if archive.catalogue is not None:
        lived_by = archive.catalogue.lived
        simulated = {key.world for key, each in lived_by.items() if each.role == "sim"}
        ends_at = [
            each.last_at
            for key, each in lived_by.items()
            if key.world not in simulated
            and each.role in ("agent", "server")
            and each.ended_by is None
            and each.last_at < at
        ]
        return len(ends_at), min(ends_at, default=None)
    lived = lives(archive.events)
    real = lived.join(lived.where("role = 'sim'").select("world").distinct(), "world", "left_anti")
    ends = (F.count(F.lit(1)).alias("many"), F.unix_micros(F.min("last_at")).alias("first"))
    short = real.where(F.col("ended_by").isNull() & (F.col("last_at") < F.lit(at)))
    [row] = short.where(F.col("role").isin("agent", "server")).agg(*ends).collect()
    return row["many"], None if row["first"] is None else datetime.fromtimestamp(row["first"] / 1e6, UTC)


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
    [row] = last.agg(
        F.unix_micros(F.min("at")).alias("first"), F.unix_micros(F.max("at")).alias("last")
    ).collect()
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
    """Rows about an endpoint, in any incarnation, or about whoever is inside a host or domain."""
    return answer.where(concerns(subject, F.col("member")))
