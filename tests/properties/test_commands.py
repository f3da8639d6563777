"""Commands of replicated objects: exactly once, the same at all replicas, whatever is retried, lost or
forgotten on the way."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from rostra.client.commands import (
    FORGOTTEN,
    CommandAsked,
    CommandLog,
    Signature,
    StateDigest,
    decode_attributes,
    decode_command,
    differing,
    encode_attributes,
    encode_command,
)
from rostra.errors import BadInput, CommandFailed, InDoubt
from rostra.names import Endpoint


class Tally:
    """Remembers every application, and refuses odd amounts after it has half done them."""

    seen: list[tuple[int, int]]

    def __init__(self) -> None:
        self.seen = []

    def note(self, who: int, number: int) -> int:
        self.seen.append((who, number))
        if number % 3 == 0:
            raise ValueError(f"{number} is odd")
        return len(self.seen)

    def snapshot(self) -> bytes:
        return encode_attributes(self)

    def restore(self, data: bytes) -> None:
        vars(self).update(decode_attributes(type(self), data))


class Kept(Struct):
    numbers: set[int]


NOTE = Signature(Tally.note)


def new_replica(sessions_max: int = 10_000) -> CommandLog:
    return CommandLog(Tally(), {"note": NOTE}, sessions_max=sessions_max, checkpoint_every=10)


def asked(who: int, number: int, *, acked: int = 0, since: int = 0) -> CommandAsked:
    return CommandAsked(bytes([who]) * 8, number, acked, since, "note", NOTE.encode((who, number), {}))


class Caller:
    """Sends commands, has some of them again, and acknowledges what it has from the front."""

    def __init__(self, who: int) -> None:
        self.who, self.next = who, 1
        self.waiting: dict[int, CommandAsked] = {}

    def new(self, position: int) -> CommandAsked:
        number, self.next = self.next, self.next + 1
        acked = min([*self.waiting, number]) - 1
        command = asked(self.who, number, acked=acked, since=position)
        self.waiting[number] = command
        return command


Step = tuple[str, int, int]
steps = st.lists(
    st.tuples(st.sampled_from(["new", "new", "again", "lose", "join"]), st.integers(0, 5), st.integers(0, 9)),
    max_size=60,
)


@given(steps, st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_every_command_is_applied_at_most_once_and_all_replicas_are_equal(
    script: list[Step], sessions_max: int
) -> None:
    replicas = [new_replica(sessions_max)]
    callers = [Caller(who) for who in range(6)]
    outcomes: dict[tuple[int, int], set[Any]] = {}
    late: list[CommandAsked] = []  # were sent; they may be delivered, and may be delivered after a retry
    position = 0
    for what, who, pick in script:
        caller = callers[who]
        match what:
            case "join":
                joiner = new_replica(sessions_max)
                joiner.restore(replicas[0].snapshot())
                replicas = [*replicas, joiner][-3:]
                continue
            case "new":
                command = caller.new(position)
            case "lose":
                late.append(caller.new(position))
                continue
            case _:
                again = [*late, *caller.waiting.values()]
                if not again:
                    continue
                command = again[pick % len(again)]
        position += 1
        answers = [replica.apply(position, command) for replica in replicas]
        assert all(answer == answers[0] for answer in answers)
        if (answer := answers[0]) is not None:
            sender = callers[command.session[0]]
            if answer != FORGOTTEN:
                outcomes.setdefault((sender.who, command.number), set()).add((answer.data, answer.raised))
            if pick % 2:  # the answer arrives
                sender.waiting.pop(command.number, None)

    applied = Counter(replicas[0].object.seen)
    assert not [each for each, times in applied.items() if times > 1]
    assert all(len(same) == 1 for same in outcomes.values())
    assert len({replica.digest().digest for replica in replicas}) == 1
    if sessions_max >= 6:
        assert {*outcomes} <= {*applied}


def test_a_retry_is_answered_and_not_applied() -> None:
    replica = new_replica()

    first = replica.apply(1, asked(1, 1))
    second = replica.apply(2, asked(1, 1))

    assert first == second and NOTE.result(first) == 1 if first is not None else False
    assert replica.object.seen == [(1, 1)]


def test_a_joiner_answers_a_retry_from_the_state_it_was_given() -> None:
    replica, joiner = new_replica(), new_replica()
    first = replica.apply(1, asked(1, 1))

    joiner.restore(replica.snapshot())

    assert joiner.apply(2, asked(1, 1)) == first
    assert joiner.object.seen == [(1, 1)]


def test_what_a_command_raises_is_raised_again_by_name_and_all_replicas_stay_equal() -> None:
    replica, other = new_replica(), new_replica()

    outcome = replica.apply(1, asked(1, 3))
    other.apply(1, asked(1, 3))

    assert outcome is not None
    with pytest.raises(ValueError, match="3 is odd"):
        NOTE.result(outcome)
    assert replica.digest() == other.digest()


def test_a_session_that_was_forgotten_is_in_doubt_and_not_applied_twice() -> None:
    replica = new_replica(sessions_max=2)
    for position, who in enumerate((1, 2, 3), 1):  # the session of 1 is forgotten
        replica.apply(position, asked(who, 1, since=position - 1))

    outcome = replica.apply(4, asked(1, 1, since=0))

    assert outcome == FORGOTTEN
    with pytest.raises(InDoubt):
        NOTE.result(outcome)
    assert replica.apply(5, asked(4, 1, since=4)) is not None  # one that began later is applied
    assert replica.object.seen == [(1, 1), (2, 1), (3, 1), (4, 1)]


def test_a_retry_after_the_session_was_opened_anew_is_in_doubt_too() -> None:
    replica = new_replica(sessions_max=2)
    for position, who in enumerate((1, 2, 3), 1):
        replica.apply(position, asked(who, 1, since=position - 1))
    replica.apply(4, asked(1, 2, since=3))

    assert replica.apply(5, asked(1, 1, since=0)) == FORGOTTEN


def test_arguments_are_checked_before_they_are_sent_and_when_they_arrive() -> None:
    with pytest.raises(BadInput, match="arguments of note"):
        NOTE.encode(("one", 1), {})
    with pytest.raises(TypeError):
        NOTE.encode((1,), {})
    wrong = CommandAsked(b"12345678", 1, 0, 0, "note", b"\x93\x01\x02\x03")
    unknown = CommandAsked(b"12345678", 2, 0, 0, "nothing", b"\x90")

    replica = new_replica()
    outcomes = [replica.apply(1, wrong), replica.apply(2, unknown)]

    assert [each is not None and each.raised for each in outcomes] == ["BadInput", "BadInput"]
    assert replica.object.seen == []


@given(st.binary(max_size=60))
def test_bytes_of_others_are_no_command_and_no_crash(data: bytes) -> None:
    found = decode_command(data)

    assert found is None or decode_command(encode_command(found)) == found


def test_a_state_that_would_not_come_back_is_refused_by_name() -> None:
    class Untyped:
        def __init__(self) -> None:
            self.who = {1, 2}

    class Typed(Untyped):
        who: set[int]

    with pytest.raises(BadInput, match=r"Untyped\.who"):
        encode_attributes(Untyped())
    assert decode_attributes(Typed, encode_attributes(Typed())) == {"who": {1, 2}}


def test_sets_are_the_same_bytes_whatever_their_order_and_tables_keep_theirs() -> None:
    class Mixed:
        seen: dict[str, set[int]]
        kept: "Kept"

    one, other = Mixed(), Mixed()
    one.seen, one.kept = {"b": {8, 0}, "a": set()}, Kept({16, 0})
    other.seen, other.kept = {"b": {0, 8}, "a": set()}, Kept({0, 16})
    assert list(one.seen["b"]) != list(other.seen["b"])  # else this shows nothing

    assert encode_attributes(one) == encode_attributes(other)
    again = decode_attributes(Mixed, encode_attributes(one))
    assert list(again["seen"]) == ["b", "a"] and again["kept"] == one.kept


def test_an_exception_with_no_name_here_is_told_in_words() -> None:
    class Odd(Exception):
        pass

    def fails(self: object) -> None:
        raise Odd("why")

    signature = Signature(fails)

    with pytest.raises(CommandFailed, match="fails raised Odd: why"):
        signature.result(signature.apply(None, signature.encode((), {})))


def test_who_differs_from_most_is_named() -> None:
    a, b, c = [Endpoint(f"eu.paris.h1/{name}#1") for name in "abc"]

    assert differing({a: b"1", b: b"1", c: b"2"}) == (c,)
    assert differing({a: b"1", b: b"2"}) == (a, b)
    assert differing({a: b"1", b: b"1"}) == ()


def test_a_replica_that_uses_more_than_its_arguments_has_another_digest() -> None:
    replica, other = new_replica(), new_replica()
    replica.apply(1, asked(1, 1))
    other.apply(1, asked(1, 1))
    other.object.seen.append((9, 9))

    assert replica.digest() != other.digest()
    assert isinstance(decode_command(encode_command(replica.digest())), StateDigest)


def test_an_integer_of_more_than_64_bits_is_carried_by_the_state_and_by_results() -> None:
    class Large(Struct):
        number: int
        many: tuple[int, ...] = ()

    class Numbers:
        total: int
        seen: set[int]
        large: Large

        def __init__(self) -> None:
            self.total, self.seen, self.large = 1 << 64, {3, -(1 << 70)}, Large(1 << 65, (5, 1 << 80))
            self.free = [(1 << 64) - 1, {"a": -(1 << 63) - 1}]

        def add(self, amount: int) -> int:
            self.total += amount
            return self.total

    numbers = Numbers()
    signature = Signature(Numbers.add)
    outcome = signature.apply(numbers, signature.encode((1,), {}))

    assert signature.result(outcome) == (1 << 64) + 1
    assert decode_attributes(Numbers, encode_attributes(numbers)) == vars(numbers)
    with pytest.raises(BadInput):
        signature.encode((1 << 64,), {})  # before it is sent


def test_no_other_caller_can_speak_in_a_session() -> None:
    """Else it could say that its outcomes are not needed any more, and its caller waits for ever."""
    replica = new_replica()
    assert replica.apply(1, asked(1, 1), "eu.paris.h1/ann") is not None
    before = replica.digest()

    assert replica.apply(2, asked(1, 1_000, acked=999), "eu.paris.h1/eve") == FORGOTTEN

    assert replica.digest() == before
    joiner = new_replica()
    joiner.restore(replica.snapshot())
    for each in (replica, joiner):
        outcome = each.apply(3, asked(1, 2), "eu.paris.h1/ann")
        assert outcome is not None and not outcome.raised
