"""Storms with all kinds of groups in one world: what befalls one kind must not break another.

    club    relaxed           radio   relaxed, fifo        crew   led
    team    agreed            choir   agreed, fifo
    chess, all   agreed, atomic, hub              ledger, local   agreed, atomic, negotiated

Checked as in `order_storm.py`; and besides, that streams of `radio` and `choir` have no gaps, and that when
the storm is over the members of `club` know each other, and only each other, and those of `radio` hear each
other.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rostra.groups.kinds import DeliveryKind
from rostra.names import Domain, Group
from rostra.protocols.relaxed.requests import Done
from rostra.sim.fifo_checkers import fifo_gap_free
from rostra.sim.order_storm import HEARD_S, MAJORITY, STABLE, OrderStorm
from rostra.sim.outcome import StormOutcome
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.site_faults import refused
from rostra.sim.view_storm import CHESS, LEDGER, LOCAL, RULES, WORLD

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

EU: Final = Domain("eu")
CLUB, RADIO, CREW = Group("club", EU), Group("radio", EU), Group("crew", EU)
TEAM, CHOIR = Group("team", EU), Group("choir", EU)
LOOSE: Final = (CLUB, RADIO, CREW)
ALL_ORDERS: Final = {CHESS: "hub", WORLD: "hub", LEDGER: "negotiated", LOCAL: "negotiated"}

KNOWN_S: Final = 60.0
"""So long after all agreed groups are at rest the others must be as well."""


class StrongStorm(OrderStorm):
    rules: Mapping[Group, str] = {**RULES, TEAM: "", CHOIR: ""}
    joined: tuple[Group, ...] = (CHESS, LEDGER, LOCAL, WORLD, TEAM, CHOIR, CLUB, RADIO, CREW)
    word = "strong"

    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        super().__init__(seed, journal=journal)
        self.loose: dict[tuple[SimProgram, Group], SimCall] = {}

    def _choose_orders(self, seed: int) -> dict[Group, str]:
        return dict(ALL_ORDERS)

    def _choose_stable(self, seed: int) -> dict[Group, str]:
        return STABLE if seed % 2 else MAJORITY

    def blow_over(self) -> StormOutcome:
        outcome = super().blow_over()
        self._all_known()
        self._all_heard()
        assert self.world.history is not None
        verdict = fifo_gap_free(self.world.history, complete=True)
        assert not verdict.broken, f"{verdict}: {verdict.where}"
        return outcome

    def _ask(self, program: SimProgram, group: Group) -> None:
        if group in LOOSE:
            self.loose[program, group] = (
                program.join(CLUB)
                if group == CLUB
                else program.join_fifo(RADIO)
                if group == RADIO
                else program.join_led(CREW)
            )
        elif group in RULES:
            super()._ask(program, group)
        else:
            delivery = DeliveryKind.FIFO if group == CHOIR else DeliveryKind.NONE
            call = program.join_agreed(group, delivery=delivery)
            self.wanted[program, group] = None if call.result == Done() else call

    def _inside(self, group: Group) -> list[SimProgram]:
        """The members of a group that has no agreed views."""
        calls = [(each, call) for (each, at), call in self.loose.items() if at == group and each.alive]
        return [each for each, call in calls if call.result == Done()]

    def _say(self) -> None:
        super()._say()
        choir = [each for each, group in self._members() if group == CHOIR and group in each.agreed]
        for group, members in ((RADIO, self._inside(RADIO)), (CHOIR, choir)):
            if members:
                program = self.luck.choice(members)
                said = program.conversation(group).said
                program.say(group, *[f"{said + n}".encode() for n in range(self.luck.choice((1, 3, 50)))])

    def _leave(self) -> None:
        group = self.luck.choice(self.joined)
        if group in (CLUB, RADIO) and (members := self._inside(group)):
            program = self.luck.choice(members)
            del self.loose[program, group]
            program.leave(group)
        elif group == TEAM:
            members = [each for each, at in self._members() if at == TEAM and TEAM in each.agreed]
            if members:
                program = self.luck.choice(members)
                del self.wanted[program, TEAM]
                program.leave_agreed(TEAM)
        else:
            super()._leave()

    def _all_known(self) -> None:
        until = self.world.now + KNOWN_S
        while self._unknown() and self.world.now < until:
            for program, group in refused(self.loose):
                self._ask(program, group)
            self.world.run(3.0)
        assert not (wrong := self._unknown()), wrong

    def _unknown(self) -> str:
        asked = [(each, group) for (each, group), call in self.loose.items() if each.alive]
        for program, group in asked:
            if self.loose[program, group].result != Done():
                return f"strong: {program} waits to be in {group}"
        inside = self._inside(CLUB)
        addresses = {program.address for program in inside}
        for program in inside:
            if set(program.members(CLUB)) != addresses:
                known = sorted(program.members(CLUB))
                return f"strong: {CLUB} is {known} at {program}, not {sorted(addresses)}"
        return ""

    def _all_heard(self) -> None:
        inside = self._inside(RADIO)
        for program in inside:
            program.say(RADIO, b"last words")
        self.world.run(HEARD_S)
        for program in inside:
            said = program.conversation(RADIO).said
            for other in inside:
                heard = other.conversation(RADIO).last.get(program.address)
                assert other is program or heard == said, (
                    f"strong: {other} has {program} to {heard} of {said}"
                )
