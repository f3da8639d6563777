"""Spark starts checked, bounded and without a word; what is missing is one line with the fix."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from rostra.errors import NotInstalled, Unreachable
from rostra.history import progress, session, warm
from rostra.history.schemas import EVENTS, TABLES
from rostra.journal.schema import COLUMNS


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(0o755)
    return path


def test_without_java_the_fix_is_named_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match="there is no java here") as missing:
        session.check_java()
    assert "apt-get install -y default-jre-headless" in missing.value.fix


@pytest.mark.parametrize(
    ("says", "version"),
    [('java version "1.8.0_402"', 8), ('openjdk version "11.0.2" 2019-01-15', 11)],
)
def test_an_old_java_is_named_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, version: int
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    program(tmp_path / "bin" / "java", says)
    with pytest.raises(NotInstalled, match=f"is Java {version}$"):
        try:
            session.check_java()
        except NotInstalled as error:
            raise NotInstalled(error.what) from None


def test_a_java_that_does_not_say_its_version_is_given_a_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    program(tmp_path / "bin" / "java", "hello")
    session.check_java()


def test_without_pyspark_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(NotInstalled, match=r"pip install 'rostra\[spark\]'"):
        session.check_spark()


def test_the_memory_is_bounded_on_any_machine() -> None:
    assert 1024 <= session.memory_mb() <= 8192


def test_what_spark_keeps_for_a_user_is_for_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROSTRA_HISTORY_HOME", str(tmp_path / "kept"))
    assert session.home().stat().st_mode & 0o777 == 0o700


def test_whoever_starts_meanwhile_speaks_into_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    with session.standard_error_into(log):
        subprocess.run(["/bin/sh", "-c", "echo noise >&2"], check=True)
    os.write(2, b"ours\n")
    assert (log.read_text(), capfd.readouterr().err) == ("noise\n", "ours\n")


START = """
import sys
from rostra.history import session
try:
    session.start("local[1]")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_while_spark_starts_leaves_no_java_behind(tmp_path: Path) -> None:
    """This one presses Ctrl-C itself, again each second, and goes on for ever unless somebody ends it. Python
    loses one that comes just while it forks: its hooks of that moment ignore what is raised in them."""
    program(tmp_path / "java" / "bin" / "java", 'openjdk version "17.0.1"')
    submit = program(tmp_path / "spark" / "bin" / "spark-submit", "")
    submit.write_text(
        f"#!/bin/sh\nexec >/dev/null 2>&1\necho $$ >{tmp_path}/pid\n"
        "while :; do kill -INT $PPID; sleep 1; done\n"
    )
    places = {
        "JAVA_HOME": tmp_path / "java",
        "SPARK_HOME": tmp_path / "spark",
        "ROSTRA_HISTORY_HOME": tmp_path,
    }
    done = subprocess.run(
        [sys.executable, "-c", START],
        env={**os.environ, **{name: str(place) for name, place in places.items()}},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "interrupted\n", done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_a_java_that_ends_while_progress_is_shown_is_nobodys_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, told = threading.Event(), []

    class Ended:
        @property
        def sparkContext(self) -> None:
            asked.set()
            raise ConnectionResetError

    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    monkeypatch.setattr(threading, "excepthook", told.append)
    gone: Any = Ended()
    before = set(threading.enumerate())
    with progress.progress(gone, "asking"):
        assert asked.wait(60)
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
    assert told == []


def test_what_takes_long_says_so_once_where_nothing_can_be_drawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = progress.ProgressLine("asking Spark")
    line.say("1 of 2 tasks")
    assert capsys.readouterr().err == ""  # it may be over before anybody wonders
    monkeypatch.setattr(progress, "QUIET_FOR_S", 0.0)
    line.say("1 of 2 tasks")
    line.say("2 of 2 tasks")
    line.end()
    line.say()
    assert capsys.readouterr() == ("", "asking Spark ...\n")


def test_workers_run_our_python_in_utc(spark: SparkSession) -> None:
    where = F.udf(lambda _: sys.executable)
    row = spark.range(1).select(where("id").alias("python"), F.current_timezone().alias("zone")).first()
    assert row is not None
    assert (row.python, row.zone) == (sys.executable, "UTC")


def test_the_schema_of_events_is_the_journals() -> None:
    assert EVENTS.names == [column.name for column in COLUMNS]
    assert [field.name for field in EVENTS if not field.nullable] == [
        column.name for column in COLUMNS if column.required
    ]


def test_every_table_can_be_made(spark: SparkSession) -> None:
    for schema in TABLES.values():
        assert spark.createDataFrame([], schema).schema == schema


def test_a_keeper_that_is_not_ready_in_time_is_ended_and_the_error_says_for_how_long_it_was_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROSTRA_HISTORY_HOME", str(tmp_path))
    with pytest.raises(Unreachable) as late:
        warm.start(within_s=0.05)
    assert late.value.fix.splitlines() == ["it was not ready within 0.05 s; on a busy machine, ask again"]
