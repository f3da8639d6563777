"""Real processes that die, stop, lose each other and come back; told to real programs."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import pytest
from support.lab import WITHIN_S, Lab, member, until

from rostra.client import Cause, Change, Joined, Left, Members, Membership, Only, View, Without
from rostra.names import host_of

C = TypeVar("C", bound=Change)


async def next_of(changes: AsyncIterator[Change], kind: type[C], within_s: float = WITHIN_S) -> C:
    """The next change, which must be of this kind."""
    async with asyncio.timeout(within_s):
        change = await anext(changes)
    assert isinstance(change, kind), change
    return change


def hosts(members: Members) -> list[str]:
    return sorted({host_of(member.endpoint) for member in members})


async def all_in(membership: Membership, *expected: str) -> None:
    await until(lambda: hosts(membership.members) == sorted(expected), f"members on exactly {expected}")


@pytest.mark.spec("C-034", "A-05")
async def test_others_are_told_at_once_when_a_program_is_killed(lab: Lab) -> None:
    async with lab.program("us.h1", "ann") as ann, ann.join("killed") as group:
        changes = aiter(group)
        await next_of(changes, View)
        with member(lab.socket("eu.h1"), "bob", "killed", "world") as bob:
            joined = await next_of(changes, Joined)
            os.kill(bob.pid, signal.SIGKILL)
            left = await next_of(changes, Left)
        assert left == Left((joined.members[0].endpoint,), Cause.CRASH)
        # Known by its socket, and not because a ping stayed unanswered for long.
        why = f"program='member pid {bob.pid}' endpoints=1 because='closed by the peer'"
        await until(lambda: why in lab["eu.h1"].log, "it says why")


@pytest.mark.spec("C-022", "A-06")
async def test_a_killed_agent_takes_its_host_out_by_name(lab: Lab) -> None:
    async with (
        lab.program("us.h1", "ann") as ann,
        ann.join("host-lost") as group,
        lab.program("eu.h2", "bob") as bob,
        bob.join("host-lost"),
    ):
        await all_in(group, "us.h1", "eu.h2")
        changes = aiter(group)
        await next_of(changes, View)
        lab["eu.h2"].kill()
        lost = await next_of(changes, Without)
        assert (lost.domain, lost.endpoints) == ("eu.h2", (bob.endpoint,))
        assert lost.because.accused == "eu.h2"
        await until(lambda: not bob.is_open, "the program of the dead agent knows")


@pytest.mark.spec("C-005", "C-117")
async def test_a_restarted_agent_is_a_new_incarnation(lab: Lab) -> None:
    async with lab.program("us.h1", "ann") as ann, ann.join("again") as group:
        async with lab.program("eu.h2", "bob") as bob, bob.join("again"):
            await all_in(group, "us.h1", "eu.h2")
            lab["eu.h2"].kill()
            lab["eu.h2"].start()
            await all_in(group, "us.h1")
            first = bob.endpoint
        await until(lambda: lab.inspect("eu.h2"), "the agent is back")
        async with lab.program("eu.h2", "bob") as bob, bob.join("again"):
            await all_in(group, "us.h1", "eu.h2")
            assert int(bob.endpoint.rpartition("#")[2]) > int(first.rpartition("#")[2])
            assert first not in [m.endpoint for m in group.members]


@pytest.mark.spec("C-035", "C-180")
async def test_a_short_stop_of_an_agent_is_seen_and_costs_nothing(patient: Lab) -> None:
    async with (
        patient.program("lab.h1", "ann") as ann,
        ann.join("short-stop") as group,
        patient.program("lab.h2", "bob") as bob,
        bob.join("short-stop"),
    ):
        await all_in(group, "lab.h1", "lab.h2")
        changes = aiter(group)
        await next_of(changes, View)
        downs = patient.counted("lab", "link_down")
        patient["lab.h2"].signal(signal.SIGSTOP)
        link = await until(
            lambda: _suspected_link(patient, "lab", "lab.h2"), "the stopped agent is suspected"
        )
        patient["lab.h2"].signal(signal.SIGCONT)
        assert link["up"]
        assert link["last_evidence"]["accuser"] == "lab"
        assert 1.0 < link["last_evidence"]["silence_s"] < link["last_evidence"]["down_after_s"] == 12.0
        async with bob.open("cid") as cid, cid.join("short-stop"):
            assert (await next_of(changes, Joined)).members[0].endpoint == cid.endpoint
        await until(lambda: patient.counted("lab", "link_trusted"), "it is trusted again")
        assert patient.counted("lab", "link_down") == downs


async def _suspected_link(lab: Lab, node: str, peer: str) -> dict[str, Any] | None:
    link: dict[str, Any] = (await lab.inspect(node))["links"][peer]
    return link if link["suspected"] else None


@pytest.mark.spec("C-176")
async def test_a_stalled_program_is_shown_as_suspected_and_keeps_its_place(patient: Lab) -> None:
    async with patient.program("lab.h1", "ann") as ann, ann.join("stalled") as group:
        changes = aiter(group)
        await next_of(changes, View)
        with member(patient.socket("lab.h2"), "bob", "stalled", "world") as bob:
            endpoint = (await next_of(changes, Joined)).members[0].endpoint
            os.kill(bob.pid, signal.SIGSTOP)
            await until(lambda: _is_suspected(patient, "lab.h2", endpoint), "it is suspected")
            os.kill(bob.pid, signal.SIGCONT)
            await until(lambda: _is_trusted(patient, "lab.h2", endpoint), "it is trusted again")
            assert endpoint in [m.endpoint for m in group.members]
            # Had it left and come back meanwhile, the next change would not be this one.
            os.kill(bob.pid, signal.SIGKILL)
            assert await next_of(changes, Left) == Left((endpoint,), Cause.CRASH)


async def _is_suspected(lab: Lab, host: str, endpoint: str) -> bool:
    return [[endpoint]] == [p["endpoints"] for p in (await lab.inspect(host))["programs"] if p["suspected"]]


async def _is_trusted(lab: Lab, host: str, endpoint: str) -> bool:
    return any(
        endpoint in p["endpoints"] and not p["suspected"] for p in (await lab.inspect(host))["programs"]
    )


@pytest.mark.spec("C-029", "C-035", "A-19")
async def test_a_long_stop_of_an_agent_removes_its_host_and_then_merges_it_again(lab: Lab) -> None:
    async with (
        lab.program("us.h1", "ann") as ann,
        ann.join("long-stop") as group,
        lab.program("eu.h2", "bob") as bob,
        bob.join("long-stop") as bobs,
    ):
        await all_in(group, "us.h1", "eu.h2")
        changes = aiter(group)
        await next_of(changes, View)
        lab["eu.h2"].signal(signal.SIGSTOP)
        lost = await next_of(changes, Without)
        assert (lost.domain, lost.because.what) == ("eu.h2", "silent")
        lab["eu.h2"].signal(signal.SIGCONT)
        merged = await next_of(changes, Joined)
        assert (merged.cause, hosts(merged.members)) == (Cause.MERGE, ["eu.h2"])
        await all_in(group, "us.h1", "eu.h2")
        await all_in(bobs, "us.h1", "eu.h2")


@pytest.mark.usefixtures("cables")
@pytest.mark.spec("A-07", "A-09", "A-10", "C-060", "C-062", "C-063")
async def test_both_sides_of_a_partition_are_told_once_by_domain_and_merge_again(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        ann.join("parted") as anns,
        lab.program("us.h1", "bob") as bob,
        bob.join("parted") as bobs,
        lab.program("eu.h2", "cid") as cid,
    ):
        await all_in(anns, "eu.h1", "us.h1")
        await all_in(bobs, "eu.h1", "us.h1")
        on_ann, on_bob = aiter(anns), aiter(bobs)
        await next_of(on_ann, View)
        await next_of(on_bob, View)

        lab.cut(lab.side("eu"), lab.side("us"))
        lost_us, lost_eu = await asyncio.gather(next_of(on_ann, Without), next_of(on_bob, Without))
        assert (lost_us.domain, lost_us.endpoints) == ("us", (bob.endpoint,))
        assert (lost_eu.domain, lost_eu.endpoints) == ("eu", (ann.endpoint,))

        # Each side goes on by itself: one joins in eu, and one comes and goes in us.
        async with cid.join("parted"):
            assert (await next_of(on_ann, Joined)).members[0].endpoint == cid.endpoint
            async with bob.open("dan") as dan, dan.join("parted"):
                assert (await next_of(on_bob, Joined)).members[0].endpoint == dan.endpoint
            assert isinstance(await next_of(on_bob, Left), Left)

            lab.heal()
            back_us, back_eu = await asyncio.gather(next_of(on_ann, Joined), next_of(on_bob, Joined))
            assert (back_us.cause, [m.endpoint for m in back_us.members]) == (Cause.MERGE, [bob.endpoint])
            assert back_eu.cause is Cause.MERGE
            assert [m.endpoint for m in back_eu.members] == [ann.endpoint, cid.endpoint]
            await all_in(anns, "eu.h1", "eu.h2", "us.h1")
            await all_in(bobs, "eu.h1", "eu.h2", "us.h1")


@pytest.mark.usefixtures("cables")
@pytest.mark.spec("C-030", "A-20")
async def test_a_one_way_cut_ends_the_epoch_for_both_sides(lab: Lab) -> None:
    async with (
        lab.program("us.h1", "ann") as ann,
        ann.join("one-way") as group,
        lab.program("eu.h2", "bob") as bob,
        bob.join("one-way") as bobs,
    ):
        await all_in(group, "us.h1", "eu.h2")
        on_ann, on_bob = aiter(group), aiter(bobs)
        await next_of(on_ann, View)
        await next_of(on_bob, View)
        downs = {node: lab.counted(node, "link_down") for node in ("eu", "eu.h2")}
        ups = {node: lab.counted(node, "link_up") for node in ("eu", "eu.h2")}
        lab.cut_one_way(["eu.h2"], ["eu"])
        assert (await next_of(on_ann, Without)).domain == "eu.h2"
        assert (await next_of(on_bob, Only)).domain == "eu.h2"
        lab.heal()
        assert (await next_of(on_ann, Joined)).cause is Cause.MERGE
        await all_in(group, "us.h1", "eu.h2")
        await all_in(bobs, "us.h1", "eu.h2")
        for node in ("eu", "eu.h2"):
            assert lab.counted(node, "link_down") == downs[node] + 1
            assert lab.counted(node, "link_up") == ups[node] + 1


@pytest.mark.spec("A-08", "C-023", "C-138")
async def test_a_server_that_returns_with_an_empty_memory_learns_everything_again(lab: Lab) -> None:
    async with (
        lab.program("us.h1", "ann") as ann,
        ann.join("server-lost") as anns,
        lab.program("eu.h1", "bob") as bob,
        bob.join("server-lost") as bobs,
        lab.program("eu.h2", "cid") as cid,
        cid.join("server-lost", online=False),
    ):
        await all_in(anns, "us.h1", "eu.h1", "eu.h2")
        await all_in(bobs, "us.h1", "eu.h1", "eu.h2")
        on_ann, on_bob = aiter(anns), aiter(bobs)
        await next_of(on_ann, View)
        await next_of(on_bob, View)
        lab["eu"].kill()
        assert (await next_of(on_ann, Without)).domain == "eu"
        assert (await next_of(on_bob, Only)).domain == "eu.h1"
        isolated = await bob.resolve("server-lost", fresh=True)
        assert (hosts(isolated.members), isolated.isolated) == (["eu.h1"], True)
        lab["eu"].start()
        await all_in(anns, "us.h1", "eu.h1", "eu.h2")
        await all_in(bobs, "us.h1", "eu.h1", "eu.h2")
        again = await cid.resolve("server-lost")
        assert (hosts(again.members), again.isolated, again.from_copy) == (
            ["eu.h1", "eu.h2", "us.h1"],
            False,
            False,
        )


@pytest.mark.usefixtures("cables")
@pytest.mark.spec("C-026", "C-032")
async def test_a_broken_connection_is_resumed_without_loss(lab: Lab) -> None:
    async with (
        lab.program("us.h1", "ann") as ann,
        ann.join("resumed") as group,
        lab.program("eu.h2", "bob") as bob,
    ):
        changes = aiter(group)
        await next_of(changes, View)
        downs = lab.counted("eu", "link_down")
        before = (await lab.inspect("eu"))["links"]["eu.h2"]["channel"]
        lab.reset_connections("eu.h2", "eu")
        entered = [await (await bob.open(f"n{number}")).join("resumed") for number in range(20)]
        lab.heal()
        seen = []
        while len(seen) < len(entered):
            seen += [m.endpoint for m in (await next_of(changes, Joined)).members]
        assert seen == [membership.me.endpoint for membership in entered]
        assert lab.counted("eu", "link_down") == downs
        assert (await lab.inspect("eu"))["links"]["eu.h2"]["channel"] != before
