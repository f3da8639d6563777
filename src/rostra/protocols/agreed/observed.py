"""What agreed groups show to observers: journal, log, trace and the memory behind `rostra why`.

    at an agent     AgreedListed, AgreedUnlisted      a member stands in the directory, or no more
                    HostGiven                         its members have another view, or are blocked
    at a server     ViewAgreed                        a commit of the set made this view
                    SetIsolated                       this server goes on without that one

What each program is given is seen from `Deliver`. Nothing here orders anything, and no attachment is in it:
who may read a journal need not be allowed to read those.
"""

from collections.abc import Iterable

from rostra.core.effects import Observation, Recallable, RecallNote
from rostra.groups.members import Cause, Stamp
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.branch import ViewId
from rostra.protocols.agreed.changes import (
    AnyChange,
    GroupChange,
    GroupVerb,
    LevelRaised,
    MemberId,
    PartsMerged,
    ServerId,
    ServersFailed,
    SetSplit,
)
from rostra.protocols.agreed.events import SetCommitted
from rostra.protocols.agreed.groups import AgreedGroup
from rostra.protocols.agreed.living import is_exclusive
from rostra.protocols.agreed.requests import MemberBlocked, MemberView


class AgreedListed(Observation, frozen=True):
    """A program asked to be a member, and the directory has it: it will be in a view, or be refused."""

    endpoint: Endpoint
    group: Group
    stamp: Stamp


class AgreedUnlisted(Observation, frozen=True):
    """It left, was excluded, or was not let in. One that is closed or dies goes with all its groups."""

    endpoint: Endpoint
    group: Group
    stamp: Stamp
    cause: Cause


class ViewAgreed(Recallable, frozen=True):
    """A commit made this view of a group, or let the same one live again."""

    set: Domain
    group: Group
    id: ViewId
    base: ViewId | None  # the view of the group before it, at this server
    members: tuple[MemberId, ...]  # in order of rank
    joined: tuple[MemberId, ...]
    left: tuple[MemberId, ...]
    failed: tuple[MemberId, ...]
    because: str  # join | leave | failed | attributes | merge | ...: the change that was committed
    noticed: ServerId  # the server that proposed it first
    coordinator: ServerId  # of the round that was committed
    lost: tuple[ServerId, ...] = ()  # servers that the change removes from the set
    acks: tuple[ServerId, ...] = ()  # servers that acknowledged it
    cut: tuple[ServerId, ...] = ()  # servers that it went on without
    fence: int | None = None  # if it lives, in groups whose rule lets one side live at most
    blocked: str = ""  # why this side must not go on; empty: it lives

    def recalled(self) -> RecallNote | None:
        """The members that are gone with this view, and why."""
        gone = tuple([each.endpoint for each in (*self.left, *self.failed)])
        if not gone:
            return None
        lost = f" ({', '.join([each.server for each in self.lost])} is lost)" if self.lost else ""
        fence = "" if self.fence is None else f"; fence {self.fence}"
        stands = f"; this side must not go on: {self.blocked}" if self.blocked else ""
        why = "ordered by rostra group or me.groups" if self.because == "order" else self.because
        text = (
            f"set({self.set}) agreed on view {self.id[0]} of {self.group} without it: {why}{lost}, "
            f"noticed by {self.noticed.server}, acknowledged by {len(self.acks)} servers{fence}{stands}"
        )
        return RecallNote("agreed", self.group, gone, text)


class SetIsolated(Observation, frozen=True):
    """From now on no message to this server, nor from it, in the set of that domain."""

    set: Domain
    server: ServerId
    why: str


class HostGiven(Recallable, frozen=True):
    """Members of this host are given this view; or they are blocked in the one that they have. Said once for
    all of them."""

    group: Group
    number: int = 0
    fence: int | None = None
    blocked: str = ""  # why

    def recalled(self) -> RecallNote:
        if self.blocked:
            return RecallNote(
                "blocked", self.group, (), f"blocked its members of {self.group}: {self.blocked}"
            )
        fence = "" if self.fence is None else f", fence {self.fence}"
        text = f"gave its members view {self.number} of {self.group}{fence}"
        return RecallNote("view", self.group, (), text)


def host_given(group: Group, item: object) -> HostGiven | None:
    match item:
        case MemberBlocked(because):
            return HostGiven(group, blocked=because)
        case MemberView(number, fence=fence):
            return HostGiven(group, number, fence)
    return None


ShownGroups = dict[Group, frozenset[tuple[ViewId, int, str]]]
"""Of each group, the parts as they were shown last: view, fence, and why it is blocked."""


def agreed_views(set: Domain, commit: SetCommitted, shown: ShownGroups) -> list[ViewAgreed]:
    """The views that a commit made; of a group that it left as it was, nothing. `shown` is brought up to
    date."""
    change = commit.record.proposal.change
    groups: Iterable[Group] = commit.table.groups
    if isinstance(change, GroupChange):  # others may concern every group
        groups = dict.fromkeys([change.group, *[outcome.group for outcome in commit.outcomes]])
    found: list[ViewAgreed] = []
    for group in sorted(groups):
        known = commit.table.get(group)
        if known is None:
            shown.pop(group, None)
            continue
        before = shown.get(group, frozenset())
        parts = {(part.view.id, part.living.fence, part.blocked): part for part in known.parts}
        shown[group] = frozenset(parts)
        found += [_shown(set, commit, group, part) for key, part in parts.items() if key not in before]
    return found


def _shown(set: Domain, commit: SetCommitted, group: Group, part: AgreedGroup) -> ViewAgreed:
    record, view = commit.record, part.view
    change = record.proposal.change
    lost = change.failed if isinstance(change, ServersFailed) else ()
    if isinstance(change, SetSplit):
        lost = tuple([each for each in (*change.first, *change.second) if each not in commit.view.servers])
    gone = frozenset((*record.cut, *lost))
    return ViewAgreed(
        set,
        group,
        view.id,
        part.views[-2].id if len(part.views) > 1 else None,
        view.ids,
        view.joined,
        view.left,
        view.failed,
        because_of_change(change),
        record.proposal.pid.creator,
        record.round.coordinator,
        lost,
        tuple([each for each in commit.view.servers if each not in gone]),
        record.cut,
        part.living.fence if is_exclusive(part.kind) and not part.blocked else None,
        part.blocked,
    )


def because_of_change(change: AnyChange) -> str:
    """In a word, from a small fixed set."""
    match change:
        case GroupChange(verb=GroupVerb.FAIL):
            return "members failed"
        case GroupChange(verb=verb):
            return verb.name.lower()
        case ServersFailed():
            return "servers failed"
        case SetSplit():
            return "set split"
        case LevelRaised():
            return "level raised"
        case PartsMerged():
            return "merge"
    return "set changed"
