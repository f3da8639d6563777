"""Output of answers: a table for people, JSON or CSV for programs, Parquet for the next question.

Times are UTC, whatever zone this machine is in: rows travel as Arrow, which keeps the zone with them.
"""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TABLE_ROWS: Final = 1000
"""Rows of a table on a terminal; -o csv gives all."""


class AnswerRows:
    """All rows of a DataFrame, or the first `at_most` of them."""

    def __init__(self, frame: "DataFrame", *, at_most: int | None = None) -> None:
        table: pa.Table = (frame if at_most is None else frame.limit(at_most + 1)).toArrow()
        self.columns: list[str] = table.column_names
        self.is_cut = at_most is not None and table.num_rows > at_most
        self.table = table.slice(0, at_most) if self.is_cut else table

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        for batch in self.table.to_batches():
            yield from batch.to_pylist()

    def cells(self, *, narrow: bool = False) -> Iterator[list[str]]:
        """As people read them; on a terminal, `narrow`: times to the millisecond, without what `common` says
        once for all."""
        rest = len(self.common) + bool(self.common) if narrow else 0
        for row in self.rows:
            yield [
                f"{value:%Y-%m-%d %H:%M:%S.%f}"[rest:-3]
                if narrow and isinstance(value, datetime)
                else cell(value)
                for value in row.values()
            ]

    @cached_property
    def common(self) -> str:
        """What all times begin with: a day, a year, or nothing."""
        days = {
            f"{value:%Y-%m-%d}" for row in self.rows for value in row.values() if isinstance(value, datetime)
        }
        years = {day[:4] for day in days}
        return next(iter(days)) if len(days) == 1 else next(iter(years)) if len(years) == 1 else ""

    def write_csv(self, to: IO[bytes]) -> None:
        text = io.TextIOWrapper(to, encoding="utf-8", newline="", write_through=True)
        try:
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(self.columns)
            for row in self.rows:
                writer.writerow([_field(value) for value in row.values()])
        finally:
            text.detach()

    def write_json(self, to: IO[bytes], *, lines: bool) -> None:
        if lines:
            for row in self.rows:
                to.write(msgspec.json.encode(row) + b"\n")
        else:
            to.write(msgspec.json.format(msgspec.json.encode(list(self.rows)), indent=2) + b"\n")

    def write_parquet(self, to: IO[bytes]) -> None:
        pq.write_table(self.table, to, compression="zstd")


def _field(value: Any) -> str:
    """For a program: nothing is nothing, and a number has all its digits."""
    if isinstance(value, float):
        return repr(value)
    return "" if value is None else cell(value)


def cell(value: Any) -> str:
    """As people read it; the same everywhere."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case float():
            return f"{value:.6g}"
        case list():
            return " ".join(cell(each) for each in value)
        case dict():
            return msgspec.json.encode(value).decode()
    return str(value)
