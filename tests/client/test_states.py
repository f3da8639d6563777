"""How a program stands with its agent, and what becomes of its groups when it loses it. Virtual time."""

import asyncio
from collections import Counter

import pytest

import rostra
from rostra import Connected, Gap, Joined, Left, Lost, Suspended, View
from rostra.client.connection import AgentConnection
from rostra.client.streams import Stream
from rostra.errors import BadInput, DeadlineExceeded, GroupIsPermanent, NotMember, Unreachable
from rostra.names import incarnation_of, make_group
from rostra.testing import World, Worlds
from rostra.transport.connection import Connection

H1, H2, FAR = "eu.paris.h1", "eu.paris.h2", "us.boston.h1"


@pytest.fixture
def world(rostra_world: Worlds) -> World:
    return rostra_world({"eu.paris": 2, "us.boston": 1})


def here(items: "Stream[rostra.Item] | Stream[rostra.Change]") -> list[str]:
    """The kinds of items that can be read without waiting."""
    return [type(item).__name__ for item in items._items]


async def test_a_pause_of_the_agent_is_seen_and_costs_nothing(world: World) -> None:
    states: list[object] = []
    async with rostra.connect(H1, on_state=states.append) as me, me.join("chess") as chess:
        await world.settled()
        changes = aiter(chess)
        world.pause(H1)
        began = world.now
        await asyncio.sleep(3)
        assert isinstance(me.state, Connected)
        await asyncio.sleep(5)
        assert isinstance(me.state, Suspended)
        assert me.state.since <= began < me.state.deadline == me.state.since + 30
        assert chess.members  # most likely still true
        endpoint = me.endpoint
        world.resume(H1)
        await world.settled()
        assert isinstance(me.state, Connected) and me.endpoint == endpoint
        assert [type(state).__name__ for state in states] == ["Connected", "Suspended", "Connected"]
        assert "Gap" not in here(changes)


async def test_silence_is_looked_for_now_and_then_whatever_the_clock_rounds_to(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a storm: a look that came due, and found its time not yet come, was due again at once."""
    looks: Counter[float] = Counter()
    look = AgentConnection._look_for_silence

    def counted(connection: AgentConnection) -> None:
        looks[world.now] += 1
        assert looks[world.now] < 10, "the clock stands still"
        look(connection)

    monkeypatch.setattr(AgentConnection, "_look_for_silence", counted)
    for number in range(100):
        async with rostra.connect(H1, silence_s=1.1, rejoin_within_s=None):
            world.pause(H1)
            await asyncio.sleep(0.4 + number / 700)
            world.resume(H1)
            await asyncio.sleep(number / 300)


async def test_an_agent_that_stays_silent_is_lost_at_the_deadline(world: World) -> None:
    async with rostra.connect(H1, silence_s=10.0, rejoin_within_s=100.0) as me:
        world.pause(H1)
        await asyncio.sleep(3)
        assert isinstance(me.state, Suspended)
        deadline = me.state.deadline
        await asyncio.sleep(10)
        assert isinstance(me.state, Lost) and not me.state.is_final
        assert me.state.since == pytest.approx(deadline, abs=0.1)
        assert "said nothing for 10 s" in me.state.reason.what
        world.resume(H1)
        await me.connected(deadline_s=60)


@pytest.mark.spec("C-143")
async def test_a_lost_agent_leaves_a_member_alone_until_it_is_back_as_somebody_new(world: World) -> None:
    async with (
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(FAR, name="bob") as bob,
        ann.join("chess", meta=b"white") as chess,
        bob.join("chess") as theirs,
    ):
        await world.settled()
        changes, far = aiter(chess), aiter(theirs)
        assert isinstance(await anext(changes), View) and isinstance(await anext(far), View)
        old = ann.endpoint
        world.crash(H1)
        await asyncio.sleep(1)

        alone = await anext(changes)
        assert isinstance(alone, View) and alone.isolated
        assert [(m.endpoint, m.meta) for m in alone.members] == [(old, b"white")]
        assert chess.members == alone.members and not chess.is_known
        with pytest.raises(Unreachable, match="has lost its agent") as refused:
            await ann.resolve("chess")
        assert refused.value.retriable and "connected()" in refused.value.fix

        world.restart(H1)
        await ann.connected(deadline_s=10)
        await world.settled()
        assert ann.name == "ann" and incarnation_of(ann.endpoint) > incarnation_of(old)
        assert await anext(changes) == Gap()
        assert isinstance(await anext(changes), View)
        for group in (chess, theirs):
            assert {m.endpoint: m.meta for m in group.members} == {ann.endpoint: b"white", bob.endpoint: b""}
        lost, joined = await anext(far), await anext(far)
        assert isinstance(lost, rostra.Without) and lost.endpoints == (old,)
        assert isinstance(joined, Joined) and [m.endpoint for m in joined.members] == [ann.endpoint]


async def test_a_dropped_connection_costs_a_member_its_incarnation_and_a_watcher_nothing(
    world: World,
) -> None:
    async with (
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(H2, name="bob") as bob,
        ann.join("chess") as chess,
        ann.watch("chess") as watch,
    ):
        await world.settled()
        members, changes = aiter(chess), aiter(watch)
        await anext(members)
        await anext(changes)
        old = ann.endpoint
        world.drop(H1)
        async with bob.join("chess"):
            await world.settled()
            assert here(members)[:3] == ["View", "Gap", "View"]
            told = [await anext(changes) for _ in range(3)]
        await world.settled()
        assert [change.number for change in told] == [1, 2, 3]
        assert {type(change) for change in told} == {Left, Joined}
        assert Left((old,), rostra.Cause.CRASH, number=1, period=told[0].period) in told
        assert ann.endpoint in [m.endpoint for m in watch.members]


async def test_with_raise_everything_ends_with_the_reason(world: World) -> None:
    async with (
        rostra.connect(H1, on_lost="raise") as me,
        me.open("second") as second,
        me.join("chess") as chess,
        me.watch("go") as go,
    ):
        await chess.ready()
        await go.ready()
        readers = [aiter(chess), aiter(go), second.messages()]
        asked = asyncio.create_task(me.resolve("far", fresh=True))
        await asyncio.sleep(0)
        world.crash(H1)
        await asyncio.sleep(0.1)
        for reader in readers:
            with pytest.raises(Unreachable):
                while True:
                    await anext(reader)  # type: ignore[arg-type]
        with pytest.raises(Unreachable):
            await asked
        assert isinstance(me.state, Lost) and me.state.is_final
        for refused in (me.resolve("chess"), second.connected(), second.inspect(), go.ready()):
            with pytest.raises(Unreachable, match="is gone"):
                await refused
        with pytest.raises(Unreachable):
            assert chess.members
        assert [state async for state in me.states()] == [me.state]


async def test_a_rejoin_is_given_up_in_the_end_and_says_for_how_long_it_was_tried(world: World) -> None:
    states: list[object] = []
    async with rostra.connect(H1, rejoin_within_s=20.0, on_state=states.append) as me:
        waiting = asyncio.create_task(me.connected())
        await waiting
        world.crash(H1)
        await asyncio.sleep(1)
        with pytest.raises(DeadlineExceeded):
            await me.connected(deadline_s=5)
        assert isinstance(me.state, Lost) and me.state.until == pytest.approx(me.state.since + 20)
        with pytest.raises(Unreachable, match="away for 20 s"):
            await me.connected()
        await asyncio.sleep(0.1)
        assert [type(state).__name__ for state in states] == ["Connected", "Lost", "Lost"]
        assert isinstance(me.state, Lost) and me.state.is_final


async def test_all_endpoints_of_a_program_come_back_and_only_what_was_not_left_is_joined_again(
    world: World,
) -> None:
    async with (
        rostra.connect(H1, name="ann") as ann,
        rostra.connect(FAR) as judge,
        ann.open("second") as second,
    ):
        kept = await second.join("kept")
        left = await second.join("left")
        watched = await ann.watch("kept")
        unwatched = await ann.watch("left")
        offline = await ann.join("offline", online=False, meta=b"m")
        gone = await ann.open("gone")
        await world.settled()
        world.crash(H1)
        await asyncio.sleep(0.5)
        await left.leave()
        await unwatched.close()
        await gone.close()
        with pytest.raises(NotMember):
            await left.leave()
        with pytest.raises(BadInput, match="is closed"):
            await gone.join("kept")
        with pytest.raises(Unreachable):
            await ann.join("new")
        world.restart(H1)
        await second.connected()
        await world.settled()
        assert [m.endpoint for m in kept.members] == [second.endpoint]
        assert watched.members == kept.members
        assert (await judge.resolve("left")).members == ()
        (alone,) = (await judge.resolve("offline")).members
        assert (alone.endpoint, alone.meta) == (ann.endpoint, b"m")
        await offline.leave()
        document = await ann.inspect()
        assert list(document["watches"]) == ["kept@world"]
        endpoints = [each.partition("#")[0] for each in document["core"]["endpoints"]]
        assert endpoints == [f"{H1}/{name}" for name in ("ann", "rostra.watch", "second")]


async def test_a_group_that_lets_us_in_no_more_ends_with_the_refusal_and_the_others_go_on(
    world: World,
) -> None:
    async with rostra.connect(H1) as me:
        chess, go = await me.join("chess", "eu"), await me.join("go", "eu")
        await world.settled()
        changes = aiter(chess)
        world.crash(H1)
        world.sim.register(make_group("chess", "eu"))
        await asyncio.sleep(5)
        world.restart(H1)
        # The agent learns what is registered when it meets its server; whoever asks before is let in.
        await me.connected()
        await world.settled()
        if chess.is_known:
            world.drop(H1)
            await asyncio.sleep(1)
            await me.connected()
        assert (await go.ready()).members
        with pytest.raises(GroupIsPermanent):
            while True:
                await anext(changes)
        with pytest.raises(GroupIsPermanent):
            await chess.leave()


async def test_lives_are_watched_again_and_mail_has_a_gap(world: World) -> None:
    async with rostra.connect(H1, name="ann") as ann, rostra.connect(FAR, name="bob") as bob:
        lives, mail = ann.watch_life(bob.endpoint), ann.messages()
        assert (await anext(lives)).alive
        world.drop(H1)
        await asyncio.sleep(2)
        await bob.send_to(ann.endpoint, b"hello again")
        assert await anext(mail) == Gap()
        assert await anext(mail) == rostra.Message(bob.endpoint, b"hello again")
        assert (await anext(lives)).alive
        await bob.close()
        assert not (await anext(lives)).alive
        await lives.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("turns", range(14))
async def test_an_endpoint_may_be_closed_at_any_moment_of_coming_back(
    world: World, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rostra.connect(H1, name="ann") as ann:
        second = await ann.open("second")
        await second.join("chess")
        called, dialler = asyncio.Event(), world.loop.rostra_dialler
        dial = dialler.dial

        async def noticed(where: object, connection: Connection) -> None:
            called.set()
            await dial(where, connection)

        monkeypatch.setattr(dialler, "dial", noticed)
        world.drop(H1)
        await called.wait()
        for _ in range(turns):
            await asyncio.sleep(0)
        await second.close()
        await ann.connected()
        await world.settled()
        assert (await ann.inspect())["core"]["endpoints"] == [ann.endpoint]
        assert (await ann.resolve("chess")).members == ()


async def test_closing_while_the_agent_is_away_leaves_no_task_behind(world: World) -> None:
    before = len(asyncio.all_tasks())
    me = await rostra.connect(H1)
    await me.join("chess")
    world.crash(H1)
    await asyncio.sleep(1)
    await me.close()
    await asyncio.sleep(1)
    assert len(asyncio.all_tasks()) == before
    with pytest.raises(BadInput, match="closed"):
        await me.connected()
    with pytest.raises(BadInput, match="is closed"):
        await me.join("go")


async def test_an_agent_of_another_world_is_no_way_back(world: World) -> None:
    async with rostra.connect(H1) as me:
        world.crash(H1)
        await asyncio.sleep(0.1)
        me._connection.world = "another"
        world.restart(H1)
        with pytest.raises(rostra.errors.WrongWorld, match="of world 'sim', not of 'another'"):
            await me.connected()


async def test_many_programs_do_not_come_back_all_at_once(world: World) -> None:
    programs = [await rostra.connect(H1) for _ in range(20)]
    world.crash(H1)
    await asyncio.sleep(10)
    world.restart(H1)
    back: list[float] = []
    for each in programs:
        each._session._on_state = lambda state: back.append(world.now)
    await asyncio.gather(*(each.connected() for each in programs))
    await asyncio.sleep(0)
    assert len(back) == 20 and max(back) - min(back) > 0.5
    assert all(isinstance(each.state, Connected) for each in programs)


def test_what_can_be_asked_of_a_loss_is_checked() -> None:
    async def ask() -> None:
        await rostra.connect("/nowhere", on_lost="shrug")  # type: ignore[arg-type]

    with pytest.raises(BadInput, match="on_lost='shrug'"):
        asyncio.run(ask())
