"""Sets with addresses in a simulated world: their frames travel on the ways of datagrams (`datagrams.py`).

Repeaters are where `AgreedConfig.sets` says; the place of any other server is its name. So a test cuts
multicast between two servers, and leaves their link, with ``cut("a | b", only="data")``.
"""

from collections import Counter
from typing import TYPE_CHECKING

from rostra.names import Domain
from rostra.protocols.agreed.casting import FrameHeard, SendSetFrame, SetFrame
from rostra.protocols.agreed.config import Place

if TYPE_CHECKING:
    from rostra.sim.processes import SimProcess
    from rostra.sim.world import World


class SimCasting:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._addresses = {each.set: each for each in world.agreed.sets}
        repeaters = [each for address in world.agreed.sets for each in address.repeaters]
        self._at: dict[Place, Domain] = {each.place: each.server for each in repeaters}
        self._places = {server: place for place, server in self._at.items()}
        self.sent: Counter[str] = Counter()  # datagrams, by kind of message

    def cast(self, process: "SimProcess", order: SendSetFrame) -> None:
        frame = order.frame
        if frame.message is not None:
            self._world.busy()
        self.sent[type(frame.message).__name__] += order.multicast + len(order.places)
        if order.multicast:
            address, tree = self._addresses[frame.set], self._world.tree
            for server in sorted(tree.children):
                if server in (frame.set, *tree.children[frame.set]) and address.reaches(server):
                    self._carry(process.path, server, frame, by_multicast=True)
        for place in order.places:
            self._carry(process.path, self._at.get(place) or Domain(place[0]), frame, by_multicast=False)

    def _carry(self, sender: Domain, to: Domain, frame: SetFrame, *, by_multicast: bool) -> None:
        if to == sender:
            return
        world = self._world
        heard = FrameHeard(frame, self._places.get(sender) or (str(sender), 0), by_multicast)
        for at in world.data.arrivals(world.now, world.data.way(sender, to), frame):
            world.at(at, world.nodes.step, world.processes[to], heard)
