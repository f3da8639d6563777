"""What a client process does when told to. See `crew` for how it is told."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks import locks
from benchmarks.crew import obey, run
from benchmarks.peers import program
from benchmarks.peers.base import OnChange, Program, nobody

WHOLE_WITHIN_S = 60.0


class Duties:
    def __init__(self) -> None:
        self._program: Program | None = None
        self._seen: dict[str, dict[int, list[int]]] = {}
        self._nth: list[dict[str, int]] = []
        self._leading = locks.Leading()

    def __call__(self, order: str) -> Callable[..., Awaitable[Any]]:
        duty: Callable[..., Awaitable[Any]] = getattr(self, order)
        return duty

    async def begin(self, peer: str, settings: dict[str, Any]) -> None:
        self._program = program(peer, settings)
        await self._program.begin()

    @property
    def program(self) -> Program:
        assert self._program is not None
        return self._program

    # Watching

    async def watch(self, group: str, names: list[str]) -> None:
        """Enter the group as so many watching members, each noting on its own what it is told, and when."""
        for name in names:
            await self.program.enter(group, name, self._watcher())

    async def idle(self, group: str, names: list[str]) -> None:
        """Enter as watching members whose notices are handed over and thrown away."""
        for name in names:
            await self.program.enter(group, name, nobody)

    def _watcher(self) -> OnChange:
        nth: dict[str, int] = {}
        self._nth.append(nth)
        seen, now = self._seen, time.monotonic_ns

        def on_change(who: str, joined: bool) -> None:
            change = nth.get(who, 0)
            nth[who] = change + 1
            seen.setdefault(who, {}).setdefault(change, []).append(now())

        return on_change

    async def forget(self) -> None:
        """What was seen so far belonged to the setting up."""
        self._seen.clear()
        for nth in self._nth:
            nth.clear()

    async def seen(self) -> dict[str, list[tuple[int, int]]]:
        """For each change of each member, in order: how many of mine were told, and when the last was."""
        return {
            who: [(len(changes[nth]), max(changes[nth])) for nth in sorted(changes)]
            for who, changes in self._seen.items()
        }

    # Joining and leaving

    async def hold(self, group: str, names: list[str]) -> None:
        for name in names:
            await self.program.join(group, name)

    async def churn(self, group: str, name: str, times: int, gap_s: float) -> list[int]:
        """Join, rest, leave, rest; when each of these calls began."""
        await self.program.prepare(name)
        began = []
        for _ in range(times):
            for change in (self.program.join, self.program.leave):
                began.append(time.monotonic_ns())
                await change(group, name)
                await asyncio.sleep(gap_s)
        return began

    async def storm(
        self, group: str, names: list[str], changes_per_s: float, from_ns: int, for_s: float
    ) -> dict[str, list[int]]:
        """Joins and leaves by all these members in turn, at a fixed rate; when each was due.

        Counting from when a change was due, not from when a late generator came round to it, keeps a system
        that cannot keep up from looking quick.
        """
        due: dict[str, list[int]] = {name: [] for name in names}
        step_ns = int(1e9 / changes_per_s)

        async def change_in_turn(first: int, name: str) -> None:
            at, inside = from_ns + first * step_ns, False
            while at < from_ns + for_s * 1e9:
                if (early_ns := at - time.monotonic_ns()) > 0:
                    await asyncio.sleep(early_ns / 1e9)
                due[name].append(at)
                await (self.program.leave if inside else self.program.join)(group, name)
                inside = not inside
                at += step_ns * len(names)
            if inside:
                await self.program.leave(group, name)

        await asyncio.gather(*(change_in_turn(nth, name) for nth, name in enumerate(names)))
        return due

    async def prepare(self, names: list[str]) -> None:
        for name in names:
            await self.program.prepare(name)

    # Asking

    async def ask(self, group: str, members: int, for_s: float, at_once: int) -> dict[str, Any]:
        """Resolve the group again and again, so many askers at once; every answer is checked for size."""
        took_ns: list[int] = []
        await self._until_whole(group, members)
        until = time.monotonic_ns() + int(for_s * 1e9)

        async def asker() -> None:
            while (began := time.monotonic_ns()) < until:
                found = await self.program.members(group)
                took_ns.append(time.monotonic_ns() - began)
                if found != members:
                    raise AssertionError(f"{found} members instead of {members}")

        began = time.monotonic_ns()
        await asyncio.gather(*(asker() for _ in range(at_once)))
        seconds = (time.monotonic_ns() - began) / 1e9
        took_ns.sort()
        return {
            "per_s": len(took_ns) / seconds,
            "p50_ms": took_ns[len(took_ns) // 2] / 1e6,
            "p99_ms": took_ns[len(took_ns) * 99 // 100] / 1e6,
        }

    async def _until_whole(self, group: str, members: int) -> None:
        """Whoever joined a moment ago may not be known yet where we ask; that is not what is timed."""
        async with asyncio.timeout(WHOLE_WITHIN_S):
            while await self.program.members(group) != members:
                await asyncio.sleep(0.02)

    async def read_copy(self, group: str, members: int, for_s: float) -> float:
        """Read the program's own copy again and again, in turns of a thousand; reads per second."""
        await self.program.follow(group)
        reads, began = 0, time.monotonic()
        while (seconds := time.monotonic() - began) < for_s:
            found = await self.program.read_copy(group, 1000)
            reads += 1000
            if found != members:
                raise AssertionError(f"{found} members instead of {members}")
            await asyncio.sleep(0)
        return reads / seconds

    # Speaking

    async def may_speak(self, group: str, sender: int) -> None:
        await self.program.may_speak(group, sender)

    async def listen(self, group: str, name: str, senders: int, count: int) -> None:
        await self.program.listen(group, name, senders, count)

    async def take_part(self, group: str, name: str, sender: int, members: int, count: int) -> None:
        await self.program.take_part(group, name, sender, members, count)

    async def begin_timing(self) -> None:
        self.program.begin_timing()

    async def order(self) -> str:
        return self.program.order()

    async def heard(self) -> int:
        return await self.program.heard()

    async def speak(self, sender: int, count: int, size: int) -> int:
        return await self.program.speak(sender, count, size)

    async def pace(self, sender: int, count: int, size: int, per_s: float) -> None:
        """So many timed messages at a steady pace."""
        due = time.monotonic()
        for _ in range(count):
            due += 1 / per_s
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self.program.say_timed(sender, size)

    async def loaded(self, what: str, details: dict[str, Any]) -> Any:
        """What only `LoadedProgram` does."""
        return await getattr(self.program, what)(**details)

    # Locks

    async def lock_for(self, names: list[str], for_s: float) -> float:
        return await locks.lock_for(locks.lock_of(self.program), names, for_s)

    async def lead(self, name: str) -> None:
        self._leading.begin(locks.lock_of(self.program), name)

    async def leads(self) -> int:
        """Since when; 0 if it waits."""
        return self._leading.since_ns

    async def time(self, count: int) -> list[int]:
        return await self.program.time(count)


if __name__ == "__main__":
    run(obey(Duties()))
