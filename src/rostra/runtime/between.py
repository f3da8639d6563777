"""IP multicast between clusters: one group in which their servers receive each other's datagrams (X-108).

    server of eu ── one datagram ──▶ 239.192.0.1:7790 ──▶ servers of us, ap, ...
                 ── one each ──────▶ servers that are not in that group

Used only where the world file says so (`between`): a server cannot find out whether the routers between sites
forward multicast. What they drop is requested again, and comes by unicast. A server announces the group in
which it listens together with its address. Datagrams are sealed with the sender's key, like all between
clusters: other hosts in the multicast group cannot forge them.
"""

import contextlib
import socket
from typing import Final

from rostra.errors import BadInput
from rostra.transport.addresses import TcpAddress
from rostra.transport.multicast import interface_to, multicast_receiver, set_multicast_interface

Place = tuple[str, int]

TIME_TO_LIVE: Final = 32
"""Routers that a datagram may pass: as far as one organisation reaches, by custom (RFC 2365 has the addresses
for that, 239.192.0.0 and on)."""


class Between:
    """The sockets of multicast between clusters."""

    def __init__(self) -> None:
        self.receivers: dict[Place, socket.socket] = {}
        self._senders: dict[Place, socket.socket] = {}
        self._own: set[Place] = set()  # where our senders send from

    def open(self, group: TcpAddress, server: TcpAddress, interface: str) -> None:
        """Receive and send there, if we do not already."""
        place = (group.host, group.port)
        if place in self.receivers:
            return
        leaves_by = interface_to(server, interface)
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sender.setblocking(False)
            set_multicast_interface(sender, leaves_by, TIME_TO_LIVE)
            sender.bind((leaves_by, 0))
            self.receivers[place] = multicast_receiver(*place, leaves_by)
        except OSError as error:
            sender.close()
            raise BadInput(
                f"{group} cannot be received at {leaves_by}: {error.strerror or error}",
                fix='write between = "tree" under [data], or choose another interface or address',
            ) from None
        self._senders[place] = sender
        self._own.add((leaves_by, sender.getsockname()[1]))

    def sender(self, group: Place) -> socket.socket | None:
        return self._senders.get(group)

    def is_own(self, sender: Place) -> bool:
        return sender in self._own

    def close(self) -> None:
        for sock in (*self.receivers.values(), *self._senders.values()):
            with contextlib.suppress(OSError):
                sock.close()
        self.receivers, self._senders = {}, {}
