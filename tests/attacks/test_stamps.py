"""A host joins with a stamp as large as links let through. Delegates tell stamps to newcomers everywhere,
which once could not read one above 2^62: nobody elsewhere got into a group that such a host was in."""

from rostra.groups.members import Cause, Member, Members
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.fifo.messages import Channel, Cut, CutEntry, Role, SyncReply, decode_control, encode
from rostra.protocols.links.packets import Data, Hello
from rostra.protocols.relaxed.messages import EndpointsJoined, MessageId
from rostra.wire import Encoder, FrameKind, FrameReader

US = Domain("us")
LIAR = Endpoint("us.h1/p#1000")
LARGEST = 2**63 - 1


def passes_the_door(stamp: tuple[int, int]) -> bool:
    members: Members = (Member(LIAR, stamp, b""),)
    joined = EndpointsJoined(MessageId(US, 1, 1), Group("g", Domain("world")), members, Cause.JOIN)
    encoder, reader = Encoder("w"), FrameReader("w", FrameKind.LINK)
    reader.feed(encoder.packet(Hello(1, 1, "w", US, 1, 0)))
    return reader.feed(encoder.packet(data := Data(1, 1, 1, 0, (joined,)))) == [data]


def test_what_links_let_through_about_a_member_can_be_told_to_newcomers() -> None:
    assert passes_the_door((LARGEST, LARGEST)) and not passes_the_door((LARGEST + 1, 0))
    floors = ((Domain("us.h1"), (LARGEST, LARGEST)),)
    cut = Cut(US, LARGEST, floors, True, (CutEntry(LIAR, (LARGEST, LARGEST), Role.BOTH, 1),))
    reply = SyncReply(Group("g", Domain("world")), 1, LARGEST, (cut,), Channel())
    assert decode_control(encode(reply)) == reply
