"""Long answers as they came last, found by their bytes.

A program that asks who is in a group mostly asks again, and mostly gets the list that it got before. Decoding
a hundred members takes four times as long as finding out that they are the same hundred. Messages are frozen,
so one may be handed out any number of times, and equal lists share their memory.

Only an answer that has a frame to itself is looked up: that is the usual case of a request, and in a frame of
many notices hardly anything is worth keeping.
"""

from typing import Any, Final

from rostra.protocols.front.messages import Answered
from rostra.wire import shapes
from rostra.wire.shapes import Body

LONG_BYTES: Final = 512
"""Shorter answers are decoded in less time than it takes to look for them."""

KEPT_BYTES_MAX: Final = 64 << 10
KEPT_MAX: Final = 8
"""How long an answer may be to be kept, and how many are. Raising these: about five times as many bytes for
each connection, once they are decoded."""

_ALONE: Final = b"\x92\x04\x91\x93\x01"  # how a `Tells` of one `Answered` begins


class RecentAnswers:
    def __init__(self) -> None:
        self._kept: dict[bytes, Any] = {}  # the latest last

    def find(self, body: Body) -> tuple[Answered, ...] | None:
        """What this frame says, if it is one long answer."""
        if len(body) < LONG_BYTES or bytes(body[: len(_ALONE)]) != _ALONE:
            return None
        try:
            (lone,) = shapes.LONE_ANSWER.decode(body).items
            key = bytes(lone.answer)
            answer = self._kept.get(key)
            if answer is None:
                answer = shapes.ANSWER.decode(lone.answer)
                self._keep(key, answer)
        except shapes.UNDECODABLE:
            return None  # decoding it as a whole will report what is wrong with it
        return (Answered(lone.token, answer),)

    def _keep(self, key: bytes, answer: Any) -> None:
        if len(key) <= KEPT_BYTES_MAX:
            if len(self._kept) >= KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = answer
