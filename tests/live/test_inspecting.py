"""Who inspects a node may wait for news, and hears of everything once."""

import asyncio
import time

from support.lab import Lab

from rostra.client import connect_admin


async def test_an_inspection_waits_for_something_to_happen(lab: Lab) -> None:
    async with connect_admin(lab.socket("eu"), domain="eu") as admin:
        first = await admin.inspect()
        waiting = asyncio.create_task(admin.inspect(after=first["recorded"], wait_s=30.0))
        await asyncio.sleep(0.2)
        assert not waiting.done(), "nothing had happened yet"

        lab["eu.h1"].kill()
        news = await waiting
        numbers = range(first["recorded"] + 1, news["recorded"] + 1)
        assert [event["event"] for event in news["recent"]] == ["link_suspected"] and len(numbers) == 1


async def test_without_news_an_inspection_waits_no_longer_than_asked(lab: Lab) -> None:
    async with connect_admin(lab.socket("us"), domain="us") as admin:
        recorded = (await admin.inspect())["recorded"]
        began = time.monotonic()
        document = await admin.inspect(after=recorded, wait_s=0.3)
        assert 0.3 <= time.monotonic() - began < 2.0
        assert document["recent"] == [] and document["links"]


async def test_a_second_question_releases_the_first(lab: Lab) -> None:
    async with connect_admin(lab.socket("us"), domain="us") as admin:
        recorded = (await admin.inspect())["recorded"]
        first = asyncio.create_task(admin.inspect(after=recorded, wait_s=30.0))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(admin.inspect(after=recorded, wait_s=0.2))
        assert (await first)["recorded"] == (await second)["recorded"] == recorded


async def test_a_link_says_when_anything_was_heard_on_it(lab: Lab) -> None:
    document = await lab.inspect("eu")
    assert 0.0 <= document["links"]["us"]["heard_s"] < 5.0
    assert "world" not in document["links"]  # nobody serves it, and nobody waits for it
