"""A view as it reaches an agent, and as programs are given it."""

from collections.abc import Sequence

from rostra.names import Endpoint
from rostra.protocols.agreed.branch import ViewTold
from rostra.protocols.agreed.changes import MEMBERS_MAX, MemberId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.agreed.living import is_exclusive
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.agreed.sheets import with_proof
from rostra.protocols.agreed.sight import lost_with, suspects_in
from rostra.protocols.agreed.stays import HostGroup


def view_of(told: ViewTold, before: AgreedView | None) -> AgreedView | None:
    """The view, if it can be made of what we have; and how it came from the one that we had."""
    members = told.members
    if told.base is not None:
        if before is None or before.id != told.base:
            return None
        gone = frozenset((*told.left, *told.failed))
        stay = [each for each in before.members if each.id not in gone] if gone else before.members
        members = (*stay, *told.members)
    was = frozenset() if before is None else before.listed
    here = frozenset([each.id for each in members])
    if not len(here) == len(members) <= MEMBERS_MAX:
        return None  # no server says so that does not lie
    lost = () if before is None or was <= here else tuple([each for each in before.ids if each not in here])
    left = frozenset(told.left)
    fresh = members if told.base is None else told.members
    return AgreedView(
        *told.id,
        members,
        tuple([each.id for each in fresh if each.id not in was]),
        tuple([each for each in lost if each in left]),
        tuple([each for each in lost if each not in left]),
        parts=told.parts,
    )


def view_item(view: AgreedView, known: HostGroup, *, whole: bool) -> MemberView:
    new = frozenset(view.joined)
    joined = [each for each in view.members if each.id in new]
    return MemberView(
        view.number,
        view.revision,
        "" if view.pid is None else str(view.pid),
        listed(view.members) if whole else None,
        listed(joined),
        endpoints_of(view.left),
        endpoints_of(view.failed),
        known.fence if is_exclusive(known.kind) else None,
        tuple([endpoints_of(each) for each in view.parts]),
        suspects_in(view.ids, known.lost),
        lost_with(view.failed, known.lost),
    )


def endpoints_of(ids: Sequence[MemberId]) -> tuple[Endpoint, ...]:
    return tuple([each.endpoint for each in ids])


def listed(members: Sequence[AgreedMember]) -> tuple[tuple[Endpoint, bytes], ...]:
    """Proofs are for agents and servers."""
    return tuple([(each.id.endpoint, with_proof(each.attributes, b"")) for each in members])
