"""What programs ask their agent about groups with ``delivery="atomic"``, and the items that they get.

request        answer            items that follow
JoinOrdered    Done, Denied      MemberView, MemberBlocked and OrderedRun, in one order for all members
LeaveOrdered   Done, Denied      OrderClosed, at once
ForgetOrdered  Done

A member is given its own messages too, at their place in the order (A-003). That is its receipt: what it is
given keeps what the group promises. If it does not read, `OrderPlaced` says the same beside the order.
"""

from typing import Annotated, Final

from rostra.errors import BadInput
from rostra.groups.attributes import Slow
from rostra.groups.kinds import MembershipKind
from rostra.names import Group
from rostra.names.checks import Natural, check_number, check_text
from rostra.protocols.agreed.requests import check_rule
from rostra.protocols.fifo.events import Item
from rostra.protocols.flow.messages import Run, Stream
from rostra.protocols.relaxed.requests import Request

WORD_LENGTH_MAX: Final = 16

GIVEN_UP: Final = "this host was given up by the others"
WENT_ON: Final = "the group went on without this host"
"""Causes in `OrderClosed`: a member that joins again finds the group as the others have it."""


def check_word(word: str) -> None:
    if len(word) > WORD_LENGTH_MAX:
        raise BadInput(f"a word of {len(word)} characters", fix="use one that docs/api.md lists")
    check_text(word)


Word = Annotated[str, check_word]
"""From a small fixed set."""


class JoinOrdered(Request, frozen=True, tag=48):
    """Join a group whose messages have one order. Words that are empty stand for the default."""

    group: Group
    membership: MembershipKind = MembershipKind.AGREED
    order: Word = ""  # hub | negotiated | medium
    stable: Word = ""  # sent | majority | all | disk
    survive: Annotated[str, check_rule] = ""
    create: bool = True  # False: only if it exists
    meta: bytes = b""
    slow: Slow = Slow.THROTTLE
    credential: bytes = b""  # for the authority of a restricted name
    luck: bytes = b""  # and 32 bytes at random


class LeaveOrdered(Request, frozen=True, tag=49):
    group: Group


class ForgetOrdered(Request, frozen=True, tag=50):
    """A member of a group with ``stable="disk"``: what is below this position need not be on the disk of this
    host any more. From then on nothing is forgotten that no member has named so."""

    group: Group
    position: Annotated[int, check_number]


class OrderedRun(Item, frozen=True, tag=48, gc=False):
    """The next messages, of one sender. The first of them has this position in the one order, the next one
    the next. Programs split the block themselves."""

    stream: Stream
    run: Run
    position: Natural


class OrderPlaced(Item, frozen=True, tag=49, gc=False):
    """To a member that does not read: so many of its own messages, from number `first` on, have their places
    in the order. They are given to it as well, when it reads."""

    first: Natural
    count: Natural
    position: Natural
    view: Natural


class OrderClosed(Item, frozen=True, tag=50):
    """The end of a membership. Of its messages that were not given to it, those below this number may be
    delivered by others; those from it on will not."""

    reject_from: Natural
    cause: str
    fix: str = ""  # what to do instead of joining it again
