"""The checkers of histories: against a brute force, against each other, and with planted faults."""

from itertools import permutations
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from rostra.testing.histories import (
    IMPOSSIBLE,
    Behaviour,
    Operation,
    blind,
    counter,
    lock,
    one_order,
    queue,
    register,
    witnessed,
)

MODELS: dict[str, Behaviour] = {"register": register, "counter": counter, "queue": queue, "lock": lock}


def brute_force(history: list[Operation], model: Behaviour) -> bool:
    """All orders of all choices of what is in doubt."""
    sure = [each for each in history if each.done is not None]
    doubtful = [each for each in history if each.done is None]
    for chosen in range(1 << len(doubtful)):
        some = sure + [each for n, each in enumerate(doubtful) if chosen >> n & 1]
        if any(_explains(order, model) for order in permutations(some)):
            return True
    return False


def _explains(order: tuple[Operation, ...], model: Behaviour) -> bool:
    state: Any = None
    for n, each in enumerate(order):
        if any(later.done is not None and later.done < each.asked for later in order[n + 1 :]):
            return False
        state = model(state, each)
        if state is IMPOSSIBLE:
            return False
    return True


def wanted(name: str, luck: Random) -> tuple[str, Any, Any]:
    """An operation, and an answer that may be wrong."""
    small = luck.randrange(3)
    match name:
        case "register":
            return luck.choice(
                [
                    ("write", small, None),
                    ("read", None, small),
                    ("swap", (small, luck.randrange(3)), luck.random() < 0.5),
                ]
            )
        case "counter":
            return luck.choice([("add", 1, small + 1), ("read", None, small)])
        case "queue":
            return luck.choice([("put", small, None), ("take", None, luck.choice([None, small]))])
        case _:
            return luck.choice([("take", None, small + 1), ("free", None, None)])


@st.composite
def histories(draw: st.DrawFn) -> tuple[Behaviour, list[Operation]]:
    name = draw(st.sampled_from(sorted(MODELS)))
    luck = Random(draw(st.integers(0, 2**32)))
    history = []
    for _ in range(draw(st.integers(1, 5))):
        what, given_, got = wanted(name, luck)
        asked = luck.randrange(6)
        done = None if luck.random() < 0.2 else asked + luck.randrange(1, 4)
        process = f"p{luck.randrange(2)}"
        history.append(Operation(process, "k", what, given_, got, float(asked), done))
    return MODELS[name], history


@given(histories())
@settings(max_examples=400, deadline=None)
def test_the_blind_checker_says_what_all_orders_together_say(
    drawn: tuple[Behaviour, list[Operation]],
) -> None:
    model, history = drawn

    assert blind(history, model).ok is brute_force(history, model)


def executed(name: str, seed: int, count: int) -> list[Operation]:
    """What programs see of one object, whose operations take effect at once, somewhere while they wait."""
    luck, model = Random(seed), MODELS[name]
    states: dict[str, Any] = {}
    history = []
    free_at = [0.0] * 3
    ops = []
    for _ in range(count):
        who = luck.randrange(3)
        asked = free_at[who] + luck.random()
        effect = asked + luck.random()
        free_at[who] = effect + luck.random()
        ops.append((effect, asked, free_at[who], f"p{who}"))
    for position, (_, asked, done, process) in enumerate(sorted(ops), 1):
        key = f"k{luck.randrange(2)}"
        what, given_, _ = wanted(name, luck)
        for got in (None, True, False, *range(count)):
            each = Operation(process, key, what, given_, got, asked, done, position)
            after = model(states.get(key), each)
            if after is not IMPOSSIBLE:
                break
        else:
            continue  # a lock that another holds: it would wait
        states[key] = after
        history.append(replace(each, done=None) if luck.random() < 0.1 else each)
    return history


@given(st.sampled_from(["register", "counter", "queue"]), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_an_object_that_takes_effect_at_once_satisfies_both(name: str, seed: int) -> None:
    history = executed(name, seed, 40)

    assert witnessed(history, MODELS[name])
    assert blind([replace(each, position=None) for each in history], MODELS[name])


@given(st.sampled_from(["register", "counter", "queue"]), st.integers(0, 2**32), st.data())
@settings(max_examples=60, deadline=None)
def test_what_the_witnessed_checker_passes_the_blind_one_does_not_refuse(
    name: str, seed: int, data: st.DataObject
) -> None:
    """A wrong answer or place is put somewhere: positions are one order among those that are searched."""
    history = executed(name, seed, 12)
    at = data.draw(st.integers(0, len(history) - 1))
    got = data.draw(st.sampled_from([None, 0, 1, 2, True]))
    history[at] = replace(history[at], got=got)

    assert not witnessed(history, MODELS[name]) or blind(history, MODELS[name])


def test_a_stale_read_is_found_by_both() -> None:
    history = [
        Operation("a", "x", "write", 1, None, 0.0, 1.0, 1),
        Operation("a", "x", "write", 2, None, 2.0, 3.0, 2),
        Operation("b", "x", "read", None, 1, 4.0, 5.0, 3),
    ]

    assert witnessed(history, register).operation == history[2]
    assert blind(history, register).operation == history[2]


def test_a_position_against_real_time_is_found_though_the_answers_fit() -> None:
    history = [
        Operation("a", "x", "write", 1, None, 0.0, 1.0, 2),
        Operation("b", "x", "write", 1, None, 2.0, 3.0, 1),
    ]

    found = witnessed(history, register)

    assert found.operation == history[1] and "before it was asked" in found.why
    assert blind(history, register)  # nobody can see it from outside


def test_failed_has_no_position_and_answered_has_one() -> None:
    failed = Operation("a", "x", "write", 1, None, 0.0, 1.0, 7, failed=True)
    lost = Operation("a", "x", "write", 1, None, 0.0, 1.0)

    assert "failed" in witnessed([failed], register).why
    assert "no position" in witnessed([lost], register).why
    assert "two operations" in witnessed([replace(lost, position=3)] * 2, register).why


def test_two_holders_of_a_lock_and_a_fence_that_does_not_grow_are_found() -> None:
    first = Operation("a", "lock", "take", None, 5, 0.0, 1.0)
    second = Operation("b", "lock", "take", None, 6, 2.0, 3.0)
    between = Operation("a", "lock", "free", None, None, 1.5, 1.9)

    assert not blind([first, second], lock)
    assert blind([first, between, second], lock)
    assert blind([first, replace(between, done=None), second], lock)  # it crashed: free since then, or later
    assert not blind([first, between, replace(second, got=5)], lock)


def test_replicas_that_apply_otherwise_or_backwards_are_named() -> None:
    assert one_order({"a": [(1, "x"), (2, "y"), (3, "z")], "b": [(2, "y"), (3, "z")]})
    assert "at 2 a applied 'y' and b 'z'" in one_order({"a": [(1, "x"), (2, "y")], "b": [(2, "z")]}).why
    assert "after 2" in one_order({"a": [(2, "x"), (1, "y")]}).why


def test_a_search_without_an_end_says_that_it_cannot_tell() -> None:
    writes = [Operation(f"p{n}", "x", "write", n, None, 0.0, 1.0) for n in range(12)]
    never = Operation("q", "x", "read", None, "never", 2.0, 3.0)

    assert blind([*writes, never], register, steps_max=1000).ok is None
