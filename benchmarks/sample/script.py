"""What truly happened in a sample month: who was in which group when, what broke, when all was quiet.

Activity has a time of its own, into which **pauses** are inserted: eight quiet seconds at every moment when
something breaks, heals or is looked at as a whole. So nothing is under way then, lists need no second look,
and the sample is exact without simulating a single message.

    activity   ────────────┤├───────────┤├──────────────────┤├─────────▶
    the clock  ────────────┤ a pause    ├───┤ a pause   ├────┤ a pause  ├──▶
                             then a cut       a merge          settled

At most one thing is broken at a time: a region or cluster is cut off, or a host crashes.
"""

from typing import Final, Literal, NamedTuple

import numpy as np
from msgspec import Struct

from benchmarks.sample.places import Floats, Ints, Places

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
PAUSE: Final = 8 * SECOND
NEVER: Final = np.iinfo(np.int64).max // 4
FIRST_EPOCH: Final = 1_000
SHORTEST: Final = 3 * SECOND
"""No membership is shorter: news of its beginning and of its end never meet on the way."""

LONG_CUT: Final = 600 * SECOND
"""While a longer one lasts, the world settles once more, in two halves."""


class Fault(NamedTuple):
    """A region or cluster is cut off from everybody else, or a host crashes."""

    kind: Literal["region", "cluster", "host"]
    where: int
    begins: int  # in the time of activity, as everything here
    ends: int


class Watching(NamedTuple):
    """One host follows one group."""

    host: int
    group: int
    begins: int
    ends: int


class Script(Struct, frozen=True):
    places: Places
    groups: list[str]
    scope_of: Ints  # of each group: a region, or -1 for the world
    faults: list[Fault]
    settled: list[int]
    breaks: Ints  # where pauses are inserted
    ends_at: int  # when the month ends, by the clock
    watching: list[Watching]
    # Sessions: one program in one group, once
    home: Ints
    group: Ints
    joined: Ints
    until: Ints  # it left, or its host crashed; NEVER if it lasts
    says: Ints  # how its home knows that it ended: 0 left, 1 crashed, -1 not at all
    epoch: Ints  # of its home's agent
    number: Ints  # of its endpoint
    # Changes: what homes accepted, in order
    at: Ints
    session: Ints
    is_join: Ints
    stamp: Ints

    def clock(self, at: Ints) -> Ints:
        """Activity as the clock shows it."""
        return at + PAUSE * np.searchsorted(self.breaks, at, side="right")

    def pause(self, at: int) -> int:
        """When, by the clock, the pause before this moment begins."""
        return at + PAUSE * int(np.searchsorted(self.breaks, at, side="left"))

    def present(self, at: int) -> Ints:
        """The sessions that last at a break."""
        found: Ints = np.flatnonzero((self.joined < at) & (self.until >= at))
        return found

    def epochs(self, host: int) -> list[tuple[int, int, int]]:
        """The lives of a host's agent: its epoch, from when, until when (NEVER: to the end)."""
        lives, begins, epoch = [], 0, FIRST_EPOCH
        for fault in self.faults:
            if fault.kind == "host" and fault.where == host:
                lives.append((epoch, begins, fault.begins))
                begins, epoch = fault.ends, epoch + FIRST_EPOCH
        return [*lives, (epoch, begins, NEVER)]

    def broken_at(self, at: Ints) -> Ints:
        """The number of the fault that lasts at each of these times, or -1."""
        begins = np.array([fault.begins for fault in self.faults], dtype=np.int64)
        ends = np.array([fault.ends for fault in self.faults], dtype=np.int64)
        last = np.searchsorted(begins, at, side="right") - 1
        if not len(begins):
            return last
        found: Ints = np.where((last >= 0) & (at < ends[last]), last, -1)
        return found


NAMES: Final = (
    *("orders", "chess", "search", "billing", "sensors", "video", "quotes", "mail", "cache", "auth"),
    *("stock", "go", "maps", "news", "jobs", "build", "logs", "fleet", "rooms", "games"),
)


def write_script(places: Places, sessions: int, groups: int, days: int, luck: np.random.Generator) -> Script:
    """Draw a month: sizes with heavy tails, days with mornings and nights, faults long and short."""
    slots = max(8, 6 * days)
    faults, settled, breaks, span = _weather(places, slots, days, luck)
    names, scope_of, weight = _groups(places, groups, luck)
    watching = _watching(places, scope_of, weight, faults, settled, luck)

    group = luck.choice(groups, sessions, p=weight)
    home = _homes(places, scope_of[group], luck)
    joined = _mornings(places.waking_s[places.region_of[home]], span, luck)
    usual = float(np.clip(6 * len(places.hosts) * span / max(1, sessions), 600 * SECOND, DAY))
    lasts = usual * np.exp(1.2 * luck.standard_normal(sessions) - 0.72)  # this mean, and a heavy tail
    until = joined + np.maximum(lasts, SHORTEST).astype(np.int64)
    says = (luck.random(sessions) < 0.12).astype(np.int64)
    says[until >= span] = -1
    until[until >= span] = NEVER
    epoch = np.full(sessions, FIRST_EPOCH, dtype=np.int64)
    born = np.ones(sessions, dtype=bool)
    for fault in faults:
        if fault.kind == "host":
            here = home == fault.where
            epoch[here & (joined >= fault.ends)] += FIRST_EPOCH
            born &= ~(here & (joined >= fault.begins) & (joined < fault.ends))
            dies = here & (joined < fault.begins) & (until >= fault.begins)
            until[dies], says[dies] = fault.begins, -1
    order = np.flatnonzero(born)
    order = order[np.argsort(joined[order], kind="stable")]
    home, group, joined, until = home[order], group[order], joined[order], until[order]
    says, epoch = says[order], epoch[order]

    leaving = np.flatnonzero(says >= 0)
    at = np.concatenate((joined, until[leaving]))
    session = np.concatenate((np.arange(len(joined)), leaving))
    is_join = np.concatenate((np.ones(len(joined), np.int64), np.zeros(len(leaving), np.int64)))
    by_time = np.argsort(at, kind="stable")
    at, session, is_join = at[by_time], session[by_time], is_join[by_time]
    return Script(
        places=places,
        groups=names,
        scope_of=scope_of,
        faults=faults,
        settled=settled,
        breaks=breaks,
        ends_at=days * DAY,
        watching=watching,
        home=home,
        group=group,
        joined=joined,
        until=until,
        says=says,
        epoch=epoch,
        number=_ranks(home, np.arange(len(home))),
        at=at,
        session=session,
        is_join=is_join,
        stamp=_ranks(home[session] * (1 << 20) + epoch[session], np.arange(len(at))),
    )


def followers(places: Places, scope_of: Ints, weight: Floats) -> Floats:
    """How many hosts are to follow each group: many follow a popular one, and everybody follows some."""
    room = np.array([len(places.hosts), *np.bincount(places.region_of)], dtype=np.float64)[scope_of + 1]
    found: Floats = np.maximum(1.0, np.minimum(room, 1 + room * 0.75 * np.sqrt(weight / weight.max())))
    return found


def popularity(groups: int) -> Floats:
    weight = 1.0 / np.arange(1, groups + 1) ** 0.9
    found: Floats = weight / weight.sum()
    return found


def scopes(groups: int, regions: int) -> Ints:
    """Two of three groups are for the whole world, the others for one region each."""
    nth = np.arange(groups)
    found: Ints = np.where(nth % 3 == 2, (nth // 3) % regions, -1)
    return found


def _groups(places: Places, groups: int, luck: np.random.Generator) -> tuple[list[str], Ints, Floats]:
    scope_of = scopes(groups, len(places.regions))
    names = []
    for nth, scope in enumerate(scope_of):
        again = "" if nth < len(NAMES) else f"-{nth // len(NAMES) + 1}"
        names.append(f"{NAMES[nth % len(NAMES)]}{again}@{'world' if scope < 0 else places.regions[scope]}")
    return names, scope_of, popularity(groups)


def _homes(places: Places, scope: Ints, luck: np.random.Generator) -> Ints:
    """A host inside the group's scope; some hosts have far more programs than others."""
    hosts = len(places.hosts)
    weight = luck.pareto(2.0, hosts) + 0.3
    home = luck.choice(hosts, len(scope), p=weight / weight.sum()).astype(np.int64)
    for region in range(len(places.regions)):
        inside = np.flatnonzero(places.region_of == region)
        wrong = (scope == region) & (places.region_of[home] != region)
        home[wrong] = luck.choice(inside, int(wrong.sum()), p=weight[inside] / weight[inside].sum())
    return home


def _mornings(waking_s: Ints, span: int, luck: np.random.Generator) -> Ints:
    """Times of the month, most of them by day, where it is day at the time."""
    step = 600
    seconds = np.arange(0, span // SECOND, step)
    busy = 1.0 + 0.7 * np.sin(2 * np.pi * (seconds / 86_400 - 0.25))
    cumulated = np.concatenate(([0.0], np.cumsum(busy)))
    drawn = np.interp(luck.random(len(waking_s)) * cumulated[-1], cumulated, np.arange(len(cumulated)) * step)
    found: Ints = ((drawn + waking_s) * SECOND).astype(np.int64) % span
    return found


def _weather(
    places: Places, slots: int, days: int, luck: np.random.Generator
) -> tuple[list[Fault], list[int], Ints, int]:
    """Faults, each inside a stretch of its own between two moments at which the world settles."""
    many = int(np.clip(days, 3, slots - 3))
    span = days * DAY - PAUSE * (slots + 3 * many + 2)  # what the pauses leave
    slot = span // slots
    settled = [slot * n for n in range(1, slots)]
    kinds: tuple[Literal["region", "cluster", "host"], ...] = ("host", "cluster", "region")
    shares = luck.permutation(np.arange(many) % 3)
    faults, breaks = [], [0, *settled]
    for nth, place in zip(
        shares, sorted(luck.choice(np.arange(1, slots - 1), many, replace=False)), strict=True
    ):
        kind = kinds[nth]
        long = int(np.clip(120 * SECOND * np.exp(1.3 * luck.standard_normal()), 45 * SECOND, slot // 2))
        begins = int(slot * place + slot // 5 + luck.integers(0, max(1, slot // 5)))
        count = {"region": len(places.regions), "cluster": len(places.clusters), "host": len(places.hosts)}
        faults.append(Fault(kind, int(luck.integers(count[kind])), begins, begins + long))
        breaks += [begins, begins + long]
        if kind != "host" and long >= LONG_CUT:
            settled.append(begins + long // 2)
            breaks.append(begins + long // 2)
    return faults, sorted(settled), np.array(sorted(breaks), dtype=np.int64), span


def _watching(
    places: Places,
    scope_of: Ints,
    weight: Floats,
    faults: list[Fault],
    settled: list[int],
    luck: np.random.Generator,
) -> list[Watching]:
    """Most follow for the whole month; some come late, some go early, always in fair weather."""
    broken = [(fault.begins, fault.ends) for fault in faults]
    fair = [at for at in settled if not any(begins <= at <= ends for begins, ends in broken)]
    wanted = followers(places, scope_of, weight)
    found = []
    for group, scope in enumerate(scope_of):
        room = np.arange(len(places.hosts)) if scope < 0 else np.flatnonzero(places.region_of == scope)
        chosen = luck.permutation(room)[: min(len(room), round(float(wanted[group])))]
        for host in sorted(int(each) for each in chosen):
            late, early = luck.random(2) < (0.2, 0.1)
            first, last = sorted(luck.choice(len(fair), 2, replace=False))
            found.append(Watching(host, group, fair[first] if late else 0, fair[last] if early else NEVER))
    return found


def _ranks(key: Ints, order: Ints) -> Ints:
    """1, 2, 3 ... among those with the same key, in this order."""
    sorting = np.lexsort((order, key))
    sorted_key = key[sorting]
    first = np.concatenate(([0], np.flatnonzero(np.diff(sorted_key)) + 1))
    begins = np.repeat(first, np.diff(np.concatenate((first, [len(key)]))))
    ranks = np.empty(len(key), dtype=np.int64)
    ranks[sorting] = np.arange(len(key)) - begins + 1
    return ranks
