"""The heavy half of `per-source-order` straight from the files, in Arrow: the notices that lives were told.

The rows of a life are read in order, so they only have to be grouped by story (one member in one group).
Between two stretches of rows the last stamp of each story is kept.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from numpy.typing import NDArray

from rostra.history.arrow import in_arrow
from rostra.history.arrow_fast_path import Bools, SegmentRun, is_one_of, is_there, read
from rostra.history.audits.findings import FINDINGS
from rostra.history.intervals import numbers

STRETCH_ROWS: Final = 200_000

COLUMNS: Final = (
    *("world", "writer", "epoch", "seq", "at", "kind", "change"),
    *("group", "member", "life", "stamp"),
)
KEPT: Final = ("world", "writer", "epoch", "seq", "at", "group", "member", "life", "stamp")
STORY: Final = ("world", "writer", "epoch", "group", "member")
FINDINGS_IN_ARROW: Final = in_arrow(FINDINGS)

Stamp = tuple[int, int]
Story = tuple[Any, ...]


class StampComparison(Struct, frozen=True):
    """Every comparison of two stamps in whole lives (`FINDINGS`)."""

    def __call__(self, segment_run: SegmentRun) -> Iterator[pa.Table]:
        suspects: set[Story] = set()
        last: pa.Table | None = None
        waiting: list[pa.Table] = []
        many = 0
        for rows in read(segment_run, COLUMNS):
            told = rows.filter(pa.array(_is_told(rows))).select(KEPT)
            waiting.append(told)
            many += told.num_rows
            if many > max(STRETCH_ROWS, 0 if last is None else last.num_rows):
                fine, last = _compared(last, waiting, suspects)
                waiting, many = [], 0
                yield fine
        if many:
            fine, last = _compared(last, waiting, suspects)
            yield fine
        if suspects:
            yield _by_observer(segment_run, suspects)


def _is_told(rows: pa.Table) -> Bools:
    kind = rows["kind"]
    listed = is_one_of(kind, "absolute", "joined") & is_one_of(rows["change"], "joined")
    told = listed | is_one_of(kind, "left")
    return told & is_there(rows["stamp"]) & is_there(rows["member"])


def _compared(
    last: pa.Table | None, waiting: list[pa.Table], suspects: set[Story]
) -> tuple[pa.Table, pa.Table]:
    """What did not go back, and the last that was told in each story. What went back is a suspect."""
    rows = pa.concat_tables([*([] if last is None else [last]), *waiting]).combine_chunks()
    story = numbers(rows, STORY)
    order = np.argsort(story, kind="stable")
    same = story[order[1:]] == story[order[:-1]]
    before, after = order[:-1][same], order[1:][same]
    life, stamp = pc.fill_null(rows["life"], -1).to_numpy(), rows["stamp"].to_numpy()
    known = pc.is_valid(rows["life"]).to_numpy(zero_copy_only=False)
    back = (life[after] < life[before]) | ((life[after] == life[before]) & (stamp[after] < stamp[before]))
    comparable = known[after] & known[before]
    for place in after[back & comparable]:
        suspects.add(tuple(rows[name][int(place)].as_py() for name in STORY))
    is_last = np.append(~same, True)
    return _fine(rows, after[comparable & ~back]), rows.take(pa.array(np.sort(order[is_last])))


def _fine(rows: pa.Table, places: NDArray[np.int64]) -> pa.Table:
    chosen = rows.take(pa.array(places))
    many = len(places)
    made = {
        "broken": pa.array(np.zeros(many, dtype=bool)),
        "text": pa.nulls(many, FINDINGS_IN_ARROW.field("text").type),
    }
    return pa.table(
        [made[name] if name in made else chosen[name] for name in FINDINGS.names], schema=FINDINGS_IN_ARROW
    )


def _by_observer(segment_run: SegmentRun, suspects: set[Story]) -> pa.Table:
    """The observers told apart, of the stories in which something went back for their host as a whole."""
    members = {member for *_, member in suspects}
    before: dict[tuple[Story, str], Stamp | None] = {}
    found: list[dict[str, Any]] = []
    for rows in read(segment_run, (*COLUMNS, "observers")):
        chosen = _is_told(rows) & is_one_of(rows["member"], *members)
        for row in rows.filter(pa.array(chosen)).to_pylist():
            story = tuple(row[name] for name in STORY)
            if story not in suspects:
                continue
            now = None if row["life"] is None else (row["life"], row["stamp"])
            for observer in row["observers"] or ():
                key = (story, observer)
                then = before.get(key)
                if now is not None and then is not None and now < then:
                    found.append(_offence(row, observer, then))
                before[key] = now
    return pa.Table.from_pylist(found, FINDINGS_IN_ARROW)


def _offence(row: dict[str, Any], observer: str, before: Stamp) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("world", "at", "writer", "epoch", "seq")},
        "broken": True,
        "text": f"{observer} was told of {row['member']} in {row['group']} as of "
        f"{row['life']}.{row['stamp']}, after {before[0]}.{before[1]}",
    }
