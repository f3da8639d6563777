"""The sockets of sets that have addresses (`protocols/agreed/casting.py`): UDP, beside the links of servers.

A server has one socket for each such set, from which it sends; at a repeater it is where the world file says.
A server that multicast reaches has one more, to receive what is sent to the set's address.

**Authentication.** A server makes a key for each such set when it opens these sockets, and sends it to the
other servers of the set in the handshake of their links. Every frame is sealed with its origin's key. So the
keys are as safe as the links. All servers of a set know all keys of it: one that lies can speak for another.
"""

import contextlib
import secrets
import socket
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from rostra.errors import BadInput
from rostra.names import ROOT, Domain, parent
from rostra.protocols.agreed.casting import FrameHeard, SendSetFrame, addresses_of
from rostra.protocols.agreed.config import SetAddress
from rostra.protocols.channel.messages import KEY_BYTES, Unreadable
from rostra.protocols.links.packets import Hello
from rostra.runtime.between import TIME_TO_LIVE
from rostra.transport.multicast import interface_to, multicast_receiver, set_multicast_interface
from rostra.wire.datagrams import DATAGRAM_BYTES_MAX, SetFrames

if TYPE_CHECKING:
    from rostra.runtime.process import HostedNode, Process

READS_PER_TURN_MAX: Final = 32
"""Frames that one turn takes in from one socket."""

SetOf = tuple[Domain, Domain]
"""A set, and a server in it."""


class SetSockets:
    def __init__(self, process: "Process") -> None:
        self._process = process
        self._frames = SetFrames(process.world.name)
        self._keys: dict[SetOf, bytes] = {}  # our own, and those of others as they sent them
        self._senders: dict[SetOf, socket.socket] = {}
        self._receivers: dict[SetOf, socket.socket] = {}
        self._addresses: dict[SetOf, SetAddress] = {}

    def open(self, server: Domain) -> None:
        """A server starts in this process: open the sockets of its sets."""
        world = self._process.world
        for address in addresses_of(server, world.sets, cluster=world.is_cluster(server)):
            self._open((address.set, server), address)

    def _open(self, who: SetOf, address: SetAddress) -> None:
        world, (name, server) = self._process.world, who
        place = next((each.place for each in address.repeaters if each.server == server), ("0.0.0.0", 0))
        sock = self._senders[who] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._addresses[who] = address
        try:
            sock.setblocking(False)
            if address.multicast is not None and address.reaches(server):
                leaves_by = interface_to(world.servers[server], world.data_interface(server))
                set_multicast_interface(sock, leaves_by, TIME_TO_LIVE)
                place = place if place[1] else (leaves_by, 0)
                self._receivers[who] = multicast_receiver(*address.multicast, leaves_by)
            sock.bind(place)
        except OSError as error:
            self.close(server)
            raise BadInput(
                f"[sets] {name}: {server} cannot open its sockets: {error.strerror or error}",
                fix="choose other addresses, or name it under unicast if multicast does not reach it",
            ) from None
        self._keys[who] = secrets.token_bytes(KEY_BYTES)
        for each in (sock, self._receivers.get(who)):
            if each is not None:
                self._process.loop.add_reader(each.fileno(), self._readable, who, each)
        ways = [f"udp {place[0]}:{sock.getsockname()[1]}"]
        if who in self._receivers:
            ways.append("multicast {}:{}".format(*address.multicast or ()))
        self._process.record.note("set_channel", node=server, set=name, address=", ".join(ways))

    def close(self, server: Domain | None = None) -> None:
        """Close the sockets of one server, or of all."""
        for sockets in (self._senders, self._receivers):
            for who in [each for each in sockets if server in (None, each[1])]:
                sock = sockets.pop(who)
                with contextlib.suppress(ValueError, OSError):
                    self._process.loop.remove_reader(sock.fileno())
                sock.close()

    # Keys

    def introduce(self, node: Domain, peer: Domain, hello: Hello) -> Hello:
        """Our greeting to another server of one of our sets: it learns our key from it."""
        key = self._keys.get((_set_of(node, peer), node), b"")
        return replace(hello, key=key) if key and not hello.key else hello

    def met(self, node: Domain, hello: Hello) -> None:
        """Another server's greeting."""
        name = _set_of(node, hello.path)
        if hello.key and (name, node) in self._addresses:
            self._keys[name, hello.path] = hello.key

    # Frames

    def cast(self, hosted: "HostedNode", order: SendSetFrame) -> None:
        who = (order.frame.set, hosted.path)
        key = self._keys.get((order.frame.set, order.frame.origin))
        sock, address = self._senders.get(who), self._addresses.get(who)
        if sock is None or address is None or not key:
            self._ignored("unknown address")
            return
        octets = self._frames.pack(order.frame, key)
        group = (address.multicast,) if order.multicast and address.multicast is not None else ()
        for place in (*group, *order.places):
            try:
                sock.sendto(octets, place)
            except OSError as error:
                self._ignored("no room to send" if isinstance(error, BlockingIOError) else "not sendable")
            else:
                self._process.record.counters["datagrams_sent", ""] += 1

    def _readable(self, who: SetOf, sock: socket.socket) -> None:
        hosted = self._process.hosted_nodes.get(who[1])
        for _ in range(READS_PER_TURN_MAX):
            if sock.fileno() < 0:
                return
            try:
                octets, sender = sock.recvfrom(DATAGRAM_BYTES_MAX)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # what a peer that is gone sent back
                continue
            if hosted is None or sender == self._senders[who].getsockname():
                continue
            self._process.record.counters["datagrams_received", ""] += 1
            frame = self._frames.read(octets, lambda name, origin: self._keys.get((name, origin), b""))
            if isinstance(frame, Unreadable):
                self._ignored(frame.why)
            elif (frame.set, who[1]) != who:
                self._ignored("not for us")
            else:
                by_multicast = sock is self._receivers.get(who)
                self._process.step(hosted, FrameHeard(frame, (sender[0], sender[1]), by_multicast))

    def _ignored(self, why: str) -> None:
        self._process.record.count("datagrams_ignored", why)


def _set_of(node: Domain, peer: Domain) -> Domain:
    """The set in which these neighbours would be."""
    if peer != ROOT and parent(peer) == node:
        return node
    return parent(node) if node != ROOT else ROOT
