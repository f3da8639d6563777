"""What stands in `examples/` runs, and says what its documentation leads one to expect."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_smallest_driver_tells_its_story() -> None:
    run = subprocess.run(
        [sys.executable, EXAMPLES / "smallest_driver.py"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert run.stdout.splitlines() == [
        "0  eu.paris.h1/ann#1 is open",
        "1  question 2 was granted",
        "1  eu.paris.h1/ann#1 sees chess@eu as eu.paris.h1/ann#1",
        "2  eu.paris.h1/bob#2 is open",
        "3  eu.paris.h1/ann#1 sees chess@eu as eu.paris.h1/ann#1, eu.paris.h1/bob#2",
        "3  question 4 was granted",
        "3  eu.paris.h1/bob#2 sees chess@eu as eu.paris.h1/ann#1, eu.paris.h1/bob#2",
        "4  question 5 was refused: ALREADY_MEMBER, eu.paris.h1/bob#2 is in chess@eu already; "
        "set it online or offline instead, or leave first",
        "5  eu.paris.h1/bob#2 sees chess@eu as eu.paris.h1/bob#2",
        "5  question 6 was granted",
    ]
