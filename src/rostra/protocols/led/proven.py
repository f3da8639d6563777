"""Reports of restricted and closed sets: an agent counts no member of another that has no proof of its
authority, or that the set is not for.

A leader checks what is attached to it (S-012, TS2), and so does every agent on the way. A proof is bound to
the endpoint, so no agent can list one for a member that is not its own.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from rostra.core.effects import Effect, Ignored, Instant
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.led.messages import (
    AnyLetter,
    Datagram,
    LeaderAsked,
    LeaderTold,
    ListAsked,
    ListTold,
    LocalMember,
)
from rostra.protocols.relaxed.gate import CLOSED, AccessRefused, Gate


def refuse_closed(letter: AnyLetter, post: Callable[[Datagram], None], out: list[Effect]) -> None:
    """To those that a set is not for it does not exist (C-167): the answer is that of an unknown name."""
    out.append(Ignored(type(letter).__name__, CLOSED))
    if isinstance(letter, LeaderAsked):
        post(LeaderTold(letter.group, letter.number, None))
    elif isinstance(letter, ListAsked):
        post(ListTold(letter.group, letter.number, leading=False))


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
