"""One domain server on the bench: hand it events, read its effects.

Ids that the server makes itself are printed as `OWN`, since their numbers say nothing; ids that it passes
on are compared as they are. Notes are left out by `said`, and kept by `everything`.
"""

from typing import Any

from msgspec.structs import replace

from rostra.core.effects import Effect, Event, LinkDown, LinkUp, Noted, Received, Send
from rostra.groups.members import Because, Cause, Member, Part
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.invariants import domain_server_violations
from rostra.protocols.relaxed.messages import (
    DomainFailed,
    EndpointLeft,
    EndpointsJoined,
    Interest,
    InterestChanged,
    MessageId,
    ResolveReply,
    ResolveRequest,
    SyncDone,
)
from rostra.protocols.relaxed.registry import Registry

OWN = MessageId(Domain("own"), 0, 0)
NONE, RESOLVE, ALL = Interest.NONE, Interest.RESOLVE, Interest.ALL
SILENT = Because(Domain("accuser"), Domain("accused"), "silent")


def group(scope: str = ROOT, name: str = "g") -> Group:
    return Group(name, Domain(scope))


G = group()


def an_id(server: str, sequence: int = 1) -> MessageId:
    return MessageId(Domain(server), 7, sequence)


def member(endpoint: str, stamp: int = 1) -> Member:
    return Member(Endpoint(f"{endpoint}#1"), (1, stamp))


def joins(server: str, *members: Member, g: Group = G, part: Part | None = None) -> EndpointsJoined:
    return EndpointsJoined(an_id(server), g, members, Cause.MERGE if part else Cause.JOIN, part)


def leaves(server: str, who: Member, g: Group = G) -> EndpointLeft:
    return EndpointLeft(an_id(server), g, who.endpoint, who.stamp, Cause.LEAVE)


def fails(domain: str, *groups: Group, keep: bool = False) -> DomainFailed:
    return DomainFailed(an_id("far"), groups or (G,), Domain(domain), keep, SILENT)


def asks(server: str, sequence: int = 1, g: Group = G) -> ResolveRequest:
    return ResolveRequest(an_id(server, sequence), g)


def reply(
    request: ResolveRequest | MessageId, *members: Member, interest: Interest, g: Group = G
) -> ResolveReply:
    id = request if isinstance(request, MessageId) else request.id
    return ResolveReply(id, g, members, interest)


def interest(state: Interest, g: Group = G, id: MessageId = OWN) -> InterestChanged:
    return InterestChanged(id, g, state)


class Bench:
    def __init__(
        self,
        domain: str,
        *up: str,
        cluster: bool = False,
        synced: bool = True,
        config: RelaxedConfig | None = None,
        registry: Registry | None = None,
    ) -> None:
        self.server = DomainServer(
            Domain(domain), cluster=cluster, incarnation=7, config=config, registry=registry
        )
        for peer in up:
            self.up(peer)
            if synced and peer in self.server.neighbours.unsynced:
                self.hear(peer, SyncDone(an_id(peer)))

    def everything(self, event: Event) -> list[Effect]:
        effects = [self._plain(effect) for effect in self.server.step(0.0, event)]
        assert domain_server_violations(self.server) == []
        return effects

    def said(self, event: Event) -> list[Effect]:
        return [effect for effect in self.everything(event) if not isinstance(effect, Noted)]

    def hear(self, sender: str, message: Any) -> list[Effect]:
        return self.said(Received(Domain(sender), message))

    def up(self, peer: str) -> list[Effect]:
        return self.said(LinkUp(Domain(peer), 1))

    def down(self, peer: str) -> list[Effect]:
        return self.said(LinkDown(Domain(peer), SILENT))

    def tell(self, sender: str, state: Interest, g: Group = G) -> list[Effect]:
        """A neighbour announces its interest."""
        return self.hear(sender, interest(state, g, an_id(sender)))

    def confirm(self, child: str, answers: dict[str, Interest], g: Group = G) -> None:
        """Let a child ask, and every outer neighbour answer with nobody and this interest."""
        request = asks(child, 900 + self.server._sequence, g)
        self.hear(child, request)
        for peer, state in answers.items():
            self.hear(peer, reply(request, interest=state, g=g))
        for question in list(self.server.collections.questions.values()):
            for part in question.parts:
                for peer in sorted(part.waiting):
                    self.hear(peer, reply(request, interest=RESOLVE, g=g))

    def want(self, peer: str, g: Group = G) -> Interest:
        return self.server.table.want(g, Domain(peer))

    def _plain(self, effect: Effect) -> Effect:
        if isinstance(effect, Send) and effect.message.id.server == self.server.domain:
            return Send(effect.to, replace(effect.message, id=OWN))
        return effect


def to(*peers: str, message: Any) -> list[Send]:
    """The same message to each of these."""
    return [Send(Domain(peer), message) for peer in peers]
