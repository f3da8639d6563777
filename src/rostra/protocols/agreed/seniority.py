"""Passing seniority on before a host goes (`rostra drain`), so that what rank 0 does moves once in a rolling
restart.

    ranks   a  b  c  d     a's host is drained; c and d are of a higher level: restarted before
    then    c  d  a  b     rank 0 goes to the most senior of the highest level, which need not move again

**Level.** A member has the level of its agent, a number that an administrator raises with every roll-out
(``ROSTRA_LEVEL``). It stands among the member's attributes as ``level``; none is level 0. The level of a
group is the least of its members'.

Where we differ from the paper, and why: there a member's seniority never changes, and a leader that goes
hands over to the next in rank, which in a rolling restart is mostly one that goes next. Here members may give
their seniority up. They get that of a member that joins now, so that the order is by seniority as before.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from rostra.names import Domain, host_of
from rostra.protocols.agreed.changes import MemberId, Pid
from rostra.protocols.agreed.config import LEVEL_MAX
from rostra.protocols.agreed.sheets import changed, encode_member, member_sheet

if TYPE_CHECKING:
    from rostra.protocols.agreed.groups import AgreedView

LEVEL: Final = "level"


def level_of(attributes: bytes) -> int:
    """A member's. What is no level is level 0."""
    text = dict(member_sheet(attributes).properties).get(LEVEL, "")
    return min(int(text), LEVEL_MAX) if text.isascii() and text.isdigit() and len(text) <= 10 else 0


def with_level(attributes: bytes, level: int) -> bytes:
    """Unless the program has said another."""
    sheet = member_sheet(attributes)
    if not level or LEVEL in dict(sheet.properties):
        return attributes
    return encode_member(sheet.meta, changed(sheet.properties, [(LEVEL, str(level))]))


def is_behind(view: "AgreedView", host: Domain) -> bool:
    """Is no member of this host before one of another?"""
    here = [host_of(each.endpoint) == host for each in view.ids]
    return here == sorted(here)


def passed_on(view: "AgreedView", members: Iterable[MemberId], pid: Pid) -> "AgreedView":
    """Move these behind all others, with those of a lower level than the highest of the rest."""
    going = frozenset(members)
    rest = [each for each in view.members if each.id not in going]
    best = max([level_of(each.attributes) for each in rest], default=0)
    first = [each for each in rest if level_of(each.attributes) == best]
    stay = {each.id for each in first}
    number = view.number + 1
    behind = [replace(each, joined=number) for each in view.members if each.id not in stay]
    order = (*first, *sorted(behind, key=lambda each: each.gid))
    if [each.id for each in order] == list(view.ids) or not rest:
        return view
    return replace(
        view, number=number, revision=0, pid=pid, members=order, joined=(), left=(), failed=(), parts=()
    )
