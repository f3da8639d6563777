"""What the explorer wants of a model, and what models share: frozen values, numbers for them, and renaming.

    initial ──▶ state ── actions ──▶ apply ──▶ state ...        each state: key, violations

A state is a hashable value that holds everything: the cores, the messages under way, what is left of the
budget of faults, and whatever history the invariants need. Time is not part of it: a timer that is set may
fire at any moment, which includes every moment at which it really could.

Models run the shipped cores. A core that keeps its state in one frozen value is its own image; of an older
one `image` takes a frozen copy and `restore` makes the core again.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct

State = TypeVar("State", bound=Hashable)

Action = TypeVar("Action", bound=Hashable)

Words = tuple[str, ...]
"""One action, as a line of a story: a verb, then names."""


class SearchBounds(Struct, frozen=True, kw_only=True):
    """How often each thing may happen in one run, in all. Fields are whole numbers."""


class Model(Protocol[State, Action]):
    """A small world to explore: everything that can happen in it, and what must hold all the while."""

    name: ClassVar[str]
    about: ClassVar[str]  # in a line
    plants: ClassVar[Mapping[str, str]]  # bugs that can be planted, to see that they are found
    bounds: SearchBounds
    plant: str | None

    def initial(self) -> State: ...

    def actions(self, state: State) -> Sequence[Action]:
        """What can happen next, always in the same order."""

    def apply(self, state: State, action: Action) -> State: ...

    def canonical(self, state: State) -> State:
        """The same for states that differ in nothing but the names of equal nodes; one of them."""

    def violations(self, state: State) -> Sequence[str]: ...

    def words(self, action: Action) -> Words: ...

    def remark(self, state: State, action: Action) -> str:
        """For the reader of a story: what exactly is about to happen. May be empty."""

    def told(self, state: State, action: Action) -> Sequence[str]:
        """For the trace of a story: what comes of it. May be empty."""


class Numbers:
    """Gives every distinct value a number, so that states are tuples of small integers, cheap to keep and to
    compare, and whatever is computed of a value is computed once."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._values: list[Any] = []

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, number: int) -> Any:
        return self._values[number]

    def of(self, value: Hashable) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self._values)
            self._values.append(value)
        return number


class StateImage(NamedTuple):
    """A frozen copy of something that changes."""

    kind: type
    parts: tuple[Any, ...] | frozenset[Any]


def image(thing: Any, besides: Iterable[str] = ()) -> Any:
    """A frozen copy; of an object, all of its attributes but those named in `besides`, which never change.

    The order of a dictionary is not kept: no core may act on it.
    """
    match thing:
        case None | bool() | int() | float() | str() | bytes() | type() | FunctionType():
            return thing
        case tuple():
            return tuple([image(each) for each in thing])
        case frozenset():
            return thing
        case set():
            return StateImage(set, frozenset(thing))
        case dict():
            return StateImage(dict, frozenset([(key, image(each)) for key, each in thing.items()]))
        case list() | deque():
            return StateImage(type(thing), tuple([image(each) for each in thing]))
        case Struct() if thing.__struct_config__.frozen:
            return thing
    names = [name for name in _attributes(thing) if name not in besides]
    return StateImage(type(thing), tuple([(name, image(getattr(thing, name))) for name in names]))


def restore(copy: Any, like: Any = None) -> Any:
    """What `image` took a copy of. What was left out is taken over from `like`."""
    match copy:
        case StateImage(kind, parts) if kind in (set, list, deque):
            return kind(restore(each) for each in parts)
        case StateImage(kind, parts) if kind is dict:
            return {key: restore(each) for key, each in sorted(parts)}
        case StateImage(kind, parts):
            made: Any = object.__new__(kind)
            if like is not None:
                for name in _attributes(like):
                    setattr(made, name, getattr(like, name))
            for name, each in parts:
                setattr(made, name, restore(each))
            return made
        case tuple():
            return tuple([restore(each) for each in copy])
    return copy


def _attributes(thing: Any) -> list[str]:
    if isinstance(thing, Struct):
        return list(thing.__struct_fields__)
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return sorted({*slots, *getattr(thing, "__dict__", ())})


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """The same value with other names in it, wherever they stand."""
    match value:
        case str():
            return names.get(value, value)
        case StateImage(kind, parts):
            return StateImage(kind, renamed(parts, names))
        case tuple():
            return tuple([renamed(each, names) for each in value])
        case frozenset():
            return frozenset([renamed(each, names) for each in value])
        case Struct():
            kept = {name: renamed(getattr(value, name), names) for name in value.__struct_fields__}
            return msgspec.structs.replace(value, **kept)
    return value


def shown(value: Any) -> str:
    """A message or an event, for readers."""
    if not isinstance(value, Struct):
        return repr(value)
    fields = [f"{name}={shown(getattr(value, name))}" for name in value.__struct_fields__]
    return f"{type(value).__name__}({', '.join(fields)})"
