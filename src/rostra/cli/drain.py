"""`rostra drain`: an agent's members pass their seniority on, before it is restarted."""

from typing import Annotated

import typer

from rostra.cli.asking import administer
from rostra.cli.common import EXIT_FAILED, EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, OutputFormat, show_rows, show_table
from rostra.errors import Refused
from rostra.protocols.agreed.calls import DrainedGroup


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Daemons")(command(drain))


def drain(
    last: Annotated[
        bool,
        typer.Option(
            "--last",
            help="Refuse if a leader here would pass to a member whose host has yet to be restarted.",
        ),
    ] = False,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Let the members of an agent's host go behind all others in their agreed groups, before it is restarted.

    Leaders and holders of locks here lose their term; the next ones begin theirs. Members with the highest
    level come first: raise ROSTRA_LEVEL with every roll-out, to mark the hosts that have been restarted. In a
    rolling restart a leader then moves once, if its host is not the first: --last says when it is too early,
    with exit code 3, and changes nothing.

    Exit code 1 if a group could not be asked; what it is then is shown.

    Examples:

        rostra drain --last && systemctl restart rostra-agent
        rostra drain -o json
    """
    return run_client(_drain(last, agent, output))


async def _drain(last: bool, agent: str | None, output: OutputFormat) -> int:
    async with administer(agent) as admin:
        groups = await admin.drain(look=last)
        early = [each for each in groups if each.first and each.others <= each.level]
        if last and early:
            names = ", ".join(str(each.group) for each in early[:4])
            raise Refused(
                f"{admin.path} has rank 0 in {names}, and no other member there is of a higher level than"
                f" {early[0].level}",
                fix="restart another host of the group with a higher ROSTRA_LEVEL, and drain this one later",
            )
        if last:
            groups = await admin.drain()
    rows = [(str(each.group), _became(each), each.level, each.others) for each in groups]
    if output is OutputFormat.TABLE:
        if rows:
            show_table(("group", "became", "level here", "elsewhere"), rows)
        count = f"{len(rows)} group{'s' * (len(rows) != 1)}"
        remark(f"{admin.path} is drained: {count} with members here and elsewhere")
    else:
        documents = [dict(zip(("group", "became", "level", "others"), row, strict=True)) for row in rows]
        show_rows(documents, output, documents)
    return EXIT_FAILED if any(each.refused for each in groups) else EXIT_OK


def _became(drained: DrainedGroup) -> str:
    if drained.refused:
        return f"refused: {drained.refused}"
    return "rank 0 passed on" if drained.first else "behind"
