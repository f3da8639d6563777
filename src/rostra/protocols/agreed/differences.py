"""What a host is sent of a group's views: the difference from the one that it has, if there is one."""

from collections.abc import Sequence

from rostra.names import Domain, Group
from rostra.protocols.agreed.branch import ViewId, ViewTold
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedGroup, AgreedView
from rostra.protocols.agreed.living import is_exclusive


def ids_of(known: AgreedGroup | None) -> tuple[MemberId, ...]:
    return () if known is None else known.view.ids


def hosts_of(view: AgreedView) -> list[Domain]:
    return sorted(view.hosts)


def base_of(known: AgreedGroup, id: ViewId | None) -> AgreedView | None:
    """The view of this id, if the present one is that without some members, and then others: not after a
    merge, which orders by seniority."""
    if id is None:
        return None
    base = next((each for each in reversed(known.views) if each.id == id), None)
    return base if base is not None and _follows(known.view, base) else None


def _follows(view: AgreedView, base: AgreedView) -> bool:
    # A difference says nothing of attributes, nor of members that were given up meanwhile, and came again.
    if view.members[: len(base.members)] == base.members:  # others joined, which is the most frequent
        return True
    stayed = tuple([each for each in base.members if each.id in view.listed])
    return view.members[: len(stayed)] == stayed


def path_from(known: AgreedGroup, base: AgreedView | None) -> tuple[AgreedView, ...]:
    """The views from this one to the present one, which several changes at once may have made. In a group
    whose views have fences, only the last one: it alone lives."""
    if base is None or known.blocked or is_exclusive(known.kind):
        return (known.view,)
    path = [known.view]
    while path[0].id != base.id:
        before = _before(path[0], known.views, base)
        if before is None or not _follows(path[0], before):
            return (known.view,)
        path.insert(0, before)
    return tuple(path[1:]) or (known.view,)


def _before(view: AgreedView, views: Sequence[AgreedView], base: AgreedView) -> AgreedView | None:
    """The one that became this view. The history has those of other parts, too, under the same numbers."""
    if view.revision:
        return next((each for each in views if each.id == (view.number, view.revision - 1, view.pid)), None)
    was = view.listed.difference(view.joined).union(view.left, view.failed)
    those = [each for each in views if each.number == view.number - 1 and each.listed == was]
    return base if base in those else next(reversed(those), None)


def view_message(
    group: Group,
    known: AgreedGroup,
    view: AgreedView,
    base: AgreedView | None,
    hosts: tuple[Domain, ...],
    doubt: str = "",
    lost: tuple[Domain, ...] = (),
) -> ViewTold:
    blocked = known.blocked or doubt
    members, left = view.members, view.left
    if base is not None:
        new, gone = view.listed - base.listed, base.listed.difference(view.listed, view.failed)
        members = tuple([each for each in view.members if each.id in new]) if new else ()
        left = tuple([each for each in base.ids if each in gone]) if gone else ()
    return ViewTold(
        group,
        hosts,
        view.id,
        None if base is None else base.id,
        members,
        left,
        view.failed,
        known.living.fence,
        blocked,
        view.parts,
        tuple([each.id for each in known.living.members]) if blocked else (),
        known.living.returned if is_exclusive(known.kind) else (),
        lost,
    )
