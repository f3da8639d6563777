"""An agent is drained: its members pass their seniority on, before it is stopped (`seniority.py`).

    DrainHost ──▶ members are blocked ──▶ MemberAsked(BACK) ──▶ core-set ── commit ──▶ a view
    HostDrained ◀── all groups were answered

First they are blocked, and only then is the core-set asked: when another member comes to rank 0, none of this
host acts as the first any more. They are blocked until a view has come in which they are behind, whatever
else is agreed on meanwhile.
"""

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from rostra.core.effects import Answer, Effect, Instant
from rostra.names import Group, host_of
from rostra.protocols.agreed.branch import MemberAsked
from rostra.protocols.agreed.calls import GROUPS_MAX, DrainedGroup, DrainHost, HostDrained
from rostra.protocols.agreed.changes import GroupVerb
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.agreed.seniority import is_behind, level_of

if TYPE_CHECKING:
    from rostra.protocols.agreed.agent import AgreedAgent
    from rostra.protocols.agreed.stays import HostGroup

DRAINED: Final = "its host is being drained"


class Draining(Struct, eq=False):
    token: int
    groups: list[DrainedGroup]
    waits: dict[int, Group] = field(default_factory=dict)  # by number of the question


def drain(agent: "AgreedAgent", token: int, request: DrainHost, out: list[Effect]) -> None:
    found = [each for group in sorted(agent.groups) if (each := _concerned(agent, group)) is not None]
    draining = Draining(token, found[:GROUPS_MAX])
    agent.drains.append(draining)
    for each in () if request.look else draining.groups:
        known = agent.groups[each.group]
        if known.view is None or is_behind(known.view, agent.host):
            continue
        here = [AgreedMember(id, 0) for id in known.view.ids if host_of(id.endpoint) == agent.host]
        known.drained = True
        agent.block(each.group, DRAINED, out)
        number = agent.ask(each.group, GroupVerb.BACK, tuple(here), known.kind, out)
        draining.waits[number] = each.group
    mind_drains(agent, out)


def _concerned(agent: "AgreedAgent", group: Group) -> DrainedGroup | None:
    view = agent.groups[group].view
    if view is None:
        return None
    levels: dict[bool, list[int]] = {True: [], False: []}
    for each in view.members:
        levels[host_of(each.id.endpoint) == agent.host].append(level_of(each.attributes))
    if not levels[True] or not levels[False]:
        return None
    is_first = host_of(view.ids[0].endpoint) == agent.host
    return DrainedGroup(group, is_first, max(levels[True]), max(levels[False]))


def answered(
    agent: "AgreedAgent", now: Instant, number: int, message: MemberAsked, why: str, out: list[Effect]
) -> None:
    """What became of the question, if it was one of these; `why` is empty, or says why not."""
    for draining in agent.drains:
        group = draining.waits.pop(number, None)
        if group is not None and why:
            draining.groups = [
                replace(each, refused=why) if each.group == group else each for each in draining.groups
            ]
    known = agent.groups.get(message.group)
    if why and known is not None and known.drained:
        known.drained = False
        if known.blocked == DRAINED:
            agent.unblock(now, message.group, known, out)
    mind_drains(agent, out)


def mind_drains(agent: "AgreedAgent", out: list[Effect]) -> None:
    for draining in [each for each in agent.drains if not each.waits]:
        agent.drains.remove(draining)
        out.append(Answer(draining.token, HostDrained(tuple(draining.groups))))


def still_drained(agent: "AgreedAgent", known: "HostGroup", view: AgreedView) -> str:
    """Why a view that lives is not given to members yet; empty if it may be."""
    if known.drained and is_behind(view, agent.host):
        known.drained = False
    return DRAINED if known.drained else ""
