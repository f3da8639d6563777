"""The views of agreed groups, as the committed changes of their core-set make them.

    changes, in the order of commits ──▶ GroupTable ──▶ views 0, 1, 2 ...     at every server of the set alike

A view is a list of members in order of seniority, with a number that grows by one with every change of
membership; a change of attributes gives the same number another revision. Its id also names the proposal that
made the number: in two partitions a number may stand for two lists, an id never does (V-120).

Everything here is a pure function of the table and a commit. A server that lost members with a branch of the
tree, and one that was told so, come to the same views without a word between them (V-064).

Where we differ from the paper, and why: its "group id" is a rank in one place and a seniority in another.
Here a rank is a place in the list and shifts; a `gid` is the number at joining and the member itself, never
shifts, and orders the list (TV6).
"""

from collections.abc import Iterable
from typing import Annotated, Final

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from rostra.names import Domain, Group, inside
from rostra.protocols.agreed.changes import (
    MEMBERS_MAX,
    CommitRecord,
    GroupChange,
    GroupVerb,
    MemberId,
    Number,
    Pid,
    ServersFailed,
    SetView,
)

VIEWS_KEPT: Final = 256
"""Of each group (`H_views`). Raising it: older views can be asked for; as much more memory in each server of
the core-set, and to hand over with the group."""

META_BYTES_MAX: Final = 1_024
"""What a member shows beside its address. A view of the largest group has a few megabytes of it."""

REQUESTS_KEPT: Final = 256
"""Of each group: a request that is asked again after as many others is done again."""


class AgreedMember(Struct, frozen=True, array_like=True):
    id: MemberId
    joined: Number  # the number of the view in which it joined
    attributes: Annotated[bytes, Meta(max_length=META_BYTES_MAX)] = b""

    @property
    def gid(self) -> tuple[int, MemberId]:
        """Its seniority for ever (V-095)."""
        return self.joined, self.id


class AgreedView(Struct, frozen=True, array_like=True):
    number: int = 0
    revision: int = 0
    pid: Pid | None = None  # of the proposal that made the number; of none: the group was just created
    members: tuple[AgreedMember, ...] = ()
    joined: tuple[MemberId, ...] = ()  # since the view before
    left: tuple[MemberId, ...] = ()
    failed: tuple[MemberId, ...] = ()
    attributes: bytes = b""  # of the group

    @property
    def id(self) -> tuple[int, int, Pid | None]:
        return self.number, self.revision, self.pid

    @property
    def ids(self) -> tuple[MemberId, ...]:
        return tuple([member.id for member in self.members])

    def rank(self, member: MemberId) -> int | None:
        """Its place by seniority, from 0 on; none if it is no member (V-047)."""
        return next((rank for rank, each in enumerate(self.members) if each.id == member), None)


class Outcome(Struct, frozen=True):
    """What became of a request. `code` is empty, or of the error that the program gets."""

    group: Group
    request: str
    code: str = ""
    view: AgreedView | None = None  # the one it led to, or found


class AgreedGroup(Struct, frozen=True):
    views: tuple[AgreedView, ...]  # the last ones, oldest first
    outcomes: tuple[Outcome, ...] = ()  # the last ones

    @property
    def view(self) -> AgreedView:
        return self.views[-1]

    def at(self, number: int, revision: int | None = None) -> AgreedView | None:
        """A view of the past, in its last revision unless told otherwise; none if it is not kept (V-096)."""
        found = [each for each in self.views if each.number == number and revision in (None, each.revision)]
        return found[-1] if found else None

    def members_where(self, attributes: bytes, number: int | None = None) -> tuple[MemberId, ...] | None:
        """In order of rank, those with these attributes; none if that view is not kept (V-049)."""
        view = self.view if number is None else self.at(number)
        return (
            None
            if view is None
            else tuple([each.id for each in view.members if each.attributes == attributes])
        )

    def sites(self) -> tuple[Domain, ...]:
        """The clusters that hold members (V-053)."""
        hosts = {each.endpoint.partition("/")[0] for each in self.view.ids}
        return tuple(sorted({Domain(host.rpartition(".")[0]) for host in hosts}))


class GroupTable(Struct, frozen=True):
    """All groups of one core-set. A value: a change makes another one."""

    groups: dict[Group, AgreedGroup] = field(default_factory=dict)

    def get(self, group: Group) -> AgreedGroup | None:
        return self.groups.get(group)

    def apply(self, record: CommitRecord, before: SetView) -> tuple["GroupTable", tuple[Outcome, ...]]:
        """The table after this commit, of a set whose view was `before`; and what came of it."""
        pid = record.proposal.pid
        match record.proposal.change:
            case GroupChange() as change:
                return self._changed(change, pid)
            case ServersFailed(failed):
                lost = [each.id.server for each in before.members if each.id in failed and not each.parent]
                return self._branches_lost(lost, pid)
        return self, ()

    def _changed(self, change: GroupChange, pid: Pid) -> tuple["GroupTable", tuple[Outcome, ...]]:
        known = self.groups.get(change.group)
        for outcome in known.outcomes if known is not None else ():
            if outcome.request == change.request:
                return self, (outcome,)
        view, code = _after(known, change, pid)
        outcome = Outcome(change.group, change.request, code, view)
        if change.verb is GroupVerb.DELETE and not code:
            rest = {group: each for group, each in self.groups.items() if group != change.group}
            return GroupTable(rest), (outcome,)
        if known is None and code:
            return self, (outcome,)
        return self._with(change.group, known, view, outcome), (outcome,)

    def _branches_lost(self, lost: list[Domain], pid: Pid) -> tuple["GroupTable", tuple[Outcome, ...]]:
        """One new view for each group with members there, all of them gone at once (V-064)."""
        table, outcomes = self, []
        for group in sorted(self.groups):
            known = self.groups[group]
            gone = [each for each in known.view.ids if any(inside(branch, each.endpoint) for branch in lost)]
            if gone:
                view = _without(known.view, gone, pid, are_failed=True)
                outcome = Outcome(group, "", "", view)
                table = table._with(group, known, view, None)
                outcomes.append(outcome)
        return table, tuple(outcomes)

    def restored(self, group: Group, view: AgreedView) -> "GroupTable":
        """With a group as its hosts remember it, after its servers lost it."""
        return GroupTable({**self.groups, group: AgreedGroup((view,))})

    def _with(
        self, group: Group, known: AgreedGroup | None, view: AgreedView | None, outcome: Outcome | None
    ) -> "GroupTable":
        views, outcomes = (known.views, known.outcomes) if known is not None else ((), ())
        if view is not None and view not in views[-1:]:
            views = (*views, view)[-VIEWS_KEPT:]
        if outcome is not None and outcome.request:
            outcomes = (*outcomes, outcome)[-REQUESTS_KEPT:]
        return GroupTable({**self.groups, group: AgreedGroup(views, outcomes)})


def _after(known: AgreedGroup | None, change: GroupChange, pid: Pid) -> tuple[AgreedView | None, str]:
    """The view after a change; or the one that stands, and why it was not made."""
    verb, members = change.verb, change.members
    if known is None:
        return (AgreedView(attributes=change.data), "") if verb is GroupVerb.CREATE else (None, "NoSuchGroup")
    view = known.view
    inside_now = [each for each in members if view.rank(each) is not None]
    match verb:
        case GroupVerb.CREATE:
            return view, "NameTaken"
        case GroupVerb.JOIN:
            new = sorted(set(members).difference(inside_now))
            if len(view.members) + len(new) > MEMBERS_MAX:
                return view, "TooLarge"
            return (_with_members(view, new, change.data, pid) if new else view), ""
        case GroupVerb.LEAVE | GroupVerb.FAIL:
            if not inside_now:
                return view, "" if verb is GroupVerb.FAIL else "NotMember"
            return _without(view, inside_now, pid, are_failed=verb is GroupVerb.FAIL), ""
        case GroupVerb.DELETE:
            return _without(view, view.ids, pid, are_failed=False), ""
        case GroupVerb.ATTRIBUTES:
            if len(inside_now) < len(members):
                return view, "NotMember"
            return _with_attributes(view, members, change.data), ""


def _with_members(view: AgreedView, new: list[MemberId], attributes: bytes, pid: Pid) -> AgreedView:
    """Joiners go last, those of one view in the order of their ids (V-094)."""
    number = view.number + 1
    joined = [AgreedMember(each, number, attributes) for each in new]
    return AgreedView(number, 0, pid, (*view.members, *joined), tuple(new), attributes=view.attributes)


def _without(view: AgreedView, gone: Iterable[MemberId], pid: Pid, *, are_failed: bool) -> AgreedView:
    """Those who stay keep their order, and ranks have no gaps."""
    gone = tuple(gone)
    stay = tuple([member for member in view.members if member.id not in gone])
    left, failed = ((), gone) if are_failed else (gone, ())
    return AgreedView(view.number + 1, 0, pid, stay, (), left, failed, view.attributes)


def _with_attributes(view: AgreedView, members: tuple[MemberId, ...], attributes: bytes) -> AgreedView:
    """Of these members, or if there are none, of the group: the same number, another revision."""
    changed = replace(view, revision=view.revision + 1, joined=(), left=(), failed=())
    if not members:
        return replace(changed, attributes=attributes)
    return replace(
        changed,
        members=tuple(
            [replace(each, attributes=attributes) if each.id in members else each for each in view.members]
        ),
    )


def together(before: AgreedView, after: AgreedView) -> tuple[MemberId, ...]:
    """Who came from one view into the next, and so has the state of the former: EVS's transitional set."""
    stayed = frozenset(before.ids)
    return tuple([each for each in after.ids if each in stayed])


def united(one: AgreedView, other: AgreedView, pid: Pid) -> AgreedView:
    """The view after two partitions of a group met: all who are in either, in order of seniority, with a
    number above both (V-104, V-105). Attributes are those of the larger id."""
    members = {each.id: each for each in (*other.members, *one.members)}
    order = tuple(sorted(members.values(), key=lambda each: each.gid))
    number = max(one.number, other.number) + 1
    older = min(one, other, key=lambda view: view.members[0].gid if view.members else (view.number, ()))
    return AgreedView(number, 0, pid, order, attributes=older.attributes)
