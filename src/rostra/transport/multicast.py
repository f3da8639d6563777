"""IP multicast in one LAN: where a cluster's hosts listen, and who of them hears it.

    server ── Probe 7, by multicast ───────▶ every host
    server ◀── Call(heard=7), by unicast ─── a host that hears it: the server passes nothing on to it
    server ◀── Call, by multicast ────────── a host that is heard: it may speak by multicast
    server ── Directory(audible=True) ─────▶ and is told so

Whether multicast arrives is nobody's word but the network's, and it may change: a switch that forgets its
listeners, a host behind a tunnel. So both directions are tried, for every host by itself and for as long as
it is there. A host that does not hear is sent everything by its server, and one that is not heard says
everything to its server: it costs those hosts what it would cost all of them without multicast.

Packets have a time to live of 1 and never leave the LAN. Two clusters of one name and world would hear each
other, and so may two whose addresses are the same by chance (one in 65,536): the datagrams say whose they
are.
"""

import contextlib
import fcntl
import socket
import struct
from hashlib import blake2b
from ipaddress import ip_address
from typing import Final

from rostra.errors import BadInput
from rostra.names import Domain
from rostra.transport.addresses import TcpAddress

TRY_S: Final = 0.5
"""How often hosts call and servers probe."""

MISSED_MAX: Final = 4
"""So many in a row may be lost before multicast counts as gone: two seconds. Raising it: a lossy LAN keeps it
for longer, and after its end losses are repaired one by one for longer."""

SIOCGIFADDR: Final = 0x8915  # Linux's number; the module socket does not name it
_MEMBERSHIP: Final = struct.Struct("4s4si")  # ip_mreqn: group, our address, number of the interface


def group_address(world: str, cluster: Domain) -> str:
    """Where the hosts of a cluster listen: in the part of the addresses that is for one site (RFC 2365)."""
    high, low = blake2b(f"{world}\0{cluster}".encode(), digest_size=2).digest()
    return f"239.255.{high}.{low}"


def interface_to(there: TcpAddress, name: str = "") -> str:
    """The IPv4 address of the interface of that name; without one, of that from which `there` is reached."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        if name:
            try:
                asked = struct.pack("256s", name.encode()[:15])
                return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), SIOCGIFADDR, asked)[20:24])
            except OSError as error:
                raise BadInput(
                    f"there is no interface {name!r} with an IPv4 address: {error.strerror}",
                    fix="ip -4 addr shows which there are; name one under [data], or none",
                ) from None
        try:
            probe.connect((there.host, there.port))
        except OSError as error:
            raise BadInput(
                f"{there} cannot be reached by multicast: {error.strerror or error}",
                fix='write mode = "reflect" under [data]',
            ) from None
        return str(probe.getsockname()[0])


def is_possible(at: TcpAddress) -> bool:
    """Groups have IPv4 addresses; a host name is tried."""
    with contextlib.suppress(ValueError):
        return ip_address(at.host).version == 4
    return True


def multicast_receiver(group: str, port: int, interface: str) -> socket.socket:
    """A socket that hears what is said to the group, and nothing else. Others on this machine may have one
    too, and each hears everything."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((group, port))
        joining = _MEMBERSHIP.pack(socket.inet_aton(group), socket.inet_aton(interface), 0)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joining)
    except OSError:
        sock.close()
        raise
    return sock


def set_multicast_interface(sock: socket.socket, interface: str, time_to_live: int = 1) -> None:
    """What this socket says to a group leaves by that interface, and goes no farther than its LAN, or than so
    many routers less one."""
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, time_to_live)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)  # for others on this machine


class ReachabilityTable:
    """The hosts of one LAN, as its server knows them. Without sockets and clock, so it can be tried out.

    `certain` is somebody's word that multicast works: nobody is asked. `first` is where probes begin to be
    counted, anywhere: what a host heard of an earlier life of this server must not be taken for ours.
    """

    def __init__(self, *, certain: bool = False, first: int = 0) -> None:
        self.certain = certain
        self.probe = first + 1  # the number of the present one
        self._first = first
        self._heard: dict[Domain, int] = {}  # the last probe that each host says it heard
        self._called: dict[Domain, int] = {}  # after which probe each host was heard last, by whatever way
        self._spoke: dict[Domain, int] = {}  # and by multicast
        self._since: dict[Domain, int] = {}  # and since when it is here

    def next_probe(self) -> None:
        """Time has passed: whoever was not heard for a while is forgotten."""
        self.probe += 1
        for host in [host for host, then in self._called.items() if self.probe - then > 2 * MISSED_MAX]:
            for known in (self._called, self._heard, self._spoke, self._since):
                known.pop(host, None)

    def called(self, host: Domain, heard: int, *, by_multicast: bool) -> bool:
        """Is this news: a host that was not there, or was not heard by multicast?"""
        news = host not in self._called or (by_multicast and not self.is_heard(host))
        self._called[host] = self.probe
        self._since.setdefault(host, self.probe)
        if self._first < heard <= self.probe:
            self._heard[host] = heard
        if by_multicast:
            self._spoke[host] = self.probe
        return news

    @property
    def hosts(self) -> list[Domain]:
        return sorted(self._called)

    def was_tried(self, host: Domain) -> bool:
        """Long enough that silence means something, and it still calls."""
        now = self.probe
        return now - self._since.get(host, now) > MISSED_MAX and now - self._called.get(host, 0) <= 2

    def hears(self, host: Domain) -> bool:
        """Does what is said by multicast arrive there?"""
        return self.certain or _lately(self._heard.get(host), self.probe)

    def is_heard(self, host: Domain) -> bool:
        """Does what it says by multicast arrive here?"""
        return self.certain or _lately(self._spoke.get(host), self.probe)


def _lately(then: int | None, probe: int) -> bool:
    return then is not None and probe - then <= MISSED_MAX
