"""The tables as Arrow has them, and how their files are written.

Words stay dictionary-encoded all the way from a segment to a table: a name is stored once for some hundred
thousand rows. Readers of the files see plain text columns.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.types import ArrayType, DataType, DateType, StructType

from rostra.history.files import open_file
from rostra.history.schemas import STAYS, TABLES, widened
from rostra.history.shape import TYPES
from rostra.journal.schema import Type
from rostra.journal.segments import ARROW

WORD: Final = pa.dictionary(pa.int32(), pa.string())
WORDS: Final = pa.list_(pa.field("element", WORD))
_IN_WORDS: Final = {pa.string(): WORD, pa.list_(pa.field("element", pa.string())): WORDS}

_TYPES: Final = {TYPES[word]: kind for word, kind in ARROW.items()} | {DateType(): pa.date32()}

_BOUNDS: Final = frozenset(
    {"world", "writer", "seen_by", "epoch", "seq", "at", "kind", "group", "peer", "domain"}
)
"""Columns by which readers may pass over what they do not want."""

_STEADY: Final = frozenset({"seq", "at", "joined_seq", "joined_at", "left_seq", "left_at"})
"""Columns in which the difference to the row before is small."""

_SPELLED: Final = frozenset({"detail"})
"""Texts that hardly come twice."""


def arrow_type(kind: DataType) -> pa.DataType:
    """As Spark has it, to the name of a list's element."""
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType)))
    if isinstance(kind, StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in kind])
    return _TYPES[kind]


def arrow_schema(schema: StructType) -> pa.Schema:
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema])


def in_arrow(schema: StructType) -> pa.Schema:
    """The same, in which words are kept as dictionaries."""
    return pa.schema(
        [
            field if field.name in _SPELLED else field.with_type(_IN_WORDS.get(field.type, field.type))
            for field in arrow_schema(schema)
        ]
    )


STAYS_IN_ARROW: Final = in_arrow(STAYS)


def table_in_arrow(table: str, extra: Mapping[str, Type]) -> pa.Schema:
    """The columns of a table; `extra` are those of `events` that newer writers added."""
    if table == "open":
        return STAYS_IN_ARROW
    return in_arrow(widened(extra) if table in ("events", "held") else TABLES[table])


def words_of(schema: pa.Schema) -> list[str]:
    """Columns that are kept as dictionaries, as Parquet calls them."""
    return [
        f"{field.name}.list.element" if pa.types.is_list(field.type) else field.name
        for field in schema
        if pa.types.is_list(field.type) or pa.types.is_dictionary(field.type)
    ]


def spelled(kind: pa.DataType) -> pa.DataType:
    """With texts in the place of their numbers: as Spark wants it, to the name of a list's element."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", spelled(kind.value_type)))
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def spelled_out(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([pa.field(field.name, spelled(field.type)) for field in table.schema]))


def shaped_as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Exactly these columns; those that are not there are null, as they are for an older writer."""
    if table.column_names == schema.names and table.schema.types == schema.types:
        return pa.Table.from_arrays(table.columns, schema=schema)
    return pa.table(
        [
            _cast(table[field.name], field.type)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _cast(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if values.type == wanted:
        return values
    if pa.types.is_dictionary(wanted):
        return pc.dictionary_encode(values.cast(pa.string()))
    if pa.types.is_list(wanted):
        return pa.chunked_array([_list(chunk) for chunk in values.chunks], wanted)
    return values.cast(wanted)


def _list(values: Any) -> pa.Array:
    plain = values.cast(pa.list_(pa.string()))
    words = pc.dictionary_encode(plain.values)
    return pa.Array.from_buffers(
        WORDS,
        len(plain),
        plain.buffers()[:2],
        plain.null_count,
        plain.offset,
        [words],
    )


def row_groups(
    path: str, schema: pa.Schema, wanted: Callable[[Any], bool] = lambda group: True
) -> Iterator[pa.Table]:
    """A file, bit by bit, with these columns and no others. Words are not spelled out."""
    with open_file(path) as opened:
        footer = pq.read_metadata(opened)
        paths = {footer.schema.column(nth).path for nth in range(footer.num_columns)}
        words = [name for name in words_of(schema) if name in paths]
        file = pq.ParquetFile(opened, metadata=footer, read_dictionary=words, page_checksum_verification=True)
        known = {path.partition(".")[0] for path in paths}
        there = [name for name in schema.names if name in known]
        for group in range(file.num_row_groups):
            if wanted(footer.row_group(group)):
                rows = file.read_row_group(group, columns=there, use_threads=False)
                rows.validate()
                yield shaped_as(rows, schema)


def may_have(group: Any, column: str, values: Iterable[str]) -> bool:
    """Could one of these values be in this row group, by its bounds?"""
    for place in range(group.num_columns):
        found = group.column(place)
        if found.path_in_schema == column and found.is_stats_set and found.statistics.has_min_max:
            return any(found.statistics.min <= value <= found.statistics.max for value in values)
    return True


def between(rows: pa.Table, first: int, last: int) -> pa.Table:
    """Those with these numbers; they are in order."""
    start, stop = np.searchsorted(rows["seq"].to_numpy(), (first, last + 1))
    return rows.slice(int(start), int(stop - start))


class ParquetWriter:
    """One Parquet file, which grows by a row group whenever enough rows have come together."""

    def __init__(self, opened: Callable[[], Any], schema: pa.Schema, group_rows: int) -> None:
        self.schema, self.rows = schema, 0
        self._opened, self._group_rows = opened, group_rows
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._file: Any = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self.rows += table.num_rows
        self._waiting.append(table)
        self._waiting_rows += table.num_rows
        if self._waiting_rows >= self._group_rows:
            self._write()

    def close(self) -> bool:
        """Whether there is a file: without a row there is none."""
        if self._waiting:
            self._write()
        if self._writer is None:
            return False
        self._writer.close()
        self._file.close()
        return True

    def _write(self) -> None:
        if self._writer is None:
            names = set(self.schema.names)
            self._file = self._opened()
            self._writer = pq.ParquetWriter(
                self._file,
                self.schema,
                compression="zstd",
                store_schema=False,  # it would tell others of our dictionaries
                write_page_checksum=True,
                write_statistics=sorted(_BOUNDS & names),
                use_dictionary=words_of(self.schema),
                column_encoding=dict.fromkeys(sorted(_STEADY & names), "DELTA_BINARY_PACKED"),
            )
        whole = pa.concat_tables(self._waiting).combine_chunks()  # one dictionary for each column
        self._writer.write_table(whole, row_group_size=max(self._group_rows, 1))
        self._waiting, self._waiting_rows = [], 0
