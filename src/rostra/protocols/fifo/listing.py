"""Members of a group that speaks, as those see them who only ask who is there: its delegates are members that
no program knows, and their records hold keys."""

from typing import Any

from msgspec.structs import replace

from rostra.groups.attributes import DelegateAttributes
from rostra.groups.members import Members
from rostra.protocols.fifo.messages import is_delegate
from rostra.protocols.relaxed import requests as ns


def shown(members: Members) -> Members:
    """Without delegates, true or false ones; the same tuple if there are none."""
    for member in members:
        if type(member.attributes) is DelegateAttributes:
            return tuple([each for each in members if type(each.attributes) is not DelegateAttributes])
    return members


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
        case ns.Left(endpoint=endpoint) if is_delegate(endpoint):
            return None
    return notice
