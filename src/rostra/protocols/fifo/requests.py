"""Requests of programs to their agent about FIFO groups.

request     answer            items that follow
Enter       Done, Denied      Credit, Ready, then messages and changes in order
Exit        Done, Denied      Parted, once every receiver has the last messages
"""

from rostra.groups.attributes import Role, Slow
from rostra.groups.kinds import MembershipKind
from rostra.names import Group
from rostra.protocols.relaxed.requests import Request


class Enter(Request, frozen=True, tag=16):
    """Join a group to send and receive (``delivery="fifo"``), of relaxed or led membership."""

    group: Group
    role: Role = Role.BOTH
    slow: Slow = Slow.THROTTLE
    meta: bytes = b""
    membership: MembershipKind = MembershipKind.RELAXED
    credential: bytes = b""  # for the authority of a restricted name
    luck: bytes = b""  # and 32 bytes at random


class Exit(Request, frozen=True, tag=17):
    """Leave it, once everything that was submitted is emitted."""

    group: Group
