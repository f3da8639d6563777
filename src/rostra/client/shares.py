"""Keys that members share out among themselves, each of them held by one member at a time.

    view ──▶ every replica of the table: whose holder is gone, gets its new owner at once
         ──▶ whose holder is not its owner any more: the holder lets go of it ── release ──▶ one order
                                                         the owner gets it ◀─────────────────────┘

Owners are those of `groups/shares.py`. The table is a replicated object, so all members have the same one;
views have their places in the same order as releases.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from rostra.client.replicated import (
    SURVIVE,
    Replicated,
    Replicating,
    command,
    replicate,
    replication_of,
)
from rostra.errors import BadInput
from rostra.groups.shares import owner_of
from rostra.names import Endpoint

if TYPE_CHECKING:
    from rostra.client.me import Me


class ShareTable(Replicated):
    """The holder of each key."""

    keys: list[str]
    members: list[Endpoint]
    holders: dict[str, Endpoint]

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = list(dict.fromkeys(keys))
        self.members = []
        self.holders = {}

    def viewed(self, members: tuple[Endpoint, ...]) -> None:
        self.members = list(members)
        here = {*members}
        for key in self.keys:
            if self.holders.get(key) not in here:
                self._give(key)

    @command
    def release(self, who: str, keys: list[str]) -> None:
        """The holder of these keys has stopped to use them."""
        for key in keys:
            if self.holders.get(key) == who:
                self._give(key)

    def _give(self, key: str) -> None:
        owner = owner_of(key, self.members)
        if owner is not None:
            self.holders[key] = owner

    def held_by(self, who: Endpoint) -> tuple[frozenset[str], frozenset[str]]:
        """What it holds and should; and what it holds and should let go."""
        held = [key for key, holder in self.holders.items() if holder == who]
        stays = frozenset([key for key in held if owner_of(key, self.members) == who])
        return stays, frozenset(held) - stays


async def shares(
    me: "Me", name: str, keys: Iterable[str], scope: str = "world", *, survive: str = SURVIVE
) -> AsyncIterator[frozenset[str]]:
    """Share these keys with all others who call this: ``async for mine in me.shares("shards", keys)``.

    Each time our share changes, all that is ours from now on. A key that is no longer in it must not be used
    any more; when the loop comes back for the next share, it is released, and its new owner gets it. All
    callers give the same keys. While our side of a partition must not go on, the share is empty.
    """
    listed = [*keys]
    if isinstance(keys, str) or not all(isinstance(key, str) for key in listed):
        raise BadInput(f"keys={keys!r:.60}", fix='write a list of texts: ["a", "b"], or map(str, numbers)')
    table: Replicating[ShareTable] = replicate(
        me, f"shares/{name}", ShareTable(listed), scope, survive=survive
    )
    async with table as shared:
        last: frozenset[str] | None = None
        releasing: dict[asyncio.Task[None], frozenset[str]] = {}
        wake = replication_of(shared).wake
        try:
            while True:
                for task in [each for each in releasing if each.done()]:
                    del releasing[task]
                    task.result()
                away = frozenset[str]().union(*releasing.values())  # not ours until it is known who gets them
                held = (
                    shared.held_by(me.endpoint) if shared.is_current else (frozenset[str](), frozenset[str]())
                )
                mine, leaving = held[0] - away, held[1] - away
                if mine != last:
                    last = mine
                    yield mine
                    continue  # much may have happened meanwhile
                if leaving:
                    task = asyncio.create_task(shared.release(me.endpoint, sorted(leaving)))
                    task.add_done_callback(lambda _: wake())
                    releasing[task] = leaving
                await shared.changed()  # what is ours may end while a release waits for the others
        finally:
            for task in releasing:
                task.cancel()
