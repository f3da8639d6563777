"""The Xpand paper's figures in the simulator: the same cores in virtual time (`spec/xpand.md`, 8.2 to 8.5).

    python -m benchmarks.xpand_sim             about ten minutes on one core; writes report/xpand/*.svg
    python -m benchmarks.xpand_sim --quick     a first look

- **fast join**: how long after its snapshot a joiner at MIT hears each sender, row by row.
- **smooth join**: pairs of runs with one seed, one with joins and leaves and one without.
- **continuous**: minutes with changes beside quiet ones, while the loss drifts.
- **growth**: what travels between sites, and what is kept, as members and sites become more.

Jerusalem, Cambridge and Taipei, 115, 115 and 195 ms one way, 0.2 ms inside a site; one message per sender
every 100 ms. Loss is of data and control alike. The bounds for view synchrony are arithmetic, as the paper's.
"""

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from benchmarks.figures import percentile
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.node import Output
from rostra.protocols.adhoc.config import AdhocConfig
from rostra.protocols.adhoc.core import ClusterCore, HostCore
from rostra.protocols.adhoc.events import Delivered, Gap, Item, Ready
from rostra.protocols.adhoc.messages import Role
from rostra.protocols.effects import Noted
from rostra.protocols.links.config import LinkConfig
from rostra.sim.network import Constant, LinkModel, Quality
from rostra.sim.programs import Program
from rostra.sim.world import World

G: Final = Group("table", ROOT)
PERIOD_S: Final = 0.1
ONE_WAY_S: Final = {("huji", "mit"): 0.115, ("mit", "ntu"): 0.115, ("huji", "ntu"): 0.195}
LAN: Final = Quality(Constant(0.0002))
TREES: Final = {
    "star": AdhocConfig(root=Domain("huji")),
    "chain": AdhocConfig(root=Domain("huji"), fanout=1),
}
PAPER_MS: Final = {"Sync_Reply": 50, "S1": 60, "S2": 60, "S3": 68, "S4": 68, "S5": 73, "S6": 253}


def sites(seed: int, loss: float, config: AdhocConfig, *, hosts: int = 6) -> World:
    world = World(
        seed,
        domains={"huji": hosts, "mit": 2, "ntu": 2},
        links=LinkModel(LAN, Quality(Constant(0.115))),
        timers=_patient(LinkConfig.wan().over_datagrams()),
        fifo=config,
        history=False,
    )
    for (a, b), delay_s in ONE_WAY_S.items():
        world.make(f"{a} | {b}", Quality(Constant(delay_s)))
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


class FastJoin(Struct, frozen=True):
    """One join, in ms after the snapshot; `asked` before it. `excess` is what J waited for its first message
    of each old sender beyond the moment at which that message reached the site anyway."""

    asked: float
    sync: float
    first: dict[str, float]
    excess: list[float]


class _Times:
    """When a joiner's machine changed its state, and when it heard whom first."""

    def __init__(self, world: World, program: Program) -> None:
        self.world, self.program = world, program
        self.asked_at = world.now
        self.states: list[tuple[float, str]] = []
        self.first: dict[Endpoint, float] = {}
        world.listeners.append(self)
        program.talk(G).hearer = self.hear
        self.ready_at: float | None = None

    def hear(self, at: float, item: Item) -> None:
        if isinstance(item, Ready):
            self.ready_at = at
        elif isinstance(item, Delivered):
            self.first.setdefault(item.stream, at)

    def told(self, *_: object) -> None: ...

    def answered(self, *_: object) -> None: ...

    def noted(self, at: float, server: Domain, what: Output) -> None:
        if isinstance(what, Noted) and what.what == "member is" and server == self.program.host:
            self.states.append((at, what.about))

    @property
    def snapshot_at(self) -> float | None:
        """The list came: from then on it waits for something else."""
        after = [at for at, state in self.states if state in ("Syncing", "WaitingDelegate")]
        return after[0] if after else None

    def end(self) -> None:
        self.world.listeners.remove(self)


def fast_joins(
    seed: int, loss: float, times: int, config: AdhocConfig, *, first_of_lan: bool
) -> list[FastJoin]:
    """Joins at MIT, one after the other, in one world: S1 to S4 speak at HUJI, S5 at NTU, S6 joins with J."""
    luck = Random(f"fast {seed}")
    config = msgspec.structs.replace(config, delegate_linger_s=0.5)
    world = sites(seed, loss, config)
    senders = {f"S{n + 1}": world.program(f"huji.h{n + 1}", f"s{n + 1}") for n in range(4)}
    senders["S5"] = world.program("ntu.h1", "s5")
    for program in senders.values():
        program.join_fifo(G)
    heard: dict[str, list[float]] = {}
    if not first_of_lan:  # somebody who listens at MIT all the time, so that its delegate is in
        watcher = world.program("mit.h2", "m")
        watcher.join_fifo(G, role=Role.RECEIVE)

        def hear(at: float, item: Item) -> None:
            if isinstance(item, Delivered):
                heard.setdefault(item.stream, []).append(at)

        watcher.talk(G).hearer = hear
    world.run(4.0)
    for program in senders.values():
        program.stream(G, PERIOD_S, phase_s=luck.random() * PERIOD_S)
    world.run(2.0)
    found: list[FastJoin] = []
    for number in range(times):
        world.run(luck.random() * PERIOD_S)
        joiner, fellow = world.program("mit.h1", f"j{number}"), world.program("huji.h5", f"f{number}")
        world.run(0.01)
        for program in (joiner, fellow):
            program.join_fifo(G)
            program.stream(G, PERIOD_S, phase_s=luck.random() * PERIOD_S)
        watch = _Times(world, joiner)
        world.run(4.0 if loss < 0.1 else 8.0)
        watch.end()
        snapshot, ready = watch.snapshot_at, watch.ready_at
        names = {**{p.address: name for name, p in senders.items()}, fellow.address: "S6"}
        if snapshot is not None and ready is not None and len(watch.first) == len(names):
            first = {names[who]: (at - snapshot) * 1e3 for who, at in watch.first.items()}
            excess = [
                max(0.0, watch.first[p.address] - min(at for at in heard[p.address] if at > ready - 1e-4))
                * 1e3
                for p in senders.values()
                if p.address in heard
            ]
            asked = (snapshot - watch.asked_at) * 1e3
            found.append(FastJoin(asked, (ready - snapshot) * 1e3, first, excess))
        for program in (joiner, fellow):
            program.leave(G)
        world.run(3.0)
        heard.clear()
    return found


# Smooth join


class Smooth(Struct, frozen=True):
    tree: str
    loss: str
    intervals: int
    longest_ms: float  # with joins
    longest_alone_ms: float
    grown_ms: float  # the most by which one interval grew
    later_ms: float  # the most by which one message came later
    distance: float  # the largest difference of the two cumulative curves
    per_change: dict[str, float]  # datagrams and packets more per change, by way
    arrivals: list[float]
    alone: list[float]


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
    seed: int, loss: float | None, config: AdhocConfig, for_s: float, *, joins: bool
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

    receiver.talk(G).hearer = hear
    sender.stream(G, PERIOD_S, count=round(for_s / PERIOD_S))
    luck, began = Random(f"smooth {seed}"), world.now
    before = _counts(world)
    others: list[Program] = []
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


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest difference of two cumulative curves (Kolmogorov and Smirnov). Values that differ by less
    than the clock's own rounding are the same."""
    one, other = sorted(round(x, 3) for x in one), sorted(round(x, 3) for x in other)
    worst, i, j = 0.0, 0, 0
    for value in sorted({*one, *other}):
        while i < len(one) and one[i] <= value:
            i += 1
        while j < len(other) and other[j] <= value:
            j += 1
        worst = max(worst, abs(i / len(one) - j / len(other)))
    return worst


# Continuous behaviour


class Continuous(Struct, frozen=True):
    virtual_s: float
    changes: int
    gaps: int
    interval_ms: dict[str, tuple[float, float, float]]  # quiet, busy: p50, p95, p99
    delay_ms: dict[str, tuple[float, float, float]]
    kept_most: int  # messages kept by the sender
    arrivals: list[tuple[float, float]]  # when, interval in ms


def continuous(seed: int, minutes: int) -> Continuous:
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

    receiver.talk(G).hearer = hear
    sender.stream(G, PERIOD_S, count=minutes * 600)
    hosts = ("huji.h2", "huji.h3", "huji.h4", "ntu.h1")
    present: dict[str, Program] = {}
    changes = named = kept = 0
    door = world.processes[Domain("huji.h1")].door
    assert isinstance(door, HostCore)
    for half in range(minutes * 120):
        if half % 10 == 0:
            _lose(world, drift(luck.random(), 0.05, 0.20))
        if half // 120 % 2 == 1:
            host = luck.choice(hosts)
            if host in present:
                present.pop(host).leave(G)
            else:
                named += 1
                present[host] = world.program(host, f"x{named}")
                present[host].join_fifo(G)
            changes += 1
        world.run_until(began + (half + 1) * 0.5)
        sending = door.members[G][sender.address].sending
        kept = max(kept, sending.last_seq - sending.stable)
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
        {kind: _three(values) for kind, values in intervals.items() if values},
        {kind: _three(values) for kind, values in delays.items() if values},
        kept,
        [(came[n], (came[n] - came[n - 1]) * 1e3) for n in range(2, min(len(came), 2400))],
    )


def _three(values: Sequence[float]) -> tuple[float, float, float]:
    return (percentile(values, 0.5), percentile(values, 0.95), percentile(values, 0.99))


# Growth


class Grown(Struct, frozen=True):
    sites: int
    receivers: int
    wan_datagrams: int  # for a hundred messages, beyond the joins
    wan_bytes: int
    delegate_pins: int  # kept by a delegate, per sender: its own LAN's receivers, and other LANs
    delegate_members: int  # members elsewhere that it knows of
    joined_s: float  # virtual, until the last receiver was ready
    took_s: float  # real


def grown(site_count: int, receivers: int, *, hosts: int = 4) -> Grown:
    """One sender, so many listeners spread over the sites; a hundred messages."""
    began = time.perf_counter()
    world = World(
        1,
        domains={f"s{n + 1}": hosts for n in range(site_count)},
        links=LinkModel(LAN, Quality(Constant(0.04))),
        fifo=True,
        history=False,
    )
    world.settle()
    sender = world.program("s1.h1", "sender")
    sender.join_fifo(G)
    world.run(2.0)
    asked_at, ready_at = world.now, 0.0
    listeners: list[Program] = []

    def hear(at: float, item: Item) -> None:
        nonlocal ready_at
        if isinstance(item, Ready):
            ready_at = at

    for number in range(receivers):
        site, host = number % site_count + 1, number // site_count % hosts + 1
        program = world.program(f"s{site}.h{host}", f"r{number}")
        program.join_fifo(G, role=Role.RECEIVE)
        program.talk(G).hearer = hear
        listeners.append(program)
    world.run(20.0)
    assert all(program.talk(G).state == "in" for program in listeners), "somebody is not in yet"
    ways = [way for way in world.data.ways.values() if way.wide]
    datagrams, size = sum(sum(way.datagrams.values()) for way in ways), sum(way.bytes for way in ways)
    sender.stream(G, PERIOD_S, count=100)
    world.run(15.0)
    assert all(program.talk(G).last == {sender.address: 100} for program in listeners), "a message is missing"
    ways = [way for way in world.data.ways.values() if way.wide]
    door = world.processes[Domain("s2")].door
    assert isinstance(door, ClusterCore)
    delegate = door.groups[G]
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
    )


# Tables


def show_fast(console: Console, title: str, joins: Sequence[FastJoin], *, judged: bool) -> None:
    table = _table(title, "event at J", "paper", "median", "p95", "accept if", "verdict", left=1)
    sync = [join.sync for join in joins]
    asked = statistics.median(join.asked for join in joins)
    table.add_row("snapshot", "T = 0", "T = 0", "", f"asked {asked:.0f} ms before", "")
    bar = 50.0 if judged else None
    table.add_row("Sync_Reply", "T + 50", *_two(sync), "≤ 50" if bar else "reported", _verdict(sync, bar))
    for name in ("S1", "S2", "S3", "S4", "S5", "S6"):
        values = [join.first[name] for join in joins]
        if name == "S6":
            limit, words = 353.0, "≤ 253 + 100"
        else:
            limit, words = statistics.median(sync) + 100.0, "≤ Sync_Reply + 100"
        bound = limit if judged else None
        accept = words if judged else "reported"
        table.add_row(
            f"first from {name}", f"T + {PAPER_MS[name]}", *_two(values), accept, _verdict(values, bound)
        )
    console.print(table)
    after = [join.first[name] - join.sync for join in joins for name in ("S1", "S2", "S3", "S4", "S5")]
    uniform = [PERIOD_S * 1e3 * (n + 0.5) / len(after) for n in range(len(after))]
    apart = distance(after, uniform)
    remark = f"first message after Sync_Reply: distance to the uniform law of the period {apart:.3f}"
    excess = [value for join in joins for value in join.excess]
    if excess:
        most = max(excess)
        remark += (
            f"; excess over the sender's phase: median {statistics.median(excess):.2f}, most {most:.2f} ms"
        )
    console.print(remark, soft_wrap=True)


def show_smooth(console: Console, found: Iterable[Smooth]) -> None:
    table = _table(
        "smooth join: HUJI to MIT, five join at 20 s and leave at 40 s, beside the same run without",
        *("tree", "loss", "intervals", "longest", "alone", "grew by", "later by", "distance", "verdict"),
        left=2,
    )
    for one in found:
        even = max(abs(one.longest_ms - 100.0), 0.0) <= 2.0 if one.loss == "0%" else one.distance < 0.02
        kept = one.grown_ms <= 5.0 and even
        table.add_row(
            one.tree,
            one.loss,
            str(one.intervals),
            f"{one.longest_ms:.1f}",
            f"{one.longest_alone_ms:.1f}",
            f"{one.grown_ms:.1f}",
            f"{one.later_ms:.1f}",
            f"{one.distance:.3f}",
            "yes" if kept else "NO, but none later" if one.later_ms <= 5.0 else "NO",
        )
    console.print(table)
    console.print(
        "an interval can also grow because the message before came earlier: with NTU in the group, MIT is "
        "sometimes repaired from there before HUJI's repair arrives",
        soft_wrap=True,
    )


def show_continuous(console: Console, one: Continuous) -> None:
    table = _table(
        f"continuous: {one.virtual_s / 60:.0f} minutes, {one.changes} changes, loss 5 to 20 %",
        *("ms", "quiet p50", "p95", "p99", "changes p50", "p95", "p99", "most apart"),
        left=1,
    )
    for name, values in (("interval", one.interval_ms), ("delay", one.delay_ms)):
        quiet, busy = values["quiet"], values["changes"]
        apart = max(abs(b / q - 1.0) for q, b in zip(quiet, busy, strict=True) if q > 0.01)
        table.add_row(name, *(f"{x:.0f}" for x in (*quiet, *busy)), f"{apart:.1%}")
    console.print(table)
    console.print(f"gaps: {one.gaps}; the sender kept at most {one.kept_most} messages", soft_wrap=True)


def show_growth(console: Console, found: Iterable[Grown]) -> None:
    table = _table(
        "growth: one sender, 100 messages",
        *("sites", "receivers", "datagrams between sites", "bytes", "streams at a delegate"),
        *("members elsewhere it knows", "last one in after s", "took s"),
    )
    for one in found:
        table.add_row(
            *(str(one.sites), str(one.receivers), str(one.wan_datagrams), str(one.wan_bytes)),
            *(str(one.delegate_pins), str(one.delegate_members), f"{one.joined_s:.2f}", f"{one.took_s:.0f}"),
        )
    console.print(table)


def _table(title: str, *columns: str, left: int = 0) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < left else "right")
    return table


def _two(values: Sequence[float]) -> tuple[str, str]:
    return f"{statistics.median(values):.1f}", f"{percentile(values, 0.95):.1f}"


def _verdict(values: Sequence[float], bound: float | None) -> str:
    return "" if bound is None else "yes" if statistics.median(values) <= bound else "NO"


# Pictures


def plot(
    title: str, x: str, y: str, curves: Mapping[str, Sequence[tuple[float, float]]], *, line: bool
) -> str:
    """A small picture, as text."""
    points = [point for curve in curves.values() for point in curve]
    left, right = min(p[0] for p in points), max(p[0] for p in points)
    top = max(p[1] for p in points) * 1.05 or 1.0
    width, height, edge = 720, 320, 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12"><rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{edge}" y="18" font-size="14">{title}</text>',
        f'<text x="{width / 2}" y="{height - 8}" text-anchor="middle">{x}</text>',
        f'<text x="14" y="{height // 2}" transform="rotate(-90 14 {height // 2})">{y}</text>',
    ]

    def place(point: tuple[float, float]) -> str:
        across = edge + (point[0] - left) / ((right - left) or 1.0) * (width - 2 * edge)
        return f"{across:.1f},{height - edge + 10 - point[1] / top * (height - 2 * edge):.1f}"

    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        at_y = place((left, top * share)).split(",")[1]
        at_x = place((left + (right - left) * share, 0)).split(",")[0]
        parts.append(f'<line x1="{edge}" x2="{width - edge}" y1="{at_y}" y2="{at_y}" stroke="#ddd"/>')
        parts.append(f'<text x="{edge - 6}" y="{at_y}" text-anchor="end">{top * share:.0f}</text>')
        words = f"{left + (right - left) * share:.0f}"
        parts.append(f'<text x="{at_x}" y="{height - edge + 26}" text-anchor="middle">{words}</text>')
    for number, (name, curve) in enumerate(curves.items()):
        colour = ("#1f6f8b", "#c8553d", "#5b8c5a")[number % 3]
        where = [place(point) for point in curve]
        if line:
            parts.append(f'<polyline points="{" ".join(where)}" fill="none" stroke="{colour}"/>')
        else:
            dots = "".join(f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="1.6"/>' for p in where)
            parts.append(f'<g fill="{colour}" fill-opacity="0.6">{dots}</g>')
        parts.append(
            f'<text x="{width - edge}" y="{18 + 16 * number}" text-anchor="end" fill="{colour}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>\n"])


class Size(Struct, frozen=True):
    joins: int  # with 0 % and 1 % loss; a fifth of it with more
    losses: tuple[float, ...]
    smooth_losses: tuple[float | None, ...]
    smooth_s: float
    minutes: int
    growth: tuple[tuple[int, int], ...]


FULL: Final = Size(
    200,
    (0.0, 0.01, 0.05, 0.10, 0.20),
    (0.0, 0.01, 0.05, 0.10, 0.20, None),
    60.0,
    60,
    ((3, 30), (3, 300), (3, 3000), (3, 10_000), (10, 3000), (30, 3000)),
)
QUICK: Final = Size(20, (0.0, 0.01), (0.0, 0.20, None), 30.0, 4, ((3, 30), (3, 300), (6, 300)))
SMALL: Final = Size(3, (0.0,), (0.0,), 9.0, 2, ((3, 12), (3, 60)))
"""For the suite: it shows that everything works, and little else."""


def run(size: Size, seed: int, console: Console, say: Callable[[str], None], pictures: Path | None) -> None:
    first_row: list[FastJoin] = []
    for loss in size.losses:
        for first_of_lan in (False, True):
            say(f"fast join, {loss:.0%} loss")
            want = size.joins if loss <= 0.01 else max(3, size.joins // 5)
            joins: list[FastJoin] = []
            for part in range(-(-want // 20)):
                times = min(20, want - len(joins))
                joins += fast_joins(seed + part, loss, times, TREES["star"], first_of_lan=first_of_lan)
            where = "J first of its LAN" if first_of_lan else "MIT's delegate already in"
            title = f"fast join, {loss:.0%} loss, {where}: {len(joins)} joins, ms after the snapshot"
            # The bars are for 1 %: with more, a first message is often one that has to be repaired.
            show_fast(console, title, joins, judged=not first_of_lan and loss <= 0.01)
            if not first_row or (loss == 0.01 and not first_of_lan):
                first_row = joins
    say("smooth join")
    smooths = [smooth(seed, loss, tree, for_s=size.smooth_s) for tree in TREES for loss in size.smooth_losses]
    show_smooth(console, smooths)
    for one in smooths[:1]:
        more = ", ".join(f"{key} {value:+.1f}" for key, value in one.per_change.items())
        console.print(f"datagrams more per join or leave, without loss: {more or 'none'}", soft_wrap=True)
    say("continuous behaviour")
    steady = continuous(seed, size.minutes)
    show_continuous(console, steady)
    say("growth")
    show_growth(console, [grown(*each) for each in size.growth])
    console.print(
        "view synchrony, arithmetic on the farthest pair's 390 ms: the first message after a join not before "
        "585 ms (with its coordinator at MIT 345), a pause of at least 390 ms (230) at every view change; "
        "ours: the rows above",
        soft_wrap=True,
    )
    if pictures is not None:
        draw(pictures, first_row, smooths, steady)


def draw(at: Path, joins: Sequence[FastJoin], smooths: Sequence[Smooth], steady: Continuous) -> None:
    at.mkdir(parents=True, exist_ok=True)
    rows = ("S1", "S2", "S3", "S4", "S5", "S6")
    cumulative = {}
    for name in rows[:1] + rows[4:]:
        values = sorted(join.first[name] for join in joins)
        cumulative[name] = [(value, 100.0 * (n + 1) / len(values)) for n, value in enumerate(values)]
    title = "Figure 9(a): the first message after the snapshot"
    (at / "fast-join.svg").write_text(
        plot(title, "ms after the snapshot", "% of joins", cumulative, line=True)
    )
    worst = smooths[min(len(smooths) - 1, 4)]
    curves = {
        "with joins": [(b - worst.arrivals[0], (b - a) * 1e3) for a, b in pairwise(worst.arrivals)],
        "alone": [(b - worst.alone[0], (b - a) * 1e3) for a, b in pairwise(worst.alone)],
    }
    title = f"Figure 9(b): intervals at MIT, {worst.loss} loss"
    (at / "smooth-join.svg").write_text(plot(title, "s", "ms", curves, line=False))
    quiet = [p for p in steady.arrivals if int(p[0] // 60) % 2 == 0]
    busy = [p for p in steady.arrivals if int(p[0] // 60) % 2]
    title = "Figure 8(b): intervals at MIT, minutes with and without changes"
    picture = plot(title, "s", "ms", {"quiet": quiet, "changes": busy}, line=False)
    (at / "continuous.svg").write_text(picture)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.xpand_sim", description="The Xpand paper's figures, in the simulator."
    )
    parser.add_argument("--quick", action="store_true", help="a first look, in about two minutes")
    parser.add_argument("--seed", type=int, default=1, help="the luck of everything")
    parser.add_argument("--pictures", type=Path, default=Path("report/xpand"), metavar="DIR")
    arguments = parser.parse_args()
    remarks = Console(stderr=True)
    try:
        with remarks.status("beginning") as status:
            size = QUICK if arguments.quick else FULL
            run(size, arguments.seed, Console(), status.update, arguments.pictures)
    except KeyboardInterrupt:
        return 130
    print(f"pictures: {arguments.pictures}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
