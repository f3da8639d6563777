"""The delegate of one cluster: a service beside the cluster's server.

    ClusterCore                                              DomainServer, the cluster's
    ┌────────────────────────────────────────────────┐       ┌───────────────────┐
    │ DelegateCore, one per group                    │       │                   │
    │ Aggregate, for submitters                      │       │                   │
    │   │ AskMembership       ▲ Noticed              │       │                   │
    │   ▼                     │                      │  call │                   │
    │ LocalServer, of a host that exists only here ──┼──────▶│ takes it for one  │
    │                                                │ hear  │ of its children   │
    │                                                │◀──────┼── Send            │
    └────────────────────────────────────────────────┘       └───────────────────┘

**Delegate first** (N7). The delegate is a child of its own cluster's server. It receives what the server
sends in the same step, before anything leaves for the LAN's hosts; and what the delegate then sends to a host
stands behind the notice on that host's link.

On the way to other delegates frames are paced (`pace.py`) and may carry parity (`fec.py`).
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    Event,
    Ignored,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Received,
    Send,
    SetTimer,
    Tell,
    TimerFired,
    ignored,
)
from rostra.core.stack import Service, ServiceName
from rostra.names import ROOT, Domain, Endpoint, Group, host_of, incarnation_of, inside, parent
from rostra.protocols.fifo.aggregate import Aggregate
from rostra.protocols.fifo.context import AGGREGATE, delegate_host, delegate_of, timer
from rostra.protocols.fifo.delegate import Backup, DelegateCore, In, Lingering
from rostra.protocols.fifo.events import (
    Appointed,
    AskMembership,
    Broadcast,
    Cast,
    Heard,
    MirrorReplicated,
    Noticed,
    Spilled,
    SpilledRead,
    Transmit,
)
from rostra.protocols.fifo.messages import ADHOC, Channel, decode_control
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.fec import ParityMaker, ParityReader
from rostra.protocols.flow.fragments import Fragments, pieces
from rostra.protocols.flow.messages import (
    AnyDataMessage,
    Data,
    Heartbeat,
    Nak,
    Numbered,
    Parity,
    StartSubmit,
    Stream,
)
from rostra.protocols.flow.pace import Frame, Pace
from rostra.protocols.relaxed import requests as ns
from rostra.protocols.relaxed.domain import SERVER, DomainServer
from rostra.protocols.relaxed.gate import DelegateGate
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.messages import Routed

NOBODY: Final = Endpoint("")

PARITY: Final = "parity"
"""Timers that close a block of frames with its parities."""

PACE: Final = "pace"
"""Timers that let the next paced frame out, of whatever group."""

ANY: Final = Group("", ROOT)


CLUSTER: Final = ServiceName["ClusterCore"]("fifo cluster")


class ClusterCore(Service):
    """The delegate of a cluster. `channel` and `address` say where data travels."""

    name = CLUSTER
    hears = (Send,)
    lanes = (Heard,)
    takes = (
        *(Spilled, SpilledRead, MirrorReplicated, Appointed),
        *(Routed, LinkUp, LinkDown, LinkMoved),
    )

    def __init__(
        self,
        lan: Domain,
        config: FifoConfig | None = None,
        *,
        luck: int = 0,
        channel: Channel | None = None,
        address: str = "",
        replicas: bool = False,
        backup: bool = False,
    ) -> None:
        self.lan = lan
        self.config = config or FifoConfig()
        self.channel, self.address = channel or Channel(), address
        self.host = self.guest = delegate_host(self.lan)
        self.local: LocalServer | None = None  # made when the first group needs it
        self._appeared: set[Domain] = set()  # our host, from then on: before, no message is for it
        self.engaged = (self._appeared,)
        self.me = self.mouth = NOBODY  # its endpoints: the delegate's and the aggregate's
        self.groups: dict[Group, DelegateCore] = {}
        self.aggregates: dict[Group, Aggregate] = {}
        self.replicas, self.backup = replicas, backup  # other replicas exist; one of them is active, not we
        self._luck = luck
        self._makers: dict[tuple[Group, Domain], ParityMaker] = {}
        self._readers: dict[tuple[Group, Domain], ParityReader] = {}
        self._paces: dict[Domain, Pace] = {}
        self._fragments = Fragments(self.config, self._room)
        self._part_bytes = self.config.datagram_bytes
        self._token = 0
        self._asked: dict[int, DelegateCore | Aggregate] = {}
        self._numbers: dict[Group, int] = {}  # where an aggregate goes on after a leave (TX-11)
        self._between: deque[tuple[Group, Event, bool]] = deque()  # delegate to aggregate, or back
        self._knows_all: Instant | None = None  # from when on we know all members

    def receiving_hosts(self, group: Group) -> set[Domain]:
        """The hosts of our LAN that have members in this group, without our own: the aggregate is in this
        process."""
        delegate = self.groups.get(group)
        return set() if delegate is None else {host_of(each) for each in delegate.locals} - {self.host}

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        if self._knows_all is None:
            self._knows_all = now + self.config.semi_wait_s
        self._step(now, event, out)
        self._hear_each_other(now, out)
        return out

    def hear(self, now: Instant, effects: Iterable[Effect]) -> list[Effect]:
        out: list[Effect] = []
        self._from_server(now, effects, out)
        if self._between:
            self._hear_each_other(now, out)
        return out

    @property
    def server(self) -> DomainServer:
        return self.stack[SERVER]

    def _hear_each_other(self, now: Instant, out: list[Effect]) -> None:
        while self._between:
            group, heard, for_aggregate = self._between.popleft()
            if for_aggregate:
                self._drive_aggregate(now, group, heard, out)
            elif group in self.groups:
                self._perform(now, self.groups[group], self.groups[group].step(now, heard), out)

    def _step(self, now: Instant, event: Event, out: list[Effect]) -> None:
        match event:
            case Heard(group, source, messages):
                self._heard(now, group, source, messages, out)
            case TimerFired((_, name, scope, to, what, _)) if what == PARITY:
                group = Group(str(name), Domain(str(scope)))
                if (maker := self._makers.get((group, Domain(str(to))))) is not None:
                    for parity in maker.close():
                        self._say(now, Domain(str(to)), group, parity, out)
            case TimerFired((_, _, _, to, what, _)) if what == PACE:
                self._go_on(now, Domain(str(to)), out)
            case TimerFired((_, name, scope, whose, *_)):
                group = Group(str(name), Domain(str(scope)))
                if whose == self.mouth:
                    self._drive_aggregate(now, group, event, out)
                elif (delegate := self.groups.get(group)) is not None:
                    self._perform(now, delegate, delegate.step(now, event), out)
                else:
                    out.append(Ignored("TimerFired", "not in the group"))
            case Spilled(group) | SpilledRead(group):
                if group in self.groups:
                    delegate = self.groups[group]
                    self._perform(now, delegate, delegate.step(now, event), out)
            case MirrorReplicated(group):
                if self.backup or group in self.groups:
                    delegate = self._delegate(group)
                    self._perform(now, delegate, delegate.step(now, event), out)
            case Appointed(epoch):
                self._appointed(now, epoch, out)
            case Received(_, Routed(destinations=destinations)) if self.local is None and any(
                host_of(each) == self.host for each in destinations
            ):
                self._connect(now, self.server.incarnation, out)

    def _heard(
        self,
        now: Instant,
        group: Group,
        source: Domain,
        messages: Iterable[AnyDataMessage],
        out: list[Effect],
    ) -> None:
        delegate = self.groups.get(group)
        submitted = inside(self.lan, source) and (
            group in self.aggregates or any(type(each) is StartSubmit for each in messages)
        )
        if delegate is None and not submitted:
            out.append(Ignored("Heard", "not in the group"))
            return
        if delegate is not None:
            messages = self._paced_questions(now, delegate, source, messages)
        plain = self._without_parity(delegate, source, messages)
        heard, needless = self._fragments.whole(now, group, plain)
        out += [Ignored("Data", "part of a message that is here")] * len(needless)
        if submitted:
            heard = self._submitted(now, group, source, heard, out)
        if heard and delegate is not None:
            self._perform(now, delegate, delegate.step(now, Heard(group, source, tuple(heard))), out)

    def _room(self, group: Group, stream: Stream, number: int) -> int:
        """How many bytes to keep for parts of this message; 0 if neither delegate nor aggregate waits for
        it."""
        machines = [table[group] for table in (self.groups, self.aggregates) if group in table]
        return max([machine.room(stream, number) for machine in machines], default=0)

    def _appointed(self, now: Instant, epoch: int, out: list[Effect]) -> None:
        """This replica is active now: join under the new epoch every group that was mirrored to us."""
        self.backup = False
        self._knows_all = now
        self._connect(now, epoch, out)
        for group in sorted(self.groups):
            delegate = self.groups[group]
            self._perform(now, delegate, delegate.step(now, Appointed(epoch)), out)

    def _connect(self, now: Instant, epoch: int, out: list[Effect]) -> None:
        """The delegate's host appears: a child like any other, except that its link is a function call."""
        self.local = LocalServer(self.host, incarnation=epoch, gate=DelegateGate())
        self._appeared.add(self.host)
        self.mouth = NOBODY
        self.aggregates.clear()
        self._numbers.clear()
        self._call_server(now, LinkUp(self.host, epoch), out)
        self._from_local(now, self.local.step(now, LinkUp(self.lan, self.server.incarnation)), out)
        for effect in self.local.step(now, Asked(NOBODY, 0, ns.Open(ADHOC))):
            assert isinstance(effect, Answer) and isinstance(effect.result, ns.Opened)
            self.me = effect.result.endpoint

    def _call_server(self, now: Instant, event: Event, out: list[Effect]) -> None:
        self._from_server(now, self.stack.call(now, self, SERVER, event), out)

    def _from_server(self, now: Instant, effects: Iterable[Effect], out: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and effect.to == self.host:
                assert self.local is not None
                message = effect.message
                if isinstance(message, Routed):
                    # A source need not know the delegate's epoch: 0 stands for the present one.
                    any_epoch = delegate_of(self.lan)
                    to = tuple([self.me if each == any_epoch else each for each in message.destinations])
                    message = replace(message, destinations=to)
                self._from_local(now, self.local.step(now, Received(self.lan, message)), out)
            else:
                out.append(effect)

    def _from_local(self, now: Instant, effects: Iterable[Effect], out: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(_, message):
                    self._call_server(now, Received(self.host, message), out)
                case Tell(endpoints, notice):
                    self._told(now, endpoints, notice, out)
                case Answer(token, ns.Absolute() as result):
                    machine = self._asked.pop(token)
                    self._perform(now, machine, machine.step(now, Noticed(result)), out)
                case Answer(token):
                    self._asked.pop(token, None)
                case _:
                    out.append(effect)

    def _told(self, now: Instant, endpoints: tuple[Endpoint, ...], notice: object, out: list[Effect]) -> None:
        concerned: list[DelegateCore | Aggregate] = []
        match notice:
            case ns.Absolute(group) | ns.Joined(group) | ns.Left(group):
                concerned = [table[group] for table in self._tables(endpoints) if group in table]
            case ns.Message(source, data):
                message = decode_control(data)
                if message is None:
                    out.append(Ignored("Message", "not a control message"))
                    return
                if not self._may_speak(source, message.group):
                    out.append(ignored(message, "nobody there is in the group"))
                    return
                if self.me in endpoints:
                    concerned = [self._delegate(message.group)]
                elif message.group in self.aggregates:
                    concerned = [self.aggregates[message.group]]
            case ns.Only() | ns.Without():
                concerned = [table[group] for table in self._tables(endpoints) for group in sorted(table)]
        for machine in concerned:
            self._perform(now, machine, machine.step(now, Noticed(notice)), out)

    def _may_speak(self, source: Endpoint, group: Group) -> bool:
        """May this endpoint send control messages about this group? A host of our LAN needs a member in it;
        other sources are checked by the delegate (`permitted.py`)."""
        host = host_of(source)
        return parent(host) != self.lan or host == self.host or host in self.server.table.child_holders(group)

    def _tables(
        self, endpoints: tuple[Endpoint, ...]
    ) -> list[dict[Group, DelegateCore] | dict[Group, Aggregate]]:
        """The machines that a notice is for, delegates first."""
        found: list[dict[Group, DelegateCore] | dict[Group, Aggregate]] = []
        if self.me in endpoints:
            found.append(self.groups)
        if self.mouth in endpoints:
            found.append(self.aggregates)
        return found

    def _delegate(self, group: Group) -> DelegateCore:
        delegate = self.groups.get(group)
        if delegate is None:
            self._luck += 1
            delegate = self.groups[group] = DelegateCore(
                group,
                self.me or delegate_of(self.lan),
                self.config,
                luck=self._luck,
                channel=self.channel,
                address=self.address,
                backup=self.backup,
                mirrored=self.replicas,
                parts=self._fragments.of(group),
            )
        return delegate

    def _perform(
        self, now: Instant, machine: DelegateCore | Aggregate, effects: list[Effect], out: list[Effect]
    ) -> None:
        for effect in effects:
            match effect:
                case Cast(group, message):
                    self._inside(now, machine, message)
                    out += [Cast(group, piece) for piece in pieces(message, self._part_bytes)]
                case Broadcast(lans, group, message):
                    out += [Broadcast(lans, group, piece) for piece in pieces(message, self._part_bytes)]
                case Transmit(to, group, message) if to in (self.lan, self.host):
                    self._inside(now, machine, message)
                case Transmit(to, group, message):
                    for piece in pieces(message, self._part_bytes):
                        self._transmit(now, to, group, piece, out)
                case AskMembership(ns.SendTo((to,), data)) if to == delegate_of(self.lan):
                    message_ = ns.Message(self.mouth, data)
                    self._between.append((machine.group, Noticed(message_), False))
                    self._delegate(machine.group)
                case AskMembership(request):
                    assert self.local is not None
                    self._token -= 1
                    self._asked[self._token] = machine
                    speaker = self.me if isinstance(machine, DelegateCore) else self.mouth
                    asked = Asked(speaker, self._token, request)
                    self._from_local(now, self.local.step(now, asked), out)
                case _:
                    out.append(effect)
        if isinstance(machine, Aggregate):
            self._forget_aggregate(machine)
        else:
            self._tend(now, machine, out)

    def _tend(self, now: Instant, delegate: DelegateCore, out: list[Effect]) -> None:
        group = delegate.group
        if delegate.over and self.groups.get(group) is delegate:
            del self.groups[group]
            self._forget_parts(group)
            for parity in (self._makers, self._readers):
                for key in [key for key in parity if key[0] == group]:
                    del parity[key]
        aggregate = self.aggregates.get(group)
        if aggregate is None:
            return
        if isinstance(delegate.state, Backup):
            del self.aggregates[group]  # its successor is handed everything once more
            self._forget_parts(group)
        elif aggregate.waits:
            self._perform(now, aggregate, aggregate.feed(now), out)

    # Submitters

    def _submitted(
        self, now: Instant, group: Group, source: Domain, messages: list[AnyDataMessage], out: list[Effect]
    ) -> list[AnyDataMessage]:
        """Messages of submitters go to the aggregate; the others are returned."""
        if self.backup:
            return messages
        aggregate = self._aggregate(now, group, out)
        theirs = tuple([each for each in messages if aggregate.concerns(each)])
        rest = [each for each in messages if not aggregate.concerns(each)]
        if theirs:
            self._perform(now, aggregate, aggregate.step(now, Heard(group, source, theirs)), out)
        return rest

    def _aggregate(self, now: Instant, group: Group, out: list[Effect]) -> Aggregate:
        aggregate = self.aggregates.get(group)
        if aggregate is None:
            if self.local is None:
                self._connect(now, self.server.incarnation, out)
            assert self.local is not None
            if not self.mouth:
                for effect in self.local.step(now, Asked(NOBODY, 0, ns.Open(AGGREGATE))):
                    assert isinstance(effect, Answer) and isinstance(effect.result, ns.Opened)
                    self.mouth = effect.result.endpoint
            self._luck += 1
            aggregate = self.aggregates[group] = Aggregate(
                group,
                self.mouth,
                self.config,
                epoch=incarnation_of(self.me),
                luck=self._luck,
                next_seq=self._numbers.get(group, 1),
                wait=lambda now: self._wait(now, group),
                parts=self._fragments.of(group),
            )
        return aggregate

    def _wait(self, now: Instant, group: Group) -> float | None:
        """Seconds until the aggregate may send; None if that does not depend on time alone. A server that has
        just started does not know the members yet, and without known receivers a message would count as
        delivered. After that, every delegate that was in the group before ours must have asked for our
        numbers."""
        delegate = self.groups.get(group)
        if delegate is None or not isinstance(delegate.state, In | Lingering) or delegate.relays.awaited_lans:
            return None
        assert self._knows_all is not None
        left_s = self._knows_all - now
        return left_s if left_s > 1e-6 else 0.0

    def _drive_aggregate(self, now: Instant, group: Group, event: Event, out: list[Effect]) -> None:
        aggregate = self.aggregates.get(group)
        if aggregate is None:
            out.append(ignored(event, "nobody submits"))
        else:
            self._perform(now, aggregate, aggregate.step(now, event), out)

    def _forget_aggregate(self, aggregate: Aggregate) -> None:
        if aggregate.over and self.aggregates.get(aggregate.group) is aggregate:
            self._numbers[aggregate.group] = aggregate.next_seq
            del self.aggregates[aggregate.group]
            self._forget_parts(aggregate.group)

    def _forget_parts(self, group: Group) -> None:
        if group not in self.groups and group not in self.aggregates:
            self._fragments.forget(group)

    def _inside(self, now: Instant, speaker: DelegateCore | Aggregate, message: AnyDataMessage) -> None:
        """Between a delegate and its aggregate messages are queued, so that they stay in order."""
        if isinstance(speaker, Aggregate):
            whole, _ = self._fragments.whole(now, speaker.group, (message,))
            if whole:
                self._between.append((speaker.group, Heard(speaker.group, self.host, tuple(whole)), False))
        elif isinstance(message, Heartbeat | Nak) and speaker.group in self.aggregates:
            self._between.append((speaker.group, Heard(speaker.group, self.lan, (message,)), True))

    # Forward error correction, on the way to other delegates

    def _transmit(
        self, now: Instant, to: Domain, group: Group, message: AnyDataMessage, out: list[Effect]
    ) -> None:
        if type(message) is not Data or inside(self.lan, to):
            out.append(Transmit(to, group, message))
            return
        frames = self.config.parity_frames
        if not frames or message.repair:
            self._say(now, to, group, message, out)
            return
        maker = self._makers.get((group, to))
        if maker is None:
            maker = self._makers[group, to] = ParityMaker(frames, incarnation_of(self.me) << 20)
        if not maker.open:
            out.append(SetTimer(timer(group, to, PARITY), self.config.parity_close_s))
        for piece in maker.add(message):
            self._say(now, to, group, piece, out)

    # Congestion control

    def _say(self, now: Instant, to: Domain, group: Group, frame: Frame, out: list[Effect]) -> None:
        pace = self._paces.get(to)
        if pace is None:
            pace = self._paces[to] = Pace(self.config.datagram_bytes)
        if (delegate := self.groups.get(group)) is not None:
            pace.meet(now, delegate.peers.delegate(to))
        if pace.send(now, group, frame):
            out.append(Transmit(to, group, frame))
        elif pace.waiting == 1:
            out.append(SetTimer(timer(ANY, to, PACE), pace.wait(now) or 0.0))

    def _go_on(self, now: Instant, to: Domain, out: list[Effect]) -> None:
        pace = self._paces[to]
        out += [Transmit(to, each.group, each.frame) for each in pace.due(now) if each.group in self.groups]
        wait_s = pace.wait(now)
        if wait_s is not None:
            out.append(SetTimer(timer(ANY, to, PACE), wait_s))

    def _paced_questions(
        self, now: Instant, delegate: DelegateCore, source: Domain, messages: Iterable[AnyDataMessage]
    ) -> Iterable[AnyDataMessage]:
        """Tell the congestion control what was lost; drop requests for frames that are on their way."""
        pace = self._paces.get(source)
        if pace is None or (pace.rate is None and not any(type(message) is Nak for message in messages)):
            return messages
        pace.meet(now, delegate.peers.delegate(source))
        again_s = self.config.again_after(delegate.relays.repairs.round_trips.get(source))
        kept = [
            pace.asked(now, delegate.group, message, again_s) if isinstance(message, Nak) else message
            for message in messages
        ]
        pace.heard(now, again_s)
        return [message for message in kept if message is not None]

    def _without_parity(
        self, delegate: DelegateCore | None, source: Domain, messages: Iterable[AnyDataMessage]
    ) -> list[AnyDataMessage]:
        """Rebuild lost frames of delegates that we know; take the data of others as it is."""
        knows = delegate is not None and delegate.peers.delegate(source) is not None
        plain: list[AnyDataMessage] = []
        for message in messages:
            if isinstance(message, Numbered | Parity):
                if delegate is not None and knows:
                    reader = self._readers.setdefault((delegate.group, source), ParityReader())
                    plain += reader.hear(message)
                elif isinstance(message, Numbered):
                    plain.append(message.data)
            else:
                plain.append(message)
        return plain
