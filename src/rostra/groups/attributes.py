"""The typed attributes that a service adds to a member's record."""

from enum import Enum
from typing import Annotated, Final

from msgspec import Meta, Struct

NUMBER_MAX: Final = 2**62
Number = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
"""Adding to it, comparing it and sending it on are safe."""

ADDRESS_LENGTH_MAX: Final = 512

PROOF_BYTES_MAX: Final = 4_096
"""Of a proof with its chain. One by an installed authority takes about 100 bytes."""


class Role(Enum):
    """What a member does in the group (X-052)."""

    SEND = "send"
    RECEIVE = "receive"
    BOTH = "both"
    SUBMIT = "submit"  # no member: its delegate speaks for it

    def __init__(self, word: str) -> None:
        # Plain attributes: they are read for every member of a list, and enumerations look things up slowly.
        self.sends: bool = word != "receive"
        self.receives: bool = word in ("both", "receive")


class Slow(Enum):
    """What becomes of a receiver that does not keep up (X-091)."""

    THROTTLE = "throttle"  # the senders wait for it
    EXPEL = "expel"  # it is removed, and has to join again
    SPILL = "spill"  # its delegate keeps on disk what it has not taken; if that is full, as above


class Attributes(Struct, frozen=True, array_like=True, tag_field="kind"):
    pass


class FifoAttributes(Attributes, frozen=True, tag=1, gc=False):
    """Attributes of a member of a group with FIFO multicast: its role, and the number of its next message."""

    role: Role
    next_seq: Number
    slow: Slow = Slow.THROTTLE


class DelegateAttributes(Attributes, frozen=True, tag=2, gc=False):
    """Attributes of the delegate of a LAN in such a group. Its epoch is the incarnation of its endpoint."""

    address: Annotated[str, Meta(max_length=ADDRESS_LENGTH_MAX)] = ""  # its data channel; "": by its name


class ProofAttributes(Attributes, frozen=True, tag=64, gc=False):
    """Attributes of a member of a group with a restricted name: what its authority signed
    (`protocols/access`)."""

    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)]


class ProvenFifoAttributes(FifoAttributes, frozen=True, tag=65, gc=False, kw_only=True):
    """Both: of a member of a group with FIFO multicast and a restricted name."""

    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)]


class DoubtAttributes(Attributes, frozen=True, tag=48, gc=False):
    """Attributes of a member on the list of a led group whose agent became unreachable a moment ago (S-063);
    and its proof, if it has one."""

    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)] = b""


AnyAttributes = FifoAttributes | DelegateAttributes | ProofAttributes | ProvenFifoAttributes | DoubtAttributes


def proven(attributes: AnyAttributes | None, proof: bytes) -> ProofAttributes | ProvenFifoAttributes:
    """A member's attributes with this proof, which is its newest."""
    if isinstance(attributes, FifoAttributes):
        return ProvenFifoAttributes(attributes.role, attributes.next_seq, attributes.slow, proof=proof)
    return ProofAttributes(proof)
