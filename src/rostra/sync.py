"""The same API for programs of threads: no event loop in sight.

    with rostra.sync.connect() as me, me.join("chess", scope="eu") as chess:
        for item in chess:
            ...

    your threads ── calls ──▶ │ one loop in a thread of its own │ ══ socket ══ agent
                 ◀─ results ─ │ the asynchronous client         │

Each `connect` starts one such thread and ends it when it is closed. All methods may be called from any
thread, block until they have their answer, and take a `deadline_s`. Ctrl-C ends the wait and gives up what
was asked. Names, errors, items and states are those of `rostra`.
"""

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, Literal, ParamSpec, Self, TypeVar, overload

import rostra.client as client
from rostra.client import (
    AgreedItem,
    Blocked,
    Change,
    Gap,
    GroupItem,
    Item,
    Life,
    Members,
    Message,
    NotDelivered,
    State,
    View,
)
from rostra.client.choices import Delivery, WeakMembership
from rostra.client.choices import Membership as MembershipKind
from rostra.client.connect import CONNECT_TIMEOUT_S, REJOIN_WITHIN_S
from rostra.client.connection import SILENCE_S_MAX
from rostra.client.conversation import READY_WITHIN_S, RoleName, SlowName
from rostra.client.groups import Groups, Where
from rostra.client.joining import HearsName
from rostra.client.leadership import SURVIVE, Candidacy, Term, candidate
from rostra.client.ordered import OrderName, StableName
from rostra.client.ordered_threads import OrderedOfThreads as Ordered
from rostra.client.replicated import SURVIVE as REPLICAS_SURVIVE
from rostra.client.replicated_threads import replicate_in_threads
from rostra.client.session import OnLost, OnState
from rostra.client.sets import ReceivedItem, SequenceItem, SetItem
from rostra.client.streams import BATCH_MAX, again
from rostra.client.threads import BlockingContext, Portal, ThreadItems, all_of, blocking, entered
from rostra.client.threads import ThreadStream as Stream
from rostra.client.transfer import Give, Reconcile, Take
from rostra.names import Domain, Endpoint, Group

__all__ = [
    *(
        "Admin",
        "AgreedConversation",
        "AgreedMembership",
        "Conversation",
        "Me",
        "Membership",
        "Ordered",
        "Sequence",
        "Stream",
        "TransientSet",
        "Watch",
    ),
    *("connect", "connect_admin"),
]

T = TypeVar("T")
P = ParamSpec("P")


def connect(
    address: str | None = None,
    token: str | None = None,
    *,
    name: str | None = None,
    timeout_s: float = CONNECT_TIMEOUT_S,
    on_lost: OnLost = "rejoin",
    rejoin_within_s: float | None = REJOIN_WITHIN_S,
    silence_s: float = SILENCE_S_MAX,
    on_state: OnState | None = None,
) -> "Me":
    """Connect to an agent and open an endpoint there; see `rostra.connect`. `on_state` is called in the
    loop's thread, and must not wait for anything."""
    connecting = client.connect(
        address,
        token,
        name=name,
        timeout_s=timeout_s,
        on_lost=on_lost,
        rejoin_within_s=rejoin_within_s,
        silence_s=silence_s,
        on_state=on_state,
    )
    portal = Portal()
    return Me(portal, portal.begin(connecting), owns_portal=True)


def connect_admin(
    address: str | None = None,
    token: str | None = None,
    *,
    domain: str | None = None,
    timeout_s: float = CONNECT_TIMEOUT_S,
) -> "Admin":
    """Connect to the server of a domain (or to an agent); see `rostra.connect_admin`."""
    connecting = client.connect_admin(address, token, domain=domain, timeout_s=timeout_s)
    portal = Portal()
    return Admin(portal, portal.begin(connecting))


G = TypeVar(
    "G",
    bound=client.Membership
    | client.Watch
    | client.Conversation
    | client.AgreedMembership
    | client.AgreedConversation,
)


class _InGroup(BlockingContext, Generic[G]):
    """What a group is to an endpoint, however it is in it."""

    def __init__(self, portal: Portal, inner: G) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def group(self) -> Group:
        return self._inner.group

    @property
    def members(self) -> Members:
        """Who is in the group, from this program's own copy."""
        return self._portal.read(lambda: self._inner.members)

    def close(self) -> None:
        if not self._inner.me.is_closed:
            self._portal.call(self._inner.close())


F = TypeVar("F", bound=client.Membership | client.Watch)


class _Followed(_InGroup[F], Generic[F, T]):
    """What `Membership` and `Watch` share: reading the copy."""

    @property
    def is_known(self) -> bool:
        return self._portal.read(lambda: self._inner.is_known)

    def ready(self, *, deadline_s: float | None = None) -> Self:
        """Wait for the first list."""
        self._portal.call(self._inner.ready(deadline_s=deadline_s))
        return self

    def __iter__(self) -> Stream[T]:
        return self.changes()

    def changes(self, *, timeout_s: float | None = None) -> Stream[T]:
        """What happens from now on, a member's beginning with a `View`; `DeadlineExceeded` if nothing does
        for `timeout_s`."""
        stream: Any = self._portal.read(self._inner.__aiter__)
        return Stream(self._portal, stream, timeout_s)

    def batches(self, most: int = BATCH_MAX, *, timeout_s: float | None = None) -> Iterator[list[T]]:
        return self.changes(timeout_s=timeout_s).batches(most)


class Membership(_Followed[client.Membership, Item]):
    """This endpoint is in the group, until `leave` or the end of its ``with``."""

    send = blocking(client.Membership.send)
    leave = blocking(client.Membership.leave)
    set_online = blocking(client.Membership.set_online)


R = TypeVar("R", bound=client.Conversation | client.AgreedMembership | client.AgreedConversation)
S = TypeVar("S", bound=client.Conversation | client.AgreedConversation)
V = TypeVar("V", bound=client.AgreedMembership | client.AgreedConversation)


class _OneReader(_InGroup[R], Generic[R]):
    """A group with one stream of items, which one thread reads."""

    def leave(self, *, deadline_s: float | None = None) -> None:
        self._portal.call(self._inner.leave(deadline_s=deadline_s))


class _WithMessages(_OneReader[S], Generic[S]):
    @property
    def unconfirmed(self) -> int:
        """When we left: how many of our messages some member may not have."""
        return self._portal.read(lambda: self._inner.unconfirmed)

    def __iter__(self) -> ThreadItems[GroupItem]:
        return self.items()

    def items(self, *, batch: int = 0, timeout_s: float | None = None) -> ThreadItems[GroupItem]:
        """What happens, in order; `DeadlineExceeded` if nothing does for `timeout_s`. See
        `rostra.Conversation.items`."""
        return ThreadItems(self._portal, self._inner.items(batch=batch), timeout_s)


class _WithViews(_OneReader[V], Generic[V]):
    @property
    def view(self) -> View | None:
        return self._portal.read(lambda: self._inner.view)

    @property
    def blocked(self) -> Blocked | None:
        return self._portal.read(lambda: self._inner.blocked)

    @property
    def rank(self) -> int | None:
        return self._portal.read(lambda: self._inner.rank)

    def ready(self, *, deadline_s: float | None = None) -> Self:
        """Wait for the first view, or for the end of a standstill."""
        self._portal.call(self._inner.ready(deadline_s=deadline_s))
        return self


class Conversation(_WithMessages[client.Conversation]):
    """This endpoint is in a group with ``delivery="fifo"``, until `leave` or the end of its ``with``; see
    `rostra.Conversation`. One thread reads it; any may send."""

    @property
    def is_known(self) -> bool:
        return self._portal.read(lambda: self._inner.is_known)

    def ready(self, *, deadline_s: float | None = READY_WITHIN_S) -> Self:
        """Wait for the first list."""
        self._portal.call(self._inner.ready(deadline_s=deadline_s))
        return self

    send = blocking(client.Conversation.send)
    send_many = blocking(client.Conversation.send_many)


class AgreedConversation(_WithViews[client.AgreedConversation], _WithMessages[client.AgreedConversation]):
    """This endpoint is in a group with ``membership="agreed"`` and ``delivery="fifo"``, until `leave` or the
    end of its ``with``; see `rostra.AgreedConversation`. One thread reads it; any may send."""

    send = blocking(client.AgreedConversation.send)
    send_many = blocking(client.AgreedConversation.send_many)


class AgreedMembership(_WithViews[client.AgreedMembership]):
    """This endpoint is in a group with ``membership="agreed"``, until `leave` or the end of its ``with``; see
    `rostra.AgreedMembership`. One thread reads it."""

    def __iter__(self) -> ThreadItems[AgreedItem]:
        return self.items()

    def items(self, *, timeout_s: float | None = None) -> ThreadItems[AgreedItem]:
        """Views, and standstills; `DeadlineExceeded` if nothing happens for `timeout_s`."""
        return ThreadItems(self._portal, self._inner, timeout_s)

    def attributes_of(self, endpoint: Endpoint | str) -> dict[str, str]:
        return self._portal.read(lambda: self._inner.attributes_of(endpoint))

    def matching(self, where: Where) -> tuple[Endpoint, ...]:
        """Members of the last view with these attributes, in order of rank."""
        return self._portal.read(lambda: self._inner.matching(where))

    look = blocking(client.AgreedMembership.look)
    set_attributes = blocking(client.AgreedMembership.set_attributes)
    sites = blocking(client.AgreedMembership.sites)
    send_to = blocking(client.AgreedMembership.send_to)


class _Groups:
    """Agreed groups as a whole; see `rostra.client.groups.Groups`."""

    def __init__(self, portal: Portal, groups: Groups) -> None:
        self.create = portal.blocking(groups.create)
        self.set_attributes = portal.blocking(groups.set_attributes)
        self.delete = portal.blocking(groups.delete)
        self.remove = portal.blocking(groups.remove)
        self.split = portal.blocking(groups.split)
        self.merge = portal.blocking(groups.merge)
        self.leave = portal.blocking(groups.leave)
        self.look = portal.blocking(groups.look)
        self.list = portal.blocking(groups.list)
        self.sites = portal.blocking(groups.sites)


class _Standing:
    """For ``with``: waits for its turn. A thread cannot be cancelled: it calls `check` of the `Term` before
    each step that only the holder may do, and the ``with`` raises `LeadershipLost` at its end."""

    def __init__(
        self,
        portal: Portal,
        candidacy: Candidacy,
        deadline_s: float | None,
        on_lost: Callable[[], object] | None,
    ) -> None:
        self._portal = portal
        self._candidacy = candidacy
        self._deadline_s = deadline_s
        self._on_lost = on_lost

    def __enter__(self) -> Term:
        self._portal.call(self._candidacy.stand(self._deadline_s, self._on_lost))
        return Term(self._candidacy)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._candidacy.me.is_closed:
            self._portal.call(self._candidacy.resign())
        if error is None and self._candidacy.lost is not None:
            raise again(self._candidacy.lost)


class Watch(_Followed[client.Watch, Change]):
    """This endpoint follows the group from outside, until the end of its ``with``."""


class TransientSet(BlockingContext):
    """A set that this endpoint made; see `rostra.TransientSet`."""

    def __init__(self, portal: Portal, inner: client.TransientSet) -> None:
        self._portal, self._inner = portal, inner

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def group(self) -> Group:
        return self._inner.group

    @property
    def members(self) -> tuple[Endpoint, ...]:
        return self._portal.read(lambda: self._inner.members)

    add = blocking(client.TransientSet.add)
    delete = blocking(client.TransientSet.delete)

    def sequence(self, *, deadline_s: float | None = None) -> "Sequence":
        return Sequence(self._portal, self._portal.call(entered(self._inner.sequence(deadline_s=deadline_s))))

    def changes(self, *, timeout_s: float | None = None) -> Stream[SetItem]:
        return Stream(self._portal, self._portal.read(self._inner.__aiter__), timeout_s)

    def close(self) -> None:
        self._portal.call(self._inner.close())


class Sequence(BlockingContext):
    """Messages to the members that a set had when it began; see `rostra.Sequence`."""

    def __init__(self, portal: Portal, inner: client.Sequence) -> None:
        self._portal, self._inner = portal, inner

    @property
    def destinations(self) -> tuple[Endpoint, ...]:
        return self._portal.read(lambda: self._inner.destinations)

    send = blocking(client.Sequence.send)

    def changes(self, *, timeout_s: float | None = None) -> Stream[SequenceItem]:
        """Replies, and destinations that are lost."""
        return Stream(self._portal, self._portal.read(self._inner.__aiter__), timeout_s)

    def close(self) -> None:
        self._portal.call(self._inner.close())


class Me(BlockingContext):
    """One endpoint; see `rostra.Me`. Its methods may be called from any thread."""

    def __init__(self, portal: Portal, inner: client.Me, *, owns_portal: bool) -> None:
        self._portal = portal
        self._inner = inner
        self._owns_portal = owns_portal

    def __repr__(self) -> str:
        return repr(self._inner)

    @property
    def endpoint(self) -> Endpoint:
        return self._inner.endpoint

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def host(self) -> Domain:
        return self._inner.host

    @property
    def world(self) -> str:
        return self._inner.world

    @property
    def state(self) -> State:
        return self._inner.state

    @property
    def is_open(self) -> bool:
        return self._inner.is_open

    def states(self, *, timeout_s: float | None = None) -> Stream[State]:
        return Stream(self._portal, self._portal.read(self._inner.states), timeout_s)

    connected = blocking(client.Me.connected)

    def open(self, name: str | None = None) -> "Me":
        """One more endpoint on the same connection."""
        return Me(self._portal, self._portal.call(entered(self._inner.open(name))), owns_portal=False)

    def close(self) -> None:
        """Leave every group."""
        if not self._inner.is_closed:
            self._portal.call(self._inner.close())
        if self._owns_portal:
            self._portal.close()

    @overload
    def join(
        self,
        group: str,
        scope: str = ...,
        *,
        membership: Literal["agreed"],
        delivery: Literal["none"] = ...,
        survive: str = ...,
        create: bool = ...,
        meta: bytes = ...,
        credential: bytes = ...,
        attributes: Where | None = ...,
        deadline_s: float | None = ...,
    ) -> AgreedMembership: ...

    @overload
    def join(
        self,
        group: str,
        scope: str = ...,
        *,
        membership: Literal["agreed"],
        delivery: Literal["fifo"],
        role: RoleName = ...,
        slow: SlowName = ...,
        survive: str = ...,
        create: bool = ...,
        meta: bytes = ...,
        credential: bytes = ...,
        deadline_s: float | None = ...,
    ) -> AgreedConversation: ...

    @overload
    def join(
        self,
        group: str,
        scope: str = ...,
        *,
        membership: MembershipKind = ...,
        delivery: Literal["atomic"],
        order: OrderName | None = ...,
        stable: StableName = ...,
        give: Give | None = ...,
        take: Take | None = ...,
        reconcile: Reconcile | None = ...,
        slow: SlowName = ...,
        survive: str = ...,
        create: bool = ...,
        meta: bytes = ...,
        credential: bytes = ...,
        attributes: Where | None = ...,
        deadline_s: float | None = ...,
    ) -> Ordered: ...

    @overload
    def join(
        self,
        group: str,
        scope: str = ...,
        *,
        membership: WeakMembership = ...,
        delivery: Literal["none"] = ...,
        online: bool = ...,
        meta: bytes = ...,
        permanent: bool = ...,
        credential: bytes = ...,
        unique: bool = ...,
        hears: HearsName = ...,
        wait: bool = ...,
        deadline_s: float | None = ...,
    ) -> Membership: ...

    @overload
    def join(
        self,
        group: str,
        scope: str = ...,
        *,
        membership: WeakMembership = ...,
        delivery: Literal["fifo"],
        role: RoleName = ...,
        slow: SlowName = ...,
        meta: bytes = ...,
        credential: bytes = ...,
        wait: bool = ...,
        deadline_s: float | None = ...,
    ) -> Conversation: ...

    @overload
    def join(
        self,
        group: str,
        scope: str = ...,
        *,
        membership: MembershipKind = ...,
        delivery: Delivery,
        online: bool = ...,
        role: RoleName = ...,
        slow: SlowName = ...,
        meta: bytes = ...,
        permanent: bool = ...,
        credential: bytes = ...,
        unique: bool = ...,
        hears: HearsName = ...,
        wait: bool = ...,
        survive: str = ...,
        create: bool = ...,
        attributes: Where | None = ...,
        deadline_s: float | None = ...,
    ) -> Membership | Conversation | AgreedMembership | AgreedConversation | Ordered: ...

    def join(
        self,
        group: str,
        scope: str = "world",
        *,
        membership: MembershipKind = "relaxed",
        delivery: Delivery = "none",
        online: bool = True,
        role: RoleName = "both",
        slow: SlowName = "throttle",
        meta: bytes = b"",
        permanent: bool = False,
        credential: bytes = b"",
        unique: bool = False,
        hears: HearsName = "all",
        wait: bool = False,
        survive: str = "any",
        create: bool = True,
        attributes: Where | None = None,
        order: OrderName | None = None,
        stable: StableName = "all",
        give: Give | None = None,
        take: Take | None = None,
        reconcile: Reconcile | None = None,
        deadline_s: float | None = None,
    ) -> Membership | Conversation | AgreedMembership | AgreedConversation | Ordered:
        """Be in a group; see `rostra.Me.join`."""
        joining = self._inner.join(
            group,
            scope,
            membership=membership,
            delivery=delivery,
            online=online,
            role=role,
            slow=slow,
            meta=meta,
            permanent=permanent,
            credential=credential,
            unique=unique,
            hears=hears,
            wait=wait,
            survive=survive,
            create=create,
            attributes=attributes,
            order=order,
            stable=stable,
            give=give,
            take=take,
            reconcile=reconcile,
            deadline_s=deadline_s,
        )
        joined: Any = self._portal.call(entered(joining))
        if isinstance(joined, client.Conversation):
            return Conversation(self._portal, joined)
        if isinstance(joined, client.AgreedConversation):
            return AgreedConversation(self._portal, joined)
        if isinstance(joined, client.AgreedMembership):
            return AgreedMembership(self._portal, joined)
        if isinstance(joined, client.Ordered):
            return Ordered(self._portal, joined)
        return Membership(self._portal, joined)

    @property
    def groups(self) -> _Groups:
        """Agreed groups as a whole; see `rostra.Me.groups`."""
        return _Groups(self._portal, self._inner.groups)

    def lead(
        self,
        name: str,
        scope: str = "world",
        *,
        survive: str = SURVIVE,
        meta: bytes = b"",
        deadline_s: float | None = None,
        on_lost: Callable[[], object] | None = None,
    ) -> _Standing:
        """Be the leader of this name: ``with me.lead("scheduler") as term``; see `rostra.Me.lead`. A thread
        cannot be cancelled: call ``term.check()`` before each step that only the leader may do. `on_lost` is
        called in the loop's thread, and must not wait for anything."""
        candidacy = candidate(self._inner, "lead", name, scope, survive, meta)
        return _Standing(self._portal, candidacy, deadline_s, on_lost)

    def lock(
        self,
        name: str,
        scope: str = "world",
        *,
        survive: str = SURVIVE,
        deadline_s: float | None = None,
        on_lost: Callable[[], object] | None = None,
    ) -> _Standing:
        """Hold the lock of this name; see `rostra.Me.lock` and `lead`."""
        candidacy = candidate(self._inner, "lock", name, scope, survive)
        return _Standing(self._portal, candidacy, deadline_s, on_lost)

    replicate = replicate_in_threads

    def shares(
        self, name: str, keys: Iterable[str], scope: str = "world", *, survive: str = REPLICAS_SURVIVE
    ) -> Iterator[frozenset[str]]:
        """Share these keys with all others who call this; see `rostra.Me.shares`."""
        return all_of(self._portal, self._inner.shares(name, keys, scope, survive=survive))

    def create_set(
        self, scope: str = "world", *, readmit: bool = True, deadline_s: float | None = None
    ) -> TransientSet:
        """Make a set of our own; see `rostra.Me.create_set`."""
        making = self._inner.create_set(scope, readmit=readmit, deadline_s=deadline_s)
        return TransientSet(self._portal, self._portal.call(entered(making)))

    def sequence(self, group: str, scope: str = "world", *, deadline_s: float | None = None) -> Sequence:
        """Speak to those who are in a led group or transient set now; see `rostra.Me.sequence`."""
        opening = self._inner.sequence(group, scope, deadline_s=deadline_s)
        return Sequence(self._portal, self._portal.call(entered(opening)))

    def sets(self, *, timeout_s: float | None = None) -> Stream[ReceivedItem]:
        return Stream(self._portal, self._portal.read(self._inner.sets), timeout_s)

    leave_set = blocking(client.Me.leave_set)
    reply = blocking(client.Me.reply)

    def watch(
        self,
        group: str,
        scope: str = "world",
        *,
        resume: str | None = None,
        deadline_s: float | None = None,
    ) -> Watch:
        """Follow a group from outside; see `rostra.Me.watch`."""
        watching = self._inner.watch(group, scope, resume=resume, deadline_s=deadline_s)
        return Watch(self._portal, self._portal.call(entered(watching)))

    resolve = blocking(client.Me.resolve)
    send_to = blocking(client.Me.send_to)

    def messages(self, *, timeout_s: float | None = None) -> Stream[Message | NotDelivered | Gap]:
        """What is sent to this endpoint, from the first call of this on."""
        return Stream(self._portal, self._portal.read(self._inner.messages), timeout_s)

    def watch_life(self, endpoint: Endpoint | str) -> Iterator[Life]:
        """Is that endpoint there, and when does it go?"""
        return all_of(self._portal, self._inner.watch_life(endpoint))

    register = blocking(client.Me.register)
    unregister = blocking(client.Me.unregister)
    inspect = blocking(client.Me.inspect)


class Admin(BlockingContext):
    """One server, for administration; see `rostra.Admin`."""

    def __init__(self, portal: Portal, inner: client.Admin) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def path(self) -> Domain:
        return self._inner.path

    register = blocking(client.Admin.register)
    unregister = blocking(client.Admin.unregister)
    close_group = blocking(client.Admin.close_group)
    reopen_group = blocking(client.Admin.reopen_group)
    assign_name = blocking(client.Admin.assign_name)
    release_name = blocking(client.Admin.release_name)
    names = blocking(client.Admin.names)
    revoke = blocking(client.Admin.revoke)
    inspect = blocking(client.Admin.inspect)
    recall = blocking(client.Admin.recall)
    drain = blocking(client.Admin.drain)
    change_set = blocking(client.Admin.change_set)

    def close(self) -> None:
        self._portal.call(self._inner.close())
        self._portal.close()
