"""An agent's watches: it follows each watched group once for all its watchers, numbers the changes, and keeps
the latest.

    core ── Absolute, Joined, Left, Only, Without ──▶ ┌─────────┐ ── Snapshot ──────────▶ a new watcher
            to the agent's own follower               │ Watches │ ── Changed 7, 8, 9 ───▶ all watchers
                                                      └─────────┘
                                                 keeps the latest changes, for watchers that come back

A watcher is sent a `Snapshot`, and then every `Changed` in order of its number. A watcher that was away names
the last number that it has. If all later changes are still here, it is sent those, and the snapshot that
follows brings nothing new; if not, it is sent the snapshot alone, and the two numbers tell how many it
missed. A slow reader for which changes were dropped is treated alike.

A **period** is one unbroken stretch of following a group. It lasts until `watch_linger_s` after the last
watcher has left, so that a watcher that lost its connection or was restarted can resume. Numbers of different
periods cannot be compared.

This is no part of Congress: to the servers, a watching agent is interest and nothing else.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from rostra.core.effects import Effect, Ignored, Instant, Tell, ignored
from rostra.errors import NotMember
from rostra.groups.members import Cause
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.local_state import SortedEndpoints
from rostra.protocols.relaxed.requests import (
    Absolute,
    AnyNotice,
    Changed,
    Joined,
    Left,
    Only,
    Snapshot,
    Without,
)
from rostra.protocols.relaxed.view import GroupView, Report, ViewChanged

Place = tuple[int, int]
"""How far a watcher has read: a period, and a number in it. Periods begin at 1."""


class WatchedGroup:
    """One group that is watched on this host: its members, and its latest changes."""

    __slots__ = (
        "_config",
        "_records",
        "changes",
        "isolated",
        "number",
        "period",
        "view",
        "waiting",
        "watchers",
    )

    def __init__(self, group: Group, period: int, config: RelaxedConfig) -> None:
        self.view = GroupView(group)
        self.isolated = False
        self.period = period
        self.number = 0  # of the latest change
        self.changes: deque[Changed] = deque()  # the latest ones, without a hole
        self.watchers = SortedEndpoints()  # those that have had their snapshot
        self.waiting: dict[Endpoint, Place] = {}  # for the first list
        self._records = 0
        self._config = config

    def is_idle(self) -> bool:
        return not self.waiting and not self.watchers.all()

    def welcome(self, watcher: Endpoint, place: Place) -> list[Effect]:
        """Send a watcher the changes since that place, or a snapshot."""
        self.watchers.add(watcher)
        view = self.view
        snapshot = Snapshot(view.group, view.members, self.period, self.number, self.isolated)
        return [Tell((watcher,), told) for told in (*self.since(place), snapshot)]

    def since(self, place: Place) -> list[Changed]:
        """What changed after that place; nothing if not all of it is known any more."""
        period, number = place
        behind = self.number - number
        if period != self.period or not 0 <= behind <= len(self.changes):
            return []
        return [change for change in self.changes if change.number > number]

    def tell(self, reports: list[Report]) -> list[Effect]:
        """Number the changes, keep them, and send them to all watchers."""
        told: list[Effect] = []
        for report in reports:
            if isinstance(report, Ignored):
                told.append(report)
            elif not report.first:
                for change in self._numbered(report):
                    self._keep(change)
                    if watchers := self.watchers.all():
                        told.append(Tell(watchers, change))
        return told

    def _numbered(self, report: ViewChanged) -> Iterator[Changed]:
        """Leaves and joins of one notice are two changes: a reader may stop in between."""
        group, why = self.view.group, report.why
        left = tuple([member.endpoint for member in report.left])
        if isinstance(why, Left):
            yield Changed(group, self._next(), left=left, cause=why.cause, meta=why.meta)
        elif isinstance(why, Only | Without):
            yield Changed(group, self._next(), left=left, by=why)
        else:
            if left:
                yield Changed(group, self._next(), left=left, cause=Cause.MERGE)
            if report.joined:
                cause = why.cause if isinstance(why, Joined) else Cause.MERGE
                yield Changed(group, self._next(), members=report.joined, cause=cause)

    def _next(self) -> int:
        self.number += 1
        return self.number

    def _keep(self, change: Changed) -> None:
        self.changes.append(change)
        self._records += _records(change)
        config = self._config
        while len(self.changes) > config.watch_changes_max or self._records > config.watch_records_max:
            self._records -= _records(self.changes.popleft())


class Watches:
    """All watches of one host. The driver follows every group in `groups` as one endpoint, and passes on the
    notices to that endpoint."""

    def __init__(self, host: Domain, config: RelaxedConfig) -> None:
        self.groups: dict[Group, WatchedGroup] = {}
        self._host = host
        self._config = config
        self._periods = 0
        self._watched: dict[Endpoint, dict[Group, None]] = {}
        self._idle: dict[Group, Instant] = {}  # without watchers: since when, the first first

    def watch(self, watcher: Endpoint, group: Group, place: Place) -> list[Effect]:
        """This endpoint watches the group from that place on. To watch it already changes nothing."""
        if group in self._watched.setdefault(watcher, {}):
            return []
        self._watched[watcher][group] = None
        self._idle.pop(group, None)
        watched = self.groups.get(group)
        if watched is None:
            self._periods += 1
            watched = self.groups[group] = WatchedGroup(group, self._periods, self._config)
        if watched.view.known:
            return watched.welcome(watcher, place)
        watched.waiting[watcher] = place
        return []

    def unwatch(self, now: Instant, watcher: Endpoint, group: Group) -> None:
        if group not in self._watched.get(watcher, ()):
            raise NotMember(f"{watcher} does not watch {group}", fix="watch it first")
        del self._watched[watcher][group]
        self._end(now, watcher, group)

    def gone(self, now: Instant, watcher: Endpoint) -> None:
        """The endpoint is closed, or dead."""
        for group in self._watched.pop(watcher, ()):
            self._end(now, watcher, group)

    def told(self, notice: AnyNotice) -> list[Effect]:
        """A notice to the agent's own follower."""
        match notice:
            case Absolute(group) | Joined(group) | Left(group):
                watched = self.groups.get(group)
                if watched is None:
                    return [ignored(notice, why="not followed")]
                match notice:
                    case Absolute(isolated=isolated):
                        watched.isolated = isolated
                        told = watched.tell(watched.view.replace(notice))
                        waiting, watched.waiting = watched.waiting, {}
                        for watcher, place in waiting.items():
                            told += watched.welcome(watcher, place)
                        return told
                    case Joined(cause=cause):
                        watched.isolated = watched.isolated and cause is not Cause.MERGE
                        return watched.tell(watched.view.add(notice))
                    case Left():
                        return watched.tell(watched.view.remove(notice))
            case Only() | Without():
                told = []
                for group in sorted(self.groups):
                    watched = self.groups[group]
                    if isinstance(notice, Only) and notice.domain == self._host:
                        watched.isolated = group.scope != self._host
                    told += watched.tell(watched.view.filter(notice))
                return told
        return [ignored(notice, why="not followed")]

    def skipped(self, watcher: Endpoint, group: Group, number: int) -> list[Effect]:
        """The driver could not pass on what came after that number; now it can again."""
        if group not in self._watched.get(watcher, ()):
            return []
        watched = self.groups[group]
        return watched.welcome(watcher, (watched.period, number))

    @property
    def has_idle(self) -> bool:
        """Are there groups without watchers that are not forgotten yet?"""
        return bool(self._idle)

    def expire(self, now: Instant) -> list[Group]:
        """Forget the groups to which no watcher came back in time. They need not be followed any more."""
        expired: list[Group] = []
        for group, since in self._idle.items():
            crowded = len(self._idle) - len(expired) > self._config.watch_idle_max
            if now - since < self._config.watch_linger_s and not crowded:
                break
            expired.append(group)
        for group in expired:
            del self._idle[group], self.groups[group]
        return expired

    def document(self) -> dict[str, Any]:
        """What is watched, for people and tools."""
        return {
            str(group): {
                "watchers": [*sorted(watched.waiting), *watched.watchers.all()],
                "members": len(watched.view),
                "period": watched.period,
                "number": watched.number,
                "remembered": len(watched.changes),
            }
            for group, watched in sorted(self.groups.items(), key=lambda item: item[0])
        }

    def _end(self, now: Instant, watcher: Endpoint, group: Group) -> None:
        watched = self.groups[group]
        watched.watchers.discard(watcher)
        watched.waiting.pop(watcher, None)
        if watched.is_idle():
            self._idle[group] = now


def _records(change: Changed) -> int:
    return 1 + len(change.members) + len(change.left)
