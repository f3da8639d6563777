"""The processes of a small world, as their supervisor sees them."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rostra.names import Domain

LAST_WORDS: Final = 3


class ChildProcess:
    """One process that can be started, stopped, killed and started again."""

    def __init__(
        self,
        name: str,
        nodes: tuple[Domain, ...],
        command: Sequence[str],
        log: Path,
        on_death: "Callable[[ChildProcess, int], None]",
    ) -> None:
        self.name = name
        self.nodes = nodes  # who lives in it; none, if it is a process of programs
        self.command = tuple(command)
        self.log = log
        self.is_paused = False
        self._on_death = on_death
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = asyncio.Event()
        self._ended.set()

    @property
    def is_running(self) -> bool:
        return not self._ended.is_set()

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    def start(self) -> None:
        """What the supervisor's own environment says to agents and servers is not meant for all of these."""
        assert not self.is_running, f"{self.name} runs already"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                (sys.executable, "-m", "rostra.up.child", str(os.getpid()), *self.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if not name.startswith("ROSTRA_")},
                start_new_session=True,  # Ctrl-C is for the supervisor, which ends them in good order
            )
        self._ended.clear()
        self.is_paused = False
        descriptor = os.pidfd_open(self._process.pid)
        asyncio.get_running_loop().add_reader(descriptor, self._reap, descriptor)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_paused = False

    async def kill(self) -> None:
        """No last words."""
        self._signal(signal.SIGKILL)
        await self._ended.wait()

    async def end(self, within_s: float) -> None:
        """Ask it to leave in good order; kill it if it does not in time."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(within_s):
                await self._ended.wait()
        except TimeoutError:
            await self.kill()

    def last_words(self) -> list[str]:
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return text.strip().splitlines()[-LAST_WORDS:]

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running and self._process is not None:
            self._process.send_signal(number)

    def _reap(self, descriptor: int) -> None:
        assert self._process is not None
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)
        code = self._process.wait()
        self.is_paused = False
        self._ended.set()
        self._on_death(self, code)


def in_words(code: int) -> str:
    """How a process ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
