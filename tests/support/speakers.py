"""Members of a group with one order that speak all the time, over real processes, while one is killed."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

from support.lab import WITHIN_S, Lab, until

from rostra.client import Me, Message, Ordered, Receipt, View
from rostra.client.group import Entering
from rostra.client.ordered import OrderName
from rostra.errors import Rejected, RostraError, Unreachable

ON_THEIR_WAY = 100


class Speaker:
    """A member that speaks all the time, until it is refused; what it was given, and what became of its
    own."""

    def __init__(self, me: Me, group: Ordered) -> None:
        self.endpoint, self.group = me.endpoint, group
        self.log: list[tuple[int, str, bytes]] = []
        self.since_loss = -1  # messages, since the view that shows it
        self.receipts: dict[bytes, Receipt] = {}
        self.rejected: list[bytes] = []
        self.in_doubt: list[bytes] = []
        self._enough = False
        self.reading = asyncio.create_task(self._read())
        self.speaking = asyncio.create_task(self._speak())

    async def _read(self) -> None:
        with contextlib.suppress(Unreachable):  # the agent is killed
            async for item in self.group:
                if isinstance(item, Message):
                    self.log.append((item.position, item.sender, item.body))
                    self.since_loss += self.since_loss >= 0
                elif isinstance(item, View) and item.failed:
                    self.since_loss = 0

    async def _speak(self) -> None:
        said: deque[tuple[bytes, asyncio.Task[Receipt]]] = deque()
        number = 0
        while said or not self._enough:
            while len(said) < ON_THEIR_WAY and not self._enough:
                number += 1
                body = b"%s %d" % (self.endpoint.encode(), number)
                said.append((body, asyncio.create_task(self.group.send(body))))
            body, receipt = said.popleft()
            try:
                self.receipts[body] = await receipt
            except RostraError as error:
                self._enough = True
                (self.rejected if isinstance(error, Rejected) else self.in_doubt).append(body)

    async def end(self) -> None:
        self._enough = True
        await self.speaking


async def kill_the_first(lab: Lab, hosts: Sequence[str], name: str, order: OrderName = "hub") -> None:
    """Members on three hosts speak all the time. One more comes and leaves meanwhile; then the agent of the
    first is killed, which orders with ``order="hub"``. The others keep one order, and receipts are true."""

    def joins(me: Me) -> Entering[Ordered]:
        return me.join(*(name, "eu"), membership="agreed", delivery="atomic", survive="majority", order=order)

    speakers: list[Speaker] = []
    async with AsyncExitStack() as stack:
        for host in hosts:
            me = await stack.enter_async_context(lab.program(host, "speaker"))
            speakers.append(Speaker(me, await (await joins(me)).ready(deadline_s=WITHIN_S)))
        ann, ben, cem = speakers
        assert ann.group.rank == 0
        await until(lambda: len(ann.receipts) > 200 and len(cem.log) > 200, "all hear it")
        guest = await stack.enter_async_context(lab.program(hosts[1], "guest"))
        async with joins(guest) as came:
            async with asyncio.timeout(WITHIN_S):
                guests = [each async for each in first_messages(came, 200)]
        if lab.has_cables:  # the others never hear that it went on to acknowledge what they have
            await asyncio.to_thread(lab.silence, hosts[0], "-p udp")  # while all speak
            await asyncio.sleep(0.1)
        await asyncio.to_thread(lab[hosts[0]].kill)
        await until(lambda: min(ben.since_loss, cem.since_loss) > 200, "the others go on")
        for each in speakers:
            await each.end()
        last = max(receipt.position for each in (ben, cem) for receipt in each.receipts.values())
        await until(lambda: min(ben.log[-1][0], cem.log[-1][0]) >= last, "both have all")
        since = cem.log[0][0]
        assert [each for each in ben.log if each[0] >= since] == cem.log
        assert guests == cem.log[(first := cem.log.index(guests[0])) : first + len(guests)]
        given = {body: position for position, _, body in ben.log}
        assert len(given) == len(ben.log)  # nothing twice
        for each in speakers:
            kept = {body: receipt.position for body, receipt in each.receipts.items()}
            # The first ones of the founder may be from before the other two were in.
            assert kept.items() - given.items() == {
                (body, at) for body, at in kept.items() if at < ben.log[0][0]
            }
            assert not given.keys() & {*each.rejected}
        assert not any(each.rejected or each.in_doubt for each in (ben, cem))
        assert ann.rejected or ann.in_doubt


async def first_messages(group: Ordered, count: int) -> AsyncIterator[tuple[int, str, bytes]]:
    async for item in group:
        if isinstance(item, Message):
            yield item.position, item.sender, item.body
            count -= 1
            if not count:
                return
