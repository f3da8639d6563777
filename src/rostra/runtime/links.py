"""Control links over TCP: which side dials, which peers are accepted, and what a broken connection means.

    dialling side ── connect, Hello ──▶ accepting side: right world and version? a neighbour, and not linked
                  ◀── Hello ─────────── under that name already? If not: a Refusal that says why

A connection is only a channel. When it breaks, the link above resumes on the next one without loss (C-032),
so this module dials again, without end, and logs once why it fails. A neighbour with replicas is dialled at
each of their addresses in turn: only the leader accepts.
"""

import asyncio
import random
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from rostra.core.observer import FramesWritten
from rostra.errors import (
    Malformed,
    NameInUse,
    NotAllowed,
    PeerError,
    RostraError,
    TooLarge,
    Unreachable,
)
from rostra.names import Domain
from rostra.observe.log import long_time
from rostra.protocols.links.core import OLDER, WE_ARE_OLDER
from rostra.protocols.links.events import ChannelClosed, ChannelOpened, PacketArrived
from rostra.protocols.links.packets import AHEAD_MS_MAX, SESSIONS_PER_LIFE, AnyPacket, Beat, Hello
from rostra.transport.addresses import TcpAddress, reason_of
from rostra.transport.connection import Connection
from rostra.wire import Arrived, FrameKind, FrameReader, Refusal

if TYPE_CHECKING:
    from rostra.runtime.process import HostedNode, Process

CONNECT_TIMEOUT_S: Final = 3.0
HANDSHAKE_TIMEOUT_S: Final = 5.0

BETWEEN_REPLICAS_S: Final = 0.25
"""How long to wait at most before the next of several replicas is called. Raising it: a new leader is found
later, and links to it must come within the grace (C-162)."""

SHUN_S: Final = 10.0
"""How long a replica that fell silent is called last: one that hangs still accepts connections."""

LINK_DOWN: Final = "link down: "
"""How the reason begins why a connection was ended, when the link on it was."""

REPLICA_TIMEOUT_S: Final = 1.0
"""How long one of several replicas may take to be reached, and again to greet us: one that stands still or is
cut off must not keep us from the others. Below two round trips, none is reached."""

WRITTEN_BYTES: Final = 256 << 10
"""What is handed to the transport at once. Raising it: fewer calls; more memory for a neighbour that does not
read."""

UNREAD_PACKETS_MAX: Final = 8_192
"""Packets that may wait for a neighbour that does not read before the connection is given up: more than the
link's window, which may be sent again. They are not encoded yet."""


class LinkEnd:
    """Our end of one connection to a neighbour."""

    def __init__(
        self, process: "Process", hosted: "HostedNode", peer: Domain, connection: Connection
    ) -> None:
        self.process = process
        self.hosted = hosted
        self.peer = peer
        self.connection = connection
        self.incarnation: int | None = None  # of the peer, from its hello
        self.refusal: Refusal | None = None
        self.closed: asyncio.Future[str] = process.loop.create_future()
        self.called: TcpAddress | None = None  # where, if it was we who called
        self._packets: deque[AnyPacket] = deque()
        self._unread: deque[Arrived] = deque()  # came in a long turn
        self._full = False  # the peer does not read: these wait
        self._trusted = False

    @property
    def name(self) -> str:
        return self.peer

    def open(self) -> None:
        """From now on this is the way to the peer; an older one is closed."""
        channels = self.hosted.channels
        if (older := channels.pop(self.peer, None)) is not None:
            self.process.step(self.hosted, ChannelClosed(self.peer, "replaced by a new connection"))
            older.connection.close("replaced by a new connection")
        channels[self.peer] = self
        self.connection.be_quick_to_resend()
        self.process.step(self.hosted, ChannelOpened(self.peer))

    def send(self, packet: AnyPacket) -> None:
        if not self._packets and not self._full:
            self.process.write_at_end_of_turn(self)
        if type(packet) is Hello:
            packet = self.process.data.introduce(self.hosted, self.peer, packet)
        if self._full and type(packet) is Beat:
            # The latest is as good as all of them, and it must not wait for what the peer takes long to read.
            if self._packets and type(self._packets[0]) is Beat:
                self._packets.popleft()
            self._packets.appendleft(packet)
            return
        self._packets.append(packet)
        if len(self._packets) > UNREAD_PACKETS_MAX:
            self._packets.clear()
            self.connection.abort("the peer does not read")

    def write(self) -> None:
        """As much as the peer reads; the rest is encoded when it has done so."""
        waiting, encode = self._packets, self.process.encoder.packet
        while waiting and not self._full:
            frames: list[bytes] = []
            size = 0
            while waiting and size < WRITTEN_BYTES:
                try:
                    frames.append(encode(waiting.popleft()))
                except TooLarge as error:
                    self.connection.refuse(error)
                    return
                size += len(frames[-1])
            self.connection.write(frames[0] if len(frames) == 1 else b"".join(frames))
            if self.hosted.observers:
                self.process.report(self.hosted, FramesWritten(self.peer, len(frames), size))

    def part(self) -> None:
        """The peer is no neighbour any more; the goodbye goes first."""
        del self.hosted.channels[self.peer]
        self.write()
        self.connection.close("no neighbour any more")

    # From the connection

    def arrived(self, items: list[Arrived]) -> None:
        """Packets that come when the turn is long already are taken in one of the next."""
        if self._unread or self.process.turn_is_long:
            self._let_wait(items)
        else:
            self._take(deque(items))

    def _let_wait(self, items: Iterable[Arrived]) -> None:
        if not self._unread:
            self.process.at_end_of_turn(self._go_on)
        self._unread.extend(items)
        self.process.resume_next_turn(self.connection)

    def _go_on(self) -> None:
        unread, self._unread = self._unread, deque()
        self._take(unread)

    def _take(self, unread: deque[Arrived], *, all_of_them: bool = False) -> None:
        step, hosted, peer = self.process.step, self.hosted, self.peer
        while unread:
            packet = unread.popleft()
            if self.incarnation is None or type(packet) is Hello:
                if error := self._why_not(packet):
                    self.connection.refuse(error)
                    return
                assert isinstance(packet, Hello)
                self.incarnation = packet.incarnation
                packet = self.process.data.met(self.hosted, packet)
                if self.called is not None:
                    self.process.data.reached(self.hosted, self.peer, self.called)
            step(hosted, PacketArrived(peer, packet))  # type: ignore[arg-type]  # the reader allows packets only
            if not self._trusted and hosted.node.is_up(peer):
                self._trusted = True
                self.connection.trust(self.process.half_received_of_neighbours)
            if unread and not all_of_them and self.process.turn_is_long:
                self._let_wait(unread)
                return

    def refused(self, refusal: Refusal) -> None:
        self.refusal = refusal
        if self.called is None:  # else it is for our `LinkDialler` to say
            self.process.record.note_rarely(
                f"{self.peer} {refusal.code}",
                "link_refused",
                node=self.hosted.path,
                peer=self.peer,
                address=self.connection.peer,
                code=refusal.code,
                because=str(refusal.error()),
            )

    def lost(self, why: str) -> None:
        unread, self._unread = self._unread, deque()
        self._take(unread, all_of_them=True)
        if self.hosted.channels.get(self.peer) is self:
            del self.hosted.channels[self.peer]
            self.process.step(self.hosted, ChannelClosed(self.peer, why))
        if not self.closed.done():
            self.closed.set_result(why)

    def full(self) -> None:
        self._full = True  # the link's window bounds what may wait

    def drained(self) -> None:
        self._full = False
        if self._packets:
            self.process.write_at_end_of_turn(self)

    def _why_not(self, packet: Arrived) -> RostraError | None:
        if not isinstance(packet, Hello):
            return Malformed(f"{type(packet).__name__} before a hello", fix="say hello first")
        if packet.path != self.peer:
            return NotAllowed(
                f"we called {self.peer} and {packet.path} answered",
                fix=f"check the address of {self.peer} under [servers]",
            )
        return from_the_future(self.process, self.hosted, packet) or of_an_older_life(self.hosted, packet)


def let_in(process: "Process", hello: Hello) -> "HostedNode | RostraError":
    """Which node of this process a caller reaches, or why none: the accepting side of the handshake."""
    hosted = process.hosted_nodes.get(hello.to)
    if hosted is None and hello.to in process.world.replicas:
        return NotAllowed(
            f"this replica of the server of {hello.to} does not lead", fix="call the others in turn"
        )
    if hosted is None:
        here = ", ".join(process.hosted_nodes)
        return NotAllowed(
            f"{hello.path} looks for {hello.to or 'nobody'} and found {here}",
            fix=f"check the address of {hello.to} under [servers]",
        )
    if not process.accepts(hosted, hello.path):
        return NotAllowed(
            f"{hello.path} is no neighbour of {hosted.path}",
            fix="a child's path is one label longer than its parent's; siblings, and children that are no"
            " hosts, stand in the same world file",
        )
    if left_s := process.blame.left_s(hosted.path, hello.path):
        return Unreachable(
            f"{hello.path} is held off for {left_s:.0f} s: a message of it made {hosted.path} fail",
            fix=f"the log of {hosted.path} says how; it may be of another version",
        )
    if not hosted.node.has_room_for(hello.path):
        return Unreachable(
            f"{hosted.path} has as many children as it takes",
            fix="try again when some are gone; if strangers invent hosts, keep them off its port",
        )
    if (error := from_the_future(process, hosted, hello)) is not None:
        return error
    present = hosted.channels.get(hello.path)
    link = hosted.node.links.get(hello.path)
    if (
        present is not None
        and link is not None
        and link.up
        and not link.suspected
        and not link.is_echoed_by(hello)
    ):
        # A second process under the same name (C-016), or one that only says so: the peer itself knows
        # our session, also after it lost its connection. One that merely restarted has lost its old
        # connection, or will be suspected soon; it calls again and is let in then.
        return NameInUse(
            f"{hello.path} is served by another process, at {present.connection.peer}, which is alive",
            fix="stop one of the two, or give this one another path",
        )
    return of_an_older_life(hosted, hello) or hosted


def from_the_future(process: "Process", hosted: "HostedNode", hello: Hello) -> RostraError | None:
    """Is this Hello's number ahead of our clock? Such numbers are ignored: see `links.packets`."""
    if (ahead_ms := hello.ahead_ms(process.wall_clock_ms())) <= AHEAD_MS_MAX:
        return None
    return NotAllowed(
        f"numbers of {hello.path} are {long_time(ahead_ms)} ahead of the clock of {hosted.path}",
        fix="set both clocks: numbers come from them",
    )


def of_an_older_life(hosted: "HostedNode", hello: Hello) -> RostraError | None:
    """A peer whose clock went back, and that had no disk to remember its numbers by, is refused, and waits
    until its earlier life is forgotten."""
    peer, me = hello.path, hosted.path
    link = hosted.node.links.get(peer)
    why = None if link is None else link.refusal(hello)
    if link is None or why is None:
        return None
    fix = (
        "set its clock, or give it a state directory; else it is let in when the later life has been silent"
        f" for {2 * link.config.detect.down_after_s:g} s"
    )
    if why == OLDER:
        behind = long_time(link.peer_incarnation - hello.incarnation)
        return NotAllowed(
            f"{peer} began its life {behind} before one that {me} met earlier: its clock went back",
            fix=fix,
        )
    if why == WE_ARE_OLDER:
        behind = long_time(hello.yours // SESSIONS_PER_LIFE - hosted.node.incarnation)
        return NotAllowed(
            f"{peer} met a later life of {me}, by {behind}: the clock of {me} went back",
            fix=fix,
        )
    return NotAllowed(f"{peer} met {me} again after this: {why}", fix="call again in a moment")


class LinkDialler:
    """Dials one neighbour, for ever."""

    def __init__(
        self, process: "Process", hosted: "HostedNode", peer: Domain, addresses: tuple[TcpAddress, ...]
    ) -> None:
        self._process = process
        self._hosted = hosted
        self._peer = peer
        self.addresses = addresses  # where to call, in turn
        self.task: asyncio.Task[None] | None = None
        self._turn = 0
        self._shunned: tuple[TcpAddress, float] | None = None  # a replica that fell silent; until when
        self._trouble = ""  # as it was last logged

    @property
    def address(self) -> TcpAddress:
        """The address to dial next."""
        return self.addresses[self._turn % len(self.addresses)]

    def _call_another(self) -> None:
        self._turn += 1
        if self._shunned is not None and self._shunned[1] < self._process.loop.time():
            self._shunned = None
        if self._shunned is not None and self.address == self._shunned[0]:
            self._turn += 1

    def _lost(self, why: str) -> None:
        """A connection that broke is resumed where it was; a peer that fell silent is sought elsewhere."""
        if why.startswith(LINK_DOWN) and len(self.addresses) > 1:
            self._shunned = (self.address, self._process.loop.time() + SHUN_S)
            self._call_another()

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def run(self) -> None:
        settings = self._process.world.links
        delay_s = settings.reconnect_backoff_s
        while True:
            await asyncio.sleep(self._process.blame.left_s(self._hosted.path, self._peer))
            end = None if self._peer in self._process.hosted_nodes else await self._call()
            if end is not None and end.incarnation is not None:
                delay_s = settings.reconnect_backoff_s
                self._lost(end.closed.result() if end.closed.done() else "")
            else:
                self._call_another()
            # Jitter, so that a whole cluster does not call a returning server in step.
            await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))
            delay_s = min(2 * delay_s, settings.reconnect_backoff_max_s)
            if len(self.addresses) > 1:
                delay_s = min(delay_s, BETWEEN_REPLICAS_S)

    async def _call(self) -> LinkEnd | None:
        """One connection, from beginning to end; none if no address could be reached."""
        ends: list[LinkEnd] = []
        alone = len(self.addresses) == 1

        def end() -> Connection:
            reader = FrameReader(self._process.world.name, FrameKind.LINK, trusted=False)
            connection = Connection(self._process, reader)
            connection.count_in(self._process.half_received_of_strangers)
            ends.append(LinkEnd(self._process, self._hosted, self._peer, connection))
            ends[0].called = self.address
            connection.role = ends[0]
            return connection

        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S if alone else REPLICA_TIMEOUT_S):
                await self._process.loop.create_connection(end, self.address.host, self.address.port)
        except TimeoutError:
            self._say("no answer")
            return None
        except OSError as error:
            self._say(reason_of(error))
            return None
        (link_end,) = ends
        try:
            link_end.open()
            patience_s = HANDSHAKE_TIMEOUT_S if alone else REPLICA_TIMEOUT_S
            self._process.loop.call_later(patience_s, self._give_up_silent, link_end)
            why = await asyncio.shield(link_end.closed)
        finally:
            link_end.connection.close("shutting down")
        if link_end.refusal is not None:
            self._say(link_end.refusal.error())
        elif link_end.incarnation is None:
            self._say(why)
        else:
            self._trouble = ""
        return link_end

    def _give_up_silent(self, end: LinkEnd) -> None:
        if end.incarnation is None:
            end.connection.abort("no hello")

    def _say(self, trouble: RostraError | str) -> None:
        """Log why dialling fails: once per change, not once per attempt."""
        text = str(trouble)
        if text == self._trouble or self._turn % len(self.addresses) < len(self.addresses) - 1:
            return  # of several replicas all but one say that they do not lead: only a whole round is trouble
        self._trouble = self._hosted.trouble[self._peer] = text
        event = "link_refused" if isinstance(trouble, RostraError) else "link_unreachable"
        code = trouble.code if isinstance(trouble, PeerError | RostraError) else ""
        self._process.record.note(
            event,
            node=self._hosted.path,
            peer=self._peer,
            address=str(self.address),
            code=code,
            because=text,
        )
