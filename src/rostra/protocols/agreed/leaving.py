"""Members of one host that leave: when the core-set is asked.

    leave ── others have what its host acknowledged? ── not needed ──▶ MemberAsked(LEAVE) ──▶ core-set
                 └── ``stable="majority"``: LeavesSettled ──▶ LEAVE; or FAIL, if it is not known

With ``stable="majority"``, members that left do not count for the majority of the next view. So the core-set
is asked for such a leave only when all stations have every entry that this host acknowledged
(`atomic/hub_order.py`). If that cannot be found out, the leave is reported as a failure, and the member still
counts. The program has left meanwhile: nothing more is delivered to it.
"""

from typing import TYPE_CHECKING

from rostra.core.effects import Effect
from rostra.groups.kinds import GroupKind
from rostra.names import Endpoint, Group
from rostra.protocols.agreed.changes import GroupVerb, MemberId
from rostra.protocols.agreed.events import LeavesSettled
from rostra.protocols.agreed.groups import AgreedMember

if TYPE_CHECKING:
    from rostra.protocols.agreed.agent import AgreedAgent

Leaving = dict[Group, dict[MemberId, GroupKind]]
"""Leaves that the core-set is not asked for yet."""


def leaves_late(kind: GroupKind) -> bool:
    return kind.is_ordered and kind.stable == "majority"


def ask_out(agent: "AgreedAgent", group: Group, id: MemberId, verb: GroupVerb, out: list[Effect]) -> None:
    """While the link is down this is not asked: what we hold then says it."""
    if not agent.up:
        return
    kind = agent.groups[group].kind
    if verb is GroupVerb.LEAVE and leaves_late(kind):
        agent.leaving.setdefault(group, {})[id] = kind
    else:
        agent.ask(group, verb, (AgreedMember(id, 0),), kind, out)


def settled(agent: "AgreedAgent", event: LeavesSettled, out: list[Effect]) -> None:
    """Whether all others have what our host counted for is known; or it will not be."""
    verb = GroupVerb.LEAVE if event.clean else GroupVerb.FAIL
    for id, kind in agent.leaving.pop(event.group, {}).items():
        if agent.up:
            agent.ask(event.group, verb, (AgreedMember(id, 0),), kind, out)


def comes_back(agent: "AgreedAgent", group: Group, me: Endpoint, out: list[Effect]) -> None:
    """It joins again, as another member: the one that it was goes first."""
    for id in [each for each in agent.leaving.get(group, ()) if each.endpoint == me]:
        kind = agent.leaving[group].pop(id)
        agent.ask(group, GroupVerb.FAIL, (AgreedMember(id, 0),), kind, out)
    if group in agent.leaving and not agent.leaving[group]:
        del agent.leaving[group]
