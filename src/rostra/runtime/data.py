"""The data channel: one UDP socket of a process, for what is said in groups with delivery.

    reflect     host ──▶ its cluster's server ──▶ the other hosts of the LAN that have members
    fanout      host ──▶ each of them, and the server
    multicast   host ──▶ all of them at once, and the server ──▶ those whom multicast does not reach

    server of a cluster ◀──▶ servers of other clusters: each, or all at once (`between.py`)

Everything is expected to be lost now and then: what cannot be sent or believed is counted and forgotten, and
the machines above ask for it again. Nodes in one process need no datagrams at all.

**Where everybody is.** A cluster's server is where the world file says (`[data]`, or the same address as
under `[servers]`), and tells the other clusters with its join. An agent has any free port, and calls its
server when a program of it enters a group, and twice a second as long as one is in it. The answer says how
the LAN is spoken to; that may change at any time, and costs a repair at most (X-107).

**Whom we believe.** A datagram has the tag of its world. A cluster's server makes a key when it starts and
tells it to its hosts in the greeting of their control link; what is said inside the LAN is sealed with it
(`wire/datagrams.py`). A second key seals what it says to other clusters, which learn it with its address. So
who speaks is somebody to whom the control links told the keys, and those are as safe as these links are.
Where they are, and no key was told (`sealed = false`, or a peer of an earlier version), a datagram is
believed by its address: from a host while the control link to it is up and comes from the same IP address,
from a server at the address where it is known to be.
"""

import asyncio
import secrets
import socket
import struct
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from rostra.errors import BadInput
from rostra.names import ROOT, Domain, Group, host_of, parent
from rostra.protocols.fifo.core import ClusterCore, HostCore
from rostra.protocols.fifo.events import Broadcast, Cast, Heard, Located, Transmit
from rostra.protocols.fifo.voice import delegate_host
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Speech
from rostra.protocols.links.packets import Hello
from rostra.runtime.between import Between
from rostra.transport.addresses import TcpAddress, parse_tcp
from rostra.transport.multicast import (
    TRY_S,
    ReachabilityTable,
    group_address,
    interface_to,
    is_possible,
    multicast_receiver,
    set_multicast_interface,
)
from rostra.wire.datagrams import (
    ALL,
    DATAGRAM_BYTES_MAX,
    KEY_BYTES,
    LAN,
    PLACES_MAX,
    WIDE,
    Call,
    Datagram,
    Datagrams,
    Directory,
    Probe,
    Unreadable,
)

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
"""What a datagram may have around its blocks: names of group, speaker and stream."""

LEAVING_S: Final = 1.5
"""So long after its last datagram a host without members is told what is said in a group: it repeats itself
once a second until it knows that everybody has everything."""

LISTENERS_MAX: Final = 1024
"""Groups whose hosts are remembered within a turn."""

SO_SNDBUFFORCE: Final = 32
SO_RCVBUFFORCE: Final = 33
SO_MEMINFO: Final = 55  # Linux's numbers; the module socket does not name them
_DROPS: Final = struct.Struct("9I")

Place = tuple[str, int]  # IP address and port


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
    def __init__(self, process: "Process") -> None:
        self.process = process
        self._datagrams = Datagrams(process.world.name)
        self._socket: socket.socket | None = None
        self._at: TcpAddress | None = None  # where the socket is, or will be when it is needed
        self._buffer = bytearray(DATAGRAM_BYTES_MAX + 1)
        self._places: dict[Domain, Place] = {}
        self._queued: dict[tuple[tuple[Domain, ...], Domain, Group, Domain], list[Speech]] = {}
        self._listeners: dict[tuple[Domain, Group], tuple[int, list[Domain]]] = {}  # and in which turn
        self._leaving: dict[
            tuple[Domain, Group], dict[Domain, float]
        ] = {}  # hosts without members: heard when
        self._dropped: dict[int, int] = {}  # by file number: what the kernel has told of
        self._keys: dict[Domain, bytes] = {}  # of LANs, as their servers told us; our own among them
        self._wide_keys: dict[Domain, bytes] = {}  # of clusters, as they told us; our own among them
        self._ears: dict[Domain, socket.socket] = {}  # by LAN
        self._groups: dict[Domain, Place] = {}  # the multicast group of each
        self._mouth: Place | None = None  # from where we are heard by multicast
        self._between = Between()
        self._audiences: dict[Domain, ReachabilityTable] = {}  # of the clusters served here
        self._modes: dict[Domain, str] = {}  # and how they are spoken to
        self._working: dict[Domain, bool] = {}  # hosts: does multicast work both ways, as was last noted?
        self._probe_due = 0.0
        self._directory: Directory | None = None  # what our agent's server told it
        self._heard = 0  # the last probe of that server
        self._calling: asyncio.TimerHandle | None = None

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
        self.process.loop.add_reader(sock.fileno(), self._readable, sock)
        where = TcpAddress(at.host, sock.getsockname()[1])
        self.process.record.note("data_channel", address=f"udp {where}")

    def close(self) -> None:
        if self._calling is not None:
            self._calling.cancel()
        for sock in (self._socket, *self._ears.values(), *self._between.ears.values()):
            if sock is not None:
                self.process.loop.remove_reader(sock.fileno())
                sock.close()
        self._between.close()
        self._socket = None
        self._ears = {}

    def make_keys(self, cluster: Domain) -> str:
        """For a cluster that is served here. The answer is what other clusters need besides our address."""
        if not self.process.world.data_sealed(cluster):
            return ""
        self._keys[cluster] = secrets.token_bytes(KEY_BYTES)
        self._wide_keys[cluster] = secrets.token_bytes(KEY_BYTES)
        return self._wide_keys[cluster].hex()

    def serve(self, cluster: Domain) -> None:
        """Speak to this LAN as the world file says; where multicast cannot be had, by its server."""
        world, sock = self.process.world, self._socket
        assert sock is not None, "opened before"
        mode = world.data_mode(cluster)
        self._audiences[cluster] = ReachabilityTable(certain=mode == "multicast", first=secrets.randbits(32))
        because = f"[data] says {mode}"
        if mode in ("auto", "multicast"):
            at = TcpAddress(world.data_of(cluster).host, sock.getsockname()[1])
            try:
                if not is_possible(at):
                    raise BadInput("multicast is for IPv4")
                self._listen(cluster, (group_address(world.name, cluster), at.port), at)
                mode = "multicast"
            except BadInput as error:
                if mode == "multicast":
                    raise
                mode, because = "reflect", error.what
        self._modes[cluster] = mode
        self.process.record.note("data_mode", node=cluster, mode=mode, because=because)
        if (group := world.data_between(cluster)) is not None:
            known = set(self._between.ears.values())
            self._between.open(cluster, group, world.data_of(cluster), world.data_interface(cluster))
            for sock in set(self._between.ears.values()) - known:
                _enlarge(sock)
                self.process.loop.add_reader(sock.fileno(), self._readable, sock)
            self.process.record.note(
                "data_mode", node=cluster, mode=f"multicast {group}", because="[data] says between"
            )

    def serve_no_longer(self, cluster: Domain) -> None:
        """Another replica speaks for this LAN."""
        for table in (self._audiences, self._modes, self._groups):
            table.pop(cluster, None)
        if (sock := self._ears.pop(cluster, None)) is not None:
            self.process.loop.remove_reader(sock.fileno())
            sock.close()

    def _listen(self, lan: Domain, group: Place, server: TcpAddress) -> None:
        """From now on hear what is said to this LAN by multicast, and be able to speak so."""
        assert self._socket is not None
        interface = interface_to(server, self.process.world.data_interface(lan))
        if (before := self._ears.pop(lan, None)) is not None:  # its server has moved
            self.process.loop.remove_reader(before.fileno())
            before.close()
        try:
            sock = multicast_receiver(*group, interface)
            _enlarge(sock)
            set_multicast_interface(self._socket, interface)
        except OSError as error:
            raise BadInput(
                f"multicast cannot be heard at {interface}: {error.strerror or error}",
                fix='write mode = "reflect" under [data], or choose another interface',
            ) from None
        self._ears[lan], self._groups[lan] = sock, group
        self._mouth = (interface, self._socket.getsockname()[1])
        self.process.loop.add_reader(sock.fileno(), self._readable, sock)

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
        except (OSError, UnicodeError):  # also what cannot be asked for
            self.process.record.count("datagrams_ignored", "unknown address")
            return
        host, port = found[0][4][:2]
        self._places[who] = (str(host), int(port))

    # Keys

    def introduce(self, hosted: "HostedNode", peer: Domain, hello: Hello) -> Hello:
        """Our greeting to a neighbour: a host of our LAN learns its key from it."""
        key = self._keys.get(hosted.path, b"")
        if hosted.is_agent or not key or peer == ROOT or parent(peer) != hosted.path:
            return hello
        return replace(hello, key=key)

    def met(self, hosted: "HostedNode", hello: Hello) -> Hello:
        """A neighbour's greeting, without the key that may be in it."""
        if hosted.is_agent and hello.path == parent(hosted.path):
            self._keys[hello.path] = hello.key
        return replace(hello, key=b"") if hello.key else hello

    def reached(self, hosted: "HostedNode", peer: Domain, at: TcpAddress) -> None:
        """Our agent called its server there: of several replicas, that is the one that speaks for its LAN."""
        if hosted.is_agent and len(self.process.world.addresses(peer)) > 1:
            self.locate(peer, at)

    def _key(self, source: Domain, to: Domain) -> bytes:
        """What seals what this speaker says to those."""
        if source != ROOT and (key := self._keys.get(parent(source))):
            return key
        if to in (LAN, ALL) or (to != ROOT and parent(to) == source):
            return self._keys.get(source, b"")
        return self._wide_keys.get(source, b"")

    # From the nodes

    def cast(self, hosted: "HostedNode", order: Cast) -> None:
        """To the whole LAN, in its mode."""
        group, message, path = order.group, order.message, hosted.path
        if not hosted.is_agent:
            agent = self._own_agent(hosted, group)
            if agent is not None:
                self.process.step_inside(agent, Heard(group, path, (message,)))
            self._spread(hosted, path, group, (message,))
            return
        lan = parent(path)
        server = self.process.hosted_nodes.get(lan)
        if server is not None:
            self._take(server, Datagram(group, path, LAN, (message,)), None)
            return
        told = self._directory
        if told is not None and told.mode == "multicast" and told.audible and lan in self._ears:
            self._queue((ALL,), path, group, ALL, message)
        elif (
            told is not None
            and told.mode == "fanout"
            and all(other in self._places for other in self._others(hosted, group))
        ):
            self._queue((lan, *self._others(hosted, group)), path, group, ALL, message)
        else:  # the server knows where everybody is
            self._queue((lan,), path, group, LAN, message)

    def transmit(self, hosted: "HostedNode", order: Transmit) -> None:
        via = parent(hosted.path) if hosted.is_agent else order.to
        neighbour = self.process.hosted_nodes.get(via)
        if neighbour is not None:
            self._take(neighbour, Datagram(order.group, hosted.path, order.to, (order.message,)), None)
        else:
            self._queue((via,), hosted.path, order.group, order.to, order.message)

    def broadcast(self, hosted: "HostedNode", order: Broadcast) -> None:
        """To servers of other clusters: once to those who hear it, and to each of the others."""
        far = [lan for lan in order.to if lan not in self.process.hosted_nodes]
        at_once = self._between.reached(hosted.path, far)
        if len(at_once) > 1:
            self._queue((WIDE,), hosted.path, order.group, WIDE, order.message)
        else:
            at_once = []
        for lan in order.to:
            if lan not in at_once:
                self.transmit(hosted, Transmit(lan, order.group, order.message))

    def located(self, order: Located) -> None:
        where = order.where
        self.locate(order.lan, where.at)
        self._wide_keys[order.lan] = where.key
        self._between.told(order.lan, where.multicast)

    def _spread(self, server: "HostedNode", source: Domain, group: Group, messages: Iterable[Speech]) -> None:
        """From here to every host of the LAN that has members, but the speaker's."""
        by_multicast, each = self._ways(server, group, source)
        for message in messages:
            if by_multicast:
                self._queue((ALL,), source, group, ALL, message)
            if each:
                self._queue(each, source, group, LAN, message)

    def _ways(self, server: "HostedNode", group: Group, source: Domain) -> tuple[bool, tuple[Domain, ...]]:
        """Whether to say it by multicast, and to whom else, of those who are not in this process."""
        lan = server.path
        far = [h for h in self._hosts(server, group) if h != source and h not in self.process.hosted_nodes]
        if lan not in self._ears:
            return False, tuple(far)
        deaf = [host for host in far if not self._audiences[lan].hears(host)]
        if len(far) - len(deaf) < 2:
            return False, tuple(far)
        return True, tuple(deaf)

    def _queue(
        self, via: tuple[Domain, ...], source: Domain, group: Group, to: Domain, message: Speech
    ) -> None:
        if not self._queued:
            self.process.write_at_end_of_turn(self)
        self._queued.setdefault((via, source, group, to), []).append(message)

    def write(self) -> None:
        """The turn is over: fill datagrams."""
        queued, self._queued = self._queued, {}
        bytes_max = min(self.process.adhoc.datagram_bytes + HEAD_BYTES, DATAGRAM_BYTES_MAX)
        for (via, source, group, to), messages in queued.items():
            key = self._key(source, to)
            for datagram in self._datagrams.pack(group, source, to, messages, bytes_max, key):
                for each in via:
                    self._send(each, source, datagram)

    def _send(self, via: Domain, source: Domain, datagram: Sequence[bytes | memoryview]) -> None:
        sock, place = self._socket, self._places.get(via)
        if via == WIDE:
            sock, place = self._between.mouth(source)
        elif via == ALL:
            place = self._groups.get(source) or (None if source == ROOT else self._groups.get(parent(source)))
        if sock is None or place is None:
            self.process.record.count("datagrams_ignored", "unknown address")
            return
        try:
            sock.sendmsg(datagram, (), 0, place)
        except OSError as error:  # BlockingIOError: the kernel has no room; others: nobody there, no route
            why = "no room to send" if isinstance(error, BlockingIOError) else "not sendable"
            self.process.record.count("datagrams_ignored", why)
        else:
            self.process.record.counters["datagrams_sent", ""] += 1

    # Where hosts are, and how their LAN is spoken to

    def entered(self, hosted: "HostedNode", group: Group) -> None:
        """A program enters a group: its cluster's server needs to know where we are."""
        self._call(hosted, group)
        if self._calling is None:
            self._calling = self.process.loop.call_later(TRY_S, self._call_again, hosted)

    def _call_again(self, hosted: "HostedNode") -> None:
        self._calling = None
        core = hosted.node.core
        assert isinstance(core, HostCore)
        for group in (*core.members, *core.submitters):  # one is as good as all of them
            self._call(hosted, group)
            self._calling = self.process.loop.call_later(TRY_S, self._call_again, hosted)
            break

    def _call(self, hosted: "HostedNode", group: Group) -> None:
        """To our server alone; and to the LAN, where we may listen, because it may be heard."""
        lan, path = parent(hosted.path), hosted.path
        if lan in self.process.hosted_nodes:
            return
        if self._socket is None and self._at is not None:
            self._try_to_open(self._at)
        for via, to in ((lan, lan), (ALL, ALL))[: 1 + (lan in self._ears)]:
            call = self._datagrams.word(group, path, to, Call(self._heard), self._key(path, to))
            self._send(via, path, call)

    def _try_to_open(self, at: TcpAddress) -> None:
        try:
            self.open(at)
        except BadInput as error:  # the next call tries again
            self.process.record.note_rarely(
                "data_channel", "data_channel", address="none", because=error.what
            )

    def _called(self, server: "HostedNode", datagram: Datagram, call: Call, *, by_multicast: bool) -> None:
        lan, host = server.path, datagram.source
        audience = self._audiences.get(lan)
        if audience is None:
            return
        news = audience.called(host, call.heard, by_multicast=by_multicast)
        self._answer(lan, host, datagram.group)
        if by_multicast and not audience.hears(host):
            self._probe(lan, datagram.group)  # it listens by now
        if news and self._modes[lan] == "fanout":
            for other in audience.hosts:
                self._answer(lan, other, datagram.group)

    def _answer(self, lan: Domain, host: Domain, group: Group) -> None:
        mode, audience = self._modes[lan], self._audiences[lan]
        multicast = str(TcpAddress(*self._groups[lan])) if lan in self._groups else ""
        others = [] if mode != "fanout" else [h for h in audience.hosts if h != host and h in self._places]
        for first in range(0, max(1, len(others)), PLACES_MAX):
            hosts = tuple([(h, *self._places[h]) for h in others[first : first + PLACES_MAX]])
            directory = Directory(mode, multicast, bool(multicast) and audience.is_heard(host), hosts)
            self._send(host, lan, self._datagrams.word(group, lan, host, directory, self._key(lan, host)))

    def _probe(self, lan: Domain, group: Group) -> None:
        probe = Probe(self._audiences[lan].probe)
        self._send(ALL, lan, self._datagrams.word(group, lan, ALL, probe, self._key(lan, ALL)))

    def _told(self, agent: "HostedNode", group: Group, directory: Directory) -> None:
        """Our server says how to speak in this LAN."""
        lan, before = parent(agent.path), self._directory
        where = parse_tcp(directory.multicast) if directory.multicast else None
        if where is not None and self._groups.get(lan) != (where.host, where.port):
            try:
                self._listen(lan, (where.host, where.port), TcpAddress(*self._places[lan]))
            except BadInput as error:
                self.process.record.note_rarely("data_mode", "data_mode", mode="reflect", because=error.what)
            else:
                self._call(agent, group)
        for host, address, port in directory.hosts:
            if parent(host) == lan:
                self._places[host] = (address, port)
        self._directory = directory
        mode = _in_effect(directory)
        if before is None or _in_effect(before) != mode:
            self.process.record.note("data_mode", node=agent.path, mode=mode, because=f"{lan} says so")

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
            if is_multicast and (sender == self._mouth or self._between.is_own(sender)):
                continue  # our own
            self.process.record.counters["datagrams_received", ""] += 1
            self._arrived(view[:size], (sender[0], sender[1]), by_multicast=is_multicast)

    def _arrived(self, octets: memoryview, sender: Place, *, by_multicast: bool) -> None:
        datagram = self._datagrams.read(octets, self._key)
        if isinstance(datagram, Unreadable):
            self.process.record.count("datagrams_ignored", datagram.why)
            return
        if datagram.to == WIDE:
            self._take_wide(datagram, sender)
            return
        hosted = self._whose(datagram)
        if hosted is not None and hosted.is_agent and isinstance(datagram.word, Call):
            return  # another host, to our server
        if hosted is None:
            self.process.record.count("datagrams_ignored", "not for us")
        elif not self._believes(hosted, datagram, sender):
            self.process.record.count("datagrams_ignored", "a stranger")
        else:
            word = datagram.word
            if word is None:
                self._take(hosted, datagram, octets)
            elif hosted.is_agent:
                if isinstance(word, Directory):
                    self._told(hosted, datagram.group, word)
                elif isinstance(word, Probe):
                    first, self._heard = self._heard == 0, word.number
                    if first:
                        self._call(hosted, datagram.group)
            elif isinstance(word, Call):
                if not by_multicast:
                    self._places[datagram.source] = sender
                self._called(hosted, datagram, word, by_multicast=by_multicast)

    def _take_wide(self, datagram: Datagram, sender: Place) -> None:
        """For every cluster that is served here and listens where the speaker speaks."""
        heard = [each for each in self._modes if each in self._between.groups and each != datagram.source]
        for cluster in heard if datagram.word is None and datagram.messages else ():
            hosted = self.process.hosted_nodes[cluster]
            if self._believes(hosted, datagram, sender):
                self.process.step_inside(hosted, Heard(datagram.group, datagram.source, datagram.messages))
            else:
                self.process.record.count("datagrams_ignored", "a stranger")

    def _whose(self, datagram: Datagram) -> "HostedNode | None":
        """The server of the speaker's LAN; of whoever is spoken to; or the agent of a host in that LAN."""
        hosted_nodes = self.process.hosted_nodes
        source, to = datagram.source, datagram.to
        if source in hosted_nodes:
            return None
        # Only clusters speak: a server above them is in `hosted_nodes` too, and is nobody's LAN.
        if source != ROOT and parent(source) in self._modes:
            return hosted_nodes[parent(source)]
        if to in self._modes:
            return hosted_nodes[to]
        agent = self.process.agent
        if agent is None or to not in (LAN, ALL, agent.path):
            return None
        lan = parent(agent.path)
        return agent if source == lan or parent(source) == lan else None

    def _believes(self, hosted: "HostedNode", datagram: Datagram, sender: Place) -> bool:
        """Its seal is right, if it needs one. But where somebody is, is only told from there: an old call
        that is said again from elsewhere must not lead a stream astray."""
        source = datagram.source
        sealed = bool(self._key(source, datagram.to)) and not isinstance(datagram.word, Call | Directory)
        if hosted.is_agent:
            lan = parent(hosted.path)
            if not hosted.node.is_up(lan) or (datagram.word is not None and source != lan):
                return False  # how the LAN is spoken to, its server says, and no host
            return sealed or sender in (self._places.get(lan), self._places.get(source))
        if parent(source) != hosted.path:
            return sealed or self._places.get(source) == sender
        channel = hosted.channels.get(source)
        if channel is None or not hosted.node.is_up(source):
            return False
        return sealed or channel.connection.peer_ip == sender[0]

    def _take(self, hosted: "HostedNode", datagram: Datagram, octets: memoryview | None) -> None:
        """One of our nodes gets this; as the server of the speaker's LAN it passes it on, too."""
        group, source, to = datagram.group, datagram.source, datagram.to
        if not datagram.messages:
            return
        if not hosted.is_agent and parent(source) == hosted.path:
            if to in (LAN, ALL) and source not in self._hosts(hosted, group):
                self._leaving.setdefault((hosted.path, group), {})[source] = self.process.now
            if to != hosted.path:
                self._pass_on(hosted, datagram, octets)
        if hosted.is_agent or to in (LAN, ALL, hosted.path):
            self.process.step_inside(hosted, Heard(group, source, datagram.messages))

    def _pass_on(self, server: "HostedNode", datagram: Datagram, octets: memoryview | None) -> None:
        group, source, to = datagram.group, datagram.source, datagram.to
        everybody = to in (LAN, ALL)
        agent = self._own_agent(server, group)
        if agent is not None and agent.path != source and (everybody or to == agent.path):
            self.process.step_inside(agent, Heard(group, source, datagram.messages))
        if not everybody:
            if to in self.process.hosted_nodes:
                return
            if parent(to) != server.path:
                self.process.record.count("datagrams_ignored", "not for us")
            elif octets is not None:
                self._send(to, source, [octets])
            else:
                for message in datagram.messages:
                    self._queue((to,), source, group, to, message)
            return
        if octets is None:
            self._spread(server, source, group, datagram.messages)
            return
        by_multicast, each = self._ways(server, group, source)
        if to == ALL:  # whom multicast reaches, it has reached
            each = tuple([h for h in each if not self._audiences[server.path].hears(h)])
            by_multicast = False
            if self._modes[server.path] == "fanout":
                return
        if by_multicast:
            self._send(ALL, source, [octets])
        for host in each:
            self._send(host, source, [octets])

    def _own_agent(self, server: "HostedNode", group: Group) -> "HostedNode | None":
        """The agent of this process, if it is of this server's LAN and has members in the group."""
        agent = self.process.agent
        return agent if agent is not None and agent.path in self._hosts(server, group) else None

    def _hosts(self, server: "HostedNode", group: Group) -> list[Domain]:
        """The hosts of a server's LAN that have members in the group, found out once in a turn; and those
        whose members have left a moment ago, who wait to hear that everybody has their last words."""
        turn, hosts = self._listeners.get((server.path, group), (0, []))
        if turn != self.process.turn:
            core: Any = server.node.core
            delegate = core.groups.get(group) if isinstance(core, ClusterCore) else None
            among = {host_of(each) for each in delegate.locals} if delegate is not None else set()
            among.discard(delegate_host(server.path))  # the aggregate is in this very process
            hosts = sorted(among.union(self._leaving.get((server.path, group), ())))
            self._remember(server, group, hosts)
        return hosts

    def _others(self, agent: "HostedNode", group: Group) -> list[Domain]:
        """The same as an agent knows it, without itself."""
        turn, hosts = self._listeners.get((agent.path, group), (0, []))
        if turn != self.process.turn:
            core, lan = agent.node.core, parent(agent.path)
            assert isinstance(core, HostCore)
            views = [member.view.members for member in core.members.get(group, {}).values()]
            among = {host_of(each.endpoint) for members in views for each in members}
            among -= {agent.path, delegate_host(lan)}
            hosts = sorted(host for host in among if parent(host) == lan)
            self._remember(agent, group, hosts)
        return hosts

    def _remember(self, hosted: "HostedNode", group: Group, hosts: list[Domain]) -> None:
        if len(self._listeners) >= LISTENERS_MAX:
            self._listeners.clear()
        self._listeners[hosted.path, group] = (self.process.turn, hosts)

    # As time passes

    def tick(self) -> None:
        for where, hosts in list(self._leaving.items()):
            for gone in [h for h, heard in hosts.items() if self.process.now - heard > LEAVING_S]:
                del hosts[gone]
            if not hosts:
                del self._leaving[where]
        for sock in (self._socket, *self._ears.values(), *self._between.ears.values()):
            if sock is not None:
                self._count_dropped(sock)
        if self._ears and self.process.now >= self._probe_due:
            self._probe_due = self.process.now + TRY_S
            for lan, audience in self._audiences.items():
                if lan in self._ears and audience.hosts:
                    audience.next_probe()
                    self._probe(lan, Group("rostra.probe", lan))
                    self._note_who_hears(lan, audience)

    def _note_who_hears(self, lan: Domain, audience: ReachabilityTable) -> None:
        """Once for each change, and when it is certain."""
        for host in audience.hosts:
            works = audience.hears(host) and audience.is_heard(host)
            if works is not self._working.get(host) and (works or audience.was_tried(host)):
                self._working[host] = works
                because = f"hears it: {_yes(audience.hears(host))}, heard: {_yes(audience.is_heard(host))}"
                if works:
                    self.process.record.note("multicast_works", node=lan, host=host, because=because)
                else:
                    self.process.record.note("multicast_fails", node=lan, host=host, because=because)
        for gone in [host for host in self._working if host not in audience.hosts and parent(host) == lan]:
            del self._working[gone]

    def _count_dropped(self, sock: socket.socket) -> None:
        """What the kernel had no room for, as it tells."""
        try:
            dropped = _DROPS.unpack(sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, _DROPS.size))[8]
        except (OSError, struct.error):
            return  # a kernel that does not tell
        before = self._dropped.get(sock.fileno(), 0)
        if dropped > before:
            self.process.record.count("datagrams_dropped", by=dropped - before)
            self._dropped[sock.fileno()] = dropped

    def document(self, hosted: "HostedNode") -> dict[str, Any]:
        """How this node's data travels, for `inspect`."""
        if hosted.is_agent:
            told = self._directory
            return {"mode": None if told is None else _in_effect(told), "sealed": self._is_sealed(hosted)}
        audience = self._audiences.get(hosted.path)
        if audience is None:
            return {}
        return {
            "mode": self._modes[hosted.path],
            "between": str(self.process.world.data_between(hosted.path) or "tree"),
            "sealed": self._is_sealed(hosted),
            "hosts": {
                host: {"hears_multicast": audience.hears(host), "is_heard": audience.is_heard(host)}
                for host in audience.hosts
                if hosted.path in self._ears
            },
        }

    def _is_sealed(self, hosted: "HostedNode") -> bool:
        return bool(self._keys.get(parent(hosted.path) if hosted.is_agent else hosted.path))


def _in_effect(directory: Directory) -> str:
    """An agent that is not heard by multicast says everything to its server."""
    return "reflect" if directory.mode == "multicast" and not directory.audible else directory.mode


def _yes(answer: bool) -> str:
    return "yes" if answer else "no"
