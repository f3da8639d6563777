"""K1: an attachment that is no text, or a nesting bomb, ends agents that list the group's members."""

import pytest
from support.bystanders import unnoticed
from support.lab import WITHIN_S, Lab, until

HOSTILE = {
    "bad UTF-8": b"\x92\x02\xa1\xff",
    "bad UTF-8 in a member's": b"\x95\x01\xa4\xff\xff\xff\xff\x01\xa8throttle\xc4\x00",
    "nesting": b"\x93\x02\xa0" + b"\x91" * 253,
}


@pytest.mark.parametrize("attachment", sorted(HOSTILE))
async def test_a_program_joins_with_bytes_that_no_decoder_likes(world: Lab, attachment: str) -> None:
    group = f"lobby-{attachment.replace(' ', '-')}".replace("'", "")
    meta = HOSTILE[attachment]
    async with (
        unnoticed(world, f"{group}-talk"),
        world.program("eu.h1", "mallory") as mallory,
        world.program("us.h1", "ann") as ann,
        ann.watch(group) as watched,
        mallory.join(group, meta=meta),
    ):
        await until(lambda: [each.meta for each in watched.members] == [meta], "ann watches")
        assert [each.meta for each in (await ann.resolve(group)).members] == [meta]


async def test_it_joins_the_group_that_others_talk_in(world: Lab) -> None:
    """Delegates, and agents with members in it, look at every attachment of the group."""
    async with unnoticed(world, "talk-with-k1"):
        for number, meta in enumerate(HOSTILE.values()):
            async with (
                world.program("eu.h1", f"mallory-{number}") as mallory,
                world.program("us.h1", f"ann-{number}") as ann,
                mallory.join("talk-with-k1", meta=meta) as joined,
            ):
                await joined.ready(deadline_s=WITHIN_S)
                await ann.resolve("talk-with-k1")
