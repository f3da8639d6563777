"""A file that does not fit into a reader's head is two files."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES_MAX = 800


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for room in ("src", "tests", "benchmarks", "examples")
        for path in (ROOT / room).rglob("*.py")
    }

    assert not {path: length for path, length in lengths.items() if length > LINES_MAX}
