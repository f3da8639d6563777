"""Events and effects of relaxed membership, besides those that every core shares."""

from rostra.core.effects import Effect, Event
from rostra.groups.members import Members
from rostra.names import Endpoint, Group
from rostra.protocols.relaxed.requests import Absolute, Resolved


class JoinsBegin(Event, frozen=True):
    """The joins of one turn follow: they share one notice."""


class JoinsEnd(Event, frozen=True):
    """The end of these joins: the notice is sent now."""


class SignpostsFound(Effect, frozen=True):
    """A program resolves a led group: the directory has signposts (some of its members), and led membership
    goes on from these to the leader's list. `result` is what the directory has; `name` is the group's."""

    asker: Endpoint
    token: int
    name: str
    result: Absolute | Resolved


class ResolveHere(Event, frozen=True):
    """Another service of a cluster's server resolves a group, as a host of the cluster would."""

    group: Group
    number: int


class ResolvedHere(Effect, frozen=True):
    """The answer to that service."""

    number: int
    members: Members
