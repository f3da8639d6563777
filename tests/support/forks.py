"""Commands as forks of a process that has imported them: each is the real program in a process of its own,
and starts in a tenth of the time.

    test ── words, environment, directory, namespace, standard streams ──▶ source ── forks ──▶ rostra WORDS
         ◀── its number; and how it ended, when it has ────────────────────

A process that runs tests has one source, which ends with it and kills what is left of its forks. They share
what was imported and the seed of hashes, nothing else. A test about the start of a process starts a real one:
`Lab(forked=False)`.
"""

import atexit
import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final

NUMBER_BYTES: Final = 4
DESCRIPTORS: Final = 4  # stdin, stdout, stderr, and where the source says how it ended

PIPES: Final = 10  # where they are among the arguments of `Popen._execute_child`

CLONE_NEWNET: Final = 0x40000000
NAMESPACES: Final = "/run/netns"

_sources: dict[int, tuple[socket.socket, subprocess.Popen[bytes]]] = {}
"""By the process that runs tests: a copy of it must not use that of the original."""


class Forked(subprocess.Popen[Any]):
    """`rostra WORDS`, as `subprocess.Popen` would start it."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        namespace: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: IO[Any] | int | None = None,
        stdout: IO[Any] | int | None = None,
        stderr: IO[Any] | int | None = None,
        text: bool = False,
    ) -> None:
        self._order = {
            "words": list(words),
            "namespace": namespace,
            "environ": dict(os.environ if env is None else env),
            "directory": os.getcwd() if cwd is None else str(cwd),
        }
        super().__init__(list(words), stdin=stdin, stdout=stdout, stderr=stderr, text=text)

    def _execute_child(self, *arguments: Any) -> None:
        """Where `Popen` would fork and execute; the pipes are made."""
        pipes = arguments[PIPES : PIPES + 6]
        given = (pipes[0], pipes[3], pipes[5])
        std = [number if its == -1 else its for number, its in enumerate(given)]
        self._told, told = socket.socketpair()
        with told:
            order = json.dumps(self._order).encode()
            head = len(order).to_bytes(NUMBER_BYTES, "big")
            socket.send_fds(_source(), [head, order], [*std, told.fileno()])
        self._close_pipe_fds(*pipes)
        self.pid = self._number(socket.MSG_WAITALL)
        self._child_created = True

    def _number(self, flags: int) -> int:
        said = self._told.recv(NUMBER_BYTES, flags)
        assert len(said) == NUMBER_BYTES, "the source of processes has ended"
        return int.from_bytes(said, "big")

    def _try_wait(self, flags: int) -> tuple[int, int]:
        """As `waitpid` answers its parent."""
        try:
            status = self._number(socket.MSG_DONTWAIT if flags else socket.MSG_WAITALL)
        except BlockingIOError:
            return 0, 0
        self._told.close()
        return self.pid, status

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)
        return self.returncode


def _source() -> socket.socket:
    here = os.getpid()
    if here not in _sources:
        ours, its = socket.socketpair()
        with its:
            command = (sys.executable, "-u", "-P", __file__, str(its.fileno()))
            environ = {name: value for name, value in os.environ.items() if not name.startswith("ROSTRA_")}
            # A session of its own: it ends when its tests do, and Ctrl-C is for them.
            source = subprocess.Popen(command, pass_fds=(its.fileno(),), env=environ, start_new_session=True)
        _sources[here] = ours, source
        atexit.register(_end, here)
    return _sources[here][0]


def _end(here: int) -> None:
    if here == os.getpid():
        ours, source = _sources.pop(here)
        ours.close()
        source.wait()


# The source


def serve(orders: socket.socket) -> list[str]:
    """Fork whenever a test asks, until there is no test any more. Returns in each fork, with its words."""
    import_everything()
    gc.collect()
    gc.freeze()
    running: dict[int, tuple[int, socket.socket]] = {}
    selector = selectors.DefaultSelector()
    selector.register(orders, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is orders:
                head, descriptors, _, _ = socket.recv_fds(orders, NUMBER_BYTES, DESCRIPTORS)
                if not head:
                    for pid, _ in running.values():
                        os.kill(pid, signal.SIGKILL)
                    sys.exit()
                order = orders.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
                assert len(os.listdir("/proc/self/task")) == 1, "only a process of one thread can be forked"
                pid = os.fork()
                if pid == 0:
                    selector.close()
                    orders.detach()
                    for _, other in running.values():
                        other.detach()
                    return become(json.loads(order), descriptors)
                told = socket.socket(fileno=descriptors.pop())
                told.sendall(pid.to_bytes(NUMBER_BYTES, "big"))
                for descriptor in descriptors:
                    os.close(descriptor)
                life = os.pidfd_open(pid)
                running[life] = pid, told
                selector.register(life, selectors.EVENT_READ)
            else:
                selector.unregister(key.fd)
                pid, told = running.pop(key.fd)
                os.close(key.fd)
                with told:
                    told.sendall(os.waitpid(pid, 0)[1].to_bytes(NUMBER_BYTES, "big"))


def import_everything() -> None:
    import typer

    import rostra.cli.daemon
    import rostra.web.beside
    import rostra.web.serve  # noqa: F401
    from rostra.cli import application

    typer.main.get_command(application())


def become(order: Mapping[str, Any], descriptors: Sequence[int]) -> list[str]:
    for number, descriptor in enumerate(descriptors[:-1]):
        os.dup2(descriptor, number)
    os.closerange(3, 1 << 16)
    os.environ.clear()
    os.environ.update(order["environ"])
    os.chdir(order["directory"])
    if order["namespace"] is not None:
        libc = ctypes.CDLL(None, use_errno=True)
        namespace = os.open(f"{NAMESPACES}/{order['namespace']}", os.O_RDONLY)
        if libc.setns(namespace, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {order['namespace']}")
        os.close(namespace)
    return list(order["words"])


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as here:
        words = serve(here)
    sys.argv = ["-c", *words]
    from rostra.__main__ import main

    main()
