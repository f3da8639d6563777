"""One program's session: its requests are taken in turn, and what it is sent waits until it reads.

    ReaderKeepsUp ── buffer full: read no more requests ──▶ ReaderFull ── queue full: drop ──▶ ReaderBehind
       ▲   ▲                                                 │      ▲                            │   ▲
       │   └──────────────────── drained ────────────────────┘      │ full by now        drained │   │ full
       │                                                            │                            ▼   │
       └────────────────────────────────────────────────────────────┴── Gap, baselines ── ReaderCatchesUp

While a program is behind, notices to it are dropped and counted. When it reads again it gets their number
(`Gap`), and a new baseline of every group concerned. Answers are never dropped: a program that does not read
even those is disconnected.

Messages of groups with delivery are never dropped: while a program does not read, or reports that it has
enough unread (`Reading`), its members are paused, and in the end the senders are blocked (X-090).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, assert_never, get_args

from msgspec import Struct
from msgspec.structs import replace

from rostra.core.effects import Asked
from rostra.errors import BadInput, NotAllowed, Unreachable
from rostra.names import Endpoint, Group
from rostra.protocols.access.requests import (
    AssignName,
    CloseGroup,
    JoinRestricted,
    JoinUnique,
    NamesAsked,
    ReleaseName,
    ReopenGroup,
)
from rostra.protocols.agreed.calls import AdministerSet, DrainHost
from rostra.protocols.agreed.requests import JoinAgreed, LeaveAgreed
from rostra.protocols.atomic.events import OrderSubmitted
from rostra.protocols.atomic.requests import ForgetOrdered, JoinOrdered, LeaveOrdered
from rostra.protocols.detect.programs import ProgramEvidence
from rostra.protocols.fifo.events import LeaveAsked, Paused, Resumed, Submitted
from rostra.protocols.fifo.requests import Enter, Exit
from rostra.protocols.front.admission import plain_join_refusal, plain_leave_refusal
from rostra.protocols.front.messages import (
    NO_ENDPOINT,
    SUBMIT_MESSAGES_MAX,
    Answered,
    Ask,
    BadAsk,
    Goodbye,
    Ping,
    Pong,
    Reading,
    Submit,
    Told,
)
from rostra.protocols.front.port import Hold, ProgramLink
from rostra.protocols.front.shares import User
from rostra.protocols.led.requests import (
    AnySetNotice,
    AnySetRequest,
    CreateSet,
    JoinLed,
    LeaveLed,
    OpenSequence,
    SequenceMessage,
    SequenceReply,
    SetMembers,
)
from rostra.protocols.relaxed.requests import (
    Absolute,
    Changed,
    Denied,
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
    Recall,
    Recalled,
    Register,
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
from rostra.protocols.scopes.requests import JoinOpen, LeaveOpen

if TYPE_CHECKING:
    from rostra.protocols.front.core import FrontCore

RECORD_BYTES: Final = 256
"""What a part of a long document counts as."""

TOKEN_BITS: Final = 40
TOKEN_MASK: Final = (1 << TOKEN_BITS) - 1

_NEW_WORK: Final = (
    Open,
    Join,
    Watch,
    SetOnline,
    Enter,
    JoinAgreed,
    JoinLed,
    CreateSet,
    OpenSequence,
    JoinOrdered,
    JoinRestricted,
    JoinUnique,
    JoinOpen,
)
"""What an agent that is shutting down refuses."""

_ADMINISTRATION: Final = (
    *(Register, Unregister, Inspect, Recall, CloseGroup, ReopenGroup),
    *(AssignName, ReleaseName, NamesAsked, DrainHost, AdministerSet),
)
"""What a program over TCP may ask only if it has shown a token."""

_SPOKEN: Final = (
    Enter,
    Exit,
    JoinAgreed,
    LeaveAgreed,
    JoinLed,
    LeaveLed,
    JoinOrdered,
    LeaveOrdered,
    ForgetOrdered,
    JoinRestricted,
    JoinUnique,
    JoinOpen,
    LeaveOpen,
    *get_args(AnySetRequest),
)

_BODIES: Final = (SequenceMessage, SequenceReply)
_SET_NOTICES: Final = tuple([each for each in get_args(AnySetNotice) if each not in _BODIES])

_WORDS: Final = frozenset({Reading, BadAsk, Pong, Goodbye})

Holding = tuple[str, Group | Endpoint]


class Missed:
    """Notices to one endpoint that were dropped because its program does not read."""

    __slots__ = ("groups", "messages", "notices", "watched")

    def __init__(self) -> None:
        self.notices = 0
        self.messages = 0
        self.groups: set[Group] = set()
        self.watched: dict[Group, int] = {}  # up to which change each is known


class ReaderKeepsUp(Struct, frozen=True):
    """There is room in its buffer."""

    is_full: ClassVar[bool] = False
    missed: ClassVar[None] = None


class ReaderFull(Struct, frozen=True):
    """Its buffer is full: notices are queued."""

    is_full: ClassVar[bool] = True
    missed: ClassVar[None] = None


class ReaderBehind(Struct, frozen=True):
    """Its buffer is full, and so is the queue: notices are dropped."""

    missed: dict[Endpoint, Missed]
    is_full: ClassVar[bool] = True


class ReaderCatchesUp(Struct, frozen=True):
    """There is room in its buffer again, and its `Gap` is not sent yet: notices are dropped."""

    missed: dict[Endpoint, Missed]
    is_full: ClassVar[bool] = False


ReaderState = ReaderKeepsUp | ReaderFull | ReaderBehind | ReaderCatchesUp

_KEEPS_UP: Final = ReaderKeepsUp()


class ProgramSession:
    """One program, from its handshake to the end of its connection."""

    __slots__ = (
        "_answers",
        "_asked",
        "_items",
        "_joins",
        "_later",
        "_ordered",
        "_port",
        "_queued",
        "_reader",
        "_unread",
        "_waiting",
        "administers",
        "endpoints",
        "front",
        "given_up",
        "heard_at",
        "held",
        "joining",
        "link",
        "missed_total",
        "name",
        "number",
        "user",
    )

    def __init__(
        self,
        front: "FrontCore",
        number: int,
        name: str,
        link: ProgramLink,
        user: User,
        *,
        administers: bool = True,
    ) -> None:
        self.front = front
        self.number = number
        self.name = name
        self.link = link
        self.user = user
        self.administers = administers
        self.held: dict[Endpoint, set[Holding]] = {}  # what its endpoints are in, watch, and follow
        self.endpoints: dict[int, Endpoint] = {}
        self.joining = 0  # joins that wait for the end of the turn, and all that it asks after them
        self.missed_total = 0
        self.heard_at = front.port.now
        self.given_up: ProgramEvidence | None = None  # what that rests on, if we did
        self._port = front.port
        self._asked = 0
        self._waiting: dict[int, PendingRequest] = {}  # by our token
        self._joins: dict[Endpoint, dict[int, None]] = {}  # of these, the joins of each endpoint
        self._later: deque[Any] | None = None  # while it is put off: what is to be looked at in another turn
        self._items: list[Answered | Told] = []
        self._queued = 0  # records in items that are notices
        self._answers = 0  # records in items that are answers
        self._reader: ReaderState = _KEEPS_UP
        self._unread: dict[tuple[Endpoint, Group], bool] = {}  # where it speaks: has it enough unread?
        self._ordered: set[tuple[Endpoint, Group]] = set()  # where messages have one order

    # To the program

    def answer(self, token: int, result: Any) -> None:
        if not self._items:
            self._port.write_at_end_of_turn(self)
        self._items.append(Answered(token, result))
        self._answers += 1 + _records(result)
        if self._reader.is_full and self._answers > self.front.config.answer_records_max:
            self._port.count("program_disconnected", "answers not read")
            self.link.abort("it does not read its answers")

    def tell(self, numbers: tuple[int, ...], notice: Any) -> None:
        if self._reader is not _KEEPS_UP and type(notice) not in _NEVER_DROPPED:
            if type(self._reader) is ReaderFull and self._queued >= self.front.config.queue_records:
                self._fall_behind()
            if (missed := self._reader.missed) is not None:
                self._miss(missed, numbers, notice)
                return
        if not self._items:
            self._port.write_at_end_of_turn(self)
        self._items.append(Told(numbers, notice))
        self._queued += 1 + _records(notice)
        if self._reader.is_full and self._queued > self.front.config.answer_records_max:
            self._port.count("program_disconnected", "notices not read")
            self.link.abort("it does not read what cannot be dropped")

    def write(self) -> None:
        while self._items and not self._reader.is_full:
            self.link.send(self._next_items())
        if not self._reader.is_full:
            self.link.write_deliveries()

    def _next_items(self) -> list[Answered | Told]:
        """The next answers and notices, as many as one frame may hold."""
        items, most = self._items, self.front.config.turn_records_max
        if self._queued + self._answers <= most:
            self._items, self._queued, self._answers = [], 0, 0
            return items
        records = taken = 0
        while taken < len(items) and (records < most or not taken):
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

    @property
    def is_behind(self) -> bool:
        return self._reader.missed is not None

    @property
    def is_full(self) -> bool:
        return self._reader.is_full

    @property
    def is_put_off(self) -> bool:
        """Do requests of it wait for another turn?"""
        return self._later is not None

    def _fall_behind(self) -> None:
        self._reader = ReaderBehind({})
        self._port.note(
            "program_fell_behind",
            node=self.front.path,
            program=self.name,
            number=self.number,
            because="it reads too slowly",
        )

    def _miss(self, all_missed: dict[Endpoint, Missed], numbers: tuple[int, ...], notice: Any) -> None:
        for number in numbers:
            endpoint = self.endpoints[number]
            missed = all_missed.setdefault(endpoint, Missed())
            if type(notice) is Message or type(notice) in _BODIES:
                missed.messages += 1
            elif type(notice) is Changed or type(notice) is Snapshot:
                # What this watcher still knows is what came before the first that it missed.
                known = notice.number - (type(notice) is Changed)
                missed.watched.setdefault(notice.group, known)
            else:
                missed.notices += 1
                group = getattr(notice, "group", None)
                missed.groups.update(self.front.followed_by(endpoint) if group is None else (group,))
        self.missed_total += len(numbers)
        self._port.count("notices_missed", by=len(numbers))

    # From the program

    def arrived(self, items: list[Any]) -> None:
        front = self.front
        front.heard(self)
        if self._later is not None:
            self._later += items
        elif front.has_no_time():
            self._put_off(items)
            self._port.at_end_of_turn(self.go_on)
        elif len(items) == 1:
            self._take(iter(items))
        else:
            self._take(joined(items, front.joined_bytes_max))

    def _take(self, items: Iterator[Any]) -> None:
        front = self.front
        items_max, records_max = front.config.turn_items_max, front.config.turn_records_max
        for taken, item in enumerate(items):
            if taken == items_max or self._answers > records_max or (taken and front.has_no_time()):
                self._stop_before(item, items)
                self._port.in_next_turn(self.go_on)
                return
            if type(item) is Ping:  # it says nothing about groups, and waits for no join
                self.link.say(Pong(item.number))
                continue
            if self.joining and not _joins(item) and not front.join_now(self):
                self._stop_before(item, items)
                return
            if type(item) is Ask:  # nearly all of them
                self._ask(item.token, item.endpoint, item.request)
                continue
            if type(item) is Submit:
                self._submit(item)
                continue
            if type(item) not in _WORDS:
                if (mistake := self.link.take(item)) is not None:
                    self.link.refuse(mistake)
                    return
                continue
            match item:
                case Reading(number, group, more):
                    self._reads(number, group, more)
                case BadAsk(token):
                    self.answer(token, item.denial())
                case Pong():
                    pass
                case Goodbye():
                    front.close_all(self)
                    self.link.close("said goodbye")
                    return

    def _put_off(self, items: Iterable[Any]) -> None:
        """Look at these later, and read nothing more until then. A ping is answered now."""
        self._later = later = deque[Any]()
        for item in items:
            if type(item) is Ping:
                self.link.say(Pong(item.number))
            else:
                later.append(item)
        self.link.hold(Hold.TURN)

    def _stop_before(self, item: Any, items: Iterator[Any]) -> None:
        """This turn. What was put off before stays where it is: it is not copied at every stop."""
        if self._later is None:
            self._put_off(chain((item,), items))
        else:
            self._later.appendleft(item)

    def go_on(self) -> None:
        """Another turn: handle the requests that were put off, if its buffer has room for the answers."""
        if self._reader.is_full or self.joining or not self.link.is_open:
            return
        if self._later is None:
            self._later = deque()
        self._take(_drained(self._later))  # and what comes meanwhile
        if not self._later:
            self._later = None
            self.link.release(Hold.TURN)

    def refused(self, refusal: Any) -> None:
        self._port.note("program_refused_us", node=self.front.path, program=self.name, because=refusal.what)

    def lost(self, why: str) -> None:
        self.front.lost(self, why)

    def full(self) -> None:
        """Its buffer is full: read no more requests until it has read the answers."""
        match self._reader:
            case ReaderKeepsUp() | ReaderFull():
                self._reader = ReaderFull()
            case ReaderBehind(missed) | ReaderCatchesUp(missed):
                self._reader = ReaderBehind(missed)
            case never:
                assert_never(never)
        self.front.unread[self] = self.link.unread_bytes
        self.link.hold(Hold.FULL)
        for (endpoint, group), enough in self._unread.items():
            if not enough:
                self._port.step_soon(Paused(endpoint, group))

    def drained(self) -> None:
        match self._reader:
            case ReaderKeepsUp() | ReaderFull():
                self._reader = _KEEPS_UP
            case ReaderBehind(missed) | ReaderCatchesUp(missed):
                self._reader = ReaderCatchesUp(missed)
            case never:
                assert_never(never)
        self.front.unread.pop(self, None)
        self.front.heard(self)
        self.link.release(Hold.FULL)
        self.write()
        if self.is_put_off and not self._reader.is_full:
            self._port.in_next_turn(self.go_on)
        for (endpoint, group), enough in self._unread.items():
            if not enough and not self._reader.is_full:
                self._port.step_soon(Resumed(endpoint, group))
        if (all_missed := self._reader.missed) is not None:
            self._reader = ReaderFull() if self._reader.is_full else _KEEPS_UP
            self.front.catch_up(self, all_missed)

    def _ask(self, token: int, number: int, request: Any) -> None:
        front = self.front
        endpoint = Endpoint("") if number == NO_ENDPOINT else self.endpoints.get(number)
        if front.draining and (endpoint is None or isinstance(request, _NEW_WORK)):
            # We closed its endpoints ourselves: that is no mistake of the program's.
            leaving = Unreachable(f"{front.path} is shutting down", fix="try again, or another agent")
            self.answer(token, denied(leaving))
            return
        if endpoint is None:
            self.answer(token, denied(BadInput(f"endpoint {number} is not open here", fix="open one first")))
            return
        if not endpoint and isinstance(request, _SPOKEN):
            alone = BadInput("only an endpoint can speak in a group", fix="open one first")
            self.answer(token, denied(alone))
            return
        if not self.administers and isinstance(request, _ADMINISTRATION):
            self.answer(token, self._no_administration())
            return
        if type(request) is Open and (refusal := self._port.reserve_number()) is not None:
            self.answer(token, refusal)
            return
        if type(request) is Open:
            front.end_endpoints((request.name,))
            request = replace(request, user=self.user.name)
        is_new = front.take_share(self, endpoint, request)
        if isinstance(is_new, Denied):
            self.answer(token, is_new)
            return
        if type(request) is Inspect and self._waits_for_news(token, number, request):
            return
        if endpoint and front.watching is not None:
            if type(request) is Watch:
                front.watching.watch(self, token, endpoint, request, is_new=is_new)
                return
            if type(request) is Unwatch:
                answer = front.watching.unwatch(endpoint, request.group)
                front.settled(self, endpoint, request, answer)
                self.answer(token, answer)
                return
        if type(request) is Enter:
            front.enter(self, token, endpoint, request, is_new=is_new)
        elif type(request) is Exit:
            self.link.left(request.group)
            front.exits(endpoint, request.group)
            front.port.step(LeaveAsked(endpoint, self.expect(token, endpoint, request), request.group))
        elif type(request) is JoinAgreed:
            front.join_agreed(self, token, endpoint, request, is_new=is_new)
        elif type(request) is JoinOrdered:
            front.join_ordered(self, token, endpoint, request, is_new=is_new)
        elif type(request) is LeaveAgreed or type(request) is LeaveOrdered:
            front.leave_agreed(self, token, endpoint, request)
        elif (
            type(request) is Join
            and (refusal := plain_join_refusal(front.port.stack, request.group)) is not None
        ):
            front.settled(self, endpoint, request, refusal, is_new=is_new)
            self.answer(token, refusal)
        elif type(request) is Leave and (
            refusal := plain_leave_refusal(front.port.stack, endpoint, request.group)
        ):
            self.answer(token, refusal)
        elif type(request) is Join:
            front.join_soon(self, Asked(endpoint, self.expect(token, endpoint, request, is_new), request))
        else:
            self._port.step(Asked(endpoint, self.expect(token, endpoint, request, is_new), request))

    def _no_administration(self) -> Denied:
        self._port.count("refused", NotAllowed.code)
        return denied(
            NotAllowed(
                f"{self.front.path} is inspected and administered over TCP only by those who show a token",
                fix="start it with --token-file FILE and show the same token; or use its Unix socket"
                " (--socket) on its own machine",
            )
        )

    def expect(self, token: int, endpoint: Endpoint, request: Any, is_new: bool = False) -> int:
        """A token of ours for a request of the program, under which the answer is found again."""
        self._asked += 1
        self._waiting[self._asked] = PendingRequest(token, endpoint, request, is_new)
        if is_new and endpoint:
            self._joins.setdefault(endpoint, {})[self._asked] = None
        self.user.questions += 1
        self.front.shares.all.questions += 1
        return self.number << TOKEN_BITS | self._asked

    def settle(self, our_token: int) -> "PendingRequest | None":
        """What it was; none if its endpoint was closed before the answer came."""
        pending = self._waiting.pop(our_token, None)
        if pending is None:
            return None
        self.user.questions -= 1
        self.front.shares.all.questions -= 1
        if pending.is_new and (joins := self._joins.get(pending.endpoint)) is not None:
            del joins[our_token]
            if not joins:
                del self._joins[pending.endpoint]
        return pending

    @property
    def open_questions(self) -> int:
        return len(self._waiting)

    def _waits_for_news(self, token: int, number: int, inspect: Inspect) -> bool:
        if not inspect.wait_s or self._port.recorded > inspect.after:
            self.front.read_until[self.number] = inspect.after
            return False

        def ask_now() -> None:
            if self.link.is_open:
                self._ask(token, number, Inspect(inspect.after))

        self._port.wait_for_news(self, inspect.wait_s, ask_now)
        return True

    # Groups with delivery

    def enters(self, endpoint: Endpoint, group: Group) -> None:
        self._unread[endpoint, group] = False
        self.link.enters()
        if self._reader.is_full:
            self._port.step_soon(Paused(endpoint, group))

    def reads_views(self, endpoint: Endpoint, group: Group) -> None:
        """It gets the views of this group, and none while it does not read."""
        self._unread.setdefault((endpoint, group), False)
        if self._reader.is_full:
            self._port.step_soon(Paused(endpoint, group))

    def speaks_in_order(self, endpoint: Endpoint, group: Group) -> None:
        self._ordered.add((endpoint, group))
        self.link.enters()

    def parted(self, endpoint: Endpoint, group: Group) -> None:
        self._unread.pop((endpoint, group), None)
        self._ordered.discard((endpoint, group))
        self.link.left(group)

    def closed(self, endpoint: Endpoint) -> None:
        """It is in none of its groups any more."""
        for _, about in self.held.get(endpoint, ()):
            if isinstance(about, Group):
                self.parted(endpoint, about)
        for our_token in list(self._joins.get(endpoint, ())):
            if (pending := self.settle(our_token)) is not None:
                self.front.settled(self, endpoint, pending.request, closed_early(endpoint), is_new=True)
                self.answer(pending.token, closed_early(endpoint))

    def moved(self, endpoint: Endpoint, group: Group, to: Group) -> None:
        """Its group was split or merged: the quota counts the membership under the new group."""
        held = self.held.get(endpoint, set())
        if ("in", group) in held:
            held.discard(("in", group))
            held.add(("in", to))

    def _submit(self, submit: Submit) -> None:
        endpoint = self.endpoints.get(submit.endpoint)
        if endpoint is None or (endpoint, submit.group) not in self._unread:
            # It has left meanwhile, or we closed its endpoint.
            self._port.count("ignored", "not in the group")
            return
        kind = OrderSubmitted if (endpoint, submit.group) in self._ordered else Submitted
        self._port.step(kind(endpoint, submit.group, submit.count, submit.block, submit.at))

    def _reads(self, number: int, group: Group, more: bool) -> None:
        endpoint = self.endpoints.get(number)
        if endpoint is None or self._unread.get((endpoint, group), more) is not more:
            return  # left meanwhile, or said twice
        self._unread[endpoint, group] = not more
        if not self._reader.is_full:
            self._port.step(Resumed(endpoint, group) if more else Paused(endpoint, group))


def joined(items: list[Any], bytes_max: int) -> Iterator[Any]:
    """The same items, with consecutive blocks of one endpoint to one group joined into one: the cost of a
    block hardly depends on its size."""
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


def _drained(items: deque[Any]) -> Iterator[Any]:
    while items:
        yield items.popleft()


def _one(run: list[Submit], count: int) -> Submit:
    first = run[0]
    if len(run) == 1:
        return first
    block = b"".join([each.block for each in run])
    return Submit(first.endpoint, first.group, count, block, first.at)


class Route(NamedTuple):
    """The sessions of some endpoints, with their numbers."""

    endpoints: tuple[Endpoint, ...]  # kept because its identity names the route
    sessions: list[tuple[ProgramSession, tuple[int, ...]]]
    ourselves: bool


class PendingRequest(NamedTuple):
    """A question that is not answered yet."""

    token: int  # the program's
    endpoint: Endpoint
    request: Any
    is_new: bool  # it asks for something that the user does not hold yet


def closed_early(endpoint: Endpoint) -> Denied:
    gone = Unreachable(f"{endpoint} was closed before the answer came", fix="open it again and ask again")
    return denied(gone)


def _joins(item: Any) -> bool:
    return type(item) is Ask and type(item.request) in (Join, Enter)


HOLDS: Final[dict[type, str]] = {
    Join: "in",
    Enter: "in",
    JoinAgreed: "in",
    JoinLed: "in",
    JoinRestricted: "in",
    JoinUnique: "in",
    JoinOpen: "in",
    JoinOrdered: "in",
    Watch: "watches",
    WatchLife: "lives",
}
GIVES_BACK: Final[dict[type, str]] = {
    Leave: "in",
    Exit: "in",
    LeaveAgreed: "in",
    LeaveLed: "in",
    LeaveOpen: "in",
    LeaveOrdered: "in",
    Unwatch: "watches",
    UnwatchLife: "lives",
}


def holding(request: Any) -> Holding:
    """What this request takes of the user's quota, or gives back."""
    kind = type(request)
    about = request.endpoint if kind is WatchLife or kind is UnwatchLife else request.group
    return HOLDS.get(kind) or GIVES_BACK[kind], about


_NEVER_DROPPED: Final = (Gap, Life, NotDelivered, *_SET_NOTICES)
"""A new baseline does not replace these. A program that does not read them is disconnected in the end."""

_LISTS: Final = frozenset({Absolute, Joined, Snapshot, Changed, SetMembers})
_DOCUMENTS: Final = frozenset({Inspected, Recalled})


def _records(said: Any) -> int:
    if type(said) in _LISTS:
        return len(said.members)
    if type(said) is Resolved:
        return sum([len(members) for _, members in said.parts])
    if type(said) in _BODIES:
        return len(said.body) // RECORD_BYTES
    return len(said.document) // RECORD_BYTES if type(said) in _DOCUMENTS else 0
