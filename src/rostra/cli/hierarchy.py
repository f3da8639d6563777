"""`rostra hierarchy`: which servers agree with each other on agreed groups, and an administrator's changes of
that."""

from typing import Annotated

import typer

from rostra.cli.asking import CONNECT_TIMEOUT_S
from rostra.cli.common import EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.house import HouseCommand, HouseGroup
from rostra.cli.output import Format, OutputFormat, show_rows, show_table
from rostra.client import connect_admin
from rostra.names import parse_domain
from rostra.protocols.agreed.calls import SetShown, SetVerb

HELP = """Show and change the sets of servers that agree on the views of agreed groups.

The set of a domain are the servers of its children, and its own server as parent. Domains themselves come and
go with the world file: change it, start or stop their servers, and send the others SIGHUP.

Each is an order to a server of the set, which --agent names: its address, or its socket. The servers of the
set agree on it; groups go on as after a cut, and as after its end.

Examples:

    rostra hierarchy show eu --agent eu-server:7700
    rostra hierarchy leave eu eu.fr --agent eu-server:7700
    rostra hierarchy split eu north south eu eu.de --agent eu-server:7700
"""

SetOf = Annotated[str, typer.Argument(metavar="DOMAIN", help="The domain whose set is meant.")]
Server = Annotated[str, typer.Argument(metavar="SERVER", help="The domain of a server.")]


def register(main: typer.Typer) -> None:
    app = typer.Typer(cls=HouseGroup, no_args_is_help=True, help=HELP)
    for name, run in (
        ("show", show),
        ("join", join),
        ("leave", leave),
        ("split", split),
        ("merge", merge),
        ("add-parent", add_parent),
        ("del-parent", del_parent),
    ):
        app.command(name, cls=HouseCommand)(command(run))
    main.add_typer(app, name="hierarchy", rich_help_panel="Daemons")


def show(
    domain: SetOf, agent: Agent = None, token_file: OwnToken = None, output: Format = OutputFormat.TABLE
) -> int:
    """Show the servers that agree with the one that is asked.

    Examples:

        rostra hierarchy show eu --agent eu-server:7700
    """
    return _order(domain, SetVerb.LOOK, agent, output)


def join(
    domain: SetOf,
    server: Server,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Take a server back that has left its set. One that is new joins by itself.

    Examples:

        rostra hierarchy join eu eu.fr --agent eu-server:7700
    """
    return _order(domain, SetVerb.JOIN, agent, output, [server])


def leave(
    domain: SetOf,
    server: Server,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Let the others of a set go on without a server. It goes on by itself, with the members below it.

    Examples:

        rostra hierarchy leave eu eu.fr --agent eu-server:7700
    """
    return _order(domain, SetVerb.LEAVE, agent, output, [server])


def split(
    domain: SetOf,
    first: Annotated[str, typer.Argument(metavar="FIRST", help="The name of one side.")],
    second: Annotated[str, typer.Argument(metavar="SECOND", help="The name of the other side.")],
    servers: Annotated[list[str], typer.Argument(metavar="SERVER...", help="The servers of the one side.")],
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Make two sets of one. The servers that are not named are the other side.

    The server of the domain itself, the parent, is on one of the two. Members of a group are parted as by a
    cut, and a group with a rule lives on one side at most. They stay so until the sides are merged.

    Examples:

        rostra hierarchy split eu north south eu eu.de --agent eu-server:7700
    """
    return _order(domain, SetVerb.SPLIT, agent, output, servers, (first, second))


def merge(
    domain: SetOf,
    server: Annotated[
        str | None, typer.Argument(metavar="SERVER", help="One of the other part; all in sight without it.")
    ] = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Make one set of its parts: after a split, or after they gave each other up.

    Examples:

        rostra hierarchy merge eu --agent eu-server:7700
    """
    return _order(domain, SetVerb.MERGE, agent, output, [] if server is None else [server])


def add_parent(
    domain: SetOf, agent: Agent = None, token_file: OwnToken = None, output: Format = OutputFormat.TABLE
) -> int:
    """Take the server of the domain back into its set, as the parent.

    Examples:

        rostra hierarchy add-parent eu --agent fr-server:7700
    """
    return _order(domain, SetVerb.ADD_PARENT, agent, output)


def del_parent(
    domain: SetOf, agent: Agent = None, token_file: OwnToken = None, output: Format = OutputFormat.TABLE
) -> int:
    """Let a set go on without the server of the domain.

    Examples:

        rostra hierarchy del-parent eu --agent fr-server:7700
    """
    return _order(domain, SetVerb.DEL_PARENT, agent, output)


def _order(
    domain: str,
    verb: SetVerb,
    agent: str | None,
    output: OutputFormat,
    servers: list[str] | tuple[()] = (),
    names: tuple[str, ...] = (),
) -> int:
    of = parse_domain(domain)

    async def ask() -> SetShown:
        async with connect_admin(agent, timeout_s=CONNECT_TIMEOUT_S) as admin:
            return await admin.change_set(of, verb, servers, names)

    shown = run_client(ask())
    rows = [
        {"server": each.server, "role": "parent" if each.is_parent else "server", "level": str(each.level)}
        for each in shown.servers
    ]
    rows += [{"server": each, "role": "in another part", "level": ""} for each in shown.outside]
    if output is not OutputFormat.TABLE:
        show_rows(rows, output, {"set": shown.set, "part": shown.part, "view": shown.number, "servers": rows})
        return EXIT_OK
    show_table(("server", "role", "level"), [tuple(row.values()) for row in rows])
    level = min([each.level for each in shown.servers])
    remark(f"{shown.part or f'set({shown.set})'} is at view {shown.number}, level {level}")
    return EXIT_OK
