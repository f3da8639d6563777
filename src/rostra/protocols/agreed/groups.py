"""The views of agreed groups, as the committed changes of their core-set make them.

    changes, in the order of commits ──▶ GroupTable ──▶ views 0, 1, 2 ...     at every server of the set alike

A view is a list of members in order of seniority, with a number that grows by one with every change of
membership; a change of attributes gives the same number another revision. Its id also names the proposal that
made the number: in two partitions a number may stand for two lists, an id never does (V-120).

Everything here is a pure function of the table and a commit. A server that lost members with a branch of the
tree, and one that was notified of it, compute the same views without a message between them (V-064).

Where we differ from the paper, and why: its "group id" is a rank in one place and a seniority in another.
Here a rank is a place in the list and shifts; a `gid` is the number at joining and the member itself, never
shifts, and orders the list (TV6).
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Annotated, Final

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr, replace

from rostra.errors import BadInput
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.names import Domain, Group, host_of, inside
from rostra.protocols.agreed.branches import branches_of, is_below
from rostra.protocols.agreed.changes import (
    MEMBERS_MAX,
    CommitRecord,
    Data,
    GroupChange,
    GroupPlace,
    GroupVerb,
    MemberId,
    Number,
    PartsMerged,
    Pid,
    Proposal,
    Round,
    ServersFailed,
    SetView,
    sides,
)
from rostra.protocols.agreed.config import EMPTIED_MAX
from rostra.protocols.agreed.living import has_rule, is_exclusive, is_primary
from rostra.protocols.agreed.orders import CreateGroup, NextView, decide, decode_order
from rostra.protocols.agreed.promises import removed_by
from rostra.protocols.agreed.rules import (
    LivingState,
    Rule,
    RuleMember,
    RuleMembers,
    may_merge,
    parse_rule,
    standing,
    united_state,
)
from rostra.protocols.agreed.seniority import passed_on
from rostra.protocols.agreed.sheets import SHEET_BYTES_MAX, history_of, is_over, member_sheet, put_out_of
from rostra.protocols.agreed.subgroups import endpoints_in, outer_first, whole_of
from rostra.protocols.agreed.tallies import GroupTally, is_empty, tally_of

VIEWS_KEPT: Final = 256
"""Of each group (`H_views`). Raising it: older views can be asked for; as much more memory in each server of
the core-set, and to hand over with the group."""

REQUESTS_KEPT: Final = 256
"""Of each group: a request that is asked again after as many others is done again."""

VIEWS_CARRIED: Final = 8
"""Of the history of each group, to the other part of a set, when the two merge."""

APART_MAX: Final = 64
"""Parts of one group that its rule keeps from merging."""

MET: Final = "two parts have just met"
"""Why a group stands still after a merge, until all servers have it."""

SERVER_AWAY: Final = "the server of its scope is not on this side"

NEVER_LIVED: Final = LivingState(0, ())

AGREED: Final = GroupKind(MembershipKind.AGREED)


class AgreedMember(Struct, frozen=True, array_like=True):
    id: MemberId
    joined: Number  # the number of the view in which it joined
    attributes: Annotated[bytes, Meta(max_length=SHEET_BYTES_MAX)] = b""

    @property
    def gid(self) -> tuple[int, MemberId]:
        """Its seniority for ever (V-095)."""
        return self.joined, self.id


MemberIds = Annotated[tuple[MemberId, ...], Meta(max_length=MEMBERS_MAX)]


class AgreedView(Struct, frozen=True, array_like=True, dict=True):
    number: Number = 0
    revision: Number = 0
    pid: Pid | None = None  # of the proposal that made the number; of none: the group was just created
    members: Annotated[tuple[AgreedMember, ...], Meta(max_length=MEMBERS_MAX)] = ()
    joined: MemberIds = ()  # since the view before
    left: MemberIds = ()
    failed: MemberIds = ()
    attributes: Data = b""  # of the group
    parts: Annotated[tuple[MemberIds, ...], Meta(max_length=APART_MAX)] = ()  # that merged

    @property
    def id(self) -> tuple[int, int, Pid | None]:
        return self.number, self.revision, self.pid

    # What is worked out of its members is worked out once: every commit asks for it many times.

    @cached_property
    def ids(self) -> tuple[MemberId, ...]:
        return tuple([member.id for member in self.members])

    @cached_property
    def listed(self) -> frozenset[MemberId]:
        return frozenset(self.ids)

    @cached_property
    def hosts(self) -> frozenset[Domain]:
        return frozenset([host_of(member.id.endpoint) for member in self.members])

    @cached_property
    def ruled(self) -> RuleMembers:
        """As rules see them."""
        return tuple([RuleMember(each.id, rule_attributes(each.attributes)) for each in self.members])

    def rank(self, member: MemberId) -> int | None:
        """Its place by seniority, from 0 on; none if it is no member (V-047)."""
        return next((rank for rank, each in enumerate(self.members) if each.id == member), None)

    def lowest_rank(self, members: Iterable[MemberId]) -> int:
        """0 if one of them is no member."""
        those = frozenset(members)
        ranks = [rank for rank, each in enumerate(self.members) if each.id in those]
        return ranks[0] if ranks and len(ranks) == len(those) else 0


class Outcome(Struct, frozen=True, array_like=True):
    """What became of a request. `code` is empty, or of the error that the program gets."""

    group: Group
    request: str
    code: str = ""
    view: AgreedView | None = None  # the one it led to, or found


class AgreedGroup(Struct, frozen=True, array_like=True):
    views: Annotated[tuple[AgreedView, ...], Meta(min_length=1, max_length=VIEWS_KEPT)]  # oldest first
    outcomes: Annotated[tuple[Outcome, ...], Meta(max_length=REQUESTS_KEPT)] = ()  # the last ones
    kind: GroupKind = AGREED
    apart: Annotated[tuple["AgreedGroup", ...], Meta(max_length=APART_MAX)] = ()
    """Other parts of this group, junior to this one, which the merge rule keeps from it. They have their own
    views (V-102)."""
    living: LivingState = NEVER_LIVED  # the last view that lived
    blocked: str = ""  # why this side must not go on; empty: it lives

    @property
    def view(self) -> AgreedView:
        return self.views[-1]

    @property
    def parts(self) -> tuple["AgreedGroup", ...]:
        return replace(self, apart=()), *self.apart

    def carried(self, views: int = VIEWS_CARRIED) -> "AgreedGroup":
        """What the other part of a set needs to know of it."""
        outcomes = tuple([replace(each, view=None) for each in self.outcomes])
        apart = tuple([each.carried(views) for each in self.apart])
        return replace(self, views=self.views[-views:], outcomes=outcomes, apart=apart)

    @property
    def past(self) -> list[AgreedView]:
        """The views before this one that can be asked for, by number: those of parts that met, too."""
        order = sorted(self.views[:-1], key=lambda view: (view.number, view.revision, str(view.pid)))
        return order[max(0, len(self.views) - history_of(self.view.attributes)) :]

    def at(self, number: int, revision: int | None = None) -> AgreedView | None:
        """A view of the past, in its last revision unless told otherwise; none if it is not kept (V-096)."""
        found = [each for each in (*self.past, self.view) if each.number == number]
        found = [each for each in found if revision in (None, each.revision)]
        return found[-1] if found else None


class CarriedGroup(Struct, frozen=True, array_like=True):
    name: Group
    group: AgreedGroup | None
    place: GroupPlace | None = None  # if it is elsewhere, or about to be


CarriedGroups = tuple[CarriedGroup, ...]
"""All groups of a part of a set, for the other part. A message as a whole is bounded by `wire`."""


def are_sound(groups: CarriedGroups) -> bool:
    """Each name once; in each part each member once, in order of seniority, and rules that can be read."""
    return len({each.name for each in groups}) == len(groups) and all(
        is_sound_list(part.view.members) and is_possible(part.kind) and not part.apart
        for each in groups
        if each.group is not None
        for part in each.group.parts
    )


def is_sound_list(members: Sequence[AgreedMember]) -> bool:
    gids = [each.gid for each in members]
    return gids == sorted(gids) and len({each.id for each in members}) == len(gids) <= MEMBERS_MAX


class GroupTable(Struct, frozen=True):
    """All groups of one core-set. A value: a change makes another one."""

    groups: dict[Group, AgreedGroup] = field(default_factory=dict)
    forgotten: Number = 0  # the highest fence of groups that are not here any more
    places: dict[Group, GroupPlace] = field(default_factory=dict)  # see `moves.py`
    tally: GroupTally | None = None  # of `groups`; without one they are counted anew

    def __post_init__(self) -> None:
        if self.tally is None or self.tally.groups != len(self.groups):
            force_setattr(self, "tally", tally_of(self.groups.values()))

    @property
    def counts(self) -> GroupTally:
        assert self.tally is not None, "it is counted when the table is made"
        return self.tally

    def __hash__(self) -> int:
        return hash((frozenset(self.groups.items()), frozenset(self.places.items())))

    @property
    def has_rules(self) -> bool:
        """Is there a group in which not every side lives?"""
        return self.counts.ruled > 0

    def carried(self) -> CarriedGroups:
        here = {name: known.carried() for name, known in self.groups.items()}
        names = sorted({*here, *self.places})
        return tuple([CarriedGroup(name, here.get(name), self.places.get(name)) for name in names])

    def get(self, group: Group) -> AgreedGroup | None:
        return self.groups.get(group)

    def apply(
        self, record: CommitRecord, before: SetView, other: CarriedGroups = ()
    ) -> tuple["GroupTable", tuple[Outcome, ...]]:
        """The table after this commit, of a set whose view was `before`; and what came of it. If it is a
        merge, `other` are the groups of the other part."""
        table, outcomes = self._applied(record, before, other)
        gone = (*record.absent, *removed_by(record.proposal.change))
        has_server = any(each.parent and each.id not in gone for each in before.members)
        table, more = table._trimmed(
            branches_of(before, record.absent), record.proposal.pid, may_begin=has_server
        )
        if gone and not has_server:
            table = table._without_server()
        if not record.proposal.lane:  # before which all servers have the same groups
            table = table._forgetting()
        return table, (*outcomes, *more)

    @property
    def must_forget(self) -> bool:
        return self.counts.empty > EMPTIED_MAX

    def _forgetting(self) -> "GroupTable":
        """The table without empty groups, if there are too many of them."""
        if not self.must_forget:
            return self
        empty = [name for name, known in self.groups.items() if is_empty(known)]
        fences = [part.living.fence for name in empty for part in self.groups[name].parts]
        rest = {name: known for name, known in self.groups.items() if name not in frozenset(empty)}
        return replace(self, groups=rest, forgotten=max(self.forgotten, *fences))

    def _without_server(self) -> "GroupTable":
        """The set goes on without the scope's own server: what that one decides stands still."""
        table = self
        for group, known in self.groups.items():
            if is_primary(known.kind) and not known.blocked:
                table = table._with(group, replace(known, blocked=SERVER_AWAY))
        return table

    def _trimmed(
        self, absent: list[Domain], pid: Pid, *, may_begin: bool
    ) -> tuple["GroupTable", tuple[Outcome, ...]]:
        """Remove members of subgroups that are not in the enclosing group any more (V-041)."""
        table, outcomes = self, list[Outcome]()
        if not self.counts.within:
            return table, ()
        for group in outer_first({name: known.kind for name, known in self.groups.items()}):
            whole = endpoints_in(table.groups.get(whole_of(group, table.groups[group].kind)))
            parts, is_changed = [], False
            for part in table.groups[group].parts:
                gone = [each for each in part.view.ids if each.endpoint not in whole]
                if gone:
                    view = _without(part.view, gone, pid, are_failed=False)
                    outcomes.append(Outcome(group, "", "", view))
                    part = _judged(_kept(part, view, None), absent, may_begin=may_begin)
                    is_changed = True
                parts.append(part)
            if is_changed:
                table, new = table._refolded(group, parts, pid)
                outcomes += new
        return table, tuple(outcomes)

    def _applied(
        self, record: CommitRecord, before: SetView, other: CarriedGroups
    ) -> tuple["GroupTable", tuple[Outcome, ...]]:
        pid, absent = record.proposal.pid, branches_of(before, record.absent)
        may_begin = any(each.parent and each.id not in record.absent for each in before.members)
        table = self.attempted(record.tried, before)
        match record.proposal.change:
            case GroupChange(verb=GroupVerb.JOIN, members=members) as change if not all(
                is_below(before, each) for each in members
            ):
                # Of a server that is gone meanwhile: its own part lets them in.
                return table, (Outcome(change.group, "", "Unreachable"),)
            case GroupChange(verb=GroupVerb.ORDER) as change:
                return table._ordered(change, pid, absent, may_begin=may_begin)
            case GroupChange() as change:
                known_here = [each for each in change.members if is_below(before, each, record.absent)]
                return table._changed(change, pid, absent, tuple(known_here), may_begin=may_begin)
            case ServersFailed(failed):
                lost = branches_of(before, failed)
                away = [each for each in absent if each not in lost]
                stayed = [each for each in before.members if each.id not in failed]
                has_server = may_begin and any(each.parent for each in stayed)
                return table._branches_lost(lost, away, pid, may_begin=has_server)
            case PartsMerged():
                return table._merged(other, pid)
        return table, ()

    def attempted(self, tried: Iterable[Proposal], before: SetView) -> "GroupTable":
        """Views that others may have in place of those that come now, from proposals that a server here
        acknowledged without knowing their end (H3)."""
        table = self
        for proposal in tried:
            record = CommitRecord(proposal, Round(proposal.pid, 0, proposal.pid.creator))
            ends = [self.apply(each, before)[0] for each in sides(record)]
            for after, name in [(each, name) for each in ends for name in sorted(each.groups)]:
                old = [part.view.id for part in self.groups[name].parts] if name in self.groups else []
                views = [part.view for part in after.groups[name].parts if part.view.id not in old]
                known = table.groups.get(name)
                if known is not None:
                    table = table._with(name, _with_attempts(known, views))
                elif has_rule(kind := after.groups[name].kind) and any(view.members for view in views):
                    made = AgreedGroup((AgreedView(),), kind=kind)  # its first view may live with others
                    table = table._with(name, _with_attempts(made, views))
        return table

    def _changed(
        self,
        change: GroupChange,
        pid: Pid,
        absent: list[Domain],
        known_here: tuple[MemberId, ...],
        *,
        may_begin: bool,
    ) -> tuple["GroupTable", tuple[Outcome, ...]]:
        known = self.groups.get(change.group)
        gone = () if known is None else put_out_of(known.view.attributes)
        if change.verb is GroupVerb.JOIN and set(change.members).intersection(gone):
            return self, (Outcome(change.group, change.request, "Excluded"),)
        if known is not None and change.verb is GroupVerb.JOIN and is_over(known.view.attributes):
            if change.kind is None or set(change.members).intersection(known.view.left):
                code = "NoSuchGroup" if change.kind is None else "Terminated"
                return self, (Outcome(change.group, change.request, code),)
            known = _made_anew(known)
        if (
            known is not None
            and change.kind is not None
            and not known.view.attributes
            and not any(each.view.members or _may_have_lived(each.living) for each in known.parts)
        ):
            if not is_possible(change.kind):
                return self, (Outcome(change.group, change.request, "Invalid"),)
            known = replace(known, kind=change.kind)  # its last member has left: the next one chooses
        if known is None:
            kind = change.kind or (AGREED if change.verb is GroupVerb.CREATE else None)
            code = "NoSuchGroup" if kind is None else "" if is_possible(kind) else "Invalid"
            if kind is None or code:
                return self, (Outcome(change.group, change.request, code),)
            known = AgreedGroup((AgreedView(attributes=change.data),), kind=kind)
            if change.verb is GroupVerb.CREATE:
                outcome = Outcome(change.group, change.request, "", known.view)
                return self._with(change.group, replace(known, outcomes=(outcome,))), (outcome,)
            known = replace(known, views=(AgreedView(),))
        parts = known.parts
        for outcome in [outcome for part in parts for outcome in part.outcomes]:
            if outcome.request == change.request:
                return self, (outcome,)
        if change.verb is GroupVerb.JOIN and known.kind.within:
            whole = endpoints_in(self.groups.get(whole_of(change.group, known.kind)))
            if not all(each.endpoint in whole for each in change.members):
                return self, (Outcome(change.group, change.request, "Denied"),)
        part = next((each for each in parts if set(change.members).intersection(each.view.ids)), parts[0])
        view, code = _after(part.view, change, pid)
        outcome = Outcome(change.group, change.request, code, view)
        if change.verb is GroupVerb.DELETE and not code:
            return self._deleted(known, outcome, pid)
        changed = _kept(part, view, outcome)
        if change.request and change.verb in (GroupVerb.LEAVE, GroupVerb.FAIL):
            changed = _departed(changed, known_here, is_dead=change.verb is GroupVerb.FAIL)
            if view == part.view and part.blocked:  # it may go on without those that it waited for
                again = replace(view, revision=view.revision + 1, joined=(), left=(), failed=(), parts=())
                tried = _judged(_kept(changed, again, None), absent, may_begin=may_begin)
                changed = changed if tried.blocked else tried
        if view != part.view:
            changed = _judged(changed, absent, floor=change.fence, may_begin=may_begin)
        return self._refolded(
            change.group, [changed if each is part else each for each in parts], pid, outcome
        )

    def _ordered(
        self, change: GroupChange, pid: Pid, absent: list[Domain], *, may_begin: bool
    ) -> tuple["GroupTable", tuple[Outcome, ...]]:
        """A change of whole groups (`orders.py`): of the one that is named, and of others with it."""
        known = self.groups.get(change.group)
        for outcome in [] if known is None else known.outcomes:
            if outcome.request == change.request:
                return self, (outcome,)
        ordered = decode_order(change.data)
        if ordered is None or (
            isinstance(ordered.order, CreateGroup) and not is_possible(ordered.order.kind)
        ):
            return self, (Outcome(change.group, change.request, "BadInput"),)
        code, views = decide(ordered.order, ordered.caller, change.group, self.groups, AgreedView(), pid)
        made = [each for each in views if known is None or each.view is not known.view]
        if any(_cannot_live(each) for each in made):
            code = "Refused"
        if code:
            outcome = Outcome(change.group, change.request, code)
            table = self if known is None else self._with(change.group, _kept(known, known.view, outcome))
            return table, (outcome,)
        table, outcomes = self, list[Outcome]()
        concerned = [self.groups[each.group] for each in views if each.group in self.groups]
        fence = max([change.fence, *[each.living.fence for each in concerned]])
        for each in views:
            part = table.groups.get(each.group) or AgreedGroup((each.view,), kind=each.kind)
            outcome = Outcome(each.group, change.request if each.group == change.group else "", "", each.view)
            part = _kept(replace(part, kind=each.kind), each.view, outcome)
            if is_over(each.view.attributes):
                part = replace(part, living=LivingState(part.living.fence, ()), blocked="")
            elif each.view.members and each in made:
                part = _judged(part, absent, floor=fence, may_begin=may_begin)
            table = table._with(each.group, part)
            outcomes.append(outcome)
        return table, tuple(outcomes)

    def _deleted(
        self, known: AgreedGroup, outcome: Outcome, pid: Pid
    ) -> tuple["GroupTable", tuple[Outcome, ...]]:
        group = outcome.group
        rest = {name: each for name, each in self.groups.items() if name != group}
        others = [_without(part.view, part.view.ids, pid, are_failed=False) for part in known.apart]
        return replace(self, groups=rest), (outcome, *[Outcome(group, "", "", view) for view in others])

    def _refolded(
        self, group: Group, parts: list[AgreedGroup], pid: Pid, *outcomes: Outcome
    ) -> tuple["GroupTable", tuple[Outcome, ...]]:
        """Parts that were kept apart may merge after any change (V-102)."""
        folded = fold_parts(parts, pid)
        new = [each.view for each in folded.parts if each.view.pid == pid and each.view.parts]
        return self._with(group, folded), (*outcomes, *[Outcome(group, "", "", view) for view in new])

    def _merged(self, other: CarriedGroups, pid: Pid) -> tuple["GroupTable", tuple[Outcome, ...]]:
        """Two parts of a set meet: each group in both of them is united, or kept apart (V-106)."""
        table, outcomes = self, list[Outcome]()
        for name in sorted(self.groups):
            table = table._with(name, _plain_outcomes(self.groups[name]))
        for each in other:
            if each.group is None:
                continue
            ours = table.groups.get(each.name)
            parts = [*(ours.parts if ours is not None else ()), *each.group.parts]
            table, new = table._refolded(each.name, parts, pid)
            outcomes += new
        return table, tuple(outcomes)

    def _branches_lost(
        self, lost: list[Domain], absent: list[Domain], pid: Pid, *, may_begin: bool
    ) -> tuple["GroupTable", tuple[Outcome, ...]]:
        """One new view for each group with members there, all of them gone at once (V-064)."""
        table, outcomes = self, list[Outcome]()
        for group in sorted(self.groups):
            parts, is_changed = [], False
            for part in self.groups[group].parts:
                gone = [
                    each for each in part.view.ids if any(inside(branch, each.endpoint) for branch in lost)
                ]
                if gone:
                    view = _without(part.view, gone, pid, are_failed=True)
                    outcomes.append(Outcome(group, "", "", view))
                    part = _judged(_kept(part, view, None), absent, may_begin=may_begin)
                    is_changed = True
                parts.append(part)
            if is_changed:
                table, new = table._refolded(group, parts, pid)
                outcomes += new
        return table, tuple(outcomes)

    def restored(self, group: Group, known: AgreedGroup, *, may_begin: bool) -> "GroupTable":
        """With a group as its hosts remember it, at a server that lost it and is alone."""
        why = _standstill(known.kind, known.view, known.living)
        if is_primary(known.kind) and not may_begin:
            why = SERVER_AWAY
        return self._with(group, replace(known, blocked=why))

    def having(self, group: Group, known: AgreedGroup) -> "GroupTable":
        tally = self.counts.changed(self.groups.get(group), known)
        return replace(self, groups={**self.groups, group: known}, tally=tally)

    _with = having


def _kept(part: AgreedGroup, view: AgreedView, outcome: Outcome | None) -> AgreedGroup:
    """With its new view, and with what became of a request."""
    views, outcomes = part.views, part.outcomes
    if view not in views[-1:]:
        views = (*views, view)[-VIEWS_KEPT:]
    if outcome is not None and outcome.request:
        outcomes = (*outcomes, outcome)[-REQUESTS_KEPT:]
    return replace(part, views=views, outcomes=outcomes)


def _made_anew(known: AgreedGroup) -> AgreedGroup:
    """A group that was deleted, and a program joins: numbers and fences go on."""
    view = replace(known.view, revision=known.view.revision + 1, left=(), attributes=b"")
    return replace(known, views=(*known.views, view)[-VIEWS_KEPT:])


def _judged(
    part: AgreedGroup, absent: Sequence[Domain] = (), *, floor: int = 0, may_begin: bool = False
) -> AgreedGroup:
    """May this side go on with its new view? Members behind servers that the change went on without do not
    count: nobody asked them (H3). The first view of a group whose rule lets one side live is made on the side
    of the scope's own server, of which there is one: `may_begin` (H5). With ``survive="primary"`` all are:
    that server acknowledges one view after the other, each when a majority of its replicas has that on disk,
    which is the compare-and-set of D6."""
    view, state = part.view, part.living
    here = view.ids
    if absent:
        here = tuple([each for each in here if not any(inside(one, each.endpoint) for one in absent)])
    if not may_begin and (is_primary(part.kind) or (is_exclusive(part.kind) and not state.members)):
        return replace(part, blocked=SERVER_AWAY)
    if why := _standstill(part.kind, view, state, here):
        part = replace(part, blocked=why)
        # Those whom the change went on without may live with this very view.
        return _with_attempts(part, [view]) if absent else part
    fence = max([state.fence, floor, *[each.fence for each in state.attempts]]) + 1
    return replace(part, living=state.followed(fence, view.ruled, view.joined), blocked="")


def _with_attempts(known: AgreedGroup, views: Iterable[AgreedView]) -> AgreedGroup:
    """An empty view is no attempt: it lives on no side."""
    for view in views:
        if not (members := view.ruled):
            continue
        apart = tuple([replace(each, living=each.living.attempted(members)) for each in known.apart])
        known = replace(known, living=known.living.attempted(members), apart=apart)
    return known


def _departed(part: AgreedGroup, gone: tuple[MemberId, ...], *, is_dead: bool = False) -> AgreedGroup:
    """These are on no side: they left, or their host says that they are dead. Rules do not ask for them; with
    ``stable="disk"`` a dead one counts as here, since its host is, with all that it had."""
    counts = is_dead and part.kind.stable == "disk"
    return replace(part, living=part.living.departed(gone, counts=counts))


def _standstill(
    kind: GroupKind, view: AgreedView, state: LivingState, here: Sequence[MemberId] | None = None
) -> str:
    """Why these must not go on; empty if they may. The first view that lives is judged by its own members."""
    rules = rules_of(kind)
    if rules is None:
        return ""
    found = standing(rules[0], view.ruled, view.ids if here is None else here, state)
    return "" if found.lives else found.why


def _cannot_live(step: NextView) -> bool:
    """With these members and attributes no view after it could live, not even of all of them."""
    return bool(_standstill(step.kind, step.view, LivingState(0, ())))


def _may_have_lived(state: LivingState) -> bool:
    """Here, or with others."""
    return bool(state.members or state.attempts)


def _plain_outcomes(known: AgreedGroup) -> AgreedGroup:
    """After a merge all servers keep the same."""
    return replace(
        known,
        outcomes=tuple([replace(each, view=None) for each in known.outcomes]),
        apart=tuple([_plain_outcomes(each) for each in known.apart]),
    )


def _after(view: AgreedView, change: GroupChange, pid: Pid) -> tuple[AgreedView, str]:
    """The view after a change; or the one that stands, and why it was not made."""
    verb, members = change.verb, change.members
    inside_now = [each for each in members if each in view.listed]
    match verb:
        case GroupVerb.CREATE:
            return view, "NameTaken"
        case GroupVerb.JOIN:
            here = {each.endpoint: each.stamp for each in view.ids}
            last = {each.endpoint: each for each in sorted(members)}
            new = [each for who, each in last.items() if who not in here or here[who] < each.stamp]
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
        case GroupVerb.BACK:
            return passed_on(view, inside_now, pid), ""
        case GroupVerb.ORDER:
            return view, ""  # of groups as a whole: `_ordered`


def _with_members(view: AgreedView, new: list[MemberId], attributes: bytes, pid: Pid) -> AgreedView:
    """Joiners go last, those of one view in the order of their ids (V-094). An endpoint that joins again
    before its last stay has ended here ends it: programs know members by endpoint."""
    number = view.number + 1
    again = {each.endpoint for each in new}
    ended = tuple([each for each in view.ids if each.endpoint in again])
    stay = [each for each in view.members if each.id.endpoint not in again] if ended else view.members
    joined = [AgreedMember(each, number, attributes) for each in new]
    members = (*stay, *joined)
    return AgreedView(number, 0, pid, members, tuple(new), failed=ended, attributes=view.attributes)


def _without(view: AgreedView, gone: Iterable[MemberId], pid: Pid, *, are_failed: bool) -> AgreedView:
    """The list without these members: the others keep their order, and ranks have no gaps."""
    gone = tuple(gone)
    away = frozenset(gone)
    stay = tuple([member for member in view.members if member.id not in away])
    left, failed = ((), gone) if are_failed else (gone, ())
    return AgreedView(view.number + 1, 0, pid, stay, (), left, failed, view.attributes)


def _with_attributes(view: AgreedView, members: tuple[MemberId, ...], attributes: bytes) -> AgreedView:
    """Attributes of these members, or of the group if there are none: the same number, a new revision."""
    changed, those = replace(view, revision=view.revision + 1, joined=(), left=(), failed=()), set(members)
    if not members:
        return replace(changed, attributes=attributes)
    return replace(
        changed,
        members=tuple(
            [replace(each, attributes=attributes) if each.id in those else each for each in view.members]
        ),
    )


# Parts of one group


def is_possible(kind: GroupKind) -> bool:
    """Can an agreed group be of this kind?"""
    return kind.membership is MembershipKind.AGREED and rules_of(kind) is not None


def rules_of(kind: GroupKind) -> tuple[Rule, Rule] | None:
    """Survive and merge; none if one of them cannot be read."""
    try:
        return parse_rule(kind.survive or "any"), parse_rule(kind.merge or "any")
    except BadInput:
        return None


def rule_attributes(data: bytes) -> tuple[tuple[str, str], ...]:
    return member_sheet(data).properties if data else ()


def fold_parts(parts: Iterable[AgreedGroup], pid: Pid) -> AgreedGroup:
    """Each part is united with the first that it may merge with, the most senior first; the rest stay apart.
    An empty one is no side of anything: a cut and a heal do not disturb a group of one side (V-110)."""
    by_id: dict[tuple[int, int, Pid | None], AgreedGroup] = {}
    for part in parts:
        same = by_id.get(part.view.id)
        by_id[part.view.id] = part if same is None else _same_part(same, part)
    order = sorted(by_id.values(), key=lambda part: _seniority(part.view))
    filled = [part for part in order if part.view.members] or order[-1:]
    emptied = [part for part in order if part not in filled]
    kept: list[AgreedGroup] = []
    for part in filled:
        for place, each in enumerate(kept):
            if _may_unite(each, part):
                kept[place] = _united_group(each, part, pid)
                break
        else:
            kept.append(part)
    kept = [_with_lives(each, emptied) for each in kept]
    kept[0] = _with_past(kept[0], emptied)
    first, *rest = sorted(kept, key=lambda part: _seniority(part.view))
    return replace(_above(first, emptied, pid), apart=tuple(rest[:APART_MAX]))


def _same_part(one: AgreedGroup, other: AgreedGroup) -> AgreedGroup:
    """Have both parts the same view? It may live on one side only, or be empty on both."""
    if one.living == other.living or one.kind != other.kind:
        return other
    living = united_state((one.living, other.living))
    blocked = MET if is_exclusive(one.kind) else _standstill(one.kind, one.view, living)
    return replace(other, living=living, blocked=blocked)


def _with_lives(part: AgreedGroup, emptied: Sequence[AgreedGroup]) -> AgreedGroup:
    """What lived last may have lived in a part that is empty now."""
    living = united_state((part.living, *[each.living for each in emptied if each.kind == part.kind]))
    if living == part.living:
        return part
    return replace(part, living=living, blocked=MET if is_exclusive(part.kind) else part.blocked)


def _above(part: AgreedGroup, emptied: Sequence[AgreedGroup], pid: Pid) -> AgreedGroup:
    """Hosts that were given up may come back with views of parts that are empty now, and no member's numbers
    fall: with a later one than ours, views count on from there."""
    view, past = part.view, [view for each in emptied for view in each.views]
    if all(each.number <= view.number for each in past if each.members):
        return part
    number = max([each.number for each in past]) + 1
    if view.pid == pid and view.parts:  # two parts met as well: it is the same view
        return replace(part, views=(*part.views[:-1], replace(view, number=number)))
    raised = AgreedView(number, 0, pid, view.members, attributes=view.attributes, parts=(view.ids, ()))
    blocked = MET if is_exclusive(part.kind) else part.blocked
    return replace(part, views=(*part.views, raised)[-VIEWS_KEPT:], blocked=blocked)


def _seniority(view: AgreedView) -> tuple[tuple[int, MemberId] | tuple[int], int, str]:
    return view.members[0].gid if view.members else (2**63,), view.number, str(view.pid)


def _may_unite(one: AgreedGroup, other: AgreedGroup) -> bool:
    rules = rules_of(one.kind)
    return (
        one.kind == other.kind
        and rules is not None
        and len({*one.view.ids, *other.view.ids}) <= MEMBERS_MAX
        and may_merge(rules[1], one.view.ruled, other.view.ruled)
    )


def _united_group(one: AgreedGroup, other: AgreedGroup, pid: Pid) -> AgreedGroup:
    past = _with_past(one, [other])
    has_merged = one.view.pid == pid and bool(one.view.parts)  # a third part: one new view, of all of them
    views = past.views[:-1] if has_merged else past.views
    view, living = united(one.view, other.view, pid), united_state((one.living, other.living))
    if is_exclusive(one.kind):
        blocked = MET  # some may not have heard of the merge: the next change, which all acknowledge, ends it
    else:
        blocked = _standstill(one.kind, view, living)
    return replace(past, views=(*views, view)[-VIEWS_KEPT:], living=living, blocked=blocked)


def _with_past(part: AgreedGroup, others: Sequence[AgreedGroup]) -> AgreedGroup:
    """Its views and outcomes, and those of others: history branches, and meets again (V-096)."""
    if not others:
        return part
    views, outcomes = part.views[:-1], part.outcomes
    for other in others:
        views += tuple([each for each in other.views if each not in part.views])
        outcomes += tuple([each for each in other.outcomes if each not in part.outcomes])
    by_number = replace(part, views=(*views, part.view)).past
    in_order = sorted(outcomes, key=lambda outcome: outcome.request)
    return replace(
        part,
        views=(*by_number, part.view)[-VIEWS_KEPT:],
        outcomes=tuple(in_order)[-REQUESTS_KEPT:],
    )


def united(one: AgreedView, other: AgreedView, pid: Pid) -> AgreedView:
    """The view after two parts of a group met: all who are in either, in order of seniority, with a number
    above both (V-104, V-105). Its attributes are those of the senior part."""
    older, younger = sorted((one, other), key=_seniority)
    members = {each.id: each for each in (*younger.members, *older.members)}
    order = tuple(sorted(members.values(), key=lambda each: each.gid))
    number = max([view.number - bool(view.pid == pid and view.parts) for view in (one, other)]) + 1
    parts = (*(older.parts if older.pid == pid and older.parts else (older.ids,)), younger.ids)
    return AgreedView(number, 0, pid, order, attributes=older.attributes, parts=parts)
