"""Orders to a running router: JSON documents over a Unix socket, one per packet, each answered."""

import socket
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from rostra.errors import UNDECODABLE, BadInput, Unreachable
from rostra.impair.quality import LineQuality
from rostra.lab.ways import Counts

PACKET_MAX: Final = 1 << 20
TIMEOUT_S: Final = 5.0


class LabChange(Struct, frozen=True, tag=True):
    """New settings of these ways: some of a quality's values by name, or cut, or healed."""

    ways: list[tuple[str, str]]
    settings: dict[str, Any] = {}
    cut: bool | None = None


class LabQuery(Struct, frozen=True, tag=True):
    """How are they, and what did they count?"""


class WayNow(Struct, frozen=True):
    source: str
    to: str
    quality: LineQuality
    is_cut: bool
    loss: float  # at this moment; it may drift
    counts: Counts


class Now(Struct, frozen=True, tag=True):
    """How a router stands. `late`: by how much it handed packets over later than they were due; the share is
    of those that were late by more than a millisecond."""

    ways: list[WayNow]
    strays: dict[str, int]
    late_mean_s: float
    late_max_s: float
    late_share: float
    is_urgent: bool  # the system runs it before ordinary processes

    def way(self, source: str, to: str) -> WayNow:
        for way in self.ways:
            if (way.source, way.to) == (source, to):
                return way
        raise BadInput(f"no link leads from {source} to {to}")


class LabDenied(Struct, frozen=True, tag=True):
    what: str
    fix: str


Question = LabChange | LabQuery
Answer = Now | LabDenied

questions: Final[msgspec.json.Decoder[Question]] = msgspec.json.Decoder(Question)
answers: Final[msgspec.json.Decoder[Answer]] = msgspec.json.Decoder(Answer)


class Control:
    """A line to the router of one lab. Every question takes a fraction of a millisecond, so it may block."""

    def __init__(self, path: Path) -> None:
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(TIMEOUT_S)
        try:
            self._line.connect(str(path))
        except OSError as error:
            self._line.close()
            raise Unreachable(
                f"the router of this lab does not answer at {path}: {error.strerror}",
                fix="is the lab up?  rostra lab up",
            ) from None

    def now(self) -> Now:
        return self._ask(LabQuery())

    def change(self, ways: list[tuple[str, str]], **settings: Any) -> Now:
        return self._ask(LabChange(ways, settings))

    def cut(self, ways: list[tuple[str, str]]) -> Now:
        return self._ask(LabChange(ways, cut=True))

    def heal(self, ways: list[tuple[str, str]]) -> Now:
        return self._ask(LabChange(ways, cut=False))

    def close(self) -> None:
        self._line.close()

    def _ask(self, question: Question) -> Now:
        try:
            self._line.send(msgspec.json.encode(question))
            answer = self._line.recv(PACKET_MAX)
        except OSError as error:
            raise Unreachable(f"the router of this lab does not answer: {error}") from None
        if not answer:
            raise Unreachable("the router of this lab has ended", fix="see router.log in its directory")
        try:
            told: Answer = answers.decode(answer)
        except UNDECODABLE as error:
            raise Unreachable(f"the router of this lab cannot be understood: {error}") from None
        if isinstance(told, LabDenied):
            raise BadInput(told.what, fix=told.fix)
        return told
