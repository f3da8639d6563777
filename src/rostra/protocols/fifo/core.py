"""The members of one host in FIFO groups: a service of its agent.

      HostCore
      ┌────────────────────────────────────────┐
      │ MemberCore, MemberCore ◀── Reception   │  data: datagrams
      │   │ AskMembership             ▲ Noticed│◀────────────────▶
      └───┼───────────────────────────┼────────┘
      call▼                           │hear
      ┌────────────────────────────────────────┐  control: links
      │ LocalServer, the notice service        │◀────────────────▶
      └────────────────────────────────────────┘

Members of one host receive each other's casts here, as whole runs; on the network, messages are cut to fit
datagrams (`fragments.py`).
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    EndpointGone,
    Event,
    Ignored,
    Instant,
    Tell,
    TimerFired,
    ignored,
)
from rostra.core.stack import Service, ServiceName
from rostra.errors import REFUSALS, AlreadyMember, BadInput, NotMember
from rostra.groups.attributes import Role
from rostra.groups.kinds import FIFO, LED_FIFO, MembershipKind
from rostra.names import Domain, Endpoint, Group, host_of, parent
from rostra.protocols.claims.agent import CLAIM_AGENT, JoinClaimed
from rostra.protocols.fifo.context import delegate_host
from rostra.protocols.fifo.events import (
    LIST_KEEPER,
    AskMembership,
    Cast,
    Deliver,
    Heard,
    JoinAsked,
    JoinRefused,
    LeaveAsked,
    Noticed,
    Paused,
    Resumed,
    SendingStopped,
    SpeakerCame,
    SpeakerWent,
    StreamsUnwanted,
    StreamsWanted,
    Submitted,
    Transmit,
    ViewGiven,
)
from rostra.protocols.fifo.gated import GATE, GatedGroups
from rostra.protocols.fifo.listing import ShownAnswers, shown_notice
from rostra.protocols.fifo.member import MemberCore
from rostra.protocols.fifo.messages import DELEGATE, decode_control
from rostra.protocols.fifo.reception import Expel, Reception, is_shared
from rostra.protocols.fifo.submitter import Submitter
from rostra.protocols.flow.config import FifoConfig
from rostra.protocols.flow.fragments import Fragments, pieces
from rostra.protocols.flow.messages import AnyDataMessage, Data, Heartbeat, Nak, Run, Stream
from rostra.protocols.flow.recovery import Luck
from rostra.protocols.flow.runs import is_sound
from rostra.protocols.relaxed import requests as ns
from rostra.protocols.relaxed.local import AGENT, LocalServer

HOST: Final = ServiceName["HostCore"]("fifo host")


class _Question(Struct, frozen=True):
    """What one of our machines asked the notice service."""

    asker: Endpoint  # in whose name
    machine: MemberCore | Submitter | Reception
    joining: int | None  # the program's own token, if it is a join


class HostCore(Service):
    """All members of one host."""

    name = HOST
    hears = (Answer, Tell, StreamsWanted, StreamsUnwanted, ViewGiven, SendingStopped)
    lanes = (Submitted, Heard)
    takes = (Paused, Resumed, JoinAsked, LeaveAsked, EndpointGone, ns.Close)

    def __init__(self, host: Domain, config: FifoConfig | None = None) -> None:
        self.host = host
        self.config = config or FifoConfig()
        self.members: dict[Group, dict[Endpoint, MemberCore]] = {}
        self.submitters: dict[Group, dict[Endpoint, Submitter]] = {}  # who speak through our delegate
        self.receptions: dict[Group, Reception] = {}  # what members share that have no reception of their own
        self.gated = GatedGroups(self)  # agreed groups that are spoken in
        self._shown = ShownAnswers()
        self._fragments = Fragments(self.config, self._room)
        self._part_bytes = self.config.datagram_bytes
        self._numbers: dict[Endpoint, dict[Group, int]] = {}  # where its streams go on after a leave (TX-11)
        self._token = 0
        self._asked: dict[int, _Question] = {}  # by our token

    @property
    def any_group(self) -> Group | None:
        """Any group in which our programs are members or submitters; None if there is none."""
        return next(iter((*self.members, *self.submitters)), None)

    def receiving_hosts(self, group: Group) -> set[Domain]:
        """The other hosts of our LAN that have members in this group."""
        lan = parent(self.host)
        views = [each.view.members for each in self._apart(group) if isinstance(each, MemberCore)]
        if group in self.receptions:
            views.append(self.receptions[group].view.members)
        among = {host_of(each.endpoint) for members in views for each in members}
        return {host for host in among - {self.host, delegate_host(lan)} if parent(host) == lan}

    @property
    def local(self) -> LocalServer:
        return self.stack[AGENT]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        match event:
            case Submitted():
                self._submitted(now, event, out)
            case Heard():
                self._heard(now, event, out)
            case TimerFired(timer) if timer[4] == GATE:
                group, endpoint = Group(str(timer[1]), Domain(str(timer[2]))), Endpoint(str(timer[3]))
                self.gated.timed_out(now, group, endpoint, out)
            case TimerFired(timer):
                group, endpoint = Group(str(timer[1]), Domain(str(timer[2]))), Endpoint(str(timer[3]))
                reception = self.receptions.get(group)
                if reception is not None and endpoint == reception.me:
                    self._received(now, reception, event, out)
                else:
                    self.drive(now, group, endpoint, event, out)
            case Paused(endpoint, group) | Resumed(endpoint, group) if self.gated.find(group, endpoint):
                self.gated.reads(now, event, out)
            case Paused(endpoint, group) | Resumed(endpoint, group):
                self.drive(now, group, endpoint, event, out)
            case JoinAsked():
                self.join(now, event, out)
            case LeaveAsked(endpoint, token, group):
                if self._find(group, endpoint) is None:
                    refusal = NotMember(f"{endpoint} is not in {group}", fix="join it first")
                    out.append(Answer(token, ns.denied(refusal)))
                else:
                    self.drive(now, group, endpoint, event, out)
                    out.append(Answer(token, ns.Done()))
            case EndpointGone(endpoint):
                self._endpoint_gone(now, endpoint, event, out)
            case Asked(endpoint):  # to close it
                for group in self._groups_of(endpoint):
                    self.drive(now, group, endpoint, LeaveAsked(endpoint, 0, group), out)
                    self._hurry(now, group, endpoint, out)
                self._forget_asker(endpoint)
        return out

    def hear(self, now: Instant, effects: Iterable[Effect]) -> list[Effect]:
        """Notices to FIFO members go to their state machines; everything else passes."""
        out: list[Effect] = []
        left: list[Answer] = []  # meanwhile: it leaves after all that its join ordered
        for effect in effects:
            if type(effect) is Tell:
                self._told(now, effect.endpoints, effect.notice, out)
            elif type(effect) is not Answer:
                if isinstance(effect, StreamsWanted | StreamsUnwanted | ViewGiven | SendingStopped):
                    self.gated.heard(now, effect, out)
                else:
                    out.append(effect)
            elif effect.token < 0:
                if self._has_left(effect.token):
                    left.append(effect)
                else:
                    self._answered(now, effect.token, effect.result, out)
            elif type(effect.result) in (ns.Absolute, ns.Resolved):
                out.append(Answer(effect.token, self._shown.seen(effect.result)))
            else:
                out.append(effect)
        for answer in left:
            self._answered(now, answer.token, answer.result, out)
        return out

    def _has_left(self, token: int) -> bool:
        question = self._asked.get(token)
        if question is None or question.joining is None or not isinstance(question.machine, MemberCore):
            return False
        return question.machine.over

    # Programs

    def join(self, now: Instant, event: JoinAsked, out: list[Effect]) -> None:
        """A program joins; in a group of agreed membership, the service of such groups (`gated.py`)."""
        group, me, kind = event.group, event.endpoint, event.group_kind
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
            next_seq=self._numbers.get(me, {}).get(group, 1),
            reception=self._reception(event),
            parts=self._fragments.of(group),
            kind=kind,
        )
        if kind.membership is MembershipKind.AGREED:
            member.sending.hold()  # until its first view
        if before is not None:
            # It left a moment ago, and its last messages are still being repaired: that goes on.
            member.sending.inherit(before.sending)
        self.members.setdefault(group, {})[me] = member
        table = self.local.groups.get(group)
        present = {} if table is None else table.members
        self.perform(now, member, member.step(now, event, present), out, joining=event.token)

    def _reception(self, event: JoinAsked) -> Reception | None:
        """The reception that this member shares with others of its host; None if it has its own."""
        group = event.group
        if not is_shared(event.role, event.slow):
            return None
        if group not in self.receptions or not self.receptions[group].members:
            me, luck = Endpoint(self.host), Luck(event.luck)
            parts = self._fragments.of(group)
            self.receptions[group] = Reception(
                group, me, self.config, luck, role=Role.BOTH, slow=event.slow, only=False, parts=parts
            )
        return self.receptions[group]

    def _hurry(self, now: Instant, group: Group, endpoint: Endpoint, out: list[Effect]) -> None:
        member = self.members.get(group, {}).get(endpoint)
        if member is not None and member.departing:
            self.perform(now, member, member.hurry(now), out)

    def _submit(self, now: Instant, event: JoinAsked, before: MemberCore | None, out: list[Effect]) -> None:
        """A submitter is in no view, but may send only to groups that it could join."""
        group, me = event.group, event.endpoint
        try:
            self.local.check_may_join(group)
            if before is not None:
                raise AlreadyMember(
                    f"{me} has just left {group}, and its last messages are being repaired",
                    fix="wait for the end of its leave, or open another endpoint",
                )
        except REFUSALS as refusal:
            out.append(Answer(event.token, ns.denied(refusal)))
            return
        next_seq = self._numbers.get(me, {}).get(group, 1)
        submitter = Submitter(group, me, self.config, luck=event.luck, next_seq=next_seq)
        self.submitters.setdefault(group, {})[me] = submitter
        out.append(Answer(event.token, ns.Done()))
        self.perform(now, submitter, submitter.step(now, event), out)

    def _submitted(self, now: Instant, event: Submitted, out: list[Effect]) -> None:
        member = self._find(event.group, event.endpoint)
        if member is None:
            out.append(Ignored("Submitted", "not in the group"))
        elif not is_sound(Run(0, event.count, event.block)):
            out.append(Ignored("Submitted", "not a block of messages"))
        else:
            self.perform(now, member, member.step(now, event), out)

    def _endpoint_gone(self, now: Instant, endpoint: Endpoint, event: Event, out: list[Effect]) -> None:
        for group in self._groups_of(endpoint):
            self.drive(now, group, endpoint, event, out)
        self._forget_asker(endpoint)

    def _forget_asker(self, endpoint: Endpoint) -> None:
        """Its requests are not answered; a reception that made one in its name repeats it in another's."""
        self._numbers.pop(endpoint, None)
        for token in [token for token, question in self._asked.items() if question.asker == endpoint]:
            del self._asked[token]

    # The network

    def _heard(self, now: Instant, event: Heard, out: list[Effect]) -> None:
        group = event.group
        if group not in self.members and group not in self.submitters:
            out.append(Ignored("Heard", "not in the group"))
            return
        messages, needless = self._fragments.whole(now, group, event.messages)
        self._overhear(group, needless, out)
        if not messages:
            return
        heard = Heard(group, event.source, tuple(messages))
        if (reception := self.receptions.get(group)) is not None:
            self._received(now, reception, heard, out)
            for message in messages:
                self._heard_by_owners(now, group, message, out)
        for member in self._apart(group):
            self.perform(now, member, member.step(now, heard), out)

    def _apart(self, group: Group) -> list[MemberCore | Submitter]:
        """Members with a reception of their own, and submitters."""
        found: list[MemberCore | Submitter] = [
            each for each in self.members.get(group, {}).values() if each.reception.only
        ]
        return [*found, *self.submitters.get(group, {}).values()]

    def _heard_by_owners(
        self, now: Instant, group: Group, message: AnyDataMessage, out: list[Effect]
    ) -> None:
        """A message about the own stream of a member that shares its reception."""
        members = self.members.get(group, {})
        match message:
            case Data(stream, repair=True) | Nak(stream):
                owners = [stream]
            case Heartbeat(pulses):
                owners = list(dict.fromkeys([pulse.stream for pulse in pulses]))
            case _:
                return
        for who in owners:
            member = members.get(who)
            if member is not None and not member.reception.only:
                self.perform(now, member, member.hear(now, message), out)

    def _room(self, group: Group, stream: Stream, number: int) -> int:
        """How many bytes to keep for parts of this message; 0 if no member of ours waits for it."""
        rooms = [each.room(stream, number) for each in self._apart(group) if isinstance(each, MemberCore)]
        if (reception := self.receptions.get(group)) is not None:
            rooms.append(reception.room(stream, number))
        return max(rooms, default=0)

    def _overhear(self, group: Group, needless: Iterable[Data], out: list[Effect]) -> None:
        for part in needless:
            out.append(Ignored("Data", "part of a message that is here"))
            if (reception := self.receptions.get(group)) is not None:
                reception.senders.overhear(part)
            owner = self.members.get(group, {}).get(part.stream)
            for member in self._apart(group) if owner is None else (*self._apart(group), owner):
                if isinstance(member, MemberCore):
                    member.overhear(part)

    # Inside

    def _find(self, group: Group, endpoint: Endpoint) -> MemberCore | Submitter | None:
        return self.members.get(group, {}).get(endpoint) or self.submitters.get(group, {}).get(endpoint)

    def _groups_of(self, endpoint: Endpoint) -> list[Group]:
        tables = (self.members, self.submitters)
        return sorted(group for table in tables for group, those in table.items() if endpoint in those)

    def drive(self, now: Instant, group: Group, endpoint: Endpoint, event: Event, out: list[Effect]) -> None:
        member = self._find(group, endpoint)
        if member is None:
            out.append(ignored(event, "not in the group"))
        else:
            self.perform(now, member, member.step(now, event), out)

    def _received(
        self,
        now: Instant,
        reception: Reception,
        event: Event,
        out: list[Effect],
        told: Iterable[Endpoint] = (),
    ) -> None:
        self.perform(now, reception, reception.step(now, event, told), out)

    def perform(
        self,
        now: Instant,
        member: MemberCore | Submitter | Reception,
        effects: list[Effect],
        out: list[Effect],
        joining: int | None = None,
    ) -> None:
        for effect in effects:
            if type(effect) is Deliver:
                if effect.group in self.gated.groups:
                    self.gated.deliver(now, effect, out)
                else:
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
                case AskMembership(request):
                    self._token -= 1
                    me = member.asks() if isinstance(member, Reception) else member.me
                    joins = joining if isinstance(request, ns.Join) else None
                    self._asked[self._token] = _Question(me, member, joins)
                    if isinstance(request, ns.Join) and request.group_kind != FIFO:
                        claimed = JoinClaimed(me, self._token, request)
                        out += self.hear(now, self.stack.call(now, self, CLAIM_AGENT, claimed))
                        continue
                    if isinstance(request, ns.Leave) and getattr(member, "kind", FIFO) == LED_FIFO:
                        went = SpeakerWent(me, member.group)
                        out += self.hear(now, self.stack.call(now, self, LIST_KEEPER, went))
                    asked = Asked(me, self._token, request)
                    out += self.hear(now, self.stack.call(now, self, AGENT, asked))
                case _:
                    out.append(effect)
        if isinstance(member, Reception):
            self._carry_out_orders(now, member, out)
        elif member.over:
            self._forget(member)

    def _carry_out_orders(self, now: Instant, reception: Reception, out: list[Effect]) -> None:
        for who, order in reception.take_orders():
            if (member := reception.members.get(who)) is not None:
                self.perform(now, member, member.ordered(now, order), out)

    def _inside(
        self,
        now: Instant,
        speaker: MemberCore | Submitter | Reception,
        message: AnyDataMessage,
        out: list[Effect],
    ) -> None:
        """Members on the same host get a message here, without the network."""
        if type(message) is Data and message.size:  # a repair, of which they may have the rest
            whole, needless = self._fragments.whole(now, speaker.group, (message,))
            self._overhear(speaker.group, needless, out)
            if not whole:
                return
            (message,) = whole
        group = speaker.group
        heard = Heard(group, self.host, (message,))
        reception = self.receptions.get(group)
        if reception is not None and reception is not speaker:
            self._received(now, reception, heard, out)
        if (reception is not None and type(message) is not Data) or isinstance(speaker, Reception):
            self._heard_by_owners(now, group, message, out)
        for member in self._apart(group):
            if member is not speaker and isinstance(member, MemberCore):
                self.perform(now, member, member.step(now, heard), out)

    def _forget(self, member: MemberCore | Submitter) -> None:
        for table in (self.members, self.submitters):
            those = table.get(member.group, {})
            if those.get(member.me) is member:
                if member.me in self.local.endpoints and member.sending.next_seq > 1:
                    self._numbers.setdefault(member.me, {})[member.group] = member.sending.next_seq
                del those[member.me]
                self.gated.forget(member.group, member.me)
                if not those:
                    del table[member.group]
                reception = self.receptions.get(member.group)
                if reception is not None and not reception.members:
                    del self.receptions[member.group]
                if member.group not in self.members:
                    self._fragments.forget(member.group)

    def _told(self, now: Instant, endpoints: tuple[Endpoint, ...], notice: object, out: list[Effect]) -> None:
        match notice:
            case ns.Absolute(group) | ns.Joined(group) | ns.Left(group):
                members = self.members.get(group)
                if not members:
                    self._tell(endpoints, notice, out)
                    return
                self._told_members(now, group, endpoints, Noticed(notice), out)
                others = tuple([endpoint for endpoint in endpoints if endpoint not in members])
                if others:
                    self._tell(others, notice, out)
            case ns.PutOut(group, refusal):
                for endpoint in endpoints:
                    member = self._find(group, endpoint)
                    if self.gated.find(group, endpoint) is not None:
                        pass  # the service of its group has seen it, and takes it out
                    elif isinstance(member, MemberCore):
                        self.perform(now, member, member.ordered(now, Expel(refusal.what, refusal.fix)), out)
                    else:
                        out.append(Tell((endpoint,), notice))
            case ns.Only() | ns.Without():
                groups = sorted({group for endpoint in endpoints for group in self._groups_of(endpoint)})
                for group in groups:
                    self._told_members(now, group, endpoints, Noticed(notice), out)
                out.append(Tell(endpoints, notice))
            case ns.Message(source, data) if host_of(source) == delegate_host(parent(self.host)):
                message = decode_control(data)
                if message is None:
                    out.append(Ignored("Message", "not a control message"))
                    return
                self._told_members(now, message.group, endpoints, Noticed(notice), out)
            case ns.Message(source) if host_of(source).endswith(f".{DELEGATE}"):
                out.append(Ignored("Message", "from a delegate of another LAN"))
            case ns.NotDelivered(destinations) if all(
                host_of(each).endswith(f".{DELEGATE}") for each in destinations
            ):
                pass  # the machines' own timers ask again
            case _:
                out.append(Tell(endpoints, notice))

    def _tell(self, endpoints: tuple[Endpoint, ...], notice: object, out: list[Effect]) -> None:
        """A notice to programs that are not FIFO members: without delegates and their keys."""
        seen = shown_notice(notice)
        if seen is not None:
            out.append(Tell(endpoints, seen))

    def _told_members(
        self, now: Instant, group: Group, endpoints: tuple[Endpoint, ...], told: Noticed, out: list[Effect]
    ) -> None:
        """A notice to members of a group: once for all that share a reception."""
        members = self.members.get(group, {})
        sharing = [each for each in endpoints if each in members and not members[each].reception.only]
        reception = self.receptions.get(group)
        if reception is not None and (sharing or reception.asked_as in endpoints):
            self._received(now, reception, told, out, sharing)
        for endpoint in endpoints:
            member = members.get(endpoint)
            if member is not None and member.reception.only:
                self.perform(now, member, member.step(now, told), out)

    def _answered(self, now: Instant, token: int, result: object, out: list[Effect]) -> None:
        question = self._asked.pop(token, None)
        if question is None:
            out.append(Ignored("Answer", "its asker is gone"))
            return
        member, joining = question.machine, question.joining
        if joining is not None and isinstance(member, MemberCore) and member.kind != FIFO:
            if member.kind == LED_FIFO:
                self._answered_led(now, member, joining, result, out)
            else:
                self._answered_gated(now, member, result, out)
            return
        match result:
            case ns.Absolute():
                if isinstance(member, Reception):
                    self._received(now, member, Noticed(result), out, list(member.members))
                else:
                    self.perform(now, member, member.step(now, Noticed(result)), out)
            case ns.Denied() if joining is not None and not isinstance(member, Reception):
                out.append(Answer(joining, result))
                self.perform(now, member, member.step(now, JoinRefused(result)), out)
            case ns.Denied():
                out.append(Ignored("Ask", "denied"))
            case _ if joining is not None:
                out.append(Answer(joining, ns.Done()))

    def _answered_led(
        self, now: Instant, member: MemberCore, joining: int, result: object, out: list[Effect]
    ) -> None:
        """The answer to the join of a led group: claimed and listed, or refused. It may have left
        meanwhile."""
        if isinstance(result, ns.Denied):
            out.append(Answer(joining, result))
            self.perform(now, member, member.step(now, JoinRefused(result)), out)
            return
        out.append(Answer(joining, ns.Done()))
        if member.over:
            self.perform(now, member, [AskMembership(ns.Leave(member.group))], out)
        else:
            came = SpeakerCame(member.me, member.group, member.meta)
            out += self.hear(now, self.stack.call(now, self, LIST_KEEPER, came))

    def _answered_gated(self, now: Instant, member: MemberCore, result: object, out: list[Effect]) -> None:
        """The answer to the join of an agreed group: listed, or refused. It may have left meanwhile."""
        if isinstance(result, ns.Denied):
            self.gated.refused(now, member.group, member.me, result, out)
            self.perform(now, member, member.step(now, JoinRefused(result)), out)
        elif member.over:
            self.perform(now, member, [AskMembership(ns.Leave(member.group))], out)
