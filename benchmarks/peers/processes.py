"""Server processes of the peers: start, wait until they listen, stop, weigh."""

import asyncio
import contextlib
import ctypes
import os
import signal
import time
from pathlib import Path

READY_WITHIN_S = 60.0


class Died(RuntimeError):
    """A server process ended while it was being measured."""


async def start(*command: str, log: Path | None = None) -> asyncio.subprocess.Process:
    """`log` for those whose remarks of normal operation go to stderr."""
    with log.open("ab") if log is not None else contextlib.nullcontext(None) as remarks:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=remarks,
        )


async def listening(path: str) -> None:
    """Wait until somebody accepts connections on this Unix socket."""
    async with asyncio.timeout(READY_WITHIN_S):
        while True:
            try:
                _, writer = await asyncio.open_unix_connection(path)
            except (FileNotFoundError, ConnectionRefusedError):
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return


async def stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
    await process.wait()


def resident_kb(pids: list[int]) -> int:
    """Memory that these processes hold, shared libraries left out: what grows with members is their own."""
    return sum(_own_kb(pid) for pid in pids)


def _own_kb(pid: int) -> int:
    fields = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    return int(fields["RssAnon"].split()[0])


def cpu_us(pids: list[int]) -> float:
    """Processor time that these processes have used. Unlike a clock, it does not mind a busy machine much."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1000


def threads_cpu_us(pids: list[int]) -> float:
    """The same with all their threads, by the kernel's clock of each process, in nanoseconds."""
    return sum([time.clock_gettime_ns(_cpu_clock(pid)) for pid in pids]) / 1000


def _cpu_clock(pid: int) -> int:
    clock = ctypes.c_int()
    if error := ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock)):
        raise OSError(error, os.strerror(error), str(pid))
    return clock.value
