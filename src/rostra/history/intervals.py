"""Stays in Arrow: which ones a batch ends, and which are open after it, for some lives of writers at once.

    open   ─┐
            ├─▶  stories side by side, each in order  ─▶  ended   (a row followed)
    sight  ─┘                                          └▶  open    (none did)

The result is the same table as that of the question `stays`, a Spark window over all rows; a test compares
the two. Here all rows of a life are in one place and in order already, so nothing is shuffled: each story
(one member in one group) gets a number, and a stable sort by it puts each row before its successor.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rostra.history.arrow import STAYS_IN_ARROW
from rostra.history.runs import Key
from rostra.journal.schema import SIGHT

LIFE: Final = ("world", "seen_by", "epoch")
STORY: Final = (*LIFE, "group", "member")
ROOM: Final = 2**62


class Ending(NamedTuple):
    """The end of a writer's life, which ends whatever it still saw."""

    at_us: int
    by: str  # closing | unknown


def sight(events: pa.Table) -> pa.Table:
    """The rows that change what a host sees, as beginnings and ends of stays."""
    is_sight = pc.is_in(events["kind"], pa.array(SIGHT))
    is_change = pc.is_in(events["change"], pa.array(("joined", "left")))
    news = pc.and_(pc.and_(is_sight, is_change), pc.and_(events["news"], pc.is_valid(events["member"])))
    names = ("world", "writer", "epoch", "group", "member", "life", "stamp", "seq", "at", "cause", "change")
    rows = events.select(names).filter(pc.fill_null(news, False))
    return changes(rows, pc.equal(rows["change"], "joined"))


def changes(rows: pa.Table, is_join: pa.ChunkedArray) -> pa.Table:
    """Rows as beginnings and ends of stays, or of memberships."""
    named = {name: rows["writer" if name == "seen_by" else name] for name in STORY}
    others = {name: rows[name] for name in ("life", "stamp", "seq", "at", "cause")}
    return pa.table({**named, **others, "is_join": is_join})


def fold(opened: pa.Table, changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Stays that last and what happened next -> stays that have ended, and those that last now.

    The changes of one life are in order of `seq`, and later than whatever is open.
    """
    rows = pa.concat_tables([_beginnings(opened), changes]).combine_chunks()
    following = _following(rows)
    is_join = rows["is_join"].to_numpy()
    begins = np.flatnonzero(is_join)
    ends = following[begins]
    left = ends >= 0
    ended = _stays(rows, begins[left], ends[left], is_join)
    return ended, _stays(rows, begins[~left], None, is_join)


def end(opened: pa.Table, endings: Mapping[Key, Ending]) -> tuple[pa.Table, pa.Table]:
    """Those that end with the lives that saw them, and those that last."""
    if not endings or not opened.num_rows:
        return opened.slice(0, 0), opened
    keys = {key: place for place, key in enumerate(endings)}
    place = np.full(opened.num_rows, -1)
    for start, stop, key in stretches(opened):
        place[start:stop] = keys.get(key, -1)
    over = place >= 0
    chosen = list(endings.values())
    ended = opened.filter(pa.array(over))
    which = place[over]
    at = pa.array(np.array([each.at_us for each in chosen])[which]).cast(STAYS_IN_ARROW.field("left_at").type)
    by = pa.array([each.by for each in chosen]).dictionary_encode().take(pa.array(which))
    ended = _set(_set(ended, "left_at", at), "ended_by", by)
    return ended, opened.filter(pa.array(~over))


def counted(opened: pa.Table) -> dict[Key, int]:
    """How many last, for each life that sees any."""
    counts: dict[Key, int] = {}
    for start, stop, key in stretches(opened):
        counts[key] = counts.get(key, 0) + stop - start
    return counts


def by_life(opened: pa.Table) -> pa.Table:
    """Together what one life sees: then it is found without reading the others."""
    return opened.take(pa.array(np.argsort(numbers(opened, LIFE), kind="stable")))


def stretches(opened: pa.Table) -> Iterable[tuple[int, int, Key]]:
    """Rows of one life that are side by side."""
    if not opened.num_rows:
        return
    life = numbers(opened, LIFE)
    starts = [0, *(np.flatnonzero(life[1:] != life[:-1]) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], len(life)], strict=True):
        world, writer, epoch = (opened[name][start].as_py() for name in LIFE)
        yield start, stop, Key(world, writer, epoch)


def _beginnings(opened: pa.Table) -> pa.Table:
    """As the rows that began them; what ended them is null in all."""
    return pa.table(
        {
            **{name: opened[name] for name in (*STORY, "life", "stamp")},
            "seq": opened["joined_seq"],
            "at": opened["joined_at"],
            "cause": opened["joined_by"],
            "is_join": pa.array(np.ones(opened.num_rows, dtype=bool)),
        }
    )


def _following(rows: pa.Table) -> NDArray[np.int64]:
    """The place of the next row of the same story, or -1."""
    story = numbers(rows, STORY)
    order = np.argsort(story, kind="stable")
    in_order = story[order]
    same = in_order[:-1] == in_order[1:]
    following = np.full(len(story), -1, dtype=np.int64)
    following[order[:-1][same]] = order[1:][same]
    return following


def numbers(rows: pa.Table, names: Iterable[str]) -> NDArray[np.int64]:
    """One number for each combination of values."""
    number = np.zeros(rows.num_rows, dtype=np.int64)
    many = 1
    for name in names:
        coded = encoded(rows[name])
        values = len(coded.dictionary) + 1
        if many * values > ROOM:  # as few numbers as there are combinations
            known, number = np.unique(number, return_inverse=True)
            many = len(known)
        number = number * values + coded.indices.fill_null(values - 1).to_numpy()
        many *= values
    return number


def _stays(
    rows: pa.Table, begins: NDArray[np.int64], ends: NDArray[np.int64] | None, is_join: NDArray[np.bool_]
) -> pa.Table:
    many = len(begins)
    began = rows.take(pa.array(begins))
    made: dict[str, Any] = {name: began[name] for name in (*STORY, "life", "stamp")}
    made |= {"joined_seq": began["seq"], "joined_at": began["at"], "joined_by": began["cause"]}
    if ends is None:
        made |= {
            name: pa.nulls(many, STAYS_IN_ARROW.field(name).type)
            for name in ("left_seq", "left_at", "ended_by")
        }
    else:
        after = rows.select(("seq", "at", "cause")).take(pa.array(ends))
        cause = pc.fill_null(after["cause"].cast(pa.string()), "left")
        by = pc.if_else(pa.array(is_join[ends]), "joined again", cause)
        made |= {"left_seq": after["seq"], "left_at": after["at"], "ended_by": pc.dictionary_encode(by)}
    return pa.table([made[name] for name in STAYS_IN_ARROW.names], schema=STAYS_IN_ARROW)


def encoded(values: pa.ChunkedArray) -> pa.DictionaryArray:
    """Each value as its number in a dictionary."""
    whole = values.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks)
    return whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()


def _set(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), STAYS_IN_ARROW.field(name), values)
