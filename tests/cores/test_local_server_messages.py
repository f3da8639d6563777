"""Messages between programs, and watching their lives, through the servers (C-152 to C-157)."""

import pytest
from support.agents import CHESS, FR, HOST, Agent, own_id, sent, stamp, their_id, to_gms

from rostra.core.effects import Answer, Ignored, SetTimer, Tell
from rostra.groups.members import Because, Cause, Member
from rostra.names import Domain, Endpoint
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.messages import (
    DomainFailed,
    EndpointsJoined,
    LifeAsked,
    LifeTold,
    MessageId,
    Routed,
    Undeliverable,
)
from rostra.protocols.relaxed.requests import (
    Close,
    Done,
    Join,
    Joined,
    Life,
    Message,
    NotDelivered,
    SendTo,
    UnwatchLife,
    Watch,
    WatchLife,
)

FAR = Endpoint("eu.de.c2.h1/far#3")
NEAR = Endpoint("eu.fr.c1.h2/near#4")
FAR_HOST = Domain("eu.de.c2.h1")
REFRESH = ("relaxed", "life")
CONFIG = RelaxedConfig(life_refresh_s=10.0, life_missed_max=1, life_forget_s=60.0)


def from_far(sequence: int = 1) -> MessageId:
    return MessageId(FAR_HOST, 3, sequence)


# Sending


@pytest.mark.spec("C-152")
def test_a_message_goes_straight_to_those_here_and_once_to_the_server_for_all_others() -> None:
    agent = Agent()
    me, ann = agent.open("me"), agent.open("ann")

    effects = agent.ask(me, SendTo((NEAR, ann, FAR, ann), b"hello"))

    assert effects == [
        Answer(agent.token, Done()),
        Tell((ann,), Message(me, b"hello")),
        to_gms(Routed(own_id(2), me, (FAR, NEAR), b"hello")),
    ]


@pytest.mark.spec("C-156")
def test_without_a_link_a_message_to_others_is_not_delivered() -> None:
    agent = Agent(up=False)
    me = agent.open("me")

    assert agent.ask(me, SendTo((FAR,), b"hello")) == [
        Answer(agent.token, Done()),
        Tell((me,), NotDelivered((FAR,), "isolated")),
    ]


@pytest.mark.spec("C-156")
def test_a_message_to_an_endpoint_that_is_gone_from_here_is_not_delivered() -> None:
    agent = Agent()
    me, ann = agent.open("me"), agent.open("ann")
    agent.kill(ann)

    assert agent.ask(me, SendTo((ann,), b"hello")) == [
        Answer(agent.token, Done()),
        Tell((me,), NotDelivered((ann,), "no such endpoint")),
    ]


@pytest.mark.spec("C-152", "C-156")
def test_a_message_that_arrives_is_delivered_once_and_those_missing_are_reported_back() -> None:
    agent = Agent()
    ann, bob, gone = agent.open("ann"), agent.open("bob"), agent.open("gone")
    agent.kill(gone)

    effects = agent.receive(Routed(their_id(), FAR, (ann, ann, bob, gone), b"hello"))

    assert effects == [
        Tell((ann, bob), Message(FAR, b"hello")),
        to_gms(Undeliverable(own_id(2), FAR, (gone,), "no such endpoint")),
    ]


@pytest.mark.spec("C-152")
def test_a_message_for_another_host_is_ignored() -> None:
    assert Agent().receive(Routed(their_id(), FAR, (NEAR,), b"hello")) == [Ignored("Routed", why="not here")]


@pytest.mark.spec("C-156")
def test_the_sender_is_told_what_could_not_be_delivered_if_it_still_lives() -> None:
    agent = Agent()
    me = agent.open("me")
    back = Undeliverable(their_id(), me, (FAR,), "unreachable")

    assert agent.receive(back) == [Tell((me,), NotDelivered((FAR,), "unreachable"))]
    agent.kill(me)
    assert agent.receive(back) == [Ignored("Undeliverable", why="no such endpoint")]


@pytest.mark.spec("C-153", "C-154")
def test_a_join_and_then_a_message_leave_in_that_order_here_and_elsewhere() -> None:
    agent = Agent()
    ann = agent.member("ann")
    me = agent.open("me")

    effects = agent.ask(me, Join(CHESS)) + agent.ask(me, SendTo((ann.endpoint, FAR), b"hello"))

    record = Member(me, stamp(2))
    to_ann = [effect.notice for effect in effects if isinstance(effect, Tell)]
    assert to_ann == [Joined(CHESS, (record,), Cause.JOIN), Message(me, b"hello")]
    assert [type(m) for m in sent(effects)] == [EndpointsJoined, Routed]


# Watching a life: ours


@pytest.mark.spec("C-157", "C-034")
@pytest.mark.parametrize(("end", "why"), [("crashes", "crashed"), ("closes", "closed")])
def test_the_life_of_an_endpoint_here_is_known_at_once(end: str, why: str) -> None:
    agent = Agent()
    me, ann = agent.open("me"), agent.open("ann")

    watched = agent.ask(me, WatchLife(ann))
    watched_again = agent.ask(me, WatchLife(ann))
    ended = agent.kill(ann) if end == "crashes" else agent.ask(ann, Close())

    assert watched == [Answer(agent.token - 1 - (end == "closes"), Done()), Tell((me,), Life(ann, True))]
    assert watched_again == [Answer(agent.token - (end == "closes"), Done())]
    assert ended[0] == Tell((me,), Life(ann, False, why))


@pytest.mark.spec("C-157")
def test_an_endpoint_that_was_never_here_is_down() -> None:
    agent = Agent()
    me, nobody = agent.open("me"), Endpoint(f"{HOST}/nobody#1")

    assert agent.ask(me, WatchLife(nobody))[1:] == [Tell((me,), Life(nobody, False, "no such endpoint"))]


# Watching a life: elsewhere


@pytest.mark.spec("C-157")
def test_a_life_elsewhere_is_asked_of_its_own_agent_and_again_from_time_to_time() -> None:
    agent = Agent(config=CONFIG)
    me = agent.open("me")

    asked = agent.ask(me, WatchLife(FAR))
    told = agent.receive(LifeTold(from_far(), HOST, FAR, True))
    told_again = agent.receive(LifeTold(from_far(2), HOST, FAR, True))
    refreshed = agent.fire(*REFRESH)

    assert asked == [
        Answer(agent.token, Done()),
        to_gms(LifeAsked(own_id(2), HOST, FAR)),
        SetTimer(REFRESH, 10.0),
    ]
    assert told == [Tell((me,), Life(FAR, True))]
    assert told_again == []
    assert refreshed == [to_gms(LifeAsked(own_id(3), HOST, FAR)), SetTimer(REFRESH, 10.0)]


@pytest.mark.spec("C-157")
def test_a_second_watcher_learns_what_is_known_and_asks_nobody() -> None:
    agent = Agent()
    me, ann = agent.open("me"), agent.open("ann")
    agent.ask(me, WatchLife(FAR))
    agent.receive(LifeTold(from_far(), HOST, FAR, True))

    second = agent.ask(ann, WatchLife(FAR))
    died = agent.receive(LifeTold(from_far(2), HOST, FAR, False, "crashed"))

    assert second == [Answer(agent.token, Done()), Tell((ann,), Life(FAR, True))]
    assert died == [Tell((ann, me), Life(FAR, False, "crashed"))]


@pytest.mark.spec("C-157")
def test_a_death_told_by_its_own_agent_is_final() -> None:
    agent = Agent()
    me = agent.open("me")
    agent.ask(me, WatchLife(FAR))
    agent.receive(LifeTold(from_far(), HOST, FAR, False, "crashed"))

    assert agent.fire(*REFRESH) == []
    assert agent.receive(LifeTold(from_far(), HOST, FAR, True)) == [Ignored("LifeTold", why="not watched")]
    assert agent.ask(me, UnwatchLife(FAR)) == [Answer(agent.token, Done())]


@pytest.mark.spec("C-157")
def test_a_server_on_the_way_that_cannot_get_there_is_believed_until_the_way_is_back() -> None:
    agent = Agent()
    me = agent.open("me")
    agent.ask(me, WatchLife(FAR))

    down = agent.receive(LifeTold(their_id(), HOST, FAR, False, "unreachable"))
    back = agent.receive(LifeTold(from_far(), HOST, FAR, True))

    assert down == [Tell((me,), Life(FAR, False, "unreachable"))]
    assert back == [Tell((me,), Life(FAR, True))]


@pytest.mark.spec("C-157")
def test_silence_is_reported_after_the_questions_that_may_be_missed() -> None:
    agent = Agent(config=CONFIG)
    me = agent.open("me")
    agent.ask(me, WatchLife(FAR))
    agent.receive(LifeTold(from_far(), HOST, FAR, True))

    told = [[effect for effect in agent.fire(*REFRESH) if isinstance(effect, Tell)] for _ in range(4)]

    assert told == [[], [], [Tell((me,), Life(FAR, False, "no answer"))], []]


@pytest.mark.spec("C-157")
def test_a_lost_link_makes_every_life_elsewhere_unknown_and_a_new_one_asks_again() -> None:
    agent = Agent()
    me, here = agent.open("me"), agent.open("here")
    agent.ask(me, WatchLife(FAR))
    agent.ask(me, WatchLife(here))
    agent.receive(LifeTold(from_far(), HOST, FAR, True))

    down, up = agent.link_down(), agent.link_up()

    assert down == [Tell((me,), Life(FAR, False, "isolated"))]
    assert sent(up)[1:] == [LifeAsked(own_id(4), HOST, FAR)]
    assert agent.receive(LifeTold(from_far(2), HOST, FAR, True)) == [Tell((me,), Life(FAR, True))]


@pytest.mark.spec("C-157")
def test_watching_in_isolation_says_so_at_once() -> None:
    agent = Agent(up=False)
    me = agent.open("me")

    effects = agent.ask(me, WatchLife(FAR))

    assert effects[1] == Tell((me,), Life(FAR, False, "isolated"))
    assert [type(m) for m in sent(agent.link_up())][1:] == [LifeAsked]


@pytest.mark.spec("C-157")
@pytest.mark.parametrize(("domain", "keep"), [(Domain("eu.de"), False), (FR, True)])
def test_a_failure_notice_tells_of_every_life_that_went_with_the_domain(domain: Domain, keep: bool) -> None:
    agent = Agent()
    me = agent.open("me")
    agent.ask(me, WatchLife(FAR))
    agent.ask(me, WatchLife(NEAR))
    agent.receive(LifeTold(from_far(), HOST, FAR, True))
    because = Because(FR, Domain("eu.de"), "silent")

    effects = agent.receive(DomainFailed(their_id(), (CHESS,), domain, keep, because))

    assert effects == [
        Ignored("DomainFailed", why="no follower"),
        Tell((me,), Life(FAR, False, "unreachable")),
    ]


@pytest.mark.spec("C-157")
@pytest.mark.parametrize("end", ["unwatches", "dies"])
def test_the_last_watcher_that_goes_tells_the_other_agent_to_stop(end: str) -> None:
    agent = Agent()
    me = agent.open("me")
    agent.ask(me, WatchLife(FAR))

    effects = agent.ask(me, UnwatchLife(FAR)) if end == "unwatches" else agent.kill(me)

    assert sent(effects) == [LifeAsked(own_id(3), HOST, FAR, stop=True)]
    assert agent.core.life.watched == {}
    assert agent.fire(*REFRESH) == []


# Watching a life: asked by others


@pytest.mark.spec("C-157", "C-034")
@pytest.mark.parametrize(("end", "why"), [("crashes", "crashed"), ("closes", "closed")])
def test_another_agent_that_asked_is_told_at_once_when_the_endpoint_ends(end: str, why: str) -> None:
    agent = Agent(config=CONFIG)
    me = agent.open("me")

    asked = agent.receive(LifeAsked(from_far(), FAR_HOST, me))
    ended = agent.kill(me) if end == "crashes" else agent.ask(me, Close())

    assert asked == [SetTimer(REFRESH, 10.0), to_gms(LifeTold(own_id(2), FAR_HOST, me, True))]
    assert ended[0] == to_gms(LifeTold(own_id(3), FAR_HOST, me, False, why))
    assert agent.core.life.asked_by == {}


@pytest.mark.spec("C-157")
def test_another_agent_is_told_that_there_is_no_such_endpoint() -> None:
    agent = Agent()
    gone = agent.open("me")
    agent.kill(gone)

    assert agent.receive(LifeAsked(from_far(), FAR_HOST, gone)) == [
        to_gms(LifeTold(own_id(2), FAR_HOST, gone, False, "no such endpoint"))
    ]
    assert agent.receive(LifeAsked(from_far(), FAR_HOST, NEAR)) == [Ignored("LifeAsked", why="not here")]


@pytest.mark.spec("C-157")
def test_another_agent_that_stopped_or_was_not_heard_of_for_long_is_told_nothing() -> None:
    agent = Agent(config=CONFIG)
    stopped, forgotten = agent.open("stopped"), agent.open("forgotten")
    agent.receive(LifeAsked(from_far(1), FAR_HOST, stopped))
    agent.receive(LifeAsked(from_far(2), FAR_HOST, stopped, stop=True))
    agent.receive(LifeAsked(from_far(3), FAR_HOST, forgotten))
    agent.now += 61.0
    last_refresh = agent.fire(*REFRESH)

    assert last_refresh == []
    assert agent.kill(stopped) == []
    assert agent.kill(forgotten) == []


@pytest.mark.spec("C-157")
def test_those_who_asked_are_forgotten_with_the_link_because_they_ask_again() -> None:
    agent = Agent()
    me = agent.open("me")
    agent.receive(LifeAsked(from_far(), FAR_HOST, me))

    agent.link_down()

    assert agent.kill(me) == []


@pytest.mark.spec("C-157", "C-114")
def test_a_death_is_told_to_groups_first_and_then_to_those_who_watch() -> None:
    agent = Agent()
    me, watcher = agent.member("me"), agent.open("watcher")
    agent.ask(watcher, Watch(CHESS))
    agent.ask(watcher, WatchLife(me.endpoint))

    notices = [type(e.notice).__name__ for e in agent.kill(me.endpoint) if isinstance(e, Tell)]

    assert notices == ["Left", "Life"]
    assert agent.core.groups[CHESS].watchers == {watcher}
