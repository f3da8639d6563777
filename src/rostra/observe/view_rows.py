"""The scribe's rows about agreed groups: views that programs are given, and views that servers agree on.

    at an agent     Deliver(MemberView) ──▶ view        what the programs of this host have
                    Deliver(MemberBlocked) ──▶ blocked
    at a server     ViewAgreed ──▶ view-agreed          what the set committed, and how it came to it
                    SetIsolated ──▶ isolated

A view of a large group is given to all its hosts at every change. So rows say what changed since the view
that this host, or server, had before, and count those that stayed. Where that does not give the new order
(after a merge) and at the beginning there is a row for every member. The digest is of the whole list.

One step gives one view to all members of a group here: they share its rows.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from rostra.groups.members import Stamp
from rostra.journal.entries import Sheet
from rostra.journal.fold import JOINED, LEFT, UNKNOWN, ViewLine
from rostra.journal.view_lists import digest_of
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import ServerId
from rostra.protocols.agreed.observed import SetIsolated, ViewAgreed
from rostra.protocols.agreed.requests import MemberBlocked, MemberView

FAILED: Final = "failed"  # in the place of a cause: its host, or what is above it, was given up
JOIN, LEAVE, MERGE = "join", "leave", "merge"

Observers = tuple[Endpoint, ...]
Listed = tuple[Endpoint, ...]  # in order of rank


class _Given:
    """Views of one group, as this host has them."""

    __slots__ = ("by_observer", "id", "latest", "members")

    def __init__(self) -> None:
        self.id = ""  # of the newest view that any member here was given
        self.members: Listed | None = None
        self.by_observer: dict[Endpoint, _Held] = {}  # one that reads slowly has an older one
        self.latest = _Held("", 0, ())  # that was given to one of them


class _Held(NamedTuple):
    id: str
    number: int
    members: Listed


class _Waiting(NamedTuple):
    """What was given in this step, and to whom."""

    item: MemberView | MemberBlocked
    observers: list[Endpoint]


class ViewRows:
    def __init__(self, sheet: Sheet, named: Callable[[Observers], Observers]) -> None:
        self._sheet = sheet
        self._named = named  # as many observers as a row names
        self._groups: dict[Group, _Given] = {}
        self._waiting: dict[tuple[Group, str], _Waiting] = {}
        self._told: set[tuple[Group, Endpoint]] = set()  # in this step
        self.idle_s = 0.0  # since the last step: it stands still no longer than a tick
        self._agreed: dict[Group, dict[str, Listed]] = {}  # at a server: of each part, its last list

    # At an agent

    def given(self, me: Endpoint, group: Group, item: MemberView | MemberBlocked) -> None:
        if (group, me) in self._told:
            self.flush()
        self._told.add((group, me))
        known = self._groups.setdefault(group, _Given())
        key = item.because if isinstance(item, MemberBlocked) else view_id(item)
        if isinstance(item, MemberView):
            if known.latest.id != key:
                had = known.by_observer.get(me, known.latest).members
                known.latest = _Held(key, item.number, members_after(had, item))
            known.by_observer[me] = known.latest
        self._waiting.setdefault((group, key), _Waiting(item, [])).observers.append(me)

    def left(self, me: Endpoint, group: Group) -> None:
        known = self._groups.get(group)
        if known is not None:
            self.flush()
            known.by_observer.pop(me, None)
            if not known.by_observer:
                del self._groups[group]

    def flush(self) -> None:
        """The step is over."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        self._told.clear()
        for (group, _), (item, observers) in waiting.items():
            known = self._groups[group]
            told: dict[str, Any] = {"observers": self._named(tuple(observers)), "told": len(observers)}
            held = known.by_observer.get(observers[0], known.latest)
            if isinstance(item, MemberView):
                self._view(group, known, held, item, told)
            else:
                self._sheet.write(
                    "blocked",
                    group=str(group),
                    first=held.number,
                    view=held.id,
                    what=item.because,
                    own_lateness_s=self.idle_s,
                    **told,
                )

    def _view(self, group: Group, known: _Given, held: _Held, item: MemberView, told: dict[str, Any]) -> None:
        cause = MERGE if item.parts else JOIN
        lines: list[ViewLine] = []
        kept = len(held.members)
        if known.members is None or (held.id != known.id and _place(held.id) >= _place(known.id)):
            gone = dict.fromkeys(item.left, LEAVE) | dict.fromkeys(item.failed, FAILED)
            again = frozenset([who for who, _ in item.joined])
            lines, kept = changed_lines(known.members, held.members, gone, again, cause)
            known.id, known.members = held.id, held.members
        self._sheet.write(
            "view",
            lines,
            kept,
            group=str(group),
            first=held.number,
            view=held.id,
            cause=cause,
            fence=item.fence,
            digest=digest_of(held.members),
            own_lateness_s=self.idle_s,
            **told,
        )

    # At a server

    def agreed(self, view: ViewAgreed) -> None:
        parts = self._agreed.setdefault(view.group, {})
        id, base = id_of(view.id), None if view.base is None else id_of(view.base)
        members = tuple([each.endpoint for each in view.members])
        before = parts.pop(id, None)
        if before is None and base is not None:
            before = parts.pop(base, None)
        stamps = [(each.endpoint, each.stamp) for each in (*view.members, *view.left, *view.failed)]
        gone = dict.fromkeys([each.endpoint for each in (*view.left, *view.failed)], view.because)
        again = frozenset([each.endpoint for each in view.joined]) if before != members else frozenset()
        lines, kept = changed_lines(before, members, gone, again, view.because, stamps)
        parts[id] = members
        while len(parts) > 2:  # others merged with it, or are gone
            del parts[next(iter(parts))]
        self._sheet.write(
            "view-agreed",
            lines,
            kept,
            group=str(view.group),
            domain=view.set,
            first=view.id[0],
            view=id,
            base=base,
            cause=view.because,
            accuser=view.noticed.server,
            accused=view.lost[0].server if view.lost else None,
            peer=view.coordinator.server,
            acks=_paths(view.acks),
            cut=_paths(view.cut),
            fence=view.fence,
            digest=digest_of(members),
            what=view.blocked or None,
        )

    def isolated(self, report: SetIsolated) -> None:
        server = report.server
        self._sheet.write(
            "isolated", peer=server.server, life=server.life, domain=report.set, what=report.why
        )


def changed_lines(
    before: Listed | None,
    members: Listed,
    gone: dict[Endpoint, str],
    again: frozenset[Endpoint],
    cause: str,
    stamps: Iterable[tuple[Endpoint, Stamp]] = (),
) -> tuple[list[ViewLine], int]:
    """What a view changes in a list: its lines, and how many members are kept. `again` are members that
    joined, of which those that were there left unseen in between."""
    known = dict(stamps)
    had, here = frozenset(before or ()), frozenset(members)
    lines = [
        ViewLine(who, known.get(who, UNKNOWN), LEFT, True, gone.get(who, cause if cause != JOIN else LEAVE))
        for who in before or ()
        if who not in here or (who in again and who in gone)
    ]
    out = frozenset([line.member for line in lines])
    kept = [who for who in before or () if who not in out]
    is_whole = [*kept, *members[len(kept) :]] != list(members)
    for rank, who in enumerate(members):
        is_new = who not in had or who in out
        if is_new or is_whole:
            lines.append(ViewLine(who, known.get(who, UNKNOWN), JOINED, is_new, cause, rank))
    return lines, 0 if is_whole else len(kept)


def members_after(had: Listed, item: MemberView) -> Listed:
    """All members, from those of the view before."""
    if item.members is not None:
        return tuple([who for who, _ in item.members])
    gone = {*item.left, *item.failed}
    return (*[who for who in had if who not in gone], *[who for who, _ in item.joined])


def view_id(item: MemberView) -> str:
    return f"{item.number}.{item.revision} {item.pid}".rstrip()


def id_of(id: tuple[int, int, object]) -> str:
    number, revision, pid = id
    return f"{number}.{revision} {'' if pid is None else pid}".rstrip()


def _place(id: str) -> tuple[int, int]:
    number, _, revision = id.partition(" ")[0].partition(".")
    return int(number), int(revision)


def _paths(servers: Iterable[ServerId]) -> tuple[Domain, ...]:
    return tuple([each.server for each in servers])
