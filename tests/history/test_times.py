"""Times as people write them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rostra.cli.history.times import parse_time, say_time
from rostra.errors import BadInput

NOW = datetime(2026, 3, 2, 10, 0, tzinfo=UTC)
PARIS = timezone(timedelta(hours=1), "CET")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-03-01T03:12:07Z", datetime(2026, 3, 1, 3, 12, 7)),
        ("2026-03-01T03:12+02:00", datetime(2026, 3, 1, 1, 12)),
        ("2026-03-01 03:12", datetime(2026, 3, 1, 2, 12)),  # in the zone of this machine
        ("2026-03-01", datetime(2026, 2, 28, 23, 0)),
        ("03:12", datetime(2026, 3, 2, 2, 12)),
        ("12:30", datetime(2026, 3, 1, 11, 30)),  # today's is still to come
        ("today 12:30", datetime(2026, 3, 2, 11, 30)),
        ("Yesterday 03:12:07.5", datetime(2026, 3, 1, 2, 12, 7, 500000)),
        ("-15m", datetime(2026, 3, 2, 9, 45)),
        ("-1d 6h", datetime(2026, 3, 1, 4, 0)),
        ("10m ago", datetime(2026, 3, 2, 9, 50)),
        ("1d 6h ago", datetime(2026, 3, 1, 4, 0)),
        ("-0.5s", datetime(2026, 3, 2, 9, 59, 59, 500000)),
        ("now", datetime(2026, 3, 2, 10, 0)),
    ],
)
def test_a_time_is_understood_as_people_mean_it(text, meant):
    assert parse_time(text, NOW, PARIS) == meant.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "soon", "25:00", "03:61", "-15", "-15x", "15m", "ago", "2026-13-01", "yesterday"]
)
def test_what_is_no_time_is_refused_with_examples(text):
    with pytest.raises(BadInput, match="no") as refused:
        parse_time(text, NOW, PARIS)
    assert "-15m" in refused.value.fix


def test_a_time_is_said_back_with_its_zone():
    assert say_time(NOW, PARIS) == "2026-03-02 10:00:00 UTC (11:00:00 CET here)"
    assert say_time(NOW, UTC) == "2026-03-02 10:00:00 UTC"
