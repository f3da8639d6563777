"""The sockets of the data channel: UDP for the messages of groups with delivery (`protocols/channel`).

A process has one socket for unicast and for sending. For receiving multicast it has one more for each LAN,
and one for each multicast group between clusters.
"""

import secrets
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from rostra.errors import BadInput
from rostra.names import Domain, Group
from rostra.protocols.agreed.casting import SendSetFrame
from rostra.protocols.atomic.agent import ORDER_AGENT
from rostra.protocols.atomic.events import heard
from rostra.protocols.channel.core import ChannelCore, Place
from rostra.protocols.channel.messages import KEY_BYTES, ChannelMessage, Datagram, Unreadable
from rostra.protocols.channel.reachability import TRY_S
from rostra.protocols.fifo.core import HOST
from rostra.protocols.fifo.events import Broadcast, Cast, Located, Transmit
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import AnyDataMessage
from rostra.protocols.links.packets import Hello
from rostra.runtime.between import Between
from rostra.runtime.set_sockets import SetSockets
from rostra.stacks import receiving_hosts
from rostra.transport.addresses import TcpAddress
from rostra.transport.multicast import (
    group_address,
    interface_to,
    is_possible,
    multicast_receiver,
    set_multicast_interface,
)
from rostra.wire.datagrams import DATAGRAM_BYTES_MAX, Datagrams, KeyOf

if TYPE_CHECKING:
    from rostra.runtime.process import HostedNode, Process

BUFFER_BYTES: Final = 8 << 20
"""What the kernel may keep for us until we read it, if it lets us ask for so much (`net.core.rmem_max`,
unless we are root). Raising it: longer bursts without loss, more memory."""

BURST_SHARE: Final = 8
BURST_SHARE_LOOPBACK: Final = 4
BURST_BYTES_LEAST: Final = 32 << 10
"""One sender may have a share of such a buffer under way: an eighth where datagrams are small, for the kernel
charges them twice their size; a quarter on one machine. More, and a burst of a few senders is lost to a
receiver that is busy for a moment, and then again with its repairs."""

READS_PER_TURN_MAX: Final = 32
"""Datagrams that one turn takes in."""

LARGE_DATAGRAM_BYTES: Final = 9_000
"""Larger ones are for loopback only."""

HEAD_BYTES: Final = 320
"""What a datagram may have around its blocks: names of group, sender and stream."""

SO_SNDBUFFORCE: Final = 32
SO_RCVBUFFORCE: Final = 33
SO_MEMINFO: Final = 55  # Linux's numbers; the module socket does not name them
_DROPS: Final = struct.Struct("9I")


def fitted(config: FifoConfig) -> FifoConfig:
    """The same, with no more under way at once than sockets of this machine can hold."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        _enlarge(probe)
        room = probe.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    share = BURST_SHARE_LOOPBACK if config.datagram_bytes > LARGE_DATAGRAM_BYTES else BURST_SHARE
    return replace(config, window_bytes=min(config.window_bytes, max(room // share, BURST_BYTES_LEAST)))


def _family(at: TcpAddress) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in at.host else socket.AF_INET


def _enlarge(sock: socket.socket) -> None:
    for forced, plain in ((SO_RCVBUFFORCE, socket.SO_RCVBUF), (SO_SNDBUFFORCE, socket.SO_SNDBUF)):
        try:
            sock.setsockopt(socket.SOL_SOCKET, forced, BUFFER_BYTES)
        except PermissionError:
            sock.setsockopt(socket.SOL_SOCKET, plain, BUFFER_BYTES)


class DataChannel:
    """The driver of a process's `ChannelCore`, and its `ChannelPort`."""

    def __init__(self, process: "Process") -> None:
        self.process = process
        self.core = ChannelCore(self, self)
        self._datagrams = Datagrams(process.world.name)
        self._socket: socket.socket | None = None
        self._at: TcpAddress | None = None  # where the socket is, or will be when it is needed
        self._buffer = bytearray(DATAGRAM_BYTES_MAX + 1)
        self._dropped: dict[int, int] = {}  # by file number: what the kernel has reported
        self._receivers: dict[Domain, socket.socket] = {}  # of multicast, by LAN
        self._own: Place | None = None  # from where we send by multicast
        self._between = Between()
        self.sets = SetSockets(process)
        self.acts: dict[type, Callable[[HostedNode, Any], None]] = {
            Cast: self.cast,
            Transmit: self.transmit,
            Broadcast: self.broadcast,
            SendSetFrame: self.sets.cast,
        }

    # Beginning and end

    def open_when_needed(self, at: TcpAddress) -> None:
        """An agent's: membership alone opens no data sockets (C-055); the first program that sends does."""
        self._at = at

    def open_at(self, at: TcpAddress) -> None:
        """Bind the socket; port 0 is any free one."""
        self._at = at
        try:
            sock = socket.socket(_family(at), socket.SOCK_DGRAM)
        except OSError as error:
            raise BadInput(
                f"cannot open a UDP socket for the data of groups: {error.strerror or error}",
                fix="let the process have more open files (LimitNOFILE=, or ulimit -n)",
            ) from None
        try:
            sock.setblocking(False)
            _enlarge(sock)
            sock.bind((at.host, at.port))
        except OSError as error:
            sock.close()
            raise BadInput(
                f"cannot open UDP {at} for the data of groups: {error.strerror or error}",
                fix="stop the process that has it (ss -lunp shows which), or choose another under [data]",
            ) from None
        self._socket = sock
        self.process.loop.add_reader(sock.fileno(), self._readable, sock)
        where = TcpAddress(at.host, sock.getsockname()[1])
        self.process.record.note("data_channel", address=f"udp {where}")

    def close(self) -> None:
        for sock in self._sockets():
            self.process.loop.remove_reader(sock.fileno())
            sock.close()
        self._between.close()
        self.sets.close()
        self._socket = None
        self._receivers = {}

    def _sockets(self) -> list[socket.socket]:
        one = () if self._socket is None else (self._socket,)
        return [*one, *self._receivers.values(), *self._between.receivers.values()]

    def make_keys(self, cluster: Domain) -> str:
        """For a cluster that is served here. The answer is what other clusters need besides our address."""
        if not self.process.world.data_sealed(cluster):
            return ""
        key, wide_key = secrets.token_bytes(KEY_BYTES), secrets.token_bytes(KEY_BYTES)
        self.core.seal(cluster, key, wide_key)
        return wide_key.hex()

    def serve(self, cluster: Domain) -> None:
        """Reach this LAN as the world file says."""
        world, sock = self.process.world, self._socket
        assert sock is not None, "opened before"
        mode, host = world.data_mode(cluster), world.data_of(cluster).host
        at = TcpAddress(host, sock.getsockname()[1])
        group = (group_address(world.name, cluster), at.port) if is_possible(at) else None
        self.core.serve(
            cluster,
            mode,
            group,
            (at.host, at.port),
            first_probe=secrets.randbits(32),
            why=f"[data] says {mode}",
        )
        if (wide := world.data_between(cluster)) is not None:
            known = set(self._between.receivers.values())
            self._between.open(wide, world.data_of(cluster), world.data_interface(cluster))
            self.core.serve_wide(cluster, (wide.host, wide.port))
            for sock in set(self._between.receivers.values()) - known:
                _enlarge(sock)
                self.process.loop.add_reader(sock.fileno(), self._readable, sock)
            self.note("data_mode", node=cluster, mode=f"multicast {wide}", because="[data] says between")

    def serve_no_longer(self, cluster: Domain) -> None:
        """Another replica is the server of this LAN."""
        self.core.serve_no_longer(cluster)
        self._close_receiver(cluster)

    def _close_receiver(self, lan: Domain) -> None:
        if (sock := self._receivers.pop(lan, None)) is not None:
            self.process.loop.remove_reader(sock.fileno())
            sock.close()

    # From the nodes and their links

    def cast(self, hosted: "HostedNode", order: Cast) -> None:
        self.core.cast(hosted.path, order.group, order.message)

    def transmit(self, hosted: "HostedNode", order: Transmit) -> None:
        self.core.transmit(hosted.path, order.to, order.group, order.message)

    def broadcast(self, hosted: "HostedNode", order: Broadcast) -> None:
        self.core.broadcast(hosted.path, order.to, order.group, order.message)

    def located(self, order: Located) -> None:
        where = order.where
        self.core.located(order.lan, where.at, where.key, where.multicast)

    def entered(self, group: Group) -> None:
        self.core.entered(group)

    def introduce(self, hosted: "HostedNode", peer: Domain, hello: Hello) -> Hello:
        hello = self.core.introduce(hosted.path, peer, hello)
        return self.sets.introduce(hosted.path, peer, hello)

    def met(self, hosted: "HostedNode", hello: Hello) -> Hello:
        self.sets.met(hosted.path, hello)
        return self.core.met(hosted.path, hello)

    def reached(self, hosted: "HostedNode", peer: Domain, at: TcpAddress) -> None:
        """Our agent called its server there: of several replicas, that is the one that leads its LAN."""
        if hosted.is_agent and len(self.process.world.addresses(peer)) > 1:
            self.locate(peer, at)

    # From the network

    def _readable(self, sock: socket.socket) -> None:
        view, is_multicast = memoryview(self._buffer), sock is not self._socket
        for _ in range(READS_PER_TURN_MAX):
            if sock.fileno() < 0:
                return
            try:
                size, sender = sock.recvfrom_into(self._buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # what a peer that is gone sent back
                continue
            if is_multicast and (sender == self._own or self._between.is_own(sender)):
                continue
            self.process.record.counters["datagrams_received", ""] += 1
            self.core.arrived(view[:size], (sender[0], sender[1]), by_multicast=is_multicast)
            self.process.step_inner()
            if self.process.turn_is_long:
                return  # the kernel keeps the rest until the next turn

    # As time passes

    def tick(self) -> None:
        self.core.tick()
        for sock in self._sockets():
            self._count_dropped(sock)

    def _count_dropped(self, sock: socket.socket) -> None:
        """What the kernel dropped for lack of room, by its own count."""
        try:
            dropped = _DROPS.unpack(sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, _DROPS.size))[8]
        except (OSError, struct.error):
            return  # a kernel without such a count
        before = self._dropped.get(sock.fileno(), 0)
        if dropped > before:
            self.process.record.count("datagrams_dropped", by=dropped - before)
            self._dropped[sock.fileno()] = dropped

    def document(self, hosted: "HostedNode") -> dict[str, Any]:
        return self.core.document(hosted.path)

    # The core's codec

    def pack(
        self, group: Group, source: Domain, to: Domain, messages: Iterable[AnyDataMessage], key: bytes
    ) -> Iterator[list[bytes]]:
        bytes_max = min(self.process.fifo_config.datagram_bytes + HEAD_BYTES, DATAGRAM_BYTES_MAX)
        return self._datagrams.pack(group, source, to, messages, bytes_max, key)

    def word(self, group: Group, source: Domain, to: Domain, word: ChannelMessage, key: bytes) -> list[bytes]:
        return self._datagrams.word(group, source, to, word, key)

    def read(self, octets: memoryview, key_of: KeyOf) -> Datagram | Unreadable:
        return self._datagrams.read(octets, key_of)

    # The core's port

    @property
    def now(self) -> float:
        return self.process.now

    @property
    def turn(self) -> int:
        return self.process.turn

    @property
    def agent(self) -> Domain | None:
        agent = self.process.agent
        return None if agent is None else agent.path

    def is_here(self, path: Domain) -> bool:
        return path in self.process.hosted_nodes

    def is_up(self, node: Domain, peer: Domain) -> bool:
        return self.process.hosted_nodes[node].node.is_up(peer)

    def peer_ip(self, node: Domain, peer: Domain) -> str | None:
        channel = self.process.hosted_nodes[node].channels.get(peer)
        return None if channel is None else channel.connection.peer_ip

    def receiving_hosts(self, node: Domain, group: Group) -> set[Domain]:
        return receiving_hosts(self.process.hosted_nodes[node].stack, group)

    def deliver(
        self, node: Domain, group: Group, source: Domain, messages: tuple[AnyDataMessage, ...]
    ) -> None:
        self.process.step_inside(self.process.hosted_nodes[node], heard(group, source, messages))

    def send(self, to: Place, frame: Sequence[bytes | memoryview]) -> None:
        self._send(self._socket, to, frame)

    def send_wide(self, cluster: Domain, to: Place, frame: Sequence[bytes | memoryview]) -> None:
        self._send(self._between.sender(to), to, frame)

    def _send(self, sock: socket.socket | None, to: Place, frame: Sequence[bytes | memoryview]) -> None:
        if sock is None:
            self.count("unknown address")
            return
        try:
            sock.sendmsg(frame, (), 0, to)
        except (
            OSError
        ) as error:  # BlockingIOError: the kernel has no room; others: no process there, no route
            self.count("no room to send" if isinstance(error, BlockingIOError) else "not sendable")
        else:
            self.process.record.counters["datagrams_sent", ""] += 1

    def listen(self, lan: Domain, group: Place, server: Place) -> None:
        assert self._socket is not None
        interface = interface_to(TcpAddress(*server), self.process.world.data_interface(lan))
        self._close_receiver(lan)  # if its server has moved
        try:
            sock = multicast_receiver(*group, interface)
            _enlarge(sock)
            set_multicast_interface(self._socket, interface)
        except OSError as error:
            raise BadInput(
                f"multicast cannot be received at {interface}: {error.strerror or error}",
                fix='write mode = "reflect" under [data], or choose another interface',
            ) from None
        self._receivers[lan] = sock
        self._own = (interface, self._socket.getsockname()[1])
        self.process.loop.add_reader(sock.fileno(), self._readable, sock)

    def open(self) -> None:
        if self._socket is not None or self._at is None:
            return
        try:
            self.open_at(self._at)
        except BadInput as error:  # the next call tries again
            self.note_rarely("data_channel", "data_channel", address="none", because=error.what)

    def flush_at_end_of_turn(self) -> None:
        self.process.write_at_end_of_turn(self)

    def write(self) -> None:
        self.core.flush()

    def locate(self, who: Domain, at: TcpAddress) -> None:
        try:
            ip_address(at.host)
        except ValueError:
            self.process.spawn(self._look_up(who, at))
        else:
            self.core.located_at(who, (at.host, at.port))

    async def _look_up(self, who: Domain, at: TcpAddress) -> None:
        family = _family(self._at) if self._at is not None else socket.AF_INET
        try:
            found = await self.process.loop.getaddrinfo(
                at.host, at.port, family=family, type=socket.SOCK_DGRAM
            )
        except (OSError, UnicodeError):  # also what cannot be asked for
            self.count("unknown address")
            return
        host, port = found[0][4][:2]
        self.core.located_at(who, (str(host), int(port)))

    def call_again(self) -> None:
        self.process.loop.call_later(TRY_S, self._call_again)

    def _call_again(self) -> None:
        if not self.process.is_over and self.process.agent is not None:
            stack = self.process.agent.stack
            self.core.call_again(stack[HOST].any_group or stack[ORDER_AGENT].any_group)

    def count(self, what: str) -> None:
        self.process.record.count("datagrams_ignored", what)

    def note(self, what: str, **values: object) -> None:
        self.process.record.note(what, **values)

    def note_rarely(self, key: str, what: str, **values: object) -> None:
        self.process.record.note_rarely(key, what, **values)
