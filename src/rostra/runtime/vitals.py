"""The state of a process in numbers: a snapshot, taken on its own loop and read in other threads."""

import time
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from rostra.names import ROOT, Domain, parent
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.local import AGENT
from rostra.runtime.process import HostedNode, Process

RELATIONS: Final = ("parent", "sibling", "child")


class LinkVitals(Struct, frozen=True):
    """All links to neighbours of one relation."""

    known: int = 0
    up: int = 0
    suspected: int = 0
    silence_s: float = 0.0  # the longest, of those that are up


class NodeVitals(Struct, frozen=True):
    path: Domain
    is_agent: bool
    incarnation: int
    links: Mapping[str, LinkVitals]  # by relation
    wanting: Mapping[Domain, str]  # neighbours that should be up and are not, and why
    programs: int
    programs_suspected: int
    programs_behind: int
    groups: int  # an agent's groups, or a server's rows
    endpoints: int
    open_questions: int  # an agent's open resolves, or a server's collections
    unsynced: int


class Vitals(Struct, frozen=True):
    at: float
    world: str
    profile: str
    draining: bool
    nodes: tuple[NodeVitals, ...]
    counters: Mapping[tuple[str, str], int]
    forgotten: int
    turns: int
    lag_counts: tuple[int, ...]  # by `lag.BUCKETS_S`, and one for the rest
    lag_sum_s: float
    lag_worst_s: float
    silent_s: float  # the longest turn of the last minute, on the wall clock
    turn_cpu_s: float  # and in our own processor time


def vitals_of(process: Process) -> Vitals:
    """On the process's own loop only."""
    return Vitals(
        at=time.time(),
        world=process.world.name,
        profile=process.world.profile,
        draining=process.is_draining,
        nodes=tuple(_node(process, hosted) for hosted in process.hosted_nodes.values()),
        counters=dict(process.record.counters),
        forgotten=process.record.forgotten,
        turns=process.turn,
        lag_counts=tuple(process.lag.counts),
        lag_sum_s=process.lag.sum_s,
        lag_worst_s=process.lag.worst_s,
        silent_s=process.lag.silent_s,
        turn_cpu_s=process.lag.turn_cpu_s,
    )


def _node(process: Process, hosted: HostedNode) -> NodeVitals:
    front = process.programs[hosted.path].front
    groups = endpoints = questions = unsynced = 0
    if (agent := hosted.stack.find(AGENT)) is not None:
        groups, endpoints, questions = len(agent.groups), len(agent.endpoints), len(agent.resolves.open)
    elif (server := hosted.stack.find(SERVER)) is not None:
        groups, questions = len(server.table.rows), len(server.collections)
        unsynced = len(server.neighbours.unsynced)
    return NodeVitals(
        path=hosted.path,
        is_agent=hosted.is_agent,
        incarnation=hosted.node.incarnation,
        links=_links(process, hosted),
        wanting=_wanting(process, hosted),
        programs=len(front.by_number),
        programs_suspected=len(front.suspected),
        programs_behind=sum(program.is_behind for program in front.by_number.values()),
        groups=groups,
        endpoints=endpoints,
        open_questions=questions,
        unsynced=unsynced,
    )


def _links(process: Process, hosted: HostedNode) -> dict[str, LinkVitals]:
    known, up, suspected = (dict.fromkeys(RELATIONS, 0) for _ in range(3))
    silence_s = dict.fromkeys(RELATIONS, 0.0)
    for peer, link in hosted.node.links.items():
        relation = _relation(hosted.path, peer)
        known[relation] += 1
        if link.up:
            up[relation] += 1
            suspected[relation] += link.suspected
            silence_s[relation] = max(silence_s[relation], link.evidence(process.now).silence_s)
    return {r: LinkVitals(known[r], up[r], suspected[r], silence_s[r]) for r in RELATIONS}


def _wanting(process: Process, hosted: HostedNode) -> dict[Domain, str]:
    """The neighbours that the world file names. A host that is down is no lack: hosts come and go."""
    wanting: dict[Domain, str] = {}
    for peer, link in sorted(hosted.node.links.items()):
        if peer in process.world.servers and not link.up:
            evidence, trouble = process.node_log.evidence.get((hosted.path, peer)), hosted.trouble.get(peer)
            seen = (
                "never seen"
                if evidence is None
                else f"down, last heard {process.now - evidence.at + evidence.silence_s:.1f} s ago"
            )
            wanting[peer] = f"{seen}: {trouble}" if trouble else seen
    return wanting


def _relation(path: Domain, peer: Domain) -> str:
    if path != ROOT and parent(path) == peer:
        return "parent"
    return "child" if peer != ROOT and parent(peer) == path else "sibling"
