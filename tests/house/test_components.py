"""Naming a set, keeping its list, reaching its members and speaking to them are four components (S-001)."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rostra"

NAMING = ["names/groups.py"]
LISTS = [
    f"protocols/led/{name}.py"
    for name in ("core", "state", "lists", "queries", "registrar", "rules", "transient", "following")
]
VEHICLES = ["protocols/led/sequences.py", "protocols/channel/core.py"]
TRANSPORT = [f"protocols/fifo/{name}.py" for name in ("member", "reception", "delegate", "sending")]


def imported(path: str) -> set[str]:
    """Where it leans on when it runs; types that only a checker sees do not count."""
    found: set[str] = set()
    for node in ast.parse((SOURCE / path).read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.removeprefix("rostra.").replace(".", "/") + ".py")
    return found


@pytest.mark.spec("S-001")
@pytest.mark.parametrize(
    ("component", "others"),
    [
        (NAMING, [*LISTS, *VEHICLES, *TRANSPORT]),
        (LISTS, [*VEHICLES, *TRANSPORT]),
        (VEHICLES, TRANSPORT),
        (TRANSPORT, [*LISTS, "protocols/led/sequences.py"]),
    ],
)
def test_no_component_leans_on_one_that_it_could_be_without(component: list[str], others: list[str]) -> None:
    for path in component:
        assert not imported(path) & set(others), path


def test_a_planted_import_would_be_seen() -> None:
    assert "protocols/led/transient.py" in imported("protocols/led/sequences.py")
