"""The tables of `docs/journal.md`, made from the schema: ``pytest tests/house --rewrite-goldens``."""

from collections.abc import Iterator

from rostra.journal.schema import COLUMNS, KINDS, VERSION

BEGIN, END = "<!-- made from schema.py -->", "<!-- until here -->"


def with_tables(page: str) -> str:
    """The page, with its tables as they are now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n" + "\n".join(_tables()) + f"\n\n{END}{after}"


def _tables() -> Iterator[str]:
    yield f"Schema version {VERSION}."
    yield ""
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    for column in COLUMNS:
        always = ", always there" if column.required else ""
        yield f"| `{column.name}` | {column.type}{always} | {_cell(column.meaning)} |"
    yield ""
    yield "| kind | what happened | columns, beside those always there |"
    yield "|---|---|---|"
    for kind in KINDS:
        columns = " ".join(f"`{name}`" for name in kind.columns.split())
        yield f"| `{kind.name}` | {_cell(kind.meaning)} | {columns} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
