"""A program's own copies of the groups that it watches.

The agent numbers the changes (`protocols/relaxed/watches.py`). Here is one copy for each group, to which each
change is applied once, and for each watching endpoint the last number that it was given.

    Changed  ──▶ the next number: edit the copy, notify the readers
    Snapshot ──▶ the whole list: readers begin with it, or have all changes up to it, or have missed some

Copies and numbers are kept while the agent is away. If it still has the changes when it is back, the readers
get those that they missed; otherwise they get a `Gap` and a new `View`.
"""

from msgspec import Struct

from rostra.client.follows import FollowedGroup, Follows
from rostra.client.streams import Stream
from rostra.errors import BadInput, Malformed
from rostra.groups.items import Change, Gap, Item, Joined, Left, Only, Resolution, View, Without
from rostra.groups.members import Cause, Member, Members, by_endpoint
from rostra.names import Domain, Endpoint, Group, quoted
from rostra.protocols.relaxed import requests
from rostra.protocols.relaxed.requests import Changed, Snapshot


class WatchMemory(Struct, frozen=True):
    """Identifies the source of change numbers: one life of one agent."""

    host: Domain
    life: int

    def period(self, number: int) -> str:
        return f"{self.host}:{self.life}:{number}"


class WatchPlace(Struct, frozen=True):
    """How far a watcher has read."""

    memory: WatchMemory
    period: int
    number: int

    def gap_since(self, before: "WatchPlace") -> Gap:
        """How much lies between the two, if that was counted."""
        same = (before.memory, before.period) == (self.memory, self.period)
        return Gap(self.number - before.number if same and before.number < self.number else None)


def parse_token(token: str) -> WatchPlace:
    token = str(token)
    host, *numbers = token.split(":")
    if not host or len(numbers) != 3 or not all(each.isascii() and each.isdigit() for each in numbers):
        raise BadInput(
            f"{quoted(token)} is not a resume token", fix="pass the `token` of a change, as it was"
        )
    life, period, number = map(int, numbers)
    return WatchPlace(WatchMemory(Domain(host), life), period, number)


class WatchCopy:
    """One group, and who of this program watches it."""

    __slots__ = ("_members", "_resolution", "followers", "isolated", "number", "period", "table")

    def __init__(self) -> None:
        self.period = ""
        self.number = 0
        self.isolated = False
        self.table: dict[Endpoint, Member] = {}
        self.followers: dict[int, WatchFollow] = {}  # by the endpoint's number
        self._members: Members | None = ()
        self._resolution: Resolution | None = None

    @property
    def members(self) -> Members:
        """Sorted by endpoint; the same tuple until the copy changes."""
        if self._members is None:
            self._members = by_endpoint(self.table)
        return self._members

    def as_answer(self) -> Resolution:
        if self._resolution is None:
            self._resolution = Resolution(self.members, self.isolated, from_copy=True)
        return self._resolution

    def replace(self, snapshot: Snapshot, period: str) -> None:
        self.period, self.number = period, snapshot.number
        self.isolated = snapshot.isolated
        self.table = {member.endpoint: member for member in snapshot.members}
        self._members, self._resolution = snapshot.members, None

    def edit(self, change: Changed, host: Domain, scope: Domain) -> None:
        if change.number != self.number + 1:
            return  # repeated for a watcher that was behind; the copy has it
        self.number = change.number
        for endpoint in change.left:
            self.table.pop(endpoint, None)
        for member in change.members:
            self.table[member.endpoint] = member
        if isinstance(change.by, requests.Only) and change.by.domain == host:
            self.isolated = scope != host
        elif change.members and change.cause is Cause.MERGE:
            self.isolated = False
        self._members = self._resolution = None


class WatchFollow(FollowedGroup):
    """One endpoint's watching of one group."""

    __slots__ = ("_catching_up", "_copy", "_place")

    def __init__(self, group: Group, copy: WatchCopy) -> None:
        super().__init__(group)
        self._copy = copy
        self._place: WatchPlace | None = None  # the last change that the readers were given; None: they begin
        self._catching_up = False

    @property
    def members(self) -> Members:
        return self._copy.members if self.known else ()

    @property
    def resolution(self) -> Resolution | None:
        return self._copy.as_answer() if self.known else None

    def view(self) -> View | None:
        copy = self._copy
        if not self.known:
            return None
        return View(copy.members, copy.isolated, number=copy.number, period=copy.period)

    def stream_from(self, place: WatchPlace) -> Stream[Item]:
        """For a reader that knows everything up to there, perhaps from an earlier life of this program."""
        if self._place is None and self.reasons == 1:
            self._place = place
            self._copy.period = self._copy.period or place.memory.period(place.period)
            return self.stream()
        # We watch already, and the agent tells us nothing twice: this reader gets a list, and a number.
        stream = self.new_stream()
        view = self.view()
        if view is None or self._place is None:
            stream.miss(1)
        elif place != self._place:
            stream.put(self._place.gap_since(place))
            stream.put(view)
        return stream

    def place_in(self, memory: WatchMemory) -> tuple[int, int]:
        """From where the agent with that memory should go on: a period and a number."""
        if self._place is None or self._place.memory != memory:
            return (0, 0)
        return (self._place.period, self._place.number)

    def stream(self) -> Stream[Item]:
        stream = super().stream()
        if self._catching_up:
            stream.miss(1)  # half of a story is none: it begins with the list that is on its way
        return stream

    def begin(self, snapshot: Snapshot, memory: WatchMemory) -> None:
        """The list is here: the first, or one that ends the changes we were behind by."""
        before, self._place = self._place, WatchPlace(memory, snapshot.period, snapshot.number)
        self._catching_up = False
        self.is_ready()
        view = self.view()
        assert view is not None
        if before is None:
            self.tell((view,))
        elif before != self._place:
            self.tell((self._place.gap_since(before), view))
        for stream in self.readers():
            stream.look_again()

    def changed(self, change: Changed, news: Change) -> None:
        place = self._place
        if place is None or change.number <= place.number:
            return
        if change.number != place.number + 1:
            raise Malformed(
                f"the agent told change {change.number} of {self.group} after {place.number}",
                fix="report this, with the agent's log",
            )
        self._catching_up = not self.known
        self._place = WatchPlace(place.memory, place.period, change.number)
        self.tell((news,))

    def lose(self) -> None:
        self.known = self._catching_up = False


class Watched(Follows[WatchCopy, WatchFollow]):
    """All groups that this program watches, through one agent."""

    def _open(self, group: Group) -> WatchCopy:
        return WatchCopy()

    def _new(self, group: Group, copy: WatchCopy) -> WatchFollow:
        return WatchFollow(group, copy)

    def lose(self) -> None:
        """The agent is gone: what we have may be true no more, and is kept to go on from."""
        for copy in self._copies.values():
            for follow in copy.followers.values():
                follow.lose()

    def told(self, numbers: tuple[int, ...], notice: Snapshot | Changed, memory: WatchMemory) -> None:
        copy = self._copies.get(notice.group)
        if copy is None:
            return
        if isinstance(notice, Snapshot):
            copy.replace(notice, memory.period(notice.period))
            for number in numbers:
                if number in copy.followers:
                    copy.followers[number].begin(notice, memory)
            return
        copy.edit(notice, memory.host, notice.group.scope)
        news = _as_change(notice, copy.period)
        for number in numbers:
            if number in copy.followers:
                copy.followers[number].changed(notice, news)


def _as_change(change: Changed, period: str) -> Change:
    number = change.number
    match change.by:
        case requests.Only(domain, because):
            return Only(domain, change.left, because, number=number, period=period)
        case requests.Without(domain, because):
            return Without(domain, change.left, because, number=number, period=period)
    cause = change.cause or Cause.MERGE
    if change.left:
        return Left(change.left, cause, change.meta, number=number, period=period)
    return Joined(change.members, cause, number=number, period=period)
