"""The agent of a simulated host, as its programs see it: the real one.

    program ══ pipe ══ Connection, Listener, Programs, front     the runtime's, on a pretended clock
                                   │ ▲
                       questions   ▼ │ answers, notices, deliveries
                     stack, links, data channel, network         the simulator's

What slow readers, handshakes, pings and resumed watches do in production they do here, because it is the same
code; only the node below it lives in the simulator's world and not in this process.
"""

import asyncio
import sys
from typing import Any

from msgspec.structs import asdict

from rostra import config
from rostra.core.effects import Answer, Event, Tell
from rostra.names import Domain, Endpoint, Group
from rostra.node import Node
from rostra.observe.log import EventLog
from rostra.protocols.fifo.events import Deliver, DeliverAll
from rostra.protocols.front.config import WATCH_TICK_S
from rostra.protocols.front.core import FrontCore
from rostra.runtime.listener import Listener
from rostra.runtime.process import HostedNode, Process
from rostra.runtime.programs import Programs
from rostra.runtime.store import MemoryStore
from rostra.sim.processes import WORLD_NAME
from rostra.sim.world import World as Sim
from rostra.testing import pipes
from rostra.testing.trace import TestTrace
from rostra.transport.connection import Connection
from rostra.wire import FrameKind


class AgentPrograms(Programs):
    """The driver of the agent's front, where data channel and chance are the simulated world's."""

    def __init__(self, process: Process, hosted: HostedNode, sim: Sim, trace: TestTrace) -> None:
        class TracedFront(FrontCore):
            def tell(self, tell: Tell) -> None:
                trace.says(tell.endpoints, tell.notice)
                super().tell(tell)

        super().__init__(process, hosted, TracedFront)
        self._sim = sim
        self._entered = 0

    def entered(self, group: Group) -> None:
        self._sim.channels.entered(self._sim.processes[self.hosted.path], group)

    def luck(self, endpoint: Endpoint, group: Group) -> int:
        self._entered += 1
        return self._sim.luck_of(endpoint, group, self._entered)


class AgentProcess(Process):
    """One life of one host's agent."""

    def __init__(self, sim: Sim, node: Node, trace: TestTrace) -> None:
        self._sim = sim
        self._trace = trace
        detect: dict[str, Any] = asdict(sim.timers.detect)
        super().__init__(config.WorldConfig(WORLD_NAME, {}, detect=detect), EventLog(quiet=True))
        self.path = node.path
        self.files_max = sys.maxsize  # whatever this machine allows us, the pretended one has no files
        self.host(HostedNode(node, MemoryStore(), is_agent=True))
        self._door = Listener(self, FrameKind.TO_AGENT)
        self._ends: list[pipes.PipeEnd] = []
        self._moving = asyncio.Event()
        self._moving.set()
        self.spawn(self._watch_programs())

    def _programs_of(self, hosted: HostedNode) -> Programs:
        return AgentPrograms(self, hosted, self._sim, self._trace)

    def cpu_clock(self) -> float:
        return 0.0  # no turn is ever long

    def clock(self) -> float:
        return self._sim.now

    def call(self, program: Connection) -> None:
        """A program knocks at our socket."""
        self._ends = [end for end in self._ends if not end.is_closing()]
        end = pipes.connect(self.loop, program, self._door.caller())
        self._ends.append(end)
        if not self._moving.is_set():
            end.hold()

    # To and from the node

    def step(self, hosted: HostedNode, event: Event) -> None:
        self._begin_turn()
        self._sim.enter(self.path, event)

    def tell(self, tell: Tell) -> None:
        self.programs[self.path].tell(tell)

    def answer(self, answer: Answer) -> None:
        self.programs[self.path].answer(answer)

    def deliver(self, deliver: Deliver) -> None:
        self.programs[self.path].deliver(deliver)

    def deliver_all(self, deliver: DeliverAll) -> None:
        self.programs[self.path].deliver_all(deliver)

    # What the world does to it

    def pause(self) -> None:
        self._moving.clear()
        for end in self._ends:
            end.hold()

    def resume(self) -> None:
        self._moving.set()
        for end in self._ends:
            end.release()

    def drop(self) -> None:
        for end in self._ends:
            end.abort()
            end.peer.abort()

    def die(self) -> None:
        for task in self._tasks:
            task.cancel()
        for end in self._ends:
            end.vanish()

    async def _watch_programs(self) -> None:
        while True:
            await asyncio.sleep(WATCH_TICK_S)
            await self._moving.wait()
            self.tick()


def new_agent(sim: Sim, host: Domain, trace: TestTrace) -> AgentProcess | None:
    """The agent that lives on this host now, if one does."""
    node = sim.processes[host].node
    if node is None:
        return None
    agent = AgentProcess(sim, node, trace)
    sim.fronts.of[host] = agent
    if sim.processes[host].paused:
        agent.pause()
    return agent
