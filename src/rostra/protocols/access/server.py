"""The access service of a domain server: it keeps revocations of authorities and lists of closed groups.

    Revoke, RevocationsTold ──▶ signed by one above? ──▶ Secure ──▶ every other neighbour
    CloseGroup, ReopenGroup ──▶ is it our scope? ──▶ Secure ──▶ Done ──▶ ClosedTold to the children
    ClosedTold ──▶ from the parent, and newer? ──▶ the children, and a copy on disk
    ProofShown ──▶ from the side of its host, and good? ──▶ kept, and the parent, up to the scope of the group
    every `SHOWN_AGAIN_S`, in pieces ──▶ those that have ended, and what their hosts want, are forgotten
    LinkUp, LinkMoved ──▶ all that we have, to that neighbour

Whether a member's record has a good proof is asked where records are relayed (`relaxed/domain.py`), of the
same `Judge`.
"""

from typing import Final

import msgspec

from rostra.core.effects import (
    Answer,
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
    SetTimer,
    TimerFired,
    TimerKey,
)
from rostra.core.records import RECORD_BYTES_MAX
from rostra.core.stack import Service, ServiceName
from rostra.errors import REFUSALS, UNDECODABLE, BadInput, NameTaken, NotAllowed, StoreFailed, TooLarge
from rostra.names import Domain, Group, check_not_transient, host_of, inside, make_group
from rostra.protocols.access.closed import COPIES, keep_copy, load_copies
from rostra.protocols.access.config import (
    ALLOWED_MAX,
    CLOSED_MAX,
    GO_ON_S,
    SHOWN_AGAIN_S,
    SHOWN_AT_ONCE,
    SHOWN_OF_HOST_MAX,
)
from rostra.protocols.access.judge import Judge
from rostra.protocols.access.messages import ClosedTold, ProofShown, RevocationsTold
from rostra.protocols.access.proofs import Revocation
from rostra.protocols.access.requests import CloseGroup, ReopenGroup, Revoke
from rostra.protocols.access.revoking import all_revocations, asked_to_revoke, told_of_revocations
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.gate import AccessRefused, ClosedList
from rostra.protocols.relaxed.messages import Interest, InterestChanged, MessageId
from rostra.protocols.relaxed.neighbours import Relation
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Done, denied
from rostra.protocols.relaxed.routing import OUTSIDE

ACCESS_SERVER: Final = ServiceName["AccessServer"]("access server")

REVOCATIONS: Final = "revocations"
"""The key of all that we keep."""

SHOWN: Final[TimerKey] = ("access", "shown")

CLOSED_GROUPS: Final = "closed"
"""The key of the closed groups of our scope."""

_lists: Final = msgspec.msgpack.Decoder(tuple[tuple[str, tuple[Domain, ...]], ...])
_decoder: Final = msgspec.msgpack.Decoder(tuple[Revocation, ...])


class AccessServer(Service):
    name = ACCESS_SERVER
    takes = (Revoke, CloseGroup, ReopenGroup, RevocationsTold, ClosedTold, ProofShown, LinkUp, LinkMoved)

    def __init__(self, domain: Domain, judge: Judge, registry: Registry) -> None:
        self.domain = domain
        self.judge = judge
        self._records = registry.own
        self._waits = False  # for SHOWN
        self._unseen = 0  # shown proofs that this round has not looked at
        self._seen = -1  # the change of the records that were read

    def begin(self, now: Instant) -> tuple[Effect, ...]:
        self.judge.begin(now)
        return ()

    def step(self, now: Instant, event: Event) -> list[Effect]:
        self._load()
        match event:
            case Asked(_, token, Revoke(data)):
                if why := self._records.no_room:
                    refusal = StoreFailed(f"the revocation: {why}", fix="make room, and ask again")
                    return [Answer(token, denied(refusal))]
                return asked_to_revoke(self.judge, token, data, self._believed)
            case Received(sender, RevocationsTold() as message):
                if sender not in self.stack[SERVER].neighbours.up:
                    return [Ignored("RevocationsTold", "sender is not connected")]
                return told_of_revocations(self.judge, message, lambda new: self._believed(new, sender))
            case Asked(_, token, CloseGroup() | ReopenGroup() as request):
                try:
                    return [*self._close(request), Answer(token, Done()), *self._tell_closed(self.domain)]
                except REFUSALS as refusal:
                    return [Answer(token, denied(refusal))]
            case Received(sender, ClosedTold(closed)):
                return self._closed_told(sender, closed)
            case Received(sender, ProofShown() as shown):
                return self._shown(now, sender, shown)
            case TimerFired():
                self._waits = False
                return self._shown_again(now)
            case LinkUp(peer) | LinkMoved(peer) if peer == self.stack[SERVER].neighbours.parent:
                proofs = [
                    Send(peer, ProofShown(group, endpoint, proof))
                    for (endpoint, group), proof in self.judge.shown.items()
                    if self._goes_up(group)
                ]
                return [*all_revocations(self.judge, peer), *proofs]
            case LinkUp(peer) | LinkMoved(peer):
                told = [ClosedTold(self.judge.closed[scope]) for scope in sorted(self.judge.closed)]
                is_child = self.stack[SERVER].neighbours.relation(peer) is Relation.CHILD
                return [
                    *all_revocations(self.judge, peer),
                    *[Send(peer, each) for each in told if is_child],
                ]
        return []

    def _believed(self, new: tuple[Revocation, ...], source: Domain | None = None) -> list[Effect]:
        """A new revocation: store it and pass it on. With a full disk, a neighbour's counts unstored: that
        neighbour has it."""
        others = sorted([peer for peer in self.stack[SERVER].neighbours.up if peer != source])
        told = [Send(peer, RevocationsTold(new)) for peer in others]
        if self._records.no_room:
            return [Ignored("RevocationsTold", "no room to keep it"), *told]
        kept = tuple([self.judge.revoked[key] for key in sorted(self.judge.revoked)])
        record = self._records.put(REVOCATIONS, msgspec.msgpack.encode(kept))
        self._seen = self._last_change
        return [Secure(record), *told]

    # Groups that are closed to all but those whom their authority lets in

    def _goes_up(self, group: Group) -> bool:
        parent = self.stack[SERVER].neighbours.parent
        return parent is not None and inside(group.scope, parent)

    def _shown(self, now: Instant, sender: Domain, message: ProofShown) -> list[Effect]:
        group, endpoint, neighbours = message.group, message.endpoint, self.stack[SERVER].neighbours
        host = host_of(endpoint)
        if neighbours.up.get(sender) is not Relation.CHILD or neighbours.next_hop(host) != sender:
            return [Ignored("ProofShown", OUTSIDE)]
        if not inside(group.scope, self.domain) or not self.judge.is_by_authority(group):
            return [Ignored("ProofShown", "its authority does not close it")]
        shown, stay = self.judge.shown, (endpoint, group)
        if stay not in shown and shown.of_host(host) >= SHOWN_OF_HOST_MAX:
            return [Ignored("ProofShown", "too many proofs of its host")]
        out: list[Effect] = []
        if why := self.judge.why_not(now, group, endpoint, message.proof):
            self.judge.name(now, sender, AccessRefused(endpoint, group, why, sender), out)
            return out
        shown[stay] = message.proof
        parent = neighbours.parent
        if parent is not None and parent in neighbours.up and self._goes_up(group):
            out.append(Send(parent, message))
        return [*out, *self._wait()]

    def _shown_again(self, now: Instant) -> list[Effect]:
        """Check the next few proofs for expiry: the interest of a child whose last proof of a group has ended
        is dropped."""
        out: list[Effect] = []
        neighbours, judge = self.stack[SERVER].neighbours, self.judge
        self._unseen = self._unseen or len(judge.shown)  # a new round
        looked = judge.shown.next(min(SHOWN_AT_ONCE, self._unseen))
        self._unseen -= len(looked)
        ended: set[tuple[Group, Domain]] = set()
        for me, group, proof in looked:
            is_over = not judge.is_by_authority(group)
            if is_over or judge.why_not(now, group, me, proof):
                del judge.shown[me, group]
                child = neighbours.next_hop(host_of(me))
                if child is not None and not is_over:
                    ended.add((group, child))
        for group, child in sorted(ended):
            if judge.is_closed_below(group, child):
                nothing = InterestChanged(MessageId(child, 0, 0), group, Interest.NONE)
                out += self.stack.call(now, self, SERVER, Received(child, nothing))
        return [*out, *self._wait()]

    def _wait(self) -> list[Effect]:
        if self._waits or not self.judge.shown:
            return []
        self._waits = True
        return [SetTimer(SHOWN, GO_ON_S if self._unseen else SHOWN_AGAIN_S)]

    # Closed groups

    def _close(self, request: CloseGroup | ReopenGroup) -> list[Effect]:
        group = request.group
        if group.scope != self.domain:
            raise NotAllowed(
                f"{group} belongs to the server of {group.scope}; this is the server of {self.domain}",
                fix=f"ask the server of {group.scope}",
            )
        if self._records.no_room:
            raise StoreFailed(f"{group}: {self._records.no_room}", fix="make room, and ask again")
        known = self.judge.closed.get(self.domain, ClosedList(self.domain, 0))
        groups = dict(known.groups)
        if isinstance(request, ReopenGroup):
            groups.pop(group.name, None)
        else:
            allowed = checked_list(group, request.allowed)
            if groups.setdefault(group.name, allowed) != allowed:
                raise NameTaken(
                    f"{group} is closed, with another list", fix="open it first: lists do not change"
                )
        if len(groups) > CLOSED_MAX:
            raise TooLarge(f"{CLOSED_MAX} groups of {self.domain} are closed", fix="open some")
        if tuple(sorted(groups.items())) == known.groups:
            record = self._records.get(CLOSED_GROUPS)
            return [] if record is None else [Secure(record)]
        listed = tuple(sorted(groups.items()))
        data = msgspec.msgpack.encode(listed)
        if len(data) > RECORD_BYTES_MAX // 2:
            raise TooLarge(f"the lists of {self.domain} take {len(data)} bytes", fix="shorten or open some")
        record = self._records.put(CLOSED_GROUPS, data)
        self._seen = self._last_change
        self.judge.learn(ClosedList(self.domain, record.version, listed))
        return [Secure(record)]

    def _tell_closed(self, scope: Domain) -> list[Effect]:
        if scope not in self.judge.closed:
            return []
        told = ClosedTold(self.judge.closed[scope])
        return [Send(child, told) for child in self.stack[SERVER].neighbours.children]

    def _closed_told(self, sender: Domain, closed: ClosedList) -> list[Effect]:
        is_parent = sender == self.stack[SERVER].neighbours.parent
        if not is_parent or closed.scope == self.domain or not inside(closed.scope, self.domain):
            return [Ignored("ClosedTold", "out of scope")]
        if not self.judge.learn(closed):
            return [Ignored("ClosedTold", "older version")]
        told, copy = self._tell_closed(closed.scope), keep_copy(self._records, closed)
        self._seen = self._last_change
        return [*told, *copy]

    @property
    def _last_change(self) -> int:
        return self._records.last_change(COPIES, f"{REVOCATIONS}/", f"{CLOSED_GROUPS}/")

    def _load(self) -> None:
        """A leader whom our replica follows changes the records too. What cannot be read was never kept."""
        if self._seen == self._last_change:
            return
        self._seen = self._last_change
        load_copies(self._records, self.judge)
        record = self._records.get(REVOCATIONS)
        try:
            kept = _decoder.decode(record.data) if record is not None and record.data is not None else ()
        except UNDECODABLE:
            return
        for revocation in kept:
            self.judge.revoke(revocation)
        listed = self._records.get(CLOSED_GROUPS)
        try:
            groups = _lists.decode(listed.data) if listed is not None and listed.data is not None else ()
        except UNDECODABLE:
            return
        if listed is not None:
            self.judge.learn(ClosedList(self.domain, listed.version, groups))


def checked_list(group: Group, allowed: tuple[Domain, ...]) -> tuple[Domain, ...]:
    make_group(group.name, group.scope)
    check_not_transient(group.name)
    if not allowed and "!" in group.name:
        return ()  # its authority is the list
    if not 1 <= len(allowed) <= ALLOWED_MAX:
        raise BadInput(
            f"a list of {len(allowed)} domains and hosts",
            fix=f"name 1 to {ALLOWED_MAX}; a restricted name needs none: its authority decides",
        )
    for path in allowed:
        if not inside(group.scope, path):
            raise BadInput(f"{path} is outside {group.scope}", fix="name domains and hosts of the scope")
    return tuple(sorted(set(allowed)))
