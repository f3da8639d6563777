"""One server's stack, top to bottom.

    programs                (an agent's only)
       │  Asked ▼                        ▲ Tell, Answer
    ┌──┴─────────────────────────────────┴──┐
    │ core      LocalServer or DomainServer │   who is in which group, and who must hear of it;
    │           (in HostCore, ClusterCore)  │   around that, in clusters: what is said in groups
    ├───────────────────────────────────────┤
    │ links     one per neighbour           │   once and in order, or the epoch ends; is it alive?
    ├───────────────────────────────────────┤
    │ trail     what both have seen         │   beside the way: asked by `rostra why`, and by nobody else
    └──┬─────────────────────────────────┬──┘
       │  PacketArrived ▲                ▼ Transmit
    neighbours

A node is as sans-IO as the cores in it. Its driver feeds events to `step` and, when it has run out of input
for the moment, calls `flush`, which makes one packet per neighbour out of everything said to it since.
"""

from collections.abc import Iterable
from typing import Final

from rostra.names import ROOT, Domain, parent
from rostra.protocols.adhoc.core import HostCore
from rostra.protocols.effects import (
    Answer,
    Asked,
    Core,
    Effect,
    Event,
    Ignored,
    Instant,
    LinkDown,
    LinkUp,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.core import Link
from rostra.protocols.links.events import (
    ChannelClosed,
    ChannelOpened,
    PacketArrived,
    Stopped,
    Submitted,
    Ticked,
)
from rostra.protocols.resolve.local import LocalServer
from rostra.protocols.resolve.messages import Inquiry, Report
from rostra.protocols.resolve.requests import Recall, Recalled
from rostra.protocols.resolve.trail import Trail

TICK: Final = ("tick",)

Output = Effect | LinkUp | LinkDown


class Node:
    """The stack of one agent (its path is a host's) or one domain server (its path is a domain's)."""

    def __init__(
        self,
        world: str,
        path: Domain,
        core: Core,
        *,
        incarnation: int,
        config: LinkConfig,
        siblings: Iterable[Domain] = (),
        has_parent: bool = True,  # not where nobody serves the root, which carries no traffic anyway (C-020)
        accepts_children: bool = False,
    ) -> None:
        self.world = world
        self.path = path
        self.core = core
        self.incarnation = incarnation
        self.links: dict[Domain, Link] = {}
        self.trail = Trail(path, config)
        self._config = config
        self._accepts_children = accepts_children
        self._outbox: dict[Domain, list[object]] = {}
        self._tick_due: Instant = 0.0
        self._stopped = False
        above = (parent(path),) if has_parent and path != ROOT else ()
        for peer in (*above, *sorted(siblings)):
            self.links[peer] = self._new_link(peer)

    def start(self, now: Instant) -> list[Output]:
        """The first effects, before any event."""
        self.trail.began(now)
        self._tick_due = now + self._config.tick_s
        return [SetTimer(TICK, self._config.tick_s)]

    def step(self, now: Instant, event: Event) -> list[Output]:
        if self._stopped:
            return [Ignored(type(event).__name__, why="stopped")]
        outputs: list[Output] = []
        match event:
            case PacketArrived(peer) | ChannelOpened(peer):
                link = self.links.get(peer) or self._adopt(peer)
                if link is None:
                    return [Ignored(type(event).__name__, why="not a neighbour")]
                self._report(now, link.step(now, event), outputs)
            case ChannelClosed(peer):
                link = self.links.get(peer)
                if link is None:
                    return [Ignored("ChannelClosed", why="not a neighbour")]
                self._report(now, link.step(now, event), outputs)
            case TimerFired(timer) if timer == TICK:
                ticked = Ticked(max(0.0, now - self._tick_due))
                self.trail.ticked(now, ticked.late_s)
                for link in list(self.links.values()):
                    self._report(now, link.step(now, ticked), outputs)
                self._tick_due = now + self._config.tick_s
                outputs.append(SetTimer(TICK, self._config.tick_s))
            case Asked(_, token, Recall(about, of)) if of == self.path:
                outputs.append(Answer(token, Recalled(self._recall(now, about, self.path))))
            case _:
                self._drive(now, event, outputs)
        return outputs

    def flush(self, now: Instant) -> list[Output]:
        """One packet for each neighbour that something was said to since the last flush."""
        outputs: list[Output] = []
        # More than one round only if a link overflows: what the core then says to others is said now as well.
        while self._outbox:
            outbox, self._outbox = self._outbox, {}
            for peer, messages in outbox.items():
                self._report(now, self.links[peer].step(now, Submitted(tuple(messages))), outputs)
        return outputs

    def stop(self, now: Instant, why: str) -> list[Output]:
        """Say goodbye on every link. The core is not told that they are down: it ends with us."""
        self._stopped = True
        self._outbox.clear()
        reports = [report for link in self.links.values() for report in link.step(now, Stopped(why))]
        return [report for report in reports if not isinstance(report, Received)]

    def meet(self, peer: Domain) -> bool:
        """A neighbour that joined the world after us: have a link for it; is it new?"""
        if peer in self.links:
            return False
        self.links[peer] = self._new_link(peer)
        return True

    def is_up(self, peer: Domain) -> bool:
        link = self.links.get(peer)
        return link is not None and link.up

    def _report(self, now: Instant, reports: Iterable[Event | Effect], outputs: list[Output]) -> None:
        """Pass a link's reports to the core, in order, and its orders to the driver."""
        for report in reports:
            match report:
                case Received(sender, message):
                    if type(message) is Inquiry and message.to == self.path:
                        memory = self._recall(now, message.about, message.asker)
                        answer = Report(message.id, message.asker, self.path, memory)
                        self._outbox.setdefault(sender, []).append(answer)
                    else:
                        self._drive(now, report, outputs)
                case LinkDown(peer):
                    # What was still waiting to be said belonged to the epoch that has just ended.
                    self._outbox.pop(peer, None)
                    outputs.append(report)
                    self._drive(now, report, outputs)
                case LinkUp():
                    self.trail.linked(now, report)
                    outputs.append(report)
                    self._drive(now, report, outputs)
                case Effect():
                    self.trail.linked(now, report)
                    outputs.append(report)

    def _drive(self, now: Instant, event: Event, outputs: list[Output]) -> None:
        effects = self.core.step(now, event)
        self.trail.saw(now, event, effects)
        self._perform(effects, outputs)

    def _recall(self, now: Instant, about: str, asker: Domain) -> bytes:
        present = self.core.present(about) if isinstance(self.core, LocalServer | HostCore) else ()
        return self.trail.about(now, about, asker, self.links, present)

    def _perform(self, effects: Iterable[Effect], outputs: list[Output]) -> None:
        for effect in effects:
            if type(effect) is Send:
                self._outbox.setdefault(effect.to, []).append(effect.message)
            else:
                outputs.append(effect)

    def _adopt(self, peer: Domain) -> Link | None:
        """A server one label below us proves by its path that it is a child (C-021)."""
        if not self._accepts_children or peer == ROOT or parent(peer) != self.path:
            return None
        self.links[peer] = self._new_link(peer)
        return self.links[peer]

    def _new_link(self, peer: Domain) -> Link:
        return Link(self.world, self.path, peer, incarnation=self.incarnation, config=self._config)
