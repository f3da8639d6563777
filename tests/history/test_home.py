"""At home in a session that somebody else started: the lines of docs/spark.md, run as they stand there."""

import os
import re
import subprocess
import sys
from functools import reduce
from operator import or_
from pathlib import Path

import pytest
from history.test_ingest import steady
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from support.journal import Journal, clock
from support.segments import send
from support.spark import require_spark

from rostra.errors import BadInput
from rostra.history import questions
from rostra.history.archive import Archive, views
from rostra.history.audits import verdicts
from rostra.history.ingest import Ingest
from rostra.history.questions.who import who
from rostra.history.schemas import NEW_NAMES
from rostra.history.source import register

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"

PROGRAM = '''
import asyncio, os, subprocess, sys

async def cells():
    """As a notebook's kernel runs them: inside a loop, one after the other, with the same names."""
    names = {}
    exec(compile(LINES, "docs/spark.md", "exec"), names)
    return names

names = asyncio.run(cells())
spark = names["spark"]
query = names["growing"].writeStream.format("memory").queryName("grown").trigger(availableNow=True).start()
query.awaitTermination()
counted = spark.sql("select max(seq), (select count(*) from grown) from events")
print("said", names["journal"].where("seq > 2").count(), *counted.first())
'''

WITHOUT = """
import os, subprocess, sys
service = getattr(spark.sparkContext._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
at = f"sc://127.0.0.1:{getattr(service, 'MODULE$').localPort()}"
kept = {name: value for name, value in os.environ.items() if "SPARK" not in name}
lines = "from pyspark.sql import SparkSession; from rostra.history import register\\n"
lines += "register(SparkSession.builder.getOrCreate())"
done = subprocess.run([sys.executable, "-c", lines], env={**kept, "SPARK_REMOTE": at}, stderr=subprocess.PIPE)
print(done.stderr.decode().splitlines()[-1])
"""

CONNECT = "spark.plugins=org.apache.spark.sql.connect.SparkConnectPlugin"
ANYWHERE = "spark.connect.grpc.binding.port=0"


def lines(places: Path) -> str:
    """Of the page's chapter on notebooks, with paths of ours."""
    [chapter] = re.findall(r"^## From a notebook\n(.*?)^## ", PAGE.read_text(), re.S | re.M)
    python = "\n".join(re.findall(r"^```python\n(.*?)^```", chapter, re.S | re.M))
    python = python.replace("/srv/rostra/tables", str(places / "tables"))
    return f"LINES = {python.replace('/srv/journal', str(places / 'journal'))!r}\n{PROGRAM}"


@pytest.fixture(scope="module")
def places(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("home")
    rows = [{**row, "group": "chess@eu"} for row in steady(5)]
    send(place / "journal", rows)
    Ingest(spark, place / "journal", place / "tables").once()
    return place


def run(program: str, **variables: str) -> str:
    """By our Python, which is not on the path."""
    environment = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    environment |= {"PATH": "/usr/bin:/bin", "TZ": "Asia/Tokyo", "SPARK_LOCAL_IP": "127.0.0.1", **variables}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.long
def test_the_lines_of_the_page_work_in_a_plain_session_of_a_notebook(places: Path) -> None:
    """And whoever comes to it by Connect is told in one line that its Python is another."""
    require_spark()
    settings = (CONNECT, ANYWHERE, "spark.connect.grpc.binding.address=127.0.0.1", "spark.ui.enabled=false")
    arguments = " ".join(f"--conf {each}" for each in (*settings, "spark.driver.memory=1g"))
    arguments += " --driver-java-options -XX:TieredStopAtLevel=1"
    said = run(lines(places) + WITHOUT, PYSPARK_SUBMIT_ARGS=f"{arguments} pyspark-shell").splitlines()
    assert said[-2] == "said 3 5 5"
    assert re.search(
        r"NotInstalled: Spark's workers cannot run Rostra: .+; install rostra\[spark\]", said[-1]
    )


@pytest.mark.long
def test_the_lines_of_the_page_work_in_spark_connect(spark: SparkSession, places: Path) -> None:
    packages = spark.sparkContext._jvm
    service = getattr(packages.org.apache.spark.sql.connect.service, "SparkConnectService$")
    at = f"sc://127.0.0.1:{getattr(service, 'MODULE$').localPort()}"
    assert run(lines(places), SPARK_REMOTE=at).splitlines()[-1] == "said 3 5 5"


@pytest.fixture(scope="module")
def seen(spark: SparkSession) -> DataFrame:
    """One host that follows one group, and sees one member come."""
    journal = Journal()
    journal.start("eu.paris.h1")
    journal.write("eu.paris.h1", "followed", at=1, group="chess@world", observers=["x#1"], told=1)
    journal.sees("eu.paris.h1", "joined", "us.ny.h1/ann#1", at=2)
    journal.write("eu.paris.h1", "heartbeat", at=9)
    return journal.frame(spark)


def test_a_name_that_is_not_in_the_events_is_an_error_of_the_answer(seen: DataFrame) -> None:
    """With the closest one; and an answer that is right is not changed by looking."""
    found = seen.transform(questions.who, "chess@world", clock(5), "eu.paris")
    assert found.schema == who(seen, "chess@world", clock(5)).schema
    assert [row.member for row in found.collect()] == ["us.ny.h1/ann#1"]
    for wrong, says in (
        (questions.who(seen, "ches@world", clock(5)), "no group 'ches@world' .*did you mean chess@world?"),
        (questions.followers(seen, "chess", clock(5)), "did you mean chess@world?"),
        (questions.who(seen, "chess@world", clock(5), seen_from="eu.pari"), "did you mean eu.paris?"),
        (questions.disagreement(seen, "eu", "uss"), "no place 'uss' .*did you mean eu?"),
        (questions.why(seen, "us.ny.h1/ann", clock(5), "eu.paris.h2"), "did you mean eu.paris.h1?"),
    ):
        with pytest.raises(PySparkException, match=says):
            wrong.collect()
    nothing = seen.where("kind = 'no such'")
    assert questions.who(nothing, "ches@world", clock(5)).collect() == []


def test_a_promise_or_table_that_is_not_there_is_refused_with_the_closest(
    spark: SparkSession, seen: DataFrame, places: Path
) -> None:
    with pytest.raises(BadInput, match=r"did you mean per-source-order\?"):
        verdicts(seen, "per-sourceorder")
    for archive in (
        Archive(spark, tables=str(places / "tables")),
        Archive(spark, journal=str(places / "journal")),
    ):
        with pytest.raises(BadInput, match=r"did you mean stays\?"):
            archive.table("stay")


def test_those_transforms_stream_of_which_the_page_says_so(spark: SparkSession, places: Path) -> None:
    register(spark)
    growing = spark.readStream.format("rostra").load(str(places / "journal"))
    [said] = re.findall(r"^Of the questions, (.*?) can follow a stream", PAGE.read_text(), re.M)
    can = {
        "churn": questions.churn(growing),
        "known": questions.known(growing),
        "removals": questions.removals(growing, "us", clock(5), "eu"),
    }
    assert re.findall(r"`(\w+)`", said) == list(can)
    for name, answer in can.items():
        writing = answer.writeStream.outputMode("update").format("memory").queryName(name)
        writing.trigger(availableNow=True).start().awaitTermination()
    for cannot in (questions.stays(growing), questions.who(growing, "chess@eu", clock(5))):
        with pytest.raises(AnalysisException):
            cannot.writeStream.outputMode("update").format("memory").queryName("no").start()


def test_columns_that_collide_with_methods_and_words_have_new_names_beside_the_old_ones(
    spark: SparkSession, places: Path
) -> None:
    """For one format of the tables: in an archive of either kind, in SQL, and in the reader."""
    journal, tables = str(places / "journal"), str(places / "tables")
    views(spark, tables)
    register(spark)
    frames = (
        Archive(spark, journal=journal).events,
        Archive(spark, tables=tables).events,
        Archive(spark, journal=journal).table("traffic"),
        Archive(spark, tables=tables).table("deliveries"),
        Archive(spark, tables=tables).table("holes"),
        spark.table("notices"),
        spark.read.format("rostra").load(journal),
    )
    for frame in frames:
        old = [name for name in frame.columns if name in NEW_NAMES]
        assert old and {NEW_NAMES[name] for name in old} < set(frame.columns)
        assert not any(hasattr(DataFrame, NEW_NAMES[name]) for name in old)
    events = reduce(DataFrame.unionByName, (frames[0], frames[1], frames[-1]))
    wrong = reduce(or_, (~F.col(old).eqNullSafe(F.col(new)) for old, new in NEW_NAMES.items()))
    [row] = events.agg(F.count("*"), F.count_if(wrong), F.count("event_rows")).collect()
    assert tuple(row) == (15, 0, 15)
