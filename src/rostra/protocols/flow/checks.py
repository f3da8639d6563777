"""Checks of messages from the data channel, before a core sees them.

MessagePack and the message classes have checked the shape and the range of each number. This checks what
several fields mean together. The block of a run is checked by `runs.is_sound`.
"""

from typing import Final, get_args

from rostra.errors import BadInput
from rostra.groups.attributes import NUMBER_MAX
from rostra.names.checks import ChecksOf, check_endpoint
from rostra.protocols.flow.messages import AnyDataMessage, Data, Nak, Numbered, Run, StartSubmit

PARTED_BYTES_MAX: Final = (16 << 20) + 4096
"""The largest message, with the envelope that an aggregate puts around it."""

_NAMES: Final = ChecksOf(get_args(AnyDataMessage))


def check_data_message(message: AnyDataMessage) -> Run | None:
    """Raise `BadInput` unless a core may be given this message. Returns the run in it, if that is whole, so
    that the caller can check its block."""
    if type(message) is Data:
        return _check_data(message)
    if type(message) is Numbered:
        return _check_data(message.data)
    _NAMES[type(message)](message)
    match message:
        case Nak():
            for first, last in (*message.ranges, *[each for _, some in message.parts for each in some]):
                _check_range(first, last)
        case StartSubmit():
            _check_range(message.since, message.first)
    return None


def _check_data(data: Data) -> Run | None:
    run = data.run
    check_endpoint(data.stream)
    if not 0 < run.count <= NUMBER_MAX - run.first:
        raise BadInput(f"a run of {run.count} messages", fix="send at least one")
    if not data.size and not data.offset:
        return run
    if not data.offset < data.offset + len(run.block) <= data.size <= PARTED_BYTES_MAX or run.count > 1:
        raise BadInput(
            f"{len(run.block)} bytes from {data.offset} of {data.size}, of {run.count} messages",
            fix=f"send parts of one message, of at most {PARTED_BYTES_MAX} bytes",
        )
    return None


def _check_range(first: int, last: int) -> None:
    if first > last:
        raise BadInput(f"a range from {first} to {last}", fix="the smaller number first")
