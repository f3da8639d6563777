"""Fences that grow for ever: a server keeps on disk how far it has given them out.

fence 1, 2, 3 ...  ──▶ the record says 1024: no later life of this server begins a group below
fence 1025         ──▶ the record says 2048, before the fence is sent to any host
"""

from typing import Final

import msgspec

from rostra.core.effects import Secure
from rostra.core.records import Records
from rostra.errors import UNDECODABLE

FENCES: Final = "fences"
"""The key of the record."""

RESERVED: Final = 1_024
"""Fences that are reserved at once. Raising it: fewer writes, larger steps after a restart."""

_decoder: Final = msgspec.msgpack.Decoder(int)


class FenceRecord:
    def __init__(self, records: Records) -> None:
        self._records = records
        self.floor = 0  # groups that are made in this life have fences above this

    def begin(self) -> None:
        """A new life, or the first step of a replica that leads."""
        self.floor = self._reserved()

    def reserve(self, fence: int) -> Secure:
        """What must be written before this fence is given out: perhaps it is already, or is being written."""
        record = self._records.get(FENCES)
        if record is None or fence > self._reserved():
            record = self._records.put(FENCES, msgspec.msgpack.encode(fence + RESERVED))
        return Secure(record)

    def _reserved(self) -> int:
        record = self._records.get(FENCES)
        try:
            return 0 if record is None or record.data is None else max(0, _decoder.decode(record.data))
        except UNDECODABLE:
            return 0
