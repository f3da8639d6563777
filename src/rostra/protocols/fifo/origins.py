"""Messages of submitters at a receiver: once and in order, whichever aggregate carries them (X-055).

    aggregate#7   ann 1  bob 1  ann 2  ✝                    its delegate fails
    aggregate#8                         ann 2  ann 3        what was not acknowledged is submitted again
    delivered     ann 1  bob 1  ann 2          ann 3

A submitter keeps a message until every receiver has it. So the next aggregate begins, for each submitter, at
or below the lowest number that some receiver lacks, and a receiver only has to drop duplicates (TX-24). If a
number is left out nevertheless, this receiver was disconnected meanwhile, and its program gets a `Gap`
(X-064).
"""

from functools import lru_cache

from msgspec import Struct

from rostra.core.effects import Instant
from rostra.errors import BadName
from rostra.names import Endpoint, parse_endpoint
from rostra.protocols.fifo.context import lan_of
from rostra.protocols.fifo.events import Aggregated, Gap
from rostra.protocols.fifo.messages import Envelope, decode_envelope
from rostra.protocols.fifo.readers import HostContext
from rostra.protocols.flow.messages import Run, Stream
from rostra.protocols.flow.runs import cut, is_sound, payloads


class Origin(Struct):
    last: int  # the last of its numbers that was delivered
    stream: Stream  # the aggregate that carried it, and its number there
    number: int
    heard_at: Instant


class Origins:
    def __init__(self, context: HostContext) -> None:
        self._context = context
        self.known: dict[Endpoint, Origin] = {}

    def hand_on(self, stream: Stream, run: Run) -> None:
        """Deliver a run of an aggregate, in order."""
        for number, envelope in enumerate(_opened(run.block, run.count), run.first):
            if envelope is None:
                self._context.ignore("Data", "not an envelope")
            elif self._may_speak(stream, envelope.origin):
                self._hand_on(stream, number, envelope)

    def _may_speak(self, stream: Stream, origin: Endpoint) -> bool:
        """An aggregate carries messages of its own LAN only. No node on the way has checked that."""
        if origin in self.known:
            return True
        try:
            is_name = parse_endpoint(origin) == origin
        except BadName:
            is_name = False
        if not is_name:
            self._context.ignore("Data", "not an envelope")
            return False
        if lan_of(origin) != lan_of(stream):
            self._context.ignore("Data", "an origin of another LAN")
            return False
        return True

    def _hand_on(self, stream: Stream, number: int, envelope: Envelope) -> None:
        origin, run = envelope.origin, envelope.run
        known = self.known.get(origin)
        if known is None:
            self.known[origin] = Origin(run.end - 1, stream, number, self._context.now)
        else:
            if run.end - 1 <= known.last:
                self._context.ignore("Data", "origin duplicate")
                return
            due = max(known.last + 1, envelope.since)
            if run.first > due:
                self._context.hand_on(Gap(origin, due, run.first - 1), origin, hold=True)
            run = cut(run, max(run.first, known.last + 1), run.end)
            known.last, known.stream, known.number = run.end - 1, stream, number
            known.heard_at = self._context.now
        self._context.hand_on(Aggregated(origin, run, stream), origin, hold=True)

    def ended(self, stream: Stream, stable: int) -> None:
        """An aggregate has ended. Messages of it that every receiver has will not be submitted again."""
        for origin in self.known.values():
            if origin.stream == stream and origin.number <= stable:
                origin.number = 0

    def tidy(self, stable: dict[Stream, int]) -> None:
        """Forget submitters that were silent for long, unless their last message may be submitted again."""
        old = self._context.now - self._context.config.remember_s
        for who in [
            who
            for who, origin in self.known.items()
            if origin.heard_at <= old and origin.number <= stable.get(origin.stream, 0)
        ]:
            del self.known[who]


@lru_cache(maxsize=16)
def _opened(block: bytes, count: int) -> tuple[Envelope | None, ...]:
    """Cached: all receivers of a host decode the same run, one after the other."""
    found = [decode_envelope(each) for each in payloads(Run(0, count, block))]
    return tuple([None if each is None or not is_sound(each.run) else each for each in found])
