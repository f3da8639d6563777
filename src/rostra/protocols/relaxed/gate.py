"""The gate that members' records pass: may this endpoint be in this group?

    Join of our own program ──▶ Gate.permits ──┐
    EndpointsJoined, ResolveReply ──▶ screened ─┴──▶ yes · AccessRefused: who, where, why, from whom

Every agent and server asks (S-012): an agent that adds members without a proof adds them for nobody. This
gate knows public names only; `protocols/access` has the one that knows authorities.
"""

from typing import Any

from msgspec.structs import replace

from rostra.core.effects import Effect, Instant, Observation
from rostra.groups.attributes import ProofAttributes
from rostra.groups.members import Member, Members
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed.messages import EndpointsJoined, ResolveReply


class AccessRefused(Observation, frozen=True):
    """An endpoint may not join; or, if `source` is another node, a record of it was not believed."""

    endpoint: Endpoint
    group: Group
    why: str
    source: Domain | None = None


class Gate:
    def __init__(self) -> None:
        self.permits: dict[tuple[Endpoint, Group], bytes] = {}  # of this agent's endpoints: their proofs

    def begin(self, now: Instant) -> None:
        """Time goes on from here."""

    def restart(self, incarnation: int) -> None:
        """A replica leads from now on: its term begins with the clock, as incarnations do."""

    def why_not(self, now: Instant, group: Group, endpoint: Endpoint, proof: bytes) -> str:
        """Why this endpoint may not be in this group; empty if it may."""
        return "no authority is installed" if "!" in group.name else ""

    def screen(self, now: Instant, group: Group, members: Members) -> Members:
        """Those that may be in the group: the very same tuple if all may, as they nearly always do."""
        if "!" not in group.name:
            return members
        good = tuple(
            [each for each in members if not self.why_not(now, group, each.endpoint, proof_of(each))]
        )
        return members if len(good) == len(members) else good


def proof_of(member: Member) -> bytes:
    attributes = member.attributes
    return attributes.proof if type(attributes) is ProofAttributes else b""


def screened(now: Instant, gate: Gate, sender: Domain, message: Any, out: list[Effect]) -> Any:
    """The same message, with those members that may be in its group; what was left out is shown."""
    kind = type(message)
    if (kind is not EndpointsJoined and kind is not ResolveReply) or "!" not in message.group.name:
        return message
    group, members = message.group, message.members
    good = gate.screen(now, group, members)
    if good is members:
        return message
    kept = {each.endpoint for each in good}
    for each in members:
        if each.endpoint not in kept:
            why = gate.why_not(now, group, each.endpoint, proof_of(each))
            out.append(AccessRefused(each.endpoint, group, why, sender))
    return replace(message, members=good)
