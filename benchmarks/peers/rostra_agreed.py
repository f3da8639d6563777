"""The same deployments with agreed views: every member is told every view, the joiner too."""

import asyncio

from benchmarks.peers.base import OnChange, nobody
from benchmarks.peers.rostra import RostraProgram, RostraService, ShortNames
from rostra.client import AgreedMembership, Blocked, View


class AgreedService(RostraService):
    name = "rostra-agreed"


class AgreedProgram(RostraProgram):
    def __init__(self, address: str, scope: str, separate: bool) -> None:
        super().__init__(address, scope, separate)
        self._stays: dict[tuple[str, str], AgreedMembership] = {}

    async def enter(self, group: str, name: str, on_change: OnChange) -> None:
        await self.join(group, name)
        stay = await self._stays[group, name].ready()
        if on_change is not nobody:
            self._tasks.append(asyncio.create_task(_report_views(stay, on_change, self._names)))

    async def join(self, group: str, name: str) -> None:
        await self.prepare(name)
        self._stays[group, name] = await self._endpoints[name].join(group, self._scope, membership="agreed")

    async def leave(self, group: str, name: str) -> None:
        await self._stays.pop((group, name)).leave()


async def _report_views(stay: AgreedMembership, on_change: OnChange, names: ShortNames) -> None:
    number = 0
    async for item in stay:
        match item:
            case View():
                assert item.number == number + 1 or not number, "a watcher missed a view"
                number = item.number
                for endpoint in item.joined:
                    on_change(names[endpoint], True)
                for endpoint in (*item.left, *item.failed):
                    on_change(names[endpoint], False)
            case Blocked(because=why):
                raise AssertionError(f"a watcher was blocked: {why}")
