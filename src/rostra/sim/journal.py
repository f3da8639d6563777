"""What a simulated world would have written in its journals: the same rows, in the same files.

Every server has a scribe, as a real one has, and a new epoch with every life. Beside them stands one more
writer, `the_simulator`, which sees all: which server ran, which line was cut, when the world was at rest. So
an audit of a simulated journal can be compared with what really happened.

Time is pretended, but not random: virtual second 0 is the beginning of 2026, so the same seed gives the same
files, byte for byte. Nothing is flushed by time, since nothing here can be lost.
"""

import hashlib
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from rostra.core.effects import Event, Instant
from rostra.core.observer import Seen
from rostra.errors import BadInput
from rostra.journal.entries import Entry, Identity, Role
from rostra.journal.schema import VERSION
from rostra.journal.segments import Place, read, table_of
from rostra.journal.truth import Truth
from rostra.journal.writer import RecordingPart
from rostra.names import Domain
from rostra.observe.recording import Began, NodeLost, NodeMade, Recorder, ServerRecorder
from rostra.observe.scribe import Scribe
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
        self._led: set[Domain] = set()  # servers that replicas lead
        self._clock: Callable[[], float] = float
        self._closed = False
        self.truth = Truth(self._page(SIMULATOR, "sim", 1).take, virtual=True)

    def begin(self, clock: Callable[[], float], detail: dict[str, Any]) -> None:
        """Of a world with this clock."""
        self._clock = clock
        self.truth.started(self.wall_us(), clock(), {"schema": VERSION, **detail})

    def wall_us(self) -> int:
        return BEGINNING_US + round(self._clock() * 1e6)

    def saw(self, now: Instant, node: Domain, event: Event, effects: Sequence[Seen]) -> None:
        """A node's own clock may be wrong: its recording shows that, its journal has the world's."""
        if isinstance(event, NodeMade):
            self._made(node, event)
        elif isinstance(event, NodeLost):
            self._lost(node)
        else:
            if self._record:
                self._recorders[node].saw(now, node, event, effects)
            if (scribe := self._scribes.get(node)) is not None:
                scribe.saw(self._clock(), node, event, effects)

    def _made(self, path: Domain, made: NodeMade) -> None:
        began, plan = made.began, made.began.plan
        if made.led_by is not None:
            self._led.add(path)
            self.happened(ServerChanged, path, "started")
        if self._record:
            # What is given to a server that a replica leads is in the replica's recording.
            leader = None if made.led_by is None else self._recorders[made.led_by]
            self._recorders[path] = (
                leader.of_server() if isinstance(leader, Recorder) else self._recorder(began)
            )
        if began.voter is not None:
            return  # a replica keeps no journal until it leads
        role: Role = "agent" if plan.is_agent else "server"
        self._scribes[path] = scribe = Scribe(
            path,
            role,
            plan.incarnation,
            self._page(path, role, plan.incarnation).take,
            wall_us=self.wall_us,
            heartbeat_s=HEARTBEAT_S,
            virtual=True,
        )
        scribe.started(self._clock(), {"schema": VERSION, **made.detail})

    def _lost(self, path: Domain) -> None:
        self._scribes.pop(path, None)
        if (recorder := self._recorders.pop(path, None)) is not None:
            recorder.hand_over()
        if path in self._led:
            self._led.remove(path)
            self.happened(ServerChanged, path, "crashed")

    def happened(self, kind: Callable[..., Any], *fields: Any) -> None:
        """The truth, as the simulator's own history has it; what agents see of it is theirs to write."""
        at, now = self.wall_us(), self._clock()
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

    def close(self, why: str = "the simulation ended") -> None:
        if not self._closed:
            self._closed = True
            now = self._clock()
            for scribe in self._scribes.values():
                scribe.closing(now, why)
            self.truth.closing(self.wall_us(), now, why)
            self.write()

    def _recorder(self, began: Began) -> Recorder:
        def put(number: int, words: bytes) -> None:
            node = began.voter or began.plan
            name = f"{node.path}-{node.incarnation}-{number:06d}.inputs"
            RecordingPart(name, words, recorder.written).write(self._place)

        recorder = Recorder(
            began, put, wall_us=self.wall_us, part_s=inf, bytes_max=sys.maxsize, say=lambda why: None
        )
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
