"""`rostra lead`: one of many runs a command."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Annotated, Final

import typer

from rostra.cli.asking import Scope, endpoint, group_of, within_scope
from rostra.cli.common import EXIT_OK, Agent, OwnToken, command, option, remark, run_client
from rostra.cli.house import CommandAfter, after
from rostra.cli.output import say
from rostra.client import Term
from rostra.client.leadership import SURVIVE
from rostra.errors import BadInput
from rostra.names import Group
from rostra.up.child import die_with

GRACE_S: Final = 5.0

PASSED_ON: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
"""To the command and all that it started, which are a process group of their own."""

ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""While there is no command yet: these end the wait."""


def register(app: typer.Typer) -> None:
    app.command(cls=CommandAfter, rich_help_panel="Groups")(command(lead))


def lead(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What is led: a name, or name@scope.")],
    scope: Scope = None,
    survive: Annotated[
        str,
        typer.Option(
            "--survive",
            metavar="RULE",
            help="Which side of a partition has a leader: a rule under which at most one side "
            "lives. Unless one is named: primary if the scope's server has replicas, else majority.",
        ),
    ] = SURVIVE,
    grace: Annotated[
        float,
        typer.Option(
            "--grace",
            metavar="SECONDS",
            help="How long the command may take to end after SIGTERM, before SIGKILL.",
        ),
    ] = GRACE_S,
    called: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="What the endpoint is called.", show_default="lead and a number"
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        option("--deadline", metavar="SECONDS", help="Give up waiting for the turn after so long."),
    ] = None,
    agent: Agent = None,
    token_file: OwnToken = None,
) -> int:
    """Wait for the turn to lead, run a command as the leader, and end it when the leadership ends.

    At most one of all that were started with this name runs its command; the others wait, and lead in the
    order in which they came. The command finds in ROSTRA_FENCE a number that is larger than that of every
    leader before. Send it along with every write: a database that refuses smaller numbers is safe even from
    a leader that was stopped for a while and does not know that it was replaced. Without such a check, it is
    not.

    When the leadership is lost, the command and all that it started get SIGTERM, and SIGKILL after --grace;
    the exit code is 4, so that a supervisor may start this again. If the command ends first, its exit code is
    ours. Signals are passed on to it, Ctrl-C too; it is killed if this process is.

    Without a command, the fence is printed, and the leadership lasts until Ctrl-C.

    Examples:

        rostra lead scheduler@eu -- ./scheduler
        rostra lead backup@eu --deadline 60 -- sh -c './backup.sh $ROSTRA_FENCE'
    """
    key = group_of(name, scope)
    if not grace >= 0:
        raise BadInput(f"--grace {grace:g} is no time to wait", fix="write how many seconds: 5")
    with within_scope(key, agent):
        return run_client(_lead(key, survive, grace, called, deadline, agent, after(ctx)))


async def _lead(
    key: Group,
    survive: str,
    grace_s: float,
    called: str | None,
    deadline_s: float | None,
    agent: str | None,
    words: Sequence[str],
) -> int:
    code, has_led = EXIT_OK, False
    async with (
        _told() as signals,
        endpoint(agent, called or f"lead-{os.getpid()}", on_lost="rejoin", rejoin_within_s=None) as me,
    ):
        turn = me.lead(key.name, key.scope, survive=survive, deadline_s=deadline_s)
        async with turn as term:
            has_led = True
            remark(f"{me.endpoint} leads {key}, fence {term.fence}")
            if not words:
                say(term.fence)
                await asyncio.Event().wait()
            code = await _run(words, key, str(me.endpoint), term, signals, grace_s)
    return code if has_led else signals.code


class Signals:
    """Signals to this process: passed on to the command once it runs; before that they end the wait."""

    def __init__(self, task: "asyncio.Task[object]") -> None:
        self._task = task
        self._group: int | None = None
        self.code = EXIT_OK

    def hear(self, number: signal.Signals) -> None:
        if self._group is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._group, number)
        elif number in ENDS and not self.code:
            self.code = 128 + number
            self._task.cancel()

    def pass_on(self, group: int | None) -> None:
        self._group = group


@contextlib.asynccontextmanager
async def _told() -> AsyncIterator[Signals]:
    """Signals end what is inside as long as there is no command to pass them on to."""
    task = asyncio.current_task()
    assert task is not None
    signals = Signals(task)
    loop = asyncio.get_running_loop()
    for number in PASSED_ON:
        loop.add_signal_handler(number, partial(signals.hear, number))
    try:
        yield signals
    except asyncio.CancelledError:
        if not signals.code:
            raise
        task.uncancel()
    finally:
        for number in PASSED_ON:
            loop.remove_signal_handler(number)


async def _run(
    words: Sequence[str], key: Group, endpoint: str, term: Term, signals: Signals, grace_s: float
) -> int:
    variables = {
        "ROSTRA_FENCE": str(term.fence),
        "ROSTRA_ENDPOINT": endpoint,
        "ROSTRA_GROUP": key.name,
        "ROSTRA_SCOPE": key.scope,
    }
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            env={**os.environ, **variables},
            # In a process group of its own it cannot read the terminal, and would be stopped if it tried.
            stdin=asyncio.subprocess.DEVNULL if sys.stdin.isatty() else None,
            process_group=0,
            preexec_fn=partial(die_with, os.getpid()),
        )
    except OSError as error:
        raise BadInput(
            f"cannot run {words[0]!r}: {error.strerror}",
            fix="what stands after -- is a program and its words",
        ) from None
    signals.pass_on(process.pid)
    try:
        code = await process.wait()
    finally:
        # However it ended: what it has started must not go on when another leads.
        await _end(process, grace_s)
        signals.pass_on(None)
    return code if code >= 0 else 128 - code


async def _end(process: asyncio.subprocess.Process, grace_s: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await process.wait()
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
