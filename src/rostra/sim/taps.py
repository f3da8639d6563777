"""Taps: they sit between a node and its core, see every step, and object at once.

Scopes        no server outside a group's scope receives a message that names it           (C-009)
OneCopy       no server receives one event twice                                           (C-019)
Invariants    what must hold after every step of a core                                    (C-159)
Tally         how many messages of each kind crossed how many links                        (C-144)
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from rostra.core.effects import Core, Effect, Event, Instant, Received
from rostra.errors import RostraError
from rostra.names import Domain, Group, Tree, depth, inside, strictly_inside
from rostra.protocols.fifo.core import ClusterCore, HostCore
from rostra.protocols.fifo.invariants import delegate_violations, member_violations
from rostra.protocols.relaxed import invariants
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.messages import MessageId, ResolveReply


class RuleBroken(RostraError):
    """A server did what no server may do."""

    code = "RULE_BROKEN"


class Tap(Protocol):
    def stepped(self, path: Domain, core: Core, event: Event, effects: Sequence[Effect]) -> None: ...


def tapped(*taps: Tap) -> Callable[[Domain, Core], Core]:
    """For `World(watching=...)`: wrap every core so that these taps see its steps."""
    return lambda path, core: _Tapped(path, core, taps)


class _Tapped:
    def __init__(self, path: Domain, core: Core, taps: Iterable[Tap]) -> None:
        self._path, self._core, self._taps = path, core, tuple(taps)

    def step(self, now: Instant, event: Event) -> Sequence[Effect]:
        effects = self._core.step(now, event)
        for tap in self._taps:
            tap.stepped(self._path, self._core, event, effects)
        return effects


class Scopes:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def stepped(self, path: Domain, core: Core, event: Event, effects: Sequence[Effect]) -> None:
        if isinstance(event, Received):
            for group in groups_of(event.message):
                if not self._may_hear(path, group):
                    raise RuleBroken(f"{path} received {type(event.message).__name__} of {group}")

    def _may_hear(self, path: Domain, group: Group) -> bool:
        """Agents inside the scope, servers strictly inside, and a cluster's if it is the scope (C-010)."""
        if path not in self._tree.children:
            return inside(group.scope, path) and group.scope != path
        return strictly_inside(group.scope, path) or (path == group.scope and path in self._tree.clusters)


class OneCopy:
    def __init__(self) -> None:
        self._seen: set[tuple[Domain, type, MessageId, Domain | None]] = set()

    def stepped(self, path: Domain, core: Core, event: Event, effects: Sequence[Effect]) -> None:
        if isinstance(event, Received):
            message = event.message
            # Everybody who was asked answers under the id of the question: one answer each.
            answers = event.sender if isinstance(message, ResolveReply) else None
            copy = (path, type(message), message.id, answers)
            if copy in self._seen:
                raise RuleBroken(f"{path} received {type(message).__name__} {message.id} twice")
            self._seen.add(copy)


class Invariants:
    def __init__(self, every: int = 1) -> None:
        self._every = every  # look after so many steps of anybody: groups that speak take many
        self._steps = 0

    def stepped(self, path: Domain, core: Core, event: Event, effects: Sequence[Effect]) -> None:
        self._steps += 1
        if self._steps % self._every:
            return
        match core:
            case DomainServer():
                wrong = invariants.domain_server_violations(core)
            case LocalServer():
                wrong = invariants.local_server_violations(core)
            case HostCore():
                wrong = invariants.local_server_violations(core.local)
                for members in core.members.values():
                    for member in members.values():
                        wrong += member_violations(member)
            case ClusterCore():
                wrong = invariants.domain_server_violations(core.server)
                for delegate in core.groups.values():
                    wrong += delegate_violations(delegate)
            case _:
                wrong = []
        if wrong:
            raise RuleBroken(f"{path} after {type(event).__name__}: {wrong[0]}")


class Tally:
    """Messages received, by kind and by the depth of the lower end of their link: 1 is below the root."""

    def __init__(self) -> None:
        self.by_kind: Counter[str] = Counter()
        self.by_depth: Counter[tuple[str, int]] = Counter()

    def stepped(self, path: Domain, core: Core, event: Event, effects: Sequence[Effect]) -> None:
        if isinstance(event, Received):
            kind = type(event.message).__name__
            self.by_kind[kind] += 1
            self.by_depth[kind, max(depth(path), depth(event.sender))] += 1

    def clear(self) -> None:
        self.by_kind.clear()
        self.by_depth.clear()


def groups_of(message: Any) -> tuple[Group, ...]:
    """The groups that a message names."""
    group = getattr(message, "group", None)
    return (group,) if group is not None else getattr(message, "groups", ())
