"""K8: an agent without a proof tries to claim a restricted name, to lead its set, or to get into its agreed
group; one with a proof tries to stay when that has ended; a server of the set lets members in without."""

from typing import Any

import msgspec
import pytest

from rostra.core.effects import Effect, LinkUp, Received, Send, TimerFired
from rostra.core.stack import Stack
from rostra.groups.attributes import PROOF_BYTES_MAX
from rostra.groups.kinds import LED_FIFO, GroupKind
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.access import server as access_server
from rostra.protocols.access.agent import ACCESS_AGENT, Applying, Stay
from rostra.protocols.access.config import LUCK_BYTES, AccessConfig
from rostra.protocols.access.judge import ENDED, WRONG_SIGNATURE
from rostra.protocols.access.messages import ProofShown
from rostra.protocols.access.proofs import Signer
from rostra.protocols.access.requests import JoinRestricted, Revoke
from rostra.protocols.access.server import SHOWN
from rostra.protocols.agreed import proven
from rostra.protocols.agreed.agent import AGREED_AGENT
from rostra.protocols.agreed.branch import HostHolds, HostQuestion, MemberAnswer, MemberAsked
from rostra.protocols.agreed.calls import GroupAsked, LookAt
from rostra.protocols.agreed.changes import GroupVerb, MemberId, Pid, ServerId
from rostra.protocols.agreed.groups import AgreedGroup, AgreedMember
from rostra.protocols.agreed.proven import PROOFS_S
from rostra.protocols.agreed.requests import JoinAgreed, MemberView
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.agreed.sheets import member_sheet, with_proof
from rostra.protocols.claims.messages import Claim, ClaimAnswer, ClaimReleased, ProvenClaim
from rostra.protocols.claims.server import CLAIM_SERVER, ClaimRefused
from rostra.protocols.led.messages import (
    AnyLetter,
    Assert,
    AssertReply,
    CarriedLetter,
    LeadRefused,
    ProvenAssert,
    decode_letter,
    encode_letter,
)
from rostra.protocols.led.observed import LeaderRefused
from rostra.protocols.led.server import LED_SERVER
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.gate import AccessRefused, ClosedList
from rostra.protocols.relaxed.messages import Interest, InterestChanged, ResolveReply, ResolveRequest
from rostra.protocols.relaxed.requests import Denied, Done
from rostra.sim.processes import WORLD_NAME
from rostra.sim.programs import SimAgreed, SimProgram
from rostra.sim.world import World
from tests.attacks.test_h6_protected_names import (
    ACME,
    FALSE_PROOFS,
    MALLORY,
    NOW_MS,
    an_id,
    proof,
    refusals,
    stack,
)
from tests.cores.test_claims import AGREED, ATOMIC, LED

EU, H2 = Domain("eu"), Domain("eu.h2")
PAYROLL = Group("acme!payroll", EU)
ELSEWHERE = Endpoint("eu.h3/mallory#7")
"""On another host than the agent that speaks of it."""
WIDE = Group("acme!payroll", Domain("world"))
FALSE = {
    **FALSE_PROOFS,  # which are for the scope of the world
    "of another scope": (proof(), WRONG_SIGNATURE),
    "expired": (proof(group=PAYROLL, until_ms=NOW_MS - 1), ENDED),
}


def a_server() -> Stack:
    """Of the cluster eu, with the agent of eu.h2 below it."""
    made = stack(EU, is_agent=False)
    made.step(0.0, LinkUp(H2, 1))
    return made


# Claims


def claim(
    kind: GroupKind, shown: bytes | None, endpoint: Endpoint = MALLORY, group: Group = PAYROLL
) -> Claim:
    if shown is None:
        return Claim(an_id(), H2, group, kind)
    return ProvenClaim(an_id(), H2, group, kind, endpoint, shown)


def claimed(server: Stack, asked: Claim) -> tuple[ClaimAnswer, list[str]]:
    """The answer, and why the host was named."""
    effects = server.step(0.0, Received(H2, asked))
    [answer] = [each.message for each in effects if type(each) is Send and each.to == H2]
    return answer, [each.why for each in effects if isinstance(each, ClaimRefused)]


@pytest.mark.spec("S-012")
@pytest.mark.parametrize("kind", [LED, LED_FIFO, AGREED, ATOMIC], ids=str)
def test_a_restricted_name_is_claimed_with_the_proof_of_a_member_alone(kind: GroupKind) -> None:
    server = a_server()
    good = proof(group=PAYROLL)
    for asked in (
        claim(kind, None),
        claim(kind, proof(group=PAYROLL, endpoint=ELSEWHERE), ELSEWHERE),
        *[claim(kind, false) for false, _ in FALSE.values()],
    ):
        answer, named = claimed(server, asked)
        assert answer.code == "NOT_ALLOWED" and answer.group_kind is None and len(named) == 1, asked
        assert server[CLAIM_SERVER].table.get(PAYROLL.name) is None
    answer, named = claimed(server, claim(kind, good))
    assert (answer.group_kind, named) == (kind, [])


@pytest.mark.spec("S-012")
@pytest.mark.parametrize(("false", "why"), FALSE_PROOFS.values(), ids=FALSE_PROOFS.keys())
def test_a_claim_without_a_proof_is_not_passed_on(false: bytes, why: str) -> None:
    """The server of the scope is farther up, and would say no as well."""
    server = a_server()
    answer, named = claimed(server, claim(LED, false, group=WIDE))
    assert answer.code == "NOT_ALLOWED" and named == [why] and not server[CLAIM_SERVER].passed
    [passed] = [
        each for each in server.step(0.0, Received(H2, claim(LED, proof(), group=WIDE))) if type(each) is Send
    ]
    assert passed.to == Domain("world")


# Leaders of led sets


def asserts(server: Stack, letter: AnyLetter) -> list[Effect]:
    return list(server.step(0.0, Received(H2, CarriedLetter(H2, EU, encode_letter(letter)))))


@pytest.mark.spec("S-019")
@pytest.mark.parametrize("claims", [None, AGREED, LED], ids=str)
def test_an_agent_leads_no_set_of_which_it_holds_no_claim(claims: GroupKind | None) -> None:
    """It has no member there, or the group is of another kind: it would have a list that nobody is on."""
    server = a_server()
    chess = Group("chess", EU)
    if claims is not None:
        claimed(server, claim(claims, None, group=chess))
    effects = asserts(server, Assert(chess, 1, 1))
    [sent] = [each.message for each in effects if type(each) is Send and each.to == H2]
    if claims is LED:
        assert decode_letter(sent.body) == AssertReply(chess, 1, H2)
        server.step(0.0, Received(H2, ClaimReleased(an_id(), H2, chess)))
        asserts(server, Assert(chess, 2, 1))
        assert server[LED_SERVER].registrar.entries[chess].leader.number == 2, "its children are still there"
        return
    why = "eu.h2 holds no claim of chess@eu as a led group"
    assert decode_letter(sent.body) == LeadRefused(chess, 1, "NOT_ALLOWED", why)
    assert LeaderRefused(H2, chess, why) in effects and not server[LED_SERVER].registrar.entries


@pytest.mark.spec("S-012", "S-019")
@pytest.mark.parametrize(("false", "why"), FALSE.values(), ids=FALSE.keys())
def test_an_agent_leads_no_restricted_set_without_a_proof(false: bytes, why: str) -> None:
    server = a_server()
    keeper = server[LED_SERVER].registrar
    refused = asserts(server, ProvenAssert(PAYROLL, 1, 1, endpoint=MALLORY, proof=false))
    assert LeaderRefused(H2, PAYROLL, why) in refused and not keeper.entries
    plain = asserts(server, Assert(PAYROLL, 2, 1))
    assert [each.agent for each in plain if isinstance(each, LeaderRefused)] == [H2] and not keeper.entries
    good = proof(group=PAYROLL, endpoint=ELSEWHERE)
    others = ProvenAssert(PAYROLL, 3, 1, endpoint=ELSEWHERE, proof=good)
    assert any(isinstance(each, LeaderRefused) for each in asserts(server, others)) and not keeper.entries
    claimed(server, claim(LED, proof(group=PAYROLL)))
    asserts(server, ProvenAssert(PAYROLL, 4, 1, endpoint=MALLORY, proof=proof(group=PAYROLL)))
    assert keeper.entries


# Agreed groups


def entry(shown: bytes) -> AgreedMember:
    return AgreedMember(MemberId(MALLORY, (1, 1)), 0, with_proof(b"meta", shown))


@pytest.mark.spec("S-012")
@pytest.mark.parametrize("which", FALSE)
def test_the_servers_of_an_agreed_group_let_in_no_member_without_a_proof(which: str) -> None:
    server = a_server()
    question = HostQuestion(H2, 1, 1)
    # By the server of the core-set, and by one on the way to it.
    for group, (false, why) in ((PAYROLL, FALSE[which]), (WIDE, FALSE_PROOFS[which])):
        for message in (
            MemberAsked(group, question, GroupVerb.JOIN, (entry(false),), AGREED),
            HostHolds(group, question, (entry(false),), AGREED),
        ):
            effects = server.step(10.0, Received(H2, message))
            assert refusals(effects) == [AccessRefused(MALLORY, group, why, H2)]
            sent = [each.message for each in effects if type(each) is Send]
            assert not any(getattr(each, "members", ()) for each in sent), sent
            if isinstance(message, MemberAsked):
                answers = [each for each in sent if isinstance(each, MemberAnswer)]
                assert [each.code for each in answers] == ["NOT_AUTHORISED"] and answers == sent
    assert not any(core.table.groups for core in server[AGREED_SERVER].sets.values())


def test_a_sheet_with_a_proof_keeps_attachment_and_attributes_and_is_bounded() -> None:
    largest = bytes(PROOF_BYTES_MAX)
    sheet = member_sheet(with_proof(b"meta", largest))
    assert (sheet.meta, sheet.proof) == (b"meta", largest)
    assert with_proof(with_proof(b"meta", largest), b"") == b"meta"
    assert member_sheet(with_proof(b"meta", largest + b"x")).proof == b"", "what is too long is no sheet"


class Payroll:
    """Ann and Bob are in an agreed group with a restricted name, in two clusters; Eve's agent lies."""

    def __init__(self) -> None:
        self.world = World(
            7,
            domains={"eu.de": 1, "eu.fr": 2},
            timers=LinkConfig.lan().over_datagrams(),
            access=AccessConfig((("acme", ACME.key),)),
        )
        self.world.run(4.0)
        self.ann = self.world.program("eu.de.h1", "ann")
        self.bob = self.world.program("eu.fr.h1", "bob")
        self.eve = self.world.program("eu.fr.h2", "eve")
        for each in (self.ann, self.bob):
            assert self.join(each, 1_000.0) == Done()

    def proof_of(self, program: SimProgram, lasts_s: float, signer: Signer) -> bytes:
        from_ms = 1_000 + round(self.world.now * 1_000)
        me, until_ms = Endpoint(program.address), from_ms + round(lasts_s * 1_000)
        return msgspec.msgpack.encode(signer.proof(WORLD_NAME, PAYROLL, me, from_ms, until_ms))

    def join(
        self, program: SimProgram, lasts_s: float, signer: Signer = ACME, *, renews: bool = False
    ) -> object:
        """Its agent takes this for the proof of an authority, and then lets the program stay."""
        access = self.world.processes[program.host].stack[ACCESS_AGENT]

        def grant(stay: Stay, join: JoinRestricted, token: int | None) -> None:
            shown = self.proof_of(program, lasts_s, signer)
            access.judge.why_not(self.world.now, PAYROLL, stay[0], shown)
            access.applying[stay] = Applying(stay, join, b"", token)
            access._granted(access.applying[stay], shown)

        access._ask = grant  # type: ignore[method-assign]
        if not renews:
            access._due = lambda stay: None  # type: ignore[method-assign]
            access._revoked = list  # type: ignore[method-assign]
        program.agreed.setdefault(PAYROLL, SimAgreed())
        call = program.ask(JoinAgreed(PAYROLL, luck=bytes(LUCK_BYTES)))
        self.world.run(4.0)
        return call.result

    def members(self, server: str = "eu.de") -> list[str]:
        known = self.world.processes[Domain(server)].stack[AGREED_SERVER].sets[EU].table.get(PAYROLL)
        return [] if known is None else sorted([each.endpoint for each in known.view.ids])


@pytest.mark.spec("S-012", "XS-18")
def test_a_lying_agent_gets_no_member_into_an_agreed_group() -> None:
    made = Payroll()
    both = [made.ann.address, made.bob.address]
    assert made.members() == both
    stranger = Signer("acme", bytes(range(1, 33)))
    refused = made.join(made.eve, 1_000.0, stranger)
    assert isinstance(refused, Denied) and refused.code in ("NOT_ALLOWED", "NOT_AUTHORISED")
    assert made.members() == both
    held = made.world.processes[made.eve.host].stack[AGREED_AGENT].groups
    assert PAYROLL not in held


@pytest.mark.spec("S-012")
def test_servers_remove_a_member_whose_proof_has_ended_though_its_agent_keeps_it() -> None:
    made = Payroll()
    assert made.join(made.eve, 30.0) == Done()
    made.world.run(20.0)
    assert made.eve.address in made.members()
    made.world.run(10.0 + 2 * PROOFS_S)
    assert made.members() == made.members("eu.fr") == [made.ann.address, made.bob.address]
    for way in (made.world.cut, made.world.heal):  # nor does it come back with what its host holds
        way("eu.fr.h2 | eu.fr")
        made.world.run(8.0)
    assert made.members() == [made.ann.address, made.bob.address]


@pytest.mark.spec("S-012")
def test_a_step_verifies_a_few_proofs_and_the_steps_of_a_round_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five thousand proofs take more than a second, in which a server would do nothing else."""
    looked: list[list[str]] = []
    some = proven._screen_some

    def counted(server: Any, now: float, core: Any, group: Group, members: Any, out: list[Effect]) -> None:
        if server.domain == "eu.de":
            looked.append([each.id.endpoint for each in members])
        some(server, now, core, group, members, out)

    monkeypatch.setattr(proven, "SCREENED_MAX", 1)
    monkeypatch.setattr(proven, "_screen_some", counted)
    made = Payroll()
    assert made.join(made.eve, 30.0) == Done()
    all_of_them = made.members()
    looked.clear()
    made.world.run(2 * PROOFS_S)
    assert max(map(len, looked)) == 1 and sorted({me for step in looked for me in step}) == all_of_them
    made.world.run(20.0 + PROOFS_S)
    assert made.members() == [made.ann.address, made.bob.address]


@pytest.mark.spec("S-012")
def test_a_member_that_renews_its_proof_stays_in_the_same_view() -> None:
    made = Payroll()
    assert made.join(made.eve, 20.0, renews=True) == Done()
    view = made.ann.agreed[PAYROLL].view
    made.world.run(100.0)
    assert made.eve.address in made.members() and made.ann.agreed[PAYROLL].view == view
    shown = [data for item in made.ann.agreed[PAYROLL].items for _, data in getattr(item, "joined", ())]
    assert shown and not any(member_sheet(data).proof for data in shown), "proofs are not for programs"


@pytest.mark.spec("S-012", "S-014")
def test_servers_remove_the_members_of_a_revoked_authority_though_their_agents_keep_them() -> None:
    made = Payroll()
    revocation = ACME.revocation(WORLD_NAME, "acme", ACME.key)
    for each in (made.ann, made.bob):
        access = made.world.processes[each.host].stack[ACCESS_AGENT]
        access._revoked = list  # type: ignore[method-assign]
    call = made.world.administer(EU, Revoke(msgspec.msgpack.encode(revocation)))
    made.world.run(2 * PROOFS_S)
    assert call.result == Done() and made.members() == made.members("eu.fr") == []


@pytest.mark.spec("S-012")
def test_a_member_that_a_server_of_the_set_let_in_without_a_proof_is_removed_by_the_others() -> None:
    made = Payroll()
    server = made.world.processes[Domain("eu.fr")].stack[AGREED_SERVER]
    server._let_in = lambda now, message, out: message  # type: ignore[method-assign]
    made.world.processes[Domain("eu.fr")].stack[CLAIM_SERVER]._not_proven = lambda now, asked: ""
    made.world.processes[EU].stack[CLAIM_SERVER]._not_proven = lambda now, asked: ""
    made.world.processes[Domain("eu.fr")].stack[SERVER].gate.why_not = lambda *_: ""
    made.join(made.eve, 1_000.0, Signer("acme", bytes(range(1, 33))))
    made.world.run(2 * PROOFS_S)
    views = [each for each in made.ann.agreed[PAYROLL].items if isinstance(each, MemberView)]
    assert any(made.eve.address in dict(each.joined) for each in views), "it was in"
    assert any(made.eve.address in each.failed for each in views), "and was removed"


# Closed groups that a server restores from what hosts remember

VAULT = Group("vault", EU)


def restored(*held: tuple[str, str, int, str]) -> AgreedGroup:
    """By a server that lost its state, where the group is for one host alone. Each host says what it holds:
    its member, the number of the view, and who was in that as well."""
    server = a_server()
    server[SERVER].gate.learn(ClosedList(EU, 1, ((VAULT.name, (H1,)),)))
    server.step(0.0, LinkUp(H1, 1))
    for host, me, number, other in held:
        mine, another = (
            AgreedMember(MemberId(Endpoint(each), (1, 1)), rank) for rank, each in enumerate((me, other))
        )
        pid = Pid(ServerId(EU, 7), 1)
        question = HostQuestion(Domain(host), 1, 1)
        view = (mine, another) if other else (mine,)
        says = HostHolds(VAULT, question, (mine,), AGREED, (number, 0, pid), view, number)
        server.step(10.0, Received(Domain(host), says))
    for second in range(11, 40):
        server[AGREED_SERVER].step(float(second), TimerFired(("agreed", "tick")))
    found = server[AGREED_SERVER].sets[EU].table.get(VAULT)
    assert found is not None
    return found


@pytest.mark.spec("C-167")
def test_a_host_that_a_group_is_closed_to_says_nothing_about_its_view() -> None:
    """After a restart of the server it would set the number and the fence, and list whom it likes."""
    ann, eve = "eu.h1/ann#1", "eu.h2/eve#1"
    found = restored(("eu.h1", ann, 5, ""), ("eu.h2", eve, 1_000, eve))
    assert [each.endpoint for each in found.view.ids] == [ann]
    assert found.view.number < 100 and found.living.fence < 100


@pytest.mark.spec("C-167")
def test_a_view_with_a_stranger_is_not_restored() -> None:
    """Of a host that is believed: it remembers one from before the group was closed, or lies. Members are
    not shown a view with it, nor is its host told who is in."""
    ann, eve = "eu.h1/ann#1", "eu.h2/eve#1"
    found = restored(("eu.h1", ann, 5, eve))
    assert [[each.endpoint for each in view.ids] for view in found.views] == [[ann]]
    assert found.view.number > 5, "an id has one list"


# Groups that their authority closes

H1 = Domain("eu.h1")


def listeners(server: Stack) -> list[Domain]:
    return sorted(server[SERVER].table.child_listeners(PAYROLL))


def a_closed_server() -> Stack:
    """Ann's agent has shown a proof, and wants to know who is in the group; Mallory's is beside it."""
    server = a_server()
    server.step(0.0, LinkUp(H1, 1))
    server[SERVER].gate.learn(ClosedList(EU, 1, ((PAYROLL.name, ()),)))
    ann = Endpoint("eu.h1/ann#1")
    server.step(0.0, Received(H1, ProofShown(PAYROLL, ann, proof(group=PAYROLL, endpoint=ann))))
    server.step(0.0, Received(H1, InterestChanged(an_id("eu.h1"), PAYROLL, Interest.ALL)))
    assert listeners(server) == [H1]
    return server


@pytest.mark.spec("C-167", "S-012")
@pytest.mark.parametrize("which", FALSE)
def test_an_agent_without_a_proof_learns_nothing_of_a_group_that_its_authority_closes(which: str) -> None:
    server, (false, why) = a_closed_server(), FALSE[which]
    seen = server.step(0.0, Received(H2, ProofShown(PAYROLL, MALLORY, false)))
    assert refusals(seen) == [AccessRefused(MALLORY, PAYROLL, why, H2)]
    others = Endpoint("eu.h1/ann#1")
    shown = ProofShown(PAYROLL, others, proof(group=PAYROLL, endpoint=others))
    assert not any(isinstance(each, Send) for each in server.step(0.0, Received(H2, shown)))
    server.step(0.0, Received(H2, InterestChanged(an_id(), PAYROLL, Interest.ALL)))
    assert listeners(server) == [H1]
    asked = server.step(0.0, Received(H2, ResolveRequest(an_id(), PAYROLL)))
    sent = [each for each in asked if isinstance(each, Send)]
    assert sent == [Send(H2, ResolveReply(an_id(), PAYROLL, (), Interest.NONE))], (
        "as of a group that is not there"
    )
    call = GroupAsked(PAYROLL, HostQuestion(H2, 1, 1), MALLORY, LookAt())
    told = [each.message for each in server.step(10.0, Received(H2, call)) if isinstance(each, Send)]
    assert [each.code for each in told] == ["NO_SUCH_GROUP"]
    answer, _ = claimed(server, claim(AGREED, false))
    assert answer.code == "NO_SUCH_GROUP"


@pytest.mark.spec("C-167", "S-012")
def test_a_host_whose_proof_has_ended_hears_no_more_of_a_closed_group() -> None:
    server = a_closed_server()
    server.step(
        0.0, Received(H2, ProofShown(PAYROLL, MALLORY, proof(group=PAYROLL, until_ms=NOW_MS + 9_000)))
    )
    server.step(0.0, Received(H2, InterestChanged(an_id(), PAYROLL, Interest.ALL)))
    assert listeners(server) == [H1, H2]
    for second in (5.0, 10.0):
        server.step(second, TimerFired(SHOWN))
    assert listeners(server) == [H1]
    server.step(11.0, Received(H2, InterestChanged(an_id(), PAYROLL, Interest.ALL)))
    assert listeners(server) == [H1]


def test_one_host_does_not_fill_a_server_with_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_server, "SHOWN_OF_HOST_MAX", 3)
    server = a_closed_server()
    for number in range(9):
        me = Endpoint(f"eu.h2/mallory#{number}")
        server.step(0.0, Received(H2, ProofShown(PAYROLL, me, proof(group=PAYROLL, endpoint=me))))
    assert server[SERVER].gate.shown.of_host(H2) == 3
    known = Endpoint("eu.h2/mallory#0")
    again = proof(group=PAYROLL, endpoint=known, until_ms=NOW_MS + 5_000)
    server.step(0.0, Received(H2, ProofShown(PAYROLL, known, again)))
    assert server[SERVER].gate.shown[known, PAYROLL] == again, "a renewed one takes the place of the old"
