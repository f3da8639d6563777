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
``readmit=False``. A member that left is not added again by that, only by the owner.

Where we differ from the paper, and why: a list of members is sent to those who ask for it by the letters of
other led sets, so that resolving and following work in one way.
"""

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import Answer, Ignored, Noted, Tell
from rostra.errors import BadInput, NoSuchGroup, NotInScope, NotOwner, TooLarge
from rostra.names import Domain, Endpoint, Group, host_of, incarnation_of, inside
from rostra.protocols.led.config import LOST_SETS_MAX, ROSTER_MAX, SETS_OF_ENDPOINT_MAX
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


class RosterState(Enum):
    """Where one that was added stands."""

    ASKED = "asked"  # the owner added it, and its agent has not answered yet
    IN = "in"
    AWAY = "away"  # it was in, and its agent is out of reach


class RosterPlace(Struct, frozen=True, order=True):
    endpoint: Endpoint
    place: RosterState = RosterState.ASKED


class OwnedSet(Struct, frozen=True):
    """A transient set at its owner's agent. To those who ask it is a set that this agent leads."""

    group: Group
    owner: Endpoint
    readmit: bool = True
    roster: tuple[RosterPlace, ...] = ()  # sorted by endpoint

    leads = True
    took_over = False
    parent = None

    @property
    def members(self) -> tuple[Endpoint, ...]:
        return tuple([each.endpoint for each in self.roster if each.place is RosterState.IN])

    @property
    def hosts(self) -> list[Domain]:
        return sorted({host_of(each.endpoint) for each in self.roster})

    @property
    def entries(self) -> Entries:
        by_host: dict[Domain, list[LocalMember]] = {}
        for endpoint in self.members:
            by_host.setdefault(host_of(endpoint), []).append(LocalMember(local_name(endpoint)))
        return tuple([ListEntry(host, 0, 0, tuple(sorted(by_host[host]))) for host in sorted(by_host)])

    def at(self, host: Domain) -> list[RosterPlace]:
        return [each for each in self.roster if host_of(each.endpoint) == host]

    def placed(self, endpoints: Iterable[Endpoint], place: RosterState | None) -> "OwnedSet":
        """None: they are on the roster no more."""
        changed = frozenset(endpoints)
        roster = {each.endpoint: each for each in self.roster if each.endpoint not in changed}
        if place is not None:
            roster.update({each: RosterPlace(each, place) for each in changed})
        return replace(self, roster=tuple([roster[each] for each in sorted(roster)]))


def owner_of(group: Group) -> Endpoint | None:
    """Of a transient set, as its name says."""
    owner, is_transient, _ = group.name.partition("~")
    return Endpoint(owner) if is_transient else None


class TransientSets:
    """Of one agent's service, which calls this."""

    def __init__(self, agent: "LedAgent") -> None:
        self.owned: dict[Group, OwnedSet] = {}
        self.held: dict[Group, set[Endpoint]] = {}  # sets that endpoints of this host are in
        self._left: dict[Group, set[Endpoint]] = {}  # and those that they left by themselves
        self._lost: dict[Group, set[Endpoint]] = {}  # that they are out of while the owner is out of reach
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
        if not inside(create.scope, agent.host):
            raise NotInScope(f"{agent.host} is not in {create.scope}", fix="choose a scope around this host")
        if sum(each.owner == me for each in self.owned.values()) >= SETS_OF_ENDPOINT_MAX:
            raise TooLarge(f"{me} owns {SETS_OF_ENDPOINT_MAX} sets", fix="destroy some")
        self._made += 1
        group = Group(f"{me}~{agent.me.life}-{incarnation_of(me)}-{create.at_ms}-{self._made}", create.scope)
        self.owned[group] = OwnedSet(group, me, create.readmit)
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
        present = {each.endpoint for each in known.roster}
        added = sorted({*change.add} - present)
        deleted = sorted({*change.delete} & present)
        outside = [each for each in added if not inside(known.group.scope, host_of(each))]
        if outside:
            raise NotInScope(f"{outside[0]} is not in {known.group.scope}", fix="leave it out")
        if len(present) + len(added) > ROSTER_MAX:
            raise TooLarge(f"{known.group} has {len(present)} members", fix=f"at most {ROSTER_MAX}")
        self._set(known.placed(deleted, None).placed(added, RosterState.ASKED))
        for host in sorted({host_of(each) for each in deleted}):
            names = tuple([local_name(each) for each in deleted if host_of(each) == host])
            self._agent.send_tree(host, DeletedFromSet(known.group, names))
        for host in sorted({host_of(each) for each in added}):
            self._ask(known.group, host, [each for each in added if host_of(each) == host], again=False)

    def _destroy(self, known: OwnedSet) -> None:
        del self.owned[known.group]
        for host in known.hosts:
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
            self._left.setdefault(group, set()).add(me)
        elif me in self.held.get(group, ()):
            self._drop(group, [me])
            self._left.setdefault(group, set()).add(me)
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
            self._agent.out.append(Ignored(type(message).__name__, "not a transient set"))
        elif isinstance(message, AddAnswered | MembersLeft):
            self._answered(peer, message)
        elif host_of(owner) != peer:
            self._agent.out.append(Ignored(type(message).__name__, "not the owner's agent"))
        elif isinstance(message, AddedToSet):
            self._added(peer, message)
        elif isinstance(message, DeletedFromSet):
            host = self._agent.host
            names = [Endpoint(f"{host}/{name}") for name in message.members]
            _discard(self._lost, group, names)
            self._lose(group, [each for each in names if each in self.held.get(group, ())], "deleted")
        else:
            self._left.pop(group, None)
            self._lost.pop(group, None)
            self._lose(group, sorted(self.held.get(group, ())), "its owner ended it")

    def _added(self, peer: Domain, message: AddedToSet) -> None:
        group, host = message.group, self._agent.host
        here = self._agent.directory.endpoints
        named = [Endpoint(f"{host}/{name}") for name in message.members]
        left = [each for each in named if message.again and each in self._left.get(group, ())]
        taken = [each for each in named if each in here and each not in left]
        unknown = [each for each in named if each not in here]
        news = [each for each in taken if each not in self.held.get(group, ())]
        if taken:
            self.held.setdefault(group, set()).update(taken)
            _discard(self._lost, group, taken)
            self._left.get(group, set()).difference_update(taken)
        if news:
            self._agent.out.append(Tell(tuple(news), SetAdded(group)))
        names = [tuple(map(local_name, each)) for each in (taken, unknown, left)]
        self._agent.send_tree(peer, AddAnswered(group, *names))

    def _answered(self, peer: Domain, message: AddAnswered | MembersLeft) -> None:
        known = self.owned.get(message.group)
        if known is None:
            self._agent.send_tree(peer, TransientGone(message.group))
            return
        asked = {each.endpoint for each in known.at(peer)}
        if isinstance(message, MembersLeft):
            self._set(known.placed(asked & _there(peer, message.members), None))
            return
        unknown = asked & _there(peer, message.unknown)
        out = unknown | (asked & _there(peer, message.left))
        self._set(known.placed(asked & _there(peer, message.taken), RosterState.IN).placed(out, None))
        for each in sorted(unknown):
            refused = AddRefused(known.group, each, f"{peer} has no such endpoint")
            self._agent.out.append(Tell((known.owner,), refused))

    # Circuits

    def circuit_up(self, peer: Domain) -> None:
        for known in list(self.owned.values()):
            there = known.at(peer)
            new = [each.endpoint for each in there if each.place is RosterState.ASKED]
            again = [each.endpoint for each in there if each.place is not RosterState.ASKED]
            if new:
                self._ask(known.group, peer, new, again=False)
            if again:
                self._ask(known.group, peer, again, again=True)

    def circuit_down(self, peer: Domain) -> None:
        for known in list(self.owned.values()):
            there = known.at(peer)
            if known.readmit:  # one that was only asked is asked anew
                there = [each for each in there if each.place is RosterState.IN]
            lost = [each.endpoint for each in there]
            if lost:
                self._set(known.placed(lost, RosterState.AWAY if known.readmit else None))
        for group in list(self.held):
            owner = owner_of(group)
            if owner is not None and host_of(owner) == peer:
                members = sorted(self.held[group])
                self._lose(group, members, "its owner is out of reach")
                self._lost.setdefault(group, set()).update(members)
                while len(self._lost) > LOST_SETS_MAX:
                    del self._lost[next(iter(self._lost))]

    def needed(self) -> set[Domain]:
        """Agents that these sets are connected to, or want to be."""
        wanted = {host for known in self.owned.values() for host in known.hosts}
        owners = [owner for group in self.held if (owner := owner_of(group)) is not None]
        return (wanted | {host_of(owner) for owner in owners}) - {self._agent.host}

    def _ask(self, group: Group, host: Domain, members: list[Endpoint], *, again: bool) -> None:
        if host != self._agent.host and host not in self._agent.circuits.up:
            if not again:
                self._agent.want_circuit(host)  # and when it is up, they are asked
            return
        self._agent.send_tree(host, AddedToSet(group, tuple(map(local_name, members)), again))

    # Inside

    def _set(self, known: OwnedSet) -> None:
        before = self.owned[known.group]
        self.owned[known.group] = known
        if known.members != before.members:
            self._agent.lists_changed(known.group)
            self._agent.out.append(Tell((known.owner,), SetMembers(known.group, known.members)))

    def _lose(self, group: Group, members: list[Endpoint], why: str) -> None:
        if members:
            self._drop(group, members)
            self._agent.out.append(Tell(tuple(members), SetLost(group, why)))

    def _drop(self, group: Group, members: list[Endpoint]) -> None:
        _discard(self.held, group, members)


def _discard(sets: dict[Group, set[Endpoint]], group: Group, members: Iterable[Endpoint]) -> None:
    known = sets.get(group)
    if known is not None:
        known.difference_update(members)
        if not known:
            del sets[group]


def _there(host: Domain, names: Iterable[str]) -> set[Endpoint]:
    return {Endpoint(f"{host}/{name}") for name in names}
