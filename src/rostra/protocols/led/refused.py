"""Members of this host that cannot stay in a set: they go, and their programs are told why.

    another kind of group stands ──▶ all of them
    registrar ── LeadRefused: it has no room ──▶ all of them: no leader lists them
    parent ── ListRefused: the list is too large ──▶ those that came last
    registrar ── LeadRefused: we hold no claim ──▶ none; we claim the kind again

A join is answered before the registrar is asked, so that it does not wait for one that is out of reach. What
was answered and cannot be kept is taken back with `PutOut`.
"""

from typing import TYPE_CHECKING

from rostra.core.effects import Answer, Tell
from rostra.errors import TooLarge
from rostra.names import Group
from rostra.protocols.claims.agent import CLAIM_AGENT
from rostra.protocols.led.core import SEVERAL_GROUPS, LeadingRefused, MembersRefused, MemberWent
from rostra.protocols.led.messages import LeadRefused
from rostra.protocols.led.stays import local_name
from rostra.protocols.relaxed.requests import Denied, PutOut, denied

if TYPE_CHECKING:
    from rostra.protocols.led.agent import LedAgent


def put_out_all(agent: "LedAgent", group: Group, notice: PutOut) -> None:
    """Another kind stands: all members of this host go, and are told why."""
    known = agent.sets.pop(group)
    for me in sorted(known.members):
        if me != known.signpost:
            agent.out.append(Tell((me,), notice))
        agent.tree_step(group, MemberWent(local_name(me)))
    agent.out += [Answer(asked.token, notice.refusal) for asked in known.waiting]


def put_out(agent: "LedAgent", refused: MembersRefused) -> None:
    """One that speaks is taken out by its own service, which hears the notice."""
    group, names, newer = refused.group, set(refused.names), refused.newer
    known = agent.sets.get(group)
    notice = PutOut(group, denied(TooLarge(refused.why, fix=refused.fix)))
    members = () if known is None else sorted(known.members.items())
    for me, stay in members:
        if local_name(me) in names or (newer is not None and stay.since > newer):
            if not stay.speaks:
                agent.leave(me, group, gone=False)
            agent.out.append(Tell((me,), notice))


def list_full(group: Group) -> Denied:
    return denied(TooLarge(f"the list of {group} is as large as it can be", fix=SEVERAL_GROUPS))


def lead_refused(agent: "LedAgent", said: LeadRefused) -> None:
    full = said.code == TooLarge.code
    agent.tree_step(said.group, LeadingRefused(said.number, full, said.why))
    if not full and said.group in agent.sets:
        agent.out += agent.stack[CLAIM_AGENT].renew(said.group)
