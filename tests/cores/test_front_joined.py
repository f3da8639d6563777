"""Blocks that one speaker hands over faster than they are taken go on as one."""

from typing import Any

from support.samples import CHESS, PAYROLL

from rostra.protocols.flow.runs import block_of
from rostra.protocols.front.session import joined
from rostra.wire import Ping, Submit
from rostra.wire.reader import Arrived


def submit(endpoint: int, count: int, group: Any = CHESS) -> Submit:
    return Submit(endpoint, group, count, block_of([b"x" * 98] * count), float(count))


def test_blocks_of_one_speaker_that_come_together_are_one() -> None:
    items: list[Arrived] = [submit(7, 2), submit(7, 3)]
    assert list(joined(items, 1000)) == [Submit(7, CHESS, 5, block_of([b"x" * 98] * 5), 2.0)]


def test_blocks_are_joined_in_order_within_a_bound_and_of_one_speaker_in_one_group_only() -> None:
    ping: Any = Ping(1)
    for items in (
        [submit(7, 2), submit(8, 2)],
        [submit(7, 2), submit(7, 2, PAYROLL)],
        [submit(7, 2), ping, submit(7, 2)],
        [submit(7, 6), submit(7, 6)],  # 1200 bytes
        [submit(7, 12)],
    ):
        assert list(joined(list(items), 1000)) == items
