"""Storms over groups that speak, on whole nodes: joins, leaves, deaths, cuts, dead delegates, a fifth lost.

`make storm ARGS="--shape fifo"` runs as many as you like; one that fails prints the command that replays it.
"""

import pytest
from support.planted import keep_late_parts

from rostra.sim.fifo_storm import FifoStorm
from rostra.sim.storm import StormFailed, replay_command, storm

EVERY_SEED_THAT_EVER_FAILED = [
    2,  # a member that only speaks was told twice who came
    4,  # a receiver that read late lost the last words of one who left
    39,  # two seconds were too short for last words that were lost four times running
    110,  # one that left and joined again was heard before its leave was, and then once more
    1054,  # two delegates each took the other for the way home of a stream: it was never rid of its messages
    2001,  # a way on which datagrams overtake each other was taken for a narrow one for 24 seconds
    53,  # a delegate that came back kept a tree of its own, which counted more than that of all others
    110204,  # a delegate that was catching up gave a LAN one start, and then a later one, which counted
    120046,  # a sender that was cut off heard that all others had what its delegate would begin with again
    310284,  # of two trees of one number, a delegate used the one and the coordinator the other, for good
]

SHOWN_WITHOUT_A_STORM = [
    1040,  # parts of one message that were late made a good way narrow for ten seconds
    5043,  # a way that was cut for a moment was spoken to with 4 kB a second afterwards
    200251,  # a fellow that left before anybody was listed was told to have left when it was back
    150227,  # a way that had begun to lose one frame in twenty took half a minute for a second's backlog
    150175,  # a sender that was back to receive only was told to have left after it had joined
    150212,  # right, and the checker was wrong: a stream of which nothing came goes on where it began
    130057,  # a rate that was once too fast for a way was never passed: half a minute for a second's work
    130184,  # one frame of a hundred messages that was lost counted as a hundred lost frames
    310290,  # a way was judged by what was lost five seconds earlier, and went on with 600 bytes a second
    340097,  # a rate of which a twentieth had been used was called too fast: 13 seconds for a backlog
    110361,  # the checker took what one said who had joined again for last words of its membership before
    420125,  # a LAN that had just asked for a stream got the half of it: all others had it, and it had left
    340032,  # a stream whose end was told waited for a newcomer that was not owed it: its end was told twice
]
"""What went wrong in these has a test of its own in tests/cores (`test_flow_pace.py`, `test_fifo_reception`,
`test_fifo_member_streams.py`) or in `test_fifo_checkers.py`; they run with those that take long."""

THE_SAME_AGAIN = [
    5070,  # as 5043, with 3 kB
    150407,  # as 150175
    200262,  # as 200251
    130367,  # as 130057 and 130184
]
"""They failed for a reason that another seed shows, and run with those that take long."""


@pytest.mark.spec(
    "X-004", "X-005", "X-006", "X-008", "X-101", "X-120", "X-121", "X-122", "X-124", "X-126", "X-127"
)
@pytest.mark.parametrize(
    "seed",
    [
        *EVERY_SEED_THAT_EVER_FAILED,
        *[pytest.param(each, marks=pytest.mark.long) for each in (*SHOWN_WITHOUT_A_STORM, *THE_SAME_AGAIN)],
    ],
)
def test_everybody_sees_and_has_everything_when_the_sky_clears(seed):
    outcome = storm(seed, "fifo")
    assert outcome.verdicts[0].ok


def test_a_storm_depends_on_its_seed_alone():
    assert FifoStorm(6).blow_over() == FifoStorm(6).blow_over()


@pytest.mark.spec("X-084", "X-105")
def test_a_failing_storm_says_how_to_replay_it(monkeypatch):
    """Streams of large messages that stand still for good, as ours once did."""
    keep_late_parts(monkeypatch)
    with pytest.raises(StormFailed, match=r"has .* up to \d+ of \d+") as failed:
        storm(4, "fifo")
    assert failed.value.fix.endswith(replay_command(4, "fifo"))
