"""Speaking to a group, between real programs: in order, without gap or duplicate, from the first message."""

import asyncio
import contextlib
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from support.lab import WITHIN_S, Lab, until

import rostra
from rostra.client import Conversation
from rostra.errors import BadInput, DeadlineExceeded, NotAllowed, NotMember, TooLarge, Unreachable

FAR_TOO_MANY = 30_000
"""Messages of 1,000 bytes: more than lies on the way to a receiver, which is 5 MB between network namespaces
and 16 MB on loopback."""


def python(script: str, *words: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(script), *words]


@asynccontextmanager
async def speaking(lab: Lab, host: str, name: str, group: str, **how: str) -> AsyncIterator[Conversation]:
    """A program that is in the group, and knows who else is."""
    async with lab.program(host, name) as me, me.join(group, delivery="fifo", **how) as talk:
        await talk.ready(deadline_s=WITHIN_S)
        yield talk


async def everybody_sees(talks: list[Conversation], count: int) -> None:
    """Until each of them knows of so many members."""
    await until(lambda: all(len(talk.members) >= count for talk in talks), f"all see {count} members")


async def heard(talk: Conversation, count: int, *senders: str) -> dict[str, list[bytes]]:
    """The next so many messages, by the name of who said them; numbers are checked on the way."""
    got: dict[str, list[bytes]] = {}
    numbers: dict[str, int] = {}
    async with asyncio.timeout(WITHIN_S):
        async for item in talk:
            if isinstance(item, rostra.Message):
                name = item.sender.partition("/")[2].partition("#")[0]
                assert item.number == numbers.get(name, item.number - 1) + 1, f"{name} has a hole"
                numbers[name] = item.number
                got.setdefault(name, []).append(item.body)
                count -= 1
                if count == 0:
                    break
    return got


def lines(word: str, count: int) -> list[bytes]:
    return [f"{word} {number}".encode() for number in range(count)]


@pytest.mark.spec("X-004")
@pytest.mark.parametrize(
    ("one", "other"),
    [("eu.h1", "eu.h1"), ("eu.h1", "eu.h2"), ("eu.h1", "us.h1")],
    ids=["one host", "two hosts of a cluster", "two clusters"],
)
async def test_two_programs_hear_each_other_from_the_first_message_on(lab: Lab, one: str, other: str) -> None:
    group = f"talk-{other}"
    async with speaking(lab, one, "ann", group) as ann, speaking(lab, other, "bob", group) as bob:
        await everybody_sees([ann, bob], 2)
        await ann.send(b"e4")
        await bob.send_many(lines("bob", 500))
        assert await heard(bob, 1) == {"ann": [b"e4"]}
        assert await heard(ann, 500) == {"bob": lines("bob", 500)}


@pytest.mark.spec("X-052")
async def test_who_only_listens_may_not_speak_and_who_only_speaks_hears_of_members_alone(lab: Lab) -> None:
    async with (
        speaking(lab, "eu.h1", "ear", "roles", role="receive") as ear,
        speaking(lab, "eu.h2", "mouth", "roles", role="send") as mouth,
    ):
        with pytest.raises(NotAllowed, match='role="receive"'):
            await ear.send(b"psst")
        await everybody_sees([ear, mouth], 2)
        await mouth.send_many(lines("mouth", 10))
        assert await heard(ear, 10) == {"mouth": lines("mouth", 10)}


async def test_large_messages_and_empty_ones_arrive_whole(lab: Lab) -> None:
    large = bytes(range(256)) * 4096
    async with speaking(lab, "eu.h1", "ann", "large") as ann, speaking(lab, "us.h1", "bob", "large") as bob:
        await everybody_sees([ann, bob], 2)
        for payload in (b"", large, b"x" * 70_000):
            await ann.send(payload)
        assert await heard(bob, 3) == {"ann": [b"", large, b"x" * 70_000]}
        with pytest.raises(TooLarge, match="1048577 bytes"):
            await ann.send(large + b"!")
        with pytest.raises(BadInput, match="str cannot be sent"):
            await ann.send("text")  # type: ignore[arg-type]


async def test_who_has_left_sends_no_more(lab: Lab) -> None:
    async with speaking(lab, "eu.h1", "ann", "over") as ann:
        await ann.leave()
        with pytest.raises(NotMember):
            await ann.send(b"wait")


@pytest.mark.spec("TX-11")
async def test_numbers_go_on_when_the_same_endpoint_joins_again_and_begin_at_1_elsewhere(lab: Lab) -> None:
    async with (
        speaking(lab, "eu.h2", "bob", "again") as bob,
        speaking(lab, "eu.h2", "cid", "elsewhere") as cid,
        lab.program("eu.h1", "ann") as ann,
    ):
        for group in ("again", "again", "elsewhere"):
            async with ann.join(group, delivery="fifo", role="send") as talk:
                await talk.ready(deadline_s=WITHIN_S)
                await talk.send_many([b"one", b"two"])
        assert await numbers(bob, 4) == [1, 2, 3, 4]
        assert await numbers(cid, 2) == [1, 2]


async def numbers(talk: Conversation, count: int) -> list[int]:
    got: list[int] = []
    async with asyncio.timeout(WITHIN_S):
        while len(got) < count:
            item = await anext(talk.items())
            got += [item.number] if isinstance(item, rostra.Message) else []
    return got


@pytest.mark.spec("X-047")
@pytest.mark.parametrize("host", ["eu.h1", "us.h1"])
async def test_who_leaves_hears_that_everybody_has_its_last_words(lab: Lab, host: str) -> None:
    """It is in the group no more, and no other member is on its host."""
    group = f"last-{host}"
    async with speaking(lab, "eu.h1", "ann", group) as ann, speaking(lab, host, "bob", group) as bob:
        await everybody_sees([ann, bob], 2)
        await ann.send_many(lines("last", 500))
        await bob.leave(deadline_s=WITHIN_S)
        await ann.leave(deadline_s=WITHIN_S)
        assert ann.parted().result().unconfirmed == 0


@pytest.mark.spec("X-047", "X-087")
async def test_who_speaks_to_nobody_leaves_with_its_last_words_confirmed(lab: Lab) -> None:
    """Nobody is owed anything, so its delegate confirms at once, and nothing is left when it is gone."""
    async with speaking(lab, "eu.h1", "by-itself", "empty") as alone:
        await alone.send(b"hello?")
        await alone.leave(deadline_s=WITHIN_S)
        assert alone.parted().result().unconfirmed == 0


async def test_a_group_is_one_kind_or_the_other(lab: Lab) -> None:
    async with (
        lab.program("eu.h1", "ann") as ann,
        lab.program("eu.h1", "bob") as bob,
        ann.join("kind-none"),
        ann.join("kind-fifo", delivery="fifo"),
    ):
        with pytest.raises(NotAllowed, match='is a group with delivery="none"'):
            await bob.join("kind-none", delivery="fifo")
        with pytest.raises(NotAllowed, match='is a group with delivery="fifo"'):
            await bob.join("kind-fifo")


@pytest.mark.spec("X-006")
async def test_joining_in_the_middle_of_a_stream_misses_nothing_after_the_view_and_stops_nobody(
    lab: Lab,
) -> None:
    said: list[bytes] = []

    async def speak(talk: Conversation) -> None:
        while True:
            said.append(f"{len(said)}".encode())
            await talk.send(said[-1])
            await asyncio.sleep(0.005)

    async with speaking(lab, "eu.h1", "ann", "smooth") as ann, speaking(lab, "eu.h2", "old", "smooth") as old:
        await everybody_sees([ann, old], 2)
        stream = asyncio.create_task(speak(ann))
        whole = (await heard(old, 50))["ann"]
        async with speaking(lab, "us.h1", "new", "smooth") as new:
            from_the_middle = (await heard(new, 100))["ann"]
            whole += (await heard(old, int(from_the_middle[-1]) + 1 - 50))["ann"]
        stream.cancel()
    assert whole == said[: len(whole)]
    begin = whole.index(from_the_middle[0])
    assert begin > 0 and whole[begin:] == from_the_middle


@pytest.mark.spec("X-049")
async def test_a_killed_sender_leaves_after_the_last_of_its_messages(lab: Lab) -> None:
    speaker = python(
        """
        import asyncio, sys, rostra

        async def main():
            async with rostra.connect(sys.argv[1], name="doomed") as me:
                async with me.join("killed-in-speech", delivery="fifo") as talk:
                    await talk.ready()
                    number = 0
                    while True:
                        await talk.send_many([str(number + n).encode() for n in range(50)])
                        number += 50
                        await asyncio.sleep(0.01)

        asyncio.run(main())
        """,
        lab.socket("eu.h1"),
    )
    async with speaking(lab, "us.h1", "bob", "killed-in-speech") as bob:
        doomed = await asyncio.create_subprocess_exec(*speaker)
        got: list[bytes] = []
        async with asyncio.timeout(WITHIN_S):
            async for item in bob:
                match item:
                    case rostra.Message(body=body):
                        got.append(body)
                        if len(got) == 500:
                            doomed.kill()
                    case rostra.Left((who,), cause):
                        assert "/doomed#" in who and cause is rostra.Cause.CRASH
                        break
        await doomed.wait()
        assert got == [str(number).encode() for number in range(len(got))] and len(got) >= 500


@pytest.mark.spec("X-090")
async def test_a_receiver_that_stands_still_stops_the_sender_and_loses_nothing(lab: Lab) -> None:
    listener = python(
        """
        import asyncio, sys, rostra

        async def main():
            async with rostra.connect(sys.argv[1], name="sleepy") as me:
                async with me.join("throttled", delivery="fifo", role="receive") as talk:
                    await talk.ready()
                    print("ready", flush=True)
                    count = 0
                    async for item in talk.items(batch=1000):
                        if isinstance(item, rostra.Messages):
                            assert item.first == count + 1, (item.first, count)
                            count += len(item)
                            if count == int(sys.argv[2]):
                                print("all", flush=True)

        asyncio.run(main())
        """,
        lab.socket("eu.h2"),
        str(FAR_TOO_MANY),
    )
    async with speaking(lab, "eu.h1", "ann", "throttled", role="send") as ann:
        sleepy = await asyncio.create_subprocess_exec(*listener, stdout=asyncio.subprocess.PIPE)
        assert sleepy.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            assert await sleepy.stdout.readline() == b"ready\n"
            await everybody_sees([ann], 2)
            sleepy.send_signal(signal.SIGSTOP)
            taken = 0

            def payloads() -> Iterator[bytes]:
                nonlocal taken
                while taken < FAR_TOO_MANY:
                    taken += 1
                    yield bytes(1000)

            sending = asyncio.create_task(ann.send_many(payloads()))
            before = -1
            while taken != before:
                before = taken
                await asyncio.sleep(2.0)
            assert before < FAR_TOO_MANY, "all of it went to somebody who reads nothing"
            sleepy.send_signal(signal.SIGCONT)
            assert await sending == FAR_TOO_MANY
            assert await sleepy.stdout.readline() == b"all\n"
        sleepy.kill()
        await sleepy.wait()


@pytest.mark.spec("X-087")
@pytest.mark.parametrize(("one", "other"), [("lab.h1", "lab.h1"), ("lab.h1", "lab.h2"), ("lab.h2", "lab.h1")])
async def test_an_agent_that_shares_a_process_with_its_server_hears_what_may_be_forgotten(
    patient: Lab, one: str, other: str
) -> None:
    """More is said than a window holds, so somebody must have been told."""
    group = f"window-{one}-{other}"
    async with speaking(patient, one, "ann", group) as ann, speaking(patient, other, "bob", group) as bob:
        await everybody_sees([ann, bob], 2)
        sending = asyncio.create_task(ann.send_many([bytes(1000)] * 6_000))
        assert len((await heard(bob, 6_000))["ann"]) == 6_000
        assert await sending == 6_000


@pytest.mark.spec("X-064")
async def test_what_was_said_before_a_short_cut_and_after_it_arrives_once(lab: Lab, cables: None) -> None:
    async with speaking(lab, "eu.h1", "ann", "cut") as ann, speaking(lab, "us.h1", "bob", "cut") as bob:
        await everybody_sees([ann, bob], 2)
        await ann.send_many(lines("before", 100))
        assert await heard(bob, 100) == {"ann": lines("before", 100)}
        lab.cut(lab.side("eu"), lab.side("us"))
        await ann.send_many(lines("during", 100))
        await asyncio.sleep(0.5)
        lab.heal()
        assert await heard(bob, 100) == {"ann": lines("during", 100)}


@pytest.mark.spec("X-064")
async def test_a_loss_is_told_once(lab: Lab, cables: None) -> None:
    async with speaking(lab, "eu.h1", "ann", "parted") as ann, speaking(lab, "us.h1", "bob", "parted") as bob:
        await everybody_sees([ann, bob], 2)
        lab.cut(lab.side("eu"), lab.side("us"))
        await until(lambda: len(ann.members) == 1, "ann is without bob")
        lab.heal()
        await everybody_sees([ann, bob], 2)
        changes = []
        async with asyncio.timeout(WITHIN_S):
            async for item in ann:
                changes.append(item)
                if isinstance(item, rostra.Joined) and item.cause is rostra.Cause.MERGE:
                    break
    lost = [item for item in changes if isinstance(item, rostra.Without | rostra.Left)]
    assert [(type(each), each.endpoints) for each in lost] == [(rostra.Without, (bob.me.endpoint,))]


async def test_who_asks_or_watches_sees_programs_and_their_attachments_alone(
    lab: Lab,
) -> None:
    async with lab.program("eu.h2", "eve") as eve, eve.watch("seen-speaking") as watch:
        changes = aiter(watch)
        assert (await anext(changes)).members == ()
        async with (
            lab.program("eu.h1", "ann") as ann,
            ann.join("seen-speaking", delivery="fifo", meta=b"white") as talk,
        ):
            await talk.ready()
            joined = await anext(changes)
            assert isinstance(joined, rostra.Joined)
            assert [(each.endpoint, each.meta) for each in joined.members] == [(ann.endpoint, b"white")]
            resolved = await eve.resolve("seen-speaking", fresh=True)
            assert [(each.endpoint, each.meta) for each in resolved.members] == [(ann.endpoint, b"white")]
            assert (await eve.resolve("seen-speaking", scope=None)).endpoints == (ann.endpoint,)
        left = await anext(changes)
        assert isinstance(left, rostra.Left) and left.endpoints == (ann.endpoint,) and left.meta == b""


async def test_a_group_of_one_host_has_no_delivery_and_says_which_has(lab: Lab) -> None:
    async with lab.program("eu.h1", "ann") as ann:
        with pytest.raises(NotAllowed, match="is a group of one host") as refused:
            await ann.join("home", "eu.h1", delivery="fifo")
        assert refused.value.fix == "choose a wider scope: eu"


async def test_a_cluster_without_its_server_is_named_to_whoever_waits_for_the_list(lab: Lab) -> None:
    lab["eu"].kill()
    async with lab.program("eu.h1", "ann") as ann:
        talk = await ann.join("by-itself", delivery="fifo", deadline_s=WITHIN_S)
        with pytest.raises(DeadlineExceeded, match="who is in by-itself@world was not known") as late:
            await talk.ready(deadline_s=0.5)
        assert "is the server of eu up?" in late.value.fix
        lab["eu"].start()
        await talk.ready(deadline_s=2 * WITHIN_S)


async def test_programs_of_threads_speak_too(lab: Lab) -> None:
    def program() -> list[rostra.GroupItem]:
        with (
            rostra.sync.connect(lab.socket("eu.h2"), name="thread") as me,
            me.join("threads", delivery="fifo") as talk,
        ):
            talk.ready(deadline_s=WITHIN_S)
            items = talk.items(timeout_s=WITHIN_S)
            got = [next(items) for _ in range(2)]
            while not isinstance(got[-1], rostra.Message):
                got.append(next(items))
            talk.send(b"e5")
            assert talk.send_many([b"Nc6", b"a6"]) == 2
            return got

    async with speaking(lab, "eu.h1", "ann", "threads") as ann:
        thread = asyncio.create_task(asyncio.to_thread(program))
        await everybody_sees([ann], 2)
        await ann.send(b"e4")
        assert await heard(ann, 3) == {"thread": [b"e5", b"Nc6", b"a6"]}
        got = await thread
        assert isinstance(got[0], rostra.View) and got[-1].body == b"e4"  # type: ignore[union-attr]


async def test_after_its_agent_was_restarted_a_program_is_told_of_the_gap_and_speaks_again(lab: Lab) -> None:
    async with (
        rostra.connect(lab.socket("eu.h1"), name="ann") as me,
        me.join("spoken-again", delivery="fifo") as ann,
        speaking(lab, "eu.h2", "bob", "spoken-again") as bob,
    ):
        await ann.ready(deadline_s=WITHIN_S)
        await everybody_sees([ann, bob], 2)
        await ann.send(b"before")
        assert await heard(bob, 1) == {"ann": [b"before"]}
        lab["eu.h1"].kill()
        lab["eu.h1"].start()
        items = ann.items()
        async with asyncio.timeout(WITHIN_S):
            while await anext(items) != rostra.Gap():
                pass
            with pytest.raises(Unreachable):
                await ann.send(b"to nobody")
            await ann.me.connected()
            await ann.ready()
        await everybody_sees([ann, bob], 2)
        await ann.send(b"after")
        assert await heard(bob, 1) == {"ann": [b"after"]}


@pytest.mark.spec("X-091")
async def test_under_spill_nobody_waits_for_one_that_does_not_read_and_it_finds_everything_on_disk(
    lab: Lab,
) -> None:
    file = lab.directory / "state" / "us.spill.sqlite"
    said = [
        f"{number}".encode().ljust(4000) for number in range(2000)
    ]  # far more than programs and windows hold
    async with (
        speaking(lab, "eu.h1", "ann", "spilled", role="send") as ann,
        speaking(lab, "eu.h2", "quick", "spilled", role="receive") as quick,
        speaking(lab, "us.h1", "slow", "spilled", role="receive", slow="spill") as slow,
    ):
        await everybody_sees([ann, quick, slow], 3)
        reading = asyncio.create_task(heard(quick, len(said)))
        await ann.send_many(said)
        assert (await reading)["ann"] == said  # and `slow` has not read a line
        assert file.exists()
        assert (await heard(slow, len(said)))["ann"] == said
        await until(lambda: not file.exists(), "nothing is left on disk")


@pytest.mark.spec("X-047")
async def test_whoever_leaves_is_told_how_much_somebody_may_not_have(lab: Lab) -> None:
    """One receiver never reads; what it was sent first fills its buffers, and the rest is never confirmed."""
    async with speaking(lab, "eu.h1", "ann", "deaf") as ann, speaking(lab, "us.h1", "bob", "deaf") as bob:
        await everybody_sees([ann, bob], 2)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5.0):
                while True:
                    await ann.send_many([bytes(1000)] * 1000)
        assert ann.unconfirmed == 0, "not known before it has left"
        await ann.leave(deadline_s=WITHIN_S)
        assert ann.unconfirmed > 0


async def test_whoever_was_heard_by_all_leaves_nothing_unconfirmed(lab: Lab) -> None:
    async with speaking(lab, "eu.h1", "ann", "heard") as ann, speaking(lab, "us.h1", "bob", "heard") as bob:
        await everybody_sees([ann, bob], 2)
        await ann.send_many(lines("ann", 100))
        assert await heard(bob, 100) == {"ann": lines("ann", 100)}
        await ann.leave(deadline_s=WITHIN_S)
        assert ann.unconfirmed == 0
