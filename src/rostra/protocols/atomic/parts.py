"""Frames of AMp that fit no datagram: cut by the sender, put together by the receiver, as messages of
`protocols/flow` are.

    frame ──▶ FrameSender ── FramePart, FramePart, ... ──▶ FrameReceiver ──▶ frame
                         ◀── FrameNak: these bytes are missing ──┘

A retransmission of the same frame is its last part alone: receivers ask for what they lack, and one that has
all of it takes it as a copy. Rounds and their counts are AMp's; here nothing is repeated by itself.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from msgspec.structs import replace

from rostra.core.effects import Instant
from rostra.names import Domain, Endpoint, host_of
from rostra.protocols.atomic.feeds import PARTS_BYTES, REPAIR_BYTES, OutFeed
from rostra.protocols.atomic.frames import (
    AmpStationId,
    AnyAmpFrame,
    AnyAmpMessage,
    FrameNak,
    FramePart,
    decode_frame,
    encode_frame,
)
from rostra.protocols.flow.fragments import Parts, questions
from rostra.protocols.flow.messages import Data
from rostra.protocols.flow.recovery import Hole
from rostra.protocols.flow.runs import payloads

ASKS_MAX: Final = 8
FRAMES_KEPT: Final = 8
"""Frames in parts that may be asked for again."""

WHOLE_KEPT: Final = 2
"""Of each other station: its last run and the last that its monitor sent may come again."""


def frame_stream(station: AmpStationId) -> Endpoint:
    """In which a station sends its frames in parts; it has no other."""
    return Endpoint(f"{station.host}/order#{station.life}")


class FrameSender:
    """`first`: numbers up to it were used before, in the same life of the station."""

    def __init__(self, me: AmpStationId, bytes_max: int, first: int = 0) -> None:
        self._bytes = bytes_max
        self._out = OutFeed(frame_stream(me))
        self._out.high = self._out.forgotten = first
        self._numbers: dict[bytes, tuple[int, Data]] = {}  # by digest: the number, and the last part

    @property
    def last(self) -> int:
        return self._out.high

    def messages(self, frame: AnyAmpFrame) -> list[AnyAmpMessage]:
        """What is sent of it now."""
        octets = encode_frame(frame)
        if len(octets) <= self._bytes:
            return [frame]
        same = replace(frame, control=replace(frame.control, mtn=0))
        digest = blake2b(encode_frame(same), digest_size=16).digest()
        if digest in self._numbers:
            return [FramePart(self._numbers[digest][1])]
        run = self._out.add([octets], [self._out.high + 1])
        parts = self._out.data(run, self._bytes)
        self._numbers[digest] = (self._out.high, parts[-1])
        if len(self._numbers) > FRAMES_KEPT:
            oldest, _ = self._numbers.pop(next(iter(self._numbers)))
            self._out.forget(oldest)
        first = [*parts[: max(1, REPAIR_BYTES // self._bytes)], parts[-1]]
        return [FramePart(part) for part in (parts if len(first) > len(parts) else first)]

    def repairs(self, now: Instant, asked: FrameNak) -> list[AnyAmpMessage]:
        return [FramePart(data) for data in self._out.repairs(now, asked.nak, self._bytes)]


class FrameReceiver:
    def __init__(self, host: Domain) -> None:
        self._host = host
        self._parts = Parts(lambda stream, number: PARTS_BYTES)
        self._whole: dict[Endpoint, dict[int, AnyAmpFrame]] = {}  # of each stream that there is
        self._lacks: dict[Endpoint, tuple[int, int]] = {}  # the last frame in parts, and how often we asked

    @property
    def bytes(self) -> int:
        """The bytes of incomplete frames."""
        return self._parts.bytes

    @property
    def lacks(self) -> bool:
        """Is there a frame of which parts have come, and not all?"""
        return bool(self._lacks)

    def take(self, now: Instant, source: Domain, part: FramePart) -> AnyAmpFrame | None:
        """The frame, if it is whole now."""
        data, stream = part.data, part.data.stream
        if host_of(stream) != source or stream not in self._whole:
            return None
        number = data.run.first
        if (again := self._whole[stream].get(number)) is not None:
            return again
        whole = self._parts.take(now, data) if data.size else data
        if whole is None:
            self._lacks[stream] = (number, 0)
            return None
        if stream in self._lacks and self._lacks[stream][0] == number:
            del self._lacks[stream]
        frame = None if whole.size else decode_frame(payloads(whole.run)[0])
        if frame is not None:
            known = self._whole[stream]
            known[number] = frame
            if len(known) > WHOLE_KEPT:
                del known[next(iter(known))]
        return frame

    def asks(self, now: Instant) -> list[tuple[Domain, FrameNak]]:
        """For what is missing. As long as nothing comes of it, a few times: its sender's next round says if
        it is still wanted."""
        found: list[tuple[Domain, FrameNak]] = []
        for stream, (number, times) in list(self._lacks.items()):
            if times >= ASKS_MAX:
                del self._lacks[stream]
                continue
            self._lacks[stream] = (number, times + 1)
            naks = questions(stream, [Hole(number, number, now)], self._host, 1, self._parts)
            found += [(host_of(stream), FrameNak(nak)) for nak in naks]
        return found

    def meet(self, stream: Endpoint) -> None:
        """A station of which we know the host alone: it is there instead of an earlier life of it."""
        if stream not in self._whole:
            for gone in [each for each in self._whole if host_of(each) == host_of(stream)]:
                self._lacks.pop(gone, None)
                self._parts.forget(gone)
                del self._whole[gone]
            self._whole[stream] = {}

    def follow(self, stations: Iterable[AmpStationId]) -> None:
        """Only these stations have a part in the group, each with one stream."""
        streams = frozenset([frame_stream(each) for each in stations])
        for gone in [each for each in self._whole if each not in streams]:
            self._lacks.pop(gone, None)
            self._parts.forget(gone)
        self._whole = {each: self._whole.get(each, {}) for each in streams}
