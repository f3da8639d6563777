"""`docs/cli.md`, made from the commands themselves: ``python -m rostra.cli.page``.

A test compares; ``pytest tests/house --rewrite-goldens`` writes it anew.
"""

from collections.abc import Iterator
from typing import Any

import typer

from rostra.cli import application
from rostra.cli.common import EXIT_CODES
from rostra.cli.house import about, arguments, by_panel, names_of, options, split_help, usage

HEAD = """# The `rostra` command

Made from the commands by `python -m rostra.cli.page`; edit those.
"""


def page() -> str:
    return "\n".join([HEAD, *_root(typer.main.get_command(application()))]).rstrip() + "\n"


def _root(root: Any) -> Iterator[str]:
    words, examples = split_help(root)
    yield from _paragraphs(words)
    yield from _code(examples)
    yield from ("| exit code | meaning |", "|---:|---|")
    yield from (f"| {code} | {text} |" for code, text in EXIT_CODES)
    yield ""
    for panel, commands in by_panel(root):
        yield from (f"## {panel}", "")
        for name, command in commands:
            yield from _command(command, f"rostra {name}", level=3)


def _command(command: Any, path: str, level: int) -> Iterator[str]:
    words, examples = split_help(command)
    yield from (f"{'#' * level} {path}", "")
    inner = getattr(command, "commands", None)
    if not inner:
        yield from ("```", usage(command, path), "```", "")
    yield from _paragraphs(words)
    rows = [*arguments(command), *options(command)] if not inner else []
    if rows:
        yield from ("| | |", "|---|---|")
        yield from (f"| `{names_of(each)}` | {_cell(about(each))} |" for each in rows)
        yield ""
    yield from _code(examples)
    for name, each in (inner or {}).items():
        yield from _command(each, f"{path} {name}", level + 1)


def _paragraphs(words: list[str]) -> Iterator[str]:
    for each in words:
        yield from (each, "")


def _code(lines: list[str]) -> Iterator[str]:
    if lines:
        yield from ("```", *lines, "```", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
