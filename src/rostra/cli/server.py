"""`rostra server`: the server of one domain, or of several levels in one process."""

from typing import Annotated

import typer

from rostra.cli.common import JsonLogs, ProgramsAt, Socket, StateDirectory, WorldFile, command
from rostra.names import parse_domain, parse_host
from rostra.runtime.addresses import parse_socket_path, parse_tcp
from rostra.runtime.config import AgentSettings, load_world
from rostra.runtime.record import Record
from rostra.runtime.run import Settings, run


def register(app: typer.Typer) -> None:
    app.command()(command(server))


def server(
    domain: Annotated[
        list[str],
        typer.Option("--domain", "-d", help="The domain to serve; repeat for several.", show_default=False),
    ],
    world: WorldFile,
    with_agent: Annotated[
        str | None,
        typer.Option("--with-agent", help="Be the agent of this host too.", show_default=False),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", envvar="ROSTRA_LISTEN", help="Listen here and not where the world file says."
        ),
    ] = None,
    socket: Socket = None,
    programs_at: ProgramsAt = None,
    state: StateDirectory = None,
    json_logs: JsonLogs = False,
) -> int:
    """Run the server of a domain: it links the servers above, beside and below it."""
    file = load_world(world)
    agents = file.agents if with_agent else AgentSettings()
    return run(
        Settings(
            world=file,
            domains=tuple(dict.fromkeys(parse_domain(each) for each in domain)),
            host=None if with_agent is None else parse_host(with_agent),
            socket=agents.socket if socket is None else parse_socket_path(socket),
            programs_at=agents.listen if programs_at is None else parse_tcp(programs_at),
            listen=None if listen is None else parse_tcp(listen),
            state=state or file.agents.state,
        ),
        Record(json=json_logs),
    )
