"""H6: a program, an agent or a false authority tries to get into a group whose authority decides who may.

The cores are those of real stacks; `tests/live/test_authorities.py` has real processes."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from support.bystanders import unnoticed
from support.lab import Lab

from rostra.client import connect_admin
from rostra.core.effects import Asked, Effect, Ignored, LinkUp, Received, Send, Tell, TimerFired
from rostra.core.stack import Stack
from rostra.errors import AuthUnavailable, NoSuchGroup, NotAvailable
from rostra.groups.attributes import (
    DelegateAttributes,
    FifoAttributes,
    ProofAttributes,
    ProvenFifoAttributes,
    Role,
)
from rostra.groups.members import Cause, Member
from rostra.names import Domain, Endpoint, Group, parent
from rostra.protocols.access.agent import ACCESS_AGENT
from rostra.protocols.access.config import (
    ASKED_MAX,
    FALSE_MAX,
    RETURNED_S,
    REVOCATIONS_OF_ROOT_MAX,
    AccessConfig,
)
from rostra.protocols.access.events import AccessEnded
from rostra.protocols.access.judge import ENDED, NO_AUTHORITY, NO_PROOF, REVOKED, WRONG_SIGNATURE, Judge
from rostra.protocols.access.messages import RevocationsTold
from rostra.protocols.access.proofs import (
    AuthorityAsked,
    Delegation,
    KeyAsked,
    Proof,
    SealedQuestion,
    Signer,
    decode_asked,
    opened_question,
    question_text,
)
from rostra.protocols.access.requests import JoinRestricted
from rostra.protocols.access.sealing import public_half
from rostra.protocols.access.server import ACCESS_SERVER
from rostra.protocols.fifo.messages import is_delegate
from rostra.protocols.led.messages import AttachAsked, ListEntry, LocalMember
from rostra.protocols.led.proven import with_proofs
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.gate import DELEGATES, AccessRefused
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.messages import (
    EndpointsJoined,
    Interest,
    InterestChanged,
    MessageId,
    ResolveReply,
    Routed,
    Undeliverable,
)
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Absolute, Denied, Done, Join, Message, NotDelivered, Open, Watch
from rostra.stacks import NodePlan, make_stack

RESTRICTED, TRANSIENT = "acme/hr!payroll", "eu.h2/web-1#7~7-1718-5"

W = "test"
HOST, SERVER = Domain("eu.h1"), Domain("eu")
PAYROLL = Group("acme!payroll", Domain("world"))
ACME = Signer("acme", bytes(range(32)))
STRANGER = Signer("acme", bytes(range(1, 33)))
NOW_MS, END_MS = 1_000_000, 2_000_000
MALLORY = Endpoint("eu.h2/mallory#7")
WORD, LUCK, SECRET = b"open sesame", bytes(range(32)), bytes(range(64, 96))


def proof(
    signer: Signer = ACME,
    *,
    endpoint: Endpoint = MALLORY,
    group: Group = PAYROLL,
    until_ms: int = END_MS,
    world: str = W,
) -> bytes:
    return msgspec.msgpack.encode(signer.proof(world, group, endpoint, NOW_MS - 1_000, until_ms))


def judge() -> Judge:
    return Judge(W, AccessConfig((("acme", ACME.key),)), NOW_MS)


FALSE_PROOFS = {
    "none": (b"", NO_PROOF),
    "forged": (proof(STRANGER), WRONG_SIGNATURE),
    "of another endpoint": (proof(endpoint=Endpoint("eu.h2/ann#7")), WRONG_SIGNATURE),
    "of another incarnation": (proof(endpoint=Endpoint("eu.h2/mallory#6")), WRONG_SIGNATURE),
    "of another group": (proof(group=Group("acme!lunch", Domain("world"))), WRONG_SIGNATURE),
    "of another scope": (proof(group=Group("acme!payroll", Domain("eu"))), WRONG_SIGNATURE),
    "of another world": (proof(world="other"), WRONG_SIGNATURE),
    "expired": (proof(until_ms=NOW_MS - 1), ENDED),
    "no proof at all": (b"\xc1\xff", "the proof cannot be read"),
    "with a chain of its own making": (
        msgspec.msgpack.encode(
            Proof(0, END_MS, bytes(64), (Delegation("acme", STRANGER.key, END_MS, bytes(64)),))
        ),
        NO_AUTHORITY,
    ),
}


@pytest.mark.spec("S-012")
@pytest.mark.parametrize(("false", "why"), FALSE_PROOFS.values(), ids=FALSE_PROOFS.keys())
def test_a_false_proof_is_refused_by_name(false: bytes, why: str) -> None:
    assert judge().why_not(0.0, PAYROLL, MALLORY, proof()) == ""
    assert judge().why_not(0.0, PAYROLL, MALLORY, false) == why


@pytest.mark.spec("S-014")
def test_only_a_chain_of_establishing_acts_makes_an_authority() -> None:
    hr = Signer("acme/hr", bytes(range(2, 34)), (ACME.delegation(W, "acme/hr", _key(2), END_MS),))
    fr = Signer(
        "acme/hr/fr", bytes(range(3, 35)), (*hr.chain, hr.delegation(W, "acme/hr/fr", _key(3), END_MS))
    )
    skipping = Signer("acme/hr/fr", bytes(range(3, 35)), (ACME.delegation(W, "acme/hr/fr", _key(3), END_MS),))
    sideways = Signer(
        "acme/ops", bytes(range(3, 35)), (*hr.chain, hr.delegation(W, "acme/ops", _key(3), END_MS))
    )
    beside = Signer(
        "acme/ops/it", bytes(range(3, 35)), (*hr.chain, hr.delegation(W, "acme/ops/it", _key(3), END_MS))
    )
    ended = Signer("acme/hr", bytes(range(2, 34)), (ACME.delegation(W, "acme/hr", _key(2), NOW_MS - 1),))
    below_it = Signer(
        "acme/hr/fr", bytes(range(3, 35)), (*ended.chain, ended.delegation(W, "acme/hr/fr", _key(3), END_MS))
    )
    forged = Signer("acme/hr", bytes(range(2, 34)), (STRANGER.delegation(W, "acme/hr", _key(2), END_MS),))
    others = (
        (below_it, ENDED),
        (forged, NO_AUTHORITY),
        (skipping, NO_AUTHORITY),
        (sideways, NO_AUTHORITY),
        (beside, NO_AUTHORITY),
        (ended, ENDED),
    )
    for signer, why in ((fr, ""), *others):
        group = Group(f"{signer.name}!payroll", Domain("world"))
        assert judge().why_not(0.0, group, MALLORY, proof(signer, group=group)) == why, signer.name
    # The one above is not the one below, nor the other way round.
    assert judge().why_not(0.0, PAYROLL, MALLORY, proof(hr)) == NO_AUTHORITY


@pytest.mark.spec("S-014")
def test_an_authority_is_revoked_by_itself_or_by_one_above_it_and_by_no_other() -> None:
    def below(label: str, number: int) -> Signer:
        chain = (ACME.delegation(W, f"acme/{label}", _key(number), END_MS),)
        return Signer(f"acme/{label}", bytes(range(number, number + 32)), chain)

    hr, ops = below("hr", 2), below("ops", 3)
    assert judge().revoke(ops.revocation(W, hr.name, hr.key)) == "acme/ops is not above acme/hr"
    assert judge().revoke(hr.revocation(W, "acme", ACME.key)) == "acme/hr is not above acme"
    assert judge().revoke(hr.revocation(W, hr.name, ops.key)) == "that is not the key of acme/hr"
    for by in (hr, ACME):
        assert judge().revoke(by.revocation(W, hr.name, hr.key)) == ""


@pytest.mark.spec("S-014")
def test_an_installed_root_that_revokes_itself_is_an_authority_no_more_nor_is_any_below_it() -> None:
    hr = Signer("acme/hr", bytes(range(2, 34)), (ACME.delegation(W, "acme/hr", _key(2), END_MS),))
    below = Group("acme/hr!payroll", Domain("world"))
    proofs = {PAYROLL: proof(), below: proof(hr, group=below)}
    at = judge()
    assert at.revoke(STRANGER.revocation(W, "acme", ACME.key)), "a stranger says so"
    assert at.revoke(ACME.revocation(W, "acme", STRANGER.key)), "the key of another one"
    assert [at.why_not(0.0, group, MALLORY, shown) for group, shown in proofs.items()] == ["", ""]
    assert at.revoke(ACME.revocation(W, "acme", ACME.key)) == ""
    assert [at.why_not(0.0, group, MALLORY, shown) for group, shown in proofs.items()] == [REVOKED, REVOKED]
    # What it signs from now on counts for nothing.
    assert at.revoke(ACME.revocation(W, hr.name, hr.key)) != ""


def _key(number: int) -> bytes:
    return Signer("any", bytes(range(number, number + 32))).key


def stack(path: Domain, *, is_agent: bool) -> Stack:
    plan = NodePlan(
        W,
        path,
        is_agent,
        not is_agent,
        NOW_MS,
        LinkConfig.lan(),
        RelaxedConfig(),
        access=AccessConfig((("acme", ACME.key),)),
    )
    made = make_stack(plan, Registry())
    made.step(0.0, LinkUp(parent(path), 1))
    return made


def an_id(server: str = "eu.h2") -> MessageId:
    return MessageId(Domain(server), 1, 1)


def member(false: bytes) -> Member:
    return Member(MALLORY, (1, 1), attributes=ProofAttributes(false) if false else None)


def refusals(effects: Sequence[Effect]) -> list[AccessRefused]:
    return [each for each in effects if isinstance(each, AccessRefused)]


@pytest.mark.spec("S-012")
@pytest.mark.parametrize(("false", "why"), FALSE_PROOFS.values(), ids=FALSE_PROOFS.keys())
def test_an_agent_that_adds_members_without_a_proof_adds_them_for_nobody(false: bytes, why: str) -> None:
    """Its server relays none, and neither an agent nor a leader believes one that was relayed."""
    h1, h2 = Domain("eu.h1"), Domain("eu.h2")
    server = stack(SERVER, is_agent=False)
    for host in (h1, h2):
        server.step(0.0, LinkUp(host, 1))
        server.step(0.0, Received(host, InterestChanged(an_id(host), PAYROLL, Interest.ALL)))
    forged = EndpointsJoined(an_id(), PAYROLL, (member(false),), Cause.JOIN)
    effects = server.step(0.0, Received(h2, forged))
    assert refusals(effects) == [AccessRefused(MALLORY, PAYROLL, why, h2)]
    assert not any(each.message.members for each in effects if type(each) is Send and each.to == h1)
    good = EndpointsJoined(an_id(), PAYROLL, (member(proof()),), Cause.JOIN)
    assert Send(h1, good) in server.step(0.0, Received(h2, good))

    agent = stack(HOST, is_agent=True)
    eve = _opened(agent, "eve")
    agent.step(0.0, Asked(eve, 2, Watch(PAYROLL)))
    effects = agent.step(0.0, Received(SERVER, forged))
    assert refusals(effects) == [AccessRefused(MALLORY, PAYROLL, why, SERVER)]
    assert [each.notice.members for each in effects if isinstance(each, Tell)] == [()]

    out: list[Effect] = []
    listed = ListEntry(h2, 1, 1, (LocalMember("mallory#7", b"", false),))
    attach = AttachAsked(PAYROLL, 1, (listed,))
    believed = with_proofs(0.0, judge(), h2, attach, out)
    assert believed.entries == (ListEntry(h2, 1, 1, ()),)
    assert out == [AccessRefused(MALLORY, PAYROLL, why, h2)]


@pytest.mark.spec("S-012")
def test_an_agent_cannot_make_a_delegate_of_itself_to_hear_a_restricted_group() -> None:
    """Delegates of clusters need no proof, and messages are sent to them; only servers have one."""
    h2, address = Domain("eu.h2"), DelegateAttributes("10.0.0.9:7700")
    for name in ("eu.h2/adhoc#7", "eu.h2.-delegate/adhoc#7", "eu.h2/x.-delegate/adhoc#7"):
        server = stack(SERVER, is_agent=False)
        server.step(0.0, LinkUp(h2, 1))
        false = Member(Endpoint(name), (1, 1), attributes=address)
        effects = server.step(0.0, Received(h2, EndpointsJoined(an_id(), PAYROLL, (false,), Cause.JOIN)))
        assert [each.why for each in refusals(effects)] == [NO_PROOF], name
    gate = judge()
    speaks = FifoAttributes(Role.BOTH, 1)
    for name, attributes, why in (
        ("us.-delegate/adhoc#7", address, ""),
        ("us.-delegate/aggregate#7", speaks, NO_PROOF),
        ("us.-delegate/adhoc#7", speaks, NO_PROOF),
        ("us.h1/ann#7", address, NO_PROOF),
        (MALLORY, ProvenFifoAttributes(Role.BOTH, 1, proof=proof()), ""),
        ("us.h1/ann#7", ProvenFifoAttributes(Role.BOTH, 1, proof=proof()), WRONG_SIGNATURE),
    ):
        found = gate.why_not_listed(0.0, PAYROLL, Member(Endpoint(name), (1, 1), attributes=attributes))
        assert found == why, name
    assert is_delegate(Endpoint(f"us{DELEGATES}7")), "the same names as those of FIFO multicast"


def _opened(agent: Stack, name: str) -> Endpoint:
    [answer] = agent.step(0.0, Asked(Endpoint(""), 1, Open(name)))
    return answer.result.endpoint  # type: ignore[attr-defined,no-any-return]


def asking(agent: Stack, me: Endpoint, token: int = 9) -> tuple[Endpoint, KeyAsked]:
    """An endpoint applies; what a member of its authority's group gets."""
    effects = agent.step(0.0, Asked(me, token, JoinRestricted(PAYROLL, WORD, luck=LUCK)))
    resolve = next(each.message for each in effects if type(each) is Send)
    member = Endpoint("us.h1/authority#1")
    listed = ResolveReply(resolve.id, resolve.group, (Member(member, (1, 1)),), Interest.ALL)
    effects = agent.step(0.0, Received(SERVER, listed))
    asked = decode_asked(sent(effects))
    assert isinstance(asked, KeyAsked)
    return member, asked


def sent(effects: Sequence[Effect]) -> bytes:
    [routed] = [each.message for each in effects if type(each) is Send and type(each.message) is Routed]
    return routed.data  # type: ignore[no-any-return]


def question(agent: Stack, member: Endpoint, me: Endpoint, asked: KeyAsked) -> AuthorityAsked:
    """The member shows the key, and gets the question."""
    effects = told(agent, member, me, ACME.show(W, asked, me, public_half(SECRET)))
    sealed = decode_asked(sent(effects))
    assert isinstance(sealed, SealedQuestion)
    found = opened_question(SECRET, question_text(W, "acme", asked.nonce, me), me, sealed)
    assert found is not None
    return found


def told(agent: Stack, source: Endpoint, me: Endpoint, answer: Any) -> Sequence[Effect]:
    data = msgspec.msgpack.encode(answer)
    return agent.step(0.0, Received(SERVER, Routed(an_id("us.h1"), source, (me,), data)))


def answers(effects: Sequence[Effect]) -> list[Any]:
    return [each.result for each in effects if hasattr(each, "result")]


@pytest.mark.spec("S-012", "S-013")
def test_a_false_authority_can_neither_let_in_nor_keep_out() -> None:
    """Any program may join the group of an authority."""
    agent = stack(HOST, is_agent=True)
    ann = _opened(agent, "ann")
    member, asked = asking(agent, ann)
    unasked = AuthorityAsked(asked.nonce, PAYROLL, ann)
    early = told(agent, member, ann, ACME.answer(W, unasked, None, "no"))  # it did not show its key
    assert answers(early) == [] and len(refusals(early)) == 1
    found = question(agent, member, ann, asked)
    good = ACME.proof(W, PAYROLL, ann, NOW_MS, END_MS)
    another = msgspec.structs.replace(found, nonce=bytes(16))
    of_mallory = msgspec.structs.replace(found, endpoint=MALLORY)
    for answer in (
        STRANGER.answer(W, found, None, "no"),
        STRANGER.answer(W, found, STRANGER.proof(W, PAYROLL, ann, NOW_MS, END_MS)),
        ACME.answer(W, of_mallory, None, "no"),  # another asked with our nonce, and was refused
        ACME.answer(W, found, ACME.proof(W, PAYROLL, MALLORY, NOW_MS, END_MS)),  # replayed for another
        ACME.answer(W, found, ACME.proof(W, PAYROLL, ann, 0, NOW_MS - 1)),  # ended
    ):
        effects = told(agent, member, ann, answer)
        assert answers(effects) == [] and len(refusals(effects)) == 1
        assert not any(type(each) is Tell and type(each.notice) is Message for each in effects)
    old = told(agent, member, ann, ACME.answer(W, another, None, "no"))  # an answer to another question
    assert answers(old) == [] and agent[ACCESS_AGENT].applying
    [late] = answers(agent.step(9.0, TimerFired(("access", "auth", ann, PAYROLL.name, PAYROLL.scope))))
    assert late.code == AuthUnavailable.code
    member, asked = asking(agent, ann)
    found = question(agent, member, ann, asked)
    assert [
        type(each).__name__ for each in answers(told(agent, member, ann, ACME.answer(W, found, good)))
    ] == ["Done"]


@pytest.mark.spec("S-012")
def test_an_authority_that_is_away_is_named_and_keeps_out_new_members_alone() -> None:
    agent = stack(HOST, is_agent=True)
    ann, bob = _opened(agent, "ann"), _opened(agent, "bob")
    member, asked = asking(agent, ann)
    found = question(agent, member, ann, asked)
    told(agent, member, ann, ACME.answer(W, found, ACME.proof(W, PAYROLL, ann, NOW_MS, END_MS)))
    asking(agent, bob)
    stay = PAYROLL.name, PAYROLL.scope
    effects = agent.step(9.0, TimerFired(("access", "auth", bob, *stay)))
    assert refusals(effects) == [AccessRefused(bob, PAYROLL, "acme: no valid answer within 5 s")]
    assert [each.code for each in answers(effects)] == [AuthUnavailable.code]
    # Nor can the proof of the one that is in be renewed: it stays until that ends.
    agent.step(500.0, TimerFired(("access", "due", ann, *stay)))
    effects = agent.step(505.0, TimerFired(("access", "auth", ann, *stay)))
    assert [each.why for each in refusals(effects)] == ["acme: no valid answer within 5 s"]
    assert list(agent[AGENT].groups[PAYROLL].members) == [ann]
    assert answers(agent.step(506.0, Asked(bob, 11, Join(Group("lobby", HOST), True)))) == [Done()]
    effects = agent.step(1_001.0, TimerFired(("access", "due", ann, *stay)))
    assert [each.why for each in effects if isinstance(each, AccessEnded)] == [
        f"the proof of {ann} for {PAYROLL} has ended"
    ]
    assert PAYROLL not in agent[AGENT].groups or not agent[AGENT].groups[PAYROLL].members


@pytest.mark.spec("S-012")
def test_what_comes_of_a_question_that_is_decided_is_not_for_the_program() -> None:
    """Late answers, and questions that come back; what it sends to its authority itself comes back to it."""
    agent = stack(HOST, is_agent=True)
    ann = _opened(agent, "ann")
    member, asked = asking(agent, ann)
    found = question(agent, member, ann, asked)
    answer = ACME.answer(W, found, ACME.proof(W, PAYROLL, ann, NOW_MS, END_MS))
    assert answers(told(agent, member, ann, answer))
    for late in (ACME.show(W, asked, ann, public_half(SECRET)), answer, ACME.answer(W, found, None, "no")):
        assert told(agent, member, ann, late) == [Ignored(type(late).__name__, "late answer")]
    assert agent[ACCESS_AGENT].permitted, "nor does a late no put it out"
    returned = Undeliverable(an_id("eu"), ann, (member,), "unknown endpoint")
    assert not any(isinstance(each, Tell) for each in agent.step(1.0, Received(SERVER, returned)))
    later = agent.step(2.0 + RETURNED_S, Received(SERVER, returned))
    assert [type(each.notice) for each in later if isinstance(each, Tell)] == [NotDelivered]


@pytest.mark.spec("S-011", "S-012")
def test_a_program_without_the_authoritys_key_learns_nothing_and_is_not_believed() -> None:
    """It is in the group of the authority, as any program may be, and is asked to show the key."""
    agent = stack(HOST, is_agent=True)
    ann = _opened(agent, "ann")
    member, asked = asking(agent, ann)
    assert asked == KeyAsked(asked.nonce)  # neither the group nor the credential
    mine = public_half(SECRET)
    true = ACME.show(W, asked, ann, public_half(bytes(range(1, 33))))
    for shown in (
        STRANGER.show(W, asked, ann, mine),
        msgspec.structs.replace(true, seal_key=mine),  # the authority's own answer, with another key
        ACME.show(W, asked, MALLORY, mine),  # what the authority showed to another that asked
        ACME.show("another", asked, ann, mine),
        Signer("acme/hr", bytes(range(32))).show(W, asked, ann, mine),
        ACME.show(W, asked, ann, bytes(32)),  # a point of small order: its secrets are known to all
    ):
        effects = told(agent, member, ann, shown)
        assert not [each for each in effects if type(each) is Send]
        [refused] = refusals(effects)
        assert "does not have the key of acme" in refused.why and refused.source == Domain("us.h1")
    # The true one's question goes by: what the authority alone can open, nobody else can.
    sealed = decode_asked(sent(told(agent, member, ann, true)))
    assert isinstance(sealed, SealedQuestion)
    text = question_text(W, "acme", asked.nonce, ann)
    assert WORD not in msgspec.msgpack.encode(sealed)
    assert opened_question(SECRET, text, ann, sealed) is None
    for wrong in (question_text(W, "acme", asked.nonce, MALLORY), question_text(W, "acme", bytes(16), ann)):
        assert opened_question(bytes(range(1, 33)), wrong, ann, sealed) is None
    opened = opened_question(bytes(range(1, 33)), text, ann, sealed)
    assert opened == AuthorityAsked(asked.nonce, PAYROLL, ann, WORD)
    again = told(agent, member, ann, true)  # shown twice, asked once
    assert not [each for each in again if type(each) is Send]


@pytest.mark.spec("S-012")
def test_a_program_that_shows_false_keys_without_end_is_not_listened_to() -> None:
    """Each costs the agent of the one that joins signatures to check, and a row of its journal."""
    agent = stack(HOST, is_agent=True)
    ann = _opened(agent, "ann")
    member, asked = asking(agent, ann)
    shown = STRANGER.show(W, asked, ann, public_half(SECRET))
    refused = [len(refusals(told(agent, member, ann, shown))) for _ in range(FALSE_MAX + 4)]
    assert refused == [1] * FALSE_MAX + [0] * 4
    assert agent[ACCESS_AGENT].applying, "others of the group are still waited for"


def test_two_questions_of_one_program_have_nothing_in_common() -> None:
    agent = stack(HOST, is_agent=True)
    ann = _opened(agent, "ann")
    seen = set()
    for _ in range(2):
        member, asked = asking(agent, ann)
        shown = ACME.show(W, asked, ann, public_half(SECRET))
        sealed = decode_asked(sent(told(agent, member, ann, shown)))
        assert isinstance(sealed, SealedQuestion)
        seen |= {asked.nonce, sealed.key, sealed.sealed}
        agent.step(9.0, TimerFired(("access", "auth", ann, PAYROLL.name, PAYROLL.scope)))
    assert len(seen) == 6


def test_joins_that_wait_for_authorities_are_bounded() -> None:
    """A silent authority, and a program that asks without end: the agent holds no more than so many."""
    agent = stack(HOST, is_agent=True)
    ann = _opened(agent, "ann")
    for number in range(ASKED_MAX):
        group = Group(f"acme!g{number}", Domain("world"))
        agent.step(0.0, Asked(ann, 10 + number, JoinRestricted(group, luck=LUCK)))
    [refused] = answers(agent.step(0.0, Asked(ann, 9, JoinRestricted(PAYROLL, luck=LUCK))))
    assert type(refused) is Denied and refused.code == "TOO_LARGE"
    assert len(agent[ACCESS_AGENT].applying) == ASKED_MAX // 2, "of one user, as many as are free"


def test_an_authority_cannot_fill_servers_with_revocations() -> None:
    server = stack(SERVER, is_agent=False)
    server.step(0.0, LinkUp(HOST, 1))
    for number in range(REVOCATIONS_OF_ROOT_MAX + 5):
        made = ACME.revocation(W, f"acme/{number}", bytes(32))
        server.step(0.0, Received(HOST, RevocationsTold((made,))))
    forged = STRANGER.revocation(W, "acme", ACME.key)
    effects = server.step(0.0, Received(HOST, RevocationsTold((forged,))))
    assert not [each for each in effects if type(each) is Send]
    assert len(server[ACCESS_SERVER].judge.revoked) == REVOCATIONS_OF_ROOT_MAX


@pytest.mark.parametrize("name", [RESTRICTED, TRANSIENT])
async def test_no_program_gets_in_where_nobody_decides(world: Lab, name: str) -> None:
    refusal = AuthUnavailable if name == RESTRICTED else NotAvailable
    async with unnoticed(world, "h6-talk"), world.program("eu.h1", "mallory") as mallory:
        with pytest.raises(refusal):
            await mallory.join(name)
        for attempt, why in (
            (mallory.join(name, permanent=True), NotAvailable),
            (mallory.join(name, delivery="fifo"), refusal),
            (mallory.join(name, delivery="fifo", role="submit"), NotAvailable),
            (mallory.join(name, membership="agreed"), refusal),
            (mallory.join(name, membership="agreed", delivery="fifo"), refusal),
            (mallory.join(name, membership="agreed", delivery="atomic"), refusal),
        ):
            with pytest.raises(why):
                async with attempt:
                    pass
        if name == RESTRICTED:
            assert (await mallory.resolve(name)).members == ()
        else:
            with pytest.raises(NoSuchGroup):  # its owner is asked, and has none
                await mallory.resolve(name)
    for scope in ("eu", "eu.h1"):
        async with connect_admin(world.socket(scope), domain=scope) as admin:
            with pytest.raises(NotAvailable):
                await admin.register(f"{name}@{scope}")
            await admin.unregister(f"{name}@{scope}")  # one of an earlier version can still be removed


def test_what_a_stranger_sees_of_an_open_question_is_nothing() -> None:
    """The answer of an authority is taken out of the messages of the program that joins."""
    agent = stack(HOST, is_agent=True)
    ann = _opened(agent, "ann")
    member, asked = asking(agent, ann)
    found = question(agent, member, ann, asked)
    effects = told(agent, member, ann, ACME.answer(W, found, None, "no"))
    assert [each.notice for each in effects if isinstance(each, Tell) and type(each.notice) is Message] == []
    assert [result.code for result in answers(effects)] == ["NOT_AUTHORISED"]
    assert not any(isinstance(result, Absolute) for result in answers(effects))
