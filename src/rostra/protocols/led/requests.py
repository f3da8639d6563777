"""What programs ask their agent about groups of led membership.

request     answer          notices that follow
JoinLed     Done, Denied    with `online`: Absolute, and again whenever the leader's list changes; PutOut
LeaveLed    Done, Denied    also a member of a transient set

CreateSet       SetCreated, Denied       SetMembers whenever the set changes, AddRefused
ChangeSet       Done, Denied             at those concerned: SetAdded, SetLost
DestroySet      Done, Denied             at its members: SetLost
ResolveSet      Absolute, Denied
OpenSequence    SequenceOpened, Denied   SequenceReply, SequenceShrunk, SequenceEnded
SendSequence    Done, Denied             at its destinations: SequenceMessage
CloseSequence   Done, Denied             at its destinations: SequenceClosed
ReplySequence   Done, Denied             at the source: SequenceReply

`Resolve` and `Watch` are those of relaxed membership: the agent sees that the group is led, and goes on to
its leader. `ResolveSet` is for transient sets, which stand in no directory.
"""

from typing import Annotated

from msgspec import Meta

from rostra.groups.kinds import DeliveryKind
from rostra.names import Domain, Endpoint, Group
from rostra.names.checks import check_addressee, check_number
from rostra.protocols.led.config import CHANGE_MAX
from rostra.protocols.relaxed.requests import Request, Said


class JoinLed(Request, frozen=True, tag=64):
    group: Group
    delivery: DeliveryKind = DeliveryKind.NONE
    online: bool = True  # is it told when the list changes?
    meta: bytes = b""
    closed: bool = False  # it is told only the sequences of those who are on the list (S-089)


class LeaveLed(Request, frozen=True, tag=65):
    group: Group


class CreateSet(Request, frozen=True, tag=66):
    """Make a transient set. `at_ms` is the program's clock; it only has to make names differ."""

    scope: Domain
    at_ms: Annotated[int, check_number] = 0
    readmit: bool = True  # are members in it again after a partition?


Addressees = Annotated[tuple[Annotated[Endpoint, check_addressee], ...], Meta(max_length=CHANGE_MAX)]


class ChangeSet(Request, frozen=True, tag=67):
    group: Group
    add: Addressees = ()
    delete: Addressees = ()


class DestroySet(Request, frozen=True, tag=68):
    group: Group


class ResolveSet(Request, frozen=True, tag=69):
    group: Group


class OpenSequence(Request, frozen=True, tag=70):
    """Speak to those who are in the set now."""

    group: Group


class SendSequence(Request, frozen=True, tag=71):
    number: Annotated[int, check_number]
    body: bytes


class CloseSequence(Request, frozen=True, tag=72):
    number: Annotated[int, check_number]


class ReplySequence(Request, frozen=True, tag=73):
    source: Annotated[Endpoint, check_addressee]
    number: Annotated[int, check_number]
    group: Group
    body: bytes


AnySetRequest = (
    CreateSet
    | ChangeSet
    | DestroySet
    | ResolveSet
    | OpenSequence
    | SendSequence
    | CloseSequence
    | ReplySequence
)


# Answers


class SetCreated(Said, frozen=True, tag=64):
    group: Group


class SequenceOpened(Said, frozen=True, tag=65):
    number: int
    destinations: tuple[Endpoint, ...]


# Notices


class SetAdded(Said, frozen=True, tag=66):
    """To a member: the owner of this set added it."""

    group: Group


class SetLost(Said, frozen=True, tag=67):
    """To a member: it is in this set no more."""

    group: Group
    why: str


class AddRefused(Said, frozen=True, tag=68):
    """To the owner: there is no such endpoint, it is in too many sets, or its host did not answer."""

    group: Group
    endpoint: Endpoint
    why: str


class SetMembers(Said, frozen=True, tag=69):
    """To the owner: these are in the set now."""

    group: Group
    members: tuple[Endpoint, ...]


class SequenceMessage(Said, frozen=True, tag=70):
    """To a destination. Messages of one sequence may be lost, and come twice or in another order."""

    source: Endpoint
    group: Group
    sequence: int
    number: int
    body: bytes


class SequenceClosed(Said, frozen=True, tag=71):
    source: Endpoint
    group: Group
    sequence: int


class SequenceReply(Said, frozen=True, tag=72):
    """To the source."""

    sequence: int
    sender: Endpoint
    body: bytes


class SequenceShrunk(Said, frozen=True, tag=73):
    """To the source: these are served no more."""

    sequence: int
    lost: tuple[Endpoint, ...]
    why: str


class SequenceEnded(Said, frozen=True, tag=74):
    """To the source: no destination is left. These are known to have all that was sent."""

    sequence: int
    served: tuple[Endpoint, ...]


AnySetAnswer = SetCreated | SequenceOpened
AnySetNotice = (
    SetAdded
    | SetLost
    | AddRefused
    | SetMembers
    | SequenceMessage
    | SequenceClosed
    | SequenceReply
    | SequenceShrunk
    | SequenceEnded
)
