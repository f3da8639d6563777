"""Servers and agents in a lab: one server on every site's own machine, one agent on each of its hosts.

The world file is made from the lab: every site is a cluster of that name, and the agent of host `mit.h1` runs
in the namespace of that name. Programs connect to an agent by its Unix socket, from anywhere on this machine;
traffic between agents and servers goes through the lab's network.
"""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rostra.client import connect_admin
from rostra.config import parse_world
from rostra.errors import RostraError, Unreachable
from rostra.lab.lab import Lab, LabPlace, end
from rostra.names import ROOT
from rostra.transport.addresses import TcpAddress

PORT: Final = 7700
ROOT_PORT: Final = 7701
UP_WITHIN_S: Final = 120.0
ANSWER_WITHIN_S: Final = 10.0
LAST_WORDS: Final = 3
SEGMENT_S: Final = 2.0
URGENTLY: Final = ("chrt", "--rr", "1")
ROSTRA: Final = (sys.executable, "-m", "rostra")


class LabWorld:
    """The world of one lab: ``await LabWorld(lab).start()``. It ends with the lab, or by `stop`.

    `detect` is what differs from the profile. A link that loses a fifth of its packets keeps a TCP connection
    waiting for several seconds every now and then: `down_after_s` decides if that parts two sites. `journal`
    is where every node keeps a journal, with every input if `record`. An `urgent` world runs before ordinary
    processes, as the lab's router does: what is measured is then the network, and not who else is here.
    `data` is how data travels everywhere: ``{"parity_frames": 8}``. With `keeps_state` servers have state
    directories. With `root`, the machine of that site also runs the server of the world, which agreed groups
    of that scope need.
    """

    def __init__(
        self,
        lab: Lab,
        *,
        profile: str = "wan",
        detect: Mapping[str, float] | None = None,
        journal: Path | None = None,
        record: bool = False,
        urgent: bool = False,
        data: Mapping[str, object] | None = None,
        keeps_state: bool = False,
        root: str = "",
    ) -> None:
        self.lab = lab
        self.profile = profile
        self.detect = dict(detect or {})
        self.journal = journal
        self.record = record
        self.urgent = urgent
        self.data = dict(data or {})
        self.keeps_state = keeps_state
        self.root = root
        self.processes: dict[str, subprocess.Popen[Any]] = {}

    async def start(self, within_s: float = UP_WITHIN_S) -> "LabWorld":
        self._write_world_file()
        for site in self.lab.sites:
            state = ["--state", str(self.lab.home.path / f"{site.name}.state")] if self.keeps_state else []
            self._start(site, ["server", "--domain", site.name, *state])
            for host in site.hosts.values():
                self.start_agent(host.name)
            if site.name == self.root:
                self._start(site, ["server", "--domain", ROOT], ROOT)
        await self._until_linked(within_s)
        return self

    def start_agent(self, host: str) -> None:
        """Of this host; again, if it was killed."""
        self._start(self.lab.host(host), ["agent", host])

    def stop(self) -> None:
        """End its processes, all at once; the lab stays."""
        end(list(self.processes.values()))

    @property
    def world_file(self) -> Path:
        return self.lab.home.path / "world.toml"

    def socket(self, node: str) -> str:
        """Where programs of a host, and administrators of a site's server, connect."""
        return str(self.lab.home.path / f"{node}.sock")

    def log(self, node: str) -> Path:
        return self.lab.home.path / f"{node}.log"

    @property
    def hosts(self) -> list[LabPlace]:
        return [host for site in self.lab.sites for host in site.hosts.values()]

    def ended(self) -> list[str]:
        """The nodes that should be running and are not."""
        return [name for name, process in self.processes.items() if process.poll() is not None]

    async def unlinked(self) -> list[str]:
        """Which links between neighbours are down, as ``mit to ntu``."""
        sites = [site.name for site in self.lab.sites]
        neighbours = {site: [other for other in sites if other != site] for site in sites}
        neighbours |= {host.name: [host.name.partition(".")[0]] for host in self.hosts}
        if self.root:
            neighbours[ROOT] = sites
        asked = await asyncio.gather(*(self._down(node, peers) for node, peers in neighbours.items()))
        return [each for down in asked for each in down]

    async def _down(self, node: str, peers: list[str]) -> list[str]:
        try:
            async with connect_admin(self.socket(node), domain=node, timeout_s=ANSWER_WITHIN_S) as admin:
                links = (await admin.inspect())["links"]
        except (RostraError, OSError):
            return [node]  # not even there yet
        return [f"{node} to {peer}" for peer in peers if not links.get(peer, {}).get("up")]

    async def _until_linked(self, within_s: float) -> None:
        give_up_s = time.monotonic() + within_s
        while down := await self.unlinked():
            if ended := self.ended():
                words = self.log(ended[0]).read_text(errors="replace").strip().splitlines()[-LAST_WORDS:]
                raise Unreachable(f"{ended[0]} ended while the world was starting", fix="\n".join(words))
            if time.monotonic() > give_up_s:
                raise Unreachable(f"not linked within {within_s:.0f} s: {', '.join(down)}")
            await asyncio.sleep(0.1)

    def _write_world_file(self) -> None:
        servers = "".join(f'{site.name} = "{TcpAddress(site.address, PORT)}"\n' for site in self.lab.sites)
        if self.root:
            servers += f'{ROOT} = "{TcpAddress(self.lab.site(self.root).address, ROOT_PORT)}"\n'
        text = (
            f'[world]\nname = "{self.lab.plan.name}"\nprofile = "{self.profile}"\n\n[servers]\n{servers}\n'
            + "[detect]\n"
            + "".join(f"{name} = {value}\n" for name, value in self.detect.items())
        )
        if self.data:
            said = ", ".join(f"{name} = {json.dumps(value)}" for name, value in self.data.items())
            text += f"\n[data]\nworld = {{ {said} }}\n"
        if self.journal is not None:
            record = str(self.record).lower()
            text += f'\n[journal]\nat = "{self.journal}"\nsegment_s = {SEGMENT_S}\nrecord = {record}\n'
        parse_world(text)  # a mistake is reported here, and not in the logs of every process
        self.world_file.write_text(text)

    def _start(self, place: LabPlace, words: list[str], name: str = "") -> None:
        name = name or place.name
        with self.log(name).open("ab") as log:
            self.processes[name] = place.popen(
                [
                    *URGENTLY[: 3 * self.urgent],
                    *ROSTRA,
                    *words,
                    "--world",
                    str(self.world_file),
                    "--socket",
                    self.socket(name),
                ],
                stdout=log,
                stderr=log,
            )
