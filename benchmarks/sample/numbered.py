"""Watches with numbers: after a list, every change that a host was told of, once more as the next one."""

import numpy as np

from benchmarks.sample.pages import Pages
from benchmarks.sample.places import Bools
from benchmarks.sample.stage import Stage


def give_numbers(pages: Pages, stage: Stage, epoch: int, which: Bools) -> None:
    """Of which of its groups a host's watcher is given changes with numbers. All else that it is told of them
    must be there."""
    words = stage.words
    told = pages.begun("absolute", "joined", "left", "without", "only")
    group, kind = told["group"].astype(np.int64), told["kind"].astype(np.int64)
    chosen = np.isin(group, stage.groups[which])
    is_list = kind == words["absolute"]
    listed = np.flatnonzero(chosen & is_list)
    empty = told["news"][listed] != 1
    pages.add(
        "snapshot",
        told["at"][listed].astype(np.int64),
        group=group[listed],
        observers=1,
        told=1,
        count=np.where(empty, 0, told["of"][listed].astype(np.int64)),
        period=epoch,
        number=0,
    )
    changes = np.flatnonzero(chosen & ~is_list & (told["news"] == 1))
    order = changes[np.argsort(group[changes], kind="stable")]
    in_order = group[order]
    first = np.flatnonzero(np.concatenate(([True], in_order[1:] != in_order[:-1]))) if len(order) else order
    begins = np.repeat(first, np.diff([*first, len(order)]))
    of = told["of"][order].astype(np.int64)
    pages.add(
        "changed",
        told["at"][order].astype(np.int64),
        group=in_order,
        member=np.where(of == 1, told["member"][order].astype(np.int64), -1),
        change=told["change"][order],
        observers=1,
        told=1,
        count=of,
        number=np.arange(len(order)) - begins + 1,
        cause=told["cause"][order],
    )
