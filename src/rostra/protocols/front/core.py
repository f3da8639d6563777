"""The front of one node: requests of its programs go to its stack, answers and notices go to the programs.

    program ══ ProgramLink ══ ProgramSession ┐              ┌── Asked, JoinAsked, Submitted ──▶ ┌───────┐
    program ══ ProgramLink ══ ProgramSession ┼── FrontCore ─┤                                   │ stack │
    program ══ ProgramLink ══ ProgramSession ┘              └◀── Answer, Tell, Deliver ──────── └───────┘

One session per program, any number of endpoints in it. All that a program is sent in one turn leaves at the
turn's end. The death of a program closes its connection and is known at once; one that is silent is pinged
(`detect/programs.py`). Quotas are in `shares.py`, admission to groups with delivery in `admission.py`, slow
readers in `session.py`, watchers in `watching.py`.

Joins of one turn are gathered, so that the members on this host get one notice of them. Programs that are
lost leave their groups at the end of the turn, or in the next ones if it is long.

The driver has the connections, or the simulated programs. It calls a session when its program sends something
or is gone, and this core with the effects of the stack; this core acts through `FrontPort` and `ProgramLink`.
`tell`, `answer`, `deliver` and a session's `arrived` are called for every run, notice and frame: nothing
stands between them and the link.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, Final

from rostra.core.effects import Answer, Asked, Effect, EndpointGone, Event, FellBehind, Ignored, Tell
from rostra.errors import AlreadyMember, NotAllowed, NotAvailable, NotMember, RostraError, Unreachable
from rostra.groups.attributes import Role
from rostra.groups.kinds import FIFO, LED_FIFO, GroupKind, MembershipKind
from rostra.names import Domain, Endpoint, Group, incarnation_of, name_of, parent
from rostra.protocols.access.requests import JoinRestricted
from rostra.protocols.agreed.calls import GroupTerminated, MemberMoved
from rostra.protocols.agreed.events import AgreedJoinAsked, AgreedLeaveAsked
from rostra.protocols.agreed.requests import JoinAgreed, LeaveAgreed
from rostra.protocols.atomic.agent import ORDER_AGENT
from rostra.protocols.atomic.config import ordered_kind, why_not_ordered
from rostra.protocols.atomic.events import OrderJoinAsked, OrderLeaveAsked
from rostra.protocols.atomic.requests import JoinOrdered, LeaveOrdered, OrderClosed
from rostra.protocols.detect.config import DetectConfig
from rostra.protocols.detect.programs import (
    ProgramClosed,
    ProgramHeard,
    ProgramOpened,
    ProgramRemoved,
    ProgramSuspected,
    ProgramTrusted,
    ProgramWatch,
)
from rostra.protocols.detect.programs import SendPing as PingOrder
from rostra.protocols.fifo.core import HOST
from rostra.protocols.fifo.events import Deliver, DeliverAll, Excluded, JoinAsked, LeaveAsked, Parted
from rostra.protocols.fifo.requests import Enter
from rostra.protocols.front.admission import Admission, EnteringTable, Hear, how, why_not_spoken
from rostra.protocols.front.config import WATCH_TICK_S, FrontConfig
from rostra.protocols.front.events import EndpointsSuspected, EndpointsTrusted, NoticesMissed, WatchEnded
from rostra.protocols.front.messages import Ping
from rostra.protocols.front.port import FrontPort, Hold, ProgramLink
from rostra.protocols.front.session import (
    GIVES_BACK,
    HOLDS,
    TOKEN_BITS,
    TOKEN_MASK,
    Holding,
    Missed,
    ProgramSession,
    Route,
    closed_early,
    holding,
)
from rostra.protocols.front.shares import Shares, User, What
from rostra.protocols.front.watching import WatchTable
from rostra.protocols.links.events import Ticked
from rostra.protocols.relaxed.events import JoinsBegin, JoinsEnd
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import (
    Close,
    Denied,
    Done,
    Gap,
    Inspected,
    Open,
    Opened,
    Resolve,
    denied,
)

JOINED_SHARE: Final = 4
"""Blocks that came together are joined up to this share of what a sender may have under way."""

HEARD_EVERY_S: Final = 0.1
"""Signs of life closer together than this count as one."""

JOINS_AT_ONCE: Final = 16
ENDS_AT_ONCE: Final = 16
"""Joins, and endpoints that end, between two looks at the time."""

LOOK_EVERY: Final = 8
"""So many programs are read before the time is looked at."""

PINGS_BYTES: Final = 8_192
"""What our pings may take in a program's buffer, with all that the kernel counts for them: to read those and
not to answer is no sign of life. Raising it: one that is slow, and has little to read, is given up sooner."""

ROUTES_MAX: Final = 64
"""Groups whose followers are remembered program by program. Raising it: a few hundred bytes for each."""

FRONTS_OWN: Final = 0
"""Stands for a program's number in questions that the front asks itself."""


class FrontCore:
    """All programs of one node."""

    def __init__(
        self, port: FrontPort, path: Domain, config: FrontConfig, detect: DetectConfig, own_uid: int = 0
    ) -> None:
        self.port = port
        self.path = path
        self.config = config
        self.draining = False
        self.held_back = False  # no program is read: the domain does not keep up
        self.by_number: dict[int, ProgramSession] = {}
        self.shares = Shares(config.limits, own_uid)
        self.unread: dict[ProgramSession, int] = {}  # at the last tick, of those that do not read or answer
        self.read_until: dict[int, int] = {}  # by program: the number of the last event that it knows
        self._places: dict[Endpoint, tuple[ProgramSession, int]] = {}
        self._proving: dict[Endpoint, dict[Group, tuple[int, bool]]] = {}  # our question; is it still wanted?
        self._routes: dict[int, Route] = {}  # by the identity of the tuple of endpoints; see `_route`
        self._watch = ProgramWatch(detect)
        self._pinged: set[int] = set()  # those that owe us a sign of life
        self._numbered = FRONTS_OWN
        self._asked_by_us = 0
        self._joins: deque[tuple[ProgramSession, Event, Callable[[], None] | None]] = deque()  # of this turn
        self._joins_due = False  # at the end of this turn
        self._let_in_turn = 0  # in which of them some were let in last
        self._dying: dict[str, tuple[ProgramSession, EndpointGone | Asked]] = {}  # by name: to be stepped
        self._entering = EnteringTable()  # of whom it is not known yet whether they may
        self._arrivals = 0
        self._long_turn = 0  # the present one, if it has no time
        self._tick_due = port.now + WATCH_TICK_S
        host = port.stack.find(HOST)
        window_bytes = host.config.window_bytes if host is not None else 0
        self.joined_bytes_max = min(config.joined_bytes_max, window_bytes // JOINED_SHARE)
        agent = port.stack.find(AGENT)
        self.watching = WatchTable(self, path, agent.config) if agent is not None else None
        self._own_tokens: dict[int, Callable[[Any], None]] = {}  # what we asked ourselves, and who hears
        self._joining: dict[Endpoint, dict[int, Callable[[Any], None]]] = {}  # of that, joins of endpoints

    # Programs come and go

    def connected(
        self, name: str, link: ProgramLink, user: User, *, administers: bool = True
    ) -> ProgramSession:
        self._numbered += 1
        session = ProgramSession(self, self._numbered, name, link, user, administers=administers)
        self.by_number[session.number] = session
        self.shares.take(user, "programs")
        if self.held_back:
            link.hold(Hold.PACE)
        self.carry_out(self._watch.step(self.port.now, ProgramOpened(session.number)))
        self.port.count("program_connected")
        return session

    def connection_refusal(self, user: User, free: int) -> RostraError | None:
        """Why no connection of this user is accepted; None if it is. `free`: how many there is room for."""
        refusal = self.shares.refusal(user, "programs", free)
        if refusal is None:
            return None
        self.port.count("over_share", "programs")
        return Unreachable(f"{self.path} has no place: {refusal.what}", fix=refusal.fix)

    def heard(self, session: ProgramSession) -> None:
        """Bytes came, which are a sign of life. The failure detector is shown one per `HEARD_EVERY_S`."""
        now = self.port.now
        if now - session.heard_at < HEARD_EVERY_S and session.number not in self._pinged:
            return
        session.heard_at = now
        self._pinged.discard(session.number)
        if not session.is_full:
            self.unread.pop(session, None)
        self.carry_out(self._watch.step(now, ProgramHeard(session.number)))

    def lost(self, session: ProgramSession, why: str) -> None:
        """Its connection is gone: whatever it had open died with it."""
        del self.by_number[session.number]
        self.unread.pop(session, None)
        session.link.gone()
        self._pinged.discard(session.number)
        self.carry_out(self._watch.step(self.port.now, ProgramClosed(session.number)))
        endpoints = list(session.endpoints.values())
        without_one = session.held.pop(Endpoint(""), ())  # and not refused yet
        self.shares.give(session.user, "memberships", len(without_one))
        self.shares.give(session.user, "questions", session.open_questions)
        self.shares.give(session.user, "programs")
        session.link.ended()
        if endpoints:
            self.port.note(
                "program_gone",
                node=self.path,
                program=session.name,
                endpoints=len(endpoints),
                because=why,
            )
            self._end_all(session, [EndpointGone(each, why, session.given_up) for each in endpoints])

    def close_all(self, session: ProgramSession) -> None:
        """Leave every group on its behalf, so that others hear of a leave and not of a crash."""
        session.link.gone()
        closed, session.endpoints = session.endpoints, {}
        self._end_all(session, [Asked(each, self._expect(None), Close()) for each in closed.values()])

    def _end_all(self, session: ProgramSession, ends: Sequence[EndpointGone | Asked]) -> None:
        """At the end of this turn: of a crowd that dies, none is sent the deaths of the others. And of more,
        if they are many."""
        for end in ends:
            self._place(end.endpoint, None)
            self._dying[name_of(end.endpoint)] = session, end
        left = map(name_of, [end.endpoint for end in ends])

        def end_some() -> None:
            names = list(islice(left, ENDS_AT_ONCE))
            self.end_endpoints(names)
            if len(names) == ENDS_AT_ONCE:
                self.port.at_end_of_turn(end_some)

        self.port.at_end_of_turn(end_some)

    def end_endpoints(self, names: Iterable[str] | None = None) -> None:
        """Let the stack know of those that are gone; also before another program opens one of that name."""
        for name in tuple(self._dying) if names is None else names:
            if name in self._dying:
                session, end = self._dying.pop(name)
                self._stop_watching(end.endpoint)
                self._release_endpoint(session, end.endpoint)
                self.port.step(end)

    def _forget(self, session: ProgramSession, endpoint: Endpoint) -> None:
        self._place(endpoint, None)
        session.link.gone()  # from the groups that it was in; from others, only for a moment
        session.closed(endpoint)
        if session.endpoints.pop(incarnation_of(endpoint), None) is not None:
            self._release_endpoint(session, endpoint)
        self._stop_watching(endpoint)

    def _stop_watching(self, watcher: Endpoint) -> None:
        if self.watching is not None:
            self.watching.gone(watcher)
        self.port.report(WatchEnded(watcher))

    def keep_pace(self, backlog: int) -> None:
        """Back-pressure: while the domain server owes us too many acknowledgements, programs are not read. So
        nothing is dropped, and no queue grows without bound."""
        if not self.held_back and backlog > self.config.backlog_max:
            self.held_back = True
            self.port.count("programs_held_back")
            for session in self.by_number.values():
                session.link.hold(Hold.PACE)
        elif self.held_back and backlog < self.config.backlog_max // 2:
            self.held_back = False
            for session in self.by_number.values():
                session.link.release(Hold.PACE)

    # What users may hold

    def take_share(self, session: ProgramSession, endpoint: Endpoint, request: Any) -> bool | Denied:
        """Count what a request takes of its user's quota: True if that is new, or why it is refused."""
        user, held, kind = session.user, session.held.get(endpoint, ()), type(request)
        is_new = kind is Open or (kind in HOLDS and holding(request) not in held)
        takes: What = "questions"
        shares = self.shares
        # Could this user be above its share? A cheap test for every request, before the exact one.
        asks_much = shares.all.questions + user.questions >= shares.limits.questions_max
        refusal = shares.refusal(user, takes) if asks_much else None
        if refusal is None and is_new:
            takes = "endpoints" if kind is Open else "memberships"
            refusal = shares.refusal(user, takes)
        if refusal is not None:
            self.port.count("over_share", takes)
            return denied(refusal)
        if is_new:
            shares.take(user, takes)
            if takes == "memberships":
                session.held.setdefault(endpoint, set()).add(holding(request))
        return is_new

    def settled(
        self, session: ProgramSession, endpoint: Endpoint, request: Any, result: Any, *, is_new: bool = False
    ) -> None:
        """A request was answered: what it gave back, or was refused, is no longer held."""
        if type(result) is not Denied:
            if type(request) in GIVES_BACK:
                self._release(session, endpoint, holding(request))
        elif is_new and type(request) is Open:
            self.shares.give(session.user, "endpoints")
        elif is_new:
            self._release(session, endpoint, holding(request))

    def _release(self, session: ProgramSession, endpoint: Endpoint, what: Holding) -> None:
        held = session.held.get(endpoint, set())
        if what in held:
            held.discard(what)
            self.shares.give(session.user, "memberships")

    def _release_endpoint(self, session: ProgramSession, endpoint: Endpoint) -> None:
        for token, _ in self._proving.pop(endpoint, {}).values():
            self._own_tokens.pop(token, None)
        for token, end in self._joining.pop(endpoint, {}).items():
            self._own_tokens.pop(token, None)
            end(closed_early(endpoint))
        self.shares.give(session.user, "endpoints")
        self.shares.give(session.user, "memberships", len(session.held.pop(endpoint, ())))

    # From the stack

    def tell(self, tell: Tell) -> None:
        notice = tell.notice
        if len(tell.endpoints) == 1:
            place = self._places.get(tell.endpoints[0])
            if place is not None:
                place[0].tell((place[1],), notice)
            elif self.watching is not None and tell.endpoints[0] == self.watching.own:
                self.watching.hear(notice)
            return
        route = self._routes.get(id(tell.endpoints)) or self._route(tell.endpoints)
        if route.ourselves:
            assert self.watching is not None
            self.watching.hear(notice)
        for session, numbers in route.sessions:
            session.tell(numbers, notice)

    def _route(self, endpoints: tuple[Endpoint, ...]) -> Route:
        """The sessions of these endpoints, with their numbers. A group's followers are the same tuple until
        one of them comes or goes, so one look-up serves many notices."""
        told: dict[ProgramSession, list[int]] = {}
        for endpoint in endpoints:
            place = self._places.get(endpoint)
            if place is not None:
                told.setdefault(place[0], []).append(place[1])
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        sessions = [(session, tuple(numbers)) for session, numbers in told.items()]
        ourselves = self.watching is not None and self.watching.own in endpoints
        route = self._routes[id(endpoints)] = Route(endpoints, sessions, ourselves)
        return route

    def forget_routes(self) -> None:
        self._routes.clear()

    def _place(self, endpoint: Endpoint, place: tuple[ProgramSession, int] | None) -> None:
        """The session of this endpoint from now on; None if the endpoint is closed."""
        self._routes.clear()
        if place is None:
            self._places.pop(endpoint, None)
            self._entering.gone(endpoint)
        else:
            self._places[endpoint] = place

    def is_here(self, endpoint: Endpoint) -> bool:
        return endpoint in self._places

    def answer(self, answer: Answer) -> None:
        session = self.by_number.get(answer.token >> TOKEN_BITS)
        if session is None:  # asked by the front itself, or by a program that is gone
            hear = self._own_tokens.pop(answer.token, None)
            if hear is not None:
                hear(answer.result)
            return
        if (pending := session.settle(answer.token & TOKEN_MASK)) is None:
            return
        token, endpoint, request, is_new = pending
        result = answer.result
        if is_new or type(request) in GIVES_BACK:
            self.settled(session, endpoint, request, result, is_new=is_new)
        if type(result) is Opened:
            number = incarnation_of(result.endpoint)
            session.endpoints[number] = result.endpoint
            self._place(result.endpoint, (session, number))
        elif type(result) is Inspected:
            after = self.read_until.pop(session.number, 0)
            result = Inspected(self.port.inspected(result.document, after))
        elif type(request) is Close and type(result) is Done:
            self._forget(session, endpoint)
        elif type(request) in _JOINS_VIEWS and type(result) is Done:
            session.reads_views(endpoint, request.group)
        elif (type(request) in _JOINS_VIEWS and is_new) or (
            type(request) in _LEAVES_VIEWS and type(result) is Done
        ):
            session.parted(endpoint, request.group)  # otherwise it stays what it was in this group
        session.answer(token, result)

    def deliver(self, deliver: Deliver) -> None:
        place = self._places.get(deliver.endpoint)
        if place is None:
            return  # it is gone, and its last words are still being repaired
        session, number = place
        item = deliver.item
        session.link.deliver(number, deliver.group, item)
        if type(item) is Parted:
            session.parted(deliver.endpoint, deliver.group)
            self._entering.over(deliver.endpoint, deliver.group)
        elif type(item) is OrderClosed:
            session.link.left(deliver.group)
        elif type(item) is Excluded or type(item) is GroupTerminated:
            session.parted(deliver.endpoint, deliver.group)
            self._entering.over(deliver.endpoint, deliver.group)
            self._release(session, deliver.endpoint, ("in", deliver.group))
        elif type(item) is MemberMoved:
            session.parted(deliver.endpoint, deliver.group)
            session.reads_views(deliver.endpoint, item.to)
            session.moved(deliver.endpoint, deliver.group, item.to)

    def deliver_all(self, deliver: DeliverAll) -> None:
        """One item for several endpoints: the same object, so that the link encodes it once."""
        programs: dict[ProgramSession, list[int]] = {}
        for endpoint in deliver.endpoints:
            if (place := self._places.get(endpoint)) is not None:
                programs.setdefault(place[0], []).append(place[1])
        for session, numbers in programs.items():
            session.link.deliver_to_all(numbers, deliver.group, deliver.item)

    def catch_up(self, session: ProgramSession, missed: dict[Endpoint, Missed]) -> None:
        """It reads again: send `Gap`, then a new baseline of every group of which it missed a notice."""
        for endpoint in sorted(missed):
            what = missed[endpoint]
            place = self._places.get(endpoint)
            if place is None:
                continue
            groups = tuple(sorted(what.groups))
            self.port.report(NoticesMissed(endpoint, what.notices, (*groups, *sorted(what.watched))))
            if what.messages:
                session.tell((place[1],), Gap(what.messages, ()))
            if what.notices:
                session.tell((place[1],), Gap(what.notices, groups))
                self.port.step(FellBehind(endpoint, groups))
            for group, number in sorted(what.watched.items()):
                assert self.watching is not None
                self.carry_out(self.watching.skipped(endpoint, group, number))
        self.port.note(
            "program_caught_up",
            node=self.path,
            program=session.name,
            missed=session.missed_total,
            because="it reads again",
        )

    def followed_by(self, endpoint: Endpoint) -> list[Group]:
        agent = self.port.stack.find(AGENT)
        if agent is None or endpoint not in agent.endpoints:
            return []
        presence = agent.endpoints[endpoint]
        return [g for g in presence.groups | presence.watched if agent.groups[g].is_followed_by(endpoint)]

    # Joining

    def enter(
        self,
        session: ProgramSession,
        token: int,
        endpoint: Endpoint,
        enter: Enter,
        *,
        is_new: bool,
        is_proven: bool = False,
    ) -> None:
        """Join a group with delivery. It is let in if the group has delivery, or no members yet; it joins
        while that is found out (`admission.py`)."""
        group = enter.group
        refusal: RostraError | None = None
        if HOST not in self.port.stack:
            refusal = NotAvailable(
                f'{self.path} has no delivery="fifo"', fix="connect to the agent of a real host"
            )
        elif group.scope == self.path:
            # Receivers' state is kept by the delegate at the cluster's server, outside of such a group.
            refusal = NotAllowed(
                f'{group} is a group of one host, and those have no delivery="fifo"',
                fix=f"choose a wider scope: {parent(group.scope)}",
            )
        if refusal is not None:
            self.settled(session, endpoint, enter, denied(refusal), is_new=is_new)
            session.answer(token, denied(refusal))
            return
        if "!" in group.name and enter.role is not Role.SUBMIT and not is_proven:
            self._prove(self.enter, session, token, endpoint, enter, is_new=is_new)
            return
        is_led = enter.membership is MembershipKind.LED
        kind = LED_FIFO if is_led else FIFO

        def is_here() -> bool:
            return session.number in self.by_number and endpoint in self._places

        def answer(result: Any) -> None:
            if session.number in self.by_number:
                self.settled(session, endpoint, enter, result, is_new=is_new)
                session.answer(token, result)
                if is_led and is_new and type(result) is Denied:
                    session.parted(endpoint, group)

        def leave() -> None:
            if is_here():
                self.port.step(LeaveAsked(endpoint, self._expect(None), group))

        def ask() -> None:
            if is_here():
                about = Resolve(group.name, group.scope, self.config.kind_within_s)
                our_token = self._expect_join(endpoint, admission.listed, admission.joined)
                self.port.step(Asked(endpoint, our_token, about))

        session.enters(endpoint, group)
        self.port.entered(group)
        luck = self.port.luck(endpoint, group)
        if is_led and enter.role is not Role.SUBMIT:  # its claim decides
            join = JoinAsked(*(endpoint, self._expect_join(endpoint, answer), group, luck), *how(enter), kind)
            self.join_soon(session, join)
            return
        entering = self._entering.begin(endpoint, group)
        admission = Admission(group, endpoint, entering, answer, leave, kind)
        our_token = self._expect_join(endpoint, admission.joined)
        join = JoinAsked(*(endpoint, our_token, group, luck), *how(enter), kind)
        self.join_soon(session, join, ask)

    def _prove(
        self,
        then: Callable[..., None],
        session: ProgramSession,
        token: int,
        endpoint: Endpoint,
        enter: Enter | JoinAgreed | JoinOrdered,
        *,
        is_new: bool,
    ) -> None:
        """The authority of a restricted name is asked first; the program enters with its proof."""
        group, proving = enter.group, self._proving.setdefault(endpoint, {})
        is_led = type(enter) is Enter and enter.membership is MembershipKind.LED

        def refuse(refusal: Denied) -> None:
            self.settled(session, endpoint, enter, refusal, is_new=is_new)
            session.answer(token, refusal)

        def heard(result: Any) -> None:
            _, is_wanted = proving.pop(group)
            if type(result) is Denied:
                refuse(result)
            elif not is_wanted:
                refuse(denied(NotMember(f"{endpoint} has left {group} already", fix="join it again")))
            else:
                then(session, token, endpoint, enter, is_new=is_new, is_proven=True)

        if group in proving:
            refuse(denied(AlreadyMember(f"{endpoint} is joining {group} already", fix="wait for the answer")))
            return
        our_token = self._expect(heard)
        proving[group] = our_token, True
        join = JoinRestricted(
            *(group, enter.credential, is_led), meta=enter.meta, luck=enter.luck, speaks=True
        )
        self.port.step(Asked(endpoint, our_token, join))

    def exits(self, endpoint: Endpoint, group: Group) -> None:
        """Before it is in, perhaps."""
        proving = self._proving.get(endpoint, {})
        if group in proving:
            proving[group] = proving[group][0], False

    def join_agreed(
        self,
        session: ProgramSession,
        token: int,
        endpoint: Endpoint,
        join: JoinAgreed,
        *,
        is_new: bool,
        is_proven: bool = False,
    ) -> None:
        """Views are items in order, so a program that does not read is paused here as well."""
        refusal = why_not_spoken(join, has_streams=HOST in self.port.stack)
        if refusal is not None:
            self.settled(session, endpoint, join, refusal, is_new=is_new)
            session.answer(token, refusal)
            return
        if "!" in join.group.name and not is_proven:
            self._prove(self.join_agreed, session, token, endpoint, join, is_new=is_new)
            return
        kind, luck = GroupKind(MembershipKind.AGREED, join.delivery, survive=join.survive), 0
        if kind.is_spoken_in:
            self.port.entered(join.group)
            session.link.enters()
            luck = self.port.luck(endpoint, join.group)
        if is_new:
            session.reads_views(endpoint, join.group)
        our_token = session.expect(token, endpoint, join, is_new)
        self.port.step(
            AgreedJoinAsked(
                *(endpoint, our_token, join.group, kind, join.create, join.meta),
                *(luck, join.role, join.slow),
            )
        )

    def join_ordered(
        self,
        session: ProgramSession,
        token: int,
        endpoint: Endpoint,
        join: JoinOrdered,
        *,
        is_new: bool,
        is_proven: bool = False,
    ) -> None:
        kind = ordered_kind(join.membership, join.order, join.stable, join.survive)
        refusal: RostraError | None = why_not_ordered(kind)
        if kind.is_monitored and "!" in join.group.name:
            what = f"{join.group} is a restricted name, and no group that is {kind} can have one"
            refusal = NotAvailable(what, fix='use membership="agreed"')
        if refusal is None and HOST not in self.port.stack:
            refusal = NotAvailable(
                f'{self.path} has no delivery="atomic"', fix="connect to the agent of a real host"
            )
        if refusal is not None:
            self.settled(session, endpoint, join, denied(refusal), is_new=is_new)
            session.answer(token, denied(refusal))
            return
        if "!" in join.group.name and not is_proven:
            self._prove(self.join_ordered, session, token, endpoint, join, is_new=is_new)
            return
        self.port.entered(join.group)
        if is_new:
            session.reads_views(endpoint, join.group)
            session.speaks_in_order(endpoint, join.group)
        our_token = session.expect(token, endpoint, join, is_new)
        asked = OrderJoinAsked if kind.is_monitored else AgreedJoinAsked
        self.port.step(
            asked(*(endpoint, our_token, join.group, kind, join.create, join.meta), slow=join.slow)
        )

    def leave_agreed(
        self, session: ProgramSession, token: int, endpoint: Endpoint, leave: LeaveAgreed | LeaveOrdered
    ) -> None:
        self.exits(endpoint, leave.group)
        orders = self.port.stack.find(ORDER_AGENT)
        monitored = orders is not None and leave.group in orders.monitored.groups
        asked = OrderLeaveAsked if monitored else AgreedLeaveAsked
        self.port.step(asked(endpoint, session.expect(token, endpoint, leave), leave.group))

    def has_no_time(self) -> bool:
        """Has this turn no time for further requests? The clock is read once in `LOOK_EVERY` calls."""
        self._arrivals += 1
        if self._long_turn and self._long_turn != self.port.turn:
            self._long_turn = 0
        if self._arrivals % LOOK_EVERY == 0 and not self._long_turn and self.port.turn_is_long:
            self._long_turn = self.port.turn
        return self._long_turn > 0

    def join_soon(self, session: ProgramSession, join: Event, then: Callable[[], None] | None = None) -> None:
        """Join at the end of the turn, with all other joins of it. Its later requests wait for that."""
        if not self._joins_due:
            self._joins_due = True
            self.port.at_end_of_turn(self._end_of_turn)
        session.joining += 1
        self._joins.append((session, join, then))

    def join_now(self, session: ProgramSession) -> bool:
        """A program that joins in this turn has a further request. True if its join can be made now: no other
        program joins in this turn, so there is no notice to share."""
        if self._let_in_turn == self.port.turn or any(each is not session for each, _, _ in self._joins):
            return False
        self._let_join()
        return True

    def _end_of_turn(self) -> None:
        self._let_join()
        self._joins_due = bool(self._joins)
        if self._joins_due:
            self.port.at_end_of_turn(self._end_of_turn)

    def _let_join(self) -> None:
        """Make the joins that wait: as many as one notice may hold, and as this turn has time for."""
        self._let_in_turn = self.port.turn
        several = len(self._joins) > 1
        if several:
            self.port.step(JoinsBegin())
        joins: list[tuple[ProgramSession, Event, Callable[[], None] | None]] = []
        while self._joins and len(joins) < self.config.joins_per_turn:
            session, join, then = self._joins.popleft()
            if session.number in self.by_number:
                joins.append((session, join, then))
                self.port.step(join)
                if len(joins) % JOINS_AT_ONCE == 0 and self.port.turn_is_long:
                    break
            elif type(join) is JoinAsked:
                self._own_tokens.pop(join.token, None)
        if several:
            self.port.step(JoinsEnd())
        for session, _, then in joins:
            if then is not None:
                then()
            session.joining -= 1
            if session.is_put_off:
                session.go_on()

    # What the front asks itself

    def ask_ourselves(
        self, endpoint: Endpoint, request: Any, hear: Callable[[Any], None] | None = None
    ) -> None:
        self.port.step(Asked(endpoint, self._expect(hear), request))

    def _expect(self, hear: Callable[[Any], None] | None) -> int:
        """A token for a request of the front itself; `hear` is called with the answer."""
        self._asked_by_us += 1
        if hear is not None:
            self._own_tokens[self._asked_by_us] = hear
        return self._asked_by_us

    def _expect_join(self, endpoint: Endpoint, hear: Hear, end: Hear | None = None) -> int:
        """The same of a join; `end`, or `hear`, is called with a refusal if the endpoint is closed before."""
        joins = self._joining.setdefault(endpoint, {})

        def answered(result: Any) -> None:
            joins.pop(token, None)
            hear(result)

        token = self._expect(answered)
        joins[token] = end or hear
        return token

    # As time passes

    def tick(self) -> None:
        now = self.port.now
        if self.watching is not None:
            self.watching.tick()
        for session, unread in list(self.unread.items()):
            # Its answer to a ping stands behind all that it has to read before, and of one whose buffer is
            # full we read nothing; but a program that reads what we wrote lives.
            self.unread[session] = session.link.unread_bytes
            if unread - self.unread[session] > (0 if session.is_full else PINGS_BYTES):
                self.heard(session)
        late_s = max(0.0, now - self._tick_due)
        self._tick_due = now + WATCH_TICK_S
        self.carry_out(self._watch.step(now, Ticked(late_s)))

    @property
    def suspected(self) -> tuple[int, ...]:
        return self._watch.suspected

    def carry_out(self, effects: Sequence[Effect]) -> None:
        port, node = self.port, self.path
        for effect in effects:
            match effect:
                case Tell():
                    port.report(effect)
                    self.tell(effect)
                case PingOrder(number):
                    self._pinged.add(number)
                    session = self.by_number[number]
                    session.link.say(Ping(number))
                    self.unread[session] = session.link.unread_bytes
                case ProgramSuspected(number, evidence):
                    session = self.by_number[number]
                    port.report(EndpointsSuspected(tuple(session.endpoints.values()), evidence))
                    port.note(
                        "program_suspected",
                        node=node,
                        program=session.name,
                        number=number,
                        endpoints=len(session.endpoints),
                        quiet_s=evidence.quiet_s,
                        unanswered_s=evidence.unanswered_s,
                        down_after_s=evidence.down_after_s,
                        because="a ping was not answered",
                    )
                case ProgramTrusted(number, after_s):
                    session = self.by_number[number]
                    port.report(EndpointsTrusted(tuple(session.endpoints.values()), after_s))
                    port.note(
                        "program_trusted",
                        node=node,
                        program=session.name,
                        number=number,
                        after_s=after_s,
                        because="heard again",
                    )
                case ProgramRemoved(number, evidence):
                    session = self.by_number[number]
                    port.note(
                        "program_removed",
                        node=node,
                        program=session.name,
                        number=number,
                        unanswered_s=evidence.unanswered_s,
                        because="silent",
                    )
                    session.given_up = evidence
                    session.link.abort("it did not answer for too long")
                case Ignored(_, why):
                    port.count("ignored", why)


_JOINS_VIEWS: Final = frozenset({JoinAgreed, JoinOrdered})
_LEAVES_VIEWS: Final = frozenset({LeaveAgreed, LeaveOrdered})
