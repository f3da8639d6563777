"""A Spark that is kept warm between questions, and ends when nobody asks any more."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.spark import java_of, require_spark

from rostra.history import session, warm

ASK = """
import os, sys, time
from rostra.history import warm
spark = warm.session()
print(spark.range(10).count(), warm.find().pid)
"""


TRY = """
import sys
from msgspec.structs import replace
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession
from rostra.history import warm
print(warm.find().pid)
for token in sys.stdin.read().split(","):
    keeper = replace(warm.find(), token=token)
    try:
        print(SparkSession.Builder().channelBuilder(warm.channel_to(keeper)).create().range(1).count())
    except PySparkException as error:
        print("unknown" if "StatusCode.UNAUTHENTICATED" in str(error) else error)
"""


def answers(*tokens: str) -> list[str]:
    """What a client is answered that comes with each of these."""
    command = [sys.executable, "-c", TRY]
    return subprocess.check_output(command, input=",".join(tokens), text=True, timeout=600).splitlines()


@contextlib.contextmanager
def somebody_there() -> Iterator[None]:
    """Somebody comes to ask again and again, so that not even a slow machine's pause is taken for the end."""
    gone = threading.Event()

    def come() -> None:
        while not gone.wait(0.5):
            warm._came().touch()

    warm._came().touch()
    coming = threading.Thread(target=come)
    coming.start()
    try:
        yield
    finally:
        gone.set()
        coming.join()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of keepers that nobody else uses."""
    require_spark()
    place = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROSTRA_HISTORY_HOME", str(place))
        patch.setenv("SPARK_DRIVER_MEMORY", "1g")
        yield place


def test_the_second_question_finds_spark_warm_and_it_ends_when_nobody_asks(home: Path) -> None:
    try:
        with somebody_there():
            keeper = warm.start(within_s=600, idle_s=4.0)
            assert (home / "keeper.json").stat().st_mode & 0o077 == 0
            assert keeper.token not in Path(f"/proc/{keeper.pid}/cmdline").read_text()
            said = subprocess.check_output([sys.executable, "-c", ASK], text=True, timeout=600)
            assert said == f"10 {keeper.pid}\n"
            said_to = answers("", "wrong", keeper.token[:-1], keeper.token)
            assert said_to == [f"{keeper.pid}", "unknown", "unknown", "unknown", "1"]
            with socket.socket(socket.AF_INET6) as other, pytest.raises(OSError, match="in use"):
                other.bind(("::1", keeper.port))  # nobody else can be taken for it
        deadline = time.monotonic() + 600
        while warm.is_ours(keeper.pid):
            assert time.monotonic() < deadline, "it did not end although nobody asked"
            time.sleep(0.5)
        assert not (home / "keeper.json").exists()
        assert [path.name for path in home.glob("classes-*")] == [session.classes().name]
    finally:
        warm.stop()


class Ending(subprocess.Popen[bytes]):
    """A process that ends after it was waited for in vain so often."""

    def __init__(self, waits: int) -> None:
        self.waits, self.killed = waits, False

    def wait(self, timeout: float | None = None) -> int:
        if self.waits == 0:
            return 0
        self.waits -= 1
        raise subprocess.TimeoutExpired("java", timeout or 0.0)

    def kill(self) -> None:
        self.killed = True

    def __del__(self) -> None:
        pass


def test_a_java_that_works_is_waited_for_however_slow_it_is_and_one_that_stopped_is_not() -> None:
    works, stopped = Ending(waits=50), Ending(waits=50)
    assert warm.ended(works, used=iter(range(50)).__next__) == 0 and not works.killed
    assert warm.ended(stopped, used=lambda: 7) is None and stopped.killed and stopped.waits == 48


HANG_ON = """
import sys
from rostra.errors import Unreachable
from rostra.history import session, warm
try:
    with session.lent(warm.session()) as spark:
        print("asking", flush=True)
        spark.range(10**18).selectExpr("sum(id % 7)").collect()
except Unreachable as error:
    print(error.what)
"""


def test_of_two_that_start_at_once_one_stays_and_when_its_java_dies_whoever_asks_is_told(
    home: Path,
) -> None:
    """A command that is killed while Spark starts leaves a keeper behind, and the next one starts another."""
    command = (sys.executable, "-m", "rostra.history.warm", "600")
    knows_classes = session.classes().exists()  # of the test before
    both = [subprocess.Popen(command, start_new_session=True, cwd="/") for _ in range(2)]
    try:
        deadline = time.monotonic() + 600
        while all(process.poll() is None for process in both):
            assert time.monotonic() < deadline, "both stay"
            time.sleep(0.5)
        keeper = warm.find()
        [stays] = [process for process in both if process.poll() is None]
        assert keeper is not None and keeper.pid == stays.pid
        asking = subprocess.Popen(
            [sys.executable, "-c", HANG_ON], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert asking.stdout is not None and asking.stdout.readline() == "asking\n"
        java = java_of(stays.pid)
        assert (str(session.classes()) in Path(f"/proc/{java}/maps").read_text()) == knows_classes
        os.kill(java, signal.SIGKILL)
        told, warned = asking.communicate(timeout=600)
        assert told == "Spark's Java ended in the middle of it\n" and "Warning" not in warned
        assert warm.find() is None  # so that the next one starts another
    finally:
        for process in both:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
