"""The messages between `rostra leave` and `rostra join`, two programs of one host.

They are sent as any message between endpoints is. Only `rostra join` understands them, and it obeys only
endpoints of its own host: a user who may open one there may as well kill the process.
"""

from typing import Final

import msgspec
from msgspec import Struct

from rostra.errors import UNDECODABLE

LEAVE: Final = "rostra leave"
LEFT: Final = "rostra left"


class LeaveOrder(Struct, frozen=True, tag=LEAVE, tag_field="order"):
    group: str  # as it prints; empty: whichever you are in
    note: str = ""  # your last words

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


class LeaveReply(Struct, frozen=True, tag=LEFT, tag_field="order"):
    endpoint: str
    group: str

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def parse_order(data: bytes) -> LeaveOrder | None:
    """None if this is something else, which is not ours to judge."""
    try:
        return msgspec.json.decode(data, type=LeaveOrder)
    except UNDECODABLE:
        return None


def parse_answer(data: bytes) -> LeaveReply | None:
    try:
        return msgspec.json.decode(data, type=LeaveReply)
    except UNDECODABLE:
        return None
