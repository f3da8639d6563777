"""What programs ask of a local server: join, leave, switch, watch (Congress, figures 9, 10, 15 and 16)."""

import pytest
from support.agents import (
    CHESS,
    FAR_ANN,
    GMS,
    GOLF,
    HOME,
    HOST,
    WORLD,
    Agent,
    own_id,
    sent,
    stamp,
    their_id,
    to_gms,
)

from rostra.core.effects import Answer, Asked, FellBehind, Ignored, Tell
from rostra.groups.members import Cause, Member
from rostra.names import Endpoint, Group
from rostra.protocols.relaxed.events import JoinsBegin, JoinsEnd
from rostra.protocols.relaxed.messages import (
    EndpointLeft,
    EndpointsJoined,
    Interest,
    InterestChanged,
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
    Open,
    Opened,
    Resolve,
    SetOnline,
    Unwatch,
    Watch,
)

# Opening


@pytest.mark.spec("C-004", "C-005")
def test_an_endpoint_is_opened_with_a_number_that_is_never_used_again() -> None:
    agent = Agent()

    first = agent.open("web")
    agent.ask(first, Close())
    second = agent.open("web")

    assert (first, second) == (Endpoint(f"{HOST}/web#7"), Endpoint(f"{HOST}/web#8"))
    assert agent.core.next_number == 9


@pytest.mark.spec("C-142")
def test_closing_answers_what_is_open_leaves_every_group_and_says_so_last() -> None:
    agent = Agent()
    me, other = agent.member("me"), agent.member("other")
    agent.ask(me.endpoint, Join(HOME, online=False))
    agent.ask(me.endpoint, Resolve("golf", WORLD))
    open_token = agent.token

    effects = agent.ask(me.endpoint, Close())

    denied = effects[0].result  # type: ignore[attr-defined]
    assert effects == [
        Answer(open_token, denied),
        Tell((other.endpoint,), Left(CHESS, me.endpoint, stamp(4), Cause.LEAVE)),
        to_gms(EndpointLeft(own_id(7), CHESS, me.endpoint, stamp(4), Cause.LEAVE)),
        Answer(agent.token, Done()),
    ]
    assert (denied.code, denied.retriable) == ("UNREACHABLE", True)
    assert list(agent.core.endpoints) == [other.endpoint]
    assert HOME not in agent.core.groups


# Joining


@pytest.mark.spec("C-104", "C-047", "C-093", "C-102", "C-042")
def test_the_first_online_member_raises_interest_then_announces_itself_then_asks() -> None:
    agent = Agent()
    me = agent.open("me")

    effects = agent.ask(me, Join(CHESS, meta=b"white"))

    assert effects == [
        Answer(agent.token, Done()),
        to_gms(InterestChanged(own_id(2), CHESS, Interest.ALL)),
        to_gms(EndpointsJoined(own_id(3), CHESS, (Member(me, stamp(1), b"white"),), Cause.JOIN)),
        to_gms(ResolveRequest(own_id(4), CHESS)),
    ]


@pytest.mark.spec("C-104", "C-047")
def test_a_second_member_is_announced_to_the_others_here_first() -> None:
    agent = Agent()
    ann, bob = agent.member("ann"), agent.member("bob", online=False)
    agent.settle()
    me = agent.open("me")

    effects = agent.ask(me, Join(CHESS))

    record = Member(me, stamp(3))
    assert bob.endpoint in agent.core.groups[CHESS].members
    assert effects == [
        Tell((ann.endpoint,), Joined(CHESS, (record,), Cause.JOIN)),
        Answer(agent.token, Done()),
        to_gms(EndpointsJoined(own_id(6), CHESS, (record,), Cause.JOIN)),
        to_gms(ResolveRequest(own_id(7), CHESS)),
    ]


@pytest.mark.spec("C-104", "C-047", "C-066", "C-179")
@pytest.mark.parametrize("storm", [3, 1_000])
def test_joins_of_one_turn_share_one_notice_one_message_and_one_question(storm: int) -> None:
    agent = Agent()
    ann = agent.member("ann")
    agent.settle()
    newcomers = []
    for number in range(storm):
        [opened] = agent.core.step(0.0, Asked(Endpoint(""), number, Open(f"bob-{number:04}")))
        newcomers.append(opened.result.endpoint)  # type: ignore[attr-defined]
    assert agent.step(JoinsBegin()) == []
    for each in newcomers:
        assert agent.core.step(agent.now, Asked(each, 1, Join(CHESS))) == [Answer(1, Done())]

    effects = agent.step(JoinsEnd(), same_instant=True)

    records = tuple([agent.core.groups[CHESS].members[each] for each in newcomers])
    assert effects[0] == Tell((ann.endpoint,), Joined(CHESS, records, Cause.JOIN))
    assert [type(message) for message in sent(effects)] == [EndpointsJoined, ResolveRequest]
    assert sent(effects)[0].members == records


@pytest.mark.spec("C-104")
def test_whatever_comes_between_gathered_joins_comes_after_their_notice() -> None:
    agent = Agent()
    ann = agent.member("ann")
    agent.settle()
    bob = agent.open("bob")
    agent.step(JoinsBegin())
    agent.ask(bob, Join(CHESS))

    effects = agent.ask(bob, Leave(CHESS))

    assert [type(each.notice) for each in effects if isinstance(each, Tell)] == [Joined, Left]
    assert {each.endpoints for each in effects if isinstance(each, Tell)} == {(ann.endpoint,)}
    assert agent.step(JoinsEnd()) == []


@pytest.mark.spec("C-104", "C-093", "C-046")
def test_an_offline_member_is_announced_and_asks_nothing() -> None:
    agent = Agent()
    me = agent.open("me")

    effects = agent.ask(me, Join(CHESS, online=False))

    assert effects == [
        Answer(agent.token, Done()),
        to_gms(InterestChanged(own_id(2), CHESS, Interest.RESOLVE)),
        to_gms(EndpointsJoined(own_id(3), CHESS, (Member(me, stamp(1)),), Cause.JOIN)),
    ]


@pytest.mark.spec("C-093")
def test_interest_rises_from_resolve_to_all_with_the_first_online_member() -> None:
    agent = Agent()
    agent.member("ann", online=False)
    me = agent.open("me")

    effects = agent.ask(me, Join(CHESS))

    assert sent(effects)[0] == InterestChanged(own_id(4), CHESS, Interest.ALL)
    assert agent.core.interest(CHESS) is Interest.ALL


@pytest.mark.spec("C-104", "C-148", "C-010")
def test_a_group_of_this_host_alone_concerns_nobody_else() -> None:
    agent = Agent()
    ann, me = agent.member("ann", HOME), agent.open("me")

    joined = agent.ask(me, Join(HOME))
    left = agent.ask(me, Leave(HOME))

    record = Member(me, stamp(2))
    assert joined == [
        Tell((ann.endpoint,), Joined(HOME, (record,), Cause.JOIN)),
        Answer(agent.token - 1, Done()),
        Tell((me,), Absolute(HOME, (ann, record), isolated=False)),
    ]
    assert left == [
        Tell((ann.endpoint,), Left(HOME, me, stamp(3), Cause.LEAVE)),
        Answer(agent.token, Done()),
    ]


@pytest.mark.spec("C-044", "C-054", "C-047")
def test_a_lone_joiner_on_a_host_without_a_link_succeeds_and_is_told_of_itself() -> None:
    agent = Agent(up=False)
    me = agent.open("me")

    effects = agent.ask(me, Join(CHESS))

    assert effects == [
        Answer(agent.token, Done()),
        Tell((me,), Absolute(CHESS, (Member(me, stamp(1)),), isolated=True)),
    ]


@pytest.mark.spec("C-045", "C-047", "C-066")
def test_a_joiner_is_told_one_absolute_with_itself_and_those_here_at_that_moment() -> None:
    agent = Agent()
    me = agent.member("me")
    ann = agent.member("ann")

    effects = agent.receive(ResolveReply(own_id(4), CHESS, (FAR_ANN,), Interest.ALL))

    everybody = (FAR_ANN, ann, me)
    assert effects == [Tell((me.endpoint, ann.endpoint), Absolute(CHESS, everybody))]
    assert agent.core.resolves.open == {}


@pytest.mark.spec("C-048")
def test_one_endpoint_may_be_in_a_hundred_groups() -> None:
    agent = Agent()
    me = agent.open("me")
    for number in range(100):
        agent.ask(me, Join(Group(f"g{number}", WORLD)))

    effects = agent.kill(me)

    assert [type(m) for m in sent(effects)] == [EndpointLeft, InterestChanged] * 100
    assert agent.core.groups == {}


@pytest.mark.spec("C-006", "C-007")
def test_the_same_name_in_two_scopes_is_two_groups() -> None:
    agent = Agent(up=False)
    wide, narrow = agent.member("a", Group("chess", WORLD)), agent.member("b", CHESS)

    told = [agent.ask(wide.endpoint, Resolve("chess", scope))[0].result for scope in (WORLD, CHESS.scope)]  # type: ignore[attr-defined]

    assert [answer.members for answer in told] == [(wide,), (narrow,)]


# Leaving


@pytest.mark.spec("C-105", "C-093", "C-102", "C-155")
def test_the_last_member_is_announced_as_gone_before_interest_falls() -> None:
    agent = Agent()
    me = agent.member("me")

    effects = agent.ask(me.endpoint, Leave(CHESS, b"good night"))

    assert effects == [
        Answer(agent.token, Done()),
        to_gms(EndpointLeft(own_id(5), CHESS, me.endpoint, stamp(2), Cause.LEAVE, b"good night")),
        to_gms(InterestChanged(own_id(6), CHESS, Interest.NONE)),
    ]
    assert agent.core.groups == {}


@pytest.mark.spec("C-105", "C-047", "C-155")
def test_those_that_stay_are_told_who_left_and_the_leaver_is_not() -> None:
    agent = Agent()
    me, ann = agent.member("me"), agent.member("ann")
    agent.member("bob", online=False)
    agent.settle()

    effects = agent.ask(me.endpoint, Leave(CHESS, b"bye"))

    assert effects == [
        Tell((ann.endpoint,), Left(CHESS, me.endpoint, stamp(4), Cause.LEAVE, b"bye")),
        Answer(agent.token, Done()),
        to_gms(EndpointLeft(own_id(7), CHESS, me.endpoint, stamp(4), Cause.LEAVE, b"bye")),
    ]


@pytest.mark.spec("C-105", "C-093")
def test_interest_falls_to_resolve_when_only_offline_members_stay() -> None:
    agent = Agent()
    me = agent.member("me")
    agent.member("bob", online=False)

    effects = agent.ask(me.endpoint, Leave(CHESS))

    assert sent(effects)[-1] == InterestChanged(own_id(7), CHESS, Interest.RESOLVE)


@pytest.mark.spec("C-105", "C-052", "C-045")
def test_a_leave_cancels_what_was_promised_for_this_group_and_answers_every_call() -> None:
    agent = Agent()
    me = agent.member("me")
    agent.ask(me.endpoint, Join(GOLF))
    agent.ask(me.endpoint, Resolve("chess", CHESS.scope))
    chess_call = agent.token
    agent.ask(me.endpoint, Resolve("golf", GOLF.scope))
    golf_call = agent.token
    agent.ask(me.endpoint, Leave(CHESS))
    chess_id, golf_id = [entry.id for entry in agent.core.resolves.open.values()]

    chess = agent.receive(ResolveReply(chess_id, CHESS, (FAR_ANN,), Interest.ALL))
    golf = agent.receive(ResolveReply(golf_id, GOLF, (), Interest.NONE))

    # One request was shared by the automatic absolute and the call; only the call is left of it.
    assert chess == [Answer(chess_call, Absolute(CHESS, (FAR_ANN,)))]
    in_golf = agent.core.groups[GOLF].records()
    assert golf == [Tell((me.endpoint,), Absolute(GOLF, in_golf)), Answer(golf_call, Absolute(GOLF, in_golf))]


@pytest.mark.spec("C-105", "C-086")
def test_a_baseline_that_nobody_waits_for_is_dropped_and_its_reply_is_late() -> None:
    agent = Agent()
    me = agent.member("me")
    agent.ask(me.endpoint, Leave(CHESS))

    assert agent.core.resolves.open == {}
    assert agent.receive(ResolveReply(own_id(4), CHESS, (FAR_ANN,), Interest.ALL)) == [
        Ignored("ResolveReply", why="late reply")
    ]


@pytest.mark.spec("C-052", "C-111")
def test_after_leaving_updates_in_flight_reach_nobody() -> None:
    agent = Agent()
    me = agent.member("me")
    agent.ask(me.endpoint, Leave(CHESS))

    assert agent.receive(EndpointsJoined(their_id(), CHESS, (FAR_ANN,), Cause.JOIN)) == [
        Ignored("Joined", why="no follower")
    ]


# Crashing


@pytest.mark.spec("C-114", "C-034", "C-155", "C-061")
def test_a_crash_in_three_groups_is_three_leaves_and_no_stray_answer() -> None:
    agent = Agent()
    me, ann = agent.member("me"), agent.member("ann", HOME)
    agent.ask(me.endpoint, Join(GOLF, online=False))
    agent.ask(me.endpoint, Join(HOME))
    agent.ask(me.endpoint, Resolve("golf", GOLF.scope))
    agent.ask(me.endpoint, Resolve("golf", None))

    effects = agent.kill(me.endpoint)

    assert effects == [
        to_gms(EndpointLeft(own_id(12), CHESS, me.endpoint, stamp(5), Cause.CRASH)),
        to_gms(InterestChanged(own_id(13), CHESS, Interest.NONE)),
        to_gms(EndpointLeft(own_id(14), GOLF, me.endpoint, stamp(6), Cause.CRASH)),
        to_gms(InterestChanged(own_id(15), GOLF, Interest.NONE)),
        Tell((ann.endpoint,), Left(HOME, me.endpoint, stamp(7), Cause.CRASH)),
    ]
    assert agent.core.resolves.open == {}
    assert agent.core.resolves.questions == {}


@pytest.mark.spec("C-114")
def test_the_death_of_a_stranger_is_ignored() -> None:
    assert Agent().kill(Endpoint(f"{HOST}/nobody#1")) == [Ignored("EndpointGone", why="no such endpoint")]


@pytest.mark.spec("C-114", "C-110")
def test_a_crash_leaves_the_other_waiters_of_a_shared_request_alone() -> None:
    agent = Agent()
    me, ann = agent.member("me"), agent.member("ann")
    [entry] = agent.core.resolves.open.values()
    assert list(entry.waiters) == [(me.endpoint, None), (ann.endpoint, None)]

    agent.kill(me.endpoint)

    assert agent.receive(ResolveReply(entry.id, CHESS, (), Interest.NONE)) == [
        Tell((ann.endpoint,), Absolute(CHESS, (ann,)))
    ]


# Switching online and offline


@pytest.mark.spec("C-113", "C-050", "C-093")
def test_going_online_raises_interest_and_brings_a_baseline() -> None:
    agent = Agent()
    me = agent.member("me", online=False)

    effects = agent.ask(me.endpoint, SetOnline(CHESS, True))

    assert effects == [
        Answer(agent.token, Done()),
        to_gms(InterestChanged(own_id(4), CHESS, Interest.ALL)),
        to_gms(ResolveRequest(own_id(5), CHESS)),
    ]


@pytest.mark.spec("C-113", "C-050", "C-046", "C-093")
def test_going_offline_lowers_interest_and_cancels_the_baseline() -> None:
    agent = Agent()
    me = agent.member("me")

    effects = agent.ask(me.endpoint, SetOnline(CHESS, False))

    assert effects == [
        Answer(agent.token, Done()),
        to_gms(InterestChanged(own_id(5), CHESS, Interest.RESOLVE)),
    ]
    assert agent.core.resolves.open == {}
    assert agent.receive(EndpointsJoined(their_id(), CHESS, (FAR_ANN,), Cause.JOIN)) == [
        Ignored("Joined", why="no follower")
    ]


@pytest.mark.spec("C-049")
@pytest.mark.parametrize("online", [True, False])
def test_setting_a_flag_to_what_it_is_changes_nothing(online: bool) -> None:
    agent = Agent()
    me = agent.member("me", online=online)

    assert agent.ask(me.endpoint, SetOnline(CHESS, online)) == [Answer(agent.token, Done())]


@pytest.mark.spec("C-113")
def test_a_second_online_member_switching_changes_no_interest() -> None:
    agent = Agent()
    agent.member("ann")
    agent.settle()
    me = agent.member("me", online=False)

    on = agent.ask(me.endpoint, SetOnline(CHESS, True))
    off = agent.ask(me.endpoint, SetOnline(CHESS, False))

    assert on == [Answer(agent.token - 1, Done()), to_gms(ResolveRequest(own_id(6), CHESS))]
    assert off == [Answer(agent.token, Done())]


@pytest.mark.spec("C-050", "C-054")
def test_going_online_in_isolation_brings_the_baseline_at_once() -> None:
    agent = Agent(up=False)
    me, ann = agent.member("me", online=False), agent.member("ann", online=False)

    effects = agent.ask(me.endpoint, SetOnline(CHESS, True))

    assert effects == [
        Answer(agent.token, Done()),
        Tell((me.endpoint,), Absolute(CHESS, (ann, me), isolated=True)),
    ]


# Watching


@pytest.mark.spec("C-093", "C-085")
def test_a_watcher_is_interest_and_in_no_list() -> None:
    agent = Agent()
    me = agent.open("me")

    effects = agent.ask(me, Watch(CHESS))
    reply = agent.receive(ResolveRequest(their_id(), CHESS))

    assert effects == [
        Answer(agent.token, Done()),
        to_gms(InterestChanged(own_id(2), CHESS, Interest.ALL)),
        to_gms(ResolveRequest(own_id(3), CHESS)),
    ]
    assert reply == [to_gms(ResolveReply(their_id(), CHESS, (), Interest.ALL))]
    assert agent.receive(ResolveReply(own_id(3), CHESS, (FAR_ANN,), Interest.ALL)) == [
        Tell((me,), Absolute(CHESS, (FAR_ANN,)))
    ]


@pytest.mark.spec("C-111")
def test_a_watcher_hears_what_online_members_hear() -> None:
    agent = Agent()
    watcher = agent.watcher("watcher")
    member = agent.member("member")

    effects = agent.receive(EndpointsJoined(their_id(), CHESS, (FAR_ANN,), Cause.JOIN))

    assert effects == [Tell((member.endpoint, watcher), Joined(CHESS, (FAR_ANN,), Cause.JOIN))]


def test_watching_twice_is_watching_once() -> None:
    agent = Agent()
    me = agent.watcher("me")

    assert agent.ask(me, Watch(CHESS)) == [Answer(agent.token, Done())]


@pytest.mark.spec("C-093", "C-102")
def test_unwatching_withdraws_interest_and_cancels_the_baseline() -> None:
    agent = Agent()
    me = agent.watcher("me")

    effects = agent.ask(me, Unwatch(CHESS))

    assert effects == [
        Answer(agent.token, Done()),
        to_gms(InterestChanged(own_id(4), CHESS, Interest.NONE)),
    ]
    assert agent.core.groups == {}
    assert agent.core.resolves.open == {}


def test_a_watchers_death_withdraws_interest_without_any_leave() -> None:
    agent = Agent()
    me = agent.watcher("me")

    assert agent.kill(me) == [to_gms(InterestChanged(own_id(4), CHESS, Interest.NONE))]


@pytest.mark.spec("C-047", "C-045")
def test_a_watcher_that_joins_is_not_told_of_itself_but_given_a_baseline() -> None:
    agent = Agent()
    me = agent.watcher("me")
    agent.settle()

    effects = agent.ask(me, Join(CHESS, online=False))

    assert effects == [
        Answer(agent.token, Done()),
        to_gms(EndpointsJoined(own_id(4), CHESS, (Member(me, stamp(1)),), Cause.JOIN)),
        to_gms(ResolveRequest(own_id(5), CHESS)),
    ]


@pytest.mark.spec("C-047")
def test_a_watcher_that_leaves_goes_on_watching_from_a_new_baseline() -> None:
    agent = Agent()
    me = agent.watcher("me")
    agent.ask(me, Join(CHESS))
    agent.settle()

    effects = agent.ask(me, Leave(CHESS))

    assert effects == [
        Answer(agent.token, Done()),
        to_gms(EndpointLeft(own_id(5), CHESS, me, stamp(2), Cause.LEAVE)),
        to_gms(ResolveRequest(own_id(6), CHESS)),
    ]
    assert agent.receive(ResolveReply(own_id(6), CHESS, (), Interest.NONE)) == [
        Tell((me,), Absolute(CHESS, ()))
    ]


# Falling behind


def test_a_program_that_fell_behind_gets_a_new_baseline_of_what_it_still_follows() -> None:
    agent = Agent()
    me = agent.member("me")
    agent.ask(me.endpoint, Join(GOLF, online=False))
    agent.settle()

    effects = agent.step(FellBehind(me.endpoint, (GOLF, CHESS)))

    assert effects == [to_gms(ResolveRequest(own_id(7), CHESS)), Ignored("FellBehind", why="no follower")]


@pytest.mark.spec("C-066")
def test_a_baseline_on_its_way_is_as_good_as_a_new_one() -> None:
    agent = Agent()
    me = agent.member("me")

    assert agent.step(FellBehind(me.endpoint, (CHESS,))) == []


# The door


def test_what_is_no_event_for_an_agent_is_ignored() -> None:
    agent = Agent()

    assert agent.receive(InterestChanged(their_id(), CHESS, Interest.ALL)) == [
        Ignored("InterestChanged", why="not for an agent")
    ]


def test_an_answer_names_its_question_by_token() -> None:
    agent = Agent()

    [answer] = agent.step(Asked(Endpoint(""), 12345, Open("me")))

    assert answer == Answer(12345, Opened(Endpoint(f"{HOST}/me#7")))
    assert not isinstance(answer.result, Denied)
    assert agent.core.gms == GMS
