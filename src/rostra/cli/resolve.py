"""`rostra resolve`: the members of a group, asked once."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

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
from rostra.cli.output import Format, OutputFormat, say, show_rows, show_table, text_of
from rostra.client import Members, Resolution
from rostra.errors import BadInput
from rostra.names import Domain, Group


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Groups")(command(resolve))


def resolve(
    group: GroupName,
    scope: Scope = None,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Every group of that name around this host, scope by scope.")
    ] = False,
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Ask the servers who is in a group, once.

    One endpoint per line, with its attachment if it has one. Membership is not needed; the answer is complete
    for the part of the world that can be reached. Exit code 1 if it has no members.

    Examples:

        rostra resolve chess
        rostra resolve chess@eu -o json
        rostra resolve chess --everywhere
        rostra resolve chess --deadline 2 | cut -d/ -f1 | sort | uniq -c
    """
    if everywhere and (scope or "@" in group):
        raise BadInput("--everywhere and a scope", fix="leave one of them out")
    key = group_of(group, scope)
    with within_scope(key, agent):
        return run_client(in_time(deadline, _resolve(key, everywhere, agent, output)))


async def _resolve(group: Group, everywhere: bool, agent: str | None, output: OutputFormat) -> int:
    async with endpoint(agent) as me:
        answer = await me.resolve(group.name, None if everywhere else group.scope, fresh=True)
        host = me.host
    show(group, answer, output, everywhere=everywhere)
    if answer.isolated:
        remark(f"{host} is cut off from its cluster: only its own part is known")
    if answer.members:
        return EXIT_OK
    async with administer(agent) as admin:
        remark(await nobody_there(admin, agent, group))
    return EXIT_FAILED


def show(group: Group, answer: Resolution, output: OutputFormat, *, everywhere: bool) -> None:
    scopes = answer.scopes if everywhere else ((group.scope, answer.members),)
    if output is OutputFormat.TABLE:
        _show_lines(scopes, with_scope=everywhere)
        return
    parts: list[dict[str, Any]] = [
        {"group": str(Group(group.name, scope)), "members": _members(members)} for scope, members in scopes
    ]
    rows = [{"group": part["group"], **row} for part in parts for row in part["members"]]
    whole = {"isolated": answer.isolated, **({"scopes": parts} if everywhere else parts[0])}
    show_rows(rows, output, whole)


def _show_lines(scopes: Iterable[tuple[Domain, Members]], *, with_scope: bool) -> None:
    if with_scope:
        rows = [(scope, each.endpoint, text_of(each.meta)) for scope, members in scopes for each in members]
        if rows:
            show_table(("scope", "endpoint", "note"), rows, flexible=2)
        return
    for _, members in scopes:
        for member in members:
            say(member.endpoint + (f"  {text_of(member.meta)}" if member.meta else ""))


def _members(members: Members) -> list[dict[str, str]]:
    return [{"endpoint": member.endpoint, "meta": text_of(member.meta)} for member in members]
