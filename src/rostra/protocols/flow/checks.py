"""What is said on the data channel, checked before a core is handed it.

MessagePack and the message classes already see to the shape, and to each number by itself. Blocks of messages
are `runs.is_sound`'s.
"""

from typing import Final

from rostra.errors import BadInput
from rostra.groups.attributes import NUMBER_MAX
from rostra.names.checks import check_endpoint, check_path
from rostra.protocols.flow.messages import (
    Below,
    Data,
    Heartbeat,
    Nak,
    Numbered,
    Parity,
    Poll,
    Polled,
    Report,
    Run,
    Speech,
    StartSubmit,
    Status,
    SubmitReply,
)

PARTED_BYTES_MAX: Final = (16 << 20) + 4096
"""The largest message, and what an aggregate puts around it."""

PARITY_FRAMES_MAX: Final = 1024


def check_speech(message: Speech) -> Run | None:
    """Raise `BadInput` unless this message of the data channel may be handed to a core. The answer is the run
    in it, if that is whole, for a look at its block."""
    match message:
        case Data():
            return _check_data(message)
        case Numbered():
            return _check_data(message.data)
        case Nak():
            check_endpoint(message.stream)
            check_path(message.asker)
            for first, last in (*message.ranges, *[each for _, some in message.parts for each in some]):
                _check_range(first, last)
        case Below():
            check_endpoint(message.stream)
            check_path(message.holder)
        case Heartbeat():
            for pulse in message.pulses:
                check_endpoint(pulse.stream)
        case Status():
            check_endpoint(message.endpoint)
            for stream, _ in message.have:
                check_endpoint(stream)
        case Report():
            for entry in message.entries:
                check_endpoint(entry.stream)
                check_path(entry.lan)
        case Poll():
            check_endpoint(message.stream)
        case Polled():
            check_endpoint(message.stream)
        case Parity():
            if not 0 < message.size <= PARITY_FRAMES_MAX:
                raise BadInput(f"a parity over {message.size} frames", fix=f"at most {PARITY_FRAMES_MAX}")
            if message.which not in (0, 1):
                raise BadInput(f"parity {message.which} of a block", fix="there are two, 0 and 1")
        case StartSubmit():
            check_endpoint(message.origin)
            _check_range(message.since, message.first)
            if not message.since:
                raise BadInput("a submission from number 0 on", fix="numbers begin with 1")
        case SubmitReply():
            check_endpoint(message.origin)
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
