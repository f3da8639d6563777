"""`rostra lead`: one of many runs a command, with a fence; and it ends with the leadership."""

import os
import signal
import subprocess
import time
from pathlib import Path

from support.cluster import Cluster, python
from support.lab import WITHIN_S

LOOK_S = 0.02

LEADER = """
import os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: print("usr1", flush=True))
known = [os.environ[f"ROSTRA_{word}"] for word in ("FENCE", "GROUP", "SCOPE")]
print("fence", *known, os.getpid(), flush=True)
while True:
    signal.pause()
"""


def line(process: "subprocess.Popen[str]", begins: str) -> list[str]:
    assert process.stdout is not None
    for text in process.stdout:
        if text.startswith(begins):
            return text.split()
    raise AssertionError(f"it ended before it said {begins!r}")


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while is_alive(pid):
        assert time.monotonic() < deadline, f"{pid} still runs"
        time.sleep(LOOK_S)


def test_one_runs_its_command_and_the_next_has_a_larger_fence(cluster: Cluster) -> None:
    with cluster.begin("lead", "turns@eu", "--", *python(LEADER)) as first:
        _, fence, name, scope, pid = line(first, "fence ")
        assert (name, scope) == ("turns", "eu")
        with cluster.begin("lead", "turns@eu", "--", *python(LEADER), host="eu.h2") as second:
            first.send_signal(signal.SIGUSR1)
            assert line(first, "usr1") == ["usr1"]
            first.send_signal(signal.SIGTERM)  # passed on: the command ends by it
            assert first.wait(WITHIN_S) == 128 + signal.SIGTERM
            assert not is_alive(int(pid))
            _, later, *_ = line(second, "fence ")
            assert int(later) > int(fence)
            second.send_signal(signal.SIGINT)
            assert second.wait(WITHIN_S) == 128 + signal.SIGINT


def test_the_exit_code_of_the_command_is_ours(cluster: Cluster) -> None:
    answer = cluster.run("lead", "codes@eu", "--", "sh", "-c", "exit 7")
    assert answer.code == 7
    assert "leads codes@eu, fence " in answer.err


def test_a_killed_leader_takes_its_command_with_it_and_the_next_leads(cluster: Cluster) -> None:
    with cluster.begin("lead", "killed@eu", "--", *python(LEADER)) as first:
        _, fence, *_, pid = line(first, "fence ")
        with cluster.begin("lead", "killed@eu", "--", *python(LEADER), host="eu.h2") as second:
            os.kill(first.pid, signal.SIGKILL)
            wait_for_end(int(pid))
            assert int(line(second, "fence ")[1]) > int(fence)
            second.send_signal(signal.SIGTERM)
            second.wait(WITHIN_S)


def test_waiting_ends_with_a_deadline_or_with_ctrl_c(cluster: Cluster) -> None:
    with cluster.begin("lead", "waits@eu") as holder:
        line(holder, "")  # its fence
        late = cluster.run("lead", "waits@eu", "--deadline", "0.5", "--", "true", host="eu.h2")
        assert late.code == 5
        assert "did not come within 0.5 s" in late.err
        holder.send_signal(signal.SIGINT)
        assert holder.wait(WITHIN_S) == 0


def test_what_cannot_be_led_is_wrong_use(cluster: Cluster) -> None:
    any_side = cluster.run("lead", "x@eu", "--survive", "any", "--", "true")
    assert (any_side.code, "lets more than one side" in any_side.err) == (2, True)
    missing = cluster.run("lead", "x@eu", "--", "no-such-program")
    assert (missing.code, "cannot run 'no-such-program'" in missing.err) == (2, True)
    assert cluster.run("lead", "x@eu", "--grace", "-1", "--", "true").code == 2
