"""Joins intervals of two hosts with the faults on the path between them, in Arrow.

    seen_by, member, from_at, end ──▶ the places between the two ──▶ each fault there that shares time with it

Nearly every interval meets no fault, so a Spark join by hour and place would be wasteful. A task looks up the
faults of each pair of hosts once, sorted by time, and finds those of all its rows by one search.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rostra.history.audits.facts import Fault
from rostra.history.places import places_between
from rostra.history.shape import schema

Numbers = NDArray[np.int64]
Bools = NDArray[np.bool_]
Pair = tuple[str, str, str]  # world, host and host

TIME: Final = pa.timestamp("us", tz="UTC")
FOUND: Final = schema(place="text?", fault_from="time?", fault_until="time?")


def in_the_way(intervals: DataFrame, faults: Iterable[Fault]) -> DataFrame:
    """Every interval (`world`, `seen_by`, `member`, `from_at`, `end`) with every fault on the way between the
    two that it shares time with: its place, fault_from, fault_until."""
    joined = StructType([*intervals.schema, *FOUND])
    found = lasting(faults)
    if not found:
        return intervals.sparkSession.createDataFrame([], joined)
    return intervals.mapInArrow(Obstacles(found), joined)


def lasting(faults: Iterable[Fault]) -> list[Fault]:
    return [fault for fault in faults if fault.until_at >= fault.from_at]


class Obstacles:
    """For `mapInArrow`, or one thread."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        self._began = min((fault.from_at for fault in faults), default=0)
        self._span = (max((fault.until_at for fault in faults), default=0) - self._began) // 1000 + 3
        self._at: dict[tuple[str, str], list[int]] = {}
        for nth, fault in enumerate(self.faults):
            self._at.setdefault((fault.world, fault.place), []).append(nth)
        self._from = np.array([fault.from_at for fault in self.faults], dtype=np.int64)
        self._until = np.array([fault.until_at for fault in self.faults], dtype=np.int64)
        self._places = pa.array([fault.place for fault in self.faults], pa.string())
        self._pairs: dict[Pair, int] = {}
        self._of_pairs: list[list[int]] = []  # their faults, by time

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from self.met(pa.Table.from_batches([batch])).to_batches()

    def met(self, rows: pa.Table) -> pa.Table:
        row, fault = self._meetings(rows)
        found = rows.take(pa.array(row))
        made = (
            self._places.take(pa.array(fault)),
            pa.array(self._from[fault]).cast(TIME),
            pa.array(self._until[fault]).cast(TIME),
        )
        for field, column in zip(FOUND, made, strict=True):
            found = found.append_column(field.name, column)
        return found

    def meets(self, rows: pa.Table) -> Bools:
        """Which of them any."""
        found = np.zeros(rows.num_rows, np.bool_)
        found[self._meetings(rows)[0]] = True
        return found

    def _meetings(self, rows: pa.Table) -> tuple[Numbers, Numbers]:
        """Which rows meet which faults."""
        if not (rows.num_rows and self.faults):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        known = len(self._pairs)
        pair = self._numbered(rows)
        if len(self._pairs) != known:
            self._lay_out()
        begins, ends = (rows[name].cast(pa.int64()).to_numpy() for name in ("from_at", "end"))
        # A pair's faults are side by side in order of time: from the first that may last still, to the last
        # that may have begun, by milliseconds.
        low = np.searchsorted(self._lasts, pair * self._span + self._ms(begins), "left")
        high = np.searchsorted(self._starts, pair * self._span + self._ms(ends), "right")
        many = np.maximum(high - low, 0)
        row = np.repeat(np.arange(len(pair)), many)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(low, many)
        fault = self._order[nth]
        shares = (
            (begins[row] <= self._until[fault]) & (self._from[fault] <= ends[row]) & (ends >= begins)[row]
        )
        return row[shares], fault[shares]

    def _numbered(self, rows: pa.Table) -> Numbers:
        """Which pair of hosts each row is about."""
        world, here, member = (
            rows[name].combine_chunks().dictionary_encode() for name in ("world", "seen_by", "member")
        )
        worlds, hosts, members = (each.dictionary.to_pylist() for each in (world, here, member))
        theirs = pa.array([each.partition("/")[0] for each in members], pa.string()).dictionary_encode()
        there = theirs.indices.to_numpy()[member.indices.to_numpy()].astype(np.int64)
        many, others = len(hosts), theirs.dictionary.to_pylist()
        key = (world.indices.to_numpy().astype(np.int64) * many + here.indices.to_numpy()) * len(
            others
        ) + there
        found, nth = np.unique(key, return_inverse=True)
        numbers = np.array(
            [
                self._number(
                    (
                        worlds[each // len(others) // many],
                        hosts[each // len(others) % many],
                        others[each % len(others)],
                    )
                )
                for each in found.tolist()
            ],
            dtype=np.int64,
        )
        return numbers[nth]

    def _number(self, pair: Pair) -> int:
        number = self._pairs.get(pair)
        if number is None:
            number = self._pairs[pair] = len(self._of_pairs)
            world, here, there = pair
            between = {
                nth for place in places_between(here, there) for nth in self._at.get((world, place), ())
            }
            self._of_pairs.append(sorted(between, key=lambda nth: (self.faults[nth].from_at, nth)))
        return number

    def _lay_out(self) -> None:
        """The faults of all pairs one after the other, so that one search finds those of all rows."""
        sizes = [len(those) for those in self._of_pairs]
        pair = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes) * self._span
        self._order = np.array([nth for those in self._of_pairs for nth in those], dtype=np.int64)
        lasts = [np.maximum.accumulate(self._until[those]) for those in self._of_pairs if those]
        self._starts = pair + self._ms(self._from[self._order])
        self._lasts = pair + self._ms(np.concatenate(lasts) if lasts else self._order)

    def _ms(self, times: Numbers) -> Numbers:
        found: Numbers = np.clip((times - self._began) // 1000 + 1, 0, self._span - 1)
        return found
