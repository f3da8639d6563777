"""`rostra agent`: the daemon of one host, to which its programs connect."""

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
)
from rostra.cli.house import HouseCommand
from rostra.names import parse_host


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Daemons")(command(agent))


def agent(
    host: Annotated[
        str,
        typer.Argument(envvar="ROSTRA_HOST", help="This host's path: a cluster and a label, eu.paris.h3."),
    ],
    world: WorldFile,
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
    """Run the agent of a host: programs connect to it, it connects to its cluster's server.

    SIGTERM: its programs leave their groups, the domain acknowledges it, and it ends. SIGHUP: it reads the
    world file again. Flags count before ROSTRA_ variables, those before the file: rostra config show.

    Examples:

      rostra agent eu.paris.h1 --world acme.toml

      rostra agent eu.paris.h1 -w acme.toml --http 127.0.0.1:7780 --json-logs
    """
    options = locals()
    from rostra.cli.daemon import flags_of, run_daemon

    return run_daemon("agent", world, flags_of(options), host=parse_host(host))
