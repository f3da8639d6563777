"""What a process does with its connections when a node reports that a link changed."""

from typing import TYPE_CHECKING

from rostra.core.effects import LinkDown, LinkMoved, LinkUp
from rostra.names import Domain
from rostra.protocols.links.events import Awaited, Forgotten
from rostra.runtime.links import LINK_DOWN

if TYPE_CHECKING:
    from rostra.runtime.process import HostedNode, Process


class LinkActs:
    def __init__(self, process: "Process") -> None:
        self._process = process

    def up(self, hosted: "HostedNode", link: LinkUp | LinkMoved) -> None:
        hosted.trouble.pop(link.peer, None)
        self._process.carried_out(hosted, link)

    def down(self, hosted: "HostedNode", link: LinkDown) -> None:
        self._process.carried_out(hosted, link)
        self._end_connection(hosted, link.peer, link.because.what)

    def awaited(self, hosted: "HostedNode", link: Awaited) -> None:
        self._process.carried_out(hosted, link)
        self._end_connection(hosted, link.peer, link.what)

    def forgotten(self, hosted: "HostedNode", link: Forgotten) -> None:
        self._process.carried_out(hosted, link)
        hosted.trouble.pop(link.peer, None)
        if (channel := hosted.channels.get(link.peer)) is not None:
            channel.connection.abort("nothing was heard for long")

    def _end_connection(self, hosted: "HostedNode", peer: Domain, what: str) -> None:
        channel = hosted.channels.get(peer)
        if channel is not None and what in ("silent", "overflow"):
            # The connection may be as good as dead, and TCP would take minutes to say so. Our last words
            # still go out on it, in case the peer can hear us.
            self._process.loop.call_soon(channel.connection.close, f"{LINK_DOWN}{what}")
