"""What audits of a history of up to `HERE_ROWS` read for themselves, in Arrow: rows that may be wrong, and
how many are fine.

    files of whole lives ──▶ a thread for each core ──▶ few rows ──▶ the plans of Spark that judge any history
                                                   └──▶ how many others there are

Nearly all rows of a history are in order, and to hand each to Java in order to count it there was most of the
time of an audit of a million rows. A row is left out here only if no plan could call it broken; tests compare
the verdicts of both ways.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rostra.history.arrow import STAYS_IN_ARROW, spelled_out
from rostra.history.arrow_fast_path import (
    EventSource,
    SegmentRun,
    here,
    is_one_of,
    is_there,
    is_true,
    read,
)
from rostra.history.audits.facts import Calm, Fault, Looking, met, rows_of
from rostra.history.audits.lies_fast_path import LIES_IN_ARROW, TIME, Lying, ended, told
from rostra.history.audits.obstacles import Obstacles, lasting
from rostra.history.audits.order_fast_path import FINDINGS_IN_ARROW, StampComparison
from rostra.history.intervals import changes, encoded, fold, numbers
from rostra.history.places import places_between
from rostra.history.runs import Key

HOME: Final = ("world", "writer", "epoch", "group", "member", "life", "stamp", "seq", "at", "kind", "cause")
LEAVE: Final = ("world", "group", "member", "life", "stamp")
REMOVING: Final = ("absolute", "joined", "left", "without", "only")
NOTABLE: Final = (
    *("world", "writer", "epoch", "seq", "at", "kind", "nth", "change", "news", "group", "member"),
    *("life", "stamp", "observers", "domain", "cause", "accuser", "accused", "what"),
)
SEEN: Final = ("world", "seen_by", "epoch", "group", "member", "joined_seq", "left_at")
CHANGE: Final = (*LEAVE, "change")
PLACE: Final = ("world", "writer", "epoch", "group")
HEARD: Final = ("writer", "epoch", "at", "kind", "cause", *CHANGE)

Numbers = NDArray[np.int64]
Stretch = tuple[str, int, int, int, int]  # as `watch_complete.calm` says it


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).combine_chunks()


def homes(origin: EventSource) -> pa.Table:
    """The joins and leaves that members' own agents accepted."""

    def found(run: SegmentRun) -> list[pa.Table]:
        each = read(run, HOME)
        return [
            rows.filter(pa.array(is_one_of(rows["kind"], "member-joined", "member-left"))) for rows in each
        ]

    return joined([rows for tables in here(origin, found) for rows in tables])


def memberships(homes: pa.Table, ends: Mapping[Key, int]) -> pa.Table:
    """The same as intervals; `ends` are those of lives."""
    homes = homes.filter(pc.is_valid(homes["member"]))
    is_join = pc.equal(homes["kind"], "member-joined")
    done, lasting = fold(STAYS_IN_ARROW.empty_table(), changes(homes, is_join))
    return ended(joined([done, lasting]), ends)


def went_back(origin: EventSource) -> tuple[pa.Table, Mapping[str, int]]:
    """Of what `StampComparison` says: what is not fine, and how much of each world is."""

    def found(run: SegmentRun) -> list[tuple[pa.Table, dict[str, int]]]:
        return [
            (rows.filter(rows["broken"]), counted(rows["world"].filter(pc.invert(rows["broken"]))))
            for rows in StampComparison()(run)
        ]

    each = [those for run in here(origin, found) for those in run]
    broken = [rows for rows, _ in each]
    return spelled_out(joined([FINDINGS_IN_ARROW.empty_table(), *broken])), summed(fine for _, fine in each)


class Notable(NamedTuple):
    rows: pa.Table  # notices of which a plan might say that they should not have been
    removed: Mapping[str, int]  # how often a host of each world lost sight of a member
    speaking: frozenset[tuple[str, str]]  # as `Evidence.speaking`


def notable(origin: EventSource, homes: pa.Table) -> Notable:
    made = homes.filter(pc.equal(homes["kind"], "member-left")).select(LEAVE)
    found = here(origin, lambda run: [_notable(rows, made) for rows in read(run, NOTABLE)])
    each = [those for run in found for those in run]
    speaking = frozenset[tuple[str, str]]().union(*(those.speaking for those in each))
    return Notable(
        spelled_out(joined([those.rows for those in each])), summed(those.removed for those in each), speaking
    )


def _notable(rows: pa.Table, made: pa.Table) -> Notable:
    kind, cause, change, news = rows["kind"], rows["cause"], rows["change"], is_true(rows["news"])
    is_left, is_cut = is_one_of(kind, "left"), is_one_of(kind, "without", "only")
    gone = is_one_of(kind, *REMOVING) & news & is_one_of(change, "left") & is_there(rows["member"])
    unnamed = ~(is_there(rows["accuser"]) & is_there(rows["accused"]) & is_there(rows["what"]))
    chosen = gone & (~is_there(cause) | (is_cut & unnamed)) | is_cut & (rows["nth"].to_numpy() == 0)
    chosen |= is_left & ~news | is_one_of(kind, "joined") & is_one_of(cause, "join") & is_one_of(
        change, "kept"
    )
    has_stamp = is_there(rows["stamp"])
    leaves = np.flatnonzero(is_left & news & has_stamp)
    number = numbers(joined([made, rows.select(LEAVE).take(pa.array(leaves))]), LEAVE)
    chosen[leaves[~np.isin(number[made.num_rows :], number[: made.num_rows])]] = True
    unstamped = is_one_of(kind, "absolute", "joined") & is_one_of(change, "joined") & ~has_stamp
    unstamped &= is_there(rows["group"])
    speaking = rows.select(("world", "group")).filter(pa.array(unstamped)).group_by(["world", "group"])
    return Notable(
        rows.filter(pa.array(chosen)),
        counted(rows["world"].filter(pa.array(gone))),
        frozenset(rows_of(speaking.aggregate([]), "world", "group")),
    )


def sights(
    origin: EventSource, lying: Lying, faults: Sequence[Fault], newest: Mapping[str, int]
) -> tuple[pa.Table, pa.Table]:
    """Lies; and stays (from_at to end) in whose time something between the two hosts did not work."""

    def found(run: SegmentRun) -> tuple[list[pa.Table], pa.Table]:
        seen = told(run, lying.ends)
        worlds = encoded(seen["world"])
        ending = np.array([newest[world] for world in worlds.dictionary.to_pylist()], np.int64)
        end = pc.coalesce(seen["left_at"].cast(pa.int64()), pa.array(ending[worlds.indices.to_numpy()]))
        stays = seen.select(SEEN).append_column("from_at", seen["joined_at"])
        stays = stays.append_column("end", end.cast(TIME))
        return [*lying.beside(run, seen)], stays.filter(pa.array(Obstacles(lasting(faults)).meets(stays)))

    lies, obstructed = zip(*here(origin, found), strict=True)
    found_lies = [LIES_IN_ARROW.empty_table(), *(rows for those in lies for rows in those)]
    return joined(found_lies), spelled_out(joined(obstructed))


def unexcused(
    lies: pa.Table, stretches: Sequence[Calm], times: Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """As `Evidence.lied` says it: each with every calm in which it lasted too long."""
    asked = ((lie, lie[0], *lie[5:7]) for lie in rows_of(lies))
    for lie, calm, moment in met(asked, stretches, times):
        _, here, _, member, what, *_ = lie
        rests_on = places_between(here, member.partition("/")[0]) if what == "missing" else (here,)
        if not set(calm.broken).intersection(rests_on):
            yield (*lie, *calm[1:], moment)


def unfounded(
    rows: pa.Table,
    downs: Iterable[tuple[str, str, str, int]],
    accusers: Collection[tuple[str, str]],
    bound_us: int,
) -> pa.Table:
    """Removals, without those that are told with a reason that the accuser's own journal bears out, or whose
    accuser has none here."""
    gave_up: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for *pair, at in sorted(downs, key=lambda down: down[3]):
        gave_up[pair[0], pair[1], pair[2]].append(at)

    def is_founded(world: str, at: int, kind: str, cause: str | None, *said: str | None) -> bool:
        accuser, accused, what = said
        if kind not in ("without", "only") or None in (cause, accuser, accused, what):
            return False
        times = gave_up[world, str(accuser), str(accused)]
        nth = bisect_left(times, at - bound_us)
        return (world, accuser) not in accusers or (nth < len(times) and times[nth] <= at + bound_us)

    columns = ("world", "at", "kind", "cause", "accuser", "accused", "what")
    is_removal = is_true(pc.and_(rows["news"], pc.equal(rows["change"], "left"))) & is_there(rows["member"])
    is_removal &= np.asarray(pc.is_in(rows["kind"], pa.array(REMOVING)))
    chosen = rows.filter(pa.array(is_removal))
    return chosen.filter(pa.array([not is_founded(*row) for row in rows_of(chosen, *columns)], pa.bool_()))


class Untold(NamedTuple):
    changes: list[tuple[Any, ...]]  # CHANGE: those that were not told exactly once to each host that was due
    fine: Mapping[str, int]  # of the other changes of each world, to how many hosts each was due


def untold(
    origin: EventSource,
    homes: pa.Table,
    stretches: Sequence[Stretch],
    lookers: Iterable[Looking],
    gaps: Iterable[tuple[str, str, str, int]],
    speaking: Collection[tuple[str, str]],
) -> Untold:
    """Who was to be told of what, beside who was told: as `watch_complete` says both, which judges the
    changes in which they differ."""
    silent = [each not in speaking for each in rows_of(homes, "world", "group")]
    weather = _Weather(stretches, list(lookers), gaps)
    judged = pc.and_(pa.array(silent, pa.bool_()), pc.is_valid(homes["member"]))
    due = weather.due(homes.filter(judged))
    heard = joined([due[:0], *(rows for each in here(origin, weather.heard) for rows in each)])
    both = joined([due, heard])
    change = numbers(both, CHANGE)
    turn = np.unique(
        numbers(both.append_column("nth", pa.array(change)), ("nth", "rest", "host")), return_inverse=True
    )[1]
    many = len(both)
    counts = (np.bincount(those, minlength=many) for those in (turn[: len(due)], turn[len(due) :]))
    wrong = np.not_equal(*counts)[turn]
    _, firsts = np.unique(change[wrong], return_index=True)
    told_wrong = both.filter(pa.array(wrong)).take(pa.array(firsts)).select(CHANGE)
    fine = due.filter(pa.array(~np.isin(change[: len(due)], change[wrong])))
    return Untold(list(rows_of(told_wrong)), counted(fine["world"]))


class _Weather:
    """Calm stretches, those that looked on all the time, and who missed something in them."""

    def __init__(
        self, stretches: Sequence[Stretch], lookers: list[Looking], gaps: Iterable[tuple[str, str, str, int]]
    ) -> None:
        self.stretches = sorted(stretches)
        self._rest_from, self._rest_until = (
            np.array([each[place] for each in self.stretches], np.int64) for place in (3, 4)
        )
        self._of_world: dict[str, list[int]] = defaultdict(list)
        for nth, each in enumerate(self.stretches):
            self._of_world[each[0]].append(nth)
        self._hosts: dict[tuple[str, int], int] = {}  # and epochs
        self._by_group: dict[tuple[str, str], list[Looking]] = defaultdict(list)
        self._by_host: dict[tuple[str, str, int, str], list[Looking]] = defaultdict(list)
        for looker in lookers:
            world, host, epoch, group, *_ = looker
            self._hosts.setdefault((host, epoch), len(self._hosts))
            self._by_group[world, group].append(looker)
            self._by_host[world, host, epoch, group].append(looker)
        self._gaps: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        for world, host, group, at in gaps:
            self._gaps[world, host, group].append(at)

    def due(self, homes: pa.Table) -> pa.Table:
        """Every change at home in calm weather, with every other host that looked on."""
        at = homes["at"].cast(pa.int64()).to_numpy()
        order = np.argsort(at, kind="stable")
        group, member = homes["group"].to_pylist(), homes["member"].to_pylist()
        rows, rests, hosts = [], [], []
        for world, stretches in self._of_world.items():
            mine = order[is_one_of(homes["world"], world)[order]]
            for nth in stretches:
                _, since, until, _, _ = self.stretches[nth]
                first, last = np.searchsorted(at[mine], (since, until))
                lookers: dict[str, list[tuple[str, int]]] = {}
                for row in mine[first:last].tolist():
                    if group[row] not in lookers:
                        lookers[group[row]] = list(self._looked(nth, group[row]))
                    home = member[row].partition("/")[0]
                    due = [host for name, host in lookers[group[row]] if name != home]
                    rows += [row] * len(due)
                    rests += [nth] * len(due)
                    hosts += due
        is_join = is_one_of(homes["kind"], "member-joined")
        change = pa.array(np.where(is_join, "joined", "left")).dictionary_encode()
        return self._turns(
            homes.append_column("change", change),
            *(np.array(each, np.int64) for each in (rows, rests, hosts)),
        )

    def heard(self, run: SegmentRun) -> list[pa.Table]:
        """What hosts that looked on were told then of members of others."""
        return [self._heard(rows) for rows in read(run, HEARD)]

    def _looked(self, nth: int, group: str) -> Iterator[tuple[str, int]]:
        world, _, _, since, until = self.stretches[nth]
        for each in self._by_group[world, group]:
            looked = each.from_at < since and (each.until_at is None or each.until_at >= until)
            gaps = self._gaps.get((world, each.seen_by, group), ())
            if looked and not any(since <= at <= until for at in gaps):
                yield each.seen_by, self._hosts[each.seen_by, each.epoch]

    def _heard(self, rows: pa.Table) -> pa.Table:
        is_told = is_one_of(rows["kind"], "absolute", "joined", "left") & is_there(rows["member"])
        is_told &= is_there(rows["stamp"])
        is_told &= is_one_of(rows["change"], "joined", "left") & is_there(rows["cause"])
        rows = rows.filter(pa.array(is_told & ~is_one_of(rows["cause"], "unlisted"))).combine_chunks()
        at = rows["at"].cast(pa.int64()).to_numpy()
        place = numbers(rows, PLACE)
        order = np.argsort(place, kind="stable")
        member = encoded(rows["member"])
        home = np.array([each.partition("/")[0] for each in member.dictionary.to_pylist()], dtype=object)
        found: list[tuple[Numbers, Numbers, Numbers]] = []
        for those in np.split(order, np.flatnonzero(np.diff(place[order])) + 1) if len(order) else ():
            world, host, epoch, group = (rows[name][int(those[0])].as_py() for name in PLACE)
            lookers, stretches = (
                self._by_host.get((world, host, epoch, group), ()),
                self._of_world.get(world, []),
            )
            if not lookers or not stretches:
                continue
            rest = np.array(stretches)[np.searchsorted(self._rest_from[stretches], at[those], "right") - 1]
            away = home[member.indices.to_numpy()[those]] != host
            calm = away & (at[those] >= self._rest_from[rest]) & (at[those] < self._rest_until[rest])
            for each in lookers:
                looked = calm & (self._rest_from[rest] > each.from_at)
                if each.until_at is not None:
                    looked &= self._rest_until[rest] <= each.until_at
                found.append((those[looked], rest[looked], np.full(looked.sum(), self._hosts[host, epoch])))
        columns = zip(*found, strict=True) if found else [[np.zeros(0, np.int64)]] * 3
        return self._turns(rows, *(np.concatenate([*each]) for each in columns))

    def _turns(self, rows: pa.Table, chosen: Numbers, rests: Numbers, hosts: Numbers) -> pa.Table:
        turns = rows.select(CHANGE).take(pa.array(chosen))
        return turns.append_column("rest", pa.array(rests)).append_column("host", pa.array(hosts))


def summed(counts: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return found


def counted(worlds: pa.ChunkedArray) -> dict[str, int]:
    return {str(each["values"]): each["counts"].as_py() for each in pc.value_counts(worlds)}
