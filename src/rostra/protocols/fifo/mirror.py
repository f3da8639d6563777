"""Primary-backup replication of a delegate (X-100..X-104).

    active ── Mirror 1, 2, 3, ... ──▶ backup        deltas; a backup that missed one asks for a snapshot
    active ✝
                                      backup ── Appointed ──▶ joins with a new epoch, informs its LAN

A mirror is small: the members of the LAN, the LANs that were given numbers, and for each stream the lowest
number that may still be needed. All above that number is still at its sender or its home delegate, because a
delegate reports only what its receivers have (X-088); so a backup needs no messages. A mirror may lag: its
numbers can only be too low, and members and peers send their own when they ask again. Until all have, nothing
is announced as stable (X-101).
"""

from rostra.names import Domain, Endpoint, Group
from rostra.protocols.fifo.messages import Mirror, Mirrored
from rostra.protocols.fifo.relays import Relays
from rostra.protocols.flow.messages import Epoch, Stream


class Mirroring:
    """At the active delegate: what was mirrored so far."""

    def __init__(self, group: Group, lan: Domain) -> None:
        self._group, self._lan = group, lan
        self._number = 0
        self._told: dict[Stream, Mirrored] = {}
        self._rest: tuple[object, object] = ((), ())

    def news(
        self, epoch: Epoch, members: list[Endpoint], relays: Relays, *, whole: bool = False
    ) -> Mirror | None:
        """The next delta, if anything has changed; or all of it."""
        present = {stream: _mirrored(relays, stream) for stream in sorted([*relays.running, *relays.unknown])}
        people, peers = tuple(sorted(members)), tuple(sorted(relays.pinned.items()))
        known = {} if whole else self._told
        changed = tuple([each for stream, each in present.items() if known.get(stream) != each])
        ended = tuple([stream for stream in sorted(self._told) if stream not in present])
        if not (whole or changed or ended or self._rest != (people, peers)):
            return None
        self._told, self._rest = present, (people, peers)
        self._number += 1
        return Mirror(self._group, self._lan, epoch, self._number, whole, people, peers, changed, ended)


class Mirrors:
    """At a backup: the state of the active delegate, as mirrored."""

    def __init__(self) -> None:
        self.number = 0
        self.epoch: Epoch = 0
        self.members: tuple[Endpoint, ...] = ()
        self.peers: dict[Domain, Epoch] = {}
        self.streams: dict[Stream, Mirrored] = {}

    def apply(self, mirror: Mirror) -> bool:
        """False if a delta before it is missing."""
        if mirror.whole:
            self.streams.clear()
        elif mirror.number != self.number + 1 or mirror.epoch != self.epoch:
            return mirror.epoch < self.epoch
        self.number, self.epoch = mirror.number, mirror.epoch
        self.members, self.peers = mirror.members, dict(mirror.peers)
        self.streams.update({each.stream: each for each in mirror.streams})
        for stream in mirror.ended:
            self.streams.pop(stream, None)
        return True


def _mirrored(relays: Relays, stream: Stream) -> Mirrored:
    if (unknown := relays.unknown.get(stream)) is not None:
        return Mirrored(stream, unknown.stamp, 1)  # of which all may be needed
    relay = relays.running[stream]
    at_home = relay.lan == relays.lan
    needed = relay.pins.stable + 1 if at_home else relay.pins.least(relay.inbound.next)
    return Mirrored(stream, relay.stamp, needed)
