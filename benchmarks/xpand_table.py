"""The ground under the Xpand paper's table, measured on the lab's network with real processes.

    python -m benchmarks.xpand_table            as root; about four minutes
    python -m benchmarks.xpand_table --quick

Before a protocol is measured, three things must be known, for every loss rate (`spec/xpand.md`, 8.1 to 8.5):

- **setting**: is the network as it was asked for? Probes on all six ways, without jitter and with 5 % of it.
- **floor**: how even is a bare UDP stream, one packet every 100 ms from HUJI to MIT? No protocol can be seen
  to be better than this here, and a bar of 2 ms or 5 ms means something only where the floor is lower.
- **join**: from asking to join at MIT until the snapshot is there, which is the table's T = 0 and which the
  paper does not give; and until members at HUJI and NTU hear of it. Four members are at HUJI, one at NTU.

Beside them stand the bounds for view synchrony, from the round trips that were measured.
"""

import argparse
import asyncio
import select
import socket
import statistics
import struct
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

import rostra
from benchmarks.figures import percentile
from rostra.client import Item, Joined, View
from rostra.errors import RostraError
from rostra.lab import Lab, load_plan
from rostra.lab.plan import Plan
from rostra.lab.probe import Probed, probe
from rostra.lab.urgency import urgently
from rostra.lab.world import LabWorld

LOSSES: Final = (0.0, 0.01, 0.05, 0.10, 0.20)
PERIOD_S: Final = 0.1
PORT: Final = 7798
MEMBERS: Final = ("huji.h1", "huji.h2", "huji.h3", "huji.h4", "ntu.h1")
JOINER: Final = "mit.h1"
PATIENCE: Final = {"down_after_s": 15.0}
"""At a fifth lost a TCP connection is silent for more than the profile's four seconds about once a minute.
Here joins are measured, and not detection."""

HEARD_WITHIN_S: Final = 30.0
_STAMP: Final = struct.Struct("!IQ")
_SO_TIMESTAMPNS: Final = 35


class Floor(Struct, frozen=True):
    """A bare stream: how far arrivals were from 100 ms apart; without those that have a loss between them."""

    sent: int
    arrived: int
    off_ms: list[float]


class Joins(Struct, frozen=True):
    """Each in ms from the moment of asking; a join that was not heard of in time is counted, not measured."""

    snapshot_ms: list[float]
    huji_ms: list[float]
    ntu_ms: list[float]
    unheard: int


class Measured(Struct, frozen=True):
    loss: float
    steady: list[Probed]
    jittery: list[Probed]
    floor: Floor
    joins: Joins


class Size(Struct, frozen=True):
    probes: int
    stream_s: float
    joins: int
    losses: tuple[float, ...]


FULL: Final = Size(1000, 10.0, 20, LOSSES)
QUICK: Final = Size(1000, 2.0, 3, (0.0, 0.05))


async def measure(plan: Plan, size: Size, remarks: Console) -> AsyncIterator[Measured]:
    """One loss rate after the other, each in a lab of its own, so that none inherits the other's troubles."""
    for loss in size.losses:
        ways = tuple((source, to, quality.but(loss=loss)) for source, to, quality in plan.ways)
        async with Lab(Plan(plan.name, plan.sites, ways, plan.seed)) as lab:
            with remarks.status(f"{loss:.0%} loss: probing"):
                steady = probe(lab, size.probes)
                _jitter(lab, 0.05)
                jittery = probe(lab, size.probes)
                _jitter(lab, 0.0)
            with remarks.status(f"{loss:.0%} loss: a bare stream"), urgently():
                floor = bare_stream(lab, size.stream_s)
            with remarks.status(f"{loss:.0%} loss: joins"):
                world = await LabWorld(lab, detect=PATIENCE).start()
                joins = await join_again_and_again(world, size.joins)
            yield Measured(loss, steady, jittery, floor, joins)


def _jitter(lab: Lab, share: float) -> None:
    for source, to, quality in lab.plan.ways:
        lab.way(source, to).set(jitter_s=quality.delay_s * share)


def bare_stream(lab: Lab, for_s: float) -> Floor:
    """Arrivals are stamped by the receiver's kernel. What a late sender adds is known from its own stamp."""
    source, to = lab.host("huji.h1"), lab.host(JOINER)
    count, came = round(for_s / PERIOD_S), {}
    with source.socket() as mouth, to.socket() as ear:
        ear.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        ear.bind((to.address, PORT))
        began_s = last_s = time.monotonic()
        number = 0
        while number < count or time.monotonic() < last_s + 1.0:
            if number < count and time.monotonic() >= began_s + number * PERIOD_S:
                mouth.sendto(_STAMP.pack(number, time.time_ns()), (to.address, PORT))
                last_s = time.monotonic()
                number += 1
            next_s = began_s + number * PERIOD_S if number < count else last_s + 1.0
            if select.select([ear], [], [], max(0.0, next_s - time.monotonic()))[0]:
                data, notes, _, _ = ear.recvmsg(64, 64)
                seconds, nanoseconds = struct.unpack("@ll", notes[0][2])
                which, sent_ns = _STAMP.unpack(data)
                came[which] = seconds * 1_000_000_000 + nanoseconds - sent_ns
    off = [abs(came[n + 1] - came[n]) / 1e6 for n in sorted(came) if n + 1 in came]
    return Floor(count, len(came), off)


async def join_again_and_again(world: LabWorld, times: int) -> Joins:
    found = Joins([], [], [], 0)
    unheard = 0
    async with AsyncExitStack() as stack:
        streams = []
        for number, host in enumerate(MEMBERS, 1):
            me = await stack.enter_async_context(rostra.connect(world.socket(host), name=f"s{number}"))
            streams.append(aiter(await stack.enter_async_context(me.join("table"))))
        async with rostra.connect(world.socket(JOINER), name="j") as joiner:
            for _ in range(times):
                asked_s = time.monotonic()
                async with joiner.join("table") as joined:
                    try:
                        async with asyncio.timeout(HEARD_WITHIN_S):
                            snapshot_s, huji_s, ntu_s = await asyncio.gather(
                                _snapshot(aiter(joined)), _heard(streams[0]), _heard(streams[-1])
                            )
                    except TimeoutError:
                        unheard += 1
                        continue
                found.snapshot_ms.append((snapshot_s - asked_s) * 1e3)
                found.huji_ms.append((huji_s - asked_s) * 1e3)
                found.ntu_ms.append((ntu_s - asked_s) * 1e3)
                await asyncio.sleep(1.0)  # until the leave is known: a join must be news
    return Joins(found.snapshot_ms, found.huji_ms, found.ntu_ms, unheard)


async def _snapshot(items: AsyncIterator[Item]) -> float:
    """When the joiner sees all five members."""
    seen: set[str] = set()
    async for item in items:
        if isinstance(item, View | Joined):
            seen |= {str(member.endpoint).partition("/")[0] for member in item.members}
        if seen >= set(MEMBERS):
            return time.monotonic()
    raise AssertionError("the joiner's stream ended")


async def _heard(items: AsyncIterator[Item]) -> float:
    """When a member hears that somebody at the joiner's host came."""
    async for item in items:
        if isinstance(item, View | Joined) and any(
            str(member.endpoint).startswith(f"{JOINER}/") for member in item.members
        ):
            return time.monotonic()
    raise AssertionError("a member's stream ended")


# Tables


def show(console: Console, found: Sequence[Measured]) -> None:
    setting = _table("setting: six ways", "loss asked", "loss", "delay off", "with jitter", "as asked")
    floor = _table(
        "floor: a bare stream, off its 100 ms", "loss asked", "arrived", "p50 ms", "p99 ms", "most ms"
    )
    joins = _table(
        "join at MIT: ms from asking, median (p95)",
        "loss asked",
        "snapshot",
        "HUJI hears",
        "NTU hears",
        "never",
    )
    for one in found:
        asked = f"{one.loss:.0%}"
        probes = [*one.steady, *one.jittery]
        lost = statistics.mean(each.loss for each in probes)
        good = sum(each.is_as_asked for each in probes)
        setting.add_row(
            asked, f"{lost:.1%}", _worst(one.steady), _worst(one.jittery), f"{good} of {len(probes)}"
        )
        off = one.floor.off_ms or [float("nan")]
        floor.add_row(
            asked,
            f"{one.floor.arrived} of {one.floor.sent}",
            *(f"{value:.2f}" for value in (percentile(off, 0.5), percentile(off, 0.99), max(off))),
        )
        joins.add_row(
            asked,
            *map(_spread, (one.joins.snapshot_ms, one.joins.huji_ms, one.joins.ntu_ms)),
            str(one.joins.unheard),
        )
    for table in (setting, floor, joins):
        console.print(table)
    trips = [each.delay_s for each in found[0].steady if {each.source, each.to} == {"huji", "ntu"}]
    farthest_ms = sum(trips) * 1e3
    console.print(
        f"view synchrony, from the farthest pair's round trip of {farthest_ms:.1f} ms (the paper's 390): "
        f"the first message after a join not before {1.5 * farthest_ms:.0f} ms (585), "
        f"a pause at every view change of at least {farthest_ms:.0f} ms (390)",
        soft_wrap=True,
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _worst(probes: Sequence[Probed]) -> str:
    return f"{max(each.delay_error for each in probes):.2%}"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.0f} ({percentile(values, 0.95):.0f})" if values else "-"


async def _measured(size: Size, seed: int, remarks: Console) -> list[Measured]:
    plan = msgspec.structs.replace(load_plan(), seed=seed)
    return [one async for one in measure(plan, size, remarks)]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.xpand_table",
        description="The ground under the Xpand paper's table, on the lab's network. Needs root.",
    )
    parser.add_argument("--quick", action="store_true", help="a first look, in under a minute")
    parser.add_argument("--seed", type=int, default=1, help="the luck of the packets")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every figure, for programs")
    arguments = parser.parse_args()
    try:
        found = asyncio.run(
            _measured(QUICK if arguments.quick else FULL, arguments.seed, Console(stderr=True))
        )
    except RostraError as error:
        print(f"error: {error.what}\n  {error.fix}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    show(Console(), found)
    if arguments.json is not None:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
