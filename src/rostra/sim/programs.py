"""Simulated programs: they talk to the front of their host's agent, and keep views with the real library.

A program has one connection and one endpoint. Its questions reach the agent at once, and so do the answers
and notices on their way back: both are on one host. It dies with its host (C-022), or alone when killed.

Its notices as a member and those as a watcher are two streams, with a view for each. In the
history, a watcher is an observer of its own (`watcher_of`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rostra.errors import BadInput
from rostra.groups.attributes import Role, Slow
from rostra.groups.kinds import DeliveryKind, GroupKind, MembershipKind
from rostra.groups.members import Members
from rostra.names import (
    OPEN,
    Domain,
    Endpoint,
    Group,
    host_of,
    incarnation_of,
    make_group,
    name_of,
    parse_group,
)
from rostra.observe.trace import QUIET, CallAnswered, ProgramGiven, ProgramTold
from rostra.protocols.agreed.requests import JoinAgreed, LeaveAgreed, MemberBlocked, MemberView
from rostra.protocols.atomic.requests import JoinOrdered, LeaveOrdered, OrderClosed
from rostra.protocols.fifo.events import ChangesTogether, Credit, Excluded, Item, Parted, Sent
from rostra.protocols.fifo.requests import Enter, Exit
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import block_of
from rostra.protocols.front.messages import NO_ENDPOINT, Answered, Ask, Reading, Submit, Told
from rostra.protocols.led.requests import AnySetNotice, JoinLed, LeaveLed
from rostra.protocols.relaxed.requests import (
    Absolute,
    AnyNotice,
    Changed,
    Close,
    Denied,
    Done,
    Join,
    Joined,
    Leave,
    Left,
    Only,
    Open,
    Opened,
    PutOut,
    Resolve,
    SendTo,
    SetOnline,
    Snapshot,
    Unwatch,
    Watch,
    WatchLife,
    Without,
)
from rostra.protocols.relaxed.view import NOT_FOLLOWED, Report, Views
from rostra.protocols.scopes.requests import JoinOpen, LeaveOpen
from rostra.sim.conversations import SimConversation
from rostra.sim.history import (
    AnswerRecord,
    DeliveryRecord,
    FifoStateChanged,
    FollowingChanged,
    MembershipChanged,
    NoticeRecord,
    SubmissionRecord,
)
from rostra.sim.orders import SimOrder

if TYPE_CHECKING:
    from rostra.sim.fronts import SimLink
    from rostra.sim.world import World


def watcher_of(endpoint: Endpoint) -> Endpoint:
    """What the history calls an endpoint as a watcher, which gets other notices than it does as a member."""
    return Endpoint(f"{host_of(endpoint)}/{name_of(endpoint)}.watch#{incarnation_of(endpoint)}")


class SimCall:
    """One question and, once it is there, its answer."""

    __slots__ = ("answered_at", "asked_at", "asked_in", "program", "request", "result")

    def __init__(self, program: SimProgram | None, request: Any, asked_at: float) -> None:
        self.program = program
        self.request = request
        self.asked_at = asked_at
        self.asked_in = NOT_FOLLOWED  # for a resolve: the period of following its group, see `Views.answered`
        self.answered_at: float | None = None
        self.result: Any = None


class SimAgreed:
    """One membership of a program in a group of agreed membership, as the library keeps it."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.view: MemberView | None = None  # the last one
        self.members: tuple[Endpoint, ...] = ()  # in order of rank
        self.blocked = False

    def take(self, item: Item) -> None:
        self.items.append(item)
        match item:
            case MemberView(members=listed):
                gone = {*item.left, *item.failed}
                stayed = [each for each in self.members if each not in gone]
                joined = [endpoint for endpoint, _ in item.joined]
                self.members = (*stayed, *joined) if listed is None else tuple([each for each, _ in listed])
                self.view, self.blocked = item, False
            case MemberBlocked():
                self.blocked = True


class SimProgram:
    def __init__(self, world: World, host: Domain, name: str) -> None:
        self.host = host
        self.name = name
        self.alive = True
        self.died_joining: set[Group] = set()  # where its agent may have let it in after its death
        self.deaf = False  # it does not read
        self.endpoint: Endpoint | None = None
        self.waiting: list[SimCall] = []  # asked before the agent had opened the endpoint
        self.online: dict[Group, bool] = {}  # groups that this program is in, and whether it wants updates
        self.following: set[Group] = set()  # online in them
        self.watching: set[Group] = set()
        self.views = Views()
        self.watched = Views()
        self.conversations: dict[Group, SimConversation] = {}  # groups that it speaks in, or spoke in
        self.agreed: dict[Group, SimAgreed] = {}  # groups of agreed membership that it is in
        self.orders: dict[Group, SimOrder] = {}  # of those, whose messages have one order
        self.set_notices: list[AnySetNotice] = []  # of transient sets and sequences
        self.link: SimLink
        self._world = world
        self._calls: dict[int, SimCall] = {}

    def join(
        self,
        group: str | Group,
        *,
        online: bool = True,
        permanent: bool = False,
        meta: bytes = b"",
        kind: GroupKind | None = None,
    ) -> SimCall:
        """With a strong kind: as the service of such groups will, by a claim."""
        return self.ask(Join(_group(group), online, permanent, meta, kind))

    def leave(self, group: str | Group, *, meta: bytes = b"") -> SimCall:
        key = _group(group)
        if key in self.conversations:
            self.conversations[key].state = "leaving"
            return self.ask(Exit(key))
        return self.ask(Leave(key, meta))

    # Groups of led membership

    def join_led(self, group: str | Group, *, online: bool = False, meta: bytes = b"") -> SimCall:
        return self.ask(JoinLed(_group(group), online=online, meta=meta))

    def leave_led(self, group: str | Group) -> SimCall:
        return self.ask(LeaveLed(_group(group)))

    def join_open(self, name: str, *, online: bool = True, meta: bytes = b"") -> SimCall:
        """A group of open scope."""
        return self.ask(JoinOpen(Group(name, OPEN), online, meta))

    def leave_open(self, name: str) -> SimCall:
        return self.ask(LeaveOpen(Group(name, OPEN)))

    # Groups of agreed membership

    def join_agreed(
        self,
        group: str | Group,
        *,
        survive: str = "",
        create: bool = True,
        meta: bytes = b"",
        delivery: DeliveryKind = DeliveryKind.NONE,
        role: Role = Role.BOTH,
        slow: Slow = Slow.THROTTLE,
    ) -> SimCall:
        key = _group(group)
        self.agreed.setdefault(key, SimAgreed())
        if delivery is DeliveryKind.FIFO:
            self._new_conversation(key, role)
        return self.ask(JoinAgreed(key, delivery, survive, create, meta, role, slow))

    def leave_agreed(self, group: str | Group) -> SimCall:
        key = _group(group)
        self.agreed.pop(key, None)
        if key in self.conversations:
            self.conversations[key].state, self.conversations[key].mute = "leaving", True
        return self.ask(LeaveAgreed(key))

    # Groups whose messages have one order

    def join_ordered(
        self,
        group: str | Group,
        *,
        survive: str = "",
        order: str = "",
        stable: str = "",
        create: bool = True,
        meta: bytes = b"",
        slow: Slow = Slow.THROTTLE,
        membership: MembershipKind = MembershipKind.AGREED,
    ) -> SimCall:
        key = _group(group)
        self.agreed.setdefault(key, SimAgreed())
        self.orders[key] = SimOrder(key)
        return self.ask(JoinOrdered(key, membership, order, stable, survive, create, meta, slow))

    def leave_ordered(self, group: str | Group) -> SimCall:
        key = _group(group)
        self.agreed.pop(key, None)
        self.orders.pop(key, None)
        return self.ask(LeaveOrdered(key))

    def say_in_order(self, group: str | Group, *payloads: bytes) -> None:
        key = _group(group)
        self.orders[key].said += len(payloads)
        block = block_of(payloads)
        number = incarnation_of(self.address)
        self.link.say_to_front(Submit(number, key, len(payloads), block, self._world.now))

    def read_in_order(self, group: str | Group, *, more: bool) -> None:
        self.link.say_to_front(Reading(incarnation_of(self.address), _group(group), more))

    # Groups that speak

    def join_fifo(
        self,
        group: str | Group,
        *,
        role: Role = Role.BOTH,
        slow: Slow = Slow.THROTTLE,
        meta: bytes = b"",
    ) -> SimCall:
        """Join with `delivery="fifo"`."""
        key = _group(group)
        self._new_conversation(key, role)
        return self.ask(Enter(key, role, slow, meta))

    def _new_conversation(self, key: Group, role: Role) -> None:
        if self._world.fifo is None:
            raise BadInput("nobody can speak in this world", fix="make it with fifo=True")
        before = self.conversations.get(key)
        if before is not None and before.state != "over":
            raise BadInput(
                f"{self} is in {key.name} already", fix="leave first, and wait until it has parted"
            )
        self.conversations[key] = SimConversation(key, role, 0 if before is None else before.said)

    def say(self, group: str | Group, *payloads: bytes) -> None:
        """Hand messages to the agent, as many as it will have; the others wait for their turn."""
        current = self.conversation(group)
        current.waiting.extend(payloads)
        self._hand_over(current)

    def stream(
        self,
        group: str | Group,
        every_s: float,
        *,
        count: int | None = None,
        phase_s: float = 0.0,
        size: int = 16,
    ) -> None:
        """Send again and again, from `phase_s` on; ends with the membership, or with another stream."""
        current = self.conversation(group)
        current.streams += 1
        first_at = self._world.now + phase_s
        plan = (current, current.streams, first_at, every_s, 0, count, size)
        self._world.at(first_at, self._stream, plan, None)

    def _stream(self, plan: tuple[SimConversation, int, float, float, int, int | None, int], _: None) -> None:
        current, number, first_at, every_s, done, count, size = plan
        over = current.state in ("leaving", "over") or done == count
        if over or not self.alive or number != current.streams:
            return
        current.waiting.append(QUIET + f"{done + 1}".encode().rjust(size - 1))
        self._hand_over(current)
        # Counted from the first one: a thousand small errors would be seen in the intervals.
        due = first_at + (done + 1) * every_s
        self._world.at(due, self._stream, (current, number, first_at, every_s, done + 1, count, size), None)

    def _hand_over(self, current: SimConversation) -> None:
        world = self._world
        while payloads := current.due():
            endpoint, count = self.address, len(payloads)
            block = block_of(payloads)
            if world.history is not None:
                run = Run(current.said + 1, count, block, world.now)
                world.history.append(
                    SubmissionRecord(world.now, len(world.history), endpoint, current.group, run)
                )
            current.said += count
            current.submitted += count
            number = incarnation_of(endpoint)
            self.link.say_to_front(Submit(number, current.group, count, block, world.now))

    def hush(self, group: str | Group) -> None:
        """End the stream."""
        self.conversation(_group(group)).streams += 1

    def pause(self, group: str | Group) -> None:
        """Read no more messages of this group for now."""
        self._reads(_group(group), more=False)

    def resume(self, group: str | Group) -> None:
        self._reads(_group(group), more=True)

    def _reads(self, group: Group, *, more: bool) -> None:
        if self._paused(group, not more):
            self.link.say_to_front(Reading(incarnation_of(self.address), group, more))

    def _paused(self, group: Group, paused: bool) -> bool:
        """Is that new?"""
        current = self.conversation(group)
        if current.paused == paused or current.state == "over":
            return False
        current.paused = paused
        self._world.write(FifoStateChanged, self.address, group, "paused" if paused else "resumed")
        return True

    def conversation(self, group: str | Group) -> SimConversation:
        key = _group(group)
        if key not in self.conversations:
            raise BadInput(f"{self} does not speak in {key.name}", fix="join with delivery=fifo first")
        return self.conversations[key]

    def resolve(self, group: str | Group, *, deadline_s: float | None = None) -> SimCall:
        key = _group(group)
        return self.ask(Resolve(key.name, key.scope, deadline_s))

    def resolve_everywhere(self, name: str) -> SimCall:
        """Every group of this name around the host (C-037)."""
        return self.ask(Resolve(make_group(name, "world").name, None))

    def go_online(self, group: str | Group) -> SimCall:
        return self.ask(SetOnline(_group(group), online=True))

    def go_offline(self, group: str | Group) -> SimCall:
        return self.ask(SetOnline(_group(group), online=False))

    def watch(self, group: str | Group) -> SimCall:
        return self.ask(Watch(_group(group)))

    def unwatch(self, group: str | Group) -> SimCall:
        return self.ask(Unwatch(_group(group)))

    def send(self, data: bytes, *to: SimProgram) -> SimCall:
        return self.ask(SendTo(tuple(sorted(other.address for other in to)), data))

    def watch_life(self, other: SimProgram) -> SimCall:
        return self.ask(WatchLife(other.address))

    def close(self) -> SimCall:
        return self.ask(Close())

    def kill(self) -> None:
        """The program dies; its agent notices at once (C-034)."""
        if self.alive:
            self._forget("crashed")
            self.link.hang_up()

    def deafen(self) -> None:
        """The program stops reading. As many notices as there is room for wait for it; all messages of groups
        with delivery do, and then their senders."""
        self.deaf = True
        for group in sorted(self.conversations):
            self._paused(group, True)
        self.link.stop_reading()

    def undeafen(self) -> None:
        """The program reads again: it gets a `Gap`, and new snapshots."""
        self.deaf = False
        for group in sorted(self.conversations):
            self._paused(group, False)
        self.link.read_again()

    def ask(self, request: Any) -> SimCall:
        call = SimCall(self, request, self._world.now)
        if self.endpoint is None and not isinstance(request, Open):
            self.waiting.append(call)
        else:
            self._put(call)
        return call

    def _put(self, call: SimCall) -> None:
        request, world = call.request, self._world
        token = world.next_token()
        self._calls[token] = call
        if isinstance(request, Resolve) and request.scope is not None:
            call.asked_in = self.views.period(Group(request.name, request.scope))
        number = NO_ENDPOINT if self.endpoint is None else incarnation_of(self.endpoint)
        if isinstance(request, Enter):
            self.link.front.asked[self.address, request.group] = token
        self.link.say_to_front(Ask(token, number, request))

    def members(self, group: str | Group) -> tuple[Endpoint, ...]:
        """The program's own copy of a group that it follows, or watches."""
        return tuple(member.endpoint for member in self.members_of(_group(group)))

    def members_of(self, group: Group) -> Members:
        view = self.views.groups.get(group)
        view = self.watched.groups.get(group) if view is None else view
        return () if view is None else view.members

    # What the front says

    def take(self, item: Answered | Told) -> None:
        if isinstance(item, Told):
            if not self.alive:
                return
            if isinstance(item.notice, AnySetNotice):
                self.set_notices.append(item.notice)
                self._world.busy()
            else:
                self._hear(item.notice)
            return
        call = self._calls.pop(item.token)
        call.result, call.answered_at = item.answer, self._world.now
        self._world.busy()
        if self.alive:
            self._take_answer(call)
        self._world.show(self.host, CallAnswered(call))

    def _take_answer(self, call: SimCall) -> None:
        write = self._world.write
        match call.request, call.result:
            case Open(), Opened(endpoint=endpoint):
                self.endpoint = endpoint
                waiting, self.waiting = self.waiting, []
                for asked in waiting:
                    self._put(asked)
            case Join(group=group, online=online), Done():
                self.online[group] = online
                write(MembershipChanged, self.address, group, "joined")
                self._follow(group)
            case Leave(group=group), Done():
                del self.online[group]
                write(MembershipChanged, self.address, group, "left")
                self._follow(group)
            case SetOnline(group=group, online=online), Done():
                self.online[group] = online
                self._follow(group)
            case Enter(group=group), Done():
                self._joined_conversation(group)
            case Enter(group=group), _:
                if (refused := self.conversations.pop(group, None)) is not None and refused.joined:
                    write(FifoStateChanged, self.address, group, "left")
            case ((JoinLed(group=group, online=True) | JoinOpen(group=group, online=True)), Done()):
                self.following.add(group)
                self.views.follow(group)
            case ((LeaveLed(group=group) | LeaveOpen(group=group)), Done()):
                self.following.discard(group)
                self.views.unfollow(group)
            case JoinAgreed(group=group), Done():
                self._joined_conversation(group)
            case JoinAgreed(group=group, delivery=delivery), Denied():
                self.agreed.pop(group, None)
                refused = self.conversations.pop(group, None) if delivery is DeliveryKind.FIFO else None
                if refused is not None and refused.joined:
                    write(FifoStateChanged, self.address, group, "left")
            case JoinOrdered(group=group), Denied():
                self.agreed.pop(group, None)
                self.orders.pop(group, None)
            case LeaveAgreed(group=group), Done() if group in self.conversations:
                write(FifoStateChanged, self.address, group, "left")
            case Exit(group=group), Done():
                write(FifoStateChanged, self.address, group, "left")
            case Watch(group=group), Done():
                if group not in self.watching:
                    self.watching.add(group)
                    self.watched.follow(group)
                    write(FollowingChanged, watcher_of(self.address), group, True)
            case Unwatch(group=group), Done():
                self._stop_watching(group)
            case Close(), Done():
                self._forget("left")
                self.link.hang_up()
            case Resolve(), Absolute():
                write(AnswerRecord, self.address, call.request, call.result, call.asked_at)
                self.views.answered(call.result, call.asked_in)

    def _follow(self, group: Group) -> None:
        """Record whether the program is to get this group's changes, if that is new."""
        wants = self.online.get(group, False)
        if wants != (group in self.following):
            if wants:
                self.following.add(group)
                self.views.follow(group)
            else:
                self.following.discard(group)
                self.views.unfollow(group)
            self._world.write(FollowingChanged, self.address, group, wants)

    def _stop_watching(self, group: Group) -> None:
        if group in self.watching:
            self.watching.discard(group)
            self.watched.unfollow(group)
            self._world.write(FollowingChanged, watcher_of(self.address), group, False)

    def _hear(self, notice: AnyNotice) -> None:
        world = self._world
        world.busy()
        watches = isinstance(notice, Snapshot | Changed)
        if world.history is not None:
            who = watcher_of(self.address) if watches else self.address
            world.history.append(NoticeRecord(world.now, len(world.history), who, notice))
        if isinstance(notice, Snapshot | Changed):
            for each in self._of_watcher(notice):
                self._listen(each, _filtered(self.watched, notice.group, each))
            return
        reports = self.views.apply(notice)
        if type(notice) is PutOut and self.online.pop(notice.group, None) is not None:
            world.write(MembershipChanged, self.address, notice.group, "left")
            self._follow(notice.group)
        self._listen(notice, reports)

    def _listen(self, notice: AnyNotice, reports: list[Report]) -> None:
        if ProgramTold in self._world.reporters:
            self._world.show(self.host, ProgramTold(self, notice, reports))

    def _of_watcher(self, notice: Snapshot | Changed) -> Iterable[AnyNotice]:
        """The same as a member would be told it."""
        match notice:
            case Snapshot(group, members, isolated=isolated):
                yield Absolute(group, members, isolated)
            case Changed(by=by) if by is not None:
                yield by
            case Changed(group, members=members, left=left, meta=meta):
                cause = notice.cause
                assert cause is not None, "what is not lost with a domain has a cause"
                view = self.watched.groups.get(group)
                for endpoint in left:
                    if view is not None and (known := view.get(endpoint)) is not None:
                        yield Left(group, endpoint, known.stamp, cause, meta)
                if members:
                    yield Joined(group, members, cause)

    def heard(self, group: Group, item: Item) -> None:
        stay = self.agreed.get(group)
        if stay is not None and self.alive:
            self._world.busy()
            stay.take(item)
            if (order := self.orders.get(group)) is not None:
                order.take(self.address, item)
            if isinstance(item, Excluded | OrderClosed):
                del self.agreed[group]
            if group not in self.conversations:
                if ProgramGiven in self._world.reporters:
                    self._world.show(self.host, ProgramGiven(self, group, item))
                if isinstance(item, OrderClosed):
                    self.orders.pop(group, None)
                return
        if isinstance(item, ChangesTogether):
            for each in item.items:
                self.heard(group, each)
            return
        current = self.conversations.get(group)
        if current is None or not self.alive:
            return
        if current.mute and not isinstance(item, Parted):
            return
        world = self._world
        self._joined_conversation(group)
        if world.history is not None and not isinstance(item, Credit | Sent):
            world.history.append(DeliveryRecord(world.now, len(world.history), self.address, group, item))
        current.take(world.now, item)
        if ProgramGiven in world.reporters:
            world.show(self.host, ProgramGiven(self, group, item))
        if isinstance(item, Credit):
            self._hand_over(current)

    def _joined_conversation(self, group: Group) -> None:
        """The agent let it in, although the kind of the group may not be known yet."""
        current = self.conversations.get(group)
        if current is not None and not current.joined:
            current.joined = True
            self._world.write(FifoStateChanged, self.address, group, "joined")

    def disconnected(self, why: str) -> None:
        """The agent has hung up."""
        if self.alive:
            self._forget("crashed")

    # Its end

    def _forget(self, how: str) -> None:
        write = self._world.write
        if self.endpoint is not None:
            for group in sorted(self.following):
                write(FollowingChanged, self.endpoint, group, False)
            for group in sorted(self.watching):
                write(FollowingChanged, watcher_of(self.endpoint), group, False)
            for group in sorted(self.online):
                write(MembershipChanged, self.endpoint, group, how)
            for group in sorted(self.conversations):
                write(FifoStateChanged, self.endpoint, group, how)
        self.die()

    def die(self) -> None:
        self.alive = False
        joins = [call.request for call in self._calls.values() if isinstance(call.request, Join)]
        self.died_joining = {join.group for join in joins}
        self.views, self.watched = Views(), Views()
        self.following.clear()
        self.online.clear()
        self.watching.clear()
        self.conversations.clear()
        self.agreed.clear()
        self.orders.clear()

    @property
    def address(self) -> Endpoint:
        assert self.endpoint is not None, f"{self} is not open: its agent has not answered yet"
        return self.endpoint

    def __repr__(self) -> str:
        return self.endpoint or f"{self.host}/{self.name}"


def _group(group: str | Group) -> Group:
    return parse_group(group) if isinstance(group, str) else group


def _filtered(views: Views, group: Group, notice: AnyNotice) -> list[Report]:
    """A domain that is lost to one watched group says nothing about the others: each is told by itself."""
    if isinstance(notice, Only | Without):
        view = views.groups.get(group)
        return [] if view is None else view.filter(notice)
    return views.apply(notice)
