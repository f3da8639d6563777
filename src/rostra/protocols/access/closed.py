"""Lists of closed groups on the disks of those that are told them.

A node that restarts without its parent would let its programs into a group that is not for them, until its
first link. So each keeps the newest list of every scope around it, as it keeps permanent names.
"""

from typing import Final

import msgspec

from rostra.core.effects import Secure
from rostra.core.records import RECORD_BYTES_MAX, Records
from rostra.errors import UNDECODABLE
from rostra.names import Domain
from rostra.protocols.relaxed.gate import ClosedList, Gate

COPIES: Final = "closed/"
"""The keys of lists that another server decides, with their scopes."""

_decoder: Final = msgspec.msgpack.Decoder(ClosedList)


def keep_copy(records: Records, closed: ClosedList) -> list[Secure]:
    """Nothing rests on it: without room on the disk the list counts until we restart."""
    data = msgspec.msgpack.encode(closed)
    if records.no_room or len(data) > RECORD_BYTES_MAX:
        return []
    return [Secure(records.put(f"{COPIES}{closed.scope}", data))]


def load_copies(records: Records, gate: Gate) -> None:
    for record in records.under(COPIES):
        try:
            closed = None if record.data is None else _decoder.decode(record.data)
        except UNDECODABLE:
            continue
        if closed is not None and closed.scope == Domain(record.key.removeprefix(COPIES)):
            gate.learn(closed)
