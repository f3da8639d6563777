"""The catalogue of a history: its groups and places, the lives of its writers, and when it ends. Questions
look names up here before they are asked. Tables have it without reading a row, and without Spark:

    _commits/17.json      groups
    epochs/batch=17/      the lives of writers: whose, from when until when, and how they ended

For a journal the same is computed from all events, with the same result.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from rostra.history.runs import Epoch, Key
from rostra.history.tables import BatchCommit, Tables
from rostra.names import Domain, enclosing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STILL_GOING_S: Final = 60.0
"""A life without `closing` is still going if its last row is no older than this, measured from the world's
newest row. A writer beats every few seconds and flushes soon after, so a minute of silence is an end."""


class Lived(NamedTuple):
    """As the question `lives` says it."""

    role: str
    began_at: datetime
    last_at: datetime
    ended_by: str | None  # closing | unknown; None while it goes on


class Catalogue:
    """For tables, what ingest keeps; for a journal, computed by Spark once."""

    def __init__(
        self, find_groups: Callable[[], Iterable[str]], find_lives: Callable[[], dict[Key, Lived]]
    ) -> None:
        self._find_groups, self._find_lives = find_groups, find_lives

    @cached_property
    def groups(self) -> list[str]:
        return sorted(self._find_groups())

    @cached_property
    def lived(self) -> dict[Key, Lived]:
        return self._find_lives()

    @cached_property
    def places(self) -> list[str]:
        """Every host and server that wrote, and every domain around them."""
        wrote = {key.writer for key, each in self.lived.items() if each.role in ("agent", "server")}
        return sorted({around for writer in wrote for around in enclosing(Domain(writer))})

    @property
    def time_range(self) -> tuple[datetime | None, datetime | None]:
        """The times of the first row and of the newest; of no rows, none."""
        lived = self.lived.values()
        return (
            min((each.began_at for each in lived), default=None),
            max((each.last_at for each in lived), default=None),
        )

    def open_ends(self, at: datetime) -> tuple[int, datetime | None]:
        """Journals that end before this time without a closing mark, and are not known to have ended: how
        many, and where the first does. Their writers run still, or were killed together."""
        simulated = {key.world for key, each in self.lived.items() if each.role == "sim"}
        ends_at = [
            each.last_at
            for key, each in self.lived.items()
            if key.world not in simulated
            and each.role in ("agent", "server")
            and each.ended_by is None
            and each.last_at < at
        ]
        return len(ends_at), min(ends_at, default=None)

    def lives(self, spark: "SparkSession") -> "DataFrame":
        """The same as a table."""
        return lives_table(spark, self.lived)


def lives_table(spark: "SparkSession", lived: Mapping[Key, Lived]) -> "DataFrame":
    """What questions need of lives: world, writer, epoch, role, began_at, last_at, ended_by."""
    from rostra.history.shape import schema

    whose = {"world": "text?", "writer": "text?", "epoch": "int64?", "role": "text?"}
    columns = schema(**whose, began_at="time?", last_at="time?", ended_by="text?")
    return spark.createDataFrame([(*key, *each) for key, each in lived.items()], columns)


def of_tables(tables: Tables, commits: Sequence[BatchCommit]) -> Catalogue:
    return Catalogue(
        lambda: {group for commit in commits for group in commit.groups},
        lambda: lived_by(tables.epochs(commits[-1])),
    )


def of_events(events: "DataFrame") -> Catalogue:
    from rostra.history.audits.facts import lives_of
    from rostra.history.questions.lives import groups, parts

    def lived() -> dict[Key, Lived]:
        return {
            life.key: Lived(life.role, _time(life.began_at), _time(life.last_at), life.ended_by)
            for life in lives_of(parts(events))
        }

    return Catalogue(lambda: groups(events), lived)


def lived_by(epochs: Mapping[Key, Epoch]) -> dict[Key, Lived]:
    """As far as one can tell today: a life that a newer one of its writer followed has ended, too, and so has
    one that has been silent while its world went on."""
    newest_us: dict[str, int] = {}
    newest_life: dict[tuple[str, str], int] = {}
    for key, epoch in epochs.items():
        newest_us[key.world] = max(newest_us.get(key.world, 0), epoch.ended_us)
        who = (key.world, key.writer)
        newest_life[who] = max(newest_life.get(who, 0), key.epoch)
    lived: dict[Key, Lived] = {}
    for key, epoch in sorted(epochs.items()):
        gone = key.epoch < newest_life[key.world, key.writer]
        silent = newest_us[key.world] - epoch.ended_us > STILL_GOING_S * 1_000_000
        ended_by = "closing" if epoch.over else "unknown" if gone or silent else None
        lived[key] = Lived(epoch.role, _time(epoch.began_us), _time(epoch.ended_us), ended_by)
    return lived


def _time(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
