"""Storms over agreed groups with ``delivery="atomic"``: as in `view_storm.py`, and members speak meanwhile.

Checked besides what is checked there, at every item that a program is given: `total-order`, `all-or-none` and
`integrity` (`orders.py`). When the storm is over, that the last words of each member reach all others.
"""

from typing import TYPE_CHECKING, ClassVar, Final

from rostra.impair.quality import LineQuality, Uniform
from rostra.names import Domain, Group
from rostra.observe.trace import ProgramGiven
from rostra.protocols.agreed.requests import MemberView
from rostra.protocols.atomic.requests import OrderClosed
from rostra.protocols.relaxed.requests import Done
from rostra.sim.orders import OrderJudge
from rostra.sim.outcome import StormOutcome
from rostra.sim.programs import SimProgram
from rostra.sim.view_storm import CHESS, LEDGER, LOCAL, RULES, WORLD, ViewStorm

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

STABLE: Final = {CHESS: "all", LEDGER: "all", LOCAL: "all", WORLD: "all"}
MAJORITY: Final = {**STABLE, LEDGER: "majority", LOCAL: "majority"}
SENT: Final = dict.fromkeys(STABLE, "sent")

HEARD_S: Final = 30.0
"""So long after the last words all others must have them."""


class OrderStorm(ViewStorm):
    speaks: ClassVar = True
    words: tuple[str, ...] = ("say", "say", "say", "say", "stall", "read", "lose", "lossless")
    word = "order"
    gapless: ClassVar = False  # agreed views that come while one gets its place are skipped
    exclusive: ClassVar = frozenset([group for group, rule in RULES.items() if rule])

    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        self.orders = self._choose_orders(seed)
        negotiated = frozenset([group for group, order in self.orders.items() if order == "negotiated"])
        self.stable = {
            group: "all" if group in negotiated and each == "majority" else each
            for group, each in self._choose_stable(seed).items()
        }
        on_disk = frozenset([group for group, stable in self.stable.items() if stable == "disk"])
        sent = frozenset([group for group, stable in self.stable.items() if stable == "sent"])
        self.exodus = seed % 10 == 2  # who leaves does not leave alone
        self.judge = OrderJudge(tails=negotiated, on_disk=on_disk, sent=sent)
        super().__init__(seed, journal=journal)

    def _choose_orders(self, seed: int) -> dict[Group, str]:
        return dict.fromkeys(RULES, "negotiated" if seed % 5 == 4 else "hub")

    def _choose_stable(self, seed: int) -> dict[Group, str]:
        if seed % 12 == 9:
            return SENT
        return STABLE if seed % 2 else MAJORITY  # where one side lives at most

    def blow_over(self) -> StormOutcome:
        outcome = super().blow_over()
        self._last_words()
        living = [
            (program.address, program.orders[group])
            for program, group in self._members()
            if group in program.orders
        ]
        self.judge.end(self.exclusive, living)
        return outcome

    def _ask(self, program: SimProgram, group: Group) -> None:
        call = program.join_ordered(
            group, survive=RULES[group], order=self.orders[group], stable=self.stable[group]
        )
        self.wanted[program, group] = None if call.result == Done() else call

    def _say(self) -> None:
        speaking = [each for each in self._members() if each[1] in each[0].orders]
        if speaking:
            program, group = self.luck.choice(speaking)
            self._says(program, group, self.luck.choice((1, 3, 40)), self.luck.choice((10, 10, 3_000)))

    def _says(self, program: SimProgram, group: Group, count: int, size: int) -> None:
        order = program.orders[group]
        if order.view is None or program.agreed[group].blocked:
            return
        bodies = [f"{program} {order.said + n}".encode().ljust(size) for n in range(count)]
        for nth, body in enumerate(bodies, order.said + 1):
            self.judge.says(group, program.address, nth, body)
        program.say_in_order(group, *bodies)

    def _stall(self) -> None:
        """Stop a program from reading; not in groups where one side lives at most, since it would not learn
        that it is blocked."""
        speaking = [each for each in self._members() if each[1] in each[0].orders and not RULES[each[1]]]
        if speaking:
            program, group = self.luck.choice(speaking)
            program.read_in_order(group, more=False)

    def _read(self) -> None:
        for program, group in self._members():
            if group in program.orders:
                program.read_in_order(group, more=True)

    def _lose(self) -> None:
        bad = LineQuality(Uniform(0.0001, 0.003), loss=self.luck.choice((0.02, 0.2)), duplicate=0.02)
        self.world.make("", bad, "data")

    def _lossless(self) -> None:
        self.world.make("", LineQuality(Uniform(0.0001, 0.001)), "data")

    def _clear(self) -> None:
        self._read()
        self._lossless()
        super()._clear()

    def _leave(self) -> None:
        if members := self._members():
            program, group = self.luck.choice(members)
            if group in program.orders:
                for each in self._most_of(group) if self.exodus else (program,):
                    del self.wanted[each, group]
                    each.leave_ordered(group)

    def _most_of(self, group: Group) -> list[SimProgram]:
        """More than half of its members, of whom one has just been heard by a majority, perhaps."""
        inside = [each for each, name in self._members() if name == group and group in each.orders]
        those = self.luck.sample(inside, len(inside) // 2 + 1)
        self._says(those[0], group, 3, 10)
        self.world.run(self.luck.uniform(0, 0.01))
        return [each for each in those if (each, group) in self.wanted and group in each.orders]

    def _given(self, at: float, host: Domain, given: ProgramGiven) -> None:
        program, group, item = given.program, given.group, given.item
        assert isinstance(program, SimProgram)
        if isinstance(item, OrderClosed):
            self.wanted.pop((program, group), None)
            return
        super()._given(at, host, given)
        if (order := program.orders.get(group)) is not None:
            self.judge.given(program.address, order, item)
        assert not isinstance(item, MemberView) or program.address not in item.failed, (
            f"same-view: {program} is in view {item.number} of {group}, and has failed in it"
        )

    def _last_words(self) -> None:
        inside = [each for each in self._members() if each[1] in each[0].orders]
        for program, group in inside:
            self._says(program, group, 1, 10)
        self.world.run(HEARD_S)
        for program, group in inside:
            for other, same in inside:
                if same == group and group in other.orders and group in program.orders:
                    said = program.orders[group].said
                    heard = other.orders[group].last.get(program.address)
                    assert heard == said, f"order-live: {other} has {program} up to {heard} of {said}"
