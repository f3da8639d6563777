"""The trace's observer: notices and items of programs, as lines for people and for diffs.

    3.202  a b       without paris   chess is {a b}   because haifa lost paris: silent
    when   who       what            what they see    why

Lines are grouped: programs that get the same at the same moment share one. A notice that changes no view is
no line (C-141). Links and internal notes of servers are added on request. The text depends on the seed alone.

Each message sent by hand is a line, ``a says 'e4'``; a stream is summed up, at its end or the section's:
``heard a 1-50``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol

from rostra.core.effects import Event, Ignored, Instant, LinkDown, LinkMoved, LinkUp, Noted
from rostra.core.observer import Reporter, Seen, Show
from rostra.groups.members import Because, Cause, Members
from rostra.names import Domain, Endpoint, Group, Tree, host_of, incarnation_of, labels, name_of
from rostra.protocols.agreed.observed import ViewAgreed
from rostra.protocols.agreed.requests import MemberBlocked, MemberView
from rostra.protocols.fifo import events as fifo
from rostra.protocols.flow.runs import payloads
from rostra.protocols.links.events import Suspected, Trusted
from rostra.protocols.relaxed.requests import (
    Absolute,
    AnyNotice,
    Denied,
    Gap,
    Joined,
    Left,
    Life,
    Message,
    NotDelivered,
    Only,
    PutOut,
    Resolved,
    Without,
)
from rostra.protocols.relaxed.view import Report, ViewChanged

DEFAULT_PROGRAM = "app"
"""The program that a story means when it names a host."""

QUIET = b"\0"
"""How the messages of a stream begin, which are summed up."""

Detail = Literal["links", "notes"]


class TracedConversation(Protocol):
    @property
    def members(self) -> set[Endpoint]: ...


class TracedAgreed(Protocol):
    @property
    def members(self) -> tuple[Endpoint, ...]: ...  # in order of rank


class TracedProgram(Protocol):
    host: Domain
    name: str
    endpoint: Endpoint | None

    @property
    def address(self) -> Endpoint: ...

    @property
    def conversations(self) -> Mapping[Group, TracedConversation]: ...

    @property
    def agreed(self) -> Mapping[Group, TracedAgreed]: ...

    def members_of(self, group: Group) -> Members: ...


class TracedCall(Protocol):
    request: Any
    result: Any

    @property
    def program(self) -> TracedProgram | None: ...


class ProgramTold(Event, frozen=True):
    """A program took a notice in; this is what its views report."""

    program: TracedProgram
    notice: AnyNotice
    reports: list[Report]


class ProgramGiven(Event, frozen=True):
    """A program took an item of a group that speaks."""

    program: TracedProgram
    group: Group
    item: fifo.Item


class CallAnswered(Event, frozen=True):
    call: TracedCall


class Names:
    """Short names for one world: the last label where that is enough to tell servers apart."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._first: dict[tuple[Domain, str], int] = {}
        last = [labels(path)[-1] for path in tree.servers if labels(path)]
        self._short = {
            path: labels(path)[-1] if labels(path) and last.count(labels(path)[-1]) == 1 else path
            for path in tree.servers
        }

    def server(self, path: Domain) -> str:
        return self._short.get(path, path)

    def endpoint(self, endpoint: Endpoint) -> str:
        """`a` is the first program started on host a; a later one says which: `a#2000`, `a/web`."""
        host, name, number = host_of(endpoint), name_of(endpoint), incarnation_of(endpoint)
        first = self._first.setdefault((host, name), number)
        text = self.server(host) if name == DEFAULT_PROGRAM else f"{self.server(host)}/{name}"
        return text if number == first else f"{text}#{number}"

    def members(self, members: Members) -> str:
        return " ".join(self.endpoint(member.endpoint) for member in members)

    def group(self, group: Group) -> str:
        return group.name if group.scope == "world" else f"{group.name}@{self.server(group.scope)}"

    def because(self, because: Because) -> str:
        return f"because {self.server(because.accuser)} lost {self.server(because.accused)}: {because.what}"


class Trace(Reporter):
    """`show` adds the notes of links and servers to the notices of programs."""

    def __init__(self, names: Names, show: Iterable[Detail] = ()) -> None:
        self.names = names
        self.show: set[Detail] = set(show)
        self.began_at = 0.0  # lines count seconds from here
        self._lines: list[str] = []
        self._moment = ""
        self._said: list[tuple[list[str], str]] = []  # of this moment: who, and what
        self._streams: dict[tuple[str, str, Endpoint], tuple[int, int]] = {}  # who, group, sender: from, to
        self._last_at = 0.0
        noted: dict[type, Show] = dict.fromkeys(
            (LinkUp, LinkMoved, LinkDown, Suspected, Trusted, ViewAgreed, Noted, Ignored), self._noted
        )
        self.shows = {
            ProgramTold: self._told,
            ProgramGiven: self._given,
            CallAnswered: self._answered,
            **noted,
        }

    def lines(self) -> list[str]:
        """Everything written since the last call."""
        for who, group, sender in list(self._streams):
            self._sum_up(self._last_at, who, group, sender)
        self._end_moment()
        lines, self._lines = self._lines, []
        return lines

    def write(self, at: float, who: str, *columns: str) -> None:
        """Write what one program or server got, on one line with others that got the same now."""
        self._last_at = max(self._last_at, at)
        moment = f"{at - self.began_at:.3f}"
        if moment != self._moment:
            self._end_moment()
            self._moment = moment
        what = "   ".join(filter(None, columns))
        # Share a line only if it comes after all earlier lines of the same program: order is never lost.
        for told, line in reversed(self._said):
            if line == what and who not in told:
                told.append(who)
                return
            if who in told:
                break
        self._said.append(([who], what))

    def _end_moment(self) -> None:
        for who, what in self._said:
            self._lines.append(f"{self._moment:>7}  {' '.join(sorted(who)):<7}   {what}".rstrip())
        self._said = []

    # What the world reports

    def _told(self, at: Instant, node: Domain, told: ProgramTold) -> None:
        program, notice, reports = told.program, told.notice, told.reports
        who = self.names.endpoint(program.address)
        views = [self._view(program, report) for report in reports if isinstance(report, ViewChanged)]
        names = self.names
        match notice:
            case Absolute(isolated=isolated):
                self._write_if(views, at, who, *views, "isolated" if isolated else "")
            case Joined(members=members, cause=Cause.JOIN):
                self._write_if(views, at, who, f"{names.members(members)} joined", *views)
            case Joined():
                merged = [report for report in reports if isinstance(report, ViewChanged)]
                came = " ".join(names.members(report.joined) for report in merged if report.joined)
                gone = " ".join(names.members(report.left) for report in merged if report.left)
                what = ", ".join(filter(None, (came and f"{came} back", gone and f"{gone} gone")))
                self._write_if(views, at, who, f"merged: {what}", *views)
            case Left(endpoint=endpoint, cause=cause):
                how = "crashed" if cause is Cause.CRASH else "left"
                self._write_if(views, at, who, f"{names.endpoint(endpoint)} {how}", *views)
            case Only(domain=domain, because=because):
                what = f"only {names.server(domain)}"
                self._write_if(views, at, who, what, *views, names.because(because))
            case Without(domain=domain, because=because):
                what = f"without {names.server(domain)}"
                self._write_if(views, at, who, what, *views, names.because(because))
            case Message(source=source, data=data):
                self.write(at, who, f"{names.endpoint(source)} says {data.decode(errors='replace')!r}")
            case NotDelivered(destinations=destinations, why=why):
                lost = " ".join(map(names.endpoint, destinations))
                self.write(at, who, f"not delivered to {lost}", f"because {why}")
            case Life(endpoint=endpoint, alive=alive, why=why):
                state = "lives" if alive else "is dead"
                self.write(at, who, f"{names.endpoint(endpoint)} {state}", why and f"because {why}")
            case PutOut(group=group, refusal=refusal):
                self.write(at, who, f"put out of {names.group(group)}", f"because {refusal.what}")
            case Gap(missed=missed, groups=groups):
                about = ", ".join(map(names.group, groups))
                self.write(at, who, f"missed {missed} notices", f"of {about}" if about else "")

    def _given(self, at: Instant, node: Domain, given: ProgramGiven) -> None:
        program, group, item = given.program, given.group, given.item
        who, names = self.names.endpoint(program.address), self.names
        name = names.group(group)
        if isinstance(item, MemberView | MemberBlocked):
            self._agreed(at, who, name, item, program.agreed[group].members)
            return
        is_now = (
            f"{name} is {{{' '.join(sorted(map(names.endpoint, program.conversations[group].members)))}}}"
        )
        match item:
            case fifo.Delivered(stream, run) | fifo.Aggregated(stream, run):
                self._messages(at, who, name, stream, run.first, payloads(run))
            case fifo.Ready():
                self.write(at, who, is_now, "and may be heard")
            case fifo.Joined(endpoint, resumed=resumed):
                how = "resumed" if resumed else "joined"
                self.write(at, who, f"{names.endpoint(endpoint)} {how}", is_now)
            case fifo.JoinedTogether(members):
                came = " ".join(sorted(names.endpoint(endpoint) for endpoint, _, _ in members))
                self.write(at, who, f"{came} joined", is_now)
            case fifo.Left(endpoint, why, last):
                self._sum_up(at, who, name, endpoint)
                end = "" if last is None else f"after {last}"
                self.write(at, who, f"{names.endpoint(endpoint)} {why} {end}".rstrip(), is_now)
            case fifo.Gap(endpoint, first, last):
                self.write(at, who, f"missed {names.endpoint(endpoint)} {first}-{last}")
            case fifo.Without(domain, because):
                self.write(at, who, f"without {names.server(domain)}", self._grounds(because))
            case fifo.Only(domain, because):
                self.write(at, who, f"only {names.server(domain)}", self._grounds(because))
            case fifo.Excluded(reason):
                self.write(at, who, f"excluded from {name}", f"because {reason}")
            case fifo.Parted(unconfirmed, unsent):
                for sender in sorted({key[2] for key in self._streams if key[:2] == (who, name)}):
                    self._sum_up(at, who, name, sender)
                rest = [f"{n} {how}" for n, how in ((unconfirmed, "unconfirmed"), (unsent, "not sent")) if n]
                self.write(at, who, f"parted from {name}", ", ".join(rest))

    def _agreed(
        self, at: float, who: str, group: str, item: MemberView | MemberBlocked, members: Iterable[Endpoint]
    ) -> None:
        """Members in order of rank, in brackets."""
        names = self.names
        if isinstance(item, MemberBlocked):
            self.write(at, who, f"{group} is blocked", f"because {item.because}")
            return
        came = [(" ".join([names.endpoint(each) for each, _ in item.joined]), "joined")]
        gone = [
            (" ".join(map(names.endpoint, each)), how)
            for each, how in ((item.left, "left"), (item.failed, "failed"))
        ]
        what = ", ".join([f"{some} {how}" for some, how in (*came, *gone) if some])
        listed = " ".join(map(names.endpoint, members))
        is_now = f"{group} is [{listed}]   view {item.number}"
        fence = "" if item.fence is None else f"fence {item.fence}"
        self.write(at, who, "merged" if item.parts else "", what, is_now, fence)

    def _grounds(self, because: Because | None) -> str:
        return "" if because is None else self.names.because(because)

    def _messages(
        self, at: float, who: str, group: str, stream: Endpoint, first: int, bodies: list[bytes]
    ) -> None:
        self._last_at = max(self._last_at, at)
        for number, body in enumerate(bodies, first):
            if body.startswith(QUIET):
                begun, _ = self._streams.get((who, group, stream), (number, number))
                self._streams[who, group, stream] = (begun, number)
            else:
                self._sum_up(at, who, group, stream)
                said = body.decode(errors="replace")
                self.write(at, who, f"{self.names.endpoint(stream)} says {said!r}", f"number {number}")

    def _sum_up(self, at: float, who: str, group: str, stream: Endpoint) -> None:
        numbers = self._streams.pop((who, group, stream), None)
        if numbers is not None:
            self.write(at, who, f"heard {self.names.endpoint(stream)} {numbers[0]}-{numbers[1]}")

    def _answered(self, at: Instant, node: Domain, answered: CallAnswered) -> None:
        call = answered.call
        if call.program is None:
            if isinstance(call.result, Denied):
                self.write(at, "admin", f"refused: {call.result.code}", call.result.what)
            return
        program, names = call.program, self.names
        who = names.endpoint(program.endpoint) if program.endpoint else f"{program.host}/{program.name}"
        match call.result:
            case Denied(code=code):
                self.write(at, who, f"refused: {code}")
            case Absolute(group=group, members=members, isolated=isolated):
                answer = f"answer: {names.group(group)} is {{{names.members(members)}}}"
                self.write(at, who, answer, "isolated" if isolated else "")
            case Resolved(parts=parts, isolated=isolated):
                answers = [f"{names.server(scope)} {{{names.members(members)}}}" for scope, members in parts]
                name = getattr(call.request, "name", "")
                self.write(at, who, f"answer: {name} in", *answers, "isolated" if isolated else "")

    def _noted(self, at: Instant, server: Domain, what: Seen) -> None:
        names = self.names
        who = f"[{names.server(server)}]"
        match what:
            case LinkUp(peer=peer) if "links" in self.show:
                self.write(at, who, f"{names.server(peer)} is up")
            case LinkMoved(peer=peer) if "links" in self.show:
                self.write(at, who, f"{names.server(peer)} is led by another replica")
            case LinkDown(peer=peer, because=because) if "links" in self.show:
                self.write(at, who, f"{names.server(peer)} is down", names.because(because))
            case Suspected(peer=peer) if "links" in self.show:
                self.write(at, who, f"{names.server(peer)} is suspected")
            case Trusted(peer=peer) if "links" in self.show:
                self.write(at, who, f"{names.server(peer)} is trusted again")
            case ViewAgreed() if "notes" in self.show:
                lost = " ".join([names.server(each.server) for each in what.lost])
                noticed = f"noticed by {names.server(what.noticed.server)}"
                why = f"{what.because}{f': {lost}' if lost else ''}"
                view = f"agreed on view {what.id[0]} of {names.group(what.group)}"
                self.write(at, who, view, why, noticed, what.blocked and f"blocked: {what.blocked}")
            case Noted(what=event, about=about) if "notes" in self.show:
                self.write(at, who, event, about)
            case Ignored(what=event, why=why) if "notes" in self.show:
                self.write(at, who, f"ignored {event}", why)

    def _view(self, program: TracedProgram, report: ViewChanged) -> str:
        members = program.members_of(report.group)
        return f"{self.names.group(report.group)} is {{{self.names.members(members)}}}"

    def _write_if(self, changed: list[str], at: float, who: str, *columns: str) -> None:
        if changed:
            self.write(at, who, *columns)
