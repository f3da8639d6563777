"""`rostra send`: sends messages to a group from a terminal or a script."""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator
from typing import Annotated, Final

import typer

from rostra.cli.asking import GroupName, Scope, endpoint, group_of, within_scope
from rostra.cli.common import (
    EXIT_FAILED,
    EXIT_OK,
    Agent,
    CredentialFile,
    OwnToken,
    command,
    read_credential,
    remark,
    run_client,
)
from rostra.cli.following import until_told
from rostra.cli.house import HouseCommand
from rostra.cli.ordered import Delivery, DeliveryChoice, GroupPlan, joined, plan_for, send_ordered, spoken
from rostra.cli.output import Format, OutputFormat
from rostra.client import AgreedConversation, Conversation, Me
from rostra.client.conversation import RoleName
from rostra.errors import BadInput, Unreachable
from rostra.names import Group

READ_BYTES: Final = 1 << 16
CHUNKS_MAX: Final = 16
"""How far the reading of stdin may be ahead of the sending."""


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Groups")(command(send))


def send(
    group: GroupName,
    message: Annotated[
        str | None,
        typer.Argument(metavar="MESSAGE", help="What to say; without it, every line of stdin."),
    ] = None,
    scope: Scope = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="What the endpoint is called.", show_default="send and a number"
        ),
    ] = None,
    wait: Annotated[
        int, typer.Option("--wait", metavar="N", min=0, help="First wait until so many others are there.")
    ] = 0,
    submit: Annotated[
        bool,
        typer.Option(
            "--submit",
            help="Do not join the group: this cluster's server sends for us, and no member sees us join.",
        ),
    ] = False,
    delivery: Delivery = None,
    credential_file: CredentialFile = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Send to all members of a group with delivery: one message, or each line of stdin.

    All members receive every message, in order and without a gap; rostra tail prints them. The command ends
    when all have them. If the group does not keep up, it reads more slowly.

    In a group with delivery="atomic" messages of all senders have one order. The answer is their positions in
    it, when what the group promises of them holds; with -o jsonl one for each message, with -o json one
    document of all.

    With --submit it is the same, for many programs that only send: a group with a thousand of them has one
    member more for each cluster.

    Ctrl-C stops reading; what was read before is still sent.

    Examples:

        rostra send chat "lunch is ready"
        journalctl -f | rostra send logs@eu
        seq 1000 | rostra send numbers --wait 1
        rostra send metrics --submit "cpu 0.7"
        rostra send ledger@eu --delivery atomic "ann pays bob 5"
    """
    key = group_of(group, scope)
    if submit and wait:
        raise BadInput(
            "--wait with --submit", fix="leave one of them out: who submits does not see the others"
        )
    role: RoleName = "submit" if submit else "send"
    with within_scope(key, agent):
        credential = read_credential(credential_file)
        called = name or f"send-{os.getpid()}"
        return run_client(_send(key, message, called, wait, role, delivery, credential, agent, output))


async def _send(
    group: Group,
    message: str | None,
    name: str,
    wait: int,
    role: RoleName,
    delivery: DeliveryChoice | None,
    credential: bytes,
    agent: str | None,
    output: OutputFormat,
) -> int:
    async with endpoint(agent, name) as me:
        plan = (await plan_for(me, group, delivery))._replace(credential=credential)
        if not plan.is_atomic:
            return await _send_fifo(me, group, plan, message, wait, role)
        if role == "submit":
            raise BadInput(
                f'--submit to {group}, which has delivery="atomic"',
                fix="leave it out: only members have places in its order",
            )
        async with joined(me, group, plan) as ordered:
            batches = _lines() if message is None else _once(message)
            return await send_ordered(ordered, wait, batches, output)


async def _send_fifo(
    me: Me, group: Group, plan: GroupPlan, message: str | None, wait: int, role: RoleName
) -> int:
    sent, was_alone = 0, True
    async with spoken(me, group, plan, role) as conversation:
        async with until_told():
            await conversation.ready()
            await _until_there(conversation, wait)
            async for lines in _lines() if message is None else _once(message):
                was_alone = was_alone and len(conversation.members) < 2
                sent += len(lines)
                await conversation.send_many(lines)
        there = await _still_there(me, group) if role == "submit" else len(conversation.members)
        if not sent:
            remark("nothing was sent: no line came on stdin")
        elif there is not None and there < 2:  # the speaker is one of them: we, or our cluster's
            remark(_unheard(group, role, was_alone))
    if conversation.unconfirmed:
        remark(
            f"not all members have confirmed the last {conversation.unconfirmed} of it:"
            " some may not have received them"
        )
        return EXIT_FAILED
    return EXIT_OK


async def _still_there(me: Me, group: Group) -> int | None:
    """The number of other members; None if it is not known, as when the leader of a led group goes
    meanwhile."""
    with contextlib.suppress(Unreachable):
        return len((await me.resolve(group.name, group.scope)).members)
    return None


def _unheard(group: Group, role: RoleName, was_alone: bool) -> str:
    """The remark if no other member is there in the end."""
    if role == "submit":
        return f"nobody is in {group} now: perhaps nobody has heard it"
    if was_alone:
        return f"nobody else is in {group}: nobody has heard it"
    return f"all others have left {group}: nobody has heard what was sent after that"


async def _until_there(conversation: Conversation | AgreedConversation, count: int) -> None:
    if len(conversation.members) <= count and count:
        remark(f"waiting for {count} other{'s' * (count != 1)} in {conversation.group}")
        async for _ in conversation:
            if len(conversation.members) > count:
                return


async def _once(message: str) -> AsyncIterator[list[bytes]]:
    yield [message.encode()]


async def _lines() -> AsyncIterator[list[bytes]]:
    """The lines of stdin without their ends, as many at once as are there."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(CHUNKS_MAX)

    def read() -> None:
        while True:
            room.acquire()
            chunk = os.read(sys.stdin.fileno(), READ_BYTES)
            try:
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            except RuntimeError:  # the loop has ended: it is not needed any more
                return
            if not chunk:
                return

    # A thread that does not keep the process alive: nothing can wake it from a read.
    threading.Thread(target=read, name="stdin", daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        room.release()
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]
