"""The access service of a domain server: it keeps the revocations of authorities, and passes them on.

    Revoke, RevocationsTold ──▶ signed by one above? ──▶ Secure ──▶ every other neighbour
    LinkUp, LinkMoved ──▶ all that we have, to that neighbour

Whether a member's record has a good proof is asked where records are relayed (`relaxed/domain.py`), of the
same `Judge`.
"""

from typing import Final

import msgspec

from rostra.core.effects import (
    Asked,
    Effect,
    Event,
    Ignored,
    Instant,
    LinkMoved,
    LinkUp,
    Received,
    Secure,
    Send,
)
from rostra.core.stack import Service, ServiceName
from rostra.errors import UNDECODABLE
from rostra.names import Domain
from rostra.protocols.access.judge import Judge
from rostra.protocols.access.messages import RevocationsTold
from rostra.protocols.access.proofs import Revocation
from rostra.protocols.access.requests import Revoke
from rostra.protocols.access.revoking import all_revocations, asked_to_revoke, told_of_revocations
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.registry import Registry

ACCESS_SERVER: Final = ServiceName["AccessServer"]("access server")

REVOCATIONS: Final = "revocations"
"""The key of all that we keep."""

_decoder: Final = msgspec.msgpack.Decoder(tuple[Revocation, ...])


class AccessServer(Service):
    name = ACCESS_SERVER
    takes = (Revoke, RevocationsTold, LinkUp, LinkMoved)

    def __init__(self, judge: Judge, registry: Registry) -> None:
        self.judge = judge
        self._records = registry.own
        self._seen = -1  # the version of the records that were read

    def step(self, now: Instant, event: Event) -> list[Effect]:
        self.judge.begin(now)
        self._load()
        match event:
            case Asked(_, token, Revoke(data)):
                return asked_to_revoke(self.judge, token, data, self._believed)
            case Received(sender, RevocationsTold() as message):
                if sender not in self.stack[SERVER].neighbours.up:
                    return [Ignored("RevocationsTold", "sender is not connected")]
                return told_of_revocations(self.judge, message, lambda new: self._believed(new, sender))
            case LinkUp(peer) | LinkMoved(peer):
                return all_revocations(self.judge, peer)
        return []

    def _believed(self, new: tuple[Revocation, ...], source: Domain | None = None) -> list[Effect]:
        kept = tuple([self.judge.revoked[key] for key in sorted(self.judge.revoked)])
        record = self._records.put(REVOCATIONS, msgspec.msgpack.encode(kept))
        self._seen = self._records.version
        others = sorted([peer for peer in self.stack[SERVER].neighbours.up if peer != source])
        return [Secure(record), *[Send(peer, RevocationsTold(new)) for peer in others]]

    def _load(self) -> None:
        """A leader whom our replica follows changes the records too. What cannot be read was never kept."""
        if self._seen == self._records.version:
            return
        self._seen = self._records.version
        record = self._records.get(REVOCATIONS)
        try:
            kept = _decoder.decode(record.data) if record is not None and record.data is not None else ()
        except UNDECODABLE:
            return
        for revocation in kept:
            self.judge.revoke(revocation)
