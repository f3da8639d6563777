"""What audits rest on, beside a slow look at every pair: in plain Python, without Spark."""

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rostra.history.audits.facts import AuditedLife, Calm, Facts, Fault, met, relived, rows_of
from rostra.history.audits.kept import table_of
from rostra.history.audits.marks import MARKS
from rostra.history.audits.obstacles import TIME, Obstacles
from rostra.history.places import places_between

HOSTS = ("eu.p.h1", "eu.p.h2", "eu.q.h1", "us.n.h1")
PLACES = (*HOSTS, "eu", "eu.p", "us", "^eu.p", "^eu.p.h1", "eu|us", "eu.p|eu.q")

times = st.integers(0, 20_000)
lengths = st.sampled_from([0, 1, 999, 1_000, 5_000])
spans = st.tuples(times, lengths).map(lambda span: (span[0], sum(span)))
faults = st.lists(st.tuples(st.sampled_from(PLACES), spans), min_size=1, max_size=8).map(
    lambda those: sorted(Fault("w", place, *span) for place, span in those)
)


class Broken(Facts):
    """A world in which this failed, from 0 to 30,000."""

    def __init__(self, failed: list[Fault]) -> None:
        super().__init__([AuditedLife("w", "eu.p.h1", "agent", 1, 0, 30_000, 1, "closing", True)], _marks([]))
        self.__dict__["faults"] = failed


def _marks(rows: list[dict[str, Any]]) -> pa.Table:
    given = {"world": "w", "epoch": 1, "nth": 0}
    return table_of([tuple({**given, **row}.get(name) for name in MARKS.names) for row in rows], MARKS)


@given(
    faults,
    st.lists(
        st.tuples(st.sampled_from(HOSTS), st.sampled_from(HOSTS), spans, st.sampled_from([0, -3])),
        max_size=40,
    ),
)
def test_every_fault_that_stands_in_the_way_is_found(failed, asked):
    """An interval that ends before it begins meets none."""
    rows = [("w", here, f"{there}/m#1", begins, ends + less) for here, there, (begins, ends), less in asked]
    columns = list(zip(*rows, strict=True)) or [()] * 5
    words = {
        name: pa.array(columns[nth], pa.string()) for nth, name in enumerate(("world", "seen_by", "member"))
    }
    given = pa.table({**words, "from_at": _times(columns[3]), "end": _times(columns[4])})
    batches = iter(given.to_batches(max_chunksize=7))
    found = [row for batch in Obstacles(failed)(batches) for row in rows_of(pa.Table.from_batches([batch]))]
    assert sorted(found) == sorted(
        (*row, fault.place, fault.from_at, fault.until_at)
        for row, (here, there, _, _) in zip(rows, asked, strict=True)
        for fault in failed
        if fault.place in places_between(here, there)
        and row[3] <= row[4]
        and row[3] <= fault.until_at
        and fault.from_at <= row[4]
    )


@given(faults, st.sets(times, min_size=2, max_size=8), st.sampled_from([1, 500, 4_000]))
def test_a_calm_knows_what_does_not_work_in_it(failed, turns, wait_us):
    facts = Broken(failed)
    stretches = [each._replace(wait_us=wait_us) for each in facts.between(("w", at) for at in turns)]
    found = facts.with_broken(stretches)
    assert found == [
        each._replace(
            broken=tuple(sorted({f.place for f in failed if f.from_at < each.moment <= f.until_at}))
        )
        for each in stretches
        if each.calm_until - each.since >= wait_us
    ]
    first: set[Fault] = set()
    for fault in failed:
        those = (
            c.moment for c in found if fault.place in c.broken and fault.from_at < c.moment <= fault.until_at
        )
        first |= {
            fault._replace(from_at=at, until_at=at) for at in (min(those, default=None),) if at is not None
        }
    assert list(facts.failing_first(found)) == sorted(first)


@given(st.lists(st.tuples(times, st.none() | lengths), max_size=6), st.sets(times, min_size=1, max_size=6))
def test_what_lasts_too_long_in_a_calm_is_found_with_its_moment(intervals, turns):
    facts = Broken([])
    calm = [each._replace(wait_us=500) for each in facts.between(("w", at) for at in turns)]
    asked = [(nth, "w", at, None if us is None else at + us) for nth, (at, us) in enumerate(intervals)]
    slowly = [
        (nth, each, max(at, each.since) + 500)
        for nth, _, at, until in asked
        for each in calm
        if min(30_000 if until is None else until, each.calm_until) - max(at, each.since) >= 500
    ]
    assert list(met(asked, calm, facts.times)) == slowly


def test_a_host_follows_from_its_first_list_until_the_last_endpoint_is_gone():
    rows = [("followed", 10, 2), ("absolute", 12, 2), ("unfollowed", 20, 1), ("unfollowed", 30, 1)]
    rows += [("followed", 40, 1), ("absolute", 41, 1), ("followed", 42, 3)]  # and to the end of its life
    marks = [
        {"kind": kind, "writer": "eu.p.h1", "seq": at, "at": at, "group": "g@eu", "told": told}
        for kind, at, told in rows
    ]
    life = AuditedLife("w", "eu.p.h1", "agent", 1, 0, 100, 7, "closing", True)
    for ended_by, end in (("closing", 100), (None, None)):
        facts = Facts([life._replace(ended_by=ended_by)], _marks(marks))
        assert [each[4:] for each in facts.informed] == [(12, 30), (41, end)]


def test_a_link_that_its_writer_lost_with_its_life_is_down_until_the_life_ends():
    marks = [
        {"kind": f"link-{kind}", "writer": "eu.p", "seq": at, "at": at, "epoch": epoch, "peer": "eu"}
        for kind, at, epoch in (("down", 10, 1), ("up", 20, 1), ("down", 30, 1), ("up", 90, 2))
    ]
    lives = [
        AuditedLife("w", "eu.p", "server", 1, 0, 50, 9, "unknown", True),
        AuditedLife("w", "eu.p", "server", 2, 80, 100, 9, "closing", True),
    ]
    facts = Facts(lives, _marks(marks))
    links = [each[2:] for each in facts.faults if each.place == "^eu.p"]
    assert links == [(10, 20), (30, 50)]
    [tail] = facts.doubts
    assert (tail.what, tail.from_at, tail.until_at) == ("lost tail", 50, 80)
    assert facts.shares == {"w": 0.7}


def test_lives_whose_clocks_were_put_right_end_as_they_look_then():
    """By its own clock, ten minutes ahead, one was the only one that went on."""
    ahead = AuditedLife("w", "a", "agent", 1, 0, 700_000_000, 1, None, True)
    behind = AuditedLife("w", "b", "agent", 1, 0, 100_000_000, 1, "unknown", True)
    found = relived([ahead._replace(last_at=100_000_000), behind])
    assert [life.ended_by for life in found] == [None, None]


def test_two_stretches_with_one_disturbance_between_them_are_two():
    assert [each[1:3] for each in Broken([]).between([("w", 5), ("w", 9), ("w", 5)])] == [(5, 9), (9, 30_000)]
    assert Calm("w", 5, 9, 3, False).moment == 8


def _times(values: Any) -> pa.Array:
    return pa.array(values, pa.int64()).cast(TIME)
