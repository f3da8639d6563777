"""Admission of a program to a group with delivery: it joins, and asks at once which kind of group it is.

    Enter ──┬── JoinAsked ──▶ Done ────────────┬── both: the program is answered
            └── Resolve ──▶ its members ───────┘
                               └── others, and none uses delivery: it leaves, and is refused

The first member chooses the kind of a group, and only its member list shows which that is. Asking before
joining would cost every join a round trip to the farthest cluster, and nearly always in vain. Other programs
of this host that are still `entering` do not count: they have not chosen the kind either.
"""

from collections.abc import Callable
from typing import Any

from rostra.core.stack import Stack
from rostra.errors import BadInput, NotAllowed, NotAvailable, RostraError
from rostra.groups.attributes import Role, Slow
from rostra.groups.kinds import FIFO, DeliveryKind, GroupKind
from rostra.groups.members import Members
from rostra.names import Endpoint, Group
from rostra.protocols.agreed.requests import JoinAgreed
from rostra.protocols.fifo.core import HOST
from rostra.protocols.fifo.requests import Enter
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import Absolute, Denied, Done, denied

Hear = Callable[[Any], None]


class EnteringPrograms(set[Endpoint]):
    """The programs of one host that are entering one group. Hundreds of them may get the same member list, so
    the kind that it shows is looked up once."""

    def __init__(self, over: "Callable[[EnteringPrograms, Endpoint], None]" = lambda *_: None) -> None:
        super().__init__()
        self._over = over
        self._listed: tuple[Members, GroupKind | None] | None = None

    def claimed_kind(self, members: Members) -> GroupKind | None:
        """The strong kind of the group, if a member on its list has one."""
        if self._listed is None or self._listed[0] is not members:
            kinds = (each.kind for each in members if each.kind is not None and each.kind.is_claimed)
            self._listed = members, next(kinds, None)
        return self._listed[1]

    def entered(self, endpoint: Endpoint) -> None:
        """Its join is decided: it is in, or was refused."""
        self.discard(endpoint)
        if not self:
            self._listed = None
        self._over(self, endpoint)


class EnteringTable:
    """Who enters which group now, or was refused and is leaving it again; found by either."""

    def __init__(self) -> None:
        self.groups: dict[Group, EnteringPrograms] = {}
        self._of: dict[Endpoint, set[Group]] = {}

    def begin(self, endpoint: Endpoint, group: Group) -> EnteringPrograms:
        self._of.setdefault(endpoint, set()).add(group)
        if group not in self.groups:
            self.groups[group] = EnteringPrograms(lambda those, who: self._entered(those, who, group))
        return self.groups[group]

    def over(self, endpoint: Endpoint, group: Group) -> None:
        """It is out of the group."""
        if group in self._of.get(endpoint, ()):
            self.groups[group].entered(endpoint)

    def gone(self, endpoint: Endpoint) -> None:
        for group in tuple(self._of.get(endpoint, ())):
            self.groups[group].entered(endpoint)

    def _entered(self, those: EnteringPrograms, endpoint: Endpoint, group: Group) -> None:
        if self.groups.get(group) is not those:
            return  # it has left since, and perhaps others enter
        groups = self._of.get(endpoint, set())
        groups.discard(group)
        if not groups:
            self._of.pop(endpoint, None)
        if not those:
            del self.groups[group]


class Admission:
    """One program that enters one group. `leave` takes back a join that was a mistake."""

    def __init__(
        self,
        group: Group,
        me: Endpoint,
        entering: EnteringPrograms,
        answer: Hear,
        leave: Callable[[], None],
        kind: GroupKind = FIFO,
    ) -> None:
        self.group = group
        self._wanted = kind
        self._me = me
        self._entering = entering
        entering.add(me)
        self._answer = answer
        self._leave = leave
        self._joined: Any = None
        self._kind: Any = None
        self._over = False

    def joined(self, result: Any) -> None:
        """The answer to the join."""
        self._joined = result
        self._decide()

    def listed(self, result: Any) -> None:
        """The member list that `Resolve` asked for. If it did not come in time, the program is let in."""
        self._kind = self._refusal(result) or Done()
        self._decide()

    def _refusal(self, result: Any) -> Denied | None:
        if type(result) is Denied:
            return None if result.retriable else result
        if type(result) is Absolute and (kind := self._entering.claimed_kind(result.members)) is not None:
            if kind == self._wanted:
                return None
            return denied(NotAllowed(f"{self.group} is {kind}", fix="join it so, or choose another name"))
        if type(result) is Absolute and self._is_plain(result.members):
            return denied(
                NotAllowed(
                    f'{self.group} is a group with delivery="none": its members only hear of each other',
                    fix='watch it, or join it with delivery="none"; to speak, choose another name',
                )
            )
        return None

    def _decide(self) -> None:
        joined, kind = self._joined, self._kind
        if self._over:
            return
        if type(joined) is Denied:
            self._over = True
            self._entering.entered(self._me)
            self._answer(joined)
        elif joined is not None and kind is not None:
            self._over = True
            if type(kind) is Denied:
                self._leave()  # and does not count for those who are given the same list
            else:
                self._entering.entered(self._me)
            self._answer(kind if type(kind) is Denied else joined)

    def _is_plain(self, members: Members) -> bool:
        """Has the group members, and none with delivery? Members without delivery may stand beside others
        with it."""
        plain = False
        for member in members:
            if member.endpoint not in self._entering and member.endpoint != self._me:
                if member.kind == FIFO:
                    return False  # mostly one of the first, for delegates come before hosts
                plain = plain or member.kind is None
        return plain


def why_not_spoken(join: JoinAgreed, *, has_streams: bool) -> Denied | None:
    """Why an agreed group cannot be joined with this delivery, role or policy for slow readers."""
    if join.delivery is DeliveryKind.NONE:
        return None
    refusal: RostraError | None = None
    if join.delivery is DeliveryKind.ATOMIC:
        refusal = BadInput('JoinAgreed with delivery="atomic"', fix="use JoinOrdered, which names the order")
    elif not has_streams:
        refusal = NotAvailable('this agent has no delivery="fifo"', fix="connect to the agent of a real host")
    elif join.role is Role.SUBMIT:
        refusal = NotAllowed(
            'role="submit" is for those who are no members, and members alone speak in an agreed group',
            fix='join it with role="both" or role="send"',
        )
    elif join.slow is Slow.SPILL:
        refusal = NotAvailable(
            'slow="spill" is not there with membership="agreed"', fix='use slow="throttle" or slow="expel"'
        )
    return None if refusal is None else denied(refusal)


def how(enter: Enter) -> tuple[Role, Slow, bytes]:
    return enter.role, enter.slow, enter.meta


def plain_join_refusal(stack: Stack, group: Group) -> Denied | None:
    """Why this group cannot be joined without delivery, as far as is known on this host."""
    host = stack.find(HOST)
    if host is None or group not in host.members:
        return None
    return denied(
        NotAllowed(
            f'{group} is a group with delivery="fifo"',
            fix='join it with delivery="fifo", or choose another name',
        )
    )


def plain_leave_refusal(stack: Stack, me: Endpoint, group: Group) -> Denied | None:
    """Why a member cannot leave so: its claim would be released, and the service of its kind not know."""
    agent = stack.find(AGENT)
    table = None if agent is None else agent.groups.get(group)
    member = None if table is None else table.members.get(me)
    if member is None or member.kind is None or not member.kind.is_claimed:
        return None
    return denied(NotAllowed(f"{me} is in {group}, which is {member.kind}", fix="leave it as it was joined"))
