"""XX-20: a LAN is split in itself, and each half has an active delegate; then they find each other (TX-10).

The two replicas of the LAN's server have lost each other. The second one was appointed and speaks under a
higher epoch; the first does not know, and goes on. What is said on the data channel reaches both, and both
pass it on, answer questions and announce, which is worse than a split that keeps them apart. Control goes
through the second. They merge when the first hears a mirror of the second.
"""

from copy import deepcopy
from typing import Any

import pytest
from support.fifonet import G, Net
from support.seeds import seeds

from rostra.core.effects import CancelTimer, LinkDown, SetTimer, TimerFired
from rostra.core.stack import Stack
from rostra.groups.members import Because
from rostra.names import Domain
from rostra.protocols.fifo import events as ev
from rostra.protocols.fifo.delegate import Backup, In
from rostra.protocols.flow.messages import Data

LAN = Domain("mit")
HEARD = (ev.Cast, ev.Transmit, SetTimer, CancelTimer)  # of the first: nobody is left for its control messages


class SplitNet(Net):
    rival: Any = None
    merged = False
    rival_data = 0

    def split(self) -> None:
        old, new = self.nodes[LAN], self.backups[LAN]
        self.rival, server = old, old.server
        self.nodes[LAN] = new
        self._have_backup(LAN, server)
        self.epochs[LAN] = self.epochs.get(LAN, 1) + 1
        Stack(old, deepcopy(server, {id(server.stack): None}))
        super().step(LAN, LinkDown(old.host, Because(LAN, old.host, "silent")))
        super().step(LAN, ev.Appointed(self.epochs[LAN]))

    def step(self, node: Domain, event: Any) -> None:
        super().step(node, event)
        if node == LAN and self.rival is not None and isinstance(event, ev.Heard):
            self._step_rival(event)

    def _step_rival(self, event: Any) -> None:
        for effect in self.rival.stack.step(self.now, event):
            if isinstance(effect, HEARD):
                self.rival_data += isinstance(getattr(effect, "message", None), Data)
                self._perform(LAN, effect)

    def _fire(self, node: Domain, timer: Any, number: int) -> None:
        rivals = self.rival is not None and node == LAN and len(timer) > 3 and timer[3] == self.rival.me
        if not rivals:
            super()._fire(node, timer, number)
        elif self._timers.get((node, timer)) == number:
            del self._timers[node, timer]
            self._step_rival(TimerFired(timer))

    def _replicate(self, lan: Domain, group: Any, message: Any) -> None:
        super()._replicate(lan, group, message)
        if self.merged and lan == LAN:
            self._step_rival(ev.MirrorReplicated(group, message))


@pytest.mark.spec("X-104", "X-036", "X-125")
@pytest.mark.parametrize("seed", seeds(6))
def test_xx20_of_two_delegates_one_remains_and_nobody_misses_or_hears_anything_twice(seed):
    loss = (0.0, 0.1)[seed % 2]
    lans = {"huji": 1, "mit": 2, "ntu": 1}
    net = SplitNet(seed, lans, wan_loss=loss, lan_loss=loss / 4, replicas=True)
    members = [net.join(f"{host}/a") for host in ("huji.h1", "mit.h1", "mit.h2", "ntu.h1")]
    net.run(3.0)
    for member in members:
        net.stream(member, every_s=0.05)
    net.run(1.0 + 0.1 * seed)
    net.split()
    net.run(3.0)
    first, second = net.rival.groups[G], net.delegate("mit")
    assert isinstance(first.state, In) and isinstance(second.state, In) and second.epoch > first.epoch
    assert net.rival_data > 50  # it went on as if nothing had happened
    net.merged = True
    net.run(1.0)
    assert isinstance(first.state, Backup)
    net.rival_data = 0
    net.run(3.0)
    assert net.rival_data == 0 and isinstance(second.state, In)
    for program in net.programs.values():
        program.silent = True
    net.run(8.0)
    net.nobody_noticed(members)
