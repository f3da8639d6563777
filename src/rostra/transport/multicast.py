"""IP multicast sockets: where a cluster's hosts listen, and how to send there.

Packets have a time to live of 1 and do not leave the LAN. Clusters of the same name and world in one LAN
receive each other's packets, and so may two whose multicast addresses collide (one in 65,536): every datagram
names its cluster. `protocols/channel/reachability.py` finds out which hosts are reached.
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
    """A socket that receives what is sent to the group, and nothing else. Other processes on this machine may
    have one too, and each receives everything."""
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
    """Send multicast of this socket by that interface, with this time to live: 1 stays in the LAN, n passes n
    - 1 routers."""
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, time_to_live)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)  # for others on this machine
