"""Messages per step on the reference tree: by kind, beside what theory says, and by level."""

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Struct

from benchmarks.tally import Tally
from rostra.protocols.relaxed.config import RelaxedConfig
from rostra.sim import STEADY, T_REF, WILD, LinkModel, SimProgram, World
from rostra.sim.taps import tapped

KINDS: Final = {
    "EndpointsJoined": "joined",
    "EndpointLeft": "left",
    "InterestChanged": "interest",
    "ResolveRequest": "request",
    "ResolveReply": "reply",
    "DomainFailed": "failed",
}

LEVELS: Final = {1: "between regions", 2: "between countries", 3: "between clusters", 4: "to hosts"}
"""By the depth of a link's deeper end. A link to the level above counts with the level below it."""


class Counted(Struct, frozen=True):
    step: str
    kinds: dict[str, int]
    levels: dict[int, int]
    expected: dict[str, int]

    @property
    def as_expected(self) -> bool:
        return all(self.kinds.get(kind, 0) == self.expected.get(kind, 0) for kind in KINDS)


class Bench:
    """A quiet reference world in which one step is counted after another."""

    def __init__(self, seed: int = 0, links: LinkModel = STEADY) -> None:
        self.tally = Tally()
        # Equal questions share an answer on the way (C-174); for counting, each goes its own way.
        alone = RelaxedConfig(share_collections=False)
        self.world = World(
            seed, T_REF, links=links, watching=tapped(self.tally), config=alone, history=False
        ).settle()
        self.counted: list[Counted] = []
        self._names = 0

    def program(self, host: str) -> SimProgram:
        self._names += 1
        program = self.world.program(host, f"p{self._names}")
        self.world.settle()
        return program

    def everywhere(self, group: str) -> list[SimProgram]:
        programs = [self.program(host) for host in T_REF.hosts]
        for program in programs:
            program.join(group)
        self.world.settle()
        return programs

    def count(self, step: str, act: Callable[[], object], **expected: int) -> None:
        self.world.settle()
        self.tally.clear()
        act()
        self.world.settle()
        levels: dict[int, int] = {}
        for (_, level), count in self.tally.by_depth.items():
            levels[level] = levels.get(level, 0) + count
        by_word = {word: kind for kind, word in KINDS.items()}
        self.counted.append(
            Counted(
                step,
                dict(self.tally.by_kind),
                levels,
                {by_word[word]: count for word, count in expected.items()},
            )
        )


def message_counts() -> list[Counted]:
    """Every row of the table that the suite holds as equalities."""
    bench = Bench()
    here = bench.program("eu.fr.c1.h1")
    for scope, messages in (("world", 6), ("eu.fr", 2), ("eu.fr.c1", 1), ("eu.fr.c1.h1", 0)):
        bench.count(
            f"resolve of an unknown group, scope {scope}",
            partial(here.resolve, f"unknown@{scope}"),
            request=messages,
            reply=messages,
        )
    far, beside, second = map(bench.program, ("us.ca.c2.h2", "eu.fr.c1.h2", "eu.fr.c1.h1"))
    bench.count("1st join, online", partial(here.join, "g@world"), joined=6, interest=8, request=6, reply=6)
    bench.count(
        "2nd join, online, far away", partial(far.join, "g@world"), joined=9, interest=8, request=9, reply=9
    )
    bench.count(
        "3rd join, offline, same cluster", partial(beside.join, "g@world", online=False), joined=8, interest=1
    )
    bench.count(
        "4th join, online, host of the 1st", partial(second.join, "g@world"), joined=7, request=8, reply=8
    )
    for scope, messages in (("eu.fr", 2), ("eu.fr.c1", 1), ("eu.fr.c1.h1", 0)):
        bench.count(
            f"1st join, online, scope {scope}",
            partial(here.join, f"scoped@{scope}"),
            joined=messages,
            interest=messages,
            request=messages,
            reply=messages,
        )
    bench.everywhere("all@world")
    bench.count("join, all 16 hosts online", partial(here.join, "all@world"), joined=29, request=29, reply=29)
    stranger = bench.program("us.ny.c1.h1")
    bench.count(
        "resolve, all 16 hosts with members", partial(stranger.resolve, "all@world"), request=29, reply=29
    )
    bench.count("leave, all 16 hosts online", partial(here.leave, "all@world"), left=29)
    return bench.counted + failures()


def failures() -> list[Counted]:
    counted = []
    for server, what, failed, interest in (
        ("eu.fr.c1.h1", "an agent", 28, 0),
        ("eu.fr", "a country's server", 25, 0),
        ("eu.fr.c1", "a cluster's server", 25, 0),
        ("eu", "a region's server", 26, 2),
        ("world", "the root's server", 0, 0),
    ):
        bench = Bench()
        bench.everywhere("all@world")
        bench.count(f"crash of {what}", partial(bench.world.crash, server), failed=failed, interest=interest)
        counted += bench.counted
    return counted


def returns(seeds: int) -> dict[str, dict[str, tuple[int, int]]]:
    """What depends on the order of delivery: the least and the most messages over random delays."""
    ranges: dict[str, dict[str, tuple[int, int]]] = {}
    for server, what in (("eu.fr", "a country's server"), ("eu.fr.c1", "a cluster's server")):
        found: dict[str, list[int]] = {kind: [] for kind in KINDS}
        for seed in range(seeds):
            bench = Bench(seed, WILD)
            bench.everywhere("all@world")
            bench.world.crash(server)
            bench.count("", partial(bench.world.restart, server))
            for kind, counts in found.items():
                counts.append(bench.counted[0].kinds.get(kind, 0))
        ranges[f"return of {what}"] = {kind: (min(counts), max(counts)) for kind, counts in found.items()}
    return ranges
