"""A made-up month is one that could have been: whole, consistent, repeatable, and judged as it was made."""

import hashlib
from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.parity import STORM_BOUND_S, bounds_of

from benchmarks.sample import PLANTS, SPOKEN, sample
from rostra.errors import BadInput
from rostra.journal.schema import KIND_NAMES, SIGHT
from rostra.journal.segments import SCHEMA, read

SMALL = {"events": 2_000, "days": 1, "seed": 4}
SPEAKING = {"events": 6_000, "days": 1, "seed": 4, "talk": 0.4}
BRIEF = {**SPEAKING, "events": 3_000}


@pytest.fixture(scope="module")
def month(tmp_path_factory):
    where = tmp_path_factory.mktemp("month")
    made = sample(where, **SMALL)
    return made, read(where)


@pytest.fixture(scope="module")
def rows(month):
    return month[1].to_pylist()


def test_it_has_about_as_many_rows_as_were_asked_for(tmp_path):
    assert 0.7 < sample(tmp_path, events=50_000, days=5).rows / 50_000 < 1.5


def test_its_rows_are_in_the_journals_own_schema(month):
    made, table = month
    assert made.rows == table.num_rows
    assert table.schema.equals(SCHEMA)
    assert set(table["kind"].to_pylist()) <= set(KIND_NAMES)
    for field in SCHEMA:
        assert field.nullable or table[field.name].null_count == 0, field.name


def test_every_writers_numbers_begin_at_one_and_have_no_holes(rows):
    last = {}
    for row in rows:
        key = (row["writer"], row["epoch"])
        assert row["seq"] == last.get(key, 0) + 1
        last[key] = row["seq"]


def test_no_writers_clock_goes_back_and_its_first_row_says_that_it_started(rows):
    before = {}
    for row in rows:
        key = (row["writer"], row["epoch"])
        if key in before:
            assert row["at"] >= before[key]
        else:
            assert row["kind"] == "started"
        before[key] = row["at"]


def test_the_rows_of_an_event_stand_together(rows):
    owed = {}
    for row in rows:
        key = (row["writer"], row["epoch"])
        nth, of, kind = owed.get(key, (0, 1, None))
        if nth + 1 < of:
            assert (row["kind"], row["nth"], row["of"]) == (kind, nth + 1, of)
        else:
            assert row["nth"] == 0
        owed[key] = (row["nth"], row["of"], row["kind"])


def test_nobody_loses_sight_of_whom_it_does_not_see_nor_finds_whom_it_does(rows):
    seen = set()
    for row in rows:
        if row["kind"] in SIGHT and row["news"]:
            key = (row["writer"], row["epoch"], row["group"], row["member"])
            assert (key in seen) == (row["change"] == "left"), row
            (seen.remove if row["change"] == "left" else seen.add)(key)
    assert seen, "nobody was seen at the end"


def test_a_crash_ends_an_epoch_without_a_goodbye_and_the_next_one_is_larger(rows):
    ends = {(row["writer"], row["epoch"]): row["kind"] for row in rows}
    lives = Counter(writer for writer, _ in ends)
    crashed = [row["peer"] for row in rows if (row["kind"], row["change"]) == ("server-changed", "crashed")]
    assert crashed
    for writer, many in lives.items():
        epochs = sorted(epoch for name, epoch in ends if name == writer)
        assert many == 1 + crashed.count(writer)
        assert [ends[writer, epoch] == "closing" for epoch in epochs] == [False] * (many - 1) + [True]


def test_every_kind_of_fault_is_in_it(rows):
    kinds = {row["kind"] for row in rows}
    assert {"without", "only", "link-down", "domain-failed", "line-changed", "settled"} <= kinds
    assert any(row["kind"] == "joined" and row["cause"] == "merge" for row in rows)


def test_the_same_seed_gives_the_same_rows_and_another_one_does_not(month, tmp_path):
    sample(tmp_path / "again", **SMALL)
    sample(tmp_path / "other", **{**SMALL, "seed": 5})
    assert read(tmp_path / "again").equals(month[1])
    assert not read(tmp_path / "other").equals(month[1])


def test_what_cannot_be_made_is_refused(tmp_path):
    with pytest.raises(BadInput, match="too few"):
        sample(tmp_path, events=10)
    with pytest.raises(BadInput, match="nobody knows how to break"):
        sample(tmp_path, planted="all-or-none")
    with pytest.raises(BadInput, match="not a share"):
        sample(tmp_path, talk=1.5)
    with pytest.raises(BadInput, match="nobody speaks"):
        sample(tmp_path, planted="smooth-join")
    sample(tmp_path, **SMALL)
    with pytest.raises(BadInput, match="holds a journal already"):
        sample(tmp_path, **SMALL)


def fingerprint(table):
    """Of every row that a sample had before groups could speak, without the columns that came later."""
    table = table.drop_columns(["view", "base", "fence", "digest", "acks", "cut"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.remove_metadata()) as stream:
        stream.write_table(table.replace_schema_metadata(None).combine_chunks())
    return hashlib.sha256(sink.getvalue()).hexdigest()[:16]


def test_without_talk_a_seed_gives_the_rows_that_it_always_gave(month):
    """Published figures are of these rows."""
    assert fingerprint(month[1]) == "d12db527dc43b646"


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    where = tmp_path_factory.mktemp("spoken")
    sample(where, **SPEAKING)
    return read(where).to_pylist()


def test_about_as_much_is_talk_as_was_asked_for(spoken):
    kinds = Counter(row["kind"] for row in spoken)
    talk = sum(kinds[kind] for kind in ("delivered", "recovered", "snapshot", "changed"))
    assert 0.2 < talk / len(spoken) < 0.5
    assert kinds["changed"] and kinds["recovered"] and kinds["stream-ended"]


def test_every_stream_is_heard_from_its_beginning_without_gap_or_duplicate(spoken):
    owed = {}
    for row in spoken:
        if row["kind"] in ("stream-started", "stream-gap", "delivered", "stream-ended"):
            [observer] = row["observers"]
            stream = (row["writer"], row["epoch"], row["group"], row["member"], observer)
            assert observer.startswith(f"{row['writer']}/") and observer != row["member"]
            if row["kind"] in ("stream-gap", "delivered"):
                assert row["first"] == owed[stream], row
            owed[stream] = row["first"] if row["kind"] == "stream-started" else row["last"] + 1


def test_who_was_cut_off_while_somebody_spoke_is_told_what_it_missed(tmp_path):
    sample(tmp_path, events=60_000, days=3, seed=1, talk=0.5)
    rows = read(tmp_path).to_pylist()
    before = {}
    gaps = 0
    for row in rows:
        if row["kind"] in ("stream-started", "stream-gap", "delivered", "stream-ended"):
            stream = (row["writer"], row["epoch"], row["group"], row["member"], row["observers"][0])
            if row["kind"] == "stream-gap":
                gaps += 1
                assert (before[stream]["kind"], before[stream]["cause"]) == ("stream-ended", "lost")
                assert row["first"] == before[stream]["last"] + 1 <= row["last"]
            elif row["kind"] == "stream-started" and stream in before:
                assert before[stream]["kind"] == "stream-gap"
            before[stream] = row
    assert gaps


def test_numbers_of_a_watch_begin_after_its_list_and_have_no_gaps(spoken):
    last = {}
    for row in spoken:
        if row["kind"] in ("snapshot", "changed"):
            watch = (row["writer"], row["epoch"], row["group"], *row["observers"])
            assert row["number"] == (0 if row["kind"] == "snapshot" else last[watch] + 1)
            last[watch] = row["number"]
    assert max(last.values()) > 10


class Brought:
    """A clean world, one that speaks, and one for each plant."""

    def __init__(self, where):
        sample(where / "clean", world="clean", **SMALL)
        sample(where / "spoken", world="spoken", **BRIEF)
        for promise in PLANTS:
            chosen = {"fifo-gap-free": BRIEF, "smooth-join": SPEAKING}.get(promise, SMALL)
            sample(where / promise, world=promise, planted=promise, **chosen)
        self.table = pa.concat_tables([read(path) for path in sorted(where.iterdir())])


@pytest.mark.parametrize("promise", PLANTS)
def test_audits_answer_yes_and_find_what_was_planted(court, promise):
    bound_s = bounds_of(promise, STORM_BOUND_S)  # judged by it anyway
    found = {world: verdict["answer"] for world, verdict in court.verdicts(promise, bound_s).items()}

    assert found["clean"] == ("cannot tell" if promise in SPOKEN else "yes")
    assert found["spoken"] == "yes"
    assert found[promise] == "no"


def test_stamps_grow_with_every_change_of_one_home(month):
    table = month[1]
    home = table.filter(pc.is_in(table["kind"], pa.array(["member-joined", "member-left"])))
    for writer in set(home["writer"].to_pylist()):
        mine = home.filter(pc.equal(home["writer"], writer))
        for epoch in set(mine["epoch"].to_pylist()):
            stamps = mine.filter(pc.equal(mine["epoch"], epoch))["stamp"].to_pylist()
            assert stamps == list(range(1, len(stamps) + 1))
