"""Storms over a group that speaks: joins, leaves, crashes, cuts and loss; then the sky clears.

While it blows, `Net` checks every delivery: in order, no hole, no duplicate, the right bytes, inside a
membership (IX-1..IX-3), and the cores' invariants (IX-5). Afterwards everybody sees everybody and has
everything (IX-7, IX-8), and every gap that was told had its reason (X-006).
"""

import pytest
from support.fifonet import Net

from rostra.groups.attributes import Role
from rostra.names import Endpoint
from rostra.protocols.fifo import events as ev
from rostra.protocols.flow.config import FifoConfig

EVERY_SEED_THAT_EVER_FAILED: list[int] = []


class Storm:
    def __init__(self, seed: int, *, cuts: bool, crashes: bool) -> None:
        self.net = Net(
            seed,
            {"huji": 2, "mit": 2, "ntu": 2},
            config=FifoConfig(resume_s=4.0, delegate_linger_s=3.0),
            wan_s=0.04,
            wan_loss=[0.0, 0.05, 0.2][seed % 3],
            lan_loss=[0.0, 0.02, 0.1][seed // 3 % 3],
            duplicate=0.02,
            jitter=0.5,
        )
        self.members: list[Endpoint] = []
        self.down: list[str] = []
        self.cut = False
        self.names = 0
        self.doings = [self.join, self.join, self.join, self.leave, self.kill]
        if cuts:
            self.doings += [self.split, self.mend, self.mend]
        if crashes:
            self.doings += [self.crash, self.revive, self.revive]

    def blow(self, doings: int) -> None:
        for _ in range(4):
            self.join()
        for _ in range(doings):
            self.net.run(self.net.random.choice([0.0, 0.001, 0.05, 0.3, 1.0]))
            self.net.random.choice(self.doings)()
            self.net.everything_owed_is_held()
        self.mend()
        while self.down:
            self.revive()
        while len(self.members) < 3:
            self.join()

    def join(self) -> None:
        hosts = [host for host in self.net.tree.hosts if host not in self.down]
        if not hosts or len(self.members) > 9:
            return
        host = self.net.random.choice(hosts)
        self.names += 1
        role = self.net.random.choice([Role.BOTH, Role.BOTH, Role.RECEIVE])
        member = self.net.join(f"{host}/m{self.names}", role=role)
        self.members.append(member)
        if role.sends:
            self.net.stream(member, every_s=self.net.random.choice([0.05, 0.1]), batch=2)

    def leave(self) -> None:
        if len(self.members) > 2:
            member = self.members.pop(self.net.random.randrange(len(self.members)))
            self.net.leave(member)
            self.net.programs.pop(member)

    def kill(self) -> None:
        if len(self.members) > 2:
            self.net.kill(self.members.pop(self.net.random.randrange(len(self.members))))

    def split(self) -> None:
        if not self.cut:
            self.cut = True
            lans = ["huji", "mit", "ntu"]
            one = self.net.random.choice([*lans, "huji.h1", "mit.h2"])
            rest = [each for each in ("huji", "mit", "ntu") if each != one]
            if "." in one:
                lan, _, host = one.partition(".")
                rest = [each for each in rest if each != lan] + [f"{lan}.h{3 - int(host[1])}"]
                self.net.cut([one], [*rest, lan, "world"], exact=[lan])
            else:
                self.net.cut([one], [*rest, "world"])

    def mend(self) -> None:
        if self.cut:
            self.cut = False
            self.net.heal()

    def crash(self) -> None:
        up = [host for host in self.net.tree.hosts if host not in self.down]
        if len(up) > 3:
            host = self.net.random.choice(up)
            self.down.append(host)
            self.members = [each for each in self.members if not each.startswith(f"{host}/")]
            self.net.crash(host)

    def revive(self) -> None:
        if self.down:
            self.net.restart(self.down.pop())

    def clear(self) -> None:
        """Everybody stops sending, and has everything; then everybody is heard once more."""
        self.net.run(6.0)
        for program in self.net.programs.values():
            program.silent = True
        self.net.run(12.0)
        self.net.everybody_has_everything(self.members)
        for member in self.members:
            if self.net.member(member).role.sends:
                self.net.send(member, 3)
        self.net.run(6.0)
        self.net.everybody_has_everything(self.members)
        for at in self.members:
            for sender in self.members:
                if at != sender and self.net.member(sender).role.sends:
                    assert self.net.programs[at].last[sender] == self.net.sent[sender]
            self.gaps_have_reasons(at)
        for member in self.members:
            sending = self.net.member(member).sending
            assert sending.stable == sending.last_seq, f"{member} is not rid of its messages"

    def gaps_have_reasons(self, at: Endpoint) -> None:
        lost: set[Endpoint] = set()
        for item in self.net.items(at):
            match item:
                case ev.Left(endpoint, "disconnected"):
                    lost.add(endpoint)
                case ev.Gap(endpoint):
                    assert endpoint in lost, f"{at}: {item} without a reason"
                case ev.Joined(endpoint):
                    lost.discard(endpoint)


@pytest.mark.spec(
    "X-004", "X-005", "X-006", "X-008", "X-120", "X-121", "X-122", "X-123", "X-124", "X-126", "X-127"
)
@pytest.mark.parametrize("seed", [*EVERY_SEED_THAT_EVER_FAILED, *range(9)])
def test_joins_and_leaves_never_cost_a_message(seed):
    storm = Storm(seed, cuts=False, crashes=False)
    storm.blow(25)
    storm.clear()
    assert not [item for at in storm.members for item in storm.net.items(at, ev.Gap)]


@pytest.mark.spec("X-005", "X-006", "X-056", "X-058", "X-059", "X-061", "X-126", "X-127")
@pytest.mark.parametrize("seed", [*EVERY_SEED_THAT_EVER_FAILED, *range(100, 109)])
def test_cuts_and_crashes_cost_only_what_was_said_apart(seed):
    storm = Storm(seed, cuts=True, crashes=True)
    storm.blow(30)
    storm.clear()
