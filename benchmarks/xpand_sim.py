"""The Xpand paper's figures in the simulator: the same cores in virtual time (`spec/xpand.md`, 8.2 to 8.5).

    python -m benchmarks.xpand_sim                    all of it on one core; writes report/xpand
    python -m benchmarks.xpand_sim --quick            a first look
    python -m benchmarks.xpand_sim --growth 10000     growth alone: a whole world of so many receivers

- **fast join**: how long after its snapshot a joiner at MIT hears each sender, row by row.
- **smooth join**: pairs of runs with one seed, one with joins and leaves and one without.
- **continuous**: minutes with changes beside quiet ones, while the loss drifts.
- **growth**: what travels between sites, and what is kept, as members and sites become more.

Jerusalem, Cambridge and Taipei, 115, 115 and 195 ms one way, 0.2 ms inside a site; one message per sender
every 100 ms. Loss is of data and control alike. The bounds for view synchrony are arithmetic, as the paper's.
"""

import argparse
import gc
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from msgspec import Struct
from rich.console import Console

from benchmarks.xpand_sheets import (
    PERIOD_S,
    Continuous,
    FastJoin,
    FastJoins,
    Figures,
    Grown,
    Smooth,
    bounds,
    continuous_sheet,
    distance,
    draw,
    fast_sheet,
    growth_sheet,
    show_progress,
    smooth_sheet,
    three,
)
from rostra.core.effects import Instant, Noted
from rostra.core.observer import Reporter
from rostra.groups.attributes import Role
from rostra.impair.quality import Constant, LineQuality
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.fifo.cluster import CLUSTER
from rostra.protocols.fifo.core import HOST
from rostra.protocols.fifo.events import Delivered, Gap, Item, Ready
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.links.config import LinkConfig
from rostra.sim.network import LinkModel
from rostra.sim.programs import SimProgram
from rostra.sim.world import World

G: Final = Group("table", ROOT)
ONE_WAY_S: Final = {("huji", "mit"): 0.115, ("mit", "ntu"): 0.115, ("huji", "ntu"): 0.195}
LAN: Final = LineQuality(Constant(0.0002))
TREES: Final = {
    "star": FifoConfig(root=Domain("huji")),
    "chain": FifoConfig(root=Domain("huji"), fanout=1),
}


def sites(seed: int, loss: float, config: FifoConfig, *, hosts: int = 6) -> World:
    world = World(
        seed,
        domains={"huji": hosts, "mit": 2, "ntu": 2},
        links=LinkModel(LAN, LineQuality(Constant(0.115))),
        timers=_patient(LinkConfig.wan().over_datagrams()),
        fifo=config,
        history=False,
    )
    for (a, b), delay_s in ONE_WAY_S.items():
        world.make(f"{a} | {b}", LineQuality(Constant(delay_s)))
    world.settle()
    _lose(world, loss)
    return world


def _patient(timers: LinkConfig) -> LinkConfig:
    """At a fifth lost, a link is silent for more than the profile's four seconds now and then. Joins are
    measured here, and not detection; the real processes are as patient."""
    return msgspec.structs.replace(timers, detect=msgspec.structs.replace(timers.detect, down_after_s=15.0))


def _lose(world: World, loss: float) -> None:
    for a, b in ONE_WAY_S:
        world.lose(loss, f"{a} | {b}")


# Fast join


class _Times(Reporter):
    """When a joiner's machine changed its state, and when it heard whom first."""

    def __init__(self, world: World, program: SimProgram) -> None:
        self.world, self.program = world, program
        self.asked_at = world.now
        self.states: list[tuple[float, str]] = []
        self.heard: dict[Endpoint, dict[int, float]] = {}
        self.shows = {Noted: self._noted}
        world.observe(self)
        program.conversation(G).hearer = self.hear
        self.ready_at: float | None = None

    def hear(self, at: float, item: Item) -> None:
        if isinstance(item, Ready):
            self.ready_at = at
        elif isinstance(item, Delivered):
            numbers = range(item.run.first, item.run.end)
            self.heard.setdefault(item.stream, {}).update(dict.fromkeys(numbers, at))

    def _noted(self, at: Instant, server: Domain, noted: Noted) -> None:
        if noted.what == "member is" and server == self.program.host:
            self.states.append((at, noted.about))

    @property
    def snapshot_at(self) -> float | None:
        """The list came: from then on it waits for something else."""
        after = [at for at, state in self.states if state in ("Syncing", "WaitingDelegate")]
        return after[0] if after else None

    def end(self) -> None:
        self.world.reporters.remove(self)


def fast_joins(
    seed: int, loss: float, times: int, config: FifoConfig, *, first_of_lan: bool
) -> list[FastJoin]:
    """Joins at MIT, one after the other, in one world: S1 to S4 speak at HUJI, S5 at NTU, S6 joins with J."""
    luck = Random(f"fast {seed}")
    config = msgspec.structs.replace(config, delegate_linger_s=0.5)
    world = sites(seed, loss, config)
    senders = {f"S{n + 1}": world.program(f"huji.h{n + 1}", f"s{n + 1}") for n in range(4)}
    senders["S5"] = world.program("ntu.h1", "s5")
    for program in senders.values():
        program.join_fifo(G)
    heard: dict[Endpoint, dict[int, float]] = {}
    if not first_of_lan:  # somebody who listens at MIT all the time, so that its delegate is in
        watcher = world.program("mit.h2", "m")
        watcher.join_fifo(G, role=Role.RECEIVE)

        def hear(at: float, item: Item) -> None:
            if isinstance(item, Delivered):
                numbers = range(item.run.first, item.run.end)
                heard.setdefault(item.stream, {}).update(dict.fromkeys(numbers, at))

        watcher.conversation(G).hearer = hear
    world.run(4.0)
    for program in senders.values():
        program.stream(G, PERIOD_S, phase_s=luck.random() * PERIOD_S)
    world.run(2.0)
    found: list[FastJoin] = []
    for number in range(times):
        world.run(luck.random() * PERIOD_S)
        heard.clear()
        joiner, fellow = world.program("mit.h1", f"j{number}"), world.program("huji.h5", f"f{number}")
        world.run(0.01)
        for program in (joiner, fellow):
            program.join_fifo(G)
            program.stream(G, PERIOD_S, phase_s=luck.random() * PERIOD_S)
        watch, other = _Times(world, joiner), _Times(world, fellow)
        world.run(4.0 if loss < 0.1 else 8.0)
        watch.end()
        other.end()
        snapshot, ready = watch.snapshot_at, watch.ready_at
        names = {**{p.address: name for name, p in senders.items()}, fellow.address: "S6"}
        if snapshot is not None and ready is not None and len(watch.heard) == len(names):
            first = {names[who]: (min(at.values()) - snapshot) * 1e3 for who, at in watch.heard.items()}
            fresh, excess = {}, []
            for name, program in senders.items() if heard else ():
                ours, theirs = watch.heard[program.address], heard[program.address]
                number = min(number for number, at in theirs.items() if at > ready)
                fresh[name] = (ours[number] - snapshot) * 1e3
                excess.append((ours[number] - theirs[number]) * 1e3)
            asked = (snapshot - watch.asked_at) * 1e3
            later = None if other.snapshot_at is None else (other.snapshot_at - snapshot) * 1e3
            found.append(FastJoin(asked, (ready - snapshot) * 1e3, first, fresh, excess, later))
        for program in (joiner, fellow):
            program.leave(G)
        world.run(3.0)
    return found


# Smooth join


def smooth(seed: int, loss: float | None, tree: str, *, for_s: float = 60.0) -> Smooth:
    """`loss` None: it drifts from 1 % to 20 % and back."""
    among, among_counts = _steady(seed, loss, TREES[tree], for_s, joins=True)
    alone, alone_counts = _steady(seed, loss, TREES[tree], for_s, joins=False)
    both = sorted(among.keys() & alone.keys())
    pairs = [(n - 1, n) for n in both if n - 1 in among and n - 1 in alone]
    with_joins = [(among[n] - among[m]) * 1e3 for m, n in pairs]
    without = [(alone[n] - alone[m]) * 1e3 for m, n in pairs]
    grown = max((a - b for a, b in zip(with_joins, without, strict=True)), default=float("nan"))
    more = {key: (among_counts[key] - alone_counts[key]) / 10 for key in sorted(among_counts | alone_counts)}
    return Smooth(
        tree,
        "drifting" if loss is None else f"{loss:.0%}",
        len(pairs),
        max(with_joins),
        max(without),
        grown,
        max((among[n] - alone[n]) * 1e3 for n in both),
        distance(with_joins, without),
        {key: value for key, value in more.items() if value},
        [among[n] for n in both],
        [alone[n] for n in both],
    )


def _steady(
    seed: int, loss: float | None, config: FifoConfig, for_s: float, *, joins: bool
) -> tuple[dict[int, float], Counter[str]]:
    """When each message of a sender at HUJI reached a receiver at MIT; and what travelled between sites."""
    world = sites(seed, loss or 0.0, config)
    sender, receiver = world.program("huji.h1", "sender"), world.program("mit.h1", "receiver")
    sender.join_fifo(G)
    receiver.join_fifo(G, role=Role.RECEIVE)
    world.run(5.0)
    arrivals: dict[int, float] = {}

    def hear(at: float, item: Item) -> None:
        if isinstance(item, Delivered):
            arrivals.update(dict.fromkeys(range(item.run.first, item.run.end), at))

    receiver.conversation(G).hearer = hear
    sender.stream(G, PERIOD_S, count=round(for_s / PERIOD_S))
    luck, began = Random(f"smooth {seed}"), world.now
    before = _counts(world)
    others: list[SimProgram] = []
    hosts = ("huji.h2", "huji.h3", "huji.h4", "huji.h5", "ntu.h1")
    for second in range(round(for_s)):
        if loss is None:
            _lose(world, drift(second / for_s))
        if joins and second == round(for_s / 3):
            for host in hosts:
                others.append(world.program(host, f"x{host[-1]}"))
                others[-1].join_fifo(G)
                world.run(luck.random() * 0.01)
        if joins and second == round(for_s * 2 / 3):
            for other in others:
                other.leave(G)
        world.run_until(began + second + 1)
    world.run(5.0)
    return arrivals, _counts(world) - before


def _counts(world: World) -> Counter[str]:
    """What travelled between sites so far: by way, data apart from its repairs."""
    found: Counter[str] = Counter()
    for way in world.data.ways.values():
        if way.wide:
            found[f"{way.sender} > {way.to}"] += sum(way.datagrams.values())
    return found


def drift(share: float, low: float = 0.01, high: float = 0.20) -> float:
    """Loss that rises to the middle and falls again."""
    return low + (high - low) * (1.0 - abs(2.0 * share - 1.0))


# Continuous behaviour


def continuous(seed: int, minutes: int, *, alone: bool = False) -> Continuous:
    """With `alone`, the same minutes without the changes: what is lost, and when, is the same."""
    world = sites(seed, 0.05, TREES["chain"])
    sender, receiver = world.program("huji.h1", "sender"), world.program("mit.h1", "receiver")
    sender.join_fifo(G)
    receiver.join_fifo(G, role=Role.RECEIVE)
    world.run(5.0)
    luck, began = Random(f"continuous {seed}"), world.now
    came: dict[int, float] = {}
    gaps = 0

    def hear(at: float, item: Item) -> None:
        nonlocal gaps
        if isinstance(item, Delivered):
            came.update(dict.fromkeys(range(item.run.first, item.run.end), at - began))
        gaps += isinstance(item, Gap)

    receiver.conversation(G).hearer = hear
    sender.stream(G, PERIOD_S, count=minutes * 600)
    hosts = ("huji.h2", "huji.h3", "huji.h4", "ntu.h1")
    present: dict[str, SimProgram] = {}
    changes = named = 0
    kept: Counter[str] = Counter()
    for half in range(minutes * 120):
        if half % 10 == 0:
            _lose(world, drift(luck.random(), 0.05, 0.20))
        if half // 120 % 2 == 1:
            host = luck.choice(hosts)  # also if nobody comes: luck decides on the loss too
            if alone:
                pass
            elif host in present:
                present.pop(host).leave(G)
            else:
                named += 1
                present[host] = world.program(host, f"x{named}")
                present[host].join_fifo(G)
            changes += not alone
        world.run_until(began + (half + 1) * 0.5)
        kept |= _kept(world)
    world.run(10.0)
    assert len(came) == minutes * 600, f"{len(came)} of {minutes * 600} messages came"
    intervals: dict[str, list[float]] = {"quiet": [], "changes": []}
    delays: dict[str, list[float]] = {"quiet": [], "changes": []}
    for number in range(2, minutes * 600 + 1):
        said = (number - 1) * PERIOD_S
        kind = "changes" if int(said // 60) % 2 else "quiet"
        intervals[kind].append((came[number] - came[number - 1]) * 1e3)
        delays[kind].append((came[number] - said) * 1e3)
    return Continuous(
        minutes * 60.0,
        changes,
        gaps,
        {kind: three(values) for kind, values in intervals.items() if values},
        {kind: three(values) for kind, values in delays.items() if values},
        "kept at most, in messages: " + ", ".join(f"{who} {kept[who]}" for who in sorted(kept)),
        [(came[n], (came[n] - came[n - 1]) * 1e3) for n in range(2, min(len(came), 2400))],
    )


def _kept(world: World) -> Counter[str]:
    """The most that one sender, one receiver and one delegate keep of one stream; and how many streams that
    ended, or may come back, one of them remembers."""
    found: Counter[str] = Counter()
    for process in world.processes.values():
        if (host := process.stack.find(HOST)) is not None:
            for member in host.members.get(G, {}).values():
                held = [
                    each.inbound.store.messages for each in member.senders.running.values() if each.inbound
                ]
                found["sender"] = max(found["sender"], member.sending.last_seq - member.sending.stable)
                found["receiver"] = max(found["receiver"], *held, 0)
                found["remembered"] = max(found["remembered"], len(member.senders.ended))
        elif (cluster := process.stack.find(CLUSTER)) is not None and G in cluster.groups:
            relays = cluster.groups[G].relays
            held = [each.inbound.store.messages for each in relays.running.values()]
            found["delegate"] = max(found["delegate"], *held, 0)
            found["remembered"] = max(found["remembered"], len(relays.parted))
    return found


# Growth


def grown(site_count: int, receivers: int, *, hosts: int = 4) -> Grown:
    """One sender, so many listeners spread over the sites; a hundred messages."""
    began, began_cpu = time.perf_counter(), time.process_time()
    world = World(
        1,
        domains={f"s{n + 1}": hosts for n in range(site_count)},
        links=LinkModel(LAN, LineQuality(Constant(0.04))),
        fifo=True,
        history=False,
    )
    world.settle()
    sender = world.program("s1.h1", "sender")
    sender.join_fifo(G)
    world.run(2.0)
    asked_at, ready_at = world.now, 0.0
    listeners: list[SimProgram] = []

    def hear(at: float, item: Item) -> None:
        nonlocal ready_at
        if isinstance(item, Ready):
            ready_at = at

    for number in range(receivers):
        site, host = number % site_count + 1, number // site_count % hosts + 1
        program = world.program(f"s{site}.h{host}", f"r{number}")
        program.join_fifo(G, role=Role.RECEIVE)
        program.conversation(G).hearer = hear
        listeners.append(program)
    world.run(20.0)
    assert all(program.conversation(G).state == "in" for program in listeners), "somebody is not in yet"
    gc.freeze()  # what is there stays to the end: no need to look for garbage in it again and again
    ways = [way for way in world.data.ways.values() if way.wide]
    datagrams, size = sum(sum(way.datagrams.values()) for way in ways), sum(way.bytes for way in ways)
    sender.stream(G, PERIOD_S, count=100)
    world.run(15.0)
    assert all(program.conversation(G).last == {sender.address: 100} for program in listeners), (
        "a message is missing"
    )
    ways = [way for way in world.data.ways.values() if way.wide]
    gc.unfreeze()
    delegate = world.processes[Domain("s2")].stack[CLUSTER].groups[G]
    elsewhere = [m for m in delegate.view.members if not m.endpoint.startswith("s2.")]
    return Grown(
        site_count,
        receivers,
        sum(sum(way.datagrams.values()) for way in ways) - datagrams,
        sum(way.bytes for way in ways) - size,
        len(delegate.relays.running),
        len(elsewhere),
        ready_at - asked_at,
        time.perf_counter() - began,
        time.process_time() - began_cpu,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


class Size(Struct, frozen=True):
    joins: int  # with 0 % and 1 % loss; a fifth of it with more
    losses: tuple[float, ...]
    smooth_losses: tuple[float | None, ...]
    smooth_s: float
    minutes: int
    growth: tuple[tuple[int, int], ...]


SETTING: Final = (
    "The same cores in virtual time: 115, 115 and 195 ms one way without jitter, 0.2 ms inside a site, loss "
    "of data and control alike; a tree with its root at HUJI, as a star and as the chain HUJI, MIT, NTU"
)

FULL: Final = Size(
    200,
    (0.0, 0.01, 0.05, 0.10, 0.20),
    (0.0, 0.01, 0.05, 0.10, 0.20, None),
    60.0,
    60,
    ((3, 30), (3, 300), (3, 3000), (10, 3000), (30, 3000), (10, 10_000)),
)
QUICK: Final = Size(20, (0.0, 0.01), (0.0, 0.20, None), 30.0, 4, ((3, 30), (3, 300), (6, 300)))
SMALL: Final = Size(3, (0.0,), (0.0,), 9.0, 2, ((3, 12), (3, 60)))
"""For the suite: it shows that everything works, and little else."""


def run(size: Size, found: Figures, console: Console, keep: Callable[[str], None]) -> None:
    """Piece by piece; `keep` is called before each, with what comes next."""
    seed = found.seed
    for loss in size.losses:
        for first_of_lan in (False, True):
            keep(f"fast join, {loss:.0%} loss")
            want = size.joins if loss <= 0.01 else max(3, size.joins // 5)
            joins: list[FastJoin] = []
            asked = 0
            for part in range(-(-want // 20)):
                times = min(20, want - asked)
                asked += times
                joins += fast_joins(seed + part, loss, times, TREES["star"], first_of_lan=first_of_lan)
            found.fast.append(FastJoins(loss, first_of_lan, joins, want - len(joins)))
            fast_sheet(found.fast[-1]).show(console)
    for tree in TREES:
        for loss_or_drift in size.smooth_losses:
            keep(
                f"smooth join, {tree}, {'drifting' if loss_or_drift is None else f'{loss_or_drift:.0%}'} loss"
            )
            found.smooth.append(smooth(seed, loss_or_drift, tree, for_s=size.smooth_s))
    smooth_sheet(found.smooth).show(console)
    keep("continuous behaviour")
    found.continuous = continuous(seed, size.minutes)
    continuous_sheet(found.continuous).show(console)
    for each in size.growth:
        keep(f"growth: {each[1]} listeners at {each[0]} sites")
        found.growth.append(grown(*each))
    growth_sheet(found.growth).show(console)
    console.print(bounds(found), soft_wrap=True)


def run_growth(sites: int, receivers: list[int], console: Console, remarks: Console) -> int:
    """Growth alone, the smallest world first: memory is the most that was needed until then."""
    found: list[Grown] = []
    with remarks.status("beginning") as progress:
        try:
            for each in sorted(receivers):
                show_progress(remarks, progress, f"growth: {each} listeners at {sites} sites")
                found.append(grown(sites, each))
        except KeyboardInterrupt:
            remarks.print("stopped; this is what was measured until now")
    growth_sheet(found).show(console)
    return 0 if len(found) == len(receivers) else 130


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.xpand_sim", description="The Xpand paper's figures, in the simulator."
    )
    parser.add_argument("--quick", action="store_true", help="a first look, in about two minutes")
    parser.add_argument("--seed", type=int, default=1, help="the luck of everything")
    parser.add_argument("--into", type=Path, default=Path("report/xpand"), metavar="DIR")
    parser.add_argument(
        "--growth",
        type=int,
        nargs="+",
        metavar="RECEIVERS",
        help="nothing but worlds of so many receivers: 10000 take ten minutes and 1.5 GB",
    )
    parser.add_argument("--sites", type=int, default=10, help="with --growth (10)")
    arguments = parser.parse_args()
    remarks = Console(stderr=True)
    if arguments.growth:
        return run_growth(arguments.sites, arguments.growth, Console(), remarks)
    found = Figures("simulated", SETTING, arguments.seed)
    status = 0
    with remarks.status("beginning") as progress:

        def keep(next_piece: str) -> None:
            found.write(arguments.into)
            show_progress(remarks, progress, next_piece)

        try:
            run(QUICK if arguments.quick else FULL, found, Console(), keep)
        except KeyboardInterrupt:
            remarks.print("stopped; what was measured until now is kept")
            status = 130
    found.write(arguments.into)
    print(f"the page: {draw(arguments.into)}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
