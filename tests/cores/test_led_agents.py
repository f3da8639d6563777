"""An agent of led sets and the servers around it: registrars change, programs die, lists are far away."""

from typing import Any

import pytest

from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    Effect,
    EndpointGone,
    Ignored,
    LinkDown,
    LinkUp,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from rostra.core.records import Records
from rostra.core.stack import Stack
from rostra.names import Domain, Group
from rostra.protocols.claims.messages import Claim, ClaimAnswer
from rostra.protocols.claims.server import ClaimServer
from rostra.protocols.led.agent import CALM
from rostra.protocols.led.config import STEPS_MAX
from rostra.protocols.led.messages import (
    Assert,
    AssertReply,
    LeaderAsked,
    LeaderProbe,
    LeaderProbed,
    LeaderTold,
    LeadRefused,
    ListAsked,
    ListEntry,
    ListTold,
    LocalMember,
    NotRegistrar,
    RegistrarsAsked,
    RegistrarsTold,
    SetReleased,
)
from rostra.protocols.led.requests import JoinLed, LeaveLed, OpenSequence, SequenceOpened
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Denied, Open
from tests.cores.test_claims import AGREED, LED, claim
from tests.cores.test_led_services import CHESS, DE, EU, FR, GONE, H1, H2, H3, US, Agent, Server, letters


def leading() -> Agent:
    agent = Agent()
    agent.lead()
    return agent


def asserted(effects: list[Effect]) -> list[tuple[Domain, int]]:
    return [(to, letter.number) for to, letter in letters(effects) if isinstance(letter, Assert)]


def told(agent: Agent, path: Domain, life: int) -> list[Effect]:
    """The server says who is the registrar of eu."""
    return agent.step(Received(FR, RegistrarsTold(((EU, path, life),))))


# Registrars that change


@pytest.mark.spec("S-056", "S-060")
@pytest.mark.parametrize(("path", "life"), [(FR, 5), (EU, 10)], ids=["lost", "restarted"])
def test_a_leader_asserts_at_once_when_its_registrar_is_lost_or_restarted(path: Domain, life: int) -> None:
    agent = leading()
    before = agent.led.trees[CHESS].state.number
    ((to, number),) = asserted(told(agent, path, life))
    assert to == path and number > before


@pytest.mark.spec("S-060", "S-055")
def test_a_better_registrar_is_turned_to_after_a_calm() -> None:
    agent = leading()
    told(agent, FR, 5)
    effects = told(agent, EU, 9)
    assert asserted(effects) == []
    assert SetTimer(CALM, agent.led.config.calm_s) in effects
    ((to, _),) = asserted(agent.step(TimerFired(CALM)))
    assert to == EU


@pytest.mark.spec("S-060", "S-055")
def test_a_registrar_that_another_child_of_a_lost_server_replaces_is_lost_too() -> None:
    """Of children that see each other the highest is the registrar: one that is lower follows a loss."""
    agent, it = leading(), Domain("eu.it")
    assert [to for to, _ in asserted(told(agent, it, 3))] == [it]
    assert [to for to, _ in asserted(told(agent, FR, 5))] == [FR]
    effects = told(agent, it, 4)
    assert asserted(effects) == [] and SetTimer(CALM, agent.led.config.calm_s) in effects


@pytest.mark.spec("S-060")
def test_a_registrar_that_comes_and_goes_moves_nobody() -> None:
    agent = leading()
    told(agent, FR, 5)
    for life in range(10, 20):
        effects = told(agent, EU, life)
        assert SetTimer(CALM, agent.led.config.calm_s) in effects
        effects += told(agent, FR, 5)
        assert effects[-1] == CancelTimer(CALM) and asserted(effects) == []


@pytest.mark.spec("S-059", "S-058")
def test_an_agent_that_is_cut_off_is_its_own_registrar_and_forgets_it_afterwards() -> None:
    agent = leading()
    agent.step(LinkDown(FR, GONE))
    assert agent.led.trees[CHESS].leads and set(agent.led.registrar.entries) == {CHESS}
    agent.step(LinkUp(FR, 5))
    told(agent, EU, 9)
    agent.step(TimerFired(CALM))
    assert not agent.led.registrar.entries


@pytest.mark.spec("S-034")
def test_an_agent_that_is_not_the_registrar_says_who_is() -> None:
    agent = leading()
    for letter in (Assert(CHESS, 7, 1), LeaderAsked(CHESS, 7)):
        assert letters(agent.receive(H2, letter)) == [(H2, NotRegistrar(CHESS, 7, EU))]


class ClaimedServer(Server):
    """It holds claims of h1 and h2 for this group of its scope."""

    def __init__(self, group: Group) -> None:
        super().__init__()
        registry = Registry(Records())
        core = DomainServer(FR, cluster=True, incarnation=5, registry=registry)
        self.stack = Stack(self.led, ClaimServer(FR, registry), core)
        for peer in (H1, H2):
            self.step(LinkUp(peer, 1))
            self.step(Received(peer, claim(peer, LED, group)))


@pytest.mark.spec("S-058", "S-057")
def test_a_server_forgets_the_sets_of_a_scope_that_it_is_not_the_registrar_of_any_more() -> None:
    local = Group("chess", FR)
    server = ClaimedServer(local)
    for group in (CHESS, local):
        ((_, answer),) = letters(server.carry(H1, H1, FR, Assert(group, 1, 1)))
        assert answer == AssertReply(group, 1, H1)
    server.step(LinkUp(EU, 9))
    assert set(server.led.registrar.entries) == {local}, "that of its own domain it stays"
    ((_, answer),) = letters(server.carry(H2, H2, FR, Assert(CHESS, 1, 1)))
    assert isinstance(answer, NotRegistrar)


@pytest.mark.spec("S-033")
def test_a_server_replaces_a_leader_whose_host_it_lost() -> None:
    local = Group("chess", FR)
    server = ClaimedServer(local)
    server.carry(H1, H1, FR, Assert(local, 1, 1))
    ((_, answer),) = letters(server.carry(H2, H2, FR, Assert(local, 4, 1)))
    assert answer == AssertReply(local, 4, H1)
    server.step(LinkDown(H1, GONE))
    ((_, answer),) = letters(server.carry(H2, H2, FR, Assert(local, 5, 1)))
    assert answer == AssertReply(local, 5, H2)


@pytest.mark.spec("S-055")
def test_of_servers_without_their_parent_the_highest_is_the_registrar_and_the_others_know_it() -> None:
    it = Domain("eu.it")
    server = Server(H1, DE, it)
    assert server.led.registrars[EU].path == it and server.led.registrars[FR].path == FR
    server.step(LinkDown(it, GONE))
    assert server.led.registrars[EU].path == FR


# Probes, and programs that die


@pytest.mark.spec("S-055", "S-058")
def test_a_server_asks_a_parent_that_is_back_and_believes_nothing_that_it_was_told_before() -> None:
    server = Server(H1, EU)
    server.step(Received(H1, RegistrarsAsked()))
    server.step(Received(EU, RegistrarsTold(((EU, EU, 9),))))
    server.step(LinkDown(EU, GONE))
    effects = server.step(LinkUp(EU, 10))
    assert Send(EU, RegistrarsAsked()) in effects
    assert Send(H1, RegistrarsTold(((FR, FR, 5),))) in effects


@pytest.mark.spec("S-019", "S-031")
def test_a_claim_of_another_kind_lets_no_agent_lead() -> None:
    local, server = Group("chess", FR), Server()
    registry = Registry(Records())
    core = DomainServer(FR, cluster=True, incarnation=5, registry=registry)
    server.stack = Stack(server.led, ClaimServer(FR, registry), core)
    server.step(LinkUp(H1, 1))
    server.step(Received(H1, claim(H1, AGREED, local)))
    ((_, answer),) = letters(server.carry(H1, H1, FR, Assert(local, 1, 1)))
    assert isinstance(answer, LeadRefused) and not server.led.registrar.entries


@pytest.mark.spec("S-037")
def test_an_agent_says_truly_whether_it_leads() -> None:
    agent = Agent()
    agent.join()
    assert letters(agent.receive(EU, LeaderProbe(CHESS, 4))) == [(EU, LeaderProbed(CHESS, 4, leading=False))]
    agent.receive(EU, AssertReply(CHESS, agent.led.trees[CHESS].state.number, H1))
    assert letters(agent.receive(EU, LeaderProbe(CHESS, 5))) == [(EU, LeaderProbed(CHESS, 5, leading=True))]
    go = Group("go", EU)
    assert letters(agent.receive(EU, LeaderProbe(go, 6))) == [(EU, LeaderProbed(go, 6, leading=False))]


@pytest.mark.spec("S-029", "S-017")
def test_a_program_that_dies_leaves_and_with_the_last_one_the_set_is_given_back() -> None:
    agent = leading()
    agent.step(Asked(Domain(""), 3, Open("bob")))
    bob = agent.local.names["bob"]
    agent.step(Asked(bob, 4, JoinLed(CHESS, online=False)))

    def names() -> list[str]:
        return [member.name for entry in agent.led.trees[CHESS].entries for member in entry.members]

    assert names() == ["ann#1", "bob#2"]
    agent.step(EndpointGone(agent.ann))
    assert names() == ["bob#2"]
    effects = agent.step(EndpointGone(bob))
    assert [to for to, letter in letters(effects) if isinstance(letter, SetReleased)] == [EU]
    assert CHESS not in agent.led.trees and CHESS not in agent.led.sets


# Lists of others


def opening(agent: Agent) -> list[Effect]:
    agent.step(Received(FR, RegistrarsTold(((EU, EU, 9),))))
    return agent.step(Asked(agent.ann, 6, OpenSequence(CHESS)))


def answers(effects: list[Effect]) -> list[Any]:
    return [each.result for each in effects if isinstance(each, Answer)]


@pytest.mark.spec("S-051", "S-054")
def test_a_question_goes_up_so_many_parents_and_then_to_the_registrar() -> None:
    agent = Agent()
    ((to, asked),) = letters(opening(agent))
    assert (to, asked) == (EU, LeaderAsked(CHESS, 1)), "no member here: by way of the registrar"
    ((to, asked),) = letters(agent.receive(EU, LeaderTold(CHESS, 1, H2)))
    for step in range(STEPS_MAX):
        at, above = (H2, H3) if step % 2 == 0 else (H3, H2)
        assert (to, asked) == (at, ListAsked(CHESS, 1))
        partial = (ListEntry(at, 1, 1, (LocalMember("m#1"),)),)
        effects = agent.receive(at, ListTold(CHESS, 1, False, above, 1, 1, partial))
        assert answers(effects) == []
        ((to, asked),) = letters(effects)
    effects = agent.receive(H2, ListTold(CHESS, 1, False, H3))
    assert letters(effects) == [(EU, LeaderAsked(CHESS, 1))]


@pytest.mark.spec("S-054")
def test_a_question_goes_not_to_and_fro_between_a_registrar_and_one_that_does_not_lead() -> None:
    """The leader gave the set back, and that letter was lost: it is named until its lease is over."""
    agent = Agent()
    opening(agent)
    rounds, timer = 0, TimerFired(("led", "query", 1))
    for tries in range(1, agent.led.config.query_tries + 1):
        while asked := letters(agent.receive(EU, LeaderTold(CHESS, 1, H2))):
            assert asked == [(H2, ListAsked(CHESS, 1))] and rounds < 99
            rounds += 1
            agent.receive(H2, ListTold(CHESS, 1, leading=False))
        assert rounds <= tries * (STEPS_MAX + 2)
        effects = agent.step(timer)
    (refused,) = answers(effects)
    assert isinstance(refused, Denied) and refused.code == "UNREACHABLE"


@pytest.mark.spec("S-054")
def test_an_answer_about_another_set_or_version_or_with_members_from_elsewhere_is_none() -> None:
    agent = Agent()
    opening(agent)
    assert agent.receive(EU, LeaderTold(Group("go", EU), 1, H2)) == [Ignored("LeaderTold", "late reply")]
    agent.receive(EU, LeaderTold(CHESS, 1, H2))
    outside = ListTold(CHESS, 1, True, None, 1, 1, (ListEntry(US, 1, 1, (LocalMember("m#1"),)),))
    assert agent.receive(H2, outside) == [Ignored("ListTold", "not a list")]
    unchanged = ListTold(CHESS, 1, True, None, 1, 1)  # it named no version
    assert agent.receive(H2, unchanged) == [Ignored("ListTold", "another version")]


@pytest.mark.spec("S-053")
def test_a_version_of_an_earlier_life_of_the_leader_is_another_one() -> None:
    agent = leading()
    ((_, told),) = letters(agent.receive(H2, ListAsked(CHESS, 7)))
    ((_, again),) = letters(agent.receive(H2, ListAsked(CHESS, 8, told.life + 1, told.version)))
    assert again.entries is not None and again.entries == told.entries


@pytest.mark.spec("S-054")
def test_agents_that_wait_for_the_next_list_are_told_at_once_that_their_leader_leads_no_more() -> None:
    agent = leading()
    ((_, told),) = letters(agent.receive(H2, ListAsked(CHESS, 7)))
    assert letters(agent.receive(H2, ListAsked(CHESS, 8, told.life, told.version))) == []
    number = agent.led.trees[CHESS].state.number
    effects = agent.receive(EU, AssertReply(CHESS, number, H3))
    assert (H2, ListTold(CHESS, 8, leading=False)) in letters(effects)


@pytest.mark.spec("S-035")
def test_the_numbers_of_an_agent_go_on_after_a_set_has_ended() -> None:
    agent = leading()
    before = agent.led.trees[CHESS].state.number
    agent.step(Asked(agent.ann, 5, LeaveLed(CHESS)))
    assert CHESS not in agent.led.trees
    effects = agent.step(Asked(agent.ann, 2, JoinLed(CHESS, online=False)))
    (again,) = [
        each.message for each in effects if isinstance(each, Send) and isinstance(each.message, Claim)
    ]
    effects = agent.step(Received(FR, ClaimAnswer(again.id, H1, CHESS, LED, 1)))
    assert [number > before for _, number in asserted(effects)] == [True]


@pytest.mark.spec("S-054")
def test_no_agent_outside_the_scope_is_asked_for_its_list() -> None:
    agent = Agent()
    opening(agent)
    assert agent.receive(EU, LeaderTold(CHESS, 1, US)) == [Ignored("LeaderTold", "out of scope")]
    agent.receive(EU, LeaderTold(CHESS, 1, H2))
    effects = agent.receive(H2, ListTold(CHESS, 1, leading=False, parent=US))
    assert letters(effects) == [(EU, LeaderAsked(CHESS, 1))]


@pytest.mark.spec("S-054")
def test_an_agent_that_leads_no_more_and_knows_no_parent_sends_the_question_to_the_registrar() -> None:
    agent = Agent()
    opening(agent)
    agent.receive(EU, LeaderTold(CHESS, 1, H2))
    effects = agent.receive(H2, ListTold(CHESS, 1, leading=False))
    assert letters(effects) == [(EU, LeaderAsked(CHESS, 1))] and answers(effects) == []


@pytest.mark.spec("S-052")
def test_a_set_without_a_leader_does_not_exist() -> None:
    agent = Agent()
    opening(agent)
    (refused,) = answers(agent.receive(EU, LeaderTold(CHESS, 1, None)))
    assert isinstance(refused, Denied) and refused.code == "NO_SUCH_GROUP"


def below() -> Agent:
    """Told that H2 leads; the circuit to it is not up yet."""
    agent = Agent()
    agent.join()
    agent.receive(EU, AssertReply(CHESS, agent.led.trees[CHESS].state.number, H2))
    return agent


@pytest.mark.spec("S-051")
def test_an_agent_with_members_asks_its_parent_and_one_that_leads_nobody() -> None:
    assert letters(opening(below())) == [(H2, ListAsked(CHESS, 1))]
    effects = opening(leading())
    assert letters(effects) == []
    assert [type(each) for each in answers(effects)] == [SequenceOpened]


@pytest.mark.spec("S-054", "S-053")
def test_an_agent_that_does_not_lead_answers_with_its_parent_and_no_list() -> None:
    no = ListTold(CHESS, 7, leading=False, parent=H2)
    assert letters(below().receive(H3, ListAsked(CHESS, 7))) == [(H3, no)]
    contends = Agent()
    contends.join()
    nowhere = ListTold(CHESS, 7, leading=False)
    for agent in (Agent(), contends):
        assert letters(agent.receive(H3, ListAsked(CHESS, 7))) == [(H3, nowhere)]
