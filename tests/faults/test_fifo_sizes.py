"""Messages of every size between sites that lose some of what is said: all of it arrives, no receiver waits
longer than some rounds of repair take, and repairs cost little more than what was lost.

`python -m benchmarks.fifo_loss` is the same for ten minutes each.
"""

import pytest

from benchmarks.fifo_loss import steady


@pytest.mark.spec("X-083", "X-084", "X-090", "X-105")
@pytest.mark.parametrize(
    ("size", "loss", "for_s"),
    [(100, 0.2, 30.0), (3_000, 0.0, 10.0), (3_000, 0.1, 30.0), (3_000, 0.2, 30.0), (60_000, 0.2, 30.0)],
)
def test_a_stream_of_any_size_is_complete_and_its_repairs_are_few(size, loss, for_s):
    """3,000 bytes at 20 % lost stood still for good after ten seconds, and was repaired 9,000 times a second:
    parts of messages that were whole took the room of those that were not."""
    made = steady(size, loss, for_s)
    assert made.delivered == made.said
    assert made.longest_wait_in_repairs < 30
    assert made.repairs <= 1.5 * made.lost
    assert made.naks <= made.lost + 5


@pytest.mark.spec("X-083", "X-105")
def test_a_mebibyte_at_a_fifth_lost_takes_some_rounds_of_repair():
    made = steady(1 << 20, 0.2, 10.0)
    assert made.delivered == made.said == 5
    assert made.longest_wait_in_repairs < 30
    assert made.repairs <= 1.5 * made.lost
