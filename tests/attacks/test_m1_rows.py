"""M1, the second half: a compromised agent names groups and asks questions without end (CVE-2026-46679 of
libp2p)."""

from support.agents import Agent, sent
from support.bench import ALL, NONE, Bench, an_id, asks, group, joins, member, reply

from rostra.core.effects import Ignored, Send
from rostra.names import Domain
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.domain import SERVERS_WEIGH
from rostra.protocols.relaxed.messages import LifeAsked, LifeTold

C1, H1, H2 = "eu.c1", "eu.c1.h1", "eu.c1.h2"
SMALL = RelaxedConfig(groups_of_host_max=10, questions_of_host_max=10, lives_asked_max=10)


def test_a_host_has_so_many_rows_and_others_have_theirs() -> None:
    bench = Bench(C1, H1, H2, "eu", cluster=True, config=SMALL)
    for number in range(10):
        assert bench.tell(H1, ALL, group(name=f"g{number}"))
    assert bench.tell(H1, ALL, group(name="more")) == [Ignored("InterestChanged", "too many groups")]
    stray = joins(H1, member(f"{H1}/x"), g=group(name="stray"))
    assert bench.hear(H1, stray) == [Ignored("EndpointsJoined", "too many groups")]
    assert len(bench.server.table.rows) == 10
    assert bench.tell(H2, ALL, group(name="more"))
    assert bench.tell(H1, ALL, group(name="g0")) == [], "what it has, it may go on having"
    bench.tell(H1, NONE, group(name="g0"))
    bench.tell(H1, ALL, group(name="more"))
    assert bench.want(H1, group(name="more")) is ALL
    bench.down(H1)
    assert bench.server.table.entries == {Domain(H2): 1}


def test_a_server_below_has_ten_times_as_many() -> None:
    bench = Bench("eu", C1, "world", config=SMALL)
    for number in range(10 * SERVERS_WEIGH):
        bench.tell(C1, ALL, group(name=f"g{number}"))
    assert bench.tell(C1, ALL, group(name="more")) == [Ignored("InterestChanged", "too many groups")]


def test_so_many_questions_are_open_for_one_host() -> None:
    bench = Bench(C1, H1, H2, "eu", cluster=True, config=SMALL)
    for number in range(10):
        assert bench.hear(H1, asks(H1, number, group(name=f"g{number}")))
    assert bench.hear(H1, asks(H1, 99)) == [Ignored("ResolveRequest", "too many questions")]
    assert Send(Domain("eu"), asks(H2, 1)) in bench.hear(H2, asks(H2, 1))
    bench.hear("eu", reply(asks(H1, 0), interest=ALL, g=group(name="g0")))
    assert Send(Domain("eu"), asks(H1, 99)) in bench.hear(H1, asks(H1, 99))


def test_an_agent_remembers_so_many_who_ask_about_lives_and_answers_all() -> None:
    agent = Agent(config=SMALL)
    me = agent.open("me")
    for number in range(30):
        host = Domain(f"us.c1.h{number}")
        (told,) = sent(agent.receive(LifeAsked(an_id(host), host, me)))
        assert isinstance(told, LifeTold) and told.alive
    assert len(agent.core.life.asked_by[me]) == 10
    assert len(sent(agent.kill(me))) == 10
