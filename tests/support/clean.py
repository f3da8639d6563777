"""Worlds in which nothing is wrong, and whose journals are hard to read.

Lived in the simulator, and shown without its own rows, as journals of real worlds are:

    crowd     more programs of one host in a group, and at a stream, than a row names
    big       many members on every host
    clocks    of two writers, minutes off
    tails     of two writers, the last rows are lost; nobody was killed

Members come and go in calm weather, and most worlds are cut in two and healed.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

from support.journal import Row
from support.parity import rows_of

from rostra.impair.quality import Constant, LineQuality
from rostra.protocols.links.config import LinkConfig
from rostra.sim import World
from rostra.sim.network import LinkModel

CALM_S: Final = 80.0
"""Longer than two bounds, so that what happens in the middle is judged."""

CROWD: Final = 66
"""More than 64, which no row names all of."""

CLOCK_S: Final = (30.0, 1200.0)

Rows = list[Row]


def lived(seed: int, directory: Path, crowd: int = CROWD) -> Rows:
    """A world without faults but a cut, and without a simulator's own rows."""
    dice = Random(f"clean {seed}")
    world = World(
        seed,
        domains={"haifa": ("a", "b"), "paris": ("c", "d")},
        links=LinkModel(lan=LineQuality(Constant(0.0002)), wan=LineQuality(Constant(0.05))),
        timers=LinkConfig.lan().over_datagrams(),
        fifo=True,
        journal=directory,
    ).settle()
    hosts = list(world.tree.hosts)
    many = dict.fromkeys(hosts, 12 if seed % 2 else 1)
    many[dice.choice(hosts)] = crowd + dice.randrange(8)
    programs = [world.program(host, f"p{nth}") for host in hosts for nth in range(many[host])]
    for program in programs:
        program.join("g")
    world.run(2.0)
    if seed % 4 < 2:
        for program in programs:
            program.join_fifo("talk")
        world.run(2.0)
        dice.choice(programs).stream("talk", 0.5, count=40)
    world.run(CALM_S / 2)
    for program in dice.sample(programs, 3):
        program.leave("g")
    world.program(dice.choice(hosts), "late").join("g")
    world.run(CALM_S / 2)
    if seed % 3:
        world.cut("haifa | paris").run(10.0)
        world.heal().run(CALM_S / 2)
        dice.choice([each for each in programs if each.members("g")]).kill()
        world.run(CALM_S / 2)
    world.close()
    return [row for row in rows_of(directory, f"clean-{seed}") if row["role"] != "sim"]


def with_clocks_off(rows: Rows, dice: Random) -> Rows:
    """Of two writers, for all their lives."""
    writers = sorted({row["writer"] for row in rows})
    off = {
        writer: timedelta(seconds=dice.choice((-1, 1)) * dice.uniform(*CLOCK_S))
        for writer in dice.sample(writers, 2)
    }
    return [{**row, "at": row["at"] + off.get(row["writer"], timedelta())} for row in rows]


def without_two_tails(rows: Rows, dice: Random) -> Rows:
    writers = sorted({row["writer"] for row in rows})
    lost: dict[str, int] = {}
    for writer in dice.sample(writers, 2):
        last = max(row["seq"] for row in rows if row["writer"] == writer)
        lost[writer] = int(last * dice.uniform(0.3, 0.95))
    return [row for row in rows if row["seq"] <= lost.get(row["writer"], row["seq"])]


SHOWN: Final[dict[str, Callable[[Rows, Random], Rows]]] = {
    "": lambda rows, dice: rows,
    "clocks": with_clocks_off,
    "tails": without_two_tails,
    "both": lambda rows, dice: without_two_tails(with_clocks_off(rows, dice), dice),
}


def clean_worlds(seed: int, directory: Path, crowd: int = CROWD) -> Iterator[tuple[str, Rows]]:
    """One life, as four journals."""
    rows = lived(seed, directory, crowd)
    for name, shown in SHOWN.items():
        world = f"clean-{seed} {name}".strip()
        dice = Random(f"{seed} {name}")
        yield world, [{**row, "world": world} for row in shown(rows, dice)]
