"""One node, an agent or a server: its stack of services and its links.

    programs                (an agent's only)
       │  Asked ▼                        ▲ Tell, Answer
    ┌──┴─────────────────────────────────┴──┐
    │ stack     its services                │   messages of groups; membership
    ├───────────────────────────────────────┤
    │ links     one per neighbour           │   once and in order, or the epoch ends; failure detection
    ├───────────────────────────────────────┤
    │ trail     what both have seen         │   a bounded history, read by `rostra why` only
    └──┬─────────────────────────────────┬──┘
       │  PacketArrived ▲                ▼ Transmit
    neighbours

**Replicas.** The failure of a neighbour that has replicas is not reported at once. For a grace period the
core still takes it to be up, and messages to it are dropped; if another replica is linked in time, and has
not reported our failure either, the core gets `LinkMoved` instead of `LinkDown` (C-162). A replica that takes
over begins in the same way, with all neighbours of its predecessor (C-163). If only one side waited, both get
`LinkDown`: a server that declared a stalled agent dead has notified other servers, and the agent's core must
know.

A server that has replicas itself sends nothing that depends on a record before a majority of them has it: the
effects after `Secure` wait (`core/secure.py`). The same holds at a node without replicas whose disk is full.

**A step is bounded.** A packet of a crowd may bring hundreds of messages, each for hundreds of programs.
After `WORK_MAX` orders and listed members the messages that are left wait, in order, for the timer `GO_ON`:
meanwhile links go on answering. The driver lets it fire in the same turn if that is not long yet, so that
messages which came together still share their notices; otherwise in the next, after it has read its sockets.
An epoch of a link neither begins nor ends for the core before it has all messages of the one before.

**Children** are not configured: any server one label below ours may connect. So there is a bound on their
number, and one that has been down for ten minutes is forgotten.

A node is as sans-IO as the cores in it. Its driver feeds events to `step` and, when its input is exhausted
for the moment, calls `flush`, which makes one packet per neighbour out of all messages to it since.
"""

from collections import deque
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from rostra.core.disk import RoomChanged
from rostra.core.effects import (
    Answer,
    Asked,
    CancelTimer,
    Effect,
    Event,
    Ignored,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Received,
    Secure,
    Secured,
    Send,
    SetTimer,
    TimerFired,
    ignored,
)
from rostra.core.observer import BESIDE, NodeBegan
from rostra.core.secure import WaitingEffects
from rostra.core.stack import Stack
from rostra.groups.members import Because
from rostra.names import ROOT, Domain, is_reserved, parent
from rostra.protocols.access.messages import ProofShown
from rostra.protocols.links.config import LinkConfig
from rostra.protocols.links.core import Link
from rostra.protocols.links.events import (
    Awaited,
    BatchSubmitted,
    ChannelClosed,
    ChannelOpened,
    Forgotten,
    PacketArrived,
    Removed,
    Stopped,
    Ticked,
    Transmit,
)
from rostra.protocols.links.packets import SESSIONS_PER_LIFE
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.messages import (
    EndpointsJoined,
    Inquiry,
    InquiryReply,
    ResolveReply,
    Routed,
    weight,
)
from rostra.protocols.relaxed.requests import Recall, Recalled
from rostra.protocols.relaxed.trail import Trail

TICK: Final = ("tick",)
GRACE: Final = "grace"  # with the path of a neighbour: the timer that ends the wait for one of its replicas

GO_ON: Final = ("go on",)
GO_ON_S: Final = 0.001
"""Where the driver has no turns. Not 0: a timer that is due already may fire before this step has ended."""

WORK_MAX: Final = 2_048
"""Orders of one step, and members in the lists that it was sent: some ten milliseconds' work. Raising it:
links and pings wait for longer behind a crowd. Lowering it: more steps for the same work."""

ENTRY_BYTES: Final = 16
"""Of a message through the servers, what counts as one: a stream's start in it has some 40 bytes, and costs
as much as two members of a list. Raising it: steps with many such messages are longer."""

PROOF_WEIGHS: Final = 64
"""What a member of a restricted group counts as: its proof is a signature to verify, a third of a
millisecond. Raising it: more steps for the same work where proofs are known already."""

REST_MAX: Final = 8_192
"""Messages that may wait so. Beyond that steps are longer: what a peer sends faster is not kept for it."""

CHILDREN_MAX: Final = 16_384
"""Links that come from below. Raising it: invented names cost more memory, 2 KB each."""

FORGOTTEN_AFTER_S: Final = 600.0

_LISTS: Final = (EndpointsJoined, ResolveReply)

Output = Effect | LinkUp | LinkDown | LinkMoved


class Node:
    """One agent (its path is a host's) or one domain server (its path is a domain's)."""

    def __init__(
        self,
        world: str,
        path: Domain,
        stack: Stack,
        *,
        incarnation: int,
        config: LinkConfig,
        siblings: Iterable[Domain] = (),
        has_parent: bool = True,  # False where the root has no server; it carries no traffic anyway (C-020)
        accepts_children: bool = False,
        replicated: Iterable[Domain] = (),  # neighbours whose servers have replicas
        known: Iterable[Domain] = (),  # neighbours of the one whose place we take
        luck: int = 0,  # so that strangers cannot guess our sessions
        is_replica: bool = False,  # there are others of us: what is to be secured waits for a majority
    ) -> None:
        self.world = world
        self.path = path
        self.stack = stack
        self.incarnation = incarnation
        self.links: dict[Domain, Link] = {}
        self.trail = Trail(path, config)
        self._config = config
        self._accepts_children = accepts_children
        self._outbox: dict[Domain, list[object]] = {}
        self.messages_sent = 0  # to all neighbours
        self._tick_due: Instant = 0.0
        self._stopped = False
        self._replicated = frozenset(replicated)
        self._known = tuple(sorted(known))
        self._luck = luck
        self._children: dict[Domain, Instant] = {}  # that came by themselves, and when
        self._sessions_spent = 0  # by links that were forgotten: a later one goes on above them
        self.waiting = WaitingEffects(replicated=is_replica)
        self._rest: deque[Received] = deque()  # what links have handed up, for the next steps
        self._read = 0  # members in the lists of this step
        self._held: dict[Domain, list[Removed | LinkDown]] = {}  # what the core gets when the grace ends
        above = (parent(path),) if has_parent and path != ROOT else ()
        for peer in (*above, *sorted(siblings)):
            self.links[peer] = self._new_link(peer)

    def start(self, now: Instant) -> list[Output]:
        """The first effects, before any event."""
        self.trail.saw(now, self.path, NodeBegan(), ())
        self._tick_due = now + self._config.tick_s
        outputs: list[Output] = [SetTimer(TICK, self._config.tick_s)]
        self._perform(self.stack.begin(now), outputs)
        for peer in self._known:
            if peer not in self.links and self._adopt(now, peer, outputs) is None:
                outputs.append(Ignored("known", why="not a neighbour"))
                continue
            self.links[peer].awaiting = True
            self._hold(peer, [LinkDown(peer, Because(self.path, peer, "silent"))], outputs)
            self._drive(now, LinkUp(peer, 0), outputs)
        return outputs

    def step(self, now: Instant, event: Event) -> list[Output]:
        if self._stopped:
            return [ignored(event, why="stopped")]
        outputs: list[Output] = []
        self._read = 0
        if now >= self.stack.alarm_at:
            self._drive(now, TimerFired(self.stack.alarm), outputs)
        if (lane := self.stack.lanes.get(type(event))) is not None:
            self._perform(lane(now, event), outputs)
            return outputs
        if type(event) is PacketArrived:  # this and ticks are most of what happens
            link = self.links.get(event.peer) or self._adopt(now, event.peer, outputs)
            if link is None:
                return [ignored(event, why="not a neighbour")]
            if reports := link.step(now, event):
                self._report(now, reports, outputs)
            return outputs
        if type(event) is TimerFired and event.timer == TICK:
            self._tick(now, outputs)
            return outputs
        match event:
            case ChannelOpened(peer):
                link = self.links.get(peer) or self._adopt(now, peer, outputs)
                if link is None:
                    return [ignored(event, why="not a neighbour")]
                self._report(now, link.step(now, event), outputs)
            case ChannelClosed(peer):
                link = self.links.get(peer)
                if link is None:
                    return [Ignored("ChannelClosed", why="not a neighbour")]
                self._report(now, link.step(now, event), outputs)
            case TimerFired(timer) if timer == GO_ON:
                self._go_on(now, outputs)
            case TimerFired((word, peer)) if word == GRACE and peer in self._held:
                self.links[Domain(str(peer))].wait_no_more()
                self._give_up(now, Domain(str(peer)), outputs)
            case Asked(_, token, Recall(about, of)) if of == self.path:
                outputs.append(Answer(token, Recalled(self._recall(now, about, self.path))))
            case Secured(version):
                self._perform(self.waiting.secured(version), outputs)
            case RoomChanged(lacking):
                self._perform(self.waiting.room_changed(lacking), outputs)
                self._drive(now, event, outputs)
            case _:
                self._drive(now, event, outputs)
        return outputs

    def _tick(self, now: Instant, outputs: list[Output]) -> None:
        ticked = Ticked(max(0.0, now - self._tick_due))
        self.trail.saw(now, self.path, ticked, ())
        for link in list(self.links.values()):
            if reports := link.step(now, ticked):
                self._report(now, reports, outputs)
            if self._children and self._is_silent(now, link):
                self._forget(link.peer, outputs)
        self._tick_due = now + self._config.tick_s
        outputs.append(SetTimer(TICK, self._config.tick_s))

    def flush(self, now: Instant) -> list[Output]:
        """One packet for each neighbour with messages since the last flush."""
        outputs: list[Output] = []
        # More than one round only if a link overflows: what the core then sends is flushed now as well.
        while self._outbox:
            outbox, self._outbox = self._outbox, {}
            for peer, messages in outbox.items():
                self.messages_sent += len(messages)
                self._report(now, self.links[peer].step(now, BatchSubmitted(tuple(messages))), outputs)
        return outputs

    def stop(self, now: Instant, why: str) -> list[Output]:
        """Say goodbye on every link. The core gets no `LinkDown`: it ends with us."""
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

    def part(self, now: Instant, peer: Domain) -> list[Output]:
        """A neighbour that is not one any more, by the configuration: a goodbye, and no link to it from now
        on. For the core it is a link that went down (C-181)."""
        link = self.links.get(peer)
        if link is None:
            return []
        outputs: list[Output] = []
        self._report(now, link.step(now, Stopped("removed")), outputs)
        if peer in self._held:  # none of its replicas takes over either
            outputs.append(CancelTimer((GRACE, peer)))
            self._give_up(now, peer, outputs)
        self._outbox.pop(peer, None)
        self._forget(peer, outputs)
        return outputs

    @property
    def tick_s(self) -> float:
        """The interval of our tick timer."""
        return self._config.tick_s

    def is_up(self, peer: Domain) -> bool:
        link = self.links.get(peer)
        return link is not None and link.up

    def _report(self, now: Instant, reports: Iterable[Event | Effect], outputs: list[Output]) -> None:
        """Pass a link's reports to the core, in order, and its orders to the driver."""
        for report in reports:
            if type(report) is Transmit:
                outputs.append(report)
            elif type(report) is not Received:
                if self._rest and isinstance(report, LinkUp | LinkDown | Removed):
                    self._catch_up(now, report, outputs)
                self._hand_up(now, report, outputs)
            elif self._rest or len(outputs) + self._read >= WORK_MAX:
                self._let_wait(now, report, outputs)
            else:
                self._read_one(now, report, outputs)

    def _read_one(self, now: Instant, received: Received, outputs: list[Output]) -> None:
        message = received.message
        if type(message) in _LISTS:
            each = PROOF_WEIGHS if "!" in message.group.name else 1
            self._read += each * len(message.members)  # each is work, whatever comes of it
        elif type(message) is ProofShown:
            self._read += PROOF_WEIGHS
        elif type(message) is Routed:
            self._read += len(message.data) // ENTRY_BYTES
        self._received(now, received, outputs)

    def _let_wait(self, now: Instant, received: Received, outputs: list[Output]) -> None:
        if not self._rest:
            outputs.append(SetTimer(GO_ON, GO_ON_S))
        self._rest.append(received)
        if len(self._rest) > REST_MAX:
            self._read_one(now, self._rest.popleft(), outputs)

    def _go_on(self, now: Instant, outputs: list[Output]) -> None:
        while self._rest and len(outputs) + self._read < WORK_MAX:
            self._read_one(now, self._rest.popleft(), outputs)
        if self._rest:
            outputs.append(SetTimer(GO_ON, GO_ON_S))

    def _catch_up(self, now: Instant, change: LinkUp | LinkDown | Removed, outputs: list[Output]) -> None:
        """Before the core learns that an epoch began or ended, it gets all messages from before."""
        peer = change.because.accused if isinstance(change, Removed) else change.peer
        before = [each for each in self._rest if each.sender == peer]
        self._rest = deque([each for each in self._rest if each.sender != peer])
        for each in before:
            self._received(now, each, outputs)

    def _received(self, now: Instant, received: Received, outputs: list[Output]) -> None:
        message = received.message
        if type(message) is Inquiry and message.to == self.path:
            memory = self._recall(now, message.about, message.asker)
            answer = InquiryReply(message.id, message.asker, self.path, memory)
            self._outbox.setdefault(received.sender, []).append(answer)
        else:
            self._drive(now, received, outputs)

    def _hand_up(self, now: Instant, report: Event | Effect, outputs: list[Output]) -> None:
        match report:
            case Removed(Because(accused=peer)) if peer in self._replicated:
                self._hold(peer, [report], outputs)
            case LinkDown(peer):
                # What was still waiting to be sent belonged to the epoch that has just ended.
                self._outbox.pop(peer, None)
                self.waiting.forget(peer)
                if peer in self._held:
                    self._held[peer].append(report)
                else:
                    self._pass_up(now, report, outputs)
            case LinkUp(peer, incarnation) if peer in self._held:
                outputs.append(CancelTimer((GRACE, peer)))
                if self.links[peer].awaited:
                    del self._held[peer]
                    self._pass_up(now, LinkMoved(peer, incarnation), outputs)
                else:
                    self._give_up(now, peer, outputs)
                    self._pass_up(now, report, outputs)
            case LinkUp() | Effect():
                self._pass_up(now, report, outputs)

    def _pass_up(
        self, now: Instant, report: LinkUp | LinkDown | LinkMoved | Effect, outputs: list[Output]
    ) -> None:
        self.trail.saw(now, self.path, BESIDE, (report,))
        outputs.append(report)
        if not isinstance(report, Effect):
            self._drive(now, report, outputs)

    def _hold(self, peer: Domain, reports: list[Removed | LinkDown], outputs: list[Output]) -> None:
        """Do not report it yet: one of its replicas may take over."""
        self._held[peer] = reports
        (first, *_) = reports
        outputs.append(Awaited(peer, first.because.what))
        outputs.append(SetTimer((GRACE, peer), self._config.failover_grace_s))

    def _give_up(self, now: Instant, peer: Domain, outputs: list[Output]) -> None:
        """Pass up what was held back. Messages of that epoch that wait for a record are dropped."""
        self.waiting.forget(peer)
        for report in self._held.pop(peer):
            self._pass_up(now, report, outputs)

    def _drive(self, now: Instant, event: Event, outputs: list[Output]) -> None:
        effects = self.stack.step(now, event)
        self.trail.saw(now, self.path, event, effects)
        self._perform(effects, outputs)

    def _recall(self, now: Instant, about: str, asker: Domain) -> bytes:
        agent = self.stack.find(AGENT)
        present = agent.present(about) if agent is not None else ()
        return self.trail.about(now, about, asker, self.links, present)

    def _perform(self, effects: Iterable[Effect], outputs: list[Output]) -> None:
        for effect in (rest := iter(effects)):
            if type(effect) is Send:
                if self._held and effect.to in self._held:
                    outputs.append(ignored(effect.message, why="waiting for a replica"))
                else:
                    self._outbox.setdefault(effect.to, []).append(effect.message)
            elif type(effect) is Secure:
                if self.waiting.must_write(effect):
                    outputs.append(effect)
                if self.waiting.must_wait(effect):
                    outputs += self.waiting.wait(effect, rest)
            else:
                outputs.append(effect)

    def has_room_for(self, peer: Domain) -> bool:
        return peer in self.links or len(self._children) < CHILDREN_MAX or self._absent_child() is not None

    def _adopt(self, now: Instant, peer: Domain, outputs: list[Output]) -> Link | None:
        """A server one label below us proves by its path that it is a child (C-021)."""
        if not self._accepts_children or peer == ROOT or parent(peer) != self.path or is_reserved(peer):
            return None
        if not self.has_room_for(peer):
            return None
        if len(self._children) >= CHILDREN_MAX and (absent := self._absent_child()) is not None:
            self._forget(absent, outputs)
        self._children[peer] = now
        self.links[peer] = self._new_link(peer)
        return self.links[peer]

    def _absent_child(self) -> Domain | None:
        """The child that has been known longest, of those that are down."""
        absent = (peer for peer in self._children if not self.links[peer].up and peer not in self._held)
        return next(absent, None)

    def _is_silent(self, now: Instant, link: Link) -> bool:
        came_at = self._children.get(link.peer)
        if came_at is None or link.up or link.peer in self._held:
            return False
        return now - max(came_at, link.arrived_at or came_at) >= FORGOTTEN_AFTER_S

    def _forget(self, peer: Domain, outputs: list[Output]) -> None:
        """A later link of this child goes on above the sessions of this one: no epoch comes again (C-031)."""
        link = self.links.pop(peer)
        self._children.pop(peer, None)
        self._sessions_spent = max(self._sessions_spent, link.sessions - self._luck_of(peer))
        outputs.append(Forgotten(peer))

    def _new_link(self, peer: Domain) -> Link:
        return Link(
            self.world,
            self.path,
            peer,
            incarnation=self.incarnation,
            config=self._config,
            replicated=peer in self._replicated,
            first_session=1 + self._sessions_spent + self._luck_of(peer),
            **({"weigh": weight} if self._accepts_children else {}),
        )

    def _luck_of(self, peer: Domain) -> int:
        """Half of a life's sessions are for starting anywhere, half for going on from there."""
        if not self._luck:
            return 0
        drawn = blake2b(f"{self._luck} {peer}".encode(), digest_size=8, person=b"rostra-session").digest()
        return int.from_bytes(drawn) % (SESSIONS_PER_LIFE // 2)
