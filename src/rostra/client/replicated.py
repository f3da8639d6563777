"""A Python object that is the same at every member of a group.

    class Counter(rostra.Replicated):
        def __init__(self) -> None:
            self.total = 0

        @rostra.command
        def add(self, amount: int) -> int:
            self.total += amount
            return self.total

    async with me.replicate("visits", Counter(), scope="eu") as counter:
        print(await counter.add(1), counter.total)

    await counter.add(1) ──▶ one order ──▶ every replica applies it; the caller gets the result of its own

`replica_core` decides, this file waits and sends. A command is sent again with the same number until its
outcome is known: whatever happens on the way, it is applied once.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, overload

from msgspec import Struct

from rostra.client.agreed import AGENT_LOST
from rostra.client.choices import Membership
from rostra.client.commands import (
    CHECKPOINT_EVERY,
    IN_FLIGHT_MAX,
    CommandAsked,
    CommandOutcome,
    Signature,
    decode_attributes,
    encode_attributes,
    encode_command,
)
from rostra.client.ordered import Ordered, StableName
from rostra.client.replica_core import (
    NOT_SURE,
    CommandAnswered,
    ReplicaAct,
    ReplicaCore,
    ReplicaDiverged,
    SendInOrder,
    StateLost,
    StateSaved,
    new_core,
)
from rostra.client.session import within
from rostra.client.streams import Stream, again
from rostra.errors import (
    BadInput,
    Excluded,
    InDoubt,
    NotMember,
    Rejected,
    RostraError,
    Unreachable,
)
from rostra.groups.items import Blocked, Message, Messages, View
from rostra.names import Endpoint
from rostra.transport.dialler import dialler

if TYPE_CHECKING:
    from rostra.client.me import Me

P = ParamSpec("P")
R = TypeVar("R")
ReplicatedT = TypeVar("ReplicatedT", bound="Replicated")

SURVIVE: Final = "majority"
"""Which side of a partition goes on: at most one, or there would be two objects."""

OTHERS_S: Final = 10.0
"""When a group begins anew with replicas that were in it before: so long the first of them waits for those
who may have more than it has. Raising it: more time for them to come back, and later the news that the state
is lost."""

AGAIN_S: Final = 0.05
"""Between two attempts, when the reason of the first has not gone away yet."""

BATCH: Final = 1_000

ReplicaItem = View | Blocked | ReplicaDiverged
"""What `Replicated.items` gives."""

_TRY_AGAIN: Final = (InDoubt, Rejected, Excluded, NotMember, Unreachable)


class ReplicatedCommand(Generic[P, R]):
    """A method that is applied at every replica. `function` is the method itself, for tests of the class."""

    def __init__(self, function: Callable[Concatenate[Any, P], R]) -> None:
        self.function = function
        self.signature = Signature(function)
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, object_: None, owner: type) -> Self: ...

    @overload
    def __get__(self, object_: object, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...

    def __get__(self, object_: Any, owner: type) -> Any:
        if object_ is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
            return replication_of(object_).call(self.signature, args, kwargs)

        return call


def command(function: Callable[Concatenate[Any, P], R]) -> ReplicatedCommand[P, R]:
    """A method of a `Replicated` that changes it. Call it with ``await``.

    Every replica applies it, in the same order, so it may use nothing but the object and its arguments: no
    clock, no random numbers, no order of a set. What it raises is raised at the caller; what it had changed
    by then stays changed, at every replica."""
    return ReplicatedCommand(function)


class Replicated:
    """Base of objects for `Me.replicate`: attributes are the state, `command` marks what changes them.

    Reading attributes costs nothing and gives what our replica has; after ``await fresh()`` that is no older
    than the moment of the call."""

    __slots__ = ("__dict__", "__weakref__", "_replication")

    _replication: "Replication"

    def snapshot(self) -> bytes:
        """The state, for a joiner, and for digests. All attributes, unless a class has its own way."""
        return encode_attributes(self)

    def restore(self, data: bytes) -> None:
        """Become what `snapshot` gave at another replica."""
        attributes = decode_attributes(type(self), data)
        vars(self).clear()
        vars(self).update(attributes)

    def viewed(self, members: tuple[Endpoint, ...]) -> None:
        """A view has its place in the order: every replica is told of it between the same two commands. What
        holds for commands holds here too. Nothing, unless a class wants it."""

    async def fresh(self) -> None:
        """Wait until everything is applied here that any replica has answered before this call."""
        await replication_of(self).fresh()

    async def changed(self) -> None:
        """Wait until our replica has applied something more, or may not go on."""
        await replication_of(self).changed()

    @property
    def is_current(self) -> bool:
        """Do we have the state, and may our side of a partition go on? Else what we read may be old."""
        return replication_of(self).is_current

    def items(self) -> "Stream[ReplicaItem]":
        """What happens to the replicas: `View`, `Blocked`, `ReplicaDiverged`."""
        return replication_of(self).items()


def replication_of(object_: Any) -> "Replication":
    found: Replication | None = getattr(object_, "_replication", None)
    if found is None:
        raise NotMember(
            f"this {type(object_).__name__} is not replicated",
            fix="async with me.replicate(name, it), and use it inside",
        )
    return found


def commands_of(kind: type) -> dict[str, Signature]:
    found: dict[str, Signature] = {}
    for each in reversed(kind.__mro__):
        for name, value in vars(each).items():
            if isinstance(value, ReplicatedCommand):
                found[name] = value.signature
            else:
                found.pop(name, None)
    return found


class ReplicaPlace(Struct, frozen=True):
    """Where an object is replicated, and how."""

    name: str
    scope: str
    survive: str
    stable: StableName
    meta: bytes
    membership: Membership


class Replication:
    """Our replica of one object, at work."""

    def __init__(self, me: "Me", object_: Replicated, place: ReplicaPlace, checkpoint_every: int) -> None:
        self.me = me
        self.object = object_
        self._place = place
        self._core: ReplicaCore = new_core(
            object_,
            commands_of(type(object_)),
            dialler().luck.randbytes(16),
            checkpoint_every,
            on_disk=place.stable == "disk",
        )
        self._group: Ordered | None = None
        self._ready = asyncio.Event()  # we have the state, and our side goes on
        self._ended: RostraError | None = None
        self._reader: asyncio.Task[None] | None = None
        self._others: asyncio.TimerHandle | None = None  # until when we wait for replicas that may have more
        self._sending: set[asyncio.Task[None]] = set()
        self._next = 1
        self._waiting: dict[int, asyncio.Future[CommandOutcome | None]] = {}  # by number, in their order
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX // 2)
        self._applied: list[tuple[int, asyncio.Future[None]]] = []  # who waits for which position
        self._watching: list[asyncio.Future[None]] = []  # who waits for any
        self._streams: list[Stream[ReplicaItem]] = []
        self._tried: set[str] = set()  # commands after which the state was looked at

    @property
    def core(self) -> ReplicaCore:
        return self._core

    @property
    def group(self) -> Ordered | None:
        return self._group

    @property
    def is_current(self) -> bool:
        return self._ready.is_set() and self._ended is None

    # In and out

    async def begin(self, deadline_s: float | None) -> None:
        self.object.snapshot()  # can it be given to a joiner at all?
        what = f"{self.me.endpoint} did not get the state of {self._place.name}"
        async with contextlib.AsyncExitStack() as failed:
            failed.push_async_callback(self.end)
            await within(deadline_s, self._begin(), what)
            failed.pop_all()

    async def _begin(self) -> None:
        self._group = await self._join()
        self._reader = asyncio.create_task(self._live())
        await self._until_ready()
        self.object._replication = self

    async def _join(self) -> Ordered:
        place = self._place
        return await self.me.join(
            place.name,
            place.scope,
            membership=place.membership,
            delivery="atomic",
            survive=place.survive,
            stable=place.stable,
            meta=place.meta,
        )

    async def end(self) -> None:
        reason = NotMember(f"{self._place.name} is no longer replicated here", fix="replicate it again")
        self._end(reason)
        for task in (*self._sending, *((self._reader,) if self._reader else ())):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._group is not None:
            await self._group.close()

    def _end(self, reason: RostraError) -> None:
        if self._others is not None:
            self._others.cancel()
        if self._ended is None:
            self._ended = reason
            for stream in self._streams:
                stream.end(None if isinstance(reason, NotMember) else reason)
            self._give_up()
            self._ready.set()

    def _give_up(self) -> None:
        """Commands on their way are to be sent again, or to learn that there is no way."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(None)
        applied, self._applied = self._applied, []
        _wake_all([waits for _, waits in applied])
        self.wake()

    async def _until_ready(self) -> Ordered:
        await self._ready.wait()
        if self._ended is not None:
            raise again(self._ended)
        assert self._group is not None
        return self._group

    # Commands

    async def call(self, signature: Signature, args: Any, kwargs: Any) -> Any:
        data = signature.encode(args, kwargs)
        async with self._room:
            number, self._next = self._next, self._next + 1
            since = self._core.log.position
            self._waiting[number] = asyncio.get_running_loop().create_future()
            try:
                outcome = await self._outcome(number, since, signature.name, data)
            finally:
                del self._waiting[number]
        if signature.name not in self._tried:
            # A state that no joiner could read is found in the first test, and not on the day of a join.
            self._tried.add(signature.name)
            self.object.snapshot()
        return signature.result(outcome)

    async def _outcome(self, number: int, since: int, name: str, data: bytes) -> CommandOutcome:
        session = self._core.session
        while True:
            group = await self._until_ready()
            known = self._core.log.outcome(session, number)
            if known is not None:
                return known
            waiting = self._waiting[number]
            if waiting.done():
                waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
            acked = next(iter(self._waiting)) - 1
            try:
                await group.send(encode_command(CommandAsked(session, number, acked, since, name, data)))
                outcome = await waiting
            except _TRY_AGAIN:
                await asyncio.sleep(AGAIN_S)
                outcome = waiting.result() if waiting.done() else None
            if outcome is not None:
                return outcome

    async def fresh(self) -> None:
        while True:
            group = await self._until_ready()
            core = self._core
            try:
                receipt = await group.send(core.barrier())
            except _TRY_AGAIN:
                await asyncio.sleep(AGAIN_S)
                continue
            place = core.place(receipt.position)
            if group is self._group and core.log.position < place:
                waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._applied.append((place, waits))
                await waits
            if group is self._group and core.log.position >= place:
                return

    async def changed(self) -> None:
        if self._ended is not None:
            raise again(self._ended)
        waits: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching.append(waits)
        await waits

    def items(self) -> "Stream[ReplicaItem]":
        stream: Stream[ReplicaItem] = Stream(lambda missed: ())
        if self._group is not None and self._group.view is not None:
            stream.put(self._group.view)
        self._streams.append(stream)
        return stream

    # What is delivered

    async def _live(self) -> None:
        try:
            while True:
                assert self._group is not None
                try:
                    async for item in self._group.items(batch=BATCH):
                        self._take(item)
                    return
                except Excluded:
                    self._lose()
                await self._come_back()
        except RostraError as reason:
            self._end(reason)
            if self._group is not None:  # or the others would wait for what we shall never have
                await self._group.close()
        except Exception as error:
            what = f"our replica of {self._place.name} failed: {error!r}"
            self._end(RostraError(what, fix="report it with the log; replicate a new object to go on"))
            raise

    async def _come_back(self) -> None:
        self._core.left()
        while True:
            try:
                self._group = await self._join()
                return
            except RostraError as refusal:
                if not refusal.retriable:
                    raise
            await asyncio.sleep(AGAIN_S)

    def _lose(self) -> None:
        self._ready.clear()
        self._give_up()

    def _take(self, item: object) -> None:
        core = self._core
        match item:
            case Messages(sender, _, bodies, _, position):
                for nth, body in enumerate(bodies):
                    self._act(core.delivered(sender, position + nth, body))
                self.wake()
            case Message(sender, body):
                self._act(core.delivered(sender, item.position, body))
                self.wake()
            case View():
                self._act(core.viewed(self.me.endpoint, item))
                self._tell(item)
                self.wake()
            case Blocked(because=because):
                if because == AGENT_LOST and core.on_disk:
                    core.left()  # and what was kept comes before the next view
                self._lose()
                self._tell(item)
                return
        if core.has_state and core.is_saved and not self._ready.is_set():
            self._give_up()
            self._ready.set()
        self._watch_for_others()

    def _watch_for_others(self) -> None:
        if not self._core.is_not_sure:
            if self._others is not None:
                self._others.cancel()
                self._others = None
        elif self._others is None:
            self._others = asyncio.get_running_loop().call_later(OTHERS_S, self._give_others_up)

    def _give_others_up(self) -> None:
        if self._core.is_not_sure and self._group is not None:
            self._end(self._state_lost(NOT_SURE))
            self._do(self._group.close())

    def wake(self) -> None:
        position = self._core.log.position
        while self._applied and self._applied[0][0] <= position:
            _wake_all([self._applied.pop(0)[1]])
        watching, self._watching = self._watching, []
        _wake_all(watching)

    def _act(self, acts: list[ReplicaAct]) -> None:
        for act in acts:
            match act:
                case CommandAnswered(number, outcome):
                    waiting = self._waiting.get(number)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(outcome)
                case SendInOrder(payloads):
                    self._do(self._send(payloads))
                case ReplicaDiverged():
                    self._tell(act)
                case StateLost(why):
                    raise self._state_lost(why)
                case StateSaved(position):
                    self._do(self._forget(position))

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(what)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _state_lost(self, why: str) -> RostraError:
        return Unreachable(f"{self._place.name}: {why}", fix="replicate it again")

    def _tell(self, item: ReplicaItem) -> None:
        for stream in self._streams:
            stream.put(item)

    async def _forget(self, position: int) -> None:
        group = self._group
        assert group is not None
        with contextlib.suppress(RostraError):
            await group.forget(position)

    async def _send(self, payloads: tuple[bytes, ...]) -> None:
        """State for a joiner, or a digest. If we are put out, another member does it."""
        group = self._group
        assert group is not None
        with contextlib.suppress(RostraError):
            await group.send_many(payloads)


def _wake_all(waiting: list[asyncio.Future[None]]) -> None:
    for waits in waiting:
        if not waits.done():
            waits.set_result(None)


class Replicating(Generic[ReplicatedT]):
    """For ``async with``, or ``await``."""

    __slots__ = ("_begin", "_deadline_s", "_object", "_replication")

    def __init__(
        self, begin: Callable[[], Replication], object_: ReplicatedT, deadline_s: float | None
    ) -> None:
        self._begin, self._object, self._deadline_s = begin, object_, deadline_s
        self._replication: Replication | None = None

    def __await__(self) -> Generator[Any, Any, ReplicatedT]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> ReplicatedT:
        if getattr(self._object, "_replication", None) is not None:
            what = f"this {type(self._object).__name__} was replicated already"
            raise BadInput(what, fix="make a new one for each time")
        self._replication = self._begin()
        await self._replication.begin(self._deadline_s)
        return self._object

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._replication is not None
        await self._replication.end()


def replicate(
    me: "Me",
    name: str,
    object_: ReplicatedT,
    scope: str = "world",
    *,
    membership: Membership = "agreed",
    survive: str = SURVIVE,
    stable: StableName = "all",
    meta: bytes = b"",
    checkpoint_every: int = CHECKPOINT_EVERY,
    deadline_s: float | None = None,
) -> Replicating[ReplicatedT]:
    """Keep an object the same at all members of a group: ``async with me.replicate("ledger", Ledger())``.

    The first member's object is the state; who comes later is given it, and `object_` becomes that. `survive`
    says which side of a partition goes on, `stable` what a command that was answered survives. Every
    `checkpoint_every` commands the replicas compare digests of their states.
    """
    given: object = object_
    if isinstance(given, type) and issubclass(given, Replicated):
        raise BadInput(f"{given.__name__} is a class", fix=f"replicate an object of it: {given.__name__}()")
    if not isinstance(object_, Replicated):
        raise BadInput(
            f"{type(object_).__name__} is no Replicated", fix="class Ledger(rostra.Replicated): ..."
        )
    if not isinstance(checkpoint_every, int) or checkpoint_every < 1:
        raise BadInput(f"checkpoint_every={checkpoint_every!r}", fix="use a number of commands from 1 on")
    place = ReplicaPlace(name, scope, survive, stable, meta, membership)
    return Replicating(lambda: Replication(me, object_, place, checkpoint_every), object_, deadline_s)
