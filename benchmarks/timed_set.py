"""A set of servers in virtual time: the production cores, delays between them, and nothing else.

For figures that hold to the millisecond and to the message: what a change costs, without and with a
coordinator that dies at a chosen moment. Whole worlds, with agents and programs, are in `wan_views.py`.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from msgspec.msgpack import encode

from rostra.core.effects import (
    CancelTimer,
    Event,
    LinkDown,
    LinkUp,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
)
from rostra.groups.members import Because
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.agreed.changes import (
    AnyChange,
    GroupChange,
    GroupVerb,
    MemberId,
    Pid,
    ServerId,
    SetMember,
    SetView,
)
from rostra.protocols.agreed.config import SET_LEVEL, AgreedConfig
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.events import ChangeAsked, SetCommitted
from rostra.protocols.agreed.state import founded

GROUP = Group("table", ROOT)

TIMED = AgreedConfig(
    ack_after_s=1.0, commit_after_s=2.0, status_after_s=1.0, stagger_s=0.5, gather_s=0.0, reform_s=0.0
)

Delay = Callable[[str, str], float]


def member(number: int) -> MemberId:
    return MemberId(Endpoint(f"mit.h1/m{number}#1"), (1, number))


def join(number: int, group: Group = GROUP) -> GroupChange:
    return GroupChange(group, GroupVerb.JOIN, (member(number),), f"{group} {number} joins")


def leave(number: int, group: Group = GROUP) -> GroupChange:
    return GroupChange(group, GroupVerb.LEAVE, (member(number),), f"{group} {number} leaves")


def crowd(members: int, group: Group = GROUP) -> GroupChange:
    """All of these at once."""
    return GroupChange(group, GroupVerb.JOIN, tuple(map(member, range(members))), f"{group} crowd")


class TimedSet:
    def __init__(self, names: Sequence[str], delay: Delay, config: AgreedConfig | None = None) -> None:
        members = tuple(
            SetMember(_server(name), 0, place, level=SET_LEVEL) for place, name in enumerate(names)
        )
        view = SetView(1, Pid(ServerId(ROOT, 1), 0), members)
        self.config = config or TIMED
        self.cores = {name: SetCore(ROOT, founded(_server(name), view), self.config) for name in names}
        self.delay = delay
        self.now = 0.0
        self.dead: set[str] = set()
        self.sent: list[tuple[float, str, str, Any]] = []
        self.commits: list[tuple[float, str, AnyChange]] = []
        self._agenda: list[tuple[float, int, str, Event]] = []
        self._order = count()
        self._timers: dict[tuple[str, TimerKey], float] = {}
        for one in names:
            for other in names:
                if one != other:
                    self._step(one, LinkUp(Domain(other), 1))

    def ask(self, name: str, *changes: AnyChange) -> None:
        for change in changes:
            self._step(name, ChangeAsked(change))

    def crash(self, name: str) -> None:
        """From now on it does nothing; the others have not noticed. What it sent is on its way."""
        self.dead.add(name)

    def lose(self, sender: str, to: str) -> None:
        """What is under way between these two does not arrive."""
        self._agenda = [each for each in self._agenda if not _is_from(each, sender, to)]

    def notice(self, dead: str) -> None:
        """All others find its links down, at this moment."""
        for name in self.cores:
            if name not in self.dead:
                self._step(name, LinkDown(Domain(dead), Because(Domain(name), Domain(dead), "silent")))

    def run(self, until: float = inf) -> None:
        self._agenda.sort()
        while self._agenda and self._agenda[0][0] <= until:
            at, _, name, event = heappop(self._agenda)
            if isinstance(event, TimerFired):
                if self._timers.get((name, event.timer)) != at:
                    continue  # cancelled, or set anew
                del self._timers[name, event.timer]
            self.now = at
            self._step(name, event)
        self.now = max(self.now, until) if until < inf else self.now

    def _step(self, name: str, event: Event) -> None:
        if name in self.dead:
            return
        for effect in self.cores[name].step(self.now, event):
            match effect:
                case Send(to, message):
                    self.sent.append((self.now, name, str(to), message))
                    arrives = Received(Domain(name), message)
                    self._push(self.now + self.delay(name, str(to)), str(to), arrives)
                case SetTimer(timer, after_s):
                    self._timers[name, timer] = self.now + after_s
                    self._push(self.now + after_s, name, TimerFired(timer))
                case CancelTimer(timer):
                    self._timers.pop((name, timer), None)
                case SetCommitted(record):
                    self.commits.append((self.now, name, record.proposal.change))

    def _push(self, at: float, name: str, event: Event) -> None:
        heappush(self._agenda, (at, next(self._order), name, event))

    # What came of it

    def when(self, change: AnyChange) -> dict[str, float]:
        """When each server had it."""
        return {name: at for at, name, each in self.commits if each == change}

    def messages(self, since: int = 0) -> Mapping[str, int]:
        return Counter(type(message).__name__ for _, _, _, message in self.sent[since:])

    def bytes_sent(self, since: int = 0) -> int:
        return sum(len(encode(message)) for _, _, _, message in self.sent[since:])


def _server(name: str) -> ServerId:
    return ServerId(Domain(name), 1)


def _is_from(entry: tuple[float, int, str, Event], sender: str, to: str) -> bool:
    _, _, name, event = entry
    return name == to and isinstance(event, Received) and event.sender == sender
