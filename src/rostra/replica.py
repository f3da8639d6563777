"""One replica of a domain's server: its voter in the election and, while it leads, the server itself.

    voter (always)                                        server (while we lead)
      Lead ──────────────▶ begin: a node of the domain, with the term as its incarnation, and with the
                           neighbours and mirrors of its predecessor (C-161, C-163, X-100)
      Resign ────────────▶ end it, as if it had crashed: another replica leads now
      StateReceived ─────▶ while we follow: the leader's soft state, for a later takeover
      Share ◀───────────── while we lead: mirrors of FIFO groups, and our neighbours
      Record, Committed ◀─▶ records: effects after `Secure` leave when a majority has them (C-012)

Both are nodes like any other; this module only connects the two, and is as sans-IO as they are. Drivers give
it every output of the two nodes and perform the rest.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Final, Protocol

import msgspec
from msgspec import Meta

from rostra.core.disk import RoomChanged
from rostra.core.effects import (
    Answer,
    Effect,
    Event,
    Instant,
    LinkDown,
    LinkMoved,
    LinkUp,
    Noted,
    Secure,
    Secured,
)
from rostra.core.stack import Stack
from rostra.errors import UNDECODABLE, Unreachable
from rostra.names import Domain
from rostra.names.checks import check_of
from rostra.node import Node, Output
from rostra.protocols.election.events import (
    Committed,
    FollowerLinked,
    Lead,
    Record,
    Resign,
    Share,
    StateReceived,
    StorageChanged,
)
from rostra.protocols.election.messages import SHARED_BYTES_MAX
from rostra.protocols.fifo.cluster import CLUSTER
from rostra.protocols.fifo.events import Appointed, MirrorReplicated, Replicate
from rostra.protocols.fifo.messages import Mirror, MirrorAsked, decode_control, encode
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.requests import denied

NEIGHBOURS_MAX: Final = 100_000


class Around(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The neighbours that the leader is linked with."""

    neighbours: Annotated[tuple[Domain, ...], Meta(max_length=NEIGHBOURS_MAX)]


class Image(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A message between a delegate and its backups."""

    message: bytes


_decoder: msgspec.msgpack.Decoder[Around | Image] = msgspec.msgpack.Decoder(Around | Image)
_check: Final = check_of(Around | Image)
_encode = msgspec.msgpack.Encoder().encode


def read_shared(data: bytes) -> Around | Image | None:
    """What is not understood is of a later version, and not for us."""
    try:
        said = _decoder.decode(data)
        _check(said)
    except UNDECODABLE:
        return None
    return said


class ReplicaHost(Protocol):
    """What a replica needs of the driver it runs in."""

    def begin(self, replica: "Replica", server: Node) -> None:
        """Run this node, from now on."""

    def end(self, replica: "Replica", server: Node, why: str) -> None:
        """Not any more: not a word of it leaves from now on."""

    def step_voter(self, replica: "Replica", event: Event) -> None: ...

    def step_server(self, replica: "Replica", event: Event) -> None: ...

    def perform(self, replica: "Replica", output: Output) -> None:
        """An order of the server that waited until now."""

    def remember(self, replica: "Replica", neighbours: tuple[Domain, ...]) -> None:
        """Across restarts, and soon: all replicas may be restarted at once."""


class Replica:
    """`make_stack` makes the services of the domain's server, as a backup's; `make_node` a node of them, for
    a term and with the neighbours that are known."""

    def __init__(
        self,
        house: ReplicaHost,
        domain: Domain,
        voter: Node,
        make_stack: Callable[[], Stack],
        make_node: Callable[[Stack, int, tuple[Domain, ...]], Node],
        known: Iterable[Domain] = (),
    ) -> None:
        self.domain = domain
        self.voter = voter
        self.server: Node | None = None  # while we lead
        self._house = house
        self._make_stack, self._make_node = make_stack, make_node
        self._stack = make_stack()
        self._known = tuple(known)  # the neighbours in the leader's last report

    @property
    def leads(self) -> bool:
        return self.server is not None

    # What the replica orders

    def voter_ordered(self, now: Instant, output: Effect) -> None:
        match output:
            case Lead(term):
                self._lead(term)
            case Resign(_, why):
                self._resign(why)
            case StateReceived(_, data):
                self._handed(now, data)
            case FollowerLinked():
                self._tell_whole()
            case Committed(version):
                self._house.step_server(self, Secured(version))
            case StorageChanged(lacking):
                self._house.step_server(self, RoomChanged(lacking))

    def _lead(self, term: int) -> None:
        self._stack[SERVER].take_over(term)
        self.server = self._make_node(self._stack, term, self._known)
        self._house.begin(self, self.server)
        if CLUSTER in self._stack:
            self._house.step_server(self, Appointed(term))

    def _resign(self, why: str) -> None:
        server, self.server = self.server, None
        assert server is not None, "who resigns has led"
        refusal = denied(
            Unreachable(
                f"another replica of the server of {self.domain} leads now, and whether it has kept this is"
                " not known",
                fix="look, and ask again",
            )
        )
        for token in server.waiting.unanswered():
            self._house.perform(self, Answer(token, refusal))
        self._house.end(self, server, why)
        self._stack = self._make_stack()

    def _handed(self, now: Instant, data: bytes) -> None:
        match read_shared(data):
            case Around(neighbours) if self.server is None:
                self._learn(neighbours)
            case Image(octets):
                message = decode_control(octets)
                if not isinstance(message, Mirror | MirrorAsked) or CLUSTER not in self._stack:
                    return
                event = MirrorReplicated(message.group, message)
                if self.server is not None:
                    self._house.step_server(self, event)
                else:
                    self._share_images(self._stack.step(now, event))

    # What the server orders

    def server_ordered(self, outputs: Iterable[Output]) -> list[Output]:
        """Those of the server's outputs that may be carried out now."""
        now: list[Output] = []
        moved = False
        for output in outputs:
            match output:
                case Replicate():
                    self._share_images([output])
                    continue
                case Secure(record):
                    self._house.step_voter(self, Record(record))
                case LinkUp() | LinkDown() | LinkMoved():
                    moved = True
            now.append(output)
        if moved:
            self._tell_around()
        return now

    # What the leader tells the others

    def _tell_whole(self) -> None:
        """A replica follows us from now on, and has none of our soft state."""
        self._tell_around()
        if (cluster := self._stack.find(CLUSTER)) is not None:
            for group in sorted(cluster.groups):
                self._house.step_server(self, MirrorReplicated(group, MirrorAsked(group, self.domain)))

    def _tell_around(self) -> None:
        links = {} if self.server is None else self.server.links
        around = tuple([peer for peer in sorted(self._stack[SERVER].neighbours.up) if peer in links])
        self._learn(around)
        self._share(Around(around))

    def _learn(self, neighbours: tuple[Domain, ...]) -> None:
        if neighbours != self._known:
            self._known = neighbours
            self._house.remember(self, neighbours)

    def _share_images(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Replicate):
                self._share(Image(encode(effect.message)))

    def _share(self, word: Around | Image) -> None:
        """Followers do without what is too large for one message: neighbours then notice a takeover."""
        data = _encode(word)
        if len(data) > SHARED_BYTES_MAX:
            self._house.perform(self, Noted("too large to share", type(word).__name__))
        else:
            self._house.step_voter(self, Share(data))
