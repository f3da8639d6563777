"""What is done and what is timed, in words that fit every peer.

    W1  50 watching members in 5 processes; one more joins: until the last of the 50 knows
    W2  who is in a group of 100? asked one at a time, and 16 at a time
    W3  a program is killed: until the other 20 know; a program or host falls silent, for a while or for good
    W4  messages to a group: one sender and 8 receiving processes, 4 and 4; and one message at a time
    W6  joins and leaves per second, with 100 watching, while the last watcher knows within 250 ms (p99)
    W7  memory of the servers per idle watching member

W5 is in `one_order`, W9 in `locks`, and W11 to W13 are in `order_load`. Every workload checks what it times:
a notice that did not reach every watcher, a list of the wrong length, or a message that is lost, doubled or
out of order ends the run.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.crew import Crew, Hand, everybody
from benchmarks.figures import Measures, percentile, spread_ms
from benchmarks.peers.base import Service
from benchmarks.peers.processes import cpu_us, resident_kb, threads_cpu_us

GROUP = "bench"


class Size(Struct, frozen=True):
    """How much of everything. `smoke` only shows that the harness works; its numbers mean nothing."""

    watching: int = 50
    processes: int = 5
    joins: int = 100
    gap_s: float = 0.02
    listed: int = 100
    ask_s: float = 4.0
    kills: int = 10
    told: int = 20
    stop_s: float = 2.0
    storm_watching: int = 100
    storm_s: float = 4.0
    storm_rates: tuple[int, ...] = (100, 200, 400, 800, 1200, 1600, 2400, 3200, 4800, 6400)
    idle: int = 2000
    said: int = 200_000
    ears: int = 8
    paced: int = 500
    pairs: int = 10
    window_s: float = 2.0
    orderer_kills: int = 5
    state_bytes: int = 100 << 20
    settle_s: float = 0.5
    patience_s: float = 10.0  # what did not arrive by then never will
    storm_p99_ms: float = 250.0
    by_role: bool = False  # W1, W2 and W4: processor time of clients, agents and servers apart

    @classmethod
    def quick(cls) -> "Size":
        return cls(
            joins=50,
            ask_s=1.5,
            kills=4,
            storm_s=2.0,
            storm_rates=(200, 400, 800, 1600, 3200),
            idle=500,
            pairs=4,
            orderer_kills=2,
            state_bytes=20 << 20,
        )

    @classmethod
    def smoke(cls) -> "Size":
        return cls(
            watching=4,
            processes=2,
            joins=3,
            gap_s=0.05,
            listed=6,
            ask_s=0.1,
            kills=1,
            told=4,
            stop_s=0.2,
            storm_watching=4,
            storm_s=0.5,
            storm_rates=(20,),
            idle=20,
            said=2000,
            ears=2,
            paced=10,
            pairs=1,
            window_s=1.0,
            orderer_kills=1,
            state_bytes=4 << 20,
            settle_s=0.2,
            patience_s=60.0,
            storm_p99_ms=60_000.0,
        )


Measure = Callable[[Service, Size], Awaitable[Measures]]


class Incomplete(AssertionError):
    """The peer did not do what was being timed."""


class RoleMeter:
    """Processor time since it was made, of all clients, all agents and all servers, per operation."""

    def __init__(self, service: Service, crew: Crew, size: Size) -> None:
        roles: dict[str, list[int]] = {"client": [hand.pid for hand in crew.hands]} if size.by_role else {}
        for process, pid in service.weighed().items() if size.by_role else ():
            roles.setdefault(process.partition(" ")[0], []).append(pid)
        self._roles = {role: (pids, threads_cpu_us(pids)) for role, pids in roles.items()}

    def per(self, operations: float, prefix: str = "") -> Measures:
        return {
            f"{prefix}{role} cpu us": (threads_cpu_us(pids) - before) / operations
            for role, (pids, before) in self._roles.items()
        }


def _messages(before: int | None, after: int | None, operations: float, prefix: str = "") -> Measures:
    """Between the nodes of a service, per operation; nothing where it does not count them."""
    if before is None or after is None:
        return {}
    return {f"{prefix}messages": (after - before) / operations}


async def join_until_all_know(service: Service, size: Size) -> Measures:
    """W1. The clock starts when the joiner calls join, and stops when the last watcher has been called."""
    async with Crew() as crew:
        watchers = await _watchers(crew, service, size.watching, size.processes)
        (joiner,) = await crew.hire(1, service.name, **service.door())
        await joiner.do("prepare", names=["joiner"])
        await _settled(watchers, size)
        meter, sent = RoleMeter(service, crew, size), await service.messages_sent()
        began = await joiner.do("churn", group=GROUP, name="joiner", times=size.joins, gap_s=size.gap_s)
        await asyncio.sleep(size.settle_s)
        told = await _told(watchers, "joiner", len(began), size.watching, size.patience_s)
        took = [last - first for first, last in zip(began, told, strict=True)]
        leaves = spread_ms(took[1::2])
        return {
            **spread_ms(took[0::2]),
            "leave p50 ms": leaves["p50 ms"],
            "leave p99 ms": leaves["p99 ms"],
            **meter.per(len(began)),
            **_messages(sent, await service.messages_sent(), len(began)),
        }


async def who_is_there(service: Service, size: Size) -> Measures:
    """W2. A program that does not follow the group asks; every answer must have all its members."""
    async with Crew() as crew:
        holders = await _spread(crew, service, 4 if size.listed >= 20 else 2)
        for holder, names in zip(holders, _shares("member", size.listed, len(holders)), strict=True):
            await holder.do("hold", group=GROUP, names=names)
        (asker,) = await crew.hire(1, service.name, **service.door())
        await asyncio.sleep(size.settle_s)
        measures: Measures = {}
        for at_once in (1, 16):
            expected = size.listed if service.keeps_lists else 0
            pids = [asker.pid, *service.pids()]
            used_us = cpu_us(pids)
            meter, sent = RoleMeter(service, crew, size), await service.messages_sent()
            asked = await asker.do("ask", group=GROUP, members=expected, for_s=size.ask_s, at_once=at_once)
            used_us = cpu_us(pids) - used_us
            measures |= {
                f"{at_once}: per s": asked["per_s"],
                f"{at_once}: p50 ms": asked["p50_ms"],
                f"{at_once}: p99 ms": asked["p99_ms"],
                f"{at_once}: cpu us": used_us / (asked["per_s"] * size.ask_s),
                **meter.per(asked["per_s"] * size.ask_s, f"{at_once}: "),
                **_messages(sent, await service.messages_sent(), asked["per_s"] * size.ask_s, f"{at_once}: "),
            }
        return measures


async def own_copy(service: Service, size: Size) -> Measures:
    """W2, for whoever follows the group: the answer is in the program already."""
    async with Crew() as crew:
        (holder, reader) = await crew.hire(2, service.name, **service.door())
        await holder.do("hold", group=GROUP, names=_names("member", size.listed))
        await asyncio.sleep(size.settle_s)
        per_s = await reader.do("read_copy", group=GROUP, members=size.listed, for_s=size.ask_s)
        return {"own copy: per s": per_s}


async def one_to_eight(service: Service, size: Size) -> Measures:
    """W4. Deliveries per second until the last receiver has the last message, and what they cost."""
    small = await _said(service, size, 1, size.ears, size.said, 100, "100 B: ")
    large = await _said(service, size, 1, size.ears, size.said, 1024, "1 KiB: ")
    late = await _paced(service, size.ears, size.paced)
    return {
        **small,
        **large,
        "100/s: p50 ms": percentile(late, 0.5) / 1e6,
        "100/s: p99 ms": percentile(late, 0.99) / 1e6,
    }


async def four_to_four(service: Service, size: Size) -> Measures:
    """W4 with several senders: each of the four receivers hears all of the four senders."""
    half = size.ears // 2
    return await _said(service, size, half, half, size.said // half, 100, "4 to 4: ")


async def _said(
    service: Service, size: Size, senders: int, receivers: int, count: int, bytes_each: int, prefix: str
) -> Measures:
    async with Crew() as crew:
        speakers, listeners = await _conversation(crew, service, senders, receivers, count)
        pids = [*service.pids(), *(hand.pid for hand in crew.hands)]
        meter = RoleMeter(service, crew, size)
        used_us = threads_cpu_us(pids)
        began, ended = await asyncio.gather(
            asyncio.gather(
                *(hand.do("speak", sender=n, count=count, size=bytes_each) for n, hand in enumerate(speakers))
            ),
            everybody(listeners, "heard"),
        )
        used_us = threads_cpu_us(pids) - used_us
        deliveries = senders * receivers * count
        return {
            f"{prefix}per s": deliveries / (max(ended) - min(began)) * 1e9,
            f"{prefix}cpu s per M": used_us / deliveries,
            **meter.per(deliveries, prefix),
        }


async def _paced(service: Service, receivers: int, count: int) -> list[int]:
    """How late messages are that come one at a time, 100 in a second."""
    async with Crew() as crew:
        (speaker,), listeners = await _conversation(crew, service, 1, receivers, 1)
        await speaker.do("speak", sender=0, count=1, size=100)
        await everybody(listeners, "heard")
        late, _ = await asyncio.gather(
            everybody(listeners, "time", count=count),
            speaker.do("pace", sender=0, count=count, size=100, per_s=100),
        )
        return [ns for each in late for ns in each]


async def _conversation(
    crew: Crew, service: Service, senders: int, receivers: int, count: int
) -> tuple[list[Hand], list[Hand]]:
    """Everybody is there and knows of everybody, before anything is said."""
    group = f"{GROUP}-{time.monotonic_ns()}"
    speakers = await crew.hire(senders, service.name, **service.door())
    for sender, hand in enumerate(speakers):
        await hand.do("may_speak", group=group, sender=sender)
    listeners = await crew.hire(receivers, service.name, **service.door())
    for nth, hand in enumerate(listeners):
        await hand.do("listen", group=group, name=f"ear-{nth}", senders=senders, count=count)
    await asyncio.sleep(0.5)
    return speakers, listeners


async def killed_until_all_know(service: Service, size: Size, within_s: float = 30.0) -> Measures:
    """W3, first part: kill -9 of a program that is a member; until the other 20 have been told."""
    took: list[int] = []
    async with Crew() as crew:
        watchers = await _watchers(crew, service, size.told, 4 if size.told >= 20 else 2)
        for nth in range(size.kills):
            victim = f"victim-{nth}"
            (hand,) = await crew.hire(1, service.name, **service.door(place=service.places - 1))
            await hand.do("idle", group=GROUP, names=[victim])
            await _told(watchers, victim, 1, size.told, size.patience_s)
            await _settled(watchers, size)
            killed_ns = time.monotonic_ns()
            hand.signal(signal.SIGKILL)
            took.append(await _gone(watchers, victim, size.told, within_s) - killed_ns)
    return {"p50 ms": percentile(took, 0.5) / 1e6, "max ms": max(took) / 1e6}


async def few_killed(service: Service, size: Size) -> Measures:
    """The same for a service that takes its time."""
    return await killed_until_all_know(service, replace(size, kills=max(1, size.kills // 3)))


async def silent_until_all_know(service: Service, size: Size, within_s: float = 30.0) -> Measures:
    """W3, second part: SIGSTOP for good of what speaks for a member; until the other 20 have been told.

    That is its host's agent where there is one, else the member's own program.
    """
    took = []
    for nth in range(max(1, size.kills // 3)):
        async with Crew() as crew:
            watchers = await _watchers(crew, service, size.told, 4 if size.told >= 20 else 2, place=0)
            (hand,) = await crew.hire(1, service.name, **service.door(place=service.places - 1))
            victim = f"silent-{nth}"
            await hand.do("idle", group=GROUP, names=[victim])
            await _told(watchers, victim, 1, size.told, size.patience_s)
            await _settled(watchers, size)
            stopped_ns = time.monotonic_ns()
            pids = service.speaks_for(service.places - 1) or (hand.pid,)
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            try:
                took.append(await _gone(watchers, victim, size.told, within_s) - stopped_ns)
            finally:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(size.settle_s)
    return {"silent: p50 ms": percentile(took, 0.5) / 1e6, "silent: max ms": max(took) / 1e6}


async def program_stopped(service: Service, size: Size) -> Measures:
    """W3, third part: a member's program is stopped for two seconds. Is it thrown out for it?"""
    return await _stopped(service, size, "program", ())


async def host_stopped(service: Service, size: Size) -> Measures:
    """W3, fourth part: the same for the agent of a member's host."""
    return await _stopped(service, size, "agent", service.speaks_for(service.places - 1))


async def _stopped(service: Service, size: Size, what: str, stop: tuple[int, ...]) -> Measures:
    async with Crew() as crew:
        watchers = await _watchers(crew, service, size.told, 4 if size.told >= 20 else 2, place=0)
        (hand,) = await crew.hire(1, service.name, **service.door(place=service.places - 1))
        await hand.do("idle", group=GROUP, names=["paused"])
        await _told(watchers, "paused", 1, size.told, size.patience_s)
        await _settled(watchers, size)
        stopped_ns = time.monotonic_ns()
        pids = stop or (hand.pid,)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(size.stop_s * 0.9)
        suspected = await service.suspected()
        await asyncio.sleep(size.stop_s * 0.1)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(2 * size.settle_s)
        seen = await everybody(watchers, "seen")
        changes = [last for one in seen for _, last in one.get("paused", ())]
        kept = f"thrown out after {(min(changes) - stopped_ns) / 1e9:.2f} s" if changes else "kept"
        return {f"{what} stopped {size.stop_s:g} s": kept, f"{what} suspected": suspected}


async def storm(service: Service, size: Size) -> Measures:
    """W6. The offered rate rises until the last watcher's p99 exceeds `storm_p99_ms`."""
    best: Measures = {"per s": 0.0}
    async with Crew() as crew:
        watchers = await _watchers(crew, service, size.storm_watching, size.processes)
        generators = await _spread(crew, service, 2)
        shares = _shares("churner", 60, len(generators))
        for generator, names in zip(generators, shares, strict=True):
            await generator.do("prepare", names=names)
        for rate in size.storm_rates:
            await _settled(watchers, size)
            used_us = cpu_us(service.pids())
            start_ns = time.monotonic_ns() + 200_000_000
            began = await asyncio.gather(
                *(
                    generator.do(
                        "storm",
                        group=GROUP,
                        names=names,
                        changes_per_s=rate / len(generators),
                        from_ns=start_ns,
                        for_s=size.storm_s,
                    )
                    for generator, names in zip(generators, shares, strict=True)
                )
            )
            late_s = (time.monotonic_ns() - start_ns) / 1e9 - size.storm_s
            await asyncio.sleep(size.settle_s + max(0.0, late_s))
            due = {name: times for one in began for name, times in one.items()}
            until = time.monotonic() + size.patience_s
            while True:
                seen = await everybody(watchers, "seen")
                if time.monotonic() > until or all(
                    _all_told(seen, name, len(times) - 1, size.storm_watching)
                    for name, times in due.items()
                    if times
                ):
                    break
                await asyncio.sleep(0.1)
            took = [
                max(one[name][nth][1] for one in seen) - at
                for name, times in due.items()
                for nth, at in enumerate(times)
                if _all_told(seen, name, nth, size.storm_watching)
            ]
            changes = sum(len(times) for times in due.values())
            used_us = cpu_us(service.pids()) - used_us
            if len(took) < changes and late_s < 1:
                raise Incomplete(f"{changes - len(took)} of {changes} changes did not reach every watcher")
            p99_ms = percentile(took, 0.99) / 1e6
            if len(took) < changes or p99_ms > size.storm_p99_ms:
                best["gave out at"] = float(rate)
                break
            best = {"per s": changes / size.storm_s, "notice p50 ms": percentile(took, 0.5) / 1e6}
            best["notice p99 ms"] = p99_ms
            best["server cpu us"] = used_us / changes
    return best


async def memory_per_member(service: Service, size: Size) -> Measures:
    """W7. Idle watching members in groups of ten, and what the servers grew by."""
    async with Crew() as crew:
        (hand,) = await crew.hire(1, service.name, **service.door())
        # The first members pay for code and tables that every later one uses.
        await hand.do("idle", group="warm-up", names=[f"warm-{nth}" for nth in range(10)])
        await asyncio.sleep(size.settle_s)
        before = {pid: resident_kb([pid]) for pid in service.pids()}
        names = _names("idle", size.idle)
        for first in range(0, size.idle, 10):
            await hand.do("idle", group=f"idle-{first}", names=names[first : first + 10])
        await asyncio.sleep(2 * size.settle_s)
        grown = {pid: resident_kb([pid]) - before[pid] for pid in service.pids()}
        return {
            "KB per member": sum(grown.values()) / size.idle,
            **{f"{what}: KB": grown[pid] / size.idle for what, pid in service.weighed().items()},
        }


def _names(stem: str, count: int) -> list[str]:
    return [f"{stem}-{nth}" for nth in range(count)]


def _shares(stem: str, count: int, among: int) -> list[list[str]]:
    names = _names(stem, count)
    return [names[nth::among] for nth in range(among)]


async def _spread(crew: Crew, service: Service, processes: int) -> list[Hand]:
    """Client processes, spread evenly over the deployment's hosts."""
    hands = []
    for nth in range(processes):
        hands += await crew.hire(1, service.name, **service.door(place=nth % service.places))
    return hands


async def _watchers(
    crew: Crew, service: Service, members: int, processes: int, place: int | None = None
) -> list[Hand]:
    if place is None:
        hands = await _spread(crew, service, processes)
    else:
        hands = await crew.hire(processes, service.name, **service.door(place=place))
    for hand, names in zip(hands, _shares("watcher", members, processes), strict=True):
        await hand.do("watch", group=GROUP, names=names)
    return hands


async def _settled(watchers: list[Hand], size: Size) -> None:
    """Let the notices of the setting up arrive, then forget them."""
    await asyncio.sleep(size.settle_s)
    await everybody(watchers, "forget")


async def _told(watchers: list[Hand], who: str, changes: int, members: int, within_s: float) -> list[int]:
    """When the last watcher learned of each change, if all of them did, each exactly once."""
    until = time.monotonic() + within_s
    while True:
        seen = await everybody(watchers, "seen")
        missed = [nth for nth in range(changes) if not _all_told(seen, who, nth, members)]
        if not missed:
            break
        if time.monotonic() > until:
            told = sum(one[who][missed[0]][0] for one in seen if missed[0] < len(one.get(who, ())))
            raise Incomplete(f"change {missed[0]} of {changes} reached {told} of {members} watchers")
        await asyncio.sleep(0.1)
    return [max(one[who][nth][1] for one in seen) for nth in range(changes)]


def _all_told(seen: list[dict[str, list[tuple[int, int]]]], who: str, nth: int, members: int) -> bool:
    return sum(one[who][nth][0] for one in seen if nth < len(one.get(who, ()))) == members


async def _gone(watchers: list[Hand], who: str, members: int, within_s: float) -> int:
    """Wait until every watcher was told that this member is gone; when the last one was."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        await asyncio.sleep(0.25)
        seen = await everybody(watchers, "seen")
        if _all_told(seen, who, 0, members):
            return max(int(one[who][0][1]) for one in seen)
    raise Incomplete(f"after {within_s:g} s not all watchers know that {who} is gone")
