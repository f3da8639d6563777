"""Data of streams whose first number is not known yet: buffered, within bounds, until it is (X-033, X-034,
TX-12).

Data never makes its sender a member: only a notice does. What does not fit is dropped, and requested later
like any loss.
"""

from rostra.names import Domain
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Run, Stream


class Early:
    def __init__(self, config: FifoConfig) -> None:
        self._config = config
        self._kept: dict[Stream, list[Run]] = {}
        self._sizes: dict[Stream, tuple[int, int]] = {}  # messages, bytes
        self._sources: dict[Stream, Domain] = {}  # who sent us the last of it, if that matters
        self.bytes = 0

    def __contains__(self, stream: Stream) -> bool:
        return stream in self._kept

    def keep(self, stream: Stream, run: Run, source: Domain | None = None) -> bool:
        """Buffer a run; False if there was no room for it."""
        config = self._config
        messages, size = self._sizes.get(stream, (0, 0))
        messages, size = messages + run.count, size + len(run.block)
        if messages > config.early_messages or size > config.early_bytes:
            return False
        if self.bytes + len(run.block) > config.early_bytes_all and not self._make_room(stream, run):
            return False
        self._kept.setdefault(stream, []).append(run)
        self._sizes[stream] = (messages, size)
        self.bytes += len(run.block)
        if source is not None:
            self._sources[stream] = source
        return True

    def source(self, stream: Stream) -> Domain | None:
        return self._sources.get(stream)

    def take(self, stream: Stream) -> list[Run]:
        """Remove and return everything kept of a stream."""
        runs = self._kept.pop(stream, [])
        self._sources.pop(stream, None)
        if runs:
            self.bytes -= self._sizes.pop(stream)[1]
        return runs

    def _make_room(self, stream: Stream, run: Run) -> bool:
        """Drop the newest run of the largest stream, unless the room is for that stream."""
        while self.bytes + len(run.block) > self._config.early_bytes_all and self._sizes:
            largest = max(self._sizes, key=lambda each: (self._sizes[each][1], each))
            if largest == stream:
                return False
            dropped = self._kept[largest].pop()
            messages, size = self._sizes[largest]
            self.bytes -= len(dropped.block)
            if self._kept[largest]:
                self._sizes[largest] = (messages - dropped.count, size - len(dropped.block))
            else:
                del self._kept[largest], self._sizes[largest]
                self._sources.pop(largest, None)
        return self.bytes + len(run.block) <= self._config.early_bytes_all
