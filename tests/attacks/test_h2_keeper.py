"""H2: another user listens at `::1`, at the port where a keeper of ours listens at 127.0.0.1."""

import errno
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from support.another_user import NOBODY, another_user, needs_root
from support.ports import free_port
from support.spark import require_spark

from rostra.errors import Unreachable
from rostra.history import warm

pytestmark = pytest.mark.live

ASK = "from rostra.history import warm; warm.TRIES = 1; warm.session().range(1).count()"


class TwoListeners:
    """One port at 127.0.0.1, which the user's keeper would have, and at `::1`, which somebody else has."""

    def __init__(self) -> None:
        self.calls = {"127.0.0.1": 0, "::1": 0}
        self.port = free_port()  # of those that the system lends, one may be free here and taken there
        self.sockets = {
            "::1": socket.create_server(("::1", self.port), family=socket.AF_INET6),
            "127.0.0.1": socket.create_server(("127.0.0.1", self.port)),
        }
        for host in self.sockets:
            threading.Thread(target=self._listen, args=(host,), daemon=True).start()

    def _listen(self, host: str) -> None:
        while True:
            try:
                caller, _ = self.sockets[host].accept()
            except OSError:
                return
            # `find` looks whether anybody listens, and says nothing; a client of Spark's says something.
            with caller:
                caller.settimeout(5)
                try:
                    self.calls[host] += bool(caller.recv(1))
                except OSError:
                    continue

    def close(self) -> None:
        for each in self.sockets.values():
            each.close()


def test_a_client_calls_the_keeper_and_nobody_at_the_other_loopback(tmp_path: Path) -> None:
    require_spark()
    listeners = TwoListeners()
    keeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "rostra.history.warm"])
    try:
        at = warm.Keeper(keeper.pid, listeners.port, "the-token", warm.made_of())
        (tmp_path / "keeper.json").write_bytes(msgspec.json.encode(at))
        environ = {**os.environ, "ROSTRA_HISTORY_HOME": str(tmp_path)}
        asked = subprocess.run([sys.executable, "-c", ASK], env=environ, capture_output=True, timeout=120)
        assert asked.returncode != 0, "nobody there is Spark"
    finally:
        keeper.kill()
        keeper.wait()
        listeners.close()
    assert listeners.calls["::1"] == 0
    assert listeners.calls["127.0.0.1"] > 0


def bind(pipe: object, port: int) -> None:
    with socket.socket(socket.AF_INET6) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("::1", port))
            pipe.send(0)  # type: ignore[attr-defined]
        except OSError as error:
            pipe.send(error.errno)  # type: ignore[attr-defined]


@needs_root
def test_the_other_loopback_is_held_against_other_users() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        held = warm.hold(port)
        assert held is not None
        with held, another_user(bind, port) as attacker:
            assert attacker.recv() == errno.EADDRINUSE


def test_a_keeper_whose_other_loopback_is_taken_does_not_start() -> None:
    with (
        socket.create_server(("::1", 0), family=socket.AF_INET6) as taken,
        pytest.raises(Unreachable, match="another process has port"),
    ):
        warm.hold(taken.getsockname()[1])


@needs_root
def test_a_process_of_another_user_is_no_keeper_of_ours() -> None:
    """Numbers of processes are used again, and anybody may call itself so."""
    with subprocess.Popen(["rostra.history.warm", "60"], executable="/bin/sleep", user=NOBODY) as other:
        assert b"rostra.history.warm" in Path(f"/proc/{other.pid}/cmdline").read_bytes()
        is_ours = warm.is_ours(other.pid)
        other.kill()
    assert not is_ours
