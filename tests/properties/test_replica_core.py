"""Replicas of an object: the state reaches every joiner, whoever dies on the way, and they stay equal."""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from rostra.client.commands import (
    CommandAsked,
    CommandLog,
    Signature,
    decode_attributes,
    encode_attributes,
    encode_command,
)
from rostra.client.replica_core import (
    PART_BYTES,
    CommandAnswered,
    ReplicaAct,
    ReplicaCore,
    ReplicaDiverged,
    SendInOrder,
    StateLost,
)
from rostra.groups.items import View
from rostra.groups.members import Member
from rostra.names import Endpoint


class Book:
    """Keeps every line, and who was there."""

    lines: list[str]
    here: list[str]

    def __init__(self) -> None:
        self.lines, self.here = [], []

    def write(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines)

    def viewed(self, members: tuple[Endpoint, ...]) -> None:
        self.here = list(members)
        self.lines.append(f"{len(members)} are here")

    def snapshot(self) -> bytes:
        return encode_attributes(self)

    def restore(self, data: bytes) -> None:
        vars(self).update(decode_attributes(type(self), data))


WRITE = Signature(Book.write)


class Replica:
    def __init__(self, name: int) -> None:
        self.me = Endpoint(f"eu.paris.h1/p#{name}")
        self.core = ReplicaCore(
            CommandLog(Book(), {"write": WRITE}, checkpoint_every=5), bytes([name % 256]) * 8
        )
        self.unread: deque[View | tuple[Endpoint, int, bytes]] = deque()
        self.unsent: deque[bytes] = deque()
        self.number = 0
        self.acts: list[ReplicaAct] = []

    def read(self) -> None:
        if self.unread:
            item = self.unread.popleft()
            acts = self.core.viewed(self.me, item) if isinstance(item, View) else self.core.delivered(*item)
            self.acts += acts
            for act in acts:
                if isinstance(act, SendInOrder):
                    self.unsent.extend(act.payloads)

    def say(self) -> bytes:
        self.number += 1
        line = f"{self.me} {self.number}" + "." * (PART_BYTES if self.number % 7 == 0 else 0)
        data = WRITE.encode((line,), {})
        since = self.core.log.position
        return encode_command(
            CommandAsked(self.core.session, self.number, self.number - 1, since, "write", data)
        )

    @property
    def has_lost(self) -> bool:
        return any(isinstance(act, StateLost) for act in self.acts)

    @property
    def book(self) -> Book:
        book: Book = self.core.log.object
        return book


class OneOrder:
    """What a group with one order gives: everything in one sequence, from the joiner's view on."""

    def __init__(self) -> None:
        self.members: list[Replica] = []
        self.position = self.number = self.names = 0

    def join(self, count: int) -> None:
        new = [Replica(self.names + nth + 1) for nth in range(count)]
        self.names += count
        self.members += new
        self._view(tuple([each.me for each in new]))

    def lose(self, nth: int) -> None:
        self.members.pop(nth)
        self._view(())

    def _view(self, joined: tuple[Endpoint, ...]) -> None:
        self.number += 1
        self.position += 1
        members = tuple([Member(each.me, (0, 0)) for each in self.members])
        for each in self.members:
            each.unread.append(View(members, number=self.number, joined=joined))

    def place(self, sender: Replica, body: bytes) -> None:
        self.position += 1
        for each in self.members:
            each.unread.append((sender.me, self.position, body))

    def drain(self) -> None:
        while any(each.unread or each.unsent or each.has_lost for each in self.members):
            for each in self.members:
                each.read()
                if each.unsent:
                    self.place(each, each.unsent.popleft())
            for nth, each in enumerate(self.members):
                if each.has_lost:
                    self.lose(nth)  # its program is told, and leaves
                    break


steps = st.lists(
    st.tuples(
        st.sampled_from(["join", "lose", "say", "say", "say", "read", "read", "read", "send", "send"]),
        st.integers(0, 7),
    ),
    max_size=60,
)


@given(steps)
@settings(max_examples=100, deadline=None)
def test_every_joiner_gets_the_state_and_all_replicas_are_equal(script: list[tuple[str, int]]) -> None:
    order = OneOrder()
    order.join(2)
    for what, pick in script:
        one = order.members[pick % len(order.members)]
        match what:
            case "join" if len(order.members) < 5:
                order.join(1 + pick % 2)
            case "lose" if len(order.members) > 1:
                order.lose(pick % len(order.members))
            case "say" if one.core.has_state:
                order.place(one, one.say())
            case "read":
                for _ in range(pick):
                    one.read()
            case "send" if one.unsent:
                order.place(one, one.unsent.popleft())
    order.drain()

    if order.members:
        first = order.members[0]
        assert all(each.core.has_state for each in order.members)
        assert all(each.book.lines == first.book.lines for each in order.members)
        assert len({each.core.log.digest() for each in order.members}) == 1
        assert first.book.here == [each.me for each in order.members]
        assert not [act for each in order.members for act in each.acts if isinstance(act, ReplicaDiverged)]


def test_a_donor_that_dies_half_way_is_replaced() -> None:
    order = OneOrder()
    order.join(2)
    order.drain()
    donor, other = order.members
    for _ in range(14):
        order.place(donor, donor.say())
    order.drain()
    order.join(1)
    joiner = order.members[2]
    donor.read()
    parts = len(donor.unsent)
    order.place(donor, donor.unsent.popleft())
    order.place(other, other.say())
    order.lose(0)
    order.drain()

    assert parts > 1  # else it was not half way
    assert joiner.core.has_state and joiner.book.lines == other.book.lines
    assert joiner.book.lines[-2].endswith(" 1")


def test_when_all_who_had_the_state_are_gone_it_is_said_and_no_empty_object_takes_its_place() -> None:
    order = OneOrder()
    order.join(1)
    order.drain()
    order.place(order.members[0], order.members[0].say())
    order.join(1)
    joiner = order.members[1]
    order.lose(0)
    order.drain()

    assert not joiner.core.has_state
    assert [type(act) for act in joiner.acts] == [StateLost]


def test_a_replica_that_differs_is_named_by_all() -> None:
    order = OneOrder()
    order.join(3)
    order.drain()
    order.members[1].book.lines.append("nobody said this")
    for _ in range(5):
        order.place(order.members[0], order.members[0].say())
    order.drain()

    named = [[act for act in each.acts if isinstance(act, ReplicaDiverged)] for each in order.members]
    assert named == [[ReplicaDiverged(5, (order.members[1].me,))]] * 3


def test_the_last_survivor_that_comes_back_first_brings_its_state() -> None:
    order = OneOrder()
    order.join(1)
    order.drain()
    (only,) = order.members
    order.place(only, only.say())
    order.drain()
    before = list(only.book.lines)

    again = OneOrder()  # the group is new: its positions begin anew
    only.core.left()
    again.members.append(only)
    again._view((only.me,))
    again.place(only, only.say())
    again.drain()

    assert only.book.lines[: len(before)] == before
    assert only.book.lines[-1].endswith(" 2")


def both_with_a_line() -> tuple[Replica, Replica]:
    """Two replicas with the same state, but the second has one line more: it was given it, and answered."""
    order = OneOrder()
    order.join(2)
    order.drain()
    one, other = order.members
    order.place(other, other.say())
    order.drain()
    order.place(other, other.say())
    other.read()
    one.unread.clear()
    return one, other


def come_again(order: OneOrder, replica: Replica, name: int) -> None:
    """Its agent was lost: it joins again, as another endpoint."""
    replica.me = Endpoint(f"eu.paris.h1/p#{name}")
    replica.acts.clear()
    order.members.append(replica)
    order._view((replica.me,))


def test_of_replicas_that_come_again_the_one_with_the_most_gives_the_state() -> None:
    one, other = both_with_a_line()
    again = OneOrder()
    come_again(again, one, 11)
    again.drain()
    assert one.core.is_not_sure and not one.core.has_state

    come_again(again, other, 12)
    again.drain()

    assert one.core.has_state and other.core.has_state
    assert one.book.lines == other.book.lines and [line[-2:] for line in one.book.lines[1:3]] == [" 1", " 2"]
    assert one.core.log.digest() == other.core.log.digest()


def test_a_replica_that_comes_again_alone_does_not_go_on_with_what_may_be_too_little() -> None:
    one, _ = both_with_a_line()
    again = OneOrder()
    come_again(again, one, 11)
    again.join(1)  # a new program, which never had the state
    again.drain()

    assert one.core.is_not_sure
    assert not any(each.core.has_state for each in again.members)

    again.lose(0)  # it gave up
    again.drain()

    assert not again.members  # and the other was told, and left


def test_a_replica_is_told_if_the_group_began_anew_without_what_it_has() -> None:
    one, _ = both_with_a_line()
    again = OneOrder()
    again.names = 20  # another session than that of the first order's founder
    again.join(1)
    again.drain()
    come_again(again, one, 11)
    while again.members[0].unread or again.members[0].unsent or one.unread:
        for each in again.members:
            each.read()
            if each.unsent:
                again.place(each, each.unsent.popleft())

    assert [act.why for act in one.acts if isinstance(act, StateLost)] == [
        "the state is lost: the group has begun anew, without the 1 commands applied here"
    ]


def test_a_forged_command_in_our_session_ends_no_call_of_ours_and_keeps_none_from_its_end() -> None:
    order = OneOrder()
    order.join(2)
    order.drain()
    ann, eve = order.members
    eve.me = Endpoint("eu.paris.h2/eve#2")
    forged = CommandAsked(ann.core.session, 1_000, 999, 0, "write", WRITE.encode(("forged",), {}))
    order.place(ann, ann.say())
    order.place(eve, encode_command(forged))
    order.place(ann, ann.say())
    order.drain()
    answered = [act.number for act in ann.acts if isinstance(act, CommandAnswered)]
    assert answered == [1, 2]
    assert ann.book.lines == eve.book.lines and "forged" not in ann.book.lines
