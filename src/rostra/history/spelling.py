"""A name that is not in the history is a mistake: the error suggests the closest one that is.

A transform starts no job, so it cannot look names up before it returns. The plan does: beside the answer it
collects the names in the events, and fails with one line if the requested one is not among them. A stream may
wait for a name.
"""

import difflib
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from inspect import signature
from typing import Concatenate, ParamSpec

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from rostra.history.places import enclosing
from rostra.names import ROOT

P = ParamSpec("P")


def closest(word: str, known: Collection[str], *, alike: float = 0.6) -> str:
    """For an error: the one that was meant, or what there is."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=alike)
    return f"did you mean {close[0]}?" if close else f"one of: {', '.join(sorted(known)[:8])}"


def looks_up(
    *groups: str, places: Sequence[str] = ()
) -> Callable[
    [Callable[Concatenate[DataFrame, P], DataFrame]], Callable[Concatenate[DataFrame, P], DataFrame]
]:
    """A transform of events whose parameters of these names are groups, or places with a writer."""

    def checked(
        ask: Callable[Concatenate[DataFrame, P], DataFrame],
    ) -> Callable[Concatenate[DataFrame, P], DataFrame]:
        @wraps(ask)
        def asked(events: DataFrame, /, *args: P.args, **kwargs: P.kwargs) -> DataFrame:
            given = signature(ask).bind(events, *args, **kwargs)
            given.apply_defaults()
            written = F.array_distinct(F.flatten(F.transform("writers", enclosing)))
            wrong = [
                *(_unknown("group", given.arguments[name], F.col("groups")) for name in groups),
                *(
                    _unknown("place", given.arguments[name], written)
                    for name in places
                    if given.arguments[name] != ROOT
                ),
            ]
            answer = ask(events, *args, **kwargs)
            return _or_fail(answer, events, wrong) if wrong and not events.isStreaming else answer

        return asked

    return checked


def _unknown(what: str, name: str, known: Column) -> Column:
    """Fails if some are known, and this is not one of them."""
    by_distance = F.transform(
        known, lambda each: F.struct(F.levenshtein(each, F.lit(name)), each.alias("name"))
    )
    nearest = F.array_min(by_distance)["name"]
    says = F.concat(F.lit(f"no {what} '{name}' is in these events; did you mean "), nearest, F.lit("?"))
    return F.when((F.size(known) > 0) & ~F.array_contains(known, name), F.raise_error(says).cast("boolean"))


def _or_fail(answer: DataFrame, events: DataFrame, wrong: Sequence[Column]) -> DataFrame:
    """The same answer. What looks is another part of the plan, which has no rows; its columns are there and
    not null, so that the answer's are as they were."""
    names = events.agg(F.collect_set("group").alias("groups"), F.collect_set("writer").alias("writers"))
    nothing = [
        (F.array() if isinstance(field.dataType, ArrayType) else F.lit(0))
        .cast(field.dataType)
        .alias(field.name)
        for field in answer.schema
    ]
    return answer.unionByName(names.where(F.coalesce(*wrong)).select(*nothing))
