"""Numbered streams between two stations, or from one to many: those of `protocols/flow`, with entries of the
order as their messages.

    OutFeed ── Data, in pieces that fit datagrams ──▶ InFeed ── entries, in order, without a hole
            ◀── Nak ── what did not come ────────────
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from rostra.core.effects import Instant
from rostra.names import Domain, Endpoint
from rostra.protocols.flow.fragments import Parts, held, pieces, places, questions
from rostra.protocols.flow.messages import Data, Nak, Run
from rostra.protocols.flow.recovery import Recent
from rostra.protocols.flow.runs import block_of, payloads
from rostra.protocols.flow.streams import Inbound, Store

HELD_MAX: Final = 1 << 16
"""Entries beyond the next one that are kept."""

HELD_BYTES: Final = 32 << 20
"""And so many bytes: what is further ahead is asked for again. Raising it: more memory for a station that
sends much and leaves out the first."""

PARTS_BYTES: Final = 8 << 20
"""Of entries that came in part."""

REPAIR_BYTES: Final = 256 << 10
"""What is sent again at once."""

REPAIR_REST_S: Final = 0.015
"""What was sent again within this time is not sent once more."""

ASK_S: Final = 0.03
ASK_MAX_S: Final = 1.0
"""A hole is asked for again after the first of these, then after twice that, up to the second."""

HOLES_AT_ONCE: Final = 64


def feed_name(host: Domain) -> Endpoint:
    """What stands in the place of a sender in such a stream."""
    return Endpoint(f"{host}/order#1")


class OutFeed:
    """The sending end. `ends` are the positions after each entry that is still kept."""

    __slots__ = ("_recent", "ends", "forgotten", "high", "name", "store")

    def __init__(self, name: Endpoint) -> None:
        self.name = name
        self.store = Store()
        self.high = 0  # the last number
        self.forgotten = 0  # the last one that is not kept
        self.ends: list[int] = []
        self._recent = Recent()

    def add(self, entries: Sequence[bytes], ends: Iterable[int]) -> Run:
        run = Run(self.high + 1, len(entries), block_of(entries))
        self.store.append(run)
        self.high = run.end - 1
        self.ends += ends
        return run

    def data(self, run: Run, bytes_max: int) -> list[Data]:
        whole = Data(self.name, run, run.end - 1, 0)
        return [each for each in pieces(whole, bytes_max) if isinstance(each, Data)]

    def number_at(self, position: int) -> int:
        """The number of the entry that begins at this position; it is kept, or the next to come."""
        return self.forgotten + 1 + bisect_left(self.ends, position + 1)

    def forget(self, position: int) -> None:
        """Everything below this position is with all."""
        keep = bisect_left(self.ends, position + 1)
        if keep >= 8 or keep == len(self.ends):
            self.store.forget(self.forgotten + keep)
            self.forgotten += keep
            del self.ends[:keep]

    def repairs(self, now: Instant, nak: Nak, bytes_max: int) -> list[Data]:
        wanted = self._recent.fresh(now, places(nak), REPAIR_REST_S)
        return [
            Data(self.name, run, self.high, 0, True, 0, offset, size)
            for run, offset, size in held(self.store, wanted, bytes_max, REPAIR_BYTES)
        ]


class InFeed:
    """The receiving end, from number `first` on."""

    __slots__ = ("_inbound", "_name", "_parts")

    def __init__(self, name: Endpoint, first: int) -> None:
        self._name = name
        self._inbound = Inbound(first)
        self._parts = Parts(self._room)

    def _room(self, stream: Endpoint, number: int) -> int:
        return PARTS_BYTES if self._inbound.waits_for(number, HELD_MAX) else 0

    def take(self, now: Instant, data: Data) -> list[bytes]:
        """The entries that may be read now."""
        if data.stream != self._name:
            return []
        whole = self._parts.take(now, data) if data.size else data
        if whole is None or whole.size:
            return []
        inbound = self._inbound
        inbound.hear_high(whole.high)
        if whole.run.first > inbound.next and inbound.store.bytes > HELD_BYTES:
            return []
        inbound.take(whole.run, HELD_MAX)
        found: list[bytes] = []
        for run in inbound.hand_on():
            found += payloads(run)
        if found:
            inbound.hear_stable(inbound.told - 1)  # nobody is given them again from here
        return found

    def hear_high(self, high: int) -> None:
        self._inbound.hear_high(high)

    @property
    def lacks(self) -> bool:
        """Was something sent that is not here?"""
        return self._inbound.next <= self._inbound.high

    def asks(self, now: Instant, asker: Domain) -> list[Nak]:
        """For what is missing, and was not asked for a moment ago."""
        inbound = self._inbound
        inbound.look_for_holes(HELD_MAX, now)
        due = self._parts.not_coming(
            now, self._name, inbound.holes.due(now, HOLES_AT_ONCE), settle_s=REPAIR_REST_S
        )
        for hole in due:
            hole.asked += 1
            hole.due = now + min(ASK_MAX_S, ASK_S * (1 << min(hole.asked - 1, 8)))
        return questions(self._name, due, asker, 1, self._parts) if due else []
