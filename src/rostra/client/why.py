"""Why is it gone? The story of a removal, from what the nodes on the way remember.

Whatever removed an endpoint from our sight happened on the unique path between its host and us: at its own
agent, or at a link of that path that broke. So all who can know are asked, through the world, and their
memories (`protocols/resolve/trail.py`) are put in order.

    us ── our cluster ── ... ── the accuser ──╳── the accused ── ... ── its agent
                                evidence: what was missed, against which bound
                                                  its own health, if it can be reached

A part that cannot be reached is said to be out of sight; what nobody remembers is not made up, and a name
that nobody knows has no story, whatever else is remembered.

Nodes say how long ago things were, so their clocks need not agree; but an answer that took longer makes all
that its sender remembers look younger. Steps are therefore put below what caused them (`_in_order`), and only
then by time.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from rostra.errors import RostraError
from rostra.names import (
    Domain,
    Endpoint,
    concerns,
    host_of,
    incarnation_of,
    inside,
    parent,
    parse_subject,
    route,
)
from rostra.protocols.detect.config import DetectConfig

BEFORE_S: Final = 15.0
AFTER_S: Final = 60.0
"""What happened this long before and after a removal may belong to it."""

SAME_S: Final = 1.0
"""Two memories of one event lie no farther apart than this: it takes a detector longer to find the next."""

ON_TIME_S: Final = 0.05
"""A loop that is late by less than this is not worth a word."""

Verdict = Literal["there", "left", "crashed", "stalled", "lost", "refused", "unknown"]

Recall = Callable[[Domain], Awaitable[Mapping[str, Any]]]
"""Ask a server what it remembers about the subject; a `RostraError` says why it cannot be asked. Whoever was
asked past the world's own links says so in the document: ``"directly": true``."""


class Step(Struct, frozen=True):
    """One thing that one node remembers."""

    at: float  # seconds since 1970, on the asker's clock; never before what caused it
    node: Domain
    what: str
    text: str


class Setting(Struct, frozen=True):
    """What would have changed the outcome."""

    name: str  # as in the world file
    value: float
    text: str


class Explanation(Struct, frozen=True):
    about: str
    seen_from: Domain
    verdict: Verdict
    summary: str
    besides: str = ""  # what else belongs to it: it was out of sight then, or had left before
    at: float | None = None  # when it was removed
    accuser: Domain | None = None
    accused: Domain | None = None
    evidence: Mapping[str, Any] | None = None
    steps: tuple[Step, ...] = ()
    health: Mapping[Domain, str] = {}
    settings: tuple[Setting, ...] = ()
    now: str = ""
    unseen: Mapping[Domain, str] = {}  # whose memory could not be asked, and why
    way: tuple[Domain, ...] = ()  # the unique path from here, over which everybody was asked
    directly: tuple[Domain, ...] = ()  # who was asked past the world's own links, which do not reach them
    earlier: tuple[str, ...] = ()  # others of that name that are remembered, the newest first
    closest: tuple[str, ...] = ()  # of a name that nobody knows: what may have been meant


async def explain(
    about: str, start: Domain, recall: Recall, *, from_host: bool = True, known: Collection[Domain] = ()
) -> Explanation:
    """Ask everybody on the way, and tell the story. `start` is whom we are connected to; `known` are domains
    and hosts that there are, whether or not anybody remembers them."""
    subject = parse_subject(about)
    way = route(start, host_of(Endpoint(subject)), from_host=from_host)
    memories: dict[Domain, Memory] = {}
    unseen: dict[Domain, str] = {}

    async def ask(node: Domain) -> None:
        try:
            memories[node] = Memory(await recall(node), time.time())
        except RostraError as error:
            unseen[node] = error.what.removeprefix(f"{node} is out of sight: ")

    async with asyncio.TaskGroup() as asking:
        for node in way:
            asking.create_task(ask(node))
    ordered = {node: memories[node] for node in way if node in memories}
    story = tell(subject, way, ordered, {node: unseen[node] for node in way if node in unseen}, known)
    directly = tuple(node for node, memory in ordered.items() if memory.document.get("directly"))
    return replace(story, directly=directly)


class Memory:
    """What one node said, its ages turned into times of our own clock."""

    def __init__(self, document: Mapping[str, Any], heard_at: float) -> None:
        self.document = document
        self.heard_at = heard_at
        self.detect = DetectConfig(**document["detect"])

    @property
    def began_at(self) -> float:
        return self.heard_at - float(self.document["age_s"])

    def notes(self, kind: str) -> list[tuple[float, Mapping[str, Any]]]:
        return [(self.heard_at - note["ago_s"], note) for note in self.document.get(kind, ())]

    @property
    def endpoints(self) -> Iterator[str]:
        """Whom it has, and whom it remembers, of those that were asked about."""
        for kind in ("present", "departures", "seen"):
            yield from (str(note["endpoint"]) for note in self.document.get(kind, ()))

    @property
    def paths(self) -> Iterator[Domain]:
        """Domains and hosts that it has heard of."""
        yield from map(Domain, self.document["links"])
        yield from (host_of(Endpoint(endpoint)) for endpoint in self.endpoints)
        for note in self.document["failures"]:
            because = note["because"]
            yield from map(Domain, (note["domain"], because["accuser"], because["accused"]))

    def link(self, peer: Domain) -> list[tuple[float, Mapping[str, Any]]]:
        link = self.document["links"].get(peer)
        return [(self.heard_at - note["ago_s"], note) for note in link["notes"]] if link else []

    def is_up(self, peer: Domain) -> bool:
        return bool(self.document["links"].get(peer, {}).get("up"))


class _Break(Struct, frozen=True):
    """A link of the way that was given up."""

    at: float
    accuser: Domain
    accused: Domain
    what: str
    domain: Domain  # what was lost with it, or what remained
    keep: bool

    @property
    def between(self) -> tuple[Domain, Domain]:
        return self.accuser, self.accused


class _Trace(Struct, frozen=True):
    """A step, and what tells which other step caused it."""

    step: Step
    topic: str  # steps about the same thing have the same
    heard_from: Domain | None = None  # the cause happened there


def tell(
    about: str,
    way: Sequence[Domain],
    memories: Mapping[Domain, Memory],
    unseen: Mapping[Domain, str],
    known: Collection[Domain] = (),
) -> Explanation:
    """The story, from these memories. Pure: the same memories give the same story."""
    return _Story(about, tuple(way), memories, unseen, known).told()


class _Story:
    def __init__(
        self,
        about: str,
        way: tuple[Domain, ...],
        memories: Mapping[Domain, Memory],
        unseen: Mapping[Domain, str],
        known: Collection[Domain],
    ) -> None:
        self.way = way
        self.memories = memories
        self.unseen = unseen
        self.known = known
        self.host = way[-1]
        self.home = memories.get(self.host)
        self.about, self.earlier = self._newest(about)
        self.heard_at = max((memory.heard_at for memory in memories.values()), default=0.0)

    def told(self) -> Explanation:
        return replace(self._told(), earlier=self.earlier)

    def _told(self) -> Explanation:
        is_endpoint = "/" in self.about
        breaks = self._breaks()
        broken = breaks[-1] if breaks else None
        departure = self._latest_departure() if is_endpoint else None
        is_there = self._present() is not None if is_endpoint else self.home is not None
        if departure is not None and not is_there:
            at, _, note = departure
            # Who has crashed or closed its endpoint never comes back under that number. Who is only known to
            # have left some groups may have been lost since.
            if note["gone"] or note["cause"] == "crash" or broken is None or at >= broken.at:
                return self._departed(*departure, self._behind(breaks, at))
        if not self._is_known():
            refusal = self._latest_refusal()
            return self._unheard_of(broken) if refusal is None else self._refused(*refusal)
        if broken is not None and self.home is None and self._back_at(broken) is not None:
            return self._unknown()  # that break has healed, so something else is wrong now
        if broken is not None and not (is_there and self._is_linked()):
            story = self._lost(broken)
            return story if departure is None or is_there else self._had_left(story, broken, departure)
        return self._there(broken) if is_there else self._unknown()

    # What is remembered

    def _newest(self, about: str) -> tuple[str, tuple[str, ...]]:
        """An endpoint that was named without its number is the newest one of that name; and the others."""
        if "/" not in about or "#" in about:
            return about, ()
        known = {
            endpoint
            for memory in self.memories.values()
            for endpoint in memory.endpoints
            if concerns(about, endpoint)
        }
        newest, *earlier = sorted(known, key=lambda each: incarnation_of(Endpoint(each)), reverse=True) or [
            about
        ]
        return newest, tuple(earlier)

    def _is_known(self) -> bool:
        """Has anybody ever heard of it?"""
        if "/" in self.about:
            return any(self.about in memory.endpoints for memory in self.memories.values())
        return self._is_path(Domain(self.about))

    def _is_path(self, path: Domain) -> bool:
        heard_of = (each for memory in self.memories.values() for each in memory.paths)
        return path in self.memories or any(inside(path, each) for each in (*self.known, *heard_of))

    def _present(self) -> Mapping[str, Any] | None:
        if self.home is None:
            return None
        return next((each for each in self.home.document["present"] if each["endpoint"] == self.about), None)

    def _latest_departure(self) -> tuple[float, Domain, Mapping[str, Any]] | None:
        """Its own agent knows best; who passed it on knows that it was told."""
        found = [
            (node == self.host, at, node, note)
            for node, memory in self.memories.items()
            for at, note in memory.notes("departures")
            if note["endpoint"] == self.about and (note["gone"] or node != self.host)
        ]
        if not found:
            return None
        _, at, node, note = max(found, key=lambda each: each[:2])
        return at, node, note

    def _latest_refusal(self) -> tuple[float, Mapping[str, Any]] | None:
        found = [
            (at, note)
            for memory in self.memories.values()
            for at, note in memory.notes("refusals")
            if self._is_own(note)
        ]
        return max(found, key=lambda each: each[0]) if found else None

    def _is_own(self, refusal: Mapping[str, Any]) -> bool:
        """Was it refused to this very endpoint, or this name to somebody? What others on the host were
        refused is no part of its story: most of it is what somebody mistyped."""
        return "/" in self.about and refusal["endpoint"] in (self.about, self.about.partition("#")[0])

    def _breaks(self) -> list[_Break]:
        """Failure notices that took it from our sight, and links on the way that were given up: where nobody
        followed a group of that side, nobody was told. Each break once, the latest last."""
        found = [
            _Break(
                at,
                Domain(note["because"]["accuser"]),
                Domain(note["because"]["accused"]),
                note["because"]["what"],
                Domain(note["domain"]),
                note["keep"],
            )
            for node, memory in self.memories.items()
            for at, note in memory.notes("failures")
            if note["because"]["accuser"] in self.way or node == self.way[0]
        ]
        found += [
            _Break(at, near, far, note["because"], far, False)
            for near, far in zip(self.way, self.way[1:], strict=False)
            if near in self.memories
            for at, note in self.memories[near].link(far)
            if note["what"] == "down"
        ]
        breaks: dict[tuple[Domain, Domain], list[_Break]] = {}
        for each in sorted(found, key=lambda each: each.at):
            same = breaks.setdefault(each.between, [])
            # The accuser knew first; those who merely heard of it remember the same break a little later.
            if not same or each.at - same[-1].at >= SAME_S:
                same.append(each)
        return sorted((each for same in breaks.values() for each in same), key=lambda each: each.at)

    def _behind(self, breaks: Sequence[_Break], at: float) -> _Break | None:
        """The break that kept us from hearing of what happened then."""
        for broken in reversed(breaks):
            evidence, _, back_at = self._evidence(broken)
            silence_s = float(evidence["silence_s"]) if evidence is not None else 0.0
            if broken.at - silence_s <= at and (back_at is None or at <= back_at):
                return broken
        return None

    def _is_linked(self) -> bool:
        """Is every link on the way up, as those say that we could ask?"""
        return not self.unseen and all(
            self.memories[near].is_up(far) for near, far in zip(self.way, self.way[1:], strict=False)
        )

    # The stories

    def _departed(
        self, at: float, node: Domain, note: Mapping[str, Any], behind: _Break | None
    ) -> Explanation:
        settings: tuple[Setting, ...] = ()
        evidence = note["evidence"]
        verdict: Verdict
        if note["cause"] == "leave":
            how = "its program closed it" if note["gone"] else "its agent said so"
            verdict, summary = "left", f"{self.about} left: {how}"
        elif evidence is not None:
            verdict = "stalled"
            summary = (
                f"{self.about} was removed: its program left a ping unanswered for "
                f"{seconds(evidence['unanswered_s'])}, and {seconds(evidence['down_after_s'])} is allowed"
            )
            settings = (
                Setting(
                    "detect.program_down_after_s",
                    evidence["down_after_s"],
                    f"above the time that the program stood still, it would have been kept; "
                    f"now {seconds(evidence['down_after_s'])}",
                ),
            )
        elif node == self.host:
            verdict = "crashed"
            summary = f"{self.about} is gone: its program ended without saying goodbye"
        else:
            verdict, summary = "crashed", f"{self.about} is gone: its agent said that its program crashed"
        groups = note["groups"]
        summary += f" ({_listed(groups, note['groups_count'])})" if groups else ""
        story = Explanation(
            self.about,
            self.way[0],
            verdict,
            summary,
            at=at,
            evidence=evidence,
            steps=self._steps(at),
            health=self._health_of_home(at),
            settings=settings,
            now=self._now(),
            unseen=self.unseen,
            way=self.way,
        )
        return story if behind is None else self._while_out_of_sight(story, behind, at)

    def _while_out_of_sight(self, story: Explanation, broken: _Break, at: float) -> Explanation:
        """What happened behind a break was not seen from here: both are told."""
        evidence, silence_s, back_at = self._evidence(broken)
        moments = [broken.at, at, *([back_at] if back_at is not None else [])]
        return replace(
            story,
            besides=f"it was out of sight then: {self._grounds(broken, evidence)}",
            accuser=broken.accuser,
            accused=broken.accused,
            evidence=story.evidence or evidence,
            steps=self._steps(*moments, broken=broken),
            health={**self._health(broken, evidence), **story.health},
            settings=(*story.settings, *self._settings(broken, evidence, silence_s)),
        )

    def _lost(self, broken: _Break) -> Explanation:
        evidence, silence_s, _ = self._evidence(broken)
        return Explanation(
            self.about,
            self.way[0],
            "lost",
            f"{self.about} went out of sight: {self._grounds(broken, evidence)}",
            at=broken.at,
            accuser=broken.accuser,
            accused=broken.accused,
            evidence=evidence,
            steps=self._steps(broken.at, broken=broken),
            health=self._health(broken, evidence),
            settings=self._settings(broken, evidence, silence_s),
            now=self._now(),
            unseen=self.unseen,
            way=self.way,
        )

    def _had_left(
        self, story: Explanation, broken: _Break, departure: tuple[float, Domain, Mapping[str, Any]]
    ) -> Explanation:
        """It left some groups first; whether it was in others, those who can be asked do not know."""
        at, _, note = departure
        before = f"{seconds(broken.at - at)} before that it had left {_listed(note['groups'])} by itself"
        return replace(story, besides=before, steps=self._steps(at, broken.at, broken=broken))

    def _last_words(self) -> tuple[float, str] | None:
        """What happened to it lately, although it is there: it left a group, or was refused something."""
        said: list[tuple[float, str]] = []
        for at, note in self.home.notes("departures") if self.home is not None else ():
            if note["endpoint"] == self.about:
                said.append((at, f"it left {_listed(note['groups'], note['groups_count'])} by itself"))
        refusal = self._latest_refusal()
        if refusal is not None:
            said.append((refusal[0], _refused_words(refusal[1])))
        return max(said, default=None)

    def _there(self, broken: _Break | None) -> Explanation:
        if broken is None:
            last = self._last_words()
            return Explanation(
                self.about,
                self.way[0],
                "there",
                f"{self.about} is there, and nothing removed it" + (f"; {last[1]}" if last else ""),
                at=last[0] if last else None,
                steps=self._steps(last[0]) if last else (),
                now=self._now(),
                unseen=self.unseen,
                way=self.way,
            )
        story = self._lost(broken)
        back = self._back_at(broken)
        for_s = f" for {seconds(back - broken.at)}" if back is not None else ""
        return Explanation(
            self.about,
            self.way[0],
            "there",
            f"{self.about} is there again; it was out of sight{for_s}: "
            f"{self._grounds(broken, story.evidence)}",
            at=broken.at,
            accuser=broken.accuser,
            accused=broken.accused,
            evidence=story.evidence,
            steps=story.steps,
            health=story.health,
            settings=story.settings,
            now=story.now,
            unseen=self.unseen,
            way=self.way,
        )

    def _refused(self, at: float, note: Mapping[str, Any]) -> Explanation:
        step = Step(at, self.host, "refused", f"refused {note['asked']}: {note['what']} ({note['code']})")
        return Explanation(
            self.about,
            self.way[0],
            "refused",
            f"{self.about} was refused: {note['what']}",
            at=at,
            steps=(step,),
            now="nothing has changed since, as far as its agent remembers",
            unseen=self.unseen,
            way=self.way,
        )

    def _unheard_of(self, broken: _Break | None) -> Explanation:
        """Nobody knows that name. A break in memory is not its story, but hides whoever might know."""
        story = Explanation(
            self.about, self.way[0], "unknown", "", unseen=self.unseen, way=self.way, now=self._now()
        )
        is_hidden = self.home is None and (self._is_path(self.host) or parent(self.host) not in self.memories)
        if is_hidden and broken is not None and self._back_at(broken) is None:
            evidence, silence_s, _ = self._evidence(broken)
            hidden = f"everything outside {broken.domain}" if broken.keep else f"all of {broken.domain}"
            return replace(
                story,
                summary=f"nobody in sight knows {self.about}; "
                f"but {hidden} is out of sight: {self._grounds(broken, evidence)}",
                accuser=broken.accuser,
                accused=broken.accused,
                evidence=evidence,
                steps=self._steps(broken.at, broken=broken),
                health=self._health(broken, evidence),
                settings=self._settings(broken, evidence, silence_s),
            )
        if self.home is not None:
            age = seconds(self.home.document["age_s"])
            why = f"the agent of {self.host} remembers no such name, and has been running for {age}"
        elif self._is_path(self.host):
            why = f"{self.host} could not be asked, and nobody else remembers such a name"
        else:
            why = f"nobody on the way has heard of {self.host}"
        return replace(story, summary=f"nobody knows {self.about}: {why}", now="")

    def _unknown(self) -> Explanation:
        """It was there, and nobody remembers how it went."""
        if self.home is None:
            summary = (
                f"nothing is known of {self.about}: {self.host} is out of sight, and no link was given up"
            )
        else:
            age = seconds(self.home.document["age_s"])
            summary = (
                f"nobody on the way to {self.host} remembers how {self.about} went; "
                f"its agent has been running for {age}, and memories are bounded"
            )
        return Explanation(
            self.about, self.way[0], "unknown", summary, unseen=self.unseen, way=self.way, now=self._now()
        )

    # Grounds

    def _evidence(self, broken: _Break) -> tuple[Mapping[str, Any] | None, float | None, float | None]:
        """What the accuser had, how long the silence really was, and when it ended."""
        accuser = self.memories.get(broken.accuser)
        if accuser is None:
            return None, None, None
        found = [
            (at, note)
            for at, note in accuser.link(broken.accused)
            if note["what"] == "down" and abs(at - broken.at) < SAME_S
        ]
        if not found:
            return None, None, None
        at, note = found[-1]
        evidence: Mapping[str, Any] = note["evidence"]
        back_at = self._back_at(broken)
        last_heard = at - float(evidence["silence_s"])
        return evidence, (None if back_at is None else back_at - last_heard), back_at

    def _back_at(self, broken: _Break) -> float | None:
        """When the accuser was linked with the accused again; of one that cannot be asked, when others heard
        that what was lost is there again."""
        accuser = self.memories.get(broken.accuser)
        if accuser is None:
            returns = [at for memory in self.memories.values() for at, _ in memory.notes("returns")]
            return min((at for at in returns if at > broken.at), default=None)
        ups = [
            at for at, note in accuser.link(broken.accused) if note["what"] == "up" and at > broken.at - 0.001
        ]
        return min(ups, default=None)

    def _grounds(self, broken: _Break, evidence: Mapping[str, Any] | None) -> str:
        accuser, accused = broken.accuser, broken.accused
        match broken.what:
            case "silent" if evidence is not None:
                return (
                    f"{accuser} heard nothing from {accused} for {seconds(evidence['silence_s'])}, "
                    f"and {seconds(evidence['down_after_s'])} is allowed"
                )
            case "silent":
                return f"{accuser} heard nothing from {accused} for too long"
            case "ended by peer":
                other = self._other_side(broken)
                return other or f"{accused} had ended its link with {accuser}"
            case "closed":
                return f"{accused} said goodbye to {accuser}: it was shut down"
            case "restarted":
                return f"{accused} came back to {accuser} as a new incarnation: its process had died"
            case "overflow":
                return f"too much was waiting to be sent from {accuser} to {accused}"
            case other:
                return f"{accuser} gave up {accused}: {other}"

    def _other_side(self, broken: _Break) -> str:
        """Who was left by its peer asks that peer why."""
        accused = self.memories.get(broken.accused)
        for at, note in reversed(accused.link(broken.accuser) if accused is not None else []):
            if note["what"] == "down" and note["because"] == "silent" and abs(at - broken.at) < AFTER_S:
                evidence = note["evidence"]
                return (
                    f"{broken.accused} heard nothing from {broken.accuser} for "
                    f"{seconds(evidence['silence_s'])}, and {seconds(evidence['down_after_s'])} is allowed"
                )
        return ""

    def _health(self, broken: _Break, evidence: Mapping[str, Any] | None) -> dict[Domain, str]:
        health: dict[Domain, str] = {}
        if evidence is not None:
            late_s = float(evidence["own_lateness_s"])
            health[broken.accuser] = (
                "was on time"
                if late_s < ON_TIME_S
                else f"was late itself, by {seconds(late_s)}, which it counted in the other's favour"
            )
        silence_s = float(evidence["silence_s"]) if evidence is not None else 0.0
        health[broken.accused] = self._own_health(broken.accused, broken.at, silence_s + 1.0)
        return health

    def _health_of_home(self, at: float) -> dict[Domain, str]:
        return {self.host: self._own_health(self.host, at, BEFORE_S)} if self.home is not None else {}

    def _own_health(self, node: Domain, at: float, before_s: float) -> str:
        memory = self.memories.get(node)
        if memory is None:
            return f"not known: {self.unseen.get(node, 'it was not asked')}"
        if memory.began_at > at - before_s and node != self.way[0] and memory.began_at > at - ON_TIME_S:
            return f"began a new life {seconds(memory.document['age_s'])} ago; the old one is forgotten"
        late = [
            note["late_s"] for when, note in memory.notes("late") if at - before_s <= when <= at + AFTER_S
        ]
        return f"stood still for {seconds(max(late))}" if late else "was on time"

    def _settings(
        self, broken: _Break, evidence: Mapping[str, Any] | None, silence_s: float | None
    ) -> tuple[Setting, ...]:
        """What was measured, against which limit; `silence_s`: how long the silence was, if it has ended."""
        accuser = self.memories.get(broken.accuser)
        if broken.what == "overflow" and accuser is not None:
            bound = accuser.document["queue_messages_max"]
            text = f"{bound} messages may wait for a neighbour; it reads more slowly than that"
            return (Setting("links.queue_messages_max", bound, text),)
        if broken.what != "silent" or evidence is None:
            return ()
        bound = float(evidence["down_after_s"])
        if silence_s is None:
            so_far_s = self.heard_at - broken.at + float(evidence["silence_s"])
            text = (
                f"the limit is {seconds(bound)}, and {broken.accused} has been silent for "
                f"{seconds(so_far_s)} until now; a higher limit would have removed it later, and not kept it"
            )
            return (Setting("detect.down_after_s", bound, text),)
        profiles = ""
        if bound < silence_s < DetectConfig.wan().down_after_s:
            profiles = f"; the wan profile has {seconds(DetectConfig.wan().down_after_s)}"
        return (
            Setting(
                "detect.down_after_s",
                bound,
                f"the limit was {seconds(bound)}, and {broken.accused} was silent for {seconds(silence_s)}; "
                f"with a limit above {seconds(silence_s)} nobody would have been removed{profiles}",
            ),
        )

    def _now(self) -> str:
        present = self._present()
        if present is not None:
            groups = present["groups"]
            where = f"in {_listed(groups)}" if groups else "in no group that reaches here"
            return f"it is open, {where}" if self._is_linked() else f"it is open there, {where}"
        if self.home is None:
            return f"{self.host} is out of sight: {self.unseen.get(self.host, 'it was not asked')}"
        if "/" not in self.about:
            return f"it answers, and has been running for {seconds(self.home.document['age_s'])}"
        return f"its agent does not have it, and has been running for {seconds(self.home.document['age_s'])}"

    # The steps

    def _steps(self, *moments: float, broken: _Break | None = None) -> tuple[Step, ...]:
        """What happened around these moments: to the endpoint itself, and of this break."""
        traces = [
            trace
            for node in reversed(self.way)  # who is nearer to the subject knew first
            if node in self.memories
            for trace in self._traces_of(node, self.memories[node], broken)
            if any(at - BEFORE_S <= trace.step.at <= at + AFTER_S for at in moments)
        ]
        return _in_order(traces)

    def _traces_of(self, node: Domain, memory: Memory, broken: _Break | None) -> Iterator[_Trace]:
        if broken is not None:
            yield from self._traces_of_break(node, memory, broken)
        for at, note in memory.notes("departures"):
            if note["endpoint"] == self.about:
                verb = "left" if note["cause"] == "leave" else "is gone"
                why = f" ({note['why']})" if note["why"] else ""
                step = Step(at, node, "told", f"{_passed(note)}: it {verb}{why}")
                yield _Trace(step, f"{note['cause']} of {self.about}", _heard_from(note))
        for at, note in memory.notes("late"):
            step = Step(at, node, "late", f"found that it had stood still for {seconds(note['late_s'])}")
            yield _Trace(step, "late")
        for at, note in memory.notes("refusals"):
            if self._is_own(note):
                yield _Trace(Step(at, node, "refused", f"refused {note['asked']}: {note['what']}"), "refused")

    def _traces_of_break(self, node: Domain, memory: Memory, broken: _Break) -> Iterator[_Trace]:
        if node in broken.between:
            peer = broken.accused if node == broken.accuser else broken.accuser
            notes = memory.link(peer)
            began = max((at for at, note in notes if note["what"] == "up" and at < broken.at), default=0.0)
            for at, note in notes:
                if at > began:
                    left = peer if note["because"] == "ended by peer" else None
                    yield _Trace(_link_step(at, node, peer, note), note["what"], left)
        for at, note in memory.notes("failures"):
            because = note["because"]
            if (because["accuser"], because["accused"]) == broken.between:
                loss = f"only {note['domain']} remains" if note["keep"] else f"{note['domain']} is lost"
                yield _Trace(Step(at, node, "told", f"{_passed(note)}: {loss}"), "loss", _heard_from(note))
        for at, note in memory.notes("returns"):
            if at > broken.at:
                text = f"heard from {note['heard_from']} that all {note['part']} is back"
                yield _Trace(Step(at, node, "up", text), "up", Domain(note["heard_from"]))


def _in_order(traces: Sequence[_Trace]) -> tuple[Step, ...]:
    """By time, and everything below what caused it.

    What one node remembers happened in its own order. What it heard from another was caused by what that one
    remembers of the same topic, nearest in time. An effect that seems older than its cause is as old as it.
    """
    by_node: dict[Domain, list[int]] = {}
    for number in sorted(range(len(traces)), key=lambda number: traces[number].step.at):
        by_node.setdefault(traces[number].step.node, []).append(number)
    causes: dict[int, list[int]] = {number: [] for number in range(len(traces))}
    for own in by_node.values():
        for earlier, later in itertools.pairwise(own):
            causes[later].append(earlier)
    for number, trace in enumerate(traces):
        there = [
            other
            for other in (by_node.get(trace.heard_from, ()) if trace.heard_from is not None else ())
            if traces[other].topic == trace.topic
        ]
        if there:
            at = trace.step.at
            causes[number].append(min(there, key=lambda other: abs(traces[other].step.at - at)))

    # When each can have happened at the earliest, and how many steps must stand above it.
    places = [(trace.step.at, 0) for trace in traces]
    by_time = [number for own in by_node.values() for number in own]
    for _ in traces:  # no chain is longer; and if two steps seem to cause each other, this ends all the same
        before = list(places)
        for number in by_time:
            for at, above in (places[cause] for cause in causes[number]):
                places[number] = (max(places[number][0], at), max(places[number][1], above + 1))
        if places == before:
            break
    ordered = sorted(range(len(traces)), key=lambda number: (*places[number], number))
    return tuple(replace(traces[number].step, at=places[number][0]) for number in ordered)


def _heard_from(note: Mapping[str, Any]) -> Domain | None:
    return Domain(note["heard_from"]) if note["heard_from"] else None


def _refused_words(refusal: Mapping[str, Any]) -> str:
    if refusal["asked"] == "open":
        return f"another program asked for that name, and was refused: {refusal['what']}"
    return f"it was refused: {refusal['what']}"


def _link_step(at: float, node: Domain, peer: Domain, note: Mapping[str, Any]) -> Step:
    evidence = note.get("evidence")
    match note["what"], note["because"]:
        case "up", _:
            text = f"linked with {peer}"
        case "suspected", _ if evidence is not None:
            text = (
                f"suspected {peer}: silent {seconds(evidence['silence_s'])}, usually heard every "
                f"{seconds(evidence['expected_s'])} (suspicion phi {evidence['phi']:.1f}, limit "
                f"{evidence['phi_threshold']:g})"
            )
        case "trusted", _:
            text = f"heard {peer} again in time"
        case "down", "silent" if evidence is not None:
            text = (
                f"gave up {peer}: silent {seconds(evidence['silence_s'])}, limit "
                f"{seconds(evidence['down_after_s'])}"
                + ("" if evidence["channel_open"] else "; the connection was closed")
            )
        case what, because:
            text = f"gave up {peer}: {because}" if what == "down" else f"{what} {peer}"
    return Step(at, node, note["what"], text)


def _passed(note: Mapping[str, Any]) -> str:
    told = [
        *([_listed(note["passed_to"], note["passed_to_count"])] if note["passed_to"] else []),
        *([f"{note['told']} endpoint{'s' * (note['told'] != 1)} here"] if note["told"] else []),
    ]
    words = f"told {' and '.join(told)}" if told else "had nobody to tell"
    return f"heard from {note['heard_from']}, {words}" if note["heard_from"] else words


def _listed(names: Sequence[str], count: int | None = None) -> str:
    more = (count or len(names)) - len(names[:4])
    return ", ".join(names[:4]) + (f" and {more} more" if more > 0 else "")


def seconds(value: float) -> str:
    """A duration for people."""
    if value < 0.095:
        return f"{value:.2f} s"
    if value < 9.95:
        return f"{value:.1f} s"
    if value < 119.5:
        return f"{value:.0f} s"
    if value < 7_170:
        return f"{value / 60:.0f} min"
    return f"{value / 3_600:.0f} h" if value < 172_800 else f"{value / 86_400:.0f} days"


__all__ = ["Explanation", "Memory", "Recall", "Setting", "Step", "Verdict", "explain", "seconds", "tell"]
