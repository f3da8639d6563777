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

from msgspec import Struct

from rostra.errors import DeadlineExceeded
from rostra.groups.items import NAMED_MAX, Gone
from rostra.names import Endpoint, Group

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
    """What became of each member that was called: of those in the view in which the request has its place.
    Who came later was not given the request, and who left and came again will not answer it."""

    def __init__(self, want: str) -> None:
        self._want = want
        self.answers: dict[Endpoint, bytes | Gone] = {}
        self._views: list[_OthersThere] = []  # as of the call, and since
        self._early: dict[Endpoint, bytes] = {}  # answers, before we know the request's place
        self._waiting: dict[Endpoint, None] = {}
        self._called: int | None = None  # members; none: we do not know which
        self._number = 0  # of the last view

    def viewed(self, number: int, others: Iterable[Endpoint], came: Iterable[Endpoint]) -> None:
        """The other members of a view, and which of them came with it."""
        view = _OthersThere(number, tuple(others), frozenset(came))
        if self._called is None:
            self._views.append(view)
        else:
            self._lose(view)

    def placed(self, number: int) -> None:
        """The request has its place in the view with this number. A program that reads late may not have that
        view yet: then the last one that it has is the nearest."""
        at = next((nth for nth, each in enumerate(self._views) if each.number == number), -1)
        view, later = self._views[at], self._views[at:][1:]
        self._called, self._number = len(view.others), view.number
        self._waiting = dict.fromkeys(view.others)
        for who, data in self._early.items():
            self.answered(who, data)
        for each in later:
            self._lose(each)

    def answered(self, who: Endpoint, data: bytes) -> None:
        if self._called is None:
            self._early.setdefault(who, data)
        elif who in self._waiting:
            del self._waiting[who]
            self.answers[who] = data

    def _lose(self, view: "_OthersThere") -> None:
        came = view.came if view.number != self._number else frozenset()  # else a standstill is over
        self._number = view.number
        stay = frozenset(view.others) - came
        for each in [each for each in self._waiting if each not in stay]:
            del self._waiting[each]
            self.answers[each] = Gone(each)

    def check_silent(self, group: Group, deadline_s: float | None) -> None:
        """The deadline has passed: raise who were called, are there, and have not answered."""
        if silent := list(self._waiting):
            named = ", ".join(silent[:NAMED_MAX])
            named += f" and {len(silent) - NAMED_MAX} more" if len(silent) > NAMED_MAX else ""
            raise DeadlineExceeded(
                f"{named} did not answer a call to {group} within {deadline_s:g} s",
                fix='allow more time, or ask with want="first" or want="majority"',
            ) from None

    @property
    def is_done(self) -> bool:
        if self._called is None:
            return False
        given = sum(isinstance(each, bytes) for each in self.answers.values())
        match self._want:
            case "first":
                return given > 0 or not self._waiting
            case "majority":
                return 2 * given > self._called or not self._waiting
        return not self._waiting


class _OthersThere(Struct, frozen=True):
    number: int
    others: tuple[Endpoint, ...]
    came: frozenset[Endpoint]
