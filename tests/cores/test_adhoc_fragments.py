"""Parts of large messages: whole or not at all."""

import pytest
from support.samples import ANN, CHESS

from rostra.protocols.adhoc.config import AdhocConfig
from rostra.protocols.adhoc.fragments import Fragments
from rostra.protocols.adhoc.messages import Data, Run
from rostra.protocols.adhoc.runs import block_of


@pytest.mark.spec("X-105")
def test_parts_make_the_message_that_they_were_cut_from() -> None:
    config = AdhocConfig(datagram_bytes=100)
    said = Data(ANN, Run(1, 1, block_of([bytes(range(256)) * 4])), 1, 0)
    pieces = list(Fragments(config).pieces(CHESS, said))
    assert len(pieces) == 11
    receiver = Fragments(config)
    assert [receiver.whole(CHESS, piece) for piece in reversed(pieces)][-1] == said


def test_a_run_in_several_datagrams_says_of_none_that_is_still_to_come_that_it_was_said() -> None:
    said = Data(ANN, Run(5, 10, block_of([bytes(40)] * 10)), 14, 2)
    pieces = list(Fragments(AdhocConfig(datagram_bytes=100)).pieces(CHESS, said))
    assert [piece.high for piece in pieces] == [piece.run.end - 1 for piece in pieces] == [6, 8, 10, 12, 14]


def test_parts_that_make_no_message_are_not_handed_on() -> None:
    receiver = Fragments(AdhocConfig())
    assert receiver.whole(CHESS, Data(ANN, Run(1, 1, b"\xc4\x05e"), 1, 0, part=0, parts=2)) is None
    assert receiver.whole(CHESS, Data(ANN, Run(1, 1, b"4"), 1, 0, part=1, parts=2)) is None
