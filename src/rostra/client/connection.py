"""One program's connection to its agent, shared by all its endpoints.

    ask(endpoint, request) ──▶ all requests of one tick leave as one frame   ──▶ agent
    future of the answer   ◀── answers by token; notices by endpoint number  ◀── agent

Equal requests of one tick share one message. A caller that asks, waits and asks again shares with no other;
its request is sent at once, which saves a pass of the event loop in every round trip.

A connection that ends reports the reason to every call that waits for an answer, and to its session, which
decides what to do.

An agent that is silent for a while is pinged. Without an answer the connection is reported as silent and in
the end closed, even if the socket reports no error: the agent may be unreachable, or stopped.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

from rostra.client.arenas import Loan, ReadArenas
from rostra.client.copies import Copies
from rostra.client.streams import again
from rostra.client.watched import Watched, WatchMemory
from rostra.errors import BY_CODE, NotAllowed, PeerError, Refused, RostraError, Unreachable
from rostra.names import Domain, Group, incarnation_of
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.requests import OrderClosed, OrderedRun, OrderPlaced
from rostra.protocols.fifo.events import Item as GroupItem
from rostra.protocols.front.messages import AnyRequest, AnyTold
from rostra.protocols.relaxed.requests import (
    Absolute,
    Changed,
    Close,
    Denied,
    Gap,
    Joined,
    Left,
    Only,
    Opened,
    Snapshot,
    Without,
)
from rostra.transport.addresses import SocketPath, reason_of
from rostra.transport.connection import Connection
from rostra.transport.dialler import dialler
from rostra.wire import (
    ANY_WORLD,
    Answered,
    Arena,
    Arrived,
    Ask,
    Delivery,
    DeliveryToAll,
    Encoder,
    FrameKind,
    FrameReader,
    Goodbye,
    Lent,
    Mapped,
    Ping,
    Pong,
    ProgramHello,
    ProgramWelcome,
    Reading,
    Refusal,
    Retired,
    Returned,
    Told,
)
from rostra.wire.encoder import check_request

SILENCE_S_MAX: Final = 30.0
"""After how long a silent agent is given up: the default of `connect`."""

PING_AFTER: Final = 0.1
SILENT_AFTER: Final = 0.2
"""Of that time: when a quiet agent is asked for a sign of life, and when it counts as silent."""

GOODBYE_S: Final = 1.0
"""How long a closing program waits for its agent to hang up."""

NOBODY_IN_PARTICULAR: Final = Domain("")
"""Whom to reach at an address: its agent, or its lowest domain server."""

MEMBERSHIP: Final = frozenset((Absolute, Joined, Left, Only, Without, Gap))
"""The notices that edit copies; all others are for one endpoint."""

OnNotice = Callable[[AnyTold], None]
OnItem = Callable[[GroupItem | Loan], None]


class Silence(Struct, frozen=True):
    since: float
    deadline: float


class AgentConnection:
    """The program's end. It is a `Role` of the same kind of connection that agents use."""

    def __init__(
        self,
        where: Any,
        *,
        program: str = "",
        token: str = "",
        copies: Copies | None = None,
        watched: Watched | None = None,
        silence_s: float = SILENCE_S_MAX,
    ) -> None:
        self.address = where
        self.name = str(where)
        self.turn = 0  # for `Connection`: a program reads all that comes, so every read is a turn of its own
        self.encoder = Encoder(ANY_WORLD)
        self.arenas = ReadArenas(where, self.say)
        self.world = ""
        self.path = Domain("")
        self.memory = WatchMemory(Domain(""), 0)
        self.ended: RostraError | None = None
        self._dialler = dialler()
        self._program = program or self._dialler.program()
        self._token = "" if isinstance(where, SocketPath) else token  # a socket's mode says who may use it
        self._silence_s = silence_s
        self._loop = asyncio.get_running_loop()
        self._connection = Connection(self, FrameReader(ANY_WORLD, FrameKind.TO_PROGRAM))
        self._connection.role = self
        self._welcomed: asyncio.Future[None] = self._loop.create_future()
        self.copies = Copies() if copies is None else copies
        self.watched = Watched() if watched is None else watched
        self.asked = 0  # questions so far; also the last one's token
        self._asks: list[Ask] = []
        self._asking: dict[tuple[int, AnyRequest], int] = {}  # what was asked this tick: its token
        self._waiting: dict[int, list[asyncio.Future[Any]]] = {}
        self._lonely = False  # the last request was the only one under way
        self._periods: dict[int, int] = {}  # by token: the period of following in which it was asked
        self._listeners: dict[int, OnNotice] = {}
        self._conversations: dict[tuple[int, Group], OnItem] = {}
        self._at_end: list[Callable[[RostraError], None]] = []
        self._hung_up = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._heard_at = self._loop.time()
        self._silence: Silence | None = None
        self._look_at = 0.0
        self._silence_timer: asyncio.TimerHandle | None = None
        self.on_silence: Callable[[Silence | None], None] = _nobody_listens

    # Beginning and end

    async def open(self, timeout_s: float, to: Domain = NOBODY_IN_PARTICULAR) -> None:
        """Connect, and do the handshake."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._dialler.dial(self.address, self._connection)
                shares = self.arenas.are_possible
                hello = ProgramHello(ANY_WORLD, self._program, self._token, to, shares, takes_for_all=True)
                self._connection.write(self.encoder.to_agent(hello))
                await self._welcomed
        except TimeoutError:
            self._connection.abort("timeout")
            raise Unreachable(
                f"the agent at {self.address} did not answer within {timeout_s:g} s",
                fix="check that it is running",
            ) from None
        except OSError as error:
            if isinstance(error, RostraError):
                raise
            raise self._not_there(error) from None
        except asyncio.CancelledError:
            self._connection.abort("cancelled")
            raise
        self._look_for_silence()

    def _not_there(self, error: OSError) -> RostraError:
        if isinstance(error, PermissionError):
            return NotAllowed(
                f"no permission to use the agent's socket {self.address}",
                fix=f"join the group that owns it (ls -l {self.address}), or run an agent of your own",
            )
        return Unreachable(
            f"no agent at {self.address}: {reason_of(error)}",
            fix="start one with `rostra agent`, or a whole small world with `rostra up`\n"
            "or say where one is: connect(address), --agent ADDRESS after a command, or $ROSTRA_AGENT",
        )

    async def close(self) -> None:
        """Say goodbye: the agent leaves every group on our behalf, and closes."""
        if self.ended is None:
            self._flush()
            self._connection.write(self.encoder.to_agent(Goodbye()))
            self._end(
                Unreachable("the connection to the agent was closed by this program", fix="connect again")
            )
            # The agent hangs up. If we did, it might meet our closed end with a notice before it has read
            # our goodbye, and take us for crashed.
            try:
                async with asyncio.timeout(GOODBYE_S):
                    await self._hung_up.wait()
            except TimeoutError:
                pass
            finally:
                self._connection.close("closed by this program")
            # One turn of the loop, so that the transport is really gone when this returns.
            await asyncio.sleep(0)

    def at_end(self, hear: Callable[[RostraError], None]) -> None:
        self._at_end.append(hear)

    # Asking

    async def ask(self, number: int, request: AnyRequest, *, share: bool = False, period: int = 0) -> Any:
        """The answer, or the error that it means. `number` is the asking endpoint's, or NO_ENDPOINT."""
        if not self._writable.is_set():
            await self._writable.wait()
        answer = await self.post(number, request, share=share, period=period)
        if type(answer) is Denied:
            raise as_error(answer)
        return answer

    async def settle(self, posted: "asyncio.Future[Any]") -> Any:
        """Wait for the answer to what was posted; raise if it is a refusal."""
        answer = await posted
        if type(answer) is Denied:
            raise as_error(answer)
        return answer

    def post(
        self, number: int, request: AnyRequest, *, share: bool = False, period: int = 0
    ) -> "asyncio.Future[Any]":
        """Ask without waiting: the question is on its way when this returns, whatever becomes of the caller.

        With `share`, an equal question of this tick is asked once; each asker has its own future, so that
        none can cancel another's. With `period`, the answer is news for our copy too (`Copies.answered`).
        """
        if self.ended is not None:
            raise again(self.ended)
        if not share:
            check_request(request)  # those that are shared are made, and checked, once (`me._question`)
        future = self._loop.create_future()
        if share:
            token = self._asking.get((number, request))
            if token is not None:
                self._waiting[token].append(future)
                return future
        self.asked = token = self.asked + 1
        if share:
            self._asking[number, request] = token
        self._waiting[token] = [future]
        if period:
            self._periods[token] = period
        self._asks.append(Ask(token, number, request))
        if len(self._asks) == 1:
            if self._lonely and len(self._waiting) == 1:
                self._flush()
            else:
                self._loop.call_soon(self._flush)
        return future

    def listen(self, number: int, hear: OnNotice) -> None:
        self._listeners[number] = hear

    def deafen(self, number: int) -> None:
        self._listeners.pop(number, None)

    # Groups with delivery

    def converse(
        self, number: int, group: Group, hear: OnItem, joining: "asyncio.Future[Any] | None" = None
    ) -> None:
        """`joining`: an agreed join that is not answered yet. Answers overtake deliveries, so items of the
        membership before, which has just been left, may still come: they are not of this one."""

        def hear_early(item: GroupItem | Loan) -> None:
            if joining is None or joining.done():
                self._conversations[number, group] = hear
                hear(item)
            elif type(item) is Loan:
                item.give_back()
            elif type(item) not in _OF_MEMBERS:
                hear(item)

        self._conversations[number, group] = hear if joining is None else hear_early
        self._connection.carry_messages()

    def fall_silent(self, number: int, group: Group) -> None:
        self._conversations.pop((number, group), None)

    def submit(self, number: int, group: Group, payloads: Sequence[bytes]) -> None:
        """At once: a block is large enough to be worth a write of its own."""
        self._connection.write_all(self.encoder.submission(number, group, payloads, time.time()))

    def say(self, said: Reading | Mapped | Returned) -> None:
        self._connection.write(self.encoder.to_agent(said))

    @property
    def is_writable(self) -> bool:
        return self._writable.is_set()

    async def writable(self) -> None:
        await self._writable.wait()

    def _flush(self) -> None:
        if self._asks:
            asks, self._asks = self._asks, []
            self._asking.clear()
            self._lonely = len(self._waiting) == 1 == len(self._waiting[asks[0].token])
            self._connection.write(self.encoder.asks(asks))

    # From the connection

    def arrived(self, items: list[Arrived]) -> None:
        if self.ended is not None:
            return  # it was on its way when we said goodbye
        self.turn += 1
        self._heard_at = self._loop.time()
        if self._silence is not None:
            self._silence = None
            self.on_silence(None)
        try:
            self._take(items)
        except PeerError as error:
            self._end(error)
            self._connection.abort(error.what)

    def _take(self, items: list[Arrived]) -> None:
        listeners = self._listeners
        for item in items:
            # Those that come by the thousand first.
            if type(item) is Told:
                notice = item.notice
                if type(notice) in MEMBERSHIP and not (type(notice) is Gap and not notice.groups):
                    self.copies.told(item.endpoints, notice, self.path)
                    continue
                if type(notice) is Changed or type(notice) is Snapshot:
                    self.watched.told(item.endpoints, notice, self.memory)
                    continue
                for number in item.endpoints:
                    hear = listeners.get(number)
                    if hear is not None:
                        hear(notice)
                continue
            if type(item) is Answered:
                self._answered(item.token, item.answer)
                continue
            if type(item) is Delivery:
                hear_item = self._conversations.get((item.endpoint, item.group))
                if hear_item is not None:
                    hear_item(item.item)
                continue
            if type(item) is DeliveryToAll:
                for number in item.endpoints:
                    hear_item = self._conversations.get((number, item.group))
                    if hear_item is not None:
                        hear_item(item.item)
                continue
            if type(item) is Lent:
                loan = self.arenas.lent(item)
                hear_item = self._conversations.get((item.endpoint, item.group))
                if hear_item is None:
                    loan.give_back()
                else:
                    hear_item(loan)
                continue
            match item:
                case Arena():
                    self.arenas.offered(item)
                case Retired(number):
                    self.arenas.retired(number)
                case Ping(number):
                    self._connection.write(self.encoder.to_agent(Pong(number)))
                case Pong():
                    pass
                case ProgramWelcome():
                    self._welcome(item)
                case Goodbye(why):
                    self._end(
                        Unreachable(
                            f"the agent at {self.address} said goodbye: {why}", fix="connect again later"
                        )
                    )
                    self._connection.close(why)

    def refused(self, refusal: Refusal) -> None:
        self._end(refusal.error())

    def lost(self, why: str) -> None:
        self._hung_up.set()
        if not self._welcomed.done():
            self._end(
                Unreachable(
                    f"the agent at {self.address} hung up before it said hello: {why}",
                    fix="try again: it may be full, starting or stopping, and its log says which",
                )
            )
            return
        self._end(
            Unreachable(
                f"the connection to the agent at {self.address} is gone: {why}",
                fix="connect again; endpoints opened on it have left their groups",
            )
        )

    def full(self) -> None:
        self._writable.clear()

    def drained(self) -> None:
        self._writable.set()

    def resume_next_turn(self, connection: Connection) -> None:
        connection.pause_reading()
        self.turn += 1
        self._loop.call_soon(connection.resume_reading)

    def hanging_up(self, connection: Connection, error: RostraError) -> None:
        self._end(error)

    def _welcome(self, welcome: ProgramWelcome) -> None:
        if not self._welcomed.done():
            self.world, self.path = welcome.world, welcome.path
            self.memory = WatchMemory(welcome.path, welcome.incarnation)
            self.encoder = Encoder(welcome.world)
            self._welcomed.set_result(None)

    def _answered(self, token: int, answer: Any) -> None:
        futures = self._waiting.pop(token, None)
        if futures is None:
            return  # its caller was cancelled
        period = self._periods.pop(token, 0)
        if period and type(answer) is Absolute:
            # Now, and not when the asker runs again: the changes after it may be in the same read.
            self.copies.answered(answer, period)
        taken = False
        for future in futures:
            if not future.done():
                future.set_result(answer)
                taken = True
        if not taken and self.ended is None:
            # The call that opened this endpoint was cancelled meanwhile; nothing else would ever close it.
            self.close_endpoint(answer)

    def close_endpoint(self, answer: Any) -> None:
        """If this is the answer that opened one."""
        if type(answer) is Opened:
            self.post(incarnation_of(answer.endpoint), Close())

    def _end(self, why: RostraError) -> None:
        if self.ended is not None:
            return
        self.ended = why
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        self._writable.set()
        self.arenas.end()
        if not self._welcomed.done():
            self._welcomed.set_exception(why)
            self._welcomed.exception()  # read once: asyncio would log it if the caller was cancelled
        waiting, self._waiting = self._waiting, {}
        for futures in waiting.values():
            for future in futures:
                if not future.done():
                    future.set_exception(again(why))
                    future.exception()  # read once: asyncio would log it if the caller was cancelled
        for hear in list(self._at_end):
            hear(why)

    def _look_for_silence(self) -> None:
        """Ping a silent agent, then report `Suspended`, then close the connection."""
        most = self._silence_s
        # A timer may fire a hair before its time. And instants are compared, not spans: a difference of two
        # instants can round to less than the span between them, and we would look again at once, for ever.
        now = max(self._loop.time(), self._look_at)
        if self._look_at:
            # While this program was busy it read nothing: that is no silence.
            self._heard_at += now - self._look_at
        if now >= self._heard_at + most:
            self._connection.abort(f"the agent said nothing for {now - self._heard_at:.0f} s")
            return
        if now >= self._heard_at + SILENT_AFTER * most:
            if self._silence is None:
                self._silence = Silence(self._heard_at, self._heard_at + most)
                self.on_silence(self._silence)
            next_s = most
        elif now >= self._heard_at + PING_AFTER * most:
            self._connection.write(self.encoder.to_agent(Ping(0)))
            next_s = SILENT_AFTER * most
        else:
            next_s = PING_AFTER * most
        self._look_at = self._heard_at + next_s
        self._silence_timer = self._loop.call_at(self._look_at, self._look_for_silence)


_OF_MEMBERS: Final = frozenset({MemberView, OrderedRun, OrderPlaced, OrderClosed})
"""What only a member is sent; `MemberBlocked` also who waits to become one."""


def as_error(denied: Denied) -> RostraError:
    """A refusal as the exception that it means."""
    return BY_CODE.get(denied.code, Refused)(denied.what, fix=denied.fix)


def _nobody_listens(silence: Silence | None) -> None:
    pass
