"""`rostra completion`: completion of commands and names by the Tab key, for several shells."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from rostra.cli.common import EXIT_OK, command
from rostra.cli.house import HouseCommand
from rostra.errors import BadInput

VARIABLE: Final = "_ROSTRA_COMPLETE"

BASH: Final = r"""# Tab for rostra in bash.
_rostra_completion() {
    # Bash takes words apart at characters such as @, which our names have. So rostra is given the line as it
    # was typed, and of each answer bash gets back the part that it completes: what stands after the last of
    # those characters, and with it if that is an @ (a "special prefix" of readline).
    local line=${COMP_LINE:0:COMP_POINT} words current="" breaks="" prefix="" i
    read -r -a words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local last=$(( ${#words[@]} - 1 ))
    current=${words[last]}
    for i in @ : =; do [[ $COMP_WORDBREAKS == *$i* ]] && breaks+=$i; done
    [[ -n $breaks ]] && prefix=${current%"${current##*[$breaks]}"} && prefix=${prefix%@}
    local IFS=$'\n'
    COMPREPLY=( $(COMP_WORDS=$line COMP_CWORD=$last VARIABLE=complete_bash "$1" 2>/dev/null) )
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$prefix"}; done
}
complete -o default -F _rostra_completion rostra
""".replace("VARIABLE", VARIABLE)


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def _shells(incomplete: str) -> list[str]:
    return [shell for shell in Shell if shell.startswith(incomplete)]


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Other")(command(completion))


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", autocompletion=_shells)],
) -> int:
    """Print the script that completes rostra's commands, options and names in a shell.

    Names of groups are those that the agent of this machine knows; names of domains, hosts and endpoints,
    for rostra why, those that can be seen from it.

    Examples:

        rostra completion bash > ~/.local/share/bash-completion/completions/rostra
        rostra completion zsh > "${fpath[1]}/_rostra"
        rostra completion fish > ~/.config/fish/completions/rostra.fish
    """
    try:
        chosen = Shell(shell)
    except ValueError:
        raise BadInput(
            f"there is no completion for {shell!r}", fix=f"use one of: {', '.join(Shell)}"
        ) from None
    typer.echo(script(chosen).rstrip("\n"))
    return EXIT_OK


def script(shell: Shell) -> str:
    if shell is Shell.BASH:
        return BASH
    from typer import completion

    made: str = completion.get_completion_script(  # type: ignore[attr-defined]
        prog_name="rostra", complete_var=VARIABLE, shell=shell.value
    )
    return made


def begin() -> None:
    """A shell asks: teach the parser to answer."""
    from typer import completion

    completion.completion_init()  # type: ignore[attr-defined]
