"""The state of servers and links, from the reports of all places.

No node knows the whole world. Each place knows its own links, and the two ends of a link may see it
differently; so a server's state here is a judgement, and `why` gives its grounds.

    up           it answers, or a neighbour receives from it, and no neighbour suspects it
    suspected    it is overdue at a neighbour; or it stopped answering us and its neighbours do not know yet;
                 or they have declared it dead and it does not know yet
    cut off      it answers, and receives from none of the servers above and beside it
    down         all neighbours that were linked to it have declared it dead
    unseen       no place that we can ask was ever linked to it
    none         a domain without a server of its own: no node has it as a neighbour. The root often has none

A link is judged from its ends. It is **one way** when one end receives and the other does not.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from rostra.names import ROOT, Domain, depth, enclosing, parent

ServerState = Literal["up", "suspected", "cut off", "down", "unseen", "none"]
EndState = Literal["up", "suspected", "down", "unseen", "unknown"]
LinkState = Literal["up", "suspected", "one way", "down", "unseen"]
Kind = Literal["host", "cluster", "domain"]

HEARD_LATELY_BEATS: Final = 4.0
"""An end receives from its peer if something came within this many of the usual gaps between heartbeats."""

HEARD_LATELY_LEAST_S: Final = 1.0


class PictureEnd(Struct, frozen=True):
    """One server's end of a link: how it sees its peer."""

    state: EndState
    silence_s: float | None = None  # since a sign of life in this epoch, or since the last one
    heard_s: float | None = (
        None  # since anything at all came, hellos of a peer that does not hear us included
    )
    expected_s: float | None = None
    phi: float | None = None
    because: str = ""  # why it is down, as this end recorded it

    @property
    def hears(self) -> bool:
        """Does something arrive here?"""
        latest = self.silence_s if self.state in ("up", "suspected") else self.heard_s
        if latest is None:
            return False
        return latest <= max(HEARD_LATELY_LEAST_S, HEARD_LATELY_BEATS * (self.expected_s or 0.0))


UNKNOWN: Final = PictureEnd("unknown")


class PictureLink(Struct, frozen=True):
    """A link between two neighbours, `a` the smaller name; what each end thinks, and what that comes to."""

    a: Domain
    b: Domain
    state: LinkState
    a_sees: EndState
    b_sees: EndState
    deaf: Domain | None = None  # of a link that is one way: the end that does not hear


class PictureServer(Struct, frozen=True):
    path: Domain
    kind: Kind
    state: ServerState
    why: str
    speaks: bool  # we have a connection there: it reports what it sees


class Picture(Struct, frozen=True):
    servers: tuple[PictureServer, ...] = ()  # every domain and host, parents before children
    links: tuple[PictureLink, ...] = ()


class PlaceReport(Struct, frozen=True):
    """What is known of one place: its last report, and whether it still answers."""

    path: Domain
    answers: bool
    document: Mapping[str, Any] | None = None
    silent_why: str = ""
    ends: Mapping[Domain, PictureEnd] = {}  # by peer

    @property
    def is_agent(self) -> bool:
        return self.document is not None and self.document["core"].get("server") == "agent"


def ends_of(document: Mapping[str, Any], reasons: Mapping[Domain, str]) -> dict[Domain, PictureEnd]:
    """A node's own view of its links. `reasons`: why each peer was given up, as far as recorded."""
    return {
        Domain(peer): _end(link, reasons.get(Domain(peer), "")) for peer, link in document["links"].items()
    }


def _end(link: Mapping[str, Any], because: str) -> PictureEnd:
    if link["up"]:
        state: EndState = "suspected" if link["suspected"] else "up"
    elif link.get("last_evidence") is not None:
        state = "down"
    else:
        return PictureEnd("unseen", heard_s=link.get("heard_s"))
    return PictureEnd(
        state,
        silence_s=link["silence_s"],
        heard_s=link.get("heard_s"),
        expected_s=link["expected_s"],
        phi=link["phi"],
        because=because if state == "down" else "",
    )


def draw(reports: Iterable[PlaceReport]) -> Picture:
    """The whole picture from all reports."""
    by_path = {report.path: report for report in reports}
    pairs = sorted({(min(p, q), max(p, q)) for p, report in by_path.items() for q in report.ends})
    paths = {path for pair in pairs for path in pair} | set(by_path)
    everywhere = sorted({domain for path in paths for domain in enclosing(path)}, key=_in_order)
    kinds = _kinds(everywhere, by_path)
    links = tuple(_link(a, b, _end_at(by_path, a, b), _end_at(by_path, b, a)) for a, b in pairs)
    servers = tuple(_server(path, kinds[path], by_path) for path in everywhere)
    return Picture(servers, links)


def _in_order(path: Domain) -> tuple[bool, tuple[str, ...]]:
    return path != ROOT, tuple(path.split("."))


def _end_at(by_path: Mapping[Domain, PlaceReport], me: Domain, peer: Domain) -> PictureEnd:
    report = by_path.get(me)
    return UNKNOWN if report is None or not report.answers else report.ends.get(peer, UNKNOWN)


def _kinds(paths: Iterable[Domain], by_path: Mapping[Domain, PlaceReport]) -> dict[Domain, Kind]:
    """What each path is. Those that speak say it; the rest follows from their neighbours and their depth."""
    kinds: dict[Domain, Kind] = {}
    for path in paths:
        report = by_path.get(path)
        core = report.document["core"] if report is not None and report.document is not None else None
        if core is not None:
            kinds[path] = (
                "host" if core.get("server") == "agent" else "cluster" if core.get("cluster") else "domain"
            )
        elif path != ROOT and kinds.get(parent(path)) == "cluster":
            kinds[path] = "host"
        else:
            kinds[path] = "domain"
    for path, kind in kinds.items():
        if kind == "host" and kinds[parent(path)] == "domain":
            kinds[parent(path)] = "cluster"
    return kinds


def _link(a: Domain, b: Domain, at_a: PictureEnd, at_b: PictureEnd) -> PictureLink:
    ends = {at_a.state, at_b.state}
    deaf = _deaf(a, b, at_a, at_b)
    state: LinkState
    if deaf is not None:
        state = "one way"
    elif "down" in ends:
        state = "down"
    elif "suspected" in ends:
        state = "suspected"
    elif "up" in ends:
        state = "up"
    else:
        state = "unseen"
    return PictureLink(a, b, state, at_a.state, at_b.state, deaf)


def _deaf(a: Domain, b: Domain, at_a: PictureEnd, at_b: PictureEnd) -> Domain | None:
    """The end that receives nothing from a peer that receives from it.

    While the link is up, the lengths of silence show it: in a two-way cut both grow together. Once it is
    down, a `Hello` that still arrives shows it; and without one, which end gave up first: the other end
    received until then.
    """
    for me, mine, theirs in ((a, at_a, at_b), (b, at_b, at_a)):
        if mine.state == "suspected" and theirs.state == "up" and theirs.hears:
            return me
        if mine.state == theirs.state == "down":
            if theirs.hears and not mine.hears:
                return me
            if (mine.because, theirs.because) == ("silent", "ended by peer") and not mine.hears:
                return me
    return None


def _server(path: Domain, kind: Kind, by_path: Mapping[Domain, PlaceReport]) -> PictureServer:
    own = by_path.get(path)
    seen = {
        report.path: report.ends[path]
        for report in by_path.values()
        if report.answers and path in report.ends
    }
    if own is None and not _is_peer(path, by_path):
        why = "the root has no server of its own" if path == ROOT else "no server of its own"
        return PictureServer(path, kind, "none", why, speaks=False)
    state, why = _judge(own, seen)
    return PictureServer(path, kind, state, why, speaks=own is not None)


def _is_peer(path: Domain, by_path: Mapping[Domain, PlaceReport]) -> bool:
    return any(path in report.ends for report in by_path.values())


def _judge(own: PlaceReport | None, seen: Mapping[Domain, PictureEnd]) -> tuple[ServerState, str]:
    by_state: dict[EndState, list[Domain]] = {}
    for peer in sorted(seen):
        by_state.setdefault(seen[peer].state, []).append(peer)
    suspecting, parted = by_state.get("suspected", []), by_state.get("down", [])
    if own is not None and own.answers:
        above = [
            end for peer, end in own.ends.items() if depth(peer) <= depth(own.path) and end.state != "unseen"
        ]
        if above and all(end.state == "down" for end in above):
            return "cut off", "it answers, and hears none of the servers above and beside it"
        if suspecting:
            return "suspected", f"overdue at {_names(suspecting)}"
        if parted and not by_state.get("up"):
            # Its own word is older than theirs: it stands still, or is about to learn that it is cut off.
            return "suspected", f"given up by {_names(parted)}, and has not said so itself yet"
        return "up", "it answers" + (f"; given up by {_names(parted)}" if parted else "")
    if by_state.get("up"):
        if own is not None and own.document is not None:
            return (
                "suspected",
                f"it does not answer ({own.silent_why}); its neighbours have not noticed yet",
            )
        return "up", f"heard by {_names(by_state['up'])}"
    if suspecting:
        return "suspected", f"overdue at {_names(suspecting)}"
    if parted:
        return "down", f"given up by {_names(parted)}"
    if own is not None and own.document is not None:
        return "down", f"it does not answer: {own.silent_why}"
    return (
        "unseen",
        own.silent_why if own is not None and own.silent_why else "no node that answers knows it",
    )


def _names(paths: list[Domain], most: int = 3) -> str:
    return ", ".join(paths[:most]) + (f" and {len(paths) - most} more" if len(paths) > most else "")
