"""Taps: checks between a node and its stack. Each sees every step, and raises at the first violation.

Scopes        no server outside a group's scope receives a message that names it           (C-009)
OneCopy       no server receives one event twice                                           (C-019)
Invariants    what must hold after every step of a stack                                   (C-159)
TurnWork      a step costs work for each entry that the node holds, and never for each pair of them
Tally         how many messages of each kind crossed how many links                        (C-144)
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol

from rostra.core.effects import Effect, Event, Ignored, Instant, Received
from rostra.core.stack import Stack
from rostra.errors import RostraError
from rostra.names import Domain, Group, Tree, inside, strictly_inside
from rostra.protocols.claims.messages import ClaimMessage
from rostra.protocols.fifo.cluster import CLUSTER
from rostra.protocols.fifo.core import HOST
from rostra.protocols.fifo.events import Aggregated, Broadcast, Cast, Deliver, Delivered, Transmit
from rostra.protocols.fifo.invariants import delegate_violations, member_violations
from rostra.protocols.relaxed import invariants
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.messages import MessageId, ResolveReply


class RuleBroken(RostraError):
    """A server did what no server may do."""

    code = "RULE_BROKEN"


class Tap(Protocol):
    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None: ...


def tapped(*taps: Tap) -> Callable[[Domain, Stack], Stack]:
    """For `World(watching=...)`: these taps see the steps of every stack."""
    return lambda path, stack: _Tapped(path, stack, taps)


class _Tapped(Stack):
    def __init__(self, path: Domain, stack: Stack, taps: Iterable[Tap]) -> None:
        super().__init__(*stack.services)
        self._path, self._stack, self._taps = path, stack, tuple(taps)

    def step(self, now: Instant, event: Event) -> Sequence[Effect]:
        effects = self._stack.step(now, event)
        for tap in self._taps:
            tap.stepped(self._path, self._stack, event, effects)
        return effects


class Scopes:
    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None:
        if isinstance(event, Received):
            for group in groups_of(event.message):
                # The server of its scope decides what kind a group is, and gets its claims for that.
                is_asked = isinstance(event.message, ClaimMessage) and path == group.scope
                if not is_asked and not self._may_hear(path, group):
                    raise RuleBroken(f"{path} received {type(event.message).__name__} of {group}")

    def _may_hear(self, path: Domain, group: Group) -> bool:
        """Agents inside the scope, servers strictly inside, and a cluster's if it is the scope (C-010)."""
        if path not in self._tree.children:
            return inside(group.scope, path) and group.scope != path
        return strictly_inside(group.scope, path) or (path == group.scope and path in self._tree.clusters)


WORK_BASE: Final = 24
WORK_PER_ENTRY: Final = 2
"""Effects that one step may have: so many for each entry that the node holds, and never for each pair of
them."""


class TurnWork:
    """The work of every step is bounded, of agents and of servers. Messages to a group, and their repair, are
    not counted."""

    def __init__(self) -> None:
        self._held: dict[Domain, int] = {}  # after the last step: a step may end what it had to announce

    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None:
        before, self._held[path] = self._held.get(path, 0), entries_of(stack)
        if len(effects) <= WORK_BASE:
            return
        entries = max(before, self._held[path])
        work = sum(not isinstance(effect, MULTICAST) and not _is_said(effect) for effect in effects)
        if work > WORK_BASE + WORK_PER_ENTRY * entries:
            kind = type(event.message if isinstance(event, Received) else event).__name__
            raise RuleBroken(f"{path} did {work} things after {kind}, with {entries} entries")


MULTICAST: Final = (Cast, Transmit, Broadcast)


def entries_of(stack: Stack) -> int:
    """How much a node holds: members, readers, streams, and rows of its server."""
    entries = 0
    if (agent := stack.find(AGENT)) is not None:
        entries += sum([len(each.members) + len(each.watchers) for each in agent.groups.values()])
    if (host := stack.find(HOST)) is not None:
        shared = [*host.receptions.values()]
        own = [each.reception for of in host.members.values() for each in of.values() if each.reception.only]
        entries += sum([len(each.members) + len(each.view) for each in (*shared, *own)])
    if (server := stack.find(SERVER)) is not None:
        entries += sum([len(row.entries) + len(server.neighbours.up) for row in server.table.rows.values()])
    if (cluster := stack.find(CLUSTER)) is not None:
        entries += sum([len(each.view) + len(each.locals) for each in cluster.groups.values()])
    return entries


def _is_said(effect: Effect) -> bool:
    """A message, or a part of one that a reader has already."""
    if isinstance(effect, Ignored):
        return effect.what == "Data"
    return isinstance(effect, Deliver) and isinstance(effect.item, Delivered | Aggregated)


class OneCopy:
    def __init__(self) -> None:
        self._seen: set[tuple[Domain, type, MessageId, Domain | None]] = set()

    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None:
        if isinstance(event, Received):
            message = event.message
            if not isinstance(getattr(message, "id", None), MessageId):
                return  # agreed services repeat theirs on purpose
            # Each server that was asked answers under the id of the question: one answer each.
            answers = event.sender if isinstance(message, ResolveReply) else None
            copy = (path, type(message), message.id, answers)
            if copy in self._seen:
                raise RuleBroken(f"{path} received {type(message).__name__} {message.id} twice")
            self._seen.add(copy)


class Invariants:
    def __init__(self, every: int = 1) -> None:
        self._every = every  # check after so many steps of all nodes: FIFO groups take many
        self._steps = 0

    def stepped(self, path: Domain, stack: Stack, event: Event, effects: Sequence[Effect]) -> None:
        self._steps += 1
        if self._steps % self._every:
            return
        wrong: list[str] = []
        if (server := stack.find(SERVER)) is not None:
            wrong += invariants.domain_server_violations(server)
        if (agent := stack.find(AGENT)) is not None:
            wrong += invariants.local_server_violations(agent)
        if (host := stack.find(HOST)) is not None:
            for members in host.members.values():
                for member in members.values():
                    wrong += member_violations(member)
        if (cluster := stack.find(CLUSTER)) is not None:
            for delegate in cluster.groups.values():
                wrong += delegate_violations(delegate)
        if wrong:
            raise RuleBroken(f"{path} after {type(event).__name__}: {wrong[0]}")


def groups_of(message: Any) -> tuple[Group, ...]:
    """The groups that a message names. Those that servers of a set carry to each other, with all that they
    are, are not among them: the server of the scope may be one of these."""
    group = getattr(message, "group", None)
    named = (group,) if group is not None else getattr(message, "groups", ())
    return tuple([each for each in named if isinstance(each, Group)])
