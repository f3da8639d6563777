"""The readers of what a host receives of a group: one member, or all members of the host that share it.

    what is received, once ──▶ reading   ready, and their programs read: delivered at once
                           └─▶ holding   waiting for their first list, or paused: delivered when they read

For a reader that holds, its next number in each stream is kept (`Inbound.lagging`), and the rest delivered
from there later. Only of an aggregate's stream the items themselves are kept (`Reader.held`).
"""

from collections.abc import Collection, Sequence
from typing import Protocol, TypeGuard

from rostra.names import Endpoint, Group
from rostra.protocols.fifo.context import StepContext
from rostra.protocols.fifo.events import ChangesTogether, Deliver, Gap, Item, Joined, JoinedTogether, Left
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.fragments import NO_PARTS, Parts


class Reader(Protocol):
    """A member of this host, as the state machines that deliver to it see it."""

    me: Endpoint
    ready: bool  # it was given its first list
    paused: bool  # its program does not read
    mute: bool  # it is leaving, and is delivered nothing more
    held: list[Item]


class HostReaders:
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


GatheredItem = Joined | Left | Gap


def _together(items: Sequence[GatheredItem]) -> Item:
    """One item for all of these."""
    if len(items) == 1:
        return items[0]
    joined = [(each.endpoint, each.role, each.meta) for each in items if _is_new(each)]
    return JoinedTogether(tuple(joined)) if len(joined) == len(items) else ChangesTogether(tuple(items))


def _is_new(item: GatheredItem) -> TypeGuard[Joined]:
    return isinstance(item, Joined) and not item.resumed


class HostContext(StepContext):
    """A step context whose items go to all readers of a host. `me` is the only member, or the host."""

    __slots__ = ("_gathered", "readers")

    def __init__(
        self, group: Group, me: Endpoint, config: FifoConfig, luck: int, parts: Parts = NO_PARTS
    ) -> None:
        super().__init__(group, me, config, luck, parts)
        self.readers = HostReaders()
        self._gathered: list[tuple[GatheredItem, Collection[Endpoint]]] | None = None

    def gather(self) -> None:
        """From now on changes of members are gathered into one item for each reader, until another item is
        delivered, or `end_gathering`."""
        if self._gathered is None:
            self._gathered = []

    def end_gathering(self) -> None:
        self.tell_gathered()
        self._gathered = None

    def tell_gathered(self) -> None:
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, []
        readers = [each for each in self.readers.members.values() if each.ready and not each.mute]
        if not readers:
            return
        everything = _together([item for item, _ in gathered])
        some_less = {item.endpoint for item, _ in gathered}.union(*[besides for _, besides in gathered])
        for reader in readers:
            item = everything
            if reader.me in some_less:
                own = [one for one, besides in gathered if reader.me not in (one.endpoint, *besides)]
                if not own:
                    continue
                item = _together(own)
            self.effects.append(Deliver(reader.me, self.group, item))

    @property
    def speaks_as(self) -> Endpoint:
        """The member under whose name requests and acknowledgements of all of them are sent."""
        return next(iter(self.readers.members), self.me)

    def is_alone(self, who: Endpoint) -> bool:
        """Is this the only member here, so that its stream has no reader here?"""
        return who in self.readers.members and len(self.readers.members) == 1

    def tell(self, item: Item, besides: Collection[Endpoint] = ()) -> None:
        """Deliver an item to all readers that got their first list, paused or not, except those of
        `besides`."""
        if self._gathered is not None and isinstance(item, GatheredItem):
            self._gathered.append((item, besides))
            return
        self.tell_gathered()
        about = getattr(item, "endpoint", None)
        for reader in self.readers.members.values():
            if reader.ready and not reader.mute and reader.me != about and reader.me not in besides:
                self.effects.append(Deliver(reader.me, self.group, item))

    def tell_one(self, reader: Reader, item: Item) -> None:
        self.tell_gathered()
        if reader.ready and not reader.mute and reader.me != getattr(item, "endpoint", None):
            self.effects.append(Deliver(reader.me, self.group, item))

    def hand_on(self, item: Item, stream: Endpoint, *, hold: bool = False) -> None:
        """Deliver messages to the readers that are reading; with `hold`, keep them for the others."""
        if self._gathered:
            self.tell_gathered()
        effects, group = self.effects, self.group
        for reader in self.readers.reading.values():
            if reader.me != stream and not reader.mute:
                effects.append(Deliver(reader.me, group, item))
        if hold:
            for reader in self.readers.holding.values():
                reader.held.append(item)
