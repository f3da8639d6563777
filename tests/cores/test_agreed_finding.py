"""Which neighbours may bring a call about an agreed group, and which may answer one; where it goes on."""

import pytest
from msgspec.structs import replace

from rostra.core.effects import Answer, Asked, LinkUp, Received, Send
from rostra.core.stack import Stack
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed import finding
from rostra.protocols.agreed.branch import HostQuestion
from rostra.protocols.agreed.calls import (
    GroupAnswer,
    GroupAsked,
    GroupCall,
    GroupPresented,
    GroupsFound,
    ListGroups,
    LookAt,
)
from rostra.protocols.agreed.changes import GroupPlace
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.part import CoreSet
from rostra.protocols.agreed.server import AGREED_SERVER, AgreedServer
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.neighbours import Relation
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Open
from rostra.stacks import NodePlan, make_stack

WORLD, EU, US, FR, DE = (Domain(name) for name in ("world", "eu", "us", "eu.fr", "eu.de"))
CHESS = Group("chess", WORLD)
OURS, THEIRS = Domain("eu.fr.h1"), Domain("us.ny.h1")


def made(*, moves: bool = True) -> tuple[Stack, AgreedServer]:
    """The server of eu, between the sets of world and of eu."""
    agreed = AgreedConfig(moves=moves)
    stack = make_stack(
        NodePlan("w", EU, False, False, 1, LinkConfig.lan(), RelaxedConfig(), agreed=agreed), Registry()
    )
    for peer in (WORLD, US, FR, DE):
        stack.step(0.0, LinkUp(peer, 1))
    server = stack[AGREED_SERVER]
    for name in (WORLD, EU):
        server._part_in(9.0, name, [])
    return stack, server


def placed(core: CoreSet, *below: Domain) -> None:
    table = replace(core.table, places={CHESS: GroupPlace(below)})
    core.core.state = replace(core.core.state, table=table)


@pytest.mark.parametrize(
    ("sender", "relation", "host", "may"),
    [
        (FR, Relation.CHILD, OURS, True),
        (FR, Relation.CHILD, Domain("eu.de.h1"), False),
        (FR, Relation.CHILD, THEIRS, False),
        (US, Relation.SIBLING, THEIRS, True),
        (US, Relation.SIBLING, OURS, False),
        (US, Relation.SIBLING, Domain("asia.jp.h1"), False),
        (WORLD, Relation.PARENT, THEIRS, True),
        (WORLD, Relation.PARENT, OURS, False),
        (Domain("eu.it"), None, OURS, False),
    ],
)
def test_a_neighbour_brings_calls_of_hosts_behind_it(
    sender: Domain, relation: Relation | None, host: Domain, may: bool
) -> None:
    _, server = made()
    assert finding.may_bring(server, sender, relation, WORLD, host) is may
    _, still = made(moves=False)
    assert finding.may_bring(still, sender, relation, WORLD, host) is (may and relation is Relation.CHILD)


def test_groups_of_our_own_scope_are_no_business_of_others() -> None:
    _, server = made()
    assert not finding.may_bring(server, US, Relation.SIBLING, EU, THEIRS)
    assert not finding.may_bring(server, FR, Relation.CHILD, US, OURS)


def test_only_who_is_pointed_at_answers_and_our_parent() -> None:
    _, server = made()
    assert finding.may_answer(server, WORLD, Relation.PARENT, WORLD)
    assert not finding.may_answer(server, US, Relation.SIBLING, WORLD)
    placed(server.sets[WORLD], US)
    assert finding.may_answer(server, US, Relation.SIBLING, WORLD)
    assert not finding.may_answer(server, Domain("asia"), Relation.SIBLING, WORLD)
    assert not finding.may_answer(server, FR, Relation.CHILD, WORLD)
    placed(server.sets[EU], FR)
    assert finding.may_answer(server, FR, Relation.CHILD, WORLD)


def test_a_call_goes_up_then_across_then_down_and_never_back() -> None:
    _, server = made()
    assert finding.way_to(server, CHESS, climbs=True) is None, "farther up they may know"
    assert finding.way_to(server, CHESS, climbs=False) == EU, "the pointer was wrong: it is asked again"
    placed(server.sets[WORLD], US)
    assert finding.way_to(server, CHESS, climbs=True) == US
    assert finding.way_to(server, CHESS, climbs=False) == EU
    placed(server.sets[WORLD], EU)
    assert finding.way_to(server, CHESS, climbs=True) == EU, "it is to come to the set below us"
    placed(server.sets[EU], FR)
    assert finding.way_to(server, CHESS, climbs=True) == finding.way_to(server, CHESS, climbs=False) == FR


def test_an_answer_from_above_or_beside_us_goes_to_our_hosts_alone() -> None:
    stack, server = made()
    placed(server.sets[WORLD], US)
    placed(server.sets[EU], FR)

    def sent(sender: Domain, host: Domain) -> list[tuple[Domain, object]]:
        answer = GroupAnswer(CHESS, HostQuestion(host, 1, 1))
        return [
            (each.to, each.message)
            for each in stack.step(9.0, Received(sender, answer))
            if isinstance(each, Send)
        ]

    assert [to for to, _ in sent(US, OURS)] == [to for to, _ in sent(WORLD, OURS)] == [FR]
    assert sent(US, Domain("asia.jp.h1")) == sent(WORLD, THEIRS) == []
    assert [to for to, _ in sent(FR, THEIRS)] == [US]


def test_a_call_from_beside_us_for_a_host_that_is_not_there_goes_nowhere() -> None:
    stack, server = made()
    placed(server.sets[EU], FR)
    for host, goes in ((THEIRS, [FR]), (Domain("asia.jp.h1"), [])):
        asked = GroupAsked(CHESS, HostQuestion(host, 1, 1), Endpoint(f"{host}/eve#1"), LookAt())
        effects = stack.step(9.0, Received(US, asked))
        assert [each.to for each in effects if isinstance(each, Send)] == goes


def test_a_list_is_whole_when_all_sets_that_the_first_one_names_have_answered() -> None:
    host, list_of = Domain("eu.fr.h1"), Group("groups", WORLD)
    stack = make_stack(NodePlan("w", host, True, False, 1, LinkConfig.lan(), RelaxedConfig()), Registry())
    stack.step(0.0, LinkUp(FR, 1))
    [opened] = [each for each in stack.step(0.0, Asked(Endpoint(""), 1, Open("p"))) if type(each) is Answer]
    call = Asked(opened.result.endpoint, 2, GroupCall(list_of, ListGroups()))
    [asked] = [each.message for each in stack.step(0.0, call) if isinstance(each, Send)]

    def answers(found: GroupsFound) -> list[object]:
        return [each.result for each in stack.step(0.0, Received(FR, found)) if isinstance(each, Answer)]

    cafe = Group("cafe", WORLD)
    assert answers(GroupsFound(list_of, asked.question, EU, (), (CHESS,))) == [], "the first one got lost"
    assert answers(GroupsFound(list_of, asked.question, WORLD, (EU, US), (CHESS,))) == []
    assert answers(GroupsFound(list_of, asked.question, US, (), (cafe,))) == [
        GroupPresented(groups=(cafe, CHESS))
    ]
