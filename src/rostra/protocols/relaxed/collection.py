"""Scatter-gather of one group's members: resolve requests that a server has forwarded, which neighbours still
owe a reply, and how joins and leaves that come meanwhile are merged in.

    Question(id, source) ──▶ Collection ◀── replies, joins, leaves, failures, until no neighbour is awaited
                                 │
                                 └──▶ ResolveReply to each source, or the end of a merge

A **collection** gathers the members of one group from one side of the server (Congress's open resolve
requests). It waits for the neighbours that were asked, and applies the notices that arrive from its side
meanwhile. A join counts if its neighbour is on that side, whether it was asked or not: the side is a rule and
not a list of the neighbours at the time of the request (C-119, C-128, T-25). While a neighbour owes its
answer its notices do not count: the answer is authoritative, and a join before it may come from an earlier
period of interest (C-129, T-26).

A **question** is a request that was accepted and is owed one reply. It depends on one collection; at a
cluster on two, one of the other agents and one of the world outside. Only the outer one may be shared: agents
answer each other, so what was collected for one agent lacks that agent's own members (C-174, T-47).

Per group, only a few questions of one neighbour are forwarded at a time; its further ones **wait**, and are
then forwarded as one. A collection starts after the question that it answers, so no answer is stale, and the
load that one neighbour causes for the others is bounded.
"""

from collections import Counter
from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import Final

from rostra.groups.members import Member, Members, Part, Stamp, unite
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed.messages import MessageId, ResolveRequest

AT_ONCE_MAX: Final = 64
"""Questions of one neighbour about one group that are forwarded at a time. Raising it: one that asks without
end costs those who answer more; agents ask once at a time about what they follow."""


class CollectionKind(Enum):
    RESOLVE = "resolve"
    PUSH = "merge push"  # our own list, as a baseline for the parent whose link came up
    PULL = "merge pull"  # the list of the neighbour whose link came up, as a baseline for our children


class Side(IntEnum):
    INNER = 0  # the children
    OUTER = 1  # siblings and parent


class Question:
    __slots__ = ("id", "parts", "source")

    def __init__(self, id: MessageId, source: Domain, parts: "tuple[Collection, ...]") -> None:
        self.id = id
        self.source = source
        self.parts = parts

    @property
    def answered(self) -> bool:
        return not any(part.waiting for part in self.parts)


class Collection:
    __slots__ = ("besides", "group", "id", "kind", "members", "peer", "questions", "rise", "side", "waiting")

    def __init__(
        self,
        id: MessageId,
        group: Group,
        kind: CollectionKind,
        side: Side,
        waiting: tuple[Domain, ...],
        *,
        rise: int = 0,
        peer: Domain | None = None,
        besides: Domain | None = None,
    ) -> None:
        self.id = id  # of the request as it was forwarded
        self.group = group
        self.kind = kind
        self.side = side  # where the answers come from
        self.waiting = set(waiting)
        self.members: dict[Endpoint, Member] = {}
        self.rise = rise  # the row's rise number when it was forwarded (C-099)
        self.peer = peer  # a push is for this neighbour, a pull is from it
        self.besides = besides  # the agent that asks: it answers for itself
        self.questions: list[Question] = []

    def counts(self, peer: Domain, side: Side) -> bool:
        """Does what this neighbour reports now belong in the collected list (C-119, C-128, C-129)?"""
        if side is not self.side or self.kind is CollectionKind.PULL:
            return False  # the only neighbour on the side of a pull is waited for as long as it is open
        return peer not in self.waiting and peer != self.besides

    def add(self, members: Members, complete_for: Part | None = None) -> None:
        if complete_for is not None:
            self.lose(complete_for)
        unite(self.members, members)

    def remove(self, endpoint: Endpoint, stamp: Stamp) -> None:
        known = self.members.get(endpoint)
        if known is not None and known.stamp <= stamp:
            del self.members[endpoint]

    def lose(self, part: Part) -> None:
        """Drop the members in this part of the world."""
        if self.members:
            self.members = {
                endpoint: member for endpoint, member in self.members.items() if not part.covers(endpoint)
            }


class Collections:
    """Every open collection: by the id of its request, by its group, and those that may be shared."""

    def __init__(self) -> None:
        self.questions: dict[MessageId, Question] = {}
        self.asked_by: Counter[Domain] = Counter()  # those that wait included
        self._asked_about: Counter[tuple[Domain, Group]] = Counter()
        self._waiting: dict[tuple[Domain, Group], dict[MessageId, ResolveRequest]] = {}
        self._by_id: tuple[dict[MessageId, Collection], dict[MessageId, Collection]] = ({}, {})
        self._by_group: dict[Group, dict[Collection, None]] = {}
        self._shared: tuple[dict[Group, Collection], dict[Group, Collection]] = ({}, {})

    def __iter__(self) -> Iterator[Collection]:
        """In the order in which they were opened, inner ones first; they may be closed on the way."""
        return iter([*self._by_id[Side.INNER].values(), *self._by_id[Side.OUTER].values()])

    def __len__(self) -> int:
        return len(self._by_id[Side.INNER]) + len(self._by_id[Side.OUTER])

    def find(self, id: MessageId, side: Side) -> Collection | None:
        return self._by_id[side].get(id)

    def of(self, group: Group) -> tuple[Collection, ...]:
        return tuple(self._by_group.get(group, ()))

    def open(self, collection: Collection) -> None:
        self._by_id[collection.side][collection.id] = collection
        self._by_group.setdefault(collection.group, {})[collection] = None

    def close(self, collection: Collection) -> None:
        side, group = collection.side, collection.group
        del self._by_id[side][collection.id]
        del self._by_group[group][collection]
        if not self._by_group[group]:
            del self._by_group[group]
        if self._shared[side].get(group) is collection:
            del self._shared[side][group]

    def share(self, collection: Collection) -> None:
        """From now on later questions may wait for this collection too, until `unshare` (C-174)."""
        self._shared[collection.side][collection.group] = collection

    def unshare(self, group: Group, side: Side) -> None:
        self._shared[side].pop(group, None)

    def unshare_all(self, side: Side) -> None:
        self._shared[side].clear()

    def shared(self, group: Group, side: Side) -> Collection | None:
        return self._shared[side].get(group)

    def ask(self, question: Question) -> None:
        self.questions[question.id] = question
        self.asked_by[question.source] += 1
        self._asked_about[question.source, question.parts[0].group] += 1
        for part in question.parts:
            part.questions.append(question)

    def drop(self, question: Question) -> list[Collection]:
        """Forget a question; return the collections without any question, for the caller to close."""
        del self.questions[question.id]
        self._no_longer(question.source, 1)
        about = (question.source, question.parts[0].group)
        self._asked_about[about] -= 1
        if not self._asked_about[about]:
            del self._asked_about[about]
        for part in question.parts:
            part.questions.remove(question)
        return [part for part in question.parts if not part.questions]

    # Questions that wait until others of the same source about the same group are answered

    def must_wait(self, source: Domain, group: Group) -> bool:
        return self._asked_about.get((source, group), 0) >= AT_ONCE_MAX

    def wait(self, source: Domain, message: ResolveRequest) -> None:
        self.asked_by[source] += 1
        self._waiting.setdefault((source, message.group), {})[message.id] = message

    def is_waiting(self, source: Domain, message: ResolveRequest) -> bool:
        return message.id in self._waiting.get((source, message.group), {})

    def wait_no_longer(self, source: Domain, group: Group) -> tuple[ResolveRequest, ...]:
        waiting = tuple(self._waiting.pop((source, group), {}).values())
        self._no_longer(source, len(waiting))
        return waiting

    def forget_waiting(self, source: Domain) -> None:
        for group in [group for other, group in self._waiting if other == source]:
            self.wait_no_longer(source, group)

    def _no_longer(self, source: Domain, count: int) -> None:
        self.asked_by[source] -= count
        if not self.asked_by[source]:
            del self.asked_by[source]
