"""A standalone Spark cluster from the wheel: one master and some workers, real processes on loopback."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from support.ports import free_port

PATIENCE_S = 120.0


class SparkCluster:
    def __init__(self, place: Path, workers: int = 2) -> None:
        spec = find_spec("pyspark")
        assert spec is not None and spec.origin is not None
        self._home = Path(spec.origin).parent
        self._place = place
        self._env = {
            **os.environ,
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOG_DIR": str(place),
            "SPARK_LOCAL_DIRS": str(place / "local"),
            "PYSPARK_PYTHON": sys.executable,
        }
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        words = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        self.processes = [self._start("master", "org.apache.spark.deploy.master.Master", *words)]
        self._await("master", "I have been elected leader")
        self.workers = []
        for nth in range(workers):
            words = (
                "-c",
                "1",
                "-m",
                "1g",
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
                "-d",
                str(place / f"work-{nth}"),
            )
            self.workers.append(
                self._start(f"worker-{nth}", "org.apache.spark.deploy.worker.Worker", *words, self.master)
            )
        self.processes += self.workers
        for nth in range(workers):
            self._await(f"worker-{nth}", "Successfully registered with master")

    def _start(self, name: str, what: str, *words: str) -> subprocess.Popen[bytes]:
        with (self._place / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                (str(self._home / "bin" / "spark-class"), what, *words),
                env=self._env,
                stdout=log,
                stderr=log,
                cwd=self._place,
            )

    def _await(self, name: str, words: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        log = self._place / f"{name}.log"
        while words not in log.read_text(errors="replace"):
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)

    def kill(self, worker: int) -> list[int]:
        """A worker and whatever runs on it, at once. Says which executors died with it."""
        victim = self.workers[worker]
        executors = children(victim.pid)
        for pid in (victim.pid, *executors):
            os.kill(pid, signal.SIGKILL)
        victim.wait()
        return executors

    def close(self) -> None:
        for process in self.processes:
            for pid in (*children(process.pid), process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def children(pid: int) -> list[int]:
    """Of this process, and theirs."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children") if Path(f"/proc/{pid}").exists() else ():
        for child in map(int, task.read_text().split()):
            found += [child, *children(child)]
    return found
