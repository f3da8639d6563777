"""Where Spark runs, and how it is started: checked first, with bounds, and without output on the terminal.

    start()                    on this machine, in this process:      local[*]
    start("spark://host:7077") on a cluster; this process drives it
    connect("sc://host:15002") on a Spark Connect server, which drives it

The Java machine inherits a log file as its standard error, because it writes there before it reads any of its
settings; if it fails, the user is shown the end of that log.
"""

import contextlib
import hashlib
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from rostra.errors import NotInstalled, RostraError, Unreachable
from rostra.history import handover
from rostra.history.files import unreadable

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

HERE: Final = "local[*]"

JAVA_AT_LEAST: Final = 17
JAVA_FIX: Final = "apt-get install -y default-jre-headless    (or set JAVA_HOME to Java 17 or newer)"
SPARK_FIX: Final = "pip install 'rostra[spark]'"

LOG_LINES_SHOWN: Final = 12

GONE: Final = re.compile("UNAVAILABLE|RETRIES_EXCEEDED")
GONE_FIX: Final = "run the command again; if that ends so too, give it more memory: SPARK_DRIVER_MEMORY=4g"
"""Whatever a command was at, the next one goes on with."""

ERROR: Final = re.compile(r"^(?:\w+\.)*\w+Error: (.+)$", re.MULTILINE)
WORKERS_FIX: Final = "install rostra[spark] there, in a Python of this version that PYSPARK_PYTHON names"

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
"""Of conditions, to what `spark.read.format("rostra")` reads."""

SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",  # we draw our own
    # Finished queries are not looked at again; their full plans would take most of the memory.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.session.timeZone": "UTC",
    # Every sum, sort and table of a join begins with one: Spark's 64 MB of this machine's memory are filled
    # with zeros first, and collected again after a handful of rows.
    "spark.buffer.pageSize": "2m",
    # Else every column that is written down takes four calls to Java, to say in which line that was.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    PUSHDOWN: "true",
    # Segments of some hundred rows are listed and read in groups, and not each by a task of its own.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "32",
    "spark.sql.files.openCostInBytes": str(128 << 10),
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # not the old INT96
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""Whatever runs here. A cluster's driver must be reachable by its workers: see `start`."""


def java_options() -> str:
    """Of a Java on this machine: its slow and thorough compiler waits a hundred times longer than usual. What
    a question or two run never gets that far, and a month of rows soon does. Collecting in parallel takes
    half of what Java's own choice does; two choices would be refused. All promises over a million rows: 91 s
    of processor, and 108 as Java is."""
    said = os.environ.get("JDK_JAVA_OPTIONS", "") + os.environ.get("JAVA_TOOL_OPTIONS", "")
    patience = {"Invocation": 500_000, "MinInvocation": 200_000, "Compile": 1_500_000, "BackEdge": 4_000_000}
    waits = " ".join(f"-XX:Tier4{what}Threshold={times}" for what, times in patience.items())
    return waits if "GC" in said else f"-XX:+UseParallelGC {waits}"


def memory_mb() -> int:
    """For Spark on this machine: a quarter of its memory, at least 1 and at most 8 GiB."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return min(max(physical // 4, 1024), 8192)


def partitions() -> dict[str, str]:
    """Spark's 200 are for a cluster. Here each is a file to be made, for a handful of rows and two cores."""
    return {"spark.sql.shuffle.partitions": str(max(8, 4 * (os.cpu_count() or 1)))}


def check_spark() -> None:
    """One line with the fix, before anything is started."""
    if find_spec("pyspark") is None:
        raise NotInstalled("questions about history need PySpark, which is not installed", fix=SPARK_FIX)


def check_java() -> None:
    found = java()
    if found is None:
        raise NotInstalled(f"Spark needs Java {JAVA_AT_LEAST}, and there is no java here", fix=JAVA_FIX)
    version = java_version(found)
    if version is not None and version < JAVA_AT_LEAST:
        raise NotInstalled(f"Spark needs Java {JAVA_AT_LEAST}, and {found} is Java {version}", fix=JAVA_FIX)


def java() -> str | None:
    """The one that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    if home:
        inside = Path(home) / "bin" / "java"
        return str(inside) if inside.exists() else None
    return shutil.which("java")


def java_version(command: str) -> int | None:
    """17 for ``openjdk version "17.0.15"``, 8 for ``java version "1.8.0"``; None if it does not say."""
    try:
        said = subprocess.run((command, "-version"), capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(found[1]) if found else None


def start(
    master: str = HERE,
    *,
    app: str = "rostra history",
    log: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> "SparkSession":
    """A session in this process, on `master`. What Spark has to say goes to `log`."""
    check_spark()
    check_java()
    local = master.startswith("local")
    prepare_environment(local=local)
    from pyspark.sql import SparkSession

    chosen = {
        **SETTINGS,
        **(partitions() if local else {}),
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", f"{memory_mb()}m"),
    }
    if not local:
        # Its workers call back: let Spark find an address that others can reach.
        del chosen["spark.driver.host"], chosen["spark.driver.bindAddress"]
        if "SPARK_LOCAL_IP" in os.environ:
            chosen["spark.driver.host"] = os.environ["SPARK_LOCAL_IP"]
    chosen |= settings or {}
    options = chosen.get("spark.driver.extraJavaOptions", java_options() if local else "")
    chosen["spark.driver.extraJavaOptions"] = " ".join(
        (options, f"-Dlog4j2.configurationFile=file:{log4j2()}")
    ).strip()
    builder = SparkSession.Builder().appName(app).master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    log = log or default_log()
    log_into(log)
    try:
        with standard_error_into(log):
            session = builder.getOrCreate()
    except KeyboardInterrupt:
        end_half_started()
        raise
    except Exception as error:
        raise Unreachable(f"Spark did not start on {master}", fix=why_not(log, error)) from None
    session.sparkContext.setLogLevel("WARN")
    _remember_names(session)
    return session


class _Remembered:
    """A Java class, of which each member is looked up once."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._java, name)
        setattr(self, name, member)
        return member


def _remember_names(session: "SparkSession") -> None:
    """Whenever a column is written down py4j asks Java for the class that makes it, and for classes of that
    name in every package and jar: a tenth of what it takes to plan an audit."""
    java: Any = session.sparkContext._jvm
    for name in ("functions", "org.apache.spark.sql.functions", "PythonUtils", "PythonSQLUtils"):
        setattr(java, name, _Remembered(getattr(java, name)))


def connect(remote: "str | DefaultChannelBuilder", *, tries: int | None = None) -> "SparkSession":
    """A session on a Spark Connect server: ``sc://host:15002``. One that does not answer is tried so often, a
    second apart; else for ten minutes, as Spark does."""
    check_spark()
    if find_spec("grpc") is None:
        raise NotInstalled("Spark Connect needs grpcio, which is not installed", fix=SPARK_FIX)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        if isinstance(remote, str):
            session = SparkSession.Builder().remote(remote).getOrCreate()
        else:
            from pyspark.sql.connect.session import SparkSession as RemoteSession

            os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # as the other builder does: functions ask for it
            session = cast("SparkSession", RemoteSession.Builder().channelBuilder(remote).getOrCreate())
            remote = remote.endpoint
        if tries is not None:
            from pyspark.sql.connect.client.retries import DefaultPolicy

            # That they were not enough is an error, and one is enough of it.
            warnings.filterwarnings("ignore", message=r"\[RETRIES_EXCEEDED\]")
            session.client.set_retry_policies([DefaultPolicy(max_retries=tries, max_backoff=1000)])
        session.conf.set("spark.sql.session.timeZone", "UTC")
        fit(session)
    except PySparkException as error:
        if tries is not None:
            raise given_up(error) from None  # it answered a moment ago
        raise Unreachable(
            f"no Spark Connect server answers at {remote}", fix=str(error).splitlines()[0]
        ) from None
    return session


def interrupt(session: "SparkSession") -> None:
    """Whatever it works on is not wanted any more."""
    with contextlib.suppress(Exception):
        if is_here(session):
            session.sparkContext.cancelAllJobs()
        else:
            session.interruptAll()


def end_half_started() -> None:
    """A Java machine of ours that was about to start. It ignores Ctrl-C, and left alone it would stay for
    ever: PySpark has removed the file in which it was to say where it listens."""
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        return  # it is there, and ends when we do
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                if b"pyspark-shell" in Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)


def end(session: "SparkSession") -> None:
    """In good order if it can be; a Java machine that died before us needs no goodbye."""
    with contextlib.suppress(Exception):
        session.stop()


@contextlib.contextmanager
def lent(session: "SparkSession") -> Iterator["SparkSession"]:
    """For as long as it is worked with: Ctrl-C or a SIGTERM ends its work, and it is ended in any case. What
    Spark complains of is an error in one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with _terminated():
            yield session
    except (KeyboardInterrupt, SystemExit):
        interrupt(session)
        raise
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise given_up(error) from None
    finally:
        end(session)


def given_up(error: Exception) -> RostraError:
    """What Spark complains of, in one line."""
    said = str(error).strip()
    if isinstance(error, ConnectionError) or GONE.search(said) is not None or _has_ended(error):
        return Unreachable("Spark's Java ended in the middle of it", fix=GONE_FIX)
    return unreadable(said) or RostraError(f"Spark gave up: {said.splitlines()[0]}", fix="its log says more")


def _has_ended(error: Exception) -> bool:
    """Is it an error of the bridge to a Java machine of ours that is no more? Which one depends on what was
    under way."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None or not isinstance(error, Py4JError) or isinstance(error, Py4JJavaError):
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    return process.poll() is not None


@contextlib.contextmanager
def _terminated() -> Iterator[None]:
    """A SIGTERM ends this process as an error does, unless a handler is installed already."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) not in (
        signal.SIG_DFL,
        None,
    ):
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def is_here(session: "SparkSession") -> bool:
    """Does this process drive it, or is it a client's session?"""
    return not type(session).__module__.startswith("pyspark.sql.connect")


def fit(session: "SparkSession") -> None:
    """Set up a session that other code started: filter push-down to our reader, which Spark disables; and, on
    this machine, our own Python, which may not be the first on the path, with our credentials for object
    stores."""
    session.conf.set(PUSHDOWN, "true")
    if is_here(session) and str(session.sparkContext.master).startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        session.sparkContext.pythonExec = os.environ["PYSPARK_PYTHON"]
        # How object stores are reached: Java may have been started before that was said.
        known = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        session.sparkContext.environment.update(known)


def check_workers(session: "SparkSession") -> None:
    """Tasks elsewhere run a Python of their own: has it what ours has? On this machine it is ours."""
    if is_here(session) and str(session.sparkContext.master).startswith("local"):
        return
    from pyspark.errors import PySparkException

    try:
        session.range(1).mapInArrow(_as_it_is, "id LONG").collect()
    except PySparkException as error:
        named = ERROR.findall(str(error))
        why = named[-1] if named else str(error).strip().splitlines()[0]
        raise NotInstalled(f"Spark's workers cannot run Rostra: {why}", fix=WORKERS_FIX) from None


def _as_it_is(batches: "Iterator[RecordBatch]") -> "Iterator[RecordBatch]":
    """Found by its name, and so only where Rostra is installed."""
    return batches


def prepare_environment(*, local: bool = True) -> None:
    """Workers run our Python, and not the first `python3` on the path; nothing leaves the machine."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if local:
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.pop("SPARK_REMOTE", None)  # it would turn a session in this process into a client


def classes() -> Path:
    """Where Java finds the classes that a Spark has loaded before, checked and laid out: half of what the
    start of Spark takes. Another Java or Spark has others."""
    spark = find_spec("pyspark")
    installed = os.stat(spark.origin).st_mtime_ns if spark is not None and spark.origin else 0
    of = (java(), java_version(java() or ""), version("pyspark"), installed)
    return home() / f"classes-{hashlib.sha256(repr(of).encode()).hexdigest()[:16]}.jsa"


def with_classes() -> str:
    """For Java, which looks at every jar again, and does without where one has changed."""
    return f"-XX:SharedArchiveFile={classes()} -Xlog:disable" if classes().exists() else ""


def log4j2() -> Path:
    return Path(str(resources.files("rostra.history") / "log4j2.properties"))


def home() -> Path:
    """The private directory of `rostra history` for this user, made if needed: see `handover.home`."""
    directory = handover.home()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.chmod(0o700)
    return directory


def default_log() -> Path:
    return home() / "spark.log"


def log_into(log: Path) -> None:
    """Logs of Python libraries go into the same file as those of Java. py4j reports a Java process that has
    ended to the root logger, which would print it."""
    for logger in (logging.getLogger("py4j"), logging.getLogger("pyspark"), logging.getLogger()):
        if not logger.handlers:
            logger.addHandler(logging.FileHandler(log, delay=True))
            logger.propagate = False


@contextlib.contextmanager
def standard_error_into(log: Path) -> Iterator[None]:
    """Processes that are started meanwhile write their standard error into a file, for all their lives."""
    sys.stderr.flush()
    ours = os.dup(2)
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, 2)
        os.close(descriptor)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def why_not(log: Path, error: Exception) -> str:
    """The end of Spark's log, or what Python was told."""
    said = str(error).strip().splitlines()[:1] or [type(error).__name__]
    with contextlib.suppress(OSError):
        lines = log.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        said += [*lines, f"more in {log}"] if lines else []
    return "\n".join(said)
