"""Journal rows for tests, with as few words as the case needs: whatever is not said has a harmless value."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rostra.history.schemas import EVENTS

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

Row = dict[str, Any]


def clock(after_s: float) -> datetime:
    """So many seconds after noon, as Spark hands times back when its clock is UTC."""
    return NOON + timedelta(seconds=after_s)


class Journal:
    """What some writers wrote. Each `write` is one row, numbered as its writer would; `at` is in seconds
    after noon, and goes on by itself if nothing is said."""

    def __init__(self, world: str = "w") -> None:
        self.world = world
        self.rows: list[Row] = []
        self._last: dict[tuple[str, int], int] = {}
        self._epochs: dict[str, int] = {}
        self.now = 0.0

    def write(self, writer: str, kind: str, at: float | None = None, **values: Any) -> Row:
        self.now = self.now + 1.0 if at is None else at
        epoch = self._epochs.setdefault(writer, 1)
        seq = values.pop("seq", self._last.get((writer, epoch), 0) + 1)
        self._last[writer, epoch] = seq
        role = values.pop("role", None) or ("agent" if ".h" in writer else "server")
        row: Row = {
            "world": self.world,
            "writer": writer,
            "role": role,
            "epoch": epoch,
            "seq": seq,
            "at": clock(self.now),
            "kind": kind,
            "nth": 0,
            "of": 1,
            **values,
        }
        self.rows.append(row)
        return row

    def lose(self, writer: str, rows: int = 1) -> None:
        """These numbers were used, and never arrived."""
        epoch = self._epochs.setdefault(writer, 1)
        self._last[writer, epoch] = self._last.get((writer, epoch), 0) + rows

    def start(self, writer: str, at: float | None = None, **values: Any) -> None:
        """A new life, unless it is the writer's first."""
        if writer in self._epochs:
            self._epochs[writer] += 1
        self.write(writer, "started", at, **values)

    def sees(
        self,
        writer: str,
        change: str,
        member: str,
        at: float | None = None,
        group: str = "chess@world",
        **values: Any,
    ) -> Row:
        """What a host sees changes: a notice of one member, news unless said otherwise."""
        kind = values.pop("kind", change)
        cause = values.pop("cause", "join" if change == "joined" else "leave")
        return self.write(
            writer,
            kind,
            at,
            group=group,
            member=member,
            change=change,
            news=values.pop("news", True),
            cause=cause,
            **values,
        )

    def home(
        self, change: str, member: str, at: float | None = None, group: str = "chess@world", **values: Any
    ) -> Row:
        """The truth: a member's own agent accepts its join or leave."""
        writer = member.partition("/")[0]
        return self.write(writer, f"member-{change}", at, group=group, member=member, **values)

    def frame(self, spark: SparkSession) -> DataFrame:
        return frame(spark, self.rows)


def frame(spark: SparkSession, rows: Iterable[Row]) -> DataFrame:
    """Rows as a table with every column of the journal."""
    return spark.createDataFrame([tuple(row.get(name) for name in EVENTS.names) for row in rows], EVENTS)


def answers(table: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """An answer as plain tuples, times in seconds after noon, in the order of their text."""
    found = [tuple(_plain(value) for value in row) for row in table.select(*columns).collect()]
    return sorted(found, key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return round((value.astimezone(UTC) - NOON).total_seconds(), 6)
    return value
