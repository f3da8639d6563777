"""K9: any well-formed message, from any neighbour at any moment, ends neither an agent nor a server; and so
does any request of a program or an administrator.

The stacks are the real ones. What is thrown at them names what is there: hosts, groups, endpoints and numbers
of this small world, so that most of it gets further than the first check."""

from random import Random
from typing import Any, get_args

import pytest
from msgspec import msgpack
from msgspec.structs import replace

from rostra.core.effects import (
    Asked,
    CancelTimer,
    Effect,
    Event,
    LinkDown,
    LinkMoved,
    LinkUp,
    Received,
    SetTimer,
    TimerFired,
    TimerKey,
)
from rostra.core.stack import Stack
from rostra.errors import UNDECODABLE, BadInput
from rostra.groups.members import Because
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.access.messages import AnyAccessMessage
from rostra.protocols.access.requests import (
    AssignName,
    CloseGroup,
    JoinRestricted,
    JoinUnique,
    ReleaseName,
    ReopenGroup,
    Revoke,
)
from rostra.protocols.claims import messages as claims
from rostra.protocols.claims.agent import CLAIM_AGENT
from rostra.protocols.led import messages as led
from rostra.protocols.led.agent import LED_AGENT
from rostra.protocols.led.core import CircuitDown, CircuitUp, TreeReceived
from rostra.protocols.led.requests import AnySetRequest, JoinLed, LeaveLed
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import Close, Join, Leave, Open, Resolve, Watch
from rostra.protocols.scopes.messages import AnyScopesMessage
from rostra.protocols.scopes.requests import JoinOpen, LeaveOpen
from rostra.wire.checks import check_message
from tests.attacks.test_h6_protected_names import ACME, END_MS, LUCK, NOW_MS, W, stack
from tests.wire import behind
from tests.wire.behind import made

EU, US = Domain("eu"), Domain("us")
H1, H2, H3 = HOSTS = [Domain(f"eu.h{number}") for number in (1, 2, 3)]
ANN, BOB = Endpoint(f"eu.h1/ann#{NOW_MS}"), Endpoint("eu.h2/bob#1")
PAYROLL = Group("acme!payroll", EU)
PROOFS = [msgpack.encode(ACME.proof(W, PAYROLL, each, NOW_MS - 1, END_MS)) for each in (ANN, BOB)]
KNOWN: dict[Any, list[Any]] = {
    int: [0, 1, 1, 2, 3, 5, 7, 2**62],
    bool: [True, False],
    float: [0.0, 1.0],
    str: ["ann#1", f"ann#{NOW_MS}", "bob#1", "chess", "go", "zed#3", "acme!payroll", f"{BOB}~1-1"],
    bytes: [b"", b"x", LUCK, *PROOFS],
    Domain: [*HOSTS, *HOSTS, EU, ROOT, US, Domain("us.h1")],
    Endpoint: [ANN, BOB, Endpoint("eu.h3/cid#1")],
    Group: [Group("chess", EU), Group("go", ROOT), PAYROLL, Group(f"{BOB}~1-1", EU)],
}
MESSAGES = get_args(led.AnyLedMessage | AnyAccessMessage | claims.Message | AnyScopesMessage)
LETTERS, TREE = get_args(led.Datagram), get_args(led.AnyTreeMessage)
OF_PROGRAMS = (
    *(
        JoinLed,
        LeaveLed,
        JoinUnique,
        JoinRestricted,
        JoinOpen,
        LeaveOpen,
        Join,
        Leave,
        Resolve,
        Watch,
        Revoke,
    ),
    *get_args(AnySetRequest),
)
OF_ADMINISTRATORS = (CloseGroup, ReopenGroup, AssignName, ReleaseName, Revoke)


def is_well_formed(message: Any) -> bool:
    try:
        check_message(msgpack.decode(msgpack.encode(message), type=type(message)))
    except (*UNDECODABLE, BadInput):
        return False
    return True


class Thrown:
    """One agent or server, and what is thrown at it."""

    def __init__(self, seed: int, *, is_agent: bool) -> None:
        self.luck, self.now, self.token = Random(seed), 0.0, 9
        self.me = H1 if is_agent else EU
        self.peers = [EU] if is_agent else [ROOT, US, *HOSTS]
        self.stack: Stack = stack(self.me, is_agent=is_agent)
        self.timers: dict[TimerKey, None] = {}
        for peer in self.peers:
            self.step(LinkUp(peer, 1))
        self.ways = [self.letter, self.letter, self.message, self.message, self.timer, self.link]
        if is_agent:
            self.stack[LED_AGENT].circuits.send = lambda *args: None  # type: ignore[method-assign]
            self.ways += [self.request, self.request, self.answer, self.circuit, self.circuit]
            self.step(Asked(Endpoint(""), 1, Open("ann")))
        else:
            self.ways.append(self.administer)

    def step(self, event: Event) -> None:
        self.seen(self.stack.step(self.now, event))

    def seen(self, effects: Any) -> None:
        for effect in effects:
            if type(effect) is SetTimer:
                self.timers[effect.timer] = None
            elif type(effect) is CancelTimer:
                self.timers.pop(effect.timer, None)

    def throw(self) -> None:
        self.now += self.luck.choice((0.0, 0.01, 1.0, 5.0))
        self.token += 1
        self.luck.choice(self.ways)()

    def letter(self) -> None:
        body = led.encode_letter(made(self.luck.choice(LETTERS), self.luck))
        source = self.luck.choice([*HOSTS, EU, Domain("us.h1")])
        self.step(Received(self.luck.choice(self.peers), led.CarriedLetter(source, self.me, body)))

    def message(self) -> None:
        message = made(self.luck.choice(MESSAGES), self.luck)
        if is_well_formed(message):
            self.step(Received(self.luck.choice(self.peers), message))

    def timer(self) -> None:
        if self.timers:
            timer = self.luck.choice(sorted(self.timers, key=str))
            del self.timers[timer]
            self.step(TimerFired(timer))

    def link(self) -> None:
        peer, life = self.luck.choice(self.peers), self.luck.choice((1, 2))
        if self.luck.random() < 0.5:
            self.step(LinkMoved(peer, life))
        else:
            self.step(LinkDown(peer, Because(self.me, peer, "silent")))
            self.step(LinkUp(peer, life))

    def request(self) -> None:
        me = self.stack[AGENT].names.get("ann")
        if me is None or self.luck.random() < 0.03:
            self.step(Asked(me or ANN, self.token, Close()))
            self.step(Asked(Endpoint(""), self.token, Open("ann")))
        else:
            self.step(Asked(me, self.token, made(self.luck.choice(OF_PROGRAMS), self.luck)))

    def administer(self) -> None:
        self.step(Asked(Endpoint(""), self.token, made(self.luck.choice(OF_ADMINISTRATORS), self.luck)))

    def answer(self) -> None:
        """To what the agent asked last: of a claim, or of the registrar."""
        for group, asked in list(self.stack[CLAIM_AGENT].asked.items())[:1]:
            kind = self.luck.choice((asked.group_kind, asked.group_kind, None))
            self.step(Received(EU, claims.ClaimAnswer(asked.ids[-1], H1, group, kind, 1)))
        agent = self.stack[LED_AGENT]
        for group, tree in list(agent.trees.items())[:1]:
            named = led.AssertReply(group, tree.state.number, self.luck.choice(HOSTS))
            registrar = agent.registrars.get(group.scope)
            path = EU if registrar is None else registrar.path
            self.step(Received(EU, led.CarriedLetter(path, H1, led.encode_letter(named))))

    def circuit(self) -> None:
        """To an agent that was connected, and says what it likes."""
        agent, peer = self.stack[LED_AGENT], self.luck.choice(HOSTS[1:])
        event: CircuitUp | CircuitDown | TreeReceived
        agent._begin(self.now)
        agent.want_circuit(peer)
        if peer not in agent.circuits.up:
            agent.circuits.up.add(peer)
            event = CircuitUp(peer)
        elif self.luck.random() < 0.1:
            agent.circuits.up.discard(peer)
            event = CircuitDown(peer)
        else:
            message = made(self.luck.choice(TREE), self.luck)
            if led.decode_letter(msgpack.encode(led.CircuitData(1, 1, 1, 1, (message,)))) is None:
                return
            if hasattr(message, "number") and message.group in agent.trees:
                message = replace(message, number=agent.trees[message.group].state.number)
            event = TreeReceived(peer, message)
        agent._circuit(peer, event)
        effects: list[Effect] = agent._end()
        self.seen(effects)


@pytest.mark.parametrize("is_agent", [True, False], ids=["agent", "server"])
@pytest.mark.parametrize("seed", range(4))
def test_any_message_at_any_moment_ends_nothing(
    seed: int, is_agent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behind, "SOUND", KNOWN)
    monkeypatch.setattr(behind, "ODD", KNOWN)
    thrown = Thrown(seed, is_agent=is_agent)
    for _ in range(200):
        thrown.throw()
