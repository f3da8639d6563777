"""What the nodes of a process report about their neighbours: log lines, counters, and connections to end."""

from typing import TYPE_CHECKING, Any

from rostra.core.effects import LinkDown, LinkMoved, LinkUp
from rostra.names import Domain
from rostra.protocols.links.events import Awaited, Forgotten, LinkEvidence, Removed, Suspected, Trusted
from rostra.runtime.links import LINK_DOWN

if TYPE_CHECKING:
    from rostra.runtime.process import HostedNode, Process


class LinkReports:
    def __init__(self, process: "Process") -> None:
        self._process = process
        self._record = process.record

    def link_up(self, hosted: "HostedNode", report: LinkUp) -> None:
        hosted.evidence.pop(report.peer, None)
        hosted.trouble.pop(report.peer, None)
        met = hosted.met.get(report.peer)
        hosted.met[report.peer] = report.incarnation
        self._record.note(
            "link_up",
            node=hosted.path,
            peer=report.peer,
            incarnation=report.incarnation,
            because="first contact"
            if met is None
            else "new incarnation"
            if met != report.incarnation
            else "heard again",
        )

    def awaited(self, hosted: "HostedNode", report: Awaited) -> None:
        self._record.note("link_awaited", node=hosted.path, peer=report.peer, because=report.what)
        self._end_connection(hosted, report.peer, report.what)

    def link_moved(self, hosted: "HostedNode", report: LinkMoved) -> None:
        hosted.evidence.pop(report.peer, None)
        hosted.trouble.pop(report.peer, None)
        hosted.met[report.peer] = report.incarnation
        self._record.count("links_moved")
        self._record.note(
            "link_moved",
            node=hosted.path,
            peer=report.peer,
            incarnation=report.incarnation,
            because="another replica leads",
        )

    def link_down(self, hosted: "HostedNode", report: LinkDown) -> None:
        because = report.because
        self._record.count("links_down", because.what)
        self._record.note(
            "link_down", node=hosted.path, peer=report.peer, because=because.what, accuser=because.accuser
        )
        self._end_connection(hosted, report.peer, because.what)

    def _end_connection(self, hosted: "HostedNode", peer: Domain, what: str) -> None:
        channel = hosted.channels.get(peer)
        if channel is not None and what in ("silent", "overflow"):
            # The connection may be as good as dead, and TCP would take minutes to say so. Our last words
            # still go out on it, in case the peer can hear us.
            self._process.loop.call_soon(channel.connection.close, f"{LINK_DOWN}{what}")

    def suspected(self, hosted: "HostedNode", report: Suspected) -> None:
        hosted.evidence[report.peer] = report.evidence
        self._record.count("links_suspected")
        self._record.note(
            "link_suspected",
            node=hosted.path,
            peer=report.peer,
            because="overdue",
            **_grounds(report.evidence),
        )

    def trusted(self, hosted: "HostedNode", report: Trusted) -> None:
        hosted.evidence.pop(report.peer, None)
        self._record.note(
            "link_trusted",
            node=hosted.path,
            peer=report.peer,
            because="heard again",
            after_s=report.after_s,
        )

    def removed(self, hosted: "HostedNode", report: Removed) -> None:
        hosted.evidence[report.because.accused] = report.evidence
        self._record.note(
            "link_removed",
            node=hosted.path,
            peer=report.because.accused,
            because=report.because.what,
            **_grounds(report.evidence),
        )

    def forgotten(self, hosted: "HostedNode", report: Forgotten) -> None:
        self._record.count("links_forgotten")
        for memory in (hosted.evidence, hosted.trouble, hosted.met):
            memory.pop(report.peer, None)
        if (channel := hosted.channels.get(report.peer)) is not None:
            channel.connection.abort("nothing was heard for long")


def _grounds(evidence: LinkEvidence) -> dict[str, Any]:
    return {
        "silence_s": round(evidence.silence_s, 3),
        "expected_s": round(evidence.expected_s, 3),
        "phi": round(evidence.phi, 1),
        "down_after_s": evidence.down_after_s,
        "own_lateness_s": round(evidence.own_lateness_s, 3),
        "channel_open": evidence.channel_open,
    }
