"""Frames from one host to several others over the links of the servers, beyond the reach of a LAN's
datagrams.

    agent ── one frame ──▶ its server ──┬──▶ a host of its LAN
                                        └──▶ another server ──┬──▶ ...
                                                              └──▶ ...

A server copies a frame where the paths to its destinations part, so that each link carries it once, and keeps
no state. Sequences of led groups use it (S-081, `led/sequences.py`), and so do stations of different clusters
(`atomic/agent.py`). Links keep the order of frames and lose none while they are up; a frame whose next link
is down is dropped. A frame is accepted only from the neighbour towards its source, and goes up, across or
down, never back (V-113).
"""

from collections.abc import Collection
from typing import Final, Protocol, Self

from rostra.core.effects import Effect, Event, Ignored, Instant, Received, Send
from rostra.core.stack import Service, ServiceName
from rostra.names import Domain
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.routing import OUTSIDE, split_by_hop

FRAME_RELAY: Final = ServiceName["FrameRelay"]("channel relay")


class SpreadFrame(Protocol):
    @property
    def source(self) -> Domain: ...

    @property
    def hosts(self) -> tuple[Domain, ...]: ...

    def only(self, hosts: Collection[Domain]) -> Self:
        """The same frame, for these hosts only."""


class FrameRelay(Service):
    name = FRAME_RELAY

    def __init__(self, *kinds: type[SpreadFrame]) -> None:
        self.takes = kinds

    def step(self, now: Instant, event: Event) -> list[Effect]:
        assert isinstance(event, Received), "frames only"
        return self._carry(event.sender, event.message)

    def _carry(self, sender: Domain, frame: SpreadFrame) -> list[Effect]:
        neighbours, kind = self.stack[SERVER].neighbours, type(frame).__name__
        relation = neighbours.up.get(sender)
        if relation is None:
            return [Ignored(kind, "sender is not connected")]
        if not neighbours.speaks_for(sender, frame.source):
            return [Ignored(kind, OUTSIDE)]
        out: list[Effect] = []
        ways = split_by_hop(neighbours, sender, relation, frame.hosts, lambda host: host)
        for hop, hosts in sorted(ways.items(), key=lambda way: way[0] or ""):
            if hop is None:
                out.append(Ignored(kind, "off the unique path"))
            elif hop not in neighbours.up:
                out.append(Ignored(kind, "next hop is down"))
            else:
                out.append(Send(hop, frame if len(hosts) == len(frame.hosts) else frame.only(hosts)))
        return out
