"""Reports of restricted and closed sets: an agent counts no member of another that has no proof of its
authority, or that the set is not for; and a registrar lets no agent lead one without a proof.

A leader checks what is attached to it (S-012, TS2), and so does every agent on the way. A proof is bound to
the endpoint, so no agent can list one for a member that is not its own.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import astuple, replace

from rostra.core.effects import Effect, Ignored, Instant
from rostra.names import Domain, Endpoint, Group, host_of
from rostra.protocols.led.messages import (
    Assert,
    Datagram,
    LeaderAsked,
    LeaderTold,
    ListAsked,
    ListTold,
    LocalMember,
    ProvenAssert,
)
from rostra.protocols.led.observed import LeaderRefused
from rostra.protocols.relaxed.gate import CLOSED, AccessRefused, Gate


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
    group = letter.group
    if gate.is_closed_to(group, sender):
        out.append(Ignored(type(letter).__name__, CLOSED))
        if isinstance(letter, LeaderAsked):
            post(sender, LeaderTold(group, letter.number, None))
        elif isinstance(letter, ListAsked):
            post(sender, ListTold(group, letter.number, leading=False))
        return True
    if not isinstance(letter, Assert) or "!" not in group.name or sender == gate.host:
        return False
    why = "no proof of a member of that host"
    if isinstance(letter, ProvenAssert) and host_of(letter.endpoint) == sender:
        why = gate.why_not(now, group, letter.endpoint, letter.proof)
    if why:
        gate.name(now, sender, LeaderRefused(sender, group, why), out)
    return bool(why)


def with_permit(gate: Gate, letter: Datagram, members: Iterable[Endpoint]) -> Datagram:
    """Of a restricted set: our `Assert` with a proof of ours, that of a member if there is one."""
    group = letter.group
    if type(letter) is not Assert or "!" not in group.name:
        return letter
    me = next((each for each in members if (each, group) in gate.permits), None)
    me = me or next((each for each, named in reversed(gate.permits) if named == group), None)
    return (
        letter if me is None else ProvenAssert(*astuple(letter), endpoint=me, proof=gate.permits[me, group])
    )


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
