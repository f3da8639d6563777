"""Journals and tables in an object store: an S3 server on loopback, opened by Arrow, and no jar."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from history.test_ingest import keys, keys_of, random_journal, same, steady
from pyspark.sql import SparkSession
from support.segments import Row, cut, send
from support.store import s3_store, up
from typer.testing import CliRunner

from rostra.cli import application
from rostra.errors import NotInstalled, Unreachable
from rostra.history import files
from rostra.history.archive import Archive
from rostra.history.files import LocalDirectory
from rostra.history.ingest import Ingest
from rostra.history.questions.stays import stays
from rostra.history.rebuild import rebuild
from rostra.history.source import register
from rostra.history.tables import Tables


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with s3_store() as where:
        yield where


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return random_journal(Random(33), 40)


@pytest.fixture(scope="module")
def here(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("here")
    for segment in cut(rows, Random(5), longest=20):
        send(place, segment)
    return place


class Died(Exception):
    pass


def dying_at(point: str) -> Callable[[str], None]:
    def reach(reached: str) -> None:
        if reached == point:
            raise Died(point)

    return reach


def meanwhile(point: str, other: Callable[[], object]) -> Callable[[str], None]:
    """Another one does the same, and is done, when this one comes to that point for the first time."""
    done = []

    def reach(reached: str) -> None:
        if reached == point and not done:
            done.append(reached)
            other()

    return reach


@pytest.mark.long
def test_what_is_ingested_there_is_what_is_ingested_here(
    spark: SparkSession, store: str, here: Path, rows: list[Row], tmp_path: Path
) -> None:
    """In several batches, some of which die, compacted on the way; asked from tables and from segments."""
    journal, where = f"{store}/journal", f"{store}/tables"
    up(here, journal)
    for point in ("before commit", "committed", "compacted"):
        with pytest.raises(Died):
            ingest(spark, journal, where, reach=dying_at(point)).once()
    ingest(spark, journal, where).once()
    Ingest(spark, here, tmp_path / "tables").once()
    there, plain = Tables(where), Tables(tmp_path / "tables")
    assert keys(there.read(spark, "events")) == keys_of(rows)
    for table in ("stays", "traffic", "members"):
        same(there.read(spark, table), plain.read(spark, table))
    newest = there.newest()
    assert newest is not None and len(there.commits()) <= newest.batch  # some were merged

    again = ingest(spark, journal, where)
    again.once()
    assert there.newest() == newest  # nothing is new
    there.sweep(older_than_s=0)
    there.sweep(older_than_s=0)
    assert keys(there.read(spark, "events")) == keys_of(rows)
    left = {str(info.base_name) for info in there.place.list("events")}
    assert left == {commit.directory for commit in there.commits()}
    assert not list(there.place.list("_writing"))

    rebuilt = ("stays", "traffic")
    with pytest.raises(Died):
        rebuild(spark, there, rebuilt, reach=dying_at("rebuilt stays"))
    with pytest.raises(Unreachable, match="another process writes to s3://history/tables"):
        rebuild(
            spark, there, rebuilt, reach=meanwhile("rebuilt stays", lambda: rebuild(spark, there, rebuilt))
        )
    for table in rebuilt:
        same(there.read(spark, table), plain.read(spark, table))
    there.sweep(older_than_s=0)
    there.sweep(older_than_s=0)
    made = [
        name for info in there.place.list("stays") if (name := str(info.base_name)).startswith("rebuilt=")
    ]
    assert made == [there.commits()[-1].rebuilt["stays"]] and not list(there.place.list("_writing"))
    same(there.read(spark, "stays"), plain.read(spark, "stays"))

    archive = Archive(spark, journal=journal)
    same(archive.events.transform(stays), plain.read(spark, "events").transform(stays))
    register(spark)
    of_group = spark.read.format("rostra").load(journal).where("group = 'chess@world'")
    assert of_group.count() == sum(row.get("group") == "chess@world" for row in rows)


def ingest(spark: SparkSession, journal: str, tables: str, **options: object) -> Ingest:
    return Ingest(spark, journal, tables, files_per_batch=4, compact_every=2, **options)


@pytest.mark.long
def test_of_two_ingests_at_once_one_is_refused(spark: SparkSession, store: str, tmp_path: Path) -> None:
    """Both have written the batch when the first of them commits."""
    mine = steady(20)
    send(tmp_path, mine[:10])
    up(tmp_path, f"{store}/two/journal")
    journal, where = f"{store}/two/journal", f"{store}/two/tables"
    other = meanwhile("before commit", Ingest(spark, journal, where).once)
    with pytest.raises(Unreachable, match="another process writes to s3://history/two/tables: batch 0"):
        Ingest(spark, journal, where, reach=other).once()
    assert keys(Tables(where).read(spark, "events")) == keys_of(mine[:10])
    send(tmp_path, mine[10:])
    up(tmp_path, journal)
    Ingest(spark, journal, where).once()
    assert keys(Tables(where).read(spark, "events")) == keys_of(mine)


def test_two_compactions_at_once_do_not_replace_each_other(store: str) -> None:
    place = LocalDirectory(f"{store}/swapped")
    assert place.swap("a", b"1", None) and not place.swap("a", b"2", None)
    assert not place.swap("a", b"2", lambda there: there == b"0")
    assert place.swap("a", b"2", lambda there: place.swap("b", b"", None) and there == b"1")

    def quicker(there: bytes) -> bool:
        place.write("a", b"3")
        return there == b"2"

    assert not place.swap("a", b"4", quicker) and place.read("a") == b"3"


def test_what_cannot_work_there_is_said_before_java_starts(
    store: str,
    nothing_starts: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def said(*words: str) -> str:
        done = CliRunner().invoke(application(["history"]), ["history", *words])
        assert done.exit_code
        return done.output

    assert "there are no tables in s3://history/none" in said("churn", "-t", f"{store}/none")
    assert "there is no journal at s3://history/none" in said("churn", "-j", f"{store}/none")
    assert "AWS_ENDPOINT_URL" in said("churn", "-t", "s3://me:secret@history/tables")
    send(tmp_path, steady(3))
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    assert "pip install 'rostra[s3]'" in said("ingest", "-j", str(tmp_path), "-t", f"{store}/new")
    with pytest.raises(NotInstalled):
        LocalDirectory(f"{store}/new").check_commits()
