"""Messages to bytes, and back.

    frames     the header of every message: length, version, kind, world; the size bounds
    numbers    the number of every message, append only
    programs   the frames between programs and agents, around requests and notices
    encoder    messages -> frames, long lists encoded once per turn
    reader     bytes -> checked messages, or one error that ends the stream; never an exception
    checks     validation of names, numbers and texts
    datagrams  messages of groups, packed; a bad one is dropped
    shapes     how bodies are decoded: whole, or piece by piece when a newer peer sends something unknown

`docs/decisions/0008-what-the-wire-promises.md` says what is promised, and what it costs.
"""

from rostra.protocols.front.messages import NO_ENDPOINT as NO_ENDPOINT
from rostra.protocols.front.messages import Answered as Answered
from rostra.protocols.front.messages import Ask as Ask
from rostra.protocols.front.messages import BadAsk as BadAsk
from rostra.protocols.front.messages import Goodbye as Goodbye
from rostra.protocols.front.messages import Ping as Ping
from rostra.protocols.front.messages import Pong as Pong
from rostra.protocols.front.messages import Reading as Reading
from rostra.protocols.front.messages import Submit as Submit
from rostra.protocols.front.messages import Told as Told
from rostra.wire.encoder import Encoder as Encoder
from rostra.wire.frames import ANY_WORLD as ANY_WORLD
from rostra.wire.frames import FRAME_BYTES_MAX as FRAME_BYTES_MAX
from rostra.wire.frames import HANDSHAKE_BYTES_MAX as HANDSHAKE_BYTES_MAX
from rostra.wire.frames import MESSAGE_BYTES_MAX as MESSAGE_BYTES_MAX
from rostra.wire.frames import WIRE_VERSION as WIRE_VERSION
from rostra.wire.frames import FrameKind as FrameKind
from rostra.wire.frames import Refusal as Refusal
from rostra.wire.frames import world_tag as world_tag
from rostra.wire.programs import Arena as Arena
from rostra.wire.programs import Delivery as Delivery
from rostra.wire.programs import DeliveryToAll as DeliveryToAll
from rostra.wire.programs import Lent as Lent
from rostra.wire.programs import Mapped as Mapped
from rostra.wire.programs import ProgramHello as ProgramHello
from rostra.wire.programs import ProgramWelcome as ProgramWelcome
from rostra.wire.programs import Retired as Retired
from rostra.wire.programs import Returned as Returned
from rostra.wire.reader import Arrived as Arrived
from rostra.wire.reader import FrameReader as FrameReader
