"""Forward error correction between delegates, off unless `parity_frames` says otherwise (X-086).

    Data Data ... Data │ Parity Parity        a block: up to `parity_frames` frames, then two that make up for
                                              any two that are lost

Where a repair costs a round trip, a quarter more datagrams is often cheaper. The first parity is the
exclusive or of the frames; in the second each frame is multiplied by a power of two in GF(256), as in RAID 6.
Both are computed on whole blocks, at the speed of C.

A block that is not full after `parity_close_s` is closed as it is. A receiver waits that long before it
requests what is missing; a rebuilt frame is treated as a received one.
"""

from functools import lru_cache
from typing import Final

from msgspec import Struct, field, msgpack

from rostra.errors import UNDECODABLE
from rostra.protocols.flow.checks import check_data_message
from rostra.protocols.flow.messages import Data, Numbered, Parity
from rostra.protocols.flow.runs import is_sound

FRAMES_MAX: Final = 255
"""Frames in one block: the number of different powers of two in GF(256)."""

BLOCKS_KEPT: Final = 16
"""Blocks of one link that may still be completed. Losses in older ones are requested like any other."""

_encoder = msgpack.Encoder()
_decoder: msgpack.Decoder[Data] = msgpack.Decoder(Data)


class ParityMaker:
    """The sending end of one link. Blocks are numbered from `first`, which no earlier life has used."""

    def __init__(self, frames: int, first: int = 0) -> None:
        self._frames_max = frames
        self._block = first
        self._frames: list[bytes] = []

    @property
    def open(self) -> bool:
        """A block has begun and is not closed."""
        return bool(self._frames)

    def add(self, data: Data) -> list[Numbered | Parity]:
        numbered = Numbered(self._block, len(self._frames), data)
        self._frames.append(_encoder.encode(data))
        if len(self._frames) < self._frames_max:
            return [numbered]
        return [numbered, *self.close()]

    def close(self) -> list[Numbered | Parity]:
        """The parities of the present block; the next frame begins a new one."""
        frames, self._frames = self._frames, []
        block, self._block = self._block, self._block + 1
        if not frames:
            return []
        size, longest = len(frames), max(map(len, frames))
        lengths = tuple(map(len, frames))
        return [
            Parity(block, size, _sum(dict(enumerate(frames)), longest, which), lengths, which)
            for which in (0, 1)
        ]


class _Block(Struct):
    frames: dict[int, bytes] = field(default_factory=dict)
    parities: dict[int, Parity] = field(default_factory=dict)


class ParityReader:
    """The receiving end of one link."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}

    def hear(self, message: Numbered | Parity) -> list[Data]:
        """The data in this message, and the data that can be rebuilt with it."""
        block = self._blocks.get(message.block)
        if block is None:
            block = self._blocks[message.block] = _Block()
            if len(self._blocks) > BLOCKS_KEPT:
                del self._blocks[min(self._blocks)]
        if isinstance(message, Parity):
            block.parities[message.which] = message
            return self._rebuild(block)
        if message.index in block.frames:
            return []  # rebuilt already, or come twice
        if message.index >= FRAMES_MAX:
            return [message.data]  # no block of ours
        block.frames[message.index] = _encoder.encode(message.data)
        return [message.data, *self._rebuild(block)]

    def _rebuild(self, block: _Block) -> list[Data]:
        parities = block.parities
        if not parities:
            return []
        shape, *others = [(each.size, each.lengths, len(each.code)) for each in parities.values()]
        size, lengths, longest = shape
        missing = [index for index in range(size) if index not in block.frames]
        if not missing or len(missing) > len(parities):
            return []
        if (
            any(other != shape for other in others)
            or len(lengths) != size
            or size > FRAMES_MAX
            or any(index >= size or len(frame) > longest for index, frame in block.frames.items())
        ):
            return []  # no block of ours
        rest = {
            which: _xor(parity.code, _sum(block.frames, longest, which), longest)
            for which, parity in parities.items()
        }
        found: dict[int, bytes] = {}
        if len(missing) == 1:
            [index] = missing
            found[index] = rest[0] if 0 in rest else _times(rest[1], _inverse(_power(index)))
        else:
            one, other = missing
            both = _power(one) ^ _power(other)
            found[one] = _times(_xor(rest[1], _times(rest[0], _power(other)), longest), _inverse(both))
            found[other] = _xor(rest[0], found[one], longest)
        rebuilt = []
        for index in missing:
            frame = found[index][: lengths[index]]
            try:
                data = _decoder.decode(frame)
                run = check_data_message(data)
            except UNDECODABLE:
                return []  # a parity that does not belong to these frames
            if run is not None and not is_sound(run):
                return []
            rebuilt.append(data)
            block.frames[index] = frame
        return rebuilt


def _sum(frames: dict[int, bytes], longest: int, which: int) -> bytes:
    """Two sums of all frames; in the second each is multiplied by the power of two of its place."""
    total = 0
    for index, frame in frames.items():
        total ^= int.from_bytes(frame if which == 0 else _times(frame, _power(index)), "little")
    return total.to_bytes(longest, "little")


def _xor(one: bytes, other: bytes, longest: int) -> bytes:
    return (int.from_bytes(one, "little") ^ int.from_bytes(other, "little")).to_bytes(longest, "little")


def _times(frame: bytes, factor: int) -> bytes:
    return frame.translate(_table(factor))


def _product(one: int, other: int) -> int:
    """In GF(256), with the polynomial 0x11D."""
    product = 0
    while other:
        if other & 1:
            product ^= one
        one <<= 1
        if one & 0x100:
            one ^= 0x11D
        other >>= 1
    return product


@lru_cache(maxsize=256)
def _table(factor: int) -> bytes:
    return bytes([_product(factor, each) for each in range(256)])


@lru_cache(maxsize=256)
def _power(exponent: int) -> int:
    return 1 if exponent == 0 else _product(_power(exponent - 1), 2)


@lru_cache(maxsize=256)
def _inverse(factor: int) -> int:
    return next(each for each in range(1, 256) if _product(factor, each) == 1)
