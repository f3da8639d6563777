"""The lease by which members of one living side live: it runs out before another side can go on without them.

    host ── LeaseAsked ──▶ server ── ConfirmAsked ──▶ other servers of the core-set
    host ◀── LeaseGiven ── server ◀── LeaseConfirmed ── those that have not given it up

A group whose rule lets one side live at most must not have two for a moment either (H2). So nothing but a
recent answer keeps a member alive:

- **A host** asks its server. For `doubt_after_s` from the question on, by the host's own clock, its members
  live; then they are blocked, in doubt. The server removes members of a host that it lost only when the last
  lease that it gave has run out; a silent host is given up later than that anyway.
- **A server** asks the others of its set. Those that confirmed, and itself, must satisfy the rule: a change
  that went on with these alone would live (`AgreedServer` asks `rules.py` the same question as at a commit).
  Else its members are in doubt. A server that confirmed acknowledges no change that removes the asker, and
  proposes none, for `doubt_after_s`.
- A lease to a host is never longer than the rest of the server's own lease, and of those above it. A group
  that is in doubt at a server is not counted, since its hosts were notified. Meanwhile leases are half as
  long, and a late confirmation that ends before such a lease does not end the doubt.
- A lease is given to a host, not to single members. A host that was blocked when its link broke stays blocked
  after it is back until the core-set has answered its `HostHolds` with a view: views that were sent before
  may be older than its removal.

The asker measures from its question, and the answerer from its answer, which is later, each by its own clock.
So clocks need not agree; they must run at about the same speed. A process that stood still finds that its
lease has run out before it does anything else: `Stack.alarm_at`.

After a change the rule may need more servers than before, while leases from before the acknowledgement are
still valid by the view before. So a commit also prolongs the promises to all servers that acknowledged it
(`GivenLeases.prolong`).

Changes that others agreed on without us may let fewer servers satisfy the rule. So a confirmation names what
its sender has committed and acknowledged, and counts only at a server that knows all of it.
"""

from math import inf
from typing import Final

from msgspec import Struct

from rostra.core.effects import Instant, TimerKey
from rostra.names import Domain, Group, depth, labels, parent
from rostra.protocols.agreed.branch import LeaseAsked, LeaseConfirmed, LeaseGiven
from rostra.protocols.agreed.branches import members_present
from rostra.protocols.agreed.changes import Pid, ServerId
from rostra.protocols.agreed.groups import AgreedGroup, rules_of
from rostra.protocols.agreed.living import is_primary
from rostra.protocols.agreed.rules import verdict
from rostra.protocols.agreed.state import SetState

ALARM: Final[TimerKey] = ("agreed", "", "lease")

IN_DOUBT: Final = "in doubt: too few of the others have answered of late"

QUESTIONS_MAX: Final = 16
"""Of one asker that are not answered yet."""

HISTORY_MAX: Final = 4_096
"""Commits in the time of a lease, at most."""

FOR_EVER: Final = inf
NEVER: Final = -inf


class Questions:
    """Numbered, with the moment at which each was asked."""

    def __init__(self) -> None:
        self._asked: dict[int, Instant] = {}
        self._number = 0

    def ask(self, now: Instant) -> int:
        self._number += 1
        self._asked[self._number] = now
        for number in list(self._asked)[:-QUESTIONS_MAX]:
            del self._asked[number]
        return self._number

    def asked_at(self, number: int) -> Instant | None:
        return self._asked.get(number)

    def forget(self) -> None:
        self._asked.clear()


class BranchLease:
    """What the server above answers: until when we live, by our own clock, for each level."""

    def __init__(self, doubt_after_s: float) -> None:
        self._doubt_after_s = doubt_after_s
        self._questions = Questions()
        self._ends: list[Instant] = []
        self._seen_at = NEVER

    def ask(self, now: Instant) -> LeaseAsked:
        return LeaseAsked(self._questions.ask(now))

    def given(self, answer: LeaseGiven) -> bool:
        """Is it the answer to a question of ours?"""
        asked_at = self._questions.asked_at(answer.number)
        if asked_at is None:
            return False
        ends = [asked_at + min(self._doubt_after_s, left / 1000) for left in answer.lasts_ms]
        before = [*self._ends, *[NEVER] * len(ends)]
        self._ends = [max(pair) for pair in zip(ends, before, strict=False)]
        return True

    def ends_at(self, level: int) -> Instant:
        return self._ends[level] if level < len(self._ends) else NEVER

    def left_ms(self, now: Instant) -> tuple[int, ...]:
        return tuple([max(0, int(1000 * (end - now))) for end in self._ends])

    def lapse(self) -> None:
        """The link is another one, or gone."""
        self._ends = []
        self._questions.forget()

    def saw(self, now: Instant) -> None:
        """A clock that was set back would prolong the lease."""
        if now < self._seen_at:
            self.lapse()
        self._seen_at = now


class Confirmation(Struct, frozen=True):
    until: Instant
    base: Pid
    tried: frozenset[Pid]


class SetLease:
    """Our own lease among the servers of one set."""

    def __init__(self) -> None:
        self.questions = Questions()
        self._answers: dict[ServerId, Confirmation] = {}
        self._history: dict[Pid, None] = {}  # what we committed, the last one last
        self.version = 0  # grows with every answer and commit

    def committed(self, pid: Pid) -> None:
        self.version += 1
        self._history[pid] = None
        for old in list(self._history)[:-HISTORY_MAX]:
            del self._history[old]

    def confirmed(self, who: ServerId, answer: LeaseConfirmed, doubt_after_s: float) -> bool:
        """Is it the answer to a question of ours?"""
        asked_at = self.questions.asked_at(answer.number)
        if asked_at is None:
            return False
        until = asked_at + doubt_after_s
        if who not in self._answers or until >= self._answers[who].until:
            self._answers[who] = Confirmation(until, answer.base, frozenset(answer.tried))
            self.version += 1
        return True

    def counted(self, state: SetState) -> dict[ServerId, Instant]:
        """Until when those live with us that have committed and acknowledged nothing of which we do not know.
        What one acknowledged on a base that we have left behind came with its acknowledgements."""
        unsure = {each.pid for each in state.tried}
        if state.lock is not None:
            unsure.add(state.lock[0].pid)
        found = {}
        for who, each in self._answers.items():
            if who not in state.view.servers or who in state.isolated:
                continue
            is_ahead = each.base not in self._history and each.base != state.base
            if is_ahead:
                is_known = each.base in unsure and not each.tried
            else:
                is_known = each.base != state.base or each.tried <= unsure
            if is_known:
                found[who] = each.until
        return found


def lives_until(state: SetState, known: AgreedGroup, counted: dict[ServerId, Instant]) -> Instant:
    """Until when a change of this group would live, with those that confirmed alone."""
    rules = rules_of(known.kind)
    if rules is None or known.blocked or not known.view.members:
        return FOR_EVER
    if is_primary(known.kind):
        servers = [each.id for each in state.view.members if each.parent]
        ends = [FOR_EVER if each == state.me else counted.get(each, NEVER) for each in servers]
        return max(ends, default=NEVER)
    for end in (FOR_EVER, *sorted(set(counted.values()), reverse=True)):
        here = {state.me, *[who for who, until in counted.items() if until >= end]}
        absent = [each for each in state.view.servers if each not in here]
        if verdict(rules[0], members_present(state.view, known.view.ids, absent), known.living).lives:
            return end
    return NEVER


def core_server(group: Group, host: Domain) -> Domain:
    """Of the servers above this host, the one in the group's core-set."""
    if parent(host) == group.scope:
        return group.scope
    return Domain(".".join(labels(host)[: depth(group.scope) + 1]))


def servers_between(group: Group, host: Domain) -> int:
    """How many there are above this host before that one."""
    return depth(parent(host)) - depth(core_server(group, host))
