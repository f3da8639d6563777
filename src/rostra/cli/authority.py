"""`rostra authority`: the keys of those who decide about restricted names."""

import time
from pathlib import Path
from typing import Annotated, Final

import typer

from rostra.cli.common import EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.house import HouseCommand, HouseGroup
from rostra.cli.output import say
from rostra.client import connect_admin
from rostra.client.authority import (
    clock_ms,
    encode_revocation,
    establish,
    make_key,
    read_key,
    revoke,
    write_key,
)

HELP: Final = """Keys of authorities: they decide who may join names such as acme!payroll.

Examples:

    rostra authority key acme --of example --to acme.key
    rostra authority delegate acme.key hr --to hr.key
    rostra authority revoke acme.key acme/hr
"""

DAY_MS: Final = 24 * 3600 * 1000

KeyPath = Annotated[Path, typer.Argument(metavar="KEYFILE", help="A key file of rostra authority.")]
NewFile = Annotated[Path, typer.Option("--to", metavar="FILE", help="Where the new key goes, mode 0600.")]


def register(main: typer.Typer) -> None:
    app = typer.Typer(
        cls=HouseGroup,
        no_args_is_help=True,
        help=HELP,
    )
    for function in (key, delegate, withdraw, show):
        name = {"withdraw": "revoke"}.get(function.__name__, function.__name__)
        app.command(name, cls=HouseCommand)(command(function))
    main.add_typer(app, name="authority", rich_help_panel="Daemons")


def key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the authority, such as acme.")],
    world: Annotated[str, typer.Option("--of", metavar="WORLD", help="The name of the world it is for.")],
    to: NewFile,
) -> int:
    """Make the key of an authority, and print its line for the world file.

    Examples:

        rostra authority key acme --of example --to acme.key
    """
    made = make_key(name, world)
    write_key(to, made, is_new=True)
    remark(f"{to} holds the key; this goes under [authorities] of every world file:")
    say(made.line)
    return EXIT_OK


def delegate(
    above: KeyPath,
    label: Annotated[str, typer.Argument(metavar="LABEL", help="Of the new one: hr makes acme/hr.")],
    to: NewFile,
    days: Annotated[
        int, typer.Option("--days", metavar="N", min=1, max=3650, help="How long it is good.")
    ] = 90,
) -> int:
    """Establish an authority below another one, with a key of its own.

    Examples:

        rostra authority delegate acme.key hr --to hr.key --days 30
    """
    now_above, made = establish(read_key(above), label, clock_ms() + days * DAY_MS)
    write_key(to, made, is_new=True)
    write_key(above, now_above)
    remark(f"{to} holds the key of {made.name}, for {days} days")
    first = min(made.chain, key=lambda link: link.until_ms)
    if first.name != made.name:
        remark(f"but no longer than that of {first.name}: until {_day(first.until_ms)}")
    return EXIT_OK


def withdraw(
    above: KeyPath,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The authority that is valid no more.")],
    agent: Agent = None,
    token_file: OwnToken = None,
) -> int:
    """Revoke an authority, and with it those below it: their members have to leave.

    The key is that of the authority that established it, or its own. It is told to an agent or server, which
    tells the world. It cannot be taken back.

    Examples:

        rostra authority revoke acme.key acme/hr
        rostra authority revoke hr.key acme/hr
    """
    now_above, revocation = revoke(read_key(above), name)

    async def tell() -> int:
        async with connect_admin(agent) as admin:
            await admin.revoke(encode_revocation(revocation))
        write_key(above, now_above)
        remark(f"{name} is revoked")
        return EXIT_OK

    return run_client(tell())


def show(file: KeyPath) -> int:
    """Say whose key it is, and whom it has established.

    Examples:

        rostra authority show acme.key
    """
    held = read_key(file)
    say(f"{held.name} of the world {held.world}, public key {held.signer.key.hex()}")
    for link in held.chain:
        say(f"  established as {link.name} until {_day(link.until_ms)}")
    for name in sorted(held.issued):
        say(f"  has established {name}")
    return EXIT_OK


def _day(at_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at_ms / 1000))
