"""Storms over agreed groups with ``delivery="fifo"``: as in `view_storm.py`, and members speak meanwhile.

Checked besides what is checked there:

    view-first       no message before the view in which it was sent
    fifo-gap-free    each stream in order, each number once, with its sender's content
    blocked          no host emits a new message of a group that is blocked there

and when the storm is over, that the last words of each member reach all others.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rostra.core.effects import Effect, Event
from rostra.core.stack import Stack
from rostra.groups.kinds import DeliveryKind
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.agent import AGREED_AGENT
from rostra.protocols.fifo.events import Cast
from rostra.protocols.flow.messages import Data
from rostra.protocols.relaxed.requests import Done
from rostra.sim.fifo_checkers import fifo_gap_free
from rostra.sim.outcome import StormOutcome
from rostra.sim.programs import SimProgram
from rostra.sim.spoken_checkers import view_first
from rostra.sim.taps import RuleBroken
from rostra.sim.view_storm import RULES, ViewStorm

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal


HEARD_S = 20.0
"""So long after the last words all others must have them."""


class BlockedAreSilent:
    def __init__(self) -> None:
        self.emitted: dict[tuple[Endpoint, Group], int] = {}

    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Cast) and isinstance(effect.message, Data) and not effect.message.repair:
                self._emits(stack, effect.group, effect.message)

    def _emits(self, stack: Stack, group: Group, data: Data) -> None:
        if data.run.end - 1 <= self.emitted.get((data.stream, group), 0):
            return
        self.emitted[data.stream, group] = data.run.end - 1
        agreed = stack.find(AGREED_AGENT)
        known = None if agreed is None else agreed.groups.get(group)
        if known is not None and data.stream in known.members and known.blocked:
            raise RuleBroken(f"blocked: {data.stream} sends in {group}, which is {known.blocked}")


class SpokenStorm(ViewStorm):
    speaks = True
    words: tuple[str, ...] = ("say", "say", "say", "stall", "read")

    def __init__(self, seed: int, *, journal: "SimJournal | None" = None) -> None:
        self.taps = (BlockedAreSilent(),)
        super().__init__(seed, journal=journal)

    def blow_over(self) -> StormOutcome:
        outcome = super().blow_over()
        self._last_words()
        history = self.world.history
        assert history is not None
        for verdict in (view_first(history), fifo_gap_free(history, complete=True)):
            assert not verdict.broken, f"{verdict}: {verdict.where}"
        return outcome

    def _ask(self, program: SimProgram, group: Group) -> None:
        call = program.join_agreed(group, survive=RULES[group], delivery=DeliveryKind.FIFO)
        self.wanted[program, group] = None if call.result == Done() else call

    def _say(self) -> None:
        speaking = [each for each in self._members() if each[1] in each[0].agreed]
        if speaking:
            program, group = self.luck.choice(speaking)
            said = program.conversation(group).said
            program.say(group, *[f"{said + n}".encode() for n in range(self.luck.choice((1, 3, 200)))])

    def _stall(self) -> None:
        """Stop a program from reading; not in groups where one side lives at most, since it would not learn
        that it is blocked."""
        speaking = [each for each in self._members() if each[1] in each[0].agreed and not RULES[each[1]]]
        if speaking:
            program, group = self.luck.choice(speaking)
            program.pause(group)

    def _read(self) -> None:
        for program, group in self._members():
            if group in program.agreed:
                program.resume(group)

    def _clear(self) -> None:
        self._read()
        super()._clear()

    def _last_words(self) -> None:
        inside = [each for each in self._members() if each[1] in each[0].agreed]
        for program, group in inside:
            program.say(group, b"last words")
        self.world.run(HEARD_S)
        for program, group in inside:
            for other, same in inside:
                if same == group and other is not program:
                    said, heard = (
                        program.conversation(group).said,
                        other.conversation(group).last.get(program.address),
                    )
                    assert heard == said, f"fifo-live: {other} has {program} up to {heard} of {said}"
