"""What commands print goes through `cli/output.py`, which writes control characters out."""

import re
from pathlib import Path


def test_every_command_speaks_through_one_module() -> None:
    """A module that printed by itself would leave `plain` out."""
    cli = Path(__file__).parents[2] / "src" / "rostra" / "cli"
    own = {
        "output.py",
        "consoles.py",
        "completion.py",
        "house.py",
        "version.py",
        "__init__.py",
        "page.py",
    }  # nothing remote
    said = re.compile(r"typer\.echo\(|(?<![.\w])print\([^\n]|(?<!\w)Console\(")
    files = [path for path in cli.rglob("*.py") if path.name not in own]
    found = [
        f"{path.name}: {line.strip()}"
        for path in files
        for line in path.read_text().splitlines()
        if said.search(line)
    ]
    assert not found, found
