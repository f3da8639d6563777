"""A small real world, its kills, and what `rostra history` says of it afterwards: commands as users type
them, on one Spark for all.

Bounds are as long as the longest wait of a test: a slow machine is no offence.
"""

import asyncio
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from history.conftest import spark  # noqa: F401  # started when the first test asks for it
from live.test_journal import Journalled
from support.lab import WITHIN_S, member, until
from typer.testing import CliRunner

from rostra.cli import application
from rostra.history import session, warm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JUDGED = ("per-source-order", "both-sides-told", "fifo-gap-free", "why")
"""Promises that this world gives a chance to be broken, however fast it is."""


async def lived(lab: Journalled) -> None:
    """They talk; a program is killed, then a whole agent with its program, which starts again; the others end
    in good order."""
    await lab.start()
    async with (
        lab.program("eu.h1", "ann") as ann,
        ann.join("chess") as chess,
        ann.join("talk", delivery="fifo") as said,
        lab.program("us.h1", "eve") as eve,
        eve.join("talk", delivery="fifo") as heard,
    ):
        await until(lambda: len(said.members) == len(heard.members) == 2, "they can talk")
        for number in range(20):
            await said.send(b"%d" % number)
        with (
            member(lab.socket("us.h1"), "dan", "chess", "world") as dan,
            member(lab.socket("eu.h2"), "bob", "chess", "world"),
        ):
            await until(lambda: len(chess.members) == 3, "ann sees them all")
            dan.kill()
            await until(lambda: len(chess.members) == 2, "ann lost dan")
            await until(lambda: lab.kinds("eu.h2")["member-joined"], "bob's join is on the disk")
            lab["eu.h2"].kill()
            await until(lambda: len(chess.members) == 1, "ann lost bob")
        await until(lambda: lab.kinds("us.h1")["delivered"], "what eve heard is on the disk")
        await lab.calm()
    for process in lab.processes.values():
        process.signal(signal.SIGTERM)
        assert await process.ended() == 0


class Asked:
    """`rostra history`, as a user types it."""

    def __init__(self, journal: Path, tables: Path) -> None:
        self.journal, self.tables = journal, tables

    def __call__(self, *words: object, code: int = 0) -> str:
        done = CliRunner().invoke(application(["history"]), ["history", *map(str, words)])
        assert done.exit_code == code, done.output
        return done.stdout

    def json(self, *words: object, code: int = 0) -> Any:
        return json.loads(self(*words, "-o", "json", code=code))


@pytest.fixture(scope="module")
def ask(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:  # noqa: F811
    place = tmp_path_factory.mktemp("audited")
    lab = Journalled(
        place,
        place / "journal",
        servers=("eu", "us"),
        hosts=("eu.h1", "eu.h2", "us.h1"),
        extra="record = true\n",
    )
    try:
        asyncio.run(lived(lab))
    finally:
        lab.close()
    asked = Asked(lab.journal, place / "tables")
    with pytest.MonkeyPatch.context() as patch:
        # Every command has a session of its own, and none of them ends the tests' Spark.
        patch.setattr(session, "start", lambda *_, **__: spark.newSession())
        patch.setattr(warm, "session", lambda: spark.newSession())
        patch.setattr(session, "end", lambda _: None)
        asked("ingest", "--once", "-j", asked.journal, "-t", asked.tables)
        yield asked


def test_a_real_world_with_kills_breaks_no_promise_and_what_is_lost_is_not_called_kept(ask: Asked) -> None:
    found = {each["promise"]: each for each in ask.json("audit", "-t", ask.tables, "--bound", WITHIN_S)}
    assert {each["answer"] for each in found.values()} <= {"yes", "cannot tell"}, found
    for promise in JUDGED:
        verdict = found[promise]
        assert (verdict["answer"], verdict["broken"], verdict["doubts"]) == ("yes", 0, 1), verdict
        assert verdict["judged"] > 0 and 0 < verdict["share"] < 1 and "could be judged" in verdict["why"]


def test_the_same_tables_say_who_was_there_and_why_nobody_is_any_more(ask: Asked, tmp_path: Path) -> None:
    [stay] = ask.json("stays", "-g", "chess", "-s", "eu.h1", "-t", ask.tables, "--member", "us.h1/dan")
    [dan] = [
        each["member"]
        for each in ask.json("who", "chess", "--at", stay["joined_at"], "-s", "eu.h1", "-t", ask.tables)
        if "/dan" in each["member"]
    ]
    assert dan == stay["member"] and stay["ended_by"] == "crash"
    told = ask("why", "eu.h2/bob", "-s", "eu.h1", "-t", ask.tables)
    assert "gave up eu.h2" in told
    [killed] = ask.json("availability", "--what", "host", "--below", 1, "-t", ask.tables)
    assert killed["name"] == "eu.h2"


def broken_journal(journal: Path, copy: Path) -> tuple[str, int]:
    """A copy in which the second message that anybody was given is missing; the row that shows it."""
    shutil.copytree(journal, copy)
    for path in sorted(copy.glob("date=*/*.parquet")):
        rows = pq.read_table(path)
        runs = pc.and_(pc.equal(rows["kind"], "delivered"), pc.greater(rows["last"], rows["first"]))
        place = pc.index(pc.fill_null(runs, False), True).as_py()
        if place < 0:
            continue
        first = rows["first"].to_pylist()
        first[place] += 1
        column = rows.schema.get_field_index("first")
        field = rows.schema.field(column)
        pq.write_table(rows.set_column(column, field, pa.array(first, field.type)), path, compression="zstd")
        return rows["writer"][place].as_py(), rows["seq"][place].as_py()
    raise AssertionError("nobody was given two messages at once")


def test_a_broken_promise_is_shown_with_its_row_the_lines_around_and_how_to_replay_it(
    ask: Asked, tmp_path: Path
) -> None:
    writer, seq = broken_journal(ask.journal, tmp_path / "broken")
    said = ask("audit", "-p", "fifo-gap-free", "-j", tmp_path / "broken", code=1)
    shown = [line for line in said.splitlines() if line.startswith("  > ")]
    assert "offence 1 of 1" in said and "were left out" in said
    assert len(shown) == 1 and f"{writer} " in shown[0] and f".{seq} " in shown[0]
    assert f"replay it:  rostra sim replay {tmp_path / 'broken'}" in said


async def killed_whole(lab: Journalled) -> None:
    """Two programs, one of which comes and goes and comes again; then every process dies at once."""
    await lab.start()
    with member(lab.socket("eu.h1"), "ann", "chess", "world"):
        for time in (1, 2):
            with member(lab.socket("us.h1"), "eve", "chess", "world"):
                await until(lambda time=time: lab.kinds("eu.h1")["joined"] >= time, "it is on the disk")
        for process in lab.processes.values():
            process.kill()


def test_of_a_world_that_was_killed_whole_a_promise_is_kept_up_to_its_end(ask: Asked, tmp_path: Path) -> None:
    lab = Journalled(tmp_path, tmp_path / "journal", servers=("eu", "us"), hosts=("eu.h1", "us.h1"))
    try:
        asyncio.run(killed_whole(lab))
    finally:
        lab.close()
    ended = {writer: lab.rows(writer)[-1] for writer in ("eu", "us", "eu.h1", "us.h1")}
    assert all(row["kind"] != "closing" for row in ended.values())
    ask("ingest", "--once", "-j", lab.journal, "-t", tmp_path / "tables")
    [found] = ask.json("audit", "-p", "per-source-order", "-t", tmp_path / "tables")
    assert (found["answer"], found["broken"], found["doubts"]) == ("yes", 0, 0) and found["judged"] > 0
    earliest = min(row["at"] for row in ended.values())
    assert found["why"].startswith(f"cannot tell after {earliest:%Y-%m-%d %H:%M:%S} UTC")
