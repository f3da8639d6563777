"""The specifications are here, and tests name requirements that exist."""

import re
import subprocess
import sys

import pytest
from house.spec import NUMBER, PAGES, ROOT, named, requirements

ALL = {number for page in PAGES for number in requirements(page)}


def test_every_requirement_that_a_test_names_exists() -> None:
    assert {number: files for number, files in named().items() if number not in ALL} == {}


def test_every_requirement_that_the_source_or_a_page_names_exists() -> None:
    files = [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs").glob("[dp]*/*.md"),
    ]
    found = {
        (path.name, number) for path in files for number in NUMBER.findall(path.read_text(encoding="utf-8"))
    }
    assert {each for each in found if each[1] not in ALL} == set()
    assert len(found) > 100


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_of_every_amendment_why(page: str) -> None:
    text = (ROOT / "docs" / "spec" / f"{PAGES[page]}.md").read_text(encoding="utf-8")
    amended = [line for line in text.splitlines() if line.lstrip(" -").startswith("**[amended]** ")]
    assert all(
        "*Why:*" in line
        for line in amended
        if not line.startswith(("- **[amended]** means", "**[amended]** means"))
    )


def test_the_index_names_every_page_and_its_numbers() -> None:
    index = (ROOT / "docs" / "spec" / "README.md").read_text(encoding="utf-8")
    for page, name in PAGES.items():
        numbers = sorted(requirements(page))
        assert f"| [{name}.md]({name}.md) | {numbers[0]} to {numbers[-1]} |" in index


def test_the_count_is_printed() -> None:
    command = [sys.executable, "-m", "tests.house.spec", "V"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^congress +\d+ of +\d+ requirements", said, re.M)


def test_every_requirement_is_named_by_a_test() -> None:
    assert sorted(ALL - named().keys()) == []
