"""A class name means one thing in the whole tree, with few exceptions."""

import ast
from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).parents[2] / "src" / "rostra"
SHARED_MAX = 14  # public items and their notices, and messages with a number
MIRROR = SRC / "sync.py"  # the same things under the same names, for threads


def test_few_public_class_names_are_defined_in_more_than_one_file() -> None:
    files: defaultdict[str, set[str]] = defaultdict(set)
    for path in set(SRC.rglob("*.py")) - {MIRROR}:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files[node.name].add(str(path.relative_to(SRC)))
    shared = {name: sorted(paths) for name, paths in files.items() if len(paths) > 1}

    assert len(shared) < SHARED_MAX, shared
