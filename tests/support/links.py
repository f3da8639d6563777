"""Two ends of one link and a pretend network between them, in virtual time.

    a ──say──▶ Link ~~ delay, loss, duplicates, overtaking, one-way cuts ~~ Link ──history──▶ checks

The network is seeded, so a failing run is its seed. Ends can be paused (as by SIGSTOP: their packets wait,
their tick is late), restarted with a larger incarnation, and given new channels.
"""

import heapq
from collections.abc import Callable, Iterable
from random import Random

from rostra.core.effects import LinkDown, LinkUp, Received
from rostra.names import Domain
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.core import Link, Report
from rostra.protocols.links.events import (
    BatchSubmitted,
    ChannelClosed,
    ChannelOpened,
    PacketArrived,
    Stopped,
    Ticked,
    Transmit,
)
from rostra.protocols.links.invariants import broken
from rostra.protocols.links.packets import AnyPacket

WORLD = "earth"
PARIS = Domain("eu.paris")
HOST = Domain("eu.paris.h1")

Epoch = tuple[int, int]


class End:
    """One end: its link, and everything it ever reported."""

    def __init__(self, path: Domain, peer: Domain, config: LinkConfig) -> None:
        self.path, self.peer, self.config = path, peer, config
        self.incarnation = 1
        self.link = Link(WORLD, path, peer, incarnation=1, config=config)
        self.history: list[tuple[float, Report]] = []
        self.said: dict[Epoch, list[object]] = {}
        self.heard: dict[Epoch, list[object]] = {}
        self.epoch: Epoch | None = None
        self.paused_until = 0.0
        self.tick_due = 0.0  # on its own clock
        self.clock_ahead_s = 0.0
        self.life = 0

    def reports(self, *kinds: type) -> list[Report]:
        return [report for _, report in self.history if isinstance(report, kinds)]

    def ups_and_downs(self) -> list[str]:
        """The story that the core above was told."""
        return [
            "up" if isinstance(report, LinkUp) else f"down: {report.because.what}"
            for report in self.reports(LinkUp, LinkDown)
            if isinstance(report, LinkUp | LinkDown)
        ]

    def when(self, kind: type) -> list[float]:
        return [at for at, report in self.history if isinstance(report, kind)]


class Pair:
    """Runs two ends until told to stop. Every step is checked against the link's invariants."""

    def __init__(
        self,
        config: LinkConfig | None = None,
        *,
        seed: int = 0,
        delay_s: tuple[float, float] = (0.01, 0.01),
        loss: float = 0.0,
        duplicates: float = 0.0,
    ) -> None:
        config = config or LinkConfig.wan()
        self.now = 0.0
        self.random = Random(seed)
        self.delay_s, self.loss, self.duplicates = delay_s, loss, duplicates
        self.a = End(PARIS, HOST, config)
        self.b = End(HOST, PARIS, config)
        self.cut_from: set[Domain] = set()
        self.transmitted: list[tuple[float, Domain, AnyPacket]] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._tie = 0
        self._channel = 0
        for end in (self.a, self.b):
            self._schedule_tick(end, self.random.uniform(0.0, config.tick_s))
        self.open_channels()

    def other(self, end: End) -> End:
        return self.b if end is self.a else self.a

    # What a test does to it

    def run(self, for_s: float) -> None:
        until = self.now + for_s
        while self._agenda and self._agenda[0][0] <= until:
            self.now, _, action = heapq.heappop(self._agenda)
            action()
        self.now = until

    def say(self, end: End, *messages: object) -> bool:
        """Submit a batch if the link is up; a core never speaks into one that is not."""
        if not end.link.up:
            return False
        assert end.link.epoch is not None
        self.step(end, BatchSubmitted(messages), epoch=end.link.epoch)
        return True

    def cut(self, *senders: End) -> None:
        """Nothing from these ends arrives any more; by default nothing at all."""
        self.cut_from = {end.path for end in senders or (self.a, self.b)}

    def heal(self) -> None:
        self.cut_from = set()
        self.loss = self.duplicates = 0.0

    def pause(self, end: End, for_s: float) -> None:
        end.paused_until = self.now + for_s

    def restart(self, end: End) -> None:
        """The process dies without a word and starts again with an empty memory."""
        end.life += 1
        end.incarnation += 1
        end.epoch = None
        end.link = Link(WORLD, end.path, end.peer, incarnation=end.incarnation, config=end.config)
        # A new life has a new core above it, which starts from Down.
        end.history.append((self.now, RESTARTED))
        self._schedule_tick(end, self.now + end.config.tick_s)
        self.step(end, ChannelOpened(end.peer))

    def close_channels(self) -> None:
        """A connection breaks: what was in it is lost, and both ends are told."""
        self._channel += 1
        for end in (self.a, self.b):
            self.step(end, ChannelClosed(end.peer, "reset"))

    def open_channels(self) -> None:
        self._channel += 1
        for end in (self.a, self.b):
            self.step(end, ChannelOpened(end.peer))

    def stop(self, end: End) -> None:
        self.step(end, Stopped())

    def step(self, end: End, event: object, epoch: Epoch | None = None) -> None:
        if isinstance(event, BatchSubmitted):
            assert epoch is not None
            end.said.setdefault(epoch, []).extend(event.messages)
        reports = end.link.step(self.now + end.clock_ahead_s, event)  # type: ignore[arg-type]
        assert not broken(end.link), (self.now, event, broken(end.link))
        for report in reports:
            end.history.append((self.now, report))
            match report:
                case Transmit(packet=packet):
                    self._transmit(end, packet)
                case LinkUp():
                    assert end.link.epoch is not None
                    end.epoch = end.link.epoch
                case LinkDown():
                    end.epoch = None
                case Received(message=message):
                    assert end.epoch is not None, "a message while the peer is down"
                    end.heard.setdefault(end.epoch, []).append(message)

    # How it works inside

    def _at(self, when: float, action: Callable[[], None]) -> None:
        self._tie += 1
        heapq.heappush(self._agenda, (when, self._tie, action))

    def _transmit(self, sender: End, packet: AnyPacket) -> None:
        self.transmitted.append((self.now, sender.path, packet))
        if sender.path in self.cut_from:
            return
        receiver, channel = self.other(sender), self._channel
        for _ in range(1 + (self.random.random() < self.duplicates)):
            if self.random.random() >= self.loss:
                self._at(
                    self.now + self.random.uniform(*self.delay_s),
                    lambda: self._deliver(receiver, packet, channel),
                )

    def _deliver(self, receiver: End, packet: AnyPacket, channel: int) -> None:
        if channel != self._channel:
            return
        if self.now < receiver.paused_until:
            self._at(receiver.paused_until, lambda: self._deliver(receiver, packet, channel))
            return
        self.step(receiver, PacketArrived(receiver.peer, packet))

    def _schedule_tick(self, end: End, due: float) -> None:
        end.tick_due = due + end.clock_ahead_s
        life = end.life
        self._at(due, lambda: self._tick(end, life))

    def _tick(self, end: End, life: int) -> None:
        if life != end.life:
            return
        if self.now < end.paused_until:
            self._at(end.paused_until, lambda: self._tick(end, life))
            return
        self.step(end, Ticked(max(0.0, self.now + end.clock_ahead_s - end.tick_due)))
        self._schedule_tick(end, self.now + end.config.tick_s)


class _Restarted:
    """Marks, in a history, where one life ended and the next began."""


RESTARTED: Report = _Restarted()  # type: ignore[assignment]


# What must hold for any history


def assert_ups_and_downs_alternate(end: End) -> None:
    """C-027: Down at first, then Up, Down, Up; and no message while Down (C-028)."""
    up = False
    for at, report in end.history:
        match report:
            case _Restarted():
                up = False
            case LinkUp():
                assert not up, f"{end.path} at {at}: Up while up"
                up = True
            case LinkDown():
                assert up, f"{end.path} at {at}: Down while down"
                up = False
            case Received():
                assert up, f"{end.path} at {at}: a message while down"


def assert_once_in_order_without_gaps(pair: Pair) -> None:
    """C-026, C-031: of each epoch an end hears a beginning of what the other said in that very epoch."""
    for end in (pair.a, pair.b):
        for (mine, yours), heard in end.heard.items():
            said = pair.other(end).said.get((yours, mine), [])
            assert heard == said[: len(heard)], f"{end.path} heard {heard}, of {said}"


def assert_settled(pair: Pair) -> None:
    """Up on both sides in one and the same epoch, everything said in it heard, nobody suspected."""
    epoch = pair.a.link.epoch
    assert epoch is not None, "a is not up"
    assert pair.b.link.epoch == epoch[::-1], "not the same epoch"
    for end, its_epoch in ((pair.a, epoch), (pair.b, epoch[::-1])):
        assert end.heard.get(its_epoch, []) == pair.other(end).said.get(its_epoch[::-1], [])
        assert not end.link.suspected
        assert end.link.drained


def transmissions(pair: Pair, kind: type, since: float = 0.0) -> Iterable[AnyPacket]:
    return [packet for at, _, packet in pair.transmitted if at >= since and isinstance(packet, kind)]
