"""ZeroMQ's PUB and SUB, as its guide shows them: no server, every receiver connects to every sender.

Its default is to drop what a slow receiver does not take; here nothing is dropped, because its queues have no
bound.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.base import OnChange, Program, Service
from benchmarks.peers.talk import Check, payloads, timed


class ZeroMqService(Service):
    name = "zeromq"
    label = "zeromq"
    keeps_lists = False

    def missing(self) -> str:
        try:
            import zmq  # noqa: F401
        except ImportError:
            return "pip install pyzmq"
        return ""

    async def start(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="rostra-bench-")

    async def stop(self) -> None:
        self._home.cleanup()

    def pids(self) -> list[int]:
        return []

    def door(self, place: int = 0) -> dict[str, Any]:
        return {"home": self._home.name}


class ZeroMqProgram(Program):
    def __init__(self, home: str) -> None:
        self._home = Path(home)

    async def begin(self) -> None:
        import zmq

        self._zmq = zmq
        self._context = zmq.Context()

    async def end(self) -> None:
        self._context.destroy(linger=0)

    async def may_speak(self, group: str, sender: int) -> None:
        self._socket = self._context.socket(self._zmq.PUB)
        self._socket.set_hwm(0)
        self._socket.bind(f"ipc://{self._home}/{sender}")

    async def listen(self, group: str, name: str, senders: int, count: int) -> None:
        self._check = Check(senders, count)
        self._socket = self._context.socket(self._zmq.SUB)
        self._socket.set_hwm(0)
        for sender in range(senders):
            self._socket.connect(f"ipc://{self._home}/{sender}")
        self._socket.subscribe(b"")
        self._hearing = asyncio.create_task(asyncio.to_thread(self._hear))

    def _hear(self) -> None:
        receive, one = self._socket.recv, self._check.one
        while self._check.late_ns is not None or not self._check.finished_ns:
            one(receive())

    async def heard(self) -> int:
        await self._hearing
        return self._check.finished_ns

    async def time(self, count: int) -> list[int]:
        self._check.time()
        late = self._check.late_ns
        assert late is not None

        def hear() -> None:
            while len(late) < count:
                self._check.one(self._socket.recv())

        await asyncio.to_thread(hear)
        return late

    async def speak(self, sender: int, count: int, size: int) -> int:
        def say() -> int:
            began = time.monotonic_ns()
            send = self._socket.send
            for payload in payloads(sender, count, size):
                send(payload)
            return began

        return await asyncio.to_thread(say)

    async def say_timed(self, sender: int, size: int) -> None:
        self._socket.send(timed(sender, size))

    async def prepare(self, name: str) -> None:
        raise NotImplementedError

    async def enter(self, group: str, name: str, on_change: OnChange) -> None:
        raise NotImplementedError

    async def join(self, group: str, name: str) -> None:
        raise NotImplementedError

    async def leave(self, group: str, name: str) -> None:
        raise NotImplementedError

    async def members(self, group: str) -> int:
        raise NotImplementedError
