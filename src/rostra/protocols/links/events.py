"""Events that a driver gives to a link, and effects and reports that it returns.

    driver ── ChannelOpened, ChannelClosed, PacketArrived, Ticked, BatchSubmitted, Stopped ──▶ link
    driver ◀── Transmit, Suspected, Trusted, Removed, Ignored; LinkUp, LinkDown, Received ── link

`LinkUp`, `LinkDown` and `Received` are reports for the core above, in the order in which it must see them.
"""

from msgspec import Struct

from rostra.core.effects import Effect, Event, Observation
from rostra.core.effects import Ticked as Ticked
from rostra.groups.members import Because
from rostra.names import Domain
from rostra.protocols.links.packets import AnyPacket


class ChannelOpened(Event, frozen=True):
    """There is a way to transmit to the peer again: a connection, or in the simulator the network itself."""

    peer: Domain


class ChannelClosed(Event, frozen=True):
    """The way is gone. Not a failure: the epoch lives on until the detector gives the peer up (C-032)."""

    peer: Domain
    why: str


class PacketArrived(Event, frozen=True):
    peer: Domain
    packet: AnyPacket


class BatchSubmitted(Event, frozen=True):
    """The core above sends these messages to the peer, in this order, as one batch."""

    messages: tuple[object, ...]


class Stopped(Event, frozen=True):
    """This end leaves on purpose. What the peer must still get is acknowledged before: see `Link.drained`."""

    why: str = "shutdown"


class Transmit(Effect, frozen=True):
    to: Domain
    packet: AnyPacket


class LinkEvidence(Struct, frozen=True):
    """What a suspicion rests on. Kept by the accuser, for `rostra why`."""

    accuser: Domain
    accused: Domain
    at: float  # on the accuser's clock
    silence_s: float  # since anything arrived
    expected_s: float  # the usual time between two signs of life, as observed
    phi: float  # accrued suspicion at that moment
    phi_threshold: float
    down_after_s: float
    own_lateness_s: float  # how late our own loop was in the observed window
    channel_open: bool


class Suspected(Observation, frozen=True):
    """The peer is overdue. Shown and counted; no membership is lost yet."""

    peer: Domain
    evidence: LinkEvidence


class Trusted(Observation, frozen=True):
    """A sign of life of a suspected peer came in time."""

    peer: Domain
    after_s: float


class Removed(Observation, frozen=True):
    """The evidence behind a `LinkDown`; reported just before it."""

    because: Because
    evidence: LinkEvidence


class Forgotten(Observation, frozen=True):
    """The link to this child was removed: it was down for long, or another child needs its place."""

    peer: Domain


class Awaited(Observation, frozen=True):
    """The link is down, and not reported yet: the peer has replicas, and one may take over."""

    peer: Domain
    what: str  # as in `Because`
