"""Histories with real processes: callers of one replicated object are killed and stopped, and so are agents,
servers and cables, and the clocks of agents and servers step; do all answers fit one order? As root cables
are cut, in one direction only too, and lose 20 % of all packets.

    make histories-live SECONDS=60
    PYTHONPATH=tests python -m tests.live.histories --seconds 60 --seed 1

Each caller is a process. It writes every operation to a file of its own when it asks and when it is answered,
by the machine's monotonic clock; one that was killed in between is in doubt.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import support.lab
from msgspec.structs import replace
from support.lab import FORGIVING, Lab, why_no_namespaces

import rostra
from rostra.testing.histories import Finding, Operation, blind, witnessed
from tests.faults.histories import BEHAVIOURS, KEY_S, PLACES, Things

ROOT: Final = Path(__file__).parents[2]
CALLERS: Final = 4
HOSTS: Final = ("eu.h1", "eu.h2", "eu.h3")
LOSES: Final = "-m statistic --mode random --probability 0.2"

STEPPING: Final = """
import signal, time
now_ns, now, ahead_s = time.time_ns, time.time, 0
def step(number, _):
    global ahead_s
    ahead_s += 3600 if number == signal.SIGUSR1 else -3600
signal.signal(signal.SIGUSR1, step)
signal.signal(signal.SIGUSR2, step)
time.time_ns = lambda: now_ns() + ahead_s * 10**9
time.time = lambda: now() + ahead_s
from rostra.cli import main
main()
"""
"""An agent or server whose clock a signal steps by an hour; it is back when the process starts again."""


class Written(msgspec.Struct, array_like=True):
    """One line of a caller: an operation is asked, or answered."""

    nth: int
    model: str
    operation: Operation


# A caller's process


async def call(address: str, name: str, first: int, path: str) -> None:
    luck, nth = Random(f"{name} {first}"), first
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(nth: int, model: str, operation: Operation) -> None:
        os.write(file, msgspec.json.encode(Written(nth, model, operation)) + b"\n")

    async with (
        rostra.connect(address, name=name) as me,
        me.replicate("things", Things(), "eu", checkpoint_every=50) as things,
    ):
        while True:
            nth += 1
            model, what, given = luck.choice(
                (
                    ("counter", "add", luck.randrange(1, 4)),
                    ("queue", "put", nth),
                    ("queue", "take", None),
                    ("register", "write", nth % 5),
                    ("register", "read", None),
                    ("register", "swap", (luck.randrange(5), nth % 5)),
                )
            )
            key = f"{int(time.monotonic() // KEY_S)}/{luck.randrange(2)}"
            asked = Operation(name, key, what, given, None, time.monotonic())
            note(nth, model, asked)
            args = () if given is None else given if isinstance(given, tuple) else (given,)
            got = await getattr(things, what)(nth, key, *args)
            note(nth, model, replace(asked, got=got, done=time.monotonic()))
            await asyncio.sleep(luck.expovariate(20))


# The driver


class LiveHistories:
    def __init__(self, lab: Lab, home: Path, seed: int, hosts: int) -> None:
        self.lab, self.home, self.luck = lab, home, Random(seed)
        self.hosts = HOSTS[:hosts]  # of callers
        self.callers: dict[int, subprocess.Popen[bytes]] = {}
        self.started = 0
        self.deeds: list[str] = []

    def start(self, nth: int) -> None:
        self.started += 1
        name, host = f"caller-{nth}-{self.started}", self.hosts[nth % len(self.hosts)]
        arguments = ("--caller", self.lab.socket(host), name, str(self.started * 1_000_000))
        self.callers[nth] = subprocess.Popen(
            [sys.executable, "-m", "tests.live.histories", *arguments, str(self.home / f"{name}.lines")],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
            stderr=(self.home / f"{name}.errors").open("wb"),
        )

    async def run(self, for_s: float) -> list[tuple[str, Finding]]:
        for nth in range(CALLERS):
            self.start(nth)
        until = time.monotonic() + for_s
        await asyncio.sleep(5)
        while time.monotonic() < until:
            await asyncio.sleep(self.luck.expovariate(1 / 3))
            await self.deed()
        await self.lab.calm()
        try:
            return await self.judge()
        finally:
            for process in self.callers.values():
                process.kill()
                process.wait()

    async def deed(self) -> None:
        luck, lab = self.luck, self.lab
        can_cut = why_no_namespaces() is None
        cables = ("cut", "cut one way", "lose") if can_cut else ()
        what = luck.choice(("kill", "stop", "stop agent", "kill agent", "kill server", "step clock", *cables))
        some_s, host, nth = (
            luck.choice((0.1, 1.0, 3.0, 8.0)),
            luck.choice(self.hosts),
            luck.randrange(CALLERS),
        )
        self.deeds.append(what)
        match what:
            case "kill":
                self.callers[nth].kill()
                self.callers[nth].wait()
                self.start(nth)
            case "stop":
                self.callers[nth].send_signal(signal.SIGSTOP)
                await asyncio.sleep(some_s)
                self.callers[nth].send_signal(signal.SIGCONT)
            case "stop agent":
                pid = lab[host].pid
                os.kill(pid, signal.SIGSTOP)
                await asyncio.sleep(some_s)
                os.kill(pid, signal.SIGCONT)
            case "kill agent" | "kill server":
                node = lab[host if what == "kill agent" else "eu"]
                node.kill()
                await asyncio.sleep(some_s)
                node.start()
            case "step clock":
                step = luck.choice((signal.SIGUSR1, signal.SIGUSR2))
                os.kill(lab[luck.choice((host, "eu"))].pid, step)
            case "lose":
                for each in ("eu", *self.hosts):
                    lab.deafen(each, LOSES)
                await asyncio.sleep(some_s)
                lab.heal()
            case "cut one way":
                ways = [[host], ["eu"]]
                luck.shuffle(ways)
                lab.cut_one_way(*ways)
                await asyncio.sleep(some_s)
                lab.heal()
            case "cut":
                lab.cut([host], ["eu", *[each for each in self.hosts if each != host]])
                await asyncio.sleep(some_s)
                lab.heal()

    async def judge(self) -> list[tuple[str, Finding]]:
        """The log of a replica that joins at last says what was applied."""
        async with (
            rostra.connect(self.lab.socket("eu.h1")) as me,
            me.replicate("things", Things(), "eu", deadline_s=120) as things,
        ):
            await things.fresh()
            log = list(things.log)
        places = {nth: place * PLACES for place, nth in enumerate(log, 1)}
        self.seen: dict[str, dict[int, Operation]] = {model: {} for model in BEHAVIOURS}
        for path in self.home.glob("*.lines"):
            for line in path.read_bytes().splitlines():
                with contextlib.suppress(msgspec.DecodeError):  # half a line of one that was killed
                    written = msgspec.json.decode(line, type=Written)
                    operation = written.operation
                    if isinstance(operation.given, list):
                        operation = replace(operation, given=tuple(operation.given))
                    operation = replace(operation, position=places.get(written.nth))
                    self.seen[written.model][written.nth] = operation
        found = []
        for model, behaviour in BEHAVIOURS.items():
            history = list(self.seen[model].values())
            found.append((f"{model}, witnessed", witnessed(history, behaviour)))
            blindly = blind([replace(each, position=None) for each in history], behaviour, steps_max=300_000)
            found.append((f"{model}, blind", blindly))
        return found


async def drive(options: Any) -> int:
    support.lab.ROSTRA = (sys.executable, "-c", STEPPING)
    with tempfile.TemporaryDirectory(prefix="rostra-histories-") as home:
        lab = Lab(
            Path(home),
            servers=("eu",),
            hosts=HOSTS,
            namespaces=why_no_namespaces() is None,
            more=FORGIVING,
        )
        await lab.start()
        with contextlib.closing(lab):
            run = LiveHistories(lab, Path(home), options.seed, options.hosts)
            found = await run.run(options.seconds)
            operations = [each for history in run.seen.values() for each in history.values()]
            doubt = sum(each.done is None for each in operations)
            if not operations:
                print(*[each.read_text()[-2000:] for each in Path(home).glob("*.errors")])
                return 1
            print(f"{len(operations)} operations, {doubt} in doubt, faults: {' '.join(run.deeds)}")
            for name, each in found:
                print(f"{name}: {each.ok} {each.why} {each.operation or ''}")
            return 1 if any(each.ok is False for _, each in found) else 0


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.live.histories", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=1, help="that have callers, up to 3")
    parser.add_argument("--caller", nargs=4, metavar=("ADDRESS", "NAME", "FIRST", "FILE"))
    options = parser.parse_args(arguments)
    if options.caller:
        address, name, first, path = options.caller
        asyncio.run(call(address, name, int(first), path))
        return 0
    return asyncio.run(drive(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
