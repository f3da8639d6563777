"""What a simulated world would have written in its journals: the same rows, in the same files.

Every server has a scribe, as a real one has, and a new epoch with every life. Beside them stands one more
writer, `the_simulator`, which sees all: which server ran, which line was cut, when the world was at rest. So
an audit of a simulated journal can be compared with what really happened.

Time is pretended, but not random: virtual second 0 is the beginning of 2026, so the same seed gives the same
files, byte for byte. Nothing is flushed by time, since nothing here can be lost.
"""

import hashlib
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rostra.core.effects import Event
from rostra.errors import BadInput
from rostra.journal.entries import Entry, Identity, Role
from rostra.journal.inputs import Began, Recorder, ServerRecorder, Word
from rostra.journal.rows import Scribe
from rostra.journal.schema import VERSION
from rostra.journal.segments import Place, read, table_of
from rostra.journal.truth import Truth
from rostra.journal.writer import RecordingPart
from rostra.names import Domain
from rostra.sim.history import LineChanged, ServerChanged, Settled

if TYPE_CHECKING:
    from rostra.sim.world import World

BEGINNING_US: Final = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
"""When virtual time begins."""

HEARTBEAT_S: Final = 10.0
SEGMENT_ROWS: Final = 50_000

SIMULATOR: Final = "the_simulator"
"""No server can be called that."""


class JournalPages:
    """The rows of one writer that are not written yet."""

    def __init__(self, place: Place, who: Identity) -> None:
        self._place = place
        self._who = who
        self._entries: list[Entry] = []
        self._rows = 0
        self._next = 1

    def take(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._rows += entry.rows
        if self._rows >= SEGMENT_ROWS:
            self.write()

    def write(self) -> None:
        if self._entries:
            self._place.write(table_of(self._who, self._next, self._entries))
            self._next += self._rows
            self._entries, self._rows = [], 0


class SimJournal:
    """The journals of one simulated world. `close` says that all servers ended well, and writes the rest."""

    def __init__(self, directory: str | Path, *, world: str | None = None, record: bool = False) -> None:
        self.directory = Path(directory)
        self.world = world or unnamed(self.directory)
        self._record = record  # every input too
        self._recorders: dict[Domain, Recorder | ServerRecorder] = {}
        self._place = Place(self.directory)
        try:
            self._place.claim(SIMULATOR, 1)
        except FileExistsError:
            raise BadInput(
                f"{directory} holds the journal of another run", fix="name an empty directory"
            ) from None
        self._pages: list[JournalPages] = []
        self._scribes: dict[Domain, Scribe] = {}
        self._closed = False
        self.truth = Truth(self._page(SIMULATOR, "sim", 1).take, virtual=True)

    def begin(self, now: float, detail: dict[str, Any]) -> None:
        self.truth.started(self.at(now), now, {"schema": VERSION, **detail})

    def at(self, now: float) -> int:
        return BEGINNING_US + round(now * 1e6)

    def started(
        self, now: float, began: Began, detail: dict[str, Any], *, led_by: Domain | None = None
    ) -> None:
        """A node was made. What is given to a server that a replica leads is in the replica's recording."""
        path, epoch = began.plan.path, began.plan.incarnation
        role: Role = "agent" if began.plan.is_agent else "server"
        if self._record:
            leader = None if led_by is None else self._recorders[led_by]
            self._recorders[path] = (
                leader.of_server() if isinstance(leader, Recorder) else self._recorder(began)
            )
        put = self._page(path, role, epoch).take
        scribe = Scribe(path, role, epoch, put, heartbeat_s=HEARTBEAT_S, virtual=True)
        self._scribes[path] = scribe
        scribe.turn(self.at(now), now)
        scribe.started({"schema": VERSION, **detail})

    def replica_started(self, began: Began) -> None:
        """It keeps no journal until it leads."""
        assert began.seat is not None, "a replica has a seat"
        if self._record:
            self._recorders[began.seat.path] = self._recorder(began)

    def crashed(self, path: Domain) -> None:
        """Nobody says goodbye in a crash."""
        self._scribes.pop(path, None)
        if (recorder := self._recorders.pop(path, None)) is not None:
            recorder.hand_over()

    def given(self, now: float, clock: float, path: Domain, what: Event | Word) -> None:
        """The node is about to be given this; its own clock may be wrong."""
        if self._record:
            self._recorders[path].turn(self.at(now), clock)
            self._recorders[path].given(what)

    def saw(self, now: float, path: Domain, event: Event | None, outputs: list[Any]) -> None:
        if self._record:
            self._recorders[path].gave(outputs)
        if (scribe := self._scribes.get(path)) is not None:
            scribe.turn(self.at(now), now)
            scribe.saw(event, outputs)

    def scribe(self, now: float, path: Domain) -> Scribe | None:
        """Of the node that lives there, for what its front does."""
        if (scribe := self._scribes.get(path)) is not None:
            scribe.turn(self.at(now), now)
        return scribe

    def happened(self, now: float, kind: Callable[..., Any], *fields: Any) -> None:
        """The truth, as the simulator's own history has it; what agents see of it is theirs to write."""
        at = self.at(now)
        if kind is ServerChanged:
            self.truth.server_changed(at, now, *fields)
        elif kind is LineChanged:
            self.truth.line_changed(at, now, *fields)
        elif kind is Settled:
            self.truth.settled(at, now)

    def write(self) -> None:
        """Everything up to now is in files when this returns."""
        for pages in self._pages:
            pages.write()
        for recorder in self._recorders.values():
            recorder.hand_over()

    def close(self, now: float, why: str = "the simulation ended") -> None:
        if not self._closed:
            self._closed = True
            for scribe in self._scribes.values():
                scribe.turn(self.at(now), now)
                scribe.closing(why)
            self.truth.closing(self.at(now), now, why)
            self.write()

    def _recorder(self, began: Began) -> Recorder:
        def put(number: int, words: bytes) -> None:
            node = began.seat or began.plan
            name = f"{node.path}-{node.incarnation}-{number:06d}.inputs"
            RecordingPart(name, words, recorder.written).write(self._place)

        recorder = Recorder(began, put, part_s=inf, bytes_max=sys.maxsize, say=lambda why: None)
        return recorder

    def _page(self, writer: str, role: Role, epoch: int) -> JournalPages:
        pages = JournalPages(self._place, Identity(self.world, writer, role, epoch))
        self._pages.append(pages)
        return pages

    def read(self) -> pa.Table:
        self.write()
        return read(self.directory)


def unnamed(directory: Path) -> str:
    """The name of a world that was given none: another one for each directory, so that several journals
    can be asked together."""
    return f"sim-{hashlib.sha256(str(directory.absolute()).encode()).hexdigest()[:8]}"


def journal_of(world: "World") -> pa.Table:
    """All rows of a simulated world so far."""
    assert world.journal is not None, "make it with World(..., journal=DIRECTORY)"
    return world.journal.read()
