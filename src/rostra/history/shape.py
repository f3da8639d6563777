"""Answers have a shape: a named schema, whose columns are documented where they are declared."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from rostra.errors import BadInput


def shaped(frame: DataFrame, schema: StructType, **columns: Column | str) -> DataFrame:
    """Exactly the columns of a schema, in its order and of its types. A keyword says how a column is made;
    every other column has its name already."""
    made: Mapping[str, Column | str] = columns
    return frame.select(*(_shaped(made.get(field.name, field.name), field) for field in schema))


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
