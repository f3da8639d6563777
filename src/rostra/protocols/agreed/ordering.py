"""Orders about whole groups at a server of their core-set, and what follows when a group is over."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rostra.core.effects import Effect, Instant
from rostra.names import Domain, Group
from rostra.protocols.agreed.branch import MemberAsked
from rostra.protocols.agreed.changes import GroupVerb, MemberId
from rostra.protocols.agreed.config import QUEUE_MAX
from rostra.protocols.agreed.events import GroupIsOver, GroupOrdered, MembersPlaced, MembersPutOut
from rostra.protocols.agreed.finding import come_together, set_with
from rostra.protocols.agreed.groups import AgreedGroup, GroupTable
from rostra.protocols.agreed.orders import stands
from rostra.protocols.agreed.part import CoreSet
from rostra.protocols.agreed.sheets import ADMIN, group_sheet, is_over, member_sheet, put_out_of
from rostra.protocols.agreed.subgroups import whole_of

if TYPE_CHECKING:
    from rostra.protocols.agreed.server import AgreedServer

Holding = dict[Domain, dict[Group, dict[MemberId, bytes]]]
"""What hosts hold, as they say."""

Departed = dict[tuple[MemberId, Group], None]
"""Who left which group of late."""


def core_of(server: "AgreedServer", now: Instant, group: Group) -> CoreSet | None:
    """The set of its scope, where calls are answered; none if they have to wait."""
    core = server.sets.get(group.scope)
    if core is None or server._is_starting(now) or not core.is_formed(now) or group in server.restoring:
        return None
    return None if core.table.get(group) is None and server._missing(group) else core


def order(server: "AgreedServer", now: Instant, ordered: GroupOrdered, out: list[Effect]) -> None:
    """Our part in its set; and the change, if that part is formed. Groups are changed together by the set of
    their scope."""
    group, change, also = ordered.group, ordered.change, ordered.also
    core = None if also else set_with(server, group)
    if core is None or core.core.set == group.scope:
        if not server._is_starting(now):
            server._part_in(now, group.scope, out)
        core = core_of(server, now, group)
    if core is None or (also and not come_together(server, now, core, (group, *also), out)):
        return
    if change is not None and len(core.core.state.queue) < QUEUE_MAX:
        server._propose(now, core, replace(change, fence=server._fences.floor), out)


def why_not_join(message: MemberAsked, known: AgreedGroup | None) -> str:
    """Why a join is refused: it is of another kind, or the joiner would make itself an admin."""
    if known is None or not stands(known):
        return ""
    if known.kind != message.group_kind:
        return f"{message.group} is {known.kind}; join it so"
    is_late = message.verb is GroupVerb.JOIN and bool(known.view.members)
    if is_late and any(ADMIN in member_sheet(each.attributes).properties for each in message.members):
        return f"{message.group} has members: one of them makes another its admin"
    return ""


# Groups that were deleted, split or merged


def first_over(table: GroupTable, changed: Iterable[Group]) -> list[Group]:
    """Report groups that are over first: their members must know their new group before its views come."""

    def order(group: Group) -> tuple[bool, Group]:
        known = table.get(group)
        return known is None or not is_over(known.view.attributes), group

    return sorted(changed, key=order)


def is_over_now(core: CoreSet, group: Group, holding: Holding, departed: Departed, out: list[Effect]) -> bool:
    """Is it, since the last commit? Then its hosts hold its members as members of its successors."""
    known = core.table.get(group)
    sheet = None if known is None else group_sheet(known.view.attributes)
    if sheet is None or not sheet.over:
        put_out(core, group, holding, out)
        return False
    core.told.pop(group, None)
    for id in [id for id, left in departed if left == group]:
        departed.update(dict.fromkeys([(id, name) for name in sheet.successors]))
    for held in holding.values():
        for id, data in held.pop(group, {}).items():
            for name in sheet.successors:
                later = core.table.get(name)
                if later is not None and later.view.rank(id) is not None:
                    held.setdefault(name, {})[id] = data
    out.append(GroupIsOver(group))
    return True


def put_out(core: CoreSet, group: Group, holding: Holding, out: list[Effect]) -> None:
    """Members that were put out, and that their hosts still hold."""
    known = core.table.get(group)
    gone = () if known is None else put_out_of(known.view.attributes)
    for host in sorted(holding) if gone else ():
        held = holding[host].get(group, {})
        if those := tuple([id for id in gone if id in held]):
            for id in those:
                del held[id]
            out.append(MembersPutOut(group, host, those))


def placed(core: CoreSet, group: Group, holding: Holding, departed: Departed, out: list[Effect]) -> None:
    """Members whom a split put into this subgroup, as they are in the whole, at hosts that were not told."""
    known = core.table.get(group)
    if known is None or not known.kind.within:
        return
    whole, listed = whole_of(group, known.kind), frozenset(known.view.ids)
    for host in sorted(holding):
        held = holding[host]
        those = {
            id: data
            for id, data in held.get(whole, {}).items()
            if id in listed and id not in held.get(group, {}) and (id, group) not in departed
        }
        if those:
            held.setdefault(group, {}).update(those)
            out.append(MembersPlaced(group, host, tuple(sorted(those))))


def was_over(core: CoreSet, group: Group, host: Domain, holding: Holding, out: list[Effect]) -> bool:
    """A host still holds members of it: it was not told."""
    known = core.table.get(group)
    if known is None or not is_over(known.view.attributes):
        put_out(core, group, holding, out)
        return False
    out.append(GroupIsOver(group, host))
    return True
