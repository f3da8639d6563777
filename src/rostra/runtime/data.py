"""The data channel: one UDP socket of a process, for what is said in groups with delivery.

    host's agent ── datagrams ──▶ its cluster's server ──▶ the other hosts of the LAN that have members
                                        │    ▲                  (the server reflects: Xpand's emulator)
                                        ▼    │
                                  other clusters' servers

Everything is expected to be lost now and then: what cannot be sent or believed is counted and forgotten, and
the machines above ask for it again. Nodes in one process need no datagrams at all.

**Where everybody is.** A cluster's server is where the world file says (`[data]`, or the same address as
under `[servers]`), and tells the other clusters with its join. An agent has any free port, and says so in an
empty datagram when a program of it enters a group, and every second as long as one is in it.

**Whom we believe.** A datagram has the tag of its world. From a host, a server believes it while the control
link to that host is up and comes from the same IP address; an agent believes its own cluster's server, and a
server other clusters' servers, at the addresses where they are known to be. There is no secret in a datagram:
who can forge IP addresses in your network can forge these.
"""

import asyncio
import socket
import struct
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from rostra.errors import BadInput
from rostra.names import ROOT, Domain, Group, host_of, parent
from rostra.protocols.adhoc.config import AdhocConfig
from rostra.protocols.adhoc.core import ClusterCore, HostCore
from rostra.protocols.adhoc.events import Cast, Heard, Located, Transmit
from rostra.protocols.adhoc.messages import Speech
from rostra.runtime.addresses import TcpAddress, parse_tcp
from rostra.wire.datagrams import DATAGRAM_BYTES_MAX, LAN, Datagram, Datagrams, Unreadable

if TYPE_CHECKING:
    from rostra.runtime.process import Process, Resident

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

HELLO_S: Final = 1.0
"""How often an agent with members says where it is."""

HEAD_BYTES: Final = 320
"""What a datagram may have around its blocks: names of group, speaker and stream."""

LISTENERS_MAX: Final = 1024
"""Groups whose hosts are remembered within a turn."""

SO_SNDBUFFORCE: Final = 32
SO_RCVBUFFORCE: Final = 33
SO_MEMINFO: Final = 55  # Linux's numbers; the module socket does not name them
_DROPS: Final = struct.Struct("9I")

Place = tuple[str, int]  # IP address and port


def fitted(config: AdhocConfig) -> AdhocConfig:
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
    def __init__(self, process: "Process") -> None:
        self.process = process
        self._datagrams = Datagrams(process.world.name)
        self._socket: socket.socket | None = None
        self._at: TcpAddress | None = None  # where the socket is, or will be when it is needed
        self._buffer = bytearray(DATAGRAM_BYTES_MAX + 1)
        self._places: dict[Domain, Place] = {}
        self._queued: dict[tuple[Domain, Domain, Group, Domain], list[Speech]] = {}  # via, source, group, to
        self._listeners: dict[tuple[Domain, Group], tuple[int, list[Domain]]] = {}  # and in which turn
        self._dropped = 0
        self._hello: asyncio.TimerHandle | None = None

    # Beginning and end

    def open_when_needed(self, at: TcpAddress) -> None:
        """An agent's: membership alone opens no data sockets (C-055); the first program that speaks does."""
        self._at = at

    def open(self, at: TcpAddress) -> None:
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
        self.process.loop.add_reader(sock.fileno(), self._readable)
        where = TcpAddress(at.host, sock.getsockname()[1])
        self.process.record.note("data_channel", address=f"udp {where}")

    def close(self) -> None:
        if self._hello is not None:
            self._hello.cancel()
        if self._socket is not None:
            self.process.loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def locate(self, who: Domain, address: TcpAddress) -> None:
        """From now on this cluster's server is there."""
        try:
            ip_address(address.host)
        except ValueError:
            self.process.spawn(self._look_up(who, address))
        else:
            self._places[who] = (address.host, address.port)

    async def _look_up(self, who: Domain, address: TcpAddress) -> None:
        family = _family(self._at) if self._at is not None else socket.AF_INET
        try:
            found = await self.process.loop.getaddrinfo(
                address.host, address.port, family=family, type=socket.SOCK_DGRAM
            )
        except OSError:
            self.process.record.count("datagrams_ignored", "unknown address")
            return
        host, port = found[0][4][:2]
        self._places[who] = (str(host), int(port))

    # From the nodes

    def cast(self, resident: "Resident", order: Cast) -> None:
        """To the whole LAN: an agent says it to its server, who reflects it; a server to every host."""
        if resident.is_agent:
            self._say(resident, parent(resident.path), order.group, LAN, order.message)
        else:
            for host in self._hosts(resident, order.group):
                self._say(resident, host, order.group, LAN, order.message)

    def transmit(self, resident: "Resident", order: Transmit) -> None:
        via = parent(resident.path) if resident.is_agent else order.to
        self._say(resident, via, order.group, order.to, order.message)

    def located(self, order: Located) -> None:
        if order.address:
            self.locate(order.lan, parse_tcp(order.address))

    def entered(self, resident: "Resident", group: Group) -> None:
        """A program enters a group: its cluster's server needs to know where we are."""
        self._say_hello(resident, group)
        if self._hello is None:
            self._hello = self.process.loop.call_later(HELLO_S, self._hello_again, resident)

    def _hello_again(self, resident: "Resident") -> None:
        self._hello = None
        core = resident.node.core
        assert isinstance(core, HostCore)
        for group in core.members:  # one is as good as all of them
            self._say_hello(resident, group)
            self._hello = self.process.loop.call_later(HELLO_S, self._hello_again, resident)
            break

    def _say_hello(self, resident: "Resident", group: Group) -> None:
        server = parent(resident.path)
        if server not in self.process.residents:
            if self._socket is None and self._at is not None:
                self._try_to_open(self._at)
            self._send(server, [self._datagrams.hello(group, resident.path, server)])

    def _try_to_open(self, at: TcpAddress) -> None:
        try:
            self.open(at)
        except BadInput as error:  # the next hello tries again
            self.process.record.note_rarely(
                "data_channel", "data_channel", address="none", because=error.what
            )

    def _say(self, resident: "Resident", via: Domain, group: Group, to: Domain, message: Speech) -> None:
        neighbour = self.process.residents.get(via)
        if neighbour is not None:
            self._take(neighbour, Datagram(group, resident.path, to, (message,)), None)
            return
        if not self._queued:
            self.process.write_at_end_of_turn(self)
        self._queued.setdefault((via, resident.path, group, to), []).append(message)

    def write(self) -> None:
        """The turn is over: fill datagrams."""
        queued, self._queued = self._queued, {}
        bytes_max = min(self.process.adhoc.datagram_bytes + HEAD_BYTES, DATAGRAM_BYTES_MAX)
        for (via, source, group, to), messages in queued.items():
            for datagram in self._datagrams.pack(group, source, to, messages, bytes_max):
                self._send(via, datagram)

    def _send(self, via: Domain, datagram: Sequence[bytes | memoryview]) -> None:
        place = self._places.get(via)
        if self._socket is None or place is None:
            self.process.record.count("datagrams_ignored", "unknown address")
            return
        try:
            self._socket.sendmsg(datagram, (), 0, place)
        except OSError as error:  # BlockingIOError: the kernel has no room; others: nobody there, no route
            why = "no room to send" if isinstance(error, BlockingIOError) else "not sendable"
            self.process.record.count("datagrams_ignored", why)
        else:
            self.process.record.counters["datagrams_sent", ""] += 1

    # From the network

    def _readable(self) -> None:
        sock, view = self._socket, memoryview(self._buffer)
        for _ in range(READS_PER_TURN_MAX):
            if sock is None or sock is not self._socket:
                return
            try:
                size, sender = sock.recvfrom_into(self._buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # what a peer that is gone sent back
                continue
            self.process.record.counters["datagrams_received", ""] += 1
            self._arrived(view[:size], (sender[0], sender[1]))

    def _arrived(self, octets: memoryview, sender: Place) -> None:
        datagram = self._datagrams.read(octets)
        if isinstance(datagram, Unreadable):
            self.process.record.count("datagrams_ignored", datagram.why)
            return
        resident = self._whose(datagram)
        if resident is None:
            self.process.record.count("datagrams_ignored", "not for us")
        elif not self._believes(resident, datagram.source, sender):
            self.process.record.count("datagrams_ignored", "a stranger")
        else:
            if not resident.is_agent and parent(datagram.source) == resident.path:
                self._places[datagram.source] = sender
            self._take(resident, datagram, octets)

    def _whose(self, datagram: Datagram) -> "Resident | None":
        """The server of the speaker's LAN; of whoever is spoken to; or the agent of a host in that LAN."""
        residents = self.process.residents
        source, to = datagram.source, datagram.to
        home = residents.get(parent(source)) if source != ROOT else None
        if home is not None and not home.is_agent:
            return home
        spoken_to = residents.get(to)
        if spoken_to is not None and not spoken_to.is_agent:
            return spoken_to
        agent = self.process.agent
        if agent is None or agent.path == source or to not in (LAN, agent.path):
            return None
        lan = parent(agent.path)
        return agent if source == lan or parent(source) == lan else None

    def _believes(self, resident: "Resident", source: Domain, sender: Place) -> bool:
        if resident.is_agent:
            lan = parent(resident.path)
            return self._places.get(lan) == sender and resident.node.is_up(lan)
        if parent(source) != resident.path:
            return self._places.get(source) == sender
        channel = resident.channels.get(source)
        return channel is not None and resident.node.is_up(source) and channel.connection.peer_ip == sender[0]

    def _take(self, resident: "Resident", datagram: Datagram, octets: memoryview | None) -> None:
        """One of our nodes gets this; as the server of the speaker's LAN it reflects it, too."""
        group, source, to = datagram.group, datagram.source, datagram.to
        if not datagram.messages:
            return
        if not resident.is_agent and parent(source) == resident.path:
            for host in self._hosts(resident, group) if to == LAN else [to]:
                if host not in (source, resident.path):
                    self._reflect(resident, host, datagram, octets)
        if resident.is_agent or to in (LAN, resident.path):
            self.process.step_inside(resident, Heard(group, source, datagram.messages))

    def _reflect(
        self, resident: "Resident", host: Domain, datagram: Datagram, octets: memoryview | None
    ) -> None:
        agent = self.process.residents.get(host)
        if agent is not None:
            self.process.step_inside(agent, Heard(datagram.group, datagram.source, datagram.messages))
        elif parent(host) != resident.path:
            self.process.record.count("datagrams_ignored", "not for us")
        elif octets is not None:
            self._send(host, [octets])
        else:
            for piece in self._datagrams.pack(
                datagram.group, datagram.source, datagram.to, datagram.messages, DATAGRAM_BYTES_MAX
            ):
                self._send(host, piece)

    def _hosts(self, server: "Resident", group: Group) -> list[Domain]:
        """The hosts of a server's LAN that have members in the group, found out once in a turn."""
        turn, hosts = self._listeners.get((server.path, group), (0, []))
        if turn != self.process.turn:
            core: Any = server.node.core
            delegate = core.groups.get(group) if isinstance(core, ClusterCore) else None
            hosts = sorted({host_of(each) for each in delegate.locals}) if delegate is not None else []
            if turn == 0 and len(self._listeners) >= LISTENERS_MAX:
                self._listeners.clear()
            self._listeners[server.path, group] = (self.process.turn, hosts)
        return hosts

    # As time passes

    def tick(self) -> None:
        """What the kernel had no room for, as it tells."""
        if self._socket is None:
            return
        try:
            dropped = _DROPS.unpack(self._socket.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, _DROPS.size))[8]
        except (OSError, struct.error):
            return  # a kernel that does not tell
        if dropped > self._dropped:
            self.process.record.count("datagrams_dropped", by=dropped - self._dropped)
            self._dropped = dropped
