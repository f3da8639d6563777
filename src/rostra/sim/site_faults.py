"""What storms do to a world of several sites: crashes, restarts, pauses and cuts, drawn from a seed."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import ClassVar

from rostra.core.observer import Reporter
from rostra.names import Domain, Group
from rostra.protocols.relaxed.requests import Denied
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.world import World

Stay = tuple[SimProgram, Group]


def refused(wanted: Mapping[Stay, SimCall | None]) -> Iterator[Stay]:
    """Programs that are to ask again: their joins were denied, for now."""
    for (program, group), call in list(wanted.items()):
        if program.alive and call is not None and isinstance(call.result, Denied):
            assert call.result.retriable, f"{program} was refused: {call.result}"
            yield program, group


class SiteFaults(Reporter):
    sites: ClassVar[Mapping[str, int]] = {"eu.fr": 2, "eu.de": 2, "eu.it": 1, "us.ny": 1}
    servers: ClassVar[tuple[str, ...]] = (
        "eu.fr",
        "eu.de",
        "eu.it",
        "eu",
    )  # that crash, and are cut from each other
    cuts: ClassVar[tuple[str, ...]] = ("eu.fr", "eu.de", "eu.it", "eu.fr.h1", "us")
    world: World
    luck: Random

    def _deed(self, deed: str) -> None:
        getattr(self, f"_{deed}")()

    def _kill(self) -> None:
        alive = [program for program in self.world.programs if program.alive]
        if alive:
            self.luck.choice(alive).kill()

    def _rest(self) -> None:
        self.world.run(self.luck.choice((0.5, 5.0)))

    def _crash(self) -> None:
        server = self.luck.choice(self.servers)
        if self.world.processes[Domain(server)].node is not None:
            self.world.crash(server)

    def _crash_host(self) -> None:
        host = self.luck.choice(self.world.tree.hosts)
        if self.world.processes[host].node is not None:
            self.world.crash(host)

    def _restart(self) -> None:
        down = [path for path, process in self.world.processes.items() if process.node is None]
        if down:
            self.world.restart(self.luck.choice(down))

    def _pause(self) -> None:
        path = self.luck.choice(sorted(self.world.processes))
        if self.world.processes[path].node is not None and not self.world.processes[path].paused:
            self.world.pause(path)

    def _resume(self) -> None:
        for path, process in self.world.processes.items():
            if process.paused:
                self.world.resume(path)

    def _cut_site(self) -> None:
        self.world.cut(self.luck.choice(self.cuts))

    def _heal(self) -> None:
        self.world.heal()

    def _mend(self) -> None:
        """Everything runs, and everything is linked."""
        self._resume()
        for path, process in list(self.world.processes.items()):
            if process.node is None:
                self.world.restart(path)
        self.world.heal()
