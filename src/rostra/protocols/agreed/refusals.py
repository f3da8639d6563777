"""Why a call about an agreed group was refused, and what to do."""

from typing import Final

from rostra.errors import NoSuchGroup
from rostra.names import Group
from rostra.protocols.agreed.calls import AnyCall, OrderCall
from rostra.protocols.agreed.orders import MergeGroups, SplitGroup

_WHY: Final = {
    "NameTaken": "there is a group {group} already",
    "NoSuchGroup": "there is no agreed group {group}",
    "NotMember": "not all that were named are members of {group}",
    "NotAllowed": "{group} has members with the attribute admin=yes, and only these may change it",
    "GroupBlocked": "this side of {group} stands still, or its parts are apart: nothing can be agreed",
    "TooLarge": "{group} would have too large attributes or too many members, or be one group too many",
    "BadInput": "this cannot be done with {group}",
    "Refused": "then no side of {group}, or of what becomes of it, could live by its rule",
    "NotAvailable": "groups with delivery cannot be split and merged yet, and {group} has one",
}

_FIX: Final = {
    "NameTaken": "choose another name, or delete that group first",
    "NoSuchGroup": "create it (rostra group create), or join it with create=True; rostra groups lists names",
    "NotMember": "look who is in it: rostra views",
    "NotAllowed": "ask one of them, or call as one",
    "GroupBlocked": "wait until the partition heals: rostra views says what it waits for",
    "Refused": "first let other members have what the rule asks for: rostra views shows it",
    "TooLarge": "at most 64 attributes, 1024 bytes for a member, 4096 members, 4096 created groups",
}


def no_such(group: Group) -> NoSuchGroup:
    """For those that it is closed to, as well."""
    return NoSuchGroup(_WHY["NoSuchGroup"].format(group=group), fix=_FIX["NoSuchGroup"])


def why_not(code: str, group: Group, call: AnyCall) -> str:
    """`code` is the name of the error."""
    if isinstance(call, OrderCall):
        match call.order, code:
            case SplitGroup(one, other), "NameTaken":
                return f"there is a group {one} or {other} already"
            case SplitGroup(), "BadInput":
                return f"{group} is split into two other groups, of the same scope"
            case MergeGroups(new=new), "NameTaken":
                return f"there is a group {new} already"
            case MergeGroups(other), "NoSuchGroup":
                return f"there is no agreed group {group} or {other}"
            case MergeGroups(other), "BadInput":
                return f"{group} and {other} are merged into a third group, if all are of one scope and kind"
    return _WHY.get(code, "{group} refused it: " + code).format(group=group)[:256]


def fix_of(code: str) -> str:
    return _FIX.get(code, "")
