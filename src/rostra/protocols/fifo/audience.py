"""The readers of what a host receives of a group: one member, or all members of the host that share it.

    what is received, once ──▶ reading   ready, and their programs read: delivered at once
                           └─▶ holding   waiting for their first list, or paused: delivered when they read

For a reader that holds, its next number in each stream is kept (`Inbound.lagging`), and the rest delivered
from there later. Only of an aggregate's stream the items themselves are kept (`Reader.held`).
"""

from typing import Protocol

from rostra.names import Endpoint, Group
from rostra.protocols.fifo.events import Deliver, Item, Joined, JoinedTogether
from rostra.protocols.fifo.voice import StepContext
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.fragments import NO_PARTS, Parts


class Reader(Protocol):
    """A member, as the machines see it that deliver to it."""

    me: Endpoint
    ready: bool  # it was given its first list
    paused: bool  # its program does not read
    mute: bool  # it is leaving, and is delivered nothing more
    held: list[Item]


class Audience:
    __slots__ = ("holding", "members", "reading")

    def __init__(self) -> None:
        self.members: dict[Endpoint, Reader] = {}
        self.reading: dict[Endpoint, Reader] = {}
        self.holding: dict[Endpoint, Reader] = {}

    @property
    def ready(self) -> list[Reader]:
        return [each for each in self.members.values() if each.ready]

    def hold(self, reader: Reader) -> None:
        self.members[reader.me] = self.holding[reader.me] = reader
        self.reading.pop(reader.me, None)

    def read(self, reader: Reader) -> None:
        self.reading[reader.me] = reader
        self.holding.pop(reader.me, None)

    def gone(self, reader: Reader) -> None:
        for table in (self.members, self.reading, self.holding):
            table.pop(reader.me, None)


class HostVoice(StepContext):
    """A step context whose items go to an audience. `me` is the only member's name, or the host's."""

    __slots__ = ("_joined", "audience")

    def __init__(
        self, group: Group, me: Endpoint, config: FifoConfig, luck: int, parts: Parts = NO_PARTS
    ) -> None:
        super().__init__(group, me, config, luck, parts)
        self.audience = Audience()
        self._joined: list[Joined] | None = None  # of one notice, while they are gathered

    def gather_joins(self) -> None:
        """Gather the joins from now on into one item, until another item is delivered or `told_joins`."""
        self._joined = []

    def told_joins(self) -> None:
        self._tell_joins()
        self._joined = None

    def _tell_joins(self) -> None:
        joined, self._joined = self._joined or [], [] if self._joined is not None else None
        ready = {reader.me for reader in self.audience.ready}
        if len(joined) > 1 and not any(each.endpoint in ready for each in joined):
            self._tell(JoinedTogether(tuple([(each.endpoint, each.role, each.meta) for each in joined])))
        else:
            for each in joined:
                self._tell(each)

    @property
    def speaks_as(self) -> Endpoint:
        """The member that stands for all of them, where the protocol needs one name."""
        return next(iter(self.audience.members), self.me)

    def is_alone(self, who: Endpoint) -> bool:
        """Is this the only member here, so that its stream has no reader here?"""
        return who in self.audience.members and len(self.audience.members) == 1

    def tell(self, item: Item) -> None:
        """To all readers that have had their first list, whether their programs read or not."""
        if self._joined is not None and type(item) is Joined and not item.resumed:
            self._joined.append(item)
        else:
            self._tell(item)

    def _tell(self, item: Item) -> None:
        if self._joined:
            self._tell_joins()
        about = getattr(item, "endpoint", None)
        for reader in self.audience.members.values():
            if reader.ready and not reader.mute and reader.me != about:
                self.effects.append(Deliver(reader.me, self.group, item))

    def tell_one(self, reader: Reader, item: Item) -> None:
        if self._joined:
            self._tell_joins()
        if reader.ready and not reader.mute and reader.me != getattr(item, "endpoint", None):
            self.effects.append(Deliver(reader.me, self.group, item))

    def hand_on(self, item: Item, stream: Endpoint, *, hold: bool = False) -> None:
        """Messages, to those that read; `hold`: keep them for the others."""
        if self._joined:
            self._tell_joins()
        effects, group = self.effects, self.group
        for reader in self.audience.reading.values():
            if reader.me != stream and not reader.mute:
                effects.append(Deliver(reader.me, group, item))
        if hold:
            for reader in self.audience.holding.values():
                reader.held.append(item)
