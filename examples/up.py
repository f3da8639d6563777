"""A small real world on this machine: two regions, a cluster and a host in each, until Ctrl-C.

    server eu + eu.paris ═══════ server us + us.boston        one process per region, two levels in each
             │                            │
    agent eu.paris.h1            agent us.boston.h1           programs connect here

    python examples/up.py

Everything is real: four processes of the `rostra` command, TCP between them, and the Unix socket, the log and
the state of each in .rostra/. The world counts as up when a program on each host sees the other.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import rostra
from rostra.client import Me
from rostra.errors import Unreachable

WORLD = Path(__file__).parent / "world.toml"
HOME = Path(".rostra")
HOSTS = ("eu.paris.h1", "us.boston.h1")
UP_WITHIN_S = 20.0


def command(what: str) -> list[str]:
    """What to run for one process of the world."""
    match what:
        case "eu" | "us":
            cluster = next(host for host in HOSTS if host.startswith(what)).rpartition(".")[0]
            return ["server", "-d", what, "-d", cluster]
        case host:
            return ["agent", host, "--socket", str(socket(host))]


def socket(host: str) -> Path:
    return HOME / host


async def run(what: str) -> asyncio.subprocess.Process:
    with (HOME / f"{what}.log").open("wb") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "rostra", *command(what), "--world", str(WORLD), "--state", str(HOME / "state")),
            stderr=log,
            process_group=0,  # Ctrl-C is ours to handle: they are told to stop, and leave in good order
        )


async def meet() -> None:
    """Wait until a program on each host sees one on every other."""
    everybody = [await knock(host) for host in HOSTS]
    lobbies = [await me.join("lobby") for me in everybody]
    for lobby in lobbies:
        async for _ in lobby:
            if len(lobby.members) == len(HOSTS):
                break
    for me in everybody:
        await me.close()


async def knock(host: str) -> Me:
    """Connect to a host's agent as soon as it listens."""
    while True:
        with contextlib.suppress(Unreachable):
            return await rostra.connect(str(socket(host)))
        await asyncio.sleep(0.1)


async def main() -> int:
    HOME.mkdir(exist_ok=True)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    processes = {what: await run(what) for what in ("eu", "us", *HOSTS)}
    lives = {asyncio.create_task(process.wait()) for process in processes.values()}
    stopping = asyncio.create_task(stop.wait())
    up = asyncio.create_task(meet())
    try:
        await asyncio.wait({up, stopping, *lives}, timeout=UP_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if up.done():
            await up
            tell()
            await asyncio.wait({stopping, *lives}, return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            return 0
        complain(processes)
        return 1
    finally:
        up.cancel()
        for process in processes.values():
            if process.returncode is None:
                process.terminate()
        await asyncio.wait(lives)


def complain(processes: dict[str, asyncio.subprocess.Process]) -> None:
    for what, process in processes.items():
        if process.returncode is not None:
            last_words = (HOME / f"{what}.log").read_text().strip().splitlines()[-2:]
            print(f"{what} has ended:", *last_words, sep="\n  ", file=sys.stderr)
            return
    print(f"the world did not come up within {UP_WITHIN_S:g} s; see {HOME}/*.log", file=sys.stderr)


def tell() -> None:
    python = os.path.relpath(sys.executable)
    print("a world is up: two regions, a cluster and a host in each. In two other terminals, try:\n")
    for host in HOSTS:
        print(f"  ROSTRA_AGENT={socket(host)} {python} examples/join.py chess")
    print(f"\nlogs: {HOME}/*.log    Ctrl-C ends it all", flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
