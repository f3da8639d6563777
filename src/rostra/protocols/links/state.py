"""Where a link stands, and what it holds there."""

from collections import deque

from rostra.core.effects import Instant
from rostra.protocols.links.packets import Data


class Apart:
    """No epoch: we say hello, at growing intervals, until a packet echoes our present session."""

    __slots__ = ("backoff_s", "hello_at", "since")

    def __init__(self, hello_at: Instant, backoff_s: float, since: Instant = 0.0) -> None:
        self.hello_at = hello_at
        self.backoff_s = backoff_s
        self.since = since


class Together:
    """One epoch: everything that is numbered, kept and owed in it, and gone with it."""

    __slots__ = (
        "acknowledged",
        "early",
        "flowing",
        "in_flight",
        "numbered",
        "owed",
        "progress_at",
        "queued",
        "queued_bytes",
        "received",
        "resumed_at",
        "sent_at",
        "suspected",
        "waiting",
        "weights",
    )

    def __init__(self, now: Instant, *, flowing: bool) -> None:
        # A new channel carries data only once the peer has acknowledged on it how far it got.
        self.flowing = flowing
        self.suspected = False
        self.sent_at: Instant = now

        self.numbered = 0  # our last data packet
        self.acknowledged = 0  # the last one that the peer has
        self.in_flight: deque[Data] = deque()  # those between, in order
        self.waiting: deque[tuple[object, ...]] = (
            deque()
        )  # not yet packets: no channel, or no room in the window
        self.queued = 0  # messages in both
        self.weights: deque[int] = deque()  # bytes that each packet of both carries, in order
        self.queued_bytes = 0  # their sum
        self.resumed_at: Instant | None = None  # when all in flight was last sent again
        self.progress_at: Instant = now  # when what is in flight last got shorter, or began

        self.received = 0  # the peer's last data packet that was handed up
        self.early: dict[int, Data] = {}  # came before their turn
        self.owed = 0  # messages received since our last acknowledgement


class LinkClosed:
    """We sent `Bye`; this end of the link does nothing any more."""

    __slots__ = ()
