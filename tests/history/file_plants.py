"""Changes to the files of a journal, for `plants.py`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from support.segments import damage


class NotHere(Exception):
    """This world has nothing that could be changed so."""


def segments_of(place: Path, role: str = "agent") -> list[Path]:
    """Of a life that has several, in order; of the life with the most of them."""
    found: dict[str, list[Path]] = {}
    for path in sorted(place.glob("date=*/*.parquet")):
        if pq.read_metadata(path).metadata[b"rostra.role"] == role.encode():
            found.setdefault("-".join(path.stem.split("-")[:-2]), []).append(path)
    lives = [paths for paths in found.values() if len(paths) > 2]
    if not lives:
        raise NotHere
    return max(lives, key=len)


def rewritten(place: Path, change: Callable[[pa.Table], pa.Table], nth: int = 1) -> None:
    path = segments_of(place)[nth]
    pq.write_table(change(pq.read_table(path)), path, write_page_checksum=True)


def with_column(name: str, make: Callable[[pa.Table], Any]) -> Callable[[Path], None]:
    def plant(place: Path) -> None:
        def change(table: pa.Table) -> pa.Table:
            return table.set_column(table.column_names.index(name), name, make(table))

        rewritten(place, change)

    return plant


def metadata(**said: Any) -> Callable[[Path], None]:
    """The footer says otherwise."""

    def plant(place: Path) -> None:
        def change(table: pa.Table) -> pa.Table:
            old = table.schema.metadata
            new = {
                f"rostra.{name}".encode(): str(value(old) if callable(value) else value)
                for name, value in said.items()
            }
            return table.replace_schema_metadata({**old, **new})

        rewritten(place, change)

    return plant


def text(values: Sequence[Any]) -> pa.Array:
    return pa.array(values, pa.string())


def number_of(name: str, more: int) -> Callable[[dict[bytes, bytes]], int]:
    return lambda old: int(old[f"rostra.{name}".encode()]) + more


def moved(place: Path) -> None:
    path = segments_of(place)[1]
    day = place / "date=1999-12-31"
    day.mkdir()
    path.rename(day / path.name)


def copied(place: Path, change: Callable[[pa.Table], pa.Table] = lambda table: table) -> None:
    path = segments_of(place)[1]
    pq.write_table(change(pq.read_table(path)), path.with_name("zz-again.parquet"), write_page_checksum=True)


def other_rows(table: pa.Table) -> pa.Table:
    return table.set_column(table.column_names.index("kind"), "kind", text(["heartbeat"] * len(table)))


def several(place: Path, change: Callable[[list[Path]], None]) -> None:
    change(segments_of(place))


def swapped(paths: list[Path]) -> None:
    one, other, spare = paths[0], paths[1], paths[0].with_name(".spare")
    one.rename(spare), other.rename(one), spare.rename(other)


def of_writer(paths: list[Path]) -> None:
    for path in paths:
        path.unlink()


FILES: dict[str, Callable[[Path], None]] = {
    "a byte is another": lambda place: damage(segments_of(place)[1]),
    "the end is missing": lambda place: truncate(segments_of(place)[1]),
    "nothing is left of a file": lambda place: segments_of(place)[1].write_bytes(b"") and None,
    "a file of text": lambda place: segments_of(place)[1].write_text("hello") and None,
    "the first segment is gone": lambda place: segments_of(place)[0].unlink(),
    "a segment is gone": lambda place: segments_of(place)[1].unlink(),
    "the last segment is gone": lambda place: segments_of(place)[-1].unlink(),
    "a writer is gone": lambda place: several(place, of_writer),
    "a server's first segment is gone": lambda place: segments_of(place, "server")[0].unlink(),
    "a server's segment is gone": lambda place: segments_of(place, "server")[1].unlink(),
    "a server's last segment is gone": lambda place: segments_of(place, "server")[-1].unlink(),
    "a segment has another name": lambda place: (
        segments_of(place)[1].rename(place / "date=2026-01-01.parquet") and None
    ),
    "a segment is of another day": moved,
    "two segments have each other's names": lambda place: several(place, swapped),
    "a segment twice": copied,
    "half a segment again": lambda place: copied(place, lambda table: table.slice(5)),
    "a segment again with other rows": lambda place: copied(place, other_rows),
    "rows are missing in a segment": lambda place: rewritten(
        place, lambda table: pa.concat_tables([table.slice(0, 5), table.slice(8)])
    ),
    "rows in another order": lambda place: rewritten(
        place, lambda table: table.take(list(range(len(table)))[::-1])
    ),
    "a row twice": lambda place: rewritten(
        place, lambda table: pa.concat_tables([table.slice(0, 5), table.slice(4)])
    ),
    "numbers from zero": with_column("seq", lambda table: pa.array(range(len(table)))),
    "a row without a number": with_column(
        "seq", lambda table: pa.array([None, *table["seq"].to_pylist()[1:]])
    ),
    "a row without a time": with_column(
        "at", lambda table: pa.array([None, *table["at"].to_pylist()[1:]], table["at"].type)
    ),
    "rows of another world": with_column("world", lambda table: text(["elsewhere"] * len(table))),
    "rows of two worlds": with_column(
        "world", lambda table: text(["elsewhere", *table["world"].to_pylist()[1:]])
    ),
    "rows of two writers": with_column(
        "writer", lambda table: text(["nobody.h1", *table["writer"].to_pylist()[1:]])
    ),
    "rows of two lives": with_column("epoch", lambda table: pa.array([1, *table["epoch"].to_pylist()[1:]])),
    "rows of an earlier life": with_column(
        "epoch", lambda table: pa.array([e - 1 for e in table["epoch"].to_pylist()])
    ),
    "no column `kind`": lambda place: rewritten(place, lambda table: table.drop_columns(["kind"])),
    "no column `cause`": lambda place: rewritten(place, lambda table: table.drop_columns(["cause"])),
    "a column of another type": with_column("seq", lambda table: table["seq"].cast(pa.string())),
    "a column more": lambda place: rewritten(
        place, lambda table: table.append_column("mood", text(["fine"] * len(table)))
    ),
    "a kind that nobody knows": with_column(
        "kind", lambda table: text(["sang", *table["kind"].to_pylist()[1:]])
    ),
    "a footer of other numbers": metadata(first=number_of("first", 1000), last=number_of("last", 1000)),
    "a footer of another writer": metadata(writer="nobody.h1"),
    "a footer of another life": metadata(epoch=1),
    "a footer of another world": metadata(world="elsewhere"),
    "a footer that says nothing": lambda place: rewritten(
        place, lambda table: table.replace_schema_metadata(None)
    ),
}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-50])
