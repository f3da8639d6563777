"""An event loop on virtual time: it does not wait, the clock jumps.

    callbacks that are ready ──▶ run, at this instant
    none ──▶ what is next: a timer of the program's, or something in the world? Let it be that time now.

Programs run on it unchanged: ``asyncio.sleep(3600)`` returns at once, an hour later. Everything that happens
follows from the seed of the world: the order of callbacks is asyncio's own, and nothing comes from outside.
There are no sockets, threads or processes here; what would need them says so.
"""

import asyncio
import contextvars
import math
from collections.abc import Callable
from typing import Any, NoReturn, Protocol, TypeVar

from rostra.errors import NotAvailable, RostraError
from rostra.transport.dialler import Dialler

T = TypeVar("T")


class DidNotFinish(RostraError, TimeoutError):
    """The world went on for as long as it may, and the program was still waiting for something."""

    code = "DID_NOT_FINISH"


class Clockwork(Protocol):
    """What moves besides the callbacks of the loop: the simulated world."""

    @property
    def now(self) -> float: ...

    @property
    def next_at(self) -> float: ...

    def run_until(self, until: float) -> object: ...


class PretendLoop(asyncio.BaseEventLoop):
    rostra_dialler: Dialler

    def __init__(self) -> None:
        super().__init__()
        self.world: Clockwork = _Empty()
        self.ends_at = math.inf  # nothing may take longer
        self.failures: list[BaseException] = []  # of callbacks, which no task awaits
        self._selector = _Jumps(self)  # BaseEventLoop asks it to wait for input
        self.set_exception_handler(_keep_failure)

    def time(self) -> float:
        return self.world.now

    def jump(self, timeout_s: float | None) -> None:
        """Let the world catch up with this instant; if nothing is ready to run, let the next one come."""
        world = self.world
        world.run_until(world.now)
        if timeout_s == 0 or self._ready:  # type: ignore[attr-defined]
            return
        until = min(world.next_at, math.inf if timeout_s is None else world.now + timeout_s)
        if until > self.ends_at:
            world.run_until(self.ends_at)
            raise DidNotFinish(
                f"at {self.ends_at:g} s the program was still waiting",
                fix="look for an await that never ends, or allow more with at_most_s",
            )
        world.run_until(until)

    # What asyncio wants of a loop

    def _process_events(self, events: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> "asyncio.Future[T]":
        """There are no threads: the function runs at once, and takes no virtual time."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def add_signal_handler(self, sig: int, *_: Any) -> None:  # type: ignore[override]
        """No signals arrive here."""

    def remove_signal_handler(self, sig: int) -> bool:
        return False

    async def create_connection(self, *args: Any, **kwargs: Any) -> NoReturn:
        _no("network connections")

    async def create_server(self, *args: Any, **kwargs: Any) -> NoReturn:
        _no("listening sockets")

    async def create_unix_connection(self, *args: Any, **kwargs: Any) -> NoReturn:
        _no("sockets")

    async def create_unix_server(self, *args: Any, **kwargs: Any) -> NoReturn:
        _no("sockets")

    async def create_datagram_endpoint(self, *args: Any, **kwargs: Any) -> NoReturn:
        _no("datagrams")

    async def subprocess_exec(self, *args: Any, **kwargs: Any) -> NoReturn:
        _no("processes")

    async def subprocess_shell(self, *args: Any, **kwargs: Any) -> NoReturn:
        _no("processes")

    async def getaddrinfo(self, *args: Any, **kwargs: Any) -> NoReturn:
        _no("name servers")


def _keep_failure(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(loop, PretendLoop) and error is not None and ("handle" in context or "protocol" in context):
        loop.failures.append(error)
    else:
        loop.default_exception_handler(context)


class _Jumps:
    """In the place of a selector."""

    def __init__(self, loop: PretendLoop) -> None:
        self._loop = loop

    def select(self, timeout_s: float | None) -> list[Any]:
        self._loop.jump(timeout_s)
        return []


class _Empty:
    """Time passes, and nothing else happens."""

    now = 0.0
    next_at = math.inf

    def run_until(self, until: float) -> None:
        self.now = until


def _no(what: str) -> NoReturn:
    raise NotAvailable(
        f"a pretended world has no {what}", fix="give the program a stand-in, or test this part elsewhere"
    )


HOST: contextvars.ContextVar[str] = contextvars.ContextVar("rostra_host")
"""On which host the program runs that asks; see `World.start`."""
