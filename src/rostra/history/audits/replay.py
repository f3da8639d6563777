"""The command that replays the run in which a promise was broken."""

import re
from pathlib import Path
from typing import Final

from rostra.sim.storm import replay_command as storm_command

_STORM: Final = re.compile(r"storm-(.+)-(\d+)")


def replay_command(world: str, journal: str | None) -> str:
    """A storm is run again from its seed and shape; nodes of a real world from the inputs that they recorded
    beside their journal. Empty if there are none, or if they are on another machine."""
    if storm := _STORM.fullmatch(world):
        return storm_command(int(storm[2]), storm[1])
    if journal is None or "://" in journal:
        return ""
    kept = any((Path(journal) / "_inputs").glob("*.inputs"))
    return f"rostra sim replay {journal}" if kept else ""
