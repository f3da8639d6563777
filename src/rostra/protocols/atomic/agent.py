"""Groups with ``delivery="atomic"`` at one host: a service of its agent, with one station for each group.

    programs ── OrderSubmitted, Paused, Resumed ──▶ OrderAgent ── DeliverAll, Deliver ──▶ programs
                                                       ▲  one station per group
    agreed agent ── AgreedChanged ─────────────────────┘  views, members, standstills

Who is a member is agreed by servers (`protocols/agreed`), and this service only asks there. What it adds is
one order: of the messages of all members, and of the views between them (A-003, A-089).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from rostra.core.effects import Effect, Event, Ignored, Instant
from rostra.core.stack import Service, ServiceName
from rostra.groups.attributes import Slow
from rostra.groups.kinds import DeliveryKind
from rostra.names import Domain, Endpoint, Group, host_of
from rostra.protocols.agreed.agent import AGREED_AGENT, AgreedAgent
from rostra.protocols.agreed.changes import MemberId
from rostra.protocols.agreed.events import AgreedChanged
from rostra.protocols.agreed.groups import AgreedView
from rostra.protocols.agreed.lease import IN_DOUBT
from rostra.protocols.agreed.living import is_exclusive
from rostra.protocols.agreed.stays import HostGroup, StayInside
from rostra.protocols.atomic.events import OrderSubmitted
from rostra.protocols.atomic.station import Gallery, ShownView
from rostra.protocols.fifo.events import Paused, Resumed, StreamsLost
from rostra.protocols.flow.messages import Run

ORDER_AGENT: Final = ServiceName["OrderAgent"]("atomic agent")

SEVERAL_HOSTS: Final = 'delivery="atomic" has members on one host only in this version'


class Station:
    """One group. Its messages are ordered as they arrive, for all members are here."""

    def __init__(self, group: Group) -> None:
        self.gallery = Gallery(group)
        self.next = 1  # position
        self.id: object = None  # of the agreed view that was shown
        self.left: set[MemberId] = set()  # since that view
        self.waiting: deque[tuple[Endpoint, Run]] = deque()

    @property
    def stands(self) -> bool:
        return self.gallery.view is None or bool(self.gallery.blocked) or self.gallery.is_full


class OrderAgent(Service):
    name = ORDER_AGENT
    takes = (OrderSubmitted, Paused, Resumed)

    def __init__(self, host: Domain) -> None:
        self.host = host
        self.stations: dict[Group, Station] = {}

    @property
    def _agreed(self) -> AgreedAgent:
        return self.stack[AGREED_AGENT]

    def step(self, now: Instant, event: Event) -> list[Effect]:
        out: list[Effect] = []
        match event:
            case OrderSubmitted(endpoint, group):
                station = self.stations.get(group)
                run = None if station is None else station.gallery.submitted(event)
                if station is None or run is None:
                    out.append(Ignored("OrderSubmitted", "not in the group"))
                elif isinstance(run, Ignored):
                    out.append(run)
                elif station.stands:
                    station.waiting.append((endpoint, run))
                else:
                    self._order(station, endpoint, run, out)
                    self._expel(now, station, out)
            case Paused(me, group) | Resumed(me, group):
                station = self.stations.get(group)
                if station is not None:
                    station.gallery.reads(me, isinstance(event, Resumed), out)
                    self._go_on(station, out)
        return out

    def hear(self, now: Instant, effects: Sequence[Effect]) -> Sequence[Effect]:
        """Agreed membership says that something is new in these groups."""
        if not any(type(effect) is AgreedChanged for effect in effects):
            return effects
        rest = [effect for effect in effects if type(effect) is not AgreedChanged]
        for group in sorted({effect.group for effect in effects if isinstance(effect, AgreedChanged)}):
            self._look(now, group, rest)
        return rest

    # What is agreed

    def _look(self, now: Instant, group: Group, out: list[Effect]) -> None:
        known = self._agreed.groups.get(group)
        station = self.stations.get(group)
        if known is None or known.kind.delivery is not DeliveryKind.ATOMIC:
            if station is not None:
                self._leave(station, station.gallery.members, out)
                del self.stations[group]
            return
        if station is None:
            station = self.stations[group] = Station(group)
        inside = _inside(known)
        for me in [each for each in sorted(station.gallery.members) if each not in inside]:
            if me in known.members:  # the others gave its host up, and it is back
                self._lose(now, station, me, "this host was given up", out)
            else:
                self._leave(station, [me], out)
        for me, slow in sorted(inside.items()):
            station.gallery.enter(me, slow)
        blocked = known.blocked or (IN_DOUBT if known.doubt else "")
        gallery, view = station.gallery, known.view
        if view is not None:
            station.left.update(view.left)
        if blocked:
            if blocked != gallery.blocked:
                gallery.blocked = blocked
                gallery.give_blocked(blocked, out)
            return
        was_blocked, gallery.blocked = bool(gallery.blocked), ""
        if view is None:
            return
        if any(host_of(each.endpoint) != self.host for each in view.ids):
            self._exclude_all(now, station, out)
            return
        if view.id != station.id or any(not each.knows for each in gallery.members.values()):
            self._show(station, known, view, out)
        elif was_blocked:
            gallery.show_again(out)
        self._go_on(station, out)

    def _show(self, station: Station, known: HostGroup, view: AgreedView, out: list[Effect]) -> None:
        station.id = view.id
        fence = known.fence if is_exclusive(known.kind) else None
        shown = shown_view(view, station.gallery.view, frozenset(station.left), fence)
        station.left.clear()
        station.next += 1  # a view has a place like a message
        station.gallery.give_view(shown, out)

    def _leave(self, station: Station, those: Iterable[Endpoint], out: list[Effect]) -> None:
        for me in sorted(those):
            sent = station.gallery.members[me].placed + 1
            station.waiting = deque([each for each in station.waiting if each[0] != me])
            station.gallery.leave(me, sent, "it left the group", out)

    def _exclude_all(self, now: Instant, station: Station, out: list[Effect]) -> None:
        """Unless the most senior member is here: then those of other hosts are."""
        view = self._agreed.groups[station.gallery.group].view
        assert view is not None
        if host_of(view.ids[0].endpoint) != self.host:
            for me in sorted(station.gallery.members):
                self._lose(now, station, me, SEVERAL_HOSTS, out)

    def _expel(self, now: Instant, station: Station, out: list[Effect]) -> None:
        for me in station.gallery.expelled:
            self._lose(now, station, me, "it did not read what it was given", out)

    def _lose(self, now: Instant, station: Station, me: Endpoint, why: str, out: list[Effect]) -> None:
        """The group goes on without it."""
        sent = station.gallery.members[me].placed + 1
        station.waiting = deque([each for each in station.waiting if each[0] != me])
        station.gallery.leave(me, sent, why, out)
        lost = StreamsLost(me, station.gallery.group)
        out += self.hear(now, self.stack.call(now, self, AGREED_AGENT, lost))

    # The order

    def _order(self, station: Station, sender: Endpoint, run: Run, out: list[Effect]) -> None:
        position = station.next
        station.next = position + run.count
        station.gallery.give_run(sender, run, position, out)

    def _go_on(self, station: Station, out: list[Effect]) -> None:
        while station.waiting and not station.stands:
            self._order(station, *station.waiting.popleft(), out)


def shown_view(
    view: AgreedView, before: ShownView | None, left: frozenset[MemberId], fence: int | None
) -> ShownView:
    """An agreed view, and how it came from the last one that was shown."""
    was = frozenset() if before is None else before.endpoints
    members = tuple([(each.id.endpoint, each.attributes) for each in view.members])
    here = frozenset([endpoint for endpoint, _ in members])
    asked = frozenset([each.endpoint for each in left])
    gone = [] if before is None else [each for each, _ in before.members if each not in here]
    return ShownView(
        view.number,
        view.revision,
        "" if view.pid is None else str(view.pid),
        members,
        fence,
        tuple([endpoint for endpoint, _ in members if endpoint not in was]),
        tuple([each for each in gone if each in asked]),
        tuple([each for each in gone if each not in asked]),
        tuple([tuple([each.endpoint for each in part]) for part in view.parts]),
    )


def _inside(known: HostGroup) -> dict[Endpoint, Slow]:
    """Members of this host that are in the last view, and how they are to be treated if they are slow."""
    ids = frozenset() if known.view is None else frozenset(known.view.ids)
    return {
        me: member.slow
        for me, member in known.members.items()
        if isinstance(member.stage, StayInside) and member.stage.id in ids
    }
