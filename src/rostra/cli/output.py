"""The format of answers: tables for people, JSON for programs.

A table fits its terminal. In a pipe it is as wide as it needs to be, so that no value in a script's input is
truncated.

Much of what is shown comes from other machines. Control characters in it, which a terminal would obey, are
escaped: `plain`. Every command writes through this module, so that none can forget it.
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

if TYPE_CHECKING:  # imported by those alone that draw something: see `consoles`
    from rich.console import Console
    from rich.text import Text

PIPE_WIDTH: Final = 10_000


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


Format = Annotated[
    OutputFormat,
    typer.Option("--output", "-o", metavar="FORMAT", help="table, json, or jsonl: one document per line."),
]


CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What moves a terminal's cursor, changes its colours or the direction of writing; not tab and newline."""


def plain(text: str) -> str:
    """The same text; control characters in it are written out: ``\\x1b``."""
    return CONTROL.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def say(text: object, *, err: bool = False, nl: bool = True) -> None:
    """One line of an answer, or of a remark."""
    typer.echo(plain(str(text)), err=err, nl=nl)


def answers() -> "Console":
    """Made when it is needed, so that a replaced sys.stdout gets the answer."""
    from rostra.cli.consoles import Answers

    return Answers(
        file=sys.stdout,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
        width=None if sys.stdout.isatty() else PIPE_WIDTH,
        # Who wants no colour gets no other marks either: bold is a colour on many a terminal.
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


def remarks() -> "Console":
    from rostra.cli.consoles import Plain

    return Plain(file=sys.stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def busy(doing: str) -> AbstractContextManager[object]:
    """Say on a terminal what takes a while; nothing in a pipe."""
    return remarks().status(doing, spinner="dots") if sys.stderr.isatty() else nullcontext()


def show_json(document: Any, output: OutputFormat) -> None:
    """One document: indented for `json`, on one line for `jsonl`."""
    encoded = msgspec.json.encode(document)
    if output is OutputFormat.JSON:
        encoded = msgspec.json.format(encoded, indent=2)
    # JSON escapes the control characters of ASCII, and not the others.
    sys.stdout.write(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", encoded.decode()) + "\n")
    sys.stdout.flush()


def show_rows(rows: Iterable[Any], output: OutputFormat, whole: Any) -> None:
    """A list: as one document for `json`, as one line for each for `jsonl`."""
    if output is OutputFormat.JSON:
        show_json(whole, output)
    else:
        for row in rows:
            show_json(row, output)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, flexible: int = 0) -> None:
    """`flexible` is the column that folds if the terminal is too narrow."""
    from rich.table import Table
    from rich.text import Text

    from rostra.cli.consoles import shown

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column.upper(), overflow="fold", no_wrap=number != flexible)
    for row in rows:
        table.add_row(*(shown(cell if isinstance(cell, Text) else str(cell)) for cell in row))
    console = answers()
    with console.capture() as drawn:
        console.print(table)
    for line in drawn.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")  # columns are padded, the last one for nothing


def heading(text: str) -> None:
    from rich.text import Text

    answers().print(Text(text, style="bold"))


def text_of(meta: bytes) -> str:
    """An attachment as people may read it: its text if it is one, its bytes if not."""
    try:
        text = meta.decode()
    except UnicodeDecodeError:
        return meta.hex(" ")
    return text if text.isprintable() else meta.hex(" ")


def coloured(text: str, *, bad: bool = False, warn: bool = False) -> "Text":
    from rich.text import Text

    return Text(text, style="red" if bad else "yellow" if warn else "")
