"""Storms: random churn, crashes and partitions, with calm phases in which everything is compared.

    blow ── joins, leaves, resolves, crashes, cuts, pauses, ... ──▶ calm ── settle, compare ──▶ blow ...

While it blows, taps check every step of every server for what may never happen. When it is calm, some
servers may still be down and some lines cut, but nothing changes any more: then every view, every answer
and every table must be what the twin says. A seed and a shape determine a storm; one that fails prints the
command that replays it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from rostra.errors import RostraError
from rostra.impair.quality import Uniform
from rostra.names import ROOT, Domain, Group, enclosing, inside
from rostra.protocols.front.config import WATCH_TICK_S, FrontConfig
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.local import AGENT
from rostra.sim.cast_storm import CastStorm
from rostra.sim.checkers import (
    CheckVerdict,
    per_source_order,
    stable_truth,
    watch_complete,
)
from rostra.sim.claim_storm import ClaimStorm, DiskStorm
from rostra.sim.failover_storm import FailoverStorm
from rostra.sim.fifo_storm import CrowdStorm, FifoStorm
from rostra.sim.hostile_storm import HostileStorm
from rostra.sim.kept_storm import KeptStorm
from rostra.sim.lane_storm import LaneStorm
from rostra.sim.monitored_storm import MonitoredStorm
from rostra.sim.move_storm import MoveStorm
from rostra.sim.network import WILD, LinkModel
from rostra.sim.order_storm import OrderStorm
from rostra.sim.outcome import StormOutcome
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.rest import PROBE, Comparison
from rostra.sim.set_storm import SetStorm
from rostra.sim.shapes import SHAPES, shape
from rostra.sim.spoken_storm import SpokenStorm
from rostra.sim.strong_storm import StrongStorm
from rostra.sim.taps import Invariants, OneCopy, Scopes, tapped
from rostra.sim.view_storm import LivingStorm, PrimaryStorm, SettledStorm, ViewStorm
from rostra.sim.world import World

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

_SLOWEST_S: Final = (0.002, 0.05, 0.3, 0.6)
"""How slow a line may be: each gets one of these, so that one path can be hundreds of times faster than the
next. With heartbeats every 0.2 s and 1 s of patience the slowest are just good enough while nothing is done
to them."""

AnyKind = FifoStorm | HostileStorm | ClaimStorm | ViewStorm | FailoverStorm | SetStorm

KINDS: Final[Mapping[str, Callable[..., AnyKind]]] = {
    "fifo": FifoStorm,
    "crowd": CrowdStorm,
    "hostile": HostileStorm,
    "claims": ClaimStorm,
    "disks": DiskStorm,
    "views": ViewStorm,
    "living": LivingStorm,
    "primary": PrimaryStorm,
    "spoken": SpokenStorm,
    "failover": FailoverStorm,
    "moves": MoveStorm,
    "casts": CastStorm,
    "sets": SetStorm,
    "order": OrderStorm,
    "strong": StrongStorm,
    "monitored": MonitoredStorm,
    "kept": KeptStorm,
    "lanes": LaneStorm,
    "settled": SettledStorm,
}
"""Storms with worlds of their own; all others are of relaxed membership, in a world of the shape named."""

STORMS: Final = (*SHAPES, *KINDS)
"""What a storm can blow through."""


class StormFailed(RostraError):
    """Something did not hold. The fix is the command that replays it."""

    code = "STORM_FAILED"


def replay_command(seed: int, shape_name: str) -> str:
    return f"rostra sim storm --seed {seed} --shape {shape_name}"


def storm(seed: int, shape_name: str, *, journal: str | Path | None = None) -> StormOutcome:
    """Run one storm from beginning to end; raise `StormFailed` if anything did not hold. With `journal`, its
    servers leave their journals in that directory, as those of world ``storm-<shape>-<seed>``."""
    written = None if journal is None else _journal(journal, f"{shape_name}-{seed}")
    run = _begin(seed, shape_name, written)
    try:
        return run.blow_over()
    except Exception as error:
        raise StormFailed(
            f"storm {seed} on {shape_name}, at {run.world.now:.3f} s: {type(error).__name__}: {error}",
            fix=f"replay it:  {replay_command(seed, shape_name)}",
        ) from error
    finally:
        run.world.close()


def _begin(seed: int, shape_name: str, journal: "SimJournal | None") -> "AnyKind | _Storm":
    if (kind := KINDS.get(shape_name)) is not None:
        return kind(seed, journal=journal)
    return _Storm(seed, shape_name, journal)


def _journal(directory: str | Path, storm: str) -> "SimJournal":
    # Late, because most storms keep no journal and Arrow takes long to load.
    from rostra.sim.journal import SimJournal

    return SimJournal(directory, world=f"storm-{storm}")


class Weather(Struct, frozen=True):
    """What kind of storm: the more it does at once, the more it finds; the less, the more often it can
    try."""

    timers: LinkConfig
    patient: bool  # wait, whenever it is calm, for all silence that began earlier to be noticed
    churn: tuple[str, ...]  # what programs do: names of methods of `_Storm`
    faults: tuple[str, ...]
    rounds: tuple[int, int]
    gusts: tuple[int, ...]  # things done between two calms
    pace_s: tuple[float, ...]  # the time from one to the next


_MEMBERS: Final = ("start", "start", "join", "join", "leave", "leave", "switch", "switch", "resolve", "kill")

GALE: Final = Weather(
    LinkConfig.lan(),
    patient=True,
    churn=(*_MEMBERS, "start", "watch", "everywhere", "send", "close", "deafen", "watch_life", "register"),
    faults=(
        *("crash", "crash", "restart", "restart", "restart", "pause", "resume", "cut", "cut", "heal"),
        *("reset", "hold", "release", "delay", "lose", "slow", "step_clock"),
    ),
    rounds=(2, 6),
    gusts=(4, 10, 25),
    pace_s=(0.01, 0.1, 0.5),
)
"""Everything that can go wrong does: whole worlds come apart and together again."""

RACE: Final = Weather(
    LinkConfig.wan(),
    patient=False,
    churn=(*("toggle",) * 10, "resolve", "watch", "kill"),
    faults=("restart_here", "restart_here", "restart", "reset"),
    rounds=(15, 30),
    gusts=(2, 3, 6),
    pace_s=(0.001, 0.05, 0.2),
)
"""A few programs that come and go, on a slow network: every order in which two messages can cross is
tried."""


class _Storm:
    def __init__(self, seed: int, shape_name: str, journal: "SimJournal | None" = None) -> None:
        self.seed = seed
        self.shape = shape_name
        luck = self.luck = Random(f"{shape_name} {seed}")
        front = Random(f"front {shape_name} {seed}")  # apart, so that storms do the same whatever it is
        self.weather = luck.choice((GALE, RACE))
        tree = shape(shape_name)
        self.world = World(
            seed,
            tree,
            links=self._network(),
            timers=self.weather.timers.over_datagrams(luck.choice((0.01, 0.25, 1.0))),
            wire=luck.random() < 0.1,
            stagger=luck.random() < 0.8,
            watching=tapped(Scopes(tree), OneCopy(), Invariants()),
            journal=journal,
            config=RelaxedConfig(watch_linger_s=front.choice((0.0, 0.5, 5.0))),
            front=FrontConfig(
                queue_records=front.choice((0, 0, 3, 4_097)), backlog_max=front.choice((2, 16, 1_024))
            ),
        )
        for line in self.world.lines():
            line.quality = replace(line.quality, delay=Uniform(0.0, luck.choice(_SLOWEST_S)))
        # Few places and few groups, so that what happens happens to the same ones at the same time.
        self.hosts = tuple(sorted(luck.sample(tree.hosts, min(len(tree.hosts), luck.randint(2, 5)))))
        self.names = ("chess",) if luck.random() < 0.6 else ("chess", "go")
        self.wide = luck.choice((0.5, 0.9, 1.0))
        self.eager = luck.choice((0.2, 0.5, 0.8))  # how many join and follow changes
        self.servers = tree.servers
        self.comparison = Comparison(self.world)
        self.registered: set[Group] = set()
        self.registrations: dict[Group, SimCall] = {}  # the last one of each
        self.cast: dict[Domain, SimProgram] = {}
        self.calls: list[SimCall] = []
        self.comparisons = 0
        self._named = 0

    def blow_over(self) -> StormOutcome:
        if self.luck.random() < 0.8:
            self._settle()
        for _ in range(self.luck.randint(*self.weather.rounds)):
            self._blow(self.luck.choice(self.weather.gusts))
            self._calm(everything=self.luck.random() < 0.4)
            self._compare()
        self._calm(everything=True)
        self._compare()
        self._permanent_names_are_known()
        for program in self._alive():
            program.close()
        self.world.run(self.world.config.watch_linger_s + WATCH_TICK_S)  # agents follow what was watched
        self._settle()
        self._compare()
        self._rows_are_gone()
        verdicts = self._verdicts()
        return StormOutcome(self.world.now, self.world.events, self.comparisons, verdicts)

    def _network(self) -> LinkModel:
        links = WILD
        if self.luck.random() < 0.3:
            links = links.losing(self.luck.choice((0.01, 0.05, 0.2)))
        if self.luck.random() < 0.3:
            links = links.duplicating(self.luck.choice((0.01, 0.2)))
        if self.luck.random() < 0.3:
            links = links.reordering(self.luck.choice((0.01, 0.2)))
        return links

    # Blowing

    def _blow(self, gusts: int) -> None:
        faults = self.luck.choice((0.0, 0.1, 0.3, 0.5))
        pace_s = self.luck.choice(self.weather.pace_s)
        for _ in range(gusts):
            deed = self.luck.choice(
                self.weather.faults if self.luck.random() < faults else self.weather.churn
            )
            getattr(self, f"_{deed}")()
            if self.luck.random() < 0.7:
                self.world.run(self.luck.expovariate(1.0 / pace_s))

    def _alive(self) -> list[SimProgram]:
        return [
            program
            for program in self.world.programs
            if program.alive and program.endpoint is not None and program.name != PROBE
        ]

    def _some(self) -> SimProgram | None:
        alive = self._alive()
        return self.luck.choice(alive) if alive else None

    def _start(self) -> None:
        running = [host for host in self.hosts if self.world.processes[host].node is not None]
        if running:
            self._named += 1
            self._join(self.world.program(self.luck.choice(running), f"p{self._named}"))

    def _join(self, program: SimProgram | None = None) -> None:
        program = program or self._some()
        if program is not None:
            self.calls.append(
                program.join(self._group_around(program.host), online=self.luck.random() < self.eager)
            )

    def _group_around(self, host: Domain) -> Group:
        scope = ROOT if self.luck.random() < self.wide else self.luck.choice(enclosing(host))
        return Group(self.luck.choice(self.names), scope)

    def _toggle(self) -> None:
        """One program for each place, which is now in the group, now not."""
        host = self.luck.choice(self.hosts)
        if self.world.processes[host].node is None:
            return
        program = self.cast.get(host)
        if program is None or not program.alive:
            self._named += 1
            program = self.cast[host] = self.world.program(host, f"p{self._named}")
        if not program.online:
            self._join(program)
        elif self.luck.random() < 0.5:
            self.calls.append(program.leave(self.luck.choice(sorted(program.online))))
        else:
            self._switch(program)

    def _leave(self) -> None:
        if (program := self._some()) and program.online:
            self.calls.append(program.leave(self.luck.choice(sorted(program.online))))

    def _switch(self, program: SimProgram | None = None) -> None:
        program = program or self._some()
        if program is not None and program.online:
            group = self.luck.choice(sorted(program.online))
            self.calls.append(
                program.go_offline(group) if program.online[group] else program.go_online(group)
            )

    def _watch(self) -> None:
        if program := self._some():
            if program.watching and self.luck.random() < 0.5:
                self.calls.append(program.unwatch(self.luck.choice(sorted(program.watching))))
            else:
                self.calls.append(program.watch(self._group_around(program.host)))

    def _resolve(self) -> None:
        if program := self._some():
            for _ in range(self.luck.choice((1, 1, 3))):
                self.calls.append(program.resolve(self._group_around(program.host)))

    def _everywhere(self) -> None:
        if program := self._some():
            self.calls.append(program.resolve_everywhere("chess"))

    def _send(self) -> None:
        if (program := self._some()) and (other := self._some()):
            self.calls.append(program.send(b"hello", other))

    def _kill(self) -> None:
        if program := self._some():
            self.world.kill(program)

    def _close(self) -> None:
        if program := self._some():
            self.calls.append(program.close())

    def _deafen(self) -> None:
        if program := self._some():
            (self.world.deafen if not program.deaf else self.world.undeafen)(program)

    def _watch_life(self) -> None:
        if (program := self._some()) and (other := self._some()):
            self.calls.append(program.watch_life(other))

    def _register(self) -> None:
        """Permanent names come and go; no program joins these, so that joins stay allowed."""
        group = Group("news", self.luck.choice(self.world.tree.domains))
        if self.world.processes[group.scope].works:
            known = group in self.registered
            (self.registered.discard if known else self.registered.add)(group)
            self.registrations[group] = (self.world.unregister if known else self.world.register)(group)

    def _crash(self) -> None:
        self.world.crash(self.luck.choice(self.servers))

    def _restart(self) -> None:
        down = [path for path in self.servers if self.world.processes[path].node is None]
        self.world.restart(self.luck.choice(down if down and self.luck.random() < 0.8 else self.servers))

    def _restart_here(self) -> None:
        """A server on the way between programs: the likelier one to matter."""
        self.world.restart(self.luck.choice(enclosing(self.luck.choice(self.hosts))))

    def _pause(self) -> None:
        self.world.pause(self.luck.choice(self.servers))

    def _resume(self) -> None:
        for path in self.servers:
            self.world.resume(path)

    def _cut(self) -> None:
        a, b = self.luck.choice(self.world.tree.links())
        if self.luck.random() < 0.5:
            a, b = b, a
        where = self.luck.choice((f"link {a} | {b}", f"link {a} | {b}", f"link {a} > {b}", a, f"{a} | {b}"))
        self.world.cut(where)

    def _heal(self) -> None:
        self.world.heal()

    def _reset(self) -> None:
        a, b = self.luck.choice(self.world.tree.links())
        away_s = self.luck.choice((0.0, 0.1, 0.5, 3.0) if self.weather.patient else (0.0, 0.1))
        self.world.reset(f"link {a} | {b}", away_s=away_s)

    def _hold(self) -> None:
        a, b = self.luck.choice(self.world.tree.links())
        self.world.hold(f"link {a} > {b}")

    def _release(self) -> None:
        self.world.release()

    def _delay(self) -> None:
        a, b = self.luck.choice(self.world.tree.links())
        self.world.delay(self.luck.choice((0.0, 0.3, 3.0)), f"link {a} > {b}")

    def _lose(self) -> None:
        a, b = self.luck.choice(self.world.tree.links())
        self.world.lose(self.luck.choice((0.0, 0.3, 0.9)), f"link {a} | {b}")

    def _slow(self) -> None:
        self.world.slow(self.luck.choice(self.servers), self.luck.choice((0.0, 0.01, 0.2)))

    def _step_clock(self) -> None:
        self.world.step_clock(self.luck.choice(self.servers), self.luck.choice((-30.0, -0.5, 0.5, 30.0)))

    # Calm

    def _calm(self, *, everything: bool) -> None:
        """End what cannot be judged, and some of what can; or all of it. Then wait until nothing changes."""
        world = self.world
        world.release()
        world.delay(0.0)
        world.lose(0.0)
        for path in self.servers:
            if world.processes[path].step_s:
                world.slow(path, 0.0)
        if everything or self.luck.random() < 0.5:
            world.heal()
        for path in self.servers:
            if everything or self.luck.random() < 0.5:
                world.resume(path)
            if world.processes[path].node is None and (everything or self.luck.random() < 0.5):
                world.restart(path)
        for program in self._alive():
            if program.deaf:
                world.undeafen(program)
        self._settle()

    def _settle(self) -> None:
        """Run until nothing is in flight; if a detector waits out a silence, wait for that too."""
        detect = self.world.timers.detect
        patience_s = detect.down_after_s + detect.heartbeat_interval_s
        self.world.settle(quiet_s=patience_s if self.weather.patient else 0.1)

    def _compare(self) -> None:
        self.comparison.check()
        self._every_call_was_answered()
        self._settle()
        self.comparisons += 1

    def _every_call_was_answered(self) -> None:
        """C-040: exactly one answer to each call, unless the caller died; two would have failed at once."""
        for call in self.calls:
            assert call.program is not None
            if call.program.alive and self.world.processes[call.program.host].works:
                assert call.result is not None, f"{call.program} was never answered {call.request}"

    def _rows_are_gone(self) -> None:
        """C-011: when all members have left, no server keeps anything of any group."""
        for domain in self.world.tree.domains:
            rows = self.comparison.twin.rows(domain, self.world.fronts.watched())
            assert not rows, f"{domain} should have no rows"

    def _permanent_names_are_known(self) -> None:
        """C-012: once all is well, every server inside a scope knows its permanent groups, and no other
        does."""
        for path, process in self.world.processes.items():
            registry = (process.stack.find(AGENT) or process.stack[SERVER]).registry
            for domain in self.world.tree.domains:
                group = Group("news", domain)
                last = self.registrations.get(group)
                if last is not None and last.result is None:
                    continue  # its server crashed before it answered: done or not
                truth = group in self.registered and inside(domain, path)
                assert registry.is_permanent(group) == truth, f"{path} is wrong about {group}"

    def _verdicts(self) -> tuple[CheckVerdict, ...]:
        history = self.world.history
        assert history is not None
        verdicts = (per_source_order(history), stable_truth(history), watch_complete(history))
        for verdict in verdicts:
            assert not verdict.broken, f"{verdict}: {verdict.where}"
        return verdicts
