"""How a local server answers "who is in that group?" (Congress, figures 11, 12 and 13)."""

import pytest
from support.agents import (
    BECAUSE,
    CHESS,
    EU,
    FAR_ANN,
    FAR_BOB,
    FR,
    GMS,
    GOLF,
    HOME,
    HOST,
    WORLD,
    Agent,
    own_id,
    sent,
    their_id,
    to_gms,
)

from rostra.core.effects import Answer, CancelTimer, Ignored, SetTimer, Tell
from rostra.groups.members import Member
from rostra.names import Domain, Group
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.messages import Interest, MessageId, ResolveReply, ResolveRequest
from rostra.protocols.relaxed.requests import Absolute, Close, Join, Only, Resolve, Resolved, SetOnline

IN_EU = Resolve("chess", EU)


# With a scope


@pytest.mark.spec("C-036", "C-038", "C-107", "C-057")
def test_a_stranger_asks_the_servers_and_gets_the_whole_list() -> None:
    agent = Agent()
    me, local = agent.open("me"), agent.member("local", online=False)

    asked = agent.ask(me, IN_EU)
    answered = agent.receive(ResolveReply(own_id(4), CHESS, (FAR_ANN, FAR_BOB), Interest.ALL))

    assert asked == [to_gms(ResolveRequest(own_id(4), CHESS))]
    assert answered == [Answer(agent.token, Absolute(CHESS, (FAR_ANN, local, FAR_BOB)))]


@pytest.mark.spec("C-106", "C-054")
def test_without_a_link_the_answer_is_local_immediate_and_says_so() -> None:
    agent = Agent(up=False)
    me = agent.member("me")

    assert agent.ask(me.endpoint, IN_EU) == [Answer(agent.token, Absolute(CHESS, (me,), isolated=True))]


@pytest.mark.spec("C-106", "C-148")
def test_the_hosts_own_groups_are_answered_at_once_and_are_never_isolated() -> None:
    agent = Agent()
    me = agent.member("me", HOME, online=False)

    up = agent.ask(me.endpoint, Resolve("home", HOST))
    agent.link_down()
    down = agent.ask(me.endpoint, Resolve("home", HOST))

    assert up == [Answer(agent.token - 1, Absolute(HOME, (me,)))]
    assert down == [Answer(agent.token, Absolute(HOME, (me,)))]


@pytest.mark.spec("C-013", "C-011")
def test_a_group_without_anybody_resolves_to_nobody() -> None:
    agent = Agent(up=False)

    assert agent.ask(agent.open("me"), IN_EU) == [Answer(agent.token, Absolute(CHESS, (), isolated=True))]


@pytest.mark.spec("C-109", "C-082")
def test_of_two_records_of_one_endpoint_the_later_one_counts() -> None:
    agent = Agent()
    me = agent.member("me")
    [entry] = agent.core.resolves.open.values()
    older = Member(me.endpoint, (1, 1), b"old")

    effects = agent.receive(ResolveReply(entry.id, CHESS, (older,), Interest.ALL))

    assert effects == [Tell((me.endpoint,), Absolute(CHESS, (me,)))]


@pytest.mark.spec("C-109", "C-076")
@pytest.mark.parametrize(
    "id",
    [own_id(99), MessageId(HOST, 6, 2), MessageId(GMS, 7, 2)],
    ids=["never asked", "asked in an earlier life", "asked by another"],
)
def test_a_reply_to_nothing_we_asked_is_ignored(id: MessageId) -> None:
    agent = Agent()
    agent.ask(agent.open("me"), IN_EU)

    assert agent.receive(ResolveReply(id, CHESS, (FAR_ANN,), Interest.ALL)) == [
        Ignored("ResolveReply", why="late reply")
    ]


# Several questions about one group


@pytest.mark.spec("C-040", "C-110")
def test_three_overlapping_calls_of_a_follower_share_a_request_and_get_three_answers_in_order() -> None:
    agent = Agent()
    me = agent.member("me")
    agent.settle()

    asked = [effect for _ in range(3) for effect in agent.ask(me.endpoint, IN_EU)]
    answered = agent.receive(ResolveReply(own_id(5), CHESS, (FAR_ANN,), Interest.ALL))

    absolute = Absolute(CHESS, (FAR_ANN, me))
    assert asked == [to_gms(ResolveRequest(own_id(5), CHESS))]
    assert answered == [Answer(agent.token - back, absolute) for back in (2, 1, 0)]


@pytest.mark.spec("C-110", "C-040")
def test_calls_of_those_who_do_not_follow_share_nothing() -> None:
    agent = Agent()
    me = agent.member("me", online=False)

    assert sent(agent.ask(me.endpoint, IN_EU)) == [ResolveRequest(own_id(4), CHESS)]
    assert sent(agent.ask(me.endpoint, IN_EU)) == [ResolveRequest(own_id(5), CHESS)]


@pytest.mark.spec("C-110")
def test_equal_questions_of_one_instant_share_a_request_whoever_asks() -> None:
    agent = Agent()
    me, other = agent.open("me"), agent.open("other")

    first = agent.ask(me, IN_EU)
    second = agent.ask(other, IN_EU, same_instant=True)
    later = agent.ask(other, IN_EU)

    assert [len(sent(effects)) for effects in (first, second, later)] == [1, 0, 1]
    assert agent.receive(ResolveReply(own_id(2), CHESS, (), Interest.NONE)) == [
        Answer(agent.token - 2, Absolute(CHESS, ())),
        Answer(agent.token - 1, Absolute(CHESS, ())),
    ]


@pytest.mark.spec("C-110")
def test_an_online_joiner_does_not_share_a_request_made_before_the_interest_rose() -> None:
    agent = Agent()
    offline, joiner = agent.member("offline", online=False), agent.open("joiner")
    agent.ask(offline.endpoint, IN_EU)

    effects = agent.ask(joiner, Join(CHESS), same_instant=True)

    assert [type(m) for m in sent(effects)].count(ResolveRequest) == 1
    assert [entry.fresh for entry in agent.core.resolves.open.values()] == [False, True]


@pytest.mark.spec("C-110")
def test_a_request_is_no_longer_fresh_when_interest_fell_and_rose_again() -> None:
    agent = Agent()
    me = agent.member("me")
    agent.settle()
    agent.ask(me.endpoint, IN_EU)
    agent.ask(me.endpoint, SetOnline(CHESS, False))
    agent.ask(me.endpoint, SetOnline(CHESS, True))

    assert [entry.fresh for entry in agent.core.resolves.open.values()] == [False, True]


@pytest.mark.spec("C-041", "C-109", "C-069")
def test_the_answer_to_a_later_question_also_answers_the_earlier_ones_in_order() -> None:
    agent = Agent()
    me = agent.open("me")
    for _ in range(3):
        agent.ask(me, IN_EU)

    second = agent.receive(ResolveReply(own_id(3), CHESS, (FAR_ANN,), Interest.ALL))
    first = agent.receive(ResolveReply(own_id(2), CHESS, (), Interest.ALL))
    third = agent.receive(ResolveReply(own_id(4), CHESS, (FAR_ANN, FAR_BOB), Interest.ALL))

    newer = Absolute(CHESS, (FAR_ANN,))
    assert second == [Answer(agent.token - 2, newer), Answer(agent.token - 1, newer)]
    assert first == [Ignored("ResolveReply", why="late reply")]
    assert third == [Answer(agent.token, Absolute(CHESS, (FAR_ANN, FAR_BOB)))]


@pytest.mark.spec("C-041", "C-105")
def test_an_answer_settles_nothing_of_another_group() -> None:
    agent = Agent()
    me = agent.open("me")
    agent.ask(me, Resolve("golf", GOLF.scope))
    agent.ask(me, IN_EU)

    agent.receive(ResolveReply(own_id(3), CHESS, (), Interest.NONE))

    assert [entry.group for entry in agent.core.resolves.open.values()] == [GOLF]


# Without a scope


@pytest.mark.spec("C-037")
def test_without_a_scope_every_enclosing_scope_is_asked_and_one_answer_combines_them() -> None:
    agent = Agent()
    me = agent.member("me", Group("chess", HOST), online=False)

    asked = agent.ask(me.endpoint, Resolve("chess", None))
    groups = [Group("chess", scope) for scope in (GMS, FR, EU, WORLD)]
    assert asked == [to_gms(ResolveRequest(own_id(2 + n), group)) for n, group in enumerate(groups)]

    members: list[tuple[Member, ...]] = [(), (FAR_BOB,), (), (FAR_ANN,)]
    early = [
        effect
        for n in (3, 0, 1)
        for effect in agent.receive(ResolveReply(own_id(2 + n), groups[n], members[n], Interest.NONE))
    ]
    last = agent.receive(ResolveReply(own_id(4), groups[2], members[2], Interest.NONE))

    assert early == []
    assert last == [
        Answer(
            agent.token, Resolved(((HOST, (me,)), (GMS, ()), (FR, (FAR_BOB,)), (EU, ()), (WORLD, (FAR_ANN,))))
        )
    ]


@pytest.mark.spec("C-037", "C-054")
def test_without_a_scope_and_without_a_link_the_answer_is_local_and_isolated() -> None:
    agent = Agent(up=False)
    me = agent.member("me")

    effects = agent.ask(me.endpoint, Resolve("chess", None))

    parts: tuple[tuple[Domain, tuple[Member, ...]], ...] = (
        (HOST, ()),
        (GMS, ()),
        (FR, ()),
        (EU, (me,)),
        (WORLD, ()),
    )
    assert effects == [Answer(agent.token, Resolved(parts, isolated=True))]


@pytest.mark.spec("C-037", "C-115")
def test_a_link_that_breaks_half_way_completes_the_combined_answer_from_here() -> None:
    agent = Agent()
    me = agent.open("me")
    agent.ask(me, Resolve("chess", None))
    agent.receive(ResolveReply(own_id(5), Group("chess", WORLD), (FAR_ANN,), Interest.ALL))

    effects = agent.link_down()

    parts = ((HOST, ()), (GMS, ()), (FR, ()), (EU, ()), (WORLD, (FAR_ANN,)))
    assert effects == [Answer(agent.token, Resolved(parts, isolated=True))]


# Deadlines


@pytest.mark.spec("C-185", "C-053")
def test_a_deadline_that_passes_ends_the_question_with_nothing_partial() -> None:
    agent = Agent()
    me = agent.open("me")

    asked = agent.ask(me, Resolve("chess", None, deadline_s=2.5))
    agent.receive(ResolveReply(own_id(2), Group("chess", GMS), (), Interest.NONE))
    [answer] = agent.fire("relaxed", "deadline", agent.token)

    assert asked[-1] == SetTimer(("relaxed", "deadline", agent.token), 2.5)
    assert answer == Answer(agent.token, answer.result)  # type: ignore[attr-defined]
    assert (answer.result.code, answer.result.retriable) == ("DEADLINE", True)  # type: ignore[attr-defined]
    assert agent.core.resolves.open == {}


@pytest.mark.spec("C-185")
def test_an_answer_in_time_cancels_the_deadline() -> None:
    agent = Agent()
    agent.ask(agent.open("me"), Resolve("chess", EU, deadline_s=1.0))

    effects = agent.receive(ResolveReply(own_id(2), CHESS, (), Interest.NONE))

    assert effects == [
        CancelTimer(("relaxed", "deadline", agent.token)),
        Answer(agent.token, Absolute(CHESS, ())),
    ]
    assert agent.fire("relaxed", "deadline", agent.token) == [
        Ignored("TimerFired", why="nothing waits for it")
    ]


@pytest.mark.spec("C-185")
def test_one_impatient_caller_does_not_end_the_question_of_the_others() -> None:
    agent = Agent()
    me = agent.member("me")
    agent.settle()
    agent.ask(me.endpoint, IN_EU)
    agent.ask(me.endpoint, Resolve("chess", EU, deadline_s=1.0))
    agent.fire("relaxed", "deadline", agent.token)

    effects = agent.receive(ResolveReply(own_id(5), CHESS, (), Interest.NONE))

    assert effects == [Answer(agent.token - 1, Absolute(CHESS, (me,)))]


@pytest.mark.spec("C-185")
def test_a_default_deadline_can_be_set_for_everybody() -> None:
    agent = Agent(config=RelaxedConfig(resolve_deadline_s=9.0))

    assert agent.ask(agent.open("me"), IN_EU)[-1] == SetTimer(("relaxed", "deadline", agent.token), 9.0)


@pytest.mark.spec("C-185", "C-114")
@pytest.mark.parametrize("end", ["closes", "crashes"])
def test_a_deadline_ends_with_its_endpoint(end: str) -> None:
    agent = Agent()
    me = agent.open("me")
    agent.ask(me, Resolve("chess", EU, deadline_s=1.0))
    timer = ("relaxed", "deadline", agent.token)

    effects = agent.ask(me, Close()) if end == "closes" else agent.kill(me)

    assert CancelTimer(timer) in effects


# Questions of others


@pytest.mark.spec("C-108", "C-046")
def test_others_are_told_all_members_here_online_or_not() -> None:
    agent = Agent()
    me, ann = agent.member("me", online=False), agent.member("ann", online=False)

    effects = agent.receive(ResolveRequest(their_id(5), CHESS))

    assert effects == [to_gms(ResolveReply(their_id(5), CHESS, (ann, me), Interest.RESOLVE))]


@pytest.mark.spec("C-108", "C-093")
def test_an_unknown_group_is_answered_with_nobody_and_no_interest() -> None:
    effects = Agent().receive(ResolveRequest(their_id(5), CHESS))

    assert effects == [to_gms(ResolveReply(their_id(5), CHESS, (), Interest.NONE))]


@pytest.mark.spec("C-009", "C-010")
@pytest.mark.parametrize("scope", [HOST, Domain("us"), Domain("eu.fr.c1.h2"), Domain("eu.f")])
def test_a_request_out_of_scope_is_ignored(scope: Domain) -> None:
    assert Agent().receive(ResolveRequest(their_id(), Group("chess", scope))) == [
        Ignored("ResolveRequest", why="out of scope")
    ]


# The link breaks


@pytest.mark.spec("C-115", "C-041")
def test_open_questions_are_answered_from_here_after_the_filter_when_the_link_breaks() -> None:
    agent = Agent()
    me = agent.member("me")
    agent.settle()
    agent.ask(me.endpoint, IN_EU)
    stranger = agent.open("stranger")
    agent.ask(stranger, Resolve("golf", EU, deadline_s=5.0))

    effects = agent.link_down()

    assert effects == [
        Tell((me.endpoint,), Only(HOST, BECAUSE)),
        Answer(agent.token - 2, Absolute(CHESS, (me,), isolated=True)),
        CancelTimer(("relaxed", "deadline", agent.token)),
        Answer(agent.token, Absolute(GOLF, (), isolated=True)),
    ]
    assert agent.core.resolves.open == {}
