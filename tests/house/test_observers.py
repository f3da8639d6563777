"""Drivers show steps to observers and know none of them: who opens journals makes scribes and recorders."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rostra"
DRIVERS = sorted(
    str(path.relative_to(SOURCE))
    for room in ("runtime", "sim", "testing")
    for path in (SOURCE / room).rglob("*.py")
)
OBSERVERS = {"Scribe", "Recorder", "ServerRecorder"}
KEEPERS = {"runtime/journal.py", "sim/journal.py"}


def named(source: str) -> set[str]:
    return {
        alias.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    } & OBSERVERS


@pytest.mark.parametrize("path", sorted(set(DRIVERS) - KEEPERS))
def test_no_driver_names_an_observer(path: str) -> None:
    assert named((SOURCE / path).read_text()) == set()


def test_a_driver_that_does_is_found() -> None:
    assert named("def late():\n    from rostra.observe.recording import Began, Recorder") == {"Recorder"}
    assert all(named((SOURCE / path).read_text()) for path in KEEPERS)
