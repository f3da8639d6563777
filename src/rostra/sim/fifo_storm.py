"""Storms over FIFO groups: members come, go and die, sites are cut off, delegates are killed, and up to a
fifth of all datagrams is lost; LANs use every kind of channel, and multicast comes and goes. Then all faults
are repaired.

    blow ── joins, leaves, kills, crashes, cuts ──▶ clear ── all members see and have everything ──▶ judge

While it blows, taps check the invariants of the cores (IX-5). After all repairs, when the streams have ended,
every member must see all members (IX-8), have all messages (IX-7), and retain none for others; over the whole
history `fifo-gap-free` must hold (IX-1..IX-3), gaps included (X-006), and in peace `fifo-live`. Messages have
from one byte to a mebibyte: most fit a datagram, and many do not.
"""

from random import Random
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from rostra.groups.attributes import Role
from rostra.impair.quality import LineQuality, Uniform
from rostra.names import ROOT, Domain, Endpoint, Group
from rostra.protocols.fifo.core import HOST
from rostra.protocols.fifo.events import Gap
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.links.config import LinkConfig
from rostra.sim.fifo_checkers import fifo_gap_free, fifo_live
from rostra.sim.history import DeliveryRecord
from rostra.sim.network import LinkModel
from rostra.sim.outcome import StormOutcome
from rostra.sim.programs import SimProgram
from rostra.sim.taps import Invariants, TurnWork, tapped
from rostra.sim.world import World

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

G: Final = Group("g", ROOT)
MEMBERS_MAX: Final = 10
CROWD_MAX: Final = 30
LARGE_CROWD: Final = 40
"""More than join in one turn, if the turn is long soon."""

CLEAR_S: Final = 20.0
"""So long after the last repair all must have caught up: links come back, then T_semi, T_peer, T_cut
and some rounds of repair (X-126)."""

LIVE_S: Final = 10.0
"""So long at most a stream stands still in peace. Most of it is for what was lost by the hundred before."""

SIZES: Final = (16, 16, 16, 200, 1_300, 3_000, 3_000, 20_000, 100_000)
CHURN: Final = ("join",) * 4 + ("leave", "leave", "kill", "say", "large", "pause", "resume", "back")
LAN_MODES: Final = ("auto", "auto", "auto", "multicast", "fanout", "reflect")
FAULTS: Final = (
    *("cut", "cut", "heal", "heal", "crash", "restart", "restart", "kill_delegate", "kill_delegate"),
    *("cut_data", "cut_control", "reset", "stop", "go_on", "lose"),
)


class FifoOutcome(StormOutcome, frozen=True):
    given: int = 0  # messages, over all receivers
    gaps: int = 0


class FifoStorm:
    """One storm, from its seed. `faults` is the share of deeds that break something."""

    EVERY_S: tuple[float, ...] = (0.02, 0.1, 0.1)
    BYTES_PER_S: int = 100_000  # at most, whatever the size of a stream's messages

    def __init__(
        self, seed: int, *, faults: float | None = None, journal: "SimJournal | None" = None
    ) -> None:
        luck = self.luck = Random(f"talk {seed}")  # not "fifo": old seeds stay the storms that they were
        self.sizes = Random(f"sizes {seed}")  # apart, so that storms of every size do the same
        self.channel = Random(f"channel {seed}")  # and however LANs are reached
        self.seed = seed
        self.faults = luck.choice((0.0, 0.15, 0.4)) if faults is None else faults
        sites = luck.choice((2, 3, 3, 4))
        wan = LineQuality(
            Uniform(0.02, luck.choice((0.03, 0.1, 0.3))),
            loss=luck.choice((0.0, 0.05, 0.2)),
            duplicate=luck.choice((0.0, 0.02)),
            reorder=luck.choice((0.0, 0.05)),
        )
        lan = LineQuality(Uniform(0.0001, 0.001), loss=luck.choice((0.0, 0.0, 0.02, 0.1)))
        control = LinkModel(replace(lan, loss=0.0), replace(wan, loss=min(wan.loss, 0.05)))
        self.world = World(
            seed,
            domains={f"s{n + 1}": 2 for n in range(sites)},
            links=control,
            data=LinkModel(lan, wan),
            lan=self.channel.choice(LAN_MODES),
            sealed=self.channel.random() < 0.7,
            timers=LinkConfig.lan().over_datagrams(),
            fifo=FifoConfig(
                resume_s=luck.choice((0.5, 4.0, 30.0)), delegate_linger_s=luck.choice((0.5, 5.0))
            ),
            watching=tapped(Invariants(every=16), TurnWork()),
            journal=journal,
        )
        self.sites = sorted(self.world.tree.clusters)
        self._named = 0

    def blow_over(self) -> FifoOutcome:
        self.world.settle()
        for _ in range(3):
            self._join()
        for _ in range(self.luck.choice((15, 30))):
            self.world.run(self.luck.choice((0.0, 0.001, 0.05, 0.3, 1.0)))
            self._change_multicast()
            deed = self.luck.choice(FAULTS if self.luck.random() < self.faults else CHURN)
            getattr(self, f"_{deed}")()
        return self._end()

    def _end(self) -> FifoOutcome:
        """Repair everything, wait, and check."""
        self._clear()
        history = self.world.history
        assert history is not None
        verdict = fifo_gap_free(history, complete=True)
        handed = [record.item for record in history if isinstance(record, DeliveryRecord)]
        gaps = sum(isinstance(item, Gap) for item in handed)
        given = sum(item.run.count for item in handed if hasattr(item, "run"))
        # A sender may have gone before a receiver was there: then there is nothing to judge.
        assert verdict.ok or not (verdict.broken or given), f"{verdict}: {verdict.where}"
        live = fifo_live(history, within_s=LIVE_S, until=self.world.now)
        assert not live.broken, str(live)
        return FifoOutcome(self.world.now, self.world.events, 1, (verdict,), given, gaps)

    # What members do

    def _talking(self, *states: str) -> list[SimProgram]:
        return [
            program
            for program in self.world.programs
            if program.alive
            and G in program.conversations
            and (not states or program.conversations[G].state in states)
        ]

    def _some(self, *states: str) -> SimProgram | None:
        found = self._talking(*states)
        return self.luck.choice(found) if found else None

    def _hosts(self) -> list[Domain]:
        return [host for host in self.world.tree.hosts if self.world.processes[host].node is not None]

    def _join(self, program: SimProgram | None = None) -> None:
        if len(self._talking("joining", "in")) >= MEMBERS_MAX or not self._hosts():
            return
        if program is None:
            self._named += 1
            program = self.world.program(self.luck.choice(self._hosts()), f"p{self._named}")
        role = self.luck.choice((Role.BOTH, Role.BOTH, Role.BOTH, Role.RECEIVE, Role.SEND))
        program.join_fifo(G, role=role)
        if role.sends:
            size = self.sizes.choice(SIZES)
            every_s = max(self.luck.choice(self.EVERY_S), size / self.BYTES_PER_S)
            program.stream(G, every_s, phase_s=self.luck.random() * 0.1, size=size)

    def _back(self) -> None:
        """A program that has left joins once more: the same endpoint, and its numbers go on."""
        if program := self._some("over"):
            self._join(program)

    def _leave(self) -> None:
        if program := self._some("joining", "in"):
            program.leave(G)

    def _kill(self) -> None:
        if program := self._some():
            self.world.kill(program)

    def _say(self) -> None:
        program = self._some("joining", "in")
        if program and program.conversation(G).role.sends:
            program.say(G, *(b"%d" % n for n in range(self.luck.choice((1, 30, 300)))))

    def _large(self) -> None:
        program = self._some("joining", "in")
        if program and program.conversation(G).role.sends:
            payload = self.luck.randbytes(self.luck.choice((1300, 20_000)))
            program.say(G, payload * self.sizes.choice((1, 1, 5, 50)))

    def _pause(self) -> None:
        if program := self._some("in"):
            program.pause(G)

    def _resume(self) -> None:
        for program in self._talking("joining", "in", "leaving"):
            program.resume(G)

    # What breaks

    def _site(self) -> Domain:
        return self.luck.choice(self.sites)

    def _part(self) -> str:
        site, host = self._site(), self.luck.choice(self.world.tree.hosts)
        other = self.luck.choice([each for each in self.sites if each != site])
        return self.luck.choice((site, host, f"{site} | {other}", f"{site} > {other}"))

    def _cut(self) -> None:
        self.world.cut(self._part())

    def _cut_data(self) -> None:
        self.world.cut(self._part(), only="data")

    def _cut_control(self) -> None:
        self.world.cut(self._part(), only="control")

    def _heal(self) -> None:
        self.world.heal()

    def _crash(self) -> None:
        self.world.crash(self.luck.choice(self.world.tree.hosts))

    def _restart(self) -> None:
        for path, process in self.world.processes.items():
            if process.node is None:
                self.world.restart(path)

    def _kill_delegate(self) -> None:
        site = self._site()
        self.luck.choice((self.world.crash, self.world.restart, self.world.restart))(site)

    def _change_multicast(self) -> None:
        """Now and then it ceases to reach a host, or to carry what that host sends, or does so again."""
        channels = self.world.channels
        if channels.mode == "auto" and self.channel.random() < 0.1:
            hosts = self.channel.choice((channels.deaf, channels.mute))
            hosts ^= {self.channel.choice(self.world.tree.hosts)}

    def _reset(self) -> None:
        a, b = self.luck.choice(self.world.tree.links())
        self.world.reset(f"link {a} | {b}")

    def _stop(self) -> None:
        self.world.pause(self.luck.choice(self.world.tree.servers))

    def _go_on(self) -> None:
        for path in self.world.tree.servers:
            self.world.resume(path)

    def _lose(self) -> None:
        self.world.lose(self.luck.choice((0.2, 0.5)), self._part(), only="data")

    # The sky clears

    def _clear(self) -> None:
        world = self.world
        world.heal()
        self._go_on()
        self._restart()
        self._resume()
        world.lose(0.05, only="data")  # never quite
        while len(self._talking("joining", "in")) < 2:
            self._join()
        world.run(CLEAR_S)
        members = self._talking("in")
        for program in members:
            program.hush(G)
        world.run(CLEAR_S / 2)
        for program in members:
            if program.conversation(G).role.sends:
                program.say(G, b"once more")
        world.run(CLEAR_S / 2)
        assert not self._talking("joining", "leaving"), "a program never got in, or never out"
        present = {program.address for program in members}
        for program in members:
            self._has_everything(program, present, members)
            self._keeps_nothing(program)

    def _has_everything(self, program: SimProgram, present: set[Endpoint], members: list[SimProgram]) -> None:
        conversation = program.conversation(G)
        seen = set(conversation.members)
        assert seen == present, f"{program} sees {sorted(seen)}, not {sorted(present)}"
        for other in members:
            said = other.conversation(G)
            if other is not program and said.role.sends and conversation.role.receives:
                last = conversation.last.get(other.address, 0)
                assert last == said.said, f"{program} has {other} up to {last} of {said.said}"

    def _keeps_nothing(self, program: SimProgram) -> None:
        """No sender retains a message: all receivers have all, and the senders know."""
        host = self.world.processes[program.host].stack[HOST]
        sending = host.members[G][program.address].sending
        assert sending.stable == sending.last_seq, f"{program} is not rid of its messages"


class CrowdStorm(FifoStorm):
    """Crowds: many programs of a host join in one turn, speak a little, and many die at once."""

    EVERY_S = (0.5, 1.0)

    def __init__(
        self, seed: int, *, faults: float | None = None, journal: "SimJournal | None" = None
    ) -> None:
        super().__init__(seed, faults=faults, journal=journal)
        self.large = Random(f"large {seed}")  # apart, so that storms without a large crowd do the same

    def blow_over(self) -> FifoOutcome:
        self.world.settle()
        for _ in range(6):
            self._crowd()
            self.world.run(self.luck.choice((0.0, 0.001, 0.05, 0.3, 1.0)))
            breaks = self.luck.random() < self.faults
            deed = self.luck.choice(FAULTS if breaks else ("kill_many", "leave", "say"))
            getattr(self, f"_{deed}")()
        return self._end()

    def _crowd(self) -> None:
        if not self._hosts() or len(self._talking("joining", "in")) >= CROWD_MAX:
            return
        host = self.luck.choice(self._hosts())
        self.world.gather_joins(host, True)
        size = self.luck.choice((2, 5, 12))
        for _ in range(LARGE_CROWD if self.large.random() < 0.1 else size):
            self._named += 1
            program = self.world.program(host, f"p{self._named}")
            program.join_fifo(G, role=self.luck.choice((Role.BOTH, Role.BOTH, Role.RECEIVE)))
            if program.conversation(G).role.sends and self.luck.random() < 0.3:
                program.stream(G, self.luck.choice(self.EVERY_S), size=16)
        self.world.gather_joins(host, False)

    def _kill_many(self) -> None:
        for _ in range(self.luck.choice((1, 3, 8))):
            self._kill()
