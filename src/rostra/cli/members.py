"""`rostra members`: the members of a group, and the health of each."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any

import typer
from msgspec import Struct

from rostra.cli.asking import (
    Deadline,
    GroupName,
    Scope,
    administer,
    endpoint,
    group_of,
    in_time,
    nobody_there,
    within_scope,
)
from rostra.cli.common import EXIT_FAILED, EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, OutputFormat, busy, coloured, heading, show_rows, show_table, text_of
from rostra.client.sight import Sight, checked, look
from rostra.client.why import seconds
from rostra.errors import NotAllowed
from rostra.groups.members import Member
from rostra.names import Endpoint, Group, host_of, incarnation_of, name_of, parent, parse_endpoint

ALIVE = "alive"
UNKNOWN = "unknown"


class MemberRow(Struct, frozen=True):
    endpoint: str
    name: str
    host: str
    incarnation: int
    health: str  # alive, who suspects it, or unknown: no node could be asked
    note: str = ""


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Groups")(command(members))


def members(
    group: GroupName,
    scope: Scope = None,
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Show the members of a group, their hosts, and whether a reachable node suspects them.

    The members come from the servers, the health from the nodes that can be asked directly: this agent, its
    servers, and in a world of rostra up all of them. Over TCP they ask for a token; without it the health is
    unknown. Exit code 1 if it has no members.

    Examples:

        rostra members lounge
        rostra members chess@eu -o jsonl
    """
    key = group_of(group, scope)
    with within_scope(key, agent):
        return run_client(in_time(deadline, _members(key, agent, output)))


async def _members(group: Group, agent: str | None, output: OutputFormat) -> int:
    async with administer(agent) as admin:
        async with endpoint(agent) as me:
            began = perf_counter()
            answer = await me.resolve(group.name, group.scope, fresh=True)
            took_s = perf_counter() - began
            host = me.host
        stands_still = ""
        found = answer.members
        with contextlib.suppress(NotAllowed):
            here, stands_still = agreed_here(checked(await admin.inspect(), admin.path), group)
            found = found or tuple([Member(each, (0, 0), b"") for each in here])
        if not found:
            if output is not OutputFormat.TABLE:
                show_rows((), output, {"group": str(group), "isolated": answer.isolated, "members": []})
            if answer.isolated:
                remark(f"{host} is cut off from {parent(host)}: only its own part is known")
            remark(await nobody_there(admin, agent, group))
            return EXIT_FAILED
        sight = None
        with contextlib.suppress(NotAllowed), busy("asking the nodes in sight how they are"):
            sight = await look(admin, agent)
    rows = list(rows_of(found, sight))
    if output is not OutputFormat.TABLE:
        whole = {"group": str(group), "isolated": answer.isolated, "from": host, "members": rows}
        show_rows(rows, output, whole)
    else:
        count = f"{len(rows)} member{'s' * (len(rows) != 1)}"
        heading(f"{group}   {count}   as {host} sees it   {took_s * 1e3:.0f} ms")
        notes = any(row.note for row in rows)
        show_table(
            ("member", "host", "health", *(["note"] if notes else [])),
            (
                (
                    f"{row.name}#{row.incarnation}",
                    row.host,
                    coloured(row.health, warn=row.health != ALIVE),
                    *([row.note] if notes else []),
                )
                for row in rows
            ),
            flexible=2,
        )
    if sight is None:
        remark(f"health is unknown: {host} says it over TCP only to those who show a token (--token-file)")
    elif output is OutputFormat.TABLE:
        remark(f"health is {sight.describe()}")
    if answer.isolated:
        remark(f"{host} is cut off from {parent(host)}: only its own part is known")
    if stands_still:
        remark(stands_still)
    return EXIT_OK


def agreed_here(document: Mapping[str, Any], group: Group) -> tuple[list[Endpoint], str]:
    """Members of an agreed group on the agent's own host, listed or not, and the remark if they stand
    still."""
    for known in document["agreed"]:
        if known["group"] == str(group) and "here" in known:
            still = f"members here stand still in view {known['number']} of {group}: {known['blocked']}"
            return [parse_endpoint(each) for each in known["here"]], still if known["blocked"] else ""
    return [], ""


def rows_of(members: Iterable[Member], sight: Sight | None) -> Iterator[MemberRow]:
    doubts, otherwise = ({}, UNKNOWN) if sight is None else (dict(doubted(sight)), ALIVE)
    for member in members:
        endpoint = member.endpoint
        host = host_of(endpoint)
        yield MemberRow(
            endpoint,
            name_of(endpoint),
            host,
            incarnation_of(endpoint),
            doubts.get(endpoint) or doubts.get(host) or otherwise,
            text_of(member.meta),
        )


def doubted(sight: Sight) -> Iterator[tuple[str, str]]:
    """Endpoints and hosts that a node in sight suspects, which node, and since when."""
    for node, document in sight.documents.items():
        for peer, link in document["links"].items():
            if link["up"] and link["suspected"]:
                yield peer, f"suspected by {node}, silent {seconds(link['silence_s'])}"
        for program in document["programs"]:
            if program["suspected"]:
                yield from _stalled(program, node)


def _stalled(program: dict[str, Any], node: str) -> Iterator[tuple[str, str]]:
    for each in program["endpoints"]:
        yield each, f"suspected by {node}: its program does not answer"
