"""What the machines of one core share during a step: its name, the time, random choices, and the effects."""

from collections.abc import Sequence
from typing import Final

from rostra.core.effects import CancelTimer, Effect, Ignored, Instant, Noted, SetTimer, TimerKey
from rostra.names import Domain, Endpoint, Group, endpoint, host_of, parent
from rostra.protocols.fifo.events import AskMembership, Broadcast, Cast, Deliver, Item, Transmit
from rostra.protocols.fifo.messages import ADHOC, DELEGATE, Control, encode
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.fragments import NO_PARTS, Parts
from rostra.protocols.flow.messages import AnyDataMessage
from rostra.protocols.flow.recovery import Luck
from rostra.protocols.relaxed.requests import AnyRequest, Resolve, SendTo

AGGREGATE: Final = "aggregate"
"""The name of the delegate's endpoint that sends for submitters (`aggregate.py`)."""


_OF_AGGREGATES: Final = f".{DELEGATE}/{AGGREGATE}#"


def lan_of(member: Endpoint) -> Domain:
    """The cluster that this endpoint is in, or whose delegate it is."""
    return parent(host_of(member))


def delegate_host(lan: Domain) -> Domain:
    return Domain(f"{lan}.{DELEGATE}")


def delegate_of(lan: Domain) -> Endpoint:
    """The delegate that is active there now, whatever its epoch (0 stands for that)."""
    return endpoint(delegate_host(lan), ADHOC, 0)


def is_aggregate(speaker: Endpoint) -> bool:
    """Does this sender carry messages of submitters? No host of a program has such a name."""
    return _OF_AGGREGATES in speaker


def timer(group: Group, whose: Endpoint | Domain, what: str, which: str = "") -> TimerKey:
    return ("fifo", group.name, group.scope, whose, what, which)


class StepContext:
    """Group, own name, time and effects of the present step."""

    __slots__ = ("config", "effects", "group", "lan", "luck", "me", "now", "parts")

    def __init__(
        self, group: Group, me: Endpoint, config: FifoConfig, luck: int, parts: Parts = NO_PARTS
    ) -> None:
        self.group = group
        self.me = me
        self.lan = lan_of(me)
        self.config = config
        self.luck = Luck(luck)
        self.now: Instant = 0.0
        self.effects: list[Effect] = []
        self.parts = parts  # of messages that are not whole yet; its service keeps them

    def tell(self, item: Item) -> None:
        self.effects.append(Deliver(self.me, self.group, item))

    def cast(self, message: AnyDataMessage) -> None:
        self.effects.append(Cast(self.group, message))

    def transmit(self, to: Domain, message: AnyDataMessage) -> None:
        self.effects.append(Transmit(to, self.group, message))

    def broadcast(self, to: Sequence[Domain], message: AnyDataMessage) -> None:
        self.effects.append(Broadcast(tuple(to), self.group, message))

    def ask(self, request: AnyRequest) -> None:
        self.effects.append(AskMembership(request))

    def resolve(self) -> None:
        """Ask for the list of members. It comes as `Noticed(Absolute)`."""
        self.ask(Resolve(self.group.name, self.group.scope))

    def say(self, to: Endpoint, message: Control) -> None:
        """A control message, through the servers and in order with the notices (N6)."""
        self.ask(SendTo((to,), encode(message)))

    def set_timer(self, after_s: float, what: str, which: str = "") -> None:
        self.effects.append(SetTimer(self._key(what, which), after_s))

    def cancel_timer(self, what: str, which: str = "") -> None:
        self.effects.append(CancelTimer(self._key(what, which)))

    def ignore(self, what: str, why: str) -> None:
        self.effects.append(Ignored(what, why))

    def note(self, what: str, about: str) -> None:
        self.effects.append(Noted(what, about))

    def _key(self, what: str, which: str) -> TimerKey:
        return timer(self.group, self.me, what, which)


class Alarm:
    """One timer for many due times: it is set again only for an earlier one."""

    __slots__ = ("_context", "_due", "_what")

    def __init__(self, context: StepContext, what: str) -> None:
        self._context, self._what = context, what
        self._due: Instant | None = None

    def at(self, due: Instant | None) -> None:
        if due is not None and (self._due is None or due < self._due - 1e-9):
            self._due = due
            self._context.set_timer(max(0.0, due - self._context.now), self._what)

    @property
    def is_set(self) -> bool:
        return self._due is not None

    def fired(self) -> None:
        self._due = None

    def off(self) -> None:
        if self._due is not None:
            self._due = None
            self._context.cancel_timer(self._what)
