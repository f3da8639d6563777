"""Client processes: started, told what to do, asked what they saw.

    the measurer ── {"do": "watch", ...} ──▶ a hand's stdin
                 ◀── {"ok": ...} or {"error": ...} ── its stdout

A hand is a process of its own with one `Program` in it: a peer's client, and nothing shared with other hands
but the machine. Orders are few and large ("join and leave 100 times, then tell me when you did"), so that
nothing of the measuring travels while something is being measured. All hands read CLOCK_MONOTONIC, which is
one clock for all processes of a machine.
"""

import asyncio
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

T = TypeVar("T")

LINE_BYTES_MAX = 1 << 26


class HandFailed(RuntimeError):
    """An order failed in a client process; the text is that process's own traceback."""


class Hand:
    """The measurer's end of one client process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    @classmethod
    async def hire(cls, peer: str, **settings: Any) -> Self:
        """Start a client process for this peer; it is ready when this returns."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.hand",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
        )
        hand = cls(process)
        await hand.do("begin", peer=peer, settings=settings)
        return hand

    async def do(self, order: str, **details: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode({"do": order, **details}) + b"\n")
        await self._process.stdin.drain()
        line = await self._process.stdout.readline()
        if not line:
            raise HandFailed(f"client process {self.pid} ended during {order!r}")
        answer = msgspec.json.decode(line)
        if "error" in answer:
            raise HandFailed(answer["error"])
        return answer["ok"]

    async def dismiss(self) -> None:
        """End the process: closing its input asks it to, and a deaf one is killed."""
        assert self._process.stdin is not None
        if self._process.returncode is None:
            self._process.stdin.close()
            try:
                await asyncio.wait_for(self._process.wait(), 5)
            except TimeoutError:
                self._process.kill()
        await self._process.wait()

    async def ended(self) -> None:
        await self._process.wait()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)


class Crew:
    """Several hands that end together."""

    def __init__(self) -> None:
        self.hands: list[Hand] = []

    async def hire(self, count: int, peer: str, **settings: Any) -> list[Hand]:
        hired = [await Hand.hire(peer, **settings) for _ in range(count)]
        self.hands += hired
        return hired

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.gather(*(hand.dismiss() for hand in self.hands), return_exceptions=True)


async def everybody(hands: list[Hand], order: str, **details: Any) -> list[Any]:
    """The same order to all, at once."""
    return list(await asyncio.gather(*(hand.do(order, **details) for hand in hands)))


async def obey(duties: Callable[[str], Callable[..., Awaitable[Any]]]) -> None:
    """The hand's end: carry out orders from stdin, one at a time, until it is closed."""
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while line := await reader.readline():
        order = msgspec.json.decode(line)
        try:
            answer = {"ok": await duties(order.pop("do"))(**order)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        _write_all(msgspec.json.encode(answer) + b"\n")


def _write_all(data: bytes) -> None:
    """Blocking, on purpose: the measurer waits for this line and nothing is being measured."""
    while data:
        data = data[os.write(1, data) :]


def run(main: Coroutine[Any, Any, T]) -> T:
    """On uvloop where there is one: every peer's client gets the faster loop, not only ours."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)
