"""Speaking to a group through the delegate of one's cluster, between real programs."""

import asyncio

import pytest
from support.lab import WITHIN_S, Lab

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
        with pytest.raises(NotAllowed, match='role="submit"'):
            one.items()
        with pytest.raises(AlreadyMember):
            await near.join("submitted", role="submit", **how)
        with pytest.raises(BadInput, match="meta"):
            far.join("elsewhere", role="submit", meta=b"me", **how)
        for talk in (one, other):
            await talk.leave(deadline_s=WITHIN_S)
            assert talk.parted().result().unconfirmed == 0
