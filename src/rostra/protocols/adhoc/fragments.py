"""Messages that fit no datagram travel in parts; the machines see them whole or not at all (X-105).

A question for a message of which some parts came names the others, and only these are sent again.
"""

from collections.abc import Iterator

from msgspec import Struct, field

from rostra.names import Group
from rostra.protocols.adhoc.config import AdhocConfig
from rostra.protocols.adhoc.messages import Data, Nak, Run, Speech, Stream
from rostra.protocols.adhoc.runs import datagrams, is_sound

PARTIALS_MAX = 64
"""Messages of one stream that may be in parts at once; further ones are asked for when these are whole."""


class Partial(Struct):
    parts: int
    pieces: dict[int, bytes] = field(default_factory=dict)


class Fragments:
    """The parts of one node: what it still waits for, and what it was asked for."""

    def __init__(self, config: AdhocConfig) -> None:
        self._config = config
        self._partials: dict[tuple[Group, Stream], dict[int, Partial]] = {}
        self._wanted: dict[tuple[Group, Stream], dict[int, tuple[int, ...]]] = {}

    def whole(self, group: Group, message: Speech) -> Speech | None:
        """An arriving message, or the one that its parts make; None while some are missing."""
        if isinstance(message, Data) and message.parts > 1:
            return self._join(group, message)
        if isinstance(message, Nak):
            self._hear(group, message)
        return message

    def pieces(self, group: Group, message: Speech) -> Iterator[Speech]:
        """A leaving message, as it fits datagrams."""
        if isinstance(message, Data):
            if len(message.run.block) <= self._config.datagram_bytes:
                yield message
            else:
                only = self._wanted.pop((group, message.stream), None) if message.repair else None
                yield from datagrams(message, self._config.datagram_bytes, only)
        elif isinstance(message, Nak):
            yield self._with_parts(group, message)
        else:
            yield message

    def forget(self, group: Group, stream: Stream) -> None:
        self._partials.pop((group, stream), None)
        self._wanted.pop((group, stream), None)

    def _join(self, group: Group, data: Data) -> Data | None:
        partials = self._partials.setdefault((group, data.stream), {})
        number = data.run.first
        partial = partials.get(number)
        if partial is None or partial.parts != data.parts:
            if len(partials) >= PARTIALS_MAX:
                # The highest number has the longest time to come again.
                highest = max(partials)
                if number >= highest:
                    return None
                del partials[highest]
            partial = partials[number] = Partial(data.parts)
        partial.pieces[data.part] = data.run.block
        if len(partial.pieces) < partial.parts:
            return None
        del partials[number]
        if not partials:
            del self._partials[group, data.stream]
        block = b"".join([partial.pieces[part] for part in range(partial.parts)])
        run = Run(number, 1, block, data.run.at)
        if not is_sound(run):
            return None  # parts of two different messages, or of none: it is asked for again, whole
        return Data(data.stream, run, data.high, data.stable, data.repair, data.hop)

    def _with_parts(self, group: Group, nak: Nak) -> Nak:
        partials = self._partials.get((group, nak.stream))
        if not partials:
            return nak
        missing = []
        for number in sorted(partials):
            if any(first <= number <= last for first, last in nak.ranges):
                partial = partials[number]
                missing.append(
                    (number, tuple([part for part in range(partial.parts) if part not in partial.pieces]))
                )
        return Nak(nak.stream, nak.ranges, nak.asker, nak.attempt, tuple(missing))

    def _hear(self, group: Group, nak: Nak) -> None:
        """Of which messages does the asker need only some parts? Of what two askers want, both get all."""
        key = (group, nak.stream)
        wanted = self._wanted.pop(key, {})
        named = dict(nak.parts)
        kept = {number: tuple(sorted({*parts, *wanted.get(number, ())})) for number, parts in named.items()}
        for number, parts in wanted.items():
            if number not in kept and not any(first <= number <= last for first, last in nak.ranges):
                kept[number] = parts
        if kept:
            self._wanted[key] = kept
