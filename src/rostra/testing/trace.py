"""What happened in a world, as lines that a person can read and a test can compare.

12.412  test              cut eu | us
16.530  [eu]              us is down: silent
16.610  paris.h1/ann      without us
"""

from collections import deque
from typing import Final

from rostra.core.effects import Instant, LinkDown, LinkMoved, LinkUp
from rostra.core.observer import Reporter
from rostra.groups.members import Cause, Members
from rostra.names import Domain, Endpoint, name_of
from rostra.observe.trace import Names
from rostra.protocols.relaxed.requests import (
    Absolute,
    AnyNotice,
    Changed,
    Gap,
    Joined,
    Left,
    Life,
    Message,
    NotDelivered,
    Only,
    PutOut,
    Snapshot,
    Without,
)
from rostra.sim.world import World as Sim

LINES_MAX: Final = 10_000
"""The latest are kept."""

AGENTS_OWN: Final = "rostra.watch"


class TestTrace(Reporter):
    def __init__(self, sim: Sim) -> None:
        self._sim = sim
        self._names = Names(sim.tree)
        self._lines: deque[str] = deque(maxlen=LINES_MAX)
        self.shows = {LinkUp: self._up, LinkMoved: self._moved, LinkDown: self._down}
        sim.observe(self)

    def lines(self) -> tuple[str, ...]:
        return tuple(self._lines)

    def write(self, who: str, what: str) -> None:
        self._lines.append(f"{self._sim.now:8.3f}  {who:<20} {what}")

    def says(self, endpoints: tuple[Endpoint, ...], notice: AnyNotice) -> None:
        """An agent tells programs something."""
        programs = [each for each in endpoints if not name_of(each).startswith(AGENTS_OWN)]
        if programs:
            self.write(" ".join(map(self._names.endpoint, programs)), self._words(notice))

    def _words(self, notice: AnyNotice) -> str:
        names = self._names
        match notice:
            case Absolute(group, members) | Snapshot(group, members):
                return f"{names.group(group)} is {{{names.members(members)}}}"
            case Joined(group, members, cause):
                return f"{names.group(group)}: {self._came(members, cause)}"
            case Left(group, endpoint, _, cause):
                return f"{names.group(group)}: {self._went((endpoint,), cause)}"
            case Only(domain):
                return f"only {names.server(domain)}"
            case Without(domain):
                return f"without {names.server(domain)}"
            case Changed(group, number, members, left, cause, _, by):
                how = f" ({self._words(by)})" if by is not None else ""
                what = self._went(left, cause) if left else self._came(members, cause)
                return f"{names.group(group)} {number}: {what}{how}"
            case PutOut(group, refusal):
                return f"{names.group(group)}: put out, {refusal.what}"
            case Message(source, data):
                return f"{names.endpoint(source)} says {data!r}"
            case NotDelivered(destinations, why):
                return f"not delivered to {' '.join(map(names.endpoint, destinations))}: {why}"
            case Life(endpoint, alive, why):
                return f"{names.endpoint(endpoint)} {'lives' if alive else f'is dead: {why}'}"
            case Gap(missed):
                return f"missed {missed}"

    def _came(self, members: Members, cause: Cause | None) -> str:
        return f"{self._names.members(members)} {'merged' if cause is Cause.MERGE else 'joined'}"

    def _went(self, endpoints: tuple[Endpoint, ...], cause: Cause | None) -> str:
        how = {Cause.LEAVE: "left", Cause.CRASH: "crashed"}.get(cause or Cause.MERGE, "lost")
        return f"{' '.join(map(self._names.endpoint, endpoints))} {how}"

    # What the simulator reports

    def _up(self, at: Instant, server: Domain, link: LinkUp) -> None:
        self._link(server, link.peer, "is up")

    def _moved(self, at: Instant, server: Domain, link: LinkMoved) -> None:
        self._link(server, link.peer, "is led by another replica")

    def _down(self, at: Instant, server: Domain, link: LinkDown) -> None:
        self._link(server, link.peer, f"is down: {link.because.what}")

    def _link(self, server: Domain, peer: Domain, what: str) -> None:
        self.write(f"[{self._names.server(server)}]", f"{self._names.server(peer)} {what}")
