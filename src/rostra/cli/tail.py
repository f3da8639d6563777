"""`rostra tail`: what is said in a group, as it is said."""

import os
import sys
import time
from typing import Annotated, Any

import typer

from rostra.cli.asking import GroupName, Scope, endpoint, group_of, within_scope
from rostra.cli.changes import document
from rostra.cli.common import EXIT_OK, Agent, OwnToken, command, remark, run_client
from rostra.cli.following import told_states, until_told
from rostra.cli.output import Format, Output, show_json, text_of
from rostra.client import Gap, GroupItem, Message, Messages
from rostra.names import Group

BATCH = 1000


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel="Groups")(command(tail))


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
    agent: Agent = None,
    token_file: OwnToken = None,
    output: Format = Output.TABLE,
) -> int:
    """Show what is said in a group with delivery="fifo": one line per message, until Ctrl-C.

    Messages of each sender come in order and without a gap, from the moment on in which we are in the group.
    Lines are the messages as they are. With -o jsonl there is one document for each, with its sender, number
    and time, and one for everybody who comes or goes.

    Whoever reads the lines slowly makes the senders wait; nothing is left out.

    Examples:

        rostra tail lounge
        rostra tail logs@eu | grep error
        rostra tail numbers --count 1000 -o jsonl
    """
    key = group_of(group, scope)
    with within_scope(key, agent):
        return run_client(_tail(key, name or f"tail-{os.getpid()}", count, agent, output))


async def _tail(group: Group, name: str, count: int | None, agent: str | None, output: Output) -> int:
    async with (
        until_told(),
        endpoint(agent, name, on_lost="rejoin", rejoin_within_s=None, on_state=told_states()) as me,
        me.join(group.name, group.scope, delivery="fifo", role="receive") as talk,
    ):
        await talk.ready()
        remark(f"{me.endpoint} listens in {group}")
        left = count
        async for item in talk.items(batch=BATCH):
            if isinstance(item, Messages):
                shown = item.bodies if left is None else item.bodies[:left]
                _show(item, shown, output)
                left = None if left is None else left - len(shown)
                if left == 0:
                    break
            else:
                _tell(group, item, len(talk.members), output)
    return EXIT_OK


def _show(messages: Messages, bodies: list[bytes], output: Output) -> None:
    if output is Output.TABLE:
        sys.stdout.buffer.write(b"\n".join(bodies) + b"\n")
    else:
        for number, body in enumerate(bodies, messages.first):
            show_json(_document(Message(messages.sender, body, number, messages.sent_at)), Output.JSONL)
    sys.stdout.flush()


def _document(message: Message) -> dict[str, Any]:
    at = message.sent_at
    return {
        "change": "message",
        "sender": message.sender,
        "number": message.number,
        "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z",
        "body": text_of(message.body),
    }


def _tell(group: Group, item: GroupItem, members: int, output: Output) -> None:
    if isinstance(item, Messages | Message):
        return
    if isinstance(item, Gap):
        remark(
            "the agent was away: what was said meanwhile is missing"
            if item.missed is None
            else f"{item.missed} messages of {item.sender} are missing, from number {item.first} on"
        )
    if output is not Output.TABLE:
        said = document(group, item, (), time.time())
        said["count"] = members
        show_json(said, Output.JSONL)
