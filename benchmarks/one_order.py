"""W5: four members send at once, and every member receives everything in one order.

Order is what is checked: each member keeps a digest of the sequence in which messages came, its own among
them, and all digests must be equal; each sender's messages come in its order, none is lost or doubled.
"""

import asyncio
import time

from msgspec.structs import replace

from benchmarks.crew import Crew, Hand, everybody
from benchmarks.figures import Measures, percentile
from benchmarks.peers.base import Service
from benchmarks.peers.processes import threads_cpu_us
from benchmarks.workloads import GROUP, Incomplete, RoleMeter, Size

MEMBERS = 4


async def one_order(service: Service, size: Size) -> Measures:
    """Ordered messages per second at each member; and how late one is that comes alone, at the last member
    and at all."""
    small = await _all_send(service, size, 100, "100 B: ")
    large = await _all_send(service, size, 1024, "1 KiB: ")
    every, last = await _one_sends(service, size.paced)
    return {
        **small,
        **large,
        "100/s: p50 ms": percentile(every, 0.5) / 1e6,
        "100/s: p99 ms": percentile(every, 0.99) / 1e6,
        "100/s: last p50 ms": percentile(last, 0.5) / 1e6,
    }


async def far_order(service: Service, size: Size) -> Measures:
    """The same, of a tenth of the messages: what limits it is the way, and not the processor."""
    return await one_order(service, replace(size, said=size.said // 10))


async def _all_send(service: Service, size: Size, bytes_each: int, prefix: str) -> Measures:
    count = size.said // MEMBERS
    async with Crew() as crew:
        members = await _members(crew, service, count)
        pids = [*service.pids(), *(hand.pid for hand in crew.hands)]
        meter = RoleMeter(service, crew, size)
        used_us = threads_cpu_us(pids)
        began = await asyncio.gather(
            *(hand.do("speak", sender=n, count=count, size=bytes_each) for n, hand in enumerate(members))
        )
        ended = await everybody(members, "heard")
        used_us = threads_cpu_us(pids) - used_us
        orders = await everybody(members, "order")
        if len({*orders}) != 1:
            raise Incomplete(f"{service.label}: members received different orders: {orders}")
        messages = MEMBERS * count
        return {
            f"{prefix}per s": messages / (max(ended) - min(began)) * 1e9,
            f"{prefix}cpu s per M": used_us / messages,
            **meter.per(messages, prefix),
        }


async def _one_sends(service: Service, count: int) -> tuple[list[int], list[int]]:
    """How late each message is at each member; and at the last of them."""
    async with Crew() as crew:
        members = await _members(crew, service, 1)
        for n, hand in enumerate(members):
            await hand.do("speak", sender=n, count=1, size=100)
        await everybody(members, "heard")
        await everybody(members, "begin_timing")
        await members[0].do("pace", sender=0, count=count, size=100, per_s=100)
        late = await everybody(members, "time", count=count)
        last = [max(each) for each in zip(*late, strict=True)]
        return [ns for each in late for ns in each], last


async def _members(crew: Crew, service: Service, count: int) -> list[Hand]:
    group = f"{GROUP}-{time.monotonic_ns()}"
    members = [
        (await crew.hire(1, service.name, **service.door(place=n % service.places)))[0]
        for n in range(MEMBERS)
    ]
    for n, hand in enumerate(members):
        await hand.do("take_part", group=group, name=f"member-{n}", sender=n, members=MEMBERS, count=count)
    await asyncio.sleep(0.5)
    return members
