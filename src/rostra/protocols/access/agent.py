"""The access service of an agent: members of restricted names get in with a proof of their authority.

    JoinRestricted ──▶ Resolve authority/<name> ──▶ KeyAsked ──▶ its members
                            SealedQuestion ◀── signed by it ── KeyShown ◀─┘
                                 └──▶ each of those that have the key ──┐
         refused · silent for `t_auth_s`: Denied ◀── AuthorityAnswer ◀──┘
                                                      │ a proof that holds
                          Join or JoinLed, as asked ◀─┘  Done, if it `speaks`: it enters with the proof
    half of its life is over ──▶ ask again
    it has ended, or its authority was revoked ──▶ the member leaves, with the reason (PutOut)

An authority is an ordinary program in the group ``authority/<name>``, anywhere in the world. Its messages to
the endpoint that wants to join are answers to the agent, and are taken out of the endpoint's messages. Any
program may join that group: only those that show the authority's key are asked, the question is sealed for
them (`sealing`), and an answer counts for its signature, not for its sender.

The check is made before the join has any effect (S-012), and the proof goes with the member's record, so that
every server and agent that gets it checks again. Leaving, resolving, watching and sending are open (S-015).
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rostra.core.asking import AskingService
from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    Effect,
    EndpointGone,
    Event,
    FellBehind,
    Ignored,
    Instant,
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
from rostra.core.records import Records
from rostra.core.room import leaves_room
from rostra.core.stack import ServiceName
from rostra.errors import (
    REFUSALS,
    AuthUnavailable,
    BadInput,
    NotAllowed,
    NotAuthorised,
    Refused,
    RostraError,
    TooLarge,
)
from rostra.groups.attributes import proven
from rostra.names import ROOT, Domain, Endpoint, Group, host_of, inside, parent
from rostra.protocols.access.closed import keep_copy, load_copies
from rostra.protocols.access.config import (
    ASKED_AT_ONCE,
    ASKED_MAX,
    CREDENTIAL_BYTES_MAX,
    FALSE_MAX,
    LATE_MAX,
    LUCK_BYTES,
    PERMITTED_MAX,
    RETURNED_S,
    SHOWN_MAX,
    TRUSTED_MAX,
)
from rostra.protocols.access.events import (
    AccessEnded,
    AccessGranted,
    MemberListed,
    MemberUnlisted,
)
from rostra.protocols.access.judge import Judge, authority_of
from rostra.protocols.access.messages import ClosedTold, ProofShown, RevocationsTold
from rostra.protocols.access.proofs import (
    AuthorityAnswer,
    KeyAsked,
    KeyShown,
    Revocation,
    decode_answer,
    question_text,
    sealed_question,
)
from rostra.protocols.access.requests import JoinRestricted, Revoke
from rostra.protocols.access.revoking import all_revocations, asked_to_revoke, told_of_revocations
from rostra.protocols.access.sealing import drawn, told_of
from rostra.protocols.agreed.agent import AGREED_AGENT
from rostra.protocols.agreed.events import MemberBarred, MemberProven
from rostra.protocols.fifo.events import SpeakerCame
from rostra.protocols.led.agent import LED_AGENT
from rostra.protocols.led.requests import JoinLed, LeaveLed
from rostra.protocols.relaxed.gate import AccessRefused
from rostra.protocols.relaxed.local import AGENT, LocalServer
from rostra.protocols.relaxed.messages import InterestChanged
from rostra.protocols.relaxed.requests import (
    Absolute,
    Close,
    Denied,
    Done,
    Join,
    Leave,
    Message,
    NotDelivered,
    PutOut,
    Resolve,
    SendTo,
    denied,
)

ACCESS_AGENT: Final = ServiceName["AccessAgent"]("access agent")

AUTHORITIES: Final = "authority/"
"""The group of an authority's programs is this and its name, in the scope of the world."""

Stay = tuple[Endpoint, Group]


class Applying(Struct, frozen=True):
    """A question to an authority: for a program that waits (`token`), or to renew a proof."""

    stay: Stay
    join: JoinRestricted
    nonce: bytes
    token: int | None
    asked: frozenset[Endpoint] = frozenset()  # for the key; none yet: we look for its members
    shown: frozenset[Endpoint] = frozenset()  # that have it, and were sent the question
    false: tuple[Endpoint, ...] = ()  # from whom something false came, each time


class SettledQuestion(Struct, frozen=True):
    """A question that was decided or given up. Late answers to it are kept from the program."""

    nonce: bytes
    asked: frozenset[Endpoint]
    settled: Instant


class Permitted(Struct, frozen=True):
    join: JoinRestricted
    until_ms: int
    renew_ms: int


class AccessAgent(AskingService[Stay]):
    name = ACCESS_AGENT
    first_token = -(1 << 60)  # above those of led membership
    hears = (Answer, Tell)
    takes = (
        *(JoinRestricted, Leave, LeaveLed, Revoke, RevocationsTold, ClosedTold),
        *(Close, EndpointGone, LinkUp, LinkMoved),
    )

    def __init__(self, host: Domain, judge: Judge, t_auth_s: float, records: Records) -> None:
        super().__init__()
        self.host = host
        self.judge = judge
        self._records = records
        load_copies(records, judge)
        self.applying: dict[Stay, Applying] = {}
        self.permitted: dict[Stay, Permitted] = {}
        self._server = parent(host)
        self._t_auth_s = t_auth_s
        self._late: dict[Endpoint, deque[SettledQuestion]] = {}  # the last ones of each
        self.engaged = (self.applying, self.permitted, self._late, self._own)
        self._trusted: dict[str, Endpoint] = {}  # by authority: the program of it that answered last
        self._asked = 0

    @property
    def _agent(self) -> LocalServer:
        return self.stack[AGENT]

    def begin(self, now: Instant) -> Sequence[Effect]:
        self.judge.begin(now)
        return ()

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out = self._begin(now)
        match event:
            case Asked(me, token, JoinRestricted() as join):
                try:
                    self._apply(me, token, join)
                except REFUSALS as refusal:
                    out.append(Answer(token, denied(refusal)))
            case Asked(_, token, Revoke(data)):
                out += asked_to_revoke(self.judge, token, data, self._believed)
            case Received(sender, RevocationsTold() as message):
                if sender != self._server:
                    out.append(Ignored("RevocationsTold", "not a neighbour"))
                else:
                    out += told_of_revocations(self.judge, message, lambda _: self._revoked())
            case Received(sender, ClosedTold(closed)):
                if sender != self._server or not inside(closed.scope, self.host):
                    out.append(Ignored("ClosedTold", "out of scope"))
                elif self.judge.learn(closed):
                    self._closed()
                    out += keep_copy(self._records, closed)
            case Asked(me, _, Leave(group) | LeaveLed(group)):
                self._take_back((me, group))
            case EndpointGone(me) | Asked(me):  # to close it
                for stay in sorted([each for each in {*self.applying, *self.permitted} if each[0] == me]):
                    self._forget(stay)
                self._late.pop(me, None)
                if isinstance(event, EndpointGone):
                    self._drop_questions(lambda stay: stay[0] == me)
            case TimerFired(("access", "auth", str(me), str(name), str(scope))):
                self._timed_out((Endpoint(me), Group(name, Domain(scope))))
            case TimerFired(("access", "due", str(me), str(name), str(scope))):
                self._due((Endpoint(me), Group(name, Domain(scope))))
            case LinkUp(peer) | LinkMoved(peer):
                out += all_revocations(self.judge, peer)
                for stay in sorted(self.permitted):  # before the agent announces what it wants to know
                    self._show(stay, is_up=True)
            case _:
                out.append(ignored(event, "nothing waits for it"))
        return self._finish()

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        self._begin(now)
        self._sift(effects)
        return self._finish()

    # Asking an authority

    def _apply(self, me: Endpoint, token: int, join: JoinRestricted) -> None:
        group, stay = join.group, (me, join.group)
        if me not in self._agent.endpoints:
            raise BadInput(f"no endpoint {me} is open on {self.host}", fix="open it first")
        self._agent.check_may_apply(group)
        authority = authority_of(group.name)
        if authority is None:
            raise BadInput(f"{group} is no restricted name", fix="join it without a credential")
        if len(join.credential) > CREDENTIAL_BYTES_MAX:
            raise TooLarge(
                f"a credential of {len(join.credential)} bytes", fix=f"at most {CREDENTIAL_BYTES_MAX}"
            )
        if stay in self.applying:
            raise Refused(f"{me} is joining {group} already", fix="wait for the answer")
        users, user = [self._agent.user_of(each) for each, _ in self.applying], self._agent.user_of(me)
        if not leaves_room(ASKED_MAX, len(users), lambda: users.count(user)):
            raise TooLarge(f"{len(users)} joins of {self.host} wait for authorities", fix="try again later")
        if len(self.permitted) >= PERMITTED_MAX:
            for each in sorted([each for each in self.permitted if not self._is_member(each)]):
                self._forget(each)
        if len(self.permitted) >= PERMITTED_MAX:
            raise TooLarge(f"{self.host} keeps {PERMITTED_MAX} proofs", fix="leave some groups")
        if len(join.luck) != LUCK_BYTES:
            raise BadInput(f"luck of {len(join.luck)} bytes", fix=f"draw {LUCK_BYTES} bytes at random")
        self._ask(stay, join, token)

    def _ask(self, stay: Stay, join: JoinRestricted, token: int | None) -> None:
        self._asked += 1
        nonce = drawn(told_of(join.luck), "nonce", f"{stay[0]} {self._asked}".encode())
        self.applying[stay] = Applying(stay, join, nonce, token)
        self._out.append(SetTimer(_timer("auth", stay), self._t_auth_s))
        authority = authority_of(join.group.name)
        question = Resolve(f"{AUTHORITIES}{authority}", ROOT, self._t_auth_s)
        self._call(AGENT, Asked(stay[0], self._own_token(stay), question))

    def _answered(self, stay: Stay, result: object) -> None:
        """The members of the authority's group."""
        applying = self.applying.get(stay)
        if applying is None or applying.asked:
            return
        if not isinstance(result, Absolute):
            why = result.what if isinstance(result, Denied) else "it cannot be found"
            self._unavailable(applying, why)
            return
        found = [each.endpoint for each in result.members if each.endpoint != stay[0]]
        if not found:
            self._unavailable(applying, "none of its programs is there")
            return
        first = self._asked % len(found)  # in turn, after the one that answered last
        found = [*found[first:], *found[:first]]
        trusted = self._trusted.get(authority_of(stay[1].name) or "")
        asked = tuple(sorted(found, key=lambda each: each != trusted)[:ASKED_AT_ONCE])
        self.applying[stay] = replace(applying, asked=frozenset(asked))
        data = msgspec.msgpack.encode(KeyAsked(applying.nonce))
        self._call(AGENT, Asked(stay[0], self._own_token(), SendTo(asked, data)))

    def _heard(self, me: Endpoint, message: Message) -> bool:
        """Is it the answer of an authority? Then it is not for the program."""
        for stay, applying in self.applying.items():
            if stay[0] == me and message.source in applying.asked:
                answer = decode_answer(message.data)
                if answer is not None and answer.nonce == applying.nonce:
                    if applying.false.count(message.source) >= FALSE_MAX:
                        self._out.append(ignored(answer, "others of it were false"))
                    elif isinstance(answer, KeyShown):
                        self._shown(applying, message.source, answer)
                    else:
                        self._decided(applying, message.source, answer)
                    return True
        return me in self._late and self._is_late(me, message)

    def _is_late(self, me: Endpoint, message: Message) -> bool:
        answer = decode_answer(message.data)
        if answer is None or all(answer.nonce != each.nonce for each in self._late[me]):
            return False
        self._out.append(ignored(answer, "late answer"))
        return True

    def _shown(self, applying: Applying, source: Endpoint, shown: KeyShown) -> None:
        """This program of the authority proved that it has the key: send it the sealed credential."""
        me, group = stay = applying.stay
        authority = authority_of(group.name)
        assert authority is not None, "only restricted names are asked for"
        if source in applying.shown or len(applying.shown) >= SHOWN_MAX:
            self._out.append(Ignored("KeyShown", "asked already"))
            return
        question = None
        if self.judge.is_shown(authority, me, shown, self._now):
            text, join = question_text(self.judge.world, authority, applying.nonce, me), applying.join
            question = sealed_question(join.luck, text, shown, group, join.credential)
        if question is None:
            self._false(applying, source, f"{source} does not have the key of {authority}")
            return
        self.applying[stay] = replace(applying, shown=applying.shown | {source})
        data = msgspec.msgpack.encode(question)
        self._call(AGENT, Asked(me, self._own_token(), SendTo((source,), data)))

    def _decided(self, applying: Applying, source: Endpoint, answer: AuthorityAnswer) -> None:
        me, group = applying.stay
        authority = authority_of(group.name)
        assert authority is not None, "only restricted names are asked for"
        if source not in applying.shown or not self.judge.is_answer(authority, me, answer, self._now):
            self._false(applying, source, f"{source} does not speak for {authority}")
            return
        self._trusted.pop(authority, None)
        self._trusted[authority] = source
        if len(self._trusted) > TRUSTED_MAX:
            del self._trusted[next(iter(self._trusted))]
        if not answer.proof:
            self._refused(applying, f"{authority} says no: {answer.why or 'without a reason'}")
            return
        if why := self.judge.why_not(self._now, group, me, answer.proof):
            self._false(applying, source, f"of {source}: {why}")
            return
        self._granted(applying, answer.proof)

    def _false(self, applying: Applying, source: Endpoint, why: str) -> None:
        self.applying[applying.stay] = replace(applying, false=(*applying.false, source))
        node = host_of(source)
        self.judge.name(self._now, node, AccessRefused(*applying.stay, why, node), self._out)

    # What becomes of it

    def _granted(self, applying: Applying, proof: bytes) -> None:
        me, group = stay = applying.stay
        self._settled(stay)
        clock_ms, until_ms = self.judge.clock_ms(self._now), self.judge.until_ms(group, me, proof)
        is_new = self.judge.is_closed_to(group, self.host)
        self.judge.permits[stay] = proof
        self._show(stay, is_new=is_new)
        renew_ms = clock_ms + (until_ms - clock_ms) // 2
        self.permitted[stay] = Permitted(applying.join, until_ms, renew_ms)
        self._out.append(AccessGranted(me, group, until_ms))
        self._out.append(SetTimer(_timer("due", stay), max(0.0, (renew_ms - clock_ms) / 1000)))
        if applying.token is not None and applying.join.speaks:
            self._out.append(Answer(applying.token, Done()))
            return
        if applying.token is not None:
            self._join(stay, applying.join, applying.token)
            return
        table = self._agent.groups.get(group)
        if table is not None and me in table.members:
            table.renew(me, proven(table.members[me].attributes, proof))
        if me in self.stack[AGREED_AGENT].members_of(group):
            self._call(AGREED_AGENT, MemberProven(group))
        elif applying.join.led and applying.join.speaks and self._is_member(stay):
            came = SpeakerCame(me, group, applying.join.meta)
            self._call(LED_AGENT, came)
        elif applying.join.led and self._is_member(stay):  # with the new proof in its entry
            self._join(stay, applying.join, self._own_token())

    def _show(self, stay: Stay, *, is_new: bool = False, is_up: bool = False) -> None:
        """Show its proof to the servers above us, for groups that the authority closes; if it is the first
        one, announce our interest in the group as well."""
        me, group = stay
        is_up = is_up or self._agent.up
        if not is_up or group.scope == self.host or not self.judge.is_by_authority(group):
            return
        self._out.append(Send(self._server, ProofShown(group, me, self.judge.permits[stay])))
        table = self._agent.groups.get(group)
        if is_new and table is not None:
            changed = InterestChanged(self._agent._new_id(), group, table.interest())
            self._out.append(Send(self._server, changed))
            for each in table.followers():
                self._call(AGENT, FellBehind(each, (group,)))

    def _join(self, stay: Stay, join: JoinRestricted, token: int) -> None:
        me, group = stay
        if join.led:
            led = JoinLed(group, online=join.online, meta=join.meta, closed=join.closed)
            self._call(LED_AGENT, Asked(me, token, led))
            return
        effects = self.stack.call(
            self._now, self, AGENT, Asked(me, token, Join(group, join.online, False, join.meta))
        )
        table = self._agent.groups.get(group)
        if table is not None and me in table.members:
            self._out.append(MemberListed(me, group, table.members[me].stamp, join.online))
        self._sift(effects)

    def _refused(self, applying: Applying, why: str) -> None:
        me, group = stay = applying.stay
        self._settled(stay)
        refusal = NotAuthorised(f"{me} may not be in {group}: {why}", fix="ask those who run the authority")
        self._out.append(AccessRefused(me, group, why))
        if applying.token is None:
            self._expel(stay, refusal)
        else:
            self._out.append(Answer(applying.token, denied(refusal)))

    def _unavailable(self, applying: Applying, why: str) -> None:
        """A member whose proof could not be renewed stays until it ends, and we ask again."""
        me, group = stay = applying.stay
        self._settled(stay)
        authority = authority_of(group.name)
        self._out.append(AccessRefused(me, group, f"{authority}: {why}"))
        if applying.token is not None:
            fix = f"see that a program is in {AUTHORITIES}{authority} and answers"
            if (root := (authority or "").partition("/")[0]) not in self.judge.roots:
                fix = f"{root} is not under [authorities] of this agent's world file: correct one of them"
            elif gone := self.judge.revoked_above(authority or ""):
                fix = f"a key of {gone} was revoked: see that its programs run with another one"
            refusal = AuthUnavailable(
                f"{authority}, who decides about {group}, cannot be asked: {why}", fix=fix
            )
            self._out.append(Answer(applying.token, denied(refusal)))

    def _take_back(self, stay: Stay) -> None:
        """The program leaves while its join waits for the authority: a later answer is ignored."""
        applying = self.applying.get(stay)
        if applying is not None and applying.token is not None:
            self._settled(stay)
            me, group = stay
            left = Refused(f"{me} left {group} before it was in", fix="join it again")
            self._out.append(Answer(applying.token, denied(left)))

    def _timed_out(self, stay: Stay) -> None:
        applying = self.applying.get(stay)
        if applying is None:
            self._out.append(Ignored("TimerFired", "nothing waits for it"))
        else:
            self._unavailable(applying, f"no valid answer within {self._t_auth_s:g} s")

    def _settled(self, stay: Stay) -> None:
        applying = self.applying.pop(stay)
        if applying.asked:
            late = self._late.setdefault(stay[0], deque(maxlen=LATE_MAX))
            late.append(SettledQuestion(applying.nonce, applying.asked, self._now))
        self._out.append(CancelTimer(_timer("auth", stay)))

    # Proofs that end

    def _due(self, stay: Stay) -> None:
        """Half of the proof's remaining life is over: renew it."""
        permitted = self.permitted.get(stay)
        if permitted is None:
            self._out.append(Ignored("TimerFired", "nothing waits for it"))
            return
        left_ms = permitted.until_ms - self.judge.clock_ms(self._now)
        if not self._is_member(stay):
            self._forget(stay)
        elif left_ms <= 0:
            me, group = stay
            ended = AuthUnavailable(f"the proof of {me} for {group} has ended", fix="join it again")
            self._expel(stay, ended)
        else:
            self._out.append(SetTimer(_timer("due", stay), min(max(left_ms / 2, 500.0), left_ms) / 1000))
            if stay not in self.applying:
                self._ask(stay, permitted.join, None)

    def _believed(self, new: tuple[Revocation, ...]) -> list[Effect]:
        """A revocation from one of our programs: pass it on to our server."""
        if self._agent.up:
            self._out.append(Send(self._server, RevocationsTold(new)))
        return self._revoked()

    def _revoked(self) -> list[Effect]:
        for stay in sorted(self.permitted):
            me, group = stay
            if why := self.judge.why_not(self._now, group, me, self.judge.permits[stay]):
                fix = "ask those who run the authority"
                self._expel(stay, NotAuthorised(f"{me} may no longer be in {group}: {why}", fix=fix))
        return []

    def _closed(self) -> None:
        """Groups that were closed to this host while its programs were in them."""
        for stay in sorted(self.permitted):
            self._show(stay)
        led = self.stack[LED_AGENT].sets
        self.stack[LED_AGENT].lists.let_go(
            lambda group, agent: agent == self.host or not self.judge.is_closed_to(group, agent)
        )
        for group in [each for each in led if self.judge.is_closed_to(each, self.host)]:
            for me in sorted(led[group].members):
                self._call(LED_AGENT, Asked(me, self._own_token(), LeaveLed(group)))
                self._put_out(me, group)
        agreed = self.stack[AGREED_AGENT].groups
        for group in [each for each in agreed if self.judge.is_closed_to(each, self.host)]:
            for me in sorted(agreed[group].members):
                why = f"{group} is not for programs of {self.host}"
                self._call(AGREED_AGENT, MemberBarred(group, me, why, "choose another name"))
                self._out.append(AccessEnded(me, group, why))
        for group in [each for each in self._agent.groups if self.judge.is_closed_to(each, self.host)]:
            for me in sorted(self._agent.groups[group].members):
                self._call(AGENT, Asked(me, self._own_token(), Leave(group)))
                self._out.append(MemberUnlisted(me, group, (self._agent.incarnation, self._agent.counter)))
                self._put_out(me, group)

    def _put_out(self, me: Endpoint, group: Group) -> None:
        refusal = NotAllowed(f"{group} is not for programs of {self.host}", fix="choose another name")
        self._out.append(AccessEnded(me, group, refusal.what))
        self._out.append(Tell((me,), PutOut(group, denied(refusal))))

    def _expel(self, stay: Stay, refusal: RostraError) -> None:
        """Remove a member from the group, and send it the reason (S-012)."""
        me, group = stay
        permitted = self.permitted.get(stay)
        was_member = permitted is not None and self._is_member(stay)
        self._forget(stay)
        if permitted is None or not was_member:
            return
        if me in self.stack[AGREED_AGENT].members_of(group):
            self._call(AGREED_AGENT, MemberBarred(group, me, refusal.what, refusal.fix))
            self._out.append(AccessEnded(me, group, refusal.what))
            return
        if permitted.join.speaks:
            pass  # its machine hears that it is put out, and leaves
        elif permitted.join.led:
            self._call(LED_AGENT, Asked(me, self._own_token(), LeaveLed(group)))
        else:
            self._call(AGENT, Asked(me, self._own_token(), Leave(group)))
            stamp = (self._agent.incarnation, self._agent.counter)
            self._out.append(MemberUnlisted(me, group, stamp))
        self._out.append(AccessEnded(me, group, refusal.what))
        self._out.append(Tell((me,), PutOut(group, denied(refusal))))

    def _forget(self, stay: Stay) -> None:
        if stay in self.applying:
            self._settled(stay)
        if self.permitted.pop(stay, None) is not None:
            self._out.append(CancelTimer(_timer("due", stay)))
        self.judge.permits.pop(stay, None)

    def _is_member(self, stay: Stay) -> bool:
        me, group = stay
        table = self._agent.groups.get(group)
        if table is not None and me in table.members:
            return True
        led = self.stack[LED_AGENT].sets.get(group)
        return led is not None and me in led.members

    # What other services order

    def _is_for_us(self, tell: Tell) -> bool:
        notice = tell.notice
        if type(notice) is Message:
            return self._heard(tell.endpoints[0], notice)
        if type(notice) is NotDelivered:
            to = set(notice.destinations)
            me = tell.endpoints[0]
            late = [each.asked for each in self._late.get(me, ()) if self._now < each.settled + RETURNED_S]
            waits = [each.asked for stay, each in self.applying.items() if stay[0] == me]
            return any(to <= asked for asked in (*waits, *late))
        return False


def _timer(what: str, stay: Stay) -> TimerKey:
    me, group = stay
    return ("access", what, me, group.name, group.scope)
