"""K9: a program, an agent or a minor authority turns names and authorities against the others."""

from typing import Any

import msgspec
import pytest

from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    EndpointGone,
    Ignored,
    LinkDown,
    LinkUp,
    Received,
    Send,
    Tell,
    TimerFired,
)
from rostra.core.records import Records
from rostra.core.stack import Stack
from rostra.errors import BadName
from rostra.groups.kinds import DeliveryKind, GroupKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.access.agent import ACCESS_AGENT
from rostra.protocols.access.config import ASKED_MAX, REVOCATIONS_OF_ROOT_MAX, AccessConfig
from rostra.protocols.access.judge import REVOKED, SKEW_MS_MAX
from rostra.protocols.access.messages import RevocationsTold
from rostra.protocols.access.proofs import Signer
from rostra.protocols.access.requests import CloseGroup, JoinRestricted, JoinUnique, Revoke
from rostra.protocols.access.server import ACCESS_SERVER
from rostra.protocols.access.unique import UNIQUE_AGENT
from rostra.protocols.claims import agent as claim_agent
from rostra.protocols.claims.agent import AGAIN, CLAIM_AGENT
from rostra.protocols.claims.config import ASK_TIMES_MAX
from rostra.protocols.claims.messages import Claim, ClaimAnswer
from rostra.protocols.claims.server import CLAIM_SERVER
from rostra.protocols.led.core import CircuitDown, CircuitUp, LeaderNamed, MemberCame, TreeCore
from rostra.protocols.led.messages import (
    ListAsked,
    ListEntry,
    ListTold,
    LocalMember,
    SequenceTaken,
)
from rostra.protocols.led.queries import ListQuery, ListResult, QueryEnding
from rostra.protocols.led.requests import CreateSet, OpenSequence, SendSequence, SequenceOpened
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.gate import ClosedList
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.messages import Interest, ResolveReply, ResolveRequest
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Absolute, Close, Denied, Done, Open
from rostra.sim import World
from rostra.stacks import NodePlan, make_stack
from tests.attacks.test_h6_protected_names import (
    ACME,
    END_MS,
    HOST,
    LUCK,
    MALLORY,
    NOW_MS,
    PAYROLL,
    W,
    answers,
    judge,
    proof,
    stack,
)
from tests.attacks.test_h6_protected_names import SERVER as ABOVE
from tests.cores.test_claims import AGREED, LED, Server, claim, released
from tests.cores.test_claims import Agent as ClaimingAgent
from tests.cores.test_led_services import CHESS, EU, FR, H1, H2, H3, Agent, letters
from tests.cores.test_led_transient import ANN, Owner

LUCKY = Group("lucky", EU)


def key(number: int) -> bytes:
    return bytes([number]) * 32


def minor(above: Signer, name: str, number: int) -> Signer:
    below = Signer(name, key(number))
    return Signer(name, key(number), (*above.chain, above.delegation(W, name, below.key, END_MS)))


HR = minor(ACME, "acme/hr", 1)


# Authorities


@pytest.mark.spec("S-014")
def test_an_authority_cannot_keep_itself_from_being_revoked() -> None:
    """It fills the table of those below its root with revocations of its own."""
    gate = judge()
    for number in range(REVOCATIONS_OF_ROOT_MAX):
        assert gate.revoke(HR.revocation(W, f"acme/hr/{number}", key(2))) == ""
    assert gate.revoke(HR.revocation(W, "acme/hr/one-more", key(2))).startswith("256 revocations")
    junk = next(iter(gate.revoked.values()))
    assert gate.revoke(ACME.revocation(W, "acme/hr", HR.key)) == ""
    assert [name for name, _ in gate.revoked] == ["acme/hr"], "what it said needs no room"
    assert gate.revoke(junk) == REVOKED
    assert gate.revoke(ACME.revocation(W, "acme/it", key(3))) == "" and len(gate.revoked) == 2


@pytest.mark.spec("S-014")
def test_a_revocation_reaches_a_server_that_an_agent_was_cut_off_from() -> None:
    agent, said = stack(HOST, is_agent=True), ACME.revocation(W, HR.name, HR.key)
    agent.step(0.0, LinkDown(ABOVE, Because(HOST, ABOVE, "silent")))
    asked = Revoke(msgspec.msgpack.encode(said))
    assert Answer(3, Done()) in agent.step(0.0, Asked(Endpoint(""), 3, asked))
    assert Send(ABOVE, RevocationsTold((said,))) in agent.step(0.0, LinkUp(ABOVE, 2))


@pytest.mark.spec("S-014")
def test_a_server_that_starts_again_knows_what_was_revoked() -> None:
    registry, said = Registry(Records()), ACME.revocation(W, HR.name, HR.key)
    access = AccessConfig((("acme", ACME.key),))
    plan = NodePlan(W, ABOVE, False, True, NOW_MS, LinkConfig.lan(), RelaxedConfig(), access=access)
    first, second = make_stack(plan, registry), make_stack(plan, registry)
    assert Answer(3, Done()) in first.step(0.0, Asked(Endpoint(""), 3, Revoke(msgspec.msgpack.encode(said))))
    second.step(0.0, LinkUp(HOST, 1))
    assert set(second[ACCESS_SERVER].judge.revoked) == {("acme/hr", HR.key)}


def test_revocations_with_long_chains_end_no_server() -> None:
    """They are one record, whose size is bounded: one with fifteen below it could end all servers."""
    server = stack(ABOVE, is_agent=False)
    deep = minor(ACME, f"acme/{'x' * 200}", 1)
    for number in range(2, 17):
        deep = minor(deep, f"{deep.name}/a", number)
    for number in range(200):
        said = deep.revocation(W, f"{deep.name}/{number}", key(2))
        server.step(0.0, Received(Domain("world"), RevocationsTold((said,))))
    found = server[ACCESS_SERVER].judge
    assert 30 < len(found.revoked) < 100
    first = deep.chain[0]
    assert found.revoke(ACME.revocation(W, first.name, first.key)) == "" and len(found.revoked) == 1


def test_an_authority_cannot_move_time_on() -> None:
    """Each proof may be some minutes ahead; many of them would end the proofs of all others."""
    gate, began = judge(), judge().clock_ms(0.0)
    for _ in range(20):
        ahead = gate.clock_ms(0.0) + 2 * SKEW_MS_MAX
        gate.why_not(0.0, PAYROLL, MALLORY, proof_from(ahead))
    assert gate.clock_ms(0.0) - began == SKEW_MS_MAX


def proof_from(at_ms: int) -> bytes:
    return msgspec.msgpack.encode(ACME.proof(W, PAYROLL, MALLORY, at_ms, at_ms + 10**9))


# Programs


@pytest.mark.parametrize("name", ["acme!payroll", "eu.h2/web-1#7~7-1718-5"])
def test_a_unique_name_that_is_not_public_is_refused_and_the_agent_goes_on(name: str) -> None:
    world = World(1, domains={"eu.paris": 1}, wire=True).run(3.0)
    mallory = world.program("eu.paris.h1", "mallory")
    call = mallory.ask(JoinUnique(Group(name, EU)))
    world.run(1.0)
    assert isinstance(call.result, Denied) and call.result.code == "NOT_AVAILABLE"


def test_a_transient_name_cannot_be_closed_and_the_server_goes_on() -> None:
    server = stack(ABOVE, is_agent=False)
    group = Group("eu.h2/web-1#7~7-1718-5", ABOVE)
    [refused] = answers(server.step(0.0, Asked(Endpoint(""), 5, CloseGroup(group, (HOST,)))))
    assert isinstance(refused, Denied) and refused.code == "NOT_AVAILABLE"


def with_users(*users: str) -> tuple[Stack, list[Endpoint]]:
    agent = stack(HOST, is_agent=True)
    for number, user in enumerate(users):
        agent.step(0.0, Asked(Endpoint(""), 1, Open(f"p{number}", user)))
    return agent, [agent[AGENT].names[f"p{number}"] for number in range(len(users))]


def test_one_user_cannot_keep_the_others_from_their_authorities() -> None:
    """It waits for a silent authority with as many joins as it may."""
    agent, (mallory, bob) = with_users("uid 1000", "uid 1001")
    for number in range(ASKED_MAX):
        asked = JoinRestricted(Group(f"acme!g{number}", Domain("world")), luck=LUCK)
        agent.step(0.0, Asked(mallory, 10 + number, asked))
    assert answers(agent.step(0.0, Asked(bob, 9, JoinRestricted(PAYROLL, luck=LUCK)))) == []


@pytest.mark.spec("C-165")
def test_a_founder_whom_the_directory_refuses_holds_no_lock() -> None:
    agent, (mallory,) = with_users("uid 1000")
    effects = agent.step(0.0, Asked(mallory, 5, JoinUnique(LUCKY, True, bytes(300))))
    [asked] = [each.message for each in effects if type(each) is Send and isinstance(each.message, Claim)]
    answer = ClaimAnswer(asked.id, HOST, asked.group, asked.group_kind, 1)
    effects = agent.step(0.0, Received(ABOVE, answer))
    [question] = [each.message for each in effects if isinstance(getattr(each, "message", 0), ResolveRequest)]
    reply = ResolveReply(question.id, LUCKY, (), Interest.NONE)
    [refused] = answers(agent.step(0.0, Received(ABOVE, reply)))
    assert refused.code == "TOO_LARGE"
    assert not agent[UNIQUE_AGENT].founders and not agent[CLAIM_AGENT].held


@pytest.mark.spec("C-165")
@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("is_locked", [False, True])
def test_programs_that_end_while_they_found_a_group_take_no_room(closes: bool, is_locked: bool) -> None:
    """Each leaves a question behind, for the lock or for the list, that nothing answers any more."""
    agent, (mallory,) = with_users("uid 1000")
    effects = agent.step(0.0, Asked(mallory, 5, JoinUnique(LUCKY)))
    [asked] = [each.message for each in effects if type(each) is Send and isinstance(each.message, Claim)]
    answer = ClaimAnswer(asked.id, HOST, asked.group, asked.group_kind, 1)
    if is_locked:
        agent.step(0.0, Received(ABOVE, answer))
    effects = agent.step(0.0, Asked(mallory, 6, Close()) if closes else EndpointGone(mallory))
    if not is_locked:
        effects = [*effects, *agent.step(0.0, Received(ABOVE, answer))]
    unique = agent[UNIQUE_AGENT]
    assert not unique.founders and not agent[CLAIM_AGENT].held
    assert not unique._own
    assert [each.token for each in effects if isinstance(each, Answer)] == [6] * closes


@pytest.mark.parametrize("closes", [False, True])
def test_programs_that_end_while_an_authority_is_looked_for_leave_nothing_behind(closes: bool) -> None:
    agent, (mallory,) = with_users("uid 1000")
    agent.step(0.0, Asked(mallory, 5, JoinRestricted(PAYROLL, luck=LUCK)))
    assert agent[ACCESS_AGENT]._own
    effects = agent.step(0.0, Asked(mallory, 6, Close()) if closes else EndpointGone(mallory))
    assert not agent[ACCESS_AGENT].applying and not agent[ACCESS_AGENT]._own
    assert [each.token for each in effects if isinstance(each, Answer)] == [6] * closes


def test_claims_of_a_silent_server_fill_no_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was not answered is released again and again: it may have counted."""
    monkeypatch.setattr(claim_agent, "CLAIMS_OF_HOST_MAX", 4)
    agent = ClaimingAgent()
    mallory = agent.open("mallory")
    for number in range(20):
        agent.join(mallory, LED, Group(f"g{number}", EU))
        for _ in range(ASK_TIMES_MAX + 1):
            agent.step(TimerFired(AGAIN))
    assert len(agent.claims.releasing) == 8 and not agent.claims.asked


# Closed groups


@pytest.mark.spec("C-167", "C-165")
def test_claims_say_nothing_of_a_group_that_is_closed_to_the_asker() -> None:
    """Neither one of another kind, nor a release, nor the lock of its name."""
    vault, lock = Group("vault", EU), Group("rostra/unique/vault", EU)
    kinds = [GroupKind(delivery=DeliveryKind.ATOMIC, within=Endpoint(f"eu.{x}.h1/x#1")) for x in ("de", "no")]
    said = []
    for is_there in (False, True):
        server = Server("eu", "eu.no", "eu.de")
        server.stack[SERVER].gate.learn(ClosedList(EU, 1, (("vault", (Domain("eu.de"),)),)))
        if is_there:
            assert server.answer("eu.de", claim("eu.de.h1", LED, vault)).group_kind == LED
            assert server.answer("eu.de", claim("eu.de.h1", kinds[0], lock)).group_kind == kinds[0]
        questions = [claim("eu.no.h1", AGREED, vault), claim("eu.no.h1", LED, vault)]
        questions += [released("eu.no.h1", vault), claim("eu.no.h1", kinds[1], lock)]
        questions += [released("eu.no.h1", lock)]
        said.append([server.answer("eu.no", each) for each in questions])
        assert server.claims.table.names() == (["rostra/unique/vault", "vault"] if is_there else [])
    assert said[0] == said[1]


# Names that stay locked


def test_a_claim_of_a_host_that_died_with_the_server_of_its_cluster_does_not_stand_for_ever() -> None:
    world = World(3, domains={"paris": 2}, timers=LinkConfig.lan().over_datagrams(), history=False).run(5.0)
    paris = Domain("paris")
    world.program("paris.h1", "ann").join_led(Group("chess", paris))
    world.run(3.0)
    world.crash("paris.h1").crash("paris").run(5.0)
    world.restart("paris").run(60.0)
    node = world.processes[paris].node
    assert node is not None and node.stack[CLAIM_SERVER].table.names() == ["chess"], "it may come back"
    world.run(90.0)
    assert node.stack[CLAIM_SERVER].table.names() == []


# Led sets


def told(agent: Agent, asked: ListAsked, entries: tuple[ListEntry, ...] | None) -> list[Effect]:
    return agent.receive(H2, ListTold(asked.group, asked.number, True, None, 1, 1, entries))


def asks(effects: list[Effect]) -> ListAsked:
    (found,) = [letter for _, letter in letters(effects) if isinstance(letter, ListAsked)]
    return found


def of_h2(endpoint_proof: bytes) -> tuple[ListEntry, ...]:
    return (ListEntry(Domain("eu.h2"), 1, 1, (LocalMember("mallory#7", b"", endpoint_proof),)),)


def restricted() -> tuple[Agent, Group]:
    """An agent whose gate knows acme."""
    agent, group = Agent(), Group("acme!payroll", EU)
    agent.local.gate = judge()
    return agent, group


@pytest.mark.spec("S-012", "S-085")
@pytest.mark.parametrize("is_good", [False, True])
def test_a_sequence_goes_to_members_with_a_proof_alone(is_good: bool) -> None:
    """Whatever the leader of a restricted set says."""
    agent, group = restricted()
    effects = agent.step(Asked(agent.ann, 5, OpenSequence(group)))
    number = next(iter(agent.led.queries.open))
    agent.led.queries.open[number].asked = H2
    shown = proof(group=group) if is_good else proof()
    effects = told(agent, ListAsked(group, number), of_h2(shown))
    (opened,) = [each.result for each in effects if isinstance(each, Answer)]
    assert isinstance(opened, SequenceOpened) and opened.destinations == ((MALLORY,) if is_good else ())


@pytest.mark.spec("S-012")
def test_a_watcher_is_told_when_the_proof_of_a_member_ends_though_its_agent_keeps_it() -> None:
    agent, group = restricted()
    follow = agent.led.following
    agent.led._begin(0.0)
    follow._followers = lambda group: (ANN,)  # type: ignore[method-assign]
    follow.follow(group, ())
    lists: list[Any] = []
    for now in (0.0, 5.0, (END_MS - NOW_MS) / 1000 + 1):
        agent.led._begin(now)
        entries = of_h2(proof(group=group)) if not now else None
        follow._follow_told(group, follow.groups[group], ListResult(QueryEnding.LIST, H2, 1, 1, entries))
        tells = [each.notice for each in agent.led.out if isinstance(each, Tell)]
        lists += [[each.endpoint for each in tell.members] for tell in tells if isinstance(tell, Absolute)]
    assert lists == [[MALLORY], []]


@pytest.mark.parametrize(
    "entries",
    [
        (ListEntry(H2, 1, 1), ListEntry(H2, 1, 1)),
        (ListEntry(H3, 1, 1), ListEntry(H2, 1, 1)),
        (ListEntry(H2, 1, 1, (LocalMember("x#1"), LocalMember("x#1"))),),
        (ListEntry(Domain("us.h1"), 1, 1, (LocalMember("x#1"),)),),
    ],
)
def test_what_a_leader_tells_is_a_list_of_the_scope_or_nothing(entries: tuple[ListEntry, ...]) -> None:
    agent = Agent()
    heard: list[ListResult] = []
    agent.led._begin(0.0)
    agent.led.ask(ListQuery(CHESS, heard.append, first=H2))
    question = asks(agent.led._end())
    assert Ignored("ListTold", "not a list") in told(agent, question, entries) and not heard
    told(agent, question, (ListEntry(H2, 1, 1, (LocalMember("x#1"),)),))
    assert len(heard) == 1


def test_agents_that_a_sequence_does_not_go_to_leave_nothing_behind() -> None:
    """A server invents hosts without number."""
    owner = Owner(H2)
    owner.ask(OpenSequence(CHESS))
    number = next(iter(owner.led.queries.open))
    owner.led.queries.open[number].asked = H2
    told(owner, ListAsked(CHESS, number), (ListEntry(H2, 1, 1, (LocalMember("x#1"),)),))
    (sequence,) = owner.led.sequences.opened
    owner.ask(SendSequence(sequence, b"e4"))
    for number in range(5):
        effects = owner.receive(Domain(f"eu.no.h{number}"), SequenceTaken(CHESS, sequence, 1))
        assert Ignored("SequenceTaken", "not a destination") in effects
    owner.receive(H2, SequenceTaken(CHESS, sequence, 1, ("x#1",)))
    assert owner.led.sequences.opened[sequence].taken == {f"{H2}/x#1": (1, 0)}


def test_a_circuit_concerns_the_sets_that_use_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand sets and fifty circuits, the loss of all of them was a turn of seconds."""
    owner, steps = Owner(H2, H3), list[Group]()
    groups = [Group(f"g{number}", EU) for number in range(6)]
    owner.led._begin(0.0)
    for nth, group in enumerate(groups):
        owner.led.tree_step(group, MemberCame(LocalMember("ann#1")))
        number = owner.led.trees[group].state.number
        owner.led.tree_step(group, LeaderNamed(number, (H1, H2, H3)[nth % 3]))
    step = TreeCore.step

    def counted(tree: TreeCore, *args: Any) -> list[Effect]:
        steps.append(tree.group)
        return step(tree, *args)

    monkeypatch.setattr(TreeCore, "step", counted)
    owner.led._circuit(H2, CircuitUp(H2))
    owner.led._circuit(H2, CircuitDown(H2))
    assert set(steps) == {groups[1], groups[4]} and len(steps) == 4


def test_an_agent_below_a_long_path_makes_no_set_that_others_cannot_name() -> None:
    """Its messages would be no letters, and block the circuits that they are on."""
    owner, far = Owner(), Endpoint(f"{FR}.{'g' * 63}.{'h' * 63}/{'x' * 63}#{2**62}")
    with pytest.raises(BadName, match="255 bytes"):
        owner.led.transient.asked(far, 1, CreateSet(EU, 2**62))
