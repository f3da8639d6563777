"""The front door: what is there, what is refused and how, and that nothing is left behind. Virtual time."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

import rostra
from rostra import Joined, View
from rostra.client.connection import AgentConnection
from rostra.errors import (
    BY_CODE,
    BadInput,
    DeadlineExceeded,
    NotAllowed,
    NotAvailable,
    RostraError,
    Unreachable,
)
from rostra.names import Domain, Endpoint
from rostra.protocols.relaxed import requests
from rostra.testing import World, Worlds
from rostra.wire import Arrived, Delivery

ROOT = Path(__file__).parents[2]
H1, FAR = "eu.paris.h1", "us.boston.h1"


@pytest.fixture
def world(rostra_world: Worlds) -> World:
    return rostra_world({"eu.paris": 2, "us.boston": 1})


def test_everything_that_is_promised_is_there() -> None:
    assert [name for name in rostra.__all__ if getattr(rostra, name, None) is None] == []
    assert set(rostra.__all__) <= set(dir(rostra))
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        rostra.conect  # type: ignore[attr-defined]  # noqa: B018


def test_importing_rostra_imports_nothing_else() -> None:
    code = "import sys, rostra; print(sorted(m for m in sys.modules if m in ('asyncio', 'msgspec', 'typer')))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_users_program_is_checked_by_strict_types(tmp_path: Path) -> None:
    program = ROOT / "tests" / "client" / "typed_program.py"
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert (checked.stdout, checked.returncode) == ("", 0)


@pytest.mark.parametrize("membership", ["relaxed", "led"])
async def test_an_order_that_a_membership_has_not_is_refused_with_what_to_use_instead(
    world: World, membership: Literal["relaxed", "led"]
) -> None:
    async with rostra.connect(H1) as me:
        with pytest.raises(NotAvailable, match=f'order=.hub. with membership="{membership}"') as refused:
            me.join("chess", membership=membership, delivery="atomic", order="hub")
        assert refused.value.fix == 'leave it out, or use membership="agreed"'
        assert refused.value.code == "NOT_AVAILABLE" and not refused.value.retriable
        with pytest.raises(BadInput, match="relaxed, led, agreed"):
            me.join("chess", membership="strict")  # type: ignore[call-overload]


async def test_a_group_prints_as_what_it_is(world: World) -> None:
    async with rostra.connect(H1) as me:
        async with (
            me.join("chess") as chess,
            me.join("go", "eu", membership="led") as go,
            me.watch("chess") as watch,
        ):
            shown = [repr(chess), repr(go), repr(watch)]
        assert shown == ["<chess@world, relaxed>", "<go@eu, led>", "<watch of chess@world>"]
        assert (repr(chess), repr(watch)) == ("<chess@world, relaxed, left>", "<watch of chess@world, ended>")


async def test_sending_to_a_group_says_what_it_takes(world: World) -> None:
    async with rostra.connect(H1) as me, me.join("chess", membership="relaxed", delivery="none") as chess:
        with pytest.raises(NotAllowed, match="was joined without delivery") as refused:
            await chess.send(b"e4")
        assert 'delivery="fifo"' in refused.value.fix and "send_to" in refused.value.fix


def test_every_error_has_a_code_of_its_own_and_knows_if_trying_again_can_help() -> None:
    def below(kind: type[RostraError]) -> set[type[RostraError]]:
        return {kind}.union(*(below(each) for each in kind.__subclasses__() if "errors" in each.__module__))

    tree = below(RostraError)
    assert {error for error in tree if BY_CODE[error.code] is not error} <= {rostra.errors.BadName}
    assert {error.__name__ for error in tree if error.retriable} == {
        "Unreachable",
        "DeadlineExceeded",
        "NameInUse",
        "StoreFailed",
        "Excluded",
        "AuthUnavailable",
        "GroupBlocked",
        "LeadershipLost",
    }


async def test_an_address_is_a_host_of_the_world(world: World) -> None:
    with pytest.raises(BadInput, match=r"eu\.paris\.h9 is not a host of this world"):
        await rostra.connect("eu.paris.h9")
    with pytest.raises(BadInput, match="on which host"):
        await rostra.connect()
    world.crash(H1)
    with pytest.raises(Unreachable, match=r"no agent at eu\.paris\.h1"):
        await rostra.connect(H1)


async def test_no_wait_is_longer_than_its_deadline(world: World) -> None:
    async with rostra.connect(H1) as me, me.join("kept") as kept:
        await kept.ready()
        offline = await me.join("offline", online=False)
        world.pause(H1)
        began = world.now
        for slow in (
            me.join("chess", deadline_s=2.0).__aenter__(),
            me.watch("chess", deadline_s=2.0).__aenter__(),
            me.resolve("chess", deadline_s=1.0),
            me.send_to(me.endpoint, b"", deadline_s=2.0),
            offline.set_online(True, deadline_s=2.0),
            kept.leave(deadline_s=2.0),
            rostra.connect(H1, timeout_s=2.0).__aenter__(),
        ):
            with pytest.raises(Unreachable):
                await slow
            assert world.now - began == pytest.approx(2.0)
            began = world.now
        with pytest.raises(BadInput, match="a deadline of 0"):
            await me.resolve("chess", deadline_s=0)
        world.resume(H1)
        await world.settled()
        # What was given up was taken back: only what was left stands.
        for group in ("kept", "chess"):
            assert (await me.resolve(group, fresh=True)).members == ()
        document = await me.inspect()
        assert document["core"]["groups"].keys() == {"chess@world", "offline@world"}
        assert document["watches"]["chess@world"]["watchers"] == []
        assert document["core"]["groups"]["offline@world"]["online"] == []


async def test_a_wait_for_the_first_list_ends_with_the_deadline_or_with_the_end(world: World) -> None:
    async with rostra.connect(H1) as me, rostra.connect(H1, on_lost="raise") as lost:
        world.pause("eu.paris")  # nobody answers the agent's question
        group, ended = await me.join("chess"), await lost.join("chess")
        with pytest.raises(DeadlineExceeded, match="who is in chess@world was not known within 1 s"):
            await group.ready(deadline_s=1.0)
        waiting = asyncio.create_task(ended.ready())
        await asyncio.sleep(0)
        world.crash(H1)
        with pytest.raises(Unreachable):
            await waiting


@pytest.mark.parametrize("turns", range(1, 10))
async def test_cancelling_anything_at_any_moment_leaves_nothing_behind(world: World, turns: int) -> None:
    """After so many turns of the loop; nine are enough for every one of these to be done."""
    async with rostra.connect(FAR, name="judge") as judge, rostra.connect(H1, name="ann") as ann:
        quiet = len(asyncio.all_tasks())
        joined = await ann.join("left")
        await judge.join("there")
        for doing in (
            rostra.connect(H1).__aenter__(),
            ann.join("chess").__aenter__(),
            ann.watch("chess").__aenter__(),
            ann.open("second").__aenter__(),
            ann.resolve("there"),
            joined.leave(),
        ):
            task = asyncio.ensure_future(doing)
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            (result,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(result, rostra.Me | rostra.Membership | rostra.Watch):
                await result.close()
        await asyncio.sleep(35)
        assert len(asyncio.all_tasks()) == quiet
        for group in ("chess", "left"):
            assert (await judge.resolve(group)).members == ()
        document = await ann.inspect()
        assert document["core"]["groups"] == {} and document["watches"] == {}
        assert [each for each in document["core"]["endpoints"] if "rostra.watch" not in each] == [
            ann.endpoint
        ]
        assert ann._memberships == {} and ann._watches == {} and ann._follows == {}
        assert ann._copies._copies == {} and ann._connection._waiting == {}


async def test_joining_twice_and_cancelling_the_second_does_not_end_the_first(world: World) -> None:
    async with rostra.connect(H1) as me, me.join("chess") as chess:
        second = asyncio.ensure_future(me.join("chess").__aenter__())
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        await world.settled()
        assert [m.endpoint for m in (await me.resolve("chess", fresh=True)).members] == [me.endpoint]
        assert chess.members


async def test_a_loop_hears_the_list_and_then_what_happens(world: World) -> None:
    async with (
        rostra.connect(H1) as ann,
        rostra.connect(FAR, name="bob") as bob,
        ann.join("chess", scope="world", meta=b"white") as chess,
    ):
        await chess.ready()
        async for item in chess:
            match item:
                case View(members):
                    assert [m.meta for m in members] == [b"white"]
                    await bob.join("chess", meta=b"black")
                case Joined(members, cause):
                    assert ([m.meta for m in members], cause) == ([b"black"], rostra.Cause.JOIN)
                    break


@pytest.mark.spec("C-139")
async def test_an_answer_and_the_changes_after_it_may_come_in_one_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy takes them in the order in which they came, not when whoever asked runs again."""
    async with rostra.connect(H1) as ann, rostra.connect(FAR) as bob, ann.join("chess") as chess:
        await world.settled()
        ours, arrived, held = ann._connection, AgentConnection.arrived, list[Arrived]()
        with monkeypatch.context() as patch:
            patch.setattr(
                AgentConnection,
                "arrived",
                lambda self, items: held.extend(items) if self is ours else arrived(self, items),
            )
            asked = asyncio.ensure_future(ann.resolve("chess", fresh=True))
            await world.settled()
            joined = await bob.join("chess")
            await world.settled()
        ours.arrived(held)
        assert [m.endpoint for m in (await asked).members] == [ann.endpoint]
        await world.settled()
        assert [m.endpoint for m in chess.members] == [ann.endpoint, joined.me.endpoint]


async def test_a_membership_that_ends_in_the_packet_that_began_it_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain join of an agreed group is answered before the group's kind is known, and taken back."""
    async with (
        rostra.connect("eu.paris.h2", name="bob") as bob,
        bob.join("chess", "eu", membership="agreed"),
        rostra.connect(H1) as ann,
    ):
        await world.settled()
        ours, arrived, held = ann._connection, AgentConnection.arrived, list[Arrived]()
        with monkeypatch.context() as patch:
            patch.setattr(
                AgentConnection,
                "arrived",
                lambda self, items: held.extend(items) if self is ours else arrived(self, items),
            )
            asked = asyncio.ensure_future(ann.join("chess", "eu").__aenter__())
            await world.settled()
        assert len(held) >= 2
        ours.arrived(held)
        with pytest.raises(NotAllowed, match="chess@eu is agreed"):
            await asked
        async with ann.join("chess", "eu", membership="agreed") as chess:
            assert ann.endpoint in [member.endpoint for member in (await anext(aiter(chess))).members]


async def test_who_leaves_an_atomic_group_can_join_it_again_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent writes answers before deliveries: the end of a membership may come after the answer to leave
    it, in the next read. It does not end the membership after it."""
    arrived = AgentConnection.arrived

    def in_two_reads(self: AgentConnection, items: list[Arrived]) -> None:
        arrived(self, [each for each in items if not isinstance(each, Delivery)])
        loop = asyncio.get_running_loop()
        loop.call_later(0.0001, arrived, self, [each for each in items if isinstance(each, Delivery)])

    monkeypatch.setattr(AgentConnection, "arrived", in_two_reads)
    async with rostra.connect(H1) as ann:
        for _ in range(3):
            async with ann.join("chess", "eu", membership="agreed", delivery="atomic") as chess:
                assert [each.endpoint for each in (await chess.ready()).members] == [ann.endpoint]
                await chess.send(b"e4")


async def test_an_agent_that_is_shutting_down_blames_no_program(world: World) -> None:
    """It has closed the program's endpoints itself, and waits for its domain to acknowledge the leaves."""
    async with rostra.connect(H1) as ann:
        membership = await ann.join("chess")
        agent = world._agents[Domain(H1)]
        (programs,) = agent.programs.values()
        programs.close_all()
        for late in (ann.join("go"), membership.leave(), ann.resolve("chess", fresh=True)):
            with pytest.raises(Unreachable, match="shutting down"):
                await late


async def test_many_callers_ask_together_and_a_lone_one_does_not_wait_for_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rostra.connect(H1) as ann:
        ours, left = ann._connection, list[int]()
        encode = ours.encoder.asks
        monkeypatch.setattr(ours.encoder, "asks", lambda asks: left.append(len(asks)) or encode(asks))

        questions = [requests.Resolve(name, Domain("world")) for name in ("chess", "go", "chess", "go")]
        await asyncio.gather(*(ours.post(ann._number, question, share=True) for question in questions))
        left.clear()
        await asyncio.gather(*(ours.post(ann._number, question, share=True) for question in questions))
        assert left == [2], "equal questions of one tick share a request, and all leave as one frame"
        await ann.resolve("chess")
        asking = ours.post(ann._number, questions[0])
        assert left == [2, 1, 1], "whoever asks, waits and asks again has nobody to wait for"
        others = [ours.post(ann._number, question) for question in questions]
        assert left == [2, 1, 1], "as long as an answer is due, questions are gathered"
        await asyncio.gather(asking, *others)
        assert left == [2, 1, 1, 4]


def test_changes_can_be_printed_for_people() -> None:
    """What `print(change)` of the first page shows: short, whatever the size of the group."""
    many = tuple(rostra.Member(Endpoint(f"eu.h1/p{n}#1"), (1, n)) for n in range(6))
    lost = rostra.Because(Domain("eu"), Domain("us"), "silent")
    said = {
        rostra.View(many): "View of 6 members",
        rostra.View(many[:1], isolated=True): "View of 1 member, of this host alone",
        rostra.View(many, number=14, rank=2): "View 14 of 6 members, our rank 2",
        rostra.Joined(many[:1], rostra.Cause.MERGE): "Joined by merge: eu.h1/p0#1",
        rostra.Joined(
            many, rostra.Cause.JOIN
        ): f"Joined: {', '.join(m.endpoint for m in many[:4])} and 2 more",
        rostra.Left((many[0].endpoint,), rostra.Cause.CRASH): "Left by crash: eu.h1/p0#1",
        rostra.Without(
            Domain("us"), (many[0].endpoint,), lost
        ): "Without us, 1 member: eu gave up us, silent",
        rostra.Only(Domain("eu"), (), lost): "Only eu, without 0 members: eu gave up us, silent",
    }
    assert [str(change) for change in said] == list(said.values())
