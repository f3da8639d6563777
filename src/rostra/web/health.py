"""Liveness, readiness and metrics, for supervisors, load balancers and Prometheus.

    GET /livez             200 if the node's own loop answers; 503 if it is stuck
    GET /readyz            200 if this host or domain is part of the world; 503 if it is cut off or leaving
    GET /readyz?verbose    the same, one line for each check
    GET /metrics           Prometheus text; every HELP says which direction is good

These are answered in a thread of their own (`beside`), which asks the node's loop for its numbers with a
short timeout.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from rostra.runtime.lag import BUCKETS_S
from rostra.runtime.vitals import NodeVitals, Vitals

LATE_S: Final = 2.0
"""A loop that has not answered for this long is not alive."""

Ask = Callable[[], Awaitable[Vitals]]
"""The node's numbers, or `TimeoutError`."""


def health(ask: Ask) -> list[BaseRoute]:
    """The routes, for an application of one's own."""

    async def livez(request: Request) -> Response:
        try:
            await ask()
        except TimeoutError:
            return _text(f"the loop has not answered for {LATE_S:g} s\n", 503)
        return _text("ok\n")

    async def readyz(request: Request) -> Response:
        try:
            checks = list(readiness(await ask()))
        except TimeoutError:
            checks = [Check("loop", False, f"has not answered for {LATE_S:g} s")]
        ready = all(check.ok for check in checks)
        if "verbose" in request.query_params:
            lines = [f"[{'+' if check.ok else '-'}] {check.name}: {check.text}" for check in checks]
            body = "\n".join([*lines, "ready" if ready else "not ready"])
        else:
            body = "ok" if ready else next(f"{c.name}: {c.text}" for c in checks if not c.ok)
        return _text(f"{body}\n", 200 if ready else 503)

    async def metrics(request: Request) -> Response:
        try:
            vitals = await ask()
        except TimeoutError:
            return _text(f"the loop has not answered for {LATE_S:g} s\n", 503)
        return Response(exposition(vitals), media_type=None, headers={"content-type": CONTENT_TYPE_LATEST})

    return [Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", metrics)]


def _text(text: str, status: int = 200) -> Response:
    return PlainTextResponse(text, status, headers={"cache-control": "no-store"})


# Readiness


class Check:
    def __init__(self, name: str, ok: bool, text: str) -> None:
        self.name, self.ok, self.text = name, ok, text


def readiness(vitals: Vitals) -> Iterator[Check]:
    """What must hold before programs are sent here. A sibling that is down is shown only; with its parent or
    cluster down, this node is not ready."""
    yield Check("loop", True, f"answers; {vitals.lag_worst_s * 1e3:.0f} ms late at worst in the last minute")
    yield Check("staying", not vitals.draining, "leaving" if vitals.draining else "not leaving")
    for node in vitals.nodes:
        yield from _node_readiness(node)


def _node_readiness(node: NodeVitals) -> Iterator[Check]:
    above = node.links["parent"]
    if above.known:
        parent = next((peer for peer in node.wanting if _is_above(peer, node)), None)
        if parent is not None:
            yield Check(f"{node.path} above", False, f"{parent} {node.wanting[parent]}")
        else:
            yield Check(f"{node.path} above", True, "up" + (", suspected" if above.suspected else ""))
    beside = {peer: why for peer, why in node.wanting.items() if not _is_above(peer, node)}
    for peer, why in beside.items():
        yield Check(f"{node.path} beside", True, f"{peer} {why}")
    if node.unsynced:
        yield Check(f"{node.path} children", True, f"{node.unsynced} still registering")


def _is_above(peer: str, node: NodeVitals) -> bool:
    return node.path.startswith(f"{peer}.") or peer == "world"


# Metrics

GOOD_LOW, GOOD_HIGH, NEITHER = "Lower is better.", "Higher is better.", "Neither direction is good or bad."

COUNTED: Final[dict[str, tuple[str, str, str]]] = {
    "event": (
        "rostra_runtime_events",
        "event",
        f"Events in the log, by name; docs/operations.md lists them. {NEITHER}",
    ),
    "ignored": (
        "rostra_resolve_ignored",
        "why",
        f"Messages and events that changed nothing, by reason. {GOOD_LOW}",
    ),
    "noted": (
        "rostra_resolve_noted",
        "what",
        f"Interest rows and collections created and dropped. {NEITHER}",
    ),
    "links_down": (
        "rostra_links_down",
        "because",
        f"Neighbours that were declared dead, by reason. {GOOD_LOW}",
    ),
    "messages_held_off": (
        "rostra_runtime_messages_held_off",
        "",
        f"Messages refused from peers whose messages made this node fail before its restart. {GOOD_LOW}",
    ),
    "links_forgotten": (
        "rostra_links_forgotten",
        "",
        f"Children that were forgotten: down for long, or evicted for others. {NEITHER}",
    ),
    "links_moved": (
        "rostra_links_moved",
        "",
        f"Failovers of a neighbour to another replica without a reported failure. {GOOD_LOW}",
    ),
    "links_suspected": (
        "rostra_links_suspicions",
        "",
        f"Neighbours that became suspected; most are heard again in time. {GOOD_LOW}",
    ),
    "refused": (
        "rostra_runtime_refused",
        "code",
        f"Incoming connections that were refused, by error code. {GOOD_LOW}",
    ),
    "callers_refused_us": (
        "rostra_runtime_refused_us",
        "code",
        f"Peers that refused our connection, by error code. {GOOD_LOW}",
    ),
    "callers_gone": (
        "rostra_runtime_callers_gone",
        "",
        f"Incoming connections that were closed before their handshake. {GOOD_LOW}",
    ),
    "callers_turned_away": (
        "rostra_runtime_callers_turned_away",
        "",
        f"Incoming connections closed for lack of room or file descriptors. {GOOD_LOW}",
    ),
    "packets_without_channel": (
        "rostra_links_packets_without_channel",
        "",
        f"Packets not sent because the connection was gone; they are retransmitted. {GOOD_LOW}",
    ),
    "datagrams_sent": (
        "rostra_runtime_datagrams_sent",
        "",
        f"Datagrams of FIFO groups that were sent. {NEITHER}",
    ),
    "datagrams_received": (
        "rostra_runtime_datagrams_received",
        "",
        f"Datagrams of FIFO groups that were received. {NEITHER}",
    ),
    "datagrams_ignored": (
        "rostra_runtime_datagrams_ignored",
        "why",
        f"Datagrams that were not sent or not accepted, by reason; losses are retransmitted. {GOOD_LOW}",
    ),
    "datagrams_dropped": (
        "rostra_runtime_datagrams_dropped",
        "",
        f"Datagrams that the kernel dropped because we did not read fast enough. {GOOD_LOW}",
    ),
    "spills_refused": (
        "rostra_runtime_spills_refused",
        "why",
        f"Parts of slow receivers' backlogs that could not be written or read, by reason. {GOOD_LOW}",
    ),
    "blocks_lent": (
        "rostra_runtime_blocks_lent",
        "",
        f"Blocks of messages passed to programs through shared memory. {GOOD_HIGH}",
    ),
    "blocks_not_lent": (
        "rostra_runtime_blocks_not_lent",
        "why",
        f"Blocks passed through sockets instead, by reason. {GOOD_LOW}",
    ),
    "arenas_made": (
        "rostra_runtime_arenas_made",
        "",
        f"Shared memory areas created for a group. {NEITHER}",
    ),
    "program_connected": (
        "rostra_runtime_programs_connected",
        "",
        f"Programs that connected. {NEITHER}",
    ),
    "program_disconnected": (
        "rostra_runtime_programs_disconnected",
        "why",
        f"Programs that the agent disconnected, by reason. {GOOD_LOW}",
    ),
    "disk_refused": (
        "rostra_runtime_disk_refused",
        "what",
        f"Writes to the state directory that failed for lack of room, by purpose. {GOOD_LOW}",
    ),
    "over_share": (
        "rostra_runtime_over_share",
        "what",
        f"Requests refused because the user's quota was exhausted, by resource. {GOOD_LOW}",
    ),
    "programs_held_back": (
        "rostra_runtime_programs_held_back",
        "",
        f"Times that programs were held back because the domain did not keep up. {GOOD_LOW}",
    ),
    "notices_missed": (
        "rostra_runtime_notices_missed",
        "",
        f"Notices dropped for programs that read too slowly. {GOOD_LOW}",
    ),
    "journal_rows_dropped": (
        "rostra_journal_rows_dropped",
        "",
        f"Journal rows dropped because the disk was too slow or failed. {GOOD_LOW}",
    ),
    "unknown": (
        "rostra_wire_unknown",
        "what",
        f"Unknown fields and messages from peers of a newer version. {GOOD_LOW}",
    ),
}
"""What is counted in `Record`, and what Prometheus calls it: the metric, its label, its help."""


class _Once(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(vitals: Vitals) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    for collect in (ProcessCollector, PlatformCollector, GCCollector):
        collect(registry=registry)
    registry.register(_Once(families(vitals)))
    return generate_latest(registry)


def families(vitals: Vitals) -> Iterator[Metric]:
    info = InfoMetricFamily("rostra_runtime", "Which process this is.")
    for node in vitals.nodes:
        role = "agent" if node.is_agent else "server"
        info.add_metric(
            (),
            {
                "node": node.path,
                "role": role,
                "world": vitals.world,
                "profile": vitals.profile,
                "incarnation": str(node.incarnation),
            },
        )
    yield info
    yield from _links(vitals)
    yield from _nodes(vitals)
    yield from _loop(vitals)
    yield from _counted(vitals)


def _links(vitals: Vitals) -> Iterator[Metric]:
    names = ("node", "relation")
    known = GaugeMetricFamily("rostra_links_known", f"Neighbours, up or not. {NEITHER}", labels=names)
    up = GaugeMetricFamily("rostra_links_up", f"Neighbours whose link is up. {GOOD_HIGH}", labels=names)
    suspected = GaugeMetricFamily(
        "rostra_links_suspected", f"Neighbours that are up and overdue. {GOOD_LOW}", labels=names
    )
    silence = GaugeMetricFamily(
        "rostra_links_silence_seconds",
        f"Longest silence of a neighbour that is up. {GOOD_LOW}",
        labels=names,
    )
    for node in vitals.nodes:
        for relation, links in node.links.items():
            labels = (node.path, relation)
            known.add_metric(labels, links.known)
            up.add_metric(labels, links.up)
            suspected.add_metric(labels, links.suspected)
            silence.add_metric(labels, links.silence_s)
    yield from (known, up, suspected, silence)


def _nodes(vitals: Vitals) -> Iterator[Metric]:
    gauges: tuple[tuple[str, str, Callable[[NodeVitals], float]], ...] = (
        (
            "rostra_resolve_groups",
            f"Groups with members or watchers here; at a server, rows of its interest table. {NEITHER}",
            lambda node: node.groups,
        ),
        ("rostra_resolve_endpoints", f"Endpoints open on this host. {NEITHER}", lambda node: node.endpoints),
        (
            "rostra_resolve_open_questions",
            f"Queries to other servers that are not answered yet. {GOOD_LOW}",
            lambda node: node.open_questions,
        ),
        (
            "rostra_resolve_children_unsynced",
            f"Children that have not announced all their groups (no SyncDone yet). {GOOD_LOW}",
            lambda node: node.unsynced,
        ),
        ("rostra_runtime_programs", f"Programs connected. {NEITHER}", lambda node: node.programs),
        (
            "rostra_runtime_programs_suspected",
            f"Programs that have not answered a ping. {GOOD_LOW}",
            lambda node: node.programs_suspected,
        ),
        (
            "rostra_runtime_programs_behind",
            f"Programs that read too slowly and will get a Gap. {GOOD_LOW}",
            lambda node: node.programs_behind,
        ),
    )
    for name, text, value in gauges:
        gauge = GaugeMetricFamily(name, text, labels=("node",))
        for node in vitals.nodes:
            gauge.add_metric((node.path,), value(node))
        yield gauge


def _loop(vitals: Vitals) -> Iterator[Metric]:
    seen, buckets = 0, []
    for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), vitals.lag_counts, strict=True):
        seen += count
        buckets.append((bound, seen))
    lag = HistogramMetricFamily(
        "rostra_runtime_loop_lag_seconds", f"How late the event loop was, four times a second. {GOOD_LOW}"
    )
    lag.add_metric((), buckets, vitals.lag_sum_s)
    yield lag
    yield GaugeMetricFamily(
        "rostra_runtime_loop_lag_worst_seconds",
        f"The worst lateness of the event loop in the last minute. {GOOD_LOW}",
        value=vitals.lag_worst_s,
    )
    yield GaugeMetricFamily(
        "rostra_runtime_loop_silence_worst_seconds",
        f"The longest time between two polls of the event loop, in the last minute. {GOOD_LOW}",
        value=vitals.silent_s,
    )
    yield GaugeMetricFamily(
        "rostra_runtime_turn_cpu_worst_seconds",
        f"The longest turn of the last minute, in processor time. {GOOD_LOW}",
        value=vitals.turn_cpu_s,
    )
    yield CounterMetricFamily(
        "rostra_runtime_turns", f"Turns of the process; under load each does more. {NEITHER}", vitals.turns
    )
    yield CounterMetricFamily(
        "rostra_runtime_events_forgotten",
        f"Events dropped from the in-memory flight recorder. {NEITHER}",
        vitals.forgotten,
    )
    yield GaugeMetricFamily(
        "rostra_runtime_draining", f"1 while the process shuts down. {GOOD_LOW}", value=float(vitals.draining)
    )


def _counted(vitals: Vitals) -> Iterator[Metric]:
    by_thing: dict[str, dict[str, int]] = {thing: {} for thing in COUNTED}
    for (thing, label), number in vitals.counters.items():
        by_thing.setdefault(thing, {})[label] = number
    for thing, numbers in by_thing.items():
        if thing not in COUNTED:
            continue  # a test sees to it that there is none
        name, label_name, text = COUNTED[thing]
        counter = CounterMetricFamily(name, text, labels=(label_name,) if label_name else ())
        for label, number in sorted(numbers.items()):
            counter.add_metric((label,) if label_name else (), number)
        if not numbers and not label_name:
            counter.add_metric((), 0)
        yield counter
