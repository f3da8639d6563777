"""Events and effects of FIFO multicast, besides those that every core shares.

    driver ── JoinAsked, LeaveAsked, Submitted, Paused, Resumed, Heard, TimerFired ──▶ HostCore, ClusterCore
    driver ◀── Deliver, Cast, Transmit, Broadcast, Located, Tuned, SetTimer, Ignored, Noted ── both

    disk ── Spilled, SpilledRead ──────────────────────────────────────────────────────────────▶ ClusterCore
    disk ◀── Spill, ReadSpilled, ForgetSpilled ───────────────────────────────────────────────── ClusterCore

A **member** is one endpoint of this host in one group; its machine runs in the host's agent (`HostCore`). The
**delegate** runs in the cluster's domain server (`ClusterCore`).
"""

from typing import Any, Final

from msgspec import Struct

from rostra.core.effects import Effect, Event, Observation
from rostra.core.stack import ServiceName
from rostra.groups.attributes import Role, Slow
from rostra.groups.kinds import FIFO, GroupKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.fifo.messages import Channel, Mirror, MirrorAsked, Whereabouts
from rostra.protocols.flow.messages import AnyDataMessage, Run, Stream
from rostra.protocols.relaxed.requests import Denied, Done

# Events from programs


class JoinAsked(Event, frozen=True):
    """A program joins a group to send and receive. Answered once, with `Done` or `Denied`, under `token`."""

    endpoint: Endpoint
    token: int
    group: Group
    luck: int  # all chance that this membership will ever need grows from this number
    role: Role = Role.BOTH
    slow: Slow = Slow.THROTTLE
    meta: bytes = b""
    group_kind: GroupKind = FIFO


class LeaveAsked(Event, frozen=True):
    """Answered once, with `Done`, before the leave is over: the last messages may still be on their way, and
    `Parted` follows when they are not."""

    endpoint: Endpoint
    token: int
    group: Group


class Submitted(Event, frozen=True):
    """A program submits messages: `count` payloads in one block. At most as many as `Credit` allowed."""

    endpoint: Endpoint
    group: Group
    count: int
    block: bytes
    at: float = 0.0


class Paused(Event, frozen=True):
    """A program does not read fast enough: buffer until `Resumed`. In the end senders are blocked (X-090)."""

    endpoint: Endpoint
    group: Group


class Resumed(Event, frozen=True):
    endpoint: Endpoint
    group: Group


# Between the core of a host or cluster and its state machines


class Noticed(Event, frozen=True):
    """A notice for this endpoint from the membership service, or its answer to `Resolve`."""

    notice: Any


class JoinRefused(Event, frozen=True):
    """The membership service refused the join."""

    denied: Denied


class AskMembership(Effect, frozen=True):
    """A request to the membership service, in the name of this machine's endpoint."""

    request: Any


# Between this service and that of led membership, whose groups are spoken in without a gate

LIST_KEEPER: Final = ServiceName[Any]("led agent")
"""The service that keeps the leader's list, which has those who speak in a led group (S-088)."""


class SpeakerCame(Event, frozen=True):
    """The directory has this member of a led group: it belongs on the leader's list."""

    endpoint: Endpoint
    group: Group
    meta: bytes


class SpeakerWent(Event, frozen=True):
    endpoint: Endpoint
    group: Group


# Between this service and that of agreed membership, whose groups are spoken in as well: see `gated.py`


class StreamsWanted(Effect, frozen=True):
    """A member of an agreed group is to send and receive: claim its kind, list it, and pin every stream for
    it. Answered once, by `StreamsAnswered` to the service `asker`."""

    asker: ServiceName[Any]
    endpoint: Endpoint
    group: Group
    group_kind: GroupKind
    luck: int
    role: Role = Role.BOTH
    slow: Slow = Slow.THROTTLE
    meta: bytes = b""


class StreamsUnwanted(Effect, frozen=True):
    """The member has left the agreed group, or will not join it: its streams end."""

    endpoint: Endpoint
    group: Group


class ViewGiven(Effect, frozen=True):
    """The program was given this view in this step: its members, or how they differ from those before."""

    endpoint: Endpoint
    group: Group
    number: int
    members: tuple[Endpoint, ...] | None
    joined: tuple[Endpoint, ...] = ()
    gone: tuple[Endpoint, ...] = ()
    may_send: bool = True


class SendingStopped(Effect, frozen=True):
    """These members have no living view: nothing that they send leaves the host until `ViewGiven`."""

    group: Group
    endpoints: tuple[Endpoint, ...]


class StreamsAnswered(Event, frozen=True):
    """`Done`: from now on no message of any stream is missed. Or why the member cannot join."""

    endpoint: Endpoint
    group: Group
    result: Done | Denied


class StreamsLost(Event, frozen=True):
    """The member was expelled because it did not keep up."""

    endpoint: Endpoint
    group: Group


# Events from the network


class Heard(Event, frozen=True):
    """The messages of one datagram, from a host's agent or from the delegate of a LAN."""

    group: Group
    source: Domain
    messages: tuple[AnyDataMessage, ...]


# Replicas of a cluster's server


class MirrorReplicated(Event, frozen=True):
    """From another replica of this cluster's server: a `Mirror`, or the request for a whole one."""

    group: Group
    message: Mirror | MirrorAsked


class Appointed(Event, frozen=True):
    """The replicas elected this one: it is active now, with an epoch above all before (X-100)."""

    epoch: int


class Replicate(Effect, frozen=True):
    """Send this to the other replicas of this cluster's server, in order."""

    group: Group
    message: Mirror | MirrorAsked


# The disk of a delegate


class Spill(Effect, frozen=True):
    """Keep these runs of a slow receiver's backlog, behind what it has. Answered once, by `Spilled`, in the
    order in which it was asked; so is `ReadSpilled`."""

    group: Group
    backlog: int  # its number; the first runs make it
    runs: tuple[Run, ...]


class ReadSpilled(Effect, frozen=True):
    """Read a backlog from `first` on: nothing from `end` on, and no more runs than it takes to have so many
    bytes. Answered by `SpilledRead`."""

    group: Group
    backlog: int
    first: int
    end: int
    bytes_max: int


class ForgetSpilled(Effect, frozen=True):
    """Delete what this backlog has below that number; without a number, all of it."""

    group: Group
    backlog: int
    below: int | None = None


class Spilled(Event, frozen=True):
    """The runs are on disk; or they are not, and `why` says why not."""

    group: Group
    backlog: int
    why: str = ""


class SpilledRead(Event, frozen=True):
    """What was asked for, in order and without a hole; nothing, and why, if it cannot be read."""

    group: Group
    backlog: int
    runs: tuple[Run, ...]
    why: str = ""


# Effects for programs


class Item(Struct, frozen=True, array_like=True, tag_field="kind"):
    """What is delivered to a program about a group, in order."""


class Ready(Item, frozen=True, tag=1):
    """The first list of all members. From now on changes are delivered."""

    members: tuple[tuple[Endpoint, Role, bytes], ...]


class Joined(Item, frozen=True, tag=2):
    """A member joined, or is back; `resumed` if nothing of its stream was missed meanwhile (X-064)."""

    endpoint: Endpoint
    role: Role
    meta: bytes = b""
    resumed: bool = False


class Left(Item, frozen=True, tag=3):
    """`last` is the last number delivered of its stream, None if it had none. `why`: left | failed |
    disconnected."""

    endpoint: Endpoint
    why: str
    last: int | None


class Delivered(Item, frozen=True, tag=4, gc=False):
    """The next messages of a stream. Programs split the block themselves."""

    stream: Stream
    run: Run


class Gap(Item, frozen=True, tag=5):
    """These numbers will not come. They were sent during a partition and never owed to us: then `Joined`
    follows (X-064). Or they were owed to us, and no holder is left: then the stream goes on (TX-13)."""

    endpoint: Endpoint
    first: int
    last: int


class Without(Item, frozen=True, tag=6):
    domain: Domain
    because: Because | None = None


class Only(Item, frozen=True, tag=7):
    domain: Domain
    because: Because | None = None


class Credit(Item, frozen=True, tag=8):
    """In all, this many messages may be submitted since the join. Grows; the first one follows the join."""

    upto: int


class Excluded(Item, frozen=True, tag=9):
    """We were expelled from the group."""

    reason: str
    fix: str = ""  # what to do instead of joining it again


class Parted(Item, frozen=True, tag=10):
    """The leave is over. The last `unconfirmed` messages were not acknowledged; `unsent` were never
    emitted."""

    unconfirmed: int = 0
    unsent: int = 0


class Sent(Item, frozen=True, tag=11):
    """Every receiver has our own messages up to this number."""

    stable: int


class Aggregated(Item, frozen=True, tag=12, gc=False):
    """The next messages of a submitter, with its own numbers, as the aggregate `by` of its LAN emitted them
    (X-055). Each number comes once and in order, whichever aggregate brings it."""

    origin: Stream
    run: Run
    by: Stream


class JoinedTogether(Item, frozen=True, tag=13):
    """Several joined at once, each as in `Joined`, none of them back from a partition."""

    members: tuple[tuple[Endpoint, Role, bytes], ...]


class ChangesTogether(Item, frozen=True, tag=14):
    """Several changes at once, in this order: members that were lost with a domain, or are back."""

    items: tuple[Joined | Left | Gap, ...]


class Deliver(Effect, frozen=True, gc=False):
    """Deliver an item to a program, in the order of effects."""

    endpoint: Endpoint
    group: Group
    item: Item


class DeliverAll(Effect, frozen=True, gc=False):
    """Deliver one item to these members of this host, in the order of effects. It is encoded once."""

    endpoints: tuple[Endpoint, ...]
    group: Group
    item: Item


# Effects for the network


class Cast(Effect, frozen=True, gc=False):
    """Multicast this in our LAN: to every other host in it and to its delegate, as the LAN's channel does it.
    Members on the same host have received it already."""

    group: Group
    message: AnyDataMessage


class Transmit(Effect, frozen=True, gc=False):
    """Send this to one host's agent, or to one LAN's delegate."""

    to: Domain
    group: Group
    message: AnyDataMessage


class Broadcast(Effect, frozen=True, gc=False):
    """Send this to the delegates of these LANs: with one datagram, as far as the network carries it to all of
    them (X-108)."""

    to: tuple[Domain, ...]
    group: Group
    message: AnyDataMessage


class Located(Effect, frozen=True):
    """From now on the data channel of this LAN's delegate is here."""

    lan: Domain
    where: Whereabouts


class Tuned(Observation, frozen=True):
    """How this LAN's data channel works, from its delegate."""

    group: Group
    channel: Channel
