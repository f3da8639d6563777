"""Answers have a shape: a named schema, whose columns are documented where they are declared; and words for
people, with columns in them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rostra.errors import BadInput

TYPES: Final[Mapping[str, DataType]] = {
    "text": StringType(),
    "word": StringType(),
    "int64": LongType(),
    "int32": IntegerType(),
    "double": DoubleType(),
    "bool": BooleanType(),
    "time": TimestampType(),
    "texts": ArrayType(StringType()),
    "date": DateType(),
}
"""As the journal calls them."""


def schema(**columns: str) -> StructType:
    """Columns by name, each of a type of `TYPES`; with a question mark, it may be null."""
    return StructType(
        [
            StructField(name, TYPES[kind.removesuffix("?")], nullable=kind.endswith("?"))
            for name, kind in columns.items()
        ]
    )


def shaped(frame: DataFrame, schema: StructType, **columns: Column | str) -> DataFrame:
    """Exactly the columns of a schema, in its order and of its types. A keyword says how a column is made;
    every other column has its name already."""
    made: Mapping[str, Column | str] = columns
    return frame.select(*(_shaped(made.get(field.name, field.name), field) for field in schema))


def sums(
    intervals: DataFrame, per: Sequence[str], begins: str, ends: str, **values: Column | str
) -> DataFrame:
    """What these values add up to, from each change (`at`) to the next (`until`, null at the last): each
    counts while its interval lasts."""
    story = Window.partitionBy(*per).orderBy("at")
    so_far = story.rowsBetween(Window.unboundedPreceding, Window.currentRow)

    def step(at: str, by: int) -> Column:
        columns = {name: F.col(value) if isinstance(value, str) else value for name, value in values.items()}
        return F.struct(F.col(at).alias("at"), *((each * by).alias(name) for name, each in columns.items()))

    steps = (
        intervals.select(*per, F.explode(F.array(step(begins, 1), step(ends, -1))).alias("step"))
        .where(F.col("step.at").isNotNull())
        .groupBy(*per, F.col("step.at").alias("at"))
        .agg(*(F.sum(f"step.{name}").alias(name) for name in values))
    )
    added = (F.sum(name).over(so_far).alias(name) for name in values)
    return steps.select(*per, "at", F.lead("at").over(story).alias("until"), *added)


def said(words: str, **columns: Column) -> Column:
    """Words for people: `said("{seen_by} lost {member}[, fence {fence}]")`. A column that is null is said as
    a question mark; what is in brackets is left out then. `{phi:1}` has one digit behind the point, and
    `{silence_s:s}` is a duration. A keyword says how a column is made."""
    parts: list[Column] = []
    for nth, part in enumerate(re.split(r"\[(.*?)\]", words)):
        if nth % 2:
            parts.append(F.coalesce(F.concat(*_words(part, columns)), F.lit("")))
        else:
            parts += [F.coalesce(each, F.lit("?")) for each in _words(part, columns)]
    return F.concat(*parts)


def _words(words: str, columns: Mapping[str, Column]) -> Iterator[Column]:
    for text, name, how in re.findall(r"([^{]+)|\{(\w+):?(\w?)\}", words):
        if text:
            yield F.lit(text)
            continue
        value = columns[name] if name in columns else F.col(name)
        if how == "s":
            yield _duration(value)
        else:
            yield F.format_number(value, int(how)) if how else value.cast("string")


def _duration(value: Column) -> Column:
    """Of seconds, as `rostra why` writes it."""
    return (
        F.when(value.isNull(), F.lit(None))
        .when(value < 0.095, F.format_string("%.2f s", value))
        .when(value < 9.95, F.format_string("%.1f s", value))
        .otherwise(F.format_string("%.0f s", value))
    )


def seconds(since: Column, until: Column) -> Column:
    """From one time to another, in seconds, to the microsecond and in any time zone."""
    return (F.unix_micros(until) - F.unix_micros(since)) / F.lit(1_000_000.0)


def every(stretch_s: float, at: Column) -> Column:
    """The beginning of the stretch of so many seconds that a time falls into; stretches count from 1970."""
    width = width_us(stretch_s)
    return F.timestamp_micros(F.floor(F.unix_micros(at) / F.lit(width)) * F.lit(width))


def width_us(stretch_s: float) -> int:
    """Of a stretch of so many seconds."""
    width = int(stretch_s * 1_000_000)
    if width <= 0:
        raise BadInput(f"a stretch of {stretch_s:g} s has no length", fix="ask for at least a microsecond")
    return width


def _shaped(given: Column | str, field: StructField) -> Column:
    """By its name it is one call to Java; each step of a column is another."""
    kind = field.dataType.simpleString()
    if isinstance(given, str):
        name = ".".join(f"`{part}`" for part in given.split("."))
        return F.expr(f"cast({name} as {kind}) as `{field.name}`")
    return given.cast(kind).alias(field.name)
