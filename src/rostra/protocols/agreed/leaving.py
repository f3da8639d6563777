"""Members of one host that leave: when the core-set is asked.

    leave ── others have what its host acknowledged? ── not asked for ──▶ MemberAsked(LEAVE) ──▶ core-set
                 └── ``stable="majority"``: LeavesSettled ──▶ LEAVE; or FAIL, if nobody knows

In a group of which a majority holds what is stable, members that left are not counted when the others go on.
So such a leave is asked for when all stations have whatever this host counted for (`atomic/hub_order.py`).
A leave of which that is not known is asked for as a failure, and counts. The program has left meanwhile: it
is given nothing more.
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
