"""A group with ``delivery="atomic"``, as one endpoint uses it: one order for all members.

    send ──▶ Submit ══▶ agent ══▶ the order ══▶ OrderedRun, to every member
               │                                    │
               └── number of our message ──── ours among them: its `Receipt`

Our own messages are given to us like those of others, at their place in the order. When that is, what the
group promises of them holds (`stable`), so this is the receipt, and no other message is needed for it.

    what becomes of a message                          `send` returns, or raises
    delivered                                          Receipt(position, view)
    it was not handed over, and never will be         Rejected; GroupBlocked, if our side stands
    we do not know: others may deliver it              InDoubt
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Coroutine, Generator, Iterable, Sequence
from functools import partial
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, Final, Literal

from rostra.client.agreed import AgreedMembership, ShowsViews, asking, put_out
from rostra.client.arenas import Loan
from rostra.client.calls import (
    REQUEST,
    TOKEN_BYTES,
    WANTS,
    CallTally,
    Want,
    all_escaped,
    answer,
    escaped,
    has_marks,
    opened,
    request,
)
from rostra.client.conversation import (
    BLOCK_BYTES,
    UNREAD_BYTES_MAX,
    UNREAD_ITEMS_MAX,
    all_checked,
    blocks_of,
)
from rostra.client.conversation import checked as checked_payload
from rostra.client.session import within
from rostra.client.streams import Items, OneReader, again
from rostra.client.transfer import (
    SAY_AGAIN_S,
    AnyStateMessage,
    Give,
    Reconcile,
    StateDonor,
    StateDue,
    StatePiece,
    StateReceiver,
    StateRefused,
    StateTaken,
    StateWanted,
    Take,
    TwoOrders,
    founds,
    pieces_of,
    refuse,
)
from rostra.errors import (
    BadInput,
    DeadlineExceeded,
    GroupBlocked,
    InDoubt,
    NotMember,
    Rejected,
    RostraError,
    TooLarge,
)
from rostra.groups.items import (
    AgreedItem,
    AtomicItem,
    Blocked,
    CallAsked,
    Gone,
    Message,
    Messages,
    Receipt,
    StateAsked,
    View,
)
from rostra.names import Endpoint, Group
from rostra.protocols.agreed.calls import GroupTerminated
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.atomic.config import WINDOW_BYTES, WINDOW_MESSAGES
from rostra.protocols.atomic.requests import (
    GIVEN_UP,
    WENT_ON,
    ForgetOrdered,
    JoinOrdered,
    LeaveOrdered,
    OrderClosed,
    OrderedRun,
    OrderPlaced,
)
from rostra.protocols.fifo import events as told
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import payloads
from rostra.transport.dialler import dialler

if TYPE_CHECKING:
    from rostra.client.me import Me

OrderName = Literal["hub", "negotiated", "medium"]
StableName = Literal["sent", "majority", "all", "disk"]

HANDED_MESSAGES: Final = WINDOW_MESSAGES // 2
HANDED_BYTES: Final = WINDOW_BYTES // 2
"""What may be handed to the agent and not yet be in the order; the agent allows twice as much."""

STATE_SHARE: Final = 16
"""So many times more may wait unread while we wait for the group's state."""

SOON_MESSAGES_MAX: Final = 1_000_000
"""What `send_soon` takes that waits for room."""


class _Handed:
    """Messages that were said together, on their way."""

    __slots__ = ("done", "left", "receipts", "size")

    def __init__(self, count: int, size: int, done: "asyncio.Future[list[Receipt]]") -> None:
        self.left = count  # that have no place yet
        self.size = size  # in bytes, of all
        self.receipts: list[Receipt] = []
        self.done = done


class Ordered(ShowsViews, OneReader):
    """This endpoint is in a group with ``delivery="atomic"``, until `leave` or the end of its ``async with``.

    Iterate over it for what happens, in one order for all members: `View` and `Blocked`, and between them
    `Message`, our own among them. There is one stream, for one reader. ``items(batch=1000)`` is the same with
    the messages of one sender in `Messages`, which is many times cheaper.
    """

    __slots__ = (
        *("_bodies", "_calls", "_flushing", "_handed", "_handed_bytes", "_outgoing", "_placed"),
        *("_read", "_split", "_submitted", "_unread", "_unread_bytes", "_views", "group", "join", "me"),
        *("_asked", "_asks", "_donors", "_give", "_has_state", "_known", "_reached", "_receiver", "_shown"),
        *("_met", "_ours", "_reconcile", "_take", "_tasks", "_wanted"),
    )

    def __init__(
        self,
        me: "Me",
        join: JoinOrdered,
        give: Give | None = None,
        take: Take | None = None,
        reconcile: Reconcile | None = None,
    ) -> None:
        super().__init__()
        self.me = me
        self.group: Group = join.group
        self.join = join
        self._give, self._take, self._reconcile = give, take, reconcile
        self._met: TwoOrders | None = None  # until the program has read what was before it
        self._ours: bytes | None = None  # our side's state, until it is reconciled
        self._receiver: StateReceiver | None = None  # while we wait for the state
        self._has_state = take is None
        self._known = 0  # messages up to this position are in the state that we were given
        self._reached = 0  # the position of the last message that was handed to the program
        self._shown: View | None = None  # and the last view
        self._wanted: dict[Endpoint, int] = {}  # who want our state: their last questions
        self._asked: list[Endpoint] = []  # of them, those that come with a later view
        self._asks: StateDonor | None = None  # by which the program gives it
        self._donors: dict[Endpoint, StateDonor] = {}  # by the joiner that asked
        self._tasks: set[asyncio.Task[None]] = set()
        self._views = _Views(me, join, self)
        self._unread: deque[AgreedItem | tuple[Endpoint, Run, int] | Loan | StateDue | TwoOrders] = deque()
        self._unread_bytes = 0
        self._bodies: tuple[Endpoint, int, list[bytes], float, int] | None = None  # the run that is read
        self._read = 0  # messages of it
        self._split: deque[AtomicItem] = deque()  # of a run with calls in it: one by one
        self._calls: dict[bytes, tuple[CallTally, asyncio.Future[None]]] = {}  # of ours, by token
        self._outgoing: deque[tuple[list[bytes], _Handed]] = deque()  # for the agent
        self._flushing = False
        self._start_over()

    def _start_over(self) -> None:
        self._handed: deque[_Handed] = deque()  # what the agent has and has not given back to us
        self._handed_bytes = 0
        self._submitted = 0  # messages
        self._placed = 0  # of those, with a place in the order

    def __repr__(self) -> str:
        return f"<{self.group}, atomic{'' if self._left is None else ', left'}>"

    # Speaking

    async def send(self, payload: bytes, *, deadline_s: float | None = None) -> Receipt:
        """Say this to all members, ourselves included. Returns when what the group promises of it holds."""
        (receipt,) = await self._in_time(deadline_s, self._say([escaped(checked_payload(payload))]))
        return receipt

    async def call(
        self, payload: bytes, want: Want = "all", *, deadline_s: float | None = None
    ) -> dict[Endpoint, bytes | Gone]:
        """Ask the other members, at one place in the order; what they answer, or `Gone` for those that left
        before they did. Returns when all have answered or are gone; with ``want="first"`` at the first
        answer, with "majority" when more than half have. They get it as a `CallAsked`."""
        if want not in WANTS:
            raise BadInput(f"want={want!r}", fix=f"use one of: {', '.join(WANTS)}")
        self._check_may_send()
        token = dialler().luck.randbytes(TOKEN_BYTES)
        tally = CallTally(want)
        if self.view is not None:
            self._saw(tally, self.view)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._calls[token] = (tally, done)
        self.me._expect_answers(token, lambda who, data: self._answered(token, who, data))
        try:
            called = self._called(token, checked_payload(payload))
            await within(deadline_s, called, f"a call to {self.group} had no place in its order")
        except DeadlineExceeded:
            tally.check_silent(self.group, deadline_s)
            raise
        finally:
            del self._calls[token]
            self.me._expect_answers(token, None)
        return tally.answers

    async def _called(self, token: bytes, payload: bytes) -> None:
        tally, done = self._calls[token]
        (receipt,) = await self._say([request(token, payload)])
        tally.placed(receipt.view)
        self._look_at_calls()
        await done

    def _saw(self, tally: CallTally, view: View) -> None:
        me = self.me.endpoint
        tally.viewed(
            view.number, [each.endpoint for each in view.members if each.endpoint != me], view.joined
        )

    def _answered(self, token: bytes, who: Endpoint, data: bytes) -> None:
        if token in self._calls:
            self._calls[token][0].answered(who, data)
            self._look_at_calls()

    def _look_at_calls(self, failed: RostraError | None = None) -> None:
        for tally, done in self._calls.values():
            if not done.done():
                if failed is not None:
                    done.set_exception(again(failed))
                    done.exception()  # read once: asyncio would log it if nobody waits for it
                elif tally.is_done:
                    done.set_result(None)

    async def forget(self, position: int) -> None:
        """With ``stable="disk"``: what is before this position need not be kept on our host any more."""
        await self.me._connection.settle(self.me._post(ForgetOrdered(self.group, position)))

    def send_soon(self, payload: bytes) -> Awaitable[Receipt]:
        """The same without waiting: await the result for the receipt, or its error, whenever you like."""
        self._check_may_send()
        if len(self._outgoing) >= SOON_MESSAGES_MAX:
            raise TooLarge(
                f"{SOON_MESSAGES_MAX} messages for {self.group} wait already", fix="await some receipts first"
            )
        return _First(self._say([escaped(checked_payload(payload))]))

    async def send_many(self, payloads: Iterable[bytes], *, deadline_s: float | None = None) -> list[Receipt]:
        """Say all of these, in order, without waiting for each. Much cheaper than one by one."""
        return await self._in_time(deadline_s, self._say_many(payloads))

    async def _say_many(self, payloads: Iterable[bytes]) -> list[Receipt]:
        self._check_may_send()
        said: deque[asyncio.Future[list[Receipt]]] = deque()
        receipts: list[Receipt] = []
        rest = iter(payloads)
        try:
            for first in rest:
                most = max(1, min(BLOCK_BYTES // (len(checked_payload(first)) + 3), HANDED_MESSAGES // 8))
                chunk = all_escaped(all_checked([first, *islice(rest, most - 1)]))
                for block in blocks_of(chunk):
                    said.append(self._say(block))
                while said and (said[0].done() or len(self._outgoing) > 1):
                    receipts += await said.popleft()
                if not self.me._connection.is_writable:
                    await self.me._connection.writable()
            while said:
                receipts += await said.popleft()
        finally:
            for each in said:
                each.cancel()
        return receipts

    def _say(self, chunk: list[bytes]) -> "asyncio.Future[list[Receipt]]":
        self._check_may_send()
        loop = asyncio.get_running_loop()
        handed = _Handed(len(chunk), sum(map(len, chunk)), loop.create_future())
        self._outgoing.append((chunk, handed))
        if self._flushing:
            pass
        elif not self._handed:
            self._flush()  # nothing else is on its way: at once
        else:
            # What is said in one tick leaves as one block.
            self._flushing = True
            loop.call_soon(self._flush)
        return handed.done

    def _flush(self) -> None:
        """To the agent, as far as there is room, and our side goes on."""
        self._flushing = False
        if self._ended is not None or self.me._connection.ended is not None:
            return
        if self._views.view is None or self._views.blocked is not None:
            return
        chunk: list[bytes] = []
        size = 0
        while self._outgoing:
            messages, handed = self._outgoing[0]
            if self._handed and (
                self._submitted + len(messages) - self._placed > HANDED_MESSAGES
                or self._handed_bytes + handed.size > HANDED_BYTES
            ):
                break
            self._outgoing.popleft()
            if handed.done.cancelled():
                continue
            if chunk and size + handed.size > BLOCK_BYTES:
                self._submit(chunk)
                chunk, size = [], 0
            self._handed.append(handed)
            self._handed_bytes += handed.size
            self._submitted += len(messages)
            chunk += messages
            size += handed.size
        if chunk:
            self._submit(chunk)

    def _submit(self, chunk: Sequence[bytes]) -> None:
        self.me._connection.submit(self.me._number, self.group, chunk)

    def _check_may_send(self) -> None:
        if self._left is not None:
            raise again(self._left)
        if self._ended is not None:
            raise again(self._ended)
        self.me._check_open()

    async def _in_time(self, deadline_s: float | None, doing: "Awaitable[list[Receipt]]") -> list[Receipt]:
        if deadline_s is None:
            return await doing

        async def wait() -> list[Receipt]:
            return await doing

        try:
            return await within(deadline_s, wait(), f"{self.group} did not order it")
        except DeadlineExceeded:
            if self.blocked is not None:
                raise GroupBlocked(
                    f"{self.group} is blocked at {self.me.endpoint}: {self.blocked.because}",
                    fix="wait for the next View, or allow more time",
                ) from None
            raise InDoubt(
                f"a message of {self.me.endpoint} had no place in {self.group} within {deadline_s:g} s:"
                " it may have one yet",
                fix="look for it among the messages, or allow more time",
            ) from None

    # Listening

    def __aiter__(self) -> Items[AtomicItem | Messages]:
        return self.items()

    def items(self, *, batch: int = 0) -> Items[AtomicItem | Messages]:
        """What happens, in order. With `batch`, messages that came together are handed out together, up to so
        many of one sender at once, as `Messages`."""
        if batch < 0:
            raise BadInput(f"batch={batch}", fix="a positive number, or 0 for messages one by one")
        return Items(self._next, batch)

    async def _next(self, batch: int) -> AtomicItem | Messages:
        if self._asks is not None:
            asks, self._asks = self._asks, None
            self.spawn(asks.end())  # the program has given all of it
        if self._split:
            return self._next_of_split()
        while True:
            item = await self._next_item(batch)
            if item is not None:
                return item

    async def _next_item(self, batch: int) -> AtomicItem | Messages | None:
        """The next item; None if there was one that is not for the program."""
        if self._bodies is None:
            if not self._unread:
                await self._until_some(self._unread, self.me)
            if not self._has_state and self._receiver is not None and self._met is None:
                await self._receive_state(self._receiver)
                return None
            item = self._unread.popleft()
            if isinstance(item, tuple):  # this and the next are nearly all
                sender, run, place = item
                self._unread_bytes -= len(run.block)
                first, at, bodies = run.first, run.at, payloads(run)
            elif isinstance(item, Loan):
                self._unread_bytes -= item.size
                sender, first, at, place = item.sender, item.first, item.at, item.position
                bodies = item.read()
            elif isinstance(item, TwoOrders):
                await self._keep_ours(item)
                return None
            elif isinstance(item, StateDue):
                return self._state_due(item)
            else:
                assert isinstance(item, View | Blocked), "such groups are not split or merged"
                if isinstance(item, View):
                    self._begin_with(item)
                    self._shown = item
                    self._unread.extendleft([StateDue(each) for each in reversed(self._asked)])
                    self._asked = []
                return item
            if self._stopped and self._unread_bytes <= UNREAD_BYTES_MAX // 4:
                self._say_reading(True)
            if place + len(bodies) - 1 <= self._known:
                return None
            if place <= self._known:
                skipped = self._known + 1 - place
                first, place, bodies = first + skipped, place + skipped, bodies[skipped:]
            if has_marks(bodies):
                self._split.extend(self._one_by_one(sender, first, bodies, at, place))
                return self._next_of_split()
            if batch >= len(bodies):
                self._reached = place + len(bodies) - 1
                return Messages(sender, first, bodies, at, place)
            self._bodies = (sender, first, bodies, at, place)
            self._read = 0
        sender, first, bodies, at, place = self._bodies
        begin = self._read
        self._read = end = min(begin + (batch or 1), len(bodies))
        if end == len(bodies):
            self._bodies = None
        self._reached = place + end - 1
        if batch:
            return Messages(sender, first + begin, bodies[begin:end], at, place + begin)
        return Message(sender, bodies[begin], first + begin, at, place + begin)

    def _begin_with(self, view: View) -> None:
        """Of an order of which this is our first view nothing was handed out; or its state came before."""
        is_again = self._shown is not None and self._shown.id == view.id
        if not self._known and not is_again and self.me.endpoint in view.joined:
            self._reached = 0

    def _one_by_one(
        self, sender: Endpoint, first: int, bodies: list[bytes], at: float, place: int
    ) -> Iterable[AtomicItem]:
        for nth, body in enumerate(bodies):
            mark, token, rest = opened(body)
            if mark == REQUEST:
                yield CallAsked(sender, rest, place + nth, partial(self._answer, sender, token))
            else:
                yield Message(sender, rest, first + nth, at, place + nth)

    async def _answer(self, caller: Endpoint, token: bytes, data: bytes) -> None:
        await self.me.send_to(caller, answer(token, data))

    def _next_of_split(self) -> AtomicItem:
        item = self._split.popleft()
        if isinstance(item, Message | CallAsked):
            self._reached = item.position
        return item

    # State

    async def _receive_state(self, receiver: StateReceiver) -> None:
        """Before anything else: the group's state, as of some position; what is after it follows. Or nothing:
        that order is over for us."""
        assert self._take is not None
        found = await receiver.receive()
        if found is None:
            return
        position, state = found
        if state is None:  # the group has none but ours
            if self._ours is not None:
                self._known = self._reached = receiver.end_of_theirs(self._unread)
            self._has_state, self._receiver, self._ours = True, None, None
            return
        taken = self._take(state)
        if taken is not None:
            await taken
        if self._receiver is not receiver:
            return
        self._known = self._reached = position
        self._has_state, self._receiver = True, None
        if self._ours is not None and self._reconcile is not None:
            ours, self._ours = self._ours, None
            reconciled = self._reconcile(ours, state)
            if reconciled is not None:
                await reconciled

    async def _keep_ours(self, met: TwoOrders) -> None:
        """The program has read all that our side's order had. One member of it reconciles."""
        if met.was_first and self._give is not None and not self._has_state:
            try:
                self._ours = b"".join([piece async for piece in pieces_of(self._give())])
            except asyncio.CancelledError:
                self._unread.appendleft(met)  # for the next reader
                raise
        self._met, self._known = None, 0

    def _meet(self, cause: str) -> None:
        """Our side's order is over: join the other one, as who has no state. Of an order whose state we did
        not have yet, nothing is ours."""
        if self._has_state:
            self._met = TwoOrders(self.rank == 0)
            self._unread.append(self._met)
        self._forget_state()
        self._views.lose(cause)
        self.spawn(self._join_again())

    async def _join_again(self) -> None:
        me, connection = self.me, self.me._connection
        while me._connection is connection and me.is_open:  # with a new one all joins are asked for anyway
            try:
                await connection.settle(me._post(asking(self.join)))
                return
            except RostraError as refusal:
                if not refusal.retriable:
                    me._forget_agreed(self)
                    self.end(refusal)
                    return
                await asyncio.sleep(SAY_AGAIN_S)

    def _state_due(self, due: "StateDue") -> StateAsked | None:
        """A joiner wants our state, and we are between two items: now, if its view was among them."""
        to = due.to
        inside = self._shown is not None and any(each.endpoint == to for each in self._shown.members)
        if self._has_state and not inside:
            self._asked.append(to)
            return None
        id = self._wanted.pop(to)
        if not self._has_state:
            self.spawn(refuse(self, to, id))
            return None
        if (before := self._donors.get(to)) is not None:
            before.stop()
        donor = self._donors[to] = StateDonor(self, to, id, self._reached)
        if self._give is None:
            self._asks = donor
            return StateAsked(to, donor.give)
        self.spawn(donor.give_all(self._give()))
        return None

    def has_given(self, donor: StateDonor) -> None:
        """All that it will."""
        if self._donors.get(donor.to) is donor:
            del self._donors[donor.to]

    def mail(self, source: Endpoint, message: AnyStateMessage) -> None:
        """From another member, about state."""
        match message:
            case StateWanted(id=id):
                if any(each.endpoint == source for each in self.members):
                    if self._receiver is not None and not self._receiver.is_complete:
                        self.spawn(refuse(self, source, id))  # it may be the next one to have it
                        return
                    if source not in self._wanted:  # else that is still to be looked at
                        self._unread.append(StateDue(source))
                        self._wake()
                    self._wanted[source] = id
            case StateTaken(id=id, number=number):
                donor = self._donors.get(source)
                if donor is not None and donor.id == id:
                    donor.taken(number)
            case StatePiece() | StateRefused() if self._receiver is not None:
                self._receiver.hear(source, message)

    def check_inside(self) -> None:
        """Raise what ends our items, if we are out of the group."""
        if self._ended is not None:
            raise again(self._ended)
        if self._left is not None or self.me.is_closed:
            raise StopAsyncIteration

    def spawn(self, doing: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Leaving

    async def leave(self, *, deadline_s: float | None = None) -> None:
        """Leave the group, after our messages that are on their way have their places: the others agree on a
        view without us, which has its place in the order too."""
        if self._left is not None:
            raise again(self._left)
        await within(deadline_s, self._part(), f"leaving {self.group} was not confirmed")

    async def _part(self) -> None:
        me, group = self.me, self.group
        self._flush()
        if self._ended is None and self._handed:
            with contextlib.suppress(RostraError, asyncio.CancelledError):
                await asyncio.shield(self._handed[-1].done)
        self._left = NotMember(f"{me.endpoint} has left {group} already", fix="join it again")
        self._wake()
        if not me.is_open or me._agreed.get(group) is not self:
            me._forget_agreed(self)
            self._settle(0, "it left the group")
            return
        try:
            await me._connection.settle(me._post(LeaveOrdered(group)))
        finally:
            me._forget_agreed(self)
            self.end(None)

    # From the endpoint

    def hear(self, item: told.Item | Loan) -> None:
        """The agent sent this item of the group."""
        if type(item) is OrderedRun:
            run = item.run
            self._keep((item.stream, run, item.position), len(run.block))
            if item.stream == self.me.endpoint and self._views.view is not None:
                self._has_place(run.first, run.count, item.position, self._view_number)
            return
        if type(item) is Loan:
            self._keep(item, item.size)
            if item.sender == self.me.endpoint and self._views.view is not None:
                self._has_place(item.first, item.count, item.position, self._view_number)
            return
        match item:
            case OrderPlaced(first, count, position, view):
                self._has_place(first, count, position, view)
            case MemberView() | MemberBlocked():
                first = self._views.view is None
                self._views.hear(item)
                if first and not self._has_state and isinstance(item, MemberView):
                    self._has_state = self.rank == 0 and founds(item, len(self.members))
                    self._receiver = None if self._has_state else StateReceiver(self)
                    if self._has_state:
                        self._ours = None  # ours is the group's
                elif self._receiver is not None:
                    self._receiver.look()
                self._flush()
            case OrderClosed(reject_from, cause, fix):
                self._settle(reject_from, cause)
                if self._left is None and self._reconcile is not None and cause in (GIVEN_UP, WENT_ON):
                    self._meet(cause)
                elif self._left is None:
                    put_out(self, told.Excluded(cause, fix))
            case GroupTerminated():
                put_out(self, item)

    @property
    def _view_number(self) -> int:
        view = self._views.view
        return 0 if view is None else view.number

    def _has_place(self, first: int, count: int, position: int, view: int) -> None:
        """These messages of ours got their places in the order; perhaps we know that already."""
        skipped = self._placed + 1 - first
        if skipped >= count:
            return
        if skipped > 0:
            position, count = position + skipped, count - skipped
        self._placed += count
        while count and self._handed:
            handed = self._handed[0]
            some = min(count, handed.left)
            handed.receipts += map(Receipt, range(position, position + some), repeat(view))
            handed.left -= some
            position, count = position + some, count - some
            if not handed.left:
                self._handed.popleft()
                self._handed_bytes -= handed.size
                if not handed.done.done():
                    handed.done.set_result(handed.receipts)
        if self._outgoing and not self._flushing:
            self._flush()

    def _settle(self, reject_from: int, cause: str) -> None:
        """No receipt comes any more. Messages from this number are at no member; earlier ones may have."""
        number = self._placed
        doubt = InDoubt(
            f"a message of {self.me.endpoint} in {self.group} may be delivered, or not: {cause}",
            fix="join again, and look whether it was",
        )
        handed, outgoing = self._handed, self._outgoing
        self._outgoing = deque()
        self._start_over()
        self._look_at_calls(doubt)
        for each in handed:
            number += each.left
            surely_not = not each.receipts and number - each.left + 1 >= reject_from > 0
            _fail(each, self._rejected(cause) if surely_not else again(doubt))
        for _, each in outgoing:
            _fail(each, self._rejected(cause))

    def _rejected(self, cause: str) -> Rejected:
        what = f"a message of {self.me.endpoint} is not delivered in {self.group}: {cause}"
        return Rejected(what, fix="join again, and send it again", cause=cause)

    def _keep(self, messages: tuple[Endpoint, Run, int] | Loan, size: int) -> None:
        self._unread.append(messages)
        self._unread_bytes += size
        share = 1 if self._receiver is None else STATE_SHARE  # others do not wait for our state
        if not self._stopped and (
            self._unread_bytes > share * UNREAD_BYTES_MAX or len(self._unread) > share * UNREAD_ITEMS_MAX
        ):
            self._say_reading(False)
        self._wake()

    def lose(self) -> None:
        """The agent is gone: as far as the group knows, we have crashed."""
        self._settle(0, "the agent is lost")
        self._forget_state()
        self._views.lose()

    def _forget_state(self) -> None:
        if not self._has_state:
            self._drop_unread()
        if self._receiver is not None:
            self._receiver.stop()
            self._receiver = None
        self._stopped = False
        if self._met is None:  # else up to there the program reads what it has the state for
            self._known = 0
        self._has_state, self._shown = self._take is None, None
        self._asked, self._asks = [], None
        self._wanted = {each.to: self._wanted[each.to] for each in self._unread if isinstance(each, StateDue)}

    def _drop_unread(self) -> None:
        """Drop unread items of an order whose state the program never had."""
        while self._unread and self._unread[-1] is not self._met:
            item = self._unread.pop()
            if isinstance(item, Loan):
                self._unread_bytes -= item.size
                item.give_back()
            elif isinstance(item, tuple):
                self._unread_bytes -= len(item[1].block)

    def end(self, reason: RostraError | None) -> None:
        """For good."""
        self._settle(0, "it left the group" if reason is None else reason.what)
        if reason is None:
            self._left = self._left or NotMember(f"{self.group} was left", fix="join it again")
        elif self._ended is None:
            self._ended = reason
        self._views.end(reason)
        for task in self._tasks:
            task.cancel()
        if self._receiver is not None:
            self._receiver.look()
        self._wake()


class _Views(AgreedMembership):
    """Views and standstills, which are put where the messages are."""

    __slots__ = ("_items",)

    def __init__(self, me: "Me", join: JoinOrdered, items: Ordered) -> None:
        super().__init__(me, join)
        self._items = items

    def _put(self, item: AgreedItem) -> None:
        group = self._items
        group._unread.append(item)
        group._wake()
        if isinstance(item, View):
            here = {each.endpoint for each in item.members}
            for to in [each for each in group._donors if each not in here]:
                group._donors.pop(to).stop()
            for tally, _ in group._calls.values():
                group._saw(tally, item)
            group._look_at_calls()


class _First(Awaitable[Receipt]):
    """The only receipt of several."""

    __slots__ = ("_receipts",)

    def __init__(self, receipts: "asyncio.Future[list[Receipt]]") -> None:
        self._receipts = receipts

    def __await__(self) -> Generator[Any, None, Receipt]:
        receipts = yield from self._receipts.__await__()
        return receipts[0]


def _fail(handed: _Handed, error: RostraError) -> None:
    if not handed.done.done():
        handed.done.set_exception(error)
        handed.done.exception()  # read once: asyncio would log it if nobody waits for it
