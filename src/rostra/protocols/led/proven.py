"""Reports of restricted and closed sets: an agent counts no member of another that has no proof of its
authority, or that the set is not for; and a registrar lets no agent lead one without a proof.

A leader checks what is attached to it (S-012, TS2), and so does every agent on the way. A proof is bound to
the endpoint, so no agent can list one for a member that is not its own.

Of a set that its authority closes, agents know their own proofs alone. So questions for its leader and its
list carry one of the host that asks, and an agent that attaches has a member with one.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import astuple, replace

from rostra.core.effects import Effect, Ignored, Instant, ignored
from rostra.names import Domain, Endpoint, Group, host_of, inside
from rostra.protocols.led.messages import (
    Assert,
    AttachAsked,
    Datagram,
    LeaderAsked,
    LeaderProbe,
    LeaderTold,
    ListAsked,
    ListTold,
    LocalMember,
    ProvenAssert,
    ProvenLeaderAsked,
    ProvenListAsked,
    SetLetter,
)
from rostra.protocols.led.observed import LeaderRefused
from rostra.protocols.relaxed.gate import CLOSED, AccessRefused, Gate

_PROVEN: Final[dict[type[SetLetter], type[ProvenAssert | ProvenLeaderAsked | ProvenListAsked]]] = {
    Assert: ProvenAssert,
    LeaderAsked: ProvenLeaderAsked,
    ListAsked: ProvenListAsked,
}
"""Questions, and the same with a proof."""


def is_refused(
    now: Instant,
    gate: Gate,
    sender: Domain,
    letter: Datagram,
    post: Callable[[Domain, Datagram], None],
    out: list[Effect],
) -> bool:
    """Is this letter of another agent one about a set that is not for it? To that agent the set does not
    exist (C-167): the answer is that of an unknown name."""
    group, by_authority = letter.group, gate.is_by_authority(letter.group)
    if by_authority and sender == gate.host:
        return False
    if by_authority and isinstance(letter, LeaderProbe):
        is_closed = gate.host is None or not inside(sender, gate.host)  # a server above us knows of it
    elif by_authority and isinstance(letter, LeaderAsked | ListAsked):
        why = _why_unproven(now, gate, sender, letter)
        is_closed = bool(why)
        if why and isinstance(letter, ProvenLeaderAsked | ProvenListAsked):
            gate.name(now, sender, AccessRefused(letter.endpoint, group, why, sender), out)
    else:
        is_closed = not by_authority and gate.is_closed_to(group, sender)
    if is_closed:
        out.append(ignored(letter, CLOSED))
        if isinstance(letter, LeaderAsked):
            post(sender, LeaderTold(group, letter.number, None))
        elif isinstance(letter, ListAsked):
            post(sender, ListTold(group, letter.number, leading=False))
        return True
    if not isinstance(letter, Assert) or "!" not in group.name or sender == gate.host:
        return False
    if why := _why_unproven(now, gate, sender, letter):
        gate.name(now, sender, LeaderRefused(sender, group, why), out)
    return bool(why)


def _why_unproven(now: Instant, gate: Gate, sender: Domain, letter: Datagram) -> str:
    with_proof = ProvenAssert | ProvenLeaderAsked | ProvenListAsked
    if isinstance(letter, with_proof) and host_of(letter.endpoint) == sender:
        return gate.why_not(now, letter.group, letter.endpoint, letter.proof)
    return "no proof of a member of that host"


def with_permit(gate: Gate, letter: Datagram, members: Iterable[Endpoint]) -> Datagram:
    """Our `Assert` of a restricted set with a proof, of a member if there is one; questions too, if its
    authority closes the set."""
    proven, group = _PROVEN.get(type(letter)), letter.group
    if proven is None or "!" not in group.name:
        return letter
    ours = gate.permits.of(group)
    if not ours or (proven is not ProvenAssert and not gate.is_by_authority(group)):
        return letter
    me = next((each for each in members if each in ours), next(reversed(ours)))
    return proven(*astuple(letter), endpoint=me, proof=ours[me])


def let_through(now: Instant, gate: Gate, peer: Domain, message: Any, out: list[Effect]) -> Any:
    """The same message with those members that may be in the set; None if the set is not for that agent."""
    group, is_attaching = message.group, type(message) is AttachAsked
    by_authority = is_attaching and gate.is_by_authority(group)
    if is_attaching and not by_authority and gate.is_closed_to(group, peer):
        out.append(Ignored("AttachAsked", CLOSED))
        return None
    proven = with_proofs(now, gate, peer, message, out)
    if by_authority and not any(each.origin == peer and each.members for each in proven.entries):
        out.append(Ignored("AttachAsked", CLOSED))
        return None
    return proven


def with_proofs(now: Instant, gate: Gate, sender: Domain, message: Any, out: list[Effect]) -> Any:
    """The same message without members that may not be in the set; what was left out is shown."""
    group: Group = message.group
    if "!" not in group.name and gate.allowed_in(group) is None:
        return message

    def proven(origin: Domain, members: tuple[LocalMember, ...]) -> tuple[LocalMember, ...]:
        good = []
        for each in members:
            endpoint = Endpoint(f"{origin}/{each.name}")
            if why := gate.why_not(now, group, endpoint, each.proof):
                gate.name(now, sender, AccessRefused(endpoint, group, why, sender), out)
            else:
                good.append(each)
        return tuple(good)

    changed: dict[str, Any] = {}
    if hasattr(message, "entries"):
        changed["entries"] = tuple(
            [replace(each, members=proven(each.origin, each.members)) for each in message.entries]
        )
    if hasattr(message, "parts"):
        changed["parts"] = tuple(
            [replace(each, joined=proven(each.origin, each.joined)) for each in message.parts]
        )
    return replace(message, **changed) if changed else message
