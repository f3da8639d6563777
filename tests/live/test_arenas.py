"""Blocks that are lent: real programs read out of memory that they share with their agent, or cannot, and
nobody hears anything twice, late or not at all."""

import asyncio
import contextlib
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from support.lab import FORGIVING, WITHIN_S, Lab, until

from rostra.client import Conversation
from rostra.wire import ANY_WORLD, Encoder, FrameKind, FrameReader, Mapped, ProgramHello, Refusal, Returned

HOST = "lab.h1"

LISTENER = textwrap.dedent(
    """
    import asyncio, sys, rostra

    async def main(socket, group):
        async with rostra.connect(socket) as me:
            async with me.join(group, delivery="fifo", role="receive") as talk:
                await talk.ready()
                print("ready", flush=True)
                last = None
                async for item in talk.items(batch=10_000):
                    assert not isinstance(item, rostra.Gap), item
                    if isinstance(item, rostra.Messages):
                        assert last is None or item.first == last + 1, (item.first, last)
                        last = item.first + len(item) - 1
                        numbers = [int(body[:8]) for body in item.bodies]
                        assert numbers == list(range(item.first, last + 1)), (numbers[0], item.first)
                        print(last, flush=True)

    asyncio.run(main(*sys.argv[1:]))
    """
)


class Ear:
    """A program that hears what is said, checks it, and prints the number of the last."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.last = ""

    async def until(self, word: str) -> None:
        assert self.process.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            while self.last != word:
                line = await self.process.stdout.readline()
                assert line, f"it ended after {self.last!r}"
                self.last = line.decode().strip()


@contextlib.asynccontextmanager
async def listening(lab: Lab, group: str, count: int) -> AsyncIterator[list[Ear]]:
    ears = [
        Ear(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                LISTENER,
                lab.socket(HOST),
                group,
                stdout=asyncio.subprocess.PIPE,
            )
        )
        for _ in range(count)
    ]
    try:
        for ear in ears:
            await ear.until("ready")
        yield ears
    finally:
        for ear in ears:
            if ear.process.returncode is None:
                ear.process.kill()
            await ear.process.wait()


class Speaker:
    def __init__(self, talk: Conversation) -> None:
        self.talk = talk
        self.said = 0

    async def say(self, count: int = 1000, size: int = 1000) -> None:
        numbers = range(self.said + 1, self.said + count + 1)
        await self.talk.send_many([b"%08d" % number + bytes(size - 8) for number in numbers])
        self.said += count

    async def until_heard(self, ears: list[Ear]) -> None:
        for ear in ears:
            await ear.until(str(self.said))


@contextlib.asynccontextmanager
async def speaking(lab: Lab, group: str, ears: int) -> AsyncIterator[Speaker]:
    async with (
        lab.program(HOST, "ann") as me,
        me.join(group, delivery="fifo", role="send") as talk,
    ):
        await talk.ready(deadline_s=WITHIN_S)
        await until(lambda: len(talk.members) == ears + 1, "the speaker knows of all")
        yield Speaker(talk)


async def counted(lab: Lab, thing: str) -> int:
    counters: dict[str, int] = (await lab.inspect(HOST))["counters"]
    return counters.get(thing, 0)


async def say_until_lent(lab: Lab, speaker: Speaker, ears: list[Ear], after: int = 0) -> None:
    """Speak until blocks of it are lent to all of these, from an arena made after the first so many."""
    async with asyncio.timeout(WITHIN_S):
        while await counted(lab, "arenas_made") <= after:
            await speaker.say(100)
            await speaker.until_heard(ears)
        lent = await counted(lab, "blocks_lent")
        while await counted(lab, "blocks_lent") < lent + 2 * len(ears):
            await speaker.say(100)
            await speaker.until_heard(ears)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One host with its server, whose arenas have room for two blocks for everybody."""
    lab = make(tmp_path_factory.mktemp("small"), 2)
    yield lab
    lab.close()


def make(directory: Path, arena_mb: int) -> Lab:
    lab = Lab(
        directory,
        servers=("lab",),
        hosts=(HOST,),
        together=(("lab", HOST),),
        namespaces=False,
        more=FORGIVING + f"\n[agents]\narena_mb = {arena_mb}\n",
    )
    asyncio.run(lab.start())
    return lab


async def test_while_one_receiver_is_stopped_the_others_hear_and_afterwards_it_has_missed_nothing(
    small: Lab,
) -> None:
    async with listening(small, "stopped", 3) as ears, speaking(small, "stopped", 3) as ann:
        await say_until_lent(small, ann, ears)
        sleepy, *awake = ears
        sleepy.process.send_signal(signal.SIGSTOP)
        held, lent = await counted(small, "blocks_not_lent{too many held}"), 0
        for _ in range(6):
            await ann.say(300)
            await ann.until_heard(awake)
        assert await counted(small, "blocks_not_lent{too many held}") > held
        lent = await counted(small, "blocks_lent")
        await ann.say(300)
        await ann.until_heard(awake)
        assert await counted(small, "blocks_lent") > lent, "the others are still lent to"
        sleepy.process.send_signal(signal.SIGCONT)
        await ann.until_heard(ears)


async def test_killed_receivers_take_nothing_with_them(small: Lab) -> None:
    async with listening(small, "killed", 4) as ears, speaking(small, "killed", 4) as ann:
        await say_until_lent(small, ann, ears)
        made = await counted(small, "arenas_made")
        doomed, ears = ears[:2], ears[2:]
        doomed[0].process.send_signal(signal.SIGSTOP)  # so that it certainly holds something
        await ann.say(1000)
        for ear in doomed:
            ear.process.kill()
        await ann.say(1000)
        await ann.until_heard(ears)
        await say_until_lent(small, ann, ears, after=made)
        maps = Path(f"/proc/{small[HOST].pid}/maps").read_text()
        assert maps.count("memfd:rostra-arena") == 1


async def test_who_comes_and_goes_meanwhile_disturbs_nobody(small: Lab) -> None:
    async with listening(small, "churn", 2) as ears, speaking(small, "churn", 2) as ann:
        await say_until_lent(small, ann, ears)
        made = await counted(small, "arenas_made")
        async with listening(small, "churn", 1) as late:
            await until(lambda: len(ann.talk.members) == 4, "the speaker knows of it")
            await say_until_lent(small, ann, [*ears, *late], after=made)
            made = await counted(small, "arenas_made")
        await say_until_lent(small, ann, ears, after=made)


async def test_a_program_that_does_not_read_what_it_was_lent_gets_the_rest_later(small: Lab) -> None:
    """It lives, and takes its frames off the socket; but nobody iterates."""
    async with (
        listening(small, "unread", 2) as ears,
        small.program(HOST, "lazy") as lazy,
        lazy.join("unread", delivery="fifo", role="receive") as talk,
        speaking(small, "unread", 3) as ann,
    ):
        await talk.ready()
        await say_until_lent(small, ann, ears)
        for _ in range(5):
            await ann.say(300)
            await ann.until_heard(ears)
        numbers = []
        async with asyncio.timeout(WITHIN_S):
            async for item in talk:
                if hasattr(item, "body"):
                    numbers.append(int(item.body[:8]))
                    if numbers[-1] == ann.said:
                        break
        assert numbers == list(range(1, ann.said + 1))


async def test_without_arenas_everything_goes_through_sockets(tmp_path: Path) -> None:
    lab = await asyncio.to_thread(make, tmp_path, 0)
    try:
        async with listening(lab, "plain", 2) as ears, speaking(lab, "plain", 2) as ann:
            for _ in range(3):
                await ann.say(500)
                await ann.until_heard(ears)
            assert await counted(lab, "arenas_made") == await counted(lab, "blocks_lent") == 0
    finally:
        lab.close()


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ([ProgramHello(ANY_WORLD, "thief", ticket=bytes(16))], "NOT_ALLOWED"),
        ([ProgramHello(ANY_WORLD, "liar", shares=True), Returned(10_000, (0,))], "BAD_ARGUMENT"),
        ([ProgramHello(ANY_WORLD, "liar", shares=True), Mapped(10_000)], "BAD_ARGUMENT"),
    ],
    ids=["a ticket of nobody's", "a block that was never lent", "an arena that was never made"],
)
async def test_a_program_that_lies_about_arenas_is_shown_out(
    small: Lab, said: list[ProgramHello | Returned | Mapped], code: str
) -> None:
    reader, writer = await asyncio.open_unix_connection(small.socket(HOST))
    first, *rest = said
    writer.write(Encoder(ANY_WORLD).to_agent(first))
    for each in rest:
        writer.write(Encoder("lab").to_agent(each))
    async with asyncio.timeout(WITHIN_S):
        last = FrameReader("lab", FrameKind.TO_PROGRAM).feed(await reader.read())[-1]
    writer.close()
    assert isinstance(last, Refusal) and last.code == code
    async with listening(small, "after", 1) as ears, speaking(small, "after", 1) as ann:
        await ann.say(10)
        await ann.until_heard(ears)
