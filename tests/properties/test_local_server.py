"""A local server and a domain server too simple to be wrong, under every script that Hypothesis can think of.

The naive domain keeps the truth about everybody elsewhere in one set per group. It tells of changes exactly
while the agent's announced interest is ALL. It takes its time to answer a question, in any order, and as
unhelpfully as the rules allow: with the truth of the moment it heard the question, corrected only by the
changes that it told since. Messages travel in order, at any speed, and are lost with the link.

When the script ends everything is delivered, and then

- every question has had exactly one answer, in the order of asking, unless its endpoint died;
- every follower's view is the truth: everybody it can reach;
- the domain knows exactly who is on the host, and what the host wants to hear.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.agents import BECAUSE, GMS, HOST

from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    EndpointGone,
    Event,
    FellBehind,
    LinkDown,
    LinkUp,
    Received,
    Send,
    SetTimer,
    Tell,
    TimerFired,
)
from rostra.groups.members import Because, Cause, Member, Part, by_endpoint
from rostra.names import Domain, Endpoint, Group, inside
from rostra.protocols.relaxed.invariants import local_server_violations
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.messages import (
    DomainFailed,
    EndpointLeft,
    EndpointsJoined,
    Interest,
    InterestChanged,
    MessageId,
    ResolveReply,
    ResolveRequest,
)
from rostra.protocols.relaxed.requests import (
    Absolute,
    Close,
    Denied,
    Done,
    Join,
    Joined,
    Leave,
    Left,
    Only,
    Open,
    Opened,
    Resolve,
    Resolved,
    SetOnline,
    Unwatch,
    Watch,
    Without,
)
from rostra.protocols.relaxed.view import Views

GROUPS = (Group("a", Domain("world")), Group("b", Domain("eu")), Group("c", HOST))
WIDE = GROUPS[:2]
NAMES = ("p", "q", "r")
FAR = (Domain("eu.de"), Domain("eu.fr.c2"))
HEARING = ("domain hears", "domain answers", "agent hears")
STRANGERS = tuple(Endpoint(f"{domain}{place}") for domain in FAR for place in (".c1.h1/x#1", ".c1.h2/y#1"))


class NaiveDomain:
    """Everything beyond the host's link."""

    def __init__(self) -> None:
        self.truth: dict[Group, dict[Endpoint, Member]] = {group: {} for group in WIDE}
        self.on_host: dict[Group, dict[Endpoint, Member]] = {group: {} for group in WIDE}
        self.interest: dict[Group, Interest] = dict.fromkeys(WIDE, Interest.NONE)
        self.to_agent: deque[Any] = deque()
        self.from_agent: deque[Any] = deque()
        self.questions: list[tuple[MessageId, Group, dict[Endpoint, Member]]] = []  # heard, not answered
        self.up = False
        self.sequence = 0

    def id(self) -> MessageId:
        self.sequence += 1
        return MessageId(GMS, 1, self.sequence)

    def cut(self) -> None:
        self.up = False
        self.questions.clear()
        self.to_agent.clear()
        self.from_agent.clear()
        for group in WIDE:
            self.on_host[group].clear()
            self.interest[group] = Interest.NONE

    def hear_one(self) -> None:
        if not self.from_agent:
            return
        match self.from_agent.popleft():
            case InterestChanged(_, group, interest):
                self.interest[group] = interest
            case EndpointsJoined(_, group, members, _, complete_for):
                if complete_for is not None:
                    self.on_host[group].clear()
                self.on_host[group].update({member.endpoint: member for member in members})
            case EndpointLeft(_, group, endpoint):
                del self.on_host[group][endpoint]
            case ResolveRequest(id, group):
                self.questions.append((id, group, dict(self.truth.get(group, {}))))

    def answer_one(self, number: int) -> None:
        if self.questions:
            id, group, found = self.questions.pop(number % len(self.questions))
            self.to_agent.append(ResolveReply(id, group, by_endpoint(found), Interest.ALL))

    def is_heard(self, group: Group) -> bool:
        return self.up and self.interest[group] is Interest.ALL

    def tell(self, groups: Iterable[Group], message: Any) -> None:
        """Say what has changed to an agent that wants to hear it, and correct the answers it is owed."""
        heard = [group for group in groups if self.is_heard(group)]
        if heard:
            self.to_agent.append(message)
            for _, group, found in self.questions:
                if group in heard:
                    found.clear()
                    found.update(self.truth[group])

    def toggle(self, group: Group, stranger: Endpoint) -> None:
        self.sequence += 1
        stamp = (1, self.sequence)
        if stranger in self.truth[group]:
            del self.truth[group][stranger]
            self.tell([group], EndpointLeft(self.id(), group, stranger, stamp, Cause.LEAVE))
        else:
            member = self.truth[group][stranger] = Member(stranger, stamp)
            self.tell([group], EndpointsJoined(self.id(), group, (member,), Cause.JOIN))

    def fail(self, domain: Domain) -> dict[Group, list[Member]]:
        """A domain is lost, with everybody in it."""
        lost = {}
        for group in WIDE:
            lost[group] = [m for m in self.truth[group].values() if inside(domain, m.endpoint)]
            for member in lost[group]:
                del self.truth[group][member.endpoint]
        affected = tuple(group for group in WIDE if lost[group] and self.is_heard(group))
        self.tell(affected, DomainFailed(self.id(), affected, domain, False, Because(GMS, domain, "silent")))
        return lost

    def heal(self, domain: Domain, lost: dict[Group, list[Member]]) -> None:
        for group in WIDE:
            self.truth[group].update({member.endpoint: member for member in lost[group]})
            back = {e: m for e, m in self.truth[group].items() if inside(domain, e)}
            baseline = EndpointsJoined(self.id(), group, by_endpoint(back), Cause.MERGE, Part(True, domain))
            self.tell([group], baseline)


class Program:
    """What a program knows of itself, and what it was told."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.views = Views()
        self.online: dict[Group, bool] = {}
        self.watching: set[Group] = set()
        self.baselines: Counter[Group] = Counter()  # automatic absolutes since it began to follow

    def refollow(self, group: Group) -> None:
        if self.follows(group):
            self.views.follow(group)
        else:
            self.views.unfollow(group)
            self.baselines[group] = 0

    def follows(self, group: Group) -> bool:
        return self.online.get(group, False) or group in self.watching


class Play:
    def __init__(self) -> None:
        self.core = LocalServer(HOST, incarnation=1)
        self.domain = NaiveDomain()
        self.programs: dict[Endpoint, Program] = {}
        self.token = 0
        self.now = 0.0
        self.asked: dict[int, tuple[Endpoint, Any]] = {}
        self.resolves: dict[tuple[Endpoint, Any], list[int]] = defaultdict(
            list
        )  # open, in the order of asking
        self.periods: dict[int, int] = {}  # in which period of following a resolve was asked
        self.answers: Counter[int] = Counter()
        self.timers: set[tuple[Any, ...]] = set()
        self.dead: set[Endpoint] = set()
        self.lost: dict[Domain, dict[Group, list[Member]]] = {}

    def step(self, event: Event) -> None:
        actor = event.endpoint if isinstance(event, Asked) else None
        for effect in self.core.step(self.now, event):
            match effect:
                case Send(_, message):
                    assert self.domain.up
                    self.domain.from_agent.append(message)
                case Tell(endpoints, notice):
                    assert list(endpoints) == list(dict.fromkeys(endpoints))
                    for endpoint in endpoints:
                        self.told(endpoint, notice, actor)
                case Answer(token, result):
                    self.answered(token, result)
                case SetTimer(timer):
                    self.timers.add(timer)
                case CancelTimer(timer):
                    self.timers.remove(timer)
        assert local_server_violations(self.core) == []

    def told(self, endpoint: Endpoint, notice: Any, actor: Endpoint | None) -> None:
        program = self.programs[endpoint]
        match notice:
            case Joined(group, _, Cause.JOIN) | Left(group):
                assert endpoint != actor, "told of its own doing (C-047)"
                assert program.follows(group), "updates are for followers only (C-046, C-052)"
            case Absolute(group) | Joined(group):
                assert program.follows(group), "nobody waits for this baseline (C-050, C-052)"
                program.baselines[group] += isinstance(notice, Absolute)
                part = Part(True, group.scope) if isinstance(notice, Absolute) else notice.complete_for
                if endpoint in self.core.groups[group].members and part.covers(endpoint):
                    assert endpoint in {member.endpoint for member in notice.members}
            case Only() | Without():
                assert any(program.follows(group) for group in GROUPS)
        program.views.apply(notice)

    def answered(self, token: int, result: Any) -> None:
        me, request = self.asked[token]
        self.answers[token] += 1
        match request, result:
            case Open(), Opened(endpoint):
                self.programs[endpoint] = Program(endpoint)
            case ((Join() | Leave() | SetOnline() | Watch() | Unwatch()), Done()):
                program = self.programs[me]
                match request:
                    case Join(group, online) | SetOnline(group, online):
                        program.online[group] = online
                    case Leave(group):
                        del program.online[group]
                    case Watch(group):
                        program.watching.add(group)
                    case Unwatch(group):
                        program.watching.discard(group)
                program.refollow(request.group)
            case Resolve(name, scope), _:
                waiting = self.resolves[me, (name, scope)]
                if isinstance(result, Denied):
                    assert result.code in ("DEADLINE", "UNREACHABLE", "BAD_ARGUMENT")
                    waiting.remove(token)
                else:
                    assert isinstance(result, Resolved if scope is None else Absolute)
                    assert waiting.pop(0) == token, "answers out of order (C-041)"
                    if scope is not None:
                        self.programs[me].views.answered(result, self.periods[token])
            case Close(), Done():
                self.programs.pop(me, None)

    def ask(self, name: str, request: Any) -> None:
        me = self.core.names.get(name, Endpoint(f"{HOST}/{name}#0"))
        self.token += 1
        self.asked[self.token] = (me, request)
        if isinstance(request, Resolve):
            group = Group(request.name, request.scope or HOST)
            self.periods[self.token] = self.programs[me].views.period(group) if me in self.programs else 0
            self.resolves[me, (request.name, request.scope)].append(self.token)
        self.step(Asked(me, self.token, request))

    def perform(self, action: str, name: str, group: Group, number: int) -> None:
        flag = bool(number % 2)
        match action:
            case "wait":
                self.now += 1.0
            case "open":
                self.ask(name, Open(name))
            case "close":
                self.ask(name, Close())
            case "join":
                self.ask(name, Join(group, online=flag))
            case "leave":
                self.ask(name, Leave(group))
            case "switch":
                self.ask(name, SetOnline(group, flag))
            case "watch":
                self.ask(name, Watch(group) if flag else Unwatch(group))
            case "resolve":
                deadline_s = 1.0 if number == 3 else None
                self.ask(name, Resolve(group.name, None if number == 0 else group.scope, deadline_s))
            case "die" if name in self.core.names:
                me = self.core.names[name]
                self.dead.add(me)
                del self.programs[me]
                self.step(EndpointGone(me))
            case "fall behind" if name in self.core.names:
                self.step(FellBehind(self.core.names[name], GROUPS))
            case "link" if self.domain.up:
                self.domain.cut()
                self.step(LinkDown(GMS, BECAUSE))
            case "link":
                self.domain.up = True
                self.step(LinkUp(GMS, 1))
            case "domain hears":
                self.domain.hear_one()
            case "domain answers":
                self.domain.answer_one(number)
            case "agent hears" if self.domain.to_agent:
                self.step(Received(GMS, self.domain.to_agent.popleft()))
            case "stranger" if group in WIDE and not inside_any(self.lost, STRANGERS[number]):
                self.domain.toggle(group, STRANGERS[number])
            case "region":
                domain = FAR[number % 2]
                if domain in self.lost:
                    self.domain.heal(domain, self.lost.pop(domain))
                else:
                    self.lost[domain] = self.domain.fail(domain)
            case "time out" if self.timers:
                timer = sorted(self.timers)[number % len(self.timers)]
                self.timers.remove(timer)
                self.step(TimerFired(timer))

    def settle(self) -> None:
        while self.domain.from_agent or self.domain.questions or self.domain.to_agent:
            for action in HEARING:
                self.perform(action, "", GROUPS[0], 0)


def inside_any(domains: Any, endpoint: Endpoint) -> bool:
    return any(inside(domain, endpoint) for domain in domains)


ACTIONS = (
    *("open", "open", "join", "join", "leave", "switch", "watch", "resolve", "resolve", "close", "die"),
    *("link", "wait", *HEARING, *HEARING),
    *("stranger", "stranger", "region", "time out", "fall behind"),
)
names = st.sampled_from((*NAMES, *NAMES[:2], NAMES[0]))  # some more often than others, so that they meet
groups = st.sampled_from((*GROUPS, *GROUPS[:2], *GROUPS[:1] * 3))
actions = st.tuples(st.sampled_from(ACTIONS), names, groups, st.integers(0, 3))


def play(script: list[tuple[str, str, Group, int]]) -> Play:
    theatre = Play()
    for name in NAMES:
        theatre.perform("open", name, GROUPS[0], 0)
    theatre.perform("link", "", GROUPS[0], 0)
    for action in script:
        theatre.perform(*action)
    theatre.settle()
    return theatre


scripts = st.lists(actions, min_size=10, max_size=80)


@pytest.mark.spec("C-040", "C-041", "C-115", "C-185")
@settings(max_examples=300, deadline=None)
@given(scripts)
def test_every_question_gets_exactly_one_answer_unless_its_endpoint_dies(script: Any) -> None:
    theatre = play(script)

    for token, (me, request) in theatre.asked.items():
        died_first = me in theatre.dead and isinstance(request, Resolve)
        assert theatre.answers[token] == 1 or (died_first and theatre.answers[token] == 0), request
    assert theatre.core.resolves.open == {}
    assert {timer for timer in theatre.timers if timer[1] == "deadline"} == set()


@pytest.mark.spec("C-070", "C-066", "C-139", "C-140", "C-045", "C-050", "C-047", "C-046", "C-052")
@settings(max_examples=300, deadline=None)
@given(scripts)
def test_every_follower_ends_with_the_true_view(script: Any) -> None:
    theatre = play(script)

    for program in theatre.programs.values():
        for group in GROUPS:
            if program.follows(group):
                here = theatre.core.groups[group].members
                elsewhere = theatre.domain.truth[group] if theatre.domain.up and group in WIDE else {}
                view = program.views.groups[group]
                assert view.known
                assert {member.endpoint for member in view.members} == {*here, *elsewhere}
                assert program.baselines[group] >= 1


@pytest.mark.spec("C-071", "C-036", "C-037")
@settings(max_examples=150, deadline=None)
@given(scripts)
def test_every_answer_after_the_dust_has_settled_is_the_truth(script: Any) -> None:
    theatre = play(script)
    theatre.perform("open", "late", GROUPS[0], 0)
    me = theatre.core.names["late"]
    for group in GROUPS:
        answers: list[Any] = []
        theatre.answered = lambda token, result, answers=answers: answers.append(result)  # type: ignore[method-assign]
        theatre.step(Asked(me, 10_000, Resolve(group.name, group.scope)))
        theatre.settle()
        [absolute] = answers
        here = theatre.core.groups[group].members if group in theatre.core.groups else {}
        elsewhere = theatre.domain.truth[group] if theatre.domain.up and group in WIDE else {}
        assert {member.endpoint for member in absolute.members} == {*here, *elsewhere}
        assert absolute.isolated == (group in WIDE and not theatre.domain.up)


@pytest.mark.spec("C-093", "C-102", "C-103", "C-116", "C-067")
@settings(max_examples=300, deadline=None)
@given(scripts)
def test_the_domain_knows_who_is_on_the_host_and_what_it_wants_to_hear(script: Any) -> None:
    theatre = play(script)

    if theatre.domain.up:
        for group in WIDE:
            here = theatre.core.groups[group].members if group in theatre.core.groups else {}
            assert theatre.domain.on_host[group] == here
            assert theatre.domain.interest[group] == theatre.core.interest(group)


joins = st.lists(
    st.tuples(
        st.sampled_from(
            ("join", "leave", "switch", "domain hears", "agent hears", "link", "wait", "stranger")
        ),
        st.sampled_from(NAMES),
        st.sampled_from(GROUPS),
        st.integers(0, 3),
    ),
    max_size=60,
)


@pytest.mark.spec("C-045", "C-050")
@settings(max_examples=300, deadline=None)
@given(joins)
def test_going_online_brings_exactly_one_automatic_absolute(script: Any) -> None:
    theatre = play(script)

    for program in theatre.programs.values():
        for group in GROUPS:
            assert program.baselines[group] == program.follows(group)
