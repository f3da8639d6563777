"""Which hosts of a LAN multicast reaches, and which of them can send by it.

    server ── Probe 7, by multicast ───────▶ every host
    server ◀── Call(heard=7), by unicast ─── a host that receives it: the server passes nothing on to it
    server ◀── Call, by multicast ────────── a host that is received: it may send by multicast
    server ── Directory(audible=True) ─────▶ that host

Whether multicast arrives can only be measured, and may change: a switch that forgets its listeners, a host
behind a tunnel. So both directions are probed, for each host and for as long as it is there. A host that does
not receive multicast gets everything from its server by unicast, and one whose multicast is not received
sends everything to its server. Only those hosts pay for it.
"""

from typing import Final

from rostra.names import Domain

TRY_S: Final = 0.5
"""How often hosts call and servers probe."""

MISSED_MAX: Final = 4
"""So many in a row may be lost before multicast counts as gone: two seconds. Raising it: a lossy LAN keeps it
for longer, and after its end losses are repaired one by one for longer."""


class ReachabilityTable:
    """The hosts of one LAN, as its server knows them.

    `certain`: the world file says that multicast works, and no host is probed. `first`: any number to count
    probes from, so that a host's answer to an earlier life of this server is not taken for one to us.
    """

    def __init__(self, *, certain: bool = False, first: int = 0) -> None:
        self.certain = certain
        self.probe = first + 1  # the number of the present one
        self._first = first
        self._heard: dict[Domain, int] = {}  # the last probe that each host says it received
        self._called: dict[Domain, int] = {}  # after which probe each host was last received from, by any way
        self._spoke: dict[Domain, int] = {}  # and by multicast
        self._since: dict[Domain, int] = {}  # and since when it is here

    def next_probe(self) -> None:
        """Begin the next probe, and forget hosts that have not called for a while."""
        self.probe += 1
        for host in [host for host, then in self._called.items() if self.probe - then > 2 * MISSED_MAX]:
            for known in (self._called, self._heard, self._spoke, self._since):
                known.pop(host, None)

    def called(self, host: Domain, heard: int, *, by_multicast: bool) -> bool:
        """A `Call` came. True if the host is new, or is received by multicast for the first time."""
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
        """Was it probed long enough to conclude from silence? Only hosts that still call are."""
        now = self.probe
        return now - self._since.get(host, now) > MISSED_MAX and now - self._called.get(host, 0) <= 2

    def hears(self, host: Domain) -> bool:
        """Does our multicast reach this host?"""
        return self.certain or _lately(self._heard.get(host), self.probe)

    def is_heard(self, host: Domain) -> bool:
        """Does this host's multicast reach us?"""
        return self.certain or _lately(self._spoke.get(host), self.probe)


def _lately(then: int | None, probe: int) -> bool:
    return then is not None and probe - then <= MISSED_MAX
