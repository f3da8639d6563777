"""The memories of the nodes on the path, side by side: members, departures, and links that broke."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from rostra.names import Domain, Endpoint, concerns, host_of, incarnation_of, inside
from rostra.protocols.detect.config import DetectConfig
from rostra.protocols.relaxed.trail import NAMES_MAX

SAME_S: Final = 1.0
"""Two memories of one event lie no farther apart than this: it takes a detector longer to find the next."""


class NodeMemory:
    """One node's answer, its ages turned into times of our own clock."""

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
        """The endpoints that the node has or remembers, of those that were asked about."""
        for kind in ("present", "departures", "seen"):
            yield from (str(note["endpoint"]) for note in self.document.get(kind, ()))
        for note in self.document.get("views", ()):  # of agreed groups that it was removed from
            yield from map(str, note["endpoints"])

    @property
    def paths(self) -> Iterator[Domain]:
        """Domains and hosts that it knows."""
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


class Break(Struct, frozen=True):
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


class NodeMemories:
    """The memories of all nodes about one endpoint, host or domain."""

    def __init__(
        self,
        about: str,
        way: tuple[Domain, ...],
        memories: Mapping[Domain, NodeMemory],
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

    def is_known(self) -> bool:
        """Does any node know it?"""
        if "/" in self.about:
            return any(self.about in memory.endpoints for memory in self.memories.values())
        return self.is_path(Domain(self.about))

    def is_path(self, path: Domain) -> bool:
        heard_of = (each for memory in self.memories.values() for each in memory.paths)
        return path in self.memories or any(inside(path, each) for each in (*self.known, *heard_of))

    def present(self) -> Mapping[str, Any] | None:
        if self.home is None:
            return None
        return next((each for each in self.home.document["present"] if each["endpoint"] == self.about), None)

    def latest_departure(self) -> tuple[float, Domain, Mapping[str, Any]] | None:
        """The last departure: from its own agent if that can be asked, else from a node that forwarded the
        notice."""
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

    def latest_refusal(self) -> tuple[float, Mapping[str, Any]] | None:
        found = [
            (at, note)
            for memory in self.memories.values()
            for at, note in memory.notes("refusals")
            if self.is_own(note)
        ]
        return max(found, key=lambda each: each[0]) if found else None

    def is_own(self, refusal: Mapping[str, Any]) -> bool:
        """Was it refused to this very endpoint, or this name to any? Refusals to others on the host are no
        part of its story: most of them are typing errors."""
        return "/" in self.about and refusal["endpoint"] in (self.about, self.about.partition("#")[0])

    def is_touched_by(self, view: Mapping[str, Any]) -> bool:
        """Is a note about views of a group part of its story? An endpoint's are those that name it, and of
        the groups that it was in those that name none, which are about all members on a host."""
        if "/" not in self.about or self.about in view["endpoints"]:
            return True
        groups = self._groups()
        return not view["endpoints"] and (groups is None or view.get("group", "") in ("", *groups))

    def _groups(self) -> set[str] | None:
        """The groups that the endpoint has been in; None if no node that can be asked knows all of them."""
        if self.home is None:
            return None
        present = self.present()
        departures = [note for memory in self.memories.values() for _, note in memory.notes("departures")]
        lists = [note["groups"] for note in departures if note["endpoint"] == self.about]
        lists += [] if present is None else [present["groups"]]
        if any(len(groups) >= NAMES_MAX for groups in lists):
            return None
        return {group for groups in lists for group in groups}

    def breaks(self) -> list[Break]:
        """Failure notices that took it from our sight, and links on the way that were given up: where no host
        followed a group of that side, there was no notice. Each break once, the latest last."""
        found = [
            Break(
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
            Break(at, near, far, note["because"], far, False)
            for near, far in zip(self.way, self.way[1:], strict=False)
            if near in self.memories
            for at, note in self.memories[near].link(far)
            if note["what"] == "down"
        ]
        breaks: dict[tuple[Domain, Domain], list[Break]] = {}
        for each in sorted(found, key=lambda each: each.at):
            same = breaks.setdefault(each.between, [])
            # The accuser knew first; nodes that got the notice remember the same break a little later.
            if not same or each.at - same[-1].at >= SAME_S:
                same.append(each)
        return sorted((each for same in breaks.values() for each in same), key=lambda each: each.at)

    def behind(self, breaks: Sequence[Break], at: float) -> Break | None:
        """The break that kept us from hearing of what happened then."""
        for broken in reversed(breaks):
            evidence, back_at = self.evidence(broken)[0], self.back_at(broken)
            silence_s = float(evidence["silence_s"]) if evidence is not None else 0.0
            if broken.at - silence_s <= at and (back_at is None or at <= back_at):
                return broken
        return None

    def is_linked(self) -> bool:
        """Is every link on the way up, as those say that we could ask?"""
        return not self.unseen and all(
            self.memories[near].is_up(far) for near, far in zip(self.way, self.way[1:], strict=False)
        )

    def evidence(self, broken: Break) -> tuple[Mapping[str, Any] | None, float | None, float | None]:
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
        back_at = self.back_at(broken)
        last_heard = at - float(evidence["silence_s"])
        return evidence, (None if back_at is None else back_at - last_heard), back_at

    def back_at(self, broken: Break) -> float | None:
        """When the accuser was linked with the accused again; of one that cannot be asked, when others heard
        that what was lost is there again."""
        accuser = self.memories.get(broken.accuser)
        if accuser is None:
            returns = [at for memory in self.memories.values() for at, _ in memory.notes("returns")]
            return min((at for at in returns if at > broken.at), default=None)
        # Memories are bounded: a link that is trusted again was up by then, since whenever.
        ups = [
            at
            for at, note in accuser.link(broken.accused)
            if note["what"] in ("up", "trusted") and at > broken.at - 0.001
        ]
        return min(ups, default=None)
