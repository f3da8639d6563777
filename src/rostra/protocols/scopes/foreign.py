"""Questions about groups of a scope that the asker is not in (C-186). Off unless the world allows them.

    program ── Resolve ──▶ agent ── ForeignAsked ──▶ servers, hop by hop ──▶ the scope's server
                                                                              │ down, by the first child
                                                                              ▼
    program ◀── Absolute ◀─ agent ◀── ForeignTold ◀── back the same way ◀── a cluster inside, which resolves

The answer is that of a `Resolve` by a host of that cluster at that moment. A closed group that is not for the
asker's host looks empty, as one does that does not exist. A led group is answered inside its scope only,
where its leader can be asked. A message is passed on if it comes from the side of its source (C-125).

Where we differ from the paper, and why: "any server inside the scope" is a cluster's. The server of the scope
itself has no rows of its groups (C-009), and other servers know one side of them only.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    Effect,
    Event,
    Ignored,
    Instant,
    Received,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
    ignored,
)
from rostra.core.room import leaves_room
from rostra.core.stack import Service, ServiceName
from rostra.errors import DeadlineExceeded, NotAvailable, NotInScope, RostraError, TooLarge, Unreachable
from rostra.groups.members import names_led
from rostra.names import OPEN, Domain, Group, inside, parent
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.events import ResolvedHere, ResolveHere
from rostra.protocols.relaxed.local import AGENT, LocalServer
from rostra.protocols.relaxed.neighbours import Neighbours, Relation
from rostra.protocols.relaxed.requests import Absolute, Denied, Resolve, denied
from rostra.protocols.relaxed.routing import OUTSIDE
from rostra.protocols.scopes.config import FOREIGN_MAX, FOREIGN_OF_HOST_MAX, SERVERS_WEIGH, ScopesConfig
from rostra.protocols.scopes.messages import ForeignAsked, ForeignTold

FOREIGN_AGENT: Final = ServiceName["ForeignAgent"]("scopes foreign agent")
FOREIGN_SERVER: Final = ServiceName["ForeignServer"]("scopes foreign server")


class ForeignAgent(Service):
    name = FOREIGN_AGENT
    hears = (Answer,)

    def __init__(self, host: Domain, config: ScopesConfig) -> None:
        self.host = host
        self.config = config
        self.takes = (Resolve, ForeignTold) if config.foreign else (ForeignTold,)
        self.asked: dict[int, tuple[int, Group, str]] = {}  # by our number: the program's question, its user
        self._server = parent(host)
        self._outside: dict[int, tuple[Group, str]] = {}  # that relaxed membership is going to refuse
        self.engaged = (self._outside,)
        self._number = 0

    @property
    def _directory(self) -> LocalServer:
        return self.stack[AGENT]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        match event:
            case Asked(me, token, Resolve(name, scope)):
                if scope not in (None, OPEN) and not inside(scope, self.host):
                    self._outside[token] = Group(name, scope), self._directory.user_of(me)
                return []
            case Received(sender, ForeignTold() as told):
                if sender != self._server or told.asker != self.host:
                    return [Ignored("ForeignTold", "not here")]
                return self._told(now, told)
            case TimerFired(("scopes", "foreign", int(number))) if number in self.asked:
                token, group, _ = self.asked.pop(number)
                late = DeadlineExceeded(f"no server of {group.scope} answered in time", fix="ask again")
                return [Answer(token, denied(late))]
        return [ignored(event, "nothing waits for it")]

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Relaxed membership refused a `Resolve` because the host is outside the scope: ask the scope's
        servers."""
        out: list[Effect] = []
        for effect in effects:
            asked = self._outside.pop(effect.token, None) if isinstance(effect, Answer) else None
            if isinstance(effect, Answer) and asked is not None and _is_outside(effect.result):
                out += self._ask(effect.token, *asked)
            else:
                out.append(effect)
        return out

    def _ask(self, token: int, group: Group, user: str) -> list[Effect]:
        if not self._directory.up:
            cut_off = Unreachable(f"{self.host} is cut off from {self._server}", fix="ask again")
            return [Answer(token, denied(cut_off))]
        askers = [each for _, _, each in self.asked.values()]
        if not leaves_room(FOREIGN_OF_HOST_MAX, len(askers), lambda: askers.count(user)):
            busy = TooLarge(f"{len(askers)} questions of {self.host} wait", fix="ask again later")
            return [Answer(token, denied(busy))]
        self._number += 1
        self.asked[self._number] = token, group, user
        asked = ForeignAsked(self.host, self._number, group)
        return [Send(self._server, asked), SetTimer(_timer(self._number), self.config.foreign_s)]

    def _told(self, now: Instant, told: ForeignTold) -> list[Effect]:
        token, group, _ = self.asked.get(told.number, (0, None, ""))
        if group != told.group:
            return [Ignored("ForeignTold", "late reply")]
        del self.asked[told.number]
        out: list[Effect] = [CancelTimer(_timer(told.number))]
        refusal: RostraError | None = None
        if told.why:
            refusal = Unreachable(f"{group} was not resolved: {told.why}", fix="ask again")
        elif names_led(told.members):
            refusal = NotAvailable(f"{group} is led: its list is told inside {group.scope}", fix="ask there")
        if refusal is not None:
            return [*out, Answer(token, denied(refusal))]
        inner = tuple([each for each in told.members if inside(group.scope, each.endpoint)])
        members = self._directory.gate.screen(now, group, inner)
        return [*out, Answer(token, Absolute(group, members))]


class ForeignServer(Service):
    name = FOREIGN_SERVER
    hears = (ResolvedHere,)
    takes = (ForeignAsked, ForeignTold)

    def __init__(self, domain: Domain, config: ScopesConfig) -> None:
        self.domain = domain
        self.config = config
        self.asked: dict[int, ForeignAsked] = {}  # of which our cluster's answer is on its way
        self._open_of: Counter[Domain] = Counter()  # by the asker's host, and by its cluster
        self._number = 0

    @property
    def _neighbours(self) -> Neighbours:
        return self.stack[SERVER].neighbours

    def step(self, now: Instant, event: Event) -> list[Effect]:
        match event:
            case Received(sender, message) if sender not in self._neighbours.up:
                return [ignored(message, "sender is not connected")]
            case Received(sender, ForeignAsked() as asked):
                return self._asked(now, sender, asked)
            case Received(sender, ForeignTold() as told):
                return self._told(sender, told)
        return [ignored(event, "nothing waits for it")]

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        if not self.asked:
            return effects
        out: list[Effect] = []
        for effect in effects:
            out += self._resolved(effect) if type(effect) is ResolvedHere else [effect]
        return out

    def _asked(self, now: Instant, sender: Domain, asked: ForeignAsked) -> list[Effect]:
        neighbours, scope = self._neighbours, asked.group.scope
        if not neighbours.speaks_for(sender, asked.asker):
            return [Ignored("ForeignAsked", OUTSIDE)]
        if inside(scope, asked.asker):
            return [Ignored("ForeignAsked", "in scope")]
        if not inside(scope, self.domain):
            return self._pass_on(asked, sender, neighbours.hop_towards(scope))
        if not self.config.foreign:
            return [_refused(sender, asked, "this world answers questions from inside only")]
        if not neighbours.cluster:
            return self._pass_on(asked, sender, next(iter(neighbours.children), None))
        if self.stack[SERVER].gate.is_closed_to(asked.group, asked.asker):
            return [Send(sender, ForeignTold(asked.asker, asked.number, asked.group))]
        host, cluster = asked.asker, parent(asked.asker)
        is_full = (
            self._open_of[host] >= FOREIGN_OF_HOST_MAX
            or self._open_of[cluster] >= FOREIGN_OF_HOST_MAX * SERVERS_WEIGH
            or len(self.asked) >= FOREIGN_MAX
        )
        if is_full:
            return [_refused(sender, asked, f"{self.domain} is asked too much")]
        self._number += 1
        self.asked[self._number] = asked
        self._open_of.update((host, cluster))
        effects = self.stack.call(now, self, SERVER, ResolveHere(asked.group, self._number))
        return list(self.hear(now, effects))

    def _pass_on(self, asked: ForeignAsked, sender: Domain, hop: Domain | None) -> list[Effect]:
        if hop is None or hop == sender or hop not in self._neighbours.up:
            return [_refused(sender, asked, f"{self.domain} cannot reach {hop or asked.group.scope}")]
        return [Send(hop, asked)]

    def _resolved(self, found: ResolvedHere) -> list[Effect]:
        asked = self.asked.pop(found.number)
        for each in (asked.asker, parent(asked.asker)):
            self._open_of[each] -= 1
            if not self._open_of[each]:
                del self._open_of[each]
        hop = self._neighbours.hop_towards(asked.asker)
        if hop is None or hop not in self._neighbours.up:
            return [Ignored("ForeignAsked", "next hop is down")]
        return [Send(hop, ForeignTold(asked.asker, asked.number, asked.group, found.members))]

    def _told(self, sender: Domain, told: ForeignTold) -> list[Effect]:
        neighbours, scope = self._neighbours, told.group.scope
        if inside(scope, self.domain):
            is_behind = neighbours.relation(sender) is Relation.CHILD
        else:
            is_behind = neighbours.hop_towards(scope) == sender
        hop = neighbours.hop_towards(told.asker)
        if not is_behind or hop == sender:
            return [Ignored("ForeignTold", OUTSIDE)]
        if hop is None or hop not in neighbours.up:
            return [Ignored("ForeignTold", "next hop is down")]
        return [Send(hop, told)]


def _refused(sender: Domain, asked: ForeignAsked, why: str) -> Send:
    return Send(sender, ForeignTold(asked.asker, asked.number, asked.group, why=why))


def _is_outside(result: object) -> bool:
    return isinstance(result, Denied) and result.code == NotInScope.code


def _timer(number: int) -> TimerKey:
    return ("scopes", "foreign", number)
