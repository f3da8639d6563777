"""Agreed groups: any well-formed message, from any neighbour at any moment, ends neither an agent nor a
server, and makes neither send what nobody can read.

The stacks are the real ones. What is thrown at them is made of what they have sent and of what they hold:
proposals, rounds, views and ids of this small world, with a number or a name changed here and there."""

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any, get_args

import msgspec
import pytest
from msgspec import msgpack
from msgspec.structs import replace

from rostra.core.effects import (
    Asked,
    CancelTimer,
    Event,
    LinkDown,
    LinkMoved,
    LinkUp,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
)
from rostra.core.stack import Stack
from rostra.errors import UNDECODABLE, BadInput
from rostra.groups.kinds import DeliveryKind, GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.agreed.branch import AnyBranchMessage, HostHolds, MemberAnswer, MemberAsked
from rostra.protocols.agreed.calls import AnyCallMessage, GroupCall
from rostra.protocols.agreed.changes import GroupVerb
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.groups import AGREED, AgreedMember
from rostra.protocols.agreed.messages import AnySetMessage, SetMessage
from rostra.protocols.agreed.moves import MovedGroup
from rostra.protocols.agreed.orders import CallerOrder, encode_order
from rostra.protocols.agreed.requests import JoinAgreed, LeaveAgreed
from rostra.protocols.agreed.sheets import GroupSheet, MemberSheet
from rostra.protocols.claims.agent import CLAIM_AGENT
from rostra.protocols.claims.messages import ClaimAnswer
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.messages import MessageId, SyncDone
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Close, Open
from rostra.stacks import NodePlan, make_stack
from rostra.wire.checks import check_message, check_request

EU, FR, DE = Domain("eu"), Domain("eu.fr"), Domain("eu.de")
HOSTS = [Domain(f"eu.fr.h{number}") for number in (1, 2, 3)]
MEMBERS = [
    Endpoint(f"{host}/{name}#1") for host in (*HOSTS, "eu.de.h1", "us.ny.h1") for name in ("ann", "bob")
]
MAJORITY = GroupKind(MembershipKind.AGREED, survive="majority")
KINDS = [AGREED, AGREED, MAJORITY, MAJORITY, replace(AGREED, merge="never"), replace(AGREED, within="chess")]
KINDS += [replace(AGREED, survive="primary"), replace(AGREED, survive="size > 3 and"), GroupKind()]
NUMBERS = [0, 0, 1, 1, 1, 2, 2, 3, 4, 9, 1 << 40, 1 << 61, 1 << 62]
GROUPS = [
    Group(name, Domain(scope)) for name, scope in (("chess", FR), ("chess", EU), ("go", EU), ("go", ROOT))
]
WORDS = ["", "", "any", "majority", "never", "eu.fr.h1:1:1", "UNREACHABLE", "admin", "yes", "chess"]


class Position:
    """Which node is attacked, and by whom."""

    def __init__(self, me: str, peers: str, *, cluster: bool = True, **config: Any) -> None:
        self.me, self.peers = Domain(me), [Domain(each) for each in peers.split()]
        self.is_agent = me.endswith(".h1")
        self.cluster, self.config = cluster, AgreedConfig(**config)


POSITIONS = {
    "agent": Position("eu.fr.h1", "eu.fr"),
    "cluster": Position("eu.fr", "eu eu.de eu.fr.h1 eu.fr.h2"),
    "domain": Position("eu", "world us eu.fr eu.de", cluster=False),
    "cluster with moves and lanes": Position("eu.fr", "eu eu.de eu.fr.h1 eu.fr.h2", moves=True, lanes=8),
    "domain with moves": Position("eu", "world us eu.fr eu.de", cluster=False, moves=True, early_flush=True),
}
TO_AGENT = get_args(AnyBranchMessage | AnyCallMessage)
TO_SERVER = get_args(AnyBranchMessage | AnyCallMessage | AnySetMessage)
IN_BYTES = (MovedGroup, CallerOrder, GroupSheet, MemberSheet)


def is_well_formed(message: Any) -> bool:
    try:
        check_message(msgpack.decode(msgpack.encode(message), type=type(message)))
    except (*UNDECODABLE, BadInput):
        return False
    return True


def parts_of(value: Any) -> Iterator[Any]:
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from parts_of(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from parts_of(each)


class Thrown:
    def __init__(self, seed: int, place: Position) -> None:
        self.luck, self.now, self.token, self.place = Random(seed), 0.0, 9, place
        self.known: dict[type, list[Any]] = {}
        self.sent: list[Any] = []
        self.timers: dict[TimerKey, None] = {}
        links = LinkConfig.lan()
        plan = NodePlan(
            "w", place.me, place.is_agent, place.cluster, 1, links, RelaxedConfig(), agreed=place.config
        )
        self.stack: Stack = make_stack(plan, Registry())
        for peer in place.peers:
            self.step(LinkUp(peer, 1))
            if peer in HOSTS:
                self.step(Received(peer, SyncDone(MessageId(peer, 1, 1))))
        self.ways = [self.message, self.message, self.message, self.sensible, self.sensible, self.replay]
        self.ways += [self.echo, self.timer, self.timer, self.link]
        if place.is_agent:
            self.step(Asked(Endpoint(""), 1, Open("ann")))
            self.ways += [self.request, self.request, self.answer, self.answer]

    def step(self, event: Event) -> None:
        for effect in self.stack.step(self.now, event):
            if type(effect) is SetTimer:
                self.timers[effect.timer] = None
            elif type(effect) is CancelTimer:
                self.timers.pop(effect.timer, None)
            elif type(effect) is Send:
                assert is_well_formed(effect.message), f"nobody can read {effect.message}"
                self.learn(effect.message)
        if self.stack.alarm_at <= self.now:
            alarm = self.stack.alarm
            self.stack.alarm_at = float("inf")
            self.step(TimerFired(alarm))

    def learn(self, message: Any) -> None:
        if isinstance(message, SetMessage) or type(message) in TO_SERVER:
            self.sent.append(message)
            del self.sent[:-40]
            for each in parts_of(message):
                pool = self.known.setdefault(type(each), [])
                if each not in pool:
                    pool.append(each)
                    del pool[:-12]

    def throw(self) -> None:
        self.now += self.luck.choice((0.0, 0.0, 0.01, 0.1, 1.0, 5.0))
        self.token += 1
        self.luck.choice(self.ways)()

    # Values

    def made(self, kind: Any, deep: int = 0) -> Any:
        luck = self.luck
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            pool = self.known.get(kind, ())
            if pool and luck.random() < 0.7:
                found = luck.choice(pool)
                return self.bent(found, deep) if luck.random() < 0.3 else found
        if getattr(kind, "__metadata__", None):
            return self.made(kind.__origin__, deep)
        arguments = getattr(kind, "__args__", ())
        if getattr(kind, "__origin__", None) is tuple:
            if arguments[-1] is Ellipsis:
                count = luck.choice((0, 1, 1, 2, 3) if deep < 8 else (0,))
                return tuple([self.made(arguments[0], deep + 1) for _ in range(count)])
            return tuple([self.made(each, deep + 1) for each in arguments])
        if arguments:
            return self.made(luck.choice(arguments), deep)
        if kind is type(None):
            return None
        if kind is GroupKind:
            return luck.choice(KINDS)
        if kind is Group:
            return luck.choice(GROUPS)
        if kind is Domain:
            return luck.choice([*self.place.peers, self.place.me, *HOSTS, EU, FR, Domain("eu.de.h1"), ROOT])
        if kind is Endpoint:
            return luck.choice(MEMBERS)
        if kind is str:
            return luck.choice(WORDS)
        if kind is int:
            return luck.choice(NUMBERS)
        if kind is bool:
            return luck.random() < 0.5
        if kind is bytes:
            return self.octets(deep)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return kind(
                **{each.name: self.made(each.type, deep + 1) for each in msgspec.structs.fields(kind)}
            )
        return luck.choice(list(kind))

    def octets(self, deep: int) -> bytes:
        if deep > 6 or self.luck.random() < 0.4:
            return self.luck.choice((b"", b"", b"x", b"\xc1\x80", b"\xff"))
        kind = self.luck.choice(IN_BYTES)
        if kind is CallerOrder:
            made = self.made(CallerOrder, deep + 1)
            return encode_order(made.caller, made.order)
        mark = b"\xc1" if kind is MemberSheet else b""
        return mark + msgpack.encode(self.made(kind, deep + 1))

    def bent(self, value: Any, deep: int = 0) -> Any:
        """The same with another value in one field, or in one of its parts."""
        fields = msgspec.structs.fields(type(value))
        if not fields:
            return value
        field = self.luck.choice(fields)
        old = getattr(value, field.name)
        if isinstance(old, msgspec.Struct) and self.luck.random() < 0.7:
            return replace(value, **{field.name: self.bent(old, deep + 1)})
        return replace(value, **{field.name: self.made(field.type, deep + 1)})

    # What happens

    def receive(self, peer: Domain, message: Any) -> None:
        if isinstance(message, SetMessage) and self.luck.random() < 0.95:
            place = self.place.me
            own = peer.startswith(f"{place}.") and not self.place.cluster
            name = place if own else Domain(place.rpartition(".")[0] or ROOT)
            message = replace(message, set=name, life=1 if self.luck.random() < 0.97 else 2)
        if is_well_formed(message):
            self.step(Received(peer, message))

    def message(self) -> None:
        kinds = TO_AGENT if self.place.is_agent else TO_SERVER
        self.receive(self.luck.choice(self.place.peers), self.made(self.luck.choice(kinds)))

    def sensible(self) -> None:
        """What a host or an honest server could say."""
        luck, peer = self.luck, self.luck.choice(self.place.peers)
        kind = luck.choice((MemberAsked, MemberAsked, HostHolds, *get_args(AnySetMessage)))
        if self.place.is_agent:
            return self.message()
        message = self.made(kind)
        if isinstance(message, MemberAsked | HostHolds):
            host = peer if peer in HOSTS else Domain(f"{peer}.h1")
            own = [
                AgreedMember(replace(each.id, endpoint=Endpoint(f"{host}/ann#1")), 0)
                for each in message.members
            ]
            question = replace(message.question, host=host, number=self.token)
            message = replace(message, members=tuple(own[:1]), question=question)
            if isinstance(message, MemberAsked):
                message = replace(
                    message, verb=luck.choice((GroupVerb.JOIN, GroupVerb.JOIN, GroupVerb.LEAVE))
                )
        return self.receive(peer, message)

    def replay(self) -> None:
        if self.sent:
            message = self.luck.choice(self.sent)
            self.receive(self.luck.choice(self.place.peers), message)

    def echo(self) -> None:
        """What this node sent, a little otherwise."""
        if self.sent:
            message = self.luck.choice(self.sent)
            self.receive(self.luck.choice(self.place.peers), self.bent(message))

    def timer(self) -> None:
        if self.timers:
            timer = self.luck.choice(sorted(self.timers, key=str))
            del self.timers[timer]
            self.step(TimerFired(timer))

    def link(self) -> None:
        peer, life = self.luck.choice(self.place.peers), 1
        if self.luck.random() < 0.7:
            self.step(LinkMoved(peer, life))
        else:
            self.step(LinkDown(peer, Because(self.place.me, peer, self.luck.choice(("silent", "closed")))))
            self.step(LinkUp(peer, life))

    def request(self) -> None:
        me = self.stack[AGENT].names.get("ann")
        if me is None or self.luck.random() < 0.03:
            self.step(Asked(me or MEMBERS[0], self.token, Close()))
            self.step(Asked(Endpoint(""), self.token, Open("ann")))
            return
        kind = self.luck.choice((JoinAgreed, JoinAgreed, LeaveAgreed, GroupCall))
        request = self.made(kind)
        if isinstance(request, JoinAgreed):
            survive = self.luck.choice(("", "", "majority", "primary"))
            request = JoinAgreed(request.group, DeliveryKind.NONE, survive, request.create)
        with suppress(*UNDECODABLE, BadInput):  # as at the agent's door
            check_request(msgpack.decode(msgpack.encode(request), type=type(request)))
            self.step(Asked(me, self.token, request))

    def answer(self) -> None:
        """To what the agent asked last."""
        for group, asked in list(self.stack[CLAIM_AGENT].asked.items())[:1]:
            self.step(Received(FR, ClaimAnswer(asked.ids[-1], self.place.me, group, asked.group_kind, 1)))
        questions = [each for each in self.sent if isinstance(each, MemberAsked | HostHolds)]
        if questions:
            asked = questions[-1]
            code = self.luck.choice(("", "", "", "NOT_ALLOWED"))
            self.receive(FR, MemberAnswer(asked.group, asked.question, code, ""))


@pytest.mark.parametrize("place", POSITIONS.values(), ids=POSITIONS.keys())
@pytest.mark.parametrize("seed", range(4))
def test_any_message_at_any_moment_ends_nothing_and_makes_nothing_unreadable(
    seed: int, place: Position
) -> None:
    thrown = Thrown(seed, place)
    for _ in range(300):
        thrown.throw()
