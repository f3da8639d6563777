"""The same deployments with led membership: every online member is told the leader's list when it changes."""

import asyncio

from benchmarks.peers.base import OnChange, nobody
from benchmarks.peers.rostra import RostraProgram, RostraService, ShortNames
from rostra.client import Membership


class LedService(RostraService):
    name = "rostra-led"


class LedProgram(RostraProgram):
    async def enter(self, group: str, name: str, on_change: OnChange) -> None:
        await self.prepare(name)
        membership = await self._endpoints[name].join(group, self._scope, membership="led")
        self._memberships[group, name] = await membership.ready()
        if on_change is not nobody:
            self._tasks.append(asyncio.create_task(_report_lists(membership, on_change, self._names)))

    async def join(self, group: str, name: str) -> None:
        await self.prepare(name)
        self._memberships[group, name] = await self._endpoints[name].join(
            group, self._scope, membership="led", online=False
        )


async def _report_lists(membership: Membership, on_change: OnChange, names: ShortNames) -> None:
    """A change is a new list, in whatever items it comes."""
    before = {member.endpoint for member in membership.members}
    async for _ in membership:
        after = {member.endpoint for member in membership.members}
        for endpoint in sorted(after - before):
            on_change(names[endpoint], True)
        for endpoint in sorted(before - after):
            on_change(names[endpoint], False)
        before = after
