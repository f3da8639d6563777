"""A month in the life of a world, made up in seconds: journals as real nodes would have written them.

    places    regions, clusters and hosts, from one host to many in a cluster
    script    what truly happened: programs come and go by day and by night, hosts crash, regions are cut off
    pages     rows in order, as segments
    stage     what several writers need to know of the script
    writers   what each agent and server saw of it, late by its distance
    talk      what groups said, and who heard it, on request
    numbered  watches with numbers, with it
    plants    one broken promise, on request: to see an audit find it

Everything is consistent: a member that a cut took away is back after the merge with the stamp it has then, a
host that crashed comes back with a larger incarnation, whoever is removed was given up by somebody whose own
journal says so. So audits of a sample answer *yes*, and *no* where something was planted. Beside the nodes
one more writer, `the_simulator`, says what was done when, as in simulated worlds.

What is drawn, and not consistent: how many messages servers sent (it follows the number of changes), and how
long questions took.

The same seed gives the same rows. Nothing is simulated: a million rows take a few seconds.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import Struct

from benchmarks.sample.pages import SEGMENT_ROWS
from benchmarks.sample.places import Places
from benchmarks.sample.plants import PLANTS, SPOKEN, plant
from benchmarks.sample.script import followers, popularity, scopes, write_script
from benchmarks.sample.talk import write_talks
from benchmarks.sample.writers import Beats, all_writers
from rostra.errors import BadInput
from rostra.journal.segments import Place
from rostra.sim.journal import SIMULATOR

WORLD: Final = "sample"
BEGAN_US: Final = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp()) * 1_000_000
EVENTS_MIN: Final = 2_000
DAYS_MAX: Final = 366

MARKED: Final = 0.17
ASKED: Final = 0.12
"""The shares of rows that are heartbeats and traffic, and questions. The rest is who came and went."""

TALK_MAX: Final = 0.6
NUMBERED: Final = 0.25
"""Of the rows of talk: watches with numbers."""


class Made(Struct, frozen=True):
    rows: int
    writers: int
    segments: int


def sample(
    directory: str | Path,
    *,
    events: int = 1_000_000,
    seed: int = 0,
    days: int = 30,
    talk: float = 0.0,
    planted: str | None = None,
    world: str = WORLD,
    tell: Callable[[int, int], None] = lambda done, writers: None,
) -> Made:
    """Write about so many rows into an empty directory. `tell` hears how many writers are done.

    `talk` is the share of them that is about what groups say and watches with numbers. Without it there is
    nothing of either, and every other row is as it always was for this seed.
    """
    if events < EVENTS_MIN:
        raise BadInput(f"{events} rows are too few for a world", fix=f"at least {EVENTS_MIN}")
    if not 1 <= days <= DAYS_MAX:
        raise BadInput(f"{days} days are not a history", fix=f"1 to {DAYS_MAX}")
    if not 0 <= talk <= TALK_MAX:
        raise BadInput(f"{talk:g} is not a share of the rows", fix=f"0 to {TALK_MAX:g}")
    if planted in SPOKEN and not talk:
        raise BadInput(f"nobody speaks, so {planted} cannot be broken", fix="--talk 0.3")
    if planted is not None and planted not in PLANTS:
        raise BadInput(f"nobody knows how to break {planted!r}", fix=f"one of: {', '.join(PLANTS)}")
    place = Place(directory)
    try:
        place.claim(SIMULATOR, 1)
    except FileExistsError:
        raise BadInput(f"{directory} holds a journal already", fix="name an empty directory") from None
    luck = np.random.default_rng(seed)
    hosts = int(np.clip(6 * (events / 1_000) ** 0.25, 12, 128))
    groups = int(np.clip(hosts * 1.2, 16, 120))
    places = Places.of(hosts, luck)
    weight = popularity(groups)
    told = float((followers(places, scopes(groups, len(places.regions)), weight) * weight).sum())
    sessions = int(events * (1 - MARKED - ASKED - talk) / (4 + 1.8 * told))
    script = write_script(places, sessions, groups, days, luck)
    writers = len(places.hosts) + len(places.clusters) + len(places.regions)
    beats = Beats(
        every_us=int(days * 86_400e6 * writers * 11 / (events * MARKED)),
        questions=int(events * ASKED / len(places.hosts)),
        talks=write_talks(script, int(events * talk * (1 - NUMBERED)), _apart(seed)) if talk else None,
        numbered=min(1.0, NUMBERED * talk * events / max(1.0, 1.8 * told * sessions)),
    )
    rows = segments = 0
    still_to_plant = planted
    everybody = list(all_writers(script, world))
    for done, writer in enumerate(everybody, 1):
        for pages in writer.pages(beats, np.random.default_rng((seed, done))):
            columns = pages.in_order()
            if still_to_plant is not None:
                columns, found = plant(still_to_plant, pages, columns, script)
                still_to_plant = None if found else still_to_plant
            written = pages.write(place, BEGAN_US, columns)
            rows, segments = rows + written, segments + -(-written // SEGMENT_ROWS)
        tell(done, len(everybody))
    if still_to_plant is not None:
        raise BadInput(f"so small a history has no chance to break {planted}", fix="more --events")
    return Made(rows, len(everybody), segments)


def _apart(seed: int) -> np.random.Generator:
    """Luck of its own, so that nothing else is drawn otherwise."""
    return np.random.default_rng((seed, 1 << 20))


__all__ = ["EVENTS_MIN", "PLANTS", "SPOKEN", "Made", "sample"]
