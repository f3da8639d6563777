"""What a program and its agent say to each other, besides the requests, answers and notices themselves.

    program ── ProgramHello, Asks, Submit, Reading, Ping, Pong, Goodbye ──▶ agent      FrameKind.TO_AGENT
    program ◀── ProgramWelcome, Tells, Delivery, Ping, Pong, Goodbye ────── agent      FrameKind.TO_PROGRAM

A program opens one connection, says `ProgramHello` and waits for `ProgramWelcome`. From then on each side
writes, once per turn, one frame with all it has to say: any number of `Ask`s one way, of `Answered` and
`Told` the other. The reader hands them out one by one; `Asks` and `Tells` exist on the wire only.

An endpoint is named by its **number**: the incarnation in ``eu.paris.h3/web-1#7`` is unique on its host for
ever, so 7 says it all. `NO_ENDPOINT` stands in the place of one in requests that need none, such as `Open`.

What is said in groups with delivery has frames of its own, beside the questions and answers: `Submit` and
`Delivery` carry blocks of many messages that nobody on the way looks into (`protocols/adhoc/runs.py`). The
receiver's number stands first in a `Delivery`, so that what follows it is encoded once for all receivers.
"""

from typing import Final

from msgspec import Struct

from rostra.errors import RostraError
from rostra.names import Domain, Group
from rostra.protocols.adhoc.events import (
    Aggregated,
    Credit,
    Delivered,
    Excluded,
    Gap,
    Joined,
    Left,
    Only,
    Parted,
    Ready,
    Sent,
    Without,
)
from rostra.protocols.adhoc.requests import Enter, Exit
from rostra.protocols.resolve.requests import AnyAnswer, AnyNotice, Denied
from rostra.protocols.resolve.requests import AnyRequest as AnyResolveRequest

NO_ENDPOINT: Final = 0

AnyRequest = AnyResolveRequest | Enter | Exit

AnyGroupItem = (
    Ready | Joined | Left | Delivered | Gap | Without | Only | Credit | Excluded | Parted | Sent | Aggregated
)
"""What a program is told about a group with delivery, in order."""


class ProgramFrame(Struct, frozen=True, array_like=True, tag_field="kind"):
    pass


class ProgramHello(ProgramFrame, frozen=True, tag=1):
    """Who calls, and for which world. `secret` is what the agent asks of remote programs; local ones need
    none."""

    world: str  # ANY_WORLD: the one that the agent is of, which its welcome tells
    program: str  # for people: it appears in logs and in `Inspect`
    secret: str = ""
    to: Domain = Domain("")  # which node of the process; none named: its agent, or its lowest server


class ProgramWelcome(ProgramFrame, frozen=True, tag=2):
    """The agent's answer: whom you reached. Endpoints that you open will be on this host."""

    world: str
    path: Domain  # of the agent's host, or of the domain whose server this is
    incarnation: int  # of the agent: a program that meets a larger one after a break has lost its endpoints
    silence_s: float = (
        0.0  # say something at least this often, or be given up; 0: your socket is proof enough
    )


class Ask(Struct, frozen=True, array_like=True):
    """One request. `token` is the program's own and names the question in `Answered`."""

    token: int
    endpoint: int
    request: AnyRequest


class BadAsk(Struct, frozen=True):
    """What the reader hands out for a request that must be refused without bothering the core: a name that
    breaks the grammar, or a kind of request that this version does not know. Never on the wire."""

    token: int
    endpoint: int
    error: RostraError

    def denial(self) -> Denied:
        """The answer that it gets."""
        return Denied(self.error.code, self.error.what, self.error.fix, self.error.retriable)


class Item(Struct, frozen=True, array_like=True, tag_field="kind"):
    pass


class Answered(Item, frozen=True, tag=1):
    token: int
    answer: AnyAnswer


class Told(Item, frozen=True, tag=2):
    """One notice, for these of the program's endpoints."""

    endpoints: tuple[int, ...]
    notice: AnyNotice


class Asks(ProgramFrame, frozen=True, tag=3):
    asks: tuple[Ask, ...]


class Tells(ProgramFrame, frozen=True, tag=4):
    items: tuple[Answered | Told, ...]


class Ping(ProgramFrame, frozen=True, tag=5):
    """Are you there? Either side may ask; the other answers with the same number."""

    number: int


class Pong(ProgramFrame, frozen=True, tag=6):
    number: int


class Goodbye(ProgramFrame, frozen=True, tag=7):
    """I close this connection on purpose. A program that says it leaves its groups; it did not crash."""

    why: str = ""


class Submit(ProgramFrame, frozen=True, tag=8, gc=False):
    """Messages for a group: `count` payloads in one block, no more in all than the last `Credit` allowed."""

    endpoint: int
    group: Group
    count: int
    block: bytes
    at: float = 0.0  # seconds since 1970 on the sender's clock; for people


class Reading(ProgramFrame, frozen=True, tag=9):
    """May this endpoint be sent more of what is said in the group? A program that has enough unread says no,
    and yes when it has read it; nothing is dropped meanwhile (X-090)."""

    endpoint: int
    group: Group
    more: bool


class Delivery(ProgramFrame, frozen=True, tag=10, gc=False):
    """The next item of a group with delivery, for one endpoint."""

    endpoint: int
    group: Group
    item: AnyGroupItem


ToAgent = ProgramHello | Asks | Submit | Reading | Ping | Pong | Goodbye
ToProgram = ProgramWelcome | Tells | Delivery | Ping | Pong | Goodbye
