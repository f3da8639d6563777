"""A set of servers in one process: cores, and lanes between them that keep the order."""

from collections import Counter, deque
from collections.abc import Callable
from math import inf
from typing import Any

from rostra.core.effects import (
    CancelTimer,
    Effect,
    Event,
    LinkDown,
    LinkUp,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import (
    AnyChange,
    GroupChange,
    GroupVerb,
    MemberId,
    Pid,
    ServerId,
    SetMember,
    SetView,
)
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.events import ChangeAsked, ServerIsolated, SetCommitted
from rostra.protocols.agreed.state import Idle, founded
from rostra.protocols.agreed.state import alone as starts_alone

SET = Domain("eu")
CHESS = Group("chess", SET)
GOES = Group("go", SET)


def server(name: str) -> ServerId:
    return ServerId(Domain(name), 1)


def servers(names: str) -> tuple[ServerId, ...]:
    return tuple(server(name) for name in names)


def founding_view(names: str) -> SetView:
    members = tuple(SetMember(each, 0, place) for place, each in enumerate(servers(names)))
    return SetView(1, Pid(ServerId(SET, 1), 0), members)


def join(who: str, group: Group = CHESS) -> GroupChange:
    return GroupChange(
        group, GroupVerb.JOIN, (MemberId(Endpoint(f"eu.x.h1/{who}#1"), (1, 1)),), f"{who} joins"
    )


def leave(who: str, rank: int = 0, group: Group = CHESS) -> GroupChange:
    member = MemberId(Endpoint(f"eu.x.h1/{who}#1"), (1, 1))
    return GroupChange(group, GroupVerb.LEAVE, (member,), f"{who} leaves", rank)


class SetNet:
    """`drops` says which messages are lost; whoever is in `frozen` neither receives nor waits."""

    def __init__(
        self,
        names: str,
        *,
        kind: type[SetCore] = SetCore,
        alone: bool = False,
        parent: str = "",
        **config: Any,
    ) -> None:
        """With `alone`, each server has just started and sees none of the others; parts re-form. Without it,
        they begin as one set, and parts stay parts unless `reform_s` says otherwise. As in the paper, the
        first that loses a server removes it, unless `gather_s` says otherwise."""
        view = founding_view(names)
        self.config = AgreedConfig(**{"reform_s": inf if alone else 0.0, "gather_s": 0.0} | config)
        self.kind = kind
        self.cores = {
            name: kind(
                SET,
                starts_alone(server(name), parent=name == parent) if alone else founded(server(name), view),
                self.config,
            )
            for name in names
        }
        self.lanes: dict[tuple[str, str], deque[Any]] = {
            (one, other): deque() for one in names for other in names if one != other
        }
        self.gone: set[str] = set()
        self.frozen: set[str] = set()
        self.drops: Callable[[str, str, Any], bool] = lambda sender, to, message: False
        self.effects: list[tuple[str, Effect]] = []
        self.sent: list[tuple[str, str, Any]] = []
        self.waits: dict[str, float] = {}
        self.probes: dict[str, float] = {}
        self.now = 0.0
        self.watch: Callable[[], None] = lambda: None  # after every step
        for one, other in [] if alone else self.lanes:
            self.step(one, LinkUp(Domain(other), 1))

    def step(self, name: str, event: Event) -> list[Effect]:
        effects = self.cores[name].step(self.now, event)
        for effect in effects:
            self.effects.append((name, effect))
            match effect:
                case Send(to, message):
                    self.sent.append((name, to, message))
                    is_there = (name, to) in self.lanes and to not in self.gone
                    if is_there and not self.drops(name, to, message):
                        self.lanes[name, to].append(message)
                case SetTimer(timer, after_s) if timer == self.cores[name].timer:
                    self.waits[name] = self.now + after_s
                case SetTimer(timer, after_s):
                    assert timer == self.cores[name].probe_timer
                    self.probes[name] = self.now + after_s
                case CancelTimer(timer) if timer == self.cores[name].probe_timer:
                    self.probes.pop(name, None)
        if isinstance(self.cores[name].state.phase, Idle):
            self.waits.pop(name, None)
        self.watch()
        return effects

    def ask(self, name: str, *changes: AnyChange) -> None:
        for change in changes:
            self.step(name, ChangeAsked(change))

    def deliver(self, sender: str, to: str) -> Any:
        message = self.lanes[sender, to].popleft()
        self.step(to, Received(Domain(sender), message))
        return message

    def flow(self) -> None:
        """All that is under way arrives, oldest lanes first, and all that comes of it."""
        while pairs := [
            pair for pair, lane in self.lanes.items() if lane and pair[1] not in {*self.gone, *self.frozen}
        ]:
            for sender, to in pairs:
                if self.lanes[sender, to]:
                    self.deliver(sender, to)

    def settle(self, waits_max: int = 400) -> None:
        """Until nothing is under way and nobody waits: waits end in the order of time."""
        self.flow()
        for _ in range(waits_max):
            due = {name: at for name, at in self.waits.items() if name not in {*self.gone, *self.frozen}}
            if not due:
                return
            name = min(due, key=lambda each: (due[each], each))
            self.now = self.waits.pop(name)
            self.step(name, TimerFired(self.cores[name].timer))
            self.flow()
        raise AssertionError(f"still waiting: {[self.cores[name].state.phase for name in due]}")

    def reform(self, rounds_max: int = 50) -> None:
        """Settle, and let speakers probe, until there is one view or nobody probes any more."""
        for _ in range(rounds_max):
            self.settle()
            due = {name: at for name, at in self.probes.items() if name not in {*self.gone, *self.frozen}}
            if not due:
                return
            name = min(due, key=lambda each: (due[each], each))
            self.now = max(self.now, self.probes.pop(name))
            self.step(name, TimerFired(self.cores[name].probe_timer))
        raise AssertionError(f"still apart: {sorted({self.view(name) for name in self.cores})}")

    def link(self, one: str, other: str) -> None:
        for at, peer in ((one, other), (other, one)):
            if at not in self.gone and Domain(peer) not in self.cores[at].state.linked:
                self.step(at, LinkUp(Domain(peer), self.cores[peer].state.me.life))

    def restart(self, name: str) -> None:
        """A new life, which knows nothing."""
        life = self.cores[name].state.me.life + 1
        self.gone.discard(name)
        self.cores[name] = self.kind(SET, starts_alone(ServerId(Domain(name), life)), self.config)

    def wait(self, name: str) -> list[Effect]:
        return self.step(name, TimerFired(self.cores[name].timer))

    def cut(self, one: str, other: str) -> None:
        for at, peer in ((one, other), (other, one)):
            self.lanes[peer, at].clear()
            if at not in self.gone:
                self.step(at, LinkDown(Domain(peer), Because(Domain(at), Domain(peer), "silent")))

    def crash(self, *names: str, seen: bool = True) -> None:
        self.gone.update(names)
        for name in names:
            self.waits.pop(name, None)
            self.probes.pop(name, None)
            for other in self.cores:
                if other != name:
                    self.lanes[other, name].clear()
        if seen:
            for name in names:
                self.notice(name)

    def notice(self, name: str) -> None:
        """All others see that their links to it are down."""
        for other in self.cores:
            if other not in self.gone:
                self.step(other, LinkDown(Domain(name), Because(Domain(other), Domain(name), "silent")))

    # What came of it

    def commits(self, name: str) -> list[Any]:
        """The changes that this server applied, in order."""
        return [
            effect.record.proposal.change
            for who, effect in self.effects
            if who == name and isinstance(effect, SetCommitted)
        ]

    def views(self, name: str) -> list[str]:
        """The members in each view of the set that this server had after the first."""
        return [
            "".join(each.server for each in effect.view.servers)
            for who, effect in self.effects
            if who == name and isinstance(effect, SetCommitted)
        ]

    def view(self, name: str) -> str:
        return "".join(each.server for each in self.cores[name].state.view.servers)

    def isolations(self) -> list[tuple[str, str]]:
        return [(who, each.server.server) for who, each in self.effects if isinstance(each, ServerIsolated)]

    def count(self) -> Counter[str]:
        return Counter(type(message).__name__ for _, _, message in self.sent)

    def agreed(self) -> bool:
        """Those who live stand alike, and have nothing left to do."""
        states = [core.state for name, core in self.cores.items() if name not in self.gone]
        return len({(state.view, state.base) for state in states}) == 1 and all(
            isinstance(state.phase, Idle) and not state.queue for state in states
        )
