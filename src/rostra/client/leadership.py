"""Leader and lock: one member of a group of candidates, the one of rank 0 while its side lives.

    me.lead ──▶ join ──▶ waits, in order of rank ── rank 0 of a living view ──▶ Term: the body runs
                                                                                  │
    LeadershipLost ◀── body is cancelled ◀── Blocked, another rank, put out ──────┤
    leave: the turn of the next in rank ◀────────────────────── the body ended ───┘

Candidates of ``me.lead("scheduler")`` are the group ``lead/scheduler``, those of ``me.lock("invoice/42")``
``lock/invoice/42``: agreed groups like any other, so `resolve`, `watch` and ``rostra views`` work for them.
The group's rule must be one under which at most one side of a partition lives.

A term has one fence: that of the view in which its holder came to rank 0. The next holder's is larger, and so
is the same holder's after it lost a term, because it leaves and goes to the end of the line.

Tasks of one endpoint that want the same name wait for each other here, before they join.
"""

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final

from rostra.client.agreed import AgreedMembership
from rostra.client.choices import check_scope_apart
from rostra.client.session import within
from rostra.client.streams import again
from rostra.errors import BadInput, LeadershipLost, NotMember, RostraError
from rostra.groups.items import Added, AgreedItem, Blocked, View
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.names import Group, make_group
from rostra.protocols.agreed.living import EXCLUSIVE, check_survive, is_exclusive
from rostra.protocols.agreed.requests import JoinAgreed

if TYPE_CHECKING:
    from rostra.client.me import Me

SURVIVE: Final = EXCLUSIVE
"""Unless a program names a rule: "primary" if the scope's server has replicas, else "majority"."""


class Candidacy(AgreedMembership):
    """Waits for rank 0, and then holds it for one term."""

    __slots__ = ("_is_leading", "_line", "_on_lost", "fence", "lost")

    def __init__(self, me: "Me", join: JoinAgreed) -> None:
        super().__init__(me, join)
        self.fence: int | None = None
        self.lost: LeadershipLost | None = None
        self._is_leading = False
        self._line: asyncio.Lock | None = None  # held from before we join until after we leave
        self._on_lost: Callable[[], object] | None = None

    @property
    def is_leading(self) -> bool:
        return self._is_leading

    async def stand(self, deadline_s: float | None, on_lost: Callable[[], object] | None) -> None:
        """Join, and wait for the turn. When this returns the term runs; `on_lost` is called in the moment in
        which it is lost."""
        if self._line is not None:
            raise BadInput(f"this turn in {self.group} was taken already", fix="ask for a new one each time")
        self._line = self.me._lines.setdefault(self.group, asyncio.Lock())
        what = f"the turn of {self.me.endpoint} in {self.group} did not come"
        self.fence = await within(deadline_s, self._until_first(self._line), what)
        self._is_leading, self._on_lost = True, on_lost

    async def _until_first(self, line: asyncio.Lock) -> int:
        async with contextlib.AsyncExitStack() as failed:
            await line.acquire()
            failed.callback(line.release)
            failed.push_async_callback(self.close)
            await self.me._join_agreed(self)
            try:
                view = await anext(self)
            except StopAsyncIteration:
                raise NotMember(
                    f"{self.me.endpoint} was closed while it waited for {self.group}", fix="open a new one"
                ) from None
            failed.pop_all()
        assert isinstance(view, View) and view.fence is not None
        return view.fence

    async def resign(self) -> None:
        """The body is over: let the next in rank have its turn."""
        self._is_leading = False
        line, self._line = self._line, None
        if line is not None:
            try:
                await self.close()
            finally:
                line.release()

    def _put(self, item: AgreedItem) -> None:
        """What counts is the last item: a turn that was over before it began is none."""
        if isinstance(item, Added):
            return  # the turn is that of this group
        self._unread.clear()
        match item:
            case View(rank=0, fence=int()):
                if not self._is_leading:
                    self._unread.append(item)
                    self._wake()
            case View():
                self._lose("another member has rank 0")
            case Blocked(because=why):
                self._lose(why)

    def end(self, reason: RostraError | None) -> None:
        super().end(reason)
        self._unread.clear()
        self._lose("the endpoint was closed" if reason is None else reason.what)

    def _lose(self, why: str) -> None:
        if self._is_leading:
            self._is_leading = False
            self.lost = LeadershipLost(
                f"{self.me.endpoint} no longer leads {self.group}: {why}",
                fix="undo what must not stay half done, and stand again",
            )
            if self._on_lost is not None:
                self._on_lost()


class Term:
    """This endpoint is the leader, or holds the lock: until the end of its ``async with``, or until it is
    lost."""

    __slots__ = ("_candidacy", "fence", "group")

    def __init__(self, candidacy: Candidacy) -> None:
        assert candidacy.fence is not None
        self._candidacy = candidacy
        self.group: Group = candidacy.group
        self.fence: int = candidacy.fence
        """Larger than that of every holder before. Send it along with every write; a resource that refuses
        smaller ones than it has seen is safe from a holder that does not know yet that it was replaced."""

    def __repr__(self) -> str:
        return f"<{self.group}, fence {self.fence}{'' if self.is_held else ', over'}>"

    @property
    def is_held(self) -> bool:
        """As far as this program knows."""
        return self._candidacy.is_leading

    @property
    def lost(self) -> LeadershipLost | None:
        """Why it was lost, if it was."""
        return self._candidacy.lost

    def check(self) -> None:
        """Raise `LeadershipLost` if it was lost."""
        if self.lost is not None:
            raise again(self.lost)


class Standing:
    """For ``async with``: waits for its turn, and cancels the body if the term is lost."""

    __slots__ = ("_cancelling", "_candidacy", "_deadline_s", "_task")

    def __init__(self, candidacy: Candidacy, deadline_s: float | None) -> None:
        self._candidacy = candidacy
        self._deadline_s = deadline_s
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0

    async def __aenter__(self) -> Term:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        await self._candidacy.stand(self._deadline_s, task.cancel)
        return Term(self._candidacy)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        lost = self._candidacy.lost
        await self._candidacy.resign()
        if lost is None:
            return
        is_ours = self._task.uncancel() <= self._cancelling  # nothing else has cancelled this task
        if error is None or (is_ours and isinstance(error, asyncio.CancelledError)):
            raise again(lost) from error


# Methods of `Me`


def lead(
    me: "Me",
    name: str,
    scope: str = "world",
    *,
    survive: str = SURVIVE,
    meta: bytes = b"",
    deadline_s: float | None = None,
) -> Standing:
    """Be the leader of this name: ``async with me.lead("scheduler", scope="eu") as term``.

    Waits for its turn, at most `deadline_s`; candidates lead in the order in which they joined. If the
    term is lost, the body is cancelled, and the ``async with`` raises `LeadershipLost`. `survive` says
    which side of a partition has a leader: a rule under which at most one side lives. By default it is
    "primary" where the scope's server has replicas, else "majority"; if there is such a group, its rule.
    """
    return Standing(candidate(me, "lead", name, scope, survive, meta), deadline_s)


def lock(
    me: "Me",
    name: str,
    scope: str = "world",
    *,
    survive: str = SURVIVE,
    deadline_s: float | None = None,
) -> Standing:
    """Hold the lock of this name: ``async with me.lock("invoice/42") as held``. As `lead`, for as many
    names as are needed."""
    return Standing(candidate(me, "lock", name, scope, survive), deadline_s)


def candidate(
    me: "Me", what: str, name: str, scope: str, survive: str = SURVIVE, meta: bytes = b""
) -> Candidacy:
    """A candidacy that has not begun."""
    if survive != EXCLUSIVE:
        check_survive(survive)
    if survive != EXCLUSIVE and not is_exclusive(GroupKind(MembershipKind.AGREED, survive=survive)):
        raise BadInput(
            f"survive={survive!r} lets more than one side of a partition live, and each would {what}",
            fix='use "majority", or a rule that holds on one side at most',
        )
    check_scope_apart(name, scope, me.host)
    make_group(name, scope)  # a mistake in it is reported by the name that the program wrote
    return Candidacy(me, JoinAgreed(make_group(f"{what}/{name}", scope), survive=survive, meta=meta))
