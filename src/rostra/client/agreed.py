"""A group of agreed membership that one endpoint is in: numbered, ranked views.

    agent ── MemberView ──────▶ the next `View`, whole, with what came of the one before
          ── MemberBlocked ───▶ `Blocked`: nothing is agreed here until the next `View`
          ── Excluded ────────▶ the end, with the reason

What a program does not read waits here, then at its agent; in the end the group goes on without it.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Self

from msgspec.structs import replace

from rostra.client.groups import GroupInfo, Where
from rostra.client.session import within
from rostra.client.streams import OneReader, again
from rostra.errors import Excluded, NotMember, RostraError, Terminated
from rostra.groups.items import Added, AgreedItem, AgreedViewId, Blocked, Moved, SentIn, View
from rostra.groups.members import Member, Members
from rostra.names import Domain, Endpoint, Group, parse_endpoint
from rostra.protocols.access.config import LUCK_BYTES
from rostra.protocols.agreed.calls import GroupTerminated, MemberAdded, MemberMoved
from rostra.protocols.agreed.requests import JoinAgreed, MemberBlocked, MemberView
from rostra.protocols.agreed.sheets import member_sheet, properties_of
from rostra.protocols.atomic.requests import JoinOrdered
from rostra.protocols.fifo import events as told

if TYPE_CHECKING:
    from rostra.client.arenas import Loan
    from rostra.client.joining import AgreedStay
    from rostra.client.me import Me

UNREAD_MAX: Final = 1_000
"""Items that may wait here before the agent is told to wait; a quarter of it and it may go on."""


AGENT_LOST: Final = "the agent is lost"
"""In `Blocked`: what comes next is of another membership."""


class AgreedMembership(OneReader):
    """This endpoint is in a group with ``membership="agreed"``, until `leave` or the end of its
    ``async with``.

    Iterate over it for what happens: `View` and `Blocked`. There is one stream, for one reader. All members
    of one partition are given the same views in the same order, with the same ranks.
    """

    __slots__ = (
        *("_attributes", "_endpoints", "_ready", "_unread"),
        *("blocked", "group", "join", "me", "view"),
    )

    def __init__(self, me: "Me", join: JoinAgreed | JoinOrdered) -> None:
        super().__init__()
        self.me = me
        self.group: Group = join.group
        self.join = join
        self.view: View | None = None  # the last one
        self._attributes: dict[Endpoint, dict[str, str]] = {}  # of its members
        self._endpoints: tuple[Endpoint, ...] = ()  # of these, in order
        self.blocked: Blocked | None = None  # while our side must not go on
        self._ready = asyncio.Event()
        self._unread: deque[AgreedItem] = deque()

    def __repr__(self) -> str:
        return f"<{self.group}, agreed{'' if self._left is None else ', left'}>"

    # Who is there

    @property
    def members(self) -> Members:
        """The members of the last view, in order of rank."""
        return () if self.view is None else self.view.members

    @property
    def rank(self) -> int | None:
        """Ours in the last view: 0 is the most senior member's."""
        return None if self.view is None else self.view.rank

    def attributes_of(self, endpoint: Endpoint | str) -> dict[str, str]:
        """A member's, as of the last view."""
        found = self._attributes.get(parse_endpoint(endpoint))
        if found is None:
            raise NotMember(f"{endpoint} is not in the last view of {self.group}", fix="see members")
        return dict(found)

    def matching(self, where: Where) -> tuple[Endpoint, ...]:
        """Members of the last view with these attributes, in order of rank."""
        wanted = set(properties_of(where))
        return tuple([each for each in self._order() if wanted <= set(self._attributes[each].items())])

    def _order(self) -> list[Endpoint]:
        return [each.endpoint for each in self.members]

    async def look(self, *, at: int | None = None, deadline_s: float | None = None) -> GroupInfo:
        """The group as its servers have it; or as of view `at`. See `Groups.look`."""
        group = self.group
        return await self.me.groups.look(group.name, group.scope, at=at, deadline_s=deadline_s)

    async def set_attributes(
        self, attributes: Mapping[str, str | None], *, deadline_s: float | None = None
    ) -> None:
        """Our own. Those that are not named stay; None takes one away."""
        await self.me.groups.set_attributes(
            self.group.name,
            self.group.scope,
            attributes=attributes,
            of=self.me.endpoint,
            deadline_s=deadline_s,
        )

    async def sites(self, where: Where | None = None, *, hosts: bool = False) -> tuple[Domain, ...]:
        """Clusters, or hosts, that have members. See `Groups.sites`."""
        return await self.me.groups.sites(self.group.name, self.group.scope, where=where, hosts=hosts)

    async def send_to(
        self, where: Where, data: bytes, *, deadline_s: float | None = None
    ) -> tuple[tuple[Endpoint, ...], AgreedViewId | None]:
        """Send this to the members of the last view with these attributes; who they were, and which view.
        They read `me.messages()`, where the message has that view's id: one that is in another can tell."""
        id, targets = None if self.view is None else self.view.id, self.matching(where)
        if targets and id is not None:
            await self.me._send_to(targets, data, SentIn(self.group, id), deadline_s)
        return targets, id

    async def ready(self, *, deadline_s: float | None = None) -> "AgreedMembership":
        """Wait for the first view, or for the end of a standstill."""
        await within(deadline_s, self._until_ready(), f"no view of {self.group} was agreed")
        return self

    # Listening

    def __aiter__(self) -> "AgreedMembership":
        return self

    async def __anext__(self) -> AgreedItem:
        if not self._unread:
            await self._until_some(self._unread, self.me)
        item = self._unread.popleft()
        if self._stopped and len(self._unread) <= UNREAD_MAX // 4:
            self._say_reading(True)
        return item

    def _put(self, item: AgreedItem) -> None:
        self._unread.append(item)
        if not self._stopped and len(self._unread) > UNREAD_MAX:
            self._say_reading(False)
        self._wake()

    # Leaving

    async def leave(self, *, deadline_s: float | None = None) -> None:
        if self._left is not None:
            raise again(self._left)
        self._left = NotMember(f"{self.me.endpoint} has left {self.group} already", fix="join it again")
        self._wake()
        await within(deadline_s, self.me._leave_agreed(self), f"leaving {self.group} was not confirmed")

    # From the endpoint

    def hear(self, item: "told.Item | Loan") -> None:
        """The agent sent this item of the group."""
        match item:
            case MemberView():
                self.view, self.blocked = self._view(item), None
                self._ready.set()
                self._put(self.view)
            case MemberBlocked(because):
                self._block(because)
            case MemberMoved(to, because):
                self.me._move_agreed(self, to)
                self._put(Moved(to, because))
            case MemberAdded(to, because):
                self._put(Added(to, because))
            case GroupTerminated() | told.Excluded():
                put_out(self, item)

    def _view(self, item: MemberView) -> View:
        """Made from the last one, mostly: it costs little however many members there are."""
        last, me = self.view, self.me.endpoint
        was = () if last is None else last.members
        gone = {*item.left, *item.failed}
        for endpoint in gone if item.members is None else tuple(self._attributes):
            self._attributes.pop(endpoint, None)
        for endpoint, data in item.joined if item.members is None else item.members:
            self._attributes[endpoint] = dict(member_sheet(data).properties)
        if item.members is not None:
            members, here = _members(item.members), {each.endpoint for each in was}
            if last is None or item.number != last.number:  # else a standstill is over
                here -= gone
            self._endpoints = tuple([endpoint for endpoint, _ in item.members])
            together = tuple([each for each in self._endpoints if each in here])
        else:
            stayed = [each for each in was if each.endpoint not in gone] if gone else was
            members = (*stayed, *_members(item.joined))
            together = tuple([each.endpoint for each in stayed]) if gone else self._endpoints
            self._endpoints = (*together, *[endpoint for endpoint, _ in item.joined])
        rank = None if last is None else last.rank
        if rank is None or gone or item.members is not None:
            rank = next((place for place, each in enumerate(members) if each.endpoint == me), None)
        return View(
            members,
            number=item.number,
            rank=rank,
            id=AgreedViewId(item.number, item.revision, item.pid),
            joined=tuple([endpoint for endpoint, _ in item.joined]),
            left=item.left,
            failed=item.failed,
            together=together,
            parts=item.parts,
            suspects=item.suspects,
            fence=item.fence,
            without=item.without,
        )

    def _block(self, because: str) -> None:
        self.blocked = Blocked(since=time.time(), because=because)
        self._ready.clear()
        self._put(self.blocked)

    def lose(self, cause: str = AGENT_LOST) -> None:
        """The agent is gone: the other members see a crash."""
        self._stopped = False
        self.view, self._endpoints = None, ()
        self._block(cause)

    def end(self, reason: RostraError | None) -> None:
        """End the membership, for this reason."""
        if reason is None:
            self._left = self._left or NotMember(f"{self.group} was left", fix="join it again")
        elif self._ended is None:
            self._ended = reason
        self._ready.set()
        self._wake()


def put_out(stay: "AgreedStay", item: GroupTerminated | told.Excluded) -> None:
    """The group is over, or went on without this endpoint."""
    stay.me._forget_agreed(stay)
    if isinstance(item, GroupTerminated):
        stay.end(Terminated(f"{stay.group} is over: {item.because}", fix="join another one"))
    else:
        what = f"{stay.group} went on without {stay.me.endpoint}: {item.reason}"
        stay.end(Excluded(what, fix=item.fix or "join it again"))


def asking(join: JoinAgreed | JoinOrdered) -> JoinAgreed | JoinOrdered:
    """Each time with new luck, for the authority of a restricted name."""
    if "!" not in join.group.name:
        return join
    return replace(join, luck=secrets.token_bytes(LUCK_BYTES))


def _members(listed: tuple[tuple[Endpoint, bytes], ...]) -> Members:
    return tuple([Member(endpoint, (0, 0), member_sheet(data).meta) for endpoint, data in listed])


class ShowsViews:
    """A group with messages and agreed membership: what it shows of its views."""

    __slots__ = ()
    _views: AgreedMembership

    @property
    def view(self) -> View | None:
        """The last one that has come; the loop over our items may not have reached it yet."""
        return self._views.view

    @property
    def blocked(self) -> Blocked | None:
        """Since when, and why, while our side must not go on."""
        return self._views.blocked

    @property
    def members(self) -> Members:
        """The members of the last view, in order of rank."""
        return self._views.members

    @property
    def rank(self) -> int | None:
        """Ours in the last view: 0 is the most senior member's."""
        return self._views.rank

    async def ready(self, *, deadline_s: float | None = None) -> Self:
        """Wait for the first view, or for the end of a standstill."""
        await self._views.ready(deadline_s=deadline_s)
        return self
