"""Of a large history, the lies that may matter (`truth.lies`): found in Arrow, some members of one group at a
time. Nearly all lies are news on their way, and none of those ever becomes a row of Spark's.

    told, home ──▶ exchange by group and part of its members ──▶ task: steps, in order of time ──▶ few lies
"""

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.audits.truth import LIES

LASTING_S: Final = 1.0
"""A lie that lasts so long is worth a look, whatever happened meanwhile."""

ROWS_PER_PART: Final = 1_000_000
"""Events of which the members of one task are told, or so: what it holds does not grow with the history."""

NEVER: Final = int(np.iinfo(np.int64).max)
TIME: Final = pa.timestamp("us", tz="UTC")

Numbers = NDArray[np.int64]


class Known(NamedTuple):
    """What every task gets beside its rows. Times are microseconds since 1970; lists are sorted."""

    lookers: dict[tuple[str, str], list[tuple[str, int, int]]]  # who looked at a group of a world, and when
    newest: dict[str, int]  # the end of a world's journals
    moments: dict[str, list[int]]  # at which something happened in a world
    simulated: frozenset[str]  # worlds


def lasting(
    told: DataFrame,
    home: DataFrame,
    informed: DataFrame,
    moments: DataFrame,
    simulated: DataFrame,
    times: DataFrame,
    rows: int,
) -> DataFrame:
    """Of the lies between sight (`told`) and memberships at home the ones that lasted for a second, or in
    which one of these `moments` lies (world, at); and all of simulated worlds (`LIES`). `rows` is the number
    of events."""
    known = Known(
        _lookers(informed),
        dict(times.select("world", F.unix_micros("newest")).collect()),
        _moments(moments),
        frozenset(row["world"] for row in simulated.collect()),
    )
    part = F.pmod(F.xxhash64("member"), F.lit(1 + rows // ROWS_PER_PART))
    key = F.xxhash64("world", "group", part).alias("key")  # quicker to sort by than names are
    stays, memberships = (
        each.select(key, "world", "group", *names, "member", "joined_at", "left_at").groupBy("key")
        for each, names in ((told, ("seen_by",)), (home, ()))
    )

    def found(told: pa.Table, home: pa.Table) -> pa.Table:
        world, group = ((told if told.num_rows else home)[name][0].as_py() for name in ("world", "group"))
        return lies(known, world, group, told, home)

    return stays.cogroup(memberships).applyInArrow(found, LIES)


def lies(known: Known, world: str, group: str, told: pa.Table, home: pa.Table) -> pa.Table:
    """Those of one group."""
    lookers = known.lookers.get((world, group), [])
    members = pa.concat_arrays([*_chunks(told["member"]), *_chunks(home["member"])]).dictionary_encode()
    looking = pa.array([host for host, _, _ in lookers], pa.string())
    hosts = pa.concat_arrays([*_chunks(told["seen_by"]), looking]).dictionary_encode()
    member, host = members.indices.to_numpy(), hosts.indices.to_numpy().astype(np.int64)
    many = max(1, len(members.dictionary))
    seen = host[: told.num_rows] * many + member[: told.num_rows]

    # A member at home is due with every host that looks, for as long as both last.
    at_home = (member[told.num_rows :], _us(home["joined_at"]), _us(home["left_at"]))
    each, began, ended = (np.repeat(column, len(lookers)) for column in at_home)
    by = np.tile(host[told.num_rows :], home.num_rows)
    begins = np.maximum(began, np.tile(_numbers([at for _, at, _ in lookers]), home.num_rows))
    ends = np.minimum(ended, np.tile(_numbers([at for _, _, at in lookers]), home.num_rows))
    lasts = ends > begins
    due = (by * many + each)[lasts]

    joined, left = _us(told["joined_at"]), _us(told["left_at"])
    story = np.concatenate((seen, seen, due, due))
    at = np.concatenate((joined, left, begins[lasts], ends[lasts]))
    sides = np.repeat((0, 0, 1, 1), (len(seen), len(seen), len(due), len(due)))
    by_one = np.repeat((1, -1, 1, -1), (len(seen), len(seen), len(due), len(due)))
    return _lies(known, world, group, (hosts.dictionary, members.dictionary), story, at, sides, by_one)


def _lies(
    known: Known,
    world: str,
    group: str,
    names: tuple[pa.Array, pa.Array],
    story: Numbers,
    at: Numbers,
    sides: Numbers,
    by_one: Numbers,
) -> pa.Table:
    """From the steps of both sides (0 is sight, 1 is home), up and down."""
    order = np.lexsort((at, story))
    order = order[at[order] != NEVER]
    story, at = story[order], at[order]
    first = np.flatnonzero(np.append(True, (story[1:] != story[:-1]) | (at[1:] != at[:-1]))[: len(order)])
    if not len(first):
        return pa.table({field.name: [] for field in _SCHEMA}, schema=_SCHEMA)
    ups = [np.add.reduceat(np.where(sides[order] == side, by_one[order], 0), first) for side in (0, 1)]
    story, at = story[first], at[first]
    begins = np.flatnonzero(np.append(True, story[1:] != story[:-1]))
    length = np.diff(np.append(begins, len(story)))
    # Each sum is one of its own story.
    sums = [np.cumsum(up) - np.repeat(np.cumsum(up)[begins] - up[begins], length) for up in ups]
    is_seen, is_due = sums[0] > 0, sums[1] > 0
    goes_on = np.append(story[1:] == story[:-1], False)
    until = np.where(goes_on, np.append(at[1:], NEVER), NEVER)
    mended = goes_on & np.append(is_seen[1:] != is_seen[:-1], False)
    end = np.where(until == NEVER, known.newest.get(world, 0), until)
    moments = _numbers(known.moments.get(world, []))
    holds = np.searchsorted(moments, at, "left") < np.searchsorted(moments, end, "right")
    matters = (end - at >= int(LASTING_S * 1e6)) | holds | (world in known.simulated)
    chosen = np.flatnonzero((is_seen != is_due) & matters)
    hosts, members = names
    until = until[chosen]
    made = {
        "world": pa.repeat(world, len(chosen)),
        "seen_by": hosts.take(pa.array(story[chosen] // len(members))),
        "group": pa.repeat(group, len(chosen)),
        "member": members.take(pa.array(story[chosen] % len(members))),
        "what": pa.array(np.where(is_seen[chosen], "ghost", "missing"), pa.string()),
        "from_at": pa.array(at[chosen]).cast(TIME),
        "until_at": pa.array(np.where(until == NEVER, 0, until), mask=until == NEVER).cast(TIME),
        "mended": pa.array(mended[chosen]),
    }
    return pa.table([made[name] for name in LIES.names], schema=_SCHEMA)


_SCHEMA: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("world", "seen_by", "group", "member", "what")),
        *(("from_at", TIME), ("until_at", TIME), ("mended", pa.bool_())),
    ]
)


def _lookers(informed: DataFrame) -> dict[tuple[str, str], list[tuple[str, int, int]]]:
    found: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    times = (F.unix_micros("from_at"), F.coalesce(F.unix_micros("until_at"), F.lit(NEVER)))
    for world, group, host, begins, ends in informed.select("world", "group", "seen_by", *times).collect():
        found.setdefault((world, group), []).append((host, begins, ends))
    return found


def _moments(moments: DataFrame) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for world, at in moments.select("world", F.unix_micros("at")).distinct().collect():
        found.setdefault(world, []).append(at)
    return {world: sorted(times) for world, times in found.items()}


def _us(times: pa.ChunkedArray) -> Numbers:
    found: Numbers = pc.fill_null(times.cast(pa.int64()), NEVER).to_numpy()
    return found


def _chunks(values: pa.ChunkedArray) -> list[pa.Array]:
    return [chunk.cast(pa.string()) for chunk in values.chunks]


def _numbers(values: list[int]) -> Numbers:
    return np.array(values, dtype=np.int64)
