"""What programs ask their agent about groups of agreed membership.

request       answer            items that follow
JoinAgreed    Done, Denied      MemberView, then MemberView and MemberBlocked in order; Excluded at the end
LeaveAgreed   Done, Denied

With ``delivery="fifo"`` also Delivered and Gap, in the same order; Credit and Sent; and Parted, when the
leave is over.
"""

from typing import Annotated, Final

from msgspec import Meta

from rostra.errors import BadInput
from rostra.groups.attributes import Role, Slow
from rostra.groups.kinds import DeliveryKind
from rostra.names import Domain, Endpoint, Group
from rostra.names.checks import check_text
from rostra.protocols.agreed.changes import Number
from rostra.protocols.fifo.events import Item
from rostra.protocols.relaxed.requests import Request

RULE_TEXT_MAX: Final = 512


def check_rule(rule: str) -> None:
    if len(rule) > RULE_TEXT_MAX:
        raise BadInput(f"a rule of {len(rule)} characters", fix=f"at most {RULE_TEXT_MAX}")
    check_text(rule)


class JoinAgreed(Request, frozen=True, tag=32):
    """Join a group of agreed membership. `survive` is its rule for partitions; empty: any side goes on."""

    group: Group
    delivery: DeliveryKind = DeliveryKind.NONE
    survive: Annotated[str, check_rule] = ""
    create: bool = True  # False: only if it exists
    meta: bytes = b""
    role: Role = Role.BOTH  # if it is spoken in
    slow: Slow = Slow.THROTTLE
    credential: bytes = b""  # for the authority of a restricted name
    luck: bytes = b""  # and 32 bytes at random


class LeaveAgreed(Request, frozen=True, tag=33):
    group: Group


class MemberView(Item, frozen=True, tag=32):
    """The next view, or the same again after `MemberBlocked`. `members` are all, in order of rank; None:
    those of the view before without `left` and `failed`, then those of `joined`."""

    number: Number
    revision: Number
    pid: Annotated[str, Meta(max_length=512)]
    members: tuple[tuple[Endpoint, bytes], ...] | None
    joined: tuple[tuple[Endpoint, bytes], ...] = ()
    left: tuple[Endpoint, ...] = ()
    failed: tuple[Endpoint, ...] = ()
    fence: Number | None = None  # if the group's rule lets one side live at most
    parts: tuple[tuple[Endpoint, ...], ...] = ()  # that merged: who was with whom before
    suspects: tuple[Endpoint, ...] = ()  # members that the servers could not reach when they sent it
    without: tuple[Domain, ...] = ()  # the domains with which members of `failed` were lost


class MemberBlocked(Item, frozen=True, tag=33):
    """Nothing is agreed here until the next `MemberView`."""

    because: str
