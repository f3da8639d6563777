"""The paper's claims about cost and recovery, one function each: run it, measure it, plot it.

The paper has no measurements. Each experiment states what it claims, and answers with a figure, a small
table, and one sentence that is computed from the numbers, so that it changes when they do.
"""

import statistics
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from matplotlib.figure import Figure
from msgspec import Struct

from benchmarks.congress_report.counts import LEVELS
from benchmarks.tally import Tally
from rostra.core.effects import Instant, LinkDown, LinkUp
from rostra.core.observer import Reporter
from rostra.names import ROOT, Domain, Group, depth, enclosing, host_of, inside, parent
from rostra.protocols.detect.config import DetectConfig
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.domain import SERVER
from rostra.sim import T_REF, WAN, Constant, LineQuality, LinkModel, SimCall, SimProgram, World, even
from rostra.sim.taps import tapped
from rostra.sim.twin import path

INK, SEA, RUST, MOSS = "#1f2a36", "#2b6f9e", "#b5542d", "#5d7f3f"


class Experiment(Struct, frozen=True):
    name: str
    title: str
    claim: str
    setting: str
    finding: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    figure: Figure


class Scale(Struct, frozen=True):
    """How much of each. `smoke` only shows that everything runs."""

    groups: int = 1_000
    subsets: int = 12
    members: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    seeds: int = 10
    depths: tuple[int, ...] = (1, 2, 3, 4)
    delays_s: tuple[float, ...] = (0.005, 0.02, 0.05, 0.1)
    fan_out: int = 10
    endpoints_per_host: int = 10
    samples: int = 100
    patience_s: tuple[float, ...] = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0)
    hours: float = 0.5

    @classmethod
    def smoke(cls) -> "Scale":
        return cls(
            groups=20,
            subsets=1,
            members=(1, 4),
            seeds=1,
            depths=(1, 2),
            delays_s=(0.02,),
            fan_out=2,
            endpoints_per_host=4,
            samples=5,
            patience_s=(2.0, 6.0),
            hours=0.05,
        )


def all_experiments() -> tuple[Callable[[Scale], Experiment], ...]:
    return (scoping, only_where_needed, memory, stateless_recovery, convergence, size, failure_sensitivity)


# E-1


def scoping(scale: Scale) -> Experiment:
    def messages(real_scopes: bool) -> dict[int, int]:
        tally, luck = Tally(), Random(1)
        world = World(1, T_REF, watching=tapped(tally), history=False).settle()
        tally.clear()
        for nth in range(scale.groups):
            scope = _scope_by_share(nth / scale.groups, luck)
            hosts = [host for host in T_REF.hosts if inside(scope, host)]
            for member in range(4):
                program = world.program(luck.choice(hosts), f"g{nth}-{member}")
                program.join(Group(f"g{nth}", scope if real_scopes else Domain("world")))
            world.run(0.05)
        world.settle()
        return {level: sum(n for (_, at), n in tally.by_depth.items() if at == level) for level in LEVELS}

    scoped, wide = messages(True), messages(False)
    figure, axes = _axes("messages", "links")
    _bars(
        axes,
        list(LEVELS.values()),
        {"real scopes": list(scoped.values()), "all world-wide": list(wide.values())},
    )
    axes.set_yscale("log")
    saved = sum(wide.values()) / sum(scoped.values())
    return Experiment(
        "E-1",
        "Scoping saves traffic",
        "A group's traffic stays inside its scope, so local groups cost nothing elsewhere (section 4.2).",
        f"{scale.groups:,} groups of 4 online members on the reference tree: 90 % cluster scope, 9 % region, "
        "1 % world; all messages caused by the joins, against the same groups with world-wide scope.",
        f"Real scopes need {saved:.1f} times fewer messages; between regions "
        f"{wide[1] / max(1, scoped[1]):.0f} times fewer.",
        ("links", "real scopes", "all world-wide", "ratio"),
        tuple(
            (LEVELS[at], f"{scoped[at]:,}", f"{wide[at]:,}", f"{wide[at] / max(1, scoped[at]):.1f}")
            for at in LEVELS
        ),
        figure,
    )


def _scope_by_share(share: float, luck: Random) -> Domain:
    cluster = luck.choice(sorted(T_REF.clusters))
    around = enclosing(cluster)
    return around[0] if share < 0.90 else around[-2] if share < 0.99 else around[-1]


# E-2


def only_where_needed(scale: Scale) -> Experiment:
    flood = len(T_REF.servers) - 2  # every other server but the root
    counts: dict[int, list[int]] = {}
    for online in range(0, len(T_REF.hosts) + 1, 2):
        counts[online] = []
        for seed in range(scale.subsets):
            tally = Tally()
            world = World(seed, T_REF, watching=tapped(tally), history=False).settle()
            listening = set(world.luck.sample(T_REF.hosts, online))
            programs = [world.program(host) for host in T_REF.hosts]
            joiner = world.program(T_REF.hosts[0], "joiner")
            world.settle()
            for program in programs:
                program.join("g@world", online=program.host in listening)
            world.settle()
            tally.clear()
            joiner.join("g@world", online=False)
            world.settle()
            counts[online].append(tally.by_kind["EndpointsJoined"])
    shares = [100 * online / len(T_REF.hosts) for online in counts]
    figure, axes = _axes("messages per join", "hosts with an online member, %")
    middle = [statistics.mean(found) for found in counts.values()]
    axes.fill_between(
        shares,
        [min(f) for f in counts.values()],
        [max(f) for f in counts.values()],
        color=SEA,
        alpha=0.2,
        lw=0,
    )
    axes.plot(shares, middle, color=SEA, marker="o", label="Rostra (mean; band: least and most)")
    axes.axhline(flood, color=RUST, ls="--", label=f"flooding: {flood}")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    half = counts[len(T_REF.hosts) // 2]
    return Experiment(
        "E-2",
        "Forward only where needed",
        "Updates travel only to servers below which somebody is online (section 5.2.1).",
        "One member on each of 16 hosts, a random part of them online; one more joins. "
        f"{scale.subsets} subsets each.",
        f"With nobody online a join costs {statistics.mean(counts[0]):.0f} messages, with half of the hosts "
        f"online {statistics.mean(half):.1f}, with all {statistics.mean(counts[len(T_REF.hosts)]):.0f}; "
        f"flooding always costs {flood}.",
        ("online hosts", "least", "mean", "most", "flooding"),
        tuple(
            (str(online), str(min(found)), f"{statistics.mean(found):.1f}", str(max(found)), str(flood))
            for online, found in counts.items()
        ),
        figure,
    )


# E-3


def memory(scale: Scale) -> Experiment:
    group_counts = (10, 20, 40)
    rows: dict[int, list[int]] = {groups: [] for groups in group_counts}
    entries: dict[int, list[int]] = {groups: [] for groups in group_counts}
    watched = Domain("eu.fr")
    for groups in group_counts:
        world = World(1, T_REF, history=False).settle()
        joined = 0
        for members in scale.members:
            for nth in range(joined, members):
                below = [host for host in T_REF.hosts if inside(watched, host)]
                program = world.program(below[nth % len(below)], f"m{nth}")
                for group in range(groups):
                    program.join(f"g{group}@world")
            joined = members
            world.settle()
            table = world.processes[watched].stack[SERVER].table
            rows[groups].append(len(table.rows))
            entries[groups].append(sum(len(row.entries) for row in table.rows.values()))
    figure, axes = _axes("rows in the table of eu.fr", "members per group inside eu.fr")
    for groups, colour in zip(group_counts, (SEA, MOSS, RUST), strict=True):
        axes.plot(scale.members, rows[groups], marker="o", color=colour, label=f"{groups} groups")
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 1.25 * max(group_counts))
    axes.legend(frameon=False, loc="upper center", ncols=len(group_counts))
    exact = all(set(found) == {groups} for groups, found in rows.items())
    neighbours = len(T_REF.neighbours(watched))
    return Experiment(
        "E-3",
        "Memory",
        "A domain server keeps one row per group with members in its domain, at most one entry per "
        "neighbour, and no member (section 5.2.2).",
        f"The table of eu.fr, which has {neighbours} neighbours, as groups grow from {scale.members[0]} to "
        f"{scale.members[-1]} members each.",
        f"Rows {'equal' if exact else 'DO NOT equal'} groups, whatever the number of members. "
        f"Entries per row: at most {max(max(entries[g]) / g for g in group_counts):.1f}.",
        ("members per group", *(f"rows / entries, {groups} groups" for groups in group_counts)),
        tuple(
            (str(members), *(f"{rows[groups][nth]} / {entries[groups][nth]}" for groups in group_counts))
            for nth, members in enumerate(scale.members)
        ),
        figure,
    )


# E-4


def stateless_recovery(scale: Scale) -> Experiment:
    servers = {Domain("eu.fr.c1"): "a cluster", Domain("eu.fr"): "a country", Domain("eu"): "a region"}
    took: dict[Domain, list[float]] = {server: [] for server in servers}
    linked: dict[Domain, list[float]] = {server: [] for server in servers}
    sent: dict[Domain, list[int]] = {server: [] for server in servers}
    for server in servers:
        for seed in range(scale.seeds):
            tally = Tally()
            ups = _Ups()
            world = World(
                seed, T_REF, links=WAN, watching=tapped(tally), history=False, observers=[ups]
            ).settle()
            programs = [world.program(host) for host in T_REF.hosts]
            world.settle()
            for program in programs:
                program.join("g@world")
            world.settle()
            everybody = tuple(sorted(program.address for program in programs))
            world.crash(server).settle()
            assert not _all_see(programs, everybody)
            assert not world.processes[server].disk
            tally.clear()
            back = world.now
            world.restart(server)
            took[server].append(_until(world, _all_see, programs, everybody) - back)
            linked[server].append(ups.up_at - back)
            world.settle()
            sent[server].append(sum(tally.by_kind.values()))
    figure, axes = _axes("seconds until all views are right", "")
    axes.boxplot(list(took.values()), tick_labels=list(servers.values()), medianprops={"color": RUST})
    axes.set_ylim(bottom=0)
    slowest = max(statistics.median(times) for times in took.values())
    return Experiment(
        "E-4",
        "Stateless recovery",
        "A domain server that restarts with an empty memory learns everything again from its neighbours; "
        "nothing is read from disk (section 5.2).",
        "16 online members; a server at each level crashes, the world settles, it restarts. Wide-area "
        f"delays, {scale.seeds} seeds, silence counts as failure after {DetectConfig().down_after_s:g} s.",
        f"All views are right again within {slowest:.2f} s (median, slowest level) of the restart. Nothing "
        "was on the server's disk.",
        ("server of", "median s", "slowest s", "last link up, median s", "messages, median"),
        tuple(
            (
                what,
                f"{statistics.median(took[server]):.2f}",
                f"{max(took[server]):.2f}",
                f"{statistics.median(linked[server]):.2f}",
                f"{statistics.median(sent[server]):.0f}",
            )
            for server, what in servers.items()
        ),
        figure,
    )


# E-5


def convergence(scale: Scale) -> Experiment:
    points: dict[str, list[tuple[float, float]]] = {"join": [], "leave": [], "failure": [], "merge": []}
    rows = []
    for levels in scale.depths:
        for delay_s in scale.delays_s:
            quality = LineQuality(Constant(delay_s))
            ups = _Ups()
            world = World(
                1, even([2] * levels + [2]), links=LinkModel(quality, quality), history=False, observers=[ups]
            ).settle()
            hosts = world.tree.hosts
            longest_s = delay_s * max(len(path(hosts[0], host)) - 1 for host in hosts)
            programs = [world.program(host) for host in hosts]
            world.settle()
            for program in programs[:-1]:
                program.join("g@world")
            world.settle()
            measured = _changes(world, programs, ups)
            for what, seconds in measured.items():
                points[what].append((longest_s, seconds))
            rows.append(
                (
                    str(levels),
                    f"{1000 * delay_s:g} ms",
                    f"{1000 * longest_s:.0f} ms",
                    *(f"{seconds / longest_s:.2f}" for seconds in measured.values()),
                )
            )
    figure, axes = _axes("seconds from the event to right views", "delay of the longest path, s")
    for (what, found), colour in zip(points.items(), (SEA, MOSS, RUST, INK), strict=True):
        found.sort()
        label = what if what != "failure" else "failure, after its detection"
        axes.plot(*zip(*found, strict=True), ls="", marker="o", color=colour, label=label, alpha=0.8)
    far = max(x for found in points.values() for x, _ in found)
    for factor in (1, 3):
        axes.plot([0, far], [0, factor * far], color=INK, lw=0.8, ls=":")
        axes.annotate(f"{factor} path delay{'s' * (factor > 1)}", (far, factor * far), fontsize=8, ha="right")
    axes.legend(frameon=False)
    within = {what: max(y / x for x, y in found) for what, found in points.items()}
    return Experiment(
        "E-5",
        "Convergence",
        "Once changes stop, all views become right (section 4.5.2): joins and leaves within one path delay, "
        "failures within one after their detection, merges within two more.",
        "Even trees of 1 to 4 levels, equal delays on all links; the farthest host joins, leaves, crashes; "
        "the top of the tree is cut and healed (counted from the moment the link is up again).",
        "In path delays: "
        + ", ".join(f"{what} {factor:.2f}" for what, factor in within.items())
        + " at most.",
        ("levels", "delay per link", "longest path", "join", "leave", "failure", "merge"),
        tuple(rows),
        figure,
    )


class _Ups(Reporter):
    """When the last link came up, and when the last was given up."""

    def __init__(self) -> None:
        self.up_at = 0.0
        self.down_at = 0.0
        self.shows = {LinkUp: self._up, LinkDown: self._down}

    def _up(self, at: Instant, server: Domain, link: LinkUp) -> None:
        if ROOT not in (link.peer, server):  # the root carries nothing
            self.up_at = at

    def _down(self, at: Instant, server: Domain, link: LinkDown) -> None:
        self.down_at = at


def _changes(world: World, programs: list[SimProgram], ups: _Ups) -> dict[str, float]:
    """How long each kind of change takes to be seen by all, in seconds."""
    *others, last = programs
    without, everybody = (tuple(sorted(p.address for p in some)) for some in (others, programs))
    measured = {}
    began = world.now
    last.join("g@world")
    measured["join"] = _until(world, _all_see, others, everybody) - began
    world.settle()
    began = world.now
    last.leave("g@world")
    measured["leave"] = _until(world, _all_see, others, without) - began
    world.settle()
    last.join("g@world")
    world.settle()
    world.crash(last.host)
    settled = _until(world, _all_see, others, without)
    measured["failure"] = settled - ups.down_at
    world.settle()
    top = next(domain for domain in world.tree.domains if depth(domain) == 1)
    world.cut(top).settle()
    world.heal()
    merged = _until(world, _all_see, others, without)
    measured["merge"] = max(0.0, merged - ups.up_at)
    return measured


# E-6


def size(scale: Scale) -> Experiment:
    tree = even([scale.fan_out] * 3)
    world = World(1, tree, links=WAN, history=False, stagger=True, wire=True)
    world.settle()
    idle_bytes, idle_from = world.bytes, world.now
    world.run(20.0)
    idle_bytes_per_s = (world.bytes - idle_bytes) / (world.now - idle_from)
    luck = Random(1)
    before, began = world.bytes, world.now
    joined: dict[Domain, int] = {}
    for nth in range(scale.endpoints_per_host):
        for host in tree.hosts:
            around = enclosing(parent(host))
            scope = around[0] if nth % 10 < 7 else around[1] if nth % 10 < 9 else around[-1]
            joined[scope] = joined.get(scope, 0) + 1
            world.program(host, f"p{nth}").join(Group(f"team-{joined[scope] // 100}", scope))
        world.run(5.0)
    world.settle()
    endpoints = len(tree.hosts) * scale.endpoints_per_host
    per_member = (world.bytes - before - idle_bytes_per_s * (world.now - began)) / endpoints
    latencies: dict[str, dict[str, list[float]]] = {"join": {}, "resolve": {}}
    for sample in range(scale.samples):
        host = luck.choice(tree.hosts)
        around = enclosing(parent(host))
        for what, scope in (("cluster", around[0]), ("region", around[1]), ("world", around[-1])):
            program = world.program(host, f"s{sample}-{what}")
            world.run(0.01)
            group = Group("team-0", scope)
            call = program.resolve(group)
            asked = world.now
            latencies["resolve"].setdefault(what, []).append(_until(world, _answered, call) - asked)
            program.join(group)
            asked = world.now
            seen = _until(world, _has_list, program, group)
            latencies["join"].setdefault(what, []).append(seen - asked)
            program.close()
            world.run(0.2)
    figure, axes = _axes("seconds", "scope of the group")
    names = [f"{what}\n{scope}" for what, scopes in latencies.items() for scope in scopes]
    axes.boxplot(
        [found for scopes in latencies.values() for found in scopes.values()],
        tick_labels=names,
        showfliers=False,
        medianprops={"color": RUST},
    )
    axes.set_ylim(bottom=0)
    return Experiment(
        "E-6",
        "Size",
        "The service suits groups that are large and far apart (sections 1 and 5).",
        f"3 levels with {scale.fan_out} children each: {len(tree.hosts):,} hosts, {endpoints:,} online "
        "endpoints in groups of a hundred; wide-area delays with a median of 40 ms per link; real bytes.",
        f"A join costs {per_member:,.0f} bytes in the whole world, and its list is there after "
        f"{1000 * statistics.median(latencies['join']['cluster']):.0f} ms in a cluster, "
        f"{1000 * statistics.median(latencies['join']['world']):.0f} ms world-wide (medians).",
        ("what", "scope", "median ms", "p95 ms"),
        tuple(
            (
                what,
                scope,
                f"{1000 * statistics.median(found):.0f}",
                f"{1000 * sorted(found)[int(0.95 * (len(found) - 1))]:.0f}",
            )
            for what, scopes in latencies.items()
            for scope, found in scopes.items()
        ),
        figure,
    )


# E-7


def failure_sensitivity(scale: Scale) -> Experiment:
    ghosts, wrongly = [], []
    for patience_s in scale.patience_s:
        share, wrong = _crashes_and_stalls(patience_s, scale.hours * 3600)
        ghosts.append(100 * share)
        wrongly.append(wrong / scale.hours)
    figure, axes = _axes(
        "% of the time a view holds an unreachable endpoint", "silence that counts as failure, s"
    )
    axes.plot(scale.patience_s, ghosts, color=SEA, marker="o", label="unreachable but listed")
    axes.set_ylim(bottom=0)
    twin = axes.twinx()
    twin.plot(scale.patience_s, wrongly, color=RUST, marker="s", label="stalled and removed, per hour")
    twin.set_ylabel("hosts removed for a stall, per hour")
    twin.set_ylim(bottom=0)
    twin.spines["top"].set_visible(False)
    figure.legend(loc="outside upper center", frameon=False, ncols=2)
    return Experiment(
        "E-7",
        "Failure sensitivity",
        "Between a failure and its detection, views hold endpoints that cannot be reached (section 1.3).",
        f"{scale.hours:g} h of the reference tree with one online member per host; every host crashes once "
        "in ten minutes on average and is away for a minute; every host stalls for up to 5 s once in five "
        "minutes.",
        f"From {scale.patience_s[0]:g} s to {scale.patience_s[-1]:g} s of patience, views are wrong "
        f"{ghosts[0]:.1f} % to {ghosts[-1]:.1f} % of the time, while hosts removed for a mere stall fall "
        f"from {wrongly[0]:.0f} to {wrongly[-1]:.0f} per hour.",
        ("patience s", "views with an unreachable endpoint, %", "stalled hosts removed per hour"),
        tuple(
            (f"{patience:g}", f"{ghost:.2f}", f"{wrong:.0f}")
            for patience, ghost, wrong in zip(scale.patience_s, ghosts, wrongly, strict=True)
        ),
        figure,
    )


def _crashes_and_stalls(patience_s: float, for_s: float) -> tuple[float, int]:
    """The share of view-time with an unreachable endpoint in it, and hosts removed for a stall."""
    detect = DetectConfig(heartbeat_interval_s=min(1.0, patience_s / 4), down_after_s=patience_s)
    world = World(7, T_REF, links=WAN, timers=LinkConfig(detect=detect).over_datagrams(), history=False)
    world.settle()
    luck, step_s = Random(7), 0.25
    programs = {host: world.program(host) for host in T_REF.hosts}
    for program in programs.values():
        program.join("g@world")
    world.settle()
    back: dict[Domain, float] = {}
    stalled: dict[Domain, float] = {}
    removed: set[Domain] = set()
    looks = wrong = removals = 0
    until = world.now + for_s
    while world.now < until:
        for host in T_REF.hosts:
            if host in back:
                if world.now >= back[host]:
                    del back[host]
                    world.restart(host)
                    programs[host] = world.program(host)
                    programs[host].join("g@world")
            elif host in stalled:
                if world.now >= stalled[host]:
                    del stalled[host]
                    removed.discard(host)
                    world.resume(host)
            elif luck.random() < step_s / 600:
                world.crash(host)
                back[host] = world.now + 60
            elif luck.random() < step_s / 300:
                world.pause(host)
                stalled[host] = world.now + luck.uniform(0.5, 5.0)
        world.run(step_s)
        for host, program in programs.items():
            if host in back or host in stalled or program.endpoint is None:
                continue
            seen = {host_of(endpoint) for endpoint in program.members("g@world")}
            looks += 1
            wrong += bool(seen & back.keys())
        for host in sorted(stalled.keys() - removed):
            cluster = world.processes[parent(host)].node
            if cluster is not None and not cluster.is_up(host):
                removed.add(host)
                removals += 1
    return wrong / max(1, looks), removals


# Shared


def _all_see(programs: Iterable[SimProgram], members: tuple[Any, ...]) -> bool:
    return all(program.members("g@world") == members for program in programs)


def _answered(call: SimCall) -> bool:
    return call.answered_at is not None


def _has_list(program: SimProgram, group: Group) -> bool:
    return bool(program.members(group))


def _until(world: World, holds: Callable[..., bool], *about: Any) -> float:
    """Run in small steps until this holds; the moment it did."""
    give_up = world.now + 120.0
    while not holds(*about):
        assert world.now < give_up, f"still not so after two minutes: {holds.__name__}"
        world.run(0.0005)
    return world.now


def _axes(y: str, x: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_ylabel(y)
    axes.set_xlabel(x)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _bars(axes: Any, names: list[str], series: dict[str, list[int]]) -> None:
    width = 0.8 / len(series)
    for nth, ((label, values), colour) in enumerate(zip(series.items(), (SEA, RUST), strict=True)):
        places = [at + (nth - (len(series) - 1) / 2) * width for at in range(len(names))]
        axes.bar(places, values, width, color=colour, label=label)
    axes.set_xticks(range(len(names)), names)
    axes.legend(frameon=False)
