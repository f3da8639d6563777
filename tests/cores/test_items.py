"""The items that groups with atomic delivery will give are there, and change nothing for the others."""

import asyncio
from typing import get_args

from rostra.groups.items import AtomicItem, Blocked, CallAsked, Message, StateAsked, View
from rostra.names import Endpoint

ANN = Endpoint("eu.h1/ann#1")


def test_a_message_has_a_position_only_where_all_have_one_order() -> None:
    assert Message(ANN, b"e4", 1).position == 0
    match Message(ANN, b"e4", 1, position=812):
        case Message(sender, body, position=position):
            assert (sender, body, position) == (ANN, b"e4", 812)


def test_a_member_that_is_asked_for_the_state_gives_it_in_pieces() -> None:
    given: list[bytes] = []

    async def give(piece: bytes) -> None:
        given.append(piece)

    asked = StateAsked(ANN, give)

    async def answer() -> None:
        for piece in (b"white", b"black"):
            await asked.give(piece)

    asyncio.run(answer())
    assert (asked.to, given) == (ANN, [b"white", b"black"])
    assert set(get_args(AtomicItem)) == {View, Blocked, Message, StateAsked, CallAsked}
