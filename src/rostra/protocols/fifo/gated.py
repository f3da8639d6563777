"""Members of one host in agreed groups with FIFO multicast.

    agreed agent ── StreamsWanted ──▶ claim, list, sync with the delegate ── Ready ──▶ StreamsAnswered
                 ── ViewGiven ──────▶ messages that waited for it are delivered; it may send in this view
                 ── SendingStopped ─▶ what it submits is queued
                 ── StreamsUnwanted ▶ it leaves, as from any FIFO group

The data plane comes first, then the agreed join: when a view with a new member is installed, its streams are
already pinned, so it gets all that is sent in that view. A leave goes the other way round.

Views and messages reach a program as items of one sequence, in the order of effects. The streams' own
`Joined` and `Left` do not: membership comes from the views alone.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rostra.core.effects import Answer, CancelTimer, Effect, Ignored, Instant, SetTimer
from rostra.core.stack import ServiceName
from rostra.names import Endpoint, Group
from rostra.protocols.fifo.context import timer
from rostra.protocols.fifo.events import (
    Aggregated,
    ChangesTogether,
    Credit,
    Deliver,
    Delivered,
    Excluded,
    Gap,
    Item,
    JoinAsked,
    LeaveAsked,
    Left,
    Parted,
    Paused,
    Ready,
    Resumed,
    SendingStopped,
    Sent,
    StreamsAnswered,
    StreamsLost,
    StreamsUnwanted,
    StreamsWanted,
    ViewGiven,
)
from rostra.protocols.fifo.gate import GIVE_UP_S, ReaderGate
from rostra.protocols.relaxed.requests import Denied, Done

if TYPE_CHECKING:
    from rostra.protocols.fifo.core import HostCore

GATE = "gate"


class GatedMember:
    __slots__ = ("asker", "gate", "is_full", "is_ready")

    def __init__(self, asker: ServiceName[Any]) -> None:
        self.asker = asker
        self.gate = ReaderGate()
        self.is_ready = False  # the asker was answered
        self.is_full = False  # and takes nothing more from its streams


class GatedGroups:
    """All such groups of one host, called by its `HostCore`."""

    def __init__(self, host: "HostCore") -> None:
        self._host = host
        self.groups: dict[Group, dict[Endpoint, GatedMember]] = {}

    def find(self, group: Group, endpoint: Endpoint) -> GatedMember | None:
        members = self.groups.get(group)
        return None if members is None else members.get(endpoint)

    # From the service of agreed membership

    def heard(
        self,
        now: Instant,
        order: StreamsWanted | StreamsUnwanted | ViewGiven | SendingStopped,
        out: list[Effect],
    ) -> None:
        match order:
            case StreamsWanted():
                self._enter(now, order, out)
            case StreamsUnwanted(endpoint, group):
                self._leave(now, group, endpoint, out)
            case ViewGiven(endpoint, group, number):
                member, core = self.find(group, endpoint), self._host.members.get(group, {}).get(endpoint)
                if member is None or core is None:
                    out.append(Ignored("ViewGiven", "not in the group"))
                    return
                self._show(group, endpoint, member.gate.given(order), out)
                self._take_more(now, group, endpoint, member, out)
                if order.may_send:
                    self._host.perform(now, core, core.send_in(now, number), out)
            case SendingStopped(group, endpoints):
                for endpoint in endpoints:
                    if (core := self._host.members.get(group, {}).get(endpoint)) is not None:
                        core.sending.hold()

    def _enter(self, now: Instant, wanted: StreamsWanted, out: list[Effect]) -> None:
        me, group = wanted.endpoint, wanted.group
        self.groups.setdefault(group, {})[me] = GatedMember(wanted.asker)
        join = JoinAsked(
            *(me, 0, group, wanted.luck, wanted.role, wanted.slow, wanted.meta, wanted.group_kind)
        )
        entered: list[Effect] = []
        self._host.join(now, join, entered)
        for effect in entered:
            if isinstance(effect, Answer) and effect.token == join.token:
                self.refused(now, group, me, effect.result, out)
            else:
                out.append(effect)

    def refused(self, now: Instant, group: Group, me: Endpoint, refusal: Denied, out: list[Effect]) -> None:
        member = self.find(group, me)
        if member is not None and not member.gate.is_over:
            self.forget(group, me)
            self._answer(now, member, StreamsAnswered(me, group, refusal), out)

    def _leave(self, now: Instant, group: Group, me: Endpoint, out: list[Effect]) -> None:
        member = self.find(group, me)
        if member is not None and not member.gate.is_over:
            member.gate.is_over = True
            out.append(CancelTimer(timer(group, me, GATE)))
            self._host.drive(now, group, me, LeaveAsked(me, 0, group), out)

    def forget(self, group: Group, me: Endpoint) -> None:
        members = self.groups.get(group, {})
        members.pop(me, None)
        if not members:
            self.groups.pop(group, None)

    def _answer(
        self, now: Instant, member: GatedMember, event: StreamsAnswered | StreamsLost, out: list[Effect]
    ) -> None:
        out += self._host.hear(now, self._host.stack.call(now, self._host, member.asker, event))

    # From its streams

    def deliver(self, now: Instant, deliver: Deliver, out: list[Effect]) -> None:
        """One item, or several at once."""
        me, group = deliver.endpoint, deliver.group
        item = deliver.item
        for each in item.items if isinstance(item, ChangesTogether) else (item,):
            self._deliver(now, Deliver(me, group, each), out)

    def _deliver(self, now: Instant, deliver: Deliver, out: list[Effect]) -> None:
        me, group, item = deliver.endpoint, deliver.group, deliver.item
        member = self.find(group, me)
        if member is None or isinstance(item, Credit | Sent | Parted):
            out.append(deliver)
        elif member.gate.is_over:
            pass
        elif isinstance(item, Delivered | Gap | Left):
            self._show(group, me, member.gate.passes(item), out)
            self._take_less(now, group, me, member, out)
        elif isinstance(item, Ready) and not member.is_ready:
            member.is_ready = True
            self._answer(now, member, StreamsAnswered(me, group, Done()), out)
        elif isinstance(item, Excluded):
            member.gate.is_over = True
            out.append(deliver)
            self._answer(now, member, StreamsLost(me, group), out)
        elif isinstance(item, Aggregated):
            out.append(Ignored("Aggregated", "of no member"))

    def _show(self, group: Group, me: Endpoint, items: Iterable[Item], out: list[Effect]) -> None:
        out += [Deliver(me, group, item) for item in items]

    # From its program, and as time passes

    def reads(self, now: Instant, event: Paused | Resumed, out: list[Effect]) -> None:
        me, group = event.endpoint, event.group
        member = self.find(group, me)
        assert member is not None
        member.gate.is_stopped = isinstance(event, Paused)
        if member.gate.is_stopped or not member.is_full:
            self._host.drive(now, group, me, event, out)

    def _take_less(
        self, now: Instant, group: Group, me: Endpoint, member: GatedMember, out: list[Effect]
    ) -> None:
        """Too much waits for views: its senders are blocked, as for a program that does not read (X-090)."""
        if member.gate.is_full and not member.is_full:
            member.is_full = True
            out.append(SetTimer(timer(group, me, GATE), GIVE_UP_S))
            self._host.drive(now, group, me, Paused(me, group), out)

    def _take_more(
        self, now: Instant, group: Group, me: Endpoint, member: GatedMember, out: list[Effect]
    ) -> None:
        if member.is_full and not member.gate.is_full:
            member.is_full = False
            out.append(CancelTimer(timer(group, me, GATE)))
            if not member.gate.is_stopped:
                self._host.drive(now, group, me, Resumed(me, group), out)

    def timed_out(self, now: Instant, group: Group, me: Endpoint, out: list[Effect]) -> None:
        member = self.find(group, me)
        if member is None or not member.is_full:
            out.append(Ignored("TimerFired", "no longer waited for"))
            return
        if member.gate.give_up():
            out.append(Ignored("Delivered", "of senders in no view"))
        self._take_more(now, group, me, member, out)
        if member.is_full:
            out.append(SetTimer(timer(group, me, GATE), GIVE_UP_S))
