"""What hosts see and what is true differ where a slow look at every moment says so, in Arrow as by Spark."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from rostra.history.audits.lies_fast_path import NEVER, TIME, Known, lies

SECOND = 1_000_000
NEWEST = 40 * SECOND

hosts, members = st.sampled_from(["eu.h1", "eu.h2"]), st.sampled_from(["eu.h1/a#1", "eu.h2/b#1"])
times = st.integers(0, 30).map(lambda at: at * SECOND // 2)
lasted = st.one_of(st.none(), st.integers(1, 20).map(lambda halves: halves * SECOND // 2))
spans = st.tuples(times, lasted).map(lambda span: (span[0], None if span[1] is None else sum(span)))

Span = tuple[int, int | None]


def covers(span: Span, at: int) -> bool:
    return span[0] <= at and (span[1] is None or at < span[1])


def slowly(
    told: list[Any], home: list[Any], looking: list[Any], moments: list[int], every: bool
) -> list[Any]:
    """Every story by itself, from one change to the next."""
    found = []
    for host in ("eu.h1", "eu.h2"):
        for member in ("eu.h1/a#1", "eu.h2/b#1"):
            seen = [span for by, who, span in told if (by, who) == (host, member)]
            due = [
                (max(span[0], look[0]), min((end for end in (span[1], look[1]) if end), default=None))
                for who, span in home
                for by, look in looking
                if (by, who) == (host, member)
            ]
            due = [span for span in due if span[1] is None or span[1] > span[0]]
            changes = sorted({at for span in (*seen, *due) for at in span if at is not None})
            for at, until in pairwise((*changes, None)):
                assert at is not None
                is_seen, is_due = (any(covers(span, at) for span in spans) for spans in (seen, due))
                end = NEWEST if until is None else until
                matters = every or end - at >= SECOND or any(at <= moment <= end for moment in moments)
                if is_seen != is_due and matters:
                    later = until is not None and any(covers(span, until) for span in seen) != is_seen
                    what = "ghost" if is_seen else "missing"
                    found.append((host, member, what, at, until, later))
    return sorted(found, key=repr)


@given(
    st.lists(st.tuples(hosts, members, spans), max_size=6),
    st.lists(st.tuples(members, spans), max_size=4),
    st.lists(st.tuples(hosts, spans), max_size=3),
    st.lists(times, max_size=2),
    st.booleans(),
)
@example([("eu.h1", "eu.h1/a#1", (0, SECOND // 2))], [], [], [SECOND // 2], False)  # at its very end
@example(  # due for no time at all
    [("eu.h1", "eu.h1/a#1", (0, 9 * SECOND))],
    [("eu.h1/a#1", (0, SECOND))],
    [("eu.h1", (SECOND, None))],
    [],
    True,
)
def test_a_lie_is_where_a_look_at_every_change_finds_one(told, home, looking, moments, every) -> None:
    column = lambda values, kind: pa.chunked_array([pa.array(values, kind)])  # noqa: E731
    known = Known(
        {("w", "g@eu"): [(by, look[0], NEVER if look[1] is None else look[1]) for by, look in looking]},
        {"w": NEWEST},
        {"w": sorted(moments)},
        0 if every else SECOND,
    )
    names = ("joined_at", "left_at")
    sight = {"seen_by": column([by for by, _, _ in told], pa.string())}
    sight["member"] = column([who for _, who, _ in told], pa.string())
    truth = {"member": column([who for who, _ in home], pa.string())}
    for place, name in enumerate(names):
        sight[name] = column([span[place] for *_, span in told], TIME)
        truth[name] = column([span[place] for _, span in home], TIME)
    answer = lies(known, "w", "g@eu", pa.table(sight), pa.table(truth))
    us = [answer[name].cast(pa.int64()).to_pylist() for name in ("from_at", "until_at")]
    rest = [answer[name].to_pylist() for name in ("seen_by", "member", "what", "mended")]
    found = [
        (by, who, what, at, until, mended)
        for by, who, what, mended, at, until in zip(*rest, *us, strict=True)
    ]
    assert sorted(found, key=repr) == slowly(told, home, looking, moments, every)
