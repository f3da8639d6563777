"""The registrar alone: whom it names, whom it probes, when a lease is over; and the rules that choose it."""

from collections.abc import Iterable

import pytest

from rostra.core.effects import Effect, Ignored, SetTimer
from rostra.names import Domain, Group
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.core import PostLetter
from rostra.protocols.led.messages import (
    Assert,
    AssertReply,
    LeaderAsked,
    LeaderProbe,
    LeaderProbed,
    LeaderTold,
    SetReleased,
)
from rostra.protocols.led.registrar import Criterion, Registrar, probe_timer
from rostra.protocols.led.rules import RULES
from rostra.protocols.led.state import AgentId

EU, FR, DE = Domain("eu"), Domain("eu.fr"), Domain("eu.de")
H1, H2, H3 = (Domain(f"eu.fr.h{number}") for number in (1, 2, 3))
CHESS = Group("chess", EU)
CONFIG = LedConfig()


def registrar(criterion: Criterion = Criterion.FIRST, unreachable: Iterable[Domain] = ()) -> Registrar:
    return Registrar(CONFIG, lambda agent: agent not in unreachable, criterion)


def asserts(
    at: Registrar,
    agent: Domain,
    number: int,
    now: float = 0.0,
    *,
    life: int = 1,
    suspect: Domain | None = None,
    size: int = 1,
) -> list[Effect]:
    return at.step(now, agent, Assert(CHESS, number, life, suspect, size))


def letters(effects: Iterable[Effect]) -> list[tuple[Domain | None, object]]:
    return [(each.to, each.letter) for each in effects if isinstance(each, PostLetter)]


def reply(agent: Domain, number: int, leader: Domain) -> tuple[Domain, AssertReply]:
    return agent, AssertReply(CHESS, number, leader)


@pytest.mark.spec("S-031", "S-034")
def test_every_assert_is_answered_also_that_of_the_leader() -> None:
    at = registrar()
    for now, (agent, number) in enumerate([(H1, 1), (H2, 4), (H1, 2), (H1, 2), (H3, 9)]):
        assert letters(asserts(at, agent, number, float(now))) == [reply(agent, number, H1)]
    assert letters(at.step(5.0, H3, LeaderAsked(CHESS, 7))) == [(H3, LeaderTold(CHESS, 7, H1))]


@pytest.mark.spec("S-035", "S-036")
def test_an_older_assert_of_the_leader_that_was_overtaken_makes_its_lease_no_longer() -> None:
    at = registrar()
    asserts(at, H1, 5)
    until = at.entries[CHESS].until
    assert asserts(at, H1, 4, 3.0) == [Ignored("Assert", "late reply")]
    assert asserts(at, H1, 9, 3.0, life=0) == [Ignored("Assert", "late reply")]
    assert at.entries[CHESS].until == until


@pytest.mark.spec("S-032")
@pytest.mark.parametrize(
    ("criterion", "agent", "size", "leader"),
    [
        (Criterion.FIRST, H3, 9, H2),
        (Criterion.FIRST, H1, 9, H2),
        (Criterion.HIGHER, H3, 1, H3),
        (Criterion.HIGHER, H1, 9, H2),
        (Criterion.LARGER, H1, 6, H1),
        (Criterion.LARGER, H3, 4, H2),
        (Criterion.LARGER, H3, 5, H3),
        (Criterion.LARGER, H1, 5, H2),
    ],
)
def test_each_criterion_has_its_winner(
    criterion: Criterion, agent: Domain, size: int, leader: Domain
) -> None:
    """Of a leader with five members, and of one that asserts later."""
    at = registrar(criterion)
    asserts(at, H2, 1, size=5)
    assert letters(asserts(at, agent, 3, 1.0, size=size)) == [reply(agent, 3, leader)]


@pytest.mark.spec("S-033")
def test_who_asserts_replaces_a_leader_that_is_out_of_reach_at_once() -> None:
    gone: set[Domain] = set()
    at = registrar(unreachable=gone)
    asserts(at, H1, 1)
    gone.add(H1)
    assert letters(asserts(at, H2, 3, 1.0)) == [reply(H2, 3, H2)]


@pytest.mark.spec("S-036")
def test_a_lease_is_over_when_it_was_not_refreshed_in_time() -> None:
    at = registrar()
    asserts(at, H1, 1)
    asserts(at, H1, 2, 10.0)
    assert letters(asserts(at, H2, 3, 10.0 + CONFIG.lease_s - 0.1)) == [reply(H2, 3, H1)]
    assert letters(asserts(at, H2, 4, 10.0 + CONFIG.lease_s)) == [reply(H2, 4, H2)]
    assert letters(at.step(99.0, H3, LeaderAsked(CHESS, 7))) == [(H3, LeaderTold(CHESS, 7, None))]


def probed() -> Registrar:
    """H1 leads, H2 suspects it, and H3 asserts while it is probed."""
    at = registrar()
    asserts(at, H1, 1)
    effects = asserts(at, H2, 3, 1.0, suspect=H1)
    assert letters(effects) == [(H1, LeaderProbe(CHESS, 1))]
    assert SetTimer(probe_timer(CHESS), CONFIG.assert_s) in effects
    assert asserts(at, H3, 8, 1.1, suspect=H1) == [Ignored("Assert", "the leader is probed")]
    return at


@pytest.mark.spec("S-037")
def test_a_leader_that_answers_its_probe_is_named_to_the_one_that_suspects_it() -> None:
    at = probed()
    assert letters(at.step(1.2, H1, LeaderProbed(CHESS, 1, leading=True))) == [reply(H2, 3, H1)]
    assert at.fired(2.0, probe_timer(CHESS)) == []
    assert at.entries[CHESS].leader.agent == H1


@pytest.mark.spec("S-037")
def test_one_that_does_not_lead_is_replaced_and_so_is_one_that_is_silent() -> None:
    at = probed()
    assert letters(at.step(1.2, H1, LeaderProbed(CHESS, 1, leading=False))) == [reply(H2, 3, H2)]
    assert letters(probed().fired(1.6, probe_timer(CHESS))) == [reply(H2, 3, H2)]


@pytest.mark.spec("S-037")
@pytest.mark.parametrize(("sender", "number"), [(H3, 1), (H2, 1), (H1, 2), (H1, 0)])
def test_no_other_agent_and_no_late_letter_answers_a_probe(sender: Domain, number: int) -> None:
    at = probed()
    late = [Ignored("LeaderProbed", "late reply")]
    assert at.step(1.2, sender, LeaderProbed(CHESS, number, leading=False)) == late
    assert at.entries[CHESS].leader.agent == H1 and at.entries[CHESS].probe


@pytest.mark.spec("S-037")
def test_a_leader_that_asserts_while_it_is_probed_leads() -> None:
    at = probed()
    assert letters(asserts(at, H1, 2, 1.2)) == [reply(H2, 3, H1), reply(H1, 2, H1)]
    assert not at.entries[CHESS].probe


@pytest.mark.spec("S-027", "S-035")
def test_a_set_is_given_back_by_its_leader_alone_and_by_no_letter_of_before() -> None:
    at = registrar()
    asserts(at, H1, 5)
    for sender, number, life, why in (
        (H2, 9, 9, "not the leader"),
        (H1, 4, 1, "late reply"),
        (H1, 9, 0, "late reply"),
    ):
        assert at.step(1.0, sender, SetReleased(CHESS, number, life)) == [Ignored("SetReleased", why)]
    assert at.entries[CHESS].leader.agent == H1
    at.step(1.0, H1, SetReleased(CHESS, 5, 1))
    assert not at.entries


@pytest.mark.spec("S-037", "S-027")
def test_a_leader_that_gives_its_set_back_while_it_is_probed_leaves_it_to_the_one_that_suspects_it() -> None:
    assert letters(probed().step(1.2, H1, SetReleased(CHESS, 1, 1))) == [reply(H2, 3, H2)]


@pytest.mark.spec("S-037")
def test_an_agent_that_suspects_another_than_the_leader_is_told_who_leads() -> None:
    at = registrar()
    asserts(at, H1, 1)
    assert letters(asserts(at, H2, 3, 1.0, suspect=H3)) == [reply(H2, 3, H1)]


@pytest.mark.spec("S-058")
def test_a_registrar_forgets_the_scopes_that_it_has_no_more_and_keeps_others() -> None:
    at, local = registrar(), Group("chess", FR)
    asserts(at, H1, 1)
    at.step(0.0, H1, Assert(local, 2, 1))
    at.drop(frozenset([EU]))
    assert set(at.entries) == {local}
    at.drop()
    assert not at.entries


# The rules


def lives(*paths: Domain) -> list[AgentId]:
    return [AgentId(path, 1) for path in paths]


@pytest.mark.spec("S-020", "S-021")
def test_the_server_of_the_scope_is_the_registrar_then_the_highest_of_the_widest_that_are_left() -> None:
    rule = RULES["scope"]
    assert rule(CHESS, lives(H1, FR, EU, DE)) == AgentId(EU, 1)
    assert rule(CHESS, lives(H1, FR, DE)) == AgentId(FR, 1)
    assert rule(CHESS, lives(H1)) == AgentId(H1, 1)
    assert rule(Group("chess", DE), lives(H1, FR, EU)) is None


@pytest.mark.spec("S-020", "S-021")
def test_the_agent_with_the_highest_address_in_its_highest_life_is_the_registrar() -> None:
    rule = RULES["highest"]
    assert rule(CHESS, lives(H1, H3, H2)) == AgentId(H3, 1)
    assert rule(CHESS, [AgentId(H2, 1), AgentId(H2, 7), AgentId(H1, 9)]) == AgentId(H2, 7)
    long, short = Domain("eu.fr-1.h9"), Domain("eu.fr.h1")
    assert rule(CHESS, lives(long, short)) == AgentId(long, 1), "by components: fr-1 is higher than fr"
    assert rule(Group("chess", DE), lives(H1)) is None


@pytest.mark.spec("S-021")
def test_hashed_names_are_spread_over_agents_and_a_new_agent_takes_a_part_of_them() -> None:
    rule, names = RULES["hash"], [Group(f"set-{number}", EU) for number in range(300)]
    agents = lives(*[Domain(f"eu.fr.h{number}") for number in range(10)])
    before = {name: rule(name, agents) for name in names}
    held = [list(before.values()).count(agent) for agent in agents]
    assert min(held) > 10 and max(held) < 60
    newcomer = AgentId(Domain("eu.fr.h99"), 1)
    after = {name: rule(name, [newcomer, *reversed(agents)]) for name in names}
    assert {after[name] for name in names if after[name] != before[name]} == {newcomer}
    assert 10 < list(after.values()).count(newcomer) < 60
