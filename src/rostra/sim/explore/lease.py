"""The lease by which one living side lives (`protocols/agreed/lease`): servers, and a host below one of them,
that stand still, are cut off, and are given up. Time is part of this model.

    tick           a second passes; alarms and timers that are due go off, in processes that run
    deliver a b    a's next message reaches b; messages that wait are as good as a cut
    stop a         SIGSTOP: no message, no timer              resume a       and its alarm is first
    reset a b      a's link to b ends, and not of silence     down a b       a sees that b's end is gone
    silent a b     a gives b up: it heard nothing for longer than a lease lasts
    join b         one more member joins below b: fewer may live without the others from then on

Servers are `AgreedServer`s, whose group lets one side live at most; with two, or when members join, the
second has most of the members. The host, below the first server, keeps a `BranchLease`; other servers stand
for their hosts. What must hold at every instant: of two processes that run and live, neither is outside of
the other's later view.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict, replace

from rostra.core.effects import (
    CancelTimer,
    Effect,
    Event,
    Instant,
    LinkDown,
    LinkUp,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
)
from rostra.errors import BadInput
from rostra.groups.kinds import GroupKind, MembershipKind
from rostra.groups.members import Because
from rostra.names import Domain, Endpoint, Group
from rostra.protocols.agreed.branch import ConfirmAsked, LeaseAsked, LeaseGiven, ViewId, ViewTaken, ViewTold
from rostra.protocols.agreed.changes import (
    GroupChange,
    GroupVerb,
    MemberId,
    Pid,
    ServerId,
    SetMember,
    SetView,
)
from rostra.protocols.agreed.config import AgreedConfig
from rostra.protocols.agreed.core import SetCore
from rostra.protocols.agreed.events import ChangeAsked
from rostra.protocols.agreed.groups import AgreedView
from rostra.protocols.agreed.lease import ALARM, FOR_EVER, NEVER, BranchLease
from rostra.protocols.agreed.part import CoreSet, ToldGroup
from rostra.protocols.agreed.promises import GivenLeases
from rostra.protocols.agreed.server import AgreedServer
from rostra.protocols.agreed.state import SetState, founded
from rostra.protocols.agreed.told_views import view_of
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.neighbours import Neighbours
from rostra.protocols.relaxed.registry import Registry
from rostra.sim.explore.model import Numbers, SearchBounds, Words, shown

SET: Final = Domain("eu")
LEDGER: Final = Group("ledger", SET)
KIND: Final = GroupKind(MembershipKind.AGREED, survive="majority")
CONFIG: Final = AgreedConfig(
    ack_after_s=1.0,
    commit_after_s=1.0,
    status_after_s=1.0,
    stagger_s=1.0,
    doubt_after_s=2.0,
    gather_s=0.0,
    reform_s=0.0,
    retries=1,
)
SILENT_S: Final = 3.0
"""Who was silent for so long is given up: the least that `lease_is_safe` allows, in whole seconds."""


class LeaseBounds(SearchBounds, frozen=True, kw_only=True):
    """`servers` in all, two or three; seconds that pass (`ticks`); processes that are stopped (`stops`);
    links that end although their ends were not silent (`resets`); members that join meanwhile (`joins`)."""

    servers: int = 2
    ticks: int = 4
    stops: int = 1
    resets: int = 1
    joins: int = 0


class LeaseServer(AgreedServer):
    """Only one host is there; and nothing is written to disk, since no process crashes."""

    def _tell(self, core: CoreSet, group: Group, hosts: Iterable[Domain], out: list[Effect]) -> None:
        super()._tell(core, group, [each for each in hosts if each in self._neighbours.up], out)

    def _keep(self, core: CoreSet) -> None:
        pass


class LivesUntilItAgrees(LeaseServer):
    """H2: a side that was cut off goes on until it has agreed on that."""

    def _ends(self, core: CoreSet) -> dict[Group, Instant]:
        return dict.fromkeys(super()._ends(core), FOR_EVER)


class LendsWhatItHasNot(LeaseServer):
    def _left_ms(self, now: Instant) -> int:
        return int(1000 * self._config.doubt_after_s)


class BrokenPromises(GivenLeases):
    def are_running(self, now: Instant, servers: tuple[ServerId, ...], doom_s: float) -> bool:
        return False


class CountsFromAnswer(BranchLease):
    def given(self, answer: LeaseGiven) -> bool:
        asked = self._questions._asked
        if answer.number in asked:
            asked[answer.number] = self._seen_at
        return super().given(answer)


Times = tuple[tuple[Any, Instant], ...]


class ServerProcess(Struct, frozen=True):
    """Everything of a server that matters here."""

    state: SetState
    up: tuple[Domain, ...]
    heard: Times  # when the last message of each neighbour came
    promised: tuple[Times, Times, Times] = ((), (), ())
    asked: Times = ()
    number: int = 0
    answers: tuple[tuple[ServerId, Any], ...] = ()
    history: tuple[Pid, ...] = ()
    ask_at: Instant = 0.0
    suspended: bool = False
    lent: Times = ()
    lost: Times = ()
    lent_in_doubt: Instant = NEVER
    told: tuple[tuple[Domain, ViewId], ...] = ()
    untaken: frozenset[Domain] = frozenset()
    running: frozenset[TimerKey] = frozenset()  # timers, as the service knows
    timers: Times = ()
    alarm_at: Instant = FOR_EVER
    stopped: bool = False


class HostProcess(Struct, frozen=True):
    asked: Times = ()
    number: int = 0
    ends: tuple[Instant, ...] = ()
    up: bool = True
    view: AgreedView | None = None
    blocked: bool = False
    lives: bool = False
    stopped: bool = False


class LeaseLane(Struct, frozen=True):
    messages: tuple[Any, ...] = ()
    ended: bool = False  # the other end is gone


class LeaseAct(NamedTuple):
    verb: str
    node: int = -1
    peer: int = -1


class LeaseWorld(NamedTuple):
    now: int
    nodes: tuple[int, ...]
    lanes: tuple[int, ...]  # to, from; -1: no link
    spent: tuple[int, ...]
    trouble: tuple[str, ...] = ()


class LeaseModel:
    name: ClassVar[str] = "lease"
    about: ClassVar[str] = "servers and a host live by leases, are stopped, cut off and given up"
    plants: ClassVar[Mapping[str, str]] = {
        "block-late": "a server that was cut off goes on until it has agreed on that (H2)",
        "host-at-ease": "a host lives without a lease",
        "lend-too-much": "a server lends more than is left of its own lease",
        "break-promises": "a server removes those whose lease it confirmed",
        "from-the-answer": "a lease counts from its answer, and not from its question",
        "late-alarm": "a process that stood still does not look at its lease first",
        "hasty-detector": "a neighbour is given up as silent that may live by a lease",
    }
    _faults: ClassVar[tuple[str, ...]] = ("stops", "resets", "joins")

    def __init__(self, bounds: LeaseBounds | None = None, plant: str | None = None) -> None:
        self.bounds: LeaseBounds = bounds or LeaseBounds()
        self.plant = plant
        count = self.bounds.servers
        if not 2 <= count <= 3:
            raise BadInput(f"servers is {count}", fix="2 or 3")
        if not 0 <= self.bounds.joins <= 2:
            raise BadInput(f"joins is {self.bounds.joins}", fix="0 to 2")
        self.servers = tuple([Domain(f"eu.{name}") for name in "abc"[:count]])
        self.names = (*self.servers, Domain("eu.a.h"))
        self.ids = tuple([ServerId(name, 1) for name in self.servers])
        self.member = MemberId(Endpoint("eu.a.h/ann#1"), (1, 1))
        below = self.servers[1:] if count == 3 and not self.bounds.joins else self.servers[1:2] * 2
        others = [
            MemberId(Endpoint(f"{name}.h/{who}#1"), (1, 1))
            for name, who in zip(below, ("bob", "eve"), strict=True)
        ]
        self.members = (self.member, *others)[: 3 - self.bounds.joins]
        self._joining = (self.member, *others)[3 - self.bounds.joins :]
        kinds = {"block-late": LivesUntilItAgrees, "lend-too-much": LendsWhatItHasNot}
        self._kind: type[LeaseServer] = kinds.get(plant or "", LeaseServer)
        self._promises = BrokenPromises if plant == "break-promises" else GivenLeases
        self._branch = CountsFromAnswer if plant == "from-the-answer" else BranchLease
        self._silent_s = 0.0 if plant == "hasty-detector" else SILENT_S
        self._limits: dict[str, int] = asdict(self.bounds)
        self._numbers = Numbers()
        self._stepped: dict[tuple[object, ...], tuple[int, tuple[Effect, ...], tuple[str, ...]]] = {}
        self._first: LeaseWorld | None = None
        self._links = frozenset(
            [(one, other) for one in range(count) for other in range(count) if one != other]
            + [(0, count), (count, 0)]
        )

    # The model

    def initial(self) -> LeaseWorld:
        """All have agreed on one view, and have a lease since this moment."""
        if self._first is None:
            self._first = self._begun()
        return self._first

    def _begun(self) -> LeaseWorld:
        numbers, count = self._numbers, len(self.names)
        nodes = []
        for name, state in zip(self.servers, self._agreed(), strict=True):
            up = [self.names[other] for one, other in self._links if self.names[one] == name]
            heard = tuple([(each, 0.0) for each in sorted(up)])
            nodes.append(numbers.of(ServerProcess(state, tuple(sorted(up)), heard, history=(state.base,))))
        nodes.append(numbers.of(HostProcess()))
        empty = numbers.of(LeaseLane())
        lanes = tuple(
            [empty if (to, sender) in self._links else -1 for to in range(count) for sender in range(count)]
        )
        world = LeaseWorld(0, tuple(nodes), lanes, (0,) * len(self._faults))
        for _ in range(2):  # the second time with what the servers lend each other
            for node in range(count):
                world = self._happens(world, node, TimerFired(ALARM))[0]
            world = self._drained(world)
        assert all(self._lives(world, node) for node in range(count)), "all live in the beginning"
        return world

    def _agreed(self) -> list[SetState]:
        """The scope's own server was there when the group began, and has gone since."""
        servers_of_set = (*self.ids, ServerId(SET, 1))
        members = [SetMember(id, 0, place, id.server == SET) for place, id in enumerate(servers_of_set)]
        view = SetView(1, Pid(servers_of_set[-1], 0), tuple(members))
        cores = {id.server: SetCore(SET, founded(id, view), CONFIG) for id in servers_of_set}
        due: list[tuple[Domain, Event]] = [
            (one, LinkUp(other, 1)) for one in cores for other in cores if one != other
        ]
        for place, member in enumerate(self.members):
            change = GroupChange(LEDGER, GroupVerb.JOIN, (member,), f"join {place}", kind=KIND)
            due.append((self.servers[min(place, 1)], ChangeAsked(change)))
            _flow(cores, due, -CONFIG.doubt_after_s)
        _flow(cores, [(one, LinkDown(SET, Because(one, SET, "reset"))) for one in self.servers])
        states = [cores[name].state for name in self.servers]
        assert {state.view.servers for state in states} == {self.ids}
        assert {state.table.groups[LEDGER].view.ids for state in states} == {self.members}
        return states

    def _drained(self, world: LeaseWorld) -> LeaseWorld:
        while acts := [each for each in self.actions(world) if each.verb == "deliver"]:
            world = self.apply(world, acts[0])
        return world

    def actions(self, state: LeaseWorld) -> list[LeaseAct]:
        numbers, count = self._numbers, len(self.names)
        may = {
            name: spent < self._limits[name] for name, spent in zip(self._faults, state.spent, strict=True)
        }
        found = [LeaseAct("tick")] if state.now < self.bounds.ticks else []
        if may["joins"]:
            found.append(LeaseAct("join", self._joins_at(state)))
        for node in range(count):
            process = numbers[state.nodes[node]]
            if process.stopped:
                found.append(LeaseAct("resume", node))
                continue
            if may["stops"]:
                found.append(LeaseAct("stop", node))
            heard = dict(process.heard) if isinstance(process, ServerProcess) else {}
            for peer in range(count):
                place = state.lanes[node * count + peer]
                if place < 0:
                    continue
                lane: LeaseLane = numbers[place]
                if lane.messages:
                    found.append(LeaseAct("deliver", peer, node))
                if lane.ended:
                    found.append(LeaseAct("down", node, peer))
                elif node < len(self.servers):
                    if may["resets"]:
                        found.append(LeaseAct("reset", node, peer))
                    if state.now - heard[self.names[peer]] >= self._silent_s:
                        found.append(LeaseAct("silent", node, peer))
        return found

    def _joins_at(self, state: LeaseWorld) -> int:
        joining = self._joining[state.spent[self._faults.index("joins")]]
        return [joining.endpoint.startswith(f"{name}.") for name in self.servers].index(True)

    def apply(self, state: LeaseWorld, action: LeaseAct) -> LeaseWorld:
        return self._apply(state, action)[0]

    def _apply(self, state: LeaseWorld, action: LeaseAct) -> tuple[LeaseWorld, list[Effect]]:
        verb, node, peer = action
        match verb:
            case "tick":
                state = state._replace(now=state.now + 1)
                told: list[Effect] = []
                for each in range(len(self.names)):
                    if not self._numbers[state.nodes[each]].stopped:
                        state, more = self._go_off(state, each)
                        told += more
                return state, told
            case "stop":
                state = self._paid(state, "stops")
                return self._with(state, node, replace(self._numbers[state.nodes[node]], stopped=True)), []
            case "resume":
                state = self._with(state, node, replace(self._numbers[state.nodes[node]], stopped=False))
                if self.plant == "late-alarm":
                    return state, []
                return self._happens(state, node, TimerFired(ALARM))
            case "join":
                joining = self._joining[state.spent[self._faults.index("joins")]]
                change = GroupChange(LEDGER, GroupVerb.JOIN, (joining,), f"join {joining}", kind=KIND)
                return self._happens(self._paid(state, "joins"), node, ChangeAsked(change))
            case "deliver":
                sender, at = node, peer
                lane: LeaseLane = self._numbers[state.lanes[at * len(self.names) + sender]]
                state = self._with_lane(state, at, sender, replace(lane, messages=lane.messages[1:]))
                return self._happens(state, at, Received(self.names[sender], lane.messages[0]))
        if verb == "reset":
            state = self._paid(state, "resets")
        state = self._with_lane(state, node, peer, None)
        if state.lanes[peer * len(self.names) + node] >= 0:
            other: LeaseLane = self._numbers[state.lanes[peer * len(self.names) + node]]
            state = self._with_lane(state, peer, node, replace(other, ended=True))
        why = "silent" if verb == "silent" else "reset"
        gone = Because(self.names[node], self.names[peer], why)
        return self._happens(state, node, LinkDown(self.names[peer], gone))

    def _go_off(self, state: LeaseWorld, node: int) -> tuple[LeaseWorld, list[Effect]]:
        """What is due at this process: its alarm, then timers."""
        state, told = self._happens(state, node, TimerFired(ALARM))
        process = self._numbers[state.nodes[node]]
        for timer, due in process.timers if isinstance(process, ServerProcess) else ():
            if due <= state.now and (timer, due) in self._numbers[state.nodes[node]].timers:
                state, more = self._happens(state, node, TimerFired(timer))
                told += more
        return state, told

    def _happens(self, state: LeaseWorld, node: int, event: Event) -> tuple[LeaseWorld, list[Effect]]:
        number, effects, failed = self._step(state.now, node, state.nodes[node], event)
        nodes = (*state.nodes[:node], number, *state.nodes[node + 1 :])
        state = state._replace(nodes=nodes, trouble=(*state.trouble, *failed))
        for effect in effects:
            if isinstance(effect, Send) and effect.to in self.names:
                to = self.names.index(effect.to)
                place = state.lanes[to * len(self.names) + node]
                if place >= 0 and not self._numbers[place].ended:
                    lane = self._numbers[place]
                    lane = replace(lane, messages=_with_message(lane.messages, effect.message))
                    state = self._with_lane(state, to, node, lane)
        return state, list(effects)

    def _with(self, state: LeaseWorld, node: int, process: object) -> LeaseWorld:
        number = self._numbers.of(process)
        return state._replace(nodes=(*state.nodes[:node], number, *state.nodes[node + 1 :]))

    def _with_lane(self, state: LeaseWorld, to: int, sender: int, lane: LeaseLane | None) -> LeaseWorld:
        place = to * len(self.names) + sender
        number = -1 if lane is None else self._numbers.of(lane)
        return state._replace(lanes=(*state.lanes[:place], number, *state.lanes[place + 1 :]))

    def _paid(self, state: LeaseWorld, bound: str) -> LeaseWorld:
        spent = list(state.spent)
        spent[self._faults.index(bound)] += 1
        return state._replace(spent=tuple(spent))

    # Steps of processes

    def _step(
        self, now: int, node: int, number: int, event: Event
    ) -> tuple[int, tuple[Effect, ...], tuple[str, ...]]:
        key = (now, node, number, event)
        found = self._stepped.get(key)
        if found is None:
            process = self._numbers[number]
            try:
                step: Any = self._host_step if isinstance(process, HostProcess) else self._server_step
                after, effects = step(float(now), node, process, event)
                found = (self._numbers.of(after), tuple(effects), ())
            except AssertionError as error:
                found = (number, (), (f"{self.names[node]} failed at {shown(event)}: {error}",))
            self._stepped[key] = found
        return found

    def _host_step(
        self, now: Instant, node: int, before: HostProcess, event: Event
    ) -> tuple[HostProcess, list[Effect]]:
        lease, out = self._branch(CONFIG.doubt_after_s), list[Effect]()
        lease._questions._asked, lease._questions._number = dict(before.asked), before.number
        lease._ends = list(before.ends)
        lease.saw(now)
        up, view, blocked = before.up, before.view, before.blocked
        match event:
            case Received(_, ViewTold() as told):
                view = view_of(told, before.view)
                out.append(Send(self.servers[0], ViewTaken(LEDGER, self.names[-1], told.id, view is None)))
                view, blocked = view or before.view, bool(told.blocked) if view else blocked
            case Received(_, LeaseGiven() as given):
                lease.given(given)
            case LinkDown():
                lease.lapse()
                up, blocked = False, True
            case _ if up:
                out.append(Send(self.servers[0], lease.ask(now)))
        is_inside = view is None or self.member in view.ids
        has_lease = self.plant == "host-at-ease" or now < lease.ends_at(0)
        lives = has_lease and is_inside and not blocked
        asked = tuple(lease._questions._asked.items())
        number = lease._questions._number
        return HostProcess(asked, number, tuple(lease._ends), up, view, blocked, lives), out

    def _server_step(
        self, now: Instant, node: int, before: ServerProcess, event: Event
    ) -> tuple[ServerProcess, list[Effect]]:
        server, neighbours = self._thawed(node, before)
        heard = dict(before.heard)
        timers = dict(before.timers)
        match event:
            case Received(sender):
                heard[sender] = now
            case LinkDown(peer):
                neighbours.disconnect(peer)
            case TimerFired(timer):
                timers.pop(timer, None)
        if isinstance(event, ChangeAsked):
            effects = server.step(now, TimerFired(ALARM))
            server._propose(now, server.sets[SET], event.change, effects)
            effects += server.step(now, TimerFired(ALARM))
        elif event != TimerFired(ALARM) and now >= server.stack.alarm_at and self.plant != "late-alarm":
            effects = [*server.step(now, TimerFired(ALARM)), *server.step(now, event)]
        else:
            effects = server.step(now, event)
        for effect in effects:
            match effect:
                case SetTimer(timer, after_s):
                    timers[timer] = now + after_s
                case CancelTimer(timer):
                    timers.pop(timer, None)
        return self._frozen(server, neighbours, heard, timers), effects

    def _thawed(self, node: int, process: ServerProcess) -> tuple[LeaseServer, Neighbours]:
        me = self.servers[node]
        neighbours = Neighbours(me, cluster=True)
        for peer in process.up:
            relation = neighbours.relation(peer)
            assert relation is not None
            neighbours.up[peer] = relation
        server = self._kind(me, Registry(), CONFIG)
        services: dict[object, object] = {SERVER: SimpleNamespace(neighbours=neighbours, incarnation=1)}
        stack: Any = ModelStack(services)
        stack.alarm_at = process.alarm_at
        server.stack = stack
        server._began_at = -100.0
        server._lent, server._lost = dict(process.lent), dict(process.lost)
        server._lent_in_doubt = process.lent_in_doubt
        server._timers = set(process.running)
        core = server._new_part(-100.0, SetCore(SET, process.state, CONFIG))
        core.core.leases = self._promises()
        core.core.leases._until, core.core.leases._doomed, core.core.leases._lost = map(
            dict, process.promised
        )
        core.lease.questions._asked = dict(process.asked)
        core.lease.questions._number = process.number
        core.lease._answers = dict(process.answers)
        core.lease._history = dict.fromkeys(process.history)
        core.ask_at = process.ask_at
        if process.told or process.untaken:
            core.told[LEDGER] = ToldGroup(dict(process.told), set(process.untaken))
        if process.suspended:
            core.suspended.add(LEDGER)
        return server, neighbours

    def _frozen(
        self,
        server: LeaseServer,
        neighbours: Neighbours,
        heard: dict[Domain, Instant],
        timers: dict[TimerKey, Instant],
    ) -> ServerProcess:
        core = server.sets[SET]
        given, told = core.core.leases, core.told.get(LEDGER, ToldGroup())
        return ServerProcess(
            core.core.state,
            tuple(sorted(neighbours.up)),
            _sorted(heard),
            (_sorted(given._until), _sorted(given._doomed), _sorted(given._lost)),
            tuple(core.lease.questions._asked.items()),
            core.lease.questions._number,
            tuple(sorted(core.lease._answers.items())),
            tuple(core.lease._history),
            core.ask_at,
            LEDGER in core.suspended,
            _sorted(server._lent),
            _sorted(server._lost),
            server._lent_in_doubt,
            tuple(sorted(told.ids.items())),
            frozenset(told.untaken),
            frozenset(server._timers),
            _sorted(timers),
            server.stack.alarm_at,
        )

    # What must hold

    def canonical(self, state: LeaseWorld) -> LeaseWorld:
        return state

    def _lives(self, state: LeaseWorld, node: int) -> bool:
        process = self._numbers[state.nodes[node]]
        if process.stopped:
            return False
        if isinstance(process, HostProcess):
            return process.lives
        known = process.state.table.groups[LEDGER]
        return not process.suspended and not known.blocked and bool(known.view.members)

    def violations(self, state: LeaseWorld) -> Sequence[str]:
        living = [node for node in range(len(self.names)) if self._lives(state, node)]
        views: list[tuple[int, int, tuple[MemberId, ...]]] = []
        for node in living:
            process = self._numbers[state.nodes[node]]
            if isinstance(process, ServerProcess):
                known = process.state.table.groups[LEDGER]
                views.append((known.living.fence, node, known.view.ids))
        found = list(state.trouble)
        if len(self.servers) in living:
            found += [
                f"{self.names[-1]} lives, and {self.names[node]} with fence {fence} without it"
                for fence, node, ids in views
                if self.member not in ids
            ]
        for fence, node, ids in views:
            if not node:  # its members are on the host, which may be lost to it alone
                continue
            mine = [id for id in ids if id.endpoint.startswith(f"{self.servers[node]}.")]
            found += [
                f"{self.names[node]} lives with fence {fence}, {self.names[other]} with {later} without it"
                for later, other, theirs in views
                if later > fence and not set(mine) <= set(theirs)
            ]
        return found

    def words(self, action: LeaseAct) -> Words:
        return (action.verb, *[self.names[each] for each in action[1:] if each >= 0])

    def remark(self, state: LeaseWorld, action: LeaseAct) -> str:
        if action.verb != "deliver":
            return ""
        lane = self._numbers[state.lanes[action.peer * len(self.names) + action.node]]
        return type(lane.messages[0]).__name__

    def told(self, state: LeaseWorld, action: LeaseAct) -> list[str]:
        after = self.apply(state, action)
        changed = [
            (node, self._lives(after, node))
            for node in range(len(self.names))
            if self._lives(state, node) != self._lives(after, node)
        ]
        return [f"{self.names[node]} {'lives' if lives else 'is blocked'}" for node, lives in changed]


def _with_message(messages: tuple[Any, ...], message: object) -> tuple[Any, ...]:
    """A question takes the place of one that has not arrived: its lease would end before this one's."""
    if isinstance(message, LeaseAsked | ConfirmAsked):
        messages = tuple([each for each in messages if type(each) is not type(message)])
    return (*messages, message)


def _flow(cores: Mapping[Domain, SetCore], due: list[tuple[Domain, Event]], now: Instant = 0.0) -> None:
    """All that happens of it, without faults."""
    while due:
        name, event = due.pop(0)
        due += [
            (effect.to, Received(name, effect.message))
            for effect in cores[name].step(now, event)
            if isinstance(effect, Send)
        ]


class ModelStack(dict[object, object]):
    """The services that a server asks here, by name."""

    alarm_at: Instant = FOR_EVER
    alarm: TimerKey = ()


def _sorted(times: Mapping[Any, Instant]) -> Times:
    return tuple(sorted(times.items()))
