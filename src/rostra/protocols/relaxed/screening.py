"""Records of restricted names: those without a good proof are not believed, whoever relays them.

    EndpointsJoined, ResolveReply ──▶ Judge ──▶ the same message, with those members that have a proof
                                        └─────▶ AccessRefused: who, in which group, why, from which neighbour

Every agent and server asks (S-012, Z-20): an agent that adds members without a proof adds them for nobody.
"""

from typing import Any

from msgspec.structs import replace

from rostra.core.effects import Effect, Instant
from rostra.names import Domain
from rostra.protocols.access.events import AccessRefused
from rostra.protocols.access.judge import Judge, proof_of
from rostra.protocols.relaxed.messages import EndpointsJoined, ResolveReply


def screened(now: Instant, judge: Judge, sender: Domain, message: Any, out: list[Effect]) -> Any:
    kind = type(message)
    if (kind is not EndpointsJoined and kind is not ResolveReply) or "!" not in message.group.name:
        return message
    group, members = message.group, message.members
    good = judge.screen(now, group, members)
    if good is members:
        return message
    kept = {each.endpoint for each in good}
    for each in members:
        if each.endpoint not in kept:
            why = judge.why_not(now, group, each.endpoint, proof_of(each))
            out.append(AccessRefused(each.endpoint, group, why, sender))
    return replace(message, members=good)
