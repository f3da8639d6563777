"""What arrives from the network is checked here once, so that the cores never meet a hostile name or number.

MessagePack and the message classes already see to the shape: the right fields, of the right types. What
remains are values that have the right type and are still wrong, and each of them is looked at:

- every path, endpoint and group name obeys the grammar of `rostra.names` and is in its canonical form;
- every number is in 0 .. 2^63-1, so that adding to it, comparing it and sending it on are safe;
- every text meant for people is short and printable, so that it can go to a log;
- every duration is a finite number of seconds.

What travels inside as opaque bytes (attachments, control messages) is checked where it is decoded, since no
server on the way looks into it.
"""

from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any, Final

from rostra.core.records import KEY_LENGTH_MAX, RECORD_BYTES_MAX, KeyedRecord
from rostra.errors import UNDECODABLE, BadInput
from rostra.groups.attributes import DelegateAttributes
from rostra.groups.kinds import GroupKind
from rostra.groups.members import Because, Members, Part, Stamp
from rostra.names import (
    Group,
    host_of,
    is_reserved,
    parse_endpoint,
    parse_endpoint_name,
    parse_scope,
)
from rostra.names.checks import NUMBER_MAX as NUMBER_MAX
from rostra.names.checks import check_endpoint as _endpoint
from rostra.names.checks import check_moment as _moment
from rostra.names.checks import check_number as _number
from rostra.names.checks import check_of
from rostra.names.checks import check_own_group as _own_group
from rostra.names.checks import check_own_name as _own_name
from rostra.names.checks import check_path as _path
from rostra.names.checks import check_relayed_group as _relayed_group
from rostra.names.checks import check_relayed_name as _relayed_name
from rostra.names.checks import check_subject as _subject
from rostra.names.checks import check_text as check_text
from rostra.names.checks import good_endpoints as _good_endpoints
from rostra.names.checks import good_paths as _good_paths
from rostra.names.checks import learn as _learn
from rostra.protocols.claims.messages import Claim, ClaimAnswer, ClaimReleased
from rostra.protocols.election.messages import (
    SHARED_BYTES_MAX,
    LeaderAnnounced,
    PreVoteGranted,
    PreVoteRefused,
    PreVoteRequest,
    RecordReplicated,
    ReplicateAll,
    ReplicateRecord,
    Shared,
    VoteGranted,
    VoteRefused,
    VoteRequest,
)
from rostra.protocols.fifo.messages import whereabouts
from rostra.protocols.fifo.requests import Enter, Exit
from rostra.protocols.links.packets import AnyPacket, Beat, Bye, Data, Hello
from rostra.protocols.relaxed.messages import (
    REPORT_BYTES_MAX,
    DomainFailed,
    EndpointLeft,
    EndpointsJoined,
    Inquiry,
    InterestChanged,
    LifeAsked,
    LifeTold,
    MessageId,
    RegistryTold,
    Report,
    ResolveReply,
    ResolveRequest,
    Routed,
    SyncDone,
    Undeliverable,
)
from rostra.protocols.relaxed.requests import (
    Close,
    Inspect,
    Join,
    Leave,
    Open,
    Recall,
    Register,
    Resolve,
    SendTo,
    SetOnline,
    Unregister,
    Unwatch,
    UnwatchLife,
    Watch,
    WatchLife,
)
from rostra.wire.programs import (
    AnyFrame,
    Arena,
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
)

DURATION_S_MAX: Final = 1e9
SUBMIT_MESSAGES_MAX: Final = 65_536
RETURNED_MAX: Final = 65_536
ARENA_BYTES_MAX: Final = 1 << 32
TICKET_BYTES: Final = 16

KEY_BYTES_MAX: Final = 64
"""What BLAKE2b takes."""


def check_packet(packet: AnyPacket) -> None:
    """Raise `BadInput` unless everything in the packet, its messages included, may be handed to a link."""
    _number(packet.mine)
    _number(packet.yours)
    match packet:
        case Data():
            _number(packet.number)
            _number(packet.received)
            for message in packet.messages:
                check_message(message)
        case Beat():
            _number(packet.received)
        case Hello():
            check_text(packet.world)
            _path(packet.path)
            if packet.to:
                _path(packet.to)
            _number(packet.incarnation)
            _number(packet.received)
            if len(packet.key) > KEY_BYTES_MAX:
                raise BadInput("a key that is too long")
        case Bye():
            check_text(packet.why)


def check_message(message: Any) -> None:
    """Raise `BadInput` unless this message of another server may be handed to a core."""
    _MESSAGE_CHECKS[type(message)](message)


def check_request(request: Any) -> None:
    """Raise `BadInput` unless the request may be handed to a core."""
    _REQUEST_CHECKS[type(request)](request)


def check_way(group: Group, source: str, to: str) -> None:
    """Raise `BadInput` unless a datagram's group, speaker and listener have good names."""
    _relayed_group(group)
    _path(source)
    if to:
        _path(to)


def check_place(host: str, address: str, port: int) -> None:
    """Raise `BadInput` unless this host may be there."""
    _path(host)
    try:
        ip_address(address)
    except ValueError:
        raise BadInput(f"{address!r} is not an IP address") from None
    if not 0 < port < 65_536:
        raise BadInput(f"{port} is not a port")


def check_program_frame(
    said: AnyFrame,
) -> None:
    """Raise `BadInput` unless the rest of what a program and its agent exchange is in order."""
    match said:
        case Submit():
            _number(said.endpoint)
            _own_group(said.group)
            if not 0 < said.count <= SUBMIT_MESSAGES_MAX:
                raise BadInput(f"{said.count} messages at once", fix=f"hand over 1 to {SUBMIT_MESSAGES_MAX}")
            _moment(said.at)
        case Reading():
            _number(said.endpoint)
            _own_group(said.group)
        case Delivery():
            # A program trusts its agent with what is inside: it was checked as it entered the world.
            _number(said.endpoint)
        case Lent():
            numbers = (said.endpoint, said.first, said.count, said.arena, said.begin, said.size)
            if not (min(numbers) >= 0 and max(numbers) <= NUMBER_MAX and said.count and said.size):
                raise BadInput("numbers of a block out of range")
        case Arena(number, size_bytes, ticket, share):
            _number(number)
            _number(share)
            if not 0 < size_bytes <= ARENA_BYTES_MAX or len(ticket) != TICKET_BYTES:
                raise BadInput(f"an arena of {size_bytes} bytes, with a ticket of {len(ticket)}")
        case Mapped(number) | Retired(number):
            _number(number)
        case Returned():
            _number(said.arena)
            if not 0 < len(said.begins) <= RETURNED_MAX:
                raise BadInput(f"{len(said.begins)} blocks given back at once", fix=f"1 to {RETURNED_MAX}")
            for begin in said.begins:
                _number(begin)
        case ProgramHello():
            check_text(said.world)
            check_text(said.program)
            check_text(said.secret)
            if len(said.ticket) > TICKET_BYTES:
                raise BadInput(f"a ticket of {len(said.ticket)} bytes")
            if said.to:
                _path(said.to)
        case ProgramWelcome():
            check_text(said.world)
            _path(said.path)
            _number(said.incarnation)
            _duration(said.silence_s)
        case Ping() | Pong():
            _number(said.number)
        case Goodbye():
            check_text(said.why)


def _stamp(stamp: Stamp) -> None:
    incarnation, counter = stamp
    if not (0 <= incarnation <= NUMBER_MAX and 0 <= counter <= NUMBER_MAX):
        raise BadInput(f"stamp {stamp} is out of range", fix="use numbers from 0 to 2^63-1")


def _duration(seconds: float) -> None:
    if not 0 <= seconds <= DURATION_S_MAX:  # false for NaN, too
        raise BadInput(f"{seconds} is not a duration", fix=f"use 0 to {DURATION_S_MAX:g} seconds")


# The parts that messages are made of


def _id(id: MessageId) -> None:
    if id.server not in _good_paths:
        _learn(_good_paths, id.server, parse_scope)
    if not (0 <= id.incarnation <= NUMBER_MAX and 0 <= id.sequence <= NUMBER_MAX):
        raise BadInput(f"{id} is out of range", fix="use numbers from 0 to 2^63-1")


def _members(members: Members) -> None:
    for member in members:
        if member.endpoint not in _good_endpoints:
            _learn(_good_endpoints, member.endpoint, parse_endpoint)
        incarnation, counter = member.stamp
        if not (0 <= incarnation <= NUMBER_MAX and 0 <= counter <= NUMBER_MAX):
            _stamp(member.stamp)
        if member.kind is not None:
            _check_kind(member.kind)
        if type(member.attributes) is DelegateAttributes:
            _reachable(member.attributes.address)


_check_kind = check_of(GroupKind)


def _reachable(address: str) -> None:
    try:
        whereabouts(address)
    except UNDECODABLE as error:
        raise BadInput("a delegate's address cannot be read", fix="send host:port and a key") from error


def _endpoints(endpoints: Iterable[str]) -> None:
    for endpoint in endpoints:
        _endpoint(endpoint)


def _part(part: Part | None) -> None:
    if part is not None:
        _path(part.domain)


def _because(because: Because) -> None:
    _path(because.accuser)
    _path(because.accused)
    check_text(because.what)


# One check for each message that servers exchange


def _endpoints_joined(message: EndpointsJoined) -> None:
    _id(message.id)
    _relayed_group(message.group)
    _members(message.members)
    _part(message.complete_for)


def _endpoint_left(message: EndpointLeft) -> None:
    _id(message.id)
    _relayed_group(message.group)
    _endpoint(message.endpoint)
    _stamp(message.stamp)


def _domain_failed(message: DomainFailed) -> None:
    _id(message.id)
    for group in message.groups:
        _relayed_group(group)
    _path(message.domain)
    _because(message.because)


def _group_alone(message: ResolveRequest | InterestChanged) -> None:
    _id(message.id)
    _relayed_group(message.group)


def _resolve_reply(message: ResolveReply) -> None:
    _id(message.id)
    _relayed_group(message.group)
    _members(message.members)


def _sync_done(message: SyncDone) -> None:
    _id(message.id)


def _routed(message: Routed) -> None:
    _id(message.id)
    _endpoint(message.source)
    _endpoints(message.destinations)


def _undeliverable(message: Undeliverable) -> None:
    _id(message.id)
    _endpoint(message.source)
    _endpoints(message.destinations)
    check_text(message.why)


def _life_asked(message: LifeAsked) -> None:
    _id(message.id)
    _path(message.watcher)
    _endpoint(message.endpoint)


def _life_told(message: LifeTold) -> None:
    _id(message.id)
    _path(message.watcher)
    _endpoint(message.endpoint)
    check_text(message.why)


def _registry_told(message: RegistryTold) -> None:
    _id(message.id)
    _path(message.scope)
    _number(message.version)
    for name in message.names:
        _relayed_name(name)


def _inquiry(message: Inquiry) -> None:
    _id(message.id)
    _path(message.asker)
    _path(message.to)
    _subject(message.about)


def _report(message: Report) -> None:
    _id(message.id)
    _path(message.asker)
    _path(message.of)
    check_text(message.why)
    if len(message.document) > REPORT_BYTES_MAX:
        raise BadInput(f"a memory of {len(message.document)} bytes", fix=f"send at most {REPORT_BYTES_MAX}")


# One check for each message between the seats of a replicated server


def _term(message: PreVoteGranted | VoteGranted | VoteRefused | LeaderAnnounced) -> None:
    _number(message.term)


def _term_and_version(message: PreVoteRequest | VoteRequest | RecordReplicated) -> None:
    _number(message.term)
    _number(message.version)


def _declined(message: PreVoteRefused) -> None:
    _number(message.term)
    if message.leader:
        _path(message.leader)


def _shared(message: Shared) -> None:
    if len(message.data) > SHARED_BYTES_MAX:
        raise BadInput(f"{len(message.data)} bytes shared at once", fix=f"send at most {SHARED_BYTES_MAX}")


def _claim(message: Claim) -> None:
    _claim_released(message)
    _check_kind(message.group_kind)


def _claim_released(message: Claim | ClaimReleased | ClaimAnswer) -> None:
    _id(message.id)
    _path(message.claimer)
    _relayed_group(message.group)


def _claim_answer(message: ClaimAnswer) -> None:
    _claim_released(message)
    if message.group_kind is not None:
        _check_kind(message.group_kind)
    _number(message.birth)
    check_text(message.code)
    check_text(message.why)


def _record(record: KeyedRecord) -> None:
    check_text(record.key)
    _number(record.version)
    if len(record.key) > KEY_LENGTH_MAX or len(record.data or b"") > RECORD_BYTES_MAX:
        raise BadInput(f"a record of {record.size} bytes", fix=f"at most {RECORD_BYTES_MAX} bytes")


def _replicate_record(message: ReplicateRecord) -> None:
    _number(message.term)
    _record(message.record)


def _replicate_all(message: ReplicateAll) -> None:
    _number(message.term)
    _number(message.version)
    for record in message.records:
        _record(record)
        if record.data is None or record.version > message.version:
            raise BadInput("a record that cannot be among all of that version")


_MESSAGE_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    EndpointsJoined: _endpoints_joined,
    EndpointLeft: _endpoint_left,
    DomainFailed: _domain_failed,
    ResolveRequest: _group_alone,
    ResolveReply: _resolve_reply,
    InterestChanged: _group_alone,
    SyncDone: _sync_done,
    Routed: _routed,
    Undeliverable: _undeliverable,
    LifeAsked: _life_asked,
    LifeTold: _life_told,
    RegistryTold: _registry_told,
    Inquiry: _inquiry,
    Report: _report,
    PreVoteRequest: _term_and_version,
    PreVoteGranted: _term,
    PreVoteRefused: _declined,
    VoteRequest: _term_and_version,
    VoteGranted: _term,
    VoteRefused: _term,
    LeaderAnnounced: _term,
    Shared: _shared,
    ReplicateRecord: _replicate_record,
    ReplicateAll: _replicate_all,
    Claim: _claim,
    ClaimReleased: _claim_released,
    ClaimAnswer: _claim_answer,
    RecordReplicated: _term_and_version,
}


# One check for each request of a program


def _open(request: Open) -> None:
    parse_endpoint_name(request.name)


def _nothing(request: Close) -> None:
    pass


def _inspect(request: Inspect) -> None:
    if not 0 <= request.after <= NUMBER_MAX:
        raise BadInput(f"{request.after} is not the number of an event", fix="use 0 to 2^63-1")
    _duration(request.wait_s)


def _one_group(request: SetOnline | Unwatch | Register | Unregister | Enter | Exit) -> None:
    _own_group(request.group)


def _join(request: Join) -> None:
    _own_group(request.group)
    if request.group_kind is not None or request.attributes is not None:
        raise BadInput("a program cannot say what its membership is for the group's services", fix="enter it")


def _leave(request: Leave) -> None:
    _own_group(request.group)
    if request.last is not None:
        raise BadInput("a program cannot say which message was its last", fix="exit the group")


def _watch(request: Watch) -> None:
    _own_group(request.group)
    _number(request.period)
    _number(request.number)


def _resolve(request: Resolve) -> None:
    _own_name(request.name)
    if request.scope is not None:
        _path(request.scope)
    if request.deadline_s is not None:
        _duration(request.deadline_s)


def _send_to(request: SendTo) -> None:
    _endpoints(request.destinations)
    for each in request.destinations:
        if is_reserved(host_of(each)):
            raise BadInput(f"{each} is part of the system", fix="send to an endpoint of a program")


def _recall(request: Recall) -> None:
    _subject(request.about)
    _path(request.of)


def _one_endpoint(request: WatchLife | UnwatchLife) -> None:
    _endpoint(request.endpoint)


_REQUEST_CHECKS: Final[dict[type, Callable[[Any], None]]] = {
    Open: _open,
    Close: _nothing,
    Join: _join,
    Leave: _leave,
    Resolve: _resolve,
    SetOnline: _one_group,
    Watch: _watch,
    Unwatch: _one_group,
    SendTo: _send_to,
    WatchLife: _one_endpoint,
    UnwatchLife: _one_endpoint,
    Register: _one_group,
    Unregister: _one_group,
    Inspect: _inspect,
    Recall: _recall,
    Enter: _one_group,
    Exit: _one_group,
}
