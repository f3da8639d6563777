"""Changes of whole groups that a program orders: what becomes of which group (V-040 to V-046, V-057).

    order, and the groups as they are ──▶ decide ──▶ why not; or the next view of each group that it concerns

A pure function, asked at the commit: all servers of the core-set come to the same.

**Permission.** Any program may, until a member has the attribute ``admin=yes``; then only such members. A
member may always change its own attributes, except `admin`.

Where we differ from the paper, and why: the first view of a group that was split off or merged has not the
number 1. A member's seniority is the number of the view in which it joined, and later ones must be above it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct
from msgspec.msgpack import Decoder, encode
from msgspec.structs import replace

from rostra.errors import UNDECODABLE
from rostra.groups.kinds import DeliveryKind, GroupKind
from rostra.names import Domain, Endpoint, Group, host_of
from rostra.names.checks import check_of
from rostra.protocols.agreed.changes import MEMBERS_MAX, GroupChange, GroupVerb, Pid
from rostra.protocols.agreed.config import CREATED_MAX
from rostra.protocols.agreed.sheets import (
    ADMIN,
    HISTORY_LENGTH_MAX,
    KEY_MAX,
    META_BYTES_MAX,
    PROPERTIES_MAX,
    PUT_OUT_MAX,
    VALUE_MAX,
    GroupSheet,
    Properties,
    changed,
    encode_group,
    encode_member,
    group_sheet,
    has_sheet,
    matches,
    member_sheet,
    with_proof,
)

if TYPE_CHECKING:
    from rostra.protocols.agreed.groups import AgreedGroup, AgreedMember, AgreedView

DELETED = "it was deleted"

Updates = Annotated[
    tuple[
        tuple[
            Annotated[str, Meta(min_length=1, max_length=KEY_MAX)],
            Annotated[str, Meta(max_length=VALUE_MAX)] | None,
        ],
        ...,
    ],
    Meta(max_length=PROPERTIES_MAX),
]
Endpoints = Annotated[tuple[Endpoint, ...], Meta(max_length=MEMBERS_MAX)]


class GroupOrder(Struct, frozen=True, array_like=True, tag_field="order"):
    pass


class CreateGroup(GroupOrder, frozen=True, tag=1):
    kind: GroupKind
    properties: Properties = ()
    history: Annotated[int, Meta(ge=0, le=HISTORY_LENGTH_MAX)] = 0  # see `GroupSheet`


class SetAttributes(GroupOrder, frozen=True, tag=2):
    """Set attributes of these members; without members, of the group."""

    updates: Updates
    members: Endpoints = ()


class DeleteGroup(GroupOrder, frozen=True, tag=3):
    pass


class RemoveMembers(GroupOrder, frozen=True, tag=4):
    members: Endpoints


class SplitGroup(GroupOrder, frozen=True, tag=5):
    """Members with these attributes go to `one`, the others to `other`. With `keep` the group itself goes on,
    as it is, and these two are subgroups of it (V-045)."""

    one: Group
    other: Group
    where: Properties
    keep: bool = False


class MergeGroups(GroupOrder, frozen=True, tag=6):
    other: Group
    new: Group


AnyOrder = CreateGroup | SetAttributes | DeleteGroup | RemoveMembers | SplitGroup | MergeGroups


class CallerOrder(Struct, frozen=True, array_like=True):
    """What a change carries."""

    caller: Endpoint
    order: AnyOrder


_ordered = Decoder(CallerOrder)
_check = check_of(CallerOrder)


def encode_order(caller: Endpoint, order: AnyOrder) -> bytes:
    return encode(CallerOrder(caller, order))


def decode_order(data: bytes) -> CallerOrder | None:
    try:
        ordered = _ordered.decode(data)
        _check(ordered)
    except UNDECODABLE:
        return None
    return ordered


def groups_of(group: Group, order: AnyOrder) -> tuple[Group, ...]:
    """All that an order about this group is about."""
    match order:
        case SplitGroup(one, other):
            return group, one, other
        case MergeGroups(other, new):
            return group, other, new
    return (group,)


def groups_changed(change: GroupChange) -> tuple[Group, ...]:
    ordered = decode_order(change.data) if change.verb is GroupVerb.ORDER else None
    return (change.group,) if ordered is None else groups_of(change.group, ordered.order)


class NextView(Struct, frozen=True):
    """The next view of one group, or the one that it has, if the order changes others alone. `begins`: its
    first members come with it, and no view of it has lived."""

    group: Group
    view: "AgreedView"
    kind: GroupKind
    begins: bool = False


Groups = Mapping[Group, "AgreedGroup"]
Decision = tuple[str, tuple[NextView, ...]]
"""The name of the error that the caller gets, if it is one."""


def decide(
    order: AnyOrder, caller: Endpoint, group: Group, groups: Groups, empty: "AgreedView", pid: Pid
) -> Decision:
    code, views = _decide(order, caller, group, groups, empty, pid)
    new = [each.group for each in views if has_sheet(each.view.attributes)]
    new = [each for each in new if each not in groups or not has_sheet(groups[each].view.attributes)]
    if new and sum(has_sheet(each.view.attributes) for each in groups.values()) >= CREATED_MAX:
        return "TooLarge", ()
    return code, tuple([_made_by(each, host_of(caller)) if each.group in new else each for each in views])


def _made_by(made: NextView, host: Domain) -> NextView:
    sheet = group_sheet(made.view.attributes) or GroupSheet()
    return replace(made, view=replace(made.view, attributes=encode_group(replace(sheet, by=host))))


def _decide(
    order: AnyOrder, caller: Endpoint, group: Group, groups: Groups, empty: "AgreedView", pid: Pid
) -> Decision:
    known = groups.get(group)
    if isinstance(order, CreateGroup):
        if stands(known):
            return "NameTaken", ()
        before = empty if known is None else _revised(known.view)
        view = replace(before, attributes=encode_group(GroupSheet(order.properties, history=order.history)))
        return "", (NextView(group, view, order.kind),)
    if known is None or not stands(known):
        return "NoSuchGroup", ()
    if known.blocked or known.apart:
        return "GroupBlocked", ()
    view = known.view
    if not _may(caller, view) and not _is_own(order, caller):
        return "NotAllowed", ()
    if isinstance(order, SplitGroup | MergeGroups) and known.kind.delivery is not DeliveryKind.NONE:
        return "NotAvailable", ()
    match order:
        case SetAttributes(updates, ()):
            sheet = group_sheet(view.attributes) or GroupSheet()
            sheet = replace(sheet, properties=changed(sheet.properties, updates))
            if len(sheet.properties) > PROPERTIES_MAX:
                return "TooLarge", ()
            return "", (NextView(group, replace(_revised(view), attributes=encode_group(sheet)), known.kind),)
        case SetAttributes(updates, members):
            return _with_attributes(group, known, updates, members)
        case RemoveMembers(members):
            named = frozenset(members)
            gone = [each.id for each in view.members if each.id.endpoint in named]
            if len(gone) < len(named):
                return "NotMember", ()
            if len(gone) > PUT_OUT_MAX:
                return "TooLarge", ()
            stay = tuple([each for each in view.members if each.id not in gone])
            sheet = group_sheet(view.attributes) or GroupSheet()
            sheet = replace(sheet, put_out=(*sheet.put_out, *gone)[-PUT_OUT_MAX:])
            after = replace(_next(view, stay, pid), attributes=encode_group(sheet))
            return "", (NextView(group, after, known.kind),)
        case DeleteGroup():
            return "", (_over(group, known, pid, DELETED),)
        case SplitGroup():
            return _split(group, known, order, groups, empty, pid)
        case MergeGroups(other, new):
            return _merged(group, known, other, new, caller, groups, empty, pid)


def stands(known: "AgreedGroup | None") -> bool:
    """Has it members, or was it created and not deleted?"""
    if known is None:
        return False
    sheet = group_sheet(known.view.attributes)
    return bool(known.view.members) or (sheet is not None and not sheet.over)


def _may(caller: Endpoint, view: "AgreedView") -> bool:
    admins = [each.id.endpoint for each in view.members if ADMIN in member_sheet(each.attributes).properties]
    return not admins or caller in admins


def _is_own(order: AnyOrder, caller: Endpoint) -> bool:
    """Does it change nothing but the caller's own attributes?"""
    return (
        isinstance(order, SetAttributes)
        and order.members == (caller,)
        and all(key != ADMIN[0] for key, _ in order.updates)
    )


def _with_attributes(group: Group, known: "AgreedGroup", updates: Updates, members: Endpoints) -> Decision:
    view = known.view
    named = frozenset(members)
    if not named <= {each.id.endpoint for each in view.members}:
        return "NotMember", ()
    after: list[AgreedMember] = []
    for each in view.members:
        if each.id.endpoint in named:
            sheet = member_sheet(each.attributes)
            data = encode_member(sheet.meta, changed(sheet.properties, updates))
            if len(data) > META_BYTES_MAX:
                return "TooLarge", ()
            each = replace(each, attributes=with_proof(data, sheet.proof))
        after.append(each)
    return "", (NextView(group, replace(_revised(view), members=tuple(after)), known.kind),)


def _revised(view: "AgreedView") -> "AgreedView":
    return replace(view, revision=view.revision + 1, joined=(), left=(), failed=(), parts=())


def _next(view: "AgreedView", stay: "tuple[AgreedMember, ...]", pid: Pid) -> "AgreedView":
    here = {each.id for each in stay}
    left = tuple([each for each in view.ids if each not in here])
    return replace(
        view,
        number=view.number + 1,
        revision=0,
        pid=pid,
        members=stay,
        joined=(),
        left=left,
        failed=(),
        parts=(),
    )


def _over(group: Group, known: "AgreedGroup", pid: Pid, why: str, *successors: Group) -> NextView:
    """The last view of a group, without members. It is kept, so that a host that missed it still gets it."""
    sheet = group_sheet(known.view.attributes) or GroupSheet()
    view = _next(known.view, (), pid)
    return NextView(
        group,
        replace(view, attributes=encode_group(replace(sheet, over=why, successors=successors))),
        known.kind,
    )


def _begun(
    group: Group,
    members: "tuple[AgreedMember, ...]",
    sheet: GroupSheet,
    kind: GroupKind,
    number: int,
    groups: Groups,
    empty: "AgreedView",
    pid: Pid,
) -> NextView:
    known = groups.get(group)  # if so, it is over
    number = max(number, 0 if known is None else known.view.number + 1)
    view = replace(
        empty,
        number=number,
        pid=pid,
        members=members,
        joined=tuple([each.id for each in members]),
        attributes=encode_group(replace(sheet, over="", successors=())),
    )
    return NextView(group, view, kind, begins=True)


def _split(
    group: Group,
    known: "AgreedGroup",
    order: SplitGroup,
    groups: Groups,
    empty: "AgreedView",
    pid: Pid,
) -> Decision:
    one, other = children = order.one, order.other
    if one == other or group in children or any(each.scope != group.scope for each in children):
        return "BadInput", ()
    if any(stands(groups.get(each)) for each in children):
        return "NameTaken", ()
    view, sheet = known.view, group_sheet(known.view.attributes) or GroupSheet()
    sides: dict[bool, list[AgreedMember]] = {True: [], False: []}
    for each in view.members:
        sides[matches(member_sheet(each.attributes).properties, order.where)].append(each)
    number = view.number + 1
    first = _over(group, known, pid, f"it was split into {one} and {other}", one, other)
    kind = known.kind
    if order.keep:
        first, kind = NextView(group, view, kind), replace(kind, within=group.name)
    return "", (
        first,
        _begun(one, tuple(sides[True]), sheet, kind, number, groups, empty, pid),
        _begun(other, tuple(sides[False]), sheet, kind, number, groups, empty, pid),
    )


def _merged(
    group: Group,
    known: "AgreedGroup",
    other: Group,
    new: Group,
    caller: Endpoint,
    groups: Groups,
    empty: "AgreedView",
    pid: Pid,
) -> Decision:
    """Members of the first in order of rank, then those of the second (V-046)."""
    if len({group, other, new}) < 3 or {other.scope, new.scope} != {group.scope}:
        return "BadInput", ()
    second = groups.get(other)
    if second is None or not stands(second):
        return "NoSuchGroup", ()
    if stands(groups.get(new)):
        return "NameTaken", ()
    if second.kind != known.kind:
        return "BadInput", ()
    if second.blocked or second.apart:
        return "GroupBlocked", ()
    if not _may(caller, second.view):
        return "NotAllowed", ()
    listed = {each.id.endpoint for each in known.view.members}
    members = [*known.view.members, *[each for each in second.view.members if each.id.endpoint not in listed]]
    if len(members) > MEMBERS_MAX:
        return "TooLarge", ()
    ranked = tuple([replace(each, joined=rank) for rank, each in enumerate(members, 1)])
    sheet = group_sheet(known.view.attributes) or GroupSheet()
    why = f"it was merged into {new}"
    return "", (
        _over(group, known, pid, why, new),
        _over(other, second, pid, why, new),
        _begun(new, ranked, sheet, known.kind, len(ranked), groups, empty, pid),
    )
