"""Storms over groups with ``stable="disk"``: as in `order_storm.py`, and at times all hosts crash at once.

Checked besides: `on-disk`, that whatever any member was ever given is given again, at its place, to those who
begin when none is left that had it (`orders.py`). When the storm is over each host has a program again: what
was acknowledged may be on the disk of any of them.
"""

from collections.abc import Mapping
from typing import Final

from rostra.names import Group
from rostra.sim.order_storm import OrderStorm
from rostra.sim.view_storm import DEEDS, LEDGER, LOCAL

ON_DISK: Final = {LEDGER: "majority", LOCAL: "majority"}


class KeptStorm(OrderStorm):
    rules: Mapping[Group, str] = ON_DISK
    joined: tuple[Group, ...] = (LEDGER, LEDGER, LOCAL)
    deeds: tuple[str, ...] = (*DEEDS, "black_out", "black_out", "all_leave")
    word = "kept"

    def _choose_orders(self, seed: int) -> dict[Group, str]:
        return dict.fromkeys(ON_DISK, "hub")

    def _choose_stable(self, seed: int) -> dict[Group, str]:
        return dict.fromkeys(ON_DISK, "disk")

    def _black_out(self) -> None:
        """All hosts at once; and some of the servers, so that they agree on no view between."""
        down = [*self.world.tree.hosts, *(self.servers if self.luck.random() < 0.5 else ())]
        self.luck.shuffle(down)
        for path in down:
            if self.world.processes[self.world.path(path)].node is not None:
                self.world.crash(path)
        self.world.run(self.luck.choice((0.01, 1.0, 10.0)))
        for path in down:
            if self.luck.random() < 0.8:
                self.world.restart(path)
        self.world.run(self.luck.choice((0.01, 5.0)))
        for _ in range(self.luck.choice((1, 3, 6))):
            self._join()

    def _all_leave(self) -> None:
        for program, group in self._members():
            if group in program.orders:
                del self.wanted[program, group]
                program.leave_ordered(group)

    def _clear(self) -> None:
        self._mend()
        self.world.run(3.0)
        for group in ON_DISK:
            for host in self.world.tree.hosts:
                if host.startswith(f"{group.scope}."):
                    self._ask(self.world.program(host, f"q{len(self.world.programs)}"), group)
        super()._clear()
