"""Rostra with ``delivery="atomic"`` on hosts of their own: network namespaces of the lab, as root.

two hosts      one cluster: a server and two agents, each in its namespace, with members on both
three sites    the Xpand paper's, without loss: a server and an agent at each, and the server of the world at
               Cambridge; programs of a site use its agent, and frames between sites go by way of the servers
"""

import contextlib
import os
import time
from contextlib import AsyncExitStack
from typing import Any, Final

from msgspec.structs import replace

import rostra
from benchmarks.peers.base import Service
from benchmarks.peers.processes import READY_WITHIN_S
from rostra.errors import RostraError
from rostra.lab import Lab, load_plan
from rostra.lab.plan import LabPlan, Site
from rostra.lab.world import LabWorld
from rostra.names import ROOT, Domain

TWO_HOSTS: Final = LabPlan("two-hosts", (Site(Domain("lab"), 1, 2),), ())


def three_sites() -> LabPlan:
    plan = load_plan()
    ways = tuple((source, to, quality.but(loss=0.0)) for source, to, quality in plan.ways)
    return LabPlan(plan.name, tuple([replace(site, hosts=1) for site in plan.sites]), ways, plan.seed)


class OrderedLabService(Service):
    name = "rostra-ordered"
    urgent = False

    def __init__(self, label: str, plan: LabPlan, hosts: tuple[str, ...], *, root: str = "") -> None:
        self.label = label
        self.places = len(hosts)
        self._plan, self._hosts, self._root = plan, hosts, root
        self._scope = ROOT if root else hosts[0].partition(".")[0]
        self._stack = AsyncExitStack()

    def missing(self) -> str:
        return "" if os.geteuid() == 0 else "Namespaces need root: run it as root."

    async def start(self) -> None:
        lab = await self._stack.enter_async_context(Lab(self._plan))
        self._world = LabWorld(lab, root=self._root, urgent=self.urgent)
        self._stack.callback(self._world.stop)
        await self._world.start()
        for place in range(self.places):
            await self._agrees(place)

    async def stop(self) -> None:
        await self._stack.aclose()

    def pids(self) -> list[int]:
        return [process.pid for process in self._world.processes.values()]

    def door(self, place: int = 0) -> dict[str, Any]:
        return {"address": self._world.socket(self._hosts[place]), "scope": self._scope, "separate": False}

    async def _agrees(self, place: int) -> None:
        """Sets of servers form some seconds after these are linked."""
        until = time.monotonic() + READY_WITHIN_S
        async with rostra.connect(self._world.socket(self._hosts[place])) as me:
            while True:
                with contextlib.suppress(RostraError):
                    async with me.join("first", self._scope, membership="agreed", delivery="atomic") as group:
                        await group.ready()
                        return
                if time.monotonic() > until:
                    raise TimeoutError(f"no agreed group at {self._hosts[place]} after {READY_WITHIN_S:g} s")
