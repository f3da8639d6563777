"""A FIFO group's member list as watchers and resolvers get it: without delegates, which are members only for
the protocol, and whose records hold keys."""

from typing import Any, Final

from msgspec.structs import replace

from rostra.groups.attributes import DelegateAttributes
from rostra.groups.members import Members
from rostra.names import ROOT, Group
from rostra.protocols.fifo.messages import is_delegate
from rostra.protocols.relaxed import requests as ns

_NO_LIST: Final = ns.Absolute(Group("", ROOT), ())


def shown(members: Members) -> Members:
    """The members without delegates; the same tuple if there are none."""
    for member in members:
        if type(member.attributes) is DelegateAttributes:
            return tuple([each for each in members if type(each.attributes) is not DelegateAttributes])
    return members


def shown_notice(notice: Any) -> Any:
    """The notice as a watcher gets it; None if nothing is left of it."""
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


class ShownAnswers:
    """Answers to `Resolve`, with a cache of one: mostly the same list is asked for again."""

    __slots__ = ("_last", "_without_delegates")

    def __init__(self) -> None:
        self._without_delegates: Members = ()
        self._last = (_NO_LIST, _NO_LIST)  # with delegates, and as programs see it

    def seen(self, answer: ns.Absolute | ns.Resolved) -> ns.Absolute | ns.Resolved:
        if isinstance(answer, ns.Resolved):
            parts = tuple([(scope, shown(members)) for scope, members in answer.parts])
            return ns.Resolved(parts, answer.isolated)
        if answer.members is self._without_delegates:
            return answer
        if answer is not self._last[0]:
            seen = shown(answer.members)
            if seen is answer.members:
                self._without_delegates = seen
                return answer
            self._last = (answer, replace(answer, members=seen))
        return self._last[1]
