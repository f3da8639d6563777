"""Groups within groups: members of a subgroup are members of the group that it is within (V-041).

    created `within` another    its members join one, and then the other
    split, and the group kept   its members were put there, by endpoint and by stamp the same as in the whole

A member that leaves the whole is out of its subgroups with the same commit, and its host ends its stay there.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rostra.groups.kinds import GroupKind
from rostra.names import Endpoint, Group

if TYPE_CHECKING:
    from rostra.protocols.agreed.groups import AgreedGroup, GroupTable


def whole_of(group: Group, kind: GroupKind) -> Group:
    """The group that this one is within, if it is of such a kind."""
    return Group(kind.within, group.scope)


def is_within(group: Group, kind: GroupKind, whole: Group) -> bool:
    return bool(kind.within) and whole_of(group, kind) == whole


def outer_first(kinds: Mapping[Group, GroupKind]) -> list[Group]:
    """All subgroups, each after the one that it is within."""
    order: dict[Group, None] = {}
    for group in sorted(each for each, kind in kinds.items() if kind.within):
        path = [group]
        while (kind := kinds.get(path[-1])) is not None and kind.within:
            whole = whole_of(path[-1], kind)
            if whole in path:  # each within the other: nobody can be in one of them
                break
            path.append(whole)
        order.update(dict.fromkeys([each for each in reversed(path) if each in kinds and kinds[each].within]))
    return list(order)


def subgroups_of(table: "GroupTable", whole: Group) -> list[Group]:
    if not table.counts.within:
        return []
    return sorted([each for each, known in table.groups.items() if is_within(each, known.kind, whole)])


def endpoints_in(known: "AgreedGroup | None") -> frozenset[Endpoint]:
    """Of its members, in all parts of it."""
    parts: Iterable[AgreedGroup] = () if known is None else known.parts
    return frozenset([each.id.endpoint for part in parts for each in part.view.members])


def may_be_in(table: "GroupTable", group: Group, kind: GroupKind) -> frozenset[Endpoint] | None:
    """Who may be in a group of this kind; None: anybody."""
    return endpoints_in(table.get(whole_of(group, kind))) if kind.within else None
