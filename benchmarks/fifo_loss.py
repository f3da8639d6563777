"""Streams of large and small messages between two sites that lose some of it, in virtual time.

    python -m benchmarks.fifo_loss                          the table: ten minutes of each
    python -m benchmarks.fifo_loss --size 3000 --loss 0.2   one line of it; with --for 60 a shorter one

One sender at one site, two receivers at the other, 20 ms one way. It prints whether everything arrived, the
longest time for which a receiver waited for the next message, in rounds of repair, and how many datagrams of
repair were sent for each that was lost.
"""

import argparse
from typing import Final

from msgspec import Struct

from rostra.impair.quality import Constant, LineQuality
from rostra.names import ROOT, Domain, Group
from rostra.protocols.fifo.events import Delivered, Item
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.links.config import LinkConfig
from rostra.sim.network import LinkModel
from rostra.sim.programs import SimProgram
from rostra.sim.world import World

G: Final = Group("table", ROOT)
ONE_WAY_S: Final = 0.02
LAN: Final = LineQuality(Constant(0.0002))
RATES: Final = {100: 100.0, 3_000: 100.0, 60_000: 10.0, 1 << 20: 0.5}
LOSSES: Final = (0.0, 0.02, 0.05, 0.1, 0.2)
PATIENCE_S: Final = 30.0


class Steady(Struct, frozen=True):
    """What became of one stream."""

    size: int
    loss: float
    said: int
    delivered: int  # by the receiver that has least
    longest_wait_s: float
    lost: int  # datagrams on the way there
    repairs: int  # datagrams
    naks: int

    @property
    def longest_wait_in_repairs(self) -> float:
        return self.longest_wait_s / FifoConfig().again_after(2 * ONE_WAY_S)

    @property
    def repairs_per_lost(self) -> float:
        return self.repairs / max(1, self.lost)


class _Ear:
    """When a receiver was given what, and how long it waited for it."""

    def __init__(self, program: SimProgram, began: float, every_s: float) -> None:
        self.began, self.every_s = began, every_s
        self.delivered, self.longest_s, self._at = 0, 0.0, began
        program.conversation(G).hearer = self.hear

    def hear(self, at: float, item: Item) -> None:
        if isinstance(item, Delivered):
            said_at = self.began + (item.run.first - 1) * self.every_s
            self.longest_s = max(self.longest_s, at - max(self._at, said_at))
            self.delivered += item.run.count
            self._at = at


def steady(size: int, loss: float, for_s: float, *, rate: float | None = None, seed: int = 1) -> Steady:
    world = World(
        seed,
        domains={"s1": 1, "s2": 2},
        links=LinkModel(LAN, LineQuality(Constant(ONE_WAY_S))),
        data=LinkModel(LAN, LineQuality(Constant(ONE_WAY_S), loss=loss)),
        timers=LinkConfig.wan().over_datagrams(),
        fifo=FifoConfig(),
        history=False,
    )
    world.settle()
    sender, *receivers = [world.program(host, "p") for host in ("s1.h1", "s2.h1", "s2.h2")]
    for program in (sender, *receivers):
        program.join_fifo(G)
    world.run(5.0)
    every_s = 1 / (RATES[size] if rate is None else rate)
    count = round(for_s / every_s)
    ears = [_Ear(program, world.now, every_s) for program in receivers]
    sender.stream(G, every_s, count=count, size=size)
    world.run(for_s)
    until = world.now + PATIENCE_S
    while min(ear.delivered for ear in ears) < count and world.now < until:
        world.run(1.0)
    there, back = (world.data.way(Domain(a), Domain(b)) for a, b in (("s1", "s2"), ("s2", "s1")))
    world.close()
    return Steady(
        size,
        loss,
        count,
        min(ear.delivered for ear in ears),
        max(ear.longest_s for ear in ears),
        there.lost,
        there.datagrams["Repair"],
        back.datagrams["Nak"],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, choices=sorted(RATES))
    parser.add_argument("--loss", type=float)
    parser.add_argument("--for", type=float, default=600.0, dest="for_s")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    print("bytes    loss  delivered      longest wait       lost  repairs  per lost  naks")
    for size in RATES if chosen.size is None else (chosen.size,):
        for loss in LOSSES if chosen.loss is None else (chosen.loss,):
            made = steady(size, loss, chosen.for_s, seed=chosen.seed)
            wait = f"{made.longest_wait_s:.2f} s ({made.longest_wait_in_repairs:.0f} repairs)"
            print(
                f"{size:>7}  {loss:>4.0%}  {made.delivered:>6}/{made.said:<6}  {wait:<18}"
                f" {made.lost:>6}  {made.repairs:>7}  {made.repairs_per_lost:>8.2f}  {made.naks}",
                flush=True,
            )


if __name__ == "__main__":
    main()
