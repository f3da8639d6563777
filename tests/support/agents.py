"""A local server and a hand to drive it: counts tokens, lets time pass, checks invariants at every step."""

from typing import Any

from rostra.core.effects import (
    Asked,
    Effect,
    EndpointGone,
    Event,
    LinkDown,
    LinkUp,
    Received,
    Send,
    TimerFired,
)
from rostra.groups.members import Because, Member
from rostra.names import Domain, Endpoint, Group, parent
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.invariants import local_server_violations
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.messages import MessageId
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Join, Open, Opened, Watch

HOST = Domain("eu.fr.c1.h1")
GMS = parent(HOST)
WORLD, EU, FR, US = Domain("world"), Domain("eu"), Domain("eu.fr"), Domain("us")
CHESS = Group("chess", EU)
GOLF = Group("golf", EU)
HOME = Group("home", HOST)  # of this host alone
BECAUSE = Because(HOST, GMS, "silent")
INCARNATION = 7

FAR_ANN = Member(Endpoint("eu.de.c2.h1/ann#3"), (3, 1))
FAR_BOB = Member(Endpoint("eu.fr.c2.h1/bob#4"), (4, 9), b"bob's")


class Agent:
    def __init__(
        self,
        *,
        up: bool = True,
        config: RelaxedConfig | None = None,
        registry: Registry | None = None,
        host: Domain = HOST,
    ) -> None:
        self.core = LocalServer(host, incarnation=INCARNATION, config=config, registry=registry)
        self.now = 0.0
        self.token = 0
        if up:
            self.link_up()

    def step(self, event: Event, *, same_instant: bool = False) -> list[Effect]:
        self.now += 0.0 if same_instant else 1.0
        effects = self.core.step(self.now, event)
        assert local_server_violations(self.core) == []
        return effects

    def ask(self, me: Endpoint, request: Any, *, same_instant: bool = False) -> list[Effect]:
        """Ask with the next token, which is `self.token` afterwards."""
        self.token += 1
        return self.step(Asked(me, self.token, request), same_instant=same_instant)

    def open(self, name: str) -> Endpoint:
        [answer] = self.ask(Endpoint(""), Open(name))
        assert isinstance(answer.result, Opened)  # type: ignore[attr-defined]
        return answer.result.endpoint  # type: ignore[attr-defined]

    def member(self, name: str, group: Group = CHESS, *, online: bool = True) -> Member:
        """A new endpoint that is in this group already."""
        me = self.open(name)
        self.ask(me, Join(group, online=online))
        return self.core.groups[group].members[me]

    def watcher(self, name: str, group: Group = CHESS) -> Endpoint:
        me = self.open(name)
        self.ask(me, Watch(group))
        return me

    def link_up(self) -> list[Effect]:
        return self.step(LinkUp(parent(self.core.host), 1))

    def link_down(self) -> list[Effect]:
        return self.step(LinkDown(parent(self.core.host), BECAUSE))

    def receive(self, message: Any) -> list[Effect]:
        return self.step(Received(parent(self.core.host), message))

    def fire(self, *timer: str | int) -> list[Effect]:
        return self.step(TimerFired(timer))

    def kill(self, me: Endpoint) -> list[Effect]:
        return self.step(EndpointGone(me))

    def settle(self) -> None:
        """Let the domain server answer everything that is open with: nobody else."""
        from rostra.protocols.relaxed.messages import Interest, ResolveReply

        for entry in list(self.core.resolves.open.values()):
            if entry.id in self.core.resolves.open:
                self.receive(ResolveReply(entry.id, entry.group, (), Interest.NONE))


def own_id(sequence: int) -> MessageId:
    """The id of the agent's nth message; the first is the `SyncDone` of a link that came up with nothing."""
    return MessageId(HOST, INCARNATION, sequence)


def their_id(sequence: int = 1) -> MessageId:
    return MessageId(GMS, 1, sequence)


def stamp(counter: int) -> tuple[int, int]:
    return (INCARNATION, counter)


def to_gms(message: Any) -> Send:
    return Send(GMS, message)


def sent(effects: list[Effect]) -> list[Any]:
    return [effect.message for effect in effects if isinstance(effect, Send)]
