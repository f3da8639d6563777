"""The items that a program gets from a group it follows, in the order in which they happened.

    View       the whole member list: the first item, and again after a `Gap`
    Joined     these members joined, or returned when a partition healed (a merge)
    Left       these members left or crashed
    Without    a domain became unreachable; its members are removed
    Only       our own domain was cut off; only its members remain
    Gap        changes were dropped because the program did not keep up; a `View` follows
    Blocked    our side of a partition must not continue in an agreed group; a `View` ends it
    Moved      our agreed group was split or merged: we are in another one since
    Message    a message of a member, in a group with delivery
    Messages   consecutive messages of one member, if they were requested in batches
    CallAsked  a member calls the group, and waits for answers, in a group with atomic delivery
    StateAsked a member that joined a group with atomic delivery needs its state from us

Every change but `Gap` is a real difference of the program's own copy; a notice without one is not reported
(C-141).

The changes of a watch are numbered consecutively, and each has a `token`: the position right after it. Keep
the last one, and ``watch(..., resume=token)`` continues from there.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Annotated

from msgspec import Struct

from rostra.groups.members import Because, Cause, Members
from rostra.groups.shares import ShareKey, owner_of, share_of
from rostra.names import Domain, Endpoint, Group
from rostra.names.checks import check_number, check_text


class NumberedItem(Struct, frozen=True, kw_only=True):
    """What all changes of a watch have."""

    number: int = 0
    period: str = ""  # which agent counts, and from which beginning; empty: this change is not numbered

    @property
    def token(self) -> str:
        """For ``watch(..., resume=token)``: everything up to this change is known. Empty if there is none."""
        return f"{self.period}:{self.number}" if self.period else ""


class AgreedViewId(Struct, frozen=True, array_like=True):
    """Names one agreed view: `pid` is the partition in which it was agreed."""

    number: Annotated[int, check_number]
    revision: Annotated[int, check_number]
    pid: Annotated[str, check_text]


class SentIn(Struct, frozen=True, array_like=True):
    """The agreed view by which the receivers of a message were chosen, as its sender says (V-055)."""

    group: Group
    id: AgreedViewId


class View(NumberedItem, frozen=True, repr_omit_defaults=True):
    """Who is in the group. In an agreed group `number` is the view's, members stand in the order of their
    ranks, and the fields after `isolated` say how it came from the view before."""

    members: Members
    isolated: bool = False  # only this host's part: its cluster's server cannot be reached
    rank: int | None = None  # our own
    id: AgreedViewId | None = None
    joined: tuple[Endpoint, ...] = ()
    left: tuple[Endpoint, ...] = ()
    failed: tuple[Endpoint, ...] = ()
    together: tuple[Endpoint, ...] = ()  # who came with us from our last view, and so has our state
    parts: tuple[tuple[Endpoint, ...], ...] = ()  # at a merge: who lived in which partition
    suspects: tuple[Endpoint, ...] = ()  # members that the servers could not reach when they sent it
    living: bool = True  # the group's rule lets this side go on
    fence: int | None = None  # grows with every view of a group whose rule lets one side live at most
    without: tuple[Domain, ...] = ()  # the domains with which members of `failed` were lost

    def owner(self, key: ShareKey, weights: Mapping[Endpoint, float] | None = None) -> Endpoint | None:
        """The member that owns this key: the same at all members that have this view (`groups/shares.py`)."""
        return owner_of(key, [each.endpoint for each in self.members], weights)

    def share_of(
        self,
        keys: Iterable[ShareKey],
        *,
        of: Endpoint | None = None,
        weights: Mapping[Endpoint, float] | None = None,
    ) -> tuple[ShareKey, ...]:
        """Those of these keys that a member owns."""
        members = [each.endpoint for each in self.members]
        if of is None and self.rank is not None:
            of = members[self.rank]
        return () if of is None else share_of(of, keys, members, weights)

    def __str__(self) -> str:
        if self.rank is not None:  # agreed
            return f"View {self.number} of {_count(len(self.members))}, our rank {self.rank}"
        return f"View of {_count(len(self.members))}{', of this host alone' if self.isolated else ''}"


class Joined(NumberedItem, frozen=True, repr_omit_defaults=True):
    members: Members
    cause: Cause  # JOIN | MERGE

    def __str__(self) -> str:
        who = _some(member.endpoint for member in self.members)
        return f"Joined{' by merge' if self.cause is Cause.MERGE else ''}: {who}"


class Left(NumberedItem, frozen=True, repr_omit_defaults=True):
    endpoints: tuple[Endpoint, ...]
    cause: Cause  # LEAVE | CRASH; MERGE: a merge showed that they had gone while we were apart
    meta: bytes = b""  # what the leaver said, with LEAVE

    def __str__(self) -> str:
        return f"Left by {self.cause.value}: {_some(self.endpoints)}"


class Without(NumberedItem, frozen=True, repr_omit_defaults=True):
    domain: Domain
    endpoints: tuple[Endpoint, ...]  # of this group, those that were lost with it
    because: Because

    def __str__(self) -> str:
        return f"Without {self.domain}, {_count(len(self.endpoints))}: {_reason(self.because)}"


class Only(NumberedItem, frozen=True, repr_omit_defaults=True):
    domain: Domain
    endpoints: tuple[Endpoint, ...]  # of this group, those that were lost with the rest
    because: Because

    def __str__(self) -> str:
        return f"Only {self.domain}, without {_count(len(self.endpoints))}: {_reason(self.because)}"


class Gap(NumberedItem, frozen=True, repr_omit_defaults=True):
    """Changes were missed: the program read too slowly, or was away. It has no token; the `View` that follows
    has. In a group with delivery, these messages of one sender were said while we were apart (X-064)."""

    missed: int | None = None  # None: they were not counted
    sender: Endpoint | None = None  # in a group with delivery: whose messages, from `first` on
    first: int = 0


class Blocked(NumberedItem, frozen=True, repr_omit_defaults=True):
    """In an agreed group: nothing is agreed or delivered on our side until the next `View`."""

    since: float  # seconds since 1970
    because: str  # in doubt | minority | ...


class Moved(NumberedItem, frozen=True, repr_omit_defaults=True):
    """In an agreed group that was split or merged: we are in this one since. The next `View` is of it."""

    group: Group
    because: str


class Added(NumberedItem, frozen=True, repr_omit_defaults=True):
    """In an agreed group that was split and goes on: we are in this subgroup of it as well. Its views come as
    soon as we join it, with ``create=False``."""

    group: Group
    because: str


class Receipt(Struct, frozen=True, gc=False):
    """The receipt of a message that we sent: its position in the group's order, and the view it is in."""

    position: int
    view: int


class StateAsked(Struct, frozen=True):
    """In a group with ``delivery="atomic"``: a member that has joined asks us for the group's state, as it is
    between the item before this one and the next."""

    to: Endpoint
    give: Callable[[bytes], Awaitable[None]]  # sends it; in several pieces, if it is called several times


class Gone(Struct, frozen=True):
    """A member that left the group, or crashed, before it answered."""

    endpoint: Endpoint


class CallAsked(Struct, frozen=True):
    """A member calls the group: ``await call.answer(b"...")``, now or later. One's own calls come too; they
    wait for no answer of one's own."""

    sender: Endpoint
    body: bytes
    position: int
    answer: Callable[[bytes], Awaitable[None]]

    def __repr__(self) -> str:
        return f"CallAsked(sender={self.sender!r}, body={self.body!r}, position={self.position!r})"


Change = View | Joined | Left | Without | Only | Gap


class Message(Struct, frozen=True, gc=False):
    """Said in a group with delivery, or to this endpoint alone, by `send_to`."""

    sender: Endpoint
    body: bytes
    number: int = 0  # one larger than the sender's last in this group; 0: sent by `send_to`
    sent_at: float = 0.0  # seconds since 1970, on the sender's clock
    position: int = 0  # in a group with delivery="atomic": its place in the one order; else 0
    view: SentIn | None = None  # if it was sent to members of an agreed group: by which view

    @property
    def source(self) -> Endpoint:
        return self.sender

    @property
    def data(self) -> bytes:
        return self.body


class Messages(Struct, frozen=True, gc=False):
    """Consecutive messages of one sender."""

    sender: Endpoint
    first: int  # the number of the first
    bodies: list[bytes]
    sent_at: float  # when the sender handed them over
    position: int = 0  # of the first, in a group with delivery="atomic"; else 0

    def __len__(self) -> int:
        return len(self.bodies)

    def __iter__(self) -> Iterator[Message]:
        position = self.position
        for nth, body in enumerate(self.bodies):
            place = position + nth if position else 0
            yield Message(self.sender, body, self.first + nth, self.sent_at, place)


Item = Change | Message
"""What iterating over a group without delivery gives; messages only come where there is one."""

AgreedItem = View | Blocked | Moved | Added
"""What iterating over a group of agreed membership gives."""

AtomicItem = View | Blocked | Message | CallAsked | StateAsked
"""What iterating over a group with ``delivery="atomic"`` gives, in one order for all members."""

GroupItem = Change | Message | Messages | Blocked | Moved | Added
"""What iterating over a group with delivery gives; `Messages` only if asked for, `Blocked` and `Moved` with
agreed membership only."""


class Resolution(Struct, frozen=True):
    """Who is in a group, and where the answer comes from.

    `from_copy`: from this program's own copy, which is as new as the last notice its agent sent; ask with
    `fresh=True` to ask the servers instead.
    """

    members: Members
    isolated: bool = False
    from_copy: bool = False
    scopes: tuple[tuple[Domain, Members], ...] = ()  # of a question without scope: scope by scope

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple([member.endpoint for member in self.members])


NAMED_MAX = 4
"""Endpoints that a change names in words."""


def _count(members: int) -> str:
    return f"{members} member{'' if members == 1 else 's'}"


def _some(endpoints: Iterable[Endpoint]) -> str:
    first = list(endpoints)
    more = len(first) - NAMED_MAX
    return ", ".join(first[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _reason(because: Because) -> str:
    return f"{because.accuser} gave up {because.accused}, {because.what}"
