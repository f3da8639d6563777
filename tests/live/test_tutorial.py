"""The tutorial, run from its first line to its last: a stranger's ten minutes, in one.

Comments in the page say what a reader does with a block and does not need to be told:

    <!-- file NAME -->                  save the next block under that name
    <!-- terminal N -->                 run the next block in a terminal of its own, and leave it running
    <!-- terminal N says -->            the next block appears there
    <!-- Ctrl-C in terminal N -->       press that

Every other `console` block is run in one shell, command by command. What is shown below a command must appear
in that order; a number stands for any number (that of `h1` does not), and `…` for anything.
"""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "tutorial.md"
SEEN_WITHIN_S: Final = 120.0
READ_WITHIN_S: Final = 900.0
DONE: Final = "the last command ended with"

BLOCK: Final = re.compile(r"^<!-- (?P<order>.*?) -->$|^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)


class Terminal:
    """A shell, what it has said, and how much of that the page has spoken of."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.said = ""
        self._seen = 0
        self._process = process
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, directory: Path, env: dict[str, str]) -> "Terminal":
        return cls(
            await asyncio.create_subprocess_exec(
                "bash",
                cwd=directory,
                env=env,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        )

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while data := await self._process.stdout.read(65536):
            self.said += data.decode()

    def type(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())

    async def sees(self, shown: list[str], within_s: float = SEEN_WITHIN_S) -> bool:
        """Do these lines appear, in this order, after those that were seen before?"""
        until = time.monotonic() + within_s
        while (end := ends_after(self.said, shown, self._seen)) is None:
            if time.monotonic() > until:
                return False
            await asyncio.sleep(0.05)
        self._seen = end
        return True

    async def run(self, command: str, shown: list[str]) -> None:
        """A command that asks is asked again while the world is not yet what the page says."""
        self._seen = len(self.said)
        if command.endswith("&"):
            self.type(command)
            assert await self.sees(shown), f"{command}: {self.said[-2000:]}"
            return
        until = time.monotonic() + SEEN_WITHIN_S
        while True:
            before = len(self.said)
            self.type(f"{command}\nprintf '\\n{DONE} %s\\n' $?")
            assert await self.sees([f"{DONE} …"]), f"{command} did not end: {self.said[before:]}"
            said = self.said[before:]
            if ends_after(said, shown, 0) is not None and (f"{DONE} 0" in said):
                return
            assert time.monotonic() < until, f"{command}: {said[-2000:]}"
            await asyncio.sleep(0.5)

    def interrupt(self) -> None:
        """What a terminal does on Ctrl-C: a signal to the whole group. The shell itself does not mind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)

    async def close(self) -> None:
        """Whatever still runs in it ends with it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                await self._process.wait()
                await self._reading
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


def ends_after(said: str, shown: list[str], start: int) -> int | None:
    """Where the last of these lines ends, if they all appear in order."""
    for line in shown:
        found = re.compile(pattern(line), re.M).search(said, start)
        if found is None:
            return None
        start = found.end()
    return start


def pattern(line: str) -> str:
    words = [re.sub(r"(?<![a-z])\d+", r"\\d+", re.escape(word)).replace("…", ".*") for word in line.split()]
    return r"^\s*" + r"\s+".join(words).replace(r"\s+.*", r"\s*.*")


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block, and what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, *shown = part.splitlines()
        yield command, [line for line in shown if line.strip(" …")]


class Reader:
    """Somebody who does what the page says."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.play = home / "play"
        self.terminals: dict[str, Terminal] = {}
        runtime = home / "run"
        runtime.mkdir(mode=0o700)
        bin_ = Path(sys.executable).parent
        # What whoever runs the tests told its make is nothing to the reader's make.
        mine = {name: value for name, value in os.environ.items() if name not in ("ARGS", "MAKEFLAGS")}
        self._env = {**mine, "XDG_RUNTIME_DIR": str(runtime), "HOME": str(home)}
        self._env |= {"PATH": f"{bin_}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}
        self._here: dict[str, str] = {"<this repository>": str(ROOT)}

    async def shell(self, number: str) -> Terminal:
        if number not in self.terminals:
            where = self.play if self.play.exists() else self.home
            self.terminals[number] = await Terminal.open(where, self._env)
        return self.terminals[number]

    async def read(self, page: str) -> None:
        order = ""
        for block in BLOCK.finditer(page):
            if block["order"]:
                order = block["order"]
                if order.startswith("Ctrl-C"):
                    await self._end(order.split()[-1])
                    order = ""  # it is done, and says nothing about the next block
                continue
            match order.split(), block["kind"]:
                case ["file", name], _:
                    (self.play / name).write_text(block["text"])
                case ["terminal", number], "console":
                    await self._leave_running(await self.shell(number), block["text"])
                case ["terminal", number, "says"], "text":
                    shown = block["text"].splitlines()
                    assert await self.terminals[number].sees(shown), self.terminals[number].said[-2000:]
                case [], "console":
                    for command, shown in commands(block["text"]):
                        await (await self.shell("2")).run(self._as_here(command), shown)
                case what:
                    raise AssertionError(f"nobody knows what to do with {what}")
            order = ""

    async def _leave_running(self, terminal: Terminal, text: str) -> None:
        *before, (last, shown) = commands(text)
        for command, nothing in before:
            await terminal.run(self._as_here(command), nothing)
            if command.startswith("git clone"):
                _lend_environment(self.home / "rostra")
        terminal.type(self._as_here(last))
        assert await terminal.sees(shown, within_s=2 * SEEN_WITHIN_S), terminal.said
        if found := re.search(r"http://127\.0\.0\.1:\d+", terminal.said):
            self._here["http://127.0.0.1:7780"] = found[0]
        if found := re.search(r"/\S+/up-\d+(?=/us)", terminal.said):
            self._here["/run/rostra/up-4711"] = found[0]

    async def _end(self, number: str) -> None:
        self.terminals[number].interrupt()
        await self.terminals.pop(number).close()

    def _as_here(self, command: str) -> str:
        for page, here in self._here.items():
            command = command.replace(page, here)
        return command

    async def close(self) -> None:
        for terminal in list(self.terminals.values()):
            terminal.interrupt()
            await terminal.close()


def _lend_environment(clone: Path) -> None:
    """What `make up` would install is here already, and need not come over the network again."""
    (clone / ".venv").mkdir()
    (clone / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    (clone / ".venv" / "ready-to-run").touch()


def test_every_command_and_every_program_of_the_tutorial_does_what_it_says() -> None:
    for tool in ("bash", "curl", "git", "make"):
        if shutil.which(tool) is None:
            pytest.skip(f"the tutorial needs {tool}: apt-get install -y {tool}")

    async def read_it_all(home: Path) -> None:
        reader = Reader(home)
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                await reader.read(PAGE.read_text())
        finally:
            await reader.close()

    # A short name, since the address of a socket holds no long one.
    with tempfile.TemporaryDirectory(prefix="reader", dir="/tmp") as home:
        asyncio.run(read_it_all(Path(home)))
        assert not list((Path(home) / "run" / "rostra").glob("up-*")), "nothing is left of the world"


def test_a_page_that_is_not_true_is_found_out() -> None:
    said = "chess@world   1 member   as office.pc2 sees it   4 ms\nMEMBER  HOST\nann#179  office.pc1  alive\n"
    assert ends_after(said, ["chess@world 1 member …", "ann#…  office.pc1  alive"], 0) == len(said) - 1
    assert ends_after(said, ["chess@world 2 members …"], 0) is None
    assert ends_after(said, ["ann#…  office.pc1  alive", "MEMBER …"], 0) is None
    assert ends_after(said, ["ann#…  office.pc2  alive"], 0) is None
