"""Bugs that were ours once, to be planted again: what finds them must go on finding them."""

import pytest

from rostra.protocols.flow.fragments import Parts
from rostra.protocols.flow.messages import Data


def keep_late_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it once was: late parts of messages that were whole were kept, and after 64 no newer ones."""
    take = Parts.take

    def once(self: Parts, now: float, data: Data) -> Data | None:
        incoming = self._streams.get(data.stream)
        if incoming is not None and data.run.first not in incoming.partials and len(incoming.numbers) >= 64:
            if data.run.first >= incoming.numbers[-1]:
                return None
            self._drop(data.stream, incoming.numbers[-1])
        monkeypatch.setattr(self, "_room", lambda stream, number: 1 << 40)
        return take(self, now, data)

    monkeypatch.setattr(Parts, "take", once)
