"""Revocations that reach a node: new ones with a valid signature are accepted, and passed on.

Agents and servers do the same, but pass them on to different neighbours; a server also stores them.
"""

from collections.abc import Callable

from rostra.core.effects import Answer, Effect, Ignored, Send
from rostra.errors import NotAuthorised
from rostra.names import Domain
from rostra.protocols.access.events import AuthorityRevoked
from rostra.protocols.access.judge import KNOWN, Judge
from rostra.protocols.access.messages import REVOCATIONS_AT_ONCE, RevocationsTold
from rostra.protocols.access.proofs import Revocation, decode_revocation
from rostra.protocols.relaxed.requests import Done, denied

Believed = Callable[[tuple[Revocation, ...]], list[Effect]]
"""What comes of revocations that are new to this node."""


def asked_to_revoke(judge: Judge, token: int, data: bytes, believed: Believed) -> list[Effect]:
    """A revocation from any program: it counts by its signature."""
    revocation = decode_revocation(data)
    why = "it cannot be read" if revocation is None else judge.revoke(revocation)
    if revocation is None or (why and why != KNOWN):
        refusal = NotAuthorised(
            f"the revocation is not believed: {why}",
            fix="sign it with its own key or that of an authority above it, for this world",
        )
        return [Answer(token, denied(refusal))]
    done: list[Effect] = [] if why else [*believed((revocation,)), _seen(revocation)]
    return [*done, Answer(token, Done())]


def told_of_revocations(judge: Judge, message: RevocationsTold, believed: Believed) -> list[Effect]:
    """Revocations from a neighbour."""
    new: list[Revocation] = []
    effects: list[Effect] = []
    for revocation in message.revocations:
        why = judge.revoke(revocation)
        if not why:
            new.append(revocation)
        elif why != KNOWN:
            effects.append(Ignored("RevocationsTold", why))
    if new:
        effects += [*believed(tuple(new)), *map(_seen, new)]
    return effects


def all_revocations(judge: Judge, peer: Domain) -> list[Effect]:
    known = [judge.revoked[key] for key in sorted(judge.revoked)]
    return [
        Send(peer, RevocationsTold(tuple(known[start : start + REVOCATIONS_AT_ONCE])))
        for start in range(0, len(known), REVOCATIONS_AT_ONCE)
    ]


def _seen(revocation: Revocation) -> AuthorityRevoked:
    return AuthorityRevoked(revocation.name, revocation.by)
