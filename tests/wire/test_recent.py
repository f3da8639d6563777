"""Long answers that come again are found and not decoded; nobody can tell, except by the clock."""

import msgspec
import pytest
from support import samples
from support.samples import CHESS, H1, WORLD

from rostra.errors import Malformed
from rostra.groups.members import Member
from rostra.names import Endpoint
from rostra.protocols.relaxed.requests import Absolute
from rostra.wire import Answered, Encoder, FrameKind, FrameReader, world_tag
from rostra.wire.frames import frame
from rostra.wire.recent import KEPT_BYTES_MAX, KEPT_MAX, RecentAnswers

ENCODER = Encoder(WORLD)


def listing(count: int, first: int = 0) -> Absolute:
    return Absolute(
        CHESS, tuple(Member(Endpoint(f"{H1}/web-{n}#{n}"), (7, n)) for n in range(first, first + count))
    )


LONG = listing(100)


def frame_of(*items: Answered) -> bytes:
    encoded = ENCODER.tells(list(items))
    ENCODER.turn_ends()
    return encoded


@pytest.fixture
def program() -> FrameReader:
    reader = FrameReader(WORLD, FrameKind.TO_PROGRAM)
    reader.feed(ENCODER.to_program(samples.TO_PROGRAM[0]))
    return reader


def test_the_same_long_answer_to_two_questions_is_one_value(program: FrameReader) -> None:
    (first,), (second,) = (
        program.feed(frame_of(Answered(1, LONG))),
        program.feed(frame_of(Answered(900, LONG))),
    )
    assert (first, second) == (Answered(1, LONG), Answered(900, LONG))
    assert first.answer is second.answer  # type: ignore[union-attr]


def test_another_answer_is_another_value(program: FrameReader) -> None:
    program.feed(frame_of(Answered(1, LONG)))
    assert program.feed(frame_of(Answered(2, listing(100, first=1)))) == [Answered(2, listing(100, first=1))]


def test_only_a_few_are_kept_and_none_that_is_very_long() -> None:
    recent = RecentAnswers()
    huge = listing(KEPT_BYTES_MAX // 16)
    for answer in (*(listing(100, first=n) for n in range(2 * KEPT_MAX)), huge):
        assert recent.find(memoryview(frame_of(Answered(1, answer))[10:])) == (Answered(1, answer),)
    assert list(recent._kept.values()) == [listing(100, first=n) for n in range(KEPT_MAX, 2 * KEPT_MAX)]


def test_a_long_answer_that_is_broken_is_refused_as_any_other(program: FrameReader) -> None:
    body = msgspec.msgpack.decode(frame_of(Answered(1, LONG))[10:])
    body[1][0][2][2][50][0] = 17  # an endpoint that is a number
    (error,) = program.feed(frame(FrameKind.TO_PROGRAM, world_tag(WORLD), msgspec.msgpack.encode(body)))
    assert isinstance(error, Malformed)
    assert program.over


def test_nothing_is_looked_up_before_the_welcome() -> None:
    stranger = FrameReader(WORLD, FrameKind.TO_PROGRAM)
    (error,) = stranger.feed(frame_of(Answered(1, LONG)))
    assert isinstance(error, Malformed)
