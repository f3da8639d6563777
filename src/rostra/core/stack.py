"""A stack: the services of one node, as a list.

    programs ── Asked, JoinAsked, EndpointGone ──▶ ┌─────────┐ ──▶ Answer, Tell, Deliver ── programs
                                                   │ fifo    │   sees the effects of those after it
    data channel ─────────────────────── Heard ──▶ │  │   ▲  │ ──▶ Cast, Transmit ── data channel
                                                   │  ▼   │  │   calls, and gets the effects back
    links ────────── Received, LinkUp, LinkDown ──▶│ relaxed │ ──▶ Send ── links
                                                   └─────────┘

A **service** is a core with a name, such as ``relaxed agent``. The first word is its protocol: the first word
of its timers, and the block of its message numbers (`wire.numbers`).

**Events** are routed to the services that declare their type, in list order: `Received` by the type of the
message, `Asked` by the type of the request, `TimerFired` by the first word of the timer, all others by their
own type. An event that no service takes goes to the last one, which returns `Ignored`.

**Effects** of a service are shown to the services before it in the list that declare one of their types, the
nearest first, before they leave the stack. Each consumes what is for it and passes on the rest. So a delegate
learns of a membership change before all others of its LAN (N7). A service that keeps nothing (`engaged`) is
passed over, unless it must hear the effect even then (`hears_always`): a host pays only for the kinds of
groups that its programs use.

**Calls** happen within the step: a service calls one after it by name, with an event, and gets its effects.
A service may also act as a neighbour of another one (`guest`). Messages from outside in the name of such a
neighbour are ignored.

**Lanes** are fast paths for events that come thousands of times a second: a run from the network, a block
from a program. Only the first service takes these types, so there is no earlier service to show its effects
to; the node passes them directly to it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence, Sized
from math import inf
from typing import Any, ClassVar, Final, Generic, TypeVar, cast

from rostra.core.effects import (
    Asked,
    Effect,
    Event,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Received,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.names import Domain

S = TypeVar("S", bound="Service")


_ALWAYS: Final[Collection[Sized]] = (("always",),)

Hearing = tuple[int, Collection[Sized], Callable[[Instant, Sequence[Effect]], Sequence[Effect]]]
"""The place of a service, its `engaged`, and its `hear`."""


class ServiceName(str, Generic[S]):
    """Names a service in its stack, and tells a type checker what it is."""

    @property
    def protocol(self) -> str:
        return self.partition(" ")[0]


class Service(ABC):
    """A core in a stack: `step` takes events, `hear` the effects of services after it."""

    name: ClassVar[ServiceName[Any]]
    takes: Collection[type] = ()  # kinds of events, of messages and of requests
    lanes: ClassVar[Collection[type]] = ()  # kinds of events that are its alone, and frequent
    hears: ClassVar[Collection[type] | None] = None  # kinds of effects of services after it; None: every kind
    engaged: Collection[Sized] = _ALWAYS  # while all of these tables are empty, it hears nothing
    hears_always: ClassVar[Collection[type]] = ()  # but for these kinds
    guest: Domain | None = None  # the neighbour of another service that it pretends to be
    stack: "Stack"

    @abstractmethod
    def step(self, now: Instant, event: Event) -> Sequence[Effect]: ...

    def begin(self, now: Instant) -> Sequence[Effect]:
        """The first effects, before any event."""
        return ()

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Effects of a service after this one. Returns those that pass, with the effects of what it
        consumed."""
        return effects


class Stack:
    def __init__(self, *services: Service) -> None:
        self.services = services
        self.alarm_at: Instant = inf
        """From this moment on, whatever happens, `TimerFired(alarm)` is first: for a service that must notice
        that time has passed before anything else does. A timer may fire after messages that waited with it,
        if the process stood still."""
        self.alarm: TimerKey = ()
        self._at: dict[str, int] = {}
        self._takers: dict[type | str, tuple[int, ...]] = {}
        for at, service in enumerate(services):
            assert service.name not in self._at, f"two services are called {service.name}"
            service.stack = self
            self._at[service.name] = at
            kinds: list[type | str] = [*service.takes, *service.lanes, service.name.protocol]
            for kind in kinds:
                self._takers[kind] = (*self._takers.get(kind, ()), at)
        for kind in services[0].lanes if services else ():
            assert self._takers[kind] == (0,), f"{kind.__name__} is for {services[0].name} alone"
        self._last = (len(services) - 1,)
        self._simple = {kind: at for kind, at in self._takers.items() if kind not in _ROUTED}
        self.lanes: dict[type, Callable[[Instant, Event], Sequence[Effect]]] = {}
        if services and type(self).step is Stack.step:  # who looks at every step sees these too
            self.lanes = dict.fromkeys(services[0].lanes, services[0].step)
        self._guests = {service.guest for service in services if service.guest is not None}
        hearers = [service for service in services if type(service).hear is not Service.hear]
        self._hearers = [
            [each for each in reversed(hearers) if self._at[each.name] < at] for at in range(len(services))
        ]  # of each service, the nearest first
        self._shown: list[dict[frozenset[type], list[Hearing]]] = [{} for _ in services]  # of those, to whom

    def begin(self, now: Instant) -> list[Effect]:
        return [effect for service in self.services for effect in service.begin(now)]

    def step(self, now: Instant, event: Event) -> Sequence[Effect]:
        if type(event) is Received:  # this and the next are nearly all
            takers = () if event.sender in self._guests else self._takers.get(type(event.message), self._last)
        elif type(event) is Asked:
            takers = self._takers.get(type(event.request), self._last)
        else:
            takers = self._simple.get(type(event)) or self._route(event)
        if not takers:
            return [ignored(event, "a neighbour with the name of our delegate")]
        effects: Sequence[Effect] = ()
        for at in takers:
            ordered = self._show(now, at, -1, self.services[at].step(now, event))
            effects = [*effects, *ordered] if effects else ordered
        return effects

    def call(self, now: Instant, caller: Service, name: ServiceName[Any], event: Event) -> Sequence[Effect]:
        """Step a service within a step of `caller`, and return the effects to it; services between the two
        see them first."""
        at = self._at[name]
        return self._show(now, at, self._at[caller.name], self.services[at].step(now, event))

    def _show(self, now: Instant, at: int, caller: int, effects: Sequence[Effect]) -> Sequence[Effect]:
        """The effects of the service at this place, to those between it and its caller."""
        last = at  # to hear them
        while effects and last:  # there is none before the first
            kinds = frozenset(map(type, effects))
            hearings = self._shown[at].get(kinds)
            if hearings is None:
                hearings = self._hearings(at, kinds)
            for place, engaged, hear in hearings:
                if place <= caller:
                    return effects
                if place < last and any(engaged):
                    left = hear(now, effects)
                    if left is not effects:
                        effects, last = left, place
                        break  # there may be other kinds among them now
            else:
                break
        return effects

    def _hearings(self, at: int, kinds: frozenset[type]) -> list[Hearing]:
        hearings = self._shown[at][kinds] = [
            (self._at[each.name], each.engaged if kinds.isdisjoint(each.hears_always) else _ALWAYS, each.hear)
            for each in self._hearers[at]
            if each.hears is None or not kinds.isdisjoint(each.hears)
        ]
        return hearings

    def __getitem__(self, name: ServiceName[S]) -> S:
        return cast("S", self.services[self._at[name]])

    def __contains__(self, name: ServiceName[Any]) -> bool:
        return name in self._at

    def find(self, name: ServiceName[S]) -> S | None:
        return self[name] if name in self._at else None

    def _route(self, event: Event) -> tuple[int, ...]:
        match event:
            case TimerFired(timer):
                return self._takers.get(str(timer[0]), self._last)
            case LinkUp(peer) | LinkDown(peer) | LinkMoved(peer):
                return () if peer in self._guests else self._takers.get(type(event), self._last)
        return self._last


_ROUTED = frozenset((TimerFired, LinkUp, LinkDown, LinkMoved))
