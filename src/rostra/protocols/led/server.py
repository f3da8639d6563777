"""Led membership at a server: it carries letters between agents, and is the registrar of some scopes.

    neighbour ── CarriedLetter ──▶ is it for us? ── no ──▶ the next neighbour on the way
                                        └── yes ──▶ Registrar ──▶ CarriedLetter, back
    child ── RegistrarsAsked ──▶ parent ── RegistrarsTold ──▶ child, whenever they change

A server is the registrar of its own domain. Where a parent is out of sight, the highest of its children that
see each other takes its place (`rules.py`). Each server tells those children that asked, and asks its parent
when it was asked: where no group is led, nothing is sent.

A neighbour is believed about its own side only: a letter is passed on if its source is behind the neighbour
that it came from (C-125). Behind a host is the host alone: it cannot invent others.
"""

from typing import Final

from rostra.core.effects import (
    Effect,
    Event,
    Ignored,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Received,
    Send,
    TimerFired,
    ignored,
)
from rostra.core.stack import Service, ServiceName
from rostra.groups.kinds import MembershipKind
from rostra.names import Domain, Group, enclosing, inside
from rostra.protocols.claims.server import CLAIM_SERVER
from rostra.protocols.led.config import LedConfig
from rostra.protocols.led.core import PostLetter
from rostra.protocols.led.messages import (
    AnyLetter,
    Assert,
    CarriedLetter,
    LeaderAsked,
    LeaderProbed,
    NotRegistrar,
    RegistrarsAsked,
    RegistrarsTold,
    SetReleased,
    decode_letter,
    encode_letter,
)
from rostra.protocols.led.proven import is_refused
from rostra.protocols.led.registrar import Registrar
from rostra.protocols.led.rules import ANY_NAME, scope_rule
from rostra.protocols.led.state import AgentId
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.neighbours import Neighbours, Relation
from rostra.protocols.relaxed.routing import OUTSIDE

LED_SERVER: Final = ServiceName["LedServer"]("led server")


class LedServer(Service):
    name = LED_SERVER
    takes = (CarriedLetter, RegistrarsTold, RegistrarsAsked, LinkUp, LinkDown, LinkMoved)

    def __init__(self, domain: Domain, config: LedConfig | None = None) -> None:
        self.domain = domain
        self.registrar = Registrar(config or LedConfig(), self._reaches, claims=self._holds_claim)
        self.registrars: dict[Domain, AgentId] = {}  # by scope
        self._told: dict[Domain, AgentId] = {}  # by our parent
        self._lives: dict[Domain, int] = {}  # of neighbours that are up
        self._askers: set[Domain] = set()  # children that are told

    @property
    def _neighbours(self) -> Neighbours:
        return self.stack[SERVER].neighbours

    @property
    def _me(self) -> AgentId:
        return AgentId(self.domain, self.stack[SERVER].incarnation)

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        match event:
            case Received(sender, message):
                relation = self._neighbours.relation(sender)
                if relation is None:
                    out.append(ignored(message, "sender is not connected"))
                elif isinstance(message, CarriedLetter):
                    self._carry(now, sender, relation, message, out)
                elif isinstance(message, RegistrarsAsked):
                    self._asked(sender, relation, out)
                elif relation is not Relation.PARENT:
                    out.append(Ignored("RegistrarsTold", "not our parent"))
                else:
                    self._told = {scope: AgentId(path, life) for scope, path, life in message.registrars}
                    self._choose(out)
            case LinkUp(peer, life) | LinkMoved(peer, life):
                self._lives[peer] = life
                if self._askers and peer == self._neighbours.parent:
                    out.append(Send(peer, RegistrarsAsked()))
                self._choose(out)
            case LinkDown(peer):
                self._lives.pop(peer, None)
                self._askers.discard(peer)
                if self._neighbours.relation(peer) is Relation.PARENT:
                    self._told = {}
                self._choose(out)
            case TimerFired(timer):
                self._perform(self.registrar.fired(now, timer), out)
            case _:
                out.append(ignored(event, "nothing waits for it"))
        return out

    # Letters

    def _carry(
        self, now: Instant, sender: Domain, relation: Relation, letter: CarriedLetter, out: list[Effect]
    ) -> None:
        neighbours = self._neighbours
        if not neighbours.speaks_for(sender, letter.source):
            out.append(Ignored("CarriedLetter", OUTSIDE))
            return
        if letter.to == self.domain:
            self._opened(now, letter.source, decode_letter(letter.body), out)
            return
        hop = neighbours.onward(sender, relation, neighbours.hop_towards(letter.to))
        if hop is None:
            out.append(Ignored("CarriedLetter", "off the unique path"))
        elif hop not in self._lives:
            out.append(Ignored("CarriedLetter", "next hop is down"))
        else:
            out.append(Send(hop, letter))

    def _opened(self, now: Instant, source: Domain, letter: AnyLetter | None, out: list[Effect]) -> None:
        match letter:
            case Assert() | SetReleased() | LeaderProbed() | LeaderAsked():
                scope = letter.group.scope
                believed = self.registrars.get(scope)
                if not inside(scope, source) or not inside(scope, self.domain):
                    out.append(ignored(letter, "out of scope"))
                elif is_refused(
                    now,
                    self.stack[SERVER].gate,
                    source,
                    letter,
                    lambda to, answer: self._post(to, answer, out),
                    out,
                ):
                    pass
                elif believed != self._me:
                    path = None if believed is None else believed.path
                    self._post(source, NotRegistrar(letter.group, letter.number, path), out)
                else:
                    self._perform(self.registrar.step(now, source, letter), out)
            case None:
                out.append(Ignored("CarriedLetter", "not a letter"))
            case _:
                out.append(ignored(letter, "not for a server"))

    def _perform(self, effects: list[Effect], out: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, PostLetter):
                assert effect.to is not None, "a registrar knows whom it answers"
                self._post(effect.to, effect.letter, out)
            else:
                out.append(effect)

    def _post(self, to: Domain, letter: AnyLetter, out: list[Effect]) -> None:
        hop = self._neighbours.hop_towards(to)
        if hop is None or hop not in self._lives:
            out.append(ignored(letter, "next hop is down"))
        else:
            out.append(Send(hop, CarriedLetter(self.domain, to, encode_letter(letter))))

    def _reaches(self, agent: Domain) -> bool:
        return self._neighbours.next_hop(agent) in self._lives

    def _holds_claim(self, agent: Domain, group: Group) -> bool:
        """Claims are known to the server of the scope alone: one that stands in for it does not ask."""
        if group.scope != self.domain:
            return True
        claim = self.stack[CLAIM_SERVER].table.get(group.name)
        return (
            claim is not None and claim.group_kind.membership is MembershipKind.LED and agent in claim.holders
        )

    # Registrars

    def _asked(self, peer: Domain, relation: Relation, out: list[Effect]) -> None:
        if relation is not Relation.CHILD:
            out.append(Ignored("RegistrarsAsked", "not a child"))
            return
        parent = self._neighbours.parent
        if not self._askers and parent is not None and parent in self._lives:
            out.append(Send(parent, RegistrarsAsked()))
        self._askers.add(peer)
        self._choose(out)
        out.append(Send(peer, self._table()))

    def _choose(self, out: list[Effect]) -> None:
        before, self.registrars = self.registrars, self._registrars()
        lost = frozenset(
            [scope for scope, each in before.items() if each == self._me != self.registrars.get(scope)]
        )
        if lost:
            out += self.registrar.drop(lost)
        if before != self.registrars:
            out += [Send(peer, self._table()) for peer in sorted(self._askers)]

    def _table(self) -> RegistrarsTold:
        return RegistrarsTold(
            tuple([(scope, each.path, each.life) for scope, each in sorted(self.registrars.items())])
        )

    def _registrars(self) -> dict[Domain, AgentId]:
        neighbours, me = self._neighbours, self._me
        found: dict[Domain, AgentId] = {}
        siblings = [
            AgentId(peer, life)
            for peer, life in self._lives.items()
            if neighbours.relation(peer) is Relation.SIBLING
        ]
        for scope in enclosing(self.domain):
            each: AgentId | None = me
            if scope != self.domain:
                alone = neighbours.parent not in self._lives
                each = scope_rule(Group(ANY_NAME, scope), [me, *siblings]) if alone else self._told.get(scope)
            if each is not None:
                found[scope] = each
        return found
