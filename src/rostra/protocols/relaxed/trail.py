"""What a node remembers about removals, for `rostra why`.

A removal is decided at one node and reported along one path. Every node on that path keeps what it saw of it
for a while; `rostra.client.why` asks them all and puts the explanation together.

    links        ups and downs of each neighbour, and the evidence behind each suspicion
    failures     domains that were declared unreachable: by which server, received from and forwarded to whom
    returns      parts of the world that were announced again: a merge
    departures   endpoints that left, died or stalled
    seen         endpoints elsewhere that this host's programs were notified of (at agents only)
    refusals     requests of programs that were denied
    late         when our own event loop stalled, which makes every neighbour look silent
    views        what other services say of removals (`Recallable`): views of agreed groups

No decision depends on this memory, so it may be bounded and lost, oldest first: a domain server still stores
no membership (C-023). Times are sent as ages, so the clocks of two machines need not agree.

Endpoints come and go by the thousand and are asked about one at a time: a departure is a small note, and the
notes about one endpoint are put together when a question comes.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct, field, json, structs

from rostra.core.effects import (
    Answer,
    Asked,
    EndpointGone,
    Event,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Recallable,
    RecallNote,
    Received,
    Send,
    Tell,
    Ticked,
)
from rostra.core.observer import Beside, NodeBegan, Seen
from rostra.groups.members import Because, Cause, Members, Part
from rostra.names import Domain, Endpoint, Group, concerns, host_of, inside, parent
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.core import Link
from rostra.protocols.links.events import LinkEvidence, Removed, Suspected, Trusted
from rostra.protocols.relaxed.messages import (
    REPORT_BYTES_MAX,
    DomainFailed,
    EndpointLeft,
    EndpointsJoined,
    ResolveReply,
)
from rostra.protocols.relaxed.requests import Close, Denied, Leave, Left, Only, Open, Without

LINKS_MAX: Final = 16_384  # neighbours
LINK_NOTES_MAX: Final = 16  # of each neighbour
FAILURES_MAX: Final = 256
RETURNS_MAX: Final = 256
DEPARTURES_MAX: Final = 2_048  # that were asked for; and as many that were not
SEEN_MAX: Final = 4_096
REFUSALS_MAX: Final = 128
LATE_MAX: Final = 32
VIEWS_MAX: Final = 256
NAMES_MAX: Final = 8
"""Groups and neighbours that one note names; it counts all of them."""

TOLD_MAX: Final = 16
"""Notes of each kind in one answer."""


HERE: Final = Domain("")
"""In place of the neighbour that sent a notice: it was decided here."""


class LinkNote(Struct, frozen=True):
    at: Instant
    what: str  # up | moved | suspected | trusted | down
    because: str = ""
    evidence: LinkEvidence | None = None


class Telling(Struct):
    """From which neighbour the notice of a removal came, and to whom it was forwarded."""

    heard_from: Domain  # none: it was decided here
    passed_to: set[Domain] = field(default_factory=set)
    told: int = 0  # endpoints of this host
    groups: dict[Group, None] = field(default_factory=dict)
    more_groups: int = 0

    def about(self, groups: Iterable[Group]) -> None:
        for group in groups:
            if group in self.groups:
                continue
            if len(self.groups) < NAMES_MAX:
                self.groups[group] = None
            else:
                self.more_groups += 1


class Failure(Struct):
    """A part of the world was given up."""

    at: Instant
    domain: Domain
    keep: bool  # we are in it, and lost the rest
    because: Because
    telling: Telling

    def loses(self, path: Domain) -> bool:
        """Is all of that domain, or that host, in what was lost?"""
        return inside(self.domain, path) is not self.keep


class Departure(Struct, frozen=True, gc=False):
    """An endpoint left a group, or is gone. One that was in many groups has many of these."""

    at: Instant
    endpoint: Endpoint
    cause: Cause
    heard_from: Domain
    passed_to: tuple[Domain, ...]
    told: int
    groups: tuple[Group, ...]  # the first few
    more_groups: int = 0
    gone: bool = False  # from its host, and not only from some groups
    why: str = ""
    evidence: Any = None


class RefusedRequest(Struct, frozen=True):
    at: Instant
    endpoint: str  # with its number, unless it was refused one
    asked: str
    group: Group | None
    code: str
    what: str


class Trail:
    def __init__(self, path: Domain, config: LinkConfig) -> None:
        self._path = path
        self._config = config
        self._since: Instant = 0.0
        self._links: dict[Domain, deque[LinkNote]] = {}
        self._failures: deque[Failure] = deque(maxlen=FAILURES_MAX)
        self._returns: dict[Part, tuple[Instant, Domain]] = {}  # when, and from whom; the latest last
        self._leaves: deque[Departure] = deque(maxlen=DEPARTURES_MAX)
        self._crashes: deque[Departure] = deque(maxlen=DEPARTURES_MAX)
        self._seen: deque[tuple[Instant, Members]] = deque()  # lists as they came, SEEN_MAX members in all
        self._seen_count = 0
        self._refusals: deque[RefusedRequest] = deque(maxlen=REFUSALS_MAX)
        self._late: deque[tuple[Instant, float]] = deque(maxlen=LATE_MAX)
        self._views: deque[tuple[Instant, RecallNote]] = deque(maxlen=VIEWS_MAX)

    # What happens

    def _ticked(self, now: Instant, late_s: float) -> None:
        """Keep a stall of our event loop, if it was long enough for neighbours to suspect us."""
        if late_s >= self._config.detect.heartbeat_interval_s:
            self._late.append((now, late_s))

    def _linked(self, now: Instant, report: Seen) -> None:
        """A link reported a change of its peer's state."""
        match report:
            case LinkUp(peer):
                self._note(peer, LinkNote(now, "up"))
            case LinkMoved(peer):
                self._note(peer, LinkNote(now, "moved"))
            case Suspected(peer, evidence):
                self._note(peer, LinkNote(now, "suspected", evidence=evidence))
            case Trusted(peer):
                self._note(peer, LinkNote(now, "trusted"))
            case Removed(because, evidence):
                self._note(because.accused, LinkNote(now, "down", because.what, evidence))

    def saw(self, now: Instant, node: Domain, event: Event, effects: Sequence[Seen]) -> None:
        """A step of the stack, or what a link reported beside one. Most steps leave no note, so that is
        tested first."""
        kind = type(event)
        if kind.recalls:
            for effect in effects:
                if isinstance(effect, Recallable) and (note := effect.recalled()) is not None:
                    self._views.append((now, note))
        if kind is Received:
            message = event.message  # type: ignore[attr-defined]
            said = type(message)
            if said is EndpointLeft:
                self._left(now, event.sender, message, effects)  # type: ignore[attr-defined]
            elif said is EndpointsJoined:
                if message.cause is Cause.MERGE and message.complete_for is not None:
                    self._returned(now, event.sender, message.complete_for)  # type: ignore[attr-defined]
                self._saw_members(now, message.members, effects)
            elif said is ResolveReply and message.members:
                self._saw_members(now, message.members, effects)
            elif said is DomainFailed:
                self._failed(now, event.sender, message, effects)  # type: ignore[attr-defined]
        elif kind is Asked:
            self._asked(now, event, effects)  # type: ignore[arg-type]
        elif kind is EndpointGone:
            self._gone(now, event, effects)  # type: ignore[arg-type]
        elif kind is LinkDown:
            self._link_down(now, event, effects)  # type: ignore[arg-type]
        elif kind is Beside:
            for report in effects:
                self._linked(now, report)
        elif kind is Ticked:
            self._ticked(now, event.late_s)  # type: ignore[attr-defined]
        elif kind is NodeBegan:
            self._since = now

    def _note(self, peer: Domain, note: LinkNote) -> None:
        if peer not in self._links and len(self._links) >= LINKS_MAX:
            del self._links[next(iter(self._links))]
        self._links.setdefault(peer, deque(maxlen=LINK_NOTES_MAX)).append(note)

    def _left(self, now: Instant, sender: Domain, message: EndpointLeft, effects: Sequence[Seen]) -> None:
        to = tuple([effect.to for effect in effects if type(effect) is Send])
        told = max([len(effect.endpoints) for effect in effects if type(effect) is Tell], default=0)
        note = Departure(now, message.endpoint, message.cause, sender, to, told, (message.group,))
        (self._leaves if message.cause is Cause.LEAVE else self._crashes).append(note)

    def _asked(self, now: Instant, asked: Asked, effects: Sequence[Seen]) -> None:
        if len(effects) == 1 and type(effects[0]) is Answer and type(effects[0].result) is Denied:
            self._refused(now, asked, effects[0].result)  # a call that is refused has no other effect
        elif type(asked.request) is Leave or type(asked.request) is Close:
            telling = Telling(HERE)
            _tally(telling, effects)
            gone = type(asked.request) is Close
            self._leaves.append(_departure(now, asked.endpoint, Cause.LEAVE, telling, gone))

    def _gone(self, now: Instant, event: EndpointGone, effects: Sequence[Seen]) -> None:
        telling = Telling(HERE)
        _tally(telling, effects)
        note = _departure(now, event.endpoint, Cause.CRASH, telling, True, event.why, event.evidence)
        self._crashes.append(note)

    def _failed(self, now: Instant, sender: Domain, message: DomainFailed, effects: Sequence[Seen]) -> None:
        telling = Telling(sender)
        telling.about(message.groups)
        _tally(telling, effects)
        self._failures.append(Failure(now, message.domain, message.keep, message.because, telling))

    def _returned(self, now: Instant, sender: Domain, part: Part) -> None:
        """One message for each group, and one note for all of them."""
        self._returns.pop(part, None)
        if len(self._returns) >= RETURNS_MAX:
            del self._returns[next(iter(self._returns))]
        self._returns[part] = (now, sender)

    def _saw_members(self, now: Instant, members: Members, effects: Sequence[Seen]) -> None:
        """The notice of a domain's loss names no endpoint, so an agent remembers which ones it has listed to
        its programs. Lists are kept as they came: that costs nothing for each member."""
        if members and any(type(effect) is Tell or type(effect) is Answer for effect in effects):
            self._seen.append((now, members[:SEEN_MAX]))
            self._seen_count += len(self._seen[-1][1])
            while self._seen_count > SEEN_MAX:
                self._seen_count -= len(self._seen.popleft()[1])

    def _link_down(self, now: Instant, down: LinkDown, effects: Sequence[Seen]) -> None:
        """The failure that a lost neighbour means, if it concerned a member."""
        telling = Telling(HERE)
        _tally(telling, effects)
        for effect in effects:
            match effect:
                case Send(_, DomainFailed(domain=domain, keep=keep)):
                    self._failures.append(Failure(now, domain, keep, down.because, telling))
                    return
                case Tell(_, Only(domain)):
                    self._failures.append(Failure(now, domain, True, down.because, telling))
                    return

    def _refused(self, now: Instant, asked: Asked, denied: Denied) -> None:
        request = asked.request
        who = f"{self._path}/{request.name}" if type(request) is Open else asked.endpoint
        group = getattr(request, "group", None)
        self._refusals.append(
            RefusedRequest(now, who, type(request).__name__.lower(), group, denied.code, denied.what)
        )

    def _departures(self, about: str) -> list[Departure]:
        """The departures that a question is about, one for each endpoint and cause; the latest last."""
        found: dict[tuple[Endpoint, Cause], Departure] = {}
        for note in (*self._leaves, *self._crashes):
            if concerns(about, note.endpoint):
                earlier = found.pop((note.endpoint, note.cause), None)
                found[note.endpoint, note.cause] = note if earlier is None else _together(earlier, note)
        return sorted(found.values(), key=lambda each: each.at)

    # What is asked

    def about(
        self, now: Instant, about: str, asker: Domain, links: dict[Domain, Link], present: Sequence[Any] = ()
    ) -> bytes:
        """All that is remembered about an endpoint, a host or a domain, as a document that fits a message.

        A group is named only to an asker inside its scope: then so are all servers on the path (C-009).
        """
        path = host_of(Endpoint(about))
        size = TOLD_MAX
        while True:
            document = json.encode(self._document(now, about, path, asker, links, present, size))
            if len(document) <= REPORT_BYTES_MAX or size == 0:
                return document
            size //= 2

    def _document(
        self,
        now: Instant,
        about: str,
        path: Domain,
        asker: Domain,
        links: dict[Domain, Link],
        present: Sequence[Any],
        size: int,
    ) -> dict[str, Any]:
        relevant = sorted(links, key=lambda peer: self._relevance(peer, path))
        failures = [each for each in self._failures if each.loses(path)]
        returns = [(at, part, sender) for part, (at, sender) in self._returns.items() if part.covers(path)]
        departures = self._departures(about)
        seen = {
            member.endpoint: at
            for at, members in self._seen
            for member in members
            if concerns(about, member.endpoint)
        }
        refusals = [each for each in self._refusals if concerns(about, each.endpoint)]
        views = [
            (at, note)
            for at, note in self._views
            if inside(note.group.scope, asker)
            and (
                any(concerns(about, each) for each in note.members)
                or (not note.members and path == self._path)
            )
        ]
        return {
            "node": self._path,
            "about": about,
            "age_s": round(now - self._since, 3),
            "links": {
                peer: {
                    "up": links[peer].up,
                    "suspected": links[peer].suspected,
                    "notes": [_link_note(now, note) for note in _last(self._links.get(peer, ()), size // 2)],
                }
                for peer in relevant[: size // 2]
            },
            "failures": [
                {
                    "ago_s": _age(now, each.at),
                    "domain": each.domain,
                    "keep": each.keep,
                    "because": structs.asdict(each.because),
                    **_telling(each.telling, asker),
                }
                for each in _last(failures, size)
            ],
            "returns": [
                {"ago_s": _age(now, at), "part": str(part), "heard_from": sender}
                for at, part, sender in _last(returns, size)
            ],
            "departures": [
                {
                    "ago_s": _age(now, each.at),
                    "endpoint": each.endpoint,
                    "cause": each.cause.value,
                    "gone": each.gone,
                    "why": each.why,
                    "evidence": each.evidence,
                    **_telling_of(each, asker),
                }
                for each in _last(departures, size)
            ],
            "seen": [
                {"ago_s": _age(now, at), "endpoint": endpoint}
                for endpoint, at in _last(sorted(seen.items(), key=lambda each: each[1]), size)
            ],
            "refusals": [
                {
                    "ago_s": _age(now, each.at),
                    "endpoint": each.endpoint,
                    "asked": each.asked,
                    "group": str(each.group) if each.group and inside(each.group.scope, asker) else None,
                    "code": each.code,
                    "what": each.what[:200],
                }
                for each in _last(refusals, size)
            ],
            "views": [
                {
                    "ago_s": _age(now, at),
                    "what": note.what,
                    "group": str(note.group),
                    "endpoints": [each for each in note.members if concerns(about, each)][:NAMES_MAX],
                    "text": note.text,
                }
                for at, note in _last(views, size)
            ],
            "late": [{"ago_s": _age(now, at), "late_s": round(s, 3)} for at, s in _last(self._late, size)],
            "present": [
                {"endpoint": endpoint, "groups": _names(groups, asker)} for endpoint, groups in present[:size]
            ],
            "detect": structs.asdict(self._config.detect),
            "queue_messages_max": self._config.queue_messages_max,
        }

    def _relevance(self, peer: Domain, path: Domain) -> tuple[bool, bool, float, Domain]:
        """Sorts links: first the neighbour behind which the subject is, then our parent, then those that
        changed last."""
        notes = self._links.get(peer)
        return (
            not (inside(peer, path) and not inside(peer, self._path)),
            peer != parent(self._path),
            -notes[-1].at if notes else 0.0,
            peer,
        )


def _tally(telling: Telling, effects: Sequence[Seen]) -> None:
    for effect in effects:
        if type(effect) is Send:
            message = effect.message
            if type(message) is EndpointLeft:
                telling.passed_to.add(effect.to)
                telling.about((message.group,))
            elif type(message) is DomainFailed:
                telling.passed_to.add(effect.to)
                telling.about(message.groups)
        elif type(effect) is Tell and type(effect.notice) in (Left, Only, Without):
            telling.told = max(telling.told, len(effect.endpoints))
            if type(effect.notice) is Left:
                telling.about((effect.notice.group,))


def _departure(
    now: Instant,
    endpoint: Endpoint,
    cause: Cause,
    telling: Telling,
    gone: bool,
    why: str = "",
    evidence: Any = None,
) -> Departure:
    """The note of an endpoint of this host that left one group, or all of them at once."""
    to, groups = tuple(sorted(telling.passed_to)), tuple(telling.groups)
    more = telling.more_groups
    return Departure(now, endpoint, cause, HERE, to, telling.told, groups, more, gone, why, evidence)


def _together(earlier: Departure, later: Departure) -> Departure:
    telling = Telling(earlier.heard_from, set(earlier.passed_to) | set(later.passed_to))
    telling.about((*earlier.groups, *later.groups))
    return Departure(
        later.at,
        later.endpoint,
        later.cause,
        earlier.heard_from,
        tuple(sorted(telling.passed_to)),
        max(earlier.told, later.told),
        tuple(telling.groups),
        earlier.more_groups + later.more_groups + telling.more_groups,
        earlier.gone or later.gone,
        later.why or earlier.why,
        later.evidence or earlier.evidence,
    )


def _telling_of(departure: Departure, asker: Domain) -> dict[str, Any]:
    telling = Telling(departure.heard_from, set(departure.passed_to), departure.told)
    telling.about(departure.groups)
    telling.more_groups += departure.more_groups
    return _telling(telling, asker)


def _telling(telling: Telling, asker: Domain) -> dict[str, Any]:
    return {
        "heard_from": telling.heard_from or None,
        "passed_to": sorted(telling.passed_to)[:NAMES_MAX],
        "passed_to_count": len(telling.passed_to),
        "told": telling.told,
        "groups": _names(telling.groups, asker),
        "groups_count": len(telling.groups) + telling.more_groups,
    }


def _names(groups: Iterable[Group], asker: Domain) -> list[str]:
    return [str(group) for group in sorted(groups) if inside(group.scope, asker)][:NAMES_MAX]


def _link_note(now: Instant, note: LinkNote) -> dict[str, Any]:
    told: dict[str, Any] = {"ago_s": _age(now, note.at), "what": note.what, "because": note.because}
    if note.evidence is not None:
        told["evidence"] = {
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in structs.asdict(note.evidence).items()
            if name not in ("at", "accuser", "accused")
        }
    return told


def _age(now: Instant, at: Instant) -> float:
    return round(now - at, 3)


def _last(notes: Iterable[Any], count: int) -> list[Any]:
    return list(notes)[-count:] if count else []
