"""The types that bodies are decoded as: whole, and loose.

A body is decoded **whole**, in one call, whenever that works. **Loose** types leave the parts of a body as
bytes, to be decoded one by one where the whole could not be: a peer of a newer version may have put a message
into the batch that we do not know, and the others must still be read.
"""

from typing import Annotated, Final, TypeVar

from msgspec import Meta, Raw, Struct
from msgspec.msgpack import Decoder

from rostra.errors import UNDECODABLE as UNDECODABLE
from rostra.errors import Malformed
from rostra.names import Group
from rostra.names.checks import Natural
from rostra.protocols.front.messages import Answered, AnyAnswer, AnyRequest, AnyTold, Told
from rostra.protocols.links.packets import Beat, Bye, Hello
from rostra.wire.frames import PACKET_MESSAGES_MAX, Refusal
from rostra.wire.numbers import Message
from rostra.wire.programs import AnyGroupItem, ToAgent, ToProgram

Body = memoryview | bytearray | Raw

T = TypeVar("T")


class WholeData(Struct, array_like=True, tag_field="kind", tag=2):
    """`Data` with typed messages; the class itself cannot say so, since links know nothing of what they
    carry."""

    mine: Natural
    yours: Natural
    number: Natural
    received: Natural
    messages: Annotated[tuple[Message, ...], Meta(max_length=PACKET_MESSAGES_MAX)]


class LooseData(Struct, array_like=True, tag_field="kind", tag=2):
    mine: Natural
    yours: Natural
    number: Natural
    received: Natural
    messages: Annotated[list[Raw], Meta(max_length=PACKET_MESSAGES_MAX)]


class LooseAsks(Struct, array_like=True, tag_field="kind", tag=3):
    asks: list[Raw]


class LooseAsk(Struct, array_like=True):
    token: Natural
    endpoint: Natural
    request: Raw


class LooseTells(Struct, array_like=True, tag_field="kind", tag=4):
    items: list[Raw]


class LooseAnswered(Struct, array_like=True, tag_field="kind", tag=1):
    token: int
    answer: Raw


class LooseTold(Struct, array_like=True, tag_field="kind", tag=2):
    endpoints: tuple[int, ...]
    notice: Raw


class LooseDelivery(Struct, array_like=True, tag_field="kind", tag=10):
    endpoint: Natural
    group: Group
    item: Raw


class LooseDeliveryToAll(Struct, array_like=True, tag_field="kind", tag=16):
    endpoints: tuple[Natural, ...]
    group: Group
    item: Raw


class LoneAnswer(Struct, array_like=True, tag_field="kind", tag=4):
    """A `Tells` of one answer."""

    items: tuple[LooseAnswered]


class NumberedShape(Struct, array_like=True):
    """All that is common to everything with a number."""

    kind: int


PACKET: Final = Decoder(Hello | WholeData | Beat | Bye)
TO_AGENT: Final = Decoder(ToAgent)
TO_PROGRAM: Final = Decoder(ToProgram)
REFUSAL: Final = Decoder(Refusal)

MESSAGE: Final = Decoder(Message)
REQUEST: Final = Decoder(AnyRequest)
ITEM: Final = Decoder(Answered | Told)
ANSWER: Final = Decoder(AnyAnswer)
NOTICE: Final = Decoder(AnyTold)

NUMBERED: Final = Decoder(NumberedShape)
LOOSE_DATA: Final = Decoder(LooseData)
LOOSE_ASKS: Final = Decoder(LooseAsks)
LOOSE_ASK: Final = Decoder(LooseAsk)
LOOSE_TELLS: Final = Decoder(LooseTells)
LOOSE_ANSWERED: Final = Decoder(LooseAnswered)
LOOSE_TOLD: Final = Decoder(LooseTold)
LOOSE_DELIVERY: Final = Decoder(LooseDelivery | LooseDeliveryToAll)
GROUP_ITEM: Final = Decoder(AnyGroupItem)
LONE_ANSWER: Final = Decoder(LoneAnswer)


def read(decoder: "Decoder[T]", body: Body, what: str) -> T:
    """Decode, or say in words what is wrong."""
    try:
        return decoder.decode(body)
    except UNDECODABLE as error:
        raise Malformed(f"{what}: {reason(error)}") from None


def reason(error: Exception) -> str:
    """What msgspec found wrong, fit for a log although it may quote the peer."""
    text = str(error)[:200]
    return text if text.isprintable() else ascii(text)
