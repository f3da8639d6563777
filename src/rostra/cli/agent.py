"""`rostra agent`: this host's front door to all groups."""

from typing import Annotated

import typer

from rostra.cli.common import JsonLogs, ProgramsAt, Socket, StateDirectory, WorldFile, command
from rostra.names import parse_host
from rostra.runtime.addresses import parse_socket_path, parse_tcp
from rostra.runtime.config import load_world
from rostra.runtime.record import Record
from rostra.runtime.run import Settings, run


def register(app: typer.Typer) -> None:
    app.command()(command(agent))


def agent(
    host: Annotated[
        str,
        typer.Argument(envvar="ROSTRA_HOST", help="This host's path: a cluster and a label, eu.paris.h3."),
    ],
    world: WorldFile,
    socket: Socket = None,
    programs_at: ProgramsAt = None,
    state: StateDirectory = None,
    json_logs: JsonLogs = False,
) -> int:
    """Run the agent of a host: programs connect to it, it connects to its cluster's server."""
    file = load_world(world)
    return run(
        Settings(
            world=file,
            host=parse_host(host),
            socket=file.agents.socket if socket is None else parse_socket_path(socket),
            programs_at=file.agents.listen if programs_at is None else parse_tcp(programs_at),
            state=state or file.agents.state,
        ),
        Record(json=json_logs),
    )
