"""Observers: they see every step of a node, and change nothing.

    effects = node.step(now, event)
    observer.saw(now, node, event, effects)      each observer of that node; one place in each driver
    then the driver carries out the effects

Log, journal, recording and trace are observers (`rostra.observe`), and so is the memory behind `rostra why`.

A **reporter** is an observer of single events and effects; `shows` says of which kinds, and how. Drivers pass
it only those, while they carry them out: a step without such an effect costs nothing.

An effect for observers alone is an `Observation`: drivers pass it to the reporters and need not know its
class. A new one is a class of its protocol, and a line in each observer that is to show it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from rostra.core.effects import Effect, Event, Instant, Observation
from rostra.names import Domain

Seen = Event | Effect

Show = Callable[[Instant, Domain, Any], None]
"""When, at which node, what."""

Act = TypeVar("Act")


class Observer(Protocol):
    def saw(self, now: Instant, node: Domain, event: Event, effects: Sequence[Seen]) -> None:
        """One step, before its effects are carried out. If the step failed there are none, and this is the
        last."""


class Reporter:
    shows: Mapping[type, Show]

    def saw(self, now: Instant, node: Domain, event: Event, effects: Sequence[Seen]) -> None:
        for each in (event, *effects):
            if (show := self.shows.get(type(each))) is not None:
                show(now, node, each)


class Reporters:
    """All of one driver."""

    def __init__(self) -> None:
        self.by_kind: dict[type, list[Show]] = {}

    def add(self, reporter: Reporter) -> None:
        for kind, show in reporter.shows.items():
            self.by_kind.setdefault(kind, []).append(show)

    def remove(self, reporter: Reporter) -> None:
        for kind, show in reporter.shows.items():
            self.by_kind[kind].remove(show)

    def __contains__(self, kind: type) -> bool:
        """Is this kind shown by any of them?"""
        return bool(self.by_kind.get(kind))

    def show(self, now: Instant, node: Domain, what: Seen) -> None:
        for show in self.by_kind.get(type(what), ()):
            show(now, node, what)


def with_observations(acts: Mapping[type, Act], report: Act) -> dict[type, Act]:
    """What a driver does with each kind of effect: `report` with observations that it has no act for."""
    return {**dict.fromkeys(_below(Observation), report), **acts}


def _below(kind: type) -> list[type]:
    subclasses: list[type] = kind.__subclasses__()
    return [each for subclass in subclasses for each in (subclass, *_below(subclass))]


# What drivers do to a node beside `step`


class Lifecycle(Event, frozen=True):
    pass


class NodeBegan(Lifecycle, frozen=True):
    pass


class TurnEnded(Lifecycle, frozen=True):
    """`Node.flush`: there is no more input for the moment."""


class NeighbourAdded(Lifecycle, frozen=True):
    peer: Domain


class NeighbourRemoved(Lifecycle, frozen=True):
    peer: Domain


class NodeEnding(Lifecycle, frozen=True):
    why: str


TURN_ENDED: Final = TurnEnded()


# What happened beside the steps of a node, in its front and in its driver


class Beside(Event, frozen=True):
    """In place of an event, where no step was taken. The effects are observations, or orders of the front."""


BESIDE: Final = Beside()


class FramesWritten(Observation, frozen=True):
    peer: Domain
    frames: int
    size: int


class DiskRefused(Observation, frozen=True):
    """A write to the disk failed or was not tried for lack of room. What depends on it is refused, or
    waits."""

    what: str  # from a small fixed set
    why: str


class NodeDropped(Observation, frozen=True):
    """The node ends without sending anything more: another replica leads."""

    why: str
