"""`rostra server`: the server of one domain, or of several levels in one process."""

from typing import Annotated

import typer

from rostra.cli.common import (
    DataAt,
    Http,
    Journal,
    JsonLogs,
    Profile,
    ProgramsAt,
    RecordInputs,
    Socket,
    StateDirectory,
    TokenFile,
    WorldFile,
    command,
    option,
)
from rostra.cli.house import HouseCommand
from rostra.names import parse_domain, parse_host
from rostra.transport.addresses import parse_tcp


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Daemons")(command(server))


def server(
    domain: Annotated[
        list[str],
        option("--domain", "-d", envvar="ROSTRA_DOMAIN", help="The domain to serve; repeat for several."),
    ],
    world: WorldFile,
    replica: Annotated[
        int | None,
        option(
            "--replica",
            envvar="ROSTRA_REPLICA",
            help="Which of the domain's replicas this is, in the order of [servers].",
        ),
    ] = None,
    with_agent: Annotated[
        str | None, option("--with-agent", envvar="ROSTRA_HOST", help="Be the agent of this host too.")
    ] = None,
    listen: Annotated[
        str | None,
        option(
            "--listen", envvar="ROSTRA_LISTEN", help="Listen here instead of the address in the world file."
        ),
    ] = None,
    socket: Socket = None,
    programs_at: ProgramsAt = None,
    token_file: TokenFile = None,
    data: DataAt = None,
    state: StateDirectory = None,
    http: Http = None,
    profile: Profile = None,
    journal: Journal = None,
    record: RecordInputs = None,
    json_logs: JsonLogs = None,
) -> int:
    """Run the server of a domain: it links the servers above, beside and below it.

    SIGTERM: it closes its links and ends. SIGHUP: it reads the world file again, connects to changed
    addresses of neighbours, and to new ones.

    Examples:

      rostra server -d eu.paris --world acme.toml

      rostra server -d eu -d eu.paris -w acme.toml --with-agent eu.paris.h1

      rostra server -d eu.lyon --replica 2 --state /var/lib/rostra -w acme.toml
    """
    options = locals()
    from rostra.cli.daemon import flags_of, run_daemon

    return run_daemon(
        "server",
        world,
        flags_of(options),
        domains=tuple(dict.fromkeys(parse_domain(each) for each in domain)),
        host=None if with_agent is None else parse_host(with_agent),
        listen=None if listen is None else parse_tcp(listen),
        replica=replica,
    )
