"""Breadth first through all states of a model: the first violation found is one that needs the fewest steps.

A state that was seen is remembered by 64 bits of a digest of its canonical form, and by how it was reached
for the first time: which state it came from, and by which of that one's actions. Everything else is computed
again when a violation is reported.
"""

from array import array
from collections.abc import Callable
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from msgspec import Struct, msgpack

from rostra.sim.explore.model import Model

TELL_EVERY = 1_000
"""States between two signs of progress."""

_encode = msgpack.Encoder().encode


class SearchProgress(Struct):
    """How far a search is, and how it ended."""

    states: int = 0
    transitions: int = 0
    depth: int = 0  # steps from the beginning
    waiting: int = 0  # states found whose actions were not tried yet
    exhausted: bool = False
    violations: tuple[str, ...] = ()
    path: tuple[Any, ...] = ()  # the actions that lead to them

    @property
    def mistaken(self) -> float:
        """How likely it is at most that two different states were taken for one."""
        return min(1.0, self.states * self.states / 2.0**65)


def explore(
    model: Model[Any, Any],
    *,
    states_max: int | None = None,
    tell: Callable[[SearchProgress], None] = lambda progress: None,
) -> SearchProgress:
    """All states, or until a violation, `states_max`, or Ctrl-C."""
    progress = SearchProgress()
    with suppress(KeyboardInterrupt):
        _search(model, states_max, progress, tell)
    return progress


def _search(
    model: Model[Any, Any],
    states_max: int | None,
    progress: SearchProgress,
    tell: Callable[[SearchProgress], None],
) -> None:
    first = model.canonical(model.initial())
    seen = {_digest(first)}
    came_from, by = array("I", [0]), array("H", [0])
    level, level_begins = [first], 0
    progress.states = 1
    while level:
        following: list[Any] = []
        raw: set[Any] = set()  # most states are found again at once, by two actions in the other order
        for number, state in enumerate(level, level_begins):
            for place, action in enumerate(model.actions(state)):
                progress.transitions += 1
                after = model.apply(state, action)
                if after in raw:
                    continue
                raw.add(after)
                after = model.canonical(after)
                digest = _digest(after)
                if digest in seen:
                    continue
                seen.add(digest)
                came_from.append(number)
                by.append(place)
                progress.states += 1
                if model.violations(after):
                    progress.path, progress.violations = _path(model, came_from, by)
                    progress.depth += 1
                    return
                following.append(after)
            if number % TELL_EVERY == 0:
                progress.waiting = len(level) - (number - level_begins) + len(following)
                tell(progress)
                if states_max is not None and progress.states >= states_max:
                    return
        level_begins += len(level)
        level = following
        progress.waiting = len(level)
        progress.depth += bool(level)
    progress.exhausted = True


def _digest(state: Any) -> bytes:
    return blake2b(_encode(state), digest_size=8).digest()


def _path(
    model: Model[Any, Any], came_from: "array[int]", by: "array[int]"
) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """How the last state, with its violation, was reached. The search went through canonical states, in which
    equal nodes may have changed names at every step; here they keep them."""
    places = []
    number = len(by) - 1
    while number:
        places.append(by[number])
        number = came_from[number]
    canonical = model.canonical(model.initial())
    state, path = model.initial(), []
    for left, place in zip(reversed(range(len(places))), reversed(places), strict=True):
        canonical = model.canonical(model.apply(canonical, model.actions(canonical)[place]))
        for action in model.actions(state):
            after = model.apply(state, action)
            # A violation is reported with names, which canonical states do not keep.
            if model.canonical(after) == canonical if left else model.violations(after):
                path.append(action)
                state = after
                break
        else:
            raise AssertionError(f"{model.name}: a canonical state can do what the state itself cannot")
    return tuple(path), tuple(model.violations(state))
