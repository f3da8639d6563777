"""Every world whose promises tests judge, in one history: each promise is judged once for all of them.

What an audit costs is Spark's thinking about it, and hardly depends on the number of worlds. A test module
brings its worlds by a class `Brought`, made with an empty directory, whose `table` has all their rows.
"""

import inspect
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Row

from rostra.history.arrow_fast_path import EventSource, SegmentRun, Source, note
from rostra.history.audits import Evidence, judge, promise_called

TRAFFIC = ("sent", "received")


def quiet(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the rows about traffic, half of a small journal, of which no promise speaks: a judge pays for
    each. The others are numbered anew; holes stay, and so do the first and the last row of every life."""
    lives: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in rows:
        lives.setdefault((row["world"], row["writer"], row["epoch"]), []).append(row)
    kept = []
    for story in lives.values():
        ends = (story[0], story[-1])
        gone = 0
        for row in story:
            if row["kind"] in TRAFFIC and not any(row is end for end in ends):
                gone += 1
            else:
                row["seq"] -= gone
                kept.append(row)
    return kept


class Court:
    def __init__(self, spark: Any, brought: dict[str, Any], directory: Path) -> None:
        self.brought = brought
        worlds = Counter(world for each in brought.values() for world in set(each.table["world"].to_pylist()))
        assert max(worlds.values()) == 1, "two modules bring a world of one name"
        # One row group for all: tests pay for files, not for rows.
        everything = pa.concat_tables([each.table for each in brought.values()])
        pq.write_table(everything.drop_columns(["detail"]), directory / "all.parquet")
        self.events = spark.read.parquet(str(directory)).cache()
        self.evidence, self._directory = Evidence(self.events), directory
        self._verdicts: dict[tuple[str, float | None], dict[str, Any]] = {}

    def verdicts(self, promise: str, bound_s: float | None = None) -> dict[str, Any]:
        """Of all worlds."""
        bound = inspect.signature(promise_called(promise).judge).parameters.get("bound_s")
        key = (promise, None if bound is not None and bound.default == bound_s else bound_s)
        if key not in self._verdicts:
            rows = judge(self.evidence, *key)
            self._verdicts[key] = {row["world"]: Row(**row) for row in rows}
        return self._verdicts[key]

    @cached_property
    def at_hand(self) -> Evidence:
        """The same, but for worlds whose clocks are off, of files of whole lives, as a journal has them."""
        off = self.evidence.clocks
        wrong = pa.array(sorted({key.world for key in (*off.ahead_us, *off.doubted)}), pa.string())
        rows = pq.read_table(self._directory / "all.parquet")
        rows = rows.filter(pc.invert(pc.is_in(rows["world"], wrong)))
        rows = rows.sort_by([(name, "ascending") for name in ("world", "writer", "epoch", "seq")])
        part = pa.array([crc32(writer.encode()) % 3 for writer in rows["writer"].to_pylist()])
        place = self._directory / "at hand"
        place.mkdir()
        runs = []
        for nth in range(3):
            some, path = rows.filter(pc.equal(part, nth)), str(place / f"{nth}.parquet")
            pq.write_table(some, path)
            runs.append(SegmentRun((Source(path, some.num_rows),)))
        events = self.events.sparkSession.read.schema(self.events.schema).parquet(str(place))
        return Evidence(note(events, EventSource(tuple(runs), by_life=True)))

    def close(self) -> None:
        self.evidence.release()
        if "at_hand" in self.__dict__:
            self.at_hand.release()
        self.events.unpersist()


def brought_by(modules: Iterable[Any], directory: Path) -> dict[str, Any]:
    """Of those that bring any, by their names."""
    made = {module.__name__: module for module in modules if hasattr(module, "Brought")}
    return {name: module.Brought(directory / name) for name, module in sorted(made.items())}
