"""Validation of everything that arrives from the network, so that no core gets a hostile name or number.

MessagePack and the message classes see to the shape: the right fields, of the right types, with numbers and
sizes in the bounds that stand beside the fields (`msgspec.Meta`). What remains are names and texts, and each
of them is looked at, as the types of the fields say (`rostra.names.checks.check_of`):

- every path, endpoint and group name obeys the grammar of `rostra.names` and is in its canonical form;
- every text meant for people is short and printable, so that it can go to a log.

What travels inside as opaque bytes (attachments, control messages) is checked where it is decoded, since no
server on the way looks into it.
"""

from ipaddress import ip_address
from typing import Any, Final

from rostra.errors import UNDECODABLE, BadInput
from rostra.groups.attributes import DelegateAttributes
from rostra.groups.kinds import GroupKind
from rostra.names import Group
from rostra.names import checks as names
from rostra.names.checks import ChecksOf, check_of
from rostra.names.checks import check_text as check_text
from rostra.names.groups import GroupText
from rostra.protocols.agreed.casting import SetFrame
from rostra.protocols.agreed.groups import AgreedGroup, AgreedView, Outcome
from rostra.protocols.agreed.rules import LivingState
from rostra.protocols.election.messages import ReplicateAll
from rostra.protocols.fifo.messages import whereabouts
from rostra.protocols.front.messages import Goodbye, Reading, Submit
from rostra.protocols.links.packets import AnyPacket, Beat, Bye, Data, Hello
from rostra.protocols.relaxed.requests import Join, Leave
from rostra.wire.numbers import MESSAGES, REQUESTS
from rostra.wire.programs import ProgramHello, ProgramWelcome


def check_packet(packet: AnyPacket) -> None:
    """Raise `BadInput` unless every name in the packet, its messages included, may be handed to a link."""
    if type(packet) is Data:
        for message in packet.messages:
            _MESSAGE_CHECKS[type(message)](message)
    else:
        _PACKET_CHECKS[type(packet)](packet)


def check_message(message: Any) -> None:
    """Raise `BadInput` unless this message of another server may be handed to a core."""
    _MESSAGE_CHECKS[type(message)](message)


def check_set_frame(frame: SetFrame) -> None:
    """Raise `BadInput` unless this frame, its message included, may be handed to a core."""
    _check_frame(frame)


def check_request(request: Any) -> None:
    """Raise `BadInput` unless the request may be handed to a core."""
    _REQUEST_CHECKS[type(request)](request)


def check_program_frame(said: Any) -> None:
    """Raise `BadInput` unless the rest of what a program and its agent exchange is in order. A program trusts
    its agent with what is delivered and lent: it was checked as it entered the world."""
    check = _FRAME_CHECKS.get(type(said))
    if check is not None:
        check(said)


def check_way(group: Group, source: str, to: str) -> None:
    """Raise `BadInput` unless a datagram's group, speaker and listener have good names."""
    names.check_relayed_group(group)
    names.check_path(source)
    names.check_path_if_any(to)


def check_place(host: str, address: str, port: int) -> None:
    """Raise `BadInput` unless this host may be there."""
    names.check_path(host)
    try:
        ip_address(address)
    except ValueError:
        raise BadInput(f"{address!r} is not an IP address") from None
    if not 0 < port < 65_536:
        raise BadInput(f"{port} is not a port")


# What the types of the fields do not say


def _reachable(delegate: DelegateAttributes) -> None:
    try:
        whereabouts(delegate.address)
    except UNDECODABLE as error:
        raise BadInput("a delegate's address cannot be read", fix="send host:port and a key") from error


def _replicate_all(message: ReplicateAll) -> None:
    for record in message.records:
        check_text(record.key)
        if record.data is None or record.version > message.version:
            raise BadInput("a record that cannot be among all of that version")


def _join(request: Join) -> None:
    names.check_own_group(request.group)
    if request.group_kind is not None or request.attributes is not None:
        raise BadInput("a program cannot say what its membership is for the group's services", fix="enter it")


def _leave(request: Leave) -> None:
    names.check_own_group(request.group)
    if request.last is not None:
        raise BadInput("a program cannot say which message was its last", fix="exit the group")


def _agreed_group(group: AgreedGroup) -> None:
    """Its parts are groups too, which have no parts."""
    for part in group.parts:
        if part.apart:
            raise BadInput("a part of an agreed group with parts of its own")
        for view in part.views:
            _view(view)
        for outcome in part.outcomes:
            _outcome(outcome)
        _living(part.living)
        check_text(part.blocked)
        _kind(part.kind)


_view, _outcome, _living, _kind = map(check_of, (AgreedView, Outcome, LivingState, GroupKind))

_OF_SERVERS: Final[dict[Any, names.Check]] = {
    DelegateAttributes: _reachable,
    ReplicateAll: _replicate_all,
    AgreedGroup: _agreed_group,
}
_OF_PROGRAMS: Final[dict[Any, names.Check]] = {GroupText: names.check_own_name, Join: _join, Leave: _leave}

_PACKET_CHECKS: Final[dict[type, names.Check]] = ChecksOf((Hello, Beat, Bye))
_MESSAGE_CHECKS: Final = ChecksOf(MESSAGES.values(), _OF_SERVERS)
_check_frame: Final = check_of(SetFrame, _OF_SERVERS)
_REQUEST_CHECKS: Final = ChecksOf(REQUESTS.values(), _OF_PROGRAMS)
_FRAME_CHECKS: Final = {
    kind: check_of(kind, _OF_PROGRAMS) for kind in (ProgramHello, ProgramWelcome, Submit, Reading, Goodbye)
}
