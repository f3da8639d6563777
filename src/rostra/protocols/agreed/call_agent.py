"""Calls about agreed groups that programs of one host make: a service behind `AgreedAgent`.

program ── GroupCall ──▶ GroupAsked ──▶ server        again every `ASK_AGAIN_S`, and on a new link
program ◀── GroupPresented, Denied ◀── GroupAnswer
                 └── no answer for long: a question is Unreachable, a change is InDoubt
"""

from typing import Final

from msgspec import Struct, field

from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    Effect,
    EndpointGone,
    Event,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.core.room import leaves_room
from rostra.core.stack import Service, ServiceName
from rostra.errors import (
    BY_CODE,
    REFUSALS,
    BadInput,
    InDoubt,
    NotAllowed,
    Refused,
    RostraError,
    TooLarge,
    Unreachable,
)
from rostra.names import Domain, Endpoint, check_not_transient, parent
from rostra.protocols.agreed.branch import HostQuestion
from rostra.protocols.agreed.calls import (
    GROUPS_MAX,
    GroupAnswer,
    GroupAsked,
    GroupCall,
    GroupPresented,
    GroupsFound,
    Names,
    OrderCall,
)
from rostra.protocols.agreed.config import ASK_AGAIN_S, ASK_TIMES_MAX
from rostra.protocols.agreed.orders import CreateGroup
from rostra.protocols.agreed.refusals import groups_named, no_such, why_not_restricted
from rostra.protocols.relaxed.local import AGENT, LocalServer
from rostra.protocols.relaxed.requests import denied

CALL_AGENT: ServiceName["CallAgent"] = ServiceName("agreed calls agent")

AGAIN: Final[TimerKey] = ("agreed", "", "call again")

CALLS_MAX: Final = 1_024
"""Calls of one host that wait for their answer; of one user, as many as are free."""


class HostCall(Struct, eq=False):
    token: int
    message: GroupAsked
    times: int = 1
    found: dict[Domain, Names] = field(default_factory=dict)  # by set: of a list that is not whole yet
    wanted: set[Domain] = field(default_factory=set)  # all sets that it is of, as far as is known

    @property
    def changes(self) -> bool:
        return isinstance(self.message.call, OrderCall)


class CallAgent(Service):
    name = CALL_AGENT
    takes = (GroupCall, GroupAnswer, GroupsFound, EndpointGone, LinkUp, LinkMoved, LinkDown)

    def __init__(self, host: Domain) -> None:
        self.host = host
        self.calls: dict[int, HostCall] = {}  # by number
        self._server = parent(host)
        self._up = False
        self._number = 0
        self._waits = False  # for AGAIN

    @property
    def _agent(self) -> LocalServer:
        return self.stack[AGENT]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        match event:
            case Asked(me, token, GroupCall() as request):
                try:
                    self._asked(me, token, request, out)
                except REFUSALS as refusal:
                    out.append(Answer(token, denied(refusal)))
            case Received(sender, (GroupAnswer() | GroupsFound()) as answer):
                call = self.calls.get(answer.question.number)
                if sender != self._server:
                    out.append(ignored(answer, "not a neighbour"))
                elif call is None or call.message.question != answer.question:
                    out.append(ignored(answer, "nothing waits for it"))
                elif isinstance(answer, GroupAnswer):
                    self._answered(call, answer, out)
                else:
                    self._found(call, answer, out)
            case TimerFired(timer) if timer == AGAIN:
                self._waits = False
                self._again(out)
            case EndpointGone(me):
                for number in [number for number, each in self.calls.items() if each.message.caller == me]:
                    del self.calls[number]
            case LinkUp(peer) | LinkMoved(peer) if peer == self._server:
                self._up = True
                out += [Send(self._server, each.message) for each in self.calls.values()]
            case LinkDown(peer) if peer == self._server:
                self._up = False
        wanted = bool(self.calls)
        if wanted and not self._waits:
            out.append(SetTimer(AGAIN, ASK_AGAIN_S))
        elif self._waits and not wanted:
            out.append(CancelTimer(AGAIN))
        self._waits = wanted
        return out

    def _asked(self, me: Endpoint, token: int, request: GroupCall, out: list[Effect]) -> None:
        group = request.group
        if me not in self._agent.endpoints:
            raise BadInput(f"no endpoint {me} is open on {self.host}", fix="open it first")
        makes = isinstance(request.call, OrderCall) and isinstance(request.call.order, CreateGroup)
        for each in groups_named(group, request.call):
            if not makes and self._agent.gate.is_closed_to(each, self.host):
                raise no_such(each)
            check_not_transient(each.name)
            self._agent.check_may_apply(each)
        if why := why_not_restricted(group, request.call):
            raise NotAllowed(why, fix="choose another name")
        if group.scope == self.host:
            raise NotAllowed(
                f'{group} is a group of one host, and those have no membership="agreed"',
                fix=f"choose a wider scope: {parent(group.scope)}",
            )
        if not self._up:
            raise Unreachable(f"{self.host} is cut off from {self._server}", fix="ask again when it is back")
        callers = [each.message.caller for each in self.calls.values()]
        user_of = self._agent.user_of
        if not leaves_room(CALLS_MAX, len(callers), lambda: [*map(user_of, callers)].count(user_of(me))):
            raise TooLarge(f"{len(callers)} calls of {self.host} wait for an answer", fix="ask again later")
        self._number += 1
        question = HostQuestion(self.host, self._agent.incarnation, self._number)
        call = HostCall(token, GroupAsked(group, question, me, request.call))
        self.calls[self._number] = call
        out.append(Send(self._server, call.message))

    def _answered(self, call: HostCall, answer: GroupAnswer, out: list[Effect]) -> None:
        del self.calls[answer.question.number]
        if not answer.code:
            out.append(Answer(call.token, GroupPresented(answer.state, answer.groups)))
            return
        error = BY_CODE.get(answer.code, Refused)
        out.append(Answer(call.token, denied(error(answer.why or "it was refused", fix=answer.fix))))

    def _found(self, call: HostCall, part: GroupsFound, out: list[Effect]) -> None:
        call.found[part.set] = part.groups
        call.wanted.update([part.set, *part.more])
        if {part.group.scope, *call.wanted} <= call.found.keys():  # that of the scope says which others
            groups = {group for names in call.found.values() for group in names}
            answer = GroupAnswer(part.group, part.question, groups=tuple(sorted(groups)[:GROUPS_MAX]))
            self._answered(call, answer, out)

    def _again(self, out: list[Effect]) -> None:
        for number, call in list(self.calls.items()):
            call.times += 1
            call.found.clear()
            call.wanted.clear()
            if call.times > ASK_TIMES_MAX:
                del self.calls[number]
                out.append(Answer(call.token, denied(_late(call))))
            elif self._up:
                out.append(Send(self._server, call.message))


def _late(call: HostCall) -> RostraError:
    group = call.message.group
    if call.changes:
        return InDoubt(
            f"the servers of {group} did not answer: it may have been done", fix="look before you ask again"
        )
    return Unreachable(f"the servers of {group} did not answer in time", fix="ask again")
