"""docs/journal.md says what the schema says."""

from pathlib import Path

from support.journal_page import with_tables

from rostra.journal.bounds import Bounds
from rostra.journal.schema import COLUMNS, KINDS, NAMES

PAGE = Path(__file__).parents[2] / "docs" / "journal.md"


def test_the_tables_of_the_journal_are_those_of_the_schema(rewrite_goldens: bool) -> None:
    if rewrite_goldens:
        PAGE.write_text(with_tables(PAGE.read_text()))
    assert PAGE.read_text() == with_tables(PAGE.read_text()), "run  pytest tests/house --rewrite-goldens"


def test_every_column_is_named_once_and_filled_by_some_kind() -> None:
    assert len(set(NAMES)) == len(NAMES)
    filled = {name for kind in KINDS for name in kind.columns.split()}
    assert filled <= set(NAMES)
    always = {column.name for column in COLUMNS if column.required}
    assert set(NAMES) - filled - always == {"virtual_s"}, "a simulated world's clock, in every row of it"


def test_every_bound_is_shown_with_its_default() -> None:
    page = PAGE.read_text().replace("_000", "000")
    for name in Bounds.__struct_fields__:
        assert f"{name} = {getattr(Bounds(), name):g}".replace("e+05", "00000") in page, name
