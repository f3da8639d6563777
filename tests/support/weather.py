"""Servers of a set through whatever may happen to them, at random, with checks after every step."""

from itertools import combinations
from random import Random

from support.setnet import CHESS, SetNet

from rostra.core.effects import TimerFired
from rostra.groups.kinds import GroupKind
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.changes import (
    GroupChange,
    GroupVerb,
    MemberId,
    Pid,
    SetView,
    follows,
)
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.events import ServerIsolated, SetCommitted
from rostra.protocols.agreed.groups import AGREED, AgreedView
from rostra.protocols.agreed.messages import PartedFromSet
from rostra.protocols.agreed.state import Idle, SetState


def joins(cluster: str, who: str, kind: GroupKind = AGREED) -> GroupChange:
    member = MemberId(Endpoint(f"{cluster}.h1/{who}#1"), (1, 1))
    return GroupChange(CHESS, GroupVerb.JOIN, (member,), f"{who} joins at {cluster}", kind=kind)


class Weather:
    """Servers that start alone, and whatever may happen to them."""

    group = AGREED

    def __init__(self, seed: int, kind: type[SetCore] = SetCore) -> None:
        self.luck = Random(seed)
        self.names = "abcdef"[: self.luck.randint(2, 6)]
        self.net = SetNet(self.names, kind=kind, alone=True, parent="a", retries=self.luck.randint(1, 3))
        self.loss = self.luck.choice([0.0, 0.0, 0.1, 0.3])
        self.net.drops = lambda sender, to, message: (
            not isinstance(message, PartedFromSet) and self.luck.random() < self.loss
        )
        self.faults, self.changes = self.luck.randint(0, 6), self.luck.randint(0, 6)
        self.successors: dict[str, dict[Pid, Pid]] = {name: {} for name in self.names}
        self.parted: set[tuple[str, str]] = set()
        self.views: dict[Pid, SetView] = {}
        self.asked: set[MemberId] = set()
        self.seen = 0
        self.net.watch = self.check

    def living(self) -> list[str]:
        return [name for name in self.names if name not in self.net.gone]

    def clusters(self) -> list[str]:
        """Servers with members below them: not the parent."""
        return [name for name in self.living() if name != "a"] or self.living()

    def blow(self, steps: int) -> None:
        net, luck = self.net, self.luck
        for _ in range(steps):
            pairs = [pair for pair, lane in net.lanes.items() if lane and pair[1] not in net.gone]
            apart = [
                (one, other)
                for one, other in combinations(self.living(), 2)
                if Domain(other) not in net.cores[one].state.linked
            ]
            match luck.random():
                case draw if draw < 0.03 and self.changes:
                    self.changes -= 1
                    name = luck.choice(self.clusters())
                    net.ask(name, joins(name, f"m{self.changes}", self.group))
                case draw if draw < 0.05 and self.faults:
                    self.faults -= 1
                    self.harm()
                case draw if draw < 0.10 and apart:
                    net.link(*luck.choice(apart))
                case draw if draw < 0.13 and net.waits:
                    self.fire(luck.choice(sorted(net.waits)))
                case draw if draw < 0.15 and net.probes:
                    self.probe(luck.choice(sorted(net.probes)))
                case _ if pairs:
                    net.deliver(*luck.choice(pairs))
                case _ if net.waits:
                    self.fire(min(net.waits, key=lambda each: (net.waits[each], each)))

    def fire(self, name: str) -> None:
        self.net.now = max(self.net.now, self.net.waits.pop(name))
        self.net.step(name, TimerFired(self.net.cores[name].timer))

    def probe(self, name: str) -> None:
        self.net.now = max(self.net.now, self.net.probes.pop(name))
        self.net.step(name, TimerFired(self.net.cores[name].probe_timer))

    def harm(self) -> None:
        living, net = self.living(), self.net
        match self.luck.random():
            case draw if draw < 0.3 and len(living) > 1:
                net.crash(self.luck.choice(living))
            case draw if draw < 0.5 and net.gone:
                name = self.luck.choice(sorted(net.gone))
                self.successors[name] = {}
                net.restart(name)
            case draw if draw < 0.8:
                side = {name for name in living if self.luck.random() < 0.5}
                for one, other in combinations(living, 2):
                    if (one in side) != (other in side):
                        self.cut(one, other)
            case _ if len(living) > 1:
                self.cut(*self.luck.sample(living, 2))

    def cut(self, one: str, other: str) -> None:
        if Domain(other) in self.net.cores[one].state.linked:
            self.net.cut(one, other)

    def check(self) -> None:
        """V-120: two successors of one base, then an isolation between the two; one id, one list."""
        for name, effect in self.net.effects[self.seen :]:
            me = self.net.cores[name].state.me
            match effect:
                case SetCommitted(record, view):
                    self.successors[name][follows(record.proposal, me)] = record.proposal.pid
                    assert self.views.setdefault(view.pid, view) == view
                case ServerIsolated(whom):
                    self.parted.add((name, whom.server))
        self.seen = len(self.net.effects)
        for one, other in combinations(self.living(), 2):
            if (one, other) in self.parted or (other, one) in self.parted:
                continue
            for base, pid in self.successors[one].items():
                assert self.successors[other].get(base, pid) == pid, f"{one} and {other} differ on {base}"

    def clear(self) -> None:
        """Faults and losses end, all links come up: one set, the same groups, every member in them."""
        net = self.net
        self.loss = 0.0
        for one, other in combinations(self.living(), 2):
            net.link(one, other)
        net.reform(200)
        states = {name: net.cores[name].state for name in self.living()}
        first = states[self.living()[0]]
        for name, state in states.items():
            assert isinstance(state.phase, Idle) and not state.queue and not state.isolated, name
            assert state.view == first.view and state.base == first.base, name
            assert {each.server for each in state.view.servers} == set(self.living())
            assert groups(state) == groups(first)


def groups(state: SetState) -> dict[Group, list[AgreedView]]:
    return {name: [part.view for part in group.parts] for name, group in state.table.groups.items()}
