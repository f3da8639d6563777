"""What a local server makes of its domain server's notices and of its link (figures 14, 17, 18)."""

import pytest
from support.agents import (
    BECAUSE,
    CHESS,
    EU,
    FAR_ANN,
    FR,
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

from rostra.core.effects import Ignored, LinkDown, LinkUp, Persist, Received, Tell
from rostra.groups.members import Because, Cause, Part
from rostra.names import Domain, Group
from rostra.protocols.relaxed.messages import (
    DomainFailed,
    EndpointLeft,
    EndpointsJoined,
    Interest,
    InterestChanged,
    RegistryTold,
    ResolveReply,
    ResolveRequest,
    SyncDone,
)
from rostra.protocols.relaxed.registry import RegistryRecord
from rostra.protocols.relaxed.requests import (
    Absolute,
    Join,
    Joined,
    Leave,
    Left,
    Only,
    Resolve,
    SetOnline,
    Without,
)

LOST = Because(GMS, Domain("eu.fr.c1.h2"), "silent")


# Notices


@pytest.mark.spec("C-111", "C-058", "C-046", "C-065")
def test_a_join_elsewhere_is_told_once_to_the_online_members_of_that_group() -> None:
    agent = Agent()
    ann, bob = agent.member("ann"), agent.member("bob")
    agent.member("offline", online=False)
    agent.member("golfer", GOLF)

    effects = agent.receive(EndpointsJoined(their_id(), CHESS, (FAR_ANN,), Cause.JOIN))

    assert effects == [Tell((ann.endpoint, bob.endpoint), Joined(CHESS, (FAR_ANN,), Cause.JOIN))]


@pytest.mark.spec("C-111", "C-059", "C-056")
def test_a_merge_is_passed_on_with_what_it_is_complete_for_even_if_empty() -> None:
    agent = Agent()
    me = agent.member("me")
    outside = Part(False, FR)

    effects = agent.receive(EndpointsJoined(their_id(), CHESS, (), Cause.MERGE, outside))

    assert effects == [Tell((me.endpoint,), Joined(CHESS, (), Cause.MERGE, outside))]


@pytest.mark.spec("C-111", "C-061", "C-155")
@pytest.mark.parametrize(("cause", "meta"), [(Cause.LEAVE, b"last words"), (Cause.CRASH, b"")])
def test_a_leave_elsewhere_is_told_with_its_cause_and_last_words(cause: Cause, meta: bytes) -> None:
    agent = Agent()
    me = agent.member("me")

    effects = agent.receive(EndpointLeft(their_id(), CHESS, FAR_ANN.endpoint, (3, 2), cause, meta))

    assert effects == [Tell((me.endpoint,), Left(CHESS, FAR_ANN.endpoint, (3, 2), cause, meta))]


def test_every_notice_is_told_to_the_same_tuple_until_somebody_comes_or_goes() -> None:
    agent = Agent()
    for name in ("a", "b", "c"):
        agent.member(name)
    join = EndpointsJoined(their_id(), CHESS, (FAR_ANN,), Cause.JOIN)

    [first], [second] = agent.receive(join), agent.receive(join)

    assert first.endpoints is second.endpoints  # type: ignore[attr-defined]


@pytest.mark.spec("C-009", "C-010")
@pytest.mark.parametrize("scope", [HOST, Domain("us"), Domain("eu.de")])
def test_a_notice_out_of_scope_is_ignored(scope: Domain) -> None:
    agent = Agent()
    agent.member("me", HOME)

    assert agent.receive(EndpointsJoined(their_id(), Group("home", scope), (FAR_ANN,), Cause.JOIN)) == [
        Ignored("Joined", why="out of scope")
    ]


@pytest.mark.spec("C-112", "C-063", "C-064", "C-046")
def test_a_lost_domain_is_told_once_to_whoever_is_online_in_one_of_the_groups() -> None:
    agent = Agent()
    ann = agent.member("ann")
    agent.ask(ann.endpoint, Join(GOLF))
    agent.ask(ann.endpoint, Join(Group("darts", WORLD)))
    bob = agent.member("bob", GOLF)
    agent.member("offline", online=False)
    agent.member("elsewhere", Group("rowing", WORLD))
    groups = (CHESS, Group("darts", WORLD), GOLF)

    effects = agent.receive(DomainFailed(their_id(), groups, Domain("us"), False, LOST))

    assert effects == [Tell((ann.endpoint, bob.endpoint), Without(Domain("us"), LOST))]


@pytest.mark.spec("C-112", "C-062")
def test_those_inside_a_domain_that_lost_the_rest_are_told_to_keep_only_it() -> None:
    agent = Agent()
    me = agent.member("me")

    effects = agent.receive(DomainFailed(their_id(), (CHESS,), FR, True, LOST))

    assert effects == [Tell((me.endpoint,), Only(FR, LOST))]


@pytest.mark.spec("C-112", "C-033")
@pytest.mark.parametrize(("domain", "keep"), [(Domain("us"), True), (FR, False), (HOST, False), (GMS, False)])
def test_a_failure_seen_from_the_wrong_side_is_ignored(domain: Domain, keep: bool) -> None:
    agent = Agent()
    agent.member("me")

    assert agent.receive(DomainFailed(their_id(), (CHESS,), domain, keep, LOST)) == [
        Ignored("DomainFailed", why="wrong side")
    ]


@pytest.mark.spec("C-112", "C-009")
def test_a_failure_that_concerns_nobody_here_is_ignored() -> None:
    agent = Agent()
    agent.member("offline", online=False)
    agent.member("home", HOME)

    assert agent.receive(DomainFailed(their_id(), (CHESS, HOME), Domain("us"), False, LOST)) == [
        Ignored("DomainFailed", why="no follower")
    ]


# Link up


@pytest.mark.spec("C-117", "C-087")
def test_an_agent_that_has_just_started_announces_only_that_it_has_nothing() -> None:
    agent = Agent(up=False)
    assert not agent.core.up

    assert agent.link_up() == [to_gms(SyncDone(own_id(1)))]
    assert agent.core.up


@pytest.mark.spec("C-116", "C-102")
def test_a_link_that_comes_up_hears_interest_then_sync_then_members_then_questions() -> None:
    agent = Agent(up=False)
    golfer = agent.member("golfer", GOLF, online=False)
    ann, bob = agent.member("ann"), agent.member("bob")
    agent.member("home", HOME)
    agent.watcher("watcher", Group("darts", WORLD))

    effects = agent.link_up()

    darts, ours = Group("darts", WORLD), Part(True, HOST)
    assert effects == [
        to_gms(InterestChanged(own_id(1), CHESS, Interest.ALL)),
        to_gms(InterestChanged(own_id(2), darts, Interest.ALL)),
        to_gms(InterestChanged(own_id(3), GOLF, Interest.RESOLVE)),
        to_gms(SyncDone(own_id(4))),
        to_gms(EndpointsJoined(own_id(5), CHESS, (ann, bob), Cause.MERGE, ours)),
        to_gms(EndpointsJoined(own_id(6), darts, (), Cause.MERGE, ours)),
        to_gms(EndpointsJoined(own_id(7), GOLF, (golfer,), Cause.MERGE, ours)),
        to_gms(ResolveRequest(own_id(8), CHESS)),
        to_gms(ResolveRequest(own_id(9), darts)),
    ]


@pytest.mark.spec("C-109", "C-059", "C-060", "C-066")
def test_the_answer_to_a_merge_is_told_as_a_baseline_of_the_whole_scope() -> None:
    agent = Agent(up=False)
    ann, bob = agent.member("ann"), agent.member("bob")
    agent.link_up()
    late = agent.member("late", online=False)

    effects = agent.receive(ResolveReply(own_id(4), CHESS, (FAR_ANN,), Interest.ALL))

    baseline = Joined(CHESS, (FAR_ANN, ann, bob, late), Cause.MERGE, Part(True, EU))
    assert effects == [Tell((ann.endpoint, bob.endpoint), baseline)]


@pytest.mark.spec("C-109", "C-105", "C-113", "C-052")
def test_a_merge_is_told_only_to_those_that_still_follow() -> None:
    agent = Agent(up=False)
    ann, bob, eve = agent.member("ann"), agent.member("bob"), agent.member("eve")
    agent.link_up()
    agent.ask(ann.endpoint, Leave(CHESS))
    agent.ask(bob.endpoint, SetOnline(CHESS, False))

    [tell] = agent.receive(ResolveReply(own_id(4), CHESS, (), Interest.ALL))

    assert tell.endpoints == (eve.endpoint,)  # type: ignore[attr-defined]


@pytest.mark.spec("C-109", "C-086")
def test_a_merge_that_nobody_waits_for_any_more_is_dropped() -> None:
    agent = Agent(up=False)
    ann = agent.member("ann")
    agent.link_up()
    agent.kill(ann.endpoint)

    assert agent.core.resolves.open == {}
    assert agent.receive(ResolveReply(own_id(4), CHESS, (), Interest.ALL)) == [
        Ignored("ResolveReply", why="late reply")
    ]


@pytest.mark.spec("C-110")
def test_a_question_never_shares_a_merge() -> None:
    agent = Agent(up=False)
    ann = agent.member("ann")
    agent.link_up()

    asked = agent.ask(ann.endpoint, Resolve("chess", EU), same_instant=True)
    answered = agent.receive(ResolveReply(own_id(5), CHESS, (), Interest.ALL))

    assert sent(asked) == [ResolveRequest(own_id(5), CHESS)]
    assert [type(effect).__name__ for effect in answered] == ["Answer"]
    assert [entry.kind.value for entry in agent.core.resolves.open.values()] == ["merge"]


# Link down


@pytest.mark.spec("C-115", "C-046", "C-054")
def test_a_lost_link_is_told_once_to_whoever_is_online_in_a_wider_group() -> None:
    agent = Agent()
    ann, bob = agent.member("ann"), agent.member("bob", GOLF)
    agent.ask(ann.endpoint, Join(GOLF))
    agent.member("offline", online=False)
    agent.member("home", HOME)
    watcher = agent.watcher("watcher", Group("darts", WORLD))
    agent.settle()

    effects = agent.link_down()

    assert effects == [Tell((ann.endpoint, bob.endpoint, watcher), Only(HOST, BECAUSE))]
    assert not agent.core.up


@pytest.mark.spec("C-115", "C-159")
def test_merges_are_discarded_when_the_link_breaks_again() -> None:
    agent = Agent(up=False)
    ann = agent.member("ann")
    agent.link_up()

    assert agent.link_down() == [Tell((ann.endpoint,), Only(HOST, BECAUSE))]
    assert agent.core.resolves.open == {}


@pytest.mark.spec("C-115", "C-045")
def test_a_joiner_still_gets_its_one_absolute_when_the_link_breaks() -> None:
    agent = Agent()
    me = agent.member("me")

    effects = agent.link_down()

    assert effects == [
        Tell((me.endpoint,), Only(HOST, BECAUSE)),
        Tell((me.endpoint,), Absolute(CHESS, (me,), isolated=True)),
    ]


@pytest.mark.spec("C-116", "C-067")
def test_what_changed_in_isolation_is_announced_as_it_is_now() -> None:
    agent = Agent()
    ann, bob = agent.member("ann"), agent.member("bob")
    agent.link_down()
    isolated = agent.ask(bob.endpoint, Leave(CHESS))
    eve = agent.member("eve")

    announced = sent(agent.link_up())

    assert sent(isolated) == []
    assert eve.stamp == stamp(4)
    assert [m.members for m in announced if isinstance(m, EndpointsJoined)] == [(ann, eve)]


# The neighbour


@pytest.mark.spec("C-018", "C-033")
def test_only_the_clusters_server_is_a_neighbour() -> None:
    agent = Agent()
    other = Domain("eu.fr")

    assert agent.step(Received(other, SyncDone(their_id()))) == [Ignored("SyncDone", why="not a neighbour")]
    assert agent.step(LinkUp(other, 1)) == [Ignored("LinkUp", why="not a neighbour")]
    assert agent.step(LinkDown(other, BECAUSE)) == [Ignored("LinkDown", why="not a neighbour")]
    assert agent.core.up


@pytest.mark.spec("C-028", "C-031")
def test_nothing_is_heard_while_the_link_is_down() -> None:
    agent = Agent(up=False)

    assert agent.receive(ResolveRequest(their_id(), CHESS)) == [Ignored("ResolveRequest", why="link is down")]


# Permanent groups


@pytest.mark.spec("C-012")
def test_a_newer_register_is_written_down_and_an_older_one_ignored() -> None:
    agent = Agent()

    newer = agent.receive(RegistryTold(their_id(1), EU, 2, ("chess", "news")))
    older = agent.receive(RegistryTold(their_id(2), EU, 1, ("chess",)))

    assert newer == [Persist(RegistryRecord(EU, 2, ("chess", "news")))]
    assert older == [Ignored("RegistryTold", why="older version")]
    assert agent.core.registry.is_permanent(Group("news", EU))


@pytest.mark.spec("C-012")
@pytest.mark.parametrize("scope", [Domain("us"), HOST])
def test_a_register_that_is_not_ours_to_hear_of_is_ignored(scope: Domain) -> None:
    assert Agent().receive(RegistryTold(their_id(1), scope, 2, ("news",))) == [
        Ignored("RegistryTold", why="out of scope")
    ]
