"""Members of one host that have not had their first list of a group.

The list contains or supersedes every change that was told before it (C-066). So a newcomer need not be told
that somebody joined who only listens: there is no stream to begin, and the list will say so. When a thousand
join at once, each would else be told of every other, only to be given the whole list at the end.

What is noted, once for all newcomers of the host, is the latest record of each: if a list has an older one,
as it may of somebody who left and joined again, the later one counts (C-082).
"""

from msgspec.structs import replace

from rostra.groups.attributes import FifoAttributes
from rostra.groups.members import Member, Members, unite
from rostra.names import Endpoint
from rostra.protocols.fifo.messages import attributes_of
from rostra.protocols.relaxed.requests import Absolute, Joined


class Newcomers:
    __slots__ = ("_completed", "_latest", "waiting")

    def __init__(self) -> None:
        self.waiting: set[Endpoint] = set()
        self._latest: dict[Endpoint, Member] = {}
        self._completed: tuple[Absolute, Absolute] | None = None  # the last list, and what became of it

    def need_not_hear(self, notice: object) -> bool:
        """Is this nothing but that some joined who only listen? Then it is noted."""
        if not isinstance(notice, Joined) or notice.complete_for is not None:
            return False
        if not all(map(_only_listens, notice.members)):
            return False
        unite(self._latest, notice.members)
        self._completed = None
        return True

    def complete(self, listed: Absolute) -> Absolute:
        """The list as a newcomer is given it. Most lists are for many newcomers: one look is for all."""
        if self._completed is None or self._completed[0] is not listed:
            members = self._later(listed.members)
            completed = listed if members == listed.members else replace(listed, members=members)
            self._completed = (listed, completed)
        return self._completed[1]

    def _later(self, members: Members) -> Members:
        latest = self._latest
        return tuple(
            [
                later
                if (later := latest.get(member.endpoint)) is not None and later.stamp > member.stamp
                else member
                for member in members
            ]
        )


def _only_listens(member: Member) -> bool:
    attributes = attributes_of(member)
    return isinstance(attributes, FifoAttributes) and not attributes.role.sends
