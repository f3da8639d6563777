"""Bytes that another process made may be anything: whoever decodes them catches all that a decoder raises.

`msgspec` raises more than its own errors: `UnicodeDecodeError` for bad UTF-8, `RecursionError` for a nesting
bomb. Who catches `DecodeError` alone can be ended by four bytes. So outside `wire/`, whose readers have tests
of their own, a decoder stands in a `try` that names `UNDECODABLE`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rostra"

ENOUGH = {"UNDECODABLE", "Exception", "BaseException"}

TRUSTED = {
    ("cli/history/audit.py", "_judge"): "made by the query that it is an answer to",
    ("client/commands.py", "_decoded"): "whoever calls it catches UNDECODABLE",
    ("history/rebuild.py", "_save"): "a driver and its own tasks",
    ("history/source.py", "reader"): "a driver and its own tasks",
    ("history/tasks.py", "do"): "a driver and its own tasks",
    ("history/tasks.py", "run"): "a driver and its own tasks",
    ("history/tables.py", "epochs"): "rows of a table that has a schema",
    ("lab/lab.py", "_wait_for_carrier"): "the system's own `ip`",
    ("lab/router.py", "read"): "written by the process that starts it",
    ("protocols/flow/runs.py", "payloads"): "of a run that `is_sound`",
    ("runtime/store.py", "_read_ballot"): "whoever calls it catches UNDECODABLE",
    ("runtime/store.py", "_read_blamed"): "whoever calls it catches UNDECODABLE",
    ("runtime/store.py", "_read_known"): "whoever calls it catches UNDECODABLE",
    ("runtime/store.py", "_read_records"): "whoever calls it catches UNDECODABLE",
    ("runtime/store.py", "_read_registry"): "whoever calls it catches UNDECODABLE",
    ("sim/lines.py", "__init__"): "the simulator's own packets",
    ("sim/lines.py", "_arrive"): "the simulator's own packets",
    ("testing/state_storm.py", "take"): "the state of the storm's own programs",
}
"""Who reads what was checked before, or what this very program wrote; and which it is."""


def is_decoder(call: ast.Call) -> bool:
    """``decoder.decode(octets)``, ``msgspec.json.decode(octets, type=Order)``, ``json.loads(text)``; a text's
    own ``octets.decode()`` is something else."""
    if not isinstance(call.func, ast.Attribute) or not call.args:
        return False
    encoding = isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)
    toml = isinstance(call.func.value, ast.Name) and call.func.value.id == "tomllib"  # what a user wrote
    return call.func.attr in ("decode", "loads", "convert") and not encoding and not toml


def names_in(caught: ast.expr | None) -> set[str]:
    """All names that an `except` or a `suppress` says; a bare one catches everything."""
    if caught is None:
        return {"BaseException"}
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(caught)
        if isinstance(each, ast.Name | ast.Attribute)
    }


def unguarded(source: str) -> Iterator[tuple[str, int]]:
    """Function and line of each decoder that catches less than it must."""

    def visit(node: ast.AST, function: str, caught: set[str]) -> Iterator[tuple[str, int]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            function, caught = getattr(node, "name", function), set()
        if isinstance(node, ast.Call) and is_decoder(node) and not caught & ENOUGH:
            yield function, node.lineno
        if isinstance(node, ast.Try):
            inside = caught.union(*[names_in(handler.type) for handler in node.handlers])
            for each in node.body:
                yield from visit(each, function, inside)
            for each in (*node.handlers, *node.orelse, *node.finalbody):
                yield from visit(each, function, caught)
            return
        if isinstance(node, ast.With):
            caught = caught.union(*[names_in(item.context_expr) for item in node.items])
        for each in ast.iter_child_nodes(node):
            yield from visit(each, function, caught)

    yield from visit(ast.parse(source), "", set())


def rooms() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.relative_to(SOURCE).parts[0] != "wire"]


@pytest.mark.parametrize("path", rooms(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_decoder_catches_all_that_hostile_bytes_can_raise(path: Path) -> None:
    name = path.relative_to(SOURCE).as_posix()
    found = [
        f"{name}:{line} in {function or 'the module'}"
        for function, line in unguarded(path.read_text())
        if (name, function) not in TRUSTED
    ]
    assert found == [], "catch UNDECODABLE (rostra.errors) around these, or say why they are trusted"


def test_what_is_trusted_is_there_and_needs_it() -> None:
    for name, function in TRUSTED:
        assert function in {each for each, _ in unguarded((SOURCE / name).read_text())}, (name, function)


def trying(what: str, caught: str) -> str:
    return f"def f(data):\n    try:\n        {what}\n    except {caught}:\n        raise"


@pytest.mark.parametrize(
    "bad",
    [
        "def f(data):\n    return decoder.decode(data)",
        trying("decoder.decode(data)", "DecodeError"),
        trying("msgspec.json.decode(data, type=A)", "(OSError, msgspec.DecodeError, UnicodeDecodeError)"),
        trying("later = lambda: decoder.decode(data)", "UNDECODABLE"),
        trying("pass", "UNDECODABLE").replace("raise", "decoder.decode(data)"),
        "def f(data):\n    with suppress(OSError):\n        return json.loads(data)",
        "A = msgspec.convert(B, C)",
    ],
)
def test_a_planted_decoder_that_catches_less_is_found(bad: str) -> None:
    assert len(list(unguarded(bad))) == 1


@pytest.mark.parametrize(
    "good",
    [
        trying("decoder.decode(data)", "UNDECODABLE"),
        trying("decoder.decode(data)", "(OSError, *errors.UNDECODABLE)"),
        "def f(data):\n    with suppress(OSError, *UNDECODABLE):\n        return msgspec.json.decode(data)",
        "def f(data):\n    return data.decode(), data.decode('ascii'), data.decode(errors='replace')",
    ],
)
def test_one_that_catches_enough_is_left_alone(good: str) -> None:
    assert list(unguarded(good)) == []
