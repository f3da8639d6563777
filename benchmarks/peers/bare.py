"""Messages through the bare hub, many to a frame: the floor under W4 and W5.

The hub passes a sender's frames on to everybody who listens. It keeps what is not read without a bound, knows
nobody, repairs nothing, and a sender that is too fast for a receiver is never told.
"""

import asyncio
import time
from collections.abc import Sequence
from itertools import islice
from typing import Final

import msgspec

from benchmarks.peers.echo import EchoProgram, EchoService
from benchmarks.peers.hub import frame, frames
from benchmarks.peers.talk import Check, OrderCheck, payloads, timed

FRAME_BYTES: Final = 56_000
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[bytes]).decode


class BareService(EchoService):
    name = "bare"
    label = "bare, batched"


class BareProgram(EchoProgram):
    _check: Check
    _drained: asyncio.Event

    async def begin(self) -> None:
        self._drained = asyncio.Event()
        self._drained.set()
        await super().begin()

    async def may_speak(self, group: str, sender: int) -> None:
        self._transport.set_write_buffer_limits(high=256 << 10)

    async def listen(self, group: str, name: str, senders: int, count: int) -> None:
        self._check = Check(senders, count)
        self._transport.write(frame(b"W", b""))

    async def take_part(self, group: str, name: str, sender: int, members: int, count: int) -> None:
        """All listen, the sender too; the order is that of arrival at the hub."""
        await self.may_speak(group, sender)
        self._check = OrderCheck(members, count)
        self._transport.write(frame(b"W", b""))

    def begin_timing(self) -> None:
        self._check.time()

    def order(self) -> str:
        assert isinstance(self._check, OrderCheck)
        return self._check.order

    async def heard(self) -> int:
        await self._check.finished.wait()
        return self._check.finished_ns

    async def speak(self, sender: int, count: int, size: int) -> int:
        began = time.monotonic_ns()
        said = payloads(sender, count, size)
        while some := list(islice(said, FRAME_BYTES // size)):
            self._say(some)
            await self._drained.wait()
            await asyncio.sleep(0)
        return began

    async def say_timed(self, sender: int, size: int) -> None:
        self._say([timed(sender, size)])

    async def time(self, count: int) -> list[int]:
        self._check.time()
        late = self._check.late_ns
        assert late is not None
        while len(late) < count:
            await asyncio.sleep(0.01)
        return late

    def _say(self, some: Sequence[bytes]) -> None:
        self._transport.write(frame(b"S", _encode(some)))

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        for _, body in frames(self._buffer):
            self._check.many(_decode(body))
