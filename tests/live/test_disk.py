"""``stable="disk"`` and real processes: what was acknowledged survives a SIGKILL of all of them."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.lab import FORGIVING, WITHIN_S, Lab, until

import rostra

SPEAKER = """
import asyncio, os, sys, rostra

async def main():
    async with rostra.connect(sys.argv[1], name=sys.argv[2]) as me:
        kind = dict(membership="agreed", delivery="atomic", survive="majority", stable="disk")
        async with me.join("ledger", "eu", **kind) as group:
            number = 0
            while True:
                body = f"{sys.argv[2]} {number}".encode()
                await group.send(body)
                os.write(1, body + b"\\n")  # acknowledged
                number += 1

asyncio.run(main())
"""

HOSTS = ("eu.h1", "eu.h2", "eu.h3")


async def what_is_kept(lab: Lab, host: str) -> list[bytes]:
    """What a member is given before its first view."""
    async with lab.program(host, f"reader-{host[-2:]}") as me:
        group = await me.join(
            "ledger", "eu", membership="agreed", delivery="atomic", survive="majority", stable="disk"
        )
        found: list[bytes] = []
        async for item in group:
            if isinstance(item, rostra.Message):
                found.append(item.body)
            elif isinstance(item, rostra.View):
                break
        await asyncio.sleep(1.0)  # the others are to find us here
        return found


def lines(file: Path) -> list[bytes]:
    return file.read_bytes().split(b"\n")[:-1]


@pytest.mark.spec("A-100")
async def test_what_was_acknowledged_survives_the_death_of_all(tmp_path: Path, namespaces: bool) -> None:
    with contextlib.ExitStack() as stack:
        lab = Lab(tmp_path, servers=("eu",), hosts=HOSTS, namespaces=namespaces, more=FORGIVING)
        await lab.start()
        stack.callback(lab.close)
        files = {host: tmp_path / f"{host}.said" for host in HOSTS}
        speakers = []
        for host, file in files.items():
            command = [sys.executable, "-c", SPEAKER, lab.socket(host), host.replace(".", "-")]
            speakers.append(stack.enter_context(subprocess.Popen(command, stdout=file.open("wb"))))
        await until(lambda: all(len(lines(file)) > 30 for file in files.values()), "all are acknowledged")
        for process in (*lab.processes.values(),):
            os.kill(process.pid, signal.SIGKILL)
        for speaker in speakers:
            speaker.kill()
            speaker.wait()
        said = {line for file in files.values() for line in lines(file)}
        for process in lab.processes.values():
            process.wait()
            process.start()
        await lab.calm()
        async with asyncio.timeout(WITHIN_S):
            kept = await asyncio.gather(*[what_is_kept(lab, host) for host in HOSTS])
        best = max(kept, key=len)
        assert said and said <= set(best)
        assert sum(len(each) > 0 for each in kept) >= 2 and all(each in ([], best) for each in kept)
