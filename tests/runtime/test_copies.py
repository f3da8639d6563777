"""One copy for all endpoints of a program, beside a copy for each: they must never differ once all has
arrived.

A real local server tells three endpoints of one program about two groups. Questions and notices wait in
queues of any length between the two. A domain that answers at once stands for the rest of the world. The
obvious way, a `Views` for each endpoint, is the second opinion; the truth is the third; and whoever only
listened to the stream of changes must have arrived at the same members.
"""

import asyncio
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.agents import BECAUSE, GMS, HOST

from rostra.client.copies import Copies, FollowedGroup
from rostra.client.streams import Stream
from rostra.core.effects import Answer, Asked, FellBehind, LinkDown, LinkUp, Received, Send, Tell
from rostra.groups.items import Change, Gap, Joined, Left, Only, View, Without
from rostra.groups.members import Cause, Member, by_endpoint
from rostra.names import Domain, Endpoint, Group, incarnation_of
from rostra.protocols.relaxed import requests
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.messages import (
    EndpointLeft,
    EndpointsJoined,
    Interest,
    MessageId,
    ResolveReply,
    ResolveRequest,
)
from rostra.protocols.relaxed.view import Views

GROUPS = (Group("a", Domain("eu")), Group("b", HOST))
WIDE = GROUPS[0]
STRANGERS = tuple(Endpoint(f"eu.de.c1.h{number}/x#1") for number in range(3))


class Reader:
    """Somebody who knows of a group only what its stream of changes says."""

    def __init__(self, stream: Stream[Change]) -> None:
        self.stream = stream
        self.members: set[Endpoint] | None = None
        self.gaps = 0

    def read(self) -> None:
        while True:
            step = self.stream.__anext__()
            try:
                step.send(None)
            except StopIteration as got:
                self._take(got.value)
            except StopAsyncIteration:
                return
            else:
                step.close()
                return

    def _take(self, change: Change) -> None:
        match change:
            case View(members):
                self.members = {member.endpoint for member in members}
            case Gap():
                self.gaps += 1
                self.members = None
            case Joined(members):
                assert self.members is not None, (
                    "a change before the first view, or between a gap and its view"
                )
                appeared = {member.endpoint for member in members}
                assert not appeared & self.members, "nobody appears twice"
                self.members |= appeared
            case Left(endpoints) | Without(_, endpoints) | Only(_, endpoints):
                assert self.members is not None
                assert set(endpoints) <= self.members, "nobody disappears twice"
                self.members -= set(endpoints)


class World:
    """A program, its agent, the queues between them, and everybody else."""

    def __init__(self) -> None:
        self.now = 0.0
        self.token = 0
        self.agent = LocalServer(HOST, incarnation=100)
        self.far: dict[Endpoint, Member] = {}
        self.stamps = 0
        self.questions: deque[tuple[Endpoint, Any]] = deque()
        self.notices: deque[tuple[tuple[Endpoint, ...], Any]] = deque()
        self.copies = Copies()
        self.wanted: set[tuple[Endpoint, Group, str]] = set()
        self.step(LinkUp(GMS, 1))
        self.mine: list[Endpoint] = []
        for name in ("p", "q", "r"):
            self.step(Asked(Endpoint(""), 0, requests.Open(name)))
            self.mine.append(self.agent.names[name])
        self.twins = {me: Views() for me in self.mine}
        self.follows: dict[tuple[Endpoint, Group], FollowedGroup] = {}
        self.readers: dict[tuple[Endpoint, Group], Reader] = {}

    def step(self, event: Any) -> None:
        """The agent's step, and whatever the rest of the world answers to it at once."""
        self.now += 1.0
        for effect in self.agent.step(self.now, event):
            match effect:
                case Tell(endpoints, notice):
                    self.notices.append((endpoints, notice))
                case Send(_, ResolveRequest(id, group)):
                    self.step(Received(GMS, ResolveReply(id, group, by_endpoint(self.far), Interest.ALL)))
                case Answer(_, requests.Denied() as denied):
                    raise AssertionError(denied)

    # What happens

    def ask(self, me: Endpoint, group: Group, what: str) -> None:
        """Only what makes sense: the program knows what it asked for."""
        member, watching = ((me, group, kind) in self.wanted for kind in ("member", "watch"))
        match what:
            case "join" if not member:
                self.wanted.add((me, group, "member"))
                self._follow(me, group)
                self.questions.append((me, requests.Join(group)))
            case "leave" if member:
                self.wanted.discard((me, group, "member"))
                self.questions.append((me, requests.Leave(group)))
                self._unfollow(me, group)
            case "watch" if not watching:
                self.wanted.add((me, group, "watch"))
                self._follow(me, group)
                self.questions.append((me, requests.Watch(group)))
            case "unwatch" if watching:
                self.wanted.discard((me, group, "watch"))
                self.questions.append((me, requests.Unwatch(group)))
                self._unfollow(me, group)

    def _follow(self, me: Endpoint, group: Group) -> None:
        self.twins[me].follow(group)
        follow = self.follows[me, group] = self.copies.follow(group, incarnation_of(me))
        if (me, group) not in self.readers:
            self.readers[me, group] = Reader(follow.stream())

    def _unfollow(self, me: Endpoint, group: Group) -> None:
        self.copies.unfollow(group, incarnation_of(me))
        if self.follows[me, group].ended is not None:
            self.twins[me].unfollow(group)
            del self.follows[me, group], self.readers[me, group]

    def hear_question(self) -> None:
        if self.questions:
            me, request = self.questions.popleft()
            self.token += 1
            self.step(Asked(me, self.token, request))

    def hear_notice(self) -> None:
        if self.notices:
            endpoints, notice = self.notices.popleft()
            for me in endpoints:
                self.twins[me].apply(notice)
            self.copies.told(tuple(map(incarnation_of, endpoints)), notice, HOST)

    def fall_behind(self) -> None:
        """Everything that is on its way to the program is lost, and it is told so."""
        lost, self.notices = self.notices, deque()
        groups = tuple(g for g in sorted(self.agent.groups))
        for me in self.mine:
            followed = tuple(g for g in groups if self.agent.groups[g].is_followed_by(me))
            missed = sum(me in endpoints for endpoints, _ in lost)
            if missed and followed:
                self.notices.append(((me,), requests.Gap(missed, followed)))
                self.step(FellBehind(me, followed))

    def far_away(self, number: int) -> None:
        """Somebody elsewhere joins, or leaves."""
        stranger = STRANGERS[number % len(STRANGERS)]
        self.stamps += 1
        id = MessageId(GMS, 1, self.stamps)
        hears = self.agent.up and self.agent.interest(WIDE) is Interest.ALL
        if stranger in self.far:
            del self.far[stranger]
            if hears:
                self.step(Received(GMS, EndpointLeft(id, WIDE, stranger, (1, self.stamps), Cause.LEAVE)))
        else:
            self.far[stranger] = Member(stranger, (1, self.stamps))
            if hears:
                joined = EndpointsJoined(id, WIDE, (self.far[stranger],), Cause.JOIN)
                self.step(Received(GMS, joined))

    def toggle_link(self) -> None:
        self.step(LinkDown(GMS, BECAUSE) if self.agent.up else LinkUp(GMS, 1))

    # What must hold

    def settle(self) -> None:
        while self.questions:
            self.hear_question()
        if not self.agent.up:
            self.toggle_link()
        while self.notices:
            self.hear_notice()

    def check(self) -> None:
        for (me, group), follow in self.follows.items():
            twin = self.twins[me].groups[group]
            assert follow.known and twin.known
            truth = set(self.agent.groups[group].members) | (set(self.far) if group == WIDE else set())
            assert {member.endpoint for member in follow.members} == truth
            assert follow.members == twin.members
            reader = self.readers[me, group]
            reader.read()
            assert reader.members == truth


NUMBERS = st.integers(0, 5)
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["join", "leave", "watch", "unwatch"]), st.integers(0, 2), st.integers(0, 1)),
    st.tuples(st.just("hear question"), NUMBERS, NUMBERS),
    st.tuples(st.just("hear notice"), NUMBERS, NUMBERS),
    st.tuples(st.just("read"), NUMBERS, NUMBERS),
    st.tuples(st.sampled_from(["far", "far", "link", "behind"]), NUMBERS, NUMBERS),
)


@pytest.mark.spec("C-139", "C-141", "C-142")
@settings(deadline=None, max_examples=400)
@given(st.lists(ACTIONS, max_size=60))
def test_a_shared_copy_is_every_endpoints_own_copy(script: list[tuple[str, int, int]]) -> None:
    asyncio.run(_run(script))


async def _run(script: list[tuple[str, int, int]]) -> None:
    world = World()
    for what, first, second in script:
        match what:
            case "hear question":
                for _ in range(first):
                    world.hear_question()
            case "hear notice":
                for _ in range(first):
                    world.hear_notice()
            case "read":
                for reader in world.readers.values():
                    reader.read()
            case "far":
                world.far_away(first)
            case "link":
                world.toggle_link()
            case "behind":
                world.fall_behind()
            case _:
                world.ask(world.mine[first], GROUPS[second], what)
    world.settle()
    world.check()


def test_what_was_on_its_way_to_one_follower_is_not_the_beginning_of_the_next() -> None:
    """p leaves while its list is on its way, and q joins: only q's own list may count as q's first."""

    async def test() -> None:
        world = World()
        p, q, _ = world.mine
        world.ask(p, WIDE, "join")
        world.hear_question()
        world.ask(p, WIDE, "leave")
        world.ask(q, WIDE, "join")
        world.hear_notice()
        assert not world.follows[q, WIDE].known
        world.settle()
        world.check()

    asyncio.run(test())


def test_a_gap_says_how_much_was_missed_and_the_list_that_mends_it_is_no_further_change() -> None:
    async def test() -> None:
        copies = Copies()
        first, second = Member(STRANGERS[0], (1, 1)), Member(STRANGERS[1], (1, 2))
        changes = copies.follow(WIDE, 100).stream()
        copies.told((100,), requests.Absolute(WIDE, (first,)), HOST)
        copies.told((100,), requests.Gap(3, (WIDE,)), HOST)
        copies.told((100,), requests.Joined(WIDE, (second,), Cause.JOIN), HOST)
        copies.told((100,), requests.Absolute(WIDE, (second,)), HOST)
        # The join between the gap and its list is one more that was not told by itself.
        assert [await anext(changes) for _ in range(3)] == [View((first,)), Gap(4), View((second,))]
        copies.told((100,), requests.Joined(WIDE, (first,), Cause.JOIN), HOST)
        assert await anext(changes) == Joined((first,), Cause.JOIN)

    asyncio.run(asyncio.wait_for(test(), 60))
