"""Rows as the files that nodes write: cut anywhere, sent in any order, broken in any way."""

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rostra.journal.schema import COLUMNS, VERSION, segment_name
from rostra.journal.segments import ARROW, Place

Row = dict[str, Any]

SCHEMA = pa.schema([pa.field(each.name, ARROW[each.type], nullable=not each.required) for each in COLUMNS])


def table(rows: Sequence[Row], schema: pa.Schema = SCHEMA, version: int = VERSION) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema.with_metadata({"rostra.schema": str(version)}))


def send(journal: Path, rows: Sequence[Row], *, name: str = "", schema: pa.Schema = SCHEMA) -> Path:
    """One segment, whole, as a writer would have named it."""
    first, last = rows[0], rows[-1]
    folder = journal / f"date={first['at']:%Y-%m-%d}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or segment_name(first["writer"], first["epoch"], first["seq"], last["seq"]))
    part = path.with_name(f".{path.name}")
    pq.write_table(table(rows, schema), part, compression="zstd", write_page_checksum=True)
    part.rename(path)
    return path


def write(journal: Path, rows: Sequence[Row]) -> Path:
    """One segment, by the code that writes those of nodes."""
    first, last = rows[0], rows[-1]
    of = {name: first[name] for name in ("world", "writer", "role", "epoch")}
    of |= {"schema": VERSION, "first": first["seq"], "last": last["seq"]}
    metadata = {f"rostra.{name}": str(value) for name, value in of.items()}
    return Path(Place(journal).write(pa.Table.from_pylist(list(rows), SCHEMA.with_metadata(metadata))))


def damage(segment: Path) -> None:
    """A byte of it is another one, so that its rows are others and nothing but a checksum shows it."""
    whole, before = segment.read_bytes(), pq.read_table(segment)
    for at in range(4, len(whole)):
        segment.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with contextlib.suppress(pa.ArrowException, OSError, UnicodeDecodeError):
            after = pq.read_table(segment)
            if after.schema == before.schema and len(after) == len(before) and not after.equals(before):
                return
    raise AssertionError("no byte of it matters")


def cut(rows: Iterable[Row], dice: Random, *, longest: int = 8) -> list[list[Row]]:
    """All rows, as segments of one writer and epoch each."""
    stories: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        stories.setdefault((row["world"], row["writer"], row["epoch"]), []).append(row)
    segments = []
    for story in stories.values():
        story.sort(key=lambda row: int(row["seq"]))
        while story:
            many = dice.randint(1, longest)
            segments.append(story[:many])
            story = story[many:]
    return segments
