"""Rostra with ``delivery="atomic"``: every member receives every message in one order, its own among them."""

import asyncio
import time

from benchmarks.peers.rostra import RostraProgram, RostraService
from benchmarks.peers.talk import OrderCheck, payloads, timed
from rostra.client import Messages, Ordered


class OrderedService(RostraService):
    name = "rostra-ordered"


class OrderedProgram(RostraProgram):
    _ordered: Ordered
    _check: OrderCheck

    async def take_part(self, group: str, name: str, sender: int, members: int, count: int) -> None:
        self._check = OrderCheck(members, count)
        self._ordered = await self._me.join(group, self._scope, membership="agreed", delivery="atomic")
        await self._ordered.ready()
        self._tasks.append(asyncio.create_task(self._follow_order()))

    async def _follow_order(self) -> None:
        many = self._check.many
        async for item in self._ordered.items(batch=10_000):
            if isinstance(item, Messages):
                many(item.bodies)

    def begin_timing(self) -> None:
        self._check.time()

    def order(self) -> str:
        return self._check.order

    async def speak(self, sender: int, count: int, size: int) -> int:
        """Returns when every message has its receipt: each is delivered at all members' hosts then."""
        began = time.monotonic_ns()
        await self._ordered.send_many(payloads(sender, count, size))
        return began

    async def say_timed(self, sender: int, size: int) -> None:
        await self._ordered.send(timed(sender, size))
