"""One broken promise, planted in one writer's rows: to see an audit find it."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.sample.pages import Block, Pages
from benchmarks.sample.places import Bools, Ints
from benchmarks.sample.script import PAUSE, SECOND, Script

PLANTS: Final = {
    "per-source-order": "the end of a membership is told as of before its beginning",
    "stable-truth": "a host is never told that a member left",
    "watch-complete": "a host is told twice, in fair weather, that a member left",
    "both-sides-told": "a host hears of a cut half a minute later than it may",
    "heals-alone": "a host is not told who came back after a cut",
    "why": "a host loses members and is not told on what grounds",
    "fifo-gap-free": "a receiver never gets some messages of a stream, and is not told",
    "smooth-join": "a stream stands still while somebody joins or leaves",
}

SPOKEN: Final = frozenset({"fifo-gap-free", "smooth-join"})
"""Those that only a history with talk can break."""


def plant(promise: str, pages: Pages, columns: Block, script: Script) -> tuple[Block, bool]:
    """These rows with the promise broken in them, if they give a chance to."""
    if pages.who.role != "agent":
        return columns, False
    kind = pages.kinds(columns)
    news = columns["news"] == 1 if "news" in columns else np.zeros(len(columns["at"]), dtype=bool)
    left = np.flatnonzero((kind == "left") & news & _in_fair_weather(columns["at"].astype(np.int64), script))
    match promise:
        case "per-source-order":
            for end in left:
                same = (columns["member"] == columns["member"][end]) & (kind == "joined")
                begins = np.flatnonzero(same)
                if len(begins):
                    return _with(columns, "stamp", int(end), int(columns["stamp"][begins[0]]) - 1), True
        case "stable-truth" if len(left):
            return _keep(columns, np.arange(len(kind)) != left[0]), True
        case "watch-complete" if len(left):
            again = {
                name: np.insert(values, left[0] + 1, values[left[0]]) for name, values in columns.items()
            }
            again["at"][left[0] + 1] += 1
            return _with(again, "news", int(left[0]) + 1, 0), True
        case "both-sides-told":
            return _late(columns, kind, news, script)
        case "heals-alone":
            merged = (
                (kind == "joined") & news & (columns["domain"] != -1) if "domain" in columns else kind == ""
            )
            if merged.any():
                first = np.flatnonzero(merged)[0]
                same = merged & (columns["at"] == columns["at"][first])
                return _keep(columns, ~same), True
        case "why":
            cut = np.flatnonzero(np.isin(kind, ("without", "only")) & news)
            if len(cut):
                return _with(columns, "what", int(cut[0]), -1), True
        case "fifo-gap-free":
            first = next(_side_by_side(columns, kind), None)
            if first is not None:
                return _keep(columns, np.arange(len(kind)) != first[0]), True
        case "smooth-join":
            return _stalled(columns, kind, script)
    return columns, False


def _late(columns: Block, kind: NDArray[np.generic], news: Bools, script: Script) -> tuple[Block, bool]:
    """Only a fault that lasts long enough leaves anybody in the dark for too long."""
    at = columns["at"].astype(np.int64)
    for fault in script.faults:
        begins, ends = script.pause(fault.begins) + PAUSE, script.pause(fault.ends)
        told = np.isin(kind, ("without", "only")) & (at >= begins) & (at < begins + 10 * SECOND)
        if ends - begins > 60 * SECOND and (told & news).any():
            late = np.where(told, at + 35 * SECOND, at)
            order = np.argsort(late, kind="stable")
            moved = {name: values[order] for name, values in columns.items()}
            moved["at"] = late[order]
            return moved, True
    return columns, False


def _side_by_side(columns: Block, kind: NDArray[np.generic]) -> Iterator[tuple[int, int]]:
    """Two deliveries of one stream to one receiver, with nothing else of it in between."""
    rows = np.flatnonzero(np.isin(kind, ("delivered", "recovered", "stream-started", "stream-ended")))
    last: dict[tuple[int, int], int] = {}
    for row in rows:
        story = (int(columns["member"][row]), int(columns["observers"][row]))
        if kind[row] == "recovered":  # it names no receiver: somebody's was lost
            last = {each: place for each, place in last.items() if each[0] != story[0]}
        elif kind[row] == "delivered":
            if story in last:
                yield last[story], int(row)
            last[story] = int(row)


STALLS: Final = 5
"""Now and then a link is overdue somewhere, which excuses one."""


def _stalled(columns: Block, kind: NDArray[np.generic], script: Script) -> tuple[Block, bool]:
    """Somebody else came or went between two deliveries, and the second was late."""
    at = columns["at"].astype(np.int64)
    clock = script.clock(script.at)
    late = columns.get("latency_us", at).copy()
    found = 0
    for before, row in _side_by_side(columns, kind):
        speaker, receiver = int(columns["member"][row]), int(columns["observers"][row]) - 2
        first, last = np.searchsorted(clock, (at[before] + 1, at[row]))
        who = script.session[first:last]
        others = (script.group[who] == script.group[speaker]) & ~np.isin(who, (speaker, receiver))
        if others.any():
            late[row] = 400_000
            found += 1
        if found == STALLS:
            break
    return {**columns, "latency_us": late}, found > 0


def _in_fair_weather(at: Ints, script: Script) -> Bools:
    """Between two moments at which the world settled, with nothing broken in between."""
    settled = np.array(script.settled)
    stormy = {int(np.searchsorted(settled, fault.begins)) for fault in script.faults}
    stormy |= {int(np.searchsorted(settled, fault.ends)) for fault in script.faults}
    clock = np.array([script.pause(each) + PAUSE for each in script.settled])
    place = np.searchsorted(clock, at)
    fair: Bools = ~np.isin(place, list(stormy)) & (place > 0) & (place < len(clock))
    return fair


def _with(columns: Block, name: str, row: int, value: int) -> Block:
    changed = columns[name].copy()
    changed[row] = value
    return {**columns, name: changed}


def _keep(columns: Block, rows: Bools) -> Block:
    return {name: values[rows] for name, values in columns.items()}
