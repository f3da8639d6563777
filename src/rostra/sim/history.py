"""What happened in a world, written down as it happened.

A history is a plain list of these records, in order. Some are the **truth**, which only an all-seeing
observer has: which server ran, which line was cut, who was in which group. The others are what was
**reported**: what a link's detector found, and the notices and answers that programs got. Checkers compare
the two.

Records are frozen, flat and self-contained, so the same types can come out of a journal on disk as out of the
simulator's memory.
"""

from typing import Literal

from msgspec import Struct

from rostra.core.effects import Instant, LinkDown, LinkMoved, LinkUp
from rostra.core.observer import Reporter, Seen
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.fifo.events import Item
from rostra.protocols.flow.messages import Run
from rostra.protocols.links.events import Suspected, Trusted
from rostra.protocols.relaxed.requests import AnyAnswer, AnyNotice, AnyRequest


class HistoryRecord(Struct, frozen=True, tag_field="record"):
    at: float  # seconds since the world began
    number: int  # place in the history: orders records of one instant


# The truth


class WorldMade(HistoryRecord, frozen=True, tag="world-made"):
    hosts: tuple[Domain, ...]


class ServerChanged(HistoryRecord, frozen=True, tag="server"):
    """A crash of a host's agent is a crash of the host: its programs die with it (C-022)."""

    server: Domain
    change: Literal["started", "crashed", "paused", "continued"]


class LineChanged(HistoryRecord, frozen=True, tag="line"):
    """One direction of a link stopped or began to carry packets."""

    sender: Domain
    to: Domain
    change: Literal["cut", "healed"]


class DataChanged(HistoryRecord, frozen=True, tag="data"):
    """Ways of the data channel became bad, or good again. `where`: as the fault named it; empty: all."""

    where: str
    what: Literal["cut", "loss", "delay", "rate", "quality"]
    bad: bool


class MembershipChanged(HistoryRecord, frozen=True, tag="membership"):
    """An agent accepted a join or a leave, or a program died."""

    endpoint: Endpoint
    group: Group
    change: Literal["joined", "left", "crashed"]


class FollowingChanged(HistoryRecord, frozen=True, tag="following"):
    """From now on an endpoint gets a group's changes (as online member or watcher), or no
    longer."""

    endpoint: Endpoint
    group: Group
    follows: bool


class FifoStateChanged(HistoryRecord, frozen=True, tag="talk"):
    """As `MembershipChanged`, in a group with `delivery="fifo"`. Apart from it, because such a group has
    members that are no programs: the delegates. And whether a program reads."""

    endpoint: Endpoint
    group: Group
    change: Literal["joined", "left", "crashed", "paused", "resumed"]


class SubmissionRecord(HistoryRecord, frozen=True, tag="said"):
    """A program handed over messages; the run's numbers are those of its stream."""

    endpoint: Endpoint
    group: Group
    run: Run


class Settled(HistoryRecord, frozen=True, tag="settled"):
    """Nothing was in flight, and nothing had changed for long enough: promises due at stability are due
    now."""


# What was reported


Change = Literal["up", "down", "moved", "suspected", "trusted"]


class Detected(HistoryRecord, frozen=True, tag="detected"):
    """What the detector of a server's link reported about a neighbour."""

    server: Domain
    peer: Domain
    change: Change
    because: Because | None = None


class NoticeRecord(HistoryRecord, frozen=True, tag="told"):
    endpoint: Endpoint
    notice: AnyNotice


class DeliveryRecord(HistoryRecord, frozen=True, tag="handed"):
    """An item that a program got from a group with delivery."""

    endpoint: Endpoint
    group: Group
    item: Item


class AnswerRecord(HistoryRecord, frozen=True, tag="answered"):
    endpoint: Endpoint
    request: AnyRequest
    result: AnyAnswer
    asked_at: float


AnyRecord = (
    WorldMade
    | ServerChanged
    | LineChanged
    | DataChanged
    | MembershipChanged
    | FollowingChanged
    | FifoStateChanged
    | SubmissionRecord
    | Settled
    | Detected
    | NoticeRecord
    | DeliveryRecord
    | AnswerRecord
)

History = list[AnyRecord]


class Detections(Reporter):
    """Writes down what the detectors of links report."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.shows = dict.fromkeys((LinkUp, LinkMoved, LinkDown, Suspected, Trusted), self._detected)

    def _detected(self, now: Instant, server: Domain, link: Seen) -> None:
        match link:
            case LinkUp(peer):
                self._write(now, server, peer, "up")
            case LinkMoved(peer):
                self._write(now, server, peer, "moved")
            case LinkDown(peer, because):
                self._write(now, server, peer, "down", because)
            case Suspected(peer):
                self._write(now, server, peer, "suspected")
            case Trusted(peer):
                self._write(now, server, peer, "trusted")

    def _write(
        self, now: Instant, server: Domain, peer: Domain, change: Change, because: Because | None = None
    ) -> None:
        self._history.append(Detected(now, len(self._history), server, peer, change, because))
