"""A program that sends arbitrary requests to the front of its host's agent.

    Lies ── requests and words of random numbers, names and bytes ──▶ encoder ── reader ──▶ front

It knows the numbers of all endpoints on its host and asks in their name, sends to groups that it is not in,
asks thousands of questions at once, does not read the answers, or answers no pings. When the front
disconnects it, it connects again. Permitted requests are about groups of its own only, and it may not
administer: so nothing that other programs see is its doing.
"""

from random import Random
from typing import Any, Final

from msgspec.structs import replace

from rostra.errors import PeerError, RostraError
from rostra.names import Domain, Group, enclosing, incarnation_of
from rostra.protocols.agreed.requests import JoinAgreed
from rostra.protocols.fifo.events import Item
from rostra.protocols.fifo.requests import Enter
from rostra.protocols.flow.runs import block_of
from rostra.protocols.front.messages import (
    NO_ENDPOINT,
    Answered,
    Ask,
    Goodbye,
    Ping,
    Pong,
    Reading,
    Submit,
    Told,
)
from rostra.protocols.led.requests import JoinLed
from rostra.protocols.relaxed.requests import Join, Open, Opened
from rostra.sim.fronts import SimFront, SimLink
from rostra.sim.lies import NUMBERS, Lies
from rostra.sim.processes import WORLD_NAME
from rostra.sim.world import World
from rostra.wire import Encoder, FrameKind, FrameReader, ProgramHello
from rostra.wire.numbers import REQUESTS

NAME: Final = "evil"
"""What its endpoints are called, and its groups."""

UID: Final = 666
FLOOD: Final = 2_500
"""More than a front looks at in one turn."""


class HostileProgram:
    def __init__(self, luck: Random, world: World, host: Domain, lies: Lies) -> None:
        self.host = host
        self.said = 0
        self.refusals = 0  # how often the front has hung up on it
        self._luck = luck
        self._world = world
        self._lies = lies
        self._encoder = Encoder(WORLD_NAME)
        self._own: list[int] = []  # numbers of its endpoints
        self._token = 0
        self._deaf = False
        self._call()

    def _call(self) -> None:
        """Connect once more."""
        self._own, self._deaf = [], False
        process = self._world.processes[self.host]
        self._link: SimLink = self._world.fronts.connect(process, NAME, self, UID, administers=False)
        self._reader = FrameReader(WORLD_NAME, FrameKind.TO_AGENT)
        self._reader.feed(self._encoder.to_agent(ProgramHello(WORLD_NAME, NAME)))
        self._ask([Ask(self._next(), NO_ENDPOINT, Open(NAME))])

    def _next(self) -> int:
        self._token += 1
        return self._token

    @property
    def front(self) -> SimFront:
        return self._link.front

    def act(self) -> None:
        """One hostile act."""
        if not self._link.is_open:
            self._call()
        match self._luck.choice(("ask", "ask", "ask", "open", "flood", "words", "garbage", "deaf", "silent")):
            case "ask":
                self._ask([self._question() for _ in range(self._luck.choice((1, 5, 50)))])
            case "open":
                for n in range(self._luck.choice((1, 20))):
                    self._ask([Ask(self._next(), NO_ENDPOINT, Open(f"{NAME}-{self._token}-{n}"))])
            case "flood":
                asks = [self._question() for _ in range(20)]
                self._ask([replace(each, token=self._next()) for each in asks * (FLOOD // 20)])
            case "words":
                for _ in range(self._luck.choice((1, 10))):
                    self._send(self._word)
            case "garbage":
                frames = self._encoder.asks([self._question()])
                self._feed(frames[: self._luck.randrange(len(frames))] + self._luck.randbytes(40))
            case "deaf" if not self._deaf:
                self._deaf = True
                self._link.stop_reading()
            case "deaf":
                self._deaf = False
                self._link.read_again()
            case "silent":
                self.front.silent ^= {self._link}

    def end(self) -> None:
        self._link.hang_up()

    # What it says

    def _question(self) -> Ask:
        request = self._lies.struct(self._luck.choice(list(REQUESTS.values())))
        number = self._number()
        if isinstance(request, Join | Enter | JoinAgreed | JoinLed) and number in self._own:
            # It may join what it likes, and would then be seen there: let it be a group of its own.
            scope = self._luck.choice(enclosing(self.host)[1:])
            request = replace(request, group=Group(f"{NAME}-{self._luck.randrange(50)}", scope))
        if isinstance(request, Open):
            request = Open(f"{NAME}-{self._token}")
        return Ask(self._next(), number, request)

    def _number(self) -> int:
        """The number of an endpoint: its own, another program's on this host, or none that exists."""
        others = [
            incarnation_of(each.endpoint)
            for each in self._world.programs
            if each.host == self.host and each.endpoint is not None
        ]
        return self._luck.choice((*self._own[-5:] * 4, *others, NO_ENDPOINT, *NUMBERS))

    def _word(self) -> Any:
        group = self._lies.struct(Group)
        match self._luck.choice(("submit", "submit", "reading", "ping", "pong", "goodbye", "hello")):
            case "submit":
                count = self._luck.choice((1, 3, 65_536))
                return Submit(self._number(), group, count, block_of([b"evil"] * self._luck.choice((1, 3))))
            case "reading":
                return Reading(self._number(), group, self._luck.random() < 0.5)
            case "ping":
                return Ping(self._luck.choice(NUMBERS))
            case "pong":
                return Pong(self._luck.choice(NUMBERS))
            case "goodbye":
                return Goodbye("evil")
        return ProgramHello(WORLD_NAME, NAME)

    def _ask(self, asks: list[Ask]) -> None:
        try:
            frames = self._encoder.asks(asks)
        except (RostraError, ValueError, TypeError, OverflowError):
            return  # it cannot even be written down
        self._feed(frames)

    def _send(self, make: Any) -> None:
        try:
            frame = self._encoder.to_agent(make())
        except (RostraError, ValueError, TypeError, OverflowError):
            return
        finally:
            self._encoder.turn_ends()
        self._feed(frame)

    def _feed(self, frames: bytes) -> None:
        """Through the reader of a real connection; what that refuses ends it."""
        if not self._link.is_open:
            return
        self.said += 1
        items = self._reader.feed(frames)
        error = items.pop() if items and isinstance(items[-1], PeerError) else None
        if items:
            self._link.say_to_front(*items)
        if isinstance(error, RostraError):
            self._link.refuse(error)

    # What it receives

    def take(self, item: Answered | Told) -> None:
        if isinstance(item, Answered) and isinstance(item.answer, Opened):
            self._own.append(incarnation_of(item.answer.endpoint))

    def heard(self, group: Group, item: Item) -> None: ...

    def disconnected(self, why: str) -> None:
        self.refusals += 1
