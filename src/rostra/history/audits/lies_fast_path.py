"""For a large history: the differences between sight and truth that may matter (`truth.lies`), found in
Arrow. Nearly all differences are only changes in flight; these are dropped before they become rows of Spark.

    files of whole lives, memberships at home ──▶ task: steps, in order of time ──▶ few lies

    told, home ──▶ exchange by group and part of its members ──▶ the same, some members of one group at a time

The first way is used while every task can be given all memberships. The second needs the same memory however
long a history is.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rostra.history.arrow import STAYS_IN_ARROW, arrow_schema
from rostra.history.arrow_fast_path import SegmentRun, read
from rostra.history.audits.facts import Facts, rows_of
from rostra.history.audits.truth import LIES
from rostra.history.intervals import numbers, stretches
from rostra.history.questions.arrow_fast_path import Stays
from rostra.history.runs import Key

LASTING_S: Final = 1.0
"""A lie that lasts so long is worth a look, whatever happened meanwhile."""

ROWS_PER_PART: Final = 1_000_000
"""Events of which the members of one task are told, or so: what it holds does not grow with the history."""

GIVEN_ROWS: Final = 10_000_000
"""Of so many events, every task is given all memberships at home: some ten megabytes."""

NEVER: Final = int(np.iinfo(np.int64).max)
TIME: Final = pa.timestamp("us", tz="UTC")

Numbers = NDArray[np.int64]

LIES_IN_ARROW: Final = arrow_schema(LIES)


class Known(NamedTuple):
    """What every task gets beside its rows. Times are microseconds since 1970; lists are sorted."""

    lookers: dict[tuple[str, str], list[tuple[str, int, int]]]  # who looked at a group of a world, and when
    newest: dict[str, int]  # the end of a world's journals
    moments: dict[str, list[int]]  # at which something happened in a world, or a simulator settled it
    least_us: int  # what lasts so long matters in any case


def known(facts: Facts) -> Known:
    lookers: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    for each in facts.informed:
        until = NEVER if each.until_at is None else each.until_at
        lookers.setdefault((each.world, each.group), []).append((each.seen_by, each.from_at, until))
    moments: dict[str, set[int]] = {}
    settled = facts.marked(("settled",), "world", "at")
    for world, at in (*settled, *((turn.world, turn.since) for turn in facts.disturbances)):
        moments.setdefault(world, set()).add(at)
    newest = {world: times[1] for world, times in facts.times.items()}
    in_order = {world: sorted(times) for world, times in moments.items()}
    return Known(lookers, newest, in_order, int(LASTING_S * 1e6))


def lasting(told: DataFrame, home: DataFrame, known: Known, rows: int) -> DataFrame:
    """Of the lies between sight (`told`) and memberships at home the ones that lasted for a second, or in
    which something happened (`LIES`). `rows` is the number of events."""
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


class Lying(NamedTuple):
    """What a task does with lives of some writers: their stays, beside all memberships."""

    known: Known
    ends: dict[Key, int]  # of lives
    home: pa.Table  # world, group, member, joined_at, left_at

    def __call__(self, segment_run: SegmentRun) -> Iterator[pa.Table]:
        yield from self.beside(segment_run, told(segment_run, self.ends))

    def beside(self, segment_run: SegmentRun, told: pa.Table) -> Iterator[pa.Table]:
        """If it is known already who saw whom."""
        hosts = set()
        for rows in read(segment_run, ("world", "writer")):
            hosts |= set(rows_of(rows.take(pa.array(_firsts(numbers(rows, ("world", "writer")))))))
        lookers = {
            place: own
            for place, those in self.known.lookers.items()
            if (own := [looker for looker in those if (place[0], looker[0]) in hosts])
        }
        known, home = self.known._replace(lookers=lookers), _by_group(self.home)
        seen = _by_group(told)
        for place in sorted(lookers.keys() | seen.keys()):
            if place in seen or place in home:
                yield lies(known, *place, seen.get(place, told[:0]), home.get(place, self.home[:0]))


def told(segment_run: SegmentRun, ends: Mapping[Key, int]) -> pa.Table:
    """Who saw whom, as these writers were told."""
    return ended(
        pa.concat_tables([*Stays()(segment_run), STAYS_IN_ARROW.empty_table()]).combine_chunks(), ends
    )


def ended(stays: pa.Table, ends: Mapping[Key, int]) -> pa.Table:
    """Those that no row ended last until the ends of lives."""
    left = _us(stays["left_at"]).copy()
    for start, stop, key in stretches(stays):
        mine = left[start:stop]
        mine[mine == NEVER] = ends.get(key, NEVER)
    return stays.drop_columns(["left_at"]).append_column("left_at", _times(left))


def _firsts(values: Numbers) -> Numbers:
    return np.unique(values, return_index=True)[1]


def _by_group(rows: pa.Table) -> dict[tuple[str, str], pa.Table]:
    """Rows of each group of a world."""
    if not rows.num_rows:
        return {}
    number = numbers(rows, ("world", "group"))
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(number[order]) != 0)[: len(order)])
    found = {}
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        some = rows.take(pa.array(order[start:stop]))
        found[some["world"][0].as_py(), some["group"][0].as_py()] = some
    return found


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
        return pa.table({field.name: [] for field in LIES_IN_ARROW}, schema=LIES_IN_ARROW)
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
    matters = (end - at >= known.least_us) | holds
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
        "until_at": _times(until),
        "mended": pa.array(mended[chosen]),
    }
    return pa.table([made[name] for name in LIES.names], schema=LIES_IN_ARROW)


def _us(times: pa.ChunkedArray) -> Numbers:
    found: Numbers = pc.fill_null(times.cast(pa.int64()), NEVER).to_numpy()
    return found


def _times(us: Numbers) -> pa.Array:
    return pa.array(np.where(us == NEVER, 0, us), mask=us == NEVER).cast(TIME)


def _chunks(values: pa.ChunkedArray) -> list[pa.Array]:
    return [chunk.cast(pa.string()) for chunk in values.chunks]


def _numbers(values: list[int]) -> Numbers:
    return np.array(values, dtype=np.int64)
