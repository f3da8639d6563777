"""A question that another process runs is to its caller as if it had run here."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rostra.history import handover

HANDED = "import sys; from rostra.history.handover import asked; sys.exit(asked(sys.argv[1:]) or 0)"
WAITS = (
    "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {2}); print(1, flush=True); signal.sigwait({2})"
)

pytestmark = pytest.mark.live


def environment(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "ROSTRA_HISTORY_HOME": str(home), "NO_COLOR": "1", **more}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of a process that is ready. Its name is longer than the address of a socket may be."""
    place = tmp_path_factory.mktemp("h" * 120)
    ready = subprocess.Popen((sys.executable, "-m", "rostra.cli.history.ready"), env=environment(place))
    try:
        while not (place / handover.SOCKET).exists():
            assert ready.poll() is None
            os.sched_yield()
        yield place
    finally:
        ready.kill()
        ready.wait()


def run(*command: str, home: Path, at: Path, **more: str) -> tuple[int, str, str]:
    done = subprocess.run(command, env=environment(home, **more), cwd=at, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("who", "--help"),
        ("who", "chess", "-t", "nowhere"),
        ("who", "chess", "-j", "here"),
        ("stays", "--no-such-option"),
        ("size", "-t", "nowhere", "-j", "nowhere"),
    ],
)
def test_it_says_and_returns_what_it_would_here(words: tuple[str, ...], home: Path, tmp_path: Path) -> None:
    """In its caller's directory."""
    (tmp_path / "here").mkdir()
    there = run(sys.executable, "-c", HANDED, "history", *words, home=home, at=tmp_path)
    here = run(sys.executable, "-m", "rostra", "history", *words, home=tmp_path, at=tmp_path)
    assert there == here and (here[1] or here[2])


def test_only_questions_of_the_warm_spark_are_handed_over(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert handover.is_a_question(["history", "who", "chess"], {})
    assert not handover.is_a_question(["history", "ingest", "-j", "x"], {})
    assert not handover.is_a_question(["history"], {})
    assert not handover.is_a_question(["members", "who"], {})
    assert not handover.is_a_question(["history", "who", "chess", "--master=yarn"], {})
    assert not handover.is_a_question(["history", "who", "chess"], {"ROSTRA_SPARK_REMOTE": "sc://h"})
    monkeypatch.setenv("ROSTRA_HISTORY_HOME", str(tmp_path))
    assert handover.asked(["history", "who", "--help"]) is None, "nobody is ready there"
    monkeypatch.setenv("ROSTRA_HISTORY_HOME", str(home))
    monkeypatch.setattr(handover, "made_of", lambda: "other files")
    assert handover.asked(["history", "who", "--help"]) is None


def test_ctrl_c_reaches_the_process_that_runs_it_and_its_end_is_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        with handover.short_path(tmp_path) as path:
            door.bind(path)
        door.listen()
        command = (sys.executable, "-c", HANDED, "history", "who", "chess")
        with (
            subprocess.Popen(command, env=environment(tmp_path)) as asks,
            subprocess.Popen((sys.executable, "-c", WAITS), stdout=subprocess.PIPE) as runs,
        ):
            caller, _ = door.accept()
            assert runs.stdout is not None and runs.stdout.readline() == b"1\n"
            with caller:
                caller.sendall(b"%d\n" % runs.pid)
                while not _catches(asks.pid, signal.SIGINT):
                    os.sched_yield()
                asks.send_signal(signal.SIGINT)
                assert runs.wait() == 0
                caller.sendall(b"130\n")
            assert asks.wait() == 130


def _catches(process: int, number: int) -> bool:
    """Is it ready to pass this signal on? Python's own handler of Ctrl-C catches it from the beginning, but
    nothing catches SIGTERM before ours does, which is set after it."""
    [mask] = [
        line.split()[1]
        for line in Path(f"/proc/{process}/status").read_text().splitlines()
        if line.startswith("SigCgt")
    ]
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1) and number == signal.SIGINT


def test_a_process_that_dies_in_the_middle_of_it_is_one_line(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as door:
        with handover.short_path(tmp_path) as path:
            door.bind(path)
        door.listen()
        command = (sys.executable, "-c", HANDED, "history", "who", "chess")
        with subprocess.Popen(command, env=environment(tmp_path), stderr=subprocess.PIPE, text=True) as asks:
            caller, _ = door.accept()
            head, given, _, _ = socket.recv_fds(caller, handover.HEAD_BYTES, 4)
            for descriptor in given:
                os.close(descriptor)
            with caller.makefile("rb") as content:
                content.read(int.from_bytes(head))
            caller.sendall(b"%d\n" % os.getpid())
            caller.close()
            _, said = asks.communicate()
    assert asks.returncode == 1
    assert said == "error: the process that asked ended in the middle of it\n  ask again\n"
