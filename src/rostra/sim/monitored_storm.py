"""Storms over groups with a monitor of their own: relaxed and led membership with ``delivery="atomic"``.

As in `order_storm.py`; here a majority of the last view's hosts goes on in every group. Checked besides, at
every view: `one-line`, that no two living members of a group are in orders that were founded separately.
"""

from typing import TYPE_CHECKING, Final

from rostra.groups.kinds import MembershipKind
from rostra.names import Domain, Group
from rostra.observe.trace import ProgramGiven
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.requests import OrderClosed
from rostra.protocols.relaxed.requests import Done
from rostra.sim.order_storm import MAJORITY, STABLE, OrderStorm
from rostra.sim.programs import SimProgram
from rostra.sim.view_storm import CHESS, LEDGER, LOCAL, RULES, WORLD

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

MEMBERSHIPS: Final = {
    CHESS: MembershipKind.RELAXED,
    LEDGER: MembershipKind.LED,
    LOCAL: MembershipKind.RELAXED,
    WORLD: MembershipKind.LED,
}


class MonitoredStorm(OrderStorm):
    word = "monitored"
    exclusive = frozenset(RULES)

    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        super().__init__(seed, journal=journal)
        self.unread: set[tuple[SimProgram, Group]] = set()  # these do not read, and know nothing new

    def _choose_orders(self, seed: int) -> dict[Group, str]:
        return dict.fromkeys(RULES, "negotiated")

    def _choose_stable(self, seed: int) -> dict[Group, str]:
        return STABLE if seed % 2 else MAJORITY

    def _ask(self, program: SimProgram, group: Group) -> None:
        call = program.join_ordered(group, membership=MEMBERSHIPS[group], stable="all")
        self.wanted[program, group] = None if call.result == Done() else call

    def _stall(self) -> None:
        speaking = [each for each in self._members() if each[1] in each[0].orders]
        if speaking:
            program, group = self.luck.choice(speaking)
            self.unread.add((program, group))
            program.read_in_order(group, more=False)

    def _read(self) -> None:
        super()._read()
        self.unread.clear()

    def _given(self, at: float, host: Domain, given: ProgramGiven) -> None:
        super()._given(at, host, given)
        program, group, item = given.program, given.group, given.item
        assert isinstance(program, SimProgram)
        if isinstance(item, MemberView):
            self._one_line(program, group, item.pid)
        elif isinstance(item, OrderClosed):
            self.unread.discard((program, group))

    def _one_line(self, program: SimProgram, group: Group, line: str) -> None:
        for other in self.world.programs:
            theirs = other.agreed.get(group)
            if theirs is None or theirs.view is None or theirs.blocked or (other, group) in self.unread:
                continue
            if other.alive and not self._stands_still(other.host) and theirs.view.pid != line:
                raise AssertionError(
                    f"one-line: {program} is in {line} of {group}, and {other} in {theirs.view.pid}"
                )
