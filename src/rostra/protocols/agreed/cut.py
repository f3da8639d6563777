"""Choosing the survivors of a partial partition: the largest part of the view in which no server has isolated
another.

    a ─ b ─ c        a and c have isolated each other, b sees both: either a goes or c, and b stays

Every message says whom its sender has isolated, and a server whose link breaks sends one to all. That is
evidence, and no more: the coordinator of a failure keeps that part, and proposes to remove the rest. Links of
one cut break at different moments: so it waits until all that are to stay have lost the others, at most
`gather_s`.

Where we differ from the paper, and why: there every server isolates at once whom another isolated (V-091). In
a partial cut the servers that see both sides then obey both, and are left alone: with seven servers, three
parts in 26 of 80 runs of a model.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rostra.protocols.agreed.changes import ServerId

Accusations = Mapping[ServerId, frozenset[ServerId]]
"""Whom each server has isolated."""

EXACT_MAX: Final = 8
"""Of how many servers that must go the least number is found for sure: it takes 2 to the power of that, at
most."""

_Pairs = frozenset[tuple[ServerId, ServerId]]


def largest_part(
    view: Sequence[ServerId], accusations: Accusations, *, me: ServerId, must_stay: bool = False
) -> tuple[ServerId, ...]:
    """The largest part of the view, in order of rank, in which no server has isolated another. Of several the
    one with us in it, then the one of the most senior. With `must_stay`, the largest with us in it."""
    if not any(accusations.values()):
        return tuple(view)
    pairs = frozenset(
        [
            (accuser, accused)
            for accuser, all_accused in accusations.items()
            for accused in all_accused
            if accuser in view and accused in view and accuser != accused
        ]
    )
    gone = frozenset([other for pair in pairs if me in pair for other in pair if other != me])
    if not must_stay:
        gone = frozenset()
    pairs = _without(pairs, gone)
    covers: list[frozenset[ServerId]] = []
    for size in range(EXACT_MAX + 1):
        covers = list(_covers(pairs, size, view))
        if covers:
            break
    if not covers:
        covers = [_some_cover(pairs, view)]
    kept = [tuple([server for server in view if server not in cover | gone]) for cover in covers]
    return min(kept, key=lambda part: (me not in part, [view.index(server) for server in part]))


def _covers(pairs: _Pairs, size: int, view: Sequence[ServerId]) -> Iterator[frozenset[ServerId]]:
    """All sets of at most so many servers with one of each pair in them."""
    if not pairs:
        yield frozenset()
    elif _disjoint(pairs) <= size:
        for one in min(pairs, key=lambda pair: (view.index(pair[0]), view.index(pair[1]))):
            for rest in _covers(_without(pairs, frozenset([one])), size - 1, view):
                yield rest | {one}


def _disjoint(pairs: _Pairs) -> int:
    """So many pairs at least have no server in common: of each, one must go."""
    met: set[ServerId] = set()
    for one, other in pairs:
        if one not in met and other not in met:
            met |= {one, other}
    return len(met) // 2


def _some_cover(pairs: _Pairs, view: Sequence[ServerId]) -> frozenset[ServerId]:
    """First the one that is in the most pairs; of several, the most junior."""
    gone: frozenset[ServerId] = frozenset()
    while pairs:
        counts = Counter([server for pair in pairs for server in pair])
        worst = max(view, key=lambda server: (counts[server], view.index(server)))
        gone |= {worst}
        pairs = _without(pairs, gone)
    return gone


def _without(pairs: _Pairs, gone: frozenset[ServerId]) -> _Pairs:
    return frozenset([pair for pair in pairs if not gone.intersection(pair)])
