"""The claims service of a domain server: it decides for its own scope, and forwards what is for one above.

    Claim ──▶ is it for our scope? ── no ──▶ parent; the next link is down: ClaimAnswer(UNREACHABLE)
                    │ yes
                    ├── no claim stands: make it ──┐
                    ├── the same kind stands ──────┴──▶ the host holds it ──▶ Secure ──▶ ClaimAnswer(kind)
                    └── another kind stands ─────────────────────────────────▶ Secure ──▶ ClaimAnswer(that)
    ClaimReleased ──▶ the host no longer holds it; with its last holder the claim ends ──▶ Secure ──▶ answer

An answer is sent only when a majority of our replicas has the record it depends on: two first claims of two
kinds are ordered in one log, and every later leader has the records behind every answer.

**Which hosts hold a claim.** A host whose agent the cluster's server declares dead has left, like its members
in all other views; the cluster's server releases the claims that it forwarded for it. A domain that is cut
off has not left: it may have members, and its claims stay until it releases them. When a host comes back it
claims again; if another kind stands by then, its agent removes its members. A group with a monitor of its own
(`GroupKind.is_monitored`) may go on behind a cut from its server, so there a dead host's claim stands until
its agent is back in another life, or for `GONE_S`. A host that holds such a claim alone founds the group.

**Without room on the disk** a new claim is refused with the reason, a release is not answered, so that it is
sent again, and claims of hosts that are gone are released when there is room.

**Bounds.** So that names cannot be taken by claiming them all, a host may claim a bounded number of groups,
none that is closed to it, and a restricted name only with the proof of a member. A refused claim is reported
(`ClaimRefused`).

A neighbour is trusted about the hosts behind it only: a claim or release must come from the side of the
claimer, and an answer from that of the scope's server (C-125).
"""

from collections.abc import Sequence
from typing import Final

from rostra.core.disk import RoomChanged
from rostra.core.effects import (
    Effect,
    Event,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Observation,
    Received,
    Secure,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.core.records import KeyedRecord
from rostra.core.stack import Service, ServiceName
from rostra.errors import NoSuchGroup, NotAllowed, NotAvailable, StoreFailed, TooLarge, Unreachable
from rostra.groups.kinds import DeliveryKind, GroupKind, MembershipKind
from rostra.names import Domain, Group, depth, host_of, inside
from rostra.protocols.claims.config import CLAIMS_OF_HOST_MAX, GONE_S, LOCKS, LOOK_AGAIN_S
from rostra.protocols.claims.messages import (
    Claim,
    ClaimAnswer,
    ClaimBegun,
    ClaimMessage,
    ClaimReleased,
    ProvenClaim,
)
from rostra.protocols.claims.table import ClaimTable
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.gate import CLOSED, Gate
from rostra.protocols.relaxed.messages import MessageId
from rostra.protocols.relaxed.neighbours import Neighbours, Relation
from rostra.protocols.relaxed.registry import REGISTRY, Registry
from rostra.protocols.relaxed.routing import OUTSIDE

CLAIM_SERVER: ServiceName["ClaimServer"] = ServiceName("claims server")

LOST: Final[TimerKey] = ("claims", "lost")
GONE: Final = "gone"

PASSED_ON: Final = "next hop is down"
NO_SERVER: Final = "the root has no server"
NO_ROOM: Final = "no room on the disk"


class ClaimRefused(Observation, frozen=True):
    """This host may not claim that name, or no more names."""

    claimer: Domain
    group: Group
    why: str


class ClaimServer(Service):
    name = CLAIM_SERVER
    hears = (Secure,)
    takes = (
        *(Claim, ProvenClaim, ClaimReleased, ClaimAnswer, ClaimBegun),
        *(LinkUp, LinkDown, LinkMoved, RoomChanged),
    )

    def __init__(self, domain: Domain, registry: Registry, *, has_parent: bool = True) -> None:
        self.domain = domain
        self._has_parent = has_parent
        self.table = ClaimTable(registry.own, depth(domain))
        self.passed: dict[
            Domain, dict[Group, GroupKind]
        ] = {}  # at a cluster: by host, claims of wider scopes
        self.gone: dict[Domain, set[Group]] = {}  # the same of hosts that are gone: until that is answered
        self._lost: list[tuple[Domain, int]] = []
        """Hosts that are gone, and may hold claims of our own scope; of all lives but this one. 0: of all;
        -1: only those that end at once."""
        self._looked_at: dict[str, Instant] = {}  # for the holders of a claim, lately
        self._lives: dict[Domain, int] = {}  # of the agents of a cluster, also of those that are gone
        self._registry = registry
        self._sequence = 0

    @property
    def _neighbours(self) -> Neighbours:
        return self.stack[SERVER].neighbours

    @property
    def _gate(self) -> Gate:
        return self.stack[SERVER].gate

    def step(self, now: Instant, event: Event) -> list[Effect]:
        match event:
            case Received(sender, message):
                relation = self._neighbours.up.get(sender)
                if relation is None:
                    return [ignored(message, "sender is not connected")]
                return [*self._release_lost(), *self._received(now, sender, relation, message)]
            case TimerFired((_, word, str(host))) if word == GONE:
                return [] if host in self._neighbours.up else self._given_up(Domain(host), 0)
            case TimerFired():
                return self._release_lost()
            case LinkDown(peer):
                return self._link_down(peer)
            case RoomChanged("") if self._lost:
                return [SetTimer(LOST, 0.0)]
            case LinkUp(peer, life) if self._is_host(peer):
                return self._link_up(peer, life)
            case LinkUp(peer) | LinkMoved(peer) if peer == self._neighbours.parent:
                gone = sorted([(host, group) for host, groups in self.gone.items() for group in groups])
                return [self._released(host, group) for host, group in gone]
        return []

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        """A group that is no longer permanent loses a claim that no host holds."""
        if not any(type(effect) is Secure and effect.record.key == REGISTRY for effect in effects):
            return effects
        forgotten: list[Effect] = []
        for name in self.table.names():
            if not self._registry.is_permanent(Group(name, self.domain)):
                forgotten += [Secure(record) for record in self.table.forget(name)]
        return [*effects, *forgotten]

    def _received(
        self, now: Instant, sender: Domain, relation: Relation, message: ClaimMessage
    ) -> list[Effect]:
        neighbours, scope = self._neighbours, message.group.scope
        if isinstance(message, ClaimAnswer):
            if neighbours.hop_towards(scope) != sender or not inside(scope, self.domain):
                return [ignored(message, OUTSIDE)]
            return self._answered(message)
        if relation is not Relation.CHILD or neighbours.next_hop(message.claimer) != sender:
            return [ignored(message, OUTSIDE)]
        if not inside(scope, self.domain):
            return [ignored(message, "out of scope")]
        if isinstance(message, Claim) and not message.group_kind.is_claimed:
            return [ignored(message, "nothing to claim")]
        effects: list[Effect | ClaimAnswer]
        if isinstance(message, Claim) and (why := self._not_proven(now, message)):
            effects = _refused(message, NotAllowed.code, why)
        elif scope == self.domain:
            effects = [*self._decide(message), *self._look_for_holders(now, message)]
        elif (full := self._pass_by(message)) is not None:
            effects = _refused(message, TooLarge.code, full)
        else:
            effects = self._pass_on(message)
        found: list[Effect] = []
        for effect in effects:
            if isinstance(effect, ClaimRefused):
                self._gate.name(now, sender, effect, found)
            else:
                found.append(Send(sender, effect) if isinstance(effect, ClaimAnswer) else effect)
        return found

    def _not_proven(self, now: Instant, message: Claim) -> str:
        """Why this claim of a restricted name is refused; empty if it is not. Each server on the way checks:
        the claim must have the proof of a member that may join, and a kind of which members have proofs."""
        group, kind = message.group, message.group_kind
        if "!" not in group.name or self._gate.is_closed_to(group, message.claimer):
            return ""  # to those that it is closed to, the server of the scope says that it is not there
        is_led = kind.membership is MembershipKind.LED and kind.delivery is not DeliveryKind.ATOMIC
        if not is_led and kind.membership is not MembershipKind.AGREED:
            return f"a restricted name cannot be {kind}"
        if not isinstance(message, ProvenClaim) or host_of(message.endpoint) != message.claimer:
            return "the claim of a restricted name needs the proof of a member of that host"
        return self._gate.why_not(now, group, message.endpoint, message.proof)

    # Of our own scope

    def _decide(self, message: ClaimMessage) -> list[Effect | ClaimAnswer]:
        name, host = message.group.name, message.claimer
        standing, no_room = self.table.get(name), self._registry.own.no_room
        holds = standing is not None and host in standing.holders
        if isinstance(message, ClaimBegun):
            if standing is None or not holds or standing.group_kind.stable != "disk" or no_room:
                return [ignored(message, "not a holder")]  # the answer to the claim that follows says so
            if message.order:
                self.table.begin(name, self.domain, message.order)
            return [*map(Secure, self.table.records_of(name, self.domain))]
        if isinstance(message, ClaimReleased):
            if no_room and holds:
                return [ignored(message, NO_ROOM)]  # it is sent again until it is answered
            permanent = self._registry.is_permanent(message.group)
            removed = self.table.release(name, host, permanent=permanent)
            if message.over and holds:
                removed += self.table.release(name, self.domain, permanent=permanent)
            standing = self.table.get(name)
            if standing is None or self._is_closed_to(message):
                return [*map(Secure, removed), _answer(message)]
            removed += self.table.records_of(name, host)
            removed.sort(key=lambda each: each.version)
            return [*map(Secure, removed), _answer(message, standing.group_kind, standing.birth)]
        assert isinstance(message, Claim)
        if not holds and self._is_closed_to(message):
            none = _answer(message, code=NoSuchGroup.code, why="there is no such group")
            return [ClaimRefused(host, message.group, CLOSED), none]
        if standing is None or standing.group_kind == message.group_kind:
            if no_room and not holds:
                return [ignored(message, NO_ROOM), _answer(message, code=StoreFailed.code, why=no_room)]
            if why := self.table.why_not(name, host):
                return _refused(message, TooLarge.code, why)
            if message.group_kind.stable == "disk" and (why := self.table.why_not_begun(name, self.domain)):
                return _refused(message, TooLarge.code, why)
            standing = self.table.claim(name, host, message.group_kind, message.id.incarnation)
        begun = self.table.begun(name, self.domain)
        records = {each.key: each for each in self.table.records_of(name, host)}
        if begun:
            records |= {each.key: each for each in self.table.records_of(name, self.domain)}
        rests_on = map(Secure, sorted(records.values(), key=lambda each: each.version))
        alone = list(standing.holders) == [host]
        made = self.table.is_made(name, host, message.id.incarnation, self.domain)
        answer = _answer(message, standing.group_kind, standing.birth, alone=alone, made=made, begun=begun)
        return [*rests_on, answer]

    def _look_for_holders(self, now: Instant, message: ClaimMessage) -> list[Effect]:
        """Hosts in whose favour a claim stands that another host wants, or wants to begin: those that have no
        part in the group, after a restart together with their cluster's server, release it."""
        standing = self.table.get(message.group.name)
        if not isinstance(message, Claim) or standing is None:
            return []
        name, kind = message.group.name, standing.group_kind
        waits = kind.is_monitored or (kind.stable == "disk" and not self.table.begun(name, self.domain))
        if kind == message.group_kind and not waits:
            return []
        if now < self._looked_at.get(name, -LOOK_AGAIN_S) + LOOK_AGAIN_S:
            return []
        self._looked_at = {each: at for each, at in self._looked_at.items() if now < at + LOOK_AGAIN_S}
        self._looked_at[name] = now
        found: list[Effect] = []
        for host in sorted(standing.holders):
            hop = None if host in (self.domain, message.claimer) else self._neighbours.next_hop(host)
            if hop is not None and hop in self._neighbours.up:
                asked = ClaimAnswer(self._new_id(), host, message.group, kind, standing.birth)
                found.append(Send(hop, asked))
        return found

    def _is_closed_to(self, message: ClaimMessage) -> bool:
        """Is the group closed to this host? Then every question about it, or about the lock of its name, is
        answered as if it did not exist."""
        group = Group(message.group.name.removeprefix(LOCKS), message.group.scope)
        return self._gate.is_closed_to(group, message.claimer)

    # Of a wider one

    def _pass_by(self, message: ClaimMessage) -> str | None:
        """Remember which hosts of a cluster claim what, for when one of them is gone."""
        if not self._neighbours.cluster:
            return None
        host, group = message.claimer, message.group
        if group in self.gone.get(host, ()):
            self._forget_gone(host, group)
        if isinstance(message, ClaimBegun):
            return None
        if not isinstance(message, Claim):
            self._forget_passed(host, group)
            return None
        held = self.passed.setdefault(host, {})
        if group not in held and len(held) >= CLAIMS_OF_HOST_MAX:
            return f"{host} holds {CLAIMS_OF_HOST_MAX} claims"
        held[group] = message.group_kind
        return None

    def _pass_on(self, message: ClaimMessage) -> list[Effect | ClaimAnswer]:
        parent = self._neighbours.parent
        if parent is not None and parent in self._neighbours.up:
            return [Send(parent, message)]
        if not self._has_parent:
            why = f"{message.group.scope} has no server"
            return [ignored(message, NO_SERVER), _answer(message, code=NotAvailable.code, why=why)]
        why = f"{self.domain} cannot reach {parent}"
        return [ignored(message, PASSED_ON), _answer(message, code=Unreachable.code, why=why)]

    def _answered(self, message: ClaimAnswer) -> list[Effect]:
        host, group = message.claimer, message.group
        if group in self.gone.get(host, ()) and not message.code:
            self._forget_gone(host, group)
            return []
        if message.group_kind != self.passed.get(host, {}).get(group):
            self._forget_passed(host, group)  # it was refused
        hop = self._neighbours.next_hop(host)
        if hop is None or self._neighbours.relation(hop) is not Relation.CHILD:
            return [ignored(message, "off the unique path")]
        if hop in self._neighbours.up:
            return [Send(hop, message)]
        if not self._is_host(hop) or host in self.passed or message.group_kind is None or message.code:
            return [ignored(message, PASSED_ON)]
        # It has not been here since we were started: it has so long to come.
        self.passed[host] = {group: message.group_kind}
        return [ignored(message, PASSED_ON), SetTimer(("claims", GONE, host), GONE_S)]

    # Hosts that are gone

    def _is_host(self, peer: Domain) -> bool:
        return self._neighbours.cluster and self._neighbours.relation(peer) is Relation.CHILD

    def _link_up(self, peer: Domain, life: int) -> list[Effect]:
        """Claims of an earlier life of this agent end. With the first host that connects, the time limit
        starts for holders that were known to our predecessor and have not connected to us."""
        holders = [] if self._lives else [each for each in self.table.holders() if self._is_host(each)]
        before, self._lives[peer] = self._lives.get(peer, life), life
        waits = [SetTimer(("claims", GONE, each), GONE_S) for each in holders if each != peer]
        return [*waits, *self._given_up(peer, life, passed=before != life)]

    def _link_down(self, peer: Domain) -> list[Effect]:
        if not self._is_host(peer):
            return []
        return [SetTimer(("claims", GONE, peer), GONE_S), *self._given_up(peer, -1)]

    def _given_up(self, peer: Domain, life: int, *, passed: bool = True) -> list[Effect]:
        effects: list[Effect] = []
        if self.table.held_before(peer, life) if life > 0 else self.table.held_by(peer):
            # In a step of its own: notices of the loss do not wait for our replicas.
            self._lost.append((peer, life))
            effects.append(SetTimer(LOST, 0.0))
        held = self.passed.pop(peer, {})
        groups = {each for each, kind in held.items() if passed and (life >= 0 or not kind.is_monitored)}
        if rest := {each: kind for each, kind in held.items() if each not in groups}:
            self.passed[peer] = rest
        if groups:
            self.gone.setdefault(peer, set()).update(groups)
        if self._neighbours.parent in self._neighbours.up:
            effects += [self._released(peer, group) for group in sorted(groups)]
        return effects

    def _release_lost(self) -> list[Effect]:
        """Release the claims in our own scope of hosts that are gone, once that can be stored."""
        if self._registry.own.no_room:
            return []
        lost, self._lost = self._lost, []
        removed: list[KeyedRecord] = []
        for host, life in lost:
            for name in self.table.held_before(host, life) if life > 0 else self.table.held_by(host):
                standing = self.table.get(name)
                if life < 0 and standing is not None and standing.group_kind.is_monitored:
                    continue
                permanent = self._registry.is_permanent(Group(name, self.domain))
                removed += self.table.release(name, host, permanent=permanent)
        return [*map(Secure, removed)]

    def _released(self, host: Domain, group: Group) -> Send:
        parent = self._neighbours.parent
        assert parent is not None, "the root has no wider scope"
        return Send(parent, ClaimReleased(self._new_id(), host, group))

    def _new_id(self) -> MessageId:
        self._sequence += 1
        return MessageId(self.domain, self.stack[SERVER].incarnation, self._sequence)

    def _forget_passed(self, host: Domain, group: Group) -> None:
        groups = self.passed.get(host, {})
        groups.pop(group, None)
        if not groups:
            self.passed.pop(host, None)

    def _forget_gone(self, host: Domain, group: Group) -> None:
        self.gone[host].discard(group)
        if not self.gone[host]:
            del self.gone[host]


def _refused(message: ClaimMessage, code: str, why: str) -> list[Effect | ClaimAnswer]:
    return [ClaimRefused(message.claimer, message.group, why), _answer(message, code=code, why=why)]


def _answer(
    message: ClaimMessage,
    kind: GroupKind | None = None,
    birth: int = 0,
    *,
    code: str = "",
    why: str = "",
    alone: bool = False,
    made: bool = False,
    begun: str = "",
) -> ClaimAnswer:
    return ClaimAnswer(message.id, message.claimer, message.group, kind, birth, code, why, alone, made, begun)
