"""Which log counts when an epoch begins, and how an agreed view looks in the order: pure functions."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from rostra.names import Domain, Endpoint, host_of
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.groups import AgreedView
from rostra.protocols.agreed.told_views import listed
from rostra.protocols.atomic.messages import HubReport, MarkEntry, ShownView, StationId, ViewKey
from rostra.protocols.atomic.state import AgreedNow


def longest_log(
    ranked: list[tuple[StationId, HubReport]], *, exclusive: bool
) -> tuple[StationId, HubReport] | None:
    """The longest log of the newest epoch, among the stations in the order of the most senior one. None if no
    station has a part in an order."""
    old = [(id, each) for id, each in ranked if each.chain]
    if not old:
        return None
    senior, base = old[0]
    related = [(id, each) for id, each in old if is_of_line(senior, base, each, exclusive=exclusive)]
    return max(related, key=lambda each: (each[1].chain[-1][0], each[1].next))


def is_of_line(id: StationId, base: HubReport, other: HubReport, *, exclusive: bool) -> bool:
    """Is one of the two logs a part of the other, or of an earlier epoch in its line? Where every side goes
    on, an epoch that began without a station is another side's, and not a successor of what that one has."""
    if other.epoch in [key for key, _ in base.chain]:
        return True
    return base.epoch in [key for key, _ in other.chain] if exclusive else is_prefix(id, base, other)


def is_prefix(id: StationId, report: HubReport, best: HubReport) -> bool:
    """Is this station's log a part of the best one? Of an older epoch it is only if the station reported when
    each later one began: its log was counted there, and has not grown since."""
    epochs = [key for key, _ in best.chain]
    if report.epoch not in epochs:
        return False
    later = best.chain[epochs.index(report.epoch) + 1 :]
    return all(id in stations for _, stations in later)


class MovesBetween:
    """Who joined and who left on its own, in agreed views that are not in the order yet."""

    __slots__ = ("_joined", "_left")

    def __init__(self) -> None:
        self._joined: dict[MemberId, ViewKey] = {}
        self._left: dict[MemberId, ViewKey] = {}

    def agreed(self, now: AgreedNow) -> None:
        key = now.shown or now.key
        self._joined.update(dict.fromkeys(now.view.joined, key))
        self._left.update(dict.fromkeys(now.view.left, key))

    def placed(self, view: ViewKey) -> None:
        """This view is in the order."""
        self._joined = {id: key for id, key in self._joined.items() if key > view}
        self._left = {id: key for id, key in self._left.items() if key > view}

    def upto(self, view: ShownView) -> ShownView:
        """How it came from the last one in the order here. In its encoding stands how it came from that of
        the station that made it."""
        joined = {id.endpoint for id, key in self._joined.items() if key <= view.key}
        left = {id.endpoint for id, key in self._left.items() if key <= view.key}
        return replace(
            view,
            joined=tuple([each for each, _ in view.members if each in joined]),
            left=tuple(sorted(left)),
        )

    @property
    def joined(self) -> frozenset[MemberId]:
        return frozenset(self._joined)

    @property
    def left(self) -> frozenset[MemberId]:
        return frozenset(self._left)

    def clear(self) -> None:
        self._joined.clear()
        self._left.clear()


def shown_view(agreed: AgreedNow, before: ShownView | None, moves: MovesBetween) -> ShownView:
    """An agreed view, and how it came from the last one that has its place. Agreed views between the two have
    none, so a member of both may have been out meanwhile: then it has left, and it has joined."""
    view: AgreedView = agreed.view
    was = frozenset() if before is None else before.endpoints
    was -= {each.endpoint for each in moves.joined.intersection(view.ids)}
    members = listed(view.members)
    stay = frozenset([endpoint for endpoint, _ in members if endpoint in was])
    asked = frozenset([each.endpoint for each in moves.left])
    gone = [] if before is None else [each for each, _ in before.members if each not in stay]
    return ShownView(
        agreed.shown or agreed.key,
        members,
        agreed.fence,
        tuple([endpoint for endpoint, _ in members if endpoint not in was]),
        tuple([each for each in gone if each in asked]),
        tuple([each for each in gone if each not in asked]),
        tuple([tuple([each.endpoint for each in part]) for part in view.parts]),
    )


# A majority


def majority_has(view: ShownView, nexts: Mapping[Domain, int]) -> int:
    """Up to where hosts with more than half of the members have everything. `nexts`: of each host."""
    return _most_have([each for each, _ in view.members], nexts)


def _most_have(members: Sequence[Endpoint], nexts: Mapping[Domain, int]) -> int:
    held = sorted([nexts.get(host_of(each), 0) for each in members], reverse=True)
    return held[len(held) // 2] if held else 0


def majority_upto(
    marked: ShownView, marks: Sequence[MarkEntry], nexts: Mapping[Domain, int], accept: int
) -> int:
    """Up to where everything is stable. `marks`: the views with places from `accept` on, `marked` the last of
    all. What is before a view counts at those who were there and stayed: newcomers hold nothing of it, and
    who left does not count when the others go on. A view counts at these, and at most of its own."""
    stay = set(marked.endpoints)
    upto = majority_has(marked, nexts)
    for mark in reversed(marks):
        stay.difference_update(mark.view.joined)
        held = _most_have(tuple(stay), nexts) if stay else mark.end
        if min(held, upto) < mark.end:
            upto = min(held, mark.position)
    return max(accept, upto)


def is_enough(
    marked: MarkEntry | None, reports: Iterable[tuple[StationId, HubReport]], left: Iterable[MemberId]
) -> bool:
    """Does every majority of the last ordered view have a station among those who go on? Else something that
    was stable may be missing here, and nothing goes on until others are back. Who left does not count."""
    if marked is None:
        return True
    hosts = {id.host for id, each in reports if each.epoch is not None}
    gone = frozenset([each.endpoint for each in left])
    was = [each for each, _ in marked.view.members if each not in gone]
    return 2 * len([each for each in was if host_of(each) in hosts]) >= len(was)
