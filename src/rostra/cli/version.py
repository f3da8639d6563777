"""`rostra version`: the version of Rostra and of its wire format."""

import platform
from importlib import metadata

import typer

from rostra.cli.common import EXIT_OK, command
from rostra.cli.house import HouseCommand
from rostra.cli.output import Format, OutputFormat, show_json
from rostra.wire import WIRE_VERSION


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Other")(command(version))


def version(output: Format = OutputFormat.TABLE) -> int:
    """Print which version this is; rostra --version does the same.

    Nodes that speak different wire versions refuse each other, and say so.

    Examples:

        rostra version
        rostra version -o json
    """
    if output is OutputFormat.TABLE:
        typer.echo(version_line())
    else:
        show_json(
            {"rostra": rostra_version(), "wire": WIRE_VERSION, "python": platform.python_version()}, output
        )
    return EXIT_OK


def version_line() -> str:
    return f"rostra {rostra_version()} (wire version {WIRE_VERSION}, Python {platform.python_version()})"


def rostra_version() -> str:
    return metadata.version("rostra")
