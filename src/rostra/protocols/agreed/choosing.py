"""The rule of a group that is joined with ``survive="exclusive"``: of leaders and locks, unless one is named.

    the group exists ─────────────────▶ its own, if at most one side can live under that
    the scope's server has replicas ──▶ primary: these decide, whichever candidates are left
    otherwise ────────────────────────▶ majority: one server without replicas would be one point of failure

The world file says which servers have replicas, and each agent reads its own. Where two of them differ, or
the group is older than the replicas, the first claim decides, and the joiner takes the group as it is.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from rostra.core.effects import Effect, Instant
from rostra.errors import NoSuchGroup, NotAllowed, Unreachable
from rostra.groups.kinds import GroupKind
from rostra.protocols.agreed.events import AgreedJoinAsked
from rostra.protocols.agreed.living import EXCLUSIVE, MAJORITY, PRIMARY, is_exclusive
from rostra.protocols.agreed.stays import HostMember, StayClaiming, StayLooking
from rostra.protocols.relaxed.requests import Denied, denied

if TYPE_CHECKING:
    from rostra.protocols.agreed.agent import AgreedAgent


def chosen(agent: "AgreedAgent", event: AgreedJoinAsked) -> AgreedJoinAsked:
    """The join, with a rule that can be claimed."""
    kind, known = event.group_kind, agent.groups.get(event.group)
    if kind.survive != EXCLUSIVE:
        return event
    rule = PRIMARY if event.group.scope in agent.replicated else MAJORITY
    if known is not None and is_exclusive(known.kind):
        rule = known.kind.survive
    return replace(event, group_kind=replace(kind, survive=rule), takes_any=True)


def looks_again(refusal: Denied, event: AgreedJoinAsked, member: HostMember) -> bool:
    """Another kind stands, and may do."""
    if not event.takes_any or refusal.code != NotAllowed.code:
        return False
    member.stage = StayLooking(replace(event, group_kind=replace(event.group_kind, survive="")))
    return True


def not_found(event: AgreedJoinAsked, refusal: Denied) -> Denied:
    if not event.takes_any or refusal.code != NoSuchGroup.code:
        return refusal
    return denied(Unreachable(f"{event.group} is about to begin, with another rule", fix="ask again"))


def found(
    agent: "AgreedAgent",
    now: Instant,
    event: AgreedJoinAsked,
    member: HostMember,
    kind: GroupKind,
    out: list[Effect],
) -> None:
    """It exists, and a joiner that does not want to create it takes it as it is."""
    asked = event.group_kind
    is_other = asked.delivery is not kind.delivery or asked.survive not in ("", kind.survive)
    if is_other or (event.takes_any and not is_exclusive(kind)):
        agent.refuse(event, denied(NotAllowed(f"{event.group} is {kind}", fix="join it so")), out)
        return
    agent.groups[event.group].kind = kind
    member.stage = StayClaiming(replace(event, group_kind=kind, takes_any=False))
    agent.claim(now, member.stage.event, out)
