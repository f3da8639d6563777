"""The kind of a group: the guarantees that its members get.

    membership   relaxed   eventually consistent member lists, with the cause of each change
                 led       one leader in each partition knows the whole list
                 agreed    numbered, ranked views, the same for all in one partition
    delivery     none      membership only, no messages
                 fifo      each sender's messages in order, without a gap
                 atomic    all messages in one order, at all surviving members or at none

The kind belongs to the group: its first member chooses it, and a joiner that asks for another one is refused.
It travels in its own field beside each member; a program's attachment (`meta`) is opaque to agents and
servers.
"""

from enum import Enum
from typing import Annotated, Final

from msgspec import Meta, Struct


class MembershipKind(Enum):
    RELAXED = "relaxed"
    LED = "led"
    AGREED = "agreed"


class DeliveryKind(Enum):
    NONE = "none"
    FIFO = "fifo"
    ATOMIC = "atomic"


class GroupKind(Struct, frozen=True, array_like=True, gc=False):
    """The texts are empty where the services named above do not ask for them."""

    membership: MembershipKind = MembershipKind.RELAXED
    delivery: DeliveryKind = DeliveryKind.NONE
    order: str = ""  # atomic: hub | negotiated | medium
    stable: str = ""  # atomic: sent | majority | all | disk
    survive: str = ""  # agreed: any | majority | primary | a rule
    merge: str = ""  # agreed: a rule
    within: str = ""  # agreed: the group that this one is a subgroup of
    version: Annotated[int, Meta(ge=1, le=2**31)] = 1

    @property
    def is_claimed(self) -> bool:
        """Is it a strong kind, which is claimed at the server of the group's scope?"""
        return self.membership is not MembershipKind.RELAXED or self.delivery is DeliveryKind.ATOMIC

    @property
    def is_spoken_in(self) -> bool:
        """Have its members streams of FIFO multicast?"""
        return self.delivery is DeliveryKind.FIFO

    @property
    def is_ordered(self) -> bool:
        """Do its messages have one order?"""
        return self.delivery is DeliveryKind.ATOMIC

    @property
    def is_monitored(self) -> bool:
        """Does AMp's monitor decide its views? Its member list then only says which hosts to ask (A-090). The
        claim of a unique name is of such a kind and is not monitored (`access/unique.py`)."""
        return self.is_ordered and self.membership is not MembershipKind.AGREED and not self.within

    def __str__(self) -> str:
        """Everything in which it may differ from another kind; the rest is the default."""
        rest = [
            f"{name}={value!r}"
            for name in self.__struct_fields__[2:]
            if (value := getattr(self, name)) != getattr(PLAIN, name)
        ]
        return ", ".join([self.membership.value, self.delivery.value, *rest])


PLAIN: Final = GroupKind()
FIFO: Final = GroupKind(delivery=DeliveryKind.FIFO)
LED: Final = GroupKind(MembershipKind.LED)
LED_FIFO: Final = GroupKind(MembershipKind.LED, DeliveryKind.FIFO)
