"""A group is over: what that means for its members on one host.

GroupEnded ──▶ a successor has it: MemberMoved, and the views of that one follow, for the same member
           ├── it was put out, and the group goes on: Excluded
           └── no successor: a last, empty view, GroupTerminated, and it is out of the directory
"""

from typing import TYPE_CHECKING, Final

from rostra.core.effects import Effect, Ignored, Instant
from rostra.names import Endpoint
from rostra.protocols.agreed.calls import EndedMember, GroupEnded, GroupTerminated, MemberMoved
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.claims.agent import CLAIM_AGENT
from rostra.protocols.fifo.events import Deliver, Excluded, Item

if TYPE_CHECKING:
    from rostra.protocols.agreed.agent import AgreedAgent
    from rostra.protocols.agreed.stays import HostMember

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


def _flush(
    ended: GroupEnded, me: Endpoint, member: "HostMember", last: list[Item], out: list[Effect]
) -> None:
    """What it has not read comes first, though it does not read: there will be no more."""
    out += [Deliver(me, ended.group, item) for item in (*member.waiting, *last)]
    member.waiting.clear()


def _move(
    agent: "AgreedAgent",
    now: Instant,
    ended: GroupEnded,
    each: EndedMember,
    member: "HostMember",
    out: list[Effect],
) -> None:
    assert each.successor is not None
    agent.drop(now, ended.group, each.id.endpoint, out)
    if each.id.endpoint in agent.members_of(each.successor):
        return  # it was in both
    agent.adopt(now, each.successor, ended.group_kind, each.id.endpoint, member, out)
