"""H4, on links: a host that sends out of order, acknowledges nothing, or asks without end costs its server,
and the hosts that answer, a bounded amount of memory; and nobody else its place."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from support.bystanders import unnoticed
from support.lab import Lab, until
from support.memory import forget_peak, peak_mb
from support.strangers import Stranger, stranger

from rostra.errors import RostraError
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.links.core import SESSIONS_PER_LIFE
from rostra.protocols.links.packets import Beat, Data
from rostra.protocols.relaxed.messages import (
    InquiryReply,
    Interest,
    InterestChanged,
    MessageId,
    ResolveRequest,
    ServerMessage,
)

SERVER, HOST = "eu", "eu.h1"
PEAK_MB = 450  # the queue of a link may hold 256


class Ghost:
    """A host that nobody knows, with a link that is up, and that acknowledges nothing."""

    def __init__(self, name: str, caller: Stranger) -> None:
        self.path = Domain(f"eu.{name}")
        self.incarnation = time.time_ns() // 1_000_000
        self._caller = caller
        self._mine = self.incarnation * SESSIONS_PER_LIFE + 1
        self._yours = 0
        self._asked = 0

    async def link(self) -> None:
        self._yours = await self._caller.link(self.path, SERVER, self.incarnation, self._mine)

    def id(self) -> MessageId:
        self._asked += 1
        return MessageId(self.path, self.incarnation, self._asked)

    def say(self, number: int, *messages: ServerMessage) -> None:
        self._caller.say(Data(self._mine, self._yours, number, 0, messages))

    async def live(self) -> None:
        while True:
            self._caller.say(Beat(self._mine, self._yours, 0))
            await asyncio.sleep(0.2)

    async def is_up(self, lab: Lab) -> bool:
        return bool((await lab.inspect(SERVER))["links"].get(self.path, {}).get("up"))


@contextlib.asynccontextmanager
async def ghost(lab: Lab, name: str) -> AsyncIterator[Ghost]:
    async with stranger(lab, SERVER) as caller:
        made = Ghost(name, caller)
        await made.link()
        living = asyncio.create_task(made.live())
        try:
            yield made
        finally:
            living.cancel()


async def test_packets_that_are_never_due_are_not_kept(world: Lab) -> None:
    async with unnoticed(world, "h4-early"), ghost(world, "early") as liar:
        before = forget_peak(world, SERVER)
        large = [InquiryReply(liar.id(), Domain(SERVER), liar.path, bytes(32_000)) for _ in range(500)]
        for number in range(2, 52):
            liar.say(number, *large)
            await liar._caller._out.drain()
        await until(lambda: counted(world, "ignored{out of order}", 50), "they have all arrived")
        assert peak_mb(world, SERVER) - before < PEAK_MB


async def test_what_is_sent_to_a_host_that_acknowledges_nothing_is_bounded(world: Lab) -> None:
    async with (
        unnoticed(world, "h4-routed"),
        ghost(world, "deaf") as deaf,
        world.program(HOST, "mallory") as mallory,
    ):
        before = forget_peak(world, SERVER)
        for _ in range(800):
            with contextlib.suppress(RostraError):  # it is given up meanwhile
                await asyncio.gather(
                    *(mallory.send_to(Endpoint(f"{deaf.path}/x#1"), bytes(65_000)) for _ in range(15))
                )
        assert not await deaf.is_up(world)
        assert peak_mb(world, SERVER) - before < PEAK_MB


async def test_questions_without_end_cost_those_who_answer_one_at_a_time(world: Lab) -> None:
    group = Group("h4-lists", Domain("eu"))
    async with contextlib.AsyncExitStack() as stack:
        for number in range(200):
            me = await stack.enter_async_context(world.program(HOST, f"m{number}"))
            await stack.enter_async_context(me.join(group.name, scope="eu", meta=bytes(250)))
        async with unnoticed(world, "h4-asks", HOST), ghost(world, "curious") as curious:
            before = {node: forget_peak(world, node) for node in (SERVER, HOST)}
            curious.say(1, InterestChanged(curious.id(), group, Interest.ALL))
            curious.say(2, *(ResolveRequest(curious.id(), group) for _ in range(20_000)))
            await until(lambda: is_down(world, curious), "it is given up")
            assert {n: mb for n, was in before.items() if (mb := peak_mb(world, n) - was) > PEAK_MB} == {}


async def is_down(world: Lab, one: Ghost) -> bool:
    return not await one.is_up(world)


async def counted(world: Lab, what: str, times: int) -> bool:
    return bool((await world.inspect(SERVER))["counters"].get(what, 0) >= times)
