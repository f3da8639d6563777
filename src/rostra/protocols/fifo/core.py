"""The doors: all members of one host, and the delegate of one cluster, around the cores that exist already.

      HostCore                                                    ClusterCore
      ┌────────────────────────────────────────┐                  ┌──────────────────────────────────────┐
      │ MemberCore  MemberCore  MemberCore     │  control: links  │ DomainServer                         │
      │   │ Ask, Told   │           │          │◀────────────────▶│    ▲ child: a pretend host           │
      │   ▼             ▼           ▼          │                  │    ▼                                 │
      │ LocalServer, the notice service        │  data: datagrams │ LocalServer ◀─ Ask, Told ─ DelegateCore
      └────────────────────────────────────────┘◀────────────────▶└──────────────────────────────────────┘

A door takes every event that the inner core took, and some more (`events.py`). Members of one host hear each
other's casts here, with whole runs; outside, messages are cut to fit datagrams (`fragments.py`).

**Delegate first** (N7). The delegate is a child of its own cluster's server, on a host that exists only here.
What the server sends to it is handed over in the same step, before anything leaves for the LAN's hosts; and
what the delegate then says to a host stands behind the notice on that host's link.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    EndpointGone,
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
)
from rostra.errors import AlreadyMember, BadInput, NotAvailable, NotMember, Refused
from rostra.groups.attributes import Role
from rostra.names import Domain, Endpoint, Group, host_of, incarnation_of, inside, parent
from rostra.protocols.fifo.aggregate import Aggregate
from rostra.protocols.fifo.delegate import Backup, DelegateCore, In, Lingering
from rostra.protocols.fifo.events import (
    Appointed,
    Ask,
    Broadcast,
    Cast,
    Deliver,
    Heard,
    JoinAsked,
    JoinRefused,
    LeaveAsked,
    Paused,
    Replicated,
    Resumed,
    Spilled,
    SpilledRead,
    Submitted,
    Told,
    Transmit,
)
from rostra.protocols.fifo.listing import shown_notice
from rostra.protocols.fifo.member import MemberCore
from rostra.protocols.fifo.messages import ADHOC, DELEGATE, Channel, decode_control
from rostra.protocols.fifo.newcomers import Newcomers
from rostra.protocols.fifo.submitter import Submitter
from rostra.protocols.fifo.voice import AGGREGATE, delegate_host, delegate_of
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.fec import ParityMaker, ParityReader
from rostra.protocols.flow.fragments import Fragments, pieces
from rostra.protocols.flow.messages import (
    Data,
    Heartbeat,
    Nak,
    Numbered,
    Parity,
    Run,
    Speech,
    StartSubmit,
    Stream,
)
from rostra.protocols.flow.pace import Frame, Pace
from rostra.protocols.flow.runs import is_sound
from rostra.protocols.relaxed import requests as ns
from rostra.protocols.relaxed.domain import DomainServer
from rostra.protocols.relaxed.local import LocalServer
from rostra.protocols.relaxed.messages import Routed
from rostra.protocols.relaxed.view import Fellows

NOBODY: Final = Endpoint("")

PARITY: Final = "adhoc parity"
"""The first word of the timers that close blocks of frames."""


PACE: Final = "adhoc pace"
"""The first word of the timers that let frames out to narrow ways."""


class HostCore:
    """All members of one host, and the local server below them."""

    def __init__(self, local: LocalServer, config: FifoConfig | None = None) -> None:
        self.local = local
        self.host = local.host
        self.config = config or FifoConfig()
        self.members: dict[Group, dict[Endpoint, MemberCore]] = {}
        self.submitters: dict[Group, dict[Endpoint, Submitter]] = {}  # who speak through our delegate
        self.newcomers: dict[Group, Newcomers] = {}  # of the members, those without a list
        self._fellows: dict[Group, Fellows] = {}  # members of one group, who are told the same
        self._fragments = Fragments(self.config, self._room)
        self._part_bytes = self.config.datagram_bytes
        self._numbers: dict[tuple[Endpoint, Group], int] = {}  # where a stream goes on after a leave (TX-11)
        self._token = 0
        # Our questions; whose answer they are.
        self._asked: dict[int, tuple[MemberCore | Submitter, int | None]] = {}

    def present(self, about: str) -> list[tuple[Endpoint, tuple[Group, ...]]]:
        return self.local.present(about)

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        match event:
            case Submitted():
                self._submitted(now, event, out)
            case Heard():
                self._heard(now, event, out)
            case TimerFired(timer) if timer[0] == ADHOC:
                group, endpoint = Group(str(timer[1]), Domain(str(timer[2]))), Endpoint(str(timer[3]))
                self._drive(now, group, endpoint, event, out)
            case Paused(endpoint, group) | Resumed(endpoint, group):
                self._drive(now, group, endpoint, event, out)
            case JoinAsked():
                self._join(now, event, out)
            case LeaveAsked(endpoint, token, group):
                if self._find(group, endpoint) is None:
                    refusal = NotMember(f"{endpoint} is not in {group}", fix="join it first")
                    out.append(Answer(token, ns.denied(refusal)))
                else:
                    self._drive(now, group, endpoint, event, out)
                    out.append(Answer(token, ns.Done()))
            case EndpointGone(endpoint):
                self._endpoint_gone(now, endpoint, event, out)
                self._from_local(now, self.local.step(now, event), out)
            case Asked(endpoint, _, ns.Close()):
                for group in self._groups_of(endpoint):
                    self._drive(now, group, endpoint, LeaveAsked(endpoint, 0, group), out)
                    self._hurry(now, group, endpoint, out)
                self._from_local(now, self.local.step(now, event), out)
            case _:
                self._from_local(now, self.local.step(now, event), out)
        return out

    # Programs

    def _join(self, now: Instant, event: JoinAsked, out: list[Effect]) -> None:
        group, me = event.group, event.endpoint
        before = self.members.get(group, {}).get(me)
        if me not in self.local.endpoints:
            refusal = BadInput(f"no endpoint {me} is open on {self.host}", fix="open it first")
            out.append(Answer(event.token, ns.denied(refusal)))
            return
        self._hurry(now, group, me, out)
        if group in self.local.endpoints[me].groups or me in self.submitters.get(group, {}):
            refusal_ = AlreadyMember(f"{me} is in {group} already", fix="leave it first")
            out.append(Answer(event.token, ns.denied(refusal_)))
            return
        if event.role is Role.SUBMIT:
            self._submit(now, event, before, out)
            return
        member = MemberCore(
            group,
            me,
            self.config,
            luck=event.luck,
            role=event.role,
            slow=event.slow,
            meta=event.meta,
            next_seq=self._numbers.get((me, group), 1),
            fellows=self._fellows.setdefault(group, Fellows()),
            parts=self._fragments.of(group),
        )
        if before is not None:
            # It left a moment ago, and its last messages are still being repaired: that goes on.
            member.sending.inherit(before.sending)
        self.members.setdefault(group, {})[me] = member
        self.newcomers.setdefault(group, Newcomers()).waiting.add(me)
        self._perform(now, member, member.step(now, event), out, joining=event.token)

    def _hurry(self, now: Instant, group: Group, endpoint: Endpoint, out: list[Effect]) -> None:
        member = self.members.get(group, {}).get(endpoint)
        if member is not None and member.departing:
            self._perform(now, member, member.hurry(now), out)

    def _submit(self, now: Instant, event: JoinAsked, before: MemberCore | None, out: list[Effect]) -> None:
        """It will be in no view; but it may speak only where it might have joined."""
        group, me = event.group, event.endpoint
        try:
            self.local.check_may_join(group)
            if before is not None:
                raise AlreadyMember(
                    f"{me} has just left {group}, and its last messages are being repaired",
                    fix="wait for the end of its leave, or open another endpoint",
                )
        except (BadInput, Refused, NotAvailable) as refusal:
            out.append(Answer(event.token, ns.denied(refusal)))
            return
        next_seq = self._numbers.get((me, group), 1)
        submitter = Submitter(group, me, self.config, luck=event.luck, next_seq=next_seq)
        self.submitters.setdefault(group, {})[me] = submitter
        out.append(Answer(event.token, ns.Done()))
        self._perform(now, submitter, submitter.step(now, event), out)

    def _submitted(self, now: Instant, event: Submitted, out: list[Effect]) -> None:
        member = self._find(event.group, event.endpoint)
        if member is None:
            out.append(Ignored("Submitted", "not in the group"))
        elif not is_sound(Run(0, event.count, event.block)):
            out.append(Ignored("Submitted", "not a block of messages"))
        else:
            self._perform(now, member, member.step(now, event), out)

    def _endpoint_gone(self, now: Instant, endpoint: Endpoint, event: Event, out: list[Effect]) -> None:
        for group in self._groups_of(endpoint):
            self._drive(now, group, endpoint, event, out)
            self._numbers.pop((endpoint, group), None)

    # The network

    def _heard(self, now: Instant, event: Heard, out: list[Effect]) -> None:
        members: list[MemberCore | Submitter] = [*self.members.get(event.group, {}).values()]
        members += self.submitters.get(event.group, {}).values()
        if not members:
            out.append(Ignored("Heard", "not in the group"))
            return
        messages, needless = self._fragments.whole(now, event.group, event.messages)
        self._overhear(event.group, needless, out)
        if messages:
            heard = Heard(event.group, event.source, tuple(messages))
            for member in members:
                self._perform(now, member, member.step(now, heard), out)

    def _room(self, group: Group, stream: Stream, number: int) -> int:
        """For parts of this message, should one of our members wait for it."""
        members = self.members.get(group, {}).values()
        return max([member.room(stream, number) for member in members], default=0)

    def _overhear(self, group: Group, needless: Iterable[Data], out: list[Effect]) -> None:
        for part in needless:
            out.append(Ignored("Data", "part of a message that is here"))
            for member in self.members.get(group, {}).values():
                member.overhear(part)

    # Inside

    def _find(self, group: Group, endpoint: Endpoint) -> MemberCore | Submitter | None:
        return self.members.get(group, {}).get(endpoint) or self.submitters.get(group, {}).get(endpoint)

    def _groups_of(self, endpoint: Endpoint) -> list[Group]:
        tables = (self.members, self.submitters)
        return sorted(group for table in tables for group, those in table.items() if endpoint in those)

    def _drive(self, now: Instant, group: Group, endpoint: Endpoint, event: Event, out: list[Effect]) -> None:
        member = self._find(group, endpoint)
        if member is None:
            out.append(Ignored(type(event).__name__, "not in the group"))
        else:
            self._perform(now, member, member.step(now, event), out)

    def _perform(
        self,
        now: Instant,
        member: MemberCore | Submitter,
        effects: list[Effect],
        out: list[Effect],
        joining: int | None = None,
    ) -> None:
        for effect in effects:
            if type(effect) is Deliver:
                out.append(effect)
                continue
            match effect:
                case Cast(group, message):
                    self._inside(now, member, message, out)
                    out += [Cast(group, piece) for piece in pieces(message, self._part_bytes)]
                case Transmit(to, group, message) if to == self.host:
                    self._inside(now, member, message, out)
                case Transmit(to, group, message):
                    out += [Transmit(to, group, piece) for piece in pieces(message, self._part_bytes)]
                case Ask(request):
                    self._token -= 1
                    self._asked[self._token] = (member, joining if isinstance(request, ns.Join) else None)
                    asked = Asked(member.me, self._token, request)
                    self._from_local(now, self.local.step(now, asked), out)
                case _:
                    out.append(effect)
        if member.over:
            self._forget(member)

    def _inside(
        self, now: Instant, speaker: MemberCore | Submitter, message: Speech, out: list[Effect]
    ) -> None:
        """Whoever is on the same host hears it here, at the cost of one effect each."""
        if type(message) is Data and message.size:  # a repair, of which they may have the rest
            whole, needless = self._fragments.whole(now, speaker.group, (message,))
            self._overhear(speaker.group, needless, out)
            if not whole:
                return
            (message,) = whole
        for member in list(self.members.get(speaker.group, {}).values()):
            if member is not speaker:
                effects = member.hear(now, self.host, message)
                if len(effects) == 1 and type(effects[0]) is Deliver:
                    out.append(effects[0])
                elif effects:
                    self._perform(now, member, effects, out)

    def _forget(self, member: MemberCore | Submitter) -> None:
        for table in (self.members, self.submitters):
            those = table.get(member.group, {})
            if those.get(member.me) is member:
                if member.me in self.local.endpoints and member.sending.next_seq > 1:
                    self._numbers[member.me, member.group] = member.sending.next_seq
                del those[member.me]
                if not those:
                    del table[member.group]
                if member.group not in self.members:
                    self._fellows.pop(member.group, None)
                    self._fragments.forget(member.group)
                self._no_newcomer(member.group, member.me)

    def _no_newcomer(self, group: Group, endpoint: Endpoint) -> None:
        """It has its list, or does not wait for it any more."""
        newcomers = self.newcomers.get(group)
        if newcomers is not None:
            newcomers.waiting.discard(endpoint)
            if not newcomers.waiting:
                del self.newcomers[group]

    def _from_local(self, now: Instant, effects: Iterable[Effect], out: list[Effect]) -> None:
        """What the notice service says to members is for their machines; everything else passes."""
        for effect in effects:
            match effect:
                case Tell(endpoints, notice):
                    self._told(now, endpoints, notice, out)
                case Answer(token, result) if token < 0:
                    self._answered(now, token, result, out)
                case _:
                    out.append(effect)

    def _told(self, now: Instant, endpoints: tuple[Endpoint, ...], notice: object, out: list[Effect]) -> None:
        match notice:
            case ns.Absolute(group) | ns.Joined(group) | ns.Left(group):
                members = self.members.get(group)
                if not members:
                    self._tell(endpoints, notice, out)
                    return
                told = Told(notice)
                for endpoint in self._concerned(group, endpoints, notice):
                    if endpoint in members:
                        if isinstance(notice, ns.Absolute):
                            told = Told(self._completed(endpoint, notice))
                        self._drive(now, group, endpoint, told, out)
                others = tuple([endpoint for endpoint in endpoints if endpoint not in members])
                if others:
                    self._tell(others, notice, out)
            case ns.Only() | ns.Without():
                for endpoint in endpoints:
                    for group in self._groups_of(endpoint):
                        self._drive(now, group, endpoint, Told(notice), out)
                out.append(Tell(endpoints, notice))
            case ns.Message(source, data) if host_of(source) == delegate_host(parent(self.host)):
                message = decode_control(data)
                if message is None:
                    out.append(Ignored("Message", "not a control message"))
                    return
                for endpoint in endpoints:
                    self._drive(now, message.group, endpoint, Told(notice), out)
            case ns.Message(source) if host_of(source).endswith(f".{DELEGATE}"):
                out.append(Ignored("Message", "from a delegate of another LAN"))
            case ns.NotDelivered(destinations) if all(
                host_of(each).endswith(f".{DELEGATE}") for each in destinations
            ):
                pass  # the machines' own timers ask again
            case _:
                out.append(Tell(endpoints, notice))

    def _tell(self, endpoints: tuple[Endpoint, ...], notice: object, out: list[Effect]) -> None:
        """To those who are no members of this kind of group: delegates, and keys, are nothing to them."""
        seen = shown_notice(notice)
        if seen is not None:
            out.append(Tell(endpoints, seen))

    def _concerned(self, group: Group, endpoints: tuple[Endpoint, ...], notice: object) -> Sequence[Endpoint]:
        """Newcomers need not hear everything that the others do."""
        newcomers = self.newcomers.get(group)
        if newcomers is None or not newcomers.need_not_hear(notice):
            return endpoints
        return [endpoint for endpoint in endpoints if endpoint not in newcomers.waiting]

    def _completed(self, endpoint: Endpoint, listed: ns.Absolute) -> ns.Absolute:
        """A list as this member is given it; if it is the first one, it is no newcomer any more."""
        newcomers = self.newcomers.get(listed.group)
        if newcomers is not None and endpoint in newcomers.waiting:
            self._no_newcomer(listed.group, endpoint)
            return newcomers.complete(listed)
        return listed

    def _answered(self, now: Instant, token: int, result: object, out: list[Effect]) -> None:
        member, joining = self._asked.pop(token)
        match result:
            case ns.Absolute():
                told = Told(self._completed(member.me, result))
                self._perform(now, member, member.step(now, told), out)
            case ns.Denied() if joining is not None:
                out.append(Answer(joining, result))
                self._perform(now, member, member.step(now, JoinRefused(result)), out)
            case ns.Denied():
                out.append(Ignored("Ask", "denied"))
            case _ if joining is not None:
                out.append(Answer(joining, ns.Done()))


class ClusterCore:
    """The domain server of a cluster with its delegate. `channel` and `address` say where data travels."""

    def __init__(
        self,
        server: DomainServer,
        config: FifoConfig | None = None,
        *,
        luck: int = 0,
        channel: Channel | None = None,
        address: str = "",
        replicas: bool = False,
        backup: bool = False,
    ) -> None:
        assert server.cluster, "only clusters have delegates"
        self.server = server
        self.lan = server.domain
        self.config = config or FifoConfig()
        self.channel, self.address = channel or Channel(), address
        self.host = delegate_host(self.lan)
        self.local: LocalServer | None = None  # made when the first group needs it
        self.me = self.mouth = NOBODY  # as the delegate, and as the speaker for those who submit
        self.groups: dict[Group, DelegateCore] = {}
        self.aggregates: dict[Group, Aggregate] = {}
        self.replicas, self.backup = replicas, backup  # is there another one like us? is it the active one?
        self._luck = luck
        self._makers: dict[tuple[Group, Domain], ParityMaker] = {}
        self._readers: dict[tuple[Group, Domain], ParityReader] = {}
        self._paces: dict[Domain, Pace] = {}
        self._fragments = Fragments(self.config, self._room)
        self._part_bytes = self.config.datagram_bytes
        self._token = 0
        self._asked: dict[int, DelegateCore | Aggregate] = {}
        self._numbers: dict[Group, int] = {}  # where an aggregate goes on after a leave (TX-11)
        self._between: deque[tuple[Group, Event, bool]] = deque()  # said by one of the two, and for the other
        self._knows_all: Instant | None = None  # from when on we know whoever is there

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        if self._knows_all is None:
            self._knows_all = now + self.config.semi_wait_s
        self._step(now, event, out)
        while self._between:
            group, heard, for_aggregate = self._between.popleft()
            if for_aggregate:
                self._drive_aggregate(now, group, heard, out)
            elif group in self.groups:
                self._perform(now, self.groups[group], self.groups[group].step(now, heard), out)
        return out

    def _step(self, now: Instant, event: Event, out: list[Effect]) -> None:
        match event:
            case Heard(group, source, messages):
                self._heard(now, group, source, messages, out)
            case TimerFired(timer) if timer[0] == ADHOC and timer[3] == self.mouth:
                self._drive_aggregate(now, Group(str(timer[1]), Domain(str(timer[2]))), event, out)
            case TimerFired(timer) if timer[0] == ADHOC:
                delegate = self.groups.get(Group(str(timer[1]), Domain(str(timer[2]))))
                if delegate is None:
                    out.append(Ignored("TimerFired", "not in the group"))
                else:
                    self._perform(now, delegate, delegate.step(now, event), out)
            case TimerFired(timer) if timer[0] == PARITY:
                group, to = Group(str(timer[1]), Domain(str(timer[2]))), Domain(str(timer[3]))
                if (group, to) in self._makers:
                    for parity in self._makers[group, to].close():
                        self._say(now, to, group, parity, out)
            case TimerFired((word, to)) if word == PACE:
                self._go_on(now, Domain(str(to)), out)
            case Spilled(group) | SpilledRead(group):
                if group in self.groups:
                    delegate = self.groups[group]
                    self._perform(now, delegate, delegate.step(now, event), out)
            case Replicated(group):
                if self.backup or group in self.groups:
                    delegate = self._delegate(group)
                    self._perform(now, delegate, delegate.step(now, event), out)
            case Appointed(epoch):
                self._appointed(now, epoch, out)
            case Received(peer) | LinkUp(peer) | LinkMoved(peer) | LinkDown(peer) if peer == self.host:
                out.append(Ignored(type(event).__name__, "a neighbour with the name of our delegate"))
            case Received(_, Routed(destinations=destinations)) if self.local is None and any(
                host_of(each) == self.host for each in destinations
            ):
                self._connect(now, self.server.incarnation, out)
                self._from_server(now, self.server.step(now, event), out)
            case _:
                self._from_server(now, self.server.step(now, event), out)

    def _heard(
        self, now: Instant, group: Group, source: Domain, messages: Iterable[Speech], out: list[Effect]
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
        """For parts of this message, should one of the two wait for it."""
        machines = [table[group] for table in (self.groups, self.aggregates) if group in table]
        return max([machine.room(stream, number) for machine in machines], default=0)

    def _appointed(self, now: Instant, epoch: int, out: list[Effect]) -> None:
        """It is our turn: appear under the new epoch, and go on with every group that was mirrored to us."""
        self.backup = False
        self._knows_all = now
        self._connect(now, epoch, out)
        for group in sorted(self.groups):
            delegate = self.groups[group]
            self._perform(now, delegate, delegate.step(now, Appointed(epoch)), out)

    def _connect(self, now: Instant, epoch: int, out: list[Effect]) -> None:
        """The delegate's host appears: a child like any other, except that its link is a function call."""
        self.local = LocalServer(self.host, incarnation=epoch)
        self.mouth = NOBODY
        self.aggregates.clear()
        self._numbers.clear()
        self._from_server(now, self.server.step(now, LinkUp(self.host, epoch)), out)
        self._from_local(now, self.local.step(now, LinkUp(self.lan, self.server.incarnation)), out)
        for effect in self.local.step(now, Asked(NOBODY, 0, ns.Open(ADHOC))):
            assert isinstance(effect, Answer) and isinstance(effect.result, ns.Opened)
            self.me = effect.result.endpoint

    def _from_server(self, now: Instant, effects: Iterable[Effect], out: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send) and effect.to == self.host:
                assert self.local is not None
                message = effect.message
                if isinstance(message, Routed):
                    # Whoever speaks to the delegate need not know its epoch.
                    whoever = delegate_of(self.lan)
                    to = tuple([self.me if each == whoever else each for each in message.destinations])
                    message = replace(message, destinations=to)
                self._from_local(now, self.local.step(now, Received(self.lan, message)), out)
            else:
                out.append(effect)

    def _from_local(self, now: Instant, effects: Iterable[Effect], out: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(_, message):
                    self._from_server(now, self.server.step(now, Received(self.host, message)), out)
                case Tell(endpoints, notice):
                    self._told(now, endpoints, notice, out)
                case Answer(token, ns.Absolute() as result):
                    machine = self._asked.pop(token)
                    self._perform(now, machine, machine.step(now, Told(result)), out)
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
                    out.append(Ignored(type(message).__name__, "nobody there is in the group"))
                    return
                if self.me in endpoints:
                    concerned = [self._delegate(message.group)]
                elif message.group in self.aggregates:
                    concerned = [self.aggregates[message.group]]
            case ns.Only() | ns.Without():
                concerned = [table[group] for table in self._tables(endpoints) for group in sorted(table)]
        for machine in concerned:
            self._perform(now, machine, machine.step(now, Told(notice)), out)

    def _may_speak(self, source: Endpoint, group: Group) -> bool:
        """Hosts of our LAN speak of groups that they have members in. Others are the delegate's to judge."""
        host = host_of(source)
        return parent(host) != self.lan or host == self.host or host in self.server.table.child_holders(group)

    def _tables(
        self, endpoints: tuple[Endpoint, ...]
    ) -> list[dict[Group, DelegateCore] | dict[Group, Aggregate]]:
        """Whom a notice is for; a delegate before all others of its LAN."""
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
                case Ask(ns.SendTo((to,), data)) if to == delegate_of(self.lan):
                    message_ = ns.Message(self.mouth, data)
                    self._between.append((machine.group, Told(message_), False))
                    self._delegate(machine.group)
                case Ask(request):
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

    # Those who submit

    def _submitted(
        self, now: Instant, group: Group, source: Domain, messages: list[Speech], out: list[Effect]
    ) -> list[Speech]:
        """What submitters of our LAN say is for the aggregate; the rest is given back."""
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
        """How long an aggregate must hold its tongue; None if that is not for time to say. A server that has
        just started does not know yet who is there, and would speak to nobody. Then every delegate that was
        there before ours must have asked for our numbers."""
        delegate = self.groups.get(group)
        if delegate is None or not isinstance(delegate.state, In | Lingering) or delegate.relays.awaited_lans:
            return None
        assert self._knows_all is not None
        left_s = self._knows_all - now
        return left_s if left_s > 1e-6 else 0.0

    def _drive_aggregate(self, now: Instant, group: Group, event: Event, out: list[Effect]) -> None:
        aggregate = self.aggregates.get(group)
        if aggregate is None:
            out.append(Ignored(type(event).__name__, "nobody submits"))
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

    def _inside(self, now: Instant, speaker: DelegateCore | Aggregate, message: Speech) -> None:
        """A delegate and its aggregate hear each other here; in turn, so that nothing is overtaken."""
        if isinstance(speaker, Aggregate):
            whole, _ = self._fragments.whole(now, speaker.group, (message,))
            if whole:
                self._between.append((speaker.group, Heard(speaker.group, self.host, tuple(whole)), False))
        elif isinstance(message, Heartbeat | Nak) and speaker.group in self.aggregates:
            self._between.append((speaker.group, Heard(speaker.group, self.lan, (message,)), True))

    # Forward error correction, on the way to other delegates

    def _transmit(self, now: Instant, to: Domain, group: Group, message: Speech, out: list[Effect]) -> None:
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
            out.append(SetTimer((PARITY, group.name, group.scope, to), self.config.parity_close_s))
        for piece in maker.add(message):
            self._say(now, to, group, piece, out)

    # Not faster than a way can take it

    def _say(self, now: Instant, to: Domain, group: Group, frame: Frame, out: list[Effect]) -> None:
        pace = self._paces.get(to)
        if pace is None:
            pace = self._paces[to] = Pace(self.config.datagram_bytes)
        if (delegate := self.groups.get(group)) is not None:
            pace.meet(now, delegate.peers.delegate(to))
        if pace.send(now, group, frame):
            out.append(Transmit(to, group, frame))
        elif pace.waiting == 1:
            out.append(SetTimer((PACE, to), pace.wait(now) or 0.0))

    def _go_on(self, now: Instant, to: Domain, out: list[Effect]) -> None:
        pace = self._paces[to]
        out += [Transmit(to, each.group, each.frame) for each in pace.due(now) if each.group in self.groups]
        wait_s = pace.wait(now)
        if wait_s is not None:
            out.append(SetTimer((PACE, to), wait_s))

    def _paced_questions(
        self, now: Instant, delegate: DelegateCore, source: Domain, messages: Iterable[Speech]
    ) -> Iterable[Speech]:
        """Questions tell how much of what we said was lost; and so does it if there are none."""
        pace = self._paces.get(source)
        if pace is None or (pace.rate is None and not any(type(message) is Nak for message in messages)):
            return messages
        pace.meet(now, delegate.peers.delegate(source))
        again_s = self.config.again_after(delegate.relays.round_trips.get(source))
        kept = [
            pace.asked(now, delegate.group, message, again_s) if isinstance(message, Nak) else message
            for message in messages
        ]
        pace.heard(now, again_s)
        return [message for message in kept if message is not None]

    def _without_parity(
        self, delegate: DelegateCore | None, source: Domain, messages: Iterable[Speech]
    ) -> list[Speech]:
        """Blocks are kept of delegates that we know; of others, data counts as it is."""
        knows = delegate is not None and delegate.peers.delegate(source) is not None
        plain: list[Speech] = []
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
