"""A Spark process that stays warm between questions: the first command starts it, idleness ends it.

    rostra history who ...      no keeper: start one, wait for it, ask             10 s and more
    rostra history stays ...    ask it                                             as long as the answer takes
                                no question for ten minutes: it ends by itself

The **keeper** is a process of ours that runs a Spark Connect server on loopback, on a port that the system
chose, with a token that only this user can read. Each command is a client with a session of its own.

A process that has the token can run code as this user. The name `localhost` means `::1` first, where another
user of the machine might listen at the same port: clients call 127.0.0.1, and the keeper holds `::1`, too.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from rostra.errors import UNDECODABLE, Unreachable
from rostra.history import session as sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

IDLE_S: Final = 600.0
START_WITHIN_S: Final = 180.0
END_WITHIN_S: Final = 5.0
LOOK_EVERY_S: Final = 2.0

TRIES: Final = 6
"""How often a keeper that does not answer is asked again, within some seconds. One that ended does not come
back."""

STOPPED_S: Final = 60.0
"""A Java process that used no processor time for so long has stopped writing its class archive. The archive
takes 15 s of processor time, which may be minutes on a busy machine."""

FORGET_S: Final = 60.0
"""After so long without a question, cached answers are dropped: their client may have been killed."""

TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""Passed through the environment, because any user can read a command line."""


class Keeper(Struct, frozen=True):
    """How to reach it."""

    pid: int
    port: int
    token: str
    made_of: str  # another Spark, Python or Rostra cannot be used


def made_of() -> str:
    """What both ends must agree on; also on how object stores are reached, which tasks know from there."""
    aws = sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))
    seen = hashlib.sha256(repr(aws).encode()).hexdigest()[:12] if aws else ""
    return f"{version('pyspark')} {sys.executable} {version('rostra')} {seen}".strip()


def session(*, start_within_s: float = START_WITHIN_S) -> "SparkSession":
    """A session on the warm Spark of this user; it is started if need be."""
    sessions.check_spark()
    _came().touch(mode=0o600)
    keeper = find()
    if keeper is None:
        sessions.check_java()  # by running it, which takes a tenth of a second
        keeper = start(within_s=start_within_s)
    _came().touch()  # the first question may be thought about for long before its first job
    return sessions.connect(channel_to(keeper), tries=TRIES)


def channel_to(keeper: Keeper) -> "DefaultChannelBuilder":
    """To 127.0.0.1, and nowhere else. PySpark's own builder sends a token without TLS to `localhost` only."""
    import grpc
    from pyspark.sql.connect.client import DefaultChannelBuilder

    class Loopback(DefaultChannelBuilder):
        def toChannel(self) -> grpc.Channel:
            credentials = grpc.composite_channel_credentials(
                grpc.local_channel_credentials(), grpc.access_token_call_credentials(keeper.token)
            )
            return self._secure_channel(f"ipv4:127.0.0.1:{keeper.port}", credentials)

    return Loopback(f"sc://127.0.0.1:{keeper.port}")


def find() -> Keeper | None:
    """The keeper, if there is one that can be used."""
    try:
        keeper = msgspec.json.decode(_file().read_bytes(), type=Keeper)
    except (OSError, *UNDECODABLE):
        return None
    return keeper if keeper.made_of == made_of() and is_ours(keeper.pid) and _answers(keeper.port) else None


def start(*, within_s: float = START_WITHIN_S, idle_s: float = IDLE_S) -> Keeper:
    """Start a keeper; two commands at once start one."""
    with _only_one():
        found = find()
        if found is not None:
            return found
        stop()  # of another version, or half dead
        log = sessions.home() / "keeper.log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                (sys.executable, "-m", "rostra.history.warm", str(idle_s)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,  # Ctrl-C is for the command, not for it
                cwd="/",
            )
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            found = find()
            if found is not None:
                return found
            if process.poll() is not None:
                found = find()  # another one was quicker, and ours has gone
                if found is not None:
                    return found
                break
            time.sleep(0.1)
        code = process.poll()
        if code is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_WITHIN_S)
            why = f"it was not ready within {within_s:g} s; on a busy machine, ask again"
        else:
            why = f"exit code {code}"
        raise Unreachable("Spark did not start", fix=sessions.why_not(log, RuntimeError(why)))


def stop() -> int | None:
    """End the keeper. Says which process it was; None if there was none."""
    try:
        keeper = msgspec.json.decode(_file().read_bytes(), type=Keeper)
    except (OSError, *UNDECODABLE):
        return None
    _file().unlink(missing_ok=True)
    if not is_ours(keeper.pid):
        return None
    with contextlib.suppress(ProcessLookupError):
        os.kill(keeper.pid, signal.SIGTERM)
    return keeper.pid


def is_ours(pid: int) -> bool:
    """Numbers of processes are used again: is it a keeper still, and of this user?"""
    process = Path(f"/proc/{pid}")
    try:
        is_keeper = b"rostra.history.warm" in (process / "cmdline").read_bytes()
        return is_keeper and process.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _came() -> Path:
    """Touched by every command that comes to ask."""
    return sessions.home() / "keeper.asked"


def _file() -> Path:
    return sessions.home() / "keeper.json"


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    with (sessions.home() / "keeper.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# The keeper's own life


def keep(idle_s: float = IDLE_S) -> None:
    """Serve until there was no question for `idle_s`, or a SIGTERM."""
    token = os.environ.setdefault(TOKEN, secrets.token_urlsafe(32))
    os.umask(0o077)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    classes = sessions.classes()
    part = None if classes.exists() else classes.with_suffix(f".{os.getpid()}")
    known = sessions.with_classes() if part is None else f"-XX:ArchiveClassesAtExit={part} -Xlog:disable"
    spark = sessions.start(
        app="rostra history (warm)",
        settings={
            "spark.driver.extraJavaOptions": f"{sessions.java_options()} {known}",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
        },
    )
    packages: Any = spark.sparkContext._jvm
    service = getattr(packages.org.apache.spark.sql.connect.service, "SparkConnectService$")
    service = getattr(service, "MODULE$")
    keeper = Keeper(os.getpid(), service.localPort(), token, made_of())
    other_loopback = hold(keeper.port)
    used = Used(spark)
    ready: subprocess.Popen[bytes] | None = None
    try:
        _register(keeper)
        if _is_named(keeper):
            # It runs questions; see `handover`.
            ready = subprocess.Popen((sys.executable, "-m", "rostra.cli.history.ready"), cwd="/")
        while _is_named(keeper) and used.idle_s() < idle_s:
            if used.idle_s() > FORGET_S:
                spark.catalog.clearCache()
            time.sleep(LOOK_EVERY_S)
    finally:
        if _is_named(keeper):
            _file().unlink(missing_ok=True)
        if ready is not None:
            ready.terminate()
        spark.stop()
        if other_loopback is not None:
            other_loopback.close()
        if part is not None:
            _keep_classes(part, classes)


def _keep_classes(part: Path, classes: Path) -> None:
    """When Java has ended and written them down; half of them would be worse than none."""
    from pyspark import SparkContext

    process: Any = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return
    try:
        process.stdin.close()  # that is how Java hears of it
        if ended(process, lambda: _processor_ns(process.pid)) == 0:
            for old in classes.parent.glob(f"classes-*{classes.suffix}"):
                old.unlink()
            part.rename(classes)
    except OSError:
        process.kill()  # the next one tries again
    finally:
        part.unlink(missing_ok=True)


def ended(process: "subprocess.Popen[bytes]", used: Callable[[], int]) -> int | None:
    """The code with which it ended, however long that took; None if it had stopped working, and was killed.
    `used` says how much processor time it has had."""
    before = -1
    while True:
        try:
            return process.wait(STOPPED_S)
        except subprocess.TimeoutExpired:
            now = used()
            if now == before:
                process.kill()
                return None
            before = now


def _processor_ns(pid: int) -> int:
    """Of all its threads, those that have ended excepted; so it may fall, but it changes."""
    return sum(
        int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()
    )


def hold(port: int) -> socket.socket | None:
    """That port at `::1`, so that no other process listens there; None where there is no IPv6."""
    try:
        held = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        held.bind(("::1", port))
    except OSError as error:
        held.close()
        if error.errno != errno.EADDRINUSE:
            return None
        raise Unreachable(f"another process has port {port} of ::1", fix="ask again") from None
    return held


def _register(keeper: Keeper) -> None:
    """Say how to reach it, unless another one was quicker: a command that was killed leaves a keeper behind
    that is about to start, and the next command starts one too."""
    part = _file().with_suffix(f".{keeper.pid}")
    part.write_bytes(msgspec.json.encode(keeper))
    try:
        for _ in range(TRIES):
            if find() is not None:
                return
            _file().unlink(missing_ok=True)  # it names a keeper that has ended or does not answer
            with contextlib.suppress(FileExistsError):
                os.link(part, _file())
    finally:
        part.unlink()


class Used:
    """How long the keeper has been idle: since a command last reported itself, or a Spark job ran."""

    def __init__(self, spark: "SparkSession") -> None:
        scheduler: Any = spark.sparkContext._jsc.sc()
        self._scheduler, self._tracker = scheduler.dagScheduler(), spark.sparkContext.statusTracker()
        self._jobs, self._since = self._scheduler.numTotalJobs(), time.monotonic()

    def idle_s(self) -> float:
        jobs = self._scheduler.numTotalJobs()
        if jobs != self._jobs or len(self._tracker.getActiveJobsIds()):
            self._jobs, self._since = jobs, time.monotonic()
        came_s = time.time() - _came().stat().st_mtime if _came().exists() else float("inf")
        return min(time.monotonic() - self._since, max(came_s, 0.0))


def _is_named(keeper: Keeper) -> bool:
    try:
        return msgspec.json.decode(_file().read_bytes(), type=Keeper) == keeper
    except (OSError, *UNDECODABLE):
        return False


if __name__ == "__main__":
    keep(*(float(word) for word in sys.argv[1:2]))
