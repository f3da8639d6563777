"""A process: one or several nodes on a real machine, stepped in turns of the event loop.

    sockets, timers ──▶ step the nodes, as input arrives            ┐
                        exchange packets between nodes of this      │ one turn
                        process until none is left                  │
                        write once to every peer and every program  ┘

All input that is ready when the loop wakes up is stepped first; only then are the nodes flushed, and each
peer is written to once. Under load a turn grows and its costs are shared by more messages; without load a
turn is one message long and nothing waits. All events of one turn have the same time, and no two turns do.

Turns are short: once a turn has used `TURN_CPU_S`, work for programs that can wait (`at_end_of_turn`) and the
rest of the writes go on in the next one, and so do packets, datagrams and timers that come after that.
Between two turns the loop reads its sockets, so links and pings never wait for a crowd.

Nodes of one process exchange the same packets as nodes far apart, in the same turn and without bytes (C-017).
"""

import asyncio
import hmac
import resource
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from rostra.config import WorldConfig
from rostra.core.disk import KeepFree, RoomChanged
from rostra.core.effects import (
    Answer,
    CancelTimer,
    Effect,
    Event,
    LinkDown,
    LinkMoved,
    LinkUp,
    Persist,
    Secure,
    SetTimer,
    Tell,
    TimerFired,
    TimerKey,
)
from rostra.core.logs import LogBatch
from rostra.core.observer import (
    BESIDE,
    TURN_ENDED,
    DiskRefused,
    NeighbourAdded,
    NeighbourRemoved,
    NodeBegan,
    NodeDropped,
    NodeEnding,
    Observer,
    Reporters,
    Seen,
    with_observations,
)
from rostra.core.stack import Stack
from rostra.errors import RostraError, StoreFailed
from rostra.names import Domain, dials, parent
from rostra.node import GO_ON, TICK, Node, Output
from rostra.observe.log import EventLog
from rostra.observe.node_log import NodeLog
from rostra.observe.recording import Began
from rostra.protocols.election.core import Ballot
from rostra.protocols.election.events import (
    Begun,
    Clock,
    Committed,
    FollowerLinked,
    Lead,
    Resign,
    StallDetected,
    StateReceived,
    StorageChanged,
)
from rostra.protocols.fifo.events import (
    Deliver,
    DeliverAll,
    ForgetSpilled,
    Located,
    ReadSpilled,
    Spill,
    Spilled,
    SpilledRead,
)
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.front.config import WATCH_TICK_S
from rostra.protocols.front.port import Writes
from rostra.protocols.links.core import Link
from rostra.protocols.links.events import (
    Awaited,
    ChannelClosed,
    ChannelOpened,
    Forgotten,
    PacketArrived,
    Transmit,
)
from rostra.protocols.relaxed.registry import RegistryRecord
from rostra.replica import Replica
from rostra.runtime.arenas import MB_EACH
from rostra.runtime.blame import Blame
from rostra.runtime.data import DataChannel
from rostra.runtime.inspect import InspectPatience, document
from rostra.runtime.lag import Lag
from rostra.runtime.link_acts import LinkActs
from rostra.runtime.links import LinkDialler, LinkEnd
from rostra.runtime.listener import Listener
from rostra.runtime.programs import Programs
from rostra.runtime.spill import SpillDisk
from rostra.runtime.store import DiskStore
from rostra.transport.connection import Connection, HalfReceived
from rostra.wire import Encoder

DRAIN_TIMEOUT_S: Final = 5.0
"""How long a clean shutdown waits until neighbours have acknowledged our last messages."""

DRAIN_LOOK_S: Final = 0.01

STRANGERS_BYTES_MAX: Final = 8 << 20
NEIGHBOURS_BYTES_MAX: Final = 256 << 20
PROGRAMS_BYTES_MAX: Final = 128 << 20
"""What all of them together may have begun to send us and not finished. Lowering them: neighbours that tell
us all they have at once, or programs that send large messages at once, are cut off; strangers have no such
need."""

DISK_AGAIN_S: Final = 1.0
"""How often a disk that had no room is tried again."""

TURN_CPU_S: Final = 0.01
"""Processor time after which a turn takes on no more work that can wait; the last piece may take as long.
Raising it: fewer and longer turns under load; links and pings wait for longer."""

WRITES_AT_ONCE: Final = 16
"""Programs that are written to between two looks at the time."""


class HostedNode:
    """A node of this process, and what it needs of the machine."""

    def __init__(self, node: Node, store: DiskStore, *, is_agent: bool, began: Began | None = None) -> None:
        self.node = node
        self.began = began  # how it was made; none of a server that a replica leads, whose voter was
        self.path = node.path
        self.store = store
        self.is_agent = is_agent
        self.channels: dict[Domain, LinkEnd] = {}
        self.timers: dict[TimerKey, asyncio.TimerHandle] = {}
        self.trouble: dict[Domain, str] = {}  # why a peer that we call cannot be reached, while that is so
        self.unwritten: dict[Domain, RegistryRecord] = {}  # by scope: what the disk had no room for yet
        self.replica: Replica | None = None  # of a voter and of the server that it leads: both belong to it
        self.lacks_room = False  # on its disk, as the node knows it
        self.gone = False  # another replica leads: nothing happens to this node any more
        self.observers: tuple[Observer, ...] = ()  # of every step

    @property
    def is_voter(self) -> bool:
        return self.replica is not None and self.node is self.replica.voter

    @property
    def stack(self) -> Stack:
        return self.node.stack


class Process:
    def __init__(self, world: WorldConfig, record: EventLog) -> None:
        self.world = world
        self.record = record
        self.loop = asyncio.get_running_loop()
        self.encoder = Encoder(world.name)
        self.patience = InspectPatience(self)
        self.fifo_config = FifoConfig()
        self.arena_bytes = MB_EACH << 20  # of memory shared with programs, for each group; 0: none
        self.data = DataChannel(self)
        self.hosted_nodes: dict[Domain, HostedNode] = {}
        self.blame = Blame(self)
        self.agent: HostedNode | None = None  # if there is one
        self.programs: dict[Domain, Programs] = {}
        self._disks: dict[Domain, SpillDisk] = {}  # for backlogs, of the clusters served here
        self.turn = 0
        self.now = self.clock()
        self.failed: asyncio.Future[BaseException] = self.loop.create_future()
        self.lag = Lag(self.loop, record, self.cpu_clock)
        self.listeners: list[Listener] = []
        self.half_received_of_strangers = HalfReceived(STRANGERS_BYTES_MAX)  # and of links that are not up
        self.half_received_of_neighbours = HalfReceived(NEIGHBOURS_BYTES_MAX)
        self.half_received_of_programs = HalfReceived(PROGRAMS_BYTES_MAX)
        self.files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self.http: str | None = None  # where health, metrics and the dashboard are
        self.secret = secrets.token_urlsafe()  # what the dashboard of this process alone shows to it
        self._voters: list[HostedNode] = []
        self._diallers: dict[tuple[Domain, Domain], LinkDialler] = {}  # by node and peer
        self._in_turn = False
        self._timers_turn = 0  # the last one in which a timer fired
        self._stepped: dict[HostedNode, None] = {}  # may have something to say to their neighbours
        self._inner: deque[tuple[HostedNode, Event]] = deque()  # between nodes of this process
        self._writers: list[Writes] = []
        self._waiting: deque[Callable[[], None]] = deque()  # work for programs, for when this turn ends
        self._resume: list[Connection] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self.ended: str | None = None  # why, after a clean end
        self._disks_due = self.now  # when to try again what a disk did not take
        self._paced: list[tuple[Programs, Link]] = []  # an agent's programs wait for its link to the domain
        self.node_log = NodeLog(record)
        self._reporters = Reporters()
        self._reporters.add(self.node_log)
        links = LinkActs(self)
        acts: dict[type, Callable[[HostedNode, Any], None]] = {
            Tell: self._tell,
            Answer: self._answer,
            Transmit: self._transmit,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Persist: self._persist,
            Secure: self._persist,
            KeepFree: self._keep_free,
            LinkUp: links.up,
            LinkMoved: links.up,
            LinkDown: links.down,
            Awaited: links.awaited,
            Forgotten: links.forgotten,
            Deliver: self._deliver,
            DeliverAll: self._deliver_all,
            **self.data.acts,
            Located: self._located,
            Spill: self._spill,
            ReadSpilled: self._read_spilled,
            ForgetSpilled: self._forget_spilled,
        }
        voters = (Lead, Resign, StateReceived, FollowerLinked, Committed, StorageChanged)
        acts.update(dict.fromkeys(voters, self._voter_ordered))
        self._do = with_observations(acts, self.carried_out)
        # What others see, and what may so rest on records of this turn. `_transmit` looks by itself: between
        # nodes of this process nothing is seen.
        self._may_rest = frozenset(acts) - {Persist, Secure, SetTimer, CancelTimer, Transmit}
        self._unsynced: dict[HostedNode, None] = {}
        self._logging: dict[HostedNode, None] = {}  # who have written to logs in this turn

    def clock(self) -> float:
        """The event loop's clock; virtual in tests."""
        return time.monotonic()

    def wall_clock_ms(self) -> int:
        """Since 1970: what numbers of other nodes are compared with."""
        return time.time_ns() // 1_000_000

    def wall_clock_us(self) -> int:
        """Since 1970, when this turn began."""
        return time.time_ns() // 1000 - round((self.clock() - self.now) * 1e6)

    # The nodes

    def host(self, hosted: HostedNode) -> None:
        self.hosted_nodes[hosted.path] = hosted
        self.blame.remember(hosted)
        self.programs[hosted.path] = programs = self._programs_of(hosted)
        if hosted.is_voter:
            self._voters.append(hosted)
        if hosted.is_agent:
            self.agent = hosted
            self._paced.append((programs, hosted.node.links[parent(hosted.path)]))

    def knows_secret(self, shown: str) -> bool:
        """Is this caller a part of this very process?"""
        return hmac.compare_digest(shown.encode(), self.secret.encode())

    def keep_backlogs(self, cluster: Domain, state: Path | None, bytes_max: int) -> None:
        """What slow receivers of this cluster have not taken may be kept there."""
        hosted = self.hosted_nodes[cluster]

        def answer(event: Spilled | SpilledRead) -> None:
            if not self._stopped:
                self.step(hosted, event)

        self._disks[cluster] = SpillDisk(state, cluster, self.record, answer, bytes_max)

    def close_disks(self) -> None:
        for disk in self._disks.values():
            disk.close()

    def _programs_of(self, hosted: HostedNode) -> Programs:
        return Programs(self, hosted)

    def start(self) -> None:
        """Set the nodes going: timers, links inside the process, calls to the neighbours outside."""
        self._begin_turn()
        for hosted in self.hosted_nodes.values():
            self._start(hosted)
        for hosted in list(self.hosted_nodes.values()):
            for other in self.hosted_nodes:
                if other != hosted.path and self.accepts(hosted, other):
                    self.step(hosted, ChannelOpened(other))
            for peer in list(hosted.node.links):
                self._dial(hosted, peer)
        for voter in self._voters:
            self.step(voter, Begun())
        for hosted in list(self.hosted_nodes.values()):
            self._look_for_room(hosted)
        self.spawn(self._watch_programs())
        self.lag.start()

    def _start(self, hosted: HostedNode) -> None:
        self._carry_out(hosted, NodeBegan(), hosted.node.start(self.now))
        born = hosted.node.incarnation
        self.record.note("node_started", node=hosted.path, world=self.world.name, incarnation=born)

    # Replicas: a node that begins and ends while the others run

    def let_lead(self, hosted: HostedNode) -> None:
        """From now on this replica is the server of its domain. It was hosted just now."""
        self._start(hosted)
        for other in list(self.hosted_nodes.values()):
            if other is not hosted and self.accepts(hosted, other.path):
                self.step_inside(hosted, ChannelOpened(other.path))
                self.step_inside(other, ChannelOpened(hosted.path))
        for peer in list(hosted.node.links):
            self._dial(hosted, peer)

    def let_go(self, hosted: HostedNode, why: str) -> None:
        """Another replica is the server of that domain. Nothing more is sent by this one."""
        path = hosted.path
        hosted.gone = True
        del self.hosted_nodes[path]
        self._stepped.pop(hosted, None)
        for timer in hosted.timers.values():
            timer.cancel()
        for key in [key for key in self._diallers if key[0] == path]:
            self._diallers.pop(key).stop()
        for channel in list(hosted.channels.values()):
            channel.connection.abort(why)
        for other in list(self.hosted_nodes.values()):
            if path in other.node.links and path not in other.channels:
                self.step_inside(other, ChannelClosed(path, why))
        self.programs.pop(path).say_goodbye(why)
        if (disk := self._disks.pop(path, None)) is not None:
            disk.close()
        self.report(hosted, NodeDropped(why))

    def _voter_ordered(self, hosted: HostedNode, order: Any) -> None:
        assert hosted.replica is not None
        hosted.replica.voter_ordered(self.now, order)

    def take_over(self, world: WorldConfig) -> None:
        """The world file was read again: neighbours are elsewhere, new, or gone (C-181)."""
        self.world = world
        self._begin_turn()
        for (_, peer), dialler in self._diallers.items():
            dialler.addresses = world.addresses(peer) or dialler.addresses
        for hosted in self.hosted_nodes.values():
            if not hosted.is_agent and not hosted.is_voter:
                around = (*world.above(hosted.path), *world.siblings(hosted.path))
                gone = [each for each in hosted.node.links if not world.may_be_below(hosted.path, each)]
                for peer in sorted(set(gone).difference(around)):
                    self._part(hosted, peer)
                for peer in around:
                    is_new = hosted.node.meet(peer)
                    self._show(hosted, NeighbourAdded(peer))
                    if is_new:
                        self._dial(hosted, peer)

    def _part(self, hosted: HostedNode, peer: Domain) -> None:
        if (dialler := self._diallers.pop((hosted.path, peer), None)) is not None:
            dialler.stop()
        self._carry_out(hosted, NeighbourRemoved(peer), hosted.node.part(self.now, peer))
        if (end := hosted.channels.get(peer)) is not None:
            end.part()

    def _dial(self, hosted: HostedNode, peer: Domain) -> None:
        addresses = self.world.addresses(peer)
        may_be_elsewhere = peer not in self.hosted_nodes or len(addresses) > 1
        if addresses and may_be_elsewhere and dials(hosted.path, peer):
            dialler = LinkDialler(self, hosted, peer, addresses)
            self._diallers[hosted.path, peer] = dialler
            dialler.task = self.spawn(dialler.run())

    @property
    def is_over(self) -> bool:
        return self._stopped

    @property
    def is_draining(self) -> bool:
        return any(programs.front.draining for programs in self.programs.values())

    def accepts(self, hosted: HostedNode, path: Domain) -> bool:
        """Is a server of this path a neighbour of that node?"""
        if path in hosted.node.links:
            return True
        return not hosted.is_agent and self.world.may_be_below(hosted.path, path)

    def default_node(self) -> HostedNode:
        """The node for a program that names none: the agent, or the lowest domain server."""
        return max(
            self.hosted_nodes.values(),
            key=lambda hosted: (hosted.is_agent, not hosted.is_voter, hosted.path.count(".")),
        )

    @property
    def connections(self) -> int:
        """How many there are, of all kinds."""
        return (
            sum(len(listener.pending) + len(listener.rejected) for listener in self.listeners)
            + sum(len(programs.front.by_number) for programs in self.programs.values())
            + sum(len(hosted.channels) for hosted in self.hosted_nodes.values())
        )

    def inspect(self, hosted: HostedNode, core: bytes, after: int) -> bytes:
        return msgspec.json.encode(document(self, hosted, core, after), enc_hook=str)

    # A turn

    def step(self, hosted: HostedNode, event: Event) -> None:
        if not self._in_turn:
            self._begin_turn()
        self._stepped[hosted] = None
        try:
            self._take(hosted, event)
        except Exception as error:
            self._fail(error)
            raise

    def step_inside(self, hosted: HostedNode, event: Event) -> None:
        """Step a node of this process with the output of another: in this turn, after the present step."""
        self._begin_turn()
        self._stepped[hosted] = None
        self._inner.append((hosted, event))

    def write_at_end_of_turn(self, writer: Writes) -> None:
        if not self._in_turn:
            self._begin_turn()
        self._writers.append(writer)

    def at_end_of_turn(self, work: Callable[[], None]) -> None:
        """Do this in this turn; or, if it is long already, in one of the next."""
        if not self._in_turn:
            self._begin_turn()
        self._waiting.append(work)

    def cpu_clock(self) -> float:
        """Our own processor time; nothing where time is pretended."""
        return time.thread_time()

    @property
    def turn_is_long(self) -> bool:
        """Has it used its share of the processor? That costs a system call to ask: the clock first."""
        looked = self._in_turn and self.clock() - self.now > TURN_CPU_S
        return looked and self.cpu_clock() - self.lag.cpu_s > TURN_CPU_S

    def write_next_turn(self, writer: Writes) -> bool:
        """As the next turn ends, if that begins at once because a connection had its share of this one and
        has more input. Else now: False."""
        if not self._resume:
            return False
        if not self._writers:
            self.loop.call_soon(self._begin_turn)  # even if that connection ends
        self._writers.append(writer)
        return True

    def resume_next_turn(self, connection: Connection) -> None:
        self._begin_turn()
        connection.pause_reading()
        self._resume.append(connection)

    def hanging_up(self, connection: Connection, error: RostraError) -> None:
        self.record.count("refused", error.code)
        who = connection.role.name or connection.peer.rpartition(":")[0] or connection.peer
        kind = f"{who} {error.code}"
        self.record.note_rarely(
            kind, "refused", who=who, peer=connection.peer, code=error.code, because=error.what
        )

    def _begin_turn(self) -> None:
        if not self._in_turn:
            self._in_turn = True
            self.turn += 1
            before, self.now = self.now, max(self.clock(), self.now + 1e-9)
            self.loop.call_soon(self._end_turn)
            for voter in self._voters:
                # Its node ticks, so turns are never far apart unless the whole process stood still. A leader
                # must then not act before it has checked that it still leads (C-161).
                if self.now - before > voter.node.tick_s:
                    self._stepped[voter] = None
                    self._take(voter, StallDetected(self.now - before - voter.node.tick_s))

    def _end_turn(self) -> None:
        try:
            if self._waiting:
                self._work()
            self._flush()
            if self._unsynced:
                self._sync()
            if self._writers:
                self._write()
        except Exception as error:
            self._fail(error)
            raise
        finally:
            self.encoder.turn_ends()
            self._in_turn = False
            self.lag.turn_ended(self.now, self.clock())
        if self._waiting or self._writers:
            self.loop.call_soon(self._begin_turn)
        for programs, link in self._paced:
            if (backlog := link.backlog) or programs.front.held_back:
                programs.front.keep_pace(backlog)
        if self._resume:
            resume, self._resume = self._resume, []
            for connection in resume:
                connection.resume_reading()

    def _work(self) -> None:
        """What can wait, as much as fits; at least one piece of it."""
        while self._waiting:
            self._waiting.popleft()()
            if self.turn_is_long:
                break

    def _write(self) -> None:
        writers, self._writers = self._writers, []
        for begin in range(0, len(writers), WRITES_AT_ONCE):
            if begin and self.turn_is_long:
                self._writers = [*writers[begin:], *self._writers]
                break
            for writer in writers[begin : begin + WRITES_AT_ONCE]:
                writer.write()

    def _flush(self) -> None:
        """Exchange packets between the nodes of this process until none is left."""
        while self._stepped or self._logging:
            stepped, self._stepped = self._stepped, {}
            for hosted in stepped:
                if hosted.gone:
                    continue
                outputs = hosted.node.flush(self.now)
                if outputs or hosted.observers:
                    self._carry_out(hosted, TURN_ENDED, outputs)
            self.step_inner()
            logging, self._logging = self._logging, {}
            for hosted in logging:
                self.step(hosted, hosted.store.sync_logs())

    def step_inner(self) -> None:
        """Step what was put off until the present step had ended."""
        while self._inner:
            self.step(*self._inner.popleft())

    def _take(self, hosted: HostedNode, event: Event) -> None:
        if hosted.gone:
            return
        if self.blame.until and self.blame.holds_off(hosted.path, event):
            self.record.count("messages_held_off")
            return
        outputs: list[Output] | None = None
        try:
            outputs = hosted.node.step(self.now, event)
            self._carry_out(hosted, event, outputs)
        except Exception as error:
            if outputs is None:
                self._show(hosted, event)  # so that its recording has what it failed at
            self.blame.failed(hosted, event, error)
            raise

    def _show(self, hosted: HostedNode, event: Event, effects: Sequence[Seen] = ()) -> None:
        for observer in hosted.observers:
            observer.saw(self.now, hosted.path, event, effects)

    def _carry_out(self, hosted: HostedNode, event: Event, outputs: Sequence[Output]) -> None:
        if hosted.observers:
            self._show(hosted, event, outputs)
        if hosted.replica is not None and not hosted.is_voter:
            outputs = hosted.replica.server_ordered(outputs)
        do = self._do
        for output in outputs:
            if self._unsynced and type(output) in self._may_rest:
                self._sync()
            do[type(output)](hosted, output)

    def perform(self, hosted: HostedNode, output: Output) -> None:
        """An order that waited."""
        if self._unsynced and type(output) in self._may_rest:
            self._sync()
        self._do[type(output)](hosted, output)

    def _sync(self) -> None:
        """Records of this turn, of all nodes here: now they are on disk."""
        unsynced, self._unsynced = self._unsynced, {}
        for hosted in unsynced:
            hosted.store.sync()

    def carried_out(self, hosted: HostedNode, output: Output) -> None:
        """Report an effect when its turn in the step has come."""
        for show in self._reporters.by_kind.get(type(output), ()):
            show(self.now, hosted.path, output)

    def report(self, hosted: HostedNode, what: Effect) -> None:
        """Show observers something that happened outside the steps of this node."""
        self._reporters.show(self.now, hosted.path, what)
        self._show(hosted, BESIDE, (what,))

    # Orders

    def _tell(self, hosted: HostedNode, tell: Tell) -> None:
        self.programs[hosted.path].tell(tell)

    def _answer(self, hosted: HostedNode, answer: Answer) -> None:
        self.programs[hosted.path].answer(answer)

    def _deliver(self, hosted: HostedNode, deliver: Deliver) -> None:
        self.programs[hosted.path].deliver(deliver)

    def _deliver_all(self, hosted: HostedNode, deliver: DeliverAll) -> None:
        self.programs[hosted.path].deliver_all(deliver)

    def _located(self, hosted: HostedNode, order: Located) -> None:
        self.data.located(order)

    def _spill(self, hosted: HostedNode, order: Spill) -> None:
        self._disks[hosted.path].keep(order)

    def _read_spilled(self, hosted: HostedNode, order: ReadSpilled) -> None:
        self._disks[hosted.path].read(order)

    def _forget_spilled(self, hosted: HostedNode, order: ForgetSpilled) -> None:
        self._disks[hosted.path].forget(order)

    def _transmit(self, hosted: HostedNode, transmit: Transmit) -> None:
        neighbour = self.hosted_nodes.get(transmit.to)
        if neighbour is not None:
            self._inner.append((neighbour, PacketArrived(hosted.path, transmit.packet)))
            return
        channel = hosted.channels.get(transmit.to)
        if self._unsynced:
            self._sync()
        if channel is not None:
            channel.send(transmit.packet)
        else:
            self.record.count("packets_without_channel")

    def _set_timer(self, hosted: HostedNode, order: SetTimer) -> None:
        if (running := hosted.timers.pop(order.timer, None)) is not None:
            running.cancel()
        if order.timer == GO_ON:
            self.at_end_of_turn(lambda: self.step(hosted, TimerFired(GO_ON)))
            return
        timer, fire = order.timer, self._timer_fired
        hosted.timers[timer] = self.loop.call_later(order.after_s, fire, hosted, timer)

    def _cancel_timer(self, hosted: HostedNode, order: CancelTimer) -> None:
        if (running := hosted.timers.pop(order.timer, None)) is not None:
            running.cancel()

    def _timer_fired(self, hosted: HostedNode, timer: TimerKey) -> None:
        """Streams of a crowd that died end by as many timers at once; a turn takes one of them at least."""
        if timer != TICK and self._in_turn and self._timers_turn == self.turn and self.turn_is_long:
            hosted.timers[timer] = self.loop.call_later(0.0, self._timer_fired, hosted, timer)
            return
        hosted.timers.pop(timer, None)
        if not self._stopped:
            self.step(hosted, TimerFired(timer))
            self._timers_turn = self.turn

    def _persist(self, hosted: HostedNode, order: Persist | Secure) -> None:
        record = order.record
        if isinstance(record, Ballot):
            hosted.store.persist_ballot(record)
        elif not isinstance(record, RegistryRecord):
            if type(order) is Persist or hosted.replica is None:  # else it is for its voter to store
                hosted.store.persist(record)
                (self._logging if isinstance(record, LogBatch) else self._unsynced)[hosted] = None
                self._look_for_room(hosted)
        else:
            # A copy of a list that a server above us keeps: what matters can wait for the disk.
            hosted.unwritten[record.scope] = record
            self._write_down(hosted)

    def _write_down(self, hosted: HostedNode) -> None:
        for scope, record in list(hosted.unwritten.items()):
            try:
                hosted.store.persist(record)
            except StoreFailed as error:
                self.no_room(hosted, "registry", error)
                return
            del hosted.unwritten[scope]

    def _keep_free(self, hosted: HostedNode, order: KeepFree) -> None:
        hosted.store.keep_free(order.size)
        self._look_for_room(hosted)

    def _look_for_room(self, hosted: HostedNode) -> None:
        """Is there room for the next records? The node gets an event when that changes."""
        if hosted.replica is not None and not hosted.is_voter:
            return  # its replicas tell it
        lacking = ""
        try:
            hosted.store.make_room()
        except StoreFailed as error:
            lacking = error.what
            self.no_room(hosted, "records", error)
        if hosted.lacks_room != bool(lacking):
            hosted.lacks_room = bool(lacking)
            self.step_inside(hosted, RoomChanged(lacking))

    def no_room(self, hosted: HostedNode, what: str, error: StoreFailed) -> None:
        """A write to the disk failed. What depends on it is refused, or waits; the node goes on."""
        self.report(hosted, DiskRefused(what, error.what))

    # The end

    async def shut_down(self, why: str) -> None:
        """Leave every group for every program, wait until the neighbours have it, and say goodbye."""
        self.record.note("shutting_down", because=why)
        self.lag.stop()
        for programs in self.programs.values():
            programs.close_all()
        await self._drained()
        self._begin_turn()
        for hosted in self.hosted_nodes.values():
            self._carry_out(hosted, NodeEnding(why), hosted.node.stop(self.now, why))
        self._stopped = True
        self.ended = why
        for programs in self.programs.values():
            programs.say_goodbye(why)
        await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.data.close()
        self.close_disks()
        for programs in self.programs.values():
            programs.arenas.close()
        for hosted in self.hosted_nodes.values():
            for channel in list(hosted.channels.values()):
                channel.connection.close(why)
            for timer in hosted.timers.values():
                timer.cancel()
            hosted.store.close()
        self.record.note("stopped", because=why)

    async def _drained(self) -> None:
        """Until every neighbour that is up has acknowledged everything, or patience ends."""
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while True:
            await asyncio.sleep(DRAIN_LOOK_S)
            undrained = [
                f"{hosted.path}-{peer}"
                for hosted in self.hosted_nodes.values()
                for peer, link in hosted.node.links.items()
                if not link.drained
            ]
            if not undrained:
                return
            if time.monotonic() > deadline:
                self.record.note(
                    "shutdown_not_acknowledged", links=", ".join(undrained), after_s=DRAIN_TIMEOUT_S
                )
                return

    def _fail(self, error: BaseException) -> None:
        """A step raised an exception: the node's state is undefined, so the process stops."""
        if not self.failed.done():
            self.failed.set_result(error)

    def spawn(self, work: Any) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    async def _watch_programs(self) -> None:
        while True:
            await asyncio.sleep(WATCH_TICK_S)
            self.tick()

    def tick(self) -> None:
        """Look at the programs, and at callers that are not identified yet."""
        self._begin_turn()
        for programs in self.programs.values():
            programs.tick()
        for listener in self.listeners:
            listener.tick()
        for voter in self._voters:
            self.step(voter, Clock(self.wall_clock_ms()))
        self.blame.tick()
        self.data.tick()
        if self.now >= self._disks_due:
            self._disks_due = self.now + DISK_AGAIN_S
            for hosted in list(self.hosted_nodes.values()):
                self._write_down(hosted)
                if hosted.lacks_room:
                    self._look_for_room(hosted)
