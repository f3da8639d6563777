"""`rostra views`: the agreed view of a group, its rule, and the views before it."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Annotated, Any

import typer

from rostra.cli.asking import Deadline, GroupName, Scope, about_agreed, endpoint, group_of, within_scope
from rostra.cli.common import EXIT_FAILED, EXIT_OK, Agent, OwnToken, command, option, remark, run_client
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, OutputFormat, heading, say, show_json, show_rows, show_table, text_of
from rostra.client import GroupInfo, View
from rostra.names import Endpoint, Group
from rostra.protocols.agreed.calls import HISTORY_MAX
from rostra.protocols.agreed.rules import parse_rule

EXCLUSIVE = {
    "yes": "at most one side of a partition lives",
    "no": "several sides of a partition may live",
    "depends": "whether one side lives at most depends on who is where: rostra rehearse",
}

REVISED = "the same members: attributes changed, or whether it may go on"
SAME = "the same members, whose order may have changed"


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Groups")(command(views))


def views(
    group: GroupName,
    scope: Scope = None,
    at: Annotated[
        int | None, option("--at", metavar="NUMBER", help="The view of this number, if it is still kept.")
    ] = None,
    history: Annotated[
        bool, typer.Option("--history", help=f"Also the views before it, the last {HISTORY_MAX}.")
    ] = False,
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Show the agreed view of a group: its number, its members in order of rank, and its rule for partitions.

    The servers that agree on the group answer. The rule is exclusive if at most one side of a partition can
    live under it; only such groups have fences, leaders and locks. A group that stands still says what it
    waits for, and the exit code is 1.

    Examples:

        rostra views db@eu
        rostra views lead/scheduler@eu --history
        rostra views db@eu --at 12 -o json
    """
    key = group_of(group, scope)
    with within_scope(key, agent):
        return run_client(_views(key, at, history, deadline, agent, output))


async def _views(
    key: Group,
    at: int | None,
    history: bool,
    deadline_s: float | None,
    agent: str | None,
    output: OutputFormat,
) -> int:
    async with endpoint(agent) as me, about_agreed(me, key, deadline_s):
        info = await me.groups.look(
            key.name, key.scope, at=at, history=HISTORY_MAX if history else 0, deadline_s=deadline_s
        )
    if output is OutputFormat.TABLE:
        show_group(info)
    elif output is OutputFormat.JSON or not history:
        show_json(document(info), output)
    else:
        show_rows([_past(each) for each in (*info.history, info.view)], output, None)
    return EXIT_FAILED if info.blocked else EXIT_OK


def show_group(info: GroupInfo) -> None:
    view = info.view
    assert view.id is not None
    revision = f".{view.id.revision}" if view.id.revision else ""
    fence = f"   fence {view.fence}" if view.fence is not None else ""
    count = f"{len(view.members)} member{'s' * (len(view.members) != 1)}"
    heading(f"{info.group}   view {view.number}{revision}   {count}{fence}")
    rows = list(_members(info))
    columns = [
        ("rank", [row["rank"] for row in rows]),
        ("member", [row["endpoint"] for row in rows]),
        ("attributes", [_words(row["attributes"]) for row in rows]),
        ("note", [row["note"] for row in rows]),
    ]
    shown = [(name, cells) for name, cells in columns if name in ("rank", "member") or any(cells)]
    if rows:
        show_table([name for name, _ in shown], zip(*[cells for _, cells in shown], strict=True), flexible=1)
    for line in history_lines(info.history):
        say(f"before: {line}")
    if info.attributes:
        remark(f"attributes: {_words(info.attributes)}")
    exclusive = exclusive_of(info)
    remark(f"survive={info.survive}   exclusive: {exclusive}, {EXCLUSIVE[exclusive]}")
    remark(f"agreed by {', '.join(info.core)}")
    if info.view.without:
        remark(f"members failed with {', '.join(info.view.without)}")
    if info.view.suspects:
        remark(f"its servers cannot reach {_some(info.view.suspects)}")
    if info.blocked:
        remark(f"it stands still: {info.blocked}")


def document(info: GroupInfo) -> dict[str, Any]:
    return {
        "group": str(info.group),
        "view": {
            **_past(info.view),
            "members": list(_members(info)),
            "suspects": list(info.view.suspects),
            "without": list(info.view.without),
            "fence": info.view.fence,
        },
        "attributes": info.attributes,
        "survive": info.survive,
        "merge": info.merge,
        "within": info.within,
        "exclusive": exclusive_of(info),
        "core": list(info.core),
        "blocked": info.blocked,
        "history": [_past(each) for each in info.history],
        "history_length": info.history_length,
    }


def exclusive_of(info: GroupInfo) -> str:
    return parse_rule(info.survive).exclusive


def _members(info: GroupInfo) -> Iterable[dict[str, Any]]:
    for rank, member in enumerate(info.view.members):
        yield {
            "rank": rank,
            "endpoint": member.endpoint,
            "attributes": info.members_attributes[member.endpoint],
            "note": text_of(member.meta),
        }


def _past(view: View) -> dict[str, Any]:
    assert view.id is not None
    return {
        "number": view.number,
        "revision": view.id.revision,
        "pid": view.id.pid,
        "joined": list(view.joined),
        "left": list(view.left),
        "failed": list(view.failed),
        "parts": [list(each) for each in view.parts],
    }


def history_lines(views: Sequence[View]) -> list[str]:
    """Of these views, oldest first, the last one first. Sides of a partition that met had views of the same
    numbers: where they say the same, it is said once. Revisions in a row are one line."""
    said: dict[tuple[str, str], None] = {}
    numbers: set[str] = set()
    for words, alike in groupby(views, _in_words):
        same = list(dict.fromkeys([_number(view) for view in alike]))
        if words != REVISED:
            for number in same:
                if (number, words) not in said:
                    other = ", of another side" if number in numbers else ""
                    said[number + other, words] = None
                    numbers.add(number)
        else:
            said[same[0] if len(same) == 1 else f"{same[0]} to {same[-1]}", words] = None
    return [f"view {number}   {words}" for number, words in reversed(said)]


def _number(view: View) -> str:
    assert view.id is not None
    return f"{view.number}" + (f".{view.id.revision}" if view.id.revision else "")


def _in_words(view: View) -> str:
    assert view.id is not None
    changes = [("joined", view.joined), ("left", view.left), ("failed", view.failed)]
    said = [f"{what} {_some(who)}" for what, who in changes if who]
    if view.parts:
        said.append(f"{len(view.parts)} parts merged")
    if view.id.revision:
        return "; ".join(said) or REVISED
    return "; ".join(said) or ("it began" if view.number == 0 else SAME)


def _some(endpoints: tuple[Endpoint, ...]) -> str:
    more = len(endpoints) - 4
    return ", ".join(endpoints[:4]) + (f" and {more} more" if more > 0 else "")


def _words(attributes: dict[str, str]) -> str:
    return " ".join([f"{key}={value}" for key, value in attributes.items()])
