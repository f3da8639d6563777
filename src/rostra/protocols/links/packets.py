"""What two ends of a link exchange below the protocols' messages.

A **session** is one end's half of a link epoch: a number that grows each time that end leaves an epoch, and
across restarts. An epoch is a pair of sessions, one of each end. Every packet says the sender's session
(`mine`) and the one it believes the receiver has (`yours`); a packet belongs to the present epoch only if
both are right.

An **incarnation** is the millisecond, since 1970, in which a life of a node began, and the sessions of a life
count up from it. So a number from the future is known to be wrong. It must not be remembered: everything true
that comes later would look old beside it.
"""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rostra.names import Domain
from rostra.names.checks import Natural, check_path_if_any

NOBODY: Final = 0
"""The session of a peer from which nothing has arrived yet."""

SESSIONS_PER_LIFE: Final = 1 << 20
"""Sessions of one incarnation; the next one starts above them all. Incarnations are below 2**43."""

AHEAD_MS_MAX: Final = 24 * 3600 * 1000
"""How far a peer's clock may be ahead of ours. Raising it: what a wrong clock claimed is believed for longer;
lowering it below what clocks are wrong by: nodes that are refused."""

KEY_BYTES_MAX: Final = 64
"""What BLAKE2b takes."""


class Packet(Struct, frozen=True, array_like=True, tag_field="kind"):
    mine: Natural
    yours: Natural


class Hello(Packet, frozen=True, tag=1):
    """The sender's name and numbers: sent when a channel opens, and again until the epoch is agreed."""

    world: str
    path: Domain
    incarnation: Natural
    received: Natural  # the last data packet of this epoch that I have; resume after it
    # Whom I want to reach: one process may serve several domains at one address.
    to: Annotated[Domain, check_path_if_any] = Domain("")
    # A cluster's server to its hosts: what seals their datagrams. The link does not read it.
    key: Annotated[bytes, Meta(max_length=KEY_BYTES_MAX)] = b""
    awaiting: bool = False  # my side has not announced the end of the last epoch: one of us has replicas

    def ahead_ms(self, clock_ms: int) -> int:
        """How far its numbers are ahead of our clock: more than `AHEAD_MS_MAX` cannot be true."""
        newest = max(self.mine, self.yours) // SESSIONS_PER_LIFE
        return max(self.incarnation, newest) - clock_ms


class Data(Packet, frozen=True, tag=2):
    """A numbered batch of messages, handled in order, exactly once."""

    number: Natural
    received: Natural
    messages: tuple[Any, ...]


class Beat(Packet, frozen=True, tag=3):
    """Heartbeat, with an acknowledgement."""

    received: Natural


class Bye(Packet, frozen=True, tag=4):
    """The sender ends this epoch on purpose; the receiver need not wait for silence."""

    why: str


AnyPacket = Hello | Data | Beat | Bye
