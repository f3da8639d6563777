"""`rostra history` as its user meets it: what is missing is said in a line, answers come in any format."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from itertools import takewhile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from history.test_ingest import steady
from pyspark.sql import SparkSession
from support.segments import send
from support.spark import java_of
from typer.testing import CliRunner

from rostra.cli import application
from rostra.history import warm
from rostra.history.answers import AnswerRows, cell
from rostra.history.ingest import Ingest
from rostra.history.session import GONE_FIX


def rostra(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "rostra", *words),
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
    )


def invoke(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(application(["history"]), ["history", *words])
    return done.exit_code, done.output


def test_without_java_a_command_says_what_to_install(tmp_path: Path) -> None:
    send(tmp_path / "journal", steady(3))
    done = rostra(
        *("history", "ingest", "-j", str(tmp_path / "journal"), "-t", str(tmp_path / "tables")),
        JAVA_HOME=str(tmp_path / "no-java"),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "error: Spark needs Java 17, and there is no java here",
        "  apt-get install -y default-jre-headless    (or set JAVA_HOME to Java 17 or newer)",
    ]


def test_help_needs_no_spark() -> None:
    script = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from rostra.cli import application\n"
        "application(['history'])(['history', 'ingest', '--help'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "--hole-after" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("ingest",), "no tables were named"),
        (("ingest", "-t", "x"), "no journal was named"),
        (("ingest", "-t", "x", "-j", "y", "--once", "--follow"), "once or for ever, not both"),
        (("compact",), "no tables were named"),
        (("compact", "-t", "/nonexistent/tables"), "there are no tables in /nonexistent/tables"),
    ],
)
def test_what_cannot_be_right_is_said_before_spark_starts(words: tuple[str, ...], says: str) -> None:
    code, output = invoke(*words)
    assert code == 2 and says in output


def test_the_status_of_tables_needs_no_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows = steady(30)
    journal, tables = tmp_path / "journal", tmp_path / "tables"
    send(journal, rows[:10])
    send(journal, rows[20:])
    (next(journal.glob("date=*")) / "broken.parquet").write_text("no")
    Ingest(spark, journal, tables).once()
    code, output = invoke("ingest", "-t", str(tables), "--status", "-o", "json")
    document = json.loads(output)
    assert code == 0
    assert (document["rows"]["events"], document["runs_held"], document["segments"]) == (10, 1, 2)
    assert [Path(each["file"]).name for each in document["set_aside"]] == ["broken.parquet"]
    assert "not Parquet" in document["set_aside"][0]["why"]


def test_nothing_ingested_is_said_and_not_shown_as_an_empty_table(tmp_path: Path) -> None:
    code, output = invoke("ingest", "-t", str(tmp_path), "--status")
    assert (code, output) == (1, f"nothing was ingested into {tmp_path} yet\n")


def test_answers_come_as_csv_json_lines_and_parquet_with_times_in_utc(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        frame = spark.sql(
            "SELECT 'ann, bob' AS who, TIMESTAMP '2026-11-15 12:00:00.5' AS at,"
            " NULL AS left_at, array(1, 2) AS n, 2591999.123456D AS of_s"
        )
        answer = AnswerRows(frame)
        csv, lines, document, parquet = io.BytesIO(), io.BytesIO(), io.BytesIO(), io.BytesIO()
        answer.write_csv(csv)
        answer.write_json(lines, lines=True)
        answer.write_json(document, lines=False)
        answer.write_parquet(parquet)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert csv.getvalue().decode() == (
        'who,at,left_at,n,of_s\n"ann, bob",2026-11-15T12:00:00.500000Z,,1 2,2591999.123456\n'
    )
    told = {
        "who": "ann, bob",
        "at": "2026-11-15T12:00:00.500000Z",
        "left_at": None,
        "n": [1, 2],
        "of_s": 2591999.123456,
    }
    assert [json.loads(line) for line in lines.getvalue().splitlines()] == [told]
    assert json.loads(document.getvalue()) == [told]
    assert pq.read_table(io.BytesIO(parquet.getvalue())).column_names == ["who", "at", "left_at", "n", "of_s"]


def test_a_long_answer_is_cut_for_a_terminal_and_says_so(spark: SparkSession) -> None:
    assert AnswerRows(spark.range(5), at_most=5).is_cut is False
    cut = AnswerRows(spark.range(6), at_most=5)
    assert (cut.is_cut, cut.table.num_rows) == (True, 5)


def test_cells_are_for_people() -> None:
    assert [cell(value) for value in (None, True, 0.1 + 0.2, ["a", "b"], 7)] == [
        "-",
        "yes",
        "0.3",
        "a b",
        "7",
    ]


def test_on_a_terminal_times_leave_out_what_all_of_them_begin_with(spark: SparkSession) -> None:
    times = (
        "2026-11-15 12:00:00.5",
        "2026-11-15 12:00:01.123456",
        "2026-11-16 09:00:00",
        "2027-01-01 00:00:00",
    )

    def shown(*chosen: str) -> tuple[str, list[list[str]]]:
        values = ", ".join(f"(TIMESTAMP '{each}', NULL)" for each in chosen)
        got = AnswerRows(spark.sql(f"SELECT * FROM VALUES {values} AS t(at, left_at)"))
        return got.common, list(got.cells(narrow=True))

    assert shown(*times[:2]) == ("2026-11-15", [["12:00:00.500", "-"], ["12:00:01.123", "-"]])
    assert shown(*times[1:3]) == ("2026", [["11-15 12:00:01.123", "-"], ["11-16 09:00:00.000", "-"]])
    assert shown(*times[2:]) == ("", [["2026-11-16 09:00:00.000", "-"], ["2027-01-01 00:00:00.000", "-"]])
    assert list(AnswerRows(spark.sql(f"SELECT TIMESTAMP '{times[0]}' AS at")).cells()) == [
        ["2026-11-15T12:00:00.500000Z"]
    ]


def test_stopping_what_is_not_there_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROSTRA_HISTORY_HOME", str(tmp_path))
    assert invoke("stop") == (0, "no Spark was kept warm\n")


def test_a_process_that_only_has_the_number_of_a_keeper_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROSTRA_HISTORY_HOME", str(tmp_path))
    (tmp_path / "keeper.json").write_text(
        json.dumps({"pid": os.getpid(), "port": 1, "token": "", "made_of": ""})
    )
    assert warm.find() is None
    assert warm.stop() is None


def test_java_that_dies_under_an_ingest_is_one_line_and_the_next_call_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    journal, tables, rows = tmp_path / "journal", tmp_path / "tables", steady(30)
    send(journal, rows[:10])
    words = ("history", "ingest", "-j", str(journal), "-t", str(tables), "--follow")
    home = {"ROSTRA_HISTORY_HOME": str(tmp_path), "SPARK_DRIVER_MEMORY": "1g"}
    home["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # it does not live for long
    with subprocess.Popen(
        (sys.executable, "-m", "rostra", *words),
        env={**os.environ, **home},
        stderr=subprocess.PIPE,
        text=True,
    ) as follows:
        try:
            assert follows.stderr is not None
            before = list(takewhile(lambda line: not line.startswith("batch 0: "), follows.stderr))
            os.kill(java_of(follows.pid), signal.SIGKILL)
            _, after = follows.communicate(timeout=300)
        finally:
            follows.kill()
    assert (follows.returncode, after.splitlines()[-2:]) == (
        4,
        ["error: Spark's Java ended in the middle of it", f"  {GONE_FIX}"],
    )
    assert "Traceback" not in "".join(before) + after

    send(journal, rows[10:])
    Ingest(spark, journal, tables).once()
    events = pq.read_table(tables / "events", columns=["seq"])
    assert sorted(events["seq"].to_pylist()) == [row["seq"] for row in rows]
