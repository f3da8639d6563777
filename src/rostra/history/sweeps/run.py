"""One run: a world comes up, is left alone, loses a host, and finds it again.

    all hosts join ── calm ────────────── a crash ── told, one by one ── a restart ── linked again
                      false suspicions               detection time

The only clock is that of the simulated world, so the row is the same on every machine. Each run can leave its
journal: the same files as any world's, under the name that its row has.
"""

import shutil
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rostra.errors import RostraError
from rostra.history.sweeps.plan import NETWORKS, SweepRun
from rostra.names import ROOT, Group
from rostra.protocols.relaxed.requests import AnyNotice, Join, Without
from rostra.sim.history import Detected, NoticeRecord
from rostra.sim.world import World

if TYPE_CHECKING:
    from rostra.sim.journal import SimJournal

GROUP: Final = Group("sweep", ROOT)
CALM_BEFORE_S: Final = 20.0
WAITED_S: Final = 20.0
"""For what a crash and a restart bring about, beyond three times the patience of the settings."""

JOURNALS, FAILED = "journals", "failed"
"""Where journals go, one directory each: those of runs that came to their end, and those that did not."""

ROW: Final[dict[str, str]] = {
    "run": "text",
    "world": "text",  # its name in the journal
    "topology": "text",
    "network": "text",
    "settings": "text",
    "label": "text",
    "loss": "double",
    "seed": "int64",
    "hosts": "int64",
    "detected_s": "double",  # from the crash until the first neighbour gave the host up
    "told_s": "double",  # until the last observer elsewhere knew
    "healed_s": "double",  # from the restart until its neighbour had it back
    "suspected": "int64",  # in calm weather: neighbours that were alive and overdue
    "given_up": "int64",  # of these, given up: their members were removed for nothing
    "per_link_hour": "double",  # suspected, for each direction of each link and hour of calm
    "packets": "int64",
    "packets_per_link_s": "double",  # in calm weather: what being watched costs
    "error": "text",
}
"""A row's columns and their types, as in the journal's schema."""


def execute(run: SweepRun, into: str | Path | None = None) -> dict[str, Any]:
    """The row of a run; if it fails, the error is in it and the measures are not. With `into`, its journal
    appears there when it is whole."""
    row: dict[str, Any] = dict.fromkeys(ROW)
    row |= {
        "run": run.id,
        "world": run.world,
        "topology": run.topology,
        "network": run.network,
        "settings": run.settings,
        "label": run.label,
        "loss": run.loss,
        "seed": run.seed,
        "hosts": sum(run.clusters.values()),
    }
    part = None if into is None else _emptied(Path(into) / ".parts" / run.id)
    try:
        row |= _measure(run, part)
    except RostraError as error:
        row["error"] = f"{type(error).__name__}: {error}"
    except Exception:
        row["error"] = traceback.format_exc(limit=-3)
    if into is not None and part is not None and part.exists():
        whole = _emptied(Path(into) / (FAILED if row["error"] else JOURNALS) / run.id)
        whole.parent.mkdir(parents=True, exist_ok=True)
        part.rename(whole)
    return row


def _emptied(directory: Path) -> Path:
    """Whatever an earlier attempt left there is in the way."""
    shutil.rmtree(directory, ignore_errors=True)
    return directory


def _measure(run: SweepRun, journal: Path | None) -> dict[str, Any]:
    world = World(
        run.seed,
        domains=run.clusters,
        links=NETWORKS[run.network].losing(run.loss),
        timers=run.timers,
        stagger=True,
        journal=None if journal is None else _journal(journal, run.world),
    )
    try:
        return _live(world, run)
    finally:
        world.close()


def _journal(directory: Path, world: str) -> "SimJournal":
    # Late, because Arrow takes long to load and is not needed for the row.
    from rostra.sim.journal import SimJournal

    return SimJournal(directory, world=world)


def _live(world: World, run: SweepRun) -> dict[str, Any]:
    timers = run.timers
    assert world.history is not None
    # Not until it is at rest: with too little patience on a bad line a world never is.
    world.run(timers.tick_s)  # servers start within the first
    for host in world.tree.hosts:
        world.program(host).ask(Join(GROUP))
    world.run(max(CALM_BEFORE_S, 5 * timers.detect.down_after_s))

    began, packets = len(world.history), world.packets
    world.run(run.calm_s)
    calm = [record for record in world.history[began:] if isinstance(record, Detected)]
    packets = world.packets - packets
    lines = sum(len(process.lines) for process in world.processes.values())

    victim = world.tree.hosts[run.seed % len(world.tree.hosts)]
    patience = 3 * timers.detect.down_after_s + WAITED_S
    began, crashed_at = len(world.history), world.now
    world.crash(victim).run(patience)
    since = world.history[began:]
    downs = [r.at for r in since if isinstance(r, Detected) and (r.change, r.peer) == ("down", victim)]
    told = [r.at for r in since if isinstance(r, NoticeRecord) and _lost(r.notice) == victim]
    began, restarted_at = len(world.history), world.now
    world.restart(victim).run(patience)
    ups = [
        r.at
        for r in world.history[began:]
        if isinstance(r, Detected) and (r.change, r.peer) == ("up", victim)
    ]
    suspected = sum(record.change == "suspected" for record in calm)
    return {
        "detected_s": _after(crashed_at, downs[:1]),
        "told_s": _after(crashed_at, told[-1:]),
        "healed_s": _after(restarted_at, ups[:1]),
        "suspected": suspected,
        "given_up": sum(record.change == "down" for record in calm),
        "per_link_hour": suspected / lines / (run.calm_s / 3600),
        "packets": packets,
        "packets_per_link_s": packets / lines / run.calm_s,
    }


def _lost(notice: AnyNotice) -> str | None:
    return notice.domain if isinstance(notice, Without) else None


def _after(since: float, times: list[float]) -> float | None:
    return round(times[0] - since, 6) if times else None
