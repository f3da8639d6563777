"""What a group costs when it is large, small: the figures are made by `python -m benchmarks.xpand_state`."""

import pytest
from support.counting import Counted
from support.fifobench import DelegateBench, MemberBench, controls, cut, user
from support.fifobench import delegate as delegate_of

from benchmarks.xpand_state import Driver, between_sites, delegate, member, people, weighed
from rostra.groups.attributes import Role
from rostra.names import Domain
from rostra.protocols.fifo import lan
from rostra.protocols.fifo.messages import CutReply, CutRequest, StartSync


@pytest.mark.spec("X-045", "X-046")
def test_xx22_receivers_elsewhere_cost_a_delegate_nothing():
    alone, crowded = delegate(), delegate(elsewhere=2000)
    assert len(crowded.core.view.members) == len(alone.core.view.members) == 3
    assert set(crowded.core.relays.running) == set(alone.core.relays.running)
    assert weighed(lambda: delegate(elsewhere=2000)) - weighed(delegate) < 2000, "not a byte each"


@pytest.mark.spec("X-045", "X-053")
def test_a_receiver_costs_its_own_delegate_a_pin_and_other_members_a_line():
    driver = delegate(senders=3, receivers=40)
    assert [len(relay.pins.local) for relay in driver.core.relays.running.values()] == [40] * 3
    core = member(senders=2, others=50)
    assert len(core.senders.running) == 2 and len(core.view.members) == 53


@pytest.mark.spec("X-045", "X-083", "X-088")
def test_what_a_delegate_says_to_other_sites_does_not_grow_with_its_receivers():
    few, many = between_sites(4, 20), between_sites(80, 20)
    assert few == many and set(few) == {"Report"}


@pytest.mark.spec("X-046")
def test_xx22_a_join_is_the_same_work_however_many_listen_elsewhere():
    """In figures: `python -m benchmarks.xpand_state --joins`. Here: the same words, and no more kept."""
    work = []
    for each in (2, 100):
        driver = Driver()
        driver.enter_among(12, each, 2)
        (joiner,) = people("huji", Role.RECEIVE, 1)
        said = driver.let_in(joiner)
        work.append((len(driver.core.view.members), [type(effect) for effect in said], said[-1]))
    assert work[0] == work[1]
    assert work[0][0] == 1 + 12 + 12 * 2 + 1  # delegates, those who speak, and the joiner


@pytest.mark.spec("X-053")
def test_the_numbers_of_a_lan_are_compared_with_those_who_speak_and_not_with_all_who_listen(monkeypatch):
    looks = []
    monkeypatch.setattr(
        lan,
        "attributes_of",
        lambda member, decode=lan.attributes_of: looks.append(member) or decode(member),
    )
    counts = []
    for listeners in (3, 300):
        crowd = [user(f"mit.h1/l{number}", role=Role.RECEIVE) for number in range(listeners)]
        bench = MemberBench(role=Role.RECEIVE)
        said = bench.active(members=(delegate_of("mit"), user("mit.h2/s"), *crowd))
        [question] = [each for each in controls(said) if isinstance(each, CutRequest)]
        looks.clear()
        bench.message(bench.source, CutReply(bench.core.group, question.req, 1, cut("mit", h2=1)))
        counts.append(len(looks))
    assert counts[0] == counts[1] == 1


@pytest.mark.spec("X-046")
def test_who_waits_for_the_numbers_of_a_lan_is_found_without_looking_at_all_who_wait():
    bench = DelegateBench()
    crowd = [user(f"huji.h1/l{number}", role=Role.RECEIVE) for number in range(300)]
    bench.inside(delegate_of("mit"), *crowd)
    askers = [Counted(each.endpoint) for each in crowd]
    for again in (1, 2):
        for asker in askers:
            bench.core._control(asker, CutRequest(bench.core.group, again, 1, Domain("mit")))
    assert Counted.compared < 4 * len(askers), "a few each: names that happen to meet in a table"
    [question] = list(bench.core.peers.machines.values())
    said = bench.message(delegate_of("mit").endpoint, CutReply(bench.core.group, question.req, 1, cut("mit")))
    answered = [each.req for each in controls(said) if isinstance(each, CutReply)]
    assert answered == [2] * len(askers), "once each, to the later question"


@pytest.mark.spec("X-046")
def test_a_question_that_came_before_its_asker_was_noticed_is_tried_when_that_one_is():
    bench = DelegateBench()
    bench.inside()
    tried = []
    for number in range(50):
        asker = user(f"huji.h1/l{number}", role=Role.RECEIVE)
        bench.message(asker.endpoint, StartSync(bench.core.group, number, Role.RECEIVE, 1, 1))
        bench.message(asker.endpoint, StartSync(bench.core.group, number, Role.RECEIVE, 1, 1))
    start = bench.core._start_sync
    bench.core._start_sync = lambda source, message: tried.append(source) or start(source, message)
    for number in range(50):
        asker = user(f"huji.h1/l{number}", role=Role.RECEIVE)
        said = bench.joined(asker)
        assert [each.req for each in controls(said)] == [number]
    assert len(tried) == 50
