"""What a table of groups counts, so that a commit of one group need not look at all of them: a host may be in
thousands of groups, and when it is lost each of them changes."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from rostra.protocols.agreed.living import has_rule
from rostra.protocols.agreed.sheets import has_sheet

if TYPE_CHECKING:
    from rostra.protocols.agreed.groups import AgreedGroup


class GroupTally(Struct, frozen=True):
    groups: int = 0
    ruled: int = 0  # in which not every side lives
    described: int = 0  # with attributes
    within: int = 0  # subgroups
    empty: int = 0  # that may be forgotten

    def changed(self, before: "AgreedGroup | None", after: "AgreedGroup") -> "GroupTally":
        """With this one in the place of that."""
        old = _NONE if before is None else _marks(before)
        if (new := _marks(after)) == old:
            return self
        mine = (self.groups, self.ruled, self.described, self.within, self.empty)
        return GroupTally(*[each + now - was for each, now, was in zip(mine, new, old, strict=True)])


_NONE = (False, False, False, False, False)


def tally_of(groups: "Iterable[AgreedGroup]") -> GroupTally:
    tally = GroupTally()
    for each in groups:
        tally = tally.changed(None, each)
    return tally


def is_empty(known: "AgreedGroup") -> bool:
    """It has no members, none that a rule waits for, and was not created."""
    if any(each.view.members for each in (known, *known.apart)) or has_sheet(known.view.attributes):
        return False
    return not any(each.living.members or each.living.attempts for each in (known, *known.apart))


def _marks(known: "AgreedGroup") -> tuple[bool, bool, bool, bool, bool]:
    kind = known.kind
    return True, has_rule(kind), bool(known.view.attributes), bool(kind.within), is_empty(known)
