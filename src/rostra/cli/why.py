"""`rostra why`: the evidence behind a removal, a refusal or a disappearance."""

import contextlib
import textwrap
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer
from msgspec.structs import replace
from rich.text import Text

from rostra.cli.asking import Deadline, administer, complete_subject, endpoint, in_time, known_groups
from rostra.cli.common import EXIT_FAILED, EXIT_OK, Agent, OwnToken, command, run_client
from rostra.cli.groups import count
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, OutputFormat, answers, busy, show_json
from rostra.client import Admin
from rostra.client.known import KnownNames, known_names, known_of
from rostra.client.sight import look, reach
from rostra.client.why import Explanation, Step, explain, seconds
from rostra.errors import BadInput, BadName, NotAllowed, RostraError, Unreachable
from rostra.names import ROOT, Domain, Endpoint, host_of, parse_endpoint_name, parse_subject

WIDTH: Final = 80
NODE_WIDTH_MAX: Final = 22
EARLIER_MAX: Final = 3
CANDIDATES_MAX: Final = 8

GROUPS_MAX: Final = 50
MEMBERS_WITHIN_S: Final = 2.0
"""Groups whose members are asked for to find out whom a name means, and for how long."""


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="The world")(command(why))


def why(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="SUBJECT",
            help="An endpoint, with or without its number and its host; a host; or a domain.",
            autocompletion=complete_subject,
        ),
    ],
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Explain why a member or host is gone: the accuser, the evidence, the setting that would have helped.

    Every server on the way from here to the subject is asked what it remembers, through the world itself; a
    server behind a cut is asked directly where an address is known (always so in a world of rostra up).
    Memories are bounded, and what no node remembers is not guessed. Exit code 1 if nothing is known; for an
    unknown name, the closest ones are shown. The story of a host includes led sets whose leader changed
    there, that of a member of a group with delivery="atomic" its messages that were rejected.

    Examples:

        rostra why eu.paris.h1/ann#1794780630486
        rostra why eu.paris.h1/ann
        rostra why ann
        rostra why us -o json
    """
    with busy(f"asking every node on the way to {subject}"):
        story = run_client(in_time(deadline, _explain(subject, agent)))
    if output is OutputFormat.TABLE:
        show(story)
    else:
        show_json(story, output)
    return EXIT_FAILED if story.verdict == "unknown" else EXIT_OK


async def _explain(text: str, agent: str | None) -> Explanation:
    is_name = _is_name_alone(text)
    about = "" if is_name else _subject(text)  # a mistake is reported before any node is asked
    async with administer(agent) as admin:
        asking = _Asking(admin, agent, await admin.inspect())
        if is_name:
            about = await asking.meant(text)
        elif about == ROOT and not asking.has_root:
            raise BadInput("the world has no server of its own", fix="name a domain, a host or an endpoint")
        if not about:
            nobody = f"nobody knows {text}: no endpoint, host or domain in sight is called that"
            story = Explanation(text, admin.path, "unknown", nobody)
        else:
            story = await asking.explain(about)
        if story.verdict == "unknown":
            known = await asking.known(host_of(Endpoint(about)) if "/" in about else None)
            story = replace(story, closest=known.closest(text))
        return story


def _subject(text: str) -> str:
    if "@" in text:
        raise BadName(
            f"{text!r} is a group: why tells of members, hosts and domains",
            fix=f"who is in it:  rostra members {text}\nif it is agreed:  rostra views {text} --history",
        )
    try:
        return parse_subject(text)
    except BadName as error:
        raise BadName(
            f"{text!r} is no name: {error.what}",
            fix="write an endpoint (eu.paris.h1/ann), its name alone (ann), a host or a domain",
        ) from None


def _is_name_alone(text: str) -> bool:
    """May this be an endpoint's name without its host, perhaps with its number? A name may have dots, but
    what has dots and reads as a path is one."""
    if "/" in text or text == ROOT:
        return False
    with contextlib.suppress(BadName):
        if "." in text and parse_subject(text):
            return False
    with contextlib.suppress(BadName):
        return bool(parse_endpoint_name(text.partition("#")[0]))
    return False


class _Asking:
    """Through the world; and, of whom that way does not reach, directly."""

    def __init__(self, admin: Admin, address: str | None, first: Mapping[str, Any]) -> None:
        self._admin = admin
        self._address = address
        self._first = first
        self._about = ""

    @property
    def has_root(self) -> bool:
        return ROOT in self._first.get("servers", {})

    async def meant(self, text: str) -> str:
        """What a word alone means: a domain, or the only endpoint of that name; nothing if there is none."""
        if text in known_of([self._first]).paths:
            return text
        known = await self.known()
        if text in known.paths:
            return text
        name, _, number = text.partition("#")
        called = known.called(name)
        if len(called) > 1:
            commands = "\n".join(f"rostra why {each}" for each in called[:CANDIDATES_MAX])
            more = f"\nand {len(called) - CANDIDATES_MAX} more" if len(called) > CANDIDATES_MAX else ""
            raise BadInput(
                f"{len(called)} endpoints are called {name!r}", fix=f"say which one:\n{commands}{more}"
            )
        return "".join((*called, *(("#", number) if called and number else ())))

    async def known(self, host: Domain | None = None) -> KnownNames:
        sight = await look(self._admin, self._address)
        known = await known_names(self._admin, sight, host)
        if self._first["core"]["server"] != "agent":
            return known
        groups = sorted(known_groups(sight))[:GROUPS_MAX]
        async with endpoint(self._address) as me:
            members = await count(me, groups, within_s=MEMBERS_WITHIN_S)
        return known.and_endpoints(each for found in members.values() for each in found)

    async def explain(self, about: str) -> Explanation:
        self._about = about
        return await explain(
            about,
            self._admin.path,
            self.recall,
            from_host=self._first["core"]["server"] == "agent",
            known=known_of([self._first]).paths,
        )

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
    for line in (*_wrapped(f"{story.summary}{when}", ""), *_wrapped(story.besides, "")):
        console.print(Text(line, style="bold"))
    if story.steps:
        console.print()
        for step in _steps(story.steps):
            console.print(step)
    facts = list(_facts(story))
    if facts:
        console.print()
    for label, text in facts:
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
    if story.closest:
        yield "closest", ", ".join(story.closest)
    if story.earlier:
        more = f" and {len(story.earlier) - EARLIER_MAX} more" if len(story.earlier) > EARLIER_MAX else ""
        yield "earlier", f"of that name: {', '.join(story.earlier[:EARLIER_MAX])}{more}"
    if story.directly:
        yield "directly", f"{', '.join(story.directly)}: asked past the links that do not reach there"
    for reason, nodes in _by_reason(story.unseen).items():
        if nodes == [story.way[-1]]:
            continue  # stands above already
        verb = "is" if len(nodes) == 1 else "are"
        yield "unseen", f"{', '.join(nodes)} {verb} out of sight from here: {reason}"


def _by_reason(unseen: Mapping[Domain, str]) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for node, reason in unseen.items():
        reasons.setdefault(reason, []).append(node)
    return reasons


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, initial_indent=indent, break_on_hyphens=False)
