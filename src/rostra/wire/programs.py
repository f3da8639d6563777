"""The frames between a program and its agent, around requests, answers and notices.

    program ── ProgramHello, Asks, Submit, Reading, Ping, Pong, Goodbye ──▶ agent      FrameKind.TO_AGENT
    program ◀── ProgramWelcome, Tells, Delivery, Ping, Pong, Goodbye ────── agent      FrameKind.TO_PROGRAM
                                       DeliveryToAll

    program ── Mapped, Returned ──────▶ agent      where both can share memory
    program ◀── Arena, Lent, Retired ── agent

A program opens one connection, sends `ProgramHello` and waits for `ProgramWelcome`. From then on each side
writes one frame per turn: any number of `Ask`s one way, of `Answered` and `Told` the other. The reader hands
them out one by one; `Asks` and `Tells` exist on the wire only.

An endpoint is named by its **number**: the incarnation in ``eu.paris.h3/web-1#7`` is unique on its host for
ever, so 7 is enough. `NO_ENDPOINT` takes its place in requests that need none, such as `Open`.

Messages of groups with delivery have frames of their own, beside requests and answers: `Submit` and
`Delivery` carry blocks of many messages, which are forwarded unparsed (`protocols/flow/runs.py`). The
receiver's number stands first in a `Delivery`, so that what follows it is encoded once for all receivers.
What several endpoints of one program get alike, such as a view, is one `DeliveryToAll`, if its hello says
that it takes these.

Programs on the agent's Unix socket may share memory with it: an **arena**, into which the agent writes a
block once for all who receive it. `Lent` says where it is; the program copies the messages out of it and
gives the block back. See `docs/decisions/0022-blocks-are-lent.md`.
"""

from typing import Annotated, Final

from msgspec import Meta

from rostra.names import Domain, Group
from rostra.names.checks import NUMBER_MAX, Duration, Moment, Natural, check_path_if_any
from rostra.protocols.agreed.calls import GroupTerminated, MemberAdded, MemberMoved
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.atomic.requests import OrderClosed, OrderedRun, OrderPlaced
from rostra.protocols.fifo.events import (
    Aggregated,
    ChangesTogether,
    Credit,
    Delivered,
    Excluded,
    Gap,
    Joined,
    JoinedTogether,
    Left,
    Only,
    Parted,
    Ready,
    Sent,
    Without,
)
from rostra.protocols.flow.messages import Stream
from rostra.protocols.front.messages import (
    Answered,
    Ask,
    Goodbye,
    Ping,
    Pong,
    ProgramFrame,
    Reading,
    Submit,
    Told,
)

RETURNED_MAX: Final = 65_536
ARENA_BYTES_MAX: Final = 1 << 32
TICKET_BYTES: Final = 16

Positive = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]

AnyGroupItem = (
    Ready
    | Joined
    | Left
    | Delivered
    | Gap
    | Without
    | Only
    | Credit
    | Excluded
    | Parted
    | Sent
    | Aggregated
    | JoinedTogether
    | ChangesTogether
    | MemberView
    | MemberBlocked
    | MemberMoved
    | GroupTerminated
    | MemberAdded
    | OrderedRun
    | OrderPlaced
    | OrderClosed
)
"""Items of a group with delivery, in order."""


class ProgramHello(ProgramFrame, frozen=True, tag=1):
    """The program's name and world. `secret` is the token that the agent asks of remote programs; local ones
    need none."""

    world: str  # ANY_WORLD: the one that the agent is of, which its welcome tells
    program: str  # for people: it appears in logs and in `Inspect`
    secret: str = ""
    to: Annotated[Domain, check_path_if_any] = Domain(
        ""
    )  # which node of the process; none named: its agent, or its lowest server
    shares: bool = False  # this program can read arenas
    # Not to talk, but to fetch the arena that this is for; nothing else follows.
    ticket: Annotated[bytes, Meta(max_length=TICKET_BYTES)] = b""
    takes_for_all: bool = False  # this program can read `DeliveryToAll`


class ProgramWelcome(ProgramFrame, frozen=True, tag=2):
    """The agent's answer: its name and world. Endpoints that the program opens will be on this host."""

    world: str
    path: Domain  # of the agent's host, or of the domain whose server this is
    incarnation: (
        Natural  # of the agent: a program that meets a larger one after a break has lost its endpoints
    )
    silence_s: Duration = 0.0  # say something as often, or be given up; 0: your socket is proof enough


class Asks(ProgramFrame, frozen=True, tag=3):
    asks: tuple[Ask, ...]


class Tells(ProgramFrame, frozen=True, tag=4):
    items: tuple[Answered | Told, ...]


class Delivery(ProgramFrame, frozen=True, tag=10, gc=False):
    """The next item of a group with delivery, for one endpoint."""

    endpoint: Natural
    group: Group
    item: AnyGroupItem


class DeliveryToAll(ProgramFrame, frozen=True, tag=16, gc=False):
    """The same item for each of these endpoints."""

    endpoints: Annotated[tuple[Natural, ...], Meta(min_length=1)]
    group: Group
    item: AnyGroupItem


class Arena(ProgramFrame, frozen=True, tag=11):
    """The agent offers shared memory. A program that presents this ticket on a connection of its own gets a
    file of this many bytes to map."""

    number: Natural  # grows: never the same twice in an agent's life
    size_bytes: Annotated[int, Meta(ge=1, le=ARENA_BYTES_MAX)]
    ticket: Annotated[bytes, Meta(min_length=TICKET_BYTES, max_length=TICKET_BYTES)]
    share: Natural  # so many blocks, and no more, are lent to a program at once: it gives back before


class Lent(ProgramFrame, frozen=True, tag=12, gc=False):
    """The next messages of a stream, as in a `Delivery` of `Delivered`: but their block, as an array that can
    be decoded as it is, stands in an arena, and is the program's until it gives it back."""

    endpoint: Natural
    group: Group
    stream: Stream
    first: Natural
    count: Positive
    at: Moment
    arena: Natural
    begin: Natural  # in bytes, and so are they given back
    size: Positive
    position: Natural = 0  # of the first, where messages have one order


class Retired(ProgramFrame, frozen=True, tag=13):
    """Nothing more is lent from this arena, and nothing of it need be given back."""

    number: Natural


class Mapped(ProgramFrame, frozen=True, tag=14):
    """This arena can be read here from now on."""

    number: Natural


class Returned(ProgramFrame, frozen=True, tag=15):
    """The blocks that begin there are not needed any more: once for each time that they were lent."""

    arena: Natural
    begins: Annotated[tuple[Natural, ...], Meta(min_length=1, max_length=RETURNED_MAX)]


ToAgent = ProgramHello | Asks | Submit | Reading | Ping | Pong | Goodbye | Mapped | Returned
ToProgram = ProgramWelcome | Tells | Delivery | DeliveryToAll | Ping | Pong | Goodbye | Arena | Lent | Retired


AnyFrame = (
    ProgramHello
    | ProgramWelcome
    | Submit
    | Reading
    | Delivery
    | DeliveryToAll
    | Ping
    | Pong
    | Goodbye
    | Arena
    | Lent
    | Retired
    | Mapped
    | Returned
)
"""What is one thing in a frame of its own; `Asks` and `Tells` are many."""
