"""The walk through the code names functions that are there."""

import ast
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
HOPS = re.findall(r"\[(\w+)\.(\w+)\]\((\.\./src/[\w/]+\.py)\)", PAGE.read_text())


def methods(path: Path) -> set[tuple[str, str]]:
    return {
        (node.name, each.name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize(("kind", "name", "path"), sorted(set(HOPS)))
def test_every_hop_is_a_method_of_the_file_it_leads_to(kind: str, name: str, path: str) -> None:
    assert (kind, name) in methods((PAGE.parent / path).resolve())


def test_both_ways_are_walked() -> None:
    assert len(HOPS) >= 25
