"""`rostra completion`: Tab, in the shell of one's choice."""

from enum import StrEnum
from typing import Annotated

import typer

from rostra.cli.common import EXIT_OK, command
from rostra.cli.house import HouseCommand

VARIABLE = "_ROSTRA_COMPLETE"


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Other")(command(completion))


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> int:
    """Print the script that completes rostra's commands, options and group names in a shell.

    Group names are those that the agent of this machine knows.

    Examples:

        rostra completion bash > ~/.local/share/bash-completion/completions/rostra
        rostra completion zsh > "${fpath[1]}/_rostra"
        rostra completion fish > ~/.config/fish/completions/rostra.fish
    """
    typer.echo(script(shell))
    return EXIT_OK


def script(shell: Shell) -> str:
    from typer import completion

    made: str = completion.get_completion_script(  # type: ignore[attr-defined]
        prog_name="rostra", complete_var=VARIABLE, shell=shell.value
    )
    return made


def begin() -> None:
    """A shell asks: teach the parser to answer."""
    from typer import completion

    completion.completion_init()  # type: ignore[attr-defined]
