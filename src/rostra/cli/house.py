"""How every command of `rostra` shows its help and its errors: plain text, 80 columns, the same everywhere.

Help is made from the command itself, its docstring and its options; `docs/cli.md` is made from the same
(`page`). What stands after a line ``Examples:`` is shown as it was written.
"""

import difflib
import errno
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from rostra.cli.common import (
    EXIT_CODES,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_MISUSE,
    EXIT_OK,
    complain,
    exit_code,
    forget_stdout,
)
from rostra.errors import BadInput, RostraError

WIDTH: Final = 78

UsageError: Any = typer.BadParameter.__bases__[0]
"""Of whichever parser this version of typer brings along."""

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

PANELS: Final = ("Groups", "The world", "Daemons", "On one machine", "Other")
"""Sections of the list of commands, in this order."""


class HouseCommand(TyperCommand):
    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(command_help(self, ctx.command_path))


class CommandAfter(HouseCommand):
    """A command that takes another after ``--``: ``rostra watch chess -- notify-send``.

    No command begins with ``-``. Before a word that does, the first ``--`` only ends the options, as
    everywhere: ``rostra watch -- -odd`` and ``rostra watch -- -odd -- notify-send``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        if args[at + 1 : at + 2] and args[at + 1].startswith("-"):
            at = args.index("--", at + 2) if "--" in args[at + 2 :] else len(args)
        if at < len(args):
            ctx.meta[AFTER] = args[at + 1 :]
            args = args[:at]
            if not ctx.meta[AFTER]:
                raise BadInput("nothing stands after --", fix="name the command to run, or leave out the --")
        return super().parse_args(ctx, args)


AFTER: Final = "rostra.after"


def after(ctx: typer.Context) -> list[str]:
    """The command that stood after ``--``, word by word; none if there was none."""
    words: list[str] = ctx.meta.get(AFTER, [])
    return words


_ELSEWHERE: Final = {
    **dict.fromkeys(["group show", "group look", "group view", "group views"], "rostra views"),
    **dict.fromkeys(["group list", "group ls"], "rostra groups"),
    "group join": 'rostra lead, or me.join(..., membership="agreed") in Python',
}
"""What people look for in a group of commands, and is elsewhere."""


class HouseGroup(TyperGroup):
    @property
    def names(self) -> Iterable[str]:
        """The names of its commands, also of those that are not imported."""
        return self.commands

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(group_help(self, ctx.command_path, is_root=ctx.parent is None))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], self.names, n=3)
            if (other := _ELSEWHERE.get(f"{self.name} {args[0]}")) is not None:
                close = [other]
            raise BadInput(
                f"there is no command {args[0]!r}",
                fix=(f"closest: {', '.join(close)}\n" if close else "")
                + f"all of them: {ctx.command_path} --help",
            )
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(words or ["--help"], prog_name, complete_var, standalone_mode=False, **extra)
        except RostraError as error:
            complain(error)
            code = exit_code(error)
        except UsageError as error:
            code = self._misused(error)
        except typer.Abort:
            code = EXIT_INTERRUPTED
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            forget_stdout()
            what = f"cannot write {error.filename or 'the answer'}: {error.strerror}"
            complain(RostraError(what, fix="make room there, or write elsewhere"))
            code = EXIT_FAILED
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else EXIT_OK)
        return code

    def _misused(self, error: Any) -> int:
        ctx = error.ctx
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(ctx.get_help())
            return EXIT_OK
        what, hints = _in_our_words(error)
        where = ctx.command_path if ctx is not None else "rostra"
        complain(BadInput(what, fix="\n".join((*hints, f"see: {where} --help"))))
        return EXIT_MISUSE


WORLD_FILE_HINTS: Final = (
    "name one: --world FILE, or ROSTRA_WORLD",
    "make one: rostra config example > world.toml",
)


IN_OUR_WORDS: Final = (
    (r"Value error, ", ""),
    (r"Input should be a valid integer.*", "write a whole number"),
    (r"Input should be a valid number.*", "write a number"),
    (r"Input should be less than or equal to", "write at most"),
    (r"Input should be greater than or equal to", "write at least"),
    (r"Got unexpected extra argument\S* \((.*)\)", r"too many words: \1"),
)


def _in_our_words(error: Any) -> tuple[str, list[str]]:
    """What the parser found wrong, and what to try."""
    kind = type(error).__name__
    if kind == "NoSuchOption":
        return f"no such option: {error.option_name}", list(_instead_of(error.option_name, error))
    if kind == "MissingParameter" and error.param is not None:
        param = error.param
        missing = (
            f"missing {param.param_type_name} {_metavar(param) if _is_argument(param) else param.opts[0]}"
        )
        return missing, list(WORLD_FILE_HINTS if param.name in ("world", "file") and param.envvar else ())
    what = error.format_message().rstrip(".")
    for theirs, ours in IN_OUR_WORDS:
        what = re.sub(theirs, ours, what)
    return what[:1].lower() + what[1:], []


def _instead_of(option: str, error: Any) -> Iterator[str]:
    known = {name for param in error.ctx.command.params for name in param.opts} if error.ctx else set()
    if option.lstrip("-") in ("json", "jsonl") and "--output" in known:
        yield f"for programs: -o {option.lstrip('-')}"
        return
    if error.ctx is not None and error.ctx.parent is None:
        yield "options stand after the command: rostra members chess -o json"
        return
    close = difflib.get_close_matches(option, sorted(each for each in known if each.startswith("--")), n=2)
    if close:
        yield f"closest: {', '.join(close)}"
    elif error.ctx and any(_metavar(each) == "GROUP" for each in arguments(error.ctx.command)):
        yield f"a group's name that begins with '-' stands after --: {error.ctx.command_path} -- -NAME"


# Help, as text


def command_help(command: Any, path: str) -> str:
    words, examples = split_help(command)
    return "\n".join(
        [
            f"Usage: {usage(command, path)}",
            "",
            *_paragraphs(words),
            *_section("Arguments", [_row(each) for each in arguments(command)]),
            *_section("Options", [_row(each) for each in options(command)]),
            *(["Examples:", *(f"  {line}" for line in examples), ""] if examples else []),
        ]
    )


def group_help(group: Any, path: str, *, is_root: bool) -> str:
    words, examples = split_help(group)
    lines = [f"Usage: {path} COMMAND [OPTIONS]", "", *_paragraphs(words)]
    for panel, commands in by_panel(group):
        lines += _section(panel, [(name, summary(command)) for name, command in commands])
    if examples:
        lines += ["Examples:", *(f"  {line}" for line in examples), ""]
    if is_root:
        lines += _section("Exit codes", [(str(code), text) for code, text in EXIT_CODES])
    lines += [f"{path} COMMAND --help says more about each.", ""]
    return "\n".join(lines)


def split_help(command: Any) -> tuple[list[str], list[str]]:
    """The paragraphs of a command's docstring, and its examples line by line."""
    text, _, examples = (command.help or "").partition("Examples:")
    words = [" ".join(paragraph.split()) for paragraph in text.split("\n\n") if paragraph.strip()]
    return words, [line.strip() for line in examples.splitlines() if line.strip()]


def summary(command: Any) -> str:
    words, _ = split_help(command)
    return words[0] if words else ""


def by_panel(group: Any) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    panels: dict[str, list[tuple[str, Any]]] = {}
    for name, command in group.commands.items():
        panel = getattr(command, "rich_help_panel", None)
        panels.setdefault(panel if isinstance(panel, str) else "Commands", []).append((name, command))
    order = {panel: number for number, panel in enumerate(PANELS)}
    for panel in sorted(panels, key=lambda each: order.get(each, len(order))):
        yield panel, panels[panel]


def usage(command: Any, path: str) -> str:
    words = [path, "[OPTIONS]"] if options(command) else [path]
    for argument in arguments(command):
        name = _metavar(argument)
        many = "..." if argument.nargs == -1 else ""
        words.append(f"{name}{many}" if argument.required else f"[{name}{many}]")
    if isinstance(command, CommandAfter):
        words.append("[-- COMMAND...]")
    return " ".join(words)


def arguments(command: Any) -> list[Any]:
    return [each for each in command.params if _is_argument(each)]


def options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option"]


def names_of(param: Any) -> str:
    """``-o, --output FORMAT``."""
    if _is_argument(param):
        return _metavar(param)
    names = ", ".join(sorted({*param.opts, *param.secondary_opts}, key=len))
    return names if _is_flag(param) else f"{names} {_metavar(param)}"


def about(param: Any) -> str:
    """What it does, the environment variable that sets it too, and its default."""
    said = [param.help or ""]
    if param.envvar:
        said.append(f"[env: {param.envvar}]")
    shown = param.show_default
    if isinstance(shown, str):
        said.append(f"[default: {shown}]")
    elif shown and param.default not in (None, False, "", [], ()) and not callable(param.default):
        default = getattr(param.default, "value", param.default)
        said.append(f"[default: {default}]")
    if param.required and param.param_type_name == "option":
        said.append("[required]")
    return " ".join(said)


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _metavar(param: Any) -> str:
    name: str = param.metavar or param.name.upper().replace("_", "-")
    return name.removesuffix("...")


def _is_flag(param: Any) -> bool:
    return bool(getattr(param, "is_flag", False) or getattr(param, "count", False)) or param.name == "help"


def _row(param: Any) -> tuple[str, str]:
    return names_of(param), about(param)


def _section(title: str, rows: Sequence[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    width = min(max(len(left) for left, _ in rows), 24)
    lines = [f"{title}:"]
    for left, right in rows:
        wrapped = textwrap.wrap(right, WIDTH - width - 4, break_on_hyphens=False) or [""]
        if len(left) > width:
            lines.append(f"  {left}")
            left = ""
        lines.append(f"  {left:<{width}}  {wrapped[0]}".rstrip())
        lines += [f"  {'':<{width}}  {line}" for line in wrapped[1:]]
    return [*lines, ""]


def _paragraphs(words: Iterable[str]) -> list[str]:
    return [line for each in words for line in (*textwrap.wrap(each, WIDTH, break_on_hyphens=False), "")]
