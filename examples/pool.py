"""A pool of workers that share out the shards of some work among themselves, without a leader.

    python examples/pool.py            one worker, on this machine's agent; start several, stop some

Every worker is in one group and computes from its members who does what, so all that see the same members
agree. When the world is cut in two, each side does all of the work; when it heals, the workers share again. A
worker that has lost its agent knows that the others count it as gone, and does nothing until it is back.

`examples/test_pool.py` shows that all of this is true.
"""

import asyncio
import contextlib
from collections.abc import Callable
from hashlib import blake2b

import rostra

SHARDS = range(32)
GROUP = "pool"


def owner(shard: int, members: rostra.Members) -> rostra.Endpoint:
    """Who does this shard: whoever draws the highest ticket. When one leaves, only its shards move."""
    return max((member.endpoint for member in members), key=lambda one: _ticket(shard, one))


def _ticket(shard: int, endpoint: rostra.Endpoint) -> bytes:
    return blake2b(f"{shard} {endpoint}".encode(), digest_size=8).digest()


class Worker:
    """`shards` is what this worker does at present; `changed` is called when that is something else."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self.shards: frozenset[int] = frozenset()
        self._changed = changed

    async def run(self) -> None:
        async with rostra.connect() as me, me.join(GROUP) as pool:
            async for _ in pool:  # whatever happened, `members` says how it stands now
                mine = {shard for shard in SHARDS if owner(shard, pool.members) == me.endpoint}
                self._take(frozenset(mine) if me.is_open else frozenset())

    def _take(self, shards: frozenset[int]) -> None:
        if shards != self.shards:
            self.shards = shards
            self._changed()


async def main() -> None:
    worker = Worker(lambda: print("doing", *sorted(worker.shards) or ["nothing"], flush=True))
    await worker.run()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C leaves the pool, and the others take its shards
        asyncio.run(main())
