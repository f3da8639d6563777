"""A look at a segment before its rows are read: what is in it, or why it is set aside.

Spark stops a whole batch at the first broken file. So each file is opened first, its footer and a few narrow
columns are read, and its rows are described as runs of numbers (`runs`). That is a few bytes per row, done by
Spark's own workers, and shows exactly which rows are new before any of them is read.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from rostra.history.files import open_file
from rostra.history.runs import Key, RowRun
from rostra.journal.schema import COLUMNS, Type
from rostra.journal.segments import ARROW

KNOWN: Final = {column.name: column for column in COLUMNS}

LOOKED_AT: Final = ("world", "writer", "role", "epoch", "seq", "at", "kind", "first", "last")

WORDS: Final = ("world", "writer", "role", "kind")

OTHER_WORLD: Final = "of another world"
"""Why a file is set aside, in words that `_set_aside` keeps."""

OTHER_ROWS: Final = "other rows"
"""Why a file is set aside whose rows are not those that are there already, under the same numbers."""

DROPPED, CLOSING = "dropped", "closing"


class Unusable(ValueError):
    """Why this file is set aside."""


class Seen(Struct):
    """One file, after a look."""

    path: str
    why: str = ""  # it is set aside; empty if it is good
    rows: int = 0
    runs: list[RowRun] = []
    kinds: list[str] = []
    extra: dict[str, Type] = {}  # columns that a newer writer added

    @property
    def contradicts(self) -> Key | None:
        """The life of which it has other rows than an earlier file."""
        return self.runs[0].key if self.why.startswith(OTHER_ROWS) else None


def look(path: str, world: str | None = None) -> Seen:
    try:
        return look_closely(path, world)
    except Unusable as unusable:
        return Seen(path, why=str(unusable))
    except FileNotFoundError:
        return Seen(path, why="gone: it was listed, and is not there any more")
    except (pa.ArrowException, OSError, ValueError) as error:
        # Arrow's words for a file that was cut off or damaged are long, and different in each version.
        return Seen(path, why=f"not Parquet, or damaged: {' '.join(str(error).split())[:200]}")


class ToLookAt(Struct, frozen=True):
    """By one task."""

    paths: list[str]
    world: str | None


def look_at(given: ToLookAt) -> list[Seen]:
    return [look(path, given.world) for path in given.paths]


def look_closely(path: str, world: str | None) -> Seen:
    with open_file(path) as source:
        footer = pq.read_metadata(source)
        extra = extra_columns(footer.schema.to_arrow_schema().remove_metadata())
        names = [name for name in LOOKED_AT if name in footer.schema.names]
        words = [*WORDS]  # not spelled out, row by row
        file = pq.ParquetFile(source, metadata=footer, read_dictionary=words, page_checksum_verification=True)
        table = file.read(columns=names, use_threads=False)
    if table.num_rows == 0:
        return Seen(path, extra=extra)
    key = Key(*(_only(table, name) for name in ("world", "writer", "epoch")))
    if world is not None and key.world != world:
        raise Unusable(f"{OTHER_WORLD}: {key.world!r}")
    return Seen(
        path,
        rows=table.num_rows,
        runs=runs(path, key, str(_only(table, "role")), table),
        kinds=sorted(kind for kind in pc.unique(table["kind"]).to_pylist()),
        extra=extra,
    )


@lru_cache(maxsize=64)
def extra_columns(schema: pa.Schema) -> dict[str, Type]:
    """Columns that we do not know, of types that we do. Segments of one version have one schema."""
    extra: dict[str, Type] = {}
    for field in schema:
        found = type_of(field.type)
        column = KNOWN.get(field.name)
        if found is None:
            raise Unusable(f"wrong schema: column {field.name!r} is {field.type}, which no column may be")
        if column is None:
            extra[field.name] = found
        elif ARROW[column.type] != ARROW[found]:
            raise Unusable(
                f"wrong schema: column {field.name!r} is {field.type}, and should be {column.type}"
            )
    missing = [column.name for column in COLUMNS if column.required and column.name not in schema.names]
    if missing:
        raise Unusable(f"wrong schema: no column {missing[0]!r}; this is no journal")
    return extra


def type_of(given: pa.DataType) -> Type | None:
    """As the journal calls it; how text is kept in memory makes no difference."""
    if pa.types.is_dictionary(given):
        given = given.value_type
    if pa.types.is_large_string(given):
        given = pa.string()
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        given = pa.list_(given.value_type)
    return next((name for name, arrow in ARROW.items() if arrow == given), None)


def _only(table: pa.Table, name: str) -> Any:
    values = pc.unique(table[name])
    if len(values) != 1 or values[0].as_py() is None:
        raise Unusable(f"wrong rows: a segment has one {name}, and this has {len(values)}")
    return values[0].as_py()


def runs(path: str, key: Key, role: str, table: pa.Table) -> list[RowRun]:
    """The rows as runs without a hole. Numbers that a `dropped` row accounts for are used up, not missing."""
    for name in ("seq", "at", "kind"):
        if table[name].null_count:
            raise Unusable(f"wrong rows: column {name!r} is empty in some")
    seq = table["seq"].to_numpy()
    begins = np.array(seq)
    if "first" in table.column_names:
        for at in np.flatnonzero(pc.equal(table["kind"], DROPPED).to_numpy(zero_copy_only=False)):
            first = table["first"][int(at)].as_py()
            if first is not None and 0 < first < begins[at]:
                begins[at] = first
    if begins[0] < 1:
        raise Unusable(f"wrong rows: numbers begin at 1, and here is {begins[0]}")
    if np.any(begins[1:] <= seq[:-1]):
        wrong = int(np.argmax(begins[1:] <= seq[:-1]))
        raise Unusable(f"wrong rows: out of order, {seq[wrong + 1]} comes after {seq[wrong]}")
    at_us = table["at"].cast(pa.int64()).to_numpy()
    is_closing = pc.equal(table["kind"], CLOSING).to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(begins[1:] != seq[:-1] + 1) + 1).tolist(), len(seq)]
    return [
        RowRun(
            key,
            first=int(begins[start]),
            last=int(seq[end - 1]),
            rows=end - start,
            began_us=int(at_us[start:end].min()),
            ended_us=int(at_us[start:end].max()),
            role=role,
            closing=bool(is_closing[end - 1]),
            source=path,
        )
        for start, end in pairwise(starts)
    ]
