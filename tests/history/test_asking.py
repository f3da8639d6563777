"""What is asked of a history that is not there is answered at once, before Spark starts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from rostra.cli import application


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """An empty directory, one that looks like a journal, and one that looks like tables."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "journal" / "date=2026-03-01").mkdir(parents=True)
    (tmp_path / "tables" / "_commits").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("option", "place", "says"),
    [
        ("-j", "nowhere", "there is no journal at"),
        ("-j", "empty", "there is no segment of a journal in"),
        ("-j", "journal", "a segment is finished every ten seconds"),
        ("-j", "tables", "has tables, and no journal"),
        ("-t", "nowhere", "there are no tables in"),
        ("-t", "empty", "rostra history ingest --journal DIR --tables"),
        ("-t", "journal", "is a journal, and no tables"),
    ],
)
def test_a_history_that_is_not_there_is_said_before_spark_starts(
    option: str, place: str, says: str, places: Path, nothing_starts: None
) -> None:
    done = CliRunner().invoke(application(["history"]), ["history", "churn", option, str(places / place)])
    assert done.exit_code == 2 and says in done.output
    assert str(places / place) in done.output


@pytest.mark.parametrize(
    ("variables", "words", "asked"),
    [
        (("TABLES",), ("-j", "journal"), "journal"),
        (("JOURNAL",), ("-t", "tables"), "tables"),
        (("TABLES", "JOURNAL"), (), "tables"),
        (("TABLES", "JOURNAL"), ("-j", "nowhere"), "nowhere"),
    ],
)
def test_the_command_line_counts_before_variables_and_tables_before_journals(
    variables: tuple[str, ...],
    words: tuple[str, ...],
    asked: str,
    places: Path,
    nothing_starts: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in variables:
        monkeypatch.setenv(f"ROSTRA_{name}", str(places / name.lower()))
    given = [*words[:1], *(str(places / word) for word in words[1:])]
    done = CliRunner().invoke(application(["history"]), ["history", "churn", *given])
    assert done.exit_code == 2 and str(places / asked) in done.output


@pytest.mark.parametrize("variable", ["ROSTRA_TABLES", "ROSTRA_JOURNAL"])
def test_tables_and_a_journal_are_one_too_many(
    variable: str, places: Path, nothing_starts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(places / "elsewhere"))
    both = ["-t", str(places / "tables"), "-j", str(places / "journal")]
    done = CliRunner().invoke(application(["history"]), ["history", "churn", *both])
    assert done.exit_code == 2 and "tables or journal, not both" in done.output
