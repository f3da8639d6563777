"""Tables answer as their journal does, from what ingest keeps: without the events, or without Spark."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.calm import calm_world

from rostra.errors import BadInput
from rostra.history.archive import Archive, views
from rostra.history.audits import PROMISES, Evidence, findings, judge
from rostra.history.ingest import Ingest
from rostra.history.journals import segments
from rostra.history.narrow import few, minutes_around
from rostra.history.narrow import why as why_in
from rostra.history.questions.lives import lives
from rostra.history.questions.stays import memberships
from rostra.history.questions.who import followers, who, who_stayed
from rostra.history.questions.why import last_removal, why
from rostra.journal.segments import read

GROUP = "g@world"


@pytest.fixture(scope="module")
def place(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal and tables of a world with a cut and a refused join, in two batches."""
    place = tmp_path_factory.mktemp("catalogue")
    world = calm_world(place / "all")
    astray = world.program(world.tree.hosts[0], "astray").join("g@mars")
    world.settle()
    assert astray.result.code == "NOT_IN_SCOPE"
    world.close()
    segments = sorted((place / "all").rglob("*.parquet"))
    for part in (segments[::2], segments[1::2]):
        for segment in part:
            sent = place / "journal" / segment.relative_to(place / "all")
            sent.parent.mkdir(parents=True, exist_ok=True)
            segment.rename(sent)
        Ingest(spark, place / "journal", place / "tables", compact_every=2).once()
    return place


@pytest.fixture(scope="module")
def both(spark: SparkSession, place: Path) -> tuple[Archive, Archive]:
    return Archive(spark, journal=str(place / "journal")), Archive(spark, tables=str(place / "tables"))


def rows_of(answer: Any) -> list[str]:
    return sorted(map(str, answer.collect()))


def test_the_catalogue_says_what_all_events_say(both: tuple[Archive, Archive]) -> None:
    journal, tables = both
    kept, found = tables.catalogue, journal.catalogue
    assert kept.groups == found.groups == [GROUP]
    assert kept.places == found.places and kept.time_range == found.time_range
    for early in (0, 3):
        last = found.time_range[1]
        assert last is not None
        at = last - timedelta(seconds=early)
        assert kept.open_ends(at) == found.open_ends(at)
    names = tables.lived.columns
    assert rows_of(tables.lived) == rows_of(journal.lived) == rows_of(lives(journal.events).select(names))


def test_who_is_told_from_stays_as_it_is_from_events(both: tuple[Archive, Archive], place: Path) -> None:
    journal, tables = both
    assert rows_of(memberships(tables.table("members"), tables.lived)) == rows_of(memberships(journal.events))
    cut = [row["at"] for row in read(place / "journal").to_pylist() if row["kind"] == "without"]
    seen = set()
    for at in (min(cut) - timedelta(seconds=1), max(cut) + timedelta(milliseconds=1)):
        for seen_from in ("world", "paris.c"):
            asked = followers(tables.table("follows"), GROUP, at, seen_from, tables.lived)
            found = rows_of(who_stayed(tables.stays_of(GROUP), asked, GROUP, at))
            assert found == rows_of(who(journal.events, GROUP, at, seen_from))
            assert found == rows_of(who_stayed(journal.stays_of(GROUP), asked, GROUP, at))
            seen.add(tuple(found))
    assert len(seen) >= 3 and all(seen)


def test_why_is_told_from_the_minute_around_a_removal_as_it_is_from_all_events(
    both: tuple[Archive, Archive], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("narrow", "questions.why"):  # this world has not lived for a minute
        for name in ("BEFORE_S", "AFTER_S"):
            monkeypatch.setattr(sys.modules[f"rostra.history.{module}"], name, 1.0)
    journal, tables = both
    rows = read(place / "journal").to_pylist()
    cut = max(row["at"] for row in rows if row["kind"] == "without")
    [left, *_] = (row["member"] for row in rows if row["kind"] == "left" and row["news"])
    for subject, at in (
        ("paris", cut),
        ("haifa.a", cut),
        (left.partition("#")[0], cut),
        ("paris", rows[0]["at"]),
    ):
        told = rows_of(why(journal.events, subject, at))
        for archive in both:
            assert rows_of(why_in(archive, subject, at, "world")) == told
        assert bool(told) == (at == cut), subject
    _, removed = few(last_removal(tables.table("notices"), "paris", cut))
    assert minutes_around(tables, removed).count() < len(rows)


def test_what_the_catalogue_knows_is_told_without_spark(place: Path) -> None:
    from rostra.cli.history.asking import the_group, the_place, the_time

    def start() -> Any:
        raise AssertionError("Spark was started")

    archive = Archive(start, tables=str(place / "tables"))
    assert the_group(archive, "g") == GROUP and the_place(archive, "haifa.a") == "haifa.a"
    assert the_time(archive, None) == archive.catalogue.time_range[1]
    with pytest.raises(BadInput) as refused:
        the_place(archive, "hiafa")
    assert "haifa" in refused.value.fix


def test_a_history_is_where_any_kind_of_path_says(spark: SparkSession, place: Path) -> None:
    journal = place / "journal"
    pattern = f"{place}/jour*"
    many = len(segments(str(journal)))
    for where in (journal, f"file://{journal}", pattern, f"file://{pattern}", Path(pattern)):
        assert len(segments(where)) == many > 0, where
    rows = Archive(spark, journal=journal).events.count()
    for tables in (place / "tables", f"file://{place}/tables"):
        assert Archive(spark, tables=tables).events.count() == rows
        assert "events" in views(spark, tables)


@pytest.fixture(scope="module")
def evidence(both: tuple[Archive, Archive]) -> Iterator[tuple[Evidence, Evidence]]:
    journal, tables = both
    assert journal.made is None and tables.made is not None
    with Evidence(journal.events) as ours, Evidence(tables.events, table=tables.made) as theirs:
        yield ours, theirs


@pytest.mark.long
@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_is_judged_from_tables_as_it_is_from_events(
    promise: str, evidence: tuple[Evidence, Evidence]
) -> None:
    ours, theirs = evidence
    assert judge(ours, promise) == judge(theirs, promise)
    assert rows_of(findings(ours, promise)) == rows_of(findings(theirs, promise))
