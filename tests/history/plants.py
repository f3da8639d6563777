"""Changes to raw segments, of every kind that we could think of: what does each of them lead to?

``make plant-history`` plants each in journals of simulated worlds and of a real one, asks for every promise,
and says where an answer is not as it is written here. Of each kind that finds nothing it is written here why.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does
from history.file_plants import FILES, NotHere, text
from history.test_order_audits import spoken
from history.test_parity import calm, talking
from history.test_view_audits import partition
from support.journal import Row
from support.segments import SCHEMA

from rostra.history.archive import Archive
from rostra.history.audits import PROMISES, Evidence, verdicts
from rostra.history.ingest import Ingest
from rostra.history.session import end, start
from rostra.history.tables import Tables
from rostra.history.tuning import SMALL
from rostra.journal.schema import COLUMNS, VERSION
from rostra.journal.segments import Place, read

SEGMENT_ROWS = 20
BOUND_S = 3.0

Rows = list[Row]

FORGOTTEN = {column.name for column in COLUMNS} - {
    *("world", "writer", "role", "epoch", "seq", "at", "virtual_s")
}


# Rows


def every(rows: Rows, kind: str, **values: Any) -> Iterator[Row]:
    for row in rows:
        if row["kind"] == kind and all(row[name] == value for name, value in values.items()):
            yield row


def one(rows: Rows, *kinds: str, nth: int = 0, **values: Any) -> Row:
    found = [row for kind in kinds for row in every(rows, kind, **values)]
    if not -len(found) <= nth < len(found):
        raise NotHere
    return found[nth]


def silence(row: Row) -> None:
    """It was never written; a heartbeat was."""
    row.update(dict.fromkeys(FORGOTTEN), kind="heartbeat", nth=0, of=1)


def again(rows: Rows, told: Row, **changes: Any) -> None:
    """Once more, in the place of the writer's next row that no promise speaks of."""
    for row in rows:
        is_after = (row["writer"], row["epoch"]) == (told["writer"], told["epoch"]) and row["seq"] > told[
            "seq"
        ]
        if is_after and row["kind"] in ("sent", "received", "heartbeat"):
            values = {name: value(told) if callable(value) else value for name, value in changes.items()}
            row.update({**told, "seq": row["seq"], **values})
            return
    raise NotHere


def without(rows: Rows, gone: Row) -> None:
    """It was never written, and nothing else either: all later numbers are one less."""
    rows.remove(gone)
    for row in rows:
        same_life = (row["writer"], row["epoch"]) == (gone["writer"], gone["epoch"])
        if same_life and row["seq"] > gone["seq"]:
            row["seq"] -= 1


def told_join(rows: Rows, nth: int = -1) -> Row:
    return one(rows, "joined", nth=nth, cause="join", change="joined", news=True)


def told_leave(rows: Rows) -> Row:
    return one(rows, "left", change="left", news=True)


def changed(find: Callable[[Rows], Row], **values: Any) -> Callable[[Rows], None]:
    def plant(rows: Rows) -> None:
        row = find(rows)
        row.update({name: value(row) if callable(value) else value for name, value in values.items()})

    return plant


def silenced(find: Callable[[Rows], Row]) -> Callable[[Rows], None]:
    return lambda rows: silence(find(rows))


def repeated(find: Callable[[Rows], Row], **values: Any) -> Callable[[Rows], None]:
    return lambda rows: again(rows, find(rows), **values)


def removed(find: Callable[[Rows], Row]) -> Callable[[Rows], None]:
    return lambda rows: without(rows, find(rows))


def kind(*kinds: str, nth: int = 0, **values: Any) -> Callable[[Rows], Row]:
    return lambda rows: one(rows, *kinds, nth=nth, **values)


def cut_off(rows: Rows) -> Row:
    return one(rows, "without", "only", change="left", news=True)


def run(rows: Rows) -> Row:
    """The longest run of messages that anybody got."""
    runs = [row for row in every(rows, "delivered") if row["observers"] and row["last"] > row["first"]]
    if not runs:
        raise NotHere
    return max(runs, key=lambda row: row["last"] - row["first"])


def last_view(rows: Rows) -> Row:
    """The first row of the last view that members of one host were given."""
    found = [row for row in every(rows, "view") if row["nth"] == 0 and row["fence"] is not None]
    if not found:
        raise NotHere
    return found[-1]


def last_order(rows: Rows) -> Row:
    """The row with which a view ended that members of one host were given messages in."""
    found = [row for row in every(rows, "ordered", cause="view") if row["count"]]
    if not found:
        raise NotHere
    return found[0]


def silenced_event(find: Callable[[Rows], Row]) -> Callable[[Rows], None]:
    """All rows of it."""

    def plant(rows: Rows) -> None:
        told = find(rows)
        event = (told["writer"], told["epoch"], told["seq"] - told["nth"])
        for row in rows:
            if (row["writer"], row["epoch"], row["seq"] - row["nth"]) == event:
                silence(row)

    return plant


def silenced_all(kind: str) -> Callable[[Rows], None]:
    """Every such row of the writer that has most of them."""

    def plant(rows: Rows) -> None:
        writers = [row["writer"] for row in every(rows, kind)]
        if not writers:
            raise NotHere
        for row in every(rows, kind, writer=max(sorted(set(writers)), key=writers.count)):
            silence(row)

    return plant


def of_life(rows: Rows, role: str = "agent") -> Rows:
    """The rows of one writer's life: one that is told something."""
    told = next((row for row in rows if row["role"] == role and row["kind"] in ("joined", "link-up")), None)
    if told is None:
        raise NotHere
    return [row for row in rows if (row["writer"], row["epoch"]) == (told["writer"], told["epoch"])]


def whole_life(**values: Any) -> Callable[[Rows], None]:
    def plant(rows: Rows) -> None:
        for row in of_life(rows):
            row.update({name: value(row) if callable(value) else value for name, value in values.items()})

    return plant


def later(seconds: float) -> Callable[[Row], Any]:
    return lambda row: row["at"] + timedelta(seconds=seconds)


def dropped(rows: Rows) -> None:
    """The disk was full for one row, and the next one says so."""
    life = of_life(rows)
    gone, says = life[len(life) // 2 : len(life) // 2 + 2]
    rows.remove(gone)
    silence(says)
    says.update(kind="dropped", count=1, first=gone["seq"], last=gone["seq"], what="disk full")


ROWS: dict[str, Callable[[Rows], None]] = {
    # What members were told
    "a ghost joins": changed(told_join, member=lambda row: f"{row['member'].partition('/')[0]}/ghost#1000"),
    "a join of another group": changed(told_join, group="other@world"),
    "a join becomes a leave": changed(told_join, change="left"),
    "a join is no news": changed(told_join, news=False),
    "a join is never told": silenced(told_join),
    "a join is told twice": repeated(told_join, news=False),
    "a join of an earlier life": changed(told_join, life=1),
    "a join that is older than the last": changed(told_join, stamp=0),
    "a join is told half a minute later": changed(told_join, at=later(30.0)),
    "a leave is never told": silenced(told_leave),
    "a leave is told twice": repeated(told_leave, news=False),
    "a leave of somebody else": changed(told_leave, member=lambda row: f"{row['writer']}/ghost#1000"),
    "a leave by a crash": changed(
        told_leave, cause=lambda row: {"leave": "crash"}.get(row["cause"], "leave")
    ),
    "a leave becomes a join": changed(told_leave, change="joined"),
    "nobody is told": changed(told_join, observers=[], told=0),
    "somebody else is told": changed(told_join, observers=lambda row: [f"{row['writer']}/ghost#1000"]),
    "one more is told than is named": changed(told_join, told=lambda row: row["told"] + 1),
    "a list keeps another number": changed(kind("absolute", "joined", change="kept"), count=99),
    "a first list is never told": silenced(kind("absolute")),
    # Cuts
    "a cut without an accuser": changed(cut_off, accuser=None),
    "a cut that accuses another": changed(cut_off, accused="nobody"),
    "a cut without grounds": changed(cut_off, what=None),
    "a cut of another domain": changed(cut_off, domain="nowhere"),
    "a cut is never told": silenced(cut_off),
    "a cut is told twice": repeated(cut_off, news=False),
    "a link that never went down": silenced(kind("link-down")),
    "a link that never came up": silenced(kind("link-up")),
    "a link that came up twice": repeated(kind("link-up")),
    "other evidence of a silence": changed(kind("link-down"), silence_s=0.001, phi=0.001),
    # Home
    "a join that home never had": silenced(kind("member-joined", nth=-1)),
    "a leave that home never had": silenced(kind("member-left")),
    "a join at home of another life": changed(kind("member-joined"), life=1),
    "an endpoint that was never opened": silenced(kind("opened")),
    "an endpoint that was never closed": silenced(kind("closed")),
    "a follower that never came": silenced(kind("followed")),
    "a follower that never went": silenced(kind("unfollowed")),
    # Streams
    "a run that leaves one out": changed(run, first=lambda row: row["first"] + 1),
    "a run that comes twice": repeated(run),
    "a run that goes backwards": changed(run, first=lambda row: row["last"] + 1),
    "a run that is never told": silenced(run),
    "a run of another sender": changed(run, member=lambda row: f"{row['writer']}/ghost#1000"),
    "a stream that never began": silenced(kind("stream-started")),
    "a stream that never ended": silenced(kind("stream-ended")),
    "a gap that is never told": silenced(kind("stream-gap")),
    "a run that was slow": changed(run, latency_us=60_000_000),
    "a run of other bytes": changed(run, bytes=1),
    "a repair by another": changed(kind("recovered"), answered_by="nobody"),
    # Agreed views
    "a view of another list": changed(last_view, digest=1),
    "a server's view of another list": changed(kind("view-agreed"), digest=1),
    "a view of an older number": changed(last_view, first=1, view="1.0 eu.de:1#1"),
    "a view by another proposal": changed(last_view, view=lambda row: f"{row['view']}9"),
    "a fence of another view": changed(last_view, fence=lambda row: row["fence"] - 1),
    "a server's fence of another view": changed(
        kind("view-agreed", nth=-1, change="kept"), nth=0, of=1, fence=lambda row: row["fence"] - 1
    ),
    "a view that was never given": silenced_event(last_view),
    "a member that is never removed": changed(
        kind("view", change="left", nth=-1), member="eu.it.h1/ghost#1000"
    ),
    "a block that was never told": silenced_all("blocked"),
    "a block for another reason": changed(kind("blocked"), what="a whim"),
    "other acknowledgements": changed(kind("view-agreed"), acks=["nowhere"], cut=["nowhere"]),
    "a server that was not isolated": silenced(kind("isolated")),
    # One order
    "an order of other messages": changed(last_order, digest=1),
    "a view at another position": changed(last_order, first=lambda row: row["first"] - 1),
    "a message that was left out": changed(last_order, count=lambda row: row["count"] - 1),
    "more than those who went on have": repeated(
        last_order,
        cause=None,
        last=lambda row: row["last"] + 1,
        count=lambda row: row["count"] + 1,
        digest=1,
    ),
    "an order that is never told": silenced(last_order),
    "another orderer": changed(kind("ordered", count=0), peer="nowhere"),
    "other rejects": changed(kind("rejected"), first=1, count=9),
    "a flush that was never told": silenced(kind("flushed")),
    # What nobody is promised
    "other traffic": changed(kind("sent", "received"), count=10**6, bytes=10**9),
    "another detail": changed(kind("started"), detail="{}"),
    "an answer with other members": changed(kind("resolved"), count=99),
    "a heartbeat less": removed(kind("heartbeat", "sent", "received")),
    # A writer
    "a clock that is ten minutes ahead": whole_life(at=later(600.0)),
    "a clock that is ten minutes behind": whole_life(at=later(-600.0)),
    "a row of tomorrow": changed(kind("heartbeat", "sent", "received"), at=later(86_400.0)),
    "a server's rows by an agent": whole_life(role="server"),
    "no clean end": silenced(kind("closing")),
    "rows after a clean end": changed(kind("heartbeat", "sent", "received"), kind="closing"),
    "rows that were dropped, and which": dropped,
}


# What each leads to


class Expected(NamedTuple):
    """`found`: one of these promises says no, in one of the worlds at least. `aside`: its file is not used,
    and named with this reason. `doubt`: something is missing, which shows, and nobody is accused. `same`:
    nothing is promised of it, and this is why."""

    found: tuple[str, ...] = ()
    aside: str = ""
    doubt: bool = False
    same: str = ""


def found(*promises: str) -> Expected:
    return Expected(found=promises)


def aside(why: str) -> Expected:
    return Expected(aside=why)


def same(why: str) -> Expected:
    return Expected(same=why)


DOUBT = Expected(doubt=True)

ORDER, TRUTH, WATCH, SIDES = "per-source-order", "stable-truth", "watch-complete", "both-sides-told"
HEALS, FIFO, WHY = "heals-alone", "fifo-gap-free", "why"

SAME, EVERY, LIVING = "same-view", "every-change", "one-living"
TOTAL, ALL = "total-order", "all-or-none"

EXPECTED: dict[str, Expected] = {
    "a view of another list": found(SAME),
    "a server's view of another list": found(SAME),
    "a view of an older number": found(SAME),
    "a view by another proposal": found(LIVING),
    "a fence of another view": found(LIVING),
    "a server's fence of another view": found(LIVING),
    "a view that was never given": found(EVERY),
    "a member that is never removed": found(EVERY),
    "a block that was never told": found(LIVING),
    "a block for another reason": same("why a side must not go on is for people to read"),
    "other acknowledgements": same("who acknowledged a change is for people to read"),
    "a server that was not isolated": same("that two sides part is judged by what each agrees on"),
    "an order of other messages": found(TOTAL),
    "a view at another position": found(TOTAL),
    "a message that was left out": found(TOTAL, ALL),
    "more than those who went on have": found(ALL),
    "an order that is never told": same("a writer that numbers the rest anew leaves no trace"),
    "another orderer": same("who orders is for people to read"),
    "other rejects": same("what was rejected is for people to read"),
    "a flush that was never told": same("who orders is for people to read"),
    "a ghost joins": found(TRUTH, WATCH),
    "a join of another group": found(TRUTH, WATCH),
    "a join becomes a leave": found(TRUTH, WATCH),
    "a join is no news": found(TRUTH),
    "a join is never told": found(TRUTH, WATCH),
    "a join is told twice": found(WATCH),
    "a join of an earlier life": found(ORDER),
    "a join that is older than the last": found(ORDER),
    "a join is told half a minute later": found(TRUTH, WATCH),
    "a leave is never told": found(WATCH),
    "a leave is told twice": found(WATCH),
    "a leave of somebody else": found(WATCH, WHY),
    "a leave by a crash": same(
        "that somebody left is held against its home, and not what the notice calls it"
    ),
    "a leave becomes a join": found(WATCH),
    "nobody is told": same("who on a host was told is for people to read; hosts are what is judged"),
    "somebody else is told": same("who on a host was told is for people to read; hosts are what is judged"),
    "one more is told than is named": same("a row names 16 of them, and may count more"),
    "a list keeps another number": same("how many of a list were known before is for people to read"),
    "a first list is never told": found(TRUTH),
    "a cut without an accuser": found(WHY),
    "a cut that accuses another": found(WHY),
    "a cut without grounds": found(WHY),
    "a cut of another domain": same("who is lost with it is judged, and not what it is called"),
    "a cut is never told": found(TRUTH, SIDES),
    "a cut is told twice": found(SIDES),
    "a link that never went down": found(ORDER, WHY),
    "a link that never came up": found(ORDER),
    "a link that came up twice": found(ORDER),
    "other evidence of a silence": same(
        "how long a silence was is for people to read; that it was told is judged"
    ),
    "a join that home never had": found(TRUTH, WATCH),
    "a leave that home never had": found(WATCH, WHY),
    "a join at home of another life": same("lives are compared among what is told, and not with home's"),
    "an endpoint that was never opened": same("a membership is what is promised, not what it is opened for"),
    "an endpoint that was never closed": same("a membership is what is promised, not what it is opened for"),
    "a follower that never came": found(TRUTH),
    "a follower that never went": found(HEALS),
    "a run that leaves one out": found(FIFO),
    "a run that comes twice": found(FIFO),
    "a run that goes backwards": found(FIFO),
    "a run that is never told": DOUBT,  # the last of a stream is missed by nobody else
    "a run of another sender": found(FIFO),
    "a stream that never began": found(FIFO),
    "a stream that never ended": same("a stream may end with its host, without a row"),
    "a gap that is never told": same("what was said while a receiver was cut off is not promised to it"),
    "a run that was slow": same("how late a message may be is not promised unless others come and go"),
    "a run of other bytes": same("sizes are for people to read"),
    "a repair by another": same("who repairs is free to anybody who has it"),
    "other traffic": same("traffic is reported, and nothing promised of it"),
    "another detail": same("notes for people"),
    "an answer with other members": same(
        "answers to questions are not in a journal, only how many they named"
    ),
    "a heartbeat less": same("whoever numbers the rest anew leaves no trace; a writer that lies is believed"),
    "a clock that is ten minutes ahead": DOUBT,
    "a clock that is ten minutes behind": DOUBT,
    "a row of tomorrow": DOUBT,
    "a server's rows by an agent": same("what a writer says of itself is believed"),
    "no clean end": DOUBT,
    "rows after a clean end": same("the mark is for whoever looks for an end"),
    "rows that were dropped, and which": DOUBT,
    "a byte is another": aside("not Parquet, or damaged"),
    "the end is missing": aside("not Parquet, or damaged"),
    "nothing is left of a file": DOUBT,
    "a file of text": aside("not Parquet, or damaged"),
    "the first segment is gone": DOUBT,
    "a segment is gone": DOUBT,
    "the last segment is gone": DOUBT,
    "a writer is gone": DOUBT,
    "a server's first segment is gone": DOUBT,
    "a server's segment is gone": DOUBT,
    "a server's last segment is gone": DOUBT,
    "a segment has another name": same("rows say whose they are"),
    "a segment is of another day": same("rows say when they are of"),
    "two segments have each other's names": same("rows say which they are"),
    "a segment twice": same("rows that come twice are read once"),
    "half a segment again": same("rows that come twice are read once"),
    "a segment again with other rows": aside("other rows"),
    "rows are missing in a segment": DOUBT,
    "rows in another order": aside("out of order"),
    "a row twice": aside("out of order"),
    "numbers from zero": aside("numbers begin at 1"),
    "a row without a number": aside("column 'seq' is empty"),
    "a row without a time": aside("column 'at' is empty"),
    "rows of another world": DOUBT,
    "rows of two worlds": aside("a segment has one world"),
    "rows of two writers": aside("a segment has one writer"),
    "rows of two lives": aside("a segment has one epoch"),
    "rows of an earlier life": DOUBT,
    "no column `kind`": aside("no column 'kind'"),
    "no column `cause`": found(WHY),
    "a column of another type": aside("wrong schema"),
    "a column more": same("a newer writer may have it"),
    "a kind that nobody knows": found(TRUTH, WATCH, SIDES),  # what else it was, nobody knows either
    "a footer of other numbers": same("rows are believed, and not the footer"),
    "a footer of another writer": same("rows are believed, and not the footer"),
    "a footer of another life": same("rows are believed, and not the footer"),
    "a footer of another world": same("rows are believed, and not the footer"),
    "a footer that says nothing": same("rows are believed, and not the footer"),
}


# Worlds


class Planted(NamedTuple):
    base: str
    plant: str

    @property
    def world(self) -> str:
        return f"{self.base} {self.plant}".replace("`", "").strip()


Life = tuple[str, int]
Cut = dict[Life, tuple[Rows, list[pa.Table]]]
"""Lives, and the segments that they are in: those that nobody changed are the same in every world."""


def cut(rows: Rows, known: Cut) -> Cut:
    lives: dict[Life, Rows] = {}
    for row in rows:
        lives.setdefault((row["writer"], row["epoch"]), []).append(row)
    return {
        life: known[life] if life in known and known[life][0] == story else (story, _segments(story))
        for life, story in lives.items()
    }


def _segments(story: Rows) -> list[pa.Table]:
    return [
        pa.Table.from_pylist(story[at : at + SEGMENT_ROWS], SCHEMA)
        for at in range(0, len(story), SEGMENT_ROWS)
    ]


def lay_out(place: Path, lives: Cut, world: str) -> None:
    """As the code lays them out that writes those of nodes."""
    for story, segments in lives.values():
        for table in segments:
            of = {
                "world": world,
                "schema": VERSION,
                **{name: story[0][name] for name in ("writer", "role", "epoch")},
            }
            of |= {"first": table["seq"][0].as_py(), "last": table["seq"][-1].as_py()}
            named = table.set_column(0, SCHEMA.field(0), text([world] * len(table)))
            metadata = {f"rostra.{name}": str(value) for name, value in of.items()}
            Place(place).write(named.replace_schema_metadata(metadata))


def planted(directory: Path, bases: dict[str, Rows]) -> list[Planted]:
    """Every change that a world has a place for, each in a journal of its own."""
    made = []
    for base, rows in bases.items():
        known = cut(rows, {})
        plants = OF_WORLD.get(base, [*ROWS, *(FILES if base != "talk" else ())])
        for plant in ("", *plants):
            this = Planted(base, plant)
            mine = deepcopy(rows) if plant in ROWS else rows
            try:
                if plant in ROWS:
                    ROWS[plant](mine)
                lay_out(directory / this.world, cut(mine, known), this.world)
                if plant in FILES:
                    FILES[plant](directory / this.world)
            except NotHere:
                shutil.rmtree(directory / this.world, ignore_errors=True)
                continue
            made.append(this)
    return made


def simulated(directory: Path) -> dict[str, Rows]:
    bases = {}
    for name, live in (("calm", calm), ("talk", talking), (AGREED, partition), (ORDERED, spoken)):
        world = live(directory / name)
        world.close()
        bases[name] = read(directory / name).to_pylist()
    return bases


def real(directory: Path) -> Rows:
    """Real processes: two of them are killed, the others end in good order."""
    from live.test_audited import lived
    from live.test_journal import Journalled

    lab = Journalled(
        directory, directory / "journal", servers=("eu", "us"), hosts=("eu.h1", "eu.h2", "us.h1")
    )
    try:
        asyncio.run(lived(lab))
    finally:
        lab.close()
    return read(lab.journal).to_pylist()


class Said(NamedTuple):
    """Of one promise, in one world."""

    answer: str
    doubts: int
    why: str | None


class Judged(NamedTuple):
    said: dict[str, dict[str, Said]]  # of each world, by promise
    aside: dict[str, list[str]]  # of each world: why files of it could not be used


def judge(spark: Any, directory: Path, bound_s: float) -> Judged:
    """All worlds at once, as tables: what a promise costs hardly depends on how many they are."""
    tables = directory.with_name(f"{directory.name} tables")
    Ingest(spark, f"{directory}/*", tables, hole_after_s=-1e12).once()
    archive = Archive(spark, tables=str(tables))
    said: dict[str, dict[str, Said]] = {}
    with Evidence(archive.events.cache(), archive.left_out, archive.contradicted) as evidence:
        for name, promise in PROMISES.items():
            for row in verdicts(evidence, name, bound_s if promise.bound else None).collect():
                said.setdefault(row["world"], {})[name] = Said(row["answer"], row["doubts"], row["why"])
    aside: dict[str, list[str]] = {}
    for each in Tables(tables).set_aside():
        world = unquote(each.file).rpartition("/date=")[0].rpartition("/")[2]
        aside.setdefault(world, []).append(each.why)
    return Judged(said, aside)


def wrong(this: Planted, judged: Judged) -> Iterator[str]:
    """Where it did not lead to what is written here."""
    expected, before = EXPECTED[this.plant], judged.said[this.base]
    after = judged.said[this.world]
    accused = {name for name in after if after[name].answer == "no" and before[name].answer != "no"}
    if expected.found:
        return  # in some world, which `main` asks
    exact = this.base != REAL and this.plant in EXACT
    if accused and not exact:
        yield f"{', '.join(sorted(accused))} said no"
    if expected.aside and not any(expected.aside in why for why in judged.aside.get(this.world, ())):
        yield f"no file is set aside because of {expected.aside!r}"
    if (expected.doubt or expected.aside) and this.base == REAL and after == before:
        yield "nothing shows that something is missing"
    answers = {name for name in after if after[name].answer != before[name].answer}
    if expected.same and answers - accused:
        yield f"{', '.join(sorted(answers))} changed"


def outcome(this: Planted, judged: Judged) -> Iterator[str]:
    """What it led to."""
    after, before = judged.said[this.world], judged.said[this.base]
    for name, said in after.items():
        if said.answer != before[name].answer:
            yield f"{name} {said.answer}, was {before[name].answer}"
    if after["why"].doubts != before["why"].doubts:
        yield f"{after['why'].doubts - before['why'].doubts} more doubts"
    yield from (f"set aside: {why.partition(' of ')[0][:60]}" for why in judged.aside.get(this.world, ()))


REAL = "real"
AGREED = "agreed"
ORDERED = "ordered"
OF_WORLD = {AGREED: list(EXPECTED)[:12], ORDERED: list(EXPECTED)[12:20]}
"""What is tried in a world of agreed groups, and in one of groups whose messages have one order: the first
kinds above."""
EXACT = ("a clock that is ten minutes ahead", "a clock that is ten minutes behind")
"""A simulator writes everything by one clock: audits take its word, and what contradicts it is a no."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulated", action="store_true", help="without a real world")
    parser.add_argument("--show", action="store_true", help="what each change led to, in each world")
    asked = parser.parse_args()
    differ, found, many = 0, set(), 0
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        rounds = [(simulated(place / "simulated"), BOUND_S)]
        if not asked.simulated:
            from support.lab import WITHIN_S

            rounds.append(({REAL: real(place)}, WITHIN_S))
        spark = start("local[2]", app="plants", settings=SMALL)
        try:
            for nth, (bases, bound_s) in enumerate(rounds):
                made = planted(place / f"planted {nth}", bases)
                judged = judge(spark, place / f"planted {nth}", bound_s)
                for this in (each for each in made if each.plant):
                    many += 1
                    after, before = judged.said[this.world], judged.said[this.base]
                    found |= {
                        this.plant
                        for name in EXPECTED[this.plant].found
                        if after[name].answer == "no" != before[name].answer
                    }
                    if asked.show:
                        print(f"{this.world}: {'; '.join(outcome(this, judged)) or 'nothing changed'}")
                    for what in wrong(this, judged):
                        differ += 1
                        print(f"{this.world}: {what}")
        finally:
            end(spark)
    never = {plant for plant, expected in EXPECTED.items() if expected.found} - found
    for plant in sorted(never):
        print(f"{plant}: no promise found it in any world")
    found_by = f"{len(found)} of them found by a promise"
    print(f"{many} planted, of {len(EXPECTED)} kinds, {found_by}; {differ} not as expected")
    return 1 if differ or never else 0


if __name__ == "__main__":
    sys.exit(main())
