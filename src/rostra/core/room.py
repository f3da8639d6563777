"""A quota that several holders share: each may have as much as is still free.

    limit   ├── held by a ──┼── held by b ──┼────────── free ──────────┤

This is the dynamic threshold of `protocols/front/shares.py`: one greedy holder gets half, two get a third
each, and the next one finds room. A holder is what the bound is meant for: a user of this host, or a cluster,
whose server could invent any number of hosts.
"""

from collections import Counter
from collections.abc import Callable


def leaves_room(limit: int, taken: int, held: Callable[[], int]) -> bool:
    """May a holder have one more, if all together have `taken`? `held`, what it has itself, is called only
    where that decides: for small tables, of which no count is kept."""
    free = limit - taken
    return free > taken or held() < free


class SharedRoom:
    __slots__ = ("held", "limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held: Counter[str] = Counter()  # by holder; none of them without anything
        self.taken = 0  # by all

    def has_room(self, holder: str, count: int = 1) -> bool:
        """Is there room for this many more, taken one after the other?"""
        return count <= 0 or self.held[holder] + 2 * count - 1 <= self.limit - self.taken

    def take(self, holder: str, count: int = 1) -> None:
        self.taken += count
        self.held[holder] += count
        if not self.held[holder]:
            del self.held[holder]

    def give(self, holder: str, count: int = 1) -> None:
        self.take(holder, -count)
