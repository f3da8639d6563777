"""The second transport of a set: its messages by IP multicast, and by repeaters where that does not reach.

                       ┌────────────┐ ── SendSetFrame ──▶ the set's address ──▶ servers that listen there
    SetCore ── Send ─▶ │ CastCore   │            └───▶ a repeater ──▶ the address, other unicast servers
    SetCore ◀ Received │            │ ◀── FrameHeard ── a datagram, to the address or to us
                       └────────────┘ ── SetCarried ──▶ over the link: what is larger than a datagram

Each server has its links, for monitoring and leases, and one socket for the messages of the set: a multicast
one, or a unicast one where multicast is not to be had (V-111). A **repeater** (the paper's mcaster) is a
server of the set that repeats messages of unicast servers to the address and to the other unicast servers,
and messages from the address to the unicast servers (V-112). Unicast servers register with every repeater,
again and again: a repeater forgets one that does not (V-113).

A message has its origin, the life of that, and a number that grows. Receivers and repeaters take no number
that is not above the last one of its origin. So a message is delivered once, in the order in which it was
sent, or is lost; a repeater repeats it once; and `SetCore` sees what it sees of a link that loses messages.
It asks again, and goes on without a server that does not answer: a cut of multicast alone, or the loss of the
only repeater, ends in an isolation and never in a standstill (V-017, V-114).

Any server of the set can seal a message in the name of another. One with a number far above those of the
other silences that until its next message: who drops this one asks its origin over the link (`SetNumber`).

Where we differ from the paper, and why:

- The repeater is a server of the set and not a process beside it: it has links to all others, and so the keys
  that prove who sent a message.
- What is larger than a datagram goes over the links: parts with many groups merge by messages of up to a
  megabyte, of which a single lost fragment would lose all.
"""

from collections.abc import Sequence
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.msgpack import Encoder
from msgspec.structs import replace

from rostra.core.effects import (
    Effect,
    Event,
    Ignored,
    Instant,
    LinkMoved,
    LinkUp,
    Noted,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.core.stack import Service, ServiceName
from rostra.names import ROOT, Domain, parent
from rostra.protocols.agreed.branch import BranchMessage
from rostra.protocols.agreed.changes import Number
from rostra.protocols.agreed.config import SET_MEMBERS_MAX, Place, SetAddress
from rostra.protocols.agreed.messages import AnySetMessage, SetMessage
from rostra.protocols.agreed.server import AGREED_SERVER
from rostra.protocols.relaxed.routing import OUTSIDE

CASTING_SERVER: ServiceName["SetCasting"] = ServiceName("agreed casting server")

FRAME_BYTES_MAX: Final = 1_200
"""Of what one datagram holds, as on the data channel between sites: it is not cut into packets on the way."""

REGISTER_S: Final = 1.0
"""How often a unicast server registers with the repeaters."""

FORGET_S: Final = 3.5 * REGISTER_S
"""A repeater forgets a server that has not registered for so long. Three registrations may be lost. Raising
it: more is sent to servers that are gone."""

FAR_BEHIND: Final = 64
"""A message this far behind the last one of its origin was not overtaken on its way: another server of the
set may have sent that one in its name. Lowering it: more questions over the links, as repeaters differ in
speed."""

_encode: Final = Encoder().encode


class SetFrame(Struct, frozen=True, array_like=True):
    """One message of a set in a datagram; without a message, a registration with the repeater it is for."""

    set: Domain
    origin: Domain
    life: Number
    number: Number
    to: Annotated[tuple[Domain, ...], Meta(max_length=SET_MEMBERS_MAX)]
    message: AnySetMessage | None = None


class SetCarried(BranchMessage, frozen=True, tag=205):
    """The same over a link. The sender is the origin, and its numbers are those of its frames."""

    set: Domain
    life: Number
    number: Number
    message: AnySetMessage


class SetNumber(BranchMessage, frozen=True, tag=206):
    """Over a link: the number of the sender's last message; or, as a question, of the last one that came in
    the name of the receiver."""

    set: Domain
    life: Number
    number: Number
    asks: bool = False


class FrameHeard(Event, frozen=True):
    """A datagram has come whose seal is its origin's."""

    frame: SetFrame
    place: Place  # from where
    by_multicast: bool


class SendSetFrame(Effect, frozen=True):
    frame: SetFrame
    multicast: bool  # to the set's address
    places: tuple[Place, ...] = ()  # and to each of these


class SetHeard(Effect, frozen=True):
    """To the service: this is for the set's core."""

    origin: Domain
    message: SetMessage


Position = tuple[int, int]
"""A life of a server, and a number in it."""


class Registration(Struct, frozen=True):
    place: Place
    until: Instant
    position: Position  # registrations are numbered by themselves: they wait for no record, as messages may


class CastState(Struct, frozen=True):
    life: int
    number: int = 0  # of our last message
    registration: int = 0  # and of our last registration
    lives: dict[Domain, int] = {}  # of servers with links to us: no frame is of another life
    heard: dict[
        Domain, Position
    ] = {}  # of each other server, its last message; who was silent longest is first
    asked: dict[Domain, Instant] = {}  # when we last asked an origin for its number
    registered: dict[Domain, Registration] = {}  # unicast servers; at repeaters only


class CastCore:
    """One server's part in the transport of one set."""

    def __init__(self, me: Domain, life: int, address: SetAddress) -> None:
        self.me = me
        self.state = CastState(life)
        self.timer: TimerKey = (CASTING_SERVER.protocol, "", "register", address.set)
        self._address = address
        self._listens = address.reaches(me)
        self._is_repeater = me in [each.server for each in address.repeaters]
        self._repeaters = {each.server: each.place for each in address.repeaters if each.server != me}

    def step(self, now: Instant, event: Event) -> list[Effect]:
        match event:
            case FrameHeard(frame, place, by_multicast):
                return self._heard(now, frame, place, by_multicast=by_multicast)
            case Received(sender, SetCarried(_, life, number, message)):
                if not self._is_next(sender, life, number):
                    return [Ignored("SetCarried", "a repetition, or overtaken")]
                return [SetHeard(sender, message)]
            case Received(sender, SetNumber(_, _, _, asks=True)):
                return [Send(sender, SetNumber(self._address.set, self.state.life, self.state.number))]
            case Received(sender, SetNumber(_, life, number)):
                return self._is_at(sender, (life, number))
            case LinkUp(peer, life) | LinkMoved(peer, life) if _is_of(self._address.set, peer):
                self._begins(peer, life)
                return self._register([peer]) if peer in self._repeaters else []
            case TimerFired(timer) if timer == self.timer:
                return self._register(sorted(self._repeaters))
        return []

    def cast(self, now: Instant, to: tuple[Domain, ...], message: AnySetMessage) -> list[Effect]:
        state = self.state = replace(self.state, number=self.state.number + 1)
        frame = SetFrame(self._address.set, self.me, state.life, state.number, to, message)
        if len(_encode(frame)) > FRAME_BYTES_MAX:
            carried = SetCarried(frame.set, frame.life, frame.number, message)
            return [Send(each, carried) for each in to]
        places = dict.fromkeys(() if self._listens else self._repeaters.values())
        return [self._sent(frame, (*places, *self._unicast(now, frame)))]

    def _sent(self, frame: SetFrame, places: tuple[Place, ...]) -> SendSetFrame:
        return SendSetFrame(frame, self._listens, tuple(dict.fromkeys(places)))

    def _unicast(self, now: Instant, frame: SetFrame) -> list[Place]:
        """Where to repeat it: the unicast servers that it is for; never where it comes from."""
        known = self.state.registered
        wanted = [known[each] for each in frame.to if each in known and each != frame.origin]
        return [each.place for each in wanted if each.until > now]

    def _heard(self, now: Instant, frame: SetFrame, place: Place, *, by_multicast: bool) -> list[Effect]:
        origin = frame.origin
        if frame.set != self._address.set or not _is_of(frame.set, origin):
            return [Ignored("SetFrame", OUTSIDE)]
        if origin == self.me:
            return [Ignored("SetFrame", "our own")]
        if frame.life != self.state.lives.get(origin, frame.life):
            return [Ignored("SetFrame", "of another life")]
        if frame.message is None:
            return self._registered(now, frame, place)
        if not self._is_next(origin, frame.life, frame.number):
            return [Ignored("SetFrame", "a repetition, or overtaken"), *self._doubt(now, frame)]
        out: list[Effect] = []
        if self._is_repeater:
            again = self._sent(frame, tuple(self._unicast(now, frame)))
            if by_multicast:
                again = replace(again, multicast=False)  # it has been there
            if again.multicast or again.places:
                out.append(again)
        if self.me in frame.to:
            out.append(SetHeard(origin, frame.message))
        return out

    def _registered(self, now: Instant, frame: SetFrame, place: Place) -> list[Effect]:
        known = {name: each for name, each in self.state.registered.items() if each.until > now}
        position = frame.life, frame.number
        if not self._is_repeater or frame.to != (self.me,):
            return [Ignored("SetFrame", "a registration elsewhere")]
        before = known.get(frame.origin)
        if before is None and len(known) >= SET_MEMBERS_MAX:
            return [Ignored("SetFrame", "more servers than a set has")]
        if before is not None and position <= before.position:
            return [Ignored("SetFrame", "a repetition, or overtaken")]
        registered = {**known, frame.origin: Registration(place, now + FORGET_S, position)}
        self.state = replace(self.state, registered=registered)
        return []

    def _is_next(self, origin: Domain, life: int, number: int) -> bool:
        """Is it above the last one that we had of it? Then it is the last one from now on."""
        heard = dict(self.state.heard)
        if (life, number) <= heard.pop(origin, (0, 0)):
            return False
        last = list(heard.items())[-(SET_MEMBERS_MAX - 1) :]
        self.state = replace(self.state, heard={**dict(last), origin: (life, number)})
        return True

    def _doubt(self, now: Instant, frame: SetFrame) -> list[Effect]:
        """Was the last message in the name of its origin really its own? It knows, and has a link to us."""
        state, origin = self.state, frame.origin
        life, number = state.heard.get(origin, (0, 0))
        is_far = life == frame.life and frame.number < number - FAR_BEHIND
        if not is_far or now < state.asked.get(origin, -inf) + REGISTER_S:
            return []
        asked = {each: at for each, at in state.asked.items() if at + REGISTER_S > now}
        self.state = replace(state, asked={**asked, origin: now})
        return [Send(origin, SetNumber(self._address.set, life, number, asks=True))]

    def _is_at(self, origin: Domain, position: Position) -> list[Effect]:
        life, number = self.state.heard.get(origin, position)
        if life != position[0] or number <= position[1] + FAR_BEHIND:
            return [Ignored("SetNumber", "nothing waits for it")]
        self.state = replace(self.state, heard={**self.state.heard, origin: position})
        return [Noted("set number", f"a message in the name of {origin} was not its own")]

    def _begins(self, peer: Domain, life: int) -> None:
        """Its link says which life it is in."""
        heard = {name: each for name, each in self.state.heard.items() if name != peer or each[0] == life}
        lives = list({**self.state.lives, peer: life}.items())[-SET_MEMBERS_MAX:]
        self.state = replace(self.state, heard=heard, lives=dict(lives))

    def _register(self, repeaters: Sequence[Domain]) -> list[Effect]:
        if self._listens:
            return []
        name, state = self._address.set, replace(self.state, registration=self.state.registration + 1)
        self.state = state
        casts = [
            SendSetFrame(
                SetFrame(name, self.me, state.life, state.registration, (each,)),
                multicast=False,
                places=(self._repeaters[each],),
            )
            for each in repeaters
        ]
        return [*casts, SetTimer(self.timer, REGISTER_S)]


class SetCasting(Service):
    """At a server whose sets have addresses. It stands before `AgreedServer`, whose messages it takes."""

    name = CASTING_SERVER
    hears = (Send,)
    takes = (FrameHeard, SetCarried, SetNumber, LinkUp, LinkMoved)

    def __init__(self, domain: Domain, life: int, addresses: Sequence[SetAddress]) -> None:
        self.cores = {each.set: CastCore(domain, life, each) for each in addresses}

    def begin_term(self, life: int) -> None:
        """A replica's: the life of the server that it leads from now on is its term."""
        for core in self.cores.values():
            core.state = replace(core.state, life=life)

    def step(self, now: Instant, event: Event) -> list[Effect]:
        match event:
            case FrameHeard(frame):
                return self._stepped(now, frame.set, event)
            case Received(sender, SetCarried(name) | SetNumber(name)):
                if not _is_of(name, sender):
                    return [ignored(event.message, OUTSIDE)]
                return self._stepped(now, name, event)
            case TimerFired(timer) if timer not in [core.timer for core in self.cores.values()]:
                return []  # another service's
            case _:
                return [each for name in self.cores for each in self._stepped(now, name, event)]

    def _stepped(self, now: Instant, name: Domain, event: Event) -> list[Effect]:
        core = self.cores.get(name)
        if core is None:
            return [ignored(event, "of a set without an address")]
        out: list[Effect] = []
        for effect in core.step(now, event):
            if isinstance(effect, SetHeard):
                heard = Received(effect.origin, effect.message)
                out += self.hear(now, self.stack.call(now, self, AGREED_SERVER, heard))
            else:
                out.append(effect)
        return out

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Messages of sets go as frames; the same to several servers, one after the other, as one."""
        out: list[Effect] = []
        for is_ours, run in groupby(effects, self._is_ours):
            if not is_ours:
                out += run
                continue
            for message, sends in groupby(run, attrgetter("message")):
                to = tuple(map(attrgetter("to"), sends))
                out += self.cores[message.set].cast(now, to, message)
        return out

    def _is_ours(self, effect: Effect) -> bool:
        return (
            type(effect) is Send
            and isinstance(effect.message, SetMessage)
            and effect.message.set in self.cores
        )


def addresses_of(domain: Domain, addresses: Sequence[SetAddress], *, cluster: bool) -> list[SetAddress]:
    """The addresses of the sets that this server is in. Below a cluster are hosts, which have no set."""
    above = None if domain == ROOT else parent(domain)
    return [each for each in addresses if each.set == above or (each.set == domain and not cluster)]


def _is_of(name: Domain, server: Domain) -> bool:
    """May this server be in that set?"""
    return server == name or (server != ROOT and parent(server) == name)
