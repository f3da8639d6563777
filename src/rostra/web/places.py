"""The nodes that the dashboard asks.

A **place** is a node that reports what it knows: its links, the groups it follows, its recent events. After a
cut two places rightly disagree, so everything that the dashboard shows names the place that reported it.

    place ── Known: its document ────────────────▶ observatory
          ── Happened: events it recorded ───────▶
          ── Seen: a group's members, from here ─▶
          ── Silent: it does not answer ─────────▶

A place is always reached through its program socket, as any program would, even the node whose process serves
the dashboard: so what protects nodes from slow programs protects them from slow dashboards too.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Protocol

from msgspec import Struct

from rostra.client import Admin, Change, Gap, Me, Members, View, connect, connect_admin
from rostra.client.sight import checked
from rostra.errors import Refused, RostraError, Unreachable
from rostra.names import Domain, Group

CONNECT_TIMEOUT_S: Final = 5.0
RETRY_AFTER_S: Final = 0.25
RETRY_AFTER_MAX_S: Final = 2.0

OURS: Final = "dashboard-"
"""The name of endpoints that watch for a dashboard: a group that only they follow has no members."""

_endpoints = itertools.count(1)

FRESH_S: Final = 2.0
"""A node says what it knows when something happens, and at least this often, for what changes all the time:
silences and suspicion levels. Lowering it: fresher numbers, more work for every node that is watched."""

ANSWER_TIMEOUT_S: Final = 3.0
"""Beyond `FRESH_S`: a node that accepted our connection and then says nothing counts as silent."""


class News(Struct, frozen=True):
    """What a place says. All times are seconds since 1970."""

    at: float


class StateKnown(News, frozen=True):
    """The node answers, and this is what it knows (`runtime/inspect.py`), its memory of events left out."""

    document: Mapping[str, Any]


class Happened(News, frozen=True):
    """The node's flight recorder has this. Numbers grow by one within a life."""

    number: int
    event: str
    values: Mapping[str, Any]


class EventsForgotten(News, frozen=True):
    """So many events fell out of the node's memory before we could read them."""

    count: int


class ViewSeen(News, frozen=True):
    """The members of a group as this place sees them now; `change` is how that came, if step by step."""

    group: Group
    members: Members
    isolated: bool
    change: Change | None = None


class Unseen(News, frozen=True):
    """The group is not followed from here any more, or cannot be."""

    group: Group
    why: str


class Silent(News, frozen=True):
    """The node does not answer."""

    why: str


AnyNews = StateKnown | Happened | EventsForgotten | ViewSeen | Unseen | Silent
Hear = Callable[[AnyNews], None]


class ObservedPlace(Protocol):
    @property
    def path(self) -> Domain: ...

    @property
    def address(self) -> str:
        """Where people reach this node: what `ROSTRA_AGENT` would be."""

    async def run(self, hear: Hear) -> None:
        """Report until cancelled, through every failure of the node."""

    def follow(self, groups: Iterable[Group]) -> None:
        """From now on, report these groups and no others. Only agents can."""


class ClientPlace:
    """A node behind an address. `path` says which, if several live there. A server with replicas is behind
    several, and only the one that leads answers for it. `token`: what to show there, instead of what programs
    of this user show."""

    def __init__(self, path: Domain, *addresses: str, token: str | None = None) -> None:
        self.path = path
        self._addresses = addresses
        self._token = token
        self._turn = 0
        self._wanted: frozenset[Group] = frozenset()
        self._wanted_changed = asyncio.Event()
        self._incarnation: int | None = None
        self._read = 0  # the number of the last event of that life which we passed on

    @property
    def address(self) -> str:
        return self._addresses[self._turn % len(self._addresses)]

    def follow(self, groups: Iterable[Group]) -> None:
        groups = frozenset(groups)
        if groups != self._wanted:
            self._wanted = groups
            self._wanted_changed.set()

    async def run(self, hear: Hear) -> None:
        retry_s = RETRY_AFTER_S
        while True:
            began = time.monotonic()
            try:
                async with connect_admin(
                    self.address, self._token, domain=self.path, timeout_s=CONNECT_TIMEOUT_S
                ) as admin:
                    await self._report(admin, hear)
            except* RostraError as errors:
                self._turn += 1
                if self._turn % len(self._addresses) == 0:
                    hear(Silent(time.time(), _first(errors).what))
            except* (LookupError, TypeError, ValueError, AttributeError) as errors:
                # A node of another version, or a hostile one: the others are watched all the same.
                hear(Silent(time.time(), f"it says what cannot be read: {errors.exceptions[0]!r}"))
            # A node that answered for a while is tried again at once; one that keeps refusing, less and less.
            retry_s = RETRY_AFTER_S if time.monotonic() - began > RETRY_AFTER_MAX_S else retry_s
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, RETRY_AFTER_MAX_S)

    async def _report(self, admin: Admin, hear: Hear) -> None:
        """Everything the node has to say, until it stops answering."""
        document = await self._ask(admin, wait_s=0.0)
        if document["incarnation"] != self._incarnation:
            # A life that we know nothing of: its memory begins anew, and so do its numbers.
            self._incarnation = document["incarnation"]
            if self._read:
                self._read = 0
                document = await self._ask(admin, wait_s=0.0)
        async with asyncio.TaskGroup() as tasks:
            if document["core"].get("server") == "agent":
                tasks.create_task(self._follow_groups(hear))
            while True:
                self._read = _tell(document, self._read, hear)
                document = await self._ask(admin, wait_s=FRESH_S)

    async def _ask(self, admin: Admin, wait_s: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(wait_s + ANSWER_TIMEOUT_S):
                return checked(await admin.inspect(after=self._read, wait_s=wait_s), self.path)
        except TimeoutError as late:
            if isinstance(late, RostraError):
                raise
            raise Unreachable("it says nothing on a connection that is open", fix="see its log") from None

    async def _follow_groups(self, hear: Hear) -> None:
        """Watch the groups that are wanted. The endpoint for this is in no list."""
        name = f"{OURS}{os.getpid()}-{next(_endpoints)}"
        async with (
            connect(self.address, self._token, name=name, timeout_s=CONNECT_TIMEOUT_S) as me,
            asyncio.TaskGroup() as tasks,
        ):
            watches: dict[Group, asyncio.Task[None]] = {}
            while True:
                self._wanted_changed.clear()
                for group in sorted(watches.keys() - self._wanted):
                    watches.pop(group).cancel()
                    hear(Unseen(time.time(), group, "not followed any more"))
                for group in sorted(self._wanted - watches.keys()):
                    watches[group] = tasks.create_task(_watch(me, group, hear))
                await self._wanted_changed.wait()


def _tell(document: dict[str, Any], after: int, hear: Hear) -> int:
    """Pass on what a node answered, and return the number of the last event that it remembers."""
    recent = document.pop("recent")
    first = document["recorded"] - len(recent) + 1
    if after and first > after + 1:
        hear(EventsForgotten(time.time(), first - after - 1))
    for number, event in enumerate(recent, first):
        hear(Happened(_seconds(event["at"]), number, event["event"], event["values"]))
    hear(StateKnown(time.time(), document))
    return int(document["recorded"])


async def _watch(me: Me, group: Group, hear: Hear) -> None:
    try:
        async with me.watch(group.name, group.scope) as watch:
            isolated = False
            async for change in watch:
                isolated = change.isolated if isinstance(change, View) else isolated
                step = None if isinstance(change, View | Gap) else change
                hear(ViewSeen(time.time(), group, watch.members, isolated, step))
    except Refused as refusal:
        # Outside the group's scope, say: true of this group and no reason to stop following the others.
        hear(Unseen(time.time(), group, refusal.what))


def _first(errors: BaseExceptionGroup[RostraError]) -> RostraError:
    error = errors.exceptions[0]
    return error if isinstance(error, RostraError) else _first(error)


def _seconds(utc: str) -> float:
    return datetime.fromisoformat(utc).timestamp()
