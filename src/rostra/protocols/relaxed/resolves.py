"""The resolve requests that an agent has sent to its domain server, and which calls wait for each answer.

    programs ── Resolve ──▶ Question ── waits for one or more ──▶ OpenResolve ── ResolveRequest ──▶ server
             ◀── Answer ──                                             │ ◀─────── ResolveReply ───
    programs ◀── Tell ── new followers of a group ──────── wait for ───┘

Where we differ from the paper: see `local.py`.
"""

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any, Final

from msgspec import Struct, field

from rostra.core.effects import Answer, CancelTimer, Effect, Ignored, Instant, Send, SetTimer, Tell
from rostra.errors import DeadlineExceeded
from rostra.groups.members import Members, names_led
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed.events import SignpostsFound
from rostra.protocols.relaxed.local_state import Presence
from rostra.protocols.relaxed.messages import MessageId, ResolveRequest
from rostra.protocols.relaxed.requests import Absolute, Resolved, denied

DEADLINE: Final = ("relaxed", "deadline")  # with the token of a question: the timer that ends its patience

AUTO: Final = None
"""In place of a waiter's token: there was no call, the agent resolves by itself."""

Waiter = tuple[Endpoint, int | None]
"""Who waits for an answer, and for which of its calls (or AUTO). Two calls are two waiters (C-040)."""


class QueryKind(Enum):
    RESOLVE = "resolve"
    MERGE = "merge"  # asked by the agent after its link came up; the answer is reported as joins


class OpenResolve(Struct, eq=False):
    """One request that the agent sent to its domain server and that is not answered yet."""

    id: MessageId
    group: Group
    kind: QueryKind
    asked_at: Instant
    followed: bool  # our interest in the group was ALL when we asked
    steady: bool = True  # our interest in the group has not changed since
    waiters: dict[Waiter, None] = field(default_factory=dict)  # in the order of their calls

    @property
    def fresh(self) -> bool:
        """No change is lost between the answer and the notices that follow it (C-110)."""
        return self.followed and self.steady

    def can_be_shared(self, now: Instant) -> bool:
        """May a question of this moment wait for the same answer?

        Yes if the request is fresh. Yes also if it was made in this very instant: messages take time, so
        no answer can be older than the second question."""
        return self.kind is QueryKind.RESOLVE and self.steady and (self.followed or self.asked_at == now)


class OpenQuery(Struct, eq=False):
    """A program's resolve that waits for the servers: for one group, or for one in every enclosing scope."""

    endpoint: Endpoint
    token: int
    scopes: tuple[Domain, ...] | None  # None: it named its scope
    timed: bool  # a deadline's timer is running
    found: dict[Domain, Members] = field(default_factory=dict)
    isolated: bool = False
    waits_for: dict[MessageId, OpenResolve] = field(default_factory=dict)


class Resolves:
    def __init__(
        self, gms: Domain, endpoints: Mapping[Endpoint, Presence], new_id: Callable[[], MessageId]
    ) -> None:
        self.open: dict[MessageId, OpenResolve] = {}  # in the order of asking (C-086)
        self.of_group: dict[Group, dict[MessageId, OpenResolve]] = {}  # the same by group, in the same order
        self.questions: dict[int, OpenQuery] = {}
        self._gms = gms
        self._endpoints = endpoints
        self._new_id = new_id

    def about(self, group: Group) -> Collection[OpenResolve]:
        """What we have asked about a group, oldest first: at most one merge, before all resolves."""
        return self.of_group.get(group, {}).values()

    def wait(self, question: OpenQuery, deadline_s: float | None, out: list[Effect]) -> None:
        """Keep a program's resolve until the servers have answered."""
        self.questions[question.token] = question
        self._endpoints[question.endpoint].questions.add(question.token)
        if deadline_s is not None:
            question.timed = True
            out.append(SetTimer((*DEADLINE, question.token), deadline_s))

    def expired(self, token: int, out: list[Effect]) -> None:
        if token not in self.questions:
            out.append(Ignored("TimerFired", why="nothing waits for it"))
            return
        question = self.questions[token]
        question.timed = False
        self.give_up(question, out)
        late = DeadlineExceeded(
            "the servers did not answer in time", fix="ask again, allow more time, or ask a narrower scope"
        )
        out.append(Answer(token, denied(late)))

    def ask_for(
        self, now: Instant, group: Group, waiter: Waiter, followed: bool, out: list[Effect]
    ) -> OpenResolve:
        """C-107: share the newest open request if that is safe, or make a new one."""
        asked = self.of_group.get(group)
        entry = next(reversed(asked.values())) if asked else None
        if entry is None or not entry.can_be_shared(now):
            entry = self.ask(now, group, QueryKind.RESOLVE, followed, out)
        entry.waiters[waiter] = None
        return entry

    def ask(
        self, now: Instant, group: Group, kind: QueryKind, followed: bool, out: list[Effect]
    ) -> OpenResolve:
        entry = OpenResolve(self._new_id(), group, kind, now, followed)
        self.open[entry.id] = entry
        self.of_group.setdefault(group, {})[entry.id] = entry
        out.append(Send(self._gms, ResolveRequest(entry.id, group)))
        return entry

    def close(self, entry: OpenResolve) -> None:
        del self.open[entry.id]
        of_group = self.of_group[entry.group]
        del of_group[entry.id]
        if not of_group:
            del self.of_group[entry.group]

    def settle_up_to(self, entry: OpenResolve, absolute: Absolute, out: list[Effect]) -> None:
        """An answer also settles every earlier question about the group (T-21)."""
        for earlier in list(self.about(entry.group)):
            if earlier.kind is QueryKind.RESOLVE:
                self.settle(earlier, absolute, out)
            if earlier is entry:
                break

    def settle(self, entry: OpenResolve, absolute: Absolute, out: list[Effect]) -> None:
        """Answer the calls that wait for this request, each endpoint's in their order; and all followers that
        wait without a call by one notice."""
        self.close(entry)
        first: list[int] = []  # calls that came before the one that the agent tells
        told: dict[Endpoint, None] = {}
        later: list[int] = []
        for me, token in entry.waiters:
            if token is AUTO:
                told[me] = None
            else:
                (later if me in told else first).append(token)
        for token in first:
            self._answer(entry, token, absolute, out)
        if told:
            out.append(Tell(tuple(told), absolute))
        for token in later:
            self._answer(entry, token, absolute, out)

    def _answer(self, entry: OpenResolve, token: int, absolute: Absolute, out: list[Effect]) -> None:
        question = self.questions[token]
        del question.waits_for[entry.id]
        self.answer(question, absolute, out)

    def answer(self, question: OpenQuery, absolute: Absolute, out: list[Effect]) -> None:
        """One of the answers that a question waits for; it is answered when it has all of them."""
        if question.scopes is None:
            result: Absolute | Resolved = absolute
        else:
            question.found[absolute.group.scope] = absolute.members
            question.isolated |= absolute.isolated
            if len(question.found) < len(question.scopes):
                return
            result = Resolved(tuple([(s, question.found[s]) for s in question.scopes]), question.isolated)
        self._forget_question(question, out)
        lists = (absolute.members,) if question.scopes is None else question.found.values()
        is_programs = question.token >= 0  # services ask for what the directory has
        if is_programs and any(map(names_led, lists)):
            out.append(SignpostsFound(question.endpoint, question.token, absolute.group.name, result))
        else:
            out.append(Answer(question.token, result))

    def give_up(self, question: OpenQuery, out: list[Effect]) -> None:
        """No call waits for this answer any more."""
        for entry in list(question.waits_for.values()):
            self.stop_waiting(entry, (question.endpoint, question.token))
        self._forget_question(question, out)

    def stop_waiting(self, entry: OpenResolve, waiter: Waiter) -> None:
        if waiter in entry.waiters:
            del entry.waiters[waiter]
            if not entry.waiters:
                self.close(entry)

    def _forget_question(self, question: OpenQuery, out: list[Effect]) -> None:
        if self.questions.pop(question.token, None) is not None:
            self._endpoints[question.endpoint].questions.discard(question.token)
        if question.timed:
            out.append(CancelTimer((*DEADLINE, question.token)))

    def document(self) -> list[dict[str, Any]]:
        """For people and tools."""
        return [
            {
                "id": entry.id.sequence,
                "group": str(entry.group),
                "kind": entry.kind.value,
                "fresh": entry.fresh,
                "waiters": list(entry.waiters),
            }
            for entry in self.open.values()
        ]
