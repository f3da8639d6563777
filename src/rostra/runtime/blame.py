"""A peer whose message made a node fail is held off after the restart, for longer each time.

    a step fails on a peer's message ──▶ the peer's name to the log and to disk; the process ends
    the next life begins             ──▶ that peer is held off for 1 s, then 2 s, 4 s, ... at most 10 min

A node that could not finish a step must stop. If the peer then sent the same message again, the node would
crash in a loop and take its other neighbours with it; they are served meanwhile. A peer that was let in again
and caused no failure for ten minutes is forgiven. Without a state directory only the log has the name.
"""

import contextlib
from typing import TYPE_CHECKING, Final

from rostra.core.effects import Event
from rostra.errors import StoreFailed
from rostra.names import Domain
from rostra.protocols.fifo.events import Heard
from rostra.protocols.links.events import PacketArrived

if TYPE_CHECKING:
    from rostra.runtime.process import HostedNode, Process

FIRST_S: Final = 1.0
MOST_S: Final = 600.0
DOUBLINGS_MAX: Final = 16  # far above what it takes to get from the first to the most


def held_off_s(times: int) -> float:
    """After so many failures."""
    return min(FIRST_S * 2.0 ** min(times - 1, DOUBLINGS_MAX), MOST_S)


class Blame:
    """The peers that the nodes of one process hold off, and until when."""

    def __init__(self, process: "Process") -> None:
        self._process = process
        self._began = process.loop.time()
        self.until: dict[tuple[Domain, Domain], float] = {}  # by node and peer: none, nearly always

    def remember(self, hosted: "HostedNode") -> None:
        """A node begins: with what an earlier life of it wrote down."""
        for peer, times in hosted.store.blamed().items():
            for_s = held_off_s(times)
            until = self.until[hosted.path, peer] = self._began + for_s
            if until > self._process.loop.time():
                why = f"a message of it made {hosted.path} fail, {times} times"
                hosted.trouble[peer] = f"held off for {for_s:g} s: {why}"
                self._process.record.note("held_off", node=hosted.path, peer=peer, for_s=for_s, because=why)

    def left_s(self, node: Domain, peer: Domain) -> float:
        """How long nothing of this peer is taken yet; nearly always 0."""
        until = self.until.get((node, peer)) if self.until else None
        return 0.0 if until is None else max(0.0, until - self._process.loop.time())

    def holds_off(self, node: Domain, event: Event) -> bool:
        peer = _sender(event)
        return peer is not None and self.left_s(node, peer) > 0

    def failed(self, hosted: "HostedNode", event: Event, error: Exception) -> None:
        """Before the process ends: say, and write down, whose message it was."""
        peer = _sender(event)
        if peer is None or peer in self._process.hosted_nodes or isinstance(error, StoreFailed):
            return  # a full disk is the fault of no peer
        with contextlib.suppress(StoreFailed):
            hosted.store.blame(peer)
        self._process.record.note(
            "blamed", node=hosted.path, peer=peer, because=f"{type(error).__name__}: {error}"
        )

    def tick(self) -> None:
        """Forgive peers that caused no failure for long."""
        now = self._process.loop.time()
        for (node, peer), until in list(self.until.items()):
            if now > until + MOST_S:
                del self.until[node, peer]
                if (hosted := self._process.hosted_nodes.get(node)) is not None:
                    with contextlib.suppress(StoreFailed):
                        hosted.store.forgive(peer)


def _sender(event: Event) -> Domain | None:
    match event:
        case PacketArrived(peer) | Heard(source=peer):
            return peer
    return None
