"""Copies of the lists of closed groups, on the disks of agents and servers.

A node that restarts without its parent would let its programs into groups that are closed to them, until its
first link is up. So each keeps the newest list of every scope around it, as it does with permanent names.
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
    """Write the list to disk. No effect waits for it: without room on the disk it holds until we restart."""
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
