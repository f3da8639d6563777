"""The servers between two stations of different clusters: they pass frames on, and keep nothing.

    agent ── CarriedFrame ──▶ server ── the next neighbour on the way ──▶ ... ──▶ agent

As with the letters of led sets: a frame is taken from the neighbour that is on the way to its source, and
goes up, across or down, never back.
"""

from typing import Final

from rostra.core.effects import Effect, Event, Ignored, Instant, LinkDown, LinkMoved, LinkUp, Received, Send
from rostra.core.stack import Service, ServiceName
from rostra.names import Domain, inside
from rostra.protocols.atomic.messages import CarriedFrame
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.neighbours import Relation

ORDER_RELAY: Final = ServiceName["OrderRelay"]("atomic relay")


class OrderRelay(Service):
    name = ORDER_RELAY
    takes = (CarriedFrame, LinkUp, LinkMoved, LinkDown)

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self._up: set[Domain] = set()

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        match event:
            case Received(sender, CarriedFrame() as frame):
                self._carry(sender, frame, out)
            case LinkUp(peer) | LinkMoved(peer):
                self._up.add(peer)
            case LinkDown(peer):
                self._up.discard(peer)
        return out

    def _carry(self, sender: Domain, frame: CarriedFrame, out: list[Effect]) -> None:
        neighbours = self.stack[SERVER].neighbours
        relation = neighbours.relation(sender)
        hop = neighbours.hop_towards(frame.to)
        downward = hop is not None and neighbours.relation(hop) is Relation.CHILD
        onward = neighbours.cluster or not downward if relation is Relation.CHILD else downward
        if not inside(frame.group.scope, frame.to) or not inside(frame.group.scope, frame.source):
            out.append(Ignored("CarriedFrame", "out of scope"))
        elif not neighbours.speaks_for(sender, frame.source):
            out.append(Ignored("CarriedFrame", "not from its source"))
        elif hop is None or hop == sender or not onward:
            out.append(Ignored("CarriedFrame", "off the unique path"))
        elif hop not in self._up:
            out.append(Ignored("CarriedFrame", "next hop is down"))
        else:
            out.append(Send(hop, frame))
