"""A group with delivery, as one endpoint uses it: sending and receiving messages.

    send, send_many ──▶ credit left? ──▶ Submit ══▶ agent ══▶ every receiver, in order, without gap
    items           ◀── unread queue ◀── Delivery ◀══ agent
                             │ too long: Reading("no more") ──▶ agent ──▶ back-pressure on the senders

Nothing is dropped on either side. `send` waits for **credit** while the slowest receiver does not keep up; a
program that does not read is sent no more, and after a while its senders wait.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from rostra.client.arenas import Loan
from rostra.client.session import within
from rostra.client.streams import Items, OneReader, again
from rostra.errors import (
    BadInput,
    DeadlineExceeded,
    NotAllowed,
    NotMember,
    Refused,
    RostraError,
    TooLarge,
)
from rostra.groups.attributes import Role, Slow
from rostra.groups.items import Gap, GroupItem, Joined, Left, Message, Messages, Only, View, Without
from rostra.groups.kinds import MembershipKind
from rostra.groups.members import Because, Cause, Member, Members
from rostra.names import Endpoint, Group, inside, parent
from rostra.protocols.access.config import LUCK_BYTES
from rostra.protocols.fifo import events as told
from rostra.protocols.fifo.requests import Enter
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import payloads

if TYPE_CHECKING:
    from rostra.client.me import Me

MESSAGE_BYTES_MAX: Final = 1 << 20

READY_WITHIN_S: Final = 30.0
"""How long `ready` waits for the servers unless it is told. It is several times what a wide-area join takes,
and what the agents' own patience with a silent server is."""

BLOCK_BYTES: Final = 56_000
"""Messages are handed over in blocks of about this size: one read of the agent, and on one machine one
datagram. Raising it: fewer system calls, until blocks have to be cut."""

UNREAD_BYTES_MAX: Final = 4 << 20
UNREAD_ITEMS_MAX: Final = 10_000
"""What may wait here for a program that does not read, in blocks and changes, before the agent is told to
wait; a quarter of it and it may go on. Raising these: more memory, longer pauses without slowing senders."""

QUEUED_BYTES_MAX: Final = 8 << 20
"""What a program may have handed over that its agent has not emitted."""

LOST_MAX: Final = 10_000
"""Members that were lost with a domain, of whom it is remembered so that their return is told as one."""

RoleName = Literal["both", "send", "receive", "submit"]
SlowName = Literal["throttle", "expel", "spill"]

_CAUSES: Final = {"left": Cause.LEAVE, "failed": Cause.CRASH, "disconnected": Cause.MERGE}
_BYTES: Final = {bytes}


class Conversation(OneReader):
    """This endpoint is in a group with ``delivery="fifo"``, until `leave` or the end of its ``async with``.

    Iterate over it for what happens, in order: a `View` first, then `Joined`, `Left`, `Without`, `Only`,
    `Message` and `Gap`. There is one stream, for one reader. ``items(batch=1000)`` is the same with the
    messages of one sender in `Messages`, which is many times cheaper.

    With ``role="submit"`` it is in no group: it speaks, through the delegate of its cluster, and that is all.
    """

    __slots__ = (
        "_bodies",
        "_credential",
        "_credit",
        "_first_credit",
        "_flushing",
        "_handed",
        "_lost",
        "_members",
        "_outgoing",
        "_parted",
        "_queued_bytes",
        "_read",
        "_ready",
        "_submitted",
        "_unread",
        "_unread_bytes",
        "_waiting",
        "group",
        "led",
        "me",
        "meta",
        "role",
        "slow",
        "unconfirmed",
        "unlisted",
    )

    def __init__(
        self,
        me: "Me",
        group: Group,
        *,
        role: Role,
        slow: Slow,
        meta: bytes,
        led: bool = False,
        credential: bytes = b"",
    ) -> None:
        super().__init__()
        self.me = me
        self.group = group
        self.role, self.slow = role, slow
        self.meta = meta
        self.led = led  # with ``membership="led"``: the leader's list has us
        self.unlisted = False  # a call waits for that, or waited in vain
        self._credential = credential
        self._members: dict[Endpoint, Member] = {}
        self._lost: dict[Endpoint, None] = {}  # with a domain; they may come back
        self._parted: asyncio.Future[told.Parted] | None = None
        self.unconfirmed = 0  # when we left: so many of our messages a receiver may not have
        self._ready = asyncio.Event()
        self._unread: deque[GroupItem | tuple[Endpoint, Run] | Loan] = deque()
        self._unread_bytes = 0
        self._bodies: tuple[Endpoint, int, list[bytes], float] | None = None  # the run that is being read
        self._read = 0  # messages of it
        self._outgoing: list[bytes] = []
        self._flushing = False
        self._start_over()

    @property
    def ended(self) -> RostraError | None:
        return self._left or self._ended

    @property
    def asks_as(self) -> tuple[object, ...]:
        """What it was joined with."""
        return self.role, self.slow, self.meta, self._credential

    def asks_in(self) -> Enter:
        membership = MembershipKind.LED if self.led else MembershipKind.RELAXED
        enter = Enter(self.group, self.role, self.slow, self.meta, membership)
        if "!" not in self.group.name:
            return enter
        return replace(enter, credential=self._credential, luck=secrets.token_bytes(LUCK_BYTES))

    def _start_over(self) -> None:
        self._credit = self._first_credit = self._submitted = 0
        self._handed: deque[tuple[int, int]] = deque()  # what the agent may still have: up to which, bytes
        self._queued_bytes = 0
        self._waiting: list[asyncio.Future[None]] = []

    def __repr__(self) -> str:
        return f"<{self.group}, {self.role.value}{'' if self._left is None else ', left'}>"

    # Who is there

    @property
    def members(self) -> Members:
        """The members of the group with their roles, as known so far: sorted by endpoint."""
        return tuple([self._members[endpoint] for endpoint in sorted(self._members)])

    @property
    def is_known(self) -> bool:
        """Has the first list come?"""
        return self._ready.is_set()

    async def ready(self, *, deadline_s: float | None = READY_WITHIN_S) -> "Conversation":
        """Wait for the first list: from then on nothing is missed of any sender in it. It comes from the
        servers, so it does not come while the cluster's is away; None waits for it however long that is."""
        try:
            await within(deadline_s, self._until_ready(), f"who is in {self.group} was not known")
        except DeadlineExceeded as late:
            raise DeadlineExceeded(
                late.what,
                fix=f"is the server of {parent(self.me.host)} up? rostra debug says whom the agent is linked"
                " with; ready(deadline_s=None) waits for it",
            ) from None
        return self

    # Speaking

    async def send(self, payload: bytes) -> None:
        """Say this to all members of the group. Returns when the agent has it, or will have it in a moment;
        waits while the group does not keep up."""
        self._check_may_send()
        payload = checked(payload)
        size = len(payload)
        while self._room(len(self._outgoing) + 1, size) is False:
            self._flush()
            await self._until_room()
        self._outgoing.append(payload)
        if not self._flushing:
            # Everything that is said in one tick leaves as one block.
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)
        elif len(self._outgoing) * size > BLOCK_BYTES:
            self._flush()

    async def send_many(self, payloads: Iterable[bytes]) -> int:
        """Say all of these, in order; how many they were. Much cheaper than one by one."""
        self._check_may_send()
        self._flush()
        rest = iter(payloads)
        count = 0
        for first in rest:
            most = max(1, min(BLOCK_BYTES // (len(checked(first)) + 3), (self._first_credit or 4) // 4))
            chunk = all_checked([first, *islice(rest, most - 1)])
            for block in blocks_of(chunk):
                size = sum(map(len, block))
                while not self._room(len(block), size):
                    await self._until_room()
                self._submit(block, size)
            count += len(chunk)
            if not self.me._connection.is_writable:
                await self.me._connection.writable()
        return count

    def _room(self, count: int, size: int) -> bool:
        return self._submitted + count <= self._credit and (
            self._queued_bytes + size <= QUEUED_BYTES_MAX or not self._handed
        )

    async def _until_room(self) -> None:
        self._check_may_send()
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if future in self._waiting:
                self._waiting.remove(future)
        self._check_may_send()

    def _flush(self) -> None:
        self._flushing = False
        if self._outgoing:
            outgoing, self._outgoing = self._outgoing, []
            for block in blocks_of(outgoing):
                self._submit(block, sum(map(len, block)))

    def _submit(self, chunk: Sequence[bytes], size: int) -> None:
        if self._ended is not None or self.me._connection.ended is not None:
            return
        self._submitted += len(chunk)
        self._queued_bytes += size
        self._handed.append((self._submitted, size))
        self.me._connection.submit(self.me._number, self.group, chunk)

    def _check_may_send(self) -> None:
        if self._left is not None:
            raise again(self._left)
        if self._ended is not None:
            raise again(self._ended)
        if self.role is Role.RECEIVE:
            raise NotAllowed(
                f'{self.me.endpoint} is in {self.group} with role="receive"',
                fix='join it with role="both" or role="send"',
            )
        self.me._check_open()

    # Listening

    def __aiter__(self) -> Items[GroupItem]:
        return self.items()

    def items(self, *, batch: int = 0) -> Items[GroupItem]:
        """What happens, in order. With `batch`, messages that came together are handed out together, up to so
        many of one sender at once, as `Messages`."""
        if batch < 0:
            raise BadInput(f"batch={batch}", fix="a positive number, or 0 for messages one by one")
        if self.role is Role.SUBMIT:
            raise NotAllowed(
                f'{self.me.endpoint} only submits to {self.group}, and is told nothing (role="submit")',
                fix='join it with role="both" or role="receive" to hear what is said',
            )
        return Items(self._next, batch)

    async def _next(self, batch: int) -> GroupItem:
        if self._bodies is None:
            if not self._unread:
                await self._until_some(self._unread, self.me)
            item = self._unread.popleft()
            if isinstance(item, Loan):
                self._unread_bytes -= item.size
                sender, first, at, bodies = item.sender, item.first, item.at, item.read()
            elif isinstance(item, tuple):
                sender, run = item
                self._unread_bytes -= len(run.block)
                first, at, bodies = run.first, run.at, payloads(run)
            else:
                return item
            if self._stopped and self._unread_bytes <= UNREAD_BYTES_MAX // 4:
                self._say_reading(True)
            if batch >= len(bodies):
                return Messages(sender, first, bodies, at)
            self._bodies = (sender, first, bodies, at)
            self._read = 0
        sender, first, bodies, at = self._bodies
        begin = self._read
        self._read = end = min(begin + (batch or 1), len(bodies))
        if end == len(bodies):
            self._bodies = None
        if batch:
            return Messages(sender, first + begin, bodies[begin:end], at)
        return Message(sender, bodies[begin], first + begin, at)

    # Leaving

    async def leave(self, *, deadline_s: float | None = None) -> None:
        """Leave the group. Returns when all have everything that we said, or after a while in which
        a member did not confirm it: then `unconfirmed` says of how many messages."""
        if self._left is not None:
            raise again(self._left)
        self._flush()
        self._left = NotMember(f"{self.me.endpoint} has left {self.group} already", fix="join it again")
        self._wake_senders()
        await within(deadline_s, self.me._exit(self), f"leaving {self.group} was not confirmed")

    def parted(self) -> "asyncio.Future[told.Parted]":
        if self._parted is None:
            self._parted = asyncio.get_running_loop().create_future()
        return self._parted

    # From the endpoint

    def hear(self, item: told.Item | Loan) -> None:
        """The agent sent this item of the group."""
        if type(item) is Loan:
            self._keep(item, item.size)
            return
        match item:
            case told.Delivered(sender, run) | told.Aggregated(sender, run):
                self._keep((sender, run), len(run.block))
            case told.Credit(upto):
                self._first_credit = self._first_credit or upto
                self._credit = upto
                emitted = upto - self._first_credit
                while self._handed and self._handed[0][0] <= emitted:
                    self._queued_bytes -= self._handed.popleft()[1]
                self._wake_senders()
            case told.Sent():
                pass
            case told.Parted(unconfirmed, unsent):
                self.unconfirmed = unconfirmed + unsent
                if not self.parted().done():
                    self.parted().set_result(item)
            case told.Excluded(reason, fix):
                what = f"{self.group} went on without {self.me.endpoint}: {reason}"
                self.end(Refused(what, fix=fix or "join it again"))
            case told.Left() if self._is_no_news(item):
                pass
            case told.ChangesTogether(items):
                self._unread += self._changes(items)
                self._wake()
            case told.JoinedTogether(members) if self._lost:
                self._unread += self._changes([told.Joined(*each) for each in members])
                self._wake()
            case _:
                self._unread.append(self._change(item))
                self._wake()

    def _changes(self, items: Iterable[told.Joined | told.Left | told.Gap]) -> list[GroupItem]:
        """What happened at once: one item for those that follow each other and have the same cause."""
        news = [self._change(item) for item in items if not self._is_no_news(item)]
        changes: list[GroupItem] = []
        for _, some in groupby(news, lambda each: (type(each), getattr(each, "cause", None))):
            first, *rest = some
            match first:
                case Joined(cause=cause):
                    joined = [
                        who for each in (first, *rest) if isinstance(each, Joined) for who in each.members
                    ]
                    changes.append(Joined(tuple(joined), cause))
                case Left(cause=cause):
                    left = [
                        who for each in (first, *rest) if isinstance(each, Left) for who in each.endpoints
                    ]
                    changes.append(Left(tuple(left), cause))
                case _:
                    changes += [first, *rest]
        return changes

    def _is_no_news(self, item: told.Item) -> bool:
        """Lost with a domain, as `Without` or `Only` has said."""
        return isinstance(item, told.Left) and item.endpoint not in self._members

    def _keep(self, messages: tuple[Endpoint, Run] | Loan, size: int) -> None:
        self._unread.append(messages)
        self._unread_bytes += size
        if not self._stopped and (
            self._unread_bytes > UNREAD_BYTES_MAX or len(self._unread) > UNREAD_ITEMS_MAX
        ):
            self._say_reading(False)
        self._wake()

    def _change(self, item: told.Item | Loan) -> GroupItem:
        match item:
            case told.Ready(members):
                self._members = {endpoint: Member(endpoint, (0, 0), meta) for endpoint, _, meta in members}
                self._lost.clear()
                self._ready.set()
                return View(self.members)
            case told.Joined(endpoint, _, meta, resumed):
                member = self._members[endpoint] = Member(endpoint, (0, 0), meta)
                is_back = endpoint in self._lost or resumed  # not resumed: something was missed
                self._lost.pop(endpoint, None)
                return Joined((member,), Cause.MERGE if is_back else Cause.JOIN)
            case told.JoinedTogether(members):
                joined = tuple([Member(endpoint, (0, 0), meta) for endpoint, _, meta in members])
                self._members.update({member.endpoint: member for member in joined})
                return Joined(joined, Cause.JOIN)
            case told.Left(endpoint, why, _):
                self._members.pop(endpoint, None)
                return Left((endpoint,), _CAUSES[why])
            case told.Gap(sender, first, last):
                return Gap(last - first + 1, sender=sender, first=first)
            case told.Without(domain, because):
                lost = self._drop([each for each in self._members if inside(domain, each)])
                return Without(domain, lost, because or _unknown(self.me.host))
            case told.Only(domain, because):
                lost = self._drop([each for each in self._members if not inside(domain, each)])
                return Only(domain, lost, because or _unknown(self.me.host))
        raise AssertionError(f"not an item of a conversation: {item}")

    def _drop(self, lost: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
        """These members were lost with a domain. Messages from before may still come; a `Left` of theirs is
        no change."""
        for endpoint in lost:
            del self._members[endpoint]
            self._lost[endpoint] = None
        for oldest in list(self._lost)[:-LOST_MAX]:
            del self._lost[oldest]
        return tuple(sorted(lost))

    def lose(self) -> None:
        """The agent is gone, and with it everything that it had not emitted yet."""
        self._ready.clear()
        self._outgoing.clear()
        waiting = self._waiting
        self._start_over()
        for future in waiting:
            if not future.done():
                future.set_result(None)
        self._members = {}
        self._stopped = False
        self._unread.append(Gap())
        self._wake()

    def end(self, reason: RostraError | None) -> None:
        """For good."""
        if reason is None:
            self._left = self._left or NotMember(f"{self.group} was left", fix="join it again")
        elif self._ended is None:
            self._ended = reason
        self._ready.set()
        if self._parted is not None and not self._parted.done():
            self._parted.set_result(told.Parted())
        self._wake()
        self._wake_senders()

    def _wake_senders(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


def checked(payload: object) -> bytes:
    if not isinstance(payload, bytes | bytearray | memoryview):
        raise BadInput(f"{type(payload).__name__} cannot be sent", fix="send bytes: text.encode()")
    payload = bytes(payload)
    if len(payload) > MESSAGE_BYTES_MAX:
        raise TooLarge(f"a message of {len(payload)} bytes", fix=f"send at most {MESSAGE_BYTES_MAX} at once")
    return payload


def all_checked(payloads: list[bytes]) -> list[bytes]:
    if set(map(type, payloads)) == _BYTES and max(map(len, payloads)) <= MESSAGE_BYTES_MAX:
        return payloads
    return [checked(payload) for payload in payloads]


def blocks_of(chunk: list[bytes]) -> Iterable[list[bytes]]:
    """The same messages, no more at once than fit a frame; mostly all of them."""
    if len(chunk) == 1 or sum(map(len, chunk)) + 5 * len(chunk) <= MESSAGE_BYTES_MAX:
        return (chunk,)
    half = len(chunk) // 2
    return (*blocks_of(chunk[:half]), *blocks_of(chunk[half:]))


def _unknown(host: str) -> Because:
    return Because(host, host, "silent")  # type: ignore[arg-type]
