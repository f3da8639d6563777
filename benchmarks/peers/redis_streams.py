"""Messages through a Redis stream: XADD by every member, XREAD by every member; the stream is the order.

Each member has one connection to write and one to read. Writers send a hundred XADD at once and wait for
their answers, readers take up to a thousand entries at once and block for more.
"""

import asyncio
import time
from itertools import islice
from typing import Any, Final

from redis.asyncio import Redis

from benchmarks.peers.redis import RedisProgram, RedisService
from benchmarks.peers.talk import OrderCheck, payloads, timed

AT_ONCE: Final = 100
READ_AT_ONCE: Final = 1_000


class RedisStreamService(RedisService):
    name = "redis-streams"

    def __init__(self) -> None:
        super().__init__()
        self.label = "redis, streams"


class RedisStreamProgram(RedisProgram):
    _check: OrderCheck
    _stream: str

    async def take_part(self, group: str, name: str, sender: int, members: int, count: int) -> None:
        self._check, self._stream = OrderCheck(members, count), group
        self._reading = Redis(unix_socket_path=self._path)
        await self._reading.ping()
        self._tasks.append(asyncio.create_task(self._read()))

    async def end(self) -> None:
        await super().end()
        await self._reading.aclose()

    async def _read(self) -> None:
        last, one = b"0", self._check.one
        while True:
            found: Any = await self._reading.xread({self._stream: last}, count=READ_AT_ONCE, block=1_000)
            for _, entries in found:
                for _, fields in entries:
                    one(fields[b"m"])
                last = entries[-1][0]

    def begin_timing(self) -> None:
        self._check.time()

    def order(self) -> str:
        return self._check.order

    async def heard(self) -> int:
        waiting = asyncio.create_task(self._check.finished.wait())
        await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in self._tasks:
            if task.done():
                task.result()
        return self._check.finished_ns

    async def speak(self, sender: int, count: int, size: int) -> int:
        began = time.monotonic_ns()
        said = payloads(sender, count, size)
        while some := list(islice(said, AT_ONCE)):
            async with self._asking.pipeline(transaction=False) as adding:
                for body in some:
                    adding.xadd(self._stream, {"m": body})
                await adding.execute()
        return began

    async def say_timed(self, sender: int, size: int) -> None:
        await self._asking.xadd(self._stream, {"m": timed(sender, size)})

    async def time(self, count: int) -> list[int]:
        self._check.time()
        late = self._check.late_ns
        assert late is not None
        while len(late) < count:
            await asyncio.sleep(0.01)
        return late
