"""The lines between the processes of a simulated world, and their faults.

    node ── Transmit ──▶ line: cut? lost? held? slow? ──▶ agenda ──▶ PacketArrived ── node

Packets travel as objects. With `wire=True` every packet is encoded and decoded on its way, which costs time,
counts bytes, and shows that all messages of the cores can be encoded.

Tests and stories name lines in words: ``haifa | paris``, ``haifa > paris``, ``paris``, ``link eu | us``.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from rostra.errors import BadInput
from rostra.impair.quality import LineQuality
from rostra.names import ROOT, Domain, inside
from rostra.protocols.agreed.branch import ConfirmAsked, LeaseAsked, LeaseConfirmed, LeaseGiven
from rostra.protocols.links.core import Link
from rostra.protocols.links.events import ChannelClosed, ChannelOpened, PacketArrived, Transmit
from rostra.protocols.links.packets import NOBODY, AnyPacket, Data, Hello
from rostra.protocols.links.state import Together
from rostra.protocols.relaxed.messages import LifeAsked, LifeTold
from rostra.sim.history import DataChanged, LineChanged
from rostra.sim.network import SimLine
from rostra.sim.processes import WORLD_NAME, SimProcess
from rostra.wire import Arrived, Encoder, FrameKind, FrameReader

if TYPE_CHECKING:
    from rostra.sim.world import World

LOSS_USUAL: Final = 0.2
"""Ways that lose more are bad: streams over them may stand still for a while."""

Channel = Literal["control", "data"]
"""What travels on lines between neighbours; what groups that speak send around them."""


class FaultTarget(Struct, frozen=True):
    """Some of the lines, or of the ways, by the words of a story or a test."""

    a: Domain
    b: Domain | None
    one_way: bool
    exact: bool

    def covers(self, sender: Domain, to: Domain) -> bool:
        a, b = self.a, self.b
        if self.exact:
            found, back = (sender, to) == (a, b), (sender, to) == (b, a)
        elif b is None:
            found = inside(a, sender) and not inside(a, to)
            back = inside(a, to) and not inside(a, sender)
        else:
            found, back = _apart(a, b, sender, to), _apart(a, b, to, sender)
        return found or (back and not self.one_way)


class SimNetwork:
    """All lines of a world; faults apply to the datagrams of groups (`datagrams.py`) as well."""

    def __init__(self, world: "World", *, wire: bool) -> None:
        self.in_flight = 0  # messages
        self._world = world
        self._wire = _Wire() if wire else None

    def connect(self, new: Collection[Domain]) -> None:
        """A line in each direction of every link of these servers."""
        world = self._world
        hosts = set(world.tree.hosts)
        for a, b in [(a, b) for a, b in world.tree.links() if a in new or b in new]:
            quality = world.links.lan if a in hosts or b in hosts else world.links.wan
            world.processes[a].lines[b] = SimLine(a, b, quality)
            world.processes[b].lines[a] = SimLine(b, a, quality)

    def odd(self) -> str:
        """What is not as it must be when the world is at rest; nothing if all is."""
        if self.in_flight:
            return f"{self.in_flight} messages in flight"
        processes, now = self._world.processes, self._world.now
        for path, process in processes.items():
            if process.inbox and not process.paused:
                return f"{path} has not caught up"
            for peer, line in process.lines.items():
                back = processes[peer].lines[path]
                if line.held is not None or back.held is not None or line.least_s or back.least_s:
                    continue  # whether such a link counts as up is the detector's own business
                if line.jammed_until > now:
                    return f"the line from {path} to {peer} is jammed"
                other = processes[peer]
                fine = process.works and other.works and not line.cut and not back.cut
                if process.works and process.node is not None and process.node.is_up(peer) != fine:
                    return f"{path} should see {peer} {'up' if fine else 'down'}"
                if fine and process.node is not None and not _at_rest(process.node.links[peer]):
                    return f"{path} has not got everything across to {peer}"
        return ""

    def transmit(self, process: SimProcess, order: Transmit) -> None:
        line = process.lines[order.to]
        packet: Any = order.packet
        if type(packet) is Hello:
            packet = self._world.channels.introduce(process, order.to, packet)
        if _matters(packet):
            self._world.busy()
        self._world.packets += 1
        if self._wire is not None:
            packet = self._wire.encode(packet)
            self._world.bytes += len(packet)
        if line.cut:
            return
        quality, luck = line.quality, self._world.luck
        if line.loss and luck.random() < line.loss:
            return
        if line.held is not None:
            line.held.append(packet)
            return
        self.put_on(line, packet)
        if quality.duplicate and luck.random() < quality.duplicate:
            self.put_on(line, packet)

    def put_on(self, line: SimLine, packet: Any) -> None:
        arrives = line.arrival(self._world.now, self._world.luck)
        if _matters(packet):
            self.in_flight += 1
        self._world.agenda.at(arrives, self._arrive, line, packet)

    def _arrive(self, line: SimLine, packet: Any) -> None:
        if _matters(packet):
            self.in_flight -= 1
        if line.dead:
            return
        if self._wire is not None:
            packet = self._wire.decode(packet)
        if type(packet) is Hello:
            packet = self._world.channels.met(self._world.processes[line.to], packet)
        self._world.nodes.step(self._world.processes[line.to], PacketArrived(line.sender, packet))

    def cut(self, where: str, only: Channel | None = None) -> None:
        """Stop lines from carrying packets: ``haifa | paris`` between two domains or hosts, ``haifa >
        paris`` in one direction only, ``paris`` alone at its border, ``link eu | us`` between two servers
        only. What groups say to each other stops there too, unless `only` one channel is meant."""
        for line in self._control(where, only):
            if not line.cut:
                line.cut = True
                self._world.write(LineChanged, line.sender, line.to, "cut")
        self._change_data("cut", where, only, True, cut=True)

    def heal(self, where: str = "", only: Channel | None = None) -> None:
        for line in self._control(where, only):
            if line.cut:
                line.cut = False
                self._world.write(LineChanged, line.sender, line.to, "healed")
        self._change_data("cut", where, only, False, cut=False)

    def lose(self, share: float, where: str = "", only: Channel | None = None) -> None:
        for line in self._control(where, only):
            line.loss = share
        self._change_data("loss", where, only, share > LOSS_USUAL, loss=share)

    def delay(self, least_s: float, where: str = "", only: Channel | None = None) -> None:
        """At least this slow from now on; 0 ends it, once what is on its way has arrived."""
        for line in self._control(where, only):
            if line.least_s:
                line.jammed_until = line.free_at
            line.least_s = least_s
        self._change_data("delay", where, only, least_s > 0, least_s=least_s)

    def make(self, where: str, quality: LineQuality, only: Channel | None = None) -> None:
        """Give these lines another quality than the others of the world."""
        for line in self._control(where, only):
            line.quality, line.loss = quality, quality.loss
        self._change_data("quality", where, only, False, quality=quality)

    def throttle(self, bytes_per_s: float | None, where: str = "") -> None:
        """Limit the rate of datagrams on these paths; None ends it."""
        self._change_data("rate", where, "data", bytes_per_s is not None, rate=bytes_per_s)

    def _control(self, where: str, only: Channel | None) -> Iterator[SimLine]:
        return iter(()) if only == "data" else self.lines(where)

    def _change_data(self, what: str, where: str, only: Channel | None, bad: bool, **values: Any) -> None:
        if (self._world.fifo is not None or self._world.agreed.sets) and only != "control":
            self._world.data.change(self.where(where) if where else None, **values)
            self._world.write(DataChanged, where, what, bad)

    def hold(self, where: str) -> None:
        """Keep packets back, in order, until `release`."""
        for line in self.lines(where):
            line.held = line.held if line.held is not None else []

    def release(self, where: str = "") -> None:
        for line in self.lines(where):
            held, line.held = line.held, None
            for packet in held or ():
                self.put_on(line, packet)

    def reset(self, where: str, *, away_s: float = 0.1) -> None:
        """Break the connections, as a reset of TCP does: what is on its way is lost, and new ones open a
        little later. Both ends get `ChannelClosed`."""
        links = {tuple(sorted((line.sender, line.to))) for line in self.lines(where)}
        for a, b in sorted(links):
            for here, there in ((a, b), (b, a)):
                process = self._world.processes[here]
                old = process.lines[there]
                old.dead = True
                line = process.lines[there] = SimLine(here, there, old.quality)
                line.cut, line.loss, line.least_s = old.cut, old.loss, old.least_s
                self._world.nodes.inject(process, ChannelClosed(there, "reset"))
                self._world.agenda.at(
                    self._world.now + away_s, self._world.nodes.step, process, ChannelOpened(there)
                )

    def lines(self, where: str = "") -> Iterator[SimLine]:
        """The lines that a story or a test means by these words; all of them if it says nothing."""
        part = self.where(where) if where else None
        for process in self._world.processes.values():
            for line in process.lines.values():
                if part is None or part.covers(line.sender, line.to):
                    yield line

    def where(self, text: str) -> FaultTarget:
        exact, sides = text.startswith("link "), text.removeprefix("link ")
        one_way = ">" in sides
        here, sign, there = sides.partition(">" if one_way else "|")
        a = self._world.path(here.strip())
        b = self._world.path(there.strip()) if sign else None
        if exact and (b is None or b not in self._world.processes[a].lines):
            raise BadInput(f"there is no link {sides!r}", fix="name two neighbours: link eu | us")
        return FaultTarget(a, b, one_way, exact)


class _Wire:
    """Packets as bytes and back, through the real encoder and reader."""

    def __init__(self) -> None:
        self._encoder = Encoder(WORLD_NAME)
        self._reader = FrameReader(WORLD_NAME, FrameKind.LINK)
        # A reader expects a Hello first; here one reader reads for all peers.
        self.decode(self.encode(Hello(1, NOBODY, WORLD_NAME, ROOT, 1, 0)))

    def encode(self, packet: AnyPacket) -> bytes:
        frame = self._encoder.packet(packet)
        self._encoder.turn_ends()
        return frame

    def decode(self, frame: bytes) -> Arrived:
        (packet,) = self._reader.feed(frame)
        return packet


def _at_rest(link: Link) -> bool:
    state = link.state
    if not isinstance(state, Together) or not state.flowing:
        return False
    return link.drained or not (state.waiting or any(map(_matters, state.in_flight)))


def _matters(packet: Any) -> bool:
    return type(packet) is Data and any(type(message) not in _ROUTINE for message in packet.messages)


def _apart(a: Domain, b: Domain, sender: Domain, to: Domain) -> bool:
    """Does this line lead from one side to the other? If one contains the other, it is the rest of it."""
    if inside(a, b):
        return inside(b, to) and inside(a, sender) and not inside(b, sender)
    if inside(b, a):
        return inside(a, sender) and inside(b, to) and not inside(a, to)
    return inside(a, sender) and inside(b, to)


_ROUTINE: Final = frozenset({LifeAsked, LifeTold, LeaseAsked, LeaseGiven, ConfirmAsked, LeaseConfirmed})
"""Questions after lives and leases are repeated for ever, like heartbeats: a world that is at rest still asks
them."""
