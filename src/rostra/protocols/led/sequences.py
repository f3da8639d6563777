"""Sequences: one source speaks to the members that a set has now, and to no other.

    source ── OpenSequence ──▶ its agent ── the set's list ──▶ SequenceOpened: the destinations
           ── SendSequence ──▶ Vehicle ── SequenceData in one SpreadLetter ──▶ agents ──▶ SequenceMessage
           ◀── SequenceReply ◀── SequenceReplied ◀────────────────── ReplySequence ◀── a receiver
           ◀── SequenceShrunk ◀── SequenceTaken: taken, gone, refused · a circuit is lost
           ── CloseSequence ──▶ SequenceDone ──▶ SequenceEnded at receivers

The destinations are fixed when it is opened. They may become fewer, by failures, and never more (S-085). An
endpoint that leaves the set is a destination until it closes (S-086). When the last one is lost the vehicle
is broken, and the sequence ends with the list of those that are known to have all of its messages, also of
those that were lost before (S-087). It is empty if nothing was sent.

A **vehicle** carries frames from one source to a set of hosts, best effort: frames may be lost, repeated and
overtaken, and receivers see their numbers (S-082). This one is made of frames that servers split
(`channel/relay.py`), and of circuits, which say when a host is out of reach. Which vehicle serves a sequence
is a policy (S-083): one for each sequence, one for each set, or one for all; receivers drop what is not for
them.

A **closed** member gets messages of sources on the leader's list only (S-089): its agent asks for the list
when a sequence begins.

Where we differ from the paper, and why: vehicles run over servers, because agents have no addresses for each
other, so they suit small and rare messages. Streams of messages take ``delivery="fifo"``.
"""

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import Answer, CancelTimer, Ignored, Noted, SetTimer, Tell
from rostra.core.room import SharedRoom
from rostra.errors import NoSuchGroup, NotMember, TooLarge, Unreachable, VehicleBroken
from rostra.names import Domain, Endpoint, Group, host_of, parent
from rostra.protocols.channel.messages import SPREAD_MAX
from rostra.protocols.led.config import (
    CHECKED_BYTES_MAX,
    CHECKED_LETTERS_MAX,
    CHECKED_MAX,
    CHECKED_OF_HOST_MAX,
    SEQUENCE_BYTES_MAX,
    SEQUENCES_MAX,
)
from rostra.protocols.led.messages import (
    SequenceData,
    SequenceDone,
    SequenceReplied,
    SequenceTaken,
    SpreadLetter,
    decode_letter,
)
from rostra.protocols.led.queries import ListQuery, ListResult, QueryEnding
from rostra.protocols.led.requests import (
    CloseSequence,
    OpenSequence,
    ReplySequence,
    SendSequence,
    SequenceClosed,
    SequenceEnded,
    SequenceMessage,
    SequenceOpened,
    SequenceReply,
    SequenceShrunk,
)
from rostra.protocols.led.stays import listed, local_name
from rostra.protocols.led.transient import check_inside, owner_of
from rostra.protocols.relaxed.requests import Done, denied

if TYPE_CHECKING:
    from rostra.protocols.led.agent import LedAgent


VEHICLE: Final = ("led", "vehicle")
"""The timer of a host of which a vehicle has no circuit."""


AHEAD_MAX: Final = 1_024
"""Messages after the first one that a destination lacks: of so many it is known whether it has them. A
vehicle repeats nothing, so a gap that is older is not filled any more."""


Speech = tuple[Endpoint, int, Group]
"""A source, its sequence and the set."""


class VehiclePolicy(Enum):
    """What a vehicle serves (S-083)."""

    SEQUENCE = "sequence"
    SET = "set"
    ALL = "all"


class Vehicle(Struct, frozen=True):
    """A way to these hosts. Several sequences may use it, each of them for some of the hosts."""

    number: int
    hosts: frozenset[Domain]


class OpenedSequence(Struct, frozen=True):
    number: int
    source: Endpoint
    group: Group
    vehicle: int
    destinations: tuple[Endpoint, ...]  # that are served: they become fewer, and never more
    user: str = ""  # the source's
    sent: int = 0  # the number of the last message
    # Of each destination, also of those lost: how many messages it has without a gap, and which ones after
    # that as bits. It changes in place.
    taken: dict[Endpoint, tuple[int, int]] = {}

    @property
    def served(self) -> tuple[Endpoint, ...]:
        """The destinations that are known to have all that was sent."""
        return tuple([each for each, (has, _) in self.taken.items() if has == self.sent > 0])

    def has(self, destination: Endpoint, message: int) -> None:
        count, ahead = self.taken[destination]
        after = message - count - 1
        if 0 <= after <= AHEAD_MAX:
            ahead |= 1 << after
            while ahead & 1:
                count, ahead = count + 1, ahead >> 1
            self.taken[destination] = count, ahead


class Sequences:
    """The sequences of one agent; part of `LedAgent`."""

    def __init__(self, agent: "LedAgent", policy: VehiclePolicy = VehiclePolicy.SEQUENCE) -> None:
        self.opened: dict[int, OpenedSequence] = {}
        self.vehicles: dict[int, Vehicle] = {}
        self.policy = policy
        self._agent = agent
        self._numbers = 0
        self._asking: dict[int, tuple[Endpoint, str]] = {}  # sequences whose list is on its way: for whom
        self._doubted: dict[Domain, bool] = {}  # hosts without a circuit: was one asked for?
        self._open_of = SharedRoom(SEQUENCES_MAX)  # users, with those that are asked for
        self._users: Counter[int] = Counter()  # sequences of each vehicle
        self._allowed: dict[Speech, bool] = {}  # sources that closed members were told
        self._held: dict[Speech, list[tuple[Domain, SequenceData]]] = {}
        self._held_of: Counter[Domain] = Counter()  # sources of each host
        self._held_in = SharedRoom(CHECKED_MAX)  # and of each cluster
        self._held_bytes = SharedRoom(CHECKED_BYTES_MAX)  # clusters

    # From programs

    def asked(
        self,
        me: Endpoint,
        token: int,
        request: OpenSequence | SendSequence | CloseSequence | ReplySequence,
    ) -> None:
        match request:
            case OpenSequence(group):
                self._open(me, token, group)
            case SendSequence(number, body):
                self._send(self._own(me, number), body)
                self._agent.out.append(Answer(token, Done()))
            case CloseSequence(number):
                self._close(self._own(me, number))
                self._agent.out.append(Answer(token, Done()))
            case ReplySequence(source, number, group, body):
                _check_size(body)
                letter = SequenceReplied(group, number, local_name(me), local_name(source), body)
                self._agent.post(host_of(source), letter)
                self._agent.out.append(Answer(token, Done()))

    def _open(self, me: Endpoint, token: int, group: Group) -> None:
        check_inside(group.scope, self._agent.host)
        user = self._agent.directory.user_of(me)
        if not self._open_of.has_room(user):
            held = self._open_of.held[user]
            raise TooLarge(f"{user or me} has {held} sequences open, as many as are free", fix="close some")
        self._numbers += 1
        number = self._numbers
        self._asking[number] = me, user
        self._open_of.take(user)

        def hear(result: ListResult) -> None:
            if self._asking.pop(number, None) is None:
                return  # its program is gone
            try:
                destinations = self._begin(number, me, user, group, result)
            except (NoSuchGroup, TooLarge, Unreachable) as refusal:
                self._open_of.give(user)
                self._agent.out.append(Answer(token, denied(refusal)))
            else:
                self._agent.out.append(Answer(token, SequenceOpened(number, destinations)))
                self._agent.out.append(Noted("sequence opened", str(group)))

        owner = owner_of(group)
        home = None if owner is None else host_of(owner)
        self._agent.ask(ListQuery(group, hear, home=home, asker=user))

    def _begin(
        self, number: int, me: Endpoint, user: str, group: Group, result: ListResult
    ) -> tuple[Endpoint, ...]:
        if result.ending is QueryEnding.UNAVAILABLE:
            raise Unreachable(f"the leader of {group} did not answer", fix="ask again")
        if result.ending is QueryEnding.NONE:
            raise NoSuchGroup(
                f"there is no led group or transient set {group}",
                fix="see that it has members, and is led; or send_to(endpoints, data)",
            )
        listed_now = self._agent.proven(group, listed(result.entries or (), None))
        destinations = tuple([each.endpoint for each in listed_now if each.endpoint != me])
        hosts = frozenset(map(host_of, destinations))
        self._agent.wanted.check(user, hosts)
        vehicle = self._vehicle(group, hosts)
        self.opened[number] = OpenedSequence(
            *(number, me, group, vehicle.number, destinations, user),
            taken=dict.fromkeys(destinations, (0, 0)),
        )
        self._users[vehicle.number] += 1
        for host in sorted(hosts):
            self._agent.wanted.use(user, host)
        for host in sorted(vehicle.hosts - {self._agent.host} - self._agent.circuits.up):
            self._reach(host)
        return destinations

    def _vehicle(self, group: Group, hosts: frozenset[Domain]) -> Vehicle:
        """A new one, or by the policy one that serves others too, and then leads to these hosts as well."""
        number = 0
        if self.policy is VehiclePolicy.ALL:
            number = next(iter(self.vehicles), 0)
        elif self.policy is VehiclePolicy.SET:
            number = next((each.vehicle for each in self.opened.values() if each.group == group), 0)
        if not number:
            self._numbers += 1
            number = self._numbers
        before = self.vehicles.get(number)
        vehicle = Vehicle(number, hosts if before is None else hosts | before.hosts)
        self.vehicles[number] = vehicle
        return vehicle

    def _own(self, me: Endpoint, number: int) -> OpenedSequence:
        known = self.opened.get(number)
        if known is None or known.source != me:
            raise NotMember(f"{me} has no sequence {number}", fix="open one")
        return known

    def _send(self, known: OpenedSequence, body: bytes) -> None:
        if not known.destinations:
            raise VehicleBroken(f"no member of {known.group} is served any more", fix="open another sequence")
        _check_size(body)
        known = replace(known, sent=known.sent + 1)
        self.opened[known.number] = known
        names: dict[Domain, list[str]] = {host: [] for host in sorted(self.vehicles[known.vehicle].hosts)}
        for each in known.destinations:
            names[host_of(each)].append(local_name(each))
        source = local_name(known.source)
        letter = SequenceData(known.group, known.number, source, known.sent, (), known.vehicle, body)
        here = names.pop(self._agent.host, None)
        if here is not None:
            self._agent.post(self._agent.host, replace(letter, to=tuple(here)))
        places = tuple([(host, tuple(to)) for host, to in names.items()])
        for first in range(0, len(places), SPREAD_MAX):
            self._agent.spread(places[first : first + SPREAD_MAX], letter)

    def _close(self, known: OpenedSequence) -> None:
        del self.opened[known.number]
        for host in sorted({host_of(each) for each in known.destinations}):
            to = tuple([local_name(each) for each in known.destinations if host_of(each) == host])
            self._agent.post(host, SequenceDone(known.group, known.number, local_name(known.source), to))
        self._open_of.give(known.user)
        self._release(known, frozenset())
        _less(self._users, known.vehicle)
        if known.vehicle not in self._users:
            del self.vehicles[known.vehicle]
        self._agent.out.append(Noted("sequence closed", str(known.group)))

    def gone(self, me: Endpoint) -> None:
        for known in [each for each in self.opened.values() if each.source == me]:
            self._close(known)
        for number in [number for number, (asker, _) in self._asking.items() if asker == me]:
            self._open_of.give(self._asking.pop(number)[1])

    # At a receiver

    def arrived(self, spread: SpreadLetter) -> SequenceData | None:
        """What one frame for several hosts says to this one."""
        names = dict(spread.to).get(self._agent.host)
        letter = decode_letter(spread.body)
        if names is None or spread.source == self._agent.host or type(letter) is not SequenceData:
            self._agent.out.append(Ignored("SpreadLetter", "not for us"))
            return None
        return replace(letter, to=names)

    def data(self, sender: Domain, letter: SequenceData) -> None:
        agent, group = self._agent, letter.group
        if not letter.to:
            agent.out.append(Ignored("SequenceData", "not for us"))
            return
        source = Endpoint(f"{sender}/{letter.source}")
        here = [Endpoint(f"{agent.host}/{name}") for name in letter.to]
        there = [each for each in here if each in agent.directory.endpoints]
        known = agent.sets.get(group)
        hidden = agent.directory.gate.is_by_authority(group)
        closed = [
            each
            for each in there
            if hidden or (known and each in known.members and known.members[each].closed)
        ]
        refused: list[Endpoint] = []
        if closed and source not in (known.members if known else ()):
            key = source, letter.number, group
            if key not in self._allowed:
                self._hold(key, sender, letter)
                return
            refused = [] if self._allowed[key] else closed
        told = tuple([each for each in there if each not in refused])
        if told:
            message = SequenceMessage(source, group, letter.number, letter.message, letter.body)
            agent.out.append(Tell(told, message))
        gone = [each for each in here if each not in there or (hidden and each in refused)]
        refused = [] if hidden else refused  # to a stranger they are not there
        names = [tuple(map(local_name, each)) for each in (told, gone, refused)]
        agent.post(sender, SequenceTaken(group, letter.number, letter.message, *names))

    def _hold(self, key: Speech, sender: Domain, letter: SequenceData) -> None:
        """Is the source on the leader's list? What it says waits for that, and not all that it says."""
        first, cluster = key not in self._held, parent(sender)
        is_one_of_many = self._held_of[sender] >= CHECKED_OF_HOST_MAX or not self._held_in.has_room(cluster)
        if first and is_one_of_many:
            self._agent.out.append(Ignored("SequenceData", "too many sources are asked for"))
            return
        is_full = not self._held_bytes.has_room(cluster, _size(letter))
        if is_full or len(self._held.get(key, ())) >= CHECKED_LETTERS_MAX:
            self._agent.out.append(Ignored("SequenceData", "too much waits for the leader's list"))
            return
        self._held.setdefault(key, []).append((sender, letter))
        self._held_bytes.take(cluster, _size(letter))
        if not first:
            return
        self._held_of[sender] += 1
        self._held_in.take(cluster)
        source, _, group = key

        def hear(result: ListResult) -> None:
            members = self._agent.proven(group, listed(result.entries or (), None))
            while len(self._allowed) >= CHECKED_MAX:
                del self._allowed[next(iter(self._allowed))]
            self._allowed[key] = source in {member.endpoint for member in members}
            waited = self._held.pop(key)
            self._held_bytes.give(cluster, sum(_size(each) for _, each in waited))
            _less(self._held_of, sender)
            self._held_in.give(cluster)
            for held in waited:
                self.data(*held)

        self._agent.ask(ListQuery(group, hear, expected=True, asker=cluster))

    def done(self, sender: Domain, letter: SequenceDone) -> None:
        source, host = Endpoint(f"{sender}/{letter.source}"), self._agent.host
        self._allowed.pop((source, letter.number, letter.group), None)
        there = [Endpoint(f"{host}/{name}") for name in letter.to]
        told = tuple([each for each in there if each in self._agent.directory.endpoints])
        if told:
            self._agent.out.append(Tell(told, SequenceClosed(source, letter.group, letter.number)))

    # The way back

    def taken(self, sender: Domain, letter: SequenceTaken) -> None:
        known = self.opened.get(letter.number)
        if known is None or known.group != letter.group or letter.message > known.sent:
            self._agent.out.append(Ignored("SequenceTaken", "late reply"))
            return
        if all(host_of(each) != sender for each in known.taken):
            self._agent.out.append(Ignored("SequenceTaken", "not a destination"))
            return
        for each in _there(sender, letter.taken).intersection(known.taken):
            known.has(each, letter.message)
        self._lose(known.number, _there(sender, letter.gone), "closed")
        self._lose(known.number, _there(sender, letter.refused), "refused: the set is closed to non-members")

    def replied(self, sender: Domain, letter: SequenceReplied) -> None:
        known = self.opened.get(letter.number)
        replier = Endpoint(f"{sender}/{letter.replier}")
        if known is None or local_name(known.source) != letter.to or replier not in known.destinations:
            self._agent.out.append(Ignored("SequenceReplied", "not a destination"))
            return
        self._agent.out.append(Tell((known.source,), SequenceReply(known.number, replier, letter.body)))

    def circuit_up(self, peer: Domain) -> None:
        if self._doubted.pop(peer, None) is not None:
            self._agent.out.append(CancelTimer((*VEHICLE, peer)))

    def circuit_down(self, peer: Domain) -> None:
        """Its agent may have ended the circuit because it has no use for it: ask for another one first."""
        if self._serves(peer):
            self._doubted[peer] = False
            self._agent.out.append(SetTimer((*VEHICLE, peer), self._agent.config.assert_s))

    def fired(self, peer: Domain) -> None:
        asked = self._doubted.pop(peer, None)
        if asked is False and self._serves(peer):
            self._reach(peer)
        elif asked:
            for known in list(self.opened.values()):
                there = {each for each in known.destinations if host_of(each) == peer}
                self._lose(known.number, there, "lost")
            for vehicle in list(self.vehicles.values()):
                if peer in vehicle.hosts:  # nobody there is a destination any more: no circuit is needed
                    self.vehicles[vehicle.number] = replace(vehicle, hosts=vehicle.hosts - {peer})

    def _serves(self, peer: Domain) -> bool:
        return any(peer in vehicle.hosts for vehicle in self.vehicles.values())

    def _reach(self, peer: Domain) -> None:
        self._doubted[peer] = True
        self._agent.out.append(SetTimer((*VEHICLE, peer), self._agent.config.attach_s))
        self._agent.want_circuit(peer)

    def _lose(self, number: int, lost: set[Endpoint], why: str) -> None:
        known = self.opened[number]
        went = tuple(sorted(lost.intersection(known.destinations)))
        if not went:
            return
        left = tuple([each for each in known.destinations if each not in lost])
        self.opened[number] = replace(known, destinations=left)
        self._release(known, frozenset(map(host_of, left)))
        self._agent.out.append(Tell((known.source,), SequenceShrunk(number, went, why)))
        if not left:
            self._agent.out.append(Tell((known.source,), SequenceEnded(number, known.served)))

    def _release(self, known: OpenedSequence, hosts: frozenset[Domain]) -> None:
        """It has destinations on these hosts only."""
        for host in sorted({*map(host_of, known.destinations)} - hosts):
            self._agent.wanted.use(known.user, host, -1)


def _there(host: Domain, names: Iterable[str]) -> set[Endpoint]:
    return {Endpoint(f"{host}/{name}") for name in names}


def _size(letter: SequenceData) -> int:
    return len(letter.body) + sum(map(len, letter.to))


def _less(counts: Counter[Any], key: object) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


def _check_size(body: bytes) -> None:
    if len(body) > SEQUENCE_BYTES_MAX:
        raise TooLarge(f"a message of {len(body)} bytes", fix=f"send at most {SEQUENCE_BYTES_MAX} at once")
