"""The dashboard's model of the world, kept current from its places, and published to its subscribers.

    places ── news ──▶ reports ──▶ picture    which servers and links are up
                       views                  groups as each place sees them
                       timeline               events
                          │
                          └── numbered frames ──▶ subscribers

A subscriber gets a snapshot, then every later frame once and in order. One that reconnects names the last
frame it has and is sent the rest; if that is too much, or it reads too slowly, it gets a new snapshot. It is
the guarantee of any watch (`watch-complete`), over HTTP.

A node's own dashboard **sleeps** without viewers: it asks no node anything. `rostra up` keeps it awake from
the beginning, so that the first page shows how the world came up.
"""

import asyncio
import contextlib
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from rostra.client.known import read_group
from rostra.errors import Unreachable
from rostra.names import Domain, Group, host_of, inside, name_of
from rostra.web.agreed import AgreedShown, agreed_shown
from rostra.web.lab import LabClient, LabState
from rostra.web.led import LedShown, led_shown
from rostra.web.picture import Picture, PictureEnd, PlaceReport, draw, ends_of
from rostra.web.places import (
    OURS,
    AnyNews,
    EventsForgotten,
    Happened,
    ObservedPlace,
    Silent,
    StateKnown,
    Unseen,
    ViewSeen,
)
from rostra.web.streams import HostStreams, StreamReader
from rostra.web.timeline import Timeline, TimelineEntry

FRAMES_KEPT: Final = 2_000
"""Frames that a subscriber may have missed and still be given, rather than a new snapshot."""

QUEUE_FRAMES_MAX: Final = 1_000
"""Frames waiting for one subscriber that does not read."""

SUBSCRIBERS_MAX: Final = 64

MEMBERS_SHOWN_MAX: Final = 500
"""Members of one group that are sent to pages; the count is of all. `rostra members` has no such bound."""

REFUSED_SHOWN_MAX: Final = 20

FOLLOWS_MAX: Final = 512
"""Groups times places that are followed unasked. Others are followed while a viewer looks at them."""

LINGER_S: Final = 60.0
"""How long an observatory without viewers stays awake: a page that is reloaded finds it as it was."""

WAKE_TIMEOUT_S: Final = 3.0
GATHER_S: Final = 0.1


class Frame(Struct, frozen=True):
    """One message to subscribers. `data` is JSON."""

    number: int
    kind: Literal[
        "snapshot",
        "world",
        "place",
        "groups",
        "view",
        "unview",
        "sightings",
        "streams",
        "agreed",
        "led",
        "entry",
        "lab",
    ]
    data: bytes


class PlaceShown(Struct, frozen=True):
    """A place, as the API shows it. Ages are the reader's to work out: `at` is when it last spoke."""

    path: Domain
    address: str
    state: Literal["waiting", "answers", "silent"]
    at: float | None = None
    since: float | None = None  # when it began to answer, or to be silent
    why: str = ""
    is_agent: bool = False
    incarnation: int | None = None
    links: Mapping[Domain, PictureEnd] = {}
    programs: tuple[Mapping[str, Any], ...] = ()
    refused: tuple[str, ...] = ()  # names of groups that it knows, and that our rules refuse


class MemberShown(Struct, frozen=True):
    endpoint: str
    host: Domain
    name: str
    since: float  # when this place first saw it, as far as we know
    meta: str = ""


class PlaceView(Struct, frozen=True):
    """A group as one place sees it."""

    place: Domain
    group: str
    at: float  # when it last changed
    isolated: bool
    total: int
    members: tuple[MemberShown, ...]


class GroupShown(Struct, frozen=True):
    group: str
    name: str
    scope: Domain
    permanent: bool
    followed: bool  # its members are known here; otherwise it must be asked for


class _Station:
    """One place and its last reports."""

    def __init__(self, place: ObservedPlace) -> None:
        self.place = place
        self.forget()

    def forget(self) -> None:
        place = self.place
        self.shown = PlaceShown(place.path, place.address, "waiting")
        self.document: Mapping[str, Any] | None = None
        self.reasons: dict[Domain, str] = {}  # why its peers were given up
        self.views: dict[Group, PlaceView] = {}
        self.hosts: dict[Group, Counter[Domain]] = {}  # how many members of each host it sees
        self.listener = StreamReader(place.path)
        self.streams: HostStreams | None = None  # what its members say and hear, if they do

    @property
    def report(self) -> PlaceReport:
        shown = self.shown
        return PlaceReport(shown.path, shown.state == "answers", self.document, shown.why, shown.links)

    def can_see(self, group: Group) -> bool:
        shown = self.shown
        return shown.is_agent and shown.state == "answers" and inside(group.scope, shown.path)


class TooManySubscribers(Unreachable):
    def __init__(self) -> None:
        super().__init__("too many pages are open", fix="close some, or try again later")


class Observatory:
    def __init__(
        self, places: Iterable[ObservedPlace], *, lab: LabClient | None = None, stays_awake: bool = False
    ) -> None:
        self.life = _new_life()  # numbers of another life mean nothing here
        self.lab = lab
        self.timeline = Timeline()
        self.picture = Picture()
        self.groups: dict[Group, GroupShown] = {}
        self.agreed: tuple[AgreedShown, ...] = ()
        self.led: tuple[LedShown, ...] = ()
        self._stations = {place.path: _Station(place) for place in sorted(places, key=lambda each: each.path)}
        self._stays_awake = stays_awake
        self._number = 0
        self._frames: deque[Frame] = deque(maxlen=FRAMES_KEPT)
        self._subscribers: set[_Subscriber] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._sleep: asyncio.TimerHandle | None = None
        self._first_words = asyncio.Event()  # every place has answered, or failed to
        if not self._stations:
            self._first_words.set()
        self._world: dict[str, str] = {}
        self._sightings_due: asyncio.TimerHandle | None = None
        if lab is not None:
            self._lab_state = lab.state
            lab.listen(self._lab_changed)

    # Waking and sleeping

    async def __aenter__(self) -> "Observatory":
        if self._stays_awake:
            self._wake()
        return self

    async def __aexit__(self, *_: object) -> None:
        for timer in (self._sleep, self._sightings_due):
            if timer is not None:
                timer.cancel()
        self.end_streams()
        await self._fall_asleep()

    def end_streams(self) -> None:
        """No subscriber gets anything more."""
        for subscriber in self._subscribers:
            subscriber.end()

    async def awake(self) -> None:
        """Before a request is answered: wake up, and wait a little for a first report of every place."""
        self._wake()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAKE_TIMEOUT_S):
                await self._first_words.wait()
        self._stay_awake_for_a_while()

    def _wake(self) -> None:
        if not self._tasks and self._stations:
            self._first_words.clear()
            self._tasks = [asyncio.create_task(self._watch(each)) for each in self._stations.values()]
        if self._sleep is not None:
            self._sleep.cancel()
            self._sleep = None

    def _stay_awake_for_a_while(self) -> None:
        if not self._stays_awake and not self._subscribers:
            if self._sleep is not None:
                self._sleep.cancel()
            loop = asyncio.get_running_loop()
            self._sleep = loop.call_later(LINGER_S, lambda: loop.create_task(self._fall_asleep()))

    async def _fall_asleep(self) -> None:
        """Ask nothing more, and forget what will not be true any longer. What happened stays."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.life = _new_life()
        self.picture, self.groups, self.agreed, self.led = Picture(), {}, (), ()
        for station in self._stations.values():
            station.place.follow(())
            station.forget()

    async def _watch(self, station: _Station) -> None:
        await station.place.run(lambda news: self.hear(station.place.path, news))

    # What places say

    def hear(self, path: Domain, news: AnyNews) -> None:
        station = self._stations[path]
        match news:
            case StateKnown():
                self._known(station, news)
            case Happened(at, _, event, values):
                if event == "link_down":
                    station.reasons[Domain(str(values.get("peer", "")))] = str(values.get("because", ""))
                self._publish_entries(self.timeline.recorded(at, path, event, values))
            case EventsForgotten(at, count):
                self._publish_entries(self.timeline.forgot(at, path, count))
            case ViewSeen():
                self._seen(station, news)
            case Unseen(_, group):
                self._drop_view(station, group)
            case Silent():
                self._silent(station, news)

    def _known(self, station: _Station, news: StateKnown) -> None:
        document, before = news.document, station.shown
        was_silent = before.state == "silent"
        # All of it is read before any of it is shown: what cannot be read has not answered.
        world = {"name": str(document["world"]), "profile": str(document["profile"])}
        streams = station.listener.hear(news.at, document.get("streams", []))
        shown = PlaceShown(
            before.path,
            before.address,
            "answers",
            at=news.at,
            since=before.since if before.state == "answers" else news.at,
            is_agent=document["core"].get("server") == "agent",
            incarnation=document["incarnation"],
            links=ends_of(document, station.reasons),
            programs=tuple(map(_program_shown, document["programs"])),
            refused=_refused(document["core"]),
        )
        self._world, station.document, station.shown = world, document, shown
        if was_silent and before.at is not None:
            self._publish_entries(self.timeline.answers(news.at, before.path))
        self._publish("place", station.shown)
        self._tell_streams(station, streams)
        self._look_again()

    def _tell_streams(self, station: _Station, streams: HostStreams) -> None:
        """Of a host whose members neither speak nor listen, only that they have stopped."""
        if streams.senders or streams.receivers:
            station.streams = streams
        elif station.streams is not None:
            station.streams = None
        else:
            return
        self._publish("streams", streams)

    def _silent(self, station: _Station, news: Silent) -> None:
        before = station.shown
        if before.state == "silent" and before.why == news.why:
            return
        since = before.since if before.state == "silent" else news.at
        station.shown = PlaceShown(
            before.path,
            before.address,
            "silent",
            at=before.at,
            since=since,
            why=news.why,
            is_agent=before.is_agent,
            incarnation=before.incarnation,
        )
        if before.state == "answers":
            self._publish_entries(self.timeline.silent(news.at, before.path, news.why))
        self._publish("place", station.shown)
        for group in list(station.views):
            self._drop_view(station, group)
        self._tell_streams(station, HostStreams(before.path, news.at))
        station.listener = StreamReader(before.path)
        self._look_again()

    def _seen(self, station: _Station, news: ViewSeen) -> None:
        path = station.place.path
        before = station.views.get(news.group)
        known = {member.endpoint: member for member in before.members} if before is not None else {}
        shown = tuple(
            known.get(member.endpoint)
            or MemberShown(
                member.endpoint,
                host_of(member.endpoint),
                name_of(member.endpoint),
                news.at,
                _text(member.meta),
            )
            for member in news.members[:MEMBERS_SHOWN_MAX]
        )
        view = PlaceView(path, str(news.group), news.at, news.isolated, len(news.members), shown)
        station.views[news.group] = view
        station.hosts[news.group] = Counter(host_of(member.endpoint) for member in news.members)
        self._publish("view", view)
        self._sightings_changed()
        if news.change is not None:
            self._publish_entries(self.timeline.changed(news.at, path, news.group, news.change))

    def _drop_view(self, station: _Station, group: Group) -> None:
        if station.views.pop(group, None) is not None:
            del station.hosts[group]
            self._publish("unview", {"place": station.place.path, "group": str(group)})
            self._sightings_changed()

    # What follows from it

    def _look_again(self) -> None:
        """The picture and the list of groups, published again if they have changed."""
        picture = draw(station.report for station in self._stations.values())
        if picture != self.picture:
            self.picture = picture
            self._publish("world", self.world)
        self._follow_groups()
        told = [
            (path, station.document)
            for path, station in self._stations.items()
            if station.shown.state == "answers" and station.document is not None
        ]
        agreed, led = agreed_shown(told), led_shown(told)
        if agreed != self.agreed:
            self.agreed = agreed
            self._publish("agreed", agreed)
        if led != self.led:
            self.led = led
            self._publish("led", led)
        if all(station.shown.state != "waiting" for station in self._stations.values()):
            self._first_words.set()

    def _follow_groups(self) -> None:
        known, lively = self._groups_of_the_world()
        wanted = self._wanted(lively)
        groups = {
            group: GroupShown(str(group), group.name, group.scope, permanent, group in wanted)
            for group, permanent in sorted({**known, **dict.fromkeys(wanted - known.keys(), False)}.items())
        }
        if groups != self.groups:
            self.groups = groups
            self._publish("groups", tuple(groups.values()))
        for path, station in self._stations.items():
            station.place.follow(group for group in wanted if inside(group.scope, path))

    def _groups_of_the_world(self) -> tuple[dict[Group, bool], set[Group]]:
        """Every group that some place knows, and whether it is permanent; and those in use: a program
        other than this dashboard is in them or follows them, or they are permanent."""
        known: dict[Group, bool] = {}
        lively: set[Group] = set()
        for station in self._stations.values():
            document = station.document or {}
            core, watches = document.get("core", {}), document.get("watches", {})
            for text, table in core.get("groups", {}).items():
                watchers = watches.get(text, {}).get("watchers", ())
                followers = [*table["members"], *watchers, *table["online"]]
                group = read_group(text)
                if group is not None and any(f"/{OURS}" not in str(each) for each in followers):
                    known.setdefault(group, False)
                    lively.add(group)
            for text in core.get("rows", {}):
                if (group := read_group(text)) is not None:
                    known.setdefault(group, False)
            for scope, record in core.get("permanent", {}).items():
                for name in record["names"]:
                    known[Group(name, Domain(scope))] = True
                    lively.add(Group(name, Domain(scope)))
        return known, lively

    def _wanted(self, lively: set[Group]) -> set[Group]:
        """The groups that have a viewer, and as many others as we may follow unasked."""
        wanted = {each.group for each in self._subscribers if each.group is not None}
        agents = sum(station.shown.is_agent for station in self._stations.values())
        return wanted | set(sorted(lively)[: FOLLOWS_MAX // max(1, agents)])

    def _sightings_changed(self) -> None:
        """A merge changes many views at once; which place sees which is published once, after them."""
        if self._sightings_due is None:
            self._sightings_due = asyncio.get_running_loop().call_later(GATHER_S, self._tell_sightings)

    def _tell_sightings(self) -> None:
        self._sightings_due = None
        self._publish("sightings", self.sightings())

    def sightings(self) -> dict[str, Any]:
        """Which hosts see whose members: ``sees[place][host] = (how many it sees, how many there are)``, over
        the groups that both are in the scope of. How many there are only the host itself knows; what a place
        sees, only that place."""
        agents = {path: station for path, station in self._stations.items() if station.shown.is_agent}
        sees = {
            path: {host: _sighting(station.hosts, other.hosts, host) for host, other in agents.items()}
            for path, station in agents.items()
            if station.hosts
        }
        return {"hosts": list(agents), "sees": sees}

    def streams(self, group: Group | None = None) -> list[HostStreams]:
        """The message rates of groups with delivery, or of one of them, by place."""
        found = [station.streams for station in self._stations.values() if station.streams is not None]
        if group is None:
            return found
        return [
            HostStreams(
                each.place,
                each.at,
                tuple(one for one in each.senders if one.group == str(group)),
                tuple(one for one in each.receivers if one.group == str(group)),
                each.more,
            )
            for each in found
        ]

    # Frames

    def _publish_entries(self, entries: Iterable[TimelineEntry]) -> None:
        for entry in entries:
            self._publish("entry", entry)

    def _lab_changed(self, state: LabState) -> None:
        before, self._lab_state = self._lab_state, state
        self._publish("lab", self.lab_shown)
        for text, about in _differences(before, state):
            self._publish_entries(self.timeline.lab(time.time(), text, about))

    def _publish(self, kind: Any, content: object) -> None:
        self._number += 1
        frame = Frame(self._number, kind, msgspec.json.encode(content))
        self._frames.append(frame)
        for subscriber in self._subscribers:
            subscriber.put(frame)

    @property
    def world(self) -> dict[str, Any]:
        return {**self._world, "servers": self.picture.servers, "links": self.picture.links}

    @property
    def lab_shown(self) -> dict[str, Any] | None:
        """What is broken on purpose; `severed` are the links that carry nothing, as (sender, receiver)."""
        if self.lab is None:
            return None
        state = self._lab_state
        ways = [way for link in self.picture.links for way in ((link.a, link.b), (link.b, link.a))]
        return {
            "cuts": [{**msgspec.structs.asdict(cut), "text": str(cut)} for cut in state.cuts],
            "crashed": state.crashed,
            "paused": state.paused,
            "severed": [way for way in ways if any(cut.loses(*way) for cut in state.cuts)],
        }

    @property
    def places(self) -> dict[Domain, PlaceShown]:
        return {path: station.shown for path, station in self._stations.items()}

    def document_of(self, path: Domain) -> Mapping[str, Any] | None:
        station = self._stations.get(path)
        return None if station is None else station.document

    def views_of(self, group: Group) -> dict[Domain, PlaceView]:
        return {path: each.views[group] for path, each in self._stations.items() if group in each.views}

    async def look_at(self, group: Group) -> dict[Domain, PlaceView]:
        """A group as each place inside its scope sees it, also if it was not followed before."""
        async with self.subscribe(group=group) as news:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAKE_TIMEOUT_S):
                    while not all(
                        group in each.views for each in self._stations.values() if each.can_see(group)
                    ):
                        await news.next(WAKE_TIMEOUT_S)
        return self.views_of(group)

    def snapshot(self) -> dict[str, Any]:
        """All there is to show, at this number."""
        return {
            "life": self.life,
            "number": self._number,
            "now": time.time(),
            "world": self.world,
            "places": self.places,
            "groups": tuple(self.groups.values()),
            "views": [view for station in self._stations.values() for view in station.views.values()],
            "sightings": self.sightings(),
            "streams": self.streams(),
            "agreed": self.agreed,
            "led": self.led,
            "timeline": list(self.timeline),
            "lab": self.lab_shown,
        }

    @contextlib.asynccontextmanager
    async def subscribe(
        self, *, after: str | None = None, group: Group | None = None
    ) -> AsyncIterator["_Subscriber"]:
        """Frames from now on, beginning with a snapshot; or, for one who was here, after the last it has."""
        if len(self._subscribers) >= SUBSCRIBERS_MAX:
            raise TooManySubscribers()
        self._wake()
        subscriber = _Subscriber(group, self._missed_since(after), self._snapshot_frame)
        self._subscribers.add(subscriber)
        self._follow_groups()
        try:
            yield subscriber
        finally:
            self._subscribers.discard(subscriber)
            self._stay_awake_for_a_while()

    def _missed_since(self, after: str | None) -> list[Frame] | None:
        """What a subscriber that was here before lacks; none if only a snapshot can help."""
        life, _, number = (after or "").partition("-")
        if life != self.life or not number.isdigit():
            return None
        missed = self._number - int(number)
        if not 0 <= missed <= len(self._frames):
            return None
        return list(self._frames)[len(self._frames) - missed :]

    def _snapshot_frame(self) -> Frame:
        return Frame(self._number, "snapshot", msgspec.json.encode(self.snapshot()))


class _Subscriber:
    """One page's queue of frames."""

    def __init__(
        self, group: Group | None, missed: list[Frame] | None, snapshot: Callable[[], Frame]
    ) -> None:
        self.group = group
        self._snapshot = snapshot
        self._frames: deque[Frame] = deque([snapshot()] if missed is None else missed)
        self._behind = False
        self._ended = False
        self._something = asyncio.Event()

    def put(self, frame: Frame) -> None:
        if len(self._frames) >= QUEUE_FRAMES_MAX:
            # What it would read next is old already: when it is back it gets everything as it is then.
            self._behind = True
            self._frames.clear()
        if not self._behind:
            self._frames.append(frame)
        self._something.set()

    def end(self) -> None:
        self._ended = True
        self._something.set()

    async def next(self, timeout_s: float) -> list[Frame] | None:
        """What is there to say; nothing if nothing happened in this time, None if there will be no more."""
        if not self._frames and not self._behind and not self._ended:
            self._something.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._something.wait()
        if self._ended:
            return None
        if self._behind:
            self._behind = False
            return [self._snapshot()]
        frames = list(self._frames)
        self._frames.clear()
        return frames


def _refused(core: Mapping[str, Any]) -> tuple[str, ...]:
    names = sorted({*core.get("groups", {}), *core.get("rows", {})})
    return tuple([name for name in names if read_group(name) is None][:REFUSED_SHOWN_MAX])


def _new_life() -> str:
    return secrets.token_hex(4)


def _sighting(
    here: Mapping[Group, Counter[Domain]], there: Mapping[Group, Counter[Domain]], host: Domain
) -> tuple[int, int | None]:
    if not there:
        return sum(counts[host] for counts in here.values()), None
    both = here.keys() & there.keys()
    return sum(here[group][host] for group in both), sum(there[group][host] for group in both)


def _program_shown(program: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: program[key] for key in ("program", "endpoints", "suspected", "behind", "missed")}


def _text(meta: bytes) -> str:
    """An attachment as people may read it: its text if it is one, its bytes if not."""
    with contextlib.suppress(UnicodeDecodeError):
        text = meta.decode()
        if text.isprintable():
            return text[:200]
    return meta[:100].hex(" ")


def _differences(before: LabState, after: LabState) -> Iterable[tuple[str, tuple[str, ...]]]:
    """What was done in the lab, in words."""
    for cut in after.cuts:
        if cut not in before.cuts:
            yield f"lab: cut {cut}", tuple(str(end) for end in (cut.here, cut.there) if end)
    for cut in before.cuts:
        if cut not in after.cuts:
            yield f"lab: healed {cut}", tuple(str(end) for end in (cut.here, cut.there) if end)
    for verb, undone, old, new in (
        ("crashed", "restarted", before.crashed, after.crashed),
        ("paused", "resumed", before.paused, after.paused),
    ):
        yield from ((f"lab: {verb} {server}", (server,)) for server in new if server not in old)
        yield from ((f"lab: {undone} {server}", (server,)) for server in old if server not in new)
