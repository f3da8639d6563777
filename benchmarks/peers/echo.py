"""The bare hub as a peer: see `hub` for all that it does not do."""

import asyncio
import sys
import tempfile
from collections import deque
from pathlib import Path
from typing import Any

from benchmarks.peers.base import OnChange, Program, Service, nobody
from benchmarks.peers.hub import frame, frames
from benchmarks.peers.processes import listening, start, stop


class EchoService(Service):
    name = "echo"
    label = "bare echo"
    keeps_lists = False

    async def start(self) -> None:
        self._home = tempfile.TemporaryDirectory(prefix="rostra-bench-")
        self._path = str(Path(self._home.name) / "hub")
        self._process = await start(sys.executable, "-m", "benchmarks.peers.hub", self._path)
        await listening(self._path)

    async def stop(self) -> None:
        await stop(self._process)
        self._home.cleanup()

    def pids(self) -> list[int]:
        return [self._process.pid]

    def door(self, place: int = 0) -> dict[str, Any]:
        return {"path": self._path}


class EchoProgram(Program, asyncio.Protocol):
    def __init__(self, path: str) -> None:
        self._path = path
        self._buffer = bytearray()
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._watchers: list[OnChange] = []

    async def begin(self) -> None:
        transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: self, self._path)
        self._transport = transport

    async def end(self) -> None:
        self._transport.close()

    async def prepare(self, name: str) -> None:
        pass

    async def enter(self, group: str, name: str, on_change: OnChange) -> None:
        if not self._watchers:
            self._transport.write(frame(b"W", b""))
        if on_change is not nobody:
            self._watchers.append(on_change)
        self._transport.write(frame(b"N", name.encode()))
        await self.join(group, name)

    async def join(self, group: str, name: str) -> None:
        self._transport.write(frame(b"S", b"+" + name.encode()))
        await self._echo()

    async def leave(self, group: str, name: str) -> None:
        self._transport.write(frame(b"S", b"-" + name.encode()))
        await self._echo()

    async def members(self, group: str) -> int:
        await self._echo()
        return 0

    async def _echo(self) -> bytes:
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._transport.write(frame(b"E", b"who is there?"))
        result: bytes = await answer
        return result

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        for kind, body in frames(self._buffer):
            if kind == ord("E"):
                self._waiting.popleft().set_result(body)
            else:
                who, joined = body[1:].decode(), body[:1] == b"+"
                for told in self._watchers:
                    told(who, joined)
