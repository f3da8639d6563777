"""The state of a group for a member that has joined: from one who has it, by position.

    joiner ── StateWanted ──▶ the most senior other member ── between two of its items, at position q ──┐
           ◀── StatePiece(q, ...), a few on their way at once; each is acknowledged ── give=snapshot ◀───┘
    joiner: take=restore, then its own messages that are after q

No member stops. The donor gives its state after the view with the joiner in it, so what it has not applied
by then is after the joiner's view, and the joiner gets it itself. A donor that leaves, dies or says nothing
is replaced by the next one, which has its own q. Parts travel as messages between endpoints, by the servers.

The member with rank 0 in its own first view has founded the group, if all in that view are new: its state is
the group's. Else the member with rank 0 begins with what it has when all others of its view have answered in
that view that they have none: the last one that had it is gone.
"""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, msgpack

from rostra.client.arenas import Loan
from rostra.errors import UNDECODABLE, RostraError
from rostra.groups.items import AgreedViewId, View
from rostra.names import Endpoint, Group
from rostra.names.checks import Natural
from rostra.protocols.agreed.requests import MemberView

if TYPE_CHECKING:
    from rostra.client.ordered import Ordered

Give = Callable[[], "bytes | Iterable[bytes] | AsyncIterable[bytes] | Awaitable[bytes]"]
Take = Callable[[bytes], "Awaitable[None] | None"]
Reconcile = Callable[[bytes, bytes], "Awaitable[None] | None"]
"""With our side's state, and with that of the group as it goes on."""

MAGIC: Final = b"\x00rostra state 1\x00"
"""How messages between endpoints begin that are about state; a program's own never does."""

PART_BYTES: Final = 60_000
PARTS_ON_THEIR_WAY: Final = 16
SAY_AGAIN_S: Final = 1.0
PATIENCE_S: Final = 5.0
"""A donor of which nothing comes for so long is replaced."""

STATE_BYTES_MAX: Final = 1 << 30

PIECE_BYTES: Final = 256
"""What a piece counts as, its data apart."""


class StateMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    group: Group
    id: Natural  # of the joiner's question


class StateWanted(StateMessage, frozen=True, tag=1):
    pass


class StateRefused(StateMessage, frozen=True, tag=2):
    """The member has no state to give, and will not get one from a donor that is not in this view of its."""

    view: AgreedViewId | None = None


class StatePiece(StateMessage, frozen=True, tag=3):
    position: Natural
    number: Natural
    data: bytes
    last: bool = False


class StateTaken(StateMessage, frozen=True, tag=4):
    number: Natural


_NEVER: Final = AgreedViewId(0, 0, "")

AnyStateMessage = StateWanted | StateRefused | StatePiece | StateTaken

_encode: Final = msgpack.Encoder().encode
_decoder: Final[msgpack.Decoder[AnyStateMessage]] = msgpack.Decoder(AnyStateMessage)


def decode_state(data: bytes) -> AnyStateMessage | None:
    try:
        return _decoder.decode(data[len(MAGIC) :])
    except UNDECODABLE:
        return None


async def _post(ordered: "Ordered", to: Endpoint, message: AnyStateMessage) -> None:
    """Should it be lost, it is said again, or another one is asked."""
    with contextlib.suppress(RostraError):
        await ordered.me.send_to(to, MAGIC + _encode(message))


async def pieces_of(state: Any) -> AsyncIterator[bytes]:
    """What `give=` has returned, in any of its forms."""
    if inspect.isawaitable(state):
        state = await state
    if isinstance(state, bytes | bytearray | memoryview):
        yield bytes(state)
    elif hasattr(state, "__aiter__"):
        async for piece in state:
            yield bytes(piece)
    else:
        for piece in state:
            yield bytes(piece)


class TwoOrders(Struct, frozen=True):
    """In the place of an item: up to here we were on a side with an order of its own, which met another one.
    `was_first`: we were the most senior member on it."""

    was_first: bool


class StateDue(Struct, frozen=True):
    """In the place of an item: from here on our state may be given to this joiner."""

    to: Endpoint


def founds(view: MemberView, members: int) -> bool:
    """Does the group begin with this view? Where parts have met, another one may have the state."""
    return len(view.joined) == members and len(view.parts) < 2


class StateDonor:
    """Gives our state to one joiner, until that is gone, asks again, or asks another one: then what else is
    given is for nobody."""

    def __init__(self, ordered: "Ordered", to: Endpoint, id: int, position: int) -> None:
        self.to, self.id = to, id
        self._ordered = ordered
        self._position = position
        self._number = 0
        self._left = b""
        self._unacknowledged: dict[int, StatePiece] = {}
        self._room = asyncio.Event()
        self._began = False
        self.is_over = False  # the joiner is gone, or asks another one

    async def give(self, piece: bytes) -> None:
        """The next piece of it. If the joiner is gone, it goes nowhere, and the program goes on."""
        if self.is_over:
            return
        self._began = True
        data, at = self._left + piece, 0
        while len(data) - at > PART_BYTES:  # what is left is not copied each time: states are large
            at += PART_BYTES
            await self._part(data[at - PART_BYTES : at], last=False)
        self._left = data[at:]

    async def end(self) -> None:
        """The last piece was given. A member that gave none at all has no state."""
        if not self._began:
            await refuse(self._ordered, self.to, self.id)
        elif not self.is_over:
            await self._part(self._left, last=True)
            await self._until(0)
        self.stop()

    async def give_all(self, state: Any) -> None:
        async for piece in pieces_of(state):
            await self.give(piece)
            if self.is_over:
                return
        await self.end()

    def stop(self) -> None:
        self.is_over, self._left = True, b""
        self._unacknowledged.clear()
        self._room.set()
        self._ordered.has_given(self)

    async def _part(self, data: bytes, *, last: bool) -> None:
        await self._until(PARTS_ON_THEIR_WAY - 1)
        if self.is_over:
            return
        self._number += 1
        part = StatePiece(self._ordered.group, self.id, self._position, self._number, data, last)
        self._unacknowledged[part.number] = part
        await _post(self._ordered, self.to, part)

    async def _until(self, most: int) -> None:
        tries = 0
        while len(self._unacknowledged) > most and not self.is_over:
            self._room.clear()
            try:
                async with asyncio.timeout(SAY_AGAIN_S):
                    await self._room.wait()
                tries = 0
            except TimeoutError:
                tries += 1
                if tries * SAY_AGAIN_S > PATIENCE_S:
                    self.stop()
                for part in list(self._unacknowledged.values())[:4]:
                    await _post(self._ordered, self.to, part)

    def taken(self, number: int) -> None:
        self._unacknowledged.pop(number, None)
        self._room.set()


class StateReceiver:
    """A joiner's: asks one member after the other until it has the state."""

    def __init__(self, ordered: "Ordered") -> None:
        self._ordered = ordered
        self._id = 0
        self._donor: Endpoint | None = None
        self._refused: set[Endpoint] = set()
        self._without: dict[Endpoint, AgreedViewId | None] = {}  # in which view they had no state
        self._parts: dict[int, bytes] = {}
        self._size = 0
        self._last = 0
        self._position = 0
        self._came = asyncio.Event()
        self._stopped = False

    async def receive(self) -> tuple[int, bytes | None] | None:
        """The position up to which it counts, and the state, if any member has it; none if it was stopped."""
        while True:
            self._ordered.check_inside()
            if self._stopped:
                return None
            donor = self._next_donor()
            if donor is None:
                if self._is_left_alone:
                    return 0, None
                self._refused.clear()
                await asyncio.sleep(SAY_AGAIN_S)
                continue
            self._ask(donor)
            await _post(self._ordered, donor, StateWanted(self._ordered.group, self._id))
            while True:
                self._came.clear()
                try:
                    async with asyncio.timeout(PATIENCE_S):
                        await self._came.wait()
                except TimeoutError:
                    break
                self._ordered.check_inside()
                if self.is_complete:
                    return self._position, b"".join([self._parts[n] for n in sorted(self._parts)])
                if self._donor is None or self._donor not in self._members():
                    break
            self._refused.add(donor)

    @property
    def is_complete(self) -> bool:
        return 0 < self._last == len(self._parts)

    def end_of_theirs(self, unread: Iterable[object]) -> int:
        """Up to where the order was one with members that had its state. If we go on with our side's state,
        that does not fit it: it comes with the state of the other side, when the two meet again."""
        end, is_ours = 0, False
        for item in unread:
            if isinstance(item, View):
                is_ours = self._had_none(item)
            elif isinstance(item, Loan) and not is_ours:
                end = item.position + item.count - 1
            elif isinstance(item, tuple) and not is_ours:
                _, run, position = item
                end = position + run.count - 1
        return end

    def _had_none(self, view: View) -> bool:
        """Did all others of this view answer then, or later, that they have no state?"""
        answers = [self._without.get(each) for each in self._others(view)]
        return all(each is not None and each.number >= view.number for each in answers)

    @property
    def _is_left_alone(self) -> bool:
        """Are we the most senior one, and has no other member of our view the state?"""
        ordered = self._ordered
        if ordered.rank != 0 or ordered.view is None:
            return False
        others = self._others(ordered.view)
        return all(self._without.get(each, _NEVER) == ordered.view.id for each in others)

    def _others(self, view: View) -> list[Endpoint]:
        me = self._ordered.me.endpoint
        return [each.endpoint for each in view.members if each.endpoint != me]

    def _ask(self, donor: Endpoint) -> None:
        self._id += 1
        self._donor = donor
        self._parts, self._size, self._last, self._position = {}, 0, 0, 0

    def _members(self) -> list[Endpoint]:
        return [each.endpoint for each in self._ordered.members]

    def _next_donor(self) -> Endpoint | None:
        """In order of rank: the most senior has it, unless it waits for it itself."""
        me = self._ordered.me.endpoint
        return next((each for each in self._members() if each != me and each not in self._refused), None)

    def hear(self, source: Endpoint, message: StatePiece | StateRefused) -> None:
        if source != self._donor or message.id != self._id or source not in self._members():
            return
        if isinstance(message, StateRefused):
            self._donor = None
            self._without[source] = message.view
        elif message.number not in self._parts:
            size = len(message.data) + PIECE_BYTES
            if self._size + size > STATE_BYTES_MAX:
                self._donor = None
            else:
                self._size += size
                self._parts[message.number] = message.data
                self._position = message.position
                self._last = message.number if message.last else self._last
        if self._donor is not None and isinstance(message, StatePiece):
            taken = StateTaken(self._ordered.group, message.id, message.number)
            self._ordered.spawn(_post(self._ordered, source, taken))
        self._came.set()

    def stop(self) -> None:
        """We are out of that order: its state is not needed any more."""
        self._stopped, self._donor, self._last = True, None, 0
        self._came.set()

    def look(self) -> None:
        """Is our donor still there, and are we?"""
        self._came.set()


async def refuse(ordered: "Ordered", to: Endpoint, id: int) -> None:
    view = None if ordered.view is None else ordered.view.id
    await _post(ordered, to, StateRefused(ordered.group, id, view))
