"""`rostra rehearse`: who would live after a cut, today."""

from typing import Annotated

import typer

from rostra.cli.asking import (
    Deadline,
    GroupName,
    Scope,
    about_agreed,
    check_known,
    endpoint,
    group_of,
    known_domains,
    within_scope,
)
from rostra.cli.common import EXIT_FAILED, EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, OutputFormat, coloured, heading, show_rows, show_table
from rostra.cli.views import EXCLUSIVE, exclusive_of
from rostra.client.rehearsal import REST, rehearse
from rostra.names import Domain, Group


def register(app: typer.Typer) -> None:
    app.command("rehearse", cls=HouseCommand, rich_help_panel="Groups")(command(rehearse_cut))


def rehearse_cut(
    group: GroupName,
    cut: Annotated[
        str,
        typer.Option(
            "--cut",
            metavar="SIDES",
            help="Domains or hosts on each side: 'eu | us', 'eu.fr eu.de | us'. One side alone is cut off.",
        ),
    ],
    scope: Scope = None,
    deadline: Deadline = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Say which side of an agreed group would go on if the network were cut so, and why.

    Nothing is cut: the group's rule is asked about its present members, by the same code that servers ask.
    Members on none of the named sides are a side of their own; the server of the scope, which decides if
    survive="primary", is with them. Exit code 1 if no side would live, or more than one.

    Examples:

        rostra rehearse db@eu --cut "eu.fr | eu.de"
        rostra rehearse lead/scheduler --cut eu.paris.h1 -o json
    """
    key = group_of(group, scope)
    with within_scope(key, agent):
        return run_client(_rehearse(key, cut, deadline, agent, output))


async def _rehearse(
    key: Group, cut: str, deadline_s: float | None, agent: str | None, output: OutputFormat
) -> int:
    async with endpoint(agent) as me, about_agreed(me, key, deadline_s):
        info = await me.groups.look(key.name, key.scope, deadline_s=deadline_s)
    sides = rehearse(info, cut)
    known = await known_domains(agent)
    for word in cut.replace("|", " ").replace(",", " ").split():
        check_known(Domain(word), known)
    exclusive = exclusive_of(info)
    if output is OutputFormat.TABLE:
        heading(f"{key}   view {info.view.number}   survive={info.survive}   cut {cut}")
        show_table(
            ("side", "members", "lives", "why"),
            (
                (
                    side.name,
                    len(side.members),
                    coloured("yes" if side.lives else "no", warn=not side.lives),
                    side.why,
                )
                for side in sides
            ),
            flexible=3,
        )
        remark(f"exclusive: {exclusive}, {EXCLUSIVE[exclusive]}")
        if len(sides) > 2 and sides[-1].name == REST:
            remark("some members are on none of these sides: they are taken to be cut off from all")
    else:
        whole = {"group": str(key), "survive": info.survive, "exclusive": exclusive, "sides": sides}
        show_rows(sides, output, whole)
    return EXIT_OK if sum(side.lives for side in sides) == 1 else EXIT_FAILED
