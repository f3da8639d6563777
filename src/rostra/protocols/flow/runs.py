"""Runs of messages: how programs make and read their blocks, and how holders cut them.

    block  =  bin bin bin ...        MessagePack binaries, one per message, nothing around them

Programs encode and decode a whole block with one call into `msgspec`. Agents and delegates forward it
unparsed. Only a cut has to walk over the messages before it: for a repair of part of a run, a datagram
smaller than a run, a window that ends inside one. If all messages of a run have one size, as is usual, the
cut is computed (`_stride`).
"""

from collections.abc import Iterator, Sequence

from msgspec import msgpack

from rostra.errors import UNDECODABLE
from rostra.protocols.flow.messages import Data, Run

_encoder = msgpack.Encoder()
_decoder = msgpack.Decoder(list[bytes])
_HEADS = {0xC4: 2, 0xC5: 3, 0xC6: 5}  # what stands before a binary, by its first byte
_looker = msgpack.Decoder(list[memoryview])  # the same, without copying anything


def block_of(payloads: Sequence[bytes]) -> bytes:
    """The block that a program submits for these messages."""
    array, begin = array_of(payloads)
    return array[begin:]


def array_of(payloads: Sequence[bytes]) -> tuple[bytes, int]:
    """The same with something before it; and where it begins."""
    count = len(payloads)
    return _encoder.encode(payloads), 1 if count < 16 else 3 if count < 65_536 else 5


def payloads(run: Run) -> list[bytes]:
    """The messages of a run, as a program gets them."""
    return _decoder.decode(_as_array(run))


def is_sound(run: Run) -> bool:
    """Does this block hold exactly `count` messages? Visits every one of them."""
    if _stride(run):
        return True
    try:
        return run.count > 0 and len(_looker.decode(_as_array(run))) == run.count
    except UNDECODABLE:
        return False


def _as_array(run: Run) -> bytes:
    return b"".join((b"\xdd", run.count.to_bytes(4, "big"), run.block))


def cut(run: Run, first: int, end: int) -> Run:
    """The messages from `first` up to and not including `end`; they must be in the run."""
    if first <= run.first and end >= run.end:
        return run
    block, place = run.block, 0
    number = run.first
    if stride := _stride(run):
        first, end = max(first, run.first), min(end, run.end)
        part = block[(first - number) * stride : (end - number) * stride]
        return Run(first, end - first, part, run.at, run.view)
    while number < first:
        place = _after(block, place)
        number += 1
    begin = place
    if end >= run.end:
        return Run(first, run.end - first, block[begin:], run.at, run.view)
    while number < end:
        place = _after(block, place)
        number += 1
    return Run(first, end - first, block[begin:place], run.at, run.view)


def take(run: Run, bytes_max: int) -> int:
    """How many of the first messages fit; at least one."""
    if len(run.block) <= bytes_max:
        return run.count
    block, place, number = run.block, 0, 0
    if stride := _stride(run):
        return max(1, bytes_max // stride)
    while True:
        place = _after(block, place)
        if place > bytes_max:
            return max(1, number)
        number += 1


def datagrams(data: Data, bytes_max: int) -> Iterator[Data]:
    """The same data in pieces that fit a datagram each: runs cut between messages, and a message that is too
    large alone in parts."""
    run = data.run
    if len(run.block) <= bytes_max or data.size:
        yield data
        return
    block, begin, place = run.block, 0, 0
    first = number = run.first
    if (stride := _stride(run)) and stride <= bytes_max:
        each = bytes_max // stride
        for number in range(run.first, run.end, each):
            yield _with_run(data, cut(run, number, number + each))
        return
    while number < run.end:
        after = _after(block, place)
        if after - begin > bytes_max and number > first:
            yield _with_run(data, Run(first, number - first, block[begin:place], run.at, run.view))
            begin, first = place, number
        if after - place > bytes_max:
            alone = Run(number, 1, block[place:after], run.at, run.view)
            yield from _parts(data, alone, bytes_max)
            begin, first = after, number + 1
        place = after
        number += 1
    if first < number:
        yield _with_run(data, Run(first, number - first, block[begin:place], run.at, run.view))


def _parts(data: Data, run: Run, bytes_max: int) -> Iterator[Data]:
    size = len(run.block)
    for offset in range(0, size, bytes_max):
        part = Run(run.first, 1, run.block[offset : offset + bytes_max], run.at, run.view)
        yield Data(data.stream, part, data.high, data.stable, data.repair, data.hop, offset, size)


def _with_run(data: Data, run: Run) -> Data:
    # The rest of a run that is cut comes right behind. A receiver that knows of it would take it for lost.
    high = data.high if data.repair else min(data.high, run.end - 1)
    return Data(data.stream, run, high, data.stable, data.repair, data.hop)


def _stride(run: Run) -> int:
    """The size of each message, with its header, if all have the same; else 0. This is exact: the first
    header gives the place of the second, which is equal and so gives the place of the third, and so on."""
    block, count = run.block, run.count
    stride, rest = divmod(len(block), count) if count > 0 else (0, 1)
    head = _HEADS.get(block[0], 0) if block else 0
    if rest or stride < head or not head or _after(block, 0) != stride:
        return 0
    if count == 1:
        return stride
    for nth in range(head):
        if block[nth::stride] != block[nth : nth + 1] * count:
            return 0
    return stride


def _after(block: bytes, place: int) -> int:
    """Where the message that begins here ends."""
    head = block[place]
    if head == 0xC4:
        return place + 2 + block[place + 1]
    if head == 0xC5:
        return place + 3 + int.from_bytes(block[place + 1 : place + 3], "big")
    assert head == 0xC6, "a block that no program of ours made: sound ones are checked at the door"
    return place + 5 + int.from_bytes(block[place + 1 : place + 5], "big")
