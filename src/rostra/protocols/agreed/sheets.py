"""Attributes of agreed groups and of their members: texts by name, agreed on like views (V-042, V-044).

    member   a program's own attachment, and its attributes      in `AgreedMember.attributes`
             and the proof of its authority, if the name is a restricted one (`proven.py`)
    group    its attributes, and whether it is over              in `AgreedView.attributes`

Of members most have no attributes. Their bytes are the attachment as it is; those of the others begin with a
byte that no MessagePack has. A group that a join made has no sheet at all: it is forgotten with its last
member. One with a sheet stays until it is deleted, and then its sheet says so (`over`).

Decoders are total: bytes that are no sheet are an attachment.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.msgpack import Decoder, encode

from rostra.errors import UNDECODABLE, BadInput
from rostra.groups.attributes import PROOF_BYTES_MAX
from rostra.names import Group
from rostra.protocols.agreed.changes import MemberId

PROPERTIES_MAX: Final = 64
KEY_MAX: Final = 64
VALUE_MAX: Final = 512

META_BYTES_MAX: Final = 1_024
"""What a member shows beside its address. A view of the largest group has a few megabytes of it."""

SHEET_BYTES_MAX: Final = META_BYTES_MAX + PROOF_BYTES_MAX + 16
"""The same with a proof."""

HISTORY_LENGTH_MAX: Final = 256
"""Views of one group that can be asked for: servers keep no more (`groups.VIEWS_KEPT`)."""

PUT_OUT_MAX: Final = 64
"""Members that were put out of which a group remembers it, so that their host does not bring them back."""

Properties = Annotated[
    tuple[
        tuple[
            Annotated[str, Meta(min_length=1, max_length=KEY_MAX)],
            Annotated[str, Meta(max_length=VALUE_MAX)],
        ],
        ...,
    ],
    Meta(max_length=PROPERTIES_MAX),
]
"""Sorted by name, each name once."""

ADMIN: Final = ("admin", "yes")
"""Members with this attribute are those who may change the group, as soon as there is one."""

_MARK: Final = b"\xc1"


class MemberSheet(Struct, frozen=True, array_like=True):
    meta: bytes = b""
    properties: Properties = ()
    proof: Annotated[bytes, Meta(max_length=PROOF_BYTES_MAX)] = b""


class GroupSheet(Struct, frozen=True, array_like=True):
    properties: Properties = ()
    over: str = ""  # why, if it is
    successors: tuple[Group, ...] = ()  # in which its members are since
    put_out: Annotated[tuple[MemberId, ...], Meta(max_length=PUT_OUT_MAX)] = ()  # the last ones
    by: str = ""  # the host whose program made it stay without members
    history: Annotated[int, Meta(ge=0, le=HISTORY_LENGTH_MAX)] = 0  # views that can be asked for; 0: all kept


_member: Final = Decoder(MemberSheet)
_group: Final = Decoder(GroupSheet)


def member_sheet(data: bytes) -> MemberSheet:
    if data.startswith(_MARK):
        try:
            return _member.decode(data[1:])
        except UNDECODABLE:
            pass
    return MemberSheet(data)


def encode_member(meta: bytes, properties: Properties, proof: bytes = b"") -> bytes:
    if proof:
        return _MARK + encode(MemberSheet(meta, properties, proof))
    if not properties and not meta.startswith(_MARK):
        return meta
    return _MARK + encode((meta, properties))


def with_proof(data: bytes, proof: bytes) -> bytes:
    """A member's bytes with this proof in place of any other."""
    if not proof and not data.startswith(_MARK):
        return data
    sheet = member_sheet(data)
    return data if sheet.proof == proof else encode_member(sheet.meta, sheet.properties, proof)


def group_sheet(data: bytes) -> GroupSheet | None:
    """None if the group has no sheet."""
    try:
        return _group.decode(data) if data else None
    except UNDECODABLE:
        return None


def encode_group(sheet: GroupSheet) -> bytes:
    if sheet.history:
        return encode(sheet)
    return encode((sheet.properties, sheet.over, sheet.successors, sheet.put_out, sheet.by))


def history_of(data: bytes) -> int:
    """How many views of the group can be asked for, the present one among them."""
    sheet = group_sheet(data)
    return HISTORY_LENGTH_MAX if sheet is None or not sheet.history else sheet.history


def is_over(data: bytes) -> bool:
    sheet = group_sheet(data)
    return sheet is not None and bool(sheet.over)


def has_sheet(data: bytes) -> bool:
    """Has the group a sheet? Then it stays without members until it is deleted."""
    return bool(data) and not is_over(data)


def stays_by(data: bytes) -> str | None:
    """The host by which it stays without members, as far as that is known; None: it does not."""
    sheet = group_sheet(data)
    return None if sheet is None or sheet.over else sheet.by


def put_out_of(data: bytes) -> tuple[MemberId, ...]:
    sheet = group_sheet(data)
    return () if sheet is None else sheet.put_out


def matches(properties: Properties, where: Properties) -> bool:
    """Has it all of these? Nothing is asked: yes."""
    return set(where) <= set(properties)


def changed(properties: Properties, changes: Iterable[tuple[str, str | None]]) -> Properties:
    """None takes an attribute away."""
    after = dict(properties)
    for key, value in changes:
        if value is None:
            after.pop(key, None)
        else:
            after[key] = value
    return tuple(sorted(after.items()))


def properties_of(attributes: Mapping[str, str]) -> Properties:
    """As a program says them."""
    if not isinstance(attributes, Mapping):
        raise BadInput(f"attributes={attributes!r}", fix='write a dict of texts: {"disk": "ssd"}')
    for key, value in attributes.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise BadInput(f"attribute {key!r}: {value!r}", fix="names and values are texts")
        if not key or len(key) > KEY_MAX or len(value) > VALUE_MAX:
            raise BadInput(
                f"attribute {key[:KEY_MAX]!r} is too long, or has no name",
                fix=f"names have 1 to {KEY_MAX} characters, values at most {VALUE_MAX}",
            )
    if len(attributes) > PROPERTIES_MAX:
        raise BadInput(f"{len(attributes)} attributes", fix=f"at most {PROPERTIES_MAX}")
    return tuple(sorted(attributes.items()))
