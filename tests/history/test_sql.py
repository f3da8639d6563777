"""Journals are Parquet that anything can read: the SQL of the documentation, run by DuckDB."""

import re
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from history.test_ingest import steady
from support.segments import write

DOCS = Path(__file__).parents[2] / "docs"
JOURNAL = "/var/lib/rostra/journal"

STATEMENTS = re.findall(r"```sql\n(.*?)```", (DOCS / "journal.md").read_text(), re.DOTALL)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Two days. Two links go down, the later one in the segment that is listed first."""
    rows = [{**row, "kind": "heartbeat"} for row in steady(8)]
    evidence = {"kind": "link-down", "what": "silent", "limit_s": 2.0}
    rows[6] |= {**evidence, "peer": "eu", "silence_s": 2.5}
    later = [{**row, "writer": "aa.h1", "at": row["at"] + timedelta(days=1)} for row in rows[:3]]
    later[1] |= {**evidence, "peer": "us", "silence_s": 3.5}
    for some in (rows[:4], rows[4:], later):
        write(tmp_path, some)
    return tmp_path


def test_the_sql_of_the_documentation_runs_in_duckdb(journal: Path) -> None:
    [links] = STATEMENTS  # whoever adds one says here what it answers
    with duckdb.connect() as duck:
        asked = duck.execute(links.replace(JOURNAL, str(journal)))
        names = [column[0] for column in asked.description or ()]
        found = [dict(zip(names, row, strict=True)) for row in asked.fetchall()]
    assert names == ["at", "writer", "peer", "what", "silence_s", "limit_s"]
    assert [(row["peer"], row["what"], row["silence_s"], row["limit_s"]) for row in found] == [
        ("eu", "silent", 2.5, 2.0),
        ("us", "silent", 3.5, 2.0),
    ]
    assert found[1]["at"] - found[0]["at"] > timedelta(hours=23)
