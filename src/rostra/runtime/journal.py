"""The journals of a process: a scribe and a writer for each of its nodes, and one writing thread for all.

Scribes and recorders observe the nodes; no node waits for a disk. Trouble with the disk is logged and
counted, and does not affect the nodes.
"""

import asyncio
import sys
from importlib.metadata import version
from typing import Any, Final

from rostra.errors import BadInput
from rostra.journal.bounds import Bounds
from rostra.journal.entries import Identity, Role
from rostra.journal.schema import VERSION
from rostra.journal.segments import Place
from rostra.journal.writer import Pen, RecordingPart, Writer
from rostra.names import Domain
from rostra.observe.recording import Recorder
from rostra.observe.scribe import Scribe
from rostra.runtime.process import HostedNode, Process

CLOSE_TIMEOUT_S: Final = 15.0
"""How long a clean end waits for the disk."""


SWITCH_S: Final = 0.0005
"""How long the loop may have to wait for the pen."""


class Journals:
    def __init__(self, at: str, bounds: Bounds, process: Process) -> None:
        self.scribes: list[Scribe] = []
        self.writers: list[Writer] = []
        self._recorders: dict[Domain, Recorder] = {}
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._bounds = bounds
        self._place = Place(at)
        # The interpreter lets a thread run for 5 ms before another gets its turn: too long for a loop to wait
        # whenever the pen has something to do.
        sys.setswitchinterval(SWITCH_S)
        self._pen = Pen(self._place, say=self._from_anywhere, lost=self._lost)

    def open(self, hosted: HostedNode, led_by: Domain | None = None) -> None:
        """Begin the epoch of one node, which this replica leads if one does. A place that is not ours is
        refused; a disk that fails is not: it may be better later."""
        process, path, epoch = self._process, hosted.path, hosted.node.incarnation
        try:
            self._place.claim(path, epoch)
        except FileExistsError:
            raise BadInput(
                f"the journal at {self._place.name} has epoch {epoch} of {path} already",
                fix="give the node a --state directory, or the journal another place",
            ) from None
        except (PermissionError, NotADirectoryError) as error:
            raise BadInput(
                f"cannot keep a journal at {self._place.name}: {error.strerror}",
                fix="name a directory that we may write",
            ) from None
        except OSError as error:
            self._say(f"cannot begin at {self._place.name}: {error}")
        role: Role = "agent" if hosted.is_agent else "server"
        writer = Writer(Identity(process.world.name, path, role, epoch), self._pen, self._bounds)
        scribe = Scribe(
            path,
            role,
            epoch,
            writer.take,
            wall_us=process.wall_clock_us,
            heartbeat_s=self._bounds.segment_s,
        )
        scribe.started(process.now, _beginning(process, hosted))
        self.scribes.append(scribe)
        self.writers.append(writer)
        hosted.observers += (scribe,)
        if led_by is None:
            self.record(hosted)
        elif (recorder := self._recorders.get(led_by)) is not None:
            hosted.observers += (recorder.of_server(),)

    def record(self, hosted: HostedNode) -> None:
        """Keep every input of a node, if that is wanted. What a server is given that a replica leads is in
        the recording of the replica: it begins with what its predecessor knew."""
        path, epoch, began = hosted.path, hosted.node.incarnation, hosted.began
        if not self._process.world.journal.record:
            return
        assert began is not None, f"it is not known how {path} was made"

        def put(number: int, words: bytes) -> None:
            self._pen.put(RecordingPart(f"{path}-{epoch}-{number:06d}.inputs", words, recorder.written))

        def ended(why: str) -> None:
            self._process.record.note("recording_ended", node=path, because=why)

        recorder = Recorder(
            began,
            put,
            wall_us=self._process.wall_clock_us,
            part_s=self._bounds.segment_s,
            bytes_max=self._bounds.record_mb << 20,
            say=ended,
        )
        self._recorders[path] = recorder
        hosted.observers += (recorder,)

    @property
    def waiting(self) -> int:
        """Rows in memory."""
        return sum(writer.waiting for writer in self.writers)

    async def close(self) -> None:
        """Write what waits. If the nodes were shut down, the last row of each says why."""
        if self._process.ended is not None:
            for scribe in self.scribes:
                scribe.closing(self._process.now, self._process.ended)
        for writer in self.writers:
            writer.hand_over()
        for recorder in self._recorders.values():
            recorder.hand_over()
        if not await self._loop.run_in_executor(None, self._pen.close, CLOSE_TIMEOUT_S):
            self._say(f"{self.waiting} rows are lost: the disk did not take them in time")

    def _from_anywhere(self, what: str) -> None:
        self._loop.call_soon_threadsafe(self._say, what)

    def _say(self, what: str) -> None:
        self._process.record.note("journal_trouble", because=what)

    def _lost(self, rows: int) -> None:
        self._process.record.count("journal_rows_dropped", by=rows)


def _beginning(process: Process, hosted: HostedNode) -> dict[str, Any]:
    world = process.world
    return {
        "schema": VERSION,
        "version": version("rostra"),
        "profile": world.profile,
        "links": world.links,
        "resolve": world.resolve,
        "neighbours": sorted(hosted.node.links),
    }
