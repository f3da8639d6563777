"""One writer's rows on their way into segments: blocks of numbers, put in order, then turned into Arrow.

Words are numbers until the last moment, and so are members; a column that no block fills costs nothing.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.sample.places import Bools, Ints
from rostra.journal.entries import Identity
from rostra.journal.schema import COLUMNS, VERSION
from rostra.journal.segments import SCHEMA, Place

NOTHING: Final = np.iinfo(np.int64).min
"""Where a row says nothing, in whole numbers; in words and members -1, in others NaN."""

SEGMENT_ROWS: Final = 100_000

WORDS: Final = frozenset(column.name for column in COLUMNS if column.type == "word")
DOUBLES: Final = frozenset(column.name for column in COLUMNS if column.type == "double")

Block = dict[str, NDArray[np.generic]]


class Words:
    """Every word has a number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._array: pa.Array | None = None

    def __getitem__(self, word: str) -> int:
        number = self._numbers.get(word)
        if number is None:
            number = self._numbers[word] = len(self._numbers)
            self._array = None
        return number

    def numbers(self, words: list[str]) -> Ints:
        return np.array([self[word] for word in words], dtype=np.int64)

    @property
    def array(self) -> pa.Array:
        if self._array is None:
            self._array = pa.array(list(self._numbers), pa.string())
        return self._array


class Pages:
    """The rows of one writer in one epoch."""

    def __init__(self, who: Identity, words: Words, members: pa.Array, observer: str = "") -> None:
        self.who = who
        self._words = words
        self._members = members
        self._observer = observer
        self._blocks: list[tuple[int, Block]] = []

    def add(self, kind: str, at: Ints, **columns: object) -> None:
        """Rows of one kind, one for each time. Words and members are given by their numbers; of `observers`
        1 is the writer's own watcher, and whoever else it is, is `named`."""
        many = len(at)
        if many == 0:
            return
        block: Block = {"at": at, "kind": np.full(many, self._words[kind], dtype=np.int64)}
        for name, value in columns.items():
            given = np.asarray(value)
            wanted = np.float64 if name in DOUBLES else np.int64
            block[name] = np.broadcast_to(given.astype(wanted), (many,))
        self._blocks.append((many, block))

    @staticmethod
    def named(member: Ints) -> Ints:
        """As an observer."""
        return member + 2

    def in_order(self) -> Block:
        """All rows by time; rows of one time stay as they were added, so those of one event stay together."""
        names = {name for _, block in self._blocks for name in block} | {"nth", "of"}
        return _by_time(self._blocks, names)

    def begun(self, *kinds: str) -> Block:
        """Of events of these kinds the first row each, by time."""
        wanted = [self._words[kind] for kind in kinds]
        chosen = []
        for _, block in self._blocks:
            if block["kind"][0] not in wanted:  # a block is of one kind
                continue
            first = block["nth"] == 0 if "nth" in block else np.ones(len(block["at"]), dtype=bool)
            chosen.append((int(first.sum()), {name: values[first] for name, values in block.items()}))
        made = _by_time(chosen, {"at", "kind", "group", "member", "change", "news", "of", "cause"})
        return {**made, "of": np.where(made["of"] == NOTHING, 1, made["of"])}

    def kinds(self, columns: Block) -> NDArray[np.generic]:
        """The kind of each row, as a word."""
        names: NDArray[np.generic] = np.array(self._words.array.to_pylist())[columns["kind"].astype(np.int64)]
        return names

    def write(self, place: Place, began_us: int, columns: Block) -> int:
        """As segments; how many rows."""
        many = len(columns["at"])
        for first in range(0, many, SEGMENT_ROWS):
            last = min(many, first + SEGMENT_ROWS)
            part = {name: values[first:last] for name, values in columns.items()}
            place.write(self._table(part, first + 1, began_us))
        return many

    def _table(self, part: Block, first: int, began_us: int) -> pa.Table:
        many = len(part["at"])
        who = self.who
        at = part["at"].astype(np.int64)
        made = {
            "world": pa.repeat(pa.scalar(who.world), many),
            "writer": pa.repeat(pa.scalar(who.writer), many),
            "role": pa.repeat(pa.scalar(who.role), many),
            "epoch": pa.repeat(pa.scalar(who.epoch, pa.int64()), many),
            "seq": pa.array(np.arange(first, first + many, dtype=np.int64)),
            "at": pa.array(at + began_us).cast(pa.timestamp("us", "UTC")),
            "virtual_s": pa.array(at / 1e6),
        }
        for field in SCHEMA:
            if field.name in made:
                continue
            values = part.get(field.name)
            if values is None:
                made[field.name] = pa.nulls(many, field.type)
            else:
                made[field.name] = self._column(field, values)
        metadata = {
            "rostra.schema": str(VERSION),
            "rostra.world": who.world,
            "rostra.writer": who.writer,
            "rostra.role": who.role,
            "rostra.epoch": str(who.epoch),
            "rostra.first": str(first),
            "rostra.last": str(first + many - 1),
        }
        return pa.table([made[field.name] for field in SCHEMA], schema=SCHEMA.with_metadata(metadata))

    def _column(self, field: pa.Field, values: NDArray[np.generic]) -> pa.Array:
        name = field.name
        if name in DOUBLES:
            return pa.array(values, mask=np.isnan(values.astype(np.float64)))
        numbers = values.astype(np.int64)
        if name in WORDS:
            return _named(self._words.array, numbers)
        if name == "member":
            return _named(self._members, numbers)
        if name == "detail":
            return _named(self._words.array, numbers)
        if name == "observers":
            return _each(self._observer, self._members, numbers)
        missing: Bools = numbers == NOTHING
        if field.type == pa.bool_():
            return pa.array(numbers == 1, mask=missing)
        if name in ("nth", "of"):
            numbers = np.where(missing, 0 if name == "nth" else 1, numbers)
            return pa.array(numbers.astype(np.int32))
        return pa.array(numbers, mask=missing).cast(field.type)


def nth_of(runs: Ints) -> tuple[Ints, Ints]:
    """`nth` and `of` for events of so many rows each, one after the other."""
    of = np.repeat(runs, runs)
    begins = np.repeat(np.cumsum(runs) - runs, runs)
    return np.arange(len(of)) - begins, of


def _named(names: pa.Array, numbers: Ints) -> pa.Array:
    return pc.take(names, pa.array(numbers, mask=numbers < 0))


def _each(watcher: str, members: pa.Array, numbers: Ints) -> pa.Array:
    """One observer for each row that has any."""
    there = numbers > 0
    offsets = np.concatenate(([0], np.cumsum(there))).astype(np.int32)
    chosen = numbers[there]
    names = _named(members, chosen - 2) if (chosen > 1).any() else pa.nulls(len(chosen), pa.string())
    return pa.ListArray.from_arrays(pa.array(offsets), pc.fill_null(names, watcher), mask=pa.array(~there))


def _by_time(blocks: list[tuple[int, Block]], names: set[str]) -> Block:
    columns: Block = {
        name: np.concatenate(
            [
                np.zeros(0, dtype=_dtype(name)),
                *(
                    block[name] if name in block else np.full(many, _empty(name), dtype=_dtype(name))
                    for many, block in blocks
                ),
            ]
        )
        for name in sorted(names)
    }
    order = np.argsort(columns["at"], kind="stable")
    return {name: values[order] for name, values in columns.items()}


def _empty(name: str) -> float | int:
    if name in DOUBLES:
        return float("nan")
    if name in WORDS or name in ("member", "detail"):
        return -1
    return NOTHING


def _dtype(name: str) -> type[np.generic]:
    return np.float64 if name in DOUBLES else np.int64
