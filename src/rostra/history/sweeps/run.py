"""One run: a world comes up, is left alone, loses a host, and finds it again.

    everybody joins ── calm ───────────── a crash ── told, one by one ── a restart ── linked again
                       suspected in vain             detection time

Without a look at any clock but the world's own, so the row is the same on every machine.
"""

import traceback
from typing import Any, Final

from rostra.errors import RostraError
from rostra.history.sweeps.plan import NETWORKS, Run
from rostra.names import ROOT, Group
from rostra.protocols.resolve.requests import AnyNotice, Join, Without
from rostra.sim.history import Detected, Told
from rostra.sim.world import World

GROUP: Final = Group("sweep", ROOT)
CALM_BEFORE_S: Final = 20.0
WAITED_S: Final = 20.0
"""For what a crash and a restart bring about, beyond three times the patience of the settings."""

ROW: Final[dict[str, str]] = {
    "run": "text",
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


def execute(run: Run) -> dict[str, Any]:
    """The row of a run; if it fails, the error is in it and the measures are not."""
    row: dict[str, Any] = dict.fromkeys(ROW)
    row |= {
        "run": run.id,
        "topology": run.topology,
        "network": run.network,
        "settings": run.settings,
        "label": run.label,
        "loss": run.loss,
        "seed": run.seed,
        "hosts": sum(run.clusters.values()),
    }
    try:
        return row | _measure(run)
    except RostraError as error:
        return row | {"error": f"{type(error).__name__}: {error}"}
    except Exception:
        return row | {"error": traceback.format_exc(limit=-3)}


def _measure(run: Run) -> dict[str, Any]:
    timers = run.timers
    world = World(
        run.seed,
        domains=run.clusters,
        links=NETWORKS[run.network].losing(run.loss),
        timers=timers,
        stagger=True,
    )
    assert world.history is not None
    # Not until it is at rest: with too little patience on a bad line a world never is.
    world.run(timers.tick_s)  # servers start within the first
    for host in world.tree.hosts:
        world.ask(world.program(host), Join(GROUP))
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
    told = [r.at for r in since if isinstance(r, Told) and _lost(r.notice) == victim]
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
