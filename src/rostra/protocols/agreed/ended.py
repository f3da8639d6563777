"""A group is over, or was split and goes on: what that means for its members on one host.

GroupEnded ──▶ a successor has it: MemberMoved, and the views of that one follow, for the same member
           ├── it was put out, and the group goes on: Excluded
           └── no successor: a last, empty view, GroupTerminated, and it is out of the directory

SubgroupEntered ──▶ MemberAdded; it is in that subgroup too, and is given no item of it
                      until its program joins the subgroup: Done, and the present view

A member that is in a group no more is excluded from its subgroups.
"""

from typing import TYPE_CHECKING, Final

from rostra.core.effects import Answer, Effect, Ignored, Instant
from rostra.errors import BadInput, NotAllowed
from rostra.groups.kinds import GroupKind
from rostra.names import Endpoint, Group
from rostra.protocols.agreed.calls import (
    EndedMember,
    GroupEnded,
    GroupTerminated,
    MemberAdded,
    MemberMoved,
    SubgroupEntered,
)
from rostra.protocols.agreed.changes import GroupVerb
from rostra.protocols.agreed.giving import give, show
from rostra.protocols.agreed.groups import AgreedMember
from rostra.protocols.agreed.lease import IN_DOUBT
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.agreed.seniority import with_level
from rostra.protocols.agreed.sheets import member_sheet
from rostra.protocols.agreed.stays import HostGroup, HostMember, StayAsking, StayInside
from rostra.protocols.agreed.subgroups import is_within, whole_of
from rostra.protocols.claims.agent import CLAIM_AGENT, JoinClaimed
from rostra.protocols.fifo.events import Deliver, Excluded, Item
from rostra.protocols.relaxed.requests import Done, Join

if TYPE_CHECKING:
    from rostra.protocols.agreed.agent import AgreedAgent
    from rostra.protocols.agreed.events import AgreedJoinAsked

KEPT: Final = "it was split, and goes on"
"""In `MemberAdded`."""

PUT_OUT_FIX: Final = "ask those who may change the group before you join it again"


def end_group(agent: "AgreedAgent", now: Instant, ended: GroupEnded, out: list[Effect]) -> None:
    known = agent.groups.get(ended.group)
    if known is None or ended.host != agent.host:
        out.append(Ignored("GroupEnded", "no member"))
        return
    number, revision, pid = ended.id
    left = () if known.view is None else tuple([each.endpoint for each in known.view.ids])
    last = MemberView(number, revision, "" if pid is None else str(pid), (), left=left)
    if ended.over and known.kind.stable == "disk" and all(each.successor is None for each in ended.members):
        agent.stack[CLAIM_AGENT].over.add(ended.group)  # its claim, which stands without holders, ends too
    for each in ended.members:
        me = each.id.endpoint
        member = known.members.get(me)
        if member is None or agent.id_inside(member) != each.id:
            continue  # it has left meanwhile, or joined anew
        if not ended.over:
            _flush(ended, me, member, [Excluded(ended.why, PUT_OUT_FIX)], out)
            agent.drop(now, ended.group, me, out)
        elif each.successor is None:
            _flush(ended, me, member, [last, GroupTerminated(ended.why)], out)
            agent.drop(now, ended.group, me, out)
        else:
            _flush(ended, me, member, [MemberMoved(each.successor, ended.why)], out)
            _move(agent, now, ended, each, member, out)


def _flush(ended: GroupEnded, me: Endpoint, member: HostMember, last: list[Item], out: list[Effect]) -> None:
    """What it has not read comes first, though it does not read: there will be no more."""
    if member.unread:
        return
    out += [Deliver(me, ended.group, item) for item in (*member.waiting, *last)]
    member.waiting.clear()


def _move(
    agent: "AgreedAgent",
    now: Instant,
    ended: GroupEnded,
    each: EndedMember,
    member: HostMember,
    out: list[Effect],
) -> None:
    assert each.successor is not None
    agent.drop(now, ended.group, each.id.endpoint, out)
    if each.id.endpoint in agent.members_of(each.successor):
        return  # it was in both
    _adopt(agent, now, each.successor, ended.group_kind, each.id.endpoint, member, out, unread=member.unread)
    if member.unread:
        whole = whole_of(each.successor, ended.group_kind)
        _tell_added(agent, now, whole, each.successor, each.id.endpoint, out)


def _adopt(
    agent: "AgreedAgent",
    now: Instant,
    group: Group,
    kind: GroupKind,
    me: Endpoint,
    member: HostMember,
    out: list[Effect],
    *,
    unread: bool = False,
) -> None:
    """It is in this group, though it did not ask; the directory has yet to hear of it."""
    stage = member.stage
    if isinstance(stage, StayAsking):
        out.append(Answer(stage.event.token, Done()))
        stage = StayInside(stage.id, stage.event.meta)
    assert isinstance(stage, StayInside)
    known = agent.groups.setdefault(group, HostGroup(kind))
    known.members[me] = HostMember(stage, paused=member.paused and not unread, unread=unread)
    join = Join(group, online=False, meta=member_sheet(stage.meta).meta, group_kind=kind)
    agent._call(now, CLAIM_AGENT, JoinClaimed(me, agent._own_token((group, me)), join), out)


# Subgroups


def enter_subgroup(agent: "AgreedAgent", now: Instant, entered: SubgroupEntered, out: list[Effect]) -> None:
    """It may be said again, and when they have left the subgroup meanwhile."""
    known = agent.groups.get(entered.group)
    if known is None or entered.host != agent.host:
        out.append(Ignored("SubgroupEntered", "no member"))
        return
    for id in entered.members:
        me = id.endpoint
        member = known.members.get(me)
        if member is None or agent.id_inside(member) != id:
            continue  # it leaves the subgroup with the group
        inside = agent._find(entered.to, me)
        if inside is not None and agent.id_inside(inside) == id:
            continue
        if inside is not None or entered.to in member.entered:  # it joins by itself, or has left
            agent.ask(entered.to, GroupVerb.LEAVE, (AgreedMember(id, 0),), entered.group_kind, out)
            continue
        if isinstance(member.stage, StayAsking):
            out.append(Answer(member.stage.event.token, Done()))
            member.stage = StayInside(id, member.stage.event.meta)
        _adopt(agent, now, entered.to, entered.group_kind, me, member, out, unread=True)
        _tell_added(agent, now, entered.group, entered.to, me, out)


def _tell_added(
    agent: "AgreedAgent", now: Instant, whole: Group, to: Group, me: Endpoint, out: list[Effect]
) -> None:
    if me in agent.members_of(whole):
        agent.groups[whole].members[me].entered.add(to)
        give(agent, now, whole, [me], MemberAdded(to, KEPT), out)


def take_up(
    agent: "AgreedAgent", now: Instant, event: "AgreedJoinAsked", member: HostMember, out: list[Effect]
) -> None:
    """The program of a member that a split put into a subgroup joins it."""
    group, me, asked = event.group, event.endpoint, event.group_kind
    known, stage = agent.groups[group], member.stage
    assert isinstance(stage, StayInside)
    is_other = asked.delivery is not known.kind.delivery or asked.survive not in ("", known.kind.survive)
    if event.create or is_other:
        raise NotAllowed(
            f"{me} is in {group} already, which is {known.kind}", fix="join it with create=False"
        )
    if event.meta not in (stage.meta, with_level(b"", agent.config.level)):
        raise BadInput(
            f"{me} is in {group} already, with what it shows in {known.kind.within}",
            fix="join it without meta and attributes, and set attributes then",
        )
    member.unread, member.knows, member.slow = False, False, event.slow
    out.append(Answer(event.token, Done()))
    if known.blocked or known.doubt:
        give(agent, now, group, [me], MemberBlocked(known.blocked or IN_DOUBT), out)
    elif known.view is not None:
        show(agent, now, group, known, out, anew=False)
    for each in sorted(member.entered):  # of which it was not told
        if me in agent.members_of(each) and agent.groups[each].members[me].unread:
            give(agent, now, group, [me], MemberAdded(each, KEPT), out)


def leave_subgroups(
    agent: "AgreedAgent", now: Instant, group: Group, me: Endpoint, out: list[Effect]
) -> None:
    """It is not in this group any more."""
    inner = [each for each, known in agent.groups.items() if is_within(each, known.kind, group)]
    for each in sorted(inner):
        if me in agent.members_of(each):
            agent.exclude(now, each, me, Excluded(f"it left {group}", f"join {group} first"), out)
