"""What a local server is made of: the questions it takes, the events it knows, the memory it needs."""

import pytest
from support.agents import BECAUSE, CHESS, FAR_ANN, GMS, HOST, WORLD, Agent, their_id

from rostra.core.effects import (
    Answer,
    Asked,
    EndpointGone,
    FellBehind,
    Ignored,
    LinkDown,
    LinkUp,
    Received,
    Tell,
    TimerFired,
)
from rostra.groups.members import Cause
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed.messages import (
    DomainFailed,
    EndpointLeft,
    EndpointsJoined,
    Interest,
    InterestChanged,
    LifeAsked,
    LifeTold,
    RegistryTold,
    ResolveReply,
    ResolveRequest,
    Routed,
    SyncDone,
    Undeliverable,
)
from rostra.protocols.relaxed.reports import document_of
from rostra.protocols.relaxed.requests import Absolute, Join, Joined, Leave, Open, Resolve, SetOnline, Watch

ID = their_id()
FAR = FAR_ANN.endpoint
HERE = Endpoint(f"{HOST}/me#7")


@pytest.mark.spec("C-083")
def test_the_questions_of_the_paper_carry_what_the_paper_says() -> None:
    assert Join.__struct_fields__[:4] == ("group", "online", "permanent", "meta")
    assert Leave.__struct_fields__[:2] == ("group", "meta")
    assert Resolve.__struct_fields__ == ("name", "scope", "deadline_s")
    assert SetOnline.__struct_fields__ == ("group", "online")
    assert Group.__struct_fields__ == ("name", "scope")
    assert Asked.__struct_fields__ == ("endpoint", "token", "request")


@pytest.mark.spec("C-188")
@pytest.mark.parametrize(
    "event",
    [
        *[Asked(HERE, 99, question) for question in (Join(Group("new", WORLD)), Leave(CHESS))],
        *[Asked(HERE, 99, question) for question in (Resolve("chess", WORLD), SetOnline(CHESS, False))],
        Received(GMS, EndpointsJoined(ID, CHESS, (FAR_ANN,), Cause.JOIN)),
        Received(GMS, EndpointLeft(ID, CHESS, FAR, (9, 9), Cause.LEAVE)),
        Received(GMS, DomainFailed(ID, (CHESS,), Domain("us"), False, BECAUSE)),
        Received(GMS, ResolveRequest(ID, CHESS)),
        EndpointGone(HERE),
        LinkDown(GMS, BECAUSE),
        Received(GMS, Routed(ID, FAR, (HERE,), b"")),
        Received(GMS, Undeliverable(ID, HERE, (FAR,), "unreachable")),
        Received(GMS, LifeAsked(ID, Domain("us.c1.h1"), HERE)),
        Received(GMS, RegistryTold(ID, WORLD, 1, ())),
    ],
    ids=lambda event: type(getattr(event, "message", getattr(event, "request", event))).__name__,
)
def test_every_event_of_the_paper_and_of_the_services_above_is_handled(event: object) -> None:
    agent = Agent()
    agent.member("me")

    effects = agent.step(event)  # type: ignore[arg-type]

    assert effects
    assert not any(isinstance(effect, Ignored) for effect in effects)


@pytest.mark.spec("C-188")
@pytest.mark.parametrize(
    ("event", "why"),
    [
        (Received(GMS, SyncDone(ID)), "not for an agent"),
        (Received(GMS, InterestChanged(ID, CHESS, Interest.ALL)), "not for an agent"),
        (Received(GMS, "gibberish"), "not for an agent"),
        (Received(GMS, ResolveReply(ID, CHESS, (), Interest.NONE)), "late reply"),
        (Received(GMS, LifeTold(ID, HOST, FAR, True)), "not watched"),
        (LinkUp(GMS, 2), "not a neighbour"),
        (TimerFired(("relaxed", "deadline", 12)), "nothing waits for it"),
        (TimerFired(("unheard-of",)), "nothing waits for it"),
        (EndpointGone(FAR), "no such endpoint"),
        (FellBehind(FAR, (CHESS,)), "no follower"),
    ],
)
def test_everything_else_changes_nothing_and_says_so(event: object, why: str) -> None:
    agent = Agent()
    agent.member("me")
    before = document_of(agent.core)

    [ignored] = agent.step(event)  # type: ignore[arg-type]

    assert isinstance(ignored, Ignored)
    assert ignored.why == why
    assert document_of(agent.core) == before


@pytest.mark.spec("C-024", "C-085", "C-147")
def test_an_agent_remembers_nothing_of_groups_that_nobody_here_is_in() -> None:
    agent = Agent()
    me = agent.open("me")
    for number in range(20):
        group = Group(f"g{number}", WORLD)
        agent.receive(EndpointsJoined(ID, group, (FAR_ANN,), Cause.JOIN))
        agent.receive(ResolveRequest(ID, group))
        agent.ask(me, Resolve(group.name, group.scope))
        agent.settle()

    assert agent.core.groups == {}
    assert agent.core.resolves.of_group == {}
    assert agent.core.resolves.questions == {}


@pytest.mark.spec("C-151")
def test_an_attachment_travels_with_the_address_wherever_it_appears() -> None:
    agent = Agent()
    follower, me = agent.watcher("follower"), agent.open("me")
    agent.settle()

    joined = agent.ask(me, Join(CHESS, online=False, meta=b"\x00port 7000\xff"))
    record = agent.core.groups[CHESS].members[me]
    reply = agent.receive(ResolveRequest(ID, CHESS))
    agent.ask(follower, Resolve("chess", CHESS.scope))
    [entry] = agent.core.resolves.open.values()
    answer = agent.receive(ResolveReply(entry.id, CHESS, (), Interest.NONE))

    assert record.meta == b"\x00port 7000\xff"
    assert joined[0] == Tell((follower,), Joined(CHESS, (record,), Cause.JOIN))
    assert joined[2].message.members == (record,)  # type: ignore[attr-defined]
    assert reply[0].message.members == (record,)  # type: ignore[attr-defined]
    assert answer == [Answer(agent.token, Absolute(CHESS, (record,)))]


@pytest.mark.spec("C-084", "C-112")
def test_tens_of_thousands_of_endpoints_hear_of_a_change_through_one_effect() -> None:
    agent = Agent()
    step = agent.core.step  # the invariants look at everything, which is too much here
    followers = []
    for number in range(20_000):
        step(0.0, Asked(Endpoint(""), 2 * number, Open(f"e{number}")))
        followers.append(agent.core.names[f"e{number}"])
        step(0.0, Asked(followers[-1], 2 * number + 1, Watch(CHESS)))

    [tell] = step(1.0, Received(GMS, EndpointsJoined(ID, CHESS, (FAR_ANN,), Cause.JOIN)))
    [lost] = step(2.0, Received(GMS, DomainFailed(ID, (CHESS,), Domain("us"), False, BECAUSE)))

    assert tell.endpoints == tuple(sorted(followers))  # type: ignore[attr-defined]
    assert lost.endpoints is tell.endpoints  # type: ignore[attr-defined]
