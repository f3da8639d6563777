"""What a process knows about one of its nodes, as a document for people, tools and tests.

A request may wait for news (long polling): it is answered shortly after the next event is recorded, so that a
burst of events is one document.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from rostra.core.stack import Stack
from rostra.groups.attributes import Role
from rostra.names import domain_of_replica
from rostra.protocols.fifo.cluster import CLUSTER
from rostra.protocols.fifo.core import HOST
from rostra.protocols.fifo.member import MemberCore
from rostra.protocols.fifo.submitter import Submitter
from rostra.protocols.flow.messages import Range
from rostra.protocols.links.core import Link
from rostra.runtime.agreed_state import agreed_document
from rostra.runtime.led_state import led_document, names_registered
from rostra.runtime.order_state import orders_document

if TYPE_CHECKING:
    from rostra.runtime.process import HostedNode, Process

GATHER_S: Final = 0.05
"""From an event to the answers that waited for it. Raising it: fewer and larger documents, later news."""

SPELT_OUT_MAX: Final = 16
"""Members of a host that share what they receive: up to so many, it is spelt out for each. Raising it: larger
documents, with the square of it."""


class InspectPatience:
    """Questions that wait for something to be recorded: one of each asker, for its own time at most."""

    def __init__(self, process: "Process") -> None:
        self._loop = process.loop
        self._waiting: dict[object, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}
        self._gathering = False
        process.record.on_note = self._recorded

    def wait(self, asker: object, at_most_s: float, ask: Callable[[], None]) -> None:
        self._ask(asker)  # an earlier question of the same asker waits no longer
        self._waiting[asker] = (self._loop.call_later(at_most_s, self._ask, asker), ask)

    def _recorded(self) -> None:
        if self._waiting and not self._gathering:
            self._gathering = True
            self._loop.call_later(GATHER_S, self._gathered)

    def _gathered(self) -> None:
        self._gathering = False
        for asker in list(self._waiting):
            self._ask(asker)

    def _ask(self, asker: object) -> None:
        if asker in self._waiting:
            timer, ask = self._waiting.pop(asker)
            timer.cancel()
            ask()


def document(process: "Process", hosted: "HostedNode", core: bytes, after: int) -> dict[str, Any]:
    """`core` is the document of the node's services; the rest is what only the process knows."""
    node = hosted.node
    programs = process.programs[hosted.path]
    watching = programs.front.watching
    suspected = set(programs.front.suspected)
    return {
        "world": process.world.name,
        "profile": process.world.profile,
        "node": hosted.path,
        "nodes": [
            path for path in process.hosted_nodes if domain_of_replica(path) is None
        ],  # of this process
        "incarnation": node.incarnation,
        "http": process.http,
        "servers": {domain: str(address) for domain, address in process.world.servers.items()},
        "replicas": {domain: list(map(str, at)) for domain, at in process.world.replicas.items()},
        "core": msgspec.Raw(core),
        "data": process.data.document(hosted),
        "streams": _streams(node.stack),
        "agreed": agreed_document(node.stack),
        "orders": orders_document(node.stack),
        "led": led_document(node.stack, process.now),
        "led_names": names_registered(node.stack),
        "submitted": _submitted(node.stack),
        "messages_sent": node.messages_sent,
        "links": {peer: _link(process, hosted, link) for peer, link in sorted(node.links.items())},
        "programs": [
            {
                "number": number,
                "program": program.name,
                "peer": program.link.peer,
                "endpoints": sorted(program.endpoints.values()),
                "suspected": number in suspected,
                "behind": program.is_behind,
                "missed": program.missed_total,
            }
            for number, program in sorted(programs.front.by_number.items())
        ],
        "watches": {} if watching is None else watching.watches.document(),
        "loop": {
            "silent_ms": round(process.lag.silent_s * 1e3, 1),
            "turn_cpu_ms": round(process.lag.turn_cpu_s * 1e3, 1),
        },
        "counters": process.record.counted(),
        "recent": process.record.since(after),
        "recorded": process.record.recorded,  # the number of the last of these
        "forgotten": process.record.forgotten,
    }


def _streams(stack: Stack) -> list[dict[str, Any]]:
    """What members of this host sent and received in groups with delivery, and what submitters sent.
    Numbers count from a stream's 1."""
    if (host := stack.find(HOST)) is None:
        return []
    members = [each for those in host.members.values() for each in those.values()]
    submitters = [each for those in host.submitters.values() for each in those.values()]
    speaking: list[tuple[MemberCore | Submitter, Role, bool, dict[str, Any]]] = [
        *[(each, each.role, each.paused, _hears(each)) for each in members],
        *[(each, Role.SUBMIT, False, {}) for each in submitters],
    ]
    return [
        {
            "group": str(each.group),
            "member": each.me,
            "role": role.value,
            "paused": paused,  # its program does not read
            "sent": each.sending.last_seq,
            "confirmed": each.sending.stable,  # every receiver has these
            "waiting": each.sending.queued,  # for room in the window
            "blocked": each.sending.blocked,
            "hears": hears,
        }
        for each, role, paused, hears in sorted(speaking, key=lambda one: (one[0].group, one[0].me))
    ]


def _hears(member: MemberCore) -> dict[str, Any]:
    """Members that share a reception: the first one reports it for all of them."""
    reception = member.reception
    if len(reception.members) > SPELT_OUT_MAX and reception.context.speaks_as != member.me:
        return {}
    return {
        stream: {
            "first": sender.inbound.start,
            "next": sender.inbound.told,  # to be handed to the program
            "emitted": sender.inbound.high,  # as far as is known here
            "missing": _size_of(sender.inbound.missing(member.config.held_messages)),
            "repaired": sender.repaired,
        }
        for stream, sender in sorted(member.senders.running.items())
    }


def _submitted(stack: Stack) -> list[dict[str, Any]]:
    """For which submitters the delegate of this cluster sends, by group: numbers are the origins' own."""
    if (cluster := stack.find(CLUSTER)) is None:
        return []
    return [
        {
            "group": str(group),
            "aggregate": aggregate.me,
            "in_group": aggregate.member is not None,
            "origins": {
                who: {
                    "taken": origin.inbound.next - 1,
                    "emitted": origin.inbound.told - 1,
                    "confirmed": origin.acknowledged,  # every receiver has these
                    "missing": _size_of(origin.inbound.missing(cluster.config.held_messages)),
                }
                for who, origin in sorted(aggregate.origins.items())
            },
        }
        for group, aggregate in sorted(cluster.aggregates.items())
    ]


def _size_of(ranges: list[Range]) -> int:
    return sum([last - first + 1 for first, last in ranges])


def _link(process: "Process", hosted: "HostedNode", link: Link) -> dict[str, Any]:
    channel = hosted.channels.get(link.peer)
    evidence = link.evidence(process.now)
    return {
        "up": link.up,
        "suspected": link.suspected,
        "drained": link.drained,
        "silence_s": round(evidence.silence_s, 3),
        "heard_s": None if link.arrived_at is None else round(process.now - link.arrived_at, 3),
        "phi": round(min(evidence.phi, 1e6), 2),
        "expected_s": round(evidence.expected_s, 3),
        "channel": "this process"
        if link.peer in process.hosted_nodes
        else (channel.connection.peer if channel is not None else None),
        "last_evidence": process.node_log.evidence.get((hosted.path, link.peer)),
        "trouble": hosted.trouble.get(link.peer),
    }
