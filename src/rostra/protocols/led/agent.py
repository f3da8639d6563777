"""Led membership at an agent: the sets of its programs, its circuits to other agents, and its questions.

    program ── JoinLed ──▶ claim the kind ──▶ TreeCore of the set ──▶ Done
    program ◀── Absolute ◀── the leader's list ◀── Resolve, Watch, online members

    TreeCore ──▶ Assert ──▶ CarriedLetter ──▶ servers ──▶ registrar, or another agent
             ──▶ tree messages ──▶ Circuits ──┘

**The directory.** One member of each host stands in the directory of relaxed membership, with the kind of the
group, as a signpost. `Resolve` and `Watch` of any program in the scope find it there. This service sees their
answers and notices before they leave the stack, asks the agent behind the signpost for the list, and replaces
the one by the other.

**Registrars.** An agent whose link is down is its own registrar (S-059). A registrar that is lost is replaced
at once, and a better one after a calm (S-060).

Where we differ from the paper, and why: not only the leader has a signpost. A crash of the leader would leave
none until another is elected, and the group would look empty.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, get_args

from msgspec.structs import replace

from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
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
    TimerKey,
    ignored,
)
from rostra.core.stack import Service, ServiceName
from rostra.errors import REFUSALS, AlreadyMember, BadInput, Refused, TooLarge
from rostra.groups.attributes import DoubtAttributes
from rostra.groups.kinds import LED, DeliveryKind
from rostra.groups.members import Members, names_led
from rostra.names import Domain, Endpoint, Group, host_of, inside, parent
from rostra.protocols.claims.agent import CLAIM_AGENT, JoinClaimed
from rostra.protocols.fifo.events import LIST_KEEPER, SpeakerCame, SpeakerWent
from rostra.protocols.led.circuits import Circuits, patient
from rostra.protocols.led.config import (
    LETTER_BYTES_MAX,
    MEMBERS_OF_AGENT_MAX,
    META_BYTES_MAX,
    NAMES_OF_AGENT_MAX,
    LedConfig,
)
from rostra.protocols.led.core import (
    CircuitDown,
    CircuitUp,
    LeaderNamed,
    MemberCame,
    MembersRefused,
    MemberWent,
    PostLetter,
    RegistrarChanged,
    SendTree,
    SetTimerFired,
    TreeCore,
    TreeReceived,
    WantCircuit,
)
from rostra.protocols.led.following import LedFollows, is_speaker
from rostra.protocols.led.lists import LedLists
from rostra.protocols.led.messages import (
    AnyLetter,
    AnyTreeMessage,
    Assert,
    AssertReply,
    CarriedLetter,
    Datagram,
    LeaderAsked,
    LeaderProbe,
    LeaderProbed,
    LeaderTold,
    LeadRefused,
    ListAsked,
    ListTold,
    LocalMember,
    NotRegistrar,
    RegistrarsAsked,
    RegistrarsTold,
    SequenceData,
    SequenceDone,
    SequenceReplied,
    SequenceTaken,
    SetReleased,
    SpreadLetter,
    TransientMessage,
    decode_letter,
    encode_letter,
)
from rostra.protocols.led.observed import OUT, Stood, came_or_went, observed, stands
from rostra.protocols.led.proven import is_refused, let_through, with_permit
from rostra.protocols.led.queries import ListQueries, ListQuery
from rostra.protocols.led.refused import lead_refused, list_full, put_out, put_out_all
from rostra.protocols.led.registrar import Registrar
from rostra.protocols.led.requests import (
    AnySetRequest,
    ChangeSet,
    CreateSet,
    DestroySet,
    JoinLed,
    LeaveLed,
    ResolveSet,
)
from rostra.protocols.led.resolving import LedResolves
from rostra.protocols.led.rules import is_lost
from rostra.protocols.led.sequences import Sequences
from rostra.protocols.led.state import AgentId, TreeState
from rostra.protocols.led.stays import (
    LedSet,
    LedStay,
    has_stay,
    led_member,
    local_name,
    names_others,
)
from rostra.protocols.led.transient import TransientSets
from rostra.protocols.led.wanted import WantedHosts
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.packets import Beat, Bye, Data, Hello
from rostra.protocols.relaxed.events import SignpostsFound
from rostra.protocols.relaxed.local import AGENT, LocalServer
from rostra.protocols.relaxed.requests import (
    Absolute,
    Close,
    Denied,
    Done,
    Join,
    Joined,
    Leave,
    Left,
    Only,
    PutOut,
    Without,
    denied,
)

LED_AGENT: Final = ServiceName["LedAgent"](LIST_KEEPER)

TICK: Final[TimerKey] = ("led", "tick")
CALM: Final[TimerKey] = ("led", "calm")

FIRST_TOKEN: Final = -(1 << 61)
"""Our own questions to other services have tokens below this, and above those of agreed membership."""


class LedAgent(Service):
    name = LED_AGENT
    hears = (Answer, Tell, SignpostsFound)
    hears_always = (Tell, SignpostsFound)
    takes = (
        *(JoinLed, LeaveLed, Close, EndpointGone, *get_args(AnySetRequest)),
        *(CarriedLetter, SpreadLetter, RegistrarsTold, LinkUp, LinkDown, LinkMoved),
    )

    def __init__(
        self, host: Domain, incarnation: int, world: str, links: LinkConfig, config: LedConfig | None = None
    ) -> None:
        self.host = host
        self.me = AgentId(host, incarnation)
        self.config = config or LedConfig()
        self.trees: dict[Group, TreeCore] = {}
        self.sets: dict[Group, LedSet] = {}
        self.following = LedFollows(self)
        self.resolving = LedResolves(self)
        self.transient = TransientSets(self)
        self.sequences = Sequences(self)
        self.queries = ListQueries(self.config)
        self.wanted = WantedHosts(host)
        self.lists = LedLists(self.me, self.config)
        self.registrar = Registrar(self.config)
        self.registrars: dict[Domain, AgentId] = {}  # by scope, as acted on
        self.circuits = Circuits(world, host, incarnation, patient(links), self.config.circuit_idle_s)
        self.up = False  # the link to the server
        self._server = parent(host)
        self._told: dict[Domain, AgentId] = {}
        self._asked = False  # for registrars, on this link
        self._floor = 0  # of numbers of sets that we forgot
        self._token = FIRST_TOKEN
        self._own: dict[int, Group] = {}
        self.engaged = (self._own,)
        self._letters: deque[tuple[Domain, AnyLetter]] = deque()  # to ourselves
        self._stood: dict[Group, Stood] = {}  # as observers were shown it
        self._left: list[tuple[Endpoint, Group]] = []  # those that left while the kind was claimed for them
        self._ticking = False
        self._calming = False
        self._now: Instant = 0.0
        self.out: list[Effect] = []

    @property
    def directory(self) -> LocalServer:
        return self.stack[AGENT]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out = self._begin(now)
        match event:
            case Asked(me, token, request) if isinstance(request, JoinLed | AnySetRequest):
                try:
                    self._asked_of_set(me, token, request)
                except REFUSALS as refusal:
                    out.append(Answer(token, denied(refusal)))
            case Asked(me, token, LeaveLed(group)):
                self.transient.leave(me, group)
                self.leave(me, group, gone=False)
                out.append(Answer(token, Done()))
            case SpeakerCame(me, group, meta):
                known = self.sets.setdefault(group, LedSet())
                self._came(group, known, me, LedStay(False, meta, speaks=True))
            case SpeakerWent(me, group):
                self.leave(me, group, gone=True)
            case Asked(me) | EndpointGone(me):  # to close it
                self._gone(me)
            case Received(sender, message):
                if sender != self._server:
                    out.append(ignored(message, "not a neighbour"))
                elif isinstance(message, CarriedLetter):
                    self._arrived(message)
                elif isinstance(message, SpreadLetter):
                    if (letter := self.sequences.arrived(message)) is not None:
                        self._letter(message.source, letter)
                else:
                    self._told = {scope: AgentId(path, life) for scope, path, life in message.registrars}
                    self._registrars_changed()
            case TimerFired(timer):
                self._fired(timer)
            case LinkUp(peer) if peer == self._server:
                self.up, self._asked, self._told = True, False, {}
                self._ask_registrars()
                self.circuits.opened(now, self._post_packet, self._circuit)
            case LinkMoved(peer) if peer == self._server:
                self._asked = False
                self._ask_registrars()
            case LinkDown(peer) if peer == self._server:
                self.up, self._told = False, {}
                self.circuits.closed(now, self._post_packet, self._circuit)
                self._registrars_changed()
            case LinkUp() | LinkMoved() | LinkDown():  # the relaxed service says what it ignores
                pass
            case _:
                out.append(ignored(event, "nothing waits for it"))
        return self._end()

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Answers to our own questions; lists that name led members; and members that were put out."""
        for effect in effects:
            if type(effect) is Tell:
                concerns_us = self._concerns(effect.notice)
            elif type(effect) is Answer:
                concerns_us = effect.token in self._own
            else:
                concerns_us = type(effect) is SignpostsFound
            if concerns_us:
                self._begin(now)
                self._sift(effects)
                return self._end()
        return effects

    def _concerns(self, notice: Any) -> bool:
        if type(notice) in (Only, Without):
            return bool(self.following.groups)
        group = getattr(notice, "group", None)
        return (
            group in self.following.groups or group in self.sets or names_led(getattr(notice, "members", ()))
        )

    def _begin(self, now: Instant) -> list[Effect]:
        self._now, self.out = now, []
        return self.out

    def _end(self) -> list[Effect]:
        while self._letters:
            self._letter(*self._letters.popleft())
        ticks = bool(self.circuits.links)
        if ticks and not self._ticking:
            self.out.append(SetTimer(TICK, self.circuits.config.tick_s))
        elif self._ticking and not ticks:
            self.out.append(CancelTimer(TICK))
        self._ticking = ticks
        out, self.out = self.out, []
        return out

    # Joining

    def _join(self, me: Endpoint, token: int, join: JoinLed) -> None:
        group = join.group
        if me not in self.directory.endpoints:
            raise BadInput(f"no endpoint {me} is open on {self.host}", fix="open it first")
        self.directory.check_may_join(group, me)
        if join.delivery is not DeliveryKind.NONE:
            raise BadInput(f'JoinLed with delivery="{join.delivery.value}"', fix="use Enter or JoinOrdered")
        if len(join.meta) > META_BYTES_MAX:
            raise TooLarge(f"an attachment of {len(join.meta)} bytes", fix=f"at most {META_BYTES_MAX}")
        known = self.sets.get(group)
        if known is not None and has_stay(known, me) and token >= 0:  # below: its proof is renewed
            raise AlreadyMember(f"{me} is in {group} already, or joins it", fix="leave first")
        if known is None and len(self.sets) >= NAMES_OF_AGENT_MAX:
            raise TooLarge(f"{self.host} is in {len(self.sets)} led groups", fix="leave some")
        if known is not None and len(known.members) >= MEMBERS_OF_AGENT_MAX:
            raise TooLarge(f"{self.host} has {len(known.members)} members in {group}", fix="use other hosts")
        known = known or self.sets.setdefault(group, LedSet())
        asked = Asked(me, token, join)
        if known.signpost is not None:
            self._enter(known, asked)
        else:
            known.waiting.append(asked)
            if known.claiming is None:
                self._claim(group, known)

    def _claim(self, group: Group, known: LedSet) -> None:
        """Claim the kind of the group, and with it enter the directory."""
        known.claimer = known.waiting[0].endpoint
        known.claiming = self._own_token(group)
        join = Join(group, online=False, group_kind=LED)
        self._call(CLAIM_AGENT, JoinClaimed(known.claimer, known.claiming, join))

    def _claimed(self, group: Group, known: LedSet, result: object) -> None:
        claimer, known.claimer, known.claiming = known.claimer, None, None
        assert claimer is not None, "a claim for nobody"
        if isinstance(result, Denied):
            waiting, known.waiting = known.waiting, []
            self.out += [Answer(asked.token, result) for asked in waiting]
            self._forget_if_empty(group)
        elif any(asked.endpoint == claimer for asked in known.waiting):
            known.signpost = claimer
            waiting, known.waiting = known.waiting, []
            for asked in waiting:
                self._enter(known, asked)
        else:  # it left meanwhile
            self._left.append((claimer, group))

    def _enter(self, known: LedSet, asked: Asked) -> None:
        join, me = asked.request, asked.endpoint
        is_new = me not in known.members
        self._came(join.group, known, me, LedStay(join.online, join.meta, join.closed))
        has_room = me in known.members
        self.out.append(Answer(asked.token, Done() if has_room else list_full(join.group)))
        if join.online and is_new and has_room:
            self.following.follow(join.group, (me,))

    def _came(self, group: Group, known: LedSet, me: Endpoint, stay: LedStay) -> None:
        before, known.members[me] = known.members.get(me), stay
        proof = self.directory.gate.permits.get((me, group), b"")
        self.tree_step(group, MemberCame(LocalMember(local_name(me), stay.meta, proof)))
        if (tree := self.trees.get(group)) is not None and tree.record is not None:
            stay.since = tree.record.version if before is None else before.since

    def _asked_of_set(self, me: Endpoint, token: int, request: JoinLed | AnySetRequest) -> None:
        match request:
            case JoinLed():
                self._join(me, token, request)
            case CreateSet() | ChangeSet() | DestroySet():
                self.transient.asked(me, token, request)
            case ResolveSet(group):
                self.resolving.resolve_set(me, token, group)
            case _:
                self.sequences.asked(me, token, request)

    # Leaving

    def _gone(self, me: Endpoint) -> None:
        self.transient.gone(me)
        self.sequences.gone(me)
        for group in [group for group, known in self.sets.items() if has_stay(known, me)]:
            self.leave(me, group, gone=True)

    def leave(self, me: Endpoint, group: Group, *, gone: bool) -> None:
        known = self.sets.get(group)
        if known is None:
            return
        early = [asked for asked in known.waiting if asked.endpoint == me]
        known.waiting = [asked for asked in known.waiting if asked.endpoint != me]
        if early and not gone:
            left = denied(Refused(f"{me} left {group} before it was in", fix="join it again"))
            self.out += [Answer(asked.token, left) for asked in early]
        if known.claimer == me and gone:  # its claim is not answered any more
            self._own.pop(known.claiming or 0, None)
            known.claimer = known.claiming = None
            if known.waiting:
                self._claim(group, known)
        if known.members.pop(me, None) is not None:
            if known.signpost == me:
                self._move_signpost(group, known, me, gone=gone)
            self.tree_step(group, MemberWent(local_name(me)))
        self._forget_if_empty(group)

    def _move_signpost(self, group: Group, known: LedSet, old: Endpoint, *, gone: bool) -> None:
        """Another member of this host takes its place first, so that the claim is held all the while."""
        known.signpost = next(iter(known.members), None)
        if known.signpost is not None:
            join = Join(group, online=False, group_kind=LED)
            self._call(AGENT, Asked(known.signpost, self._own_token(group), join))
        if not gone:
            self._call(AGENT, Asked(old, self._own_token(group), Leave(group)))

    def _forget_if_empty(self, group: Group) -> None:
        known = self.sets.get(group)
        if known is not None and not (known.members or known.waiting or known.claimer):
            del self.sets[group]

    # What other services order

    def _sift(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if type(effect) is Answer and effect.token in self._own:
                self._answered(effect)
            elif type(effect) is Tell:
                self._noticed(effect)
            elif type(effect) is SignpostsFound:
                self.resolving.found(effect)
            else:
                self.out.append(effect)
        left, self._left = self._left, []
        for me, group in left:  # after all that their joins ordered
            self._call(AGENT, Asked(me, self._own_token(group), Leave(group)))
            if (known := self.sets.get(group)) is not None and known.waiting and known.claiming is None:
                self._claim(group, known)
            else:
                self._forget_if_empty(group)

    def _call(self, name: ServiceName[Any], event: Event) -> None:
        self._sift(self.stack.call(self._now, self, name, event))

    def _answered(self, answer: Answer) -> None:
        group = self._own.pop(answer.token)
        known = self.sets.get(group)
        if known is not None and known.claiming == answer.token:
            self._claimed(group, known, answer.result)

    def _noticed(self, tell: Tell) -> None:
        notice = tell.notice
        if (speakers := self._speakers(tell)) is not None:
            self.out.append(speakers)
            if len(speakers.endpoints) == len(tell.endpoints):
                return
            others = tuple([each for each in tell.endpoints if each not in speakers.endpoints])
            tell = Tell(others, notice)
        match notice:
            case PutOut(group=group) if group in self.sets and self.sets[group].signpost in tell.endpoints:
                self.out.append(tell)
                put_out_all(self, group, notice)
            case Absolute(group=group, members=members) if names_led(members):
                self.following.follow(group, tell.endpoints, led_member(members))
            case Absolute(group=group) if group in self.trees:
                self.following.follow(group, tell.endpoints)
            case Absolute(group=group) if group in self.following.groups:
                self.following.end(group)
                self.out.append(tell)
            case Joined(group=group, members=members) if names_led(members):
                self.following.follow(group, (), led_member(members))
            case Joined(group=group, members=members) if group in self.following.groups:
                if names_others(members) and group not in self.trees:  # the led group is no more
                    self.following.end(group)
                    self.out.append(tell)
            case Left(group=group, endpoint=endpoint) if group in self.following.groups:
                self.following.doubt(group, host_of(endpoint))
            case Only() | Without():
                self.out.append(tell)
                self.following.doubt_all()
            case _:
                self.out.append(tell)

    def _speakers(self, tell: Tell) -> Tell | None:
        """The part of a notice that is for members with streams: these follow the directory, which their
        streams depend on."""
        notice = tell.notice
        group = getattr(notice, "group", None)
        table = None if group is None else self.directory.groups.get(group)
        if type(notice) is PutOut:
            known = self.sets.get(notice.group)
            heard = [each for each in tell.endpoints if known and each in known.members]
            heard = [each for each in heard if known and known.members[each].speaks]
            for each in heard:
                self.leave(each, notice.group, gone=True)
        elif table is None or type(notice) not in (Absolute, Joined, Left):
            return None
        else:
            heard = [each for each in tell.endpoints if is_speaker(table, each)]
        return Tell(tuple(heard), notice) if heard else None

    # Registrars

    def _ask_registrars(self) -> None:
        if self.up and not self._asked and (self.trees or self.queries.open or self.following.groups):
            self._asked = True
            self.out.append(Send(self._server, RegistrarsAsked()))

    def _candidate(self, scope: Domain) -> AgentId | None:
        return self._told.get(scope) if self.up and scope != self.host else self.me

    def _registrars_changed(self) -> None:
        wait = False
        for scope in sorted({*self.registrars, *[group.scope for group in self.trees]}):
            new, old = self._candidate(scope), self.registrars.get(scope)
            if new is None or new == old:
                continue
            is_used = any(group.scope == scope for group in self.trees)
            if old is None or is_lost(scope, old, new) or not is_used:
                self._turn_to(scope, new)
            else:
                wait = True
        if wait and not self._calming:
            self.out.append(SetTimer(CALM, self.config.calm_s))
        elif self._calming and not wait:
            self.out.append(CancelTimer(CALM))
        self._calming = wait

    def _look_for_registrar(self, scope: Domain) -> None:
        """For the first set of a scope: there is nothing yet that a change could disturb."""
        new = self._candidate(scope)
        if not any(group.scope == scope for group in self.trees):
            if new is None:
                self.registrars.pop(scope, None)
            elif new != self.registrars.get(scope):
                self._turn_to(scope, new)

    def _calm(self) -> None:
        self._calming = False
        for scope in sorted(self.registrars):
            new = self._candidate(scope)
            if new is not None and new != self.registrars[scope]:
                self._turn_to(scope, new)

    def _turn_to(self, scope: Domain, new: AgentId) -> None:
        if self.registrars.get(scope) == self.me:
            self.out += self.registrar.drop(frozenset([scope]))
        self.registrars[scope] = new
        for group in [group for group in self.trees if group.scope == scope]:
            self.tree_step(group, RegistrarChanged())

    # The sets themselves

    def tree_step(self, group: Group, event: Event) -> None:
        tree = self.trees.get(group)
        if tree is None:
            tree = TreeCore(self.me, group, self.config, TreeState(self._floor))
            if isinstance(event, MemberCame):
                self._look_for_registrar(group.scope)
                self.trees[group] = tree
                self._ask_registrars()
        self.out += came_or_went(group, self.host, event)
        effects = tree.step(event, self.circuits.up)
        self._floor = max(self._floor, tree.state.number)
        if tree.record is None:
            self.trees.pop(group, None)
        self._perform(effects)
        self._show_standing(group)
        self.lists_changed(group)

    def _show_standing(self, group: Group) -> None:
        tree = self.trees.get(group)
        registrar = self.registrars.get(group.scope)
        before = self._stood.get(group, Stood(OUT))
        after = stands(tree, None if registrar is None else registrar.path)
        if after is None or after == before:
            return
        if after.standing == OUT:
            del self._stood[group]
        else:
            self._stood[group] = after
        self.out.append(observed(group, tree, before, after))

    def lists_changed(self, group: Group) -> None:
        known = self.transient.owned.get(group) or self.trees.get(group)
        self.with_(lambda out: self.lists.changed(group, known, out))

    def send_tree(self, peer: Domain, message: AnyTreeMessage) -> None:
        """On the circuit to this agent, if it is up; or to ourselves."""
        if peer == self.host:
            assert isinstance(message, TransientMessage), "an agent is not its own parent"
            self.transient.received(peer, message)
        else:
            self.circuits.send(self._now, peer, message, self._post_packet, self._circuit)

    def want_circuit(self, peer: Domain) -> bool:
        return self.circuits.want(self._now, peer, self._post_packet)

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case PostLetter(None, letter):
                    registrar = self.registrars.get(letter.group.scope) or self._candidate(letter.group.scope)
                    if registrar is None:
                        self.out.append(ignored(letter, "no registrar is known yet"))
                    else:
                        self.post(registrar.path, letter)
                case PostLetter(to, letter) if to is not None:
                    self.post(to, letter)
                case SendTree(peer, message):
                    self.send_tree(peer, message)
                case WantCircuit(peer):
                    self.want_circuit(peer)
                case MembersRefused():
                    put_out(self, effect)
                case _:
                    self.out.append(effect)

    def _circuit(self, peer: Domain, event: Event) -> None:
        match event:
            case CircuitUp() | CircuitDown():
                concerned = [group for group, tree in self.trees.items() if peer in tree.connected]
                for group in concerned:
                    self.tree_step(group, event)
                if isinstance(event, CircuitUp):
                    self.transient.circuit_up(peer)
                    self.sequences.circuit_up(peer)
                else:
                    self.transient.circuit_down(peer)
                    self.sequences.circuit_down(peer)
            case TreeReceived(_, message):
                scope = message.group.scope
                origins = [entry.origin for entry in getattr(message, "entries", ())]
                named = [getattr(message, "redirect", None) or peer, getattr(message, "root", peer)]
                if not all(inside(scope, path) for path in (self.host, peer, *named, *origins)):
                    self.out.append(ignored(message, "out of scope"))
                elif isinstance(message, TransientMessage):
                    self.transient.received(peer, message)
                elif proven := let_through(self._now, self.directory.gate, peer, message, self.out):
                    self.tree_step(message.group, TreeReceived(peer, proven))

    def _needed(self) -> set[Domain]:
        """Agents that a set is connected to, or wants to be."""
        needed = self.transient.needed() | self.wanted.hosts.keys()
        for tree in self.trees.values():
            needed.update(tree.connected)
        return needed

    # Letters

    def post(self, to: Domain, letter: Datagram) -> None:
        if to == self.host:
            self._letters.append((to, letter))
        else:
            known = self.sets.get(letter.group)
            members = known.members if known else ()
            self._post_packet(to, with_permit(self.directory.gate, letter, members))

    def _post_packet(self, to: Domain, letter: AnyLetter) -> None:
        if not self.up:
            self.out.append(ignored(letter, "next hop is down"))
            return
        body = encode_letter(letter)
        fits = len(body) <= LETTER_BYTES_MAX
        carried = Send(self._server, CarriedLetter(self.host, to, body))
        self.out.append(carried if fits else ignored(letter, "too large"))

    def spread(self, places: tuple[tuple[Domain, tuple[str, ...]], ...], letter: SequenceData) -> None:
        """One frame to all of these hosts."""
        down = Ignored("SpreadLetter", "next hop is down")
        frame = SpreadLetter(self.host, places, encode_letter(letter))
        self.out.append(Send(self._server, frame) if self.up else down)

    def _arrived(self, carried: CarriedLetter) -> None:
        if carried.to != self.host or carried.source == self.host:
            self.out.append(Ignored("CarriedLetter", "not here"))
            return
        letter = decode_letter(carried.body)
        match letter:
            case None:
                self.out.append(Ignored("CarriedLetter", "not a letter"))
            case Hello() | Data() | Beat() | Bye():
                self.out += self.circuits.arrived(
                    self._now, carried.source, letter, self._needed, self._post_packet, self._circuit
                )
            case _:
                self._letter(carried.source, letter)

    def _letter(self, sender: Domain, letter: AnyLetter) -> None:
        assert not isinstance(letter, Hello | Data | Beat | Bye), "a packet is no datagram"
        group = letter.group
        registrar = self.registrars.get(group.scope) or self._candidate(group.scope)
        from_registrar = registrar is not None and registrar.path == sender
        if not inside(group.scope, sender) or not inside(group.scope, self.host):
            self.out.append(ignored(letter, "out of scope"))
            return
        gate = self.directory.gate
        if not from_registrar and is_refused(self._now, gate, sender, letter, self.post, self.out):
            return
        match letter:
            case Assert() | SetReleased() | LeaderProbed() | LeaderAsked():
                if registrar == self.me:
                    self._perform(self.registrar.step(self._now, sender, letter))
                else:
                    believed = None if registrar is None else registrar.path
                    self.post(sender, NotRegistrar(group, letter.number, believed))
            case AssertReply() | LeadRefused() | LeaderTold() if not from_registrar:
                self.out.append(ignored(letter, "not the registrar"))
            case AssertReply(number=number, leader=leader):
                if inside(group.scope, leader):
                    self.tree_step(group, LeaderNamed(number, leader))
                else:
                    self.out.append(Ignored("AssertReply", "out of scope"))
            case LeadRefused():
                lead_refused(self, letter)
            case LeaderTold():
                self.with_(lambda out: self.queries.leader_told(letter, out))
            case NotRegistrar():
                self.out.append(Ignored("NotRegistrar", "asked again later"))
            case LeaderProbe(number=number):
                tree = self.trees.get(group)
                self.post(sender, LeaderProbed(group, number, tree is not None and tree.leads))
            case ListAsked():
                known = self.transient.owned.get(group) or self.trees.get(group)
                self.with_(lambda out: self.lists.asked(sender, letter, known, out))
            case SequenceData():
                self.sequences.data(sender, letter)
            case SequenceTaken():
                self.sequences.taken(sender, letter)
            case SequenceReplied():
                self.sequences.replied(sender, letter)
            case SequenceDone():
                self.sequences.done(sender, letter)
            case ListTold():
                self.with_(lambda out: self.queries.list_told(sender, letter, out))

    # Questions

    def with_(self, work: Callable[[list[Effect]], object]) -> None:
        effects: list[Effect] = []
        work(effects)
        self._perform(effects)

    def ask(self, query: ListQuery) -> int | None:
        tree = self.trees.get(query.group)
        if tree is not None:
            query.expected = True
            query.first = self.host if tree.leads else tree.parent or query.first
        effects: list[Effect] = []
        number = self.queries.ask(query, effects)
        self._ask_registrars()
        self._perform(effects)
        return number

    def proven(self, group: Group, members: Members) -> Members:
        """The members that may be in the set. Proofs are for agents: a new one is no change for programs."""
        proven = self.directory.gate.screen(self._now, group, members)
        if "!" not in group.name:
            return proven
        return tuple(
            [replace(each, attributes=DoubtAttributes() if each.in_doubt else None) for each in proven]
        )

    # Timers

    def _fired(self, timer: TimerKey) -> None:
        match timer:
            case ("led", "tick"):
                self._ticking = False
                self.circuits.tick(self._now, self._needed, self._post_packet, self._circuit)
            case ("led", "calm"):
                self._calm()
            case ("led", "query", int(number)):
                self.with_(lambda out: self.queries.fired(number, out))
            case ("led", "vehicle", str(host)):
                self.sequences.fired(Domain(host))
            case ("led", "unanswered", str(host)):
                self.transient.fired(Domain(host))
            case ("led", "leases") | ("led", "probe", _, _):
                self._perform(self.registrar.fired(self._now, timer))
            case ("led", "hold", str(name), str(scope)):
                self.with_(lambda out: self.lists.held(Group(name, Domain(scope)), out))
            case ("led", "settle", str(name), str(scope)):
                self.with_(lambda out: self.lists.settled(Group(name, Domain(scope)), out))
            case ("led", "again", str(name), str(scope)):
                group = Group(name, Domain(scope))
                if group in self.following.groups:
                    self.following.ask(group, self.following.groups[group])
            case ("led", str(what), str(name), str(scope)) if Group(name, Domain(scope)) in self.trees:
                self.tree_step(Group(name, Domain(scope)), SetTimerFired(what))
            case _:
                self.out.append(Ignored("TimerFired", "nothing waits for it"))

    def _own_token(self, group: Group) -> int:
        self._token -= 1
        self._own[self._token] = group
        return self._token
