"""The claims service of an agent: no member of a strong kind joins without a claim of that kind.

    JoinClaimed ──▶ Claim ──▶ the server of the scope ──▶ ClaimAnswer ──┬── our kind: the member joins
                                                                        └── another: NotAllowed names it
    the last such member left ──▶ ClaimReleased, repeated until it is answered
    LinkUp, LinkMoved ──▶ Claim what we hold again; if another kind stands by now, remove the members

The services of strong groups submit `JoinClaimed`; the member then stands in the directory with its kind,
like any other. A claim whose fate is unknown is released: one that was not answered in time, or before our
link went down, may have been recorded.

Groups of relaxed membership with no delivery or ``fifo`` claim nothing. Where such a member meets a strong
one, in whichever order they joined, the weaker is removed: its agent receives a notice of the strong member,
asks the server of the scope for the kind (by releasing a claim that it does not hold), and trusts only that
answer. Any program that may join may claim; of a restricted name, with its proof.

For a group whose scope is this host, this agent is the server of the scope.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    Effect,
    Event,
    Ignored,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Observation,
    Received,
    Secure,
    Send,
    SetTimer,
    Tell,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.core.room import leaves_room
from rostra.core.stack import Service, ServiceName
from rostra.errors import (
    REFUSALS,
    BadInput,
    NoSuchGroup,
    NotAllowed,
    NotAvailable,
    RostraError,
    StoreFailed,
    TooLarge,
    Unreachable,
)
from rostra.groups.kinds import FIFO, GroupKind
from rostra.groups.members import Members
from rostra.names import Domain, Endpoint, Group, depth, parent
from rostra.protocols.claims.config import ASK_AGAIN_S, ASK_TIMES_MAX, CLAIMS_OF_HOST_MAX
from rostra.protocols.claims.messages import Claim, ClaimAnswer, ClaimBegun, ClaimReleased, ProvenClaim
from rostra.protocols.claims.table import ClaimTable
from rostra.protocols.relaxed.local import AGENT, LocalServer
from rostra.protocols.relaxed.messages import EndpointLeft, MessageId
from rostra.protocols.relaxed.registry import Registry
from rostra.protocols.relaxed.requests import Absolute, Join, Joined, Leave, PutOut, denied

CLAIM_AGENT: ServiceName["ClaimAgent"] = ServiceName("claims agent")

_FAILED: Final[dict[str, tuple[type[RostraError], str]]] = {
    NoSuchGroup.code: (NoSuchGroup, "choose another name"),
    NotAllowed.code: (NotAllowed, "choose another name"),
    TooLarge.code: (TooLarge, "ask again later"),
    StoreFailed.code: (StoreFailed, "free some space on that disk, and ask again"),
    NotAvailable.code: (NotAvailable, "choose a narrower scope; rostra domains shows which have servers"),
}
"""Why the server of a scope did not decide, by the code of its answer. Otherwise it was not reached."""

AGAIN: Final[TimerKey] = ("claims", "again")

OWN: Final = 0
"""The token of what we ask on our own account; programs' are above."""


class ClaimKept(Event, frozen=True):
    """From the service of a group: hold its claim even without members; or no longer."""

    group: Group
    kept: bool


class OrderRecorded(Observation, frozen=True):
    """With ``stable="disk"``: the server of the scope has recorded that this order is the group's."""

    group: Group
    order: str


class JoinClaimed(Event, frozen=True):
    """A member of a strong kind joins. Answered once, with `Done` or `Denied`, under `token`."""

    endpoint: Endpoint
    token: int
    join: Join  # with its kind


Ids = tuple[MessageId, ...]
"""Of one question, each time it was sent; the last ones. An answer to any of them is one to all."""


class AskedClaim(Struct, eq=False):
    """A claim that is not answered yet."""

    group_kind: GroupKind
    waiting: list[JoinClaimed] = field(default_factory=list)  # none: we hold it, and renew it
    ids: Ids = ()
    times: int = 0


class ClaimAgent(Service):
    name = CLAIM_AGENT
    hears = (Send, Tell)
    hears_always = (Tell,)
    takes = (ClaimAnswer, JoinClaimed, ClaimKept, LinkUp, LinkDown, LinkMoved)

    def __init__(self, host: Domain, registry: Registry) -> None:
        self.host = host
        self.held: dict[Group, GroupKind] = {}
        self.engaged = (self.held,)
        self.made: set[Group] = set()  # of those with ``stable="disk"``: whose order we may begin
        self.begun: dict[Group, str] = {}  # and of which we have one on disk: its name
        self.recorded: dict[Group, str] = {}  # and which of these the server of the scope has recorded
        self.over: set[Group] = set()  # that were deleted
        self.asked: dict[Group, AskedClaim] = {}
        self.kept: set[Group] = set()
        self._alone: set[Group] = set()  # no other host held it when we claimed it
        self.releasing: dict[Group, Ids] = {}
        self.up = False  # the link to the server
        self._server = parent(host)
        self._own = ClaimTable(registry.own, depth(host))
        self._registry = registry
        self._sequence = 0
        self._waits = False  # for AGAIN

    @property
    def _agent(self) -> LocalServer:
        return self.stack[AGENT]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        match event:
            case JoinClaimed():
                try:
                    self._join(now, event, out)
                except REFUSALS as refusal:
                    out.append(Answer(event.token, denied(refusal)))
            case ClaimKept(group, kept):
                (self.kept.add if kept else self.kept.discard)(group)
                self._left(group, out)
            case Received(sender, ClaimAnswer() as answer):
                if sender != self._server or answer.claimer != self.host:
                    out.append(Ignored("ClaimAnswer", "not a neighbour"))
                else:
                    self._answered(now, answer, out)
            case TimerFired(timer) if timer == AGAIN:
                self._waits = False
                self._again(out)
            case LinkUp(peer) | LinkMoved(peer) if peer == self._server:
                self.up = True
                self._renew(out)
            case LinkDown(peer) if peer == self._server:
                self.up = False
                self._link_down(out)
            case LinkUp() | LinkMoved() | LinkDown():
                pass  # the relaxed service says what it ignores
            case _:
                out.append(ignored(event, "nothing waits for it"))
        self._wait(out)
        return out

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        more: list[Effect] = []
        for effect in effects:
            if type(effect) is Tell and type(effect.notice) in (Absolute, Joined):
                self._meet(now, effect.notice, more)
            elif type(effect) is Send and type(effect.message) is EndpointLeft and self.held:
                self._left(effect.message.group, more)
        if not more:
            return effects
        self._wait(more)
        return [*effects, *more]

    # Joining

    def _join(self, now: Instant, event: JoinClaimed, out: list[Effect]) -> None:
        join = event.join
        group, kind = join.group, join.group_kind
        if kind is None or not kind.is_claimed:
            raise BadInput(f"{group} as {kind}", fix="join it: that kind claims nothing")
        if not join.permanent:
            self._agent.check_may_join(group, event.endpoint)
        if group.scope == self.host:
            self._left(group, out)  # leaves are not announced, so the last one is noticed here
        if (held := self._held(group)) is not None and held != kind:
            raise another_kind(group, held)
        if group.scope == self.host:
            if why := self._own.why_not(group.name, self.host):
                raise TooLarge(why, fix="leave some groups of strong kinds")
            self._own.claim(group.name, self.host, kind)
            out += map(Secure, self._own.records_of(group.name, self.host))
            self._enter(now, event, out)
            self._left(group, out)
        elif held is not None:
            self._enter(now, event, out)
        elif group in self.asked:
            self.asked[group].waiting.append(event)
        elif not self.up:
            raise Unreachable(
                f"the server of {group.scope} is out of sight: {self.host} is cut off from {self._server}",
                fix="ask again when it is back",
            )
        elif len(self.releasing) >= 2 * CLAIMS_OF_HOST_MAX:
            raise TooLarge(
                f"{len(self.releasing)} claims of {self.host} are in doubt: their servers do not answer",
                fix="ask again later",
            )
        elif not self._has_room(event.endpoint):
            raise TooLarge(
                f"{self.host} claims groups for its users, and for one of them no more than are free",
                fix="leave some groups of strong kinds",
            )
        else:
            self.releasing.pop(group, None)
            self._ask(group, kind, [event], out)

    def is_alone(self, group: Group) -> bool:
        """Did no other host hold the claim when we made it?"""
        return group.scope == self.host or group in self._alone

    def _has_room(self, me: Endpoint) -> bool:
        user, groups = self._agent.user_of(me), self.held.keys() | self.asked.keys()
        count = len(groups)
        return leaves_room(
            CLAIMS_OF_HOST_MAX, count, lambda: sum(self._user(each) == user for each in groups)
        )

    def _user(self, group: Group) -> str:
        """The user whose quota a claim counts against: that of the first member that needs it."""
        if (asked := self.asked.get(group)) is not None and asked.waiting:
            return self._agent.user_of(asked.waiting[0].endpoint)
        members = self._agent.groups[group].members if group in self._agent.groups else {}
        first = next((me for me, each in members.items() if _is_strong(each.kind)), Endpoint(""))
        return self._agent.user_of(first)

    def _held(self, group: Group) -> GroupKind | None:
        if group.scope != self.host:
            return self.held.get(group)
        claim = self._own.get(group.name)
        return None if claim is None else claim.group_kind

    def _ask(self, group: Group, kind: GroupKind, waiting: list[JoinClaimed], out: list[Effect]) -> None:
        self.asked[group] = AskedClaim(kind, waiting)
        self._send_claim(group, out)

    def _send_claim(self, group: Group, out: list[Effect]) -> None:
        asked, id = self.asked[group], self._new_id()
        asked.ids, asked.times = _with(asked.ids, id), asked.times + 1
        claim = Claim(id, self.host, group, asked.group_kind)
        if "!" in group.name and (proven := self._proven(group, asked)) is not None:
            claim = ProvenClaim(id, self.host, group, asked.group_kind, *proven)
        if group in self.begun:  # first: the answer is to the claim
            out.append(Send(self._server, ClaimBegun(id, self.host, group, self.begun[group])))
        out.append(Send(self._server, claim))

    def _proven(self, group: Group, asked: AskedClaim) -> tuple[Endpoint, bytes] | None:
        """A member that may be in this restricted group, with its newest proof."""
        waiting, permits = [each.endpoint for each in asked.waiting], self._agent.gate.permits
        those = [*waiting, *self._members_of(group, strong=True)]
        return next(((me, permits[me, group]) for me in those if (me, group) in permits), None)

    def _send_release(self, group: Group, out: list[Effect]) -> None:
        id = self._new_id()
        self.releasing[group] = _with(self.releasing[group], id)
        out.append(Send(self._server, ClaimReleased(id, self.host, group, group in self.over)))

    def _enter(self, now: Instant, event: JoinClaimed, out: list[Effect]) -> None:
        """Join the directory (relaxed membership), with the group's kind."""
        if event.endpoint not in self._agent.endpoints:
            return  # its program has gone, and is not answered any more
        asked = Asked(event.endpoint, event.token, event.join)
        out += self.hear(now, self.stack.call(now, self, AGENT, asked))

    def _answered(self, now: Instant, answer: ClaimAnswer, out: list[Effect]) -> None:
        group, asked = answer.group, self.asked.get(answer.group)
        if answer.id in self.releasing.get(group, ()):
            if not answer.code:
                del self.releasing[group]
                self.over.discard(group)
                self._stands(now, group, answer.group_kind, out)
        elif asked is None or answer.id not in asked.ids:
            out.append(Ignored("ClaimAnswer", "late reply"))
            if answer.id.server != self.host and answer.group_kind is not None and not self._has_part(group):
                self._release(group, out)  # we did not ask: it stands for an earlier life of ours
        elif answer.code:
            self._failed(group, asked, answer, out)
        else:
            del self.asked[group]
            if asked.waiting:
                (self._alone.add if answer.alone else self._alone.discard)(group)
            self.made.discard(group)
            if answer.made:
                self.made.add(group)
            if answer.begun and answer.begun != self.recorded.get(group):
                out.append(OrderRecorded(group, answer.begun))
            self._is_recorded(group, answer.begun)
            self._decided(now, group, asked, answer.group_kind, out)
            if group in self.begun and group in self.held and not answer.begun:
                self.asked.setdefault(group, AskedClaim(self.held[group]))  # sent with AGAIN

    def _has_part(self, group: Group) -> bool:
        known = group in self.asked or group in self.held or group in self.releasing
        return known or self._is_used(group)

    def _is_recorded(self, group: Group, order: str) -> None:
        self.recorded.pop(group, None)
        if order:
            self.recorded[group] = order

    def _failed(self, group: Group, asked: AskedClaim, answer: ClaimAnswer, out: list[Effect]) -> None:
        """The server of the scope did not decide. What we hold is asked for again."""
        if not asked.waiting:
            return
        del self.asked[group]
        kind, fix = _FAILED.get(answer.code, (Unreachable, "ask again later"))
        refusal = kind(f"{group} cannot be claimed: {answer.why}", fix=fix)
        self._refuse(asked.waiting, refusal, out)

    def _decided(
        self, now: Instant, group: Group, asked: AskedClaim, stands: GroupKind | None, out: list[Effect]
    ) -> None:
        if stands == asked.group_kind:
            self.held[group] = stands
            for event in asked.waiting:
                if event.join.group_kind == stands:
                    self._enter(now, event, out)
                else:
                    self._refuse([event], another_kind(group, stands), out)
            self._stands(now, group, stands, out)
            self._left(group, out)
            return
        self._stands(now, group, stands, out)
        self._alone.discard(group)
        if self.held.pop(group, None) is not None:
            self._put_out(now, group, self._members_of(group, strong=True), stands, out)
        same = [event for event in asked.waiting if event.join.group_kind == stands]
        others = [event for event in asked.waiting if event.join.group_kind != stands]
        if stands is None:  # not what we asked; a server that forgot is asked again by the program
            self._refuse(asked.waiting, Unreachable(f"{group} was claimed, and is not any more"), out)
            return
        self._refuse(others, another_kind(group, stands), out)
        if same:
            self._ask(group, stands, same, out)

    def _refuse(self, events: list[JoinClaimed], refusal: RostraError, out: list[Effect]) -> None:
        present = self._agent.endpoints
        out += [Answer(each.token, denied(refusal)) for each in events if each.endpoint in present]

    # Leaving

    def _left(self, group: Group, out: list[Effect]) -> None:
        """Does this host still have members of the kind that it holds? If not, release the claim."""
        if self._held(group) is None or self._is_used(group):
            return
        if group.scope == self.host:
            permanent = self._registry.is_permanent(group)
            out += map(Secure, self._own.release(group.name, self.host, permanent=permanent))
        else:
            del self.held[group]
            self._alone.discard(group)
            self.made.discard(group)
            self._is_recorded(group, "")
            self.asked.pop(group, None)  # to renew it
            self._release(group, out)

    def _release(self, group: Group, out: list[Effect]) -> None:
        self.releasing[group] = ()
        if self.up:
            self._send_release(group, out)

    def _is_used(self, group: Group) -> bool:
        return group in self.kept or bool(self._members_of(group, strong=True))

    def _members_of(self, group: Group, *, strong: bool) -> list[Endpoint]:
        table = self._agent.groups.get(group)
        members = () if table is None else table.records()
        return [each.endpoint for each in members if _is_strong(each.kind) is strong]

    # Meeting another kind

    def _meet(self, now: Instant, notice: Absolute | Joined, out: list[Effect]) -> None:
        """A notice to members of this host lists strong members. It may be wrong: ask the scope's server."""
        group = notice.group
        if not _has_strong(notice.members) or not self._members_of(group, strong=False):
            return
        if (held := self._held(group)) is not None:
            self._stands(now, group, held, out)
        elif group not in self.asked and group not in self.releasing and group.scope != self.host:
            self._release(group, out)

    def _stands(self, now: Instant, group: Group, kind: GroupKind | None, out: list[Effect]) -> None:
        """This kind stands: members of this host with a weaker kind are removed."""
        if kind is not None:
            self._put_out(now, group, self._members_of(group, strong=False), kind, out)

    def _put_out(
        self, now: Instant, group: Group, members: list[Endpoint], stands: GroupKind | None, out: list[Effect]
    ) -> None:
        """Remove members from the directory, and send them the reason. Those of FIFO groups are removed by
        their own service."""
        refusal = denied(another_kind(group, stands))
        for me in members:
            if self._agent.groups[group].members[me].kind != FIFO:
                effects = self.stack.call(now, self, AGENT, Asked(me, OWN, Leave(group)))
                out += [effect for effect in effects if not (type(effect) is Answer and effect.token == OWN)]
            out.append(Tell((me,), PutOut(group, refusal)))

    # Again

    def renew(self, group: Group) -> list[Effect]:
        """Send the claim that we hold again: something in it has changed, or the answer may have."""
        out: list[Effect] = []
        if group in self.held and group not in self.asked and self.up:
            self._ask(group, self.held[group], [], out)
            self._wait(out)
        return out

    def _renew(self, out: list[Effect]) -> None:
        """Our link is up, perhaps to another replica: send again all that we hold and asked."""
        for group in sorted(self.held):
            if not self._is_used(group):
                del self.held[group]
                self._alone.discard(group)
                self.asked.pop(group, None)
                self.releasing[group] = ()
            elif group not in self.asked:
                self.asked[group] = AskedClaim(self.held[group])
        self._send_all(out)

    def _send_all(self, out: list[Effect]) -> None:
        for group in sorted(self.asked):
            self._send_claim(group, out)
        for group in sorted(self.releasing):
            self._send_release(group, out)

    def _again(self, out: list[Effect]) -> None:
        for group, asked in list(self.asked.items()):
            if asked.waiting and asked.times >= ASK_TIMES_MAX:
                self._doubt(group, "did not answer in time", out)
        if self.up:
            self._send_all(out)

    def _link_down(self, out: list[Effect]) -> None:
        self.made.clear()  # another host may be chosen meanwhile: this is asked again when we are back
        for group, asked in list(self.asked.items()):
            if asked.waiting:
                self._doubt(group, "went out of sight before it answered", out)
            else:
                del self.asked[group]  # it is held, and renewed when we are back

    def _doubt(self, group: Group, why: str, out: list[Effect]) -> None:
        """It is not known whether the claim was recorded: refuse the joins, and release it."""
        asked = self.asked.pop(group)
        gone = Unreachable(f"the server of {group.scope} {why}", fix="ask again")
        self._refuse(asked.waiting, gone, out)
        self.releasing[group] = ()

    def _wait(self, out: list[Effect]) -> None:
        wanted = self.up and bool(self.asked or self.releasing)
        if wanted and not self._waits:
            out.append(SetTimer(AGAIN, ASK_AGAIN_S))
        elif self._waits and not wanted:
            out.append(CancelTimer(AGAIN))
        self._waits = wanted

    def _new_id(self) -> MessageId:
        self._sequence += 1
        return MessageId(self.host, self._agent.incarnation, self._sequence)


def _with(ids: Ids, id: MessageId) -> Ids:
    return (*ids, id)[-ASK_TIMES_MAX:]


def another_kind(group: Group, stands: GroupKind | None) -> NotAllowed:
    if stands is None:
        return NotAllowed(f"{group} is not claimed any more", fix="join it again")
    return NotAllowed(f"{group} is {stands}", fix="join it so, or choose another name")


def _is_strong(kind: GroupKind | None) -> bool:
    return kind is not None and kind.is_claimed


def _has_strong(members: Members) -> bool:
    return any(member.kind is not None and member.kind.is_claimed for member in members)
