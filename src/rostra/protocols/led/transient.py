"""Transient sets: a program makes a set of its own, and says who is in it.

    owner ── CreateSet, ChangeSet, DestroySet ──▶ its agent, which leads the set
                                                  │ T_ADD  AddedToSet ────────▶ a member's agent ──▶ SetAdded
                                                  │ ◀── AddAnswered: taken, unknown, left
                                                  │ T_DELETE  DeletedFromSet ─▶                  ──▶ SetLost
                                                  │ ◀── MembersLeft  T_LEFT ── LeaveLed
                                                  │ T_GONE  TransientGone ────▶                  ──▶ SetLost

The name says whose set it is, and so which agent leads: no registrar, and nothing is claimed (S-076). The
messages go on circuits between the owner's agent and those of the members: a tree of depth one (S-074).

The owner's agent keeps a **roster** of those that were added. The set is those of them whose agents have
confirmed it and are in reach (S-078): after a partition they are in it again, unless the set was made with
``readmit=False``. A member that left is not added again by that, only by the owner. One whose host does not
answer for `circuit_idle_s` is given up, and the owner is told: names of hosts that do not exist cost circuits
for so long, and only some of them (`wanted.py`).

Where we differ from the paper, and why: a list of members is sent to those who ask for it by the letters of
other led sets, so that resolving and following work in one way.
"""

from collections.abc import Iterable
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import Answer, CancelTimer, Ignored, Noted, SetTimer, Tell, ignored
from rostra.core.room import SharedRoom
from rostra.errors import BadInput, NoSuchGroup, NotInScope, NotOwner, TooLarge
from rostra.names import (
    Domain,
    Endpoint,
    Group,
    host_of,
    incarnation_of,
    inside,
    parent,
    parse_group_name,
    scope_to_use,
)
from rostra.protocols.led.config import (
    LOST_SETS_MAX,
    ROSTER_MAX,
    SETS_FROM_HOST_MAX,
    SETS_MAX,
    SETS_WITH_ENDPOINT_MAX,
)
from rostra.protocols.led.messages import (
    AddAnswered,
    AddedToSet,
    DeletedFromSet,
    Entries,
    ListEntry,
    LocalMember,
    MembersLeft,
    TransientGone,
    TransientMessage,
)
from rostra.protocols.led.requests import (
    AddRefused,
    ChangeSet,
    CreateSet,
    DestroySet,
    SetAdded,
    SetCreated,
    SetLost,
    SetMembers,
)
from rostra.protocols.led.stays import local_name
from rostra.protocols.relaxed.requests import Done

if TYPE_CHECKING:
    from rostra.protocols.led.agent import LedAgent


UNANSWERED: Final = ("led", "unanswered")
"""The timer of a host that was asked to confirm members."""


class RosterState(Enum):
    """Where one that was added stands."""

    ASKED = "asked"  # the owner added it, and its agent has not answered yet
    IN = "in"
    AWAY = "away"  # it was in, and its agent is out of reach


Roster = dict[Domain, dict[Endpoint, RosterState]]
"""By host: a change of one member copies the places of its host, and not those of all."""


class OwnedSet(Struct, frozen=True):
    """A transient set at its owner's agent. To those who ask it is a set that this agent leads."""

    group: Group
    owner: Endpoint
    readmit: bool = True
    user: str = ""  # the owner's
    roster: Roster = {}  # never changed in place, and no host is without members

    leads = True
    took_over = False
    parent = None

    @property
    def members(self) -> tuple[Endpoint, ...]:
        return tuple(sorted([each for host in self.roster for each in self.at(host, RosterState.IN)]))

    @property
    def entries(self) -> Entries:
        by_host = {host: self.at(host, RosterState.IN) for host in sorted(self.roster)}
        return tuple(
            [
                ListEntry(host, 0, 0, tuple(sorted([LocalMember(local_name(each)) for each in members])))
                for host, members in by_host.items()
                if members
            ]
        )

    def at(self, host: Domain, *places: RosterState) -> list[Endpoint]:
        """Those of the host that stand there, or all of them, sorted."""
        there = self.roster.get(host, {})
        return sorted([each for each, place in there.items() if not places or place in places])

    def placed(self, endpoints: Iterable[Endpoint], place: RosterState | None) -> "OwnedSet":
        """None: they are on the roster no more."""
        roster = {**self.roster}
        for host, members in _by_host(endpoints).items():
            there = {**roster.get(host, {})}
            for each in members:
                if place is None:
                    there.pop(each, None)
                else:
                    there[each] = place
            if there:
                roster[host] = there
            else:
                roster.pop(host, None)
        return replace(self, roster=roster)

    def changed_since(self, before: "OwnedSet") -> list[Domain]:
        """Hosts whose members are not as they were."""
        hosts = {*self.roster, *before.roster}
        return sorted([host for host in hosts if self.roster.get(host) is not before.roster.get(host)])


def owner_of(group: Group) -> Endpoint | None:
    """The owner of a transient set, from its name."""
    owner, is_transient, _ = group.name.partition("~")
    return Endpoint(owner) if is_transient else None


def check_inside(scope: Domain, host: Domain) -> None:
    """Leaders and owners answer hosts in the scope of the set alone."""
    if not inside(scope, host):
        raise NotInScope(f"{host} is not in {scope}", fix=scope_to_use(scope, host))


class TransientSets:
    """The transient sets of one agent; part of `LedAgent`."""

    def __init__(self, agent: "LedAgent") -> None:
        self.owned: dict[Group, OwnedSet] = {}
        self.held: dict[Group, set[Endpoint]] = {}  # sets that endpoints of this host are in
        self._left: dict[Group, set[Endpoint]] = {}  # and those that they left by themselves
        self._lost: dict[Group, set[Endpoint]] = {}  # that they are out of while the owner is out of reach
        self._from: dict[Domain, set[Group]] = {}  # the same sets, by the owner's host
        self._sets_with: dict[Endpoint, SharedRoom] = {}  # and by member: how many of each owner's cluster
        self._sets_of = SharedRoom(SETS_MAX)  # users
        self._unanswered: dict[Domain, set[Group]] = {}  # hosts that were asked, and for which sets
        self._asks: dict[Group, dict[Endpoint, int]] = {}  # how many answers about a member are on their way
        self._agent = agent
        self._made = 0

    # From programs

    def asked(self, me: Endpoint, token: int, request: CreateSet | ChangeSet | DestroySet) -> None:
        match request:
            case CreateSet():
                self._create(me, token, request)
            case ChangeSet():
                self._change(self._own(me, request.group), request)
                self._agent.out.append(Answer(token, Done()))
            case DestroySet(group):
                self._destroy(self._own(me, group))
                self._agent.out.append(Answer(token, Done()))

    def _create(self, me: Endpoint, token: int, create: CreateSet) -> None:
        """No message: the name is ours alone (S-008, S-009)."""
        agent = self._agent
        check_inside(create.scope, agent.host)
        name = f"{me}~{agent.me.life}-{incarnation_of(me)}-{create.at_ms}-{self._made + 1}"
        parse_group_name(name)  # the path of a host may be too long for it
        user = agent.directory.user_of(me)
        if not self._sets_of.has_room(user):
            raise TooLarge(
                f"{user or me} owns {self._sets_of.held[user]} sets, as many as are free", fix="destroy some"
            )
        self._sets_of.take(user)
        self._made += 1
        group = Group(name, create.scope)
        self.owned[group] = OwnedSet(group, me, create.readmit, user)
        agent.lists_changed(group)
        agent.out.append(Answer(token, SetCreated(group)))
        agent.out.append(Noted("set created", str(group)))

    def _own(self, me: Endpoint, group: Group) -> OwnedSet:
        owner = owner_of(group)
        if owner is None:
            raise BadInput(f"{group} is not a transient set", fix="join and leave it")
        if owner != me:
            raise NotOwner(f"{group} belongs to {owner}", fix="only its owner changes it; a member may leave")
        if group not in self.owned:
            raise NoSuchGroup(f"there is no set {group} any more", fix="create another one")
        return self.owned[group]

    def _change(self, known: OwnedSet, change: ChangeSet) -> None:
        there = known.roster
        present = sum(map(len, there.values()))
        added = _by_host([each for each in {*change.add} if each not in there.get(host_of(each), {})])
        deleted = _by_host([each for each in {*change.delete} if each in there.get(host_of(each), {})])
        outside = [host for host in added if not inside(known.group.scope, host)]
        if outside:
            raise NotInScope(f"{added[outside[0]][0]} is not in {known.group.scope}", fix="leave it out")
        if present + sum(map(len, added.values())) > ROSTER_MAX:
            raise TooLarge(f"{known.group} has {present} members", fix=f"at most {ROSTER_MAX}")
        self._agent.wanted.check(known.user, added)
        known = known.placed(chain(*deleted.values()), None)
        self._set(known.placed(chain(*added.values()), RosterState.ASKED))
        for host, members in deleted.items():
            self._agent.send_tree(host, DeletedFromSet(known.group, tuple(map(local_name, members))))
        for host, members in added.items():
            self._ask(known.group, host, members, again=False)

    def _destroy(self, known: OwnedSet) -> None:
        del self.owned[known.group]
        self._asks.pop(known.group, None)
        self._sets_of.give(known.user)
        self._count(known, replace(known, roster={}))
        for host in sorted(known.roster):
            self._agent.send_tree(host, TransientGone(known.group))
        self._agent.lists_changed(known.group)
        self._agent.out.append(Noted("set destroyed", str(known.group)))

    def leave(self, me: Endpoint, group: Group) -> None:
        """A member leaves by itself."""
        owner = owner_of(group)
        if owner is None:
            return
        if me in self._lost.get(group, ()):  # it has nothing to leave now, and is not to be in it again
            _discard(self._lost, group, [me])
            _remember(self._left, group, [me])
        elif me in self.held.get(group, ()):
            self._drop(group, [me])
            _remember(self._left, group, [me])
            self._agent.send_tree(host_of(owner), MembersLeft(group, (local_name(me),)))

    def gone(self, me: Endpoint) -> None:
        """The program ended: its sets end with it, and it is in no other."""
        for known in [each for each in self.owned.values() if each.owner == me]:
            self._destroy(known)
        for group in [group for group, members in self.held.items() if me in members]:
            self.leave(me, group)
        for out_of in (self._left, self._lost):
            for group in [group for group, members in out_of.items() if me in members]:
                _discard(out_of, group, [me])

    # From other agents

    def received(self, peer: Domain, message: TransientMessage) -> None:
        group, owner = message.group, owner_of(message.group)
        if owner is None:
            self._agent.out.append(ignored(message, "not a transient set"))
        elif isinstance(message, AddAnswered | MembersLeft):
            self._answered(peer, message)
        elif host_of(owner) != peer:
            self._agent.out.append(ignored(message, "not the owner's agent"))
        elif isinstance(message, AddedToSet):
            self._added(peer, message)
        elif isinstance(message, DeletedFromSet):
            host = self._agent.host
            names = [Endpoint(f"{host}/{name}") for name in sorted({*message.members})]
            _discard(self._lost, group, names)
            self._lose(group, [each for each in names if each in self.held.get(group, ())], "deleted")
        else:
            self._left.pop(group, None)
            self._lost.pop(group, None)
            self._lose(group, sorted(self.held.get(group, ())), "its owner ended it")

    def _added(self, peer: Domain, message: AddedToSet) -> None:
        group, host = message.group, self._agent.host
        here, held = self._agent.directory.endpoints, self.held.get(group, ())
        is_full = not held and len(self._from.get(peer, ())) >= SETS_FROM_HOST_MAX
        named = [Endpoint(f"{host}/{name}") for name in sorted({*message.members})]
        left = [each for each in named if message.again and each in self._left.get(group, ())]
        cluster = parent(peer)
        room = [
            each for each in named if each in held or (not is_full and self._room(each).has_room(cluster))
        ]
        taken = [each for each in room if each in here and each not in left]
        unknown = [each for each in named if each not in taken and each not in left]
        news = [each for each in taken if each not in held]
        if len(room) < len(named):
            self._agent.out.append(Ignored("AddedToSet", "too many sets"))
        if taken:
            self._from.setdefault(peer, set()).add(group)
            for each in news:
                self._sets_with.setdefault(each, self._room(each)).take(cluster)
            self.held.setdefault(group, set()).update(taken)
            _discard(self._lost, group, taken)
            _discard(self._left, group, taken)
        if news:
            self._agent.out.append(Tell(tuple(news), SetAdded(group)))
        names = [tuple(map(local_name, each)) for each in (taken, unknown, left)]
        self._agent.send_tree(peer, AddAnswered(group, *names))

    def _answered(self, peer: Domain, message: AddAnswered | MembersLeft) -> None:
        known = self.owned.get(message.group)
        if known is None:
            self._agent.send_tree(peer, TransientGone(message.group))
            return
        asked = {*known.at(peer)}
        if isinstance(message, MembersLeft):  # if we asked meanwhile, it is in again by that
            left = asked & _there(peer, message.members) - self._asks.get(known.group, {}).keys()
            self._set(known.placed(left, None))
            return
        named = _there(peer, chain(message.taken, message.unknown, message.left))
        answered = {each for each in named if self._is_last_answer(known.group, each)}
        if strays := sorted(answered & _there(peer, message.taken) - asked):  # given up or deleted meanwhile
            self._agent.send_tree(peer, DeletedFromSet(known.group, tuple(map(local_name, strays))))
        asked &= answered
        unknown = asked & _there(peer, message.unknown)
        out = unknown | (asked & _there(peer, message.left))
        self._set(known.placed(asked & _there(peer, message.taken), RosterState.IN).placed(out, None))
        self._refuse(known, unknown, f"{peer} has no such endpoint, or it is in too many sets")

    def _is_last_answer(self, group: Group, member: Endpoint) -> bool:
        """Answers come in the order of our questions; what they say is of before the next one."""
        more = self._asks.get(group, {}).get(member, 1) - 1
        if more:
            self._asks[group][member] = more
        else:
            _forget(self._asks, group, [member])
        return not more

    def _refuse(self, known: OwnedSet, members: Iterable[Endpoint], why: str) -> None:
        for each in sorted(members):
            self._agent.out.append(Tell((known.owner,), AddRefused(known.group, each, why)))

    def fired(self, host: Domain) -> None:
        """It has not answered for long enough."""
        idle_s = self._agent.config.circuit_idle_s
        for group in sorted(self._unanswered.get(host, ())):
            self._give_up(self.owned[group], host, f"{host} did not answer for {idle_s:g} s; add it again")

    def _give_up(self, known: OwnedSet, host: Domain, why: str) -> None:
        asked = known.at(host, RosterState.ASKED)
        self._expect_no_answer(known.group, host)
        self._set(known.placed(asked, None))
        self._refuse(known, asked, why)

    # Circuits

    def circuit_up(self, peer: Domain) -> None:
        for known in list(self.owned.values()):
            new = known.at(peer, RosterState.ASKED)
            again = known.at(peer, RosterState.IN, RosterState.AWAY)
            if new:
                self._ask(known.group, peer, new, again=False)
            if again:
                self._ask(known.group, peer, again, again=True)

    def circuit_down(self, peer: Domain) -> None:
        for known in list(self.owned.values()):
            self._expect_no_answer(known.group, peer)
            # One that was only asked is asked anew.
            lost = known.at(peer, RosterState.IN) if known.readmit else known.at(peer)
            if lost:
                asked = [] if known.readmit else known.at(peer, RosterState.ASKED)
                self._set(known.placed(lost, RosterState.AWAY if known.readmit else None))
                self._refuse(known, asked, f"{peer} went out of reach before it answered; add it again")
        for group in sorted(self._from.get(peer, ())):
            members = sorted(self.held[group])
            self._lose(group, members, "its owner is out of reach")
            _remember(self._lost, group, members)

    def needed(self) -> set[Domain]:
        """Agents of owners of sets that endpoints of this host are in."""
        return self._from.keys() - {self._agent.host}

    def _ask(self, group: Group, host: Domain, members: list[Endpoint], *, again: bool) -> None:
        if not again and host != self._agent.host:
            self._unanswered.setdefault(host, set()).add(group)
            self._agent.out.append(SetTimer((*UNANSWERED, host), self._agent.config.circuit_idle_s))
        if host != self._agent.host and host not in self._agent.circuits.up:
            if not again and not self._agent.want_circuit(host):  # when it is up, they are asked
                self._give_up(self.owned[group], host, f"{self._agent.host} has too many circuits; try later")
            return
        asks = self._asks.setdefault(group, {})
        for each in members:
            asks[each] = asks.get(each, 0) + 1
        self._agent.send_tree(host, AddedToSet(group, tuple(map(local_name, members)), again))

    def _expect_no_answer(self, group: Group, host: Domain) -> None:
        _forget(self._asks, group, [each for each in self._asks.get(group, ()) if host_of(each) == host])

    # Inside

    def _count(self, before: OwnedSet, after: OwnedSet) -> None:
        """The user's hosts, and those of which no answer for this set is on its way any more."""
        for host in after.changed_since(before):
            self._agent.wanted.use(after.user, host, (host in after.roster) - (host in before.roster))
            waiting = self._unanswered.get(host, set())
            if after.group in waiting and not after.at(host, RosterState.ASKED):
                waiting.discard(after.group)
                if not waiting:
                    del self._unanswered[host]
                    self._agent.out.append(CancelTimer((*UNANSWERED, host)))

    def _set(self, known: OwnedSet) -> None:
        before = self.owned[known.group]
        self.owned[known.group] = known
        self._count(before, known)
        changed = known.changed_since(before)
        if any(known.at(host, RosterState.IN) != before.at(host, RosterState.IN) for host in changed):
            self._agent.lists_changed(known.group)
            self._agent.out.append(Tell((known.owner,), SetMembers(known.group, known.members)))

    def _lose(self, group: Group, members: list[Endpoint], why: str) -> None:
        if members:
            self._drop(group, members)
            self._agent.out.append(Tell(tuple(members), SetLost(group, why)))

    def _drop(self, group: Group, members: list[Endpoint]) -> None:
        owner = owner_of(group)
        assert owner is not None, "held sets are transient"
        for each in members:
            self._sets_with[each].give(parent(host_of(owner)))
            if not self._sets_with[each].taken:
                del self._sets_with[each]
        _discard(self.held, group, members)
        if group not in self.held:
            sets = self._from[host_of(owner)]
            sets.discard(group)
            if not sets:
                del self._from[host_of(owner)]

    def _room(self, member: Endpoint) -> SharedRoom:
        return self._sets_with.get(member) or SharedRoom(SETS_WITH_ENDPOINT_MAX)


def _by_host(endpoints: Iterable[Endpoint]) -> dict[Domain, list[Endpoint]]:
    """Both sorted."""
    found: dict[Domain, list[Endpoint]] = {}
    for each in sorted(endpoints):
        found.setdefault(host_of(each), []).append(each)
    return dict(sorted(found.items()))


def _remember(sets: dict[Group, set[Endpoint]], group: Group, members: list[Endpoint]) -> None:
    """So many sets at most: the first are forgotten."""
    sets.setdefault(group, set()).update(members)
    while len(sets) > LOST_SETS_MAX:
        del sets[next(iter(sets))]


def _discard(sets: dict[Group, set[Endpoint]], group: Group, members: Iterable[Endpoint]) -> None:
    known = sets.get(group)
    if known is not None:
        known.difference_update(members)
        if not known:
            del sets[group]


def _forget(asks: dict[Group, dict[Endpoint, int]], group: Group, members: Iterable[Endpoint]) -> None:
    known = asks.get(group, {})
    for each in members:
        known.pop(each, None)
    if not known:
        asks.pop(group, None)


def _there(host: Domain, names: Iterable[str]) -> set[Endpoint]:
    return {Endpoint(f"{host}/{name}") for name in names}
