"""Members of a group that speaks, as those see them who only ask who is there.

Attachments of such members carry what the protocol needs, with the program's own inside; and its delegates
are members that no program knows. Whoever resolves or watches the group is shown neither.
"""

from typing import Any

from msgspec.structs import replace

from rostra.groups.members import Member, Members
from rostra.protocols.fifo.messages import (
    Attributes,
    DelegateAttributes,
    attributes_of,
    decode_last_words,
    is_delegate,
)
from rostra.protocols.relaxed import requests as ns

_FIRST_BYTES = frozenset((0x92, 0x95))  # of the two attachments, as MessagePack arrays begin


def shown(members: Members) -> Members:
    """The same tuple if none of them speaks."""
    for member in members:
        if member.meta and member.meta[0] in _FIRST_BYTES:
            return tuple([seen for each in members if (seen := _as_seen(each)) is not None])
    return members


def _as_seen(member: Member) -> Member | None:
    match attributes_of(member) if member.meta else None:
        case Attributes(meta=meta):
            return Member(member.endpoint, member.stamp, meta)
        case DelegateAttributes():
            return None
    return member


def shown_notice(notice: Any) -> Any:
    """What a watcher is told; None if it is nothing to it."""
    match notice:
        case ns.Absolute(members=members):
            seen = shown(members)
            return notice if seen is members else replace(notice, members=seen)
        case ns.Joined(members=members, complete_for=part):
            seen = shown(members)
            if seen is members:
                return notice
            return replace(notice, members=seen) if seen or part is not None else None
        case ns.Left(endpoint=endpoint, meta=meta):
            if is_delegate(endpoint):
                return None
            words = decode_last_words(meta) if meta[:1] == b"\x92" else None
            return notice if words is None else replace(notice, meta=words.meta)
    return notice
