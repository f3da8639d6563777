"""The `rostra` command: one file per command, each of which registers itself here."""

import typer

from rostra.cli import agent, server, sim, up

app = typer.Typer(
    name="rostra",
    help="Named groups of programs over many sites: who is in them, why they left, and what happened.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
agent.register(app)
server.register(app)
sim.register(app)
up.register(app)


@app.callback()
def _rostra() -> None:
    """Without this, a program with one command would have no command names at all."""


def main() -> None:
    app()
