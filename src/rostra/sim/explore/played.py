"""A run of a model as a story: written by the explorer, replayed by `rostra sim FILE`.

    model    election  crashes=1  plant=unwritten-vote
    up       a b
    ...
    deliver  b c                  # VoteGranted(term=1)
    ----
         7  a leads in term 1
        15  c leads in term 1
        15  VIOLATED: two replicas lead in term 1

Above the line stands one action of the model on each line, below it what came of them, with the number of the
step.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from rostra.errors import BadInput
from rostra.sim.explore import model_named
from rostra.sim.explore.model import Model, Words

VIOLATED = "VIOLATED: "


class Played:
    """A model, and where it stands."""

    def __init__(self, words: Sequence[str]) -> None:
        if not words:
            raise BadInput("which model?", fix="model election")
        name, *settings = words
        bounds = {}
        for setting in settings:
            bound, equals, number = setting.partition("=")
            if not equals:
                raise BadInput(f"{setting!r} sets nothing", fix="a bound and a number:  crashes=1")
            bounds[bound] = number
        plant = bounds.pop("plant", None)
        self._model = model_named(name, bounds, plant)
        self._state = self._model.initial()
        self._step = 0
        self._lines: list[str] = []

    def do(self, words: Words) -> None:
        model, state = self._model, self._state
        possible = {model.words(action): action for action in model.actions(state)}
        action = possible.get(words)
        if action is None:
            fix = "; ".join(sorted(" ".join(each) for each in possible))
            raise BadInput("that cannot happen here", fix=f"what can: {fix}" if fix else "nothing can")
        self._step += 1
        self._lines += [self._line(line) for line in model.told(state, action)]
        self._state = model.apply(state, action)
        self._lines += [self._line(VIOLATED + each) for each in model.violations(self._state)]

    def lines(self) -> list[str]:
        """What was to tell since the last time."""
        lines, self._lines = self._lines, []
        return lines

    def _line(self, text: str) -> str:
        return f"{self._step:6}  {text}"


def story_of(model: Model[Any, Any], path: Sequence[Any]) -> str:
    """A story in which these actions happen, one after the other."""
    settings = [f"{bound}={number}" for bound, number in asdict(model.bounds).items()]
    if model.plant is not None:
        settings.append(f"plant={model.plant}")
    heading = ["model", model.name, *settings]
    state, lines = model.initial(), []
    for action in path:
        verb, *names = model.words(action)
        line, remark = f"{verb:8} {' '.join(names)}".rstrip(), model.remark(state, action)
        lines.append(f"{line:18} # {remark}" if remark else line)
        state = model.apply(state, action)
    played = Played(heading[1:])
    for action in path:
        played.do(model.words(action))
    wrong = "; ".join(model.violations(state)) or "nothing is wrong"
    said = (
        f"# {wrong[0].upper()}{wrong[1:]}: found by `rostra sim explore {model.name}`, in the fewest steps."
    )
    return (
        "\n".join([said, f"{heading[0]:8} {'  '.join(heading[1:])}", *lines, "----", *played.lines()]) + "\n"
    )
