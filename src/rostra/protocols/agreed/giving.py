"""Items of a group to its members on one host: one effect for all that read and get the same.

item ──▶ those that read ── DeliverAll, or Deliver to one ──▶ programs
     └─▶ those that do not ── `waiting`; too many: Excluded
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rostra.core.effects import Effect, Instant
from rostra.names import Endpoint, Group
from rostra.protocols.agreed.config import VIEWS_WAITING_MAX
from rostra.protocols.agreed.fifo import given
from rostra.protocols.agreed.observed import host_given
from rostra.protocols.agreed.stays import StayInside
from rostra.protocols.agreed.told_views import view_item
from rostra.protocols.fifo.events import DeliverAll, Excluded, Item

if TYPE_CHECKING:
    from rostra.protocols.agreed.agent import AgreedAgent
    from rostra.protocols.agreed.stays import HostGroup


def give(
    agent: "AgreedAgent", now: Instant, group: Group, those: Iterable[Endpoint], item: Item, out: list[Effect]
) -> None:
    known = agent.groups[group]
    members = {
        me: member
        for me in those
        if isinstance((member := known.members[me]).stage, StayInside) and not member.unread
    }
    shown = host_given(group, item) if members else None
    if shown is not None and shown != known.given:
        known.given = shown
        out.append(shown)
    reading = tuple([me for me, member in members.items() if not member.paused or known.kind.is_ordered])
    if len(reading) > 1 and not (known.kind.is_ordered or known.kind.is_spoken_in):
        out.append(DeliverAll(reading, group, item))
    else:
        for me in reading:
            out += given(me, group, item, known)
    for me in members if len(reading) < len(members) else ():
        member = members[me]
        if member.paused and not known.kind.is_ordered:
            member.waiting.append(item)
            if len(member.waiting) > VIEWS_WAITING_MAX:
                why = f"it did not read {VIEWS_WAITING_MAX} views"
                agent.exclude(now, group, me, Excluded(why), out)


def show(
    agent: "AgreedAgent",
    now: Instant,
    group: Group,
    known: "HostGroup",
    out: list[Effect],
    *,
    anew: bool,
    follows: bool = False,
) -> None:
    """The view, to those who are in it and lack it; or to all of them, `anew`."""
    view = known.view
    assert view is not None, "there is one to show"
    inside_now = view.listed
    lacking: dict[bool, list[Endpoint]] = {}  # the whole, or what changed
    for me, member in sorted(known.members.items()):
        is_inside = isinstance(member.stage, StayInside) and member.stage.id in inside_now
        if is_inside and (anew or not member.knows):
            lacking.setdefault(not (follows and member.knows), []).append(me)
            member.knows = True
    for whole, those in lacking.items():
        give(agent, now, group, those, view_item(view, known, whole=whole), out)
