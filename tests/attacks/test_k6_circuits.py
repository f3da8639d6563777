"""K6: hosts that do not exist, and what strangers say, take the room of others in sets and open groups."""

from collections.abc import Callable

import pytest

from rostra.core.effects import (
    Answer,
    CancelTimer,
    Effect,
    EndpointGone,
    Ignored,
    LinkUp,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from rostra.core.records import Records
from rostra.core.stack import Stack
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.led import circuits, sequences, transient
from rostra.protocols.led.messages import AddAnswered, AddedToSet, CarriedLetter, SequenceData, encode_letter
from rostra.protocols.led.requests import (
    AddRefused,
    ChangeSet,
    OpenSequence,
    SequenceMessage,
    SetAdded,
)
from rostra.protocols.led.stays import LedSet, LedStay
from rostra.protocols.led.transient import OwnedSet
from rostra.protocols.links.packets import Hello
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Denied
from rostra.protocols.scopes import foreign
from rostra.protocols.scopes.config import ScopesConfig
from rostra.protocols.scopes.foreign import ForeignServer
from rostra.protocols.scopes.messages import ForeignAsked, ForeignTold, PointersDropped, PointersKept
from rostra.protocols.scopes.open_server import OpenServer
from tests.cores.test_led_services import ASSERT, CHESS, EU, FR, H1, H2, H3, Agent, Server, letters
from tests.cores.test_led_transient import ANN, EVE, THEIRS, Owner, opened

DE = Domain("eu.de")
BELOW_H1 = Domain("eu.fr.h1.x")


def invented(count: int, of: str = "no") -> tuple[Endpoint, ...]:
    return tuple([Endpoint(f"eu.{of}.h{number}/x#1") for number in range(count)])


def result(effects: list[Effect]) -> object:
    (answer,) = [each.result for each in effects if isinstance(each, Answer)]
    return answer


def unanswered(host: str) -> tuple[str, str, str]:
    return ("led", "unanswered", host)


# Hosts that a program invents


def test_a_host_that_does_not_answer_is_given_up_and_the_owner_is_told() -> None:
    owner = Owner(H2)
    group = owner.create()
    (ghost,) = invented(1)
    effects = owner.ask(ChangeSet(group, add=(ghost, EVE)))
    assert SetTimer(unanswered("eu.no.h0"), owner.led.config.circuit_idle_s) in effects
    assert CancelTimer(unanswered(H2)) in owner.transient(H2, AddAnswered(group, ("eve#9",)))
    assert owner.led.wanted.hosts.keys() == {H2, "eu.no.h0"}

    (refused,) = owner.notices(owner.step(TimerFired(unanswered("eu.no.h0"))))
    assert isinstance(refused, AddRefused) and refused.endpoint == ghost and "add it again" in refused.why
    assert owner.led.wanted.hosts.keys() == {H2}
    assert owner.led.transient.owned[group].members == (EVE,)

    for second in (1.0, 6.0, 12.0, 18.0):
        owner.now = second
        owner.step(TimerFired(("led", "tick")))
    assert "eu.no.h0" not in owner.led.circuits.links, "it never came up"


def test_without_room_for_a_circuit_the_owner_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuits, "CIRCUITS_MAX", 2)
    owner = Owner()
    group = owner.create()
    (refused,) = owner.notices(owner.ask(ChangeSet(group, add=invented(3))))
    assert isinstance(refused, AddRefused) and "too many circuits" in refused.why
    assert len(owner.led.transient.owned[group].roster) == 2


def test_a_change_looks_at_each_endpoint_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    plain: Callable[[Endpoint], Domain] = transient.host_of
    monkeypatch.setattr(transient, "host_of", lambda each: looked.append(each) or plain(each))
    owner = Owner()
    group = owner.create()
    for count in (100, 200):
        looked.clear()
        owner.ask(ChangeSet(group, add=invented(count, f"of{count}")))
        assert count <= len(looked) <= 6 * count


def test_a_change_of_one_leaves_the_places_of_other_hosts_alone() -> None:
    before = OwnedSet(Group("a~1", EU), ANN).placed(invented(100), transient.RosterState.IN)
    after = before.placed(invented(1), transient.RosterState.AWAY)
    assert after.changed_since(before) == ["eu.no.h0"]
    assert after.members == tuple(sorted(invented(100)[1:])) and len(before.members) == 100


def test_a_vehicle_needs_no_circuit_to_a_host_that_is_lost() -> None:
    owner = Owner(H2)
    opened(owner, THEIRS, EVE, *invented(1))
    assert owner.led.wanted.hosts.keys() == {H2, "eu.no.h0"}
    owner.step(TimerFired(("led", "vehicle", "eu.no.h0")))
    assert owner.led.wanted.hosts.keys() == {H2}


# Hosts that an agent invents


def test_a_host_has_no_hosts_below_it() -> None:
    server = Server(H1, H2, EU, DE)
    outside = [Ignored("CarriedLetter", "source outside the sender's side")]
    assert server.carry(H1, BELOW_H1, H2, ASSERT) == outside
    assert server.carry(H1, BELOW_H1, FR, ASSERT) == outside
    assert server.carry(H1, H1, H2, ASSERT) == [Send(H2, CarriedLetter(H1, H2, encode_letter(ASSERT)))]


def test_others_cannot_take_all_circuits_of_an_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuits, "CIRCUITS_MAX", 4)
    monkeypatch.setattr(circuits, "CIRCUITS_TAKEN_MAX", 2)
    agent = Agent()

    def hello(number: int) -> list[Effect]:
        peer = Domain(f"eu.c{number}.no")
        return agent.receive(peer, Hello(1 << 20, 0, "test", peer, 1, 0, H1))

    assert [letters(hello(number)) != [] for number in range(3)] == [True, True, False]
    assert hello(3) == [Ignored("Hello", "too many circuits")]
    assert agent.led.want_circuit(H2) and agent.led.want_circuit(H3)
    assert not agent.led.want_circuit(Domain("eu.fr.h4"))


class Cluster:
    """The server of eu.fr, with services of scopes."""

    def __init__(self, *up: Domain) -> None:
        registry = Registry(Records())
        self.open, self.foreign = (
            OpenServer(FR, ScopesConfig()),
            ForeignServer(FR, ScopesConfig(foreign=True)),
        )
        server = DomainServer(FR, cluster=True, incarnation=5, registry=registry)
        self.stack = Stack(self.open, self.foreign, server)
        for peer in up:
            self.stack.step(0.0, LinkUp(peer, 1))

    def receive(self, sender: Domain, message: object) -> list[Effect]:
        return list(self.stack.step(0.0, Received(sender, message)))


def test_a_host_asks_about_other_scopes_for_itself_alone() -> None:
    cluster = Cluster(H1, DE)
    question = ForeignAsked(BELOW_H1, 1, Group("chess", DE))
    assert cluster.receive(H1, question) == [Ignored("ForeignAsked", "source outside the sender's side")]
    mine = ForeignAsked(H1, 1, Group("chess", DE))
    assert cluster.receive(H1, mine) == [Send(DE, mine)]


def test_the_hosts_of_one_cluster_share_what_it_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "FOREIGN_OF_HOST_MAX", 1)
    monkeypatch.setattr(foreign, "SERVERS_WEIGH", 2)
    cluster = Cluster(H1, EU, DE)

    def is_refused(host: str) -> bool:
        effects = cluster.receive(EU, ForeignAsked(Domain(host), 1, CHESS))
        return any(isinstance(each, Send) and isinstance(each.message, ForeignTold) for each in effects)

    asked = ["us.ny.h1", "us.ny.h1", "us.ny.h2", "us.ny.h3", "us.la.h1"]
    assert [is_refused(host) for host in asked] == [False, True, False, True, False]


# What strangers say


def closed_member(agent: Owner) -> None:
    agent.led.sets[CHESS] = LedSet()
    agent.led.sets[CHESS].members[ANN] = LedStay(True, b"", True)


def says(agent: Owner, message: int, *, number: int = 1, body: bytes = b"e4") -> list[Effect]:
    return agent.receive(H2, SequenceData(CHESS, number, "eve#9", message, ("ann#1",), 1, body))


def test_a_few_letters_of_a_stranger_wait_for_the_leaders_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "CHECKED_LETTERS_MAX", 3)
    monkeypatch.setattr(sequences, "CHECKED_BYTES_MAX", 100)
    monkeypatch.setattr(sequences, "CHECKED_OF_HOST_MAX", 2)
    agent = Owner()
    closed_member(agent)
    full = [Ignored("SequenceData", "too much waits for the leader's list")]
    assert [says(agent, message) == full for message in range(5)] == [False, False, False, True, True]
    assert says(agent, 1, number=2, body=bytes(100)) == full
    assert says(agent, 1, number=2) != full
    assert says(agent, 1, number=3) == [Ignored("SequenceData", "too many sources are asked for")]
    told = [each for number in list(agent.led.queries.open) for each in _unanswered_query(agent, number)]
    assert not [each for each in agent.notices(told) if isinstance(each, SequenceMessage)]
    assert agent.led.sequences._held_bytes.taken == 0 and not agent.led.sequences._held_of
    assert says(agent, 1, number=3) != [Ignored("SequenceData", "too many sources are asked for")]


def _unanswered_query(agent: Owner, number: int) -> list[Effect]:
    tries = agent.led.config.query_tries
    return [each for _ in range(tries) for each in agent.step(TimerFired(("led", "query", number)))]


def added(agent: Owner, number: int, host: Domain = H2, *, again: bool = False) -> list[Effect]:
    return agent.transient(host, AddedToSet(Group(f"{host}/eve#9~1-{number}", EU), ("ann#1",), again))


def is_taken(agent: Owner, effects: list[Effect]) -> bool:
    (answered,) = [message for _, message in agent.on_circuits[-1:]]
    is_told = any(isinstance(each, SetAdded) for each in agent.notices(effects))
    assert is_told == bool(answered.taken) == (not answered.unknown)
    return is_told


def test_an_endpoint_is_in_so_many_sets_and_in_so_many_of_one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transient, "SETS_FROM_HOST_MAX", 2)
    monkeypatch.setattr(transient, "SETS_WITH_ENDPOINT_MAX", 5)
    agent = Owner(H2, H3)
    assert [is_taken(agent, added(agent, number)) for number in range(3)] == [True, True, False]
    assert [is_taken(agent, added(agent, number, H3)) for number in range(2)] == [True, False]
    agent.led._begin(0.0)
    agent.led.transient.circuit_down(H2)
    assert len(agent.led.transient.held) == 1 and agent.led.transient.needed() == {H3}
    assert is_taken(agent, added(agent, 1, H3))


def test_sets_that_endpoints_left_are_forgotten_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transient, "LOST_SETS_MAX", 3)
    agent = Owner(H2)
    for number in range(10):
        added(agent, number)
        agent.led.transient.leave(ANN, Group(f"{H2}/eve#9~1-{number}", EU))
    assert len(agent.led.transient._left) == 3
    added(agent, 9, again=True)
    assert agent.on_circuits[-1][1].left == ("ann#1",)


# Sequences and rows


def test_sequences_that_are_asked_for_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "SEQUENCES_MAX", 4)
    agent = Owner(H2)
    opened(agent, THEIRS, EVE)
    agent.ask(OpenSequence(THEIRS))
    refused = result(agent.ask(OpenSequence(THEIRS)))
    assert isinstance(refused, Denied) and refused.code == "TOO_LARGE"
    for number in list(agent.led.queries.open):
        _unanswered_query(agent, number)
    opened(agent, THEIRS, EVE)
    agent.step(EndpointGone(ANN, "died"))
    known = agent.led.sequences
    assert not (known.opened or known.vehicles or known._open_of.taken or known._users)
    assert not agent.led.wanted.hosts


class CountedRows(dict):  # type: ignore[type-arg]
    walks = 0

    def values(self):  # type: ignore[no-untyped-def]
        self.walks += 1
        return super().values()


def test_a_message_about_rows_does_not_count_them_all() -> None:
    cluster = Cluster(H1, H2)
    rows = cluster.open.rows = CountedRows()
    cluster.receive(H1, PointersKept((("a", None), ("b", None))))
    cluster.receive(H2, PointersKept((("a", None),)))
    cluster.receive(H1, PointersKept((("a", None),)))
    assert rows.walks == 0 and cluster.open.held == {H1: 2, H2: 1}
    cluster.receive(H1, PointersDropped(("a", "nothing")))
    assert cluster.open.held == {H1: 1, H2: 1}
