"""Transient sets and sequences, as one endpoint uses them.

me.create_set() ──▶ TransientSet: add, delete, members, and what becomes of it
me.sequence(...) ──▶ Sequence: send to the members that a set has now; replies, and who is lost
me.sets() ──▶ what happens to us: SetAdded, SetLost, SequenceMessage, SequenceClosed
"""

import contextlib
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from rostra.client import choices
from rostra.client.conversation import checked
from rostra.client.group import Entering
from rostra.client.session import within
from rostra.client.streams import Stream, again
from rostra.errors import BadInput, RostraError, Unreachable
from rostra.groups.items import Gap
from rostra.names import Endpoint, Group, make_group, parse_endpoint, parse_scope
from rostra.protocols.led.requests import (
    AddRefused,
    AnySetNotice,
    ChangeSet,
    CloseSequence,
    CreateSet,
    DestroySet,
    LeaveLed,
    OpenSequence,
    ReplySequence,
    SendSequence,
    SequenceClosed,
    SequenceEnded,
    SequenceMessage,
    SequenceReply,
    SequenceShrunk,
    SetAdded,
    SetLost,
    SetMembers,
)

if TYPE_CHECKING:
    from rostra.client.me import Me

SetItem = SetMembers | AddRefused | Gap
SequenceItem = SequenceReply | SequenceShrunk | SequenceEnded | Gap
ReceivedItem = SetAdded | SetLost | SequenceMessage | SequenceClosed | Gap


def _gap(missed: int) -> tuple[Gap]:
    return (Gap(missed),)


class TransientSet:
    """A set that this endpoint made, until `close` or the end of its ``async with``; it ends with its agent,
    too.

    Iterate over it for what becomes of it: `SetMembers` whenever it changes, and `AddRefused`.
    """

    __slots__ = ("_ended", "_items", "group", "me", "members")

    def __init__(self, me: "Me", group: Group) -> None:
        self.me, self.group = me, group
        self.members: tuple[Endpoint, ...] = ()  # that have confirmed it and are in reach
        self._items: Stream[SetItem] = Stream(_gap)
        self._ended: RostraError | None = None

    @property
    def name(self) -> str:
        """With it any program may resolve the set, and speak to it."""
        return self.group.name

    def __repr__(self) -> str:
        return f"<{self.group}, {len(self.members)} members>"

    def __aiter__(self) -> Stream[SetItem]:
        return self._items

    async def add(self, *endpoints: Endpoint | str, deadline_s: float | None = None) -> None:
        """Returns when the agent has it; they are members when their agents confirm it."""
        await self._ask(ChangeSet(self.group, add=_parsed(endpoints)), deadline_s)

    async def delete(self, *endpoints: Endpoint | str, deadline_s: float | None = None) -> None:
        await self._ask(ChangeSet(self.group, delete=_parsed(endpoints)), deadline_s)

    def sequence(self, *, deadline_s: float | None = None) -> Entering["Sequence"]:
        """Speak to those who are in it now."""
        return self.me.sequence(self.group.name, self.group.scope, deadline_s=deadline_s)

    async def close(self) -> None:
        """End the set: its members are told."""
        if self._ended is None and self.me._sets.pop(self.group, None) is not None:
            self.end(None)
            if self.me.is_open:
                with contextlib.suppress(Unreachable):
                    await self.me._ask(DestroySet(self.group))

    async def _ask(self, change: ChangeSet, deadline_s: float | None) -> None:
        if self._ended is not None:
            raise again(self._ended)
        await within(deadline_s, self.me._ask(change), f"the agent did not change {self.group}")

    def hear(self, notice: SetMembers | AddRefused) -> None:
        if isinstance(notice, SetMembers):
            self.members = notice.members
        self._items.put(notice)

    def end(self, reason: RostraError | None) -> None:
        self._ended = reason or BadInput(f"{self.group} has ended", fix="create another one")
        self.members = ()
        self._items.end(reason)


class Sequence:
    """One source, and the destinations that the set had when it began: they may become fewer.

    Messages are sent best effort, each at most 64 KiB. Iterate over it for what comes back: `SequenceReply`,
    `SequenceShrunk`, and `SequenceEnded` when it has no members left.
    """

    __slots__ = ("_ended", "_items", "destinations", "group", "me", "number")

    def __init__(self, me: "Me", group: Group, number: int, destinations: tuple[Endpoint, ...]) -> None:
        self.me, self.group, self.number = me, group, number
        self.destinations = destinations
        self._items: Stream[SequenceItem] = Stream(_gap)
        self._ended: RostraError | None = None

    def __repr__(self) -> str:
        return f"<sequence {self.number} to {self.group}, {len(self.destinations)} destinations>"

    def __aiter__(self) -> Stream[SequenceItem]:
        return self._items

    async def send(self, body: bytes, *, deadline_s: float | None = None) -> None:
        """Returns when the agent has sent it. Raises `VehicleBroken` when no destination is left."""
        if self._ended is not None:
            raise again(self._ended)
        order = SendSequence(self.number, checked(body))
        await within(deadline_s, self.me._ask(order), "the agent did not take the message")

    async def close(self) -> None:
        if self._ended is None and self.me._sequences.pop(self.number, None) is not None:
            self.end(None)
            if self.me.is_open:
                with contextlib.suppress(RostraError):  # broken, or the agent is lost: it is closed then, too
                    await self.me._ask(CloseSequence(self.number))

    def hear(self, notice: SequenceReply | SequenceShrunk | SequenceEnded) -> None:
        if isinstance(notice, SequenceShrunk):
            lost = frozenset(notice.lost)
            self.destinations = tuple([each for each in self.destinations if each not in lost])
        self._items.put(notice)

    def end(self, reason: RostraError | None) -> None:
        self._ended = reason or BadInput("the sequence is closed", fix="open another one")
        self._items.end(reason)


class Sets:
    """The part of `Me` that has to do with transient sets and sequences."""

    __slots__ = ()

    @property
    def _self(self) -> "Me":
        return cast("Me", self)

    def create_set(
        self, scope: str = "world", *, readmit: bool = True, deadline_s: float | None = None
    ) -> Entering[TransientSet]:
        """Make a set of our own: ``async with me.create_set() as mine: await mine.add(endpoint)``.

        With `readmit`, members that were out of reach are in it again when they are back.
        """
        me, around = self._self, parse_scope(scope)

        async def enter() -> TransientSet:
            create = CreateSet(around, time.time_ns() // 1_000_000, readmit)
            created = await within(deadline_s, me._ask(create), "the agent did not make a set")
            mine = me._sets[created.group] = TransientSet(me, created.group)
            return mine

        return Entering(enter)

    def sequence(
        self, group: str, scope: str = "world", *, deadline_s: float | None = None
    ) -> Entering[Sequence]:
        """Speak to those who are in a led group or transient set now. Membership is not needed."""
        me, key = self._self, make_group(group, scope)
        choices.check_scope_apart(group, scope, me.host)

        async def enter() -> Sequence:
            opened = await within(deadline_s, me._ask(OpenSequence(key)), f"who is in {key} was not known")
            sequence = Sequence(me, key, opened.number, opened.destinations)
            me._sequences[opened.number] = sequence
            return sequence

        return Entering(enter)

    def sets(self) -> Stream[ReceivedItem]:
        """Transient sets that we are added to, and what sequences bring, from the first call of this on."""
        me = self._self
        if me._heard_sets is None:
            me._heard_sets = Stream(_gap)
            if me.is_closed:
                me._heard_sets.end()
        return me._heard_sets

    async def leave_set(self, group: str, scope: str = "world", *, deadline_s: float | None = None) -> None:
        """Leave a transient set that we were added to."""
        key = make_group(group, scope)
        await within(deadline_s, self._self._ask(LeaveLed(key)), f"leaving {key} was not confirmed")

    async def reply(self, to: SequenceMessage, body: bytes, *, deadline_s: float | None = None) -> None:
        """To the source of a sequence, about a message of it."""
        order = ReplySequence(to.source, to.sequence, to.group, bytes(body))
        await within(deadline_s, self._self._ask(order), "the agent did not take the reply")

    # From the agent

    def _hear_sets(self, notice: AnySetNotice) -> None:
        me = self._self
        match notice:
            case SetMembers(group=group) | AddRefused(group=group):
                if (mine := me._sets.get(group)) is not None:
                    mine.hear(notice)
            case (
                SequenceReply(sequence=number)
                | SequenceShrunk(sequence=number)
                | SequenceEnded(sequence=number)
            ):
                if (sequence := me._sequences.get(number)) is not None:
                    sequence.hear(notice)
            case _:
                if me._heard_sets is not None:
                    me._heard_sets.put(notice)

    def _lose_sets(self, reason: RostraError | None) -> None:
        """The agent is gone, and with it what it led and sent for us; or we have closed ourselves."""
        me, gone = self._self, reason
        if gone is None and not me.is_closed:
            gone = Unreachable("the agent that led the set was lost", fix="make another one")
        for mine in me._sets.values():
            mine.end(gone)
        for sequence in me._sequences.values():
            sequence.end(gone)
        me._sets.clear()
        me._sequences.clear()


def _parsed(endpoints: Iterable[Endpoint | str]) -> tuple[Endpoint, ...]:
    return tuple([parse_endpoint(each) for each in endpoints])
