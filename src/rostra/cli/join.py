"""`rostra join`: a member of a group, from a terminal or a script."""

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import typer

from rostra.cli.asking import GroupName, Scope, endpoint, group_of, perhaps_another, within_scope
from rostra.cli.common import (
    EXIT_OK,
    Agent,
    CredentialFile,
    OwnToken,
    command,
    read_credential,
    remark,
    run_client,
)
from rostra.cli.following import end, follow, start, told_states, until_told
from rostra.cli.house import CommandAfter, after
from rostra.cli.orders import LeaveReply, parse_order
from rostra.cli.output import Format, OutputFormat
from rostra.client import Me, Membership, Message
from rostra.errors import BadInput, NotAllowed
from rostra.names import Group, host_of


class WeakChoice(StrEnum):
    RELAXED = "relaxed"
    LED = "led"


def _membership(word: str) -> WeakChoice:
    """Views are for a program to act on."""
    if word == "agreed":
        raise BadInput(
            "rostra join --membership agreed: join has no views to show",
            fix='in a program:  me.join(name, scope, membership="agreed")\n'
            "for a command that runs at one member at a time:  rostra lead NAME -- COMMAND\n"
            "to see a group:  rostra views GROUP, or, if it has messages, rostra tail GROUP",
        )
    try:
        return WeakChoice(word)
    except ValueError:
        raise BadInput(f"--membership {word}", fix=f"use one of: {', '.join(WeakChoice)}") from None


def register(app: typer.Typer) -> None:
    app.command(cls=CommandAfter, rich_help_panel="Groups")(command(join))


def join(
    ctx: typer.Context,
    group: GroupName,
    scope: Scope = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="What the endpoint is called.", show_default="join and a number"
        ),
    ] = None,
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="Shown to all members beside our address.")
    ] = "",
    permanent: Annotated[
        bool, typer.Option("--permanent", help="The group must be one that rostra name register registered.")
    ] = False,
    membership: Annotated[
        str,
        typer.Option(
            "--membership",
            help="What the group is: relaxed, or led, with one leader for the list.",
            metavar="MEMBERSHIP",
            autocompletion=lambda: list(WeakChoice),
        ),
    ] = WeakChoice.RELAXED.value,
    credential_file: CredentialFile = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Join a group and stay in it: show every change until Ctrl-C, or until a command has ended.

    With -- COMMAND, the command runs once, and the membership lasts as long as it does; its exit code is
    ours. It finds its address in ROSTRA_ENDPOINT, the group in ROSTRA_GROUP and ROSTRA_SCOPE.

    Ctrl-C, SIGTERM and rostra leave all leave the group in good order: the others see a leave and not a
    crash. If the agent is lost, the command waits for it and joins again with a new incarnation.

    Examples:

        rostra join lounge --name tess
        rostra join web@eu.paris --note port=8080 -- python3 -m http.server 8080
        rostra join 'acme!payroll@eu' --membership led --credential-file word.txt
    """
    key = group_of(group, scope)
    how = _How(note.encode(), permanent, _membership(membership), read_credential(credential_file))
    with within_scope(key, agent), _of_another_kind(key):
        return run_client(_join(key, name, how, agent, output, after(ctx)))


class _How(NamedTuple):
    meta: bytes
    permanent: bool
    membership: WeakChoice
    credential: bytes


@contextlib.contextmanager
def _of_another_kind(group: Group) -> Iterator[None]:
    """Which commands fit a group that is neither relaxed nor led without delivery."""
    try:
        yield
    except NotAllowed as error:
        if not error.fix.startswith("join it"):
            raise
        fits = f"from a shell:  rostra watch {group}, or, if it has messages, rostra tail {group}"
        raise NotAllowed(error.what, fix=f"{error.fix}\n{fits}") from None


async def _join(
    group: Group,
    name: str | None,
    how: _How,
    agent: str | None,
    output: OutputFormat,
    words: Sequence[str],
) -> int:
    code = EXIT_OK
    async with (
        until_told(),
        endpoint(
            agent,
            name or f"join-{os.getpid()}",
            on_lost="rejoin",
            rejoin_within_s=None,
            on_state=told_states(),
        ) as me,
        me.join(
            group.name,
            group.scope,
            membership=how.membership.value,
            meta=how.meta,
            permanent=how.permanent,
            credential=how.credential,
        ) as joined,
    ):
        remark(f"{me.endpoint} is in {group}")
        work = (
            _while_it_runs(words, me, joined)
            if words
            else follow(joined, output, when_empty=lambda: perhaps_another(agent, group))
        )
        code += await _until_ordered(work, me, joined)
    return code


async def _while_it_runs(words: Sequence[str], me: Me, joined: Membership) -> int:
    """Run the command, and return its exit code. If the group removes us, the command is ended."""
    group = joined.group
    variables = {"ROSTRA_ENDPOINT": me.endpoint, "ROSTRA_GROUP": group.name, "ROSTRA_SCOPE": group.scope}
    process = await start(words, variables)
    following, running = asyncio.create_task(_until_put_out(joined)), asyncio.create_task(process.wait())
    try:
        await asyncio.wait({following, running}, return_when=asyncio.FIRST_COMPLETED)
        if following.done() and following.exception() is not None:
            await end(process)
            following.result()
        code = await running
    except asyncio.CancelledError:
        await end(process)
        raise
    finally:
        following.cancel()
        running.cancel()
    return code if code >= 0 else 128 - code


async def _until_put_out(joined: Membership) -> None:
    async for _ in joined:
        pass


async def _until_ordered(work: Coroutine[Any, Any, int], me: Me, joined: Membership) -> int:
    """Do this until it is done, or until `rostra leave` on this host says that it is enough."""
    orders = _Orders(me, joined)
    working, ordered = asyncio.create_task(work), asyncio.create_task(orders.wait())
    try:
        await asyncio.wait({working, ordered}, return_when=asyncio.FIRST_COMPLETED)
        if orders.taken:
            # A member that leaves gets no more changes, so the work may be done before the order is answered.
            await ordered
            return EXIT_OK
        return await working
    finally:
        for task in (working, ordered):
            task.cancel()
        await asyncio.gather(working, ordered, return_exceptions=True)


class _Orders:
    def __init__(self, me: Me, joined: Membership) -> None:
        self.taken = False
        self._me = me
        self._joined = joined

    async def wait(self) -> None:
        """Until an order comes from this host; then leave, and answer."""
        me, joined = self._me, self._joined
        async for message in me.messages():
            if not isinstance(message, Message) or host_of(message.source) != me.host:
                continue
            order = parse_order(message.data)
            if order is not None and order.group in (str(joined.group), ""):
                self.taken = True
                await joined.leave(order.note.encode())
                await me.send_to(message.source, LeaveReply(me.endpoint, str(joined.group)).encode())
                remark(f"left {joined.group}, as rostra leave asked")
                return
