"""The members of one host in one group whose messages have one order: what each of them is given, and when.

    order ── runs, views, standstills ──▶ ┌─────────┐ ── reads ──▶ program      one item for all who read
                                          │ Gallery │ ── does not read ──▶ waits ──▶ program, later
    program ── OrderSubmitted ──────────▶ └─────────┘ ── numbered by its sender ──▶ order

A **station** takes part in the order for all members of its host (A-011); the **gallery** is its half towards
them. Whatever is given to one is given to all, in the same order; members differ only in how far they have
read.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from rostra.core.effects import Effect, Ignored
from rostra.groups.attributes import Slow
from rostra.names import Endpoint, Group
from rostra.protocols.agreed.requests import MemberBlocked
from rostra.protocols.atomic.config import BACKLOG_BYTES, WINDOW_BYTES, WINDOW_MESSAGES
from rostra.protocols.atomic.events import OrderLeft, OrderSubmitted, ViewPlaced
from rostra.protocols.atomic.messages import ShownView, StationId, ViewKey
from rostra.protocols.atomic.requests import OrderClosed, OrderedRun, OrderPlaced
from rostra.protocols.fifo.events import Deliver, DeliverAll, Item
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import is_sound

LEFT: Final = "it left the group"

ITEM_BYTES: Final = 64
"""What an item counts as that waits, beside its block."""

Came = tuple[int, int]
"""The agreed view with which a member came; and the fence of the living view with which it was back, if it
was out of one. With another one it came again: the group may have gone on without it meanwhile."""


class GalleryMember:
    """One member of this host."""

    __slots__ = (
        *("bytes", "came", "handed", "is_paused", "knows", "me", "placed", "slow"),
        *("stay", "waiting", "waiting_bytes"),
    )

    def __init__(self, me: Endpoint, slow: Slow, came: Came = (0, 0), stay: int = 0) -> None:
        self.me = me
        self.stay = stay
        self.slow = slow
        self.came = came
        self.knows = False  # it was given the view that it came with
        self.is_paused = False  # its program does not read
        self.waiting: deque[Item] = deque()  # what it was not given yet
        self.waiting_bytes = 0
        self.handed = 0  # messages that it handed over
        self.placed = 0  # of those, in the order
        self.bytes = 0  # of those that are not

    @property
    def is_full(self) -> bool:
        return self.waiting_bytes > BACKLOG_BYTES

    def knows_by(self, view: ShownView) -> bool:
        """With this view, if it is in it, or before. One that was put out before it was given anything, and
        is back, is not given the view with which it came first."""
        return self.knows or view.number >= self.came[0]


class Gallery:
    """All members of one host in one group."""

    def __init__(self, group: Group, stable: str) -> None:
        self.group = group
        self.stable = stable
        self.members: dict[Endpoint, GalleryMember] = {}
        self.view: ShownView | None = None  # the last that has its place
        self.blocked = ""  # why they are given nothing
        self._reading: tuple[Endpoint, ...] | None = None  # who is given everything at once; None: find out
        self._apart: tuple[GalleryMember, ...] = ()  # who are not

    @property
    def is_full(self) -> bool:
        """Does a member that must not be left behind not read?"""
        return any(each.is_full and each.slow is not Slow.EXPEL for each in self._apart)

    @property
    def is_watched(self) -> bool:
        """Is there a member that does not read?"""
        return bool(self._apart)

    @property
    def expelled(self) -> list[Endpoint]:
        """Members that read so slowly that the group goes on without them."""
        return [each.me for each in self._apart if each.is_full and each.slow is Slow.EXPEL]

    # Who is here

    def enter(self, me: Endpoint, slow: Slow, came: Came = (0, 0), stay: int = 0) -> None:
        """It is a member, and waits for the view that it comes with. `stay`: the number of this
        membership."""
        if me not in self.members:
            self.members[me] = GalleryMember(me, slow, came, stay)
            self._reading = None

    def leave(self, me: Endpoint, sent: int, cause: str, out: list[Effect], fix: str = "") -> None:
        """A member leaves; its messages from number `sent` on will not be delivered anywhere."""
        if (member := self.members.pop(me, None)) is not None:
            self._reading = None
            out.append(Deliver(me, self.group, OrderClosed(sent, cause, fix)))
            by_itself = cause == LEFT
            out.append(OrderLeft(self.group, me, cause, by_itself, member.placed, sent, member.handed))

    # What it says

    def submitted(self, event: OrderSubmitted) -> Run | Ignored:
        """The run, with its sender's numbers; or why not."""
        member = self.members.get(event.endpoint)
        if member is None or not member.knows:
            return Ignored("OrderSubmitted", "not in the group")
        run = Run(member.handed + 1, event.count, event.block, event.at)
        if not is_sound(run):
            return Ignored("OrderSubmitted", "not a block of messages")
        if member.handed + event.count - member.placed > WINDOW_MESSAGES or member.bytes > WINDOW_BYTES:
            return Ignored("OrderSubmitted", "more than it may")
        member.handed += event.count
        member.bytes += len(event.block)
        return run

    # What they are given

    def give_run(self, sender: Endpoint, run: Run, position: int, out: list[Effect]) -> None:
        item = OrderedRun(sender, run, position)
        reading = self._reading
        if reading is None:
            reading = self._readers()
        if reading:
            out.append(DeliverAll(reading, self.group, item))
        for each in self._apart:
            self._wait(each, item, len(run.block))
        member = self.members.get(sender)
        if member is not None and member.knows:  # else an earlier membership sent it
            member.placed = run.end - 1
            member.bytes -= len(run.block)
            if member.is_paused:
                number = 0 if self.view is None else self.view.number
                out.append(Deliver(sender, self.group, OrderPlaced(run.first, run.count, position, number)))

    def replay(
        self, to: Iterable[Endpoint], sender: Endpoint, run: Run, position: int, out: list[Effect]
    ) -> None:
        """What was ordered before all members that there are now."""
        those = sorted([self.members[each] for each in to], key=_name)
        self._give(those, OrderedRun(sender, run, position), out, len(run.block))

    def give_view(self, view: ShownView, position: int, orderer: StationId | None, out: list[Effect]) -> None:
        """To those who are in it; whole to those who have none yet, and if it cannot be made of the last."""
        host = None if orderer is None else orderer.host
        out.append(ViewPlaced(self.group, view.key, position, host, self.stable, view.fence))
        before = self.view
        view = view if before is None else since(before, view)
        follows = before is not None and is_next(before, view)
        was = frozenset() if before is None else before.endpoints
        self.view = view
        inside = view.endpoints
        for_it = [each for each in self.members.values() if each.me in inside and each.knows_by(view)]
        for had in (True, False):  # who was in the last one, and was given it
            some = [each for each in for_it if (each.knows and each.me in was) is had]
            if some:
                shown = view if had else _to_newcomers(view, some)
                self._give(sorted(some, key=_name), shown.item(whole=not (had and follows)), out)
        for each in for_it:
            if not each.knows:
                each.knows = True
                self._reading = None

    def show_again(self, out: list[Effect]) -> None:
        """A standstill is over: the view that they had."""
        if self.view is not None:
            those = [each for each in self.members.values() if each.knows]
            self._give(sorted(those, key=_name), self.view.item(whole=True), out)

    def stand(self, why: str, agreed: ViewKey | None, out: list[Effect], *, all: bool = False) -> None:
        """Nothing goes on here because of this; or, if it is empty, it does. A standstill ends with a view:
        with the one that they had, if it is still the last; else with that which gets its place next."""
        if why and why != self.blocked:
            self.blocked = why
            self.give_blocked(why, out, all=all)
        elif self.blocked and not why:
            self.blocked = ""
            if self.view is not None and self.view.key == agreed:
                self.show_again(out)

    def give_blocked(self, why: str, out: list[Effect], *, all: bool = False) -> None:
        """To those who were given a view, or to all."""
        those = [each for each in self.members.values() if each.knows or all]
        self._give(sorted(those, key=_name), MemberBlocked(why), out)

    def _give(self, those: Iterable[GalleryMember], item: Item, out: list[Effect], size: int = 0) -> None:
        reading = []
        for each in those:
            if each.is_paused or each.waiting:
                self._wait(each, item, size)
            else:
                reading.append(each.me)
        if reading:
            out.append(DeliverAll(tuple(reading), self.group, item))

    def _wait(self, member: GalleryMember, item: Item, size: int) -> None:
        member.waiting.append(item)
        member.waiting_bytes += size + ITEM_BYTES

    def _readers(self) -> tuple[Endpoint, ...]:
        here = sorted([each for each in self.members.values() if each.knows], key=_name)
        self._apart = tuple([each for each in here if each.is_paused])
        self._reading = tuple([each.me for each in here if not each.is_paused])
        return self._reading

    # How far they have read

    def reads(self, me: Endpoint, reads: bool, out: list[Effect]) -> None:
        member = self.members.get(me)
        if member is None or member.is_paused is not reads:
            return
        member.is_paused = not reads
        if reads:
            out += [Deliver(me, self.group, item) for item in member.waiting]
            member.waiting.clear()
            member.waiting_bytes = 0
        self._reading = None
        self._readers()


def since(before: ShownView, view: ShownView) -> ShownView:
    """How it came from this one, which may not be the one before it in the order. Who was in that and has
    joined came again."""
    was, asked = before.endpoints - {*view.joined}, frozenset(view.left)
    stay = view.endpoints & was
    gone = [each for each, _ in before.members if each not in stay]
    return replace(
        view,
        joined=tuple([each for each, _ in view.members if each not in was]),
        left=tuple([each for each in gone if each in asked]),
        failed=tuple([each for each in gone if each not in asked]),
    )


def _to_newcomers(view: ShownView, newcomers: Iterable[GalleryMember]) -> ShownView:
    """The first view of these: that they were in one which they were not given, and failed, is not theirs."""
    those = frozenset([each.me for each in newcomers])
    return replace(view, failed=tuple([each for each in view.failed if each not in those]))


def is_next(before: ShownView, view: ShownView) -> bool:
    """Is it those who stayed, as they were, then those who joined?"""
    gone, new = {*view.left, *view.failed}, frozenset(view.joined)
    stayed = [each for each in before.members if each[0] not in gone]
    return (*stayed, *[each for each in view.members if each[0] in new]) == view.members


def _name(member: GalleryMember) -> Endpoint:
    return member.me
