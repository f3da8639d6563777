"""Events and effects of a set's core: a change submitted; committed; a part merged or given up."""

from msgspec import field

from rostra.core.effects import Effect, Event
from rostra.groups.attributes import Role, Slow
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.branch import ViewComing
from rostra.protocols.agreed.changes import AnyChange, CommitRecord, GroupChange, MemberId, ServerId, SetView
from rostra.protocols.agreed.groups import GroupTable, Outcome


class ChangeAsked(Event, frozen=True):
    """A change for which this server is to be the coordinator."""

    change: AnyChange


class SetCommitted(Effect, frozen=True):
    """The set has agreed on this change, and this is its view since; and what came of it in groups."""

    record: CommitRecord
    view: SetView
    outcomes: tuple[Outcome, ...] = ()
    table: GroupTable = field(default_factory=GroupTable)  # all groups since


class ServerIsolated(Effect, frozen=True):
    """From now on no word to this server, nor from it."""

    server: ServerId
    why: str  # from a small fixed set


class GroupOrdered(Event, frozen=True):
    """A call about this group has come; perhaps to change it, or others with it (`orders.py`)."""

    group: Group
    change: GroupChange | None = None
    also: tuple[Group, ...] = ()  # these have to be in the same set


class MemberBarred(Event, frozen=True):
    """To an agent's service: the group was closed to this host, or to this endpoint."""

    group: Group
    endpoint: Endpoint
    why: str
    fix: str = ""


class MemberProven(Event, frozen=True):
    """To an agent's service: a member of this group has a newer proof, for the servers to know."""

    group: Group


class SetOrdered(Event, frozen=True):
    """An administrator has come with something about this set; perhaps a change (`administration.py`)."""

    set: Domain
    change: AnyChange | None = None


class GroupIsOver(Effect, frozen=True):
    """It was deleted, split or merged. Its members below us are to be told; or those of one host, again."""

    group: Group
    host: Domain | None = None


class MembersPutOut(Effect, frozen=True):
    """These members of a host were removed from a group, and must be notified."""

    group: Group
    host: Domain
    members: tuple[MemberId, ...]


class MembersPlaced(Effect, frozen=True):
    """A split put these members of a host into a subgroup, and must be told."""

    group: Group
    host: Domain
    members: tuple[MemberId, ...]


class AgreedChanged(Effect, frozen=True):
    """At an agent, for the service that gives its members of this group their views, in the order of their
    messages (`protocols/atomic`): members, view or standstill are not what they were; or a view is coming."""

    group: Group
    coming: ViewComing | None = None


class LeavesSettled(Event, frozen=True):
    """To an agent's service: do all others have what this host counted for? Then those of its members that
    wait to leave this group can (`leaving.py`); if that is not known, they have failed."""

    group: Group
    clean: bool


# What programs of a host ask


class AgreedJoinAsked(Event, frozen=True):
    """A program wants to be a member. Answered once, with `Done` or `Denied`, under `token`."""

    endpoint: Endpoint
    token: int
    group: Group
    group_kind: GroupKind
    create: bool = True
    meta: bytes = b""
    luck: int = 0  # for its streams, if the group is spoken in
    role: Role = Role.BOTH
    slow: Slow = Slow.THROTTLE
    takes_any: bool = False  # also with another rule, if at most one side can live under that


class AgreedLeaveAsked(Event, frozen=True):
    endpoint: Endpoint
    token: int
    group: Group
