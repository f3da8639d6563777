"""Rich's console, and without the control characters of others. Rich takes a tenth of a command's start, so
only what draws a table or a colour imports this module: an agent waits for nothing that it never shows.
"""

from typing import Any

from rich.console import Console
from rich.text import Text

from rostra.cli.output import CONTROL, plain


class Plain(Console):
    """Prints texts as `plain` makes them."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*map(shown, objects), **options)


class Answers(Plain):
    def on_broken_pipe(self) -> None:
        """A reader that goes away is for the command to notice: see `common.command`."""
        raise BrokenPipeError


def shown(cell: Any) -> Any:
    if not isinstance(cell, str | Text):
        return cell
    text = cell if isinstance(cell, str) else cell.plain
    if CONTROL.search(text) is None:
        return cell
    return plain(text) if isinstance(cell, str) else Text(plain(text), style=cell.style)
