"""A whole world in one process: real nodes, pretend time, pretend network, pretend disks.

    heap of (when, turn, what, to whom)
        │ pop the earliest: now = when
        ▼
    node.step(now, event) ──▶ outputs ──▶ Transmit: onto a line, back into the heap
                                          SetTimer: back into the heap
                                          Tell, Answer: to the host's programs
                                          Persist: to the server's pretend disk

Everything that happens at one instant is stepped first; then each node that was touched is flushed once, as
the runtime does after draining its sockets. All chance comes from one seeded generator, and nothing else in
the world is random, so a seed is a whole history, byte for byte.

Messages travel as objects. With `wire=True` every packet is encoded and decoded on its way, which costs
time, counts bytes, and shows that what the cores say can be written down.

With `fifo`, agents and cluster servers have the services of `protocols/fifo`, and programs
can join with `delivery="fifo"`. What these say travels on ways of its own (`datagrams.py`), apart from the
lines.
"""

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol
from zlib import crc32

from msgspec import Struct

from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    EndpointGone,
    Event,
    FellBehind,
    Ignored,
    LinkDown,
    LinkMoved,
    LinkUp,
    Noted,
    Persist,
    Secure,
    SetTimer,
    Tell,
    TimerFired,
    TimerKey,
)
from rostra.core.stack import Stack
from rostra.errors import BadInput, RostraError
from rostra.impair.quality import LineQuality
from rostra.journal.inputs import FLUSHED, FORMAT, STARTED, Began, Word
from rostra.names import (
    ROOT,
    Domain,
    Endpoint,
    Group,
    Tree,
    inside,
    parse_domain,
    parse_endpoint_name,
    parse_scope,
)
from rostra.node import Node, Output
from rostra.protocols.claims.agent import JoinClaimed
from rostra.protocols.election import events as seat
from rostra.protocols.election.config import ElectionConfig
from rostra.protocols.fifo import events as talk
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.messages import Run
from rostra.protocols.flow.runs import block_of
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.core import Link
from rostra.protocols.links.events import (
    Awaited,
    ChannelClosed,
    ChannelOpened,
    Forgotten,
    PacketArrived,
    Removed,
    Suspected,
    Transmit,
    Trusted,
)
from rostra.protocols.links.packets import NOBODY, AnyPacket, Data, Hello
from rostra.protocols.links.state import Together
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.events import JoinsBegin, JoinsEnd
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.messages import LifeAsked, LifeTold
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import (
    Absolute,
    AnyNotice,
    Close,
    Done,
    Gap,
    Join,
    Leave,
    Open,
    Opened,
    PutOut,
    Register,
    Resolve,
    SetOnline,
    Unregister,
    Unwatch,
    Watch,
)
from rostra.protocols.relaxed.view import Report
from rostra.sim.channels import DatagramArrived, SimChannels
from rostra.sim.datagrams import DatagramNetwork
from rostra.sim.history import (
    AnswerRecord,
    DataChanged,
    DeliveryRecord,
    Detected,
    FollowingChanged,
    History,
    LineChanged,
    MembershipChanged,
    NoticeRecord,
    ServerChanged,
    Settled,
    SubmissionRecord,
    TalkChanged,
    WorldMade,
)
from rostra.sim.network import STEADY, LinkModel, SimLine
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.replicas import Seats
from rostra.sim.shapes import clusters
from rostra.sim.shelf import Shelf
from rostra.sim.talks import QUIET, JoinTalk, LeaveTalk, Talk
from rostra.stacks import FifoPlan, NodePlan, make_node, make_stack
from rostra.wire import Arrived, Encoder, FrameKind, FrameReader

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

WORLD_NAME: Final = "sim"
LOSS_USUAL: Final = 0.2
"""Ways that lose more are bad: streams over them may stand still for a while."""

NUMBERS_PER_LIFE: Final = 1_000
"""Incarnations are multiples of this, so that the number of an endpoint shows which life of its agent
opened it."""


OUTSIDE: Final = 1 << 62
"""Tokens from here on belong to questions that came in through a door."""


Channel = Literal["control", "data"]
"""What travels on lines between neighbours; what groups that speak send around them."""

Hearer = Callable[[float, SimProgram, Group, talk.Item], None]
"""Somebody who wants to hear what programs hear in groups that speak."""


class DidNotSettle(RostraError):
    """The world kept changing, or a link that should be up or down was not."""

    code = "DID_NOT_SETTLE"


class Observer(Protocol):
    """Somebody who wants to hear everything: the trace, a tap, a test."""

    def told(self, at: float, program: SimProgram, notice: AnyNotice, reports: list[Report]) -> None: ...

    def answered(self, at: float, call: SimCall) -> None: ...

    def noted(self, at: float, server: Domain, what: Output) -> None: ...


class AgentPort(Protocol):
    """Where programs that are not the world's own reach the agent of a host: see `rostra.testing`."""

    def tell(self, tell: Tell) -> None: ...

    def answer(self, answer: Answer) -> None: ...


class SimProcess:
    """What one server's node runs in: its life and death, its inbox, its clock, its timers, its disk."""

    __slots__ = (
        "busy_until",
        "disk",
        "inbox",
        "incarnation",
        "life",
        "lines",
        "node",
        "path",
        "paused",
        "programs",
        "shelf",
        "skew_s",
        "step_s",
        "timers",
        "waking",
    )

    def __init__(self, path: Domain) -> None:
        self.path = path
        self.node: Node | None = None  # None while crashed
        self.life = 0
        self.incarnation = 0
        self.paused = False
        self.inbox: deque[Event] | None = None  # None while events are handled as they come
        self.step_s = 0.0  # a fault: how long the handling of one event takes
        self.busy_until = 0.0
        self.waking = False
        self.skew_s = 0.0  # how far this server's clock is ahead of the world's
        self.timers: dict[TimerKey, int] = {}
        self.disk: list[Any] = []  # survives crashes
        self.shelf = Shelf()  # does not: backlogs of slow receivers
        self.lines: dict[Domain, SimLine] = {}
        self.programs: dict[Endpoint, SimProgram] = {}

    @property
    def works(self) -> bool:
        return self.node is not None and not self.paused

    @property
    def stack(self) -> Stack:
        """None of its services is there while it is crashed."""
        return Stack() if self.node is None else self.node.stack


class FaultTarget(Struct, frozen=True):
    """Some of the lines, or of the ways, by the words of a story or a test."""

    a: Domain
    b: Domain | None
    one_way: bool
    exact: bool

    def covers(self, sender: Domain, to: Domain) -> bool:
        a, b = self.a, self.b
        if self.exact:
            found, back = (sender, to) == (a, b), (sender, to) == (b, a)
        elif b is None:
            found = inside(a, sender) and not inside(a, to)
            back = inside(a, to) and not inside(a, sender)
        else:
            found, back = _apart(a, b, sender, to), _apart(a, b, to, sender)
        return found or (back and not self.one_way)


class World:
    """A world that runs.

    `tree` is a `Tree`; `domains` is a short way to make one: ``{"haifa": 3, "paris": ("c", "d")}``.
    `watching` is asked to wrap each new stack, for taps and invariants. Without a history and listeners
    nothing is written down, which is what large worlds want. With `journal`, every server writes the journal
    that a real one would, into that directory; `close` ends them. `fifo` are the settings of groups that
    speak, True for the usual ones; `data` is the network for their messages, like `links` unless it is said;
    `lan` and `sealed` are how LANs are reached, as under ``[data]`` of a world file.
    `replicas` says which domains have how many servers: ``{"haifa": 3}``.
    """

    def __init__(
        self,
        seed: int = 0,
        tree: Tree | None = None,
        *,
        domains: Mapping[str, int | Iterable[str]] | None = None,
        links: LinkModel = STEADY,
        timers: LinkConfig | None = None,
        config: RelaxedConfig | None = None,
        wire: bool = False,
        history: bool = True,
        stagger: bool = False,
        watching: Callable[[Domain, Stack], Stack] | None = None,
        listeners: Iterable[Observer] = (),
        journal: "str | Path | SimJournal | None" = None,
        fifo: FifoConfig | bool = False,
        data: LinkModel | None = None,
        lan: str = "auto",
        sealed: bool = True,
        replicas: Mapping[str, int] | None = None,
    ) -> None:
        if (tree is None) == (domains is None):
            raise BadInput("a world needs a tree or domains, not both", fix='World(1, domains={"haifa": 2})')
        self.seed = seed
        self.tree = tree if tree is not None else clusters(domains or {})
        self.links = links
        self.timers = timers if timers is not None else LinkConfig.wan().over_datagrams()
        self.config = config if config is not None else RelaxedConfig()
        self.now = 0.0
        self.luck = Random(seed)
        self.history: History | None = [] if history else None
        self.listeners: list[Observer] = list(listeners)
        self.programs: list[SimProgram] = []
        self.doors: dict[Domain, AgentPort] = {}
        self.events = 0  # handled since the beginning
        self.packets = 0
        self.bytes = 0
        self.notes: Counter[tuple[str, str]] = Counter()  # (Ignored or Noted, its label)
        self.journal = _opened(journal) if isinstance(journal, str | Path) else journal
        self.fifo = (FifoConfig() if fifo else None) if isinstance(fifo, bool) else fifo
        self.data = DatagramNetwork(seed, data if data is not None else links, self.tree.clusters)
        self.channels = SimChannels(self, lan, sealed=sealed)
        self.hearers: list[Hearer] = []
        self.name = WORLD_NAME
        self.lead = ElectionConfig()
        self.seats = Seats(self, {parse_domain(name): count for name, count in (replicas or {}).items()})
        self._watching = watching
        self._wire = _Wire() if wire else None
        self._heap: list[tuple[float, int, Callable[[Any, Any], None], Any, Any]] = []
        self._turn = 0
        self._dirty: dict[SimProcess, None] = {}
        self._inner: deque[tuple[SimProcess, Node, Event]] = deque()  # between the halves of replicas
        self._carrying_out = False
        self._running = False
        self._calls: dict[int, SimCall] = {}
        self._token = 0
        self._busy_at = 0.0
        self._in_flight = 0
        self._carry: dict[type, Callable[[SimProcess, Any], None]] = {
            Transmit: self._transmit,
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            Tell: self._tell,
            Answer: self._answer,
            Persist: self._persist,
            Secure: self._persist,
            LinkUp: self._link_changed,
            LinkDown: self._link_changed,
            LinkMoved: self._link_changed,
            Suspected: self._link_changed,
            Trusted: self._link_changed,
            Removed: self._note,
            Awaited: self._note,
            Forgotten: self._note,
            Ignored: self._note,
            Noted: self._note,
            talk.Cast: self.channels.cast,
            talk.Transmit: self.channels.transmit,
            talk.Broadcast: self.channels.broadcast,
            talk.Deliver: self._deliver,
            talk.Located: self.channels.located,
            talk.Tuned: self._known_already,
            talk.Spill: self._spill,
            talk.ReadSpilled: self._read_spilled,
            talk.ForgetSpilled: self._forget_spilled,
            seat.Lead: self._seat_ordered,
            seat.Resign: self._seat_ordered,
            seat.Follow: self._note,
            seat.StateReceived: self._seat_ordered,
            seat.FollowerLinked: self._seat_ordered,
            seat.Committed: self._seat_ordered,
            seat.TermRefused: self._note,
        }
        self.processes: dict[Domain, SimProcess] = {path: SimProcess(path) for path in self.tree.servers}
        hosts = set(self.tree.hosts)
        for a, b in self.tree.links():
            quality = links.lan if a in hosts or b in hosts else links.wan
            self.processes[a].lines[b] = SimLine(a, b, quality)
            self.processes[b].lines[a] = SimLine(b, a, quality)
        for seats in self.seats.of.values():
            self.processes |= {path: SimProcess(path) for path in seats}
        self.seats.lines()
        if self.history is not None:
            self.history.append(WorldMade(0.0, 0, self.tree.hosts))
        if self.journal is not None:
            self.journal.begin(0.0, {"seed": seed, "hosts": self.tree.hosts})
        for process in list(self.processes.values()):
            if stagger:  # servers that were started by hand do not tick together
                self._at(self.luck.random() * self.timers.tick_s, self._start, process, None)
            else:
                self._start(process, None)

    # Running

    def run(self, for_s: float) -> "World":
        """Let this much time pass."""
        return self.run_until(self.now + for_s)

    def run_until(self, until: float) -> "World":
        heap, dirty, pop = self._heap, self._dirty, heapq.heappop
        self._running = True
        try:
            while True:
                if dirty and not (heap and heap[0][0] <= self.now):
                    self._flush()
                elif heap and heap[0][0] <= until:
                    self.now, _, what, whom, about = pop(heap)
                    self.events += 1
                    what(whom, about)
                else:
                    break
        finally:
            self._running = False
        self.now = max(self.now, until)
        return self

    def settle(self, *, quiet_s: float | None = None, at_most_s: float = 600.0) -> "World":
        """Run until nothing is in flight, every link is up that can be and down that cannot, and nothing but
        heartbeats was heard for `quiet_s`: twice the time after which silence counts as failure, unless a
        test is in a hurry."""
        quiet = self.timers.detect.down_after_s * 2 if quiet_s is None else quiet_s
        give_up = self.now + at_most_s
        self._busy_at = self.now
        while True:
            self.run_until(min(give_up, max(self._busy_at + quiet, self.now + self.timers.tick_s)))
            odd = self.unsettled(quiet)
            if not odd:
                break
            if self.now >= give_up:
                raise DidNotSettle(f"not settled after {at_most_s:g} s: {odd}", fix=f"seed {self.seed}")
        self._write(Settled)
        return self

    def close(self) -> None:
        """The end of the world: its journals are closed and whole."""
        if self.journal is not None:
            self.journal.close(self.now)

    @property
    def next_at(self) -> float:
        """When the next thing happens: now, if something has happened that is not carried out yet."""
        if self._dirty:
            return self.now
        return self._heap[0][0] if self._heap else math.inf

    def unsettled(self, quiet_s: float) -> str:
        """What is not as it must be when the world is at rest, and was quiet for so long; nothing if all
        is."""
        if self.now < self._busy_at + quiet_s:
            return "messages were still under way"
        if self._in_flight:
            return f"{self._in_flight} messages in flight"
        for path, process in self.processes.items():
            if process.inbox and not process.paused:
                return f"{path} has not caught up"
            for peer, line in process.lines.items():
                back = self.processes[peer].lines[path]
                if line.held is not None or back.held is not None or line.least_s or back.least_s:
                    continue  # whether such a link counts as up is the detector's own business
                if line.jammed_until > self.now:
                    return f"the line from {path} to {peer} is jammed"
                other = self.processes[peer]
                fine = process.works and other.works and not line.cut and not back.cut
                if process.works and process.node is not None and process.node.is_up(peer) != fine:
                    return f"{path} should see {peer} {'up' if fine else 'down'}"
                if fine and process.node is not None and not _at_rest(process.node.links[peer]):
                    return f"{path} has not got everything across to {peer}"
        return ""

    def _at(self, when: float, what: Callable[[Any, Any], None], whom: Any, about: Any) -> None:
        self._turn += 1
        heapq.heappush(self._heap, (when, self._turn, what, whom, about))

    def _step(self, process: SimProcess, event: Event) -> None:
        """Something happened to a server: it handles it now, or when it gets to it."""
        node = process.node
        if node is None:
            return
        if process.inbox is not None:
            process.inbox.append(event)
            self._wake(process)
            return
        if type(event) is DatagramArrived:
            self.channels.arrived(process, event)
            return
        self._dirty[process] = None
        self._given(process, event)
        self._carry_out(process, event, node.step(self.now + process.skew_s, event))

    def _flush(self) -> None:
        touched = list(self._dirty)
        self._dirty.clear()
        for process in touched:
            if process.node is not None:
                self._given(process, FLUSHED)
                self._carry_out(process, None, process.node.flush(self.now + process.skew_s))

    def _given(self, process: SimProcess, what: Event | Word) -> None:
        if self.journal is not None:
            self.journal.given(self.now, self.now + process.skew_s, process.path, what)

    def _carry_out(self, process: SimProcess, event: Event | None, outputs: list[Output]) -> None:
        if self.journal is not None:
            self.journal.saw(self.now, process.path, event, outputs)
        if process.path in self.seats.leaders and (replica := self.seats.replica_of(process)) is not None:
            outputs = replica.server_ordered(outputs)
        carry = self._carry
        if self._carrying_out or not self.seats.of:
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
                    self._step(process, event)
        finally:
            self._carrying_out = False

    def _seat_ordered(self, process: SimProcess, order: Any) -> None:
        replica = self.seats.replica_of(process)
        assert replica is not None
        replica.seat_ordered(self.now + process.skew_s, order)

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
            self._at(max(self.now, process.busy_until), self._catch_up, process, process.life)

    def _catch_up(self, process: SimProcess, life: int) -> None:
        if process.life != life or process.node is None:
            return
        process.waking = False
        if process.paused or process.inbox is None:
            return
        waiting, process.inbox = process.inbox, None
        while waiting:
            self._step(process, waiting.popleft())
            if process.step_s:
                process.busy_until = self.now + process.step_s
                break
        if waiting or process.step_s:
            process.inbox = waiting
            self._wake(process)

    # What nodes order

    def _transmit(self, process: SimProcess, order: Transmit) -> None:
        line = process.lines[order.to]
        packet: Any = order.packet
        if type(packet) is Hello:
            packet = self.channels.introduce(process, order.to, packet)
        if type(packet) is Data and any(type(m) not in _ROUTINE for m in packet.messages):
            self._busy_at = self.now
        self.packets += 1
        if self._wire is not None:
            packet = self._wire.encode(packet)
            self.bytes += len(packet)
        if line.cut:
            return
        quality, luck = line.quality, self.luck
        if line.loss and luck.random() < line.loss:
            return
        if line.held is not None:
            line.held.append(packet)
            return
        self._put_on(line, packet)
        if quality.duplicate and luck.random() < quality.duplicate:
            self._put_on(line, packet)

    def _put_on(self, line: SimLine, packet: Any) -> None:
        arrives = line.arrival(self.now, self.luck)
        if type(packet) is Data:
            self._in_flight += 1
        self._turn += 1
        heapq.heappush(self._heap, (arrives, self._turn, self._arrive, line, packet))

    def _arrive(self, line: SimLine, packet: Any) -> None:
        if type(packet) is Data:
            self._in_flight -= 1
        if line.dead:
            return
        if self._wire is not None:
            packet = self._wire.decode(packet)
        if type(packet) is Hello:
            packet = self.channels.met(self.processes[line.to], packet)
        self._step(self.processes[line.to], PacketArrived(line.sender, packet))

    def _set_timer(self, process: SimProcess, order: SetTimer) -> None:
        self._turn += 1
        process.timers[order.timer] = self._turn
        heapq.heappush(
            self._heap, (self.now + order.after_s, self._turn, self._fire, process, (order.timer, self._turn))
        )

    def _cancel_timer(self, process: SimProcess, order: CancelTimer) -> None:
        process.timers.pop(order.timer, None)

    def _fire(self, process: SimProcess, armed: tuple[TimerKey, int]) -> None:
        timer, turn = armed
        if process.timers.get(timer) == turn:
            del process.timers[timer]
            self._step(process, TimerFired(timer))

    def _persist(self, process: SimProcess, order: Persist | Secure) -> None:
        # A server that a replica leads writes to the disk of its seat.
        self.processes[self.seats.leaders.get(process.path, process.path)].disk.append(order.record)

    def _spill(self, process: SimProcess, order: talk.Spill) -> None:
        self._inject(process, process.shelf.keep(order))

    def _read_spilled(self, process: SimProcess, order: talk.ReadSpilled) -> None:
        self._inject(process, process.shelf.read(order))

    def _forget_spilled(self, process: SimProcess, order: talk.ForgetSpilled) -> None:
        process.shelf.forget(order)

    def _known_already(self, process: SimProcess, order: Output) -> None:
        """Where delegates and LANs listen: here names are addresses."""

    def _note(self, process: SimProcess, note: Output) -> None:
        match note:
            case Ignored(why=label) | Noted(what=label):
                self.notes[type(note).__name__, label] += 1
        for listener in self.listeners:
            listener.noted(self.now, process.path, note)

    def _link_changed(self, process: SimProcess, change: Output) -> None:
        if isinstance(change, LinkUp | LinkDown | LinkMoved):
            self._busy_at = self.now
        if self.history is not None:
            at, number, path = self.now, len(self.history), process.path
            match change:
                case LinkUp(peer=peer):
                    self.history.append(Detected(at, number, path, peer, "up"))
                case LinkMoved(peer=peer):
                    self.history.append(Detected(at, number, path, peer, "moved"))
                case LinkDown(peer=peer, because=because):
                    self.history.append(Detected(at, number, path, peer, "down", because))
                case Suspected(peer=peer):
                    self.history.append(Detected(at, number, path, peer, "suspected"))
                case Trusted(peer=peer):
                    self.history.append(Detected(at, number, path, peer, "trusted"))
        for listener in self.listeners:
            listener.noted(self.now, process.path, change)

    # Programs

    def program(self, host: str, name: str = "app") -> SimProgram:
        """Start a program on a host; it opens its endpoint as soon as the agent answers."""
        process = self._process(host)
        if process.path in self.tree.children:
            raise BadInput(f"{process.path} is not a host", fix=f"one of: {_some(self.tree.hosts)}")
        if process.node is None:
            raise BadInput(f"{process.path} is down, nothing can start there", fix="restart it first")
        program = SimProgram(self, process.path, parse_endpoint_name(name))
        self.programs.append(program)
        self._ask(process, program, Open(name), Endpoint(""))
        return program

    def ask(self, program: SimProgram, request: Any) -> SimCall:
        process = self.processes[program.host]
        if program.endpoint is None:
            call = SimCall(program, request, self.now)
            program.waiting.append(call)
            return call
        return self._ask(process, program, request, program.endpoint)

    def administer(self, server: str, request: Any) -> SimCall:
        """Ask a server something on nobody's behalf: `Register`, `Unregister`, `Inspect`."""
        return self._ask(self._process(server), None, request, Endpoint(""))

    def register(self, group: Group) -> SimCall:
        return self.administer(group.scope, Register(group))

    def unregister(self, group: Group) -> SimCall:
        return self.administer(group.scope, Unregister(group))

    def enter(self, host: Domain, event: Event) -> None:
        """Something that comes in through a door. Its tokens are larger than any of ours."""
        self._busy_at = self.now
        self._inject(self.processes[host], event)

    def kill(self, program: SimProgram) -> None:
        """The program dies; its agent notices at once (C-034)."""
        if not program.alive:
            return
        self._forget(program, "crashed")
        if program.endpoint is not None:
            self.processes[program.host].programs.pop(program.endpoint, None)
            self._inject(self.processes[program.host], EndpointGone(program.endpoint))

    def deafen(self, program: SimProgram) -> None:
        """The program stops reading; notices that it is told from now on are not kept for it. Messages of
        groups that speak are: they wait, and their senders with them."""
        program.missed = 0
        self._pause_talks(program, paused=True)

    def undeafen(self, program: SimProgram) -> None:
        """It reads again: it learns what it missed as a `Gap`, and gets fresh snapshots."""
        missed, program.missed = program.missed, None
        self._pause_talks(program, paused=False)
        if missed and program.endpoint is not None:
            groups = tuple(sorted(program.following))
            if self.journal is not None:
                self.journal.missed(self.now, program.host, program.endpoint, missed, groups)
            self._hear(program, Gap(missed, groups))
            self._inject(self.processes[program.host], FellBehind(program.endpoint, groups))

    def _ask(
        self, process: SimProcess, program: SimProgram | None, request: Any, endpoint: Endpoint
    ) -> SimCall:
        call = SimCall(program, request, self.now)
        self._put(process, call, endpoint)
        return call

    def _put(self, process: SimProcess, call: SimCall, endpoint: Endpoint) -> None:
        self._token += 1
        self._calls[self._token] = call
        if call.program is not None and isinstance(call.request, Resolve) and call.request.scope is not None:
            call.asked_in = call.program.views.period(Group(call.request.name, call.request.scope))
        self._busy_at = self.now
        match call.request:
            case JoinTalk(group, role, slow, meta):
                self.channels.entered(process, group)
                luck = self.luck_of(endpoint, group, self._token)
                self._inject(process, talk.JoinAsked(endpoint, self._token, group, luck, role, slow, meta))
            case Join(group_kind=kind) if kind is not None and kind.is_claimed:
                self._inject(process, JoinClaimed(endpoint, self._token, call.request))
            case LeaveTalk(group):
                self._inject(process, talk.LeaveAsked(endpoint, self._token, group))
            case _:
                self._inject(process, Asked(endpoint, self._token, call.request))

    def gather_joins(self, host: str, begin: bool) -> None:
        """Joins of this host's programs from now on, until it is said that they end, are of one turn."""
        self._inject(self.processes[Domain(host)], JoinsBegin() if begin else JoinsEnd())

    def _inject(self, process: SimProcess, event: Event) -> None:
        """From outside the network: at once, or in its turn if the world is in the middle of something."""
        if self._running:
            self._at(self.now, self._step, process, event)
        else:
            self._step(process, event)

    def _answer(self, process: SimProcess, answer: Answer) -> None:
        self._busy_at = self.now
        if answer.token >= OUTSIDE:
            if process.path in self.doors:
                self.doors[process.path].answer(answer)
            return
        call = self._calls.pop(answer.token)
        call.result, call.answered_at = answer.result, self.now
        program = call.program
        if program is not None:
            self._take_answer(process, program, call)
        for listener in self.listeners:
            listener.answered(self.now, call)

    def _take_answer(self, process: SimProcess, program: SimProgram, call: SimCall) -> None:
        match call.request, call.result:
            case Open(), Opened(endpoint=endpoint) if not program.alive:
                self._inject(process, EndpointGone(endpoint))  # killed before the agent had answered
            case _ if not program.alive:
                pass
            case Open(), Opened(endpoint=endpoint):
                program.endpoint = endpoint
                process.programs[endpoint] = program
                waiting, program.waiting = program.waiting, []
                for asked in waiting:
                    self._put(process, asked, endpoint)
            case Join(group=group, online=online), Done():
                program.online[group] = online
                self._write(MembershipChanged, program.address, group, "joined")
                self._follow(program, group)
            case Leave(group=group), Done():
                del program.online[group]
                self._write(MembershipChanged, program.address, group, "left")
                self._follow(program, group)
            case SetOnline(group=group, online=online), Done():
                program.online[group] = online
                self._follow(program, group)
            case JoinTalk(group=group), Done():
                self._write(TalkChanged, program.address, group, "joined")
            case JoinTalk(group=group), _:
                program.talks.pop(group, None)
            case LeaveTalk(group=group), Done():
                self._write(TalkChanged, program.address, group, "left")
            case Watch(group=group), Done():
                program.watching.add(group)
                self._follow(program, group)
            case Unwatch(group=group), Done():
                program.watching.discard(group)
                self._follow(program, group)
            case Close(), Done():
                process.programs.pop(program.address, None)
                self._forget(program, "left")
            case Resolve(), Absolute():
                self._write(AnswerRecord, program.address, call.request, call.result, call.asked_at)
                program.views.answered(call.result, call.asked_in)

    def _follow(self, program: SimProgram, group: Group) -> None:
        """Write down whether the program is to be told of this group's changes, if that is new."""
        wants = program.online.get(group, False) or group in program.watching
        if wants != (group in program.following):
            program.follow(group, wants)
            self._write(FollowingChanged, program.address, group, wants)

    def _forget(self, program: SimProgram, how: str) -> None:
        for group in sorted(program.following):
            self._write(FollowingChanged, program.address, group, False)
        for group in sorted(program.online):
            self._write(MembershipChanged, program.address, group, how)
        for group in sorted(program.talks if program.endpoint is not None else ()):
            self._write(TalkChanged, program.address, group, how)
        program.die()

    # Groups that speak

    def speak(self, program: SimProgram, group: Group, payloads: Iterable[bytes]) -> None:
        """Hand messages to the agent, as many as it will have; the others wait for their turn."""
        current = program.talk(group)
        current.waiting.extend(payloads)
        self._hand_over(program, current)

    def stream(
        self, program: SimProgram, group: Group, every_s: float, count: int | None, phase_s: float, size: int
    ) -> None:
        current = program.talk(group)
        current.streams += 1
        first_at = self.now + phase_s
        self._at(
            first_at, self._stream, program, (current, current.streams, first_at, every_s, 0, count, size)
        )

    def _stream(
        self, program: SimProgram, plan: tuple[Talk, int, float, float, int, int | None, int]
    ) -> None:
        current, number, first_at, every_s, done, count, size = plan
        over = current.state in ("leaving", "over") or done == count
        if over or not program.alive or number != current.streams:
            return
        current.waiting.append(QUIET + f"{done + 1}".encode().rjust(size - 1))
        self._hand_over(program, current)
        # Counted from the first one: a thousand small errors would be seen in the intervals.
        due = first_at + (done + 1) * every_s
        self._at(due, self._stream, program, (current, number, first_at, every_s, done + 1, count, size))

    def _hand_over(self, program: SimProgram, current: Talk) -> None:
        while payloads := current.due():
            endpoint, count = program.address, len(payloads)
            block = block_of(payloads)
            if self.history is not None:
                run = Run(current.said + 1, count, block, self.now)
                self.history.append(
                    SubmissionRecord(self.now, len(self.history), endpoint, current.group, run)
                )
            current.said += count
            current.submitted += count
            self._inject(
                self.processes[program.host],
                talk.Submitted(endpoint, current.group, count, block, self.now),
            )

    def _deliver(self, process: SimProcess, order: talk.Deliver) -> None:
        program = process.programs.get(order.endpoint)
        if program is None:
            return
        current = program.talks.get(order.group)
        if current is None:
            return
        item = order.item
        if self.history is not None and not isinstance(item, talk.Credit | talk.Sent):
            self.history.append(
                DeliveryRecord(self.now, len(self.history), order.endpoint, order.group, item)
            )
        current.take(self.now, item)
        for hearer in self.hearers:
            hearer(self.now, program, order.group, item)
        if isinstance(item, talk.Credit):
            self._hand_over(program, current)

    def _pause_talks(self, program: SimProgram, *, paused: bool) -> None:
        for group in sorted(program.talks):
            self.pause_talk(program, group, paused=paused)

    def pause_talk(self, program: SimProgram, group: Group, *, paused: bool) -> None:
        current = program.talk(group)
        if current.paused != paused and current.state != "over":
            current.paused = paused
            kind = talk.Paused if paused else talk.Resumed
            self._write(TalkChanged, program.address, group, "paused" if paused else "resumed")
            self._inject(self.processes[program.host], kind(program.address, group))

    def luck_of(self, *about: object) -> int:
        """A number for a core to make its choices with. From its name and not from our generator, so that one
        more member changes nobody else's luck."""
        text = " ".join(map(str, (self.seed, *about))).encode()
        return crc32(text) << 32 | crc32(text[::-1])

    def _tell(self, process: SimProcess, order: Tell) -> None:
        self._busy_at = self.now
        programs, notice = process.programs, order.notice
        for endpoint in order.endpoints:
            program = programs.get(endpoint)
            if program is not None:  # a dead program hears nothing, even if the agent does not know yet
                self._hear(program, notice)
        if process.path in self.doors:
            self.doors[process.path].tell(order)

    def _hear(self, program: SimProgram, notice: AnyNotice) -> None:
        if program.missed is not None:
            program.missed += 1
            return
        if self.history is not None:
            self.history.append(NoticeRecord(self.now, len(self.history), program.address, notice))
        reports = program.views.apply(notice)
        if type(notice) is PutOut and program.online.pop(notice.group, None) is not None:
            self._write(MembershipChanged, program.address, notice.group, "left")
            self._follow(program, notice.group)
        for listener in self.listeners:
            listener.told(self.now, program, notice, reports)

    def _write(self, kind: Callable[..., Any], *fields: Any) -> None:
        if self.history is not None:
            self.history.append(kind(self.now, len(self.history), *fields))
        if self.journal is not None:
            self.journal.happened(self.now, kind, *fields)

    # Faults of servers

    def crash(self, server: str) -> "World":
        """The process dies with everything in its memory; on a host, its programs die too."""
        if (leader := self.seats.leaders.get(self._path(server))) is not None:
            return self.crash(leader)
        process = self._process(server)
        if process.node is None:
            return self
        if process.path in self.seats.replicas:
            self.seats.stop(process.path)
        if (agent := process.stack.find(AGENT)) is not None:
            # The next life's numbers must be larger than every one that was handed out in this.
            handed_out = agent.next_number - process.incarnation
            process.incarnation += handed_out // NUMBERS_PER_LIFE * NUMBERS_PER_LIFE
        for program in self.programs:
            if program.host == process.path and program.alive:
                program.die()
        self._forget_process(process)
        if self.journal is not None:
            self.journal.crashed(process.path)
        self._write(ServerChanged, process.path, "crashed")
        return self

    def _forget_process(self, process: SimProcess) -> None:
        process.node = None
        process.inbox, process.paused, process.step_s = None, False, 0.0
        process.timers = {}
        process.programs = {}
        self.channels.end(process)
        self._dirty.pop(process, None)

    def drop(self, process: SimProcess) -> None:
        """The server of a domain, as neighbours know it, ends: the seat that led it leads no more."""
        self._forget_process(process)
        if self.journal is not None:
            self.journal.crashed(process.path)
            self.journal.happened(self.now, ServerChanged, process.path, "crashed")

    def let_lead(self, process: SimProcess, node: Node, leader: Domain) -> None:
        """A seat leads: its node is the domain's server from now on."""
        process.life += 1
        process.shelf = Shelf()
        process.skew_s = self.processes[leader].skew_s
        process.incarnation = node.incarnation
        process.node = node
        self.channels.begin(process, 0)
        if self.journal is not None:
            plan = self.plan_of(process.path, node.incarnation)
            self.journal.happened(self.now, ServerChanged, process.path, "started")
            self.journal.started(self.now, Began(FORMAT, plan), self._detail(process), led_by=leader)
            self._given(process, STARTED)
        self._carry_out(process, None, node.start(self.now + process.skew_s))
        for peer in process.lines:
            self.give(process, ChannelOpened(peer))

    def restart(self, server: str) -> "World":
        """A new life with an empty memory and a larger incarnation; only the disk is as it was."""
        process = self._process(server)
        self.crash(server)
        self._start(process, None)
        return self

    def pause(self, server: str) -> "World":
        """The process stands still: timers fire late, and what arrives waits."""
        for process in self.seats.in_one(self._process(server)):
            if process.works:
                process.paused = True
                process.inbox = process.inbox if process.inbox is not None else deque()
                self._write(ServerChanged, process.path, "paused")
        return self

    def resume(self, server: str) -> "World":
        for process in self.seats.in_one(self._process(server)):
            if process.paused:
                process.paused = False
                if process.inbox:
                    self._wake(process)
                elif not process.step_s:
                    process.inbox = None
                self._write(ServerChanged, process.path, "continued")
        return self

    def slow(self, server: str, step_s: float) -> "World":
        """From now on the handling of each event takes this long; 0 ends it."""
        process = self._process(server)
        process.step_s = step_s
        if step_s:
            process.inbox = process.inbox if process.inbox is not None else deque()
        elif not process.paused and not process.inbox:
            process.inbox = None
        return self

    def step_clock(self, server: str, by_s: float) -> "World":
        """The server's clock jumps; its timers, which count seconds, do not."""
        for process in self.seats.in_one(self._process(server)):
            process.skew_s += by_s
        return self

    def _start(self, process: SimProcess, _: None) -> None:
        if process.node is not None:
            return
        process.life += 1
        process.waking = False
        process.shelf = Shelf()
        incarnation = process.incarnation = process.incarnation + NUMBERS_PER_LIFE
        path = process.path
        if path in self.seats.of:
            return  # until one of its replicas leads
        if (domain := self.seats.domain_of(path)) is not None:
            node = self.seats.start(process, domain)
            self._given(process, STARTED)
            self._carry_out(process, None, node.start(self.now + process.skew_s))
            for peer in process.lines:
                self._step(process, ChannelOpened(peer))
            self._step(process, seat.Begun())
            return
        registry = Registry.of(process.disk)
        plan = self.plan_of(path, incarnation)
        stack = make_stack(plan, registry)
        if self._watching is not None:
            stack = self._watching(path, stack)
        process.node = make_node(plan, stack)
        self.channels.begin(process, incarnation)
        self._write(ServerChanged, path, "started")
        if self.journal is not None:
            self.journal.started(
                self.now,
                Began(FORMAT, plan, registry.copies(path), own=registry.own.all()),
                self._detail(process),
            )
            self._given(process, STARTED)
        self._carry_out(process, None, process.node.start(self.now + process.skew_s))
        for peer in process.lines:
            self._step(process, ChannelOpened(peer))

    def _detail(self, process: SimProcess) -> dict[str, Any]:
        return {"links": self.timers, "resolve": self.config, "neighbours": sorted(process.lines)}

    def plan_of(self, path: Domain, incarnation: int) -> NodePlan:
        is_agent, cluster = path not in self.tree.children, path in self.tree.clusters
        fifo = None
        if self.fifo is not None and (is_agent or cluster):
            fifo = FifoPlan(self.fifo)
            if cluster:
                address = self.channels.address(path, incarnation)
                fifo = FifoPlan(self.fifo, luck=self.luck_of(path, incarnation), address=address)
        return NodePlan(
            WORLD_NAME,
            path,
            is_agent,
            cluster,
            incarnation,
            self.timers,
            self.config,
            self.tree.siblings(path),
            replicated=tuple(self.seats.of),
            fifo=fifo,
        )

    # Faults of the network

    def cut(self, where: str, only: Channel | None = None) -> "World":
        """Stop lines from carrying packets: ``haifa | paris`` between two domains or hosts, ``haifa >
        paris`` in one direction only, ``paris`` alone at its border, ``link eu | us`` between two servers
        only. What groups say to each other stops there too, unless `only` one channel is meant."""
        for line in self._control(where, only):
            if not line.cut:
                line.cut = True
                self._write(LineChanged, line.sender, line.to, "cut")
        self._change_data("cut", where, only, True, cut=True)
        return self

    def heal(self, where: str = "", only: Channel | None = None) -> "World":
        for line in self._control(where, only):
            if line.cut:
                line.cut = False
                self._write(LineChanged, line.sender, line.to, "healed")
        self._change_data("cut", where, only, False, cut=False)
        return self

    def lose(self, share: float, where: str = "", only: Channel | None = None) -> "World":
        for line in self._control(where, only):
            line.loss = share
        self._change_data("loss", where, only, share > LOSS_USUAL, loss=share)
        return self

    def delay(self, least_s: float, where: str = "", only: Channel | None = None) -> "World":
        """At least this slow from now on; 0 ends it, once what is on its way has arrived."""
        for line in self._control(where, only):
            if line.least_s:
                line.jammed_until = line.free_at
            line.least_s = least_s
        self._change_data("delay", where, only, least_s > 0, least_s=least_s)
        return self

    def make(self, where: str, quality: LineQuality, only: Channel | None = None) -> "World":
        """These lines are of another make than the others of the world."""
        for line in self._control(where, only):
            line.quality, line.loss = quality, quality.loss
        self._change_data("quality", where, only, False, quality=quality)
        return self

    def throttle(self, bytes_per_s: float | None, where: str = "") -> "World":
        """So much can be said in groups over these ways; None ends it."""
        self._change_data("rate", where, "data", bytes_per_s is not None, rate=bytes_per_s)
        return self

    def _control(self, where: str, only: Channel | None) -> Iterator[SimLine]:
        return iter(()) if only == "data" else self.lines(where)

    def _change_data(self, what: str, where: str, only: Channel | None, bad: bool, **values: Any) -> None:
        if self.fifo is not None and only != "control":
            self.data.change(self._where(where) if where else None, **values)
            self._write(DataChanged, where, what, bad)

    def hold(self, where: str) -> "World":
        """Keep packets back, in order, until `release`."""
        for line in self.lines(where):
            line.held = line.held if line.held is not None else []
        return self

    def release(self, where: str = "") -> "World":
        for line in self.lines(where):
            held, line.held = line.held, None
            for packet in held or ():
                self._put_on(line, packet)
        return self

    def reset(self, where: str, *, away_s: float = 0.1) -> "World":
        """Break the connections, as a reset of TCP does: what is on its way is lost, and new ones open a
        little later. Both ends are told."""
        links = {tuple(sorted((line.sender, line.to))) for line in self.lines(where)}
        for a, b in sorted(links):
            for here, there in ((a, b), (b, a)):
                process = self.processes[here]
                old = process.lines[there]
                old.dead = True
                line = process.lines[there] = SimLine(here, there, old.quality)
                line.cut, line.loss, line.least_s = old.cut, old.loss, old.least_s
                self._inject(process, ChannelClosed(there, "reset"))
                self._at(self.now + away_s, self._step, process, ChannelOpened(there))
        return self

    def lines(self, where: str = "") -> Iterator[SimLine]:
        """The lines that a story or a test means by these words; all of them if it says nothing."""
        part = self._where(where) if where else None
        for process in self.processes.values():
            for line in process.lines.values():
                if part is None or part.covers(line.sender, line.to):
                    yield line

    def _where(self, text: str) -> FaultTarget:
        exact, sides = text.startswith("link "), text.removeprefix("link ")
        one_way = ">" in sides
        here, sign, there = sides.partition(">" if one_way else "|")
        a = self._path(here.strip())
        b = self._path(there.strip()) if sign else None
        if exact and (b is None or b not in self.processes[a].lines):
            raise BadInput(f"there is no link {sides!r}", fix="name two neighbours: link eu | us")
        return FaultTarget(a, b, one_way, exact)

    def _path(self, name: str) -> Domain:
        path = parse_scope(name)
        if path not in self.processes:
            raise BadInput(f"{name!r} is no server of this world", fix=f"one of: {_some(self.tree.servers)}")
        return path

    def _process(self, name: str) -> SimProcess:
        return self.processes[self._path(name)]


class _Wire:
    """Packets as bytes and back, through the real encoder and reader."""

    def __init__(self) -> None:
        self._encoder = Encoder(WORLD_NAME)
        self._reader = FrameReader(WORLD_NAME, FrameKind.LINK)
        # A reader wants to be greeted before anything else; here one reader reads for everybody.
        self.decode(self.encode(Hello(1, NOBODY, WORLD_NAME, ROOT, 1, 0)))

    def encode(self, packet: AnyPacket) -> bytes:
        frame = self._encoder.packet(packet)
        self._encoder.turn_ends()
        return frame

    def decode(self, frame: bytes) -> Arrived:
        (packet,) = self._reader.feed(frame)
        return packet


def _opened(directory: str | Path) -> "SimJournal":
    # Late, because most worlds keep no journal and Arrow takes long to load.
    from rostra.sim.journal import SimJournal

    return SimJournal(directory)


def _at_rest(link: Link) -> bool:
    return link.drained and isinstance(link.state, Together) and link.state.flowing


def _apart(a: Domain, b: Domain, sender: Domain, to: Domain) -> bool:
    """Does this line lead from one side to the other? If one contains the other, it is the rest of it."""
    if inside(a, b):
        return inside(b, to) and inside(a, sender) and not inside(b, sender)
    if inside(b, a):
        return inside(a, sender) and inside(b, to) and not inside(a, to)
    return inside(a, sender) and inside(b, to)


def _some(names: Iterable[str], most: int = 8) -> str:
    listed = list(names)
    return " ".join(listed[:most]) + (" ..." if len(listed) > most else "")


_ROUTINE: Final = frozenset({LifeAsked, LifeTold})
"""Questions after lives are repeated for ever, like heartbeats: a world that is at rest still asks them."""
