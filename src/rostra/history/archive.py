"""Where history is read from: the tables that ingest made, or the journals themselves.

    archive = Archive(spark, tables="/var/lib/rostra/tables")     quick, and each row once
    archive = Archive(spark, journal="/var/lib/rostra/journal")   nothing has to be made first
    archive.events.transform(stays)

Both give the same answers. A journal may hold a row twice (a segment that was sent again); such rows are read
once.
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rostra.errors import BadInput
from rostra.history.catalogue import Catalogue, of_events, of_tables
from rostra.history.look import OTHER_WORLD
from rostra.history.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rostra.history.look import Seen
    from rostra.history.runs import Key
    from rostra.history.tables import BatchCommit

Question = Callable[["Archive"], "DataFrame"]
"""What a command asks: an archive in, an answer out."""

FIX = "name one:  --tables DIR (made by rostra history ingest) or --journal DIR (what nodes write)"


def views(spark: "SparkSession", tables: str | Path) -> list[str]:
    """Every table as a view of its name, for SQL: as it is committed now. Says which they are."""
    from rostra.history.schemas import TABLES

    found = Tables(tables)
    commits = found.require()
    for name in TABLES:
        found.read(spark, name, commits).createOrReplaceTempView(name)
    return list(TABLES)


class Archive:
    """`spark` may be a function that starts a session: questions to the catalogue of tables need none."""

    def __init__(
        self,
        spark: "SparkSession | Callable[[], SparkSession]",
        *,
        tables: str | Path | None = None,
        journal: str | Path | None = None,
    ) -> None:
        if (tables is None) == (journal is None):
            both = tables is not None
            raise BadInput("tables or journal, not both" if both else "no history was named", fix=FIX)
        self._spark = spark
        self._unusable: dict[str, Seen] = {}  # files of a journal that could not be read
        self._tables = None if tables is None else Tables(tables)
        self._journal = None if journal is None else str(journal)

    @cached_property
    def spark(self) -> "SparkSession":
        return self._spark() if callable(self._spark) else self._spark

    @cached_property
    def _commits(self) -> "tuple[BatchCommit, ...]":
        """The commits at the first read, so that one question sees one state of the tables."""
        return () if self._tables is None else self._tables.require()

    @cached_property
    def catalogue(self) -> Catalogue:
        """Groups, places and lives: looked up before a question is asked."""
        return of_events(self.events) if self._tables is None else of_tables(self._tables, self._commits)

    @cached_property
    def lived(self) -> "DataFrame":
        """The lives of all writers: whose, from when until when, and how they ended."""
        return self.catalogue.lives(self.spark)

    @cached_property
    def events(self) -> "DataFrame":
        """All rows (`schemas.EVENTS`), each once."""
        if self._tables is not None:
            from rostra.history.arrow_fast_path import files_in, note

            events = self._tables.read(self.spark, "events", self._commits)
            return note(events, files_in(self._tables.files("events", self._commits)))
        from rostra.history.journals import read_journal

        assert self._journal is not None

        def aside(seen: "Seen") -> None:
            self._unusable[seen.path] = seen

        return read_journal(self.spark, self._journal, aside=aside)

    @property
    def left_out(self) -> dict[str, str]:
        """Files whose rows are missing, and why: what ingest set aside, or what reading the journal met."""
        if self._tables is not None:
            aside = self._tables.set_aside()
            return {each.file: each.why for each in aside if not each.why.startswith(OTHER_WORLD)}
        _ = self.events
        return {path: seen.why for path, seen in self._unusable.items()}

    @property
    def contradicted(self) -> set["Key"]:
        """Lives of which two files have different rows under the same numbers."""
        if self._tables is not None:
            found = [each.contradicts for each in self._tables.set_aside()]
        else:
            _ = self.events
            found = [seen.contradicts for seen in self._unusable.values()]
        return {key for key in found if key is not None}

    @property
    def made(self) -> "Callable[[str], DataFrame] | None":
        """The tables of these events, if all of them were made of the same rows."""
        if self._tables is None or self._commits[-1].late:
            return None
        return self.table

    @cached_property
    def stays(self) -> "DataFrame":
        """Who saw whom, from when until when (`schemas.STAYS`)."""
        if self._tables is not None:
            return self._tables.read(self.spark, "stays", self._commits)
        from rostra.history.questions.stays import stays

        return stays(self.events)

    def stays_of(self, group: str) -> "DataFrame":
        """Stays of one group: from a journal, only these are computed."""
        from pyspark.sql import functions as F

        from rostra.history.questions.stays import stays

        is_it = F.col("group") == group
        if self._tables is not None:
            return self.stays.where(is_it)
        return stays(self.events.where(is_it), self.lived)

    def may_have(self, name: str) -> bool:
        """Any rows in a table by its name: tables say so without a job, journals do not."""
        return self._tables is None or bool(self._tables.directories(name, self._commits))

    def table(self, name: str) -> "DataFrame":
        """Any table by its name; from journals, it is made on the way."""
        if self._tables is not None:
            return self._tables.read(self.spark, name, self._commits)
        if name in ("events", "stays"):
            made: DataFrame = getattr(self, name)
            return made
        from pyspark.sql import functions as F

        from rostra.history.schemas import KINDS_OF, TABLES, renamed
        from rostra.history.spelling import closest

        if name not in KINDS_OF:
            fix = closest(name, ("events", "stays", *KINDS_OF))
            raise BadInput(f"there is no table {name!r}", fix=fix)
        return self.events.where(F.col("kind").isin(*KINDS_OF[name])).select(renamed(TABLES[name]).names)
