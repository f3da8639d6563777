"""What a real process shows to the observers of its nodes."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rostra.config import WorldConfig
from rostra.core.effects import Event, TimerFired
from rostra.core.observer import BESIDE, TURN_ENDED, DiskRefused, NodeBegan, NodeDropped
from rostra.core.stack import Service
from rostra.errors import StoreFailed
from rostra.names import Domain
from rostra.observe.log import EventLog
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.registry import Registry
from rostra.runtime.process import HostedNode, Process
from rostra.runtime.store import MemoryStore
from rostra.stacks import NodePlan, make_node, make_stack

HOST = Domain("lab.h1")
FATAL = TimerFired(("relaxed", "fatal"))


class Watcher:
    def __init__(self) -> None:
        self.saw_all: list[tuple[Event, list[Any]]] = []

    def saw(self, now: float, node: Domain, event: Event, effects: Any) -> None:
        assert node == HOST
        self.saw_all.append((event, list(effects)))


def run(scene: Callable[[Process, HostedNode, Watcher], Awaitable[None]]) -> None:
    async def whole() -> None:
        process = Process(WorldConfig("observed", {}), EventLog(quiet=True))
        plan = NodePlan("observed", HOST, True, False, 1, LinkConfig.lan(), RelaxedConfig.lan())
        hosted = HostedNode(make_node(plan, make_stack(plan, Registry())), MemoryStore(), is_agent=True)
        watcher = Watcher()
        hosted.observers += (watcher,)
        process.host(hosted)
        await scene(process, hosted, watcher)

    asyncio.run(whole())


def test_a_step_that_fails_is_shown_with_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a recording ends with the input that the node failed at, and a replay fails at it too."""
    step = LocalServer.step

    def fails(self: Service, now: float, event: Event) -> Any:
        assert event != FATAL, "planted"
        return step(self, now, event)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalServer, "step", fails)

    async def scene(process: Process, hosted: HostedNode, watcher: Watcher) -> None:
        with pytest.raises(AssertionError, match="planted"):
            process.step(hosted, FATAL)
        assert watcher.saw_all == [(FATAL, [])]
        assert process.failed.done()

    run(scene)


def test_steps_ends_of_turns_and_what_happens_beside_them_are_shown_in_order() -> None:
    async def scene(process: Process, hosted: HostedNode, watcher: Watcher) -> None:
        process.start()
        process.step(hosted, TimerFired(("tick",)))
        process.no_room(hosted, "registry", StoreFailed("the disk is full"))
        await asyncio.sleep(0)
        process.let_go(hosted, "another replica leads")
        events = [event for event, _ in watcher.saw_all]
        assert isinstance(events[0], NodeBegan) and events[-2:] == [TURN_ENDED, BESIDE]
        beside = [effects for event, effects in watcher.saw_all if event is BESIDE]
        assert beside == [
            [DiskRefused("registry", "the disk is full")],
            [NodeDropped("another replica leads")],
        ]
        assert process.record.counters["disk_refused", "registry"] == 1

    run(scene)
