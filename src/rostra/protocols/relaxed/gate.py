"""Access control for members' records: may this endpoint be in this group?

    Join of our own program ──▶ Gate.permits ──┐
    EndpointsJoined, ResolveReply ──▶ screened ─┴──▶ yes · AccessRefused: who, where, why, from whom

**Closed groups** (C-167) are open only to the domains and hosts of a list. The server of the scope keeps the
list and sends it to all servers and agents below. Agents refuse joins and queries of hosts that are not on
it; servers accept no record and no interest from elsewhere, and answer as if the group did not exist. An
empty list is for restricted names: the group is open to hosts with an endpoint that has a proof of its
authority, and such a proof is shown to the servers above that host (`ProofShown`).

Every agent and server checks (S-012), so a member that a faulty agent adds without a proof is rejected by all
other nodes. This gate knows public names only; `protocols/access` has the one that knows authorities.

Refused records are reported with the node that sent them, at most `NAMED_MAX` in `NAMED_S`; the rest is
counted.
"""

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import Effect, Instant, Observation, ignored
from rostra.errors import NotAllowed
from rostra.groups.attributes import (
    DelegateAttributes,
    DoubtAttributes,
    ProofAttributes,
    ProvenFifoAttributes,
)
from rostra.groups.members import Member, Members
from rostra.names import Domain, Endpoint, Group, inside, parent
from rostra.names.checks import Natural
from rostra.names.groups import GroupText
from rostra.protocols.relaxed.messages import EndpointsJoined, ResolveReply
from rostra.protocols.relaxed.shown import ProofTable


class AccessRefused(Observation, frozen=True):
    """An endpoint may not join; or, if `source` is another node, a record from there was rejected."""

    endpoint: Endpoint
    group: Group
    why: str
    source: Domain | None = None


DELEGATES: Final = ".-delegate/adhoc#"
"""In the endpoints of delegates alone (`fifo/messages.py`): no name of a host begins with a hyphen."""

CLOSED: Final = "the group is closed"
ENDED: Final = "the proof has ended"

NAMED_MAX: Final = 32
NAMED_S: Final = 60.0
"""Refusals of one node's records that observers are shown, each with its reason, in so long."""

NAMED_OFTEN: Final = "its node was named often enough"

NAMED_NODES_MAX: Final = 1_024
"""Nodes of which that is counted: those that were named last."""


class ClosedList(Struct, frozen=True, array_like=True):
    """The closed groups of one scope, each with the domains and hosts that it is for."""

    scope: Domain
    version: Natural
    groups: tuple[tuple[GroupText, tuple[Domain, ...]], ...] = ()

    def paths_of(self, name: str) -> tuple[Domain, ...] | None:
        return next((paths for each, paths in self.groups if each == name), None)


class Gate:
    def __init__(self) -> None:
        self.permits = ProofTable()  # of this agent's endpoints
        self.closed: dict[Domain, ClosedList] = {}  # by scope
        self.shown = ProofTable()  # of endpoints below a server
        self.host: Domain | None = None  # of an agent: the reader
        self.cluster: Domain | None = None  # of the server of one: its domain
        self._named: dict[Domain, tuple[Instant, int]] = {}  # since when, and for how many records

    def learn(self, closed: ClosedList) -> bool:
        """The closed groups of a scope, if that is newer than what we know."""
        known = self.closed.get(closed.scope)
        if known is not None and closed.version <= known.version:
            return False
        self.closed[closed.scope] = closed
        return True

    def allowed_in(self, group: Group) -> tuple[Domain, ...] | None:
        """The domains and hosts that a closed group is open to; None if it is open to all."""
        closed = self.closed.get(group.scope) if self.closed else None
        return None if closed is None else closed.paths_of(group.name)

    def is_by_authority(self, group: Group) -> bool:
        """Is it closed to all that have no proof of its authority?"""
        return self.allowed_in(group) == ()

    def _has_shown(self, group: Group, address: str) -> bool:
        """An endpoint there has a proof, as far as we know: of our own host, or of those below us."""
        return self.permits.is_inside(group, address) or self.shown.is_inside(group, address)

    def is_closed_to(self, group: Group, address: str) -> bool:
        """Is the group closed to this endpoint or host, so that it may not even know of it?"""
        allowed = self.allowed_in(group)
        if allowed == ():
            return not self._has_shown(group, address)
        return allowed is not None and not any(inside(path, address) for path in allowed)

    def check_open(self, group: Group, host: Domain) -> None:
        """May a program of this host ask to join? If the authority decides, it is asked."""
        if not self.is_by_authority(group) and self.is_closed_to(group, host):
            raise NotAllowed(f"{group} is not for programs of {host}", fix="choose another name")

    def is_closed_below(self, group: Group, domain: Domain) -> bool:
        """The same for all of a domain. The delegate of a cluster stands for all of that."""
        allowed = self.allowed_in(group)
        if allowed == ():
            return not self._has_shown(group, parent(domain) if ".-" in domain else domain)
        return allowed is not None and not any(
            inside(path, domain) or inside(domain, path) for path in allowed
        )

    def begin(self, now: Instant) -> None:
        """Set the clock of this step."""

    def restart(self, incarnation: int) -> None:
        """A replica leads from now on: its term begins with the clock, as incarnations do."""

    def why_not(self, now: Instant, group: Group, endpoint: Endpoint, proof: bytes) -> str:
        """Why this endpoint may not be in this group; empty if it may."""
        if not self.is_by_authority(group) and self.is_closed_to(group, endpoint):
            return CLOSED
        return "no authority is installed" if "!" in group.name else ""

    def why_not_listed(self, now: Instant, group: Group, member: Member) -> str:
        """Why this member's record is rejected; empty if it is not. A delegate, which is no program, needs no
        proof: its cluster's server creates it, and accepts no delegate's record from an agent."""
        endpoint = member.endpoint
        is_delegate = type(member.attributes) is DelegateAttributes and DELEGATES in endpoint
        if self.cluster is not None and endpoint.startswith(f"{self.cluster}."):
            is_delegate = is_delegate and endpoint.startswith(f"{self.cluster}{DELEGATES}")
        if is_delegate and (self.is_by_authority(group) or not self.is_closed_to(group, endpoint)):
            return ""
        return self.why_not(now, group, endpoint, proof_of(member))

    def has_permit(self, endpoint: Endpoint | None, group: Group) -> bool:
        """May it be in this group although its name is restricted?"""
        return endpoint is not None and (endpoint, group) in self.permits

    def name(self, now: Instant, node: Domain, refused: Observation, out: list[Effect]) -> None:
        """Report a refused record of this node, unless it has used up its reports for now."""
        since, count = self._named.pop(node, (now, 0))
        if not since <= now < since + NAMED_S:
            since, count = now, 0
        self._named[node] = since, count + 1
        if len(self._named) > NAMED_NODES_MAX:
            del self._named[next(iter(self._named))]
        out.append(refused if count < NAMED_MAX else ignored(refused, NAMED_OFTEN))

    def screen(self, now: Instant, group: Group, members: Members) -> Members:
        """The members that may be in the group: the very same tuple if all may, as they nearly always do."""
        if "!" not in group.name and self.allowed_in(group) is None:
            return members
        if self.host is not None and self.is_closed_to(group, self.host):
            return ()
        good = tuple([each for each in members if not self.why_not_listed(now, group, each)])
        return members if len(good) == len(members) else good


class DelegateGate(Gate):
    """The gate of a delegate, which lets everything pass: its members come from the server in its own
    process, which has checked them."""

    def has_permit(self, endpoint: Endpoint | None, group: Group) -> bool:
        return endpoint is not None and DELEGATES in endpoint

    def screen(self, now: Instant, group: Group, members: Members) -> Members:
        return members


def proof_of(member: Member) -> bytes:
    attributes = member.attributes
    with_proof = ProofAttributes | ProvenFifoAttributes | DoubtAttributes
    return attributes.proof if isinstance(attributes, with_proof) else b""


def screened(now: Instant, gate: Gate, sender: Domain, message: Any, out: list[Effect]) -> Any:
    """The same message with only those members that may be in its group; the others are reported."""
    kind = type(message)
    if (kind is not EndpointsJoined and kind is not ResolveReply) or (
        "!" not in message.group.name and not gate.closed
    ):
        return message
    group, members = message.group, message.members
    good = gate.screen(now, group, members)
    if good is members:
        return message
    kept = {each.endpoint for each in good}
    for each in members:
        if each.endpoint not in kept:
            why = gate.why_not_listed(now, group, each) or CLOSED
            gate.name(now, sender, AccessRefused(each.endpoint, group, why, sender), out)
    return replace(message, members=good)
