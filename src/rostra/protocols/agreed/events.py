"""What a set of servers is asked, and what it says besides messages."""

from rostra.core.effects import Effect, Event
from rostra.groups.kinds import GroupKind
from rostra.names import Endpoint, Group
from rostra.protocols.agreed.changes import AnyChange, CommitRecord, ServerId, SetView
from rostra.protocols.agreed.groups import Outcome


class ChangeAsked(Event, frozen=True):
    """A change for which this server is to be the coordinator."""

    change: AnyChange


class SetCommitted(Effect, frozen=True):
    """The set has agreed on this change, and this is its view since; and what came of it in groups."""

    record: CommitRecord
    view: SetView
    outcomes: tuple[Outcome, ...] = ()


class ServerIsolated(Effect, frozen=True):
    """From now on no word to this server, nor from it."""

    server: ServerId
    why: str  # from a small fixed set


# What programs of a host ask


class AgreedJoinAsked(Event, frozen=True):
    """A program wants to be a member. Answered once, with `Done` or `Denied`, under `token`."""

    endpoint: Endpoint
    token: int
    group: Group
    group_kind: GroupKind
    create: bool = True
    meta: bytes = b""


class AgreedLeaveAsked(Event, frozen=True):
    endpoint: Endpoint
    token: int
    group: Group
