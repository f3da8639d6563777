"""Who inspects a node may wait for news, and hears of everything once."""

import asyncio
import time

from support.lab import WITHIN_S, Lab, until

from rostra.client import connect_admin


async def test_an_inspection_waits_for_something_to_happen(lab: Lab) -> None:
    async with connect_admin(lab.socket("eu"), domain="eu") as admin:
        first = await admin.inspect()
        lab["eu.h1"].kill()
        recorded, told = first["recorded"], []
        while not any(event["event"] == "link_suspected" and "eu.h1" in str(event) for event in told):
            news = await admin.inspect(after=recorded, wait_s=WITHIN_S)
            assert news["recent"], "it answered before anything had happened"
            assert len(news["recent"]) == news["recorded"] - recorded, "each of them once"
            recorded, told = news["recorded"], told + news["recent"]


async def test_without_news_an_inspection_waits_no_longer_than_asked(lab: Lab) -> None:
    async with connect_admin(lab.socket("us"), domain="us") as admin:

        async def nothing_new() -> bool:
            recorded = (await admin.inspect())["recorded"]
            began = time.monotonic()
            document = await admin.inspect(after=recorded, wait_s=0.3)
            if document["recent"]:
                return False  # so busy a machine that a neighbour was late: ask again
            assert time.monotonic() - began > 0.2, "it waited, to within the ticks of two clocks"
            return bool(document["links"])

        await until(nothing_new, "a moment without news, and an answer")


async def test_a_second_question_releases_the_first(lab: Lab) -> None:
    async with connect_admin(lab.socket("us"), domain="us") as admin:
        recorded = (await admin.inspect())["recorded"]
        first = asyncio.create_task(admin.inspect(after=recorded, wait_s=10 * WITHIN_S))
        second = asyncio.create_task(admin.inspect(after=recorded, wait_s=0.2))
        async with asyncio.timeout(WITHIN_S):
            assert recorded <= (await first)["recorded"] <= (await second)["recorded"]


async def test_a_link_says_when_anything_was_heard_on_it(lab: Lab) -> None:
    async def is_heard() -> bool:
        return 0.0 <= (await lab.inspect("eu"))["links"]["us"]["heard_s"] < 5.0

    await until(is_heard, "heartbeats are heard")
    document = await lab.inspect("eu")
    assert "world" not in document["links"]  # nobody serves it, and nobody waits for it
