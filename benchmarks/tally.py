"""A tap that counts messages."""

from collections import Counter
from collections.abc import Sequence

from rostra.core.effects import Effect, Event, Received
from rostra.core.stack import Stack
from rostra.names import Domain, depth


class Tally:
    """Messages received, by kind and by the depth of the lower end of their link: 1 is below the root."""

    def __init__(self) -> None:
        self.by_kind: Counter[str] = Counter()
        self.by_depth: Counter[tuple[str, int]] = Counter()

    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None:
        if isinstance(event, Received):
            kind = type(event.message).__name__
            self.by_kind[kind] += 1
            self.by_depth[kind, max(depth(path), depth(event.sender))] += 1

    def clear(self) -> None:
        self.by_kind.clear()
        self.by_depth.clear()
