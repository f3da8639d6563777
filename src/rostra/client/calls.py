"""Calls to a group with one order: every member gets the request at the same place, and answers its caller.

    caller ── request, in the order ──▶ every member: `CallAsked`
           ◀── answer, to the caller alone ── member
           ◀── a view without the member ──── `Gone`: it will not answer

A request is a message of the group that begins with a mark; a plain message that begins like it is sent with
another mark before it, so what a program sends is never taken for something else.
"""

from collections.abc import Iterable
from operator import itemgetter
from typing import Final, Literal

from rostra.groups.items import Gone
from rostra.names import Endpoint

Want = Literal["all", "first", "majority"]
WANTS: Final = ("all", "first", "majority")

MARK: Final = b"\xc1"
PLAIN: Final = b"\xc1\x00"  # before a message of a program that begins with the mark itself
REQUEST: Final = b"\xc1\x01"
ANSWER: Final = b"\xc1\x02"
TOKEN_BYTES: Final = 16

CALLS_REMEMBERED: Final = 10_000
"""Calls that are over, whose late answers are dropped."""


_FIRST: Final = itemgetter(slice(1))


def escaped(payload: bytes) -> bytes:
    return PLAIN + payload if payload[:1] == MARK else payload


def has_marks(bodies: Iterable[bytes]) -> bool:
    return MARK in map(_FIRST, bodies)


def all_escaped(payloads: list[bytes]) -> list[bytes]:
    return [escaped(each) for each in payloads] if has_marks(payloads) else payloads


def request(token: bytes, payload: bytes) -> bytes:
    return REQUEST + token + payload


def answer(token: bytes, payload: bytes) -> bytes:
    return ANSWER + token + payload


def opened(data: bytes) -> tuple[bytes, bytes, bytes]:
    """(mark, token, rest) of a message: the mark is empty for a plain one."""
    if data[:1] != MARK:
        return b"", b"", data
    mark, at = data[:2], 2 + TOKEN_BYTES
    if mark in (REQUEST, ANSWER) and len(data) >= at:
        return mark, data[2:at], data[at:]
    return b"", b"", data[2:] if mark == PLAIN else data


class CallTally:
    """The members that were called, with their answers. It is complete when each has answered or is gone."""

    def __init__(self, want: str, members: Iterable[Endpoint]) -> None:
        self._want = want
        self.answers: dict[Endpoint, bytes | Gone] = {}
        self._waiting: dict[Endpoint, None] = dict.fromkeys(members)
        self._called = len(self._waiting)

    def called(self, members: Iterable[Endpoint]) -> None:
        """The request has its place, in a view of these."""
        for each in members:
            if each not in self._waiting and each not in self.answers:
                self._waiting[each] = None
                self._called += 1

    def answered(self, who: Endpoint, data: bytes) -> None:
        if who in self._waiting:
            del self._waiting[who]
            self.answers[who] = data

    def viewed(self, members: Iterable[Endpoint]) -> None:
        here = {*members}
        for each in [each for each in self._waiting if each not in here]:
            del self._waiting[each]
            self.answers[each] = Gone(each)

    @property
    def is_done(self) -> bool:
        given = sum(isinstance(each, bytes) for each in self.answers.values())
        match self._want:
            case "first":
                return given > 0 or not self._waiting
            case "majority":
                return 2 * given > self._called or not self._waiting
        return not self._waiting
