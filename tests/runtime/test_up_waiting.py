"""How long `rostra up` waits for its world, and what it says meanwhile: in pretended time."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from rostra.names import Domain
from rostra.testing.loop import PretendLoop
from rostra.up import world as small
from rostra.up.home import WorldHome
from rostra.up.plan import of_shape
from rostra.up.world import NotUp, SmallWorld, Starting

PLAN = of_shape("1x1x2")  # eu, eu.paris and two hosts


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorldHome]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
    made = WorldHome.make()
    yield made
    made.remove()


def waits(home: WorldHome, grow: Callable[[Starting], Coroutine[Any, Any, None]]) -> tuple[list[str], float]:
    """What is said while a world comes up in this way, and how long it took."""
    said: list[str] = []

    async def wait() -> float:
        world = SmallWorld(PLAN, home, say=said.append, complain=said.append)
        for nodes in PLAN.processes:
            world._new_node(nodes).log.write_text("listening\nlinked with nobody\n")
        starting = Starting([*PLAN.nodes], 2 * len(PLAN.nodes), unseen=[])
        loop = asyncio.get_running_loop()
        began = loop.time()
        ready = loop.create_task(grow(starting))
        try:
            await world._until_ready(ready, starting)
        finally:
            ready.cancel()
        return loop.time() - began

    with asyncio.Runner(loop_factory=PretendLoop) as runner:
        return said, runner.run(wait())


async def slowly(starting: Starting) -> None:
    """A node every forty seconds: a very busy machine."""
    for node in [*starting.waiting_for]:
        await asyncio.sleep(40.0)
        starting.answering.add(node)
        starting.waiting_for.remove(node)
        starting.done += 2


async def half_way(starting: Starting) -> None:
    starting.answering.update(starting.waiting_for[:2])
    starting.waiting_for.pop(0)
    starting.done += 3
    await asyncio.Event().wait()


def test_a_world_that_comes_up_slowly_is_waited_for_and_told_of(
    home: WorldHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small, "busy", lambda: "")
    said, took_s = waits(home, slowly)
    assert took_s == 40.0 * len(PLAN.nodes)
    assert said[0] == "still starting after 20 s; no answer from eu, eu.paris, eu.paris.h1 and 1 more"
    assert said[-1] == "still starting after 140 s; no answer from eu.paris.h2"


def test_a_world_that_stands_still_is_given_up_with_what_is_missing_and_its_last_words(
    home: WorldHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small, "busy", lambda: "this machine is busy: load 21 on 2 processors")
    with pytest.raises(NotUp) as given_up:
        waits(home, half_way)
    assert given_up.value.what == (
        "the world did not come up: for 60 s nothing went forward (no answer from eu.paris.h1, eu.paris.h2;"
        " not linked to all neighbours: eu.paris)"
    )
    assert given_up.value.fix.splitlines() == [
        "eu.paris: listening",
        "  eu.paris: linked with nobody",
        "  this machine is busy: load 21 on 2 processors",
        "  try a smaller --shape",
    ]


def test_people_are_missed_only_when_everything_else_is_there() -> None:
    hosts = [Domain("eu.paris.h1")]
    assert Starting([], 1, unseen=hosts).missing() == "nobody seen of eu.paris.h1"
    assert Starting([Domain("eu")], 1, unseen=hosts).missing() == "no answer from eu"


@pytest.mark.parametrize(
    ("load", "said"), [(1.0, ""), (21.4, "this machine is busy: load 21 on 2 processors")]
)
def test_a_busy_machine_is_called_so(load: float, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert small.busy() == said
