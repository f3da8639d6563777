"""What this service sends to FIFO multicast about agreed groups with `delivery="fifo"` (`fifo/gated.py`)."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from rostra.core.effects import Effect
from rostra.core.stack import ServiceName
from rostra.names import Endpoint, Group
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.events import AgreedChanged, AgreedJoinAsked
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.fifo.events import Deliver, Item, SendingStopped, StreamsWanted, ViewGiven

if TYPE_CHECKING:
    from rostra.protocols.agreed.stays import HostGroup


def streams_wanted(asker: ServiceName[Any], join: AgreedJoinAsked) -> StreamsWanted:
    return StreamsWanted(
        asker, join.endpoint, join.group, join.group_kind, join.luck, join.role, join.slow, join.meta
    )


def given(me: Endpoint, group: Group, item: Item, known: "HostGroup") -> list[Effect]:
    """An item for a program; after a view, what waited for it. If messages have one order, views have their
    places in it, and another service gives them."""
    if known.kind.is_ordered:
        return [AgreedChanged(group)]
    delivered = Deliver(me, group, item)
    if not isinstance(item, MemberView) or not known.kind.is_spoken_in:
        return [delivered]
    members = None if item.members is None else tuple([each for each, _ in item.members])
    joined, gone = tuple([each for each, _ in item.joined]), (*item.left, *item.failed)
    may_send = not known.blocked and known.members[me].knows  # it may read late of a view that is over
    return [delivered, ViewGiven(me, group, item.number, members, joined, gone, may_send)]


def sending_stopped(
    group: Group, known: "HostGroup", inside: Collection[MemberId] = ()
) -> list[SendingStopped]:
    """Which of our members have no living view: all, if their side is blocked; else those that are not in it:
    they were given up, and come back."""
    if not known.kind.is_spoken_in:
        return []
    stopped = [
        me
        for me, member in sorted(known.members.items())
        if known.blocked or getattr(member.stage, "id", None) not in inside
    ]
    return [SendingStopped(group, tuple(stopped))] if stopped else []
