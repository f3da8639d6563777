"""What the front needs of its driver: one port for all programs, and one link to each."""

from collections.abc import Callable, Sequence
from enum import IntFlag
from typing import Any, Protocol

from rostra.core.effects import Effect, Event, Instant
from rostra.core.stack import Stack
from rostra.errors import RostraError
from rostra.names import Endpoint, Group
from rostra.protocols.fifo.events import Item
from rostra.protocols.front.messages import Answered, Goodbye, Ping, Pong, Told
from rostra.protocols.relaxed.requests import Denied


class Hold(IntFlag):
    """Why a program is not read."""

    NOT = 0
    FULL = 1  # it does not read what we say to it
    PACE = 2  # the domain does not keep up with what it asks
    TURN = 4  # it has asked more than is looked at in one turn


class Writes(Protocol):
    """Something that writes at the end of the turn."""

    def write(self) -> None: ...


class ProgramLink(Protocol):
    """The connection to one program. It calls the program's session with what arrives, and when its buffer is
    full or drained."""

    @property
    def peer(self) -> str:
        """Where the program is, for people."""

    @property
    def is_open(self) -> bool: ...

    @property
    def unread_bytes(self) -> int:
        """Bytes written that the program has not read yet."""

    def send(self, items: list[Answered | Told]) -> None: ...

    def say(self, word: Ping | Pong | Goodbye) -> None:
        """Send at once, outside the stream of answers and notices."""

    def deliver(self, number: int, group: Group, item: Item) -> None:
        """The next item of a group with delivery, for the endpoint of this number: to be written, after the
        answers and notices of this turn, by `write_deliveries`."""

    def deliver_to_all(self, numbers: Sequence[int], group: Group, item: Item) -> None:
        """The same, for several endpoints of the program."""

    def write_deliveries(self) -> None: ...

    def enters(self) -> None:
        """The program joins a group with delivery: prepare for many messages."""

    def left(self, group: Group) -> None:
        """The program gets no more messages of this group, and must not be able to read any."""

    def take(self, item: Any) -> RostraError | None:
        """Handle a message that is not for the front. Returns what the program did wrong, if it did."""

    def hold(self, why: Hold) -> None:
        """Stop reading from the program, until `release` was called for every reason."""

    def release(self, why: Hold) -> None: ...

    def refuse(self, error: RostraError) -> None:
        """Send the error and close the connection."""

    def close(self, why: str) -> None:
        """Close the connection once everything is written."""

    def abort(self, why: str) -> None:
        """Close the connection at once."""

    def gone(self) -> None:
        """The program, or one of its endpoints, is gone: free what was kept for it."""

    def ended(self) -> None:
        """The last call: the session has ended."""


class FrontPort(Protocol):
    @property
    def now(self) -> Instant: ...

    @property
    def turn(self) -> int:
        """Grows with each turn; the first is 1."""

    @property
    def stack(self) -> Stack:
        """The stack of the node behind the front."""

    @property
    def turn_is_long(self) -> bool:
        """Has this turn no time for work that can wait?"""

    def step(self, event: Event) -> None:
        """Step the node with this event; its effects reach the front before this returns."""

    def report(self, effect: Effect) -> None:
        """Show this to the node's observers."""

    def step_soon(self, event: Event) -> None:
        """The same in the next turn, for use while a program is being written to."""

    def write_at_end_of_turn(self, writer: Writes) -> None: ...

    def at_end_of_turn(self, work: Callable[[], None]) -> None:
        """Do this in this turn; or, if it is long already, in one of the next."""

    def in_next_turn(self, work: Callable[[], None]) -> None: ...

    def reserve_number(self) -> Denied | None:
        """Reserve the number of the next endpoint on disk, so that no later life of this agent uses it again.
        Returns a refusal if the disk has no room."""

    def entered(self, group: Group) -> None:
        """A program enters a group with delivery: the data channel is needed."""

    def luck(self, endpoint: Endpoint, group: Group) -> int:
        """The random seed of a member."""

    @property
    def recorded(self) -> int:
        """The number of the last event that was recorded."""

    def wait_for_news(self, asker: object, at_most_s: float, ask: Callable[[], None]) -> None:
        """Call `ask` when another event is recorded, or when this much time has passed."""

    def inspected(self, document: bytes, after: int) -> bytes:
        """The node's document for `Inspect`, with what only its driver knows."""

    def count(self, thing: str, label: str = "", by: int = 1) -> None: ...

    def note(self, event: str, **values: Any) -> None: ...
