"""One end of a control link: messages arrive once and in order, or the epoch ends for both sides.

    Apart ── a packet echoes our session: LinkUp ──▶ Together ── Stopped: Bye, LinkDown ──▶ Over
      ▲                                                 │
      └── LinkDown: silent · ended by peer · restarted ─┘
                    · overflow · closed

**Sessions.** Each end has a session number. Every packet says the sender's own (`mine`) and the receiver's as
the sender knows it (`yours`). An epoch is a pair of sessions; it begins at an end that sees its own current
session echoed, and so knows that the peer receives from it. An end that leaves an epoch, for any reason,
takes a new session. The peer sees a newer session than it knows, leaves too, and takes a new session itself.
Hence no epoch comes back, a packet of an ended one is recognised by its numbers alone (C-031), and both ends
see `LinkDown` before the next `LinkUp` (C-027, C-030).

**Signs of life** are data and beats of the current epoch. A Hello is not: a peer that receives nothing from
us sends it too. It is answered, and the answer is a sign of life.

**Resumption.** Data packets are numbered from 1 in each epoch and kept until acknowledged. A closed channel
does not end the epoch (C-032). On a new channel both ends send a Hello with the last number they have, and
retransmit what the other lacks.

**Memory.** Packets with a lower session than the highest known one of the peer are ignored, also those of an
earlier incarnation. That highest session is forgotten when the peer has been disconnected for twice the
detection time: packets of an earlier incarnation are no longer in flight then, and a peer whose clock went
back, or in whose name an impostor came with a later number, is accepted again.

Where we differ from the paper, and why: Congress assumes such links and gives no protocol. Its detector may
report one side only, after which the other never re-announces itself (T-30); sessions make that impossible.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from rostra.core.effects import Effect, Event, Ignored, Instant, LinkDown, LinkUp, Received, ignored
from rostra.groups.members import Because
from rostra.names import Domain
from rostra.protocols.detect.core import Detector, PeerVerdict
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.events import (
    BatchSubmitted,
    ChannelClosed,
    ChannelOpened,
    LinkEvidence,
    PacketArrived,
    Removed,
    Stopped,
    Suspected,
    Ticked,
    Transmit,
    Trusted,
)
from rostra.protocols.links.packets import (
    NOBODY,
    SESSIONS_PER_LIFE,
    AnyPacket,
    Beat,
    Bye,
    Data,
    Hello,
)
from rostra.protocols.links.state import Apart, LinkClosed, Together

Report = Effect | LinkUp | LinkDown | Received

OLDER: Final = "older incarnation"
WE_ARE_OLDER: Final = "we are an older incarnation"
OLD_EPOCH: Final = "old epoch"

RESEND_PACKETS_MAX: Final = 64
"""Resent at one tick; if they were lost again, so would be the rest."""


class Link:
    """Our end of the link to one neighbour."""

    __slots__ = (
        "_beat_after_s",
        "_channel_open",
        "_detector",
        "_incarnation",
        "_known_at",
        "_mine",
        "_replicated",
        "_ticked_at",
        "_weigh",
        "_world",
        "_yours",
        "arrived_at",
        "awaited",
        "awaiting",
        "config",
        "me",
        "peer",
        "peer_incarnation",
        "state",
    )

    def __init__(
        self,
        world: str,
        me: Domain,
        peer: Domain,
        *,
        incarnation: int,
        config: LinkConfig,
        replicated: bool = False,  # is the peer's server, and is it awaited when an epoch ends?
        first_session: int = 1,
        weigh: Callable[[object], int] = lambda message: 0,  # bytes that a message carries besides its names
    ) -> None:
        self.me = me
        self.peer = peer
        self.state: Apart | Together | LinkClosed = Apart(0.0, config.reconnect_backoff_s)
        self._world = world
        self._incarnation = incarnation
        self.config = config
        self._weigh = weigh
        self._mine = incarnation * SESSIONS_PER_LIFE + first_session
        self._yours = NOBODY
        self.peer_incarnation = 0  # of the latest life that we know of
        self._known_at: Instant = 0.0  # when we last had its session from itself
        self._channel_open = False
        self._replicated = replicated
        self.awaiting = False  # in our present session: the core takes the peer to be up, and waits for it
        self.awaited = False  # the same of the peer, in its present session
        self.arrived_at: Instant | None = None  # anything at all, also from a peer that does not hear us
        self._ticked_at: Instant = 0.0
        self._detector = Detector(config.detect)
        # Half a tick early rather than half a tick late: ticks are not exact.
        self._beat_after_s = config.detect.heartbeat_interval_s - config.tick_s / 2

    @property
    def up(self) -> bool:
        return isinstance(self.state, Together)

    @property
    def suspected(self) -> bool:
        return isinstance(self.state, Together) and self.state.suspected

    @property
    def drained(self) -> bool:
        """The peer has everything we sent, as far as it ever will."""
        return not isinstance(self.state, Together) or self.state.queued == 0

    @property
    def backlog(self) -> int:
        """Messages that the peer has not acknowledged yet."""
        return self.state.queued if isinstance(self.state, Together) else 0

    @property
    def epoch(self) -> tuple[int, int] | None:
        """Our session and the peer's, while the link is up."""
        return (self._mine, self._yours) if isinstance(self.state, Together) else None

    @property
    def sessions(self) -> int:
        """How many sessions of this life are behind us."""
        return self._mine - self._incarnation * SESSIONS_PER_LIFE

    def is_echoed_by(self, hello: Hello) -> bool:
        """Does this peer know our current session? Only a peer that received it from us does."""
        return hello.yours == self._mine

    def step(self, now: Instant, event: Event) -> list[Report]:
        if type(event) is Ticked:
            return self._ticked(now, event.late_s)
        if type(event) is PacketArrived:
            return self._arrived(now, event.packet)
        match event:
            case BatchSubmitted(messages):
                return self._submitted(now, messages)
            case ChannelOpened():
                return self._channel_opened(now)
            case ChannelClosed():
                return self._channel_closed()
            case Stopped(why):
                return self._stopped(now, why)
        raise AssertionError(f"not an event of a link: {event!r}")

    # What arrives

    def _arrived(self, now: Instant, packet: AnyPacket) -> list[Report]:
        state = self.state
        self.arrived_at = now
        if isinstance(state, LinkClosed):
            return [ignored(packet, why="link is over")]
        if isinstance(packet, Hello):
            return self._greeted(now, packet)
        if packet.yours != self._mine or packet.mine != self._yours:
            return [ignored(packet, why=OLD_EPOCH)]
        if isinstance(packet, Bye):
            return self._end(now, "closed") if self.up else [Ignored("Bye", why="apart already")]
        if isinstance(state, Together):
            return self._heard(now, state, packet)
        # The peer echoes our session, so it hears us; and we know its own from an earlier hello.
        reports, together = self._begin(now)
        return reports + self._heard(now, together, packet)

    def _heard(self, now: Instant, state: Together, packet: Data | Beat) -> list[Report]:
        reports: list[Report] = []
        # Liveness first: whatever the packet brings, the core hears it from a trusted peer (C-028).
        if state.suspected:
            state.suspected = False
            reports.append(Trusted(self.peer, self._detector.silence_s(now)))
        self._detector.heard(now)
        if packet.received > state.acknowledged:
            self._acknowledged(now, state, packet.received, reports)
        if not state.flowing and self._channel_open:
            self._resume(now, state, reports)
        if isinstance(packet, Data):
            self._take(now, state, packet, reports)
        return reports

    def _take(self, now: Instant, state: Together, data: Data, reports: list[Report]) -> None:
        """Pass up what is next in order, buffer what is early; an acknowledgement is due for all of it."""
        ahead = data.number - state.received
        if ahead == 1:
            self._hand_up(state, data, reports)
            while state.early and (due := state.early.pop(state.received + 1, None)) is not None:
                self._hand_up(state, due, reports)
            if state.owed >= self.config.acknowledge_messages and self._channel_open:
                reports.append(self._beat(now, state))
            return
        state.owed += 1
        if ahead <= 0 or data.number in state.early:
            reports.append(Ignored("Data", why="duplicate"))
        elif self.config.resend_after_s is None:
            reports.append(
                Ignored("Data", why="out of order")
            )  # by no channel of ours: it would wait for ever
        elif ahead > self.config.window_packets_max:
            reports.append(Ignored("Data", why="beyond the window"))
        else:
            state.early[data.number] = data

    def _hand_up(self, state: Together, data: Data, reports: list[Report]) -> None:
        state.received = data.number
        state.owed += len(data.messages)
        peer = self.peer
        for message in data.messages:
            reports.append(Received(peer, message))  # noqa: PERF401 (an extend would build a second list)

    def _greeted(self, now: Instant, hello: Hello) -> list[Report]:
        if why := self.refusal(hello):
            return [Ignored("Hello", why)]
        self._known_at = now
        reports: list[Report] = []
        if hello.mine > self._yours:
            if self.up:
                restarted = hello.incarnation > self.peer_incarnation
                reports = self._leave(now, "restarted" if restarted else "ended by peer")
            self._yours, self.peer_incarnation = hello.mine, hello.incarnation
            self.awaited = hello.awaiting
        state = self.state
        if hello.yours != self._mine:
            if isinstance(state, Together):
                # Sent before the peer learnt our session, and overtaken by what it sent after.
                return [Ignored("Hello", why=OLD_EPOCH)]
            if self._channel_open:
                reports.append(Transmit(self.peer, self._hello()))
            return reports
        if not isinstance(state, Together):
            began, state = self._begin(now)
            reports += began
        self._acknowledged(now, state, hello.received, reports)
        if self._channel_open and not (state.flowing and state.in_flight and state.resumed_at == now):
            # The peer has a new channel, or has received nothing yet; either way it may lack what we sent.
            # For hellos that come at once it is sent once.
            self._resume(now, state, reports)
        return reports

    def refusal(self, hello: Hello) -> str | None:
        """Why this Hello is ignored; None if it is not."""
        if hello.world != self._world:
            return "another world"
        if hello.path != self.peer or hello.to not in (self.me, ""):
            return "not meant for this link"
        if hello.incarnation < self.peer_incarnation:
            # An old life of the peer, or a second server that runs under its name (C-182).
            return OLDER
        if hello.yours > self._mine:
            # The same, seen from the other side: a later incarnation under our name exists or existed.
            return WE_ARE_OLDER
        if hello.mine < self._yours:
            return OLD_EPOCH
        return None

    # Sending

    def _submitted(self, now: Instant, messages: tuple[object, ...]) -> list[Report]:
        state = self.state
        assert isinstance(state, Together), f"{self.me} has no epoch with {self.peer} to say this in"
        size, step = len(messages), self.config.packet_messages_max
        # Weighed once for each message: the list of a crowd is long, and its acknowledgement comes in a busy
        # turn.
        if size <= step:
            pieces, weight = [messages], sum(map(self._weigh, messages))
            weights = [weight]
        else:
            pieces = [messages[start : start + step] for start in range(0, size, step)]
            weights = [sum(map(self._weigh, piece)) for piece in pieces]
            weight = sum(weights)
        if (
            state.queued + size > self.config.queue_messages_max
            or state.queued_bytes + weight > self.config.queue_bytes_max
        ):
            return self._end(now, "overflow")
        state.queued += size
        state.queued_bytes += weight
        state.weights += weights
        state.waiting += pieces
        reports: list[Report] = []
        self._pump(now, state, reports)
        return reports

    def _pump(self, now: Instant, state: Together, reports: list[Report]) -> None:
        """Send what waits, as far as the window allows."""
        if state.flowing:
            while state.waiting and len(state.in_flight) < self.config.window_packets_max:
                reports.append(self._data(now, state, state.waiting.popleft()))

    def _data(self, now: Instant, state: Together, messages: tuple[object, ...]) -> Transmit:
        if not state.in_flight:
            state.progress_at = now
        state.numbered += 1
        data = Data(self._mine, self._yours, state.numbered, state.received, messages)
        state.in_flight.append(data)
        state.sent_at = now
        state.owed = 0
        return Transmit(self.peer, data)

    def _acknowledged(self, now: Instant, state: Together, received: int, reports: list[Report]) -> None:
        in_flight = state.in_flight
        while in_flight and in_flight[0].number <= received:
            data = in_flight.popleft()
            state.acknowledged = data.number
            state.queued -= len(data.messages)
            state.queued_bytes -= state.weights.popleft()
            state.progress_at = now
        if state.waiting:
            self._pump(now, state, reports)

    def _resume(self, now: Instant, state: Together, reports: list[Report]) -> None:
        """The peer has just acknowledged: send the rest again, then what waited, then a beat."""
        state.flowing = True
        state.progress_at = state.resumed_at = now
        reports.extend(Transmit(self.peer, data) for data in state.in_flight)
        self._pump(now, state, reports)
        reports.append(self._beat(now, state))

    def _beat(self, now: Instant, state: Together) -> Transmit:
        state.sent_at = now
        state.owed = 0
        return Transmit(self.peer, Beat(self._mine, self._yours, state.received))

    def _hello(self) -> Hello:
        received = self.state.received if isinstance(self.state, Together) else 0
        return Hello(
            self._mine,
            self._yours,
            self._world,
            self.me,
            self._incarnation,
            received=received,
            to=self.peer,
            awaiting=self.awaiting,
        )

    # The channel

    def _channel_opened(self, now: Instant) -> list[Report]:
        state = self.state
        if isinstance(state, LinkClosed):
            return [Ignored("ChannelOpened", why="link is over")]
        self._channel_open = True
        if isinstance(state, Together):
            state.flowing = False
            state.sent_at = now
        elif isinstance(state, Apart):
            state.backoff_s = self.config.reconnect_backoff_s
            state.hello_at = now + state.backoff_s
        return [Transmit(self.peer, self._hello())]

    def _channel_closed(self) -> list[Report]:
        if not self._channel_open:
            return [Ignored("ChannelClosed", why="no channel")]
        self._channel_open = False
        if isinstance(self.state, Together):
            self.state.flowing = False
        return []

    # The passing of time

    def _ticked(self, now: Instant, late_s: float) -> list[Report]:
        state = self.state
        if now < self._ticked_at:
            self._stepped_back(now)
        self._ticked_at = now
        self._detector.ticked(now, late_s)
        if isinstance(state, Apart):
            self._forget(now, state)
            return self._seek(now, state)
        if isinstance(state, LinkClosed):
            return []
        reports: list[Report] = []
        verdict = self._detector.judge(now)
        if verdict is not PeerVerdict.ALIVE and not state.suspected:
            state.suspected = True
            reports.append(Suspected(self.peer, self.evidence(now)))
        if verdict is PeerVerdict.GONE:
            return reports + self._end(now, "silent")
        if self._channel_open:
            self._keep_alive(now, state, reports)
        return reports

    def _stepped_back(self, now: Instant) -> None:
        """A clock that jumps forward looks like a late tick; one that jumps back must not stop our beats."""
        self._detector.stepped_back(now)
        state = self.state
        if isinstance(state, Apart):
            state.hello_at = min(state.hello_at, now + state.backoff_s)
            state.since, self._known_at = min(state.since, now), min(self._known_at, now)
        elif isinstance(state, Together):
            state.sent_at = min(state.sent_at, now)
            state.progress_at = min(state.progress_at, now)

    def _forget(self, now: Instant, apart: Apart) -> None:
        if (
            self._yours != NOBODY
            and now - max(apart.since, self._known_at) >= self.config.detect.down_after_s
        ):
            self._yours, self.peer_incarnation = NOBODY, 0

    def _seek(self, now: Instant, apart: Apart) -> list[Report]:
        if not self._channel_open or now < apart.hello_at:
            return []
        apart.backoff_s = min(2 * apart.backoff_s, self.config.reconnect_backoff_max_s)
        apart.hello_at = now + apart.backoff_s
        return [Transmit(self.peer, self._hello())]

    def _keep_alive(self, now: Instant, state: Together, reports: list[Report]) -> None:
        """Send what is due: retransmissions, an acknowledgement, or a heartbeat."""
        quiet = now - state.sent_at >= self._beat_after_s
        if not state.flowing:
            if quiet:
                state.sent_at = now
                reports.append(Transmit(self.peer, self._hello()))
            return
        resend_after_s = self.config.resend_after_s
        if resend_after_s is not None and state.in_flight and now - state.progress_at >= resend_after_s:
            state.progress_at = now
            reports.extend(Transmit(self.peer, data) for data in islice(state.in_flight, RESEND_PACKETS_MAX))
        if quiet or state.owed:
            reports.append(self._beat(now, state))

    # The ends of an epoch

    def _begin(self, now: Instant) -> tuple[list[Report], Together]:
        self.state = together = Together(now, flowing=self._channel_open)
        self._detector.begin(now)
        return [LinkUp(self.peer, self.peer_incarnation)], together

    def _leave(self, now: Instant, what: str) -> list[Report]:
        """Our new session tells the peer, at the next contact, that this epoch is over for it too."""
        because = Because(self.me, self.peer, what)
        evidence = self.evidence(now)
        self._mine += 1
        self.awaiting = self._replicated
        self.state = Apart(now + self.config.reconnect_backoff_s, self.config.reconnect_backoff_s, now)
        return [Removed(because, evidence), LinkDown(self.peer, because)]

    def wait_no_more(self) -> None:
        """The core gets `LinkDown` for the last epoch. Our earlier `Hello.awaiting` is void, so that the peer
        does not believe that the end was not announced here."""
        if self.awaiting and isinstance(self.state, Apart):
            self._mine += 1
            self.awaiting = False

    def _end(self, now: Instant, what: str) -> list[Report]:
        """Leave the epoch, and tell the peer, unless it has closed the link itself."""
        reports = self._leave(now, what)
        if self._channel_open and what != "closed":
            reports.append(Transmit(self.peer, self._hello()))
        return reports

    def _stopped(self, now: Instant, why: str) -> list[Report]:
        reports: list[Report] = []
        if self._channel_open and self._yours != NOBODY and not isinstance(self.state, LinkClosed):
            reports.append(Transmit(self.peer, Bye(self._mine, self._yours, why)))
        if self.up:
            reports += self._leave(now, "closed")
        self.state = LinkClosed()
        return reports

    def evidence(self, now: Instant) -> LinkEvidence:
        """What is known at this moment about whether the peer lives."""
        detect, detector = self.config.detect, self._detector
        return LinkEvidence(
            accuser=self.me,
            accused=self.peer,
            at=now,
            silence_s=detector.silence_s(now),
            expected_s=detector.rhythm.mean_s,
            phi=detector.phi(now),
            phi_threshold=detect.suspect_phi,
            down_after_s=detect.down_after_s,
            own_lateness_s=detector.own_lateness_s,
            channel_open=self._channel_open,
        )
