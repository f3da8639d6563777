"""K11: what a compromised agent tries on led groups and restricted names, one after the other in one world,
and bystanders that notice nothing of it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from rostra.core.effects import Received, TimerFired
from rostra.groups.attributes import ProofAttributes
from rostra.groups.members import Cause, Member
from rostra.journal.segments import read
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.access.agent import ACCESS_AGENT, Applying, Stay
from rostra.protocols.access.config import LUCK_BYTES, AccessConfig
from rostra.protocols.access.judge import ENDED, NO_PROOF, WRONG_SIGNATURE
from rostra.protocols.access.proofs import Signer
from rostra.protocols.access.requests import JoinRestricted
from rostra.protocols.claims import table as claim_table
from rostra.protocols.claims.messages import Claim, ProvenClaim
from rostra.protocols.claims.server import CLAIM_SERVER
from rostra.protocols.led import registrar
from rostra.protocols.led.agent import LED_AGENT
from rostra.protocols.led.messages import Assert, CarriedLetter, LocalMember, ProvenAssert, encode_letter
from rostra.protocols.led.server import LED_SERVER
from rostra.protocols.led.state import TreeState
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.messages import EndpointsJoined, MessageId
from rostra.protocols.relaxed.requests import Absolute, Done
from rostra.sim.processes import WORLD_NAME
from rostra.sim.programs import SimProgram
from rostra.sim.world import World
from tests.attacks.test_h6_protected_names import ACME, STRANGER
from tests.cores.test_claims import AGREED, LED

EU, FR, EVIL = Domain("eu"), Domain("eu.fr"), Domain("eu.fr.h2")
CHESS, LOUNGE, PAYROLL = Group("chess", EU), Group("lounge", EU), Group("acme!payroll", EU)
LASTS_MS = 1_000_000


class Town:
    """Ann and Bob are in a public led set, a relaxed group and a restricted led set; Eve's agent lies."""

    def __init__(self, journal: Path) -> None:
        self.journal = journal
        self.world = World(
            11,
            domains={"eu.de": 2, "eu.fr": 2},
            timers=LinkConfig.lan().over_datagrams(),
            access=AccessConfig((("acme", ACME.key),)),
            journal=journal,
        )
        self.world.run(4.0)
        self.ann = self.world.program("eu.de.h1", "ann")
        self.bob = self.world.program("eu.fr.h1", "bob")
        self.eve = self.world.program(EVIL, "eve")
        self.asker = self.world.program("eu.de.h2", "asker")
        for each in (self.ann, self.bob):
            self.join_public(each)
            assert self.join_restricted(each) == Done()
        self._number = 0

    def join_public(self, program: SimProgram) -> None:
        calls = program.join_led(CHESS, online=True), program.join(LOUNGE)
        self.world.run(4.0)
        assert [call.result for call in calls] == [Done(), Done()]

    def proof_of(
        self, me: str, signer: Signer = ACME, *, lasts_ms: int = LASTS_MS, group: Group = PAYROLL
    ) -> bytes:
        from_ms = round(self.world.now * 1_000)
        made = signer.proof(WORLD_NAME, group, Endpoint(me), from_ms, 1_000 + from_ms + lasts_ms)
        return msgspec.msgpack.encode(made)

    def false_proofs(self, me: str) -> dict[str, tuple[bytes, str]]:
        """With the reason for which each is refused."""
        other_life = f"{me.partition('#')[0]}#1"
        return {
            "forged": (self.proof_of(me, STRANGER), WRONG_SIGNATURE),
            "of another endpoint": (self.proof_of(self.bob.address), WRONG_SIGNATURE),
            "of another incarnation": (self.proof_of(other_life), WRONG_SIGNATURE),
            "expired": (self.proof_of(me, lasts_ms=-2_000), ENDED),
            "none": (b"", NO_PROOF),
        }

    def join_restricted(self, program: SimProgram) -> object:
        """Its authority lets it in."""
        access = self.world.processes[program.host].stack[ACCESS_AGENT]

        def grant(stay: Stay, join: JoinRestricted, token: int | None) -> None:
            access.applying[stay] = Applying(stay, join, b"", token)
            shown = self.proof_of(stay[0])
            assert access.judge.why_not(self.world.now, PAYROLL, stay[0], shown) == ""
            access._granted(access.applying[stay], shown)

        honest, access._ask = access._ask, grant  # type: ignore[method-assign]
        call = program.ask(JoinRestricted(PAYROLL, led=True, luck=bytes(LUCK_BYTES)))
        self.world.run(4.0)
        access._ask = honest  # type: ignore[method-assign]
        return call.result

    def says(self, message: Any) -> None:
        """The agent of Eve's host, to its server."""
        self.world.nodes.inject(self.world.processes[FR], Received(EVIL, message))
        self.world.run(0.2)

    def asserts(self, letter: Assert) -> None:
        self.says(CarriedLetter(EVIL, EU, encode_letter(letter)))

    def new_id(self) -> MessageId:
        self._number += 1
        return MessageId(EVIL, 1, 1_000_000 + self._number)

    def listed(self, group: Group) -> list[str]:
        call = self.asker.resolve(group)
        self.world.run(8.0)
        assert isinstance(call.result, Absolute), call.result
        return sorted([each.endpoint for each in call.result.members])

    def unharmed(self, *more: SimProgram) -> None:
        both = sorted([self.ann.address, self.bob.address])
        restricted = sorted([*both, *[each.address for each in more]])
        assert self.listed(CHESS) == self.listed(LOUNGE) == both
        assert self.listed(PAYROLL) == restricted
        for each in (self.ann, self.bob):
            assert sorted(each.members(LOUNGE)) == both

    def rows(self) -> list[dict[str, Any]]:
        """What the journal says of refusals."""
        self.world.close()
        return [each for each in read(self.journal).to_pylist() if each["kind"] == "access-refused"]


@pytest.mark.spec("S-012", "S-019", "XS-18")
def test_all_attacks_on_led_groups_in_one_world_and_bystanders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registrar, "NAMES_MAX", 9)
    monkeypatch.setattr(claim_table, "CLAIMS_OF_CHILD_MAX", 20)
    town = Town(tmp_path / "journal")
    eve = town.eve.address
    keeper = town.world.processes[EU].stack[LED_SERVER].registrar
    claims = town.world.processes[EU].stack[CLAIM_SERVER].table
    leaders = {group: keeper.entries[group].leader.agent for group in (CHESS, PAYROLL)}
    town.unharmed()

    # Proofs that are not Eve's: to claim the name, to lead its set, and to stand in the directory.
    false = town.false_proofs(eve)
    for shown, _ in false.values():
        town.says(ProvenClaim(town.new_id(), EVIL, PAYROLL, LED, Endpoint(eve), shown))
        town.asserts(ProvenAssert(PAYROLL, 1, 1, endpoint=Endpoint(eve), proof=shown))
        record = Member(Endpoint(eve), (1, 1), kind=LED, attributes=ProofAttributes(shown) if shown else None)
        town.says(EndpointsJoined(town.new_id(), PAYROLL, (record,), Cause.JOIN))
    town.unharmed()

    # The authority is away: a program on an honest host stays out.
    call = town.asker.ask(JoinRestricted(PAYROLL, led=True, luck=bytes(LUCK_BYTES)))
    town.world.run(8.0)
    assert call.result.code == "AUTH_UNAVAILABLE"

    # Eve is let in, and her agent lists members besides that have no proof, or false ones.
    assert town.join_restricted(town.eve) == Done()
    town.unharmed(town.eve)
    liar = town.world.processes[EVIL].stack[LED_AGENT]
    tree = liar.trees[PAYROLL]
    record = tree.record
    assert record is not None
    ghosts = [
        LocalMember(f"ghost-{at}#9", b"", town.false_proofs(f"{EVIL}/ghost-{at}#9")[which][0])
        for at, which in enumerate(false)
    ]
    number = tree.state.number + 1
    local = tuple(sorted([*record.local, *ghosts]))
    tree.state = TreeState(number, replace(record, local=local, version=number))
    town.world.nodes.inject(
        town.world.processes[EVIL], TimerFired(("led", "report", PAYROLL.name, PAYROLL.scope))
    )
    town.world.run(2.0)
    town.unharmed(town.eve)

    # A name is locked by asking, and the registrar filled: without claims, and with as many as there may be.
    honest = liar._letter
    liar._letter = (  # it does not say that it leads nothing
        lambda sender, letter: None if letter.group.name.startswith("evil") else honest(sender, letter)
    )
    town.says(Claim(town.new_id(), EVIL, PAYROLL, AGREED))
    town.says(Claim(town.new_id(), EVIL, CHESS, AGREED))
    town.asserts(Assert(Group("bridge", EU), 1, 1))
    for number in range(30):
        name = Group(f"evil/{number}", EU)
        town.says(Claim(town.new_id(), EVIL, name, LED))
        town.asserts(Assert(name, 1, 1))
        town.says(Claim(town.new_id(), EVIL, Group(f"rostra/unique/n{number}", EU), AGREED))
    assert {group: keeper.entries[group].leader.agent for group in (CHESS, PAYROLL)} == leaders
    assert claims.get(PAYROLL.name).group_kind == claims.get(CHESS.name).group_kind == LED
    town.unharmed(town.eve)
    late = town.asker.join_led("go@eu")  # there is room for others
    town.world.run(4.0)
    assert late.result == Done() and town.listed(Group("go", EU)) == [town.asker.address]

    rows = town.rows()

    def named(group: Group | str, why: str, who: Domain | None = EVIL, member: str = "") -> bool:
        return any(
            row["group"] == str(group)
            and row["peer"] == who
            and why in row["what"]
            and member in (row["member"] or "")
            for row in rows
        )

    for at, (_, why) in enumerate(false.values()):
        assert named(PAYROLL, why) and named(PAYROLL, why, member=eve), why
        assert named(PAYROLL, why, member=f"{EVIL}/ghost-{at}#9"), why
    assert named(PAYROLL, "acme: none of its programs is there", None, town.asker.address)
    assert named(PAYROLL, "the claim of a restricted name needs the proof")
    assert named("bridge@eu", f"{EVIL} holds no claim of bridge@eu")
    assert named("evil/4@eu", "the agents of eu.fr lead 4 sets, as many as are free")
    assert named("rostra/unique/n9@eu", "20 claims of this scope are held by eu.fr")
    assert {row["peer"] for row in rows} == {EVIL, None}, "no bystander is named"
