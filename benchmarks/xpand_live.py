"""The Xpand paper's measurements with real servers, agents and programs, on the lab's network (8.2 to 8.4).

Programs speak and listen from this process, through the agents of their hosts. When a joiner's snapshot came,
the table's T = 0, no program is told; its agent has recorded every one of its steps, and there it is read.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

from msgspec import Struct

import rostra
from benchmarks.xpand_sheets import PERIOD_S, Continuous, FastJoin, Smooth, distance, three
from rostra.client import Conversation, GroupItem, Message, View
from rostra.client.conversation import RoleName
from rostra.errors import Refused
from rostra.lab.world import LabWorld
from rostra.observe.recording import Gave, Turn, decoded
from rostra.sim.replay import recordings

Say = Callable[[str], None]

GROUP: Final = "table"
SENDERS: Final = {"s1": "huji.h1", "s2": "huji.h2", "s3": "huji.h3", "s4": "huji.h4", "s5": "ntu.h1"}
JOINER: Final = "mit.h1"
FELLOW: Final = "huji.h5"
WATCHER: Final = "mit.h2"
READY_WITHIN_S: Final = 60.0
HEARD_WITHIN_S: Final = 20.0
GONE_S: Final = 1.0
excluded: Final[list[str]] = []
"""What members were told whom their group went on without: none should have been."""

DELEGATE_GONE_S: Final = 12.0
"""A delegate that nobody needs leaves after ten seconds: then J is the first of its LAN again."""


@asynccontextmanager
async def speaking(
    world: LabWorld, host: str, name: str, *, role: RoleName = "both"
) -> AsyncIterator[Conversation]:
    async with (
        rostra.connect(world.socket(host), name=name) as me,
        me.join(GROUP, delivery="fifo", role=role) as talk,
    ):
        await talk.ready(deadline_s=READY_WITHIN_S)
        yield talk


async def speak(talk: Conversation, *, phase_s: float = 0.0, count: int | None = None) -> None:
    """A message every 100 ms, whatever the messages before it took."""
    clock = asyncio.get_running_loop().time
    began = clock() + phase_s
    for number in itertools.count() if count is None else range(count):
        await asyncio.sleep(max(0.0, began + number * PERIOD_S - clock()))
        await talk.send(b"x")


async def listen(
    talk: Conversation, hear: Callable[[float, GroupItem], None] = lambda at, item: None
) -> None:
    try:
        async for item in talk:
            hear(time.time(), item)
    except Refused as refusal:
        excluded.append(refusal.what)


# Fast join


class Watched(Struct, frozen=True):
    """One join as J's program saw it, in seconds since 1970."""

    asked: float
    ready: float
    first: dict[str, float]
    fresh: dict[str, float]
    excess: list[float]  # ms


async def fast_joins(
    world: LabWorld, times: int, luck: Random, say: Say, *, first_of_lan: bool
) -> list[Watched]:
    """Joins at MIT, one after the other: S1 to S4 speak at HUJI, S5 at NTU, S6 joins with J."""
    found: list[Watched] = []
    heard: dict[str, dict[int, float]] = {}

    def hear(at: float, item: GroupItem) -> None:
        if isinstance(item, Message):
            heard.setdefault(_name(item), {})[item.number] = at

    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        running = []
        for name, host in SENDERS.items():
            talk = await stack.enter_async_context(speaking(world, host, name))
            running.append(tasks.create_task(listen(talk)))
            running.append(tasks.create_task(speak(talk, phase_s=luck.random() * PERIOD_S)))
        if not first_of_lan:  # somebody who listens at MIT all the time, so that its delegate is in
            watcher = await stack.enter_async_context(speaking(world, WATCHER, "m", role="receive"))
            running.append(tasks.create_task(listen(watcher, hear)))
        await asyncio.sleep(DELEGATE_GONE_S if first_of_lan else GONE_S)
        for number in range(times):
            say(f"join {number + 1} of {times}")
            await asyncio.sleep(luck.random() * PERIOD_S)
            heard.clear()
            watched = await _one_join(world, number, luck, heard, watched=not first_of_lan)
            if watched is not None:
                found.append(watched)
            await asyncio.sleep(DELEGATE_GONE_S if first_of_lan else GONE_S)
        for task in running:
            task.cancel()
    return found


async def _one_join(
    world: LabWorld, number: int, luck: Random, heard: dict[str, dict[int, float]], *, watched: bool
) -> Watched | None:
    """`heard`: what somebody hears who was at MIT before, if there is one."""
    names = {*SENDERS, f"f{number}"}
    first: dict[str, float] = {}
    fresh: dict[str, float] = {}
    excess: list[float] = []
    ready: float | None = None

    def compare(name: str, number: int, at: float) -> None:
        """Is this the first that reached the site after J's answer?"""
        there_at = heard.get(name, {}).get(number, at)
        if ready is not None and name in SENDERS and name not in fresh and there_at > ready:
            fresh[name] = at
            excess.append((at - there_at) * 1e3)

    async with (
        rostra.connect(world.socket(JOINER), name=f"j{number}") as j,
        rostra.connect(world.socket(FELLOW), name=f"f{number}") as f,
    ):
        asked = time.time()
        # Its way is longer than J's, who listens as soon as it is in.
        fellow = asyncio.create_task(_fellow(f, luck.random() * PERIOD_S))
        talk = await j.join(GROUP, delivery="fifo")
        others = [fellow, asyncio.create_task(speak(talk, phase_s=luck.random() * PERIOD_S))]
        try:
            async with asyncio.timeout(HEARD_WITHIN_S):
                async for item in talk:
                    at = time.time()
                    if isinstance(item, View) and ready is None:
                        ready = at
                    elif isinstance(item, Message) and (name := _name(item)) in names:
                        first.setdefault(name, at)
                        if watched:
                            compare(name, item.number, at)
                        if len(first) == len(names) and len(fresh) == watched * len(SENDERS):
                            break
        except TimeoutError:
            return None
        finally:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await talk.leave()
    if ready is None:
        return None
    labels = {**{name: name.upper() for name in SENDERS}, f"f{number}": "S6"}
    return Watched(
        asked,
        ready,
        {labels[name]: at for name, at in first.items()},
        {labels[name]: at for name, at in fresh.items()},
        excess,
    )


async def _fellow(me: rostra.Me, phase_s: float) -> None:
    """Joins when J does, and speaks and listens until it is told to go."""
    talk = await me.join(GROUP, delivery="fifo")
    try:
        await asyncio.gather(speak(talk, phase_s=phase_s), listen(talk))
    finally:
        await talk.leave()


def _name(message: Message) -> str:
    return message.sender.partition("/")[2].partition("#")[0]


def since_snapshot(watched: list[Watched], journal: Path) -> list[FastJoin]:
    """The same, in ms after the snapshot, as J's agent recorded it. Read it when the agents have ended."""
    ours, theirs = snapshots(journal, JOINER), snapshots(journal, FELLOW)
    found = []
    for one in watched:
        snapshot = next((at for at in ours if one.asked <= at <= one.ready), None)
        if snapshot is None:
            continue
        end = max(one.first.values())
        fellow = next((at for at in theirs if one.asked <= at <= end), None)
        found.append(
            FastJoin(
                (snapshot - one.asked) * 1e3,
                (one.ready - snapshot) * 1e3,
                {name: (at - snapshot) * 1e3 for name, at in one.first.items()},
                {name: (at - snapshot) * 1e3 for name, at in one.fresh.items()},
                one.excess,
                None if fellow is None else (fellow - snapshot) * 1e3,
            )
        )
    return found


def snapshots(journal: Path, host: str) -> list[float]:
    """When members of this host were given a list: then they went on to ask their delegate, or for one."""
    found, at, waiting = [], 0.0, False
    for recording in recordings(journal, of=host):
        for word in recording.words():
            if isinstance(word, Turn):
                at = word.at / 1e6
            elif isinstance(word, Gave) and b"member is" in word.effects:
                for kind, effect in decoded(word.effects):
                    if kind == "Noted" and effect["what"] == "member is":
                        state = effect["about"]
                        if state in ("Syncing", "WaitingDelegate") and not waiting:
                            found.append(at)
                        waiting = state in ("Syncing", "WaitingDelegate")
    return found


# Smooth join


async def steady(world: LabWorld, for_s: float, say: Say, *, joins: bool) -> dict[int, float]:
    """When each message of a sender at HUJI reached a receiver at MIT."""
    arrivals: dict[int, float] = {}
    count = round(for_s / PERIOD_S)
    everything = asyncio.Event()

    def hear(at: float, item: GroupItem) -> None:
        if isinstance(item, Message):
            arrivals[item.number] = at
            if len(arrivals) == count:
                everything.set()

    async with (
        speaking(world, "huji.h1", "sender") as sender,
        speaking(world, JOINER, "receiver", role="receive") as receiver,
        asyncio.TaskGroup() as tasks,
    ):
        while not (len(sender.members) >= 2 and len(receiver.members) >= 2):
            await asyncio.sleep(0.05)
        await asyncio.sleep(1.0)
        running = [tasks.create_task(listen(receiver, hear)), tasks.create_task(listen(sender))]
        stream = tasks.create_task(speak(sender, count=count))
        say("with joins" if joins else "alone")
        if joins:
            await asyncio.sleep(for_s / 3)
            hosts = ("huji.h2", "huji.h3", "huji.h4", "huji.h5", "ntu.h1")
            async with AsyncExitStack() as stack:
                others = await asyncio.gather(
                    *(stack.enter_async_context(speaking(world, host, f"x{host[-1]}")) for host in hosts)
                )
                drains = [tasks.create_task(listen(other)) for other in others]
                await asyncio.sleep(for_s / 3)
                for drain in drains:
                    drain.cancel()
        await stream
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                await everything.wait()
        except TimeoutError:  # what was measured so far, at other loss rates too, is not lost with it
            say(f"only {len(arrivals)} of {count} messages came")
        for task in running:
            task.cancel()
    return arrivals


def compared(loss: str, among: dict[int, float], alone: dict[int, float], more: dict[str, float]) -> Smooth:
    both = sorted(among.keys() & alone.keys())
    pairs = [(n - 1, n) for n in both if n - 1 in among and n - 1 in alone]
    with_joins = [(among[n] - among[m]) * 1e3 for m, n in pairs]
    without = [(alone[n] - alone[m]) * 1e3 for m, n in pairs]
    return Smooth(
        "huji-mit-ntu",
        loss,
        len(pairs),
        max(with_joins),
        max(without),
        None,
        None,
        distance(with_joins, without, digits=0),  # what is under a millisecond is this machine's
        more,
        [among[n] for n in both],
        [alone[n] for n in both],
    )


# Continuous behaviour


async def continuous(world: LabWorld, minutes: int, luck: Random, say: Say) -> Continuous:
    came: dict[int, tuple[float, float]] = {}
    gaps = 0
    count = minutes * 600
    everything = asyncio.Event()

    def hear(at: float, item: GroupItem) -> None:
        nonlocal gaps
        if isinstance(item, Message):
            came[item.number] = (at, item.sent_at)
            if len(came) == count:
                everything.set()
        gaps += isinstance(item, rostra.Gap)

    hosts = ("huji.h2", "huji.h3", "huji.h4", "ntu.h1")
    lab, changes = world.lab, 0
    async with (
        speaking(world, "huji.h1", "sender") as sender,
        speaking(world, JOINER, "receiver", role="receive") as receiver,
        AsyncExitStack() as stack,
        asyncio.TaskGroup() as tasks,
    ):
        while not (len(sender.members) >= 2 and len(receiver.members) >= 2):
            await asyncio.sleep(0.05)
        before = _resident_kib(world, "huji.h1"), _resident_kib(world, "mit")
        running = [tasks.create_task(listen(receiver, hear)), tasks.create_task(listen(sender))]
        stream = tasks.create_task(speak(sender, count=count))
        programs = {
            host: await stack.enter_async_context(rostra.connect(world.socket(host), name="x"))
            for host in hosts
        }
        present: dict[str, asyncio.Event] = {}

        async def visit(host: str, name: str, over: asyncio.Event) -> None:
            async with programs[host].open(name) as me, me.join(GROUP, delivery="fifo") as talk:
                drain = asyncio.create_task(listen(talk))
                await over.wait()
                drain.cancel()

        clock = asyncio.get_running_loop().time
        began = clock()
        for half in range(minutes * 120):
            if half % 10 == 0:
                say(f"minute {half // 120 + 1} of {minutes}")
                loss = luck.uniform(0.05, 0.20)
                for source, to, _ in lab.plan.ways:
                    lab.way(source, to).set(loss=loss)
            if half // 120 % 2 == 1:
                host = luck.choice(hosts)
                changes += 1
                if host in present:
                    present.pop(host).set()
                else:
                    present[host] = asyncio.Event()
                    tasks.create_task(visit(host, f"x{changes}", present[host]))
            await asyncio.sleep(max(0.0, began + (half + 1) * 0.5 - clock()))
        await stream
        async with asyncio.timeout(READY_WITHIN_S):
            await everything.wait()
        after = _resident_kib(world, "huji.h1"), _resident_kib(world, "mit")
        for over in present.values():
            over.set()
        for task in running:
            task.cancel()
    intervals: dict[str, list[float]] = {"quiet": [], "changes": []}
    delays: dict[str, list[float]] = {"quiet": [], "changes": []}
    start = came[1][1]
    for number in range(2, count + 1):
        at, said = came[number]
        kind = "changes" if int((said - start) // 60) % 2 else "quiet"
        intervals[kind].append((at - came[number - 1][0]) * 1e3)
        delays[kind].append((at - said) * 1e3)
    return Continuous(
        minutes * 60.0,
        changes,
        gaps,
        {kind: three(values) for kind, values in intervals.items() if values},
        {kind: three(values) for kind, values in delays.items() if values},
        f"memory of the sender's agent {before[0]} KiB, then {after[0]}; of MIT's server {before[1]}, then "
        f"{after[1]}",
        [(came[n][0] - start, (came[n][0] - came[n - 1][0]) * 1e3) for n in range(2, min(count, 6000))],
    )


def _resident_kib(world: LabWorld, node: str) -> int:
    text = Path(f"/proc/{world.processes[node].pid}/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("VmRSS:")).split()[1])
