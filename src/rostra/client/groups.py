"""Agreed groups as a whole: `me.groups` (the calls of the paper's Table 2).

    await me.groups.create("db", scope="eu", survive="majority", attributes={"tier": "gold"})
    await me.groups.split("db", "db/hot", "db/cold", scope="eu", where={"disk": "ssd"})

Membership is not needed. Changes are agreed on by the servers of the group's core-set, one after the other;
each returns when it is done, and raises what `rostra.errors` has if it was refused. `InDoubt` means that no
answer came: it may have been done.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from rostra.client.choices import check_scope_apart
from rostra.client.session import within
from rostra.errors import BadInput, NotAvailable, RostraError
from rostra.groups.items import AgreedViewId, View
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Member
from rostra.names import (
    ROOT,
    Domain,
    Endpoint,
    Group,
    host_of,
    make_group,
    parent,
    parse_endpoint,
    parse_group_name,
)
from rostra.protocols.agreed.calls import (
    HISTORY_MAX,
    AnyCall,
    GroupCall,
    GroupPresented,
    GroupState,
    ListGroups,
    LookAt,
    OrderCall,
    PastView,
)
from rostra.protocols.agreed.living import check_survive, is_exclusive
from rostra.protocols.agreed.orders import (
    AnyOrder,
    CreateGroup,
    DeleteGroup,
    MergeGroups,
    RemoveMembers,
    SetAttributes,
    SplitGroup,
)
from rostra.protocols.agreed.sheets import (
    HISTORY_LENGTH_MAX,
    group_sheet,
    history_of,
    matches,
    member_sheet,
    properties_of,
)
from rostra.protocols.agreed.sight import lost_with, suspects_in

if TYPE_CHECKING:
    from rostra.client.me import Me

Where = Mapping[str, str]
Endpoints = Endpoint | str | Iterable[Endpoint | str]


class GroupInfo(Struct, frozen=True):
    """An agreed group, as the servers that agree on it have it."""

    group: Group
    view: View
    attributes: dict[str, str]
    members_attributes: dict[Endpoint, dict[str, str]]
    survive: str  # its rule for partitions
    merge: str
    within: str  # the group that it is a subgroup of
    exclusive: bool  # does at most one side of a partition live?
    core: tuple[Domain, ...]  # the servers that agree on it
    blocked: str = ""  # why this side stands still, if it does
    history: tuple[View, ...] = ()  # views before, oldest first, without their members
    delivery: str = "none"  # none | fifo | atomic
    history_length: int = HISTORY_LENGTH_MAX  # views that can be asked for, the present one among them

    def matching(self, where: Where) -> tuple[Endpoint, ...]:
        """In order of rank."""
        wanted = properties_of(where)
        return tuple(
            [
                each.endpoint
                for each in self.view.members
                if matches(properties_of(self.members_attributes[each.endpoint]), wanted)
            ]
        )


class Groups:
    """Calls about agreed groups. A group is named by its name and scope; attributes are texts by name.

    Any program may change a group, until one of its members has the attribute ``admin="yes"``; then only such
    members may. A member may always change its own attributes, but for that one.
    """

    __slots__ = ("_me",)

    def __init__(self, me: "Me") -> None:
        self._me = me

    def _key(self, name: str, scope: str) -> Group:
        check_scope_apart(name, scope, self._me.host)
        return make_group(name, scope)

    # Changes

    async def create(
        self,
        name: str,
        scope: str = "world",
        *,
        survive: str = "any",
        merge: str = "any",
        within: str = "",
        history: int = HISTORY_LENGTH_MAX,
        attributes: Where | None = None,
        deadline_s: float | None = None,
    ) -> GroupInfo:
        """A group without members, which stays until it is deleted. `within` names a group of the same scope:
        only its members can join. Of its views the last `history` can be asked for, the present one among
        them. Join it with ``create=False``: it is what it was created as. `NotAvailable` if the scope, the
        whole world, has no server: nobody could join."""
        check_survive(survive)
        check_survive(merge)
        if within:
            parse_group_name(within)
        kind = GroupKind(
            MembershipKind.AGREED,
            survive="" if survive == "any" else survive,
            merge="" if merge == "any" else merge,
            within=within,
        )
        if not 1 <= history <= HISTORY_LENGTH_MAX:
            raise BadInput(f"history={history}", fix=f"choose a number from 1 to {HISTORY_LENGTH_MAX}")
        length = 0 if history == HISTORY_LENGTH_MAX else history
        order, group = CreateGroup(kind, properties_of(attributes or {}), length), self._key(name, scope)
        info = await self._order(group, order, deadline_s)
        if scope == ROOT and ROOT not in info.core:
            await self._check_claimed(group, deadline_s)
        return info

    async def set_attributes(
        self,
        name: str,
        scope: str = "world",
        *,
        attributes: Mapping[str, str | None],
        of: Endpoints | None = None,
        deadline_s: float | None = None,
    ) -> GroupInfo:
        """Set attributes of the group, or of members. Those that are not named stay; None removes one."""
        properties_of({key: value or "" for key, value in attributes.items()})
        updates = tuple(sorted(attributes.items()))
        members = () if of is None else _endpoints(of)
        if of is not None and not members:
            raise BadInput("attributes of no member", fix="name one; without of= they are the group's")
        return await self._order(self._key(name, scope), SetAttributes(updates, members), deadline_s)

    async def delete(self, name: str, scope: str = "world", *, deadline_s: float | None = None) -> None:
        """All members are out in one last view, and are told (`Terminated`)."""
        await self._order(self._key(name, scope), DeleteGroup(), deadline_s)

    async def remove(
        self, name: str, endpoints: Endpoints, scope: str = "world", *, deadline_s: float | None = None
    ) -> GroupInfo:
        """Put members out of the group."""
        return await self._order(self._key(name, scope), RemoveMembers(_endpoints(endpoints)), deadline_s)

    async def split(
        self,
        name: str,
        one: str,
        other: str,
        scope: str = "world",
        *,
        where: Where,
        keep_parent: bool = False,
        deadline_s: float | None = None,
    ) -> None:
        """Make two groups of one, which is over then: members with these attributes are in `one`, all others
        in `other`, in the order in which they were. Members get `Moved`, and go on there.

        With `keep_parent` the group goes on as it is, and the two are subgroups of it. Members get `Added`
        among its items, and are in the subgroup that it names; joining that, they get its views."""
        order = SplitGroup(self._key(one, scope), self._key(other, scope), properties_of(where), keep_parent)
        await self._order(self._key(name, scope), order, deadline_s)

    async def merge(
        self, one: str, other: str, new: str, scope: str = "world", *, deadline_s: float | None = None
    ) -> None:
        """Make one group of two, which are over then: members of `one`, then those of `other`, in the order
        in which they were. Members get `Moved`; who was in both is in the new one once."""
        order = MergeGroups(self._key(other, scope), self._key(new, scope))
        await self._order(self._key(one, scope), order, deadline_s)

    async def leave(self, where: Where, *, deadline_s: float | None = None) -> tuple[Group, ...]:
        """Leave every agreed group of this endpoint that has these attributes; which they were."""
        wanted, left = properties_of(where), []
        for group, stay in list(self._me._agreed.items()):
            info = await self.look(group.name, group.scope, deadline_s=deadline_s)
            if matches(properties_of(info.attributes), wanted):
                await stay.leave(deadline_s=deadline_s)
                left.append(group)
        return tuple(left)

    # Questions

    async def look(
        self,
        name: str,
        scope: str = "world",
        *,
        at: int | None = None,
        revision: int | None = None,
        history: int = 0,
        deadline_s: float | None = None,
    ) -> GroupInfo:
        """The group as it is; or as of view number `at`, if it is still kept (`ViewUnknown`). With `history`,
        as many views before it as are kept, at most 64."""
        for what, value in (("at", at), ("revision", revision), ("history", history)):
            if value is not None and value < 0:
                raise BadInput(f"{what}={value}", fix="views are numbered from 0 on")
        if revision is not None and at is None:
            raise BadInput(f"revision={revision} of no view", fix="name its number, too: at=")
        group = self._key(name, scope)
        call = LookAt(at, revision, min(history, HISTORY_MAX))
        return self._info(group, await self._call(group, call, deadline_s))

    async def list(
        self,
        scope: str = "world",
        *,
        member: Endpoint | str | None = None,
        where: Where | None = None,
        deadline_s: float | None = None,
    ) -> tuple[Group, ...]:
        """Agreed groups of this scope; those that this endpoint is in; those with these attributes."""
        call = ListGroups(None if member is None else parse_endpoint(member), properties_of(where or {}))
        return (await self._call(make_group("groups", scope), call, deadline_s)).groups

    async def sites(
        self,
        names: str | Iterable[str],
        scope: str = "world",
        *,
        where: Where | None = None,
        hosts: bool = False,
        deadline_s: float | None = None,
    ) -> tuple[Domain, ...]:
        """The clusters, or hosts, that have members of these groups; of members with these attributes."""
        found: set[Domain] = set()
        for name in (names,) if isinstance(names, str) else names:
            info = await self.look(name, scope, deadline_s=deadline_s)
            found |= {host_of(each) for each in info.matching(where or {})}
        return tuple(sorted(found if hosts else {parent(each) for each in found}))

    # The rest

    async def _check_claimed(self, group: Group, deadline_s: float | None) -> None:
        """Joins claim the group at the server of its scope, and the root need not have one: then nobody could
        ever join. Only a join is told so; what was created is deleted. A server out of reach comes back."""
        try:
            stay = await self._me.join(
                group.name, group.scope, membership="agreed", create=False, deadline_s=deadline_s
            )
        except NotAvailable:
            with contextlib.suppress(RostraError):
                await self.delete(group.name, group.scope, deadline_s=deadline_s)
            raise
        except RostraError:
            return
        await stay.leave(deadline_s=deadline_s)

    async def _order(self, group: Group, order: AnyOrder, deadline_s: float | None) -> GroupInfo:
        return self._info(group, await self._call(group, OrderCall(order), deadline_s))

    async def _call(self, group: Group, call: AnyCall, deadline_s: float | None) -> GroupPresented:
        asking = self._me._ask(GroupCall(group, call))
        shown = await within(deadline_s, asking, f"the servers of {group} did not answer")
        assert isinstance(shown, GroupPresented)
        return shown

    def _info(self, group: Group, shown: GroupPresented) -> GroupInfo:
        assert shown.state is not None
        return group_info(group, shown.state, self._me.endpoint)


def group_info(group: Group, state: GroupState, me: Endpoint) -> GroupInfo:
    sheets = {each.id.endpoint: member_sheet(each.attributes) for each in state.members}
    order = list(sheets)
    number, revision, pid = state.id
    exclusive = is_exclusive(state.kind)
    view = View(
        tuple([Member(endpoint, (0, 0), sheet.meta) for endpoint, sheet in sheets.items()]),
        number=number,
        rank=order.index(me) if me in order else None,
        id=AgreedViewId(number, revision, "" if pid is None else str(pid)),
        joined=tuple([each.endpoint for each in state.joined]),
        left=tuple([each.endpoint for each in state.left]),
        failed=tuple([each.endpoint for each in state.failed]),
        suspects=suspects_in([each.id for each in state.members], state.lost),
        living=not state.blocked,
        fence=state.fence if exclusive and state.fence else None,
        without=lost_with(state.failed, state.lost),
    )
    sheet = group_sheet(state.attributes)
    return GroupInfo(
        group,
        view,
        {} if sheet is None else dict(sheet.properties),
        {endpoint: dict(each.properties) for endpoint, each in sheets.items()},
        state.kind.survive or "any",
        state.kind.merge or "any",
        state.kind.within,
        exclusive,
        state.core,
        state.blocked,
        tuple([_past(each) for each in state.history]),
        state.kind.delivery.value,
        history_of(state.attributes),
    )


def _past(view: PastView) -> View:
    number, revision, pid = view.id
    return View(
        (),
        number=number,
        id=AgreedViewId(number, revision, "" if pid is None else str(pid)),
        joined=tuple([each.endpoint for each in view.joined]),
        left=tuple([each.endpoint for each in view.left]),
        failed=tuple([each.endpoint for each in view.failed]),
        parts=tuple([tuple([each.endpoint for each in part]) for part in view.parts]),
    )


def _endpoints(endpoints: Endpoints) -> tuple[Endpoint, ...]:
    each = (endpoints,) if isinstance(endpoints, str) else tuple(endpoints)
    return tuple([parse_endpoint(endpoint) for endpoint in each])
