"""Messages of led membership.

    paper                     here                       way
    ASSERT, ASSERT-REPLY      Assert, AssertReply        agent to registrar and back: a datagram
    (none)                    NotRegistrar, SetReleased  the same
    (none)                    LeaderProbe, LeaderProbed  registrar to a suspected leader and back
    QUERY-LEADER              LeaderAsked, LeaderTold    any agent to the registrar and back
    QUERY-SET                 ListAsked, ListTold        any agent to the leader and back
    (connection set-up)       Hello, Beat, Bye           between two agents: a circuit
    (connection set-up)       AttachAsked, AttachOk,     on a circuit
                              AttachNo, DetachedFromSet
    UPDATE-TO-PARENT          ListReport                 on a circuit
    (none)                    ListChanges, RootMoved     on a circuit
    (transient sets)          AddedToSet, AddAnswered,   on a circuit
                              DeletedFromSet, MembersLeft, TransientGone
    (sequences)               SequenceData, -Taken,      source's agent to a destination's and back
                              -Replied, -Done

Agents have no addresses for each other, so the servers carry all of it: a `CarriedLetter` goes the way that
messages between programs go, and servers do not look inside. A datagram may be lost, repeated or overtaken.
A circuit is a link (`protocols/links`) between two agents whose packets are such letters.

A **list** is a tuple of entries, one per agent: what this agent says of its own members, with the life of the
agent and a version. Of two entries of one agent the newer counts. An entry names members without their host,
so no agent can list an endpoint of another host in its own entry.
"""

from collections.abc import Collection
from itertools import pairwise
from typing import Annotated, Final

from msgspec import Meta, Struct, msgpack
from msgspec.structs import replace

from rostra.errors import UNDECODABLE
from rostra.groups.attributes import PROOF_BYTES_MAX, DoubtAttributes, ProofAttributes
from rostra.groups.members import Member, Members
from rostra.names import Domain, Endpoint, Group
from rostra.names.checks import Natural, check_endpoint, check_of
from rostra.protocols.channel.messages import SPREAD_MAX
from rostra.protocols.led.config import (
    LETTER_BYTES_MAX,
    LIST_BYTES_MAX,
    MEMBERS_OF_AGENT_MAX,
    META_BYTES_MAX,
    ORIGINS_MAX,
    SEQUENCE_BYTES_MAX,
    SPREAD_BYTES_MAX,
)
from rostra.protocols.links.packets import AnyPacket, Beat, Bye, Data, Hello

CIRCUIT_MESSAGES_MAX: Final = 4_096

FRAMING_BYTES: Final = 9
"""What a member takes in a list besides its texts."""

MEMBER_BYTES_MAX: Final = FRAMING_BYTES + 4 * 128 + META_BYTES_MAX + PROOF_BYTES_MAX
ENTRY_BYTES_MAX: Final = 300
"""An agent's entry without its members."""

RESIGNED: Final = 0
"""The number of an `AttachNo` that answers no question."""


def check_local(name: str) -> None:
    """``web-1#7``, an endpoint without its host."""
    check_endpoint(f"host/{name}")


LocalName = Annotated[str, check_local, Meta(max_length=128)]


LocalNames = Annotated[tuple[LocalName, ...], Meta(max_length=MEMBERS_OF_AGENT_MAX)]


class LocalMember(Struct, frozen=True, array_like=True, order=True, gc=False):
    name: LocalName
    meta: Annotated[bytes, Meta(max_length=META_BYTES_MAX)] = b""
    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)] = b""  # in a group with a restricted name


class ListEntry(Struct, frozen=True, array_like=True):
    """What an agent says of its own members."""

    origin: Domain
    life: Natural
    version: Natural
    members: Annotated[tuple[LocalMember, ...], Meta(max_length=MEMBERS_OF_AGENT_MAX)] = ()
    in_doubt: bool = False  # a parent on the way lost its circuit a moment ago (S-063)

    @property
    def age(self) -> tuple[int, int, bool]:
        """The larger is the newer; of two that are equally old, the one without doubt counts."""
        return self.life, self.version, not self.in_doubt


class EntryChange(Struct, frozen=True, array_like=True):
    """What is different in the entry of an agent that was listed before, in the same life."""

    origin: Domain
    version: Natural
    joined: Annotated[tuple[LocalMember, ...], Meta(max_length=MEMBERS_OF_AGENT_MAX)] = ()
    left: Annotated[tuple[LocalName, ...], Meta(max_length=MEMBERS_OF_AGENT_MAX)] = ()


Entries = Annotated[tuple[ListEntry, ...], Meta(max_length=ORIGINS_MAX)]
"""Sorted by origin, each origin once."""


# Between neighbours in the tree of servers


class LedMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""


class CarriedLetter(LedMessage, frozen=True, tag=320):
    """From an agent or server to another; the servers between pass it on."""

    source: Domain
    to: Domain
    body: Annotated[bytes, Meta(max_length=LETTER_BYTES_MAX)]


class RegistrarsTold(LedMessage, frozen=True, tag=321):
    """A server tells those below it which server is the registrar of each scope around them; and its life."""

    registrars: Annotated[tuple[tuple[Domain, Domain, Natural], ...], Meta(max_length=64)]


class RegistrarsAsked(LedMessage, frozen=True, tag=322):
    """A host or server has to do with led groups: tell it of registrars, now and whenever they change."""


class SpreadLetter(LedMessage, frozen=True, tag=323):
    """One frame of a vehicle for several hosts (`channel/relay.py`): each gets its own names. The body is a
    `SequenceData` without them."""

    source: Domain
    to: Annotated[tuple[tuple[Domain, LocalNames], ...], Meta(max_length=SPREAD_MAX)]
    body: Annotated[bytes, Meta(max_length=SPREAD_BYTES_MAX)]

    @property
    def hosts(self) -> tuple[Domain, ...]:
        return tuple([host for host, _ in self.to])

    def only(self, hosts: Collection[Domain]) -> "SpreadLetter":
        return replace(self, to=tuple([place for place in self.to if place[0] in hosts]))


AnyLedMessage = CarriedLetter | RegistrarsTold | RegistrarsAsked | SpreadLetter


# Letters: datagrams


class Letter(Struct, frozen=True, array_like=True, tag_field="kind"):
    pass


class SetLetter(Letter, frozen=True):
    group: Group
    number: Natural  # of the question, for its sender


class Assert(SetLetter, frozen=True, tag=16):
    """I lead this set, unless another agent does."""

    life: Natural
    suspect: Domain | None = None  # whom I could not reach
    size: Natural = 0


class ProvenAssert(Assert, frozen=True, tag=30, kw_only=True):
    """The same of a restricted set, with the proof of an endpoint of that host: no other agent leads it."""

    endpoint: Endpoint
    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)]


class AssertReply(SetLetter, frozen=True, tag=17):
    """This agent leads the set."""

    leader: Domain


class LeadRefused(SetLetter, frozen=True, tag=33):
    """You do not lead this set, and no other agent does: a code of `rostra.errors`, and why."""

    code: str
    why: str


class NotRegistrar(SetLetter, frozen=True, tag=18):
    believed: Domain | None = None


class SetReleased(SetLetter, frozen=True, tag=19):
    """I have nothing of this set; nor do I lead it. Void if I asserted later."""

    life: Natural


class LeaderProbe(SetLetter, frozen=True, tag=20):
    """Do you lead?"""


class LeaderProbed(SetLetter, frozen=True, tag=21):
    leading: bool


class LeaderAsked(SetLetter, frozen=True, tag=22):
    """Who leads?"""


class ProvenLeaderAsked(LeaderAsked, frozen=True, tag=31, kw_only=True):
    """The same of a set that its authority closes, with the proof of an endpoint of that host."""

    endpoint: Endpoint
    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)]


class LeaderTold(SetLetter, frozen=True, tag=23):
    leader: Domain | None


class ListAsked(SetLetter, frozen=True, tag=24):
    """What is the list? A follower that has one names its version, and is answered when there is another."""

    life: Natural = 0
    version: Natural = 0


class ProvenListAsked(ListAsked, frozen=True, tag=32, kw_only=True):
    """The same of a set that its authority closes, with the proof of an endpoint of that host."""

    endpoint: Endpoint
    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)]


class ListTold(SetLetter, frozen=True, tag=25):
    """From a leader: the list, or none if it is the one that was named. From another agent: where to ask."""

    leading: bool
    parent: Domain | None = None
    life: Natural = 0
    version: Natural = 0
    entries: Entries | None = None


class SequenceData(SetLetter, frozen=True, tag=26):
    """A message of the sequence `number` of this source, for these endpoints of your host."""

    source: LocalName
    message: Natural
    to: LocalNames
    vehicle: Natural
    body: Annotated[bytes, Meta(max_length=SEQUENCE_BYTES_MAX)]


class SequenceTaken(SetLetter, frozen=True, tag=27):
    """The endpoints that got the message, those that are not there, and those that get messages of members
    only."""

    message: Natural
    taken: LocalNames = ()
    gone: LocalNames = ()
    refused: LocalNames = ()


class SequenceReplied(SetLetter, frozen=True, tag=28):
    replier: LocalName
    to: LocalName
    body: Annotated[bytes, Meta(max_length=SEQUENCE_BYTES_MAX)]


class SequenceDone(SetLetter, frozen=True, tag=29):
    """The sequence is closed."""

    source: LocalName
    to: LocalNames


SequenceLetter = SequenceData | SequenceTaken | SequenceReplied | SequenceDone

Datagram = (
    SequenceLetter
    | Assert
    | ProvenAssert
    | AssertReply
    | LeadRefused
    | NotRegistrar
    | SetReleased
    | LeaderProbe
    | LeaderProbed
    | LeaderAsked
    | ProvenLeaderAsked
    | LeaderTold
    | ListAsked
    | ProvenListAsked
    | ListTold
)


# On a circuit


class TreeMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    group: Group


class AttachAsked(TreeMessage, frozen=True, tag=1):
    """Be my parent; this is the list of my subtree."""

    number: Natural
    entries: Entries


class AttachOk(TreeMessage, frozen=True, tag=2):
    number: Natural
    root: Domain


class AttachNo(TreeMessage, frozen=True, tag=3):
    """I do not lead. Perhaps my parent does. Without a number (`RESIGNED`): be my child no longer."""

    number: Natural
    redirect: Domain | None = None


class ListReport(TreeMessage, frozen=True, tag=4):
    """The whole list of my subtree (UPDATE-TO-PARENT in the paper)."""

    entries: Entries


class ListChanges(TreeMessage, frozen=True, tag=5):
    """The same, as what changed since my last report on this circuit: entries of agents that are new to it,
    changes of others, and agents that are gone."""

    entries: Entries
    parts: Annotated[tuple[EntryChange, ...], Meta(max_length=ORIGINS_MAX)] = ()
    gone: Annotated[tuple[Domain, ...], Meta(max_length=ORIGINS_MAX)] = ()


class DetachedFromSet(TreeMessage, frozen=True, tag=6):
    """I am not your child any more."""


class RootMoved(TreeMessage, frozen=True, tag=7):
    """The root of our tree is there now."""

    root: Domain


class AddedToSet(TreeMessage, frozen=True, tag=8):
    """The owner of this transient set added these endpoints of yours (T_ADD). `again`: your host is in reach
    again, and they were in it."""

    members: LocalNames
    again: bool = False


class AddAnswered(TreeMessage, frozen=True, tag=9):
    """Which of them are in it; which are not here; and which had left it."""

    taken: LocalNames = ()
    unknown: LocalNames = ()
    left: LocalNames = ()


class DeletedFromSet(TreeMessage, frozen=True, tag=10):
    """The owner took these out (T_DELETE)."""

    members: LocalNames


class MembersLeft(TreeMessage, frozen=True, tag=11):
    """These left by themselves (T_LEFT)."""

    members: LocalNames


class TransientGone(TreeMessage, frozen=True, tag=12):
    """There is no such set any more (T_GONE)."""


class ListRefused(TreeMessage, frozen=True, tag=13):
    """With the list of your subtree mine would be too large. Of these agents I keep what they said in this
    version, or nothing (0): members that are newer have to go."""

    kept: Annotated[tuple[tuple[Domain, Natural], ...], Meta(max_length=ORIGINS_MAX)]


TransientMessage = AddedToSet | AddAnswered | DeletedFromSet | MembersLeft | TransientGone
TreeOnly = (
    AttachAsked | AttachOk | AttachNo | ListReport | ListChanges | DetachedFromSet | RootMoved | ListRefused
)
AnyTreeMessage = TreeOnly | TransientMessage


class CircuitData(Struct, frozen=True, array_like=True, tag_field="kind", tag=2):
    """`Data` with typed messages."""

    mine: Natural
    yours: Natural
    number: Natural
    received: Natural
    messages: Annotated[tuple[AnyTreeMessage, ...], Meta(max_length=CIRCUIT_MESSAGES_MAX)]


AnyLetter = Datagram | AnyPacket

_Letters = Datagram | Hello | CircuitData | Beat | Bye
_decoder: msgpack.Decoder[_Letters] = msgpack.Decoder(_Letters)
_encode: Final = msgpack.Encoder().encode
_check: Final = check_of(_Letters)


def encode_letter(letter: AnyLetter) -> bytes:
    return _encode(letter)


def decode_letter(body: bytes) -> AnyLetter | None:
    """None if this is no letter."""
    try:
        letter = _decoder.decode(body)
        _check(letter)
    except UNDECODABLE:
        return None
    if isinstance(letter, CircuitData):
        return Data(letter.mine, letter.yours, letter.number, letter.received, letter.messages)
    return letter


# Lists


def is_sound(entries: Entries) -> bool:
    """Is it sorted, with each agent and each member once?"""
    origins = [entry.origin for entry in entries]
    if any(one >= other for one, other in pairwise(origins)):
        return False
    for entry in entries:
        names = [member.name for member in entry.members]
        if any(one >= other for one, other in pairwise(names)):
            return False
    return True


def newest(reports: "tuple[Entries, ...]", own: ListEntry) -> Entries:
    """The union of what children said, the newest of each origin; of our own only what we know (S-048)."""
    found = {entry.origin: entry for entry in reports[0]} if reports else {}
    for report in reports[1:]:
        for entry in report:
            known = found.get(entry.origin)
            if known is None or known.age < entry.age:
                found[entry.origin] = entry
    found[own.origin] = own
    return tuple([found[origin] for origin in sorted(found)])


def changes(group: Group, before: Entries, after: Entries) -> ListChanges:
    """What makes the list `after` of the list `before`."""
    known = {entry.origin: entry for entry in before}
    whole: list[ListEntry] = []
    parts: list[EntryChange] = []
    for entry in after:
        old = known.pop(entry.origin, None)
        if old is None or (old.life, old.in_doubt) != (entry.life, entry.in_doubt):
            whole.append(entry)
        elif old != entry:
            was, now = set(old.members), set(entry.members)
            names = {member.name for member in now}
            left = sorted([member.name for member in was if member.name not in names])
            parts.append(EntryChange(entry.origin, entry.version, tuple(sorted(now - was)), tuple(left)))
    return ListChanges(group, tuple(whole), tuple(parts), tuple(sorted(known)))


def changed(before: Entries, message: ListChanges) -> Entries | None:
    """The list after these changes; none if they are not of this list."""
    table = {entry.origin: entry for entry in before}
    for origin in message.gone:
        table.pop(origin, None)
    for part in message.parts:
        entry = table.get(part.origin)
        if entry is None:
            return None
        members = {member.name: member for member in entry.members}
        for name in part.left:
            members.pop(name, None)
        members.update({member.name: member for member in part.joined})
        listed = tuple([members[name] for name in sorted(members)])
        table[part.origin] = ListEntry(part.origin, entry.life, part.version, listed, entry.in_doubt)
    table.update({entry.origin: entry for entry in message.entries})
    return tuple([table[origin] for origin in sorted(table)])


def members_of(entries: Entries) -> Members:
    """As programs see the list. A member's stamp stays the same while it is listed: versions are of whole
    entries."""
    listed = [
        Member(
            Endpoint(f"{entry.origin}/{member.name}"),
            (entry.life, 0),
            member.meta,
            attributes=_attributes(entry, member),
        )
        for entry in entries
        for member in entry.members
    ]
    return tuple(sorted(listed, key=lambda member: member.endpoint))


def _attributes(entry: ListEntry, member: LocalMember) -> ProofAttributes | DoubtAttributes | None:
    if entry.in_doubt:
        return DoubtAttributes(member.proof)
    return ProofAttributes(member.proof) if member.proof else None


def fits(entries: Entries) -> bool:
    """Can this list be sent? Counted exactly only where it could be too large."""
    if size_of(entries) * MEMBER_BYTES_MAX + len(entries) * ENTRY_BYTES_MAX <= LIST_BYTES_MAX:
        return True
    members = [each for entry in entries for each in entry.members]
    text = sum([len(each.name.encode()) + len(each.meta) + len(each.proof) for each in members])
    return text + len(members) * FRAMING_BYTES + len(entries) * ENTRY_BYTES_MAX <= LIST_BYTES_MAX


def size_of(entries: Entries) -> int:
    return sum([len(entry.members) for entry in entries])
