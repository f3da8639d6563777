"""An event loop on pretended time."""

import asyncio
import time

import pytest

from rostra.errors import NotAvailable
from rostra.testing.loop import DidNotFinish, PretendLoop


@pytest.fixture
def loop() -> PretendLoop:
    return PretendLoop()


def test_a_day_takes_no_time_and_timers_fire_in_order(loop: PretendLoop) -> None:
    fired: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        fired.append((name, loop.time()))

    async def main() -> None:
        await asyncio.gather(sleep("day", 86_400), sleep("hour", 3_600), sleep("moment", 0.001))

    began = time.monotonic()
    loop.run_until_complete(main())
    assert time.monotonic() - began < 1.0
    assert [name for name, _ in fired] == ["moment", "hour", "day"]
    assert [at for _, at in fired] == pytest.approx([0.001, 3_600, 86_400])
    loop.close()


def test_timeouts_queues_and_events_live_in_pretended_time(loop: PretendLoop) -> None:
    async def main() -> float:
        queue: asyncio.Queue[int] = asyncio.Queue()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await queue.get()
        loop.call_later(5, queue.put_nowait, 7)
        assert await asyncio.wait_for(queue.get(), 10) == 7
        return loop.time()

    assert loop.run_until_complete(main()) == pytest.approx(35)


def test_who_waits_for_ever_is_stopped_and_told(loop: PretendLoop) -> None:
    loop.ends_at = 100.0

    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DidNotFinish, match="at 100 s the program was still waiting"):
        loop.run_until_complete(main())
    assert loop.time() == 100.0


def test_a_busy_loop_does_not_move_the_clock(loop: PretendLoop) -> None:
    async def main() -> float:
        for _ in range(1000):
            await asyncio.sleep(0)
        return loop.time()

    assert loop.run_until_complete(main()) == 0.0


def test_work_for_a_thread_is_done_at_once(loop: PretendLoop) -> None:
    def fail() -> None:
        raise ValueError("no")

    async def main() -> int:
        with pytest.raises(ValueError, match="no"):
            await asyncio.to_thread(fail)
        return await asyncio.to_thread(lambda: 7)

    assert loop.run_until_complete(main()) == 7


@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("network connections", lambda: asyncio.open_connection("127.0.0.1", 1)),
        ("listening sockets", lambda: asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)),
        ("sockets", lambda: asyncio.open_unix_connection("/tmp/x")),
        ("sockets", lambda: asyncio.start_unix_server(lambda r, w: None, "/tmp/x")),
        ("processes", lambda: asyncio.create_subprocess_exec("true")),
        ("processes", lambda: asyncio.create_subprocess_shell("true")),
    ],
)
def test_what_is_not_of_this_world_says_so(loop: PretendLoop, what: str, make: object) -> None:
    async def main() -> None:
        await make()  # type: ignore[operator]

    with pytest.raises(NotAvailable, match=f"no {what}"):
        loop.run_until_complete(main())
