"""The programs of one node: what they ask goes to its core, what the core says goes to them.

One connection per program, any number of endpoints on it. Everything that a program is told in one turn
leaves as one frame. A program that dies is known by its socket, at once; one that lives and says nothing is
pinged.

A program that does not read:

    Reading ── its buffer is full: read no more of its questions ──▶ Full ── too much queued ──▶ Behind
       ▲                                                              │                            │
       └────── drained ───────────────────────────────────────────────┴─ drained: Gap, baselines ──┘

While it is behind, notices are dropped and counted; when it reads again it is told how many it missed
(`Gap`), and its core gives every group concerned a new baseline. Answers are never dropped: a program that
does not take even those is disconnected, and then knows that it was.

What is said in groups with delivery is never dropped: while a program does not read, or says that it has
enough unread, its members are paused, and in the end those who speak stand still (X-090). Large blocks of it
stand in memory that programs share with us, where they can (`arenas.py`).

What programs watch, the agent itself follows: with an endpoint of its own, once for each group. What that is
told goes to `Watches`, which numbers it, remembers it and tells all who watch.
"""

import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rostra.core.effects import (
    Answer,
    Asked,
    Effect,
    EndpointGone,
    Event,
    FellBehind,
    Ignored,
    Tell,
)
from rostra.errors import (
    BadInput,
    NameInUse,
    NotAllowed,
    NotAvailable,
    NotMember,
    RostraError,
    StoreFailed,
    TooLarge,
    Unreachable,
)
from rostra.names import Endpoint, Group, incarnation_of, parent
from rostra.protocols.detect.programs import (
    Ping as PingOrder,
)
from rostra.protocols.detect.programs import (
    ProgramClosed,
    ProgramEvidence,
    ProgramHeard,
    ProgramOpened,
    ProgramRemoved,
    ProgramSuspected,
    ProgramTrusted,
    ProgramWatch,
)
from rostra.protocols.fifo.core import HOST
from rostra.protocols.fifo.events import (
    Deliver,
    Delivered,
    Excluded,
    JoinAsked,
    LeaveAsked,
    Parted,
    Paused,
    Resumed,
    Submitted,
)
from rostra.protocols.fifo.requests import Enter, Exit
from rostra.protocols.links.events import Ticked
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.events import JoinsBegin, JoinsEnd
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.requests import (
    Absolute,
    Changed,
    Close,
    Denied,
    Done,
    Gap,
    Inspect,
    Inspected,
    Join,
    Joined,
    Leave,
    Life,
    Message,
    NotDelivered,
    Open,
    Opened,
    Recall,
    Recalled,
    Register,
    Resolve,
    Resolved,
    SetOnline,
    Snapshot,
    Unregister,
    Unwatch,
    UnwatchLife,
    Watch,
    WatchLife,
    denied,
)
from rostra.protocols.relaxed.watches import Watches
from rostra.runtime.admission import Admission
from rostra.runtime.arenas import Arenas
from rostra.runtime.shares import Shares, User, What
from rostra.runtime.store import size_on_disk
from rostra.transport.connection import Connection, Hold
from rostra.wire import (
    NO_ENDPOINT,
    Answered,
    Arrived,
    Ask,
    BadAsk,
    Goodbye,
    Mapped,
    Ping,
    Pong,
    ProgramHello,
    ProgramWelcome,
    Reading,
    Refusal,
    Returned,
    Submit,
    Told,
)
from rostra.wire.programs import SUBMIT_MESSAGES_MAX

if TYPE_CHECKING:
    from rostra.runtime.process import HostedNode, Process

BACKLOG_MAX: Final = 1024
"""Messages that the domain may owe an acknowledgement for before programs have to wait. Of the largest kind
it is 64 MiB; of the usual kind, what a good link takes in a few milliseconds."""

QUEUE_RECORDS_MAX: Final = 4_096
"""Notices (and member records in them) queued for a program that does not read, before it falls behind. A
record is about 200 bytes. Raising it: longer stalls without a `Gap`, more memory for each program that
stalls."""

TURN_ITEMS_MAX: Final = 2_000
TURN_RECORDS_MAX: Final = 4_096
"""Of one program's questions, so many are looked at in one turn, and fewer if the answers are long; the rest
waits, also of one frame. No more records than these, or one answer, are encoded at once, and none while the
program does not read. Raising them: one program may delay the others for longer."""

RECORD_BYTES: Final = 256
"""What a part of a long document counts as."""

ANSWER_RECORDS_MAX: Final = 200_000
"""Answers queued for a program that does not read, before it is disconnected."""

JOINED_BYTES_MAX: Final = 256 << 10
JOINED_SHARE: Final = 4
"""Blocks that came together are joined up to this size, and to this share of what a sender may have under
way. Raising them: fewer and larger steps; larger bursts for other hosts, where blocks are cut."""

GATHERED_MAX: Final = 6
"""Blocks that are told together to a program that reads them out of an arena, while more are coming in. A
program that is woken has to fetch itself into the caches, which costs it as much as some blocks. Raising it:
fewer wakings; programs stand idle for longer at the beginning of a burst."""

HEARD_EVERY_S: Final = 0.1
"""Signs of life closer together than this count as one."""

WATCH_TICK_S: Final = 0.25
"""How often programs are looked at: small beside the bounds of `DetectConfig`."""

JOINS_PER_TURN: Final = 128
"""Joins that are gathered for one notice. Raising it: longer turns when a crowd joins, and fewer notices."""

JOINS_AT_ONCE: Final = 16
"""Joins between two looks at the time."""

LOOK_EVERY: Final = 8
"""So many programs are read before the time is looked at."""

ROUTES_MAX: Final = 64
"""Groups whose followers are remembered program by program. Raising it: a few hundred bytes for each."""

KIND_WITHIN_S: Final = 2.0
"""How long to ask what kind of group it is that a program wants to speak in. If nobody answers in time, it is
let in: whoever cannot be asked cannot be disturbed either."""

NODES_OWN_TOKEN: Final = 0
"""Stands for a program's number in questions that the process asks itself."""

OWN_NAME: Final = "rostra.watch"
"""What the agent calls the endpoint with which it follows groups; with a number, if a program was first."""

NOBODY: Final = Endpoint("")


_TOKEN_BITS: Final = 40
_TOKEN_MASK: Final = (1 << _TOKEN_BITS) - 1

_NEW_WORK: Final = (Open, Join, Watch, SetOnline, Enter)
"""What an agent that is shutting down refuses."""

_STORED: Final = (Open, Register, Unregister)
"""What is answered only when the disk has it."""

_ADMINISTRATION: Final = (Register, Unregister, Inspect, Recall)
"""What a program over TCP may ask only if it has shown a token."""


class Program:
    """One program's connection, once it has said hello."""

    __slots__ = (
        "_answers",
        "_asked",
        "_full",
        "_gathers",
        "_items",
        "_later",
        "_missed",
        "_programs",
        "_queued",
        "_spoken",
        "_unread",
        "_waiting",
        "administers",
        "connection",
        "endpoints",
        "given_up",
        "heard_at",
        "held",
        "is_put_off",
        "joining",
        "missed_total",
        "name",
        "number",
        "shares",
        "user",
    )

    def __init__(
        self, programs: "Programs", number: int, name: str, connection: Connection, user: User
    ) -> None:
        self.number = number
        self.name = name
        self.connection = connection
        self.shares = False  # can it read arenas?
        self.administers = True
        self.user = user
        self.held: dict[Endpoint, set[_Holding]] = {}  # what its endpoints are in, watch, and follow
        self.endpoints: dict[int, Endpoint] = {}
        self.is_put_off = False  # what it says is looked at in another turn
        self.joining = 0  # joins that wait for the end of the turn, and all that it asks after them
        self.missed_total = 0
        self.heard_at = programs.process.now
        self.given_up: ProgramEvidence | None = None  # what that rests on, if we did
        self._programs = programs
        self._asked = 0
        self._waiting: dict[int, _Waiting] = {}  # by our token
        self._later: list[Arrived] = []  # what it said beyond its share of a turn
        self._items: list[Answered | Told] = []
        self._queued = 0  # records in items that are notices
        self._answers = 0  # records in items that are answers
        self._full = False
        self._missed: dict[Endpoint, _Missed] | None = None  # while behind
        self._spoken: list[bytes] = []  # deliveries, as frames in pieces
        self._gathers = True  # may these wait for more?
        self._unread: dict[tuple[Endpoint, Group], bool] = {}  # where it speaks: has it enough unread?

    # To the program

    def answer(self, token: int, result: Any) -> None:
        if not self._items:
            self._programs.process.write_at_end_of_turn(self)
        self._items.append(Answered(token, result))
        self._answers += 1 + _records(result)
        if self._full and self._answers > ANSWER_RECORDS_MAX:
            self._programs.process.record.count("program_disconnected", "answers not read")
            self.connection.abort("it does not read its answers")

    def tell(self, numbers: tuple[int, ...], notice: Any) -> None:
        full = self._full and self._queued > QUEUE_RECORDS_MAX
        if (full or self._missed is not None) and type(notice) not in _NEVER_DROPPED:
            self._miss(numbers, notice)
            return
        if not self._items:
            self._programs.process.write_at_end_of_turn(self)
        self._items.append(Told(numbers, notice))
        self._queued += 1 + _records(notice)

    def deliver(self, number: int, item: bytes) -> None:
        """The next item of a group with delivery, encoded once for all who get it."""
        process = self._programs.process
        if not self._spoken:
            process.write_at_end_of_turn(self)
        self._spoken += process.encoder.delivery(number, item)
        self._gathers = False

    def say_in_order(self, frame: bytes) -> None:
        """Something in the order of deliveries, which may wait for the next turn if that begins at once."""
        if not self._spoken:
            self._programs.process.write_at_end_of_turn(self)
        self._spoken.append(frame)

    def write(self) -> None:
        while self._items and not self._full:
            try:
                self.connection.write(self._programs.process.encoder.tells(self._next_items()))
            except TooLarge as error:
                self.connection.refuse(error)
        if self._spoken and not self._full:
            gathers = self._gathers and len(self._spoken) < GATHERED_MAX
            if gathers and self._programs.process.write_next_turn(self):
                return
            spoken, self._spoken, self._gathers = self._spoken, [], True
            self.connection.write_all(spoken)

    def _next_items(self) -> list[Answered | Told]:
        """What one frame holds."""
        items = self._items
        if self._queued + self._answers <= TURN_RECORDS_MAX:
            self._items, self._queued, self._answers = [], 0, 0
            return items
        records = taken = 0
        while taken < len(items) and (records < TURN_RECORDS_MAX or not taken):
            item = items[taken]
            taken += 1
            if isinstance(item, Answered):
                size = 1 + _records(item.answer)
                self._answers -= size
            else:
                size = 1 + _records(item.notice)
                self._queued -= size
            records += size
        self._items = items[taken:]
        return items[:taken]

    def say(self, frame: bytes) -> None:
        """Something outside the stream of answers and notices."""
        self.connection.write(frame)

    @property
    def is_behind(self) -> bool:
        return self._missed is not None

    def _miss(self, numbers: tuple[int, ...], notice: Any) -> None:
        if self._missed is None:
            self._missed = {}
            self._programs.process.record.note(
                "program_fell_behind",
                node=self._programs.hosted.path,
                program=self.name,
                number=self.number,
                because="it reads too slowly",
            )
        for number in numbers:
            endpoint = self.endpoints[number]
            missed = self._missed.setdefault(endpoint, _Missed())
            if type(notice) is Message:
                missed.messages += 1
            elif type(notice) is Changed or type(notice) is Snapshot:
                # What this watcher still knows is what came before the first that it missed.
                known = notice.number - (type(notice) is Changed)
                missed.watched.setdefault(notice.group, known)
            else:
                missed.notices += 1
                group = getattr(notice, "group", None)
                missed.groups.update(self._programs.followed_by(endpoint) if group is None else (group,))
        self.missed_total += len(numbers)
        self._programs.process.record.count("notices_missed", by=len(numbers))

    # From the connection

    def arrived(self, items: list[Arrived]) -> None:
        self._programs.heard(self)
        if self.is_put_off:
            self._later += items
        elif self._programs.has_no_time():
            self._put_off(items)
            self._programs.process.at_end_of_turn(self.go_on)
        elif len(items) == 1:
            self._take(iter(items))
        else:
            self._take(joined(items, self._programs.joined_bytes_max))

    def _take(self, items: Iterator[Arrived]) -> None:
        programs = self._programs
        for taken, item in enumerate(items):
            if taken == TURN_ITEMS_MAX or self._answers > TURN_RECORDS_MAX:
                self._put_off([item, *items])
                programs.process.loop.call_soon(self.go_on)
                return
            if type(item) is Ping:  # it says nothing about groups, and waits for no join
                self.say(programs.process.encoder.to_program(Pong(item.number)))
                continue
            if self.joining and not _joins(item) and not programs.join_now(self):
                self._put_off([item, *items])
                return
            if type(item) is Ask:  # nearly all of them
                self._ask(item.token, item.endpoint, item.request)
                continue
            if type(item) is Submit:
                self._submit(item)
                continue
            match item:
                case Returned(arena, begins):
                    if (mistake := programs.arenas.returned(self, arena, begins)) is not None:
                        self.connection.refuse(mistake)
                        return
                case Mapped(arena):
                    if (mistake := programs.arenas.mapped(self, arena)) is not None:
                        self.connection.refuse(mistake)
                        return
                case Reading(number, group, more):
                    self._reads(number, group, more)
                case BadAsk(token):
                    self.answer(token, item.denial())
                case Pong():
                    pass
                case Goodbye():
                    programs.close_all(self)
                    self.connection.close("said goodbye")
                    return
                case _:
                    self.connection.refuse(BadInput(f"{type(item).__name__} after the handshake"))
                    return

    def _put_off(self, items: list[Arrived]) -> None:
        """Look at these later, and read nothing more until then. A ping is answered now."""
        for item in items:
            if type(item) is Ping:
                self.say(self._programs.process.encoder.to_program(Pong(item.number)))
        self._later = [item for item in items if type(item) is not Ping]
        self.is_put_off = True
        self.connection.hold(Hold.TURN)

    def go_on(self) -> None:
        """Another turn: look at what it said before, if it takes the answers."""
        if self._full or self.joining or not self.connection.is_open:
            return
        later, self._later = self._later, []
        self._take(iter(later))
        if not self._later:
            self.is_put_off = False
            self.connection.release(Hold.TURN)

    def refused(self, refusal: Refusal) -> None:
        programs = self._programs
        programs.process.record.note(
            "program_refused_us", node=programs.hosted.path, program=self.name, because=refusal.what
        )

    def lost(self, why: str) -> None:
        self._programs.lost(self, why)

    def full(self) -> None:
        """No more of its questions until it takes the answers to those it asked."""
        self._full = True
        self._programs.full[self] = self.connection.unread_bytes
        self.connection.hold(Hold.FULL)
        for (endpoint, group), enough in self._unread.items():
            if not enough:
                self._programs.step_soon(Paused(endpoint, group))

    def drained(self) -> None:
        self._full = False
        self._programs.full.pop(self, None)
        self._programs.heard(self)
        self.connection.release(Hold.FULL)
        self.write()
        if self.is_put_off and not self._full:
            self._programs.process.loop.call_soon(self.go_on)
        for (endpoint, group), enough in self._unread.items():
            if not enough and not self._full:
                self._programs.step_soon(Resumed(endpoint, group))
        if self._missed is not None:
            missed, self._missed = self._missed, None
            self._programs.catch_up(self, missed)

    def _ask(self, token: int, number: int, request: Any) -> None:
        programs = self._programs
        endpoint = Endpoint("") if number == NO_ENDPOINT else self.endpoints.get(number)
        if programs.draining and (endpoint is None or isinstance(request, _NEW_WORK)):
            # We closed its endpoints ourselves: that is no mistake of the program's.
            leaving = Unreachable(
                f"{programs.hosted.path} is shutting down", fix="try again, or another agent"
            )
            self.answer(token, denied(leaving))
            return
        if endpoint is None:
            self.answer(token, denied(BadInput(f"endpoint {number} is not open here", fix="open one first")))
            return
        if not self.administers and isinstance(request, _ADMINISTRATION):
            self.answer(token, programs.no_administration())
            return
        if isinstance(request, _STORED) and (refusal := programs.no_room_for(request)) is not None:
            self.answer(token, refusal)
            return
        is_new = programs.take_share(self, endpoint, request)
        if isinstance(is_new, Denied):
            self.answer(token, is_new)
            return
        if type(request) is Inspect and self._waits_for_news(token, number, request):
            return
        if endpoint and programs.watches is not None:
            if type(request) is Watch:
                programs.watch(self, token, endpoint, request, is_new=is_new)
                return
            if type(request) is Unwatch:
                answer = programs.unwatch(endpoint, request.group)
                programs.settled(self, endpoint, request, answer)
                self.answer(token, answer)
                return
        if type(request) is Enter:
            programs.enter(self, token, endpoint, request, is_new=is_new)
        elif type(request) is Exit:
            programs.arenas.left(self, request.group)
            programs.step(LeaveAsked(endpoint, self.expect(token, endpoint, request), request.group))
        elif type(request) is Join and (refusal := programs.is_spoken_in(request.group)) is not None:
            programs.settled(self, endpoint, request, refusal, is_new=is_new)
            self.answer(token, refusal)
        elif type(request) is Join:
            programs.join_soon(self, Asked(endpoint, self.expect(token, endpoint, request, is_new), request))
        else:
            programs.step(Asked(endpoint, self.expect(token, endpoint, request, is_new), request))

    def expect(self, token: int, endpoint: Endpoint, request: Any, is_new: bool = False) -> int:
        """Our name for a question of its: the answer to it will find its way."""
        self._asked += 1
        self._waiting[self._asked] = _Waiting(token, endpoint, request, is_new)
        self._programs.asks(self)
        return self.number << _TOKEN_BITS | self._asked

    @property
    def open_questions(self) -> int:
        return len(self._waiting)

    # What is said in groups

    def enters(self, endpoint: Endpoint, group: Group) -> None:
        self._unread[endpoint, group] = False
        self.connection.carry_messages()
        if self._full:
            self._programs.step_soon(Paused(endpoint, group))

    def parted(self, endpoint: Endpoint, group: Group) -> None:
        self._unread.pop((endpoint, group), None)
        self._programs.arenas.left(self, group)

    def _submit(self, submit: Submit) -> None:
        endpoint = self.endpoints.get(submit.endpoint)
        if endpoint is None or (endpoint, submit.group) not in self._unread:
            # It has left meanwhile, or was closed by us: what it says now is said to nobody.
            self._programs.process.record.count("ignored", "not in the group")
            return
        self._programs.step(Submitted(endpoint, submit.group, submit.count, submit.block, submit.at))

    def _reads(self, number: int, group: Group, more: bool) -> None:
        endpoint = self.endpoints.get(number)
        if endpoint is None or self._unread.get((endpoint, group), more) is not more:
            return  # left meanwhile, or said twice
        self._unread[endpoint, group] = not more
        if not self._full:
            self._programs.step(Resumed(endpoint, group) if more else Paused(endpoint, group))

    def _waits_for_news(self, token: int, number: int, inspect: Inspect) -> bool:
        programs, process = self._programs, self._programs.process
        if not inspect.wait_s or process.record.recorded > inspect.after:
            programs.read_until[self.number] = inspect.after
            return False

        def ask_now() -> None:
            if self.connection.is_open:
                self._ask(token, number, Inspect(inspect.after))

        process.patience.wait(self, inspect.wait_s, ask_now)
        return True

    def settle(self, our_token: int) -> "_Waiting":
        self._programs.asks(self, -1)
        return self._waiting.pop(our_token)


def joined(items: list[Arrived], bytes_max: int) -> Iterator[Arrived]:
    """The same, with blocks that one endpoint says to one group, one after the other, as one block: what a
    block costs us and its receivers hardly depends on its size."""
    run: list[Submit] = []
    size = count = 0
    for item in items:
        if type(item) is Submit:
            if run and (
                item.endpoint != run[0].endpoint
                or item.group != run[0].group
                or size + len(item.block) > bytes_max
                or count + item.count > SUBMIT_MESSAGES_MAX
            ):
                yield _one(run, count)
                run, size, count = [], 0, 0
            run.append(item)
            size += len(item.block)
            count += item.count
            continue
        if run:
            yield _one(run, count)
            run, size, count = [], 0, 0
        yield item
    if run:
        yield _one(run, count)


def _one(run: list[Submit], count: int) -> Submit:
    first = run[0]
    if len(run) == 1:
        return first
    block = b"".join([each.block for each in run])
    return Submit(first.endpoint, first.group, count, block, first.at)


class _Missed:
    __slots__ = ("groups", "messages", "notices", "watched")

    def __init__(self) -> None:
        self.notices = 0
        self.messages = 0
        self.groups: set[Group] = set()
        self.watched: dict[Group, int] = {}  # up to which change each is known


class _Waiting(NamedTuple):
    """A question that is not answered yet."""

    token: int  # the program's
    endpoint: Endpoint
    request: Any
    is_new: bool  # it asks for something that the user does not hold yet


class _Route(NamedTuple):
    endpoints: tuple[Endpoint, ...]  # kept because its identity names the route
    programs: list[tuple[Program, tuple[int, ...]]]
    ourselves: bool


class Programs:
    """All programs of one node."""

    def __init__(self, process: "Process", hosted: "HostedNode") -> None:
        self.process = process
        self.hosted = hosted
        self.draining = False
        self.held_back = False  # nobody is read: the domain does not keep up
        self.by_number: dict[int, Program] = {}
        self.shares = Shares(process.world.agents)
        self.full: dict[Program, int] = {}  # those that do not read: what was unread when we last looked
        self.read_until: dict[int, int] = {}  # by program: the number of the last event that it knows
        self._places: dict[Endpoint, tuple[Program, int]] = {}
        self._routes: dict[int, _Route] = {}  # by the identity of the endpoints told; see `_route`
        self._watch = ProgramWatch(process.world.links.detect)
        self._pinged: set[int] = set()  # those that owe us a sign of life
        self._numbered = NODES_OWN_TOKEN
        self._asked_by_us = 0
        self._joins: deque[tuple[Program, Event, Callable[[], None] | None]] = deque()  # of this turn
        self._joins_due = False  # at the end of this turn
        self._let_in_turn = 0  # in which of them some were let in last
        self._entering: dict[Group, set[Endpoint]] = {}  # of whom it is not known yet whether they may
        self._arrivals = 0
        self._tick_due = process.now + WATCH_TICK_S
        host = hosted.stack.find(HOST)
        window_bytes = host.config.window_bytes if host is not None else 0
        self.joined_bytes_max = min(JOINED_BYTES_MAX, window_bytes // JOINED_SHARE)
        self.arenas = Arenas(self, process.arena_bytes if hosted.is_agent else 0)
        agent = hosted.stack.find(AGENT)
        self.watches = Watches(hosted.path, agent.config) if agent is not None else None
        self._own: Endpoint | None = None  # the endpoint with which we follow groups
        self._own_names = 0
        self._own_tokens: dict[int, Callable[[Any], None]] = {}  # what we asked ourselves, and who hears
        self._to_watch: list[tuple[Program, int, Endpoint, Watch, bool]] = []  # while it is being opened

    def welcome(self, hello: ProgramHello, connection: Connection, *, administers: bool = True) -> Program:
        self._numbered += 1
        user = self.shares.user(connection.peer_uid, connection.peer_ip)
        program = Program(self, self._numbered, hello.program, connection, user)
        program.administers = administers
        program.shares = hello.shares and connection.is_local and self.arenas.is_on
        self.by_number[program.number] = program
        self.shares.take(user, "programs")
        if self.held_back:
            connection.hold(Hold.PACE)
        self._carry_out(self._watch.step(self.process.now, ProgramOpened(program.number)))
        node = self.hosted.node
        program.say(self.process.encoder.to_program(ProgramWelcome(node.world, node.path, node.incarnation)))
        self.process.record.count("program_connected")
        return program

    def no_administration(self) -> Denied:
        self.process.record.count("refused", NotAllowed.code)
        return denied(
            NotAllowed(
                f"{self.hosted.path} is inspected and administered over TCP only by those who show a token",
                fix="start it with --token-file FILE and show the same token; or use its Unix socket"
                " (--socket) on its own machine",
            )
        )

    # What users may hold

    def has_no_place(self, connection: Connection, free: int) -> RostraError | None:
        """Why this caller cannot be let in as a program; `free`: connections that there is room for."""
        user = self.shares.user(connection.peer_uid, connection.peer_ip)
        refusal = self.shares.refusal(user, "programs", free)
        if refusal is None:
            return None
        self.process.record.count("over_share", "programs")
        return Unreachable(f"{self.hosted.path} has no place: {refusal.what}", fix=refusal.fix)

    def take_share(self, program: Program, endpoint: Endpoint, request: Any) -> bool | Denied:
        """Let this user hold what it asks for: True if that is new to it. Or why it may not."""
        user, held, kind = program.user, program.held.get(endpoint, ()), type(request)
        is_new = kind is Open or (kind in _HOLDS and _holding(request) not in held)
        takes: What = "questions"
        refusal = self.shares.refusal(user, takes) if self.shares.asks_much(user) else None
        if refusal is None and is_new:
            takes = "endpoints" if kind is Open else "memberships"
            refusal = self.shares.refusal(user, takes)
        if refusal is not None:
            self.process.record.count("over_share", takes)
            return denied(refusal)
        if is_new:
            self.shares.take(user, takes)
            if takes == "memberships":
                program.held.setdefault(endpoint, set()).add(_holding(request))
        return is_new

    def asks(self, program: Program, count: int = 1) -> None:
        program.user.questions += count
        self.shares.all.questions += count

    def settled(
        self, program: Program, endpoint: Endpoint, request: Any, result: Any, *, is_new: bool = False
    ) -> None:
        """What was asked for is held no more if it was refused, or given back."""
        if type(result) is not Denied:
            if type(request) in _GIVES_BACK:
                self._release(program, endpoint, _holding(request))
        elif is_new and type(request) is Open:
            self.shares.give(program.user, "endpoints")
        elif is_new:
            self._release(program, endpoint, _holding(request))

    def _release(self, program: Program, endpoint: Endpoint, holding: "_Holding") -> None:
        held = program.held.get(endpoint, set())
        if holding in held:
            held.discard(holding)
            self.shares.give(program.user, "memberships")

    def _release_endpoint(self, program: Program, endpoint: Endpoint) -> None:
        self.shares.give(program.user, "endpoints")
        self.shares.give(program.user, "memberships", len(program.held.pop(endpoint, ())))

    def no_room_for(self, request: Open | Register | Unregister) -> Denied | None:
        """Make room on the disk for what this request changes; why it is refused, if there is none."""
        agent, store = self.hosted.stack.find(AGENT), self.hosted.store
        try:
            if not isinstance(request, Open):
                if (service := agent or self.hosted.stack.find(SERVER)) is not None:
                    known = service.registry.record(request.group.scope)
                    names = (request.group.name, *(known.names if known is not None else ()))
                    store.make_room(size_on_disk(names))
            elif agent is not None:
                self._reserve(agent.next_number)
        except StoreFailed as error:
            self.process.no_room(self.hosted, type(request).__name__.lower(), error)
            return denied(error)
        return None

    def _reserve(self, number: int) -> None:
        """On disk before anybody hears of it: no later life may hand out this number again."""
        try:
            self.hosted.store.reserve_above(number)
        except StoreFailed as error:
            if not self.hosted.store.has_reserved(number):
                raise
            self.process.no_room(self.hosted, "numbers", error)

    def keep_pace(self, backlog: int) -> None:
        """Read programs only as fast as the domain takes what they cause: nothing is dropped, and no queue
        grows without bound."""
        if not self.held_back and backlog > BACKLOG_MAX:
            self.held_back = True
            self.process.record.count("programs_held_back")
            for program in self.by_number.values():
                program.connection.hold(Hold.PACE)
        elif self.held_back and backlog < BACKLOG_MAX // 2:
            self.held_back = False
            for program in self.by_number.values():
                program.connection.release(Hold.PACE)

    # From the core

    def tell(self, tell: Tell) -> None:
        notice = tell.notice
        if len(tell.endpoints) == 1:
            place = self._places.get(tell.endpoints[0])
            if place is not None:
                place[0].tell((place[1],), notice)
            elif tell.endpoints[0] == self._own:
                self._hear(notice)
            return
        route = self._routes.get(id(tell.endpoints)) or self._route(tell.endpoints)
        if route.ourselves:
            self._hear(notice)
        for program, numbers in route.programs:
            program.tell(numbers, notice)

    def _route(self, endpoints: tuple[Endpoint, ...]) -> "_Route":
        """Who hears what is told to these, program by program. A group's followers are the same tuple until
        one of them comes or goes, so this is found out once for many notices."""
        told: dict[Program, list[int]] = {}
        for endpoint in endpoints:
            place = self._places.get(endpoint)
            if place is not None:
                told.setdefault(place[0], []).append(place[1])
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        programs = [(program, tuple(numbers)) for program, numbers in told.items()]
        route = self._routes[id(endpoints)] = _Route(endpoints, programs, self._own in endpoints)
        return route

    def _place(self, endpoint: Endpoint, place: tuple[Program, int] | None) -> None:
        """Where an endpoint is, from now on; none: nowhere."""
        self._routes.clear()
        if place is None:
            self._places.pop(endpoint, None)
            for group in [group for group, those in self._entering.items() if endpoint in those]:
                self._entering[group].discard(endpoint)
                if not self._entering[group]:
                    del self._entering[group]
        else:
            self._places[endpoint] = place

    def answer(self, answer: Answer) -> None:
        program = self.by_number.get(answer.token >> _TOKEN_BITS)
        if program is None:  # asked by the process itself, or by a program that is gone
            hear = self._own_tokens.pop(answer.token, None)
            if hear is not None:
                hear(answer.result)
            return
        token, endpoint, request, is_new = program.settle(answer.token & _TOKEN_MASK)
        result = answer.result
        self.settled(program, endpoint, request, result, is_new=is_new)
        if type(result) is Opened:
            number = incarnation_of(result.endpoint)
            program.endpoints[number] = result.endpoint
            self._place(result.endpoint, (program, number))
        elif type(result) is Inspected:
            after = self.read_until.pop(program.number, 0)
            result = Inspected(self.process.inspect(self.hosted, result.document, after))
        elif type(request) is Close and type(result) is Done:
            self._forget(program, endpoint)
        program.answer(token, result)

    # From the programs

    def heard(self, program: Program) -> None:
        """Any bytes are a sign of life; one every now and then is all that the watch needs."""
        if self.process.now - program.heard_at < HEARD_EVERY_S and program.number not in self._pinged:
            return
        program.heard_at = self.process.now
        self._pinged.discard(program.number)
        self._carry_out(self._watch.step(self.process.now, ProgramHeard(program.number)))

    def lost(self, program: Program, why: str) -> None:
        """Its socket is closed: whatever it had open died with it."""
        del self.by_number[program.number]
        self.full.pop(program, None)
        self.arenas.gone(program)
        self._pinged.discard(program.number)
        self._carry_out(self._watch.step(self.process.now, ProgramClosed(program.number)))
        endpoints = list(program.endpoints.values())
        for endpoint in endpoints:
            self._place(endpoint, None)
            self._stop_watching(endpoint)
            self._release_endpoint(program, endpoint)
        self.asks(program, -program.open_questions)
        self.shares.give(program.user, "programs")
        for unknown, times in program.connection.unknown.items():
            self.process.record.count("unknown", unknown, times)
        if endpoints:
            self.process.record.note(
                "program_gone",
                node=self.hosted.path,
                program=program.name,
                endpoints=len(endpoints),
                because=why,
            )
        gone = [EndpointGone(endpoint, why, program.given_up) for endpoint in endpoints]
        if gone and self.has_no_time():
            self.process.at_end_of_turn(lambda: self._step_all(gone))
        else:
            self._step_all(gone)

    def _step_all(self, events: Sequence[Event]) -> None:
        for event in events:
            self.step(event)

    def close_all(self, program: Program) -> None:
        """Leave every group on its behalf, so that others hear of a leave and not of a crash."""
        for endpoint in list(program.endpoints.values()):
            self._forget(program, endpoint)
            self._ask_ourselves(endpoint, Close())

    def catch_up(self, program: Program, missed: dict[Endpoint, _Missed]) -> None:
        """It reads again: say what it missed, then give every group concerned a new baseline."""
        for endpoint in sorted(missed):
            what = missed[endpoint]
            place = self._places.get(endpoint)
            if place is None:
                continue
            groups = tuple(sorted(what.groups))
            if self.hosted.scribe is not None:
                self.hosted.scribe.gap(endpoint, what.notices, (*groups, *sorted(what.watched)))
            if what.messages:
                program.tell((place[1],), Gap(what.messages, ()))
            if what.notices:
                program.tell((place[1],), Gap(what.notices, groups))
                self.process.step(self.hosted, FellBehind(endpoint, groups))
            for group, number in sorted(what.watched.items()):
                assert self.watches is not None
                self._carry_out(self.watches.skipped(endpoint, group, number))
        self.process.record.note(
            "program_caught_up",
            node=self.hosted.path,
            program=program.name,
            missed=program.missed_total,
            because="it reads again",
        )

    def followed_by(self, endpoint: Endpoint) -> list[Group]:
        agent = self.hosted.stack.find(AGENT)
        if agent is None or endpoint not in agent.endpoints:
            return []
        presence = agent.endpoints[endpoint]
        return [g for g in presence.groups | presence.watched if agent.groups[g].is_followed_by(endpoint)]

    # What is said in groups

    def step(self, event: Event) -> None:
        self.process.step(self.hosted, event)

    def step_soon(self, event: Event) -> None:
        """Not now: somebody is being written to."""
        self.process.loop.call_soon(self.step, event)

    def deliver(self, deliver: Deliver) -> None:
        place = self._places.get(deliver.endpoint)
        if place is None:
            return  # it is gone, and its last words are still being repaired
        program, number = place
        item = deliver.item
        if type(item) is Delivered:
            lent = self.arenas.lend(program, number, deliver.group, item.stream, item.run)
            if lent is not None:
                program.say_in_order(lent)
                return
        program.deliver(number, self.process.encoder.item(deliver.group, item))
        if type(item) is Parted:
            program.parted(deliver.endpoint, deliver.group)
        elif type(item) is Excluded:
            self.arenas.left(program, deliver.group)

    def enter(self, program: Program, token: int, endpoint: Endpoint, enter: Enter, *, is_new: bool) -> None:
        """Let it in if the group is one with delivery, or nobody's yet: the choice is the group's. It joins
        while we ask (`admission.py`)."""
        group = enter.group
        if HOST not in self.hosted.stack:
            refusal = NotAvailable(
                f'{self.hosted.path} has no delivery="fifo"', fix="connect to the agent of a real host"
            )
            self.settled(program, endpoint, enter, denied(refusal), is_new=is_new)
            program.answer(token, denied(refusal))
            return
        if group.scope == self.hosted.path:
            # Who is owed what is kept by the cluster's server, which is outside of such a group.
            alone = NotAllowed(
                f'{group} is a group of one host, and those have no delivery="fifo"',
                fix=f"choose a wider scope: {parent(group.scope)}",
            )
            self.settled(program, endpoint, enter, denied(alone), is_new=is_new)
            program.answer(token, denied(alone))
            return

        def is_here() -> bool:
            return program.number in self.by_number and endpoint in self._places

        def answer(result: Any) -> None:
            if is_here():
                self.settled(program, endpoint, enter, result, is_new=is_new)
                program.answer(token, result)

        def leave() -> None:
            if is_here():
                self.step(LeaveAsked(endpoint, self._expect(None), group))

        def ask() -> None:
            if is_here():
                about = Resolve(group.name, group.scope, KIND_WITHIN_S)
                self._ask_ourselves(endpoint, about, admission.listed)

        entering = self._entering.setdefault(group, set())
        admission = Admission(group, endpoint, entering, answer, leave)
        program.enters(endpoint, group)
        self.process.data.entered(group)
        luck, our_token = secrets.randbits(64), self._expect(admission.joined)
        self.join_soon(
            program, JoinAsked(endpoint, our_token, group, luck, enter.role, enter.slow, enter.meta), ask
        )

    def has_no_time(self) -> bool:
        """Has this turn no time for what more programs ask? It is looked at now and then."""
        self._arrivals += 1
        return self._arrivals % LOOK_EVERY == 0 and self.process.turn_is_long

    def join_soon(self, program: Program, join: Event, then: Callable[[], None] | None = None) -> None:
        """At the end of the turn, with all others that join in it; whatever else it asks comes after that."""
        if not self._joins_due:
            self._joins_due = True
            self.process.at_end_of_turn(self._end_of_turn)
        program.joining += 1
        self._joins.append((program, join, then))

    def join_now(self, program: Program) -> bool:
        """It asks something after it joined. If others join in this turn as well, it has to wait: those who
        join one by one are one notice each."""
        if self._let_in_turn == self.process.turn or any(each is not program for each, _, _ in self._joins):
            return False
        self._let_join()
        return True

    def _end_of_turn(self) -> None:
        self._let_join()
        self._joins_due = bool(self._joins)
        if self._joins_due:
            self.process.at_end_of_turn(self._end_of_turn)

    def _let_join(self) -> None:
        """As many as one notice may hold, and as this turn has time for."""
        self._let_in_turn = self.process.turn
        several = len(self._joins) > 1
        if several:
            self.step(JoinsBegin())
        joins: list[tuple[Program, Event, Callable[[], None] | None]] = []
        while self._joins and len(joins) < JOINS_PER_TURN:
            program, join, then = self._joins.popleft()
            if program.number in self.by_number:
                joins.append((program, join, then))
                self.step(join)
                if len(joins) % JOINS_AT_ONCE == 0 and self.process.turn_is_long:
                    break
            elif type(join) is JoinAsked:
                self._own_tokens.pop(join.token, None)
        if several:
            self.step(JoinsEnd())
        for program, _, then in joins:
            if then is not None:
                then()
            program.joining -= 1
            if program.is_put_off:
                program.go_on()

    def is_spoken_in(self, group: Group) -> Denied | None:
        """Why nobody can join this group without delivery, as far as is known on this host."""
        host = self.hosted.stack.find(HOST)
        if host is None or group not in host.members:
            return None
        return denied(
            NotAllowed(
                f'{group} is a group with delivery="fifo"',
                fix='join it with delivery="fifo", or choose another name',
            )
        )

    # Watches

    def watch(self, program: Program, token: int, watcher: Endpoint, watch: Watch, *, is_new: bool) -> None:
        """Follow the group ourselves; what the core says to that is the watcher's answer."""
        if self._own is None:
            self._to_watch.append((program, token, watcher, watch, is_new))
            if len(self._to_watch) == 1:
                self._open_own()
            return

        def hear(result: Any) -> None:
            assert self.watches is not None
            if program.number in self.by_number:
                self.settled(program, watcher, watch, result, is_new=is_new)
                program.answer(token, result)
            if type(result) is Done:
                if self.hosted.scribe is not None:
                    self.hosted.scribe.watched(watcher, watch.group)
                self._carry_out(self.watches.watch(watcher, watch.group, (watch.period, watch.number)))
                if watcher not in self._places:  # it died while we asked
                    self._stop_watching(watcher)

        self._ask_ourselves(self._own, watch, hear)

    def unwatch(self, watcher: Endpoint, group: Group) -> Any:
        assert self.watches is not None
        try:
            self.watches.unwatch(self.process.now, watcher, group)
        except NotMember as error:
            return denied(error)
        if self.hosted.scribe is not None:
            self.hosted.scribe.unwatched(watcher, group)
        return Done()

    def _open_own(self) -> None:
        self._own_names += 1
        name = OWN_NAME if self._own_names == 1 else f"{OWN_NAME}-{self._own_names}"
        open = Open(name)
        if (refusal := self.no_room_for(open)) is not None:
            self._own_names -= 1
            self._own_opened(refusal)
        else:
            self._ask_ourselves(Endpoint(""), open, self._own_opened)

    def _own_opened(self, answer: Any) -> None:
        if type(answer) is Opened:
            self._own = answer.endpoint
            self._routes.clear()
        elif answer.code == NameInUse.code:
            self._open_own()
            return
        waiting, self._to_watch = self._to_watch, []
        for program, token, watcher, watch, is_new in waiting:
            if self._own is not None:
                self.watch(program, token, watcher, watch, is_new=is_new)
            elif program.number in self.by_number:
                self.settled(program, watcher, watch, answer, is_new=is_new)
                program.answer(token, answer)

    def _hear(self, notice: Any) -> None:
        assert self.watches is not None
        self._carry_out(self.watches.told(notice))

    def _stop_watching(self, watcher: Endpoint) -> None:
        if self.watches is not None:
            self.watches.gone(self.process.now, watcher)
        if self.hosted.scribe is not None:
            self.hosted.scribe.unwatched(watcher)

    def _ask_ourselves(
        self, endpoint: Endpoint, request: Any, hear: Callable[[Any], None] | None = None
    ) -> None:
        self.process.step(self.hosted, Asked(endpoint, self._expect(hear), request))

    def _expect(self, hear: Callable[[Any], None] | None) -> int:
        """Our name for a question of our own, and who hears the answer."""
        self._asked_by_us += 1
        if hear is not None:
            self._own_tokens[self._asked_by_us] = hear
        return self._asked_by_us

    # As time passes

    def tick(self) -> None:
        now = self.process.now
        self.arenas.tick()
        if self.watches is not None and self._own is not None:
            for group in self.watches.expire(now):
                self._ask_ourselves(self._own, Unwatch(group))
        for program, unread in self.full.items():
            # We read nothing of it, not even answers to pings; but whoever takes what we wrote lives.
            self.full[program] = program.connection.unread_bytes
            if self.full[program] < unread:
                self.heard(program)
        late_s = max(0.0, now - self._tick_due)
        self._tick_due = now + WATCH_TICK_S
        self._carry_out(self._watch.step(now, Ticked(late_s)))

    @property
    def suspected(self) -> tuple[int, ...]:
        return self._watch.suspected

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        record, node = self.process.record, self.hosted.path
        scribe = self.hosted.scribe
        for effect in effects:
            match effect:
                case Tell():
                    if scribe is not None:
                        scribe.told(effect)
                    self.tell(effect)
                case PingOrder(number):
                    self._pinged.add(number)
                    self.by_number[number].say(self.process.encoder.to_program(Ping(number)))
                case ProgramSuspected(number, evidence):
                    program = self.by_number[number]
                    if scribe is not None:
                        scribe.program_suspected(program.endpoints.values(), evidence)
                    record.note(
                        "program_suspected",
                        node=node,
                        program=program.name,
                        number=number,
                        endpoints=len(program.endpoints),
                        quiet_s=evidence.quiet_s,
                        unanswered_s=evidence.unanswered_s,
                        down_after_s=evidence.down_after_s,
                        because="a ping was not answered",
                    )
                case ProgramTrusted(number, after_s):
                    if scribe is not None:
                        scribe.program_trusted(self.by_number[number].endpoints.values(), after_s)
                    record.note(
                        "program_trusted",
                        node=node,
                        program=self.by_number[number].name,
                        number=number,
                        after_s=after_s,
                        because="heard again",
                    )
                case ProgramRemoved(number, evidence):
                    program = self.by_number[number]
                    record.note(
                        "program_removed",
                        node=node,
                        program=program.name,
                        number=number,
                        unanswered_s=evidence.unanswered_s,
                        because="silent",
                    )
                    program.given_up = evidence
                    program.connection.abort("it did not answer for too long")
                case Ignored(_, why):
                    record.count("ignored", why)

    def _forget(self, program: Program, endpoint: Endpoint) -> None:
        self._place(endpoint, None)
        self.arenas.gone(program)  # from the groups that it was in; from others, only for a moment
        if program.endpoints.pop(incarnation_of(endpoint), None) is not None:
            self._release_endpoint(program, endpoint)
        self._stop_watching(endpoint)


def _joins(item: Arrived) -> bool:
    return type(item) is Ask and type(item.request) in (Join, Enter)


_Holding = tuple[str, Group | Endpoint]

_HOLDS: Final[dict[type, str]] = {Join: "in", Enter: "in", Watch: "watches", WatchLife: "lives"}
_GIVES_BACK: Final[dict[type, str]] = {Leave: "in", Exit: "in", Unwatch: "watches", UnwatchLife: "lives"}


def _holding(request: Any) -> _Holding:
    """What an endpoint holds while this is granted, or no longer."""
    kind = type(request)
    about = request.endpoint if kind is WatchLife or kind is UnwatchLife else request.group
    return _HOLDS.get(kind) or _GIVES_BACK[kind], about


_NEVER_DROPPED: Final = (Gap, Life, NotDelivered)
"""Small, rare, and not to be had again by asking."""

_LISTS: Final = frozenset({Absolute, Joined, Snapshot, Changed})
_DOCUMENTS: Final = frozenset({Inspected, Recalled})


def _records(said: Any) -> int:
    if type(said) in _LISTS:
        return len(said.members)
    if type(said) is Resolved:
        return sum([len(members) for _, members in said.parts])
    return len(said.document) // RECORD_BYTES if type(said) in _DOCUMENTS else 0
