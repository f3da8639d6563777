"""Members of agreed groups with closed or restricted names, at the servers: who may be in them, and for how
long.

    MemberAsked, HostHolds ──▶ each server of the branch: closed to it, or no proof? ──▶ refused, and named
    every `PROOFS_S` ──▶ members whose proof has ended, or whose authority was revoked, are removed

A member of a restricted name has a proof in its entry (S-012, TS2), so each server of the core-set can verify
it: that it is signed for this endpoint and name, by an authority that is installed and not revoked. When it
ends is decided by the server of the member's branch, the only one that gets renewals: an agent sends what it
holds with the newest proof (`HostHolds`), and no new view is agreed for it.

The agent of a member refuses or removes it as well, and need not be honest. A server of the set need not be,
either: a member that it let in without a proof is removed by the others.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from rostra.core.effects import Effect, Instant
from rostra.errors import NoSuchGroup, NotAuthorised
from rostra.names import Domain, Endpoint, Group, host_of, inside
from rostra.protocols.agreed.branch import HostHolds, MemberAsked
from rostra.protocols.agreed.changes import GroupVerb, MemberId, Pid, ServerId
from rostra.protocols.agreed.groups import AgreedMember, AgreedView
from rostra.protocols.agreed.part import CoreSet
from rostra.protocols.agreed.sheets import member_sheet
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.gate import CLOSED, ENDED, AccessRefused, Gate

if TYPE_CHECKING:
    from rostra.protocols.agreed.server import AgreedServer

PROOFS_S: Final = 5.0
"""How often a server looks at the proofs of members of restricted names. Raising it: a member whose agent
does not remove it stays longer."""

SCREENED_MAX: Final = 64
"""Members that one step looks at. Each costs a third of a millisecond, if its proof was not seen before."""

FALSE_MAX: Final = 64
"""False proofs in one message, after which no other of it is verified: they are taken for false, too."""

GO_ON_S: Final = 0.05
"""After this the next step looks at the next ones: a round through 10,000 members takes eight seconds."""

Screened = tuple[Domain, Group, int]
"""A set, a group of it, and the rank of a member: there a round goes on."""


def refused(now: Instant, gate: Gate, asked: MemberAsked, out: list[Effect]) -> tuple[str, str]:
    """The code of a join's refusal, and why; empty if all may join. To those that a group is closed to it is
    not there (C-167)."""
    if asked.verb is not GroupVerb.JOIN or not asked.members:
        return "", ""
    if len(asked.members) > 1 and "!" in asked.group.name:
        return NotAuthorised.code, f"{asked.group}: a proof is for one member"
    entry = asked.members[0].attributes  # of all: it is what is agreed on
    found = _outside(now, gate, asked, [replace(each, attributes=entry) for each in asked.members], out)
    if not found:
        return "", ""
    why = next(iter(found.values()))
    return (NoSuchGroup.code, "") if why == CLOSED else (NotAuthorised.code, f"{asked.group}: {why}")


def let_in(now: Instant, gate: Gate, held: HostHolds, out: list[Effect]) -> HostHolds:
    """What a host holds, without members that may not be in the group: it cannot bring them back, either. A
    host without any is not believed about the group's view."""
    outside = _outside(now, gate, held, held.members, out)
    if not outside:
        return held
    return replace(held, members=tuple([each for each in held.members if each.id.endpoint not in outside]))


def without_strangers(gate: Gate, group: Group, view: AgreedView, number: int, me: ServerId) -> AgreedView:
    """A view that hosts remember, of a group that is closed: if members of it may not be in the group, one
    with another number, since no id has two lists."""
    if gate.allowed_in(group) is None or gate.is_by_authority(group):
        return view
    good = tuple([each for each in view.members if not gate.is_closed_to(group, each.id.endpoint)])
    return view if len(good) == len(view.members) else AgreedView(number + 1, 0, Pid(me, 0), good)


def _outside(
    now: Instant,
    gate: Gate,
    message: MemberAsked | HostHolds,
    members: Iterable[AgreedMember],
    out: list[Effect],
) -> dict[Endpoint, str]:
    host, group = message.question.host, message.group
    if not _is_checked(gate, group):
        return {}
    found: dict[Endpoint, str] = {}
    false, last = 0, ""
    for each in members:
        if why := last if false >= FALSE_MAX else _why_not(now, gate, group, each.id, each.attributes):
            found[each.id.endpoint] = why
            _name(now, gate, group, each.id, why, host, out)
            if why not in (CLOSED, ENDED) and member_sheet(each.attributes).proof:
                false, last = false + 1, why
    return found


def is_restricted(server: "AgreedServer") -> bool:
    """Has one of its sets a group with members to look at?"""
    return any("!" in group.name for core in server._ordinary() for group in core.table.groups)


def screen(server: "AgreedServer", now: Instant, out: list[Effect]) -> None:
    """Remove members that may not be in their groups any more: of the next `SCREENED_MAX`, in a fixed order
    of sets and groups. Where a member went meanwhile, the one behind it is looked at in the next round."""
    left, at = SCREENED_MAX, server._screened
    server._screened = None
    for core in sorted(server._ordinary(), key=lambda each: each.core.set):
        for group in sorted([each for each in core.table.groups if "!" in each.name]):
            place = core.core.set, group
            if at is not None and place < at[:2]:
                continue
            first = at[2] if at is not None and place == at[:2] else 0
            members = core.table.groups[group].view.members[first : first + left]
            _screen_some(server, now, core, group, members, out)
            left -= len(members)
            if not left:
                server._screened = (*place, first + len(members))
                return


def next_s(server: "AgreedServer") -> float:
    """When to go on."""
    return PROOFS_S if server._screened is None else GO_ON_S


def _screen_some(
    server: "AgreedServer",
    now: Instant,
    core: CoreSet,
    group: Group,
    members: Iterable[AgreedMember],
    out: list[Effect],
) -> None:
    gate, going = server.stack[SERVER].gate, server._proposed(core, group, GroupVerb.FAIL)
    gone = []
    for each in members:
        held = server._held(each.id, group)
        why = _why_not(now, gate, group, each.id, held.get(each.id, each.attributes))
        if not why or (why == ENDED and each.id not in held):
            continue  # the servers of other branches get its renewals
        held.pop(each.id, None)  # its host does not bring it back, also if another removes it
        if each.id in going:
            continue
        gone.append(each.id)
        _name(now, gate, group, each.id, why, _behind(server.domain, each.id), out)
    server._propose_loss(now, core, group, gone, out)


def _behind(domain: Domain, id: MemberId) -> Domain:
    """The node under which a member is named: its host; of one that another server let in, our own set."""
    host = host_of(id.endpoint)
    return host if inside(domain, host) else domain


def _is_checked(gate: Gate, group: Group) -> bool:
    return "!" in group.name or gate.allowed_in(group) is not None


def _why_not(now: Instant, gate: Gate, group: Group, id: MemberId, attributes: bytes) -> str:
    proof = member_sheet(attributes).proof if "!" in group.name else b""
    return gate.why_not(now, group, id.endpoint, proof)


def _name(
    now: Instant, gate: Gate, group: Group, id: MemberId, why: str, node: Domain, out: list[Effect]
) -> None:
    gate.name(now, node, AccessRefused(id.endpoint, group, why, node), out)
