"""Events, each once, however many places reported it.

A join that eight hosts report is one line, with eight witnesses. A cut is one line for each side: all places
that lost a domain report the same loss, in whichever groups they lost members. An entry is **open** for a
while, and a place that reports the same event in that time is added to it; its text follows its witnesses,
from ``eu.paris.h1 goes on without us`` to ``eu goes on without us``.

Places have clocks of their own, and evidence may arrive after what it explains. So that a cause is never
shown as younger than its effect, a suspicion is put before the link's loss, that before the loss of a domain,
and a link before the merge over it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from msgspec import Struct, field

from rostra.client import Cause, Change, Joined, Left, Only, Without
from rostra.groups.members import Because
from rostra.names import ROOT, Domain, Endpoint, Group, enclosing, host_of, inside
from rostra.protocols.agreed.groups import MET

ENTRIES_MAX: Final = 1_000
"""Entries remembered. One is a few hundred bytes, and each new page is sent all of them."""

OPEN_S: Final = 15.0
"""How long after its last witness an entry takes more. Longer than news of one thing takes to spread in a
world that heals; two cuts of one domain within it are told apart by a place that reports both."""

CLOCKS_APART_S: Final = 5.0
"""Clocks of two places are never that far apart: what seems to be was something else."""

JUST_BEFORE_S: Final = 0.001
"""How much older than its effect a cause is shown, if clocks say that it was younger."""

NAMES_MAX: Final = 8
"""Members that an entry names; it counts all of them."""

Topic = Literal["members", "suspicions", "cuts", "merges", "servers", "lab"]

TOPICS: Final[Mapping[str, Topic]] = {
    "joined": "members",
    "left": "members",
    "crashed": "members",
    "suspected": "suspicions",
    "trusted": "suspicions",
    "stalled": "suspicions",
    "lost": "cuts",
    "alone": "cuts",
    "parted": "cuts",
    "removed": "cuts",
    "blocked": "cuts",
    "merged": "merges",
    "united": "merges",
    "lives": "merges",
    "linked": "merges",
    "started": "servers",
    "stopped": "servers",
    "silent": "servers",
    "answers": "servers",
    "noted": "servers",
    "lab": "lab",
}


class TimelineEntry(Struct):
    """One thing that happened. It is sent again, under its number, when more is known about it."""

    number: int
    kind: str
    topic: Topic
    at: float  # when the first place knew
    last: float  # when the latest one did
    text: str
    because: str = ""
    about: tuple[str, ...] = ()  # whom and what it is about, widest first
    groups: dict[str, int] = field(default_factory=dict)  # and how many members of each were concerned
    members: tuple[str, ...] = ()  # the first few
    seen_by: dict[Domain, float] = field(default_factory=dict)
    command: str = ""  # what to ask to know more


class _Open(Struct):
    """An entry that may still grow."""

    entry: TimelineEntry
    told: set[tuple[Domain, str]]  # which place has reported it in which group
    members: dict[str, set[str]]  # by group


Key = tuple[str, ...]


class Timeline:
    def __init__(self) -> None:
        self._entries: deque[TimelineEntry] = deque(maxlen=ENTRIES_MAX)
        self._open: dict[Key, _Open] = {}
        self._numbered = 0
        self._grounds: dict[tuple[Domain, Domain], str] = {}  # why each server last gave up each of its peers
        self._suspicions: dict[tuple[Domain, Domain], TimelineEntry] = {}  # the latest, of whom by whom
        self._was_whole = True  # nothing was ever lost: every member that appears is new

    def __iter__(self) -> Iterator[TimelineEntry]:
        """The oldest first."""
        return iter(self._entries)

    # What places saw of groups

    def changed(self, at: float, place: Domain, group: Group, change: Change) -> list[TimelineEntry]:
        match change:
            case Joined(members, Cause.MERGE):
                by_domain: dict[Domain, list[Endpoint]] = {}
                for member in members:
                    by_domain.setdefault(_other_side(place, member.endpoint), []).append(member.endpoint)
                return [
                    entry
                    for domain, endpoints in sorted(by_domain.items())
                    for entry in self._merge(at, place, group, domain, endpoints)
                ]
            case Joined(members):
                return [self._member("joined", at, place, group, member.endpoint) for member in members]
            case Left(endpoints, cause):
                # A merge showed that they had gone while we were apart: how is not known here.
                kind = "crashed" if cause is Cause.CRASH else "left"
                return [self._member(kind, at, place, group, endpoint) for endpoint in endpoints]
            case Without(domain, endpoints, because):
                return self._loss("lost", at, place, group, domain, endpoints, because)
            case Only(domain, endpoints, because):
                return self._loss("alone", at, place, group, domain, endpoints, because)
        return []

    def _merge(
        self, at: float, place: Domain, group: Group, domain: Domain, endpoints: Iterable[Endpoint]
    ) -> list[TimelineEntry]:
        merged = self._add(("merged", domain), at, place, str(group), endpoints, about=(domain,))
        links = [each.entry for key, each in self._open.items() if key[0] == "linked" and domain in key]
        return [merged, *(link for link in links if _put_before(link, merged))]

    def _member(self, kind: str, at: float, place: Domain, group: Group, endpoint: Endpoint) -> TimelineEntry:
        # A crash takes an endpoint out of all its groups at once; a join or a leave is of one group.
        key = (kind, endpoint) if kind == "crashed" else (kind, endpoint, str(group))
        because = {"crashed": "its process ended without saying goodbye"}.get(kind, "")
        command = "" if kind == "joined" else f"rostra why {endpoint}"
        return self._add(
            key, at, place, str(group), (endpoint,), about=(endpoint,), because=because, command=command
        )

    def _loss(
        self,
        kind: str,
        at: float,
        place: Domain,
        group: Group,
        domain: Domain,
        endpoints: Iterable[Endpoint],
        because: Because,
    ) -> list[TimelineEntry]:
        self._was_whole = False
        for key in [key for key in self._open if key[0] == "merged"]:
            self._close(key)  # what is seen again after this is another merge
        loss = self._add(
            (kind, domain, because.accuser, because.accused),
            at,
            place,
            str(group),
            endpoints,
            about=(domain, because.accuser, because.accused),
            because=self._accusation(because.accuser, because.accused, because.what),
            command=next((f"rostra why {endpoint}" for endpoint in endpoints), ""),
        )
        parted = self._open.get(("parted", because.accuser, because.accused))
        return [loss, *(self._blame(parted.entry, [loss]) if parted is not None else ())]

    # What nodes recorded

    def recorded(
        self, at: float, place: Domain, event: str, values: Mapping[str, Any]
    ) -> list[TimelineEntry]:
        """An event of a node's flight recorder; nothing if it is not worth a line here."""
        node = Domain(str(values.get("node", place)))
        peer = Domain(str(values.get("peer", "")))
        match event:
            case "link_suspected":
                key = ("suspected", node, peer)
                entry = self._add(key, at, place, about=(peer, node), because=_overdue(values), once=True)
                self._suspicions[node, peer] = entry
                return [entry]
            case "link_trusted":
                because = f"heard after {_seconds(values.get('after_s'))}"
                self._suspicions.pop((node, peer), None)
                return [
                    self._add(
                        ("trusted", node, peer), at, place, about=(peer, node), because=because, once=True
                    )
                ]
            case "link_removed":
                grounds = self._grounds[node, peer] = _grounds(values)
                parted = self._add(("parted", node, peer), at, place, about=(peer, node), because=grounds)
                explained = self._explain(node, peer)
                changed = [each for each in self._blame(parted, explained) if each is not parted]
                return [parted, *explained, *changed]
            case "link_down":
                # It follows its evidence, which gives the reason; alone only if that was forgotten.
                because = self._grounds.get((node, peer)) or str(values.get("because", ""))
                return [self._add(("parted", node, peer), at, place, about=(peer, node), because=because)]
            case "link_up":
                self._close(("parted", node, peer))
                self._grounds.pop((node, peer), None)
                self._suspicions.pop((node, peer), None)
                a, b = min(node, peer), max(node, peer)
                linked = self._add(("linked", a, b), at, place, about=(a, b))
                for domain in (a, b):
                    if (merged := self._open.get(("merged", domain))) is not None:
                        _put_before(linked, merged.entry)
                return [linked]
            case "view_agreed" | "members_blocked" | "members_live":
                return self._agreed(at, place, event, values)
            case "node_started":
                because = f"incarnation {values.get('incarnation')}"
                return [self._add(("started", node), at, place, about=(node,), because=because, once=True)]
            case "shutting_down":
                because = str(values.get("because", ""))
                return [self._add(("stopped", place), at, place, about=(place,), because=because, once=True)]
            case "program_suspected" | "program_trusted" | "program_removed" | "program_fell_behind":
                program = str(values.get("program", ""))
                return [
                    self._noted(
                        "stalled", at, place, f"program {program} on {node} {_PROGRAMS[event]}", values
                    )
                ]
            case (
                "failed"
                | "loop_late"
                | "refused"
                | "reload_failed"
                | "reloaded"
                | "shutdown_not_acknowledged"
            ):
                words = event.replace("_", " ")
                return [self._noted("noted", at, place, f"{place}: {words}", values)]
        return []

    def _agreed(self, at: float, place: Domain, event: str, values: Mapping[str, Any]) -> list[TimelineEntry]:
        """Events of agreed groups: each side of a cut, and when they are one again."""
        group, because = str(values.get("group", "")), str(values.get("because", ""))
        view, fence = str(values.get("view", "")), values.get("fence")
        fenced = "" if fence is None else f"fence {fence}"
        match event:
            case "members_live":
                return [self._add(("lives", group, view), at, place, about=(group,), because=fenced)]
            case "members_blocked" if because != MET:
                return [self._add(("blocked", group, because), at, place, about=(group,), because=because)]
            case "view_agreed" if because == "merge":
                return [self._add(("united", group, view), at, place, about=(group,))]
            case "view_agreed" if not values.get("blocked"):
                lost = str(values.get("lost", "")) or f"{values.get('gone', 0)} of its members"
                why = f"{because}, noticed by {values.get('noticed_by', '?')}"
                told = "; ".join([why, fenced]) if fenced else why
                return [self._add(("removed", group, view, lost), at, place, about=(group,), because=told)]
        return []

    def _explain(self, accuser: Domain, accused: Domain) -> list[TimelineEntry]:
        """Losses that were reported before their evidence."""
        explained = [
            each.entry
            for key, each in self._open.items()
            if key[0] in ("lost", "alone") and key[2:] == (accuser, accused)
        ]
        for entry in explained:
            entry.because = self._accusation(accuser, accused)
        return explained

    def _blame(self, parted: TimelineEntry, losses: Iterable[TimelineEntry]) -> list[TimelineEntry]:
        """What came before what; those whose time had to change."""
        changed = [parted for loss in losses if _put_before(parted, loss)][:1]
        peer, node = parted.about
        suspicion = self._suspicions.get((Domain(node), Domain(peer)))
        if suspicion is not None and _put_before(suspicion, parted):
            changed.append(suspicion)
        return changed

    def _accusation(self, accuser: Domain, accused: Domain, what: str = "") -> str:
        return f"{accuser} gave up {accused}: {self._grounds.get((accuser, accused), what)}"

    def _noted(
        self, kind: str, at: float, place: Domain, text: str, values: Mapping[str, Any]
    ) -> TimelineEntry:
        because = str(values.get("because", "")) or _unanswered(values)
        return self._add((kind, text), at, place, about=(place,), because=because, text=text, once=True)

    # What the observatory and the lab know themselves

    def forgot(self, at: float, place: Domain, count: int) -> list[TimelineEntry]:
        """Events that a node had to forget before they were read."""
        return [self._noted("noted", at, place, f"{place}: {count} events were forgotten unread", {})]

    def silent(self, at: float, place: Domain, why: str) -> list[TimelineEntry]:
        self._close(("answers", place))
        return [self._add(("silent", place), at, place, about=(place,), because=why)]

    def answers(self, at: float, place: Domain) -> list[TimelineEntry]:
        self._close(("silent", place))
        return [self._add(("answers", place), at, place, about=(place,), once=True)]

    def lab(self, at: float, text: str, about: Iterable[str]) -> list[TimelineEntry]:
        return [self._add(("lab", text), at, None, about=tuple(about), text=text, once=True)]

    # One thing, once

    def _add(
        self,
        key: Key,
        at: float,
        place: Domain | None,
        group: str = "",
        members: Iterable[str] = (),
        *,
        about: tuple[str, ...] = (),
        because: str = "",
        command: str = "",
        text: str = "",
        once: bool = False,
    ) -> TimelineEntry:
        """`once`: each report is a thing of its own."""
        kind, members = key[0], tuple(members)
        open_ = None if once else self._open.get(key)
        if open_ is not None and (
            at - open_.entry.last > OPEN_S or ((place, group) in open_.told and kind not in _IN_PARTS)
        ):
            open_ = None
        if open_ is None:
            self._numbered += 1
            entry = TimelineEntry(
                self._numbered, kind, TOPICS[kind], at, at, text, because, about, command=command
            )
            self._entries.append(entry)
            open_ = _Open(entry, set(), {})
            if not once:
                self._forget_old(at)
                self._open[key] = open_
        entry = open_.entry
        entry.last = max(entry.last, at)
        entry.because = because or entry.because
        entry.command = entry.command or command
        if place is not None:
            open_.told.add((place, group))
            entry.seen_by.setdefault(place, at)
        if group:
            concerned = open_.members.setdefault(group, set())
            concerned.update(members)
            entry.groups[group] = len(concerned)
            entry.members = tuple(sorted({m for each in open_.members.values() for m in each})[:NAMES_MAX])
        entry.text = text or _words(entry, key)
        if kind == "merged" and self._was_whole:
            entry.text = entry.text.removesuffix(" again")
        return entry

    def _close(self, key: Key) -> None:
        self._open.pop(key, None)

    def _forget_old(self, now: float) -> None:
        """Keys of things that are over; looked at only when something new happens."""
        for key in [key for key, each in self._open.items() if now - each.entry.last > OPEN_S]:
            del self._open[key]


_IN_PARTS: Final = frozenset({"merged", "parted", "silent"})
"""A merge comes in several notices, a parting as its evidence and its end, a silence at every attempt."""

_PROGRAMS: Final = {
    "program_suspected": "is suspected",
    "program_trusted": "answers again",
    "program_removed": "was given up",
    "program_fell_behind": "reads too slowly",
}


_WORDS: Final = {
    "joined": "{} joined {}",
    "left": "{} left {}",
    "crashed": "{} crashed",
    "alone": "{} goes on alone",
    "removed": "{} goes on in view {} without {}",
    "united": "{} is one again in view {}",
    "suspected": "{} suspects {}",
    "trusted": "{} trusts {} again",
    "parted": "{} gave up {}",
    "linked": "{} and {} are linked",
    "started": "{} started",
    "stopped": "{} is shutting down",
    "silent": "{} does not answer the dashboard",
    "answers": "{} answers the dashboard",
}


def _words(entry: TimelineEntry, key: Key) -> str:
    match key:
        case ("lost", domain, *_):
            side = common_domain(entry.seen_by)
            if inside(side, domain):
                return f"{domain} is lost; the rest of {side} goes on without it"
            return f"{side} goes on without {domain}"
        case ("merged", domain):
            side = common_domain(entry.seen_by)
            return f"{f'the rest of {side}' if inside(side, domain) else side} sees {domain} again"
        case ("blocked", group, _):
            return f"members of {group} in {common_domain(entry.seen_by)} are blocked"
        case ("lives", group, view):
            return f"members of {group} in {common_domain(entry.seen_by)} live again in view {view}"
    kind, *about = key
    return _WORDS[kind].format(*about)


def _put_before(cause: TimelineEntry, effect: TimelineEntry) -> bool:
    """Was it reported as younger than what it caused? Then make it a little older."""
    if not 0 <= cause.at - effect.at < CLOCKS_APART_S:
        return False
    cause.at = effect.at - JUST_BEFORE_S
    return True


def common_domain(paths: Iterable[Domain]) -> Domain:
    """The smallest domain that holds all of these."""
    first, *others = paths
    return next(domain for domain in enclosing(first) if all(inside(domain, other) for other in others))


def _other_side(place: Domain, endpoint: Endpoint) -> Domain:
    """The largest domain that this endpoint is in and this place is not: what a cut had put out of sight."""
    around = enclosing(host_of(endpoint))
    return next((domain for domain in reversed(around) if not inside(domain, place)), around[0])


def _overdue(values: Mapping[str, Any]) -> str:
    return (
        f"silent for {_seconds(values.get('silence_s'))}, "
        f"usually heard every {_seconds(values.get('expected_s'))} (phi {values.get('phi', '?')})"
    )


def _grounds(values: Mapping[str, Any]) -> str:
    match str(values.get("because", "")):
        case "silent":
            allowed = _seconds(values.get("down_after_s"))
            return f"silent for {_seconds(values.get('silence_s'))}; {allowed} are allowed"
        case "ended by peer":
            return "the other side had ended the link"
        case "closed":
            return "it said goodbye"
        case "restarted":
            return "it came back as a new incarnation"
        case "overflow":
            return "too much was waiting to be sent to it"
        case other:
            return other


def _unanswered(values: Mapping[str, Any]) -> str:
    return f"no answer for {_seconds(values['unanswered_s'])}" if "unanswered_s" in values else ""


def _seconds(value: Any) -> str:
    if not isinstance(value, int | float):
        return "an unknown time"
    return f"{value:.0f} s" if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".") + " s"


__all__ = ["ENTRIES_MAX", "OPEN_S", "ROOT", "TOPICS", "Timeline", "TimelineEntry", "Topic", "common_domain"]
