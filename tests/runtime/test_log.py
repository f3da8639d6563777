"""Log lines, counters and the flight recorder."""

import io
import json

import pytest

from rostra.observe import log as records
from rostra.observe.log import LABELS_MAX, RARE_KEYS_MAX, RECENT_MAX, EventLog


def test_a_line_is_an_event_its_values_and_its_cause() -> None:
    stream = io.StringIO()
    EventLog(stream=stream).note(
        "link_down", node="eu", peer="us", silence_s=4.1000001, because="no answer", fix=""
    )
    (line,) = stream.getvalue().splitlines()
    at, rest = line.split(" ", 1)
    assert at.endswith("Z")
    assert rest == "link_down node=eu peer=us silence_s=4.1 because='no answer'"


def test_values_cannot_forge_a_line() -> None:
    stream = io.StringIO()
    EventLog(stream=stream).note("refused", who="x\nlink_up node=eu", code="a b")
    assert len(stream.getvalue().splitlines()) == 1


def test_json_lines_carry_the_same() -> None:
    stream = io.StringIO()
    EventLog(json=True, stream=stream).note("link_up", node="eu", incarnation=7)
    line = json.loads(stream.getvalue())
    assert (line["event"], line["node"], line["incarnation"]) == ("link_up", "eu", 7)


def test_names_that_strangers_invent_are_neither_lines_nor_counters_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(records.time, "monotonic", lambda: now)
    stream = io.StringIO()
    record = EventLog(stream=stream)
    for number in range(5_000):
        record.note_rarely(f"ghost{number} NOT_ALLOWED", "refused", who=f"ghost{number}")
        record.count("callers_refused_us", f"CODE{number}")
    record.note_rarely("disk eu", "disk_refused", node="eu")
    assert len(stream.getvalue().splitlines()) == RARE_KEYS_MAX + 1, "others are still heard"
    assert len(record.counted()) == 2 + LABELS_MAX + 1
    assert record.counted()["callers_refused_us{other}"] == 5_000 - LABELS_MAX
    assert record.counted()["event{refused}"] == 5_000
    now += 61.0
    record.note_rarely("h1 NOT_ALLOWED", "refused", who="h1")
    assert len(stream.getvalue().splitlines()) == RARE_KEYS_MAX + 2


def test_the_flight_recorder_is_bounded_and_says_what_it_forgot() -> None:
    record = EventLog(quiet=True)
    for number in range(RECENT_MAX + 5):
        record.note("link_up", number=number)
    assert [recent.values["number"] for recent in record.recent] == list(range(5, RECENT_MAX + 5))
    assert record.forgotten == 5
    assert record.counted() == {"event{link_up}": RECENT_MAX + 5}


def test_what_strangers_cause_is_counted_always_and_said_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(records.time, "monotonic", lambda: now)
    stream = io.StringIO()
    record = EventLog(stream=stream)
    for _ in range(10):
        record.note_rarely("h1 MALFORMED", "refused", who="h1")
    record.note_rarely("h2 MALFORMED", "refused", who="h2")
    now += 61.0
    record.note_rarely("h1 MALFORMED", "refused", who="h1")
    assert len(stream.getvalue().splitlines()) == 3
    assert record.counted()["event{refused}"] == 12
