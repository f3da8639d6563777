"""`rostra tail`: the messages of a group, as they arrive."""

import asyncio
import contextlib
import os
import stat
import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from rostra.cli.asking import GroupName, Scope, endpoint, group_of, within_scope
from rostra.cli.changes import document as change_document
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
from rostra.cli.following import told_states, until_told
from rostra.cli.house import HouseCommand
from rostra.cli.ordered import (
    Delivery,
    DeliveryChoice,
    GroupPlan,
    joined,
    message_document,
    plan_for,
    spoken,
    tail_ordered,
)
from rostra.cli.output import Format, OutputFormat, say, show_json
from rostra.client import Added, Blocked, Gap, GroupItem, Me, Message, Messages, Moved
from rostra.groups.attributes import Slow
from rostra.names import Group

BATCH = 1000


def register(app: typer.Typer) -> None:
    app.command(cls=HouseCommand, rich_help_panel="Groups")(command(tail))


def tail(
    group: GroupName,
    scope: Scope = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, metavar="N", help="End after so many messages.")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="What the endpoint is called.", show_default="tail and a number"
        ),
    ] = None,
    slow: Annotated[
        Slow,
        typer.Option(
            "--slow",
            help="If the lines are read too slowly: throttle, the senders wait; expel, we are put out of the"
            " group; spill, what is not read waits on a server's disk.",
        ),
    ] = Slow.THROTTLE,
    delivery: Delivery = None,
    credential_file: CredentialFile = None,
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = OutputFormat.TABLE,
) -> int:
    """Print the messages of a group with delivery: one line per message, until Ctrl-C.

    Messages of each sender come in order and without a gap, from the moment on in which we are in the group.
    Lines are the messages as they are. With -o jsonl there is one document for each, with its sender, number
    and time, and one for every member that comes or goes; what is no text is in body_base64.

    In a group with delivery="atomic" all members have one order. On a terminal each message has its position
    before it, and views are shown between them, on stderr; documents have both. We are a member like others:
    where all must have a message, we must; calls to all are answered with nothing. What replicas of a
    replicated object send is shown in words: its commands, and parts of its state.

    A slow reader of the lines makes the senders wait, unless --slow says otherwise; nothing is left out.

    Examples:

        rostra tail chat
        rostra tail logs@eu | grep error
        rostra tail logs@eu --slow spill | ./insert-into-database
        rostra tail numbers --count 1000 -o jsonl
    """
    key = group_of(group, scope)
    with within_scope(key, agent):
        credential = read_credential(credential_file)
        called = name or f"tail-{os.getpid()}"
        return run_client(_tail(key, called, count, slow, delivery, credential, agent, output))


async def _tail(
    group: Group,
    name: str,
    count: int | None,
    slow: Slow,
    delivery: DeliveryChoice | None,
    credential: bytes,
    agent: str | None,
    output: OutputFormat,
) -> int:
    async with (
        until_told(),
        endpoint(agent, name, on_lost="rejoin", rejoin_within_s=None, on_state=told_states()) as me,
    ):
        plan = (await plan_for(me, group, delivery))._replace(credential=credential)
        if not plan.is_atomic:
            await _tail_fifo(me, group, plan, count, slow, output)
            return EXIT_OK
        async with joined(me, group, plan, slow) as ordered:
            with _until_nobody_reads():
                await tail_ordered(me, ordered, count, output)
    return EXIT_OK


async def _tail_fifo(
    me: Me, group: Group, plan: GroupPlan, count: int | None, slow: Slow, output: OutputFormat
) -> None:
    async with spoken(me, group, plan, "receive", slow) as conversation:
        await conversation.ready()
        remark(f"{me.endpoint} listens in {group}")
        left = count
        with _until_nobody_reads():
            async for item in conversation.items(batch=BATCH):
                if isinstance(item, Messages):
                    shown = item.bodies if left is None else item.bodies[:left]
                    _show(item, shown, output)
                    left = None if left is None else left - len(shown)
                    if left == 0:
                        break
                else:
                    _tell(group, item, len(conversation.members), output)


@contextlib.contextmanager
def _until_nobody_reads() -> Iterator[None]:
    """End quietly when the other end of our pipe is closed, although there may be nothing to write for long:
    `rostra tail G | head` should not wait for one message more."""
    try:
        out = sys.stdout.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(out).st_mode)
    except (OSError, ValueError):
        is_pipe = False
    if not is_pipe:
        yield
        return
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    nobody_reads = False

    def closed() -> None:
        nonlocal nobody_reads
        nobody_reads = True
        loop.remove_reader(out)
        task.cancel()

    loop.add_reader(out, closed)  # a pipe that we write to is never readable, unless it is broken
    try:
        yield
    except asyncio.CancelledError:
        if not nobody_reads or task.uncancel():
            raise
        raise BrokenPipeError from None
    finally:
        loop.remove_reader(out)


def _show(messages: Messages, bodies: list[bytes], output: OutputFormat) -> None:
    if output is OutputFormat.TABLE:
        if sys.stdout.isatty():
            for body in bodies:
                say(body.decode(errors="backslashreplace"))
        else:
            sys.stdout.buffer.write(b"\n".join(bodies) + b"\n")  # a script reads them as they are
    else:
        for number, body in enumerate(bodies, messages.first):
            show_json(
                message_document(Message(messages.sender, body, number, messages.sent_at)), OutputFormat.JSONL
            )
    sys.stdout.flush()


def _tell(group: Group, item: GroupItem, members: int, output: OutputFormat) -> None:
    if isinstance(item, Messages | Message | Blocked | Moved | Added):
        return
    if isinstance(item, Gap):
        remark(
            "the agent was away: what was said meanwhile is missing"
            if item.missed is None
            else f"{item.missed} messages of {item.sender} are missing, from number {item.first} on"
        )
    if output is not OutputFormat.TABLE:
        said = change_document(group, item, (), time.time())
        said["count"] = members
        show_json(said, OutputFormat.JSONL)
