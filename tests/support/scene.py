"""A scene of the specification's reference world: random delays, taps on every server, comparisons at every
rest."""

from support.seeds import seeds

from benchmarks.tally import Tally
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.requests import AnyNotice
from rostra.sim import T_REF, LineQuality, LinkModel, SimProgram, Uniform, World
from rostra.sim.checkers import (
    both_sides_told,
    heals_alone,
    per_source_order,
    stable_truth,
    watch_complete,
)
from rostra.sim.history import NoticeRecord
from rostra.sim.rest import Comparison
from rostra.sim.taps import Invariants, OneCopy, Scopes, tapped

SEEDS = seeds(4)
"""Each acceptance scenario runs over this many random networks."""

TOLD_WITHIN_S = 6.5
"""Five seconds for the detector, and twice the longest path with one slow link on it."""

HEALS_WITHIN_S = 12.0
"""The longest wait between two attempts, another one if a packet was on its way, and a merge over slow
links."""

DELAYS = LinkModel(lan=LineQuality(Uniform(0.0002, 0.002)), wan=LineQuality(Uniform(0.001, 0.15)))


class Scene:
    def __init__(self, seed: int, *, links: LinkModel = DELAYS) -> None:
        self.tally = Tally()
        self.world = World(
            seed,
            T_REF,
            links=links,
            timers=LinkConfig.wan().over_datagrams(0.35),
            stagger=True,
            watching=tapped(Scopes(T_REF), OneCopy(), Invariants(), self.tally),
        )
        self.luck = self.world.luck
        self.comparison = Comparison(self.world)
        self._mark = 0
        self.rest()

    def rest(self) -> None:
        """Settle, and compare everything with the twin."""
        detect = self.world.timers.detect
        self.world.settle(quiet_s=detect.down_after_s + detect.heartbeat_interval_s)
        self.comparison.check()

    def end(self) -> None:
        """What the checkers say of the whole history."""
        history = self.world.history
        assert history is not None
        verdicts = (
            per_source_order(history),
            stable_truth(history),
            watch_complete(history),
            both_sides_told(history, bound_s=TOLD_WITHIN_S),
            heals_alone(history, bound_s=HEALS_WITHIN_S),
        )
        for verdict in verdicts:
            assert not verdict.broken, f"{verdict} {verdict.where}"

    def program(self, host: str, name: str = "app") -> SimProgram:
        return self.world.program(host, name)

    def member(self, host: str, group: str = "g", *, online: bool = True, name: str = "app") -> SimProgram:
        program = self.program(host, name)
        program.join(group, online=online)
        return program

    def mark(self) -> None:
        """From here on: what is told before does not count."""
        assert self.world.history is not None
        self._mark = len(self.world.history)

    def told(self, program: SimProgram) -> list[AnyNotice]:
        """What this program was told since the mark."""
        assert self.world.history is not None
        return [
            record.notice
            for record in self.world.history[self._mark :]
            if isinstance(record, NoticeRecord) and record.endpoint == program.endpoint
        ]

    def run(self, up_to_s: float) -> None:
        """Let some time pass, at random not more than this."""
        self.world.run(self.luck.random() * up_to_s)
