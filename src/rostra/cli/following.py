"""Shared by `join` and `watch`: show every change, run a command at each, end in good order.

Ctrl-C and SIGTERM are the usual end of both: they leave their groups, and the exit code is 0.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec

from rostra.cli.changes import NAMES_MAX, document, lines, variables
from rostra.cli.common import remark
from rostra.cli.output import OutputFormat, answers, show_json
from rostra.client import Change, Connected, Lost, Membership, Message, State, Suspended, View, Watch
from rostra.errors import BadInput, RostraError

COMMAND_ENDS_WITHIN_S = 5.0


def told_states() -> Callable[[State], None]:
    """Say on stderr when the agent goes and comes back."""
    away = False

    def tell(state: State) -> None:
        nonlocal away
        match state:
            case Lost(reason) if not away:
                away = True
                remark(f"the agent is lost: {reason.what}; calling it again")
            case Suspended() if not away:
                remark("the agent says nothing")
            case Connected() if away:
                away = False
                remark("the agent is back")

    return tell


async def follow(
    followed: Membership | Watch,
    output: OutputFormat,
    at_each: Sequence[str] = (),
    *,
    most: int | None = None,
    stop_on_error: bool = False,
    names_max: int = NAMES_MAX,
    when_empty: Callable[[], Awaitable[str]] | None = None,
) -> int:
    """Show changes until a signal, or until there were so many. The exit code.

    `when_empty` is asked for a remark if we are alone at first: perhaps the name was mistyped.
    """
    shown = 0
    async for change in followed:
        at = time.time()
        members = followed.members if followed.is_known else ()
        said = document(followed.group, change, members, at)
        if at_each:
            code = await run_at(at_each, said)
            if code and stop_on_error:
                return code
        else:
            show(said, change, output, at, names_max)
        if not shown and when_empty is not None and isinstance(change, View) and _is_empty(followed):
            with contextlib.suppress(RostraError):  # only a remark
                if remarked := await when_empty():
                    remark(remarked)
        shown += 1
        if shown == most:
            break
    return 0


def _is_empty(followed: Membership | Watch) -> bool:
    return all(each.endpoint == followed.me.endpoint for each in followed.members)


def show(
    said: dict[str, Any],
    change: Change | Message,
    output: OutputFormat,
    at: float,
    names_max: int = NAMES_MAX,
) -> None:
    if isinstance(change, Message):
        return
    if output is OutputFormat.TABLE:
        console = answers()
        for line in lines(said, at, names_max):
            console.print(line, soft_wrap=True)
    else:
        show_json(said, OutputFormat.JSONL)


async def run_at(words: Sequence[str], said: dict[str, Any]) -> int:
    """Run a command for one change, and wait for it: it never runs twice at once."""
    process = await start(words, variables(said), stdin=asyncio.subprocess.PIPE)
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read
            await process.communicate(msgspec.json.encode(said) + b"\n")
        code = await process.wait()
    except asyncio.CancelledError:
        await end(process)
        raise
    if code:
        remark(f"{words[0]} ended with {in_words(code)} at {said['change']}")
    return code if code >= 0 else 128 - code


async def start(
    words: Sequence[str], more: dict[str, str], stdin: int | None = None
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(*words, env={**os.environ, **more}, stdin=stdin)
    except OSError as error:
        raise BadInput(
            f"cannot run {words[0]!r}: {error.strerror}",
            fix="what stands after -- is a program and its words",
        ) from None


async def end(process: asyncio.subprocess.Process) -> None:
    """Ask it to end; kill it if it does not."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(COMMAND_ENDS_WITHIN_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def in_words(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


@contextlib.asynccontextmanager
async def until_told() -> AsyncIterator[None]:
    """Ctrl-C and SIGTERM end what is inside, and nothing else happens."""
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    told = over = False

    def tell() -> None:
        nonlocal told
        if not over:  # the signal may come in the turn in which the work ends
            told = True
            task.cancel()

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, tell)
    try:
        yield
    except asyncio.CancelledError:
        if not told:
            raise
        task.uncancel()
    finally:
        over = True
        for number in numbers:
            loop.remove_signal_handler(number)
