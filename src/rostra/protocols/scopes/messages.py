"""Messages between neighbours about scopes.

child ── PointersKept ──▶ parent ── ScopeTold, PointersRefused ──▶ child     groups of open scope
child ── PointersDropped ──▶ parent

asker's agent ── ForeignAsked ──▶ hop by hop ──▶ the server of the scope     questions from outside
asker's agent ◀── ForeignTold ◀── back the same way
"""

from typing import Annotated

from msgspec import Meta, Struct

from rostra.groups.members import Members
from rostra.names import Domain, Group
from rostra.names.checks import Natural
from rostra.names.groups import GroupText
from rostra.protocols.scopes.config import POINTERS_OF_HOST_MAX, SERVERS_WEIGH

POINTERS_MAX = POINTERS_OF_HOST_MAX * SERVERS_WEIGH


class ScopesMessage(Struct, frozen=True, array_like=True, tag_field="kind"):
    """Message numbers live in `rostra.wire.numbers`."""


class PointersKept(ScopesMessage, frozen=True, tag=448):
    """These open groups have members below me; and the scope that I know of each, if I know one."""

    rows: Annotated[tuple[tuple[GroupText, Domain | None], ...], Meta(max_length=POINTERS_MAX)]


class PointersDropped(ScopesMessage, frozen=True, tag=449):
    """These open groups have no members below me any more."""

    names: Annotated[tuple[GroupText, ...], Meta(max_length=POINTERS_MAX)]


class ScopeTold(ScopesMessage, frozen=True, tag=450):
    """The scope of this group, which is around you; none: all of its members are below you."""

    name: GroupText
    scope: Domain | None = None


class PointersRefused(ScopesMessage, frozen=True, tag=451):
    """There is no room for rows of these."""

    names: Annotated[tuple[GroupText, ...], Meta(max_length=POINTERS_MAX)]


class ForeignAsked(ScopesMessage, frozen=True, tag=452):
    """Who is in this group? Asked from outside its scope; `number` is the asker's."""

    asker: Domain
    number: Natural
    group: Group


class ForeignTold(ScopesMessage, frozen=True, tag=453):
    asker: Domain
    number: Natural
    group: Group
    members: Members = ()
    why: Annotated[str, Meta(max_length=512)] = ""  # not


AnyScopesMessage = PointersKept | PointersDropped | ScopeTold | PointersRefused | ForeignAsked | ForeignTold
