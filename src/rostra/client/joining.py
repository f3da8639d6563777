"""How an endpoint joins groups: one method for all kinds of them, and what it gives."""

import asyncio
from typing import TYPE_CHECKING, Literal, cast, overload

from rostra.client import choices
from rostra.client.agreed import AgreedMembership
from rostra.client.agreed_fifo import AgreedConversation
from rostra.client.conversation import Conversation, RoleName, SlowName
from rostra.client.group import Entering, Membership
from rostra.client.groups import Where
from rostra.client.listing import until_listed, waited_for
from rostra.client.ordered import Ordered, OrderName, StableName
from rostra.client.session import within
from rostra.client.transfer import Give, Reconcile, Take
from rostra.errors import BadInput, NotAvailable
from rostra.groups.attributes import Role, Slow
from rostra.groups.kinds import DeliveryKind, MembershipKind
from rostra.names import OPEN, make_group
from rostra.protocols.agreed.living import check_survive
from rostra.protocols.agreed.requests import JoinAgreed
from rostra.protocols.agreed.sheets import encode_member, properties_of
from rostra.protocols.atomic.config import ordered_kind, why_not_ordered
from rostra.protocols.atomic.requests import JoinOrdered

if TYPE_CHECKING:
    from rostra.client.me import Me


HearsName = Literal["all", "members"]

AgreedStay = AgreedMembership | AgreedConversation | Ordered

Joining = (
    Entering[Membership]
    | Entering[Conversation]
    | Entering[AgreedMembership]
    | Entering[AgreedConversation]
    | Entering[Ordered]
)


class Joins:
    """The part of `Me` that joins."""

    __slots__ = ()

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
    ) -> Entering[AgreedMembership]: ...

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
    ) -> Entering[AgreedConversation]: ...

    @overload
    def join(
        self,
        group: str,
        scope: str = ...,
        *,
        membership: choices.Membership = ...,
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
    ) -> Entering[Ordered]: ...

    @overload
    def join(
        self,
        group: str,
        scope: str = ...,
        *,
        membership: choices.WeakMembership = ...,
        delivery: Literal["none"] = ...,
        online: bool = ...,
        meta: bytes = ...,
        permanent: bool = ...,
        credential: bytes = ...,
        unique: bool = ...,
        hears: HearsName = ...,
        wait: bool = ...,
        deadline_s: float | None = ...,
    ) -> Entering[Membership]: ...

    @overload
    def join(
        self,
        group: str,
        scope: str = ...,
        *,
        membership: choices.WeakMembership = ...,
        delivery: Literal["fifo"],
        role: RoleName = ...,
        slow: SlowName = ...,
        meta: bytes = ...,
        credential: bytes = ...,
        wait: bool = ...,
        deadline_s: float | None = ...,
    ) -> Entering[Conversation]: ...

    @overload
    def join(
        self,
        group: str,
        scope: str = ...,
        *,
        membership: choices.Membership = ...,
        delivery: choices.Delivery,
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
        order: OrderName | None = ...,
        stable: StableName = ...,
        give: Give | None = ...,
        take: Take | None = ...,
        reconcile: Reconcile | None = ...,
        deadline_s: float | None = ...,
    ) -> "Joining": ...

    def join(
        self,
        group: str,
        scope: str = "world",
        *,
        membership: choices.Membership = "relaxed",
        delivery: choices.Delivery = "none",
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
    ) -> "Joining":
        """Be in a group: ``async with me.join("chess", scope="eu") as chess``.

        `membership` and `delivery` say what the group promises. `meta` is shown to all beside our address.
        Without delivery: `online` is to get changes, and a copy of the list; `permanent`: only join a group
        that is registered.

        With ``delivery="fifo"``: `role` is "both", "send", "receive" or "submit". A submitter is no member:
        it is not listed, and its cluster's server sends for it. `slow` is for members that do not keep up:
        "throttle" makes senders wait, "expel" ends the membership, "spill" keeps messages on the disk of our
        cluster's server, and ends the membership only if that is full.

        With ``membership="agreed"``: `survive` says which side of a partition goes on: "any", "majority",
        "primary", or a rule such as "size > 3" (`docs/protocols/agreed.md`). ``create=False`` joins only one
        that exists, as it is. `attributes` are texts by name, seen by all members, which can be changed.
        With ``delivery="fifo"`` too, `role` and `slow` are as above, without "submit" and "spill".

        With ``delivery="atomic"``: all messages have one order, and views their places in it. With relaxed or
        led membership the majority of the last view's hosts goes on. `stable` says when a message is
        delivered, and `send` returns: "sent", "majority" or "all", when so many hosts of the view have it.
        `slow` is "throttle" or "expel". `give` makes the state
        of the group, as bytes or in pieces, for a member that joined with `take`, which is called with it
        before anything else is handed out. `reconcile` is for ``survive="any"``, when two sides meet again,
        each with its own order: see `docs/api.md`.

        With ``membership="led"``: with `online` the leader's list is sent to us whenever it changes. With
        ``delivery="fifo"`` too, `role` and `slow` are as above; `resolve` and `watch` show the leader's list.
        Without delivery, `hears` says whose sequences reach us: of "all", or of "members" alone. With `wait`,
        `join` returns when the leader's list has us, and otherwise when the agent has accepted it. If that
        takes longer than `deadline_s`, we are a member nonetheless: join again with `wait` to wait on.

        The scope `rostra.OPEN` is the smallest domain that contains all members: it grows and shrinks with
        them. Relaxed membership without delivery.

        `credential` is shown to the authority of a restricted name (``acme!payroll``), which decides. With
        `unique` we found the group: it has no member, and no other program founds it (`NameInUse`).
        """
        me = cast("Me", self)
        choices.check(membership, delivery)
        choices.check_octets(meta=meta, credential=credential)
        choices.check_callable(give=give, take=take, reconcile=reconcile)
        choices.check_flags(online=online, permanent=permanent, unique=unique, create=create, wait=wait)
        if wait and (membership != "led" or delivery == "atomic" or role == "submit"):
            raise BadInput(
                "wait=True without a leader whose list would have us",
                fix='it is for membership="led" without delivery="atomic" and role="submit"; leave it out',
            )
        if delivery == "none":
            spoken = {"role": role != "both", "slow": slow != "throttle"}
            choices.check_unused('delivery="none"', 'add delivery="fifo"', **spoken)
        elif delivery == "atomic":
            choices.check_unused(
                'delivery="atomic"', "leave it out: all members send and receive", role=role != "both"
            )
        if delivery != "atomic":
            choices.check_unused(
                *(f'delivery="{delivery}"', 'add delivery="atomic"'),
                order=order is not None,
                stable=stable != "all",
                give=give is not None,
                take=take is not None,
                reconcile=reconcile is not None,
            )
        if unique and (membership, delivery, permanent) != ("relaxed", "none", False):
            raise BadInput("unique=True with another kind of group", fix="leave the other settings out")
        choices.check_scope_apart(group, scope, me.host)
        key = make_group(group, scope)
        if scope == OPEN and (membership, delivery, permanent, unique) != ("relaxed", "none", False, False):
            raise NotAvailable(
                f"{key} with another kind of group: open scopes are for relaxed membership without delivery",
                fix="leave the other settings out, or name a scope",
            )
        if membership == "agreed":
            if not online or permanent:
                raise BadInput(
                    'membership="agreed" with online=False or permanent=True',
                    fix="leave these two out: members of an agreed group get its views",
                )
            check_survive(survive)
        if delivery == "atomic":
            if not online or permanent:
                raise BadInput(
                    'delivery="atomic" with online=False or permanent=True',
                    fix="leave these out: members of such a group get its views",
                )
            return self._join_ordered(
                JoinOrdered(
                    *(key, MembershipKind(membership), order or "", stable),
                    *("" if survive == "any" else survive, create),
                    encode_member(meta, properties_of(attributes or {})),
                    choices.one_of(Slow, "slow", slow),
                    credential,
                ),
                deadline_s,
                give,
                take,
                reconcile,
            )
        if membership == "agreed":
            join = JoinAgreed(
                key,
                DeliveryKind(delivery),
                "" if survive == "any" else survive,
                create,
                encode_member(meta, properties_of(attributes or {})),
                choices.one_of(Role, "role", role),
                choices.one_of(Slow, "slow", slow),
                credential,
            )
            if delivery == "fifo":

                async def enter_both() -> AgreedConversation:
                    conversation = AgreedConversation(me, join)
                    await within(
                        deadline_s, me._join_agreed(conversation), f"joining {key} was not confirmed"
                    )
                    return conversation

                return Entering(enter_both)

            async def enter_agreed() -> AgreedMembership:
                stay = AgreedMembership(me, join)
                await within(deadline_s, me._join_agreed(stay), f"joining {key} was not confirmed")
                return stay

            return Entering(enter_agreed)
        if membership == "led" and permanent:
            raise BadInput('membership="led" with permanent=True', fix="leave permanent out")
        if hears not in ("all", "members"):
            raise BadInput(f"hears={hears!r}", fix="use one of: all, members")
        if hears != "all" and (membership != "led" or delivery != "none"):
            raise BadInput(f"hears={hears!r}", fix='it is for membership="led" with delivery="none"')
        choices.check_unused(
            *(f'membership="{membership}"', 'add membership="agreed"'),
            survive=survive != "any",
            create=not create,
            attributes=bool(attributes),
        )
        if delivery == "fifo":
            if not online or permanent:
                raise BadInput(
                    'delivery="fifo" with online=False or permanent=True',
                    fix="leave these two out: who is spoken to is online",
                )
            kind = choices.one_of(Role, "role", role), choices.one_of(Slow, "slow", slow)
            if meta and kind[0] is Role.SUBMIT:
                raise BadInput('meta with role="submit"', fix="leave it out: members do not see who submits")

            async def enter_conversation() -> Conversation:
                conversation = Conversation(
                    *(me, key),
                    role=kind[0],
                    slow=kind[1],
                    meta=meta,
                    led=membership == "led",
                    credential=credential,
                )
                begun_s = asyncio.get_running_loop().time()
                known = waited_for(me._conversations.get(key), conversation) if wait else None
                if known is None:
                    await within(deadline_s, me._enter(conversation), f"joining {key} was not confirmed")
                if wait:
                    await until_listed(known or conversation, begun_s, deadline_s)
                return known or conversation

            return Entering(enter_conversation)

        async def enter() -> Membership:
            joined = Membership(
                me,
                key,
                meta=meta,
                permanent=permanent,
                led=membership == "led",
                credential=credential,
                unique=unique,
            )
            joined.closed = hears == "members"
            begun_s = asyncio.get_running_loop().time()
            known = waited_for(me._memberships.get(key), joined) if wait else None
            if known is None or known.is_online != online:
                known = None
                await within(deadline_s, me._join(joined, online), f"joining {key} was not confirmed")
            if wait:
                await until_listed(known or joined, begun_s, deadline_s)
            return known or joined

        return Entering(enter)

    def _join_ordered(
        self,
        join: JoinOrdered,
        deadline_s: float | None,
        give: Give | None = None,
        take: Take | None = None,
        reconcile: Reconcile | None = None,
    ) -> Entering[Ordered]:
        if join.slow is Slow.SPILL:
            raise NotAvailable(
                'slow="spill" is not there with delivery="atomic"', fix='use slow="throttle" or slow="expel"'
            )
        kind = ordered_kind(join.membership, join.order, join.stable, join.survive)
        if (refusal := why_not_ordered(kind)) is not None:
            raise refusal

        if reconcile is not None and (give is None or take is None or join.survive or kind.is_monitored):
            raise BadInput(
                'reconcile= without give= and take=, or with another rule than survive="any"',
                fix="add give= and take=; where one side goes on at most, there is nothing to reconcile",
            )
        me = cast("Me", self)

        async def enter_ordered() -> Ordered:
            ordered = Ordered(me, join, give, take, reconcile)
            await within(deadline_s, me._join_agreed(ordered), f"joining {join.group} was not confirmed")
            return ordered

        return Entering(enter_ordered)
