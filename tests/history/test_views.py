"""Questions about agreed groups: who was in which view, and which server noticed that somebody was gone."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from history.test_view_audits import GROUP, partition
from support.parity import rows_of
from support.segments import SCHEMA

from rostra.history.questions.views import agreed_removals, who_agreed, who_view, why_agreed

Rows = list[dict[str, Any]]
LEDGER = str(GROUP)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    directory = tmp_path_factory.mktemp("views")
    partition(directory).close()
    return rows_of(directory, "agreed")


@pytest.fixture(scope="module")
def events(rows: Rows, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return read(rows, spark, tmp_path_factory.mktemp("events"))


def read(rows: Rows, spark: Any, directory: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), directory / "all.parquet")
    return spark.read.parquet(str(directory)).cache()


def during_the_cut(rows: Rows) -> datetime:
    """When both sides have noticed."""
    return max(row["at"] for row in rows if row["kind"] == "blocked" and "who lived last" in row["what"])


def listed(answer: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in answer.collect():
        assert row["rank"] == len(found.setdefault(row["view"], []))
        found[row["view"]].append(row["member"].partition("/")[0])
    return found


def test_the_members_of_a_view_come_by_its_number_in_order_of_rank(events: Any, rows: Rows) -> None:
    (whole,) = listed(who_view(events, LEDGER, 5)).values()
    assert sorted(whole) == ["eu.de.h1", "eu.de.h2", "eu.fr.h1", "eu.fr.h2", "eu.it.h1"]
    ((id, after),) = listed(who_view(events, LEDGER, 6)).items()
    assert after == [each for each in whole if not each.startswith("eu.fr")]
    assert id.startswith("6.0 ")


def test_what_a_side_that_is_blocked_never_had_is_not_seen_from_there(events: Any) -> None:
    assert listed(who_view(events, LEDGER, 6, "eu.fr")) == {}
    assert len(listed(who_view(events, LEDGER, 6, "eu.it"))) == 1
    assert listed(who_view(events, LEDGER, 99)) == {}


def test_two_sides_had_two_views_at_a_time_and_one_of_them_was_blocked(events: Any, rows: Rows) -> None:
    found = who_agreed(events, LEDGER, during_the_cut(rows)).collect()
    assert {(row["view"].partition(".")[0], row["blocked"], row["hosts"]) for row in found} == {
        ("5", True, 2),
        ("6", False, 3),
    }
    assert {row["fence"] for row in found if row["blocked"]} == {None}
    assert {row["fence"] for row in found if not row["blocked"]} == {6}


def test_a_view_whose_beginning_is_missing_is_not_made_up(rows: Rows, spark: Any, tmp_path: Path) -> None:
    torn = [
        row
        for row in rows
        if not (row["writer"] == "eu.it.h1" and row["kind"] == "view" and row["first"] == 3)
    ]
    found = who_view(read(torn, spark, tmp_path), LEDGER, 6)
    assert {row["hosts"] for row in found.collect()} == {2}, "of three: one cannot tell"


def test_why_names_who_noticed_the_evidence_the_change_the_view_and_its_fence(
    events: Any, rows: Rows
) -> None:
    then = during_the_cut(rows) + timedelta(seconds=1)
    removed = agreed_removals(events, "eu.fr.h2/app", then)
    story = why_agreed(events, removed).collect()
    steps = {
        what: [row["text"] for row in story if row["what"] == what] for what in {r["what"] for r in story}
    }
    assert any("gave up eu.fr" in text and "silent" in text for text in steps["evidence"])
    assert any(text.startswith("isolated eu.fr") for text in steps["evidence"])
    (agreed, *_) = steps["agreed"]
    assert "set(eu) agreed on view 6 of ledger@eu, because servers failed: eu.fr is lost" in agreed
    assert "noticed by eu" in agreed and "without eu.fr" in agreed and "fence 6" in agreed
    assert steps["told"] == ["was given view 6 of ledger@eu, fence 6"] * 3
    assert any("blocked in ledger@eu: 2 of 5 who lived last are here" in text for text in steps["home"])
    assert any("is in view 8 of ledger@eu" in text for text in steps["back"])


def test_a_member_that_left_is_a_removal_too(events: Any, rows: Rows) -> None:
    removed = agreed_removals(events, "eu.de.h2/app", rows[-1]["at"] + timedelta(hours=1))
    texts = [row["text"] for row in why_agreed(events, removed).collect()]
    assert any("left ledger@eu (leave)" in text for text in texts)
    assert any("because leave" in text for text in texts)


def test_a_neighbour_that_was_given_up_without_a_silence_is_said_to_be_nothing_else(
    rows: Rows, spark: Any, tmp_path: Path
) -> None:
    """As one is whose connection was refused; no number is made up for it."""
    silent = {"silence_s": None, "limit_s": None}
    changed = [{**row, **silent, "what": "refused"} if row["kind"] == "link-down" else row for row in rows]
    events = read(changed, spark, tmp_path)
    then = during_the_cut(rows) + timedelta(seconds=1)
    story = why_agreed(events, agreed_removals(events, "eu.fr.h2/app", then)).collect()
    assert "gave up eu.fr, refused" in {row["text"] for row in story}
