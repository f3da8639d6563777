"""The Xpand paper's figures with real processes: servers, agents and programs on the lab's network.

    python -m benchmarks.xpand_table            as root; three quarters of an hour; writes report/xpand
    python -m benchmarks.xpand_table --quick    some minutes

For every loss rate (`spec/xpand.md`, 8.1 to 8.5), in a lab of its own:

- **setting**: is the network as it was asked for? Probes on all six ways, without jitter and with 5 % of it.
- **floor**: how even is a bare UDP stream, one packet every 100 ms from HUJI to MIT? No protocol can be seen
  to be better than this here, and a bar of 2 ms or 5 ms means something only where the floor is lower.
- **fast join**: from a joiner's snapshot to its first message of each sender, row by row.
- **smooth join**: a stream from HUJI to MIT while five others join and leave, and the same alone.

And at last **continuous behaviour**: minutes with a change every 500 ms beside quiet ones, while the loss
drifts. Servers and agents run before ordinary processes, as the router does, so that the figures do not
depend on who else uses the machine.
"""

import argparse
import asyncio
import os
import select
import socket
import statistics
import struct
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from msgspec import Struct
from rich.console import Console

from benchmarks import xpand_live
from benchmarks.xpand_sheets import (
    PERIOD_S,
    FastJoins,
    Figures,
    Ground,
    bounds,
    continuous_sheet,
    draw,
    fast_sheet,
    ground_sheets,
    show_progress,
    smooth_sheet,
)
from benchmarks.xpand_sim import drift
from rostra.errors import RostraError
from rostra.lab import Lab, load_plan
from rostra.lab.plan import LabPlan
from rostra.lab.probe import probe
from rostra.lab.urgency import urgently
from rostra.lab.world import LabWorld

PORT: Final = 7798
PATIENCE: Final = {"down_after_s": 15.0}
"""At a fifth lost a TCP connection is silent for more than the profile's four seconds about once a minute.
Here joins are measured, and not detection."""

SETTING: Final = (
    "Servers, agents and programs of Rostra in network namespaces, a router with the paper's delays and loss "
    "between the sites; the tree that the delegates chose is the chain HUJI, MIT, NTU"
)
_STAMP: Final = struct.Struct("!IQ")
_SO_TIMESTAMPNS: Final = 35


class Size(Struct, frozen=True):
    probes: int
    floor_s: float
    joins: dict[float, int]  # by loss rate
    first_of_lan: dict[float, int]
    smooth_losses: tuple[float | None, ...]  # None: drifting from 1 % to 20 % and back
    smooth_s: float
    minutes: int  # of continuous behaviour


FULL: Final = Size(
    1000,
    10.0,
    {0.0: 60, 0.01: 200, 0.05: 40, 0.10: 40, 0.20: 40},
    {0.0: 10, 0.01: 10},
    (0.0, 0.01, 0.05, 0.10, 0.20, None),
    60.0,
    10,
)
QUICK: Final = Size(1000, 2.0, {0.0: 8, 0.01: 8}, {0.0: 1}, (0.0, 0.20), 12.0, 2)

Keep = Callable[[str], None]


async def measure(size: Size, found: Figures, console: Console, keep: Keep) -> None:
    """Piece by piece; `keep` is called before each, with what comes next."""
    plan = msgspec.structs.replace(load_plan(), seed=found.seed)
    luck = Random(f"xpand {found.seed}")
    losses = sorted({*size.joins, *(loss for loss in size.smooth_losses if loss is not None)})
    for loss in losses:
        await _at(loss, plan, size, luck, found, console, keep)
    if None in size.smooth_losses:
        await _drifting(plan, size, found, keep)
    if found.smooth:
        smooth_sheet(found.smooth).show(console)
    if size.minutes:
        keep("continuous behaviour")
        async with Lab(_losing(plan, 0.05)) as lab:
            world = await LabWorld(lab, detect=PATIENCE, urgent=True).start()
            with urgently():
                found.continuous = await xpand_live.continuous(
                    world, size.minutes, luck, partial(_say, keep, "continuous behaviour")
                )
        continuous_sheet(found.continuous).show(console)
    console.print(bounds(found), soft_wrap=True)


async def _at(
    loss: float, plan: LabPlan, size: Size, luck: Random, found: Figures, console: Console, keep: Keep
) -> None:
    """Everything at one loss rate, in a lab of its own, so that none inherits the other's troubles."""
    title = f"{loss:.0%} loss"
    async with Lab(_losing(plan, loss)) as lab:
        keep(f"{title}: probes and a bare stream")
        found.ground.append(ground(lab, loss, size))
        for sheet in ground_sheets(found.ground[-1:]):
            sheet.show(console)
        keep(f"{title}: the world comes up")
        journal = lab.home.path / "journal"
        world = await LabWorld(lab, detect=PATIENCE, journal=journal, record=True, urgent=True).start()
        watched = {}
        with urgently():
            for first_of_lan, joins in ((False, size.joins), (True, size.first_of_lan)):
                if loss in joins:
                    words = f"{title}: fast join{', J first of its LAN' if first_of_lan else ''}"
                    say = partial(_say, keep, words)
                    watched[first_of_lan] = await xpand_live.fast_joins(
                        world, joins[loss], luck, say, first_of_lan=first_of_lan
                    )
            if loss in size.smooth_losses:
                await _smooth(world, title.partition(" ")[0], size.smooth_s, found, keep)
        world.stop()  # its recordings are whole then
        for first_of_lan, raw in watched.items():
            timed = xpand_live.since_snapshot(raw, journal)
            asked = (size.first_of_lan if first_of_lan else size.joins)[loss]
            found.fast.append(FastJoins(loss, first_of_lan, timed, asked - len(timed)))
            if timed:
                fast_sheet(found.fast[-1]).show(console)
    keep(title)


def _say(keep: Keep, words: str, piece: str) -> None:
    keep(f"{words}, {piece}")


async def _smooth(world: LabWorld, loss: str, for_s: float, found: Figures, keep: Keep) -> None:
    say = partial(_say, keep, f"{loss} loss: smooth join")
    counts = [_sent(world.lab)]
    alone = await xpand_live.steady(world, for_s, say, joins=False)
    counts.append(_sent(world.lab))
    among = await xpand_live.steady(world, for_s, say, joins=True)
    counts.append(_sent(world.lab))
    more = {
        way: ((counts[2][way] - counts[1][way]) - (counts[1][way] - counts[0][way])) / 10 for way in counts[0]
    }
    found.smooth.append(xpand_live.compared(loss, among, alone, more))


async def _drifting(plan: LabPlan, size: Size, found: Figures, keep: Keep) -> None:
    async with Lab(_losing(plan, 0.01)) as lab:
        world = await LabWorld(lab, detect=PATIENCE, urgent=True).start()

        async def wander() -> None:
            while True:
                for step in range(round(size.smooth_s)):
                    for source, to, _ in plan.ways:
                        lab.way(source, to).set(loss=drift(step / size.smooth_s))
                    await asyncio.sleep(1.0)

        wandering = asyncio.create_task(wander())
        try:
            with urgently():
                await _smooth(world, "drifting", size.smooth_s, found, keep)
        finally:
            wandering.cancel()


def _losing(plan: LabPlan, loss: float) -> LabPlan:
    ways = tuple((source, to, quality.but(loss=loss)) for source, to, quality in plan.ways)
    return LabPlan(plan.name, plan.sites, ways, plan.seed)


def _sent(lab: Lab) -> dict[str, int]:
    return {f"{way.source} > {way.to}": way.counts.packets for way in lab.now().ways}


def ground(lab: Lab, loss: float, size: Size) -> Ground:
    steady = probe(lab, size.probes)
    _jitter(lab, 0.05)
    jittery = probe(lab, size.probes)
    _jitter(lab, 0.0)
    with urgently():
        sent, came_off_ms, arrived = bare_stream(lab, size.floor_s)
    probes = [*steady, *jittery]
    good = sum(each.is_as_asked for each in probes)
    return Ground(
        loss,
        statistics.mean(each.loss for each in probes),
        max(each.delay_error for each in steady),
        max(each.delay_error for each in jittery),
        f"{good} of {len(probes)}",
        sent,
        arrived,
        came_off_ms,
        sum(each.delay_s for each in steady if {each.source, each.to} == {"huji", "ntu"}) * 1e3,
    )


def _jitter(lab: Lab, share: float) -> None:
    for source, to, quality in lab.plan.ways:
        lab.way(source, to).set(jitter_s=quality.wander.delay_s * share)


def bare_stream(lab: Lab, for_s: float) -> tuple[int, list[float], int]:
    """How many were sent, how far arrivals were from 100 ms apart, and how many came. Those with a loss
    between them do not count. Arrivals are stamped by the receiver's kernel; what a late sender adds is known
    from its own stamp."""
    source, to = lab.host("huji.h1"), lab.host(xpand_live.JOINER)
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
    return count, off, len(came)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.xpand_table",
        description="The Xpand paper's figures with real processes on the lab's network. Needs root.",
    )
    parser.add_argument("--quick", action="store_true", help="a first look, in some minutes")
    parser.add_argument("--seed", type=int, default=1, help="the luck of the packets")
    parser.add_argument("--into", type=Path, default=Path("report/xpand"), metavar="DIR")
    arguments = parser.parse_args()
    remarks = Console(stderr=True)
    load = os.getloadavg()[0]
    setting = f"{SETTING}; {os.cpu_count()} cores, {load:.0f} processes waiting for them at the beginning"
    found = Figures("real processes", setting, arguments.seed)
    status = 0
    with remarks.status("beginning") as progress:

        def keep(next_piece: str) -> None:
            found.excluded = list(xpand_live.excluded)
            found.write(arguments.into)
            show_progress(remarks, progress, next_piece)

        try:
            asyncio.run(measure(QUICK if arguments.quick else FULL, found, Console(), keep))
        except RostraError as error:
            remarks.print(f"error: {error.what}\n  {error.fix}", markup=False)
            status = 2
        except KeyboardInterrupt:
            remarks.print("stopped; what was measured until now is kept")
            status = 130
    if found.ground or found.continuous is not None:
        found.write(arguments.into)
        print(f"the page: {draw(arguments.into)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
