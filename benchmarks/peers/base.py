"""What a workload needs of a membership service, and no more.

A `Service` is the servers' side: started and ended by the measurer. A `Program` is a client's side, one per
client process. A workload is written once, in these words, and every peer is measured by the same lines.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, Self

OnChange = Callable[[str, bool], None]
"""Called in a watching member for each change: which member, and has it joined (or gone)?"""


class Service(ABC):
    """One deployment of one peer."""

    name: ClassVar[str]  # a key of `programs()`
    label: str  # as tables print it

    def missing(self) -> str:
        """What this machine lacks to run it, and how to install that; nothing if it can run."""
        return ""

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    def pids(self) -> list[int]:
        """The server processes, whose memory is what a member costs."""

    @abstractmethod
    def door(self, place: int = 0) -> dict[str, Any]:
        """What a program must know to connect. Places are hosts, where the deployment has several."""

    places: int = 1
    keeps_lists: bool = True  # can it say who is in a group?

    def speaks_for(self, place: int) -> tuple[int, ...]:
        """The processes that give a host's sign of life to others; none if each program gives its own."""
        return ()

    def weighed(self) -> dict[str, int]:
        """Which kinds of server process there are, if they are to be weighed apart."""
        return {}

    async def messages_sent(self) -> int | None:
        """Between the nodes of the service since they began, if it counts them."""
        return None

    async def suspected(self) -> str:
        """Does the service show that it doubts somebody's life?"""
        return "no such thing"

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class Program(ABC):
    """A client process of one peer. Member names are short and unique in a run."""

    @abstractmethod
    async def begin(self) -> None: ...

    @abstractmethod
    async def end(self) -> None: ...

    @abstractmethod
    async def prepare(self, name: str) -> None:
        """All that a member needs before it can join and that is not the joining: a name, a connection."""

    @abstractmethod
    async def enter(self, group: str, name: str, on_change: OnChange) -> None:
        """Become a watching member: in the group, and told of every change to it."""

    @abstractmethod
    async def join(self, group: str, name: str) -> None:
        """Become a member that is not told of changes."""

    @abstractmethod
    async def leave(self, group: str, name: str) -> None: ...

    @abstractmethod
    async def members(self, group: str) -> int:
        """Ask who is in the group, as a program that does not follow it; how many there are."""

    async def may_speak(self, group: str, sender: int) -> None:
        """Be ready to send to the group, as sender number so and so."""
        raise NotImplementedError

    async def listen(self, group: str, name: str, senders: int, count: int) -> None:
        """Receive what is sent to the group from now on: so many messages of so many senders, all checked."""
        raise NotImplementedError

    async def take_part(self, group: str, name: str, sender: int, members: int, count: int) -> None:
        """Be a member that sends, as number so and so, and receives what all of them send, in one order."""
        raise NotImplementedError

    def begin_timing(self) -> None:
        """From now on messages are timed."""
        raise NotImplementedError

    def order(self) -> str:
        """A digest of the order in which everything came."""
        raise NotImplementedError

    async def heard(self) -> int:
        """Wait for the last of them; when it came."""
        raise NotImplementedError

    async def speak(self, sender: int, count: int, size: int) -> int:
        """Send so many, as fast as this peer's client can; when the first was sent."""
        raise NotImplementedError

    async def say_timed(self, sender: int, size: int) -> None:
        """Send one message with the present moment in it."""
        raise NotImplementedError

    async def time(self, count: int) -> list[int]:
        """Wait for so many timed messages; how late each was."""
        raise NotImplementedError

    async def follow(self, group: str) -> None:
        """Keep a copy of who is in the group, if this peer's client can."""
        raise NotImplementedError

    async def read_copy(self, group: str, times: int) -> int:
        """Ask the program's own copy so many times; how many members there are."""
        raise NotImplementedError


def nobody(who: str, joined: bool) -> None:
    """An `OnChange` for members whose notices are not looked at."""
