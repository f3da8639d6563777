"""Which requirements of docs/spec does a test name?

    make spec-coverage            how many of each page
    make spec-coverage ARGS=C     and those of one page that no test names; --list: of every page

A test names them with ``@pytest.mark.spec("C-012", "C-013")``, a story on a line ``# spec: C-012``.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {"C": "congress", "S": "sets", "V": "views", "X": "xpand", "A": "atomic"}
NUMBER = re.compile(r"\b[ACSVX]-\d{3}[a-z]?\b")

_DEFINED = re.compile(r"^\W*\*\*([ACSVX]-\d{3}[a-z]?)\b(.*)", re.M)
_MARK = re.compile(r"mark\.spec\(([^)]*)\)|^\W*spec:(.*)$", re.M)


def requirements(page: str) -> dict[str, str]:
    """The numbers that a page defines, each with the beginning of its rule."""
    text = (ROOT / "docs" / "spec" / f"{PAGES[page]}.md").read_text(encoding="utf-8")
    return {number: rule.strip(" *|:.")[:90] for number, rule in reversed(_DEFINED.findall(text))}


def named() -> dict[str, set[str]]:
    """The numbers that tests name, each with the files that do."""
    found: dict[str, set[str]] = {}
    for path in _tests():
        for mark in _MARK.findall(path.read_text(encoding="utf-8", errors="replace")):
            for number in NUMBER.findall(" ".join(mark)):
                found.setdefault(number, set()).add(str(path.relative_to(ROOT)))
    return found


def _tests() -> Iterator[Path]:
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.is_file() and path.suffix in {".py", ".story", ".txt"} and path != Path(__file__):
            yield path


def main(words: list[str]) -> None:
    shown = {word for word in words if word in PAGES} or (set(PAGES) if "--list" in words else set())
    tested = named()
    for page, name in PAGES.items():
        rules = requirements(page)
        missing = sorted(rules.keys() - tested.keys())
        print(f"{name:10} {len(rules) - len(missing):4} of {len(rules):4} requirements are named by a test")
        if page in shown:
            for number in missing:
                print(f"    {number}  {rules[number]}")


if __name__ == "__main__":
    main(sys.argv[1:])
