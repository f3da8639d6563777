"""What a process knows about one of its nodes, as a document for people, tools and tests."""

from typing import TYPE_CHECKING, Any

import msgspec

from rostra.protocols.links.core import Link

if TYPE_CHECKING:
    from rostra.runtime.process import Process, Resident


def document(process: "Process", resident: "Resident", core: bytes) -> dict[str, Any]:
    """`core` is what the node's core says of itself; the rest is what only the machine under it can know."""
    node = resident.node
    programs = process.programs[resident.path]
    suspected = set(programs.suspected)
    return {
        "world": process.world.name,
        "profile": process.world.profile,
        "node": resident.path,
        "incarnation": node.incarnation,
        "core": msgspec.Raw(core),
        "links": {peer: _link(process, resident, link) for peer, link in sorted(node.links.items())},
        "programs": [
            {
                "number": number,
                "program": program.name,
                "peer": program.connection.peer,
                "endpoints": sorted(program.endpoints.values()),
                "suspected": number in suspected,
                "behind": program.is_behind,
                "missed": program.missed_total,
            }
            for number, program in sorted(programs.by_number.items())
        ],
        "counters": process.record.counted(),
        "recent": list(process.record.recent),
        "forgotten": process.record.forgotten,
    }


def _link(process: "Process", resident: "Resident", link: Link) -> dict[str, Any]:
    channel = resident.channels.get(link.peer)
    evidence = link.evidence(process.now)
    return {
        "up": link.up,
        "suspected": link.suspected,
        "drained": link.drained,
        "silence_s": round(evidence.silence_s, 3),
        "phi": round(min(evidence.phi, 1e6), 2),
        "expected_s": round(evidence.expected_s, 3),
        "channel": "this process"
        if link.peer in process.residents
        else (channel.connection.peer if channel is not None else None),
        "last_evidence": resident.evidence.get(link.peer),
    }
