"""Was there one order of these operations that explains every answer? Two checkers, in Jepsen's way.

    programs ── asked, answered, in doubt ──▶ history ─┬─▶ `witnessed`  with positions: linear time
                                                       └─▶ `blind`      without: some order is looked for

`witnessed` is told the order (the position at which each command was delivered) and checks that it is one:
real time is kept (what was answered before another was asked has the smaller position), a replay gives the
same answers, what failed is not in it. `blind` is for what clients see alone: it searches all orders, key by
key, as Wing and Gong do ("Testing and verifying concurrent objects", 1993), and remembers which sets of
operations led to which state (Lowe, "Testing for linearizability", 2017). Its time is exponential at worst,
so it takes a budget and may say that it cannot tell.

An operation that is in doubt (`done` is None) took effect once or never, at any time after it was asked. One
that failed took none.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

STEPS_MAX: Final = 2_000_000
"""Steps of a search after which `blind` gives up on a key: some seconds."""


class Operation(Struct, frozen=True, repr_omit_defaults=True):
    """One operation of one program on one key: what it asked, when, and what it was answered."""

    process: str
    key: str
    what: str
    given: Any = None
    got: Any = None
    asked: float = 0.0
    done: float | None = None  # None: in doubt
    position: int | None = None  # in the one order, where that is known
    failed: bool = False  # it was answered that nothing was done

    def __str__(self) -> str:
        end = "failed" if self.failed else "in doubt" if self.done is None else f"{self.done:.3f}"
        place = "" if self.position is None else f" at {self.position}"
        asked = f"{self.process}: {self.what} {self.key} {self.given!r} -> {self.got!r}"
        return f"{asked} [{self.asked:.3f}, {end}]{place}"


class Finding(Struct, frozen=True):
    """`ok` is None if the checker cannot tell. `why` names the first operation that broke the rule."""

    ok: bool | None
    why: str = ""
    operation: Operation | None = None

    def __bool__(self) -> bool:
        return self.ok is True


FINE: Final = Finding(True)

IMPOSSIBLE: Final = object()
"""An object cannot have given this answer in this state."""

Behaviour = Callable[[Any, Operation], Any]
"""(state, operation) -> the state after it, or `IMPOSSIBLE`. States are hashable; the first is None."""


def _fits(operation: Operation, answer: object) -> bool:
    return operation.done is None or operation.got == answer


def register(state: Any, operation: Operation) -> Any:
    """``write`` a value, ``read`` it, ``swap`` (old, new) if it is the old one."""
    match operation.what:
        case "write":
            return operation.given
        case "read":
            return state if _fits(operation, state) else IMPOSSIBLE
        case "swap":
            old, new = operation.given
            if operation.done is None:
                return new if state == old else state
            return IMPOSSIBLE if operation.got != (state == old) else new if state == old else state
    raise AssertionError(operation.what)


def counter(state: Any, operation: Operation) -> Any:
    """``add`` gives the sum after it, ``read`` gives the sum."""
    total = (state or 0) + (operation.given if operation.what == "add" else 0)
    return total if _fits(operation, total) else IMPOSSIBLE


def queue(state: Any, operation: Operation) -> Any:
    """``put`` at the end, ``take`` from the front; None if it is empty."""
    waiting: tuple[Any, ...] = state or ()
    if operation.what == "put":
        return (*waiting, operation.given)
    first = waiting[0] if waiting else None
    return waiting[1:] if _fits(operation, first) else IMPOSSIBLE


def lock(state: Any, operation: Operation) -> Any:
    """``take`` gives a fence, larger than every one before; ``free`` by the holder. One holder at a time.

    A ``take`` in doubt may have been granted, with a fence that nobody knows."""
    holder, fence = state or (None, 0)
    if operation.what == "free":
        return (None, fence) if holder == operation.process else IMPOSSIBLE
    if holder is not None:
        return IMPOSSIBLE
    if operation.done is None:
        return (operation.process, fence)
    return (operation.process, operation.got) if operation.got > fence else IMPOSSIBLE


def witnessed(history: Iterable[Operation], model: Behaviour) -> Finding:
    """Is the order of their positions one that explains every answer, and keeps real time?"""
    placed: dict[int, Operation] = {}
    for each in history:
        if each.position is None:
            if each.done is not None and not each.failed:
                return Finding(False, "it was answered and has no position", each)
            continue
        if each.failed:
            return Finding(False, "it failed, and has a position all the same", each)
        if each.position in placed:
            return Finding(False, f"two operations at position {each.position}", each)
        placed[each.position] = each
    order = [placed[position] for position in sorted(placed)]
    late = _real_time(order)
    return _replayed(order, model) if late is None else late


def _real_time(order: Sequence[Operation]) -> Finding | None:
    first_done, before = float("inf"), None
    for each in reversed(order):
        if first_done < each.asked:
            return Finding(False, f"ordered before one that was answered before it was asked: {before}", each)
        if each.done is not None and each.done < first_done:
            first_done, before = each.done, each
    return None


def _replayed(order: Sequence[Operation], model: Behaviour) -> Finding:
    states: dict[str, Any] = {}
    for each in order:
        state = model(states.get(each.key), each)
        if state is IMPOSSIBLE:
            return Finding(False, f"not the answer of a replay, where it was {states.get(each.key)!r}", each)
        states[each.key] = state
    return FINE


def one_order(logs: Mapping[str, Iterable[tuple[int, Hashable]]]) -> Finding:
    """Did all replicas apply the same at each position, forwards?"""
    known: dict[int, tuple[str, Hashable]] = {}
    for replica, log in logs.items():
        last = 0
        for position, what in log:
            if position <= last:
                return Finding(False, f"{replica} applied position {position} after {last}")
            last = position
            other, before = known.setdefault(position, (replica, what))
            if before != what:
                return Finding(False, f"at {position} {other} applied {before!r} and {replica} {what!r}")
    return FINE


def blind(history: Iterable[Operation], model: Behaviour, *, steps_max: int = STEPS_MAX) -> Finding:
    """Is there any order that explains every answer, and keeps real time? Key by key."""
    by_key: defaultdict[str, list[Operation]] = defaultdict(list)
    for each in history:
        if not each.failed:
            by_key[each.key].append(each)
    verdict = FINE
    for operations in by_key.values():
        found = _search(operations, model, steps_max)
        if found.ok is False:
            return found
        if found.ok is None:
            verdict = found
    return verdict


_HEAD: Final = -1


class _Line:
    """Calls and returns in order of time, as a linked list: what was linearized is lifted out, and put back.

    A call in doubt has no return: it may stay in the list for ever."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        moments = sorted(
            [(each.asked, 0, n) for n, each in enumerate(operations)]
            + [(each.done, 1, n) for n, each in enumerate(operations) if each.done is not None]
        )
        self.which = [n for _, _, n in moments]
        self.is_call = [kind == 0 for _, kind, _ in moments]
        self.end = len(moments)
        self.after: list[int] = [*range(1, self.end + 1), 0]  # the last is that of the head
        self.before: list[int] = [*range(-1, self.end)]  # the last is that of the end
        self.returns = {n: at for at, n in enumerate(self.which) if not self.is_call[at]}

    def first(self) -> int:
        return self.after[_HEAD]

    def lift(self, at: int) -> None:
        self._unlink(at)
        if (back := self.returns.get(self.which[at])) is not None:
            self._unlink(back)

    def put_back(self, at: int) -> None:
        if (back := self.returns.get(self.which[at])) is not None:
            self._link(back)
        self._link(at)

    def _unlink(self, at: int) -> None:
        self.after[self.before[at]] = self.after[at]
        self.before[self.after[at]] = self.before[at]

    def _link(self, at: int) -> None:
        self.after[self.before[at]] = at
        self.before[self.after[at]] = at


def _search(operations: Sequence[Operation], model: Behaviour, steps_max: int) -> Finding:
    line = _Line(operations)
    left = len(line.returns)
    state: Any = None
    done = 0  # the operations that were linearized, as bits
    seen: set[tuple[int, Any]] = set()
    path: list[tuple[int, Any]] = []
    at, deepest, stuck = line.first(), -1, None
    for _ in range(steps_max):
        if left == 0:
            return FINE
        if at < line.end and line.is_call[at]:
            which = line.which[at]
            then = model(state, operations[which])
            bits = done | 1 << which
            if then is not IMPOSSIBLE and (bits, then) not in seen:
                seen.add((bits, then))
                path.append((at, state))
                line.lift(at)
                left -= which in line.returns
                state, done, at = then, bits, line.first()
            else:
                at = line.after[at]
            continue
        # It returned, and was not linearized: what was chosen before it was wrong.
        if len(path) > deepest:
            deepest, stuck = len(path), at if at < line.end else None
        if not path:
            culprit = None if stuck is None else operations[line.which[stuck]]
            return Finding(False, f"no order explains it; at most {deepest} operations fit", culprit)
        at, state = path.pop()
        line.put_back(at)
        which = line.which[at]
        left += which in line.returns
        done &= ~(1 << which)
        at = line.after[at]
    return Finding(None, f"not decided in {steps_max} steps, {len(operations)} operations of one key")
