"""Messages of the data channel: datagrams that may be lost, duplicated and reordered.

    sender ── Data, Heartbeat ──▶ receivers        messages, and the last sequence number
    any holder ◀── Nak ── receiver                 a request for retransmission; Below: it is forgotten here
    delegate ◀── Status ── receiver                acknowledgements; between LANs: Report
    delegate ◀── Polled ── receiver                how much it has of a crashed sender's stream; asked by Poll
    delegate ◀── StartSubmit ── submitter          a sender that is not in the group; answered by SubmitReply
    delegate ── Numbered, Parity ──▶ delegate      forward error correction

**Runs.** Messages travel in runs: consecutive sequence numbers of one stream with their payloads in one
block, encoded once by the sender's program and forwarded unparsed. A block is the concatenation of `count`
MessagePack binaries, so two neighbouring runs join by joining their blocks, a program splits one with a
single call into its decoder, and any holder can cut a run between two messages (`runs.py`).
"""

from typing import Annotated, Final

from msgspec import Meta, Struct

from rostra.groups.attributes import NUMBER_MAX, Number
from rostra.names import Domain, Endpoint, Group
from rostra.names.checks import Moment as Moment
from rostra.names.checks import Natural

Stream = Endpoint
"""All messages of one endpoint in one group. The endpoint holds its incarnation, so numbers never restart
within a stream (TX-11)."""


Incarnation = Natural
"""As large as links let one through: what a delegate learnt of members and sends on must be readable."""

Stamped = tuple[Incarnation, Incarnation]
"""A stamp, as another process sends it."""

Epoch = Incarnation
"""The incarnation of a LAN's active delegate: the number after ``#`` of the delegate's endpoint."""

Seconds = Annotated[float, Meta(ge=0)]
"""Finite or not, but a number."""

Range = tuple[Number, Number]
"""Sequence numbers, or bytes of a message, from the first to the second, both included."""

PARITY_FRAMES_MAX: Final = 1024

RANGES_MAX: Final = 64
"""Ranges in one `Nak`, of numbers and of bytes: as many as fit a datagram."""


Ranges = Annotated[tuple[Range, ...], Meta(max_length=RANGES_MAX)]


class Run(Struct, frozen=True, array_like=True, gc=False):
    """Consecutive messages of one stream."""

    first: Number
    count: Number
    block: bytes
    at: Moment = 0.0  # when the sender's program handed it over, on its own clock; for people
    view: Number = 0  # in groups of agreed membership: the number of the view in which it was sent

    @property
    def end(self) -> int:
        """The number after the last."""
        return self.first + self.count


Have = tuple[tuple[Stream, Number], ...]
"""Per stream the next number that is needed; sorted by stream."""


class ControlMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    group: Group


class ForwardingTree(ControlMessage, frozen=True, tag=8):
    """From the coordinator: which delegates forward data to each other."""

    version: Number
    coordinator: Domain
    links: tuple[tuple[Domain, Domain], ...]


class DataMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    pass


class Data(DataMessage, frozen=True, tag=1, gc=False):
    """A run from its sender, forwarded by a delegate, or retransmitted by any holder (`repair`).

    A message that fits no datagram travels alone in a run, in parts of its block: this one begins with byte
    `offset` of `size`. Without a size the run is whole.
    """

    stream: Stream
    run: Run
    high: Number  # the last number emitted, as far as the source of this datagram knows
    stable: Number  # every receiver has all numbers up to this one
    repair: bool = False
    hop: Number = 0
    offset: Number = 0
    size: Number = 0


class Nak(DataMessage, frozen=True, tag=2):
    """These numbers are missing here. `parts` names the missing bytes of messages that came in part."""

    stream: Stream
    ranges: Ranges
    asker: Domain  # a host, or the LAN whose delegate asks
    attempt: Number = 1
    parts: Annotated[tuple[tuple[Number, Ranges], ...], Meta(max_length=RANGES_MAX)] = ()


class Below(DataMessage, frozen=True, tag=3):
    """The answer to a `Nak` for numbers that are forgotten here: the lowest number still held (TX-13)."""

    stream: Stream
    lowest: Number
    holder: Domain


class Pulse(Struct, frozen=True, array_like=True, gc=False):
    stream: Stream
    high: Number
    stable: Number
    final: bool = False  # `high` is the last number there will ever be


class Heartbeat(DataMessage, frozen=True, tag=4):
    """The last number that was emitted, so that the loss of a last message is detected (X-080)."""

    pulses: tuple[Pulse, ...]
    hop: Number = 0


class Progress(Struct, frozen=True, array_like=True, gc=False):
    """One LAN's entry for one stream: the least `next` over its receivers (X-088)."""

    stream: Stream
    lan: Domain
    epoch: Epoch
    next: Number


class Status(DataMessage, frozen=True, tag=5):
    """Member to its delegate: the next number it needs of each stream."""

    endpoint: Endpoint
    have: Have


class Report(DataMessage, frozen=True, tag=6):
    """Delegate to delegate, towards the streams' homes: entries of LANs, each forwarded unchanged."""

    entries: tuple[Progress, ...]
    hop: Number = 0


class Poll(DataMessage, frozen=True, tag=7):
    """A delegate to its LAN, after the crash of a sender: how far do you have this stream? (X-050)"""

    stream: Stream


class Polled(DataMessage, frozen=True, tag=8):
    stream: Stream
    next: Number


class Parity(DataMessage, frozen=True, tag=9):
    """Forward error correction: one of the two sums of a block of `Data` of one link (X-086)."""

    block: Number  # numbers the blocks of one link
    size: Annotated[int, Meta(ge=1, le=PARITY_FRAMES_MAX)]  # how many frames are in it
    code: bytes
    lengths: tuple[Number, ...]
    which: Annotated[int, Meta(ge=0, le=1)] = 0  # 0: the plain sum; 1: the weighted one


class Numbered(DataMessage, frozen=True, tag=10):
    """A `Data` on a link with forward error correction: which frame of which block it is."""

    block: Number
    index: Number
    data: Data


class StartSubmit(DataMessage, frozen=True, tag=11):
    """A submitter to its delegate: I have messages for this group, from `first` on (X-054)."""

    origin: Endpoint
    req: Number
    since: Annotated[int, Meta(ge=1, le=NUMBER_MAX)]  # its first number of all
    first: Number  # the lowest that was not acknowledged


class SubmitReply(DataMessage, frozen=True, tag=12):
    """Send them. A delegate of a new epoch has nothing of what an earlier one received."""

    origin: Endpoint
    req: Number
    epoch: Epoch


AnyDataMessage = (
    Data
    | Nak
    | Below
    | Heartbeat
    | Status
    | Report
    | Poll
    | Polled
    | Parity
    | Numbered
    | StartSubmit
    | SubmitReply
)
"""Everything that travels on the data channel."""
