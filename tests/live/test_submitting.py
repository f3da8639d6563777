"""Speaking to a group through the delegate of one's cluster, between real programs."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from support.lab import WITHIN_S, Lab, until

import rostra
from rostra.client import Conversation
from rostra.errors import AlreadyMember, BadInput, NotAllowed
from rostra.names import host_of


def lines(word: str, count: int) -> list[bytes]:
    return [f"{word} {number}".encode() for number in range(count)]


async def heard(
    talk: Conversation, *senders: str, until_each: int
) -> tuple[dict[str, list[bytes]], set[str]]:
    """What these said, until so many came of each, and on which hosts members were seen meanwhile; numbers
    are checked on the way."""
    got: dict[str, list[bytes]] = {sender: [] for sender in senders}
    hosts: set[str] = set()
    async with asyncio.timeout(WITHIN_S):
        async for item in talk:
            assert not isinstance(item, rostra.Gap), item
            if isinstance(item, rostra.View | rostra.Joined):
                hosts |= {host_of(member.endpoint) for member in item.members}
            elif isinstance(item, rostra.Message):
                got[item.sender].append(item.body)
                assert item.number == len(got[item.sender]), item
                if all(len(bodies) >= until_each for bodies in got.values()):
                    break
    return got, hosts


async def is_seen_submitting(lab: Lab, host: str, who: str, said: int) -> bool:
    """At its agent and at the server that speaks for it, and everybody has everything."""
    streams = [each for each in (await lab.inspect(host))["streams"] if each["member"] == who]
    submitted = (await lab.inspect("eu"))["submitted"]
    at_home = [(each["role"], each["sent"], each["confirmed"]) for each in streams]
    there = [each["origins"][who] for each in submitted if who in each["origins"]]
    taken = [(each["taken"], each["emitted"], each["confirmed"], each["missing"]) for each in there]
    return at_home == [("submit", said, said)] and taken == [(said, said, said, 0)]


@pytest.mark.spec("X-054", "X-055")
async def test_who_submits_is_heard_by_all_and_seen_by_nobody(lab: Lab) -> None:
    how = {"delivery": "fifo", "deadline_s": WITHIN_S}
    large = b"x" * 200_000
    async with (
        lab.program("eu.h1", "near") as near,
        lab.program("eu.h2", "ear") as ear,
        lab.program("us.h1", "far") as far,
        ear.join("submitted", role="receive", **how) as hears,
        near.join("submitted", role="submit", **how) as one,
        far.join("submitted", role="submit", **how) as other,
    ):
        for talk in (hears, one, other):
            await talk.ready(deadline_s=WITHIN_S)
        await one.send_many([*lines("near", 300), large])
        await other.send_many([*lines("far", 300), large])
        said, hosts = await heard(hears, near.endpoint, far.endpoint, until_each=301)
        assert said[near.endpoint] == [*lines("near", 300), large]
        assert said[far.endpoint] == [*lines("far", 300), large]
        assert hosts == {"eu.h2", "eu.-delegate", "us.-delegate"}
        await until(lambda: is_seen_submitting(lab, "eu.h1", near.endpoint, 301), "it is seen where it is")
        with pytest.raises(NotAllowed, match='role="submit"'):
            one.items()
        with pytest.raises(AlreadyMember):
            await near.join("submitted", role="submit", **how)
        with pytest.raises(BadInput, match="meta"):
            far.join("elsewhere", role="submit", meta=b"me", **how)
        for talk in (one, other):
            await talk.leave(deadline_s=WITHIN_S)
            assert talk.parted().result().unconfirmed == 0


class Ear:
    """One receiver, and what it was given of each sender: every number once and in order, or a `Gap` that
    says which are missing."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self.heard: dict[str, list[int]] = {}
        self.missed: dict[str, list[int]] = {}
        self.next: dict[str, int] = {}
        self.was_cut_off = False

    async def listen(self) -> None:
        async for item in self._talk:
            match item:
                case rostra.Message(sender, body, number):
                    assert body == f"{sender} {number}".encode()
                    self._take(self.heard, sender, number, 1)
                case rostra.Gap(missed, sender=str(sender), first=first):
                    assert missed
                    self._take(self.missed, sender, first, missed)
                case rostra.Without() | rostra.Only():
                    self.was_cut_off = True
                case rostra.Gap():
                    raise AssertionError(f"a gap of what, nobody says: {item}")

    def _take(self, where: dict[str, list[int]], sender: str, first: int, count: int) -> None:
        assert first == self.next.get(sender, 1), f"{sender}: {first} after {self.next.get(sender, 1) - 1}"
        where.setdefault(sender, []).extend(range(first, first + count))
        self.next[sender] = first + count


@pytest.mark.spec("X-055", "X-064", "X-102")
@pytest.mark.parametrize("victim", ["eu", "us"], ids=["their own delegate", "a receiver's delegate"])
async def test_a_killed_delegate_costs_submitters_nothing_that_was_acknowledged(
    lab: Lab, victim: str
) -> None:
    """They speak while it is alive, dead, and back. What is acknowledged in the end is all of it, and every
    receiver had it, or was told which part was said while it was cut off."""
    group, in_all = f"killed-{victim}", 400
    how = {"delivery": "fifo", "deadline_s": WITHIN_S}
    async with AsyncExitStack() as stack:

        async def join(host: str, name: str, role: str) -> Conversation:
            me = await stack.enter_async_context(lab.program(host, name))
            talk: Conversation = await stack.enter_async_context(me.join(group, role=role, **how))
            await talk.ready(deadline_s=WITHIN_S)
            return talk

        listening = [await join(host, "ear", "receive") for host in ("eu.h2", "us.h1")]
        for talk in listening:
            await until(lambda talk=talk: len(talk.members) == 2, "they see each other")
        senders = [await join(host, "mouth", "submit") for host in ("eu.h1", "eu.h2")]
        ears = [Ear(talk) for talk in listening]
        tasks = [asyncio.create_task(ear.listen()) for ear in ears]

        def all_have(count: int) -> bool:
            for task in tasks:
                if task.done():
                    task.result()
            return all(ear.next.get(who.me.endpoint, 1) > count for ear in ears for who in senders)

        async def say(first: int, last: int) -> None:
            for number in range(first, last + 1):
                for talk in senders:
                    await talk.send(f"{talk.me.endpoint} {number}".encode())

        await say(1, 100)
        await until(lambda: all_have(100), "everybody has heard the beginning")
        await say(101, 200)
        lab[victim].kill()  # in the middle of what it passes on
        await say(201, 300)
        other = "us" if victim == "eu" else "eu"

        async def is_missed() -> bool:
            return not (await lab.inspect(other))["links"][victim]["up"]

        await until(is_missed, f"{victim} is missed")
        lab[victim].start()
        await say(301, in_all)
        await until(lambda: all_have(in_all), "everybody has everything, or was told what it has not")
        for talk in senders:
            await talk.leave(deadline_s=WITHIN_S)
            assert talk.parted().result().unconfirmed == 0
        for task in tasks:
            task.cancel()
        for ear in ears:
            assert ear.was_cut_off or not ear.missed, "nothing is missed without a reason"
            for who in (talk.me.endpoint for talk in senders):
                assert sorted([*ear.heard[who], *ear.missed.get(who, [])]) == list(range(1, in_all + 1))
