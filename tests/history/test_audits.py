"""Audits can fail: each kind of broken promise, planted in the journal of a world that kept them all, is
found and pointed at; and on storms, fine and with planted bugs, they say what the simulator's checkers say.

Every case is a world of its own, and all of them are judged together: see `support.court`.
"""

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from faults.test_faults_find_bugs import (
    announces_nothing_when_the_link_comes_up,
    passes_no_change_on_to_siblings,
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from support.by_hand import (
    CLOCKED,
    NUMBERED,
    SMOOTH,
    STREAMS,
    behind_a_server,
    clocked,
    crowded,
    flowing,
    numbered,
    real_world,
    streams,
    without_its_beginning,
)
from support.calm import calm_world
from support.court import Court, quiet
from support.journal import Journal, Row, frame
from support.parity import CALM_BOUND_S, STORM_BOUND_S, bounds_of, slowed
from support.segments import SCHEMA

from rostra.errors import BadInput
from rostra.history.audits import PROMISES, Evidence, coverage, findings, judge, lines_around, offences
from rostra.history.audits import kept as facts
from rostra.history.audits.findings import FINDINGS
from rostra.history.audits.lies_fast_path import ROWS_PER_PART, known, lasting
from rostra.history.audits.replay import replay_command
from rostra.history.audits.truth import LIES
from rostra.history.runs import Key
from rostra.journal.entries import OBSERVERS_MAX
from rostra.journal.schema import segment_name
from rostra.journal.segments import read
from rostra.sim import checkers
from rostra.sim.storm import _journal, _Storm

Rows = list[Row]
Plant = Callable[[Rows], Row]


def rows_of(directory: Path, world: str) -> Rows:
    return [{**row, "world": world} for row in read(directory).to_pylist()]


def peaceful(directory: Path) -> Rows:
    """A calm world, and time for every bound to pass."""
    world = calm_world(journal=directory)
    world.run(CALM_BOUND_S)
    world.close()
    return slowed(rows_of(directory, "fine"))


# Planting: a row is changed or becomes another, but none is added or lost, so that numbers have no holes.


def find(rows: Rows, writer: str, kind: str, nth: int = 0, **values: Any) -> Row:
    found = [
        row
        for row in rows
        if (row["writer"], row["kind"]) == (writer, kind) and all(row[k] == v for k, v in values.items())
    ]
    return found[nth]


def silence(*rows: Row) -> Row:
    """The row was never written; something else was."""
    keep = ("world", "writer", "role", "epoch", "seq", "at", "virtual_s")
    for row in rows:
        for name in row:
            if name not in keep:
                row[name] = None
        row.update(kind="heartbeat", nth=0, of=1)
    return rows[0]


def spare(rows: Rows, after: Row) -> Row:
    """A row of the same writer, soon after, that no promise speaks of: one about traffic."""
    return next(
        row
        for row in rows
        if (row["writer"], row["epoch"]) == (after["writer"], after["epoch"])
        and row["seq"] > after["seq"]
        and row["kind"] in ("sent", "received", "heartbeat")
    )


def again(rows: Rows, told: Row, **changes: Any) -> Row:
    """The same thing once more and in the same instant, in the place of the next row that does not matter."""
    place = spare(rows, told)
    kept = {name: place[name] for name in ("seq", "epoch", "writer")}
    place.update({**told, **kept, **changes})
    return place


def behind_the_cut(rows: Rows, host: str) -> Rows:
    return [row for row in rows if (row["writer"], row["kind"]) == (host, "without")]


def merged(rows: Rows, host: str) -> Rows:
    return [
        row
        for row in rows
        if (row["writer"], row["kind"], row["cause"], row["change"]) == (host, "joined", "merge", "joined")
    ]


def an_older_join_after_the_newer(rows: Rows) -> Row:
    row = find(rows, "haifa.a", "joined", -1, cause="join", change="joined")
    row["stamp"] = 0
    return row


def an_older_leave_after_the_newer_join(rows: Rows) -> Row:
    row = find(rows, "haifa.a", "left")
    row.update(life=1, stamp=1)
    return row


def an_up_after_an_up(rows: Rows) -> Row:
    row = find(rows, "haifa", "link-down", peer="paris")
    row["kind"] = "link-up"
    return row


def a_ghost_in_a_view(rows: Rows) -> Row:
    join = find(rows, "haifa.a", "joined", 0, cause="join", change="joined")
    again(rows, join, member="paris.d/ghost#1000")
    return {"writer": "haifa.a"}


def a_member_that_nobody_was_told_of(rows: Rows) -> Row:
    silence(merged(rows, "haifa.b")[0])
    return {"writer": "haifa.b"}


def no_snapshot_at_all(rows: Rows) -> Row:
    silence(*[r for r in rows if (r["writer"], r["kind"]) == ("paris.c", "absolute")])
    return find(rows, "paris.c", "followed")


def somebody_behind_a_cut_is_still_seen(rows: Rows) -> Row:
    silence(*behind_the_cut(rows, "haifa.a"))
    return {"writer": "haifa.a"}


def a_leave_told_twice(rows: Rows) -> Row:
    return again(rows, find(rows, "haifa.a", "left"), news=False)


def a_join_told_twice(rows: Rows) -> Row:
    join = find(rows, "haifa.a", "joined", -1, cause="join", change="joined")
    return again(rows, join, member=None, life=None, stamp=None, change="kept", news=False, count=1)


def a_change_never_told(rows: Rows) -> Row:
    """A leave and the join after it: the view is right at the end, and still something is missing."""
    silence(find(rows, "haifa.a", "left"), find(rows, "haifa.a", "joined", -1, cause="join", change="joined"))
    return {"writer": "haifa.a"}


def a_change_that_never_happened(rows: Rows) -> Row:
    join = find(rows, "haifa.a", "joined", -1, cause="join", change="joined")
    return again(rows, join, member="paris.d/ghost#1000", stamp=77)


def a_gap_without_a_snapshot(rows: Rows) -> Row:
    left = find(rows, "haifa.a", "left")
    gap = again(rows, left)
    keep = ("world", "writer", "role", "epoch", "seq", "at", "virtual_s", "group", "observers", "told")
    for name in gap:
        if name not in keep:
            gap[name] = None
    gap.update(kind="gap", nth=0, of=1, count=1)
    return gap


def one_side_is_not_told(rows: Rows) -> Row:
    silence(*behind_the_cut(rows, "haifa.a"))
    return {"writer": "haifa.a"}


def one_side_is_told_too_late(rows: Rows) -> Row:
    healed = next(row for row in rows if row["kind"] == "line-changed" and row["change"] == "healed")
    for row in behind_the_cut(rows, "paris.c"):
        row["at"] = healed["at"]
    return {"writer": "paris.c"}


def one_side_is_told_twice(rows: Rows) -> Row:
    return again(rows, behind_the_cut(rows, "haifa.a")[0], news=False)


def members_are_taken_away_one_by_one(rows: Rows) -> Row:
    row = behind_the_cut(rows, "haifa.a")[0]
    row.update(
        kind="left",
        cause="crash",
        stamp=99,
        domain=None,
        inside=None,
        accuser=None,
        accused=None,
        nth=0,
        of=1,
    )
    return row


def a_merge_that_never_comes(rows: Rows) -> Row:
    silence(*merged(rows, "haifa.a"))
    return {"writer": "haifa.a"}


def a_merge_without_one_member(rows: Rows) -> Row:
    silence(merged(rows, "haifa.a")[1])
    return {"writer": "haifa.a"}


def a_removal_without_a_reason(rows: Rows) -> Row:
    row = behind_the_cut(rows, "haifa.a")[0]
    row["accuser"] = None
    return row


def an_accusation_that_the_accuser_never_made(rows: Rows) -> Row:
    row = behind_the_cut(rows, "haifa.a")[0]
    silence(*[r for r in rows if (r["writer"], r["kind"]) == (row["accuser"], "link-down")])
    return row


def a_leave_that_home_never_had(rows: Rows) -> Row:
    silence(find(rows, "paris.d", "member-left"))
    return find(rows, "haifa.a", "left")


PLANTED: list[tuple[str, Plant]] = [
    ("per-source-order", an_older_join_after_the_newer),
    ("per-source-order", an_older_leave_after_the_newer_join),
    ("per-source-order", an_up_after_an_up),
    ("stable-truth", a_ghost_in_a_view),
    ("stable-truth", a_member_that_nobody_was_told_of),
    ("stable-truth", no_snapshot_at_all),
    ("stable-truth", somebody_behind_a_cut_is_still_seen),
    ("watch-complete", a_leave_told_twice),
    ("watch-complete", a_join_told_twice),
    ("watch-complete", a_change_never_told),
    ("watch-complete", a_change_that_never_happened),
    ("watch-complete", a_gap_without_a_snapshot),
    ("both-sides-told", one_side_is_not_told),
    ("both-sides-told", one_side_is_told_too_late),
    ("both-sides-told", one_side_is_told_twice),
    ("both-sides-told", members_are_taken_away_one_by_one),
    ("heals-alone", a_merge_that_never_comes),
    ("heals-alone", a_merge_without_one_member),
    ("why", a_removal_without_a_reason),
    ("why", an_accusation_that_the_accuser_never_made),
    ("why", a_leave_that_home_never_had),
]


# Storms


class Blown:
    """What a storm left: its journal's world, and what the checkers say of it."""

    def __init__(self, seed: int, shape: str, directory: Path) -> None:
        storm = _Storm(seed, shape, _journal(directory, f"{shape}-{seed}"))
        try:
            storm.blow_over()
            self.failed = False
        except Exception:
            self.failed = True
        finally:
            storm.world.close()
        history = storm.world.history
        self.world = f"blown-{shape}-{seed}"
        self.said = {
            verdict.promise: verdict.answer
            for verdict in (
                checkers.per_source_order(history),
                checkers.stable_truth(history),
                checkers.watch_complete(history),
                checkers.both_sides_told(history, bound_s=30.0),
                checkers.heals_alone(history, bound_s=30.0),
            )
        }
        self.rows = rows_of(directory, self.world)


FINE_STORMS = [(0, "pair"), (3, "pair"), (4, "single"), (5, "uneven"), (1, "uneven")]
"""In the last one a host stands still while a program on it waits for its first list."""
BUGS = [passes_no_change_on_to_siblings, announces_nothing_when_the_link_comes_up]


def buggy_storm(plant: Callable[[pytest.MonkeyPatch], None], directory: Path) -> Blown:
    """The first storm that the bug makes fail; its journal ends where the storm was found out."""
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        for seed in range(150):
            place = directory / f"{plant.__name__}-{seed}"
            place.mkdir()
            storm = Blown(seed, "pair", place)
            if storm.failed:
                storm.world = f"{plant.__name__}-{seed}"
                storm.rows = [{**row, "world": storm.world} for row in storm.rows]
                return storm
    raise AssertionError("the bug was not found")


class Brought:
    """Every world of these tests."""

    def __init__(self, directory: Path) -> None:
        fine = peaceful(directory / "fine")
        rows = list(fine)
        self.places: dict[str, Row] = {}
        for _, plant in PLANTED:
            case = [{**row, "world": plant.__name__} for row in fine]
            self.places[plant.__name__] = plant(case)
            rows += case
        self.storms = [Blown(*each, directory / f"storm-{each[0]}-{each[1]}") for each in FINE_STORMS]
        self.bugs = [buggy_storm(bug, directory) for bug in BUGS]
        for storm in (*self.storms, *self.bugs):
            rows += storm.rows
        for cases, write in ((STREAMS, streams), (NUMBERED, numbered), (SMOOTH, flowing)):
            for world, (_, turns) in cases.items():
                journal = Journal(world)
                write(journal, *turns)
                rows += journal.rows
        for world, wrong in (("crowded", 0), ("crowded-and-wrong", 1)):
            journal = Journal(world)
            crowded(journal, wrong)
            rows += journal.rows
        for world, ahead_s in CLOCKED.items():
            rows += clocked(world, ahead_s)
        rows += clocked("set-while-it-runs", 600, set_while_it_runs=True)
        rows += real_world("real") + real_world("real-and-wrong")
        rows += real_world("real-and-killed-whole", killed=True)
        rows += real_world("real-with-a-lost-tail", closing=False) + real_world("real-with-a-hole", lose=True)
        rows += without_its_beginning(real_world("real-without-a-beginning"))
        rows += behind_a_server("restarted-server", lose=False)
        rows += behind_a_server("restarted-server-with-a-hole", lose=True)
        self.table = pa.Table.from_pylist(quiet(rows), SCHEMA)


class Judged:
    """They, and what is said of them."""

    def __init__(self, court: Court) -> None:
        self.events, self.evidence, self._court = court.events, court.evidence, court
        brought = court.brought[__name__]
        self.places, self.storms, self.bugs = brought.places, brought.storms, brought.bugs

    def verdict(self, promise: str, world: str, bound_s: float | None = None) -> Any:
        return self._court.verdicts(promise, bound_s)[world]


@pytest.fixture(scope="module")
def judged(court):
    return Judged(court)


LED = ("one-registrar", "one-leader", "exact-list", "members-listed")
OTHERS = (
    *("fifo-gap-free", "smooth-join", "same-view", "every-change", "one-living"),
    *("total-order", "all-or-none", *LED),
)
CONGRESS = [name for name in PROMISES if name not in OTHERS]


@pytest.mark.parametrize("promise", CONGRESS)
def test_a_peaceful_world_keeps_every_promise(promise, judged):
    verdict = judged.verdict(promise, "fine", bounds_of(promise, STORM_BOUND_S))
    assert (verdict.answer, verdict.broken, verdict.doubts) == ("yes", 0, 0), verdict
    assert verdict.judged > 0


@pytest.mark.parametrize(("promise", "plant"), PLANTED, ids=[plant.__name__ for _, plant in PLANTED])
def test_a_planted_violation_is_found(promise, plant, judged):
    verdict = judged.verdict(promise, plant.__name__, bounds_of(promise, STORM_BOUND_S))
    assert verdict.answer == "no" and verdict.why, verdict


@pytest.fixture(scope="module")
def pointed_at(judged):
    """Of each world in which a promise was broken what is pointed at, and the lines around the first of it:
    each world is about one promise, so all of them are looked up at once."""
    of_promise = [
        offences(judged.evidence, promise, bounds_of(promise, STORM_BOUND_S), first=50).where(
            F.col("world").isin([plant.__name__ for name, plant in PLANTED if name == promise])
        )
        for promise in CONGRESS
    ]
    rows = reduce(DataFrame.union, of_promise).toArrow()
    found = judged.events.sparkSession.createDataFrame(rows)
    lines = lines_around(judged.events, found.where("offence = 1"), 2).collect()
    return rows.to_pylist(), lines


@pytest.mark.parametrize("promise", CONGRESS)
def test_what_is_sifted_before_plans_judge_it_is_judged_as_everything_is(promise, court):
    """Every world of these tests whose clocks are right. Of several offences at one time, either may be named
    first."""
    bound_s = bounds_of(promise, STORM_BOUND_S)
    assert court.at_hand.at_hand is not None and court.evidence.at_hand is None
    by_plans = court.verdicts(promise, bound_s)
    sifted = judge(court.at_hand, promise, bound_s)
    assert {row["answer"] for row in sifted} >= {"yes", "no"}
    for row in sifted:
        expected = by_plans[row["world"]].asDict()
        assert {**row, "why": row["why"] is None} == {**expected, "why": expected["why"] is None}


@pytest.mark.parametrize("promise", CONGRESS)
def test_a_planted_violation_is_pointed_at_among_the_lines_around_it(promise, judged, pointed_at):
    rows, lines = pointed_at
    planted = {plant.__name__: judged.places[plant.__name__] for name, plant in PLANTED if name == promise}
    for world, place in planted.items():
        places = [(row["writer"], row["seq"]) for row in rows if row["world"] == world]
        assert place["writer"] in {writer for writer, _ in places}, world
        if "seq" in place:
            assert (place["writer"], place["seq"]) in places, (world, places)
        around = [line for line in lines if line["world"] == world]
        assert around and len({line["writer"] for line in around}) == 1
        assert all(-2 <= line["place"] <= 2 for line in around)


@pytest.mark.parametrize("promise", ["per-source-order", "stable-truth", "watch-complete"])
def test_audits_say_what_the_checkers_say_of_the_same_storms(promise, judged):
    """Promises with a bound: `test_parity.py`, which judges them by the bound of a storm."""
    for storm in judged.storms:
        verdict = judged.verdict(promise, storm.world)
        # An agent's own watch outlives those of its programs: its rows may be all that there is to judge.
        nothing_told = (storm.said[promise], verdict.answer) == ("cannot tell", "yes")
        assert verdict.answer == storm.said[promise] or nothing_told, (storm.world, verdict)
    assert [storm.said[promise] for storm in judged.storms].count("yes") >= 3


@pytest.mark.parametrize("promise", ["per-source-order", "stable-truth", "watch-complete"])
def test_audits_say_what_the_checkers_say_of_storms_with_planted_bugs(promise, judged):
    for storm in judged.bugs:
        verdict = judged.verdict(promise, storm.world)
        assert verdict.answer == storm.said[promise], (storm.world, verdict)
    if promise == "stable-truth":
        assert "no" in {storm.said[promise] for storm in judged.bugs}


def test_streams_are_judged_run_by_run(judged):
    answers = {world: judged.verdict("fifo-gap-free", world).answer for world in STREAMS}
    assert answers == {world: answer for world, (answer, _) in STREAMS.items()}
    assert judged.verdict("fifo-gap-free", "a-gap-with-a-duplicate").broken == 2
    assert judged.verdict("fifo-gap-free", "fine").answer == "cannot tell"


@pytest.mark.parametrize("promise", ["fifo-gap-free", "watch-complete"])
def test_an_observer_that_a_row_only_counted_is_not_accused_of_what_it_was_told_then(promise, judged):
    fine = judged.verdict(promise, "crowded")
    assert (fine.answer, fine.broken) == ("yes", 0), fine
    wrong = judged.verdict(promise, "crowded-and-wrong")
    assert (wrong.answer, wrong.broken) == ("no", OBSERVERS_MAX - 1), wrong


def test_a_stall_while_others_come_and_go_is_found_unless_something_else_explains_it(judged):
    answers = {world: judged.verdict("smooth-join", world).answer for world in SMOOTH}
    assert answers == {world: answer for world, (answer, _) in SMOOTH.items()}
    stalled = judged.verdict("smooth-join", "stalled-by-a-join")
    assert (stalled.broken, stalled.judged) == (1, 1)
    assert "waited 390 ms longer than usual" in stalled.why and "us.n.h1/x#1" in stalled.why
    (row,) = offences(judged.evidence, "smooth-join").where("world = 'stalled-by-a-join'").collect()
    assert row["writer"] == "eu.p.h1" and row["seq"] is not None


def test_numbered_changes_are_judged_one_by_one(judged):
    answers = {world: judged.verdict("watch-complete", world).answer for world in NUMBERED}
    assert answers == {world: answer for world, (answer, _) in NUMBERED.items()}
    assert judged.verdict("watch-complete", "one-out-and-one-twice").broken == 2


@pytest.mark.parametrize("promise", ["stable-truth", "watch-complete"])
def test_a_real_world_is_judged_in_its_calm_stretches(promise, judged):
    assert judged.verdict(promise, "real").answer == "yes"
    wrong = judged.verdict(promise, "real-and-wrong")
    assert wrong.answer == "no" and "eu.p.h2" in wrong.why


@pytest.mark.parametrize("world", ["real-with-a-hole", "real-without-a-beginning"])
@pytest.mark.parametrize("promise", ["stable-truth", "watch-complete"])
def test_what_looks_broken_where_a_row_is_missing_is_neither_kept_nor_broken(promise, world, judged):
    """The row that is not there may have told it, or made it true."""
    verdict = judged.verdict(promise, world)
    assert (verdict.answer, verdict.broken, verdict.doubts) == ("cannot tell", 0, 1), verdict
    assert verdict.why.startswith("rows that are missing could explain it: eu.p.h2 ")


@pytest.mark.parametrize("promise", ["stable-truth", "both-sides-told"])
def test_what_a_server_did_not_keep_is_held_against_none_of_its_hosts(promise, judged):
    """Nobody knows how long it was away."""
    verdict = judged.verdict(promise, "restarted-server")
    assert verdict.answer != "no" and verdict.doubts == 0, verdict
    verdict = judged.verdict(promise, "restarted-server-with-a-hole")
    assert (verdict.answer, verdict.broken, verdict.doubts) == ("cannot tell", 0, 1), verdict
    assert verdict.why.startswith("rows that are missing could explain it: eu.p.h")


@pytest.mark.parametrize("promise", ["stable-truth", "watch-complete"])
def test_one_host_that_crashed_takes_its_own_time_from_what_is_judged_and_nothing_else(promise, judged):
    """Of two hosts in 500 s each, one is unknown for the last hundred."""
    verdict = judged.verdict(promise, "real-with-a-lost-tail")
    assert (verdict.answer, verdict.broken, verdict.doubts) == ("yes", 0, 1), verdict
    assert (verdict.share, verdict.why) == (0.9, "rows are missing: 90.0 % of it could be judged")
    assert judged.verdict(promise, "real").share == 1.0


def test_days_and_places_say_how_much_of_them_is_known(spark, in_tokyo):
    """Of UTC, whatever the session's own zone is."""
    journal = Journal("days")
    day_s = 86_400
    for host in ("eu.p.h1", "eu.p.h2"):
        journal.start(host, 0)
        journal.write(host, "heartbeat", day_s / 4)  # at six in the evening
    journal.start("eu.p.h1", day_s / 2)  # it was killed, and is back at midnight
    journal.write("eu.p.h1", "heartbeat", day_s * 3 / 4)
    for host in ("eu.p.h1", "eu.p.h2"):
        journal.write(host, "closing", day_s)
    with Evidence(frame(spark, journal.rows)) as evidence:
        found = coverage(evidence).collect()
    assert sorted((row.place, row.day.day, row.seconds, row.share) for row in found) == [
        ("eu.p.h1", 1, day_s / 2, 0.5),
        ("eu.p.h1", 2, day_s / 2, 1.0),
        ("eu.p.h2", 1, day_s / 2, 1.0),
        ("eu.p.h2", 2, day_s / 2, 1.0),
    ]


@pytest.mark.parametrize("promise", ["stable-truth", "watch-complete", "why"])
def test_a_world_that_was_killed_whole_is_judged_up_to_its_end_and_says_where_that_is(promise, judged):
    """Its journals end together, without a mark: nobody was left to miss the rows that are lost."""
    verdict = judged.verdict(promise, "real-and-killed-whole")
    assert (verdict.answer, verdict.broken, verdict.doubts) == ("yes", 0, 0), verdict
    assert verdict.why == "cannot tell after 2026-03-01 12:05:00 UTC: 2 journals have no closing mark"


@pytest.mark.parametrize("promise", ["stable-truth", "watch-complete", "heals-alone"])
def test_a_clock_that_is_off_is_measured_and_breaks_no_promise(promise, judged):
    for world, ahead_s in CLOCKED.items():
        verdict = judged.verdict(promise, world, bounds_of(promise, STORM_BOUND_S))
        assert (verdict.broken, verdict.doubts) == (0, 0), verdict
        assert promise == "heals-alone" or verdict.answer == "yes", verdict
        way = "ahead" if ahead_s > 0 else "behind"
        off = f"clocks that are off: eu.p.h2 600 s {way}" if abs(ahead_s) > 10 else None
        assert (verdict.why or "").endswith(off or ""), verdict
    verdict = judged.verdict(promise, "set-while-it-runs", bounds_of(promise, STORM_BOUND_S))
    assert (verdict.broken, verdict.doubts) == (0, 1) and verdict.share < 0.7, verdict
    assert verdict.why.endswith("; clocks that are off: eu.p.h2 600 s ahead at first")


def test_a_life_of_which_no_file_or_more_than_one_says_all_excuses_what_it_may_have_said(spark):
    """Where a whole life is missing there is no hole in it: the name of its file tells of it. Where two files
    contradict each other, either may be the writer's own."""
    rows = []
    for world, home in (("read", "eu.p.h0"), ("unread", "eu.p.h1"), ("contradicted", "eu.p.h3")):
        journal = Journal(world)
        journal.start(home, 0)
        journal.start("eu.p.h2", 0)
        journal.sees("eu.p.h2", "joined", f"{home}/m#1", 10, group="g@eu", life=1, stamp=1)
        journal.sees("eu.p.h2", "left", f"{home}/m#1", 20, group="g@eu", life=1, stamp=2, cause="leave")
        journal.write(home, "closing", 30)
        journal.write("eu.p.h2", "closing", 30)
        rows += journal.rows
    day = f"{rows[0]['at']:%Y-%m-%d}"
    lost = f"file:///j/date={day}/{segment_name('eu.p.h1', 77, 1, 9)}"
    known = f"file:///j/date={day}/{segment_name('eu.p.h2', rows[1]['epoch'], 1, 4)}"
    contradicted = [Key("contradicted", "eu.p.h3", 1)]
    with Evidence(frame(spark, rows), (known, "x/notes.parquet", lost), contradicted) as evidence:
        found = {row["world"]: row for row in judge(evidence, "why")}
    # A world with a life of which no file is here has one doubt: a file of which all is known is none.
    assert {world: (row["answer"], row["doubts"]) for world, row in found.items()} == {
        "read": ("no", 1),
        "unread": ("cannot tell", 1),
        "contradicted": ("cannot tell", 2),
    }
    assert found["contradicted"]["why"].endswith("files contradict each other about eu.p.h3 #1")


def test_an_unknown_promise_is_refused_with_those_that_are_known(judged):
    with pytest.raises(BadInput, match="no promise is called") as refused:
        findings(judged.events, "be-nice")
    assert "both-sides-told" in refused.value.fix


@pytest.mark.parametrize("few", [3, 2])
def test_what_is_kept_has_the_same_rows_and_nothing_behind_it_if_they_are_few(few, spark, monkeypatch):
    monkeypatch.setattr(facts, "FEW_ROWS", few)
    made = spark.range(3).selectExpr("id", "array('a', null) as names", "timestamp_micros(id) as at")
    kept = facts.kept(made)
    assert sorted(kept.collect()) == sorted(made.collect()) and kept.schema == made.schema
    assert kept.is_cached == (few < 3)
    kept.unpersist()


def test_lies_are_found_in_arrow_as_by_a_plan_of_spark(judged):
    """Of all worlds, however short they are."""
    evidence = judged.evidence
    every = known(evidence.facts)._replace(least_us=0)
    found = lasting(evidence.stays, evidence._home, every, 3 * ROWS_PER_PART)
    rows = sorted(map(str, found.select(LIES.names).collect()))
    assert rows == sorted(map(str, evidence.lies.select(LIES.names).collect())) and len(rows) > 300


def test_an_audit_that_rests_on_rows_of_which_there_are_none_asks_nothing_of_spark(spark):
    journal = Journal("idle")
    journal.start("eu.p.h1", 0)
    journal.write("eu.p.h1", "closing", 30)
    with Evidence(frame(spark, journal.rows)) as evidence:
        assert evidence.kinds == {"started", "closing"} and evidence.doubts.count() == 0
        spark.sparkContext.setJobGroup("idle", "none is wanted")
        for promise in (
            "same-view",
            "total-order",
            "all-or-none",
            "one-leader",
            "exact-list",
            "fifo-gap-free",
        ):
            assert PROMISES[promise].judge(evidence).schema == FINDINGS
        spark.sparkContext.setJobGroup("other", "as before")
        assert not spark.sparkContext.statusTracker().getJobIdsForGroup("idle")


def test_what_broke_a_promise_can_be_run_again(tmp_path):
    assert replay_command("storm-T-REF-7", None) == "rostra sim storm --seed 7 --shape T-REF"
    assert replay_command("acme", str(tmp_path)) == ""
    (tmp_path / "_inputs").mkdir()
    (tmp_path / "_inputs" / "eu.p.h1-1-000000.inputs").touch()
    assert replay_command("acme", str(tmp_path)) == f"rostra sim replay {tmp_path}"
    assert replay_command("acme", "s3://bucket/journal") == ""
