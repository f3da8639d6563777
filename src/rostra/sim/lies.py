"""The messages of a hostile node: random ones of every kind, with true names of others in them.

    Lies ── a message or packet of random numbers, bytes, names and ids ──▶ well-formed? ──▶ neighbour

The liar knows everything: who is where, which questions are open, which numbers were given. It has only its
own links, though: its messages arrive in its own name. A message that the reader of a real connection would
refuse is not sent.

A liar of one protocol sends messages of that protocol only. It goes deeper than one that knows all of them,
and its lies stay the same when another protocol gets a new message.
"""

import types
import typing
from collections.abc import Iterable
from enum import Enum
from random import Random
from typing import Any, Final

from msgspec import Meta, Struct

from rostra.errors import PeerError, RostraError
from rostra.groups.members import Member
from rostra.names import ROOT, Domain, Endpoint, Group, child, enclosing, host_of, inside
from rostra.protocols.claims.messages import Claim
from rostra.protocols.fifo.context import delegate_of, lan_of
from rostra.protocols.fifo.messages import Control, encode
from rostra.protocols.links.packets import NOBODY, Beat, Bye, Data, Hello
from rostra.protocols.relaxed.domain import SERVER
from rostra.protocols.relaxed.local import AGENT
from rostra.protocols.relaxed.messages import EndpointsJoined, MessageId, ResolveReply, Routed
from rostra.sim.processes import WORLD_NAME
from rostra.sim.world import World
from rostra.wire import Encoder, FrameKind, FrameReader
from rostra.wire.numbers import BLOCKS, MESSAGES

NUMBERS: Final = (0, 1, 2, 3, 7, 1000, 2**16, 2**31, 2**43, 2**62, 2**63 - 1)
TEXTS: Final = ("", "silent", "crashed", "restarted", "10.6.6.6:666", "10.6.6.6:666 " + "ab" * 16, "x" * 200)
GARBAGE: Final = (b"", b"\xff", b"\x92\x02\xa1\xff", b"\x95" * 200, b"\xc4", bytes(64))
DEEP: Final = 3
"""Structures within structures: further in, lists are short and then empty."""

PACKETS: Final = (Hello, Data, Beat, Bye)
KINDS: Final[dict[str, tuple[Any, ...]]] = {
    protocol: kinds
    for protocol, block in BLOCKS["message"].items()
    if (kinds := tuple([kind for tag, kind in MESSAGES.items() if any(tag in part for part in block)]))
}
"""What a liar of each protocol sends."""

ALL_KINDS: Final = (*MESSAGES.values(), Routed, Routed)
_HINTS: dict[type, dict[str, Any]] = {}


class Lies:
    """`below` is the liar's path, a host's or a domain's; `protocol` what it lies about, or None for all."""

    def __init__(
        self, luck: Random, world: World, below: Domain, groups: Iterable[Group], protocol: str | None = None
    ) -> None:
        self.below = below
        self._kinds = ALL_KINDS if protocol is None else KINDS[protocol]
        self._luck = luck
        self._world = world
        self._groups = tuple(groups)
        self._encoder = Encoder(WORLD_NAME)
        self._depth = 0  # of the structure that is being made

    def message(self) -> Any | None:
        """For a neighbour's core; None if it could not even be read."""
        message = self.struct(self._luck.choice(self._kinds))
        if isinstance(message, Claim) and inside(self.below, message.claimer):
            return None  # no lie: any host may claim a group, and its weaker members must then go
        if isinstance(message, EndpointsJoined | ResolveReply) and any(
            each.kind is not None and each.kind.is_claimed for each in message.members
        ):
            return None  # the same: it has a member of a strong kind
        return message if self._arrives(Data(1, 1, 1, 0, (message,))) else None

    def packet(self) -> Any | None:
        """For a neighbour's link."""
        packet = self.struct(self._luck.choice(PACKETS))
        return packet if self._arrives(packet) else None

    def _arrives(self, packet: Any) -> bool:
        """Can a reader decode it, and is it the same then?"""
        reader = FrameReader(WORLD_NAME, FrameKind.LINK)
        hello = Hello(1, NOBODY, WORLD_NAME, ROOT, 1, 0)
        frames = b""
        for each in (hello, packet):
            try:
                frames += self._encoder.packet(each)
            except (RostraError, ValueError, TypeError, OverflowError):
                return False
            finally:
                self._encoder.turn_ends()
        read = reader.feed(frames)
        return read == [hello, packet] and not isinstance(read[-1], PeerError)

    # Values of every type

    def struct(self, kind: type[Struct]) -> Any:
        if kind is Group:
            return self._luck.choice((*self._groups, Group("lies", self._domain())))
        if kind is MessageId and (ids := self._open_ids()) and self._luck.random() < 0.5:
            return self._luck.choice(ids)
        if kind not in _HINTS:
            _HINTS[kind] = {
                name: hint
                for name, hint in typing.get_type_hints(kind, include_extras=True).items()
                if name in kind.__struct_fields__
            }
        self._depth += 1
        values = {name: self._value(hint, name) for name, hint in _HINTS[kind].items()}
        self._depth -= 1
        if kind is Hello and self._luck.random() < 0.8:
            values |= {"world": WORLD_NAME, "to": Domain("")}
        if kind is Data:
            values["messages"] = tuple([each for _ in range(3) if (each := self.message()) is not None])
        return kind(**values)

    def _value(self, hint: Any, name: str = "") -> Any:
        luck = self._luck
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            value = self._value(arguments[0], name)
            return _clamped(value, arguments[1:]) if isinstance(value, int | float) else value
        is_deep = self._depth > DEEP
        if is_deep and types.NoneType in arguments:
            return None
        if origin in (typing.Union, types.UnionType):
            return self._value(luck.choice(arguments), name)
        if origin is tuple and arguments[-1:] == (...,):
            count = 0 if is_deep else luck.choice((0, 1, 1, 2, 5, 40) if self._depth < DEEP else (0, 1, 2))
            several = [self._value(arguments[0], name) for _ in range(count)]
            if arguments[0] is Member:
                return tuple(sorted({each.endpoint: each for each in several}.values(), key=_endpoint))
            return tuple(sorted(set(several))) if several and isinstance(several[0], str) else tuple(several)
        if origin is tuple:
            return tuple([self._value(each, name) for each in arguments])
        if hint is Domain:
            return self._domain()
        if hint is Endpoint:
            return self._endpoint()
        if hint is bytes:
            return self._bytes()
        if hint is bool:
            return luck.random() < 0.5
        if hint is int:
            return luck.choice((*NUMBERS, self._number()))
        if hint is float:
            return luck.choice((0.0, 0.1, 1e9, 1e308))
        if hint is str:
            return luck.choice((*TEXTS, self._domain(), *(group.name for group in self._groups)))
        if isinstance(hint, type) and issubclass(hint, Enum):
            return luck.choice(list(hint))
        if isinstance(hint, type) and issubclass(hint, Struct):
            return self.struct(hint)
        return None

    def _number(self) -> int:
        """A number that is in use somewhere."""
        processes = [each for each in self._world.processes.values() if each.node is not None]
        return self._luck.choice(processes).incarnation + self._luck.choice((-1, 0, 1))

    def _domain(self) -> Domain:
        luck, servers = self._luck, self._world.tree.servers
        if luck.random() < 0.3:
            return luck.choice([self.below, child(self.below, "ghost")])
        return luck.choice((*servers, *servers, luck.choice(enclosing(luck.choice(servers)))))

    def _endpoint(self) -> Endpoint:
        luck = self._luck
        live = [each.endpoint for each in self._world.programs if each.endpoint is not None]
        own = [each for each in live if inside(self.below, each)]
        delegates = [delegate_of(lan) for lan in sorted(self._world.tree.clusters)]
        # As they are called in this epoch, which is the life of the cluster's server.
        delegates += [
            Endpoint(f"{each.rpartition('#')[0]}#{self._world.processes[lan_of(each)].incarnation}")
            for each in delegates
        ]
        invented = Endpoint(f"{self._domain()}/ghost#{luck.choice(NUMBERS)}")
        return luck.choice([*live, *own, *own, *delegates, invented])

    def _bytes(self) -> bytes:
        luck = self._luck
        kind = luck.choice((*typing.get_args(Control), None))
        if kind is None or luck.random() < 0.2:
            return luck.choice((*GARBAGE, luck.randbytes(luck.choice((1, 16, 200)))))
        octets = encode(self.struct(kind))
        if luck.random() < 0.2:
            octets = octets[: luck.randrange(len(octets))] + luck.randbytes(2)
        return octets

    def _open_ids(self) -> list[MessageId]:
        """The ids of questions that are under way."""
        ids: list[MessageId] = []
        for process in self._world.processes.values():
            if (agent := process.stack.find(AGENT)) is not None:
                ids += [*agent.resolves.open, *agent.inquiries.open]
            elif (server := process.stack.find(SERVER)) is not None:
                ids += server.collections.questions
        return ids


def _clamped(value: Any, metas: Iterable[Any]) -> Any:
    for meta in metas:
        if isinstance(meta, Meta):
            value = max(value, meta.ge) if meta.ge is not None else value
            value = min(value, meta.le) if meta.le is not None else value
    return value


def _endpoint(member: Member) -> tuple[Domain, Endpoint]:
    return host_of(member.endpoint), member.endpoint
