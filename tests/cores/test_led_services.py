"""Led membership at an agent and at a server: what is carried and believed, and how lists are found."""

from typing import Any

import pytest
from msgspec.structs import replace

from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    Event,
    Ignored,
    LinkDown,
    LinkUp,
    Received,
    Send,
    SetTimer,
    Tell,
    TimerFired,
)
from rostra.core.records import Records
from rostra.core.stack import Stack
from rostra.groups.members import Because, Member
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.claims.agent import ClaimAgent
from rostra.protocols.claims.messages import Claim, ClaimAnswer
from rostra.protocols.led.agent import LedAgent
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.core import (
    LeaderNamed,
    LeadingRefused,
    MemberCame,
    MembersRefused,
    MemberWent,
    PostLetter,
    SendTree,
    SetTimerFired,
    TreeCore,
    TreeReceived,
)
from rostra.protocols.led.lists import LedLists
from rostra.protocols.led.messages import (
    RESIGNED,
    AnyLetter,
    Assert,
    AssertReply,
    AttachAsked,
    AttachNo,
    AttachOk,
    CarriedLetter,
    LeaderAsked,
    LeaderTold,
    LeadRefused,
    ListAsked,
    ListEntry,
    ListRefused,
    ListReport,
    ListTold,
    LocalMember,
    RegistrarsAsked,
    RegistrarsTold,
    RootMoved,
    SequenceData,
    SequenceTaken,
    SpreadLetter,
    decode_letter,
    encode_letter,
)
from rostra.protocols.led.observed import LedListed
from rostra.protocols.led.requests import JoinLed, LeaveLed
from rostra.protocols.led.server import LedServer
from rostra.protocols.led.state import AgentId
from rostra.protocols.led.stays import LED
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.packets import Data, Hello
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.gate import ClosedList, Gate
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.messages import Interest, ResolveReply, ResolveRequest
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Absolute, Denied, Done, Open, Opened, Resolve, Watch

H1, H2, FR, EU, DE, US = (Domain(path) for path in ("eu.fr.h1", "eu.fr.h2", "eu.fr", "eu", "eu.de", "us"))
H3 = Domain("eu.fr.h3")
CHESS = Group("chess", EU)
GONE = Because(FR, EU, "silent")


class Server:
    """The server of eu.fr, with its service."""

    def __init__(self, *up: Domain) -> None:
        registry = Registry(Records())
        self.led = LedServer(FR)
        self.stack = Stack(self.led, DomainServer(FR, cluster=True, incarnation=5, registry=registry))
        for peer in up:
            self.step(LinkUp(peer, 1))

    def step(self, event: Event) -> list[Effect]:
        return list(self.stack.step(0.0, event))

    def carry(self, sender: Domain, source: Domain, to: Domain, letter: AnyLetter) -> list[Effect]:
        return self.step(Received(sender, CarriedLetter(source, to, encode_letter(letter))))


ASSERT = Assert(CHESS, 1, 1)


@pytest.mark.spec("S-039")
def test_a_letter_goes_the_way_of_messages_between_programs() -> None:
    server = Server(H1, H2, EU, DE)
    body = encode_letter(ASSERT)
    assert server.carry(H1, H1, H2, ASSERT) == [Send(H2, CarriedLetter(H1, H2, body))]
    assert server.carry(H1, H1, EU, ASSERT) == [Send(EU, CarriedLetter(H1, EU, body))]
    there = Domain("eu.de.h7")
    assert server.carry(H1, H1, there, ASSERT) == [Send(DE, CarriedLetter(H1, there, body))]
    assert server.carry(DE, there, H1, ASSERT) == [Send(H1, CarriedLetter(there, H1, body))]


@pytest.mark.parametrize(
    ("sender", "source", "to", "why"),
    [
        (H1, H2, DE, "source outside the sender's side"),
        (DE, H1, H2, "source outside the sender's side"),
        (DE, Domain("eu.de.h1"), Domain("us.ny.h1"), "off the unique path"),
        (H1, H1, Domain("eu.it.h1"), "next hop is down"),
        (US, US, H1, "sender is not connected"),
    ],
)
def test_a_letter_that_cannot_be_from_there_or_go_there_is_not_carried(
    sender: Domain, source: Domain, to: Domain, why: str
) -> None:
    assert Server(H1, H2, EU, DE).carry(sender, source, to, ASSERT) == [Ignored("CarriedLetter", why)]


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"\x92\x02\xa1\xff", b"\x91" * 2000, encode_letter(ASSERT)[:-1], b"\x90"]
)
def test_bytes_that_are_no_letter_are_ignored(body: bytes) -> None:
    assert decode_letter(body) is None
    effects = Server(H1).step(Received(H1, CarriedLetter(H1, FR, body)))
    assert effects == [Ignored("CarriedLetter", "not a letter")]


def test_a_letter_with_names_that_break_the_grammar_is_none() -> None:
    entry = ListEntry(H1, 1, 1, (LocalMember("not a name"),))
    assert decode_letter(encode_letter(ListTold(CHESS, 1, True, None, 1, 1, (entry,)))) is None
    assert decode_letter(encode_letter(LeaderTold(CHESS, 1, Domain("Not A Path")))) is None
    assert decode_letter(encode_letter(Assert(Group("a//b", EU), 1, 1))) is None


@pytest.mark.spec("S-020", "S-021", "S-055")
def test_the_server_of_the_scope_is_the_registrar_and_the_highest_sibling_without_it() -> None:
    server = Server(H1, EU, DE)
    local = (FR, FR, 5)
    assert server.step(Received(H1, RegistrarsAsked())) == [
        Send(EU, RegistrarsAsked()),
        Send(H1, RegistrarsTold((local,))),
    ]
    told = RegistrarsTold(((EU, EU, 9), (Domain("world"), Domain("world"), 3)))
    assert server.step(Received(EU, told)) == [
        Send(H1, RegistrarsTold(((EU, EU, 9), local, (Domain("world"), Domain("world"), 3))))
    ]
    (sent,) = server.step(LinkDown(EU, GONE))
    alone = RegistrarsTold(((EU, FR, 5), local, (Domain("world"), FR, 5)))
    assert sent == Send(H1, alone), "fr is higher than de"
    assert server.step(LinkDown(DE, GONE)) == []


def test_only_a_parent_says_who_is_registrar_and_only_children_ask() -> None:
    server = Server(H1, EU, DE)
    assert server.step(Received(DE, RegistrarsTold(()))) == [Ignored("RegistrarsTold", "not our parent")]
    assert server.step(Received(DE, RegistrarsAsked())) == [Ignored("RegistrarsAsked", "not a child")]


@pytest.mark.spec("S-034")
def test_a_server_that_is_not_the_registrar_says_so_and_one_out_of_scope_says_nothing() -> None:
    server = Server(H1, EU)
    (sent,) = server.carry(H1, H1, FR, ASSERT)
    assert isinstance(sent, Send) and type(decode_letter(sent.message.body)).__name__ == "NotRegistrar"
    local = Assert(Group("chess", DE), 1, 1)
    assert server.carry(H1, H1, FR, local) == [Ignored("Assert", "out of scope")]


FRAME = encode_letter(SequenceData(CHESS, 1, "ann#1", 1, (), 1, b"e4"))


@pytest.mark.spec("S-082")
def test_an_agent_takes_of_a_frame_what_is_for_its_host() -> None:
    agent = Agent()
    name = agent.ann.partition("/")[2]

    def heard(source: Domain, host: Domain, body: bytes) -> list[Effect]:
        return agent.step(Received(FR, SpreadLetter(source, ((host, (name,)),), body)))

    taken = heard(H2, H1, FRAME)
    told = [each.notice for each in taken if isinstance(each, Tell)]
    assert [type(each).__name__ for each in told] == ["SequenceMessage"]
    assert letters(taken) == [(H2, SequenceTaken(CHESS, 1, 1, (name,)))]
    not_ours = [Ignored("SpreadLetter", "not for us")]
    for source, host, body in (
        (H2, H3, FRAME),
        (H1, H1, FRAME),
        (H2, H1, encode_letter(ASSERT)),
        (H2, H1, b"x"),
    ):
        assert heard(source, host, body) == not_ours


class Agent:
    """The agent of h1, with its services; the server answers claims, and is its registrar's way."""

    def __init__(self, group: Group = CHESS, gate: Gate | None = None) -> None:
        self.group = group
        self.led = LedAgent(H1, 1, "test", LinkConfig.lan())
        registry = Registry(Records())
        self.local = LocalServer(H1, incarnation=1, registry=registry, gate=gate)
        self.stack = Stack(self.led, ClaimAgent(H1, registry), self.local)
        self.now = 0.0
        self.step(LinkUp(FR, 5))
        (opened,) = self.step(Asked(Domain(""), 1, Open("ann")))
        assert isinstance(opened, Answer) and isinstance(opened.result, Opened)
        self.ann = opened.result.endpoint

    def step(self, event: Any) -> list[Effect]:
        return list(self.stack.step(self.now, event))

    def receive(self, source: Domain, letter: AnyLetter) -> list[Effect]:
        return self.step(Received(FR, CarriedLetter(source, H1, encode_letter(letter))))

    def join(self, *, closed: bool = False) -> list[Effect]:
        """Its claim is answered, and it is told the registrar."""
        effects = self.step(Asked(self.ann, 2, JoinLed(self.group, online=False, closed=closed)))
        claim = next(each.message for each in sent(effects) if isinstance(each.message, Claim))
        answer = ClaimAnswer(claim.id, H1, self.group, LED, 1)
        effects = self.step(Received(FR, answer))
        assert Answer(2, Done()) in effects
        return effects + self.step(Received(FR, RegistrarsTold(((EU, EU, 9),))))

    def lead(self, *, closed: bool = False) -> None:
        letters = [decode_letter(each.message.body) for each in carried(self.join(closed=closed))]
        (asserted,) = [letter for letter in letters if isinstance(letter, Assert)]
        self.receive(EU, AssertReply(self.group, asserted.number, H1))
        assert self.led.trees[self.group].leads


def sent(effects: list[Effect]) -> list[Send]:
    return [each for each in effects if isinstance(each, Send)]


def carried(effects: list[Effect]) -> list[Send]:
    return [each for each in sent(effects) if isinstance(each.message, CarriedLetter)]


def letters(effects: list[Effect]) -> list[tuple[Domain, Any]]:
    """By whom they are for; a frame for several hosts is one for each."""
    found = [(each.message.to, decode_letter(each.message.body)) for each in carried(effects)]
    for frame in [each.message for each in sent(effects) if isinstance(each.message, SpreadLetter)]:
        data = decode_letter(frame.body)
        assert isinstance(data, SequenceData)
        found += [(host, replace(data, to=names)) for host, names in frame.to]
    return found


@pytest.mark.spec("S-023", "S-031")
def test_a_join_is_claimed_and_asserted_to_the_server_of_the_scope() -> None:
    agent = Agent()
    assert [to for to, letter in letters(agent.join()) if isinstance(letter, Assert)] == [EU]


@pytest.mark.spec("S-053", "S-015")
def test_a_leader_answers_with_its_list_and_one_that_knows_it_when_it_changes() -> None:
    agent = Agent()
    agent.lead()
    ((to, told),) = letters(agent.receive(H2, ListAsked(CHESS, 7)))
    assert (to, told.number, told.leading) == (H2, 7, True)
    assert [member.name for entry in told.entries for member in entry.members] == ["ann#1"]

    assert letters(agent.receive(H2, ListAsked(CHESS, 8, told.life, told.version))) == []
    agent.step(Asked(Domain(""), 3, Open("bob")))
    ((to, changed),) = letters(agent.step(Asked(agent.local.names["bob"], 4, JoinLed(CHESS, online=False))))
    assert (to, changed.number, len(changed.entries[0].members)) == (H2, 8, 2)


@pytest.mark.spec("S-054", "S-052", "S-051")
def test_a_question_follows_parents_then_asks_the_registrar_and_never_takes_a_partial_list() -> None:
    agent = Agent()
    agent.lead()
    agent.receive(EU, LeaderTold(CHESS, 99, H2))  # nobody asked
    assert agent.led.trees[CHESS].leads
    effects = agent.receive(H2, ListTold(CHESS, 1, True, None, 1, 1, (ListEntry(H2, 1, 1),)))
    assert effects == [Ignored("ListTold", "late reply")]


@pytest.mark.spec("S-035")
def test_an_answer_of_another_than_the_registrar_is_ignored() -> None:
    agent = Agent()
    agent.join()
    assert agent.receive(FR, AssertReply(CHESS, 1, H2)) == [Ignored("AssertReply", "not the registrar")]
    assert agent.receive(H2, AssertReply(CHESS, 1, H2)) == [Ignored("AssertReply", "not the registrar")]
    outside = agent.receive(EU, AssertReply(CHESS, 1, US))
    assert Ignored("AssertReply", "out of scope") in outside


@pytest.mark.spec("S-019")
def test_an_agent_that_may_not_lead_without_a_claim_claims_again_and_keeps_its_members() -> None:
    """Its cluster's server gave it up for a moment, and released what it held."""
    agent = Agent()
    agent.lead()
    number = agent.led.trees[CHESS].state.number
    refused = LeadRefused(CHESS, number, "NOT_ALLOWED", "no claim")
    assert agent.receive(H2, refused) == [Ignored("LeadRefused", "not the registrar")]
    effects = agent.receive(EU, refused)
    assert [each.message.group for each in sent(effects) if isinstance(each.message, Claim)] == [CHESS]
    assert agent.led.trees[CHESS].leads and not any(isinstance(each, Tell) for each in effects)


@pytest.mark.spec("S-019")
def test_an_agent_without_members_that_may_not_lead_sends_its_children_away() -> None:
    core = TreeCore(AgentId(H1, 1), CHESS, LedConfig())
    core.step(MemberCame(LocalMember("ann#1")), ())
    core.step(LeaderNamed(1, H1), ())
    core.step(TreeReceived(H2, AttachAsked(CHESS, 1, (ListEntry(H2, 1, 1, (LocalMember("bob#1"),)),))), (H2,))
    core.step(MemberWent("ann#1"), (H2,))
    assert core.leads and core.record is not None and core.record.children
    core.step(SetTimerFired("assert"), (H2,))
    effects = core.step(LeadingRefused(core.state.number, False, "no claim"), (H2,))
    assert SendTree(H2, AttachNo(CHESS, RESIGNED, None)) in effects and core.record is None


@pytest.mark.spec("S-046")
def test_a_refused_report_goes_on_to_those_below_and_the_next_one_is_whole() -> None:
    core = TreeCore(AgentId(H1, 1), CHESS, LedConfig(compressed=True))
    below = ListEntry(H2, 1, 4, (LocalMember("bob#1"),))
    core.step(MemberCame(LocalMember("ann#1")), ())
    core.step(LeaderNamed(1, H1), ())
    core.step(TreeReceived(H2, AttachAsked(CHESS, 1, (below,))), (H2,))
    core.step(SetTimerFired("assert"), (H2,))
    core.step(LeaderNamed(core.state.number, H3), (H2, H3))
    core.step(TreeReceived(H3, AttachOk(CHESS, core.state.number, H3)), (H2, H3))
    core.step(MemberCame(LocalMember("eve#1")), (H2, H3))
    core.step(SetTimerFired("report"), (H2, H3))
    full = ListRefused(CHESS, ((H1, 1), (H2, 3)))
    assert core.step(TreeReceived(H2, full), (H2, H3)) == [Ignored("ListRefused", "not our parent")]
    effects = core.step(TreeReceived(H3, full), (H2, H3))
    assert effects[0] == SendTree(H2, ListRefused(CHESS, ((H2, 3),)))
    assert [each.newer for each in effects if isinstance(each, MembersRefused)] == [1]
    assert not any(isinstance(each, SetTimer) for each in effects), "the same list is not sent again"
    core.step(MemberWent("eve#1"), (H2, H3))
    (sent, *_) = core.step(SetTimerFired("report"), (H2, H3))
    assert sent == SendTree(H3, ListReport(CHESS, core.entries))


def test_a_packet_of_an_agent_without_a_circuit_and_a_list_from_outside_the_scope_are_ignored() -> None:
    agent = Agent()
    agent.lead()
    attach = AttachAsked(CHESS, 1, (ListEntry(US, 1, 1),))
    assert agent.receive(H2, Data(1, 1, 1, 0, (attach,))) == [Ignored("Data", "no circuit")]
    greeting = agent.receive(H2, Hello(1 << 20, 0, "test", H2, 1, 0, H1))
    ours = [letter for _, letter in letters(greeting) if isinstance(letter, Hello)][-1]
    effects = agent.receive(H2, Data(1 << 20, ours.mine, 1, 0, (attach,)))
    assert Ignored("AttachAsked", "out of scope") in effects
    named = AttachNo(CHESS, 1, US), AttachOk(CHESS, 1, US), RootMoved(CHESS, US)
    effects = agent.receive(H2, Data(1 << 20, ours.mine, 2, 0, named))
    assert [each.what for each in effects if isinstance(each, Ignored)] == [
        "AttachNo",
        "AttachOk",
        "RootMoved",
    ]
    assert {each.why for each in effects if isinstance(each, Ignored)} == {"out of scope"}
    assert agent.led.trees[CHESS].record is not None and not agent.led.trees[CHESS].record.children


@pytest.mark.spec("C-167")
def test_a_leader_lets_no_agent_attach_that_its_closed_set_is_not_for() -> None:
    agent = Agent()
    agent.local.gate.learn(ClosedList(EU, 1, ((CHESS.name, (H1, H3)),)))
    agent.lead()
    for host, number in ((H2, 0), (H3, 1)):
        greeting = agent.receive(host, Hello(1 << 20, 0, "test", host, 1, 0, H1))
        ours = [letter for _, letter in letters(greeting) if isinstance(letter, Hello)][-1]
        attach = AttachAsked(CHESS, 1, (ListEntry(host, 1, 1, (LocalMember("bob#1"),)),))
        effects = agent.receive(host, Data(1 << 20, ours.mine, 1, 0, (attach,)))
        answers = [
            each for _, letter in letters(effects) if isinstance(letter, Data) for each in letter.messages
        ]
        assert answers == [AttachOk(CHESS, 1, H1)] * number, host


@pytest.mark.spec("S-028")
def test_a_leave_of_one_that_is_not_in_changes_nothing() -> None:
    agent = Agent()
    assert agent.step(Asked(agent.ann, 5, LeaveLed(CHESS))) == [Answer(5, Done())]


def resolving(agent: Agent) -> list[Effect]:
    """An outsider asks, and the directory has a member on h2."""
    effects = agent.step(Asked(agent.ann, 6, Resolve("chess", EU)))
    (request,) = [each.message for each in sent(effects) if isinstance(each.message, ResolveRequest)]
    signpost = Member(Endpoint(f"{H2}/bob#1"), (1, 1), kind=LED)
    return agent.step(Received(FR, ResolveReply(request.id, CHESS, (signpost,), Interest.ALL)))


@pytest.mark.spec("S-050", "S-055")
def test_a_watcher_whose_signpost_is_silent_believes_the_registrar_in_the_end() -> None:
    """The notice that its last member left may have been lost in a cut."""
    agent = Agent()
    effects = agent.step(Asked(agent.ann, 6, Watch(CHESS)))
    (request,) = [each.message for each in sent(effects) if isinstance(each.message, ResolveRequest)]
    signpost = Member(Endpoint(f"{H2}/bob#1"), (1, 1), kind=LED)
    agent.step(Received(FR, RegistrarsTold(((EU, EU, 9),))))
    effects = agent.step(Received(FR, ResolveReply(request.id, CHESS, (signpost,), Interest.ALL)))
    told: list[Any] = []
    for _ in range(8):
        asked = [letter for to, letter in letters(effects) if to == EU and isinstance(letter, LeaderAsked)]
        timers = [each.timer for each in effects if isinstance(each, SetTimer) and each.timer[0] == "led"]
        effects = []
        for each in asked:
            effects += agent.receive(EU, LeaderTold(CHESS, each.number, None))
        told += [each.notice for each in effects if isinstance(each, Tell)]
        waiting = [each for each in effects if isinstance(each, SetTimer)]
        if not waiting:
            effects += agent.step(TimerFired(timers[-1]))
        told += [each.notice for each in effects if isinstance(each, Tell) and each.notice not in told]
    assert told == [Absolute(CHESS, ())]
    assert agent.led.following.groups, "and it goes on asking"


@pytest.mark.spec("S-050", "S-051", "S-054")
def test_an_outsider_is_sent_from_the_signpost_to_the_leader() -> None:
    agent = Agent()
    ((to, asked),) = letters(resolving(agent))
    assert (to, asked) == (H2, ListAsked(CHESS, 1))
    h3 = Domain("eu.fr.h3")
    assert letters(agent.receive(H2, ListTold(CHESS, 1, False, h3))) == [(h3, ListAsked(CHESS, 1))]
    late = agent.receive(H2, ListTold(CHESS, 1, True, None, 1, 1, ()))
    assert late == [Ignored("ListTold", "late reply")]
    listed = (ListEntry(H2, 1, 1, (LocalMember("bob#1"),)), ListEntry(h3, 1, 1, (LocalMember("eve#2"),)))
    effects = agent.receive(h3, ListTold(CHESS, 1, True, None, 1, 1, listed))
    (answer,) = [each for each in effects if isinstance(each, Answer)]
    assert (answer.token, [str(each.endpoint) for each in answer.result.members]) == (
        6,
        [f"{H2}/bob#1", f"{h3}/eve#2"],
    )


@pytest.mark.spec("S-052", "S-064")
def test_a_set_with_members_and_without_a_leader_is_asked_for_again() -> None:
    agent = Agent()
    resolving(agent)
    agent.step(Received(FR, RegistrarsTold(((EU, EU, 9),))))
    query: Event = TimerFired(("led", "query", 1))
    agent.step(query)
    assert agent.receive(EU, LeaderTold(CHESS, 1, None)) == []
    assert letters(agent.step(query)) == [(EU, LeaderAsked(CHESS, 1))]


@pytest.mark.spec("S-054")
def test_an_unanswered_question_ends_with_unreachable_and_no_list() -> None:
    agent = Agent()
    resolving(agent)
    agent.step(Received(FR, RegistrarsTold(((EU, EU, 9),))))
    query: Event = TimerFired(("led", "query", 1))
    assert letters(agent.step(query)) == [(EU, LeaderAsked(CHESS, 1))]
    assert letters(agent.receive(EU, LeaderTold(CHESS, 1, H2))) == [(H2, ListAsked(CHESS, 1))]
    assert letters(agent.step(query)) == [(EU, LeaderAsked(CHESS, 1))]
    (answer,) = [each for each in agent.step(query) if isinstance(each, Answer)]
    assert isinstance(answer.result, Denied) and answer.result.code == "UNREACHABLE"


@pytest.mark.spec("S-054")
def test_xs_17_an_agent_that_took_over_answers_when_the_others_had_the_time_to_attach() -> None:
    core = TreeCore(AgentId(H1, 1), CHESS, LedConfig())
    lists = LedLists(core.me, core.config)
    core.step(MemberCame(LocalMember("ann#1")), ())
    core.step(LeaderNamed(1, H2), ())
    core.step(SetTimerFired("connect"), ())
    core.step(LeaderNamed(core.state.number, H1), ())
    out: list[Effect] = []
    lists.changed(CHESS, core, out)
    assert out == [SetTimer(("led", "settle", "chess", EU), 3.0), LedListed(CHESS, core.entries)]

    lists.asked(H3, ListAsked(CHESS, 7), core, out)
    lists.held(CHESS, out)
    attach = AttachAsked(CHESS, 1, (ListEntry(H2, 1, 1, (LocalMember("bob#1"),)),))
    core.step(TreeReceived(H2, attach), (H2,))
    lists.changed(CHESS, core, out)
    assert not any(isinstance(effect, PostLetter) for effect in out)

    lists.settled(CHESS, out)
    (answer,) = [effect for effect in out if isinstance(effect, PostLetter)]
    assert (answer.to, answer.letter.number) == (H3, 7)
    assert isinstance(answer.letter, ListTold) and len(answer.letter.entries or ()) == 2
