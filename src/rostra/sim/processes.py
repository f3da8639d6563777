"""The processes of a simulated world and the nodes in them: steps, timers, disks, crashes, pauses.

    node.step(now, event) ──▶ outputs ──▶ Transmit: onto a line (`lines.py`)
                                          Cast, Transmit, Broadcast: to the data channel (`channels.py`)
                                          Tell, Answer, Deliver: to the front (`fronts.py`)
                                          SetTimer: back into the agenda
                                          Persist: to the simulated disk

All events of one instant are stepped first; then each node that was stepped is flushed once, as the runtime
does after draining its sockets.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from rostra.core import effects
from rostra.core.disk import KeepFree, RoomChanged
from rostra.core.effects import Event, LinkDown, LinkMoved, LinkUp, TimerFired, TimerKey
from rostra.core.logs import LogBatch, LogsSynced
from rostra.core.observer import TURN_ENDED, NodeBegan, Seen, with_observations
from rostra.core.stack import Stack
from rostra.names import Domain
from rostra.node import Node, Output
from rostra.observe.recording import FORMAT, Began, NodeLost, NodeMade
from rostra.protocols.agreed.casting import SendSetFrame
from rostra.protocols.election import events as election
from rostra.protocols.election.core import Ballot
from rostra.protocols.fifo import events as fifo_events
from rostra.protocols.front.config import WATCH_TICK_S
from rostra.protocols.links.events import (
    ChannelOpened,
    Transmit,
)
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.registry import Registry, RegistryRecord
from rostra.sim.channels import DatagramArrived
from rostra.sim.fronts import ProgramDid
from rostra.sim.history import ServerChanged
from rostra.sim.network import SimLine
from rostra.sim.spill_disk import SimSpillDisk
from rostra.stacks import FifoPlan, NodePlan, make_node, make_stack

if TYPE_CHECKING:
    from rostra.sim.world import World

WORLD_NAME: Final = "sim"
FULL: Final = "the disk is full"

SYNC_S: Final = 0.001
"""So long a batch of a log is on its way to the disk, and lost if its node crashes."""

NUMBERS_PER_LIFE: Final = 1_000
"""Incarnations are multiples of this, so that the number of an endpoint shows which life of its agent
opened it."""


class SimProcess:
    """What one server's node runs in: its life and death, its inbox, its clock, its timers, its disk."""

    __slots__ = (
        "batches",
        "busy_until",
        "disk",
        "full",
        "inbox",
        "incarnation",
        "life",
        "lines",
        "log_error",
        "node",
        "path",
        "paused",
        "paused_at",
        "shelf",
        "skew_s",
        "step_s",
        "timers",
        "waking",
        "written",
    )

    def __init__(self, path: Domain) -> None:
        self.path = path
        self.node: Node | None = None  # None while crashed
        self.life = 0
        self.incarnation = 0
        self.paused = False
        self.paused_at = 0.0
        self.inbox: deque[Event] | None = None  # None while events are handled as they come
        self.step_s = 0.0  # a fault: how long the handling of one event takes
        self.busy_until = 0.0
        self.waking = False
        self.skew_s = 0.0  # how far this server's clock is ahead of the world's
        self.timers: dict[TimerKey, int] = {}
        self.disk: list[Any] = []  # survives crashes
        self.batches: list[LogBatch] = []  # given to logs, and not written yet
        self.written = 0  # of those of this life
        self.log_error = ""  # a fault: nothing can be written to logs any more, and why
        self.full = False  # a fault: nothing but ballots finds room there
        self.shelf = SimSpillDisk()  # does not: backlogs of slow receivers
        self.lines: dict[Domain, SimLine] = {}

    @property
    def works(self) -> bool:
        return self.node is not None and not self.paused

    @property
    def stack(self) -> Stack:
        """None of its services is there while it is crashed."""
        return Stack() if self.node is None else self.node.stack


class SimNodes:
    """All of a world. `watching` is asked to wrap each new stack."""

    def __init__(self, world: "World", watching: Callable[[Domain, Stack], Stack] | None) -> None:
        self.processes: dict[Domain, SimProcess] = {path: SimProcess(path) for path in world.tree.servers}
        self.dirty: dict[SimProcess, None] = {}  # stepped, and not flushed yet
        self._world = world
        self._watching = watching
        self._inner: deque[tuple[SimProcess, Node, Event]] = deque()  # between the halves of replicas
        self._carrying_out = False
        self._armed = 0  # timers
        channels, fronts = world.channels, world.fronts
        acts: dict[type, Callable[[SimProcess, Any], None]] = {
            Transmit: world.network.transmit,
            effects.SetTimer: self._set_timer,
            effects.CancelTimer: self._cancel_timer,
            effects.Tell: fronts.tell,
            effects.Answer: fronts.answer,
            effects.Persist: self._persist,
            effects.Secure: self._persist,
            KeepFree: self._keep_free,
            LinkUp: self._link_changed,
            LinkDown: self._link_changed,
            LinkMoved: self._link_changed,
            fifo_events.Cast: channels.cast,
            fifo_events.Transmit: channels.transmit,
            fifo_events.Broadcast: channels.broadcast,
            SendSetFrame: world.casting.cast,
            fifo_events.Deliver: fronts.deliver,
            fifo_events.DeliverAll: fronts.deliver_all,
            fifo_events.Located: channels.located,
            fifo_events.Spill: self._spill,
            fifo_events.ReadSpilled: self._read_spilled,
            fifo_events.ForgetSpilled: self._forget_spilled,
            election.Lead: self._voter_ordered,
            election.Resign: self._voter_ordered,
            election.StateReceived: self._voter_ordered,
            election.FollowerLinked: self._voter_ordered,
            election.Committed: self._voter_ordered,
            election.StorageChanged: self._voter_ordered,
        }
        self._carry = with_observations(acts, self._carried_out)

    def step(self, process: SimProcess, event: Event) -> None:
        """Something happened to a server: it handles it now, or when it gets to it."""
        node = process.node
        if node is None:
            return
        if process.inbox is not None:
            process.inbox.append(event)
            self._wake(process)
            return
        if type(event) is DatagramArrived:
            self._world.channels.arrived(process, event)
            return
        if type(event) is ProgramDid:
            self._world.fronts.happened(process, event)
            return
        self.dirty[process] = None
        self.carry_out(process, event, node.step(self._world.now + process.skew_s, event))

    def flush(self) -> None:
        world = self._world
        touched = list(self.dirty)
        self.dirty.clear()
        is_seen = bool(world.observers or world.replicas.of)
        for process in touched:
            if process.node is not None:
                outputs = process.node.flush(world.now + process.skew_s)
                if outputs or is_seen:
                    self.carry_out(process, TURN_ENDED, outputs)
                if process.path in world.fronts.of:
                    world.fronts.keep_pace(process)

    def _clock(self, process: SimProcess) -> float:
        """What its own clock shows."""
        return self._world.now + process.skew_s

    def show(self, process: SimProcess, event: Event, seen: Sequence[Seen] = ()) -> None:
        for observer in self._world.observers:
            observer.saw(self._clock(process), process.path, event, seen)

    def carry_out(self, process: SimProcess, event: Event, outputs: list[Output]) -> None:
        if self._world.observers:
            self.show(process, event, outputs)
        voters = self._world.replicas
        if process.path in voters.leaders and (replica := voters.replica_of(process)) is not None:
            outputs = replica.server_ordered(outputs)
        carry = self._carry
        if self._carrying_out or not self._world.replicas.of:
            for output in outputs:
                carry[type(output)](process, output)
            return
        self._carrying_out = True
        try:
            for output in outputs:
                carry[type(output)](process, output)
            while self._inner:
                process, node, event = self._inner.popleft()
                if process.node is node:
                    self.step(process, event)
        finally:
            self._carrying_out = False

    def _voter_ordered(self, process: SimProcess, order: Any) -> None:
        replica = self._world.replicas.replica_of(process)
        assert replica is not None
        replica.voter_ordered(self._clock(process), order)

    def perform(self, process: SimProcess, output: Output) -> None:
        """An order that waited."""
        self._carry[type(output)](process, output)

    def give(self, process: SimProcess, event: Event) -> None:
        """What one half of a replica has for the other: now, and after what is being done."""
        if process.node is not None:
            self._inner.append((process, process.node, event))

    def _wake(self, process: SimProcess) -> None:
        """See to it that a server with a full inbox turns to it when it can."""
        if process.inbox and not process.paused and not process.waking:
            process.waking = True
            free_at = max(self._world.now, process.busy_until)
            self._world.agenda.at(free_at, self._catch_up, process, process.life)

    def _catch_up(self, process: SimProcess, life: int) -> None:
        if process.life != life or process.node is None:
            return
        process.waking = False
        if process.paused or process.inbox is None:
            return
        waiting, process.inbox = process.inbox, None
        while waiting:
            self.step(process, waiting.popleft())
            if process.step_s:
                process.busy_until = self._world.now + process.step_s
                break
        if waiting or process.step_s:
            process.inbox = waiting
            self._wake(process)

    def _set_timer(self, process: SimProcess, order: effects.SetTimer) -> None:
        self._armed += 1
        process.timers[order.timer] = self._armed
        due = self._world.now + order.after_s
        self._world.agenda.at(due, self._fire, process, (order.timer, self._armed))

    def _cancel_timer(self, process: SimProcess, order: effects.CancelTimer) -> None:
        process.timers.pop(order.timer, None)

    def _fire(self, process: SimProcess, armed: tuple[TimerKey, int]) -> None:
        timer, turn = armed
        if process.timers.get(timer) == turn:
            del process.timers[timer]
            self.step(process, TimerFired(timer))

    def _persist(self, process: SimProcess, order: effects.Persist | effects.Secure) -> None:
        record = order.record
        if type(order) is effects.Secure and process.path in self._world.replicas.leaders:
            return  # for its voter to store
        if isinstance(record, RegistryRecord):
            # A copy, which can wait for room. A server that a replica leads writes to that replica's disk.
            process = self.processes[self._world.replicas.leaders.get(process.path, process.path)]
        elif process.full:
            has_place = isinstance(record, Ballot) or (isinstance(record, LogBatch) and not record.entries)
            assert has_place, f"{process.path} stores {record} on a full disk"
        if isinstance(record, LogBatch):
            if not process.batches:
                self._world.agenda.at(self._world.now + SYNC_S, self._sync_logs, process, process.life)
            process.batches.append(record)
        else:
            process.disk.append(record)

    def _sync_logs(self, process: SimProcess, life: int) -> None:
        """All at once, as in the runtime; a crash before has lost them."""
        if process.node is None or process.life != life:
            return
        batches, process.batches = process.batches, []
        process.written += len(batches)
        failed: dict[str, str] = {}
        if process.log_error:
            failed = dict.fromkeys([each.log for each in batches], process.log_error)
        else:
            process.disk += batches
        self.step(process, LogsSynced(process.written, tuple(sorted(failed.items()))))

    def fail_logs(self, server: str, why: str) -> None:
        """From now on nothing can be written to logs there; empty: it can again."""
        self._world.process(server).log_error = why

    def _keep_free(self, process: SimProcess, order: KeepFree) -> None:
        """Simulated disks are full or not: nothing is reserved."""

    def fill_disk(self, server: str, *, full: bool = True) -> None:
        """No record finds room on its disk any more; or does again."""
        process = self._world.process(server)
        if process.full != full:
            process.full = full
            self._world.write(ServerChanged, process.path, "disk full" if full else "disk freed")
            self.inject(process, RoomChanged(FULL if full else ""))

    def _spill(self, process: SimProcess, order: fifo_events.Spill) -> None:
        self.inject(process, process.shelf.keep(order))

    def _read_spilled(self, process: SimProcess, order: fifo_events.ReadSpilled) -> None:
        self.inject(process, process.shelf.read(order))

    def _forget_spilled(self, process: SimProcess, order: fifo_events.ForgetSpilled) -> None:
        process.shelf.forget(order)

    def _carried_out(self, process: SimProcess, output: Output) -> None:
        self._world.show(process.path, output)

    def _link_changed(self, process: SimProcess, change: LinkUp | LinkDown | LinkMoved) -> None:
        self._world.busy()
        self._world.show(process.path, change)

    def inject(self, process: SimProcess, event: Event) -> None:
        """From outside the network: at once, or in its turn if the world is in the middle of something."""
        if self._world.agenda.running:
            self._world.agenda.at(self._world.now, self.step, process, event)
        else:
            self.step(process, event)

    def crash(self, server: str) -> None:
        """The process dies with everything in its memory; on a host, its programs die too."""
        if (leader := self._world.replicas.leaders.get(self._world.path(server))) is not None:
            self.crash(leader)
            return
        process = self._world.process(server)
        if process.node is None:
            return
        if process.path in self._world.replicas.living:
            self._world.replicas.stop(process.path)
        if (agent := process.stack.find(AGENT)) is not None:
            # The next life's numbers must be larger than every one that was handed out in this.
            handed_out = agent.next_number - process.incarnation
            process.incarnation += handed_out // NUMBERS_PER_LIFE * NUMBERS_PER_LIFE
        for program in self._world.programs:
            if program.host == process.path and program.alive:
                program.die()
        self._forget_process(process)
        self.show(process, NodeLost())
        self._world.write(ServerChanged, process.path, "crashed")

    def _forget_process(self, process: SimProcess) -> None:
        process.node = None
        process.inbox, process.paused, process.step_s = None, False, 0.0
        process.timers = {}
        process.batches, process.written = [], 0
        self._world.channels.end(process)
        self._world.fronts.end(process)
        self.dirty.pop(process, None)

    def drop(self, process: SimProcess) -> None:
        """The server of a domain, as neighbours know it, ends: the replica that led it leads no more."""
        self._forget_process(process)
        self.show(process, NodeLost())

    def let_lead(self, process: SimProcess, node: Node, leader: Domain) -> None:
        """A replica leads: its node is the domain's server from now on."""
        process.life += 1
        process.shelf = SimSpillDisk()
        process.skew_s = self.processes[leader].skew_s
        process.incarnation = node.incarnation
        process.node = node
        self._world.channels.begin(process, 0)
        if self._world.observers:
            began = Began(FORMAT, self.plan_of(process.path, node.incarnation))
            self.show(process, NodeMade(began, self._detail(process), leader))
        self.carry_out(process, NodeBegan(), node.start(self._clock(process)))
        for peer in process.lines:
            self.give(process, ChannelOpened(peer))

    def restart(self, server: str) -> None:
        """A new life with an empty memory and a larger incarnation; only the disk is as it was."""
        process = self._world.process(server)
        self.crash(server)
        self.start(process, None)

    def pause(self, server: str) -> None:
        """The process stands still: timers fire late, and what arrives waits."""
        for process in self._world.replicas.in_one(self._world.process(server)):
            if process.works:
                process.paused, process.paused_at = True, self._world.now
                process.inbox = process.inbox if process.inbox is not None else deque()
                self._world.write(ServerChanged, process.path, "paused")

    def resume(self, server: str) -> None:
        for process in self._world.replicas.in_one(self._world.process(server)):
            if process.paused:
                process.paused = False
                self._stood_still(process)
                if process.inbox:
                    self._wake(process)
                elif not process.step_s:
                    process.inbox = None
                self._world.write(ServerChanged, process.path, "continued")

    def _stood_still(self, process: SimProcess) -> None:
        """As a process notices: its own clock says so, before it looks at anything else (C-161)."""
        if process.path in self._world.replicas.living and process.node is not None:
            late_s = self._world.now - process.paused_at - process.node.tick_s
            if late_s > 0:
                assert process.inbox is not None, "it was paused"
                process.inbox.appendleft(election.StallDetected(late_s))

    def tell_time(self, process: SimProcess, life: int) -> None:
        """A replica is given the time as often as a process gives it."""
        if process.life == life and process.node is not None:
            at_ms = NUMBERS_PER_LIFE + round(1000 * self._clock(process))
            self.step(process, election.Clock(max(process.incarnation, at_ms)))
            self._world.agenda.at(self._world.now + WATCH_TICK_S, self.tell_time, process, life)

    def slow(self, server: str, step_s: float) -> None:
        """From now on the handling of each event takes this long; 0 ends it."""
        process = self._world.process(server)
        process.step_s = step_s
        if step_s:
            process.inbox = process.inbox if process.inbox is not None else deque()
        elif not process.paused and not process.inbox:
            process.inbox = None

    def step_clock(self, server: str, by_s: float) -> None:
        """The server's clock jumps; its timers, which count seconds, do not."""
        for process in self._world.replicas.in_one(self._world.process(server)):
            process.skew_s += by_s

    def start(self, process: SimProcess, _: None) -> None:
        if process.node is not None:
            return
        process.life += 1
        process.waking = False
        process.shelf = SimSpillDisk()
        incarnation = process.incarnation = process.incarnation + NUMBERS_PER_LIFE
        path = process.path
        if path in self._world.replicas.of:
            return  # until one of its replicas leads
        if (domain := self._world.replicas.domain_of(path)) is not None:
            node = self._world.replicas.start(process, domain)
            self.carry_out(process, NodeBegan(), node.start(self._clock(process)))
            for peer in process.lines:
                self.step(process, ChannelOpened(peer))
            self.step(process, election.Begun())
            self._look_for_room(process)
            self._world.agenda.at(self._world.now + WATCH_TICK_S, self.tell_time, process, process.life)
            return
        registry = Registry.of(process.disk)
        plan = self.plan_of(path, incarnation)
        stack = make_stack(plan, registry)
        if self._watching is not None:
            stack = self._watching(path, stack)
        process.node = make_node(plan, stack)
        self._world.channels.begin(process, incarnation)
        self._world.write(ServerChanged, path, "started")
        if self._world.observers:
            began = Began(
                FORMAT, plan, registry.copies(path), own=registry.own.all(), logs=registry.log_batches()
            )
            self.show(process, NodeMade(began, self._detail(process)))
        self.carry_out(process, NodeBegan(), process.node.start(self._clock(process)))
        for peer in process.lines:
            self.step(process, ChannelOpened(peer))
        self._look_for_room(process)

    def _look_for_room(self, process: SimProcess) -> None:
        if process.full:
            self.step(process, RoomChanged(FULL))

    def _detail(self, process: SimProcess) -> dict[str, Any]:
        world = self._world
        return {"links": world.timers, "resolve": world.config, "neighbours": sorted(process.lines)}

    def plan_of(self, path: Domain, incarnation: int) -> NodePlan:
        is_agent, cluster = path not in self._world.tree.children, path in self._world.tree.clusters
        fifo = None
        if self._world.fifo is not None and (is_agent or cluster):
            fifo = FifoPlan(self._world.fifo)
            if cluster:
                address = self._world.channels.address(path, incarnation)
                luck = self._world.luck_of(path, incarnation)
                fifo = FifoPlan(self._world.fifo, luck=luck, address=address)
        return NodePlan(
            WORLD_NAME,
            path,
            is_agent,
            cluster,
            incarnation,
            self._world.timers,
            self._world.config,
            self._world.tree.siblings(path),
            replicated=tuple(self._world.replicas.of),
            fifo=fifo,
            agreed=self._world.agreed,
            access=self._world.access,
            led=self._world.led,
            scopes=self._world.scopes,
        )
