"""Multicast between sites: the group in which the servers of several clusters hear each other (X-108).

    server of eu ── one datagram ──▶ 239.192.0.1:7790 ──▶ servers of us, ap, ...
                 ── one each ──────▶ servers that are not in that group

Only where the world file says so (`between`), since nobody can find out whether the routers between sites
carry multicast; what they do not carry is asked for again, and comes by unicast. Servers tell each other with
their address in which group they listen. What is said there is sealed with the speaker's key like everything
between clusters, so who overhears it cannot add to it.
"""

import contextlib
import socket
from collections.abc import Iterable
from typing import Final

from rostra.errors import BadInput
from rostra.names import Domain
from rostra.transport.addresses import TcpAddress
from rostra.transport.multicast import interface_to, multicast_receiver, set_multicast_interface

Place = tuple[str, int]

TIME_TO_LIVE: Final = 32
"""Routers that a datagram may pass: as far as one organisation reaches, by custom (RFC 2365 has the addresses
for that, 239.192.0.0 and on)."""


class Between:
    def __init__(self) -> None:
        self.groups: dict[Domain, Place] = {}  # of the clusters served here, and of others as they told us
        self.ears: dict[Place, socket.socket] = {}
        self._mouths: dict[Place, socket.socket] = {}
        self._own: set[Place] = set()  # where our mouths speak from

    def open(self, cluster: Domain, group: TcpAddress, server: TcpAddress, interface: str) -> None:
        """Hear and speak there for this cluster."""
        place = (group.host, group.port)
        self.groups[cluster] = place
        if place in self.ears:
            return
        leaves_by = interface_to(server, interface)
        mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            mouth.setblocking(False)
            set_multicast_interface(mouth, leaves_by, TIME_TO_LIVE)
            mouth.bind((leaves_by, 0))
            self.ears[place] = multicast_receiver(*place, leaves_by)
        except OSError as error:
            mouth.close()
            raise BadInput(
                f"{group} cannot be heard at {leaves_by}: {error.strerror or error}",
                fix='write between = "tree" under [data], or choose another interface or address',
            ) from None
        self._mouths[place] = mouth
        self._own.add((leaves_by, mouth.getsockname()[1]))

    def told(self, cluster: Domain, group: TcpAddress | None) -> None:
        """Its server listens there; nowhere, if it does not say."""
        self.groups.pop(cluster, None)
        if group is not None:
            self.groups[cluster] = (group.host, group.port)

    def reached(self, cluster: Domain, others: Iterable[Domain]) -> list[Domain]:
        """Who of these hears what this cluster says to its group."""
        place = self.groups.get(cluster)
        return [] if place is None else [each for each in others if self.groups.get(each) == place]

    def mouth(self, cluster: Domain) -> tuple[socket.socket | None, Place | None]:
        place = self.groups.get(cluster)
        return (None, None) if place is None else (self._mouths.get(place), place)

    def is_own(self, sender: Place) -> bool:
        return sender in self._own

    def close(self) -> None:
        for sock in (*self.ears.values(), *self._mouths.values()):
            with contextlib.suppress(OSError):
                sock.close()
        self.ears, self._mouths = {}, {}
