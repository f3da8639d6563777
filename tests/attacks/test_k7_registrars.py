"""K7: a registrar filled or a name locked by asking, circuits taken by agents that do not exist; and what
journals say."""

import pytest

from rostra.core.effects import Effect, Ignored, Received, Send
from rostra.core.observer import BESIDE
from rostra.groups.kinds import GroupKind
from rostra.groups.members import Cause, Member
from rostra.journal.entries import Entry
from rostra.names import Domain, Endpoint, Group
from rostra.observe.scribe import Scribe
from rostra.protocols.claims import table as claim_table
from rostra.protocols.led import circuits, registrar
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.core import PostLetter
from rostra.protocols.led.messages import (
    Assert,
    AssertReply,
    LeaderProbe,
    LeaderProbed,
    LeadRefused,
    SetReleased,
)
from rostra.protocols.led.observed import LeaderRefused
from rostra.protocols.led.registrar import Criterion, Registrar, probe_timer
from rostra.protocols.links.packets import Hello
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.gate import (
    NAMED_MAX,
    NAMED_NODES_MAX,
    NAMED_OFTEN,
    NAMED_S,
    AccessRefused,
    ClosedList,
    Gate,
    screened,
)
from rostra.protocols.relaxed.messages import EndpointsJoined, MessageId
from tests.cores.test_claims import AGREED, ATOMIC, LED, Server, claim
from tests.cores.test_led_services import FR, H2, Agent

EU = Domain("eu")
ANN = Endpoint("eu.de.h1/ann#1")
EVIL, GOOD = Domain("eu.no"), Domain("eu.de")


def named(effects: list[Effect]) -> list[tuple[str, str | None, str | None, str]]:
    """What the journal says: group, member, node and reason of each refusal."""
    rows: list[Entry] = []
    scribe = Scribe(EU, "server", 7, rows.append, wall_us=lambda: 1, heartbeat_s=10.0)
    scribe.saw(0.0, EU, BESIDE, effects)
    found = [each.columns for each in rows if each.kind == "access-refused"]
    return [(each["group"], each.get("member"), each.get("peer"), each["what"]) for each in found]


def asked(keeper: Registrar, agent: str, name: str, now: float = 0.0) -> tuple[bool, list[Effect]]:
    effects = keeper.step(now, Domain(agent), Assert(Group(name, EU), 1, 1))
    said = [each for each in effects if isinstance(each, PostLetter) and isinstance(each.letter, AssertReply)]
    return bool(said), effects


@pytest.mark.spec("S-019")
def test_the_agents_of_one_cluster_cannot_fill_a_registrar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile server of a cluster invents agents without number below it."""
    monkeypatch.setattr(registrar, "NAMES_MAX", 9)
    keeper = Registrar(LedConfig())
    led = [asked(keeper, f"{EVIL}.h{number}", f"evil/{number}")[0] for number in range(20)]
    assert sum(led) == 5, "half of them, rounded up"
    _, effects = asked(keeper, f"{EVIL}.h99", "more", now=100.0)
    (row,) = named(effects)
    assert row == ("more@eu", None, f"{EVIL}.h99", "the agents of eu.no lead 5 sets, as many as are free")
    assert not named(asked(keeper, f"{EVIL}.h98", "yet/more", now=101.0)[1]), "once in a lease"
    keeper = Registrar(LedConfig())
    for number in range(5):
        assert asked(keeper, f"{EVIL}.h{number}", f"evil/{number}")[0]
    assert [asked(keeper, f"{GOOD}.h1", f"good/{number}")[0] for number in range(3)] == [True, True, False]
    assert asked(keeper, "eu.it.h1", "third")[0], "and the next one finds room"
    assert asked(keeper, f"{EVIL}.h0", "evil/0")[0], "a leader keeps what it has"
    keeper.drop()
    assert asked(keeper, f"{EVIL}.h1", "again")[0] and len(keeper.entries) == 1


@pytest.mark.spec("S-019")
def test_an_agent_that_asks_for_names_without_end_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrar, "NAMES_OF_AGENT_MAX", 2)
    keeper = Registrar(LedConfig())
    assert [asked(keeper, f"{EVIL}.h1", f"n/{number}")[0] for number in range(3)] == [True, True, False]
    assert asked(keeper, f"{EVIL}.h2", "mine")[0]
    _, effects = asked(keeper, f"{EVIL}.h1", "n/9", now=50.0)
    assert LeaderRefused(Domain("eu.no.h1"), Group("n/9", EU), "eu.no.h1 leads 2 sets") in effects


@pytest.mark.spec("S-019", "S-033", "S-037")
@pytest.mark.parametrize("how", ["silent", "does not lead", "released", "out of reach", "lower"])
def test_no_agent_gets_more_names_by_following_other_leaders(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that has all the names it may have suspects a leader, which then does not lead any more."""
    monkeypatch.setattr(registrar, "NAMES_OF_AGENT_MAX", 2)
    chess, leader, evil = Group("chess", EU), Domain(f"{EVIL}.h1"), Domain(f"{EVIL}.h2")
    gone: set[Domain] = set()
    criterion = Criterion.HIGHER if how == "lower" else Criterion.FIRST
    keeper = Registrar(LedConfig(), lambda agent: agent not in gone, criterion)
    assert asked(keeper, leader, "chess")[0]
    assert all(asked(keeper, evil, f"n/{number}")[0] for number in range(2))
    if how == "out of reach":
        gone.add(leader)
    suspect = None if how == "lower" else leader
    effects = keeper.step(1.0, evil, Assert(chess, 7, 1, suspect, 1))
    (probe,) = [each.letter for each in effects if isinstance(each, PostLetter)]
    if isinstance(probe, LeaderProbe):
        if how == "silent":
            effects = keeper.fired(1.6, probe_timer(chess))
        elif how == "does not lead":
            effects = keeper.step(1.2, leader, LeaderProbed(chess, probe.number, leading=False))
        elif how == "released":
            effects = keeper.step(1.2, leader, SetReleased(chess, 2, 1))
    told = [(each.to, each.letter) for each in effects if isinstance(each, PostLetter)]
    if how == "lower":
        assert told == [(evil, AssertReply(chess, 7, leader))], "it leads on"
        return
    assert told == [(evil, LeadRefused(chess, 7, "TOO_LARGE", f"{evil} leads 2 sets"))]
    assert chess not in keeper.entries
    assert asked(keeper, f"{GOOD}.h1", "chess", now=2.0)[0], "who has room leads"


def hello(agent: Agent, peer: Domain) -> None:
    agent.receive(peer, Hello(1 << 20, 0, "test", peer, 1, 0, Domain("eu.fr.h1")))


def test_agents_of_one_cluster_take_half_of_the_circuits_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuits, "CIRCUITS_TAKEN_MAX", 9)
    agent = Agent()
    for number in range(20):
        hello(agent, Domain(f"{EVIL}.h{number}"))
    taken = [each for each in agent.led.circuits.links if each.startswith(EVIL)]
    assert len(taken) == 5
    hello(agent, H2)
    assert H2 in agent.led.circuits.links
    for each in taken[:2]:
        assert agent.led.want_circuit(each), "what we want ourselves is no longer taken"
    hello(agent, Domain(f"{EVIL}.h50"))
    assert f"{EVIL}.h50" in agent.led.circuits.links


def test_refusals_of_members_are_rows_with_who_where_why_and_from_whom() -> None:
    group, mallory = Group("acme!payroll", EU), Endpoint("eu.no.h1/mallory#7")
    seen = [AccessRefused(mallory, group, "no proof", FR), AccessRefused(mallory, group, "wrong word")]
    assert named(list(seen)) == [
        ("acme!payroll@eu", mallory, FR, "no proof"),
        ("acme!payroll@eu", mallory, None, "wrong word"),
    ]


# Names that are locked by asking


def claimed(server: Server, host: str, group: Group, kind: GroupKind) -> tuple[str, list[Effect]]:
    """The code of the answer, and all effects."""
    effects = server.stack.step(0.0, Received(Domain("eu.no"), claim(host, kind, group)))
    [answer] = [each.message for each in effects if isinstance(each, Send)]
    return answer.code, effects


@pytest.mark.spec("C-165", "C-167")
def test_a_name_cannot_be_locked_by_an_agent_that_it_is_not_for() -> None:
    """A claim of another kind would keep all others out, and an agent need not be honest."""
    server = Server("eu", "eu.no", "eu.de")
    vault, payroll = Group("vault", EU), Group("acme!payroll", EU)
    server.stack[SERVER].gate.learn(ClosedList(EU, 1, (("vault", (GOOD,)),)))
    for group, kind, why in (
        (vault, AGREED, "the group is closed"),
        (vault, LED, "the group is closed"),
        (payroll, AGREED, "the claim of a restricted name needs the proof"),
        (payroll, LED, "the claim of a restricted name needs the proof"),
        (payroll, ATOMIC, "the claim of a restricted name needs the proof"),
    ):
        code, effects = claimed(server, "eu.no.h1", group, kind)
        [row] = named(effects)
        assert code == ("NO_SUCH_GROUP" if group == vault else "NOT_ALLOWED") and (row[0], row[2]) == (
            str(group),
            "eu.no.h1",
        ), row
        assert row[3].startswith(why), row
        assert server.claims.table.get(group.name) is None
    assert server.answer("eu.de", claim("eu.de.h1", LED, vault)).group_kind == LED


@pytest.mark.spec("C-165")
def test_an_agent_that_locks_names_without_end_is_refused_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unique names are locks, too; a site that takes all it may leaves the others theirs."""
    monkeypatch.setattr(claim_table, "CLAIMS_OF_CHILD_MAX", 3)
    server = Server("eu", "eu.no", "eu.de")
    codes, rows = [], []
    for number in range(3 + NAMED_MAX + 5):
        lock = Group(f"rostra/unique/n{number}", EU)
        code, effects = claimed(server, f"eu.no.h{number}", lock, AGREED)
        codes.append(code)
        rows += named(effects)
    assert codes == ["", "", ""] + ["TOO_LARGE"] * (NAMED_MAX + 5)
    assert rows[0] == ("rostra/unique/n3@eu", None, "eu.no.h3", "3 claims of this scope are held by eu.no")
    assert len(rows) == NAMED_MAX, "the rest is counted"
    assert server.answer("eu.de", claim("eu.de.h1", AGREED, Group("rostra/unique/n9", EU))).code == ""


@pytest.mark.spec("S-012")
def test_records_that_are_not_believed_fill_no_journal() -> None:
    """A hostile neighbour relays as many as it likes; another is named all the same, and it later again."""
    gate, group = Gate(), Group("acme!payroll", EU)

    def relayed(now: float, sender: Domain, count: int) -> tuple[int, int]:
        members = tuple([Member(Endpoint(f"eu.no.h1/m{number}#1"), (1, 1)) for number in range(count)])
        out: list[Effect] = []
        message = EndpointsJoined(MessageId(sender, 1, 1), group, members, Cause.JOIN)
        assert screened(now, gate, sender, message, out).members == ()
        assert {each.why for each in out if isinstance(each, Ignored)} <= {NAMED_OFTEN}
        return len(named(out)), len(out)

    assert relayed(0.0, EVIL, 100) == (NAMED_MAX, 100)
    assert relayed(NAMED_S - 1, EVIL, 100) == (0, 100)
    assert relayed(1.0, GOOD, 5) == (5, 5)
    assert relayed(NAMED_S, EVIL, 5) == (5, 5)
    for number in range(2 * NAMED_NODES_MAX):
        gate.name(NAMED_S, Domain(f"eu.no.h{number}"), AccessRefused(ANN, group, "no proof"), [])
    assert len(gate._named) == NAMED_NODES_MAX
