"""Why a call about an agreed group was refused, and what to do."""

from typing import Final

from rostra.errors import BY_CODE, BadInput, NoSuchGroup, NotAllowed, NotAvailable, Refused, RostraError
from rostra.names import Domain, Endpoint, Group, inside
from rostra.protocols.agreed.calls import AnyCall, OrderCall
from rostra.protocols.agreed.groups import AgreedGroup, Outcome
from rostra.protocols.agreed.orders import CreateGroup, MergeGroups, SplitGroup, groups_of
from rostra.protocols.relaxed.gate import Gate
from rostra.protocols.relaxed.registry import Registry

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
    "BadInput": "name other groups, each once",
    "NotAvailable": "make other groups, and let the members join them",
    "Refused": "first let other members have what the rule asks for: rostra views shows it",
    "TooLarge": "at most 64 attributes, 1024 bytes for a member, 4096 members, 4096 created groups",
}


_WHY_NOT_IN: Final = {
    "TooLarge": "{group} has as many members as a group can have; join another one",
    "Denied": "{group} is for members of {within} alone; join that first",
    "Invalid": "an agreed group cannot be of the kind that was asked for {group}; see survive and merge",
    "Terminated": "{group} is over; join another one",
    "Excluded": "it was put out of {group}; ask those who may change the group before you join it again",
    "Unreachable": "the set of {group} went on without the server on the way; ask again",
}
"""What a program is told whose join was not agreed on, by the outcome's code, and what to do."""

_CODES: Final = {
    **{error.__name__: error.code for error in BY_CODE.values()},
    "Denied": NotAllowed.code,
    "Invalid": BadInput.code,
}


def why_not_in(outcome: Outcome, known: AgreedGroup | None) -> tuple[str, str]:
    """The code of the error, and its text; nothing if it was done."""
    group, name = outcome.group, outcome.code
    within = Group(known.kind.within, group.scope) if known is not None and known.kind.within else group
    text = _WHY_NOT_IN.get(name)
    other = f"{group}: {name}" if name else ""
    return _CODES.get(name, name), other if text is None else text.format(group=group, within=within)


def error_of(group: Group, code: str, why: str) -> RostraError:
    """What the core-set answered, as an error: what is wrong, and behind a semicolon what to do."""
    if code == NoSuchGroup.code and not why:
        return no_such(group)
    what, _, fix = (why or f"{group} refused it").partition("; ")
    return BY_CODE.get(code, Refused)(what, fix=fix)


def no_such(group: Group) -> NoSuchGroup:
    """For those that it is closed to, as well."""
    return NoSuchGroup(_WHY["NoSuchGroup"].format(group=group), fix=_FIX["NoSuchGroup"])


def groups_named(group: Group, call: AnyCall) -> tuple[Group, ...]:
    """All that a call about a group is about."""
    return groups_of(group, call.order) if isinstance(call, OrderCall) else (group,)


def why_not_restricted(group: Group, call: AnyCall) -> str:
    """Why a call about a restricted name is refused; empty if it may be. Its members come with proofs, which
    are for one name: it is made by the first of them, and not split or merged."""
    named = [each for each in groups_named(group, call) if "!" in each.name]
    order = call.order if isinstance(call, OrderCall) else None
    if named and isinstance(order, CreateGroup | SplitGroup | MergeGroups):
        return f"{named[0]} is a restricted name: its members join it, each with a proof"
    return ""


def is_for_members(group: Group, call: AnyCall, caller: Endpoint, known: AgreedGroup) -> bool:
    """Would this program change a restricted group that it is not in?"""
    return (
        "!" in group.name
        and isinstance(call, OrderCall)
        and all(each.endpoint != caller for each in known.view.ids)
    )


def lets_others_in(gate: Gate, group: Group, call: AnyCall) -> Group | None:
    """A closed group that would begin with members of groups that are open to more than it is."""
    before: tuple[Group, ...]
    after: tuple[Group, ...]
    match call:
        case OrderCall(SplitGroup(one, other)):
            before, after = (group,), (one, other)
        case OrderCall(MergeGroups(second, new)):
            before, after = (group, second), (new,)
        case _:
            return None
    for each in after:
        allowed = gate.allowed_in(each)
        if allowed is not None and not all(_is_within(gate.allowed_in(one), allowed) for one in before):
            return each
    return None


def _is_within(paths: tuple[Domain, ...] | None, allowed: tuple[Domain, ...]) -> bool:
    return paths is not None and all(any(inside(each, path) for each in allowed) for path in paths)


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


def check_disk(registry: Registry, group: Group, host: Domain) -> None:
    """Raise unless this host can keep on disk what members of a group with ``stable="disk"`` are promised."""
    if registry.logs is None:
        raise NotAvailable(
            f'{group} has stable="disk", and the agent of {host} has no state directory',
            fix="give it one with --state",
        )
    registry.own.check_room()
