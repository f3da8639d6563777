"""The data channel of a simulated world: the production core in every process, over a simulated network.

    Cast, Transmit, Broadcast ──▶ ChannelCore ── datagram ──▶ path (`datagrams.py`) ──▶ ChannelCore ──▶ Heard

Datagrams travel as values with one message each, beside the key that seals them, so that the fate of a
datagram is a function of that message alone. Every process has an address, and each LAN a multicast group,
which reaches all hosts that listen, except to and from hosts that a test made deaf or mute.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from rostra.core.effects import Event
from rostra.names import Domain, Group, parent
from rostra.names.addresses import TcpAddress
from rostra.protocols.atomic.agent import ORDER_AGENT
from rostra.protocols.atomic.events import heard
from rostra.protocols.channel.core import ChannelCore, Frame, Place
from rostra.protocols.channel.messages import KEY_BYTES, Call, ChannelMessage, Datagram, Unreadable
from rostra.protocols.channel.reachability import TRY_S
from rostra.protocols.fifo.core import HOST
from rostra.protocols.fifo.events import Broadcast, Cast, Located, Transmit
from rostra.protocols.flow.messages import AnyDataMessage
from rostra.protocols.links.packets import Hello
from rostra.stacks import receiving_hosts

if TYPE_CHECKING:
    from rostra.sim.processes import SimProcess
    from rostra.sim.world import World

PORT = 7000


class SimDatagram(Struct, frozen=True):
    datagram: Datagram
    key: bytes  # that it was sealed with


class DatagramArrived(Event, frozen=True):
    """For the channel of a process, not for its node."""

    sender: Place
    datagram: SimDatagram
    by_multicast: bool


class SimChannels:
    """All data channels of a world. `mode` is how LANs are reached, as a world file says it."""

    def __init__(self, world: "World", mode: str, *, sealed: bool) -> None:
        self.world = world
        self.mode, self.sealed = mode, sealed
        self.of: dict[Domain, SimChannel] = {}  # of processes that live
        self.deaf: set[Domain] = set()  # hosts that multicast does not reach
        self.mute: set[Domain] = set()  # hosts whose own multicast reaches no other
        self._places: dict[Domain, Place] = {}
        self._at: dict[Place, Domain] = {}
        self._listening: dict[Place, set[Domain]] = {}
        self.place(sorted(world.tree.servers))

    def place(self, servers: Iterable[Domain]) -> None:
        """Give these an address each."""
        new = [path for path in servers if path not in self._places]
        for number, path in enumerate(new, 1 + len(self._places)):
            low = f"{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            self._places[path] = (f"10.{low}", PORT)
            self._at[self._places[path]] = path

    def address(self, cluster: Domain, life: int) -> str:
        """What a cluster tells others: where it is, and its key."""
        host, port = self._places[cluster]
        return f"{host}:{port} {self._keys(cluster, life)[1].hex()}".rstrip()

    def _keys(self, cluster: Domain, life: int) -> tuple[bytes, bytes]:
        if not self.sealed:
            return b"", b""
        drawn = blake2b(f"{self.world.seed} {cluster} {life}".encode(), digest_size=2 * KEY_BYTES).digest()
        return drawn[:KEY_BYTES], drawn[KEY_BYTES:]

    def begin(self, process: "SimProcess", life: int) -> None:
        """A node lives from now on: if it is a host's agent or a cluster's server, it has a channel."""
        path, tree = process.path, self.world.tree
        self.end(process)
        if self.world.fifo is None or (path in tree.children and path not in tree.clusters):
            return
        channel = self.of[path] = SimChannel(self, process, is_agent=path in tree.hosts)
        if channel.agent is not None:
            lan = parent(path)
            channel.core.located_at(lan, self._places[lan])
        else:
            key, wide_key = self._keys(path, life)
            group = ("239.255" + self._places[path][0][len("10.0") :], PORT)
            channel.core.seal(path, key, wide_key)
            channel.core.serve(path, self.mode, group, self._places[path], first_probe=life, why="it is so")

    def end(self, process: "SimProcess") -> None:
        self.of.pop(process.path, None)
        for listening in self._listening.values():
            listening.discard(process.path)

    def ip(self, path: Domain) -> str:
        return self._places[path][0]

    def listen(self, who: Domain, group: Place) -> None:
        self._listening.setdefault(group, set()).add(who)

    def carry(self, sender: Domain, to: Place, datagram: SimDatagram) -> None:
        one = self._at.get(to)
        if one is not None:
            self._put_on(sender, one, datagram, by_multicast=False)
        elif sender not in self.mute:
            called = isinstance(datagram.datagram.word, Call)  # that is for the server, and a host ignores it
            for each in sorted(self._listening.get(to, ())):
                if each not in (sender, *self.deaf) and not (called and each in self.world.tree.hosts):
                    self._put_on(sender, each, datagram, by_multicast=True)

    def _put_on(self, sender: Domain, to: Domain, datagram: SimDatagram, *, by_multicast: bool) -> None:
        world = self.world
        way, said = world.data.way(sender, to), datagram.datagram
        for at in world.data.arrivals(world.now, way, said.messages[0] if said.messages else said.word):
            arrived = DatagramArrived(self._places[sender], datagram, by_multicast)
            world.at(at, world.nodes.step, world.processes[to], arrived)

    def arrived(self, process: "SimProcess", arrived: DatagramArrived) -> None:
        channel = self.of[process.path]
        channel.core.arrived(arrived.datagram, arrived.sender, by_multicast=arrived.by_multicast)
        channel.flush()

    # What nodes order

    def cast(self, process: "SimProcess", order: Cast) -> None:
        channel = self.of[process.path]
        channel.core.cast(process.path, order.group, order.message)
        channel.flush()

    def transmit(self, process: "SimProcess", order: Transmit) -> None:
        channel = self.of[process.path]
        channel.core.transmit(process.path, order.to, order.group, order.message)
        channel.flush()

    def broadcast(self, process: "SimProcess", order: Broadcast) -> None:
        channel = self.of[process.path]
        channel.core.broadcast(process.path, order.to, order.group, order.message)
        channel.flush()

    def located(self, process: "SimProcess", order: Located) -> None:
        where = order.where
        self.of[process.path].core.located(order.lan, where.at, where.key, where.multicast)

    # What their links carry

    def introduce(self, process: "SimProcess", peer: Domain, hello: Hello) -> Hello:
        channel = self.of.get(process.path)
        return hello if channel is None else channel.core.introduce(process.path, peer, hello)

    def met(self, process: "SimProcess", hello: Hello) -> Hello:
        channel = self.of.get(process.path)
        return hello if channel is None else channel.core.met(process.path, hello)

    def entered(self, process: "SimProcess", group: Group) -> None:
        channel = self.of[process.path]
        channel.core.entered(group)
        channel.flush()


class SimChannel:
    """The port and the codec of one process's channel."""

    def __init__(self, channels: SimChannels, process: "SimProcess", *, is_agent: bool) -> None:
        self.agent = process.path if is_agent else None
        self.core = ChannelCore(self, self)
        self._channels = channels
        self._world = channels.world
        self._process = process
        self._full = False
        self._ticking = False

    def flush(self) -> None:
        """The end of a turn."""
        if self._full:
            self._full = False
            self.core.flush()
        if not self._ticking and self.core.wants_ticks:
            self._ticking = True
            self._later(self._tick)

    def _later(self, what: Any) -> None:
        self._world.at(self._world.now + TRY_S, self._wake, what, None)

    def _wake(self, what: Any, _: None) -> None:
        if self._channels.of.get(self._process.path) is not self:
            return  # it has crashed
        if self._process.paused:
            self._later(what)
        else:
            what()
            self.flush()

    def _tick(self) -> None:
        self._ticking = False
        self.core.tick()

    def _call_again(self) -> None:
        stack = self._process.stack
        self.core.call_again(stack[HOST].any_group or stack[ORDER_AGENT].any_group)

    # The codec

    def pack(
        self, group: Group, source: Domain, to: Domain, messages: Iterable[AnyDataMessage], key: bytes
    ) -> Iterator[Frame]:
        for message in messages:
            yield [SimDatagram(Datagram(group, source, to, (message,)), key)]

    def word(self, group: Group, source: Domain, to: Domain, word: ChannelMessage, key: bytes) -> Frame:
        return [SimDatagram(Datagram(group, source, to, (), word), key)]

    def read(self, octets: SimDatagram, key_of: Any) -> Datagram | Unreadable:
        key = key_of(octets.datagram.source, octets.datagram.to)
        return octets.datagram if not key or key == octets.key else Unreadable("not sealed by its speaker")

    # The port

    @property
    def now(self) -> float:
        return self._world.now + self._process.skew_s

    @property
    def turn(self) -> int:
        return self._world.events + 1

    def is_here(self, path: Domain) -> bool:
        return path == self._process.path

    def is_up(self, node: Domain, peer: Domain) -> bool:
        return self._process.node is not None and self._process.node.is_up(peer)

    def peer_ip(self, node: Domain, peer: Domain) -> str | None:
        return self._channels.ip(peer)

    def receiving_hosts(self, node: Domain, group: Group) -> set[Domain]:
        return receiving_hosts(self._process.stack, group)

    def deliver(
        self, node: Domain, group: Group, source: Domain, messages: tuple[AnyDataMessage, ...]
    ) -> None:
        self._world.nodes.step(self._process, heard(group, source, messages))

    def send(self, to: Place, frame: Frame) -> None:
        self._channels.carry(self._process.path, to, frame[0])

    def send_wide(self, cluster: Domain, to: Place, frame: Frame) -> None:
        self._channels.carry(self._process.path, to, frame[0])

    def listen(self, lan: Domain, group: Place, server: Place) -> None:
        self._channels.listen(self._process.path, group)

    def open(self) -> None: ...

    def flush_at_end_of_turn(self) -> None:
        self._full = True

    def locate(self, who: Domain, at: TcpAddress) -> None:
        self.core.located_at(who, (at.host, at.port))

    def call_again(self) -> None:
        self._later(self._call_again)

    def count(self, what: str) -> None:
        self._world.notes["Datagram ignored", what] += 1

    def note(self, what: str, **values: object) -> None:
        self._world.notes["Noted", what] += 1

    def note_rarely(self, key: str, what: str, **values: object) -> None:
        self.note(what, **values)
