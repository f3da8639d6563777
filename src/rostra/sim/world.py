"""A whole world in one process: real nodes, with virtual time and a simulated network and disks.

    agenda      the event queue                         lines       packets between nodes, and their faults
    processes   nodes: steps, timers, disks, crashes    channels    the production data channel
    fronts      the production front, and programs      history     what happened, for checkers

All randomness comes from one seeded generator, so a seed determines the whole history, byte for byte.

With `fifo`, agents and cluster servers have the services of `protocols/fifo`, and programs can join with
`delivery="fifo"`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from zlib import crc32

from rostra.core.effects import Event, Ignored, Instant, Noted
from rostra.core.observer import Observer, Reporter, Reporters, Seen
from rostra.core.stack import Stack
from rostra.errors import BadInput, RostraError
from rostra.impair.quality import LineQuality
from rostra.names import Domain, Group, Tree, parse_domain, parse_endpoint_name, parse_scope
from rostra.observe.trace import CallAnswered
from rostra.protocols.access.config import AccessConfig
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.election.config import ElectionConfig
from rostra.protocols.fifo.events import Item
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.front.config import FrontConfig
from rostra.protocols.front.messages import NO_ENDPOINT, Answered, Ask, Told
from rostra.protocols.led.config import LedConfig
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.requests import Open, Register, Unregister
from rostra.protocols.scopes.config import ScopesConfig
from rostra.sim import hierarchy
from rostra.sim.agenda import Agenda
from rostra.sim.casting import SimCasting
from rostra.sim.channels import SimChannels
from rostra.sim.datagrams import DatagramNetwork
from rostra.sim.fronts import OWN_UID, SimFronts, SimLink
from rostra.sim.history import Detections, History, Settled, WorldMade
from rostra.sim.lines import Channel, SimNetwork
from rostra.sim.network import STEADY, LinkModel, SimLine
from rostra.sim.processes import WORLD_NAME, SimNodes, SimProcess
from rostra.sim.programs import SimCall, SimProgram
from rostra.sim.replicas import SimReplicas
from rostra.sim.shapes import clusters

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

SIM_FRONT = FrontConfig(queue_records=0)
"""A deaf program has no room for notices: it falls behind with the first one."""


class DidNotSettle(RostraError):
    """The world kept changing, or a link that should be up or down was not."""

    code = "DID_NOT_SETTLE"


class NoteCounts(Reporter):
    """How often what was ignored, and noted, by its label."""

    def __init__(self, counts: Counter[tuple[str, str]]) -> None:
        self._counts = counts
        self.shows = {Ignored: self._ignored, Noted: self._noted}

    def _ignored(self, now: Instant, server: Domain, ignored: Ignored) -> None:
        self._counts["Ignored", ignored.why] += 1

    def _noted(self, now: Instant, server: Domain, noted: Noted) -> None:
        self._counts["Noted", noted.what] += 1


class World:
    """A world that runs.

    `tree` is a `Tree`; `domains` is a short way to make one: ``{"haifa": 3, "paris": ("c", "d")}``.
    `watching` is asked to wrap each new stack, for taps and invariants. Without a history and observers
    nothing is written down, which is what large worlds want. With `journal`, every server writes the journal
    that a real one would, into that directory; `close` ends them. `fifo` are the settings of groups that
    speak, True for the usual ones; `data` is the network for their messages, like `links` by default;
    `lan` and `sealed` are how LANs are reached, as under ``[data]`` of a world file.
    `replicas` says which domains have how many servers: ``{"haifa": 3}``. `front` are the settings of the
    fronts that programs talk to; after `turn_steps` steps a turn of theirs is long, drawn from the seed.
    `agreed` are the settings of groups of agreed membership, `access` the installed authorities.
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
        observers: Iterable[Observer] = (),
        journal: "str | Path | SimJournal | None" = None,
        fifo: FifoConfig | bool = False,
        data: LinkModel | None = None,
        lan: str = "auto",
        sealed: bool = True,
        replicas: Mapping[str, int] | None = None,
        front: FrontConfig = SIM_FRONT,
        agreed: AgreedConfig | None = None,
        access: AccessConfig | None = None,
        led: LedConfig | None = None,
        scopes: ScopesConfig | None = None,
        turn_steps: int | None = None,
    ) -> None:
        if (tree is None) == (domains is None):
            raise BadInput("a world needs a tree or domains, not both", fix='World(1, domains={"haifa": 2})')
        self.seed = seed
        self.tree = tree if tree is not None else clusters(domains or {})
        self.links = links
        self.timers = timers if timers is not None else LinkConfig.wan().over_datagrams()
        self.config = config if config is not None else RelaxedConfig()
        self.access = access if access is not None else AccessConfig()
        self.led = led if led is not None else LedConfig()
        self.scopes = scopes if scopes is not None else ScopesConfig()
        self.agreed = (agreed if agreed is not None else AgreedConfig()).fitted(self.timers)
        self.luck = Random(seed)
        self.history: History | None = [] if history else None
        self.programs: list[SimProgram] = []
        self.packets = 0
        self.bytes = 0
        self.notes: Counter[tuple[str, str]] = Counter()  # (Ignored or Noted, its label)
        self.journal = _opened(journal) if isinstance(journal, str | Path) else journal
        self.fifo = (FifoConfig() if fifo else None) if isinstance(fifo, bool) else fifo
        self.name = WORLD_NAME
        self.reporters = Reporters()
        self.observers: list[Observer] = []  # of whole steps
        self.observe(NoteCounts(self.notes))
        if self.history is not None:
            self.observe(Detections(self.history))
        if self.journal is not None:
            self.observe(self.journal)
        for observer in observers:
            self.observe(observer)
        self.lead = ElectionConfig()
        self._busy_at = 0.0
        self._asked = 0
        self.removed: dict[Domain, SimProcess] = {}  # they may come back, with larger incarnations
        self._administrators: dict[Domain, _Administrator] = {}
        self.agenda = Agenda(self._end_instant)
        self.data = DatagramNetwork(seed, data if data is not None else links, self.tree.clusters)
        self.casting = SimCasting(self)
        self.channels = SimChannels(self, lan, sealed=sealed)
        drawn = Random(f"turn {seed}").choice((4, 16, 64, 256))
        self.fronts = SimFronts(self, front, drawn if turn_steps is None else turn_steps)
        self.network = SimNetwork(self, wire=wire)
        self.nodes = SimNodes(self, watching)
        self.processes = self.nodes.processes
        self.replicas = SimReplicas(
            self, {parse_domain(name): count for name, count in (replicas or {}).items()}
        )
        self.network.connect(self.tree.servers)
        for voters in self.replicas.of.values():
            self.processes |= {path: SimProcess(path) for path in voters}
        self.replicas.lines()
        if self.history is not None:
            self.history.append(WorldMade(0.0, 0, self.tree.hosts))
        if self.journal is not None:
            self.journal.begin(lambda: self.now, {"seed": seed, "hosts": self.tree.hosts})
        for process in list(self.processes.values()):
            if stagger:  # servers that were started by hand do not tick together
                self.agenda.at(self.luck.random() * self.timers.tick_s, self.nodes.start, process, None)
            else:
                self.nodes.start(process, None)

    # Running

    @property
    def now(self) -> float:
        return self.agenda.now

    @property
    def events(self) -> int:
        """Handled since the beginning."""
        return self.agenda.events

    def run(self, for_s: float) -> "World":
        """Let this much time pass."""
        return self.run_until(self.now + for_s)

    def run_until(self, until: float) -> "World":
        self.agenda.run_until(until)
        return self

    def settle(self, *, quiet_s: float | None = None, at_most_s: float = 600.0) -> "World":
        """Run until nothing is in flight, every link is up that can be and down that cannot, and nothing but
        heartbeats was heard for `quiet_s`: twice the time after which silence counts as failure, unless a
        test is in a hurry."""
        quiet = self.timers.detect.down_after_s * 2 if quiet_s is None else quiet_s
        give_up = self.now + at_most_s
        self.busy()
        while True:
            self.run_until(min(give_up, max(self._busy_at + quiet, self.now + self.timers.tick_s)))
            odd = self.unsettled(quiet)
            if not odd:
                break
            if self.now >= give_up:
                raise DidNotSettle(f"not settled after {at_most_s:g} s: {odd}", fix=f"seed {self.seed}")
        self.write(Settled)
        return self

    def unsettled(self, quiet_s: float) -> str:
        """What is not as it must be when the world is at rest, and was quiet for so long; nothing if all
        is."""
        if self.now < self._busy_at + quiet_s:
            return "messages were still under way"
        return self.network.odd()

    def busy(self) -> None:
        """Something happened that is no routine."""
        self._busy_at = self.now

    def close(self) -> None:
        """The end of the world: its journals are closed and whole."""
        if self.journal is not None:
            self.journal.close()

    @property
    def next_at(self) -> float:
        """When the next thing happens: now, if something has happened that is not carried out yet."""
        return self.now if self.nodes.dirty else self.agenda.next_at

    def _end_instant(self) -> bool:
        if not self.nodes.dirty:
            return False
        self.nodes.flush()
        return True

    def write(self, kind: Callable[..., Any], *fields: Any) -> None:
        """Write a record into the history; if it is ground truth, into the journal too."""
        if self.history is not None:
            self.history.append(kind(self.now, len(self.history), *fields))
        if self.journal is not None:
            self.journal.happened(kind, *fields)

    def observe(self, observer: Observer) -> None:
        """Show it every step from now on; or, if it is a reporter, what it shows."""
        if isinstance(observer, Reporter):
            self.reporters.add(observer)
        else:
            self.observers.append(observer)

    def show(self, node: Domain, what: Seen) -> None:
        self.reporters.show(self.now, node, what)

    def luck_of(self, *about: object) -> int:
        """A number for a core to make its choices with. From its name and not from our generator, so that one
        more member changes no other's luck."""
        text = " ".join(map(str, (self.seed, *about))).encode()
        return crc32(text) << 32 | crc32(text[::-1])

    # Programs

    def program(self, host: str, name: str = "app", *, uid: int = OWN_UID) -> SimProgram:
        """Start a program on a host; it opens its endpoint as soon as the agent answers."""
        process = self.process(host)
        if process.path in self.tree.children:
            raise BadInput(f"{process.path} is not a host", fix=f"one of: {_some(self.tree.hosts)}")
        if process.node is None:
            raise BadInput(f"{process.path} is down, nothing can start there", fix="restart it first")
        program = SimProgram(self, process.path, parse_endpoint_name(name))
        self.programs.append(program)
        program.link = self.fronts.connect(process, name, program, uid)
        program.ask(Open(name))
        return program

    def ask(self, program: SimProgram, request: Any) -> SimCall:
        return program.ask(request)

    def next_token(self) -> int:
        """For the next question of a program."""
        self._asked += 1
        self.busy()
        return self._asked

    def administer(self, server: str, request: Any) -> SimCall:
        """Ask a server something without an endpoint: `Register`, `Unregister`, `Inspect`."""
        process = self.process(server)
        call = SimCall(None, request, self.now)
        if process.node is None:
            return call  # which is never answered
        known = self._administrators.get(process.path)
        if known is None or known.life != process.life:
            known = self._administrators[process.path] = _Administrator(self, process)
        known.ask(call)
        return call

    def register(self, group: Group) -> SimCall:
        return self.administer(group.scope, Register(group))

    def unregister(self, group: Group) -> SimCall:
        return self.administer(group.scope, Unregister(group))

    def enter(self, host: Domain, event: Event) -> None:
        """Something that a front outside of this world has for a node."""
        self.busy()
        self.nodes.inject(self.processes[host], event)

    def kill(self, program: SimProgram) -> None:
        program.kill()

    def deafen(self, program: SimProgram) -> None:
        program.deafen()

    def undeafen(self, program: SimProgram) -> None:
        program.undeafen()

    def gather_joins(self, host: str, begin: bool) -> None:
        """Joins of this host's programs from now on, until the gathering ends, are of one turn."""
        self.fronts.gather(self.processes[Domain(host)], begin)

    def add(self, *hosts: str) -> "World":
        hierarchy.add(self, hosts)
        return self

    def remove(self, domain: str) -> "World":
        hierarchy.remove(self, domain)
        return self

    # Servers, and their faults: see `SimNodes`

    def crash(self, server: str) -> "World":
        self.nodes.crash(server)
        return self

    def restart(self, server: str) -> "World":
        self.nodes.restart(server)
        return self

    def pause(self, server: str) -> "World":
        self.nodes.pause(server)
        return self

    def resume(self, server: str) -> "World":
        self.nodes.resume(server)
        return self

    def slow(self, server: str, step_s: float) -> "World":
        self.nodes.slow(server, step_s)
        return self

    def fill_disk(self, server: str, *, full: bool = True) -> "World":
        self.nodes.fill_disk(server, full=full)
        return self

    def step_clock(self, server: str, by_s: float) -> "World":
        self.nodes.step_clock(server, by_s)
        return self

    def at(self, when: float, what: Callable[[Any, Any], None], whom: Any, about: Any) -> None:
        self.agenda.at(when, what, whom, about)

    # Faults of the network: see `SimNetwork`

    def cut(self, where: str, only: Channel | None = None) -> "World":
        self.network.cut(where, only)
        return self

    def heal(self, where: str = "", only: Channel | None = None) -> "World":
        self.network.heal(where, only)
        return self

    def lose(self, share: float, where: str = "", only: Channel | None = None) -> "World":
        self.network.lose(share, where, only)
        return self

    def delay(self, least_s: float, where: str = "", only: Channel | None = None) -> "World":
        self.network.delay(least_s, where, only)
        return self

    def make(self, where: str, quality: LineQuality, only: Channel | None = None) -> "World":
        self.network.make(where, quality, only)
        return self

    def throttle(self, bytes_per_s: float | None, where: str = "") -> "World":
        self.network.throttle(bytes_per_s, where)
        return self

    def hold(self, where: str) -> "World":
        self.network.hold(where)
        return self

    def release(self, where: str = "") -> "World":
        self.network.release(where)
        return self

    def reset(self, where: str, *, away_s: float = 0.1) -> "World":
        self.network.reset(where, away_s=away_s)
        return self

    def lines(self, where: str = "") -> Iterator[SimLine]:
        return self.network.lines(where)

    # Names

    def path(self, name: str) -> Domain:
        path = parse_scope(name)
        if path not in self.processes:
            raise BadInput(f"{name!r} is no server of this world", fix=f"one of: {_some(self.tree.servers)}")
        return path

    def process(self, name: str) -> SimProcess:
        return self.processes[self.path(name)]


class _Administrator:
    """Asks a server without an endpoint, as ``rostra register`` does."""

    def __init__(self, world: World, process: SimProcess) -> None:
        self.life = process.life
        self._world = world
        self._calls: dict[int, SimCall] = {}
        self._link: SimLink = world.fronts.connect(process, "admin", self)

    def ask(self, call: SimCall) -> None:
        token = self._world.next_token()
        self._calls[token] = call
        self._link.say_to_front(Ask(token, NO_ENDPOINT, call.request))

    def take(self, item: Answered | Told) -> None:
        assert isinstance(item, Answered), "it has no endpoints to be told something"
        call = self._calls.pop(item.token)
        call.result, call.answered_at = item.answer, self._world.now
        self._world.busy()
        self._world.show(self._link.front.process.path, CallAnswered(call))

    def heard(self, group: Group, item: Item) -> None: ...

    def disconnected(self, why: str) -> None: ...


def _opened(directory: str | Path) -> "SimJournal":
    # Late, because most worlds keep no journal and Arrow takes long to load.
    from rostra.sim.journal import SimJournal

    return SimJournal(directory)


def _some(names: Iterable[str], most: int = 8) -> str:
    listed = list(names)
    return " ".join(listed[:most]) + (" ..." if len(listed) > most else "")
