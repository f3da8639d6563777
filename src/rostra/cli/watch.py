"""`rostra watch`: the changes of a group, without being a member."""

from collections.abc import Sequence
from typing import Annotated

import typer

from rostra.cli.asking import GroupName, Scope, endpoint, group_of, perhaps_another, within_scope
from rostra.cli.changes import NAMES_ALL, NAMES_MAX
from rostra.cli.common import EXIT_OK, Agent, OwnToken, command, run_client
from rostra.cli.following import follow, told_states, until_told
from rostra.cli.house import CommandAfter, after
from rostra.cli.output import Format, OutputFormat
from rostra.names import Group


def register(app: typer.Typer) -> None:
    app.command(cls=CommandAfter, rich_help_panel="Groups")(command(watch))


def watch(
    ctx: typer.Context,
    group: GroupName,
    scope: Scope = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="TOKEN", help="Continue after the change that had this token."),
    ] = None,
    changes: Annotated[
        int | None, typer.Option("--changes", "-n", min=1, metavar="N", help="End after so many changes.")
    ] = None,
    stop_on_error: Annotated[
        bool,
        typer.Option("--stop-on-error", help="End with the first command that fails, and its exit code."),
    ] = False,
    members: Annotated[
        bool | None,
        typer.Option(
            "--members/--no-members",
            help="Name all members in lists, or only count them.",
            show_default=f"name the first {NAMES_MAX}",
        ),
    ] = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Follow a group without joining: its members, then every change, until Ctrl-C.

    With -- COMMAND, the command runs at every change, one at a time, with the change in its environment:
    ROSTRA_CHANGE (view, joined, left, without, only, gap), ROSTRA_GROUP, ROSTRA_SCOPE, ROSTRA_COUNT (members
    now), ROSTRA_ENDPOINTS (who came or went), ROSTRA_LEFT_OUT (how many of those found no room),
    ROSTRA_CAUSE (join, merge, leave, crash), ROSTRA_DOMAIN, ROSTRA_BECAUSE and ROSTRA_ACCUSER (of a lost
    domain), ROSTRA_AT, ROSTRA_RESUME (for --resume). The same is on its stdin, as one line of JSON.

    If the agent is lost, the watch waits for it and continues where it was.

    Examples:

        rostra watch lounge
        rostra watch chess@eu -o jsonl
        rostra watch web -- sh -c 'echo "$ROSTRA_CHANGE $ROSTRA_ENDPOINTS" >> web.log'
    """
    key = group_of(group, scope)
    names_max = NAMES_MAX if members is None else NAMES_ALL if members else 0
    with within_scope(key, agent):
        return run_client(_watch(key, resume, changes, stop_on_error, agent, output, after(ctx), names_max))


async def _watch(
    group: Group,
    resume: str | None,
    changes: int | None,
    stop_on_error: bool,
    agent: str | None,
    output: OutputFormat,
    at_each: Sequence[str],
    names_max: int,
) -> int:
    code = EXIT_OK
    async with (
        until_told(),
        endpoint(agent, on_lost="rejoin", rejoin_within_s=None, on_state=told_states()) as me,
        me.watch(group.name, group.scope, resume=resume) as watched,
    ):
        code += await follow(
            watched,
            output,
            at_each,
            most=changes,
            stop_on_error=stop_on_error,
            names_max=names_max,
            when_empty=lambda: perhaps_another(agent, group),
        )
    return code
