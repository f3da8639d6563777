"""`rostra name`: whose a name is, and for which hosts a group is."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from rostra.cli.asking import (
    CONNECT_TIMEOUT_S,
    GroupName,
    Scope,
    check_known,
    closest_groups,
    group_of,
    known_domains,
)
from rostra.cli.common import EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.house import HouseCommand, HouseGroup
from rostra.cli.output import Format, OutputFormat, show_rows, show_table
from rostra.client import Admin, connect_admin
from rostra.names import Domain, Group, make_group, parse_domain, parse_scope

HELP = """Assign names, close groups to all but some domains and hosts, register permanent groups.

Each is an order to the server of the group's scope, which --agent names: its address, or its socket. It is
kept on that server's disk, with its replicas if it has some.

Examples:

    rostra name assign lounge/chess@eu "the club" --agent eu-server:7700
    rostra name list eu --agent eu-server:7700
    rostra name close vault@eu eu.paris eu.lyon.h3 --agent eu-server:7700
    rostra name reopen vault@eu --agent eu-server:7700
"""


def register(main: typer.Typer) -> None:
    app = typer.Typer(cls=HouseGroup, no_args_is_help=True, help=HELP)
    for name, run in (
        ("assign", assign),
        ("release", release),
        ("list", list_names),
        ("close", close),
        ("reopen", reopen),
        ("register", make_permanent),
        ("unregister", unregister),
    ):
        app.command(name, cls=HouseCommand)(command(run))
    main.add_typer(app, name="name", rich_help_panel="Groups")


def assign(
    group: GroupName,
    holder: Annotated[str, typer.Argument(metavar="HOLDER", help="Whose it is: a text for people.")],
    scope: Scope = None,
    agent: Agent = None,
    token_file: OwnToken = None,
) -> int:
    """Assign a name to a holder. The group needs no members, and programs join it without the name.

    Examples:

        rostra name assign lounge/chess@eu "the club" --agent eu-server:7700
    """
    key = group_of(group, scope)
    return _ordered(key, agent, lambda admin: admin.assign_name(key.name, holder), f"{key} is {holder}'s")


def release(group: GroupName, scope: Scope = None, agent: Agent = None, token_file: OwnToken = None) -> int:
    """Take a name away from its holder.

    Examples:

        rostra name release lounge/chess@eu --agent eu-server:7700
    """
    key = group_of(group, scope)

    async def run() -> dict[str, str]:
        async with connect_admin(agent, domain=Domain(key.scope), timeout_s=CONNECT_TIMEOUT_S) as admin:
            before = await admin.names()
            await admin.release_name(key.name)
            return before

    before = run_client(run())
    remark(f"{key} is nobody's" if key.name in before else f"{key} was nobody's")
    known = [make_group(name, key.scope) for name in before]
    if key.name not in before and (meant := closest_groups(known, key, cutoff=0.6)):
        remark(f"closest of the assigned names: {', '.join(meant)}")
    return EXIT_OK


def list_names(
    scope: Annotated[str, typer.Argument(metavar="SCOPE", help="The domain whose names are listed.")],
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """List the assigned names of a scope, each with its holder.

    Examples:

        rostra name list eu --agent eu-server:7700
    """
    domain = parse_domain(scope)

    async def ask() -> dict[str, str]:
        async with connect_admin(agent, domain=domain, timeout_s=CONNECT_TIMEOUT_S) as admin:
            return await admin.names()

    rows = [{"name": name, "holder": holder} for name, holder in sorted(run_client(ask()).items())]
    if output is not OutputFormat.TABLE:
        show_rows(rows, output, {"scope": domain, "names": rows})
    elif rows:
        show_table(("name", "holder"), [(row["name"], row["holder"]) for row in rows])
    else:
        remark(f"no name of {domain} is assigned")
    return EXIT_OK


def close(
    group: GroupName,
    allowed: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DOMAIN...",
            help="Domains and hosts that the group is for; none: the authority of its name decides.",
        ),
    ] = None,
    scope: Scope = None,
    agent: Agent = None,
    token_file: OwnToken = None,
) -> int:
    """Close a group to all but these domains and hosts; members from elsewhere have to leave.

    The list cannot be changed: reopen the group, and close it with another one. Each domain has to be one
    that is known here; a host need not be there yet.

    Examples:

        rostra name close vault@eu eu.paris eu.lyon.h3 --agent eu-server:7700
        rostra name close 'acme!vault@eu' --agent eu-server:7700
    """
    key = group_of(group, scope)
    if allowed:
        known = run_client(known_domains(agent))
        for each in allowed:
            check_known(parse_scope(each), known)
    those = ", ".join(allowed or ["those whom its authority lets in"])
    said = f"{key} is for {those} alone"
    return _ordered(key, agent, lambda admin: admin.close_group(key.name, allowed or ()), said)


def reopen(group: GroupName, scope: Scope = None, agent: Agent = None, token_file: OwnToken = None) -> int:
    """Open a closed group to all again.

    Examples:

        rostra name reopen vault@eu --agent eu-server:7700
    """
    key = group_of(group, scope)
    return _ordered(key, agent, lambda admin: admin.reopen_group(key.name), f"{key} is open")


def make_permanent(
    group: GroupName, scope: Scope = None, agent: Agent = None, token_file: OwnToken = None
) -> int:
    """Register a permanent group: one that programs join as permanent, and that is there without members.

    Members that are in it stay. From now on it is joined with rostra join --permanent only, or with
    permanent=True.

    Examples:

        rostra name register news@eu --agent eu-server:7700
    """
    key = group_of(group, scope)
    return _ordered(key, agent, lambda admin: admin.register(key.name), f"{key} is permanent")


def unregister(
    group: GroupName, scope: Scope = None, agent: Agent = None, token_file: OwnToken = None
) -> int:
    """Let a group be permanent no more. Its members stay.

    Examples:

        rostra name unregister news@eu --agent eu-server:7700
    """
    key = group_of(group, scope)
    return _ordered(key, agent, lambda admin: admin.unregister(key.name), f"{key} is not permanent")


def _ordered(key: Group, agent: str | None, order: Callable[[Admin], Awaitable[None]], said: str) -> int:
    async def run() -> None:
        async with connect_admin(agent, domain=Domain(key.scope), timeout_s=CONNECT_TIMEOUT_S) as admin:
            await order(admin)

    run_client(run())
    remark(said)
    return EXIT_OK
