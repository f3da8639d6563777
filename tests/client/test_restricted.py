"""Groups with restricted names: an authority decides who may join, and for how long. Virtual time."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

import rostra
from rostra.client.authority import (
    Authority,
    AuthorityAsked,
    KeyFile,
    encode_revocation,
    establish,
    make_key,
    revoke,
)
from rostra.errors import (
    AuthUnavailable,
    BadInput,
    DeadlineExceeded,
    Excluded,
    NameTaken,
    NotAllowed,
    NotAuthorised,
    NotAvailable,
    Refused,
)
from rostra.names import ROOT, Domain, Group
from rostra.protocols.access.requests import CloseGroup, ReopenGroup
from rostra.protocols.led.agent import LED_AGENT
from rostra.protocols.relaxed.requests import Done
from rostra.sim.processes import WORLD_NAME
from rostra.testing import World, Worlds

H1, H2, FAR, CENTRE = "eu.paris.h1", "eu.paris.h2", "us.boston.h1", "us.boston.h2"
SESAME = b"open sesame"
LONG_MS = 2**50

ROOT_KEY = make_key("acme", WORLD_NAME)
KINDS = ["relaxed", "led", "agreed"]
PUT_OUT = {"agreed": Excluded}
"""What a member without delivery gets when it has to leave, if it is not the reason itself."""


@pytest.fixture
def world(rostra_world: Worlds) -> World:
    return rostra_world({"eu.paris": 2, "us.boston": 2}, authorities={"acme": ROOT_KEY.signer.key})


def decide(asked: AuthorityAsked) -> str:
    return "" if asked.credential == SESAME else "wrong word"


@contextlib.asynccontextmanager
async def authority(
    world: World,
    key: KeyFile,
    lifetime_s: float = 600.0,
    host: str = CENTRE,
    program: type[Authority] = Authority,
) -> AsyncIterator[None]:
    async with rostra.connect(host, name=f"authority-{key.name.count('/')}") as me:
        serving = program(
            me, key, decide, lifetime_s=lifetime_s, clock=lambda: 1_000 + round(world.now * 1_000)
        )
        task = asyncio.create_task(serving.serve())
        try:
            await asyncio.sleep(5.0)
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def listed(me: rostra.Me, group: str) -> list[str]:
    return [each.partition("#")[0] for each in (await me.resolve(group, fresh=True)).endpoints]


@pytest.mark.spec("S-011", "S-012", "S-015", "XS-18")
@pytest.mark.parametrize("membership", KINDS)
async def test_only_those_whom_the_authority_lets_in_are_in(world: World, membership: str) -> None:
    how = {"membership": membership}
    async with (
        authority(world, ROOT_KEY),
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(FAR, name="bob") as bob,
        rostra.connect(H2, name="eve") as eve,
        ann.join("acme!payroll", credential=SESAME, **how),
        bob.join("acme!payroll", credential=SESAME, **how),
    ):
        for wrong in (b"", b"sesame"):
            with pytest.raises(NotAuthorised, match="wrong word"):
                await eve.join("acme!payroll", credential=wrong, **how)
        await asyncio.sleep(5.0)
        # Asking and watching are open to all.
        assert await listed(eve, "acme!payroll") == [f"{H1}/ann", f"{FAR}/bob"]
        async with eve.watch("acme!payroll") as watch:
            await watch.ready()
            assert len(watch.members) == 2


@pytest.mark.spec("S-012", "XS-18")
@pytest.mark.parametrize("membership", KINDS)
async def test_while_its_authority_is_away_nobody_new_gets_in(world: World, membership: str) -> None:
    async with rostra.connect(H1, name="ann") as ann:
        with pytest.raises(AuthUnavailable, match="none of its programs is there") as refused:
            await ann.join("acme!payroll", credential=SESAME, membership=membership)
        assert refused.value.retriable and "a program is in authority/acme" in refused.value.fix
        with pytest.raises(AuthUnavailable) as unknown:
            await ann.join("acne/hr!payroll", credential=SESAME, membership=membership)
        assert unknown.value.fix.startswith("acne is not under [authorities]")
        async with rostra.connect(FAR) as silent, silent.join("authority/acme"):
            began = world.now
            with pytest.raises(AuthUnavailable, match="no valid answer within 5 s"):
                await ann.join("acme!payroll", credential=SESAME, membership=membership)
            assert 4.0 < world.now - began < 7.0
        assert await listed(ann, "acme!payroll") == []


@pytest.mark.spec("S-012")
@pytest.mark.parametrize("membership", KINDS)
async def test_a_proof_is_renewed_and_when_it_ends_the_member_has_to_leave(
    world: World, membership: str
) -> None:
    async with rostra.connect(H1, name="ann") as ann, rostra.connect(FAR) as eve:
        async with authority(world, ROOT_KEY, lifetime_s=60.0):
            group = await ann.join("acme!payroll", credential=SESAME, membership=membership)
            await asyncio.sleep(200.0)
            assert await listed(eve, "acme!payroll") == [f"{H1}/ann"]
        await asyncio.sleep(25.0)  # away for less than half of a life: no harm
        assert await listed(eve, "acme!payroll") == [f"{H1}/ann"]
        await asyncio.sleep(60.0)
        assert await listed(eve, "acme!payroll") == []
        with pytest.raises(PUT_OUT.get(membership, AuthUnavailable), match="has ended"):
            async for _ in group:
                pass


@pytest.mark.spec("S-013", "S-014", "XS-18")
@pytest.mark.parametrize("membership", KINDS)
async def test_revoking_the_middle_authority_revokes_those_below_it(world: World, membership: str) -> None:
    top, middle = establish(ROOT_KEY, "hr", LONG_MS)
    middle, lowest = establish(middle, "fr", LONG_MS)
    with pytest.raises(NameTaken, match="established acme/hr already"):
        establish(top, "hr", LONG_MS)
    async with (
        authority(world, lowest),
        authority(world, ROOT_KEY),
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(FAR, name="bob") as bob,
        bob.join("acme!payroll", credential=SESAME, membership=membership) as above,
    ):
        below = await ann.join("acme/hr/fr!payroll", credential=SESAME, membership=membership)
        assert await listed(bob, "acme/hr/fr!payroll") == [f"{H1}/ann"]

        top, revocation = revoke(top, "acme/hr")
        async with rostra.connect_admin(CENTRE) as admin:
            await admin.revoke(encode_revocation(revocation))
        await asyncio.sleep(5.0)

        with pytest.raises(PUT_OUT.get(membership, NotAuthorised), match="authority was revoked"):
            async for _ in below:
                pass
        assert await listed(bob, "acme/hr/fr!payroll") == []
        with pytest.raises(AuthUnavailable, match="no valid answer") as refused:
            await ann.join("acme/hr/fr!payroll", credential=SESAME, membership=membership)
        assert "a key of acme/hr was revoked" in refused.value.fix
        assert [each.endpoint for each in above.members] == [bob.endpoint]
    establish(top, "hr", LONG_MS)  # the name is free again


async def test_a_revocation_counts_for_its_signature_alone(world: World) -> None:
    top, middle = establish(ROOT_KEY, "hr", LONG_MS)
    stranger = establish(make_key("acme", WORLD_NAME), "hr", LONG_MS)[0]
    forged = stranger.signer.revocation(WORLD_NAME, "acme/hr", middle.signer.key)
    upward = middle.signer.revocation(WORLD_NAME, "acme", top.signer.key)
    other_world = top.signer.revocation("another", "acme/hr", middle.signer.key)
    async with rostra.connect_admin(H1) as admin:
        for wrong in (forged, upward, other_world):
            with pytest.raises(NotAuthorised, match="not believed"):
                await admin.revoke(encode_revocation(wrong))
        with pytest.raises(NotAuthorised, match="cannot be read"):
            await admin.revoke(b"\xc1")
        await admin.revoke(encode_revocation(revoke(top, "acme/hr")[1]))
        await admin.revoke(encode_revocation(revoke(top, "acme/hr")[1]))  # again: as good


async def test_a_key_of_another_world_is_refused_before_it_serves(world: World) -> None:
    async with rostra.connect(H1) as me:
        with pytest.raises(BadInput, match="for the world 'other'"):
            Authority(me, make_key("acme", "other"), decide)


# With messages


@pytest.mark.spec("S-011", "S-012", "S-015")
@pytest.mark.parametrize("membership", KINDS)
async def test_members_of_a_restricted_group_speak_to_each_other(world: World, membership: str) -> None:
    how = {"membership": membership, "delivery": "fifo"}
    async with (
        authority(world, ROOT_KEY),
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(FAR, name="bob") as bob,
        rostra.connect(H2, name="eve") as eve,
        ann.join("acme!payroll", credential=SESAME, **how) as says,
        bob.join("acme!payroll", credential=SESAME, **how) as hears,
    ):
        await hears.ready()
        await asyncio.sleep(5.0)
        for wrong in (b"", b"sesame"):
            with pytest.raises(NotAuthorised, match="wrong word"):
                await eve.join("acme!payroll", credential=wrong, **how)
        with pytest.raises((NotAvailable, NotAllowed)):
            await eve.join("acme!payroll", role="submit", **how)
        assert await listed(eve, "acme!payroll") == [f"{H1}/ann", f"{FAR}/bob"]
        await says.send(b"hello")
        async for item in hears:
            if isinstance(item, rostra.Message):
                assert (item.source, item.body) == (ann.endpoint, b"hello")
                break
        assert [each.endpoint for each in says.members] == [ann.endpoint, bob.endpoint]


@pytest.mark.spec("S-012")
@pytest.mark.parametrize("membership", KINDS)
async def test_a_member_that_speaks_has_to_leave_when_its_proof_ends(world: World, membership: str) -> None:
    how = {"membership": membership, "delivery": "fifo", "credential": SESAME}
    async with rostra.connect(H1, name="ann") as ann, rostra.connect(FAR) as eve:
        async with authority(world, ROOT_KEY, lifetime_s=60.0):
            group = await ann.join("acme!payroll", **how)
            await group.ready()
            await asyncio.sleep(200.0)
            assert await listed(eve, "acme!payroll") == [f"{H1}/ann"]
            async with eve.join("acme!payroll", **how) as late:  # by the renewed proof
                await late.ready()
                await asyncio.sleep(5.0)
                assert [each.endpoint for each in late.members] == [ann.endpoint, eve.endpoint]
        await asyncio.sleep(85.0)
        assert await listed(eve, "acme!payroll") == []
        with pytest.raises(Refused, match="has ended"):
            async for _ in group:
                pass


@pytest.mark.spec("S-011", "S-012", "S-014")
async def test_a_restricted_group_whose_messages_have_one_order(world: World) -> None:
    how = {"membership": "agreed", "delivery": "atomic"}
    top, middle = establish(ROOT_KEY, "hr", LONG_MS)
    async with (
        authority(world, middle),
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(FAR, name="bob") as bob,
        ann.join("acme/hr!payroll", credential=SESAME, **how) as says,
        bob.join("acme/hr!payroll", credential=SESAME, **how) as hears,
    ):
        with pytest.raises(NotAuthorised, match="wrong word"):
            await bob.join("acme/hr!payroll", "us", credential=b"sesame", **how)
        await hears.ready()
        await says.send(b"hello")
        async for item in hears:
            if isinstance(item, rostra.Message):
                assert (item.source, item.body) == (ann.endpoint, b"hello")
                break
        async with rostra.connect_admin(CENTRE) as admin:
            await admin.revoke(encode_revocation(revoke(top, "acme/hr")[1]))
        for group in (says, hears):
            with pytest.raises(Excluded, match="authority was revoked"):
                async for _ in group:
                    pass
        assert await listed(bob, "acme/hr!payroll") == []


@pytest.mark.spec("S-012", "S-015", "V-045")
async def test_calls_about_an_agreed_group_with_a_restricted_name(world: World) -> None:
    """Looking is open to all. Its members change it; it is made by the first of them, and proofs are for one
    name."""
    async with (
        authority(world, ROOT_KEY),
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(FAR, name="bob") as bob,
        ann.join("acme!payroll", membership="agreed", credential=SESAME) as payroll,
        bob.join("lobby", membership="agreed"),
    ):
        seen = await bob.groups.look("acme!payroll")
        assert [each.endpoint for each in seen.view.members] == [ann.endpoint]
        assert "acme!payroll" in [each.name for each in await bob.groups.list()]
        await payroll.set_attributes({"shift": "night"})
        await asyncio.sleep(2.0)
        assert payroll.attributes_of(ann.endpoint) == {"shift": "night"}
        for refused in (
            bob.groups.delete("acme!payroll"),
            bob.groups.remove("acme!payroll", [ann.endpoint]),
            bob.groups.set_attributes("acme!payroll", attributes={"a": "b"}),
            bob.groups.create("acme!lunch"),
            bob.groups.split("lobby", "acme!lunch", "hall", where={}),
            ann.groups.split("acme!payroll", "a", "b", where={}),
            ann.groups.merge("acme!payroll", "lobby", "hall"),
        ):
            with pytest.raises(NotAllowed, match="restricted name"):
                await refused
        await asyncio.sleep(20.0)
        assert [each.endpoint for each in payroll.members] == [ann.endpoint], "it has its proof yet"
        await ann.groups.delete("acme!payroll")


@pytest.mark.spec("S-012")
@pytest.mark.parametrize(
    ("membership", "delivery"),
    [*itertools.product(KINDS, ["none", "fifo"]), ("agreed", "atomic")],
)
async def test_a_program_that_gives_up_while_its_authority_is_asked_is_not_in(
    world: World, membership: str, delivery: str
) -> None:
    how = {"membership": membership, "delivery": delivery, "credential": SESAME}
    async with authority(world, ROOT_KEY), rostra.connect(H1, name="ann") as ann:
        for _ in range(2):
            with pytest.raises(DeadlineExceeded):
                await ann.join("acme!payroll", deadline_s=0.01, **how)
            await asyncio.sleep(10.0)
            assert await listed(ann, "acme!payroll") == []
        async with ann.join("acme!payroll", **how):
            assert await listed(ann, "acme!payroll") == [f"{H1}/ann"]


# Closed to all but those whom the authority lets in


VAULT = Group("acme!vault", ROOT)


async def close(world: World, *, closed: bool = True, after_s: float = 10.0) -> None:
    order = CloseGroup(VAULT, ()) if closed else ReopenGroup(VAULT)
    assert world.sim.administer(ROOT, order).result == Done()
    await asyncio.sleep(after_s)


async def looked(me: rostra.Me, group: str) -> tuple[Any, ...]:
    """All that a program sees of a group, without the group's name."""
    found: list[Any] = [await listed(me, group), (await me.resolve(group)).members]
    async with me.watch(group) as watch:
        await watch.ready()
        found.append(watch.members)
    for asked in (
        me.groups.look(group),
        me.groups.set_attributes(group, attributes={"a": "b"}),
        me.join(group, membership="agreed", create=False),
        me.join(group, credential=b"sesame"),
        me.join(group, credential=b"sesame", delivery="fifo"),
        me.join(group, credential=b"sesame", membership="led"),
        me.sequence(group),
    ):
        with pytest.raises(Refused) as refused:
            await asked
        found.append((refused.value.code, refused.value.what.replace(group, "it")))
    names = [each.name for each in await me.groups.list()]
    return (*found, group in names)


KINDS_OF_CLOSED: dict[str, dict[str, Any]] = {
    "relaxed": {},
    "fifo": {"delivery": "fifo"},
    "agreed": {"membership": "agreed"},
    "led": {"membership": "led"},
    "led fifo": {"membership": "led", "delivery": "fifo"},
}


@pytest.mark.spec("C-167", "C-168", "S-089")
@pytest.mark.parametrize("how", KINDS_OF_CLOSED)
async def test_an_authority_alone_says_for_whom_a_group_is_there(world: World, how: str) -> None:
    kind = KINDS_OF_CLOSED[how]
    await close(world)
    async with (
        authority(world, ROOT_KEY),
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(H2, name="eve") as eve,
        rostra.connect(FAR, name="bob") as bob,
        bob.join("acme!vault", credential=SESAME, **kind) as first,
        ann.join("acme!vault", credential=SESAME, **kind) as second,
    ):
        await asyncio.sleep(10.0)
        for each in (first, second):
            assert sorted([member.endpoint for member in each.members]) == [ann.endpoint, bob.endpoint]
        assert await listed(ann, "acme!vault") == [f"{H1}/ann", f"{FAR}/bob"]
        # One answer for a closed group and for none.
        assert await looked(eve, "acme!vault") == await looked(eve, "acme!never")
        await close(world, closed=False)
        assert await listed(eve, "acme!vault") == [f"{H1}/ann", f"{FAR}/bob"]


@pytest.mark.spec("C-167", "S-012")
@pytest.mark.parametrize("how", ["relaxed", "led"])
async def test_a_group_is_there_for_a_host_while_a_proof_of_its_program_lasts(world: World, how: str) -> None:
    await close(world)
    kind = {"credential": SESAME, **KINDS_OF_CLOSED[how]}
    async with rostra.connect(H1, name="ann") as ann, rostra.connect(FAR, name="bob") as bob:
        async with (
            authority(world, ROOT_KEY, lifetime_s=60.0),
            rostra.connect(H2, name="eve") as eve,
            eve.watch("acme!vault") as watch,
            bob.join("acme!vault", **kind),
            ann.join("acme!vault", **kind),
        ):
            await asyncio.sleep(200.0)  # over some renewals
            assert await listed(ann, "acme!vault") == [f"{H1}/ann", f"{FAR}/bob"]
            assert watch.members == ()
            async with eve.join("acme!vault", **kind):
                await asyncio.sleep(10.0)
                assert len(watch.members) == 3, "the watch of a host that is let in later"
            world.crash("eu.paris")
            await asyncio.sleep(20.0)
            world.restart("eu.paris")
            await asyncio.sleep(30.0)
            assert await listed(ann, "acme!vault") == [f"{H1}/ann", f"{FAR}/bob"]
        await asyncio.sleep(100.0)
        assert await listed(ann, "acme!vault") == [] == await listed(bob, "acme!vault")
        refused = world.sim.administer(ROOT, CloseGroup(Group("lobby", ROOT), ())).result
        assert refused.code == BadInput.code, "a public name has no authority"


@pytest.mark.spec("C-167")
@pytest.mark.parametrize("how", ["relaxed", "led"])
async def test_members_stay_when_their_group_is_closed_and_others_hear_no_more_of_it(
    world: World, how: str
) -> None:
    kind = {"credential": SESAME, **KINDS_OF_CLOSED[how]}
    async with (
        authority(world, ROOT_KEY),
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(H2, name="eve") as eve,
        rostra.connect(FAR, name="bob") as bob,
        ann.join("acme!vault", **kind) as stays,
        eve.watch("acme!vault") as watch,
    ):
        await watch.ready()
        assert len(watch.members) == 1
        await asyncio.sleep(2.0)
        waiting = world.sim.processes[Domain(H1)].stack[LED_AGENT].lists._waiting
        hosts = sorted(waiting[VAULT][0] if how == "led" else ())
        assert hosts == ([H1, H2] if how == "led" else []), "they wait for the leader's next list"
        await close(world, after_s=1.0)
        assert H2 not in waiting.get(VAULT, ((), None))[0], "eve's agent need not be honest"
        async with bob.join("acme!vault", **kind):
            await asyncio.sleep(15.0)
            assert len(stays.members) == 2 and await listed(eve, "acme!vault") == []
            assert bob.endpoint not in [each.endpoint for each in watch.members]


# Led sets with restricted names


def leaders(world: World, group: Group) -> list[str]:
    agents = {host: world.sim.processes[Domain(host)].stack[LED_AGENT] for host in (H1, H2, FAR, CENTRE)}
    return [host for host, led in agents.items() if group in led.trees and led.trees[group].leads]


@pytest.mark.spec("S-012", "S-019")
@pytest.mark.parametrize("closed", [False, True])
async def test_a_restricted_set_whose_leader_has_no_member_any_more_finds_another(
    world: World, closed: bool
) -> None:
    """It has no proof to lead with. It would go on without the registrar, which lets another agent lead."""
    how = {"membership": "led", "credential": SESAME}
    async with (
        authority(world, ROOT_KEY, lifetime_s=60.0),
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(FAR, name="bob") as bob,
        rostra.connect(CENTRE, name="cid") as cid,
        rostra.connect(H2, name="eve") as eve,
    ):
        if closed:
            await close(world)
        first = await ann.join("acme!vault", **how)
        async with bob.join("acme!vault", **how), cid.join("acme!vault", **how):
            await asyncio.sleep(10.0)
            assert leaders(world, VAULT) == [H1]
            await first.close()
            await asyncio.sleep(15.0)
            assert leaders(world, VAULT) in ([FAR], [CENTRE])
            assert await listed(bob, "acme!vault") == [f"{FAR}/bob", f"{CENTRE}/cid"]
            await asyncio.sleep(85.0)
            async with eve.join("acme!vault", **how):
                await asyncio.sleep(20.0)
                assert len(leaders(world, VAULT)) == 1 and leaders(world, VAULT) != [H1]
                both = [f"{H2}/eve", f"{FAR}/bob", f"{CENTRE}/cid"]
                assert await listed(eve, "acme!vault") == both == await listed(bob, "acme!vault")


@pytest.mark.spec("S-089", "C-167")
async def test_a_set_that_its_authority_closes_is_spoken_to_by_its_members_alone(world: World) -> None:
    """Also a host that may know of it cannot speak, if its program is no member."""
    how = {"membership": "led", "credential": SESAME}
    await close(world)
    async with (
        authority(world, ROOT_KEY),
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(FAR, name="bob") as bob,
        rostra.connect(FAR, name="cid") as cid,
        ann.join("acme!vault", **how),
        bob.join("acme!vault", **how),
    ):
        await asyncio.sleep(10.0)
        heard = ann.sets()
        outside = await cid.sequence("acme!vault")
        await outside.send(b"of a stranger")
        await asyncio.sleep(10.0)
        assert outside.destinations == ()
        inside = await bob.sequence("acme!vault")
        await inside.send(b"of a member")
        assert (await anext(heard)).body == b"of a member"


# What comes late


class LateAuthority(Authority):
    """It answers each question after all agents have given up on it."""

    async def _answer(self, message: rostra.Message) -> None:
        await asyncio.sleep(8.0)
        await super()._answer(message)


@pytest.mark.spec("S-012")
async def test_what_an_authority_answers_late_is_no_message_for_the_program(world: World) -> None:
    """Two programs serve it: the second one's answers come when the first has decided. A third is so late
    that the question was given up."""

    async def got(me: rostra.Me) -> list[bytes]:
        await asyncio.sleep(30.0)
        await bob.send_to(me.endpoint, b"of its own")
        found: list[bytes] = []
        while b"of its own" not in found:
            found.append(getattr(await anext(me.messages()), "body", b"not delivered"))
        return found

    async with rostra.connect(H1, name="ann") as ann, rostra.connect(FAR, name="bob") as bob:
        ann.messages()
        async with authority(world, ROOT_KEY), authority(world, ROOT_KEY, host=H2):
            for group in ("acme!payroll", "acme!lunch"):
                async with ann.join(group, credential=SESAME):
                    pass
        assert await got(ann) == [b"of its own"]
        async with authority(world, ROOT_KEY, host=FAR, program=LateAuthority):
            with pytest.raises(AuthUnavailable):
                await ann.join("acme!payroll", credential=SESAME)
            assert await got(ann) == [b"of its own"]
