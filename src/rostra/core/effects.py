"""Events and effects that every core shares.

A core has one entry, ``step(now, event) -> effects``. **Events** are things that happened and are named in
the past tense; **effects** are orders to the driver, which performs them in the order of the list. Time comes
in as `now`, waiting goes out as `SetTimer`, randomness comes in as data.

    driver ── Received, LinkUp, LinkDown, LinkMoved, TimerFired, Asked ──▶ core
    driver ◀── Send, Tell, Answer, SetTimer, Persist, Secure, Ignored, Noted ── core

Two drivers exist: `rostra.runtime` over asyncio and `rostra.sim` in virtual time. They run the same cores.
"""

from typing import Any, ClassVar

from msgspec import Struct

from rostra.core.records import KeyedRecord
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group

Instant = float
"""Seconds on the driver's clock: monotonic in the runtime, virtual in the simulator."""

TimerKey = tuple[str | int, ...]
"""Names one timer of one core: what it is for, then which one. Setting it again moves it."""


class Event(Struct, frozen=True):
    """Something that happened."""

    recalls: ClassVar[bool] = False  # may something come of it that its node remembers (`Recallable`)?


class Effect(Struct, frozen=True):
    """An order to the driver."""


class Observation(Effect, frozen=True):
    """An effect for observers (`core/observer.py`) only: drivers have nothing to perform."""


class RecallNote(Struct, frozen=True):
    """What the trail keeps of an observation, for `rostra why`."""

    what: str  # from a small fixed set
    group: Group
    members: tuple[Endpoint, ...]  # whom it concerns; none: all of this host
    text: str


class Recallable(Observation, frozen=True):
    """An observation that the trail keeps for a while, for `rostra why`."""

    def recalled(self) -> RecallNote | None:
        """None if it explains nothing."""
        return None


# Events


class Received(Event, frozen=True):
    """A neighbour's message arrived, once and in order, on a link that is up."""

    recalls: ClassVar = True
    sender: Domain
    message: Any


class LinkUp(Event, frozen=True):
    """A neighbour became reachable: a new epoch of the link began. Alternates with `LinkDown`."""

    recalls: ClassVar = True
    peer: Domain
    incarnation: int


class LinkDown(Event, frozen=True):
    """A neighbour was given up: the epoch ended, on both sides."""

    recalls: ClassVar = True
    peer: Domain
    because: Because


class LinkMoved(Event, frozen=True):
    """A neighbour that was up is still up, in a new epoch: its server has replicas, and one took over from
    another within the grace period (C-162). Messages of either side in between are lost and must be sent
    again; no failure of the neighbour was announced."""

    recalls: ClassVar = True
    peer: Domain
    incarnation: int


class TimerFired(Event, frozen=True):
    recalls: ClassVar = True
    timer: TimerKey


class Ticked(Event, frozen=True):
    """The tick timer fired, `late_s` later than it was due: our own delay, which is not counted as silence of
    peers."""

    late_s: float = 0.0


class Asked(Event, frozen=True):
    """A program asked something on behalf of one of its endpoints. `token` names the question in `Answer`."""

    endpoint: Endpoint
    token: int
    request: Any


class EndpointGone(Event, frozen=True):
    """The program behind a local endpoint died, as the operating system or its closed socket says (C-034)."""

    endpoint: Endpoint
    why: str = ""  # for people
    evidence: Any = None  # of a program that was given up: what that rests on


class Secured(Event, frozen=True):
    """A majority of our replicas has every change up to this version on disk."""

    version: int


class FellBehind(Event, frozen=True):
    """A program read too slowly and lost notices of these groups: it was sent `Gap`, and needs a baseline."""

    endpoint: Endpoint
    groups: tuple[Group, ...]


# Effects


class Send(Effect, frozen=True):
    """Send a message over the link to a neighbour. Only to one whose link is up."""

    to: Domain
    message: Any


class Tell(Effect, frozen=True):
    """Deliver one notice to these endpoints of this host, in the order of effects."""

    endpoints: tuple[Endpoint, ...]
    notice: Any


class Answer(Effect, frozen=True):
    """Answer a program's question. Every `Asked` gets exactly one, unless its endpoint dies first."""

    token: int
    result: Any


class SetTimer(Effect, frozen=True):
    timer: TimerKey
    after_s: float


class CancelTimer(Effect, frozen=True):
    timer: TimerKey


class Persist(Effect, frozen=True):
    """Write this record to stable storage before carrying out the effects that follow it in the list."""

    record: Any


class Secure(Effect, frozen=True):
    """What follows in the list rests on this record: write it to stable storage first. Where our server has
    replicas, the rest waits until a majority of them has written it (`core/secure.py`); if another replica
    leads before, the rest is never carried out."""

    record: KeyedRecord


class Ignored(Observation, frozen=True):
    """Something arrived and changed nothing. It is traced, and counted by `why`."""

    what: str
    why: str  # from a small fixed set: it becomes a metric's label


def ignored(what: object, why: str) -> Ignored:
    """`Ignored`, by the class of a message, event or request."""
    return Ignored(type(what).__name__, why)


class Noted(Observation, frozen=True):
    """An internal event worth a line in the trace and a counter: a row made, a collection closed."""

    what: str  # from a small fixed set
    about: str
