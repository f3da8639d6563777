"""What audits of a moderate history sift before Spark judges it: as a slow look at every row sifts it."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.journal import NOON, Journal
from support.segments import SCHEMA

from rostra.history.arrow_fast_path import EventSource, SegmentRun, Source
from rostra.history.audits.at_hand import (
    Untold,
    homes,
    memberships,
    notable,
    sights,
    unexcused,
    unfounded,
    untold,
    went_back,
)
from rostra.history.audits.facts import Calm, Looking
from rostra.history.audits.kept import table_of
from rostra.history.audits.lies_fast_path import Known, Lying
from rostra.history.audits.truth import LIES
from rostra.history.places import places_between

HOSTS = ("eu.paris.h1", "eu.paris.h2", "us.ny.h1")
MEMBERS = ("eu.paris.h1/ann#1", "us.ny.h1/eve#1")
US = 1_000_000
START = int(NOON.timestamp()) * US
STRETCHES = [("w", 0, 100, 0, 200), ("w", 300, 400, 300, 500), ("v", 0, 500, 0, 500)]

hosts, members = st.sampled_from(HOSTS), st.sampled_from(MEMBERS)
groups, worlds = st.sampled_from(["chess@world", "chess@world", "go@eu"]), st.sampled_from(["w", "v"])
times = st.integers(0, 12).map(lambda at: 50 * at)
Rows = list[dict[str, Any]]


def files(rows: Rows, directory: Path) -> EventSource:
    """In two, by writer."""
    runs = []
    for nth in range(2):
        some = [row for row in rows if HOSTS.index(row["writer"]) % 2 == nth]
        if some:
            path = str(directory / f"{nth}.parquet")
            pq.write_table(pa.Table.from_pylist(some, SCHEMA), path)
            runs.append(SegmentRun((Source(path, len(some)),)))
    return EventSource(tuple(runs), by_life=True)


def us(at: int) -> int:
    return START + at * US


@st.composite
def journals(draw: st.DrawFn) -> Rows:
    """Joins and leaves at home, each told to most hosts, once or twice, in time or late."""
    made = {world: Journal(world) for world in ("w", "v")}
    for world, group, member, change, at in draw(
        st.lists(st.tuples(worlds, groups, members, st.sampled_from(["joined", "left"]), times), max_size=4)
    ):
        stamp = draw(st.sampled_from([1, 2, None]))
        journal = made[world]
        if draw(st.booleans()):
            journal.home(change, member, at, group, life=1, stamp=stamp)
        for host in HOSTS:
            for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2]))):
                late = at + draw(st.sampled_from([1, 1, 1, 120]))
                cause = draw(st.sampled_from(["join", "join", "unlisted", None]))
                journal.sees(host, change, member, late, group, cause=cause, life=1, stamp=stamp)
    rows = [row for journal in made.values() for row in journal.rows]
    return sorted(rows, key=lambda row: (row["world"], row["writer"], row["seq"]))


def slowly(rows: Rows, looking: list[Looking], gaps: list[Any], speaking: set[Any]) -> Untold:
    """Every change with every host, one by one."""
    due: Counter[Any] = Counter()
    heard: Counter[Any] = Counter()
    for row in rows:
        at = int(row["at"].timestamp()) - START // US
        world, group, member = row["world"], row["group"], row["member"]
        home = member.partition("/")[0]
        for stretch in STRETCHES:
            of, calm_from, calm_until, rest_from, rest_until = stretch
            for each in looking:
                looked = (each.world, each.group) == (world, group) == (of, group)
                looked &= each.from_at < us(rest_from)
                looked &= each.until_at is None or each.until_at >= us(rest_until)
                if not looked or each.seen_by == home:
                    continue
                change = row["kind"].removeprefix("member-")
                turn = (world, group, member, row["life"], row["stamp"], change), stretch, each[1:3]
                if row["kind"].startswith("member-"):
                    missed = any(
                        gap[:3] == (world, each.seen_by, group) and us(rest_from) <= gap[3] <= us(rest_until)
                        for gap in gaps
                    )
                    if calm_from <= at < calm_until and not missed and (world, group) not in speaking:
                        due[turn] += 1
                elif (row["writer"], row["epoch"]) == each[1:3] and rest_from <= at < rest_until:
                    heard[turn] += row["stamp"] is not None and row["cause"] not in (None, "unlisted")
    wrong = {turn[0] for turn in due.keys() | heard.keys() if due[turn] != heard[turn]}
    fine: Counter[str] = Counter()
    for (change, *_), many in due.items():
        if change not in wrong:
            fine[change[0]] += many
    return Untold(sorted(wrong, key=repr), fine)


def told_once(cause: str = "join") -> Rows:
    journal, (member, _) = Journal(), MEMBERS
    journal.home("joined", member, 50, life=1, stamp=1)
    for host in HOSTS[1:]:
        journal.sees(host, "joined", member, 51, cause=cause, life=1, stamp=1)
    return journal.rows


@settings(max_examples=50, deadline=None)
@given(
    journals(),
    st.lists(st.tuples(worlds, hosts, groups, times, st.one_of(st.none(), times)), max_size=5),
    st.lists(st.tuples(worlds, hosts, groups, times), max_size=2),
    st.sets(st.tuples(worlds, groups), max_size=1),
)
@example(told_once(), [], [], set())
@example(told_once("unlisted"), [], [], set())
@example(told_once(), [], [("w", HOSTS[1], "chess@world", 150)], set())  # which excuses that it is due
@example(told_once(), [], [], {("w", "chess@world")})
def test_changes_that_were_not_told_once_to_each_are_those_that_a_slow_look_finds(
    rows, looking, gaps, speaking
) -> None:
    always = [(world, host, "chess@world", 0, None) for world in ("w", "v") for host in HOSTS]
    lookers = [
        Looking(world, host, 1, group, us(since) - US, None if until is None else us(until))
        for world, host, group, since, until in (*always, *looking)
    ]
    missed = [(world, host, group, us(at)) for world, host, group, at in gaps]
    stretches = [(world, *map(us, times)) for world, *times in STRETCHES]
    with TemporaryDirectory() as directory:
        source = files(rows, Path(directory))
        if not source.segment_runs:
            return
        found = untold(source, homes(source), stretches, lookers, missed, speaking)
    assert found._replace(changes=sorted(found.changes, key=repr)) == slowly(rows, lookers, missed, speaking)


def test_of_notices_those_are_kept_that_may_be_wrong(tmp_path: Path) -> None:
    journal, there = Journal(), HOSTS[0]
    journal.home("left", MEMBERS[1], life=1, stamp=2)
    left = {"life": 1, "stamp": 2}
    fine = [
        journal.sees(there, "left", MEMBERS[1], **left),
        journal.sees(there, "joined", MEMBERS[1], **left),
    ]
    named = {"accuser": "eu", "accused": "us", "what": "silent", "cause": "cut", "domain": "us"}
    fine.append(journal.sees(there, "left", MEMBERS[1], kind="without", nth=1, **named))
    odd = [
        journal.sees(there, "left", MEMBERS[1], life=1, stamp=3),  # which its home knows nothing of
        journal.sees(there, "left", MEMBERS[1], cause=None, **left),
        journal.sees(there, "left", MEMBERS[1], news=False, **left),
        journal.sees(there, "left", MEMBERS[1], kind="without", **named),
        journal.sees(there, "left", MEMBERS[1], kind="only", nth=1, **{**named, "what": None}),
        journal.write(there, "joined", group="chess@world", change="kept", cause="join", news=False),
    ]
    journal.sees(there, "joined", MEMBERS[1], group="loud@world")
    source = files(journal.rows, tmp_path)
    found = notable(source, homes(source))
    assert found.rows["seq"].to_pylist() == [row["seq"] for row in odd]
    lost = [row for row in (*fine, *odd) if row["change"] == "left" and row["news"]]
    assert found.removed == {"w": len(lost)} and found.speaking == {("w", "loud@world")}


@given(
    st.lists(
        st.tuples(hosts, members, st.sampled_from(["missing", "ghost"]), times, st.integers(-1, 9)),
        max_size=6,
    ),
    st.dictionaries(times, st.sets(st.sampled_from([*HOSTS, "eu", "us", "^eu.paris"])), max_size=5),
)
def test_a_lie_is_held_against_a_host_in_every_calm_in_which_it_lasts_and_the_way_works(lied, turns):
    """Minus one: it lasts until the end."""
    stretches = [
        Calm("w", since, until, 100, False, tuple(sorted(turns[since])))
        for since, until in pairwise((*sorted(turns), 900))
    ]
    rows = [
        ("w", host, "g@eu", member, what, at, None if long < 0 else at + 50 * long, False)
        for host, member, what, at, long in lied
    ]
    found = unexcused(table_of(rows, LIES), stretches, {"w": (0, 900)})
    assert sorted(map(repr, found)) == sorted(
        repr((*row, *calm[1:], max(row[5], calm.since) + 100))
        for row in rows
        for calm in stretches
        if min(900 if row[6] is None else row[6], calm.calm_until) - max(row[5], calm.since) >= 100
        and not {*calm.broken}
        & {*(places_between(row[1], row[3].split("/")[0]) if row[4] == "missing" else (row[1],))}
    )


def test_a_removal_rests_on_an_accuser_that_says_so_in_time() -> None:
    told = {"world": "w", "at": 100, "kind": "without", "change": "left", "news": True, "member": MEMBERS[0]}
    said = {"cause": "without", "accuser": "eu", "accused": "us", "what": "silent"}
    founded = [
        {**told, **said},
        {**told, **said, "at": 40},
        {**told, **said, "accuser": "mars"},  # has no journal here
        {**told, "kind": "only", **said},
    ]
    no_removal = [{**told, "news": False}, {**told, "change": "joined"}, {**told, "member": None}]
    odd = [
        {**told, **said, "at": 112},
        {**told, **said, "at": 39},
        {**told, **said, "accused": "asia"},
        {**told, **said, "what": None},
        {**told, **said, "cause": None},
        {**told, "kind": "left", **said},
    ]
    names = ("world", "at", "kind", "change", "news", "member", *said)
    rows = pa.Table.from_pylist(
        [{name: row.get(name) for name in names} for row in (*founded, *no_removal, *odd)]
    )
    downs = [("w", "eu", "us", 101), ("w", "eu", "us", 50), ("w", "us", "eu", 112)]
    found = unfounded(rows, downs, {("w", "eu"), ("w", "us")}, 10)
    assert found.to_pylist() == [{name: row.get(name) for name in names} for row in odd]


def test_a_history_in_which_no_member_was_seen_has_nothing_to_sift(tmp_path: Path) -> None:
    """As the journal of a server is, which is told of no member."""
    journal = Journal()
    journal.start(HOSTS[0], 0)
    source = files(journal.rows, tmp_path)
    none = homes(source)
    looking = [Looking("w", HOSTS[0], 1, "chess@world", 0, None)]
    assert untold(source, none, [("w", 0, 1, 0, 1)], looking, [], ()) == Untold([], {})
    assert notable(source, none).rows.num_rows == went_back(source)[0].num_rows == 0
    lying = Lying(Known({}, {"w": 0}, {"w": []}, 0), {}, memberships(none, {}))
    lies, obstructed = sights(source, lying, [], {"w": 0})
    assert lies.num_rows == obstructed.num_rows == 0
