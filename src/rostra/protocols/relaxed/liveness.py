"""Watching whether one endpoint is alive, on any host (C-157).

    watching program        agents, through the domain servers            watched program
    WatchLife ──▶ agent ── LifeAsked ──▶ the endpoint's agent   (again every `life_refresh_s`)
         Life ◀── agent ◀── LifeTold ─── the endpoint's agent ◀── its socket closed

The endpoint's own agent sees its death at once, and its report is final: an address is never used twice. All
other reports are about reachability and may be taken back: our link is down, a failure notice names the
endpoint's domain, a server on the path cannot reach it, or no answer comes. Because questions are repeated,
an agent that has restarted learns again what is watched.
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from rostra.core.effects import Effect, Ignored, Instant, Send, SetTimer, Tell
from rostra.errors import NotMember, TooLarge
from rostra.names import Domain, Endpoint, host_of, inside, parent
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.protocols.relaxed.messages import LifeAsked, LifeTold, MessageId
from rostra.protocols.relaxed.requests import Life
from rostra.protocols.relaxed.routing import OUTSIDE

REFRESH: Final = ("relaxed", "life")

CRASHED: Final = "crashed"
CLOSED: Final = "closed"
UNKNOWN: Final = "no such endpoint"
ISOLATED: Final = "isolated"
UNREACHABLE: Final = "unreachable"
SILENT: Final = "no answer"


class WatchedEndpoint(Struct):
    """One endpoint that programs of this host watch."""

    watchers: set[Endpoint] = field(default_factory=set)
    alive: bool | None = None  # as last reported; None: not known yet
    why: str = ""
    final: bool = False  # dead for certain, so nothing more to ask
    unanswered: int = 0  # questions since the last answer


class Liveness:
    """Both halves: what our programs watch, and who watches our endpoints."""

    def __init__(self, host: Domain, config: RelaxedConfig, new_id: Callable[[], MessageId]) -> None:
        self.host = host
        self.watched: dict[Endpoint, WatchedEndpoint] = {}
        self.asked_by: dict[Endpoint, dict[Domain, Instant]] = {}  # our endpoint: who asked, and when last
        self._config = config
        self._new_id = new_id
        self._askers = 0  # entries in `asked_by`
        self._up = False
        self._refreshing = False
        self._watching: dict[Endpoint, set[Endpoint]] = {}  # watcher: what it watches

    # What our programs ask

    def watch(self, me: Endpoint, target: Endpoint, here: bool, out: list[Effect]) -> None:
        """`here`: the target is an endpoint that is open on this host."""
        mine = self._watching.setdefault(me, set())
        if target in mine:
            return
        mine.add(target)
        watched = self.watched.get(target)
        if watched is None:
            watched = self.watched[target] = WatchedEndpoint({me})
            if host_of(target) == self.host:
                self._report(target, watched, here, "" if here else UNKNOWN, out, final=not here)
            elif not self._up:
                self._report(target, watched, False, ISOLATED, out)
            else:
                self._ask(target, watched, out)
            self._keep_refreshing(out)
        else:
            watched.watchers.add(me)
            if watched.alive is not None:
                out.append(Tell((me,), Life(target, watched.alive, watched.why)))

    def document(self) -> dict[str, object]:
        return {
            "watched": sorted(self.watched),
            "asked_by": {each: sorted(who) for each, who in sorted(self.asked_by.items())},
        }

    def check_watch(self, me: Endpoint, target: Endpoint) -> None:
        mine = self._watching.get(me, ())
        if target not in mine and len(mine) >= self._config.lives_watched_max:
            raise TooLarge(
                f"{me} watches {len(mine)} endpoints already",
                fix="stop watching some, or watch a group instead",
            )

    def check_unwatch(self, me: Endpoint, target: Endpoint) -> None:
        if target not in self._watching.get(me, ()):
            raise NotMember(f"{me} does not watch {target}", fix="watch it first")

    def unwatch(self, me: Endpoint, target: Endpoint, out: list[Effect]) -> None:
        mine = self._watching[me]
        mine.discard(target)
        if not mine:
            del self._watching[me]
        watched = self.watched[target]
        watched.watchers.discard(me)
        if not watched.watchers:
            del self.watched[target]
            if self._up and not watched.final and host_of(target) != self.host:
                out.append(self._send(LifeAsked(self._new_id(), self.host, target, stop=True)))

    def ended(self, endpoint: Endpoint, why: str, out: list[Effect]) -> None:
        """One of our endpoints is gone: notify the agents that watch it, and end its own watches."""
        for target in sorted(self._watching.get(endpoint, ())):
            self.unwatch(endpoint, target, out)
        watched = self.watched.get(endpoint)
        if watched is not None:
            self._report(endpoint, watched, False, why, out, final=True)
        askers = self.asked_by.pop(endpoint, {})
        self._askers -= len(askers)
        out.extend(
            self._send(LifeTold(self._new_id(), watcher, endpoint, False, why)) for watcher in sorted(askers)
        )

    # What the servers tell us

    def link_up(self, out: list[Effect]) -> None:
        self._up = True
        for target in self._remote():
            self._ask(target, self.watched[target], out)

    def link_down(self, out: list[Effect]) -> None:
        self._up = False
        self._askers = 0
        self.asked_by.clear()  # their side of the cut notifies them, and they ask again when it heals
        for target in self._remote():
            self.watched[target].unanswered = 0
            self._report(target, self.watched[target], False, ISOLATED, out)

    def domain_failed(self, domain: Domain, keep: bool, out: list[Effect]) -> None:
        for target in self._remote():
            if inside(domain, target) != keep:
                self._report(target, self.watched[target], False, UNREACHABLE, out)

    def asked(self, now: Instant, message: LifeAsked, here: bool, out: list[Effect]) -> None:
        if host_of(message.endpoint) != self.host:
            out.append(Ignored("LifeAsked", why="not here"))
        elif message.stop:
            askers = self.asked_by.get(message.endpoint, {})
            self._askers -= askers.pop(message.watcher, None) is not None
            if not askers:
                self.asked_by.pop(message.endpoint, None)
        else:
            why = "" if here else UNKNOWN
            known = message.watcher in self.asked_by.get(message.endpoint, ())
            if here and (known or self._askers < self._config.lives_asked_max):
                self._askers += not known
                self.asked_by.setdefault(message.endpoint, {})[message.watcher] = now
                self._keep_refreshing(out)
            out.append(self._send(LifeTold(self._new_id(), message.watcher, message.endpoint, here, why)))

    def told(self, message: LifeTold, out: list[Effect]) -> None:
        watched = self.watched.get(message.endpoint)
        if watched is None or watched.final:
            out.append(Ignored("LifeTold", why="not watched"))
            return
        if host_of(message.endpoint) == self.host:
            out.append(Ignored("LifeTold", why=OUTSIDE))
            return
        # The id names the origin: a death reported by the endpoint's own agent is final, a server's report
        # is about reachability only. Servers forward it only from the endpoint's side, so a report in the
        # agent's name is by that agent, or by a server between it and us.
        first_hand = message.id.server == host_of(message.endpoint)
        watched.unanswered = 0
        final = first_hand and not message.alive
        self._report(message.endpoint, watched, message.alive, message.why, out, final)

    def refresh(self, now: Instant, out: list[Effect]) -> None:
        self._refreshing = False
        if self._up:
            for target in self._remote():
                watched = self.watched[target]
                if watched.unanswered > self._config.life_missed_max:
                    self._report(target, watched, False, SILENT, out)
                self._ask(target, watched, out)
        for endpoint in sorted(self.asked_by):
            askers = self.asked_by[endpoint]
            for watcher in [who for who, at in askers.items() if now - at > self._config.life_forget_s]:
                del askers[watcher]
                self._askers -= 1
            if not askers:
                del self.asked_by[endpoint]
        self._keep_refreshing(out)

    # Inside

    def _remote(self) -> list[Endpoint]:
        return sorted(filter(self._is_worth_asking, self.watched))

    def _is_worth_asking(self, target: Endpoint) -> bool:
        return not self.watched[target].final and host_of(target) != self.host

    def _ask(self, target: Endpoint, watched: WatchedEndpoint, out: list[Effect]) -> None:
        watched.unanswered += 1
        out.append(self._send(LifeAsked(self._new_id(), self.host, target)))

    def _report(
        self,
        target: Endpoint,
        watched: WatchedEndpoint,
        alive: bool,
        why: str,
        out: list[Effect],
        final: bool = False,
    ) -> None:
        """Notify the watchers, if the state has changed."""
        changed = watched.alive != alive
        watched.alive, watched.final = alive, final
        if changed:
            watched.why = why
            out.append(Tell(tuple(sorted(watched.watchers)), Life(target, alive, why)))

    def _keep_refreshing(self, out: list[Effect]) -> None:
        if not self._refreshing and (self.asked_by or any(map(self._is_worth_asking, self.watched))):
            self._refreshing = True
            out.append(SetTimer(REFRESH, self._config.life_refresh_s))

    def _send(self, message: LifeAsked | LifeTold) -> Send:
        return Send(parent(self.host), message)
