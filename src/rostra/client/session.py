"""A program's session with its agent, across reconnects.

    Connected ── silence ──▶ Suspended ──▶ Connected | Lost
    Lost ── on_lost="raise" ──▶ everything ends with the reason
         ── on_lost="rejoin" ──▶ connect, back off, connect again ...  ──▶ Connected
                                 open every endpoint again, join and watch what it joined and watched

A connection that breaks takes its endpoints with it: the agent reports them as crashed. An endpoint that
comes back has the same name and a larger incarnation, and its member lists from before are void (C-143).
"""

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal, Protocol, TypeVar
from weakref import ref

from rostra.client.connection import AgentConnection, Silence
from rostra.client.copies import Copies
from rostra.client.states import Connected, Lost, State, Suspended
from rostra.client.streams import Stream, again
from rostra.client.watched import Watched
from rostra.errors import BadInput, DeadlineExceeded, RostraError, Unreachable, WrongWorld
from rostra.names import Endpoint
from rostra.protocols.relaxed.requests import Open
from rostra.transport.dialler import dialler
from rostra.wire import NO_ENDPOINT

OnLost = Literal["rejoin", "raise"]
OnState = Callable[[State], None]

RETRY_S: Final = 0.1
RETRY_S_MAX: Final = 2.0
"""The pauses between attempts are drawn from 0 to a bound, which doubles from the first of these to the
second. Raising the second: fewer calls at a door that is closed, a later return when it opens."""

CALL_TIMEOUT_S: Final = 5.0
"""For one attempt to come back."""

T = TypeVar("T")


class Returning(Protocol):
    """An endpoint, as its session needs it."""

    name: str

    def lost(self) -> None:
        """The agent is gone; alone until `reopened`."""

    def reopened(self, connection: AgentConnection, endpoint: Endpoint) -> None:
        """Connected again, with a new incarnation: open, join and watch as before."""

    async def settled(self) -> None:
        """Until that is answered."""

    def ended(self, reason: RostraError | None) -> None:
        """The session has ended for good."""


class Session:
    def __init__(
        self,
        address: str | None,
        *,
        token: str,
        on_lost: OnLost,
        rejoin_within_s: float | None,
        silence_s: float,
        on_state: OnState | None,
    ) -> None:
        if on_lost not in ("rejoin", "raise"):
            raise BadInput(f"on_lost={on_lost!r}", fix='use "rejoin" or "raise"')
        if address is not None and not isinstance(address, str):
            raise BadInput(f"address={address!r}", fix='write a text: "host:port", or the path of a socket')
        if not isinstance(silence_s, int | float) or not silence_s > 0:
            raise BadInput(f"silence_s={silence_s!r}", fix="use a positive number of seconds")
        if not isinstance(rejoin_within_s, int | float | None):
            raise BadInput(f"rejoin_within_s={rejoin_within_s!r}", fix="use a number of seconds, or None")
        self._loop = asyncio.get_running_loop()
        self._dialler = dialler()
        self._where = self._dialler.find(address)
        self._token = token
        self._on_lost = on_lost
        self._rejoin_within_s = math.inf if rejoin_within_s is None else rejoin_within_s
        self._silence_s = silence_s
        self._on_state = on_state
        self.copies = Copies()
        self.watched = Watched()
        self.connection = self._new_connection()
        self.endpoints: list[Returning] = []
        self.closed = False
        self._state: State = Connected(self._loop.time())
        self._listeners: list[ref[Stream[State]]] = []
        self._changed: asyncio.Future[None] | None = None
        self._returning: asyncio.Task[None] | None = None

    def _new_connection(self) -> AgentConnection:
        return AgentConnection(
            self._where,
            token=self._token,
            copies=self.copies,
            watched=self.watched,
            silence_s=self._silence_s,
        )

    # Beginning and end

    async def open(self, timeout_s: float) -> None:
        if not isinstance(timeout_s, int | float):
            raise BadInput(f"timeout_s={timeout_s!r}", fix="use a number of seconds")
        await self.connection.open(timeout_s)
        self._attach(self.connection)
        self._enter(Connected(self._loop.time()))

    async def close(self) -> None:
        """Leave every group, and end everything without complaint."""
        if self.closed:
            return
        self.closed = True
        for endpoint in self.endpoints:
            endpoint.ended(None)
        for stream in self._streams():
            stream.end()
        self._wake()
        if self._returning is not None:
            self._returning.cancel()
        await self.connection.close()

    def _attach(self, connection: AgentConnection) -> None:
        self.connection = connection
        connection.on_silence = self._silent
        connection.at_end(self._ended)

    # States

    @property
    def state(self) -> State:
        return self._state

    def states(self) -> Stream[State]:
        stream: Stream[State] = Stream(lambda missed: (self._state,))
        stream.put(self._state)
        if self.closed or self._is_final():
            stream.end()
        else:
            self._listeners.append(ref(stream, self._listeners.remove))
        return stream

    async def connected(self) -> None:
        """Until the agent answers; raises the reason if it never will."""
        while not isinstance(self._state, Connected):
            if isinstance(self._state, Lost) and self._state.is_final:
                raise again(self._state.reason)
            if self.closed:
                break
            if self._changed is None:
                self._changed = self._loop.create_future()
            await asyncio.shield(self._changed)
        if self.closed:
            raise BadInput("the connection was closed by this program", fix="connect again")

    def _is_final(self) -> bool:
        return isinstance(self._state, Lost) and self._state.is_final

    def _enter(self, state: State) -> None:
        self._state = state
        for stream in self._streams():
            stream.put(state)
            if self._is_final():
                stream.end()
        self._wake()
        if self._on_state is not None:
            # A callback that fails is reported by the event loop, like any failed callback.
            self._loop.call_soon(self._on_state, state)

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set_result(None)
            self._changed = None

    def _streams(self) -> list[Stream[State]]:
        return [stream for each in self._listeners if (stream := each()) is not None]

    def _silent(self, silence: Silence | None) -> None:
        if silence is None:
            self._enter(Connected(self._loop.time()))
        else:
            self._enter(Suspended(silence.since, silence.deadline))

    # Losing the agent

    def _ended(self, why: RostraError) -> None:
        if self.closed:
            return
        if self._on_lost == "raise" or not why.retriable:
            self._end(why)
            return
        self._forget_everybody()
        now = self._loop.time()
        until = now + self._rejoin_within_s
        self._returning = self._loop.create_task(self._return(until))
        self._enter(Lost(why, now, until))

    def _forget_everybody(self) -> None:
        """Drop all member lists: they came from an agent that is gone."""
        for endpoint in self.endpoints:
            endpoint.lost()
        self.copies.start_over()
        self.watched.lose()

    def _end(self, why: RostraError) -> None:
        """For good."""
        for endpoint in self.endpoints:
            endpoint.ended(why)
        self._enter(Lost(why, self._loop.time()))

    async def _return(self, until: float) -> None:
        bound_s = RETRY_S
        try:
            while True:
                await asyncio.sleep(self._dialler.luck.uniform(0.0, bound_s))
                bound_s = min(2 * bound_s, RETRY_S_MAX)
                try:
                    await self._call(min(CALL_TIMEOUT_S, max(RETRY_S, until - self._loop.time())))
                    return
                except RostraError as error:
                    if not error.retriable:
                        self._end(error)
                        return
                    if self._loop.time() >= until:
                        self._end(self._gave_up(error))
                        return
        finally:
            self._returning = None

    async def _call(self, timeout_s: float) -> None:
        """One attempt to reconnect."""
        connection = self._new_connection()
        await connection.open(timeout_s)
        try:
            await within(timeout_s, self._take_up(connection), f"{connection.address} did not take us back")
        except BaseException:
            self._forget_everybody()
            await connection.close()
            raise
        self._attach(connection)
        self._enter(Connected(self._loop.time()))

    async def _take_up(self, connection: AgentConnection) -> None:
        """Open every endpoint, then ask for all that they had: two round trips, however many they are."""
        if connection.world != self.connection.world:
            raise WrongWorld(
                f"the agent at {connection.address} is of world {connection.world!r}, "
                f"not of {self.connection.world!r} as before",
                fix="connect again, if that is right",
            )
        opened = [(each, connection.post(NO_ENDPOINT, Open(each.name))) for each in self.endpoints]
        for endpoint, answer in opened:
            reopened = await connection.settle(answer)
            if endpoint in self.endpoints:
                endpoint.reopened(connection, reopened.endpoint)
            else:
                connection.close_endpoint(reopened)  # it was closed while we asked
        for endpoint in list(self.endpoints):
            await endpoint.settled()

    def _gave_up(self, last: RostraError) -> RostraError:
        return Unreachable(
            f"the agent was away for {self._rejoin_within_s:g} s: {last.what}",
            fix="check the agent; to wait longer: connect(..., rejoin_within_s=...)",
        )


def check_deadline(deadline_s: float) -> None:
    if not isinstance(deadline_s, int | float) or not deadline_s > 0:
        raise BadInput(
            f"a deadline of {deadline_s!r} s", fix="use a positive number of seconds, or None to wait"
        )


async def within(deadline_s: float | None, doing: Coroutine[Any, Any, T], what: str) -> T:
    """Do it in time, or stop doing it and say so."""
    if deadline_s is None:
        return await doing
    try:
        check_deadline(deadline_s)
    except BadInput:
        doing.close()
        raise
    try:
        async with asyncio.timeout(deadline_s):
            return await doing
    except TimeoutError as late:
        if isinstance(late, RostraError):
            raise
        raise DeadlineExceeded(
            f"{what} within {deadline_s:g} s", fix="allow more time, or check the agent"
        ) from None
