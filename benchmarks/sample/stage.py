"""The script with everything worked out that several writers need.

By the clock, a pause (see `script`) that comes before something:

    breaks    nothing is under way ──────────────────── the cut, at its very end ─▶ given up 4 to 6 s later
    heals     the line works 0.5 ─ linked 1.2 to 1.8 ─ lists arrive after 2.5 ──── activity goes on
    settles   some begin or cease to follow 0.5 ─ lists ─────────────── settled 7
"""

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.sample.pages import Pages, Words
from benchmarks.sample.places import Bools, Ints
from benchmarks.sample.script import NEVER, PAUSE, SECOND, Fault, Script
from rostra.journal.entries import Identity, Role

MS: Final = 1_000
HEALED: Final = SECOND // 2
MERGED: Final = 5 * SECOND // 2
BROKEN: Final = PAUSE - SECOND // 10
SETTLED: Final = PAUSE - SECOND
PROGRAMS: Final = ("web", "worker", "app", "bot", "sync")


class Notice(NamedTuple):
    """What a fault makes a host be told: everybody on the hosts that are lost is out of its sight."""

    kind: str  # without | only
    domain: str
    accuser: str
    accused: str
    lost: Bools


class Stage:
    """The script with everything worked out that several writers need."""

    def __init__(self, script: Script, world: str) -> None:
        self.script, self.world = script, world
        self.words = Words()
        places = script.places
        self.clock = script.clock(script.at)
        self.home = script.home[script.session]
        self.group = script.group[script.session]
        self.broken = script.broken_at(script.at)
        nobody = np.zeros((1, len(places.hosts)), dtype=bool)
        around = [places.inside(fault.kind, fault.where)[None, :] for fault in script.faults]
        self.around: Bools = np.concatenate((*around, nobody))  # the last row is for -1: nothing is broken
        self.join_stamp = np.zeros(len(script.home), dtype=np.int64)
        joins = script.is_join == 1
        self.join_stamp[script.session[joins]] = script.stamp[joins]
        self.groups = self.words.numbers(script.groups)
        self.present = {
            at: script.present(at) for fault in script.faults for at in (fault.begins, fault.ends)
        }
        self.detail = self.words['{"sample": true, "profile": "wan", "schema": 1}']

    @cached_property
    def members(self) -> pa.Array:
        """Every session's endpoint, by its number."""
        script = self.script
        hosts = pa.array(script.places.hosts).take(pa.array(script.home))
        names = pa.array([f"{name}-{n}" for name in PROGRAMS for n in range(1, 9)])
        chosen = names.take(pa.array(script.number % len(names)))
        numbers = pa.array(script.epoch + script.number).cast(pa.string())
        return pc.binary_join_element_wise(pc.binary_join_element_wise(hosts, chosen, "/"), numbers, "#")

    @cached_property
    def sizes(self) -> tuple[Ints, Ints]:
        """Joins and leaves as (group, time) in one number each, sorted: to count who was there."""
        script = self.script
        ended = script.until < NEVER
        return (
            np.sort(self._place(script.group, script.joined)),
            np.sort(self._place(script.group[ended], script.until[ended])),
        )

    def size(self, group: Ints, at: Ints) -> Ints:
        joins, leaves = self.sizes
        here, begin = self._place(group, at), self._place(group, np.zeros_like(at))
        came = np.searchsorted(joins, here) - np.searchsorted(joins, begin)
        went = np.searchsorted(leaves, here) - np.searchsorted(leaves, begin)
        found: Ints = came - went
        return found

    @staticmethod
    def _place(group: Ints, at: Ints) -> Ints:
        return (group << 46) + at

    def gives_up_at(self, number: int, accuser: str, accused: str) -> int:
        """When, by the clock, somebody gave somebody up because of this fault."""
        pair = (number, self.words[accuser], self.words[accused])
        patience = int(np.random.default_rng(pair).integers(4_000, 6_000)) * MS
        return self.script.pause(self.script.faults[number].begins) + BROKEN + patience

    def ends_of(self, fault: Fault) -> list[tuple[str, str]]:
        """The links that it breaks, each from both its ends: who gives up whom."""
        places = self.script.places
        if fault.kind == "host":
            return [(places.clusters[places.cluster_of[fault.where]], places.hosts[fault.where])]
        if fault.kind == "region":
            here = places.regions[fault.where]
            others = [name for name in places.regions if name != here]
        else:
            here = places.clusters[fault.where]
            above = here.partition(".")[0]
            others = [above, *(c for c in places.clusters if c != here and c.partition(".")[0] == above)]
        return [pair for there in others for pair in ((here, there), (there, here))]

    def notices(self, fault: Fault, host: int) -> list[Notice]:
        """What a host that works is told of it."""
        places = self.script.places
        region, cluster = int(places.region_of[host]), int(places.cluster_of[host])
        gone = places.inside(fault.kind, fault.where)
        if fault.kind == "host":
            above = places.clusters[places.cluster_of[fault.where]]
            name = places.hosts[fault.where]
            return [Notice("without", name, above, name, gone)]
        if fault.kind == "region":
            here, there = places.regions[region], places.regions[fault.where]
            if not gone[host]:
                return [Notice("without", there, here, there, gone)]
            return [
                Notice("without", name, here, name, places.inside("region", other))
                for other, name in enumerate(places.regions)
                if other != region
            ]
        around = int(places.region_of_cluster[fault.where])
        there, above = places.clusters[fault.where], places.regions[around]
        if not gone[host]:
            accuser = places.clusters[cluster] if region == around else above
            return [Notice("without", there, accuser, there, gone)]
        return [
            Notice("only", above, there, above, ~places.inside("region", around)),
            *(
                Notice("without", name, there, name, places.inside("cluster", other))
                for other, name in enumerate(places.clusters)
                if places.region_of_cluster[other] == around and other != fault.where
            ),
        ]

    def pages(self, writer: str, role: Role, epoch: int, observer: str = "") -> Pages:
        return Pages(Identity(self.world, writer, role, epoch), self.words, self.members, observer)
