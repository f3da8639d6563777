"""Soft state of one server for one set: the hosts below, the last view sent to each, and queued requests."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from msgspec import Struct, field

from rostra.core.effects import Effect, Instant, ignored
from rostra.names import Domain, Group, inside
from rostra.protocols.agreed.branch import HostHolds, MemberAsked, ViewId
from rostra.protocols.agreed.changes import Pid, ServerId
from rostra.protocols.agreed.config import HOST_WAITING_MAX
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.groups import AgreedGroup, GroupTable, is_sound_list
from rostra.protocols.agreed.lease import IN_DOUBT, SetLease
from rostra.protocols.agreed.observed import ShownGroups
from rostra.protocols.agreed.state import SetState

HELD_MAX: Final = 2**61
"""Of the numbers that a host says a group has come to. A message can have twice as much."""

Asking = MemberAsked | HostHolds
"""What a host below asks of the core-set."""


class Restoring(Struct, eq=False):
    """A group that hosts hold and this server does not know: what they say, until all have."""

    until: Instant
    held: dict[Domain, HostHolds] = field(default_factory=dict)
    waiting: list[Asking] = field(default_factory=list)


class ToldGroup(Struct, eq=False):
    """What the hosts below were told of a group."""

    ids: dict[Domain, ViewId] = field(default_factory=dict)  # the last view that each was sent
    untaken: set[Domain] = field(default_factory=set)  # those that have not confirmed it


class CoreSet:
    """Our part in one set: its core, and what concerns the hosts below us."""

    def __init__(self, core: SetCore, *, is_parent: bool, form_until: Instant) -> None:
        self.core = core
        self.is_parent = is_parent  # of the others: the hosts are theirs to look after
        self.told: dict[Group, ToldGroup] = {}
        self.handing: set[Group] = set()  # groups that are about to go to another set
        self.asked: dict[str, MemberAsked] = {}  # by request: what a host waits for
        self.form_until = form_until  # until then, or until all whom we see are in our part, requests wait
        self.waiting: list[Asking] = []
        self.behind: dict[Domain, deque[MemberAsked]] = {}  # by host: requests that wait for others of it
        self.lease = SetLease()
        self.ask_at: Instant = 0.0  # for confirmations
        self.suspended: set[Group] = set()  # in doubt: hosts below were told so
        self.ends: dict[Group, tuple[object, Instant]] = {}  # of groups whose rule is exclusive; and why then
        self.lives: tuple[SetState | None, int, dict[Group, Instant]] = (
            None,
            0,
            {},
        )  # the same, of which state
        self.counted: dict[ServerId, Instant] = {}  # by whom they live until then
        self.shown: ShownGroups = {}  # to observers
        self.coming: Pid | None = None  # the last proposal of which hosts were told that it is coming

    @property
    def table(self) -> GroupTable:
        return self.core.state.table

    def why_blocked(self, group: Group, known: AgreedGroup) -> str:
        """Why members of this part of the group must not go on, as the hosts below us were told."""
        return known.blocked or (IN_DOUBT if group in self.suspended else "")

    def has_members(self, domain: Domain) -> bool:
        views = [each.view for each in self.table.groups.values()]
        return any(inside(domain, id.endpoint) for view in views for id in view.ids)

    def is_formed(self, now: Instant) -> bool:
        state = self.core.state
        return now >= self.form_until or state.linked <= {each.server for each in state.view.servers}


def has_room(message: Asking, waiting: Iterable[Asking]) -> bool:
    """May it wait beside these? A message of thousands of members counts as many that are of one."""
    host = message.question.host
    return sum([_weight(each) for each in waiting if each.question.host == host]) < HOST_WAITING_MAX


def _weight(message: Asking) -> int:
    view = message.view if isinstance(message, HostHolds) else ()
    return 1 + (len(message.members) + len(view)) // 64


def let_wait(message: Asking, waiting: list[Asking], out: list[Effect]) -> None:
    if message in waiting:
        return
    if has_room(message, waiting):
        waiting.append(message)
    else:
        out.append(ignored(message, "too many requests of its host wait"))


def is_reachable(held: HostHolds) -> bool:
    """Could a group have come to this? It is believed after a restart, and counted on from."""
    number, revision, _ = held.id or (0, 0, None)
    numbers = (number, revision, held.fence, *[each.joined for each in held.view])
    is_inside = all(inside(held.group.scope, each.id.endpoint) for each in held.view)
    return max(numbers) <= HELD_MAX and is_sound_list(held.view) and is_inside
