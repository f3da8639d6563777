"""`spark.read.format("rostra")`: the rows that Parquet gives, each once, and no file read in vain."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from history.test_ingest import keys, keys_of, random_journal, same, steady
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from support.journal import Journal, clock
from support.segments import SCHEMA, Row, cut, damage, send, write

from rostra.errors import BadInput
from rostra.history.archive import Archive, views
from rostra.history.ingest import Ingest
from rostra.history.journals import read_journal, segments
from rostra.history.questions.stays import stays
from rostra.history.runs import Key, Piece, RowRun
from rostra.history.schemas import EVENTS, renamed, with_new_names
from rostra.history.session import PUSHDOWN, given_up
from rostra.history.source import (
    Condition,
    FileSlice,
    JournalReader,
    JournalStream,
    TaskInput,
    Wanted,
    register,
    rows_of,
    tasks,
)
from rostra.history.tables import Tables
from rostra.sim.journal import journal_of
from rostra.sim.world import World

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return random_journal(Random(21), 80)


@pytest.fixture(scope="module")
def journal(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With every third segment sent twice."""
    place = tmp_path_factory.mktemp("journal with a space")
    for nth, segment in enumerate(cut(rows, Random(4), longest=9)):
        send(place, segment)
        if nth % 3 == 0:
            send(place, segment, name=f"again-{nth}.parquet")
    return place


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def test_it_reads_what_is_there_once(session: SparkSession, journal: Path, rows: list[Row]) -> None:
    read = session.read.format("rostra").load(str(journal))
    assert read.schema == renamed(EVENTS)
    plain = session.read.parquet(str(journal)).dropDuplicates(["world", "writer", "epoch", "seq"])
    same(read, with_new_names(plain, EVENTS))
    assert keys(read_journal(session, str(journal))) == keys_of(rows)
    assert keys(Archive(session, journal=str(journal)).table("traffic")) == keys_of(
        [row for row in rows if row["kind"] == "sent"]
    )


def test_options_and_conditions_give_what_a_filter_gives(session: SparkSession, journal: Path) -> None:
    plain = read_journal(session, str(journal))
    asked = session.read.format("rostra").option("asOf", clock(40).isoformat()).option("seenFrom", "eu")
    same(
        asked.option("group", "chess@world").load(str(journal)).where(F.col("kind") == "joined"),
        plain.where(F.col("at") <= F.lit(clock(40)))
        .where(F.col("writer").startswith("eu."))
        .where((F.col("group") == "chess@world") & (F.col("kind") == "joined")),
    )
    same(
        session.read.format("rostra")
        .load(str(journal))
        .where((F.col("at") > F.lit(clock(10))) & F.col("group").isin("go@eu", "bridge@us")),
        plain.where((F.col("at") > F.lit(clock(10))) & F.col("group").isin("go@eu", "bridge@us")),
    )


def files_read(reader: JournalReader) -> set[str]:
    return {part.path for task in reader.partitions() if isinstance(task, TaskInput) for part in task.parts}


def test_files_that_cannot_matter_are_not_opened_by_any_task(journal: Path) -> None:
    everything = files_read(JournalReader(str(journal), Wanted(), EVENTS))
    from_ny = files_read(JournalReader(str(journal), Wanted.of({"seenFrom": "us"}), EVENTS))
    assert everything - from_ny and from_ny
    assert all("us.ny.h1" in path for path in from_ny if "again" not in path)
    by_five = files_read(JournalReader(str(journal), Wanted(as_of=clock(5)), EVENTS))
    assert len(by_five) < len(everything) / 2
    from pyspark.sql.datasource import EqualTo, LessThan

    asks = JournalReader(str(journal), Wanted(), EVENTS)
    left = list(asks.pushFilters([EqualTo(("kind",), "closing"), LessThan(("at",), clock(30))]))
    assert len(left) == 2  # Spark checks them too
    assert len(files_read(asks)) < len(everything) / 2
    early = JournalReader(str(journal), Wanted(group="go@eu", as_of=clock(-100)), EVENTS)
    assert early.partitions() == []


def test_a_name_is_enough_to_pass_over_a_segment() -> None:
    day = "file:///j/date=2026-11-15/eu.fr.paris.h-3-1731700000000-000000000001-000000000417.parquet"
    assert Wanted(seen_from="eu.fr").has_segment(day)
    assert Wanted(seen_from="eu.fr.paris.h-3").has_segment(day)
    assert not Wanted(seen_from="eu.france").has_segment(day)
    assert Wanted(as_of=datetime(2026, 11, 14, 12, tzinfo=UTC)).has_segment(day)
    assert not Wanted(as_of=datetime(2026, 11, 13, 12, tzinfo=UTC)).has_segment(day)


def test_what_cannot_be_used_for_skipping_is_left_to_spark() -> None:
    from pyspark.sql.datasource import EqualTo, StringContains

    assert Condition.of(EqualTo(("detail",), "x")) is None
    assert Condition.of(StringContains(("group",), "x")) is None


def test_a_time_or_name_that_cannot_be_right_is_refused() -> None:
    with pytest.raises(BadInput, match="is no time"):
        Wanted.of({"asOf": "yesterday"})
    with pytest.raises(BadInput):
        Wanted.of({"seenFrom": "not a domain"})


def test_a_misspelt_option_is_refused_with_the_closest_one() -> None:
    assert Wanted.of({"SEENFROM": "eu", "path": "j"}) == Wanted(seen_from="eu")
    with pytest.raises(BadInput, match="no option 'seenForm'") as refused:
        Wanted.of({"seenForm": "eu"})
    assert refused.value.fix == "did you mean seenFrom?"
    with pytest.raises(BadInput, match="true or false"):
        Wanted.of({"ignoreCorruptFiles": "yes"})


def test_a_misspelt_group_is_refused_with_the_closest_one_and_a_stream_waits_for_it(journal: Path) -> None:
    for named in ("ches@world", "zzz@world"):
        with pytest.raises(BadInput, match=f"no group '{named}' is in this journal") as refused:
            JournalReader(str(journal), Wanted(group=named), EVENTS).partitions()
        assert "chess@world" in refused.value.fix
    stream = JournalStream(str(journal), Wanted(group="ches@world"), EVENTS)
    assert rows_between(stream, {}, stream.latestOffset({}, None)) == []


def test_the_format_has_what_an_archive_has_of_newer_writers_and_of_broken_files(
    session: SparkSession, tmp_path: Path
) -> None:
    rows = steady(9)
    send(tmp_path, rows[:3])
    newer = SCHEMA.append(pa.field("weather", pa.string()))
    send(tmp_path, [{**row, "weather": "rain"} for row in rows[3:6]], schema=newer)
    asked = session.read.format("rostra").load(str(tmp_path))
    archive = Archive(session, journal=str(tmp_path))
    assert asked.columns == archive.events.columns
    same(asked, archive.events)
    assert [row.weather for row in asked.orderBy("seq").collect()] == [None] * 3 + ["rain"] * 3

    damage(write(tmp_path, rows[6:]))
    (tmp_path / "broken.parquet").write_text("no")
    with pytest.raises(PySparkException, match=r"broken\.parquet"):
        session.read.format("rostra").load(str(tmp_path)).collect()
    reader = session.read.format("rostra").option("ignoreCorruptFiles", "true")
    assert keys(reader.load(str(tmp_path))) == keys_of(rows[:6])


def test_small_segments_are_handed_over_in_groups(tmp_path: Path) -> None:
    mine = steady(90)
    newer = SCHEMA.append(pa.field("mood", pa.string()))
    for first in range(0, 60, 3):
        send(tmp_path, mine[first : first + 3])
    for first in range(60, 90, 3):
        send(tmp_path, [{**row, "mood": "good"} for row in mine[first : first + 3]], schema=newer)
    schema = Wanted().survey(str(tmp_path)).schema
    reader = JournalReader(str(tmp_path), Wanted(), schema)
    [task] = reader.partitions()
    read = [batch.to_pylist() for batch in reader.read(task)]
    assert [len(batch) for batch in read] == [60, 30]  # thirty segments; not all have the same columns
    assert [(row["seq"], row["mood"]) for batch in read for row in batch] == [
        (row["seq"], "good" if row["seq"] > 60 else None) for row in mine
    ]


def test_a_group_has_the_wanted_rows_of_each_segment_and_a_broken_one_is_left_out_whole(
    tmp_path: Path,
) -> None:
    mine = steady(12)
    paths = [send(tmp_path, mine[first : first + 4]) for first in (0, 4, 8)]
    damage(paths[1])
    parts = [
        FileSlice(str(path), first, last)
        for path, first, last in zip(paths, (2, 5, 9), (4, 8, 11), strict=True)
    ]
    wanted = [Condition("seq", ">", 2)]
    read = [batch.to_pylist() for batch in rows_of(parts, wanted, EVENTS, skips=True)]
    assert [[row["seq"] for row in batch] for batch in read] == [[3, 4, 9, 10, 11]]
    with pytest.raises(OSError, match=paths[1].name):
        list(rows_of(parts, wanted, EVENTS, skips=False))


def test_segments_of_one_row_are_worth_several_tasks() -> None:
    """To open a file takes longer than to read a row."""
    key = Key("w", "eu.h1", 1)
    pieces = [
        Piece(RowRun(key, seq, seq, 1, 0, 0, "agent", closing=False, source=f"/j/{seq:04}.parquet"), seq, seq)
        for seq in range(1, 1202)
    ]
    made = [task.parts for task in tasks(pieces, []) if isinstance(task, TaskInput)]
    assert [part.first for parts in made for part in parts] == list(range(1, 1202))
    assert len(made) == 3


def test_a_stream_goes_on_with_the_next_row_and_waits_behind_a_hole(tmp_path: Path, rows: list[Row]) -> None:
    mine = steady(8)
    stream = JournalStream(str(tmp_path), Wanted(), EVENTS)
    send(tmp_path, mine[:1])
    first = stream.latestOffset({}, None)
    send(tmp_path, mine[2:])
    assert stream.latestOffset(first, None) == first  # a row is missing in between
    send(tmp_path, mine[:2], name="again.parquet")
    then = stream.latestOffset(first, None)
    assert rows_between(stream, first, then) == [row["seq"] for row in mine[1:]]
    assert list(stream.partitions(then, then)) == []


def test_a_stream_takes_as_many_rows_or_segments_as_a_batch_may_have(tmp_path: Path) -> None:
    for writer in ("eu.h1", "us.h1"):
        mine = steady(10, writer)
        for first in range(0, 10, 2):
            send(tmp_path, mine[first : first + 2])

    def batches(**options: str) -> list[list[tuple[str, int]]]:
        stream = JournalStream(str(tmp_path), Wanted.of(options), EVENTS)
        start, read = stream.initialOffset(), []
        while (end := stream.latestOffset(start, stream.getDefaultReadLimit())) != start:
            tasks = stream.partitions(start, end)
            rows = [row for task in tasks for batch in stream.read(task) for row in batch.to_pylist()]
            read.append(sorted((row["writer"], row["seq"]) for row in rows))
            start = end
        return read

    [everything] = batches()
    assert len(everything) == 20
    by_rows, by_files = batches(maxRowsPerTrigger="3"), batches(maxFilesPerTrigger="4")
    assert [len(batch) for batch in by_rows] == [3, 3, 3, 3, 3, 3, 2]
    assert [len(batch) for batch in by_files] == [8, 8, 4]
    assert {writer for writer, _ in by_files[0]} == {"eu.h1", "us.h1"}
    for read in (by_rows, by_files):
        assert sorted(row for batch in read for row in batch) == everything
    for wrong in ({"maxRowsPerTrigger": "0"}, {"maxRowsPerTrigger": "1", "maxFilesPerTrigger": "1"}):
        with pytest.raises(BadInput):
            Wanted.of(wrong)


def test_a_stream_of_what_is_there_now_takes_nothing_that_comes_later(tmp_path: Path) -> None:
    mine = steady(4)
    send(tmp_path, mine[:2])
    stream = JournalStream(str(tmp_path), Wanted(max_rows=1), EVENTS)
    stream.prepareForTriggerAvailableNow()
    send(tmp_path, mine[2:])
    first = stream.latestOffset({}, stream.getDefaultReadLimit())
    second = stream.latestOffset(first, stream.getDefaultReadLimit())
    assert rows_between(stream, {}, first) + rows_between(stream, first, second) == [1, 2]
    assert stream.latestOffset(second, stream.getDefaultReadLimit()) == second


def rows_between(stream: JournalStream, start: dict[str, int], end: dict[str, int]) -> list[int]:
    """Their numbers."""
    batches = (batch for task in stream.partitions(start, end) for batch in stream.read(task))
    return sorted(row["seq"] for batch in batches for row in batch.to_pylist())


def test_a_stream_goes_on_when_days_that_it_has_read_are_deleted(tmp_path: Path) -> None:
    mine = [{**row, "epoch": int(row["at"].timestamp() * 1000 // 10**6 * 10**6)} for row in steady(30)]
    mine = [{**row, "epoch": mine[0]["epoch"], "at": row["at"] + row["seq"] // 10 * DAY} for row in mine]
    days = [mine[:9], mine[9:19], mine[19:29], mine[29:]]
    stream = JournalStream(str(tmp_path), Wanted(), EVENTS)
    first = send(tmp_path, days[0])
    read = stream.latestOffset({}, None)
    assert rows_between(stream, {}, read) == [*range(1, 10)]
    first.unlink()
    assert stream.latestOffset(read, None) == read
    second = send(tmp_path, days[1])
    then = stream.latestOffset(read, None)
    assert rows_between(stream, read, then) == [*range(10, 20)]

    # It was not there when the next day came and went.
    second.unlink()
    send(tmp_path, days[3])
    with pytest.raises(BadInput, match=r"rows 20 to 29 of eu\.paris\.h1"):
        stream.latestOffset(then, None)
    send(tmp_path, days[2])
    late = stream.latestOffset(then, None)
    for lost in (send(tmp_path, days[2]), send(tmp_path, days[3])):
        lost.unlink()
    with pytest.raises(BadInput, match="rows 20 to 30"):
        stream.partitions(then, late)
    send(tmp_path, days[3])
    heedless = JournalStream(str(tmp_path), Wanted(fails_on_loss=False), EVENTS)
    assert rows_between(heedless, then, heedless.latestOffset(then, None)) == [30]


def test_a_stream_begins_with_what_is_left_of_a_life_and_waits_for_what_is_on_its_way(tmp_path: Path) -> None:
    """Whether its first rows were deleted with their day, or have not arrived yet, the days tell."""
    for long_ago in (True, False):
        began = clock(0) - (2 * DAY if long_ago else timedelta())
        mine = [{**row, "epoch": int(began.timestamp() * 1000)} for row in steady(10)]
        journal = tmp_path / str(long_ago)
        stream = JournalStream(str(journal), Wanted(), EVENTS)
        send(journal, mine[4:])
        read = stream.latestOffset({}, None)
        assert rows_between(stream, {}, read) == ([*range(5, 11)] if long_ago else [])


def test_a_stream_is_read_to_its_end_by_spark(
    session: SparkSession, journal: Path, rows: list[Row], tmp_path: Path
) -> None:
    query = (
        session.readStream.format("rostra")
        .option("seenFrom", "us")
        .option("maxFilesPerTrigger", "3")
        .load(str(journal))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .option("path", str(tmp_path / "out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) > 1  # as many batches as it takes
    assert keys(session.read.parquet(str(tmp_path / "out"))) == keys_of(
        [row for row in rows if row["writer"].startswith("us.")]
    )


def test_whoever_looks_for_a_journal_in_the_wrong_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no journal at"):
        segments(str(tmp_path / "nowhere"))


def test_a_damaged_page_is_an_error_that_names_the_file(session: SparkSession, tmp_path: Path) -> None:
    """Whoever reads it: Spark, a task of ours, or the format's reader."""
    mine = Journal()
    for nth in range(20):
        mine.sees("eu.paris.h1", "left" if nth % 2 else "joined", "us.ny.h1/p1#1")
    segment = write(tmp_path, mine.rows)
    damage(segment)
    archive = Archive(session, journal=str(tmp_path))
    for rows in (
        archive.events.select("*"),
        archive.events.transform(stays),
        session.read.format("rostra").load(str(tmp_path)),
    ):
        with pytest.raises((PySparkException, Py4JError)) as refused:
            rows.collect()
        said = str(given_up(refused.value))
        assert said.startswith("cannot read file://") and segment.name in said


def test_simulated_worlds_without_a_name_are_told_apart_when_they_are_asked_together(
    session: SparkSession, tmp_path: Path
) -> None:
    many = 0
    for seed in (1, 2):
        world = World(seed, domains={"eu": 2}, journal=tmp_path / f"run {seed}")
        world.run(seed)
        world.close()
        many += journal_of(world).num_rows
    both = read_journal(session, f"{tmp_path}/run *")
    rows = both.groupBy("world").count().collect()
    assert len(rows) == 2 and sum(row["count"] for row in rows) == many


def test_two_worlds_of_one_name_are_not_taken_for_one(session: SparkSession, tmp_path: Path) -> None:
    """Numbers that come twice, cut otherwise: the same rows are read once, other rows are set aside
    by every reader."""
    mine = steady(20)
    others = [{**row, "kind": "settled"} if row["seq"] > 12 else row for row in mine]
    place = tmp_path / "journal" / "1"
    send(place, mine[:15])
    send(place, mine[5:], name="again.parquet")
    other = send(tmp_path / "journal" / "2", others[8:])
    archive = Archive(session, journal=f"{tmp_path}/journal/*")
    assert Counter(row.kind for row in archive.events.collect()) == {"started": 1, "heartbeat": 19}
    [(path, why)] = archive.left_out.items()
    assert path.endswith(other.name) and "are there two worlds that are called 'w'?" in why
    assert archive.contradicted == {Key("w", mine[0]["writer"], mine[0]["epoch"])}

    def ingested(journal: Path, tables: Tables) -> list[str]:
        Ingest(session, journal, tables.place.path).once()
        assert keys(tables.read(session, "events")) == keys_of(mine)
        return [Path(each.file).name for each in tables.set_aside()]

    assert ingested(tmp_path / "journal", Tables(tmp_path / "at once")) == [other.name]
    assert Archive(session, tables=str(tmp_path / "at once")).contradicted == archive.contradicted
    tables = Tables(tmp_path / "one after the other")
    assert ingested(place, tables) == []
    other.rename(next(place.glob("date=*")) / other.name)
    assert ingested(place, tables) == [other.name]


def test_a_session_that_somebody_else_started_is_made_fit(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `SparkSession.builder.getOrCreate()` has it; and its Python is not ours."""
    rows = steady(5)
    send(tmp_path / "journal", rows)
    session.conf.set(PUSHDOWN, "false")
    monkeypatch.setattr(session.sparkContext, "pythonExec", "/nowhere/python3")
    register(session)
    found = session.read.format("rostra").load(str(tmp_path / "journal")).where("seq > 2")
    assert keys(found) == keys_of(rows[2:])

    Ingest(session, tmp_path / "journal", tmp_path / "tables").once()
    assert "stays" in views(session, str(tmp_path / "tables"))
    assert session.sql("select max(seq) from events").first() == (5,)


def test_a_question_says_which_files_it_had_to_leave_out(session: SparkSession, tmp_path: Path) -> None:
    send(tmp_path, steady(3))
    (tmp_path / "broken.parquet").write_text("no")
    archive = Archive(session, journal=str(tmp_path))
    assert archive.events.count() == 3
    assert [(Path(path).name, why.partition(":")[0]) for path, why in archive.left_out.items()] == [
        ("broken.parquet", "not Parquet, or damaged")
    ]
