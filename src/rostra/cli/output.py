"""How answers look: tables for people, JSON for programs.

A table fits its terminal. In a pipe it is as wide as it needs to be, so that nothing that a script reads was
cut off.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH: Final = 10_000


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


Format = Annotated[
    Output,
    typer.Option("--output", "-o", metavar="FORMAT", help="table, json, or jsonl: one document per line."),
]


class Answers(Console):
    def on_broken_pipe(self) -> None:
        """A reader that goes away is for the command to notice: see `common.command`."""
        raise BrokenPipeError


def answers() -> Console:
    """Made when it is needed, so that whoever replaced sys.stdout gets the answer."""
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


def remarks() -> Console:
    return Console(file=sys.stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def busy(doing: str) -> AbstractContextManager[object]:
    """Say on a terminal what takes a while; nothing in a pipe."""
    return remarks().status(doing, spinner="dots") if sys.stderr.isatty() else nullcontext()


def show_json(document: Any, output: Output) -> None:
    """One document: indented for `json`, on one line for `jsonl`."""
    encoded = msgspec.json.encode(document)
    if output is Output.JSON:
        encoded = msgspec.json.format(encoded, indent=2)
    sys.stdout.write(encoded.decode() + "\n")
    sys.stdout.flush()


def show_rows(rows: Iterable[Any], output: Output, whole: Any) -> None:
    """A list: as one document for `json`, as one line for each for `jsonl`."""
    if output is Output.JSON:
        show_json(whole, output)
    else:
        for row in rows:
            show_json(row, output)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, flexible: int = 0) -> None:
    """`flexible` is the column that folds if the terminal is too narrow."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column.upper(), overflow="fold", no_wrap=number != flexible)
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else str(cell) for cell in row))
    console = answers()
    with console.capture() as drawn:
        console.print(table)
    for line in drawn.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")  # columns are padded, the last one for nothing


def heading(text: str) -> None:
    answers().print(Text(text, style="bold"))


def text_of(meta: bytes) -> str:
    """An attachment as people may read it: its text if it is one, its bytes if not."""
    try:
        text = meta.decode()
    except UnicodeDecodeError:
        return meta.hex(" ")
    return text if text.isprintable() else meta.hex(" ")


def coloured(text: str, *, bad: bool = False, warn: bool = False) -> Text:
    return Text(text, style="red" if bad else "yellow" if warn else "")
