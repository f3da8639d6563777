"""`rostra why`: the evidence behind a removal, a refusal or a disappearance."""

import textwrap
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from rostra.cli.asking import administer
from rostra.cli.common import EXIT_FAILED, EXIT_OK, Agent, command, run_client
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, Output, answers, busy, show_json
from rostra.client import Admin
from rostra.client.sight import reach
from rostra.client.why import Explanation, Step, explain, seconds
from rostra.errors import NotAllowed, RostraError, Unreachable
from rostra.names import Domain, parse_subject

WIDTH: Final = 80
NODE_WIDTH_MAX: Final = 22


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="The world")(command(why))


def why(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT", help="An endpoint, with or without its number; a host; or a domain."
        ),
    ],
    agent: Agent = None,
    output: Format = Output.TABLE,
) -> int:
    """Explain why somebody is gone: who accused whom, what was missed, and which setting would have helped.

    Every server on the way from here to the subject is asked what it remembers, through the world itself; a
    server behind a cut is asked directly where an address is known (always so in a world of rostra up).
    Memories are bounded, and what nobody remembers is not made up. Exit code 1 if nothing is known.

    Examples:

        rostra why eu.paris.h1/ann#1794780630486
        rostra why eu.paris.h1/ann
        rostra why us -o json
    """
    about = parse_subject(subject)
    with busy(f"asking everybody on the way to {about}"):
        story = run_client(_explain(about, agent))
    if output is Output.TABLE:
        show(story)
    else:
        show_json(story, output)
    return EXIT_FAILED if story.verdict == "unknown" else EXIT_OK


async def _explain(about: str, agent: str | None) -> Explanation:
    async with administer(agent) as admin:
        first = await admin.inspect()
        asking = _Asking(admin, about, agent, first)
        return await explain(about, admin.path, asking.recall, from_host=first["core"]["server"] == "agent")


class _Asking:
    """Through the world; and, of whom that way does not reach, directly."""

    def __init__(self, admin: Admin, about: str, address: str | None, first: Mapping[str, Any]) -> None:
        self._admin = admin
        self._about = about
        self._address = address
        self._first = first

    async def recall(self, of: Domain) -> Mapping[str, Any]:
        try:
            return await self._admin.recall(self._about, of)
        except (Unreachable, NotAllowed) as error:
            try:
                async with reach(of, self._address, self._first) as other:
                    return {**await other.recall(self._about), "directly": True}
            except RostraError:
                raise error from None


# The story, for people


def show(story: Explanation) -> None:
    console = answers()
    when = f" ({seconds(time.time() - story.at)} ago)" if story.at is not None else ""
    for line in _wrapped(f"{story.summary}{when}", ""):
        console.print(Text(line, style="bold"))
    if story.steps:
        console.print()
        for step in _steps(story.steps):
            console.print(step)
    console.print()
    for label, text in _facts(story):
        for number, line in enumerate(_wrapped(text, " " * 10)):
            console.print(Text(f"{label:<10}" if number == 0 else " " * 10, style="dim"), end="")
            console.print(line.removeprefix(" " * 10))


def _steps(steps: Iterable[Step]) -> Iterable[Text]:
    steps = list(steps)
    width = min(NODE_WIDTH_MAX, max(len(step.node) for step in steps))
    for step in steps:
        clock = time.strftime("%H:%M:%S", time.localtime(step.at)) + f".{int(step.at * 10) % 10}"
        head = f"  {clock}  {step.node:<{width}}  "
        room = max(30, WIDTH - len(f"  {clock}  ") - width - 2)
        for number, line in enumerate(textwrap.wrap(step.text, room, break_on_hyphens=False)):
            text = Text(head if number == 0 else " " * (len(f"  {clock}  ") + width + 2), style="dim")
            text.append(line, style=_STYLES.get(step.what, "none"))
            yield text


_STYLES: Final = {"suspected": "yellow", "down": "red", "refused": "red", "late": "yellow", "up": "green"}


def _facts(story: Explanation) -> Iterable[tuple[str, str]]:
    if story.health:
        yield "health", "; ".join(f"{node} {text}" for node, text in story.health.items())
    for setting in story.settings:
        yield "setting", f"{setting.name}: {setting.text}"
    if story.verdict in ("left", "crashed", "lost", "stalled") and not story.settings:
        yield "setting", "none would have changed this"
    if story.now:
        yield "now", story.now
    if story.directly:
        yield "directly", f"{', '.join(story.directly)}: asked past the links that do not reach there"
    for reason, nodes in _by_reason(story.unseen).items():
        if nodes == [story.way[-1]]:
            continue  # has been said above
        verb = "is" if len(nodes) == 1 else "are"
        yield "unseen", f"{', '.join(nodes)} {verb} out of sight from here: {reason}"


def _by_reason(unseen: Mapping[Domain, str]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for node, reason in unseen.items():
        reasons.setdefault(reason, []).append(node)
    return reasons


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, initial_indent=indent, break_on_hyphens=False)
