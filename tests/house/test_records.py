"""Every record and every kind of journal row has one owner: services built side by side cannot collide."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from rostra.core.records import KEYS
from rostra.journal.schema import KIND_NAMES
from rostra.wire.numbers import BLOCKS, JOURNAL_BLOCKS

PROTOCOLS = Path(__file__).parents[2] / "src" / "rostra" / "protocols"


def keys_of(source: str) -> Iterator[str]:
    """What the keys of records that a module puts begin with."""
    tree = ast.parse(source)
    texts = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    called = {
        function.name: [
            each.value for each in ast.walk(function) if isinstance(each, ast.Return) and each.value
        ]
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
    }

    def begins(key: ast.expr) -> Iterator[str]:
        match key:
            case ast.Constant(str() as text):
                yield text
            case ast.Name(name):
                yield texts.get(name, f"? {name}")
            case ast.JoinedStr([first, *_]):
                yield from begins(first.value if isinstance(first, ast.FormattedValue) else first)
            case ast.BinOp(left, ast.Add()):
                yield from begins(left)
            case ast.Call(ast.Name(name)) if name in called:
                for value in called[name]:
                    yield from begins(value)
            case _:
                yield f"? {ast.unparse(key)}"

    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(_, "put"), [key, _]):
                yield from begins(key)


def wrong(path: str, source: str) -> list[str]:
    protocol = path.split("/")[0]
    return [key for key in keys_of(source) if KEYS.get(key) != protocol]


@pytest.mark.parametrize("path", sorted(str(path.relative_to(PROTOCOLS)) for path in PROTOCOLS.rglob("*.py")))
def test_a_protocol_writes_only_records_of_its_own(path: str) -> None:
    assert wrong(path, (PROTOCOLS / path).read_text()) == []


def test_every_key_in_the_table_is_written_by_its_owner() -> None:
    written = {
        key
        for protocol in set(KEYS.values())
        for path in (PROTOCOLS / protocol).rglob("*.py")
        for key in keys_of(path.read_text())
    }
    assert written == set(KEYS)


@pytest.mark.parametrize(
    "source",
    [
        'self._records.put("registry", data)',
        'FENCES: Final = "fence"\nself._records.put(FENCES, data)',
        'CLAIM = "claim/"\nrecords.put(f"{CLAIM}{name}", data)',
        "records.put(key, data)",
    ],
)
def test_a_record_of_another_service_is_found(source: str) -> None:
    assert wrong("agreed/fences.py", source)


def owners(kind: str) -> list[str]:
    return [
        service
        for service, names in JOURNAL_BLOCKS.items()
        if any(kind == name or (name.endswith("-") and kind.startswith(name)) for name in names)
    ]


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_every_kind_of_row_has_one_owner(kind: str) -> None:
    assert len(owners(kind)) == 1


def test_every_service_has_kinds_of_rows_and_no_name_is_given_twice() -> None:
    assert {"agreed", "atomic", "led", "access"} <= set(JOURNAL_BLOCKS)
    assert set(BLOCKS["message"]) - {"election"} <= set(JOURNAL_BLOCKS), "an election leaves no rows"
    names = [name for block in JOURNAL_BLOCKS.values() for name in block]
    assert all(len(owners(name)) == 1 for name in names)
