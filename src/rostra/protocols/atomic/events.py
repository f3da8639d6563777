"""Events and effects of groups whose messages have one order, besides those that every core shares.

programs ── OrderSubmitted ──▶ OrderAgent ── DeliverAll, Deliver ──▶ programs
data channel ── FramesHeard ──▶ OrderAgent ── Transmit ──▶ data channel
"""

from typing import Any, ClassVar

from rostra.core.effects import Effect, Event, Observation, Recallable, RecallNote
from rostra.groups.attributes import Slow
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.atomic.messages import STATION_MESSAGES, AnyStationMessage, ViewKey
from rostra.protocols.fifo.events import Heard
from rostra.protocols.flow.messages import DataMessage


class OrderSubmitted(Event, frozen=True, gc=False):
    """A member submits messages: `count` payloads in one block."""

    recalls: ClassVar = True
    endpoint: Endpoint
    group: Group
    count: int
    block: bytes
    at: float = 0.0


class OrderJoinAsked(Event, frozen=True):
    """A program wants to be a member of a group that decides by its own monitor. Answered once, with `Done`
    or `Denied`, under `token`."""

    endpoint: Endpoint
    token: int
    group: Group
    group_kind: GroupKind
    create: bool = True
    meta: bytes = b""
    slow: Slow = Slow.THROTTLE


class OrderLeaveAsked(Event, frozen=True):
    endpoint: Endpoint
    token: int
    group: Group


class FramesHeard(Event, frozen=True, gc=False):
    """What stations of this group said in one datagram."""

    recalls: ClassVar = True
    group: Group
    source: Domain
    messages: tuple[AnyStationMessage, ...]


def heard(group: Group, source: Domain, messages: tuple[Any, ...]) -> Heard | FramesHeard:
    """A datagram of a group, as an event of the service whose messages are in it."""
    if messages and isinstance(messages[0], STATION_MESSAGES):
        frames: list[Any] = [each for each in messages if isinstance(each, STATION_MESSAGES)]
        return FramesHeard(group, source, tuple(frames))
    flow: list[Any] = [each for each in messages if isinstance(each, DataMessage)]
    return Heard(group, source, tuple(flow))


class HubPost(Effect, frozen=True, gc=False):
    """From one station to another; the agent chooses the way."""

    to: Domain
    group: Group
    message: AnyStationMessage


class StationCast(Effect, frozen=True, gc=False):
    """From one station to all of these: the agent chooses the ways, and sends it once where one is enough."""

    to: tuple[Domain, ...]
    group: Group
    message: AnyStationMessage


class OrderFlushed(Observation, frozen=True):
    """This station orders from now on: with which view it began, at which position, and how many follow."""

    group: Group
    view: ViewKey
    position: int
    stations: int


class ViewPlaced(Observation, frozen=True):
    """A view was given to the members of this host, at this position of the order."""

    group: Group
    view: ViewKey
    position: int
    orderer: Domain | None  # None: the next one is not known yet
    stable: str
    fence: int | None = None


class OrderLeft(Recallable, frozen=True):
    """A member of this host is out. Its messages up to number `placed` have their places, those from
    `reject_from` to `handed` will be delivered by no member, and those between may be."""

    group: Group
    member: Endpoint
    why: str
    by_itself: bool
    placed: int
    reject_from: int
    handed: int

    @property
    def rejected(self) -> int:
        return max(0, self.handed - self.reject_from + 1)

    @property
    def in_doubt(self) -> int:
        return max(0, min(self.handed, self.reject_from - 1) - self.placed)

    def recalled(self) -> RecallNote | None:
        if self.by_itself and not self.rejected and not self.in_doubt:
            return None
        lost = [
            f"{count} of its messages {what}"
            for count, what in (
                (self.rejected, "were rejected: no member delivers them"),
                (self.in_doubt, "are in doubt: other members may deliver them"),
            )
            if count
        ]
        text = f"{'let it leave' if self.by_itself else 'put it out of'} {self.group}: {self.why}"
        return RecallNote("excluded", self.group, (self.member,), "; ".join([text, *lost]))
