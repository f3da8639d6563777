"""How fast a delegate speaks to another one: as fast as it likes, until most of what it says is lost."""

from random import Random

import pytest
from msgspec.structs import replace

from rostra.names import Domain, Endpoint, Group
from rostra.protocols.flow.messages import Data, Nak, Parity, Run
from rostra.protocols.flow.pace import Pace

G = Group("g", Domain("world"))
A = Endpoint("huji.h1/a#1")
MIT = Domain("mit")
AGAIN_S = 0.1


def frame(number: int, size: int = 436) -> Data:
    """500 bytes with what is around it."""
    return Data(A, Run(number, 1, b"x" * size), number, 0)


def ask(pace: Pace, now: float, first: int, last: int) -> tuple[tuple[int, int], ...]:
    """Which of these numbers are to be repaired?"""
    nak = pace.asked(now, G, Nak(A, ((first, last),), MIT), AGAIN_S)
    pace.heard(now, AGAIN_S)
    return () if nak is None else nak.ranges


def narrow() -> Pace:
    """Of twenty frames in a fifth of a second, two arrived: 5000 bytes per second."""
    pace = Pace(200)
    assert all(pace.send(0.0, G, frame(number)) for number in range(1, 21))
    assert ask(pace, 0.2, 3, 20) == ((3, 20),)
    assert pace.rate == pytest.approx(5000.0)
    return pace


@pytest.mark.spec("X-090")
def test_a_way_that_loses_most_of_it_is_spoken_to_no_faster_than_it_can_take():
    pace = narrow()
    assert pace.send(0.2, G, frame(3)), "the first has its turn at once"
    assert not pace.send(0.2, G, frame(4)) and not pace.send(0.2, G, frame(5))
    assert pace.wait(0.2) == pytest.approx(0.1), "500 bytes at 5000 per second"
    assert [each.frame.run.first for each in pace.due(0.3)] == [4]
    assert pace.due(0.35) == [] and [each.frame.run.first for each in pace.due(0.4)] == [5]
    assert pace.wait(0.4) is None


@pytest.mark.spec("X-084", "X-090")
@pytest.mark.parametrize("lost", [0, 4, 9])
def test_a_way_that_loses_some_of_it_is_not_slowed_down(lost):
    pace = Pace(200)
    for number in range(1, 21):
        pace.send(0.0, G, frame(number))
    if lost:
        ask(pace, 0.2, 1, lost)
    assert pace.rate is None


@pytest.mark.spec("X-084", "X-090")
def test_a_way_that_loses_a_fifth_of_streams_of_which_a_fifth_never_came_is_not_narrow():
    """Ten minutes of twenty frames a second. Whoever is at the other end asks for what was lost on this way
    and for what this delegate misses itself: paced by that, streams were once eight seconds late."""
    pace, luck, missing = Pace(1200), Random("a fifth"), []
    for number in range(1, 12_001):
        now = number / 20
        came = luck.random() > 0.2
        if came:
            assert pace.send(now, G, frame(number, size=1)), f"paced after {now} s"
        if not came or luck.random() < 0.2:
            missing.append((number, now))
        while missing and missing[0][1] < now - 0.25:
            each, _ = missing.pop(0)
            ask(pace, now, each, each)
    assert pace.rate is None


@pytest.mark.spec("X-084", "X-090")
def test_a_way_that_loses_a_fifth_of_many_streams_is_not_narrow():
    """Of a stream that says little, the other end knows little but what it misses."""
    pace, luck, missing = Pace(1200), Random("many"), []
    for number in range(1, 12_001):
        now, stream = number / 20, Endpoint(f"huji.h1/s{number % 30}#1")
        assert pace.send(now, G, Data(stream, Run(number // 30, 1, b"x"), number // 30, 0)), f"after {now} s"
        if luck.random() < 0.2:
            missing.append((stream, number // 30, now))
        while missing and missing[0][2] < now - 0.25:
            stream, each, _ = missing.pop(0)
            pace.asked(now, G, Nak(stream, ((each, each),), MIT), AGAIN_S)
    assert pace.rate is None


@pytest.mark.spec("X-090")
def test_a_way_that_loses_most_of_a_steady_stream_is_narrow():
    """What was said in the last round trip cannot have been asked for yet, and does not speak for the way."""
    pace, lost = Pace(200), []
    for number in range(1, 401):
        now = number / 100
        if not pace.send(now, G, frame(number)):
            break
        if number % 5:
            lost.append((number, now))
        while lost and lost[0][1] < now - 0.09:
            each, _ = lost.pop(0)
            ask(pace, now, each, each)
    assert pace.rate is not None and now < 1.5


def test_a_lossy_way_that_is_called_narrow_by_mistake_is_soon_as_fast_as_before():
    """It is known to lose a fifth, so a fifth lost is no reason to speak ever more slowly."""
    pace, luck, now, lost = Pace(200), Random("a mistake"), 0.0, []
    number = 0
    while now < 40.0:
        number, now = number + 1, now + 0.05
        pace.send(now, G, frame(number))
        pace.due(now)
        cut_off = 20.0 < now < 21.5
        if cut_off or luck.random() < 0.2:
            lost.append((number, now))
        while not cut_off and lost and lost[0][1] < now - 0.25:
            each, _ = lost.pop(0)
            ask(pace, now, each, each)
    assert pace.waiting == 0 and (pace.rate is None or pace.rate > 20 * 500)


def test_a_way_that_was_cut_for_a_while_is_not_narrow():
    pace = Pace(200)
    for number in range(1, 101):
        pace.send(number / 20, G, frame(number))
    assert ask(pace, 5.1, 1, 100) == ((1, 100),)
    assert pace.rate is None


@pytest.mark.spec("X-090")
def test_what_waits_for_its_turn_or_was_just_sent_is_not_repaired_twice():
    pace = narrow()
    for number in (3, 4, 5):
        pace.send(0.2, G, frame(number))
    assert ask(pace, 0.25, 3, 7) == ((6, 7),), "3 is on its way, 4 and 5 are waiting"
    pace.due(0.3)
    pace.due(0.4)
    assert ask(pace, 1.4, 3, 4) == ((3, 4),), "so long ago that they must be lost"


@pytest.mark.spec("X-090")
def test_a_way_that_is_narrow_has_no_room_for_the_second_copy_of_an_answer():
    pace = narrow()
    first, second = (replace(frame(number), repair=True) for number in (3, 4))
    assert pace.send(0.2, G, first) and not pace.send(0.2, G, first), "it has just left"
    assert not pace.send(0.2, G, second) and not pace.send(0.2, G, second), "it waits for its turn"
    assert [each.frame for each in pace.due(0.3)] == [second]
    assert pace.waiting == 0


def paced(pace: Pace, begin: float, arrives, for_s: float) -> float:
    """Repair one frame after the other for so long; what does not arrive is asked for. Returns when."""
    now, number, lost = begin, 100, {}
    while now < begin + for_s:
        pace.send(now, G, frame(number))
        for each in [frame(number)] if not pace.waiting else [w.frame for w in pace.due(now)]:
            if not arrives(now):
                lost[each.run.first] = now
        number += 1
        now += 0.02
        for each, at in list(lost.items()):
            if now - at > 0.3 and ask(pace, now, each, each):
                del lost[each]
        pace.heard(now, AGAIN_S)
    return now


@pytest.mark.spec("X-090")
def test_the_rate_finds_what_the_way_can_take():
    """2000 bytes per second: one frame each quarter of a second."""
    pace = narrow()
    free_at = 0.0

    def arrives(now: float) -> bool:
        nonlocal free_at
        if free_at > now + 0.3:
            return False
        free_at = max(now, free_at) + 0.25
        return True

    paced(pace, 0.2, arrives, 60.0)
    assert pace.rate is not None and 1000.0 < pace.rate < 3500.0


@pytest.mark.spec("X-084", "X-090")
def test_a_way_that_loses_the_same_share_however_slowly_one_speaks_is_not_slowed_down():
    pace = narrow()
    turn = 0

    def arrives(now: float) -> bool:
        nonlocal turn
        turn += 1
        return turn % 10 < 4

    paced(pace, 0.2, arrives, 60.0)
    assert pace.rate is not None and pace.rate >= 4000.0


def test_a_way_is_unlimited_again_when_nothing_has_waited_for_a_while():
    pace = narrow()
    for now in (1.0, 4.0, 7.0, 10.0, 13.0, 16.0):
        pace.send(now, G, frame(int(now) + 100))
        pace.heard(now + 0.5, AGAIN_S)
    assert pace.rate is None
    assert all(pace.send(20.0, G, frame(number)) for number in range(200, 300))


def test_parities_wait_for_their_turn_too():
    pace = narrow()
    pace.send(0.2, G, frame(3))
    assert not pace.send(0.2, G, Parity(1, 8, b"x" * 436, (436,) * 8))
    assert len(pace.due(0.3)) == 1


def large(number: int, *, parts: int = 40) -> list[Data]:
    return [
        Data(A, Run(number, 1, b"x" * 136), number, 0, offset=136 * n, size=136 * parts) for n in range(parts)
    ]


@pytest.mark.spec("X-090", "X-105")
def test_a_message_in_many_parts_that_is_late_does_not_make_a_way_narrow():
    """All its parts leave at one moment. Asked for once too early, they slowed a good way down for ten
    seconds."""
    pace, now = Pace(200), 0.0
    for number in range(1, 100):
        now += 0.1
        assert all(pace.send(now, G, part) for part in large(number))
        if number % 4 == 0:
            ask(pace, now + 0.05, number, number)
    assert pace.rate is None


@pytest.mark.spec("X-090", "X-105")
def test_a_way_that_loses_most_parts_of_most_messages_is_narrow():
    pace, now = Pace(200), 0.0
    for number in range(1, 100):
        now += 0.1
        if False in [pace.send(now, G, part) for part in large(number)]:
            break
        missing = ((136 * 2, 136 * 40 - 1),)
        pace.asked(now + 0.09, G, Nak(A, ((number, number),), MIT, 1, ((number, missing),)), AGAIN_S)
    assert pace.rate is not None and number < 40


@pytest.mark.spec("X-090", "X-105")
def test_on_a_narrow_way_every_part_of_a_repair_has_its_turn_and_its_second_copy_none():
    pace = narrow()
    parts = [replace(part, repair=True) for part in large(3, parts=4)]
    gone = [part for part in parts for _ in range(2) if pace.send(0.2, G, part)]
    for nth in range(1, 200):
        gone += [each.frame for each in pace.due(0.2 + nth / 50)]
    assert gone == parts


@pytest.mark.spec("X-092")
def test_what_a_way_is_judged_by_is_forgotten_where_nothing_is_asked_for():
    pace = Pace(200)
    for number in range(1, 2000):
        for part in large(number, parts=3):
            pace.send(number / 10, G, part)
    assert len(pace._probe.parts) < 100 and len(pace._probe.sent_units[G, A]) < 100


@pytest.mark.spec("X-090", "X-092")
def test_a_way_that_loses_nothing_any_more_is_faster_though_nothing_is_asked_for():
    """50,000 bytes per second are said, on a way that took 5,000 for a while: of one that is not narrow any
    more nothing is asked for again, and what was sent there must not be remembered for ever."""
    pace = narrow()
    for number in range(100, 4100):
        now = number / 100
        pace.send(now, G, frame(number))
        pace.due(now)
        pace.heard(now, AGAIN_S)
    assert pace.rate is not None and pace.rate > 50_000
    assert len(pace._sent_at) < 2000


@pytest.mark.spec("X-092")
def test_a_question_for_more_numbers_than_there_are_is_answered_at_once():
    pace = narrow()
    pace.send(0.2, G, frame(3))
    assert ask(pace, 0.25, 1, 2**62) == ((1, 2), (4, 2**62))


@pytest.mark.spec("X-090")
def test_what_is_on_its_way_is_found_whether_a_question_is_wider_than_that_or_not():
    pace = narrow()
    for number in range(3, 7):
        pace.send(0.2, G, frame(number))
    assert ask(pace, 0.2, 3, 6) == ()
    assert ask(pace, 0.2, 5, 8) == ((7, 8),)
    assert ask(pace, 0.2, 1, 1000) == ((1, 2), (7, 1000))


@pytest.mark.spec("X-090")
def test_a_way_that_was_cut_for_a_moment_may_be_said_all_of_it_again():
    """What is judged is a few frames of it; by these alone, a busy way went on with a thirtieth of what it
    was used to, and its streams were ten seconds late."""
    pace, number = Pace(200), 0
    while pace.rate is None and number < 2000:
        number += 1
        now = number / 200
        pace.send(now, G, frame(number))
        if now > 4.0 and number % 10 == 0:  # cut since 3.5 s
            ask(pace, now, max(700, number - 200), number)
    assert pace.rate is not None and pace.rate >= 0.9 * 200 * 500


@pytest.mark.spec("X-090")
def test_a_lost_frame_with_many_messages_is_one_loss_and_not_many():
    """300 short messages that a program said at once leave in a few frames. Counted one by one, two lost
    frames outweighed seventeen that arrived, and streams were eleven seconds late on a way that lost a
    fifth."""
    pace, first = Pace(1200), 1
    for nth in range(1, 20):
        count = 100 if nth in (3, 4, 5) else 1
        pace.send(nth / 50, G, Data(A, Run(first, count, b"x" * 300), first, 0))
        first += count
    ask(pace, 0.6, 3, 202)
    ask(pace, 3.0, 3, 202)
    assert pace.rate is None


@pytest.mark.spec("X-090")
def test_a_way_that_has_begun_to_lose_a_little_is_soon_fast_again():
    """It lost nothing while it was unlimited. Then each loss slowed it down: half a minute for a second's
    backlog, on a way that lost one frame in twenty."""
    pace, turn = narrow(), 0

    def arrives(now: float) -> bool:
        nonlocal turn
        turn += 1
        return turn % 20 != 0

    paced(pace, 0.2, arrives, 5.0)
    assert pace.rate is not None and pace.rate > 75_000.0


@pytest.mark.spec("X-090")
def test_a_rate_that_was_once_too_fast_is_passed_and_forgotten():
    """By bad luck a paced way lost two of eight frames. What was too fast then grew as the rate did, by a
    tenth at a time: it was never passed, and a backlog of a thousand frames was not sent in half a minute."""
    pace = narrow()
    turn = 0

    def arrives(now: float) -> bool:
        nonlocal turn
        turn += 1
        return turn not in (5, 6, 7, 8)

    now = paced(pace, 0.2, arrives, 3.0)
    assert pace.rate is not None and pace.rate < 5000.0 < 2 * pace._too_fast, "slower, for a reason"
    paced(pace, now, arrives, 20.0)
    assert pace.rate > 50_000.0


@pytest.mark.spec("X-090")
def test_what_is_asked_for_long_after_it_was_sent_says_nothing_about_the_rate():
    """The other end was cut off, and asked five seconds later. What had arrived by then, divided by the time,
    was a hundred bytes per second; the next stream was never through with its first message."""
    pace = Pace(1200)
    for number in range(1, 21):
        pace.send(number / 50, G, frame(number))
    ask(pace, 0.45, 2, 3)  # in time for what has arrived, too early for a judgement
    ask(pace, 5.0, 2, 20)
    assert pace.rate is None


@pytest.mark.spec("X-090")
def test_two_lost_frames_of_ten_do_not_make_a_rate_too_fast():
    """The way had lost nothing before, so that chance was thought to explain nothing."""
    pace, turn = Pace(200), 0
    pace._lower(0.0, 10_000.0, 0.9, rate=None)

    def arrives(now: float) -> bool:
        nonlocal turn
        turn += 1
        return turn % 10 not in (3, 7) or turn > 40

    paced(pace, 0.0, arrives, 2.0)
    assert pace.rate is not None and pace.rate >= 10_000.0


@pytest.mark.spec("X-090")
def test_a_rate_that_was_hardly_used_is_not_called_too_fast():
    """A way that was allowed 300,000 bytes per second lost four of the ten frames that were said in a second.
    It was led back to the 300,000, of which nothing was known, by a tenth at a time: a backlog of a megabyte
    kept others waiting for 13 seconds, though nothing was lost any more."""
    pace = Pace(1200)
    pace._lower(0.0, 300_000.0, 0.5, rate=None)
    for number in range(1, 11):
        assert pace.send(number / 10, G, frame(number, size=1200)), "nothing has to wait"
    pace.heard(1.1, AGAIN_S)
    ask(pace, 2.0, 1, 4)
    now = 3.2
    pace.heard(now, AGAIN_S)
    assert pace.rate is not None and pace.rate < 10_000.0, "slower, for a reason"
    for number in range(100, 900):
        pace.send(now, G, frame(number, size=1200))
    while (wait_s := pace.wait(now)) is not None and now < 13.2:
        now += wait_s
        pace.due(now)
        pace.heard(now, AGAIN_S)
    assert not pace.waiting
