"""The log's observer: what the nodes of a process report becomes log lines and counters.

It keeps what the next line about a neighbour needs, and the evidence behind suspicions and removals for
`inspect`.
"""

from typing import Any, Final

from rostra.core.effects import Ignored, Instant, LinkDown, LinkMoved, LinkUp, Noted
from rostra.core.observer import DiskRefused, NodeDropped, Reporter
from rostra.names import Domain, Group
from rostra.observe.log import EventLog, long_time
from rostra.protocols.agreed.observed import HostGiven, SetIsolated, ViewAgreed
from rostra.protocols.election.events import Follow, TermRefused
from rostra.protocols.led.observed import LedStanding
from rostra.protocols.links.events import Awaited, Forgotten, LinkEvidence, Removed, Suspected, Trusted


class NodeLog(Reporter):
    def __init__(self, log: EventLog) -> None:
        self.evidence: dict[tuple[Domain, Domain], LinkEvidence] = {}  # by node and peer
        self._met: dict[tuple[Domain, Domain], int] = {}  # the incarnation that it was linked with last
        self._blocked: dict[tuple[Domain, Group], str] = {}  # agreed groups whose members are, and why
        self._log = log
        self.shows = {
            Ignored: self._ignored,
            Noted: self._noted,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            LinkMoved: self._link_moved,
            Awaited: self._awaited,
            Suspected: self._suspected,
            Trusted: self._trusted,
            Removed: self._removed,
            Forgotten: self._forgotten,
            Follow: self._follow,
            TermRefused: self._term_refused,
            NodeDropped: self._dropped,
            DiskRefused: self._disk_refused,
            ViewAgreed: self._view_agreed,
            SetIsolated: self._isolated,
            LedStanding: self._led,
            HostGiven: self._given,
        }

    def _ignored(self, now: Instant, node: Domain, ignored: Ignored) -> None:
        self._log.count("ignored", ignored.why)

    def _noted(self, now: Instant, node: Domain, noted: Noted) -> None:
        self._log.count("noted", noted.what)

    # Links

    def _link_up(self, now: Instant, node: Domain, link: LinkUp) -> None:
        self.evidence.pop((node, link.peer), None)
        met = self._met.get((node, link.peer))
        self._met[node, link.peer] = link.incarnation
        self._log.note(
            "link_up",
            node=node,
            peer=link.peer,
            incarnation=link.incarnation,
            because="first contact"
            if met is None
            else "new incarnation"
            if met != link.incarnation
            else "heard again",
        )

    def _awaited(self, now: Instant, node: Domain, link: Awaited) -> None:
        self._log.note("link_awaited", node=node, peer=link.peer, because=link.what)

    def _link_moved(self, now: Instant, node: Domain, link: LinkMoved) -> None:
        self.evidence.pop((node, link.peer), None)
        self._met[node, link.peer] = link.incarnation
        self._log.count("links_moved")
        self._log.note(
            "link_moved",
            node=node,
            peer=link.peer,
            incarnation=link.incarnation,
            because="another replica leads",
        )

    def _link_down(self, now: Instant, node: Domain, link: LinkDown) -> None:
        because = link.because
        self._log.count("links_down", because.what)
        self._log.note("link_down", node=node, peer=link.peer, because=because.what, accuser=because.accuser)

    def _suspected(self, now: Instant, node: Domain, link: Suspected) -> None:
        self.evidence[node, link.peer] = link.evidence
        self._log.count("links_suspected")
        self._log.note(
            "link_suspected", node=node, peer=link.peer, because="overdue", **_grounds(link.evidence)
        )

    def _trusted(self, now: Instant, node: Domain, link: Trusted) -> None:
        self.evidence.pop((node, link.peer), None)
        self._log.note("link_trusted", node=node, peer=link.peer, because="heard again", after_s=link.after_s)

    def _removed(self, now: Instant, node: Domain, link: Removed) -> None:
        because = link.because
        self.evidence[node, because.accused] = link.evidence
        self._log.note(
            "link_removed",
            node=node,
            peer=because.accused,
            because=because.what,
            **_grounds(link.evidence),
        )

    def _forgotten(self, now: Instant, node: Domain, link: Forgotten) -> None:
        self._log.count("links_forgotten")
        self.evidence.pop((node, link.peer), None)
        self._met.pop((node, link.peer), None)

    # Replicas

    def _follow(self, now: Instant, node: Domain, order: Follow) -> None:
        self._log.note("following", node=node, leader=order.leader, term=order.term)

    def _term_refused(self, now: Instant, node: Domain, refused: TermRefused) -> None:
        self._log.note_rarely(
            f"{refused.sender} term",
            "term_refused",
            node=node,
            peer=refused.sender,
            because=f"a term {long_time(refused.ahead_ms)} ahead of our clock; set both clocks",
        )

    def _dropped(self, now: Instant, node: Domain, dropped: NodeDropped) -> None:
        self.evidence = {key: evidence for key, evidence in self.evidence.items() if key[0] != node}
        self._met = {key: incarnation for key, incarnation in self._met.items() if key[0] != node}
        self._blocked = {key: why for key, why in self._blocked.items() if key[0] != node}

    # Agreed groups: what parts them and brings them together. Joins and leaves are no lines, as elsewhere.

    def _view_agreed(self, now: Instant, node: Domain, agreed: ViewAgreed) -> None:
        if agreed.because not in _PARTING and not agreed.blocked:
            return
        self._log.note(
            "view_agreed",
            node=node,
            group=str(agreed.group),
            view=agreed.id[0],
            members=len(agreed.members),
            gone=len(agreed.left) + len(agreed.failed),
            because=agreed.because,
            lost=" ".join([each.server for each in agreed.lost]),
            noticed_by=agreed.noticed.server,
            fence=agreed.fence,
            blocked=agreed.blocked,
        )

    def _isolated(self, now: Instant, node: Domain, isolated: SetIsolated) -> None:
        server = isolated.server.server
        self._log.note("server_isolated", node=node, peer=server, set=isolated.set, because=isolated.why)

    def _given(self, now: Instant, node: Domain, given: HostGiven) -> None:
        key = (node, given.group)
        if given.blocked:
            self._blocked[key] = given.blocked
            self._log.note("members_blocked", node=node, group=str(given.group), because=given.blocked)
        elif self._blocked.pop(key, None) is not None:
            self._log.note(
                "members_live", node=node, group=str(given.group), view=given.number, fence=given.fence
            )

    def _led(self, now: Instant, node: Domain, led: LedStanding) -> None:
        """A leader that is lost, and sets that meet. Joins and leaves are no lines."""
        if led.lost is not None or led.because.startswith("another"):
            self._log.note(
                "set_leader_changed",
                node=node,
                group=str(led.group),
                standing=led.standing,
                parent=led.parent,
                lost=led.lost,
                because=led.because,
            )

    # The machine

    def _disk_refused(self, now: Instant, node: Domain, refused: DiskRefused) -> None:
        self._log.count("disk_refused", refused.what)
        self._log.note_rarely(
            f"disk {node}", "disk_refused", node=node, what=refused.what, because=refused.why
        )


_PARTING: Final = ("members failed", "servers failed", "merge")


def _grounds(evidence: LinkEvidence) -> dict[str, Any]:
    return {
        "silence_s": round(evidence.silence_s, 3),
        "expected_s": round(evidence.expected_s, 3),
        "phi": round(evidence.phi, 1),
        "down_after_s": evidence.down_after_s,
        "own_lateness_s": round(evidence.own_lateness_s, 3),
        "channel_open": evidence.channel_open,
    }
