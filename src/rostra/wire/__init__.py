"""Messages to bytes, and back.

    frames     what stands around every message: length, version, kind, world; the size bounds
    numbers    the number of every message, append only
    programs   what programs and agents say to each other around requests and notices
    encoder    messages -> frames, long lists encoded once per turn
    reader     bytes -> checked messages, or one error that ends the stream; never an exception
    checks     no hostile name, number or text gets past here
    datagrams  what is said in groups, packed; read or nothing
    shapes     how bodies are decoded: whole, or piece by piece when a newer peer says something unknown

`docs/decisions/0008-what-the-wire-promises.md` says what is promised, and what it costs.
"""

from rostra.wire.encoder import Encoder
from rostra.wire.frames import (
    ANY_WORLD,
    FRAME_BYTES_MAX,
    HANDSHAKE_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    WIRE_VERSION,
    FrameKind,
    Refusal,
    world_tag,
)
from rostra.wire.programs import (
    NO_ENDPOINT,
    Answered,
    Arena,
    Ask,
    BadAsk,
    Delivery,
    Goodbye,
    Lent,
    Mapped,
    Ping,
    Pong,
    ProgramHello,
    ProgramWelcome,
    Reading,
    Retired,
    Returned,
    Submit,
    Told,
)
from rostra.wire.reader import Arrived, FrameReader

__all__ = [
    "ANY_WORLD",
    "FRAME_BYTES_MAX",
    "HANDSHAKE_BYTES_MAX",
    "MESSAGE_BYTES_MAX",
    "NO_ENDPOINT",
    "WIRE_VERSION",
    "Answered",
    "Arena",
    "Arrived",
    "Ask",
    "BadAsk",
    "Delivery",
    "Encoder",
    "FrameKind",
    "FrameReader",
    "Goodbye",
    "Lent",
    "Mapped",
    "Ping",
    "Pong",
    "ProgramHello",
    "ProgramWelcome",
    "Reading",
    "Refusal",
    "Retired",
    "Returned",
    "Submit",
    "Told",
    "world_tag",
]
