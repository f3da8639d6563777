"""The domain server: one per domain. It routes membership and stores none.

    Received ── EndpointsJoined, EndpointLeft ────▶ open collections; the neighbours with interest ALL
                DomainFailed ─────────────────────▶ the same, to each neighbour for its own groups only
                InterestChanged, SyncDone ────────▶ the interest table; announce what changed in it
                ResolveRequest ───────────────────▶ open a collection, ask neighbours that may have members
                ResolveReply ─────────────────────▶ its collection; answer when no neighbour is awaited
                Routed, Undeliverable, Life*,
                Inquiry, InquiryReply ────────────▶ the next hop on the unique path (`routing`)
                RegistryTold ─────────────────────▶ disk and children
    LinkDown ─────▶ notify neighbours that shared groups with that side; stop waiting for it; drop its entries
    LinkUp ───────▶ from a child: the child announces. From a sibling or parent: announce interest, merge
    LinkMoved ────▶ another replica leads there: as LinkUp; no loss is reported, requests are repeated

This is Congress's GMS. Its state is the interest table (`interest`), which neighbours are up (`neighbours`)
and the open collections (`collection`). It stores no member, and on disk only the permanent names of its
scopes; after a restart the neighbours announce the rest again (C-023, C-138).

A message from a child may go outward, and in a cluster to the other agents; a message from outside may go
to the children. No message goes back or crosses two sibling links, so there is one path between two agents,
and each server sees an event once (C-019, C-118).

Where we differ from the paper, and why (the T- numbers are the traps of the specification):

- A server believes only its own failure detector about its own neighbours; otherwise a rumour can take down
  a live link for ever (T-29).
- A request whose last awaited neighbour dies is completed: a resolve is answered with what came,
  and a merge is finished, so that none is lost (T-22).
- A join is added to a collection by the side it comes from, not by who was asked (T-25), but never from a
  neighbour that still owes its answer (T-26).
- A failure reported from above means "keep only this domain", not "drop it" (T-24).
- After a link came up, each side pushes its own list and pulls the other's; each list is a baseline for a
  stated part of the world (T-28, T-44).

Everything that is dropped leaves as `Ignored`; rows and collections that come and go leave as `Noted`.
"""

from collections.abc import Callable, Iterable
from typing import Final, get_args

import msgspec

from rostra.core.disk import RoomChanged
from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    Event,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Noted,
    Persist,
    Received,
    Secure,
    Send,
    ignored,
)
from rostra.core.records import KeyedRecord
from rostra.core.stack import Service, ServiceName
from rostra.errors import BadName, NotAllowed, NotAvailable, StoreFailed, TooLarge
from rostra.groups.members import Because, Cause, Members, Part, by_endpoint
from rostra.names import Domain, Group, check_public, inside, make_group
from rostra.protocols.relaxed.collection import Collection, CollectionKind, Collections, Question, Side
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.events import ResolvedHere, ResolveHere
from rostra.protocols.relaxed.gate import CLOSED, Gate, screened
from rostra.protocols.relaxed.interest import NO_SHIFT, InterestTable, Shift
from rostra.protocols.relaxed.merges import MergeQueue
from rostra.protocols.relaxed.messages import (
    DomainFailed,
    EndpointLeft,
    EndpointsJoined,
    Inquiry,
    InquiryReply,
    Interest,
    InterestChanged,
    LifeAsked,
    LifeTold,
    MessageId,
    RegistryTold,
    ResolveReply,
    ResolveRequest,
    Routed,
    ServerMessage,
    SyncDone,
    Undeliverable,
)
from rostra.protocols.relaxed.neighbours import Neighbours, Relation
from rostra.protocols.relaxed.registry import REGISTRY, Registry, RegistryRecord
from rostra.protocols.relaxed.reports import document_of_server
from rostra.protocols.relaxed.requests import (
    AnyRequest,
    Done,
    Inspect,
    Inspected,
    Register,
    Unregister,
    denied,
)
from rostra.protocols.relaxed.routing import OUTSIDE, Router

SERVERS_WEIGH: Final = 10
"""How many hosts' share of rows and questions a server below or beside us may have."""

CHILD, SIBLING, PARENT = Relation.CHILD, Relation.SIBLING, Relation.PARENT
ALL = Interest.ALL


SERVER: Final = ServiceName["DomainServer"]("relaxed server")


class DomainServer(Service):
    """Congress's GMS of one domain. `cluster` says whether its children are hosts."""

    name = SERVER
    takes = (
        *(*ServerMessage.__subclasses__(), *get_args(AnyRequest)),
        *(LinkUp, LinkDown, LinkMoved, RoomChanged, ResolveHere),
    )

    def __init__(
        self,
        domain: Domain,
        *,
        cluster: bool,
        incarnation: int,
        config: RelaxedConfig | None = None,
        registry: Registry | None = None,
        gate: Gate | None = None,
    ) -> None:
        self.domain = domain
        self.gate = gate or Gate()
        self.gate.cluster = domain if cluster else None
        self.cluster = cluster
        self.incarnation = incarnation
        self.neighbours = Neighbours(domain, cluster=cluster)
        self._config = config if config is not None else RelaxedConfig()
        per_child = 1 if cluster else SERVERS_WEIGH
        self.table = InterestTable(self.neighbours, self._config.groups_of_host_max * per_child)
        self.collections = Collections()
        self.merges = MergeQueue()
        self.registry = registry if registry is not None else Registry()
        self.registry.load(domain)
        self._router = Router(self.neighbours, self._new_id)
        self._said_sync_done = False
        self._unrenewed: dict[Domain, set[Group]] = {}  # by a child that moved: rows it has not named again
        self._here: dict[MessageId, int] = {}  # questions of other services of ours
        self._sequence = 0
        self._effects: list[Effect] = []

    def take_over(self, term: int) -> None:
        """Our replica leads from now on, with the records that the last leader replicated to it."""
        self.incarnation = term
        self.gate.restart(term)
        self.registry.own.no_room = ""  # until our replicas report otherwise
        self.registry.load(self.domain)

    def step(self, now: Instant, event: Event) -> list[Effect]:
        effects: list[Effect] = []
        self._effects = effects
        match event:
            case Received(sender, message):
                relation = self.neighbours.up.get(sender)
                if relation is None:
                    self._ignore(message, "sender is not connected")
                else:
                    self._received(sender, relation, screened(now, self.gate, sender, message, effects))
            case LinkDown(peer, because):
                if peer in self.neighbours.up:
                    self._link_down(peer, because)
                else:
                    self._ignore(event, "already down")
            case LinkUp(peer):
                relation = self.neighbours.relation(peer)
                if relation is None:
                    self._ignore(event, "not a neighbour")
                elif peer in self.neighbours.up:
                    self._ignore(event, "already up")
                else:
                    self._link_up(peer, relation)
            case LinkMoved(peer):
                if (relation := self.neighbours.up.get(peer)) is not None:
                    self._link_moved(peer, relation)
                else:
                    self._ignore(event, "not up")
            case Asked(_, token, request):
                self._asked(token, request)
            case ResolveHere(group, number):
                request = ResolveRequest(self._new_id(), group)
                self._here[request.id] = number
                self._ask(self.domain, CHILD, (request,))
            case RoomChanged(lacking):
                self.registry.own.no_room = lacking
            case _:
                self._ignore(event, "not an event of a domain server")
        return effects

    def _received(self, sender: Domain, relation: Relation, message: object) -> None:
        if self.gate.closed and relation is CHILD and self._is_closed(sender, message):
            return
        match message:
            case EndpointsJoined(group=group):
                if self._in_scope(message, group, relation):
                    self._joined(sender, relation, message)
            case EndpointLeft(group=group):
                if self._in_scope(message, group, relation):
                    self._left(sender, relation, message)
            case InterestChanged(group=group):
                if self._in_scope(message, group, relation):
                    self._interest_changed(sender, relation, message)
            case ResolveRequest(group=group):
                if self._in_scope(message, group, relation):
                    self._resolve_asked(sender, relation, message)
            case ResolveReply(group=group):
                if self._in_scope(message, group, relation):
                    self._resolve_answered(sender, relation, message)
            case DomainFailed():
                self._domain_failed(sender, relation, message)
            case SyncDone():
                self._sync_done(sender, message)
            case Routed() | Undeliverable() | LifeAsked() | LifeTold() | Inquiry() | InquiryReply():
                self._effects += self._router.step(sender, relation, message)
            case RegistryTold():
                self._registry_told(relation, message)
            case _:
                self._ignore(message, "not a message for a domain server")

    def _is_closed(self, child: Domain, message: object) -> bool:
        """Is the message about a group that is closed to all hosts of this child? Then it is answered as if
        the group did not exist."""
        if not isinstance(message, EndpointsJoined | InterestChanged | ResolveRequest):
            return False
        if type(message) is InterestChanged and message.interest is Interest.NONE:
            return False  # what it wanted before it was closed, or while it had a proof
        if not self.gate.is_closed_below(message.group, child):
            return False
        self._ignore(message, CLOSED)
        if type(message) is ResolveRequest:
            self._send(child, ResolveReply(message.id, message.group, (), Interest.NONE))
        return True

    # Joins, leaves, failures

    def _joined(self, sender: Domain, relation: Relation, message: EndpointsJoined) -> None:
        if self.neighbours.credible(sender, relation, message.group, message.members) is not message.members:
            self._ignore(message, "record outside the sender's side")
        elif message.complete_for and not self.neighbours.may_speak_of(
            sender, relation, message.complete_for
        ):
            self._ignore(message, "part outside the sender's side")
        else:
            self._announce(sender, relation, message)

    def _announce(self, sender: Domain, relation: Relation, message: EndpointsJoined) -> None:
        group = message.group
        if message.members:
            self._renewed(sender, group)
        # Interest is announced before members, so this is for a child that did not keep the order (T-10). A
        # baseline without members announces none: it must not make a row.
        if relation is CHILD and message.members and self.table.want(group, sender) is Interest.NONE:
            shift = self.table.hear_child(group, sender, Interest.RESOLVE)
            if shift is None:
                self._ignore(message, "too many groups")
                return
            self._apply(group, shift)
        side = _side(relation)
        for collection in self.collections.of(group):
            if collection.counts(sender, side):
                collection.add(message.members, message.complete_for)
        self._spread(sender, relation, group, message)

    def _left(self, sender: Domain, relation: Relation, message: EndpointLeft) -> None:
        if not self.neighbours.side_of(sender, relation).covers(message.endpoint):
            self._ignore(message, "record outside the sender's side")
            return
        side = _side(relation)
        for collection in self.collections.of(message.group):
            if collection.counts(sender, side):
                collection.remove(message.endpoint, message.stamp)
        self._spread(sender, relation, message.group, message)

    def _spread(self, sender: Domain, relation: Relation, group: Group, message: ServerMessage) -> None:
        """Forward a change to the neighbours on the other side with interest ALL (C-118)."""
        if relation is CHILD:
            self._send_all(self.table.outer_listeners(group), message)
        if relation is not CHILD or self.cluster:
            self._send_all([peer for peer in self.table.child_listeners(group) if peer != sender], message)

    def _domain_failed(self, sender: Domain, relation: Relation, message: DomainFailed) -> None:
        lost = Part(not message.keep, message.domain)
        if self.neighbours.relation(message.domain) is not None:
            # Whether our own neighbour lives is for our own detector to say (C-033, T-29).
            self._ignore(message, "own neighbour")
            return
        if not self.neighbours.may_speak_of(sender, relation, lost):
            self._ignore(message, "part outside the sender's side")
            return
        groups = [group for group in message.groups if self.neighbours.in_range(group, relation)]
        if not groups:
            self._ignore(message, "out of scope")
            return
        side = _side(relation)
        for collection in self.collections:
            if collection.counts(sender, side):
                collection.lose(lost)
        self._spread_failure(sender, relation, groups, message)

    def _spread_failure(
        self, sender: Domain, relation: Relation, groups: Iterable[Group], message: DomainFailed
    ) -> None:
        """Send the failure to each of these neighbours, for the groups in which its interest is ALL
        (C-127)."""
        concerned: dict[Domain, list[Group]] = {}
        for group in groups:
            if relation is CHILD:
                for peer in self.table.outer_listeners(group):
                    concerned.setdefault(peer, []).append(group)
                if not self.cluster:
                    continue
            for peer in self.table.child_listeners(group):
                if peer != sender:
                    concerned.setdefault(peer, []).append(group)
        notices: dict[tuple[Group, ...], DomainFailed] = {message.groups: message}
        for peer in sorted(concerned):
            cut = tuple(concerned[peer])
            notice = notices.get(cut)
            if notice is None:
                # Equal notices are one object, so that a driver can encode it once for all who get it.
                notice = notices[cut] = msgspec.structs.replace(message, groups=cut)
            self._send(peer, notice)

    # Interest

    def _interest_changed(self, sender: Domain, relation: Relation, message: InterestChanged) -> None:
        group, interest = message.group, message.interest
        if relation is CHILD:
            if interest is not Interest.NONE:
                self._renewed(sender, group)
            shift, why = self.table.hear_child(group, sender, interest), "too many groups"
        else:
            shift, why = self.table.hear_outer(group, sender, interest), "no row"
        if shift is None:
            self._ignore(message, why)
        else:
            self._apply(group, shift)

    def _apply(self, group: Group, shift: Shift) -> None:
        """Announce what a change to a row means, and end the merges without a waiting neighbour."""
        if shift.made:
            self._effects.append(Noted("row made", str(group)))
        if shift.dropped:
            self._effects.append(Noted("row dropped", str(group)))
        if shift.outward is not None:
            outward = InterestChanged(self._new_id(), group, shift.outward)
            self._send_all(self.neighbours.outer(group), outward)
        if shift.inward is not None and not self.cluster:
            inward = InterestChanged(self._new_id(), group, shift.inward)
            self._send_all(self.table.rows[group].holders, inward)
        open_now = self.collections.of(group)
        if open_now:
            if self.table.inner(group) is not ALL:
                self.collections.unshare(group, Side.OUTER)
            if self.table.outer(group) is not ALL:
                self.collections.unshare(group, Side.INNER)
            for collection in open_now:
                self._cancel_if_pointless(collection)

    def _cancel_if_pointless(self, collection: Collection) -> None:
        """A merge serves neighbours with interest ALL; later ones send a request of their own (C-136)."""
        match collection.kind:
            case CollectionKind.PUSH if (
                collection.peer and self.table.want(collection.group, collection.peer) < ALL
            ):
                self._close(collection)
            case CollectionKind.PULL if self.table.inner(collection.group) < ALL:
                self._close(collection)

    def _sync_done(self, sender: Domain, message: SyncDone) -> None:
        if sender not in self.neighbours.unsynced:
            self._ignore(message, "nothing to sync")
            return
        self.neighbours.unsynced.discard(sender)
        for group in sorted(self._unrenewed.pop(sender, ())):
            # Its last members went while it changed hands, and it has nothing to say of the group any more.
            empty = EndpointsJoined(self._new_id(), group, (), Cause.MERGE, Part(True, sender))
            self._announce(sender, CHILD, empty)
            self._apply(group, self.table.hear_child(group, sender, Interest.NONE) or NO_SHIFT)
        self._say_sync_done()

    def _renewed(self, child: Domain, group: Group) -> None:
        if child in self._unrenewed:
            self._unrenewed[child].discard(group)

    def _say_sync_done(self) -> None:
        """To the parent, once per epoch, when all children that are up have announced theirs (C-101)."""
        parent = self.neighbours.parent
        if parent in self.neighbours.up and not self.neighbours.unsynced and not self._said_sync_done:
            self._said_sync_done = True
            self._send(parent, SyncDone(self._new_id()))

    # Resolve

    def _resolve_asked(self, sender: Domain, relation: Relation, message: ResolveRequest) -> None:
        if self.neighbours.hop_towards(message.id.server) != sender:
            # Under the id of another's question it would be taken for that one, here or farther on.
            self._ignore(message, OUTSIDE)
            return
        if message.id in self.collections.questions or self.collections.is_waiting(sender, message):
            self._ignore(message, "request already open")
            return
        per_host = 1 if relation is CHILD and self.cluster else SERVERS_WEIGH
        if self.collections.asked_by.get(sender, 0) >= self._config.questions_of_host_max * per_host:
            self._ignore(message, "too many questions")
            return
        if self.collections.must_wait(sender, message.group):
            self.collections.wait(sender, message)
        else:
            self._ask(sender, relation, (message,))

    def _ask(self, sender: Domain, relation: Relation, messages: tuple[ResolveRequest, ...]) -> None:
        """Forward questions about one group as one request."""
        message = messages[0]
        group = message.group
        parts: list[Collection] = []
        targets: list[Domain] = []
        if relation is not CHILD:
            shared = None if self.cluster else self.collections.shared(group, Side.INNER)
            parts.append(shared or self._part(message, Side.INNER, self.table.child_holders(group), targets))
        else:
            if self.neighbours.in_range(group, SIBLING):
                shared = self.collections.shared(group, Side.OUTER)
                parts.append(
                    shared or self._part(message, Side.OUTER, self.table.outer_holders(group), targets)
                )
            if self.cluster:
                agents = tuple(agent for agent in self.table.child_holders(group) if agent != sender)
                parts.append(self._part(message, Side.INNER, agents, targets, besides=sender))
        if not any(part.waiting or part.questions for part in parts):
            for each in messages:
                self._reply(each.id, sender, group, ())
            return
        for part in parts:
            if part.questions:
                self._effects.append(Noted("collection shared", f"{part.kind.value} {group}"))
            else:
                self._open(part)
                self._offer(part)
        rests_on = tuple(parts)
        questions = tuple([Question(each.id, sender, rests_on) for each in messages])
        for question in questions:
            self.collections.ask(question)
        self._send_all(targets, message)
        self._answer(questions)

    def _part(
        self,
        message: ResolveRequest,
        side: Side,
        waiting: tuple[Domain, ...],
        targets: list[Domain],
        *,
        besides: Domain | None = None,
    ) -> Collection:
        targets.extend(waiting)
        rise = self.table.rise_of(message.group)
        return Collection(
            message.id, message.group, CollectionKind.RESOLVE, side, waiting, rise=rise, besides=besides
        )

    def _offer(self, part: Collection) -> None:
        """Share a collection with later questions for as long as every change on its side reaches us: while
        the askers' interest is ALL, and was announced to that side before it answered (C-174)."""
        if not self._config.share_collections:
            return
        if part.side is Side.OUTER:
            if self.table.inner(part.group) is ALL:
                self.collections.share(part)
        elif not self.cluster and part.group in self.table.rows and self.table.outer(part.group) is ALL:
            self.collections.share(part)

    def _resolve_answered(self, sender: Domain, relation: Relation, message: ResolveReply) -> None:
        side = _side(relation)
        collection = self.collections.find(message.id, side)
        if collection is None or sender not in collection.waiting or collection.group != message.group:
            self._ignore(message, "late reply")
            return
        if side is Side.OUTER:
            shift = self.table.confirm(message.group, sender, message.interest, collection.rise)
            self._apply(message.group, shift)
        members = self.neighbours.credible(sender, relation, message.group, message.members)
        if members is not message.members:
            # The reply is owed, so the rest of it counts.
            self._ignore(message, "record outside the sender's side")
        collection.add(members)
        collection.waiting.discard(sender)
        self._complete_if_answered(collection)

    def _complete_if_answered(self, collection: Collection) -> None:
        """When no neighbour is awaited any more, a collection ends by its kind (C-123, C-124, T-22)."""
        if collection.waiting:
            return
        match collection.kind:
            case CollectionKind.RESOLVE:
                self._answer(tuple(collection.questions))
            case CollectionKind.PUSH:
                self._close(collection)
                assert collection.peer is not None
                self._send(collection.peer, self._baseline(collection, Part(True, self.domain)))
            case CollectionKind.PULL:
                self._close(collection)
                assert collection.peer is not None
                relation = self.neighbours.up[collection.peer]
                theirs = self.neighbours.side_of(collection.peer, relation)
                self._announce(collection.peer, relation, self._baseline(collection, theirs))

    def _baseline(self, collection: Collection, part: Part) -> EndpointsJoined:
        members = by_endpoint(collection.members)
        return EndpointsJoined(self._new_id(), collection.group, members, Cause.MERGE, part)

    def _answer(self, questions: tuple[Question, ...]) -> None:
        """Answer the questions of collections that await no neighbour any more."""
        rests_on: tuple[Collection, ...] = ()
        listed: Members = ()
        for question in questions:
            if not question.answered:
                continue
            if question.parts is not rests_on:
                rests_on = question.parts
                members = rests_on[0].members
                for part in rests_on[1:]:
                    members = members | part.members
                listed = by_endpoint(members)
            source, group = question.source, rests_on[0].group
            for part in self.collections.drop(question):
                self._close(part)
            self._reply(question.id, source, group, listed)
            if waiting := self.collections.wait_no_longer(source, group):
                self._ask(source, self.neighbours.up[source], waiting)

    def _reply(self, id: MessageId, to: Domain, group: Group, members: Members) -> None:
        if to == self.domain:
            self._effects.append(ResolvedHere(self._here.pop(id), members))
            return
        interest = self.table.advertised(group, self.neighbours.up[to])
        self._send(to, ResolveReply(id, group, members, interest))

    def _open(self, collection: Collection) -> None:
        self.collections.open(collection)
        self._effects.append(Noted("collection opened", f"{collection.kind.value} {collection.group}"))

    def _close(self, collection: Collection) -> None:
        self.collections.close(collection)
        self._effects.append(Noted("collection closed", f"{collection.kind.value} {collection.group}"))
        if collection.peer is not None:
            self.merges.ended(collection.peer)
            self._start_merges(collection.peer)

    # Links

    def _link_down(self, peer: Domain, because: Because) -> None:
        """In the order of C-131: the neighbours to notify are known only before the entries are dropped, and
        a collection must drop the lost members before the loss completes it."""
        relation = self.neighbours.up[peer]
        self.merges.forget(peer)
        self._unrenewed.pop(peer, None)
        rows = self.table.rows_of(peer, relation)
        affected = tuple([group for group in rows if self.table.want(group, peer)])
        self.neighbours.disconnect(peer)
        for group in rows:
            self.table.forget(group, peer, relation)
        side, lost = _side(relation), self.neighbours.side_of(peer, relation)
        for collection in self.collections:
            if collection.counts(peer, side):
                collection.lose(lost)
        self._discard_asked_by(peer)
        if affected:
            notice = DomainFailed(self._new_id(), affected, lost.domain, not lost.within, because)
            self._spread_failure(peer, relation, affected, notice)
        for collection in self.collections:
            if collection.kind is CollectionKind.PULL and collection.peer == peer:
                self._close(collection)
            elif peer in collection.waiting:
                collection.waiting.discard(peer)
                self._complete_if_answered(collection)
        for group in rows:
            self._apply(group, self.table.reconsider(group))
        if relation is CHILD:
            self._say_sync_done()

    def _discard_asked_by(self, peer: Domain) -> None:
        self.collections.forget_waiting(peer)
        for question in [asked for asked in self.collections.questions.values() if asked.source == peer]:
            for part in self.collections.drop(question):
                self._close(part)
        for collection in self.collections:
            if collection.kind is CollectionKind.PUSH and collection.peer == peer:
                self._close(collection)

    def _link_up(self, peer: Domain, relation: Relation) -> None:
        self.neighbours.connect(peer, relation)
        # The new neighbour was not asked yet, so later questions cannot share an open collection.
        self.collections.unshare_all(_side(relation))
        self._greet(peer, relation)

    def _link_moved(self, peer: Domain, relation: Relation) -> None:
        """C-162: as if the neighbour had gone and come back, without a notice. Its requests are void, ours to
        it are sent again. Its interest entries are dropped; those of a child only when it has announced
        all it has (C-101)."""
        self.merges.forget(peer)
        self._discard_asked_by(peer)
        self.collections.unshare_all(_side(relation))
        rows = self.table.rows_of(peer, relation)
        if relation is CHILD:
            self.neighbours.unsynced.add(peer)
            self._unrenewed[peer] = set(rows)
        else:
            for group in rows:
                self.table.forget(group, peer, relation)
            for collection in self.collections:
                if collection.kind is CollectionKind.PULL and collection.peer == peer:
                    self._close(collection)
        self._greet(peer, relation)
        self._ask_again(peer, relation)

    def _ask_again(self, peer: Domain, relation: Relation) -> None:
        """Repeat all requests that are being collected on its side: an answer of its predecessor may have
        become wrong."""
        side, theirs = _side(relation), self.neighbours.side_of(peer, relation)
        for collection in self.collections:
            if (
                collection.side is not side
                or collection.kind is CollectionKind.PULL
                or peer == collection.besides
                or not self.neighbours.in_range(collection.group, relation)
            ):
                continue
            collection.lose(theirs)
            collection.waiting.add(peer)
            self._send(peer, ResolveRequest(collection.id, collection.group))

    def _greet(self, peer: Domain, relation: Relation) -> None:
        if relation is CHILD:
            # The child announces what it has; all we do is give it the permanent names (C-133, C-012).
            if (own := self.registry.own.get(REGISTRY)) is not None:
                self._effects.append(Secure(own))
            for record in self.registry.records():
                self._send(peer, self._registry_message(record))
            return
        if relation is PARENT:
            self._said_sync_done = False
        rows = self.table.rows_of(peer, relation)
        for group in rows:
            self._apply(group, self.table.reconsider(group))
        for group in rows:
            self._send(peer, InterestChanged(self._new_id(), group, self.table.inner(group)))
        if relation is PARENT:
            self._say_sync_done()
        for group in rows:
            if relation is PARENT:
                self.merges.add(peer, CollectionKind.PUSH, group)
            if self.table.inner(group) is ALL:
                self.merges.add(peer, CollectionKind.PULL, group)
        self._start_merges(peer)

    def _start_merges(self, peer: Domain) -> None:
        """Start the merges that are due, of groups that still have members below (C-178)."""
        while (due := self.merges.next(peer)) is not None:
            kind, group = due
            if kind is CollectionKind.PULL:
                targets: tuple[Domain, ...] = (peer,)
                wanted, side = self.table.inner(group) is ALL, Side.OUTER
            else:
                targets = self.table.child_holders(group)
                wanted, side = bool(targets) and self.table.want(group, peer) is ALL, Side.INNER
            if wanted:
                self.merges.began(peer)
                self._merge(kind, side, group, peer, targets)

    def _merge(
        self, kind: CollectionKind, side: Side, group: Group, peer: Domain, targets: tuple[Domain, ...]
    ) -> None:
        """After a link came up: collect our own list for the parent, or the neighbour's for our children
        (C-134). A sibling pulls for itself, so only a parent is pushed to, and one push is all that a server
        needs, however many neighbours came up with the parent (C-177)."""
        request = ResolveRequest(self._new_id(), group)
        rise = self.table.rise_of(group)
        self._open(Collection(request.id, group, kind, side, targets, rise=rise, peer=peer))
        self._send_all(targets, request)

    # Permanent groups

    def _asked(self, token: int, request: object) -> None:
        match request:
            case Register(group):
                self._change_registry(token, group, self.registry.register, is_new=True)
            case Unregister(group):
                self._change_registry(token, group, self.registry.unregister)
            case Inspect():
                self._effects.append(Answer(token, Inspected(document_of_server(self))))
            case _:
                refusal = NotAllowed(
                    f"the server of {self.domain} has no programs of its own",
                    fix="ask the agent of your host",
                )
                self._effects.append(Answer(token, denied(refusal)))

    def _change_registry(
        self,
        token: int,
        group: Group,
        change: Callable[[Group], KeyedRecord | None],
        *,
        is_new: bool = False,
    ) -> None:
        """The change is on disk, and with a majority of replicas, before it is answered, and answered before
        it is announced (C-012). A request that changes nothing waits too: the record may not be replicated
        yet."""
        try:
            make_group(group.name, group.scope)
            if is_new:
                check_public(group.name)
            if group.scope != self.domain:
                raise NotAllowed(
                    f"{group} belongs to the server of {group.scope}; this is the server of {self.domain}",
                    fix=f"ask the server of {group.scope}",
                )
            changed = change(group)
        except (BadName, NotAllowed, NotAvailable, StoreFailed, TooLarge) as refusal:
            self._effects.append(Answer(token, denied(refusal)))
            return
        if (record := self.registry.own.get(REGISTRY)) is not None:
            self._effects.append(Secure(record))
        self._effects.append(Answer(token, Done()))
        if changed is not None:
            told = self.registry.record(self.domain)
            assert told is not None, "it was changed just now"
            self._tell_registry(told)

    def _registry_told(self, relation: Relation, message: RegistryTold) -> None:
        scope = message.scope
        if relation is not PARENT or scope == self.domain or not inside(scope, self.domain):
            self._ignore(message, "out of scope")
        elif not self.registry.apply(scope, message.version, message.names):
            self._ignore(message, "older registry")
        else:
            record = RegistryRecord(scope, message.version, tuple(sorted(message.names)))
            self._effects.append(Persist(record))
            self._tell_registry(record)

    def _tell_registry(self, record: RegistryRecord) -> None:
        self._send_all(self.neighbours.children, self._registry_message(record))

    def _registry_message(self, record: RegistryRecord) -> RegistryTold:
        return RegistryTold(self._new_id(), record.scope, record.version, record.names)

    def _in_scope(self, message: object, group: Group, relation: Relation) -> bool:
        """No message about a group may come from, or go to, where the group does not reach (C-009, C-010)."""
        if self.neighbours.in_range(group, relation):
            return True
        self._ignore(message, "out of scope")
        return False

    def _new_id(self) -> MessageId:
        self._sequence += 1
        return MessageId(self.domain, self.incarnation, self._sequence)

    def _send(self, to: Domain, message: ServerMessage) -> None:
        self._effects.append(Send(to, message))

    def _send_all(self, peers: Iterable[Domain], message: ServerMessage) -> None:
        self._effects += [Send(peer, message) for peer in peers]

    def _ignore(self, what: object, why: str) -> None:
        self._effects.append(ignored(what, why))


def _side(relation: Relation) -> Side:
    return Side.INNER if relation is CHILD else Side.OUTER
