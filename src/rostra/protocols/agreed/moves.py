"""The core-set of a group moves with its members (V-023 to V-029), and sets on the way know where it is.

    set(world) = { eu, us, world }        a group with members below eu alone: `below` is (eu,)
    set(eu)    = { fr, de, eu }           and it is here, in `groups`

The core-set is the lowest set that has all members below its servers, at least one level above clusters. Each
set on the way from the scope down to the core-set has a **place** of the group: which branches have it.

A move is made by the one server that is in both sets, the **mover**: eu above. It goes one level at a time,
and each step is a commit:

    set(world)                            set(eu)
    WANT: a join from below us  ────────▶                          the place says: it is to come here
                                          HAND: frozen until the move ends or is cancelled
    TAKE: it is here, and the join        ◀───────                 one view, numbered above the last
    is made
                                          DROP: it is forgotten
    only members below eu are left, for `down_after_s`:
    HAND                        ────────▶ TAKE                     no view: nothing changed
    DROP: `below` is (eu,)

`next_step` computes from the tables of the two sets what the mover proposes next; so a mover that restarts
continues from the state of the sets. If the mover is lost:

- The lower set lost its parent. It takes back a group that it was about to hand up, with the members that it
  has. The upper set lost a branch: it removes the members there from groups that it has taken. Both sides go
  on, as in any partition, and merge when the mover, perhaps restarted, is in both sets again.
- The upper set forgets a group that it was handing down: all of its members were in the lost branch.

Hosts below the mover are sent views of the upper set only when the lower one has dropped the group. So no
host gets a view of the one and then an older one of the other.

Where we differ from the paper, and why: groups with a rule for partitions stay with the set of their scope.
Their first view is made on the side of the scope's own server, and a fence must not be given out by two sets
(`rules.py`). The paper has no such rules in mind where it moves groups.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.msgpack import Decoder, encode
from msgspec.structs import replace

from rostra.errors import UNDECODABLE
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Group, inside
from rostra.names.checks import check_of
from rostra.protocols.agreed.changes import (
    MEMBERS_MAX,
    PART_BYTES_MAX,
    WANTED_MAX,
    CommitRecord,
    GroupChange,
    GroupPlace,
    GroupPlaced,
    PartsMerged,
    PlaceStep,
    ServerId,
    SetView,
    view_after,
)
from rostra.protocols.agreed.groups import (
    REQUESTS_KEPT,
    VIEWS_KEPT,
    AgreedGroup,
    AgreedView,
    CarriedGroups,
    GroupTable,
    Outcome,
    fold_parts,
    is_possible,
)
from rostra.protocols.agreed.orders import groups_changed
from rostra.protocols.agreed.rules import LivingState

MOVING: Final = "Moving"
"""What becomes of a request that finds the group elsewhere, or on its way: it is asked again there."""

HISTORY_BYTES: Final = 256 << 10
"""Of older views of a group on its way. The last view is carried whatever its size."""

NOWHERE: Final = GroupPlace()


def moves(kind: GroupKind) -> bool:
    """Does the core-set of such a group follow its members?"""
    return not kind.within and kind.survive in ("", "any") and kind.merge in ("", "any")


def core_domain(clusters: tuple[Domain, ...], above: Domain) -> Domain:
    """The domain whose set is to agree on a group with members in these clusters (V-023). `above` is that of
    the level-1 set in which it was made, which keeps it while it has no members (V-029)."""
    if not clusters:
        return above
    found = above
    for cluster in clusters:
        while not inside(found, cluster):
            found = Domain(found.rpartition(".")[0]) if "." in found else Domain("world")
    return found


# A group on its way


class MovedGroup(Struct, frozen=True, array_like=True):
    views: Annotated[tuple[AgreedView, ...], Meta(min_length=1, max_length=VIEWS_KEPT)]
    group_kind: GroupKind
    requests: Annotated[tuple[str, ...], Meta(max_length=REQUESTS_KEPT)] = ()  # that are done, without error


_decoder: Final = Decoder(MovedGroup)
_check: Final = check_of(MovedGroup)


def encode_part(known: AgreedGroup) -> bytes:
    """All of it, but no more of its history than fits (V-096)."""
    requests = tuple([each.request for each in known.outcomes if not each.code])
    views, size = [known.view], 0
    for view in reversed(known.views[:-1]):
        size += len(encode(view))
        if size > HISTORY_BYTES:
            break
        views.insert(0, view)
    return encode(MovedGroup(tuple(views), known.kind, requests))


def decode_part(data: bytes, group: Group) -> AgreedGroup | None:
    """None if no correct server sends such."""
    try:
        moved = _decoder.decode(data) if len(data) <= PART_BYTES_MAX else None
        if moved is not None:
            _check(moved)
    except UNDECODABLE:
        return None
    if moved is None or not is_possible(moved.group_kind) or not moves(moved.group_kind):
        return None
    view = moved.views[-1]
    gids = [each.gid for each in view.members]
    if gids != sorted(set(gids)) or len(gids) > MEMBERS_MAX:
        return None
    outcomes = tuple([Outcome(group, each) for each in moved.requests])
    living = LivingState(0, view.ruled)
    return AgreedGroup(moved.views, outcomes, moved.group_kind, living=living)


# What commits make of places


def applied(
    table: GroupTable, record: CommitRecord, before: SetView, other: CarriedGroups = ()
) -> tuple[GroupTable, tuple[Outcome, ...]]:
    """`GroupTable.apply`, for groups that may be elsewhere."""
    change = record.proposal.change
    outcomes: tuple[Outcome, ...]
    if isinstance(change, GroupPlaced):
        table, outcomes = _placed(table, change, record, before)
    elif isinstance(change, GroupChange) and _is_elsewhere(table, change):
        return table, (Outcome(change.group, change.request, MOVING),)
    else:
        places = table.places
        if isinstance(change, PartsMerged):
            places = _met(table, other)
        table, outcomes = table.apply(record, before, other)
        table = replace(table, places=places)
    if table.places:
        table, more = _tidied(table, record, before)
        outcomes += more
    return table, outcomes


def _is_elsewhere(table: GroupTable, change: GroupChange) -> bool:
    if not table.places or (change.kind is not None and not moves(change.kind)):
        return False
    return any(
        place.mover is not None or group not in table.groups
        for group in groups_changed(change)
        if (place := table.places.get(group)) is not None
    )


def _placed(
    table: GroupTable, change: GroupPlaced, record: CommitRecord, before: SetView
) -> tuple[GroupTable, tuple[Outcome, ...]]:
    group, mover = change.group, change.mover
    role = next((each for each in before.members if each.id == mover), None)
    if role is None:
        return table, ()  # it is lost, and its branch with it
    branch, is_parent = mover.server, role.parent
    known, place = table.groups.get(group), table.places.get(group, NOWHERE)
    others = tuple([each for each in place.below if each != branch])
    match change.step:
        case PlaceStep.POINT if change.asked is not None and (known is not None or others):
            return _wanted(table, group, change.asked, record, before)
        case PlaceStep.POINT:
            return _with_place(table, group, replace(place, below=tuple(sorted([*others, branch])))), ()
        case PlaceStep.UNPOINT:
            table = _with_place(table, group, replace(place, below=others))
            return _filled(table, group, record, before)
        case PlaceStep.WANT:
            return _wanted(table, group, change.asked, record, before)
        case PlaceStep.HAND:
            may_go = known is not None and place.mover is None and moves(known.kind)
            if may_go and not is_parent:  # down, to that branch
                may_go = is_only_below(table, group, branch)
            return (_with_place(table, group, replace(place, mover=mover)) if may_go else table), ()
        case PlaceStep.TAKE | PlaceStep.HELD:
            part = decode_part(change.part, group)
            if part is None:
                return table, ()
            is_held = change.step is PlaceStep.HELD
            if not is_held:
                place = replace(place, below=others if not is_parent else place.below)
            table = _with_place(table, group, replace(place, mover=None))
            branches = [each.id.server for each in before.members if not each.parent]
            table, taken = _taken(table, group, part, branches, record, is_held=is_held)
            table, made = _filled(table, group, record, before)
            return table, (*taken, *made)
        case PlaceStep.DROP if known is not None and place.mover == mover:
            rest = {name: each for name, each in table.groups.items() if name != group}
            below = place.below if is_parent else tuple(sorted([*others, branch]))
            table = replace(table, groups=rest)
            return _with_place(table, group, replace(place, mover=None, below=below)), ()
    return table, ()


def _taken(
    table: GroupTable,
    group: Group,
    part: AgreedGroup,
    branches: list[Domain],
    record: CommitRecord,
    *,
    is_held: bool,
) -> tuple[GroupTable, tuple[Outcome, ...]]:
    """With what has come: the members below servers of this set. If it is here already, nothing changes.
    What hosts held gets an id of its own: another set may have had the same view."""
    known, pid = table.groups.get(group), record.proposal.pid
    if known is not None and part.view.number <= known.view.number and has_view(known, part.view):
        return table, ()
    gone = [each for each in part.view.ids if not any(inside(branch, each.endpoint) for branch in branches)]
    if gone:
        away = frozenset(gone)
        stay = tuple([each for each in part.view.members if each.id not in away])
        view = AgreedView(
            part.view.number + 1, 0, pid, stay, failed=tuple(gone), attributes=part.view.attributes
        )
        part = replace(part, views=(*part.views, view)[-VIEWS_KEPT:])
    elif is_held:
        part = _revised(part)
    folded = part if known is None else fold_parts([*known.parts, part], pid)
    return table.having(group, folded), (Outcome(group, "", "", folded.view),)


def _wanted(
    table: GroupTable, group: Group, change: GroupChange | None, record: CommitRecord, before: SetView
) -> tuple[GroupTable, tuple[Outcome, ...]]:
    """It waits until the group is here; if it is nowhere, it makes it."""
    place = table.places.get(group, NOWHERE)
    if change is None:
        return _with_place(table, group, replace(place, pull=group not in table.groups)), ()
    if any(each.request == change.request for each in place.wanted):
        return table, ()
    if len(place.wanted) >= WANTED_MAX:
        return table, (Outcome(group, change.request, "Unreachable"),)
    table = _with_place(table, group, replace(place, wanted=(*place.wanted, change)))
    return _filled(table, group, record, before)


def _filled(
    table: GroupTable, group: Group, record: CommitRecord, before: SetView
) -> tuple[GroupTable, tuple[Outcome, ...]]:
    """Changes that waited are made, if the group is here, or nowhere."""
    place = table.places.get(group, NOWHERE)
    is_here = group in table.groups
    if (not is_here and place.below) or place.mover is not None:
        return table, ()
    table = _with_place(table, group, replace(place, wanted=(), pull=False))
    outcomes: list[Outcome] = []
    for change in place.wanted:
        places = table.places
        single = replace(record, proposal=replace(record.proposal, change=change), tried=())
        table, made = table.apply(single, before)
        table = replace(table, places=places)
        outcomes += made
    return table, tuple(outcomes)


def _tidied(
    table: GroupTable, record: CommitRecord, before: SetView
) -> tuple[GroupTable, tuple[Outcome, ...]]:
    """Movers that are lost move nothing, and branches that are lost have nothing."""
    after = view_after(before, record.proposal)
    servers, branches = frozenset(after.servers), {each.server for each in after.servers}
    outcomes: list[Outcome] = []
    for group, place in sorted(table.places.items()):
        below = tuple([each for each in place.below if each in branches])
        mover = place.mover if place.mover in servers else None
        if (below, mover) == (place.below, place.mover):
            continue
        known = table.groups.get(group)
        was_parent = any(each.parent for each in before.members if each.id == place.mover)
        table = _with_place(table, group, replace(place, below=below, mover=mover))
        if known is not None and mover != place.mover:
            if known.view.members or was_parent:
                # The other set may have it too, as it was, and have lost its members since.
                known = _revised(known)
                table = table.having(group, known)
                outcomes.append(Outcome(group, "", "", known.view))
            else:  # it was handed down to the branch that is lost
                rest = {name: each for name, each in table.groups.items() if name != group}
                table = replace(table, groups=rest)
        table, made = _filled(table, group, record, after)
        outcomes += made
    return table, tuple(outcomes)


def _revised(known: AgreedGroup) -> AgreedGroup:
    view = known.view
    again = replace(view, revision=view.revision + 1, joined=(), left=(), failed=(), parts=())
    return replace(known, views=(*known.views, again)[-VIEWS_KEPT:])


def _met(table: GroupTable, other: CarriedGroups) -> dict[Group, GroupPlace]:
    """The places of two parts of a set. A group that is about to leave one of them, and not the other that
    has it too, stays: its mover begins again."""
    places = dict(table.places)
    for each in other:
        ours, theirs = places.get(each.name, NOWHERE), each.place or NOWHERE
        movers = {ours.mover} if each.name in table.groups else set()
        if each.group is not None:
            movers.add(theirs.mover)
        wanted = {change.request: change for change in (*ours.wanted, *theirs.wanted)}
        merged = GroupPlace(
            tuple(sorted({*ours.below, *theirs.below})),
            tuple([wanted[request] for request in sorted(wanted)])[:WANTED_MAX],
            ours.pull or theirs.pull,
            movers.pop() if len(movers) == 1 else None,
        )
        places[each.name] = merged
    return {group: place for group, place in places.items() if place != NOWHERE}


def _with_place(table: GroupTable, group: Group, place: GroupPlace) -> GroupTable:
    places = {name: each for name, each in table.places.items() if name != group}
    if place != NOWHERE:
        places[group] = place
    return replace(table, places=places)


# What a mover does


def has_view(known: AgreedGroup, view: AgreedView) -> bool:
    """Did it come from there? A history that is full may not say so any more."""
    is_full = len(known.views) >= VIEWS_KEPT and known.views[0].number > view.number
    return is_full or any(each.id == view.id for each in known.views)


def is_only_below(table: GroupTable, group: Group, branch: Domain) -> bool:
    """Are all its members in this branch, and does nothing else keep it here?"""
    known, place = table.groups.get(group), table.places.get(group, NOWHERE)
    return (
        known is not None
        and moves(known.kind)
        and place == NOWHERE
        and bool(known.view.members)
        and all(inside(branch, each.endpoint) for each in known.view.ids)
        and not any((each.within, name.scope) == (group.name, group.scope) for name, each in _kinds(table))
    )


def _kinds(table: GroupTable) -> list[tuple[Group, GroupKind]]:
    return [(name, known.kind) for name, known in table.groups.items()]


def next_step(
    group: Group, me: ServerId, lower: GroupTable, upper: GroupTable, *, may_go_down: bool
) -> tuple[bool, GroupPlaced] | None:
    """What the server that is in both sets is to propose: in the lower one (True) or in the upper one."""
    here, there = lower.groups.get(group), upper.groups.get(group)
    place, above = lower.places.get(group, NOWHERE), upper.places.get(group, NOWHERE)

    def step(is_lower: bool, what: PlaceStep, part: AgreedGroup | None = None) -> tuple[bool, GroupPlaced]:
        data = b"" if part is None else encode_part(part)
        return is_lower, GroupPlaced(group, what, me, part=data)

    if here is not None and place.mover == me:  # on its way up
        if me.server not in above.below:  # it was there when we began, and only `TAKE` ends that
            return step(True, PlaceStep.DROP)
        return step(False, PlaceStep.TAKE, here)
    if there is not None and above.mover == me:  # on its way down
        if here is not None and has_view(here, there.view):
            return step(False, PlaceStep.DROP)
        return step(True, PlaceStep.TAKE, there)
    has_it = here is not None or bool(place.below)
    if has_it and me.server not in above.below:
        return step(False, PlaceStep.POINT)
    if has_it and (there is not None or above.wanted or above.pull or len(above.below) > 1):
        if here is not None and place.mover is None and moves(here.kind):
            return step(True, PlaceStep.HAND)
        if here is None and not place.pull and not place.wanted:
            return step(True, PlaceStep.WANT)
    if not has_it and me.server in above.below:
        return step(False, PlaceStep.UNPOINT)
    if not has_it and may_go_down and is_only_below(upper, group, me.server):
        return step(False, PlaceStep.HAND)
    return None
