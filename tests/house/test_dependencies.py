"""What agents, servers and programs import is installed with Rostra itself, and not only for its tests."""

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "rostra"
EXTRAS = ("history", "cli/history", "testing")  # rooms that need an extra, or the user's pytest


def top_level_imports(path: Path) -> set[str]:
    """Of other packages, when the module is loaded: not those in functions, nor those for types alone."""
    names = set[str]()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names |= {each.name.split(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.split(".")[0])
    return names - {"rostra", "__future__"} - sys.stdlib_module_names


def test_what_is_imported_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {each.split(">")[0].replace("-", "_") for each in project["dependencies"]}
    imported = {
        name: path.relative_to(SRC)
        for path in sorted(SRC.rglob("*.py"))
        if not str(path.relative_to(SRC)).startswith(EXTRAS)
        for name in top_level_imports(path)
    }
    assert {name: path for name, path in imported.items() if name not in declared} == {}
    assert "cryptography" in imported
