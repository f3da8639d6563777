"""`rostra leave`: makes a `rostra join` of this host leave its group."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from rostra.cli.asking import (
    GroupName,
    Scope,
    closest_groups,
    endpoint,
    group_of,
    groups_of,
    members_of,
)
from rostra.cli.common import EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.house import HouseCommand
from rostra.cli.orders import LeaveOrder, parse_answer
from rostra.client import Me, Message
from rostra.client.known import is_own
from rostra.errors import NotAllowed, NotMember
from rostra.names import Domain, Endpoint, Group, name_of

ANSWER_WITHIN_S: Final = 3.0


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Groups")(command(leave))


def leave(
    group: GroupName,
    scope: Scope = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Which one, if several of this host are in it."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All of this host that rostra join opened.")] = False,
    note: Annotated[str, typer.Option("--note", metavar="TEXT", help="Last words, for the others.")] = "",
    agent: Agent = None,
    token_file: OwnToken = None,
) -> int:
    """Let endpoints that rostra join opened on this host leave a group.

    A membership belongs to its program, so this is a request: rostra join accepts it from programs of its own
    host, leaves, and ends. Other programs leave by themselves, or when they end.

    Examples:

        rostra leave lounge
        rostra leave lounge --name tess --note "gone for lunch"
        rostra leave web@eu.paris --all
    """
    return run_client(_leave(group_of(group, scope), name, every, note, agent))


async def _leave(group: Group, name: str | None, every: bool, note: str, agent: str | None) -> int:
    async with endpoint(agent) as me:
        before = await me.inspect()
        chosen = choose(before, group, me.host, name, every)
        mail = me.messages()
        await me.send_to(chosen, LeaveOrder(str(group), note).encode())
        waiting = set(chosen)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                async for message in mail:
                    answer = parse_answer(message.data) if isinstance(message, Message) else None
                    if answer is not None and answer.endpoint in waiting:
                        waiting.discard(Endpoint(answer.endpoint))
                        remark(f"{answer.endpoint} left {group}")
                    if not waiting:
                        return EXIT_OK
        except TimeoutError:
            pass
        after = await _still_in(me, group, waiting)
        if after:
            raise NotAllowed(
                f"{', '.join(after)} did not leave {group}: {_held_by(before, after[0])} takes no orders",
                fix="only rostra join does; end the program, or let it leave by itself",
            )
    return EXIT_OK


def choose(
    document: Mapping[str, Any], group: Group, host: Domain, name: str | None, every: bool
) -> list[Endpoint]:
    """The endpoints that should leave."""
    here = [Endpoint(each) for each in members_of(document, group) if not is_own(each)]
    chosen = [each for each in here if name is None or name_of(each) == name]
    if not chosen:
        who = f"{host}/{name}" if name else f"nobody of {host}"
        fix = f"of this host, in the group: {', '.join(sorted(here)) or 'nobody'}"
        joined = [each for each in groups_of(document) if members_of(document, each)]
        if not here and (meant := closest_groups(joined, group, cutoff=0.6)):
            fix = f"closest of the groups that have members of this host: {', '.join(meant)}"
        raise NotMember(f"{who} is {'not ' if name else ''}in {group}", fix=fix)
    if len(chosen) > 1 and not every:
        names = ", ".join(sorted(name_of(each) for each in chosen))
        raise NotMember(
            f"{len(chosen)} endpoints of {host} are in {group}", fix=f"choose with --name, or --all: {names}"
        )
    return chosen


async def _still_in(me: Me, group: Group, waiting: set[Endpoint]) -> list[str]:
    members = members_of(await me.inspect(), group)
    return sorted(each for each in waiting if each in members)


def _held_by(document: Mapping[str, Any], who: str) -> str:
    for program in document["programs"]:
        if who in program["endpoints"]:
            name, peer = program["program"], program["peer"]
            return str(name) if peer in name else f"{name} ({peer})"
    return "its program"
