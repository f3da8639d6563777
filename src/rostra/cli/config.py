"""`rostra config`: checks a world file, and shows which setting applies and where it comes from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import Struct

from rostra.cli.common import EXIT_OK, WorldFile, command
from rostra.cli.house import HouseCommand, HouseGroup
from rostra.cli.output import Format, OutputFormat, say, show_json, show_rows, show_table
from rostra.config import WorldConfig, read_world
from rostra.names import Domain, Tree, child
from rostra.runtime.settings import SETTINGS, Choices, Role, settle

HELP = """Look at a world file, and at what counts for a daemon that uses it.

Flags count before ROSTRA_ variables, those before the world file, the file before defaults.

Examples:

    rostra config validate acme.toml
    rostra config show --world acme.toml --origin
    rostra config example > world.toml
"""

EXAMPLE: Final = """\
# A world: which domains there are, and where their servers listen. The same file on every machine.
#
#   rostra config validate world.toml
#   rostra server -d eu -d eu.paris --world world.toml     one process may serve several levels
#   rostra agent eu.paris.h1 --world world.toml            on each host: its cluster, and a label
#   rostra up --world world.toml                           or all of it on this machine, to try

[world]
name = "acme"                     # nodes of another world are refused
profile = "wan"                   # how patient to be with silence; "lan" for one site

[servers]
eu = "127.0.0.1:7710"
"eu.paris" = "127.0.0.1:7710"
us = "127.0.0.1:7720"
"us.boston" = "127.0.0.1:7720"

[http]                            # health, metrics and the dashboard, on loopback
agents = "127.0.0.1:7780"
servers = "127.0.0.1:7781"
"""


def register(main: typer.Typer) -> None:
    app = typer.Typer(cls=HouseGroup, no_args_is_help=True, help=HELP)
    app.command("validate", cls=HouseCommand)(command(validate))
    app.command("show", cls=HouseCommand)(command(show))
    app.command("example", cls=HouseCommand)(command(example))
    main.add_typer(app, name="config", rich_help_panel="Daemons")


def validate(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", envvar="ROSTRA_WORLD", help="The world file (TOML).", show_default=False
        ),
    ],
    output: Format = OutputFormat.TABLE,
) -> int:
    """Read a world file as a daemon would, and say what is wrong with it, or what it describes.

    Exit code 2 if it is wrong.

    Examples:

        rostra config validate acme.toml
        rostra config validate acme.toml -o json
    """
    world = read_world(file).world
    if output is OutputFormat.TABLE:
        say(f"{file} is right: {describe(world)}")
    else:
        show_json({"file": str(file), "name": world.name, "clusters": world.clusters, **facts(world)}, output)
    return EXIT_OK


def facts(world: WorldConfig) -> dict[str, Any]:
    return {
        "profile": world.profile,
        "servers": {domain: _places(world, domain) for domain in sorted(world.servers)},
    }


def describe(world: WorldConfig) -> str:
    """The tree in a few words, and how long failures take to be noticed in it."""
    tree = Tree.of(child(cluster, "host") for cluster in world.clusters)
    processes = len({address for domain in world.servers for address in world.addresses(domain)})
    detect = world.links.detect
    bound = detect.down_after_s + detect.heartbeat_interval_s
    links = sum(1 for pair in tree.links() if all(end in world.servers for end in pair))
    return (
        f"world {world.name!r}, {_count(len(world.servers), 'domain server')} at "
        f"{_count(processes, 'address', 'es')}, {_count(len(world.clusters), 'cluster')}, "
        f"{_count(links, 'link')} between servers, profile {world.profile} "
        f"(a silent neighbour is given up within {bound:g} s)"
    )


def _places(world: WorldConfig, domain: Domain) -> str:
    return ", ".join(map(str, world.addresses(domain)))


def _count(number: int, what: str, ending: str = "s") -> str:
    return f"{number} {what}{ending * (number != 1)}"


def example() -> int:
    """Print a small world file to begin with.

    Examples:

        rostra config example > world.toml
    """
    say(EXAMPLE, nl=False)
    return EXIT_OK


class SettingRow(Struct, frozen=True):
    setting: str
    value: Any
    origin: str
    variable: str
    flag: str


def show(
    world: WorldFile,
    role: Annotated[
        str, typer.Option("--role", metavar="ROLE", help="Settings of an agent or of a server.")
    ] = "agent",
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Show every setting as a daemon started here and now would use it.

    The ROSTRA_ variables of this shell count. What a daemon's own flags would say is not known here; its log
    begins with it (the event "configured").

    Examples:

        rostra config show --world acme.toml --origin
        ROSTRA_PROFILE=lan rostra config show -w acme.toml --role server -o json
    """
    from rostra.errors import BadInput

    if role not in ("agent", "server"):
        raise BadInput(f"{role!r} is no role", fix="use agent or server")
    chosen: Role = "agent" if role == "agent" else "server"
    choices = settle(read_world(world), chosen, {})
    rows = list(rows_of(choices))
    if output is OutputFormat.TABLE:
        columns = ("setting", "value", *(("from",) if origin else ()))
        show_table(
            columns,
            ((row.setting, _shown(row), *((row.origin,) if origin else ())) for row in rows),
            flexible=len(columns) - 1,
        )
    else:
        show_rows(rows, output, {row.setting: {"value": row.value, "origin": row.origin} for row in rows})
    return EXIT_OK


def rows_of(choices: Choices) -> Iterator[SettingRow]:
    for setting in SETTINGS:
        value = choices[setting.name]
        plain = value if isinstance(value, bool | int | float) or value is None else str(value)
        if setting.name == "socket_mode":
            plain = f"{value:04o}"
        yield SettingRow(
            setting.name, plain, choices.chosen[setting.name].origin, setting.variable, setting.flag
        )
    for domain in sorted(choices.world.servers):
        yield SettingRow(f"servers.{domain}", _places(choices.world, domain), "world file", "", "")
    for cluster in choices.world.clusters:
        mode, at = choices.world.data_mode(cluster), choices.world.data_of(cluster)
        says = "world file" if choices.world.data else "default"
        place = "the address of whichever replica leads" if cluster in choices.world.replicas else f"udp {at}"
        yield SettingRow(f"data.{cluster}", f"{mode} at {place}", says, "", "")


def _shown(row: SettingRow) -> str:
    return (
        "none"
        if row.value is None
        else "yes"
        if row.value is True
        else "no"
        if row.value is False
        else f"{row.value}"
    )
