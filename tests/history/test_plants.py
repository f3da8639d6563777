"""Changes to raw segments: what each leads to is written down, and some of them are tried here.

`make plant-history` tries all of them, in simulated worlds and in a real one.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from history.file_plants import FILES, NotHere
from history.plants import EXPECTED, ROWS, Rows, cut, lay_out
from history.test_parity import calm
from support.court import Court
from support.segments import SCHEMA

from rostra.history.journals import contradicting, segments
from rostra.history.look import look
from rostra.journal.segments import read

TRIED = (
    "a join of another group",
    "a join becomes a leave",
    "a join is no news",
    "a leave of somebody else",
    "a cut that accuses another",
    "a cut without grounds",
    "a follower that never came",
    "a link that came up twice",
)


class Brought:
    """A calm world, and those in which something was planted."""

    def __init__(self, directory: Path) -> None:
        world = calm(directory / "calm")
        world.close()
        self.rows: Rows = read(directory / "calm").to_pylist()
        cases: Rows = []
        for plant in TRIED:
            case = [{**row, "world": f"planted: {plant}"} for row in self.rows]
            ROWS[plant](case)
            cases += case
        self.table = pa.Table.from_pylist(cases, SCHEMA)


@pytest.fixture(scope="module")
def brought(court: Court) -> Brought:
    found: Brought = court.brought[__name__]
    return found


def test_what_every_change_leads_to_is_written_down() -> None:
    assert EXPECTED.keys() == ROWS.keys() | FILES.keys() and len(EXPECTED) >= 40


@pytest.mark.long
@pytest.mark.parametrize("plant", TRIED)
def test_a_planted_row_is_found_by_the_promise_that_forbids_it(
    plant: str, court: Court, brought: Any
) -> None:
    answers = [court.verdicts(promise)[f"planted: {plant}"].answer for promise in EXPECTED[plant].found]
    assert "no" in answers


@pytest.mark.long
def test_a_file_that_cannot_be_right_is_set_aside_for_its_reason(tmp_path: Path, brought: Brought) -> None:
    known = cut(brought.rows, {})
    tried = 0
    for plant in (name for name in FILES if EXPECTED[name].aside):
        place = tmp_path / plant
        lay_out(place, known, "calm")
        try:
            FILES[plant](place)
        except NotHere:
            continue
        seen = [look(path) for path in segments(str(place))]
        why = [each.why for each in seen if each.why]
        why += contradicting(run for each in seen if not each.why for run in each.runs).values()
        assert len(why) == 1 and EXPECTED[plant].aside in why[0], (plant, why)
        tried += 1
    assert tried > 10
