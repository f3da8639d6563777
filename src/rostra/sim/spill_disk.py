"""The simulated disk of a delegate: backlogs of slow receivers, bounded, in memory.

It answers as `rostra.runtime.spill` does, so that the cores meet the same disk in both drivers.
"""

from rostra.protocols.fifo.events import ForgetSpilled, ReadSpilled, Spill, Spilled, SpilledRead
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.streams import Store


class SimSpillDisk:
    """`bytes_max` may be changed at any time: 0 is a disk that has failed."""

    def __init__(self) -> None:
        self.bytes_max = 256 << 20
        self.backlogs: dict[int, Store] = {}

    @property
    def bytes(self) -> int:
        return sum([store.bytes for store in self.backlogs.values()])

    def keep(self, order: Spill) -> Spilled:
        if self.bytes + sum([len(run.block) for run in order.runs]) > self.bytes_max:
            return Spilled(order.group, order.backlog, "no room for its backlog")
        store = self.backlogs.setdefault(order.backlog, Store())
        for run in order.runs:
            store.append(run)
        return Spilled(order.group, order.backlog)

    def read(self, order: ReadSpilled) -> SpilledRead:
        store = self.backlogs.get(order.backlog, Store())
        found: list[Run] = []
        size = 0
        for run in store.get(order.first, order.end - 1):
            found.append(run)
            size += len(run.block)
            if size >= order.bytes_max:
                break
        return SpilledRead(order.group, order.backlog, tuple(found))

    def forget(self, order: ForgetSpilled) -> None:
        if order.below is None:
            self.backlogs.pop(order.backlog, None)
        elif order.backlog in self.backlogs:
            self.backlogs[order.backlog].forget(order.below - 1)
