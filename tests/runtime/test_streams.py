"""The client's streams: bounded, complete up to a `Gap`, and ended with a reason."""

import asyncio
import gc
import weakref
from collections.abc import Coroutine
from typing import Any

import pytest

from rostra.client.streams import STREAM_LENGTH_MAX, Stream
from rostra.errors import Unreachable


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def counting(missed: int) -> tuple[str, ...]:
    return (f"gap {missed}", "now")


def test_items_come_in_order_to_who_waits_and_to_who_comes_later() -> None:
    async def test() -> None:
        stream: Stream[str] = Stream(counting)
        stream.put("a")
        assert await anext(stream) == "a"
        waiting = asyncio.create_task(anext(stream))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        stream.put("b")
        stream.put("c")
        assert [await waiting, await anext(stream)] == ["b", "c"]

    run(test())


def test_a_slow_reader_gets_the_beginning_then_a_gap_then_the_present() -> None:
    async def test() -> None:
        stream: Stream[str] = Stream(counting)
        for number in range(STREAM_LENGTH_MAX + 7):
            stream.put(str(number))
        seen = [await anext(stream) for _ in range(STREAM_LENGTH_MAX + 2)]
        assert seen == [*map(str, range(STREAM_LENGTH_MAX)), "gap 7", "now"]
        stream.put("next")
        assert await anext(stream) == "next"

    run(test())


def test_what_the_agent_did_not_keep_is_a_gap_once_the_present_is_known() -> None:
    async def test() -> None:
        known = False
        stream: Stream[str] = Stream(lambda missed: counting(missed) if known else ())
        stream.put("a")
        stream.miss(3)
        stream.put("b")
        assert await anext(stream) == "a"
        waiting = asyncio.create_task(anext(stream))  # type: ignore[arg-type]
        await asyncio.sleep(0.01)
        assert not waiting.done()
        known = True
        stream.look_again()
        assert [await waiting, await anext(stream)] == ["gap 4", "now"]

    run(test())


def test_an_ended_stream_gives_what_it_has_and_then_its_reason() -> None:
    async def test() -> None:
        stream: Stream[str] = Stream(counting)
        stream.put("a")
        stream.end(Unreachable("the agent is gone", fix="connect again"))
        stream.put("too late")
        assert await anext(stream) == "a"
        for _ in range(2):
            with pytest.raises(Unreachable, match="the agent is gone"):
                await anext(stream)

    run(test())


def test_a_closed_stream_just_stops() -> None:
    async def test() -> None:
        stream: Stream[str] = Stream(counting)
        loop = asyncio.create_task(_collect(stream))
        await asyncio.sleep(0)
        stream.put("a")
        stream.end()
        assert await loop == ["a"]

    run(test())


def test_two_readers_of_one_stream_are_a_mistake_that_is_named() -> None:
    async def test() -> None:
        stream: Stream[str] = Stream(counting)
        first = asyncio.create_task(_collect(stream))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two tasks read one stream"):
            await anext(stream)
        stream.end()
        await first

    run(test())


def test_a_cancelled_reader_loses_nothing() -> None:
    async def test() -> None:
        stream: Stream[str] = Stream(counting)
        reader = asyncio.create_task(_collect(stream))
        await asyncio.sleep(0)
        reader.cancel()
        await asyncio.sleep(0)
        stream.put("a")
        assert await anext(stream) == "a"

    run(test())


def test_a_task_that_only_reads_is_not_forgotten() -> None:
    """Whoever feeds streams holds them weakly; a reader that nobody else holds must live on all the same."""

    async def test() -> None:
        seen: list[str] = []

        async def read(stream: Stream[str]) -> None:
            async for item in stream:
                seen.append(item)  # noqa: PERF401 (each as it comes)

        def begin() -> weakref.ref[Stream[str]]:
            stream: Stream[str] = Stream(counting)
            asyncio.get_running_loop().create_task(read(stream))
            return weakref.ref(stream)

        feed = begin()
        await asyncio.sleep(0.01)
        gc.collect()
        stream = feed()
        assert stream is not None
        stream.put("a")
        stream.end()
        await asyncio.sleep(0.01)
        assert seen == ["a"]
        del stream
        gc.collect()
        assert feed() is None

    run(test())


async def _collect(stream: Stream[str]) -> list[str]:
    return [item async for item in stream]
